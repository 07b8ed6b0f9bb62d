//! Scans: all pairs in hash order, resumable by one number.
//!
//! Hash order is the order of the reversed hashes (`linear.rs`). In it every bucket is one interval, whatever the
//! table's size, so a position means the same before and after splits, merges, a close and an open. A scan copies the
//! pages of one bucket at a time and returns the pairs from its position on: a key that is present throughout is
//! returned exactly once, however the table changes in the meantime.
//!
//! The pairs stay where they are in the copy. What is sorted is one word for each, its **place**: the bits of its
//! position that differ within the bucket, and below them the offset of its record.

use super::linear_hash::Buckets;
use super::page::{self, INLINE, PAIR_IN_EXTENT};
use crate::error::Result;
use crate::linear::Position;
use std::ops::Range;

/// A scan of a table, made by [`Table::scan`](crate::Table::scan) and [`Table::scan_from`](crate::Table::scan_from).
///
/// As an iterator it returns owned pairs; [`next_ref`](Scan::next_ref) lends them without a copy.
pub struct Scan<'t> {
    buckets: &'t Buckets,
    /// Start of the next bucket; `None` after the last.
    position: Option<Position>,
    /// End of the scan, inclusive.
    last: Position,
    /// The pages of the current bucket, and after them keys and values from extents.
    bytes: Vec<u8>,
    pages: Vec<Range<usize>>,
    /// A word for each pair, in hash order: position, then the offset of its record in `bytes`.
    places: Vec<u64>,
    offset_bits: u32,
    given: usize,
    /// The pairs with extents: the offset of the record, and where its key and value are.
    in_extents: Vec<(usize, Pair)>,
    large: (Vec<u8>, Vec<u8>),
    /// Whether frames are read together with those around them.
    brings_around: bool,
}

/// Where a pair is in the copied bytes.
#[derive(Clone, Copy)]
struct Pair {
    key: usize,
    key_end: usize,
    /// Where the value begins and ends; [`LARGE`]: it is too large to copy in advance, and read when it is next.
    value: usize,
    value_end: usize,
}

const LARGE: usize = usize::MAX;

/// Longer values are not copied in advance with the bucket.
const LARGE_VALUE_BYTES: u32 = 1 << 16;

impl Buckets {
    /// Scans the pairs from one position to another, inclusive, or to the end.
    pub(crate) fn scan_from(&self, from: Position, to: Option<Position>) -> Scan<'_> {
        Scan {
            buckets: self,
            position: Some(from),
            last: to.unwrap_or(Position(u64::MAX)),
            bytes: Vec::new(),
            pages: Vec::new(),
            places: Vec::new(),
            offset_bits: 0,
            given: 0,
            in_extents: Vec::new(),
            large: (Vec::new(), Vec::new()),
            // A scan of some positions needs few of the frames around.
            brings_around: to.is_none() && self.pager.brings_around(),
        }
    }
}

impl Scan<'_> {
    /// Where to resume after the pairs returned so far; `None` at the end.
    ///
    /// Pairs with equal hashes are never divided: if the last returned pair has the hash of the next, the cursor is
    /// before both, and a resumed scan returns the last one again. To avoid that, take pairs until
    /// [`at_boundary`](Self::at_boundary).
    pub fn cursor(&self) -> Option<u64> {
        match self.places.get(self.given) {
            Some(&place) => Some(self.position_at(place).0),
            None => self.position.map(|position| position.0),
        }
    }

    /// Whether the hash of the next pair differs from that of the last returned one.
    pub fn at_boundary(&self) -> bool {
        match (self.given.checked_sub(1).and_then(|i| self.places.get(i)), self.places.get(self.given)) {
            (Some(&last), Some(&next)) => self.position_at(last) != self.position_at(next),
            _ => true,
        }
    }

    /// The next pair, borrowed until the next call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) where pages have
    /// to be read from the file. After an error, the next call goes on after the bucket that caused it.
    #[inline]
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key_bytes, value_bytes, at)) = self.next_short() else { return self.next_other() };
        self.given += 1;
        Ok(Some(self.bytes[at..][..key_bytes + value_bytes].split_at(key_bytes)))
    }

    /// The lengths of the next pair and where it begins, if both lengths are short and it has no extent.
    #[inline]
    fn next_short(&self) -> Option<(usize, usize, usize)> {
        let at = self.offset_of(*self.places.get(self.given)?);
        match self.bytes[at..] {
            [first @ ..0x80, second @ ..0x80, ..] if first & 3 == INLINE => {
                Some(((first >> 2).into(), second.into(), at + 2))
            }
            _ => None,
        }
    }

    /// [`next_ref`](Self::next_ref) for a longer pair, one with an extent, and for the first of a bucket.
    #[inline(never)]
    fn next_other(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            let Some(&place) = self.places.get(self.given) else {
                if self.next_bucket()? {
                    continue;
                }
                return Ok(None);
            };
            self.given += 1;
            let at = self.offset_of(place);
            let head = page::head_at(&self.bytes, at).map_err(|d| self.buckets.damaged(d))?;
            let page::RecordHead { form, head_bytes, key_bytes, value_bytes } = head;
            if form == INLINE {
                let pair = &self.bytes[at + head_bytes..][..key_bytes + value_bytes];
                return Ok(Some(pair.split_at(key_bytes)));
            }
            let Pair { key, key_end, value, value_end } = self.pair_in_extent(at);
            if value == LARGE {
                self.large.0.clear();
                self.large.0.extend_from_slice(&self.bytes[key..key_end]);
                if self.read_large()? {
                    return Ok(Some((&self.large.0, &self.large.1)));
                }
                continue; // removed since
            }
            return Ok(Some((&self.bytes[key..key_end], &self.bytes[value..value_end])));
        }
    }

    /// The offset of the record at `place`.
    #[inline]
    fn offset_of(&self, place: u64) -> usize {
        (place & !(u64::MAX << self.offset_bits)) as usize
    }

    fn pair_in_extent(&self, at: usize) -> Pair {
        let index = self.in_extents.binary_search_by_key(&at, |&(at, _)| at);
        self.in_extents[index.expect("noted when the bucket was copied")].1
    }

    /// The position of the pair at `place`.
    fn position_at(&self, place: u64) -> Position {
        let at = self.offset_of(place);
        let hash = match page::record_at(&self.bytes, at) {
            Ok(record) if record.form == PAIR_IN_EXTENT => self.buckets.record_hash(record).unwrap_or(0),
            Ok(record) => self.buckets.hash.hash(record.key),
            Err(_) => 0, // it was checked when it was copied
        };
        Position::of(hash)
    }

    fn read_large(&mut self) -> Result<bool> {
        let (key, value) = &mut self.large;
        value.clear();
        self.buckets.get(self.buckets.key(key), value)
    }

    /// Copies the next bucket; `false` after the last.
    #[inline(never)]
    fn next_bucket(&mut self) -> Result<bool> {
        let Some(position) = self.position else { return Ok(false) };
        self.places.clear();
        self.given = 0;
        let buckets = self.buckets;
        if self.brings_around {
            buckets.pager.bring_around(buckets.address(position.hash()).frame);
        }
        let read = buckets.read_bucket(position.hash());
        // Under the latch the bucket does not split, so this view is as good as the one that led to it. Advance before
        // an error can return, so that a caller that goes on reaches the end.
        let view = buckets.view().linear();
        self.position = view.next_bucket(position).filter(|&next| next <= self.last);
        let (frame, range) = read?;
        let copied = self.copy_bucket(position, view.level(view.bucket_of(position.hash())), &frame[range]);
        drop(frame);
        if copied.is_err() {
            // A partial bucket is not in order.
            self.places.clear();
        }
        copied.map(|()| true)
    }

    /// Copies the pages of the bucket with this primary page, and sorts the places of its pairs.
    fn copy_bucket(&mut self, from: Position, level: u32, primary: &[u8]) -> Result<()> {
        self.bytes.clear();
        self.pages.clear();
        self.in_extents.clear();
        self.bytes.extend_from_slice(primary);
        self.pages.push(0..primary.len());
        if page::next(primary) != 0 {
            if self.brings_around
                && let Ok(Some(overflow)) = self.buckets.parse_overflow(page::next(primary))
            {
                self.buckets.pager.bring_around(self.buckets.overflow_range(overflow).0);
            }
            self.buckets.walk_chain(page::next(primary), |_, bytes| {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                self.pages.push(start..self.bytes.len());
                Ok(None::<()>)
            })?;
        }
        self.offset_bits = usize::BITS - self.bytes.len().leading_zeros();
        for index in 0..self.pages.len() {
            self.place_pairs(from, level, self.pages[index].clone())?;
        }
        self.places.sort_unstable();
        self.in_extents.sort_unstable_by_key(|&(at, _)| at);
        // Where the offsets displaced low bits of the positions, these may decide.
        let (bits, lost) = (self.offset_bits, self.offset_bits > level);
        if lost && self.places.windows(2).any(|two| two[0] >> bits == two[1] >> bits) {
            let mut places = std::mem::take(&mut self.places);
            places.sort_by_cached_key(|&place| (self.position_at(place), place));
            self.places = places;
        }
        Ok(())
    }

    /// Adds the places of the pairs of a copied page, from position `from` on.
    fn place_pairs(&mut self, from: Position, level: u32, range: Range<usize>) -> Result<()> {
        let buckets = self.buckets;
        let page = &self.bytes[range.clone()];
        let slots = page::slots(page).map_err(|d| buckets.damaged(d))?;
        self.places.reserve(slots.len());
        // Records do not overlap. If slots shared one, a damaged page could expand to a thousand.
        let mut left = page.len();
        let mut has_extents = false;
        // `self.position` is where the next bucket begins, if that is still within the scan.
        let whole = from.0 << level == 0 && (self.position.is_some() || self.last.0 == u64::MAX);
        for (_, offset) in slots {
            let (record, bytes) = page::record_and_bytes(page, offset).map_err(|d| buckets.damaged(d))?;
            left = left.checked_sub(bytes).ok_or_else(|| buckets.damaged(page::RECORDS_OVERLAP))?;
            let position = Position::of(buckets.record_hash(record)?);
            if !whole && (position < from || position > self.last) {
                continue;
            }
            has_extents |= record.form != INLINE;
            // The first `level` bits are those of the bucket.
            let kept = (position.0 << (level % u64::BITS)) & (u64::MAX << self.offset_bits);
            self.places.push(kept | (range.start + offset) as u64);
        }
        if has_extents { self.copy_extents(range) } else { Ok(()) }
    }

    /// Copies the keys and values in extents that a copied page refers to.
    #[cold]
    fn copy_extents(&mut self, range: Range<usize>) -> Result<()> {
        let buckets = self.buckets;
        for index in 0..self.places.len() {
            let at = self.offset_of(self.places[index]);
            if !range.contains(&at) {
                continue;
            }
            let record = page::record_at(&self.bytes, at).map_err(|d| buckets.damaged(d))?;
            if record.form == INLINE {
                continue;
            }
            let extent = buckets.parse_extent(record)?;
            let in_extent = record.form == PAIR_IN_EXTENT;
            let key_in_record = page::offset_of(&self.bytes, record.key)..page::offset_of(&self.bytes, record.value);
            let mut key = key_in_record;
            if in_extent {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&buckets.read_extent_key(&extent)?);
                key = start..self.bytes.len();
            }
            let value = self.bytes.len();
            let large = extent.value_bytes > LARGE_VALUE_BYTES;
            if !large {
                buckets.read_extent_value(&extent, &mut self.bytes)?;
            }
            let (value, value_end) = if large { (LARGE, LARGE) } else { (value, self.bytes.len()) };
            self.in_extents.push((at, Pair { key: key.start, key_end: key.end, value, value_end }));
        }
        Ok(())
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_ref() {
            Ok(pair) => pair.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(e) => Some(Err(e)),
        }
    }
}
