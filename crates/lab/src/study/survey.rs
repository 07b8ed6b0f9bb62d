//! The first look at the keys: how many, how long, how many come again, and some of them by lot.
//!
//! A key that comes again goes into the same bucket by any function, so repeats would count against all of them. Up to
//! [`EXACT_KEYS_MAX`] different keys repeats are found and left out; beyond, they are estimated and told.
//!
//! Source: the estimate is HyperLogLog (Flajolet, Fusy, Gandouet & Meunier 2007); the lot is Vitter's algorithm R (1985).

use crate::keys::Keys;
use crate::random::Random;
use splitpoint::hash::HashKind;
use std::collections::HashSet;

/// So many different keys are told apart by their 64-bit hashes, which takes 150 MB; two of them are taken for one with a probability of
/// 1 in 500,000.
pub const EXACT_KEYS_MAX: usize = 1 << 23;
/// Keys drawn by lot.
const DRAWN: usize = 1 << 14;
/// More bytes than this of one key are not drawn.
const DRAWN_BYTES_MAX: usize = 4096;

/// What the first look gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Keys that were given, repeats too.
    pub rows: u64,
    /// Bytes of all keys.
    pub bytes: u64,
    /// Length of the shortest.
    pub shortest: usize,
    /// Length of the longest.
    pub longest: usize,
    /// How many keys came again.
    pub repeats: Repeats,
}

/// Keys that came again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Repeats {
    /// So many, left out of all figures.
    LeftOut(u64),
    /// About so many, which are in the figures as if they were different keys.
    Estimated(u64),
}

impl Default for Repeats {
    fn default() -> Self {
        Self::LeftOut(0)
    }
}

impl Survey {
    /// Keys that are studied.
    pub fn objects(&self) -> u64 {
        match self.repeats {
            Repeats::LeftOut(repeats) => self.rows - repeats,
            Repeats::Estimated(_) => self.rows,
        }
    }
}

/// Collects a [`Survey`].
pub(super) struct Surveyor {
    survey: Survey,
    /// Hashes of the keys so far, while they are few.
    seen: Option<HashSet<u64>>,
    /// Which rows came before, one bit each, while `seen` is there.
    repeated: Vec<u64>,
    repeats: u64,
    registers: Vec<u8>,
    drawn: Vec<Vec<u8>>,
    random: Random,
    exact_max: usize,
}

impl Surveyor {
    pub fn new(seed: u64, exact_max: usize) -> Self {
        Surveyor {
            survey: Survey { shortest: usize::MAX, ..Survey::default() },
            seen: Some(HashSet::new()),
            repeated: Vec::new(),
            repeats: 0,
            registers: vec![0; 1 << REGISTER_BITS],
            drawn: Vec::new(),
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
        if let Some(seen) = &mut self.seen {
            if row.is_multiple_of(64) {
                self.repeated.push(0);
            }
            if !seen.insert(hash) {
                self.repeats += 1;
                self.repeated[(row / 64) as usize] |= 1 << (row % 64);
            } else if seen.len() > self.exact_max {
                self.seen = None;
                self.repeated = Vec::new();
            }
        }
        let (register, rest) = (hash >> (64 - REGISTER_BITS), hash << REGISTER_BITS);
        let rank = rest.leading_zeros().min(64 - REGISTER_BITS) as u8 + 1;
        let register = &mut self.registers[register as usize];
        *register = (*register).max(rank);
        self.draw(key);
    }

    fn draw(&mut self, key: &[u8]) {
        if key.len() > DRAWN_BYTES_MAX {
            return;
        }
        if self.drawn.len() < DRAWN {
            self.drawn.push(key.to_vec());
            return;
        }
        let place = self.random.below(self.survey.rows) as usize;
        if let Some(drawn) = self.drawn.get_mut(place) {
            drawn.clear();
            drawn.extend_from_slice(key);
        }
    }

    /// The survey, which rows are to be left out, and the keys drawn.
    pub fn finish(mut self) -> (Survey, Skip, Keys) {
        self.survey.shortest = self.survey.shortest.min(self.survey.longest);
        self.survey.repeats = match self.seen {
            Some(_) => Repeats::LeftOut(self.repeats),
            None => {
                let different = estimate(&self.registers).round() as u64;
                // Within the estimate's error none came again.
                let repeats = self.survey.rows.saturating_sub(different);
                let error = (self.survey.rows as f64 * ESTIMATE_ERROR) as u64;
                Repeats::Estimated(if repeats > error { repeats } else { 0 })
            }
        };
        (self.survey, Skip { rows: self.repeated }, self.drawn.iter().collect())
    }
}

/// Rows that are left out.
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

/// How many different keys there were.
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
    fn repeats_are_left_out() {
        let (survey, skip, _) = survey([1, 2, 1, 3, 2, 1].into_iter(), 100);
        assert_eq!((survey.rows, survey.objects(), survey.repeats), (6, 3, Repeats::LeftOut(3)));
        let skipped: Vec<_> = (0..6).map(|row| skip.has(row)).collect();
        assert_eq!(skipped, [false, false, true, false, true, true]);
    }

    #[test]
    fn too_many_keys_are_estimated_within_three_percent() {
        let (once, _, _) = survey(0..200_000, 1000);
        assert_eq!(once.repeats, Repeats::Estimated(0));
        let (twice, skip, drawn) = survey((0..200_000).map(|key| key % 100_000), 1000);
        let Repeats::Estimated(repeats) = twice.repeats else { panic!("{twice:?}") };
        assert!(repeats.abs_diff(100_000) < 5_000, "{repeats}");
        assert!(!skip.has(150_000));
        assert_eq!((twice.objects(), drawn.len()), (200_000, DRAWN));
    }

    #[test]
    fn keys_are_drawn_alike_and_the_same_for_a_seed() {
        let draw = || survey(0..1_000_000, 10).2;
        let drawn = draw();
        assert_eq!(drawn, draw());
        let mean = drawn.iter().map(|key| u64::from_le_bytes(key.try_into().unwrap())).sum::<u64>() / DRAWN as u64;
        assert!(mean.abs_diff(500_000) < 10_000, "{mean}");
    }
}
