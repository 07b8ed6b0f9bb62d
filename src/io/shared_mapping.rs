//! A file mapped as shared memory: the kernel keeps what was stored there when the process dies.
//!
//! The write-ahead log stores its records this way, at a tenth of the cost of a `write` call (docs/benchmarks.md).
//! Bytes of the file are written once before they are stored to, so they have disk space, and [`Mapped::prepare`] makes
//! the pages ready before the stores, or returns an error. Between that and a store a page can still be lost: to
//! writeback, after which a copy-on-write file system needs new space; to a disk failure; to a program that truncates
//! the file. Then the store returns an error (`guard.rs`).
//!
//! Linux only, as it needs `MADV_POPULATE_WRITE`. Elsewhere, and if the kernel or the file system does not support it,
//! there is no mapping and the log uses `write_at`; tests compare the two.
#![expect(unsafe_code, reason = "mmap")]
#![expect(clippy::disallowed_types, reason = "the seam: beside real.rs, the operating system's side of it")]

use super::Mapped;
use super::guard::{Guarded, page_bytes};
use crate::racing;
use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::ptr;

/// Stores go through a mapping in order, so the cache line this many bytes after a store is prefetched, some records
/// ahead. That line is in no cache, or only in that of the processor that prepared its page. Without the prefetch the
/// writer waits for it at its next atomic operation, which completes only after all earlier stores.
const PREFETCHED_AHEAD: usize = 512;

/// Pages are unmapped in chunks of this many bytes; a multiple of any page size.
const CHUNK_BYTES: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };
/// Chunks before the bytes that are made ready which stay mapped. The log makes up to 8 MiB ready ahead of its writers.
const CHUNKS_MAPPED: usize = 4;

/// Maps the first `bytes` bytes of `file`, which may be shorter but must have a first page.
pub(super) fn map(file: &fs::File, bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
    let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
    if is_exempt_from_copying(file) {
        return Ok(None);
    }
    let Some(map) = Guarded::map(file, bytes) else { return Ok(None) };
    match map.prepare(0, 1) {
        Ok(()) => Ok(Some(Box::new(map))),
        // A kernel before 5.14.
        Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether btrfs overwrites this file in place although it copies others on write (`chattr +C`). On a full disk, a
/// store to a mapping of such a file waited in the kernel for space for as long as there was none (Linux 6.18); a
/// `write` call needs no space.
fn is_exempt_from_copying(file: &fs::File) -> bool {
    const FS_NOCOW_FL: libc::c_long = 0x0080_0000;
    let mut flags: libc::c_long = 0;
    // SAFETY: the call stores an int, some file systems a long, for which `flags` has room.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, ptr::from_mut(&mut flags)) };
    // A file system without flags does not have this one either.
    done == 0 && flags & FS_NOCOW_FL != 0
}

impl Mapped for Guarded {
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let from = from as usize / page_bytes() * page_bytes();
        let to = (to as usize).min(self.bytes);
        if from >= to {
            return Ok(());
        }
        // SAFETY: the range lies in the mapping; populating its pages changes no content.
        if unsafe { libc::madvise(self.start.add(from).cast(), to - from, libc::MADV_POPULATE_WRITE) } == 0 {
            self.unmap_before(from, to);
            return Ok(());
        }
        let error = Error::last_os_error();
        match error.raw_os_error() {
            // A store would have raised SIGBUS.
            Some(libc::EFAULT | libc::EHWPOISON) => Err(Error::new(
                ErrorKind::StorageFull,
                "the pages of the log cannot be made ready: the disk is full, failing, or the file was cut",
            )),
            _ => Err(error),
        }
    }

    fn store(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let offset = offset as usize;
        assert!(offset <= self.bytes && bytes.len() <= self.bytes - offset, "a store beyond the mapping");
        // SAFETY: the range lies in the mapping (asserted), which nothing else in this process reads or makes slices
        // of, and the caller prevents overlapping stores.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len()) };
        racing::prefetch_to_store(self.start.wrapping_add(offset + PREFETCHED_AHEAD));
        if self.failed() { Err(lost_page()) } else { Ok(()) }
    }
}

impl Guarded {
    /// Stores go through a mapping in order, so pages far before those that are made ready are no longer needed here.
    /// The kernel keeps their content; they no longer count as memory of the process.
    fn unmap_before(&self, from: usize, to: usize) {
        for chunk in (from / CHUNK_BYTES..to / CHUNK_BYTES).filter_map(|chunk| chunk.checked_sub(CHUNKS_MAPPED)) {
            // SAFETY: the range lies in the mapping. It is shared, so its pages have what was stored when they are
            // next accessed.
            unsafe { libc::madvise(self.start.add(chunk * CHUNK_BYTES).cast(), CHUNK_BYTES, libc::MADV_DONTNEED) };
        }
    }
}

#[cold]
fn lost_page() -> Error {
    Error::other("a page of the file could not be stored to: the disk is full or failing, or the file was cut")
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
            map.store(at, b"0123456789").unwrap();
            let mut read = [0; 10];
            file.read_exact_at(&mut read, at).unwrap();
            assert_eq!(&read, b"0123456789");
        }
        // Beyond the end of the file there are no pages to populate: an error, not a signal.
        file.set_len(4096).unwrap();
        assert!(map.prepare(50_000, 50_010).is_err());
    }

    #[test]
    fn pages_far_before_the_stores_are_unmapped_and_keep_their_content() {
        const BYTES: usize = 40 * CHUNK_BYTES;
        let file = tempfile::tempfile().unwrap();
        let zeros = vec![0; BYTES];
        file.write_all_at(&zeros, 0).unwrap();
        let Some(map) = Guarded::map(&file, BYTES) else {
            println!("SKIPPED: no mappings here");
            return;
        };
        let mut expected = zeros;
        for start in (0..BYTES).step_by(5000) {
            let end = (start + 5000).min(BYTES);
            map.prepare(start as u64, end as u64).unwrap();
            let bytes = vec![(start / 5000 + 1) as u8; end - start];
            map.store(start as u64, &bytes).unwrap();
            expected[start..end].copy_from_slice(&bytes);
        }
        let resident = resident_bytes_at(map.start as usize);
        assert!(resident <= (CHUNKS_MAPPED + 2) * CHUNK_BYTES, "{resident} bytes are mapped");
        // A page that is unmapped can still be stored to.
        map.store(10, b"late").unwrap();
        expected[10..14].copy_from_slice(b"late");
        let mut found = vec![0; BYTES];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found == expected);
    }

    /// Returns the resident bytes of this process's mapping that begins at `address`.
    #[expect(clippy::disallowed_methods, reason = "the kernel's file about this process, which is in no storage")]
    fn resident_bytes_at(address: usize) -> usize {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.starts_with(&format!("{address:x}-")));
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).expect("the mapping is listed");
        line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn a_store_to_a_page_that_is_gone_is_an_error_and_so_is_every_later_one() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(100_000).unwrap();
        let (Some(cut), Some(whole)) = (map(&file, 100_000).unwrap(), map(&file, 100_000).unwrap()) else {
            println!("SKIPPED: no mappings here");
            return;
        };
        cut.prepare(0, 100_000).unwrap();
        cut.store(0, b"before").unwrap();
        file.set_len(4096).unwrap();
        // Across several pages, of which the first exists.
        assert!(cut.store(4000, &[7; 20_000]).is_err());
        assert!(cut.store(90_000, b"again").is_err());
        assert!(cut.store(10, b"in the page that is there").is_err());
        // The other mapping touched no missing page; what was stored there before is in the file.
        whole.store(20, b"whole").unwrap();
        let mut read = [0; 6];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"before");
        drop(cut);
        // Its entry in the table of mappings is free, and the next mapping to use it starts with a clear flag.
        let next = map(&file, 4096).unwrap().unwrap();
        next.store(0, b"next").unwrap();
    }

    #[test]
    fn faults_of_many_threads_reach_the_mapping_each_was_in() {
        std::thread::scope(|scope| {
            for n in 0..4 {
                scope.spawn(move || {
                    let file = tempfile::tempfile().unwrap();
                    for round in 0..300 {
                        file.set_len(64 << 12).unwrap();
                        let Some(map) = map(&file, 64 << 12).unwrap() else { return };
                        let cut = (n + round) % 2 == 0;
                        file.set_len(if cut { 1 << 12 } else { 64 << 12 }).unwrap();
                        let stored = map.store((round % 60) << 12, &[1; 8192]);
                        assert_eq!(stored.is_err(), cut, "thread {n}, round {round}");
                    }
                });
            }
        });
    }
}
