//! Where bytes are kept: the seam between the library and the operating system.
//!
//! Everything above reads and writes through [`Storage`] and [`File`], so a test can put a disk of its
//! own below the same code and lose, tear or refuse what it likes. `real` is the only place in the
//! library that touches `std::fs`.
//!
//! Not here: what the bytes mean (`pager`), caching (`pager/pool.rs`).

pub(crate) mod atomic;
mod forks;
#[cfg(target_os = "linux")]
mod guard;
#[cfg(target_os = "linux")]
mod mapped;
mod real;
#[cfg(test)]
pub(crate) mod simulated;
mod view;

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

pub(crate) use forks::{forked_since, forks};
pub(crate) use real::Disk;

/// How a file is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It must exist and is only read.
    Read,
    /// It must exist; read and written.
    Write,
    /// It must not exist; made, read and written.
    New,
}

/// A place that holds files by path.
pub(crate) trait Storage: Send + Sync {
    /// The path of the file that `path` leads to, or of the one that would be made there: its last part is no symbolic link, and it
    /// starts at the root where that can be found out. What is beside a file is named after this path. An error where links lead
    /// nowhere; anything else that is wrong with `path` shows when it is opened.
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Opens or makes a file. `IsADirectory` or `InvalidData` where something else than a file is there; never waits.
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>>;
    /// A new file without a name on the file system of `beside`, which is gone when it is closed; `None` where there is no such thing.
    fn make_unnamed(&self, _beside: &Path) -> Result<Option<Box<dyn File>>> {
        Ok(None)
    }
    /// Takes a file away; one that is not there is no error.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Gives the file at `from` the name `to`, whatever had that name before.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes a directory; gives whether it is new. Nothing to do where names need none.
    fn make_directory(&self, _path: &Path) -> Result<bool> {
        Ok(false)
    }
    /// Removes a directory if it is empty.
    fn remove_directory(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
    /// The names in a directory, in any order, without those that are no text; none where that cannot be told.
    fn names_in(&self, _directory: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Makes the names in the directory of `path` durable.
    fn sync_names(&self, path: &Path) -> Result<()>;
}

/// An open file. Positions are given with each call, so any number of threads can share one.
pub(crate) trait File: Send + Sync {
    /// Fills `bytes` from `offset`; `UnexpectedEof` where the file ends before.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// The length in bytes.
    fn len(&self) -> Result<u64>;
    /// Cuts or extends the file to `bytes`.
    fn set_len(&self, bytes: u64) -> Result<()>;
    /// Makes sure that the first `bytes` bytes have room on the disk, without changing the length.
    fn reserve(&self, bytes: u64) -> Result<()>;
    /// Who may do what with the file, as the system's number for it, where there is such a thing.
    fn permissions(&self) -> Result<Option<u32>> {
        Ok(None)
    }
    /// Gives the file the [`permissions`](Self::permissions) of another.
    fn set_permissions(&self, _permissions: u32) -> Result<()> {
        Ok(())
    }
    /// Makes the content (and length) durable.
    fn sync(&self) -> Result<()>;
    /// Takes the only writer's lock, which is held until the file is closed; `false` where another holds it.
    fn lock(&self) -> Result<bool>;
    /// Is it what `path` names now? A file that was opened there may have been renamed or removed since.
    fn is_at(&self, path: &Path) -> Result<bool>;
    /// How many hard links it has; 0 where it was removed. 1 where there is no such thing.
    fn link_count(&self) -> Result<u64> {
        Ok(1)
    }
    /// Is it a mount of this file alone, in a directory that is not its own?
    fn is_mounted_alone(&self) -> Result<bool> {
        Ok(false)
    }
    /// Does a writer hold the lock right now?
    fn is_locked(&self) -> Result<bool>;
    /// The first `bytes` bytes as memory that the operating system keeps when the process ends; the file may be shorter, but
    /// has 4096 bytes. `None` where there is no such thing; then [`write_at`](Self::write_at) does the same, slower.
    fn map(&self, bytes: u64) -> Result<Option<Box<dyn Mapped>>>;
    /// All bytes as memory, for reading; for a file that is never changed. `None` where there is no such thing.
    fn view(&self) -> Result<Option<Box<dyn View>>> {
        Ok(None)
    }
}

/// Part of a file as memory, for writing.
pub(crate) trait Mapped: Send + Sync {
    /// Makes the pages of bytes `from..to`, which the file has, ready for stores. A full disk shows here, if it can.
    fn prepare(&self, from: u64, to: u64) -> Result<()>;
    /// Stores `bytes` at `offset`. The caller lets no other call store there at the same time. After an error the file
    /// may have none, some or all of these bytes; those of earlier stores it has. Every later
    /// store is an error too.
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// A file as memory, for reading.
pub(crate) trait View: Send + Sync {
    /// The bytes that the file had when it was mapped.
    fn bytes(&self) -> &[u8];
    /// Bytes `from..to` will be read here and there, so reading ahead is of no use.
    fn expect_random(&self, from: usize, to: usize);
}

/// Opens the file at `path`, or makes it, and takes its lock; `None` where another has it. `InvalidData` for a symbolic link, whose
/// name is not that of the file it leads to.
///
/// It is the file that has the name, also where another process renames or removes one meanwhile, so the name is the caller's as
/// long as the file is open: who holds the lock alone renames or removes it.
pub(crate) fn open_locked(storage: &dyn Storage, path: &Path) -> Result<Option<Box<dyn File>>> {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let file = match storage.open(path, Mode::New) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => match storage.open(path, Mode::Write) {
                // Removed since it was found to exist.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            },
            // Where a new file cannot be made, its directory does not exist.
            made => made?,
        };
        if !file.lock()? {
            return Ok(None);
        }
        // Otherwise it was locked too late: it had this name when it was opened.
        if file.is_at(path)? {
            return Ok(Some(file));
        }
    }
    Err(Error::new(ErrorKind::InvalidData, "a symbolic link, or a name that changes all the time; remove it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lost_its_name_before_it_was_locked_is_not_taken_for_the_one_that_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("a"), directory.path().join("b"));
        let first = open_locked(&Disk, &path).unwrap().unwrap();
        assert!(open_locked(&Disk, &path).unwrap().is_none());
        // Opened before the rename, locked after it.
        let late = Disk.open(&path, Mode::Write).unwrap();
        Disk.rename(&path, &elsewhere).unwrap();
        drop(first);
        assert!(late.lock().unwrap());
        assert!(!late.is_at(&path).unwrap());
        assert!(late.is_at(&elsewhere).unwrap());
        let second = open_locked(&Disk, &path).unwrap().unwrap();
        assert!(second.is_at(&path).unwrap());
        Disk.remove(&path).unwrap();
        assert!(!second.is_at(&path).unwrap());
    }

    #[test]
    fn a_symbolic_link_is_not_taken_for_a_file_that_another_process_makes() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("a"), directory.path().join("b"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        for _ in ["to nothing", "to a file"] {
            let refused = open_locked(&Disk, &path).err().unwrap();
            assert!(refused.to_string().contains("symbolic link"), "{refused}");
            drop(Disk.open(&elsewhere, Mode::New));
        }
    }
}
