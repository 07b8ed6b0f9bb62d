//! Commands that combine sorted sets, and sets, whose members count as having the score 1: ZUNION, ZINTER, ZDIFF.
//!
//! The smallest set decides how many lookups an intersection needs. A union is collected in memory.

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::double::parse_score;
use super::reply;
use super::sets::{Operation, limit_of};
use super::sorted_sets::{elements, key_count, store};
use crate::keyspace::collections::fields::Fields;
use crate::keyspace::collections::sorted::{Element, SortedSet, compare};
use crate::keyspace::{self, Exclusive, Kind, Pairs, SpaceError};
use std::collections::HashMap;

/// Members that are read at once.
const AT_ONCE: usize = 1000;

/// One of the sets that are combined.
enum Source {
    Absent,
    Set(Fields),
    Sorted(SortedSet),
}

impl Source {
    fn open(pairs: &mut (impl Pairs + ?Sized), database: usize, key: &[u8]) -> keyspace::Result<Source> {
        match SortedSet::open(pairs, database, key) {
            Ok(found) => Ok(found.map_or(Source::Absent, Source::Sorted)),
            Err(SpaceError::WrongType) => {
                Ok(Fields::open(pairs, database, key, Kind::Set)?.map_or(Source::Absent, Source::Set))
            }
            Err(error) => Err(error),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Source::Absent => 0,
            Source::Set(set) => set.len(),
            Source::Sorted(set) => set.len(),
        }
    }

    fn score(&self, pairs: &mut (impl Pairs + ?Sized), member: &[u8]) -> keyspace::Result<Option<f64>> {
        match self {
            Source::Absent => Ok(None),
            Source::Set(set) => Ok(set.get(pairs, member, &mut Vec::new())?.then_some(1.0)),
            Source::Sorted(set) => set.score(pairs, member),
        }
    }

    /// Some elements from a cursor on, and the next cursor.
    fn scan(&self, pairs: &mut (impl Pairs + ?Sized), cursor: u64) -> keyspace::Result<(Vec<Element>, u64)> {
        let mut some = Vec::new();
        let next = match self {
            Source::Absent => 0,
            Source::Set(set) => set.scan(pairs, cursor, AT_ONCE, |member, _| some.push((member.to_vec(), 1.0)))?,
            Source::Sorted(set) => {
                set.scan(pairs, cursor, AT_ONCE, |member, score| some.push((member.to_vec(), score)))?
            }
        };
        Ok((some, next))
    }
}

/// How the scores of a member are combined.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum => number_or_zero(one + other),
            Aggregate::Min if other < one => other,
            Aggregate::Max if other > one => other,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

/// Infinity times zero, and infinity minus infinity, count as 0.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// What is combined, and how.
struct Combination {
    operation: Operation,
    /// With their weights.
    sources: Vec<(Source, f64)>,
    aggregate: Aggregate,
}

impl Combination {
    /// Calls `take` with the elements of the result, each once, in no order, until it returns `false`.
    fn make(
        mut self,
        pairs: &mut (impl Pairs + ?Sized),
        mut take: impl FnMut(Vec<u8>, f64) -> bool,
    ) -> keyspace::Result<()> {
        if self.operation != Operation::Diff {
            // This is also the order in which scores are added.
            self.sources.sort_by_key(|(source, _)| source.len());
        }
        let Some(((first, weight), others)) = self.sources.split_first() else { return Ok(()) };
        let mut cursor = 0;
        loop {
            let (some, next) = first.scan(pairs, cursor)?;
            for (member, score) in some {
                let mut score = if self.operation == Operation::Inter { number_or_zero(weight * score) } else { score };
                let mut is_wanted = true;
                for (other, weight) in others {
                    let found = other.score(pairs, &member)?;
                    is_wanted = found.is_some() == (self.operation == Operation::Inter);
                    if !is_wanted {
                        break;
                    }
                    score = found.map_or(score, |found| self.aggregate.of(score, found * weight));
                }
                if is_wanted && !take(member, score) {
                    return Ok(());
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }

    /// The union, of at most `bytes_max` bytes; `None` if it has more.
    fn unite(mut self, pairs: &mut (impl Pairs + ?Sized), bytes_max: usize) -> keyspace::Result<Option<Vec<Element>>> {
        let (mut scores, mut bytes): (HashMap<Vec<u8>, f64>, usize) = (HashMap::new(), 0);
        self.sources.sort_by_key(|(source, _)| source.len());
        for (source, weight) in &self.sources {
            let mut cursor = 0;
            loop {
                let (some, next) = source.scan(pairs, cursor)?;
                for (member, score) in some {
                    let score = number_or_zero(weight * score);
                    if let Some(sum) = scores.get_mut(&member) {
                        *sum = self.aggregate.of(*sum, score);
                    } else {
                        bytes += member.len() + 16;
                        scores.insert(member, score);
                    }
                }
                cursor = next;
                if bytes > bytes_max {
                    return Ok(None);
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(Some(scores.into_iter().collect()))
    }

    /// The elements of the result in their order.
    fn elements(self, pairs: &mut (impl Pairs + ?Sized), bytes_max: usize) -> Result<Vec<Element>, Refusal> {
        let mut found = if self.operation == Operation::Union {
            self.unite(pairs, bytes_max)?.ok_or(REPLY_TOO_LONG)?
        } else {
            let (mut found, mut bytes) = (Vec::new(), 0);
            self.make(pairs, |member, score| {
                bytes += member.len() + 16;
                found.push((member, score));
                bytes <= bytes_max
            })?;
            if bytes > bytes_max {
                return Err(REPLY_TOO_LONG.into());
            }
            found
        };
        found.sort_by(compare);
        Ok(found)
    }
}

/// Parses `numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]` from the argument at `index`
/// on. Returns also whether scores are wanted.
fn parse(
    pairs: &mut (impl Pairs + ?Sized),
    args: &Args<'_>,
    database: usize,
    index: usize,
    operation: Operation,
) -> Result<(Combination, bool), Refusal> {
    let name = String::from_utf8_lossy(args.at(0)).to_ascii_lowercase();
    let count = key_count(args, index, &name)?;
    let mut sources = Vec::new();
    for key in args.from(index + 1).take(count) {
        sources.push((Source::open(pairs, database, key)?, 1.0));
    }
    let (mut aggregate, mut with_scores, mut at) = (Aggregate::Sum, false, index + 1 + count);
    let (stores, weighs) = (index == 2, operation != Operation::Diff);
    while at < args.len() {
        let left = args.len() - at - 1;
        if weighs && left >= count && args.is(at, "weights") {
            for (source, weight) in sources.iter_mut().zip(args.from(at + 1)) {
                source.1 = parse_score(weight).ok_or("ERR weight value is not a float")?;
            }
            at += count;
        } else if weighs && left >= 1 && args.is(at, "aggregate") {
            aggregate = match () {
                () if args.is(at + 1, "sum") => Aggregate::Sum,
                () if args.is(at + 1, "min") => Aggregate::Min,
                () if args.is(at + 1, "max") => Aggregate::Max,
                () => return Err(SYNTAX.into()),
            };
            at += 1;
        } else if !stores && args.is(at, "withscores") {
            with_scores = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok((Combination { operation, sources, aggregate }, with_scores))
}

/// ZUNION, ZINTER, ZDIFF numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] \[WITHSCORES\]
pub(crate) fn operate(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let (combination, with_scores) = parse(turn, &call.args, call.database, 1, operation)?;
    let found = combination.elements(turn, call.reply_bytes_max)?;
    elements(call.out, &found, with_scores, call.version);
    Ok(())
}

/// ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE destination numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]
pub(crate) fn operate_and_store(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let (combination, _) = parse(alone, &call.args, call.database, 2, operation)?;
    let found = combination.elements(alone, usize::MAX)?;
    store(alone, call, |set| set.fill(&found))
}

/// ZINTERCARD numkeys key ... [LIMIT limit]
pub(crate) fn zintercard(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let number = key_count(&args, 1, "zintercard")?;
    let mut sources = Vec::new();
    for key in args.from(2).take(number) {
        sources.push((Source::open(turn, call.database, key)?, 1.0));
    }
    let limit = limit_of(&args, 2 + number)?;
    let mut count = 0;
    let combination = Combination { operation: Operation::Inter, sources, aggregate: Aggregate::Sum };
    combination.make(turn, |_, _| {
        count += 1;
        count != limit
    })?;
    reply::count(call.out, count);
    Ok(())
}
