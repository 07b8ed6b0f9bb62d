//! The first pass over the keys: their number, lengths and duplicates, and a random sample.
//!
//! Every function puts duplicates into the same bucket, which would count against all of them. Up to [`EXACT_KEYS_MAX`]
//! distinct keys, duplicates are found and left out. Beyond that their number is estimated and reported. The sample has
//! no duplicates in either case.
//!
//! Source: HyperLogLog for the estimate (Flajolet, Fusy, Gandouet & Meunier 2007); Vitter's algorithm R for the sample
//! (1985).

use crate::keys::Keys;
use crate::random::Random;
use splitpoint::hash::HashKind;
use std::collections::HashSet;

/// Up to this many distinct keys are compared by their 64-bit hashes, in 150 MB. Two of them have equal hashes with a
/// probability of 1 in 500,000.
pub const EXACT_KEYS_MAX: usize = 1 << 23;
/// The size of the sample in keys.
const SAMPLE_KEYS: usize = 1 << 14;
/// Longer keys are not sampled.
const SAMPLE_KEY_BYTES_MAX: usize = 4096;

/// The result of the first pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The number of keys read, with duplicates.
    pub rows: u64,
    /// The bytes of all keys together.
    pub bytes: u64,
    /// The length of the shortest key in bytes.
    pub shortest: usize,
    /// The length of the longest key in bytes.
    pub longest: usize,
    /// The number of duplicates.
    pub duplicates: Duplicates,
}

/// Keys that were read before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Duplicates {
    /// The exact number; they are left out of all figures.
    LeftOut(u64),
    /// An estimate; the figures count them as distinct keys.
    Estimated(u64),
}

impl Default for Duplicates {
    fn default() -> Self {
        Self::LeftOut(0)
    }
}

impl Survey {
    /// Returns the number of keys studied.
    pub fn objects(&self) -> u64 {
        match self.duplicates {
            Duplicates::LeftOut(duplicates) => self.rows - duplicates,
            Duplicates::Estimated(_) => self.rows,
        }
    }
}

/// Collects a [`Survey`].
pub(super) struct Surveyor {
    survey: Survey,
    /// Hashes of the keys so far; `None` above `exact_max`.
    seen: Option<HashSet<u64>>,
    /// One bit for each row, set for duplicates; empty above `exact_max`.
    duplicate_rows: Vec<u64>,
    duplicates: u64,
    registers: Vec<u8>,
    sample: Vec<Vec<u8>>,
    /// The number of keys that the sample was drawn from so far.
    drawn_from: u64,
    random: Random,
    exact_max: usize,
}

impl Surveyor {
    pub fn new(seed: u64, exact_max: usize) -> Self {
        Surveyor {
            survey: Survey { shortest: usize::MAX, ..Survey::default() },
            seen: Some(HashSet::new()),
            duplicate_rows: Vec::new(),
            duplicates: 0,
            registers: vec![0; 1 << REGISTER_BITS],
            sample: Vec::new(),
            drawn_from: 0,
            random: Random::new(seed),
            exact_max,
        }
    }

    pub fn look(&mut self, key: &[u8]) {
        let row = self.survey.rows;
        self.survey.rows += 1;
        self.survey.bytes += key.len() as u64;
        self.survey.shortest = self.survey.shortest.min(key.len());
        self.survey.longest = self.survey.longest.max(key.len());
        let hash = HashKind::Xxh3.hash(key, SURVEY_SEED);
        let mut is_new = true;
        if let Some(seen) = &mut self.seen {
            if row.is_multiple_of(64) {
                self.duplicate_rows.push(0);
            }
            is_new = seen.insert(hash);
            if !is_new {
                self.duplicates += 1;
                self.duplicate_rows[(row / 64) as usize] |= 1 << (row % 64);
            } else if seen.len() > self.exact_max {
                self.seen = None;
                self.duplicate_rows = Vec::new();
            }
        }
        let (register, rest) = (hash >> (64 - REGISTER_BITS), hash << REGISTER_BITS);
        let rank = rest.leading_zeros().min(64 - REGISTER_BITS) as u8 + 1;
        let register = &mut self.registers[register as usize];
        *register = (*register).max(rank);
        if is_new {
            self.sample_key(key);
        }
    }

    fn sample_key(&mut self, key: &[u8]) {
        if key.len() > SAMPLE_KEY_BYTES_MAX {
            return;
        }
        self.drawn_from += 1;
        if self.sample.len() < SAMPLE_KEYS {
            self.sample.push(key.to_vec());
            return;
        }
        let place = self.random.below(self.drawn_from) as usize;
        if let Some(sampled) = self.sample.get_mut(place) {
            sampled.clear();
            sampled.extend_from_slice(key);
        }
    }

    /// Returns the survey, the rows to leave out, and the sample.
    pub fn finish(mut self) -> (Survey, Skip, Keys) {
        self.survey.shortest = self.survey.shortest.min(self.survey.longest);
        self.survey.duplicates = match self.seen {
            Some(_) => Duplicates::LeftOut(self.duplicates),
            None => {
                let distinct = estimate(&self.registers).round() as u64;
                // Fewer duplicates than the error of the estimate count as none.
                let duplicates = self.survey.rows.saturating_sub(distinct);
                let error = (self.survey.rows as f64 * ESTIMATE_ERROR) as u64;
                Duplicates::Estimated(if duplicates > error { duplicates } else { 0 })
            }
        };
        // Beyond the exact limit, a key that is read several times may have been drawn more than once.
        let mut sampled = HashSet::new();
        let sample = self.sample.iter().filter(|key| sampled.insert(&key[..])).collect();
        (self.survey, Skip { rows: self.duplicate_rows }, sample)
    }
}

/// The rows to leave out.
pub(super) struct Skip {
    rows: Vec<u64>,
}

impl Skip {
    #[inline]
    pub fn has(&self, row: u64) -> bool {
        self.rows.get((row / 64) as usize).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }
}

const SURVEY_SEED: u64 = 0x5ca1_ab1e;
const REGISTER_BITS: u32 = 14;
/// Three standard errors, 1.04 / sqrt(2^14) each.
const ESTIMATE_ERROR: f64 = 3.0 * 1.04 / 128.0;

/// Estimates the number of distinct keys.
fn estimate(registers: &[u8]) -> f64 {
    let m = registers.len() as f64;
    let alpha = 0.7213 / (1.0 + 1.079 / m);
    let raw = alpha * m * m / registers.iter().map(|rank| 0.5f64.powi((*rank).into())).sum::<f64>();
    let zeros = registers.iter().filter(|rank| **rank == 0).count();
    if raw <= 2.5 * m && zeros > 0 { m * (m / zeros as f64).ln() } else { raw }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(keys: impl Iterator<Item = u64>, exact_max: usize) -> (Survey, Skip, Keys) {
        let mut surveyor = Surveyor::new(1, exact_max);
        keys.for_each(|key| surveyor.look(&key.to_le_bytes()));
        surveyor.finish()
    }

    #[test]
    fn duplicates_are_left_out() {
        let (survey, skip, _) = survey([1, 2, 1, 3, 2, 1].into_iter(), 100);
        assert_eq!((survey.rows, survey.objects(), survey.duplicates), (6, 3, Duplicates::LeftOut(3)));
        let skipped: Vec<_> = (0..6).map(|row| skip.has(row)).collect();
        assert_eq!(skipped, [false, false, true, false, true, true]);
    }

    #[test]
    fn a_sample_has_each_key_once() {
        for exact_max in [10, 100_000] {
            let (_, _, sample) = survey((0..50_000).map(|row| row % 300), exact_max);
            let distinct: HashSet<&[u8]> = sample.iter().collect();
            assert_eq!((sample.len(), distinct.len()), (300, 300), "{exact_max}");
        }
    }

    #[test]
    fn duplicates_beyond_the_exact_limit_are_estimated_within_five_percent() {
        let (once, _, _) = survey(0..200_000, 1000);
        assert_eq!(once.duplicates, Duplicates::Estimated(0));
        let (twice, skip, sample) = survey((0..200_000).map(|key| key % 100_000), 1000);
        let Duplicates::Estimated(duplicates) = twice.duplicates else { panic!("{twice:?}") };
        assert!(duplicates.abs_diff(100_000) < 5_000, "{duplicates}");
        assert!(!skip.has(150_000));
        assert_eq!(twice.objects(), 200_000);
        // Without the keys that were drawn twice.
        assert!((SAMPLE_KEYS - 1500..SAMPLE_KEYS).contains(&sample.len()), "{}", sample.len());
    }

    #[test]
    fn a_sample_is_uniform_and_repeats_for_a_seed() {
        let take = || survey(0..1_000_000, 10).2;
        let sample = take();
        assert_eq!(sample, take());
        let mean =
            sample.iter().map(|key| u64::from_le_bytes(key.try_into().unwrap())).sum::<u64>() / SAMPLE_KEYS as u64;
        assert!(mean.abs_diff(500_000) < 10_000, "{mean}");
    }
}
