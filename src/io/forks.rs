//! Is this still the process that opened the file?
//!
//! A child made by `fork` has a copy of all memory but only one of the threads, and shares the files: a latch may be held
//! there by nobody, and both would write. So handles refuse in a child. The C library calls us in each child, which costs
//! a lookup one load; to ask for the process number each time would be a system call. A child made by the bare system
//! call, past the C library, is not noticed.
#![expect(unsafe_code, reason = "pthread_atfork")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Forks between the first process and this one since the first call of [`forks`].
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
}

/// A number that is another one in each child.
pub(crate) fn forks() -> u32 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler is a function of the program that lives as long as it does, and it only adds to an atomic,
        // which is allowed in a child of a process with threads. Without memory for it forks are not noticed.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Relaxed)
}

/// Are we in a child of the process in which [`forks`] gave `then`?
#[inline]
pub(crate) fn forked_since(then: u32) -> bool {
    FORKS.load(Relaxed) != then
}
