//! CRC-32C, the checksum of every file: long inputs by a library, short ones here.
//!
//! The library folds by carry-less multiplication, 3 times as fast on a page as the processor's CRC instruction. For
//! short inputs the library's choice of an algorithm takes longer than the instruction: 14 ns for a record of 16 bytes,
//! not 3.
//!
//! Source: Castagnoli, Braeuer & Herrmann 1993; parameters as in RFC 3720 (iSCSI).
//! Unsafe: calls functions that need SSE 4.2, if the processor has it. Tests compare them with the definition, and also
//! the library, which other processors use for all lengths.
//! Not here: what is summed, and in which order; each format defines that (docs/format.md).
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the processor's instruction for CRC-32C"))]

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};

/// From this many bytes on, the library is faster.
const LONG_BYTES: usize = 384;

/// CRC-32C of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of `bytes`, continuing after bytes with the checksum `before`.
pub(crate) fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG_BYTES { crc32c_of_short(before, bytes) } else { by_library(before, bytes) }
}

/// [`crc32c_append`] for fewer than a few hundred bytes, inlined.
#[inline(always)]
pub(crate) fn crc32c_of_short(before: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2, as the test above showed.
        return unsafe { by_instruction(before, bytes) };
    }
    by_library(before, bytes)
}

/// CRC-32C of `word`, little-endian, continuing after bytes with the checksum `before`.
#[inline(always)]
pub(crate) fn crc32c_of_word(before: u32, word: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        #[target_feature(enable = "sse4.2")]
        fn by_instruction(before: u32, word: u32) -> u32 {
            !std::arch::x86_64::_mm_crc32_u32(!before, word)
        }
        // SAFETY: the processor has SSE 4.2, as the test above showed.
        return unsafe { by_instruction(before, word) };
    }
    by_library(before, &word.to_le_bytes())
}

/// CRC-32C of a concatenation: of bytes with the checksum `before`, then `after_bytes` bytes with the checksum `after`.
pub(crate) fn crc32c_combine(before: u32, after: u32, after_bytes: u64) -> u32 {
    crc_fast::checksum_combine(Crc32Iscsi, before.into(), after.into(), after_bytes) as u32
}

#[inline(never)]
fn by_library(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn by_instruction(before: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (mut wide, mut rest) = (u64::from(!before), bytes);
    // Each step waits for the one before, so a loop over many words at a time would only take more instructions.
    while let Some((word, after)) = rest.split_first_chunk() {
        (wide, rest) = (_mm_crc32_u64(wide, u64::from_le_bytes(*word)), after);
    }
    // The instruction leaves the upper half zero.
    let mut sum = wide as u32;
    if let Some((half, after)) = rest.split_first_chunk() {
        (sum, rest) = (_mm_crc32_u32(sum, u32::from_le_bytes(*half)), after);
    }
    for byte in rest {
        sum = _mm_crc32_u8(sum, *byte);
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the checksum bit by bit, from the polynomial.
    fn by_definition(before: u32, bytes: &[u8]) -> u32 {
        const POLYNOMIAL_REFLECTED: u32 = 0x82F6_3B78;
        let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL_REFLECTED } else { sum >> 1 };
        !bytes.iter().fold(!before, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), |sum, _| step(sum)))
    }

    proptest! {
        #[test]
        fn every_way_gives_the_sum_of_the_definition(
            bytes in proptest::collection::vec(any::<u8>(), 0..3 * LONG_BYTES),
            before: u32,
            word: u32,
        ) {
            let expected = by_definition(before, &bytes);
            prop_assert_eq!(crc32c_append(before, &bytes), expected);
            prop_assert_eq!(crc32c_of_short(before, &bytes), expected);
            prop_assert_eq!(by_library(before, &bytes), expected);
            let (first, rest) = bytes.split_at(bytes.len() / 3);
            prop_assert_eq!(crc32c_append(crc32c(first), rest), crc32c(&bytes));
            prop_assert_eq!(crc32c_combine(crc32c(first), crc32c(rest), rest.len() as u64), crc32c(&bytes));
            prop_assert_eq!(crc32c_of_word(before, word), by_definition(before, &word.to_le_bytes()));
        }
    }

    /// Frames and pages have lengths that the property test does not generate, and start at any address.
    #[test]
    fn long_inputs_at_any_alignment_have_the_sum_of_the_definition() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for len in [4096, 4097, 8192, 16_384, 65_000] {
            for start in [0, 1, 7, 31, 64] {
                let part = &bytes[start..start + len];
                assert_eq!(crc32c(part), by_definition(0, part), "{len} bytes from {start} on");
            }
        }
    }
}
