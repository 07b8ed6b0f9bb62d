//! A reader begins: it keeps the last checkpoint, once no other process is writing one over the file.
//!
//! Not here: the locks (`file/held.rs`).

use super::journal::refuse_half_installed;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage};
use crate::pager::file::header::Header;
use crate::pager::file::held::{Begun, Held};
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
    /// A writer that ended between `begin` and `is_locked` is gone at the next look.
    const UNWRITTEN_MAX: usize = 3;
    let (mut waits, mut unreadable, mut unwritten) = (0, 0, 0);
    loop {
        let error = match Held::begin(storage, path, file) {
            Ok(Some(begun)) => return Ok(begun),
            Ok(None) => None,
            Err(e) => Some(e),
        };
        let is_written = file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))?;
        let half_installed = || refuse_half_installed(storage, path, file);
        match error {
            Some(_) if is_written && unreadable < UNREADABLE_MAX && half_installed().is_err() => unreadable += 1,
            Some(e) if is_written && unreadable < UNREADABLE_MAX && e.kind() == ErrorKind::Corrupt => unreadable += 1,
            Some(e) => return half_installed().and(Err(e)),
            None if is_written && waits < WAITS_MAX => {}
            None => {
                // Nobody writes, or for too long. An incomplete journal means nothing.
                half_installed()?;
                if is_written || unwritten == UNWRITTEN_MAX {
                    return Header::read(path, file).map(|(header, root)| (None, header, root));
                }
                unwritten += 1;
                continue;
            }
        }
        waits += 1;
        std::thread::sleep(WAIT);
    }
}
