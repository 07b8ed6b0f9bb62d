//! Pages in a window, accessed in place.
//!
//! Records may cross page borders; a [`Place`] knows its page, so that a walk need not divide by the length of a page.
//! If the window has failed, every result is `None`. Not here: which pages may be accessed (`pages.rs`).

use crate::dictionary::format::layout::Layout;
use crate::dictionary::format::record;
use crate::io::{Records, Window};
use std::ops::Range;

/// Bytes prefetched at a time, before they are compared or copied.
const TOUCHED_MAX: u64 = 4096;

/// A location in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub page: u64,
    /// The offset within the body of the page.
    pub within: u64,
}

/// Several pages that are mapped and checked.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'p> {
    pub window: &'p dyn Window,
    pub page_bytes: u64,
    /// Bytes of a page before its body.
    pub head: u64,
    /// The end of the accessible part of the stream.
    pub end: u64,
}

impl Mapped<'_> {
    pub fn body(&self) -> u64 {
        self.page_bytes - self.head
    }

    fn offset(&self, place: Place) -> u64 {
        place.page * self.body() + place.within
    }

    #[inline]
    pub fn forward(&self, place: Place, bytes: u64) -> Place {
        let within = place.within + bytes;
        if within < self.body() {
            return Place { within, ..place };
        }
        Place { page: place.page + within / self.body(), within: within % self.body() }
    }

    /// The number of accessible bytes from `place` on.
    pub fn left(&self, place: Place) -> u64 {
        self.end.saturating_sub(self.offset(place))
    }

    /// The offset of `place` in the file. Pages in a window have addresses in memory, so nothing overflows.
    #[inline]
    pub fn in_file(&self, place: Place) -> usize {
        ((place.page + 1) * self.page_bytes + self.head + place.within) as usize
    }

    /// Calls `part` for each page's part of the `bytes` bytes from `place` on, with its offset in the file and its
    /// range among the bytes. Stops if that returns `None`.
    #[inline]
    fn parts(&self, place: Place, bytes: u64, mut part: impl FnMut(usize, Range<usize>) -> Option<()>) -> Option<()> {
        let here = self.body() - place.within;
        if bytes <= here {
            return part(self.in_file(place), 0..bytes as usize);
        }
        let (mut place, mut done) = (place, 0);
        while done < bytes {
            let here = (self.body() - place.within).min(bytes - done);
            part(self.in_file(place), done as usize..(done + here) as usize)?;
            place = Place { page: place.page + 1, within: 0 };
            done += here;
        }
        Some(())
    }

    pub fn copy(&self, place: Place, to: &mut [u8]) -> Option<()> {
        self.parts(place, to.len() as u64, |at, range| self.window.copy(at, &mut to[range]).then_some(()))
    }

    /// The key of `key_len` bytes (at most 16) at `place`, followed by the bytes after it.
    #[inline]
    pub fn short_key(&self, place: Place, key_len: u64) -> Option<[u8; 16]> {
        if place.within + key_len <= self.body()
            && let Some(bytes) = self.window.first_16(self.in_file(place))
        {
            return Some(bytes);
        }
        let mut key = [0; 16];
        self.copy(place, &mut key[..key_len as usize])?;
        Some(key)
    }

    pub fn has(&self, place: Place, bytes: &[u8]) -> Option<bool> {
        let mut equal = true;
        self.parts(place, bytes.len() as u64, |at, range| {
            equal = equal && self.window.has(at, &bytes[range])?;
            Some(())
        })?;
        Some(equal)
    }

    /// The number of bytes before the key, of the key and of the value of the record at `place`, if the lengths end
    /// before the pages do.
    #[inline]
    pub fn lengths(&self, layout: Layout, place: Place) -> Option<Option<(u64, u64, u64)>> {
        let mut bytes = [0; 16];
        let there = self.left(place).min(record::HEAD_BYTES_MAX as u64) as usize;
        if place.within + 16 <= self.body() {
            bytes = self.window.first_16(self.in_file(place))?;
        } else {
            self.copy(place, &mut bytes[..there])?;
        }
        let lengths = record::lengths(layout, &bytes[..there]);
        Some(lengths.map(|(head, key_len, value_len)| (head as u64, key_len as u64, value_len as u64)))
    }

    /// The location of the first record that begins with `key`, among `count` records of `bytes` each from `place` on.
    #[inline]
    pub fn find(&self, place: Place, count: u64, bytes: u64, key: &[u8]) -> Option<Option<Place>> {
        if count * bytes > self.body() - place.within {
            return self.find_across(place, count, bytes, key);
        }
        let records = Records { from: self.in_file(place), count: count as usize, bytes: bytes as usize };
        let found = self.window.find(records, key)?;
        Some(found.map(|number| self.forward(place, number as u64 * bytes)))
    }

    /// [`find`](Self::find) for records in more than one page.
    fn find_across(&self, mut place: Place, mut count: u64, bytes: u64, key: &[u8]) -> Option<Option<Place>> {
        while count > 0 {
            let here = ((self.body() - place.within) / bytes).min(count);
            let records = Records { from: self.in_file(place), count: here as usize, bytes: bytes as usize };
            if let Some(number) = self.window.find(records, key)? {
                return Some(Some(self.forward(place, number as u64 * bytes)));
            }
            place = self.forward(place, here * bytes);
            count -= here;
            // The next record crosses the border between two pages.
            if count > 0 {
                if self.has(place, key)? {
                    return Some(Some(place));
                }
                place = self.forward(place, bytes);
                count -= 1;
            }
        }
        Some(None)
    }

    /// Prefetches the bytes from `place` on into the processor's cache, as far as they are in its page and the next.
    #[inline]
    pub fn touch(&self, place: Place, bytes: u64) {
        let bytes = bytes.min(TOUCHED_MAX);
        // The next page's body starts a few bytes later, but one cache line more or less does not matter.
        let at = self.in_file(place);
        self.window.prefetch(at..at + bytes as usize);
    }

    /// Appends the `bytes` bytes from `place` on to `to`.
    #[inline]
    pub fn append(&self, place: Place, bytes: u64, to: &mut Vec<u8>) -> Option<()> {
        self.parts(place, bytes, |at, range| self.window.append(at, range.len(), to).then_some(()))
    }
}
