//! Edits of keys in a row: each reads and changes one key's value and attributes under the latch of the key's bucket.
//!
//! An edit sees no expired value. If it needs the whole of a large value, or a closed gate, it leaves the key
//! to an exclusive command: [`Edit::Alone`].

use super::record::{Attributes, Coding, HEAD_BYTES_MAX, Kind, MARK_BYTES, ROOMY_HEAD_BYTES, Record};
use super::{Clock, Database, KeySpace, Result};
use splitpoint::{KeyEdit, OldValue, Table};
use std::sync::atomic::Ordering::*;

/// The value of a key before an edit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Old<'v> {
    /// The attributes of the key.
    pub(crate) attributes: Attributes,
    /// The value; of a large one only the beginning.
    pub(crate) value: &'v [u8],
    /// The length of the value.
    pub(crate) len: usize,
    /// The length of the head in front of the value.
    head_bytes: usize,
}

/// What an edit does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Leaves it as it is.
    Keep,
    /// Stores what [`New::put`] was given.
    Put,
    /// Appends what [`New::append`] was given.
    Append,
    /// Stores the attributes that [`New::set_attributes`] was given, and leaves the long value where it is. Ends a call
    /// for several keys before this key.
    SetAttributes,
    /// Removes it.
    Remove,
    /// Ends the call before this key, which needs exclusive entry.
    Alone,
}

/// The new value of a key.
pub(crate) struct New<'n> {
    database: &'n Database,
    coding: Coding,
    bytes: &'n mut Vec<u8>,
}

impl<'n> New<'n> {
    pub(super) fn of(database: &'n Database, coding: Coding, bytes: &'n mut Vec<u8>) -> New<'n> {
        New { database, coding, bytes }
    }

    /// Stores `value` with these attributes.
    pub(crate) fn put(&mut self, attributes: Attributes, value: &[u8]) -> Edit {
        if self.coding.needs_head(attributes, value) && !self.database.has_heads() {
            return Edit::Alone;
        }
        self.database.note_lifetime(attributes);
        self.coding.encode(attributes, value, self.bytes);
        Edit::Put
    }

    /// Stores the value of `old` with these attributes.
    pub(crate) fn set_attributes(&mut self, old: &Old<'_>, attributes: Attributes) -> Edit {
        if attributes == old.attributes {
            return Edit::Keep;
        }
        if old.is_whole() && !self.coding.is_roomy(old.len) {
            return self.put(attributes, old.value);
        }
        self.coding.encode_head(attributes, true, self.bytes);
        Edit::SetAttributes
    }

    /// Appends `tail` to the value of `old`; it becomes the value of an absent key. The key keeps its attributes, but
    /// for the CAS number.
    pub(crate) fn append(&mut self, old: Option<&Old<'_>>, tail: &[u8]) -> Edit {
        let Some(old) = old else { return self.put(Attributes::NONE, tail) };
        let attributes = Attributes { cas: 0, ..old.attributes };
        // A value that begins like a head needs one, as does one that becomes long; and the old value's CAS
        // number must not match the new value.
        let begins = old.head_bytes == 0 && old.len < MARK_BYTES;
        let becomes_long = self.coding.is_roomy(old.len + tail.len()) && old.head_bytes < ROOMY_HEAD_BYTES;
        let needs_head = begins && !self.coding.is_plain(&[old.value, tail].concat()) || becomes_long;
        if needs_head || attributes != old.attributes {
            if !old.is_whole() {
                return Edit::Alone;
            }
            return self.put(attributes, &[old.value, tail].concat());
        }
        self.bytes.extend_from_slice(tail);
        Edit::Append
    }
}

impl<'v> Old<'v> {
    /// Makes it from a record whose value may be cut. `len`: the length of the whole value.
    pub(super) fn of(record: Record<'v>, len: usize, head_bytes: usize) -> Old<'v> {
        Old { attributes: record.attributes, value: record.value, len, head_bytes }
    }

    /// Whether `value` is the whole value.
    pub(crate) fn is_whole(&self) -> bool {
        self.value.len() == self.len
    }
}

impl KeySpace {
    /// Edits the values of `keys` in order, none of them a marked key of a file; ends before a collection. `edit` gets
    /// the index of a key, its value if it is present and has not expired, and a [`New`] for its new value, of at
    /// most `value_bytes_max` bytes. Returns the number of keys edited, and the error that ended the call early.
    pub(super) fn edit_many(
        &self,
        table: &Table,
        database: usize,
        keys: &[impl AsRef<[u8]>],
        value_bytes_max: usize,
        clock: &Clock,
        mut edit: impl FnMut(usize, Option<Old<'_>>, &mut New<'_>) -> Edit,
    ) -> (usize, Result<()>) {
        let edit = |index: usize, old: Option<Old<'_>>, new: &mut New<'_>| {
            // The segments of a collection are released with exclusive entry.
            if old.is_some_and(|old| old.attributes.kind != Kind::String) { Edit::Alone } else { edit(index, old, new) }
        };
        self.edit_any(table, database, keys, value_bytes_max, clock, edit)
    }

    /// [`edit_many`](Self::edit_many) of values of any type; ends before an expired collection. `edit` must not remove
    /// or replace a large collection.
    pub(super) fn edit_any(
        &self,
        table: &Table,
        database: usize,
        keys: &[impl AsRef<[u8]>],
        value_bytes_max: usize,
        clock: &Clock,
        mut edit: impl FnMut(usize, Option<Old<'_>>, &mut New<'_>) -> Edit,
    ) -> (usize, Result<()>) {
        let database = &self.databases[database];
        let coding = self.coding(database);
        let (mut changes, mut expired, mut written_bytes) = (0, 0, 0);
        let edit = |index: usize, stored: Option<OldValue<'_>>, bytes: &mut Vec<u8>| {
            let old = stored.map(|stored| {
                let record = coding.decode(stored.head);
                let head_bytes = stored.head.len() - record.value.len();
                Old::of(record, stored.len - head_bytes, head_bytes)
            });
            let is_over =
                old.is_some_and(|old| old.attributes.expires_at_ms != 0 && old.attributes.expired(clock.now_ms()));
            if is_over && old.is_some_and(|old| old.attributes.kind != Kind::String) {
                return KeyEdit::Stop; // its segments, if it has any, are released with exclusive entry
            }
            let what = edit(index, old.filter(|_| !is_over), &mut New::of(database, coding, bytes));
            let is_change = match what {
                Edit::Put | Edit::Append => true,
                Edit::Remove => old.is_some() && !is_over,
                Edit::Keep | Edit::SetAttributes | Edit::Alone => false,
            };
            changes += u64::from(is_change);
            written_bytes += bytes.len();
            expired += u64::from(is_over && matches!(what, Edit::Put | Edit::Remove));
            match what {
                Edit::Keep => KeyEdit::Keep,
                Edit::Put => KeyEdit::Put,
                Edit::Append => KeyEdit::Append,
                Edit::Remove => KeyEdit::Remove,
                Edit::SetAttributes | Edit::Alone => KeyEdit::Stop,
            }
        };
        let (done, outcome) = table.edit_many(keys, HEAD_BYTES_MAX + value_bytes_max, edit);
        self.events.changes.fetch_add(changes, Relaxed);
        self.events.expired.fetch_add(expired, Relaxed);
        self.memory.note_bytes(self, written_bytes);
        (done, outcome.map_err(Into::into))
    }

    /// Appends each pair's bytes to the value of its key, in order; none of the keys is a marked key of a file.
    /// `len_max` returns the limit of a value's length for the pair's index. Calls `take` with each new length, or
    /// `None` where it would exceed the limit. Ends before a pair that needs exclusive entry.
    ///
    /// # Errors
    /// Returns the first error of [`Table::append`]; `take` was called for the pairs before it.
    pub(super) fn append_many(
        &self,
        table: &Table,
        database: usize,
        pairs: &[(impl AsRef<[u8]>, &[u8])],
        clock: &Clock,
        len_max: impl Fn(usize) -> usize,
        mut take: impl FnMut(usize, Option<usize>),
    ) -> Result<()> {
        const AT_ONCE: usize = 64;
        let target = &self.databases[database];
        let coding = self.coding(target);
        if !target.has_heads() && pairs.iter().all(|(_, tail)| coding.is_plain(tail)) {
            let mut changes = 0;
            let appended = table.append_many_within(pairs, len_max, |index, len| {
                changes += u64::from(len.is_some());
                self.note_len(len.unwrap_or(0));
                take(index, len);
            });
            self.events.changes.fetch_add(changes, Relaxed);
            return Ok(appended?);
        }
        let mut lens = [None; AT_ONCE];
        for (number, pairs) in pairs.chunks(AT_ONCE).enumerate() {
            let first = number * AT_ONCE;
            let bytes_max = pairs.iter().map(|(_, tail)| tail.len()).max().unwrap_or(0) + SHORT_VALUE_BYTES;
            let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| key.as_ref()).collect();
            let append = |index: usize, old: Option<Old<'_>>, new: &mut New<'_>| {
                let tail = pairs[index].1;
                let len = old.map_or(0, |old| old.len) + tail.len();
                lens[index] = (len <= len_max(first + index)).then_some(len);
                self.note_len(len);
                if lens[index].is_some() { new.append(old.as_ref(), tail) } else { Edit::Keep }
            };
            let (done, outcome) = self.edit_many(table, database, &keys, bytes_max, clock, append);
            (0..done).for_each(|index| take(first + index, lens[index]));
            outcome?;
            if done < pairs.len() {
                break;
            }
        }
        Ok(())
    }
}

/// Longer values are not edited in a run if the edit stores the whole value.
pub(crate) const SHORT_VALUE_BYTES: usize = 4096;
