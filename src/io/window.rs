//! Files mapped for reading, in which an unreadable page is an error and not a signal.
//!
//! For dictionaries, which are written once and never changed in place, and for the frames of a table that is larger
//! than its cache; writes of this process show in that mapping, too. The mapping is a [`Guarded`] one: if the disk
//! fails or another program truncates the file, the access reads zeros and the window has failed for good. The caller
//! then reads with [`File::read_at`](super::File::read_at), which returns the error or the bytes.
//!
//! Bytes are copied or compared and never borrowed, as they can become zeros at any moment; `racing.rs` does this.
//! Not here: words that are borrowed from a mapping (`view.rs`).
#![expect(unsafe_code, reason = "loads from a mapping")]
#![expect(clippy::disallowed_types, reason = "the seam: beside real.rs, the operating system's side of it")]

use super::guard::Guarded;
use super::memory_limit::memory_bytes;
use super::{Records, Window};
use crate::racing;
use std::fs;
use std::io::Result;
use std::ops::Range;
use std::os::fd::AsRawFd;

struct FileWindow(Guarded);

/// Maps all bytes of `file`; `None` if it is empty or cannot be mapped.
pub(super) fn window(file: &fs::File) -> Result<Option<Box<dyn Window>>> {
    let Ok(bytes) = usize::try_from(file.metadata()?.len()) else { return Ok(None) };
    Ok(if bytes == 0 { None } else { window_from(file, 0, bytes) })
}

/// Maps `bytes` bytes of `file` from `offset` on; `None` if they cannot be mapped.
pub(super) fn window_from(file: &fs::File, offset: u64, bytes: usize) -> Option<Box<dyn Window>> {
    Guarded::map_for_reading(file, offset, bytes).map(|map| Box::new(FileWindow(map)) as Box<dyn Window>)
}

/// Whether lookups are faster through a window than with calls, and no less safe: the file is on a disk of this machine
/// and no larger than half of its memory. A larger file is mostly not in memory; then a call reads two neighbouring
/// pages in one disk request, where a window needs two.
pub(super) fn window_pays(file: &fs::File) -> Result<bool> {
    Ok(file.metadata()?.len() <= memory_bytes() / 2 && is_local(file))
}

/// Whether the file system is none of those that other machines can change, or that a user process serves.
pub(super) fn is_local(file: &fs::File) -> bool {
    // NFS, SMB, CIFS, SMB 2, FUSE and virtiofs, 9P, Ceph, AFS twice, Lustre, GFS2, OCFS2, Coda, NCP, GPFS, BeeGFS,
    // OrangeFS, VirtualBox, PanFS: f_type of statfs(2) and the kernel's magic.h.
    const SHARED: [u32; 20] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x6573_5546,
        0x0102_1997,
        0x00c3_6400,
        0x5346_414f,
        0x6b41_4653,
        0x0bd0_0bd0,
        0x0116_1970,
        0x7461_636f,
        0x7375_7245,
        0x564c,
        0x4750_4653,
        0x1983_0326,
        0x2003_0528,
        0x786f_4256,
        0xaad7_aaea,
        0x0bd0_0bd1,
    ];
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `found` is ours and as long as the call expects, and the descriptor is open as long as `file` is
    // borrowed.
    if unsafe { libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: zeros are a legal statfs, and the call has filled it in.
    let found = unsafe { found.assume_init() };
    !SHARED.contains(&(found.f_type as u32))
}

impl FileWindow {
    /// The address of the `count` bytes from `from` on, if the file has them.
    #[inline]
    fn at(&self, from: usize, count: usize) -> Option<*const u8> {
        let there = from <= self.0.bytes && count <= self.0.bytes - from;
        there.then(|| self.0.start.wrapping_add(from).cast_const())
    }
}

impl Window for FileWindow {
    #[inline]
    fn copy(&self, from: usize, to: &mut [u8]) -> bool {
        let Some(start) = self.at(from, to.len()) else { return false };
        // SAFETY: the range lies in the mapping (`at`), which begins at a page and has whole words to the end of its
        // last one; `to` is borrowed, so only this thread accesses it.
        unsafe { racing::copy_out(start, to.as_mut_ptr(), to.len()) };
        !self.0.failed()
    }

    #[inline]
    fn first_16(&self, from: usize) -> Option<[u8; 16]> {
        let start = self.at(from, 16)?;
        // SAFETY: the range lies in the mapping (`at`).
        let bytes = unsafe { racing::load16(start) }.to_le_bytes();
        if self.0.failed() { None } else { Some(bytes) }
    }

    fn append(&self, from: usize, count: usize, to: &mut Vec<u8>) -> bool {
        let Some(start) = self.at(from, count) else { return false };
        let before = to.len();
        // A short value is copied as a whole word if the file has one there; the extra bytes are ignored.
        let copied = if self.at(from, WORD_BYTES).is_some() { count.max(WORD_BYTES) } else { count };
        to.reserve(copied);
        // SAFETY: as in `copy`; the vector has room for `copied` bytes after its own, just reserved.
        unsafe { racing::copy_out(start, to.spare_capacity_mut().as_mut_ptr().cast(), copied) };
        if self.0.failed() {
            return false;
        }
        // SAFETY: there is room for them, and they have been written.
        unsafe { to.set_len(before + count) };
        true
    }

    fn has(&self, from: usize, bytes: &[u8]) -> Option<bool> {
        let start = self.at(from, bytes.len())?;
        // SAFETY: the range lies in the mapping (`at`).
        let equal = unsafe { is_equal(start, bytes) };
        if self.0.failed() { None } else { Some(equal) }
    }

    fn find(&self, records: Records, key: &[u8]) -> Option<Option<usize>> {
        let Records { from, count, bytes } = records;
        // A whole word is loaded for a shorter key, too.
        let loaded = count.checked_mul(bytes)?.checked_add(WORD_BYTES)?;
        let start = self.at(from, loaded).filter(|_| key.len() <= bytes)?;
        // Keys with equal beginnings usually differ at the end, so the end is compared first.
        let found = if let (8 | 16, Some((_, last))) = (count, key.split_last_chunk()) {
            let tail = key.len() - WORD_BYTES;
            let wanted = u64::from_le_bytes(*last);
            let of_8 = |first: usize| {
                let from = start.wrapping_add(first * bytes + tail);
                // SAFETY: `tail` is within the record, and the mapping has a word after the last one.
                unsafe { racing::equal_of_8(from, bytes, wanted, u64::MAX) }
            };
            let equal = if count == 16 { of_8(8) << 16 | of_8(0) } else { of_8(0) };
            // SAFETY: the records are in the mapping, and the key is no longer than one.
            unsafe { first_of(equal.into(), start, bytes, &key[..tail.next_multiple_of(WORD_BYTES)]) }
        } else {
            // SAFETY: as above.
            unsafe { find_among(start, count, bytes, key) }
        };
        if self.0.failed() { None } else { Some(found) }
    }

    #[inline]
    fn prefetch(&self, bytes: Range<usize>) {
        // From the first byte in equal steps, then the last byte: the number of steps depends only on the length, so
        // that the processor predicts it.
        let Some(last) = bytes.end.min(self.0.bytes).checked_sub(1) else { return };
        for at in (bytes.start..last).step_by(LINE_BYTES) {
            racing::prefetch(self.0.start.wrapping_add(at));
        }
        racing::prefetch(self.0.start.wrapping_add(last));
    }
}

const WORD_BYTES: usize = 8;
const LINE_BYTES: usize = 64;

/// Words compared before a branch depends on any of them. Comparing more at once would load lines after the record,
/// too.
const COMPARED_AT_ONCE: usize = 8;

/// The number of the first of `count` records of `bytes` each that begins with `key`.
///
/// # Safety
/// The records are in a mapping with a word after them, and `key` is no longer than a record.
#[inline(never)]
unsafe fn find_among(start: *const u8, count: usize, bytes: usize, key: &[u8]) -> Option<usize> {
    let tail = key.len().saturating_sub(WORD_BYTES);
    let (wanted, mask) = match key.last_chunk() {
        Some(last) => (u64::from_le_bytes(*last), u64::MAX),
        None => {
            let word = key.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            (word, (1 << (8 * key.len())) - 1)
        }
    };
    let mut first = 0;
    while first < count {
        let from = start.wrapping_add(first * bytes);
        // SAFETY: the caller's promise; `tail` is within the record.
        let equal =
            unsafe { equal_words(from.wrapping_add(tail), bytes, (count - first).min(COMPARED_AT_ONCE), wanted, mask) };
        // SAFETY: the caller's promise.
        if let Some(number) = unsafe { first_of(equal, from, bytes, &key[..tail.next_multiple_of(WORD_BYTES)]) } {
            return Some(first + number);
        }
        first += COMPARED_AT_ONCE;
    }
    None
}

/// Finds which of `count` words (at most 8), `stride` bytes apart, equal `wanted` in the bits of `mask`. Sets bit `2 *
/// i` for word `i`.
///
/// # Safety
/// The words are in a mapping.
#[inline]
unsafe fn equal_words(first: *const u8, stride: usize, count: usize, wanted: u64, mask: u64) -> u64 {
    let at = |number: usize| first.wrapping_add(number * stride);
    let mut equal = 0;
    for eight in 0..count / 8 {
        // SAFETY: as the caller promises.
        let found = unsafe { racing::equal_of_8(at(8 * eight), stride, wanted, mask) };
        equal |= u64::from(found) << (16 * eight);
    }
    (count & !7..count).fold(equal, |equal, number| {
        // SAFETY: as the caller promises.
        let word = unsafe { racing::load8(at(number)) };
        equal | u64::from((word ^ wanted) & mask == 0) << (2 * number)
    })
}

/// The number of the first record, among those with bit `2 * i` of `equal` set, that begins with `head`: the part of
/// the key not yet compared.
///
/// # Safety
/// The records are in a mapping, the first at `start`, and each is at least as long as `head`.
#[inline(always)]
unsafe fn first_of(equal: u64, start: *const u8, bytes: usize, head: &[u8]) -> Option<usize> {
    let mut equal = equal;
    while equal != 0 {
        let number = equal.trailing_zeros() as usize / 2;
        // SAFETY: as the caller promises.
        if unsafe { is_equal(start.wrapping_add(number * bytes), head) } {
            return Some(number);
        }
        equal &= equal - 1;
    }
    None
}

/// Whether the memory from `start` on equals `bytes`.
///
/// # Safety
/// At least `bytes.len()` bytes of a mapping follow `start`.
#[inline]
unsafe fn is_equal(start: *const u8, bytes: &[u8]) -> bool {
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    let equal = words.iter().enumerate().all(|(number, word)| {
        // SAFETY: the word lies in the range, as the caller promises.
        unsafe { racing::load8(start.add(number * WORD_BYTES)) == u64::from_le_bytes(*word) }
    });
    if !equal || bytes.len().is_multiple_of(WORD_BYTES) {
        return equal;
    }
    if let Some(last) = bytes.last_chunk() {
        // SAFETY: there are at least as many bytes, and these are the last of them.
        return unsafe { racing::load8(start.add(bytes.len() - WORD_BYTES)) == u64::from_le_bytes(*last) };
    }
    // SAFETY: the byte lies in the range, as the caller promises.
    bytes.iter().enumerate().all(|(number, byte)| unsafe { racing::load1(start.add(number)) == *byte })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_window_gives_the_bytes_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        assert!(window(&file).unwrap().is_none());
        let bytes: Vec<u8> = (0..10_001u32).map(|n| (n * 7) as u8).collect();
        file.write_all_at(&bytes, 0).unwrap();
        let window = window(&file).unwrap().unwrap();
        for (from, len) in [(0, 10_001), (1, 0), (10_001, 0), (4090, 12), (9_999, 2), (10_000, 1), (3, 4097)] {
            let mut copied = vec![0; len];
            assert!(window.copy(from, &mut copied));
            assert_eq!(copied, bytes[from..from + len]);
            window.prefetch(from..from + len);
        }
        assert!(!window.copy(10_000, &mut [0; 2]) && !window.copy(usize::MAX, &mut [0]));
    }

    #[test]
    fn a_window_has_what_is_written_to_the_file_later_and_nothing_beyond_its_end() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 8192], 0).unwrap();
        let window = window_from(&file, 4096, 1 << 20).unwrap();
        let mut copied = [0; 4096];
        assert!(window.copy(0, &mut copied) && copied == [1; 4096]);
        file.write_all_at(&[2; 8192], 4096).unwrap();
        for from in [0, 4096] {
            assert!(window.copy(from, &mut copied) && copied == [2; 4096]);
        }
        assert!(!window.copy((1 << 20) - 4095, &mut copied), "behind the mapping");
        assert!(window.copy(100, &mut copied), "nothing was accessed there");
        assert!(!window.copy(8192, &mut copied), "behind the file's end");
        assert!(!window.copy(0, &mut copied), "for good");
    }

    #[test]
    fn a_window_compares_and_appends_as_slices_do() {
        // Records of 1 to 40 bytes with many equal bytes, so that keys differ in one byte only.
        let mut state = 5u64;
        let mut up_to = |greatest: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % (greatest + 1)
        };
        let bytes: Vec<u8> = (0..9000).map(|_| u8::from(up_to(30) == 0)).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let window = window(&file).unwrap().unwrap();
        for _ in 0..3000 {
            let size = 1 + up_to(39);
            let from = up_to(4200);
            let count = up_to(100);
            let key_at = up_to(8900);
            let key = &bytes[key_at..key_at + up_to(size)];
            let records = Records { from, count, bytes: size };
            let expected = bytes[from..].chunks_exact(size).take(count).position(|record| record.starts_with(key));
            assert_eq!(window.find(records, key), Some(expected), "{records:?}, {key:?}");
            assert_eq!(window.has(from, key), Some(bytes[from..].starts_with(key)));
            let mut appended = vec![7];
            assert!(window.append(from, count, &mut appended));
            assert_eq!(appended, [&[7], &bytes[from..from + count]].concat());
        }
        let beyond = Records { from: 8990, count: 1, bytes: 8 };
        assert_eq!((window.find(beyond, b"12345678"), window.has(8999, b"12")), (None, None));
        let longer = Records { from: 0, count: 3, bytes: 8 };
        assert_eq!(window.find(longer, b"123456789"), None, "a key that is longer than a record");
        assert_eq!(window.find(Records { count: usize::MAX, ..longer }, b"1"), None);
        let mut kept = vec![7];
        assert!(!window.append(8990, 11, &mut kept) && kept == [7]);
    }

    #[test]
    fn a_comparison_that_meets_a_cut_page_fails() {
        let make = || {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&[0; 20_000], 0).unwrap();
            let window = window(&file).unwrap().unwrap();
            file.set_len(4096).unwrap();
            window
        };
        // Zeros replace the page, so the bytes searched for would seem to be there.
        assert_eq!(make().has(9000, &[0; 30]), None);
        assert_eq!(make().find(Records { from: 9000, count: 10, bytes: 20 }, &[0; 9]), None);
        let mut kept = vec![7];
        assert!(!make().append(9000, 1000, &mut kept) && kept == [7]);
        assert_eq!(make().has(1000, &[0; 30]), Some(true));
    }

    #[test]
    fn a_window_of_a_file_that_was_cut_fails_for_good_and_no_other_does() {
        let make = || {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&[7; 20_000], 0).unwrap();
            let window = window(&file).unwrap().unwrap();
            (file, window)
        };
        let ((cut, window), (_whole, other)) = (make(), make());
        let mut copied = [0; 100];
        assert!(window.copy(19_000, &mut copied));
        cut.set_len(4096).unwrap();
        assert!(window.copy(4000, &mut copied[..96]));
        assert!(!window.copy(4050, &mut copied));
        cut.set_len(20_000).unwrap();
        assert!(!window.copy(0, &mut copied), "zeros are in place of a page");
        assert!(other.copy(19_000, &mut copied));
        assert_eq!(copied, [7; 100]);
    }
}
