//! Which slots of a page have a tag: all are compared at once, with the same instructions for any page.
//!
//! Without data-dependent branches, the processor can begin the next lookup while this one waits for memory; a loop
//! over only the slots in use ends at a different place each time, which costs a mispredicted branch.
//!
//! Unsafe: calls a function for SSE2, which every x86-64 has. Tests compare it with the safe twin for other
//! processors.
//! Not here: where the slots are, and how a tag is made (`page.rs`).
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a function for SSE2 is called"))]

/// Slots that are compared at once.
pub const SLOTS_AT_ONCE: usize = 64;
/// Runs of sixteen slots in them: sixteen times {u16 tag, u16 offset}, from the low end of each word.
pub const SIXTEENS_AT_ONCE: usize = SLOTS_AT_ONCE / 16;

/// Slots that have a tag.
#[derive(Clone, Copy, Default)]
pub struct Matches(u64);

impl Matches {
    /// The slots with `tag` among the first `count`, at most [`SLOTS_AT_ONCE`]. Loads up to [`SIXTEENS_AT_ONCE`] runs
    /// of sixteen slots; those after the last slot do not matter.
    #[inline]
    pub fn of(sixteen: impl Fn(usize) -> [u128; 4], count: usize, tag: u16) -> Matches {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of x86-64.
        let equal = unsafe { equal_sse2(sixteen, count, tag) };
        #[cfg(not(target_arch = "x86_64"))]
        let equal = equal_portable(sixteen, tag);
        Matches(equal & u64::MAX.checked_shr(64 - count as u32).unwrap_or(0))
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first slot that has the tag.
    #[inline]
    pub fn first(self) -> Option<usize> {
        (self.0 != 0).then_some(self.0.trailing_zeros() as usize)
    }
}

impl Iterator for Matches {
    type Item = usize;
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let slot = self.first();
        self.0 &= self.0.wrapping_sub(1);
        slot
    }
}

/// Bit i is set where slot i, of the first `count`, has the tag.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn equal_sse2(sixteen: impl Fn(usize) -> [u128; 4], count: usize, tag: u16) -> u64 {
    use std::arch::x86_64::*;
    let tags = _mm_set1_epi16(tag as i16);
    let low_bytes = _mm_set1_epi16(0xFF);
    let mut equal = 0;
    for run in 0..SIXTEENS_AT_ONCE {
        // Few pages have more slots than this, so the branch is predicted.
        const USUAL_SLOTS: usize = 48;
        if 16 * run >= USUAL_SLOTS && count <= USUAL_SLOTS {
            break;
        }
        let [a, b, c, d] = sixteen(run).map(|four| {
            let slots = _mm_set_epi64x((four >> 64) as i64, four as i64);
            _mm_cmpeq_epi16(slots, tags)
        });
        // Narrowed, each slot has a byte for its tag and one for its offset; the latter are cleared.
        let low = _mm_and_si128(_mm_packs_epi16(a, b), low_bytes);
        let high = _mm_and_si128(_mm_packs_epi16(c, d), low_bytes);
        equal |= (_mm_movemask_epi8(_mm_packus_epi16(low, high)) as u64) << (16 * run);
    }
    equal
}

/// [`equal_sse2`] for other processors.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn equal_portable(sixteen: impl Fn(usize) -> [u128; 4], tag: u16) -> u64 {
    let mut equal = 0;
    for run in 0..SIXTEENS_AT_ONCE {
        for (i, slots) in sixteen(run).into_iter().enumerate() {
            for slot in 0..4 {
                equal |= u64::from((slots >> (32 * slot)) as u16 == tag) << (16 * run + 4 * i + slot);
            }
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
            // Also tags with the high bit set.
            let tag_of = |n: u16| if wide { n << 14 | n } else { n };
            let slot = |i: usize| u64::from(slots[i].1) << 16 | u64::from(tag_of(slots[i].0));
            let four = |i: usize| (0..4).map(|n| u128::from(slot(4 * i + n)) << (32 * n)).sum();
            let sixteen = |run: usize| [0, 1, 2, 3].map(|i| four(4 * run + i));
            for n in 0..4 {
                let found: Vec<usize> = Matches::of(sixteen, count, tag_of(n)).collect();
                let expected: Vec<usize> = (0..count).filter(|&i| slots[i].0 == n).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert_eq!(Matches::of(sixteen, count, tag_of(n)).first(), expected.first().copied());
                #[cfg(target_arch = "x86_64")]
                // SAFETY: SSE2 is part of x86-64.
                let with_sse2 = unsafe { equal_sse2(sixteen, SLOTS_AT_ONCE, tag_of(n)) };
                #[cfg(target_arch = "x86_64")]
                prop_assert_eq!(equal_portable(sixteen, tag_of(n)), with_sse2);
            }
        }
    }
}
