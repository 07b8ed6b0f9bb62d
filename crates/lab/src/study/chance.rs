//! The random model: what an ideal function gives, each key in a bucket chosen uniformly at random.
//!
//! With `n` keys in `m` buckets, the size of a bucket is Poisson distributed with mean `n / m`. The exact distribution
//! is binomial; from a few hundred buckets on the difference is negligible.
//!
//! Source: Knuth, The Art of Computer Programming 3, 6.4; Wilson & Hilferty, "The Distribution of Chi-Square", PNAS 17,
//! 1931.

use statrs::function::erf::erfc;
use statrs::function::gamma::{gamma_lr, gamma_ur, ln_gamma};

/// Up to this many degrees of freedom the chi-square distribution is computed exactly; above, as the cube of a normal
/// variable, with an error below 1e-6.
const DEGREES_EXACT_MAX: f64 = 1e5;

/// The Poisson probability of `count` at this mean.
pub fn poisson(mean: f64, count: u64) -> f64 {
    if mean <= 0.0 {
        return if count == 0 { 1.0 } else { 0.0 };
    }
    let count = count as f64;
    (count * mean.ln() - mean - ln_gamma(count + 1.0)).exp()
}

/// The median size of the largest of `buckets` buckets: the size that half a bucket is expected to exceed.
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

/// The probability that random placement is as uneven as `chi_square` or more, at this many degrees of freedom.
pub fn p_value(chi_square: f64, degrees: f64) -> f64 {
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
