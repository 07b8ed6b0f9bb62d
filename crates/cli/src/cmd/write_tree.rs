//! `dump --tree`: each pair becomes a file, at its key as a path in a directory; the inverse of `load --tree`.
//!
//! ```text
//! refuse_key, refuse_obstacle   of all pairs: a path within the directory, and nothing in the way
//! refuse_obstacle, write        of each pair: directories, then the file under another name, renamed when complete
//! ```
//!
//! The keys may come from anybody: none leads out of the directory. Not here: the pairs (`dump.rs`).

use crate::escapes;
use crate::failure::{Failure, Result};
use splitpoint::OutputFile;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Refuses a key that is no path within a directory, and one that is a file where another needs a directory.
/// `is_key` says whether a file is written for a key.
pub fn refuse_key(file: &Path, key: &[u8], is_key: impl Fn(&[u8]) -> Result<bool>) -> Result<()> {
    let refuse = |what: &str| {
        let (file, key) = (file.display(), escapes::quoted(key));
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
        if is_key(directory)? {
            return refuse(&format!("needs a directory {0}, and {0} is a key, too", escapes::quoted(directory)));
        }
    }
    Ok(())
}

/// Refuses what is in the way of a file at `path`, below `root`: a link, a file for a directory, a file that exists.
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
            (_, false) => "is no directory, and a key needs one there",
            (kind, true) if !kind.is_file() => "exists and is no regular file",
            (_, true) if force => return Ok(()),
            (_, true) => "exists; --force replaces files",
        };
        return Err(Failure::no(format_args!("{}: {what}", at.display())));
    }
    Ok(())
}

/// Makes the directories that lead to `path`, and the file.
pub fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    OutputFile::write(path, value)
}
