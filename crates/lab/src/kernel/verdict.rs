//! Verdicts: whether the kernels of a table have the paper's order here, and whether the paper's own figures order
//! them.
//!
//! Most kernels of the paper's tables differ by less than their runs do. A pair of kernels is *separated* if the means
//! differ by more than two standard errors of the difference. Only the order of separated pairs can be reproduced. The
//! rank correlation (Spearman) covers all kernels. For comparison we report the one that a repetition of the paper's
//! runs would have with the printed figures: from means with twice the variance of a mean, drawn with a fixed seed.
//!
//! Source: Lever 2000, Tables 1 to 6; Spearman 1904.

use super::study::{Kernel, Measured};
use crate::random::Random;

/// Standard errors of a difference that separate two means: 95 of 100 differences by chance are smaller.
const ERRORS: f64 = 2.0;
/// Simulated repetitions of the paper's runs.
const REPETITIONS: usize = 2000;

/// A mean, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mean {
    value: f64,
    error: f64,
}

impl Mean {
    /// Returns whether it exceeds `other` by more than chance explains.
    fn exceeds(self, other: Mean) -> bool {
        self.value - other.value > ERRORS * self.error.hypot(other.error)
    }
}

/// The comparison of one table under one load with the paper's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Spearman's rank correlation of our means and the paper's; 1 for equal order.
    pub rank_correlation: f64,
    /// The rank correlation that a repetition of the paper's runs would have with the printed means, on average.
    pub repeated_rank_correlation: f64,
    /// Pairs of kernels in the paper.
    pub pairs: usize,
    /// Pairs that the paper's figures separate.
    pub separated: usize,
    /// Of these, pairs in the same order here.
    pub agreeing: usize,
    /// Of these, pairs that our runs do not separate: the indexes of the kernel that is faster in the paper and of the
    /// other one.
    pub undecided: Vec<(usize, usize)>,
    /// Of these, pairs in the opposite order here.
    pub contrary: Vec<(usize, usize)>,
}

impl Verdict {
    /// Compares the kernels with figures in the paper; `load` is the index of the paper's load, `paper_runs` the number
    /// of runs of the paper's means. `None` for fewer than two kernels.
    pub fn of(kernels: &[Kernel], measured: &[Measured], load: usize, paper_runs: usize) -> Option<Verdict> {
        let known = kernels.iter().zip(measured).enumerate().filter_map(|(index, (kernel, measured))| {
            let (value, deviation) = *kernel.paper.get(load)?;
            let paper = Mean { value, error: deviation / (paper_runs.max(1) as f64).sqrt() };
            let error = measured.deviation / (measured.runs_kept as f64).sqrt();
            Some((index, paper, Mean { value: measured.lookups_per_second, error }))
        });
        let known: Vec<(usize, Mean, Mean)> = known.collect();
        (known.len() > 1).then(|| Self::of_means(&known))
    }

    fn of_means(known: &[(usize, Mean, Mean)]) -> Verdict {
        let paper: Vec<Mean> = known.iter().map(|(_, paper, _)| *paper).collect();
        let ours: Vec<f64> = known.iter().map(|(_, _, ours)| ours.value).collect();
        let mut verdict = Verdict {
            rank_correlation: rank_correlation(&values(&paper), &ours),
            repeated_rank_correlation: repeated(&paper),
            pairs: known.len() * (known.len() - 1) / 2,
            separated: 0,
            agreeing: 0,
            undecided: Vec::new(),
            contrary: Vec::new(),
        };
        for (faster, paper_faster, ours_faster) in known {
            for (slower, paper_slower, ours_slower) in known {
                if !paper_faster.exceeds(*paper_slower) {
                    continue;
                }
                verdict.separated += 1;
                if ours_slower.exceeds(*ours_faster) {
                    verdict.contrary.push((*faster, *slower));
                } else if ours_faster.exceeds(*ours_slower) {
                    verdict.agreeing += 1;
                } else {
                    verdict.undecided.push((*faster, *slower));
                }
            }
        }
        verdict
    }

    /// Returns whether every pair that the paper separates is in the same order here.
    pub fn same_order(&self) -> bool {
        self.agreeing == self.separated
    }
}

fn values(means: &[Mean]) -> Vec<f64> {
    means.iter().map(|mean| mean.value).collect()
}

/// Returns the mean rank correlation of the printed means with repetitions of them.
fn repeated(paper: &[Mean]) -> f64 {
    let mut random = Random::new(1);
    let printed = values(paper);
    let once = |random: &mut Random| {
        let again: Vec<f64> =
            paper.iter().map(|mean| mean.value + mean.error * std::f64::consts::SQRT_2 * normal(random)).collect();
        rank_correlation(&printed, &again)
    };
    (0..REPETITIONS).map(|_| once(&mut random)).sum::<f64>() / REPETITIONS as f64
}

/// Returns a standard normal variable (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let (a, b) = (1.0 - uniform(), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// Returns Spearman's rank correlation: Pearson's of the ranks, where equal values share the mean of their ranks. 0 if
/// all values of one side are equal.
pub fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let sum = |of: &dyn Fn(usize) -> f64| (0..a.len()).map(of).sum::<f64>();
    let both = sum(&|i| (a[i] - mean) * (b[i] - mean));
    let (squares_a, squares_b) = (sum(&|i| (a[i] - mean).powi(2)), sum(&|i| (b[i] - mean).powi(2)));
    let scale = (squares_a * squares_b).sqrt();
    if scale == 0.0 { 0.0 } else { both / scale }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        below + (equal - 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(value: f64, error: f64) -> Mean {
        Mean { value, error }
    }

    #[test]
    fn rank_correlation_matches_values_computed_by_hand() {
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        // 1 - 6 * (1 + 1) / (4 * 15)
        assert!((rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]) - 0.8).abs() < 1e-12);
        // Ties share a rank: 1.5, 1.5, 3 with 1, 2, 3; scipy.stats.spearmanr gives 0.8660254.
        assert!((rank_correlation(&[5.0, 5.0, 9.0], &[1.0, 2.0, 3.0]) - 0.75f64.sqrt()).abs() < 1e-12);
        assert_eq!(rank_correlation(&[5.0, 5.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn only_pairs_that_the_paper_separates_count() {
        // The paper separates the first from the others, not the others from one another.
        let known = [
            (0, mean(100.0, 1.0), mean(10.0, 0.1)),
            (1, mean(110.0, 1.0), mean(30.0, 0.1)),
            (4, mean(111.0, 1.0), mean(20.0, 0.1)),
        ];
        let verdict = Verdict::of_means(&known);
        assert_eq!((verdict.pairs, verdict.separated, verdict.agreeing), (3, 2, 2));
        assert!(verdict.same_order());
        assert_eq!(verdict.rank_correlation, 0.5);
        assert!((0.6..0.95).contains(&verdict.repeated_rank_correlation), "{verdict:?}");
    }

    #[test]
    fn contrary_and_undecided_pairs_are_named() {
        let known = [
            (0, mean(100.0, 1.0), mean(10.0, 0.1)),
            (1, mean(110.0, 1.0), mean(5.0, 0.1)),
            (2, mean(120.0, 1.0), mean(10.1, 0.1)),
        ];
        let verdict = Verdict::of_means(&known);
        assert_eq!((verdict.separated, verdict.agreeing), (3, 1));
        assert_eq!((verdict.contrary, verdict.undecided), (vec![(1, 0)], vec![(2, 0)]));
    }

    #[test]
    fn figures_without_noise_repeat_their_order() {
        let exact: Vec<Mean> = [1.0, 2.0, 3.0].iter().map(|value| mean(*value, 0.0)).collect();
        assert_eq!(repeated(&exact), 1.0);
    }
}
