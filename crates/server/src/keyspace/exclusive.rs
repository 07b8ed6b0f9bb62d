//! Exclusive work on the key space: one thread at a time.
//!
//! In memory every change is made immediately. In a file the changes between [`Exclusive::begin`] and
//! [`Exclusive::commit`] collect in a transaction, where lookups see them, and then become one batch of the table:
//! after a crash the file has all of them or none. So an EXEC is atomic. (A transaction over several databases is one
//! batch in each.)
//!
//! ```text
//! set(k, v, lifetime)   begin -> stage the stored value (record.rs) -> commit: a batch of the table -> watchers
//! ```

use super::collections::shape::{Gap, first_expiry, segments_of, set_id};
use super::gate::ExclusiveEntry;
use super::pairs::PairsMut;
use super::staged::{Presence, Transaction};
use super::upkeep::counts::Counts;
use super::watched::{Change, Watch};
use super::{
    Attributes, Clock, Coding, DATABASE_COUNT, Database, Edit, FLUSHED_MAX, HAS_MARK, KeySpace, Kind, Known, New, Old,
    Place, Record, Result, SHORT_VALUE_BYTES, SpaceError, cut, heads_by, marks, put_coded,
};
use splitpoint::{OldValue, Table};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Exclusive entry to the key space, made by [`KeySpace::close`]. Hold it for a command, not for long.
pub struct Exclusive<'k> {
    space: &'k KeySpace,
    _entry: ExclusiveEntry<'k>,
    clock: Clock,
    /// The changes between `begin` and `commit`, if the databases are in files.
    transaction: Option<Box<Transaction>>,
    /// Keys of lists, sorted sets and streams that changed while clients wait.
    pushed: Vec<(usize, Vec<u8>)>,
}

/// As the database of a changed key: any key may have changed.
pub(crate) const ANY_KEY: usize = usize::MAX;

/// What happens to a key's attributes when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// They are removed, as by SET.
    Clear,
    /// They are kept, as by APPEND.
    Keep,
    /// They are replaced by these.
    Are(Attributes),
}

impl<'k> Exclusive<'k> {
    pub(super) fn new(space: &'k KeySpace, entry: ExclusiveEntry<'k>) -> Self {
        Exclusive { space, _entry: entry, clock: Clock::default(), transaction: None, pushed: Vec::new() }
    }

    /// The time that decides what has expired, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The key space, for operations that need no exclusive entry.
    pub(crate) fn space(&self) -> &'k KeySpace {
        self.space
    }

    /// Whether changes are recorded: see [`KeySpace::observe`].
    pub(crate) fn is_observed(&self) -> bool {
        self.space.watched.is_observed()
    }

    /// The changes since the last call, if the key space is observed.
    #[inline]
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.space.watched.take_log()
    }

    /// Whether `key` is present, and whether it expires.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn presence_of(&self, database: usize, key: &[u8]) -> Result<(bool, bool)> {
        let known = self.known(database, key)?;
        Ok((known.is_some(), known.is_some_and(|known| known.attributes.expires_at_ms != 0)))
    }

    /// Collects the following changes until [`commit`](Self::commit) makes them together. In memory they are made
    /// immediately instead.
    pub(crate) fn begin(&mut self) {
        if self.space.in_file() && self.transaction.is_none() {
            self.transaction = Some(Box::default());
        }
    }

    /// [`begin`](Self::begin) for the changes of several commands.
    pub(crate) fn begin_many(&mut self) {
        self.begin();
        if let Some(transaction) = &mut self.transaction {
            transaction.is_of_many = true;
        }
    }

    /// [`begin`](Self::begin) for a run of commands, each of which follows a [`set_savepoint`](Self::set_savepoint).
    pub(crate) fn begin_run(&mut self) {
        self.transaction = self.space.in_file().then(|| Box::new(Transaction::of_run()));
    }

    /// Marks where [`undo`](Self::undo) returns to.
    pub(crate) fn set_savepoint(&mut self) {
        self.transaction.iter_mut().for_each(|transaction| transaction.set_savepoint());
    }

    /// Discards the changes since the last savepoint of a run. Does nothing in memory, where changes are made at once.
    pub(crate) fn undo(&mut self) {
        self.transaction.iter_mut().for_each(|transaction| transaction.undo());
    }

    /// Whether commands can form a run: no client must see each change, and there is memory for `bytes`.
    pub(crate) fn allows_runs(&self, bytes: usize) -> bool {
        self.space.allows_runs() && !self.space.memory.is_much(bytes)
    }

    /// Bytes of the changes since [`begin`](Self::begin).
    pub(crate) fn staged_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.bytes)
    }

    /// Whether changes are being collected.
    pub(crate) fn has_begun(&self) -> bool {
        self.transaction.is_some()
    }

    /// Counts commands whose changes were stored with the one of another command on the same key.
    pub(crate) fn note_commands(&self, key: &[u8], count: usize) {
        self.space.events.changes.fetch_add(count as u64, Relaxed);
        (0..count).for_each(|_| self.space.memory.note_use(&[key], &self.clock));
    }

    /// Whether changes of several commands are being collected.
    pub(crate) fn has_begun_many(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.is_of_many)
    }

    /// Makes the changes since [`begin`](Self::begin).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Batch::commit`]; then no change is made.
    pub(crate) fn commit(&mut self) -> Result<()> {
        match self.transaction.take() {
            None => Ok(()),
            Some(transaction) => self.store(*transaction),
        }
    }

    /// Discards the changes since [`begin`](Self::begin).
    pub(crate) fn roll_back(&mut self) {
        self.transaction = None;
    }

    /// Removes keys until `bytes` more fit within the memory limit. Fails if the eviction policy allows no removal, or
    /// if no key that it may remove is left.
    ///
    /// # Errors
    /// [`SpaceError::MemoryLimit`].
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<()> {
        let memory = &self.space.memory;
        if memory.is_pressed() || memory.is_much(bytes) {
            self.evict(bytes as u64)?;
        }
        Ok(())
    }

    /// Copies the value of `key`. `false` if it is absent or has expired; then it is removed.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`] for a collection, or the errors of [`Table::get`].
    pub(crate) fn get(&mut self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.get_any(database, key, value)? {
            Some(attributes) if attributes.kind != Kind::String => Err(SpaceError::WrongType),
            found => Ok(found.is_some()),
        }
    }

    /// Copies the value of `key`, whatever its type. Returns its attributes; `None` if it is absent.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn get_any(&mut self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Attributes>> {
        self.space.memory.note_use(&[key], &self.clock);
        if !self.read(database, key, value)? {
            return Ok(None);
        }
        let target = self.database(database);
        // A dictionary stores the client's values as they are.
        let coding =
            if self.space.dictionary_of(database).is_some() { Coding::Plain } else { self.space.coding(target) };
        let Record { attributes, value: found } = coding.decode(value);
        let head_bytes = value.len() - found.len();
        if attributes.expires_at_ms != 0 && attributes.expired(self.now_ms()) {
            self.expire(database, key)?;
            value.clear();
            return Ok(None);
        }
        value.drain(..head_bytes);
        Ok(Some(attributes))
    }

    /// Whether `key` is present and has not expired.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn contains(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        Ok(self.known_now(database, key)?.is_some())
    }

    /// The attributes of `key`; the default for a key without any, and for an absent one.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn attributes(&mut self, database: usize, key: &[u8]) -> Result<Attributes> {
        Ok(self.attributes_of(database, key)?.unwrap_or_default())
    }

    /// The attributes of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn attributes_of(&mut self, database: usize, key: &[u8]) -> Result<Option<Attributes>> {
        Ok(self.known_now(database, key)?.map(|known| known.attributes))
    }

    /// Values of `keys`, in their order. Expired ones are absent and stay for the sweep; collections have no value.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn get_many(
        &mut self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.get_records(database, keys, |index, record| take(index, record.map(|record| record.value)))
    }

    /// [`get_many`](Self::get_many) with the attributes of the keys.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn get_records(
        &mut self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<Record<'_>>),
    ) -> Result<()> {
        self.read_many(database, keys, |index, record| take(index, record.filter(Record::is_string)))
    }

    /// [`get_records`](Self::get_records), collections included.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn read_many(
        &mut self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<Record<'_>>),
    ) -> Result<()> {
        if self.transaction.is_none() {
            return self.space.read_many(self.database(database), keys, &self.clock, take);
        }
        let mut value = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let attributes = self.get_any(database, key, &mut value)?;
            take(index, attributes.map(|attributes| Record { attributes, value: &value }));
        }
        Ok(())
    }

    /// The length of the value of `key`, and the part of it that `choose` returns for that length; `None` if the key is
    /// absent. Reads no more than the part, and does not count as a use of the key.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn get_part(
        &self,
        database: usize,
        key: &[u8],
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let Some(staged) = self.staged(database, key) else {
            return self.space.read_part(self.database(database), key, &self.clock, choose, part);
        };
        part.clear();
        let Some(stored) = staged else { return Ok(None) };
        let record = self.space.coding(self.database(database)).decode(stored);
        if record.attributes.expired(self.now_ms()) {
            return Ok(None);
        }
        if !record.is_string() {
            return Err(SpaceError::WrongType);
        }
        part.extend_from_slice(cut(record.value, choose(record.value.len())));
        Ok(Some(record.value.len()))
    }

    /// The length of the value of `key`; `None` if the key is absent. Reads no large value.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn value_len(&self, database: usize, key: &[u8]) -> Result<Option<usize>> {
        let known = self.known(database, key)?.filter(|known| !known.attributes.expired(self.now_ms()));
        known.map(|known| known.refuse_collection().map(|()| known.len)).transpose()
    }

    /// Overwrites a part of the value of `key` from byte `at` on; a shorter value is first extended with zeros. The key
    /// keeps its attributes. Returns the new length.
    ///
    /// In memory this writes only the part and any extension; in a file the whole value.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn put_part(&mut self, database: usize, key: &[u8], at: usize, part: &[u8]) -> Result<usize> {
        let end = at + part.len();
        self.space.note_len(end);
        let known = self.known_without_cas(database, key)?;
        known.map_or(Ok(()), |known| known.refuse_collection())?;
        let coding = self.space.coding(self.database(database));
        // The value now begins like a head, so it needs one.
        let is_rewritten = |known: Known| at == 0 && known.head_bytes == 0 && !coding.is_plain(part);
        if self.space.in_file() || known.is_some_and(is_rewritten) {
            let mut value = Vec::new();
            if let Some(known) = known {
                self.read(database, key, &mut value)?;
                value.drain(..known.head_bytes);
            }
            value.resize(value.len().max(end), 0);
            value[at..end].copy_from_slice(part);
            self.put(database, key, &value, Lifetime::Keep)?;
            return Ok(value.len());
        }
        let (len, head_bytes) = known.map_or((0, 0), |known| (known.len, known.head_bytes));
        let within = len.clamp(at, end) - at;
        if within > 0 {
            self.changed(database, key);
            self.table(database)?.write_part(key, head_bytes + at, &part[..within])?;
        }
        if within == part.len() {
            return Ok(len);
        }
        let mut tail = vec![0; (at + within) - len];
        tail.extend_from_slice(&part[within..]);
        self.append(database, key, &tail)
    }

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn put(&mut self, database: usize, key: &[u8], value: &[u8], lifetime: Lifetime) -> Result<()> {
        let attributes = match lifetime {
            // The value changes, so the old CAS number must no longer match.
            Lifetime::Keep => Attributes { cas: 0, ..self.attributes(database, key)? },
            Lifetime::Clear => Attributes::NONE,
            Lifetime::Are(attributes) => attributes,
        };
        let attributes = Attributes { kind: Kind::String, ..attributes };
        self.replacing(database, key, |this| {
            this.changed(database, key);
            this.stage_record(database, key, attributes, value)
        })
    }

    /// Whether keys changed on which clients may wait.
    #[inline]
    pub(crate) fn has_pushed(&self) -> bool {
        !self.pushed.is_empty()
    }

    /// The databases and keys that changed since the last call and on which clients may wait, or [`ANY_KEY`].
    pub(crate) fn take_pushed(&mut self) -> Vec<(usize, Vec<u8>)> {
        std::mem::take(&mut self.pushed)
    }

    /// Notes that any key may have changed, for clients that wait.
    pub(crate) fn note_all_wanted(&mut self) {
        self.note_wanted(ANY_KEY, b"");
    }

    /// Notes that this key changed, for clients that wait.
    pub(crate) fn note_wanted(&mut self, database: usize, key: &[u8]) {
        if self.space.wanted_keys.load(Relaxed) > 0 {
            self.pushed.push((database, key.to_vec()));
        }
    }

    /// Renames a key that is present. O(1), but O(bytes) for a string in a file.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn rename(&mut self, database: usize, from: &[u8], to: &[u8]) -> Result<()> {
        if let Some(known) = self.long_string_in_memory(database, from)? {
            return self.replacing(database, to, |this| {
                [from, to].iter().for_each(|key| this.string_changed(database, key));
                this.database(database).note_lifetime(known.attributes);
                if !this.table(database)?.move_value(from, to)? {
                    let mut stored = Vec::new();
                    this.read(database, from, &mut stored)?;
                    this.stage(database, from, None)?;
                    this.stage(database, to, Some(&stored))?;
                }
                this.space.memory.note_writes(this.space, &[(to, b"")], &this.clock);
                Ok(())
            });
        }
        let mut value = Vec::new();
        let Some(attributes) = self.get_any(database, from, &mut value)? else { return Ok(()) };
        self.replacing(database, to, |this| {
            this.put_collection(database, from, None)?;
            this.put_collection(database, to, Some((attributes, &value)))
        })
    }

    /// Copies the value and the lifetime of a key that is present to another key. O(bytes).
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn copy(&mut self, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<()> {
        if let Some(known) = self.long_string_in_memory(from.0, from.1)? {
            return self.replacing(to.0, to.1, |this| this.copy_long_string(known, from, to));
        }
        let mut value = Vec::new();
        let Some(attributes) = self.get_any(from.0, from.1, &mut value)? else { return Ok(()) };
        if let Some((id, numbers)) = segments_of(attributes.kind, &value)? {
            let (new_id, mut segment, mut gap) = (self.new_collection(to.0)?, Vec::new(), Gap::default());
            for number in numbers.into_iter().flatten() {
                let is_there = self.read_segment(from.0, id, number, &mut segment)?;
                gap.check(is_there)?;
                if is_there {
                    self.put_segment(to.0, (new_id, number), false, Some(&segment))?;
                }
            }
            set_id(attributes.kind, &mut value, new_id);
        }
        self.replacing(to.0, to.1, |this| this.put_collection(to.0, to.1, Some((attributes, &value))))
    }

    /// What is known about a string in memory that is too long to copy as a whole without need.
    fn long_string_in_memory(&mut self, database: usize, key: &[u8]) -> Result<Option<Known>> {
        self.space.refuse_dictionary()?;
        if self.space.in_file() {
            return Ok(None);
        }
        let is_long = |known: &Known| known.attributes.kind == Kind::String && known.len > SHORT_VALUE_BYTES;
        Ok(self.known_now(database, key)?.filter(is_long))
    }

    fn copy_long_string(&mut self, known: Known, from: (usize, &[u8]), to: (usize, &[u8])) -> Result<()> {
        self.string_changed(to.0, to.1);
        if known.head_bytes > 0 {
            self.begin_heads(to.0)?;
            self.database(to.0).note_lifetime(known.attributes);
        }
        let (source, target) = (self.table(from.0)?, self.table(to.0)?);
        let stored_len = known.head_bytes + known.len;
        let read = |range, part: &mut Vec<u8>| source.get_part(from.1, |_| range, part).map(drop);
        if !target.put_parts(to.1, stored_len, read)? {
            let mut stored = Vec::new();
            self.read(from.0, from.1, &mut stored)?;
            target.put(to.1, &stored)?;
        }
        self.space.memory.note_writes(self.space, &[(to.1, b"")], &self.clock);
        self.space.memory.note_bytes(self.space, stored_len);
        Ok(())
    }

    fn string_changed(&mut self, database: usize, key: &[u8]) {
        self.changed(database, key);
        self.note_wanted(database, key);
    }

    /// Makes a change that replaces or removes the value of `key`, and with it releases the value's segments.
    fn replacing(&mut self, database: usize, key: &[u8], change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let Some((id, numbers)) = self.segments_under(database, key)? else { return change(self) };
        self.note_wanted(database, key);
        let is_within = self.transaction.is_some();
        self.begin();
        let changed = self.release(database, id, numbers).and_then(|()| change(self));
        match changed {
            _ if is_within => changed,
            Ok(()) => self.commit(),
            Err(error) => {
                self.roll_back();
                Err(error)
            }
        }
    }

    /// The segments of the value of `key`, expired or not.
    fn segments_under(&self, database: usize, key: &[u8]) -> Result<Option<(u64, [Range<u64>; 2])>> {
        if self.counts(database).segments == 0 {
            return Ok(None);
        }
        let Some(known) = self.known(database, key)?.filter(|known| known.attributes.kind != Kind::String) else {
            return Ok(None);
        };
        let mut value = Vec::new();
        self.read(database, key, &mut value)?;
        // A damaged collection can be removed; its segments are unknown.
        Ok(segments_of(known.attributes.kind, &value[known.head_bytes..]).unwrap_or(None))
    }

    /// Stores the pairs in order. `attributes(n)` replaces the attributes of pair `n`.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put_many`].
    pub(crate) fn put_many(
        &mut self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
    ) -> Result<()> {
        let table = self.table(database)?;
        let has_segments = self.counts(database).segments > 0;
        if self.transaction.is_some()
            || has_segments
            || self.space.in_file() && pairs.iter().any(|(key, _)| marks::is_marked(key))
        {
            let put = |(index, (key, value)): (usize, &(&[u8], &[u8]))| {
                self.put(database, key, value, Lifetime::Are(attributes(index)))
            };
            return pairs.iter().enumerate().try_for_each(put);
        }
        for (index, (key, value)) in pairs.iter().enumerate() {
            self.allow_heads(database, attributes(index), value)?;
            self.changed(database, key);
        }
        let target = self.database(database);
        put_coded(&table, target, self.space.coding(target), pairs, attributes)?;
        self.space.memory.note_writes(self.space, pairs, &self.clock);
        Ok(())
    }

    /// Appends `tail` to the value of `key`, which is empty if the key is absent. Returns the new length; the key
    /// keeps its attributes.
    ///
    /// # Errors
    /// Returns the errors of [`Table::append`].
    pub(crate) fn append(&mut self, database: usize, key: &[u8], tail: &[u8]) -> Result<usize> {
        if self.transaction.is_none() {
            self.allow_heads(database, Attributes::NONE, tail)?;
            self.expire_watched(database, key)?;
            let (table, mut len) = (self.table(database)?, None);
            let pairs = [(self.stored(key), tail)];
            let (space, take) = (self.space, |_, new| len = new);
            space.append_many(&table, database, &pairs, &self.clock, |_| usize::MAX, take)?;
            if let Some(len) = len {
                // An empty old value counts as absent.
                space.watched.touch(database, key, || len > tail.len());
                space.memory.note_writes(space, &[(key, tail)], &self.clock);
                return Ok(len);
            }
        }
        if self.known_now(database, key)?.is_some_and(|known| known.attributes.cas != 0)
            && self.known_without_cas(database, key)?.is_some_and(|known| known.attributes.cas == 0)
        {
            return self.append(database, key, tail);
        }
        let mut value = Vec::new();
        self.get(database, key, &mut value)?;
        value.extend_from_slice(tail);
        self.put(database, key, &value, Lifetime::Keep)?;
        Ok(value.len())
    }

    /// What is known about a key whose value is about to change in place: in memory it loses its CAS number first.
    fn known_without_cas(&mut self, database: usize, key: &[u8]) -> Result<Option<Known>> {
        let Some(known) = self.known_now(database, key)? else { return Ok(None) };
        if known.attributes.cas == 0 || self.space.in_file() {
            return Ok(Some(known));
        }
        self.replace_head(database, key, known, Attributes { cas: 0, ..known.attributes })?;
        self.known_now(database, key)
    }

    /// Appends each pair's bytes to the value of its key, in order. `len_max` returns the limit of a value's length for
    /// the pair's index. Calls `take` with each new length, or `None` where it would exceed the limit. The keys keep
    /// their attributes. Must not be called between `begin` and `commit`.
    ///
    /// # Errors
    /// Returns the first error of [`Table::append`]; `take` was called for the pairs before it.
    pub(crate) fn append_many(
        &mut self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        len_max: impl Fn(usize) -> usize,
        mut take: impl FnMut(usize, Option<usize>),
    ) -> Result<()> {
        for (key, tail) in pairs {
            self.allow_heads(database, Attributes::NONE, tail)?;
            self.expire_watched(database, key)?;
        }
        let table = self.table(database)?;
        let stored: Vec<_> = pairs.iter().map(|(key, tail)| (self.stored(key), *tail)).collect();
        let mut at = 0;
        while at < pairs.len() {
            let first = at;
            let took = |index: usize, len: Option<usize>| {
                if let Some(len) = len {
                    let (key, tail) = pairs[first + index];
                    self.space.watched.touch(database, key, || len > tail.len());
                }
                take(first + index, len);
                at = first + index + 1;
            };
            let appended = self.space.append_many(
                &table,
                database,
                &stored[first..],
                &self.clock,
                |index| len_max(first + index),
                took,
            );
            self.space.memory.note_writes(self.space, &pairs[first..at], &self.clock);
            appended?;
            if at < pairs.len() {
                let (key, tail) = pairs[at];
                take(at, self.append_within(database, key, tail, len_max(at))?);
                at += 1;
            }
        }
        Ok(())
    }

    /// [`append`](Self::append), unless the value would have more than `len_max` bytes.
    fn append_within(&mut self, database: usize, key: &[u8], tail: &[u8], len_max: usize) -> Result<Option<usize>> {
        let len = self.value_len(database, key)?.unwrap_or(0);
        if len + tail.len() > len_max {
            return Ok(None);
        }
        self.append(database, key, tail).map(Some)
    }

    /// Removes `key`. Returns whether it was present and had not expired.
    ///
    /// # Errors
    /// Returns the errors of [`Table::remove`].
    pub(crate) fn remove(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        if self.known_now(database, key)?.is_none() {
            return Ok(false);
        }
        self.replacing(database, key, |this| {
            this.changed(database, key);
            this.stage(database, key, None)
        })?;
        Ok(true)
    }

    /// Sets the attributes of `key` if it is present. Returns whether it is.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn set_attributes(&mut self, database: usize, key: &[u8], attributes: Attributes) -> Result<bool> {
        let Some(known) = self.known_now(database, key)? else { return Ok(false) };
        if known.attributes != attributes {
            self.changed(database, key);
            self.replace_head(database, key, known, attributes)?;
        }
        Ok(true)
    }

    /// The CAS number of `key`, assigned now if it has none; `None` if the key is absent. Not a change for WATCH.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn cas_of(&mut self, database: usize, key: &[u8]) -> Result<Option<u64>> {
        let Some(known) = self.known_now(database, key)? else { return Ok(None) };
        known.refuse_collection()?;
        let mut attributes = known.attributes;
        if attributes.cas == 0 {
            attributes.cas = self.space.new_cas();
            self.replace_head(database, key, known, attributes)?;
        }
        Ok(Some(attributes.cas))
    }

    /// Replaces the attributes of a key that is present. In memory this writes only the head if its length
    /// stays the same, as for a long value; else the whole value.
    fn replace_head(&mut self, database: usize, key: &[u8], known: Known, attributes: Attributes) -> Result<()> {
        self.space.refuse_dictionary()?;
        self.allow_heads(database, attributes, b"")?;
        let target = self.database(database);
        target.note_lifetime(attributes);
        for is_roomy in [false, true] {
            let mut head = Vec::new();
            self.space.coding(target).encode_head(attributes, is_roomy, &mut head);
            if !self.space.in_file() && head.len() == known.head_bytes {
                self.table(database)?.write_part(key, 0, &head)?;
                return Ok(());
            }
        }
        let mut value = Vec::new();
        self.read(database, key, &mut value)?;
        self.stage_record(database, key, attributes, &value[known.head_bytes..])
    }

    /// [`edit`](Self::edit) of a string.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`] for a collection, or the errors of [`Table::put`].
    pub(crate) fn edit_string(
        &mut self,
        database: usize,
        key: &[u8],
        edit: impl FnMut(Option<Old<'_>>, &mut New<'_>) -> Edit,
    ) -> Result<()> {
        self.known_now(database, key)?.map_or(Ok(()), |known| known.refuse_collection())?;
        self.edit(database, key, edit)
    }

    /// Edits the value of `key`, whatever its type, as [`KeySpace::edit_many`] does. If `edit` returns
    /// [`Edit::Alone`], it is called again with the whole value, and may return any.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put`].
    pub(crate) fn edit(
        &mut self,
        database: usize,
        key: &[u8],
        mut edit: impl FnMut(Option<Old<'_>>, &mut New<'_>) -> Edit,
    ) -> Result<()> {
        self.space.refuse_dictionary()?;
        self.space.memory.note_use(&[key], &self.clock);
        let known = self.known_now(database, key)?;
        let (target, mut stored, mut new) = (self.database(database), Vec::new(), Vec::new());
        let (mut what, mut keeps_kind) = (Edit::Alone, false);
        for is_last in [false, true] {
            let is_whole = is_last || known.is_none_or(|known| known.len <= SHORT_VALUE_BYTES);
            if let Some(known) = known.filter(|known| !is_whole && known.attributes.kind == Kind::String) {
                // An edit of so long a value looks only at these bytes.
                self.get_part(database, key, |_| 0..OldValue::HEAD_BYTES, &mut new)?;
                stored.clear();
                self.space.coding(target).encode_head(known.attributes, false, &mut stored);
                stored.append(&mut new);
            } else {
                self.read(database, key, &mut stored)?;
            }
            new.clear();
            let coding = self.space.coding(target);
            let old = known.map(|known| Old::of(coding.decode(&stored), known.len, known.head_bytes));
            what = edit(old, &mut New::of(target, coding, &mut new));
            keeps_kind = known.is_some_and(|known| coding.decode(&new).attributes.kind == known.attributes.kind);
            if what != Edit::Alone {
                break;
            }
            self.begin_heads(database)?;
        }
        match what {
            Edit::Keep | Edit::Alone => return Ok(()),
            Edit::Remove if known.is_none() => return Ok(()),
            Edit::Append => return self.append(database, key, &new).map(drop),
            Edit::SetAttributes => {
                let attributes = self.space.coding(target).decode(&new).attributes;
                known.map_or(Ok(()), |known| self.replace_head(database, key, known, attributes))?;
            }
            // A lifetime changes, and the collection keeps its segments.
            Edit::Put if keeps_kind => self.stage(database, key, Some(&new))?,
            Edit::Put => self.replacing(database, key, |this| this.stage(database, key, Some(&new)))?,
            Edit::Remove => self.replacing(database, key, |this| this.stage(database, key, None))?,
        }
        self.space.events.changes.fetch_add(1, Relaxed);
        self.space.watched.touch(database, key, || known.is_some());
        Ok(())
    }

    /// Allows heads if this value, with these attributes, needs one.
    fn allow_heads(&mut self, database: usize, attributes: Attributes, value: &[u8]) -> Result<()> {
        if !self.space.coding(self.database(database)).needs_head(attributes, value) {
            return Ok(());
        }
        self.begin_heads(database)
    }

    /// Allows the values of this database to have heads from now on.
    pub(crate) fn begin_heads(&mut self, database: usize) -> Result<()> {
        let target = self.database(database);
        if target.has_heads() {
            return Ok(());
        }
        if !self.space.in_file() {
            target.heads.store(HAS_MARK, Relaxed);
            return Ok(());
        }
        // Chosen now, at random: no value that was stored before begins with it.
        let mark = self.space.random_mark()?;
        marks::put_header(&*self.table(database)?, mark)?;
        target.heads.store(heads_by(mark), Relaxed);
        Ok(())
    }

    /// Removes all keys of a database.
    ///
    /// In memory O(1): the table is replaced, and another thread frees the old one. In a file O(buckets);
    /// [`KeySpace::compact_cleared`] returns the space to the file system. Within a larger transaction O(keys).
    ///
    /// # Errors
    /// Returns the errors of [`Table::clear`], or [`SpaceError::TooManyKeys`].
    pub fn flush(&mut self, database: usize) -> Result<()> {
        if self.has_begun_many() {
            return self.flush_within(database);
        }
        self.commit()?;
        self.space.refuse_dictionary()?;
        let space = self.space;
        space.watched.touch_all(database, |key| self.holds(database, key).unwrap_or(true));
        self.note_all_wanted();
        let database = self.database(database);
        space.events.changes.fetch_add(space.len_of(database), Relaxed);
        if space.in_file() {
            if let Some(table) = database.table.load().as_ref() {
                table.clear()?;
                database.cleared.store(true, Relaxed);
            }
        } else {
            free(database.table.swap(None));
            free(database.segments.swap(None));
        }
        database.set_counts(Counts::default(), false);
        database.heads.store(0, Relaxed);
        database.may_expire.store(false, Relaxed);
        database.is_expiry_new.store(false, Relaxed);
        database.fields_may_expire.store(false, Relaxed);
        database.is_field_expiry_new.store(false, Relaxed);
        space.memory.look(space);
        Ok(())
    }

    /// Removes all keys of a database as part of the transaction.
    fn flush_within(&mut self, database: usize) -> Result<()> {
        const AT_ONCE: usize = 1000;
        self.space.refuse_dictionary()?;
        if self.space.len(database) > FLUSHED_MAX {
            return Err(SpaceError::TooManyKeys);
        }
        let staged = self.transaction.iter().flat_map(|transaction| transaction.values.iter());
        let present = staged.filter(|(of, _, value)| *of == database && value.is_some());
        let mut keys: Vec<Vec<u8>> = present.map(|(_, key, _)| key.to_vec()).collect();
        let mut cursor = 0;
        loop {
            // At time 0 nothing has expired.
            cursor = self.space.scan(database, cursor, AT_ONCE, 0, |key| keys.push(key.to_vec()))?;
            if cursor == 0 {
                break;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        // To watchers, a flush is one change of the database.
        self.space.watched.touch_all(database, |key| self.holds(database, key).unwrap_or(true));
        self.space.events.changes.fetch_add(keys.len() as u64, Relaxed);
        for key in keys {
            self.replacing(database, &key, |this| this.stage(database, &key, None))?;
        }
        Ok(())
    }

    /// Watches `key` for `watch`.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn watch(&mut self, watch: &mut Watch, database: usize, key: &[u8]) -> Result<()> {
        let is_over = self.is_over(database, key)?;
        self.space.watched.add(watch, database, key, is_over);
        Ok(())
    }

    /// Ends a watch. Returns whether one of its keys changed, or expired, since it began.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn unwatch(&mut self, watch: &mut Watch) -> Result<bool> {
        let mut dirty = watch.dirty.load(Relaxed);
        for ((database, key), was_expired) in &watch.keys {
            dirty |= !was_expired && self.is_over(*database, key)?;
        }
        self.space.watched.remove(watch);
        Ok(dirty)
    }

    /// The number of keys of a database, with the changes since [`begin`](Self::begin), and including expired keys that
    /// are not removed yet. O(1); the first call in a transaction is O(its keys).
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn len(&mut self, database: usize) -> Result<u64> {
        let more = self.presence()?.map_or(0, |presence| presence.more[database]);
        Ok(self.space.len(database).saturating_add_signed(more))
    }

    /// The keys that the changes since [`begin`](Self::begin) add (`true`) or remove (`false`).
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn staged_keys(&mut self, database: usize) -> Result<Vec<(Vec<u8>, bool)>> {
        self.presence()?;
        let Some(Transaction { values, presence: Some(presence), .. }) = self.transaction.as_deref() else {
            return Ok(Vec::new());
        };
        let mut changed = Vec::new();
        for (_, key, value) in values.iter().filter(|(of, ..)| *of == database) {
            if value.is_some() != presence.before.contains(&(database, key.to_vec())) {
                changed.push((key.to_vec(), value.is_some()));
            }
        }
        Ok(changed)
    }

    /// The presence of the transaction's keys, which [`stage`](Self::stage) updates from now on; `None`
    /// outside a transaction.
    fn presence(&mut self) -> Result<Option<&Presence>> {
        let Some(transaction) = &self.transaction else { return Ok(None) };
        if transaction.presence.is_none() {
            let mut presence = Presence::default();
            for (database, key, value) in transaction.values.iter() {
                let was_present = self.is_stored(database, key)?;
                presence.more[database] += i64::from(value.is_some()) - i64::from(was_present);
                if was_present {
                    presence.before.insert((database, key.to_vec()));
                }
            }
            if let Some(transaction) = &mut self.transaction {
                transaction.presence = Some(Box::new(presence));
            }
        }
        Ok(self.transaction.as_ref().and_then(|transaction| transaction.presence.as_deref()))
    }

    /// Whether the table has `key`, ignoring the transaction.
    fn is_stored(&self, database: usize, key: &[u8]) -> Result<bool> {
        match self.database(database).table.load().as_ref() {
            Some(table) => Ok(table.contains(&self.stored(key))?),
            None => Ok(false),
        }
    }

    /// Removes `key` if it has expired and keys are watched or observed.
    fn expire_watched(&mut self, database: usize, key: &[u8]) -> Result<()> {
        if self.space.watched.is_empty() { Ok(()) } else { self.expire(database, key).map(drop) }
    }

    /// Removes `key` if it has expired. Returns whether it had.
    pub(super) fn expire(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        let was_over = self.is_over(database, key)?;
        if was_over {
            self.space.events.expired.fetch_add(1, Relaxed);
            self.space.watched.touch_expired(database, key);
            self.replacing(database, key, |this| this.stage(database, key, None))?;
        }
        Ok(was_over)
    }

    /// Whether `key` has expired and is not removed yet.
    fn is_over(&self, database: usize, key: &[u8]) -> Result<bool> {
        Ok(self.known(database, key)?.is_some_and(|known| known.attributes.expired(self.now_ms())))
    }

    /// What is known about `key`, expired or not; `None` if it is absent.
    fn known(&self, database: usize, key: &[u8]) -> Result<Option<Known>> {
        match self.staged(database, key) {
            Some(stored) => Ok(stored.map(|stored| self.space.known_of(self.database(database), stored, stored.len()))),
            None => self.space.known(self.database(database), key, &self.clock),
        }
    }

    /// [`known`](Self::known) of a key that has not expired; one that has is removed.
    fn known_now(&mut self, database: usize, key: &[u8]) -> Result<Option<Known>> {
        let known = self.known(database, key)?;
        if known.is_some_and(|known| known.attributes.expired(self.now_ms())) {
            self.expire(database, key)?;
            return Ok(None);
        }
        Ok(known)
    }

    fn database(&self, database: usize) -> &'k Database {
        &self.space.databases[database]
    }

    fn stored<'a>(&self, key: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.space.in_file() { marks::of_key(key) } else { key.into() }
    }

    /// Copies the stored value of `key`.
    fn read(&self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        if let Some(staged) = self.staged(database, key) {
            value.extend_from_slice(staged.unwrap_or_default());
            return Ok(staged.is_some());
        }
        match self.database(database).table.load().as_ref() {
            Some(table) => Ok(table.get_into(&self.stored(key), value)?),
            None => self.read_dictionary(database, key, value),
        }
    }

    fn read_dictionary(&self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut is_found = false;
        self.space.read_many(self.database(database), &[key], &self.clock, |_, found| {
            is_found = found.is_some();
            value.extend_from_slice(found.map_or(b"", |record| record.value));
        })?;
        Ok(is_found)
    }

    pub(super) fn holds(&self, database: usize, key: &[u8]) -> Result<bool> {
        Ok(self.known(database, key)?.is_some())
    }

    /// The value that the transaction stores for `key`: `Some(None)` if it removes the key, `None` if it
    /// leaves it as it is.
    #[inline]
    fn staged(&self, database: usize, key: &[u8]) -> Option<Option<&[u8]>> {
        self.transaction.as_ref()?.values.get(database, key)
    }

    /// Stores a value with attributes, now or with the transaction.
    pub(super) fn stage_record(
        &mut self,
        database: usize,
        key: &[u8],
        attributes: Attributes,
        value: &[u8],
    ) -> Result<()> {
        self.space.refuse_dictionary()?;
        self.allow_heads(database, attributes, value)?;
        let target = self.database(database);
        let coding = self.space.coding(target);
        if !coding.needs_head(attributes, value) {
            return self.stage(database, key, Some(value));
        }
        target.note_lifetime(attributes);
        if first_expiry(attributes.kind, value) != 0 {
            target.note_field_lifetimes();
        }
        let mut stored = Vec::with_capacity(super::HEAD_BYTES_MAX + value.len());
        coding.encode(attributes, value, &mut stored);
        self.stage(database, key, Some(&stored))
    }

    /// Sets a stored value, or removes the key, now or with the transaction.
    pub(super) fn stage(&mut self, database: usize, key: &[u8], stored: Option<&[u8]>) -> Result<()> {
        self.space.refuse_dictionary()?;
        if self.transaction.is_some() {
            return self.stage_in_transaction(database, key, stored);
        }
        match stored {
            Some(stored) => {
                self.space.note_len(stored.len());
                self.table(database)?.put(&self.stored(key), stored)?;
                self.space.memory.note_writes(self.space, &[(key, stored)], &self.clock);
            }
            None => {
                if let Some(table) = self.database(database).table.load().as_ref() {
                    table.remove(&self.stored(key))?;
                }
            }
        }
        Ok(())
    }

    fn stage_in_transaction(&mut self, database: usize, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let counted = self.transaction.as_ref().is_some_and(|transaction| transaction.presence.is_some());
        let before = self.staged(database, key);
        let (replaced, before) =
            (before.map_or(0, |value| key.len() + value.map_or(0, <[u8]>::len)), before.map(|value| value.is_some()));
        let was_stored = counted && before.is_none() && self.is_stored(database, key)?;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        transaction.bytes += key.len() + value.map_or(0, <[u8]>::len);
        transaction.bytes -= replaced;
        if let Some(presence) = &mut transaction.presence {
            let was_present = before.unwrap_or(was_stored);
            presence.more[database] += i64::from(value.is_some()) - i64::from(was_present);
            if was_stored {
                presence.before.insert((database, key.to_vec()));
            }
        }
        transaction.values.set(database, key, value.map(<[u8]>::to_vec));
        Ok(())
    }

    /// [`staged`](Self::staged) for a pair that is not a key.
    pub(super) fn staged_pair(&self, database: usize, stored_key: &[u8]) -> Option<Option<&[u8]>> {
        self.transaction.as_ref()?.pairs.get(database, stored_key)
    }

    /// Sets or removes a pair that is not a key, now or with the transaction.
    pub(super) fn stage_pair(&mut self, database: usize, stored_key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.space.refuse_dictionary()?;
        if let Some(transaction) = self.transaction.as_mut().filter(|_| self.space.in_file()) {
            transaction.pairs.set(database, stored_key, value.map(<[u8]>::to_vec));
            return Ok(());
        }
        let table = if self.space.in_file() { self.table(database)? } else { self.segment_table(database)? };
        match value {
            Some(value) => table.put(stored_key, value)?,
            None => drop(table.remove(stored_key)?),
        }
        self.space.memory.note_bytes(self.space, value.map_or(0, |value| stored_key.len() + value.len()));
        Ok(())
    }

    /// The counts of a database's segments.
    pub(super) fn counts(&self, database: usize) -> Counts {
        let staged = self.transaction.as_ref().and_then(|transaction| transaction.counts(database));
        staged.unwrap_or_else(|| self.database(database).counts())
    }

    /// Changes the counts of a database's segments, now or with the transaction.
    pub(super) fn set_counts(&mut self, database: usize, counts: Counts) -> Result<()> {
        match &mut self.transaction {
            Some(transaction) if self.space.in_file() => transaction.set_counts(database, counts),
            _ if self.space.in_file() => {
                self.table(database)?.put(&marks::counts(), &counts.encode())?;
                self.database(database).set_counts(counts, true);
            }
            _ => self.database(database).set_counts(counts, false),
        }
        Ok(())
    }

    /// The table of the segments of a database in memory, created if it has none yet.
    fn segment_table(&self, number: usize) -> Result<Arc<Table>> {
        let database = self.database(number);
        if let Some(table) = database.segments.load_full() {
            return Ok(table);
        }
        let table = Arc::new(self.space.new_table()?);
        database.segments.store(Some(table.clone()));
        Ok(table)
    }

    /// Makes a transaction's changes.
    fn store(&self, transaction: Transaction) -> Result<()> {
        for number in 0..DATABASE_COUNT {
            let of_this = transaction.values.iter().filter(|(database, ..)| *database == number);
            let changes: Vec<_> = of_this.map(|(_, key, stored)| (key, stored)).collect();
            let of_this = transaction.pairs.iter().filter(|(database, ..)| *database == number);
            let pairs: Vec<_> = of_this.map(|(_, key, value)| (key, value)).collect();
            let counts = transaction.counts(number);
            if changes.is_empty() && pairs.is_empty() {
                continue;
            }
            if self.space.in_file() {
                self.store_in_file(number, &changes, &pairs, counts)?;
            } else {
                store_in_memory(&*self.table(number)?, &changes)?;
            }
            if let Some(counts) = counts {
                self.database(number).set_counts(counts, self.space.in_file());
            }
            let pair_bytes = pairs.iter().map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len));
            self.space.memory.note_bytes(self.space, pair_bytes.sum());
            let written: Vec<_> = changes.into_iter().filter_map(|(key, stored)| Some((key, stored?))).collect();
            self.space.memory.note_writes(self.space, &written, &self.clock);
        }
        Ok(())
    }

    fn store_in_file(
        &self,
        number: usize,
        changes: &[(&[u8], Option<&[u8]>)],
        pairs: &[(&[u8], Option<&[u8]>)],
        counts: Option<Counts>,
    ) -> Result<()> {
        let table = self.table(number)?;
        if let ([(key, Some(stored))], true, None) = (changes, pairs.is_empty(), counts) {
            return Ok(table.put(&marks::of_key(key), stored)?);
        }
        let mut batch = table.batch();
        for (stored_key, value) in pairs {
            match value {
                Some(value) => batch.put(stored_key, value)?,
                None => batch.remove(stored_key)?,
            }
        }
        if let Some(counts) = counts {
            batch.put(&marks::counts(), &counts.encode())?;
        }
        for (key, stored) in changes {
            match stored {
                Some(stored) => batch.put(&marks::of_key(key), stored)?,
                None => batch.remove(&marks::of_key(key))?,
            }
        }
        Ok(batch.commit()?)
    }

    /// The table of a database, created if it has none yet.
    fn table(&self, number: usize) -> Result<Arc<Table>> {
        self.space.refuse_dictionary()?;
        let database = self.database(number);
        if let Some(table) = database.table.load_full() {
            return Ok(table);
        }
        let table = Arc::new(match &self.space.place {
            Place::Memory => self.space.new_table()?,
            Place::File(options, path) => {
                let number = self.space.file_number(number);
                super::opening::open_file(options, path, number, true)?.expect("created")
            }
        });
        database.table.store(Some(table.clone()));
        Ok(table)
    }
}

impl Drop for Exclusive<'_> {
    /// Reports changes that no command has reported, such as removals by the sweep.
    fn drop(&mut self) {
        let changes = self.take_changes();
        if !changes.is_empty()
            && let Some(observer) = self.space.observer.get()
        {
            observer(self, changes);
        }
    }
}

/// Stores and removes pairs of a table in memory, overlapping the cache misses.
fn store_in_memory(table: &Table, changes: &[(&[u8], Option<&[u8]>)]) -> splitpoint::Result<()> {
    for (key, _) in changes.iter().filter(|(_, value)| value.is_none()) {
        table.remove(key)?;
    }
    let put: Vec<(&[u8], &[u8])> = changes.iter().filter_map(|(key, value)| Some((*key, (*value)?))).collect();
    match put[..] {
        [(key, value)] => table.put(key, value),
        _ => table.put_many(&put),
    }
}

/// Frees a table on a thread of its own: returning gigabytes to the system takes a while.
fn free(table: Option<Arc<Table>>) {
    if let Some(table) = table {
        // If no thread can be started, the closure is dropped, which frees the table here.
        let _ = std::thread::Builder::new().name("free".into()).spawn(move || drop(table));
    }
}
