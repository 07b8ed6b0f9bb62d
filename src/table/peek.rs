//! Lookups that take no latch.
//!
//! Most pairs lie in the primary page of their bucket. For these a lookup copies what it needs, the slots and then one
//! record, and asks afterwards whether anybody changed the frame meanwhile (`pager/pool.rs`, "peeked"). It writes
//! nothing that others see, so any number of threads look up side by side without a cache line in common; one thread
//! gains little by it (docs/benchmarks.md, "What was tried"). All else - overflow pages, extents, frames that are not
//! resident, a change in between - is left to the lookup under the latch, which gives the same answers and is what tests
//! compare this one with.

use super::chain::Key;
use super::page::{self, INLINE};
use super::{Table, linear};
use crate::pager::pool::Peek;

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

impl Table {
    /// Looks for `key` without a latch; adds its value to `value`.
    #[inline]
    pub(super) fn peek(&self, key: Key<'_>, value: Option<&mut Vec<u8>>) -> Peeked {
        let view = self.view();
        let bucket = linear::bucket(key.hash, view.max_bucket);
        let (frame, start) = self.location(bucket);
        let Some(peek) = self.pager.pool().peek(frame) else { return Peeked::Unknown };
        let mut record = [0; RECORD_BYTES_MAX];
        let found = self.peek_page(&peek, start, key, value.is_some(), &mut record);
        // The order matters: what was loaded counts if the bucket was still the right one after that, and if that,
        // too, was so before the frame changed.
        if !self.still_holds(view, key.hash, bucket) || !peek.unchanged() {
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

    /// Nothing here may be believed yet: the page may be changing under our hands.
    #[inline]
    fn peek_page(&self, peek: &Peek<'_>, start: usize, key: Key<'_>, whole: bool, record: &mut [u8]) -> Found {
        const SLOTS_END: usize = page::HEADER_BYTES + SLOTS_MAX * page::SLOT_BYTES;
        let mut slots = [0; SLOTS_END];
        peek.load(start, &mut slots[..page::HEADER_BYTES]);
        let count = page::slot_count(&slots);
        if count > SLOTS_MAX || key.bytes.len() > self.key_bytes_inline_max() {
            return Found::Unknown;
        }
        let slots_end = page::HEADER_BYTES + (count * page::SLOT_BYTES).next_multiple_of(8);
        peek.load(start + page::HEADER_BYTES, &mut slots[page::HEADER_BYTES..slots_end]);
        let mut base = 0;
        while base < count {
            let mut mask = page::tag_mask(&slots, base, key.tag);
            if count - base < 16 {
                mask &= (1 << (count - base)) - 1;
            }
            while mask != 0 {
                let offset = page::slot_offset(&slots, base + mask.trailing_zeros() as usize);
                match self.peek_record(peek, start, offset, key, whole, record) {
                    Found::Nothing => {}
                    found => return found,
                }
                mask &= mask - 1;
            }
            base += 16;
        }
        let bits = page::filter_bits(key.tag);
        let overflow = page::next(&slots) != 0 && page::filter(&slots) & bits == bits;
        if overflow { Found::Unknown } else { Found::Nothing }
    }

    /// Copies the record at `offset` of the page and compares its key; with `whole`, its value too.
    #[inline]
    fn peek_record(
        &self,
        peek: &Peek<'_>,
        start: usize,
        offset: usize,
        key: Key<'_>,
        whole: bool,
        record: &mut [u8],
    ) -> Found {
        if offset >= self.page_bytes {
            return Found::Unknown;
        }
        // Whole words from the one that the record begins in; first as far as the key goes if the lengths are short.
        let skip = offset % 8;
        let most = self.page_bytes.saturating_sub(offset - skip).min(record.len());
        let first = (skip + page::HEAD_BYTES_MAX + key.bytes.len()).next_multiple_of(8).min(most);
        peek.load(start + offset - skip, &mut record[..first]);
        let Some(head) = page::record_head(&record[skip..first]) else { return Found::Unknown };
        let value = skip + head.head_bytes + head.key_bytes;
        let end = value + head.value_bytes;
        if head.form != INLINE || offset - skip + end > self.page_bytes {
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
            peek.load(start + offset - skip + first, &mut record[first..end.next_multiple_of(8).min(most)]);
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
