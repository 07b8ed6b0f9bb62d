//! Exclusive work on the key space: one thread at a time.
//!
//! In memory every change is made immediately. In a file the changes between [`Exclusive::begin`] and
//! [`Exclusive::commit`] collect in a transaction, where lookups see them, and then become one batch of the table:
//! after a crash the file has all of them or none. So an EXEC is atomic. (A transaction over several databases is one
//! batch in each; databases that only lose keys are last.)
//!
//! ```text
//! set(k, v, lifetime)   begin -> stage the stored value (record.rs) -> commit: a batch of the table -> watchers
//! ```
//!
//! ```text
//! transaction.rs   begin, commit, and the changes between them
//! reads.rs         lookups, which see these changes
//! strings.rs       strings: put, append, edit
//! attributes.rs    lifetimes, CAS numbers, the heads that have them
//! keys.rs          whatever their type: rename, copy, remove
//! flush.rs         removes all keys of a database
//! watchers.rs      clients that watch keys or wait for them
//! ```
//!
//! Not here: collections (`collections/segments.rs` implements [`Pairs`](super::Pairs) for `Exclusive`).

mod attributes;
mod flush;
mod keys;
mod reads;
mod strings;
mod transaction;
mod watchers;

use super::gate::ExclusiveEntry;
use super::staged::Transaction;
use super::watched::Change;
use super::{Attributes, Clock, Database, Eviction, KeySpace, Place, Result, SpaceError};
use splitpoint::Table;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Exclusive entry to the key space, made by [`KeySpace::close`]. Hold it for a command, not for long.
pub struct Exclusive<'k> {
    space: &'k KeySpace,
    _entry: ExclusiveEntry<'k>,
    clock: Clock,
    /// The changes between `begin` and `commit`, if the databases are in files.
    transaction: Option<Box<Transaction>>,
    /// Keys of lists, sorted sets and streams that changed while clients wait.
    pushed: Vec<(usize, Vec<u8>)>,
    /// Whether the last eviction found too few keys.
    is_full: bool,
}

/// As the database of a changed key: any key may have changed.
pub(crate) const ANY_KEY: usize = usize::MAX;

/// What happens to a key's attributes when its value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// They are removed, as by SET.
    Clear,
    /// They are kept, as by APPEND.
    Keep,
    /// They are replaced by these.
    Are(Attributes),
}

impl<'k> Exclusive<'k> {
    pub(super) fn new(space: &'k KeySpace, entry: ExclusiveEntry<'k>) -> Self {
        Exclusive {
            space,
            _entry: entry,
            clock: Clock::default(),
            transaction: None,
            pushed: Vec::new(),
            is_full: false,
        }
    }

    /// The time that decides what has expired, in Unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The key space, for operations that need no exclusive entry.
    pub(crate) fn space(&self) -> &'k KeySpace {
        self.space
    }

    /// Whether changes are recorded: see [`KeySpace::observe`].
    pub(crate) fn is_observed(&self) -> bool {
        self.space.watched.is_observed()
    }

    /// The changes since the last call, if the key space is observed.
    #[inline]
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.space.watched.take_log()
    }

    /// Counts commands whose changes were stored with the one of another command on the same key.
    pub(crate) fn note_commands(&self, key: &[u8], count: usize) {
        self.space.events.changes.fetch_add(count as u64, Relaxed);
        (0..count).for_each(|_| self.space.memory.note_use(&[key], &self.clock));
    }

    /// Removes keys until `bytes` more fit within the memory limit. Fails if the eviction policy allows no removal, or
    /// if no key that it may remove is left.
    ///
    /// Between `begin` and `commit` it removes nothing, since the removals would become part of the transaction. As in
    /// Redis, the transaction may exceed the limit, unless the last call before it failed or the policy allows no
    /// removal.
    ///
    /// # Errors
    /// [`SpaceError::MemoryLimit`], or the errors of [`splitpoint::Table::remove`].
    pub(crate) fn make_room(&mut self, bytes: usize) -> Result<()> {
        let memory = &self.space.memory;
        let bytes = self.staged_bytes().saturating_add(bytes);
        if !memory.is_pressed() && !memory.is_much(bytes) {
            return Ok(());
        }
        if self.has_begun() {
            let (max, policy) = self.space.memory_limit();
            let fits = max == 0 || self.space.needed_bytes().saturating_add(bytes as u64) <= max;
            let may_evict = policy != Eviction::None && !self.is_full;
            return if fits || may_evict { Ok(()) } else { Err(SpaceError::MemoryLimit) };
        }
        let evicted = self.evict(bytes as u64);
        self.is_full = evicted.is_err();
        evicted.map(drop)
    }

    fn database(&self, database: usize) -> &'k Database {
        &self.space.databases[database]
    }

    fn stored<'a>(&self, key: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        self.space.stored(key)
    }

    /// The table of a database, created if it has none yet.
    fn table(&self, number: usize) -> Result<Arc<Table>> {
        self.space.refuse_dictionary()?;
        let database = self.database(number);
        if let Some(table) = database.table.load_full() {
            return Ok(table);
        }
        let table = Arc::new(match &self.space.place {
            Place::Memory => self.space.new_table()?,
            Place::File(options, path) => {
                let number = self.space.file_number(number);
                super::opening::open_file(options, path, number, true)?.expect("created")
            }
        });
        database.table.store(Some(table.clone()));
        Ok(table)
    }

    /// The table of the segments of a database in memory, created if it has none yet.
    fn segment_table(&self, number: usize) -> Result<Arc<Table>> {
        let database = self.database(number);
        if let Some(table) = database.segments.load_full() {
            return Ok(table);
        }
        let table = Arc::new(self.space.new_table()?);
        database.segments.store(Some(table.clone()));
        Ok(table)
    }
}

impl Drop for Exclusive<'_> {
    /// Reports changes that no command has reported, such as removals by the sweep.
    fn drop(&mut self) {
        let changes = self.take_changes();
        if !changes.is_empty()
            && let Some(observer) = self.space.observer.get()
        {
            observer(self, changes);
        }
    }
}
