//! Where a build or an update goes: to one file, or to a directory of shards that are written side by side.
//!
//! The names of a new generation's files are known beforehand and named by no manifest, so what a killed process left of them is
//! overwritten by the next one.

use super::assemble::Output;
use super::build::{DictionaryBuilder, Watch};
use super::shards::{Manifest, Publisher};
use super::sort::{Duplicates, Sorted, Sorter};
use crate::error::Result;
use crate::io::Storage;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub(super) struct Target {
    pub storage: &'static dyn Storage,
    path: PathBuf,
    shards: Option<Shards>,
}

struct Shards {
    publisher: Publisher<'static>,
    /// What is there.
    before: Option<Manifest>,
    /// What will be; pairs are filled in as they become known.
    manifest: Manifest,
}

impl Target {
    pub fn file(storage: &'static dyn Storage, path: &Path) -> Result<Target> {
        // Before a day of sorting, not after it.
        Output::check(storage, path)?;
        Ok(Target { storage, path: path.to_owned(), shards: None })
    }

    /// `divided` gives the manifest of a generation.
    pub fn directory(
        storage: &'static dyn Storage,
        path: &Path,
        divided: impl FnOnce(u64) -> Manifest,
    ) -> Result<Target> {
        let publisher = Publisher::new(storage, path)?;
        let before = Manifest::read(storage, path)?;
        let manifest = divided(before.as_ref().map_or(0, |before| before.generation) + 1);
        let shards = Shards { publisher, before, manifest };
        Ok(Target { storage, path: path.to_owned(), shards: Some(shards) })
    }

    pub fn shard_of(&self, key: &[u8]) -> usize {
        self.shards.as_ref().map_or(0, |shards| shards.manifest.shard_of(key))
    }

    fn count(&self) -> usize {
        self.shards.as_ref().map_or(1, |shards| shards.manifest.shards.len())
    }

    fn path_of(&self, shard: usize) -> PathBuf {
        match &self.shards {
            None => self.path.clone(),
            Some(shards) => self.path.join(&shards.manifest.shards[shard].name),
        }
    }

    /// One for each shard.
    pub fn sorters(&self, builder: &DictionaryBuilder, duplicates: Duplicates) -> Result<Vec<Sorter<'static>>> {
        let count = self.count();
        let sorter =
            |shard| Sorter::new(self.storage, builder.sort_options(&self.path_of(shard), duplicates, count));
        (0..count).map(sorter).collect()
    }

    /// Has `write` write each shard, from what its sorter sorted, to the path it is given, several at the same time; it gives how many
    /// pairs that are. Then publishes; gives how many pairs there are in all.
    pub fn finish(
        self,
        builder: &DictionaryBuilder,
        sorters: Vec<Sorter<'static>>,
        write: impl Fn(usize, &mut Sorted<'static>, &Path, &Watch) -> Result<Written> + Sync,
    ) -> Result<u64> {
        let watch = builder.watch(0);
        let Some(_) = &self.shards else {
            let sorter = sorters.into_iter().next().expect("one sorter for one file");
            let mut sorted = sorter.finish()?;
            let written = write(0, &mut sorted, &self.path, &watch)?;
            sorted.done()?;
            return Ok(written.pairs);
        };
        let jobs: Vec<_> = sorters.into_iter().map(|sorter| Mutex::new(Some(sorter))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)).map(|job| (job, next.load(Relaxed))) {
                let _ = job;
            }
            done.push(());
        };
        let _ = work;
        todo!()
    }
}
