//! Compaction: the smallest file for what is in it.
//!
//! The *service* of the uDatabase library, online: buckets that the load no longer asks for are merged away, overflow
//! pages and extents lose their slack and move, and bucket groups move, from the end of the file to free room before
//! it; then the file is cut. Every step leaves a whole table, and a crash leaves the last checkpoint.
//!
//! Not here: the steps themselves (`buckets/compact.rs`).

use super::Table;
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
        // Each pass moves what lies behind the end that the used units would fill; holes are not perfect, so passes go
        // on while they gain.
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
