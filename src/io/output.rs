//! Files that a program writes as output: reports, pages, recordings.
//!
//! ```text
//! a regular file, or none   a new file next to it -> writes -> finish: sync, rename over it; owner, permissions kept
//! a symbolic link           what it leads to
//! a device, a pipe, a descriptor such as /dev/stdout   written directly
//! ```
//!
//! Not here: tables and dictionaries, which get the same guarantee from `atomic.rs`.

use super::atomic::{AtomicFile, Failed, is_unfinished};
use super::real::{Disk, open_to_write_through};
use super::{Granted, Mode, PERMISSIONS, Storage};
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that a program writes once, from its beginning to its end, such as a report.
///
/// A regular file appears when it is complete. It replaces an old file in one step, with the old owner and permissions
/// as far as the process may set them. Symbolic links are followed. Devices, pipes and descriptors such as
/// `/dev/stdout` are written directly. Dropping the value before [`finish`](Self::finish) leaves a regular file
/// unchanged.
///
/// # Examples
/// ```
/// use splitpoint::OutputFile;
/// use std::io::Write;
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("report.txt");
/// let mut report = OutputFile::create(&path)?;
/// report.write_all(b"41 buckets\n")?;
/// assert!(!path.exists());
/// report.finish()?;
/// assert_eq!(std::fs::read(&path)?, b"41 buckets\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct OutputFile(To);

enum To {
    /// A new file and its length in bytes.
    New(Box<AtomicFile>, u64),
    Through(Box<dyn Write + Send>),
}

impl OutputFile {
    /// Starts writing the file at `path`. If that is a named pipe, waits for a reader.
    ///
    /// # Errors
    /// Errors of the system; `PermissionDenied` also for a file that the process may not write, even if it could
    /// replace it.
    pub fn create(path: impl AsRef<Path>) -> Result<OutputFile> {
        OutputFile::create_with(path, PERMISSIONS)
    }

    /// Like [`create`](Self::create), but a new file gets these permissions, less the umask.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create).
    pub fn create_with(path: impl AsRef<Path>, permissions: u32) -> Result<OutputFile> {
        let path = path.as_ref();
        if let Some(file) = open_to_write_through(path)? {
            return Ok(OutputFile(To::Through(Box::new(file))));
        }
        let path = Self::target(path)?;
        let granted = match Disk.open(&path, Mode::Write) {
            Err(e) if e.kind() == ErrorKind::NotFound => Granted::Permissions(permissions),
            opened => opened?.access()?.map_or(Granted::Permissions(permissions), Granted::Like),
        };
        // Not named after the target, whose name may already have the maximum length.
        let storage: Arc<dyn Storage> = Arc::new(Disk);
        let new = AtomicFile::create(&storage, &path, "", granted, &[]).map_err(without_path)?;
        Ok(OutputFile(To::New(Box::new(new), 0)))
    }

    /// The path of the file that `path` leads to, or of the one that would be created there.
    ///
    /// # Errors
    /// Errors of the system, if symbolic links lead nowhere.
    pub fn target(path: impl AsRef<Path>) -> Result<PathBuf> {
        Disk.resolve(path.as_ref())
    }

    /// Whether `path` has the name of an unfinished file: `.splitpoint-0`, or another number. A killed process leaves
    /// it, and the next one that writes a file in the directory removes it. Unfinished backups have such names, too.
    pub fn is_unfinished(path: impl AsRef<Path>) -> bool {
        path.as_ref().file_name().is_some_and(|name| is_unfinished(name.as_encoded_bytes()))
    }

    /// Creates the file at `path`, or replaces it, with these bytes.
    ///
    /// # Errors
    /// The errors of [`create`](Self::create), of writing and of [`finish`](Self::finish).
    pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let mut file = OutputFile::create(path)?;
        file.write_all(bytes.as_ref())?;
        file.finish()
    }

    /// Makes the file durable and renames it to its path.
    ///
    /// # Errors
    /// Errors of the system. The old file is unchanged, unless the only step that failed was making the new name
    /// durable.
    pub fn finish(self) -> Result<()> {
        match self.0 {
            To::New(mut new, _) => new.publish(&[]).map_err(without_path),
            To::Through(mut file) => file.flush(),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.0 {
            To::New(new, at) => {
                new.file().write_at(bytes, *at)?;
                *at += bytes.len() as u64;
                Ok(bytes.len())
            }
            To::Through(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.0 {
            To::New(..) => Ok(()),
            To::Through(file) => file.flush(),
        }
    }
}

/// Callers know the path but not that of the unfinished file.
fn without_path(Failed { error, .. }: Failed) -> Error {
    error
}

#[cfg(test)]
#[path = "tests/output.rs"]
mod tests;
