//! PHast+: which seeds move the keys of each bucket to places that are free.
//!
//! A bucket's keys each have a slice of places, all close together, as both follow from the hash; seed `s` puts a key
//! `s` steps along its slice, which is a ring. Buckets are taken from a window of 256, large and early ones first, and
//! each takes the seed, of those that lead to free places only, which fills the lowest places.
//!
//! Cost: per bucket, a word of 64 neighbouring seeds at a time: a load for each key. Memory: 8 bytes a key, 4 a bucket.
//! Source: Beling & Sanders 2026, "PHast - Perfect Hashing made fast", sections on PHast+ and wrapping; the weights are
//! about those of Beling's crate `ph` 0.11 (MIT or Apache-2.0).
//! Not here: what becomes of keys for which no seed does; how seeds are kept (`mphf.rs`).

use std::collections::BinaryHeap;

/// Buckets of which the next is chosen.
const WINDOW: usize = 256;

/// The longest slice.
const SLICE_MAX: u64 = 2048;

/// How many buckets earlier one of 1, 2, ... keys is taken than where it stands, if slices are of `SLICE_MAX`.
const EARLIER: [i64; 7] = [-3, 12, 81, 137, 165, 193, 207];

/// Buckets by hash, and a seed for each; 0 where none does.
pub(super) struct Chosen {
    pub(super) seeds: Vec<u16>,
    /// The length of a slice, less one: a power of two, less one.
    pub(super) mask: u16,
}

/// Seeds below `seed_end` for `buckets` buckets of keys of these hashes, all different. The places are as many as keys.
pub(super) fn choose_seeds(hashes: &[u64], buckets: usize, seed_end: u16) -> Chosen {
    let count = hashes.len() as u64;
    let slice_len = (count / 2 + 1).next_power_of_two().min(SLICE_MAX);
    let mask = (slice_len - 1) as u16;
    let (starts, sorted) = by_bucket(hashes, buckets);
    let mut places =
        Places { taken: vec![0; (count as usize).div_ceil(64) + 2], slices: count - u64::from(mask), mask };
    let mut seeds = vec![0; buckets];
    in_order(&starts, slice_len, |bucket| {
        let keys = &sorted[starts[bucket] as usize..starts[bucket + 1] as usize];
        seeds[bucket] = places.take(keys, seed_end);
    });
    Chosen { seeds, mask }
}

/// The hashes by bucket, and where those of each bucket begin.
fn by_bucket(hashes: &[u64], buckets: usize) -> (Vec<u32>, Vec<u64>) {
    let bucket_of = |hash: u64| ((u128::from(hash) * buckets as u128) >> 64) as usize;
    let mut starts = vec![0_u32; buckets + 1];
    for &hash in hashes {
        starts[bucket_of(hash) + 1] += 1;
    }
    for bucket in 0..buckets {
        starts[bucket + 1] += starts[bucket];
    }
    let mut sorted = vec![0; hashes.len()];
    for &hash in hashes {
        let next = &mut starts[bucket_of(hash)];
        sorted[*next as usize] = hash;
        *next += 1;
    }
    // Each start has become the next one.
    starts.copy_within(0..buckets, 1);
    starts[0] = 0;
    (starts, sorted)
}

/// Calls `take` once for each bucket that has keys, the best of the window first.
fn in_order(starts: &[u32], slice_len: u64, mut take: impl FnMut(usize)) {
    let buckets = starts.len() - 1;
    let rank = |bucket: usize, keys: usize| {
        let last = EARLIER.len() - 1;
        let beyond = keys.saturating_sub(EARLIER.len()) as i64 * (EARLIER[last] - EARLIER[last - 1]);
        let earlier = (EARLIER[(keys - 1).min(last)] + beyond) * slice_len as i64 / SLICE_MAX as i64;
        (earlier - bucket as i64, std::cmp::Reverse(bucket))
    };
    let mut window = BinaryHeap::with_capacity(WINDOW);
    let mut done = [true; WINDOW];
    let (mut first, mut end) = (0, 0);
    while first < buckets {
        while end < buckets && end < first + WINDOW {
            let keys = (starts[end + 1] - starts[end]) as usize;
            done[end % WINDOW] = keys == 0;
            if keys > 0 {
                window.push(rank(end, keys));
            }
            end += 1;
        }
        if let Some((_, std::cmp::Reverse(bucket))) = window.pop() {
            take(bucket);
            done[bucket % WINDOW] = true;
        }
        while first < end && done[first % WINDOW] {
            first += 1;
        }
    }
}

/// Which places are taken.
struct Places {
    /// A bit each; one word more, so that 64 bits may be read from any.
    taken: Vec<u64>,
    slices: u64,
    mask: u16,
}

impl Places {
    /// Takes places for the keys of a bucket. Gives the seed that leads there; 0 if none does.
    fn take(&mut self, keys: &[u64], seed_end: u16) -> u16 {
        // With a bucket of so many keys something is wrong with the hashes, and no seed does either.
        const KEYS_MAX: usize = 64;
        if keys.len() > KEYS_MAX {
            return 0;
        }
        let mut buffer = [(0, 0); KEYS_MAX];
        let moved = &mut buffer[..keys.len()];
        for (moved, &hash) in moved.iter_mut().zip(keys) {
            let start = ((u128::from(hash) * u128::from(self.slices)) >> 64) as usize;
            *moved = (start, (hash as u16).wrapping_add(1) & self.mask);
        }
        let Some(seed) = self.best_seed(moved, seed_end) else { return 0 };
        for &hash in keys {
            let start = ((u128::from(hash) * u128::from(self.slices)) >> 64) as usize;
            let place = start + usize::from((hash as u16).wrapping_add(seed) & self.mask);
            self.taken[place / 64] |= 1 << (place % 64);
        }
        seed
    }

    /// The seed that leads to free places, of which the sum is lowest. `moved`: slice and offset of each key by seed 1.
    fn best_seed(&self, moved: &mut [(usize, u16)], seed_end: u16) -> Option<u16> {
        let slice_len = self.mask + 1;
        let (mut best, mut first) = (None, 1);
        while first < seed_end {
            // Until the key that is farthest in its slice comes back to the start of it, all move alike.
            let farthest = moved.iter().map(|&(_, offset)| offset).max().unwrap_or(0);
            let alike = (slice_len - farthest).min(seed_end - first);
            let sum: u64 = moved.iter().map(|&(_, offset)| u64::from(offset)).sum();
            // Without a step it is the least that this stretch has to offer.
            if best.is_none_or(|(least, _)| sum < least)
                && !meet(moved)
                && let Some(step) = self.first_free(moved, alike)
            {
                let sum = sum + u64::from(step) * moved.len() as u64;
                if best.is_none_or(|(least, _)| sum < least) {
                    best = Some((sum, first + step));
                }
            }
            for (_, offset) in moved.iter_mut() {
                *offset = (*offset + alike) & self.mask;
            }
            first += alike;
        }
        best.map(|(_, seed)| seed)
    }

    /// The first number of steps below `end` after which all keys are at free places.
    #[inline]
    fn first_free(&self, moved: &[(usize, u16)], end: u16) -> Option<u16> {
        for steps in (0..end).step_by(64) {
            let taken =
                moved.iter().fold(0, |taken, &(start, offset)| taken | self.from(start + usize::from(offset + steps)));
            if taken != u64::MAX {
                return Some(steps + taken.trailing_ones() as u16).filter(|&steps| steps < end);
            }
        }
        None
    }

    /// Are the 64 places from `place` on taken? Those behind the last are not asked for by any step that counts.
    #[inline]
    fn from(&self, place: usize) -> u64 {
        let (word, shift) = (place / 64, place % 64);
        let Some(&[low, high]) = self.taken.get(word..).and_then(|rest| rest.first_chunk()) else { return 0 };
        if shift == 0 { low } else { low >> shift | high << (64 - shift) }
    }
}

/// Do two of the keys have the same place?
#[inline]
fn meet(moved: &[(usize, u16)]) -> bool {
    let place = |&(start, offset): &(usize, u16)| start + usize::from(offset);
    moved.iter().enumerate().any(|(i, a)| moved[..i].iter().any(|b| place(a) == place(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::test_random::Random;

    /// How many of the keys are bumped; that no two of the others have one place.
    fn bumped(hashes: &[u64], buckets: usize, seed_end: u16) -> usize {
        let Chosen { seeds, mask } = choose_seeds(hashes, buckets, seed_end);
        let slices = hashes.len() as u128 - u128::from(mask);
        let mut taken = vec![false; hashes.len()];
        let placed = hashes.iter().filter(|&&hash| {
            let seed = seeds[((u128::from(hash) * buckets as u128) >> 64) as usize];
            let place =
                ((u128::from(hash) * slices) >> 64) as usize + usize::from((hash as u16).wrapping_add(seed) & mask);
            assert!(seed < seed_end);
            let twice = seed > 0 && std::mem::replace(&mut taken[place], true);
            assert!(!twice, "{place} is taken twice");
            seed > 0
        });
        hashes.len() - placed.count()
    }

    #[test]
    fn no_two_keys_get_one_place_and_few_get_none() {
        let mut random = Random::new(21);
        for count in [1, 2, 3, 10, 100, 1000, 5000, 100_000] {
            let hashes: Vec<u64> = (0..count).map(|_| random.next()).collect();
            for (seed_end, keys_100) in [(1 << 10, 580), (1 << 8, 430), (2, 100)] {
                let bumped = bumped(&hashes, (hashes.len() * 100).div_ceil(keys_100), seed_end);
                // Few keys leave little choice.
                let few = if seed_end > 2 && count > 10_000 { count / 10 } else { count };
                assert!(bumped <= few, "{bumped} of {count} bumped");
            }
        }
    }

    #[test]
    fn hashes_of_one_bucket_are_bumped() {
        let hashes: Vec<u64> = (0..100_000).collect();
        assert_eq!(bumped(&hashes, 17_242, 1 << 10), hashes.len());
        // As many as a bucket may have.
        assert_eq!(bumped(&hashes[..64], 1, 1 << 10), 0);
    }
}
