//! Storage and files: the interface between the library and the operating system.
//!
//! All code above this module reads and writes through [`Storage`] and [`File`], so tests can run the same code on a
//! simulated disk that loses, tears or refuses writes. `real` is the only part of the library that uses `std::fs`.
//!
//! Not here: the meaning of the bytes (`pager`), caching (`pager/pool/`).

pub(crate) mod atomic;
#[cfg(target_os = "linux")]
mod byte_locks;
mod forks;
#[cfg(target_os = "linux")]
mod guard;
mod idle;
mod limits;
mod memory_limit;
pub(crate) mod output;
mod real;
#[cfg(target_os = "linux")]
mod shared_mapping;
#[cfg(test)]
pub(crate) mod simulated;
mod view;
mod waits;
#[cfg(target_os = "linux")]
mod window;

use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(crate) use forks::{forked_since, forks};
pub(crate) use idle::run_when_idle;
pub(crate) use memory_limit::{memory_share_bytes, spare_mapping_bytes};
pub(crate) use real::Disk;
pub(crate) use waits::has_waited;

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Must exist; opened for reading only.
    Read,
    /// Must exist; opened for reading and writing.
    Write,
    /// Must not exist; created, then read and written.
    New,
}

/// Owner, group and permissions of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The nine bits for owner, group and everybody.
    pub permissions: u32,
    pub user: u32,
    pub group: u32,
}

impl Access {
    /// That of a directory of files with this access: who may read them may find them, and who may write them may make
    /// and remove them.
    fn of_directory(self) -> Access {
        let search = (self.permissions & 0o444) >> 2 | (self.permissions & 0o222) >> 1;
        Access { permissions: self.permissions | search | 0o700, ..self }
    }
}

/// Permissions of a new file, before the umask, unless the caller asks for others.
pub(crate) const PERMISSIONS: u32 = 0o666;
/// Permissions of a file that others must not read, or not yet.
pub(crate) const PRIVATE: u32 = 0o600;

/// The access given to a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granted {
    /// That of the file that it replaces or is made from.
    Like(Access),
    /// These permissions, before the umask.
    Permissions(u32),
}

impl Granted {
    /// Permissions with which to create the file.
    pub(crate) fn at_first(self) -> u32 {
        match self {
            Granted::Like(_) => PRIVATE,
            Granted::Permissions(permissions) => permissions,
        }
    }

    /// Sets what creating the file could not, before anything is written.
    pub(crate) fn complete(self, file: &dyn File) -> Result<()> {
        match self {
            Granted::Like(access) => file.take_access(access),
            Granted::Permissions(_) => Ok(()),
        }
    }
}

/// Files by path.
pub(crate) trait Storage: Send + Sync {
    /// Resolves `path` to the file it leads to, or to the one that would be created there. The last component of the
    /// result is not a symbolic link, and the result is absolute if possible. Files that accompany a file are named
    /// after this path. An error if links lead nowhere; other errors about `path` occur when it is opened.
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Opens or creates a file. `IsADirectory` or `InvalidData` if `path` is not a regular file. Never waits.
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>>;
    /// Whether there is a file at `path`, at less cost than trying to open it.
    fn exists(&self, path: &Path) -> Result<bool> {
        match self.open(path, Mode::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            opened => opened.map(|_| true),
        }
    }
    /// A new file without a name on the file system of `beside`, removed when closed. `None` if the file system has no
    /// such files.
    fn make_unnamed(&self, _beside: &Path) -> Result<Option<Box<dyn File>>> {
        Ok(None)
    }
    /// Removes a file; not an error if it is absent.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Renames the file at `from` to `to`, replacing a file there.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes a directory with the [`Access`] of the one at `like`; if that is a file, for those who may use the file.
    /// Returns whether it is new. Does nothing if file names need no directories.
    fn make_directory(&self, _path: &Path, _like: Option<&Path>) -> Result<bool> {
        Ok(false)
    }
    /// Removes a directory if it is empty.
    fn remove_directory(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
    /// The names in a directory that are valid text, in any order; empty if they cannot be listed.
    fn names_in(&self, _directory: &Path) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Makes the names in the directory of `path` durable, as far as its file system can.
    fn sync_names(&self, path: &Path) -> Result<()>;
    /// Who may use the file or directory at `path`. `None` if it does not exist or the system does not say.
    fn access_at(&self, path: &Path) -> Result<Option<Access>> {
        match self.open(path, Mode::Read) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened?.access(),
        }
    }
    /// Creates the file at `path` as [`Mode::New`] does, with these permissions, before the umask.
    fn create(&self, path: &Path, _permissions: u32) -> Result<Box<dyn File>> {
        self.open(path, Mode::New)
    }
}

/// Bytes for [`File::write_zeros`].
const ZEROS: &[u8] = &[0; 1 << 16];

/// An open file. Each call takes its own offset, so any number of threads can share a file.
pub(crate) trait File: Send + Sync {
    /// Fills `bytes` from `offset`. `UnexpectedEof` if the file ends before that.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Writes zeros from the offset `from` up to `to`.
    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZEROS.len() as u64);
            self.write_at(&ZEROS[..len as usize], at)?;
            at += len;
        }
        Ok(())
    }
    /// The length in bytes.
    fn len(&self) -> Result<u64>;
    /// Truncates or extends the file to `bytes`.
    fn set_len(&self, bytes: u64) -> Result<()>;
    /// Reserves disk space for the first `bytes` bytes, without changing the length.
    fn reserve(&self, bytes: u64) -> Result<()>;
    /// Fails if this process may not write to all of the first `bytes` bytes.
    fn refuse_beyond_limit(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Who may use the file, if the system says so.
    fn access(&self) -> Result<Option<Access>> {
        Ok(None)
    }
    /// Sets the owner, group and permissions of the file, as far as the process may set them and the file system
    /// supports them. If the group cannot be set, the file's own group gets no more permissions than everybody. A file
    /// with several names is left unchanged.
    fn take_access(&self, _wanted: Access) -> Result<()> {
        Ok(())
    }
    /// Makes the content and the length durable.
    fn sync(&self) -> Result<()>;
    /// Starts writing the `bytes` bytes from `offset` on to disk without waiting, so that a later [`sync`](Self::sync)
    /// takes less time. It makes nothing durable.
    fn begin_sync(&self, _offset: u64, _bytes: u64) {}
    /// Waits until bytes are written whose sync has begun. It makes nothing durable. An error that it returns may not
    /// be returned again by [`sync`](Self::sync).
    fn await_sync(&self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Takes the writer's lock, which is held until the file is closed. `false` if another handle holds it.
    fn lock(&self) -> Result<bool>;
    /// Releases the writer's lock, for another handle of this process.
    fn unlock(&self) -> Result<()>;
    /// Whether `path` names this file now. It may have been renamed or removed since it was opened.
    fn is_at(&self, path: &Path) -> Result<bool>;
    /// The device of the file and its number there. While the file is open, no other file has both. `None` if the
    /// storage has no such numbers.
    fn identity(&self) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }
    /// Number of hard links: 0 if the file was removed, 1 if they cannot be counted.
    fn link_count(&self) -> Result<u64> {
        Ok(1)
    }
    /// Whether the file itself is a mount point, as with a bind mount of a single file.
    fn is_mounted_alone(&self) -> Result<bool> {
        Ok(false)
    }
    /// Whether a writer holds the lock now.
    fn is_locked(&self) -> Result<bool>;
    /// Locks the byte at `offset`, which the file need not have, until it is unlocked or the file closed: together with
    /// others that share it, or `alone`. `Some(false)` if another handle prevents it; `None` if the system has no such
    /// locks. Never waits. To lock it `alone`, the file must be open for writing.
    fn lock_byte(&self, _offset: u64, _alone: bool) -> Result<Option<bool>> {
        Ok(None)
    }
    /// Releases the lock of the byte at `offset`.
    fn unlock_byte(&self, _offset: u64) -> Result<()> {
        Ok(())
    }
    /// The first bytes of `range` that another handle, or another program by a lock of its own, has locked together, if
    /// the system says so.
    fn first_locked_bytes(&self, _range: Range<u64>) -> Result<Option<Range<u64>>> {
        Ok(None)
    }
    /// Announces that reads will be in random order, so that the system reads only what is asked for.
    fn expect_random_reads(&self) {}
    /// Starts reading `count` bytes from `offset`, so that a later [`read_at`](Self::read_at) waits less. `false` if
    /// the system has no such request. Errors are returned by the read.
    fn read_ahead(&self, _offset: u64, _count: u64) -> bool {
        false
    }
    /// Whether the byte at `offset` is in the system's cache, if the system says so.
    fn is_cached(&self, _offset: u64) -> Option<bool> {
        None
    }
    /// Fills the start of `bytes` with what the system's cache has from `offset` on, up to the first byte that it
    /// lacks, and returns the number of bytes. 0 if the system does not say. Never waits for the disk, but Linux starts
    /// reading what is missing of `bytes`, as [`is_cached`](Self::is_cached) starts reading the page of its byte.
    fn read_cached(&self, _bytes: &mut [u8], _offset: u64) -> usize {
        0
    }
    /// Maps the first `bytes` bytes as memory that the operating system keeps when the process dies. The file may be
    /// shorter, but has at least 4096 bytes. `None` if there are no mappings; then [`write_at`](Self::write_at) does
    /// the same, more slowly.
    fn map(&self, bytes: u64) -> Result<Option<Box<dyn Mapped>>>;
    /// Maps the whole file for reading; the file must never change. Failing reads raise no signals. `None` if there are
    /// no such mappings.
    fn window(&self) -> Result<Option<Box<dyn Window>>> {
        Ok(None)
    }
    /// Maps `bytes` bytes from `offset` on for reading. This process may change the file, and it may be shorter;
    /// failing reads raise no signals. Both arguments are multiples of 64 KiB. `None` if there are no such mappings.
    fn window_from(&self, _offset: u64, _bytes: usize) -> Option<Box<dyn Window>> {
        None
    }
    /// Whether reading through a [`window`](Self::window) is faster than by [`read_at`](Self::read_at), and as safe.
    fn window_pays(&self) -> Result<bool> {
        Ok(false)
    }
    /// Whether other machines, or a program that serves the file system, may change the file, so that what a writer
    /// stores in a mapping may not be seen here.
    fn is_shared_with_machines(&self) -> Result<bool> {
        Ok(false)
    }
    /// Maps the whole file for reading; the file must never change. `None` if there are no mappings.
    fn view(&self) -> Result<Option<Box<dyn View>>> {
        Ok(None)
    }
}

/// Part of a file, mapped for writing.
pub(crate) trait Mapped: Send + Sync {
    /// Makes the pages of bytes `from..to`, which the file has, ready for stores. Returns an error if the disk is full,
    /// as far as that can be known.
    fn prepare(&self, from: u64, to: u64) -> Result<()>;
    /// Says that few stores will go to the pages of bytes `from..to`, which the file has and which were written before.
    /// Such a store may then find a page that is not in memory: it waits for it, or returns an error.
    fn leave_to_stores(&self, _from: u64, _to: u64) {}
    /// Stores `bytes` at `offset`. The caller prevents concurrent stores there. After an error the file may have none,
    /// some or all of these bytes; it keeps those of earlier stores, and every later store fails too.
    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()>;
}

/// A file, mapped for reading, from which bytes are copied.
///
/// Each method reports whether the bytes could be read. `false` or `None` means that they are outside the window or the
/// file, or that these bytes, or some accessed earlier, could not be read.
pub(crate) trait Window: Send + Sync {
    /// Copies the bytes from `from` on. After `false` the content of `to` is unspecified.
    fn copy(&self, from: usize, to: &mut [u8]) -> bool;
    /// The 16 bytes from `from` on.
    fn first_16(&self, from: usize) -> Option<[u8; 16]>;
    /// Appends the `count` bytes from `from` on to `to`, which is unchanged if the result is `false`.
    fn append(&self, from: usize, count: usize, to: &mut Vec<u8>) -> bool;
    /// Whether the bytes from `from` on are `bytes`.
    fn has(&self, from: usize, bytes: &[u8]) -> Option<bool>;
    /// The number of the first of these records that begins with `key`, if any does.
    fn find(&self, records: Records, key: &[u8]) -> Option<Option<usize>>;
    /// Starts loading the cache lines of these bytes, if they are in memory.
    fn prefetch(&self, bytes: Range<usize>);
}

/// Consecutive records of equal size in a mapped file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records {
    /// The start of the first record.
    pub from: usize,
    pub count: usize,
    /// Bytes per record.
    pub bytes: usize,
}

/// A file, mapped for reading.
pub(crate) trait View: Send + Sync {
    /// The bytes of the file when it was mapped.
    fn bytes(&self) -> &[u8];
}

/// Asks the system for large memory pages; call it before the first write. Does nothing on systems without them.
pub(crate) fn advise_huge_pages<T>(memory: &mut [std::mem::MaybeUninit<T>]) {
    #[cfg(target_os = "linux")]
    real::advise_huge_pages(memory);
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Opens or creates the file at `path` and takes its lock; `None` if another handle holds it. `InvalidData` for a
/// symbolic link, since its name differs from that of its target.
///
/// The file returned is the one that has the name, even if other processes rename or remove files during the call. The
/// caller owns the name while the file is open: only the holder of the lock renames or removes it.
///
/// A file that is created has `permissions`, before the umask.
pub(crate) fn open_locked(storage: &dyn Storage, path: &Path, permissions: u32) -> Result<Option<Box<dyn File>>> {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let created = storage.create(path, permissions);
        let is_new = created.is_ok();
        let file = match created {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => match storage.open(path, Mode::Write) {
                // Removed since the check that it exists.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            },
            // If a new file cannot be made, its directory does not exist.
            created => created?,
        };
        match file.lock() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(e) => {
                if is_new {
                    remove_if_empty(storage, path, file.as_ref());
                }
                return Err(e);
            }
        }
        // Otherwise the lock came too late: the name has moved since the open.
        if file.is_at(path)? {
            return Ok(Some(file));
        }
    }
    Err(Error::new(ErrorKind::InvalidData, "a symbolic link, or a name that changes all the time"))
}

/// Removes a file that this process made at `path` and could not use, unless another process has written to it.
pub(crate) fn remove_if_empty(storage: &dyn Storage, path: &Path, file: &dyn File) {
    if matches!(file.len(), Ok(0)) && matches!(file.is_at(path), Ok(true)) {
        let _ = storage.remove(path);
    }
}

/// Sets the [`Access`] of `file` to that of `like`, before anything is written to it.
pub(crate) fn take_access_of(file: &dyn File, like: &dyn File) -> Result<()> {
    like.access()?.map_or(Ok(()), |access| file.take_access(access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sidecar_file_has_the_permissions_and_owner_of_its_table() {
        let directory = tempfile::tempdir().unwrap();
        let [table, log, old] = ["t", "t-log0", "t-log1"].map(|name| directory.path().join(name));
        let file = Disk.open(&table, Mode::New).unwrap();
        let own = file.access().unwrap().unwrap();
        // Only root can give files away.
        let users = if own.user == 0 { &[0, 12_345][..] } else { &[own.user] };
        let accesses = users.iter().flat_map(|&user| {
            [0o600, 0o640, 0o666].map(|permissions| Access { permissions, user, group: user.max(own.group) })
        });
        for access in accesses {
            file.take_access(access).unwrap();
            Disk.create(&old, 0o666).unwrap();
            for path in [&log, &old] {
                let opened = open_locked(&Disk, path, PRIVATE).unwrap().unwrap();
                take_access_of(opened.as_ref(), file.as_ref()).unwrap();
                assert_eq!(opened.access().unwrap(), Some(access));
            }
            [&log, &old].into_iter().for_each(|path| Disk.remove(path).unwrap());
        }
        let private = Disk.create(&log, PRIVATE).unwrap();
        assert_eq!(private.access().unwrap().unwrap().permissions & 0o077, 0);
    }

    #[test]
    fn a_file_that_lost_its_name_before_it_was_locked_is_not_taken_for_the_one_that_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (directory.path().join("a"), directory.path().join("b"));
        let first = open_locked(&Disk, &path, PERMISSIONS).unwrap().unwrap();
        assert!(open_locked(&Disk, &path, PERMISSIONS).unwrap().is_none());
        // Opened before the rename, locked afterwards.
        let late = Disk.open(&path, Mode::Write).unwrap();
        Disk.rename(&path, &elsewhere).unwrap();
        drop(first);
        assert!(late.lock().unwrap());
        assert!(!late.is_at(&path).unwrap());
        assert!(late.is_at(&elsewhere).unwrap());
        let second = open_locked(&Disk, &path, PERMISSIONS).unwrap().unwrap();
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
            let refused = open_locked(&Disk, &path, PERMISSIONS).err().unwrap();
            assert!(refused.to_string().contains("symbolic link"), "{refused}");
            drop(Disk.open(&elsewhere, Mode::New));
        }
    }
}
