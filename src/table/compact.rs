//! Compaction: makes the file as small as its content allows.
//!
//! The *service* of the uDatabase library, online. It merges the buckets that the load no longer needs, trims and
//! moves overflow pages and extents, moves groups of buckets from the end of the file to free space before it, then
//! cuts the file. The table is consistent after every step, and a crash leaves the last checkpoint.
//!
//! Not here: the steps themselves (`buckets/compact.rs`).

use super::handle::Table;
use crate::error::Result;

impl Table {
    /// Shrinks the table to what its pairs need, and the file to what the table needs.
    ///
    /// O(file). Other threads may go on; each waits for at most one bucket.
    ///
    /// # Errors
    /// Those of [`remove`](Self::remove) and [`sync`](Self::sync).
    pub fn compact(&self) -> Result<()> {
        {
            let _inside = self.enter()?;
            self.buckets.shrink()?;
        }
        // Each pass moves the space beyond the end that the used units would fill; holes rarely fit exactly, so passes
        // repeat while they help.
        const PASSES_MAX: u32 = 8;
        for _ in 0..PASSES_MAX {
            let before = self.pager.frame_count();
            self.compact_pass()?;
            if self.pager.frame_count() >= before {
                break;
            }
        }
        self.checkpoint()
    }

    fn compact_pass(&self) -> Result<()> {
        let mut number = 0;
        while number <= self.buckets.view().max_bucket {
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
        self.pager.trim()
    }
}
