//! Finds a key within a piece of the stream.
//!
//! Records in hash order are found by their hashes: those of one size by interpolation, others by binary search among
//! the starts recorded in the pages, then a linear search from there. Records in another order are searched linearly.
//! Keys are compared in full, so only the requested key is found.

use super::pages::Piece;
use crate::dictionary::format::block::{self, BlockHead};
use crate::dictionary::format::layout::{Compression, Layout};
use crate::dictionary::format::record;
use crate::hash::HashFunction;
use crate::linear;
use std::ops::Range;

/// What a lookup looks for.
#[derive(Clone, Copy)]
pub(crate) struct Query<'k> {
    pub key: &'k [u8],
    pub position: u64,
    pub hash: &'k HashFunction,
    /// How far from the start of the piece the record is expected, in 2^-32 of a page, if the index knows it.
    pub expected: Option<u64>,
}

impl Query<'_> {
    #[inline]
    pub fn position_of(&self, key: &[u8]) -> u64 {
        linear::Position::of(self.hash.hash_inlined(key)).0
    }
}

/// The format and order of a file's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordFormat {
    pub layout: Layout,
    pub compression: Compression,
    /// Whether they are in hash order.
    pub ordered: bool,
    /// The most raw bytes that a block can have.
    pub block_bytes_max: u64,
    /// The average distance between the positions of consecutive records.
    pub gap: u64,
    /// The number of records; their positions are spread over 2^64.
    pub pairs: u64,
    /// The number of records of one size per page, in units of 1/65,536.
    pub per_page: u64,
    /// Records of one size that are compared at once around a location computed from another record's position.
    pub near: u64,
    /// Records that are compared at once around a location that the index returned.
    pub wide: u64,
    /// Bytes of a record if all have one size; otherwise 0.
    pub record_bytes: u64,
    /// The average length of records of varying size of which few begin in a page; 0 for other records.
    pub likely_bytes: u64,
}

impl RecordFormat {
    /// Sets the fields that depend on the length of a record, if all have one size, and of a page's body.
    pub fn of_pages(mut self, record_bytes: Option<u64>, body_bytes: u64) -> Self {
        self.record_bytes = record_bytes.unwrap_or(0);
        self.per_page = record_bytes.map_or(0, |bytes| (body_bytes << 16) / bytes);
        // 1.5 standard deviations on both sides. The standard deviation is largest in the middle of a page: half the
        // square root of the number of records in it.
        self.wide = 1 + ((9 * self.per_page) >> 18).isqrt();
        // A record at the location from the index is about that far from the key. The distance computed from positions
        // is exact to within the square root of the number of records in between; this is 1.5 times that on both sides.
        self.near = ((self.per_page.isqrt().isqrt() + 4) / 8).max(2);
        self
    }

    /// Sets the fields that depend on the total length of the records, which are of varying size and `pairs` in number.
    pub fn of_stream(mut self, stream_bytes: u64, pairs: u64, body_bytes: u64) -> Self {
        let bytes = stream_bytes / pairs.max(1);
        let few = self.layout == Layout::Varied && bytes >= body_bytes / FEW_STARTS as u64;
        self.likely_bytes = if few { bytes.min(LIKELY_BYTES_MAX) } else { 0 };
        self
    }

    /// Which part of the body of the first of `pages` pages, or beyond its end, probably has the record that is
    /// `expected` there ([`Query::expected`]).
    #[inline]
    pub fn likely_part(&self, expected: u64, pages: u64, body_bytes: u64) -> Range<u64> {
        let bytes = self.likely_bytes;
        if pages > 1 {
            // It crosses the border of two pages.
            return body_bytes.saturating_sub(bytes)..body_bytes + bytes;
        }
        // The byte at this offset probably belongs to the record.
        let at = (expected.min(1 << 32) * body_bytes) >> 32;
        at.saturating_sub(bytes)..(at + bytes / 4).min(body_bytes)
    }

    /// The number within a piece of the record of one size that is `expected` there ([`Query::expected`]).
    #[inline]
    pub fn expected_number(&self, expected: u64) -> u64 {
        ((u128::from(expected) * u128::from(self.per_page)) >> 48) as u64
    }

    /// The expected location of a record of one size among those that begin in `part` of the stream, a few whole pages.
    #[inline]
    pub fn spot(&self, expected: u64, part: Range<u64>) -> Spot {
        let bytes = self.record_bytes;
        let cut = part.start % bytes;
        // The record that contains the first byte does not begin in the page.
        let (first, before) = if cut == 0 { (0, 0) } else { (bytes - cut, 1) };
        let count = part.end.saturating_sub(part.start + first) / bytes;
        let guess = self.expected_number(expected).saturating_sub(before).min(count.saturating_sub(1));
        Spot { first: first as u32, count: count as u32, guess: guess as u32, is_seen: false }
    }

    /// The number of the record expected at position `sought`, if record `number` has position `position`. Without
    /// branches, as the processor could not predict on which side it is.
    #[inline]
    pub fn farther(&self, number: u64, position: u64, sought: u64) -> u64 {
        // Scaled to numbers of records, so that a difference counts records, with an error of at most one.
        let scaled = |position: u64| ((u128::from(position) * u128::from(self.pairs)) >> 64) as i64;
        (number as i64).saturating_add(scaled(sought).wrapping_sub(scaled(position))).max(0) as u64
    }

    /// The records, out of `count`, to compare around `guess`, which was computed from the position of another record.
    #[inline]
    pub fn near(&self, guess: u64, count: u64) -> Range<u64> {
        around(guess, self.near, count)
    }

    /// The records, out of `count`, to compare around `guess`, which was computed from the index alone.
    #[inline]
    pub fn wide(&self, guess: u64, count: u64) -> Range<u64> {
        around(guess, self.wide, count)
    }
}

/// The `some` numbers below `count` that are nearest to `guess`, or all if there are fewer. Their count does not depend
/// on `guess`, so that the processor predicts loops over them.
#[inline]
fn around(guess: u64, some: u64, count: u64) -> Range<u64> {
    let from = guess.saturating_sub(some / 2).min(count.saturating_sub(some));
    from..(from + some).min(count)
}

/// Where in some pages the record may be.
#[derive(Clone, Debug)]
pub(crate) enum At {
    /// In these bytes of the stream: the records of one size that an index named.
    Bytes(Range<u64>),
    Spot(Spot),
    Anywhere,
}

/// The expected location of a record of one size, among those that begin in some pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The offset in the first page's body at which the first of these records begins.
    pub first: u32,
    pub count: u32,
    /// The number, among these records, of the likely one.
    pub guess: u32,
    /// Whether `guess` was computed from the position of a nearby record, not from the index alone.
    pub is_seen: bool,
}

/// The value of the key in `piece`; `None` if no record that lies entirely in it has the key. `raw` is a buffer for a
/// block.
///
/// # Errors
/// What is wrong with a block.
pub(crate) fn find<'p>(
    format: RecordFormat,
    piece: Piece<'p>,
    query: Query<'_>,
    raw: &'p mut Vec<u8>,
) -> std::result::Result<Option<&'p [u8]>, &'static str> {
    match (format.compression, format.layout) {
        (Compression::None, Layout::Fixed { key_len, value_len }) => {
            let record_bytes = key_len as usize + value_len as usize;
            let bytes = match piece.records {
                Some((from, to)) => piece.bytes.get(from..to).unwrap_or_default(),
                None => {
                    // Starts with the first record that begins in the piece.
                    let skip = (piece.offset.next_multiple_of(record_bytes as u64) - piece.offset) as usize;
                    piece.bytes.get(skip..).unwrap_or_default()
                }
            };
            Ok(find_fixed(format, bytes, key_len as usize, record_bytes, query))
        }
        (Compression::None, Layout::Varied) => Ok(find_varied(format, piece, query)),
        (Compression::Lz4, _) => find_in_blocks(format, piece, query, raw),
    }
}

fn find_fixed<'p>(
    format: RecordFormat,
    bytes: &'p [u8],
    key_len: usize,
    record_bytes: usize,
    query: Query<'_>,
) -> Option<&'p [u8]> {
    if query.key.len() != key_len {
        return None;
    }
    let count = bytes.len() / record_bytes;
    let record = |index: usize| &bytes[index * record_bytes..(index + 1) * record_bytes];
    let range = if format.ordered && count > WALK_MAX {
        let position = |index: usize| query.position_of(&record(index)[..key_len]);
        let expected = query.expected.map(|expected| format.expected_number(expected) as usize);
        let guess = expected.map_or(count / 2, |expected| expected.min(count - 1));
        equal_range(count, guess, format.gap, query.position, position)
    } else {
        0..count
    };
    range.map(record).find(|record| &record[..key_len] == query.key).map(|record| &record[key_len..])
}

/// If a piece has at most this many starts, comparing the keys of its records one by one is faster than hashing some of
/// them first.
pub(crate) const FEW_STARTS: usize = 5;

/// The most bytes of a record that are prefetched before its start is known.
const LIKELY_BYTES_MAX: u64 = 2048;

/// Up to this many records are compared one by one.
const WALK_MAX: usize = 8;

/// Interpolation search: which of many ascending positions, identified by number, to examine next.
///
/// Hashes are uniform, so the distance to the position sought tells how many numbers to skip. After some steps it
/// bisects, so that no hash function makes it slow.
pub(crate) struct Interpolation {
    /// Positions below number `low` are smaller than the one sought, those from `high` on are not.
    low: u64,
    high: u64,
    gap: u64,
    overshoot: u64,
    next: u64,
    looks: u32,
}

impl Interpolation {
    /// Searches the numbers of `within`, starting with `guess`; positions are about `gap` apart.
    ///
    /// Each step goes `overshoot` numbers farther than expected. With 1, two steps soon enclose the position sought,
    /// for a search that ends with a few numbers left. With 0, it is found sooner, for a search that ends with none
    /// left.
    #[inline]
    pub fn new(within: Range<u64>, guess: u64, gap: u64, overshoot: u64) -> Self {
        let Range { start: low, end: high } = within;
        let mut new = Interpolation { low, high, gap: gap.max(1), overshoot, next: guess, looks: 0 };
        new.keep_within();
        new
    }

    /// The numbers that may have the position sought: all before them have smaller positions, all after them larger or
    /// equal ones.
    #[inline]
    pub fn range(&self) -> Range<u64> {
        self.low..self.high
    }

    /// The number to examine next, as long as the range is not empty.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records that number [`next`](Self::next) has this `position`.
    #[inline]
    pub fn saw(&mut self, position: u64, sought: u64) {
        let steps = position.abs_diff(sought) / self.gap;
        if position < sought {
            self.low = self.next + 1;
            self.next = self.low.saturating_add(steps).saturating_add(self.overshoot);
        } else {
            self.high = self.next;
            self.next = self.high.saturating_sub(steps.saturating_add(1 + self.overshoot));
        }
        self.keep_within();
    }

    /// Records that number [`next`](Self::next) has no position; later numbers have none either.
    #[inline]
    pub fn saw_none(&mut self) {
        self.high = self.next;
        self.keep_within();
    }

    #[inline]
    fn keep_within(&mut self) {
        const LOOKS_MAX: u32 = 6;
        self.looks += 1;
        if self.looks > LOOKS_MAX {
            self.next = self.low + (self.high - self.low) / 2;
        }
        self.next = self.next.min(self.high.saturating_sub(1)).max(self.low);
    }
}

/// The range, among `count` ascending positions, of those equal to `sought`, and perhaps some others.
fn equal_range(count: usize, guess: usize, gap: u64, sought: u64, position: impl Fn(usize) -> u64) -> Range<usize> {
    let mut search = Interpolation::new(0..count as u64, guess as u64, gap, 1);
    loop {
        let within = search.range().start as usize..search.range().end as usize;
        if within.len() <= WALK_MAX {
            return within;
        }
        let at = search.next() as usize;
        let seen = position(at);
        if seen == sought {
            return equal_around(at, 0..count, sought, position);
        }
        search.saw(seen, sought);
    }
}

/// All equal positions around `middle`, which is one of them.
fn equal_around(middle: usize, within: Range<usize>, sought: u64, position: impl Fn(usize) -> u64) -> Range<usize> {
    let (mut from, mut to) = (middle, middle + 1);
    while from > within.start && position(from - 1) == sought {
        from -= 1;
    }
    while to < within.end && position(to) == sought {
        to += 1;
    }
    from..to
}

/// [`find`] for records of varying size.
fn find_varied<'p>(format: RecordFormat, piece: Piece<'p>, query: Query<'_>) -> Option<&'p [u8]> {
    let first = *piece.starts.first()?;
    let (from, to) = if !format.ordered || piece.starts.len() <= FEW_STARTS {
        (first, piece.bytes.len())
    } else {
        between_starts(format.layout, &piece, query)
    };
    walk(format.layout, piece.bytes, from, to, query.key)
}

/// The range of starts between which records can have the position.
fn between_starts(layout: Layout, piece: &Piece<'_>, query: Query<'_>) -> (usize, usize) {
    // A record that is cut off at the piece's end counts as greater.
    let position = |start: usize| {
        let record = record::key(layout, &piece.bytes[start..]);
        record.map(|key| query.position_of(key))
    };
    let smaller = piece.starts.partition_point(|start| position(*start).is_some_and(|at| at < query.position));
    let from = piece.starts[smaller.saturating_sub(1)];
    let mut larger =
        piece.starts[smaller..].iter().filter(|start| position(**start).is_some_and(|at| at > query.position));
    (from, larger.next().copied().unwrap_or(piece.bytes.len()))
}

/// The key's value among the records that begin in `from..to` and lie entirely in `bytes`.
fn walk<'p>(layout: Layout, bytes: &'p [u8], from: usize, to: usize, key: &[u8]) -> Option<&'p [u8]> {
    let mut at = from;
    while at < to {
        let record = record::parse(layout, &bytes[at..])?;
        if record.key == key {
            return Some(record.value);
        }
        at += record.bytes;
    }
    None
}

fn find_in_blocks<'p>(
    format: RecordFormat,
    piece: Piece<'p>,
    query: Query<'_>,
    raw: &'p mut Vec<u8>,
) -> std::result::Result<Option<&'p [u8]>, &'static str> {
    let Some(first) = piece.starts.first() else { return Ok(None) };
    let mut at = *first;
    let mut found = None;
    // Visits blocks whose first position is not above the query's. The key is in the last of them, or in an earlier one
    // if positions are equal.
    while let Some(head) = piece.bytes.get(at..).and_then(BlockHead::parse) {
        let head = head?;
        if format.ordered && head.position > query.position {
            break;
        }
        let Ok(cell_bytes) = usize::try_from(head.cell_bytes()) else { break };
        let Some(cell) = piece.bytes.get(at..).and_then(|rest| rest.get(..cell_bytes)) else { break };
        let next = piece.bytes.get(at + cell_bytes..).and_then(BlockHead::parse).transpose()?;
        let passed = format.ordered && next.is_some_and(|next| next.position < query.position);
        if !passed {
            let bytes = block::unpack(&head, &cell[block::HEAD_BYTES..], format.block_bytes_max, raw)?;
            if let Some(value) = find_in_block(format, bytes, query) {
                // As offsets, since another block may be unpacked into the same memory before they are used.
                let from = value.as_ptr() as usize - bytes.as_ptr() as usize;
                found = Some((head, at, from..from + value.len()));
                break;
            }
        }
        at += cell_bytes;
    }
    let Some((head, at, value)) = found else { return Ok(None) };
    if head.stored_bytes == head.raw_bytes {
        return Ok(Some(&piece.bytes[at + block::HEAD_BYTES..][value]));
    }
    Ok(Some(&raw[value]))
}

fn find_in_block<'p>(format: RecordFormat, bytes: &'p [u8], query: Query<'_>) -> Option<&'p [u8]> {
    match format.layout {
        Layout::Fixed { key_len, value_len } => {
            let record_bytes = key_len as usize + value_len as usize;
            // The index knows the first record of a page, not of a block.
            let query = Query { expected: None, ..query };
            find_fixed(format, bytes, key_len as usize, record_bytes, query)
        }
        Layout::Varied => walk(format.layout, bytes, 0, bytes.len(), query.key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: u64 = 4000;

    fn format(layout: Layout, record_bytes: u64) -> RecordFormat {
        let format = RecordFormat {
            layout,
            compression: Compression::None,
            ordered: true,
            block_bytes_max: 0,
            gap: 1,
            pairs: 1,
            per_page: 0,
            near: 0,
            wide: 0,
            record_bytes: 0,
            likely_bytes: 0,
        };
        format.of_stream(record_bytes * 1000, 1000, BODY)
    }

    #[test]
    fn a_long_record_is_likely_around_the_expected_byte_or_across_the_border() {
        let format = format(Layout::Varied, 1200);
        let half = 1 << 31;
        assert_eq!(format.likely_part(half, 1, BODY), 800..2300);
        assert_eq!(format.likely_part(half, 2, BODY), 2800..5200);
        // Within its page, whatever the index says.
        assert_eq!((format.likely_part(0, 1, BODY), format.likely_part(u64::MAX, 1, BODY)), (0..300, 2800..4000));
    }

    #[test]
    fn records_around_a_guess_are_always_as_many_if_there_are() {
        let format = format(Layout::Fixed { key_len: 12, value_len: 4 }, 16).of_pages(Some(16), 4092);
        assert_eq!((format.near, format.wide), (8, 24));
        for some in [1, 2, 7, 8, 33] {
            for count in [0, 1, 7, 8, 9, 32, 33, 34, 256] {
                for guess in [0, 1, 3, 4, 5, 100, 251, 252, 255, 256, 1000, u64::MAX] {
                    let near = around(guess, some, count);
                    assert_eq!((near.end - near.start, near.end <= count), (some.min(count), true), "{near:?}");
                    assert!(guess >= count || near.contains(&guess), "{guess} of {count}: {near:?}");
                }
            }
        }
    }

    #[test]
    fn a_record_is_expected_as_far_away_as_positions_say() {
        let format = RecordFormat { pairs: 1 << 20, ..format(Layout::Fixed { key_len: 12, value_len: 4 }, 16) };
        let gap = 1 << 44;
        for (number, position, sought, expected) in [
            (10, 5 * gap, 5 * gap, 10),
            (10, 5 * gap, 8 * gap, 13),
            (10, 8 * gap, 5 * gap, 7),
            (10, 500 * gap, 5 * gap, 0),
            (10, 0, u64::MAX, 10 + (1 << 20) - 1),
        ] {
            assert_eq!(format.farther(number, position, sought), expected, "{number}, {position}, {sought}");
        }
        assert_eq!(RecordFormat { pairs: u64::MAX, ..format }.farther(0, 0, u64::MAX), 0, "nonsense is no overflow");
    }

    #[test]
    fn only_records_of_which_few_begin_in_a_page_have_a_likely_part() {
        let bytes = |layout, record_bytes| format(layout, record_bytes).likely_bytes;
        assert_eq!([799, 800, 1_000_000].map(|record| bytes(Layout::Varied, record)), [0, 800, LIKELY_BYTES_MAX]);
        assert_eq!(bytes(Layout::Fixed { key_len: 100, value_len: 900 }, 1000), 0);
    }
}
