//! Replaces the manifest of a directory of shards, and removes the files that no manifest refers to.
//!
//! New files have names of a new generation, so no file in use by a reader is overwritten. The change takes effect with
//! the rename of the manifest. What killed builds left is removed before that: the rename also releases the lock, and
//! after it there may be files of the next writer, which are not in a manifest either.

use super::manifest::{GENERATION_END, MANIFEST_NAME, Manifest, generation_of};
use crate::dictionary::build::plan::Plan;
use crate::dictionary::build::sort::temporary;
use crate::dictionary::build::writer::open_unfinished;
use crate::dictionary::format::ends::damaged;
use crate::error::{Error, ErrorKind, Result};
use crate::io::atomic::AtomicFile;
use crate::io::{Granted, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The contents of a directory before it is changed.
pub(crate) struct Previous {
    /// `None` if there is no manifest, or a damaged one.
    pub manifest: Option<Manifest>,
    /// The generation of the next manifest.
    pub generation: u64,
    /// Files of shards that must stay until there is another manifest.
    names: Vec<String>,
}

impl Previous {
    /// Whether the directory has no part of a dictionary, not even a damaged one.
    pub fn is_empty(&self) -> bool {
        self.manifest.is_none() && self.names.is_empty()
    }
}

/// Replaces the manifest of a directory; keeps other writers out while it lives.
pub(crate) struct DirectoryWriter {
    storage: Arc<dyn Storage>,
    /// Dropped before the directory, which must be empty by then.
    manifest: AtomicFile,
    directory: NewDirectory,
}

/// A directory. If it was created here and nothing was put into it, it is removed again.
struct NewDirectory {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    is_new: bool,
}

impl NewDirectory {
    fn make(storage: &Arc<dyn Storage>, path: &Path, like: Option<&Path>) -> Result<Self> {
        let is_new = storage.make_directory(path, like).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => Error::io(path, "create the directory", e)
                .with_hint("Its parent directory does not exist: create it first."),
            _ => Error::io(path, "create the directory", e),
        })?;
        Ok(NewDirectory { storage: Arc::clone(storage), path: path.to_owned(), is_new })
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if self.is_new {
            // Only an empty directory can be removed; one with a dictionary stays.
            let _ = self.storage.remove_directory(&self.path);
        }
    }
}

impl DirectoryWriter {
    /// Locks the directory. If it does not exist, creates it with the owner and permissions of the one at `like`.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if another process is building or updating the directory; [`ErrorKind::NotADictionary`] if
    /// it holds something other than a dictionary.
    pub fn new(plan: &Plan, directory: &Path, like: Option<&Path>) -> Result<Self> {
        let storage = &plan.storage;
        let directory = NewDirectory::make(storage, directory, like)?;
        refuse_other_directories(storage.as_ref(), &directory.path)?;
        let path = Manifest::path(&directory.path);
        let mut manifest = open_unfinished(storage, &path, "-unfinished", plan.granted_at(&path)?)?;
        manifest.begin()?;
        Ok(DirectoryWriter { storage: Arc::clone(storage), manifest, directory })
    }

    /// The access for files of the directory.
    pub fn granted(&self) -> Granted {
        self.manifest.granted()
    }

    /// The manifest that will be replaced. A damaged one is replaced, too: this is how it is repaired.
    pub fn previous(&self) -> Result<Previous> {
        let names = |manifest: &Manifest| manifest.shards.iter().map(|shard| shard.name.clone()).collect();
        let (manifest, last, names) = match Manifest::read(self.storage.as_ref(), &self.directory.path) {
            Ok(Some(manifest)) => (Some(manifest.clone()), manifest.generation, names(&manifest)),
            Ok(None) => (None, 0, Vec::new()),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let mut names = names_in(self.storage.as_ref(), &self.directory.path)?;
                names.retain(|name| generation_of(name).is_some());
                (None, names.iter().filter_map(|name| generation_of(name)).max().unwrap_or(0), names)
            }
            Err(error) => return Err(error),
        };
        match last + 1 {
            GENERATION_END => Err(damaged(&Manifest::path(&self.directory.path), "no generation can follow")),
            generation => Ok(Previous { manifest, generation, names }),
        }
    }

    /// Makes `manifest` the manifest of the directory, then removes the files of `previous` that it does not refer to.
    /// If publishing fails, removes the new files instead. Files for which `is_in_use` returns true stay: the caller
    /// removes them afterwards.
    pub fn publish(
        mut self,
        manifest: &Manifest,
        previous: &Previous,
        is_in_use: impl Fn(&Path) -> bool,
    ) -> Result<()> {
        let new: Vec<&str> = manifest.shards.iter().map(|shard| &shard.name[..]).collect();
        let old: Vec<&str> = previous.names.iter().map(|name| &name[..]).collect();
        self.remove_leftovers(manifest.generation, &[&new[..], &old].concat(), is_in_use);
        let published = self.manifest.publish(manifest.text().as_bytes()).map_err(Error::from);
        if !self.manifest.is_published() {
            self.remove(&new, &old);
        }
        published?;
        if previous.manifest.is_none() {
            // The directory's own name, which may be as new as its contents.
            let directory = &self.directory.path;
            let synced = self.storage.sync_names(directory);
            synced.map_err(|e| Error::io(directory, "sync the directory of", e))?;
        }
        self.remove(&old, &new);
        Ok(())
    }

    /// Removes what killed processes left: files with the name of a shard that are not among `kept` and not in use.
    /// Until the manifest is renamed, no other writer can be active here. After that there may be one, and its files
    /// are not in a manifest either.
    fn remove_leftovers(&self, generation: u64, kept: &[&str], is_in_use: impl Fn(&Path) -> bool) {
        let names = self.storage.names_in(&self.directory.path).unwrap_or_default();
        let left = |name: &&str| {
            let is_ours = generation_of(name).is_some_and(|left| left <= generation);
            is_ours && !is_in_use(&self.directory.path.join(name))
        };
        let (manifests, others): (Vec<&str>, Vec<&str>) =
            names.iter().map(|name| &name[..]).filter(left).partition(|name| temporary::is_manifest(name));
        // A sort's manifest is last: without it, its other temporary files would be taken for a user's.
        let are_gone = self.remove(&others, kept);
        if !manifests.is_empty()
            && are_gone
            && self.storage.sync_names(&self.directory.path.join(MANIFEST_NAME)).is_ok()
        {
            self.remove(&manifests, kept);
        }
    }

    /// Removes the files that are not among `kept`. Returns whether all are gone. A file that cannot be removed takes
    /// space but does no other harm.
    fn remove(&self, names: &[&str], kept: &[&str]) -> bool {
        let mut are_gone = true;
        for name in names.iter().filter(|name| !kept.contains(name)) {
            let path = self.directory.path.join(name);
            are_gone &= self.storage.remove(&path).is_ok() || matches!(self.storage.exists(&path), Ok(false));
        }
        are_gone
    }
}

/// Fails if the directory has no manifest and contains anything that a first build would not leave.
fn refuse_other_directories(storage: &dyn Storage, directory: &Path) -> Result<()> {
    match Manifest::read(storage, directory) {
        Ok(None) => {}
        Err(error) if error.kind() != ErrorKind::Corrupt => return Err(error),
        Ok(Some(_)) | Err(_) => return Ok(()),
    }
    let names = names_in(storage, directory)?;
    // The first build may have ended in the meantime.
    let ours =
        |name: &String| [MANIFEST_NAME, "manifest-unfinished"].contains(&&name[..]) || generation_of(name) == Some(1);
    let Some(other) = names.iter().find(|name| !ours(name)) else { return Ok(()) };
    let shown = directory.display();
    let what = format!("holds {other:?} and no manifest, so it is not a dictionary and is not made one");
    Err(Error::new(ErrorKind::NotADictionary, format!("{shown}: {what}"))
        .with_hint("Empty it, or choose another name."))
}

fn names_in(storage: &dyn Storage, directory: &Path) -> Result<Vec<String>> {
    storage.names_in(directory).map_err(|e| Error::io(directory, "list", e))
}
