//! Parts of values: lengths, ranges, and overwriting in place, without a copy of the whole value.
//!
//! Values in pages are short. A value in an extent is read or written in place, frame by frame, so the cost depends
//! only on the length of the part.
//!
//! Not here: whole values (`lookup.rs`, `bucket.rs`), the extents themselves (`extent.rs`).

use super::activity;
use super::bucket::{Bucket, HashedKey, PairLocation};
use super::linear_hash::Buckets;
use super::page::INLINE;
use crate::error::Result;
use crate::pager::pool::{ValueHeld, refuse_to_wait_with_values};
use std::ops::Range;

impl Buckets {
    /// Appends a part of the value of `key` to `part`. `choose` takes the value's length and returns the range, which
    /// is cut to the value. Returns the length of the value, `None` if the key is absent.
    pub(crate) fn get_part(
        &self,
        key: HashedKey<'_>,
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let (frame, range) = self.read_bucket(key.hash)?;
        let primary = &frame[range];
        let location = self.locate(primary, key)?;
        if activity::was_due() {
            self.sample(primary, key);
        }
        let Some(location) = location else { return Ok(None) };
        self.part_at(primary, location, choose, part).map(Some)
    }

    /// [`get_part`](Self::get_part) of the pair at `location`.
    fn part_at(
        &self,
        primary: &[u8],
        location: PairLocation,
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<usize> {
        // The page is latched: a write by `choose` is refused, as beside a value.
        let choose = |len| {
            let _held = ValueHeld::new();
            choose(len)
        };
        self.with_record(primary, location, |record| {
            let cut = |range: Range<usize>, len: usize| {
                let start = range.start.min(len);
                start..range.end.clamp(start, len)
            };
            if record.form == INLINE {
                let len = record.value.len();
                part.extend_from_slice(&record.value[cut(choose(len), len)]);
                return Ok(len);
            }
            let extent = self.parse_extent(record)?;
            let len = extent.value_bytes as usize;
            let range = cut(choose(len), len);
            part.reserve(range.len());
            let at = u64::from(extent.key_bytes) + range.start as u64;
            self.read_extent(&extent, at, range.len() as u64, |bytes| {
                part.extend_from_slice(bytes);
                true
            })?;
            Ok(len)
        })
    }
}

impl Bucket<'_> {
    /// Calls `work` with the value at `location` and its length; of one in an extent, only with its first `head_bytes`
    /// bytes.
    pub(crate) fn with_head<R>(
        &self,
        location: PairLocation,
        head_bytes: usize,
        work: impl FnOnce(&[u8], usize) -> R,
    ) -> Result<R> {
        if location.found.form == INLINE {
            return self
                .buckets
                .with_record(self.page(), location, |record| Ok(work(record.value, record.value.len())));
        }
        let mut head = Vec::new();
        let len = self.buckets.part_at(self.page(), location, |len| 0..len.min(head_bytes), &mut head)?;
        Ok(work(&head, len))
    }

    /// Overwrites the value at `location` from byte `at` on. Returns false, with nothing changed, if `part` is not
    /// within it.
    pub(crate) fn write_part(
        &mut self,
        key: HashedKey<'_>,
        location: PairLocation,
        at: usize,
        part: &[u8],
    ) -> Result<bool> {
        let (extent, len) = self.value_at(location)?;
        if at.checked_add(part.len()).is_none_or(|end| end > len) {
            return Ok(false);
        }
        // A thread that holds a value may be refused the latch of any frame, and a half written part could not be
        // undone.
        match extent.filter(|_| refuse_to_wait_with_values().is_ok()) {
            Some(extent) => self
                .buckets
                .write_extent(&extent, u64::from(extent.key_bytes) + at as u64, part)
                .inspect_err(|e| self.buckets.pager.poison(e.message()))?,
            None => {
                let mut value = Vec::new();
                let buckets = self.buckets;
                buckets.with_record(self.page(), location, |record| buckets.read_value(record, &mut value))?;
                value[at..at + part.len()].copy_from_slice(part);
                self.set(key, Some(location), &value)?;
            }
        }
        Ok(true)
    }
}
