//! Whether a file that is open for reading is still the one that was opened.
//!
//! Not here: the journal itself (`checkpoint/journal.rs`).

use super::TableFile;
use super::header::HEADER_BYTES;
use super::names::{is_at, journal_path};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage};
use crate::little_endian::u64_at;
use std::path::Path;
use std::sync::atomic::Ordering::*;

/// First bytes of a journal. On disk.
pub(in crate::pager) const JOURNAL_MAGIC: [u8; 8] = *b"SPLITJRN";

/// What a file shows of the writer's checkpoints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    /// The number of the last one that is complete.
    pub last: u64,
    /// Whether the next one may be being written over it.
    pub journal: bool,
}

pub(super) fn file_state(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<FileState> {
    // In this order: a complete journal exists from before the first write in place until after the last one, that of
    // the header.
    let journal = has_journal(storage, path)?;
    let mut header = [0; HEADER_BYTES];
    file.read_at(&mut header, 0).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::corrupt_table(format!("{}: the header is gone: another program cut the file", path.display()))
        }
        _ => Error::io(path, "read the header of", e),
    })?;
    Ok(FileState { last: u64_at(&header, 16), journal })
}

impl TableFile {
    /// What the file shows now. Fails if it was renamed.
    pub(super) fn state(&self, file: &dyn File) -> Result<FileState> {
        if self.has_lost_its_name(file)? {
            // It has no writer. By its old name there may be another table.
            return Ok(FileState { last: self.sequence.load(Relaxed), journal: false });
        }
        file_state(self.storage.as_ref(), &self.path, file)
    }

    /// Whether the table's name leads to this file, and the file has no later checkpoint than this handle.
    pub(crate) fn is_last_checkpoint(&self) -> Result<bool> {
        let Some(file) = self.handle.as_ref() else { return Ok(true) };
        if !is_at(file.as_ref(), &self.path)? {
            return Ok(false);
        }
        let mut last = [0; 8];
        file.read_at(&mut last, 16).map_err(|e| Error::io(&self.path, "read the header of", e))?;
        Ok(u64::from_le_bytes(last) == self.sequence.load(Relaxed))
    }

    /// Fails if another process has begun to write a checkpoint over the file that was opened here for reading.
    pub(crate) fn refuse_if_stale(&self) -> Result<()> {
        let Some(file) = self.handle.as_ref().filter(|_| self.read_only) else { return Ok(()) };
        let opened = FileState { last: self.sequence.load(Relaxed), journal: false };
        if self.state(file.as_ref())? == opened { Ok(()) } else { Err(self.stale()) }
    }

    pub(super) fn stale(&self) -> Error {
        let path = self.path.display();
        Error::new(
            ErrorKind::Stale,
            format!("{path}: another process has written a checkpoint since this handle was opened for reading"),
        )
        .with_hint("Open the table again.")
    }

    /// Whether the file has no name any more. Fails if it has another one: its writer keeps the journal next to that
    /// name, so changes would go unnoticed here.
    fn has_lost_its_name(&self, file: &dyn File) -> Result<bool> {
        if is_at(file, &self.path)? {
            return Ok(false);
        }
        if file.link_count().map_err(|e| Error::io(&self.path, "count the links of", e))? == 0 {
            return Ok(true);
        }
        let path = self.path.display();
        Err(Error::new(ErrorKind::Stale, format!("{path}: was renamed since this handle was opened for reading"))
            .with_hint("Open it by its new name."))
    }
}

/// Whether there may be a complete journal for the table at `path`. Its magic is written last.
fn has_journal(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let journal_path = journal_path(path);
    let journal = match storage.open(&journal_path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    let mut magic = [0; JOURNAL_MAGIC.len()];
    Ok(journal.read_at(&mut magic, 0).is_ok() && magic == JOURNAL_MAGIC)
}
