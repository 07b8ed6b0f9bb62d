//! Changes a dictionary: merges a batch of pairs and deletions with the old file in one pass into a new one.
//!
//! Cost: one read of the old data and one write of the new, whatever the size of the batch; sorting the batch; making
//! the index again. Source: Lim et al. 2013, section 2.5. Not here: the merge (`build/merge.rs`).

use super::build::duplicates::Duplicates;
use super::build::intake::Intake;
use super::build::new_file::NewFile;
use super::build::plan::{Plan, access_at};
use super::builder::DictionaryBuilder;
use super::diff::Change;
use super::handle::{Dictionary, DictionaryOptions};
use super::shards::manifest::Manifest;
use super::shards::new_shards::NewShards;
use super::target::Target;
use crate::error::Result;
use std::path::Path;
use std::sync::Arc;

impl Dictionary {
    /// Begins an update: push pairs and deletions to it; [`Update::finish`] then writes old and new pairs to a new
    /// file.
    ///
    /// `builder` determines how the batch is sorted and which index and filter are made. Hash function, pages and
    /// compression stay those of the old file. If a key is changed several times, the last change is applied.
    ///
    /// # Errors
    /// The errors of [`DictionaryBuilder::start`] and [`Dictionary::open`];
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `builder` is set to
    /// [`resume`](DictionaryBuilder::resume); [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) if the index or
    /// one of its chunks would not fit in the memory allowed.
    pub fn update(old: impl AsRef<Path>, new: impl AsRef<Path>, builder: &DictionaryBuilder) -> Result<Update> {
        Update::start(old.as_ref(), new.as_ref(), builder, Unchanged::Kept)
    }
}

/// A batch of changes to a dictionary, made by [`Dictionary::update`].
///
/// If it is dropped before [`finish`](Self::finish), nothing changes.
pub struct Update {
    old: Dictionary,
    plan: Plan,
    target: Target,
    intake: Intake,
    count: u64,
}

/// The treatment of shards without changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// Their files are kept.
    Kept,
    /// They are rewritten with another index.
    Written,
}

impl Update {
    pub(super) fn start(old: &Path, new: &Path, builder: &DictionaryBuilder, unchanged: Unchanged) -> Result<Update> {
        builder.plan.check_not_resuming()?;
        builder.plan.check_temporary_directory()?;
        let storage = &builder.plan.storage;
        // The new dictionary gets the access of the old one.
        let plan =
            |file: &Path| -> Result<Plan> { Ok(builder.plan.clone().made_from(access_at(storage.as_ref(), file)?)) };
        let options = DictionaryOptions::new().hashed_by(&builder.plan.hash);
        let (old, mut target) = loop {
            let mut dictionary = options.open_on(Arc::clone(storage), old)?;
            builder.plan.check(dictionary.files.len())?;
            let parts = dictionary.files.len();
            dictionary.files.iter().try_for_each(|file| builder.plan.check_memory_for(file, parts))?;
            let target = match &dictionary.manifest {
                None => Target::File(NewFile::begin(&plan(old)?, new)?),
                Some(manifest) => {
                    let plan = plan(&Manifest::path(old))?;
                    Target::Shards(Box::new(NewShards::begin(&plan, new, manifest, Some(old))?))
                }
            };
            // Another update of the same files may have completed before the target was locked; then this one starts
            // from its result.
            if !dictionary.reload()? {
                break (dictionary, target);
            }
        };
        let plan = Plan { duplicates: Duplicates::Last, granted: Some(target.granted()), ..builder.plan.clone() }
            .shaped_as(&old.files[0])
            .started();
        if let (Some(manifest), Target::Shards(shards)) = (&old.manifest, &mut target)
            && unchanged == Unchanged::Kept
        {
            shards.keep_unchanged(manifest, &old.files)?;
        }
        let intake = target.intake(&plan)?;
        Ok(Update { old, plan, target, intake, count: 0 })
    }

    /// Stores `value` under `key`, replacing an earlier value.
    ///
    /// # Errors
    /// The errors of [`Build::push`](super::Build::push).
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.push(key, Some(value))
    }

    /// Removes `key`, if present.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.push(key, None)
    }

    /// Applies a change found by [`Dictionary::diff`]: stores the new value, or removes the key.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn apply(&mut self, change: &Change<'_>) -> Result<()> {
        self.push(change.key(), change.value())
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.count += 1;
        let shard = self.target.shard_of(key);
        self.intake.push(shard, key, value, self.count)
    }

    /// Merges the changes, writes the new files and publishes them. Returns the number of pairs in the new dictionary.
    /// Shards without changes keep their files.
    ///
    /// # Errors
    /// The errors of [`Build::finish`](super::Build::finish); [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if the
    /// old file is damaged.
    pub fn finish(self) -> Result<u64> {
        self.target.finish(&self.plan, self.intake, &self.old.files)
    }
}

impl DictionaryBuilder {
    /// Writes the pairs of the dictionary at `old` to `new` with this builder's index and filter. Pages, compression,
    /// hash function and shards stay those of the old dictionary. One pass, no sort.
    ///
    /// # Errors
    /// The errors of [`Dictionary::open`] and [`Build::finish`](super::Build::finish);
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) with [`resume`](Self::resume).
    pub fn reindex(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<u64> {
        Update::start(old.as_ref(), new.as_ref(), self, Unchanged::Written)?.finish()
    }
}
