//! Finds the slots of a page that have a tag: all are compared at once, with the same instructions for any page.
//!
//! Without data-dependent branches, the processor can begin the next lookup while this one waits for memory. A loop
//! over only the slots in use would end after a different number of steps each time, which costs a mispredicted branch.
//!
//! Unsafe: calls SSE2 intrinsics, which every x86-64 has. Tests compare them with the safe twin for other processors.
//! Not here: where the slots are, and how a tag is made (`page.rs`).
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "functions of SSE2 are called"))]

/// Slots that are compared at once.
pub const SLOTS_AT_ONCE: usize = 64;
/// Runs of eight slots in them. A run begins two bytes before its first slot: eight times {u16 offset of the slot
/// before, u16 tag}, from the low end of each word. With the tag in the upper half of each number, saturating packs
/// keep the results of comparing tags and drop those of comparing offsets.
pub const EIGHTS_AT_ONCE: usize = SLOTS_AT_ONCE / 8;
/// Bytes before the first slot at which its run begins.
pub const RUN_STARTS_BEFORE: usize = 2;
/// Bytes of all runs, with the offset of the last slot.
pub const RUNS_BYTES: usize = RUN_STARTS_BEFORE + 4 * SLOTS_AT_ONCE;

/// Slots that are compared first.
pub const FIRST_SLOTS: usize = 24;
/// Bytes of their runs.
pub const FIRST_RUNS_BYTES: usize = RUN_STARTS_BEFORE + 4 * FIRST_SLOTS;

/// Slots that have a tag.
#[derive(Clone, Copy, Default)]
pub struct Matches(u64);

/// Few pages have more slots than this, so a branch on it is predicted well.
const USUAL_SLOTS: usize = 48;

/// Slots in runs that begin in the first three lines of a page.
const THREE_LINES_SLOTS: usize = 40;

/// Runs of eight slots, each as two numbers of sixteen bytes.
pub trait Runs {
    /// Run `RUN`.
    fn fixed<const RUN: usize>(&self) -> [u128; 2];
    /// Run `run`.
    fn any(&self, run: usize) -> [u128; 2];
}

impl<F: Fn(usize) -> [u128; 2]> Runs for F {
    #[inline(always)]
    fn fixed<const RUN: usize>(&self) -> [u128; 2] {
        self(RUN)
    }

    #[inline(always)]
    fn any(&self, run: usize) -> [u128; 2] {
        self(run)
    }
}

/// The first slot with `tag` among the first `count`, at most [`SLOTS_AT_ONCE`]. Loads up to [`EIGHTS_AT_ONCE`] runs;
/// slots from `count` on are ignored. The first 24 slots are in the same two cache lines as the page's header: if one
/// of them has the tag, the others are not compared.
#[inline(always)]
pub fn first_match(runs: impl Runs, count: usize, tag: u16) -> Option<usize> {
    let mut matches = equal_24(&runs, tag);
    if matches == 0 {
        let last = if count > USUAL_SLOTS { equal_sixteen([runs.fixed::<6>(), runs.fixed::<7>()], tag) } else { 0 };
        // The sixth run is in another cache line. If it has no slot in use, the fifth is compared again: that changes
        // no result and needs no branch.
        let sixth = if count > THREE_LINES_SLOTS { 5 } else { 4 };
        let fourth_and_fifth = [runs.fixed::<3>(), runs.fixed::<4>()];
        let next = equal_sixteen(fourth_and_fifth, tag) | equal_eight(runs.any(sixth), tag) << 16;
        matches = next << 24 | last << 48;
        if matches == 0 {
            return None;
        }
    }
    first_of(matches, count)
}

/// [`first_match`] among at most [`FIRST_SLOTS`]; loads only their runs.
#[inline(always)]
pub fn first_match_of_few(runs: impl Runs, count: usize, tag: u16) -> Option<usize> {
    first_of(equal_24(&runs, tag), count)
}

/// Slots beyond `count` have stale contents; they come after those in use, so a match there is ignored.
#[inline(always)]
fn first_of(matches: u64, count: usize) -> Option<usize> {
    let slot = matches.trailing_zeros() as usize;
    (slot < count).then_some(slot)
}

/// Bit i is set if slot i of the first three runs has the tag.
#[inline(always)]
fn equal_24(runs: &impl Runs, tag: u16) -> u64 {
    equal_sixteen([runs.fixed::<0>(), runs.fixed::<1>()], tag) | equal_eight(runs.fixed::<2>(), tag) << 16
}

impl Matches {
    /// The slots with `tag` among the first `count`, at most [`SLOTS_AT_ONCE`]; see [`first_match`].
    #[inline]
    pub fn of(eight: impl Fn(usize) -> [u128; 2], count: usize, tag: u16) -> Matches {
        let equal = |run| equal_sixteen([eight(run), eight(run + 1)], tag) << (8 * run);
        let last = if count > USUAL_SLOTS { equal(6) } else { 0 };
        Matches((equal(0) | equal(2) | equal(4) | last) & in_use(count))
    }
}

impl Iterator for Matches {
    type Item = usize;
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = (self.0 != 0).then_some(self.0.trailing_zeros() as usize);
        self.0 &= self.0.wrapping_sub(1);
        slot
    }
}

/// The first `count` bits.
#[inline]
fn in_use(count: usize) -> u64 {
    u64::MAX.checked_shr(64 - count as u32).unwrap_or(0)
}

#[cfg(not(target_arch = "x86_64"))]
use {eight_portable as equal_eight, sixteen_portable as equal_sixteen};
#[cfg(target_arch = "x86_64")]
use {eight_sse2 as equal_eight, sixteen_sse2 as equal_sixteen};

/// Bit i is set if slot i of sixteen has the tag.
#[cfg(target_arch = "x86_64")]
#[inline(always)] // the attribute for SSE2 would forbid it
fn sixteen_sse2([first, second]: [[u128; 2]; 2], tag: u16) -> u64 {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64; the function has no other condition.
    unsafe { _mm_movemask_epi8(_mm_packs_epi16(equal_words(first, tag), equal_words(second, tag))) as u64 }
}

/// Bit i is set if slot i of eight has the tag.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn eight_sse2(slots: [u128; 2], tag: u16) -> u64 {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64; the functions have no other condition.
    unsafe { _mm_movemask_epi8(_mm_packs_epi16(equal_words(slots, tag), _mm_setzero_si128())) as u64 }
}

/// Eight words, with all bits set if the tag of a slot is equal.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal_words(slots: [u128; 2], tag: u16) -> std::arch::x86_64::__m128i {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64; the functions have no other condition.
    unsafe {
        let tags = _mm_set1_epi16(tag as i16);
        // Not `map`, which may become a call.
        let equal = |four: u128| _mm_cmpeq_epi16(_mm_set_epi64x((four >> 64) as i64, four as i64), tags);
        // The sign of each number shows whether its tag is equal; saturation keeps it.
        _mm_packs_epi32(equal(slots[0]), equal(slots[1]))
    }
}

/// [`sixteen_sse2`] for other processors.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn sixteen_portable([first, second]: [[u128; 2]; 2], tag: u16) -> u64 {
    eight_portable(first, tag) | eight_portable(second, tag) << 8
}

/// [`eight_sse2`] for other processors.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn eight_portable(slots: [u128; 2], tag: u16) -> u64 {
    let mut equal = 0;
    for (i, four) in slots.into_iter().enumerate() {
        for slot in 0..4 {
            equal |= u64::from((four >> (32 * slot + 16)) as u16 == tag) << (4 * i + slot);
        }
    }
    equal
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slots_that_have_a_tag_are_found(
            slots in proptest::collection::vec((0..4u16, any::<u16>()), SLOTS_AT_ONCE),
            count in 0..=SLOTS_AT_ONCE,
            wide: bool,
        ) {
            // Includes tags with the high bit set.
            let tag_of = |n: u16| if wide { n << 14 | n } else { n };
            // Each number is the offset of the slot before, and the tag.
            let offset_before = |i: usize| if i == 0 { 0 } else { slots[i - 1].1 };
            let slot = |i: usize| u64::from(tag_of(slots[i].0)) << 16 | u64::from(offset_before(i));
            let four = |i: usize| (0..4).map(|n| u128::from(slot(4 * i + n)) << (32 * n)).sum();
            let eight = |run: usize| [0, 1].map(|i| four(2 * run + i));
            for n in 0..4 {
                let found: Vec<usize> = Matches::of(eight, count, tag_of(n)).collect();
                let expected: Vec<usize> = (0..count).filter(|&i| slots[i].0 == n).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert_eq!(first_match(eight, count, tag_of(n)), expected.first().copied());
                let few = first_match_of_few(eight, count.min(FIRST_SLOTS), tag_of(n));
                prop_assert_eq!(few, expected.first().copied().filter(|&i| i < FIRST_SLOTS));
                for run in 0..EIGHTS_AT_ONCE {
                    prop_assert_eq!(eight_portable(eight(run), tag_of(n)), equal_eight(eight(run), tag_of(n)));
                    let both = [eight(run), eight(EIGHTS_AT_ONCE - 1 - run)];
                    prop_assert_eq!(sixteen_portable(both, tag_of(n)), equal_sixteen(both, tag_of(n)));
                }
            }
        }
    }
}
