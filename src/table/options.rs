//! Options for creating and opening a table.

use crate::buckets::{FILL_PERCENT, PAGE_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{HashFunction, HashKind, USER_MISSING, USER_MISSING_HINT};
use crate::io::{Disk, PERMISSIONS, Storage};
use crate::pager::CacheLimit;
use crate::pager::wal::{BlockLimits, Safety};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Which failures a completed write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Writes reach the file with the next checkpoint, [`Table::sync`](crate::Table::sync) or close: for bulk loads. A
    /// crash restores the state of the last of these.
    None,
    /// Survives the end of the process, however it ends.
    #[default]
    Os,
    /// Survives a power loss once the call has returned. The same holds for answers: an `insert_new`, `remove` or
    /// `update` that changes nothing waits until the writes that it depends on are durable. Lookups and scans do not
    /// wait, and may see another thread's write before that write has returned.
    Sync,
}

impl Durability {
    /// The durability of logged writes; `None`: nothing is logged.
    pub(super) fn safety(self) -> Option<Safety> {
        match self {
            Durability::None => None,
            Durability::Os => Some(Safety::Process),
            Durability::Sync => Some(Safety::Disk),
        }
    }
}

/// Shorter values are stored as others are: a system call for each would cost more than the copies.
const STORED_BYTES_MIN: usize = if cfg!(test) { 600 } else { 2048 };

/// Called with the bytes of the log that were read, and the maximum.
pub(super) type OnReplay = Arc<dyn Fn(u64, u64) -> ControlFlow<()> + Send + Sync>;

/// How an open replays the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayPlan {
    pub block: BlockLimits,
    /// The number of parts of a block, a power of two; `None`: one per hardware thread, up to a limit.
    pub parts: Option<usize>,
    /// The number of changes in a block above which each part gets its own thread.
    pub threads_from: usize,
}

impl Default for ReplayPlan {
    fn default() -> Self {
        ReplayPlan { block: BlockLimits { bytes: 2 << 20, records: usize::MAX }, parts: None, threads_from: 4096 }
    }
}

/// Options for [`Table::open`](crate::Table::open) and [`Table::in_memory`](crate::Table::in_memory); start with
/// [`TableOptions::new`].
///
/// The options that shape the file (`page_bytes`, `fill_factor`, `fill_percent`, `expected_len`, `hash`, `seed`) apply
/// when it is created; an existing file keeps its own, and opening it with another *hash function* is an error.
///
/// ```
/// use splitpoint::{HashKind, TableOptions};
/// let table = TableOptions::new().page_bytes(512).fill_factor(8).hash(HashKind::Sip13).in_memory()?;
/// table.put(b"key", b"value")?;
/// # Ok::<(), splitpoint::Error>(())
/// ```
#[derive(Clone)]
pub struct TableOptions {
    pub(super) page_bytes: u32,
    pub(super) fill_factor: Option<u32>,
    pub(super) fill_percent: u32,
    pub(super) expected_len: u64,
    pub(super) cache_bytes: Option<u64>,
    pub(super) cache_frames_min: u32,
    pub(super) hash: Option<HashKind>,
    pub(crate) user_hash: Option<HashFunction>,
    pub(super) seed: Option<u64>,
    pub(super) read_only: bool,
    pub(super) checkpoint_only: bool,
    pub(super) only_keys: Option<Arc<HashSet<Vec<u8>>>>,
    pub(super) create: bool,
    pub(super) create_new: bool,
    pub(super) permissions: u32,
    pub(super) durability: Durability,
    pub(super) log_bytes: Option<u64>,
    pub(super) stored_bytes_min: usize,
    pub(super) inline_checkpoints: bool,
    pub(super) replay: ReplayPlan,
    pub(super) replay_progress: Option<OnReplay>,
    pub(super) table_id: Option<u64>,
    pub(super) publish_counters: bool,
    pub(crate) storage: Arc<dyn Storage>,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions::new()
    }
}

impl TableOptions {
    /// The defaults: 1-KiB pages, filled to 92 %, created if absent.
    pub fn new() -> Self {
        TableOptions {
            page_bytes: 1024,
            fill_factor: None,
            fill_percent: 92,
            expected_len: 0,
            cache_bytes: None,
            cache_frames_min: CacheLimit::FRAMES_MIN,
            hash: None,
            user_hash: None,
            seed: None,
            read_only: false,
            checkpoint_only: false,
            only_keys: None,
            create: true,
            create_new: false,
            permissions: PERMISSIONS,
            durability: Durability::default(),
            log_bytes: None,
            stored_bytes_min: STORED_BYTES_MIN,
            inline_checkpoints: false,
            replay: ReplayPlan::default(),
            replay_progress: None,
            table_id: None,
            publish_counters: false,
            storage: Arc::new(Disk),
        }
    }

    /// Bytes of a bucket's primary page (the paper's *bsize*): a power of two from 512 to 65,536.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Average number of pairs in a bucket at which the table grows (the paper's *ffactor*).
    ///
    /// A choice close to the best is `(average pair length + 4) * fill_factor >= page_bytes`, the paper's equation (1).
    /// Without this option the table counts bytes instead ([`fill_percent`](Self::fill_percent)), which satisfies that
    /// equation automatically.
    pub fn fill_factor(mut self, pairs: u32) -> Self {
        self.fill_factor = Some(pairs);
        self
    }

    /// The load at which the table grows: bytes of the pairs in percent of the bytes of primary pages, 10 to 400; 92 by
    /// default.
    ///
    /// A higher load takes less memory and makes more overflow pages: see docs/architecture.md, "Load".
    pub fn fill_percent(mut self, percent: u32) -> Self {
        self.fill_percent = percent;
        self
    }

    /// The expected number of pairs: the table starts with enough buckets for them, and needs no splits.
    pub fn expected_len(mut self, pairs: u64) -> Self {
        self.expected_len = pairs;
        self
    }

    /// Bytes of pages kept in memory; by default half of the machine's memory, or a quarter of the limit of the
    /// process's container or `ulimit -v`, if that is less. A table in memory with this option moves the rest to an
    /// unlinked temporary file. A table in a file writes changed pages to free room of that file, which grows by them
    /// until the next checkpoint.
    ///
    /// At least 64 frames. Memory may exceed the limit by 512 KiB, for evicted pages and new ones. The log is mapped.
    /// On Linux the file of a table is mapped, too, if it is larger than the limit but not than half of the machine's
    /// memory. The system's cache of mapped files counts as memory of the process, although the system can reclaim it.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// The hash function, by name; XXH3-64 by default. Replaces an earlier [`user_hash`](Self::user_hash), unless
    /// `kind` is [`HashKind::User`].
    pub fn hash(mut self, kind: HashKind) -> Self {
        self.hash = Some(kind);
        self.user_hash = self.user_hash.filter(|_| kind == HashKind::User);
        self
    }

    /// The user's own hash function. The file records its hash of a fixed key; opening it with a function that returns
    /// another hash is an error.
    ///
    /// A slow, uneven or panicking function does not harm the table. It must always return the same hash for the same
    /// key.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::TableOptions::new()
    ///     .user_hash("first eight bytes", |key| key.iter().take(8).fold(0, |hash, &byte| hash << 8 | u64::from(byte)))
    ///     .in_memory()?;
    /// table.put(b"alice", b"admin")?;
    /// assert!(table.contains(b"alice")?);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn user_hash(mut self, name: &str, function: impl Fn(&[u8]) -> u64 + Send + Sync + 'static) -> Self {
        self.hash = Some(HashKind::User);
        self.user_hash = Some(HashFunction::user(name, function));
        self
    }

    /// The seed of the hash function; random by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Opens for reading only: no file is changed or created.
    ///
    /// The handle has every write that had returned, with [`Durability::Os`] or [`Durability::Sync`], before it was
    /// opened, even if another process has the table open for writing. It reads the last checkpoint, and replays the
    /// log after it into its own memory; what exceeds [`cache_bytes`](Self::cache_bytes) goes to an unnamed temporary
    /// file. Later writes do not change it; [`Table::catch_up`](crate::Table::catch_up) and [`follow`](Self::follow)
    /// read them. Writes with [`Durability::None`] appear with the next checkpoint.
    ///
    /// The handle keeps its checkpoint while another process writes later ones, which costs disk space for the pages
    /// that change. Without disk space for them, reads return [`ErrorKind::Stale`](crate::ErrorKind). On network file
    /// systems, and on systems other than Linux, a table that is open for writing can be read with
    /// [`checkpoint_only`](Self::checkpoint_only) alone.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let writer = Table::open(&path)?;
    /// let reader = splitpoint::TableOptions::new().read_only(true).open(&path)?;
    /// assert!(reader.put(b"alice", b"admin").is_err());
    /// writer.put(b"bob", b"guest")?;
    /// assert!(!reader.contains(b"bob")?);
    /// assert!(splitpoint::TableOptions::new().read_only(true).open(&path)?.contains(b"bob")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// With [`read_only`](Self::read_only): reads only the last checkpoint, without the log's later changes. Opening
    /// takes constant time, however long the log is.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::{Table, TableOptions};
    /// let writer = Table::open(&path)?;
    /// writer.put(b"alice", b"admin")?;
    /// let last_checkpoint = || TableOptions::new().read_only(true).checkpoint_only(true).open(&path);
    /// assert!(!last_checkpoint()?.contains(b"alice")?);
    /// writer.checkpoint()?;
    /// assert!(last_checkpoint()?.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint_only(mut self, checkpoint_only: bool) -> Self {
        self.checkpoint_only = checkpoint_only;
        self
    }

    /// With [`read_only`](Self::read_only): replays only the log's changes of these keys. Lookups of these keys are
    /// right; everything else is as of the last checkpoint or later. For a long log this takes less time than a full
    /// replay.
    #[doc(hidden)] // the program's
    pub fn only_keys(mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.only_keys = Some(Arc::new(keys.into_iter().collect()));
        self
    }

    /// Whether to create the file if it is absent: yes by default.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Creates the file; opening fails if it exists and is not empty.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::TableOptions;
    /// let new = || TableOptions::new().create_new(true).open(&path);
    /// new()?.put(b"alice", b"admin")?;
    /// assert!(new().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Permissions of a file that is created, before the umask is applied; 0o666 by default. Its log has the
    /// same.
    pub fn permissions(mut self, permissions: u32) -> Self {
        self.permissions = permissions;
        self
    }

    /// Which failures a completed write survives, unless it asks for another durability
    /// ([`Table::with`](crate::Table::with)); see [`Durability`].
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::{Durability, Table, TableOptions};
    /// let table = TableOptions::new().durability(Durability::Sync).open(&path)?;
    /// table.put(b"alice", b"admin")?; // waits for the disk
    /// table.with(Durability::None).put(b"a cache", b"may be lost")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Maximum size of the write-ahead log; by default the size of the table, at least 256 MiB. When half of it is
    /// full, a checkpoint is made.
    ///
    /// A larger log means fewer checkpoints and a longer replay after a crash. A single larger write makes the log
    /// exceed this.
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = Some(bytes);
        self
    }

    /// Calls `progress` while an open replays the log after a crash, from the first block of records on, with the bytes
    /// read and the maximum of bytes to read. It is not called if there is nothing to replay. If it returns a break,
    /// the open fails with [`ErrorKind::Stopped`](crate::ErrorKind), and the next open replays again.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::TableOptions;
    /// use std::ops::ControlFlow;
    /// let table = TableOptions::new()
    ///     .replay_progress(|done, most| {
    ///         eprintln!("{done} of at most {most} bytes replayed");
    ///         ControlFlow::Continue(())
    ///     })
    ///     .open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replay_progress(mut self, progress: impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.replay_progress = Some(Arc::new(progress));
        self
    }

    /// Writes the table's counters to a file next to it, `<path>-stats`, a few times a second while it is open, so that
    /// other processes can watch it: [`PublishedCounters`](crate::PublishedCounters). Off by default.
    ///
    /// A separate thread writes them, and ignores errors. Only for tables in files that are open for writing.
    pub fn publish_counters(mut self, publish: bool) -> Self {
        self.publish_counters = publish;
        self
    }

    /// The number by which a new table recognizes its log; random by default. Set it only for golden
    /// files, which must have the same bytes each time: two tables with the same number may use each other's log.
    #[doc(hidden)]
    pub fn table_id(mut self, id: u64) -> Self {
        self.table_id = Some(id);
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if !PAGE_BYTES.contains(&self.page_bytes) || !self.page_bytes.is_power_of_two() {
            return invalid(format!("page_bytes is {}, expected a power of two from 512 to 65536", self.page_bytes));
        }
        if !FILL_PERCENT.contains(&self.fill_percent) {
            return invalid(format!("fill_percent is {}, expected 10 to 400", self.fill_percent));
        }
        if self.hash == Some(HashKind::User) && self.user_hash.is_none() {
            return Err(Error::new(ErrorKind::InvalidArgument, USER_MISSING).with_hint(USER_MISSING_HINT));
        }
        if self.fill_factor == Some(0) {
            return invalid("fill_factor is 0, expected 1 or more pairs a bucket".into());
        }
        if self.read_only && self.publish_counters {
            return invalid("read_only and publish_counters exclude each other: a reader writes no file".into());
        }
        if self.only_keys.is_some() && !self.read_only {
            return invalid("only_keys is for read_only handles: a writer needs all changes in the log".into());
        }
        if self.checkpoint_only && !self.read_only {
            return invalid("checkpoint_only is for read_only handles: a writer needs the changes in the log".into());
        }
        if self.read_only && self.create_new {
            return invalid("read_only and create_new exclude each other".into());
        }
        if self.permissions & !0o777 != 0 {
            return invalid(format!("permissions are {:#o}, expected 0 to 0o777", self.permissions));
        }
        if self.expected_len > 1 << 40 {
            return invalid(format!("expected_len is {}, expected at most 2^40", self.expected_len));
        }
        Ok(())
    }

    pub(super) fn cache_limit(&self, bytes: u64) -> CacheLimit {
        CacheLimit { bytes, frames_min: self.cache_frames_min }
    }

    /// The hash function of a new table.
    pub(super) fn hash_function(&self) -> HashFunction {
        let seed = self.seed.unwrap_or_else(crate::pager::random_u64);
        self.user_hash.clone().unwrap_or_else(|| HashFunction::new(self.hash.unwrap_or(HashKind::DEFAULT), seed))
    }
}
