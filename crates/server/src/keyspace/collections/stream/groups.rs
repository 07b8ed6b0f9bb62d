//! Consumer groups of a stream, their consumers, and the pending entries, which were delivered and not acknowledged.
//!
//! A pending entry is two records: one finds it by its group, one by its consumer. They are added and removed together.

use super::change::StreamMut;
use super::records::{
    CONSUMER, Consumer, GROUP, Group, OWNED, PENDING, Pending, Reader, Record, bad_record, consumer_of, group_of,
    pending_of,
};
use super::{EntryId, Stream};
use crate::keyspace::Result;
use crate::keyspace::pairs::Pairs;

impl Stream {
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

impl<'e, 'k> StreamMut<'e, 'k> {
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
}
