//! Removes all keys of a database: FLUSHDB and FLUSHALL.

use super::Exclusive;
use crate::keyspace::collections::counts::Counts;
use crate::keyspace::{FLUSHED_MAX, Result, SpaceError};
use splitpoint::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

impl Exclusive<'_> {
    /// Removes all keys of a database.
    ///
    /// In memory O(1): the table is replaced, and another thread frees the old one. In a file O(buckets);
    /// [`KeySpace::compact_cleared`](crate::keyspace::KeySpace::compact_cleared) returns the space to the file system.
    /// Within a larger transaction O(keys).
    ///
    /// # Errors
    /// Returns the errors of [`Table::clear`] and of [`may_flush`](Self::may_flush).
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

    /// Refuses a flush of more keys than a larger transaction may remove.
    ///
    /// # Errors
    /// [`SpaceError::TooManyKeys`].
    pub(crate) fn may_flush(&self, database: usize) -> Result<()> {
        let is_too_much = self.has_begun_many() && self.space.len(database) > FLUSHED_MAX;
        if is_too_much { Err(SpaceError::TooManyKeys) } else { Ok(()) }
    }

    /// Removes all keys of a database as part of the transaction.
    fn flush_within(&mut self, database: usize) -> Result<()> {
        const AT_ONCE: usize = 1000;
        self.space.refuse_dictionary()?;
        self.may_flush(database)?;
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
}

/// Frees a table on a thread of its own: returning gigabytes to the system takes a while.
fn free(table: Option<Arc<Table>>) {
    if let Some(table) = table {
        // If no thread can be started, the closure is dropped, which frees the table here.
        let _ = std::thread::Builder::new().name("free".into()).spawn(move || drop(table));
    }
}
