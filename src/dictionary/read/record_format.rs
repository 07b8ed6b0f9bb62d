//! The format and order of a file's records, and where in its page a record is expected.
//!
//! Positions are uniform, so a record's position says how far into the pages it is, with a known deviation.

use crate::dictionary::format::block;
use crate::dictionary::format::ends::{FileHeader, Footer};
use crate::dictionary::format::layout::{Compression, Layout, Order};
use crate::dictionary::format::record;
use std::ops::Range;

/// If a page has at most this many starts, comparing the keys of its records one by one is faster than hashing some of
/// them first.
pub(super) const FEW_STARTS: usize = 5;

/// The most bytes of a record that are prefetched before its start is known.
const LIKELY_BYTES_MAX: u64 = 2048;

/// The format and order of a file's records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordFormat {
    pub layout: Layout,
    pub compression: Compression,
    /// Whether they are in hash order.
    pub ordered: bool,
    /// The most raw bytes that a compressed block can have.
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
    /// For the records of a file with these ends, whose pages have bodies of `body_bytes`.
    pub fn of(header: &FileHeader, footer: &Footer, body_bytes: u64) -> Self {
        let one_size = header.layout.record_bytes().filter(|_| header.compression == Compression::None);
        let per_page = one_size.map_or(0, |bytes| (body_bytes << 16) / bytes);
        let average_bytes = footer.stream_bytes / footer.pairs.max(1);
        let few = header.layout == Layout::Varied && average_bytes >= body_bytes / FEW_STARTS as u64;
        let (longest_key, longest_value) = (u64::from(footer.key_len.1), u64::from(footer.value_len.1));
        // The record that completes a block may be the longest.
        let block_bytes = u64::from(header.block_bytes) + longest_key + longest_value + record::HEAD_BYTES_MAX as u64;
        RecordFormat {
            layout: header.layout,
            compression: header.compression,
            ordered: header.order == Order::Hash,
            // The footer may claim any lengths, and a small file must not take much memory.
            block_bytes_max: block_bytes.min(block::compressed_bytes_max(header.block_bytes)),
            gap: (u64::MAX / footer.pairs.max(1)).max(1),
            pairs: footer.pairs,
            per_page,
            // A record at the location from the index is about `wide` from the key. The distance computed from
            // positions is exact to within the square root of the number of records in between; this is 1.5 times that
            // on both sides.
            near: ((per_page.isqrt().isqrt() + 4) / 8).max(2),
            // 1.5 standard deviations on both sides. The standard deviation is largest in the middle of a page: half
            // the square root of the number of records in it.
            wide: 1 + ((9 * per_page) >> 18).isqrt(),
            record_bytes: one_size.unwrap_or(0),
            likely_bytes: if few { average_bytes.min(LIKELY_BYTES_MAX) } else { 0 },
        }
    }

    /// Which part of the body of the first of `pages` pages, or beyond its end, probably has the record that is
    /// `expected` there (see `Query` in `search.rs`).
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

    /// The number within a piece of the record of one size that is `expected` there (see `Query` in `search.rs`).
    #[inline]
    fn expected_number(&self, expected: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: u64 = 4000;

    /// Returns the format of a file of 1,000 records.
    fn format(layout: Layout, record_bytes: u64) -> RecordFormat {
        of_pairs(layout, record_bytes, 1000)
    }

    fn of_pairs(layout: Layout, record_bytes: u64, pairs: u64) -> RecordFormat {
        let stream_bytes = record_bytes.saturating_mul(pairs);
        RecordFormat::of(&header(layout), &Footer { pairs, stream_bytes, ..Footer::default() }, BODY)
    }

    fn header(layout: Layout) -> FileHeader {
        FileHeader {
            page_bytes: 4096,
            layout,
            compression: Compression::None,
            block_bytes: 0,
            order: Order::Hash,
            hash_id: 0,
            hash_seed: 0,
            hash_check: 0,
            types: String::new(),
        }
    }

    #[test]
    fn a_block_is_no_larger_than_a_writer_makes_it_whatever_the_footer_says() {
        let compressed_max = block::COMPRESSED_MAX as u64;
        for (block_bytes, longest, expected) in [
            (1 << 20, u32::MAX, 2 << 20),
            (1000, u32::MAX, compressed_max),
            (1000, 100, 1000 + 2 * 100 + record::HEAD_BYTES_MAX as u64),
        ] {
            let header = FileHeader { compression: Compression::Lz4, block_bytes, ..header(Layout::Varied) };
            let footer = Footer { pairs: 1, key_len: (0, longest), value_len: (0, longest), ..Footer::default() };
            assert_eq!(RecordFormat::of(&header, &footer, BODY).block_bytes_max, expected);
        }
    }

    #[test]
    fn a_long_record_is_likely_around_the_expected_byte_or_across_the_border() {
        let format = format(Layout::Varied, 1200);
        let half = 1 << 31;
        assert_eq!(format.likely_part(half, 1, BODY), 800..2300);
        assert_eq!(format.likely_part(half, 2, BODY), 2800..5200);
        // The part is within its page, whatever the index says.
        assert_eq!((format.likely_part(0, 1, BODY), format.likely_part(u64::MAX, 1, BODY)), (0..300, 2800..4000));
    }

    #[test]
    fn records_around_a_guess_are_always_as_many_if_there_are() {
        let format = format(Layout::Fixed { key_len: 12, value_len: 4 }, 16);
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
        let format = of_pairs(Layout::Fixed { key_len: 12, value_len: 4 }, 16, 1 << 20);
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
