//! Files that a program writes for others: reports, pages, recordings.
//!
//! ```text
//! a regular file, or none   a new file beside it -> writes -> finish: sync, rename over it; owner and permissions kept
//! a symbolic link           what it leads to
//! a device, a pipe, a descriptor such as /dev/stdout   each write goes through at once
//! ```
//!
//! Not here: tables and dictionaries, which have the same through `atomic.rs`.

use super::atomic::{AtomicFile, Failed};
use super::real::{Disk, open_to_write_through};
use super::{Granted, Mode, PERMISSIONS, Storage};
use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that a program writes once, from its beginning to its end, such as a report.
///
/// A regular file appears when it is complete, and replaces an old one in one step, with the owner and the permissions
/// of the old one as far as the process may set them. Symbolic links are followed. Devices, pipes and descriptors such
/// as `/dev/stdout` are written through. Dropped before [`finish`](Self::finish) it leaves a regular file as it was.
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
    /// A new file, and how many bytes it has.
    New(Box<AtomicFile>, u64),
    Through(Box<dyn Write + Send>),
}

impl OutputFile {
    /// Begins to write the file at `path`. Waits for a reader where that is a named pipe.
    ///
    /// # Errors
    /// Those of the system; `PermissionDenied` also for a file that the process may not write, though it could replace
    /// it.
    pub fn create(path: impl AsRef<Path>) -> Result<OutputFile> {
        let path = path.as_ref();
        if let Some(file) = open_to_write_through(path)? {
            return Ok(OutputFile(To::Through(Box::new(file))));
        }
        let path = Self::target(path)?;
        let granted = match Disk.open(&path, Mode::Write) {
            Err(e) if e.kind() == ErrorKind::NotFound => Granted::Permissions(PERMISSIONS),
            opened => opened?.access()?.map_or(Granted::Permissions(PERMISSIONS), Granted::Like),
        };
        // Its own name may be as long as a name can be.
        let prefix = path.with_file_name(".splitpoint");
        let storage: Arc<dyn Storage> = Arc::new(Disk);
        let new = AtomicFile::create(&storage, &path, &prefix, granted, &[]).map_err(without_path)?;
        Ok(OutputFile(To::New(Box::new(new), 0)))
    }

    /// The path of the file that `path` leads to, or of the one that would be created there.
    ///
    /// # Errors
    /// Those of the system, where symbolic links lead nowhere.
    pub fn target(path: impl AsRef<Path>) -> Result<PathBuf> {
        Disk.resolve(path.as_ref())
    }

    /// Creates the file at `path`, or replaces it, with these bytes.
    ///
    /// # Errors
    /// Those of [`create`](Self::create), of writing and of [`finish`](Self::finish).
    pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let mut file = OutputFile::create(path)?;
        file.write_all(bytes.as_ref())?;
        file.finish()
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// Those of the system. The old file is unchanged, unless only making the new name durable failed.
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

/// Callers know the path, and not that of the unfinished file.
fn without_path(Failed { error, .. }: Failed) -> Error {
    error
}

#[cfg(test)]
#[path = "tests/output.rs"]
mod tests;
