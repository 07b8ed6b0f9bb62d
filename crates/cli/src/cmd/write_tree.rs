//! `dump --tree`: each pair becomes a file in a directory, with its key as the path; the inverse of `load --tree`.
//!
//! ```text
//! refuse_key, refuse_obstacle   of all pairs: a path within the directory, and nothing in the way
//! refuse_obstacle, write        of each pair: directories, then the file under another name, renamed when complete
//! ```
//!
//! Keys are untrusted: none leads out of the directory. Not here: the pairs (`dump.rs`).

use crate::escapes;
use crate::failure::{Failure, Result};
use splitpoint::OutputFile;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the path of a key within the directory: tar writes `./a` for `a`.
pub fn path_of(key: &[u8]) -> &[u8] {
    key.strip_prefix(b"./").unwrap_or(key)
}

/// Refuses a key that is not a path within a directory, that is a file where another key needs a directory, or that has
/// the path of another key. `is_key` says whether a file is written for a key.
pub fn refuse_key(file: &Path, key: &[u8], is_key: impl Fn(&[u8]) -> Result<bool>) -> Result<()> {
    let refuse = |what: &str| {
        let (file, key) = (file.display(), escapes::quoted(key));
        Err(Failure::no(format_args!("{file}: the key {key} {what}; --key-prefix and --key-regex choose other keys")))
    };
    let path = path_of(key);
    if path.starts_with(b"/") {
        return refuse("is an absolute path, which --tree does not write");
    }
    if path.contains(&0) {
        return refuse("has a zero byte, which no path may have");
    }
    if path.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b"..")) {
        return refuse("is not a valid path in a directory: a part of it is empty, . or ..");
    }
    if OutputFile::is_unfinished(OsStr::from_bytes(path)) {
        return refuse("is a name of unfinished files, which `load --tree` leaves out");
    }
    if path.len() < key.len() && is_key(path)? {
        return refuse(&format!("is the path of {}, which is a key, too", escapes::quoted(path)));
    }
    for at in memchr::memchr_iter(b'/', path) {
        let directory = &path[..at];
        if is_key(directory)? || is_key(&[b"./", directory].concat())? {
            return refuse(&format!("needs a directory {0}, and {0} is a key, too", escapes::quoted(directory)));
        }
    }
    Ok(())
}

/// Fails if something obstructs a file at `path`, below `root`: a link, a file for a directory, a file that exists.
pub fn refuse_obstacle(root: &Path, path: &Path, force: bool) -> Result<()> {
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
            (_, false) => "is not a directory, but a key needs one there",
            (kind, true) if !kind.is_file() => "exists and is not a regular file",
            (_, true) if force => return Ok(()),
            (_, true) => "exists; --force replaces files",
        };
        return Err(Failure::no(format_args!("{}: {what}", at.display())));
    }
    Ok(())
}

/// Creates the directories that lead to `path`, and the file.
pub fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OutputFile::write(path, value)
}
