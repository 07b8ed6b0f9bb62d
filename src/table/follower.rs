//! A reader that follows the writer of a table in another process.
//!
//! Not here: how a handle keeps one checkpoint (`pager/file/held.rs`).

use super::handle::Table;
use super::options::TableOptions;
use crate::error::Result;
use std::path::Path;
use std::sync::{Arc, RwLock};

/// Reads a table that another process writes, always as of its last checkpoint.
///
/// A read-only [`Table`] keeps the checkpoint that it opened. A follower opens the table again once there is a newer
/// one. What [`newest`](Self::newest) returns stays as it is for as long as the caller keeps it, so several reads from
/// one such table agree with each other.
///
/// ```
/// use splitpoint::{Follower, Table};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("users.spt");
/// let writer = Table::open(&path)?; // elsewhere: another process
/// let follower = Follower::open(&path)?;
/// writer.put(b"alice", b"admin")?;
/// assert_eq!(follower.get(b"alice")?, None);
/// writer.checkpoint()?;
/// assert_eq!(follower.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
/// let kept = follower.newest()?;
/// writer.remove(b"alice")?;
/// writer.checkpoint()?;
/// assert!(kept.contains(b"alice")? && !follower.newest()?.contains(b"alice")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follower {
    newest: RwLock<Arc<Table>>,
}

impl Follower {
    /// Follows the table at `path` with the default options.
    ///
    /// # Errors
    /// Those of [`TableOptions::open`] for reading.
    pub fn open(path: impl AsRef<Path>) -> Result<Follower> {
        TableOptions::new().follow(path)
    }

    /// The table as of its last checkpoint.
    ///
    /// Two system calls if that is the one of the last call. Otherwise it opens the table, with an empty cache, and
    /// other threads wait. The frames of an earlier checkpoint that a caller still has are kept for it on the disk.
    ///
    /// # Errors
    /// Those of [`TableOptions::open`] for reading.
    pub fn newest(&self) -> Result<Arc<Table>> {
        let newest = self.newest.read().unwrap_or_else(|e| e.into_inner()).clone();
        if newest.pager.file().is_last_checkpoint()? {
            return Ok(newest);
        }
        let mut newest = self.newest.write().unwrap_or_else(|e| e.into_inner());
        if let Some(newer) = newest.newer()? {
            *newest = Arc::new(newer);
        }
        Ok(newest.clone())
    }

    /// The value of `key` as of the last checkpoint.
    ///
    /// # Errors
    /// Those of [`newest`](Self::newest) and of [`Table::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.newest()?.get(key)
    }
}

impl Table {
    /// The table as of its last checkpoint, opened with the options of this read-only handle; `None` if this handle
    /// reads that one, or may write.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let writer = Table::open(&path)?;
    /// let mut reader = splitpoint::TableOptions::new().read_only(true).open(&path)?;
    /// writer.put(b"alice", b"admin")?;
    /// writer.checkpoint()?;
    /// if let Some(newer) = reader.newer()? {
    ///     reader = newer;
    /// }
    /// assert!(reader.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`TableOptions::open`] for reading.
    pub fn newer(&self) -> Result<Option<Table>> {
        match &self.options_to_read {
            Some(options) if !self.pager.file().is_last_checkpoint()? => {
                TableOptions::clone(options).open(self.pager.path()).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl TableOptions {
    /// Follows the table at `path`: opens it for reading, and again after each checkpoint of its writer.
    ///
    /// # Errors
    /// Those of [`open`](Self::open) for reading.
    pub fn follow(self, path: impl AsRef<Path>) -> Result<Follower> {
        Ok(Follower { newest: RwLock::new(Arc::new(self.read_only(true).open(path)?)) })
    }
}
