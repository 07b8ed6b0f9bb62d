//! Commands on sets. How they are stored: `keyspace/collections/fields/`.

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::hashes::choose;
use super::number::parse_integer;
use super::reply;
use super::strings::integer;
use crate::keyspace::collections::fields::{Fields, FieldsMut};
use crate::keyspace::{self, Exclusive, Kind, Pairs, PairsMut, damaged};
use std::collections::HashSet;

fn open(turn: &mut Turn<'_, '_>, call: &Call<'_, '_>) -> keyspace::Result<Option<Fields>> {
    Fields::open(turn, call.database, call.args.at(1), Kind::Set)
}

fn open_mut<'e, 'k>(pairs: &'e mut (dyn PairsMut + 'k), call: &Call<'_, 'e>) -> keyspace::Result<FieldsMut<'e, 'k>> {
    FieldsMut::open(pairs, call.database, call.args.at(1), Kind::Set)
}

/// SADD key member ...
pub(crate) fn sadd<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let set = collection.fields(call, Kind::Set)?;
    let mut added = 0;
    for member in call.args.from(2) {
        added += i64::from(set.put_if(member, b"", false)?);
    }
    reply::integer(call.out, added);
    Ok(())
}

/// SREM key member ...
pub(crate) fn srem<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let set = collection.fields(call, Kind::Set)?;
    let mut removed = 0;
    for member in call.args.from(2) {
        removed += i64::from(set.remove(member)?);
    }
    reply::integer(call.out, removed);
    Ok(())
}

/// SISMEMBER key member; with `many` SMISMEMBER.
pub(crate) fn sismember(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, many: bool) -> Outcome {
    let set = open(turn, call)?;
    let mut unread = Vec::new();
    if many {
        reply::array(call.out, call.args.len() - 2);
    }
    for member in call.args.from(2) {
        let found = match &set {
            Some(set) => set.get(turn, member, &mut unread)?,
            None => false,
        };
        reply::integer(call.out, found.into());
    }
    Ok(())
}

/// SMEMBERS key
pub(crate) fn smembers(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let set = open(turn, call)?;
    reply::set(call.out, set.as_ref().map_or(0, |set| set.len() as usize), call.version); // members in memory or a file
    let end = call.out.len().saturating_add(call.reply_bytes_max);
    let out = &mut *call.out;
    if let Some(set) = set {
        set.for_each(turn, |member, _| {
            reply::bulk(out, member);
            out.len() <= end
        })?;
    }
    if out.len() > end { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
}

/// SCARD key
pub(crate) fn scard(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let len = open(turn, call)?.map_or(0, |set| set.len());
    reply::count(call.out, len);
    Ok(())
}

/// SPOP key \[count\]
pub(crate) fn spop<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let has_count = call.args.len() > 2;
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let wanted = match call.args.get(2) {
        Some(count) => positive(count)?,
        None => 1,
    };
    let set = collection.fields(call, Kind::Set)?;
    let count = wanted.min(set.fields().len());
    let mut popped: Vec<Vec<u8>> = Vec::new();
    let (mut bytes, mut kept) = (0, 0);
    if count == set.fields().len() {
        set.for_each(|member, _| {
            bytes += member.len() + 16;
            popped.push(member.to_vec());
            bytes <= call.reply_bytes_max
        })?;
        if bytes <= call.reply_bytes_max {
            set.clear()?;
        } else {
            kept = popped.len();
        }
    }
    while (popped.len() as u64) < count && bytes <= call.reply_bytes_max {
        let Some((member, _)) = set.random()? else { break };
        bytes += member.len() + 16;
        if !set.remove(&member)? {
            return Err(damaged("a member is where it is not found").into());
        }
        popped.push(member);
    }
    if bytes > call.reply_bytes_max && has_count {
        popped[kept..].iter().try_for_each(|member| set.put_if(member, b"", false).map(drop))?;
        return Err(REPLY_TOO_LONG.into());
    }
    if has_count {
        reply::set(call.out, popped.len(), call.version);
        popped.iter().for_each(|member| reply::bulk(call.out, member));
    } else {
        reply::bulk_or_null(call.out, popped.first().map(Vec::as_slice), call.version);
    }
    Ok(())
}

/// Parses a count that is not negative.
pub(super) fn positive(argument: &[u8]) -> Result<u64, Refusal> {
    let number = parse_integer(argument).and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| "ERR value is out of range, must be positive".into())
}

/// SRANDMEMBER key \[count\]
pub(crate) fn srandmember(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let Some(count) = call.args.get(2) else {
        let found = match open(turn, call)? {
            Some(set) => set.random(turn)?,
            None => None,
        };
        reply::bulk_or_null(call.out, found.as_ref().map(|(member, _)| member.as_slice()), call.version);
        return Ok(());
    };
    let count = integer(count)?;
    if count == i64::MIN {
        return Err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807".into());
    }
    let chosen = match open(turn, call)? {
        Some(set) => choose(&set, turn, count, call.reply_bytes_max)?,
        None => Vec::new(),
    };
    reply::array(call.out, chosen.len());
    chosen.iter().for_each(|(member, _)| reply::bulk(call.out, member));
    Ok(())
}

/// SMOVE source destination member
pub(crate) fn smove(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (from, to, member) = (call.args.at(1), call.args.at(2), call.args.at(3));
    let Some(source) = Fields::open(alone, call.database, from, Kind::Set)? else {
        reply::integer(call.out, 0);
        return Ok(());
    };
    Fields::open(alone, call.database, to, Kind::Set)?;
    let is_there = source.get(alone, member, &mut Vec::new())?;
    if is_there && from != to {
        let mut source = FieldsMut::open(alone, call.database, from, Kind::Set)?;
        source.remove(member)?;
        source.finish()?;
        let mut destination = FieldsMut::open(alone, call.database, to, Kind::Set)?;
        destination.put_if(member, b"", false)?;
        destination.finish()?;
    }
    reply::integer(call.out, is_there.into());
    Ok(())
}

/// How sets are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Inter,
    Union,
    Diff,
}

/// Calls `take` with the members of the combination, each once, until it returns `false`.
fn combine<'a, P: Pairs>(
    pairs: &mut P,
    database: usize,
    keys: impl Iterator<Item = &'a [u8]>,
    operation: Operation,
    mut take: impl FnMut(&[u8]) -> bool,
) -> keyspace::Result<()> {
    let mut sets = Vec::new();
    for key in keys {
        sets.push(Fields::open(pairs, database, key, Kind::Set)?);
    }
    if operation == Operation::Union {
        let mut seen = HashSet::new();
        let mut sets = sets.iter().flatten().peekable();
        while let Some(set) = sets.next() {
            // Within a set all members differ.
            let (mut goes_on, is_last) = (true, sets.peek().is_none());
            set.for_each(pairs, |member, _| {
                if !seen.contains(member) {
                    if !is_last {
                        seen.insert(member.to_vec());
                    }
                    goes_on = take(member);
                }
                goes_on
            })?;
            if !goes_on {
                break;
            }
        }
        return Ok(());
    }
    if operation == Operation::Inter {
        if sets.iter().any(Option::is_none) {
            return Ok(());
        }
        // The smallest decides how many lookups are needed.
        sets.sort_by_key(|set| set.as_ref().map_or(0, Fields::len));
    }
    let Some((Some(first), others)) = sets.split_first() else { return Ok(()) };
    let (mut cursor, mut members, mut unread) = (0, Vec::new(), Vec::new());
    loop {
        const AT_ONCE: usize = 1000;
        members.clear();
        cursor = first.scan(pairs, cursor, AT_ONCE, |member, _| members.push(member.to_vec()))?;
        for member in &members {
            let mut is_wanted = true;
            for other in others.iter().flatten() {
                is_wanted = other.get(pairs, member, &mut unread)? == (operation == Operation::Inter);
                if !is_wanted {
                    break;
                }
            }
            if is_wanted && !take(member) {
                return Ok(());
            }
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// SINTER, SUNION, SDIFF key ...
pub(crate) fn operate(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let (mut found, mut count) = (Vec::new(), 0);
    let most = call.reply_bytes_max;
    combine(turn, call.database, call.args.from(1), operation, |member| {
        reply::bulk(&mut found, member);
        count += 1;
        found.len() <= most
    })?;
    if found.len() > most {
        return Err(REPLY_TOO_LONG.into());
    }
    reply::set(call.out, count, call.version);
    call.out.append(&mut found);
    Ok(())
}

/// SINTERSTORE, SUNIONSTORE, SDIFFSTORE destination key ...
pub(crate) fn store(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, operation: Operation) -> Outcome {
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    combine(alone, call.database, call.args.from(2), operation, |member| {
        bytes.extend_from_slice(member);
        ends.push(bytes.len());
        true
    })?;
    let members: Vec<&[u8]> = ends.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
    alone.remove(call.database, call.args.at(1))?;
    let mut set = open_mut(alone, call)?;
    set.fill(&members)?;
    set.finish()?;
    reply::count(call.out, members.len() as u64);
    Ok(())
}

/// `[LIMIT limit]` of SINTERCARD and ZINTERCARD, from the argument at `start` on; 0 for none.
pub(super) fn limit_of(args: &Args<'_>, start: usize) -> Result<u64, Refusal> {
    let mut limit = 0;
    for index in (start..args.len()).step_by(2) {
        let Some(value) = args.get(index + 1).filter(|_| args.is(index, "limit")) else { return Err(SYNTAX.into()) };
        let number = parse_integer(value).and_then(|number| u64::try_from(number).ok());
        limit = number.ok_or("ERR LIMIT can't be negative")?;
    }
    Ok(limit)
}

/// SINTERCARD numkeys key ... [LIMIT limit]
pub(crate) fn sintercard(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let number = parse_integer(args.at(1)).and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| *number > 0).ok_or("ERR numkeys should be greater than 0")?;
    if number > args.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let limit = limit_of(&args, 2 + number)?;
    let mut count = 0;
    combine(turn, call.database, args.from(2).take(number), Operation::Inter, |_| {
        count += 1;
        count != limit
    })?;
    reply::count(call.out, count);
    Ok(())
}
