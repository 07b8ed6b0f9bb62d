//! The classic commands: what they do with the value of a key.
//!
//! Most are edits (`Change`): the session makes them under the latch of the key's bucket, the meta commands and the
//! binary protocol with exclusive entry.

use super::DATABASE;
use super::number;
use super::request::{Mode, Store};
use crate::keyspace::{Attributes, Edit, Exclusive, Lifetime, New, Old, Result};

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

impl Stored {
    pub(super) fn text(self) -> &'static [u8] {
        match self {
            Stored::Yes => b"STORED\r\n",
            Stored::No => b"NOT_STORED\r\n",
            Stored::Exists => b"EXISTS\r\n",
            Stored::NotFound => b"NOT_FOUND\r\n",
        }
    }
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

/// The attributes that a key gets from a set; `None` if the value would already have expired.
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
    let (mut stored, now_ms) = (Stored::No, alone.now_ms());
    alone.edit_string(DATABASE, key, |old, new| {
        let (what, outcome) = store_edit(old, new, data, storing, now_ms);
        stored = outcome;
        what
    })?;
    Ok(stored)
}

/// [`store`] as an edit.
pub(super) fn store_edit(
    old: Option<Old<'_>>,
    new: &mut New<'_>,
    data: &[u8],
    storing: Storing,
    now_ms: u64,
) -> (Edit, Stored) {
    let Storing { mode, flags, expires_at_ms, cas, invalidate, vivify_at_ms } = storing;
    let fresh = Attributes { expires_at_ms, flags, ..Attributes::NONE };
    let mut put = |attributes: Attributes| {
        let what = if attributes.expired(now_ms) { Edit::Remove } else { new.put(attributes, data) };
        (what, Stored::Yes)
    };
    let Some(old) = old else {
        return match (mode, vivify_at_ms) {
            (Mode::Set | Mode::Add, _) => put(fresh),
            (Mode::Replace, _) | (Mode::Append | Mode::Prepend, None) => (Edit::Keep, Stored::No),
            (Mode::Cas, _) => (Edit::Keep, Stored::NotFound),
            (Mode::Append | Mode::Prepend, Some(expires_at_ms)) => put(Attributes { expires_at_ms, ..fresh }),
        };
    };
    // If no client has asked for a key's number, it counts as unknown, and later than all others.
    let now = old.attributes.cas;
    let (is_now, is_older) = (now != 0 && cas == now, cas != 0 && (now == 0 || cas < now));
    match mode {
        Mode::Set | Mode::Replace => put(fresh),
        Mode::Add => (Edit::Keep, Stored::No),
        Mode::Cas if invalidate && is_older => {
            let marks = Attributes::STALE | old.attributes.marks & Attributes::CLAIMED;
            put(Attributes { marks, expires_at_ms: old.attributes.expires_at_ms, ..fresh })
        }
        Mode::Cas if !is_now => (Edit::Keep, Stored::Exists),
        Mode::Cas => put(fresh),
        Mode::Append | Mode::Prepend if cas != 0 && !is_now => (Edit::Keep, Stored::Exists),
        // The marks are about the old value.
        Mode::Append if old.attributes.marks == 0 => (new.append(Some(&old), data), Stored::Yes),
        Mode::Append | Mode::Prepend if !old.is_whole() => (Edit::Alone, Stored::Yes),
        Mode::Append | Mode::Prepend => {
            let parts = if mode == Mode::Append { [old.value, data] } else { [data, old.value] };
            (new.put(Attributes { cas: 0, marks: 0, ..old.attributes }, &parts.concat()), Stored::Yes)
        }
    }
}

/// Stores `data`, or removes the key if it would already have expired.
pub(super) fn put(alone: &mut Exclusive<'_>, key: &[u8], data: &[u8], attributes: Attributes) -> Result<()> {
    if attributes.expired(alone.now_ms()) {
        alone.remove(DATABASE, key)?;
        return Ok(());
    }
    alone.put(DATABASE, key, data, Lifetime::Are(attributes))
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
    let mut counted = Counted::NotFound;
    alone.edit_string(DATABASE, key, |old, new| {
        let (what, outcome) = count_edit(old, new, delta, up, cas);
        counted = outcome;
        what
    })?;
    Ok(counted)
}

/// [`count`] as an edit.
pub(super) fn count_edit(old: Option<Old<'_>>, new: &mut New<'_>, delta: u64, up: bool, cas: u64) -> (Edit, Counted) {
    /// Longer values are not numbers, as in memcached, which stores them in several chunks.
    const LEN_MAX: usize = 512 << 10;
    let Some(old) = old else { return (Edit::Keep, Counted::NotFound) };
    if old.len == 0 || old.len > LEN_MAX {
        return (Edit::Keep, Counted::NoNumber);
    }
    if cas != 0 && cas != old.attributes.cas {
        return (Edit::Keep, Counted::Exists);
    }
    if !old.is_whole() {
        return (Edit::Alone, Counted::NoNumber);
    }
    let Some(number) = number::u64(old.value) else { return (Edit::Keep, Counted::NoNumber) };
    let number = if up { number.wrapping_add(delta) } else { number.saturating_sub(delta) };
    let mut digits = itoa::Buffer::new();
    let mut value = digits.format(number).as_bytes().to_vec();
    // As in memcached, a shorter number is padded to the length of the old one.
    let len = old.len.max(value.len());
    value.resize(len, b' ');
    (new.put(Attributes { cas: 0, ..old.attributes }, &value), Counted::Is(number, len > old.len))
}

/// Changes when a key expires. Returns whether it is present.
pub(super) fn touch(alone: &mut Exclusive<'_>, key: &[u8], exptime: i32) -> Result<bool> {
    let (mut is_present, now_ms) = (false, alone.now_ms());
    alone.edit_string(DATABASE, key, |old, new| {
        is_present = old.is_some();
        touch_edit(old, new, exptime, now_ms)
    })?;
    Ok(is_present)
}

/// [`touch`] as an edit.
pub(super) fn touch_edit(old: Option<Old<'_>>, new: &mut New<'_>, exptime: i32, now_ms: u64) -> Edit {
    let Some(old) = old else { return Edit::Keep };
    let attributes = Attributes { expires_at_ms: deadline(exptime, now_ms), ..old.attributes };
    if attributes.expired(now_ms) { Edit::Remove } else { new.set_attributes(&old, attributes) }
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
