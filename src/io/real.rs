//! The operating system's files.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the seam: this file is the operating system's side of it"
)]

#[cfg(target_os = "linux")]
use super::Window;
use super::forks::forks;
use super::limits::{Limited, limit};
use super::{Access, File, Mapped, Mode, PERMISSIONS, Storage, View, ZEROS};
use std::fs;
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom};
#[cfg(target_os = "linux")]
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum number of symbolic links followed: the limit of Linux.
const LINKS_MAX: usize = 40;

/// The real disk.
pub(crate) struct Disk;

impl Storage for Disk {
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        let mut path = path.to_path_buf();
        for _ in 0..=LINKS_MAX {
            let Ok(target) = fs::read_link(&path) else {
                let (Some(name), Ok(directory)) = (path.file_name(), fs::canonicalize(directory_of(&path))) else {
                    return Ok(path);
                };
                // A trailing slash means a directory; opening it is an error.
                let is_file = !path.as_os_str().as_encoded_bytes().ends_with(b"/");
                return Ok(if is_file { directory.join(name) } else { path });
            };
            // Relative to the unresolved directory: the system follows its links again, to the same result.
            path = directory_of(&path).join(target);
        }
        Err(Error::from_raw_os_error(libc::ELOOP))
    }

    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>> {
        open(path, mode, PERMISSIONS)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    fn access_at(&self, path: &Path) -> Result<Option<Access>> {
        match fs::metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            found => Ok(Some(Access::of(&found?))),
        }
    }

    fn create(&self, path: &Path, permissions: u32) -> Result<Box<dyn File>> {
        open(path, Mode::New, permissions)
    }

    #[cfg(target_os = "linux")]
    fn make_unnamed(&self, beside: &Path) -> Result<Option<Box<dyn File>>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
        match open_above_standard(&options, directory_of(beside)) {
            Ok(file) => Ok(Some(Box::new(RealFile::new(file)))),
            // A kernel without such files.
            Err(e) if e.raw_os_error() == Some(libc::EISDIR) || is_lacking(&e) => Ok(None),
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

    fn make_directory(&self, path: &Path, like: Option<&Path>) -> Result<bool> {
        // For nobody else until it has the access that it shall have.
        let permissions = if like.is_some() { 0o700 } else { 0o777 };
        match (fs::DirBuilder::new().mode(permissions).create(path), like) {
            (Err(e), _) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            (Ok(()), Some(like)) => {
                let like = fs::metadata(like)?;
                let access = Access::of(&like);
                let access = if like.is_dir() { access } else { access.of_directory() };
                let directory = open_above_standard(fs::OpenOptions::new().read(true), path)?;
                take_access(&directory, access).map(|()| true)
            }
            (made, _) => made.map(|()| true),
        }
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path)
    }

    fn names_in(&self, directory: &Path) -> Result<Vec<String>> {
        fill_standard_descriptors();
        let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        match open_above_standard(fs::OpenOptions::new().read(true), directory_of(path))?.sync_all() {
            // CIFS and some user-space file systems: the server or the program makes names durable, and no other call
            // would do more.
            Err(e) if is_lacking(&e) || e.raw_os_error() == Some(libc::EBADF) => Ok(()),
            synced => synced,
        }
    }
}

/// Whether the file system does not support the request.
fn is_lacking(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS))
}

/// An error that names what the file system lacks.
fn lacks(what: &str, error: &Error) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the file system {what} ({error})"))
}

/// Opens a file at a descriptor above 2.
fn open_above_standard(options: &fs::OpenOptions, path: &Path) -> Result<fs::File> {
    fill_standard_descriptors();
    let file = options.open(path)?;
    // Another thread has just closed one of the standard descriptors. A clone is above 2, too.
    if file.as_raw_fd() <= libc::STDERR_FILENO { file.try_clone() } else { Ok(file) }
}

/// Opens `/dev/null` at the descriptors 0 to 2 that are closed. Otherwise a file would get one of these numbers, and
/// anything the program or a library writes to standard error would go into that file. Rust programs do the same at
/// startup, and so does glibc in programs that run with another user's rights.
#[expect(unsafe_code, reason = "std has no fcntl")]
fn fill_standard_descriptors() {
    for descriptor in libc::STDIN_FILENO..=libc::STDERR_FILENO {
        // SAFETY: the call takes no pointers and accepts any number.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } != -1 {
            continue;
        }
        // Reads of 0, and writes to 1 and 2, fail as before.
        let reads = descriptor != libc::STDIN_FILENO;
        let Ok(null) = fs::OpenOptions::new().read(reads).write(!reads).open("/dev/null") else { return };
        if null.as_raw_fd() <= libc::STDERR_FILENO {
            let _ = null.into_raw_fd(); // open from now on
        }
    }
}

/// Opens the target of `path` if it can only be written through: a device, a pipe, a descriptor of this process such as
/// `/dev/stdout`. `None` for a regular file, or if nothing is there.
///
/// # Errors
/// `IsADirectory`; errors of opening for writing.
pub(super) fn open_to_write_through(path: &Path) -> Result<Option<fs::File>> {
    let mut options = fs::OpenOptions::new();
    options.write(true).custom_flags(libc::O_NOCTTY);
    let mut link = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        if let Some(descriptor) = descriptor_named(&link) {
            // Duplicated instead of opened again, to keep the descriptor's position and append mode (`>>`).
            return duplicate(descriptor).map(Some);
        }
        let Ok(target) = fs::read_link(&link) else { break };
        link = directory_of(&link).join(target);
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(metadata) if !metadata.is_file() => open_above_standard(&options, path).map(Some),
        // The error of a path that leads nowhere is reported when the file is created.
        Ok(_) | Err(_) => Ok(None),
    }
}

/// The descriptor of this process that `path` stands for, as `/dev/fd/1` does.
fn descriptor_named(path: &Path) -> Option<RawFd> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let directory = fs::canonicalize(directory_of(path)).ok()?;
    let own = format!("/proc/{}/", std::process::id());
    let is_own = directory == Path::new("/dev/fd")
        || directory.ends_with("fd") && directory.as_os_str().as_encoded_bytes().starts_with(own.as_bytes());
    is_own.then_some(number)
}

#[expect(unsafe_code, reason = "the number of a descriptor comes from a path")]
fn duplicate(descriptor: RawFd) -> Result<fs::File> {
    // SAFETY: the call takes no pointers and accepts any number.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) };
    if copy < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call has just made it, so it is open and nothing else owns it.
    Ok(unsafe { fs::File::from_raw_fd(copy) })
}

impl Access {
    fn of(metadata: &fs::Metadata) -> Access {
        Access { permissions: metadata.mode() & 0o777, user: metadata.uid(), group: metadata.gid() }
    }
}

/// Sets the owner, group and permissions of a file or directory to `wanted`, as far as this process may set them and
/// the file system supports them.
fn take_access(file: &fs::File, wanted: Access) -> Result<()> {
    let may_set = |done: Result<()>| match done {
        Err(e) if e.kind() == ErrorKind::PermissionDenied || is_lacking(&e) => Ok(false),
        done => done.map(|()| true),
    };
    let metadata = file.metadata()?;
    let own = Access::of(&metadata);
    let mut is_group = own.group == wanted.group;
    if metadata.is_file() && metadata.nlink() > 1 {
        // The file is not ours alone: its other names may be anywhere.
        return Ok(());
    }
    if (own.user, own.group) != (wanted.user, wanted.group) {
        // A process that may not give files away can often choose among its own groups.
        is_group = may_set(fchown(file, Some(wanted.user), Some(wanted.group)))?
            || is_group
            || may_set(fchown(file, None, Some(wanted.group)))?;
    }
    // If the group is not that of the old file, it gets no more permissions than everybody.
    let others = wanted.permissions & 0o007;
    let permissions = if is_group { wanted.permissions } else { wanted.permissions & (0o707 | others << 3) };
    if permissions != own.permissions {
        let special = metadata.mode() & 0o7000;
        may_set(file.set_permissions(fs::Permissions::from_mode(special | permissions)))?;
    }
    Ok(())
}

fn open(path: &Path, mode: Mode, permissions_if_new: u32) -> Result<Box<dyn File>> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(mode != Mode::Read).create_new(mode == Mode::New).mode(permissions_if_new);
    // Has no effect on a regular file; without it, opening a pipe would wait.
    options.custom_flags(libc::O_NONBLOCK);
    let file = open_above_standard(&options, path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(Error::new(ErrorKind::InvalidData, "not a regular file"));
    }
    Ok(Box::new(RealFile::new(file)))
}

/// Whether a lock failed because the file system, or the server that holds the file, does not support locks.
fn has_no_locks(error: &Error) -> bool {
    is_lacking(error) || error.raw_os_error() == Some(libc::ENOLCK)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

struct RealFile {
    file: fs::File,
    /// The process that locked it; see `forks`.
    locked: AtomicU64,
    /// The process that locked bytes of it.
    #[cfg(target_os = "linux")]
    byte_locked: AtomicU64,
    /// The process's limit on file length in bytes, as of the last time it was read.
    allowed: AtomicU64,
}

const UNLOCKED: u64 = u64::MAX;

impl RealFile {
    fn new(file: fs::File) -> RealFile {
        RealFile {
            file,
            locked: AtomicU64::new(UNLOCKED),
            #[cfg(target_os = "linux")]
            byte_locked: AtomicU64::new(UNLOCKED),
            allowed: AtomicU64::new(0),
        }
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        // The lock lasts as long as any descriptor of the file. A child process that is being started has a copy of the
        // descriptor until it calls exec. In a forked child the lock belongs to the parent and is kept.
        if *self.locked.get_mut() == u64::from(forks()) {
            let _ = self.file.unlock();
        }
        #[cfg(target_os = "linux")]
        if *self.byte_locked.get_mut() == u64::from(forks()) {
            let _ = super::byte_locks::unlock(&self.file, 0..i64::MAX as u64);
        }
    }
}

impl File for RealFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        // The system also refuses to overwrite bytes beyond the limit.
        self.refuse_beyond_limit(offset.saturating_add(bytes.len() as u64))?;
        self.file.write_all_at(bytes, offset)
    }

    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        // Linux keeps what one call writes in one folio of its cache, and a sync writes the whole folio of a page that
        // was stored to (docs/notes/2026-11-29-syncs.md).
        const CALL_BYTES: u64 = 16 << 10;
        self.refuse_beyond_limit(to)?;
        let mut at = from;
        while at < to {
            let len = (to - at).min(CALL_BYTES);
            self.file.write_all_at(&ZEROS[..len as usize], at)?; // below 2^16
            at += len;
        }
        Ok(())
    }

    // Not by the metadata, which have the file's times: since 6.13 Linux gives a file a finer time with the first write
    // after somebody asked for it, and that write's sync takes 1.4 times as long. Nothing uses the offset.
    fn len(&self) -> Result<u64> {
        (&self.file).seek(SeekFrom::End(0))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        if let Err(e) = self.refuse_beyond_limit(bytes)
            && self.len()? < bytes
        {
            return Err(e);
        }
        self.file.set_len(bytes)
    }

    /// The limit takes a system call to read, so it is read only when a file grows: a limit that is lowered while the
    /// file is open applies from the next growth.
    fn refuse_beyond_limit(&self, bytes: u64) -> Result<()> {
        if bytes > self.allowed.load(Relaxed) {
            refuse_beyond_limit(bytes)?;
            self.allowed.fetch_max(bytes, Relaxed);
        }
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        // For the writes that will follow.
        self.refuse_beyond_limit(bytes)?;
        reserve(&self.file, bytes)
    }

    fn access(&self) -> Result<Option<Access>> {
        Ok(Some(Access::of(&self.file.metadata()?)))
    }

    fn take_access(&self, wanted: Access) -> Result<()> {
        take_access(&self.file, wanted)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| if is_lacking(&e) { lacks("cannot make files durable", &e) } else { e })
    }

    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "std has no sync_file_range")]
    fn begin_sync(&self, offset: u64, bytes: u64) {
        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
        // SAFETY: the call takes no pointers, and the descriptor is open as long as `self` is borrowed. A failed write
        // is reported by the next sync: this call does not wait for it, and so does not clear the error.
        unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    }

    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "std has no sync_file_range")]
    fn await_sync(&self, offset: u64, bytes: u64) -> Result<()> {
        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return Ok(()) };
        let call = |flags| {
            // SAFETY: as above, but that a failed write is reported here.
            match unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, bytes, flags) } {
                0 => Ok(()),
                _ => Err(Error::last_os_error()),
            }
        };
        await_writes(call)
    }

    fn lock(&self) -> Result<bool> {
        match self.file.try_lock() {
            Ok(()) => {
                self.locked.store(forks().into(), Relaxed);
                Ok(true)
            }
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) if has_no_locks(&e) => {
                Err(lacks("has no locks, which keep a second writer out", &e))
            }
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn unlock(&self) -> Result<()> {
        self.locked.store(UNLOCKED, Relaxed);
        self.file.unlock()
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        let named = match fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        Ok(self.identity()? == Some((named.dev(), named.ino())))
    }

    fn identity(&self) -> Result<Option<(u64, u64)>> {
        let own = self.file.metadata()?;
        Ok(Some((own.dev(), own.ino())))
    }

    fn link_count(&self) -> Result<u64> {
        Ok(self.file.metadata()?.nlink())
    }

    #[cfg(target_os = "linux")]
    fn is_mounted_alone(&self) -> Result<bool> {
        is_mount_root(&self.file)
    }

    #[cfg(target_os = "linux")]
    fn lock_byte(&self, offset: u64, alone: bool) -> Result<Option<bool>> {
        self.byte_locked.store(forks().into(), Relaxed);
        super::byte_locks::lock(&self.file, offset, alone)
    }

    #[cfg(target_os = "linux")]
    fn unlock_byte(&self, offset: u64) -> Result<()> {
        super::byte_locks::unlock(&self.file, offset..offset + 1)
    }

    #[cfg(target_os = "linux")]
    fn first_locked_bytes(&self, range: Range<u64>) -> Result<Option<Range<u64>>> {
        super::byte_locks::first_locked(&self.file, range)
    }

    #[cfg(target_os = "linux")]
    fn expect_random_reads(&self) {
        advise(&self.file, 0, 0, libc::POSIX_FADV_RANDOM);
    }

    #[cfg(target_os = "linux")]
    fn read_ahead(&self, offset: u64, count: u64) -> bool {
        advise(&self.file, offset, count, libc::POSIX_FADV_WILLNEED)
    }

    #[cfg(target_os = "linux")]
    fn is_cached(&self, offset: u64) -> Option<bool> {
        match read_without_wait(&self.file, &mut [0], offset) {
            Ok(1) => Some(true),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Some(false),
            _ => None,
        }
    }

    #[cfg(target_os = "linux")]
    fn read_cached(&self, bytes: &mut [u8], offset: u64) -> usize {
        read_without_wait(&self.file, bytes, offset).unwrap_or(0)
    }

    fn is_locked(&self) -> Result<bool> {
        // Locked for a moment, which keeps a writer out. A lock of a byte could show it instead, and would be in the
        // way of programs that lock the whole file of a database themselves (`dbm_pagfno`).
        match self.file.try_lock_shared() {
            Ok(()) => self.file.unlock().map(|()| false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            // Then no writer has a lock either: without a lock a writer writes nothing.
            Err(fs::TryLockError::Error(e)) if has_no_locks(&e) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    #[cfg(target_os = "linux")]
    fn map(&self, bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        super::shared_mapping::map(&self.file, bytes)
    }

    #[cfg(target_os = "linux")]
    fn window(&self) -> Result<Option<Box<dyn Window>>> {
        super::window::window(&self.file)
    }

    #[cfg(target_os = "linux")]
    fn window_from(&self, offset: u64, bytes: usize) -> Option<Box<dyn Window>> {
        super::window::window_from(&self.file, offset, bytes)
    }

    #[cfg(target_os = "linux")]
    fn window_pays(&self) -> Result<bool> {
        super::window::window_pays(&self.file)
    }

    #[cfg(target_os = "linux")]
    fn is_shared_with_machines(&self) -> Result<bool> {
        Ok(!super::window::is_local(&self.file))
    }

    fn view(&self) -> Result<Option<Box<dyn View>>> {
        super::view::view(&self.file)
    }

    #[cfg(not(target_os = "linux"))]
    fn map(&self, _bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        Ok(None)
    }
}

/// An error if the process may not make files of `bytes` bytes (`ulimit -f`): the system would send SIGXFSZ, which ends
/// a program that does not handle it. One system call; the limit may change at any time.
fn refuse_beyond_limit(bytes: u64) -> Result<()> {
    let most = limit(Limited::FileLength);
    if bytes <= most {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::FileTooLarge,
        format!("this process may make no file longer than {most} bytes (ulimit -f)"),
    ))
}

/// Whether the file itself is a mount point. `false` if the kernel (before 5.8) cannot report it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std has no statx")]
fn is_mount_root(file: &fs::File) -> Result<bool> {
    const MOUNT_ROOT: u64 = 0x2000; // STATX_ATTR_MOUNT_ROOT
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty string that ends with a zero, `found` is ours and as long as the call expects, and
    // the descriptor is open as long as `file` is borrowed.
    if unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, 0, found.as_mut_ptr()) } != 0 {
        let error = Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ENOSYS | libc::EPERM) => Ok(false),
            _ => Err(error),
        };
    }
    // SAFETY: zeros are a legal statx, and the call has filled in the fields it supports.
    let found = unsafe { found.assume_init() };
    Ok(found.stx_attributes & found.stx_attributes_mask & MOUNT_ROOT != 0)
}

/// Advises the system about reads of `count` bytes from `offset`, or all if 0. Returns whether it took the advice.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std has no posix_fadvise")]
fn advise(file: &fs::File, offset: u64, count: u64, advice: libc::c_int) -> bool {
    let (Ok(offset), Ok(count)) = (libc::off_t::try_from(offset), libc::off_t::try_from(count)) else { return false };
    // SAFETY: posix_fadvise takes no pointers, and the descriptor is open as long as `file` is borrowed.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, count, advice) == 0 }
}

/// Reads bytes from `offset` up to the first that is not in the system's cache. `WouldBlock` if the first byte is not
/// there; another error if the file system has no such reads.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std has no preadv2")]
fn read_without_wait(file: &fs::File, bytes: &mut [u8], offset: u64) -> Result<usize> {
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let offset = libc::off_t::try_from(offset).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and `part` is `bytes`, borrowed for writing.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) };
    usize::try_from(read).map_err(|_| Error::last_os_error())
}

/// Asks for large memory pages if `memory` is large, so that random accesses miss fewer translations. Call it before
/// the first write.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "std has no madvise")]
pub(super) fn advise_huge_pages<T>(memory: &mut [std::mem::MaybeUninit<T>]) {
    const MANY_BYTES: usize = 4 << 20;
    let page = super::guard::page_bytes();
    let (start, bytes) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory));
    let skipped = start.align_offset(page);
    if bytes >= MANY_BYTES {
        let start = start.wrapping_add(skipped);
        // SAFETY: whole pages of memory that is borrowed. The advice does not change the content and may be ignored.
        unsafe { libc::madvise(start.cast(), (bytes - skipped) / page * page, libc::MADV_HUGEPAGE) };
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
            // The file system cannot reserve space; a full disk will then be reported by the write.
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &fs::File, _bytes: u64) -> Result<()> {
    Ok(())
}

/// Waits by `call`, a `sync_file_range` with these flags. Where the system has no such call, or a sandbox refuses it,
/// the sync at the end does all the work. A failed write may have the same error, and no later call returns it.
#[cfg(target_os = "linux")]
fn await_writes(call: impl Fn(libc::c_uint) -> Result<()>) -> Result<()> {
    const NOTHING: libc::c_uint = 0;
    call(libc::SYNC_FILE_RANGE_WAIT_BEFORE).or_else(|failed| if call(NOTHING).is_err() { Ok(()) } else { Err(failed) })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_written_from_any_byte_to_any_other_and_nowhere_else() {
        const END: u64 = 40 * ZEROS.len() as u64;
        let file = RealFile::new(tempfile::tempfile().unwrap());
        for (from, to) in [(0, 0), (5, 6), (1, 70_000), (3, 33 * ZEROS.len() as u64 + 7), (END - 1, END)] {
            file.write_at(&vec![7; END as usize], 0).unwrap();
            file.write_zeros(from, to).unwrap();
            let mut found = vec![1; END as usize];
            file.read_at(&mut found, 0).unwrap();
            let is_right = |(at, byte): (u64, &u8)| *byte == if (from..to).contains(&at) { 0 } else { 7 };
            assert!((0..).zip(&found).all(is_right), "{from} to {to}");
        }
        file.write_zeros(END, END + 10).unwrap();
        assert_eq!(file.len().unwrap(), END + 10);
    }

    #[test]
    fn a_failed_write_is_not_taken_for_a_call_that_the_system_lacks() {
        for errno in [libc::EINVAL, libc::EACCES, libc::EPERM, libc::EIO] {
            let failed = || Err(Error::from_raw_os_error(errno));
            let written = await_writes(|flags| if flags == 0 { Ok(()) } else { failed() });
            assert_eq!(written.unwrap_err().raw_os_error(), Some(errno));
            await_writes(|_| failed()).unwrap();
        }
        let file = RealFile::new(tempfile::tempfile().unwrap());
        file.write_at(&[1; 5000], 0).unwrap();
        file.begin_sync(0, 5000);
        file.await_sync(0, 5000).unwrap();
    }
}
