//! A reader begins: it keeps the last checkpoint, once no other process is writing one over the file.
//!
//! ```text
//! the journal beside the file     the reader
//! none, without a header, void    takes the checkpoint in the file
//! in use                          waits for its writer, up to a minute
//! complete, in use by nobody      refuses: only an open for writing completes the checkpoint
//! ```
//!
//! Not here: the locks (`file/held.rs`).

use super::journal::{Found, find};
use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::io::{File, Storage};
use crate::pager::file::header::Header;
use crate::pager::file::held::{Begun, Held, VoidJournal};
use crate::pager::file::names::journal_path;
use crate::pager::file::stale::beside_void_journal;
use std::path::Path;
use std::time::Duration;

/// Keeps the last checkpoint of `file` for a handle that only reads, and reads its header and root. Waits while another
/// process writes a checkpoint over the file.
pub(in crate::pager) fn hold_last_checkpoint(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<Begun> {
    const WAIT: Duration = Duration::from_millis(10);
    /// A minute: the writer may be installing gigabytes, or be stopped.
    const WAITS_MAX: usize = 6000;
    /// A header that is being written looks corrupt, or is not there yet.
    const UNREADABLE_MAX: usize = 100;
    /// An open for writing locks the table just before the journal that it is going to install.
    const INTERRUPTED_MAX: usize = 100;
    /// A writer that ended between `begin` and `is_locked` is gone at the next look.
    const UNWRITTEN_MAX: usize = 3;
    let (mut waits, mut unreadable, mut interrupted, mut unwritten) = (0, 0, 0, 0);
    let mut void: VoidJournal = None;
    loop {
        let error = match Held::begin(storage, path, file, &void) {
            Ok(Some(begun)) => return Ok(begun),
            Ok(None) => None,
            Err(e) => Some(e),
        };
        // In this order: a journal that nobody uses is installed by a process that locks the table first.
        let journal = find(storage, path, file, void.as_deref())?;
        let is_written = file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))?;
        waits += 1;
        let may_wait = is_written && waits < WAITS_MAX;
        match (journal, error) {
            (Found::Void(journal), _) if waits < WAITS_MAX => {
                event!(warn, "{}: ignored: it is damaged or incomplete", journal_path(path).display());
                void = Some(journal.into());
                continue;
            }
            (Found::Interrupted, _) => {
                interrupted += 1;
                if !is_written || interrupted == INTERRUPTED_MAX {
                    return Err(half_written(path));
                }
            }
            (Found::InUse, Some(_)) if may_wait && unreadable < UNREADABLE_MAX => unreadable += 1,
            (_, Some(e)) if e.kind() == ErrorKind::Corrupt => {
                if !may_wait || unreadable == UNREADABLE_MAX {
                    return Err(if void.is_some() { beside_void_journal(e, path) } else { e });
                }
                unreadable += 1;
            }
            (_, Some(e)) => return Err(e),
            (_, None) if may_wait => {}
            (Found::InUse, None) if is_written => return Err(being_written(path)),
            (_, None) => {
                // Nobody writes, or for too long without a journal: the file has a whole checkpoint.
                if is_written || unwritten == UNWRITTEN_MAX {
                    return Header::read(path, file).map(|(header, root)| (None, header, root));
                }
                unwritten += 1;
                continue;
            }
        }
        std::thread::sleep(WAIT);
    }
}

fn being_written(path: &Path) -> Error {
    let path = path.display();
    Error::new(ErrorKind::Locked, format!("{path}: a checkpoint is being written, and has been for a minute"))
        .with_hint("Try again when the writer is done.")
}

fn half_written(path: &Path) -> Error {
    let path = path.display();
    Error::new(ErrorKind::Locked, format!("{path}: a checkpoint was interrupted, so the file may have a part of it"))
        .with_hint(
            "Open the table for writing once, which completes the checkpoint. If a process has it open already, close \
             it there first: it takes no more writes.",
        )
}
