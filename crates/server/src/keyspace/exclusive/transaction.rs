//! Transactions: the changes between `begin` and `commit`, and storing them.
//!
//! ```text
//! memory   stage changes the table                 begin and commit do nothing
//! file     stage collects, lookups read through    commit makes one batch of the table
//! ```
//!
//! What is collected, and savepoints: `staged.rs`.

use super::Exclusive;
use crate::keyspace::collections::counts::Counts;
use crate::keyspace::collections::shape::first_expiry;
use crate::keyspace::record::HEAD_BYTES_MAX;
use crate::keyspace::staged::{Presence, Transaction};
use crate::keyspace::{Attributes, Result, marks};
use splitpoint::Table;

impl Exclusive<'_> {
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

    /// Bytes of the changes since [`begin`](Self::begin), segments included.
    pub(crate) fn staged_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.bytes)
    }

    /// Whether changes are being collected.
    pub(crate) fn has_begun(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether changes of several commands are being collected.
    pub(crate) fn has_begun_many(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.is_of_many)
    }

    /// Makes the changes since [`begin`](Self::begin).
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Batch::commit`]; then no change is made, except in databases that were
    /// stored before the one that failed ([`Transaction::databases`]).
    pub(crate) fn commit(&mut self) -> Result<()> {
        match self.transaction.take() {
            None => Ok(()),
            Some(transaction) => self.store(*transaction),
        }
    }

    /// [`commit`](Self::commit) for [`begin_many`](Self::begin_many): then evicts what the changes added beyond the
    /// memory limit. Does nothing in memory.
    ///
    /// # Errors
    /// Returns the errors of [`commit`](Self::commit).
    pub(crate) fn commit_many(&mut self) -> Result<()> {
        if !self.has_begun() {
            return Ok(());
        }
        let before = self.space.needed_bytes();
        self.commit()?;
        self.evict_added(before);
        Ok(())
    }

    /// Discards the changes since [`begin`](Self::begin).
    pub(crate) fn roll_back(&mut self) {
        self.transaction = None;
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

    /// The value that the transaction stores for `key`: `Some(None)` if it removes the key, `None` if it
    /// leaves it as it is.
    #[inline]
    pub(in crate::keyspace) fn staged(&self, database: usize, key: &[u8]) -> Option<Option<&[u8]>> {
        self.transaction.as_ref()?.values.get(database, key)
    }

    /// Stores a value with attributes, now or with the transaction.
    pub(in crate::keyspace) fn stage_record(
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
        let mut stored = Vec::with_capacity(HEAD_BYTES_MAX + value.len());
        coding.encode(attributes, value, &mut stored);
        self.stage(database, key, Some(&stored))
    }

    /// Sets a stored value, or removes the key, now or with the transaction.
    pub(in crate::keyspace) fn stage(&mut self, database: usize, key: &[u8], stored: Option<&[u8]>) -> Result<()> {
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
    pub(in crate::keyspace) fn staged_pair(&self, database: usize, stored_key: &[u8]) -> Option<Option<&[u8]>> {
        self.transaction.as_ref()?.pairs.get(database, stored_key)
    }

    /// Sets or removes a pair that is not a key, now or with the transaction.
    pub(in crate::keyspace) fn stage_pair(
        &mut self,
        database: usize,
        stored_key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        self.space.refuse_dictionary()?;
        let bytes_of = |value: Option<&[u8]>| stored_key.len() + value.map_or(0, <[u8]>::len);
        let replaced = self.staged_pair(database, stored_key).map_or(0, bytes_of);
        if let Some(transaction) = self.transaction.as_mut().filter(|_| self.space.in_file()) {
            transaction.bytes += bytes_of(value);
            transaction.bytes -= replaced;
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
    pub(in crate::keyspace) fn counts(&self, database: usize) -> Counts {
        let staged = self.transaction.as_ref().and_then(|transaction| transaction.counts(database));
        staged.unwrap_or_else(|| self.database(database).counts())
    }

    /// Changes the counts of a database's segments, now or with the transaction.
    pub(in crate::keyspace) fn set_counts(&mut self, database: usize, counts: Counts) -> Result<()> {
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

    /// Makes a transaction's changes.
    fn store(&self, transaction: Transaction) -> Result<()> {
        let databases = transaction.databases();
        // A file that cannot be created is an error before the first change.
        databases.iter().try_for_each(|&number| self.table(number).map(drop))?;
        for number in databases {
            let of_this = transaction.values.iter().filter(|(database, ..)| *database == number);
            let changes: Vec<_> = of_this.map(|(_, key, stored)| (key, stored)).collect();
            let of_this = transaction.pairs.iter().filter(|(database, ..)| *database == number);
            let pairs: Vec<_> = of_this.map(|(_, key, value)| (key, value)).collect();
            let counts = transaction.counts(number);
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
