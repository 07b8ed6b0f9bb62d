//! Locks of single bytes of a file, which the system releases when the file is closed or its process dies.
//!
//! They are those of an open file, not of a process (`F_OFD_SETLK`), and have nothing to do with the bytes themselves:
//! a byte beyond the end can be locked. Two handles of one process exclude each other as two processes do.
//!
//! Not here: what each byte stands for (`pager/file/held.rs`), the lock that keeps a second writer out (`real.rs`).

#![expect(clippy::disallowed_types, reason = "the seam: beside real.rs, the operating system's side of it")]

use std::fs;
use std::io::{Error, Result};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Locks the byte at `offset`, shared or `alone`. `Some(false)` if another handle prevents it; `None` if the file
/// system has no such locks.
pub(super) fn lock(file: &fs::File, offset: u64, alone: bool) -> Result<Option<bool>> {
    let Some(mut wanted) = request(if alone { libc::F_WRLCK } else { libc::F_RDLCK }, offset..offset + 1) else {
        return Ok(None);
    };
    match call(file, libc::F_OFD_SETLK, &mut wanted) {
        Ok(()) => Ok(Some(true)),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(Some(false)),
        Err(e) if lacks_locks(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Releases the bytes of `range` that this handle has locked.
pub(super) fn unlock(file: &fs::File, range: Range<u64>) -> Result<()> {
    request(libc::F_UNLCK, range).map_or(Ok(()), |mut wanted| call(file, libc::F_OFD_SETLK, &mut wanted))
}

/// The first bytes of `range` that another handle or process has locked. One system call for each lock.
pub(super) fn first_locked(file: &fs::File, range: Range<u64>) -> Result<Option<Range<u64>>> {
    let (mut end, mut first) = (range.end, None);
    // The system names any one of them: look for another before it.
    while let Some(mut wanted) = request(libc::F_WRLCK, range.start..end) {
        match call(file, libc::F_OFD_GETLK, &mut wanted) {
            Err(e) if lacks_locks(&e) => return Ok(None),
            Err(e) => return Err(e),
            Ok(()) if wanted.l_type == libc::F_UNLCK as libc::c_short => break,
            Ok(()) => {}
        }
        let (start, len) = (wanted.l_start as u64, wanted.l_len as u64);
        end = range.start.max(start);
        // A length of 0: up to the end, however long the file is.
        first = Some(end..if len == 0 { range.end } else { range.end.min(start + len) });
    }
    Ok(first)
}

fn lacks_locks(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOLCK | libc::ENOSYS | libc::EOPNOTSUPP))
}

/// `None` if the range is empty or has bytes that no file can have.
fn request(kind: libc::c_int, range: Range<u64>) -> Option<libc::flock> {
    let (start, end) = (libc::off_t::try_from(range.start).ok()?, libc::off_t::try_from(range.end).ok()?);
    (start < end).then_some(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: end - start,
        l_pid: 0,
    })
}

#[expect(unsafe_code, reason = "std has no fcntl")]
fn call(file: &fs::File, command: libc::c_int, request: &mut libc::flock) -> Result<()> {
    // SAFETY: `request` is ours and of the type that these commands read and write; the descriptor is open as long as
    // `file` is borrowed.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, request as *mut libc::flock) } == 0 {
        return Ok(());
    }
    Err(Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_locked_bytes_are_those_of_a_lock_within_the_range() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let open = || fs::File::options().read(true).write(true).open(named.path()).unwrap();
        let (asking, reader, program) = (open(), open(), open());
        assert_eq!(first_locked(&asking, 1..100).unwrap(), None);
        for byte in [50, 5] {
            assert_eq!(lock(&reader, byte, false).unwrap(), Some(true));
        }
        assert_eq!(first_locked(&asking, 1..100).unwrap(), Some(5..6));
        assert_eq!(first_locked(&asking, 6..100).unwrap(), Some(50..51));
        assert_eq!(first_locked(&asking, 6..50).unwrap(), None);
        // A part of the file, and all of it, as programs lock it.
        call(&program, libc::F_OFD_SETLK, &mut request(libc::F_RDLCK, 20..60).unwrap()).unwrap();
        assert_eq!(first_locked(&asking, 6..100).unwrap(), Some(20..60));
        assert_eq!(first_locked(&asking, 30..40).unwrap(), Some(30..40));
        let mut whole = libc::flock { l_len: 0, ..request(libc::F_RDLCK, 0..1).unwrap() };
        call(&program, libc::F_OFD_SETLK, &mut whole).unwrap();
        assert_eq!(first_locked(&asking, 6..100).unwrap(), Some(6..100));
    }
}
