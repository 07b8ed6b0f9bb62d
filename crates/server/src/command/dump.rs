//! DUMP and RESTORE: one value in the format of Redis's dump files, so that values can be moved between the servers.
//!
//! The format: `rdb/`. DUMP writes what Redis 7.0 writes, version 10, or what 7.4 writes, version 12, of a hash whose
//! fields have lifetimes; RESTORE reads versions up to 12.

use super::call::{Call, Outcome, Refusal, SYNTAX, Turn};
use super::number::parse_integer;
use super::reply;
use super::strings::integer;
use crate::keyspace::{self, EXPIRES_AT_MAX_MS, Exclusive, Kind};
use crate::rdb::{self, Form, Limits, RdbError, Value, stored};

/// DUMP key
pub(super) fn dump(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>) -> Outcome {
    match payload(turn, call.database, call.args.at(1))? {
        None => reply::null(call.out, call.version),
        Some(payload) => reply::bulk(call.out, &payload),
    }
    Ok(())
}

/// What DUMP returns for `key`; `None` if it is absent.
pub(super) fn payload(turn: &mut Turn<'_, '_>, database: usize, key: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(attributes) = turn.attributes(database, key)? else { return Ok(None) };
    let found = match attributes.kind {
        Kind::String => string(turn, database, key)?,
        kind => stored::collection(turn, database, key, kind)?,
    };
    Ok(found.map(|(value, form)| {
        let mut payload = Vec::new();
        rdb::encode(&mut payload, &value, form);
        payload
    }))
}

fn string(turn: &mut Turn<'_, '_>, database: usize, key: &[u8]) -> keyspace::Result<Option<(Value, Form)>> {
    let mut found = None;
    turn.with_value(database, key, |value| found = value.map(|value| (Value::String(value.to_vec()), Form::Packed)))?;
    Ok(found)
}

/// RESTORE key ttl serialized-value ...
pub(super) fn restore(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let args = call.args;
    let (mut replace, mut absolute) = (false, false);
    let mut index = 4;
    while index < args.len() {
        let value = args.get(index + 1);
        if args.is(index, "replace") {
            replace = true;
        } else if args.is(index, "absttl") {
            absolute = true;
        } else if let (true, Some(value)) = (args.is(index, "idletime"), value) {
            integer(value)?;
            parse_integer(value).filter(|&n| n >= 0).ok_or("ERR Invalid IDLETIME value, must be >= 0")?;
            index += 1;
        } else if let (true, Some(value)) = (args.is(index, "freq"), value) {
            let number = integer(value)?;
            if !(0..=255).contains(&number) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let key = args.at(1);
    if !replace && alone.contains(call.database, key)? {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = integer(args.at(2))?;
    let ttl = u64::try_from(ttl).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
    let base = if absolute || ttl == 0 { 0 } else { alone.now_ms() };
    let at_ms = ttl.checked_add(base).filter(|at_ms| *at_ms <= EXPIRES_AT_MAX_MS);
    let at_ms = at_ms.ok_or("ERR invalid expire time in 'restore' command")?;
    let limits = Limits { string_bytes: call.value_bytes_max as u64, value_bytes: call.reply_bytes_max as u64 };
    let value = decode(args.at(3), limits)?;
    if at_ms != 0 && at_ms <= alone.now_ms() {
        alone.remove(call.database, key)?;
    } else {
        stored::store(alone, call.database, key, &value, at_ms)?;
    }
    reply::ok(call.out);
    Ok(())
}

fn decode(payload: &[u8], limits: Limits) -> Result<Value, Refusal> {
    let body = rdb::body(payload).ok_or("ERR DUMP payload version or checksum are wrong")?;
    let refused = |error: RdbError| Refusal::about("ERR Bad data format: ", error.to_string().as_bytes(), "");
    rdb::value_of(body, limits).map_err(refused)
}
