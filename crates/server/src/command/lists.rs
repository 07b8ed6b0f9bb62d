//! Commands on lists, except for the ones that wait (`blocking.rs`).
//!
//! How lists are stored: `keyspace/collections/list.rs`.

use super::call::{Args, Call, NO_SUCH_KEY, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::number::parse_integer;
use super::reply;
use super::sets::positive;
use super::strings::integer;
use crate::keyspace::collections::list::{End, List, ListMut};
use crate::keyspace::{self, Exclusive, PairsMut};
use std::ops::Range;

fn open(turn: &mut Turn<'_, '_>, call: &Call<'_, '_>) -> keyspace::Result<Option<List>> {
    List::open(turn, call.database, call.args.at(1))
}

fn open_mut<'e, 'k>(pairs: &'e mut (dyn PairsMut + 'k), call: &Call<'_, 'e>) -> keyspace::Result<ListMut<'e, 'k>> {
    ListMut::open(pairs, call.database, call.args.at(1))
}

/// LPUSH, RPUSH key element ...; with `only_present` LPUSHX, RPUSHX.
pub(crate) fn push<'e>(
    collection: &mut Collection<'e, '_>,
    call: &mut Call<'_, 'e>,
    end: End,
    only_present: bool,
) -> Outcome {
    let list = collection.list(call)?;
    if list.len() > 0 || !only_present {
        call.args.from(2).try_for_each(|element| list.push(end, element))?;
    }
    reply::count(call.out, list.len());
    Ok(())
}

/// LPOP, RPOP key \[count\]
pub(crate) fn pop<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>, end: End) -> Outcome {
    if call.args.len() > 3 {
        let name = if end == End::Left { "lpop" } else { "rpop" };
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let count = call.args.get(2).map(positive).transpose()?;
    let list = collection.list(call)?;
    match count {
        None => {
            let popped = list.pop(end)?;
            reply::bulk_or_null(call.out, popped.as_deref(), call.version);
        }
        Some(_) if list.len() == 0 => reply::null_array(call.out, call.version),
        Some(count) => {
            let popped = pop_many(list, end, count, call.reply_bytes_max)?;
            reply::array(call.out, popped.len());
            popped.iter().for_each(|element| reply::bulk(call.out, element));
        }
    }
    Ok(())
}

/// Removes elements at an end and returns them.
pub(super) fn pop_many(
    list: &mut ListMut<'_, '_>,
    end: End,
    count: u64,
    bytes_max: usize,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let len = list.len();
    let count = count.min(len);
    let mut popped = match end {
        End::Left => list.copy_range(0..count)?,
        End::Right => list.copy_range(len - count..len)?,
    };
    if popped.iter().map(|element| element.len() + 16).sum::<usize>() > bytes_max {
        return Err(REPLY_TOO_LONG.into());
    }
    list.drop_at(end, count)?;
    if end == End::Right {
        popped.reverse();
    }
    Ok(popped)
}

/// LLEN key
pub(crate) fn llen(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let len = open(turn, call)?.map_or(0, |list| list.len());
    reply::count(call.out, len);
    Ok(())
}

/// The range from `start` to `end`, inclusive, of `len` elements; negative numbers count from the end.
pub(super) fn range_of(len: u64, start: i64, end: i64) -> Range<u64> {
    let from_end = |at: i64| if at < 0 { len.checked_sub(at.unsigned_abs()) } else { Some(at as u64) }; // not negative
    let start = from_end(start).unwrap_or(0);
    let end = from_end(end).map_or(0, |end| end.saturating_add(1).min(len));
    if start < end { start..end } else { 0..0 }
}

/// LRANGE key start stop
pub(crate) fn lrange(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let (start, end) = (integer(call.args.at(2))?, integer(call.args.at(3))?);
    let Some(list) = open(turn, call)? else {
        reply::array(call.out, 0);
        return Ok(());
    };
    let range = range_of(list.len(), start, end);
    reply::array(call.out, (range.end - range.start) as usize); // elements in memory or a file
    let most = call.out.len().saturating_add(call.reply_bytes_max);
    let out = &mut *call.out;
    list.for_range(turn, range, |_, element| {
        reply::bulk(out, element);
        out.len() <= most
    })?;
    if out.len() > most { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
}

/// The index of an element that exists; negative numbers count from the end.
fn index_of(len: u64, at: i64) -> Option<u64> {
    let index = if at < 0 { len.checked_sub(at.unsigned_abs())? } else { at as u64 }; // not negative
    (index < len).then_some(index)
}

/// LINDEX key index
pub(crate) fn lindex(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut found = None;
    if let Some(list) = open(turn, call)?
        && let Some(index) = index_of(list.len(), integer(call.args.at(2))?)
    {
        list.for_range(turn, index..index + 1, |_, element| {
            found = Some(element.to_vec());
            true
        })?;
    }
    reply::bulk_or_null(call.out, found.as_deref(), call.version);
    Ok(())
}

/// LSET key index element
pub(crate) fn lset<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let list = collection.list(call)?;
    if list.len() == 0 {
        return Err(NO_SUCH_KEY.into());
    }
    let index = index_of(list.len(), integer(call.args.at(2))?).ok_or("ERR index out of range")?;
    list.set(index, call.args.at(3))?;
    reply::ok(call.out);
    Ok(())
}

/// LREM key count element
pub(crate) fn lrem(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let count = integer(call.args.at(2))?;
    let mut list = open_mut(alone, call)?;
    let end = if count < 0 { End::Right } else { End::Left };
    let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
    let mut found = list.find(call.args.at(3), end, most)?;
    found.sort_unstable();
    if let [index] = found[..] {
        list.remove(index)?;
    } else if let (Some(&first), Some(&last)) = (found.first(), found.last()) {
        let between = (first..=last).zip(list.copy_range(first..last + 1)?);
        let kept: Vec<Vec<u8>> =
            between.filter(|(index, _)| found.binary_search(index).is_err()).map(|(_, element)| element).collect();
        list.replace(first, last + 1 - first, &kept)?;
    }
    list.finish()?;
    reply::count(call.out, found.len() as u64);
    Ok(())
}

/// LTRIM key start stop
pub(crate) fn ltrim<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let (start, end) = (integer(call.args.at(2))?, integer(call.args.at(3))?);
    let list = collection.list(call)?;
    let len = list.len();
    let kept = range_of(len, start, end);
    list.count_as_changed(); // Redis reports it whether or not there is less
    list.drop_at(End::Right, len - kept.end)?;
    list.drop_at(End::Left, kept.start)?;
    reply::ok(call.out);
    Ok(())
}

/// LINSERT key BEFORE | AFTER pivot element
pub(crate) fn linsert(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let after = match () {
        () if args.is(2, "after") => 1,
        () if args.is(2, "before") => 0,
        () => return Err(SYNTAX.into()),
    };
    let mut list = open_mut(alone, call)?;
    if list.len() == 0 {
        reply::integer(call.out, 0);
        return Ok(());
    }
    let Some(&index) = list.find(args.at(3), End::Left, 1)?.first() else {
        reply::integer(call.out, -1);
        return Ok(());
    };
    list.insert(index + after, args.at(4))?;
    let len = list.finish()?;
    reply::count(call.out, len);
    Ok(())
}

/// LPOS key element [RANK rank] [COUNT count] [MAXLEN len]
pub(crate) fn lpos(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let (mut rank, mut count, mut len_max) = (1i64, None, 0);
    for index in (3..args.len()).step_by(2) {
        let Some(value) = args.get(index + 1) else { return Err(SYNTAX.into()) };
        let not_negative = || parse_integer(value).and_then(|number| u64::try_from(number).ok());
        if args.is(index, "rank") {
            rank = integer(value)?;
            if rank == 0 {
                return Err("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
                            use negative to start from the end of the list"
                    .into());
            }
        } else if args.is(index, "count") {
            count = Some(not_negative().ok_or("ERR COUNT can't be negative")?);
        } else if args.is(index, "maxlen") {
            len_max = not_negative().ok_or("ERR MAXLEN can't be negative")?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let element = args.at(2);
    let (mut skipped, mut looked_at, mut found) = (rank.unsigned_abs() - 1, 0, Vec::new());
    // This number is its own negation, so Redis 7.0 skips none, and never finds enough.
    if rank == i64::MIN {
        skipped = 0;
        count = count.and(Some(0));
    }
    let most = match count {
        None => 1,
        Some(0) => usize::MAX,
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let take = |index: u64, other: &[u8]| {
        looked_at += 1;
        if other == element {
            match skipped {
                0 => found.push(index),
                _ => skipped -= 1,
            }
        }
        found.len() < most && looked_at != len_max
    };
    if let Some(list) = open(turn, call)? {
        if rank > 0 {
            list.for_range(turn, 0..u64::MAX, take)?;
        } else {
            list.for_each_back(turn, take)?;
        }
    }
    match (count, found.first()) {
        (None, None) => reply::null(call.out, call.version),
        (None, Some(index)) => reply::count(call.out, *index),
        (Some(_), _) => {
            reply::array(call.out, found.len());
            found.iter().for_each(|index| reply::count(call.out, *index));
        }
    }
    Ok(())
}

/// Parses the end that an argument names.
pub(super) fn end_of(args: &Args<'_>, index: usize) -> Result<End, Refusal> {
    match () {
        () if args.is(index, "left") => Ok(End::Left),
        () if args.is(index, "right") => Ok(End::Right),
        () => Err(SYNTAX.into()),
    }
}

/// The ends where an element is taken and where it is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: End,
    pub(crate) to: End,
}

impl Move {
    /// RPOPLPUSH
    pub(crate) const RIGHT_TO_LEFT: Move = Move { from: End::Right, to: End::Left };

    /// Parses the ends that the arguments from `index` on name.
    pub(super) fn parse(args: &Args<'_>, index: usize) -> Result<Move, Refusal> {
        Ok(Move { from: end_of(args, index)?, to: end_of(args, index + 1)? })
    }

    /// Moves an element, and returns it; `None` if the source is absent.
    pub(super) fn make(
        self,
        alone: &mut Exclusive<'_>,
        database: usize,
        from: &[u8],
        to: &[u8],
    ) -> keyspace::Result<Option<Vec<u8>>> {
        let mut source = ListMut::open(alone, database, from)?;
        if source.len() == 0 {
            return Ok(None);
        }
        if from == to {
            let Some(element) = source.pop(self.from)? else { return Ok(None) };
            source.push(self.to, &element)?;
            source.finish()?;
            return Ok(Some(element));
        }
        drop(source);
        // The destination must be a list: checked before anything changes.
        List::open(alone, database, to)?;
        let mut source = ListMut::open(alone, database, from)?;
        let Some(element) = source.pop(self.from)? else { return Ok(None) };
        source.finish()?;
        let mut destination = ListMut::open(alone, database, to)?;
        destination.push(self.to, &element)?;
        destination.finish()?;
        Ok(Some(element))
    }
}

/// LMOVE source destination LEFT | RIGHT LEFT | RIGHT; RPOPLPUSH source destination
pub(crate) fn lmove(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let ends = if args.len() == 3 { Move::RIGHT_TO_LEFT } else { Move::parse(&args, 3)? };
    let moved = ends.make(alone, call.database, args.at(1), args.at(2))?;
    reply::bulk_or_null(call.out, moved.as_deref(), call.version);
    Ok(())
}

/// What LMPOP and BLMPOP take, from which keys.
#[derive(Clone, Debug)]
pub(super) struct Pops {
    /// Indexes of the keys among the arguments.
    pub(super) keys: Range<usize>,
    pub(super) end: End,
    pub(super) count: u64,
}

impl Pops {
    /// numkeys key ... LEFT | RIGHT [COUNT count], from the argument at `index` on.
    pub(super) fn parse(args: &Args<'_>, index: usize) -> Result<Pops, Refusal> {
        let keys = counted_keys(args, index)?;
        let end = end_of(args, keys.end)?;
        let count = count_option(args, keys.end + 1)?;
        Ok(Pops { keys, end, count })
    }
}

/// The indexes of keys whose number is the argument at `index`; another argument follows them.
pub(super) fn counted_keys(args: &Args<'_>, index: usize) -> Result<Range<usize>, Refusal> {
    let number = parse_integer(args.at(index)).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| *number > 0).ok_or("ERR numkeys should be greater than 0")?;
    let end = number.checked_add(index + 1).filter(|end| *end < args.len()).ok_or(SYNTAX)?;
    Ok(index + 1..end)
}

/// `[COUNT count]`, the last arguments, from the one at `index` on.
pub(super) fn count_option(args: &Args<'_>, index: usize) -> Result<u64, Refusal> {
    match args.len() - index {
        0 => Ok(1),
        2 if args.is(index, "count") => {
            let number = parse_integer(args.at(index + 1)).and_then(|number| u64::try_from(number).ok());
            number.filter(|number| *number > 0).ok_or_else(|| "ERR count should be greater than 0".into())
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Pops from the first of the keys that has elements. Replies with the key and the elements, and returns them.
pub(super) fn pop_from_first<'a>(
    alone: &mut Exclusive<'_>,
    (database, bytes_max): (usize, usize),
    keys: impl Iterator<Item = &'a [u8]>,
    (end, count): (End, u64),
    out: &mut Vec<u8>,
) -> Result<Option<Vec<Vec<u8>>>, Refusal> {
    for key in keys {
        let mut list = ListMut::open(alone, database, key)?;
        if list.len() > 0 {
            let popped = pop_many(&mut list, end, count, bytes_max)?;
            list.finish()?;
            reply::array(out, 2);
            reply::bulk(out, key);
            reply::array(out, popped.len());
            popped.iter().for_each(|element| reply::bulk(out, element));
            return Ok(Some(popped));
        }
    }
    Ok(None)
}

/// LMPOP numkeys key ... LEFT | RIGHT [COUNT count]
pub(crate) fn lmpop(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let pops = Pops::parse(&call.args, 1)?;
    let keys = call.args.from(pops.keys.start).take(pops.keys.len());
    let how = (call.database, call.reply_bytes_max);
    if pop_from_first(alone, how, keys, (pops.end, pops.count), call.out)?.is_none() {
        reply::null_array(call.out, call.version);
    }
    Ok(())
}
