//! A directory tree: each regular file is a pair of its path, relative to the directory, and its contents.
//!
//! Links are not followed, so the walk ends; they and devices, pipes and sockets are left out and counted in a note,
//! and so are unfinished files of a killed `dump --tree`.
//! A file that cannot be read, changes while it is read, or vanishes before, is a bad row. Paths are bytes.

use crate::failure::Result;
use crate::format::tar::LeftOut;
use crate::format::{BadRow, Row, Scratch, Source};
use crate::number::count_of;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use splitpoint::OutputFile;
use std::fs::{File, Metadata, OpenOptions, ReadDir};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub struct Tree {
    root: PathBuf,
    /// Directories that are not read yet.
    directories: Vec<PathBuf>,
    /// The entries of the current one.
    entries: Option<(PathBuf, ReadDir)>,
    row_bytes_max: u64,
    scratch: Scratch,
    number: u64,
    bytes: u64,
    left_out: u64,
    unfinished: u64,
}

impl Tree {
    pub fn open(root: &Path, row_bytes_max: u64) -> Self {
        let scratch = Scratch::default();
        let directories = vec![root.to_owned()];
        let root = root.to_owned();
        Self {
            root,
            directories,
            entries: None,
            row_bytes_max,
            scratch,
            number: 0,
            bytes: 0,
            left_out: 0,
            unfinished: 0,
        }
    }

    /// Returns the next file, or a directory that cannot be read; `None` at the end.
    fn next(&mut self) -> Option<std::result::Result<PathBuf, (PathBuf, io::Error)>> {
        loop {
            let Some((directory, entries)) = &mut self.entries else {
                let directory = self.directories.pop()?;
                match directory.read_dir() {
                    Ok(entries) => self.entries = Some((directory, entries)),
                    Err(error) => return Some(Err((directory, error))),
                }
                continue;
            };
            let Some(entry) = entries.next() else {
                self.entries = None;
                continue;
            };
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let directory = directory.clone();
                    self.entries = None;
                    return Some(Err((directory, error)));
                }
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.directories.push(entry.path()),
                Ok(kind) if kind.is_file() && OutputFile::is_unfinished(entry.path()) => self.unfinished += 1,
                Ok(kind) if kind.is_file() => return Some(Ok(entry.path())),
                Ok(_) => self.left_out += 1,
                Err(error) => return Some(Err((entry.path(), error))),
            }
        }
    }

    /// Reads the file at `path`; `false` if it is no longer a file.
    fn read(&mut self, path: &Path) -> io::Result<bool> {
        let Some((file, before)) = Self::open_file(path)? else { return Ok(false) };
        self.read_file(path, &file, &before)?;
        Ok(true)
    }

    /// Opens the file at `path` and returns it with its state; `None` if it is not a file.
    fn open_file(path: &Path) -> io::Result<Option<(File, Metadata)>> {
        // The file may have become a link, or a pipe, whose opening would wait for a writer.
        let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
        let file: File = match opened {
            Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        Ok(metadata.is_file().then_some((file, metadata)))
    }

    fn read_file(&mut self, path: &Path, file: &File, before: &Metadata) -> io::Result<()> {
        let Scratch { key, value } = &mut self.scratch;
        value.clear();
        let most = self.row_bytes_max;
        let read = file.take(most.saturating_add(1)).read_to_end(value)?;
        if read as u64 > most {
            let most = count_of(most, "byte");
            return Err(io::Error::other(format!("it has more than {most}; --max-row raises the limit")));
        }
        let state = |file: &Metadata| (file.len(), file.mtime(), file.mtime_nsec());
        if state(&file.metadata()?) != state(before) {
            return Err(io::Error::other("it changed while it was read; load it again"));
        }
        key.clear();
        key.extend_from_slice(path.strip_prefix(&self.root).unwrap_or(path).as_os_str().as_bytes());
        self.bytes += read as u64;
        Ok(())
    }

    fn bad(&mut self, path: &Path, error: &io::Error) -> Row<'static> {
        self.number += 1;
        let what = match error.kind() {
            io::ErrorKind::NotFound => "it vanished while the tree was read".to_owned(),
            _ => error.to_string(),
        };
        Row::Bad(BadRow { place: path.display().to_string(), what, goes_on: true })
    }
}

impl Source for Tree {
    fn next_row(&mut self) -> Result<Row<'_>> {
        match self.next() {
            None => Ok(Row::End),
            Some(Err((path, error))) => Ok(self.bad(&path, &error)),
            Some(Ok(path)) => match self.read(&path) {
                Ok(true) => {
                    self.number += 1;
                    Ok(Row::Pair(self.scratch.pair(), self.number))
                }
                Ok(false) => {
                    self.left_out += 1;
                    // The caller checks for signals and retries.
                    Ok(Row::Interrupted)
                }
                Err(error) => Ok(self.bad(&path, &error)),
            },
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.bytes
    }

    fn note(&self) -> Option<String> {
        let left_out = LeftOut { directories: 0, others: self.left_out, unfinished: self.unfinished };
        left_out.note()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_vanishes_changes_or_becomes_a_pipe_is_no_pair() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::open(folder.path(), 100);
        let path = folder.path().join("gone");
        assert!(tree.read(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        assert!(!tree.read(&folder.path().join("link")).unwrap());
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(!tree.read(&pipe).unwrap());
        fs::write(folder.path().join("long"), [7; 101]).unwrap();
        assert!(tree.read(&folder.path().join("long")).unwrap_err().to_string().contains("--max-row"));
        let grown = folder.path().join("grown");
        fs::write(&grown, "one").unwrap();
        let (file, before) = Tree::open_file(&grown).unwrap().unwrap();
        fs::write(&grown, "and two").unwrap();
        let changed = tree.read_file(&grown, &file, &before).unwrap_err();
        assert!(changed.to_string().contains("changed while it was read"), "{changed}");
        let error = io::Error::from(io::ErrorKind::NotFound);
        let Row::Bad(bad) = tree.bad(&path, &error) else { panic!("a bad row") };
        assert!(bad.goes_on && bad.what == "it vanished while the tree was read");
    }
}
