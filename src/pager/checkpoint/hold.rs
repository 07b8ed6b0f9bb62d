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
pub(in crate::pager) fn hold_last_checkpoint(
    storage: &dyn Storage,
    path: &Path,
    file: &dyn File,
) -> Result<(Option<Held>, Header, Vec<u8>)> {
    const WAIT: Duration = Duration::from_millis(10);
    /// A minute: the writer may be installing gigabytes, or be stopped.
    const WAITS_MAX: usize = 6000;
    /// A header that is being written looks corrupt.
    const CORRUPT_MAX: usize = 100;
    let (mut waits, mut corrupt) = (0, 0);
    loop {
        let error = match Held::begin(storage, path, file) {
            Ok(Begun::Holds(held, header, root)) => return Ok((held, header, root)),
            Ok(Begun::Busy) => None,
            Err(e) if e.kind() == ErrorKind::Corrupt && corrupt < CORRUPT_MAX => Some(e),
            Err(e) => return Err(e),
        };
        if !file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))? || waits >= WAITS_MAX {
            // Nobody writes. An incomplete journal means nothing.
            refuse_half_installed(storage, path, file)?;
            if let Some(e) = error {
                return Err(e);
            }
            if waits > 3 {
                return Header::read(path, file).map(|(header, root)| (None, header, root));
            }
        }
        corrupt += usize::from(error.is_some());
        waits += 1;
        std::thread::sleep(WAIT);
    }
}
