//! Which function comes first, and what to do, in words.
//!
//! Functions that spread the keys as well as dice are equal in that, so among them the faster one is better. How well is told by what an
//! absent key's lookup costs more than with dice, not by the p-value: among 10^8 keys a difference that nobody can feel is significant.

use super::{FunctionReport, Level, Repeats, Survey};
use splitpoint::HashKind;

/// How a function spreads these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Better than dice: these keys fall beside each other. Keys that are a little different need not.
    Even,
    /// No worse than dice, for all that can be felt: lookups cost at most 2 % more.
    AsDice,
    /// At most a tenth more.
    Fair,
    /// At most twice as much.
    Poor,
    /// More.
    Bad,
}

impl Class {
    /// That of a function whose buckets are as `level` says.
    pub fn of(level: &Level) -> Class {
        // Of few keys dice themselves are off by so much: three deviations of the sum of squares, sqrt(2 / buckets) of its mean.
        let chance = 3.0 * (2.0 / level.buckets as f64).sqrt() * level.load() / (1.0 + level.load());
        match level.excess() - 1.0 {
            excess if excess < -chance.max(0.02) => Class::Even,
            excess if excess <= chance.max(0.02) => Class::AsDice,
            excess if excess <= chance.max(0.1) => Class::Fair,
            excess if excess <= 1.0 => Class::Poor,
            _ => Class::Bad,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Even => "even",
            Class::AsDice => "as dice",
            Class::Fair => "fair",
            Class::Poor => "poor",
            Class::Bad => "bad",
        }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The function to take.
    pub function: String,
    /// How many buckets.
    pub buckets: u64,
    /// Why, in a paragraph.
    pub text: String,
}

/// The best first; equal ones in the order in which they were given.
pub(super) fn rank(functions: &mut [FunctionReport]) {
    let slowness = |report: &FunctionReport| report.speed.as_ref().map_or(0.0, |speed| speed.own_ns);
    let unevenness = |report: &FunctionReport| {
        // Up to dice differences are chance, or luck with these keys.
        if report.class <= Class::AsDice { 0.0 } else { report.level().excess() }
    };
    functions.sort_by(|a, b| {
        let class = |report: &FunctionReport| report.class.max(Class::AsDice);
        let by_class = class(a).cmp(&class(b)).then(unevenness(a).total_cmp(&unevenness(b)));
        by_class.then(slowness(a).total_cmp(&slowness(b)))
    });
}

pub(super) fn advise(survey: &Survey, ranked: &[FunctionReport]) -> Advice {
    let best = &ranked[0];
    let name = best.function.name();
    let level = best.level();
    let mut text = format!("Take {name}: it spreads these {} keys over {} buckets ", survey.objects(), level.buckets);
    text += &match best.class {
        Class::Even => "more evenly than dice would, which holds for keys like these and no others".to_owned(),
        Class::AsDice => "as evenly as dice would".to_owned(),
        _ => format!("{:.0} % worse than dice would, and better than the others tried", 100.0 * (level.excess() - 1.0)),
    };
    text += &format!(
        "; a key is found after looking at {:.2}, an absent one missed after {:.2}",
        level.probes_hit, level.probes_miss
    );
    text +=
        &best.speed.as_ref().map_or(". ".to_owned(), |speed| format!(", and a hash takes {:.1} ns. ", speed.own_ns));
    let (buckets, why) = size(best);
    text += &why;
    text += &faults(ranked);
    if ranked.iter().any(|report| report.function.kind() == HashKind::Sip13) && best.function.kind() != HashKind::Sip13
    {
        text += " Where strangers choose the keys, take siphash13 with a secret seed: they can crowd any other function's buckets.";
    }
    if let Repeats::Estimated(repeats) = survey.repeats
        && repeats > 0
    {
        text += &format!(
            " About {repeats} of the keys come again and crowd the buckets of any function: study the keys without repeats (sort -u)."
        );
    }
    Advice { function: name.to_owned(), buckets, text }
}

/// How many buckets: the largest load that costs at most half a key more a hit than the table that was studied.
fn size(best: &FunctionReport) -> (u64, String) {
    let level = best.level();
    let smaller = best.levels[1..].iter().take_while(|smaller| smaller.probes_hit <= level.probes_hit + 0.5).last();
    if level.load() > 4.0 {
        let wanted = level.objects.next_power_of_two();
        return (
            wanted,
            format!(
                "{:.1} keys a bucket are many: {wanted} buckets would find a key after looking at about {:.2}.",
                level.load(),
                1.0 + level.objects as f64 / wanted as f64 / 2.0
            ),
        );
    }
    match smaller {
        Some(smaller) => (
            level.buckets,
            format!(
                "{} buckets, {:.2} keys each, are right for speed; {} would find a key after {:.2} and save {} bytes of 8-byte heads.",
                level.buckets,
                level.load(),
                smaller.buckets,
                smaller.probes_hit,
                8 * (level.buckets - smaller.buckets)
            ),
        ),
        None => (level.buckets, format!("{} buckets, {:.2} keys each, are right.", level.buckets, level.load())),
    }
}

/// Which to keep away from, and by what it shows.
fn faults(ranked: &[FunctionReport]) -> String {
    let bad: Vec<_> = ranked.iter().filter(|report| report.class >= Class::Poor).collect();
    if bad.is_empty() {
        return String::new();
    }
    let named = bad.iter().map(|report| {
        let level = report.level();
        format!(
            "{} ({} keys in its fullest bucket, {:.0} % more work a miss)",
            report.function.name(),
            level.largest,
            100.0 * (level.excess() - 1.0)
        )
    });
    format!(" Keep these keys away from {}.", named.collect::<Vec<_>>().join(", "))
}
