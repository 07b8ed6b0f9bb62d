//! The load: how full the buckets are, and so when the table grows or shrinks.
//!
//! The load counts bytes of slots and records, or pairs where the fill is set in pairs. Threads add to it in steps of
//! part of a page, so it is off by at most a page per thread.
//!
//! Source: Seltzer & Yigit 1991, equation (1) and "hybrid" splitting; docs/architecture.md, "Load".

use super::{Buckets, Totals, page};
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

impl Buckets {
    /// Bytes that a thread counts before it adds them to the load: a quarter of a page, or none where pairs count.
    pub(crate) fn load_step_bytes(&self) -> i64 {
        if self.fill.pairs.is_some() { 0 } else { self.page_bytes as i64 / 4 }
    }

    /// The load, and the load at which a table of `bucket_count` buckets grows, in the unit of the fill: pairs or
    /// bytes.
    #[inline]
    pub(super) fn load_and_limit(&self, bucket_count: u64) -> (u64, u64) {
        match self.fill.pairs {
            Some(limit) => (self.load.pairs(), bucket_count.saturating_mul(u64::from(limit))),
            None => {
                let capacity = page::capacity(self.page_bytes) as u64;
                let limit = bucket_count.saturating_mul(capacity) * u64::from(self.fill.percent) / 100;
                (self.load.bytes(), limit)
            }
        }
    }

    #[inline]
    pub(super) fn wants_split(&self, long_chain: bool) -> bool {
        let (load, limit) = self.load_and_limit(self.view().linear().bucket_count());
        // Splits cannot divide a chain of equal hashes: the table grows for one to twice the size, no more.
        load > limit || long_chain && load > limit / 2
    }

    /// Whether the load calls for a merge.
    #[inline]
    pub(super) fn wants_merge(&self) -> bool {
        let view = self.view();
        if view.max_bucket <= self.min_max_bucket.load(Relaxed) {
            return false;
        }
        let (load, limit) = self.load_and_limit(u64::from(view.max_bucket));
        load < limit / 2
    }
}
