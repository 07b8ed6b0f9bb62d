//! Copies of a whole file, as of its last checkpoint.
//!
//! A copy holds the checkpoint as a reader does, so that writers complete later ones in the meantime. The holder of the
//! checkpoint lock copies the last one itself where that is not possible ([`copy_checkpoint`]).

use crate::error::Result;
use crate::io::{File, Storage};
use crate::pager::blocks::Blocks;
use crate::pager::file::headers::Headers;
use crate::pager::file::held::Held;
use crate::pager::file::{TableFile, create, names};
use crate::pager::load::Frames;
use std::path::Path;
use std::sync::Arc;

/// A file to copy to, and its progress function, called with bytes copied and bytes in all; it returns false to cancel.
pub(crate) struct Target<'a> {
    pub file: &'a dyn File,
    pub path: &'a Path,
    pub step: &'a mut dyn FnMut(u64, u64) -> bool,
}

/// Copies the last checkpoint, or the one that was opened for reading. Returns false if `target.step` cancelled it. If
/// the handle writes, the caller holds the checkpoint lock.
pub(crate) fn copy_checkpoint(frames: &Frames, target: &mut Target<'_>) -> Result<bool> {
    frames.blocks.as_ref().map_or(Ok(false), |blocks| copy_blocks(blocks, &frames.file, target))
}

fn copy_blocks(blocks: &Blocks, file: &TableFile, target: &mut Target<'_>) -> Result<bool> {
    blocks.copy(file, (target.file, target.path), target.step)
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
