//! Creating and opening a table, and the replay of the log by an open.
//!
//! ```text
//! open   Pager::open takes the last checkpoint -> root -> hash function -> buckets -> replay the log
//! ```
//!
//! Not here: the options (`options.rs`), the replay (`replay.rs`).

use super::gate::Gate;
use super::handle::Table;
use super::options::{Durability, OnReplay, ReplayPlan, TableOptions};
use super::publish::Publisher;
use super::types::Types;
use crate::buckets::root::{Root, refuse_other_tables};
use crate::buckets::{Buckets, Fill, Totals};
use crate::error::{Error, ErrorKind, Result};
use crate::events::event;
use crate::hash::{HashFunction, HashKind};
use crate::io::memory_share_bytes;
use crate::linear;
use crate::pager::{Create, FRAME_BYTES_MIN, HolderLock, OpenOptions, Pager};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

impl TableOptions {
    /// Opens or creates the table in the file at `path`. Recovers it after a crash.
    ///
    /// Symbolic links are followed. Do not rename or remove the file while it is open: its log keeps the old
    /// name, and the handle refuses writes once it needs another file by that name.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// let table = splitpoint::TableOptions::new().page_bytes(4096).open(&path)?;
    /// table.put(b"alice", b"admin")?;
    /// drop(table);
    /// assert!(splitpoint::TableOptions::new().create(false).open(&path)?.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; [`ErrorKind::Locked`] if another process or handle has it open for writing;
    /// [`ErrorKind::NotATable`], [`ErrorKind::Version`], [`ErrorKind::Corrupt`] for the file's content;
    /// [`ErrorKind::WrongHash`]; [`ErrorKind::InvalidArgument`] for options out of range, if `<path>-stats` exists and
    /// is another file, and for writing a file that has several hard links or is itself a mount point: its log
    /// would not be found under its other name. Such a file can be read while it is not open for writing;
    /// otherwise reading is [`ErrorKind::Locked`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Table> {
        self.check()?;
        Table::open_with(self, path.as_ref())
    }

    /// Creates a table in memory.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for options out of range; [`ErrorKind::OutOfMemory`]; with
    /// [`cache_bytes`](Self::cache_bytes) also [`ErrorKind::Io`] for the temporary file.
    pub fn in_memory(self) -> Result<Table> {
        self.check()?;
        if self.publish_counters {
            return Err(Error::new(ErrorKind::InvalidArgument, "publish_counters is for tables in files")
                .with_hint("For a table in memory call Table::counters."));
        }
        Table::in_memory_with(self)
    }
}

impl Table {
    /// Opens the table in the file at `path` with the default options; creates it if it is absent.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// Table::open(&path)?.put(b"alice", b"admin")?; // creates the file
    /// assert!(Table::open(&path)?.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`TableOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Table> {
        TableOptions::new().open(path)
    }

    /// Creates a table in memory with the default options.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// assert_eq!(table.len(), 1);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if its address space cannot be reserved.
    pub fn in_memory() -> Result<Table> {
        TableOptions::new().in_memory()
    }

    fn in_memory_with(options: TableOptions) -> Result<Table> {
        let frame_bytes = FRAME_BYTES_MIN.max(options.page_bytes as usize);
        let pager = match options.cache_bytes {
            None => Pager::in_memory(frame_bytes, options.storage.clone())?,
            Some(bytes) => Pager::create_scratch(options.storage.clone(), frame_bytes, options.cache_limit(bytes))?,
        };
        let mut table = Table::make(Arc::new(pager), &options)?;
        table.presize(&options)?;
        Ok(table)
    }

    pub(super) fn open_with(options: TableOptions, path: &Path) -> Result<Table> {
        // Only a handle that reads can be stale: another process has written checkpoints while this one replayed the
        // log, or there are no locks to keep the one that it reads.
        const TRIES: usize = 100;
        for _ in 1..TRIES {
            match Table::open_once(options.clone(), path) {
                Err(e) if e.kind() == ErrorKind::Stale => {}
                opened => return opened,
            }
        }
        Table::open_once(options, path)
    }

    fn open_once(options: TableOptions, path: &Path) -> Result<Table> {
        let frame_bytes = FRAME_BYTES_MIN.max(options.page_bytes as usize);
        let cache = options.cache_limit(options.cache_bytes.unwrap_or_else(memory_share_bytes));
        let create = if options.create_new {
            Create::Always
        } else if options.create && !options.read_only {
            Create::IfAbsent
        } else {
            Create::Never
        };
        let opening = OpenOptions {
            create,
            permissions_if_new: options.permissions,
            frame_bytes_if_new: frame_bytes,
            table_id_if_new: options.table_id,
            cache,
            read_only: options.read_only,
            replays: !options.checkpoint_only,
            safety: options.durability.safety(),
            log_bytes: options.log_bytes,
        };
        let (pager, root) = Pager::open(options.storage.clone(), path, opening)?;
        let mut table = match root {
            Some(root) => {
                let mut table = Table::from_root(Arc::new(pager), &options, &root)?;
                if options.read_only {
                    table.begin_following()?;
                } else {
                    table.replay(options.replay, options.replay_progress.as_ref())?;
                }
                table
            }
            None => {
                let pager = Arc::new(pager);
                Table::make_in_file(pager.clone(), &options).inspect_err(|_| pager.undo_make())?
            }
        };
        if options.publish_counters {
            let (activity, counted) = (table.buckets.activity().clone(), table.gate.counted().clone());
            table.publisher = Mutex::new(Some(Publisher::start(activity, counted, table.pager.clone())?));
        }
        let (path, pairs, replayed) = (table.pager.path().display(), table.len(), table.replayed);
        event!(info, "{path}: opened, {pairs} pairs, {replayed} changes replayed from the log");
        Ok(table)
    }

    /// A new, empty table in an empty file.
    fn make_in_file(pager: Arc<Pager>, options: &TableOptions) -> Result<Table> {
        let mut table = Table::make(pager, options)?;
        // If this fails, the drop of the table writes nothing.
        *table.closed.get_mut() = true;
        table.pager.begin_table(&table.root())?;
        if options.expected_len > 0 {
            table.presize(options)?;
            table.checkpoint()?;
        }
        *table.closed.get_mut() = false;
        Ok(table)
    }

    /// A new, empty table of one bucket.
    fn make(pager: Arc<Pager>, options: &TableOptions) -> Result<Table> {
        let fill = Fill { percent: options.fill_percent, pairs: options.fill_factor };
        let page_bytes = options.page_bytes as usize;
        let buckets = Buckets::create(pager.clone(), options.hash_function(), page_bytes, fill)?;
        Ok(Table::from_parts(pager, buckets, Totals::default(), options))
    }

    /// Makes the buckets for the expected pairs.
    fn presize(&mut self, options: &TableOptions) -> Result<()> {
        self.buckets.presize(linear::State::presized(expected_buckets(options)).max_bucket)
    }

    /// The table that a file's root describes.
    fn from_root(pager: Arc<Pager>, options: &TableOptions, root: &[u8]) -> Result<Table> {
        refuse_other_tables(root, pager.path())?;
        let root = Root::parse(root, pager.frame_bytes()).map_err(|what| pager.corrupt(format!("header: {what}")))?;
        let hash = choose_hash(&pager, options, &root)?;
        let buckets = Buckets::from_root(pager.clone(), hash, &root)?;
        let table = Table::from_parts(pager, buckets, root.totals, options);
        *table.types.lock().expect("no panic while held") = Types::recorded(root.types);
        Ok(table)
    }

    fn from_parts(pager: Arc<Pager>, buckets: Buckets, totals: Totals, options: &TableOptions) -> Table {
        Table {
            gate: Gate::new(totals, buckets.load_step_bytes()),
            pager,
            buckets,
            durability: options.durability,
            // Without a log, a copy to memory is enough until the next checkpoint.
            stored_bytes_min: if options.durability == Durability::None {
                usize::MAX
            } else {
                options.stored_bytes_min
            },
            types: Mutex::default(),
            publisher: Mutex::default(),
            compaction: HolderLock::default(),
            closed: AtomicBool::new(false),
            replaying: false,
            replayed: 0,
            following: Mutex::default(),
            inline_checkpoints: options.inline_checkpoints,
            options_to_read: options.read_only.then(|| Box::new(options.clone())),
        }
    }

    /// Replays the log's changes since the last checkpoint.
    pub(super) fn replay(&mut self, plan: ReplayPlan, progress: Option<&OnReplay>) -> Result<()> {
        let pager = self.pager.clone();
        let Some(log) = pager.log() else { return Ok(()) };
        pager.reserve_growth(false);
        self.replaying = true;
        // If the replay fails, nothing may be written: the log has the only copy of the changes not yet replayed.
        *self.closed.get_mut() = true;
        let mut reader = log.reader()?;
        self.replay_log(&mut reader, plan, progress)?;
        self.replayed = log.continue_after(reader)?;
        *self.closed.get_mut() = false;
        self.replaying = false;
        pager.reserve_growth(true);
        pager.begin_reuse()?;
        pager.values().note_found();
        match self.durability {
            _ if pager.values().has_replayed() => self.checkpoint_replayed(),
            Durability::Sync => pager.values().sync(),
            Durability::Os | Durability::None => Ok(()),
        }
    }

    /// Returns the number of changes replayed from the log: at the open, because the process or machine had died before
    /// a checkpoint; in a read-only handle, also since then.
    #[doc(hidden)] // the C library's
    pub fn replayed(&self) -> u64 {
        self.replayed
    }
}

/// Returns the function that the file was made with. Fails if the options name another.
fn choose_hash(pager: &Pager, options: &TableOptions, root: &Root) -> Result<HashFunction> {
    let path = pager.path().display();
    let &Root { hash_id: id, seed, check_value, .. } = root;
    let kind = HashKind::from_id(id).ok_or_else(|| {
        Error::new(ErrorKind::Version, format!("{path}: hash function {id} is unknown to this version"))
            .with_hint("Upgrade splitpoint.")
    })?;
    let wrong = |what: String| Error::new(ErrorKind::WrongHash, format!("{path}: {what}"));
    if let Some(asked) = options.hash.filter(|&asked| asked != kind) {
        return Err(wrong(format!("made with hash function {}, opened with {}", kind.name(), asked.name()))
            .with_hint("To use the file's function, open it without one."));
    }
    if let Some(asked) = options.seed.filter(|&asked| asked != seed && kind.seeded()) {
        return Err(wrong(format!("made with seed {seed}, opened with {asked}"))
            .with_hint("To use the file's seed, open it without one."));
    }
    let hash = match (&options.user_hash, kind) {
        (Some(hash), HashKind::User) => hash.clone(),
        (None, HashKind::User) => {
            return Err(wrong("made with a user's own hash function".into())
                .with_hint("Pass that function to TableOptions::user_hash."));
        }
        _ => HashFunction::new(kind, seed),
    };
    if hash.check_value() != check_value {
        return Err(wrong(format!("made with another hash function than {}: its check value differs", hash.name())));
    }
    Ok(hash)
}

/// Buckets for the expected pairs.
fn expected_buckets(options: &TableOptions) -> u64 {
    // Estimate for an average pair: a key and a value of 16 bytes, slot and lengths.
    const PAIR_BYTES: u64 = 40;
    match options.fill_factor {
        Some(pairs) => options.expected_len.div_ceil(u64::from(pairs)),
        None => {
            let page = crate::buckets::page::capacity(options.page_bytes as usize) as u64
                * u64::from(options.fill_percent)
                / 100;
            (options.expected_len * PAIR_BYTES).div_ceil(page)
        }
    }
}
