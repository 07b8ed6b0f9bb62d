//! Opening the key space: tables in memory, or one file per database.
//!
//! ```text
//! memory   nothing to do: a table is created when its database gets its first key
//! file     open FILE, and FILE-db1, ... if they exist -> read the header pair
//! ```

use super::collections::counts::Counts;
use super::heads::heads_by;
use super::record::MARK_BYTES;
use super::swap::Order;
use super::upkeep::eviction::{Eviction, MemoryLimit};
use super::{DATABASE_COUNT, Database, Gate, KeySpace, Place, Result, Watched, marks, now_ms};
use crate::dictionary::Served;
use crate::recovery::Recovery;
use splitpoint::{Durability, Error, ErrorKind, HashKind, Table, TableOptions};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};

/// How to open a [`KeySpace`].
#[derive(Clone, Debug, Default)]
pub struct SpaceOptions {
    /// The table file of database 0; without one all databases are in memory.
    pub file: Option<PathBuf>,
    /// Whether changes of a file are logged. To reply only after they are on the disk, call [`KeySpace::sync`] before
    /// the reply; one call can serve many connections.
    pub logged: bool,
    /// Bytes of a file's pages kept in memory; by default that of `TableOptions::cache_bytes`.
    pub cache_bytes: Option<u64>,
    /// Bytes of the log of a file; by default that of `TableOptions::log_bytes`.
    pub log_bytes: Option<u64>,
    /// Receives the progress of a log replay, and may end it.
    pub recovery: Option<Arc<Recovery>>,
    /// The number of pairs to expect in database 0.
    pub expected_len: u64,
    /// The memory limit, 0 for none.
    pub max_memory_bytes: u64,
    /// The eviction policy at that limit.
    pub eviction: Eviction,
}

impl KeySpace {
    /// Opens the files, or creates empty databases in memory.
    ///
    /// O(log to replay).
    ///
    /// # Errors
    /// Returns the errors of [`TableOptions::open`] and [`TableOptions::in_memory`], or
    /// [`ErrorKind::Version`](splitpoint::ErrorKind) for a file in which another version stored lifetimes.
    pub fn open(options: SpaceOptions) -> Result<KeySpace> {
        // Clients could guess a seed that comes only from the clock; they cannot guess the seed of a memory table.
        let seed = TableOptions::new().in_memory()?.hash_function().seed();
        let (max_memory, eviction) = (options.max_memory_bytes, options.eviction);
        let (mut databases, mut order) = (no_databases(), Order::default());
        let place = match options.file.clone() {
            None => {
                let table = memory_table().expected_len(options.expected_len).in_memory()?;
                databases[0].table.store(Some(Arc::new(table)));
                Place::Memory
            }
            Some(path) => {
                order = Order::read(&path)?;
                for (number, database) in databases.iter_mut().enumerate() {
                    let number = order.file_of(number);
                    if let Some(table) = open_file(&options, &path, number, number == 0)? {
                        database.load(table, &file_of(&path, number))?;
                    }
                }
                Place::File(Box::new(options), path)
            }
        };
        let space = KeySpace { order: Mutex::new(order), ..Self::of(databases, place, seed) };
        space.limit_memory(max_memory, eviction);
        Ok(space)
    }

    /// The key space of a table file that the caller has opened, for a program that stores collections in it. Files of
    /// other databases are opened with `options`, and created when they are needed.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open), and one if SWAPDB has exchanged databases of the file.
    pub(crate) fn over_table(table: Table, path: PathBuf, options: SpaceOptions) -> Result<KeySpace> {
        let seed = TableOptions::new().in_memory()?.hash_function().seed();
        let mut databases = no_databases();
        if Order::read(&path)? != Order::default() {
            let what = format!("{}: SWAPDB has exchanged its databases", path.display());
            return Err(Error::new(ErrorKind::WrongTypes, what).with_hint("Load into another file.").into());
        }
        databases[0].load(table, &path)?;
        for (number, database) in databases.iter_mut().enumerate().skip(1) {
            if let Some(table) = open_file(&options, &path, number, false)? {
                database.load(table, &file_of(&path, number))?;
            }
        }
        Ok(Self::of(databases, Place::File(Box::new(options), path), seed))
    }

    /// The tables of the databases, with their numbers.
    pub(crate) fn into_tables(self) -> impl Iterator<Item = (usize, Table)> {
        let tables = self.databases.into_iter().map(|database| database.table.into_inner());
        tables.enumerate().filter_map(|(number, table)| Some((number, Arc::into_inner(table?)?)))
    }

    /// A read-only key space whose database 0 is a dictionary.
    ///
    /// # Errors
    /// Returns the errors of [`TableOptions::in_memory`].
    pub(crate) fn over(dictionary: Arc<Served>) -> Result<KeySpace> {
        let seed = TableOptions::new().in_memory()?.hash_function().seed();
        Ok(KeySpace { dictionary: Some(dictionary), ..Self::of(no_databases(), Place::Memory, seed) })
    }

    fn of(databases: Vec<Database>, place: Place, seed: u64) -> KeySpace {
        KeySpace {
            databases,
            gate: Gate::new(),
            place,
            order: Mutex::default(),
            dictionary: None,
            watched: Watched::default(),
            observer: OnceLock::new(),
            memory: MemoryLimit::new(seed),
            // Larger than every number of an earlier run, which counted up from an earlier time.
            next_cas: AtomicU64::new(now_ms() << 20),
            wanted_keys: AtomicUsize::new(0),
            events: super::Events::default(),
            failures: super::failures::Failures::default(),
            script_bytes: AtomicU64::new(0),
            has_long_values: AtomicBool::new(false),
            cold: super::cold::Cold::default(),
        }
    }

    /// A new number that no client can guess.
    ///
    /// # Errors
    /// Returns the errors of [`TableOptions::in_memory`].
    pub(crate) fn new_secret(&self) -> Result<u64> {
        Ok(memory_table().in_memory()?.hash_function().seed())
    }

    /// Bytes that no client can guess.
    pub(super) fn random_mark(&self) -> Result<[u8; MARK_BYTES]> {
        let [a, b, c, d, e, f, ..] = memory_table().in_memory()?.hash_function().seed().to_le_bytes();
        Ok([a, b, c, d, e, f])
    }

    pub(super) fn new_table(&self) -> Result<Table> {
        Ok(memory_table().in_memory()?)
    }
}

fn no_databases() -> Vec<Database> {
    (0..DATABASE_COUNT).map(|_| Database::default()).collect()
}

/// A table in memory with a keyed hash function and a random seed, because keys are untrusted.
fn memory_table() -> TableOptions {
    TableOptions::new().hash(HashKind::Sip13)
}

/// Opens the file of this number; `None` if it is absent and `create` is false.
pub(super) fn open_file(options: &SpaceOptions, path: &Path, number: usize, create: bool) -> Result<Option<Table>> {
    let (first, path) = (path, file_of(path, number));
    let exists = path.exists();
    if !exists && !create {
        return Ok(None);
    }
    let mut table = TableOptions::new();
    if !exists {
        // An existing file keeps its own hash function.
        table = table.hash(HashKind::Sip13);
        // The other files get the permissions of database 0's file.
        if let Ok(metadata) = first.metadata() {
            table = table.permissions(metadata.permissions().mode() & 0o777);
        }
    }
    if let Some(bytes) = options.cache_bytes {
        table = table.cache_bytes(bytes);
    }
    if let Some(bytes) = options.log_bytes {
        table = table.log_bytes(bytes);
    }
    if let Some(recovery) = options.recovery.clone() {
        let file = path.clone();
        table = table.replay_progress(move |done, most| recovery.report(&file, done, most));
    }
    let durability = if options.logged { Durability::Os } else { Durability::None };
    let table = table.durability(durability).expected_len(options.expected_len).open(&path)?;
    refuse_numbers(&table, &path)?;
    Ok(Some(table))
}

/// Refuses a typed table whose keys or values are not strings: a client would store text where its program
/// reads numbers.
fn refuse_numbers(table: &Table, path: &Path) -> Result<()> {
    let types = table.types();
    let are_strings = |types: &str| types.split(" -> ").all(|name| matches!(name, "" | "bytes" | "str"));
    if are_strings(&types) {
        return Ok(());
    }
    let what = format!("{}: holds {types}, and clients of a server store strings", path.display());
    Err(Error::new(ErrorKind::WrongTypes, what).with_hint("Serve another file.").into())
}

/// The number of the database in the table file itself, then the others with their files, which may be absent.
///
/// # Errors
/// Fails if the order of the databases is damaged.
pub(crate) fn databases_of(path: &Path) -> splitpoint::Result<(u64, Vec<(u64, PathBuf)>)> {
    let order = Order::read(path)?;
    let (first, others): (Vec<_>, Vec<_>) = (0..DATABASE_COUNT).partition(|&database| order.file_of(database) == 0);
    let others = others.into_iter().map(|database| (database as u64, file_of(path, order.file_of(database))));
    Ok((first[0] as u64, others.collect()))
}

/// The file of this number: `F` for 0, `F-db1` for 1.
fn file_of(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    if number > 0 {
        name.push(format!("-db{number}"));
    }
    PathBuf::from(name)
}

impl Database {
    /// Adds a table from the file at `path`.
    fn load(&mut self, table: Table, path: &Path) -> Result<()> {
        let mark = marks::of_values(&table).map_err(|error| {
            let at_file = Error::new(error.kind(), format!("{}: {}", path.display(), error.message()));
            error.hint().map(str::to_owned).into_iter().fold(at_file, Error::with_hint)
        })?;
        if let Some(mark) = mark {
            self.heads.store(heads_by(mark), Relaxed);
            self.may_expire.store(true, Relaxed);
            self.fields_may_expire.store(true, Relaxed);
        }
        if let Some(counts) = Counts::of_file(&table)? {
            self.set_counts(counts, true);
        }
        self.table.store(Some(Arc::new(table)));
        Ok(())
    }
}
