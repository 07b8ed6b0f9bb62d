//! Memory that was freed, given back to the system.
//!
//! The allocator of glibc keeps what is freed, for the thread that had it. A build frees most of its memory between its
//! phases and then allocates as much again in other threads, so without this it would need up to twice of it. Measured
//! with 100 million pairs in 256 MiB: docs/architecture.md, "Dictionaries".
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "malloc_trim"))]

/// Gives free memory back, where the allocator is glibc's; takes some milliseconds.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it takes a number and no pointer, any thread may call it at any time, and it touches only memory of
        // the allocator that is free.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}
