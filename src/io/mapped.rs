//! A file's bytes as shared memory: what is stored there the kernel has, whatever becomes of the process.
//!
//! The write-ahead log stores its records this way, at a tenth of what a `write` call costs (docs/benchmarks.md). Bytes
//! of the file are written once before they are stored to, so they have room on the disk, and [`Mapped::prepare`] lets the
//! kernel make the pages ready and say so if it cannot: a store into a page that is not to be had would be a signal. Linux only, as that needs
//! `MADV_POPULATE_WRITE`; elsewhere, and where the kernel or the file system has no such thing, there is no mapping and
//! the log writes with `write_at`, which tests compare this with.
#![expect(unsafe_code, reason = "mmap")]
#![expect(clippy::disallowed_types, reason = "the seam: beside real.rs, the operating system's side of it")]

use super::Mapped;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::ptr;

/// A mapping of the start of a file, undone when dropped.
struct FileMap {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a FileMap is a range of memory; `store` asks its callers to keep apart, and nothing reads it.
unsafe impl Send for FileMap {}
// SAFETY: as above.
unsafe impl Sync for FileMap {}

const PAGE_BYTES: usize = 4096;

/// Maps the first `bytes` bytes of `file`, which may be shorter but has a first page.
pub(super) fn map(file: &fs::File, bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
    let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
    // SAFETY: a fresh mapping at an address the kernel picks touches nothing that exists.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Ok(None);
    }
    let map = FileMap { start: start.cast(), bytes };
    match map.prepare(0, PAGE_BYTES as u64) {
        Ok(()) => Ok(Some(Box::new(map))),
        // A kernel before 5.14.
        Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(e),
    }
}

impl Mapped for FileMap {
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let from = from as usize / PAGE_BYTES * PAGE_BYTES;
        let to = (to as usize).next_multiple_of(PAGE_BYTES).min(self.bytes);
        if from >= to {
            return Ok(());
        }
        // SAFETY: the range lies in the mapping; making its pages ready changes no content.
        if unsafe { libc::madvise(self.start.add(from).cast(), to - from, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            // What a store would have been a SIGBUS for.
            Some(libc::EFAULT | libc::EHWPOISON) => Err(Error::new(
                ErrorKind::StorageFull,
                "the pages of the log cannot be made ready: the disk is full, failing, or the file was cut",
            )),
            _ => Err(error),
        }
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        assert!(offset <= self.bytes && bytes.len() <= self.bytes - offset, "a store beyond the mapping");
        // SAFETY: the range lies in the mapping (asserted), which nothing else in this process reads or makes slices of,
        // and the caller lets no two stores meet.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len()) };
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: `start` and `bytes` are those of a mapping made in `map`, unmapped once, here.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_stored_is_what_a_read_of_the_file_gives() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100_000).unwrap();
        let Some(map) = map(&file, 100_000).unwrap() else {
            println!("SKIPPED: no mappings here");
            return;
        };
        map.prepare(8000, 9000).unwrap();
        for at in [0, 4090, 99_990] {
            map.store(at, b"0123456789");
            let mut read = [0; 10];
            file.read_exact_at(&mut read, at).unwrap();
            assert_eq!(&read, b"0123456789");
        }
        // Beyond the end of the file there is nothing to be made ready, which is an error and no signal.
        file.set_len(4096).unwrap();
        assert!(map.prepare(50_000, 50_010).is_err());
    }
}
