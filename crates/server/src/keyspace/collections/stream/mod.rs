//! Streams: entries in the order of their IDs, and the consumer groups that read them.
//!
//! ```text
//! the key's value   flags, u8 | 14 numbers, u64 each | the newest entries, up to TAIL_BYTES
//! a tree (tree/)    all else, as members with the score 0, each a tag and:
//!
//!   1  group    name, 00 00                       number, last ID, entries read
//!   2  consumer group's number, name, 00 00       number, when it was last seen
//!   3  owned    group, consumer, ID               of a pending entry
//!   4  pending  group, ID                         consumer, when and how often delivered
//!   5  entry    ID                                fields and values, as in elements.rs
//! ```
//!
//! So XADD writes only the key's value, and a leaf of the tree about every kilobyte. Counts (a consumer's
//! entries, a group's consumers) are differences of two ranks, and no value grows with the number of entries,
//! groups, consumers or pending entries. Entries come last: a tree that grows at its end has full leaves.
//!
//! ```text
//! entry_id.rs  IDs
//! records.rs   the records of the tree as bytes
//! lookups.rs   finds records in the tree
//! change.rs    a stream that is being changed: records added and removed, and storing the key's value
//! entries.rs   entries: reading ranges, adding, removing, trimming
//! groups.rs    consumer groups, consumers, pending entries
//! ```
//!
//! Bytes of a file may be damaged, or made by an attacker: every number and record is checked, as in `tree/`.
//!
//! All bytes here are on disk, numbers within records big-endian, so that they sort.

mod change;
mod entries;
mod entry_id;
mod groups;
mod lookups;
mod records;
#[cfg(test)]
mod tests;

use super::elements;
use super::shape::{LARGE, NODES, Tree, damaged};
use super::tree::Place;
use crate::keyspace::collections::counts::numbers;
use crate::keyspace::pairs::Pairs;
use crate::keyspace::{Kind, Result};
pub(crate) use change::StreamMut;
pub use entry_id::EntryId;
use records::bad_record;
pub(crate) use records::{Consumer, Group, Pending};
use std::ops::Range;

/// Beyond this many bytes the newest entries go into the tree.
const TAIL_BYTES: usize = 1024;
/// Numbers of the key's value.
const NUMBERS: usize = 14;
/// Larger numbers of records or bytes count as damage.
const RECORDS_MAX: u64 = 1 << 60;

/// A stream, as its key describes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    database: usize,
    /// The number of the collection, if there is a tree.
    id: u64,
    /// The tree; without nodes if all entries are in the key's value.
    tree: Tree,
    /// Records of the tree.
    records: u64,
    entries: u64,
    /// Bytes of the entries.
    bytes: u64,
    /// Entries ever added.
    pub(crate) added: u64,
    /// The last number assigned to a group or consumer.
    serial: u64,
    /// The last ID assigned.
    pub(crate) last: EntryId,
    /// The greatest ID that XDEL removed.
    pub(crate) max_deleted: EntryId,
    /// The newest entries, as elements.
    tail: Vec<u8>,
    tail_entries: u64,
}

/// The segments of a stream's value: see [`super::shape::segments_of`].
pub(super) fn segments(value: &[u8]) -> Result<Option<(u64, Range<u64>)>> {
    let stream = Stream::decode(0, value)?;
    Ok((stream.tree.nodes > 0).then(|| (stream.id, NODES..NODES + stream.tree.nodes)))
}

impl Stream {
    /// The stream at `key`; `None` if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`](crate::keyspace::SpaceError::WrongType), or the errors of
    /// [`splitpoint::Table::get`].
    pub(crate) fn open(pairs: &mut (impl Pairs + ?Sized), database: usize, key: &[u8]) -> Result<Option<Stream>> {
        let mut value = Vec::new();
        let found = pairs.name(database, key, Kind::Stream, &mut value)?;
        found.map(|_| Stream::decode(database, &value)).transpose()
    }

    pub(super) fn decode(database: usize, value: &[u8]) -> Result<Stream> {
        let (described, tail) = value.split_at_checked(1 + 8 * NUMBERS).unwrap_or_default();
        let numbers = described.get(1..).and_then(numbers::<NUMBERS>);
        let Some([id, root, height, nodes, free, records, entries, bytes, added, serial, rest @ ..]) = numbers else {
            return Err(damaged("its description has another length"));
        };
        let tree = Tree { root, height, nodes, free };
        let tail_entries = elements::count(tail).filter(|_| tail.len() <= TAIL_BYTES);
        let tail_entries = tail_entries.ok_or_else(|| bad_record("newest entries"))?;
        let is_tree = if nodes == 0 { records == 0 } else { tree.is_possible() && records <= RECORDS_MAX };
        let in_tree = entries.checked_sub(tail_entries).filter(|in_tree| *in_tree <= records);
        if !is_tree || in_tree.is_none() || bytes.max(serial) > RECORDS_MAX {
            return Err(damaged(format_args!("a stream of {entries} entries, {records} records and {nodes} nodes")));
        }
        let [ms, seq, deleted_ms, deleted_seq] = rest;
        let (last, max_deleted) = (EntryId { ms, seq }, EntryId { ms: deleted_ms, seq: deleted_seq });
        let tail = tail.to_vec();
        Ok(Stream { database, id, tree, records, entries, bytes, added, serial, last, max_deleted, tail, tail_entries })
    }

    fn encode(&self) -> Vec<u8> {
        let Tree { root, height, nodes, free } = self.tree;
        let (last, deleted) = (self.last, self.max_deleted);
        let numbers: [u64; NUMBERS] = [
            self.id,
            root,
            height,
            nodes,
            free,
            self.records,
            self.entries,
            self.bytes,
            self.added,
            self.serial,
            last.ms,
            last.seq,
            deleted.ms,
            deleted.seq,
        ];
        let mut value = vec![if nodes > 0 { LARGE } else { 0 }];
        value.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        value.extend_from_slice(&self.tail);
        value
    }

    /// The number of entries. O(1).
    pub(crate) fn len(&self) -> u64 {
        self.entries
    }

    /// Approximate bytes of all records; below 2^61.
    pub(crate) fn bytes(&self) -> u64 {
        const RECORD_BYTES: u64 = 48;
        self.bytes + RECORD_BYTES.saturating_mul(self.before_entries()).min(RECORDS_MAX)
    }

    /// Bytes of the average entry.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.bytes / self.entries.max(1)
    }

    /// The number of nodes of the tree.
    pub(crate) fn nodes(&self) -> u64 {
        self.tree.nodes
    }

    /// Entries in the tree, after all other records.
    fn in_tree(&self) -> u64 {
        self.entries.saturating_sub(self.tail_entries)
    }

    /// Records before the entries; damaged trees may have fewer.
    fn before_entries(&self) -> u64 {
        self.records.saturating_sub(self.in_tree())
    }

    fn place(&self) -> Place {
        Place { database: self.database, id: self.id }
    }
}
