//! Populates memory before growth reaches it.
//!
//! The kernel zeroes memory when it is first touched, 2 MiB at a time with large pages. That takes 0.1 ms, and tens of
//! ms on a virtual machine whose host must find the memory. A thread touches the memory that a growing table uses next,
//! so that no write waits for it. It works far enough ahead not to touch the writer's pages, and ends with the pool.
//!
//! Not here: how far ahead (`space/`).
#![expect(unsafe_code, reason = "memory is made ready by madvise")]

use crate::io::{forked_since, forks};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A range of memory to populate.
struct Range {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the receiving thread touches no byte of the range; only the kernel does, and it changes no content.
unsafe impl Send for Range {}

/// The work of the thread.
enum Request {
    Populate(Range),
    Run(Box<dyn FnOnce() + Send>),
}

/// The thread that populates memory.
pub(super) struct Populator {
    requests: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    forks: u32,
}

impl Populator {
    /// Starts the thread; `None` if no thread can be started.
    pub(super) fn start() -> Option<Populator> {
        // Further behind than this, the thread would populate memory that is already in use.
        const WAITING_MAX: usize = 16;
        let (sender, requests) = sync_channel(WAITING_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let builder = std::thread::Builder::new().name("splitpoint-memory".into());
        let thread = builder.spawn(move || make_ready(&requests, &stopped)).ok()?;
        Some(Populator { requests: Some(sender), thread: Some(thread), stop, forks: forks() })
    }

    /// Queues `bytes` bytes from `start` on. Returns false if the queue is full, or if this is a child of the process
    /// that started the thread.
    ///
    /// # Safety
    /// The bytes are memory of a mapping that outlives this `Populator`, whatever else is mapped over it in the
    /// meantime.
    pub(super) unsafe fn request(&self, start: *mut u8, bytes: usize) -> bool {
        self.send(Request::Populate(Range { start, bytes }))
    }

    /// Queues `work`, which allocates memory outside the pool. Returns false as `request` does.
    pub(super) fn run(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        self.send(Request::Run(work))
    }

    fn send(&self, request: Request) -> bool {
        let requests = self.requests.as_ref().filter(|_| !forked_since(self.forks));
        requests.is_some_and(|requests| requests.try_send(request).is_ok())
    }
}

impl Drop for Populator {
    fn drop(&mut self) {
        if forked_since(self.forks) {
            // The thread does not exist in a child, and may have held the channel's locks at the fork.
            std::mem::forget((self.requests.take(), self.thread.take()));
            return;
        }
        self.requests = None;
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn make_ready(requests: &Receiver<Request>, stop: &AtomicBool) {
    // One large page per call, so that closing the pool need not wait long.
    const STEP_BYTES: usize = 2 << 20;
    // Ranges must start at a page boundary, as the mapping does. If the system's pages are larger, the kernel refuses
    // some of them, which is harmless.
    const PAGE_BYTES: usize = 4096;
    for request in requests {
        let Range { start, bytes } = match request {
            Request::Populate(range) => range,
            Request::Run(work) => {
                work();
                continue;
            }
        };
        let before = start.addr() % PAGE_BYTES;
        let (start, bytes) = (start.wrapping_sub(before), bytes + before);
        for at in (0..bytes).step_by(STEP_BYTES) {
            if stop.load(Relaxed) {
                return;
            }
            // SAFETY: within the range, which is mapped until this thread has ended (`request`); the advice populates
            // pages that have no memory and changes no content.
            #[cfg(target_os = "linux")]
            unsafe {
                libc::madvise(start.add(at).cast(), STEP_BYTES.min(bytes - at), libc::MADV_POPULATE_WRITE)
            };
            #[cfg(not(target_os = "linux"))]
            let _ = start;
        }
    }
}
