//! What the keys of each bucket come to: the histogram, probes, chi-square, and the same for other layouts of as many slots.
//!
//! For `n` keys in `m` chains, `s` keys in each: a hit looks at `sum s(s+1)/2 / n` keys on average, as each key of a chain is found behind
//! those before it. A miss by a key *like the others* looks at `sum s(s-1) / n`: what each key finds in its bucket beside itself. Dice
//! give `n / m` for it, and a function that crowds keys gives more, since absent keys crowd as the present ones do. A miss by a key that
//! falls on any bucket alike looks at `n / m` whatever the function.
//!
//! Source: Lever 2000, Section 2; Knuth 3, 6.4 (linear probing: the sum of displacements is the same for every order of insertion).

use super::chance;
use super::counts::Counts;
use std::collections::BTreeMap;

/// Slots of a page in [`Layouts::pages`]: as many 8-byte slots as a cache line has.
pub const PAGE_SLOTS: u64 = 8;
/// Above this load there is no linear probing to speak of.
const LINEAR_LOAD_MAX: f64 = 0.95;

/// Buckets of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Keys in each.
    pub size: u64,
    /// How many such buckets there are.
    pub buckets: u64,
    /// Keys in all of them.
    pub objects: u64,
    /// Keys in buckets of this size and smaller ones, in percent of all.
    pub cumulative_percent: f64,
    /// How many such buckets dice would give.
    pub expected_buckets: f64,
}

/// What dice would give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Buckets without a key.
    pub empty: f64,
    /// Keys in the fullest bucket, at the median.
    pub largest: u64,
    /// Keys looked at in a hit.
    pub probes_hit: f64,
    /// Keys looked at in a miss.
    pub probes_miss: f64,
}

/// Cost of lookups in one layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Slots, keys or pages looked at in a hit.
    pub hit: f64,
    /// The same in a miss that falls on any bucket alike.
    pub miss: f64,
    /// Cache lines of 64 bytes touched in a hit, the key's own not counted.
    pub lines_hit: f64,
}

/// The same keys by the same function in other layouts with as many slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layouts {
    /// A list of nodes a bucket.
    pub chains: Cost,
    /// One array of 16-byte slots, the next free one taken; `None` where it would be too full.
    pub linear: Option<Cost>,
    /// An eighth as many buckets of [`PAGE_SLOTS`] slots, with overflow pages; `None` where buckets cannot be joined.
    pub pages: Option<Cost>,
}

/// One function at one size of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// Buckets.
    pub buckets: u64,
    /// Keys.
    pub objects: u64,
    /// Buckets without a key.
    pub empty: u64,
    /// Keys in the fullest bucket.
    pub largest: u64,
    /// By size, ascending, sizes that no bucket has left out.
    pub histogram: Vec<Size>,
    /// Keys looked at in a hit.
    pub probes_hit: f64,
    /// Keys looked at in a miss by keys like these.
    pub probes_miss: f64,
    /// Keys looked at in a miss that falls on any bucket alike.
    pub probes_miss_even: f64,
    /// What dice would give.
    pub expected: Expected,
    /// How far bucket sizes are from even: of dice about [`Level::degrees`], more is more uneven.
    pub chi_square: f64,
    /// Degrees of freedom: one less than the buckets.
    pub degrees: f64,
    /// The probability that dice are as uneven or more: near 0 is worse than dice, near 1 more even than dice.
    pub p_value: f64,
    /// Other layouts.
    pub layouts: Layouts,
}

impl Level {
    /// Keys a bucket.
    pub fn load(&self) -> f64 {
        self.objects as f64 / self.buckets as f64
    }

    /// How many buckets of `size` keys dice would give.
    pub fn expected_buckets(&self, size: u64) -> f64 {
        self.buckets as f64 * chance::poisson(self.load(), size)
    }

    /// How many times as many keys as with dice a lookup of an absent key has to look at; a key each is nothing.
    pub fn excess(&self) -> f64 {
        (1.0 + self.probes_miss) / (1.0 + self.expected.probes_miss)
    }
}

/// Measures `counts`. `joins` tells whether the buckets of a smaller table are sums of these.
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
    let beside = (squares - objects) as f64 / n.max(1.0);
    let expected_miss = (n - 1.0).max(0.0) / buckets as f64;
    let expected = Expected {
        empty: buckets as f64 * chance::poisson(mean, 0),
        largest: chance::largest(mean, buckets),
        probes_hit: 1.0 + expected_miss / 2.0,
        probes_miss: expected_miss,
    };
    let probes_hit = if objects == 0 { 0.0 } else { 1.0 + beside / 2.0 };
    let chains = Cost { hit: probes_hit, miss: mean, lines_hit: 1.0 + probes_hit };
    Level {
        buckets,
        objects: objects as u64,
        empty: sizes.get(&0).copied().unwrap_or(0),
        largest: sizes.keys().next_back().copied().unwrap_or(0),
        histogram: histogram(&sizes, n, mean, buckets),
        probes_hit,
        probes_miss: beside,
        probes_miss_even: mean,
        expected,
        chi_square,
        degrees,
        p_value: chance::p_value(chi_square, degrees),
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

/// Linear probing, from where each key would like to be.
fn linear(counts: &Counts, objects: u64) -> Option<Cost> {
    let slots = counts.len() as u64;
    if objects == 0 || objects as f64 > LINEAR_LOAD_MAX * slots as f64 {
        return None;
    }
    // Keys that a slot passes on to the next; what the last passes on begins the first round.
    let wrapped = counts.iter().fold(0, |passed, wishes| (passed + wishes).saturating_sub(1));
    let (mut passed, mut displacement) = (wrapped, 0u128);
    // A miss looks until the first free slot. A slot is free if nothing came or was passed on to it. From the slots in between two that
    // are `gap` apart, `gap`, `gap - 1`, ... 1 are looked at.
    let triangle = |gap: u64| u128::from(gap) * u128::from(gap + 1) / 2;
    let (mut first, mut last, mut looked) = (None, 0, 0u128);
    for (slot, wishes) in (0..).zip(counts.iter()) {
        let here = passed + wishes;
        passed = here.saturating_sub(1);
        displacement += u128::from(passed);
        if here == 0 {
            match first {
                Some(_) => looked += triangle(slot - last),
                None => first = Some(slot),
            }
            last = slot;
        }
    }
    // Some are free, as the load is below one.
    looked += triangle(first.unwrap_or(0) + slots - last);
    let hit = 1.0 + displacement as f64 / objects as f64;
    Some(Cost { hit, miss: looked as f64 / slots as f64, lines_hit: 1.0 + (hit - 1.0) / 4.0 })
}

/// Pages of several slots: an eighth of the buckets, joined as a table of so many would have them.
fn pages(counts: &Counts) -> Option<Cost> {
    let buckets = counts.len() / PAGE_SLOTS as usize;
    if buckets == 0 {
        return None;
    }
    let (mut hits, mut misses, mut keys) = (0u128, 0u128, 0u128);
    for bucket in 0..buckets {
        let size: u64 = (0..PAGE_SLOTS as usize).map(|part| counts.get(bucket + part * buckets)).sum();
        let whole = size / PAGE_SLOTS;
        let rest = size % PAGE_SLOTS;
        // Keys of the first page are found in 1, of the second in 2...
        hits += u128::from(PAGE_SLOTS) * u128::from(whole) * u128::from(whole + 1) / 2
            + u128::from(rest) * u128::from(whole + 1);
        misses += u128::from(size.div_ceil(PAGE_SLOTS).max(1));
        keys += u128::from(size);
    }
    let hit = if keys == 0 { 0.0 } else { hits as f64 / keys as f64 };
    Some(Cost { hit, miss: misses as f64 / buckets as f64, lines_hit: 1.0 + hit })
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
        assert_eq!(level.probes_hit, 19.0 / 8.0);
        assert_eq!(level.probes_miss, 22.0 / 8.0);
        assert_eq!(level.probes_miss_even, 2.0);
        // ((1 - 2)^2 + (5 - 2)^2 + (0 - 2)^2 + 0) / 2
        assert_eq!(level.chi_square, 7.0);
        assert_eq!(level.degrees, 3.0);
        // scipy.stats.chi2.sf(7, 3)
        assert!((level.p_value - 0.071_897_772_496).abs() < 1e-9, "{}", level.p_value);
    }

    #[test]
    fn linear_probing_is_what_inserting_one_by_one_gives() {
        let wishes = [0u64, 3, 0, 0, 1, 2, 0, 0, 1, 0, 0, 2];
        let mut slots = vec![None; wishes.len()];
        let (mut probes, mut keys) = (0, 0);
        for (home, count) in wishes.iter().enumerate() {
            for _ in 0..*count {
                let step = (0..slots.len()).find(|step| slots[(home + step) % wishes.len()].is_none()).unwrap();
                slots[(home + step) % wishes.len()] = Some(home);
                probes += step + 1;
                keys += 1;
            }
        }
        let misses: usize = (0..slots.len())
            .map(|home| (0..slots.len()).find(|step| slots[(home + step) % wishes.len()].is_none()).unwrap() + 1)
            .sum();
        let cost = linear(&counts(&wishes), keys).unwrap();
        assert_eq!(cost.hit, probes as f64 / keys as f64);
        assert_eq!(cost.miss, misses as f64 / slots.len() as f64);
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
        assert_eq!(cost.hit, (8.0 + 4.0 * 2.0 + 1.0) / 13.0);
        assert_eq!(cost.miss, 1.5);
    }

    #[test]
    fn no_keys_are_no_fault() {
        let level = level(&counts(&[0, 0]), true);
        assert_eq!((level.objects, level.empty, level.probes_hit, level.p_value), (0, 2, 0.0, 1.0));
    }
}
