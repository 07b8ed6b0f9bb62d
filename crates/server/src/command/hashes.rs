//! Commands on hashes. How they are stored: `keyspace/collections/fields/`.

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, Turn};
use super::collection::Collection;
use super::double;
use super::number::{Decimal, parse_integer};
use super::pattern::matches;
use super::reply::{self, Version};
use super::strings::integer;
use crate::keyspace::collections::fields::{Expiry, Field, Fields, FieldsMut};
use crate::keyspace::collections::sorted::{Element, SortedSet};
use crate::keyspace::{self, Kind, PairsMut, damaged};
use std::collections::HashSet;

const NOT_A_FLOAT: &str = "ERR hash value is not a float";

pub(super) fn open(turn: &mut Turn<'_, '_>, call: &Call<'_, '_>) -> Result<Option<Fields>, Refusal> {
    Ok(Fields::open(turn, call.database, call.args.at(1), Kind::Hash)?)
}

pub(super) fn open_mut<'e, 'k>(
    pairs: &'e mut (dyn PairsMut + 'k),
    call: &Call<'_, 'e>,
) -> Result<FieldsMut<'e, 'k>, Refusal> {
    Ok(FieldsMut::open(pairs, call.database, call.args.at(1), Kind::Hash)?)
}

/// HSET key field value ...; with `ok` HMSET.
pub(crate) fn hset<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>, ok: bool) -> Outcome {
    if !call.args.len().is_multiple_of(2) {
        let name = if ok { "hmset" } else { "hset" };
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let hash = collection.fields(call, Kind::Hash)?;
    let mut added = 0;
    for (field, value) in call.args.from(2).step_by(2).zip(call.args.from(3).step_by(2)) {
        added += i64::from(hash.put(field, value)?);
    }
    if ok {
        reply::ok(call.out)
    } else {
        reply::integer(call.out, added)
    }
    Ok(())
}

/// HSETNX key field value
pub(crate) fn hsetnx<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let hash = collection.fields(call, Kind::Hash)?;
    let is_new = hash.put_if(call.args.at(2), call.args.at(3), false)?;
    reply::integer(call.out, is_new.into());
    Ok(())
}

/// HGET key field
pub(crate) fn hget(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut value = Vec::new();
    let found = match open(turn, call)? {
        Some(hash) => hash.get(turn, call.args.at(2), &mut value)?,
        None => false,
    };
    reply::bulk_or_null(call.out, found.then_some(&value), call.version);
    Ok(())
}

/// HMGET key field ...
pub(crate) fn hmget(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let hash = open(turn, call)?;
    let most = call.out.len() + call.reply_bytes_max;
    let mut value = Vec::new();
    reply::array(call.out, call.args.len() - 2);
    for field in call.args.from(2) {
        let found = match &hash {
            Some(hash) => hash.get(turn, field, &mut value)?,
            None => false,
        };
        reply::bulk_or_null(call.out, found.then_some(&value), call.version);
        if call.out.len() > most {
            return Err(REPLY_TOO_LONG.into());
        }
    }
    Ok(())
}

/// HDEL key field ...
pub(crate) fn hdel<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let hash = collection.fields(call, Kind::Hash)?;
    let mut removed = 0;
    for field in call.args.from(2) {
        removed += i64::from(hash.remove(field)?);
    }
    reply::integer(call.out, removed);
    Ok(())
}

/// HEXISTS key field
pub(crate) fn hexists(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let found = match open(turn, call)? {
        Some(hash) => hash.get(turn, call.args.at(2), &mut Vec::new())?,
        None => false,
    };
    reply::integer(call.out, found.into());
    Ok(())
}

/// HLEN key
pub(crate) fn hlen(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let len = open(turn, call)?.map_or(0, |hash| hash.len());
    reply::count(call.out, len);
    Ok(())
}

/// HSTRLEN key field
pub(crate) fn hstrlen(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut value = Vec::new();
    if let Some(hash) = open(turn, call)? {
        hash.get(turn, call.args.at(2), &mut value)?;
    }
    reply::count(call.out, value.len() as u64);
    Ok(())
}

/// What a command returns for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    Names,
    Values,
    Both,
}

/// HKEYS, HVALS, HGETALL
pub(crate) fn hgetall(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, parts: Parts) -> Outcome {
    let hash = open(turn, call)?;
    let len = hash.as_ref().map_or(0, |hash| hash.len() as usize); // fields in memory or in a file
    match parts {
        Parts::Both => reply::map(call.out, len, call.version),
        Parts::Names | Parts::Values => reply::array(call.out, len),
    }
    let (out, most) = (&mut *call.out, call.reply_bytes_max);
    let end = out.len().saturating_add(most);
    if let Some(hash) = hash {
        hash.for_each(turn, |field, value| {
            if parts != Parts::Values {
                reply::bulk(out, field);
            }
            if parts != Parts::Names {
                reply::bulk(out, value);
            }
            out.len() <= end
        })?;
    }
    if out.len() > end { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
}

/// HINCRBY key field increment
pub(crate) fn hincrby<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let (field, increment) = (call.args.at(2), integer(call.args.at(3))?);
    let hash = collection.fields(call, Kind::Hash)?;
    let mut value = Vec::new();
    let number = match hash.get(field, &mut value)? {
        true => parse_integer(&value).ok_or("ERR hash value is not an integer")?,
        false => 0,
    };
    let number = number.checked_add(increment).ok_or("ERR increment or decrement would overflow")?;
    hash.put_with_expiry(field, itoa::Buffer::new().format(number).as_bytes(), Expiry::Keep)?;
    reply::integer(call.out, number);
    Ok(())
}

/// HINCRBYFLOAT key field increment
pub(crate) fn hincrbyfloat<'e>(collection: &mut Collection<'e, '_>, call: &mut Call<'_, 'e>) -> Outcome {
    let field = call.args.at(2);
    let increment = Decimal::parse(call.args.at(3)).ok_or(super::call::NOT_A_FLOAT)?;
    if matches!(increment, Decimal::Float(number) if !number.is_finite()) {
        return Err("ERR value is NaN or Infinity".into());
    }
    let hash = collection.fields(call, Kind::Hash)?;
    let mut value = Vec::new();
    let number = match hash.get(field, &mut value)? {
        true => Decimal::parse(&value).ok_or(NOT_A_FLOAT)?,
        false => Decimal::Exact(0),
    };
    let sum = number.plus(increment).ok_or("ERR increment would produce NaN or Infinity")?.text();
    hash.put_with_expiry(field, sum.as_bytes(), Expiry::Keep)?;
    reply::bulk(call.out, sum.as_bytes());
    Ok(())
}

/// HSCAN, SSCAN, ZSCAN: key cursor [MATCH pattern] [COUNT count]
pub(crate) fn scan(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, kind: Kind) -> Outcome {
    const COUNT: usize = 10;
    /// Larger values of COUNT are reduced to this one, so that other clients do not wait long.
    const COUNT_MAX: usize = 10_000;
    let args = call.args;
    let cursor = std::str::from_utf8(args.at(2)).ok().and_then(|text| text.parse::<u64>().ok());
    let cursor = cursor.ok_or("ERR invalid cursor")?;
    let (mut fields, mut set) = (None, None);
    match kind {
        Kind::SortedSet => set = SortedSet::open(turn, call.database, args.at(1))?,
        _ => fields = Fields::open(turn, call.database, args.at(1), kind)?,
    }
    if fields.is_none() && set.is_none() {
        reply::scanned(call.out, 0, 0, b"");
        return Ok(());
    }
    let (mut pattern, mut count) = (None, COUNT);
    for index in (3..args.len()).step_by(2) {
        let Some(value) = args.get(index + 1) else { return Err(SYNTAX.into()) };
        if args.is(index, "match") {
            pattern = Some(value);
        } else if args.is(index, "count") {
            let number = integer(value)?;
            count = usize::try_from(number).ok().filter(|&n| n > 0).ok_or(SYNTAX)?.min(COUNT_MAX);
        } else {
            return Err(SYNTAX.into());
        }
    }
    let (mut found, mut taken) = (Vec::new(), 0);
    let mut take = |field: &[u8], value: Option<&[u8]>| {
        if pattern.is_none_or(|pattern| matches(pattern, field)) {
            taken += 1 + usize::from(value.is_some());
            reply::bulk(&mut found, field);
            value.into_iter().for_each(|value| reply::bulk(&mut found, value));
        }
    };
    let mut next = 0;
    if let Some(fields) = fields {
        next = fields.scan(turn, cursor, count, |field, value| take(field, (kind == Kind::Hash).then_some(value)))?;
    }
    if let Some(set) = set {
        let (mut text, is_packed) = (Vec::new(), set.encoding() == "listpack");
        next = set.scan(turn, cursor, count, |member, score| {
            text.clear();
            // As Redis stores it: the compact encoding has long whole numbers as they are.
            let is_whole = score.fract() == 0.0 && score.abs() <= (i64::MAX / 2) as f64;
            if is_packed && is_whole {
                text.extend_from_slice(itoa::Buffer::new().format(score as i64).as_bytes()); // checked above
            } else {
                double::write(&mut text, score);
            }
            take(member, Some(&text));
        })?;
    }
    reply::scanned(call.out, next, taken, &found);
    Ok(())
}

/// HRANDFIELD key \[count \[WITHVALUES\]\]
pub(crate) fn hrandfield(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    if args.len() == 2 {
        let found = match open(turn, call)? {
            Some(hash) => hash.random(turn)?,
            None => None,
        };
        reply::bulk_or_null(call.out, found.as_ref().map(|(field, _)| field.as_slice()), call.version);
        return Ok(());
    }
    let (count, with_values) = random_count(&args, "withvalues")?;
    let chosen = match open(turn, call)? {
        Some(hash) => choose(&hash, turn, count, call.reply_bytes_max)?,
        None => Vec::new(),
    };
    let is_paired = with_values && call.version == Version::Resp3;
    reply::array(call.out, if with_values && !is_paired { 2 * chosen.len() } else { chosen.len() });
    for (field, value) in &chosen {
        if is_paired {
            reply::array(call.out, 2);
        }
        reply::bulk(call.out, field);
        if with_values {
            reply::bulk(call.out, value);
        }
    }
    Ok(())
}

/// Parses `count [WITHVALUES]`, the second and third argument of HRANDFIELD and its family.
pub(super) fn random_count(args: &Args<'_>, with_values: &str) -> Result<(i64, bool), Refusal> {
    let count = integer(args.at(2))?;
    if count == i64::MIN {
        return Err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807".into());
    }
    if args.len() > 4 || args.len() == 4 && !args.is(3, with_values) {
        return Err(SYNTAX.into());
    }
    let with_values = args.len() == 4;
    if with_values && !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&count) {
        return Err("ERR value is out of range".into());
    }
    Ok((count, with_values))
}

/// A collection whose elements can be drawn at random.
pub(super) trait Drawn {
    /// What an element has in addition to its name.
    type Value;

    fn count(&self) -> u64;
    fn draw(&self, turn: &mut Turn<'_, '_>) -> keyspace::Result<Option<(Vec<u8>, Self::Value)>>;
    fn for_all(&self, turn: &mut Turn<'_, '_>, take: impl FnMut(Vec<u8>, Self::Value) -> bool) -> keyspace::Result<()>;
    /// Approximate bytes of a value in a reply.
    fn bytes_of(value: &Self::Value) -> usize;
}

impl Drawn for Fields {
    type Value = Vec<u8>;

    fn count(&self) -> u64 {
        self.len()
    }

    fn draw(&self, turn: &mut Turn<'_, '_>) -> keyspace::Result<Option<Field>> {
        self.random(turn)
    }

    fn for_all(&self, turn: &mut Turn<'_, '_>, mut take: impl FnMut(Vec<u8>, Vec<u8>) -> bool) -> keyspace::Result<()> {
        self.for_each(turn, |field, value| take(field.to_vec(), value.to_vec()))
    }

    fn bytes_of(value: &Vec<u8>) -> usize {
        value.len()
    }
}

impl Drawn for SortedSet {
    type Value = f64;

    fn count(&self) -> u64 {
        self.len()
    }

    fn draw(&self, turn: &mut Turn<'_, '_>) -> keyspace::Result<Option<Element>> {
        self.random(turn)
    }

    fn for_all(&self, turn: &mut Turn<'_, '_>, mut take: impl FnMut(Vec<u8>, f64) -> bool) -> keyspace::Result<()> {
        self.for_range(turn, 0..u64::MAX, false, |member, score| take(member.to_vec(), score))
    }

    fn bytes_of(_: &f64) -> usize {
        24
    }
}

/// An element that was drawn: its name and its value.
type Draw<C> = (Vec<u8>, <C as Drawn>::Value);

/// Draws `count` distinct elements at random, at most all; a negative count allows repeats.
pub(super) fn choose<C: Drawn>(
    from: &C,
    turn: &mut Turn<'_, '_>,
    count: i64,
    bytes_max: usize,
) -> Result<Vec<Draw<C>>, Refusal> {
    let (len, wanted) = (from.count(), count.unsigned_abs());
    let (mut chosen, mut bytes) = (Vec::new(), 0);
    let each = size_of::<Draw<C>>() + 16;
    let mut fits = |name: &[u8], value: &C::Value| {
        bytes += name.len() + C::bytes_of(value) + each;
        bytes <= bytes_max
    };
    if count < 0 {
        // Refused without drawing anything if even empty elements would take too much memory.
        if len > 0 && wanted.saturating_mul(each as u64) > bytes_max as u64 {
            return Err(REPLY_TOO_LONG.into());
        }
        for _ in 0..wanted {
            let Some((name, value)) = from.draw(turn)? else { break };
            if !fits(&name, &value) {
                return Err(REPLY_TOO_LONG.into());
            }
            chosen.push((name, value));
        }
        return Ok(chosen);
    }
    // If most of them are wanted: takes all, then drops some.
    if wanted > len / 3 {
        let mut is_too_long = false;
        from.for_all(turn, |name, value| {
            is_too_long = !fits(&name, &value);
            chosen.push((name, value));
            !is_too_long
        })?;
        if is_too_long {
            return Err(REPLY_TOO_LONG.into());
        }
        while chosen.len() as u64 > wanted {
            let index = crate::keyspace::collections::fields::below(turn.space().random(), chosen.len() as u64);
            chosen.swap_remove(index as usize); // below the length
        }
        return Ok(chosen);
    }
    /// At most one of three fields is taken already.
    const TRIES: usize = 1000;
    let (mut taken, mut tries) = (HashSet::new(), 0);
    while (chosen.len() as u64) < wanted {
        let Some((name, value)) = from.draw(turn)? else { break };
        tries += 1;
        if tries > TRIES {
            return Err(damaged("it has fewer elements than its key says").into());
        }
        if taken.insert(name.clone()) {
            tries = 0;
            if !fits(&name, &value) {
                return Err(REPLY_TOO_LONG.into());
            }
            chosen.push((name, value));
        }
    }
    Ok(chosen)
}
