//! Avalanche: flip one bit of a key, and each bit of its hash should flip half of the time.
//!
//! Measured on a sample of the user's keys, so the figures are about those keys. Only bits of a key's first
//! [`BYTES_MAX`] bytes are flipped.
//!
//! Source: the strict avalanche criterion, Webster & Tavares, CRYPTO '85; as a matrix, Mulvey, "Hash functions", 2007.

use crate::keys::Keys;
use splitpoint::hash::HashFunction;
use std::collections::HashSet;

/// The leading bytes of a key whose bits are flipped.
pub const BYTES_MAX: usize = 16;
/// The number of keys that are tried.
const KEYS_MAX: usize = 2048;
/// A bit position is not reported if fewer keys than this have it.
const TRIES_MIN: u32 = 64;

/// How often each bit of the hash flipped.
#[derive(Clone, Debug, PartialEq)]
pub struct Avalanche {
    /// The width of the hash in bits.
    pub output_bits: u32,
    /// One row for each bit of the key: for each bit of the hash, lowest first, the share of keys for which it flipped.
    pub flips: Vec<Vec<f64>>,
    /// The number of pairs of keys tried in each row.
    pub tries: Vec<u32>,
}

impl Avalanche {
    /// Flips bits of `keys`, which must be distinct. Returns `None` if fewer than [`TRIES_MIN`] keys have any bits.
    pub(super) fn measure(function: &HashFunction, output_bits: u32, keys: &Keys) -> Option<Avalanche> {
        let mut flips = vec![[0u32; 64]; BYTES_MAX * 8];
        let (mut have, mut tries) = (vec![0u32; BYTES_MAX * 8], vec![0u32; BYTES_MAX * 8]);
        let mut changed = Vec::new();
        let tried: HashSet<&[u8]> = keys.iter().take(KEYS_MAX).collect();
        for key in keys.iter().take(KEYS_MAX) {
            let hash = function.hash(key);
            changed.clear();
            changed.extend_from_slice(key);
            for bit in 0..key.len().min(BYTES_MAX) * 8 {
                have[bit] += 1;
                changed[bit / 8] ^= 1 << (bit % 8);
                // Two keys that differ in this bit alone are one observation, not two.
                let is_again = changed[bit / 8] < key[bit / 8] && tried.contains(&changed[..]);
                let mut differ = if is_again { 0 } else { hash ^ function.hash(&changed) };
                changed[bit / 8] ^= 1 << (bit % 8);
                tries[bit] += u32::from(!is_again);
                while differ != 0 {
                    flips[bit][differ.trailing_zeros() as usize] += 1;
                    differ &= differ - 1;
                }
            }
        }
        let rows = have.iter().take_while(|have| **have >= TRIES_MIN).count();
        let share = |bit: usize| {
            let flips = flips[bit][..output_bits as usize].iter();
            flips.map(|count| f64::from(*count) / f64::from(tries[bit])).collect()
        };
        (rows > 0).then(|| Avalanche {
            output_bits,
            flips: (0..rows).map(share).collect(),
            tries: tries[..rows].to_vec(),
        })
    }

    fn cells(&self) -> impl Iterator<Item = f64> {
        // 0: flips half of the time; 1: always or never.
        self.flips.iter().flatten().map(|share| (2.0 * share - 1.0).abs())
    }

    /// Returns the bias of the worst pair of bits: 0 flips half of the time, 1 never or always.
    pub fn worst_bias(&self) -> f64 {
        self.cells().fold(0.0, f64::max)
    }

    /// Returns the mean bias over all pairs of bits.
    pub fn mean_bias(&self) -> f64 {
        self.cells().sum::<f64>() / self.cells().count().max(1) as f64
    }

    /// Returns the mean bias that a random function shows with this number of tries.
    pub fn expected_mean_bias(&self) -> f64 {
        // The mean absolute value of a normal variable is sqrt(2 / pi) of its standard deviation, here 1 / sqrt(tries).
        let one = |tries: &u32| (std::f64::consts::FRAC_2_PI / f64::from(*tries)).sqrt();
        self.tries.iter().map(one).sum::<f64>() / self.tries.len().max(1) as f64
    }

    /// Returns the share of pairs of bits that never or always flip.
    pub fn stuck_share(&self) -> f64 {
        self.cells().filter(|bias| *bias > 0.999).count() as f64 / self.cells().count().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint::HashKind;

    fn keys() -> Keys {
        (0u64..2000).map(|key| key.wrapping_mul(0x1234_5678_9abc_def1).to_le_bytes()).collect()
    }

    #[test]
    fn a_good_function_flips_half_and_the_identity_one_bit() {
        let good = Avalanche::measure(&HashFunction::new(HashKind::Xxh3, 0), 64, &keys()).unwrap();
        assert_eq!((good.flips.len(), good.flips[0].len()), (64, 64));
        assert!((good.mean_bias() / good.expected_mean_bias() - 1.0).abs() < 0.05, "{}", good.mean_bias());
        assert!(good.worst_bias() < 0.15, "{}", good.worst_bias());
        let identity = HashFunction::user("identity", |key| u64::from_le_bytes(key.try_into().expect("8 bytes")));
        let bad = Avalanche::measure(&identity, 64, &keys()).unwrap();
        assert_eq!((bad.worst_bias(), bad.mean_bias(), bad.stuck_share()), (1.0, 1.0, 1.0));
        assert_eq!((bad.flips[3][3], bad.flips[3][4]), (1.0, 0.0));
    }

    /// For most of these keys, flipping a bit makes another of them.
    #[test]
    fn two_keys_that_differ_in_one_bit_are_tried_once() {
        let keys: Keys = (0..1024u64).map(u64::to_le_bytes).collect();
        let found = Avalanche::measure(&HashFunction::new(HashKind::Xxh3, 0), 64, &keys).unwrap();
        assert_eq!((found.tries[0], found.tries[9], found.tries[10]), (512, 512, 1024));
        let ratio = found.mean_bias() / found.expected_mean_bias();
        assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn empty_keys_have_no_bits() {
        let keys: Keys = std::iter::repeat_n("", 1000).collect();
        assert_eq!(Avalanche::measure(&HashFunction::new(HashKind::Xxh3, 0), 64, &keys), None);
    }
}
