//! Copies of a whole file, as of its last checkpoint.
//!
//! The holder of the checkpoint lock copies a file that no thread writes ([`copy_checkpoint`]). Other processes
//! copy the file, then check whether a checkpoint was written in the meantime ([`copy_file`]):
//!
//! ```text
//! no complete journal    header A    copy    no complete journal    header A again: the copy is one checkpoint
//! ```
//!
//! A checkpoint overwrites frames of the previous one only while its journal is complete, and writes the header last.
//! So if a write overlapped the copy, the journal still exists or the header differs.
//!
//! Zeros are not written: they become holes of the copy.

use super::journal::refuse_half_installed;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage};
use crate::pager::file::TableFile;
use crate::pager::file::header::{HEADER_BYTES, Header};
use crate::pager::file::{create, names};
use crate::pager::wal::has_segments;
use std::path::Path;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

/// A file to copy to, and its progress function, called with bytes copied and bytes in all; it returns false to cancel.
pub(crate) struct Target<'a> {
    pub file: &'a dyn File,
    pub path: &'a Path,
    pub step: &'a mut dyn FnMut(u64, u64) -> bool,
}

/// Copies `file` as the last checkpoint left it; the caller prevents another one. Returns false if `target.step`
/// cancelled it.
pub(crate) fn copy_checkpoint(file: &TableFile, target: &mut Target<'_>) -> Result<bool> {
    let Some(handle) = &file.handle else { return Ok(false) };
    let bytes = u64::from(file.checkpoint_frames.load(Acquire)) * file.frame_bytes as u64;
    copy_bytes(handle.as_ref(), &file.path, bytes, target)
}

/// Copies the file at `path` as of its last checkpoint, while another process may be writing it. Returns false if
/// `target.step` cancelled it.
pub(crate) fn copy_file(storage: &dyn Storage, path: &Path, target: &mut Target<'_>) -> Result<bool> {
    // A writer that makes one checkpoint after another pauses between them; the retries aim for a pause.
    const TRIES: u32 = 50;
    const WAIT: Duration = Duration::from_millis(100);
    let file = create::open_to_read(storage, path)?;
    names::refuse_other_names(file.as_ref(), path, true)?;
    let mut tries = 0;
    loop {
        let copied = copy_once(storage, path, file.as_ref(), target);
        tries += 1;
        let writer = file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))?;
        match copied {
            Ok(Some(copied)) => return Ok(copied),
            // Without a writer, retrying does not help. With one, a half-written header looks corrupt.
            Err(e) if !writer || !matches!(e.kind(), ErrorKind::Locked | ErrorKind::Corrupt) => return Err(e),
            Err(e) if tries == TRIES => return Err(e),
            Ok(None) if tries == TRIES => {
                let shown = path.display();
                return Err(Error::new(
                    ErrorKind::Locked,
                    format!("{shown}: copied {TRIES} times, and each time its writer made a checkpoint"),
                )
                .with_hint("Try again when the writer has less to do, or let the writer make the backup."));
            }
            _ => std::thread::sleep(WAIT),
        }
    }
}

/// Whether a process that had the table at `path` open for writing has died, so that its log has changes that the file
/// lacks.
pub(crate) fn is_crashed(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let file = create::open_to_read(storage, path)?;
    let writer = file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))?;
    Ok(!writer && has_segments(storage, path))
}

/// Returns `None` if a checkpoint was written during the copy.
fn copy_once(storage: &dyn Storage, path: &Path, file: &dyn File, target: &mut Target<'_>) -> Result<Option<bool>> {
    refuse_half_installed(storage, path, file)?;
    let before = header_of(path, file)?;
    let (header, _) = Header::read(path, file)?;
    let bytes = u64::from(header.frame_count) * header.frame_bytes as u64;
    if !copy_bytes(file, path, bytes, target)? {
        return Ok(Some(false));
    }
    // The journal first: see the top of this file.
    refuse_half_installed(storage, path, file)?;
    Ok((header_of(path, file)? == before).then_some(true))
}

fn header_of(path: &Path, file: &dyn File) -> Result<Vec<u8>> {
    let len = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
    let mut bytes = vec![0; len.min(HEADER_BYTES as u64) as usize];
    file.read_at(&mut bytes, 0).map_err(|e| Error::io(path, "read the header of", e))?;
    Ok(bytes)
}

fn copy_bytes(from: &dyn File, path: &Path, bytes: u64, target: &mut Target<'_>) -> Result<bool> {
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
        from.read_at(buffer, at).map_err(|e| Error::io(path, "read", e))?;
        for part in buffer.chunks(HOLE_BYTES) {
            if part.iter().any(|&b| b != 0) {
                target.file.write_at(part, at).map_err(|e| Error::io(target.path, "write", e))?;
            }
            at += part.len() as u64;
        }
    }
    Ok((target.step)(bytes, bytes))
}
