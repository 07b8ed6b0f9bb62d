//! Copies of a whole file, as of its last checkpoint.
//!
//! A copy holds the checkpoint as a reader does, so that writers complete later ones in the meantime. The holder of the
//! checkpoint lock copies the last one itself where that is not possible ([`copy_checkpoint`]).
//!
//! The file that is copied to is empty, or has an earlier copy, which is brought up to date.
//!
//! Not here: which frames are read and written (`blocks/copy.rs`).

use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage};
use crate::pager::blocks::Blocks;
use crate::pager::blocks::copy::Content;
use crate::pager::file::headers::{CheckpointHeader, Headers};
use crate::pager::file::held::Held;
use crate::pager::file::{TableFile, create, names};
use crate::pager::load::Frames;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A file to copy to.
pub(crate) struct Target<'a> {
    pub file: Arc<dyn File>,
    pub path: &'a Path,
    /// Called once it is known that the file has an earlier copy, before that is changed.
    pub begin: &'a dyn Fn() -> Result<()>,
    /// Called with bytes copied and bytes in all; returns false to cancel.
    pub step: &'a mut dyn FnMut(u64, u64) -> bool,
}

impl Target<'_> {
    /// Makes `content` the last checkpoint of the file.
    fn take(&mut self, content: Content<'_>) -> Result<bool> {
        let (storage, of) = (&content.file.storage, content.file);
        let (file, blocks) = match Headers::read(self.path, self.file.as_ref())? {
            Headers::Unmade => {
                let mut file =
                    TableFile::new(storage.clone(), self.path.into(), Some(self.file.clone()), of.frame_bytes);
                file.table_id = of.table_id;
                (file, Blocks::new(of.frame_bytes, 0))
            }
            Headers::Last(header, is_durable) => {
                self.refuse_other(of, &header)?;
                (self.begin)()?;
                let file = TableFile::with_header(storage.clone(), self.path.into(), self.file.clone(), None, &header);
                let blocks = Blocks::open(&file, *header, is_durable, 0)?;
                blocks.begin_reuse(&file, false)?;
                (file, blocks)
            }
        };
        blocks.take_copy(&file, content, self.step)
    }

    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the file is the table itself or no copy of it.
    fn refuse_other(&self, table: &TableFile, header: &CheckpointHeader) -> Result<()> {
        let found = (header.table.table_id, header.table.frame_bytes);
        let what = if table.path == self.path {
            "the table itself"
        } else if found != (table.table_id, table.frame_bytes) {
            "another table"
        } else {
            return Ok(());
        };
        let (shown, table) = (self.path.display(), table.path.display());
        Err(Error::new(ErrorKind::InvalidArgument, format!("{shown}: not a backup of {table}, but {what}"))
            .with_hint("Make a new backup, which copies the whole table."))
    }
}

/// Copies the last checkpoint, or the one that was opened for reading. Returns false if `target.step` cancelled it. If
/// the handle writes, the caller holds the checkpoint lock.
pub(crate) fn copy_checkpoint(frames: &Frames, target: &mut Target<'_>) -> Result<bool> {
    frames.blocks.as_ref().map_or(Ok(false), |blocks| copy_blocks(blocks, &frames.file, target))
}

/// Copies what a handle shows that only reads: its checkpoint and the changes that it replayed since, with this `root`.
/// `last_segment` is the highest number of any segment of the log that it found, 0 if it found none.
pub(crate) fn copy_replayed(
    frames: &Frames,
    last_segment: u64,
    root: Vec<u8>,
    target: &mut Target<'_>,
) -> Result<bool> {
    let (Some(blocks), file) = (&frames.blocks, &frames.file) else { return Ok(false) };
    let read = |frame, bytes: &mut [u8]| {
        bytes.copy_from_slice(&frames.read(frame)?);
        Ok(())
    };
    let is_changed = |frame| frames.pool.is_dirty(frame);
    // A log that is left beside the copy would be replayed again, if the copy had the number of the checkpoint, or of a
    // segment, or one that the writer takes later.
    const GAP: u64 = 1 << 32;
    let checkpoint = file.sequence.load(Relaxed);
    let header = file.header(if last_segment == 0 { checkpoint } else { checkpoint.max(last_segment) + GAP });
    target.take(Content { file, blocks, header, root, is_changed: &is_changed, read: &read })
}

fn copy_blocks(blocks: &Blocks, file: &TableFile, target: &mut Target<'_>) -> Result<bool> {
    let Some(CheckpointHeader { table: header, root, .. }) = blocks.last_header() else { return Ok(false) };
    target.take(Content { file, blocks, header, root, is_changed: &|_| false, read: &|_, _| Ok(()) })
}

/// A checkpoint that is held to be copied.
pub(crate) struct HeldCopy {
    file: TableFile,
    blocks: Blocks,
}

impl HeldCopy {
    /// Holds the last checkpoint of a file as a reader does. `None` if that is not possible: the file cannot be opened
    /// again, another file is at its path, or the system has no locks of bytes. The caller keeps other checkpoints out.
    pub(crate) fn of(frames: &Frames) -> Result<Option<HeldCopy>> {
        let Some(blocks) = &frames.blocks else { return Ok(None) };
        let (storage, path) = (&frames.file.storage, &frames.file.path);
        let Ok(handle) = create::open_to_read(storage.as_ref(), path) else { return Ok(None) };
        let handle: Arc<dyn File> = handle.into();
        if !matches!(Headers::read(path, handle.as_ref()), Ok(Headers::Last(..))) {
            return Ok(None);
        }
        let copy = HeldCopy::begin(storage, path, handle)?;
        Ok((copy.file.holds_checkpoint() && copy.blocks.last_id() == blocks.last_id()).then_some(copy))
    }

    fn begin(storage: &Arc<dyn Storage>, path: &Path, handle: Arc<dyn File>) -> Result<HeldCopy> {
        let (held, header) = Held::begin(path, handle.as_ref())?;
        let file = TableFile::with_header(storage.clone(), path.to_owned(), handle, Some(held), &header);
        let blocks = Blocks::open(&file, header, false, 0)?;
        Ok(HeldCopy { file, blocks })
    }

    /// Copies it. Returns false if `target.step` cancelled it.
    pub(crate) fn copy(&self, target: &mut Target<'_>) -> Result<bool> {
        copy_blocks(&self.blocks, &self.file, target)
    }
}

/// Copies the file at `path` as of its last checkpoint, while another process may be writing it. Returns false if
/// `target.step` cancelled it.
pub(crate) fn copy_file(storage: &Arc<dyn Storage>, path: &Path, target: &mut Target<'_>) -> Result<bool> {
    let handle: Arc<dyn File> = create::open_to_read(storage.as_ref(), path)?.into();
    names::refuse_other_names(handle.as_ref(), path, true)?;
    HeldCopy::begin(storage, path, handle)?.copy(target)
}

/// The number by which the table in a file recognizes its log; `None` if no table is made in it yet.
///
/// # Errors
/// [`ErrorKind::NotATable`], [`ErrorKind::Version`] and [`ErrorKind::Corrupt`].
pub(crate) fn table_id(path: &Path, file: &dyn File) -> Result<Option<u64>> {
    match Headers::read(path, file)? {
        Headers::Unmade => Ok(None),
        Headers::Last(header, _) => Ok(Some(header.table.table_id)),
    }
}

/// Opens the earlier copy at `path` for writing, with its lock.
pub(crate) fn open_copy(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn File>> {
    let (file, _) = create::open_to_write(storage, path, create::Create::Never, 0)?;
    names::refuse_other_names(file.as_ref(), path, false)?;
    match Headers::read(path, file.as_ref())? {
        Headers::Unmade => Err(create::not_yet_made(path)),
        Headers::Last(..) => Ok(file.into()),
    }
}
