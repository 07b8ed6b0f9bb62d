//! Lifetimes of the fields of hashes: HEXPIRE and its family, and HGETEX, HSETEX, HGETDEL. How they are stored:
//! `keyspace/collections/fields/`.
//!
//! Redis 7.4 introduced HEXPIRE and its family, Redis 8.0 the other three. Replies and errors are the same as in Redis
//! 8.2. Each command names its keyspace events itself. Not here: the sweep of expired fields
//! (`keyspace/upkeep/sweep.rs`).

use super::call::{Args, Call, Outcome, REPLY_TOO_LONG, Refusal, Turn};
use super::hashes::{open, open_mut};
use super::lifetime::{MILLISECONDS, SECONDS, UNIX_MILLISECONDS, UNIX_SECONDS, Unit};
use super::number::parse_integer;
use super::reply;
use super::strings::integer;
use crate::keyspace::collections::fields::{EXPIRY_MAX, Expiry, FieldsMut};
use crate::keyspace::{Exclusive, PairsMut};

/// Replies for a field.
const ABSENT: i64 = -2;
const NO_LIFETIME: i64 = -1;
const NOT_MET: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

const NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const NOT_THAT_MANY: &str = "ERR The `numfields` parameter must match the number of arguments";
const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// When a lifetime of this many units ends, in Unix milliseconds.
fn time_of(argument: &[u8], unit: Unit, now_ms: u64, name: &str) -> Result<u64, Refusal> {
    let number = u64::try_from(integer(argument)?).map_err(|_| "ERR invalid expire time, must be >= 0")?;
    let base = if unit.absolute { 0 } else { now_ms };
    let at_ms = number.checked_mul(unit.ms.unsigned_abs()).and_then(|ms| ms.checked_add(base));
    let at_ms = at_ms.filter(|at_ms| *at_ms <= EXPIRY_MAX);
    at_ms.ok_or_else(|| format!("ERR invalid expire time in '{name}' command").into())
}

/// The fields after `FIELDS number`, which begins at `index`.
fn fields_from<'a>(
    args: Args<'a>,
    index: usize,
    not_positive: &'static str,
) -> Result<impl ExactSizeIterator<Item = &'a [u8]> + Clone, Refusal> {
    if !args.is(index, "fields") {
        return Err(NO_FIELDS.into());
    }
    let number = args.get(index + 1).and_then(parse_integer).filter(|number| *number > 0).ok_or(not_positive)?;
    let fields = args.from(index + 2);
    if usize::try_from(number) != Ok(fields.len()) {
        return Err(NOT_THAT_MANY.into());
    }
    Ok(fields)
}

/// The condition of HEXPIRE.
#[derive(Clone, Copy)]
enum Condition {
    None,
    Absent,
    Present,
    Later,
    Earlier,
}

impl Condition {
    /// Whether a lifetime that ends at `before_ms`, 0 for none, may be replaced.
    fn allows(self, before_ms: u64, at_ms: u64) -> bool {
        match self {
            Condition::None => true,
            Condition::Absent => before_ms == 0,
            Condition::Present => before_ms != 0,
            Condition::Later => before_ms != 0 && at_ms > before_ms,
            Condition::Earlier => before_ms == 0 || at_ms < before_ms,
        }
    }
}

/// HEXPIRE, HPEXPIRE, HEXPIREAT, HPEXPIREAT: key time \[NX | XX | GT | LT\] FIELDS number field ...
pub(super) fn expire(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, unit: Unit, name: &str) -> Outcome {
    let (args, now_ms, database) = (call.args, alone.now_ms(), call.database);
    let mut hash = open_mut(alone, call)?;
    let at_ms = time_of(args.at(2), unit, now_ms, name)?;
    let conditions =
        [("nx", Condition::Absent), ("xx", Condition::Present), ("gt", Condition::Later), ("lt", Condition::Earlier)];
    let condition = conditions.into_iter().find(|(word, _)| args.is(3, word)).map(|(_, condition)| condition);
    let fields =
        fields_from(args, 3 + usize::from(condition.is_some()), "ERR Parameter `numFields` should be greater than 0")?;
    let condition = condition.unwrap_or(Condition::None);
    let (mut value, mut is_changed) = (Vec::new(), false);
    reply::array(call.out, fields.len());
    for field in fields {
        let answer = match hash.expiry(field)? {
            None => ABSENT,
            Some(before_ms) if !condition.allows(before_ms, at_ms) => NOT_MET,
            Some(_) => {
                is_changed = true;
                expire_field(&mut hash, field, at_ms, now_ms, &mut value)?
            }
        };
        reply::integer(call.out, answer);
    }
    let is_left = hash.finish()?;
    if is_changed {
        note(alone, (database, args.at(1)), if at_ms > now_ms { "hexpire" } else { "hdel" }, is_left);
    }
    Ok(())
}

/// Sets the lifetime of a field that is present, or removes the field if that time is past.
fn expire_field(
    hash: &mut FieldsMut<'_, '_>,
    field: &[u8],
    at_ms: u64,
    now_ms: u64,
    value: &mut Vec<u8>,
) -> Result<i64, Refusal> {
    if at_ms <= now_ms {
        hash.remove(field)?;
        return Ok(REMOVED);
    }
    hash.get(field, value)?;
    hash.put_with_expiry(field, value, Expiry::At(at_ms))?;
    Ok(DONE)
}

/// Records the event of a change, and a second one if the key is gone.
fn note(alone: &mut Exclusive<'_>, (database, key): (usize, &[u8]), event: &'static str, is_left: bool) {
    alone.note_event(database, key, event);
    if !is_left {
        alone.note_event(database, key, "del");
    }
}

/// HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME: key FIELDS number field ...
pub(super) fn ttl(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, unit: Unit) -> Outcome {
    let hash = open(turn, call)?;
    let fields = fields_from(call.args, 2, NOT_POSITIVE)?;
    let base = if unit.absolute { 0 } else { turn.now_ms() };
    let mut value = Vec::new();
    reply::array(call.out, fields.len());
    for field in fields {
        let found = match &hash {
            Some(hash) => hash.get_with_expiry(turn, field, &mut value)?,
            None => None,
        };
        reply::integer(
            call.out,
            match found {
                None => ABSENT,
                Some(0) => NO_LIFETIME,
                // Of a field that has not expired, rounded up.
                Some(at_ms) => at_ms.saturating_sub(base).div_ceil(unit.ms.unsigned_abs()) as i64, // `EXPIRY_MAX`
            },
        );
    }
    Ok(())
}

/// HPERSIST key FIELDS number field ...
pub(super) fn persist(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (args, database) = (call.args, call.database);
    let mut hash = open_mut(alone, call)?;
    let fields = fields_from(args, 2, NOT_POSITIVE)?;
    let (mut value, mut is_changed) = (Vec::new(), false);
    reply::array(call.out, fields.len());
    for field in fields {
        let answer = match hash.expiry(field)? {
            None => ABSENT,
            Some(0) => NO_LIFETIME,
            Some(_) => {
                hash.get(field, &mut value)?;
                hash.put(field, &value)?;
                is_changed = true;
                DONE
            }
        };
        reply::integer(call.out, answer);
    }
    hash.finish()?;
    if is_changed {
        alone.note_event(database, args.at(1), "hpersist");
    }
    Ok(())
}

/// Refuses a reply with the values of these fields if it would be too long. Call it before anything changes.
fn check_reply<'a>(
    hash: &mut FieldsMut<'_, '_>,
    fields: impl Iterator<Item = &'a [u8]>,
    bytes_max: usize,
    value: &mut Vec<u8>,
) -> Outcome {
    let mut bytes = 0;
    for field in fields {
        hash.get(field, value)?;
        bytes += value.len() + 16; // its length and line ends
        if bytes > bytes_max {
            return Err(REPLY_TOO_LONG.into());
        }
    }
    Ok(())
}

/// Replies with the value of a field. Returns whether it is present.
fn reply_value(
    hash: &mut FieldsMut<'_, '_>,
    field: &[u8],
    call: &mut Call<'_, '_>,
    value: &mut Vec<u8>,
) -> Result<bool, Refusal> {
    let is_present = hash.get(field, value)?;
    reply::bulk_or_null(call.out, is_present.then_some(value.as_slice()), call.version);
    Ok(is_present)
}

/// HGETDEL key FIELDS number field ...
pub(super) fn hgetdel(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (args, database) = (call.args, call.database);
    let mut hash = open_mut(alone, call)?;
    let fields = fields_from(args, 2, NOT_POSITIVE)?;
    let (mut value, mut is_changed) = (Vec::new(), false);
    check_reply(&mut hash, fields.clone(), call.reply_bytes_max, &mut value)?;
    reply::array(call.out, fields.len());
    for field in fields {
        if reply_value(&mut hash, field, call, &mut value)? {
            hash.remove(field)?;
            is_changed = true;
        }
    }
    let is_left = hash.finish()?;
    if is_changed {
        note(alone, (database, args.at(1)), "hdel", is_left);
    }
    Ok(())
}

/// The unit of a lifetime option, such as EX.
fn unit_at(args: &Args<'_>, index: usize) -> Option<Unit> {
    let units = [("ex", SECONDS), ("px", MILLISECONDS), ("exat", UNIX_SECONDS), ("pxat", UNIX_MILLISECONDS)];
    units.into_iter().find(|(word, _)| args.is(index, word)).map(|(_, unit)| unit)
}

/// HGETEX key \[EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST\] FIELDS number field ...
pub(super) fn hgetex(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let (args, database, now_ms) = (call.args, call.database, alone.now_ms());
    let mut hash = open_mut(alone, call)?;
    let (at_ms, index) = match unit_at(&args, 2) {
        Some(unit) => (Some(time_of(args.at(3), unit, now_ms, "hgetex")?), 4),
        None if args.is(2, "persist") => (Some(0), 3),
        None => (None, 2),
    };
    let fields = fields_from(args, index, NOT_POSITIVE)?;
    let (is_persist, mut is_changed, mut value) = (index == 3, false, Vec::new());
    check_reply(&mut hash, fields.clone(), call.reply_bytes_max, &mut value)?;
    reply::array(call.out, fields.len());
    for field in fields {
        if !reply_value(&mut hash, field, call, &mut value)? {
            continue;
        }
        let Some(at_ms) = at_ms else { continue };
        if !is_persist {
            expire_field(&mut hash, field, at_ms, now_ms, &mut value)?;
            is_changed = true;
        } else if hash.expiry(field)?.is_some_and(|before_ms| before_ms != 0) {
            hash.put(field, &value)?;
            is_changed = true;
        }
    }
    let is_left = hash.finish()?;
    if is_changed {
        let event = match at_ms {
            _ if is_persist => "hpersist",
            Some(at_ms) if at_ms > now_ms => "hexpire",
            _ => "hdel",
        };
        note(alone, (database, args.at(1)), event, is_left);
    }
    Ok(())
}

/// HSETEX key \[FNX | FXX\] \[EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL\] FIELDS number field
/// value ...
pub(super) fn hsetex(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    const ONE_LIFETIME: &str = "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified";
    let (args, database, now_ms) = (call.args, call.database, alone.now_ms());
    let (mut expiry, mut must_be_present, mut index) = (None, None, 2);
    while !args.is(index, "fields") {
        let condition = [("fnx", false), ("fxx", true)].into_iter().find(|(word, _)| args.is(index, word));
        if let Some((_, is_present)) = condition {
            if must_be_present.replace(is_present).is_some() {
                return Err("ERR Only one of FXX or FNX arguments can be specified".into());
            }
        } else if args.is(index, "keepttl") {
            if expiry.replace(Expiry::Keep).is_some() {
                return Err(ONE_LIFETIME.into());
            }
        } else if let Some(unit) = unit_at(&args, index) {
            index += 1;
            let number = args.get(index).ok_or("ERR missing expire time")?;
            if expiry.is_some() {
                return Err(ONE_LIFETIME.into());
            }
            expiry = Some(Expiry::At(time_of(number, unit, now_ms, "hsetex")?));
        } else {
            let Some(argument) = args.get(index) else { return Err(NO_FIELDS.into()) };
            return Err(Refusal::about("ERR unknown argument: ", argument, ""));
        }
        index += 1;
    }
    let number = args.get(index + 1).and_then(parse_integer).filter(|number| *number > 0);
    let number = number.and_then(|number| usize::try_from(number).ok()).ok_or("ERR invalid number of fields")?;
    let first = index + 2;
    if number.checked_mul(2) != Some(args.len() - first) {
        return Err("ERR wrong number of arguments for 'hsetex' command".into());
    }
    let pairs = || args.from(first).step_by(2).zip(args.from(first + 1).step_by(2));
    let mut hash = open_mut(alone, call)?;
    if let Some(must_be_present) = must_be_present {
        for (field, _) in pairs() {
            if hash.expiry(field)?.is_some() != must_be_present {
                hash.finish()?;
                reply::integer(call.out, 0);
                return Ok(());
            }
        }
    }
    let is_over = matches!(expiry, Some(Expiry::At(at_ms)) if at_ms <= now_ms);
    for (field, value) in pairs() {
        if is_over {
            hash.remove(field)?;
        } else {
            hash.put_with_expiry(field, value, expiry.unwrap_or(Expiry::At(0)))?;
        }
    }
    let is_left = hash.finish()?;
    alone.note_event(database, args.at(1), "hset");
    if let Some(Expiry::At(_)) = expiry {
        note(alone, (database, args.at(1)), if is_over { "hdel" } else { "hexpire" }, is_left);
    }
    reply::integer(call.out, 1);
    Ok(())
}
