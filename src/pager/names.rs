//! By which name a table is known: its log and journal are found by nothing else.
//!
//! ```text
//! open        follow links to the file's own name; refuse a file that may have another name
//! later       before a log or journal is made or removed: does the name still lead to this file?
//! ```
//!
//! Why, and what remains: docs/architecture.md, "Names".

use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage};
use std::path::{Path, PathBuf};

/// The path that a table's log and journal are named after.
pub(crate) fn resolve(storage: &dyn Storage, path: &Path) -> Result<PathBuf> {
    storage.resolve(path).map_err(|e| Error::io(path, "follow the links of", e))
}

/// Is `file` what `path` names now?
pub(super) fn is_at(file: &dyn File, path: &Path) -> Result<bool> {
    file.is_at(path).map_err(|e| Error::io(path, "look for", e))
}

/// Refuses where `path` names another file than `file` by now, or none.
pub(super) fn refuse_if_moved(file: &dyn File, path: &Path) -> Result<()> {
    if is_at(file, path)? {
        return Ok(());
    }
    let path = path.display();
    Err(Error::new(
        ErrorKind::Io,
        format!(
            "{path}: the table was renamed or removed while it was open, and its log and journal belong beside it by this name. Give the file this name again, then open it again."
        ),
    ))
}

/// Refuses a file that may be known by another name: whoever opens it by that one looks for another log and journal. One that
/// nobody has open for writing may be read by any name.
pub(crate) fn refuse_other_names(file: &dyn File, path: &Path, read_only: bool) -> Result<()> {
    let links = file.link_count().map_err(|e| Error::io(path, "count the links of", e))?;
    let mounted = || file.is_mounted_alone().map_err(|e| Error::io(path, "ask for the mount of", e));
    let (what, advice) = if links > 1 {
        (format!("has {links} hard links"), "remove the other, or copy the file and use the copy")
    } else if mounted()? {
        ("is mounted by itself".to_owned(), "mount the directory that it is in")
    } else {
        return Ok(());
    };
    let kind = match read_only {
        true if !file.is_locked().map_err(|e| Error::io(path, "ask for the lock of", e))? => return Ok(()),
        true => ErrorKind::Locked,
        false => ErrorKind::InvalidArgument,
    };
    let (path, writer) = (path.display(), if read_only { " and is open for writing" } else { "" });
    Err(Error::new(
        kind,
        format!("{path}: {what}{writer}, and the log and journal of a table are found by one name alone; {advice}"),
    ))
}
