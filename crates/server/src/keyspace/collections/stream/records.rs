//! The records of a stream's tree: a tag, what sorts them, and their content.
//!
//! Their layout: `mod.rs`. A record is found by its beginning, up to where its content begins.

use super::EntryId;
use crate::keyspace::SpaceError;
use crate::keyspace::collections::elements;
use crate::keyspace::collections::shape::damaged;

/// How many entries a group has read, if that is not known.
const UNKNOWN: i64 = -1; // on disk

pub(super) const GROUP: u8 = 1; // on disk
pub(super) const CONSUMER: u8 = 2; // on disk
pub(super) const OWNED: u8 = 3; // on disk
pub(super) const PENDING: u8 = 4; // on disk
const ENTRY: u8 = 5; // on disk

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
pub(super) struct Record(pub(super) Vec<u8>);

impl Record {
    pub(super) fn new(tag: u8) -> Record {
        Record(vec![tag])
    }

    pub(super) fn number(mut self, number: u64) -> Record {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn id(self, id: EntryId) -> Record {
        self.number(id.ms).number(id.seq)
    }

    /// Appends a name and its end: a zero becomes 00 FF, and the end is 00 00, so names keep their order.
    pub(super) fn name(mut self, name: &[u8]) -> Record {
        for &byte in name {
            self.0.push(byte);
            self.0.extend((byte == 0).then_some(0xFF));
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    pub(super) fn group(name: &[u8]) -> Record {
        Record::new(GROUP).name(name)
    }

    pub(super) fn whole_group(name: &[u8], group: Group) -> Record {
        let read = group.read.unwrap_or(UNKNOWN) as u64; // the same bits
        Record::group(name).number(group.number).id(group.last).number(read)
    }

    pub(super) fn consumer(group: u64, name: &[u8]) -> Record {
        Record::new(CONSUMER).number(group).name(name)
    }

    pub(super) fn whole_consumer(group: u64, name: &[u8], consumer: Consumer) -> Record {
        Record::consumer(group, name).number(consumer.number).number(consumer.seen_ms)
    }

    pub(super) fn pending(group: u64, id: EntryId) -> Record {
        Record::new(PENDING).number(group).id(id)
    }

    pub(super) fn whole_pending(group: u64, id: EntryId, pending: Pending) -> Record {
        let Pending { consumer, delivered_ms, count } = pending;
        Record::pending(group, id).number(consumer).number(delivered_ms).number(count)
    }

    pub(super) fn owned(group: u64, consumer: u64, id: EntryId) -> Record {
        Record::new(OWNED).number(group).number(consumer).id(id)
    }

    pub(super) fn entry(id: EntryId) -> Record {
        Record::new(ENTRY).id(id)
    }
}

/// Parses a record.
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

impl Reader<'_> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    pub(super) fn id(&mut self) -> Option<EntryId> {
        Some(EntryId { ms: self.number()?, seq: self.number()? })
    }

    pub(super) fn name(&mut self) -> Option<Vec<u8>> {
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
    pub(super) fn end<T>(self, found: T) -> Option<T> {
        self.0.is_empty().then_some(found)
    }
}

pub(super) fn group_of(record: &[u8]) -> Option<Group> {
    let mut reader = Reader(record);
    let (number, last) = (reader.number()?, reader.id()?);
    let read = Some(reader.number()? as i64).filter(|read| *read != UNKNOWN); // the same bits
    reader.end(Group { number, last, read })
}

pub(super) fn consumer_of(record: &[u8]) -> Option<Consumer> {
    let mut reader = Reader(record);
    let consumer = Consumer { number: reader.number()?, seen_ms: reader.number()? };
    reader.end(consumer)
}

pub(super) fn pending_of(record: &[u8]) -> Option<Pending> {
    let mut reader = Reader(record);
    let pending = Pending { consumer: reader.number()?, delivered_ms: reader.number()?, count: reader.number()? };
    reader.end(pending)
}

/// The ID of an entry, and its fields and values.
pub(super) fn entry_of(record: &[u8]) -> Option<(EntryId, &[u8])> {
    let mut reader = Reader(record.strip_prefix(&[ENTRY])?);
    let id = reader.id()?;
    elements::count(reader.0).filter(|count| count.is_multiple_of(2) && *count > 0)?;
    Some((id, reader.0))
}

#[cold]
pub(super) fn bad_record(what: &str) -> SpaceError {
    damaged(format_args!("a stream has bytes that are no {what}"))
}
