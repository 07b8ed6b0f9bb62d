//! Held checkpoints: a reader keeps the one that it reads by a lock of a byte of the file.
//!
//! ```text
//! byte N       locked, shared, by each reader of checkpoint N, until it closes the file
//! a reader     reads the headers -> locks byte N -> reads the headers again: if N is still the last one, it is kept
//! the writer   writes the header of N + 1, syncs -> asks which bytes are locked -> frees blocks that none of them has
//! ```
//!
//! So a writer that does not see the lock has written a later header before the reader looked again. Where the system
//! has no locks of bytes, or another program has locked that byte alone, the checkpoint is not kept: a reader whose
//! checkpoint is no longer the last one may find blocks that were written over, and its checksums then say so.
//!
//! Not here: which blocks the writer keeps (`blocks/room.rs`).

use super::TableFile;
use super::create::not_yet_made;
use super::headers::{CheckpointHeader, Headers};
use crate::error::{Error, Result};
use crate::io::File;
use std::path::Path;

/// A checkpoint that a reader has chosen.
pub(in crate::pager) struct Held {
    /// Whether writers keep the checkpoint for this handle.
    pub is_kept: bool,
}

impl Held {
    /// Locks the last checkpoint of a file. Only a writer that completes checkpoints ever faster makes it try again.
    pub(in crate::pager) fn begin(path: &Path, file: &dyn File) -> Result<(Held, CheckpointHeader)> {
        let fail = |e| Error::io(path, "lock a checkpoint of", e);
        loop {
            let Headers::Last(header, _) = Headers::read(path, file)? else { return Err(not_yet_made(path)) };
            let last = header.table.sequence;
            let is_kept = file.lock_byte(last, false).map_err(fail)? == Some(true);
            // After the lock: a writer that does not see it has written a later header before.
            match Headers::read(path, file)? {
                Headers::Last(again, _) if again.table.sequence == last => return Ok((Held { is_kept }, *again)),
                _ => file.unlock_byte(last).map_err(fail)?,
            }
        }
    }
}

impl TableFile {
    /// Whether this handle reads a checkpoint that writers keep for it.
    pub(in crate::pager) fn holds_checkpoint(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_kept)
    }

    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind) if writers do not keep this handle's checkpoint, and wrote a later one.
    pub(in crate::pager) fn refuse_if_not_kept(&self) -> Result<()> {
        if self.holds_checkpoint() { Ok(()) } else { self.refuse_if_stale() }
    }
}
