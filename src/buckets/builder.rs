//! Builds the page of a rewritten bucket from records of other pages.
//!
//! Not here: which records (`layout.rs`), other changes of a page (`page.rs`).

use super::page::{HEADER_BYTES, SLOT_BYTES, Slot, record_of, tag_and_offset};

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

    /// Adds a record. Returns false, with nothing changed, if it does not fit.
    #[inline]
    pub fn add(&mut self, tag: u16, raw: &[u8]) -> bool {
        if self.heap_start - self.slots_end < raw.len() + SLOT_BYTES {
            return false;
        }
        self.heap_start -= raw.len();
        copy_record(raw, &mut self.page[self.heap_start..self.heap_start + raw.len()]);
        // Offsets are below the page size and so below 65536.
        let slot = u32::from(tag) | (self.heap_start as u32) << 16;
        self.page[self.slots_end..self.slots_end + SLOT_BYTES].copy_from_slice(&slot.to_le_bytes());
        self.slots_end += SLOT_BYTES;
        true
    }

    /// Adds the records whose bits are set in `which`, as long as they fit. Each has `bytes` bytes, see `same_bytes`.
    /// Returns the bits of those that did not fit.
    #[inline]
    pub fn add_same(&mut self, page: &[u8], slots: &[Slot], bytes: usize, which: u64) -> u64 {
        // One loop for each kind of copy, without a branch in it.
        match bytes {
            16..=32 => self.add_same_by(page, slots, bytes, which, |from, to| _ = copy_ends::<16>(from, to)),
            8..=15 => self.add_same_by(page, slots, bytes, which, |from, to| _ = copy_ends::<8>(from, to)),
            _ => self.add_same_by(page, slots, bytes, which, |from, to| to.copy_from_slice(from)),
        }
    }

    #[inline(always)]
    fn add_same_by(
        &mut self,
        page: &[u8],
        slots: &[Slot],
        bytes: usize,
        mut which: u64,
        copy: impl Fn(&[u8], &mut [u8]),
    ) -> u64 {
        let room = (self.heap_start - self.slots_end) / (bytes + SLOT_BYTES);
        let count = room.min(which.count_ones() as usize);
        let mut offset = self.heap_start;
        self.heap_start -= count * bytes;
        let (front, back) = self.page.split_at_mut(self.heap_start);
        let new_slots = front[self.slots_end..][..count * SLOT_BYTES].as_chunks_mut().0;
        let new_records = back[..count * bytes].rchunks_exact_mut(bytes);
        for (new_slot, new_record) in new_slots.iter_mut().zip(new_records) {
            let index = which.trailing_zeros() as usize;
            which &= which - 1;
            let (tag, from) = tag_and_offset(slots[index]);
            copy(&page[from..from + bytes], new_record);
            offset -= bytes;
            *new_slot = (u32::from(tag) | (offset as u32) << 16).to_le_bytes();
        }
        self.slots_end += count * SLOT_BYTES;
        which
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

/// The length of each record of these slots if all have the same short lengths of key and value and are adjacent;
/// else 0. The first record ends at `end`.
#[inline(never)]
pub fn same_bytes(page: &[u8], slots: &[Slot], end: usize) -> usize {
    let Some(raw) = slots.first().and_then(|&slot| page.get(tag_and_offset(slot).1..end)) else { return 0 };
    let Some(lengths) = raw.first_chunk::<2>().filter(|_| record_of(raw).is_ok()) else { return 0 };
    if u16::from_le_bytes(*lengths) & 0x8080 != 0 {
        return 0;
    }
    let bytes = raw.len();
    let Some(first) = end.checked_sub(slots.len() * bytes) else { return 0 };
    // Two loops without an end before the last slot: the first one compares four slots at a time.
    let (mut differ, mut expected) = (0, end as u32);
    for &slot in slots {
        expected = expected.wrapping_sub(bytes as u32); // not below `first`
        differ |= u32::from_le_bytes(slot) >> 16 ^ expected;
    }
    let lengths = u16::from_le_bytes(*lengths);
    for record in page[first..end].chunks_exact(bytes) {
        differ |= u32::from(u16::from_le_bytes([record[0], record[1]]) ^ lengths);
    }
    if differ == 0 { bytes } else { 0 }
}

/// Copies `from` to `to`, of the same length. Most records have 8 to 64 bytes, which are copied without a call.
#[inline]
pub fn copy_record(from: &[u8], to: &mut [u8]) {
    if !copy_ends::<16>(from, to) && !copy_ends::<32>(from, to) && !copy_ends::<8>(from, to) {
        to.copy_from_slice(from);
    }
}

/// Copies the first and the last `N` bytes. Returns false, with nothing copied, if these do not cover the record.
#[inline]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) -> bool {
    let len = from.len();
    if !(N..=2 * N).contains(&len) || to.len() != len {
        return false;
    }
    to[..N].copy_from_slice(&from[..N]);
    to[len - N..].copy_from_slice(&from[len - N..]);
    true
}
