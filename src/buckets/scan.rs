//! Scans: all pairs in hash order, resumable by one number.
//!
//! Hash order is the order of the reversed hashes (`linear.rs`). In it every bucket is one interval, whatever the
//! table's size, so a position means the same before and after splits, merges, a close and an open. A scan copies one
//! bucket at a time, sorted, and returns the pairs from its position on: a key that is present throughout is returned
//! exactly once, however the table changes in the meantime.

use super::linear_hash::Buckets;
use super::page::{self, INLINE, PAIR_IN_EXTENT};
use crate::error::Result;
use crate::linear::Position;

/// A scan of a table, made by [`Table::scan`](crate::Table::scan) and [`Table::scan_from`](crate::Table::scan_from).
///
/// As an iterator it returns owned pairs; [`next_ref`](Scan::next_ref) lends them without a copy.
pub struct Scan<'t> {
    buckets: &'t Buckets,
    /// Start of the next bucket; `None` after the last.
    position: Option<Position>,
    /// End of the scan, inclusive.
    last: Position,
    /// The pairs of the current bucket in the order of its pages, and the bytes of those.
    pairs: Vec<Pair>,
    bytes: Vec<u8>,
    /// Their positions and indexes, in hash order.
    order: Vec<(Position, usize)>,
    given: usize,
    large: (Vec<u8>, Vec<u8>),
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
            pairs: Vec::new(),
            bytes: Vec::new(),
            order: Vec::new(),
            given: 0,
            large: (Vec::new(), Vec::new()),
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
        match self.order.get(self.given) {
            Some((position, _)) => Some(position.0),
            None => self.position.map(|position| position.0),
        }
    }

    /// Whether the hash of the next pair differs from that of the last returned one.
    pub fn at_boundary(&self) -> bool {
        match (self.given.checked_sub(1).and_then(|i| self.order.get(i)), self.order.get(self.given)) {
            (Some(last), Some(next)) => last.0 != next.0,
            _ => true,
        }
    }

    /// The next pair, borrowed until the next call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) where pages have
    /// to be read from the file. After an error, the next call goes on after the bucket that caused it.
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            let Some(&(_, index)) = self.order.get(self.given) else {
                if self.next_bucket()? {
                    continue;
                }
                return Ok(None);
            };
            let Pair { key, key_end, value, value_end } = self.pairs[index];
            self.given += 1;
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

    fn read_large(&mut self) -> Result<bool> {
        let (key, value) = &mut self.large;
        value.clear();
        self.buckets.get(self.buckets.key(key), value)
    }

    /// Copies the next bucket; `false` after the last.
    fn next_bucket(&mut self) -> Result<bool> {
        let Some(position) = self.position else { return Ok(false) };
        self.pairs.clear();
        self.bytes.clear();
        self.order.clear();
        self.given = 0;
        let buckets = self.buckets;
        let read = buckets.read_bucket(position.hash());
        // Under the latch the bucket does not split, so this view is as good as the one that led to it. Advance before
        // an error can return, so that a caller that goes on reaches the end.
        self.position = buckets.view().linear().next_bucket(position).filter(|&next| next <= self.last);
        let (frame, range) = read?;
        let copied = self.copy_page(position, &frame[range.clone()]).and_then(|()| {
            let next = page::next(&frame[range]);
            buckets.walk_chain(next, |_, bytes| self.copy_page(position, bytes).map(|()| None::<()>))
        });
        drop(frame);
        if copied.is_err() {
            // A partial bucket is not in order.
            self.order.clear();
        }
        // The index keeps pairs of equal hashes in the order of the pages.
        self.order.sort_unstable();
        copied.map(|_| true)
    }

    fn copy_page(&mut self, from: Position, page: &[u8]) -> Result<()> {
        let buckets = self.buckets;
        let base = self.bytes.len();
        self.bytes.extend_from_slice(page);
        for record in page::records(page) {
            let (_, record) = record.map_err(|d| buckets.damaged(d))?;
            let position = Position::of(buckets.record_hash(record)?);
            if position < from || position > self.last {
                continue;
            }
            self.order.push((position, self.pairs.len()));
            if record.form == INLINE {
                let key = base + page::offset_of(page, record.key);
                let value = key + record.key.len();
                self.pairs.push(Pair { key, key_end: value, value, value_end: value + record.value.len() });
                continue;
            }
            let extent = buckets.parse_extent(record)?;
            let key = self.bytes.len();
            if record.form == PAIR_IN_EXTENT {
                self.bytes.extend_from_slice(&buckets.read_extent_key(&extent)?);
            } else {
                self.bytes.extend_from_slice(record.key);
            }
            let key_end = self.bytes.len();
            if extent.value_bytes > LARGE_VALUE_BYTES {
                self.pairs.push(Pair { key, key_end, value: LARGE, value_end: LARGE });
                continue;
            }
            buckets.read_extent_value(&extent, &mut self.bytes)?;
            self.pairs.push(Pair { key, key_end, value: key_end, value_end: self.bytes.len() });
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
