//! The destination of a build or an update: one file, or a directory of shards, several of which are written at a time.
//!
//! The file names of a new generation are known in advance and are in no manifest, so files left by a killed process
//! are overwritten by the next one.

use super::directory::{DirectoryWriter, Previous};
use super::manifest::{Manifest, Shard};
use crate::dictionary::build::intake::Intake;
use crate::dictionary::build::merge::write_merged;
use crate::dictionary::build::parallel::in_parallel;
use crate::dictionary::build::plan::Plan;
use crate::dictionary::build::sort::Sorter;
use crate::dictionary::build::writer::{begin_file, begin_shard};
use crate::dictionary::read::file::DictionaryFile;
use crate::error::Result;
use crate::io::Granted;
use crate::io::atomic::AtomicFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) struct Target {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// Created immediately, so that a second writer of the same file fails immediately.
    File(Box<AtomicFile>),
    Shards(Box<Shards>),
}

struct Shards {
    writer: DirectoryWriter,
    previous: Previous,
    /// The new manifest; its pair counts are filled in when they are known.
    manifest: Manifest,
    /// Files that are kept if nothing changes.
    kept: Vec<Option<Shard>>,
}

/// The inputs of one file.
struct Part {
    sorter: Sorter,
    old: Option<Arc<DictionaryFile>>,
    /// The one file of a target without shards.
    output: Option<AtomicFile>,
    /// The path, and whether the old file is kept if none of its pairs change.
    path: PathBuf,
    is_kept: bool,
}

impl Target {
    /// A target for the file that `path` leads to.
    pub fn file(plan: &Plan, path: &Path) -> Result<Target> {
        let path = plan.resolve(path)?;
        let output = begin_file(&plan.storage, &path, plan.granted_at(&path)?)?;
        Ok(Target { path, kind: Kind::File(Box::new(output)) })
    }

    /// A target for the directory that `path` leads to, with slots divided as in `divided`. If it does not exist, it is
    /// created with the owner and permissions of the one at `like`.
    pub fn directory(plan: &Plan, path: &Path, divided: &Manifest, like: Option<&Path>) -> Result<Target> {
        let path = plan.resolve(path)?;
        let writer = DirectoryWriter::new(plan, &path, like)?;
        let previous = writer.previous()?;
        let manifest = divided.renamed(previous.generation);
        let kept = vec![None; manifest.shards.len()];
        let shards = Shards { writer, previous, manifest, kept };
        Ok(Target { path, kind: Kind::Shards(Box::new(shards)) })
    }

    /// The access for the new files.
    pub fn granted(&self) -> Granted {
        match &self.kind {
            Kind::File(output) => output.granted(),
            Kind::Shards(shards) => shards.writer.granted(),
        }
    }

    /// For a shard without changes, keeps its file among `files`, as recorded in `manifest`, if it is in this
    /// directory. Manifests alone cannot show that: two directories may have equal manifests and different files.
    pub fn keep_unchanged(&mut self, manifest: &Manifest, files: &[Arc<DictionaryFile>]) -> Result<()> {
        if let Kind::Shards(shards) = &mut self.kind
            && shards.previous.manifest.as_ref() == Some(manifest)
        {
            for ((kept, shard), file) in shards.kept.iter_mut().zip(&manifest.shards).zip(files) {
                *kept = file.is_at(&self.path.join(&shard.name))?.then(|| shard.clone());
            }
        }
        Ok(())
    }

    /// The shard of a key; 0 without shards.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> usize {
        match &self.kind {
            Kind::File(_) => 0,
            Kind::Shards(shards) => shards.manifest.shard_of(key),
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        match &self.kind {
            Kind::File(_) => vec![self.path.clone()],
            Kind::Shards(shards) => shards.manifest.shards.iter().map(|shard| self.path.join(&shard.name)).collect(),
        }
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
        let paths = self.paths();
        let (count, granted) = (paths.len(), self.granted());
        let (mut output, mut shards) = match self.kind {
            Kind::File(output) => (Some(*output), None),
            Kind::Shards(shards) => (None, Some(shards)),
        };
        let part = |(index, (sorter, path)): (usize, (Sorter, &PathBuf))| Part {
            sorter,
            old: old.get(index).cloned(),
            output: output.take(),
            path: path.clone(),
            is_kept: shards.as_ref().is_some_and(|shards| shards.kept[index].is_some()),
        };
        let parts: Vec<Part> = sorters.into_iter().zip(&paths).enumerate().map(part).collect();
        let written = in_parallel(plan.thread_count(), parts, |_, part| {
            let plan = plan.for_writing(&part.path, count);
            part.write(plan, granted)
        });
        let Some(shards) = shards.take() else {
            return written.map(|pairs| pairs.into_iter().flatten().sum());
        };
        let written = written.inspect_err(|_| {
            // No manifest will refer to them.
            paths.iter().for_each(|path| drop(plan.storage.remove(path)));
        })?;
        let Shards { writer, previous, mut manifest, kept } = *shards;
        for ((shard, pairs), kept) in manifest.shards.iter_mut().zip(written).zip(kept) {
            match pairs {
                Some(pairs) => shard.pairs = pairs,
                None => *shard = kept.expect("a shard that was not written was kept"),
            }
        }
        writer.publish(&manifest, &previous)?;
        Ok(manifest.shards.iter().map(|shard| shard.pairs).sum())
    }
}

impl Part {
    /// Returns the file's number of pairs; `None` if the old file is kept.
    fn write(self, plan: Plan, granted: Granted) -> Result<Option<u64>> {
        let forecast = self.sorter.forecast().with_old(self.old.as_deref(), self.sorter.removals());
        let shares = plan.shares(&forecast)?;
        let mut sorted = self.sorter.finish_within(shares.sort)?;
        let mut pairs = None;
        if !self.is_kept || sorted.records() > 0 {
            let output = match self.output {
                Some(output) => output,
                None => begin_shard(&plan.storage, &self.path, granted)?,
            };
            pairs = Some(write_merged(plan, shares, output, self.old.as_ref(), &mut sorted)?.pairs);
        }
        // The next sort overwrites what this one left, and once the dictionary has its name this is not a failure.
        let _ = sorted.done();
        Ok(pairs)
    }
}
