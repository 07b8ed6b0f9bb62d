//! Callbacks: functions of the caller that the library calls.
//!
//! The header forbids functions that unwind (a C++ exception, a cancelled thread). They are called as `C-unwind`, so
//! that unwinding ends the process with a message instead of being undefined behavior.
//!
//! Where a callback's failure cannot be returned through the library, it becomes a panic with [`Abandoned`], which
//! `border` turns back into the failure.

use crate::arguments::Bytes;
use crate::status::{Failure, Result};
use splitpoint::ErrorKind;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::panic::resume_unwind;

/// A panic that carries a failure to the border. No message is printed for it.
pub(crate) struct Abandoned(pub Failure);

fn abandon(failure: Failure) -> ! {
    resume_unwind(Box::new(Abandoned(failure)))
}

/// The failure of a call that the caller's function cancelled.
pub(crate) fn stopped() -> Failure {
    Failure::kind(ErrorKind::Stopped, "cancelled by the caller's function")
}

/// A caller's pointer for its own function.
#[derive(Clone, Copy)]
pub(crate) struct Context(pub *mut c_void);

// SAFETY: the library only passes it back; the header says which functions run in other threads.
unsafe impl Send for Context {}
// SAFETY: as above; the header also says which functions run in several threads at a time.
unsafe impl Sync for Context {}

/// `spt_hash_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HashCallback(unsafe extern "C-unwind" fn(*mut c_void, *const c_void, usize) -> u64);

impl HashCallback {
    /// The function with its context.
    pub(crate) fn with(self, context: *mut c_void) -> impl Fn(&[u8]) -> u64 + Send + Sync + 'static {
        let context = Context(context);
        move |key| {
            let context = &context;
            // SAFETY: the caller passed this function for this use, and keeps its context valid while the table is
            // open.
            unsafe { (self.0)(context.0, key.as_ptr().cast(), key.len()) }
        }
    }
}

/// `spt_update_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct UpdateCallback(unsafe extern "C-unwind" fn(*mut c_void, *const Bytes, *mut Bytes) -> c_int);

const KEEP: c_int = 0;
const STORE: c_int = 1;
const REMOVE: c_int = 2;
const STOP: c_int = 3;

impl UpdateCallback {
    pub(crate) fn required(function: Option<UpdateCallback>) -> Result<UpdateCallback> {
        function.ok_or_else(|| Failure::invalid("the function is NULL"))
    }

    /// The function with its context. It abandons the work if the function asks for that or returns an unknown number.
    pub(crate) fn with(self, context: *mut c_void) -> impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 'static {
        move |old| {
            let old_bytes = old.map(Bytes::of);
            let mut new = Bytes::NONE;
            let old_pointer = old_bytes.as_ref().map_or(std::ptr::null(), |bytes| bytes as *const Bytes);
            // SAFETY: the caller passed this function for this use; both pointers are valid during the call.
            match unsafe { (self.0)(context, old_pointer, &mut new) } {
                KEEP => old.map(<[u8]>::to_vec),
                STORE => Some(new.value().unwrap_or_else(|failure| abandon(failure)).to_vec()),
                REMOVE => None,
                STOP => abandon(stopped()),
                other => abandon(Failure::invalid(format!("the function returned {other}, expected SPT_UPDATE_..."))),
            }
        }
    }
}

/// `spt_progress_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ProgressCallback(unsafe extern "C-unwind" fn(*mut c_void, u64, u64) -> c_int);

impl ProgressCallback {
    /// The function with its context; it may run in any thread. Without a function the work is never cancelled.
    pub(crate) fn with(
        function: Option<ProgressCallback>,
        context: *mut c_void,
    ) -> impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static {
        let context = Context(context);
        move |done, all| {
            let context = &context;
            // SAFETY: the caller passed this function for this use.
            let answer = function.map_or(0, |function| unsafe { (function.0)(context.0, done, all) });
            flow(answer)
        }
    }
}

/// Converts a caller's answer: 0 means continue.
fn flow(answer: c_int) -> ControlFlow<()> {
    if answer == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// `spt_fault_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct FaultCallback(unsafe extern "C-unwind" fn(*mut c_void, *const c_char, *const c_char) -> c_int);

impl FaultCallback {
    pub(crate) fn call(self, context: *mut c_void, place: &str, what: &str) -> ControlFlow<()> {
        let (place, what) = (text(place), text(what));
        // SAFETY: the caller passed this function for this use; both strings live during the call.
        flow(unsafe { (self.0)(context, place.as_ptr(), what.as_ptr()) })
    }
}

/// A C string; `text` is cut at its first zero byte.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or("")).expect("split at zero bytes")
}

/// `spt_salvage_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SalvageCallback(unsafe extern "C-unwind" fn(*mut c_void, *const Found) -> c_int);

/// `spt_found`.
#[repr(C)]
pub(crate) struct Found {
    pub kind: c_int,
    pub verified: c_int,
    pub key: Bytes,
    pub value: Bytes,
    pub place: *const c_char,
    pub what: *const c_char,
    pub done: u64,
    pub all: u64,
}

impl SalvageCallback {
    pub(crate) fn required(function: Option<SalvageCallback>) -> Result<SalvageCallback> {
        function.ok_or_else(|| Failure::invalid("the function is NULL"))
    }

    pub(crate) fn call(self, context: *mut c_void, found: &Found) -> ControlFlow<()> {
        // SAFETY: the caller passed this function for this use; what `found` points to lives during the call.
        flow(unsafe { (self.0)(context, found) })
    }
}

/// `spt_next_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct NextCallback(unsafe extern "C-unwind" fn(*mut c_void, *mut Bytes, *mut Bytes) -> c_int);

impl NextCallback {
    pub(crate) fn required(function: Option<NextCallback>) -> Result<NextCallback> {
        function.ok_or_else(|| Failure::invalid("the function is NULL"))
    }

    /// Calls the function for its next pair, and `take` with it; `false` after the last.
    pub(crate) fn call(self, context: *mut c_void, take: impl FnOnce(&[u8], &[u8]) -> Result<()>) -> Result<bool> {
        let (mut key, mut value) = (Bytes::NONE, Bytes::NONE);
        // SAFETY: the caller passed this function for this use; both locations are valid during the call.
        match unsafe { (self.0)(context, &mut key, &mut value) } {
            0 => take(key.key()?, value.value()?).map(|()| true),
            1 => Ok(false),
            _ => Err(stopped()),
        }
    }
}

/// `spt_place_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct PlaceCallback(unsafe extern "C-unwind" fn(*mut c_void, u64, *mut c_char, usize));

/// The longest name of a place in bytes, with its zero byte.
const PLACE_BYTES: usize = 256;

impl PlaceCallback {
    pub(crate) fn with(self, context: *mut c_void) -> impl Fn(u64) -> String + Send + Sync + 'static {
        let context = Context(context);
        move |place| {
            let context = &context;
            let mut name = [0u8; PLACE_BYTES];
            // SAFETY: the caller passed this function for this use; it writes at most the capacity it is given.
            unsafe { (self.0)(context.0, place, name.as_mut_ptr().cast(), PLACE_BYTES) };
            name[PLACE_BYTES - 1] = 0;
            let name = CStr::from_bytes_until_nul(&name).expect("its last byte is zero");
            use std::os::unix::ffi::OsStrExt;
            OsStr::from_bytes(name.to_bytes()).to_string_lossy().into_owned()
        }
    }
}
