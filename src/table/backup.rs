//! Backups: a table in use copied to one file that is whole, and back.
//!
//! ```text
//! a handle that writes    a checkpoint, and the file copied before another one may be made; writers go on
//! a file, read only       copied, and copied again if a checkpoint came between (`pager/copy.rs`)
//! a table in memory       its pairs put into a new table, writers kept out meanwhile
//! ```
//!
//! The copy is made under a name of its own beside where it goes, synced, and then given its name: whoever looks there sees
//! what was there before, or all of the new. It is a table like any other, and may be opened where it lies.
//!
//! Not here: copying a file that is being written (`pager/copy.rs`), what checkpoints are (`pager/checkpoint.rs`).

use super::{Table, TableOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashKind;
use crate::io::{File, Mode, Storage, forked_since, forks};
use crate::pager::copy::{Target, copy_file, is_crashed, permissions_of};
use crate::pager::resolve;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::*};

/// How a backup is made or put back; start with [`Backup::new`].
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

/// What lies beside a table's file, in the order in which it goes: see [`Backup::restore`].
const SIDECARS: [&str; 9] = ["-log0", "-log1", "-log2", "-log3", "-log4", "-log5", "-log6", "-log7", "-ckpt"]; // on disk

impl Default for Backup<'_> {
    fn default() -> Self {
        Backup::new()
    }
}

impl<'f> Backup<'f> {
    /// A backup that overwrites nothing and tells nothing.
    pub fn new() -> Self {
        let progress = Box::new(|_, _| ControlFlow::Continue(()));
        Backup { overwrite: false, options: TableOptions::new(), progress }
    }

    /// Replace a file that is there already.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// How the backup is opened when [`restore`](Self::restore) checks it: with the user's hash function, where it has one.
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Calls `progress` now and then with how much is copied, of how much. It may break: then nothing is left of the copy.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) -> ControlFlow<()> + 'f) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Copies an open table to `path`: what it is at one moment between two writes. Says whether it did; it did not if the
    /// progress function broke.
    ///
    /// A table in a file is synced first; then its other threads write on while it is copied, until so much is unsaved that
    /// they need a checkpoint. Those of a table in memory wait. A read-only handle copies the file's last checkpoint.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] where a file is at `path` and is not to be replaced; [`ErrorKind::Locked`] where that
    /// is open for writing; [`ErrorKind::Io`] and [`ErrorKind::DiskFull`], and nothing is left of the copy;
    /// [`ErrorKind::Forked`] in a child of the process that opened the table; as [`Table::sync`].
    pub fn save(&mut self, table: &Table, path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        // First: in a child the turn and the gate may be held by threads that are not there.
        table.pager.refuse_if_forked()?;
        if table.pager.is_read_only() && table.replayed() == 0 {
            return self.save_file(table.pager.path(), path);
        }
        if table.pager.is_read_only() || !table.pager.has_file() {
            return self.save_pairs(table, path);
        }
        let from = table.pager.path().to_owned();
        self.replace(Some(&from), path, |progress, target| {
            let guard = table.pager.checkpoint_lock().acquire()?.hold_long();
            table.checkpoint_with(&guard)?;
            let mut step = |done, all| progress(done, all).is_continue();
            table.pager.copy_checkpoint(&mut target.target(&mut step))
        })
    }

    /// Copies the table in the file at `from` to `path`, as of its last checkpoint, while another process may be writing
    /// it. Says whether it did. Where a process crashed that had it open, what is in its log is in the copy too.
    ///
    /// # Errors
    /// As [`save`](Self::save), and as a read-only [`TableOptions::open`]; [`ErrorKind::Locked`] where checkpoints come so
    /// fast that none could be copied, or one was interrupted and has to be finished by an open for writing.
    pub fn save_file(&mut self, from: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<bool> {
        let storage = self.options.storage.clone();
        let from = &resolve(storage.as_ref(), from.as_ref())?;
        if is_crashed(storage.as_ref(), from)? {
            // The file alone would be without what the log has.
            let table = self.options.clone().read_only(true).open(from)?;
            return self.save_pairs(&table, path.as_ref());
        }
        self.replace(Some(from), path.as_ref(), |progress, target| {
            let mut step = |done, all| progress(done, all).is_continue();
            copy_file(storage.as_ref(), from, &mut target.target(&mut step))
        })
    }

    /// Puts a backup in the place of the table at `path`: copies it, checks the whole copy, and gives it the name. What was
    /// there is kept until then. Says whether it did.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] where anything is wrong with the backup, and nothing changed; else as
    /// [`save_file`](Self::save_file), with [`ErrorKind::Locked`] also where the table is open for writing.
    pub fn restore(&mut self, backup: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<bool> {
        let storage = self.options.storage.clone();
        let backup = &resolve(storage.as_ref(), backup.as_ref())?;
        let options = self.options.clone().read_only(true);
        // Its own words about what is wrong with it, before anything is copied.
        drop(options.clone().open(backup)?);
        // Who may use the table goes on to, whoever may read its backup.
        let path = path.as_ref();
        let there = permissions_of(storage.as_ref(), path).is_ok();
        self.replace(Some(if there { path } else { backup }), path, |progress, target| {
            let mut step = |done, all| progress(done, all).is_continue();
            if !copy_file(storage.as_ref(), backup, &mut target.target(&mut step))? {
                return Ok(false);
            }
            let faults = options.open(&target.path)?.verify()?;
            let Some(first) = faults.first() else { return Ok(true) };
            let shown = backup.display();
            Err(Error::corrupt(format!("{shown}: {} faults, the first: {first}. Nothing was restored", faults.len()))
                .with_hint("Take another backup, or salvage what can still be read."))
        })
    }

    /// The pairs of a table in memory, as a table of the same kind.
    fn save_pairs(&mut self, table: &Table, path: &Path) -> Result<bool> {
        self.replace(None, path, |progress, target| {
            // A scan alone is of no one moment.
            let _alone = table.gate.close()?;
            let options = TableOptions {
                page_bytes: table.buckets.page_bytes() as u32, // at most 65536
                fill_factor: table.buckets.fill().pairs,
                fill_percent: table.buckets.fill().percent,
                hash: Some(table.hash().kind()),
                user_hash: (table.hash().kind() == HashKind::User).then(|| table.hash().clone()),
                seed: Some(table.hash().seed()),
                durability: super::Durability::None,
                storage: target.storage.clone(),
                ..TableOptions::new()
            };
            let copy = options.open(&target.path)?; // the file is empty, and so becomes a table
            let (all, mut done) = (table.len(), 0u64);
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
        })
    }

    /// Makes a file beside `path`, lets `fill` fill it, and puts it there.
    fn replace(
        &mut self,
        from: Option<&Path>,
        path: &Path,
        fill: impl FnOnce(&mut dyn FnMut(u64, u64) -> ControlFlow<()>, &New) -> Result<bool>,
    ) -> Result<bool> {
        let storage = self.options.storage.clone();
        // What a link leads to is replaced, and not the link: the log and journal that must go are beside the former.
        let path = &resolve(storage.as_ref(), path)?;
        // The lock is held to the end, so that nobody opens the old file for writing and writes to what has no name.
        let old = self.may_replace(storage.as_ref(), path)?;
        let permissions = from.map(|from| permissions_of(storage.as_ref(), from)).transpose()?.flatten();
        let new = New::make(storage, path)?;
        if let Some(permissions) = permissions {
            // Before there is anything in it to be read.
            new.file.set_permissions(permissions).map_err(|e| Error::io(&new.path, "set the permissions of", e))?;
        }
        if !fill(&mut self.progress, &new)? {
            return Ok(false);
        }
        if old.is_none() {
            self.may_replace(new.storage.as_ref(), path)?; // one may have come meanwhile
        }
        new.put_in_place(path)?;
        Ok(true)
    }

    /// Fails where a file is at `path` that must not go; else gives it, locked, or `None`.
    fn may_replace(&self, storage: &dyn Storage, path: &Path) -> Result<Option<Box<dyn File>>> {
        let shown = path.display();
        let file = match storage.open(path, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| Error::io(path, "open", e))?,
        };
        if !self.overwrite {
            return Err(Error::new(ErrorKind::InvalidArgument, format!("{shown}: exists already"))
                .with_hint("Choose another name, or ask for it to be replaced."));
        }
        if !file.lock().map_err(|e| Error::io(path, "lock", e))? {
            return Err(Error::new(
                ErrorKind::Locked,
                format!("{shown}: open for writing, so it cannot be replaced; close it first"),
            ));
        }
        Ok(Some(file))
    }
}

impl Table {
    /// Copies the table to a new file at `path`, which must not be there, while other threads use it: what it is at one
    /// moment between two writes. Durable when it returns. [`Backup`] has more to choose.
    ///
    /// O(file), and a [`sync`](Self::sync).
    ///
    /// # Errors
    /// As [`Backup::save`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        let options = TableOptions { storage: self.pager.storage().clone(), ..TableOptions::new() };
        Backup::new().options(options).save(self, path).map(drop)
    }
}

/// A file in the making, under a name of its own; gone when dropped before it got another.
struct New {
    storage: std::sync::Arc<dyn Storage>,
    path: PathBuf,
    file: Box<dyn File>,
    placed: std::cell::Cell<bool>,
    /// The process that makes it, see `io/forks.rs`.
    forks: u32,
}

impl New {
    fn make(storage: std::sync::Arc<dyn Storage>, beside: &Path) -> Result<New> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = COUNT.fetch_add(1, Relaxed);
            let path = with_suffix(beside, &format!(".new-{}-{number}", std::process::id()));
            match storage.open(&path, Mode::New) {
                // One that a process of the same number left behind when it was killed.
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(Error::io(&path, "create", e)),
                Ok(file) => return Ok(New { storage, path, file, placed: false.into(), forks: forks() }),
            }
        }
    }

    fn target<'a>(&'a self, step: &'a mut dyn FnMut(u64, u64) -> bool) -> Target<'a> {
        Target { file: self.file.as_ref(), path: &self.path, step }
    }

    /// Gives the file its name, in place of what has it.
    fn put_in_place(&self, path: &Path) -> Result<()> {
        self.file.sync().map_err(|e| Error::io(&self.path, "sync", e))?;
        // The order that can never leave an old journal or log where the new file would take it for its own (by the number
        // of its checkpoint a journal may well fit): away with them, the removal durable, only then the new name. A crash
        // between leaves the old file without them, which may have lost its last changes, and was to go: restore again.
        // The logs go before the journal, as what is in them is on top of it: a crash between leaves a whole checkpoint.
        let sidecars = SIDECARS.map(|sidecar| with_suffix(path, sidecar));
        sidecars.iter().try_for_each(|sidecar| refuse_if_in_use(self.storage.as_ref(), sidecar))?;
        for sidecar in sidecars {
            self.storage.remove(&sidecar).map_err(|e| Error::io(&sidecar, "remove", e))?;
        }
        let sync_names = || self.storage.sync_names(path).map_err(|e| Error::io(path, "sync the directory of", e));
        sync_names()?;
        self.storage.rename(&self.path, path).map_err(|e| Error::io(path, "give a name to", e))?;
        self.placed.set(true);
        sync_names()
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // A progress function may fork; the copy is its parent's.
        if !self.placed.get() && !forked_since(self.forks) {
            for sidecar in SIDECARS.iter().chain(&[""]) {
                let _ = self.storage.remove(&with_suffix(&self.path, sidecar));
            }
        }
    }
}

/// Refuses where a table that had this name before, and is open by another one, still writes the log or journal at `path`.
fn refuse_if_in_use(storage: &dyn Storage, path: &Path) -> Result<()> {
    let locked = match storage.open(path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        opened => opened.and_then(|file| file.is_locked()).map_err(|e| Error::io(path, "ask for the lock of", e))?,
    };
    if !locked {
        return Ok(());
    }
    let shown = path.display();
    let what = "in use by a table that was renamed while it was open; close that one, and give it this name again if it is to be kept";
    Err(Error::new(ErrorKind::Locked, format!("{shown}: {what}")))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
