//! The operating system's files.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the seam: this file is the operating system's side of it"
)]

use super::forks::forks;
use super::{File, Mapped, Mode, Storage, View};
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The real disk.
pub(crate) struct Disk;

impl Storage for Disk {
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(mode != Mode::Read).create_new(mode == Mode::New);
        // Means nothing to a regular file; a pipe would be waited for.
        options.custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() {
            return Err(Error::new(ErrorKind::InvalidData, "not a regular file"));
        }
        Ok(Box::new(RealFile { file, locked: AtomicU64::new(UNLOCKED) }))
    }

    #[cfg(target_os = "linux")]
    fn make_unnamed(&self, beside: &Path) -> Result<Option<Box<dyn File>>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
        match options.open(directory_of(beside)) {
            Ok(file) => Ok(Some(Box::new(RealFile { file, locked: AtomicU64::new(UNLOCKED) }))),
            // A file system or a kernel that has no such files.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to)
    }

    fn make_directory(&self, path: &Path) -> Result<bool> {
        match fs::create_dir(path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path)
    }

    fn names_in(&self, directory: &Path) -> Result<Vec<String>> {
        let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        fs::File::open(directory_of(path))?.sync_all()
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

struct RealFile {
    file: fs::File,
    /// Which process has locked it, see `forks`.
    locked: AtomicU64,
}

const UNLOCKED: u64 = u64::MAX;

impl Drop for RealFile {
    fn drop(&mut self) {
        // A lock lasts as long as any descriptor of the file, and a program that this one is about to start has one
        // until it starts. In a forked child the lock is its parent's, and stays.
        if *self.locked.get_mut() == u64::from(forks()) {
            let _ = self.file.unlock();
        }
    }
}

impl File for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        reserve(&self.file, bytes)
    }

    fn permissions(&self) -> Result<Option<u32>> {
        Ok(Some(self.file.metadata()?.permissions().mode()))
    }

    fn set_permissions(&self, permissions: u32) -> Result<()> {
        self.file.set_permissions(fs::Permissions::from_mode(permissions))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn lock(&self) -> Result<bool> {
        match self.file.try_lock() {
            Ok(()) => {
                self.locked.store(forks().into(), Relaxed);
                Ok(true)
            }
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        let named = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        let own = self.file.metadata()?;
        Ok((named.dev(), named.ino()) == (own.dev(), own.ino()))
    }

    fn is_locked(&self) -> Result<bool> {
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    #[cfg(target_os = "linux")]
    fn map(&self, bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        super::mapped::map(&self.file, bytes)
    }

    fn view(&self) -> Result<Option<Box<dyn View>>> {
        super::view::view(&self.file)
    }

    #[cfg(not(target_os = "linux"))]
    fn map(&self, _bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        Ok(None)
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std has no fallocate")]
fn reserve(file: &fs::File, bytes: u64) -> Result<()> {
    let bytes = libc::off_t::try_from(bytes).map_err(|_| Error::from(ErrorKind::FileTooLarge))?;
    loop {
        // SAFETY: fallocate takes no pointers, and the descriptor is open as long as `file` is borrowed.
        if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, bytes) } == 0 {
            return Ok(());
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => continue,
            // The file system cannot promise room; a full disk then shows when the pages are written, which
            // happens in a checkpoint, before anything old is given up.
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &fs::File, _bytes: u64) -> Result<()> {
    Ok(())
}
