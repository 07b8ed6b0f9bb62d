//! The name of a table. Its log is found only by this name.
//!
//! ```text
//! open        follow symbolic links to the file's own name; refuse a file that may have another name
//! later       before a log is made or removed: check that the name still refers to this file
//! ```
//!
//! Reasons and remaining risks: docs/architecture.md, "Names".

use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage};
use std::path::{Path, PathBuf};

/// The path from which the names of a table's log derive.
pub(crate) fn resolve(storage: &dyn Storage, path: &Path) -> Result<PathBuf> {
    storage.resolve(path).map_err(|e| Error::io(path, "follow the links of", e))
}

/// Whether `path` currently names `file`.
pub(in crate::pager) fn is_at(file: &dyn File, path: &Path) -> Result<bool> {
    file.is_at(path).map_err(|e| Error::io(path, "look for", e))
}

/// Fails if `path` no longer names `file`.
pub(in crate::pager) fn refuse_if_moved(file: &dyn File, path: &Path) -> Result<()> {
    if is_at(file, path)? {
        return Ok(());
    }
    let path = path.display();
    Err(Error::new(
        ErrorKind::Io,
        format!("{path}: the table was renamed or removed while it was open, and its log keeps the old name"),
    )
    .with_hint("Give the file this name again, then open it again."))
}

/// Fails if a file may have another name: a process that opens it by that name would look for another log.
/// A file that is open only for reading may be read by any name.
pub(in crate::pager) fn refuse_other_names(file: &dyn File, path: &Path, read_only: bool) -> Result<()> {
    let links = file.link_count().map_err(|e| Error::io(path, "count the links of", e))?;
    let mounted = || file.is_mounted_alone().map_err(|e| Error::io(path, "ask for the mount of", e));
    let (what, hint) = if links > 1 {
        (format!("has {links} hard links"), "Remove the other links, or use a copy of the file.")
    } else if mounted()? {
        ("is mounted by itself".to_owned(), "Mount its directory instead.")
    } else {
        return Ok(());
    };
    let kind = match read_only {
        true if !file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))? => return Ok(()),
        true => ErrorKind::Locked,
        false => ErrorKind::InvalidArgument,
    };
    let (path, writer) = (path.display(), if read_only { " and is open for writing" } else { "" });
    Err(Error::new(kind, format!("{path}: {what}{writer}, and the log of a table is found by one name alone"))
        .with_hint(hint))
}
