//! Detects that this process is a fork of the one that opened a file.
//!
//! A child made by `fork` has a copy of all memory but only one of the threads, and it shares the open files. A latch
//! may be held by a thread that does not exist in the child, and both processes would write to the files. So handles
//! refuse to work in a child. The C library calls a handler in each child, so the check costs a lookup one load; asking
//! for the process id would take a system call each time. A child made by the bare system call, without the C library,
//! is not detected.
//!
//! A child that exits without closing a handle keeps its mappings to the end. Valgrind's leak check then reads all of
//! them word by word, including the part of the log's mapping that is beyond the end of the file, where each read
//! raises a signal. That takes hours, but the child is not waiting for a lock. Use `--leak-check=no`, or close the
//! handle in the child.
#![expect(unsafe_code, reason = "pthread_atfork")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The number of forks between the first process and this one since the first call of [`forks`].
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Relaxed);
}

/// A number that differs in each child.
pub(crate) fn forks() -> u32 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler is a function of the program that lives as long as it does, and it only adds to an
        // atomic, which is allowed in a child of a process with threads. If there is no memory for it, forks are not
        // detected.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    FORKS.load(Relaxed)
}

/// Whether this is a child of the process in which [`forks`] returned `then`.
#[inline]
pub(crate) fn forked_since(then: u32) -> bool {
    FORKS.load(Relaxed) != then
}
