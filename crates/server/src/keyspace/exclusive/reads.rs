//! Lookups with exclusive entry: they see the changes of the transaction, and remove expired keys.

use super::Exclusive;
use crate::keyspace::reads::{Known, cut};
use crate::keyspace::record::Coding;
use crate::keyspace::{Attributes, Kind, Record, Result, SpaceError};
use std::ops::Range;

impl Exclusive<'_> {
    /// Whether `key` is present, and whether it expires.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn presence_of(&self, database: usize, key: &[u8]) -> Result<(bool, bool)> {
        let known = self.known(database, key)?;
        Ok((known.is_some(), known.is_some_and(|known| known.attributes.expires_at_ms != 0)))
    }

    /// Copies the value of `key`. `false` if it is absent or has expired; then it is removed.
    ///
    /// # Errors
    /// Returns [`SpaceError::WrongType`] for a collection, or the errors of [`splitpoint::Table::get`].
    pub(crate) fn get(&mut self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.get_any(database, key, value)? {
            Some(attributes) if attributes.kind != Kind::String => Err(SpaceError::WrongType),
            found => Ok(found.is_some()),
        }
    }

    /// Copies the value of `key`, whatever its type. Returns its attributes; `None` if it is absent.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
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
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn contains(&mut self, database: usize, key: &[u8]) -> Result<bool> {
        Ok(self.known_now(database, key)?.is_some())
    }

    /// The attributes of `key`; the default for a key without any, and for an absent one.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn attributes(&mut self, database: usize, key: &[u8]) -> Result<Attributes> {
        Ok(self.attributes_of(database, key)?.unwrap_or_default())
    }

    /// The attributes of `key`; `None` if it is absent.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn attributes_of(&mut self, database: usize, key: &[u8]) -> Result<Option<Attributes>> {
        Ok(self.known_now(database, key)?.map(|known| known.attributes))
    }

    /// Values of `keys`, in their order. Expired ones are absent and stay for the sweep; collections have no value.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::get`].
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
    /// Returns the errors of [`splitpoint::Table::get`].
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
    /// Returns the errors of [`splitpoint::Table::get`].
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
    /// Returns the errors of [`splitpoint::Table::get`].
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
    /// Returns the errors of [`splitpoint::Table::get`].
    pub(crate) fn value_len(&self, database: usize, key: &[u8]) -> Result<Option<usize>> {
        let known = self.known(database, key)?.filter(|known| !known.attributes.expired(self.now_ms()));
        known.map(|known| known.refuse_collection().map(|()| known.len)).transpose()
    }

    /// What is known about `key`, expired or not; `None` if it is absent.
    pub(super) fn known(&self, database: usize, key: &[u8]) -> Result<Option<Known>> {
        match self.staged(database, key) {
            Some(stored) => Ok(stored.map(|stored| self.space.known_of(self.database(database), stored, stored.len()))),
            None => self.space.known(self.database(database), key, &self.clock),
        }
    }

    /// [`known`](Self::known) of a key that has not expired; one that has is removed.
    pub(super) fn known_now(&mut self, database: usize, key: &[u8]) -> Result<Option<Known>> {
        let known = self.known(database, key)?;
        if known.is_some_and(|known| known.attributes.expired(self.now_ms())) {
            self.expire(database, key)?;
            return Ok(None);
        }
        Ok(known)
    }

    /// Copies the stored value of `key`.
    pub(super) fn read(&self, database: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
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

    pub(in crate::keyspace) fn holds(&self, database: usize, key: &[u8]) -> Result<bool> {
        Ok(self.known(database, key)?.is_some())
    }
}
