//! Random numbers for tests, the same in every run.
//!
//! Source: Steele, Lea & Flood 2014, SplitMix64.

/// A stream of random numbers.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Seeds the stream: different parts give different sequences.
    pub(crate) fn new(parts: &[u64]) -> Random {
        let mut random = Random(0);
        for &part in parts {
            random.0 ^= part;
            random.0 = random.next();
        }
        random
    }

    pub(crate) fn from_seed(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number from 0 to `greatest`.
    pub(crate) fn up_to(&mut self, greatest: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(greatest) + 1)) >> 64) as u64
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Changes one to four of `words`: one bit, or the whole word.
    pub(crate) fn damage(&mut self, words: &mut [u64]) {
        for _ in 0..=self.up_to(3) {
            let at = self.up_to(words.len() as u64 - 1) as usize;
            let changed = if self.up_to(1) == 0 { self.next() } else { words[at] ^ 1 << self.up_to(63) };
            words[at] = changed;
        }
    }
}
