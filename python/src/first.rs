//! A lower bound for the first pair of a table: a position in hash order before which there is no pair.
//!
//! `popitem` and `next(iter(table))` look for the first pair again and again. Without a bound each call would walk
//! over all buckets that the earlier calls have emptied.
//!
//! A scan raises the bound to the pair that it found, unless a write ended during the scan; a write lowers it. Before
//! the first scan, this costs a write one load. A removal leaves the bound unchanged, even if the table's length is 0
//! afterwards: pairs are counted only after they are stored, so a concurrent write can make the length 0 too early.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Default)]
pub struct First {
    /// Whether a scan has ever begun. Set before the scan reads, so a write that loads `false` ended before that.
    is_used: AtomicBool,
    bound: Mutex<Bound>,
}

#[derive(Clone, Copy, Default)]
pub struct Bound {
    pub position: u64,
    /// The number of writes that have ended.
    writes: u64,
}

impl First {
    /// Begins a scan for the first pair; returns where it starts.
    pub fn begin(&self) -> Bound {
        self.is_used.store(true, SeqCst);
        *self.bound.lock()
    }

    /// Records that the scan from `begun` found the first pair at `position`.
    pub fn found(&self, begun: Bound, position: u64) {
        let mut bound = self.bound.lock();
        if bound.writes == begun.writes {
            bound.position = position;
        }
    }

    /// Records the end of a write; `position` is that of its key, or the lowest at which pairs may now be.
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
