//! Streams: entries in the order of their IDs, and the consumer groups that read them.
//!
//! ```text
//! the key's value   flags, u8 | 14 numbers, u64 each | the newest entries, up to TAIL_BYTES
//! a tree (tree.rs)  all else, as members with the score 0, each a tag and:
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
//! Bytes of a file may be damaged, or made by an attacker: every number and record is checked, as in `tree.rs`.
//!
//! All bytes here are on disk, numbers within records big-endian, so that they sort.

use super::elements;
use super::shape::{LARGE, NODES, Tree, damaged};
use super::tree::{Editor, Loaded, Place};
use crate::keyspace::pairs::{Pairs, PairsMut};
use crate::keyspace::upkeep::counts::numbers;
use crate::keyspace::{Attributes, Kind, Result, SpaceError};
use std::ops::Range;

/// Beyond this many bytes the newest entries go into the tree.
const TAIL_BYTES: usize = 1024;
/// Numbers of the key's value.
const NUMBERS: usize = 14;
/// Larger numbers of records or bytes count as damage.
const RECORDS_MAX: u64 = 1 << 60;

/// How many entries a group has read, if that is not known.
const UNKNOWN: i64 = -1; // on disk

const GROUP: u8 = 1; // on disk
const CONSUMER: u8 = 2; // on disk
const OWNED: u8 = 3; // on disk
const PENDING: u8 = 4; // on disk
const ENTRY: u8 = 5; // on disk

/// The ID of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The time in Unix milliseconds, unless the client chose another number.
    pub ms: u64,
    /// Counts the entries of one millisecond.
    pub seq: u64,
}

impl EntryId {
    /// The ID before all others, which no entry has.
    pub const MIN: EntryId = EntryId { ms: 0, seq: 0 };
    pub(crate) const MAX: EntryId = EntryId { ms: u64::MAX, seq: u64::MAX };

    /// The ID after this one; `None` after the last.
    pub(crate) fn next(self) -> Option<EntryId> {
        let number = self.number().checked_add(1)?;
        Some(EntryId::of(number))
    }

    /// The ID before this one; `None` before the first.
    pub(crate) fn previous(self) -> Option<EntryId> {
        let number = self.number().checked_sub(1)?;
        Some(EntryId::of(number))
    }

    fn number(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.seq)
    }

    fn of(number: u128) -> EntryId {
        EntryId { ms: (number >> 64) as u64, seq: number as u64 } // the two halves
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// A consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its number within the stream, for as long as it exists.
    pub(crate) number: u64,
    /// The last entry that it delivered.
    pub(crate) last: EntryId,
    /// How many entries it has read; `None` if that is not known. Signed, as in Redis.
    pub(crate) read: Option<i64>,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    /// Its number within the stream, for as long as it exists.
    pub(crate) number: u64,
    /// When it was last seen, in Unix milliseconds.
    pub(crate) seen_ms: u64,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The number of its consumer.
    pub(crate) consumer: u64,
    /// When it was last delivered, in Unix milliseconds.
    pub(crate) delivered_ms: u64,
    /// How often it was delivered.
    pub(crate) count: u64,
}

/// The bytes of a record, or of its beginning.
struct Record(Vec<u8>);

impl Record {
    fn new(tag: u8) -> Record {
        Record(vec![tag])
    }

    fn number(mut self, number: u64) -> Record {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn id(self, id: EntryId) -> Record {
        self.number(id.ms).number(id.seq)
    }

    /// Appends a name and its end: a zero becomes 00 FF, and the end is 00 00, so names keep their order.
    fn name(mut self, name: &[u8]) -> Record {
        for &byte in name {
            self.0.push(byte);
            self.0.extend((byte == 0).then_some(0xFF));
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    fn group(name: &[u8]) -> Record {
        Record::new(GROUP).name(name)
    }

    fn whole_group(name: &[u8], group: Group) -> Record {
        let read = group.read.unwrap_or(UNKNOWN) as u64; // the same bits
        Record::group(name).number(group.number).id(group.last).number(read)
    }

    fn consumer(group: u64, name: &[u8]) -> Record {
        Record::new(CONSUMER).number(group).name(name)
    }

    fn whole_consumer(group: u64, name: &[u8], consumer: Consumer) -> Record {
        Record::consumer(group, name).number(consumer.number).number(consumer.seen_ms)
    }

    fn pending(group: u64, id: EntryId) -> Record {
        Record::new(PENDING).number(group).id(id)
    }

    fn whole_pending(group: u64, id: EntryId, pending: Pending) -> Record {
        let Pending { consumer, delivered_ms, count } = pending;
        Record::pending(group, id).number(consumer).number(delivered_ms).number(count)
    }

    fn owned(group: u64, consumer: u64, id: EntryId) -> Record {
        Record::new(OWNED).number(group).number(consumer).id(id)
    }

    fn entry(id: EntryId) -> Record {
        Record::new(ENTRY).id(id)
    }
}

/// Parses a record.
struct Reader<'r>(&'r [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    fn id(&mut self) -> Option<EntryId> {
        Some(EntryId { ms: self.number()?, seq: self.number()? })
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            if byte == 0 {
                let (&second, rest) = self.0.split_first()?;
                self.0 = rest;
                match second {
                    0 => return Some(name),
                    0xFF => {}
                    _ => return None,
                }
            }
            name.push(byte);
        }
    }

    /// Returns `found` if the record ends here.
    fn end<T>(self, found: T) -> Option<T> {
        self.0.is_empty().then_some(found)
    }
}

fn group_of(record: &[u8]) -> Option<Group> {
    let mut reader = Reader(record);
    let (number, last) = (reader.number()?, reader.id()?);
    let read = Some(reader.number()? as i64).filter(|read| *read != UNKNOWN); // the same bits
    reader.end(Group { number, last, read })
}

fn consumer_of(record: &[u8]) -> Option<Consumer> {
    let mut reader = Reader(record);
    let consumer = Consumer { number: reader.number()?, seen_ms: reader.number()? };
    reader.end(consumer)
}

fn pending_of(record: &[u8]) -> Option<Pending> {
    let mut reader = Reader(record);
    let pending = Pending { consumer: reader.number()?, delivered_ms: reader.number()?, count: reader.number()? };
    reader.end(pending)
}

/// The ID of an entry, and its fields and values.
fn entry_of(record: &[u8]) -> Option<(EntryId, &[u8])> {
    let mut reader = Reader(record.strip_prefix(&[ENTRY])?);
    let id = reader.id()?;
    elements::count(reader.0).filter(|count| count.is_multiple_of(2) && *count > 0)?;
    Some((id, reader.0))
}

#[cold]
fn bad_record(what: &str) -> SpaceError {
    damaged(format_args!("a stream has bytes that are no {what}"))
}

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
    /// Returns [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
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

    /// The number of records before those that begin with `prefix`; `with_equal` includes these.
    fn rank(&self, pairs: &mut (impl Pairs + ?Sized), prefix: &[u8], with_equal: bool) -> Result<u64> {
        if self.tree.nodes == 0 {
            return Ok(0);
        }
        let is_before = |(_, member): (f64, &[u8])| member < prefix || with_equal && member.starts_with(prefix);
        Ok(self.tree.count_before(pairs, self.place(), is_before)?.min(self.records))
    }

    /// The ranks of the records that begin with `prefix`.
    fn ranks(&self, pairs: &mut (impl Pairs + ?Sized), prefix: &[u8]) -> Result<Range<u64>> {
        let start = self.rank(pairs, prefix, false)?;
        Ok(start..self.rank(pairs, prefix, true)?.max(start))
    }

    fn count(&self, pairs: &mut (impl Pairs + ?Sized), prefix: Record) -> Result<u64> {
        let Range { start, end } = self.ranks(pairs, &prefix.0)?;
        Ok(end - start)
    }

    /// Calls `take` with the records of a range of ranks until it returns `false`.
    fn for_ranks(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        ranks: Range<u64>,
        is_reverse: bool,
        take: &mut dyn FnMut(&[u8]) -> Result<bool>,
    ) -> Result<()> {
        if ranks.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        let take = &mut |(_, member): (f64, &[u8])| match take(member) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                outcome = Err(error);
                false
            }
        };
        self.tree.for_range(pairs, self.place(), (self.records, ranks), is_reverse, take)?;
        outcome
    }

    /// The record that begins with `prefix`.
    fn find(&self, pairs: &mut (impl Pairs + ?Sized), prefix: &[u8]) -> Result<Option<Vec<u8>>> {
        let rank = self.rank(pairs, prefix, false)?;
        let mut found = None;
        self.for_ranks(pairs, rank..self.records.min(rank + 1), false, &mut |member| {
            found = member.starts_with(prefix).then(|| member.to_vec());
            Ok(false)
        })?;
        Ok(found)
    }

    /// Finds the record that begins with `prefix`; `parse` gets the bytes after the prefix.
    fn find_as<T>(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        prefix: Record,
        what: &str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<Option<T>> {
        let found = self.find(pairs, &prefix.0)?;
        found.map(|member| parse(&member[prefix.0.len()..]).ok_or_else(|| bad_record(what))).transpose()
    }

    /// Up to `most` records that begin with `prefix`, from `from` on; `parse` gets the bytes after the prefix.
    fn all_as<T>(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (prefix, from): (Record, Option<EntryId>),
        most: usize,
        what: &str,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut ranks = self.ranks(pairs, &prefix.0)?;
        let at = prefix.0.len();
        if let Some(from) = from.filter(|from| *from != EntryId::MIN && !ranks.is_empty()) {
            ranks.start = self.rank(pairs, &prefix.id(from).0, false)?.clamp(ranks.start, ranks.end);
        }
        let mut found = Vec::new();
        if most > 0 {
            self.for_ranks(pairs, ranks, false, &mut |member| {
                let parsed = member.get(at..).and_then(&parse);
                found.push(parsed.ok_or_else(|| bad_record(what))?);
                Ok(found.len() < most)
            })?;
        }
        Ok(found)
    }

    /// Calls `take` with the entries from one ID to another, each with its fields and values, until it
    /// returns `false`. O(log n + entries).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn for_entries(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (from, to): (EntryId, EntryId),
        is_reverse: bool,
        take: &mut dyn FnMut(EntryId, &[u8]) -> bool,
    ) -> Result<()> {
        if from > to {
            return Ok(());
        }
        let mut pass = |record: &[u8]| -> Result<bool> {
            let (id, fields) = entry_of(record).ok_or_else(|| bad_record("entry"))?;
            Ok(match () {
                () if id < from => !is_reverse,
                () if id > to => is_reverse,
                () => take(id, fields),
            })
        };
        let tail_first = self.tail_first()?;
        let is_in_tree = self.in_tree() > 0 && tail_first.is_none_or(|first| from < first);
        let is_in_tail = tail_first.is_some_and(|first| to >= first);
        let first = self.before_entries();
        for is_tail in [is_reverse, !is_reverse] {
            if is_tail && is_in_tail {
                let mut records: Vec<&[u8]> = elements::iter(&self.tail).collect();
                if is_reverse {
                    records.reverse();
                }
                for record in records {
                    if !pass(record)? {
                        return Ok(());
                    }
                }
            } else if !is_tail && is_in_tree {
                let start = if from == EntryId::MIN { 0 } else { self.rank(pairs, &Record::entry(from).0, false)? };
                let end = if is_reverse { self.rank(pairs, &Record::entry(to).0, true)? } else { self.records };
                let ranks = start.max(first)..end;
                let mut stopped = false;
                self.for_ranks(pairs, ranks, is_reverse, &mut |record| {
                    let goes_on = pass(record)?;
                    stopped |= !goes_on;
                    Ok(goes_on)
                })?;
                if stopped {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The first ID of the newest entries, which are in the key's value.
    fn tail_first(&self) -> Result<Option<EntryId>> {
        let first = elements::iter(&self.tail).next();
        first.map(|record| entry_of(record).map(|(id, _)| id).ok_or_else(|| bad_record("entry"))).transpose()
    }

    /// The ID of the first or the last entry.
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries).
    pub(crate) fn edge(&self, pairs: &mut (impl Pairs + ?Sized), is_last: bool) -> Result<Option<EntryId>> {
        let mut edge = None;
        self.for_entries(pairs, (EntryId::MIN, EntryId::MAX), is_last, &mut |id, _| {
            edge = Some(id);
            false
        })?;
        Ok(edge)
    }

    /// Whether the entry exists. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries).
    pub(crate) fn contains(&self, pairs: &mut (impl Pairs + ?Sized), id: EntryId) -> Result<bool> {
        let mut found = false;
        self.for_entries(pairs, (id, id), false, &mut |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// The number of entries before an ID. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries).
    pub(crate) fn count_before(&self, pairs: &mut (impl Pairs + ?Sized), id: EntryId) -> Result<u64> {
        let first = self.before_entries();
        let before = self.rank(pairs, &Record::entry(id).0, false)?.saturating_sub(first);
        if before < self.in_tree() {
            return Ok(before);
        }
        let mut in_tail = 0;
        for record in elements::iter(&self.tail) {
            let (other, _) = entry_of(record).ok_or_else(|| bad_record("entry"))?;
            in_tail += u64::from(other < id);
        }
        Ok(self.in_tree() + in_tail)
    }

    /// The group with this name. O(log n), as are the methods below.
    ///
    /// # Errors
    /// Returns the errors of [`for_entries`](Self::for_entries), as do the methods below.
    pub(crate) fn group(&self, pairs: &mut (impl Pairs + ?Sized), name: &[u8]) -> Result<Option<Group>> {
        self.find_as(pairs, Record::group(name), "group", group_of)
    }

    /// All groups with their names, sorted by name.
    pub(crate) fn groups(&self, pairs: &mut (impl Pairs + ?Sized)) -> Result<Vec<(Vec<u8>, Group)>> {
        self.all_as(pairs, (Record::new(GROUP), None), usize::MAX, "group", |record| {
            let mut reader = Reader(record);
            Some((reader.name()?, group_of(reader.0)?))
        })
    }

    /// The number of groups.
    pub(crate) fn group_count(&self, pairs: &mut (impl Pairs + ?Sized)) -> Result<u64> {
        self.count(pairs, Record::new(GROUP))
    }

    /// The consumer with this name.
    pub(crate) fn consumer(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        group: u64,
        name: &[u8],
    ) -> Result<Option<Consumer>> {
        self.find_as(pairs, Record::consumer(group, name), "consumer", consumer_of)
    }

    /// All consumers of a group with their names, sorted by name.
    pub(crate) fn consumers(&self, pairs: &mut (impl Pairs + ?Sized), group: u64) -> Result<Vec<(Vec<u8>, Consumer)>> {
        let of_group = Record::new(CONSUMER).number(group);
        self.all_as(pairs, (of_group, None), usize::MAX, "consumer", |record| {
            let mut reader = Reader(record);
            Some((reader.name()?, consumer_of(reader.0)?))
        })
    }

    /// The number of consumers of a group.
    pub(crate) fn consumer_count(&self, pairs: &mut (impl Pairs + ?Sized), group: u64) -> Result<u64> {
        self.count(pairs, Record::new(CONSUMER).number(group))
    }

    /// The pending entry of a group with this ID.
    pub(crate) fn pending(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        group: u64,
        id: EntryId,
    ) -> Result<Option<Pending>> {
        self.find_as(pairs, Record::pending(group, id), "pending entry", pending_of)
    }

    /// The number of pending entries of a group.
    pub(crate) fn pending_count(&self, pairs: &mut (impl Pairs + ?Sized), group: u64) -> Result<u64> {
        self.count(pairs, Record::new(PENDING).number(group))
    }

    /// At most `most` pending entries of a group, from an ID on.
    pub(crate) fn pending_from(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        group: u64,
        from: EntryId,
        most: usize,
    ) -> Result<Vec<(EntryId, Pending)>> {
        let of_group = Record::new(PENDING).number(group);
        self.all_as(pairs, (of_group, Some(from)), most, "pending entry", |record| {
            let mut reader = Reader(record);
            Some((reader.id()?, pending_of(reader.0)?))
        })
    }

    /// The last ID of a group's pending entries.
    pub(crate) fn pending_last(&self, pairs: &mut (impl Pairs + ?Sized), group: u64) -> Result<Option<EntryId>> {
        let of_group = Record::new(PENDING).number(group).0;
        let (ranks, mut last) = (self.ranks(pairs, &of_group)?, None);
        self.for_ranks(pairs, ranks, true, &mut |record| {
            let id = record.get(of_group.len()..).and_then(|record| Reader(record).id());
            last = Some(id.ok_or_else(|| bad_record("pending entry"))?);
            Ok(false)
        })?;
        Ok(last)
    }

    /// The number of pending entries of a consumer.
    pub(crate) fn owned_count(&self, pairs: &mut (impl Pairs + ?Sized), group: u64, consumer: u64) -> Result<u64> {
        self.count(pairs, Record::new(OWNED).number(group).number(consumer))
    }

    /// Up to `most` IDs of a consumer's pending entries, from an ID on.
    pub(crate) fn owned_from(
        &self,
        pairs: &mut (impl Pairs + ?Sized),
        (group, consumer): (u64, u64),
        from: EntryId,
        most: usize,
    ) -> Result<Vec<EntryId>> {
        let of_consumer = Record::new(OWNED).number(group).number(consumer);
        self.all_as(pairs, (of_consumer, Some(from)), most, "pending entry", |record| {
            let mut reader = Reader(record);
            let id = reader.id()?;
            reader.end(id)
        })
    }
}

/// A stream that is being changed, with exclusive entry. [`finish`](Self::finish) stores the rest of the change.
pub(crate) struct StreamMut<'e, 'k> {
    alone: &'e mut (dyn PairsMut + 'k),
    key: &'e [u8],
    expires_at_ms: u64,
    stream: Stream,
    is_present: bool,
    loaded: Loaded,
    /// What changed since it was opened: whether WATCH and CLIENT TRACKING count it, and the keyspace events.
    changed: Option<(bool, Vec<&'static str>)>,
}

impl<'e, 'k> StreamMut<'e, 'k> {
    /// The stream at `key`, new if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`], or the errors of [`splitpoint::Table::get`].
    pub(crate) fn open(
        alone: &'e mut (dyn PairsMut + 'k),
        database: usize,
        key: &'e [u8],
    ) -> Result<StreamMut<'e, 'k>> {
        let mut value = Vec::new();
        let found = alone.name(database, key, Kind::Stream, &mut value)?;
        let stream = match found {
            Some(_) => Stream::decode(database, &value)?,
            None => Stream { database, ..Stream::default() },
        };
        let (is_present, expires_at_ms) = (found.is_some(), found.unwrap_or(0));
        Ok(StreamMut { alone, key, expires_at_ms, stream, is_present, loaded: Loaded::default(), changed: None })
    }

    /// Whether the key is present.
    pub(crate) fn is_present(&self) -> bool {
        self.is_present
    }

    /// The time of the key space, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.alone.now_ms()
    }

    /// The greatest ID that the stream had.
    pub(crate) fn last(&self) -> EntryId {
        self.stream.last
    }

    /// The stream as it is now, and the entry to read it with.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn read(&mut self) -> Result<(&Stream, &mut (dyn PairsMut + 'k))> {
        self.store()?;
        Ok((&self.stream, self.alone))
    }

    fn editor(&mut self) -> Editor<'_, 'k> {
        let place = self.stream.place();
        Editor { alone: self.alone, place, tree: &mut self.stream.tree, loaded: &mut self.loaded }
    }

    fn store(&mut self) -> Result<()> {
        if self.stream.tree.nodes > 0 { self.editor().store() } else { Ok(()) }
    }

    /// Adds a record that the tree does not have.
    fn insert(&mut self, record: &[u8]) -> Result<()> {
        if self.stream.tree.nodes == 0 {
            // Segments of an earlier tree may still wait for their removal.
            self.stream.id = self.alone.new_collection(self.stream.database)?;
            self.editor().begin()?;
        }
        self.editor().insert((0.0, record))?;
        self.stream.records += 1;
        Ok(())
    }

    /// Removes the record that begins with `prefix`, and returns its bytes after the prefix.
    fn remove(&mut self, prefix: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store()?;
        let Some(record) = self.stream.find(self.alone, prefix)? else { return Ok(None) };
        self.remove_whole(&record)?;
        Ok(Some(record[prefix.len()..].to_vec()))
    }

    /// Removes a record that the tree has.
    fn remove_whole(&mut self, record: &[u8]) -> Result<()> {
        if self.stream.tree.nodes == 0 {
            return Err(damaged("a stream has lost its tree"));
        }
        self.editor().remove((0.0, record))?;
        self.forget(1)
    }

    /// Notes that `count` records were removed from the tree.
    fn forget(&mut self, count: u64) -> Result<()> {
        let left = self.stream.records.checked_sub(count);
        self.stream.records = left.ok_or_else(|| damaged("a stream has more records than its key says"))?;
        Ok(())
    }

    /// Removes the records of a range of ranks, and calls `take` with them.
    fn remove_ranks(&mut self, ranks: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut left = ranks.end - ranks.start;
        while left > 0 {
            let removed = self.editor().remove_from(ranks.start, left, |(_, record)| take(record))?;
            self.forget(removed)?;
            left -= removed;
        }
        Ok(())
    }

    /// Removes all records that begin with `prefix`.
    fn remove_all(&mut self, prefix: Record) -> Result<()> {
        self.store()?;
        let ranks = self.stream.ranks(self.alone, &prefix.0)?;
        self.remove_ranks(ranks, |_| {})
    }

    /// Adds an entry whose ID is greater than all before. Writes one pair, and a leaf of the tree about every kilobyte.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn append<'f>(&mut self, id: EntryId, fields: impl Iterator<Item = &'f [u8]>) -> Result<()> {
        let mut record = Record::entry(id).0;
        fields.for_each(|field| elements::push(&mut record, field));
        elements::push(&mut self.stream.tail, &record);
        self.stream.tail_entries += 1;
        self.stream.entries += 1;
        self.stream.added = self.stream.added.wrapping_add(1);
        self.stream.bytes += record.len() as u64;
        self.stream.last = id;
        if self.stream.tail.len() > TAIL_BYTES {
            let tail = std::mem::take(&mut self.stream.tail);
            self.stream.tail_entries = 0;
            elements::iter(&tail).try_for_each(|record| self.insert(record))?;
        }
        Ok(())
    }

    /// Removes an entry. Returns whether it was there. O(log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn remove_entry(&mut self, id: EntryId) -> Result<bool> {
        let prefix = Record::entry(id).0;
        let bytes = if self.stream.tail_first()?.is_some_and(|first| id >= first) {
            let mut records = elements::iter(&self.stream.tail);
            let (mut start, mut found) = (0, None);
            while let Some(record) = records.next() {
                if record.starts_with(&prefix) {
                    found = Some((start..records.at(), record.len()));
                    break;
                }
                start = records.at();
            }
            let Some((range, bytes)) = found else { return Ok(false) };
            self.stream.tail.drain(range);
            self.stream.tail_entries -= 1;
            bytes
        } else {
            let Some(rest) = self.remove(&prefix)? else { return Ok(false) };
            prefix.len() + rest.len()
        };
        self.stream.entries = self.stream.entries.saturating_sub(1);
        self.stream.bytes = self.stream.bytes.saturating_sub(bytes as u64);
        Ok(true)
    }

    /// Removes the first `count` entries, or all if there are fewer. O(entries + log n).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`].
    pub(crate) fn trim(&mut self, count: u64) -> Result<()> {
        let from_tree = count.min(self.stream.in_tree());
        let first = self.stream.before_entries();
        let mut bytes = 0;
        self.remove_ranks(first..first + from_tree, |record| bytes += record.len() as u64)?;
        self.stream.entries -= from_tree;
        let from_tail = (count - from_tree).min(self.stream.tail_entries);
        let mut records = elements::iter(&self.stream.tail);
        for _ in 0..from_tail {
            bytes += records.next().map_or(0, |record| record.len() as u64);
        }
        let end = records.at();
        self.stream.tail.drain(..end);
        self.stream.tail_entries -= from_tail;
        self.stream.entries -= from_tail;
        self.stream.bytes = self.stream.bytes.saturating_sub(bytes);
        Ok(())
    }

    /// Sets what XSETID sets.
    pub(crate) fn set_counters(&mut self, last: EntryId, added: Option<u64>, max_deleted: Option<EntryId>) {
        self.stream.last = last;
        self.stream.added = added.unwrap_or(self.stream.added);
        self.stream.max_deleted = max_deleted.unwrap_or(self.stream.max_deleted);
    }

    /// Notes that XDEL removed an entry.
    pub(crate) fn note_deleted(&mut self, id: EntryId) {
        self.stream.max_deleted = self.stream.max_deleted.max(id);
    }

    fn new_number(&mut self) -> u64 {
        self.stream.serial += 1;
        self.stream.serial
    }

    /// Adds a group that the stream does not have.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`], or [`splitpoint::ErrorKind::Corrupt`], as do those below.
    pub(crate) fn add_group(&mut self, name: &[u8], last: EntryId, read: Option<i64>) -> Result<()> {
        let number = self.new_number();
        self.insert(&Record::whole_group(name, Group { number, last, read }).0)
    }

    /// Changes a group from `before` to `after`.
    pub(crate) fn set_group(&mut self, name: &[u8], before: Group, after: Group) -> Result<()> {
        self.remove_whole(&Record::whole_group(name, before).0)?;
        self.insert(&Record::whole_group(name, after).0)
    }

    /// Removes a group with its consumers and pending entries. O(their number).
    pub(crate) fn remove_group(&mut self, name: &[u8], group: u64) -> Result<()> {
        self.remove(&Record::group(name).0)?;
        [CONSUMER, OWNED, PENDING].into_iter().try_for_each(|tag| self.remove_all(Record::new(tag).number(group)))
    }

    /// Adds a consumer that the group does not have.
    pub(crate) fn add_consumer(&mut self, group: u64, name: &[u8], now_ms: u64) -> Result<Consumer> {
        let consumer = Consumer { number: self.new_number(), seen_ms: now_ms };
        self.insert(&Record::whole_consumer(group, name, consumer).0)?;
        Ok(consumer)
    }

    /// Notes that a consumer, so far `before`, was seen now.
    pub(crate) fn see_consumer(&mut self, group: u64, name: &[u8], before: Consumer, now_ms: u64) -> Result<()> {
        self.remove_whole(&Record::whole_consumer(group, name, before).0)?;
        self.insert(&Record::whole_consumer(group, name, Consumer { seen_ms: now_ms, ..before }).0)
    }

    /// Removes a consumer with its pending entries. O(their number).
    pub(crate) fn remove_consumer(&mut self, group: u64, name: &[u8], consumer: u64) -> Result<()> {
        const AT_ONCE: usize = 1000;
        self.remove(&Record::consumer(group, name).0)?;
        loop {
            let (stream, alone) = self.read()?;
            let some = stream.owned_from(alone, (group, consumer), EntryId::MIN, AT_ONCE)?;
            for id in &some {
                self.remove_whole(&Record::owned(group, consumer, *id).0)?;
                self.remove(&Record::pending(group, *id).0)?;
            }
            if some.is_empty() {
                return Ok(());
            }
        }
    }

    /// Stores a pending entry of a group. `before`: the old one, if any.
    pub(crate) fn set_pending(
        &mut self,
        group: u64,
        id: EntryId,
        before: Option<Pending>,
        after: Pending,
    ) -> Result<()> {
        if let Some(before) = before {
            self.remove_whole(&Record::whole_pending(group, id, before).0)?;
            if before.consumer != after.consumer {
                self.remove_whole(&Record::owned(group, before.consumer, id).0)?;
            }
        }
        if before.is_none_or(|before| before.consumer != after.consumer) {
            self.insert(&Record::owned(group, after.consumer, id).0)?;
        }
        self.insert(&Record::whole_pending(group, id, after).0)
    }

    /// Removes a pending entry of a group. Returns whether it was there.
    pub(crate) fn remove_pending(&mut self, group: u64, id: EntryId) -> Result<bool> {
        let Some(record) = self.remove(&Record::pending(group, id).0)? else { return Ok(false) };
        let pending = pending_of(&record).ok_or_else(|| bad_record("pending entry"))?;
        self.remove_whole(&Record::owned(group, pending.consumer, id).0)?;
        Ok(true)
    }

    /// Makes [`store_changes`](Self::store_changes) store the key. `is_seen`: whether WATCH and CLIENT TRACKING count
    /// it as a change. `events`: its keyspace events.
    pub(crate) fn note_change(&mut self, is_seen: bool, events: &[&'static str]) {
        let (was_seen, noted) = self.changed.get_or_insert_default();
        *was_seen |= is_seen;
        noted.extend(events);
        self.is_present = true;
    }

    /// [`note_change`](Self::note_change), and [`store_changes`](Self::store_changes).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn finish(mut self, is_seen: bool, events: &[&'static str]) -> Result<()> {
        self.note_change(is_seen, events);
        self.store_changes()
    }

    /// Stores the key's new value if a change was noted.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn store_changes(mut self) -> Result<()> {
        let Some((is_seen, events)) = self.changed.take() else { return Ok(()) };
        self.store()?;
        let database = self.stream.database;
        if self.stream.records == 0 && self.stream.tree.nodes > 0 {
            self.alone.release(database, self.stream.id, [NODES..NODES + self.stream.tree.nodes, 0..0])?;
            self.stream.tree = Tree::default();
        }
        let attributes = Attributes { expires_at_ms: self.expires_at_ms, kind: Kind::Stream, ..Attributes::NONE };
        let value = self.stream.encode();
        if is_seen {
            self.alone.put_collection(database, self.key, Some((attributes, &value)))?;
        } else {
            self.alone.put_unseen(database, self.key, attributes, &value)?;
        }
        events.iter().for_each(|event| self.alone.note_event(database, self.key, event));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::tests::{Random, collection_spaces, hidden_pairs};
    use crate::keyspace::{KeySpace, Patience};
    use std::collections::{BTreeMap, BTreeSet};

    fn value_of(id: EntryId) -> Vec<u8> {
        vec![id.seq as u8; (id.ms % 7 * id.ms % 90) as usize + if id.ms.is_multiple_of(50) { 3000 } else { 0 }]
    }

    fn append(stream: &mut StreamMut<'_, '_>, id: EntryId) {
        stream.append(id, [b"field".as_slice(), &value_of(id)].into_iter()).unwrap();
    }

    fn entries(
        stream: &Stream,
        pairs: &mut (impl Pairs + ?Sized),
        range: (EntryId, EntryId),
        is_reverse: bool,
        most: usize,
    ) -> Vec<EntryId> {
        let mut found = Vec::new();
        stream
            .for_entries(pairs, range, is_reverse, &mut |id, fields| {
                let fields: Vec<&[u8]> = elements::iter(fields).collect();
                assert_eq!(fields, [b"field".as_slice(), &value_of(id)]);
                found.push(id);
                found.len() < most
            })
            .unwrap();
        found
    }

    /// Makes a change in one transaction, as a command does.
    fn change(space: &KeySpace, mut make: impl FnMut(&mut StreamMut<'_, '_>)) {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.begin();
        let mut stream = StreamMut::open(&mut alone, 0, b"stream").unwrap();
        make(&mut stream);
        stream.finish(true, &[]).unwrap();
        alone.commit().unwrap();
    }

    #[test]
    fn a_stream_has_the_entries_that_a_set_of_ids_has() {
        for (space, _folder) in collection_spaces() {
            let (mut random, mut model, mut next) = (Random(42), BTreeSet::new(), 1);
            for step in 0..3000 {
                let what = random.below(20);
                change(&space, |stream| match what {
                    0..12 => {
                        for _ in 0..=random.below(4) {
                            next += random.below(3);
                            let id = EntryId { ms: next, seq: stream.stream.last.seq + 1 };
                            append(stream, id);
                            model.insert(id);
                        }
                    }
                    12..17 => {
                        let id = model.range(EntryId { ms: random.below(next), seq: 0 }..).next().copied();
                        let id = id.unwrap_or(EntryId { ms: 0, seq: 5 });
                        assert_eq!(stream.remove_entry(id).unwrap(), model.remove(&id), "{id}");
                        assert!(!stream.remove_entry(id).unwrap());
                    }
                    17 => {
                        let count = random.below(if step % 500 == 0 { 10_000 } else { 40 });
                        stream.trim(count).unwrap();
                        (0..count).for_each(|_| _ = model.pop_first());
                    }
                    _ => {
                        let id = EntryId { ms: random.below(next), seq: random.below(50) };
                        let (now, alone) = stream.read().unwrap();
                        assert_eq!(now.count_before(alone, id).unwrap(), model.range(..id).count() as u64);
                        assert_eq!(now.contains(alone, id).unwrap(), model.contains(&id));
                    }
                });
                let shared = space.share(Patience::MayWait).unwrap();
                let mut pairs = &shared;
                let stream = Stream::open(&mut pairs, 0, b"stream").unwrap().unwrap();
                assert_eq!(stream.len(), model.len() as u64);
                assert_eq!(stream.edge(&mut pairs, false).unwrap(), model.first().copied());
                assert_eq!(stream.edge(&mut pairs, true).unwrap(), model.last().copied());
                let from = EntryId { ms: random.below(next + 5), seq: random.below(3) };
                let to = EntryId { ms: from.ms + random.below(200), seq: random.below(3) };
                let range = if step % 50 == 0 { (EntryId::MIN, EntryId::MAX) } else { (from, to) };
                let expected: Vec<EntryId> =
                    model.iter().filter(|id| (range.0..=range.1).contains(id)).copied().collect();
                assert_eq!(entries(&stream, &mut pairs, range, false, usize::MAX), expected);
                let backwards: Vec<EntryId> = expected.into_iter().rev().collect();
                assert_eq!(entries(&stream, &mut pairs, range, true, usize::MAX), backwards);
                assert_eq!(entries(&stream, &mut pairs, range, true, 3), backwards[..backwards.len().min(3)]);
            }
            // Once the tree is empty, all that remains is in the key's value.
            change(&space, |stream| stream.trim(u64::MAX).unwrap());
            space.sweep_segments(|| true).unwrap();
            assert_eq!(hidden_pairs(&space), 0);
            let last = EntryId { ms: next + 1, seq: 0 };
            change(&space, |stream| append(stream, last));
            let mut alone = space.close(Patience::MayWait).unwrap();
            let stream = Stream::open(&mut alone, 0, b"stream").unwrap().unwrap();
            assert_eq!(entries(&stream, &mut alone, (EntryId::MIN, EntryId::MAX), false, usize::MAX), [last]);
        }
    }

    #[test]
    fn pending_entries_are_found_by_group_and_by_consumer() {
        const NAMES: [&[u8]; 5] = [b"", b"a", b"a\0", b"a\0\0b", b"b"];
        for (space, _folder) in collection_spaces() {
            let mut random = Random(7);
            // By group and ID: the consumer, and how often it was delivered.
            let mut model: BTreeMap<(usize, EntryId), (usize, u64)> = BTreeMap::new();
            let mut is_there = [[false; NAMES.len()]; NAMES.len()];
            for _ in 0..2000 {
                let (group, consumer, what) = (random.below(5) as usize, random.below(5) as usize, random.below(100));
                change(&space, |stream| {
                    let (now, alone) = stream.read().unwrap();
                    let number = match now.group(alone, NAMES[group]).unwrap() {
                        Some(group) => group.number,
                        None => {
                            stream.add_group(NAMES[group], EntryId::MIN, Some(0)).unwrap();
                            let (now, alone) = stream.read().unwrap();
                            now.group(alone, NAMES[group]).unwrap().unwrap().number
                        }
                    };
                    let (now, alone) = stream.read().unwrap();
                    let found = now.consumer(alone, number, NAMES[consumer]).unwrap();
                    assert_eq!(found.is_some(), is_there[group][consumer]);
                    match (what, found) {
                        (0, _) => {
                            stream.remove_group(NAMES[group], number).unwrap();
                            model.retain(|(of, _), _| *of != group);
                            is_there[group] = [false; NAMES.len()];
                        }
                        (1..5, Some(found)) => {
                            stream.remove_consumer(number, NAMES[consumer], found.number).unwrap();
                            model.retain(|(of, _), (owner, _)| (*of, *owner) != (group, consumer));
                            is_there[group][consumer] = false;
                        }
                        (5.., None) => {
                            stream.add_consumer(number, NAMES[consumer], 1).unwrap();
                            is_there[group][consumer] = true;
                        }
                        (5.., Some(found)) => {
                            for _ in 0..5 {
                                let id = EntryId { ms: random.below(40), seq: random.below(3) };
                                if random.below(3) == 0 {
                                    let removed = model.remove(&(group, id)).is_some();
                                    assert_eq!(stream.remove_pending(number, id).unwrap(), removed);
                                    continue;
                                }
                                let (now, alone) = stream.read().unwrap();
                                let before = now.pending(alone, number, id).unwrap();
                                let count = before.map_or(0, |before| before.count) + 1;
                                let after = Pending { consumer: found.number, delivered_ms: 5, count };
                                stream.set_pending(number, id, before, after).unwrap();
                                model.insert((group, id), (consumer, count));
                            }
                        }
                        _ => {}
                    }
                });
                let shared = space.share(Patience::MayWait).unwrap();
                let mut pairs = &shared;
                let stream = Stream::open(&mut pairs, 0, b"stream").unwrap().unwrap();
                let groups = stream.groups(&mut pairs).unwrap();
                assert!(groups.is_sorted_by_key(|(name, _)| name.clone()));
                assert_eq!(stream.group_count(&mut pairs).unwrap(), groups.len() as u64);
                let Some((_, of_group)) = groups.iter().find(|(name, _)| name == NAMES[group]) else { continue };
                let all: Vec<_> = model.range((group, EntryId::MIN)..=(group, EntryId::MAX)).collect();
                let number = of_group.number;
                assert_eq!(stream.pending_count(&mut pairs, number).unwrap(), all.len() as u64);
                assert_eq!(stream.pending_last(&mut pairs, number).unwrap(), all.last().map(|((_, id), _)| *id));
                let consumers = stream.consumers(&mut pairs, number).unwrap();
                assert_eq!(stream.consumer_count(&mut pairs, number).unwrap(), consumers.len() as u64);
                let name_of = |number| &consumers.iter().find(|(_, other)| other.number == number).unwrap().0;
                let from = EntryId { ms: random.below(40), seq: 1 };
                let found = stream.pending_from(&mut pairs, number, from, 10).unwrap();
                let expected = all.iter().filter(|((_, id), _)| *id >= from).take(10);
                let expected: Vec<_> = expected.map(|((_, id), (owner, count))| (*id, NAMES[*owner], *count)).collect();
                let found: Vec<_> =
                    found.iter().map(|(id, found)| (*id, name_of(found.consumer).as_slice(), found.count)).collect();
                assert_eq!(found, expected);
                for (name, consumer) in &consumers {
                    let owned = all.iter().filter(|(_, (owner, _))| NAMES[*owner] == name);
                    let owned: Vec<EntryId> = owned.map(|((_, id), _)| *id).collect();
                    let of_consumer = (number, consumer.number);
                    assert_eq!(stream.owned_count(&mut pairs, number, consumer.number).unwrap(), owned.len() as u64);
                    let found = stream.owned_from(&mut pairs, of_consumer, EntryId::MIN, usize::MAX).unwrap();
                    assert_eq!(found, owned);
                }
            }
            let mut alone = space.close(Patience::MayWait).unwrap();
            assert!(hidden_pairs(&space) > 5);
            alone.remove(0, b"stream").unwrap();
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            assert_eq!(hidden_pairs(&space), 0);
        }
    }

    #[test]
    fn a_stream_that_only_grows_has_full_segments_and_a_value_of_a_kilobyte() {
        const ENTRIES: u64 = 30_000;
        let (space, _folder) = collection_spaces().remove(0);
        for first in (1..ENTRIES).step_by(1000) {
            change(&space, |stream| {
                (first..first + 1000).for_each(|ms| {
                    stream.append(EntryId { ms, seq: 0 }, [b"a".as_slice(), &[7; 60]].into_iter()).unwrap();
                });
                assert!(stream.stream.encode().len() <= 1 + 8 * NUMBERS + TAIL_BYTES);
            });
        }
        // An entry has 89 bytes in a leaf.
        assert!(hidden_pairs(&space) < ENTRIES * 89 * 6 / 5 / 1024, "{}", hidden_pairs(&space));
    }
}
