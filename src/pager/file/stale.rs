//! Whether a file that is open for reading is still the one that was opened.
//!
//! Not here: the journal itself (`checkpoint/journal.rs`).

use super::TableFile;
use super::header::HEADER_BYTES;
use super::names::{is_at, journal_path};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage};
use crate::little_endian::u64_at;
use crate::pager::file::block_header::Headers;
use std::path::Path;
use std::sync::atomic::Ordering::*;

/// First bytes of a journal. On disk.
pub(in crate::pager) const JOURNAL_MAGIC: [u8; 8] = *b"SPLITJRN";

/// The state of the writer's checkpoints, as a file shows it.
#[derive(Clone, Copy)]
pub(super) struct FileState {
    /// The number of the last one that is complete.
    pub last: u64,
    /// The number of the one whose journal exists.
    pub journal: Option<u64>,
}

impl FileState {
    /// Whether `checkpoint` is the last one, and no later one is being written over it. A journal of the last one or of
    /// an earlier one is about to be removed: the file already has its frames.
    pub(super) fn is_unchanged_since(self, checkpoint: u64) -> bool {
        self.last == checkpoint && !self.is_written_over()
    }

    /// Whether the next checkpoint may be being written over the last one.
    pub(super) fn is_written_over(self) -> bool {
        self.journal.is_some_and(|number| number > self.last)
    }
}

/// The state that `file`, at `path`, shows now. A journal that is `void` does not count.
pub(super) fn file_state(
    storage: &dyn Storage,
    path: &Path,
    file: &dyn File,
    void: Option<&dyn File>,
) -> Result<FileState> {
    if let Headers::Last(header, _) = Headers::read(path, file)? {
        return Ok(FileState { last: header.table.sequence, journal: None });
    }
    // In this order: a complete journal exists from before the first write in place until after the last one, that of
    // the header.
    let journal = journal_number(storage, path, void)?;
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
    /// The state that the file shows now. Fails if it was renamed.
    pub(super) fn state(&self, file: &dyn File) -> Result<FileState> {
        if self.has_lost_its_name(file)? {
            // It has no writer. By its old name there may be another table.
            return Ok(FileState { last: self.sequence.load(Relaxed), journal: None });
        }
        file_state(self.storage.as_ref(), &self.path, file, self.void_journal())
    }

    /// The number of the last checkpoint of this handle.
    pub(crate) fn last_checkpoint(&self) -> u64 {
        self.sequence.load(Acquire)
    }

    /// Whether the table's name leads to this file, and the file has no later checkpoint than this handle.
    pub(crate) fn is_last_checkpoint(&self) -> Result<bool> {
        let Some(file) = self.handle.as_ref() else { return Ok(true) };
        if !is_at(file.as_ref(), &self.path)? {
            return Ok(false);
        }
        Ok(self.checkpoint_in_file()? == self.last_checkpoint())
    }

    /// The number of the last complete checkpoint in the file, which another process may have written.
    pub(crate) fn checkpoint_in_file(&self) -> Result<u64> {
        let Some(file) = &self.handle else { return Ok(self.last_checkpoint()) };
        if self.has_blocks {
            return Ok(self.state(file.as_ref())?.last);
        }
        let mut number = [0; 8];
        file.read_at(&mut number, 16).map_err(|e| Error::io(&self.path, "read the header of", e))?;
        Ok(u64::from_le_bytes(number))
    }

    /// The number of the last checkpoint that may be in the file: it may be cut for it, and have some of its frames,
    /// before it has its header.
    pub(crate) fn checkpoint_over_file(&self) -> Result<u64> {
        let Some(file) = &self.handle else { return Ok(self.last_checkpoint()) };
        let FileState { last, journal } = self.state(file.as_ref())?;
        Ok(journal.map_or(last, |journal| journal.max(last)))
    }

    /// Fails if another process has begun to write a checkpoint over the file that was opened here for reading.
    pub(crate) fn refuse_if_stale(&self) -> Result<()> {
        let Some(file) = self.handle.as_ref().filter(|_| self.read_only) else { return Ok(()) };
        let opened = self.sequence.load(Relaxed);
        if self.state(file.as_ref())?.is_unchanged_since(opened) { Ok(()) } else { Err(self.stale()) }
    }

    pub(crate) fn stale(&self) -> Error {
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

/// The number of the checkpoint whose journal belongs to the table at `path`, if that may be complete: its header is
/// written last.
fn journal_number(storage: &dyn Storage, path: &Path, void: Option<&dyn File>) -> Result<Option<u64>> {
    let journal_path = journal_path(path);
    let journal = match storage.open(&journal_path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    let mut start = [0; 16];
    let has_header = journal.read_at(&mut start, 0).is_ok() && start[..8] == JOURNAL_MAGIC;
    Ok((has_header && !is_void(void, &journal_path)?).then(|| u64_at(&start, 8)))
}

/// Whether the header of a journal is written.
pub(in crate::pager) fn has_magic(journal: &dyn File) -> bool {
    let mut magic = [0; JOURNAL_MAGIC.len()];
    journal.read_at(&mut magic, 0).is_ok() && magic == JOURNAL_MAGIC
}

/// Whether the journal at `path` is `void`, one that no process will complete or install.
pub(in crate::pager) fn is_void(void: Option<&dyn File>, path: &Path) -> Result<bool> {
    void.map_or(Ok(false), |void| is_at(void, path))
}

/// `error`, for a table whose journal is void.
pub(in crate::pager) fn beside_void_journal(error: Error, path: &Path) -> Error {
    let journal = journal_path(path);
    error.with_hint(format!(
        "The journal {} is damaged or incomplete, too, so a checkpoint that was interrupted cannot be completed. \
         Restore a backup, or salvage what can still be read.",
        journal.display()
    ))
}
