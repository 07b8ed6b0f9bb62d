//! Searches for a key in pages that are mapped and checked, without copying them.
//!
//! Keys are compared in the mapping, and only the value is copied, once, to the caller. If the window has failed, or a
//! guess was wrong, `file.rs` searches in pages that are copied or read.

use super::mapped::{Mapped, Place};
use super::pages::Pages;
use super::search::{self, At, Query, RecordFormat, Spot};
use crate::dictionary::format::layout::Layout;
use std::ops::Range;

/// The result of an in-place search.
pub(crate) enum InPlace {
    /// The location and the length of the value.
    Value(Place, u64),
    Absent,
    /// The pages must be copied or read.
    Elsewhere,
}

/// The most guesses near the expected location before the whole page is searched; one is nearly always enough.
const GUESSES_MAX: usize = 4;

/// The result of comparing a record.
enum Seen {
    Sought(InPlace),
    /// Another record, of this many bytes.
    Another(u64),
    /// The pages end before the record's lengths do.
    CutOff,
}

struct Search<'s> {
    pages: &'s Pages,
    format: &'s RecordFormat,
    mapped: Mapped<'s>,
    query: &'s Query<'s>,
}

/// Searches for the key of `query` in `range`, if these pages are ready. Records are not compressed.
#[inline]
pub(crate) fn find(pages: &Pages, format: &RecordFormat, range: &Range<u64>, at: &At, query: &Query<'_>) -> InPlace {
    let Some(mapped) = pages.mapped(range).filter(|_| pages.are_ready(range)) else {
        return InPlace::Elsewhere;
    };
    let search = Search { pages, format, mapped, query };
    let found = match (format.layout, at) {
        (Layout::Varied, _) => search.among_varied(range),
        (Layout::Fixed { key_len, .. }, _) if key_len as usize != query.key.len() => Some(InPlace::Absent),
        (Layout::Fixed { .. }, At::Spot(spot)) => search.around(range.start, spot),
        (Layout::Fixed { .. }, At::Bytes(named)) => search.among_named(range.start, named),
        (Layout::Fixed { .. }, At::Anywhere) => None,
    };
    found.unwrap_or(InPlace::Elsewhere)
}

/// Prefetches the records, of varying size, that [`find`] compares first into the processor's cache.
#[inline]
pub(crate) fn touch(pages: &Pages, format: &RecordFormat, range: &Range<u64>, query: &Query<'_>) {
    if let Some(mapped) = pages.mapped(range)
        && let Some(starts) = pages.starts(range.start)
    {
        let search = Search { pages, format, mapped, query };
        touch_records(&mapped, range.start, starts.list(), search.expected_start(range, starts.list()));
    }
}

/// Corrects `spot` with the position of the record found there, and prefetches the records around the new location into
/// the processor's cache. Does nothing if `range` is not ready.
#[inline]
pub(crate) fn approach(pages: &Pages, format: &RecordFormat, range: &Range<u64>, spot: &mut Spot, query: &Query<'_>) {
    if spot.count == 0 || !pages.are_ready(range) {
        return;
    }
    let Some(mapped) = pages.mapped(range) else { return };
    let search = Search { pages, format, mapped, query };
    let place = |number: u64| search.place(range.start, spot, number);
    let Some(position) = search.position_of_key(place(spot.guess.into()), query.key.len() as u64) else { return };
    let guess = format.farther(spot.guess.into(), position, query.position);
    let near = format.near(guess, spot.count.into());
    mapped.touch(place(near.start), (near.end - near.start) * format.record_bytes);
    (spot.guess, spot.is_seen) = (guess.min(u32::MAX.into()) as u32, true);
}

impl Search<'_> {
    /// Searches the `named` records, which have one size.
    #[inline]
    fn among_named(&self, page: u64, named: &Range<u64>) -> Option<InPlace> {
        let (mapped, key, bytes) = (&self.mapped, self.query.key, self.format.record_bytes);
        let first = mapped.forward(Place { page, within: 0 }, named.start.checked_sub(page * mapped.body())?);
        let found = match named.end - named.start {
            one if one == bytes => mapped.has(first, key)?.then_some(first),
            several => mapped.find(first, several / bytes, bytes, key)?,
        };
        Some(found.map_or(InPlace::Absent, |record| self.value_of(record)))
    }

    /// The value of the record of one size at `record`, whose key is the one sought.
    #[inline]
    fn value_of(&self, record: Place) -> InPlace {
        let key_len = self.query.key.len() as u64;
        InPlace::Value(self.mapped.forward(record, key_len), self.format.record_bytes - key_len)
    }

    /// The location of record `number`, counting the records of one size from the first that begins in `page`.
    #[inline]
    fn place(&self, page: u64, spot: &Spot, number: u64) -> Place {
        self.mapped.forward(Place { page, within: 0 }, u64::from(spot.first) + number * self.format.record_bytes)
    }

    /// Searches the records of one size from the first that begins in `page`: those around `spot`.
    #[inline]
    fn around(&self, page: u64, spot: &Spot) -> Option<InPlace> {
        let count = u64::from(spot.count);
        let near = match spot.is_seen {
            true => self.format.near(spot.guess.into(), count),
            false => self.format.wide(spot.guess.into(), count),
        };
        let (from, bytes) = (self.place(page, spot, near.start), self.format.record_bytes);
        if let Some(record) = self.mapped.find(from, near.end - near.start, bytes, self.query.key)? {
            return Some(self.value_of(record));
        }
        self.farther_around(page, spot, near)
    }

    /// Continues [`around`](Self::around) when no record with a number in `near` has the key.
    #[inline(never)]
    fn farther_around(&self, page: u64, spot: &Spot, near: Range<u64>) -> Option<InPlace> {
        let (sought, count, key_len) = (self.query.position, u64::from(spot.count), self.query.key.len() as u64);
        let position = |number: u64| self.position_of_key(self.place(page, spot, number), key_len);
        let mut near = near;
        for _ in 0..GUESSES_MAX {
            // Records with the position may be on both sides of a record that has it.
            let guess = match (near.start > 0).then(|| position(near.start)) {
                Some(None) => return None,
                Some(Some(before)) if before == sought => return None,
                Some(Some(before)) if before > sought => self.format.farther(near.start - 1, before, sought),
                _ => match (near.end < count).then(|| position(near.end - 1)) {
                    Some(None) => return None,
                    Some(Some(last)) if last == sought => return None,
                    Some(Some(last)) if last < sought => self.format.farther(near.end, last, sought),
                    _ => return Some(InPlace::Absent),
                },
            };
            near = self.format.near(guess, count);
            let from = self.place(page, spot, near.start);
            let found = self.mapped.find(from, near.end - near.start, self.format.record_bytes, self.query.key)?;
            if let Some(record) = found {
                return Some(self.value_of(record));
            }
        }
        None
    }

    /// Searches the records of varying size that begin in `range` and lie entirely in it.
    #[inline(never)]
    fn among_varied(&self, range: &Range<u64>) -> Option<InPlace> {
        let mapped = &self.mapped;
        self.pages.touch_heads(range);
        self.touch_likely(range);
        for page in range.clone() {
            let starts = self.pages.starts(page)?;
            let expected = if page == range.start { self.expected_start(range, starts.list()) } else { None };
            touch_records(mapped, page, starts.list(), expected);
            if let Some(start) = expected
                && let Seen::Sought(found) = self.see(Place { page, within: start.into() })?
            {
                return Some(found);
            }
            let Some((mut place, to)) = self.between(page, starts.list())? else { continue };
            while place.page == page && place.within < to {
                match self.see(place)? {
                    Seen::Sought(found) => return Some(found),
                    Seen::Another(bytes) => place = mapped.forward(place, bytes),
                    Seen::CutOff => break,
                }
            }
            if to < mapped.body() {
                break;
            }
        }
        Some(InPlace::Absent)
    }

    /// Prefetches the part of the pages that probably contains the record into the processor's cache, while the head of
    /// the first page, which tells where records begin, is still being loaded.
    #[inline]
    fn touch_likely(&self, range: &Range<u64>) {
        if self.format.likely_bytes > 0
            && let Some(expected) = self.query.expected
        {
            let part = self.format.likely_part(expected, range.end - range.start, self.mapped.body());
            self.mapped.touch(Place { page: range.start, within: part.start }, part.end - part.start);
        }
    }

    /// Compares the key of the record at `place`.
    #[inline]
    fn see(&self, place: Place) -> Option<Seen> {
        let (mapped, key) = (&self.mapped, self.query.key);
        let Some((head, key_len, value_len)) = mapped.lengths(self.format.layout, place)? else {
            return Some(Seen::CutOff);
        };
        let bytes = head + key_len + value_len;
        if key_len == key.len() as u64 && bytes <= mapped.left(place) {
            let key_at = mapped.forward(place, head);
            if mapped.has(key_at, key)? {
                return Some(Seen::Sought(InPlace::Value(mapped.forward(key_at, key_len), value_len)));
            }
        }
        Some(Seen::Another(bytes))
    }

    /// Which of the few `starts` of the first page in `range` is probably that of the record, if the index knows how
    /// far into the page the record is expected.
    ///
    /// With two pages it is the last start: a lookup gets two pages nearly always because its record crosses their
    /// border. With one page it is one of the others, chosen in proportion to how far into the page the record is
    /// expected.
    #[inline]
    fn expected_start(&self, range: &Range<u64>, starts: &[u16]) -> Option<u16> {
        let expected = self.query.expected.filter(|_| starts.len() <= search::FEW_STARTS)?;
        let last = starts.len().checked_sub(1)?;
        let number =
            if range.end - range.start > 1 { last } else { ((expected.min(1 << 32) * last as u64) >> 32) as usize };
        starts.get(number).copied()
    }

    /// The range in `page` in which records with the position can begin: its first location, and the byte of the body
    /// at which it ends.
    #[inline]
    fn between(&self, page: u64, starts: &[u16]) -> Option<Option<(Place, u64)>> {
        let body = self.mapped.body();
        let at = |start: u16| Place { page, within: start.into() };
        let Some(first) = starts.first() else { return Some(None) };
        if !self.format.ordered || starts.len() <= search::FEW_STARTS {
            return Some(Some((at(*first), body)));
        }
        // Records before `from` have smaller positions, those from `to` on have larger ones.
        let (mut from, mut behind, mut to) = (0, starts.len(), starts.len());
        while from < behind {
            let middle = from + (behind - from) / 2;
            match self.position(at(starts[middle]))? {
                Some(position) if position < self.query.position => from = middle + 1,
                Some(position) if position > self.query.position => (behind, to) = (middle, middle),
                // If a record is cut off, it is the last one.
                _ => behind = middle,
            }
        }
        let to = starts.get(to).map_or(body, |to| (*to).into());
        Some(Some((at(starts[from.saturating_sub(1)]), to)))
    }

    /// The position of the record at `place`, if its key ends before the pages do.
    fn position(&self, place: Place) -> Option<Option<u64>> {
        let mapped = &self.mapped;
        let Some((head, key_len, _)) = mapped.lengths(self.format.layout, place)? else { return Some(None) };
        if head + key_len > mapped.left(place) {
            return Some(None);
        }
        self.position_of_key(mapped.forward(place, head), key_len).map(Some)
    }

    /// The position of the key at `place`.
    #[inline]
    fn position_of_key(&self, place: Place, key_len: u64) -> Option<u64> {
        if key_len <= 16 {
            let key = self.mapped.short_key(place, key_len)?;
            return Some(self.query.position_of(&key[..key_len as usize]));
        }
        self.position_of_long(place, key_len)
    }

    #[inline(never)]
    fn position_of_long(&self, place: Place, key_len: u64) -> Option<u64> {
        let (mut short, mut long) = ([0; 128], Vec::new());
        let key = match short.get_mut(..key_len as usize) {
            Some(key) => key,
            None => {
                long.resize(key_len as usize, 0);
                &mut long[..]
            }
        };
        self.mapped.copy(place, key)?;
        Some(self.query.position_of(key))
    }
}

/// Prefetches the first bytes of the records at `starts` of `page` into the processor's cache, then the rest of the one
/// that is `expected`.
#[inline]
fn touch_records(mapped: &Mapped<'_>, page: u64, starts: &[u16], expected: Option<u16>) {
    let place = |start: u16| Place { page, within: start.into() };
    for start in starts {
        mapped.touch(place(*start), 1);
    }
    if let Some(start) = expected {
        // The last record may extend into the next page; how far is not known yet.
        let next = starts.iter().find(|other| **other > start);
        let end = next.map_or(mapped.body(), |next| u64::from(*next));
        mapped.touch(place(start), end - u64::from(start));
    }
}
