//! Comparing the tags of sixteen slots at once.
//!
//! SSE2 on x86-64, which every such processor has; elsewhere, and at a page's end, a loop that gives the same.
//! Measured: the loop alone makes a lookup in a full 1-KiB page a third slower (docs/benchmarks.md, "What was tried").

use super::page::SLOT_BYTES;

/// Bit i is set where the tag of slot i is `tag`, for up to sixteen slots.
pub(super) fn mask_portable(slots: &[u8], tag: u16) -> u32 {
    let mut mask = 0;
    for (i, slot) in slots.chunks_exact(SLOT_BYTES).take(16).enumerate() {
        mask |= u32::from(slot[..2] == tag.to_le_bytes()) << i;
    }
    mask
}

/// The same for sixteen slots that are there.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn mask_of_sixteen(slots: &[u8; 64], tag: u16) -> u32 {
    mask_portable(slots, tag)
}

/// The same for sixteen slots that are there.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "the compiler takes SSE2 for granted on x86-64 but wants it said")]
pub(super) fn mask_of_sixteen(slots: &[u8; 64], tag: u16) -> u32 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { mask_sse2(slots, tag) }
}

/// Four slots a vector, packed to one byte a slot.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn mask_sse2(slots: &[u8; 64], tag: u16) -> u32 {
    use std::arch::x86_64::*;
    let wanted = _mm_set1_epi32(i32::from(tag));
    let tags = _mm_set1_epi32(0xFFFF);
    let half = |at: usize| i64::from_le_bytes(slots[at..at + 8].try_into().expect("8 bytes"));
    let four = |at: usize| _mm_cmpeq_epi32(_mm_and_si128(_mm_set_epi64x(half(at + 8), half(at)), tags), wanted);
    let low = _mm_packs_epi32(four(0), four(16));
    let high = _mm_packs_epi32(four(32), four(48));
    _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_scans_agree() {
        let mut slots = [0; 64];
        for (i, byte) in slots.iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(37) % 5;
        }
        for tag in 0..=0x505 {
            assert_eq!(mask_of_sixteen(&slots, tag), mask_portable(&slots, tag), "tag {tag:x}");
        }
        let equal = [7, 0, 9, 9].repeat(16);
        assert_eq!(mask_of_sixteen(equal[..].try_into().unwrap(), 7), 0xFFFF);
    }
}
