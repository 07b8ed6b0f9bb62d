//! Views: the writes of a table with another durability than it was opened with.
//!
//! ```text
//! opened with | asked     | the write returns once
//! Sync        | Os        | the log is written to its file, without a sync
//! Os          | Sync      | the log is synced
//! None        | Os, Sync  | a checkpoint is complete: there is no log
//! any         | less      | it is made; the log has it, unless the table was opened with None
//! ```
//!
//! The log keeps the order of all writes, so a crash leaves all of them up to some moment: a later write that asks for
//! more makes the earlier ones as durable as itself.
//!
//! Not here: the writes themselves (`mod.rs`, `many.rs`, `batch.rs`), the waiting (`writer.rs`).

use super::batch::Batch;
use super::handle::Table;
use super::options::Durability;
use crate::error::Result;

/// A view of a table whose writes have a durability of their own; made by [`Table::with`].
///
/// Its methods have the names of the methods of [`Table`].
#[derive(Clone, Copy)]
pub struct WriteView<'t> {
    table: &'t Table,
    durability: Durability,
}

impl Table {
    /// Returns a view whose writes have `durability`, whatever the table was opened with.
    ///
    /// After a crash the table has all writes up to some moment, in their order. A write also makes the writes before
    /// it as durable as itself; one that is less durable may be lost, but never in part. In a table opened with
    ///
    /// * [`Durability::Sync`], a write with [`Durability::Os`] does not wait for the disk: it survives the end of the
    ///   process. One with [`Durability::None`] only enters the log's buffer.
    /// * [`Durability::Os`], a write with [`Durability::Sync`] waits for the disk. [`Durability::None`] has the effect
    ///   of `Os`.
    /// * [`Durability::None`], there is no log: a more durable write makes a checkpoint, in O(changes).
    ///
    /// ```
    /// use splitpoint::{Durability, TableOptions};
    /// # let directory = tempfile::tempdir()?;
    /// let table = TableOptions::new().durability(Durability::Sync).open(directory.path().join("visits.spt"))?;
    /// let quick = table.with(Durability::None);
    /// for visit in 0..1000u32 {
    ///     quick.put(&visit.to_le_bytes(), b"seen")?; // does not wait
    /// }
    /// table.put(b"day", b"closed")?; // waits, and the thousand before it are durable, too
    /// let mut batch = table.with(Durability::Os).batch();
    /// batch.put(b"a", b"1")?;
    /// batch.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with(&self, durability: Durability) -> WriteView<'_> {
        WriteView { table: self, durability }
    }
}

impl<'t> WriteView<'t> {
    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the underlying table.
    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// [`Table::put`].
    ///
    /// # Errors
    /// The errors of [`Table::put`]. This holds for all methods. If a view is more durable than the table, also the
    /// errors of
    /// [`Table::sync`]: then the write is made, but may not be durable.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let lsn = self.table.put_unsynced(key, value)?;
        self.table.wait_as(lsn, self.durability)
    }

    /// [`Table::replace`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn replace(&self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.table.replace_as(self.durability, key, value)
    }

    /// [`Table::insert_new`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn insert_new(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.table.insert_new_as(self.durability, key, value)
    }

    /// [`Table::append`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn append(&self, key: &[u8], tail: &[u8]) -> Result<usize> {
        let (len, lsn) = self.table.append_unsynced(key, tail)?;
        self.table.wait_as(lsn, self.durability).map(|()| len)
    }

    /// [`Table::remove`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let (removed, lsn) = self.table.remove_unsynced(key)?;
        self.table.wait_as(lsn, self.durability).map(|()| removed)
    }

    /// [`Table::compare_and_set`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn compare_and_set(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        let (equal, lsn) = self.table.compare_and_set_unsynced(key, expected, new)?;
        self.table.wait_as(lsn, self.durability).map(|()| equal)
    }

    /// [`Table::update`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn update(&self, key: &[u8], f: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<bool> {
        let (is_present, lsn) = self.table.update_unsynced(key, f)?;
        self.table.wait_as(lsn, self.durability).map(|()| is_present)
    }

    /// [`Table::put_many`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn put_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<()> {
        self.table.put_many_as(self.durability, pairs)
    }

    /// [`Table::append_many`].
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn append_many(&self, pairs: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)]) -> Result<Vec<usize>> {
        self.table.append_many_as(self.durability, pairs)
    }

    /// [`Table::batch`].
    pub fn batch(&self) -> Batch<'t> {
        self.table.batch_as(self.durability)
    }

    /// [`Table::clear`].
    ///
    /// # Errors
    /// The errors of [`Table::clear`] and [`put`](Self::put).
    pub fn clear(&self) -> Result<()> {
        self.table.clear_as(self.durability)
    }
}
