//! Whether a handle may still write. A failed write or sync poisons it: what the disk holds is then unknown.
//!
//! A checkpoint that finds no room on the disk does not: nothing has changed. If the cache needs one, no write begins
//! before it does, so that memory stays bounded; each of them tries again.

use crate::planted::{Bug, planted};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::*};

#[derive(Default)]
pub(super) struct Health {
    state: AtomicU8,
    reason: Mutex<String>,
    /// Writes until a checkpoint that is due, and could not begin, is tried again.
    countdown: AtomicU32,
}

const SOUND: u8 = 0;
/// The cache has no room before a checkpoint, for which the disk has none.
const NO_ROOM: u8 = 1;
const POISONED: u8 = 2;

impl Health {
    /// No more writes from here on. The first reason is kept.
    pub(super) fn poison(&self, reason: &str) {
        if planted(Bug::NotPoisoned) {
            return;
        }
        let mut kept = self.reason.lock().expect("no panic while held");
        if self.state.swap(POISONED, AcqRel) != POISONED {
            reason.clone_into(&mut kept);
        }
    }

    #[inline]
    pub(super) fn is_sound(&self) -> bool {
        self.state.load(Relaxed) == SOUND
    }

    #[inline]
    pub(super) fn is_poisoned(&self) -> bool {
        self.state.load(Relaxed) == POISONED
    }

    pub(super) fn reason(&self) -> String {
        self.reason.lock().expect("no panic while held").clone()
    }

    /// A checkpoint that is due could not begin.
    pub(super) fn put_off_checkpoint(&self, cache_needs_it: bool) {
        // An attempt creates and removes a file, which takes as long as some hundred writes.
        const WRITES: u32 = 10_000;
        self.countdown.store(WRITES, Relaxed);
        if cache_needs_it {
            let _ = self.state.compare_exchange(SOUND, NO_ROOM, AcqRel, Relaxed);
        }
    }

    /// Whether more writes are to come before the next attempt. Counts one.
    pub(super) fn counts_down(&self) -> bool {
        self.countdown.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// A checkpoint has begun, or the cache has room without one.
    pub(super) fn let_writes_begin(&self) {
        self.countdown.store(0, Relaxed);
        let _ = self.state.compare_exchange(NO_ROOM, SOUND, AcqRel, Relaxed);
    }
}
