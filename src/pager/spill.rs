//! Spilling: dirty frames go to their places in the file when the cache is full, without a checkpoint.
//!
//! A table in memory with a cache limit spills any frame: its temporary file need not survive a crash. A table with
//! [`Durability::None`](crate::Durability) spills the frames beyond the end of its last checkpoint, which a crash
//! leaves unused; and only if this handle created the file, as one that was open before may have other bytes there.
//!
//! ```text
//! latch a dirty frame -> write it -> store its checksum in memory -> free its memory
//! checkpoint             a spilled frame is synced with the other new ones, not written again
//! ```
//!
//! Checksum frames are not spilled, and not evicted either, so that there is always one to store a checksum in: of a
//! table that spills, a 512th stays in memory. Nothing is spilled while a checkpoint is written, whose frames those
//! beyond the last one become.
//!
//! Source: the paper's buffer manager, which writes a page when it needs its buffer. Not here: the states of a frame
//! (`pool/spill.rs`), when a checkpoint is due (`mod.rs`).

use super::checkpoint::frame_sum;
use super::pool::FrameNo;
use super::words::Bytes;
use super::{Pager, ZONE_FRAMES};
use crate::error::{Error, Result};
use crate::planted::{Bug, planted};
use std::sync::atomic::Ordering::*;

impl Pager {
    /// Writes a dirty frame to its place and frees its memory, if it may be spilled and was not used lately. Never
    /// waits for a latch. Where the file cannot be written, the frame stays, and the handle takes no more writes.
    pub(super) fn spill(&self, frame: FrameNo) -> bool {
        let Some(latch) = self.pool.latch_to_spill(frame) else { return false };
        // The allocator cuts the file only with this lock held.
        let Ok(_space) = self.space.try_lock() else { return false };
        if !self.may_spill(frame) {
            return false;
        }
        if !self.pool.is_spilled(frame) {
            let Some(file) = &self.file else { return false };
            let Some(mut sums) = self.pool.try_write_resident(self.map_frame(frame / ZONE_FRAMES) + 1) else {
                return false;
            };
            if let Err(e) = file.write_at(&latch, u64::from(frame) * self.frame_bytes() as u64) {
                // Otherwise the frames in memory would become more and more, without an error.
                self.poison(Error::io(&self.path, "write a frame of", e).message());
                return false;
            }
            let at = 4 * (frame % ZONE_FRAMES) as usize;
            sums.whole().store(at, &frame_sum(frame, &latch).to_le_bytes());
            self.counts.frames_written.fetch_add(1, Relaxed);
        }
        // Before the latch is released: a checkpoint that waits for it finds the checksum.
        self.pool.discard_spilled(frame, latch);
        true
    }

    /// Whether a checkpoint that is being written, or the last one, needs what the file has in place of this frame.
    fn may_spill(&self, frame: FrameNo) -> bool {
        // In this order: a checkpoint sets the frames it has before its number.
        if self.sequence.load(Acquire) != self.frozen_sequence.load(Acquire) && !planted(Bug::SpillsBesideCheckpoint) {
            return false;
        }
        let end = self.checkpoint_frames.load(Acquire);
        let beyond = frame >= end && self.file_frames.load(Acquire) == end || planted(Bug::SpillsOverCheckpoint);
        (self.scratch || beyond) && frame < self.frame_count()
    }

    /// Before frames from `end` on are cut off: the file has zeros there, should they come back. The caller keeps
    /// writers out and holds the allocator's lock.
    pub(super) fn cut_spilled(&self, end: FrameNo) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.spills) else { return Ok(()) };
        let last = self.checkpoint_frames.load(Acquire);
        if end < last {
            // The file is cut by the next checkpoint, and nothing may be beyond until then.
            self.pool.pin_below(FrameNo::MAX);
        }
        let bytes = u64::from(end.max(last)) * self.frame_bytes() as u64;
        let fail = |e| Error::io(&self.path, "set the length of", e);
        if file.len().map_err(fail)? > bytes { file.set_len(bytes).map_err(fail) } else { Ok(()) }
    }

    /// When a checkpoint begins, and until it is complete, nothing is spilled.
    pub(super) fn stop_spilling(&self) {
        self.pool.pin_below(FrameNo::MAX);
    }

    /// When a checkpoint of `frame_count` frames is complete: those beyond may be spilled.
    pub(super) fn resume_spilling(&self, frame_count: u32) {
        if self.spills {
            self.pool.pin_below(frame_count);
        }
    }
}
