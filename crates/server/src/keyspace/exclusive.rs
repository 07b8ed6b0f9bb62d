//! Exclusive work on the key space: one thread at a time.
//!
//! In memory every change is made immediately. In a file the changes between [`Exclusive::begin`] and
//! [`Exclusive::commit`] collect in a transaction, where lookups see them, and then become one batch of the table:
//! after a crash the file has all of them or none. So a key's value and attributes always match, and an EXEC is
//! atomic. (A transaction over several databases is one batch in each.)
//!
//! ```text
//! set(k, v, lifetime)   begin -> stage value, stage attributes -> commit: one change is a put, more are a batch
//!                       -> side table -> watchers
//! ```

use super::gate::ExclusiveEntry;
use super::watched::{Change, Watch};
use super::{Attributes, Clock, DATABASE_COUNT, Database, KeySpace, Place, Result, WINDOW, marks};
use crate::planted::{Bug, planted};
use splitpoint::{HashKind, Table, TableOptions};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Exclusive entry to the key space, made by [`KeySpace::close`]. Hold it for a command, not for long.
pub struct Exclusive<'k> {
    space: &'k KeySpace,
    _entry: ExclusiveEntry<'k>,
    clock: Clock,
    /// The changes between `begin` and `commit`, if the databases are in files.
    transaction: Option<Transaction>,
    room: Vec<u8>,
}

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

/// Changes that are not made yet; the last change of each key counts.
#[derive(Default)]
struct Transaction {
    values: HashMap<(usize, Vec<u8>), Option<Vec<u8>>>,
    attributes: HashMap<(usize, Vec<u8>), Attributes>,
    /// Made when a command first needs it, since it costs one lookup per key.
    presence: Option<Box<Presence>>,
}

/// Which keys of a transaction are in the tables, and by how many keys the transaction changes each database.
#[derive(Default)]
struct Presence {
    before: HashSet<(usize, Vec<u8>)>,
    more: [i64; DATABASE_COUNT],
}

impl<'k> Exclusive<'k> {
    pub(super) fn new(space: &'k KeySpace, entry: ExclusiveEntry<'k>) -> Self {
        Exclusive { space, _entry: entry, clock: Clock::default(), transaction: None, room: Vec::new() }
    }

    /// The time that decides what has expired, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The key space, for what needs no exclusion.
    pub(crate) fn space(&self) -> &'k KeySpace {
        self.space
    }

    /// The changes since the last call, if the key space is observed.
    #[inline]
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.space.watched.take_log()
    }

    /// Whether `key` is present, and whether it expires.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn presence_of(&mut self, database: usize, key: &[u8]) -> Result<(bool, bool)> {
        let expires = self.attributes_at(database, key)?.is_some_and(|attributes| attributes.expires_at_ms != 0);
        Ok((self.holds(database, key)?, expires))
    }

    /// Collects the following changes until [`commit`](Self::commit) makes them together. In memory they are made
    /// immediately instead.
    pub(crate) fn begin(&mut self) {
        if self.space.in_file() && self.transaction.is_none() {
            self.transaction = Some(Transaction::default());
        }
    }

    /// Makes the changes since [`begin`](Self::begin).
    ///
    /// # Errors
    /// Those of [`splitpoint::Batch::commit`]; then no change is made.
    pub(crate) fn commit(&mut self) -> Result<()> {
        match self.transaction.take() {
            None => Ok(()),
            Some(transaction) => self.store(transaction),
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
    /// [`SpaceError::MemoryLimit`](super::SpaceError::MemoryLimit).
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<()> {
        let memory = &self.space.memory;
        if memory.is_pressed() || memory.is_much(bytes) { self.evict(bytes as u64) } else { Ok(()) }
    }

    /// Copies the value of `key`. `false` if it is absent or has expired; then it is removed.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn get(&mut self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.expire(database, key)?;
        self.space.memory.note_use(&[key], &self.clock);
        self.read(database, key, value)
    }

    /// Whether `key` is present and has not expired.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn contains(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        self.expire(database, key)?;
        self.holds(database, key)
    }

    /// The attributes of `key`; the default for a key without any, and for an absent one.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn attributes(&mut self, database: usize, key: &[u8]) -> Result<Attributes> {
        self.expire(database, key)?;
        Ok(self.attributes_at(database, key)?.unwrap_or_default())
    }

    /// Values of `keys`, in their order. Expired ones are absent and stay for the sweep.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn get_many(
        &mut self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if self.transaction.is_none() {
            return self.space.read_many(self.database(database), keys, &self.clock, take);
        }
        let mut value = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let found = self.get(database, key, &mut value)?;
            take(index, found.then_some(value.as_slice()));
        }
        Ok(())
    }

    /// The length of the value of `key`, and the part of it that `choose` returns for that length; `None` if the key is
    /// absent. Reads no more than the part, and does not count as a use of the key.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn get_part(
        &self,
        database: usize,
        key: &[u8],
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        let place = || (database, key.to_vec());
        let staged = self.staged(|transaction| Some(transaction.attributes.get(&place()).copied()));
        if staged.flatten().is_some_and(|attributes| attributes.expired(self.now_ms())) {
            part.clear();
            return Ok(None);
        }
        if let Some(staged) = self.staged(|transaction| transaction.values.get(&place())) {
            part.clear();
            let Some(value) = staged else { return Ok(None) };
            let range = choose(value.len());
            part.extend_from_slice(&value[range.start.min(value.len())..range.end.min(value.len())]);
            return Ok(Some(value.len()));
        }
        self.space.read_part(self.database(database), key, &self.clock, choose, part)
    }

    /// The length of the value of `key`; `None` if the key is absent. Reads no large value.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn value_len(&self, database: usize, key: &[u8]) -> Result<Option<usize>> {
        match self.transaction {
            Some(_) => self.get_part(database, key, |_| 0..0, &mut Vec::new()),
            None => self.space.read_len(self.database(database), key, &self.clock),
        }
    }

    /// Overwrites a part of the value of `key` from byte `at` on; a shorter value is first extended with zeros. The key
    /// keeps its attributes. Returns the new length.
    ///
    /// In memory this writes only the part and any extension; in a file the whole value.
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub(crate) fn put_part(&mut self, database: usize, key: &[u8], at: usize, part: &[u8]) -> Result<usize> {
        self.expire(database, key)?;
        let end = at + part.len();
        if self.space.in_file() {
            let mut value = Vec::new();
            self.read(database, key, &mut value)?;
            value.resize(value.len().max(end), 0);
            value[at..end].copy_from_slice(part);
            self.put(database, key, &value, Lifetime::Keep)?;
            return Ok(value.len());
        }
        let len = self.value_len(database, key)?.unwrap_or(0);
        let within = len.clamp(at, end) - at;
        if within > 0 {
            self.changed(database, key);
            self.forget_cas(database, key)?;
            self.table(database)?.write_part(key, at, &part[..within])?;
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
    /// Those of [`Table::put`].
    pub(crate) fn put(&mut self, database: usize, key: &[u8], value: &[u8], lifetime: Lifetime) -> Result<()> {
        let standing = match lifetime {
            Lifetime::Keep => {
                self.expire(database, key)?;
                // The value changes, so the old CAS number must no longer match.
                self.attributes_at(database, key)?.map(|old| Attributes { cas: 0, ..old })
            }
            Lifetime::Clear => Some(Attributes::default()),
            Lifetime::Are(attributes) => Some(attributes),
        };
        // Usually the key has no attributes and gets none.
        let attributes = match standing {
            Some(new) if new != self.attributes_at(database, key)?.unwrap_or_default() => Some(new),
            _ => None,
        };
        self.changed(database, key);
        self.together(|this| {
            this.stage_value(database, key, Some(value))?;
            attributes.map_or(Ok(()), |attributes| this.stage_attributes(database, key, attributes))
        })
    }

    /// Stores the pairs in order, without attributes, as SET does.
    ///
    /// # Errors
    /// Those of [`Table::put_many`].
    pub(crate) fn put_many(&mut self, database: usize, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let table = self.table(database)?;
        let mut simple = self.transaction.is_none();
        if simple && self.database(database).side_len.load(Relaxed) > 0 {
            for (key, _) in pairs {
                simple &= self.attributes_at(database, key)?.is_none();
            }
        }
        if !simple || self.space.in_file() && pairs.iter().any(|(key, _)| marks::is_marked(key)) {
            return pairs.iter().try_for_each(|(key, value)| self.put(database, key, value, Lifetime::Clear));
        }
        pairs.iter().for_each(|(key, _)| self.changed(database, key));
        table.put_many(pairs)?;
        self.space.memory.note_writes(self.space, pairs, &self.clock);
        Ok(())
    }

    /// Appends `tail` to the value of `key`, which is empty if the key is absent. Returns the new length; the key
    /// keeps its attributes.
    ///
    /// # Errors
    /// Those of [`Table::append`].
    pub(crate) fn append(&mut self, database: usize, key: &[u8], tail: &[u8]) -> Result<usize> {
        self.expire(database, key)?;
        self.changed(database, key);
        if self.transaction.is_some() {
            let mut value = Vec::new();
            self.read(database, key, &mut value)?;
            value.extend_from_slice(tail);
            self.forget_cas(database, key)?;
            self.stage_value(database, key, Some(&value))?;
            return Ok(value.len());
        }
        self.forget_cas(database, key)?;
        let table = self.table(database)?;
        let len = table.append(&self.stored(key), tail)?;
        self.space.memory.note_writes(self.space, &[(key, tail)], &self.clock);
        Ok(len)
    }

    /// Appends each pair's bytes to the value of its key, in order. `len_max` returns the limit of a value's length for
    /// the pair's index. Calls `take` with each new length, or `None` where it would exceed the limit. The keys keep
    /// their attributes. Must not be called between `begin` and `commit`.
    ///
    /// # Errors
    /// Those of [`Table::append`], the first that occurs; `take` was called for the pairs before it.
    pub(crate) fn append_many(
        &mut self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        len_max: impl Fn(usize) -> usize,
        mut take: impl FnMut(usize, Option<usize>),
    ) -> Result<()> {
        let table = self.table(database)?;
        for (number, window) in pairs.chunks(WINDOW).enumerate() {
            let mut alone = self.needing_more(database, window)?;
            let mut at = 0;
            while at < window.len() {
                let first = number * WINDOW + at;
                let together = (alone.trailing_zeros() as usize).min(window.len() - at);
                if together == 0 {
                    let (key, tail) = window[at];
                    take(first, self.append_within(database, key, tail, len_max(first))?);
                } else {
                    let run = &window[at..at + together];
                    let appended = table.append_many_within(
                        run,
                        |index| len_max(first + index),
                        |index, len| {
                            if len.is_some() {
                                self.changed(database, run[index].0);
                            }
                            take(first + index, len);
                        },
                    );
                    self.space.memory.note_writes(self.space, run, &self.clock);
                    appended?;
                }
                at += together.max(1);
                alone = alone.checked_shr(together.max(1) as u32).unwrap_or(0);
            }
        }
        Ok(())
    }

    /// The pairs, at most [`WINDOW`], that need more than a plain append to the table, as one bit each: those whose
    /// keys have expired, have a CAS number, or are stored under a marked key of the file.
    fn needing_more(&self, database: usize, pairs: &[(&[u8], &[u8])]) -> Result<u64> {
        let mut bits = 0;
        if self.space.in_file() {
            let marked = pairs.iter().enumerate().filter(|(_, (key, _))| marks::is_marked(key));
            marked.for_each(|(index, _)| bits |= 1 << index);
        }
        let database = self.database(database);
        if database.side_len.load(Relaxed) > 0
            && let Some(side) = database.side.load().as_ref()
        {
            let mut keys: [&[u8]; WINDOW] = [&[]; WINDOW];
            keys.iter_mut().zip(pairs).for_each(|(place, (key, _))| *place = key);
            side.get_many_with(&keys[..pairs.len()], |index, found| {
                let has_number = |a: Attributes| a.cas != 0 && !planted(Bug::AppendKeepsNumber);
                let is_over = |a: Attributes| a.expired(self.now_ms()) && !planted(Bug::AppendToExpired);
                let needs_more = |attributes| has_number(attributes) || is_over(attributes);
                bits |= u64::from(found.and_then(Attributes::decode).is_some_and(needs_more)) << index;
            })?;
        }
        Ok(bits)
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
    /// Those of [`Table::remove`].
    pub(crate) fn remove(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        if self.expire(database, key)? || !self.holds(database, key)? {
            return Ok(false);
        }
        self.changed(database, key);
        self.remove_stored(database, key)?;
        Ok(true)
    }

    /// Sets the attributes of `key` if it is present. Returns whether it is.
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub(crate) fn set_attributes(&mut self, database: usize, key: &[u8], attributes: Attributes) -> Result<bool> {
        if !self.contains(database, key)? {
            return Ok(false);
        }
        if self.attributes_at(database, key)?.unwrap_or_default() != attributes {
            self.changed(database, key);
            self.together(|this| this.stage_attributes(database, key, attributes))?;
        }
        Ok(true)
    }

    /// The CAS number of `key`, given now if it has none; `None` if the key is absent. Not a change for WATCH.
    ///
    /// # Errors
    /// Those of [`Table::put`].
    pub(crate) fn cas_of(&mut self, database: usize, key: &[u8]) -> Result<Option<u64>> {
        if !self.contains(database, key)? {
            return Ok(None);
        }
        let mut attributes = self.attributes_at(database, key)?.unwrap_or_default();
        if attributes.cas == 0 {
            attributes.cas = self.space.new_cas();
            self.together(|this| this.stage_attributes(database, key, attributes))?;
        }
        Ok(Some(attributes.cas))
    }

    /// Removes all keys of a database.
    ///
    /// In memory O(1): the table is replaced, and another thread frees the old one. In a file O(buckets);
    /// [`KeySpace::compact_cleared`] returns the space to the file system.
    ///
    /// # Errors
    /// Those of [`Table::clear`].
    pub fn flush(&mut self, database: usize) -> Result<()> {
        self.commit()?;
        self.space.refuse_dictionary()?;
        let space = self.space;
        space.watched.touch_all(database, |key| self.holds(database, key).unwrap_or(true));
        let database = self.database(database);
        space.events.changes.fetch_add(space.len_of(database), Relaxed);
        if space.in_file() {
            if let Some(table) = database.table.load().as_ref() {
                table.clear()?;
                database.cleared.store(true, Relaxed);
            }
        } else {
            free(database.table.swap(None));
        }
        free(database.side.swap(None));
        database.side_len.store(0, Relaxed);
        database.expiring_len.store(0, Relaxed);
        database.marked_len.store(0, Relaxed);
        database.has_header.store(false, Relaxed);
        space.memory.look(space);
        Ok(())
    }

    /// Watches `key` for `watch`.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn watch(&mut self, watch: &mut Watch, database: usize, key: &[u8]) -> Result<()> {
        let attributes = self.attributes_at(database, key)?.unwrap_or_default();
        self.space.watched.add(watch, database, key, attributes.expired(self.now_ms()));
        Ok(())
    }

    /// Ends a watch. Returns whether one of its keys changed, or expired, since it began.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn unwatch(&mut self, watch: &mut Watch) -> Result<bool> {
        let mut dirty = watch.dirty.load(Relaxed);
        for ((database, key), was_expired) in &watch.keys {
            let attributes = self.attributes_at(*database, key)?.unwrap_or_default();
            dirty |= !was_expired && attributes.expired(self.now_ms()) && !planted(Bug::WatchForgetsClock);
        }
        self.space.watched.remove(watch);
        Ok(dirty)
    }

    /// The number of keys of a database, with the changes since [`begin`](Self::begin), and including expired keys that
    /// are not removed yet. O(1); the first call in a transaction is O(its keys).
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn len(&mut self, database: usize) -> Result<u64> {
        let more = self.presence()?.map_or(0, |presence| presence.more[database]);
        Ok(self.space.len(database).saturating_add_signed(more))
    }

    /// The keys that the changes since [`begin`](Self::begin) add (`true`) or remove (`false`).
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn staged_keys(&mut self, database: usize) -> Result<Vec<(Vec<u8>, bool)>> {
        self.presence()?;
        let Some(Transaction { values, presence: Some(presence), .. }) = &self.transaction else {
            return Ok(Vec::new());
        };
        let of_this = values.iter().filter(|(place, _)| place.0 == database);
        let changed = of_this.filter(|(place, value)| value.is_some() != presence.before.contains(*place));
        Ok(changed.map(|(place, value)| (place.1.clone(), value.is_some())).collect())
    }

    /// The presence of the transaction's keys, which [`stage_value`](Self::stage_value) updates from now on; `None`
    /// outside a transaction.
    fn presence(&mut self) -> Result<Option<&Presence>> {
        let Some(transaction) = &self.transaction else { return Ok(None) };
        if transaction.presence.is_none() {
            let mut presence = Presence::default();
            for (place, value) in &transaction.values {
                let was_present = self.is_stored(place.0, &place.1)?;
                presence.more[place.0] += i64::from(value.is_some()) - i64::from(was_present);
                if was_present {
                    presence.before.insert(place.clone());
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

    /// Removes `key` if it has expired. Returns whether it had.
    pub(super) fn expire(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        if !self.attributes_at(database, key)?.is_some_and(|a| a.expired(self.now_ms())) {
            return Ok(false);
        }
        if self.holds(database, key)? {
            self.space.events.expired.fetch_add(1, Relaxed);
        }
        if !planted(Bug::SweptUnwatched) {
            self.space.watched.touch_expired(database, key);
        }
        self.remove_stored(database, key)?;
        Ok(true)
    }

    pub(super) fn remove_stored(&mut self, database: usize, key: &[u8]) -> Result<()> {
        let attributed = self.attributes_at(database, key)?.is_some();
        self.together(|this| {
            this.stage_value(database, key, None)?;
            if attributed { this.stage_attributes(database, key, Attributes::default()) } else { Ok(()) }
        })
    }

    /// Removes the CAS number of `key`, so that the number of the old value does not match the new one.
    fn forget_cas(&mut self, database: usize, key: &[u8]) -> Result<()> {
        match self.attributes_at(database, key)? {
            Some(old) if old.cas != 0 => {
                self.together(|this| this.stage_attributes(database, key, Attributes { cas: 0, ..old }))
            }
            _ => Ok(()),
        }
    }

    /// Reports a change of `key` to those who watch it.
    fn changed(&self, database: usize, key: &[u8]) {
        self.space.events.changes.fetch_add(1, Relaxed);
        self.space.watched.touch(database, key, || self.holds(database, key).unwrap_or(true));
    }

    fn database(&self, database: usize) -> &'k Database {
        &self.space.databases[database]
    }

    fn stored<'a>(&self, key: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        if self.space.in_file() { marks::of_value(key) } else { key.into() }
    }

    fn read(&self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        if let Some(staged) = self.staged(|transaction| transaction.values.get(&(database, key.to_vec()))) {
            value.extend_from_slice(staged.as_deref().unwrap_or_default());
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
            value.extend_from_slice(found.unwrap_or_default());
        })?;
        Ok(is_found)
    }

    fn holds(&self, database: usize, key: &[u8]) -> Result<bool> {
        if let Some(staged) = self.staged(|transaction| transaction.values.get(&(database, key.to_vec()))) {
            return Ok(staged.is_some());
        }
        match self.database(database).table.load().as_ref() {
            Some(table) => Ok(table.contains(&self.stored(key))?),
            None => self.read_dictionary(database, key, &mut Vec::new()),
        }
    }

    /// The attributes of `key`, expired or not.
    pub(super) fn attributes_at(&mut self, database: usize, key: &[u8]) -> Result<Option<Attributes>> {
        if let Some(&staged) = self.staged(|transaction| transaction.attributes.get(&(database, key.to_vec()))) {
            return Ok(Some(staged).filter(|&attributes| attributes != Attributes::default()));
        }
        self.space.databases[database].attributes(key, &mut self.room)
    }

    #[inline]
    fn staged<'a, T>(&'a self, find: impl FnOnce(&'a Transaction) -> Option<T>) -> Option<T> {
        self.transaction.as_ref().and_then(find)
    }

    /// Makes several changes as one, inside or outside a transaction.
    fn together(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let begun = self.space.in_file() && self.transaction.is_none();
        if begun {
            self.begin();
        }
        match work(self) {
            Ok(()) if begun => self.commit(),
            Ok(()) => Ok(()),
            Err(error) => {
                if begun {
                    self.roll_back();
                }
                Err(error)
            }
        }
    }

    fn stage_value(&mut self, database: usize, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.space.refuse_dictionary()?;
        if self.transaction.is_some() {
            return self.stage_in_transaction(database, key, value);
        }
        match value {
            Some(value) => {
                self.table(database)?.put(key, value)?;
                self.space.memory.note_writes(self.space, &[(key, value)], &self.clock);
            }
            None => {
                if let Some(table) = self.database(database).table.load().as_ref() {
                    table.remove(key)?;
                }
            }
        }
        Ok(())
    }

    fn stage_in_transaction(&mut self, database: usize, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let place = (database, key.to_vec());
        let counted = self.staged(|transaction| transaction.presence.as_ref()).is_some();
        let before = self.staged(|transaction| transaction.values.get(&place)).map(Option::is_some);
        let was_stored = counted && before.is_none() && self.is_stored(database, key)?;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        if let Some(presence) = &mut transaction.presence {
            let was_there = before.unwrap_or(was_stored) || planted(Bug::StoredAgainUncounted) && before.is_some();
            presence.more[database] += i64::from(value.is_some()) - i64::from(was_there);
            if was_stored {
                presence.before.insert(place.clone());
            }
        }
        transaction.values.insert(place, value.map(<[u8]>::to_vec));
        Ok(())
    }

    fn stage_attributes(&mut self, database: usize, key: &[u8], attributes: Attributes) -> Result<()> {
        self.space.refuse_dictionary()?;
        match &mut self.transaction {
            Some(transaction) => {
                transaction.attributes.insert((database, key.to_vec()), attributes);
                Ok(())
            }
            None => self.database(database).set_side(key, attributes),
        }
    }

    /// Makes a transaction's changes in the files, then in the side tables.
    fn store(&self, transaction: Transaction) -> Result<()> {
        for number in 0..DATABASE_COUNT {
            let of_this = |place: &&(usize, Vec<u8>)| place.0 == number;
            let values = transaction.values.iter().filter(|(place, _)| of_this(place));
            let attributes = transaction.attributes.iter().filter(|(place, _)| of_this(place));
            self.store_in(
                number,
                values.map(|((_, key), value)| (key.as_slice(), value.as_deref())),
                attributes.map(|((_, key), attributes)| (key.as_slice(), *attributes)),
            )?;
        }
        Ok(())
    }

    fn store_in<'a>(
        &self,
        number: usize,
        values: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        attributes: impl Iterator<Item = (&'a [u8], Attributes)>,
    ) -> Result<()> {
        let mut values = values.peekable();
        let mut attributes = attributes.peekable();
        if values.peek().is_none() && attributes.peek().is_none() {
            return Ok(());
        }
        let database = self.database(number);
        let table = self.table(number)?;
        let mut batch = table.batch();
        let mut written = Vec::new();
        for (key, value) in values {
            match value {
                Some(value) => {
                    batch.put(&marks::of_value(key), value)?;
                    written.push((key, value));
                }
                None => batch.remove(&marks::of_value(key))?,
            }
        }
        let attributes: Vec<_> = attributes.collect();
        // The increase in marked pairs, and whether the header is among the new ones.
        let (mut more, mut header) = (0i64, false);
        for (key, new) in &attributes {
            let old = database.attributes(key, &mut Vec::new())?.unwrap_or_default().durable();
            let none = Attributes::default();
            match (old != none, new.durable() != none) {
                (_, true) => {
                    batch.put(&marks::of_attributes(key), &new.durable().encode())?;
                    more += i64::from(old == none);
                    header = !database.has_header.load(Relaxed);
                }
                (true, false) => {
                    batch.remove(&marks::of_attributes(key))?;
                    more -= 1;
                }
                (false, false) => {}
            }
        }
        if header {
            batch.put(&marks::header(), marks::VERSION)?;
            more += 1;
        }
        batch.commit()?;
        if header {
            database.has_header.store(true, Relaxed);
        }
        database.marked_len.fetch_add(more as u64, Relaxed); // wraps: `more` may be negative
        for (key, attributes) in attributes {
            database.set_side(key, attributes)?;
        }
        self.space.memory.note_writes(self.space, &written, &self.clock);
        Ok(())
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
            Place::File(options, path) => super::opening::open_file(options, path, number, true)?.expect("created"),
        });
        database.table.store(Some(table.clone()));
        Ok(table)
    }
}

impl Drop for Exclusive<'_> {
    /// Reports what no command has reported, such as what the sweep removed.
    fn drop(&mut self) {
        let changes = self.take_changes();
        if !changes.is_empty()
            && let Some(observer) = self.space.observer.get()
        {
            observer(self, changes);
        }
    }
}

impl Database {
    /// Sets the attributes of `key` in the side table; the default removes them.
    pub(super) fn set_side(&self, key: &[u8], attributes: Attributes) -> Result<()> {
        let is_none = attributes == Attributes::default();
        let side = match self.side.load_full() {
            Some(side) => side,
            None if is_none => return Ok(()),
            None => {
                let side = Arc::new(TableOptions::new().hash(HashKind::Sip13).page_bytes(512).in_memory()?);
                self.side.store(Some(side.clone()));
                side
            }
        };
        let expires_before = self.attributes(key, &mut Vec::new())?.is_some_and(|old| old.expires_at_ms != 0);
        if is_none {
            side.remove(key)?;
        } else {
            side.put(key, &attributes.encode())?;
        }
        self.side_len.store(side.len(), Relaxed);
        let more = i64::from(attributes.expires_at_ms != 0) - i64::from(expires_before);
        self.expiring_len.fetch_add(more as u64, Relaxed); // wraps: `more` may be negative
        Ok(())
    }
}

/// Frees a table on a thread of its own: returning gigabytes to the system takes a while.
fn free(table: Option<Arc<Table>>) {
    if let Some(table) = table {
        // If no thread can be started, the closure is dropped, which frees the table here.
        let _ = std::thread::Builder::new().name("free".into()).spawn(move || drop(table));
    }
}
