//! Splits and their reverse: how the table grows and shrinks by one bucket at a time.
//!
//! Hybrid growth, as in the paper: a table grows when its load exceeds the fill factor (controlled), or when a bucket
//! needs a second overflow page (uncontrolled). It always splits the next bucket in order, at most one per write. It
//! shrinks when the load falls below half of the fill factor; the paper's table does not shrink.
//!
//! ```text
//! split  source -> gather its records -> hash each key -> stay or move -> lay out both -> write overflow pages
//!        -> both primary pages -> max_bucket + 1 -> free the old overflow pages
//! ```
//!
//! Nothing changes until everything that can fail, including the user's hash function, has succeeded.
//!
//! Source: Seltzer & Yigit 1991, "The New Implementation". Not here: the arithmetic (`linear.rs`).

use super::address::View;
use super::bucket::LatchedBucket;
use super::gathered::Workspace;
use super::linear_hash::Buckets;
use super::page;
use crate::error::Result;
use crate::linear;
use crate::pager::interleave::step;
use crate::pager::words::Bytes;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, TryLockError};

impl Buckets {
    /// Splits or merges up to `count_max` buckets, as long as the load calls for it. Gives up when another thread is
    /// changing the structure.
    pub(crate) fn adjust(&self, is_removal: bool, mut long_chain: bool, count_max: usize) -> Result<()> {
        for _ in 0..count_max {
            match is_removal {
                true if self.wants_merge() => self.merge()?,
                false if self.wants_split(long_chain) => self.split()?,
                _ => break,
            };
            // One split for a long chain, however many pages were added to it.
            long_chain = false;
        }
        Ok(())
    }

    /// Grows the table for pairs that are about to be added, as long as no latch is contended.
    pub(crate) fn grow_for(&self, bytes: u64, pairs: u64) {
        let wants_more = || {
            let (load, limit) = self.load_and_limit(self.view().linear().bucket_count());
            let more = if self.fill.pairs.is_some() { pairs } else { bytes };
            load + more > limit
        };
        while wants_more() && self.split().unwrap_or(false) {}
    }

    fn try_structure(&self) -> Option<MutexGuard<'_, Workspace>> {
        step();
        match self.structure.try_lock() {
            Ok(guard) => Some(guard),
            // The user's hash function panicked in an earlier split, which changed nothing.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Splits the next bucket in order. Returns false if another thread holds its latch.
    fn split(&self) -> Result<bool> {
        let Some(mut workspace) = self.try_structure() else { return Ok(false) };
        let Workspace { gathered, layouts, primaries } = &mut *workspace;
        let view = self.view();
        let mut grown = view.linear();
        let Some(split) = grown.split() else { return Ok(false) };
        let linear::Split { source: number, new } = split;
        self.allocate_group(new)?;
        let (source_frame, source_start) = self.location(number);
        let (target_frame, target_start) = self.location(new);
        let Some(frame) = self.pager.try_write(source_frame)? else { return Ok(false) };
        let mut target = if target_frame == source_frame {
            None
        } else {
            let Some(target) = self.pager.try_write(target_frame)? else { return Ok(false) };
            Some(target)
        };
        let mut source = LatchedBucket::new(self, number, frame, source_start);
        self.gather(source.page(), gathered)?;
        self.divide(gathered, split, layouts, primaries)?;
        let (old, added) = primaries.split_at(self.page_bytes);

        // Nothing fails from here on. Under the latches no thread follows references to the old pages, so the order of
        // the steps does not matter.
        source.primary.bytes_mut().store(0, old);
        self.note_expected(number, old);
        self.note_expected(new, added);
        let frame = target.as_mut().unwrap_or(source.primary.frame_mut());
        frame.part(target_start..target_start + self.page_bytes).store(0, added);
        self.set_view(View::new(new, view.version()));
        drop(target);
        self.free_overflow(gathered.overflow_pages());
        drop(source);
        self.activity.count_split();
        self.prefetch_split(grown);
        Ok(true)
    }

    /// Prefetches the pages of the next split after `state`.
    fn prefetch_split(&self, mut state: linear::State) {
        // Larger pages are not prefetched: fetching one takes less time than splitting it, and would evict other data
        // from the cache.
        const PAGE_BYTES_MAX: usize = 4096;
        let Some(linear::Split { source, new }) = state.split() else { return };
        if self.page_bytes > PAGE_BYTES_MAX || linear::group(new).1 == 0 {
            return; // or its group does not exist yet
        }
        self.prefetch_expected(source);
        for bucket in [source, new] {
            let (frame, start) = self.location(bucket);
            self.pager.pool().frame(frame).prefetch(start, self.page_bytes);
        }
    }

    /// Merges the last bucket into the one it was split from. Returns false if another thread holds a latch.
    fn merge(&self) -> Result<bool> {
        let Some(mut workspace) = self.try_structure() else { return Ok(false) };
        self.merge_with(&mut workspace)
    }

    /// [`merge`](Self::merge) by the thread that holds the structure lock.
    pub(super) fn merge_with(&self, workspace: &mut Workspace) -> Result<bool> {
        let Workspace { gathered, layouts: [merged, _], primaries } = workspace;
        let view = self.view();
        let mut shrunk = view.linear();
        let Some(linear::Split { source: number, new: last }) = shrunk.merge() else { return Ok(false) };
        let (target_frame, target_start) = self.location(number);
        let (last_frame, last_start) = self.location(last);
        let Some(mut target) = self.pager.try_write(target_frame)? else { return Ok(false) };
        let mut source = if last_frame == target_frame {
            None
        } else {
            let Some(source) = self.pager.try_write(last_frame)? else { return Ok(false) };
            Some(source)
        };
        let range = last_start..last_start + self.page_bytes;
        self.gather(&target[target_start..target_start + self.page_bytes], gathered)?;
        self.gather_more(&source.as_ref().unwrap_or(&target)[range.clone()], gathered)?;
        self.lay_out(gathered, shrunk.level(number), merged, primaries)?;

        target.part(target_start..target_start + self.page_bytes).store(0, primaries);
        // Also needed by salvage, which recognizes frames of buckets by pages that are either valid or all zeros.
        source.as_mut().unwrap_or(&mut target).part(range).fill(0..self.page_bytes, 0);
        // A new version, so that a reader of the removed bucket notices even if a bucket of that number comes back.
        self.set_view(View::new(shrunk.max_bucket, view.version().wrapping_add(1)));
        drop((source, target));
        self.free_overflow(gathered.overflow_pages());
        self.free_group(last)?;
        self.activity.count_merge();
        Ok(true)
    }
}

/// When the table grows or shrinks.
impl Buckets {
    /// Bytes that a thread counts before it adds them to the load: a quarter of a page, or 0 if the fill is set in
    /// pairs.
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
        // Splits cannot divide a chain of equal hashes, so long chains at most double the size of the table.
        load > limit || long_chain && load > limit / 2
    }

    /// Whether the load calls for a merge.
    #[inline]
    pub(super) fn wants_merge(&self) -> bool {
        let view = self.view();
        if view.max_bucket() <= self.min_max_bucket.load(Relaxed) {
            return false;
        }
        let (load, limit) = self.load_and_limit(u64::from(view.max_bucket()));
        load < limit / 2
    }

    /// Bytes of primary pages beyond what the load needs.
    pub(crate) fn slack_bytes(&self) -> u64 {
        let bucket_count = self.view().linear().bucket_count();
        let (load, limit) = self.load_and_limit(bucket_count);
        let bytes = u128::from(bucket_count) * self.page_bytes as u128;
        (bytes * u128::from(limit.saturating_sub(load)) / u128::from(limit.max(1))) as u64 // at most `bytes`
    }

    /// Merges up to `count` buckets while the load needs at most seven eighths of them. Returns how many were merged.
    /// Ends early if another thread is changing the structure.
    pub(crate) fn merge_slack(&self, count: u32) -> Result<u32> {
        let has_slack = || {
            let max_bucket = self.view().max_bucket();
            let (load, limit) = self.load_and_limit(u64::from(max_bucket));
            max_bucket > 0 && load < limit - limit / 8
        };
        let mut merged = 0;
        while merged < count && has_slack() && self.merge()? {
            merged += 1;
        }
        Ok(merged)
    }
}
