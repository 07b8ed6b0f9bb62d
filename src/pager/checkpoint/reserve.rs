//! Room for a checkpoint: reserved before anything changes, so that a full disk is an error without consequences.
//!
//! ```text
//! gate open     cut off what an interrupted checkpoint left -> reserve space for new frames in the table's file
//!               -> create the journal -> count the dirty frames -> reserve its length
//! gate closed   count those dirtied since; reserve more if they need it
//! freeze        from here on a failed write poisons the handle
//! ```
//!
//! Most frames beyond the end of the file already have space: a growing table reserves it (`space/`). The count is an
//! upper bound: the journal may also need the checksum frame of each zone with a dirty frame. A reservation does not
//! change the journal's length, so a journal still ends after its index.
//!
//! If the file system cannot reserve, nothing is reserved, and a full disk becomes an error of a write. The same holds
//! for writes in place on a file system that copies on write.
//!
//! Not here: writing the checkpoint (`mod.rs`), when one is tried again (`table/checkpoint.rs`).

use super::Checkpointer;
use super::journal::{INDEX_ENTRY_BYTES, JOURNAL_HEADER_BYTES};
use crate::error::{Error, Result};
use crate::io::{File, Storage, create_beside};
use crate::pager::blocks::Blocks;
use crate::pager::file::TableFile;
use crate::pager::file::create::take_lock;
use crate::pager::file::length::set_frame_count;
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::file::names::journal_path;
use crate::pager::pool::{DirtyCount, FrameNo};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A journal to be written, with room for all frames of a checkpoint. Removed when dropped.
pub(crate) struct CheckpointRoom {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    /// `None` once it belongs to a checkpoint.
    journal: Option<Box<dyn File>>,
    reserved_bytes: u64,
    counted: DirtyCount,
}

impl CheckpointRoom {
    /// Keeps the journal, for the checkpoint that begins now.
    pub(super) fn into_journal(mut self) -> Option<Box<dyn File>> {
        self.journal.take()
    }

    /// For a file of blocks, which knows what is reserved.
    fn without_journal(file: &TableFile) -> CheckpointRoom {
        CheckpointRoom {
            storage: file.storage.clone(),
            path: PathBuf::new(),
            journal: None,
            reserved_bytes: 0,
            counted: DirtyCount::default(),
        }
    }
}

impl Drop for CheckpointRoom {
    fn drop(&mut self) {
        // By now the name may belong to another table's journal. A journal that stays is incomplete, which is harmless.
        if let Some(journal) = self.journal.take()
            && journal.is_at(&self.path).unwrap_or(false)
        {
            let _ = self.storage.remove(&self.path);
        }
    }
}

impl Checkpointer<'_> {
    /// Reserves disk space for a checkpoint of what is dirty now. The caller holds the checkpoint lock; writers
    /// continue.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others; nothing has changed.
    pub(crate) fn reserve_checkpoint(&self) -> Result<CheckpointRoom> {
        // A poisoned handle keeps the journal of its failed checkpoint, since the next open may need it.
        self.frames.file.refuse_if_poisoned()?;
        self.frames.file.refuse_if_moved().inspect_err(|e| self.frames.file.poison(e.message()))?;
        self.frames.file.refuse_if_cut()?;
        if let Some(blocks) = &self.frames.blocks {
            self.reserve_blocks(blocks, self.allocator.maps_of_kept()).map_err(Error::before_checkpoint)?;
            return Ok(CheckpointRoom::without_journal(&self.frames.file));
        }
        self.reserve_places()?;
        let mut room = self.create_journal()?;
        let waiting = self.allocator.maps_of_kept() + self.allocator.maps_of_quarantined();
        self.reserve_journal(&mut room, waiting)?;
        Ok(room)
    }

    /// Reserves more if frames were dirtied since. The caller keeps writers out, and frees quarantined units next.
    pub(super) fn complete_room(&self, room: &mut CheckpointRoom) -> Result<()> {
        match &self.frames.blocks {
            Some(blocks) => self.reserve_blocks(blocks, 0).map_err(Error::before_checkpoint),
            None => self.reserve_journal(room, self.allocator.maps_of_quarantined()),
        }
    }

    /// Reserves blocks for the frames that are dirty now and for `waiting` additional map frames, at most one of each
    /// zone.
    fn reserve_blocks(&self, blocks: &Blocks, waiting: u64) -> Result<()> {
        let zones = u64::from(self.frames.frame_count().div_ceil(ZONE_FRAMES));
        let dirty = self.frames.pool.dirty_count() + waiting.min(zones);
        blocks.reserve(&self.frames.file, dirty, self.frames.frame_count())
    }

    /// The first frame that needs no journal, as it is not part of the last checkpoint.
    pub(super) fn direct_from(&self) -> FrameNo {
        let (cut, last) =
            (self.frames.file.file_frames.load(Acquire), self.frames.file.checkpoint_frames.load(Acquire));
        // If the file was cut, the last checkpoint still needs the frames beyond the cut. The very first checkpoint is
        // journalled completely, so that the file stays empty until it is complete.
        let safe = cut == last && !self.values.has_replayed_references();
        if safe && last > 0 { last } else { FrameNo::MAX }
    }

    /// Reserves space for frames in the table's file that have none yet.
    fn reserve_places(&self) -> Result<()> {
        let Some(file) = &self.frames.file.handle else { return Ok(()) };
        // Under the allocator's lock, as other threads reserve under it, too.
        let mut space = self.frames.space();
        let (frame_count, in_file) = (self.frames.frame_count(), self.frames.file.file_frames.load(Acquire));
        let fail = |e| Error::io(&self.frames.file.path, "set the length of", e);
        if self.direct_from() != FrameNo::MAX && !self.values.keeps_end() {
            // What an interrupted checkpoint left beyond the end is cut off here: cutting also frees all blocks that
            // are reserved after it.
            let cut = set_frame_count(file.as_ref(), self.frames.frame_bytes(), in_file, 0).map_err(fail)?;
            space.forget_reserved(cut);
        }
        if frame_count <= space.reserved_frames() {
            return Ok(());
        }
        // Growth reserves all frames in order, so only a table that has not grown has holes: a copy.
        let has_holes = || file.has_holes().map_err(|e| Error::io(&self.frames.file.path, "ask for the blocks of", e));
        if frame_count > in_file || has_holes()? {
            self.frames.file.reserve_on_disk(frame_count, frame_count).map_err(Error::before_checkpoint)?;
        }
        space.note_reserved(frame_count);
        Ok(())
    }

    fn create_journal(&self) -> Result<CheckpointRoom> {
        let path = journal_path(&self.frames.file.path);
        let file = self.frames.file.handle.as_deref().expect("a table in memory has no checkpoints");
        let fail = |what: &'static str| move |e| Error::io(&self.frames.file.path, what, e).before_checkpoint();
        self.frames.file.storage.remove(&path).map_err(fail("remove the old journal of"))?;
        let journal = create_beside(self.frames.file.storage.as_ref(), &path, file)
            .map_err(fail("create a journal for a checkpoint of"))?;
        let room = CheckpointRoom {
            storage: self.frames.file.storage.clone(),
            path,
            journal: Some(journal),
            reserved_bytes: 0,
            counted: DirtyCount::default(),
        };
        // If this table is renamed now, another table may be opened by this name.
        take_lock(room.journal.as_deref().expect("just made"), &room.path)?;
        Ok(room)
    }

    /// Reserves the length of the journal for the frames that are dirty now and for `waiting` additional map frames.
    fn reserve_journal(&self, room: &mut CheckpointRoom, waiting: u64) -> Result<()> {
        self.frames.pool.count_dirty(&mut room.counted, self.direct_from());
        let zones = u64::from(self.frames.frame_count().div_ceil(ZONE_FRAMES));
        let (listed, journalled) = (room.counted.listed as u64, room.counted.below);
        let header = 1;
        let frames = journalled + waiting.min(zones) + (listed + waiting).min(zones) + header;
        let bytes = JOURNAL_HEADER_BYTES + frames * (self.frames.frame_bytes() as u64 + INDEX_ENTRY_BYTES);
        if bytes > room.reserved_bytes {
            let journal = room.journal.as_deref().expect("no checkpoint has it yet");
            let fail =
                |e| Error::io(&self.frames.file.path, "reserve disk space for a checkpoint of", e).before_checkpoint();
            journal.reserve(bytes).map_err(fail)?;
            room.reserved_bytes = bytes;
        }
        Ok(())
    }
}
