//! A file that gets its name when it is complete: all or nothing, whoever else is at work and whenever the process ends.
//!
//! ```text
//! NAME-unfinished, locked -> written -> sync -> head -> sync -> rename to NAME -> sync the directory
//! ```
//!
//! Whoever begins with the same name is told that it is locked. What fails is removed; what a killed process left has no head yet, or is
//! a dictionary that lacks its name alone, and the next one takes it over and empties it. Anything else under that name is someone's,
//! and is refused. Readers of an earlier file of the name keep it.
//! Not here: what is in the file (`assemble.rs`, `shards.rs`).

use super::format::{MAGIC, first_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage, forked_since, forks, open_locked};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct Unpublished<'s> {
    pub storage: &'s dyn Storage,
    /// The name it will have.
    pub path: PathBuf,
    /// The name it has, for errors.
    pub new_path: PathBuf,
    pub file: Arc<dyn File>,
    published: bool,
    /// The process that made it, see `io/forks.rs`.
    forks: u32,
}

/// Which files at the name of an unfinished one are taken over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TakeOver {
    /// Those without a head and dictionaries: others are someone's.
    Unfinished,
    /// Any, in a directory of our own.
    Any,
}

impl<'s> Unpublished<'s> {
    /// An empty file that is to be at `path`, and is at `path` and `suffix` until then. Who may use the file at `like`, if there is
    /// one, may use it.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] where another process makes the same; [`ErrorKind::NotATable`] where there is a file that is not to be
    /// taken over; [`ErrorKind::Io`].
    pub fn new(storage: &'s dyn Storage, path: &Path, suffix: &str, like: &Path, take_over: TakeOver) -> Result<Self> {
        let mut new_path = path.as_os_str().to_owned();
        new_path.push(suffix);
        let new_path = PathBuf::from(new_path);
        let failed = |what: &'static str| |e| Error::io(&new_path, what, e);
        let file = open_locked(storage, &new_path).map_err(failed("create"))?.ok_or_else(|| {
            let name = new_path.display();
            let message = format!("{name}: another process is building it. Wait for it, or choose another name.");
            Error::new(ErrorKind::Locked, message)
        })?;
        if take_over == TakeOver::Unfinished {
            let bytes = file.len().map_err(failed("read the length of"))?;
            let head = first_bytes(file.as_ref(), bytes).map_err(failed("read"))?;
            if head.iter().any(|byte| *byte != 0) && !head.starts_with(MAGIC) {
                return Err(is_someones(&new_path));
            }
        }
        file.set_len(0).map_err(failed("empty"))?;
        if let Some(permissions) = permissions_of(storage, like)? {
            // Before there is anything in it to be read.
            file.set_permissions(permissions).map_err(failed("set the permissions of"))?;
        }
        let (path, file) = (path.to_owned(), file.into());
        Ok(Unpublished { storage, path, new_path, file, published: false, forks: forks() })
    }

    /// Makes the content durable, puts `head` before it, whose place is empty so far, and gives the file its name; then makes the name
    /// durable.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]. The name is as before, unless only the last step failed, which [`is_published`](Self::is_published) tells.
    pub fn publish(&mut self, head: &[u8]) -> Result<()> {
        self.sync()?;
        self.file.write_at(head, 0).map_err(|e| Error::io(&self.new_path, "write", e))?;
        self.sync()?;
        if !self.has_name()? {
            let lost = std::io::Error::other("it was removed or renamed while it was written; nothing was changed");
            return Err(Error::io(&self.new_path, "rename", lost));
        }
        self.storage.rename(&self.new_path, &self.path).map_err(|e| Error::io(&self.path, "rename to", e))?;
        self.published = true;
        self.storage.sync_names(&self.path).map_err(|e| Error::io(&self.path, "sync the directory of", e))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io(&self.new_path, "sync", e))
    }

    /// Is it what its name names? Another file there is another's.
    fn has_name(&self) -> Result<bool> {
        self.file.is_at(&self.new_path).map_err(|e| Error::io(&self.new_path, "look at", e))
    }

    pub fn is_published(&self) -> bool {
        self.published
    }
}

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        // In a forked child it is its parent's.
        if !self.published && !forked_since(self.forks) && matches!(self.has_name(), Ok(true)) {
            // Without its name nobody misses it; if it cannot be removed, the next one takes it over.
            let _ = self.storage.remove(&self.new_path);
        }
    }
}

fn is_someones(path: &Path) -> Error {
    let name = path.display();
    let message = format!("{name}: is there, and no unfinished dictionary. It is not replaced; move or remove it.");
    Error::new(ErrorKind::NotATable, message)
}

/// Who may do what with the file at `path`; `None` where there is none, or that is not told.
fn permissions_of(storage: &dyn Storage, path: &Path) -> Result<Option<u32>> {
    let failed = |e| Error::io(path, "ask for the permissions of", e);
    match storage.open(path, Mode::Read) {
        Ok(file) => file.permissions().map_err(failed),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(e)),
    }
}
