//! The time of one hash, for a sample of the user's keys and for random keys of several lengths.
//!
//! Keys are in the processor's cache and hashed in a loop, so consecutive hashes overlap: this is throughput, not
//! latency. The functions are measured in turns, so that a change of the machine's speed affects all of them.

use crate::keys::Keys;
use crate::random::Random;
use splitpoint::hash::HashFunction;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Lengths of random keys, in bytes.
pub const LENGTHS: [usize; 9] = [4, 8, 16, 32, 64, 128, 256, 1024, 4096];
/// Bytes of the keys in the loop: they fit in a second-level cache.
const CACHED_BYTES: usize = 128 << 10;
/// The minimum time of a round.
const ROUND: Duration = Duration::from_micros(500);
/// Rounds for the user's keys, whose spread is reported, and for each length of random keys.
const ROUNDS: usize = 20;
const ROUNDS_OF_A_LENGTH: usize = 7;

/// Nanoseconds for one hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    /// For the user's keys: the median of the rounds.
    pub own_ns: f64,
    /// The range of the middle half of the rounds.
    pub own_spread_ns: (f64, f64),
    /// For random keys: length in bytes, nanoseconds.
    pub by_length: Vec<(usize, f64)>,
}

impl Speed {
    /// Measures the times of `functions` in turns.
    pub(super) fn measure(functions: &[&HashFunction], keys: &Keys) -> Vec<Speed> {
        let mut own = Keys::new();
        for key in keys.iter() {
            if !own.is_empty() && own.bytes() + key.len() > CACHED_BYTES {
                break;
            }
            own.push(key);
        }
        let mut random = Random::new(1);
        let by_length = LENGTHS.map(|length| {
            let keys: Keys = (0..(CACHED_BYTES / length).min(1024)).map(|_| bytes(&mut random, length)).collect();
            (length, in_turns(functions, &keys, ROUNDS_OF_A_LENGTH))
        });
        let speeds = in_turns(functions, &own, ROUNDS).into_iter().enumerate().map(|(index, rounds)| Speed {
            own_ns: rounds[ROUNDS / 2],
            own_spread_ns: (rounds[ROUNDS / 4], rounds[ROUNDS - 1 - ROUNDS / 4]),
            by_length: by_length.iter().map(|(length, all)| (*length, all[index][ROUNDS_OF_A_LENGTH / 2])).collect(),
        });
        speeds.collect()
    }

    /// Returns whether the difference to a faster function is more than noise.
    pub fn is_slower_than(&self, faster: &Speed) -> bool {
        self.own_spread_ns.0 > faster.own_spread_ns.1
    }
}

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| random.next_u64() as u8).collect()
}

/// Returns the nanoseconds for one hash in each round of each function, ascending.
fn in_turns(functions: &[&HashFunction], keys: &Keys, rounds: usize) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(rounds); functions.len()];
    for _ in 0..rounds {
        for (function, times) in functions.iter().zip(&mut times) {
            times.push(round_ns(function, keys));
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    times
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
        let [speed] = &Speed::measure(&[&HashFunction::new(HashKind::Fnv1a, 0)], &keys)[..] else { panic!() };
        let time = |length| speed.by_length.iter().find(|(bytes, _)| *bytes == length).unwrap().1;
        assert!(time(4096) > 8.0 * time(64), "{speed:?}");
        assert!(speed.own_ns > 0.0);
        assert!(speed.own_spread_ns.0 <= speed.own_ns && speed.own_ns <= speed.own_spread_ns.1, "{speed:?}");
    }

    #[test]
    fn the_functions_take_turns() {
        let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let noting = |name: &'static str| {
            let order = order.clone();
            HashFunction::user(name, move |_| {
                let mut order = order.lock().unwrap();
                // Note each round once, however many hashes it computes.
                if order.last() != Some(&name) {
                    order.push(name);
                }
                0
            })
        };
        in_turns(&[&noting("a"), &noting("b")], &["key"].into_iter().collect(), 3);
        assert_eq!(*order.lock().unwrap(), ["a", "b", "a", "b", "a", "b"]);
    }
}
