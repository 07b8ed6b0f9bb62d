//! The log's records of changes, and the changes they stand for.
//!
//! ```text
//! put, append   kind, length of the key, key, value
//! remove        kind, key
//! clear         kind
//! batch         kind, then for each change its kind, length, and length and bytes of key and value
//! put, stored   kind, length of the key, key, offset, length and checksum of the value in the table's file
//! ```
//!
//! A record holds the requested change, not its effect on pages: splits, overflow pages and used space follow from it
//! when it is replayed.
//!
//! Source: docs/architecture.md, "Log". Format: docs/format.md, "Write-ahead log". Not here: when a record
//! is logged (`writer.rs`), the framing of records (`pager/wal`).

use crate::buckets::edit::Edit;
use crate::little_endian::{u32_at, u64_at};
use crate::pager::StoredValue;
use crate::pager::wal::record_bytes;
use crate::varint::{get_varint, put_varint, varint_bytes};

// Kinds of records. On disk.
const PUT: u8 = 1;
const APPEND: u8 = 2;
pub(super) const REMOVE: u8 = 3;
const CLEAR: u8 = 4;
pub(super) const BATCH: u8 = 5;
const PUT_STORED: u8 = 6;

/// The maximum number of bytes of an encoded length.
const VARINT_BYTES_MAX: usize = 5;

/// One change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalRecord<'a> {
    Put {
        key: &'a [u8],
        value: &'a [u8],
    },
    Append {
        key: &'a [u8],
        tail: &'a [u8],
    },
    Remove {
        key: &'a [u8],
    },
    Clear,
    /// Changes encoded by [`encode_in_batch`].
    Batch(&'a [u8]),
    /// A put whose value is in the table's file.
    PutStored {
        key: &'a [u8],
        reference: &'a Reference,
    },
}

/// The location of a value in the table's file: byte u64, length u32, CRC-32C u32. On disk.
pub(super) type Reference = [u8; 16];

pub(super) fn encode_reference(stored: StoredValue) -> Reference {
    let mut bytes = Reference::default();
    bytes[..8].copy_from_slice(&stored.address.to_le_bytes());
    bytes[8..12].copy_from_slice(&stored.bytes.to_le_bytes());
    bytes[12..].copy_from_slice(&stored.sum.to_le_bytes());
    bytes
}

pub(super) fn decode_reference(bytes: &Reference) -> StoredValue {
    StoredValue { address: u64_at(bytes, 0), bytes: u32_at(bytes, 8), sum: u32_at(bytes, 12) }
}

impl<'a> WalRecord<'a> {
    /// The kind, the key of a record that begins with its length, and the rest of the body.
    #[inline]
    pub(super) fn parts(self) -> (u8, Option<&'a [u8]>, &'a [u8]) {
        match self {
            WalRecord::Put { key, value } => (PUT, Some(key), value),
            WalRecord::Append { key, tail } => (APPEND, Some(key), tail),
            WalRecord::Remove { key } => (REMOVE, None, key),
            WalRecord::Clear => (CLEAR, None, b""),
            WalRecord::Batch(changes) => (BATCH, None, changes),
            WalRecord::PutStored { key, reference } => (PUT_STORED, Some(key), reference),
        }
    }

    /// The length of its record in the log.
    #[inline]
    pub(super) fn log_bytes(self) -> u64 {
        let (_, key, rest) = self.parts();
        record_bytes(key.map_or(0, |key| varint_bytes(key.len() as u64) + key.len()) + rest.len())
    }

    /// The length of the record of a put; no shorter than that of an append or a removal of the key.
    #[inline]
    pub(super) fn log_bytes_of_put(key: &[u8], value_bytes: usize) -> u64 {
        record_bytes(varint_bytes(key.len() as u64) + key.len() + value_bytes)
    }

    pub(super) fn parse(kind: u8, body: &'a [u8]) -> Option<WalRecord<'a>> {
        let keyed = || {
            let (len, head) = get_varint(body)?;
            body[head..].split_at_checked(len)
        };
        Some(match kind {
            PUT => keyed().map(|(key, value)| WalRecord::Put { key, value })?,
            APPEND => keyed().map(|(key, tail)| WalRecord::Append { key, tail })?,
            REMOVE => WalRecord::Remove { key: body },
            CLEAR => WalRecord::Clear,
            BATCH => WalRecord::Batch(body),
            PUT_STORED => {
                let (key, reference) = keyed()?;
                WalRecord::PutStored { key, reference: reference.try_into().ok()? }
            }
            _ => return None,
        })
    }

    /// The edit that makes this change of one pair. An append does not make its value longer than `len_max`.
    #[inline(always)]
    pub(super) fn edit(self, len_max: usize) -> Edit<'a> {
        match self {
            WalRecord::Put { value, .. } => Edit::Set(value),
            WalRecord::Append { tail, .. } => Edit::Append { tail, len_max },
            WalRecord::Remove { .. } => Edit::Remove,
            _ => unreachable!("not a change of one pair, or its value is elsewhere"),
        }
    }

    pub(super) fn is_removal(self) -> bool {
        matches!(self, WalRecord::Remove { .. })
    }

    /// The key, and the length of the value of this change.
    pub(super) fn key_and_value_bytes(self) -> (&'a [u8], usize) {
        match self.parts() {
            (_, Some(key), value) => (key, value.len()),
            (_, None, key) => (key, 0),
        }
    }

    /// The bytes that replay needs for this record in addition to the record itself: a stored value, which it must
    /// read. `usize::MAX` for a record that removes all pairs, so that it ends its block.
    pub(super) fn replay_room(kind: u8, body: &[u8]) -> usize {
        match (kind, body.last_chunk()) {
            (PUT_STORED, Some(reference)) => decode_reference(reference).bytes as usize,
            (CLEAR, _) => usize::MAX,
            _ => 0,
        }
    }

    /// The key of the change, if it has a single one.
    pub(super) fn key(self) -> Option<&'a [u8]> {
        match self {
            WalRecord::Put { key, .. }
            | WalRecord::Append { key, .. }
            | WalRecord::Remove { key }
            | WalRecord::PutStored { key, .. } => Some(key),
            WalRecord::Clear | WalRecord::Batch(_) => None,
        }
    }
}

/// The body of a record with these parts, see [`WalRecord::parts`]. `len` is for the length of the key.
#[inline(always)]
pub(super) fn body<'p>(key: Option<&'p [u8]>, rest: &'p [u8], len: &'p mut [u8; VARINT_BYTES_MAX]) -> [&'p [u8]; 3] {
    let Some(key) = key else { return [b"", b"", rest] };
    let n = put_varint(len, key.len() as u64);
    [&len[..n], key, rest]
}

/// Appends a change to the encoding of a batch.
pub(super) fn encode_in_batch(change: WalRecord<'_>, out: &mut Vec<u8>) {
    let (kind, key, rest) = change.parts();
    out.push(kind);
    for part in key.into_iter().chain([rest]) {
        let mut len = [0; VARINT_BYTES_MAX];
        let n = put_varint(&mut len, part.len() as u64);
        out.extend_from_slice(&len[..n]);
        out.extend_from_slice(part);
    }
}

/// The changes of a batch, in order; `None` if its bytes are malformed.
pub(super) fn decode_batch(bytes: &[u8]) -> Option<BatchChanges<'_>> {
    let mut checked = BatchChanges { rest: bytes };
    while !checked.rest.is_empty() {
        checked.decode_one()?;
    }
    Some(BatchChanges { rest: bytes })
}

/// Iterates over the changes of a batch without a copy of them: a batch may have millions.
#[derive(Clone, Copy)]
pub(super) struct BatchChanges<'a> {
    rest: &'a [u8],
}

impl<'a> BatchChanges<'a> {
    fn decode_one(&mut self) -> Option<WalRecord<'a>> {
        let (&kind, rest) = self.rest.split_first()?;
        self.rest = rest;
        let key = self.part()?;
        Some(match kind {
            PUT => WalRecord::Put { key, value: self.part()? },
            APPEND => WalRecord::Append { key, tail: self.part()? },
            REMOVE => WalRecord::Remove { key },
            _ => return None,
        })
    }

    fn part(&mut self) -> Option<&'a [u8]> {
        let (len, head) = get_varint(self.rest)?;
        let (part, rest) = self.rest[head..].split_at_checked(len)?;
        self.rest = rest;
        Some(part)
    }
}

impl<'a> Iterator for BatchChanges<'a> {
    type Item = WalRecord<'a>;

    fn next(&mut self) -> Option<WalRecord<'a>> {
        self.decode_one()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_was_put_into_it() {
        let changes = [
            WalRecord::Put { key: b"a", value: &[7; 300] },
            WalRecord::Append { key: b"", tail: b"" },
            WalRecord::Remove { key: &[1; 200] },
        ];
        let mut bytes = Vec::new();
        changes.iter().for_each(|&c| encode_in_batch(c, &mut bytes));
        assert_eq!(decode_batch(&bytes).unwrap().collect::<Vec<_>>(), changes);
        for cut in 1..bytes.len() {
            if let Some(fewer) = decode_batch(&bytes[..cut]) {
                let fewer: Vec<_> = fewer.collect();
                assert!(changes.starts_with(&fewer) && fewer.len() < changes.len(), "cut to {cut}");
            }
        }
        assert!(decode_batch(&[9, 0, 0]).is_none());
    }
}
