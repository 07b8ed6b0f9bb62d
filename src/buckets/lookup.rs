//! Lookups of one key: an optimistic read first, else a read under the latch.
//!
//! One lookup in 512 is sampled (`activity.rs`) and takes the latch too, to count its pages and keys.
//!
//! Not here: the optimistic read (`optimistic.rs`), many keys at a time (`many.rs`).

use super::activity;
use super::bucket::{HashedKey, PairLocation};
use super::linear_hash::Buckets;
use super::optimistic::Optimistic;
use super::page;
use crate::error::{Result, quote};
use crate::pager::pool::{FrameSeen, ReadGuard, ValueHeld};
use crate::pager::sink::{Fixed, Sink};
use std::ops::{Deref, Range};

impl Buckets {
    /// Appends the value of `key` to `value`, which must be empty. Returns false if the key is absent.
    #[inline]
    pub(crate) fn get(&self, key: HashedKey<'_>, value: &mut Vec<u8>) -> Result<bool> {
        match self.read_optimistically(key.bytes, key.hash, Some(value)) {
            Optimistic::Found => Ok(true),
            Optimistic::Absent => Ok(false),
            Optimistic::Retry => self.get_again(key.bytes, key.hash, value),
        }
    }

    /// [`get_latched`](Self::get_latched) with the key's fields passed one by one: the fast path then keeps them in
    /// registers.
    #[cold]
    fn get_again(&self, key: &[u8], hash: u64, value: &mut Vec<u8>) -> Result<bool> {
        self.get_latched(HashedKey::new(key, hash), value)
    }

    /// [`get`](Self::get) without a latch. Returns `None`, with `value` empty, if it needs the latch.
    #[inline]
    pub(crate) fn get_ready(&self, key: HashedKey<'_>, value: &mut Vec<u8>) -> Option<bool> {
        match self.read_optimistically(key.bytes, key.hash, Some(value)) {
            Optimistic::Found => Some(true),
            Optimistic::Absent => Some(false),
            Optimistic::Retry => None,
        }
    }

    /// Copies the value of `key` to `buffer`, if it fits. Returns its length, or `None` if the key is absent.
    #[inline]
    pub(crate) fn get_to(&self, key: HashedKey<'_>, buffer: &mut [u8]) -> Result<Option<usize>> {
        let mut value = Fixed::new(buffer);
        match self.read_optimistically(key.bytes, key.hash, Some(&mut value)) {
            Optimistic::Found => Ok(Some(value.len())),
            Optimistic::Absent => Ok(None),
            Optimistic::Retry => self.get_to_latched(key, buffer),
        }
    }

    fn get_to_latched(&self, key: HashedKey<'_>, buffer: &mut [u8]) -> Result<Option<usize>> {
        let mut value = Vec::new();
        // A value that does not fit is not read.
        let room = buffer.len();
        let len = self.get_part(key, |len| if len <= room { 0..len } else { 0..0 }, &mut value)?;
        buffer[..value.len()].copy_from_slice(&value);
        Ok(len)
    }

    /// [`get`](Self::get) under the latch.
    #[inline(never)]
    pub(super) fn get_latched(&self, key: HashedKey<'_>, value: &mut Vec<u8>) -> Result<bool> {
        let (frame, range) = self.read_bucket(key.hash)?;
        let primary = &frame[range];
        let location = self.locate(primary, key)?;
        if activity::was_due() {
            self.sample(primary, key);
        }
        match location {
            None => Ok(false),
            Some(location) => {
                self.with_record(primary, location, |record| self.read_value(record, value)).map(|()| true)
            }
        }
    }

    /// [`get`](Self::get) that also returns where the pair is, for a write that follows. Under the latch.
    pub(crate) fn get_located(&self, key: HashedKey<'_>, value: &mut Vec<u8>) -> Result<Located<'_>> {
        let (frame, range) = self.read_bucket(key.hash)?;
        let primary = &frame[range];
        let location = self.locate(primary, key)?;
        if activity::is_due() && activity::was_due() {
            self.sample(primary, key);
        }
        if let Some(location) = location {
            self.with_record(primary, location, |record| self.read_value(record, value))?;
        }
        Ok(Located { frame: frame.seen(), location })
    }

    /// Whether `key` is present.
    pub(crate) fn contains(&self, key: HashedKey<'_>) -> Result<bool> {
        match self.read_optimistically(key.bytes, key.hash, None::<&mut Vec<u8>>) {
            Optimistic::Found => return Ok(true),
            Optimistic::Absent => return Ok(false),
            Optimistic::Retry => {}
        }
        let (frame, range) = self.read_bucket(key.hash)?;
        let found = self.locate(&frame[range.clone()], key)?.is_some();
        if activity::was_due() {
            self.sample(&frame[range], key);
        }
        Ok(found)
    }

    /// The value of `key`, borrowed from its page; a value in an extent is copied.
    pub(crate) fn get_ref(&self, key: HashedKey<'_>) -> Result<Option<ValueRef<'_>>> {
        let (frame, range) = self.read_bucket(key.hash)?;
        let location = self.locate(&frame[range.clone()], key)?;
        if activity::is_due() && activity::was_due() {
            self.sample(&frame[range.clone()], key);
        }
        let Some(location) = location else { return Ok(None) };
        let primary = &frame[range];
        let in_primary = location.overflow.is_none();
        let inline = self.with_record(primary, location, |r| {
            let offset = (r.value.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
            Ok((in_primary && r.form == page::INLINE).then(|| offset..offset + r.value.len()))
        })?;
        if let Some(range) = inline {
            return Ok(Some(ValueRef(Borrow::Page { frame, range, _held: ValueHeld::new() })));
        }
        let mut value = Vec::new();
        self.with_record(primary, location, |r| self.read_value(r, &mut value))?;
        Ok(Some(ValueRef(Borrow::Copy(value))))
    }
}

/// The location of a pair, or that there was none. Valid as long as the frame of its bucket has not changed.
pub(crate) struct Located<'t> {
    pub frame: FrameSeen<'t>,
    pub location: Option<PairLocation>,
}

/// A value borrowed from a table; see [`Table::get_ref`](crate::Table::get_ref). Not `Send`: it stays on its thread.
pub struct ValueRef<'t>(Borrow<'t>);

enum Borrow<'t> {
    Page { frame: ReadGuard<'t>, range: Range<usize>, _held: ValueHeld },
    Copy(Vec<u8>),
}

impl Deref for ValueRef<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Borrow::Page { frame, range, .. } => &frame[range.clone()],
            Borrow::Copy(value) => value,
        }
    }
}

impl std::fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueRef({})", quote(self))
    }
}
