//! Eviction: a clock hand that passes all frames and frees the memory of those not used since it last passed.
//!
//! Source: the second chance of Corbato 1968. Not here: a frame's state (`pool/`), how a dirty frame is written
//! (`spill.rs`).

use super::Frames;
use std::sync::atomic::Ordering::*;

/// Frames that the hand passes at a time: their states are in one cache line.
const STEP: u32 = 8;

impl Frames {
    /// Advances the clock hand and evicts a few frames that were not used since it last passed. If nearly all frames
    /// are dirty it examines only a few, so the cache exceeds its limit until the checkpoint is complete.
    #[cold]
    pub(super) fn evict_some(&self) {
        const EVICTED: u32 = 4;
        const PASSED: u32 = 4096;
        const PASSED_IF_DIRTY: u32 = 64;
        let pass = if self.pool.is_pinned() && self.pool.is_mostly_dirty() { PASSED_IF_DIRTY } else { PASSED };
        let count = self.file.frame_count();
        let mut evicted = 0;
        for _ in 0..pass / STEP {
            let first = self.clock_hand.fetch_add(STEP, Relaxed) / STEP % count.div_ceil(STEP) * STEP;
            // In a table much larger than its cache, the hand passes many frames for each that is in memory.
            for frame in self.pool.residents(first..count.min(first + STEP)) {
                let spilled = || self.spilling.on && !self.file.maps.has_sums(frame) && self.spill(frame);
                evicted += u32::from(self.pool.evict(frame) || spilled());
            }
            if evicted >= EVICTED {
                return;
            }
        }
    }

    /// The number of frames that the clock hand has passed.
    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> u32 {
        self.clock_hand.load(Relaxed)
    }
}
