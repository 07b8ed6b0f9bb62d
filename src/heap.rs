//! Returns freed memory to the system.
//!
//! The allocator of glibc keeps freed memory for the thread that freed it. A build of a dictionary frees most of its
//! memory between its phases and then allocates as much again in other threads, so without this it would need up to
//! twice the memory. Measured with 100 million pairs in 256 MiB: docs/architecture.md, "Dictionaries". A checkpoint
//! frees the frames that writers saved for it: 240 MB in a table of 700 MB that grew by appends.
#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "malloc_trim"))]

/// Returns free memory to the system if the allocator is glibc's; takes some milliseconds.
pub(crate) fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the call takes a number and no pointer, any thread may call it at any time, and it touches only free
        // memory of the allocator.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}
