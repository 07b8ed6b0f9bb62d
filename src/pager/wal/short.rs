//! Short records: put together on the stack, so that checksum and store are one pass each.
//!
//! The checksum is CRC-32C. The crate that the rest of the library uses is made for long inputs: for each part of a
//! record it aligns and tries steps of kilobytes first, a hundred instructions where the bytes take ten. Here it is one
//! instruction for eight bytes, at any alignment.
//!
//! Unsafe: calls functions that need SSE 4.2, where the processor has it. Tests compare them with the crate, which
//! other processors use.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "the processor's instruction for CRC-32C"))]

use super::RECORD_HEADER_BYTES;

/// Longest body of a record that is put together. Most are shorter; the place is filled with zeros first.
pub(super) const SHORT_BODY_BYTES: usize = 120;

/// A short record that is put together, but for its checksum.
pub(crate) struct Short {
    pub(super) record: [u8; RECORD_HEADER_BYTES + SHORT_BODY_BYTES],
    pub(super) len: usize,
    /// Checksum of what does not depend on the record before.
    pub(super) own: u32,
}

impl Short {
    /// The record with this word of kind and length, and a body of at most [`SHORT_BODY_BYTES`] in parts.
    #[inline(always)]
    pub(super) fn new(word: [u8; 4], body: &[&[u8]]) -> Short {
        let mut record = [0; _];
        record[4..RECORD_HEADER_BYTES].copy_from_slice(&word);
        let mut len = RECORD_HEADER_BYTES;
        for part in body {
            copy(part, &mut record[len..]);
            len += part.len();
        }
        let own = sum(&record[4..len]);
        Short { record, len, own }
    }
}

/// Copies a part of a record to the start of `to`. No call for a length, a key or a short value.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    let to = &mut to[..from.len()];
    if let [byte] = from {
        to[0] = *byte;
    } else if from.len() > 32 || !copy_ends::<16>(from, to) && !copy_ends::<8>(from, to) && !copy_ends::<4>(from, to) {
        to.copy_from_slice(from);
    }
}

/// Copies the first and the last `N` bytes, which may overlap. `false` where there are fewer.
#[inline(always)]
fn copy_ends<const N: usize>(from: &[u8], to: &mut [u8]) -> bool {
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return false };
    if let Some(to) = to.first_chunk_mut() {
        *to = *first;
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = *last;
    }
    true
}

/// CRC-32C of `bytes`, which are few.
#[inline(always)]
fn sum(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2, as was just asked.
        return unsafe { sum_by_instruction(bytes) };
    }
    crc32c::crc32c(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn sum_by_instruction(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks();
    let mut wide = u64::from(u32::MAX);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    // The instruction leaves the upper half zero.
    let mut sum = wide as u32;
    let (half, rest) = rest.as_chunks();
    for half in half {
        sum = _mm_crc32_u32(sum, u32::from_le_bytes(*half));
    }
    for byte in rest {
        sum = _mm_crc32_u8(sum, *byte);
    }
    !sum
}

/// CRC-32C of `own`, little-endian, after bytes with the checksum `chain`.
#[inline(always)]
pub(super) fn sum_of_word(chain: u32, own: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        #[target_feature(enable = "sse4.2")]
        fn by_instruction(chain: u32, own: u32) -> u32 {
            !std::arch::x86_64::_mm_crc32_u32(!chain, own)
        }
        // SAFETY: the processor has SSE 4.2, as was just asked.
        return unsafe { by_instruction(chain, own) };
    }
    crc32c::crc32c_append(chain, &own.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_put_together_is_its_parts_with_the_checksum_of_the_crate(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..4),
            word: [u8; 4],
            chain: u32,
        ) {
            let body: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let all = parts.concat();
            let own = crc32c::crc32c(&[&word[..], &all].concat());
            let expected = crc32c::crc32c_append(chain, &own.to_le_bytes());
            let short = Short::new(word, &body);
            prop_assert_eq!((short.len, short.own), (RECORD_HEADER_BYTES + all.len(), own));
            prop_assert_eq!(&short.record[..short.len], [&[0; 4], &word, &all[..]].concat());
            prop_assert_eq!(sum_of_word(chain, own), expected);
        }
    }
}
