//! The search compiled for AVX2, where the processor has it: eight 32-bit products at once.
//!
//! It is the same function, so the result is the same; the compiler makes its loops wider. What it buys: tests, `figures`.
//!
//! Unsafe: a call of a function for AVX2, after the processor was asked.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a function for AVX2 is called"))]

use super::shape::Shape;
use super::solve;

/// [`solve::search`] by the widest instructions that there are.
pub(super) fn search(shape: &Shape, positions: &[u64], order: &mut Vec<u32>, tests_max: u64) -> Option<Vec<u64>> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has what the function asks for, as the line above found.
        return unsafe { search_avx2(shape, positions, order, tests_max) };
    }
    search_portable(shape, positions, order, tests_max)
}

/// [`solve::search`] by the instructions that every processor of the target has.
pub(super) fn search_portable(
    shape: &Shape,
    positions: &[u64],
    order: &mut Vec<u32>,
    tests_max: u64,
) -> Option<Vec<u64>> {
    solve::search(shape, positions, order, tests_max)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn search_avx2(shape: &Shape, positions: &[u64], order: &mut Vec<u32>, tests_max: u64) -> Option<Vec<u64>> {
    solve::search(shape, positions, order, tests_max)
}
