//! A scheme fed with keys, measured at some numbers of them on the way.
//!
//! The same keys give the same figures: hits and misses are of keys at even distances, at most [`SAMPLE_MAX`] of either a point.
//! A scheme that comes to do [`WORK_MAX`] comparisons is given up: some are quadratic with some functions.

use super::{Figures, Options, Refused, SchemeKind};
use crate::keys::Keys;
use splitpoint::HashKind;
use std::collections::HashSet;
use std::ops::{ControlFlow, RangeInclusive};

/// Comparisons and moves of a scheme, all inserts together, after which it is given up.
pub const WORK_MAX: u64 = 200_000_000;
/// Keys looked up at a point, of those that are there and of those that are not.
const SAMPLE_MAX: usize = 10_000;
/// Entries touched at a point by all lookups of a sample; the rest of the sample is left out.
const TOUCHED_MAX: u64 = 2_000_000;
/// Where the first point is, if there are more keys.
const FIRST_POINT: usize = 16;
/// Inserts between two questions whether to go on.
const STRIDE: usize = 1024;

/// Keys without those that came before.
#[derive(Clone, Debug)]
pub struct Distinct<'k> {
    keys: Vec<&'k [u8]>,
    set: HashSet<&'k [u8]>,
    /// Keys left out.
    pub duplicates: usize,
}

impl<'k> Distinct<'k> {
    /// Of `keys`, in their order.
    pub fn of(keys: &'k Keys) -> Self {
        let mut set = HashSet::with_capacity(keys.len());
        let distinct: Vec<_> = keys.iter().filter(|key| set.insert(*key)).collect();
        Distinct { duplicates: keys.len() - distinct.len(), keys: distinct, set }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// All of them in order.
    pub fn keys(&self) -> &[&'k [u8]] {
        &self.keys
    }

    /// Mean of the bytes of keys; 0 of none.
    pub fn average_bytes(&self) -> usize {
        let bytes: usize = self.keys.iter().map(|key| key.len()).sum();
        bytes.div_ceil(self.keys.len().max(1))
    }
}

/// Keys like those of `keys` that are not among them, for misses: other last bytes, or bytes behind.
pub fn absent_keys(keys: &Distinct) -> Keys {
    let step = keys.len().div_ceil(SAMPLE_MAX).max(1);
    let sample = keys.keys.iter().step_by(step);
    sample.map(|key| absent_key(key, &keys.set)).collect()
}

fn absent_key(key: &[u8], set: &HashSet<&[u8]>) -> Vec<u8> {
    let mut altered = key.to_vec();
    if let Some((&last, before)) = key.split_last() {
        for difference in 1..=u8::MAX {
            altered[before.len()] = last ^ difference;
            if !set.contains(&altered[..]) {
                return altered;
            }
        }
    }
    let behind = (0_u64..).map(|number| [key, number.to_string().as_bytes()].concat());
    behind.into_iter().find(|key| !set.contains(&key[..])).expect("a set is finite")
}

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Keys fed so far.
    pub keys: usize,
    /// Those of them that could not be stored.
    pub refused: u64,
    /// Pages or entries touched by a lookup of a key that is there, on average; `None` where none was found.
    pub hit: Option<f64>,
    /// The same of a key that is not there.
    pub miss: f64,
    /// The most that a lookup of the sample touched, of a key that is there.
    pub worst_hit: u64,
    /// What it has cost.
    pub figures: Figures,
}

/// Keys that could not be stored, for one kind of reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusals {
    /// The first one's reason.
    pub reason: Refused,
    /// The first one's key.
    pub example: Vec<u8>,
    /// Bytes of its value.
    pub value_bytes: usize,
    /// How many keys in all.
    pub count: u64,
}

/// The study ended early: the scheme had come to do more than [`WORK_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Keys fed until then.
    pub keys: usize,
}

/// A scheme's measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Of which scheme.
    pub kind: SchemeKind,
    /// The name of its hash function.
    pub function: &'static str,
    /// By number of keys.
    pub points: Vec<Point>,
    /// What could not be stored, a kind of reason each.
    pub refusals: Vec<Refusals>,
    /// Did it end early?
    pub given_up: Option<GivenUp>,
}

impl Study {
    /// Feeds all keys, with values of some length in `value_bytes` that is the key's own, and measures at `point_count` numbers of
    /// keys. `None` if `go_on` broke it off; it is asked now and then.
    pub fn run(
        kind: SchemeKind,
        keys: &Distinct,
        absent: &Keys,
        value_bytes: &RangeInclusive<usize>,
        point_count: usize,
        options: &Options,
        go_on: &dyn Fn() -> ControlFlow<()>,
    ) -> Option<Self> {
        let mut scheme = kind.empty(options);
        let function = kind.function(options).name();
        let mut study = Study { kind, function, points: Vec::new(), refusals: Vec::new(), given_up: None };
        let mut refused = 0;
        let mut is_full = None;
        let mut at = numbers(keys.len(), point_count).into_iter().peekable();
        for (index, &key) in keys.keys.iter().enumerate() {
            if index.is_multiple_of(STRIDE) && go_on().is_break() {
                return None;
            }
            let value_bytes = value_bytes_of(key, value_bytes);
            let outcome = is_full.map_or_else(|| scheme.insert(key, value_bytes), Err);
            if let Err(reason) = outcome {
                refused += 1;
                study.note(reason, key, value_bytes);
                is_full = is_full.or(reason.is_final().then_some(reason));
            }
            let fed = index + 1;
            let is_too_much = scheme.figures().work > WORK_MAX;
            if is_too_much {
                study.given_up = (fed < keys.len()).then_some(GivenUp { keys: fed });
            }
            if is_too_much || at.next_if_eq(&fed).is_some() {
                if go_on().is_break() {
                    return None;
                }
                let (hit, worst_hit) = hits(&*scheme, &keys.keys[..fed]);
                let misses = scattered(absent.len()).filter_map(|index| absent.get(index));
                let miss = mean(&mut misses.map(|key| scheme.find(key).touched)).unwrap_or(0.0);
                study.points.push(Point { keys: fed, refused, hit, miss, worst_hit, figures: scheme.figures() });
            }
            if is_too_much {
                break;
            }
        }
        Some(study)
    }

    /// The measurement with all keys, or as many as it got to; `None` if there were none.
    pub fn last(&self) -> Option<&Point> {
        self.points.last()
    }

    fn note(&mut self, reason: Refused, key: &[u8], value_bytes: usize) {
        match self.refusals.iter_mut().find(|known| known.reason.name() == reason.name()) {
            Some(known) => known.count += 1,
            None => self.refusals.push(Refusals { reason, example: key.to_owned(), value_bytes, count: 1 }),
        }
    }
}

/// About `count` numbers up to `last`, each as many times the one before.
fn numbers(last: usize, count: usize) -> Vec<usize> {
    let first = FIRST_POINT.min(last).max(1) as f64;
    let steps = count.saturating_sub(1).max(1) as f64;
    let number = |step: usize| (first * (last as f64 / first).powf(step as f64 / steps)).round() as usize;
    let mut numbers: Vec<usize> = (0..count).map(number).map(|number| number.clamp(1, last.max(1))).collect();
    numbers.push(last);
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// A length in `range` that depends on the key alone.
fn value_bytes_of(key: &[u8], range: &RangeInclusive<usize>) -> usize {
    let width = (range.end() - range.start()) as u64;
    // Not the hash of any scheme: lengths and places are to be independent.
    let by_key = HashKind::Sip13.hash(key, 0) % width.saturating_add(1);
    range.start() + by_key as usize
}

fn hits(scheme: &dyn super::Scheme, fed: &[&[u8]]) -> (Option<f64>, u64) {
    let step = fed.len().div_ceil(SAMPLE_MAX).max(1);
    let mut worst = 0;
    let sample = scattered(fed.len().div_ceil(step)).map(|index| fed[index * step]);
    let mut touched = sample.map(|key| scheme.find(key)).filter(|found| found.found).map(|found| {
        worst = worst.max(found.touched);
        found.touched
    });
    (mean(&mut touched), worst)
}

/// All numbers below `count`, so that the first few are spread over all.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    // A step near the golden section that shares no divisor with the count meets every number once.
    let divisor = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let golden = (count as f64 * 0.618) as usize;
    let step = (golden.max(1)..).find(|&step| divisor(step, count) == 1).unwrap_or(1);
    (0..count).map(move |index| index * step % count)
}

/// Of as many as [`TOUCHED_MAX`] allows.
fn mean(touched: &mut dyn Iterator<Item = u64>) -> Option<f64> {
    let (mut sum, mut count) = (0_u64, 0_u64);
    while sum < TOUCHED_MAX
        && let Some(next) = touched.next()
    {
        sum += next;
        count += 1;
    }
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_numbers_are_all_there_and_any_few_of_them_spread() {
        for count in [0, 1, 2, 3, 10, 618, 10_000] {
            let mut numbers: Vec<usize> = scattered(count).collect();
            let few = &numbers[..count / 10];
            assert!(count < 100 || few.iter().filter(|&&number| number < count / 2).count().abs_diff(count / 20) < 5);
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn points_lie_at_equal_ratios_and_end_with_all_keys() {
        assert_eq!(numbers(16 << 4, 5), [16, 32, 64, 128, 256]);
        assert_eq!([numbers(1, 20), numbers(3, 2)], [vec![1], vec![3]]);
    }
}
