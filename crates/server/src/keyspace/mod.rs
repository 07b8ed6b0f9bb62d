//! The key space: sixteen databases of keys and values that all protocols share.
//!
//! ```text
//! KeySpace ── Gate                shared or exclusive entry (gate.rs)
//!          ├─ Database 0..16 ──── Table: the values, raw            memory, or one file per database
//!          │                  └── side Table: attributes of the few keys that have any (attributes.rs)
//!          ├─ Served              a dictionary instead of a table in database 0 (crate::dictionary)
//!          ├─ Watched             keys that a transaction depends on (watched.rs)
//!          └─ MemoryLimit         when to evict, and which keys (eviction.rs)
//! ```
//!
//! A protocol enters once for the commands of one read: with [`KeySpace::share`] for lookups and plain writes, with
//! [`KeySpace::close`] for everything that reads before it writes or changes more than a value.
//!
//! ```text
//! Shared      get_many, attributes; put_many, append_many, remove_many: false if the database is not plain
//! Exclusive   get, put, append, remove, set_attributes, flush...; begin and commit combine several into one change
//! ```
//!
//! A database is *plain* while none of its keys has attributes, nothing is watched, and memory suffices. Then a write
//! is one call of the table and needs no coordination with other threads. Whether a database is plain changes only
//! while the gate is closed.
//!
//! A key counts as absent as soon as it has expired; it is removed when an exclusive command or the sweep (`sweep.rs`)
//! finds it.
//!
//! Not here: what commands mean (`command`), bytes of a protocol (`resp`), waiting for the disk (`executor`).

mod attributes;
mod eviction;
mod exclusive;
mod gate;
mod marks;
mod opening;
mod served_file;
mod sweep;
mod watched;

use crate::dictionary::{LookupError, Served};
use crate::planted::{Bug, planted};
use arc_swap::ArcSwapOption;
pub(crate) use attributes::Attributes;
pub use eviction::Eviction;
use eviction::MemoryLimit;
pub(crate) use exclusive::{Exclusive, Lifetime};
pub use gate::Patience;
use gate::{Gate, SharedEntry};
pub use opening::SpaceOptions;
pub use served_file::{ServedFile, ServedScan};
use splitpoint::{Error, Table};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
pub(crate) use sweep::SweepCursor;
use watched::Watched;
pub(crate) use watched::{Change, Happened, Watch};

/// The number of databases, numbered from 0, that SELECT accepts.
pub(crate) const DATABASE_COUNT: usize = 16;

/// The number of keys that are looked up together.
const WINDOW: usize = 64;
/// A random key is chosen from a part of the hash space. `RANDOM_PART` is the least average number of keys of a part,
/// `RANDOM_PART_MAX` the number of keys of the fullest part.
const RANDOM_PART: u64 = 8;
const RANDOM_PART_MAX: usize = 64;

/// Why a command of the key space failed.
#[derive(Debug)]
pub enum SpaceError {
    /// `max_memory` is reached and nothing may be evicted.
    MemoryLimit,
    /// A dictionary is served, and cannot be changed.
    ReadOnly,
    /// The key's slot, which another node of the cluster serves, or none.
    Elsewhere(u16),
    /// The error of the table.
    Table(Error),
}

impl From<Error> for SpaceError {
    fn from(error: Error) -> Self {
        SpaceError::Table(error)
    }
}

impl From<LookupError> for SpaceError {
    fn from(error: LookupError) -> Self {
        match error {
            LookupError::Elsewhere(slot) => SpaceError::Elsewhere(slot),
            LookupError::Dictionary(error) => SpaceError::Table(error),
        }
    }
}

impl std::fmt::Display for SpaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpaceError::MemoryLimit => f.write_str("max_memory is reached"),
            SpaceError::ReadOnly => f.write_str("a dictionary is served, which is read-only"),
            SpaceError::Elsewhere(slot) => write!(f, "slot {slot} is not served by this node"),
            SpaceError::Table(error) => error.fmt(f),
        }
    }
}

/// The result of an operation on the key space.
pub type Result<T> = std::result::Result<T, SpaceError>;

/// What is called with changes of an observed key space.
pub(crate) type Observer = Box<dyn Fn(&mut Exclusive<'_>, Vec<Change>) + Send + Sync>;

/// All databases, and what is needed to share them between threads.
pub struct KeySpace {
    databases: Vec<Database>,
    gate: Gate,
    place: Place,
    /// The dictionary that database 0 has instead of a table.
    dictionary: Option<Arc<Served>>,
    watched: Watched,
    /// Called before the gate opens with changes that no command has taken.
    observer: OnceLock<Observer>,
    memory: MemoryLimit,
    next_cas: AtomicU64,
    /// Counters for INFO and metrics.
    pub(crate) events: Events,
}

/// Counters of the key space since its start.
#[derive(Default)]
pub(crate) struct Events {
    /// Keys removed because they had expired.
    pub(crate) expired: AtomicU64,
    /// Keys evicted because of the memory limit.
    pub(crate) evicted: AtomicU64,
    /// The number of changes since the start.
    pub(crate) changes: AtomicU64,
    /// `changes` when the last SAVE or BGSAVE began.
    pub(crate) saved: AtomicU64,
}

enum Place {
    Memory,
    /// The path of database 0; the others append `-db1` and so on.
    File(Box<SpaceOptions>, PathBuf),
}

#[derive(Default)]
struct Database {
    /// Created when the first key is stored.
    table: ArcSwapOption<Table>,
    /// Attributes by key; created when the first key has any.
    side: ArcSwapOption<Table>,
    /// The number of pairs of `side`. Changes only while the gate is closed, as do the next three fields.
    side_len: AtomicU64,
    /// The number of those that expire.
    expiring_len: AtomicU64,
    /// The number of pairs of the table that are not keys: attributes and the header.
    marked_len: AtomicU64,
    has_header: AtomicBool,
    /// Whether all keys of the file were removed and it has not been compacted since.
    cleared: AtomicBool,
}

/// Shared entry, for lookups and plain writes; made by [`KeySpace::share`]. Hold it for a batch, not for long.
pub struct Shared<'k> {
    space: &'k KeySpace,
    _entry: SharedEntry<'k>,
    clock: Clock,
}

/// The time that decides what has expired: read when first needed, then constant for the whole entry. A batch on a
/// database without lifetimes never reads it.
#[derive(Default)]
struct Clock(OnceCell<u64>);

impl Clock {
    /// The time in Unix milliseconds.
    #[inline]
    fn now_ms(&self) -> u64 {
        *self.0.get_or_init(now_ms)
    }
}

impl KeySpace {
    /// Enters shared with other threads. `None` if a thread of the event loop would have to wait a long time.
    #[inline]
    pub fn share(&self, patience: Patience) -> Option<Shared<'_>> {
        Some(Shared { space: self, _entry: self.gate.share(patience)?, clock: Clock::default() })
    }

    /// Enters exclusively. `None` if a thread of the event loop would have to wait a long time.
    pub fn close(&self, patience: Patience) -> Option<Exclusive<'_>> {
        Some(Exclusive::new(self, self.gate.close(patience)?))
    }

    /// The number of keys of a database, including expired keys that are not removed yet. Free.
    pub fn len(&self, database: usize) -> u64 {
        if let Some(dictionary) = self.dictionary_of(database) {
            return dictionary.now().slots.keys();
        }
        let database = &self.databases[database];
        let pairs = database.table.load().as_ref().map_or(0, |table| table.len());
        pairs.saturating_sub(database.marked_len.load(Relaxed))
    }

    /// The number of keys of a database that have attributes, such as a lifetime. Free.
    pub(crate) fn attributed_len(&self, database: usize) -> u64 {
        self.databases[database].side_len.load(Relaxed)
    }

    /// The number of keys of a database that expire. Free.
    pub(crate) fn expiring_len(&self, database: usize) -> u64 {
        self.databases[database].expiring_len.load(Relaxed)
    }

    /// Bytes of memory of all tables, in use or free for reuse.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables().map(|table| table.counters().memory_bytes).sum()
    }

    /// The table of a database, for figures about it; `None` if it never had a key.
    pub(crate) fn table(&self, database: usize) -> Option<Arc<Table>> {
        self.databases[database].table.load_full()
    }

    /// The dictionary, if one is served.
    #[inline]
    pub(crate) fn dictionary(&self) -> Option<&Arc<Served>> {
        self.dictionary.as_ref()
    }

    /// Fails if a dictionary is served.
    pub(super) fn refuse_dictionary(&self) -> Result<()> {
        if self.dictionary.is_some() { Err(SpaceError::ReadOnly) } else { Ok(()) }
    }

    fn dictionary_of(&self, database: usize) -> Option<&Arc<Served>> {
        self.dictionary.as_ref().filter(|_| database == 0)
    }

    /// Bytes of memory that the pairs of all tables take, or the indexes of a dictionary. Memory that is free for reuse
    /// does not count.
    pub(crate) fn used_bytes(&self) -> u64 {
        let indexes = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.now().facts.index_bytes);
        indexes + self.tables().map(|table| table.usage().used_bytes).sum::<u64>()
    }

    /// [`used_bytes`](Self::used_bytes) without the space of buckets that the load does not need.
    fn needed_bytes(&self) -> u64 {
        self.tables().map(|table| table.usage()).map(|usage| usage.used_bytes - usage.slack_bytes).sum()
    }

    /// Bytes of all keys and values.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let stored = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.now().facts.payload_bytes);
        stored + self.tables().map(|table| table.counters().payload_bytes).sum::<u64>()
    }

    fn tables(&self) -> impl Iterator<Item = Arc<Table>> {
        self.databases.iter().flat_map(|database| [database.table.load_full(), database.side.load_full()]).flatten()
    }

    /// Whether the values are in a file.
    pub(crate) fn in_file(&self) -> bool {
        matches!(self.place, Place::File(..))
    }

    /// The file of database 0, or the dictionary's.
    pub(crate) fn path(&self) -> Option<&std::path::Path> {
        match &self.place {
            Place::Memory => self.dictionary.as_ref().map(|dictionary| dictionary.path()),
            Place::File(_, path) => Some(path),
        }
    }

    /// Makes all earlier changes durable. Waits for the disk.
    ///
    /// # Errors
    /// Those of [`Table::sync`].
    pub fn sync(&self) -> splitpoint::Result<()> {
        self.value_tables().try_for_each(|table| table.sync())
    }

    /// Writes all changes to the files, as SAVE does. Waits for the disk, without blocking other threads.
    ///
    /// # Errors
    /// Those of [`Table::checkpoint`].
    pub(crate) fn checkpoint(&self) -> splitpoint::Result<()> {
        let changes = self.events.changes.load(Relaxed);
        self.value_tables().try_for_each(|table| table.checkpoint())?;
        self.events.saved.store(changes, Relaxed);
        Ok(())
    }

    /// Compacts all tables and their files to the size that their keys need. Waits for the disk, without blocking other
    /// threads.
    ///
    /// # Errors
    /// Those of [`Table::compact`]; [`SpaceError::ReadOnly`] where a dictionary is served.
    pub(crate) fn compact(&self) -> Result<()> {
        self.refuse_dictionary()?;
        Ok(self.value_tables().try_for_each(|table| table.compact())?)
    }

    /// Compacts the files whose keys were all removed. Waits for the disk, without blocking other threads.
    ///
    /// # Errors
    /// Those of [`Table::compact`].
    pub(crate) fn compact_cleared(&self) -> splitpoint::Result<()> {
        for database in self.databases.iter().filter(|database| database.cleared.swap(false, Relaxed)) {
            if let Some(table) = database.table.load_full() {
                table.compact()?;
            }
        }
        Ok(())
    }

    fn value_tables(&self) -> impl Iterator<Item = Arc<Table>> {
        self.databases.iter().filter_map(|database| database.table.load_full())
    }

    /// Whether a lookup may have to read a file, so that work belongs on an executor thread.
    ///
    /// O(databases): call it from time to time, not for each command.
    pub(crate) fn may_read_disk(&self) -> bool {
        if let Some(dictionary) = &self.dictionary {
            return dictionary.may_wait();
        }
        let is_partial = |table: Arc<Table>| {
            let counters = table.counters();
            counters.memory_bytes < counters.file_bytes
        };
        self.in_file() && self.value_tables().any(is_partial)
    }

    /// Sets what is called with changes while the key space is observed. Only the first call has an effect.
    pub(crate) fn set_observer(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    /// Records all changes from now on, or no longer; recording makes every write exclusive. Waits for the gate.
    pub(crate) fn observe(&self, observed: bool) {
        if let Some(_alone) = self.close(Patience::MayWait) {
            self.watched.observe(observed);
        }
    }

    /// Marks every watched key as changed.
    pub(crate) fn touch_watched(&self) {
        self.watched.touch_all(0, |_| true);
    }

    /// Ends a client's watch.
    pub(crate) fn forget_watch(&self, watch: &mut Watch) {
        if !watch.is_empty() {
            self.watched.remove(watch);
        }
    }

    /// A CAS number that no key has had yet.
    pub(crate) fn new_cas(&self) -> u64 {
        self.next_cas.fetch_add(1, Relaxed)
    }

    /// A key at random, each about equally likely; `None` if the database is empty.
    ///
    /// Picks a part of the hash space with about `RANDOM_PART` keys, and one of its keys. Parts with fewer keys are
    /// rejected more often, so that their keys are not more likely than others.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn random_key(&self, database: usize) -> Result<Option<Vec<u8>>> {
        /// The most parts to try; with evenly distributed hashes about eight are needed.
        const TRIES: usize = 1000;
        if let Some(dictionary) = self.dictionary_of(database) {
            return self.first_key(database, dictionary.cursor_at(self.random()));
        }
        let Some(table) = self.databases[database].table.load_full() else { return Ok(None) };
        let bits = (table.len() / RANDOM_PART).checked_ilog2().unwrap_or(0);
        for _ in 0..TRIES {
            let keys = self.keys_of_part(database, &table, self.random(), bits)?;
            // If the whole table is one part, it is not rejected.
            let of = if bits == 0 { keys.len() } else { RANDOM_PART_MAX.max(keys.len()) };
            if of == 0 {
                return Ok(None);
            }
            let index = ((u128::from(self.random()) * of as u128) >> u64::BITS) as usize; // below `of`
            if let Some(key) = keys.into_iter().nth(index) {
                return Ok(Some(key));
            }
        }
        // Nearly all keys have expired, or have equal hashes.
        self.first_key(database, self.random() >> 1)
    }

    /// The keys of the part of the hash space given by the first `bits` bits of `prefix`.
    fn keys_of_part(&self, database: usize, table: &Table, prefix: u64, bits: u32) -> Result<Vec<Vec<u8>>> {
        let (now_ms, mut attributes, mut keys) = (now_ms(), Vec::new(), Vec::new());
        let mut scan = table.scan_prefix(prefix, bits).only_keys();
        while let Some((stored, _)) = scan.next_ref()? {
            if let Some(key) = self.key_of(stored)
                && !self.databases[database].expired(key, now_ms, &mut attributes)?
            {
                keys.push(key.to_vec());
            }
        }
        Ok(keys)
    }

    /// The first key from a cursor on, or else from the beginning.
    fn first_key(&self, database: usize, from: u64) -> Result<Option<Vec<u8>>> {
        for mut cursor in [from, 0] {
            loop {
                let mut found = None;
                cursor = self.scan(database, cursor, 1, now_ms(), |key| {
                    found.get_or_insert_with(|| key.to_vec());
                })?;
                if found.is_some() {
                    return Ok(found);
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// A scan from `cursor` on: calls `take` with keys that have not expired, until it has taken `count` or more
    /// and the position can be resumed. Returns the cursor of the next call, 0 at the end.
    ///
    /// A key that is present throughout a whole scan is returned at least once. Cursors have 63 bits, since some
    /// clients store them in signed integers.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub fn scan(
        &self,
        database: usize,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64> {
        if let Some(dictionary) = self.dictionary_of(database) {
            return Ok(dictionary.scan(cursor, count, |key, _| take(key))?);
        }
        let database = &self.databases[database];
        let Some(table) = database.table.load_full() else { return Ok(0) };
        let mut scan = table.scan_from(cursor << 1).only_keys();
        let mut taken = 0;
        let mut attributes = Vec::new();
        while let Some((stored, _)) = scan.next_ref()? {
            if let Some(key) = self.key_of(stored)
                && !database.expired(key, now_ms, &mut attributes)?
            {
                take(key);
            }
            taken += 1;
            if taken >= count && scan.at_boundary() {
                break;
            }
        }
        // At least 1, since 0 would start the scan again; no pair that was returned is before position 2.
        Ok(scan.cursor().map_or(0, |cursor| (cursor >> 1).max(1)))
    }

    /// The client's key for a stored key; `None` for attributes and the header.
    fn key_of<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        if !self.in_file() {
            return Some(stored);
        }
        match marks::parse(stored) {
            marks::Stored::Key(key) => Some(key),
            _ => None,
        }
    }

    /// Whether the database is plain, so that writes may share the key space with other threads.
    #[inline]
    fn is_plain(&self, database: &Database) -> bool {
        database.side_len.load(Relaxed) == 0 && self.watched.is_empty() && !self.memory.is_pressed()
    }

    /// Values of `keys`, in their order.
    #[inline]
    fn read_many(
        &self,
        database: &Database,
        keys: &[&[u8]],
        clock: &Clock,
        mut take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            if let Some(dictionary) = self.dictionary.as_ref().filter(|_| std::ptr::eq(database, &self.databases[0])) {
                return read_dictionary(dictionary, keys, take);
            }
            (0..keys.len()).for_each(|index| take(index, None));
            return Ok(());
        };
        self.memory.note_use(keys, clock);
        if self.in_file() && keys.iter().any(|key| marks::is_marked(key)) {
            return keys.iter().enumerate().try_for_each(|(index, key)| {
                let value = table.get(&marks::of_value(key))?;
                let expired = database.expired(key, clock.now_ms(), &mut Vec::new())?;
                take(index, value.as_deref().filter(|_| !expired));
                Ok(())
            });
        }
        if database.side_len.load(Relaxed) == 0 {
            if let [key] = keys {
                return with_scratch(|value| {
                    let found = table.get_into(key, value)?;
                    take(0, found.then_some(value));
                    Ok(())
                });
            }
            return Ok(table.get_many_with(keys, take)?);
        }
        let now_ms = clock.now_ms();
        // Read the attributes first, so that a value is at least as new as the attributes it is combined with.
        for (window, keys) in keys.chunks(WINDOW).enumerate() {
            let mut expired = 0u64;
            if let Some(side) = database.side.load().as_ref() {
                side.get_many_with(keys, |index, attributes| {
                    let is = attributes.and_then(Attributes::decode).is_some_and(|a| a.expired(now_ms));
                    expired |= u64::from(is) << index;
                })?;
            }
            table.get_many_with(keys, |index, value| {
                let of = if planted(Bug::ExpiryOfNeighbour) { (index + 1) % WINDOW } else { index };
                let is_over = expired >> of & 1 == 1;
                take(window * WINDOW + index, value.filter(|_| !is_over));
            })?;
        }
        Ok(())
    }
}

impl KeySpace {
    /// The length of the value of `key`; `None` if it is absent or has expired. Reads no large value, and does not
    /// count as a use of the key.
    fn read_len(&self, database: &Database, key: &[u8], clock: &Clock) -> Result<Option<usize>> {
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            return self.read_part(database, key, clock, |_| 0..0, &mut Vec::new());
        };
        if self.is_expired(database, key, clock)? { Ok(None) } else { Ok(table.value_len(&self.stored(key))?) }
    }

    /// Whether `key` has expired. Must be called before the value is read, so that the value is at least as new.
    fn is_expired(&self, database: &Database, key: &[u8], clock: &Clock) -> Result<bool> {
        Ok(database.side_len.load(Relaxed) > 0 && database.expired(key, clock.now_ms(), &mut Vec::new())?)
    }

    /// The stored key of the value of `key`.
    fn stored<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        if self.in_file() { marks::of_value(key) } else { key.into() }
    }

    /// [`read_len`](Self::read_len), and a part of the value: `choose` gets the length and returns the range to read.
    fn read_part(
        &self,
        database: &Database,
        key: &[u8],
        clock: &Clock,
        choose: impl FnOnce(usize) -> Range<usize>,
        part: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        part.clear();
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            let (mut choose, mut len) = (Some(choose), None);
            self.read_many(database, &[key], clock, |_, value| {
                let (Some(value), Some(choose)) = (value, choose.take()) else { return };
                let range = choose(value.len());
                part.extend_from_slice(&value[range.start.min(value.len())..range.end.min(value.len())]);
                len = Some(value.len());
            })?;
            return Ok(len);
        };
        if self.is_expired(database, key, clock)? {
            return Ok(None);
        }
        Ok(table.get_part(&self.stored(key), choose, part)?)
    }
}

fn read_dictionary(dictionary: &Served, keys: &[&[u8]], mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
    if let [key] = keys {
        return with_scratch(|value| {
            let found = dictionary.get_into(key, value)?;
            take(0, found.then_some(value));
            Ok(())
        });
    }
    Ok(dictionary.get_many_with(keys, take)?)
}

impl Database {
    /// The attributes of `key`, expired or not.
    fn attributes(&self, key: &[u8], room: &mut Vec<u8>) -> Result<Option<Attributes>> {
        if self.side_len.load(Relaxed) == 0 {
            return Ok(None);
        }
        match self.side.load().as_ref() {
            Some(side) if side.get_into(key, room)? => Ok(Attributes::decode(room)),
            _ => Ok(None),
        }
    }

    fn expired(&self, key: &[u8], now_ms: u64, room: &mut Vec<u8>) -> Result<bool> {
        Ok(self.attributes(key, room)?.is_some_and(|attributes| attributes.expired(now_ms)))
    }
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

    /// Calls `take` with the index of each key, in order, and its value. Overlaps the cache misses of many keys.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    #[inline]
    pub fn get_many(&self, database: usize, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<()> {
        self.space.read_many(&self.space.databases[database], keys, &self.clock, take)
    }

    /// The length of the value of `key`, and the part of it that `choose` returns for that length; `None` if the key is
    /// absent. Reads no more than the part, and does not count as a use of the key.
    ///
    /// # Errors
    /// Those of [`Table::get`].
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
    /// Those of [`Table::get`].
    pub(crate) fn value_len(&self, database: usize, key: &[u8]) -> Result<Option<usize>> {
        self.space.read_len(&self.space.databases[database], key, &self.clock)
    }

    /// Notes that keys were used, for eviction.
    pub(crate) fn note_use(&self, keys: &[&[u8]]) {
        self.space.memory.note_use(keys, &self.clock);
    }

    /// The attributes of `key`; `None` if it has none, has expired or is absent.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub(crate) fn attributes(&self, database: usize, key: &[u8]) -> Result<Option<Attributes>> {
        let attributes = self.space.databases[database].attributes(key, &mut Vec::new())?;
        Ok(attributes.filter(|attributes| !attributes.expired(self.now_ms())))
    }

    /// Stores the pairs in order if the database is plain; otherwise changes nothing and returns `false`.
    ///
    /// # Errors
    /// Those of [`Table::put_many`].
    #[inline]
    pub(crate) fn put_many(&self, database: usize, pairs: &[(&[u8], &[u8])]) -> Result<bool> {
        let Some(table) = self.plain_table(database, pairs) else { return Ok(false) };
        match table.as_ref() {
            None => return Ok(false),
            Some(table) => match pairs {
                [(key, value)] => table.put(key, value)?,
                _ => table.put_many(pairs)?,
            },
        }
        self.count(pairs);
        Ok(true)
    }

    /// Appends each pair's bytes to the value of its key, in order, if the database is plain; otherwise changes nothing
    /// and returns `false`. `len_max` returns the limit of a value's length for the pair's index. Calls `take` with
    /// each new length, or `None` where it would exceed the limit.
    ///
    /// # Errors
    /// Those of [`Table::append`], the first that occurs; `take` was called for the pairs before it.
    pub(crate) fn append_many(
        &self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        len_max: impl Fn(usize) -> usize,
        mut take: impl FnMut(usize, Option<usize>),
    ) -> Result<bool> {
        let Some(table) = self.plain_table(database, pairs) else { return Ok(false) };
        let Some(table) = table.as_ref() else { return Ok(false) };
        let mut changes = 0;
        let appended = table.append_many_within(pairs, len_max, |index, len| {
            changes += u64::from(len.is_some());
            take(index, len);
        });
        self.space.events.changes.fetch_add(changes, Relaxed);
        self.space.memory.note_writes(self.space, pairs, &self.clock);
        Ok(appended.map(|()| true)?)
    }

    /// Removes the keys in order if the database is plain; otherwise changes nothing and returns `false`. Calls `take`
    /// with the index of each key and whether it was present.
    ///
    /// # Errors
    /// Those of [`Table::remove`], the first that occurs; `take` was called for the keys before it, which are removed.
    pub(crate) fn remove_many(
        &self,
        database: usize,
        keys: &[&[u8]],
        mut take: impl FnMut(usize, bool),
    ) -> Result<bool> {
        let Some(table) = self.plain_table_of(database, keys.iter().copied()) else { return Ok(false) };
        let Some(table) = table.as_ref() else { return Ok(false) };
        let mut changes = 0;
        let removed = table.remove_many_with(keys, |index, was_present| {
            changes += u64::from(was_present);
            take(index, was_present);
        });
        self.space.events.changes.fetch_add(changes, Relaxed);
        Ok(removed.map(|()| true)?)
    }

    #[inline]
    fn plain_table(&self, database: usize, pairs: &[(&[u8], &[u8])]) -> Option<arc_swap::Guard<Option<Arc<Table>>>> {
        if self.space.memory.is_much(pairs.iter().map(|(_, value)| value.len()).sum()) {
            return None;
        }
        self.plain_table_of(database, pairs.iter().map(|(key, _)| *key))
    }

    #[inline]
    fn plain_table_of<'a>(
        &self,
        database: usize,
        mut keys: impl Iterator<Item = &'a [u8]>,
    ) -> Option<arc_swap::Guard<Option<Arc<Table>>>> {
        let database = &self.space.databases[database];
        let plain = self.space.is_plain(database) && !(self.space.in_file() && keys.any(marks::is_marked));
        plain.then(|| database.table.load())
    }

    #[inline]
    fn count(&self, pairs: &[(&[u8], &[u8])]) {
        self.space.events.changes.fetch_add(pairs.len() as u64, Relaxed);
        self.space.memory.note_writes(self.space, pairs, &self.clock);
    }
}

/// The clock of expiry: Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    #[cfg(test)]
    if let Some(now_ms) = tests::STOPPED_CLOCK.get() {
        return now_ms;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Lends a buffer that keeps its capacity between calls on this thread.
#[inline]
fn with_scratch<R>(work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    thread_local! { static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) } }
    // The capacity for a large value is freed.
    const KEPT_BYTES: usize = 1 << 16;
    let mut buffer = SCRATCH.take();
    let result = work(&mut buffer);
    if buffer.capacity() <= KEPT_BYTES {
        SCRATCH.set(buffer);
    }
    result
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    thread_local! {
        /// The time that a test has set for this thread.
        pub(crate) static STOPPED_CLOCK: Cell<Option<u64>> = const { Cell::new(None) };
    }
}
