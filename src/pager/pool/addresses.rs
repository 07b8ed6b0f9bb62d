//! The amount of address space that a pool reserves at a time, and the slot of its table that leads to an address.
//!
//! Address space is limited too: by `ulimit -v`, and for all users of a process together. So a small table reserves
//! little, and each further segment is at most a quarter of the bytes before it. Segments have fixed borders, and are
//! never moved: a frame keeps its address.
//!
//! ```text
//! segments   | 4 | 4 | 4 | 4 | 4 MiB ... | 8 | 8 | 8 | 8 | 16 ... | 1 GiB | 1 GiB ...
//! slots      | 4 | 4 | 4 | 4 | 4 MiB ... up to 1 GiB ...          | 256 MiB | 256 MiB ...
//! ```
//!
//! A slot has the addresses that byte 0 of the file and frame 0 would have if all frames were where those of this slot
//! are. So an address is one load and an addition, whatever segment the slot is in. There are few slots, although the
//! first segments are small, since slots of later bytes are larger.
//!
//! Not here: the memory itself (`mapping.rs`), and the table of slots (`mod.rs`).

use super::FRAME_BYTES_MIN;
use std::ops::Range;

/// The smallest segment, and a slot of the first [`SMALL_SLOTS_END`] bytes. Small in tests, which cross borders so.
const SEGMENT_BYTES_MIN: u64 = if cfg!(test) { 64 << 10 } else { 4 << 20 };
/// The largest segment.
const SEGMENT_BYTES_MAX: u64 = 256 * SEGMENT_BYTES_MIN;
/// Slots of bytes from here on are large.
const SMALL_SLOTS_END: u64 = SEGMENT_BYTES_MAX;
/// A large slot: the smallest segment from [`SMALL_SLOTS_END`] on.
const LARGE_SLOT_BYTES: u64 = SMALL_SLOTS_END / 4;
/// The maximum number of frames of a table.
const FRAMES_MAX: u64 = 1 << 32;
/// The maximum length of a table with frames of [`FRAME_BYTES_MIN`].
const LEN_MAX: u64 = if cfg!(test) { 1 << 34 } else { FRAMES_MAX * FRAME_BYTES_MIN as u64 };

/// The maximum length of a table in bytes.
pub(super) fn len_max(frame_bytes: usize) -> u64 {
    LEN_MAX / FRAME_BYTES_MIN as u64 * frame_bytes as u64
}

/// The slot that leads to byte `address`.
#[inline(always)]
pub(super) fn slot_of(address: u64) -> usize {
    let slot = if address < SMALL_SLOTS_END {
        address / SEGMENT_BYTES_MIN
    } else {
        SMALL_SLOTS_END / SEGMENT_BYTES_MIN + address / LARGE_SLOT_BYTES
    };
    slot as usize
}

/// The length of the slot that begins at byte `address`.
pub(super) fn slot_bytes(address: u64) -> u64 {
    if address < SMALL_SLOTS_END { SEGMENT_BYTES_MIN } else { LARGE_SLOT_BYTES }
}

/// The bytes of the segment that has byte `address`.
pub(super) fn segment_around(address: u64) -> Range<u64> {
    let power = 1 << address.max(1).ilog2();
    let bytes = u64::clamp(power / 4, SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    let start = address - address % bytes;
    start..start + bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_and_have_slots_of_their_own() {
        let (mut end, mut slot_before, mut len_before) = (0, None, 0);
        while end < 40 * SEGMENT_BYTES_MAX {
            let segment = segment_around(end);
            let len = segment.end - segment.start;
            assert_eq!(segment.start, end);
            assert_eq!(segment_around(segment.end - 1), segment);
            assert!(slot_before.is_none_or(|slot| slot < slot_of(segment.start)), "{segment:?} shares a slot");
            assert!(len >= len_before && len <= (end / 4).max(SEGMENT_BYTES_MIN), "{segment:?}");
            (end, slot_before, len_before) = (segment.end, Some(slot_of(segment.end - 1)), len);
        }
        assert_eq!(len_before, SEGMENT_BYTES_MAX);
    }

    #[test]
    fn slots_ascend_one_by_one() {
        for address in (1..3 * SMALL_SLOTS_END / SEGMENT_BYTES_MIN).map(|n| n * SEGMENT_BYTES_MIN) {
            let (before, after) = (slot_of(address - 1), slot_of(address));
            let gap = if address == SMALL_SLOTS_END { 5 } else { 1 };
            let is_border = address < SMALL_SLOTS_END || address.is_multiple_of(LARGE_SLOT_BYTES);
            assert_eq!(after - before, if is_border { gap } else { 0 }, "{address}");
        }
    }
}
