//! Bytes within a page: slots from the front, records from the back, a gap between.
//!
//! ```text
//! 0        8         16        24                                        page end
//! | header | next    | filter  | slot 0 | slot 1 | ... gap ... | record 1 | record 0 |
//! ```
//!
//! A slot is {u16 tag, u16 offset}; the tag is 16 bits of the mixed hash, so a lookup compares tags (64 at a time) and
//! reads a record only where one matches. Records are contiguous and end at the page's end: a change of length moves
//! the records before it, and a page has no unused bytes among its records. Primary pages and overflow pages of any
//! size share this layout.
//!
//! Every function takes untrusted bytes: a length or offset that does not fit is [`Damage`], never a panic.
//!
//! Source: Seltzer & Yigit 1991, "The New Implementation"; the tags are ours. Format: docs/format.md, "Page".
//! Not here: the meaning of a record's value (`extent.rs`), which page to read (`lookup.rs`, `overflow.rs`).

use super::tags::{FOURS_AT_ONCE, Matches, SLOTS_AT_ONCE};
use crate::pager::words::Bytes;
use crate::varint::{get_varint, put_varint, varint_bytes};

/// A page that contradicts itself, with a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub &'static str);

/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 24;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 4;

/// The kind of a page. On disk.
pub const KIND_EMPTY: u8 = 0; // all zero: a bucket that was always empty
pub const KIND_BUCKET: u8 = 1;
pub const KIND_OVERFLOW: u8 = 2;

/// The form of a record. On disk, in the two low bits of a record's first varint.
pub const INLINE: u8 = 0; // key and value in the record
pub const VALUE_IN_EXTENT: u8 = 1; // key in the record, value in an extent
pub const PAIR_IN_EXTENT: u8 = 2; // hash in the record, key and value in an extent

/// The tag of a hash. Mixed, so that 32-bit functions and those with weak high bits still give 16 good bits.
#[inline]
pub fn tag(h: u64) -> u16 {
    (h.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// The bits that `tag` sets in the filter of a primary page when its pair goes to an overflow page.
#[inline]
pub fn filter_bits(tag: u16) -> u64 {
    1 << (tag & 63) | 1 << ((tag >> 6) & 63)
}

/// The place of an overflow page, which [`next`] encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverflowPage {
    pub unit: u64,
    pub len: u32,
}

impl OverflowPage {
    /// Its encoding in a page's `next`: 48 bits of unit, 16 of length; 0 for none.
    pub(super) fn to_bits(self) -> u64 {
        self.unit << 16 | u64::from(self.len)
    }
}

/// A record of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// [`INLINE`], [`VALUE_IN_EXTENT`] or [`PAIR_IN_EXTENT`].
    pub form: u8,
    /// The key; for [`PAIR_IN_EXTENT`] the key's hash, 8 bytes.
    pub key: &'a [u8],
    /// The value; for the other forms a reference to an extent (`extent.rs`).
    pub value: &'a [u8],
}

impl Record<'_> {
    /// Bytes of the record in the heap.
    #[inline]
    pub fn bytes(&self) -> usize {
        let head = (self.key.len() as u64) << 2 | u64::from(self.form);
        let both = head | self.value.len() as u64;
        let head_bytes = if both < 0x80 { 2 } else { varint_bytes(head) + varint_bytes(self.value.len() as u64) };
        head_bytes + self.key.len() + self.value.len()
    }
}

#[inline]
fn u16_at(page: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(page[at..at + 2].try_into().expect("2 bytes")))
}

#[inline]
fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"))
}

// Header fields: kind u8, level u8, slot_count u16, heap_bytes u16, zero u16, next u64, filter u64.

/// A page's header, loaded as words.
pub struct Header {
    first: u64,
    /// As [`next`].
    pub next: u64,
    /// As [`filter`].
    pub filter: u64,
}

impl Header {
    /// The header of three words; little-endian.
    #[inline]
    pub fn of([first, next, filter]: [u64; 3]) -> Header {
        Header { first, next, filter }
    }

    /// As [`kind`].
    #[inline]
    pub fn kind(&self) -> u8 {
        self.first as u8
    }

    /// As [`slot_count`].
    #[inline]
    pub fn slot_count(&self) -> usize {
        (self.first >> 16 & 0xFFFF) as usize
    }
}

/// Initializes `page` as an empty page of `kind`.
pub fn init(page: &mut impl Bytes, kind: u8, level: u32) {
    page.store_word(0, [kind, level as u8, 0, 0, 0, 0, 0, 0]); // a level is at most 32
    set_next(page, 0);
    set_filter(page, 0);
}

/// The kind of the page.
#[inline]
pub fn kind(page: &[u8]) -> u8 {
    page[0]
}

/// The number of hash bits that lead to this bucket.
pub fn level(page: &[u8]) -> u32 {
    u32::from(page[1])
}

/// The number of pairs in the page.
#[inline]
pub fn slot_count(page: &[u8]) -> usize {
    u16_at(page, 2)
}

/// Bytes of all records.
#[inline]
pub fn heap_bytes(page: &[u8]) -> usize {
    u16_at(page, 4)
}

/// Reference to the next overflow page; 0 for none.
#[inline]
pub fn next(page: &[u8]) -> u64 {
    u64_at(page, 8)
}

/// Sets [`next`].
pub fn set_next(page: &mut impl Bytes, next: u64) {
    page.store_word(8, next.to_le_bytes());
}

/// The union of [`filter_bits`] over the pairs in this bucket's overflow pages, and some that were removed.
#[inline]
pub fn filter(page: &[u8]) -> u64 {
    u64_at(page, 16)
}

/// Sets [`filter`].
pub fn set_filter(page: &mut impl Bytes, filter: u64) {
    page.store_word(16, filter.to_le_bytes());
}

/// Bytes of slots and records: what counts towards the load.
#[inline]
pub fn used_bytes(page: &[u8]) -> usize {
    slot_count(page) * SLOT_BYTES + heap_bytes(page)
}

/// Bytes between slots and records.
#[inline]
pub fn gap_bytes(page: &[u8]) -> Result<usize, Damage> {
    page.len().checked_sub(HEADER_BYTES + used_bytes(page)).ok_or(Damage("slots and records overlap"))
}

/// Bytes for slots and records in a page of this length.
pub fn capacity(page_bytes: usize) -> usize {
    page_bytes - HEADER_BYTES
}

#[inline]
fn slot(page: &[u8], index: usize) -> (u16, usize) {
    let at = HEADER_BYTES + index * SLOT_BYTES;
    (u16_at(page, at) as u16, u16_at(page, at + 2))
}

#[inline]
fn set_slot(page: &mut impl Bytes, index: usize, tag: u16, offset: usize) {
    // Offsets are below the page size and so below 65536.
    let slot = u32::from(tag) | (offset as u32) << 16;
    page.store_half_word(HEADER_BYTES + index * SLOT_BYTES, slot.to_le_bytes());
}

/// Offset of the record of slot `index`.
pub fn slot_offset(page: &[u8], index: usize) -> usize {
    slot(page, index).1
}

/// The tag of slot `index`.
pub fn slot_tag(page: &[u8], index: usize) -> u16 {
    slot(page, index).0
}

/// The record of slot `index`, which must be below [`slot_count`].
#[inline]
pub fn record(page: &[u8], index: usize) -> Result<Record<'_>, Damage> {
    parse(page, slot(page, index).1).map(|(record, _)| record).ok_or(Damage("a record runs over its page"))
}

/// The record at `offset`, and the offset of its value.
#[inline]
fn parse(page: &[u8], offset: usize) -> Option<(Record<'_>, usize)> {
    let RecordHead { form, head_bytes, key_bytes, value_bytes } = head_at(page, offset).ok()?;
    let (key, value) = page[offset + head_bytes..][..key_bytes + value_bytes].split_at(key_bytes);
    Some((Record { form, key, value }, offset + head_bytes + key_bytes))
}

/// The lengths at the start of a record.
pub struct RecordHead {
    pub form: u8,
    pub head_bytes: usize,
    pub key_bytes: usize,
    pub value_bytes: usize,
}

impl RecordHead {
    /// The lengths in the two low bytes of `word`, both below 128.
    #[inline]
    pub fn short(word: u64) -> RecordHead {
        let (head, value_bytes) = (word & 0x7F, word >> 8 & 0x7F);
        RecordHead {
            form: (head & 3) as u8,
            head_bytes: 2,
            key_bytes: (head >> 2) as usize,
            value_bytes: value_bytes as usize,
        }
    }
}

/// The lengths at the start of `bytes`.
#[inline]
pub fn record_head(bytes: &[u8]) -> Option<RecordHead> {
    let (head, n) = get_varint(bytes)?;
    let (value_bytes, m) = get_varint(&bytes[n..])?;
    Some(RecordHead { form: (head & 3) as u8, head_bytes: n + m, key_bytes: head >> 2, value_bytes })
}

/// Checks that the slots are within the page, once for the loops that follow.
#[inline]
fn checked_slots(page: &[u8]) -> Result<&[u8], Damage> {
    page.get(HEADER_BYTES..HEADER_BYTES + slot_count(page) * SLOT_BYTES).ok_or(Damage("slots run over their page"))
}

/// The slot whose tag is `tag` and whose record `matches`.
#[inline]
pub fn find_by<'a>(
    page: &'a [u8],
    tag: u16,
    mut matches: impl FnMut(Record<'a>) -> bool,
) -> Result<Option<usize>, Damage> {
    checked_slots(page)?;
    let count = slot_count(page);
    for base in (0..count).step_by(SLOTS_AT_ONCE) {
        let slots = &page[HEADER_BYTES + base * SLOT_BYTES..];
        let count = (count - base).min(SLOTS_AT_ONCE);
        let (fours, rest) = slots.as_chunks::<16>();
        let matching = match fours.first_chunk::<FOURS_AT_ONCE>() {
            Some(fours) => Matches::of(|i| u128::from_le_bytes(fours[i]), count, tag),
            // Near the end of the page, or in a short one.
            None => {
                let mut last = [0; 16];
                last[..rest.len()].copy_from_slice(rest);
                Matches::of(|i| u128::from_le_bytes(*fours.get(i).unwrap_or(&last)), count, tag)
            }
        };
        for slot in matching {
            if matches(record(page, base + slot)?) {
                return Ok(Some(base + slot));
            }
        }
    }
    Ok(None)
}

/// The slot of the inline or [`VALUE_IN_EXTENT`] record with this key.
#[inline]
pub fn find(page: &[u8], tag: u16, key: &[u8]) -> Result<Option<usize>, Damage> {
    find_by(page, tag, |r| r.form != PAIR_IN_EXTENT && r.key == key)
}

/// Adds a record. `Ok(false)` where it does not fit, with nothing changed.
#[inline]
pub fn insert(page: &mut impl Bytes, tag: u16, record: Record<'_>) -> Result<bool, Damage> {
    let bytes = record.bytes();
    if gap_bytes(page)? < bytes + SLOT_BYTES {
        return Ok(false);
    }
    let (count, heap) = (slot_count(page), heap_bytes(page) + bytes);
    let offset = page.len() - heap;
    set_slot(page, count, tag, offset);
    set_counts(page, count + 1, heap);
    write_record(page, offset, record);
    Ok(true)
}

/// Sets the slot count and the heap's length, which share the header's first word.
#[inline]
fn set_counts(page: &mut impl Bytes, count: usize, heap: usize) {
    // Both are below the page size and so below 65536.
    let others = u64_at(page, 0) & 0xFFFF_0000_0000_FFFF;
    page.store_word(0, (others | (count as u64) << 16 | (heap as u64) << 32).to_le_bytes());
}

#[inline]
fn write_record(page: &mut impl Bytes, offset: usize, record: Record<'_>) {
    let Record { form, key, value } = record;
    let first = (key.len() as u64) << 2 | u64::from(form);
    let head_bytes = if first < 0x80 && value.len() < 0x80 {
        page.store(offset, &[first as u8, value.len() as u8]);
        2
    } else {
        let mut head = [0; 20];
        let n = put_varint(&mut head, first);
        let m = n + put_varint(&mut head[n..], value.len() as u64);
        page.store(offset, &head[..m]);
        m
    };
    page.store(offset + head_bytes, key);
    page.store(offset + head_bytes + key.len(), value);
}

/// Removes the record of slot `index`; the last slot moves to its place.
pub fn remove(page: &mut impl Bytes, index: usize) -> Result<(), Damage> {
    resize_heap(page, index, 0)?;
    let last = slot_count(page) - 1;
    let (tag, offset) = slot(page, last);
    set_slot(page, index, tag, offset);
    set_counts(page, last, heap_bytes(page));
    Ok(())
}

/// Changes the value (and form) of the record of slot `index`. `Ok(false)` where it does not fit, with nothing
/// changed.
pub fn replace_value(page: &mut impl Bytes, index: usize, form: u8, value: &[u8]) -> Result<bool, Damage> {
    let old = record(page, index)?;
    let (old_form, key_bytes, old_value_bytes, old_bytes) = (old.form, old.key.len(), old.value.len(), old.bytes());
    let new_bytes = Record { form, key: old.key, value }.bytes();
    if new_bytes > old_bytes && gap_bytes(page)? < new_bytes - old_bytes {
        return Ok(false);
    }
    let offset = slot(page, index).1;
    if old_form == form && old_value_bytes == value.len() {
        // The common overwrite: equal lengths, nothing moves.
        let end = offset + old_bytes;
        page.store(end - value.len(), value);
        return Ok(true);
    }
    // The resized record ends at the same byte and its key may move: save it first.
    let head_bytes = old_bytes - key_bytes - old_value_bytes;
    let key = page[offset + head_bytes..offset + head_bytes + key_bytes].to_vec();
    let offset = resize_heap(page, index, new_bytes)?;
    write_record(page, offset, Record { form, key: &key, value });
    Ok(true)
}

/// Appends `tail` to the inline value of slot `index`. `Ok(false)`, with nothing changed, where it does not fit, where
/// key and value would be longer than `pair_bytes_max`, or where the value is not inline.
#[inline]
pub fn append_value(
    page: &mut impl Bytes,
    index: usize,
    tail: &[u8],
    pair_bytes_max: usize,
) -> Result<Option<usize>, Damage> {
    let old = record(page, index)?;
    let (key_bytes, value_bytes, old_bytes) = (old.key.len(), old.value.len(), old.bytes());
    if old.form != INLINE || key_bytes + value_bytes + tail.len() > pair_bytes_max {
        return Ok(None);
    }
    let old_head = varint_bytes(value_bytes as u64);
    let growth = tail.len() + varint_bytes((value_bytes + tail.len()) as u64) - old_head;
    if gap_bytes(page)? < growth {
        return Ok(None);
    }
    if growth != tail.len() {
        // The length takes one more byte: rare, so rebuild the record.
        let value = [old.value, tail].concat();
        return Ok(replace_value(page, index, INLINE, &value)?.then_some(value.len()));
    }
    let offset = slot(page, index).1;
    let end = offset + old_bytes;
    move_records(page, offset, end, growth as isize)?;
    page.store(end - growth, tail);
    let length_at = end - growth - value_bytes - key_bytes - old_head;
    let mut length = [0; 10];
    let n = put_varint(&mut length, (value_bytes + growth) as u64);
    page.store(length_at, &length[..n]);
    Ok(Some(value_bytes + growth))
}

/// Resizes the record of slot `index` to `new_bytes` (0 removes it from the heap) by moving the records before it.
/// Returns its new offset. The last `min(old, new)` bytes of the record keep their place.
fn resize_heap(page: &mut impl Bytes, index: usize, new_bytes: usize) -> Result<usize, Damage> {
    let old_bytes = record(page, index)?.bytes();
    let offset = slot(page, index).1;
    move_records(page, offset, offset, new_bytes as isize - old_bytes as isize)?;
    Ok((offset + old_bytes).wrapping_sub(new_bytes))
}

/// Moves the heap's bytes before `end` by `by` towards the page's start, and adjusts the slots of the records at and
/// before `offset`.
#[inline]
fn move_records(page: &mut impl Bytes, offset: usize, end: usize, by: isize) -> Result<(), Damage> {
    let heap_start = page.len().checked_sub(heap_bytes(page)).ok_or(Damage("records run over their page"))?;
    let slots_end = HEADER_BYTES + slot_count(page) * SLOT_BYTES;
    if offset < heap_start || slots_end > heap_start {
        return Err(Damage("slots and records overlap"));
    }
    let new_start =
        heap_start.checked_add_signed(-by).filter(|&s| s >= slots_end).ok_or(Damage("a heap outgrew its page"))?;
    if new_start + (end - heap_start) > page.len() {
        return Err(Damage("a heap outgrew its page"));
    }
    page.copy_within(heap_start..end, new_start);
    let new_heap = page.len() - new_start;
    page.map_half_words(HEADER_BYTES..slots_end, |slot| moved_slot(slot, offset as u16, by as u16));
    set_counts(page, slot_count(page), new_heap);
    Ok(())
}

/// Subtracts `by` from the offset in a slot if it is at most `limit`. Wrapping: u16 offsets are exact modulo 2^16, and
/// an offset that was out of range stays out of range or harmless.
#[inline]
fn moved_slot(slot: u32, limit: u16, by: u16) -> u32 {
    // Without a branch, and so four slots at a time.
    slot.wrapping_sub(if slot >> 16 <= u32::from(limit) { u32::from(by) << 16 } else { 0 })
}

/// Copies all records of `from` into `to`, an empty page that has room for them.
pub fn copy_records(from: &[u8], to: &mut impl Bytes) -> Result<(), Damage> {
    let (count, heap) = (slot_count(from), heap_bytes(from));
    let slots = checked_slots(from)?;
    let heap_start = from.len().checked_sub(heap).ok_or(Damage("records run over their page"))?;
    let slots_end = HEADER_BYTES + slots.len();
    let to_start = to.len().checked_sub(heap).filter(|&s| s >= slots_end).ok_or(Damage("slots and records overlap"))?;
    // Offsets count from the page's start, and records are at its end; wrapping as in `resize_heap`.
    let moved = to.len().wrapping_sub(from.len()) as u16;
    for (index, slot) in slots.chunks_exact(SLOT_BYTES).enumerate() {
        let offset = u16::from_le_bytes([slot[2], slot[3]]).wrapping_add(moved);
        set_slot(to, index, u16::from_le_bytes([slot[0], slot[1]]), usize::from(offset));
    }
    to.store(to_start, &from[heap_start..]);
    set_counts(to, count, heap);
    Ok(())
}

/// All slots of a page: tag and record. Together the records are no longer than the heap, so that copies of them are
/// no larger than the page.
#[inline]
pub fn records(page: &[u8]) -> impl Iterator<Item = Result<(u16, Record<'_>), Damage>> {
    let (slots, damage) = match checked_slots(page) {
        Ok(slots) => (slots, None),
        Err(damage) => (&[][..], Some(Err(damage))),
    };
    let mut left = heap_bytes(page);
    let records = slots.as_chunks::<SLOT_BYTES>().0.iter().map(move |&slot| {
        let slot = u32::from_le_bytes(slot);
        let (record, value_start) = parse(page, slot as usize >> 16).ok_or(RECORD_RUNS_OVER)?;
        left = left.checked_sub(value_start + record.value.len() - (slot as usize >> 16)).ok_or(RECORDS_OVERLAP)?;
        Ok((slot as u16, record))
    });
    damage.into_iter().chain(records)
}

/// Where `part`, a part of `page`, begins in it.
#[inline]
pub fn offset_of(page: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - page.as_ptr().addr()
}

/// The tag and the offset in each slot; the offsets are unchecked.
#[inline]
pub fn slots(page: &[u8]) -> Result<impl Iterator<Item = (u16, usize)>, Damage> {
    let slots = checked_slots(page)?.as_chunks::<SLOT_BYTES>().0.iter();
    Ok(slots.map(|&slot| (u32::from_le_bytes(slot) as u16, u32::from_le_bytes(slot) as usize >> 16)))
}

/// The lengths of the record at `offset`, which is within the page.
#[inline]
pub fn head_at(page: &[u8], offset: usize) -> Result<RecordHead, Damage> {
    let head = match page.get(offset..).ok_or(RECORD_RUNS_OVER)? {
        &[first @ ..0x80, second @ ..0x80, ..] => RecordHead::short(u64::from(first) | u64::from(second) << 8),
        bytes => record_head(bytes).ok_or(RECORD_RUNS_OVER)?,
    };
    if head.head_bytes + head.key_bytes + head.value_bytes > page.len() - offset {
        return Err(RECORD_RUNS_OVER);
    }
    Ok(head)
}

const RECORD_RUNS_OVER: Damage = Damage("a record runs over its page");
pub const RECORDS_OVERLAP: Damage = Damage("records overlap");

/// Builds a page from records of other pages.
pub struct Builder<'p> {
    page: &'p mut [u8],
    slots_end: usize,
    heap_start: usize,
}

impl<'p> Builder<'p> {
    /// Builds an empty page that fills `page`.
    pub fn new(page: &'p mut [u8]) -> Self {
        let heap_start = page.len();
        Builder { page, slots_end: HEADER_BYTES, heap_start }
    }

    /// Adds a record; `false` where it does not fit, with nothing changed.
    #[inline]
    pub fn add(&mut self, tag: u16, raw: &[u8]) -> bool {
        if self.heap_start - self.slots_end < raw.len() + SLOT_BYTES {
            return false;
        }
        self.heap_start -= raw.len();
        self.page[self.heap_start..self.heap_start + raw.len()].copy_from_slice(raw);
        // Offsets are below the page size and so below 65536.
        let slot = u32::from(tag) | (self.heap_start as u32) << 16;
        self.page[self.slots_end..self.slots_end + SLOT_BYTES].copy_from_slice(&slot.to_le_bytes());
        self.slots_end += SLOT_BYTES;
        true
    }

    /// Writes the header.
    pub fn finish(self, kind: u8, level: u32, next: u64, filter: u64) {
        let count = (self.slots_end - HEADER_BYTES) / SLOT_BYTES;
        let heap = self.page.len() - self.heap_start;
        let header = &mut self.page[..HEADER_BYTES];
        header[..8].copy_from_slice(&[kind, level as u8, 0, 0, 0, 0, 0, 0]); // level is at most 32
        header[2..4].copy_from_slice(&(count as u16).to_le_bytes());
        header[4..6].copy_from_slice(&(heap as u16).to_le_bytes());
        header[8..16].copy_from_slice(&next.to_le_bytes());
        header[16..24].copy_from_slice(&filter.to_le_bytes());
    }
}

/// Checks a page for contradictions.
pub fn check(page: &[u8]) -> Result<(), Damage> {
    if u16_at(page, 6) != 0 {
        return Err(Damage("reserved bytes are not zero"));
    }
    gap_bytes(page)?;
    let mut spans = Vec::with_capacity(slot_count(page));
    for index in 0..slot_count(page) {
        let record = record(page, index)?;
        if record.form > PAIR_IN_EXTENT {
            return Err(Damage("a record of unknown form"));
        }
        let offset = slot(page, index).1;
        spans.push((offset, offset + record.bytes()));
    }
    spans.sort_unstable();
    let mut expected = page.len() - heap_bytes(page);
    for (start, end) in spans {
        if start != expected {
            return Err(Damage("records overlap or leave a hole"));
        }
        expected = end;
    }
    if expected != page.len() { Err(Damage("records do not fill the heap")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inline<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { form: INLINE, key, value }
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert(Vec<u8>, Vec<u8>),
        Remove(usize),
        Replace(usize, Vec<u8>),
        Append(usize, Vec<u8>),
    }

    fn op() -> impl Strategy<Value = Op> {
        let bytes = |n| proptest::collection::vec(any::<u8>(), 0..n);
        prop_oneof![
            3 => (bytes(40), bytes(200)).prop_map(|(k, v)| Op::Insert(k, v)),
            1 => any::<usize>().prop_map(Op::Remove),
            1 => (any::<usize>(), bytes(300)).prop_map(|(i, v)| Op::Replace(i, v)),
            2 => (any::<usize>(), bytes(60)).prop_map(|(i, v)| Op::Append(i, v)),
        ]
    }

    proptest! {
        #[test]
        fn offsets_up_to_a_limit_are_moved(tag: u16, offset: u16, limit: u16, by: u16) {
            let slot = |offset: u16| u32::from(tag) | u32::from(offset) << 16;
            let expected = if offset <= limit { offset.wrapping_sub(by) } else { offset };
            prop_assert_eq!(moved_slot(slot(offset), limit, by), slot(expected));
        }

        #[test]
        fn page_behaves_like_a_list_of_pairs(
            page_bytes in prop::sample::select(vec![64usize, 512, 1024, 65536]),
            ops in proptest::collection::vec(op(), 1..200),
        ) {
            let mut page = vec![0xAA; page_bytes];
            init(&mut page, KIND_BUCKET, 3);
            let mut model: Vec<(u16, Vec<u8>, Vec<u8>)> = Vec::new();
            for op in ops {
                let fits = |model: &[(u16, Vec<u8>, Vec<u8>)], extra: usize| {
                    let used: usize = model.iter().map(|(_, k, v)| inline(k, v).bytes() + SLOT_BYTES).sum();
                    used + extra <= capacity(page_bytes)
                };
                match op {
                    Op::Insert(k, v) => {
                        let tag = k.len() as u16;
                        let expected = fits(&model, inline(&k, &v).bytes() + SLOT_BYTES);
                        prop_assert_eq!(insert(&mut page, tag, inline(&k, &v)), Ok(expected));
                        if expected { model.push((tag, k, v)); }
                    }
                    Op::Remove(i) if !model.is_empty() => {
                        let i = i % model.len();
                        prop_assert_eq!(remove(&mut page, i), Ok(()));
                        model.swap_remove(i);
                    }
                    Op::Replace(i, v) if !model.is_empty() => {
                        let i = i % model.len();
                        let mut after = model.clone();
                        after[i].2 = v.clone();
                        let expected = fits(&after, 0);
                        prop_assert_eq!(replace_value(&mut page, i, INLINE, &v), Ok(expected));
                        if expected { model = after; }
                    }
                    Op::Append(i, v) if !model.is_empty() => {
                        let i = i % model.len();
                        let mut after = model.clone();
                        after[i].2.extend_from_slice(&v);
                        let expected = fits(&after, 0);
                        let appended = append_value(&mut page, i, &v, usize::MAX).map(|len| len.is_some());
                        prop_assert_eq!(appended, Ok(expected));
                        if expected { model = after; }
                    }
                    _ => {}
                }
                prop_assert_eq!(check(&page), Ok(()));
                let got = records(&page).map(|r| r.unwrap());
                let got: Vec<_> = got.map(|(t, r)| (t, r.key.to_vec(), r.value.to_vec())).collect();
                prop_assert_eq!(&got, &model);
                if let Some((tag, key, _)) = model.last() {
                    let found = find(&page, *tag, key).unwrap().unwrap();
                    prop_assert_eq!(&model[found].1, key);
                    prop_assert_eq!(find(&page, *tag, b"this key is too long to be there, forty bytes"), Ok(None));
                }
            }
        }

        #[test]
        fn any_bytes_give_a_value_or_damage(
            mut page in proptest::collection::vec(any::<u8>(), 64..600),
            small_count in any::<bool>(),
            index in any::<usize>(),
        ) {
            if small_count { page[2] %= 10; page[3] = 0; }
            let _ = check(&page);
            let _ = find(&page, 7, b"key");
            let _ = records(&page).count();
            let count = slot_count(&page);
            if checked_slots(&page).is_ok() && count > 0 {
                let i = index % count;
                let _ = remove(&mut page.clone(), i);
                let _ = replace_value(&mut page.clone(), i, INLINE, b"value");
                let _ = append_value(&mut page.clone(), i, b"value", 1 << 16);
            }
            let _ = insert(&mut page, 7, inline(b"k", b"v"));
        }
    }
}
