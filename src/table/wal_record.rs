//! The log's records of changes, and how recovery repeats the changes.
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
//! when it is replayed. It is appended under the latch of its bucket, after the change, so the order of the log is the
//! order of each key's changes, and a failed change leaves no record. Its room is reserved before the change, so
//! errors occur before anything changes.
//!
//! Source: docs/architecture.md, "Log". Format: docs/format.md, "Write-ahead log". Not here: the framing of records
//! (`pager/wal`).

use super::gate::{ClosedGate, WriterGuard};
use super::handle::Table;
use crate::error::Result;
use crate::little_endian::{u32_at, u64_at};
use crate::pager::StoredValue;
use crate::pager::wal::{Log, Lsn, Room, Short, record_bytes};
use crate::planted::{Bug, planted};
use crate::varint::{get_varint, put_varint, varint_bytes};

// Kinds of records. On disk.
const PUT: u8 = 1;
const APPEND: u8 = 2;
const REMOVE: u8 = 3;
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
    fn kind(self) -> u8 {
        match self {
            WalRecord::Put { .. } => PUT,
            WalRecord::Append { .. } => APPEND,
            WalRecord::Remove { .. } => REMOVE,
            WalRecord::Clear => CLEAR,
            WalRecord::Batch(_) => BATCH,
            WalRecord::PutStored { .. } => PUT_STORED,
        }
    }

    fn parts(self) -> (Option<&'a [u8]>, &'a [u8]) {
        match self {
            WalRecord::Put { key, value } => (Some(key), value),
            WalRecord::Append { key, tail } => (Some(key), tail),
            WalRecord::Remove { key } => (None, key),
            WalRecord::Clear => (None, b""),
            WalRecord::Batch(changes) => (None, changes),
            WalRecord::PutStored { key, reference } => (Some(key), reference),
        }
    }

    /// The length of its record in the log.
    #[inline]
    pub(super) fn log_bytes(self) -> u64 {
        let (key, rest) = self.parts();
        record_bytes(key.map_or(0, |key| varint_bytes(key.len() as u64) + key.len()) + rest.len())
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

    /// The key, and the length of the value of this change.
    pub(super) fn key_and_value_bytes(self) -> (&'a [u8], usize) {
        match self.parts() {
            (Some(key), value) => (key, value.len()),
            (None, key) => (key, 0),
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

/// Appends a change to the encoding of a batch.
pub(super) fn encode_in_batch(change: WalRecord<'_>, out: &mut Vec<u8>) {
    let (key, rest) = change.parts();
    out.push(change.kind());
    for part in key.into_iter().chain([rest]) {
        let mut len = [0; VARINT_BYTES_MAX];
        let n = put_varint(&mut len, part.len() as u64);
        out.extend_from_slice(&len[..n]);
        out.extend_from_slice(part);
    }
}

/// The changes of a batch; `None` if its bytes are malformed.
pub(super) fn decode_batch(mut bytes: &[u8]) -> Option<Vec<WalRecord<'_>>> {
    fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (len, head) = get_varint(bytes)?;
        let (part, rest) = bytes[head..].split_at_checked(len)?;
        *bytes = rest;
        Some(part)
    }
    let mut changes = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = rest;
        let first = part(&mut bytes)?;
        changes.push(match kind {
            PUT => WalRecord::Put { key: first, value: part(&mut bytes)? },
            APPEND => WalRecord::Append { key: first, tail: part(&mut bytes)? },
            REMOVE => WalRecord::Remove { key: first },
            _ => return None,
        });
    }
    Some(changes)
}

/// A writer inside the gate, with room in the log for its change.
pub(super) struct Writer<'t> {
    /// First, so that it is dropped first: unused room must be returned before the writer leaves the gate. The next
    /// segment begins once all writers have left, and relies on that.
    room: Option<Room<'t>>,
    pub inside: WriterGuard<'t>,
}

impl Table {
    /// Lets in a writer that will make `change`.
    #[inline(always)]
    pub(super) fn enter_to(&self, change: WalRecord<'_>) -> Result<Writer<'_>> {
        // Taken apart, so that only the result of the call is in memory and the result of the fast path stays in
        // registers.
        let (inside, room) = if self.log_in_use().is_none() {
            (self.enter()?, None)
        } else {
            let Writer { room, inside } = self.enter_to_log(change.log_bytes())?;
            (inside, room)
        };
        Ok(Writer { room, inside })
    }

    /// Lets in a writer whose records take `bytes` of the log.
    #[inline]
    pub(super) fn enter_for(&self, bytes: u64) -> Result<Writer<'_>> {
        if self.is_logged() { self.enter_to_log(bytes) } else { Ok(Writer { room: None, inside: self.enter()? }) }
    }

    /// Whether changes are currently logged.
    #[inline]
    pub(super) fn is_logged(&self) -> bool {
        self.log_in_use().is_some()
    }

    /// Lets in a writer whose record takes `bytes` of the log.
    #[inline(never)]
    fn enter_to_log(&self, bytes: u64) -> Result<Writer<'_>> {
        loop {
            let inside = self.enter()?;
            let Some(log) = self.log_in_use() else { return Ok(Writer { inside, room: None }) };
            if let Some(room) = log.reserve(bytes)? {
                return Ok(Writer { inside, room: Some(room) });
            }
            drop(inside);
            self.make_log_room(bytes)?;
        }
    }

    /// [`enter_to`](Self::enter_to) with all other writers kept out. The caller drops the closed gate last.
    pub(super) fn enter_alone_to(&self, change: WalRecord<'_>) -> Result<(ClosedGate<'_>, Writer<'_>)> {
        loop {
            drop(self.enter()?);
            let alone = self.gate.close()?;
            let inside = alone.enter();
            let Some(log) = self.log_in_use() else { return Ok((alone, Writer { inside, room: None })) };
            let bytes = change.log_bytes();
            if let Some(room) = log.reserve(bytes)? {
                return Ok((alone, Writer { inside, room: Some(room) }));
            }
            drop((inside, alone));
            self.make_log_room(bytes)?;
        }
    }

    #[inline]
    fn log_in_use(&self) -> Option<&Log> {
        self.pager.log().filter(|log| log.is_on() && !self.replaying)
    }

    /// Appends the record of a change to the log. The caller still holds the latch of its bucket.
    #[inline]
    pub(super) fn log(&self, writer: &mut Writer<'_>, change: WalRecord<'_>) -> Result<Lsn> {
        match (self.pager.log(), &mut writer.room) {
            (Some(log), Some(room)) => {
                let (key, rest) = change.parts();
                self.append_to(log, room, change.kind(), key, rest)
            }
            _ => Ok(0),
        }
    }

    /// Assembles the record of a change if it is short. This is done before the bucket is latched: the processor does
    /// it while the bucket is fetched from memory.
    #[inline(always)]
    pub(super) fn put_record_together(&self, writer: &Writer<'_>, change: WalRecord<'_>) -> Option<Short> {
        let log = self.pager.log().filter(|_| writer.room.is_some())?;
        let (key, rest) = change.parts();
        match key {
            Some(key) => {
                let mut len = [0; VARINT_BYTES_MAX];
                let n = put_varint(&mut len, key.len() as u64);
                log.put_together(change.kind(), &[&len[..n], key, rest])
            }
            None => log.put_together(change.kind(), &[rest]),
        }
    }

    /// [`log`](Self::log) for the last change of a writer, with the result of
    /// [`put_record_together`](Self::put_record_together). Takes the room out of the writer, which need not be kept in
    /// memory then.
    #[inline]
    pub(super) fn log_last(
        &self,
        writer: &mut Writer<'_>,
        change: WalRecord<'_>,
        short: Option<&mut Short>,
    ) -> Result<Lsn> {
        match (self.pager.log(), writer.room.take(), short) {
            (Some(log), Some(room), Some(short)) => self.append_short(log, room, change.kind(), short),
            (Some(log), Some(room), None) => {
                let (key, rest) = change.parts();
                self.append_last(log, room, change.kind(), key, rest)
            }
            _ => Ok(0),
        }
    }

    #[inline(never)]
    fn append_short(&self, log: &Log, mut room: Room<'_>, kind: u8, short: &mut Short) -> Result<Lsn> {
        if planted(Bug::RemovalUnlogged) && kind == REMOVE {
            return Ok(0);
        }
        // The change was made and cannot be undone, but would be lost in a crash.
        log.append_short(&mut room, short).inspect_err(|e| self.pager.poison(e.message()))
    }

    #[inline(never)]
    fn append_last(&self, log: &Log, mut room: Room<'_>, kind: u8, key: Option<&[u8]>, rest: &[u8]) -> Result<Lsn> {
        self.append_parts(log, &mut room, kind, key, rest)
    }

    /// Appends a record whose fields are passed one by one, so that they stay in registers until here.
    #[inline(never)]
    fn append_to(&self, log: &Log, room: &mut Room<'_>, kind: u8, key: Option<&[u8]>, rest: &[u8]) -> Result<Lsn> {
        self.append_parts(log, room, kind, key, rest)
    }

    #[inline(always)]
    fn append_parts(&self, log: &Log, room: &mut Room<'_>, kind: u8, key: Option<&[u8]>, rest: &[u8]) -> Result<Lsn> {
        if planted(Bug::RemovalUnlogged) && kind == REMOVE {
            return Ok(0);
        }
        let appended = match key {
            Some(key) => {
                let mut len = [0; VARINT_BYTES_MAX];
                let n = put_varint(&mut len, key.len() as u64);
                log.append(room, kind, &[&len[..n], key, rest])
            }
            None => log.append(room, kind, &[rest]),
        };
        // The change was made and cannot be undone, but would be lost in a crash.
        appended.inspect_err(|e| self.pager.poison(e.message()))
    }

    /// Waits until the log up to `lsn` is as durable as the options ask.
    #[inline]
    pub(super) fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        if lsn == 0 { Ok(()) } else { self.sync_to(lsn) }
    }

    fn sync_to(&self, lsn: Lsn) -> Result<()> {
        match self.pager.log().filter(|log| log.waits() && !planted(Bug::DoneBeforeSynced)) {
            Some(log) => log.sync_to(lsn).inspect_err(|e| self.pager.poison(e.message())),
            None => Ok(()),
        }
    }

    /// The log position that an answer without a change must wait for: it depends on other threads' writes in the
    /// bucket whose latch the caller holds. Their records were appended under that latch, so they end before this
    /// position.
    #[inline]
    pub(super) fn position_seen(&self) -> Lsn {
        self.log_in_use().filter(|log| log.waits()).map_or(0, Log::position)
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
        assert_eq!(decode_batch(&bytes).unwrap(), changes);
        for cut in 1..bytes.len() {
            if let Some(fewer) = decode_batch(&bytes[..cut]) {
                assert!(changes.starts_with(&fewer) && fewer.len() < changes.len(), "cut to {cut}");
            }
        }
        assert_eq!(decode_batch(&[9, 0, 0]), None);
    }
}
