//! Changes of strings: stored, overwritten in part, appended to, edited.
//!
//! In memory a long value is changed in place: its part, its head or its end. In a file the whole value is stored; the
//! transaction has one copy of it, which later commands change in place.

use super::{Exclusive, Lifetime};
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::reads::Known;
use crate::keyspace::shared::put_coded;
use crate::keyspace::{Attributes, Edit, Kind, New, Old, Result, SHORT_VALUE_BYTES, marks};
use splitpoint::OldValue;
use std::sync::atomic::Ordering::*;

impl Exclusive<'_> {
    /// Overwrites a part of the value of `key` from byte `at` on; a shorter value is first extended with zeros. The key
    /// keeps its attributes. Returns the new length.
    ///
    /// In memory this writes only the part and any extension; in a file the whole value, unless the transaction has it.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
    pub(crate) fn put_part(&mut self, database: usize, key: &[u8], at: usize, part: &[u8]) -> Result<usize> {
        let end = at + part.len();
        self.space.note_len(end);
        let known = self.known_without_cas(database, key)?;
        known.map_or(Ok(()), |known| known.refuse_collection())?;
        if let Some(len) = known.and_then(|known| self.put_staged_part(database, key, known, at, part)) {
            return Ok(len);
        }
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

    /// [`put_part`](Self::put_part) of a value that the transaction has: changes that copy. O(part). `None` if it has
    /// none, if the copy cannot be changed (a run may undo the change), or if the attributes change, too.
    fn put_staged_part(&mut self, database: usize, key: &[u8], known: Known, at: usize, part: &[u8]) -> Option<usize> {
        let coding = self.space.coding(self.database(database));
        let transaction = self.transaction.as_deref_mut()?;
        if known.attributes.cas != 0 || known.attributes.kind != Kind::String {
            return None;
        }
        let stored = transaction.values.value_mut(database, key)?;
        let (before, start) = (stored.len(), known.head_bytes + at);
        stored.resize(before.max(start + part.len()), 0);
        stored[start..start + part.len()].copy_from_slice(part);
        let len = stored.len() - known.head_bytes;
        // The value now begins like a head, so it needs one.
        if known.head_bytes == 0 && !coding.is_plain(stored) {
            let value = std::mem::take(stored);
            coding.encode(known.attributes, &value, stored);
        }
        transaction.bytes += stored.len() - before;
        self.space.note_len(len);
        self.changed(database, key);
        Some(len)
    }

    /// Stores `value` under `key`.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
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

    /// Stores the pairs in order. Returns how many, and the error that ended the call early. `attributes(n)` replaces
    /// the attributes of pair `n`.
    pub(crate) fn put_many(
        &mut self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
    ) -> (usize, Result<()>) {
        let mut done = 0;
        let outcome = self.put_counted(database, pairs, attributes, &mut done);
        (done, outcome)
    }

    /// [`put_many`](Self::put_many) that counts in `done` what it stored.
    fn put_counted(
        &mut self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
        done: &mut usize,
    ) -> Result<()> {
        let table = self.table(database)?;
        let has_segments = self.counts(database).segments > 0;
        if self.transaction.is_some()
            || has_segments
            || self.space.in_file() && pairs.iter().any(|(key, _)| marks::is_marked(key))
        {
            for (index, (key, value)) in pairs.iter().enumerate() {
                self.put(database, key, value, Lifetime::Are(attributes(index)))?;
                *done += 1;
            }
            return Ok(());
        }
        for (index, (key, value)) in pairs.iter().enumerate() {
            self.allow_heads(database, attributes(index), value)?;
            self.changed(database, key);
        }
        let target = self.database(database);
        let (stored, outcome) = put_coded(&table, target, self.space.coding(target), pairs, attributes);
        *done = stored;
        self.space.memory.note_writes(self.space, &pairs[..stored], &self.clock);
        Ok(outcome?)
    }

    /// Appends `tail` to the value of `key`, which is empty if the key is absent. Returns the new length; the key
    /// keeps its attributes.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::append`].
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
        if let Some(known) = self.known_now(database, key)?
            && let Some(len) = self.put_staged_part(database, key, known, known.len, tail)
        {
            return Ok(len);
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
    /// Returns the first error of [`splitpoint::Table::append`]; `take` was called for the pairs before it.
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

    /// [`edit`](Self::edit) of a string.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`](crate::keyspace::SpaceError::WrongType) for a collection, or the errors of
    /// [`splitpoint::Table::put`].
    pub(crate) fn edit_string(
        &mut self,
        database: usize,
        key: &[u8],
        edit: impl FnMut(Option<Old<'_>>, &mut New<'_>) -> Edit,
    ) -> Result<()> {
        self.known_now(database, key)?.map_or(Ok(()), |known| known.refuse_collection())?;
        self.edit(database, key, edit)
    }

    /// Edits the value of `key`, whatever its type, as [`KeySpace::edit_many`](crate::keyspace::KeySpace::edit_many)
    /// does. If `edit` returns [`Edit::Alone`], it is called again with the whole value, and may return any.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
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
}
