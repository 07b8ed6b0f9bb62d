//! Changing a dictionary: a sorted batch and the old file merged in one pass into a new one.
//!
//! ```text
//! old file -> walk.rs -> runs --\
//!                                merge by (position, key) -> assemble.rs -> new file
//! batch -> sort/ -----> runs --/
//! ```
//!
//! Cost: one read of the old data and one write of the new, whatever the batch; sorting the batch; the index again. Records of the
//! old file between two of the batch are copied in one piece where all have one size.
//! Source: Lim et al. 2013, section 2.5.

use super::assemble::{Runs, publish};
use super::build::DictionaryBuilder;
use super::file::DictionaryFile;
use super::format::Layout;
use super::run::{RUN_BYTES, Run};
use super::sort::{Duplicates, PutLengths, Sorter};
use super::target::Target;
use super::walk::WalkAhead;
use super::{Dictionary, DictionaryOptions};
use crate::error::Result;
use crate::io::{Disk, Storage};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

impl Dictionary {
    /// Begins an update: pairs and deletions are pushed to it, and [`Update::finish`] writes old and new pairs to a new file.
    ///
    /// `builder` says how the new file is made and how the batch is sorted; its hash function, pages and compression are the old
    /// file's, whatever it says, and its duplicates are taken for [`Duplicates::Last`]: of changes to one key the last counts.
    ///
    /// # Errors
    /// As [`DictionaryBuilder::start`] and [`Dictionary::open`]; [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)
    /// where `builder` is to [`resume`](DictionaryBuilder::resume): what a batch left is not for another one.
    pub fn update(old: impl AsRef<Path>, new: impl AsRef<Path>, builder: &DictionaryBuilder) -> Result<Update> {
        Update::start(&Disk, old.as_ref(), new.as_ref(), builder, Unchanged::Kept)
    }
}

/// A batch of changes to a dictionary, made by [`Dictionary::update`].
///
/// Dropped before [`finish`](Self::finish) it changes nothing.
pub struct Update {
    old: Dictionary,
    builder: DictionaryBuilder,
    target: Target,
    sorters: Vec<Sorter<'static>>,
    count: u64,
}

/// What becomes of shards that a batch does not change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// Their files stay.
    Kept,
    /// They are written like the others: the index is to be another.
    Written,
}

impl Update {
    pub(super) fn start(
        storage: &'static dyn Storage,
        old: &Path,
        new: &Path,
        builder: &DictionaryBuilder,
        unchanged: Unchanged,
    ) -> Result<Update> {
        builder.check_not_resuming()?;
        let options = DictionaryOptions::new().hash(builder.hash.clone());
        let (old, mut target) = loop {
            let mut dictionary = options.open_on(storage, old)?;
            let target = match &dictionary.manifest {
                None => Target::file(storage, new)?,
                Some(manifest) => Target::directory(storage, new, |generation| manifest.renamed(generation))?,
            };
            // Another update of the same files may have ended before the target was locked; then from its end.
            if !dictionary.reload()? {
                break (dictionary, target);
            }
        };
        let builder = builder.clone().shaped_as(&old.files[0]);
        builder.check()?;
        if let Some(manifest) = &old.manifest
            && unchanged == Unchanged::Kept
        {
            target.keep_unchanged(manifest, &old.files)?;
        }
        let sorters = target.sorters(&builder, Duplicates::Last)?;
        Ok(Update { old, builder, target, sorters, count: 0 })
    }

    /// Stores `value` under `key`, in place of an earlier value.
    ///
    /// # Errors
    /// As [`Build::push`](crate::Build::push).
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.push(key, Some(value))
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.push(key, None)
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.count += 1;
        let shard = self.target.shard_of(key);
        self.sorters[shard].push(key, value, self.count)
    }

    /// Merges, writes and publishes; gives how many pairs the new dictionary has. Of a directory of shards, those without changes stay.
    ///
    /// # Errors
    /// As [`Build::finish`](crate::Build::finish), and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) of the old file.
    pub fn finish(self) -> Result<u64> {
        let Update { old, builder, target, sorters, .. } = self;
        let parts = sorters.len();
        target.finish(&builder, sorters, |shard, sorted, output, watch| {
            let old = &old.files[shard];
            let layout = layout_of_both(old, sorted.put_lengths());
            watch.expect(old.footer.pairs + sorted.records());
            let merge = Merge {
                old: Source::new(WalkAhead::new(Arc::clone(old))?),
                batch: Source::new(builder.sorted_runs(sorted)),
            };
            let plan = builder.plan(&output.path, parts);
            Ok(publish(&plan, output, layout, &mut watch.runs(merge))?.pairs)
        })
    }
}

/// The layout of what the merge will give, as far as can be said; a guess of `Varied` is mended by `publish`.
fn layout_of_both(old: &DictionaryFile, puts: PutLengths) -> Layout {
    match puts {
        PutLengths::None => old.header.layout,
        PutLengths::One(key_len, value_len) if old.footer.pairs == 0 => Layout::fixed(key_len, value_len),
        PutLengths::One(key_len, value_len) if old.header.layout == Layout::fixed(key_len, value_len) => {
            old.header.layout
        }
        _ => Layout::Varied,
    }
}

/// Runs one after another, and how far the current one is used up.
struct Source<R> {
    runs: R,
    run: Run,
    at: usize,
    ended: bool,
}

impl<R: Runs> Source<R> {
    fn new(runs: R) -> Self {
        Source { runs, run: Run::default(), at: 0, ended: false }
    }

    /// Sees to it that there is a current record; `false` at the end.
    #[inline]
    fn ready(&mut self) -> Result<bool> {
        while self.at == self.run.len() {
            if self.ended {
                return Ok(false);
            }
            self.at = 0;
            self.ended = !self.runs.next(&mut self.run)?;
            if self.ended {
                self.run.clear();
            }
        }
        Ok(true)
    }

    fn position(&self) -> u64 {
        self.run.positions[self.at]
    }

    fn key(&self) -> &[u8] {
        self.run.key(self.at)
    }
}

/// Old records and a batch's, the batch's first where keys are equal, without those that it deletes.
struct Merge<O, B> {
    old: Source<O>,
    batch: Source<B>,
}

/// A merged run ends at so many records, if not before by its bytes.
const RUN_RECORDS: usize = 1 << 16;

impl<O: Runs, B: Runs> Runs for Merge<O, B> {
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        run.clear();
        while run.bytes.len() < RUN_BYTES && run.len() < RUN_RECORDS {
            match (self.old.ready()?, self.batch.ready()?) {
                (false, false) => break,
                (true, false) => take(run, &mut self.old, RUN_RECORDS),
                (false, true) => self.take_change(run),
                (true, true) => self.take_smaller(run),
            }
        }
        Ok(!run.is_empty())
    }
}

impl<O: Runs, B: Runs> Merge<O, B> {
    fn take_smaller(&mut self, run: &mut Run) {
        let position = self.batch.position();
        let rest = &self.old.run.positions[self.old.at..];
        let before = before(rest, position);
        if before > 0 {
            return take(run, &mut self.old, before);
        }
        match (self.old.position(), self.old.key()).cmp(&(position, self.batch.key())) {
            Ordering::Less => take(run, &mut self.old, 1),
            Ordering::Equal => {
                self.old.at += 1;
                self.take_change(run);
            }
            Ordering::Greater => self.take_change(run),
        }
    }

    fn take_change(&mut self, run: &mut Run) {
        if self.batch.run.value(self.batch.at).is_some() {
            take(run, &mut self.batch, 1);
        } else {
            self.batch.at += 1;
        }
    }
}

/// How many of the ascending `positions` are below `position`: by doubling steps, as a batch is spread evenly among the old.
fn before(positions: &[u64], position: u64) -> usize {
    let mut step = 1;
    while step < positions.len() && positions[step] < position {
        step *= 2;
    }
    let from = step / 2;
    let to = positions.len().min(step + 1);
    from + positions[from..to].partition_point(|at| *at < position)
}

/// Moves up to `count` records of `source`'s run to `run`.
fn take<R>(run: &mut Run, source: &mut Source<R>, count: usize) {
    let range = source.at..source.run.len().min(source.at + count);
    source.at = range.end;
    run.append(&source.run, range);
}
