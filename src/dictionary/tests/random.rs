//! Random numbers for the tests of dictionaries, the same ones at every run; and a clock for those that measure.
//!
//! Source: Steele, Lea & Flood 2014, SplitMix64.

/// A stream of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// One of 0 to `greatest`.
    pub(crate) fn up_to(&mut self, greatest: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(greatest) + 1)) >> 64) as u64
    }

    /// One of those below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.up_to(bound - 1)
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Changes one to four of `words`: a bit, or all of them.
    pub(crate) fn damage(&mut self, words: &mut [u64]) {
        for _ in 0..=self.up_to(3) {
            let at = self.below(words.len() as u64) as usize;
            let changed = if self.up_to(1) == 0 { self.next() } else { words[at] ^ 1 << self.up_to(63) };
            words[at] = changed;
        }
    }
}

/// Nanoseconds for each of `count` things that `work` does: the median of nine runs, the least and the most.
pub(crate) fn ns_each<T>(count: usize, mut work: impl FnMut() -> T) -> String {
    let mut runs = [0.0; 9];
    for run in &mut runs {
        let start = std::time::Instant::now();
        std::hint::black_box(work());
        *run = start.elapsed().as_nanos() as f64 / count as f64;
    }
    runs.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1} to {:.1})", runs[4], runs[0], runs[8])
}
