//! A key in pages that are mapped and checked, without a copy of them.
//!
//! Keys are compared where they lie, and only the value is copied, once, to the caller. What is not found here because
//! the window failed, or because a guess was wrong, `file.rs` seeks in pages that are copied or read.

use super::mapped::{Mapped, Place};
use super::pages::Pages;
use super::search::{self, Query, RecordFormat};
use crate::dictionary::format::layout::Layout;
use std::ops::Range;

/// What a search in place came to.
pub(crate) enum InPlace {
    /// Where the value is, and its bytes.
    Value(Place, u64),
    Absent,
    /// Pages have to be copied or read.
    Elsewhere,
}

/// Looks around where a record is expected before all of its page is searched; one is nearly always enough.
const GUESSES_MAX: usize = 4;

/// What a record is.
enum Seen {
    Sought(InPlace),
    /// Another, of so many bytes.
    Another(u64),
    /// The pages end before its lengths do.
    CutOff,
}

struct Search<'s> {
    pages: &'s Pages,
    format: RecordFormat,
    mapped: Mapped<'s>,
    query: Query<'s>,
}

/// Looks for the key of `query` in `range`, if these pages are ready. `named` says which bytes of the stream have the
/// records that an index named, of one size. Records are not compressed.
#[inline]
pub(crate) fn find(
    pages: &Pages,
    format: RecordFormat,
    range: &Range<u64>,
    named: Option<&Range<u64>>,
    query: Query<'_>,
) -> InPlace {
    let Some(mapped) = pages.mapped(range).filter(|_| pages.are_ready(range)) else {
        return InPlace::Elsewhere;
    };
    let search = Search { pages, format, mapped, query };
    let found = match format.layout {
        Layout::Varied => search.among_varied(range),
        Layout::Fixed { key_len, .. } if key_len as usize != query.key.len() => Some(InPlace::Absent),
        Layout::Fixed { key_len, value_len } => search.among_fixed(range, named, key_len.into(), value_len.into()),
    };
    found.unwrap_or(InPlace::Elsewhere)
}

/// Begins to bring the records, of varying size, that [`find`] looks at first into the processor's cache.
#[inline]
pub(crate) fn touch(pages: &Pages, format: RecordFormat, range: &Range<u64>, query: Query<'_>) {
    if let Some(mapped) = pages.mapped(range)
        && let Some(starts) = pages.starts(range.start)
    {
        let search = Search { pages, format, mapped, query };
        touch_records(&mapped, range.start, starts.list(), search.expected_start(range, starts.list()));
    }
}

impl Search<'_> {
    /// Among records of one size: those that are named, or those around where the key's is expected.
    #[inline]
    fn among_fixed(
        &self,
        range: &Range<u64>,
        named: Option<&Range<u64>>,
        key_len: u64,
        value_len: u64,
    ) -> Option<InPlace> {
        let (mapped, key, bytes) = (&self.mapped, self.query.key, key_len + value_len);
        let value_of = |record: Place| InPlace::Value(mapped.forward(record, key_len), value_len);
        if let Some(named) = named {
            let first = Place { page: range.start, within: 0 };
            let first = mapped.forward(first, named.start.checked_sub(range.start * mapped.body())?);
            let found = match named.end - named.start {
                one if one == bytes => mapped.has(first, key)?.then_some(first),
                several => mapped.find(first, several / bytes, bytes, key)?,
            };
            return Some(found.map_or(InPlace::Absent, value_of));
        }
        let start = range.start * mapped.body();
        let first = start.next_multiple_of(bytes);
        let count = mapped.end.saturating_sub(first) / bytes;
        let place =
            |number: u64| mapped.forward(Place { page: range.start, within: 0 }, first - start + number * bytes);
        let (sought, gap) = (self.query.position, self.format.gap);
        // The record that the first byte belongs to does not begin in the page.
        let before = u64::from(first != start);
        let mut guess = self.format.expected_number(self.query.expected?).saturating_sub(before);
        for _ in 0..GUESSES_MAX {
            let near = self.format.around(guess, count);
            if let Some(record) = mapped.find(place(near.start), near.end - near.start, bytes, key)? {
                return Some(value_of(record));
            }
            if near.start > 0 {
                match self.position_of_key(place(near.start), key_len)? {
                    position if position < sought => {}
                    position if position > sought => {
                        guess = near.start.saturating_sub(1 + (position - sought) / gap);
                        continue;
                    }
                    // Records with the position may be on both sides.
                    _ => return None,
                }
            }
            if near.end < count {
                match self.position_of_key(place(near.end - 1), key_len)? {
                    position if position > sought => {}
                    position if position < sought => {
                        guess = near.end.saturating_add((sought - position) / gap);
                        continue;
                    }
                    _ => return None,
                }
            }
            return Some(InPlace::Absent);
        }
        None
    }

    /// Among records of varying size: those that begin in `range` and lie wholly in it.
    #[inline]
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

    /// Begins to bring the part of the pages that likely has the record into the processor's cache, while the head of
    /// the first, which says where records begin, is still on its way.
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

    /// Which of the few `starts` of the first page in `range` is likely that of the record, where the index says how
    /// far into the page it is expected.
    ///
    /// Of two pages it is the last: a lookup gets two nearly always because its record lies across them. In one page
    /// it is among the others, and as many of them are expected before it as the part of the page before it.
    #[inline]
    fn expected_start(&self, range: &Range<u64>, starts: &[u16]) -> Option<u16> {
        let expected = self.query.expected.filter(|_| starts.len() <= search::FEW_STARTS)?;
        let last = starts.len().checked_sub(1)?;
        let number =
            if range.end - range.start > 1 { last } else { ((expected.min(1 << 32) * last as u64) >> 32) as usize };
        starts.get(number).copied()
    }

    /// From which place in `page` on, and up to which byte of its body, records that begin in it can have the position.
    #[inline]
    fn between(&self, page: u64, starts: &[u16]) -> Option<Option<(Place, u64)>> {
        let body = self.mapped.body();
        let at = |start: u16| Place { page, within: start.into() };
        let Some(first) = starts.first() else { return Some(None) };
        if !self.format.ordered || starts.len() <= search::FEW_STARTS {
            return Some(Some((at(*first), body)));
        }
        // Those before `from` have smaller positions, those from `to` on larger ones.
        let (mut from, mut behind, mut to) = (0, starts.len(), starts.len());
        while from < behind {
            let middle = from + (behind - from) / 2;
            match self.position(at(starts[middle]))? {
                Some(position) if position < self.query.position => from = middle + 1,
                Some(position) if position > self.query.position => (behind, to) = (middle, middle),
                // One that is cut off is the last.
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
    fn position_of_key(&self, place: Place, key_len: u64) -> Option<u64> {
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

/// Begins to bring the beginnings of the records at `starts` of `page` into the processor's cache, then the rest of the
/// one that is `expected`.
#[inline]
fn touch_records(mapped: &Mapped<'_>, page: u64, starts: &[u16], expected: Option<u16>) {
    let place = |start: u16| Place { page, within: start.into() };
    for start in starts {
        mapped.touch(place(*start), 1);
    }
    if let Some(start) = expected {
        // The last may reach into the next page, by how much is not known yet.
        let next = starts.iter().find(|other| **other > start);
        let end = next.map_or(mapped.body(), |next| u64::from(*next));
        mapped.touch(place(start), end - u64::from(start));
    }
}
