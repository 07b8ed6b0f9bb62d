//! Pages in a window, accessed where they lie.
//!
//! Records may lie across pages; a [`Place`] knows its page, so that a walk need not divide by the length of a page.
//! Wherever the window has failed the answer is `None`. Not here: which pages may be accessed (`pages.rs`).

use crate::dictionary::format::layout::Layout;
use crate::dictionary::format::record;
use crate::io::{Records, Window};
use std::ops::Range;

/// Bytes that are brought into the processor's cache at once, before they are compared or copied.
const TOUCHED_MAX: u64 = 4096;

/// A place in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub page: u64,
    /// Within the body of the page.
    pub within: u64,
}

/// Some pages that are mapped and checked.
#[derive(Clone, Copy)]
pub(crate) struct Mapped<'p> {
    pub window: &'p dyn Window,
    pub page_bytes: u64,
    /// Bytes of a page before its body.
    pub head: u64,
    /// The end of what may be accessed, in the stream.
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

    /// Bytes from `place` on that may be accessed.
    pub fn left(&self, place: Place) -> u64 {
        self.end.saturating_sub(self.offset(place))
    }

    /// Where in the file `place` is. Pages in a window have their places in memory, so nothing overflows.
    #[inline]
    pub fn in_file(&self, place: Place) -> usize {
        ((place.page + 1) * self.page_bytes + self.head + place.within) as usize
    }

    /// Calls `part` for each page's part of the `bytes` from `place` on: where in the file it is, and which of the
    /// bytes it has. Ends early where that gives `None`.
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

    /// The key of `key_len` bytes, 16 at most, at `place`, and what lies behind it.
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

    /// Bytes before the key of the record at `place`, of the key, and of the value, if they end before the pages do.
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

    /// Where the first of `count` records of `bytes` each, from `place` on, is that begins with `key`.
    #[inline]
    pub fn find(&self, place: Place, count: u64, bytes: u64, key: &[u8]) -> Option<Option<Place>> {
        if count * bytes > self.body() - place.within {
            return self.find_across(place, count, bytes, key);
        }
        let records = Records { from: self.in_file(place), count: count as usize, bytes: bytes as usize };
        let found = self.window.find(records, key)?;
        Some(found.map(|number| self.forward(place, number as u64 * bytes)))
    }

    /// [`find`](Self::find) where the records lie in more than one page.
    fn find_across(&self, mut place: Place, mut count: u64, bytes: u64, key: &[u8]) -> Option<Option<Place>> {
        while count > 0 {
            let here = ((self.body() - place.within) / bytes).min(count);
            let records = Records { from: self.in_file(place), count: here as usize, bytes: bytes as usize };
            if let Some(number) = self.window.find(records, key)? {
                return Some(Some(self.forward(place, number as u64 * bytes)));
            }
            place = self.forward(place, here * bytes);
            count -= here;
            // The next one lies in two pages.
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

    /// Begins to bring the bytes from `place` on, as far as they are in its page and the next, into the processor's
    /// cache.
    #[inline]
    pub fn touch(&self, place: Place, bytes: u64) {
        let bytes = bytes.min(TOUCHED_MAX);
        // The next page's body is a few bytes farther, which a line more or less does not matter for.
        let at = self.in_file(place);
        self.window.prefetch(at..at + bytes as usize);
    }

    /// Appends the `bytes` from `place` on to `to`.
    #[inline]
    pub fn append(&self, place: Place, bytes: u64, to: &mut Vec<u8>) -> Option<()> {
        self.parts(place, bytes, |at, range| self.window.append(at, range.len(), to).then_some(()))
    }
}
