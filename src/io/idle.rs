//! Threads whose work can wait.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "sched_setscheduler"))]

/// Lets the calling thread run only while a processor has nothing else to do, or little: for work that is not worth a
/// moment of another thread. It needs no permission; where the system has no such threads, nothing changes.
pub(crate) fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        let least = libc::sched_param { sched_priority: 0 };
        // SAFETY: `least` is ours; 0 is the calling thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const least) };
    }
}
