//! Threads with low-priority work: dictionaries check pages ahead of lookups this way (`dictionary/read/rest.rs`).
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "sched_setscheduler"))]

/// Lets the calling thread run only while a processor is idle or nearly so: for work that should not delay other
/// threads. It needs no permission; if the system has no such scheduling class, nothing changes.
pub(crate) fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        let least: libc::c_int = 0; // the one field of the kernel's sched_param
        // By number, because musl's function of this name does nothing.
        // SAFETY: the call reads `least`, which is ours; 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const least) };
    }
}
