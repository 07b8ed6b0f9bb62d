//! Bytes within a page: slots from the front, records from the back, a gap between.
//!
//! ```text
//! 0        8         16        24                                        page end
//! | header | next    | filter  | slot 0 | slot 1 | ... gap ... | record 1 | record 0 |
//! ```
//!
//! A slot is {u16 tag, u16 offset}; the tag is 16 bits of the mixed hash, so a lookup compares tags (64 at a time) and
//! reads a record only where one matches. Records are contiguous and end at the page's end, without unused bytes
//! between them: a change of a record's length moves the records before it. Each slot's record is directly before that
//! of the preceding slot, so such a move changes only the offsets of the last slots. Primary pages and overflow pages
//! of any size share this layout.
//!
//! Every function takes untrusted bytes: a length or offset that does not fit is [`Damage`], never a panic.
//!
//! Source: Seltzer & Yigit 1991, "The New Implementation"; the tags are ours. Format: docs/format.md, "Page".
//! Not here: the meaning of a record's value (`extent.rs`), which page to read (`lookup.rs`, `overflow.rs`).

use super::tags::{
    FIRST_RUNS_BYTES, FIRST_SLOTS, Matches, RUN_STARTS_BEFORE, RUNS_BYTES, SLOTS_AT_ONCE, first_match,
    first_match_of_few,
};
use crate::pager::words::Bytes;
use crate::varint::{get_varint, put_varint, varint_bytes};

/// A page that contradicts itself, with a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub &'static str);

/// Bytes before the first slot.
pub const HEADER_BYTES: usize = 24;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 4;
/// The starts of the runs of slots that `tags.rs` compares.
pub const RUNS_START: usize = HEADER_BYTES - RUN_STARTS_BEFORE;

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

/// The location of an overflow page, as encoded in [`next`].
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
    #[inline(always)]
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

    /// As [`heap_bytes`].
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        (self.first >> 32 & 0xFFFF) as usize
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
#[inline]
pub fn set_next(page: &mut impl Bytes, next: u64) {
    page.store_word(8, next.to_le_bytes());
}

/// The union of [`filter_bits`] over the pairs in this bucket's overflow pages, and over some removed ones.
#[inline]
pub fn filter(page: &[u8]) -> u64 {
    u64_at(page, 16)
}

/// Sets [`filter`].
#[inline]
pub fn set_filter(page: &mut impl Bytes, filter: u64) {
    page.store_word(16, filter.to_le_bytes());
}

/// Bytes of slots and records: what counts towards the load.
#[inline(always)]
pub fn used_bytes(page: &[u8]) -> usize {
    slot_count(page) * SLOT_BYTES + heap_bytes(page)
}

/// Bytes between slots and records.
#[inline(always)]
pub fn gap_bytes(page: &[u8]) -> Result<usize, Damage> {
    page.len().checked_sub(HEADER_BYTES + used_bytes(page)).ok_or(Damage("slots and records overlap"))
}

/// Bytes for slots and records in a page of this length.
pub fn capacity(page_bytes: usize) -> usize {
    page_bytes - HEADER_BYTES
}

#[inline(always)]
fn slot(page: &[u8], index: usize) -> (u16, usize) {
    let at = HEADER_BYTES + index * SLOT_BYTES;
    (u16_at(page, at) as u16, u16_at(page, at + 2))
}

#[inline(always)]
fn set_slot(page: &mut impl Bytes, index: usize, tag: u16, offset: usize) {
    // Offsets are below the page size and so below 65536.
    let slot = u32::from(tag) | (offset as u32) << 16;
    page.store_half_word(HEADER_BYTES + index * SLOT_BYTES, slot.to_le_bytes());
}

/// Offset of the record of slot `index`.
#[inline(always)]
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

/// The record at `offset`.
pub fn record_at(page: &[u8], offset: usize) -> Result<Record<'_>, Damage> {
    record_and_bytes(page, offset).map(|(record, _)| record)
}

/// The record at `offset`, and its bytes in the heap.
#[inline]
pub fn record_and_bytes(page: &[u8], offset: usize) -> Result<(Record<'_>, usize), Damage> {
    let RecordHead { form, head_bytes, key_bytes, value_bytes } = head_at(page, offset)?;
    let (key, value) = page[offset + head_bytes..][..key_bytes + value_bytes].split_at(key_bytes);
    Ok((Record { form, key, value }, head_bytes + key_bytes + value_bytes))
}

/// The record that fills all of `raw`.
#[inline]
pub fn record_of(raw: &[u8]) -> Result<Record<'_>, Damage> {
    let Some((lengths, rest)) = raw.split_first_chunk() else { return Err(RECORDS_OVERLAP) };
    let lengths = u16::from_le_bytes(*lengths);
    let RecordHead { form, key_bytes, value_bytes, .. } = RecordHead::short(lengths.into());
    if lengths & 0x8080 != 0 || key_bytes + value_bytes != rest.len() {
        return long_record_of(raw);
    }
    let (key, value) = rest.split_at(key_bytes);
    Ok(Record { form, key, value })
}

fn long_record_of(raw: &[u8]) -> Result<Record<'_>, Damage> {
    let (record, bytes) = record_and_bytes(raw, 0)?;
    if bytes == raw.len() { Ok(record) } else { Err(RECORDS_OVERLAP) }
}

/// The record at `offset`, and the offset of its value.
#[inline]
fn parse(page: &[u8], offset: usize) -> Option<(Record<'_>, usize)> {
    let RecordHead { form, head_bytes, key_bytes, value_bytes } = head_at(page, offset).ok()?;
    let (key, value) = page[offset + head_bytes..][..key_bytes + value_bytes].split_at(key_bytes);
    Some((Record { form, key, value }, offset + head_bytes + key_bytes))
}

/// The lengths at the start of a record.
#[derive(Clone, Copy)]
pub struct RecordHead {
    pub form: u8,
    pub head_bytes: usize,
    pub key_bytes: usize,
    pub value_bytes: usize,
}

impl RecordHead {
    /// Bytes of the record.
    #[inline]
    pub fn record_bytes(self) -> usize {
        self.head_bytes + self.key_bytes + self.value_bytes
    }

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

/// The lengths at the start of `bytes`, in varints of any length. Not inlined: that would cost the common lookup its
/// registers.
#[inline(never)]
pub fn long_head(bytes: &[u8]) -> Option<RecordHead> {
    let (head, n) = get_varint(bytes)?;
    let (value_bytes, m) = get_varint(&bytes[n..])?;
    Some(RecordHead { form: (head & 3) as u8, head_bytes: n + m, key_bytes: head >> 2, value_bytes })
}

/// A record that was found in a page: valid until the page changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub slot: usize,
    offset: usize,
    head_bytes: usize,
    pub form: u8,
    key_bytes: usize,
    pub value_bytes: usize,
}

impl Found {
    /// The record of slot `slot`, which must be below [`slot_count`].
    pub fn at(page: &[u8], slot: usize) -> Result<Found, Damage> {
        let offset = slot_offset(page, slot);
        Ok(Found::of(slot, offset, head_at(page, offset)?))
    }

    #[inline]
    fn of(slot: usize, offset: usize, head: RecordHead) -> Found {
        let RecordHead { form, head_bytes, key_bytes, value_bytes } = head;
        Found { slot, offset, head_bytes, form, key_bytes, value_bytes }
    }

    /// Bytes of the record in the heap.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.head_bytes + self.key_bytes + self.value_bytes
    }

    /// The record.
    #[inline]
    pub fn record<'a>(&self, page: &'a [u8]) -> Record<'a> {
        let start = self.offset + self.head_bytes;
        let both = &page[start..][..self.key_bytes + self.value_bytes];
        let (key, value) = both.split_at(self.key_bytes);
        Record { form: self.form, key, value }
    }
}

/// Checks that the slots are within the page, once for the loops that follow.
#[inline]
fn checked_slots(page: &[u8]) -> Result<&[u8], Damage> {
    page.get(HEADER_BYTES..HEADER_BYTES + slot_count(page) * SLOT_BYTES).ok_or(Damage("slots run over their page"))
}

/// The slot that has `tag` and a record for which `matches` returns true.
pub fn find_by<'a>(
    page: &'a [u8],
    tag: u16,
    mut matches: impl FnMut(Record<'a>) -> bool,
) -> Result<Option<Found>, Damage> {
    find_head_among(page, tag, |offset, head| {
        let found = Found::of(0, offset, head);
        matches(found.record(page))
    })
}

/// The result of comparing only the first record with a tag.
pub enum Quick {
    /// The key is absent.
    Absent,
    At(Found),
    /// Only [`find`] can tell.
    Unsure,
}

/// A fast [`find`] that compares at most one record, in a page of the usual size with few slots.
#[inline(always)] // as other parts of the common writes: the result stays in registers
pub fn find_quickly(page: &[u8], tag: u16, key: &[u8]) -> Quick {
    let Some(head) = page.first_chunk::<{ RUNS_START + RUNS_BYTES }>() else { return Quick::Unsure };
    let (count, runs) = (slot_count(head), &head[RUNS_START..]);
    let (Some(runs), true) = (runs.first_chunk::<RUNS_BYTES>(), count <= SLOTS_AT_ONCE) else { return Quick::Unsure };
    quick_at(page, first_match(eights_of(runs), count, tag), key)
}

/// [`find_quickly`] in a short overflow page, whose length is less than the slots that are compared at once.
#[inline]
fn find_in_short(page: &[u8], tag: u16, key: &[u8]) -> Quick {
    let Some(head) = page.first_chunk::<{ RUNS_START + FIRST_RUNS_BYTES }>() else { return Quick::Unsure };
    let (count, runs) = (slot_count(head), &head[RUNS_START..]);
    let (Some(runs), true) = (runs.first_chunk::<FIRST_RUNS_BYTES>(), count <= FIRST_SLOTS) else {
        return Quick::Unsure;
    };
    quick_at(page, first_match_of_few(eights_of(runs), count, tag), key)
}

/// Compares the record of the first slot with a tag.
#[inline(always)]
fn quick_at(page: &[u8], slot: Option<usize>, key: &[u8]) -> Quick {
    let Some(slot) = slot else { return Quick::Absent };
    let offset = slot_offset(page, slot);
    match head_at(page, offset) {
        Ok(head) if has_key(page, offset, head, key) => Quick::At(Found::of(slot, offset, head)),
        _ => Quick::Unsure,
    }
}

/// The slot of the inline or [`VALUE_IN_EXTENT`] record with this key.
#[inline]
pub fn find(page: &[u8], tag: u16, key: &[u8]) -> Result<Option<Found>, Damage> {
    let is_short = page.len() < RUNS_START + RUNS_BYTES;
    match if is_short { find_in_short(page, tag, key) } else { find_quickly(page, tag, key) } {
        Quick::Absent => Ok(None),
        Quick::At(found) => Ok(Some(found)),
        Quick::Unsure => find_head_among(page, tag, |offset, head| has_key(page, offset, head, key)),
    }
}

/// Whether the record at `offset` holds this key.
#[inline(always)]
fn has_key(page: &[u8], offset: usize, head: RecordHead, key: &[u8]) -> bool {
    head.key_bytes == key.len()
        && head.form != PAIR_IN_EXTENT
        && equal(&page[offset + head.head_bytes..][..key.len()], key)
}

/// Whether two keys of the same length are equal. Most have 8 to 16 bytes, for which a call of `memcmp` would take
/// longer.
#[inline(always)]
fn equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    if !(8..=16).contains(&len) || b.len() != len {
        return a == b;
    }
    u64_at(a, 0) == u64_at(b, 0) && u64_at(a, len - 8) == u64_at(b, len - 8)
}

/// The slot that has `tag` and a record for which `matches` returns true, given its offset and head.
fn find_head_among(
    page: &[u8],
    tag: u16,
    mut matches: impl FnMut(usize, RecordHead) -> bool,
) -> Result<Option<Found>, Damage> {
    let slots = checked_slots(page)?;
    for base in (0..slot_count(page)).step_by(SLOTS_AT_ONCE) {
        for slot in matches_in(slots, base, tag) {
            let offset = slot_offset(page, base + slot);
            let head = head_at(page, offset)?;
            if matches(offset, head) {
                return Ok(Some(Found::of(base + slot, offset, head)));
            }
        }
    }
    Ok(None)
}

/// The slots with `tag` among up to [`SLOTS_AT_ONCE`] slots from `base` on.
fn matches_in(slots: &[u8], base: usize, tag: u16) -> Matches {
    let mut bytes = [0; RUNS_BYTES];
    let slots = slots.get(base * SLOT_BYTES..).unwrap_or_default();
    let slots = &slots[..slots.len().min(SLOTS_AT_ONCE * SLOT_BYTES)];
    bytes[RUN_STARTS_BEFORE..][..slots.len()].copy_from_slice(slots);
    Matches::of(eights_of(&bytes), slots.len() / SLOT_BYTES, tag)
}

/// Runs of eight slots, by number; the first begins [`RUN_STARTS_BEFORE`] bytes before its first slot.
#[inline]
fn eights_of<const BYTES: usize>(runs: &[u8; BYTES]) -> impl Fn(usize) -> [u128; 2] {
    let fours = runs.as_chunks::<16>().0;
    let four = move |index: usize| u128::from_le_bytes(fours[index]);
    move |run| [four(2 * run), four(2 * run + 1)]
}

/// Adds a record. Returns `Ok(false)`, with nothing changed, if it does not fit.
#[inline(always)]
pub fn insert(page: &mut impl Bytes, tag: u16, record: Record<'_>) -> Result<bool, Damage> {
    let bytes = record.bytes();
    if gap_bytes(page)? < bytes + SLOT_BYTES {
        return Ok(false);
    }
    let header = u64_at(page, 0);
    let (count, heap) = (slot_count(page), heap_bytes(page) + bytes);
    let offset = page.len() - heap;
    set_slot(page, count, tag, offset);
    // Both stay below the page size and so below 65536: no carry.
    page.store_word(0, (header + (1 << 16) + ((bytes as u64) << 32)).to_le_bytes());
    write_record(page, offset, record);
    Ok(true)
}

/// Sets the slot count and the heap's length, which share the header's first word.
#[inline(always)]
fn set_counts(page: &mut impl Bytes, count: usize, heap: usize) {
    // Both are below the page size and so below 65536.
    let others = u64_at(page, 0) & 0xFFFF_0000_0000_FFFF;
    page.store_word(0, (others | (count as u64) << 16 | (heap as u64) << 32).to_le_bytes());
}

#[inline(always)]
fn write_record(page: &mut impl Bytes, offset: usize, record: Record<'_>) {
    let Record { form, key, value } = record;
    let first = (key.len() as u64) << 2 | u64::from(form);
    if first < 0x80 && value.len() < 0x80 {
        page.store_record(offset, u16::from_le_bytes([first as u8, value.len() as u8]), key, value);
        return;
    }
    write_long_record(page, offset, form, key, value);
}

#[cold]
fn write_long_record(page: &mut impl Bytes, offset: usize, form: u8, key: &[u8], value: &[u8]) {
    let mut head = [0; 20];
    let n = put_varint(&mut head, (key.len() as u64) << 2 | u64::from(form));
    let m = n + put_varint(&mut head[n..], value.len() as u64);
    page.store(offset, &head[..m]);
    page.store(offset + m, key);
    page.store(offset + m + key.len(), value);
}

/// Removes the record `found`. Returns the bytes of slot and record.
#[inline(always)]
pub fn remove(page: &mut impl Bytes, found: Found) -> Result<usize, Damage> {
    let (first, bytes) = (found.slot, found.bytes());
    let (heap_start, slots_end) = spans(page, found)?;
    let last = slot_count(page) - 1;
    if head_at(page, heap_start)?.record_bytes() == bytes {
        // The last record moves here, and its tag to this slot: nothing else moves.
        page.copy_within(heap_start..heap_start + bytes, found.offset);
        let tag = slot(page, last).0;
        set_slot(page, first, tag, found.offset);
    } else {
        page.copy_within(heap_start..found.offset, heap_start + bytes);
        let by = (bytes as u32) << 16;
        page.shift_half_words(HEADER_BYTES + first * SLOT_BYTES..slots_end, by);
    }
    set_counts(page, last, heap_bytes(page) - bytes);
    Ok(bytes + SLOT_BYTES)
}

/// Changes the value (and form) of the record `found`. Returns the bytes by which the record grew, or `Ok(None)`, with
/// nothing changed, if it does not fit.
#[inline(always)]
pub fn replace_value(page: &mut impl Bytes, found: Found, form: u8, value: &[u8]) -> Result<Option<i64>, Damage> {
    if found.form == form && found.value_bytes == value.len() {
        // The common overwrite: equal lengths, nothing moves.
        page.store(found.offset + found.bytes() - value.len(), value);
        return Ok(Some(0));
    }
    replace_other(page, found, form, value)
}

/// [`replace_value`] by one of the same length, if the record is still where it was found.
pub fn replace_found(page: &mut impl Bytes, found: Found, form: u8, value: &[u8]) -> Result<bool, Damage> {
    let same = Found::at(page, found.slot)? == found && found.value_bytes == value.len();
    Ok(same && replace_value(page, found, form, value)?.is_some())
}

fn replace_other(page: &mut impl Bytes, found: Found, form: u8, value: &[u8]) -> Result<Option<i64>, Damage> {
    // The resized record ends at the same byte and its key may move: save it first.
    let key = found.record(page).key.to_vec();
    let new = Record { form, key: &key, value };
    let (old_bytes, new_bytes) = (found.bytes(), new.bytes());
    if new_bytes > old_bytes && gap_bytes(page)? < new_bytes - old_bytes {
        return Ok(None);
    }
    let growth = new_bytes as isize - old_bytes as isize;
    move_records(page, found, growth)?;
    write_record(page, found.offset + old_bytes - new_bytes, new);
    Ok(Some(growth as i64))
}

/// Appends `tail` to the inline value of the record `found` in the usual case: there is room, and only one byte of the
/// lengths changes. Otherwise returns false and changes nothing: call [`append_value`], which also explains
/// `pair_bytes_max`.
#[inline(always)]
pub fn append_quickly(page: &mut impl Bytes, found: Found, tail: &[u8], pair_bytes_max: usize) -> bool {
    let Some(&header) = page.first_chunk() else { return false };
    let header = Header { first: u64::from_le_bytes(header), next: 0, filter: 0 };
    let (slots_end, heap) = (HEADER_BYTES + header.slot_count() * SLOT_BYTES, header.heap_bytes());
    let Found { slot, offset, head_bytes, form, key_bytes, value_bytes } = found;
    let (page_bytes, new_len, end) = (page.len(), value_bytes + tail.len(), offset + found.bytes());
    let usual = form == INLINE
        && key_bytes + new_len <= pair_bytes_max
        // Only the lowest seven bits of the value's length change. These are in its first byte.
        && (value_bytes ^ new_len) < 0x80
        && slots_end + heap + tail.len() <= page_bytes
        // In a damaged file two buckets may share an overflow page, which then changes after a record was found.
        && slot < header.slot_count()
        && offset >= page_bytes - heap
        && end <= page_bytes;
    if !usual {
        return false;
    }
    let heap_start = page_bytes - heap;
    page.copy_within(heap_start..end, heap_start - tail.len());
    // Wrapping: an offset that was out of range stays out of range or harmless.
    page.add_to_half_words(HEADER_BYTES + slot * SLOT_BYTES..slots_end, ((tail.len() as u32) << 16).wrapping_neg());
    // The heap's length stays below the page size and so below 65536.
    page.store_word(0, (header.first + ((tail.len() as u64) << 32)).to_le_bytes());
    page.store(end - tail.len(), tail);
    let (length_bytes, more) = match head_bytes {
        2 => (1, 0), // both lengths are below 128
        _ => (varint_bytes(new_len as u64), if new_len < 0x80 { 0 } else { 0x80 }),
    };
    page.store_byte(offset - tail.len() + head_bytes - length_bytes, (new_len & 0x7F) as u8 | more);
    true
}

/// Appends `tail` to the inline value of the record `found`. Returns the bytes by which the record grew. Returns
/// `Ok(None)`, with nothing changed, if the record does not fit, if key and value together would be longer than
/// `pair_bytes_max`, or if the value is not inline.
pub fn append_value(
    page: &mut impl Bytes,
    found: Found,
    tail: &[u8],
    pair_bytes_max: usize,
) -> Result<Option<i64>, Damage> {
    if append_quickly(page, found, tail, pair_bytes_max) {
        return Ok(Some(tail.len() as i64));
    }
    let new_len = found.value_bytes + tail.len();
    let fits = found.key_bytes + new_len <= pair_bytes_max && tail.len() <= gap_bytes(page)?;
    if found.form != INLINE || !fits {
        return Ok(None);
    }
    // The length of the value now takes more bytes.
    let value = [found.record(page).value, tail].concat();
    replace_other(page, found, INLINE, &value)
}

/// The start of the heap and the end of the slots, checked for a move of the records from `found` on.
#[inline(always)]
fn spans(page: &[u8], found: Found) -> Result<(usize, usize), Damage> {
    let slots_end = HEADER_BYTES + slot_count(page) * SLOT_BYTES;
    let heap_start = page.len().wrapping_sub(heap_bytes(page));
    // In a damaged file two buckets may share an overflow page, which then changes after a record was found.
    let gone = found.slot >= slot_count(page) || found.offset < heap_start;
    if heap_start > page.len() || slots_end > heap_start || gone {
        return Err(Damage("slots and records overlap"));
    }
    Ok((heap_start, slots_end))
}

/// Moves the heap's bytes before the record `found` by `by` towards the page's start, and adjusts the offsets in the
/// slots of the moved records, and in that of `found`.
fn move_records(page: &mut impl Bytes, found: Found, by: isize) -> Result<(), Damage> {
    let (heap_start, slots_end) = spans(page, found)?;
    let new_start =
        heap_start.checked_add_signed(-by).filter(|&s| s >= slots_end).ok_or(Damage("a heap outgrew its page"))?;
    if new_start + (found.offset - heap_start) > page.len() {
        return Err(Damage("a heap outgrew its page"));
    }
    page.copy_within(heap_start..found.offset, new_start);
    // Wrapping: an offset that was out of range stays out of range or harmless.
    let by = (by as u32) << 16;
    page.add_to_half_words(HEADER_BYTES + found.slot * SLOT_BYTES..slots_end, by.wrapping_neg());
    set_counts(page, slot_count(page), page.len() - new_start);
    Ok(())
}

/// Copies all records of `from` into `to`, an empty page that has room for them.
pub fn copy_records(from: &[u8], to: &mut impl Bytes) -> Result<(), Damage> {
    let (count, heap) = (slot_count(from), heap_bytes(from));
    let slots = checked_slots(from)?;
    let heap_start = from.len().checked_sub(heap).ok_or(Damage("records run over their page"))?;
    let slots_end = HEADER_BYTES + slots.len();
    let to_start = to.len().checked_sub(heap).filter(|&s| s >= slots_end).ok_or(Damage("slots and records overlap"))?;
    // Offsets count from the page's start, and records are at its end; wrapping as in `move_records`.
    let moved = to.len().wrapping_sub(from.len()) as u16;
    to.store(HEADER_BYTES, slots);
    to.add_to_half_words(HEADER_BYTES..slots_end, u32::from(moved) << 16);
    to.store(to_start, &from[heap_start..]);
    set_counts(to, count, heap);
    Ok(())
}

/// All slots of a page: tag and record. The records together are no longer than the heap, so copies of them are no
/// larger than the page.
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

/// The records of a page, contiguous, that of the last slot first, and whether all of them are inline.
pub fn heap(page: &[u8]) -> Result<(&[u8], bool), Damage> {
    gap_bytes(page)?;
    let heap = &page[page.len() - heap_bytes(page)..];
    let (mut rest, mut count, mut inline) = (heap, 0, true);
    while let Some(lengths) = rest.first_chunk::<2>() {
        let head = head_at(rest, 0)?;
        let (bytes, before) = (head.record_bytes(), rest.len());
        inline &= head.form == INLINE;
        rest = &rest[bytes..];
        // Fast path for records of the same lengths: if both lengths are short, they are the two bytes of the head.
        if head.head_bytes == 2 {
            let lengths = u16::from_le_bytes(*lengths);
            let mut same = 0;
            for record in rest.chunks_exact(bytes) {
                if u16::from_le_bytes([record[0], record[1]]) != lengths {
                    break;
                }
                same += bytes;
            }
            rest = &rest[same..];
        }
        count += (before - rest.len()) / bytes;
    }
    if !rest.is_empty() {
        return Err(RECORD_RUNS_OVER);
    }
    if count == slot_count(page) { Ok((heap, inline)) } else { Err(Damage("records do not fill the heap")) }
}

/// A slot.
pub type Slot = [u8; SLOT_BYTES];

/// The slots; their offsets are unchecked.
#[inline]
pub fn slots(page: &[u8]) -> Result<&[Slot], Damage> {
    Ok(checked_slots(page)?.as_chunks().0)
}

/// The tag and the offset in a slot.
#[inline]
pub fn tag_and_offset(slot: Slot) -> (u16, usize) {
    let slot = u32::from_le_bytes(slot);
    (slot as u16, slot as usize >> 16)
}

/// The lengths of the record at `offset`, which must be within the page.
#[inline(always)]
pub fn head_at(page: &[u8], offset: usize) -> Result<RecordHead, Damage> {
    let bytes = page.get(offset..).ok_or(RECORD_RUNS_OVER)?;
    // Both lengths are short in most records. If fewer than two bytes are left, take the slow path.
    let lengths = bytes.first_chunk().map_or(0x8080, |&lengths| u16::from_le_bytes(lengths));
    let head = match lengths & 0x8080 {
        0 => RecordHead::short(lengths.into()),
        _ => long_head(bytes).ok_or(RECORD_RUNS_OVER)?,
    };
    if head.record_bytes() > bytes.len() { Err(RECORD_RUNS_OVER) } else { Ok(head) }
}

const RECORD_RUNS_OVER: Damage = Damage("a record runs over its page");
pub const RECORDS_OVERLAP: Damage = Damage("records overlap");

/// Checks a page for contradictions.
pub fn check(page: &[u8]) -> Result<(), Damage> {
    if u16_at(page, 6) != 0 {
        return Err(Damage("reserved bytes are not zero"));
    }
    gap_bytes(page)?;
    let mut start = page.len();
    for index in 0..slot_count(page) {
        let record = record(page, index)?;
        if record.form > PAIR_IN_EXTENT {
            return Err(Damage("a record of unknown form"));
        }
        let offset = slot(page, index).1;
        if offset + record.bytes() != start {
            return Err(Damage("records overlap, leave a hole or are not in the order of their slots"));
        }
        start = offset;
    }
    if start != page.len() - heap_bytes(page) { Err(Damage("records do not fill the heap")) } else { Ok(()) }
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
        fn page_behaves_like_a_list_of_pairs(
            page_bytes in prop::sample::select(vec![64usize, 256, 512, 1024, 65536]),
            ops in proptest::collection::vec(op(), 1..200),
        ) {
            let mut page = vec![0xAA; page_bytes];
            init(&mut page, KIND_BUCKET, 3);
            let mut model: Vec<(u16, Vec<u8>, Vec<u8>)> = Vec::new();
            let bytes_of = |(_, k, v): &(u16, Vec<u8>, Vec<u8>)| inline(k, v).bytes() as i64;
            let grown = |before: &_, after: &_| bytes_of(after) - bytes_of(before);
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
                        let found = Found::at(&page, i).unwrap();
                        let (removed, last) = (bytes_of(&model[i]), bytes_of(&model[model.len() - 1]));
                        if removed == last { model.swap_remove(i); } else { model.remove(i); }
                        prop_assert_eq!(remove(&mut page, found), Ok(removed as usize + SLOT_BYTES));
                    }
                    Op::Replace(i, v) if !model.is_empty() => {
                        let i = i % model.len();
                        let mut after = model.clone();
                        after[i].2 = v.clone();
                        let expected = fits(&after, 0);
                        let found = Found::at(&page, i).unwrap();
                        let growth = grown(&model[i], &after[i]);
                        let replaced = replace_value(&mut page, found, INLINE, &v);
                        prop_assert_eq!(replaced, Ok(expected.then_some(growth)));
                        if expected { model = after; }
                    }
                    Op::Append(i, v) if !model.is_empty() => {
                        let i = i % model.len();
                        let mut after = model.clone();
                        after[i].2.extend_from_slice(&v);
                        let expected = fits(&after, 0);
                        let growth = grown(&model[i], &after[i]);
                        let found = Found::at(&page, i).unwrap();
                        let appended = append_value(&mut page, found, &v, usize::MAX);
                        prop_assert_eq!(appended, Ok(expected.then_some(growth)));
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
                    prop_assert_eq!(&model[found.slot].1, key);
                    prop_assert_eq!(found.record(&page).key, &key[..]);
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
            if checked_slots(&page).is_ok()
                && count > 0
                && let Ok(found) = Found::at(&page, index % count)
            {
                let _ = remove(&mut page.clone(), found);
                let _ = replace_value(&mut page.clone(), found, INLINE, b"value");
                let _ = append_value(&mut page.clone(), found, b"value", 1 << 16);
            }
            let _ = insert(&mut page, 7, inline(b"k", b"v"));
        }
    }
}
