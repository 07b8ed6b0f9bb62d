//! Whether a thread has waited for the disk during a read that took long.
//!
//! The clock alone cannot tell: a time slice of another program takes as long as a disk, and so does a page that the
//! host of a virtual machine must allocate first. But only a thread that waits gives up the processor voluntarily, and
//! Linux counts that per thread. Other waits since the last query count as well. On other systems every long read
//! counts as a wait.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "getrusage"))]

use std::time::{Duration, Instant};

/// Whether this thread has probably waited since `start`: at least `least` has passed, and the thread has waited since
/// its last query. Makes a system call only if that much time has passed.
#[inline]
pub(crate) fn has_waited(start: Instant, least: Duration) -> bool {
    start.elapsed() >= least && has_waited_again()
}

/// Whether this thread has waited since the last call, as far as is known.
#[cfg(target_os = "linux")]
#[cold]
fn has_waited_again() -> bool {
    use std::cell::Cell;

    thread_local! {
        static WAITS: Cell<libc::c_long> = const { Cell::new(0) };
    }
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for what the call writes. It starts as zeros, a valid value, and stays so if the call
    // fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    WAITS.replace(usage.ru_nvcsw) != usage.ru_nvcsw
}

#[cfg(not(target_os = "linux"))]
fn has_waited_again() -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_slow_lookup_is_a_wait_if_the_thread_yielded_the_processor() {
        const LEAST: Duration = Duration::from_millis(2);
        let _ = has_waited(Instant::now(), Duration::ZERO);
        let start = Instant::now();
        while start.elapsed() < 2 * LEAST {
            std::hint::spin_loop();
        }
        assert!(!has_waited(start, LEAST), "it was busy all the time");
        let start = Instant::now();
        std::thread::sleep(2 * LEAST);
        assert!(!has_waited(start, Duration::from_secs(3600)), "it waited shorter than that");
        assert!(has_waited(start, LEAST), "it slept");
        assert!(!has_waited(start, LEAST), "that was told before");
    }
}
