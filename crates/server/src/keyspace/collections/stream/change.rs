//! A stream that is being changed: records are added to its tree and removed, then the key's value is stored.

use super::records::Record;
use super::{EntryId, Stream};
use crate::keyspace::collections::shape::{NODES, Tree, damaged};
use crate::keyspace::collections::tree::{Editor, Loaded};
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::{Attributes, Kind, Result};
use std::ops::Range;

/// A stream that is being changed, with exclusive entry. [`finish`](Self::finish) stores the rest of the change.
pub(crate) struct StreamMut<'e, 'k> {
    pub(super) alone: &'e mut (dyn PairsMut + 'k),
    key: &'e [u8],
    expires_at_ms: u64,
    pub(super) stream: Stream,
    is_present: bool,
    loaded: Loaded,
    /// What changed since it was opened: whether WATCH and CLIENT TRACKING count it, and the keyspace events.
    changed: Option<(bool, Vec<&'static str>)>,
}

impl<'e, 'k> StreamMut<'e, 'k> {
    /// The stream at `key`, new if the key is absent.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`](crate::keyspace::SpaceError::WrongType), or the errors of
    /// [`splitpoint::Table::get`].
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
    pub(super) fn insert(&mut self, record: &[u8]) -> Result<()> {
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
    pub(super) fn remove(&mut self, prefix: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store()?;
        let Some(record) = self.stream.find(self.alone, prefix)? else { return Ok(None) };
        self.remove_whole(&record)?;
        Ok(Some(record[prefix.len()..].to_vec()))
    }

    /// Removes a record that the tree has.
    pub(super) fn remove_whole(&mut self, record: &[u8]) -> Result<()> {
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
    pub(super) fn remove_ranks(&mut self, ranks: Range<u64>, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut left = ranks.end - ranks.start;
        while left > 0 {
            let removed = self.editor().remove_from(ranks.start, left, |(_, record)| take(record))?;
            self.forget(removed)?;
            left -= removed;
        }
        Ok(())
    }

    /// Removes all records that begin with `prefix`.
    pub(super) fn remove_all(&mut self, prefix: Record) -> Result<()> {
        self.store()?;
        let ranks = self.stream.ranks(self.alone, &prefix.0)?;
        self.remove_ranks(ranks, |_| {})
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

    pub(super) fn new_number(&mut self) -> u64 {
        self.stream.serial += 1;
        self.stream.serial
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
