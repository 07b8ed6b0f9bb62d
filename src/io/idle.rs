//! Threads whose work can wait: dictionaries check pages ahead of lookups that way (`dictionary/read/rest.rs`).
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "sched_setscheduler"))]

/// Lets the calling thread run only while a processor has nothing else to do, or little: for work that is not worth a
/// moment of another thread. It needs no permission; where the system has no such threads, nothing changes.
pub(crate) fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        let least: libc::c_int = 0; // the one field of the kernel's sched_param
        // By number: musl's function of this name does nothing.
        // SAFETY: the call reads `least`, which is ours; 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_IDLE, &raw const least) };
    }
}
