//! Memory made ready before growth reaches it.
//!
//! The kernel zeroes memory when it is first touched, 2 MiB at a time where it gives large pages: 0.1 ms, and on a virtual
//! machine whose host has to find the memory tens of them. A thread touches what a growing table will come to next, so
//! that no write waits for it. It is far enough ahead not to be at the same pages as the writer, and ends with the pool.
//!
//! Not here: how far ahead (`space.rs`).
#![expect(unsafe_code, reason = "memory is made ready by madvise")]

use crate::io::{forked_since, forks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A range of memory to be made ready.
struct Range {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the thread that is given a range touches no byte of it itself; the kernel does, in ways that change none.
unsafe impl Send for Range {}

/// The thread that makes memory ready.
pub(super) struct Ahead {
    ranges: Option<SyncSender<Range>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    forks: u32,
}

impl Ahead {
    /// `None` where there can be no thread.
    pub(super) fn start() -> Option<Ahead> {
        // More than that many ranges behind, it is of no use.
        const WAITING_MAX: usize = 16;
        let (ranges, asked_for) = sync_channel(WAITING_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let builder = std::thread::Builder::new().name("splitpoint-memory".into());
        let thread = builder.spawn(move || make_ready(&asked_for, &stopped)).ok()?;
        Some(Ahead { ranges: Some(ranges), thread: Some(thread), stop, forks: forks() })
    }

    /// Asks for `bytes` bytes from `start` on. `false`: too much is asked for already, or this is a child of the process that
    /// started the thread.
    ///
    /// # Safety
    /// They are memory of a private mapping that stays for as long as this `Ahead`.
    pub(super) unsafe fn ask(&self, start: *mut u8, bytes: usize) -> bool {
        let ranges = self.ranges.as_ref().filter(|_| !forked_since(self.forks));
        ranges.is_some_and(|ranges| ranges.try_send(Range { start, bytes }).is_ok())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if forked_since(self.forks) {
            // The thread is not here, and may have held the channel's locks when the process was copied.
            std::mem::forget((self.ranges.take(), self.thread.take()));
            return;
        }
        self.ranges = None;
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn make_ready(ranges: &Receiver<Range>, stop: &AtomicBool) {
    // A large page at a time, so that the end of the pool need not wait.
    const STEP_BYTES: usize = 2 << 20;
    // Advice begins with a page, as the mapping does. Where pages are larger, some of it is refused, which does no harm.
    const PAGE_BYTES: usize = 4096;
    for Range { start, bytes } in ranges {
        let before = start.addr() % PAGE_BYTES;
        let (start, bytes) = (start.wrapping_sub(before), bytes + before);
        for at in (0..bytes).step_by(STEP_BYTES) {
            if stop.load(Relaxed) {
                return;
            }
            // SAFETY: within the range, which is mapped until this thread has ended (`ask`); the advice finds memory for
            // pages that have none and changes no content.
            #[cfg(target_os = "linux")]
            unsafe {
                libc::madvise(start.add(at).cast(), STEP_BYTES.min(bytes - at), libc::MADV_POPULATE_WRITE)
            };
        }
    }
}
