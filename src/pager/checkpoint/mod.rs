//! Checkpoint: dirty frames reach the file together or not at all.
//!
//! ```text
//! reserve     blocks for all that follows; an error here leaves everything unchanged
//! freeze      between two writes: list the dirty frames, begin a new segment of the log
//! write       each frozen frame to a block that no checkpoint has, and the tree that leads to them; sync
//! commit      the header, to the place of the one before the last; sync       -- the commit point
//! release     the blocks that only the last checkpoint had, and the log's older segments
//! ```
//!
//! A crash before the header is complete leaves the last checkpoint, of which nothing was written over.
//!
//! Writers continue while the frames are written. A writer that changes a frozen frame that is not yet written first
//! saves the frame's content (`pool/`, `mark_dirty`). A frame stays frozen until its write has returned, so it is
//! neither evicted nor, unsaved, changed. One that was evicted before the freeze is in its block already. Frames that
//! changed since the freeze may be evicted at the same time.
//!
//! Source: docs/architecture.md, "Checkpoint". Format: docs/format.md. Not here: blocks, the tree and the header
//! (`blocks/`), when a checkpoint is tried again (`table/checkpoint.rs`).

pub(crate) mod copy;
pub(super) mod lock;

use crate::error::{Error, Result};
use crate::events::event;
use crate::heap;
use crate::pager::allocate::Allocator;
use crate::pager::blocks::pace::Pace;
use crate::pager::blocks::{Blocks, is_zero};
use crate::pager::file::header::Header;
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::file::sums::frame_sum;
use crate::pager::load::Frames;
use crate::pager::pool::{FrameNo, FrozenFrame};
use crate::pager::values::Values;
use crate::pager::wal::Log;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// If writers saved more bytes than this of frozen frames, their memory is returned to the system afterwards.
const SAVED_BYTES_MUCH: usize = 16 << 20;

/// The state of the table at one moment between writes, to be written while writers continue.
pub(crate) struct Frozen {
    frames: Vec<FrameNo>,
    frame_count: u32,
    /// Bytes that the file must have before this checkpoint is complete.
    bytes_needed: u64,
    sequence: u64,
    table: Header,
    root: Vec<u8>,
}

/// The parts of a checkpoint.
pub(crate) struct Checkpointer<'p> {
    pub(super) frames: &'p Frames,
    pub(super) allocator: Allocator<'p>,
    pub(super) values: Values<'p>,
    pub(super) log: Option<&'p Log>,
    /// Whether this is the last checkpoint of a table that is being closed.
    pub(super) closing: &'p AtomicBool,
}

/// Adjacent blocks that are not yet written. One call writes them.
struct Run<'c> {
    blocks: &'c Blocks,
    frames_of: &'c Frames,
    pace: Pace<'c>,
    first: u32,
    bytes: Vec<u8>,
    /// Frame, block and checksum.
    frames: Vec<(FrameNo, u32, u32)>,
    written: u64,
}

impl Run<'_> {
    fn push(&mut self, frame: FrameNo, bytes: &[u8]) -> Result<()> {
        if is_zero(bytes) {
            self.blocks.note_frozen_zero(frame);
            self.frames_of.pool.in_block(frame);
            return Ok(());
        }
        let block = self.blocks.place_frozen(&self.frames_of.file, frame)?;
        let next = self.first + self.frames.len() as u32;
        if block != next || self.bytes.len() as u64 >= self.pace.part_bytes() {
            self.flush()?;
            self.first = block;
        }
        self.bytes.extend_from_slice(bytes);
        self.frames.push((frame, block, frame_sum(frame, bytes)));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let file = &self.frames_of.file;
        self.blocks.write_run(file, self.first, &self.bytes)?;
        let at = u64::from(self.first) * file.frame_bytes as u64;
        self.pace.follow(at, self.bytes.len() as u64)?;
        self.blocks.note_frozen(&self.frames);
        self.frames.iter().for_each(|&(frame, ..)| self.frames_of.pool.in_block(frame));
        self.written += self.frames.len() as u64;
        self.bytes.clear();
        self.frames.clear();
        Ok(())
    }
}

impl Checkpointer<'_> {
    fn blocks(&self) -> &Blocks {
        self.frames.blocks.as_ref().expect("a table in memory has no checkpoints")
    }

    /// Reserves blocks for a checkpoint of what is dirty now. The caller holds the checkpoint lock; writers continue.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others; nothing has changed.
    pub(crate) fn reserve_checkpoint(&self) -> Result<()> {
        self.frames.file.refuse_if_poisoned()?;
        self.frames.file.refuse_if_moved().inspect_err(|e| self.frames.file.poison(e.message()))?;
        self.frames.file.refuse_if_cut()?;
        // Most of them, for up to 8 ms: only writers that allocate or free wait. The freeze, for which all wait, frees
        // the rest.
        self.allocator.free_kept()?;
        self.reserve_blocks(self.allocator.maps_of_kept())
    }

    /// Reserves blocks for the frames that are dirty now and for `waiting` additional map frames, at most one of each
    /// zone.
    fn reserve_blocks(&self, waiting: u64) -> Result<()> {
        let zones = u64::from(self.frames.frame_count().div_ceil(ZONE_FRAMES));
        let dirty = self.frames.unwritten_count() + waiting.min(zones);
        let reserved = self.blocks().reserve(&self.frames.file, dirty, self.frames.frame_count());
        reserved.map_err(Error::before_checkpoint)
    }

    /// Records the current state, with `root` for the header, and begins a new segment of the log with room for a
    /// record of `log_bytes`. The caller holds the checkpoint lock, under which it has called
    /// [`reserve_checkpoint`](Self::reserve_checkpoint), and keeps writers out.
    ///
    /// # Errors
    /// A failure to begin a segment or to reserve more room, and [`ErrorKind::Io`](crate::ErrorKind::Io) if a map frame
    /// cannot be read. Nothing has changed then.
    pub(crate) fn freeze(&self, root: &[u8], log_bytes: u64) -> Result<Frozen> {
        self.frames.file.refuse_if_moved().inspect_err(|e| self.frames.file.poison(e.message()))?;
        self.values.close()?;
        self.allocator.free_kept()?;
        self.reserve_blocks(0)?;
        let sequence = match self.log {
            Some(log) => {
                log.follow(self.frames.file.table_bytes());
                log.switch(log_bytes)?
            }
            None => self.frames.file.sequence.load(Relaxed) + 1,
        };
        self.frames.checkpoint_due.store(false, Relaxed);
        self.frames.file.frozen_sequence.store(sequence, Release);
        let frames = self.blocks().freeze(|| self.frames.pool.freeze());
        let frame_count = self.frames.frame_count();
        let bytes_needed = self.frames.file.take_bytes_needed();
        let table = self.frames.file.header(sequence);
        self.frames.file.health.let_writes_begin();
        Ok(Frozen { frames, frame_count, bytes_needed, sequence, table, root: root.to_vec() })
    }

    /// Writes the frozen state. After an error the handle is poisoned, and the file has the last checkpoint, or this
    /// one if its header was written.
    pub(crate) fn write_frozen(&self, frozen: Frozen) -> Result<()> {
        self.write_checkpoint(frozen)
            .map_err(Error::ending_writes)
            .inspect_err(|e| self.frames.file.poison(e.message()))
    }

    fn write_checkpoint(&self, mut frozen: Frozen) -> Result<()> {
        let Some(file) = &self.frames.file.handle else { return Ok(()) };
        frozen.frames.sort_unstable();
        frozen.frames.dedup();
        let written = self.write_frames(&frozen)?;
        // What was cut off would be zeros.
        self.frames.file.refuse_shorter(file.as_ref(), frozen.bytes_needed)?;
        self.blocks().commit(&self.frames.file, frozen.table.clone(), &frozen.root)?;
        self.frames.file.file_frames.store(frozen.frame_count, Release);
        self.blocks().shorten(&self.frames.file, self.closing.load(Relaxed))?;
        self.frames.pool.all_in_blocks();
        self.values.note_checkpoint();
        self.frames.counts.frames_written.fetch_add(written, Relaxed);
        self.frames.counts.checkpoints.fetch_add(1, Relaxed);
        self.frames.pool.unpin();
        self.frames.file.sequence.store(frozen.sequence, Release);
        event!(
            debug,
            "{}: checkpoint {} complete, {written} frames written",
            self.frames.file.path.display(),
            frozen.sequence,
        );
        self.allocator.return_free_memory();
        self.log.map_or(Ok(()), |log| log.release(frozen.sequence))
    }

    /// Writes the frozen frames to blocks, with the content they had when frozen; returns their number.
    fn write_frames(&self, frozen: &Frozen) -> Result<u64> {
        let mut run = Run {
            blocks: self.blocks(),
            frames_of: self.frames,
            pace: Pace::new(&self.frames.file, self.log),
            first: 0,
            bytes: Vec::new(),
            frames: Vec::new(),
            written: 0,
        };
        let mut bytes = vec![0; self.frames.frame_bytes()];
        let mut late = Vec::new();
        for &frame in &frozen.frames {
            if frame >= frozen.frame_count {
                self.frames.pool.thaw(frame);
                continue;
            }
            match self.frames.pool.copy_frozen(frame, &mut bytes) {
                FrozenFrame::InMemory => run.push(frame, &bytes)?,
                FrozenFrame::Written => self.frames.pool.in_block(frame),
                FrozenFrame::Preserved => late.push(frame),
            }
        }
        // Contents that writers saved. The list is complete by now: every frozen frame has been visited.
        let mut preserved: HashMap<FrameNo, Box<[u8]>> = self.frames.pool.take_preserved().into_iter().collect();
        let saved_count = preserved.len();
        for frame in late {
            let bytes = preserved.remove(&frame).expect("a frozen frame is in memory, in a block or saved");
            run.push(frame, &bytes)?;
        }
        run.flush()?;
        // What writers saved of frames that were about to be written.
        drop((preserved, self.frames.pool.take_preserved()));
        if saved_count * self.frames.frame_bytes() > SAVED_BYTES_MUCH {
            heap::give_back();
        }
        Ok(run.written)
    }
}
