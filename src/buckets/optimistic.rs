//! Optimistic reads: lookups that take no latch.
//!
//! Most pairs are in the primary page of their bucket or in its one overflow page. For these a lookup copies what it
//! needs, the slots and then one record, and then checks that the frame has not changed (`pager/pool.rs`). It writes
//! nothing that other threads read, so threads share no cache line. All other cases - longer chains, extents, frames
//! that are not resident, a change in between, and the one lookup in 512 that is sampled (`activity.rs`) - go to the
//! lookup under the latch, which returns the same answers; tests compare the two.
//!
//! ```text
//! snapshot_bucket   view -> bucket -> version of its frame -> header and slots -> slots with the tag
//! validate          the records of these slots, then those of the overflow page -> check view and versions again
//! ```
//!
//! There are two halves so that a lookup of many keys does the first for all before the second for any (`many.rs`).

use super::activity;
use super::address::{BucketAddress, View};
use super::bucket::HashedKey;
use super::linear_hash::Buckets;
use super::overflow::OverflowPage;
use super::page::{self, INLINE};
use super::tags::{Matches, SLOTS_AT_ONCE, WORDS_AT_ONCE};
use crate::linear;
use crate::pager::pool::{FrameNo, OptimisticRead};

/// The result of an optimistic read.
pub(super) enum Optimistic {
    /// The key is present; its value was appended to the buffer, if there is one.
    Found,
    /// The key is absent.
    Absent,
    /// The page changed, or the case needs the latch: repeat the lookup under it.
    Retry,
}

/// Longer keys are looked up under the latch.
const KEY_BYTES_MAX: usize = 300;

/// The slots of a page, read without a latch. Not yet valid: the page may have been changing.
struct PageSnapshot<'t> {
    read: OptimisticRead<'t>,
    frame: FrameNo,
    /// The page's offset in the frame, and its length.
    start: usize,
    len: usize,
    /// The slots that have the key's tag.
    matches: Matches,
    /// The reference to the overflow page; 0 if the filter excludes the key.
    next: u64,
}

/// A bucket read without a latch.
pub(super) struct BucketSnapshot<'t> {
    view: View,
    bucket: linear::Bucket,
    primary: PageSnapshot<'t>,
    overflow: Option<PageSnapshot<'t>>,
}

impl Buckets {
    /// Looks up `key` without a latch; appends its value to `value`.
    #[inline]
    pub(super) fn read_optimistically(&self, key: HashedKey<'_>, value: Option<&mut Vec<u8>>) -> Optimistic {
        if activity::is_due() {
            return Optimistic::Retry;
        }
        match self.snapshot_bucket(key, false) {
            Some(snapshot) => self.validate(key, &snapshot, value),
            None => Optimistic::Retry,
        }
    }

    /// Reads the slots of the bucket of `key`; prefetches its page unless `prefetched`. `None`: the case needs the
    /// latch.
    #[inline]
    pub(super) fn snapshot_bucket(&self, key: HashedKey<'_>, prefetched: bool) -> Option<BucketSnapshot<'_>> {
        if key.bytes.len() > self.key_bytes_inline_max().min(KEY_BYTES_MAX) || self.pager.is_forked() {
            return None;
        }
        let BucketAddress { view, bucket, frame, start } = self.address(key.hash);
        if !prefetched {
            self.prefetch_page(frame, start..start + self.page_bytes);
        }
        let primary = self.snapshot(frame, start, self.page_bytes, page::KIND_BUCKET, key)?;
        Some(BucketSnapshot { view, bucket, primary, overflow: None })
    }

    #[inline]
    fn snapshot(
        &self,
        frame: FrameNo,
        start: usize,
        len: usize,
        kind: u8,
        key: HashedKey<'_>,
    ) -> Option<PageSnapshot<'_>> {
        let read = self.pager.pool().read_optimistically(frame)?;
        let mut header = [0; page::HEADER_BYTES];
        read.load(start, &mut header);
        let count = page::slot_count(&header);
        // A bucket that was always empty has no kind. Pages with very many pairs are read under the latch.
        let other = kind == page::KIND_OVERFLOW && page::kind(&header) != kind;
        let slots = start + page::HEADER_BYTES;
        if count > SLOTS_AT_ONCE || slots + 8 * WORDS_AT_ONCE > self.pager.frame_bytes() || other {
            return None;
        }
        // The words after a short page, in its frame, do not matter.
        let words = read.words_at::<WORDS_AT_ONCE>(slots);
        let matches = Matches::of(words, count, key.tag);
        let bits = page::filter_bits(key.tag);
        let behind = kind == page::KIND_OVERFLOW || page::filter(&header) & bits == bits;
        Some(PageSnapshot { read, frame, start, len, matches, next: if behind { page::next(&header) } else { 0 } })
    }

    /// Reads the slots of the overflow page. `None`: the bucket has no overflow page, or the case needs the latch.
    #[inline]
    fn snapshot_overflow(&self, primary: &PageSnapshot<'_>, key: HashedKey<'_>) -> Option<PageSnapshot<'_>> {
        let (frame, range) = self.overflow_of(primary)?;
        self.prefetch_page(frame, range.clone());
        self.snapshot(frame, range.start, range.len(), page::KIND_OVERFLOW, key)
    }

    #[inline]
    fn overflow_of(&self, primary: &PageSnapshot<'_>) -> Option<(FrameNo, std::ops::Range<usize>)> {
        let overflow: OverflowPage = self.parse_overflow(primary.next).ok()??;
        Some(self.overflow_range(overflow))
    }

    /// Prefetches the overflow page of the bucket of `hash`, if an optimistic read finds one.
    #[inline]
    pub(crate) fn prefetch_overflow(&self, hash: u64) {
        let BucketAddress { frame, start, .. } = self.address(hash);
        let Some(read) = self.pager.pool().read_optimistically(frame) else { return };
        let mut header = [0; page::HEADER_BYTES];
        read.load(start, &mut header);
        if let Ok(Some(overflow)) = self.parse_overflow(page::next(&header)) {
            let (frame, range) = self.overflow_range(overflow);
            self.prefetch_page(frame, range);
        }
    }

    /// Prefetches what `validate` will read: the first record with the tag, or, without such a record, the slots of the
    /// overflow page. `true` for the latter: call [`add_overflow`](Self::add_overflow) next.
    #[inline]
    pub(super) fn prefetch_next(&self, snapshot: &BucketSnapshot<'_>) -> bool {
        if !snapshot.primary.matches.is_empty() {
            self.prefetch_record(&snapshot.primary);
            return false;
        }
        let Some((frame, range)) = self.overflow_of(&snapshot.primary) else { return false };
        self.prefetch_page(frame, range);
        true
    }

    /// Reads the slots of the overflow page and prefetches the first record with the tag.
    #[inline]
    pub(super) fn add_overflow<'t>(&'t self, snapshot: &mut BucketSnapshot<'t>, key: HashedKey<'_>) {
        snapshot.overflow = self.snapshot_overflow(&snapshot.primary, key);
        if let Some(overflow) = snapshot.overflow.as_ref().filter(|o| !o.matches.is_empty()) {
            self.prefetch_record(overflow);
        }
    }

    #[inline]
    fn prefetch_record(&self, snapshot: &PageSnapshot<'_>) {
        // Most records are shorter; the rest of a longer one is loaded when it is copied.
        const RECORD_BYTES: usize = 128;
        let Some(slot) = snapshot.matches.first() else { return };
        let offset = snapshot.offset(slot);
        self.pager.pool().prefetch(snapshot.frame, snapshot.start + offset, RECORD_BYTES);
    }

    /// Compares the records of a snapshot; appends the value of `key` to `value`.
    #[inline]
    pub(super) fn validate(
        &self,
        key: HashedKey<'_>,
        snapshot: &BucketSnapshot<'_>,
        value: Option<&mut Vec<u8>>,
    ) -> Optimistic {
        let before = value.as_ref().map_or(0, |value| value.len());
        let mut value = value;
        let mut found = snapshot.primary.find(key, value.as_deref_mut());
        if matches!(found, Optimistic::Absent) && snapshot.primary.next != 0 {
            found = self.find_behind(snapshot, key, value.as_deref_mut());
        }
        // The order matters: the loads count if the bucket was still the right one after them, and that test counts if
        // it was made before the frame changed.
        if !self.still_holds(snapshot.view, key.hash, snapshot.bucket) || !snapshot.primary.read.unchanged() {
            found = Optimistic::Retry;
        }
        if let (Optimistic::Retry, Some(value)) = (&found, value) {
            value.truncate(before);
        }
        found
    }

    fn find_behind(
        &self,
        snapshot: &BucketSnapshot<'_>,
        key: HashedKey<'_>,
        value: Option<&mut Vec<u8>>,
    ) -> Optimistic {
        let here;
        let overflow = match &snapshot.overflow {
            Some(overflow) => overflow,
            None => match self.snapshot_overflow(&snapshot.primary, key) {
                Some(overflow) => {
                    here = overflow;
                    &here
                }
                None => return Optimistic::Retry,
            },
        };
        match overflow.find(key, value) {
            // A longer chain.
            Optimistic::Absent if overflow.next != 0 => Optimistic::Retry,
            // The bucket's latch guards its overflow pages, but not against eviction.
            _ if !overflow.read.unchanged() => Optimistic::Retry,
            found => found,
        }
    }
}

/// Bytes of a record that are read first: the lengths and a short key, in whole words.
const SHORT_BYTES: usize = 64;
/// Bytes for the lengths and any key, in whole words.
const LONG_BYTES: usize = (8 + page::HEAD_BYTES_MAX + KEY_BYTES_MAX).next_multiple_of(8);

impl PageSnapshot<'_> {
    /// Offset in the page of a slot's record; unchecked.
    #[inline]
    fn offset(&self, slot: usize) -> usize {
        let at = page::HEADER_BYTES + slot / 2 * 8;
        self.read.words(self.start + at, 1).map(|two| two >> (32 * (slot % 2) + 16) & 0xFFFF).sum::<u64>() as usize
    }

    /// Compares the records whose slots have the tag; appends the value of `key` to `value`.
    #[inline]
    fn find(&self, key: HashedKey<'_>, mut value: Option<&mut Vec<u8>>) -> Optimistic {
        for slot in self.matches {
            let offset = self.offset(slot);
            let found = if key.bytes.len() <= SHORT_BYTES - 8 - page::HEAD_BYTES_MAX {
                self.record::<SHORT_BYTES>(offset, key, value.as_deref_mut())
            } else {
                self.record::<LONG_BYTES>(offset, key, value.as_deref_mut())
            };
            if !matches!(found, Optimistic::Absent) {
                return found;
            }
        }
        Optimistic::Absent
    }

    /// Compares the key of the record at `offset` of the page, and appends its value to `value` if it is `key`.
    #[inline]
    fn record<const HEAD: usize>(&self, offset: usize, key: HashedKey<'_>, value: Option<&mut Vec<u8>>) -> Optimistic {
        if offset >= self.len {
            return Optimistic::Retry;
        }
        // Whole words from the one where the record begins, up to the key's end if the lengths are short.
        let skip = offset % 8;
        let most = self.len - (offset - skip);
        let mut bytes = [0; HEAD];
        let first = (skip + page::HEAD_BYTES_MAX + key.bytes.len()).next_multiple_of(8).min(most).min(HEAD);
        self.read.load(self.start + offset - skip, &mut bytes[..first]);
        let Some(head) = page::record_head(&bytes[skip..first]) else { return Optimistic::Retry };
        let key_end = skip + head.head_bytes + head.key_bytes;
        let end = key_end + head.value_bytes;
        if head.form != INLINE || end > most {
            // The key may be this one, or longer than any record's; or the record exceeds its page.
            return Optimistic::Retry;
        }
        if head.key_bytes != key.bytes.len() {
            return Optimistic::Absent;
        }
        if key_end > first {
            return Optimistic::Retry;
        }
        if &bytes[key_end - head.key_bytes..key_end] != key.bytes {
            return Optimistic::Absent;
        }
        if let Some(value) = value {
            let start = self.start + offset - skip;
            self.read.copy_to(start + key_end..start + end, value);
        }
        Optimistic::Found
    }
}
