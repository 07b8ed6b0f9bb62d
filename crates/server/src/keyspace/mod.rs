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
//! ```text
//! gate.rs, shared.rs, exclusive/   the two kinds of entry, and what each may do
//! reads.rs, scan.rs                lookups; scans, random keys
//! edit.rs, in_place.rs             changes under the latch of a key's bucket: of values; of small collections
//! staged.rs, watched.rs            changes that are collected; keys that are watched
//! record.rs, heads.rs, marks.rs    stored values; which databases have heads; stored keys
//! collections/, pairs.rs           hashes, sets, lists, sorted sets, streams; what they need of the key space
//! upkeep/                          expired keys, the memory limit
//! opening.rs, saving.rs, swap.rs   files: opened, saved, exchanged
//! cold.rs, failures.rs, sizes.rs   whether requests wait for the disk; whether writes fail; keys and bytes
//! clock.rs, error.rs               the time of expiry; why commands fail
//! served_file.rs                   a table file while no server has it open
//! ```
//!
//! Not here: what commands mean (`command`), bytes of a protocol (`resp`), waiting for the disk (`executor`).

mod clock;
mod cold;
pub(crate) mod collections;
mod edit;
mod error;
mod exclusive;
mod failures;
mod gate;
mod heads;
mod in_place;
mod marks;
mod opening;
mod pairs;
mod reads;
mod record;
mod saving;
mod scan;
mod served_file;
mod shared;
mod sizes;
mod staged;
mod swap;
mod upkeep;
mod watched;

use crate::dictionary::Served;
use arc_swap::ArcSwapOption;
use clock::Clock;
pub(crate) use clock::now_ms;
pub(crate) use cold::Waits;
pub(crate) use collections::shape::damaged;
pub use collections::stream::EntryId;
pub(crate) use edit::{Edit, New, Old, SHORT_VALUE_BYTES};
pub use error::{Result, SpaceError};
pub(crate) use exclusive::{ANY_KEY, Exclusive, Lifetime};
use gate::Gate;
pub use gate::Patience;
pub use opening::SpaceOptions;
pub(crate) use opening::databases_of;
pub(crate) use pairs::{Pairs, PairsMut};
pub(crate) use record::{Attributes, EXPIRES_AT_MAX_MS, Kind, Record};
pub use served_file::{Marks, ServedFile, ServedScan};
pub use shared::Shared;
pub(crate) use shared::answerable;
use splitpoint::Table;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
pub use upkeep::eviction::Eviction;
use upkeep::eviction::MemoryLimit;
pub(crate) use upkeep::sweep::SweepCursor;
use watched::Watched;
pub(crate) use watched::{Change, Happened, Watch};

/// The number of databases, numbered from 0, that SELECT accepts.
pub(crate) const DATABASE_COUNT: usize = 16;

/// The most keys that a flush removes as part of a transaction over a file.
const FLUSHED_MAX: u64 = 100_000;

/// The callback for changes of an observed key space.
pub(crate) type Observer = Box<dyn Fn(&mut Exclusive<'_>, Vec<Change>) + Send + Sync>;

/// All databases, and what is needed to share them between threads.
pub struct KeySpace {
    databases: Vec<Database>,
    gate: Gate,
    place: Place,
    /// The files of the databases, which SWAPDB changes. Locked while it exchanges databases, and while tables are
    /// listed.
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
    /// 0 until a value has a head. Then, in a file, the mark of its values with [`heads::HAS_MARK`] set. Changes
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
    counts: Mutex<collections::counts::Counts>,
    /// Whether there are segments. Changes only while the gate is closed.
    has_segments: AtomicBool,
    /// Pairs of `table` that are not keys, without the header pair.
    hidden: AtomicU64,
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

    /// The tables of all databases, each once, even if SWAPDB exchanges some at the same time.
    fn tables(&self) -> impl Iterator<Item = Arc<Table>> {
        let _order = self.order.lock().unwrap_or_else(|e| e.into_inner());
        let tables = |database: &Database| [database.table.load_full(), database.segments.load_full()];
        self.databases.iter().flat_map(tables).flatten().collect::<Vec<_>>().into_iter()
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
}

#[cfg(test)]
pub(crate) mod tests;
