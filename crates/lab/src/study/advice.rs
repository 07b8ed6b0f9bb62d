//! Ranks functions and gives advice in words.
//!
//! All functions that spread the keys as evenly as random are ranked by speed, as far as their times differ by more
//! than noise. Evenness is judged by the cost of an unsuccessful lookup against the random model, not by the p-value:
//! with 10^8 keys a difference too small to measure in lookups is statistically significant. The p-value decides
//! whether a difference could be chance, and whether there are enough keys to say anything.

use super::chance::SIGNIFICANT;
use super::{Duplicates, FunctionReport, Level, Speed, Survey};
use splitpoint::HashKind;

/// The spread of these keys by a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Too few keys to say: a function with twice the cost could be chance.
    TooFew,
    /// More even than random. Holds for these keys; slightly different keys may spread worse.
    Even,
    /// As even as random: an unsuccessful lookup costs at most 2 % more.
    AsRandom,
    /// An unsuccessful lookup costs at most 10 % more.
    Fair,
    /// An unsuccessful lookup costs at most twice as much.
    Poor,
    /// An unsuccessful lookup costs more than twice as much.
    Bad,
}

impl Class {
    /// Returns the class of a function with these buckets.
    pub fn of(level: &Level) -> Class {
        if level.excess_significant > 2.0 {
            return Class::TooFew;
        }
        match level.excess() - 1.0 {
            excess if excess < -0.02 && level.p_value_even < SIGNIFICANT => Class::Even,
            excess if excess <= 0.02 || level.p_value >= SIGNIFICANT => Class::AsRandom,
            excess if excess <= 0.1 => Class::Fair,
            excess if excess <= 1.0 => Class::Poor,
            _ => Class::Bad,
        }
    }

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::TooFew => "too few",
            Class::Even => "even",
            Class::AsRandom => "as random",
            Class::Fair => "fair",
            Class::Poor => "poor",
            Class::Bad => "bad",
        }
    }
}

/// The recommendation.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The function to use.
    pub function: String,
    /// The number of buckets to use.
    pub buckets: u64,
    /// The reasons, in a paragraph.
    pub text: String,
}

/// Sorts the best function first. Functions that are equal, or whose times differ by no more than noise, keep their
/// order.
pub(super) fn rank(functions: &mut [FunctionReport]) {
    let unevenness = |report: &FunctionReport| {
        // Differences among functions no worse than random are chance.
        if report.class <= Class::AsRandom { 0.0 } else { report.level().excess() }
    };
    functions.sort_by(|a, b| {
        let class = |report: &FunctionReport| report.class.max(Class::AsRandom);
        class(a).cmp(&class(b)).then(unevenness(a).total_cmp(&unevenness(b)))
    });
    functions.chunk_by_mut(|_, next| next.class <= Class::AsRandom).for_each(rank_by_time);
}

/// Moves the fastest and those as fast within noise to the front, in their order; then repeats this for the rest.
fn rank_by_time(functions: &mut [FunctionReport]) {
    let mut rest = functions;
    while let Some(fastest) = rest.iter().filter_map(|report| report.speed.as_ref()).min_by(by_time).cloned() {
        // A stable sort. False, for those as fast, comes before true.
        rest.sort_by_key(|report| report.speed.as_ref().is_none_or(|speed| speed.is_slower_than(&fastest)));
        let as_fast = as_fast_as(&fastest, rest);
        rest = &mut rest[as_fast..];
    }
}

fn by_time(a: &&Speed, b: &&Speed) -> std::cmp::Ordering {
    a.own_ns.total_cmp(&b.own_ns)
}

/// Returns how many functions, counted from the first, are as fast as the fastest within noise.
fn as_fast_as(fastest: &Speed, ranked: &[FunctionReport]) -> usize {
    ranked.iter().take_while(|report| report.speed.as_ref().is_some_and(|s| !s.is_slower_than(fastest))).count()
}

pub(super) fn advise(survey: &Survey, ranked: &[FunctionReport]) -> Advice {
    let best = &ranked[0];
    let name = best.function.name();
    let level = best.level();
    let mut text = match best.class {
        Class::TooFew => format!(
            "{} keys in {} buckets are too few to say which function spreads such keys evenly. {name} spreads them ",
            survey.objects(),
            level.buckets
        ),
        _ => format!("Use {name}: it spreads these {} keys over {} buckets ", survey.objects(), level.buckets),
    };
    text += &match best.class {
        Class::TooFew => "as shown".to_owned(),
        Class::Even => "more evenly than random, which holds only for keys like these".to_owned(),
        Class::AsRandom => "as evenly as random".to_owned(),
        _ => "less evenly than random, and better than the other functions".to_owned(),
    };
    text += &format!(
        ". A successful lookup compares {:.2} keys, an unsuccessful one {:.2} (at random {:.2})",
        level.compared_successful, level.compared_unsuccessful, level.expected.compared_unsuccessful
    );
    text += &best
        .speed
        .as_ref()
        .map_or(". ".to_owned(), |speed| format!("; computing a hash takes {:.1} ns. ", speed.own_ns));
    text += &as_fast(ranked);
    let (buckets, why) = size(best);
    text += &why;
    text += &faults(ranked);
    if ranked.iter().any(|report| report.function.kind() == HashKind::Sip13) && best.function.kind() != HashKind::Sip13
    {
        text += " For untrusted keys use siphash13 with a secret seed: \
                 an attacker can crowd the buckets of any other function.";
    }
    if let Duplicates::Estimated(duplicates) = survey.duplicates
        && duplicates > 0
    {
        text += &format!(
            " About {duplicates} keys are duplicates, which crowd the buckets of any function: remove them (sort -u)."
        );
    }
    Advice { function: name.to_owned(), buckets, text }
}

/// Names the functions that are at least as even as random, and as fast as the fastest of these within noise.
fn as_fast(ranked: &[FunctionReport]) -> String {
    let even = ranked.iter().take_while(|report| report.class <= Class::AsRandom).count();
    let Some(fastest) = ranked[..even].iter().filter_map(|report| report.speed.as_ref()).min_by(by_time) else {
        return String::new();
    };
    let names: Vec<_> = ranked[..as_fast_as(fastest, &ranked[..even])].iter().map(|r| r.function.name()).collect();
    match names.split_last() {
        Some((last, others @ [_, ..])) => {
            format!("The times of {} and {last} differ by no more than noise. ", others.join(", "))
        }
        _ => String::new(),
    }
}

/// Returns the number of buckets to use, and why. Mentions a smaller table if a successful lookup there costs at most
/// half a key more.
fn size(best: &FunctionReport) -> (u64, String) {
    let level = best.level();
    let smaller = best.levels[1..]
        .iter()
        .take_while(|smaller| smaller.compared_successful <= level.compared_successful + 0.5)
        .last();
    if level.load() > 4.0 {
        let wanted = level.objects.next_power_of_two();
        return (
            wanted,
            format!(
                "{:.1} keys a bucket are too many: with {wanted} buckets a successful lookup compares about {:.2}.",
                level.load(),
                1.0 + level.objects as f64 / wanted as f64 / 2.0
            ),
        );
    }
    match smaller {
        Some(smaller) => (
            level.buckets,
            format!(
                "Use {} buckets ({:.2} keys each) for speed; {} would save {} bytes of 8-byte bucket heads, \
                 and a successful lookup would compare {:.2}.",
                level.buckets,
                level.load(),
                smaller.buckets,
                8 * (level.buckets - smaller.buckets),
                smaller.compared_successful
            ),
        ),
        None => (level.buckets, format!("Use {} buckets ({:.2} keys each).", level.buckets, level.load())),
    }
}

/// Names the functions to avoid, with the evidence.
fn faults(ranked: &[FunctionReport]) -> String {
    let bad: Vec<_> = ranked.iter().filter(|report| report.class >= Class::Poor).collect();
    if bad.is_empty() {
        return String::new();
    }
    let named = bad.iter().map(|report| {
        let level = report.level();
        format!(
            "{} ({} keys in its largest bucket; an unsuccessful lookup compares {:.2})",
            report.function.name(),
            level.largest,
            level.compared_unsuccessful
        )
    });
    format!(" Avoid {} for these keys.", named.collect::<Vec<_>>().join(", "))
}
