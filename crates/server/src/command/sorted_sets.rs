//! Commands on one sorted set, and ZRANGESTORE. How they are stored: `keyspace/collections/sorted/`.
//!
//! A range of ranks, scores or members is first turned into one of ranks ([`Bounds::ranks`]); what follows is the same
//! for ZRANGE, ZCOUNT and ZREMRANGEBYSCORE.
//!
//! Not here: commands that combine sorted sets (`sorted_operations.rs`), and commands that wait (`blocking.rs`).

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::double::{parse_bound, parse_score};
use super::hashes::{choose, random_count};
use super::number::parse_integer;
use super::reply::{self, Version};
use super::sets::positive;
use super::strings::integer;
use crate::keyspace::collections::sorted::{Element, PACKED_MEMBERS, SortedSet, SortedSetMut};
use crate::keyspace::{self, Exclusive, Pairs};
use std::cmp::Ordering;
use std::ops::Range;

fn open(turn: &mut Turn<'_, '_>, call: &Call<'_, '_>) -> keyspace::Result<Option<SortedSet>> {
    SortedSet::open(turn, call.database, call.args.at(1))
}

/// What ZADD does with a member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Adding {
    pub(super) only_new: bool,
    pub(super) only_present: bool,
    only_greater: bool,
    only_less: bool,
    is_increment: bool,
}

/// The result of adding a member.
enum Added {
    No,
    New(f64),
    /// The score, and whether it changed.
    Present(f64, bool),
}

impl Adding {
    fn add(self, set: &mut SortedSetMut<'_, '_>, member: &[u8], score: f64) -> Result<Added, Refusal> {
        let before = set.score(member)?;
        let Some(old) = before else {
            if self.only_present {
                return Ok(Added::No);
            }
            set.put(member, None, score)?;
            return Ok(Added::New(score));
        };
        if self.only_new {
            return Ok(Added::No);
        }
        let score = if self.is_increment { old + score } else { score };
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        if self.only_less && score >= old || self.only_greater && score <= old {
            return Ok(Added::No);
        }
        let is_other = score != old;
        if is_other {
            set.put(member, before, score)?;
        }
        Ok(Added::Present(score, is_other))
    }
}

/// ZADD key [NX | XX] [GT | LT] \[CH\] \[INCR\] score member ...; with `is_increment` ZINCRBY.
pub(crate) fn zadd<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>, is_increment: bool) -> Outcome {
    let args = call.args;
    let (mut how, mut counts_changed, mut index) = (Adding { is_increment, ..Adding::default() }, false, 2);
    while index < args.len() {
        match () {
            () if args.is(index, "nx") => how.only_new = true,
            () if args.is(index, "xx") => how.only_present = true,
            () if args.is(index, "gt") => how.only_greater = true,
            () if args.is(index, "lt") => how.only_less = true,
            () if args.is(index, "ch") => counts_changed = true,
            () if args.is(index, "incr") => how.is_increment = true,
            () => break,
        }
        index += 1;
    }
    let words = args.len() - index;
    if words == 0 || !words.is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    if how.only_new && how.only_present {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if [how.only_new, how.only_greater, how.only_less].into_iter().filter(|given| *given).count() > 1 {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if how.is_increment && words > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    let scores: Option<Vec<f64>> = args.from(index).step_by(2).map(parse_score).collect();
    let scores = scores.ok_or(super::call::NOT_A_FLOAT)?;
    add_all(collection, call, how, counts_changed, scores.into_iter().zip(args.from(index + 1).step_by(2)))
}

/// Adds members with their scores, and replies with the number of new ones, or also of changed ones, or with the score.
pub(super) fn add_all<'e>(
    collection: &mut Collection<'e, '_>,
    call: &mut Call<'_, 'e>,
    how: Adding,
    counts_changed: bool,
    members: impl Iterator<Item = (f64, &'e [u8])>,
) -> Outcome {
    let set = collection.sorted_set(call)?;
    let (mut count, mut last) = (0, None);
    for (score, member) in members {
        last = match how.add(set, member, score)? {
            Added::No => None,
            Added::New(score) => {
                count += 1;
                Some(score)
            }
            Added::Present(score, is_other) => {
                count += i64::from(is_other && counts_changed);
                Some(score)
            }
        };
    }
    match last {
        _ if !how.is_increment => reply::integer(call.out, count),
        Some(score) => reply::score(call.out, score, call.version),
        None => reply::null(call.out, call.version),
    }
    Ok(())
}

/// ZREM key member ...
pub(crate) fn zrem<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let set = collection.sorted_set(call)?;
    let mut removed = 0;
    for member in call.args.from(2) {
        removed += i64::from(set.remove(member)?);
    }
    reply::integer(call.out, removed);
    Ok(())
}

/// ZCARD key
pub(crate) fn zcard(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let len = open(turn, call)?.map_or(0, |set| set.len());
    reply::count(call.out, len);
    Ok(())
}

/// ZSCORE key member; with `many` ZMSCORE.
pub(crate) fn zscore(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, many: bool) -> Outcome {
    let set = open(turn, call)?;
    if many {
        reply::array(call.out, call.args.len() - 2);
    }
    for member in call.args.from(2) {
        let score = match &set {
            Some(set) => set.score(turn, member)?,
            None => None,
        };
        match score {
            Some(score) => reply::score(call.out, score, call.version),
            None => reply::null(call.out, call.version),
        }
    }
    Ok(())
}

/// ZRANK, ZREVRANK key member \[WITHSCORE\]
pub(crate) fn zrank(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, is_reverse: bool) -> Outcome {
    let args = call.args;
    if args.len() > 4 {
        let name = if is_reverse { "zrevrank" } else { "zrank" };
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let with_score = args.len() == 4;
    if with_score && !args.is(3, "withscore") {
        return Err(SYNTAX.into());
    }
    if let Some(set) = open(turn, call)?
        && let Some(score) = set.score(turn, args.at(2))?
    {
        let rank = set.rank(turn, args.at(2), score)?;
        let rank = if is_reverse { set.len().saturating_sub(rank + 1) } else { rank };
        if with_score {
            reply::array(call.out, 2);
        }
        reply::count(call.out, rank);
        if with_score {
            reply::score(call.out, score, call.version);
        }
    } else if with_score {
        reply::null_array(call.out, call.version);
    } else {
        reply::null(call.out, call.version);
    }
    Ok(())
}

/// How a range of elements is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Rank,
    Score,
    Lex,
}

/// The ends of a range of elements.
#[derive(Clone, Copy, Debug)]
enum Bounds<'a> {
    /// The first and the last rank; negative ones count from the end.
    Ranks(i64, i64),
    /// The least and the greatest score, each with whether it is excluded.
    Scores((f64, bool), (f64, bool)),
    /// The least and the greatest member.
    Members(Limit<'a>, Limit<'a>),
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug)]
enum Limit<'a> {
    /// Before all members.
    Lowest,
    /// After all members.
    Highest,
    /// A member, and whether it is excluded.
    Member(&'a [u8], bool),
}

impl<'a> Limit<'a> {
    fn parse(text: &'a [u8]) -> Result<Limit<'a>, Refusal> {
        match text {
            b"-" => Ok(Limit::Lowest),
            b"+" => Ok(Limit::Highest),
            [b'[', member @ ..] => Ok(Limit::Member(member, false)),
            [b'(', member @ ..] => Ok(Limit::Member(member, true)),
            _ => Err("ERR min or max not valid string range item".into()),
        }
    }

    /// Whether a member is before this limit; one that is equal counts as before it if `with_equal`.
    fn is_after(self, member: &[u8], with_equal: bool) -> bool {
        match self {
            Limit::Lowest => false,
            Limit::Highest => true,
            Limit::Member(limit, _) => match member.cmp(limit) {
                Ordering::Less => true,
                Ordering::Equal => with_equal,
                Ordering::Greater => false,
            },
        }
    }

    fn is_excluded(self) -> bool {
        matches!(self, Limit::Member(_, true))
    }
}

impl<'a> Bounds<'a> {
    /// Parses the range from one argument to another.
    fn parse(by: By, from: &'a [u8], to: &'a [u8]) -> Result<Bounds<'a>, Refusal> {
        let score = |text: &[u8]| {
            let number = text.strip_prefix(b"(");
            let score = parse_bound(number.unwrap_or(text)).ok_or("ERR min or max is not a float")?;
            Ok::<_, Refusal>((score, number.is_some()))
        };
        Ok(match by {
            By::Rank => Bounds::Ranks(integer(from)?, integer(to)?),
            By::Score => Bounds::Scores(score(from)?, score(to)?),
            By::Lex => Bounds::Members(Limit::parse(from)?, Limit::parse(to)?),
        })
    }

    /// The ranks of the range. `is_reverse`: ranks count from the last element on.
    fn ranks(
        self,
        set: &SortedSet,
        pairs: &mut (impl Pairs + ?Sized),
        is_reverse: bool,
    ) -> keyspace::Result<Range<u64>> {
        let range = match self {
            Bounds::Ranks(first, last) => {
                let range = super::lists::range_of(set.len(), first, last);
                return Ok(if is_reverse { set.len() - range.end..set.len() - range.start } else { range });
            }
            Bounds::Scores((min, min_excluded), (max, max_excluded)) => {
                let start = set.count_before(pairs, |score, _| score < min || min_excluded && score == min)?;
                start..set.count_before(pairs, |score, _| score < max || !max_excluded && score == max)?
            }
            Bounds::Members(min, max) => {
                let start = set.count_before(pairs, |_, member| min.is_after(member, min.is_excluded()))?;
                start..set.count_before(pairs, |_, member| max.is_after(member, !max.is_excluded()))?
            }
        };
        Ok(range.start..range.end.max(range.start))
    }
}

/// ZCOUNT, ZLEXCOUNT key min max
pub(crate) fn zcount(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, by: By) -> Outcome {
    let bounds = Bounds::parse(by, call.args.at(2), call.args.at(3))?;
    let range = match open(turn, call)? {
        Some(set) => bounds.ranks(&set, turn, false)?,
        None => 0..0,
    };
    reply::count(call.out, range.end - range.start);
    Ok(())
}

/// The arguments of ZRANGE and its family.
struct RangeArgs<'a> {
    bounds: Bounds<'a>,
    is_reverse: bool,
    with_scores: bool,
    /// Elements to skip, and how many to return; negative: all.
    limit: (i64, i64),
}

impl<'a> RangeArgs<'a> {
    /// Parses the arguments from the range on, at `index`. `by` and `is_reverse` are given by the command's name, or
    /// else are options; `stores`: ZRANGESTORE.
    fn parse(
        args: Args<'a>,
        index: usize,
        by: Option<By>,
        is_reverse: Option<bool>,
        stores: bool,
    ) -> Result<RangeArgs<'a>, Refusal> {
        let (mut by, mut is_reverse, mut with_scores, mut limit) = (by, is_reverse, false, (0, -1));
        let mut at = index + 2;
        while at < args.len() {
            if !stores && args.is(at, "withscores") {
                with_scores = true;
            } else if args.is(at, "limit") && args.len() - at > 2 {
                limit = (integer(args.at(at + 1))?, integer(args.at(at + 2))?);
                at += 2;
            } else if is_reverse.is_none() && args.is(at, "rev") {
                is_reverse = Some(true);
            } else if by.is_none() && args.is(at, "bylex") {
                by = Some(By::Lex);
            } else if by.is_none() && args.is(at, "byscore") {
                by = Some(By::Score);
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if limit.1 != -1 && by == By::Rank {
            return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
        }
        if with_scores && by == By::Lex {
            return Err("ERR syntax error, WITHSCORES not supported in combination with BYLEX".into());
        }
        let (from, to) = (args.at(index), args.at(index + 1));
        let (from, to) = if is_reverse && by != By::Rank { (to, from) } else { (from, to) };
        Ok(RangeArgs { bounds: Bounds::parse(by, from, to)?, is_reverse, with_scores, limit })
    }

    /// The ranks of the elements wanted.
    fn ranks(&self, set: &SortedSet, pairs: &mut (impl Pairs + ?Sized)) -> keyspace::Result<Range<u64>> {
        let Range { start, end } = self.bounds.ranks(set, pairs, self.is_reverse)?;
        if matches!(self.bounds, Bounds::Ranks(..)) {
            return Ok(start..end);
        }
        let len = end - start;
        // A negative offset skips all.
        let skip = u64::try_from(self.limit.0).map_or(len, |skip| skip.min(len));
        let count = u64::try_from(self.limit.1).unwrap_or(u64::MAX).min(len - skip);
        Ok(if self.is_reverse { end - skip - count..end - skip } else { start + skip..start + skip + count })
    }
}

/// Writes the head of a reply of `count` elements.
fn elements_head(out: &mut Vec<u8>, count: usize, with_scores: bool, version: Version) {
    let is_flat = with_scores && version == Version::Resp2;
    reply::array(out, if is_flat { 2 * count } else { count });
}

/// Writes an element of such a reply.
fn element(out: &mut Vec<u8>, member: &[u8], score: f64, with_scores: bool, version: Version) {
    if with_scores && version == Version::Resp3 {
        reply::array(out, 2);
    }
    reply::bulk(out, member);
    if with_scores {
        reply::score(out, score, version);
    }
}

/// Writes elements, with or without their scores.
pub(super) fn elements(out: &mut Vec<u8>, elements: &[Element], with_scores: bool, version: Version) {
    elements_head(out, elements.len(), with_scores, version);
    elements.iter().for_each(|(member, score)| element(out, member, *score, with_scores, version));
}

/// ZRANGE key start stop [BYSCORE | BYLEX] \[REV\] [LIMIT offset count] \[WITHSCORES\], and its older names.
pub(crate) fn zrange(
    turn: &mut Turn<'_, '_>,
    call: &mut Call<'_, '_>,
    by: Option<By>,
    is_reverse: Option<bool>,
) -> Outcome {
    let range = RangeArgs::parse(call.args, 2, by, is_reverse, false)?;
    let Some(set) = open(turn, call)? else {
        reply::array(call.out, 0);
        return Ok(());
    };
    let ranks = range.ranks(&set, turn)?;
    let most = call.out.len().saturating_add(call.reply_bytes_max);
    let (out, version) = (&mut *call.out, call.version);
    elements_head(out, (ranks.end - ranks.start) as usize, range.with_scores, version); // in memory or a file
    set.for_range(turn, ranks, range.is_reverse, |member, score| {
        element(out, member, score, range.with_scores, version);
        out.len() <= most
    })?;
    if out.len() > most { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
}

/// ZRANGESTORE destination source start stop [BYSCORE | BYLEX] \[REV\] [LIMIT offset count]
pub(crate) fn zrangestore(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let range = RangeArgs::parse(args, 3, None, None, true)?;
    let mut found: Vec<Element> = Vec::new();
    if let Some(set) = SortedSet::open(alone, call.database, args.at(2))? {
        let ranks = range.ranks(&set, alone)?;
        set.for_range(alone, ranks, false, |member, score| {
            found.push((member.to_vec(), score));
            true
        })?;
    }
    store(alone, call, |set| match found.len() as u64 {
        // As Redis does, which chooses the encoding by the number of elements first, and by each one's length later.
        ..=PACKED_MEMBERS => found.iter().try_for_each(|(member, score)| set.put(member, None, *score)),
        _ => set.fill(&found),
    })
}

/// Stores what `fill` adds to an empty set as the value of the first argument, and replies with its length.
pub(super) fn store(
    alone: &mut Exclusive<'_>,
    call: &mut Call<'_, '_>,
    fill: impl FnOnce(&mut SortedSetMut<'_, '_>) -> keyspace::Result<()>,
) -> Outcome {
    store_at(alone, call, 1, fill)
}

/// [`store`] under the argument at `index`.
pub(super) fn store_at(
    alone: &mut Exclusive<'_>,
    call: &mut Call<'_, '_>,
    index: usize,
    fill: impl FnOnce(&mut SortedSetMut<'_, '_>) -> keyspace::Result<()>,
) -> Outcome {
    let key = call.args.at(index);
    alone.remove(call.database, key)?;
    let mut set = SortedSetMut::open(alone, call.database, key)?;
    fill(&mut set)?;
    let len = set.finish()?;
    reply::count(call.out, len);
    Ok(())
}

/// ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX key min max
pub(crate) fn zremrange<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>, by: By) -> Outcome {
    let bounds = Bounds::parse(by, call.args.at(2), call.args.at(3))?;
    let set = collection.sorted_set(call)?;
    let (now, pairs) = set.read()?;
    let ranks = bounds.ranks(now, pairs, false)?;
    let removed = set.remove_range(ranks)?;
    reply::count(call.out, removed);
    Ok(())
}

/// An end of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    Min,
    Max,
}

/// Removes elements at an end and returns them, the one at the end first.
pub(super) fn pop_many(
    set: &mut SortedSetMut<'_, '_>,
    end: Extreme,
    count: u64,
    bytes_max: usize,
) -> Result<Vec<Element>, Refusal> {
    let len = set.len();
    let ranks = match end {
        Extreme::Min => 0..count.min(len),
        Extreme::Max => len - count.min(len)..len,
    };
    let (mut popped, mut bytes) = (Vec::new(), 0);
    let (now, alone) = set.read()?;
    now.for_range(alone, ranks.clone(), end == Extreme::Max, |member, score| {
        bytes += member.len() + 40;
        popped.push((member.to_vec(), score));
        bytes <= bytes_max
    })?;
    if bytes > bytes_max {
        return Err(REPLY_TOO_LONG.into());
    }
    set.remove_range(ranks)?;
    Ok(popped)
}

/// ZPOPMIN, ZPOPMAX key \[count\]
pub(crate) fn zpop<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>, end: Extreme) -> Outcome {
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let count = call.args.get(2).map(positive).transpose()?;
    let set = collection.sorted_set(call)?;
    let popped = pop_many(set, end, count.unwrap_or(1), call.reply_bytes_max)?;
    if count.is_some() {
        elements(call.out, &popped, true, call.version);
    } else {
        elements_head(call.out, popped.len(), true, Version::Resp2);
        for (member, score) in &popped {
            reply::bulk(call.out, member);
            reply::score(call.out, *score, call.version);
        }
    }
    Ok(())
}

/// What ZMPOP and BZMPOP take, from which keys.
#[derive(Clone, Debug)]
pub(super) struct Pops {
    /// Indexes of the keys among the arguments.
    pub(super) keys: Range<usize>,
    pub(super) end: Extreme,
    pub(super) count: u64,
}

impl Pops {
    /// numkeys key ... MIN | MAX [COUNT count], from the argument at `index` on.
    pub(super) fn parse(args: &Args<'_>, index: usize) -> Result<Pops, Refusal> {
        let keys = super::lists::counted_keys(args, index)?;
        let end = match () {
            () if args.is(keys.end, "min") => Extreme::Min,
            () if args.is(keys.end, "max") => Extreme::Max,
            () => return Err(SYNTAX.into()),
        };
        let count = super::lists::count_option(args, keys.end + 1)?;
        Ok(Pops { keys, end, count })
    }
}

/// Pops from the first of the keys that has elements. Replies with the key and the elements, and returns them.
pub(super) fn pop_from_first<'a>(
    alone: &mut Exclusive<'_>,
    (database, bytes_max, version): (usize, usize, Version),
    keys: impl Iterator<Item = &'a [u8]>,
    (end, count): (Extreme, u64),
    out: &mut Vec<u8>,
) -> Result<Option<Vec<Element>>, Refusal> {
    for key in keys {
        let mut set = SortedSetMut::open(alone, database, key)?;
        if set.len() > 0 {
            let popped = pop_many(&mut set, end, count, bytes_max)?;
            set.finish()?;
            reply::array(out, 2);
            reply::bulk(out, key);
            reply::array(out, popped.len());
            for (member, score) in &popped {
                reply::array(out, 2);
                reply::bulk(out, member);
                reply::score(out, *score, version);
            }
            return Ok(Some(popped));
        }
    }
    Ok(None)
}

/// ZMPOP numkeys key ... MIN | MAX [COUNT count]
pub(crate) fn zmpop(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let pops = Pops::parse(&call.args, 1)?;
    let keys = call.args.from(pops.keys.start).take(pops.keys.len());
    let how = (call.database, call.reply_bytes_max, call.version);
    if pop_from_first(alone, how, keys, (pops.end, pops.count), call.out)?.is_none() {
        reply::null_array(call.out, call.version);
    }
    Ok(())
}

/// ZRANDMEMBER key \[count \[WITHSCORES\]\]
pub(crate) fn zrandmember(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    if args.len() == 2 {
        let found = match open(turn, call)? {
            Some(set) => set.random(turn)?,
            None => None,
        };
        reply::bulk_or_null(call.out, found.as_ref().map(|(member, _)| member.as_slice()), call.version);
        return Ok(());
    }
    let (count, with_scores) = random_count(&args, "withscores")?;
    let chosen = match open(turn, call)? {
        Some(set) => choose(&set, turn, count, call.reply_bytes_max)?,
        None => Vec::new(),
    };
    elements(call.out, &chosen, with_scores, call.version);
    Ok(())
}

/// Parses the number of keys that is stated before them, which must be at least 1.
pub(super) fn key_count(args: &Args<'_>, index: usize, name: &str) -> Result<usize, Refusal> {
    let number = parse_integer(args.at(index)).ok_or(super::call::NOT_AN_INTEGER)?;
    if number < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if number > args.len() - index - 1 { Err(SYNTAX.into()) } else { Ok(number) }
}
