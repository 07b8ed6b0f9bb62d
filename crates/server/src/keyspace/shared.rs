//! Shared entry to the key space: lookups, and writes of one key each.
//!
//! A write shares the key space only while the database is plain. Otherwise it changes nothing and reports that; the
//! protocol then repeats it with exclusive entry (`exclusive/`).

use super::gate::SharedEntry;
use super::in_place::InPlace;
use super::reads::with_scratch;
use super::record::Coding;
use super::{Attributes, Clock, Database, Edit, KeySpace, New, Old, PairsMut, Record, Result, marks};
use splitpoint::Table;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// The number of keys that are looked up together.
const WINDOW: usize = 64;

/// Shared entry, for lookups and plain writes; made by [`KeySpace::share`]. Hold it for a batch, not for long.
pub struct Shared<'k> {
    pub(super) space: &'k KeySpace,
    pub(super) _entry: SharedEntry<'k>,
    pub(super) clock: Clock,
}

impl<'k> Shared<'k> {
    /// The key space.
    pub(crate) fn space(&self) -> &'k KeySpace {
        self.space
    }

    /// The time that decides what has expired, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Calls `take` with the index of each key, in order, and its value; a collection has none. Overlaps the
    /// cache misses of many keys.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    #[inline]
    pub fn get_many(&self, database: usize, keys: &[&[u8]], mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.get_records(database, keys, |index, record| take(index, record.map(|record| record.value)))
    }

    /// [`get_many`](Self::get_many) with the attributes of the keys.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    #[inline]
    pub(crate) fn get_records(
        &self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, Option<Record<'_>>),
    ) -> Result<()> {
        self.read_many(database, keys, |index, record| take(index, record.filter(Record::is_string)))
    }

    /// Calls `take` with the index of each key, in order, and its record, whatever its type.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    #[inline]
    pub(crate) fn read_many(
        &self,
        database: usize,
        keys: &[&[u8]],
        take: impl FnMut(usize, Option<Record<'_>>),
    ) -> Result<()> {
        self.space.read_many(&self.space.databases[database], keys, &self.clock, take)
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
        self.space.read_part(&self.space.databases[database], key, &self.clock, choose, part)
    }

    /// The length of the value of `key`; `None` if the key is absent. Reads no large value, and does not count as a use
    /// of the key.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`](super::SpaceError::WrongType), or the errors of [`Table::get`].
    pub(crate) fn value_len(&self, database: usize, key: &[u8]) -> Result<Option<usize>> {
        let known = self.space.known_now(&self.space.databases[database], key, &self.clock)?;
        known.map(|known| known.refuse_collection().map(|()| known.len)).transpose()
    }

    /// Notes that keys were used, for eviction.
    pub(crate) fn note_use(&self, keys: &[&[u8]]) {
        self.space.memory.note_use(keys, &self.clock);
    }

    /// The attributes of `key`; `None` if it has expired or is absent.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn attributes(&self, database: usize, key: &[u8]) -> Result<Option<Attributes>> {
        let known = self.space.known_now(&self.space.databases[database], key, &self.clock)?;
        Ok(known.map(|known| known.attributes))
    }

    /// Stores the pairs in order if the database is plain, up to the first that would replace a collection, whose
    /// segments only exclusive entry can release. Returns how many it stored, and the error that ended the call early.
    /// `attributes(n)` replaces the attributes of pair `n`.
    #[inline]
    pub(crate) fn put_many(
        &self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
    ) -> (usize, Result<()>) {
        if self.space.memory.is_much(pairs.iter().map(|(_, value)| value.len()).sum()) {
            return (0, Ok(()));
        }
        let Some(table) = self.plain_table(database, pairs.iter().map(|(key, _)| *key)) else { return (0, Ok(())) };
        let Some(table) = table.as_ref() else { return (0, Ok(())) };
        if self.space.databases[database].has_segments.load(Relaxed) {
            return self.put_over_collections(table, database, pairs, attributes);
        }
        let database = &self.space.databases[database];
        let coding = self.space.coding(database);
        let is_plain = |index: usize| !coding.needs_head(attributes(index), pairs[index].1);
        let (done, outcome) = if (0..pairs.len()).all(is_plain) {
            match pairs {
                [(key, value)] => {
                    let outcome = table.put(key, value);
                    (usize::from(outcome.is_ok()), outcome)
                }
                _ => table.put_many_counted(pairs),
            }
        } else {
            if !database.has_heads() {
                return (0, Ok(()));
            }
            put_coded(table, database, coding, pairs, attributes)
        };
        self.space.events.changes.fetch_add(done as u64, Relaxed);
        self.space.memory.note_writes(self.space, &pairs[..done], &self.clock);
        (done, outcome.map_err(Into::into))
    }

    /// [`put_many`](Self::put_many) where old values may be collections.
    #[inline(never)]
    fn put_over_collections(
        &self,
        table: &Table,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
    ) -> (usize, Result<()>) {
        let bytes_max = pairs.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| *key).collect();
        let put = |index: usize, _: Option<Old<'_>>, new: &mut New<'_>| new.put(attributes(index), pairs[index].1);
        let (done, outcome) = self.space.edit_many(table, database, &keys, bytes_max, &self.clock, put);
        self.space.memory.note_use(&keys[..done], &self.clock);
        (done, outcome)
    }

    /// Appends each pair's bytes to the value of its key, in order, if the database is plain; otherwise changes nothing
    /// and returns `false`. `len_max` returns the limit of a value's length for the pair's index. Calls `take` with
    /// each new length, or `None` where it would exceed the limit. Returns how many pairs were taken: the next one, if
    /// any, needs exclusive entry.
    ///
    /// # Errors
    /// Returns the first error of [`Table::append`]; `take` was called for the pairs before it.
    pub(crate) fn append_many(
        &self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        len_max: impl Fn(usize) -> usize,
        take: impl FnMut(usize, Option<usize>),
    ) -> Result<bool> {
        if self.space.memory.is_much(pairs.iter().map(|(_, value)| value.len()).sum()) {
            return Ok(false);
        }
        let Some(table) = self.plain_table(database, pairs.iter().map(|(key, _)| *key)) else { return Ok(false) };
        let Some(table) = table.as_ref() else { return Ok(false) };
        let appended = self.space.append_many(table, database, pairs, &self.clock, len_max, take);
        self.space.memory.note_writes(self.space, pairs, &self.clock);
        appended.map(|()| true)
    }

    /// Removes the keys in order if the database is plain; otherwise changes nothing and returns `false`. Calls `take`
    /// with the index of each key and whether it was present.
    ///
    /// # Errors
    /// Returns the first error of [`Table::remove`]; `take` was called for the keys before it, which are removed.
    pub(crate) fn remove_many(
        &self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, bool),
    ) -> Result<bool> {
        let Some(table) = self.plain_table(database, keys.iter().copied()) else { return Ok(false) };
        let Some(table) = table.as_ref() else { return Ok(false) };
        let mut changes = 0;
        if self.space.databases[database].has_heads() {
            let mut present = [false; WINDOW];
            for (number, keys) in keys.chunks(WINDOW).enumerate() {
                let remove = |index: usize, old: Option<Old<'_>>, _: &mut New<'_>| {
                    present[index] = old.is_some();
                    Edit::Remove
                };
                let (done, outcome) = self.space.edit_many(table, database, keys, 0, &self.clock, remove);
                (0..done).for_each(|index| take(number * WINDOW + index, present[index]));
                outcome?;
                if done < keys.len() {
                    break; // a collection, which needs exclusive entry
                }
            }
            return Ok(true);
        }
        let removed = table.remove_many_with(keys, |index, was_present| {
            changes += u64::from(was_present);
            take(index, was_present);
        });
        self.space.events.changes.fetch_add(changes, Relaxed);
        Ok(removed.map(|()| true)?)
    }

    /// Edits the values of `keys` in order if the database is plain: see [`KeySpace::edit_many`]. Returns the number of
    /// keys edited, and the error that ended the call early. The next key needs exclusive entry. `more_bytes`
    /// estimates what all edits may add.
    pub(crate) fn edit_many(
        &self,
        database: usize,
        keys: &[&[u8]],
        (value_bytes_max, more_bytes): (usize, usize),
        edit: impl FnMut(usize, Option<Old<'_>>, &mut New<'_>) -> Edit,
    ) -> (usize, Result<()>) {
        // Large values are stored by a put, which can write them through to the file.
        const VALUE_BYTES_MAX: usize = 1 << 16;
        if value_bytes_max > VALUE_BYTES_MAX || self.space.memory.is_much(more_bytes) {
            return (0, Ok(()));
        }
        let Some(table) = self.plain_table(database, keys.iter().copied()) else { return (0, Ok(())) };
        let Some(table) = table.as_ref() else { return (0, Ok(())) };
        self.space.memory.note_use(keys, &self.clock);
        self.space.edit_many(table, database, keys, value_bytes_max, &self.clock, edit)
    }

    /// Changes the small collections at `keys` in order, if the database is plain and no client waits for a key.
    /// `change` gets the index of a key and its value; if it returns `false`, the value remains. Returns the number of
    /// keys changed, and the error that ended the call early; a key for which `change` returns
    /// [`SpaceError::Alone`](super::SpaceError::Alone), or which would get a value of more than `value_bytes_max`
    /// bytes, ends the call, too. `more_bytes` estimates what all changes may add.
    pub(crate) fn change_many(
        &self,
        database: usize,
        keys: &[&[u8]],
        (value_bytes_max, more_bytes): (usize, usize),
        mut change: impl FnMut(usize, &mut dyn PairsMut) -> Result<bool>,
    ) -> (usize, Result<()>) {
        let space = self.space;
        if !space.allows_runs() || space.memory.is_much(more_bytes) {
            return (0, Ok(()));
        }
        let Some(table) = self.plain_table(database, keys.iter().copied()) else { return (0, Ok(())) };
        let Some(table) = table.as_ref() else { return (0, Ok(())) };
        space.memory.note_use(keys, &self.clock);
        let edit = |index: usize, old: Option<Old<'_>>, new: &mut New<'_>| {
            let (key, clock) = (keys[index], &self.clock);
            let mut pairs = InPlace { space, database, key, clock, old, new, edit: Edit::Keep };
            match change(index, &mut pairs) {
                Ok(true) => pairs.edit,
                Ok(false) => Edit::Keep,
                Err(_) => Edit::Alone,
            }
        };
        space.edit_any(table, database, keys, value_bytes_max, &self.clock, edit)
    }

    #[inline]
    fn plain_table<'a>(
        &self,
        database: usize,
        mut keys: impl Iterator<Item = &'a [u8]>,
    ) -> Option<arc_swap::Guard<Option<Arc<Table>>>> {
        let plain = self.space.is_plain() && !(self.space.in_file() && keys.any(marks::is_marked));
        plain.then(|| self.space.databases[database].table.load())
    }
}

/// How many of `count` stores, of which `put_many` made the first, may be answered with success: not one if all are
/// made and there is an error, since then they are not as durable as the answers would say.
pub(crate) fn answerable((done, outcome): (usize, Result<()>), count: usize) -> usize {
    if outcome.is_err() && done == count { 0 } else { done }
}

/// Stores the pairs in order, each with the attributes for its index. Returns how many, and the error that ended the
/// call early.
pub(super) fn put_coded(
    table: &Table,
    database: &Database,
    coding: Coding,
    pairs: &[(&[u8], &[u8])],
    attributes: impl Fn(usize) -> Attributes,
) -> (usize, splitpoint::Result<()>) {
    with_scratch(|coded| {
        let (mut ends, mut done) = ([0; WINDOW], 0);
        for (number, pairs) in pairs.chunks(WINDOW).enumerate() {
            coded.clear();
            for (index, (_, value)) in pairs.iter().enumerate() {
                let attributes = attributes(number * WINDOW + index);
                database.note_lifetime(attributes);
                coding.encode(attributes, value, coded);
                ends[index] = coded.len();
            }
            let mut coded_pairs: [(&[u8], &[u8]); WINDOW] = [(&[], &[]); WINDOW];
            let mut start = 0;
            for (index, (key, _)) in pairs.iter().enumerate() {
                coded_pairs[index] = (key, &coded[start..ends[index]]);
                start = ends[index];
            }
            let (stored, outcome) = table.put_many_counted(&coded_pairs[..pairs.len()]);
            done += stored;
            if outcome.is_err() {
                return (done, outcome);
            }
        }
        (done, Ok(()))
    })
}
