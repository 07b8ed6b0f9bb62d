//! Searches of a sequence by the instructions for counts of bits, where the processor has them.
//!
//! A search counts the ones of four words and where runs of ones and zeros end: an instruction each on any x86-64 since
//! 2013, which the compiler may not assume, and a dozen without. What is compiled here is
//! [`EliasFano::around`] both times, so both give the same.
//!
//! Unsafe: calls of a function for these instructions, after the processor was asked.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a function for other instructions is called"))]

use super::elias_fano::{Around, EliasFano};

/// [`EliasFano::around`] by the best instructions that there are.
#[inline]
pub(super) fn around<const N: usize>(sequence: &EliasFano, words: &[u64], values: &[u64; N]) -> [Around; N] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("lzcnt") {
        // SAFETY: the processor has what the function asks for, as was just seen.
        return unsafe { around_by_popcnt(sequence, words, values) };
    }
    around_portable(sequence, words, values)
}

/// [`EliasFano::around`] by the instructions that every processor of the target has.
pub(super) fn around_portable<const N: usize>(sequence: &EliasFano, words: &[u64], values: &[u64; N]) -> [Around; N] {
    sequence.around(words, values)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,lzcnt")]
fn around_by_popcnt<const N: usize>(sequence: &EliasFano, words: &[u64], values: &[u64; N]) -> [Around; N] {
    sequence.around(words, values)
}
