//! Commands on values.

use super::call::{Args, Call, NOT_A_FLOAT, NOT_AN_INTEGER, Outcome, REPLY_TOO_LONG, Refusal, SYNTAX, TOO_LONG, Turn};
use super::comparison::{Comparison, digest_of};
use super::edit::{NewLifetime, Plan, Store, StoreAnswer};
use super::number::{Decimal, parse_integer};
use super::reply;
use super::spec::Id;
use crate::keyspace::{Attributes, DATABASE_COUNT, Exclusive, Lifetime, SpaceError};
use std::ops::Range;

/// The number of keys that are looked up together.
const WINDOW: usize = 64;

/// GET key
pub(crate) fn get(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let (out, version) = (&mut *call.out, call.version);
    turn.with_value(call.database, call.args.at(1), |value| reply::bulk_or_null(out, value, version))?;
    Ok(())
}

/// MGET key ...
pub(crate) fn mget(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let (out, version) = (&mut *call.out, call.version);
    let most = out.len() + call.reply_bytes_max;
    reply::array(out, call.args.len() - 1);
    let mut too_long = false;
    for_windows(call.args.from(1), |keys| {
        if too_long {
            return Ok(());
        }
        turn.get_many(call.database, keys, |_, value| {
            too_long |= out.len() > most;
            if !too_long {
                reply::bulk_or_null(out, value, version);
            }
        })
    })?;
    if too_long { Err(REPLY_TOO_LONG.into()) } else { Ok(()) }
}

/// Calls `work` with at most `WINDOW` keys at a time.
pub(crate) fn for_windows<'a>(
    keys: impl Iterator<Item = &'a [u8]>,
    mut work: impl FnMut(&[&'a [u8]]) -> Result<(), SpaceError>,
) -> Result<(), SpaceError> {
    let mut window: [&[u8]; WINDOW] = [&[]; WINDOW];
    let mut count = 0;
    for key in keys {
        window[count] = key;
        count += 1;
        if count == WINDOW {
            work(&window)?;
            count = 0;
        }
    }
    if count > 0 { work(&window[..count]) } else { Ok(()) }
}

/// STRLEN key
pub(crate) fn strlen(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let len = turn.value_len(call.database, call.args.at(1))?;
    reply::count(call.out, len.map_or(0, |len| len as u64));
    Ok(())
}

/// GETRANGE key start end
pub(crate) fn getrange(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let start = integer(call.args.at(2))?;
    let end = integer(call.args.at(3))?;
    let mut part = Vec::new();
    turn.get_part(call.database, call.args.at(1), |len| range_of(len, start, end), &mut part)?;
    reply::bulk(call.out, &part);
    Ok(())
}

/// The range from `start` to `end`, inclusive, of a value of `len` bytes; negative numbers count from the end.
pub(super) fn range_of(len: usize, start: i64, end: i64) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64; // a value is shorter than 2^32
    let from_end = |at: i64| if at < 0 { (len + at).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// Parses an argument as a whole number.
pub(crate) fn integer(argument: &[u8]) -> Result<i64, Refusal> {
    parse_integer(argument).ok_or_else(|| NOT_AN_INTEGER.into())
}

/// Parses an argument as the number of a database.
pub(crate) fn database(argument: &[u8]) -> Result<usize, Refusal> {
    const RANGE: &str = "ERR value is out of range, value must between -2147483648 and 2147483647";
    let number = i32::try_from(integer(argument)?).map_err(|_| RANGE)?;
    let database = usize::try_from(number).ok().filter(|&number| number < DATABASE_COUNT);
    database.ok_or_else(|| "ERR DB index is out of range".into())
}

/// The options of SET, GETEX and MSETEX.
#[derive(Default)]
struct SetOptions<'a> {
    only_absent: bool,
    only_present: bool,
    comparison: Option<Comparison<'a>>,
    get: bool,
    keep: bool,
    persist: bool,
    lifetime: Option<LifetimeOption>,
}

/// A lifetime option: the index of the argument with its number, and the number's unit.
#[derive(Clone, Copy)]
struct LifetimeOption {
    index: usize,
    absolute: bool,
    factor: i64,
}

/// Parses the options of `id`, which is SET, GETEX or MSETEX, from argument `first` on.
fn set_options<'a>(call: &Call<'_, 'a>, first: usize, id: Id) -> Result<SetOptions<'a>, Refusal> {
    let args = call.args;
    let mut options = SetOptions::default();
    let (stores, of_set) = (id != Id::GetEx, id == Id::Set);
    let mut index = first;
    while index < args.len() {
        let has_lifetime = options.keep || options.persist || options.lifetime.is_some();
        let is_compared = options.comparison.is_some();
        if stores && args.is(index, "nx") && !options.only_present && !is_compared {
            options.only_absent = true;
        } else if stores && args.is(index, "xx") && !options.only_absent && !is_compared {
            options.only_present = true;
        } else if of_set && args.is(index, "get") {
            options.get = true;
        } else if stores && args.is(index, "keepttl") && (!has_lifetime || options.keep) {
            options.keep = true;
        } else if !stores && args.is(index, "persist") && (!has_lifetime || options.persist) {
            options.persist = true;
        } else if let Some(comparison) = if of_set { Comparison::parse(&args, index)? } else { None } {
            if is_compared || options.only_absent || options.only_present {
                return Err(SYNTAX.into());
            }
            options.comparison = Some(comparison);
            index += 1;
        } else {
            let units = [("ex", false, 1000), ("px", false, 1), ("exat", true, 1000), ("pxat", true, 1)];
            let unit = units.iter().find(|(word, ..)| args.is(index, word));
            let (Some(&(_, absolute, factor)), true) = (unit, index + 1 < args.len()) else {
                return Err(SYNTAX.into());
            };
            // As in Redis, a second option with the same unit replaces the first.
            if has_lifetime && options.lifetime.is_none_or(|old| (old.absolute, old.factor) != (absolute, factor)) {
                return Err(SYNTAX.into());
            }
            options.lifetime = Some(LifetimeOption { index: index + 1, absolute, factor });
            index += 1;
        }
        index += 1;
    }
    Ok(options)
}

impl SetOptions<'_> {
    /// What happens to the key's lifetime.
    fn lifetime(&self, call: &Call<'_, '_>, now_ms: u64, name: &str) -> Result<Lifetime, Refusal> {
        Ok(match self.expires_at_ms(call, now_ms, name)? {
            Some(at_ms) => Lifetime::Are(Attributes::expiring(at_ms as u64)), // positive
            None if self.keep => Lifetime::Keep,
            None => Lifetime::Clear,
        })
    }

    /// When the key expires, in Unix milliseconds; `None` if the options set no lifetime.
    fn expires_at_ms(&self, call: &Call<'_, '_>, now_ms: u64, name: &str) -> Result<Option<i64>, Refusal> {
        let at = |new: LifetimeOption| lifetime_of(call.args.at(new.index), new.absolute, new.factor, now_ms, name);
        self.lifetime.map(at).transpose()
    }
}

/// When a key expires: a positive number of units, from now or from 1970.
fn lifetime_of(argument: &[u8], absolute: bool, factor: i64, now_ms: u64, name: &str) -> Result<i64, Refusal> {
    let number = integer(argument)?;
    let base = if absolute { 0 } else { now_ms as i64 }; // far below 2^63
    let at = number.checked_mul(factor).and_then(|ms| ms.checked_add(base));
    at.filter(|_| number > 0).ok_or_else(|| format!("ERR invalid expire time in '{name}' command").into())
}

/// SET key value ...
pub(crate) fn set<'a>(call: &Call<'_, 'a>, now_ms: u64) -> Result<Plan<'a>, Refusal> {
    let options = set_options(call, 3, Id::Set)?;
    Ok(Plan::Store(Store {
        value: call.args.at(2),
        lifetime: match options.expires_at_ms(call, now_ms, "set")? {
            Some(at_ms) => NewLifetime::At(at_ms as u64), // positive
            None if options.keep => NewLifetime::Kept,
            None => NewLifetime::Never,
        },
        only_absent: options.only_absent,
        only_present: options.only_present,
        comparison: options.comparison,
        answer: if options.get { StoreAnswer::Old } else { StoreAnswer::Ok },
    }))
}

/// The plan that stores `value` unconditionally.
fn store<'a>(value: &'a [u8], lifetime: NewLifetime, answer: StoreAnswer) -> Store<'a> {
    Store { value, lifetime, only_absent: false, only_present: false, comparison: None, answer }
}

/// SETNX key value
pub(crate) fn setnx<'a>(call: &Call<'_, 'a>, _: u64) -> Result<Plan<'a>, Refusal> {
    Ok(Plan::Store(Store { only_absent: true, ..store(call.args.at(2), NewLifetime::Never, StoreAnswer::Number) }))
}

/// SETEX key seconds value; with `factor` 1 PSETEX.
pub(crate) fn setex<'a>(call: &Call<'_, 'a>, now_ms: u64, factor: i64) -> Result<Plan<'a>, Refusal> {
    let name = if factor == 1 { "psetex" } else { "setex" };
    let at_ms = lifetime_of(call.args.at(2), false, factor, now_ms, name)?;
    Ok(Plan::Store(store(call.args.at(3), NewLifetime::At(at_ms as u64), StoreAnswer::Ok))) // positive
}

/// GETSET key value
pub(crate) fn getset<'a>(call: &Call<'_, 'a>, _: u64) -> Result<Plan<'a>, Refusal> {
    Ok(Plan::Store(store(call.args.at(2), NewLifetime::Never, StoreAnswer::Old)))
}

/// GETDEL key
pub(crate) fn getdel(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let mut old = Vec::new();
    let present = alone.get(call.database, call.args.at(1), &mut old)?;
    alone.remove(call.database, call.args.at(1))?;
    reply::bulk_or_null(call.out, present.then_some(&old), call.version);
    Ok(())
}

/// GETEX key ...
pub(crate) fn getex<'a>(call: &Call<'_, 'a>, now_ms: u64) -> Result<Plan<'a>, Refusal> {
    let options = set_options(call, 2, Id::GetEx)?;
    let is_number = options.lifetime.is_none_or(|new| parse_integer(call.args.at(new.index)).is_some());
    let invalid = if is_number { "ERR invalid expire time in 'getex' command" } else { NOT_AN_INTEGER };
    let at_ms = options.expires_at_ms(call, now_ms, "getex").map_err(|_| invalid);
    Ok(Plan::GetEx(at_ms.map(|at_ms| at_ms.or(options.persist.then_some(0)))))
}

/// MSET key value ...; with `only_absent` MSETNX.
pub(crate) fn mset(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, only_absent: bool) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        let name = if only_absent { "msetnx" } else { "mset" };
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let pairs = || call.args.from(1).step_by(2).zip(call.args.from(2).step_by(2));
    if only_absent {
        for (key, _) in pairs() {
            if alone.contains(call.database, key)? {
                reply::integer(call.out, 0);
                return Ok(());
            }
        }
    }
    if alone.space().in_file() {
        for (key, value) in pairs() {
            alone.put(call.database, key, value, Lifetime::Clear)?;
        }
    } else {
        let pairs: Vec<(&[u8], &[u8])> = pairs().collect();
        alone.put_many(call.database, &pairs, |_| Attributes::NONE).1?;
    }
    if only_absent {
        reply::integer(call.out, 1)
    } else {
        reply::ok(call.out)
    }
    Ok(())
}

/// MSETEX numkeys key value ...; with NX or XX and a lifetime
pub(crate) fn msetex(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let number = parse_integer(args.at(1)).filter(|&number| number > 0);
    let number = number.and_then(|number| usize::try_from(number).ok()).ok_or("ERR invalid numkeys value")?;
    let end = number.checked_mul(2).and_then(|words| words.checked_add(2)).filter(|&end| end <= args.len());
    let end = end.ok_or("ERR wrong number of key-value pairs")?;
    let options = set_options(call, end, Id::MSetEx)?;
    let lifetime = options.lifetime(call, alone.now_ms(), "msetex")?;
    for index in (2..end).step_by(2).filter(|_| options.only_absent || options.only_present) {
        if alone.contains(call.database, args.at(index))? == options.only_absent {
            reply::integer(call.out, 0);
            return Ok(());
        }
    }
    for index in (2..end).step_by(2) {
        alone.put(call.database, args.at(index), args.at(index + 1), lifetime)?;
    }
    reply::integer(call.out, 1);
    Ok(())
}

/// DIGEST key
pub(crate) fn digest(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    let (out, version) = (&mut *call.out, call.version);
    turn.with_value(call.database, call.args.at(1), |value| {
        reply::bulk_or_null(out, value.map(digest_of).as_ref().map(String::as_bytes), version);
    })?;
    Ok(())
}

/// DELEX key [IFEQ | IFNE | IFDEQ | IFDNE what]
pub(crate) fn delex(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.at(1);
    let comparison = match call.args.len() {
        2 => None,
        4 => Some(Comparison::parse(&call.args, 2)?.ok_or(SYNTAX)?),
        _ => return Err("ERR wrong number of arguments for 'delex' command".into()),
    };
    let mut value = Vec::new();
    let allowed = match comparison {
        None => true,
        Some(comparison) => alone.get(call.database, key, &mut value)? && comparison.allows(Some(&value)),
    };
    let removed = allowed && alone.remove(call.database, key)?;
    reply::integer(call.out, removed.into());
    Ok(())
}

/// `APPEND key value [MAXLEN bytes]`
pub(crate) fn append(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (key, tail) = (call.args.at(1), call.args.at(2));
    let len_max = append_limit(&call.args, call.value_bytes_max)?;
    let len = alone.value_len(call.database, key)?.unwrap_or(0);
    if len + tail.len() > len_max {
        return Err(too_long(len_max, call.value_bytes_max));
    }
    let len = alone.append(call.database, key, tail)?;
    reply::count(call.out, len as u64);
    Ok(())
}

/// The longest value that an APPEND may make: MAXLEN, but at most `value_bytes_max`.
pub(crate) fn append_limit(args: &Args<'_>, value_bytes_max: usize) -> Result<usize, Refusal> {
    if args.len() == 3 {
        return Ok(value_bytes_max);
    }
    if !args.is(3, "maxlen") {
        return Err(SYNTAX.into());
    }
    let len_max = usize::try_from(integer(args.at(4))?).map_err(|_| NOT_AN_INTEGER)?;
    Ok(len_max.min(value_bytes_max))
}

/// The refusal of an append beyond the limit that [`append_limit`] returned.
pub(crate) fn too_long(len_max: usize, value_bytes_max: usize) -> Refusal {
    if len_max == value_bytes_max {
        return TOO_LONG.into();
    }
    format!("MAXLEN the value would be longer than {len_max} bytes; nothing was appended").into()
}

/// SETRANGE key offset value
pub(crate) fn setrange(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (key, part) = (call.args.at(1), call.args.at(3));
    let offset = integer(call.args.at(2))?;
    let offset = usize::try_from(offset).map_err(|_| Refusal::from("ERR offset is out of range"))?;
    let len = if part.is_empty() {
        alone.value_len(call.database, key)?.unwrap_or(0)
    } else {
        if offset.checked_add(part.len()).is_none_or(|end| end > call.value_bytes_max) {
            // As in Redis, a value of another type is reported first.
            alone.value_len(call.database, key)?;
            return Err(TOO_LONG.into());
        }
        alone.put_part(call.database, key, offset, part)?
    };
    reply::count(call.out, len as u64);
    Ok(())
}

/// INCR, DECR
pub(crate) fn incr_by<'a>(increment: i64) -> Result<Plan<'a>, Refusal> {
    Ok(Plan::Add(increment))
}

/// INCRBY key increment
pub(crate) fn incr_by_argument<'a>(call: &Call<'_, 'a>, _: u64) -> Result<Plan<'a>, Refusal> {
    incr_by(integer(call.args.at(2))?)
}

/// DECRBY key decrement
pub(crate) fn decr_by<'a>(call: &Call<'_, 'a>, _: u64) -> Result<Plan<'a>, Refusal> {
    let decrement = integer(call.args.at(2))?;
    incr_by(decrement.checked_neg().ok_or("ERR decrement would overflow")?)
}

/// INCRBYFLOAT key increment
pub(crate) fn incr_by_float<'a>(call: &Call<'_, 'a>, _: u64) -> Result<Plan<'a>, Refusal> {
    Ok(Plan::AddDecimal(Decimal::parse(call.args.at(2)).ok_or(NOT_A_FLOAT)?))
}

#[cfg(test)]
mod tests {
    use super::range_of;

    #[test]
    fn ranges_are_inclusive_and_count_from_both_ends() {
        let text = "This is a string";
        let part = |start, end| &text[range_of(text.len(), start, end)];
        assert_eq!(part(0, 3), "This");
        assert_eq!(part(-3, -1), "ing");
        assert_eq!(part(0, -1), "This is a string");
        assert_eq!(part(10, 100), "string");
        assert_eq!(part(5, 2), "");
        assert_eq!(part(-100, 0), "T");
        assert_eq!(part(-1, -5), "");
        assert_eq!(range_of(0, 0, -1), 0..0);
        assert_eq!(range_of(3, i64::MIN, i64::MAX), 0..3);
    }
}
