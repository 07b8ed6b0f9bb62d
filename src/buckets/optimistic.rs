//! Optimistic reads: lookups that take no latch.
//!
//! Most pairs are in the primary page of their bucket or in its one overflow page. For these a lookup copies what it
//! needs, the slots and then one record, and then checks that the frame has not changed (`pager/pool/`). It writes
//! nothing that other threads read, so threads share no cache line. All other cases - longer chains, extents, frames
//! that are not resident, a change in between, and the one lookup in 512 that is sampled (`activity.rs`) - go to the
//! lookup under the latch, which returns the same answers; tests compare the two.
//!
//! ```text
//! snapshot_bucket   view -> bucket -> version of its frame -> header and slots -> slots with the tag
//! validate          the records of these slots, then those of the overflow page -> check view and versions again
//! ```
//!
//! There are two halves so that a lookup of many keys runs the first half for all of them, then the second (`many.rs`).

use super::activity;
use super::address::{BucketAddress, UsualPage, View};
use super::bucket::HashedKey;
use super::linear_hash::Buckets;
use super::overflow::{OverflowPage, PREFETCHED_BYTES};
use super::page::{self, INLINE};
use super::tags::{EIGHTS_AT_ONCE, Runs, SLOTS_AT_ONCE, first_match};
use crate::pager::pool::optimistic::{OptimisticRead, RunsRead};
use crate::pager::pool::{FrameNo, FrameRef};
use crate::pager::sink::Sink;

/// The result of an optimistic read.
pub(super) enum Optimistic {
    /// The key is present; its value was appended to the buffer, if there is one.
    Found,
    /// The key is absent.
    Absent,
    /// The page changed, or the case needs the latch: repeat the lookup under it.
    Retry,
}

/// The slots of a page, read without a latch. Not yet valid: the page may have been changing.
struct PageSnapshot<'t> {
    read: OptimisticRead<'t>,
    /// The page's offset in the frame, and its length.
    start: usize,
    len: usize,
    /// The first slot that has the key's tag.
    slot: Option<usize>,
    /// The reference to the overflow page; 0 if the filter excludes the key.
    next: u64,
}

/// A bucket read without a latch.
pub(super) struct BucketSnapshot<'t> {
    view: View,
    primary: PageSnapshot<'t>,
    overflow: Option<PageSnapshot<'t>>,
}

impl Buckets {
    /// Looks up `key` without a latch. Appends its value to `value`, which must be empty. The key's fields are passed
    /// one by one: a struct would be passed through memory.
    #[inline]
    pub(super) fn read_optimistically(&self, key: &[u8], hash: u64, value: Option<&mut impl Sink>) -> Optimistic {
        let key = HashedKey::new(key, hash);
        if activity::is_due() || key.bytes.len() > self.limits.key_inline_max || self.pager.is_forked() {
            return Optimistic::Retry;
        }
        let BucketAddress { view, frame, start, .. } = self.prefetch_bucket(key.hash);
        let Some(primary) = self.snapshot(frame, start, self.page_bytes, page::KIND_BUCKET, key) else {
            return Optimistic::Retry;
        };
        self.validate(key, view, &primary, None, value)
    }

    /// Reads the slots of the bucket of `key`. `None`: the case needs the latch.
    #[inline]
    pub(super) fn snapshot_bucket(&self, key: HashedKey<'_>) -> Option<BucketSnapshot<'_>> {
        if key.bytes.len() > self.limits.key_inline_max || self.pager.is_forked() {
            return None;
        }
        let BucketAddress { view, frame, start, .. } = self.address(key.hash);
        let primary = self.snapshot(frame, start, self.page_bytes, page::KIND_BUCKET, key)?;
        Some(BucketSnapshot { view, primary, overflow: None })
    }

    #[inline]
    fn snapshot<'t>(
        &'t self,
        frame: FrameRef<'t>,
        start: usize,
        len: usize,
        kind: u8,
        key: HashedKey<'_>,
    ) -> Option<PageSnapshot<'t>> {
        let read = frame.read_optimistically()?;
        // A page may be shorter than what is read; the bytes after it are ignored.
        let (words, runs) = read.words_and_runs::<{ page::RUNS_START }, EIGHTS_AT_ONCE>(start)?;
        let header = page::Header::of(words);
        let count = header.slot_count();
        // A bucket that was always empty has no kind. Pages with too many slots are read under the latch.
        let other = kind == page::KIND_OVERFLOW && header.kind() != kind;
        if count > SLOTS_AT_ONCE || other {
            return None;
        }
        let slot = first_match(runs, count, key.tag);
        let bits = page::filter_bits(key.tag);
        let behind = kind == page::KIND_OVERFLOW || header.filter & bits == bits;
        Some(PageSnapshot { read, start, len, slot, next: if behind { header.next } else { 0 } })
    }

    /// Reads the slots of the overflow page. `None`: the bucket has no overflow page, or the case needs the latch.
    #[inline]
    fn snapshot_overflow<'t>(&'t self, next: u64, key: HashedKey<'_>) -> Option<PageSnapshot<'t>> {
        let (frame, range) = self.overflow_of(next)?;
        let frame = self.pager.pool().frame(frame);
        frame.prefetch(range.start, PREFETCHED_BYTES);
        self.snapshot(frame, range.start, range.len(), page::KIND_OVERFLOW, key)
    }

    #[inline]
    fn overflow_of(&self, next: u64) -> Option<(FrameNo, std::ops::Range<usize>)> {
        let overflow: OverflowPage = self.parse_overflow(next).ok()??;
        Some(self.overflow_range(overflow))
    }

    /// Prefetches the lines that a put of a record of `bytes` bytes touches besides header and slots, in a bucket whose
    /// head is in the cache: the record with the tag, the location of a new record, or the overflow page.
    #[inline]
    pub(crate) fn prefetch_put(&self, hash: u64, address: BucketAddress<'_>, bytes: usize) {
        let Some((header, record)) = Self::look_ahead(hash, address) else { return };
        let (count, heap_bytes) = (header.slot_count(), header.heap_bytes());
        // Prefetching lines outside the page is harmless.
        let end = address.start + self.page_bytes;
        if let Some(offset) = record {
            address.frame.prefetch_ends(address.start + offset, bytes);
        } else if page::HEADER_BYTES + (count + 1) * page::SLOT_BYTES + heap_bytes + bytes <= self.page_bytes {
            address.frame.prefetch_ends(end.wrapping_sub(heap_bytes + bytes), bytes);
        } else if let Some((frame, range)) = self.overflow_of(header.next) {
            self.pager.pool().frame(frame).prefetch(range.start, PREFETCHED_BYTES);
        }
    }

    /// Prefetches the lines that an edit that moves records touches besides header and slots, in a bucket whose head is
    /// in the cache: the record with the tag and those before it in the page, or the overflow page.
    #[inline]
    pub(crate) fn prefetch_moved(&self, hash: u64, address: BucketAddress<'_>) {
        // All of a page of usual size; of a larger one the beginning.
        const BYTES_MAX: usize = 1024;
        // One cache line. One more on each side: a record grows towards the first, and its value may reach into the
        // last.
        const STEP_BYTES: usize = 64;
        let Some((header, record)) = Self::look_ahead(hash, address) else { return };
        if let Some(offset) = record {
            let first = self.page_bytes.saturating_sub(header.heap_bytes() + STEP_BYTES) / STEP_BYTES * STEP_BYTES;
            let bytes = (offset + 2 * STEP_BYTES).saturating_sub(first).min(BYTES_MAX);
            address.frame.prefetch_exactly(address.start + first, bytes);
        } else if let Some((frame, range)) = self.overflow_of(header.next) {
            self.prefetch_page(self.pager.pool().frame(frame), range);
        }
    }

    /// The header of a bucket's page, and the offset in it of the first record with the tag of `hash`. Good only for
    /// prefetches, as the page may be changing. `None` if there are many slots or the frame is not in memory.
    #[inline]
    fn look_ahead(hash: u64, address: BucketAddress<'_>) -> Option<(page::Header, Option<usize>)> {
        let read = address.frame.read_optimistically()?;
        let (words, runs) = read.words_and_runs::<{ page::RUNS_START }, EIGHTS_AT_ONCE>(address.start)?;
        let header = page::Header::of(words);
        if header.slot_count() > SLOTS_AT_ONCE {
            return None;
        }
        let record = first_match(runs, header.slot_count(), page::tag(hash)).map(|slot| {
            let slot_end = address.start + page::HEADER_BYTES + (slot + 1) * page::SLOT_BYTES;
            (read.load8(slot_end - 8) >> 48) as usize
        });
        Some((header, record))
    }

    /// Prefetches what `validate` will read: the first record with the tag, or, without such a record, the slots of the
    /// overflow page. Returns true for the latter: then call [`add_overflow`](Self::add_overflow) next.
    #[inline]
    pub(super) fn prefetch_next(&self, snapshot: &BucketSnapshot<'_>, usual: UsualPage) -> bool {
        if snapshot.primary.slot.is_some() {
            snapshot.primary.prefetch_record(usual);
            return false;
        }
        let Some((frame, range)) = self.overflow_of(snapshot.primary.next) else { return false };
        self.pager.pool().frame(frame).prefetch_exactly(range.start, usual.head_bytes);
        true
    }

    /// Reads the slots of the overflow page and prefetches the first record with the tag.
    #[inline]
    pub(super) fn add_overflow<'t>(&'t self, snapshot: &mut BucketSnapshot<'t>, key: HashedKey<'_>, usual: UsualPage) {
        snapshot.overflow = self.snapshot_overflow(snapshot.primary.next, key);
        if let Some(overflow) = &snapshot.overflow {
            overflow.prefetch_record(usual);
        }
    }

    /// Compares the records of a snapshot. Appends the value of `key` to `value`, which must be empty.
    #[inline]
    pub(super) fn validate_snapshot(
        &self,
        key: HashedKey<'_>,
        BucketSnapshot { view, primary, overflow }: &BucketSnapshot<'_>,
        value: &mut Vec<u8>,
    ) -> Optimistic {
        self.validate(key, *view, primary, overflow.as_ref(), Some(value))
    }

    #[inline]
    fn validate(
        &self,
        key: HashedKey<'_>,
        view: View,
        primary: &PageSnapshot<'_>,
        overflow: Option<&PageSnapshot<'_>>,
        mut value: Option<&mut impl Sink>,
    ) -> Optimistic {
        let mut found = match primary.slot {
            Some(slot) => primary.find_at(slot, key, value.as_deref_mut()),
            None => match primary.next {
                0 => Optimistic::Absent,
                next => self.find_behind(next, overflow, key.bytes, key.hash, value.as_deref_mut()),
            },
        };
        // The order matters. The loads are valid if the bucket was still the right one after them. That test in turn is
        // valid if the frame had not changed before it.
        if !self.still_holds(view, key.hash) || !primary.read.unchanged() {
            found = Optimistic::Retry;
        }
        if let (Optimistic::Retry, Some(value)) = (&found, value) {
            value.clear();
        }
        found
    }

    fn find_behind(
        &self,
        next: u64,
        overflow: Option<&PageSnapshot<'_>>,
        key: &[u8],
        hash: u64,
        value: Option<&mut impl Sink>,
    ) -> Optimistic {
        let key = HashedKey::new(key, hash);
        let here;
        let overflow = match overflow {
            Some(overflow) => overflow,
            None => match self.snapshot_overflow(next, key) {
                Some(overflow) => {
                    here = overflow;
                    &here
                }
                None => return Optimistic::Retry,
            },
        };
        let found = match overflow.slot {
            Some(slot) => overflow.find_at(slot, key, value),
            // A longer chain.
            None if overflow.next != 0 => Optimistic::Retry,
            None => Optimistic::Absent,
        };
        match found {
            // The bucket's latch guards its overflow pages against changes, but not against eviction.
            _ if !overflow.read.unchanged() => Optimistic::Retry,
            found => found,
        }
    }
}

impl<const COUNT: usize> Runs for RunsRead<'_, COUNT> {
    #[inline(always)]
    fn fixed<const RUN: usize>(&self) -> [u128; 2] {
        self.fixed::<RUN>()
    }

    #[inline(always)]
    fn any(&self, run: usize) -> [u128; 2] {
        self.any(run)
    }
}

impl PageSnapshot<'_> {
    /// Offset in the page of a slot's record; unchecked.
    #[inline]
    fn offset(&self, slot: usize) -> usize {
        // The offset is the upper half of a slot; its loads overlap with those of the tag before it.
        let slot = self.start + page::HEADER_BYTES + slot * page::SLOT_BYTES;
        (self.read.load8(slot + page::SLOT_BYTES - 8) >> 48) as usize
    }

    /// Prefetches a record of usual length with the tag, if there is one. The rest of a longer one is loaded when it is
    /// copied.
    #[inline]
    fn prefetch_record(&self, usual: UsualPage) {
        if let Some(slot) = self.slot {
            self.read.frame.prefetch_ends(self.start + self.offset(slot), usual.record_bytes);
        }
    }

    /// Compares the record of `slot`, the first one with the tag; appends the value of `key` to `value`. If the record
    /// has another key, the lookup needs the latch: a second slot may have the tag, and a loop here would cost the
    /// common lookup its registers.
    #[inline]
    fn find_at(&self, slot: usize, key: HashedKey<'_>, value: Option<&mut impl Sink>) -> Optimistic {
        match self.record(self.offset(slot), key, value) {
            Optimistic::Absent => Optimistic::Retry,
            found => found,
        }
    }

    /// Compares the key of the record at `offset` of the page, and appends its value to `value` if it is `key`.
    #[inline]
    fn record(&self, offset: usize, key: HashedKey<'_>, value: Option<&mut impl Sink>) -> Optimistic {
        // An offset beyond the page gives an end beyond it: bytes beyond the frame are loaded as zeros.
        let end_of_page = self.start + self.len;
        let start = self.start + offset;
        let first = self.read.load_up_to_8(start, 8);
        // Each length is below 128; or else they take up to seven bytes: longer ones do not fit a page.
        let head = match first & 0x8080 {
            0 => page::RecordHead::short(first),
            _ => match page::long_head(&first.to_le_bytes()) {
                Some(head) => head,
                None => return Optimistic::Retry,
            },
        };
        let key_start = start + head.head_bytes;
        let key_end = key_start + head.key_bytes;
        let end = key_end + head.value_bytes;
        if head.form != INLINE || end > end_of_page {
            // The key may be this one, or longer than any record's; or the record exceeds its page.
            return Optimistic::Retry;
        }
        if head.key_bytes != key.bytes.len() {
            return Optimistic::Absent;
        }
        if !self.read.has_bytes(key_start, key.bytes) {
            return Optimistic::Absent;
        }
        if let Some(value) = value {
            self.read.copy_to(key_end..end, value);
        }
        Optimistic::Found
    }
}
