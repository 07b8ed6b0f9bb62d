//! Memory that the caller owns, and a buffer for each thread.
//!
//! The caller's memory is from malloc, so that C's tools recognize it, and is freed by `spt_free`.

use crate::status::{Failure, Result};
use splitpoint::ErrorKind;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;

/// An allocation that is freed when dropped, unless [`into_c`](Allocation::into_c) passes it to C.
pub(crate) struct Allocation {
    start: *mut u8,
    len: usize,
}

impl Allocation {
    /// A copy of `bytes`, followed by a zero byte.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Allocation> {
        let mut copy = Allocation::new(bytes.len() + 1)?;
        let (place, zero) = copy.bytes().split_at_mut(bytes.len());
        place.copy_from_slice(bytes);
        zero[0] = 0;
        Ok(copy)
    }

    /// A copy of `elements`, which must not contain pointers to anything that is dropped.
    pub(crate) fn array<T: Copy>(elements: &[T]) -> Result<Allocation> {
        let copy = Allocation::new(size_of_val(elements))?;
        // SAFETY: `copy` is new, has as many bytes as the elements, and is aligned for any type.
        unsafe { ptr::copy_nonoverlapping(elements.as_ptr().cast(), copy.start, size_of_val(elements)) };
        Ok(copy)
    }

    /// `len` bytes of zeros, aligned for any type; at least one.
    pub(crate) fn new(len: usize) -> Result<Allocation> {
        let len = len.max(1);
        // SAFETY: calloc accepts any sizes, and returns NULL if there is not enough memory.
        let start = unsafe { libc::calloc(1, len) };
        if start.is_null() {
            return Err(Failure::kind(
                ErrorKind::OutOfMemory,
                format!("{len} bytes for a result could not be allocated"),
            ));
        }
        Ok(Allocation { start: start.cast(), len })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start` has `len` bytes, which calloc has initialized and which only this allocation uses.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// The pointer, which the caller must free with `spt_free`.
    pub(crate) fn into_c(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).start.cast()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: from calloc, and freed once, as `into_c` forgets it.
        unsafe { libc::free(self.start.cast()) };
    }
}

/// Memory that this library returned to C.
#[repr(transparent)]
pub(crate) struct Owned(*mut c_void);

#[unsafe(no_mangle)]
extern "C" fn spt_free(memory: Owned) {
    // SAFETY: the caller passes NULL or a pointer returned by a function of the header, all of which are from calloc.
    unsafe { libc::free(memory.0) };
}

/// A thread's buffer, which holds a value while it is copied to the caller's buffer.
struct Scratch {
    /// Whether a call is using it. A panic leaves it set; later calls of the thread then allocate instead.
    busy: Cell<bool>,
    bytes: UnsafeCell<Vec<u8>>,
}

thread_local! {
    static SCRATCH: Scratch = const { Scratch { busy: Cell::new(false), bytes: UnsafeCell::new(Vec::new()) } };
}

/// The memory of larger values is freed after the call.
const SCRATCH_BYTES_MAX: usize = 1 << 16;

/// Calls `f` with a buffer that keeps its memory for the thread's next call. It may contain data of an earlier call.
#[inline]
pub(crate) fn with_scratch<T>(f: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    // A destructor of the thread may call this after the buffer was destroyed.
    let scratch = SCRATCH.try_with(ptr::from_ref).unwrap_or(ptr::null());
    // SAFETY: it belongs to this thread, which is in this call, so its destructor has not run yet.
    let scratch = unsafe { scratch.as_ref() }.filter(|scratch| !scratch.busy.get());
    let mut own;
    let bytes = match scratch {
        Some(scratch) => {
            scratch.busy.set(true);
            // SAFETY: only this thread uses it, and no other call on the thread does: a nested call, such as from the
            // caller's hash function inside `f`, finds `busy` set.
            unsafe { &mut *scratch.bytes.get() }
        }
        None => {
            own = Vec::new();
            &mut own
        }
    };
    let result = f(bytes);
    if let Some(scratch) = scratch {
        if bytes.capacity() > SCRATCH_BYTES_MAX {
            shrink(bytes);
        }
        scratch.busy.set(false);
    }
    result
}

#[cold]
fn shrink(bytes: &mut Vec<u8>) {
    *bytes = Vec::new();
}

/// The pointer result of a call without a value.
pub(crate) const NOTHING: *mut c_void = ptr::null_mut();
