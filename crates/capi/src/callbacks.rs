//! Functions of the caller that the library calls.
//!
//! A function that unwinds (a C++ exception, a cancelled thread) is forbidden by the header; it is called as `C-unwind`
//! so that it ends the process with a message, and is not undefined.

use std::ffi::c_void;

/// `spt_hash_fn`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HashCallback(unsafe extern "C-unwind" fn(*mut c_void, *const c_void, usize) -> u64);

/// A caller's pointer for its own function, which may be called from any thread, as the header says.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY: the library only hands it back; the header tells the caller that its function runs in any thread.
unsafe impl Send for Context {}
// SAFETY: as above, also in several threads at once.
unsafe impl Sync for Context {}

impl HashCallback {
    /// The function with its context.
    pub(crate) fn with(self, context: *mut c_void) -> impl Fn(&[u8]) -> u64 + Send + Sync + 'static {
        let context = Context(context);
        move |key| {
            let context = &context;
            // SAFETY: the caller passed this function for this, and keeps its context while the table is open.
            unsafe { (self.0)(context.0, key.as_ptr().cast(), key.len()) }
        }
    }
}
