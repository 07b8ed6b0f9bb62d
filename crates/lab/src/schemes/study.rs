//! Inserts keys into a scheme and measures it at several numbers of keys.
//!
//! The same keys produce the same figures: the keys looked up are evenly spaced, at most [`SAMPLE_MAX`] hits and misses
//! per point. A study ends early after [`WORK_MAX`] comparisons, because some schemes are quadratic with some
//! functions.

use super::{Figures, Options, Refused, SchemeKind};
use crate::keys::Keys;
use splitpoint::HashKind;
use std::collections::HashSet;
use std::ops::{ControlFlow, RangeInclusive};

/// A study ends early after this many comparisons and moves by all inserts together.
pub const WORK_MAX: u64 = 200_000_000;
/// The maximum number of present keys, and of absent keys, looked up at a point.
const SAMPLE_MAX: usize = 10_000;
/// Lookups at a point stop after touching this many entries.
const TOUCHED_MAX: u64 = 2_000_000;
/// The number of keys at the first point, if there are more.
const FIRST_POINT: usize = 16;
/// Inserts between two calls of `proceed`.
const STRIDE: usize = 1024;

/// Keys without duplicates.
#[derive(Clone, Debug)]
pub struct Distinct<'k> {
    keys: Vec<&'k [u8]>,
    set: HashSet<&'k [u8]>,
    /// The number of duplicates left out.
    pub duplicates: usize,
}

impl<'k> Distinct<'k> {
    /// Collects the distinct keys of `keys`, in order of first occurrence.
    pub fn of(keys: &'k Keys) -> Self {
        let mut set = HashSet::with_capacity(keys.len());
        let distinct: Vec<_> = keys.iter().filter(|key| set.insert(*key)).collect();
        Distinct { duplicates: keys.len() - distinct.len(), keys: distinct, set }
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> &[&'k [u8]] {
        &self.keys
    }

    /// Returns the mean bytes of a key, rounded up; 0 without keys.
    pub fn average_bytes(&self) -> usize {
        let bytes: usize = self.keys.iter().map(|key| key.len()).sum();
        bytes.div_ceil(self.keys.len().max(1))
    }
}

/// Returns absent keys similar to `keys`, for misses: with another last byte, or with a suffix.
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
    let suffixed = (0_u64..).map(|number| [key, number.to_string().as_bytes()].concat());
    suffixed.into_iter().find(|key| !set.contains(&key[..])).expect("a set is finite")
}

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Keys inserted or refused so far.
    pub keys: usize,
    /// Keys that could not be stored so far.
    pub refused: u64,
    /// Mean pages or entries touched by a successful lookup; `None` without keys.
    pub touched_per_successful: Option<f64>,
    /// Mean pages or entries touched by an unsuccessful lookup.
    pub touched_per_unsuccessful: f64,
    /// The most pages or entries touched by a successful lookup of the sample.
    pub touched_per_successful_most: u64,
    /// The costs of the scheme.
    pub figures: Figures,
}

impl Point {
    fn of(scheme: &dyn super::Scheme, inserted: &[&[u8]], absent: &Keys, refused: u64) -> Point {
        let (touched_per_successful, touched_per_successful_most) = successful(scheme, inserted);
        let absent = scattered(absent.len()).filter_map(|index| absent.get(index));
        Point {
            keys: inserted.len(),
            refused,
            touched_per_successful,
            touched_per_unsuccessful: mean(&mut absent.map(|key| scheme.find(key).touched)).unwrap_or(0.0),
            touched_per_successful_most,
            figures: scheme.figures(),
        }
    }
}

/// Keys that could not be stored for one kind of reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusals {
    /// The reason for the first key.
    pub reason: Refused,
    /// The first key.
    pub example: Vec<u8>,
    /// The bytes of its value.
    pub value_bytes: usize,
    /// The number of keys.
    pub count: u64,
}

/// A study that ended early, above [`WORK_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Keys inserted or refused until then.
    pub keys: usize,
}

/// The measurements of a scheme.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// The scheme.
    pub kind: SchemeKind,
    /// The name of its hash function.
    pub function: &'static str,
    /// Ascending by number of keys.
    pub points: Vec<Point>,
    /// Keys that could not be stored, one entry for each kind of reason.
    pub refusals: Vec<Refusals>,
    /// Set if the study ended early.
    pub given_up: Option<GivenUp>,
}

impl Study {
    /// Inserts all keys and measures at about `point_count` numbers of keys. The length of each value is within
    /// `value_bytes` and depends on its key. Calls `proceed` every `STRIDE` inserts; returns `None` on `Break`.
    pub fn run(
        kind: SchemeKind,
        keys: &Distinct,
        absent: &Keys,
        value_bytes: &RangeInclusive<usize>,
        point_count: usize,
        options: &Options,
        proceed: &dyn Fn() -> ControlFlow<()>,
    ) -> Option<Self> {
        let mut scheme = kind.empty(options);
        let function = kind.function(options).name();
        let mut study = Study { kind, function, points: Vec::new(), refusals: Vec::new(), given_up: None };
        let mut refused = 0;
        let mut is_full = None;
        let mut point_keys = numbers(keys.len(), point_count).into_iter().peekable();
        for (index, &key) in keys.keys.iter().enumerate() {
            if index.is_multiple_of(STRIDE) && proceed().is_break() {
                return None;
            }
            let value_bytes = value_bytes_of(key, value_bytes);
            let outcome = is_full.map_or_else(|| scheme.insert(key, value_bytes), Err);
            if let Err(reason) = outcome {
                refused += 1;
                study.count_refusal(reason, key, value_bytes);
                is_full = is_full.or(reason.is_final().then_some(reason));
            }
            let inserted = index + 1;
            let is_over_limit = scheme.figures().work > WORK_MAX;
            if is_over_limit {
                study.given_up = (inserted < keys.len()).then_some(GivenUp { keys: inserted });
            }
            if is_over_limit || point_keys.next_if_eq(&inserted).is_some() {
                if proceed().is_break() {
                    return None;
                }
                study.points.push(Point::of(&*scheme, &keys.keys[..inserted], absent, refused));
            }
            if is_over_limit {
                break;
            }
        }
        Some(study)
    }

    /// Returns the measurement after the last key; `None` without keys.
    pub fn last(&self) -> Option<&Point> {
        self.points.last()
    }

    fn count_refusal(&mut self, reason: Refused, key: &[u8], value_bytes: usize) {
        match self.refusals.iter_mut().find(|known| known.reason.name() == reason.name()) {
            Some(known) => known.count += 1,
            None => self.refusals.push(Refusals { reason, example: key.to_owned(), value_bytes, count: 1 }),
        }
    }
}

/// Returns about `count` numbers up to `last`, at equal ratios.
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

/// Returns a length in `range` that depends on the key alone.
fn value_bytes_of(key: &[u8], range: &RangeInclusive<usize>) -> usize {
    let width = (range.end() - range.start()) as u64;
    // No scheme uses this seeded function by default, so lengths and addresses are independent.
    let by_key = HashKind::Sip13.hash(key, 0) % width.saturating_add(1);
    range.start() + by_key as usize
}

/// Returns the mean and maximum of the pages or entries that lookups of a sample touch.
fn successful(scheme: &dyn super::Scheme, inserted: &[&[u8]]) -> (Option<f64>, u64) {
    let step = inserted.len().div_ceil(SAMPLE_MAX).max(1);
    let mut worst = 0;
    let sample = scattered(inserted.len().div_ceil(step)).map(|index| inserted[index * step]);
    let mut touched = sample.map(|key| scheme.find(key)).filter(|found| found.found).map(|found| {
        worst = worst.max(found.touched);
        found.touched
    });
    (mean(&mut touched), worst)
}

/// Iterates over all numbers below `count`, in an order whose first few are spread evenly.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    // A step near the golden section that is coprime to `count` visits every number once.
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

/// Returns the mean of the values until their sum reaches [`TOUCHED_MAX`].
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
    fn scattered_visits_every_number_and_spreads_the_first_few() {
        for count in [0, 1, 2, 3, 10, 618, 10_000] {
            let mut numbers: Vec<usize> = scattered(count).collect();
            let few = &numbers[..count / 10];
            assert!(count < 100 || few.iter().filter(|&&number| number < count / 2).count().abs_diff(count / 20) < 5);
            numbers.sort_unstable();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn points_are_at_equal_ratios_and_end_with_all_keys() {
        assert_eq!(numbers(16 << 4, 5), [16, 32, 64, 128, 256]);
        assert_eq!([numbers(1, 20), numbers(3, 2)], [vec![1], vec![3]]);
    }
}
