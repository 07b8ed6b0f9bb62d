//! The build or update of a directory of shards, several of which are written at a time.
//!
//! The file names of a new generation are known in advance and are in no manifest, so files left by a killed process
//! are overwritten by the next one. Not here: the build of one file (`build/new_file.rs`).

use super::directory::{DirectoryWriter, Previous};
use super::manifest::{Manifest, Shard};
use crate::dictionary::build::intake::Intake;
use crate::dictionary::build::new_file::write_sorted;
use crate::dictionary::build::parallel::in_parallel;
use crate::dictionary::build::plan::Plan;
use crate::dictionary::build::writer::begin_shard;
use crate::dictionary::read::file::DictionaryFile;
use crate::error::Result;
use crate::io::Granted;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is being built.
pub(crate) struct NewShards {
    path: PathBuf,
    writer: DirectoryWriter,
    previous: Previous,
    /// The new manifest; its pair counts are filled in when they are known.
    manifest: Manifest,
    /// Files that are kept if nothing changes.
    kept: Vec<Option<Shard>>,
}

impl NewShards {
    /// The directory that `path` leads to, with slots divided as in `divided`. If it does not exist, it is created with
    /// the owner and permissions of the one at `like`.
    pub fn begin(plan: &Plan, path: &Path, divided: &Manifest, like: Option<&Path>) -> Result<NewShards> {
        let path = plan.resolve(path)?;
        let writer = DirectoryWriter::new(plan, &path, like)?;
        let previous = writer.previous()?;
        let manifest = divided.renamed(previous.generation);
        let kept = vec![None; manifest.shards.len()];
        Ok(NewShards { path, writer, previous, manifest, kept })
    }

    /// The access for the new files.
    pub fn granted(&self) -> Granted {
        self.writer.granted()
    }

    /// For a shard without changes, keeps its file among `files`, as recorded in `manifest`, if it is in this
    /// directory. Manifests alone cannot show that: two directories may have equal manifests and different files.
    pub fn keep_unchanged(&mut self, manifest: &Manifest, files: &[Arc<DictionaryFile>]) -> Result<()> {
        if self.previous.manifest.as_ref() == Some(manifest) {
            for ((kept, shard), file) in self.kept.iter_mut().zip(&manifest.shards).zip(files) {
                *kept = file.is_at(&self.path.join(&shard.name))?.then(|| shard.clone());
            }
        }
        Ok(())
    }

    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        self.manifest.shard_of(key)
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.manifest.shards.iter().map(|shard| self.path.join(&shard.name)).collect()
    }

    /// Starts the intake of pairs for all files.
    pub fn intake(&self, plan: &Plan) -> Result<Intake> {
        Intake::new(plan, &self.paths())
    }

    /// Writes each file from what `intake` took for it and from its file in `old`, several at a time, and publishes
    /// them. Returns the total number of pairs. `old` has one file for each, or none at all.
    pub fn finish(self, plan: &Plan, intake: Intake, old: &[Arc<DictionaryFile>]) -> Result<u64> {
        // A forked child must fail here, before an error could remove files.
        let sorters = intake.finish()?;
        let (paths, granted) = (self.paths(), self.granted());
        let written = in_parallel(plan.thread_count(), sorters, |number, sorter| {
            let plan = plan.for_writing(&paths[number], paths.len());
            let storage = Arc::clone(&plan.storage);
            let begin = || begin_shard(&storage, &paths[number], granted);
            write_sorted(plan, sorter, old.get(number), self.kept[number].is_some(), begin)
        });
        let written = written.inspect_err(|_| {
            // No manifest will refer to them.
            paths.iter().for_each(|path| drop(plan.storage.remove(path)));
        })?;
        let NewShards { writer, previous, mut manifest, kept, .. } = self;
        let mut sorts = Vec::with_capacity(written.len());
        for ((shard, (pairs, sorted)), kept) in manifest.shards.iter_mut().zip(written).zip(kept) {
            sorts.push(sorted);
            match pairs {
                Some(pairs) => shard.pairs = pairs,
                None => *shard = kept.expect("a shard that was not written was kept"),
            }
        }
        // Until then a build that is killed continues from what all sorts have saved.
        writer.publish(&manifest, &previous, |path| sorts.iter().any(|sorted| sorted.keeps(path)))?;
        // The next publish removes what this leaves, so this is not a failure.
        sorts.into_iter().for_each(|sorted| drop(sorted.done()));
        Ok(manifest.shards.iter().map(|shard| shard.pairs).sum())
    }
}
