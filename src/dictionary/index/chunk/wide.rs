//! The search with AVX2, if the processor has it: eight 32-bit products at once.
//!
//! [`Avx2`] is [`Portable`](seeds::Portable) with other instructions, and produces the same bits. Written as loops of
//! eight, the compiler makes half of each loop scalar. The test `figures` measures the gain over the portable search,
//! which uses SSE2.
//!
//! Unsafe: calls of functions for AVX2, after the processor was checked. An [`Avx2`] is the proof of that check.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "functions for AVX2 are called"))]

use super::seeds;
use super::shape::TreeShape;

/// Calls [`seeds::search`] with the widest instructions available.
pub(super) fn search(shape: &TreeShape, positions: &[u64], order: &mut Vec<u32>, tested_max: u64) -> Option<Vec<u64>> {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::find() {
        // SAFETY: the processor has the features that the function requires, or there would be no `Avx2`.
        return unsafe { search_avx2(avx2, shape, positions, order, tested_max) };
    }
    search_portable(shape, positions, order, tested_max)
}

/// Calls [`seeds::search`] with the instructions that every processor of the target has.
pub(super) fn search_portable(
    shape: &TreeShape,
    positions: &[u64],
    order: &mut Vec<u32>,
    tested_max: u64,
) -> Option<Vec<u64>> {
    seeds::search(seeds::Portable, shape, positions, order, tested_max)
}

#[cfg(target_arch = "x86_64")]
use avx2::{Avx2, search_avx2};

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{TreeShape, seeds};
    use std::arch::x86_64::*;

    /// A value exists only if the processor has AVX2, BMI1 and BMI2.
    #[derive(Clone, Copy)]
    pub struct Avx2(());

    impl Avx2 {
        pub fn find() -> Option<Avx2> {
            let has = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            has.then_some(Avx2(()))
        }
    }

    /// [`seeds::search`], all of it compiled for AVX2, so that the tests are inlined.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub fn search_avx2(
        avx2: Avx2,
        shape: &TreeShape,
        positions: &[u64],
        order: &mut Vec<u32>,
        tested_max: u64,
    ) -> Option<Vec<u64>> {
        seeds::search(avx2, shape, positions, order, tested_max)
    }

    impl seeds::Tests for Avx2 {
        #[inline(always)]
        fn permuting(self, keys: &[u32; 4], seed: u32) -> u8 {
            // SAFETY: the processor has AVX2, or there would be no `self`.
            unsafe { permuting(keys, seed) }
        }

        #[inline(always)]
        fn halving<const N: usize>(self, keys: &[u32; N], seed: u32) -> u8 {
            // SAFETY: the processor has AVX2, or there would be no `self`.
            unsafe { halving(keys, seed) }
        }

        #[inline(always)]
        fn is_halving(self, keys: &[u32], seed: u32) -> bool {
            // SAFETY: the processor has AVX2, or there would be no `self`.
            unsafe { is_halving(keys, seed) }
        }
    }

    /// Eight consecutive seeds from `seed` on.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn eight(seed: u32) -> __m256i {
        _mm256_add_epi32(_mm256_set1_epi32(seed as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }

    /// The numbers, of the eight, that equal `number`, one bit each.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn equal(numbers: __m256i, number: i32) -> u8 {
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(numbers, _mm256_set1_epi32(number)))) as u8
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn permuting(keys: &[u32; 4], seed: u32) -> u8 {
        let (seeds, one) = (eight(seed), _mm256_set1_epi32(1));
        let places = keys.map(|key| {
            let product = _mm256_mullo_epi32(seeds, _mm256_set1_epi32(key as i32));
            _mm256_sllv_epi32(one, _mm256_srli_epi32::<30>(product))
        });
        let [a, b, c, d] = places;
        equal(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)), 0b1111)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn halving<const N: usize>(keys: &[u32; N], seed: u32) -> u8 {
        let seeds = eight(seed);
        let mut up = _mm256_setzero_si256();
        for key in keys {
            let product = _mm256_mullo_epi32(seeds, _mm256_set1_epi32(*key as i32));
            up = _mm256_add_epi32(up, _mm256_srli_epi32::<31>(product));
        }
        equal(up, N as i32 / 2)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn is_halving(keys: &[u32], seed: u32) -> bool {
        let seed = _mm256_set1_epi32(seed as i32);
        let mut up = [_mm256_setzero_si256(); 2];
        for sixteen in keys.as_chunks::<16>().0 {
            for (up, keys) in up.iter_mut().zip(sixteen.as_chunks::<8>().0) {
                let [a, b, c, d, e, f, g, h] = keys.map(|key| key as i32);
                let product = _mm256_mullo_epi32(_mm256_setr_epi32(a, b, c, d, e, f, g, h), seed);
                *up = _mm256_add_epi32(*up, _mm256_srli_epi32::<31>(product));
            }
        }
        let up = _mm256_add_epi32(up[0], up[1]);
        let up = _mm_add_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256::<1>(up));
        let up = _mm_add_epi32(up, _mm_shuffle_epi32::<0b01_00_11_10>(up));
        let up = _mm_add_epi32(up, _mm_shuffle_epi32::<0b10_11_00_01>(up));
        _mm_cvtsi128_si32(up) as usize == keys.len() / 2
    }
}
