//! Figures computed from bucket sizes: histogram, probes, chi-square, and costs of other layouts with as many slots.
//!
//! For `n` keys in `m` chains with `s` keys each:
//!
//! * A successful lookup compares `sum s(s+1)/2 / n` keys on average: its own key, and those before it in the chain.
//! * An unsuccessful lookup of a key *like the present ones* compares `sum s(s-1) / n`: the other keys in the bucket of
//!   each key. In the random model this is `n / m`. It is more for a function that crowds keys, because absent keys
//!   crowd in the same buckets.
//! * An unsuccessful lookup whose bucket is uniformly random compares `n / m`, whatever the function.
//!
//! Source: Lever 2000, Section 2; Knuth 3, 6.4 (linear probing: the sum of displacements is the same for every order of
//! insertion).

use super::chance;
use super::counts::Counts;
use std::collections::BTreeMap;

/// Slots of a page in [`Layouts::pages`]: one cache line of 8-byte slots.
pub const PAGE_SLOTS: u64 = 8;
/// Linear probing is not computed above this load: its cost diverges.
const LINEAR_LOAD_MAX: f64 = 0.95;

/// One row of a histogram: the buckets of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Keys in each.
    pub size: u64,
    /// The number of such buckets.
    pub buckets: u64,
    /// Keys in all of them.
    pub objects: u64,
    /// Keys in buckets of this size and smaller ones, in percent of all.
    pub cumulative_percent: f64,
    /// The number of such buckets in the random model.
    pub expected_buckets: f64,
}

/// The figures of the random model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Buckets without a key.
    pub empty: f64,
    /// Keys in the largest bucket, at the median.
    pub largest: u64,
    /// Keys compared in a successful lookup.
    pub compared_successful: f64,
    /// Keys compared in an unsuccessful one.
    pub compared_unsuccessful: f64,
}

/// Cost of lookups in one layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Keys compared, slots probed or pages read in a successful lookup.
    pub successful: f64,
    /// Keys compared, slots probed or pages read in an unsuccessful one whose bucket is uniformly random.
    pub unsuccessful: f64,
    /// Cache lines of 64 bytes read in a successful lookup, without the lines of the key itself.
    pub cache_lines_successful: f64,
}

/// The costs of other layouts with as many slots, for the same keys and function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layouts {
    /// One linked list for each bucket.
    pub chains: Cost,
    /// Linear probing in one array of 16-byte slots; `None` if it would be too full.
    pub linear: Option<Cost>,
    /// An eighth as many buckets, with pages of [`PAGE_SLOTS`] slots and overflow pages; `None` if buckets cannot be
    /// joined.
    pub pages: Option<Cost>,
}

/// One function at one table size.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Buckets.
    pub buckets: u64,
    /// Keys.
    pub objects: u64,
    /// Buckets without a key.
    pub empty: u64,
    /// Keys in the largest bucket.
    pub largest: u64,
    /// Ascending by size; a size that no bucket has gets no row.
    pub histogram: Vec<Size>,
    /// Keys compared in a successful lookup.
    pub compared_successful: f64,
    /// Keys compared in an unsuccessful lookup, for keys like these.
    pub compared_unsuccessful: f64,
    /// Keys compared in an unsuccessful lookup whose bucket is uniformly random.
    pub compared_unsuccessful_uniform: f64,
    /// The figures of the random model.
    pub expected: Expected,
    /// Unevenness of the bucket sizes: about [`Level::degrees`] in the random model, more if less even.
    pub chi_square: f64,
    /// Degrees of freedom: the number of buckets less one.
    pub degrees: f64,
    /// The probability that random placement is at least as uneven: near 0 is worse than random. Exact for few keys,
    /// where chi-square says nothing.
    pub p_value: f64,
    /// The probability that random placement is at least as even: near 0 is more even than random.
    pub p_value_even: f64,
    /// The smallest [`excess`](Self::excess) that is not attributed to chance: with few keys a large one could be.
    /// Infinite if even one bucket with all keys could be chance.
    pub excess_significant: f64,
    /// Other layouts.
    pub layouts: Layouts,
}

impl Level {
    /// Returns the keys per bucket.
    pub fn load(&self) -> f64 {
        self.objects as f64 / self.buckets as f64
    }

    /// Returns the number of buckets of `size` keys in the random model.
    pub fn expected_buckets(&self, size: u64) -> f64 {
        self.buckets as f64 * chance::poisson(self.load(), size)
    }

    /// Returns the cost of an unsuccessful lookup as a multiple of the random model's, with 1 for the bucket itself.
    pub fn excess(&self) -> f64 {
        (1.0 + self.compared_unsuccessful) / (1.0 + self.expected.compared_unsuccessful)
    }
}

/// Computes the figures of `counts`. `joins` tells whether each bucket of a smaller table is a sum of these buckets.
pub(super) fn level(counts: &Counts, joins: bool) -> Level {
    let buckets = counts.len() as u64;
    let sizes = counts.sizes();
    let sum =
        |of: &dyn Fn(u128) -> u128| sizes.iter().map(|(size, count)| of((*size).into()) * u128::from(*count)).sum();
    let (objects, squares): (u128, u128) = (sum(&|size| size), sum(&|size| size * size));
    let n = objects as f64;
    let mean = n / buckets as f64;
    let chi_square = if objects == 0 { 0.0 } else { squares as f64 / mean - n };
    let degrees = buckets as f64 - 1.0;
    let others = (squares - objects) as f64 / n.max(1.0);
    let expected_miss = (n - 1.0).max(0.0) / buckets as f64;
    let (pairs, random) = ((squares - objects) / 2, chance::Pairs::new(objects as u64, buckets));
    let excess = |pairs: u128| (1.0 + 2.0 * pairs as f64 / n.max(1.0)) / (1.0 + expected_miss);
    let expected = Expected {
        empty: buckets as f64 * chance::poisson(mean, 0),
        largest: chance::largest(mean, buckets),
        compared_successful: 1.0 + expected_miss / 2.0,
        compared_unsuccessful: expected_miss,
    };
    let compared_successful = if objects == 0 { 0.0 } else { 1.0 + others / 2.0 };
    let chains =
        Cost { successful: compared_successful, unsuccessful: mean, cache_lines_successful: 1.0 + compared_successful };
    Level {
        buckets,
        objects: objects as u64,
        empty: sizes.get(&0).copied().unwrap_or(0),
        largest: sizes.keys().next_back().copied().unwrap_or(0),
        histogram: histogram(&sizes, n, mean, buckets),
        compared_successful,
        compared_unsuccessful: others,
        compared_unsuccessful_uniform: mean,
        expected,
        chi_square,
        degrees,
        p_value: random.at_least(pairs),
        p_value_even: 1.0 - random.at_least(pairs + 1),
        excess_significant: random.significant().map_or(f64::INFINITY, excess),
        layouts: Layouts {
            chains,
            linear: linear(counts, objects as u64),
            pages: joins.then(|| pages(counts)).flatten(),
        },
    }
}

fn histogram(sizes: &BTreeMap<u64, u64>, n: f64, mean: f64, buckets: u64) -> Vec<Size> {
    let mut so_far = 0;
    let rows = sizes.iter().map(|(&size, &count)| {
        so_far += size * count;
        Size {
            size,
            buckets: count,
            objects: size * count,
            cumulative_percent: if n > 0.0 { 100.0 * so_far as f64 / n } else { 0.0 },
            expected_buckets: buckets as f64 * chance::poisson(mean, size),
        }
    });
    rows.collect()
}

/// Computes the cost of linear probing from the home slot of each key.
fn linear(counts: &Counts, objects: u64) -> Option<Cost> {
    let slots = counts.len() as u64;
    if objects == 0 || objects as f64 > LINEAR_LOAD_MAX * slots as f64 {
        return None;
    }
    // The keys that a slot passes on to the next one. The first slot starts with the keys passed on by the last.
    let wrapped = counts.iter().fold(0, |passed, homes| (passed + homes).saturating_sub(1));
    let (mut passed, mut displacement) = (wrapped, 0u128);
    // An unsuccessful lookup probes up to the first free slot. A slot is free if no key has its home there and none was
    // passed on to it. Between two free slots that are `gap` apart, lookups probe `gap`, `gap - 1`, ..., 1 slots.
    let triangle = |gap: u64| u128::from(gap) * u128::from(gap + 1) / 2;
    let (mut first, mut last, mut probed) = (None, 0, 0u128);
    for (slot, homes) in (0..).zip(counts.iter()) {
        let here = passed + homes;
        passed = here.saturating_sub(1);
        displacement += u128::from(passed);
        if here == 0 {
            match first {
                Some(_) => probed += triangle(slot - last),
                None => first = Some(slot),
            }
            last = slot;
        }
    }
    // Some slot is free, because the load is below 1.
    probed += triangle(first.unwrap_or(0) + slots - last);
    let successful = 1.0 + displacement as f64 / objects as f64;
    Some(Cost {
        successful,
        unsuccessful: probed as f64 / slots as f64,
        cache_lines_successful: 1.0 + (successful - 1.0) / 4.0,
    })
}

/// Computes the cost of pages of several slots, with an eighth of the buckets: each sums eight buckets of `counts`.
fn pages(counts: &Counts) -> Option<Cost> {
    let buckets = counts.len() / PAGE_SLOTS as usize;
    if buckets == 0 {
        return None;
    }
    let (mut read, mut chains, mut keys) = (0u128, 0u128, 0u128);
    for bucket in 0..buckets {
        let size: u64 = (0..PAGE_SLOTS as usize).map(|part| counts.get(bucket + part * buckets)).sum();
        let whole = size / PAGE_SLOTS;
        let rest = size % PAGE_SLOTS;
        // A key on page p of the chain takes p reads.
        read += u128::from(PAGE_SLOTS) * u128::from(whole) * u128::from(whole + 1) / 2
            + u128::from(rest) * u128::from(whole + 1);
        chains += u128::from(size.div_ceil(PAGE_SLOTS).max(1));
        keys += u128::from(size);
    }
    let successful = if keys == 0 { 0.0 } else { read as f64 / keys as f64 };
    Some(Cost { successful, unsuccessful: chains as f64 / buckets as f64, cache_lines_successful: 1.0 + successful })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sizes: &[u64]) -> Counts {
        let mut counts = Counts::new(sizes.len());
        for (bucket, size) in sizes.iter().enumerate() {
            (0..*size).for_each(|_| counts.add(bucket));
        }
        counts
    }

    #[test]
    fn a_histogram_by_hand() {
        // Eight keys in four buckets: 0, 1, 2 and 5.
        let level = level(&counts(&[1, 5, 0, 2]), true);
        assert_eq!((level.buckets, level.objects, level.empty, level.largest), (4, 8, 1, 5));
        let rows: Vec<_> = level.histogram.iter().map(|row| (row.size, row.buckets, row.objects)).collect();
        assert_eq!(rows, [(0, 1, 0), (1, 1, 1), (2, 1, 2), (5, 1, 5)]);
        let percents: Vec<_> = level.histogram.iter().map(|row| row.cumulative_percent).collect();
        assert_eq!(percents, [0.0, 12.5, 37.5, 100.0]);
        // (1 + (1 + 2) + (1 + 2 + 3 + 4 + 5)) / 8, and (0 + 2 * 1 + 5 * 4) / 8.
        assert_eq!(level.compared_successful, 19.0 / 8.0);
        assert_eq!(level.compared_unsuccessful, 22.0 / 8.0);
        assert_eq!(level.compared_unsuccessful_uniform, 2.0);
        // ((1 - 2)^2 + (5 - 2)^2 + (0 - 2)^2 + 0) / 2
        assert_eq!(level.chi_square, 7.0);
        assert_eq!(level.degrees, 3.0);
        // All 4^8 placements; chi-square would say 0.0719.
        assert!((level.p_value - 0.0950927734375).abs() < 1e-9, "{}", level.p_value);
        assert!((level.p_value_even - 0.9664306640625).abs() < 1e-9, "{}", level.p_value_even);
    }

    #[test]
    fn linear_probing_costs_what_inserting_one_by_one_does() {
        let homes = [0u64, 3, 0, 0, 1, 2, 0, 0, 1, 0, 0, 2];
        let mut slots = vec![None; homes.len()];
        let (mut probes, mut keys) = (0, 0);
        for (home, count) in homes.iter().enumerate() {
            for _ in 0..*count {
                let step = (0..slots.len()).find(|step| slots[(home + step) % homes.len()].is_none()).unwrap();
                slots[(home + step) % homes.len()] = Some(home);
                probes += step + 1;
                keys += 1;
            }
        }
        let misses: usize = (0..slots.len())
            .map(|home| (0..slots.len()).find(|step| slots[(home + step) % homes.len()].is_none()).unwrap() + 1)
            .sum();
        let cost = linear(&counts(&homes), keys).unwrap();
        assert_eq!(cost.successful, probes as f64 / keys as f64);
        assert_eq!(cost.unsuccessful, misses as f64 / slots.len() as f64);
    }

    #[test]
    fn a_full_table_has_no_linear_probing() {
        assert_eq!(linear(&counts(&[1, 1, 1, 1]), 4), None);
    }

    #[test]
    fn pages_hold_eight_and_overflow() {
        let mut sizes = [0; 16];
        sizes[0] = 9;
        sizes[2] = 3;
        sizes[1] = 1;
        // Two pages' chains: buckets 0, 2, 4... and 1, 3...: 12 keys and 1.
        let cost = pages(&counts(&sizes)).unwrap();
        assert_eq!(cost.successful, (8.0 + 4.0 * 2.0 + 1.0) / 13.0);
        assert_eq!(cost.unsuccessful, 1.5);
    }

    #[test]
    fn empty_buckets_have_defined_figures() {
        let level = level(&counts(&[0, 0]), true);
        assert_eq!((level.objects, level.empty, level.compared_successful, level.p_value), (0, 2, 0.0, 1.0));
    }
}
