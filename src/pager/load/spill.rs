//! Spilling: dirty frames leave a full cache without a checkpoint.
//!
//! ```text
//! latch a dirty frame -> write it -> store its checksum in memory -> free its memory
//! in place              a table in memory: its temporary file need not survive a crash
//!                       a table whose file this handle created: frames beyond the last checkpoint's end, which a crash
//!                       leaves unused. The checkpoint only syncs them, with the other new ones
//! in the shadow file    all others, whatever the durability: an unnamed file, which ends with the handle. The
//!                       checkpoint copies them from there, as it copies others from memory. A handle that only reads
//!                       spills what it changed for the log's records
//! nowhere               frames that only values were written through to: the file has them
//! ```
//!
//! So the table's file has the last checkpoint until the next one is complete, whatever was spilled. In the shadow file
//! a frame has the same offset as in the table's file; frames that were not spilled are holes. Each checkpoint empties
//! it. If it cannot be written, a checkpoint makes room in the cache instead.
//!
//! Checksum frames are not spilled, so that a checksum can always be stored in memory. In a table that spills, these
//! take up to a 512th of its size. Nothing is spilled while a checkpoint is written.
//!
//! Source: the paper's buffer manager, which writes a page when it needs its buffer. Not here: the states of a frame
//! (`pool/state.rs`), when a checkpoint is due (`pager/mod.rs`).

use super::Frames;
use crate::error::{Error, ErrorKind, Result};
use crate::io::File;
use crate::io::atomic::make_unnamed;
use crate::pager::blocks::Blocks;
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::file::mapped_reads::MappedReads;
use crate::pager::file::sums::frame_sum;
use crate::pager::pool::words::Bytes;
use crate::pager::pool::{FrameNo, FrameSource};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, OnceLock};

/// The dirty frames that may be spilled, and their destination.
#[derive(Default)]
pub(in crate::pager) struct Spilling {
    /// Whether any frame may be spilled.
    pub(in crate::pager) on: bool,
    /// Whether frames beyond the end of the last checkpoint are spilled to their locations in the file.
    in_place: bool,
    /// Whether the shadow file is in the system's directory for temporary files, not in the table's.
    elsewhere: bool,
    /// Created when the first frame is spilled to it.
    shadow: OnceLock<Arc<dyn File>>,
    shadow_reads: MappedReads,
    /// Whether a write to it has failed since the last checkpoint.
    shadow_failed: AtomicBool,
}

impl Spilling {
    /// For a table in a file, `created` by this handle or not, and `logged` or not.
    pub(in crate::pager) fn of_file(created: bool, logged: bool) -> Spilling {
        Spilling { on: true, in_place: created && !logged, ..Spilling::default() }
    }

    /// For a table in memory.
    pub(in crate::pager) fn in_temporary_file() -> Spilling {
        Spilling { on: true, in_place: true, ..Spilling::default() }
    }

    /// For a handle that only reads, and changes frames in memory as the log says. Its shadow file is not in the
    /// table's directory, which it may be unable to write.
    pub(in crate::pager) fn of_reader() -> Spilling {
        Spilling { on: true, elsewhere: true, ..Spilling::default() }
    }
}

/// A file to spill a frame to.
enum SpillTarget<'a> {
    Place(&'a Arc<dyn File>),
    Shadow(&'a Arc<dyn File>),
}

impl Frames {
    /// Whether frames beyond the end of the last checkpoint are spilled to their locations in the file.
    pub(in crate::pager) fn spills_in_place(&self) -> bool {
        self.spilling.in_place
    }

    /// Writes a dirty frame to a file and frees its memory, if it may be spilled and was not used lately. Never waits
    /// for another writer's latch. If the table's file cannot be written, the frame stays in memory, and the handle
    /// takes no more writes.
    pub(crate) fn spill(&self, frame: FrameNo) -> bool {
        if let Some(blocks) = &self.blocks {
            return self.spill_to_block(blocks, frame);
        }
        let Some(latch) = self.pool.latch_to_spill(frame) else { return false };
        let sum_frame = self.file.maps.of_zone(frame / ZONE_FRAMES) + 1;
        if !self.pool.is_resident(sum_frame) {
            drop(latch);
            // Loaded for the next time that the clock hand passes.
            let _ = self.pool.read(sum_frame, self.pool.frame(sum_frame), &WithoutEviction(self));
            return false;
        }
        // The allocator cuts the file only while it holds this lock.
        let Ok(_space) = self.space.try_lock() else { return false };
        if self.file.maps.of_zone(frame / ZONE_FRAMES) + 1 != sum_frame {
            return false; // a compaction moved it
        }
        // In this order: a checkpoint sets its number of frames before its sequence number.
        let checkpoint = self.file.sequence.load(Acquire) != self.file.frozen_sequence.load(Acquire);
        if checkpoint || frame >= self.file.frame_count() {
            return false;
        }
        let mut shadowed = self.pool.is_shadowed(frame);
        if !self.pool.is_spilled(frame) {
            let target = if self.pool.is_dirty(frame) {
                let Some(target) = self.spill_target(frame) else { return false };
                Some(target)
            } else {
                None // written through: the file has it
            };
            let Some(mut sums) = self.pool.try_write_pinned(sum_frame) else { return false };
            if let Some(target) = &target {
                if !self.write_spilled(frame, &latch, target) {
                    return false;
                }
                self.counts.frames_written.fetch_add(1, Relaxed);
            }
            let at = 4 * (frame % ZONE_FRAMES) as usize;
            sums.whole().store(at, &frame_sum(frame, &latch).to_le_bytes());
            shadowed = matches!(target, Some(SpillTarget::Shadow(_)));
        }
        // Stored before the latch is released, so that a checkpoint that waits for the latch finds the checksum.
        self.pool.discard_spilled(frame, latch, shadowed);
        true
    }

    /// [`spill`](Self::spill) for a file of blocks, also while a checkpoint is written.
    fn spill_to_block(&self, blocks: &Blocks, frame: FrameNo) -> bool {
        let Some(latch) = self.pool.latch_to_spill(frame) else { return false };
        if frame >= self.file.frame_count() {
            return false;
        }
        let mut shadowed = self.pool.is_shadowed(frame);
        if !self.pool.is_spilled(frame) {
            if self.file.read_only {
                let Ok(_space) = self.space.try_lock() else { return false };
                let Some(target) = self.spill_target(frame) else { return false };
                if !self.write_spilled(frame, &latch, &target) {
                    return false;
                }
                blocks.note_shadowed(frame, frame_sum(frame, &latch));
                shadowed = true;
            } else {
                match blocks.evict(&self.file, frame, &latch, || self.pool.is_frozen(frame)) {
                    Ok(is_large) => drop(is_large.then(|| self.checkpoint_due.store(true, Relaxed))),
                    Err(e) => {
                        if e.kind() == ErrorKind::DiskFull {
                            self.give_up_shadow();
                        } else {
                            self.file.poison(e.message());
                        }
                        return false;
                    }
                }
            }
            self.counts.frames_written.fetch_add(1, Relaxed);
        }
        self.pool.discard_spilled(frame, latch, shadowed);
        true
    }

    fn spill_target(&self, frame: FrameNo) -> Option<SpillTarget<'_>> {
        let end = self.file.checkpoint_frames.load(Acquire);
        let beyond = frame >= end && self.file.file_frames.load(Acquire) == end;
        if self.file.scratch || self.spilling.in_place && beyond {
            return self.file.handle.as_ref().map(SpillTarget::Place);
        }
        if self.spilling.shadow_failed.load(Relaxed) {
            return None;
        }
        if self.spilling.shadow.get().is_none() {
            // Only one thread at a time, since the caller holds the allocator's lock.
            let temporary = self.spilling.elsewhere.then(|| std::env::temp_dir().join("splitpoint"));
            match make_unnamed(self.file.storage.as_ref(), temporary.as_deref().unwrap_or(&self.file.path)) {
                Ok(file) => drop(self.spilling.shadow.set(file)),
                Err(_) => self.give_up_shadow(),
            }
        }
        self.spilling.shadow.get().map(SpillTarget::Shadow)
    }

    fn write_spilled(&self, frame: FrameNo, bytes: &[u8], target: &SpillTarget<'_>) -> bool {
        let at = u64::from(frame) * self.frame_bytes() as u64;
        match target {
            SpillTarget::Place(file) => {
                // Without this, ever more frames would stay in memory, and no error would be reported.
                let poison = |e| self.file.poison(Error::io(&self.file.path, "write a frame of", e).message());
                let end = at + bytes.len() as u64;
                let written =
                    self.file.refuse_hole_before(end).is_ok() && file.write_at(bytes, at).map_err(poison).is_ok();
                if written {
                    self.file.note_written_end(end);
                }
                written
            }
            SpillTarget::Shadow(file) => file.write_at(bytes, at).map_err(|_| self.give_up_shadow()).is_ok(),
        }
    }

    /// Stops spilling until the next checkpoint, which is due once half of the cache is dirty.
    fn give_up_shadow(&self) {
        self.spilling.shadow_failed.store(true, Relaxed);
        self.pool.pin();
    }

    /// Whether changed frames exceed the cache because the shadow file cannot be written.
    pub(crate) fn cannot_spill(&self) -> bool {
        self.spilling.shadow_failed.load(Relaxed) && self.must_checkpoint()
    }

    /// The file that has the bytes of a frame that is not resident, and how to read it; `None` if no file has them.
    pub(in crate::pager) fn file_of(&self, frame: FrameNo) -> Option<(&dyn File, &MappedReads)> {
        if self.pool.is_shadowed(frame) {
            return Some((self.spilling.shadow.get()?.as_ref(), &self.spilling.shadow_reads));
        }
        let written = frame < self.file.file_frames.load(Acquire) || self.pool.is_spilled(frame);
        Some((self.file.handle.as_ref().filter(|_| written)?.as_ref(), &self.reads))
    }

    /// Reads a frame that the shadow file has.
    pub(in crate::pager) fn read_shadowed(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<()> {
        let file = self.spilling.shadow.get().expect("a shadowed frame has been written to it");
        let at = u64::from(frame) * self.frame_bytes() as u64;
        file.read_at(bytes, at).map_err(|e| Error::io(&self.file.path, "read the temporary file of", e))?;
        if let Some(blocks) = &self.blocks {
            return blocks.check_shadowed(&self.file, frame, bytes);
        }
        self.check_sum(frame, bytes)
    }

    /// Called before frames from `end` on are cut off: makes the file zero there, in case such frames are allocated
    /// again. The caller keeps writers out and holds the allocator's lock.
    pub(in crate::pager) fn cut_spilled(&self, end: FrameNo) -> Result<()> {
        let Some(file) = self.file.handle.as_ref().filter(|_| self.spilling.in_place) else { return Ok(()) };
        let last = self.file.checkpoint_frames.load(Acquire);
        let bytes = u64::from(end.max(last)) * self.frame_bytes() as u64;
        let fail = |e| Error::io(&self.file.path, "set the length of", e);
        self.file.forget_written_beyond(bytes);
        if file.len().map_err(fail)? > bytes { file.set_len(bytes).map_err(fail) } else { Ok(()) }
    }

    /// Called when a checkpoint begins: nothing is spilled until it is complete.
    pub(in crate::pager) fn stop_spilling(&self) {
        if self.blocks.is_none() {
            self.pool.pin();
        }
    }

    /// Called when a checkpoint is complete, so that the shadow file is no longer needed.
    pub(in crate::pager) fn resume_spilling(&self) {
        if !self.spilling.on {
            return;
        }
        if let Some(shadow) = self.spilling.shadow.get() {
            // If this fails, the space is freed later.
            let _ = shadow.set_len(0);
        }
        self.spilling.shadow_failed.store(false, Relaxed);
        self.pool.unpin();
    }
}

/// Loads a frame without making room for it.
struct WithoutEviction<'a>(&'a Frames);

impl FrameSource for WithoutEviction<'_> {
    fn load(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<bool> {
        self.0.load(frame, bytes)
    }

    fn made_resident(&self) {}
}
