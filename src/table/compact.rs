//! Compaction: makes the file as small as its content allows.
//!
//! The *service* of the uDatabase library, online. It merges the buckets that the load no longer needs, trims and
//! moves overflow pages and extents, moves groups of buckets from the end of the file to free space before it, then
//! cuts the file. The table is consistent after every step, and a crash leaves the last checkpoint.
//!
//! Not here: the steps themselves (`buckets/compact.rs`).

use super::handle::Table;
use crate::error::Result;
use std::ops::ControlFlow;

impl Table {
    /// Shrinks the table to what its pairs need, and the file to what the table needs.
    ///
    /// O(file). Other threads may go on; each waits for at most one bucket.
    ///
    /// # Errors
    /// Those of [`remove`](Self::remove) and [`sync`](Self::sync).
    pub fn compact(&self) -> Result<()> {
        self.compact_with(|_, _| ControlFlow::Continue(())).map(drop)
    }

    /// [`compact`](Self::compact) that calls `progress` from time to time with the buckets done, and the buckets in
    /// all, of the current pass; there are one to eight. A break ends it: the table has become as small as it got so
    /// far. Returns whether it was completed.
    ///
    /// # Errors
    /// Those of [`compact`](Self::compact).
    pub fn compact_with(&self, mut progress: impl FnMut(u64, u64) -> ControlFlow<()>) -> Result<bool> {
        if self.pager.has_written_through() {
            // Until it is complete, extents that the log refers to cannot be freed, and the file not be cut.
            self.checkpoint()?;
        }
        {
            let _inside = self.enter()?;
            self.buckets.shrink()?;
        }
        // Each pass moves the space beyond the end that the used units would fill; holes rarely fit exactly, so passes
        // repeat while they help.
        const PASSES_MAX: u32 = 8;
        for _ in 0..PASSES_MAX {
            let before = self.pager.frame_count();
            if self.compact_pass(&mut progress)?.is_break() {
                return self.checkpoint().map(|()| false);
            }
            if self.pager.frame_count() >= before {
                break;
            }
        }
        self.checkpoint().map(|()| true)
    }

    fn compact_pass(&self, progress: &mut impl FnMut(u64, u64) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        const BUCKETS_PER_REPORT: u32 = 256;
        let mut number = 0u32;
        loop {
            let last = self.buckets.view().max_bucket();
            if number > last {
                break;
            }
            if number.is_multiple_of(BUCKETS_PER_REPORT) && progress(number.into(), u64::from(last) + 1).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            {
                let _inside = self.enter()?;
                self.pager.prefer_low(|| self.buckets.compact_bucket(number))?;
            }
            number += 1;
            self.checkpoint_if_due();
        }
        for group in self.buckets.movable_groups() {
            let _alone = self.gate.close()?;
            self.buckets.move_group(group)?;
        }
        // A checkpoint in flight must not see the end of the file move.
        let _no_checkpoint = self.pager.checkpoint_lock().acquire()?;
        let _alone = self.gate.close()?;
        self.pager.trim().map(ControlFlow::Continue)
    }
}
