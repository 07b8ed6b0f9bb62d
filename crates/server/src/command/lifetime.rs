//! Commands that set or report when keys expire.

use super::call::{Call, Outcome, Refusal, Turn};
use super::reply;
use super::strings::integer;
use crate::keyspace::{Attributes, Exclusive};

/// Whether a command counts seconds or milliseconds, and from when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Milliseconds in a unit.
    pub(crate) ms: i64,
    /// Counted from 1970 instead of from now.
    pub(crate) absolute: bool,
}

pub(super) const SECONDS: Unit = Unit { ms: 1000, absolute: false };
pub(super) const MILLISECONDS: Unit = Unit { ms: 1, absolute: false };
pub(super) const UNIX_SECONDS: Unit = Unit { ms: 1000, absolute: true };
pub(super) const UNIX_MILLISECONDS: Unit = Unit { ms: 1, absolute: true };

/// The conditions NX, XX, GT and LT under which a lifetime is changed.
#[derive(Clone, Copy, Default)]
struct Conditions {
    /// Only if the key has no lifetime.
    none: bool,
    /// Only if the key has one.
    some: bool,
    /// Only to a later time; never is the latest.
    later: bool,
    earlier: bool,
}

/// EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT
pub(crate) fn expire(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, unit: Unit, name: &str) -> Outcome {
    let conditions = conditions(call)?;
    let number = integer(call.args.at(2))?;
    let invalid = || Refusal::from(format!("ERR invalid expire time in '{name}' command"));
    let base = if unit.absolute { 0 } else { alone.now_ms() as i64 }; // far below 2^63
    let at_ms = number.checked_mul(unit.ms).and_then(|ms| ms.checked_add(base)).ok_or_else(invalid)?;
    let key = call.args.at(1);
    let changed = alone.contains(call.database, key)? && {
        let attributes = alone.attributes(call.database, key)?;
        let now = attributes.expires_at_ms as i64; // set from an i64
        let allowed = !(conditions.none && now != 0
            || conditions.some && now == 0
            || conditions.later && (now == 0 || at_ms <= now)
            || conditions.earlier && now != 0 && at_ms >= now);
        if allowed && at_ms <= alone.now_ms() as i64 {
            alone.remove(call.database, key)?;
        } else if allowed {
            alone.set_attributes(call.database, key, Attributes { expires_at_ms: at_ms as u64, ..attributes })?;
        }
        allowed
    };
    reply::integer(call.out, changed.into());
    Ok(())
}

fn conditions(call: &Call<'_, '_>) -> Result<Conditions, Refusal> {
    let mut conditions = Conditions::default();
    for argument in call.args.from(3) {
        match argument.to_ascii_lowercase().as_slice() {
            b"nx" => conditions.none = true,
            b"xx" => conditions.some = true,
            b"gt" => conditions.later = true,
            b"lt" => conditions.earlier = true,
            _ => return Err(Refusal::about("ERR Unsupported option ", argument, "")),
        }
    }
    let Conditions { none, some, later, earlier } = conditions;
    if none && (some || later || earlier) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if later && earlier {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(conditions)
}

/// TTL, PTTL, EXPIRETIME, PEXPIRETIME: -2 for an absent key, -1 for one that never expires.
pub(crate) fn ttl(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, unit: Unit) -> Outcome {
    let key = call.args.at(1);
    // Read the attributes first: if the key is stored again between the two lookups, the new value must not be
    // reported with the old lifetime.
    let attributes = turn.attributes(call.database, key)?;
    let left = match (turn.contains(call.database, key)?, attributes.expires_at_ms as i64) {
        (false, _) => -2,
        (true, 0) => -1,
        (true, at_ms) if unit.absolute => (at_ms + if unit.ms == 1 { 0 } else { 500 }) / unit.ms,
        (true, at_ms) => ((at_ms - turn.now_ms() as i64).max(0) + unit.ms / 2) / unit.ms,
    };
    reply::integer(call.out, left);
    Ok(())
}

/// PERSIST key
pub(crate) fn persist(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>) -> Outcome {
    let key = call.args.at(1);
    let attributes = alone.attributes(call.database, key)?;
    let had = attributes.expires_at_ms != 0
        && alone.set_attributes(call.database, key, Attributes { expires_at_ms: 0, ..attributes })?;
    reply::integer(call.out, had.into());
    Ok(())
}
