//! Overflow pages: pairs of a bucket that do not fit its primary page.
//!
//! ```text
//! primary page --next--> overflow page --next--> ... 0        usually none or one
//! ```
//!
//! An overflow page has the layout of a primary page, and the size it needs: some units of a frame, at most a frame.
//! The latch of the primary page's frame guards it, since nothing else refers to it.
//!
//! Only the primary page holds the location of the overflow page, so half of the puts of a growing table would take two
//! cache misses, one after the other. A copy of the location outside the pages (`expected.rs`) lets them overlap.
//!
//! Source: Seltzer & Yigit 1991, "Overflow Pages". Differs: one page of fitting size, not a chain of whole pages
//! (docs/architecture.md, "Overflow"). Not here: what a bucket does with them (`bucket.rs`), bytes in a page
//! (`page.rs`).

use super::expected::ExpectedPages;
use super::linear_hash::Buckets;
pub(crate) use super::page::OverflowPage;
use super::page::{self, Record};
use crate::error::Result;
use crate::linear;
use crate::pager::FRAME_UNITS;
use crate::pager::pool::part::PartGuard;
use crate::pager::pool::{FrameNo, FrameRef, ReadGuard};

/// A page grows in steps of this many bytes, so that few insertions replace it; the next split trims it. Also, with few
/// different lengths, a freed page is soon reused.
const STEP_BYTES: usize = 256;
/// An upper bound of the bytes of a new overflow page that are neither slots nor records, excluding the rest of its
/// last unit.
pub(super) const NEW_OVERFLOW_GAP_MAX: usize = page::HEADER_BYTES + STEP_BYTES;

/// Bytes of an overflow page to prefetch for one key before anything in it is read. Most pages are no longer.
pub(super) const PREFETCHED_BYTES: usize = 256;

impl Buckets {
    /// The overflow page that a page's `next` refers to, checked against the size of the file.
    #[inline]
    pub(super) fn parse_overflow(&self, bits: u64) -> Result<Option<OverflowPage>> {
        if bits == 0 {
            return Ok(None);
        }
        let overflow = OverflowPage { unit: bits >> 16, len: (bits & 0xFFFF) as u32 };
        let units = u64::from(FRAME_UNITS);
        let within = overflow.len >= 1
            && overflow.unit % units + u64::from(overflow.len) <= units
            && overflow.unit / units < u64::from(self.pager.frame_count());
        if !within {
            return Err(self
                .pager
                .corrupt(format!("an overflow page of {} units at unit {}", overflow.len, overflow.unit)));
        }
        Ok(Some(overflow))
    }

    #[inline]
    pub(super) fn overflow_range(&self, overflow: OverflowPage) -> (FrameNo, std::ops::Range<usize>) {
        let unit_bytes = self.pager.unit_bytes();
        let start = (overflow.unit % u64::from(FRAME_UNITS)) as usize * unit_bytes;
        ((overflow.unit / u64::from(FRAME_UNITS)) as FrameNo, start..start + overflow.len as usize * unit_bytes)
    }

    /// Latches an overflow page's frame for reading; the range is the page.
    pub(super) fn read_overflow(&self, overflow: OverflowPage) -> Result<(ReadGuard<'_>, std::ops::Range<usize>)> {
        let (frame, range) = self.overflow_range(overflow);
        let place = self.place_apart(frame, &range)?;
        let frame = self.pager.read_at(frame, place)?;
        if page::kind(&frame[range.clone()]) != page::KIND_OVERFLOW {
            return Err(self.pager.corrupt(format!("unit {}: expected an overflow page", overflow.unit)));
        }
        Ok((frame, range))
    }

    #[inline(always)]
    pub(super) fn write_overflow_here(&self, overflow: OverflowPage) -> Result<PartGuard<'_>> {
        let (frame, range) = self.overflow_range(overflow);
        let place = self.place_apart(frame, &range)?;
        let bytes = overflow.len as usize * self.pager.unit_bytes();
        Ok(PartGuard::new(self.pager.write_at(frame, place)?, range.start, bytes))
    }

    pub(super) fn write_overflow(&self, overflow: OverflowPage) -> Result<PartGuard<'_>> {
        self.write_overflow_here(overflow)
    }

    /// The place of a frame with an overflow page; prefetches the page. Fails if its latch could wait forever.
    #[inline]
    fn place_apart(&self, frame: FrameNo, range: &std::ops::Range<usize>) -> Result<FrameRef<'_>> {
        let place = self.pager.pool().frame(frame);
        place.prefetch(range.start, PREFETCHED_BYTES);
        if place.is_latched() {
            self.check_apart(frame)?;
        }
        Ok(place)
    }

    /// Calls `visit` with each overflow page after `first`, its location and bytes, until it returns `Some`.
    pub(super) fn walk_chain<R>(
        &self,
        first: u64,
        mut visit: impl FnMut(OverflowPage, &[u8]) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        // The pages of a chain do not overlap, so together they, and their content, are no longer than the file.
        let mut left = u64::from(self.pager.frame_count()) * u64::from(FRAME_UNITS);
        let mut next = self.parse_overflow(first)?;
        while let Some(overflow) = next {
            left = left
                .checked_sub(overflow.len.into())
                .ok_or_else(|| self.pager.corrupt("a chain of overflow pages runs in a circle"))?;
            let (frame, range) = self.read_overflow(overflow)?;
            let bytes = &frame[range];
            if let Some(found) = visit(overflow, bytes)? {
                return Ok(Some(found));
            }
            next = self.parse_overflow(page::next(bytes))?;
        }
        Ok(None)
    }

    /// A new overflow page with the records of `old`, if any, and one more.
    pub(super) fn new_overflow(
        &self,
        old: Option<&[u8]>,
        next: u64,
        tag: u16,
        record: Record<'_>,
    ) -> Result<OverflowPage> {
        let used = old.map_or(0, page::used_bytes) + record.bytes() + page::SLOT_BYTES;
        let stepped = (page::HEADER_BYTES + used).next_multiple_of(STEP_BYTES) - page::HEADER_BYTES;
        let overflow = self.allocate_overflow(stepped)?;
        let written = self.write_overflow(overflow).and_then(|mut page| {
            let bytes = &mut page.bytes_mut();
            page::init(bytes, page::KIND_OVERFLOW, 0);
            if let Some(old) = old {
                page::copy_records(old, bytes).map_err(|d| self.damaged(d))?;
            }
            page::set_next(bytes, next);
            let inserted = page::insert(bytes, tag, record).map_err(|d| self.damaged(d))?;
            assert!(inserted, "the page was made large enough");
            Ok(())
        });
        if let Err(e) = written {
            self.free_overflow(&[overflow]);
            return Err(e);
        }
        Ok(overflow)
    }

    /// Allocates an overflow page for `used_bytes` of slots and records, at most a frame.
    pub(super) fn allocate_overflow(&self, used_bytes: usize) -> Result<OverflowPage> {
        let len = self.overflow_units(used_bytes);
        Ok(OverflowPage { unit: self.pager.allocate(len)?, len })
    }

    /// Units of an overflow page for `used_bytes` of slots and records, at most a frame.
    pub(super) fn overflow_units(&self, used_bytes: usize) -> u32 {
        let bytes = (page::HEADER_BYTES + used_bytes).min(self.pager.frame_bytes());
        // Lengths within a page have 16 bits. A page of 65536 bytes is still legal, since its heap is smaller.
        bytes.div_ceil(self.pager.unit_bytes()) as u32
    }

    /// Frees overflow pages that nothing refers to any more. An error loses their space until the next compaction, but
    /// no pair, so it does not undo the change.
    pub(super) fn free_overflow(&self, overflow_pages: &[OverflowPage]) {
        for overflow in overflow_pages {
            let _ = self.pager.free(overflow.unit, overflow.len);
        }
    }
}

/// The expected locations of overflow pages.
impl Buckets {
    /// Prefetches the overflow page that `bucket` is expected to have.
    #[inline]
    pub(crate) fn prefetch_expected(&self, bucket: linear::Bucket) {
        if ExpectedPages::has(bucket) {
            self.prefetch_numbered(bucket);
        }
    }

    fn prefetch_numbered(&self, bucket: linear::Bucket) {
        let Some(unit) = self.expected.unit(bucket) else { return };
        // It was within the file when it was noted, and the addresses of frames stay reserved.
        let (frame, range) = self.overflow_range(OverflowPage { unit, len: 1 });
        self.pager.pool().frame(frame).prefetch(range.start, PREFETCHED_BYTES);
    }

    /// Notes where the overflow page of `bucket` is, whose primary page is `primary`.
    #[inline(always)]
    pub(crate) fn note_expected(&self, bucket: linear::Bucket, primary: &[u8]) {
        if ExpectedPages::has(bucket) {
            self.note_next(bucket, page::next(primary));
        }
    }

    fn note_next(&self, bucket: linear::Bucket, next: u64) {
        let unit = self.parse_overflow(next).ok().flatten().map_or(0, |overflow| overflow.unit);
        self.expected.note(bucket, unit, || !self.pager.pool().has_buffers());
    }
}

#[cfg(test)]
impl Buckets {
    /// The number of buckets with numbers, and how many of these have an overflow page. Panics if a number is out of
    /// date.
    pub(crate) fn check_expected(&self) -> (usize, usize) {
        let (mut all, mut with_overflow) = (0, 0);
        for bucket in (0..=self.view().max_bucket()).filter(|bucket| ExpectedPages::has(*bucket)) {
            let (frame, start) = self.location(bucket);
            let next = page::next(&self.pager.read(frame).unwrap()[start..start + self.page_bytes]);
            let unit = self.parse_overflow(next).unwrap().map(|overflow| overflow.unit);
            assert_eq!(self.expected.unit(bucket), unit, "bucket {bucket}");
            (all, with_overflow) = (all + 1, with_overflow + usize::from(unit.is_some()));
        }
        (all, with_overflow)
    }

    /// Notes a wrong number for every bucket.
    pub(crate) fn note_nonsense(&self) {
        for bucket in 0..=self.view().max_bucket() {
            let unit = u64::from(bucket) * 7919 % (u64::from(self.pager.frame_count()) * 64);
            self.expected.note(bucket, unit, || true);
        }
    }
}
