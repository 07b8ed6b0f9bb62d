//! Where the first pair of a table can be: a position in hash order that no pair is before.
//!
//! `popitem` and `next(iter(table))` ask for the first pair again and again. Without a bound each call would pass all
//! buckets that the calls before have emptied.
//!
//! A scan may raise the bound to the pair that it found unless a write ended in the meantime; a write lowers it. Until
//! the first scan, a write costs one load.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Default)]
pub struct First {
    /// Whether a scan has begun. Stored before the scan reads: a write that loads `false` ended before that.
    is_used: AtomicBool,
    bound: Mutex<Bound>,
}

#[derive(Clone, Copy, Default)]
pub struct Bound {
    pub position: u64,
    /// How many writes have ended.
    writes: u64,
}

impl First {
    /// Where a scan for the first pair begins.
    pub fn begin(&self) -> Bound {
        self.is_used.store(true, SeqCst);
        *self.bound.lock()
    }

    /// Where it began, if ever.
    pub fn begun(&self) -> Option<Bound> {
        self.is_used.load(SeqCst).then(|| *self.bound.lock())
    }

    /// Notes that the scan from `begun` found the first pair at `position`.
    pub fn found(&self, begun: Bound, position: u64) {
        let mut bound = self.bound.lock();
        if bound.writes == begun.writes {
            bound.position = position;
        }
    }

    /// Notes a write that ended, of a key at the given position, or after which pairs may be from there on.
    #[inline]
    pub fn written(&self, position: impl FnOnce() -> u64) {
        if self.is_used.load(SeqCst) {
            let position = position();
            let mut bound = self.bound.lock();
            bound.position = bound.position.min(position);
            bound.writes += 1;
        }
    }
}
