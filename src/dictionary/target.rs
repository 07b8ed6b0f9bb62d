//! Where a build or an update goes: to one file, or to a directory of shards that are written side by side.
//!
//! The names of a new generation's files are known beforehand and named by no manifest, so what a killed process left of them is
//! overwritten by the next one.

use super::assemble;
use super::build::{DictionaryBuilder, Watch};
use super::file::DictionaryFile;
use super::publish::Unpublished;
use super::shards::{Before, Manifest, Publisher, Shard};
use super::sort::{Duplicates, Sorted, Sorter};
use crate::error::Result;
use crate::io::Storage;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Target {
    pub storage: &'static dyn Storage,
    path: PathBuf,
    /// The one file; made at once, so that whoever begins with the same one is told.
    output: Option<Unpublished<'static>>,
    shards: Option<Shards>,
}

struct Shards {
    publisher: Publisher<'static>,
    before: Before,
    /// What will be; pairs are filled in as they become known.
    manifest: Manifest,
    /// Files that stay where nothing changes.
    kept: Vec<Option<Shard>>,
}

impl Target {
    pub fn file(storage: &'static dyn Storage, path: &Path) -> Result<Target> {
        let output = Some(assemble::output(storage, path)?);
        Ok(Target { storage, path: path.to_owned(), output, shards: None })
    }

    /// `divided` gives the manifest of a generation.
    pub fn directory(
        storage: &'static dyn Storage,
        path: &Path,
        divided: impl FnOnce(u64) -> Manifest,
    ) -> Result<Target> {
        let publisher = Publisher::new(storage, path)?;
        let before = publisher.before()?;
        let manifest = divided(before.generation);
        let kept = vec![None; manifest.shards.len()];
        let shards = Shards { publisher, before, manifest, kept };
        Ok(Target { storage, path: path.to_owned(), output: None, shards: Some(shards) })
    }

    /// Where a shard has no changes, its file of `files` as `manifest` has it stays, if it is this directory's. Manifests alone do not
    /// tell: those of two directories may be equal, and what is in their files not.
    pub fn keep_unchanged(&mut self, manifest: &Manifest, files: &[Arc<DictionaryFile>]) -> Result<()> {
        if let Some(shards) = &mut self.shards
            && shards.before.manifest.as_ref() == Some(manifest)
        {
            for ((kept, shard), file) in shards.kept.iter_mut().zip(&manifest.shards).zip(files) {
                *kept = file.is_at(&self.path.join(&shard.name))?.then(|| shard.clone());
            }
        }
        Ok(())
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
        let sorter = |shard| Sorter::new(self.storage, builder.sort_options(&self.path_of(shard), duplicates, count));
        (0..count).map(sorter).collect()
    }

    /// Has `write` write each shard that its sorter has something for, or all of them, from what was sorted to the output it is given,
    /// several at the same time; it gives how many pairs the shard has. Then publishes; gives how many pairs there are in all.
    pub fn finish(
        mut self,
        builder: &DictionaryBuilder,
        sorters: Vec<Sorter<'static>>,
        write: impl Fn(usize, &mut Sorted<'static>, Unpublished<'static>, &Watch) -> Result<u64> + Sync,
    ) -> Result<u64> {
        // Before anything that would be taken back by removing files.
        sorters.iter().try_for_each(Sorter::refuse_if_forked)?;
        let watch = builder.watch(0);
        let paths: Vec<PathBuf> = (0..self.count()).map(|shard| self.path_of(shard)).collect();
        let output = Mutex::new(self.output.take());
        let output_of = |shard: usize| match output.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(output) => Ok(output),
            None => assemble::shard_output(self.storage, &paths[shard], &Manifest::path(&self.path)),
        };
        let kept = |shard: usize| self.shards.as_ref().and_then(|shards| shards.kept[shard].clone());
        let one = |shard: usize, sorter: Sorter<'static>| -> Result<Option<u64>> {
            let mut sorted = sorter.finish()?;
            let pairs = match kept(shard) {
                Some(_) if sorted.records() == 0 => None,
                _ => Some(write(shard, &mut sorted, output_of(shard)?, &watch)?),
            };
            // What is left of the sort is overwritten by the next one, and a dictionary that has its name is no failure.
            let _ = sorted.done();
            Ok(pairs)
        };
        let written = side_by_side(builder.thread_count(), sorters, one);
        let Some(shards) = &mut self.shards else {
            return written.into_iter().map(|pairs| pairs.map(Option::unwrap_or_default)).sum();
        };
        let all: Result<Vec<Option<u64>>> = written.into_iter().collect();
        let all = all.inspect_err(|_| {
            // No manifest will name them.
            paths.iter().for_each(|path| drop(self.storage.remove(path)));
        })?;
        for (index, (shard, pairs)) in shards.manifest.shards.iter_mut().zip(all).enumerate() {
            match pairs {
                Some(pairs) => shard.pairs = pairs,
                None => *shard = shards.kept[index].clone().expect("what was not written was kept"),
            }
        }
        let count = shards.manifest.shards.iter().map(|shard| shard.pairs).sum();
        let Some(Shards { publisher, before, manifest, .. }) = self.shards.take() else {
            unreachable!("looked at above")
        };
        publisher.publish(&manifest, &before)?;
        Ok(count)
    }
}

/// `work` on each of `items` with its number, on up to `threads` threads; results in order. After an error no new work is begun.
fn side_by_side<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(usize, T) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        let mut results = Vec::new();
        for (number, item) in items.into_iter().enumerate() {
            results.push(work(number, item));
            if results[number].is_err() {
                break;
            }
        }
        return results;
    }
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let results: Vec<_> = items.iter().map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    let Some(item) = items.get(number) else { break };
                    if failed.load(Relaxed) {
                        break;
                    }
                    let item = item.lock().ok().and_then(|mut item| item.take());
                    let result = work(number, item.expect("each number is given once"));
                    failed.fetch_or(result.is_err(), Relaxed);
                    *results[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}
