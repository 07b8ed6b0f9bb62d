//! Readers of a table that another process writes: they replay its log in memory of their own, and go on at its end.
//!
//! ```text
//! open        hold the last checkpoint -> find the log's end -> replay up to it
//! catch_up    no newer checkpoint: replay what follows; else, or if the records are gone: open again
//! ```
//!
//! A reader is a recovery that never writes. What a handle shows changes only in [`Table::catch_up`], which takes it,
//! so nobody sees half of a replay.
//!
//! Not here: how a handle keeps one checkpoint (`pager/file/held.rs`), which end of a log counts
//! (`pager/wal/follow.rs`).

use super::handle::Table;
use super::options::TableOptions;
use crate::error::Result;
use crate::io::{forked_since, forks};
use crate::pager::resolve;
use crate::pager::wal::{Ahead, Log, Reader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Reads a table that another process writes, always as of the last write.
///
/// A read-only [`Table`] does not change after it is opened. A follower does: it has each write that returned, with
/// [`Durability::Os`](super::Durability) or [`Durability::Sync`](super::Durability), before the call. The table that
/// [`newest`](Self::newest) returns does not change while the caller holds it, so several reads from it are consistent.
///
/// ```
/// use splitpoint::{Follower, Table};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("users.spt");
/// let writer = Table::open(&path)?; // elsewhere: another process
/// let follower = Follower::open(&path)?;
/// assert_eq!(follower.get(b"alice")?, None);
/// writer.put(b"alice", b"admin")?;
/// assert_eq!(follower.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
/// let kept = follower.newest()?;
/// writer.remove(b"alice")?;
/// assert!(kept.contains(b"alice")? && !follower.newest()?.contains(b"alice")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower {
    options: TableOptions,
    path: PathBuf,
    /// `None` after an open that failed.
    newest: RwLock<Option<Arc<Table>>>,
    /// Identifies this process, see `io::forks`.
    forks: u32,
}

impl Follower {
    /// Opens the table at `path` with the default options, to follow its writer.
    ///
    /// # Errors
    /// The errors of [`TableOptions::open`] for reading.
    pub fn open(path: impl AsRef<Path>) -> Result<Follower> {
        TableOptions::new().follow(path)
    }

    /// Returns the table as of the last write.
    ///
    /// Takes a few dozen system calls if nothing was written since the last call. Otherwise it replays the writes, and
    /// other threads wait. It opens the table again if there is a newer checkpoint, or if a caller still holds the
    /// table that an earlier call returned.
    ///
    /// A child of the process that made the follower opens the table at each call: make another follower there.
    ///
    /// # Errors
    /// The errors of [`TableOptions::open`] for reading.
    pub fn newest(&self) -> Result<Arc<Table>> {
        if forked_since(self.forks) {
            // A thread that does not exist here may hold the lock.
            return Ok(Arc::new(self.options.clone().open(&self.path)?));
        }
        let known = self.newest.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known
            && !known.is_behind()?
        {
            return Ok(known);
        }
        self.update()
    }

    /// Brings the table up to date, unless another thread has done so.
    pub(super) fn update(&self) -> Result<Arc<Table>> {
        let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = newest.as_ref()
            && !newest.is_behind()?
        {
            return Ok(newest.clone());
        }
        // Nobody else has it: it may change.
        let own = newest.take().map(Arc::try_unwrap);
        let table = match own {
            Some(Ok(table)) => table.move_on()?,
            Some(Err(_)) | None => self.options.clone().open(&self.path)?,
        };
        Ok(newest.insert(Arc::new(table)).clone())
    }

    /// Returns the value of `key` as of the last write.
    ///
    /// # Errors
    /// The errors of [`newest`](Self::newest) and of [`Table::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.newest()?.get(key)
    }
}

impl Table {
    /// Returns the table as of the last write, opened with the options of this read-only handle; `None` if this handle
    /// is up to date, or may write. [`catch_up`](Self::catch_up) costs less, and changes the handle.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let writer = Table::open(&path)?;
    /// let mut reader = splitpoint::TableOptions::new().read_only(true).open(&path)?;
    /// writer.put(b"alice", b"admin")?;
    /// if let Some(newer) = reader.newer()? {
    ///     reader = newer;
    /// }
    /// assert!(reader.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`TableOptions::open`] for reading.
    pub fn newer(&self) -> Result<Option<Table>> {
        if self.is_behind()? { self.open_again() } else { Ok(None) }
    }

    /// Updates a read-only handle: afterwards it has every write that returned, with
    /// [`Durability::Os`](super::Durability) or [`Durability::Sync`](super::Durability), before this call. Returns any
    /// other handle unchanged.
    ///
    /// Replays the records added to the log. If there is a newer checkpoint, it opens the table again, with an empty
    /// cache.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let writer = Table::open(&path)?;
    /// let mut reader = splitpoint::TableOptions::new().read_only(true).open(&path)?;
    /// writer.put(b"alice", b"admin")?;
    /// reader = reader.catch_up()?;
    /// assert!(reader.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`TableOptions::open`] for reading.
    pub fn catch_up(self) -> Result<Table> {
        if self.is_behind()? { self.move_on() } else { Ok(self) }
    }

    /// Updates a handle that is behind.
    fn move_on(mut self) -> Result<Table> {
        let in_place = !self.pager.is_forked() && self.pager.file().is_last_checkpoint()?;
        if in_place && self.replay_what_follows().is_ok_and(|found| found != Ahead::Gone) {
            return Ok(self);
        }
        Ok(self.open_again()?.unwrap_or(self))
    }

    fn open_again(&self) -> Result<Option<Table>> {
        let options = self.options_to_read.as_deref().cloned();
        options.map(|options| options.open(self.pager.path())).transpose()
    }

    /// Whether there is anything that this handle, which only reads, does not show.
    fn is_behind(&self) -> Result<bool> {
        let Some(options) = &self.options_to_read else { return Ok(false) };
        if self.pager.is_forked() {
            return Ok(true); // a child gets a handle of its own
        }
        if !self.pager.file().is_last_checkpoint()? {
            return Ok(true);
        }
        let Some(log) = self.pager.log().filter(|_| !options.checkpoint_only) else { return Ok(false) };
        let following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = following.as_ref() else { return Ok(true) };
        Ok(log.ahead_of(reader, || self.pager.file().checkpoint_in_file())? != Ahead::Nothing)
    }

    /// Called once the checkpoint is open: replays the log up to its present end.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind) if a later checkpoint has the log's records, which are gone.
    pub(super) fn begin_following(&mut self) -> Result<()> {
        if let Some(log) = self.pager.clone().log() {
            *self.following.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(log.reader()?);
            if self.replay_what_follows()? == Ahead::Gone {
                return Err(self.pager.file().stale());
            }
        }
        self.pager.end_replay();
        Ok(())
    }

    /// Replays what was added to the log. If that fails, or the records are gone, the handle must not be read.
    pub(super) fn replay_what_follows(&mut self) -> Result<Ahead> {
        let pager = self.pager.clone();
        let following = self.following.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (Some(log), Some(mut reader)) = (pager.log(), following.take()) else { return Ok(Ahead::Gone) };
        self.replaying = true;
        pager.begin_replay();
        let found = self.follow(log, &mut reader)?;
        pager.end_replay();
        self.replaying = false;
        self.replayed = reader.records();
        *self.following.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(reader);
        Ok(found)
    }

    fn follow(&self, log: &Log, reader: &mut Reader) -> Result<Ahead> {
        let options = self.options_to_read.as_deref();
        let plan = options.map(|options| options.replay).unwrap_or_default();
        let progress = options.and_then(|options| options.replay_progress.as_ref());
        let last_checkpoint = || self.pager.file().checkpoint_in_file();
        let found = log.lead_on(reader, last_checkpoint)?;
        if found != Ahead::Records {
            return Ok(found);
        }
        let replayed = self.replay_log(reader, plan, progress);
        // The records may have been written over meanwhile.
        if (replayed.is_err() || !reader.is_at_end()) && !log.has_records_of(reader, last_checkpoint)? {
            return Ok(Ahead::Gone);
        }
        replayed.map(|()| found)
    }
}

impl TableOptions {
    /// Opens the table at `path` for reading, and follows its writer from write to write.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open) for reading.
    pub fn follow(self, path: impl AsRef<Path>) -> Result<Follower> {
        // Absolute, as the process may change its directory.
        let path = resolve(self.storage.as_ref(), path.as_ref())?;
        let options = self.read_only(true);
        let first = options.clone().open(&path)?;
        Ok(Follower { options, path, newest: RwLock::new(Some(Arc::new(first))), forks: forks() })
    }
}
