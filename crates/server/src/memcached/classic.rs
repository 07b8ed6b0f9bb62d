//! The classic commands, executed with exclusive entry to the key space.

use super::DATABASE;
use super::number;
use super::request::{Get, Mode, Store, words};
use crate::keyspace::{Attributes, Exclusive, Lifetime, Result};
use crate::planted::{Bug, planted};

/// Expiry times up to this many seconds count from now; larger ones are Unix times.
const RELATIVE_MAX_S: i32 = 60 * 60 * 24 * 30;

/// Converts a client's expiry time to Unix milliseconds; 0 means never.
pub(super) fn deadline(exptime: i32, now_ms: u64) -> u64 {
    match u64::try_from(exptime) {
        Ok(0) => 0,
        Ok(seconds) if exptime <= RELATIVE_MAX_S => now_ms + seconds * 1000,
        Ok(seconds) => seconds * 1000,
        // Negative: expired long ago.
        Err(_) => 1,
    }
}

/// The result of storing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Yes,
    /// Not stored: the condition on the key's presence does not hold.
    No,
    /// Not stored: the key has another CAS number.
    Exists,
    /// Not stored: the key is absent, so there is no CAS number to compare.
    NotFound,
}

/// How to store a value: the parts that the classic and meta commands share, and those that only `ms` has.
#[derive(Clone, Copy, Default)]
pub(super) struct Storing {
    pub(super) mode: Mode,
    pub(super) flags: u32,
    /// The result of [`deadline`].
    pub(super) expires_at_ms: u64,
    /// The CAS number to compare; 0 for none.
    pub(super) cas: u64,
    /// With `Mode::Cas`: if the CAS number is older than the key's, the value is stored but marked as stale.
    pub(super) invalidate: bool,
    /// With `Mode::Append` and `Mode::Prepend`: an absent key is created and expires at this time.
    pub(super) vivify_at_ms: Option<u64>,
}

impl Storing {
    pub(super) fn of(store: &Store<'_>, now_ms: u64) -> Storing {
        Storing {
            mode: store.mode,
            flags: store.flags,
            expires_at_ms: deadline(store.exptime, now_ms),
            cas: store.cas,
            ..Storing::default()
        }
    }
}

/// The attributes that a set gives its key; `None` if the value would already have expired.
pub(super) fn attributes_of(store: &Store<'_>, now_ms: u64) -> Option<Attributes> {
    let of_time = |expires_at_ms| Attributes { expires_at_ms, flags: store.flags, ..Attributes::NONE };
    // A set without an expiry time needs no clock.
    match store.exptime {
        0 => Some(of_time(0)),
        exptime => Some(of_time(deadline(exptime, now_ms))).filter(|attributes| !attributes.expired(now_ms)),
    }
}

/// Stores `data`, if the conditions hold.
pub(super) fn store(alone: &mut Exclusive<'_>, key: &[u8], data: &[u8], storing: Storing) -> Result<Stored> {
    let Storing { mode, flags, expires_at_ms, cas, invalidate, vivify_at_ms } = storing;
    let fresh = Attributes { expires_at_ms, flags, ..Attributes::default() };
    let present = mode != Mode::Set && alone.contains(DATABASE, key)?;
    match mode {
        Mode::Set => {}
        Mode::Add if present => return Ok(Stored::No),
        Mode::Add => {}
        Mode::Replace if !present => return Ok(Stored::No),
        Mode::Replace => {}
        Mode::Cas if !present => return Ok(Stored::NotFound),
        Mode::Cas => {
            let now = alone.cas_of(DATABASE, key)?.unwrap_or_default();
            if invalidate && cas != 0 && cas < now {
                let old = alone.attributes(DATABASE, key)?;
                let marks = Attributes::STALE | old.marks & Attributes::CLAIMED;
                put(alone, key, data, Attributes { marks, expires_at_ms: old.expires_at_ms, ..fresh })?;
                return Ok(Stored::Yes);
            }
            if cas != now {
                return Ok(Stored::Exists);
            }
        }
        Mode::Append | Mode::Prepend if !present => {
            let Some(expires_at_ms) = vivify_at_ms else { return Ok(Stored::No) };
            put(alone, key, data, Attributes { expires_at_ms, ..fresh })?;
            return Ok(Stored::Yes);
        }
        Mode::Append | Mode::Prepend => {
            if cas != 0 && alone.cas_of(DATABASE, key)? != Some(cas) {
                return Ok(Stored::Exists);
            }
            join(alone, key, data, mode == Mode::Append)?;
            return Ok(Stored::Yes);
        }
    }
    put(alone, key, data, fresh)?;
    Ok(Stored::Yes)
}

/// Stores `data`, or removes the key if it would already have expired.
pub(super) fn put(alone: &mut Exclusive<'_>, key: &[u8], data: &[u8], attributes: Attributes) -> Result<()> {
    if attributes.expired(alone.now_ms()) {
        alone.remove(DATABASE, key)?;
        return Ok(());
    }
    alone.put(DATABASE, key, data, Lifetime::Are(attributes))
}

fn join(alone: &mut Exclusive<'_>, key: &[u8], data: &[u8], behind: bool) -> Result<()> {
    let attributes = alone.attributes(DATABASE, key)?;
    if behind {
        alone.append(DATABASE, key, data)?;
    } else {
        let mut old = Vec::new();
        alone.get(DATABASE, key, &mut old)?;
        alone.put(DATABASE, key, &[data, &old].concat(), Lifetime::Keep)?;
    }
    // The marks are about the old value.
    if attributes.marks != 0 {
        let kept = alone.attributes(DATABASE, key)?;
        alone.set_attributes(DATABASE, key, Attributes { marks: 0, ..kept })?;
    }
    Ok(())
}

/// The result of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The new number, and whether its text became longer.
    Is(u64, bool),
    NotFound,
    NoNumber,
    /// The key has another CAS number.
    Exists,
}

/// Adds to a number, modulo 2^64, or subtracts from it, but not below 0.
pub(super) fn count(alone: &mut Exclusive<'_>, key: &[u8], delta: u64, up: bool, cas: u64) -> Result<Counted> {
    /// Longer values are not numbers, as in memcached, which stores them in several chunks.
    const LEN_MAX: usize = 512 << 10;
    if !alone.contains(DATABASE, key)? {
        return Ok(Counted::NotFound);
    }
    let mut value = Vec::new();
    alone.get_part(DATABASE, key, |len| if len <= LEN_MAX { 0..len } else { 0..0 }, &mut value)?;
    if value.is_empty() {
        return Ok(Counted::NoNumber);
    }
    if cas != 0 && alone.cas_of(DATABASE, key)? != Some(cas) {
        return Ok(Counted::Exists);
    }
    let Some(old) = number::u64(&value) else { return Ok(Counted::NoNumber) };
    let new = if up { old.wrapping_add(delta) } else { old.saturating_sub(delta) };
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(new).as_bytes();
    // As in memcached, a shorter number is padded to the length of the old one.
    let len = value.len().max(digits.len());
    let longer = len > value.len();
    value.clear();
    value.extend_from_slice(digits);
    value.resize(len, b' ');
    alone.put(DATABASE, key, &value, Lifetime::Keep)?;
    Ok(Counted::Is(new, longer))
}

/// Changes when a key expires. Returns whether it is present.
pub(super) fn touch(alone: &mut Exclusive<'_>, key: &[u8], exptime: i32) -> Result<bool> {
    if !alone.contains(DATABASE, key)? {
        return Ok(false);
    }
    let mut attributes = alone.attributes(DATABASE, key)?;
    if planted(Bug::TouchTakesNumber) {
        attributes.cas = 0;
    }
    expire_at(alone, key, Attributes { expires_at_ms: deadline(exptime, alone.now_ms()), ..attributes })?;
    Ok(true)
}

/// Sets the attributes of a key, or removes the key if it would already have expired.
pub(super) fn expire_at(alone: &mut Exclusive<'_>, key: &[u8], attributes: Attributes) -> Result<()> {
    if attributes.expired(alone.now_ms()) {
        alone.remove(DATABASE, key)?;
    } else {
        alone.set_attributes(DATABASE, key, attributes)?;
    }
    Ok(())
}

/// gat, gats: returns values, with or without CAS numbers, and sets new expiry times. Returns the number of keys found.
pub(super) fn get(alone: &mut Exclusive<'_>, get: &Get<'_>, out: &mut Vec<u8>) -> Result<u64> {
    let mut value = Vec::new();
    let mut hits = 0;
    for key in words(get.keys) {
        if !alone.get(DATABASE, key, &mut value)? {
            continue;
        }
        hits += 1;
        let cas = if get.with_cas { alone.cas_of(DATABASE, key)? } else { None };
        let flags = alone.attributes(DATABASE, key)?.flags;
        if let Some(exptime) = get.exptime {
            touch(alone, key, exptime)?;
        }
        write_value(out, key, flags, &value, cas);
    }
    out.extend_from_slice(b"END\r\n");
    Ok(hits)
}

/// `VALUE key flags length [cas]` and the value.
#[inline]
pub(super) fn write_value(out: &mut Vec<u8>, key: &[u8], flags: u32, value: &[u8], cas: Option<u64>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    write_number(out, b" ", flags.into());
    write_number(out, b" ", value.len() as u64);
    if let Some(cas) = cas {
        write_number(out, b" ", cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes `before` and a number.
#[inline]
pub(super) fn write_number(out: &mut Vec<u8>, before: &[u8], number: u64) {
    out.extend_from_slice(before);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::deadline;

    #[test]
    fn expiry_times_are_relative_for_thirty_days_then_absolute() {
        assert_eq!(deadline(0, 5000), 0);
        assert_eq!(deadline(10, 5000), 15_000);
        assert_eq!(deadline(2_592_000, 5000), 2_592_005_000);
        assert_eq!(deadline(2_592_001, 5000), 2_592_001_000);
        assert_eq!(deadline(-1, 5000), 1);
        assert_eq!(deadline(i32::MIN, 5000), 1);
    }
}
