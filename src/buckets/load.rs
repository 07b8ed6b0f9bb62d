//! The load: how full the buckets are.
//!
//! The load counts bytes of slots and records, or pairs if the fill is set in pairs. Each thread adds to it in steps of
//! part of a page, so it is off by at most a page per thread.
//!
//! Source: Seltzer & Yigit 1991, equation (1); docs/architecture.md, "Load". Not here: when the table grows or shrinks
//! (`split.rs`).

use super::sizes::Totals;
use std::sync::atomic::{AtomicI64, Ordering::*};

/// Pairs, and bytes of slots and records, of all buckets.
pub(crate) struct Load {
    pairs: AtomicI64,
    bytes: AtomicI64,
}

impl Load {
    pub(crate) fn new(totals: Totals) -> Load {
        let signed = |n: u64| AtomicI64::new(i64::try_from(n).unwrap_or(i64::MAX));
        Load { pairs: signed(totals.pairs), bytes: signed(totals.bucket_bytes) }
    }

    pub(crate) fn pairs(&self) -> u64 {
        u64::try_from(self.pairs.load(Relaxed)).unwrap_or(0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.load(Relaxed)).unwrap_or(0)
    }

    /// Adds a thread's own counts.
    pub(crate) fn add(&self, pairs: i64, bytes: i64) {
        self.pairs.fetch_add(pairs, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}
