//! The bytes of some pages, in a mapping or copied: what a search reads from.
//!
//! ```text
//! mapped   the window over the whole file (io/window.rs), whose bytes are compared in at
//! copied   pages that were read with `pread`, or a block that was decompressed
//! ```
//!
//! Records may cross page borders; a [`Location`] knows its page, so that a walk need not divide by the length of a
//! page. If the window has failed, every result is `None`. Not here: which pages may be accessed (`pages.rs`).

use crate::dictionary::format::layout::Layout;
use crate::dictionary::format::{page, record};
use crate::io::{Records, Window};
use std::ops::Range;

/// Bytes prefetched at a time, before they are compared or copied.
const TOUCHED_MAX: u64 = 4096;
/// Pages whose heads are prefetched at a time.
const TOUCHED_PAGES_MAX: usize = 2;

/// A location in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub page: u64,
    /// The offset within the body of the page.
    pub within: u64,
}

/// Several pages whose checksums were correct. Small, and passed by value.
pub(crate) struct PageSource<'p, W: Window + ?Sized> {
    pub window: &'p W,
    pub page_bytes: u64,
    /// Bytes of a page before its body.
    pub head: u64,
    /// The end of the accessible part of the stream.
    pub end: u64,
}

impl<W: Window + ?Sized> Clone for PageSource<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Window + ?Sized> Copy for PageSource<'_, W> {}

impl<'p> PageSource<'p, Copied<'p>> {
    /// The records of a block, which have one page for themselves.
    pub fn of_block(copied: &'p Copied<'p>) -> Self {
        let bytes = copied.bytes.len() as u64;
        PageSource { window: copied, page_bytes: bytes, head: 0, end: bytes }
    }
}

impl<W: Window + ?Sized> PageSource<'_, W> {
    pub fn body(&self) -> u64 {
        self.page_bytes - self.head
    }

    fn offset(&self, at: Location) -> u64 {
        at.page * self.body() + at.within
    }

    #[inline]
    pub fn forward(&self, at: Location, bytes: u64) -> Location {
        let within = at.within + bytes;
        if within < self.body() {
            return Location { within, ..at };
        }
        Location { page: at.page + within / self.body(), within: within % self.body() }
    }

    /// The number of accessible bytes from `at` on.
    pub fn left(&self, at: Location) -> u64 {
        self.end.saturating_sub(self.offset(at))
    }

    /// The offset of `at` in the file. Pages in a window have addresses in memory, so nothing overflows.
    #[inline]
    pub fn in_file(&self, at: Location) -> usize {
        ((at.page + 1) * self.page_bytes + self.head + at.within) as usize
    }

    /// Calls `part` for each page's part of the `bytes` bytes from `at` on, with its offset in the file and its
    /// range among the bytes. Stops if that returns `None`.
    #[inline(always)] // 46 instructions for each value
    fn parts(&self, at: Location, bytes: u64, mut part: impl FnMut(usize, Range<usize>) -> Option<()>) -> Option<()> {
        let here = self.body() - at.within;
        if bytes <= here {
            return part(self.in_file(at), 0..bytes as usize);
        }
        let (mut at, mut done) = (at, 0);
        while done < bytes {
            let here = (self.body() - at.within).min(bytes - done);
            part(self.in_file(at), done as usize..(done + here) as usize)?;
            at = Location { page: at.page + 1, within: 0 };
            done += here;
        }
        Some(())
    }

    /// The starts of cells in the body of page `page`.
    #[inline]
    pub fn starts(&self, page: u64) -> Option<Starts> {
        if self.head == 0 {
            return Some(Starts::OF_BLOCK);
        }
        let mut head = [0; HEAD_BYTES];
        let copied = self.window.copy(self.in_file(Location { page, within: 0 }) - self.head as usize, &mut head);
        copied.then(|| Starts::of(&head, self.body() as usize))
    }

    pub fn copy(&self, at: Location, to: &mut [u8]) -> Option<()> {
        self.parts(at, to.len() as u64, |at, range| self.window.copy(at, &mut to[range]).then_some(()))
    }

    /// The key of `key_len` bytes (at most 16) at `at`, followed by the bytes after it.
    #[inline]
    pub fn short_key(&self, at: Location, key_len: u64) -> Option<[u8; 16]> {
        if at.within + key_len <= self.body()
            && let Some(bytes) = self.window.first_16(self.in_file(at))
        {
            return Some(bytes);
        }
        let mut key = [0; 16];
        self.copy(at, &mut key[..key_len as usize])?;
        Some(key)
    }

    #[inline]
    pub fn has(&self, at: Location, bytes: &[u8]) -> Option<bool> {
        let mut equal = true;
        self.parts(at, bytes.len() as u64, |at, range| {
            equal = equal && self.window.has(at, &bytes[range])?;
            Some(())
        })?;
        Some(equal)
    }

    /// The number of stream bytes in page `page`.
    #[inline]
    pub fn body_of(&self, page: u64) -> u64 {
        self.end.saturating_sub(page * self.body()).min(self.body())
    }

    /// The number of bytes before the key, of the key and of the value of the record of varying size at `at`, if the
    /// lengths end before the pages do. Bytes after the stream count as zeros.
    #[inline]
    pub fn lengths(&self, at: Location) -> Option<Option<(u64, u64, u64)>> {
        if at.within + 16 <= self.body() {
            let bytes = self.window.first_16(self.in_file(at))?;
            if (bytes[0] | bytes[1]) < 0x80 {
                // Each is a varint of one byte.
                return Some(Some((2, bytes[0].into(), bytes[1].into())));
            }
        }
        self.long_lengths(at)
    }

    #[inline(never)]
    fn long_lengths(&self, at: Location) -> Option<Option<(u64, u64, u64)>> {
        let mut bytes = [0; record::HEAD_BYTES_MAX];
        let there = self.left(at).min(bytes.len() as u64) as usize;
        self.copy(at, &mut bytes[..there])?;
        let lengths = record::lengths(Layout::Varied, &bytes[..there]);
        Some(lengths.map(|(head, key_len, value_len)| (head as u64, key_len as u64, value_len as u64)))
    }

    /// The first record from `at` on that may have the key of `prefix`, if it begins before byte `to` of `page`. Skips
    /// records of varying size whose first 16 bytes tell that they have another key.
    #[inline]
    pub fn skip(&self, mut at: Location, page: u64, to: u64, prefix: &Prefix) -> Option<Option<Location>> {
        if at.page != page {
            return Some(None);
        }
        let start = self.in_file(Location { page, within: 0 });
        let last = to.min(self.body().saturating_sub(15));
        while at.within < last {
            let bytes = self.window.first_16(start + at.within as usize)?;
            if (bytes[0] | bytes[1]) >= 0x80 || (u128::from_le_bytes(bytes) ^ prefix.bytes) & prefix.mask == 0 {
                break;
            }
            at.within += 2 + u64::from(bytes[0]) + u64::from(bytes[1]);
        }
        Some((at.within < to).then_some(at))
    }

    /// The location of the first record that begins with `key`, among `count` records of `bytes` each from `at` on.
    #[inline(always)] // 55 instructions for each lookup
    pub fn find(&self, at: Location, count: u64, bytes: u64, key: &[u8]) -> Option<Option<Location>> {
        if count == 0 {
            return Some(None);
        }
        if count * bytes > self.body() - at.within {
            return self.find_across(at, count, bytes, key);
        }
        let records = Records { from: self.in_file(at), count: count as usize, bytes: bytes as usize };
        let found = self.window.find(records, key)?;
        Some(found.map(|number| self.forward(at, number as u64 * bytes)))
    }

    /// [`find`](Self::find) for records in more than one page.
    fn find_across(&self, mut at: Location, mut count: u64, bytes: u64, key: &[u8]) -> Option<Option<Location>> {
        while count > 0 {
            let here = ((self.body() - at.within) / bytes).min(count);
            let records = Records { from: self.in_file(at), count: here as usize, bytes: bytes as usize };
            if let Some(number) = self.window.find(records, key)? {
                return Some(Some(self.forward(at, number as u64 * bytes)));
            }
            at = self.forward(at, here * bytes);
            count -= here;
            // The next record crosses the border between two pages.
            if count > 0 {
                if self.has(at, key)? {
                    return Some(Some(at));
                }
                at = self.forward(at, bytes);
                count -= 1;
            }
        }
        Some(None)
    }

    /// Prefetches the bytes from `at` on into the processor's cache, as far as they are in its page and the next.
    #[inline]
    pub fn touch(&self, at: Location, bytes: u64) {
        let bytes = bytes.min(TOUCHED_MAX);
        // The next page's body starts a few bytes later, but one cache line more or less does not matter.
        let at = self.in_file(at);
        self.window.prefetch(at..at + bytes as usize);
    }

    /// Prefetches the heads of `pages`, if they have starts, into the processor's cache.
    #[inline]
    pub fn touch_heads(&self, pages: &Range<u64>) {
        if self.head == HEAD_BYTES as u64 {
            for page in pages.clone().take(TOUCHED_PAGES_MAX) {
                let body = self.in_file(Location { page, within: 0 });
                self.window.prefetch(body - self.head as usize..body);
            }
        }
    }

    /// Appends the `bytes` bytes from `at` on to `to`.
    #[inline]
    pub fn append(&self, at: Location, bytes: u64, to: &mut Vec<u8>) -> Option<()> {
        self.parts(at, bytes, |at, range| self.window.append(at, range.len(), to).then_some(()))
    }
}

/// The first 16 bytes of a record of varying size with some key, if its lengths are below 128.
pub(crate) struct Prefix {
    bytes: u128,
    /// The bits that depend on the key.
    mask: u128,
}

impl Prefix {
    pub fn of(key: &[u8]) -> Prefix {
        let (mut bytes, mut mask) = ([0; 16], [0; 16]);
        let known = key.len().min(14);
        (bytes[0], mask[0]) = (key.len().min(0xFF) as u8, 0xFF);
        bytes[2..2 + known].copy_from_slice(&key[..known]);
        mask[2..2 + known].fill(0xFF);
        Prefix { bytes: u128::from_le_bytes(bytes), mask: u128::from_le_bytes(mask) }
    }
}

/// Bytes of a file that were copied: those from offset `from` on.
pub(crate) struct Copied<'b> {
    bytes: &'b [u8],
    from: usize,
}

impl<'b> Copied<'b> {
    /// Pages, the first of them at `from` in the file.
    pub fn pages(bytes: &'b [u8], from: usize) -> Self {
        Copied { bytes, from }
    }

    /// The bytes of a block, after a header of the same length as any file's first page.
    pub fn block(bytes: &'b [u8]) -> Self {
        Copied { bytes, from: bytes.len() }
    }

    #[inline]
    fn get(&self, from: usize, count: usize) -> Option<&'b [u8]> {
        // An empty value at the end of the last page is at the start of the next one.
        if count == 0 { Some(&[]) } else { self.bytes.get(from.wrapping_sub(self.from)..)?.get(..count) }
    }
}

impl Window for Copied<'_> {
    #[inline]
    fn copy(&self, from: usize, to: &mut [u8]) -> bool {
        self.get(from, to.len()).map(|bytes| to.copy_from_slice(bytes)).is_some()
    }

    #[inline]
    fn first_16(&self, from: usize) -> Option<[u8; 16]> {
        self.get(from, 16)?.first_chunk().copied()
    }

    #[inline]
    fn append(&self, from: usize, count: usize, to: &mut Vec<u8>) -> bool {
        self.get(from, count).map(|bytes| to.extend_from_slice(bytes)).is_some()
    }

    #[inline]
    fn has(&self, from: usize, bytes: &[u8]) -> Option<bool> {
        self.get(from, bytes.len()).map(|own| own == bytes)
    }

    #[inline]
    fn find(&self, records: Records, key: &[u8]) -> Option<Option<usize>> {
        let all = self.get(records.from, records.count.checked_mul(records.bytes)?)?;
        let mut records = all.chunks_exact(records.bytes);
        // Keys with equal beginnings usually differ at the end, so the end is compared first.
        Some(match key.split_last_chunk::<8>() {
            Some((head, last)) => records
                .position(|record| record[head.len()..].first_chunk() == Some(last) && record[..head.len()] == *head),
            None => records.position(|record| record.starts_with(key)),
        })
    }

    #[inline]
    fn prefetch(&self, _bytes: Range<usize>) {}
}

/// Bytes of the head of a page that has starts.
const HEAD_BYTES: usize = page::CHECKSUM_BYTES + 2 * page::START_COUNT;

/// The starts of cells in a page's body.
pub(crate) struct Starts {
    starts: [u16; page::START_COUNT],
    count: usize,
}

impl Starts {
    /// A block begins with a record.
    const OF_BLOCK: Starts = Starts { starts: [0; page::START_COUNT], count: 1 };

    #[inline]
    fn of(head: &[u8; HEAD_BYTES], body: usize) -> Starts {
        let mut starts = Starts { starts: [0; page::START_COUNT], count: 0 };
        let mut least = 0;
        for number in 0..page::START_COUNT {
            let Some(start) = page::start(head, number).filter(|start| *start < body) else { break };
            // Below the bytes of a page, which are at most 65,536. A start that does not ascend is overwritten by the
            // next.
            starts.starts[starts.count] = start as u16;
            starts.count += usize::from(start >= least);
            least = least.max(start + 1);
        }
        starts
    }

    #[inline]
    pub fn list(&self) -> &[u16] {
        &self.starts[..self.count]
    }
}
