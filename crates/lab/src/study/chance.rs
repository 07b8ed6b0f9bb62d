//! The random model: the result of an ideal function, which puts each key in a bucket chosen uniformly at random.
//!
//! With `n` keys in `m` buckets, the size of a bucket is Poisson distributed with mean `n / m`. The exact distribution
//! is binomial; from a few hundred buckets on the difference is negligible.
//!
//! The evenness of bucket sizes is measured by the number of pairs of keys that share a bucket ([`Pairs`]); Pearson's
//! chi-square is a linear function of it. It has the chi-square distribution only if each bucket has many keys. For few
//! pairs the distribution is computed exactly; for many it is approximated by a gamma distribution with the same mean,
//! variance and skewness.
//!
//! Source: Knuth, The Art of Computer Programming 3, 6.4; Wilson & Hilferty, "The Distribution of Chi-Square", PNAS 17,
//! 1931; the power of a series, Knuth 2, 4.7.

use statrs::function::erf::erfc;
use statrs::function::gamma::{gamma_lr, gamma_ur, ln_gamma};

/// Up to this expected number of pairs, their distribution is computed exactly.
const EXACT_PAIRS_MAX: f64 = 20.0;
/// The maximum number of steps of the exact computation: a few milliseconds.
const EXACT_STEPS_MAX: f64 = 2e7;
/// Results less probable than this under random placement are not attributed to chance. A study compares a dozen
/// functions.
pub const SIGNIFICANT: f64 = 1e-4;

/// Up to this many degrees of freedom, the chi-square distribution is computed exactly; above, as the cube of a normal
/// variable, with an error below 1e-6.
const DEGREES_EXACT_MAX: f64 = 1e5;

/// Returns the Poisson probability of `count` at this mean.
pub fn poisson(mean: f64, count: u64) -> f64 {
    if mean <= 0.0 {
        return if count == 0 { 1.0 } else { 0.0 };
    }
    let count = count as f64;
    (count * mean.ln() - mean - ln_gamma(count + 1.0)).exp()
}

/// Returns the median size of the largest of `buckets` buckets: the size that half a bucket is expected to exceed.
pub fn largest(mean: f64, buckets: u64) -> u64 {
    if mean <= 0.0 {
        return 0;
    }
    let is_above = |count: u64| gamma_lr(count as f64 + 1.0, mean) * buckets as f64 <= 0.5;
    // Half of all buckets exceed the mean; none exceeds it by twenty standard deviations and more.
    let (mut low, mut high) = (mean as u64, (mean + 20.0 * mean.sqrt() + 100.0) as u64);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_above(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The distribution of the number of pairs of keys that share a bucket, when each key is placed uniformly at random.
pub struct Pairs {
    keys: u64,
    buckets: u64,
    /// The probability of at least 0, 1, ... pairs, as far as it matters.
    exact: Option<Vec<f64>>,
}

impl Pairs {
    /// Creates the distribution for `keys` keys in `buckets` buckets.
    pub fn new(keys: u64, buckets: u64) -> Self {
        let mut pairs = Pairs { keys, buckets, exact: None };
        // More than twenty standard deviations above the mean.
        let most = (pairs.mean() + 20.0 * pairs.mean().sqrt() + 40.0).min(pairs.all()) as usize;
        let sizes = (2..).take_while(|size| size * (size - 1) / 2 <= most).count() + 2;
        let rounds = if keys <= buckets { keys as f64 } else { (keys * buckets) as f64 };
        if pairs.mean() <= EXACT_PAIRS_MAX && rounds * (sizes * (most + 1)) as f64 <= EXACT_STEPS_MAX {
            let counts = match keys <= buckets {
                true => by_keys(keys, buckets, most),
                false => by_buckets(keys, buckets, most),
            };
            pairs.exact = Some(at_least(&counts));
        }
        pairs
    }

    /// Returns the number of all pairs of keys.
    fn all(&self) -> f64 {
        self.keys as f64 * (self.keys as f64 - 1.0).max(0.0) / 2.0
    }

    fn mean(&self) -> f64 {
        self.all() / self.buckets as f64
    }

    /// Returns the probability of `count` pairs or more.
    pub fn at_least(&self, count: u128) -> f64 {
        if count == 0 {
            return 1.0;
        }
        if let Some(exact) = &self.exact {
            return usize::try_from(count).ok().and_then(|count| exact.get(count)).copied().unwrap_or(0.0);
        }
        // Any two pairs of keys share a bucket independently of each other, but the three pairs of the same three keys
        // do not: hence the second term of the third moment.
        let p = 1.0 / self.buckets as f64;
        let variance = self.mean() * (1.0 - p);
        let triples = self.all() * (self.keys as f64 - 2.0).max(0.0) / 3.0;
        let third = variance * (1.0 - 2.0 * p) + 6.0 * triples * p * p * (1.0 - p);
        if variance <= 0.0 || third <= 0.0 {
            // One bucket, or all cases are alike.
            return if count as f64 <= self.mean() { 1.0 } else { 0.0 };
        }
        let skewness = third / variance.powf(1.5);
        let shape = 4.0 / (skewness * skewness);
        // Continuity correction of half a pair, because counts are whole.
        let deviation = (count as f64 - 0.5 - self.mean()) / variance.sqrt();
        p_value(2.0 * (shape + deviation * shape.sqrt()), 2.0 * shape)
    }

    /// Returns the smallest number of pairs that is not attributed to chance; `None` if all pairs could be chance.
    pub fn significant(&self) -> Option<u128> {
        let all = u128::from(self.keys) * u128::from(self.keys.saturating_sub(1)) / 2;
        if self.at_least(all) >= SIGNIFICANT {
            return None;
        }
        let (mut low, mut high) = (0, all);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at_least(middle) < SIGNIFICANT { high = middle } else { low = middle + 1 }
        }
        Some(low)
    }
}

/// The probability of at least 0, 1, ... from those of exactly 0, 1, ...; what is beyond the last counts nowhere.
fn at_least(exactly: &[f64]) -> Vec<f64> {
    let mut below = 0.0;
    let tail = exactly.iter().map(|probability| {
        let tail = 1.0 - below;
        below += probability;
        // Sums of a million terms are exact to this.
        if tail > 1e-12 { tail } else { 0.0 }
    });
    tail.collect()
}

/// Returns the probability of 0, 1, ..., `most` pairs, computed by adding keys; for fewer keys than buckets, where all
/// terms are positive.
///
/// The number of placements with `j` keys and `q` pairs, over `j!`, is the coefficient of `z^j x^q` in the power
/// `buckets` of the sum of `z^k x^(k(k-1)/2) / k!` over the keys `k` in one bucket. The terms of a power follow from
/// those before.
fn by_keys(keys: u64, buckets: u64, most: usize) -> Vec<f64> {
    let sizes = (1..).take_while(|size: &usize| size * (size - 1) / 2 <= most).count();
    // The last rows, newest first; row `j` holds the probabilities for `j` keys.
    let mut rows = std::collections::VecDeque::from([{
        let mut none = vec![0.0; most + 1];
        none[0] = 1.0;
        none
    }]);
    for j in 1..=keys {
        let mut row = vec![0.0; most + 1];
        // j! / (j - k)! / k! / buckets^k, for k keys in the bucket.
        let mut ways = 1.0;
        for k in 1..=sizes.min(j as usize) {
            ways *= (j - k as u64 + 1) as f64 / k as f64 / buckets as f64;
            let factor = ways * (k as f64 * (buckets as f64 + 1.0) - j as f64) / j as f64;
            let shift = k * (k - 1) / 2;
            for (to, from) in row[shift..].iter_mut().zip(&rows[k - 1]) {
                *to += factor * from;
            }
        }
        rows.push_front(row);
        rows.truncate(sizes);
    }
    rows.pop_front().expect("begins with one")
}

/// Returns the probability of 0, 1, ..., `most` pairs, computed by adding buckets: each takes a binomial share of the
/// keys that are left.
fn by_buckets(keys: u64, buckets: u64, most: usize) -> Vec<f64> {
    let keys = keys as usize;
    // For each number of keys left: the probabilities of pairs so far.
    let mut left = vec![vec![0.0; most + 1]; keys + 1];
    left[keys][0] = 1.0;
    for bucket in (1..=buckets).rev() {
        let p = 1.0 / bucket as f64;
        let mut next = vec![vec![0.0; most + 1]; keys + 1];
        for (n, pairs) in left.iter().enumerate() {
            for k in (0..=n).take_while(|k| k * k.saturating_sub(1) / 2 <= most) {
                if bucket == 1 && k < n {
                    continue;
                }
                let probability = if bucket == 1 { 1.0 } else { binomial(n, k, p) };
                for (to, from) in next[n - k][k * k.saturating_sub(1) / 2..].iter_mut().zip(pairs) {
                    *to += probability * from;
                }
            }
        }
        left = next;
    }
    left.swap_remove(0)
}

fn binomial(n: usize, k: usize, p: f64) -> f64 {
    let (n, k) = (n as f64, k as f64);
    let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (ways + k * p.ln() + (n - k) * (-p).ln_1p()).exp()
}

/// Returns the probability that chi-square is `chi_square` or more, at this many degrees of freedom.
fn p_value(chi_square: f64, degrees: f64) -> f64 {
    if degrees < 1.0 || chi_square <= 0.0 {
        return 1.0;
    }
    if degrees <= DEGREES_EXACT_MAX {
        return gamma_ur(degrees / 2.0, chi_square / 2.0);
    }
    let variance = 2.0 / (9.0 * degrees);
    let normal = ((chi_square / degrees).cbrt() - (1.0 - variance)) / variance.sqrt();
    erfc(normal / std::f64::consts::SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64, relative: f64) {
        assert!((actual - expected).abs() <= relative * expected.abs(), "{actual}, not {expected}");
    }

    #[test]
    fn p_values_match_published_tables() {
        // The 5 % and 1 % points of printed tables, and values of scipy.stats.chi2.sf.
        close(p_value(3.841_458_820_694_124, 1.0), 0.05, 1e-9);
        close(p_value(18.307_038_053_275_146, 10.0), 0.05, 1e-9);
        close(p_value(135.806_723_222_297_68, 100.0), 0.01, 1e-8);
        close(p_value(0.0, 5.0), 1.0, 0.0);
        close(p_value(5.0, 5.0), 0.415_880_186_995_508_9, 1e-9);
        close(p_value(1000.0, 10.0), 1.870_290_720_9e-208, 1e-6);
    }

    /// Returns the probability of each number of pairs, by enumerating all placements.
    fn by_hand(keys: u32, buckets: u32) -> Vec<f64> {
        let mut counts = vec![0.0; (keys * (keys - 1) / 2 + 1) as usize];
        for placement in 0..buckets.pow(keys) {
            let mut sizes = vec![0usize; buckets as usize];
            let mut rest = placement;
            for _ in 0..keys {
                sizes[(rest % buckets) as usize] += 1;
                rest /= buckets;
            }
            let pairs: usize = sizes.iter().map(|size| size * size.saturating_sub(1) / 2).sum();
            counts[pairs] += 1.0 / f64::from(buckets.pow(keys));
        }
        counts
    }

    #[test]
    fn few_pairs_are_counted_exactly() {
        for (keys, buckets) in [(1, 3), (2, 8), (3, 3), (5, 4), (6, 2), (7, 3), (4, 9), (5, 1)] {
            let pairs = Pairs::new(keys.into(), buckets.into());
            assert!(pairs.exact.is_some());
            for (count, expected) in at_least(&by_hand(keys, buckets)).into_iter().enumerate() {
                let found = pairs.at_least(count as u128);
                assert!((found - expected).abs() < 1e-12, "{keys} in {buckets}, {count}: {found}, not {expected}");
            }
        }
        // Both ways of counting agree where both apply.
        for (by_keys, by_buckets) in by_keys(9, 9, 36).into_iter().zip(by_buckets(9, 9, 36)) {
            assert!((by_keys - by_buckets).abs() < 1e-12, "{by_keys} and {by_buckets}");
        }
    }

    #[test]
    fn a_collision_of_few_keys_in_many_buckets_is_as_likely_as_a_birthday() {
        // 23 people, 365 days.
        close(Pairs::new(23, 365).at_least(1), 0.507_297_234, 1e-8);
        // Here chi-square reported a p below 0.001.
        close(Pairs::new(300, 1 << 20).at_least(1), 1.0 - (-300.0f64 * 299.0 / 2.0 / (1u64 << 20) as f64).exp(), 1e-3);
    }

    #[test]
    fn many_pairs_continue_few_ones_and_become_chi_square() {
        // At the limit between the two, in the middle and in the tail.
        for (keys, buckets, mean) in [(2000, 100_000, 20.0), (200, 1000, 19.9)] {
            let exact = Pairs::new(keys, buckets);
            let gamma = Pairs { keys, buckets, exact: None };
            for (count, error) in [(15, 0.01), (20, 0.01), (30, 0.02), (40, 0.2)] {
                let (exact, gamma) = (exact.at_least(count), gamma.at_least(count));
                assert!((gamma / exact - 1.0).abs() < error, "{mean}, {count}: {gamma}, not {exact}");
            }
        }
        // A hundred keys in each bucket: chi-square of 1000 degrees, whose 1 % point this is.
        let (keys, buckets, point) = (100_000u64, 1001u64, 1106.969);
        let pairs = (point + keys as f64) * keys as f64 / buckets as f64;
        let p = Pairs::new(keys, buckets).at_least(((pairs - keys as f64) / 2.0) as u128);
        close(p, 0.01, 0.02);
    }

    #[test]
    fn what_could_be_chance_is_not_significant() {
        assert_eq!(Pairs::new(2, 8).significant(), None);
        assert_eq!(Pairs::new(0, 8).significant(), None);
        assert_eq!(Pairs::new(1000, 1).significant(), None);
        let pairs = Pairs::new(1000, 1024);
        let least = pairs.significant().unwrap();
        assert!(pairs.at_least(least) < SIGNIFICANT && pairs.at_least(least - 1) >= SIGNIFICANT, "{least}");
    }

    #[test]
    fn the_approximation_for_many_degrees_continues_the_exact_values() {
        for chi_square in [98_500.0, 99_500.0, 100_000.0, 101_000.0] {
            let exact = p_value(chi_square, DEGREES_EXACT_MAX);
            let near = p_value(chi_square * 1.000_01, DEGREES_EXACT_MAX * 1.000_01);
            assert!((exact - near).abs() < 2e-4, "{exact} and {near}");
        }
    }

    #[test]
    fn poisson_probabilities_sum_to_one_and_match_known_values() {
        close(poisson(1.0, 0), (-1.0f64).exp(), 1e-12);
        close(poisson(3.0, 3), 0.224_041_807_655_387_75, 1e-12);
        close((0..200).map(|count| poisson(38.2, count)).sum::<f64>(), 1.0, 1e-9);
        assert_eq!(poisson(0.0, 0), 1.0);
    }

    #[test]
    fn the_largest_bucket_of_random_keys_matches_known_values() {
        // A million keys in as many buckets: 8 or 9 (Gonnet 1981: about log n / log log n, near 9).
        assert!((8..=9).contains(&largest(1.0, 1_000_000)), "{}", largest(1.0, 1_000_000));
        // No keys, no large bucket.
        assert_eq!(largest(0.0, 100), 0);
        let few = largest(38.2, 256);
        assert!((54..=60).contains(&few), "{few}");
        // One bucket has all keys. A linear search would take minutes here.
        assert!((99_990_000..100_010_000).contains(&largest(1e8, 1)), "{}", largest(1e8, 1));
    }
}
