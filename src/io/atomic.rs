//! Files that appear whole or not at all, and files without a name.
//!
//! ```text
//! PATH + suffix, locked -> begin (empty, owner, permissions) -> writes -> publish
//! publish = sync, head, sync, rename to PATH, sync the directory
//! ```
//!
//! The lock is on the unfinished file, so a second writer of the same `PATH` fails immediately. A file that is dropped
//! before [`publish`](AtomicFile::publish) is removed. A killed process leaves the unfinished file; the next writer
//! opens it, decides whether it may be overwritten, and starts again. Readers that have the old file of `PATH` open
//! keep it. A file that must not be named after its path has one of the names `.splitpoint-0`, `.splitpoint-1`, ... in
//! the directory of `PATH`: the first that no living process has locked ([`create`](AtomicFile::create)).
//!
//! Not here: what a file holds, and which leftovers may be overwritten (the callers).

use super::{File, Granted, PRIVATE, Storage, forked_since, forks, open_locked};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `path` with `suffix` appended to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An error of the system, the file it concerns, and the step that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub path: PathBuf,
    pub step: &'static str,
    pub error: Error,
}

fn failed<'p>(path: &'p Path, step: &'static str) -> impl FnOnce(Error) -> Failed + use<'p> {
    move |error| Failed { path: path.to_owned(), step, error }
}

/// A new file that replaces the one at its path when it is complete.
pub(crate) struct AtomicFile {
    storage: Arc<dyn Storage>,
    /// The path that the complete file gets.
    path: PathBuf,
    /// The path it has until then.
    unfinished_path: PathBuf,
    file: Arc<dyn File>,
    granted: Granted,
    state: State,
    /// Suffixes of the files that the writer may create next to it; they are removed with it.
    sidecars: &'static [&'static str],
    /// The process that began the file: in a forked child it belongs to the parent.
    forks: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Locked; the content is from an earlier process.
    Opened,
    /// Emptied; the content is ours.
    Begun,
    Published,
}

impl AtomicFile {
    /// Opens or makes the file `path` + `suffix` and takes its lock; `None` if another process has it.
    ///
    /// Content, owner and permissions stay unchanged until [`begin`](Self::begin), so the caller can examine them
    /// first.
    pub fn open(
        storage: &Arc<dyn Storage>,
        path: &Path,
        suffix: &str,
        granted: Granted,
    ) -> std::result::Result<Option<AtomicFile>, Failed> {
        let unfinished_path = with_suffix(path, suffix);
        let opened = open_locked(storage.as_ref(), &unfinished_path, granted.at_first());
        let Some(file) = opened.map_err(failed(&unfinished_path, "create"))? else { return Ok(None) };
        let (storage, path, file) = (Arc::clone(storage), path.to_owned(), file.into());
        Ok(Some(AtomicFile {
            storage,
            path,
            unfinished_path,
            file,
            granted,
            state: State::Opened,
            sidecars: &[],
            forks: forks(),
        }))
    }

    /// Creates a file in the directory of `path`, named [`UNFINISHED`] + `kind` + a number. The writer may create
    /// further files: this name with one of `sidecars` appended. Removes what killed writers of this kind left, if it
    /// has the first numbers.
    pub fn create(
        storage: &Arc<dyn Storage>,
        path: &Path,
        kind: &str,
        granted: Granted,
        sidecars: &'static [&'static str],
    ) -> std::result::Result<AtomicFile, Failed> {
        let prefix = path.with_file_name(format!("{UNFINISHED}{kind}"));
        let (unfinished_path, file) = claim(storage.as_ref(), &prefix, granted.at_first(), sidecars)?;
        let (storage, path, file) = (Arc::clone(storage), path.to_owned(), file.into());
        let state = State::Begun;
        let new = AtomicFile { storage, path, unfinished_path, file, granted, state, sidecars, forks: forks() };
        new.grant()?;
        Ok(new)
    }

    /// Empties the file and sets its owner and permissions.
    pub fn begin(&mut self) -> std::result::Result<(), Failed> {
        self.file.set_len(0).map_err(failed(&self.unfinished_path, "empty"))?;
        self.state = State::Begun;
        self.grant()
    }

    /// Must be called before anything is written that others must not read.
    fn grant(&self) -> std::result::Result<(), Failed> {
        let granted = self.granted.complete(self.file.as_ref());
        granted.map_err(failed(&self.unfinished_path, "set the owner and permissions of"))
    }

    /// Makes the content durable, writes `head` (if not empty) at offset 0, which is still unwritten, renames the file
    /// to its path, and makes the new name durable.
    ///
    /// After an error the old file is in place, unless only the last step failed: see
    /// [`is_published`](Self::is_published).
    pub fn publish(&mut self, head: &[u8]) -> std::result::Result<(), Failed> {
        let own = &self.unfinished_path;
        self.file.sync().map_err(failed(own, "sync"))?;
        if !head.is_empty() {
            self.file.write_at(head, 0).map_err(failed(own, "write"))?;
            self.file.sync().map_err(failed(own, "sync"))?;
        }
        if !self.file.is_at(own).map_err(failed(own, "look at"))? {
            let lost = Error::other("another process removed or renamed the unfinished file; nothing was changed");
            return Err(failed(own, "rename")(lost));
        }
        self.storage.rename(own, &self.path).map_err(failed(&self.path, "rename to"))?;
        self.state = State::Published;
        self.storage.sync_names(&self.path).map_err(failed(&self.path, "sync the directory of"))
    }

    /// Whether the file has its final path.
    pub fn is_published(&self) -> bool {
        self.state == State::Published
    }

    /// The path that the complete file gets.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path until then: the one to name in errors.
    pub fn unfinished_path(&self) -> &Path {
        &self.unfinished_path
    }

    /// Who may use the file.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        let own = self.state == State::Begun && !forked_since(self.forks);
        if own && matches!(self.file.is_at(&self.unfinished_path), Ok(true)) {
            // If one cannot be removed, the next writer of the same path overwrites it.
            let _ = remove_with(self.storage.as_ref(), &self.unfinished_path, self.sidecars);
        }
    }
}

/// The beginning of the names of unfinished files that are not named after their path.
const UNFINISHED: &str = ".splitpoint-";
/// The byte that the process that writes such a file has locked: the last one that a file can have.
pub(crate) const UNFINISHED_BYTE: u64 = (u64::MAX >> 1) - 1;
/// The kind of a copy of a table, in its name.
pub(crate) const BACKUP: &str = "backup-";

/// Whether a file of this name is one that [`AtomicFile::create`] made and its process has not finished.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    let rest = name.strip_prefix(UNFINISHED.as_bytes()).unwrap_or_default();
    rest.strip_prefix(BACKUP.as_bytes()).unwrap_or(rest).first().is_some_and(u8::is_ascii_digit)
}

/// Creates and locks the file named `prefix` + the first number that no living process has.
fn claim(
    storage: &dyn Storage,
    prefix: &Path,
    permissions: u32,
    sidecars: &[&str],
) -> std::result::Result<(PathBuf, Box<dyn File>), Failed> {
    // Each unfinished file of another living process costs one try.
    const TRIES: usize = 1000;
    let mut number = 0;
    for _ in 0..TRIES {
        let path = with_suffix(prefix, &number.to_string());
        match storage.create(&path, permissions) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                if !remove_abandoned(storage, &path, sidecars) {
                    number += 1;
                }
            }
            Err(e) => return Err(failed(&path, "create")(e)),
            Ok(file) => {
                // `false`, or no such name: another process took it for abandoned before it was locked. Without locks,
                // no file is removed as abandoned.
                let is_ours = !matches!(file.lock(), Ok(false));
                // A second lock, which stays where the first is handed to a table's handle. Not all systems have it.
                let _ = file.lock_byte(UNFINISHED_BYTE, true);
                if is_ours && file.is_at(&path).map_err(failed(&path, "look at"))? {
                    return Ok((path, file));
                }
            }
        }
    }
    let path = with_suffix(prefix, &number.to_string());
    Err(failed(&path, "create")(ErrorKind::AlreadyExists.into()))
}

/// Removes the file at `path` if it is a regular one that no process has locked, with its sidecars; `false` if not.
fn remove_abandoned(storage: &dyn Storage, path: &Path, sidecars: &[&str]) -> bool {
    let Ok(file) = storage.open(path, super::Mode::Write) else { return false };
    // The holder of the lock has the name to itself: nobody creates a file there, or renames this one.
    let is_in_use = || matches!(file.first_locked_bytes(UNFINISHED_BYTE..UNFINISHED_BYTE + 1), Ok(Some(_)));
    !is_in_use()
        && matches!(file.lock(), Ok(true))
        && !is_in_use()
        && matches!(file.is_at(path), Ok(true))
        && remove_with(storage, path, sidecars).is_ok()
}

/// Removes a file after its sidecars.
fn remove_with(storage: &dyn Storage, path: &Path, sidecars: &[&str]) -> std::io::Result<()> {
    // Every one is tried: those that stay are removed with the next file of this name.
    let mut all = Ok(());
    for suffix in sidecars.iter().chain(&[""]) {
        let removed = storage.remove(&with_suffix(path, suffix));
        all = all.and(removed);
    }
    all
}

/// Creates a file without a name in the directory of `prefix`. It disappears when closed, however the process ends.
///
/// If the system has no unnamed files, creates one named `prefix` + `-PROCESS-NUMBER.tmp` and removes the name.
pub(crate) fn make_unnamed(storage: &dyn Storage, prefix: &Path) -> std::result::Result<Arc<dyn File>, Failed> {
    const STEP: &str = "make the temporary file";
    if let Some(file) = storage.make_unnamed(prefix).map_err(failed(prefix, STEP))? {
        return Ok(file.into());
    }
    let (path, file) = make_numbered(storage, prefix, PRIVATE, STEP)?;
    storage.remove(&path).map_err(failed(&path, "remove the name of the temporary file"))?;
    Ok(file.into())
}

/// Creates a file named `prefix` + `-PROCESS-NUMBER.tmp`, with the first number not yet in use.
fn make_numbered(
    storage: &dyn Storage,
    prefix: &Path,
    permissions: u32,
    step: &'static str,
) -> std::result::Result<(PathBuf, Box<dyn File>), Failed> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // A killed process with the same id may have left files: each costs one try.
    const TRIES: usize = 100;
    let mut tries = 0;
    loop {
        let number = COUNT.fetch_add(1, Relaxed);
        let path = with_suffix(prefix, &format!("-{}-{number}.tmp", std::process::id()));
        match storage.create(&path, permissions) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists && tries < TRIES => tries += 1,
            made => return Ok((path.clone(), made.map_err(failed(&path, step))?)),
        }
    }
}
