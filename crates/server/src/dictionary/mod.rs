//! A dictionary as the key space: read-only, and replaced by its next generation while clients read.
//!
//! ```text
//! Served ── Generation    the open dictionary, and which node has which slot (slots.rs), replaced together
//!        └─ Source        the files of both: a path, a topology file (topology.rs)
//!
//! ```
//!
//! The key space consults it only if database 0 has no table, so a server of a table pays nothing for it. All reads
//! within one entry of the gate see the same generation.
//!
//! Not here: when to look for a new generation (`watcher.rs`); CLUSTER and redirections (`command/cluster.rs`).

pub(crate) mod slots;
pub(crate) mod topology;

use arc_swap::{ArcSwap, Guard};
use slots::{Place, SlotMap};
use splitpoint::shards::{SLOT_COUNT, ShardInfo};
use splitpoint::{Dictionary, DictionaryOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use topology::{Address, Topology};

/// `may_wait` is decided again after this many batches. It becomes true if there was more than one read of
/// the disk for every `BATCHES_A_READ` batches.
const JUDGED_BATCHES: u64 = 20;
const BATCHES_A_READ: u64 = 100;
/// The least that the system reads from disk for a page that is not in memory.
const READ_BYTES: u64 = 4096;

/// What to serve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    /// A directory of shards, or a file.
    pub(crate) path: PathBuf,
    /// The topology file.
    pub(crate) topology: Option<PathBuf>,
    /// The addresses this server listens at; the topology names one of them as this node's.
    pub(crate) listening: Vec<String>,
    /// Without a topology: the address reported to clients.
    pub(crate) announced: Option<Address>,
}

/// The dictionary that is served, and its source.
pub(crate) struct Served {
    source: Source,
    /// The topology that decides which shards the dictionary opens.
    topology: Arc<ArcSwap<Topology>>,
    current: ArcSwap<Generation>,
    /// Whether lookups may block on the disk, as [`may_wait`](Self::may_wait) last decided from the two counters below.
    may_wait: AtomicBool,
    batches: AtomicU64,
    bytes_before: AtomicU64,
    /// Set to wake the watcher early, which then also reads the topology again.
    call: Mutex<bool>,
    called: Condvar,
    /// New generations served since the start.
    pub(crate) reloads: AtomicU64,
    /// Why the last check for a new generation failed; `None` if it did not.
    failure: Mutex<Option<String>>,
}

/// One version of the dictionary, served until the next one replaces it.
pub(crate) struct Generation {
    /// The keys and values.
    pub(crate) dictionary: Dictionary,
    /// Which node has which slots.
    pub(crate) slots: SlotMap,
    /// Figures of the open files.
    pub(crate) facts: Facts,
}

/// Figures that are constant for a generation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// Bytes of the indexes.
    pub(crate) index_bytes: u64,
    /// Bytes of keys and values.
    pub(crate) payload_bytes: u64,
}

impl Served {
    /// Opens a dictionary; for a directory only the shards that this node serves.
    ///
    /// # Errors
    /// The topology does not fit the dictionary, or the dictionary cannot be opened.
    pub(crate) fn open(source: Source) -> Result<Served, OpenError> {
        let read = source.read_topology().map_err(OpenError::Topology)?;
        let topology = Arc::new(ArcSwap::from_pointee(read));
        let chosen = topology.clone();
        let choose =
            move |shard: &ShardInfo| chosen.load().serves_shard(shard.number, shard.first_slot, shard.last_slot);
        let options = DictionaryOptions::new().only_shards(choose);
        let dictionary = options.open(&source.path).map_err(OpenError::Dictionary)?;
        let generation = Generation::new(dictionary, &topology.load()).map_err(|error| match error {
            Failure::Slots(what) => OpenError::Topology(what),
            Failure::Dictionary(error) => OpenError::Dictionary(error),
        })?;
        generation.warn();
        Ok(Served {
            source,
            topology,
            current: ArcSwap::from_pointee(generation),
            // Assumed until lookups have shown otherwise.
            may_wait: AtomicBool::new(true),
            batches: AtomicU64::new(0),
            bytes_before: AtomicU64::new(bytes_from_disks().unwrap_or(0)),
            call: Mutex::new(false),
            called: Condvar::new(),
            reloads: AtomicU64::new(0),
            failure: Mutex::default(),
        })
    }

    /// The generation that is served now. It is not replaced while the caller is inside the gate of the key space.
    #[inline]
    pub(crate) fn now(&self) -> Guard<Arc<Generation>> {
        self.current.load()
    }

    /// The path of the dictionary.
    pub(crate) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Whether there is a topology file.
    pub(crate) fn has_topology(&self) -> bool {
        self.source.topology.is_some()
    }

    /// Why the last check for a new generation failed; `None` if it did not.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The number of `keys`, from the first on, whose requests are served here. At the index of each request's first
    /// key, `firsts` has the request's number of keys.
    #[inline]
    pub(crate) fn count_served(&self, keys: &[&[u8]], firsts: &[u8]) -> usize {
        if !self.has_topology() {
            return keys.len();
        }
        let now = self.now();
        let mut served = 0;
        while served < keys.len() {
            let request = &keys[served..served + usize::from(firsts[served])];
            let slot = splitpoint::shards::slot(request[0]);
            let is_here = matches!(now.slots.place(slot), Place::Here);
            if !is_here || request[1..].iter().any(|key| splitpoint::shards::slot(key) != slot) {
                break;
            }
            served += request.len();
        }
        served
    }

    /// Copies the value of `key`; `false` if it is absent.
    ///
    /// # Errors
    /// Returns [`LookupError::Elsewhere`] for a key of another node, or the errors of [`Dictionary::get_into`].
    pub(crate) fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, LookupError> {
        self.look_up(&[key], |dictionary| Ok(dictionary.get_into(key, value)?))
    }

    /// Calls `take` with the index of each key, in order, and its value.
    ///
    /// # Errors
    /// Returns the errors of [`get_into`](Self::get_into); `take` was called for some keys, from the first on.
    pub(crate) fn get_many_with(
        &self,
        keys: &[&[u8]],
        take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), LookupError> {
        self.look_up(keys, |dictionary| Ok(dictionary.get_many_with(keys, take)?))
    }

    fn look_up<T>(
        &self,
        keys: &[&[u8]],
        look_up: impl FnOnce(&Dictionary) -> Result<T, LookupError>,
    ) -> Result<T, LookupError> {
        let now = self.now();
        if let Some(key) = keys.iter().find(|key| !now.slots.serves(key)) {
            return Err(LookupError::Elsewhere(splitpoint::shards::slot(key)));
        }
        self.batches.fetch_add(1, Relaxed);
        look_up(&now.dictionary)
    }

    /// Scans from `cursor` on, over the keys that this node serves: [`Dictionary::scan`].
    ///
    /// # Errors
    /// Returns the errors of [`Dictionary::scan`].
    pub(crate) fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> splitpoint::Result<u64> {
        let now = self.current.load_full();
        let filtered = now.slots.cuts_a_shard();
        let take = |key: &[u8], value: &[u8]| {
            if !filtered || now.slots.serves(key) {
                take(key, value);
            }
        };
        now.dictionary.scan(cursor, count, take)
    }

    /// Chooses a cursor of [`scan`](Self::scan) by a random number.
    pub(crate) fn cursor_at(&self, random: u64) -> u64 {
        // A slot of this node in the upper bits, a position within it in the lower.
        const POSITION_BITS: u32 = 49;
        let slot = (random >> POSITION_BITS) as u16 % SLOT_COUNT;
        let from = |slot: &u16| matches!(self.now().slots.place(*slot), Place::Here);
        let slot = (slot..SLOT_COUNT).chain(0..slot).find(from).unwrap_or(0);
        u64::from(slot) << POSITION_BITS | random & ((1 << POSITION_BITS) - 1)
    }

    /// Whether a lookup may block on the disk, judged by how much the process has read from disks since the last call.
    pub(crate) fn may_wait(&self) -> bool {
        // If the system does not report it, assume yes.
        let Some(bytes) = bytes_from_disks() else { return true };
        let batches = self.batches.swap(0, Relaxed);
        let reads = bytes.saturating_sub(self.bytes_before.swap(bytes, Relaxed)) / READ_BYTES;
        if batches >= JUDGED_BATCHES {
            self.may_wait.store(reads * BATCHES_A_READ > batches, Relaxed);
        }
        self.may_wait.load(Relaxed)
    }

    /// Makes the watcher read the topology and check for a new generation immediately.
    pub(crate) fn reload_soon(&self) {
        *self.call.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.called.notify_one();
    }

    /// Waits up to `longest` for a call of [`reload_soon`](Self::reload_soon). Returns whether one came.
    pub(crate) fn wait(&self, longest: Duration) -> bool {
        let call = self.call.lock().unwrap_or_else(|e| e.into_inner());
        let (mut call, _) =
            self.called.wait_timeout_while(call, longest, |called| !*called).unwrap_or_else(|e| e.into_inner());
        std::mem::take(&mut *call)
    }

    /// Opens the next generation while the current one is served; `None` if nothing has changed. With `read_topology`,
    /// reads the topology file again too.
    ///
    /// # Errors
    /// Why the next generation cannot be served.
    pub(crate) fn next(&self, read_topology: bool) -> Result<Option<Generation>, String> {
        let before = self.topology.load_full();
        if read_topology {
            self.topology.store(Arc::new(self.source.read_topology()?));
        }
        self.reload().inspect_err(|_| self.topology.store(before))
    }

    /// Serves `next` from now on and returns the previous generation. The caller must have the key space to itself.
    pub(crate) fn exchange(&self, next: Generation) -> Arc<Generation> {
        self.reloads.fetch_add(1, Relaxed);
        self.current.swap(Arc::new(next))
    }

    fn reload(&self) -> Result<Option<Generation>, String> {
        let mut dictionary = self.now().dictionary.clone();
        let topology = self.topology.load();
        let changed = dictionary.reload().map_err(|error| error.to_string())?;
        if !changed && **topology == *self.now().slots.topology() {
            return Ok(None);
        }
        Generation::new(dictionary, &topology).map(Some).map_err(|failure| match failure {
            Failure::Slots(what) => what,
            Failure::Dictionary(error) => error.to_string(),
        })
    }

    /// Records why the last check failed, or that it did not. Returns the previous record.
    pub(crate) fn note_failure(&self, failure: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.failure.lock().unwrap_or_else(|e| e.into_inner()), failure)
    }
}

impl Source {
    fn read_topology(&self) -> Result<Topology, String> {
        match &self.topology {
            Some(path) => Topology::read(path, &self.listening),
            None => Ok(Topology::single(self.announced.clone())),
        }
    }
}

/// Bytes that this process has caused to be read from disks so far, by reads or by page faults.
fn bytes_from_disks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// Why a key was not looked up.
#[derive(Debug)]
pub(crate) enum LookupError {
    /// This slot is served by another node or by none.
    Elsewhere(u16),
    /// The dictionary could not be read.
    Dictionary(splitpoint::Error),
}

impl From<splitpoint::Error> for LookupError {
    fn from(error: splitpoint::Error) -> Self {
        LookupError::Dictionary(error)
    }
}

/// Why there is no [`Generation`].
enum Failure {
    Slots(String),
    Dictionary(splitpoint::Error),
}

/// Why a dictionary cannot be served.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The topology: what is wrong, where, and what to do.
    Topology(String),
    /// The dictionary.
    Dictionary(splitpoint::Error),
}

impl Generation {
    fn new(dictionary: Dictionary, topology: &Topology) -> Result<Generation, Failure> {
        let slots = SlotMap::new(topology.clone(), &dictionary.shards()).map_err(Failure::Slots)?;
        let stat = dictionary.stat().map_err(Failure::Dictionary)?;
        let facts = Facts {
            index_bytes: stat.index_bytes + stat.ranks_bytes,
            payload_bytes: stat.key_bytes.saturating_add(stat.value_bytes),
        };
        Ok(Generation { dictionary, slots, facts })
    }

    /// Logs a warning about anything unusual in this generation.
    pub(crate) fn warn(&self) {
        if self.slots.cuts_a_shard() {
            tracing::warn!("a shard has slots of this node and of others: DBSIZE is an estimate, SCAN skips keys");
        }
    }

    /// The generation number of a directory of shards; 0 for a file.
    pub(crate) fn number(&self) -> u64 {
        self.dictionary.generation().unwrap_or(0)
    }
}
