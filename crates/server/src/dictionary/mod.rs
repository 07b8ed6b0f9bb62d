//! A dictionary as the key space: read-only, exchanged for its next generation while clients read.
//!
//! ```text
//! Served ── Generation    the open dictionary, and which node has which slot (slots.rs), exchanged together
//!        └─ Source        where they come from: a path, a topology file (topology.rs)
//!
//! watcher thread, each second and at SIGHUP:
//!     reload a copy, read the topology -> close the gate of the key space -> exchange -> free the old one
//!     an error is logged, and what is open stays
//! ```
//!
//! The key space asks it where database 0 has no table, so a server of a table pays nothing for it. Everything that
//! reads within one entry of the gate reads one generation.
//!
//! Not here: CLUSTER and redirections (`command/cluster.rs`).

pub mod slots;
pub mod topology;

use crate::keyspace::{KeySpace, Patience, SpaceError};
use crate::server::Server;
use arc_swap::{ArcSwap, Guard};
use slots::{Place, SlotMap};
use splitpoint::{Dictionary, DictionaryOptions, SLOT_COUNT, ShardInfo};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};
use topology::{Address, Topology};

/// How often the watcher looks for a new generation.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A batch that takes longer than the first and, for each key, the second waited for the disk.
const SLOW_BATCH: Duration = Duration::from_micros(50);
const SLOW_KEY: Duration = Duration::from_micros(12);
/// Batches in a second that are enough to judge by.
const JUDGED_BATCHES: u64 = 20;

/// What to serve.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// A directory of shards, or a file.
    pub path: PathBuf,
    /// The topology file.
    pub topology: Option<PathBuf>,
    /// Addresses, one of which is this node's in the topology.
    pub listening: Vec<String>,
    /// Without a topology: the address that clients are told.
    pub announced: Option<Address>,
}

/// See the head of this file.
pub struct Served {
    source: Source,
    /// What the dictionary's choice of shards looks at.
    topology: Arc<ArcSwap<Topology>>,
    current: ArcSwap<Generation>,
    /// Whether lookups may wait for the disk, and what of late says so.
    may_wait: AtomicBool,
    batches: AtomicU64,
    slow_batches: AtomicU64,
    /// Wakes the watcher before its second is over; `true`: read the topology again too.
    call: Mutex<bool>,
    called: Condvar,
    /// Generations taken over since the start.
    pub reloads: AtomicU64,
    /// Why the last look failed; `None` if it did not.
    failure: Mutex<Option<String>>,
}

/// What is served until the next one comes.
pub struct Generation {
    /// The keys and values.
    pub dictionary: Dictionary,
    /// Who has which slots.
    pub slots: SlotMap,
    /// Figures of the open files.
    pub facts: Facts,
}

/// Figures that do not change in a generation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Bytes of the indexes.
    pub index_bytes: u64,
    /// Bytes of keys and values.
    pub payload_bytes: u64,
}

impl Served {
    /// Opens a dictionary, of a directory the shards that this node serves.
    ///
    /// # Errors
    /// A topology that does not fit, a dictionary that cannot be opened.
    pub fn open(source: Source) -> Result<Served, OpenError> {
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
            // Until lookups have shown that they do not.
            may_wait: AtomicBool::new(true),
            batches: AtomicU64::new(0),
            slow_batches: AtomicU64::new(0),
            call: Mutex::new(false),
            called: Condvar::new(),
            reloads: AtomicU64::new(0),
            failure: Mutex::default(),
        })
    }

    /// What is served now. Behind the gate of the key space it stays until that is left.
    #[inline]
    pub fn now(&self) -> Guard<Arc<Generation>> {
        self.current.load()
    }

    /// Where the dictionary is.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Whether the nodes come from a file.
    pub fn has_topology(&self) -> bool {
        self.source.topology.is_some()
    }

    /// Why the last look for a new generation failed; `None` if it did not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// How many of `keys`, from the first on, belong to requests that are served here. `firsts` has, where the keys of
    /// a request begin, their number.
    #[inline]
    pub fn count_served(&self, keys: &[&[u8]], firsts: &[u8]) -> usize {
        if !self.has_topology() {
            return keys.len();
        }
        let now = self.now();
        let mut served = 0;
        while served < keys.len() {
            let request = &keys[served..served + usize::from(firsts[served])];
            let slot = splitpoint::slot(request[0]);
            let is_here = matches!(now.slots.place(slot), Place::Here);
            if !is_here || request[1..].iter().any(|key| splitpoint::slot(key) != slot) {
                break;
            }
            served += request.len();
        }
        served
    }

    /// Calls `take` with the index of each key, in order, and its value.
    ///
    /// # Errors
    /// [`SpaceError::Elsewhere`] for a key of another node; those of [`Dictionary::get_many`].
    pub fn get_many(&self, keys: &[&[u8]], take: impl FnMut(usize, Option<&[u8]>)) -> Result<(), SpaceError> {
        let since = Instant::now();
        self.look_up(keys, take)?;
        self.batches.fetch_add(1, Relaxed);
        if since.elapsed() > SLOW_BATCH + SLOW_KEY * keys.len() as u32 {
            self.slow_batches.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn look_up(&self, keys: &[&[u8]], mut take: impl FnMut(usize, Option<&[u8]>)) -> Result<(), SpaceError> {
        let now = self.now();
        if let Some(key) = keys.iter().find(|key| !now.slots.serves(key)) {
            return Err(SpaceError::Elsewhere(splitpoint::slot(key)));
        }
        if let [key] = keys {
            return crate::keyspace::with_scratch(|value| {
                let found = now.dictionary.get_into(key, value)?;
                take(0, found.then_some(value));
                Ok(())
            });
        }
        let values = now.dictionary.get_many(keys)?;
        values.iter().enumerate().for_each(|(index, value)| take(index, value.as_deref()));
        Ok(())
    }

    /// A scan from `cursor` on, over the keys that this node serves: [`Dictionary::scan`].
    ///
    /// # Errors
    /// Those of [`Dictionary::scan`].
    pub fn scan(&self, cursor: u64, count: usize, mut take: impl FnMut(&[u8], &[u8])) -> Result<u64, SpaceError> {
        let now = self.current.load_full();
        let filtered = now.slots.cuts_a_shard();
        let take = |key: &[u8], value: &[u8]| {
            if !filtered || now.slots.serves(key) {
                take(key, value);
            }
        };
        Ok(now.dictionary.scan(cursor, count, take)?)
    }

    /// A cursor of [`scan`](Self::scan) at a place chosen by a random number.
    pub fn cursor_at(&self, random: u64) -> u64 {
        // A slot of this node in the upper bits, a position behind them.
        const POSITION_BITS: u32 = 49;
        let slot = (random >> POSITION_BITS) as u16 % SLOT_COUNT;
        let from = |slot: &u16| matches!(self.now().slots.place(*slot), Place::Here);
        let slot = (slot..SLOT_COUNT).chain(0..slot).find(from).unwrap_or(0);
        u64::from(slot) << POSITION_BITS | random & ((1 << POSITION_BITS) - 1)
    }

    /// Whether a lookup may wait for the disk, judged by those since the last call.
    pub fn may_wait(&self) -> bool {
        let (batches, slow) = (self.batches.swap(0, Relaxed), self.slow_batches.swap(0, Relaxed));
        if batches >= JUDGED_BATCHES {
            self.may_wait.store(slow * 100 > batches, Relaxed);
        }
        self.may_wait.load(Relaxed)
    }

    /// Lets the watcher read the topology and look for a new generation at once.
    pub fn reload_soon(&self) {
        *self.call.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.called.notify_one();
    }

    /// Waits for a call, but not long; whether one came.
    fn wait(&self) -> bool {
        let call = self.call.lock().unwrap_or_else(|e| e.into_inner());
        let (mut call, _) =
            self.called.wait_timeout_while(call, LOOK_EVERY, |called| !*called).unwrap_or_else(|e| e.into_inner());
        std::mem::take(&mut *call)
    }

    /// Takes over a new generation if there is one; gives whether there was.
    ///
    /// # Errors
    /// Why it cannot be taken over; what is served stays.
    pub fn refresh(&self, space: &KeySpace, read_topology: bool) -> Result<bool, String> {
        let before = self.topology.load_full();
        if read_topology {
            self.topology.store(Arc::new(self.source.read_topology()?));
        }
        let next = self.next();
        if next.is_err() {
            self.topology.store(before);
        }
        let Some(next) = next? else { return Ok(false) };
        next.warn();
        // Alone: a transaction that reads two keys reads them in one generation.
        let alone = space.close(Patience::MayWait);
        let old = self.current.swap(Arc::new(next));
        space.touch_watched();
        drop(alone);
        self.reloads.fetch_add(1, Relaxed);
        drop(old);
        Ok(true)
    }

    fn next(&self) -> Result<Option<Generation>, String> {
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

    /// One look of the watcher: whether there is a new generation, or `None` after an error.
    fn look(&self, space: &KeySpace, read_topology: bool) -> Option<bool> {
        let result = self.refresh(space, read_topology);
        let mut failure = self.failure.lock().unwrap_or_else(|e| e.into_inner());
        match (&result, &*failure) {
            // Once, not each second.
            (Err(error), before) if before.as_ref() != Some(error) => {
                tracing::error!(%error, "what is new cannot be served; the earlier generation stays");
            }
            (Ok(false), Some(_)) => tracing::info!("what cannot be served is gone; the earlier generation stays"),
            _ => {}
        }
        *failure = result.as_ref().err().cloned();
        result.ok()
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

/// Why there is no [`Generation`].
enum Failure {
    Slots(String),
    Dictionary(splitpoint::Error),
}

/// Why a dictionary cannot be served.
#[derive(Debug)]
pub enum OpenError {
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

    fn warn(&self) {
        if self.slots.cuts_a_shard() {
            tracing::warn!("a shard has slots of this node and of others: DBSIZE is an estimate, SCAN skips keys");
        }
    }

    /// The generation of a directory of shards; 0 for a file.
    pub fn number(&self) -> u64 {
        self.dictionary.generation().unwrap_or(0)
    }
}

/// Starts the thread that looks for new generations. It ends when the server is gone.
///
/// # Errors
/// Those of starting a thread.
pub fn watch(server: Weak<Server>) -> std::io::Result<()> {
    let run = move || {
        let mut read_topology = false;
        loop {
            let Some(served) = server.upgrade().and_then(|server| server.space.dictionary().cloned()) else { return };
            read_topology |= served.wait();
            let Some(server) = server.upgrade() else { return };
            let new = served.look(&server.space, read_topology);
            // A topology that could not be used is read again until it can.
            read_topology &= new.is_none();
            if new == Some(true) {
                server.saved_at_s.store(crate::keyspace::now_ms() / 1000, Relaxed);
                let now = served.now();
                tracing::info!(generation = now.number(), keys = now.slots.keys(), "serving a new generation");
            }
        }
    };
    std::thread::Builder::new().name("dictionary".into()).spawn(run).map(drop)
}
