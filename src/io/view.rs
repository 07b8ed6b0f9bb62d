//! Files mapped for reading.
//!
//! For files that are written once and never changed in place, such as dictionaries, whose parts are borrowed as
//! slices, such as an index. If another process truncates such a file, or the disk fails, reading the mapping raises a
//! signal. To get an error instead, copy from a window (`window.rs`), or read with
//! [`File::read_at`](super::File::read_at).
#![expect(unsafe_code, reason = "mmap")]
#![expect(clippy::disallowed_types, reason = "the seam: beside real.rs, the operating system's side of it")]

use super::View;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::{ptr, slice};

/// A mapping of a whole file, unmapped when dropped.
struct FileView {
    start: *const u8,
    bytes: usize,
}

// SAFETY: a FileView is a range of memory that is only read.
unsafe impl Send for FileView {}
// SAFETY: as for Send.
unsafe impl Sync for FileView {}

/// Maps all bytes of `file`; `None` if it is empty or cannot be mapped.
pub(super) fn view(file: &fs::File) -> Result<Option<Box<dyn View>>> {
    let bytes = usize::try_from(file.metadata()?.len()).map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
    if bytes == 0 {
        return Ok(None);
    }
    // SAFETY: a fresh mapping at an address the kernel picks touches nothing that exists.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return match Error::last_os_error() {
            // No address space (`ulimit -v`).
            e if e.kind() == ErrorKind::OutOfMemory => Ok(None),
            e => Err(e),
        };
    }
    Ok(Some(Box::new(FileView { start: start.cast(), bytes })))
}

impl View for FileView {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `bytes` readable bytes and lives as long as `self`; the file is never written to
        // (head of this file), so they do not change.
        unsafe { slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for FileView {
    fn drop(&mut self) {
        // SAFETY: `start` and `bytes` are those of a mapping made in `view`, unmapped once, here.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_view_has_the_bytes_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        assert!(view(&file).unwrap().is_none());
        file.write_all_at(&[7; 10_000], 0).unwrap();
        let view = view(&file).unwrap().unwrap();
        assert_eq!(view.bytes(), [7; 10_000]);
    }
}
