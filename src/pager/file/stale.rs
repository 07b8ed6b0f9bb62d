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

impl TableFile {
    /// Fails if another process has begun to write a checkpoint over the file that was opened here for reading.
    pub(in crate::pager) fn refuse_if_stale(&self, file: &dyn File) -> Result<()> {
        self.refuse_if_renamed(file)?;
        // A complete journal exists from before the first write in place until after the last one, that of the header.
        let path = self.path.display();
        if !has_journal(self.storage.as_ref(), &self.path)? {
            let mut header = [0; HEADER_BYTES];
            file.read_at(&mut header, 0).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => self.corrupt("the header is gone: another program cut the file"),
                _ => Error::io(&self.path, "read the header of", e),
            })?;
            if u64_at(&header, 16) == self.sequence.load(Relaxed) {
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::Stale,
            format!("{path}: another process has written a checkpoint since this handle was opened for reading"),
        )
        .with_hint("Open the table again."))
    }

    /// Fails if a file opened for reading has been renamed: its writer keeps the journal next to the new name, so
    /// changes would go unnoticed here. A file that no longer has a name has no writer.
    fn refuse_if_renamed(&self, file: &dyn File) -> Result<()> {
        let links = || file.link_count().map_err(|e| Error::io(&self.path, "count the links of", e));
        if is_at(file, &self.path)? || links()? == 0 {
            return Ok(());
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
