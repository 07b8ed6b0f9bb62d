//! Searches of a sequence with bit-counting instructions, if the processor has them.
//!
//! A search counts the ones of four words and finds where runs of ones and zeros end. Each takes one instruction on any
//! x86-64 processor since 2013, and a dozen otherwise; but the compiler may not assume these instructions. Both
//! versions compile [`EliasFano::around`], so both give the same results.
//!
//! Unsafe: calls of a function for these instructions, after the processor was checked.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a function for other instructions is called"))]

use super::elias_fano::{Around, EliasFano};

/// Calls [`EliasFano::around`] with the best instructions available.
#[inline]
pub(super) fn around<const N: usize>(sequence: &EliasFano, words: &[u64], values: &[u64; N]) -> [Around; N] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("lzcnt") {
        // SAFETY: the processor has the features that the function requires, as just checked.
        return unsafe { around_by_popcnt(sequence, words, values) };
    }
    around_portable(sequence, words, values)
}

/// Calls [`EliasFano::around`] with the instructions that every processor of the target has.
pub(super) fn around_portable<const N: usize>(sequence: &EliasFano, words: &[u64], values: &[u64; N]) -> [Around; N] {
    sequence.around(words, values)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,lzcnt")]
fn around_by_popcnt<const N: usize>(sequence: &EliasFano, words: &[u64], values: &[u64; N]) -> [Around; N] {
    sequence.around(words, values)
}
