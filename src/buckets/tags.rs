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
/// Words they take, two slots each: {u16 tag, u16 offset, u16 tag, u16 offset} from the low end.
pub const WORDS_AT_ONCE: usize = SLOTS_AT_ONCE / 2;

/// Slots that have a tag.
#[derive(Clone, Copy, Default)]
pub struct Matches(u64);

impl Matches {
    /// The slots with `tag` among the first `count`, at most [`SLOTS_AT_ONCE`]. Always loads [`WORDS_AT_ONCE`] words;
    /// those after the last slot do not matter.
    #[inline]
    pub fn of(word: impl Fn(usize) -> u64, count: usize, tag: u16) -> Matches {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of x86-64.
        let equal = unsafe { equal_sse2(word, tag) };
        #[cfg(not(target_arch = "x86_64"))]
        let equal = equal_portable(word, tag);
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

/// Bit i is set where slot i has the tag.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn equal_sse2(word: impl Fn(usize) -> u64, tag: u16) -> u64 {
    use std::arch::x86_64::*;
    let tags = _mm_set1_epi16(tag as i16);
    let mut equal = 0;
    for sixteen in 0..SLOTS_AT_ONCE / 16 {
        // The low half of a slot is its tag. Shifted up, an equal half makes the slot negative, and narrowing keeps
        // the sign.
        let four = |i: usize| {
            let at = 8 * sixteen + 2 * i;
            let slots = _mm_set_epi64x(word(at + 1) as i64, word(at) as i64);
            _mm_slli_epi32::<16>(_mm_cmpeq_epi16(slots, tags))
        };
        let (low, high) = (_mm_packs_epi32(four(0), four(1)), _mm_packs_epi32(four(2), four(3)));
        equal |= (_mm_movemask_epi8(_mm_packs_epi16(low, high)) as u64) << (16 * sixteen);
    }
    equal
}

/// [`equal_sse2`] for other processors.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn equal_portable(word: impl Fn(usize) -> u64, tag: u16) -> u64 {
    let mut equal = 0;
    for i in 0..WORDS_AT_ONCE {
        let two = word(i);
        equal |= u64::from(two as u16 == tag) << (2 * i) | u64::from((two >> 32) as u16 == tag) << (2 * i + 1);
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
            let word = |i: usize| slot(2 * i) | slot(2 * i + 1) << 32;
            for n in 0..4 {
                let found: Vec<usize> = Matches::of(word, count, tag_of(n)).collect();
                let expected: Vec<usize> = (0..count).filter(|&i| slots[i].0 == n).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert_eq!(Matches::of(word, count, tag_of(n)).first(), expected.first().copied());
                #[cfg(target_arch = "x86_64")]
                // SAFETY: SSE2 is part of x86-64.
                prop_assert_eq!(equal_portable(word, tag_of(n)), unsafe { equal_sse2(word, tag_of(n)) });
            }
        }
    }
}
