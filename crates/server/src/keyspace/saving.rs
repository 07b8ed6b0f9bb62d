//! Saving the key space, and compacting its files.

use super::{KeySpace, Result};
use std::sync::atomic::Ordering::*;

impl KeySpace {
    /// Makes all earlier changes durable. Waits for the disk.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::sync`].
    pub fn sync(&self) -> splitpoint::Result<()> {
        self.tables().try_for_each(|table| table.sync())
    }

    /// Writes all changes to the files, as SAVE does. Waits for the disk, without blocking other threads.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::checkpoint`].
    pub(crate) fn checkpoint(&self) -> splitpoint::Result<()> {
        let changes = self.events.changes.load(Relaxed);
        self.tables().try_for_each(|table| table.checkpoint())?;
        self.events.saved.store(changes, Relaxed);
        Ok(())
    }

    /// Compacts all tables and their files to the size that their keys need. Waits for the disk, without blocking other
    /// threads.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::compact`], or [`SpaceError::ReadOnly`](super::SpaceError::ReadOnly)
    /// where a dictionary is served.
    pub(crate) fn compact(&self) -> Result<()> {
        self.refuse_dictionary()?;
        Ok(self.tables().try_for_each(|table| table.compact())?)
    }

    /// Compacts the files whose keys were all removed. Waits for the disk, without blocking other threads.
    ///
    /// # Errors
    /// Returns the errors of [`splitpoint::Table::compact`].
    pub(crate) fn compact_cleared(&self) -> splitpoint::Result<()> {
        for database in self.databases.iter().filter(|database| database.cleared.swap(false, Relaxed)) {
            if let Some(table) = database.table.load_full() {
                table.compact()?;
            }
        }
        Ok(())
    }
}
