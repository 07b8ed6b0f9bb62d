//! Lookups that take no latch.
//!
//! Most pairs lie in the primary page of their bucket or in the one overflow page behind it. For these a lookup copies
//! what it needs, the slots and then one record, and asks afterwards whether anybody changed the frame meanwhile
//! (`pager/pool.rs`, "peeked"). It writes nothing that others see, so any number of threads look up side by side without
//! a cache line in common. All else - longer chains, extents, frames that are not resident, a change in between - is
//! left to the lookup under the latch, which gives the same answers and is what tests compare this one with.
//! So is one in some hundreds that is counted (`live.rs`).
//!
//! ```text
//! sight   view -> bucket -> version of its frame -> header and slots -> which slots have the tag
//! judge   the records of these slots, then those of the overflow page -> view and versions still the same?
//! ```
//!
//! The two halves are apart so that a lookup of many keys does the first for all before the second for any (`many.rs`).

use super::chain::{Block, Key};
use super::page::{self, INLINE};
use super::tags::{Matches, SLOTS_AT_ONCE, WORDS_AT_ONCE};
use super::{Seen, Table, View, linear, live};
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

/// Keys longer than this are looked for under the latch.
const KEY_BYTES_MAX: usize = 300;

/// The slots of a page, looked at without a latch. Nothing in it may be believed yet: the page may be changing.
struct Glance<'t> {
    peek: Peek<'t>,
    frame: FrameNo,
    /// Where the page starts in the frame, and how long it is.
    start: usize,
    len: usize,
    /// The slots that have the key's tag.
    matches: Matches,
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
        if live::is_due() {
            return Peeked::Unknown;
        }
        match self.sight(key, false) {
            Some(sight) => self.judge(key, &sight, value),
            None => Peeked::Unknown,
        }
    }

    /// Looks at the slots of the bucket of `key`, whose page was asked for or is now. `None`: only the latch will do.
    #[inline]
    pub(super) fn sight(&self, key: Key<'_>, asked_for: bool) -> Option<Sight<'_>> {
        if key.bytes.len() > self.key_bytes_inline_max().min(KEY_BYTES_MAX) || self.pager.is_forked() {
            return None;
        }
        let Seen { view, bucket, frame, start } = self.seen(key.hash);
        if !asked_for {
            self.prefetch_page(frame, start..start + self.page_bytes);
        }
        let primary = self.glance(frame, start, self.page_bytes, page::KIND_BUCKET, key)?;
        Some(Sight { view, bucket, primary, overflow: None })
    }

    #[inline]
    fn glance(&self, frame: FrameNo, start: usize, len: usize, kind: u8, key: Key<'_>) -> Option<Glance<'_>> {
        let peek = self.pager.pool().peek(frame)?;
        let mut header = [0; page::HEADER_BYTES];
        peek.load(start, &mut header);
        let count = page::slot_count(&header);
        // A bucket that nothing was ever put into has no kind. Pages with very many pairs are looked at under the latch.
        let other = kind == page::KIND_OVERFLOW && page::kind(&header) != kind;
        let slots = start + page::HEADER_BYTES;
        if count > SLOTS_AT_ONCE || slots + 8 * WORDS_AT_ONCE > self.pager.frame_bytes() || other {
            return None;
        }
        // What lies behind a short page, in its frame, does not matter.
        let words = peek.words_at::<WORDS_AT_ONCE>(slots);
        let matches = Matches::of(words, count, key.tag);
        let bits = page::filter_bits(key.tag);
        let behind = kind == page::KIND_OVERFLOW || page::filter(&header) & bits == bits;
        Some(Glance { peek, frame, start, len, matches, next: if behind { page::next(&header) } else { 0 } })
    }

    /// Looks at the slots of the overflow page. `None`: there is none, or only the latch will do.
    #[inline]
    fn glance_behind(&self, primary: &Glance<'_>, key: Key<'_>) -> Option<Glance<'_>> {
        let (frame, range) = self.overflow_of(primary)?;
        self.prefetch_page(frame, range.clone());
        self.glance(frame, range.start, range.len(), page::KIND_OVERFLOW, key)
    }

    #[inline]
    fn overflow_of(&self, primary: &Glance<'_>) -> Option<(FrameNo, std::ops::Range<usize>)> {
        let block: Block = self.parse_block(primary.next).ok()??;
        Some(self.block_range(block))
    }

    /// Asks for a page. One of usual size as a whole: its lines come side by side, so which record it will be need not be
    /// known first. Of a larger one its header and first slots.
    #[inline]
    pub(super) fn prefetch_page(&self, frame: FrameNo, page: std::ops::Range<usize>) {
        const WHOLE_BYTES_MAX: usize = 1024;
        const SOME_BYTES: usize = 256;
        let bytes = if page.len() <= WHOLE_BYTES_MAX { page.len() } else { SOME_BYTES };
        self.pager.pool().prefetch(frame, page.start, bytes);
    }

    /// Asks for the overflow page of the bucket of `hash`, if it has one, as far as a look without a latch tells.
    #[inline]
    pub(super) fn prefetch_overflow(&self, hash: u64) {
        let Seen { frame, start, .. } = self.seen(hash);
        let Some(peek) = self.pager.pool().peek(frame) else { return };
        let mut header = [0; page::HEADER_BYTES];
        peek.load(start, &mut header);
        if let Ok(Some(block)) = self.parse_block(page::next(&header)) {
            let (frame, range) = self.block_range(block);
            self.prefetch_page(frame, range);
        }
    }

    /// Asks for what `judge` will look at: the first record with the tag, or, where there is none, the slots of the
    /// overflow page, which [`sight_behind`](Self::sight_behind) is to look at next. Says whether it was the latter.
    #[inline]
    pub(super) fn prefetch_sighted(&self, sight: &Sight<'_>) -> bool {
        if !sight.primary.matches.is_empty() {
            self.prefetch_record(&sight.primary);
            return false;
        }
        let Some((frame, range)) = self.overflow_of(&sight.primary) else { return false };
        self.prefetch_page(frame, range);
        true
    }

    /// Looks at the slots of the overflow page and asks for the first record with the tag.
    #[inline]
    pub(super) fn sight_behind<'t>(&'t self, sight: &mut Sight<'t>, key: Key<'_>) {
        sight.overflow = self.glance_behind(&sight.primary, key);
        if let Some(overflow) = sight.overflow.as_ref().filter(|o| !o.matches.is_empty()) {
            self.prefetch_record(overflow);
        }
    }

    #[inline]
    fn prefetch_record(&self, glance: &Glance<'_>) {
        // Most records are shorter than this; the rest of a longer one comes when it is copied.
        const RECORD_BYTES: usize = 128;
        let Some(slot) = glance.matches.first() else { return };
        let offset = glance.offset(slot);
        self.pager.pool().prefetch(glance.frame, glance.start + offset, RECORD_BYTES);
    }

    /// Looks at the records in sight; adds the value of `key` to `value`.
    #[inline]
    pub(super) fn judge(&self, key: Key<'_>, sight: &Sight<'_>, value: Option<&mut Vec<u8>>) -> Peeked {
        let before = value.as_ref().map_or(0, |value| value.len());
        let mut value = value;
        let mut found = sight.primary.find(key, value.as_deref_mut());
        if matches!(found, Peeked::Absent) && sight.primary.next != 0 {
            found = self.find_behind(sight, key, value.as_deref_mut());
        }
        // The order matters: what was loaded counts if the bucket was still the right one after that, and if that,
        // too, was so before the frame changed.
        if !self.still_holds(sight.view, key.hash, sight.bucket) || !sight.primary.peek.unchanged() {
            found = Peeked::Unknown;
        }
        if let (Peeked::Unknown, Some(value)) = (&found, value) {
            value.truncate(before);
        }
        found
    }

    fn find_behind(&self, sight: &Sight<'_>, key: Key<'_>, value: Option<&mut Vec<u8>>) -> Peeked {
        let here;
        let overflow = match &sight.overflow {
            Some(overflow) => overflow,
            None => match self.glance_behind(&sight.primary, key) {
                Some(overflow) => {
                    here = overflow;
                    &here
                }
                None => return Peeked::Unknown,
            },
        };
        match overflow.find(key, value) {
            // A longer chain.
            Peeked::Absent if overflow.next != 0 => Peeked::Unknown,
            // The bucket's latch guards its overflow pages, but not against being evicted.
            _ if !overflow.peek.unchanged() => Peeked::Unknown,
            found => found,
        }
    }
}

/// Bytes of a record that are looked at first: the lengths and a short key, with the word they begin in.
const SHORT_BYTES: usize = 64;
/// The same for any key.
const LONG_BYTES: usize = (8 + page::HEAD_BYTES_MAX + KEY_BYTES_MAX).next_multiple_of(8);

impl Glance<'_> {
    /// Where the record of a slot starts in the page, or would.
    #[inline]
    fn offset(&self, slot: usize) -> usize {
        let at = page::HEADER_BYTES + slot / 2 * 8;
        self.peek.words(self.start + at, 1).map(|two| two >> (32 * (slot % 2) + 16) & 0xFFFF).sum::<u64>() as usize
    }

    /// Looks at the records whose slots have the tag; adds the value of `key` to `value`.
    #[inline]
    fn find(&self, key: Key<'_>, mut value: Option<&mut Vec<u8>>) -> Peeked {
        for slot in self.matches {
            let offset = self.offset(slot);
            let found = if key.bytes.len() <= SHORT_BYTES - 8 - page::HEAD_BYTES_MAX {
                self.record::<SHORT_BYTES>(offset, key, value.as_deref_mut())
            } else {
                self.record::<LONG_BYTES>(offset, key, value.as_deref_mut())
            };
            if !matches!(found, Peeked::Absent) {
                return found;
            }
        }
        Peeked::Absent
    }

    /// Compares the key of the record at `offset` of the page, and adds its value to `value` if it is `key`.
    #[inline]
    fn record<const HEAD: usize>(&self, offset: usize, key: Key<'_>, value: Option<&mut Vec<u8>>) -> Peeked {
        if offset >= self.len {
            return Peeked::Unknown;
        }
        // Whole words from the one that the record begins in, as far as the key goes if the lengths are short.
        let skip = offset % 8;
        let most = self.len - (offset - skip);
        let mut bytes = [0; HEAD];
        let first = (skip + page::HEAD_BYTES_MAX + key.bytes.len()).next_multiple_of(8).min(most).min(HEAD);
        self.peek.load(self.start + offset - skip, &mut bytes[..first]);
        let Some(head) = page::record_head(&bytes[skip..first]) else { return Peeked::Unknown };
        let key_end = skip + head.head_bytes + head.key_bytes;
        let end = key_end + head.value_bytes;
        if head.form != INLINE || end > most {
            // The key may be this one, or longer than any record's; or the record runs over its page.
            return Peeked::Unknown;
        }
        if head.key_bytes != key.bytes.len() {
            return Peeked::Absent;
        }
        if key_end > first {
            return Peeked::Unknown;
        }
        if &bytes[key_end - head.key_bytes..key_end] != key.bytes {
            return Peeked::Absent;
        }
        if let Some(value) = value {
            let start = self.start + offset - skip;
            self.peek.copy_to(start + key_end..start + end, value);
        }
        Peeked::Found
    }
}
