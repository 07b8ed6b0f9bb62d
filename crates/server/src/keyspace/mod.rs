//! The key space: sixteen databases of keys and values that all protocols share.
//!
//! ```text
//! KeySpace ── Gate                shared or exclusive entry (gate.rs)
//!          ├─ Database 0..16 ──── Table: values, with lifetime and flags of the key in front (record.rs)
//!          ├─ Served              a dictionary instead of a table in database 0 (crate::dictionary)
//!          ├─ Watched             keys that a transaction depends on (watched.rs)
//!          └─ MemoryLimit         when to evict, and which keys (upkeep/eviction.rs)
//! ```
//!
//! A protocol enters once for the commands of one read: with [`KeySpace::share`] for lookups and for writes of
//! one key each, with [`KeySpace::close`] for the rest.
//!
//! ```text
//! Shared      get_many; put_many, append_many, edit_many, remove_many: false if the database is not plain
//! Exclusive   get, put, append, remove, set_attributes, flush...; begin and commit combine several into one change
//! ```
//!
//! A database is *plain* while nothing is watched and memory suffices. Then a write of one key, with or without a
//! lifetime, is one call of the table under the latch of the key's bucket, without coordination with other threads.
//! The first value with a head closes the gate once (`Exclusive::allow_heads`).
//!
//! A key counts as absent as soon as it has expired; it is removed when an exclusive command or the sweep
//! (`upkeep/sweep.rs`) finds it.
//!
//! Not here: what commands mean (`command`), bytes of a protocol (`resp`), waiting for the disk (`executor`).

mod cold;
pub(crate) mod collections;
mod edit;
mod exclusive;
mod failures;
mod gate;
mod in_place;
mod marks;
mod opening;
mod pairs;
mod record;
mod served_file;
mod staged;
mod swap;
mod upkeep;
mod watched;

use crate::dictionary::{LookupError, Served};
use arc_swap::ArcSwapOption;
pub(crate) use cold::Waits;
pub(crate) use collections::shape::damaged;
pub use collections::stream::EntryId;
pub(crate) use edit::{Edit, New, Old, SHORT_VALUE_BYTES};
pub(crate) use exclusive::{ANY_KEY, Exclusive, Lifetime};
pub use gate::Patience;
use gate::{Gate, SharedEntry};
use in_place::InPlace;
pub use opening::SpaceOptions;
pub(crate) use opening::databases_of;
pub(crate) use pairs::{Pairs, PairsMut};
pub(crate) use record::{Attributes, Kind, Record};
use record::{Coding, HEAD_BYTES_MAX, MARK_BYTES};
pub use served_file::{Marks, ServedFile, ServedScan};
use splitpoint::{Error, Table};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};
pub use upkeep::eviction::Eviction;
use upkeep::eviction::MemoryLimit;
pub(crate) use upkeep::sweep::SweepCursor;
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
/// The most keys that a flush removes as part of a transaction over a file.
const FLUSHED_MAX: u64 = 100_000;

/// Why a command of the key space failed.
#[derive(Debug)]
pub enum SpaceError {
    /// `max_memory` is reached and nothing may be evicted.
    MemoryLimit,
    /// A dictionary is served, and cannot be changed.
    ReadOnly,
    /// The key's slot, which belongs to another node of the cluster or to none.
    Elsewhere(u16),
    /// The value of the key is of another type.
    WrongType,
    /// The command needs exclusive entry; no client sees this.
    Alone,
    /// The database has too many keys for a flush within a transaction over a file.
    TooManyKeys,
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
            SpaceError::TooManyKeys => write!(f, "more than {FLUSHED_MAX} keys cannot be flushed with other changes"),
            SpaceError::Elsewhere(slot) => write!(f, "slot {slot} is not served by this node"),
            SpaceError::WrongType => f.write_str("the value of the key is of another type"),
            SpaceError::Alone => f.write_str("the command needs exclusive entry"),
            SpaceError::Table(error) => error.fmt(f),
        }
    }
}

/// The result of an operation on the key space.
pub type Result<T> = std::result::Result<T, SpaceError>;

/// The callback for changes of an observed key space.
pub(crate) type Observer = Box<dyn Fn(&mut Exclusive<'_>, Vec<Change>) + Send + Sync>;

/// All databases, and what is needed to share them between threads.
pub struct KeySpace {
    databases: Vec<Database>,
    gate: Gate,
    place: Place,
    /// The files of the databases, which SWAPDB changes.
    order: Mutex<swap::Order>,
    /// The dictionary that replaces the table of database 0.
    dictionary: Option<Arc<Served>>,
    watched: Watched,
    /// Called before the gate opens, with the changes that no command has taken.
    observer: OnceLock<Observer>,
    memory: MemoryLimit,
    /// Bytes of memory of scripts.
    script_bytes: AtomicU64,
    next_cas: AtomicU64,
    /// The number of keys on which clients wait for a list or a sorted set.
    pub(crate) wanted_keys: AtomicUsize,
    /// Counters for INFO and metrics.
    pub(crate) events: Events,
    failures: failures::Failures,
    /// Whether a value of at least [`LONG_VALUE_BYTES`] was stored or read since the start.
    has_long_values: AtomicBool,
    cold: cold::Cold,
}

/// Copying a value of this length takes so long that the event loop leaves it to another thread.
pub(crate) const LONG_VALUE_BYTES: usize = 1 << 20;

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
    /// The most memory in use that was recorded.
    pub(crate) memory_peak: AtomicU64,
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
    /// Frames that the table may have read from its file before requests leave the event loop (`cold.rs`).
    reads_max: AtomicU64,
    /// 0 until a value has a head. Then, in a file, the mark of its values with [`HAS_MARK`] set. Changes
    /// only while the gate is closed.
    heads: AtomicU64,
    /// Whether keys may expire: false only if none does.
    may_expire: AtomicBool,
    /// Whether a lifetime may have been set since the sweep began its pass; then `may_expire` is set, too.
    is_expiry_new: AtomicBool,
    /// [`may_expire`](Self::may_expire) for fields of hashes.
    fields_may_expire: AtomicBool,
    /// [`is_expiry_new`](Self::is_expiry_new) for fields of hashes.
    is_field_expiry_new: AtomicBool,
    /// Whether all keys of the file were removed and it has not been compacted since.
    cleared: AtomicBool,
    /// In memory: the segments of its large collections. In a file they are in `table`.
    segments: ArcSwapOption<Table>,
    counts: Mutex<upkeep::counts::Counts>,
    /// Whether there are segments. Changes only while the gate is closed.
    has_segments: AtomicBool,
    /// Pairs of `table` that are not keys, without the header pair.
    hidden: AtomicU64,
}

/// Set in [`Database::heads`] once values may have heads.
const HAS_MARK: u64 = 1 << 63;

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
        self.share_unless(patience, || false)
    }

    /// [`share`](Self::share); `None` also if the caller gives up while another thread is inside exclusively.
    #[inline]
    pub(crate) fn share_unless(&self, patience: Patience, gives_up: impl Fn() -> bool) -> Option<Shared<'_>> {
        Some(Shared { space: self, _entry: self.gate.share(patience, gives_up)?, clock: Clock::default() })
    }

    /// Enters exclusively. `None` if a thread of the event loop would have to wait a long time.
    pub fn close(&self, patience: Patience) -> Option<Exclusive<'_>> {
        self.close_unless(patience, || false)
    }

    /// [`close`](Self::close); `None` also if the caller gives up while another thread is inside exclusively.
    pub(crate) fn close_unless(&self, patience: Patience, gives_up: impl Fn() -> bool) -> Option<Exclusive<'_>> {
        Some(Exclusive::new(self, self.gate.close(patience, gives_up)?))
    }

    /// Whether the next write has to make room first.
    #[inline]
    pub(crate) fn is_pressed(&self) -> bool {
        self.memory.is_pressed()
    }

    /// The number of keys of a database, including expired keys that are not removed yet. Free.
    pub fn len(&self, database: usize) -> u64 {
        if let Some(dictionary) = self.dictionary_of(database) {
            return dictionary.now().slots.keys();
        }
        self.len_of(&self.databases[database])
    }

    fn len_of(&self, database: &Database) -> u64 {
        let pairs = database.table.load().as_ref().map_or(0, |table| table.len());
        pairs.saturating_sub(u64::from(self.in_file() && database.has_heads()) + database.hidden.load(Relaxed))
    }

    /// How the values of a database are coded.
    #[inline]
    fn coding(&self, database: &Database) -> Coding {
        match (&self.place, database.heads.load(Relaxed)) {
            (Place::Memory, _) => Coding::Tagged,
            (Place::File(..), 0) => Coding::Plain,
            (Place::File(..), mark) => Coding::Marked(mark_of(mark)),
        }
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

    /// Bytes of memory that the memory limit applies to: of the pairs of all tables, or the indexes of a dictionary,
    /// and of scripts. Memory that is free for reuse does not count.
    pub(crate) fn used_bytes(&self) -> u64 {
        let indexes = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.now().facts.index_bytes);
        indexes + self.script_bytes.load(Relaxed) + self.tables().map(|table| table.usage().used_bytes).sum::<u64>()
    }

    /// [`used_bytes`](Self::used_bytes) without the space of buckets that the load does not need.
    fn needed_bytes(&self) -> u64 {
        let needed = self.tables().map(|table| table.usage()).map(|usage| usage.used_bytes - usage.slack_bytes);
        self.script_bytes.load(Relaxed) + needed.sum::<u64>()
    }

    /// Sets the bytes of memory of scripts.
    pub(crate) fn set_script_bytes(&self, bytes: u64) {
        if self.script_bytes.swap(bytes, Relaxed) != bytes {
            self.memory.look(self);
        }
    }

    /// Returns free memory to the system. Takes some milliseconds.
    pub(crate) fn return_free_memory(&self) {
        self.tables().for_each(|table| table.return_free_memory());
    }

    /// Bytes of all keys and values.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let stored = self.dictionary.as_ref().map_or(0, |dictionary| dictionary.now().facts.payload_bytes);
        stored + self.tables().map(|table| table.counters().payload_bytes).sum::<u64>()
    }

    fn tables(&self) -> impl Iterator<Item = Arc<Table>> {
        let tables = |database: &Database| [database.table.load_full(), database.segments.load_full()];
        self.databases.iter().flat_map(tables).flatten()
    }

    /// Whether the values are in a file.
    pub(crate) fn in_file(&self) -> bool {
        matches!(self.place, Place::File(..))
    }

    /// Whether a value of at least [`LONG_VALUE_BYTES`] was stored or read since the start.
    #[inline]
    pub(crate) fn has_long_values(&self) -> bool {
        self.has_long_values.load(Relaxed)
    }

    /// Notes the length of a value that is stored or read, or a longer one.
    #[inline]
    pub(crate) fn note_len(&self, len: usize) {
        if len >= LONG_VALUE_BYTES {
            self.has_long_values.store(true, Relaxed);
        }
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
    /// Returns the errors of [`Table::sync`].
    pub fn sync(&self) -> splitpoint::Result<()> {
        self.tables().try_for_each(|table| table.sync())
    }

    /// Writes all changes to the files, as SAVE does. Waits for the disk, without blocking other threads.
    ///
    /// # Errors
    /// Returns the errors of [`Table::checkpoint`].
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
    /// Returns the errors of [`Table::compact`], or [`SpaceError::ReadOnly`] where a dictionary is served.
    pub(crate) fn compact(&self) -> Result<()> {
        self.refuse_dictionary()?;
        Ok(self.tables().try_for_each(|table| table.compact())?)
    }

    /// Compacts the files whose keys were all removed. Waits for the disk, without blocking other threads.
    ///
    /// # Errors
    /// Returns the errors of [`Table::compact`].
    pub(crate) fn compact_cleared(&self) -> splitpoint::Result<()> {
        for database in self.databases.iter().filter(|database| database.cleared.swap(false, Relaxed)) {
            if let Some(table) = database.table.load_full() {
                table.compact()?;
            }
        }
        Ok(())
    }

    /// Sets the callback for changes while the key space is observed. Only the first call has an effect.
    pub(crate) fn set_observer(&self, observer: Observer) {
        let _ = self.observer.set(observer);
    }

    /// Starts or stops recording all changes; while recording, every write is exclusive. Waits for the gate.
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

    /// Whether a key may have had this CAS number.
    pub(crate) fn has_given_cas(&self, cas: u64) -> bool {
        cas < self.next_cas.load(Relaxed)
    }

    /// A key at random, each about equally likely; `None` if the database is empty.
    ///
    /// Picks a part of the hash space with about `RANDOM_PART` keys, and one of its keys. Parts with fewer keys are
    /// rejected more often, so that their keys are not more likely than others.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
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
            let count = if bits == 0 { keys.len() } else { RANDOM_PART_MAX.max(keys.len()) };
            if count == 0 {
                return Ok(None);
            }
            let index = ((u128::from(self.random()) * count as u128) >> u64::BITS) as usize; // below `count`
            if let Some(key) = keys.into_iter().nth(index) {
                return Ok(Some(key));
            }
        }
        // Nearly all keys have expired, or have equal hashes.
        self.first_key(database, self.random() >> 1)
    }

    /// The keys of the part of the hash space given by the first `bits` bits of `prefix`.
    fn keys_of_part(&self, database: usize, table: &Table, prefix: u64, bits: u32) -> Result<Vec<Vec<u8>>> {
        let (now_ms, coding, mut keys) = (now_ms(), self.coding(&self.databases[database]), Vec::new());
        let mut scan = table.scan_prefix(prefix, bits).only_heads(self.databases[database].head_bytes());
        while let Some((stored, head)) = scan.next_ref()? {
            if let Some(key) = self.key_of(stored)
                && !coding.decode(head).attributes.expired(now_ms)
            {
                keys.push(key.to_vec());
            }
        }
        Ok(keys)
    }

    /// Returns the first key from a cursor on, or else the first of all.
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

    /// Scans from `cursor` on: calls `take` with keys that have not expired, until it has taken `count` or
    /// more and the position can be resumed. Returns the cursor of the next call, 0 at the end.
    ///
    /// A key that is present throughout a whole scan is returned at least once. Cursors have 63 bits, since some
    /// clients store them in signed integers.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub fn scan(
        &self,
        database: usize,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64> {
        self.scan_typed(database, cursor, count, now_ms, |key, _| take(key))
    }

    /// [`scan`](Self::scan) with the types of the values.
    ///
    /// # Errors
    /// Returns the errors of [`Table::get`].
    pub(crate) fn scan_typed(
        &self,
        database: usize,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut take: impl FnMut(&[u8], Kind),
    ) -> Result<u64> {
        if let Some(dictionary) = self.dictionary_of(database) {
            return Ok(dictionary.scan(cursor, count, |key, _| take(key, Kind::String))?);
        }
        let database = &self.databases[database];
        let Some(table) = database.table.load_full() else { return Ok(0) };
        let coding = self.coding(database);
        let mut scan = table.scan_from(cursor << 1).only_heads(database.head_bytes());
        let mut taken = 0;
        while let Some((stored, head)) = scan.next_ref()? {
            if let Some(key) = self.key_of(stored) {
                let attributes = coding.decode(head).attributes;
                if !attributes.expired(now_ms) {
                    take(key, attributes.kind);
                }
            }
            taken += 1;
            if taken >= count && scan.at_boundary() {
                break;
            }
        }
        // At least 1, since 0 would start the scan again; no pair that was returned is before position 2.
        Ok(scan.cursor().map_or(0, |cursor| (cursor >> 1).max(1)))
    }

    /// The client's key for a stored key; `None` for the header pair.
    fn key_of<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        if self.in_file() { marks::parse(stored) } else { Some(stored) }
    }

    /// Whether the database is plain, so that writes may share the key space with other threads.
    #[inline]
    fn is_plain(&self) -> bool {
        self.watched.is_empty() && !self.memory.is_pressed()
    }

    /// Whether commands may run as one change: no client waits for a key or must see each change.
    #[inline]
    pub(crate) fn allows_runs(&self) -> bool {
        self.is_plain() && self.wanted_keys.load(Relaxed) == 0
    }

    /// The records of `keys`, in their order; `None` for absent and expired ones.
    #[inline]
    fn read_many(
        &self,
        database: &Database,
        keys: &[&[u8]],
        clock: &Clock,
        mut take: impl FnMut(usize, Option<Record<'_>>),
    ) -> Result<()> {
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            if let Some(dictionary) = self.dictionary.as_ref().filter(|_| std::ptr::eq(database, &self.databases[0])) {
                return read_dictionary(dictionary, keys, |index, value| take(index, value.map(Coding::of_plain)));
            }
            (0..keys.len()).for_each(|index| take(index, None));
            return Ok(());
        };
        self.memory.note_use(keys, clock);
        let coding = self.coding(database);
        let mut take = |index: usize, stored: Option<&[u8]>| {
            let record = stored
                .map(|stored| coding.decode(stored))
                .filter(|record| record.attributes.expires_at_ms == 0 || !record.attributes.expired(clock.now_ms()));
            take(index, record);
        };
        if self.in_file() && keys.iter().any(|key| marks::is_marked(key)) {
            return keys.iter().enumerate().try_for_each(|(index, key)| {
                take(index, table.get(&marks::of_key(key))?.as_deref());
                Ok(())
            });
        }
        if let [key] = keys {
            return with_scratch(|value| {
                let found = table.get_into(key, value)?;
                take(0, found.then_some(value));
                Ok(())
            });
        }
        Ok(table.get_many_with(keys, take)?)
    }
}

/// What is known about a key without reading a large value.
#[derive(Clone, Copy, Debug)]
struct Known {
    attributes: Attributes,
    /// The length of the head in front of the value.
    head_bytes: usize,
    /// The length of the client's value.
    len: usize,
}

impl Known {
    /// Fails if the value is a collection.
    fn refuse_collection(&self) -> Result<()> {
        if self.attributes.kind == Kind::String { Ok(()) } else { Err(SpaceError::WrongType) }
    }
}

impl KeySpace {
    /// What is known about `key`, expired or not; `None` if it is absent. Does not count as a use of the key.
    fn known(&self, database: &Database, key: &[u8], clock: &Clock) -> Result<Option<Known>> {
        let table = database.table.load();
        let Some(table) = table.as_ref() else {
            let mut len = None;
            self.read_many(database, &[key], clock, |_, record| len = record.map(|record| record.value.len()))?;
            return Ok(len.map(|len| Known { attributes: Attributes::NONE, head_bytes: 0, len }));
        };
        // Most values are short; of longer ones only the head is read.
        let (stored, mut short) = (self.stored(key), [0; 4 * HEAD_BYTES_MAX]);
        match table.get_to(&stored, &mut short)? {
            None => return Ok(None),
            Some(len) if len <= short.len() => return Ok(Some(self.known_of(database, &short[..len], len))),
            Some(len) if self.coding(database) == Coding::Plain => {
                return Ok(Some(Known { attributes: Attributes::NONE, head_bytes: 0, len }));
            }
            Some(_) => {}
        }
        with_scratch(|head| {
            let len = table.get_part(&stored, |len| 0..len.min(HEAD_BYTES_MAX), head)?;
            Ok(len.map(|len| self.known_of(database, head, len)))
        })
    }

    /// What is known about a key from the first bytes of its stored value, and its length.
    fn known_of(&self, database: &Database, head: &[u8], len: usize) -> Known {
        let Record { attributes, value } = self.coding(database).decode(head);
        let head_bytes = head.len() - value.len();
        Known { attributes, head_bytes, len: len - head_bytes }
    }

    /// [`known`](Self::known) of a key that has not expired.
    fn known_now(&self, database: &Database, key: &[u8], clock: &Clock) -> Result<Option<Known>> {
        let is_now = |known: &Known| known.attributes.expires_at_ms == 0 || !known.attributes.expired(clock.now_ms());
        Ok(self.known(database, key, clock)?.filter(is_now))
    }

    /// Converts `key` to its stored key.
    fn stored<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        if self.in_file() { marks::of_key(key) } else { key.into() }
    }

    /// The length of the value of `key`, and a part of the value: `choose` gets the length and returns the range.
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
            self.read_many(database, &[key], clock, |_, record| {
                let (Some(record), Some(choose)) = (record, choose.take()) else { return };
                let range = choose(record.value.len());
                part.extend_from_slice(cut(record.value, range));
                len = Some(record.value.len());
            })?;
            return Ok(len);
        };
        let Some(mut known) = self.known_now(database, key, clock)? else { return Ok(None) };
        known.refuse_collection()?;
        let mut choose = Some(choose);
        let mut range = 0..0;
        loop {
            let Known { head_bytes, len, .. } = known;
            if let Some(choose) = choose.take() {
                range = choose(len);
            }
            let within = head_bytes + range.start..head_bytes + range.end;
            let now_len = table.get_part(&self.stored(key), |_| within, part)?;
            // Another thread may have given the value a head of another length between the two lookups.
            let Some(again) = self.known_now(database, key, clock)? else {
                part.clear();
                return Ok(None);
            };
            if again.head_bytes == head_bytes && now_len == Some(head_bytes + len) {
                return Ok(Some(len));
            }
            known = again;
            // The range was chosen for another length: cut it to the new value.
            range.end = range.end.min(known.len);
            range.start = range.start.min(range.end);
        }
    }
}

/// The part of `value` within `range`.
fn cut(value: &[u8], range: Range<usize>) -> &[u8] {
    &value[range.start.min(value.len())..range.end.clamp(range.start, usize::MAX).min(value.len())]
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
    /// Whether values may have heads.
    #[inline]
    fn has_heads(&self) -> bool {
        self.heads.load(Relaxed) != 0
    }

    /// The bytes of a value that may be its head.
    fn head_bytes(&self) -> usize {
        if self.has_heads() { HEAD_BYTES_MAX } else { 0 }
    }

    /// Notes that a key is about to be given these attributes.
    #[inline]
    fn note_lifetime(&self, attributes: Attributes) {
        if attributes.expires_at_ms != 0 && !self.is_expiry_new.load(Relaxed) {
            self.may_expire.store(true, Relaxed);
            self.is_expiry_new.store(true, Relaxed);
        }
    }

    /// Notes that a hash whose fields have lifetimes is about to be stored.
    fn note_field_lifetimes(&self) {
        self.fields_may_expire.store(true, Relaxed);
        self.is_field_expiry_new.store(true, Relaxed);
    }
}

/// The mark in [`Database::heads`].
fn mark_of(heads: u64) -> [u8; MARK_BYTES] {
    let [a, b, c, d, e, f, ..] = heads.to_le_bytes();
    [a, b, c, d, e, f]
}

/// [`Database::heads`] of a mark.
fn heads_by([a, b, c, d, e, f]: [u8; MARK_BYTES]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) | HAS_MARK
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
    /// Returns [`SpaceError::WrongType`], or the errors of [`Table::get`].
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

    /// Stores the pairs in order if the database is plain; otherwise changes nothing and returns `false`.
    /// `attributes(n)` replaces the attributes of pair `n`.
    ///
    /// # Errors
    /// Returns the errors of [`Table::put_many`].
    #[inline]
    pub(crate) fn put_many(
        &self,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
    ) -> Result<bool> {
        if self.space.memory.is_much(pairs.iter().map(|(_, value)| value.len()).sum()) {
            return Ok(false);
        }
        let Some(table) = self.plain_table(database, pairs.iter().map(|(key, _)| *key)) else { return Ok(false) };
        let Some(table) = table.as_ref() else { return Ok(false) };
        if self.space.databases[database].has_segments.load(Relaxed) {
            return self.put_over_collections(table, database, pairs, attributes);
        }
        let database = &self.space.databases[database];
        let coding = self.space.coding(database);
        let is_plain = |index: usize| !coding.needs_head(attributes(index), pairs[index].1);
        if (0..pairs.len()).all(is_plain) {
            match pairs {
                [(key, value)] => table.put(key, value)?,
                _ => table.put_many(pairs)?,
            }
        } else {
            if !database.has_heads() {
                return Ok(false);
            }
            put_coded(table, database, coding, pairs, attributes)?;
        }
        self.space.events.changes.fetch_add(pairs.len() as u64, Relaxed);
        self.space.memory.note_writes(self.space, pairs, &self.clock);
        Ok(true)
    }

    /// [`put_many`](Self::put_many) where old values may be collections, whose segments only exclusive entry
    /// can release: returns `false` if one is. Storing pairs again changes nothing.
    #[inline(never)]
    fn put_over_collections(
        &self,
        table: &Table,
        database: usize,
        pairs: &[(&[u8], &[u8])],
        attributes: impl Fn(usize) -> Attributes,
    ) -> Result<bool> {
        let bytes_max = pairs.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| *key).collect();
        let put = |index: usize, _: Option<Old<'_>>, new: &mut New<'_>| new.put(attributes(index), pairs[index].1);
        let (done, outcome) = self.space.edit_many(table, database, &keys, bytes_max, &self.clock, put);
        outcome?;
        self.space.memory.note_use(&keys, &self.clock);
        Ok(done == pairs.len())
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

    /// Changes the small collections at `keys` in order, if the database is plain and no client waits for a
    /// key. `change` gets the index of a key and its value; if it returns `false`, the value remains. Returns
    /// the number of keys changed, and the error that ended the call early; a key for which `change` returns
    /// [`SpaceError::Alone`], or which would get a value of more than `value_bytes_max` bytes, ends the call,
    /// too. `more_bytes` estimates what all changes may add.
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

/// Stores the pairs in order, each with the attributes for its index.
fn put_coded(
    table: &Table,
    database: &Database,
    coding: Coding,
    pairs: &[(&[u8], &[u8])],
    attributes: impl Fn(usize) -> Attributes,
) -> splitpoint::Result<()> {
    with_scratch(|coded| {
        coded.clear();
        let mut ends = [0; WINDOW];
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
            table.put_many(&coded_pairs[..pairs.len()])?;
        }
        Ok(())
    })
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
pub(crate) mod tests;
