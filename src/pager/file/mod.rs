//! The file of a table: its name and lock, its header, its lengths, and whether it may still be written.
//!
//! A table in memory has no file, but a name for errors; its frames are counted here as well.
//!
//! Not here: the content of frames (`load/`), checkpoints (`checkpoint/`).

pub(crate) mod block_header;
pub(crate) mod create;
pub(crate) mod header;
pub(super) mod health;
pub(super) mod held;
pub(super) mod length;
pub(crate) mod map_frames;
pub(super) mod mapped_reads;
pub(crate) mod names;
pub(super) mod random;
pub(super) mod stale;
pub(crate) mod sums;
pub(crate) mod undo;

use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::io::{Access, File, Storage};
use crate::pager::pool::FrameNo;
use header::{FIRST_FRAMES, Header};
use health::Health;
use held::Held;
use length::WrittenEnd;
use map_frames::MapFrames;
use names::refuse_if_moved;
use random::random_u64;
use stale::beside_void_journal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// The value of `values_from` if no values are written to the file at once.
pub(super) const NOWHERE: FrameNo = FrameNo::MAX;

/// The file of a table, or the table in memory.
pub(crate) struct TableFile {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) path: PathBuf,
    /// `None`: in memory only.
    pub(super) handle: Option<Arc<dyn File>>,
    pub(super) read_only: bool,
    /// The checkpoint that a handle that only reads has chosen.
    held: Option<Held>,
    /// Whether the file is an unlinked temporary file for frames that do not fit in the cache. Its content ends with
    /// the handle.
    pub(super) scratch: bool,
    pub(super) frame_bytes: usize,
    pub(super) table_id: u64,
    /// The number of frames of the table, including free ones.
    frame_count: AtomicU32,
    pub(super) maps: MapFrames,
    /// Frames of the file at the last checkpoint; a frame beyond them reads as zeros.
    pub(super) file_frames: AtomicU32,
    /// Frames of the last checkpoint; `file_frames` is smaller once the file was cut.
    pub(super) checkpoint_frames: AtomicU32,
    /// Values may be written at once to frames from here on.
    pub(super) values_from: AtomicU32,
    written_end: WrittenEnd,
    /// Whether it is a file of blocks (`blocks/`).
    pub(super) has_blocks: bool,
    /// Bytes of the last checkpoint in a file of blocks.
    pub(super) block_bytes_needed: AtomicU64,
    /// The number of the last complete checkpoint.
    pub(super) sequence: AtomicU64,
    /// The number of the last checkpoint that began.
    pub(super) frozen_sequence: AtomicU64,
    pub(super) health: Health,
}

impl TableFile {
    /// A new table of frames of `frame_bytes`; its file, if it has one, is empty.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        handle: Option<Arc<dyn File>>,
        frame_bytes: usize,
    ) -> TableFile {
        TableFile {
            storage,
            path,
            handle,
            read_only: false,
            held: None,
            scratch: false,
            frame_bytes,
            table_id: random_u64(),
            frame_count: AtomicU32::new(FIRST_FRAMES),
            maps: MapFrames::default(),
            file_frames: AtomicU32::new(0),
            checkpoint_frames: AtomicU32::new(0),
            values_from: AtomicU32::new(NOWHERE),
            written_end: WrittenEnd::default(),
            has_blocks: false,
            block_bytes_needed: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            frozen_sequence: AtomicU64::new(0),
            health: Health::default(),
        }
    }

    /// The table in a file with this header.
    pub(super) fn with_header(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        handle: Arc<dyn File>,
        read_only: bool,
        held: Option<Held>,
        header: &Header,
    ) -> TableFile {
        TableFile {
            read_only,
            held,
            table_id: header.table_id,
            frame_count: AtomicU32::new(header.frame_count),
            maps: MapFrames::new(header.map_groups),
            file_frames: AtomicU32::new(header.frame_count),
            checkpoint_frames: AtomicU32::new(header.frame_count),
            sequence: AtomicU64::new(header.sequence),
            frozen_sequence: AtomicU64::new(header.sequence),
            ..TableFile::new(storage, path, Some(handle), header.frame_bytes)
        }
    }

    /// The header of a checkpoint of what the table is now.
    pub(super) fn header(&self, sequence: u64) -> Header {
        Header {
            frame_bytes: self.frame_bytes,
            table_id: self.table_id,
            sequence,
            frame_count: self.frame_count(),
            map_groups: self.maps.groups(),
        }
    }

    #[inline]
    pub(super) fn frame_count(&self) -> FrameNo {
        self.frame_count.load(Acquire)
    }

    pub(super) fn set_frame_count(&self, count: FrameNo) {
        self.frame_count.store(count, Release);
    }

    /// Bytes of all frames of the table.
    pub(super) fn table_bytes(&self) -> u64 {
        u64::from(self.frame_count()) * self.frame_bytes as u64
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Makes the handle refuse all further writes. Called if the state of the disk is unknown, or memory holds changes
    /// that the log does not.
    pub(super) fn poison(&self, reason: &str) {
        if self.health.poison(reason) {
            event!(error, "{}: refuses writes from now on: {reason}", self.path.display());
        }
    }

    /// Whether values may currently be written to the file at once.
    #[inline]
    pub(super) fn takes_values(&self) -> bool {
        self.values_from.load(Relaxed) != NOWHERE
    }

    /// Called when frames are cut off the end: their numbers may be reused before the file is cut.
    pub(super) fn stop_taking_values(&self) {
        self.values_from.store(NOWHERE, Release);
    }

    #[cold]
    pub(super) fn unread(&self, frame: FrameNo, e: std::io::Error) -> Error {
        if self.read_only
            && !self.holds_checkpoint()
            && let Err(other) = self.refuse_if_stale()
            && other.kind() != ErrorKind::Io
        {
            return other; // a checkpoint made the file shorter, or the file was cut
        }
        // Frames that a checkpoint cuts off are in an undo file.
        let keeps_all = !self.read_only || self.holds_checkpoint();
        if e.kind() == std::io::ErrorKind::UnexpectedEof && keeps_all {
            let path = self.path.display();
            return Error::corrupt_table(format!("{path}: frame {frame} is gone: another program cut the file"));
        }
        Error::io(&self.path, &format!("read frame {frame} of"), e)
    }

    /// The owner and permissions of the table's file, if it has one.
    pub(crate) fn access(&self) -> Result<Option<Access>> {
        let access = self.handle.as_ref().map_or(Ok(None), |file| file.access());
        access.map_err(|e| Error::io(&self.path, "ask for the permissions of", e))
    }

    /// Sets the owner and permissions of `file`, at `path`, to those of the table's file.
    pub(crate) fn share_access(&self, file: &dyn File, path: &Path) -> Result<()> {
        let Some(access) = self.access()? else { return Ok(()) };
        file.take_access(access).map_err(|e| Error::io(path, "set the owner and permissions of", e))
    }

    /// An error about this file's content.
    pub(super) fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        let error = Error::corrupt_table(format!("{}: {what}", self.path.display()));
        if self.void_journal().is_some() { beside_void_journal(error, &self.path) } else { error }
    }

    /// Fails if the table was moved. Called before a log or journal is created, used or removed.
    pub(super) fn refuse_if_moved(&self) -> Result<()> {
        match self.handle.as_ref().filter(|_| !self.scratch) {
            Some(file) => refuse_if_moved(file.as_ref(), &self.path),
            None => Ok(()),
        }
    }

    /// Reserves disk space for the frames below `needed`, and if possible for those below `wanted`. Returns the number
    /// of frames with space.
    pub(super) fn reserve_on_disk(&self, needed: FrameNo, wanted: FrameNo) -> Result<FrameNo> {
        // Blocks are reserved for checkpoints and evictions, not for growth.
        let Some(file) = self.handle.as_ref().filter(|_| !self.read_only && !self.has_blocks) else {
            return Ok(wanted);
        };
        let reserve = |frames: FrameNo| file.reserve(u64::from(frames) * self.frame_bytes as u64).map(|()| frames);
        reserve(wanted).or_else(|_| reserve(needed)).map_err(|e| Error::io(&self.path, "reserve disk space for", e))
    }

    /// # Errors
    /// [`ErrorKind::Poisoned`] after a failed write or sync.
    pub(super) fn refuse_if_poisoned(&self) -> Result<()> {
        if !self.health.is_poisoned() {
            return Ok(());
        }
        let (path, reason) = (self.path.display(), self.health.reason());
        Err(Error::new(
            ErrorKind::Poisoned,
            format!("{path}: an earlier write to the disk failed, so this handle takes no more writes: {reason}"),
        )
        .with_hint("Open the table again to continue from its last durable state."))
    }

    /// Releases disk space that was reserved ahead of growth. Best effort; called when the handle is closed.
    pub(crate) fn release_reserved(&self) {
        if let (Some(file), false, false) = (&self.handle, self.read_only, self.scratch) {
            // Setting a file's length to its current length frees the blocks reserved beyond it.
            let _ = file.len().and_then(|bytes| file.set_len(bytes));
        }
    }
}
