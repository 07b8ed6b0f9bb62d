//! Checkpoint: dirty frames reach the file together or not at all.
//!
//! ```text
//! reserve     disk space for all that follows (`reserve.rs`); an error here leaves everything unchanged
//! freeze      between two writes: list the dirty frames, encode the header
//! new frames  write those beyond the end of the last checkpoint to their locations; sync
//! journal     copy the others, with their checksums, to `<path>-ckpt`
//! undo        if other handles read the file: save what they need of it (`save_undo.rs`)
//! commit      complete the header of the journal; sync it                 -- the commit point
//! in place    write the journalled frames to their locations in the file; sync
//! remove      the journal
//! ```
//!
//! A crash before the journal is complete leaves the file unchanged. After a later crash, the next open finds a
//! complete journal and installs it; installing it repeatedly does no harm. A journal is complete if the checksums of
//! its header, its index and every frame match.
//!
//! Writers continue while the frames are written. A writer that changes a frozen frame that is not yet copied first
//! saves the frame's content (`pool/`, `mark_dirty`).
//!
//! Source: docs/architecture.md, "Checkpoint"; the double write is InnoDB's. Format: docs/format.md, "Checkpoint
//! journal".

mod blocks;
pub(crate) mod copy;
pub(super) mod hold;
pub(crate) mod journal;
pub(super) mod lock;
mod pace;
pub(super) mod reserve;
pub(super) mod save_undo;

use crate::error::{Error, Result};
use crate::events::event;
use crate::heap;
use crate::io::File;
use crate::pager::allocate::Allocator;
use crate::pager::file::header::Header;
use crate::pager::file::length::set_frame_count;
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::file::names::journal_path;
use crate::pager::file::sums::{SUM_OF_SUMS, sum_of_sums};
use crate::pager::load::Frames;
use crate::pager::pool::words::Bytes;
use crate::pager::pool::{FrameNo, FrozenFrame};
use crate::pager::values::Values;
use crate::pager::wal::Log;
use journal::{
    CUT_NOTHING, CheckpointId, DirectWriter, FileSize, FrameSums, JournalError, JournalWriter, install_frames,
};
use reserve::CheckpointRoom;
use save_undo::{NoReaderBegins, UndoFiles};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::*;

/// If writers saved more bytes than this of frozen frames, their memory is returned to the system afterwards.
const SAVED_BYTES_MUCH: usize = 16 << 20;

/// The state of the table at one moment between writes, to be written while writers continue.
pub(crate) struct Frozen {
    frames: Vec<FrameNo>,
    frame_count: u32,
    /// Frames of the file from here on are new since the last checkpoint, whatever the file contains there.
    cut: u32,
    /// Frames from here on are not part of the last checkpoint: they need no journal.
    direct_from: FrameNo,
    /// Records of the log refer to bytes of the file beyond the last checkpoint: these bytes must stay until this
    /// checkpoint is complete.
    keep_end: bool,
    /// Bytes that the file must have before this checkpoint is complete.
    bytes_needed: u64,
    header: Vec<u8>,
    sequence: u64,
    /// The journal, still empty; `None` for a file of blocks.
    journal: Option<Box<dyn File>>,
    /// The header and the root, for a file of blocks.
    table: Header,
    root: Vec<u8>,
}

/// The parts of a checkpoint.
pub(crate) struct Checkpointer<'p> {
    pub(super) frames: &'p Frames,
    pub(super) allocator: Allocator<'p>,
    pub(super) values: Values<'p>,
    pub(super) log: Option<&'p Log>,
    pub(super) undo: &'p UndoFiles,
}

impl Checkpointer<'_> {
    /// Records the current state, with `root` for the header, and begins a new segment of the log with room for a
    /// record of `log_bytes`. `room` comes from [`reserve_checkpoint`](Self::reserve_checkpoint), under the same
    /// checkpoint lock. The caller keeps writers out.
    ///
    /// # Errors
    /// A failure to begin a segment or to reserve more room, and [`ErrorKind::Io`](crate::ErrorKind::Io) if a map frame
    /// cannot be read. Nothing has changed then.
    pub(crate) fn freeze(&self, root: &[u8], log_bytes: u64, mut room: CheckpointRoom) -> Result<Frozen> {
        self.frames.file.refuse_if_moved().inspect_err(|e| self.frames.file.poison(e.message()))?;
        self.allocator.free_kept()?;
        self.values.seal_windows().inspect_err(|e| self.frames.file.poison(e.message()))?;
        self.values.extend_file_for_checkpoint()?;
        let keep_end = self.values.keeps_end();
        self.complete_room(&mut room)?;
        let sequence = match self.log {
            Some(log) => {
                log.follow(self.frames.file.table_bytes());
                log.switch(log_bytes)?
            }
            None => self.frames.file.sequence.load(Relaxed) + 1,
        };
        // From here on this checkpoint must be written as of this moment, before any later content of these units:
        // until it is, records of the log still refer to them.
        self.allocator.free_quarantined().inspect_err(|e| self.frames.file.poison(e.message()))?;
        self.frames.file.frozen_sequence.store(sequence, Release);
        self.frames.stop_spilling();
        let frames = match &self.frames.blocks {
            Some(blocks) => blocks.freeze(|| self.frames.pool.freeze()),
            None => self.frames.pool.freeze(),
        };
        let (frame_count, cut) = (self.frames.frame_count(), self.frames.file.file_frames.load(Acquire));
        let (direct_from, bytes_needed) = (self.direct_from(), self.frames.file.take_bytes_needed());
        self.values.begin_period(frame_count);
        let table = self.frames.file.header(sequence);
        let header = table.encode(root);
        self.frames.file.health.let_writes_begin();
        let journal = room.into_journal();
        let root = root.to_vec();
        Ok(Frozen {
            frames,
            frame_count,
            cut,
            direct_from,
            keep_end,
            bytes_needed,
            header,
            sequence,
            journal,
            table,
            root,
        })
    }

    /// Writes the frozen state. After an error the handle is poisoned, and the file has the last checkpoint, or this
    /// one once the journal is installed.
    pub(crate) fn write_frozen(&self, frozen: Frozen) -> Result<()> {
        self.write_checkpoint(frozen)
            .map_err(Error::ending_writes)
            .inspect_err(|e| self.frames.file.poison(e.message()))
    }

    fn write_checkpoint(&self, mut frozen: Frozen) -> Result<()> {
        let Some(file) = &self.frames.file.handle else { return Ok(()) };
        frozen.frames.sort_unstable();
        frozen.frames.dedup();
        debug_assert!(!self.frames.file.scratch, "a temporary file has no checkpoints");
        let written = match &self.frames.blocks {
            Some(blocks) => self.write_to_blocks(blocks, &frozen)?,
            None => self.write_in_place(&frozen, file.as_ref())?,
        };
        self.frames.pool.all_in_file();
        self.frames.counts.frames_written.fetch_add(written, Relaxed);
        self.frames.counts.checkpoints.fetch_add(1, Relaxed);
        self.values.complete_period(frozen.frame_count);
        // In this order: no frame is spilled until the checkpoint has its number, and by then the shadow file is empty.
        self.frames.resume_spilling();
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

    /// Writes the frozen frames by way of the journal; returns their number.
    fn write_in_place(&self, frozen: &Frozen, file: &dyn File) -> Result<u64> {
        let index = self.write_journalled(frozen, file)?;
        // Before any frame may be evicted: a frame beyond the file's end would be read back as zeros.
        self.frames.file.file_frames.store(frozen.frame_count, Release);
        self.frames.file.checkpoint_frames.store(frozen.frame_count, Release);
        for &(frame, _) in &index {
            self.frames.pool.in_file(frame);
        }
        Ok(index.len() as u64)
    }

    fn write_journalled(&self, frozen: &Frozen, file: &dyn File) -> Result<FrameSums> {
        let path = journal_path(&self.frames.file.path);
        let fail = |what: &'static str| move |e| Error::io(&self.frames.file.path, what, e);
        let journal = frozen.journal.as_deref().expect("a file of frames in place has a journal");
        // By now the name may belong to another table's journal.
        let remove_named = || if journal.is_at(&path)? { self.frames.file.storage.remove(&path) } else { Ok(()) };
        // The cache may show a complete journal that the disk does not have. No open may find such a journal, now or
        // after a power loss.
        let forget = |_: &Error| drop(remove_named().and_then(|()| self.frames.file.storage.sync_names(&path)));
        self.frames.file.refuse_if_moved().inspect_err(forget)?;
        let mut size =
            FileSize { frame_bytes: self.frames.frame_bytes(), cut: frozen.cut, frame_count: frozen.frame_count };
        if frozen.direct_from != FrameNo::MAX {
            if !frozen.keep_end {
                // Remove what an interrupted checkpoint left beyond the end, before new frames are written there.
                set_frame_count(file, size.frame_bytes, size.cut, size.frame_count)
                    .map_err(fail("set the length of"))
                    .inspect_err(forget)?;
            }
            // Writers may be writing through beyond the end of this checkpoint, now and while it is installed.
            size.cut = if self.frames.file.takes_values() { CUT_NOTHING } else { size.frame_count };
        }
        // Until the file has this checkpoint, or the journal is gone again.
        let (all, index, _no_reader_begins) = self.write_journal(frozen, size, journal, file).inspect_err(forget)?;
        self.frames.file.storage.sync_names(&path).map_err(fail("sync the directory of")).inspect_err(forget)?;
        // A crash from here on leaves a file that is of no use without the journal.
        self.frames.file.refuse_if_moved().inspect_err(forget)?;
        let cut = install_frames(journal, file, size, &index).map_err(fail("write a checkpoint to"))?;
        self.frames.space().forget_reserved(cut);
        // While the journal still exists: the next open would install it in what is left.
        self.frames.file.refuse_shorter(file, u64::from(frozen.frame_count) * self.frames.frame_bytes() as u64)?;
        // Unsynced on purpose. Until the next journal replaces this one, installing it again changes nothing, except
        // that it may cut off values that are written beyond the end from now on. The sync of such values makes the
        // removal durable.
        remove_named().map_err(fail("remove the journal of"))?;
        if size.cut != CUT_NOTHING {
            self.values.note_removed_journal();
        }
        Ok(all)
    }

    /// Writes the frozen frames to the journal, or, if they are new, to their locations in the file. Returns all
    /// frames, and those in the journal.
    fn write_journal<'f>(
        &self,
        frozen: &Frozen,
        size: FileSize,
        journal: &dyn File,
        file: &'f dyn File,
    ) -> Result<(FrameSums, FrameSums, Option<NoReaderBegins<'f>>)> {
        let direct = DirectWriter::new(file, self.frames.frame_bytes(), frozen.direct_from);
        let mut writer = JournalWriter::new(journal, direct, self.frames.frame_bytes());
        self.copy_frames(frozen, &mut writer).map_err(|e| self.journal_error(e))?;
        // Must precede the commit point: frames that were cut off and that this checkpoint does not write would be
        // lost.
        self.frames.file.refuse_shorter(file, frozen.bytes_needed)?;
        let id = CheckpointId {
            table_id: self.frames.file.table_id,
            sequence: frozen.sequence,
            base: self.frames.file.sequence.load(Relaxed),
        };
        let none_begins = self.undo.save(&self.frames.file, file, frozen, writer.journalled());
        let (all, index) = writer.finish(id, size).map_err(|e| self.journal_error(e.into()))?;
        Ok((all, index, none_begins))
    }

    fn journal_error(&self, e: JournalError) -> Error {
        match e {
            JournalError::Io(e) => Error::io(&self.frames.file.path, "write a checkpoint journal for", e),
            JournalError::Frame(e) => e,
        }
    }

    /// Copies the frozen frames to `sink`, with the content they had when frozen, then their checksum frames and the
    /// header.
    fn copy_frames(&self, frozen: &Frozen, sink: &mut JournalWriter<'_>) -> std::result::Result<(), JournalError> {
        let mut late = Vec::new();
        for &frame in &frozen.frames {
            if frame >= frozen.frame_count {
                self.frames.pool.thaw(frame);
                continue;
            }
            match self.frames.pool.copy_frozen(frame, sink.place(frame)?) {
                FrozenFrame::InFile if frame >= frozen.direct_from => sink.note(frame),
                FrozenFrame::InFile | FrozenFrame::InMemory => sink.push(frame)?,
                FrozenFrame::Spilled => {
                    sink.note_spilled(frame, self.frames.stored_sum(frame).map_err(JournalError::Frame)?);
                }
                FrozenFrame::Shadowed => {
                    self.frames.read_shadowed(frame, sink.place(frame)?).map_err(JournalError::Frame)?;
                    sink.push(frame)?;
                }
                FrozenFrame::Preserved => late.push(frame),
            }
        }
        // Contents that writers saved. The list is complete by now: every frozen frame has been visited.
        let mut preserved: HashMap<FrameNo, Box<[u8]>> = self.frames.pool.take_preserved().into_iter().collect();
        let saved_count = preserved.len();
        for frame in late {
            let bytes =
                preserved.remove(&frame).expect("a frozen frame is copied here or saved by the writer that changed it");
            sink.place(frame)?.copy_from_slice(&bytes);
            sink.push(frame)?;
        }
        if saved_count * self.frames.frame_bytes() > SAVED_BYTES_MUCH {
            heap::give_back();
        }
        self.frames.refuse_lost_pages().map_err(JournalError::Frame)?;
        self.copy_sums(sink)?;
        sink.place(0)?.copy_from_slice(&frozen.header);
        Ok(sink.push(0)?)
    }

    /// Updates the checksums of all frames in `sink` and adds the checksum frames to it.
    fn copy_sums(&self, sink: &mut JournalWriter<'_>) -> std::result::Result<(), JournalError> {
        let mut zones: BTreeMap<u32, FrameSums> = BTreeMap::new();
        for &(frame, sum) in sink.frames() {
            zones.entry(frame / ZONE_FRAMES).or_default().push((frame, sum));
        }
        for (zone, sums) in zones {
            let sum_frame = self.frames.file.maps.of_zone(zone) + 1;
            let mut bytes =
                self.frames.pool.write_in_checkpoint(sum_frame, self.frames).map_err(JournalError::Frame)?;
            for (frame, sum) in sums {
                let at = 4 * (frame % ZONE_FRAMES) as usize;
                bytes.whole().store(at, &sum.to_le_bytes());
            }
            let sum = sum_of_sums(sum_frame, &bytes);
            bytes.whole().store(SUM_OF_SUMS, &sum.to_le_bytes());
            sink.place(sum_frame)?.copy_from_slice(&bytes);
            drop(bytes);
            sink.push(sum_frame)?;
        }
        Ok(())
    }
}
