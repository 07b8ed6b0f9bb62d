//! The file of a table: its name and lock, its header, its lengths, and whether it may still be written.
//!
//! A table in memory has no file, but a name for errors; its frames are counted here as well.
//!
//! Not here: the content of frames (`load/`), checkpoints (`checkpoint/`).

pub(crate) mod create;
pub(crate) mod header;
pub(crate) mod headers;
pub(super) mod health;
pub(super) mod held;
pub(super) mod length;
pub(crate) mod map_frames;
pub(super) mod mapped_reads;
pub(crate) mod names;
pub(super) mod random;
pub(super) mod stale;
pub(crate) mod sums;

use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::io::{Access, File, Storage};
use crate::pager::interleave;
use crate::pager::pool::FrameNo;
use header::Header;
use headers::CheckpointHeader;
use health::Health;
use held::Held;
use length::WrittenEnd;
use map_frames::{FIRST_FRAMES, MapFrames};
use names::refuse_if_moved;
use random::random_u64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};

/// The file of a table, or the table in memory.
pub(crate) struct TableFile {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) path: PathBuf,
    /// `None`: in memory only.
    pub(super) handle: Option<Arc<dyn File>>,
    pub(super) read_only: bool,
    /// The checkpoint that a handle that only reads has chosen.
    held: Option<Held>,
    pub(super) frame_bytes: usize,
    pub(super) table_id: u64,
    /// The number of frames of the table, including free ones.
    frame_count: AtomicU32,
    pub(super) maps: MapFrames,
    /// Frames of the last checkpoint that are still in the table; 0 before the first one.
    pub(super) file_frames: AtomicU32,
    written_end: WrittenEnd,
    /// Bytes that the file must have for the last checkpoint.
    pub(super) checkpoint_bytes: AtomicU64,
    /// The number of the last complete checkpoint.
    pub(super) sequence: AtomicU64,
    /// The number of the last checkpoint that began.
    pub(super) frozen_sequence: AtomicU64,
    pub(super) health: Health,
    /// Held during a call that returns errors of earlier writes.
    settling: Mutex<()>,
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
            frame_bytes,
            table_id: random_u64(),
            frame_count: AtomicU32::new(FIRST_FRAMES),
            maps: MapFrames::default(),
            file_frames: AtomicU32::new(0),
            written_end: WrittenEnd::default(),
            checkpoint_bytes: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            frozen_sequence: AtomicU64::new(0),
            health: Health::default(),
            settling: Mutex::default(),
        }
    }

    /// The table in a file with this header. Whoever only reads has a `held` checkpoint.
    pub(super) fn with_header(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        handle: Arc<dyn File>,
        held: Option<Held>,
        header: &CheckpointHeader,
    ) -> TableFile {
        let CheckpointHeader { table: header, length, .. } = header;
        TableFile {
            read_only: held.is_some(),
            held,
            checkpoint_bytes: AtomicU64::new(u64::from(*length) * header.frame_bytes as u64),
            table_id: header.table_id,
            frame_count: AtomicU32::new(header.frame_count),
            maps: MapFrames::new(header.map_groups),
            file_frames: AtomicU32::new(header.frame_count),
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

    /// Makes a call that returns errors of earlier writes: a sync, or a wait for one. The system returns each of them
    /// once, to whichever thread asks first. So one such call runs at a time, and an error poisons the handle before
    /// another thread can take for durable what was not written.
    ///
    /// # Errors
    /// The error of the call; [`ErrorKind::Poisoned`] after one that another thread got.
    pub(super) fn settle(&self, what: &'static str, call: impl FnOnce(&dyn File) -> std::io::Result<()>) -> Result<()> {
        let Some(file) = &self.handle else { return Ok(()) };
        let _settling = interleave::lock(&self.settling);
        self.refuse_if_poisoned()?;
        call(file.as_ref()).map_err(|e| Error::io(&self.path, what, e)).inspect_err(|e| self.poison(e.message()))
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
        Error::corrupt_table(format!("{}: {what}", self.path.display()))
    }

    /// Fails if the table was moved. Called before a log is created, used or removed.
    pub(super) fn refuse_if_moved(&self) -> Result<()> {
        match &self.handle {
            Some(file) => refuse_if_moved(file.as_ref(), &self.path),
            None => Ok(()),
        }
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
}
