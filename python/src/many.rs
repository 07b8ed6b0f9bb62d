//! Lookups of many keys at a time: from a list to a list, from an array to an array.
//!
//! Keys of a list are copied to a buffer, about two thousand at a time, and looked up without the interpreter lock; the
//! values go to another buffer. Python objects are created only afterwards, so no other thread can change or free data
//! in use. Keys of an array are looked up in place.

use crate::arrow::Column;
use crate::bytes::Bytes;
use crate::error::{OrRaise, invalid};
use crate::handle::Handle;
use crate::values::Values;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// Keys looked up together: enough that releasing the interpreter lock costs little; values still fit in the cache.
const KEYS: usize = 2048;
/// The most bytes of keys looked up together, unless a single key has more.
const BYTES: usize = 1 << 20;
/// The number of keys of an array between two checks for Ctrl-C.
const KEYS_BETWEEN_LOOKS: usize = 1 << 16;

/// The values found for some keys, concatenated.
pub struct Found {
    pub bytes: Vec<u8>,
    /// The start of each value, and the end of the last one.
    pub offsets: Vec<i64>,
    pub present: Vec<bool>,
}

impl Default for Found {
    fn default() -> Self {
        Found { bytes: Vec::new(), offsets: vec![0], present: Vec::new() }
    }
}

impl Found {
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.offsets.push(self.bytes.len() as i64); // memory has fewer bytes than i64 counts
        self.present.push(value.is_some());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.offsets.truncate(1);
        self.present.clear();
    }

    fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let value = |(offsets, present): (&[i64], &bool)| {
            present.then(|| &self.bytes[offsets[0] as usize..offsets[1] as usize])
        };
        self.offsets.windows(2).zip(&self.present).map(value)
    }
}

/// Looks up `keys`, which may be some of many, and pushes the results.
pub trait Lookup<T>: Fn(&T, &[&[u8]], &mut Found) -> splitpoint::Result<()> + Send + Sync {}
impl<T, F: Fn(&T, &[&[u8]], &mut Found) -> splitpoint::Result<()> + Send + Sync> Lookup<T> for F {}

/// The values of the keys that `keys` iterates over, as a list; `default` for those that are absent.
pub fn get_list<'py, T: Send + Sync>(
    handle: &Handle<T>,
    keys: &Bound<'py, PyAny>,
    default: &Bound<'py, PyAny>,
    lookup: impl Lookup<T>,
) -> PyResult<Bound<'py, PyList>> {
    let py = keys.py();
    let _busy = handle.busy();
    let values = PyList::empty(py);
    let mut keys = keys.try_iter()?;
    let (mut bytes, mut ends, mut found) = (Vec::new(), Vec::new(), Found::default());
    loop {
        bytes.clear();
        ends.clear();
        while ends.len() < KEYS && bytes.len() < BYTES {
            let Some(key) = keys.next().transpose()? else { break };
            bytes.extend_from_slice(&key.extract::<Bytes<'_>>()?);
            ends.push(bytes.len());
        }
        if ends.is_empty() {
            return Ok(values);
        }
        found.clear();
        handle.detached(py, |open| lookup(open, &slices(&bytes, &ends), &mut found))?.or_raise(py)?;
        for value in found.iter() {
            match value {
                Some(value) => values.append(PyBytes::new(py, value))?,
                None => values.append(default)?,
            }
        }
        py.check_signals()?;
    }
}

fn slices<'b>(bytes: &'b [u8], ends: &[usize]) -> Vec<&'b [u8]> {
    let mut start = 0;
    let key = |&end: &usize| &bytes[std::mem::replace(&mut start, end)..end];
    ends.iter().map(key).collect()
}

/// The values of the keys of Arrow arrays; null for those that are absent or null.
pub fn get_columns<T: Send + Sync>(
    py: Python<'_>,
    handle: &Handle<T>,
    keys: &[Column],
    lookup: impl Lookup<T>,
) -> PyResult<Values> {
    let mut found = Found::default();
    for keys in keys {
        get_array(py, handle, keys.len(), |index| keys.value(index), &lookup, &mut found)?;
    }
    Ok(Values::new(found))
}

/// Concatenated keys of `width` bytes each.
pub struct Fixed<'k> {
    pub bytes: &'k [u8],
    pub width: usize,
    /// Whether zeros at the end are padding and not part of a key.
    pub is_padded: bool,
    /// One byte for each key; non-zero if the key is null.
    pub nulls: Option<&'k [u8]>,
}

/// The values of the keys of an array of NumPy; null for those that are absent or null.
pub fn get_fixed<T: Send + Sync>(
    py: Python<'_>,
    handle: &Handle<T>,
    keys: &Fixed<'_>,
    lookup: impl Lookup<T>,
) -> PyResult<Values> {
    let &Fixed { bytes, width, is_padded, nulls } = keys;
    if width == 0 {
        return Err(invalid("keys of 0 bytes: give an array of another dtype"));
    }
    let count = bytes.len() / width;
    if nulls.is_some_and(|nulls| nulls.len() != count) {
        return Err(invalid("a mask of another length than its array"));
    }
    let key = |index: usize| {
        if nulls.is_some_and(|nulls| nulls[index] != 0) {
            return None;
        }
        let key = &bytes[index * width..(index + 1) * width];
        let len = if is_padded { key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1) } else { width };
        Some(&key[..len])
    };
    let mut found = Found::default();
    get_array(py, handle, count, key, &lookup, &mut found)?;
    Ok(Values::new(found))
}

fn get_array<'k, T: Send + Sync>(
    py: Python<'_>,
    handle: &Handle<T>,
    len: usize,
    key: impl Fn(usize) -> Option<&'k [u8]> + Send + Sync,
    lookup: &impl Lookup<T>,
    found: &mut Found,
) -> PyResult<()> {
    let _busy = handle.busy();
    let mut some = Found::default();
    for start in (0..len).step_by(KEYS_BETWEEN_LOOKS) {
        let end = len.min(start + KEYS_BETWEEN_LOOKS);
        let looked_up = handle.detached(py, |open| {
            let keys: Vec<Option<&[u8]>> = (start..end).map(&key).collect();
            let present: Vec<&[u8]> = keys.iter().flatten().copied().collect();
            if present.len() == keys.len() {
                return lookup(open, &present, found);
            }
            some.clear();
            lookup(open, &present, &mut some)?;
            let mut values = some.iter();
            keys.iter().for_each(|key| found.push(key.and_then(|_| values.next().flatten())));
            Ok(())
        });
        looked_up?.or_raise(py)?;
        py.check_signals()?;
    }
    Ok(())
}
