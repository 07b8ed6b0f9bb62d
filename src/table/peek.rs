//! Lookups that take no latch.
//!
//! Most pairs lie in the primary page of their bucket or in the one overflow page behind it. For these a lookup copies
//! what it needs, the slots and then one record, and asks afterwards whether anybody changed the frame meanwhile
//! (`pager/pool.rs`, "peeked"). It writes nothing that others see, so any number of threads look up side by side without
//! a cache line in common. All else - longer chains, extents, frames that are not resident, a change in between - is
//! left to the lookup under the latch, which gives the same answers and is what tests compare this one with.
//!
//! ```text
//! sight   view -> bucket -> version of its frame -> header and slots -> which slots have the tag
//! judge   the records of these slots, then those of the overflow page -> view and versions still the same?
//! ```
//!
//! The two halves are apart so that a lookup of many keys does the first for all before the second for any (`many.rs`).

use super::chain::{Block, Key};
use super::page::{self, INLINE};
use super::{Table, View, linear};
use crate::pager::pool::{FrameNo, Peek};

/// What a peek found out.
pub(super) enum Peeked {
    /// The key is there; its value was added to the buffer, if there is one.
    Found,
    /// The key is not there.
    Absent,
    /// Look again, under the latch.
    Unknown,
}

/// Pages with more pairs than this are looked at under the latch.
const SLOTS_MAX: usize = 64;
/// So are records longer than this.
const RECORD_BYTES_MAX: usize = 320;

/// The slots of a page, looked at without a latch. Nothing in it may be believed yet: the page may be changing.
struct Glance<'t> {
    peek: Peek<'t>,
    frame: FrameNo,
    /// Where the page starts in the frame, and how long it is.
    start: usize,
    len: usize,
    /// Bit i is set where slot i has the key's tag.
    matches: u64,
    /// What `next` says, unless the filter says that the key is not behind it: then 0.
    next: u64,
}

/// A bucket looked at without a latch.
pub(super) struct Sight<'t> {
    view: View,
    bucket: linear::Bucket,
    primary: Glance<'t>,
    overflow: Option<Glance<'t>>,
}

impl Table {
    /// Looks for `key` without a latch; adds its value to `value`.
    #[inline]
    pub(super) fn peek(&self, key: Key<'_>, value: Option<&mut Vec<u8>>) -> Peeked {
        match self.sight(key) {
            Some(sight) => self.judge(key, &sight, value),
            None => Peeked::Unknown,
        }
    }

    /// Looks at the slots of the bucket of `key`. `None`: only the latch will do.
    #[inline]
    pub(super) fn sight(&self, key: Key<'_>) -> Option<Sight<'_>> {
        if key.bytes.len() > self.key_bytes_inline_max() || self.pager.is_forked() {
            return None;
        }
        let view = self.view();
        let bucket = linear::bucket(key.hash, view.max_bucket);
        let (frame, start) = self.location(bucket);
        let primary = self.glance(frame, start, self.page_bytes, page::KIND_BUCKET, key)?;
        Some(Sight { view, bucket, primary, overflow: None })
    }

    #[inline]
    fn glance(&self, frame: FrameNo, start: usize, len: usize, kind: u8, key: Key<'_>) -> Option<Glance<'_>> {
        let peek = self.pager.pool().peek(frame)?;
        const SLOTS_END: usize = page::HEADER_BYTES + SLOTS_MAX * page::SLOT_BYTES;
        let mut slots = [0; SLOTS_END];
        peek.load(start, &mut slots[..page::HEADER_BYTES]);
        let count = page::slot_count(&slots);
        let slots_end = page::HEADER_BYTES + (count * page::SLOT_BYTES).next_multiple_of(8);
        // A bucket that nothing was ever put into has no kind.
        let other = kind == page::KIND_OVERFLOW && page::kind(&slots) != kind;
        if count > SLOTS_MAX || slots_end > len || other {
            return None;
        }
        peek.load(start + page::HEADER_BYTES, &mut slots[page::HEADER_BYTES..slots_end]);
        let mut matches = 0;
        for base in (0..count).step_by(16) {
            matches |= u64::from(page::tag_mask(&slots, base, key.tag)) << base;
        }
        // Bits past the slot count mean nothing.
        matches &= u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
        let bits = page::filter_bits(key.tag);
        let behind = kind == page::KIND_OVERFLOW || page::filter(&slots) & bits == bits;
        Some(Glance { peek, frame, start, len, matches, next: if behind { page::next(&slots) } else { 0 } })
    }

    /// Looks at the slots of the overflow page. `None`: there is none, or only the latch will do.
    #[inline]
    fn glance_behind(&self, primary: &Glance<'_>, key: Key<'_>) -> Option<Glance<'_>> {
        let (frame, range) = self.overflow_of(primary)?;
        self.glance(frame, range.start, range.len(), page::KIND_OVERFLOW, key)
    }

    #[inline]
    fn overflow_of(&self, primary: &Glance<'_>) -> Option<(FrameNo, std::ops::Range<usize>)> {
        let block: Block = self.parse_block(primary.next).ok()??;
        Some(self.block_range(block))
    }

    /// Asks for the lines that a new record of the bucket of `hash` would be written to, as far as a look without a latch
    /// tells: in the primary page, or the header and slots of the overflow page.
    #[inline]
    pub(super) fn prefetch_places(&self, hash: u64) {
        let (frame, start) = self.location(linear::bucket(hash, self.view().max_bucket));
        let Some(peek) = self.pager.pool().peek(frame) else { return };
        let mut header = [0; page::HEADER_BYTES];
        peek.load(start, &mut header);
        let heap = self.page_bytes.saturating_sub(page::heap_bytes(&header));
        self.pager.pool().prefetch(frame, start + heap.saturating_sub(1), 1);
        if let Ok(Some(block)) = self.parse_block(page::next(&header)) {
            const HEADER_AND_SLOTS: usize = 64;
            let (frame, range) = self.block_range(block);
            self.pager.pool().prefetch(frame, range.start, HEADER_AND_SLOTS);
        }
    }

    /// Asks for what `judge` will look at: the first record with the tag, or, where there is none, the slots of the
    /// overflow page, which [`sight_behind`](Self::sight_behind) is to look at next. Says whether it was the latter.
    #[inline]
    pub(super) fn prefetch_sighted(&self, sight: &Sight<'_>) -> bool {
        if sight.primary.matches != 0 {
            self.prefetch_record(&sight.primary);
            return false;
        }
        let Some((frame, range)) = self.overflow_of(&sight.primary) else { return false };
        const HEADER_AND_SLOTS: usize = 64;
        self.pager.pool().prefetch(frame, range.start, HEADER_AND_SLOTS);
        true
    }

    /// Looks at the slots of the overflow page and asks for the first record with the tag.
    #[inline]
    pub(super) fn sight_behind<'t>(&'t self, sight: &mut Sight<'t>, key: Key<'_>) {
        sight.overflow = self.glance_behind(&sight.primary, key);
        if let Some(overflow) = sight.overflow.as_ref().filter(|o| o.matches != 0) {
            self.prefetch_record(overflow);
        }
    }

    #[inline]
    fn prefetch_record(&self, glance: &Glance<'_>) {
        // Most records are shorter than this; the rest of a longer one comes when it is copied.
        const RECORD_BYTES: usize = 128;
        let offset = glance.offset(glance.matches.trailing_zeros() as usize);
        self.pager.pool().prefetch(glance.frame, glance.start + offset, RECORD_BYTES);
    }

    /// Looks at the records in sight; adds the value of `key` to `value`.
    #[inline]
    pub(super) fn judge(&self, key: Key<'_>, sight: &Sight<'_>, value: Option<&mut Vec<u8>>) -> Peeked {
        let mut record = [0; RECORD_BYTES_MAX];
        let whole = value.is_some();
        let mut found = sight.primary.find(key, whole, &mut record);
        if matches!(found, Found::Nothing) && sight.primary.next != 0 {
            found = self.find_behind(sight, key, whole, &mut record);
        }
        // The order matters: what was loaded counts if the bucket was still the right one after that, and if that,
        // too, was so before the frame changed.
        if !self.still_holds(sight.view, key.hash, sight.bucket) || !sight.primary.peek.unchanged() {
            return Peeked::Unknown;
        }
        match found {
            Found::Value(range) => {
                if let Some(value) = value {
                    value.extend_from_slice(&record[range]);
                }
                Peeked::Found
            }
            Found::Nothing => Peeked::Absent,
            Found::Unknown => Peeked::Unknown,
        }
    }

    fn find_behind(&self, sight: &Sight<'_>, key: Key<'_>, whole: bool, record: &mut [u8]) -> Found {
        let here;
        let overflow = match &sight.overflow {
            Some(overflow) => overflow,
            None => match self.glance_behind(&sight.primary, key) {
                Some(overflow) => {
                    here = overflow;
                    &here
                }
                None => return Found::Unknown,
            },
        };
        match overflow.find(key, whole, record) {
            // A longer chain.
            Found::Nothing if overflow.next != 0 => Found::Unknown,
            // The bucket's latch guards its overflow pages, but not against being evicted.
            _ if !overflow.peek.unchanged() => Found::Unknown,
            found => found,
        }
    }
}

impl Glance<'_> {
    /// Where the record of a slot starts in the page, or would.
    #[inline]
    fn offset(&self, slot: usize) -> usize {
        let at = page::HEADER_BYTES + slot * page::SLOT_BYTES;
        let mut word = [0; 8];
        self.peek.load(self.start + at / 8 * 8, &mut word);
        usize::from(u16::from_le_bytes([word[at % 8 + 2], word[at % 8 + 3]]))
    }

    /// Looks at the records whose slots have the tag.
    #[inline]
    fn find(&self, key: Key<'_>, whole: bool, record: &mut [u8]) -> Found {
        let mut matches = self.matches;
        while matches != 0 {
            let offset = self.offset(matches.trailing_zeros() as usize);
            match self.record(offset, key, whole, record) {
                Found::Nothing => matches &= matches - 1,
                found => return found,
            }
        }
        Found::Nothing
    }

    /// Copies the record at `offset` of the page and compares its key; with `whole`, its value too.
    #[inline]
    fn record(&self, offset: usize, key: Key<'_>, whole: bool, record: &mut [u8]) -> Found {
        if offset >= self.len {
            return Found::Unknown;
        }
        // Whole words from the one that the record begins in; first as far as the key goes if the lengths are short.
        let skip = offset % 8;
        let start = self.start + offset - skip;
        let most = (self.len - (offset - skip)).min(record.len());
        let first = (skip + page::HEAD_BYTES_MAX + key.bytes.len()).next_multiple_of(8).min(most);
        self.peek.load(start, &mut record[..first]);
        let Some(head) = page::record_head(&record[skip..first]) else { return Found::Unknown };
        let value = skip + head.head_bytes + head.key_bytes;
        let end = value + head.value_bytes;
        if head.form != INLINE || offset - skip + end > self.len {
            // The key may be this one, or longer than any record's; or the record runs over its page.
            return Found::Unknown;
        }
        if head.key_bytes != key.bytes.len() {
            return Found::Nothing;
        }
        if value > first {
            return Found::Unknown;
        }
        if &record[value - head.key_bytes..value] != key.bytes {
            return Found::Nothing;
        }
        if !whole {
            return Found::Value(value..value);
        }
        if end > most {
            return Found::Unknown;
        }
        if end > first {
            self.peek.load(start + first, &mut record[first..end.next_multiple_of(8).min(most)]);
        }
        Found::Value(value..end)
    }
}

/// What seems to be in a page.
enum Found {
    Value(std::ops::Range<usize>),
    Nothing,
    Unknown,
}
