//! The handle: what a table consists of.
//!
//! Other files implement the operations: open and replay (`open.rs`), reads and writes (`mod.rs`, `many.rs`,
//! `batch.rs`), how a write enters and leaves (`writer.rs`), checkpoints (`checkpoint.rs`).

use super::gate::Gate;
use super::options::{Durability, TableOptions};
use super::publish::Publisher;
use super::types::Types;
use crate::buckets::Buckets;
use crate::error::Result;
use crate::hash::HashFunction;
use crate::io::Access;
use crate::pager::wal::Reader;
use crate::pager::{HolderLock, Pager};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A table of keys and values.
///
/// `Table` is `Sync`: share it by reference. All methods take `&self`. Dropping it closes it and discards errors;
/// [`close`](Table::close) returns them.
///
/// ```
/// use splitpoint::Table;
/// let table = Table::in_memory()?;
/// table.put(b"alice", b"1")?;
/// table.append(b"alice", b"23")?;
/// assert_eq!(table.get(b"alice")?.as_deref(), Some(&b"123"[..]));
/// assert_eq!(table.get(b"bob")?, None);
/// # Ok::<(), splitpoint::Error>(())
/// ```
pub struct Table {
    pub(super) pager: Arc<Pager>,
    pub(super) buckets: Buckets,
    pub(super) gate: Gate,
    pub(super) durability: Durability,
    /// Longer values are written to the file at once, if there is room.
    pub(super) stored_bytes_min: usize,
    pub(super) types: Mutex<Types>,
    pub(super) publisher: Mutex<Option<Publisher>>,
    /// Held by the thread that compacts.
    pub(super) compaction: HolderLock,
    pub(super) closed: AtomicBool,
    /// Set during the replay at an open: nothing is logged.
    pub(super) replaying: bool,
    /// Changes replayed from the log.
    pub(super) replayed: u64,
    /// The position in the log of a handle that only reads.
    pub(super) following: Mutex<Option<Reader>>,
    /// For tests in which the order of I/O matters: the thread that begins a checkpoint also writes it.
    pub(super) inline_checkpoints: bool,
    /// State of a handle that only reads.
    pub(super) options_to_read: Option<Box<TableOptions>>,
}

impl Table {
    /// Returns the number of pairs. Free.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put_many(&[("alice", "1"), ("bob", "2")])?;
    /// assert_eq!(table.len(), 2);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.gate.totals().pairs
    }

    /// Returns the hash function of the keys.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// assert_eq!(table.hash_function().name(), "xxh3");
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn hash_function(&self) -> &HashFunction {
        self.buckets.hash()
    }

    /// The owner and permissions of the table's file, if it has one.
    pub(crate) fn access(&self) -> Result<Option<Access>> {
        self.pager.file().access()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // A poisoned handle refuses to sync.
        let _ = self.finish();
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}, {} pairs)", self.pager.path().display(), self.len())
    }
}
