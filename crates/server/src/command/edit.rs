//! Edits: commands that read and change the value of one key, as a change under the latch of the key's bucket.
//!
//! ```text
//! request -> plan (strings.rs, lifetime.rs) -> run of several     Shared::edit_many, or put_many where nothing is read
//!                                           -> alone, in EXEC     Exclusive::edit
//! ```
//!
//! Not here: parsing of options, and commands that need more than one key.

use super::call::{Call, NOT_A_FLOAT, NOT_AN_INTEGER, Outcome, Refusal, WRONG_TYPE};
use super::comparison::Comparison;
use super::number::{Decimal, parse_integer};
use super::reply::{self, Version};
use crate::keyspace::{Attributes, Edit, Exclusive, Kind, New, Old};

/// A command on one key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan<'a> {
    /// Stores a value.
    Store(Store<'a>),
    /// Adds to a whole number.
    Add(i64),
    /// Adds to a decimal number.
    AddDecimal(Decimal),
    /// Sets when the key expires, if the conditions hold.
    ExpireAt(i64, Conditions),
    /// Removes the lifetime.
    Persist,
    /// Returns the value, and sets when the key expires: 0 for never, `None` for no change. An invalid time is an error
    /// only if the key is present.
    GetEx(Result<Option<i64>, &'static str>),
}

/// How to store a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) lifetime: NewLifetime,
    /// Only if the key is absent, or present.
    pub(crate) only_absent: bool,
    pub(crate) only_present: bool,
    /// Only if it allows the old value.
    pub(crate) comparison: Option<Comparison<'a>>,
    pub(crate) answer: StoreAnswer,
}

/// When a stored key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewLifetime {
    Never,
    /// Unchanged.
    Kept,
    /// In Unix milliseconds.
    At(u64),
}

/// The reply of a command that stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreAnswer {
    /// OK, or null if nothing was stored.
    Ok,
    /// 1 or 0.
    Number,
    /// The old value.
    Old,
}

/// The conditions NX, XX, GT and LT under which a lifetime is changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions {
    /// Only if the key has no lifetime.
    pub(crate) none: bool,
    /// Only if the key has one.
    pub(crate) some: bool,
    /// Only to a later time; never is the latest.
    pub(crate) later: bool,
    pub(crate) earlier: bool,
}

/// The longest text of a whole number that is read.
const DIGITS_MAX: usize = 20;

impl<'a> Plan<'a> {
    /// The value and the attributes that the key gets whatever its old value is, with the reply OK; else `None`.
    pub(crate) fn store_always(&self) -> Option<(&'a [u8], Attributes)> {
        let Plan::Store(store) = *self else { return None };
        let Store {
            value,
            lifetime,
            only_absent: false,
            only_present: false,
            comparison: None,
            answer: StoreAnswer::Ok,
        } = store
        else {
            return None;
        };
        match lifetime {
            NewLifetime::Never => Some((value, Attributes::NONE)),
            NewLifetime::At(at_ms) => Some((value, Attributes::expiring(at_ms))),
            NewLifetime::Kept => None,
        }
    }

    /// The length of the value that it stores, in addition to a short old value.
    pub(crate) fn new_bytes(&self) -> usize {
        match self {
            Plan::Store(store) => store.value.len(),
            _ => DIGITS_MAX,
        }
    }

    /// Whether it needs the old value, which then must not be a collection.
    fn reads_value(&self) -> bool {
        match self {
            Plan::Store(store) => store.comparison.is_some() || store.answer == StoreAnswer::Old,
            Plan::Add(_) | Plan::AddDecimal(_) | Plan::GetEx(_) => true,
            Plan::ExpireAt(..) | Plan::Persist => false,
        }
    }

    /// Makes the change, and writes the reply.
    pub(crate) fn apply(
        &self,
        old: Option<Old<'_>>,
        new: &mut New<'_>,
        now_ms: u64,
        version: Version,
        out: &mut Vec<u8>,
    ) -> Result<Edit, Refusal> {
        let attributes = old.map_or(Attributes::NONE, |old| old.attributes);
        if attributes.kind != Kind::String && self.reads_value() {
            return Err(WRONG_TYPE.into());
        }
        Ok(match *self {
            Plan::Store(store) => {
                if store.comparison.is_some() && old.is_some_and(|old| !old.is_whole()) {
                    return Ok(Edit::Alone);
                }
                let refused = store.only_absent && old.is_some()
                    || store.only_present && old.is_none()
                    || store.comparison.is_some_and(|comparison| !comparison.allows(old.map(|old| old.value)));
                match store.answer {
                    StoreAnswer::Ok if refused => reply::null(out, version),
                    StoreAnswer::Ok => reply::ok(out),
                    StoreAnswer::Number => reply::integer(out, (!refused).into()),
                    StoreAnswer::Old if old.is_some_and(|old| !old.is_whole()) => return Ok(Edit::Alone),
                    StoreAnswer::Old => reply::bulk_or_null(out, old.map(|old| old.value), version),
                }
                let attributes = match store.lifetime {
                    NewLifetime::Never => Attributes::NONE,
                    NewLifetime::Kept => Attributes { cas: 0, kind: Kind::String, ..attributes },
                    NewLifetime::At(at_ms) => Attributes::expiring(at_ms),
                };
                if refused { Edit::Keep } else { new.put(attributes, store.value) }
            }
            Plan::Add(increment) => {
                let number = match old {
                    Some(old) if old.len > DIGITS_MAX => return Err(NOT_AN_INTEGER.into()),
                    Some(old) => parse_integer(old.value).ok_or(NOT_AN_INTEGER)?,
                    None => 0,
                };
                let number = number.checked_add(increment).ok_or("ERR increment or decrement would overflow")?;
                reply::integer(out, number);
                new.put(Attributes { cas: 0, ..attributes }, itoa::Buffer::new().format(number).as_bytes())
            }
            Plan::AddDecimal(increment) => {
                let number = match old {
                    Some(old) if old.len > Decimal::TEXT_BYTES_MAX => return Err(NOT_A_FLOAT.into()),
                    Some(old) if !old.is_whole() => return Ok(Edit::Alone),
                    Some(old) => Decimal::parse(old.value).ok_or(NOT_A_FLOAT)?,
                    None => Decimal::Exact(0),
                };
                let sum = number.plus(increment).ok_or("ERR increment would produce NaN or Infinity")?.text();
                reply::bulk(out, sum.as_bytes());
                new.put(Attributes { cas: 0, ..attributes }, sum.as_bytes())
            }
            Plan::ExpireAt(at_ms, conditions) => {
                let Some(old) = old else {
                    reply::integer(out, 0);
                    return Ok(Edit::Keep);
                };
                // At most `EXPIRES_AT_MAX_MS`.
                let is_allowed = conditions.allow(attributes.expires_at_ms as i64, at_ms);
                reply::integer(out, is_allowed.into());
                if is_allowed { expire(&old, new, at_ms, now_ms) } else { Edit::Keep }
            }
            Plan::Persist => {
                let old = old.filter(|old| old.attributes.expires_at_ms != 0);
                reply::integer(out, old.is_some().into());
                old.map_or(Edit::Keep, |old| new.set_attributes(&old, Attributes { expires_at_ms: 0, ..attributes }))
            }
            Plan::GetEx(at_ms) => {
                let Some(old) = old else {
                    reply::null(out, version);
                    return Ok(Edit::Keep);
                };
                let at_ms = at_ms?;
                if !old.is_whole() {
                    return Ok(Edit::Alone);
                }
                reply::bulk(out, old.value);
                match at_ms {
                    None => Edit::Keep,
                    Some(0) => new.set_attributes(&old, Attributes { expires_at_ms: 0, ..attributes }),
                    Some(at_ms) => expire(&old, new, at_ms, now_ms),
                }
            }
        })
    }
}

/// Makes the key expire, now if that time is past.
fn expire(old: &Old<'_>, new: &mut New<'_>, at_ms: i64, now_ms: u64) -> Edit {
    match u64::try_from(at_ms) {
        Ok(at_ms) if at_ms > now_ms => new.set_attributes(old, Attributes { expires_at_ms: at_ms, ..old.attributes }),
        _ => Edit::Remove,
    }
}

impl Conditions {
    /// Whether they allow changing a key's expiry time from `now`, 0 for never, to `at_ms`.
    fn allow(&self, now: i64, at_ms: i64) -> bool {
        !(self.none && now != 0
            || self.some && now == 0
            || self.later && (now == 0 || at_ms <= now)
            || self.earlier && now != 0 && at_ms >= now)
    }
}

/// Executes a plan with exclusive entry.
pub(crate) fn execute(alone: &mut Exclusive<'_>, call: &mut Call<'_, '_>, plan: &Plan<'_>) -> Outcome {
    let (start, now_ms, version) = (call.out.len(), alone.now_ms(), call.version);
    let out = &mut *call.out;
    let mut refusal = None;
    alone.edit(call.database, call.args.at(1), |old, new| {
        // It is called again where it needs the whole of a large value.
        out.truncate(start);
        plan.apply(old, new, now_ms, version, out).unwrap_or_else(|refused| {
            refusal = Some(refused);
            Edit::Keep
        })
    })?;
    refusal.map_or(Ok(()), Err)
}
