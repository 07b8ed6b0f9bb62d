//! `dump --tree`: each pair becomes a file, at its key as a path in a directory; the inverse of `load --tree`.
//!
//! ```text
//! all keys    each is a path within the directory, and none is the directory of another     before anything is written
//! each pair   directories on the way are made, links refused -> the file is written and renamed to its name
//! ```
//!
//! The keys may come from anybody: none leads out of the directory.

use super::dump::Dump;
use super::store::Store;
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::format::Pair;
use crate::interrupt::Interrupt;
use crate::number::count_of;
use crate::progress::{Progress, STEPS_PER_TICK};
use splitpoint::OutputFile;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn run(dump: &Dump, store: &Store, root: &Path, interrupt: &Interrupt) -> Result<()> {
    let path_of = |key: &[u8]| root.join(OsStr::from_bytes(key));
    let mut total = 0;
    dump.each(store, |Pair { key, .. }| {
        interrupt.stop_if_caught("nothing was written")?;
        total += 1;
        check(dump, store, key)?;
        refuse_obstacle(root, &path_of(key), dump.force)
    })?;
    fs::create_dir_all(root).map_err(|error| Failure::io(root.display(), &error))?;
    let progress = Progress::of_output("writing", "file", Some(total));
    let mut files = 0;
    let written = dump.each(store, |Pair { key, value }| {
        let done = || format!("{} in {}, all complete", count_of(files, "file"), root.display());
        if let Some(signal) = interrupt.caught() {
            return Err(Failure::stopped(signal, done()));
        }
        if files.is_multiple_of(STEPS_PER_TICK) {
            progress.at(files);
        }
        let path = path_of(key);
        // Again: the directory may have changed.
        refuse_obstacle(root, &path, dump.force)
            .and_then(|()| write(&path, value).map_err(|error| Failure::io(path.display(), &error)))
            .map_err(|failure| failure.and(format_args!("Stopped after {}", done())))?;
        files += 1;
        Ok(())
    });
    progress.clear();
    written
}

/// Refuses a key that is no path within a directory, and one that is a file where another needs a directory.
fn check(dump: &Dump, store: &Store, key: &[u8]) -> Result<()> {
    let refuse = |what: &str| {
        let (file, key) = (dump.file.display(), escapes::quoted(key));
        Err(Failure::no(format_args!("{file}: the key {key} {what}; --key-prefix and --key-regex choose other keys")))
    };
    if key.starts_with(b"/") {
        return refuse("is an absolute path, which --tree does not write");
    }
    if key.contains(&0) {
        return refuse("has a zero byte, which no path may have");
    }
    if key.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b"..")) {
        return refuse("is no path of a file in a directory: a part of it is empty, . or ..");
    }
    for at in memchr::memchr_iter(b'/', key) {
        let directory = &key[..at];
        if dump.takes(directory) && store.contains(directory)? {
            return refuse(&format!("needs a directory {0}, and {0} is a key, too", escapes::quoted(directory)));
        }
    }
    Ok(())
}

/// Refuses what is in the way of a file at `path`, below `root`: a link, a file for a directory, a file that exists.
fn refuse_obstacle(root: &Path, path: &Path, force: bool) -> Result<()> {
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut at = root.to_owned();
    for part in below {
        at.push(part);
        let there = match at.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            there => there.map_err(|error| Failure::io(at.display(), &error))?,
        };
        let what = match (there.file_type(), at == path) {
            (kind, _) if kind.is_symlink() => "is a symbolic link, which --tree does not follow",
            (kind, false) if kind.is_dir() => continue,
            (_, false) => "is no directory, and a key needs one there",
            (kind, true) if !kind.is_file() => "exists and is no regular file",
            (_, true) if force => return Ok(()),
            (_, true) => "exists; --force replaces files",
        };
        return Err(Failure::no(format_args!("{}: {what}", at.display())));
    }
    Ok(())
}

fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OutputFile::write(path, value)
}
