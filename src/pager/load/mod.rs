//! The frames of a table: brought in from its file, checked, and moved out of a full cache.
//!
//! ```text
//! read, write    latch a frame -> if it is not in memory: read it, compare its checksum -> evict others
//! ```
//!
//! [`Frames`] also has the lock of the free space.
//!
//! Not here: the memory of frames and their latches (`pool/`), the names and lengths of the file (`file/`).

mod announce;
mod around;
mod evict;
pub(super) mod spill;

use crate::error::{ErrorKind, Result};
use crate::fault::Proceed;
use crate::own_line::OwnLine;
use crate::pager::blocks::{Blocks, is_zero};
use crate::pager::file::TableFile;
use crate::pager::file::mapped_reads::MappedReads;
use crate::pager::interleave;
use crate::pager::pool::{FrameNo, FrameSource, Pool, ReadGuard, WriteGuard};
use crate::pager::space::Space;
use spill::{Spill, Spilled};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// The frames of one table.
pub(crate) struct Frames {
    pub(super) pool: Pool,
    pub(super) file: TableFile,
    reads: MappedReads,
    /// Where the frames are in the file; `None` for a table in memory.
    pub(super) blocks: Option<Blocks>,
    /// `Some` if changed frames leave the cache without checkpoints.
    pub(super) spill: Option<Spill>,
    space: OwnLine<Mutex<Space>>,
    /// The maximum number of resident frames.
    pub(super) cache_frames: u64,
    clock_hand: OwnLine<AtomicU32>,
    /// Frames that the file had when it was opened.
    pub(super) frames_before: u64,
    /// Whether so much room waits for a checkpoint that one is due.
    pub(super) checkpoint_due: AtomicBool,
    /// Whether growth reserves disk space. A replay does not: an open needs no room, since the log has its changes.
    pub(super) reserves_growth: AtomicBool,
    pub(crate) counts: OwnLine<Counts>,
}

/// Counts since the pager was opened.
#[derive(Default)]
pub(crate) struct Counts {
    pub frames_read: AtomicU64,
    /// Frames that checkpoints and evictions wrote.
    pub frames_written: AtomicU64,
    pub checkpoints: AtomicU64,
}

impl FrameSource for Frames {
    fn load(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<bool> {
        if let Some(spill) = &self.spill {
            match spill.read(&self.file, frame, bytes, self.pool.has_buffers())? {
                Spilled::No => {}
                Spilled::Cut => return Ok(false),
                Spilled::Read => {
                    self.counts.frames_read.fetch_add(1, Relaxed);
                    return Ok(true);
                }
            }
        }
        self.blocks.as_ref().map_or(Ok(false), |blocks| self.load_block(blocks, frame, bytes))
    }

    fn made_resident(&self) {
        let resident = self.pool.resident.load(Relaxed);
        if resident > self.cache_frames && (self.blocks.is_some() || self.spill.is_some()) {
            self.evict_some();
        }
    }
}

impl Frames {
    /// The frames of `file`, of which the first `zones_known` zones have no free units.
    pub(super) fn new(pool: Pool, file: TableFile, cache_frames: u64, zones_known: u32) -> Frames {
        Frames {
            pool,
            file,
            reads: MappedReads::default(),
            blocks: None,
            spill: None,
            space: OwnLine(Mutex::new(Space::new(zones_known))),
            cache_frames,
            clock_hand: OwnLine::default(),
            frames_before: 0,
            checkpoint_due: AtomicBool::new(false),
            reserves_growth: AtomicBool::new(true),
            counts: OwnLine::default(),
        }
    }

    /// Loads a frame from its block.
    fn load_block(&self, blocks: &Blocks, frame: FrameNo, bytes: &mut [u8]) -> Result<bool> {
        let mapped = self.pool.has_buffers().then_some(&self.reads);
        let loaded = match blocks.load(&self.file, frame, bytes, mapped) {
            // Without locks of bytes, its block may have been written over.
            Err(e) if self.file.read_only && e.kind() == ErrorKind::Corrupt => {
                self.file.refuse_if_not_kept().and(Err(e))
            }
            loaded => loaded,
        }?;
        self.counts.frames_read.fetch_add(u64::from(loaded), Relaxed);
        Ok(loaded)
    }

    #[inline]
    pub(super) fn frame_bytes(&self) -> usize {
        self.pool.frame_bytes()
    }

    /// The number of frames of the table, including free ones.
    #[inline]
    pub(super) fn frame_count(&self) -> FrameNo {
        self.file.frame_count()
    }

    /// Latches a frame for reading.
    #[inline]
    pub(crate) fn read(&self, frame: FrameNo) -> Result<ReadGuard<'_>> {
        self.pool.read(frame, self.pool.frame(frame), self)
    }

    /// Latches a frame for changing.
    #[inline]
    pub(crate) fn write(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        self.pool.write(frame, self.pool.frame(frame), self)
    }

    /// Latches a frame whose old content is not needed: its bytes are unspecified.
    pub(crate) fn write_fresh(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        self.pool.write_fresh(frame, self)
    }

    /// Latches a frame for changing; `None` if another thread holds a latch.
    pub(crate) fn try_write(&self, frame: FrameNo) -> Result<Option<WriteGuard<'_>>> {
        self.pool.try_write(frame, self)
    }

    /// Whether any thread holds a latch of the frame.
    pub(crate) fn is_latched(&self, frame: FrameNo) -> bool {
        self.pool.frame(frame).is_latched()
    }

    /// [`Pool::wait_for_readers`].
    pub(crate) fn wait_for_readers(&self, frame: FrameNo) -> Result<()> {
        self.pool.wait_for_readers(frame)
    }

    pub(super) fn space(&self) -> MutexGuard<'_, Space> {
        // The allocator calls no user code. After a panic in our own code its lists may lack a hole, which only loses
        // space until the next open.
        interleave::lock(&self.space)
    }

    /// Whether the cache can hold `frames` frames.
    pub(super) fn has_cache_for(&self, frames: FrameNo) -> bool {
        u64::from(frames) <= self.cache_frames
    }

    /// Bytes of resident frames.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.pool.resident.load(Relaxed) * self.frame_bytes() as u64
    }

    /// Whether a frame may have to be read from a file: one that was there before and never read, one that was evicted,
    /// or one that was written `at_once`, if any was. Others that were allocated since are in memory until then.
    pub(super) fn may_read(&self, at_once: bool) -> bool {
        let is_resident = self.pool.resident.load(Relaxed) >= u64::from(self.frame_count());
        !is_resident
            && (self.pool.evictions.load(Relaxed) > 0
                || at_once
                || self.counts.frames_read.load(Relaxed) < self.frames_before)
    }

    /// Called if a checkpoint that was due could not begin. If the cache needs it, no write begins before it succeeds;
    /// otherwise it is put off.
    pub(crate) fn put_off_checkpoint(&self) {
        self.file.health.put_off_checkpoint(self.must_checkpoint());
    }

    /// Whether a checkpoint that is due must not be tried yet, since the last attempt failed and the cache has room.
    pub(crate) fn has_put_off_checkpoint(&self) -> bool {
        !self.must_checkpoint() && self.file.health.counts_down()
    }

    /// Called when the cache has room again.
    pub(crate) fn let_writes_begin(&self) {
        self.file.health.let_writes_begin();
    }

    /// Whether a checkpoint is due: the frames that must stay in memory take more than half of the cache, so many were
    /// evicted, or the disk may have no room for a later one.
    #[inline(always)]
    pub(crate) fn wants_checkpoint(&self) -> bool {
        if self.file.read_only {
            return false;
        }
        let dirty = self.unwritten_count();
        let lacks_room = || self.blocks.as_ref().is_some_and(|blocks| blocks.lacks_room(&self.file, dirty));
        let due = self.must_checkpoint() || self.checkpoint_due.load(Relaxed) || lacks_room();
        due && self.file.handle.is_some()
    }

    /// An upper bound of the number of dirty frames whose bytes are in no block.
    #[inline]
    pub(super) fn unwritten_count(&self) -> u64 {
        self.pool.unwritten_count(self.blocks.as_ref().map_or(0, Blocks::written_count))
    }

    /// Whether the cache has no room for more dirty frames.
    pub(crate) fn must_checkpoint(&self) -> bool {
        self.pool.pinned_count() > self.dirty_frames_max()
    }

    /// The maximum number of frames that are dirty and cannot be evicted: half of the cache. The other half still
    /// serves reads and the next checkpoint.
    #[inline]
    fn dirty_frames_max(&self) -> u64 {
        self.cache_frames / 2
    }

    /// Whether the file and its log have all changes: nothing is dirty, and no checkpoint is in flight or failed.
    pub(crate) fn is_clean(&self) -> bool {
        // In this order: a checkpoint sets its number before its frames stop counting as dirty.
        self.pool.dirty_count() == 0
            && self.file.frozen_sequence.load(Acquire) == self.file.sequence.load(Acquire)
            && self.file.file_frames.load(Acquire) > 0
    }

    /// Reads what a [`cut`](Self::cut) looks at, and changes nothing.
    pub(in crate::pager) fn read_entries(&self, first: FrameNo, end: FrameNo) -> Result<()> {
        self.blocks.as_ref().map_or(Ok(()), |blocks| blocks.read_entries(&self.file, first, end))
    }

    /// Called when frames `first..end` are cut off the table, and no thread writes them: frames that are allocated
    /// there later count as never written. The caller keeps writers and checkpoints out.
    pub(in crate::pager) fn cut(&self, first: FrameNo, end: FrameNo) {
        self.file.file_frames.fetch_min(first, AcqRel);
        match (&self.spill, &self.blocks) {
            (Some(spill), _) => (first..end).for_each(|frame| spill.cut(frame)),
            (None, Some(blocks)) => blocks.cut(&self.file, first, end),
            (None, None) => {}
        }
    }

    /// Whether a frame has other bytes than zeros.
    pub(crate) fn has_content(&self, frame: FrameNo) -> Result<bool> {
        if self.pool.is_resident(frame) {
            return Ok(!is_zero(&self.read(frame)?));
        }
        self.blocks.as_ref().map_or(Ok(true), |blocks| Ok(blocks.block_of(&self.file, frame)?.is_some()))
    }

    /// Reads every frame of the last checkpoint and reports those whose checksum does not match.
    pub(crate) fn verify_sums(&self, proceed: Proceed<'_>, fault: impl FnMut(FrameNo, String)) -> Result<()> {
        self.blocks.as_ref().map_or(Ok(()), |blocks| blocks.verify(&self.file, proceed, fault))
    }
}
