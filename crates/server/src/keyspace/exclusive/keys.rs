//! Keys of any type: renamed, copied, removed. Whatever replaces a collection releases its segments.

use super::Exclusive;
use crate::keyspace::collections::shape::{Gap, segments_of, set_id};
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::reads::Known;
use crate::keyspace::{Kind, Result, SHORT_VALUE_BYTES};
use std::ops::Range;

impl Exclusive<'_> {
    /// Renames a key that is present. O(1), but O(bytes) for a string in a file.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::put`].
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
    /// Returns the errors of [`splitpoint::Table::put`].
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

    /// Removes `key`. Returns whether it was present and had not expired.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::remove`].
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

    /// Makes a change that replaces or removes the value of `key`, and with it releases the value's segments.
    pub(super) fn replacing(
        &mut self,
        database: usize,
        key: &[u8],
        change: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
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
}
