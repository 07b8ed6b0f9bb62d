//! Finds a key among the records of some pages, mapped or copied.
//!
//! Records in hash order are found by their hashes: those of one size around the location that the index returned, or
//! by interpolation; others by binary search among the starts recorded in the pages, then a linear search from there.
//! Records in another order are searched linearly. Keys are compared in full, so only the requested key is found.
//!
//! Not here: compressed records (`blocks.rs`), cells of many pages (`cells.rs`).

use super::interpolation::Interpolation;
use super::page_source::{Location, PageSource, Prefix};
use super::record_format::{FEW_STARTS, RecordFormat, Spot};
use crate::dictionary::format::layout::Layout;
use crate::hash::HashFunction;
use crate::io::Window;
use crate::linear;
use std::ops::Range;

/// The target of a lookup.
#[derive(Clone, Copy)]
pub(crate) struct Query<'k> {
    pub key: &'k [u8],
    pub position: u64,
    pub hash: &'k HashFunction,
    /// The expected distance of the record from the start of the pages, in 2^-32 of a page, if the index knows it.
    pub expected: Option<u64>,
}

impl<'k> Query<'k> {
    #[inline]
    pub fn of(key: &'k [u8], hash: &'k HashFunction) -> Self {
        Query { key, position: position(key, hash), hash, expected: None }
    }

    #[inline]
    fn position_of(&self, key: &[u8]) -> u64 {
        position(key, self.hash)
    }
}

#[inline]
fn position(key: &[u8], hash: &HashFunction) -> u64 {
    linear::Position::of(hash.hash_inlined(key)).0
}

/// The possible locations of a key according to an index.
pub(crate) struct Sought<'k> {
    pub pages: Range<u64>,
    pub at: At,
    pub query: Query<'k>,
}

/// The possible locations of the record in some pages.
pub(crate) enum At {
    /// In these bytes of the stream: the records of one size that an index named.
    Bytes(Range<u64>),
    Spot(Spot),
    Anywhere,
}

/// The result of a search.
pub(crate) enum Outcome {
    /// The location and the length of the value.
    Value(Location, u64),
    Absent,
    /// The pages are not mapped, have not been checked, or their window has failed.
    Unavailable,
}

/// The most guesses near the expected location before all records are searched; one is nearly always enough.
const GUESSES_MAX: usize = 4;
/// Up to this many records are compared one by one.
const WALK_MAX: u64 = 8;
/// Bytes of the expected record that are prefetched.
const TOUCHED_BYTES_MAX: u64 = 1024;

/// The result of comparing a record.
enum Seen {
    Sought(Outcome),
    /// Another record, of this many bytes.
    Another(u64),
    /// The pages end before the record's lengths do.
    CutOff,
}

struct Search<'s, W: Window + ?Sized> {
    source: PageSource<'s, W>,
    format: &'s RecordFormat,
    query: &'s Query<'s>,
}

/// Searches the pages of `sought` in `source`. Records are not compressed.
#[inline]
pub(crate) fn find<W: Window + ?Sized>(
    source: PageSource<'_, W>,
    format: &RecordFormat,
    sought: &Sought<'_>,
) -> Outcome {
    let Sought { pages, at, query } = sought;
    let search = Search { source, format, query };
    let found = match (format.layout, at) {
        (Layout::Varied, _) => search.among_varied(pages),
        (Layout::Fixed { key_len, .. }, _) if key_len as usize != query.key.len() => Some(Outcome::Absent),
        (Layout::Fixed { .. }, At::Spot(spot)) => search.around(pages, spot),
        (Layout::Fixed { .. }, At::Bytes(named)) => search.among_named(pages.start, named),
        (Layout::Fixed { .. }, At::Anywhere) => search.among_all(pages),
    };
    found.unwrap_or(Outcome::Unavailable)
}

/// Prefetches what [`find`] accesses first into the processor's cache.
#[inline]
pub(crate) fn touch<W: Window + ?Sized>(source: PageSource<'_, W>, format: &RecordFormat, sought: &Sought<'_>) {
    let Sought { pages, at, query } = sought;
    let first = Location { page: pages.start, within: 0 };
    match at {
        At::Bytes(named) => {
            let before = named.start.saturating_sub(pages.start * source.body());
            source.touch(source.forward(first, before), format.record_bytes.min(TOUCHED_BYTES_MAX));
        }
        At::Spot(spot) => {
            let before = u64::from(spot.first) + u64::from(spot.guess) * format.record_bytes;
            source.touch(source.forward(first, before), (query.key.len() as u64).min(TOUCHED_BYTES_MAX));
        }
        At::Anywhere => source.touch_heads(pages),
    }
}

/// Prefetches what [`find`] accesses after the head of a page: the records, of varying size, that it compares first.
#[inline]
pub(crate) fn touch_records<W: Window + ?Sized>(source: PageSource<'_, W>, format: &RecordFormat, sought: &Sought<'_>) {
    let search = Search { source, format, query: &sought.query };
    if let Some(starts) = source.starts(sought.pages.start) {
        search.touch(sought.pages.start, starts.list(), search.expected_start(&sought.pages, starts.list()));
    }
}

/// Corrects `spot`, counted from `page`, with the position of the record found there, and prefetches the records around
/// the new location into the processor's cache.
#[inline]
pub(crate) fn approach<W: Window + ?Sized>(
    source: PageSource<'_, W>,
    format: &RecordFormat,
    page: u64,
    spot: &mut Spot,
    query: &Query<'_>,
) {
    let search = Search { source, format, query };
    let record = |number: u64| search.record(page, spot, number);
    let Some(position) = search.position_of_key(record(spot.guess.into()), query.key.len() as u64) else { return };
    let guess = format.farther(spot.guess.into(), position, query.position);
    let near = format.near(guess, spot.count.into());
    source.touch(record(near.start), (near.end - near.start) * format.record_bytes);
    (spot.guess, spot.is_seen) = (guess.min(u32::MAX.into()) as u32, true);
}

impl<W: Window + ?Sized> Search<'_, W> {
    /// Searches the `named` records, which have one size.
    #[inline]
    fn among_named(&self, page: u64, named: &Range<u64>) -> Option<Outcome> {
        let (source, key, bytes) = (&self.source, self.query.key, self.format.record_bytes);
        let first = source.forward(Location { page, within: 0 }, named.start.checked_sub(page * source.body())?);
        let found = match named.end - named.start {
            one if one == bytes => source.has(first, key)?.then_some(first),
            several => source.find(first, several / bytes, bytes, key)?,
        };
        Some(found.map_or(Outcome::Absent, |record| self.value_of(record)))
    }

    /// The value of the record of one size at `record`, whose key is the one sought.
    #[inline]
    fn value_of(&self, record: Location) -> Outcome {
        let key_len = self.query.key.len() as u64;
        Outcome::Value(self.source.forward(record, key_len), self.format.record_bytes - key_len)
    }

    /// The location of record `number`, counting the records of one size from the first that begins in `page`.
    #[inline]
    fn record(&self, page: u64, spot: &Spot, number: u64) -> Location {
        self.source.forward(Location { page, within: 0 }, u64::from(spot.first) + number * self.format.record_bytes)
    }

    /// Searches the records of one size that begin in `pages`, from those around `spot` on.
    #[inline]
    fn around(&self, pages: &Range<u64>, spot: &Spot) -> Option<Outcome> {
        let count = u64::from(spot.count);
        let near = match spot.is_seen {
            true => self.format.near(spot.guess.into(), count),
            false => self.format.wide(spot.guess.into(), count),
        };
        let (from, bytes) = (self.record(pages.start, spot, near.start), self.format.record_bytes);
        if let Some(record) = self.source.find(from, near.end - near.start, bytes, self.query.key)? {
            return Some(self.value_of(record));
        }
        self.farther_around(pages, spot, near)
    }

    /// Continues [`around`](Self::around) when no record with a number in `near` has the key.
    #[inline(never)]
    fn farther_around(&self, pages: &Range<u64>, spot: &Spot, near: Range<u64>) -> Option<Outcome> {
        let (sought, count, key_len) = (self.query.position, u64::from(spot.count), self.query.key.len() as u64);
        let position = |number: u64| self.position_of_key(self.record(pages.start, spot, number), key_len);
        let mut near = near;
        for _ in 0..GUESSES_MAX {
            let first = if near.start > 0 { Some(position(near.start)?) } else { None };
            let guess = match first {
                // Records with the position may be on both sides of a record that has it.
                Some(first) if first == sought => break,
                Some(first) if first > sought => self.format.farther(near.start - 1, first, sought),
                _ if near.end == count => return Some(Outcome::Absent),
                _ => match position(near.end - 1)? {
                    last if last == sought => break,
                    last if last < sought => self.format.farther(near.end, last, sought),
                    _ => return Some(Outcome::Absent),
                },
            };
            near = self.format.near(guess, count);
            let from = self.record(pages.start, spot, near.start);
            let found = self.source.find(from, near.end - near.start, self.format.record_bytes, self.query.key)?;
            if let Some(record) = found {
                return Some(self.value_of(record));
            }
        }
        self.among_all(pages)
    }

    /// Searches all records of one size that begin in `pages`.
    #[inline(never)]
    fn among_all(&self, pages: &Range<u64>) -> Option<Outcome> {
        let (body, key_len) = (self.source.body(), self.query.key.len() as u64);
        let part = pages.start * body..(pages.end * body).min(self.source.end);
        let spot = self.format.spot(self.query.expected.unwrap_or_default(), part);
        let count = u64::from(spot.count);
        let guess = if self.query.expected.is_some() { spot.guess.into() } else { count / 2 };
        let position = |number: u64| self.position_of_key(self.record(pages.start, &spot, number), key_len);
        let mut within = 0..count;
        if self.format.ordered {
            let mut search = Interpolation::new(0..count, guess, self.format.gap, 1);
            while within.end - within.start > WALK_MAX {
                let seen = position(search.next())?;
                if seen == self.query.position {
                    within = equal_around(search.next(), count, seen, position)?;
                    break;
                }
                search.saw(seen, self.query.position);
                within = search.range();
            }
        }
        let from = self.record(pages.start, &spot, within.start);
        let found = self.source.find(from, within.end - within.start, self.format.record_bytes, self.query.key)?;
        Some(found.map_or(Outcome::Absent, |record| self.value_of(record)))
    }

    /// Searches the records of varying size that begin in `range` and lie entirely in it.
    #[inline(never)]
    fn among_varied(&self, range: &Range<u64>) -> Option<Outcome> {
        let (source, prefix) = (&self.source, Prefix::of(self.query.key));
        source.touch_heads(range);
        self.touch_likely(range);
        for page in range.clone() {
            let starts = source.starts(page)?;
            let expected = if page == range.start { self.expected_start(range, starts.list()) } else { None };
            self.touch(page, starts.list(), expected);
            if let Some(start) = expected
                && let Seen::Sought(found) = self.see(Location { page, within: start.into() })?
            {
                return Some(found);
            }
            let body = source.body_of(page);
            let Some((mut at, to)) = self.between(page, starts.list(), body)? else { continue };
            while let Some(record) = source.skip(at, page, to, &prefix)? {
                match self.see(record)? {
                    Seen::Sought(found) => return Some(found),
                    Seen::Another(bytes) => at = source.forward(record, bytes),
                    Seen::CutOff => break,
                }
            }
            if to < body {
                break;
            }
        }
        Some(Outcome::Absent)
    }

    /// Prefetches the part of the pages that probably contains the record into the processor's cache, while the head of
    /// the first page, which tells where records begin, is still being loaded.
    #[inline]
    fn touch_likely(&self, range: &Range<u64>) {
        if self.format.likely_bytes > 0
            && let Some(expected) = self.query.expected
        {
            let part = self.format.likely_part(expected, range.end - range.start, self.source.body());
            self.source.touch(Location { page: range.start, within: part.start }, part.end - part.start);
        }
    }

    /// Prefetches the first bytes of the records at `starts` of `page` into the processor's cache, then the rest of the
    /// one that is `expected`.
    #[inline]
    fn touch(&self, page: u64, starts: &[u16], expected: Option<u16>) {
        let at = |start: u16| Location { page, within: start.into() };
        for start in starts {
            self.source.touch(at(*start), 1);
        }
        if let Some(start) = expected {
            // The last record may extend into the next page; how far is not known yet.
            let next = starts.iter().find(|other| **other > start);
            let end = next.map_or(self.source.body(), |next| u64::from(*next));
            self.source.touch(at(start), end - u64::from(start));
        }
    }

    /// Compares the key of the record at `at`.
    #[inline(always)] // 85 instructions for a large record
    fn see(&self, at: Location) -> Option<Seen> {
        let (source, key) = (&self.source, self.query.key);
        let Some((head, key_len, value_len)) = source.lengths(at)? else {
            return Some(Seen::CutOff);
        };
        let bytes = head + key_len + value_len;
        if key_len == key.len() as u64 && bytes <= source.left(at) {
            let key_at = source.forward(at, head);
            if source.has(key_at, key)? {
                return Some(Seen::Sought(Outcome::Value(source.forward(key_at, key_len), value_len)));
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
        let expected = self.query.expected.filter(|_| starts.len() <= FEW_STARTS)?;
        let last = starts.len().checked_sub(1)?;
        let number =
            if range.end - range.start > 1 { last } else { ((expected.min(1 << 32) * last as u64) >> 32) as usize };
        starts.get(number).copied()
    }

    /// The range in `page`, of `body` bytes, in which records with the position can begin: its first location, and the
    /// byte at which it ends.
    #[inline]
    fn between(&self, page: u64, starts: &[u16], body: u64) -> Option<Option<(Location, u64)>> {
        let at = |start: u16| Location { page, within: start.into() };
        let Some(first) = starts.first() else { return Some(None) };
        if !self.format.ordered || starts.len() <= FEW_STARTS {
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

    /// The position of the record at `at`, if its key ends before the pages do.
    fn position(&self, at: Location) -> Option<Option<u64>> {
        let source = &self.source;
        let Some((head, key_len, _)) = source.lengths(at)? else { return Some(None) };
        if head + key_len > source.left(at) {
            return Some(None);
        }
        self.position_of_key(source.forward(at, head), key_len).map(Some)
    }

    /// The position of the key at `at`.
    #[inline]
    fn position_of_key(&self, at: Location, key_len: u64) -> Option<u64> {
        if key_len <= 16 {
            let key = self.source.short_key(at, key_len)?;
            return Some(self.query.position_of(&key[..key_len as usize]));
        }
        self.position_of_long(at, key_len)
    }

    #[inline(never)]
    fn position_of_long(&self, at: Location, key_len: u64) -> Option<u64> {
        let (mut short, mut long) = ([0; 128], Vec::new());
        let key = match short.get_mut(..key_len as usize) {
            Some(key) => key,
            None => {
                long.resize(key_len as usize, 0);
                &mut long[..]
            }
        };
        self.source.copy(at, key)?;
        Some(self.query.position_of(key))
    }
}

/// The range, among `count` ascending positions, of those around number `middle` that are equal to its position
/// `sought`.
fn equal_around(middle: u64, count: u64, sought: u64, position: impl Fn(u64) -> Option<u64>) -> Option<Range<u64>> {
    let (mut from, mut to) = (middle, middle + 1);
    while from > 0 && position(from - 1)? == sought {
        from -= 1;
    }
    while to < count && position(to)? == sought {
        to += 1;
    }
    Some(from..to)
}
