//! Copies of a whole file, as of its last checkpoint.
//!
//! The holder of the checkpoint lock copies a file that no thread writes ([`copy_checkpoint`]). A handle that reads the
//! file copies the checkpoint that it holds ([`copy_opened`]), while another process may be writing later ones. So does
//! a backup of a file of blocks ([`HeldCopy`]).
//!
//! Zeros are not written: they become holes of the copy.

use super::hold::hold_last_checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage};
use crate::pager::blocks::Blocks;
use crate::pager::file::TableFile;
use crate::pager::file::block_header::Headers;
use crate::pager::file::held::Held;
use crate::pager::file::{create, names};
use crate::pager::load::Frames;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// A file to copy to, and its progress function, called with bytes copied and bytes in all; it returns false to cancel.
pub(crate) struct Target<'a> {
    pub file: &'a dyn File,
    pub path: &'a Path,
    pub step: &'a mut dyn FnMut(u64, u64) -> bool,
}

/// Copies `file` as the last checkpoint left it; the caller prevents another one. Returns false if `target.step`
/// cancelled it.
pub(crate) fn copy_checkpoint(frames: &Frames, target: &mut Target<'_>) -> Result<bool> {
    let file = &frames.file;
    if let Some(blocks) = &frames.blocks {
        return copy_blocks(blocks, file, target);
    }
    let Some(handle) = &file.handle else { return Ok(false) };
    let read = |bytes: &mut [u8], at| handle.read_at(bytes, at).map_err(|e| Error::io(&file.path, "read", e));
    copy_bytes(read, checkpoint_bytes(file), target)
}

/// Copies the checkpoint that was opened for reading. Returns false if `target.step` cancelled it.
pub(crate) fn copy_opened(frames: &Frames, target: &mut Target<'_>) -> Result<bool> {
    match &frames.blocks {
        Some(blocks) => copy_blocks(blocks, &frames.file, target),
        None => copy_held(&frames.file, target),
    }
}

fn copy_blocks(blocks: &Blocks, file: &TableFile, target: &mut Target<'_>) -> Result<bool> {
    blocks.copy(file, (target.file, target.path), target.step)
}

fn copy_held(file: &TableFile, target: &mut Target<'_>) -> Result<bool> {
    let Some(handle) = &file.handle else { return Ok(false) };
    let frame_of = |at: u64| (at / file.frame_bytes as u64) as u32;
    let read = |bytes: &mut [u8], at| file.read_as_opened(handle.as_ref(), frame_of(at), bytes);
    copy_bytes(read, checkpoint_bytes(file), target)
}

/// A checkpoint of a file of blocks that is held to be copied.
pub(crate) struct HeldCopy {
    file: TableFile,
    blocks: Blocks,
}

impl HeldCopy {
    /// Holds the last checkpoint of a file of blocks as a reader does. `None` if that is not possible: a file of frames
    /// in place, one that cannot be opened again, another file at its path, no locks of bytes. The caller keeps other
    /// checkpoints out.
    pub(crate) fn of(frames: &Frames) -> Result<Option<HeldCopy>> {
        let Some(blocks) = &frames.blocks else { return Ok(None) };
        let (storage, path) = (&frames.file.storage, &frames.file.path);
        let Ok(handle) = create::open_to_read(storage.as_ref(), path) else { return Ok(None) };
        let handle: Arc<dyn File> = handle.into();
        if !matches!(Headers::read(path, handle.as_ref())?, Headers::Last(..)) {
            return Ok(None);
        }
        let copy = HeldCopy::begin(storage, path, handle)?;
        Ok((copy.file.holds_checkpoint() && copy.blocks.last_id() == blocks.last_id()).then_some(copy))
    }

    fn begin(storage: &Arc<dyn Storage>, path: &Path, handle: Arc<dyn File>) -> Result<HeldCopy> {
        let (held, header) = Held::begin_with_blocks(path, handle.as_ref())?;
        let mut file =
            TableFile::with_header(storage.clone(), path.to_owned(), handle, true, Some(held), &header.table);
        file.has_blocks = true;
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
    // Only without locks of bytes, or room for undo files, does a checkpoint interrupt the copy.
    const TRIES: u32 = 50;
    let handle: Arc<dyn File> = create::open_to_read(storage.as_ref(), path)?.into();
    names::refuse_other_names(handle.as_ref(), path, true)?;
    if matches!(Headers::read(path, handle.as_ref())?, Headers::Last(..)) {
        return HeldCopy::begin(storage, path, handle)?.copy(target);
    }
    let mut tries = 0;
    loop {
        let (held, header, _) = hold_last_checkpoint(storage.as_ref(), path, handle.as_ref())?;
        let file = TableFile::with_header(storage.clone(), path.to_owned(), handle.clone(), true, held, &header);
        tries += 1;
        match copy_held(&file, target) {
            Err(e) if e.kind() == ErrorKind::Stale && tries < TRIES => {}
            copied => return copied,
        }
    }
}

fn checkpoint_bytes(file: &TableFile) -> u64 {
    u64::from(file.checkpoint_frames.load(Acquire)) * file.frame_bytes as u64
}

/// Copies `bytes` bytes, which `read` reads from an offset on.
fn copy_bytes(read: impl Fn(&mut [u8], u64) -> Result<()>, bytes: u64, target: &mut Target<'_>) -> Result<bool> {
    const STEP_BYTES: u64 = 1 << 20;
    /// Shorter runs of zeros are written with their neighbours.
    const HOLE_BYTES: usize = 1 << 16;
    // Emptied first: the content that an earlier try left would show through the holes.
    let sized = target.file.set_len(0).and_then(|()| target.file.set_len(bytes));
    sized.map_err(|e| Error::io(target.path, "set the length of", e))?;
    let mut buffer = vec![0; STEP_BYTES as usize];
    let mut at = 0;
    while at < bytes {
        if !(target.step)(at, bytes) {
            return Ok(false);
        }
        let buffer = &mut buffer[..(bytes - at).min(STEP_BYTES) as usize];
        read(buffer, at)?;
        for part in buffer.chunks(HOLE_BYTES) {
            if part.iter().any(|&b| b != 0) {
                target.file.write_at(part, at).map_err(|e| Error::io(target.path, "write", e))?;
            }
            at += part.len() as u64;
        }
    }
    Ok((target.step)(bytes, bytes))
}
