//! Commands that set or report when keys expire.

use super::call::{Call, Outcome, Refusal, Turn};
use super::edit::{Conditions, Plan};
use super::reply;
use super::strings::integer;

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

/// EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT
pub(crate) fn expire<'a>(call: &Call<'_, 'a>, now_ms: u64, unit: Unit, name: &str) -> Result<Plan<'a>, Refusal> {
    let conditions = conditions(call)?;
    let number = integer(call.args.at(2))?;
    let invalid = || Refusal::from(format!("ERR invalid expire time in '{name}' command"));
    let base = if unit.absolute { 0 } else { now_ms as i64 }; // far below 2^63
    let at_ms = number.checked_mul(unit.ms).and_then(|ms| ms.checked_add(base)).ok_or_else(invalid)?;
    Ok(Plan::ExpireAt(at_ms, conditions))
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

/// Milliseconds in whole units.
fn rounded(ms: i64, unit: Unit) -> i64 {
    ms / unit.ms + i64::from(unit.ms > 1 && ms % unit.ms >= unit.ms / 2)
}

/// TTL, PTTL, EXPIRETIME, PEXPIRETIME: -2 for an absent key, -1 for one that never expires.
pub(crate) fn ttl(turn: &mut Turn<'_, '_>, call: &mut Call<'_, '_>, unit: Unit) -> Outcome {
    let key = call.args.at(1);
    let known = turn.attributes(call.database, key)?;
    // At most `EXPIRES_AT_MAX_MS`, which fits.
    let left = match known.map(|attributes| attributes.expires_at_ms as i64) {
        None => -2,
        Some(0) => -1,
        Some(at_ms) if unit.absolute => rounded(at_ms, unit),
        Some(at_ms) => rounded((at_ms - turn.now_ms() as i64).max(0), unit),
    };
    reply::integer(call.out, left);
    Ok(())
}
