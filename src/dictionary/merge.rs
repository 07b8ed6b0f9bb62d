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

use super::Dictionary;
use super::assemble::{Output, Runs, publish};
use super::build::DictionaryBuilder;
use super::file::{Access, DictionaryFile};
use super::format::Layout;
use super::run::Run;
use super::sort::{Duplicates, Sorter};
use super::walk::Walk;
use crate::error::Result;
use crate::io::{Disk, Storage};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Dictionary {
    /// Begins an update: pairs and deletions are pushed to it, and [`Update::finish`] writes old and new pairs to a new file.
    ///
    /// `builder` says how the new file is made and how the batch is sorted; its hash function, pages and compression are the old
    /// file's, whatever it says, and its duplicates are taken for [`Duplicates::Last`]: of changes to one key the last counts.
    ///
    /// # Errors
    /// As [`DictionaryBuilder::start`] and [`Dictionary::open`].
    pub fn update(old: impl AsRef<Path>, new: impl AsRef<Path>, builder: &DictionaryBuilder) -> Result<Update> {
        Update::start(&Disk, old.as_ref(), new.as_ref(), builder)
    }
}

/// A batch of changes to a dictionary, made by [`Dictionary::update`].
///
/// Dropped before [`finish`](Self::finish) it changes nothing.
pub struct Update {
    storage: &'static dyn Storage,
    old: Arc<DictionaryFile>,
    new: PathBuf,
    builder: DictionaryBuilder,
    sorter: Sorter<'static>,
    count: u64,
}

impl Update {
    fn start(storage: &'static dyn Storage, old: &Path, new: &Path, builder: &DictionaryBuilder) -> Result<Update> {
        let access = Access { hash: Some(builder.plan().hash), ..Access::default() };
        let old = Arc::new(DictionaryFile::open(storage, old, &access)?);
        let builder = builder.clone().shaped_as(&old);
        builder.check()?;
        Output::check(storage, new)?;
        let sorter = Sorter::new(storage, builder.sort_options(new, Duplicates::Last))?;
        Ok(Update { storage, old, new: new.to_owned(), builder, sorter, count: 0 })
    }

    /// Stores `value` under `key`, in place of an earlier value.
    ///
    /// # Errors
    /// As [`Build::push`](crate::Build::push).
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        self.sorter.push(key, Some(value), self.count)
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        self.count += 1;
        self.sorter.push(key, None, self.count)
    }

    /// Merges, writes and publishes; gives how many pairs the new dictionary has.
    ///
    /// # Errors
    /// As [`Build::finish`](crate::Build::finish), and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) of the old file.
    pub fn finish(self) -> Result<u64> {
        let Update { storage, old, new, builder, sorter, .. } = self;
        let output = Output::new(storage, &new)?;
        let mut sorted = sorter.finish()?;
        let layout = layout_of_both(&old, sorted.put_lengths());
        let total = old.footer.pairs + sorted.records();
        let merge = Merge { old: Source::new(Walk::new(&old)), batch: Source::new(&mut sorted) };
        let footer = publish(&builder.plan(), output, layout, &mut builder.watch(merge, total))?;
        sorted.done()?;
        Ok(footer.pairs)
    }
}

/// The layout of what the merge will give, as far as can be said; a guess of `Varied` is mended by `publish`.
fn layout_of_both(old: &DictionaryFile, puts: super::sort::PutLengths) -> Layout {
    use super::sort::PutLengths;
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

/// A merged run ends at this many bytes, or records.
const RUN_BYTES: usize = 1 << 20;
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
