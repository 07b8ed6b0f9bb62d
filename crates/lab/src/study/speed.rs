//! The time of one hash, for a sample of the user's keys and for random keys of several lengths.
//!
//! Keys are in the processor's cache and hashed in a loop, so consecutive hashes overlap: this is throughput, not
//! latency.

use crate::keys::Keys;
use crate::random::Random;
use splitpoint::hash::HashFunction;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Lengths of random keys, in bytes.
pub const LENGTHS: [usize; 9] = [4, 8, 16, 32, 64, 128, 256, 1024, 4096];
/// Bytes of the keys in the loop: they fit in a second-level cache.
const CACHED_BYTES: usize = 128 << 10;
/// The minimum time of a round; the median of [`ROUNDS`] rounds counts.
const ROUND: Duration = Duration::from_micros(500);
const ROUNDS: usize = 7;

/// Nanoseconds for one hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    /// For the user's keys.
    pub own_ns: f64,
    /// For random keys: length in bytes, nanoseconds.
    pub by_length: Vec<(usize, f64)>,
}

impl Speed {
    pub(super) fn measure(function: &HashFunction, keys: &Keys) -> Speed {
        let mut own = Keys::new();
        for key in keys.iter() {
            if !own.is_empty() && own.bytes() + key.len() > CACHED_BYTES {
                break;
            }
            own.push(key);
        }
        let mut random = Random::new(1);
        let by_length = LENGTHS.iter().map(|length| {
            let keys: Keys = (0..(CACHED_BYTES / length).min(1024)).map(|_| bytes(&mut random, *length)).collect();
            (*length, median_ns(function, &keys))
        });
        Speed { own_ns: median_ns(function, &own), by_length: by_length.collect() }
    }
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next_u64() as u8).collect()
}

fn median_ns(function: &HashFunction, keys: &Keys) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round_ns(function, keys)).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn round_ns(function: &HashFunction, keys: &Keys) -> f64 {
    let start = Instant::now();
    let mut hashes = 0;
    loop {
        for key in keys.iter() {
            black_box(function.hash(black_box(key)));
        }
        hashes += keys.len();
        let time = start.elapsed();
        if time >= ROUND {
            return time.as_nanos() as f64 / hashes.max(1) as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use splitpoint::HashKind;

    #[test]
    fn longer_keys_take_longer() {
        let keys: Keys = ["one", "two"].into_iter().collect();
        let speed = Speed::measure(&HashFunction::new(HashKind::Fnv1a, 0), &keys);
        let of = |length| speed.by_length.iter().find(|(of, _)| *of == length).unwrap().1;
        assert!(of(4096) > 8.0 * of(64), "{speed:?}");
        assert!(speed.own_ns > 0.0);
    }
}
