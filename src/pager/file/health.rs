//! Whether a handle may still write. A failed write or sync poisons it, because the state of the disk is then unknown.
//!
//! A checkpoint that finds no room on the disk does not poison the handle: nothing has changed. If the cache needs a
//! checkpoint, no write begins before one has succeeded, so that memory stays bounded; each write tries again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

#[derive(Default)]
pub(in crate::pager) struct Health {
    state: AtomicU8,
    reason: Mutex<String>,
    /// The number of writes until a checkpoint that is due but could not begin is tried again.
    countdown: AtomicU32,
}

const SOUND: u8 = 0;
/// The cache needs a checkpoint, for which the disk has no room.
const NO_ROOM: u8 = 1;
const POISONED: u8 = 2;
const READ_ONLY: u8 = 3;

impl Health {
    /// Makes a handle that only reads refuse writes, once the log is replayed.
    pub(in crate::pager) fn end_writes(&self) {
        let _ = self.state.compare_exchange(SOUND, READ_ONLY, AcqRel, Relaxed);
    }

    /// Reverts [`end_writes`](Self::end_writes) for a replay of what was added to the log.
    pub(in crate::pager) fn begin_writes(&self) {
        let _ = self.state.compare_exchange(READ_ONLY, SOUND, AcqRel, Relaxed);
    }

    /// Makes the handle refuse all further writes. The first reason is kept. Returns whether this is the first.
    pub(in crate::pager) fn poison(&self, reason: &str) -> bool {
        let mut kept = self.reason.lock().expect("no panic while held");
        let is_first = self.state.swap(POISONED, AcqRel) != POISONED;
        if is_first {
            reason.clone_into(&mut kept);
        }
        is_first
    }

    #[inline]
    pub(in crate::pager) fn is_sound(&self) -> bool {
        self.state.load(Relaxed) == SOUND
    }

    #[inline]
    pub(super) fn is_poisoned(&self) -> bool {
        self.state.load(Relaxed) == POISONED
    }

    pub(in crate::pager) fn reason(&self) -> String {
        self.reason.lock().expect("no panic while held").clone()
    }

    /// Called if a checkpoint that is due could not begin.
    pub(in crate::pager) fn put_off_checkpoint(&self, cache_needs_it: bool) {
        // A failed attempt creates and removes a file, which takes as long as several hundred writes.
        const WRITES: u32 = 10_000;
        self.countdown.store(WRITES, Relaxed);
        if cache_needs_it {
            let _ = self.state.compare_exchange(SOUND, NO_ROOM, AcqRel, Relaxed);
        }
    }

    /// Counts one write. Returns true if more writes must come before the next attempt.
    #[allow(deprecated, reason = "the new name, `try_update`, is newer than the oldest Rust that is supported")]
    pub(in crate::pager) fn counts_down(&self) -> bool {
        self.countdown.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Called when a checkpoint has begun, or the cache has room without one.
    pub(in crate::pager) fn let_writes_begin(&self) {
        self.countdown.store(0, Relaxed);
        let _ = self.state.compare_exchange(NO_ROOM, SOUND, AcqRel, Relaxed);
    }
}
