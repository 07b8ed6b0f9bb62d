//! A file that gets its name when it is complete: all or nothing, whoever else is at work and whenever the process ends.
//!
//! ```text
//! NAME-new, locked -> written -> sync -> rename to NAME -> sync the directory
//! ```
//!
//! Whoever begins with the same name is told that it is locked. What fails is removed; what a killed process left the next one
//! takes over and empties. Readers of an earlier file of the name keep it.
//! Not here: what is in the file (`assemble.rs`, `shards.rs`).

use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Storage, open_locked};
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
}

impl<'s> Unpublished<'s> {
    /// An empty file that is to be at `path`, and is at `path` and `suffix` until then.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] where another process makes the same; [`ErrorKind::Io`].
    pub fn new(storage: &'s dyn Storage, path: &Path, suffix: &str) -> Result<Self> {
        let mut new_path = path.as_os_str().to_owned();
        new_path.push(suffix);
        let new_path = PathBuf::from(new_path);
        let failed = |what: &'static str| |e| Error::io(&new_path, what, e);
        let file = open_locked(storage, &new_path).map_err(failed("create"))?.ok_or_else(|| {
            let name = new_path.display();
            let message = format!("{name}: another process is building it. Wait for it, or choose another name.");
            Error::new(ErrorKind::Locked, message)
        })?;
        file.set_len(0).map_err(failed("empty"))?;
        Ok(Unpublished { storage, path: path.to_owned(), new_path, file: file.into(), published: false })
    }

    /// Makes the content durable and gives it its name; then makes the name durable.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]. The name is as before, unless only the last step failed, which [`is_published`](Self::is_published) tells.
    pub fn publish(&mut self) -> Result<()> {
        self.file.sync().map_err(|e| Error::io(&self.new_path, "sync", e))?;
        self.storage.rename(&self.new_path, &self.path).map_err(|e| Error::io(&self.path, "rename to", e))?;
        self.published = true;
        self.storage.sync_names(&self.path).map_err(|e| Error::io(&self.path, "sync the directory of", e))
    }

    pub fn is_published(&self) -> bool {
        self.published
    }
}

impl Drop for Unpublished<'_> {
    fn drop(&mut self) {
        if !self.published {
            // Without its name nobody misses it; if it cannot be removed, the next one takes it over.
            let _ = self.storage.remove(&self.new_path);
        }
    }
}
