//! Backups: a table in use copied to one complete file, and restored from it.
//!
//! ```text
//! a handle that writes    a checkpoint, then a copy of it as a reader makes it, which holds the checkpoint; writers
//!                         and further checkpoints continue
//! a handle that reads     a copy of its checkpoint (`pager/checkpoint/copy.rs`), with what it replayed from the log
//! a table in memory       its pairs are put into a new table; writers wait
//! ```
//!
//! The copy is written to a file with a temporary name in the directory of its destination, synced, then renamed: a
//! reader of the destination finds the old file or the complete new one. A backup is an ordinary table, and can be
//! opened in place. An earlier backup that is brought up to date gets a checkpoint, as a table in use does.
//!
//! Not here: copying a file that is being written (`pager/checkpoint/copy.rs`), checkpoints (`pager/checkpoint/`).

use super::handle::Table;
use super::options::{Durability, TableOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::fault::stopped;
use crate::hash::HashKind;
use crate::io::atomic::{AtomicFile, BACKUP};
use crate::io::{File, Granted, Mode, PERMISSIONS, Storage};
use crate::pager::copy::{HeldCopy, Target, copy_checkpoint, copy_file, copy_replayed, open_copy, table_id};
use crate::pager::wal::{Reader, has_segments, segments_of};
use crate::pager::{lock_unless_kept, resolve};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Options for saving and restoring a backup; start with [`Backup::new`].
///
/// ```
/// use splitpoint::{Backup, Table};
/// # let directory = tempfile::tempdir()?;
/// # let (path, copy) = (directory.path().join("users.spt"), directory.path().join("users.bak"));
/// let table = Table::open(&path)?;
/// table.put(b"alice", b"admin")?;
/// table.backup(&copy)?;
/// table.put(b"alice", b"nobody")?;
/// table.close()?;
///
/// Backup::new().overwrite(true).restore(&copy, &path)?;
/// assert_eq!(Table::open(&path)?.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Backup<'f> {
    overwrite: bool,
    options: TableOptions,
    progress: Box<dyn FnMut(u64, u64) -> ControlFlow<()> + 'f>,
}

/// Suffixes of the files of a table's log, in the order of their removal.
// These names are on disk.
const SIDECARS: [&str; 8] = ["-log0", "-log1", "-log2", "-log3", "-log4", "-log5", "-log6", "-log7"];

impl Default for Backup<'_> {
    fn default() -> Self {
        Backup::new()
    }
}

impl<'f> Backup<'f> {
    /// Creates options that overwrite nothing and report no progress.
    pub fn new() -> Self {
        let progress = Box::new(|_, _| ControlFlow::Continue(()));
        Backup { overwrite: false, options: TableOptions::new(), progress }
    }

    /// Whether to replace an existing file.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Options for opening the backup when [`restore`](Self::restore) checks it, such as a user's hash function.
    /// [`expected_len`](TableOptions::expected_len) also sizes the copy of a table in memory.
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Calls `progress` from time to time with the bytes copied and the total bytes. If it returns a break, the copy is
    /// removed, with [`ErrorKind::Stopped`].
    ///
    /// `progress` may read the table. Its calls that would wait for the end of the backup, such as writes to a table in
    /// memory, fail with [`ErrorKind::WouldDeadlock`].
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> ControlFlow<()> + 'f) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Copies an open table to `path`, as it is at one moment between two writes.
    ///
    /// A table in a file is synced first, and its other threads continue during the copy. Writers of a table in memory
    /// wait. A read-only handle copies the state that it shows.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if a file exists at `path` and may not be replaced; [`ErrorKind::Locked`] if that
    /// file is open for writing; [`ErrorKind::Io`] and [`ErrorKind::DiskFull`], and the copy is removed;
    /// [`ErrorKind::Forked`] in a child of the process that opened the table; the errors of [`Table::sync`].
    pub fn save(&mut self, table: &Table, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        // Checked first: in a child, the locks may be held by threads that do not exist there.
        table.pager.refuse_if_forked()?;
        if !table.pager.has_file() {
            return self.save_pairs(table, path);
        }
        self.replace(Some(table.pager.path()), path, |progress, new| {
            let mut step = |done, all| progress(done, all).is_continue();
            copy_table(table, &mut target_of(new, &mut step))
        })
    }

    /// Brings the earlier backup at `path` up to date: as [`save`](Self::save), but only what differs is read, and
    /// written to that file. A crash or an error leaves it as it was, but for changes that others made to it since its
    /// last checkpoint. Success undoes all that others changed.
    ///
    /// O(changes since), besides the block maps, a 340th of both files.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let (path, copy) = (directory.path().join("users.spt"), directory.path().join("users.bak"));
    /// use splitpoint::{Backup, Table};
    /// let table = Table::open(&path)?;
    /// table.backup(&copy)?;
    /// table.put(b"alice", b"admin")?;
    /// Backup::new().update(&table, &copy)?;
    /// assert_eq!(Table::open(&copy)?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the file is no backup of this table, or the table is in memory; the errors of
    /// [`save`](Self::save) and of [`TableOptions::open`].
    pub fn update(&mut self, table: &Table, path: impl AsRef<Path>) -> Result<()> {
        table.pager.refuse_if_forked()?;
        if !table.pager.has_file() {
            return Err(Error::new(ErrorKind::InvalidArgument, "a table in memory has no earlier backup")
                .with_hint("Save a new one."));
        }
        self.update_with(path.as_ref(), |target| copy_table(table, target))
    }

    /// Brings the earlier backup at `path` up to date with the table in the file at `from`, as
    /// [`update`](Self::update) does, while another process may be writing that.
    ///
    /// # Errors
    /// The errors of [`update`](Self::update) and [`save_file`](Self::save_file).
    pub fn update_file(&mut self, from: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let storage = self.options.storage.clone();
        let from = &resolve(storage.as_ref(), from.as_ref())?;
        if self.has_log(from)? {
            let table = self.options.clone().read_only(true).open(from)?;
            return self.update(&table, path);
        }
        self.update_with(path.as_ref(), |target| copy_file(&storage, from, target))
    }

    fn update_with(&mut self, path: &Path, copy: impl FnOnce(&mut Target<'_>) -> Result<bool>) -> Result<()> {
        let storage = self.options.storage.clone();
        let path = &resolve(storage.as_ref(), path)?;
        let file = open_copy(storage.as_ref(), path)?;
        let of = table_id(path, file.as_ref())?;
        let begin = || remove_log(storage.as_ref(), path, of.as_slice());
        let mut step = |done, all| (self.progress)(done, all).is_continue();
        if copy(&mut Target { file, path, begin: &begin, step: &mut step })? { Ok(()) } else { Err(stopped()) }
    }

    /// Copies the table in the file at `from` to `path`, while another process may be writing it. The copy has every
    /// write that a read-only [`TableOptions::open`] would show: also writes that are only in the log, whether their
    /// writer is alive or dead, unless the options ask for [`checkpoint_only`](TableOptions::checkpoint_only).
    ///
    /// # Errors
    /// The errors of [`save`](Self::save) and of a read-only [`TableOptions::open`]; [`ErrorKind::Locked`] if an open
    /// for writing must first complete an interrupted checkpoint.
    pub fn save_file(&mut self, from: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let storage = self.options.storage.clone();
        let from = &resolve(storage.as_ref(), from.as_ref())?;
        if self.has_log(from)? {
            let table = self.options.clone().read_only(true).open(from)?;
            return self.save(&table, path.as_ref());
        }
        self.replace(Some(from), path.as_ref(), |progress, new| {
            let mut step = |done, all| progress(done, all).is_continue();
            copy_file(&storage, from, &mut target_of(new, &mut step))
        })
    }

    /// Whether a copy of the file alone may lack changes that are to be copied.
    fn has_log(&self, from: &Path) -> Result<bool> {
        Ok(!self.options.checkpoint_only && has_segments(self.options.storage.as_ref(), from)?)
    }

    /// Replaces the table at `path` with a backup: copies it, checks the whole copy, and renames it to `path`. The old
    /// table is kept until then, but not its log: if the renaming fails, it has the state of its last checkpoint.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the backup has a fault, with nothing changed; else the errors of
    /// [`save_file`](Self::save_file), with [`ErrorKind::Locked`] also if the table is open for writing.
    pub fn restore(&mut self, backup: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        self.restore_checked(backup.as_ref(), path.as_ref()).map_err(|e| match e.kind() {
            ErrorKind::Corrupt => {
                e.with_hint("Nothing was restored. Take another backup, or salvage what can still be read.")
            }
            _ => e,
        })
    }

    fn restore_checked(&mut self, backup: &Path, path: &Path) -> Result<()> {
        let storage = self.options.storage.clone();
        let backup = &resolve(storage.as_ref(), backup)?;
        let options = self.options.clone().read_only(true);
        let has_log = self.has_log(backup)?;
        // Reports what is wrong with the backup before anything is copied.
        drop(options.clone().open(backup)?);
        self.replace(Some(backup), path, |progress, new| {
            let mut step = |done, all| progress(done, all).is_continue();
            let target = &mut target_of(new, &mut step);
            let copied = if has_log {
                // Somebody has written to the backup, and its file alone lacks that.
                copy_table(&options.clone().open(backup)?, target)?
            } else {
                copy_file(&storage, backup, target)?
            };
            if !copied {
                return Ok(false);
            }
            // Locked, it would seem open for writing.
            let _ = new.file().unlock();
            let faults = options.open(new.unfinished_path())?.verify()?;
            let Some(first) = faults.first() else { return Ok(true) };
            let shown = backup.display();
            Err(Error::corrupt(format!("{shown}: {} faults, the first: {first}", faults.len())))
        })
    }

    /// Saves the pairs of a table in memory to a table with the same options.
    fn save_pairs(&mut self, table: &Table, path: &Path) -> Result<()> {
        let (storage, expected_len) = (self.options.storage.clone(), self.options.expected_len);
        self.replace(None, path, |progress, new| save_pairs_to(table, &storage, expected_len, progress, new))
    }

    /// Creates a file in the directory of `path`, calls `fill` to write it, and renames it to `path`. It gets the owner
    /// and permissions of the old file at `path`, or else of the one at `from`. `fill` returns `false` if the caller
    /// cancelled it.
    fn replace(
        &mut self,
        from: Option<&Path>,
        path: &Path,
        fill: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>, &AtomicFile) -> Result<bool>,
    ) -> Result<()> {
        let storage = self.options.storage.clone();
        // The target of a link is replaced, not the link: the log to remove is next to the target.
        let path = &resolve(storage.as_ref(), path)?;
        // The lock is held to the end. Otherwise a process could open the old file for writing, and would then write to
        // a file without a name.
        let mut old = self.may_replace(storage.as_ref(), path)?;
        let access_at =
            |path: &Path| storage.access_at(path).map_err(|e| Error::io(path, "ask for the permissions of", e));
        let access = match (access_at(path)?, from) {
            (None, Some(from)) => access_at(from)?,
            (old, _) => old,
        };
        let granted = access.map_or(Granted::Permissions(PERMISSIONS), Granted::Like);
        let mut new = AtomicFile::create(&storage, path, BACKUP, granted, &SIDECARS)?;
        if !fill(&mut self.progress, &new)? {
            return Err(stopped());
        }
        if old.is_none() {
            old = self.may_replace(storage.as_ref(), path)?; // a file may have been created in the meantime
        }
        new.file().sync().map_err(|e| Error::io(new.unfinished_path(), "sync", e))?;
        let new_id = table_id(new.unfinished_path(), new.file().as_ref())?;
        // What is replaced may be no table, or one that cannot be read.
        let old_id = old.as_ref().and_then(|old| table_id(path, old.as_ref()).ok().flatten());
        let table_ids: Vec<u64> = new_id.into_iter().chain(old_id).collect();
        remove_log(storage.as_ref(), path, &table_ids)?;
        new.publish(&[])?;
        Ok(())
    }

    /// Returns the file at `path`, locked, or `None` if there is none. Fails if it may not be replaced.
    fn may_replace(&self, storage: &dyn Storage, path: &Path) -> Result<Option<Box<dyn File>>> {
        let shown = path.display();
        // Opened for writing, since NFS locks no other files; for reading if the file may be replaced but not changed.
        let opened = match storage.open(path, Mode::Write) {
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => storage.open(path, Mode::Read),
            opened => opened,
        };
        let file = match opened {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| Error::io(path, "open", e))?,
        };
        if !self.overwrite {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("{shown}: exists already"))
                .with_hint("Choose another name, or allow the backup to replace it."));
        }
        if !lock_unless_kept(file.as_ref(), path)? {
            return Err(Error::new(ErrorKind::Locked, format!("{shown}: open for writing, so it cannot be replaced"))
                .with_hint("Close it first."));
        }
        Ok(Some(file))
    }
}

impl Table {
    /// Copies the table to a new file at `path`, which must not exist, while other threads use it, as it is at one
    /// moment between two writes. The copy is durable when the call returns. [`Backup`] has more options.
    ///
    /// O(file), and a [`sync`](Self::sync).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let table = Table::open(&path)?;
    /// table.put(b"alice", b"admin")?;
    /// table.backup(directory.path().join("copy.spt"))?;
    /// assert_eq!(Table::open(directory.path().join("copy.spt"))?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Backup::save`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        let options = TableOptions { storage: self.pager.file().storage().clone(), ..TableOptions::new() };
        Backup::new().options(options).save(self, path)
    }
}

/// Copies a table that has a file, as it is at one moment between two writes.
fn copy_table(table: &Table, target: &mut Target<'_>) -> Result<bool> {
    if table.pager.is_read_only() {
        let _alone = table.gate.close()?;
        // Of the replay: they would be marked used, and belong to nothing.
        table.pager.allocator().free_kept()?;
        let last_segment = {
            let following = table.following.lock().unwrap_or_else(PoisonError::into_inner);
            following.as_ref().map_or(0, Reader::last_segment)
        };
        return copy_replayed(table.pager.frames(), last_segment, table.root(), target);
    }
    let guard = table.acquire_checkpoint()?;
    table.checkpoint_with(&guard)?;
    let held = HeldCopy::of(table.pager.frames())?;
    let _guard = held.is_none().then(|| guard.hold_long());
    match held {
        Some(held) => held.copy(target),
        None => copy_checkpoint(table.pager.frames(), target),
    }
}

/// Puts the pairs of `table` into `new`, in hash order, with writers kept out. Returns false if `progress` cancelled
/// it.
fn save_pairs_to(
    table: &Table,
    storage: &Arc<dyn Storage>,
    expected_len: u64,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    new: &AtomicFile,
) -> Result<bool> {
    // With the gate open, a scan would mix several moments.
    let _alone = table.gate.close()?;
    let all = table.len();
    let options = TableOptions {
        page_bytes: table.buckets.page_bytes() as u32, // at most 65536
        fill_factor: table.buckets.fill().pairs,
        fill_percent: table.buckets.fill().percent,
        hash: Some(table.hash_function().kind()),
        user_hash: (table.hash_function().kind() == HashKind::User).then(|| table.hash_function().clone()),
        seed: Some(table.hash_function().seed()),
        expected_len,
        durability: Durability::None,
        storage: storage.clone(),
        ..TableOptions::new()
    };
    // The handle of the table takes the lock instead. If it stays locked, the open says so.
    let _ = new.file().unlock();
    let mut copy = options.open(new.unfinished_path())?; // the file is empty, and so becomes a table
    if expected_len == 0 {
        copy.buckets.presize_like(&table.buckets)?;
    }
    copy.adopt_types(&table.types())?;
    let mut done = 0u64;
    let mut scan = table.scan();
    while let Some((key, value)) = scan.next_ref()? {
        copy.put(key, value)?;
        done += 1;
        if done.is_multiple_of(1024) && progress(done, all).is_break() {
            return Ok(false);
        }
    }
    copy.close()?;
    Ok(progress(all, all).is_continue())
}

fn target_of<'a>(new: &'a AtomicFile, step: &'a mut dyn FnMut(u64, u64) -> bool) -> Target<'a> {
    Target { file: new.file().clone(), path: new.unfinished_path(), begin: &|| Ok(()), step }
}

/// Removes the log of the table at `path`, which is about to be replaced by a complete and durable file. The old and
/// the new table have the numbers `table_ids`. The logs of other tables stay: such a table had this name before, and
/// may get it again.
///
/// An old log must never stay next to the new file: an open may use it. So it is removed, the removal is made durable,
/// and then the new file is renamed. A crash in between leaves the old file without it. It may have lost its last
/// changes, but was about to be replaced: restore again.
fn remove_log(storage: &dyn Storage, path: &Path, table_ids: &[u64]) -> Result<()> {
    for segment in segments_of(storage, path, table_ids)? {
        storage.remove(&segment).map_err(|e| Error::io(&segment, "remove", e))?;
    }
    storage.sync_names(path).map_err(|e| Error::io(path, "sync the directory of", e))
}
