//! Makes bytes of the current segment ready before writers need them.
//!
//! The kernel zeroes and maps each page of a segment: 1 us for a new page, 0.4 us for one that was used before, and 15
//! us if a virtual machine's host must find the memory. Once a segment has several mebibytes, a thread does this ahead
//! of the writers. A writer that overtakes it makes the next bytes ready itself.
//!
//! The thread changes only zeros beyond all records, and reports no errors: the writer that needs the bytes gets the
//! error. It ends with the log.
//!
//! Not here: how bytes are made ready (`segment.rs`).

use super::segment::Segment;
use crate::io::{forked_since, forks};
use crate::pager::interleave::{spawn, step, task, uninterrupted, until_free};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

/// Offset in a segment from which on the thread works: a small table needs no thread.
const ASKED_FROM: u64 = 4 << 20;
/// Bytes that the thread keeps ready beyond those in use.
const AHEAD_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 8 << 20 };
/// Bytes that the thread makes ready before it lets a writer overtake.
const STEP_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 512 << 10 };

/// The bytes of the current segment that are ready.
pub(super) struct Preallocator {
    shared: Arc<Shared>,
    /// `None` inside if no thread could be started.
    thread: OnceLock<Option<JoinHandle<()>>>,
    forks: u32,
}

struct Shared {
    /// The current segment. Locked while bytes of it are made ready.
    segment: Mutex<Option<Arc<Segment>>>,
    /// Bytes of the segment that are ready. Changes only under the lock of `segment`.
    prepared: AtomicU64,
    /// The thread makes bytes ready up to here.
    wanted: AtomicU64,
    stop: AtomicBool,
}

impl Preallocator {
    pub(super) fn new() -> Preallocator {
        let shared = Shared {
            segment: Mutex::default(),
            prepared: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        Preallocator { shared: Arc::new(shared), thread: OnceLock::new(), forks: forks() }
    }

    /// Locks the current segment, to make bytes of it ready or to replace it. Makes the thread release the lock soon.
    pub(super) fn segment(&self) -> MutexGuard<'_, Option<Arc<Segment>>> {
        self.shared.wanted.store(0, Relaxed);
        until_free(&self.shared.segment);
        self.shared.segment.lock().expect("no panic while held")
    }

    /// Bytes of the current segment that are ready.
    pub(super) fn prepared(&self) -> u64 {
        self.shared.prepared.load(Acquire)
    }

    /// Notes how many bytes of `_segment` are ready.
    pub(super) fn set_prepared(&self, _segment: &mut Option<Arc<Segment>>, bytes: u64) {
        self.shared.prepared.store(bytes, Release);
    }

    /// Lets the thread continue. Writers have used `used` bytes of the current segment.
    pub(super) fn follow(&self, used: u64) {
        let in_model = task().is_some();
        if used < ASKED_FROM && !in_model {
            return;
        }
        self.shared.wanted.store(used + AHEAD_BYTES, Release);
        if in_model {
            let shared = self.shared.clone();
            let _ = spawn("log", move || while shared.prepare_more() {});
        } else if let Some(thread) = self.thread.get_or_init(|| start(&self.shared)) {
            thread.thread().unpark();
        }
    }
}

impl Drop for Preallocator {
    fn drop(&mut self) {
        let Some(Some(thread)) = self.thread.take() else { return };
        if forked_since(self.forks) {
            // The thread does not exist in a child.
            std::mem::forget(thread);
            return;
        }
        self.shared.stop.store(true, Release);
        thread.thread().unpark();
        let _ = thread.join();
    }
}

fn start(shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
    let shared = shared.clone();
    let work = move || {
        while !shared.stop.load(Acquire) {
            if !shared.prepare_more() {
                std::thread::park();
            }
        }
    };
    std::thread::Builder::new().name("splitpoint-log".into()).spawn(work).ok()
}

impl Shared {
    /// Makes some bytes ready. Returns false if less than a step is wanted.
    fn prepare_more(&self) -> bool {
        step();
        until_free(&self.segment);
        let held = self.segment.lock().expect("no panic while held");
        let Some(segment) = &*held else { return false };
        let from = self.prepared.load(Relaxed);
        let to = (from + STEP_BYTES).min(segment.capacity());
        // A writer must have made the first bytes ready before: those of a resumed segment do not start at its
        // beginning.
        if from == 0 || from >= to || to > self.wanted.load(Acquire) {
            return false;
        }
        if uninterrupted(|| segment.prepare(from, to)).is_err() {
            self.wanted.store(0, Relaxed);
            return false;
        }
        self.prepared.store(to, Release);
        true
    }
}
