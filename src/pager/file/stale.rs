//! Whether a file that is open for reading is still the one that was opened.

use super::TableFile;
use super::headers::Headers;
use super::names::is_at;
use crate::error::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering::*;

impl TableFile {
    /// The number of the last checkpoint of this handle.
    pub(crate) fn last_checkpoint(&self) -> u64 {
        self.sequence.load(Acquire)
    }

    /// Whether the table's name leads to this file, and the file has no later checkpoint than this handle.
    pub(crate) fn is_last_checkpoint(&self) -> Result<bool> {
        let Some(file) = self.handle.as_ref() else { return Ok(true) };
        Ok(is_at(file.as_ref(), &self.path)? && self.checkpoint_in_file()? == self.last_checkpoint())
    }

    /// The number of the last complete checkpoint in the file, which another process may have written.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind) if the file was renamed.
    pub(crate) fn checkpoint_in_file(&self) -> Result<u64> {
        let Some(file) = &self.handle else { return Ok(self.last_checkpoint()) };
        if !is_at(file.as_ref(), &self.path)? {
            if file.link_count().map_err(|e| Error::io(&self.path, "count the links of", e))? == 0 {
                return Ok(self.last_checkpoint()); // it has no name, and so no writer
            }
            let path = self.path.display();
            return Err(Error::new(
                ErrorKind::Stale,
                format!("{path}: was renamed since this handle was opened for reading"),
            )
            .with_hint("Open it by its new name."));
        }
        match Headers::read(&self.path, file.as_ref())? {
            Headers::Last(header, _) => Ok(header.table.sequence),
            Headers::Unmade => Ok(0),
        }
    }

    /// Fails if another process has written a checkpoint since the file was opened here for reading.
    pub(crate) fn refuse_if_stale(&self) -> Result<()> {
        if self.read_only && self.checkpoint_in_file()? != self.last_checkpoint() { Err(self.stale()) } else { Ok(()) }
    }

    pub(crate) fn stale(&self) -> Error {
        let path = self.path.display();
        Error::new(
            ErrorKind::Stale,
            format!("{path}: another process has written a checkpoint since this handle was opened for reading"),
        )
        .with_hint("Open the table again.")
    }
}
