//! Eviction: a clock hand that passes all frames and frees the memory of those not used since it last passed.
//!
//! ```text
//! clean     a file has its bytes: its memory is freed
//! dirty     latch it -> write it -> free its memory
//!           a file that is open for writing: to a block that no checkpoint has, also while one is written
//!           a table in memory, a handle that only reads: to the spill file (`spill.rs`)
//! ```
//!
//! If the disk is full, dirty frames stay in memory until the next checkpoint, which becomes due earlier.
//!
//! Source: the second chance of Corbato 1968. Not here: a frame's state (`pool/`), when a checkpoint is due (`mod.rs`).

use super::Frames;
use crate::error::{ErrorKind, Result};
use crate::pager::pool::FrameNo;
use std::sync::atomic::Ordering::*;

/// Frames that the hand passes at a time: their states are in one cache line.
const STEP: u32 = 8;

impl Frames {
    /// Advances the clock hand and evicts a few frames that were not used since it last passed. If nearly all frames
    /// are dirty and must stay it examines only a few, so the cache exceeds its limit until the checkpoint is complete.
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
                evicted += u32::from(self.pool.evict(frame) || self.write_and_evict(frame));
            }
            if evicted >= EVICTED {
                return;
            }
        }
    }

    /// Writes a dirty frame to a file and frees its memory, if it was not used lately. Never waits for another writer's
    /// latch. If the file cannot be written, the frame stays in memory.
    pub(crate) fn write_and_evict(&self, frame: FrameNo) -> bool {
        if self.pool.is_pinned() {
            return false;
        }
        let Some(latch) = self.pool.latch_to_write(frame) else { return false };
        if frame >= self.file.frame_count() {
            return false;
        }
        if !self.pool.is_written(frame) {
            if let Err(e) = self.write_dirty(frame, &latch) {
                match e.kind() {
                    // The next checkpoint may find room.
                    ErrorKind::DiskFull if self.spill.is_none() => self.pool.pin(),
                    // A reader's changes stay in memory.
                    _ if self.file.read_only => self.pool.pin(),
                    // Without this, ever more frames would stay in memory, and no error would be reported.
                    _ => self.file.poison(e.message()),
                }
                return false;
            }
            self.counts.frames_written.fetch_add(1, Relaxed);
        }
        self.pool.discard_written(frame, latch);
        true
    }

    fn write_dirty(&self, frame: FrameNo, bytes: &[u8]) -> Result<()> {
        if let Some(spill) = &self.spill {
            return spill.write(&self.file, frame, bytes);
        }
        let Some(blocks) = &self.blocks else { return Ok(()) };
        let is_much = blocks.evict(&self.file, frame, bytes, || self.pool.is_frozen(frame))?;
        if is_much {
            self.checkpoint_due.store(true, Relaxed);
        }
        Ok(())
    }

    /// Whether changed frames exceed the cache because they cannot be written before a checkpoint.
    pub(crate) fn cannot_spill(&self) -> bool {
        self.pool.is_pinned() && self.must_checkpoint()
    }

    /// The number of frames that the clock hand has passed.
    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> u32 {
        self.clock_hand.load(Relaxed)
    }

    /// The number of ranges of 2 MiB of memory with a frame in them.
    #[cfg(test)]
    pub(crate) fn large_pages(&self) -> usize {
        let page_of = |frame: FrameNo| u64::from(frame) * self.frame_bytes() as u64 / (2 << 20);
        let mut pages: Vec<u64> =
            (0..self.frame_count()).filter(|&frame| self.pool.is_resident(frame)).map(page_of).collect();
        pages.dedup();
        pages.len()
    }
}
