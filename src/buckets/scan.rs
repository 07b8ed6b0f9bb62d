//! Scans: all pairs, bucket by bucket, resumable by one number.
//!
//! Hash order is the order of the reversed hashes (`linear.rs`). In it every bucket is one interval, whatever the
//! table's size, so a position keeps its meaning across splits, merges, a close and an open. A scan copies the records
//! of one bucket at a time and returns them from its position on. A key that is present throughout the scan is returned
//! exactly once, however the table changes in the meantime.
//!
//! ```text
//! latch the bucket -> copy the heaps of its pages, check their records -> release -> return one record after another
//! ```
//!
//! A heap has no gaps, so the copy needs no slots. Within a bucket, a scan of the whole table returns the pairs in the
//! order of the heap. Only a scan that may stop and resume between any two pairs sorts them into hash order. It sorts
//! one word per pair: the high bits are the bits of the pair's position that differ within the bucket, the low bits the
//! offset of its record.

use super::builder::copy_record;
use super::linear_hash::Buckets;
use super::page::{self, Damage, INLINE, PAIR_IN_EXTENT, RecordHead};
use crate::error::Result;
use crate::linear::Position;
use std::iter::FusedIterator;

/// A scan of a table, made by [`Table::scan`](crate::Table::scan), [`Table::scan_from`](crate::Table::scan_from) and
/// [`Table::scan_prefix`](crate::Table::scan_prefix).
///
/// As an iterator it returns owned pairs; [`next_ref`](Scan::next_ref) lends them without a copy.
pub struct Scan<'t> {
    buckets: &'t Buckets,
    /// Whether the pairs of a bucket come in hash order.
    ordered: bool,
    /// Start of the next bucket; `None` after the last.
    position: Option<Position>,
    /// End of the scan, inclusive.
    last: Position,
    /// Start of the current bucket, or of the part of it that is scanned.
    from: Position,
    /// The records of the current bucket, one after another.
    bytes: Vec<u8>,
    /// Offset of the next record in `bytes`, and of the one returned before. A bucket has less than 4 GiB, so the
    /// compiler need not consider that a sum of offset and lengths wraps.
    at: u32,
    given: u32,
    /// The pairs with extents: the offset of the record, and the range of key and value in `extents`.
    in_extents: Vec<(usize, Pair)>,
    extents: Vec<u8>,
    large: (Vec<u8>, Vec<u8>),
    sorting: Sorting,
    /// Whether frames are read together with their neighbours.
    brings_around: bool,
    /// The number of bytes that are read of a value in an extent; `None` for all.
    head_bytes: Option<usize>,
}

/// The buffers of a scan in hash order.
#[derive(Default)]
struct Sorting {
    /// The records as they were copied.
    bytes: Vec<u8>,
    /// One word per record: position, then offset in `bytes`.
    places: Vec<u64>,
}

/// The position after a pair, other than a short pair of the same bucket.
enum Other {
    Pair,
    Bucket,
    End,
}

/// The location of a pair in the copied extents.
#[derive(Clone, Copy)]
struct Pair {
    key: usize,
    value: usize,
    /// End of the value. `None`: it is too large to copy in advance, and is read when its pair is returned.
    end: Option<usize>,
}

/// Longer values are not copied in advance with the bucket.
const LARGE_VALUE_BYTES: u32 = 1 << 16;

impl Buckets {
    /// Scans all pairs, those of a bucket in any order.
    pub(crate) fn scan(&self) -> Scan<'_> {
        Scan { ordered: false, ..self.scan_from(Position(0), None) }
    }

    /// Scans the pairs from one position to another, inclusive, or to the end, in hash order.
    pub(crate) fn scan_from(&self, from: Position, to: Option<Position>) -> Scan<'_> {
        Scan {
            buckets: self,
            ordered: true,
            position: Some(from),
            last: to.unwrap_or(Position(u64::MAX)),
            from,
            bytes: Vec::new(),
            at: 0,
            given: 0,
            in_extents: Vec::new(),
            extents: Vec::new(),
            large: (Vec::new(), Vec::new()),
            sorting: Sorting::default(),
            // A scan of part of the table needs few of the neighbouring frames.
            brings_around: to.is_none() && self.pager.frames().brings_around(),
            head_bytes: None,
        }
    }
}

impl Scan<'_> {
    /// Makes this a scan for keys only: the values that it returns are unspecified, and large ones are not read.
    #[must_use]
    #[doc(hidden)] // the server's
    pub fn only_keys(self) -> Self {
        self.only_heads(0)
    }

    /// Makes this a scan for keys and the beginnings of values: a value that it returns is complete, or has at least
    /// its first `bytes` bytes. Of large values no more is read.
    #[must_use]
    #[doc(hidden)] // the server's
    pub fn only_heads(mut self, bytes: usize) -> Self {
        self.head_bytes = Some(bytes);
        self
    }

    /// Returns the position from which to resume after the pairs returned so far; `None` at the end.
    ///
    /// Pairs with equal hashes are never separated, and a [`Table::scan`](crate::Table::scan) never separates the pairs
    /// of one bucket. If the next pair belongs together with the last returned one, the cursor is before both, and a
    /// resumed scan returns the last one again. To avoid that, take pairs until [`at_boundary`](Self::at_boundary)
    /// returns true.
    pub fn cursor(&self) -> Option<u64> {
        let position = match ((self.at as usize) < self.bytes.len(), self.ordered) {
            (false, _) => self.position,
            (true, true) => Some(self.position_at(self.at)),
            (true, false) => Some(self.from),
        };
        position.map(|position| position.0)
    }

    /// Whether a scan resumed at the [`cursor`](Self::cursor) would return no pair a second time.
    pub fn at_boundary(&self) -> bool {
        self.at == 0
            || self.at as usize >= self.bytes.len()
            || self.ordered && self.position_at(self.given) != self.position_at(self.at)
    }

    /// The next pair, borrowed until the next call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if pages must be
    /// read from the file. After an error, the next call continues after the bucket that caused it.
    #[inline]
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        // Most records are short, and these stay in registers. One result for all kinds: with two, both would be in
        // memory.
        let (key, value) = loop {
            if let Some((start, key_bytes, end)) = self.next_short() {
                (self.given, self.at) = (self.at, end as u32); // within the bytes
                break self.bytes[start..end].split_at(key_bytes);
            }
            match self.next_other()? {
                Other::End => return Ok(None),
                Other::Bucket => {}
                Other::Pair => break self.other_pair(),
            }
        };
        Ok(Some((key, value)))
    }

    /// The next pair, if its lengths are short and it has no extent: the start of the key, its length, and the end of
    /// the value.
    #[inline]
    fn next_short(&self) -> Option<(usize, usize, usize)> {
        let at = self.at as usize;
        let head = u16::from_le_bytes(*self.bytes.get(at..at + 2)?.first_chunk()?);
        const LONG_OR_IN_EXTENT: u16 = 0x8083;
        if head & LONG_OR_IN_EXTENT != u16::from(INLINE) {
            return None;
        }
        let lengths = RecordHead::short(head.into());
        let (start, end) = (at + lengths.head_bytes, at + lengths.record_bytes());
        (end <= self.bytes.len()).then_some((start, lengths.key_bytes, end))
    }

    /// Advances to the next pair if it is a longer one or has an extent, else to the next bucket.
    fn next_other(&mut self) -> Result<Other> {
        loop {
            let at = self.at as usize;
            if at >= self.bytes.len() {
                return Ok(if self.next_bucket()? { Other::Bucket } else { Other::End });
            }
            let head = page::head_at(&self.bytes, at).map_err(|d| self.buckets.damaged(d))?;
            (self.given, self.at) = (self.at, (at + head.record_bytes()) as u32); // within the bytes
            if head.form == INLINE {
                return Ok(Other::Pair);
            }
            let Pair { key, value, end } = self.pair_in_extent(at);
            if end.is_some() {
                return Ok(Other::Pair);
            }
            self.large.0.clear();
            self.large.0.extend_from_slice(&self.extents[key..value]);
            if self.read_large()? {
                return Ok(Other::Pair);
            }
            // Removed since the bucket was copied: skip it.
        }
    }

    /// The pair that [`next_other`](Self::next_other) advanced to.
    fn other_pair(&self) -> (&[u8], &[u8]) {
        let record = page::record_at(&self.bytes, self.given as usize).expect("its lengths were read before");
        if record.form == INLINE {
            return (record.key, record.value);
        }
        let Pair { key, value, end } = self.pair_in_extent(self.given as usize);
        match end {
            Some(end) => self.extents[key..end].split_at(value - key),
            None => (&self.large.0, &self.large.1),
        }
    }

    fn pair_in_extent(&self, at: usize) -> Pair {
        let index = self.in_extents.binary_search_by_key(&at, |&(at, _)| at);
        self.in_extents[index.expect("noted when the bucket was copied")].1
    }

    /// The position of the pair whose record is at `at`.
    fn position_at(&self, at: u32) -> Position {
        position_in(self.buckets, &self.bytes, at as usize)
    }

    fn read_large(&mut self) -> Result<bool> {
        let (key, value) = &mut self.large;
        value.clear();
        self.buckets.get(self.buckets.key(key), value)
    }

    /// Copies the next bucket. Returns false after the last.
    fn next_bucket(&mut self) -> Result<bool> {
        let Some(from) = self.position else { return Ok(false) };
        (self.from, self.at) = (from, 0);
        self.bytes.clear();
        let (buckets, hash) = (self.buckets, from.hash());
        if self.brings_around {
            buckets.pager.frames().bring_around(buckets.address(hash).number);
        }
        let read = buckets.read_bucket(hash);
        // Under the latch the bucket does not split, so this view is as good as the one that led to it. Advance before
        // an error can return, so that a caller who continues after errors reaches the end.
        let view = buckets.view().linear();
        let level = view.level(view.bucket_of(hash));
        self.position = from.after_bucket(level).filter(|&next| next <= self.last);
        if let Some(next) = self.position {
            // Prefetched while this bucket's pairs are in use.
            buckets.prefetch_bucket(next.hash());
        }
        let (frame, range) = read?;
        // A bucket is returned as a whole or not at all.
        self.copy_bucket(level, &frame[range]).inspect_err(|_| self.bytes.clear())?;
        Ok(true)
    }

    /// Copies the records of the bucket with this primary page that are within the scan, and their extents.
    fn copy_bucket(&mut self, level: u32, primary: &[u8]) -> Result<()> {
        let buckets = self.buckets;
        let mut inline = add_records(&mut self.bytes, primary).map_err(|d| buckets.damaged(d))?;
        if page::next(primary) != 0 {
            if self.brings_around
                && let Ok(Some(overflow)) = buckets.parse_overflow(page::next(primary))
            {
                buckets.pager.frames().bring_around(buckets.overflow_range(overflow).0);
            }
            buckets.walk_chain(page::next(primary), |_, bytes| {
                inline &= add_records(&mut self.bytes, bytes).map_err(|d| buckets.damaged(d))?;
                Ok(None::<()>)
            })?;
        }
        // `self.position` is the start of the next bucket, if that is still within the scan.
        let whole = self.from.0 << level == 0 && (self.position.is_some() || self.last.0 == u64::MAX);
        if self.ordered || !whole {
            self.arrange(level, whole)?;
        }
        if inline { Ok(()) } else { self.copy_extents() }
    }

    /// Puts the copied records in hash order, and drops those outside the scan.
    fn arrange(&mut self, level: u32, whole: bool) -> Result<()> {
        let buckets = self.buckets;
        let damaged = |damage| buckets.damaged(damage);
        std::mem::swap(&mut self.bytes, &mut self.sorting.bytes);
        let Sorting { bytes, places } = &mut self.sorting;
        let offset_bits = usize::BITS - bytes.len().leading_zeros();
        let offset_of = |place: u64| (place & !(u64::MAX << offset_bits)) as usize;
        places.clear();
        let mut at = 0;
        while at < bytes.len() {
            let (record, record_bytes) = page::record_and_bytes(bytes, at).map_err(damaged)?;
            let position = Position::of(buckets.record_hash(record)?);
            if whole || position >= self.from && position <= self.last {
                // The first `level` bits are the same for the whole bucket.
                let kept = (position.0 << (level % u64::BITS)) & (u64::MAX << offset_bits);
                places.push(kept | at as u64);
            }
            at += record_bytes;
        }
        places.sort_unstable();
        // If offsets displaced low bits of the positions, positions that differ only there are compared in full.
        let lost = offset_bits > level;
        if lost && places.windows(2).any(|two| two[0] >> offset_bits == two[1] >> offset_bits) {
            places.sort_by_cached_key(|&place| (position_in(buckets, bytes, offset_of(place)), place));
        }
        self.bytes.clear();
        self.bytes.resize(bytes.len(), 0);
        let mut end = 0;
        for &place in &*places {
            let start = offset_of(place);
            let record_bytes = page::head_at(bytes, start).map_err(damaged)?.record_bytes();
            copy_record(&bytes[start..start + record_bytes], &mut self.bytes[end..end + record_bytes]);
            end += record_bytes;
        }
        self.bytes.truncate(end);
        Ok(())
    }

    /// Copies the keys and values in extents that the copied records refer to.
    #[cold]
    fn copy_extents(&mut self) -> Result<()> {
        let buckets = self.buckets;
        self.in_extents.clear();
        self.extents.clear();
        let mut next = 0;
        while next < self.bytes.len() {
            let at = next;
            let (record, record_bytes) = page::record_and_bytes(&self.bytes, at).map_err(|d| buckets.damaged(d))?;
            next += record_bytes;
            if record.form == INLINE {
                continue;
            }
            let extent = buckets.parse_extent(record)?;
            let key = self.extents.len();
            if record.form == PAIR_IN_EXTENT {
                self.extents.extend_from_slice(&buckets.read_extent_key(&extent)?);
            } else {
                self.extents.extend_from_slice(record.key);
            }
            let value = self.extents.len();
            let mut end = None;
            if let Some(bytes) = self.head_bytes {
                let bytes = u64::from(extent.value_bytes).min(bytes as u64);
                let extents = &mut self.extents;
                buckets.read_extent(&extent, extent.key_bytes.into(), bytes, |part| {
                    extents.extend_from_slice(part);
                    true
                })?;
                end = Some(self.extents.len());
            } else if extent.value_bytes <= LARGE_VALUE_BYTES {
                buckets.read_extent_value(&extent, &mut self.extents)?;
                end = Some(self.extents.len());
            }
            self.in_extents.push((at, Pair { key, value, end }));
        }
        Ok(())
    }
}

/// Appends the records of `page` to `bytes`. Returns whether all of them are inline.
fn add_records(bytes: &mut Vec<u8>, page: &[u8]) -> std::result::Result<bool, Damage> {
    let (heap, inline) = page::heap(page)?;
    if u32::try_from(bytes.len() + heap.len()).is_err() {
        return Err(Damage("a bucket of 4 GiB"));
    }
    bytes.extend_from_slice(heap);
    Ok(inline)
}

/// The position of the pair whose record is at `at` of `bytes`.
fn position_in(buckets: &Buckets, bytes: &[u8], at: usize) -> Position {
    let hash = match page::record_at(bytes, at) {
        Ok(record) => buckets.record_hash(record).unwrap_or(0),
        Err(_) => 0, // it was checked when it was copied
    };
    Position::of(hash)
}

/// After the last pair it stays at its end.
impl FusedIterator for Scan<'_> {}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_ref() {
            Ok(pair) => pair.map(|(key, value)| Ok((key.to_vec(), value.to_vec()))),
            Err(e) => Some(Err(e)),
        }
    }
}
