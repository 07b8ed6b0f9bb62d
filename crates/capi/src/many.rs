//! Lookups and writes of many keys per call.

use crate::arguments::{Bytes, InArray, Out, OutArray};
use crate::border::border;
use crate::handles::Handle;
use crate::memory::{Allocation, NOTHING};
use crate::status::{Failure, OK, Result, Status};
use crate::table::OpenTable;
use splitpoint::ErrorKind;
use std::ffi::c_void;

/// `spt_pair`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Pair {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
}

/// The caller's keys as slices.
pub(crate) fn keys_of(keys: &[Bytes]) -> Result<Vec<&[u8]>> {
    let mut slices = with_room(keys.len())?;
    for key in keys {
        slices.push(key.key()?);
    }
    Ok(slices)
}

/// A vector with room for `len` elements.
fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(len).map_err(|_| no_memory(len))?;
    Ok(vector)
}

#[cold]
fn no_memory(len: usize) -> Failure {
    Failure::kind(ErrorKind::OutOfMemory, format!("no memory for {len} results"))
}

/// Values to return to C: their bytes concatenated, each followed by a zero byte.
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// The length of each value; `None` for an absent key.
    lens: Vec<Option<usize>>,
    failed: bool,
}

impl Packed {
    pub(crate) fn with_room(count: usize) -> Result<Packed> {
        Ok(Packed { bytes: Vec::new(), lens: with_room(count)?, failed: false })
    }

    pub(crate) fn push(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value
            && !self.failed
        {
            self.failed = self.bytes.try_reserve(value.len() + 1).is_err();
            if !self.failed {
                self.bytes.extend_from_slice(value);
                self.bytes.push(0);
            }
        }
        self.lens.push(value.map(<[u8]>::len));
    }

    /// Copies the values to one allocation; returns it, and pointers to the values in it, to the caller.
    pub(crate) fn give(self, values: OutArray<'_, Bytes>, memory: Out<'_, *mut c_void>) -> Result<()> {
        if self.failed {
            return Err(no_memory(self.lens.len()));
        }
        let mut allocation = Allocation::new(self.bytes.len())?;
        allocation.bytes()[..self.bytes.len()].copy_from_slice(&self.bytes);
        let mut at = 0;
        values.set(self.lens.iter().map(|len| match len {
            None => Bytes::NONE,
            Some(len) => {
                let start = at;
                at += len + 1;
                Bytes::of(&allocation.bytes()[start..start + len])
            }
        }));
        memory.set("the place for the memory", allocation.into_c())
    }
}

#[unsafe(no_mangle)]
extern "C" fn spt_get_many(
    table: Handle<OpenTable>,
    keys: InArray<'_, Bytes>,
    count: usize,
    values: OutArray<'_, Bytes>,
    memory: Out<'_, *mut c_void>,
) -> Status {
    border(table.number(), || {
        memory.set("the place for the memory", NOTHING)?;
        values.check(count)?;
        let (table, keys) = (table.shared()?, keys_of(keys.get(count)?)?);
        let mut packed = Packed::with_room(count)?;
        table.get_many_with(&keys, |_, value| packed.push(value))?;
        packed.give(values, memory)?;
        Ok(OK)
    })
}

/// The caller's pairs as slices.
fn pairs_of(pairs: &[Pair]) -> Result<Vec<(&[u8], &[u8])>> {
    let mut slices = with_room(pairs.len())?;
    for pair in pairs {
        slices.push((pair.key.key()?, pair.value.value()?));
    }
    Ok(slices)
}

#[unsafe(no_mangle)]
extern "C" fn spt_put_many(table: Handle<OpenTable>, pairs: InArray<'_, Pair>, count: usize) -> Status {
    border(table.number(), || {
        table.shared()?.put_many(&pairs_of(pairs.get(count)?)?)?;
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn spt_append_many(
    table: Handle<OpenTable>,
    pairs: InArray<'_, Pair>,
    count: usize,
    value_lens: OutArray<'_, usize>,
) -> Status {
    border(table.number(), || {
        let lens = table.shared()?.append_many(&pairs_of(pairs.get(count)?)?)?;
        if !value_lens.is_null() {
            value_lens.check(count)?;
            value_lens.set(lens.into_iter());
        }
        Ok(OK)
    })
}
