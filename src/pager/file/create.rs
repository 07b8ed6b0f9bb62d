//! Opens or creates a table's file and locks it.
//!
//! ```text
//! open or create -> lock -> is it still the file of this name? -> the table in it, or an empty file that becomes one
//! ```
//!
//! A file is empty until its first header is written. An empty file, or one with a part of that header, is a table that
//! is not made yet: an open that may create makes it ([`Create::Always`] only in an empty one), all others fail as if
//! it were absent.
//!
//! Not here: which name the table has (`names.rs`), what the file contains (`header.rs`).

use super::names::is_at;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage, remove_if_empty};
use std::path::Path;

/// Whether to create the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Create {
    Never,
    IfAbsent,
    /// An error if the file exists.
    Always,
}

/// Opens the file and takes its lock; returns whether it is new.
pub(in crate::pager) fn open_to_write(
    storage: &dyn Storage,
    path: &Path,
    create: Create,
    permissions: u32,
) -> Result<(Box<dyn File>, bool)> {
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        let (file, made) = open_or_create(storage, path, create, permissions)?;
        take_lock(file.as_ref(), path).inspect_err(|e| {
            // Another process that has the lock makes the table.
            if made && e.kind() != ErrorKind::Locked {
                remove_if_empty(storage, path, file.as_ref());
            }
        })?;
        if is_at(file.as_ref(), path)? {
            return Ok((file, made));
        }
        // Locked too late: the file was renamed, removed or replaced after it was opened.
    }
    let path = path.display();
    Err(Error::new(ErrorKind::Locked, format!("{path}: the file by this name is replaced again and again"))
        .with_hint("Try again."))
}

pub(crate) fn open_to_read(storage: &dyn Storage, path: &Path) -> Result<Box<dyn File>> {
    opened(path, storage.open(path, Mode::Read))
}

/// Opens the file for writing, or creates it as `create` says. Returns whether it is new.
fn open_or_create(
    storage: &dyn Storage,
    path: &Path,
    create: Create,
    permissions: u32,
) -> Result<(Box<dyn File>, bool)> {
    use std::io::ErrorKind::{AlreadyExists, NotFound};
    let found = match create {
        Create::Always => Err(NotFound.into()),
        Create::IfAbsent | Create::Never => storage.open(path, Mode::Write),
    };
    let created = match found {
        Err(e) if e.kind() == NotFound && create != Create::Never => storage.create(path, permissions),
        found => return opened(path, found).map(|file| (file, false)),
    };
    let is_empty = || storage.open(path, Mode::Read).is_ok_and(|file| matches!(file.len(), Ok(0)));
    match created {
        // The file exists but is empty: a table that is not made yet.
        Err(e) if e.kind() == AlreadyExists && is_empty() => {
            opened(path, storage.open(path, Mode::Write)).map(|file| (file, false))
        }
        created => created.map(|file| (file, true)).map_err(|e| Error::io(path, "create", e)),
    }
}

/// Converts the error of a failed open.
fn opened(path: &Path, opened: std::io::Result<Box<dyn File>>) -> Result<Box<dyn File>> {
    match opened {
        Err(e) if e.kind() == std::io::ErrorKind::IsADirectory => {
            let what = format!("{}: not a splitpoint table: it is a directory", path.display());
            Err(Error::new(ErrorKind::NotATable, what).with_hint("Check the path."))
        }
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => Err(not_a_table(path, "it is not a regular file")),
        opened => opened.map_err(|e| Error::io(path, "open", e)),
    }
}

fn take_lock(file: &dyn File, path: &Path) -> Result<()> {
    if lock_unless_kept(file, path)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Locked, format!("{}: another process or handle has it open for writing", path.display()))
        .with_hint("Close that one, or open read-only."))
}

/// Takes the lock of the file. Returns false if another handle has it and keeps it.
pub(crate) fn lock_unless_kept(file: &dyn File, path: &Path) -> Result<bool> {
    // A reader tests the lock by taking it for a moment.
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        if file.lock().map_err(|e| Error::io(path, "lock", e))? {
            return Ok(true);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(false)
}

/// The same error as for an absent file: its creator was stopped before the table was made.
pub(in crate::pager) fn not_yet_made(path: &Path) -> Error {
    let path = path.display();
    Error::new(ErrorKind::Io, format!("{path}: no table has been made in it yet"))
        .with_hint("Open it for writing and let it be created.")
        .with_source(std::io::Error::from_raw_os_error(libc::ENOENT))
}

pub(in crate::pager) fn not_a_table(path: &Path, what: &str) -> Error {
    let path = path.display();
    Error::new(ErrorKind::NotATable, format!("{path}: not a splitpoint table: {what}"))
        .with_hint("Check the path. If it was a table, salvage may recover pairs from it.")
}
