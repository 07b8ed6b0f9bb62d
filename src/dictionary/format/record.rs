//! One pair as bytes, as stored in pages, and in compressed blocks before compression.
//!
//! `Varied`: varint key length, varint value length, key, value. `Fixed`: key, value.

use super::layout::Layout;
use crate::varint::{get_varint, put_varint};

/// The most bytes before a record's key.
pub(crate) const HEAD_BYTES_MAX: usize = 10;

/// A pair borrowed from some bytes, and how many of them it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredRecord<'b> {
    pub key: &'b [u8],
    pub value: &'b [u8],
    pub bytes: usize,
}

/// The record at the start of `bytes`; `None` if they end too early.
#[inline]
pub(crate) fn parse(layout: Layout, bytes: &[u8]) -> Option<StoredRecord<'_>> {
    let (head, key_len, value_len) = lengths(layout, bytes)?;
    // No overflow: varints here are below 2^35.
    let end = head + key_len + value_len;
    let record = bytes.get(head..end)?;
    let (key, value) = record.split_at(key_len);
    Some(StoredRecord { key, value, bytes: end })
}

/// The number of bytes before the key, of the key, and of the value.
#[inline]
pub(crate) fn lengths(layout: Layout, bytes: &[u8]) -> Option<(usize, usize, usize)> {
    match layout {
        Layout::Fixed { key_len, value_len } => Some((0, key_len as usize, value_len as usize)),
        Layout::Varied => {
            let (key_len, first) = get_varint(bytes)?;
            let (value_len, second) = get_varint(&bytes[first..])?;
            let possible = key_len <= u32::MAX as usize && value_len <= u32::MAX as usize;
            possible.then_some((first + second, key_len, value_len))
        }
    }
}

/// The bytes before a key of `key_len` bytes, and their number.
#[inline]
pub(crate) fn head(layout: Layout, key_len: usize, value_len: usize) -> ([u8; HEAD_BYTES_MAX], usize) {
    let mut out = [0; HEAD_BYTES_MAX];
    if layout != Layout::Varied {
        return (out, 0);
    }
    let first = put_varint(&mut out, key_len as u64);
    let second = put_varint(&mut out[first..], value_len as u64);
    (out, first + second)
}

#[cfg(test)]
#[path = "tests/record.rs"]
mod tests;
