//! Finds what changed between two dictionaries in one pass over both, in hash order.
//!
//! ```text
//! old   runs, read ahead --\    equal positions compared: only old -> removed, only new -> added,
//! new   runs, read ahead --/                              different values -> replaced, else nothing
//! ```
//!
//! Shards are compared one after another; shards that share a file are not read. Cost: one read of the other files.
//! Memory: a few MiB per side, and the values of the current difference. Long values that are equal are never held in
//! memory.
//!
//! Not here: applying the changes (`update.rs`).

use super::handle::Dictionary;
use super::read::file::DictionaryFile;
use super::read::long::ValueAt;
use super::read::within::{ALL, WalkAhead, inclusive};
use super::run::Run;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::stopped;
use std::cmp::Ordering;
use std::ops::{ControlFlow, RangeBounds, RangeInclusive};
use std::sync::Arc;

/// A difference between two dictionaries, from [`Diff::next_ref`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'c> {
    /// Only the newer dictionary has the key.
    Added {
        /// The key.
        key: &'c [u8],
        /// Its value.
        value: &'c [u8],
    },
    /// Only the older dictionary has the key.
    Removed {
        /// The key.
        key: &'c [u8],
        /// The value it had.
        old_value: &'c [u8],
    },
    /// Both have the key, with different values.
    Replaced {
        /// The key.
        key: &'c [u8],
        /// The value in the older dictionary.
        old_value: &'c [u8],
        /// The value in the newer dictionary.
        value: &'c [u8],
    },
}

impl<'c> Change<'c> {
    /// The key.
    pub fn key(&self) -> &'c [u8] {
        match *self {
            Change::Added { key, .. } | Change::Removed { key, .. } | Change::Replaced { key, .. } => key,
        }
    }

    /// The value in the newer dictionary; `None` if the key was removed.
    pub fn value(&self) -> Option<&'c [u8]> {
        match *self {
            Change::Added { value, .. } | Change::Replaced { value, .. } => Some(value),
            Change::Removed { .. } => None,
        }
    }
}

impl Dictionary {
    /// Finds what changed from this dictionary to `newer`, in hash order, shard by shard.
    ///
    /// Reads both once, sequentially, in a few MiB of memory. Values of 1 MiB or more are held only if they differ, and
    /// only during their change. Shards that share a file are not read.
    /// [`Update::apply`](super::Update::apply) takes each change, so the differences between two generations bring a
    /// copy of the first up to the second.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the two were built with different hash functions or seeds, or divided into
    /// shards differently.
    ///
    /// # Examples
    /// ```
    /// use splitpoint::{Dictionary, DictionaryBuilder};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let [old, new, copy] = ["old.spd", "new.spd", "copy.spd"].map(|name| directory.path().join(name));
    /// let builder = DictionaryBuilder::new();
    /// builder.build(&old, [("alice", "admin"), ("bob", "guest")])?;
    /// builder.build(&new, [("alice", "guest"), ("carol", "guest")])?;
    /// std::fs::copy(&old, &copy)?;
    ///
    /// let mut update = Dictionary::update(&copy, &copy, &builder)?;
    /// let mut diff = Dictionary::open(&old)?.diff(&Dictionary::open(&new)?)?;
    /// while let Some(change) = diff.next_ref()? {
    ///     update.apply(&change)?;
    /// }
    /// update.finish()?;
    /// assert_eq!(std::fs::read(&copy)?, std::fs::read(&new)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diff(&self, newer: &Dictionary) -> Result<Diff> {
        self.diff_range(newer, ALL)
    }

    /// Like [`diff`](Self::diff), for the keys whose [`position`](Self::position) is in a range: updates a copy part by
    /// part.
    ///
    /// # Errors
    /// The errors of [`diff`](Self::diff).
    pub fn diff_range(&self, newer: &Dictionary, positions: impl RangeBounds<u64>) -> Result<Diff> {
        self.check_comparable(newer)?;
        let mut files = Vec::new();
        for (old, new) in self.files.iter().zip(&newer.files) {
            if !(old.is_at(&new.path)? && new.is_at(&new.path)?) {
                files.push((Arc::clone(old), Arc::clone(new)));
            }
        }
        files.reverse();
        Ok(Diff { files, positions: inclusive(&positions), sides: None, watch: Watch::default() })
    }

    fn check_comparable(&self, newer: &Dictionary) -> Result<()> {
        let names = format!("{} and {}", self.path().display(), newer.path().display());
        let hash = |dictionary: &Dictionary| {
            let header = &dictionary.files[0].header;
            (header.hash_id, header.hash_seed, header.hash_check)
        };
        if hash(self) != hash(newer) {
            let error = Error::new(ErrorKind::InvalidArgument, format!("{names}: built with other hash functions"));
            return Err(error.with_hint("Build one of them with the hash function and seed of the other."));
        }
        let slots = |dictionary: &Dictionary| {
            let slots = |shard: &super::shards::info::ShardInfo| (shard.first_slot, shard.last_slot);
            let shards: Vec<_> = dictionary.shards().iter().map(slots).collect();
            dictionary.numbers.iter().map(|number| shards[*number]).collect::<Vec<_>>()
        };
        if slots(self) != slots(newer) {
            let message = format!("{names}: divided into shards differently, so their hash orders differ");
            return Err(
                Error::new(ErrorKind::InvalidArgument, message).with_hint("Compare dictionaries with the same shards.")
            );
        }
        Ok(())
    }
}

/// The differences between two dictionaries, from [`Dictionary::diff`]. Ends after an error.
pub struct Diff {
    /// Files to compare; the next pair is the last.
    files: Vec<(Arc<DictionaryFile>, Arc<DictionaryFile>)>,
    positions: RangeInclusive<u64>,
    sides: Option<(Side, Side)>,
    watch: Watch,
}

impl Diff {
    /// Calls `f` from time to time with the number of pairs read so far, in both dictionaries together.
    /// [`ControlFlow::Break`] ends the comparison with [`ErrorKind::Stopped`].
    pub fn progress(mut self, f: impl FnMut(u64) -> ControlFlow<()> + Send + 'static) -> Diff {
        self.watch.report = Some(Box::new(f));
        self
    }

    /// The next difference, borrowed until the next call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Corrupt`].
    pub fn next_ref(&mut self) -> Result<Option<Change<'_>>> {
        let found = self.find().and_then(|found| match (&found, &mut self.sides) {
            (Some(change), Some((old, new))) => {
                old.read_last(!matches!(change, Found::Added))?;
                new.read_last(!matches!(change, Found::Removed))?;
                Ok(found)
            }
            _ => Ok(None),
        });
        if found.is_err() {
            self.files.clear();
            self.sides = None;
        }
        let Some(found) = found? else { return Ok(None) };
        let (old, new) = self.sides.as_ref().expect("something was found in them");
        Ok(Some(match found {
            Found::Removed => Change::Removed { key: old.last_key(), old_value: old.last_value() },
            Found::Added => Change::Added { key: new.last_key(), value: new.last_value() },
            Found::Replaced => {
                Change::Replaced { key: new.last_key(), old_value: old.last_value(), value: new.last_value() }
            }
        }))
    }

    fn find(&mut self) -> Result<Option<Found>> {
        loop {
            if let Some((old, new)) = &mut self.sides
                && let Some(found) = next_difference(old, new, &mut self.watch)?
            {
                return Ok(Some(found));
            }
            if let Some((old, new)) = self.sides.take() {
                self.watch.before += old.read + new.read;
            }
            let Some((old, new)) = self.files.pop() else { return Ok(None) };
            let positions = &self.positions;
            self.sides = Some((Side::new(old, positions.clone())?, Side::new(new, positions.clone())?));
        }
    }
}

/// Reports the number of pairs read to the caller.
#[derive(Default)]
struct Watch {
    report: Option<Box<dyn FnMut(u64) -> ControlFlow<()> + Send>>,
    /// Pairs read in the files that are done.
    before: u64,
    reported: u64,
}

impl Watch {
    fn saw(&mut self, pairs: u64) -> Result<()> {
        let Some(report) = &mut self.report else { return Ok(()) };
        let pairs = self.before + pairs;
        if std::mem::replace(&mut self.reported, pairs) != pairs && report(pairs).is_break() {
            return Err(stopped());
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Found {
    Added,
    Removed,
    Replaced,
}

/// Skips records that are equal on both sides, up to the first difference.
fn next_difference(old: &mut Side, new: &mut Side, watch: &mut Watch) -> Result<Option<Found>> {
    loop {
        if old.group_left() == 0 && new.group_left() == 0 {
            old.fill()?;
            new.fill()?;
            watch.saw(old.read + new.read)?;
            pass_equal(old, new)?;
            let position = match (old.position(), new.position()) {
                (Some(old), Some(new)) => old.min(new),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return Ok(None),
            };
            old.gather(position)?;
            new.gather(position)?;
        }
        let order = match (old.group_left(), new.group_left()) {
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            _ => old.group.key(old.taken).cmp(new.group.key(new.taken)),
        };
        match order {
            Ordering::Less => {
                old.taken += 1;
                return Ok(Some(Found::Removed));
            }
            Ordering::Greater => {
                new.taken += 1;
                return Ok(Some(Found::Added));
            }
            Ordering::Equal => {
                let differ = !old.next_value().equals(&new.next_value())?;
                (old.taken, new.taken) = (old.taken + 1, new.taken + 1);
                if differ {
                    return Ok(Some(Found::Replaced));
                }
            }
        }
    }
}

/// Skips equal records without copying them, up to the last of a run or the first that shares its position with
/// another.
fn pass_equal(old: &mut Side, new: &mut Side) -> Result<()> {
    while let (Some(left), Some(right)) = (old.single(), new.single()) {
        if left != right || old.run.key(old.at) != new.run.key(new.at) {
            break;
        }
        let values = [&old, &new].map(|side| ValueAt::of(&side.file, &side.run, side.at));
        if !values[0].equals(&values[1])? {
            break;
        }
        (old.at, new.at) = (old.at + 1, new.at + 1);
    }
    Ok(())
}

/// The records of one file.
struct Side {
    file: Arc<DictionaryFile>,
    records: WalkAhead,
    run: Run,
    /// The next record of `run`.
    at: usize,
    ended: bool,
    /// The number of records in all runs so far.
    read: u64,
    /// Records of one position, sorted by key; `taken` of them have been compared.
    group: Run,
    taken: usize,
    /// The value of the last record taken, if it is long.
    long: Vec<u8>,
}

impl Side {
    fn new(file: Arc<DictionaryFile>, positions: RangeInclusive<u64>) -> Result<Side> {
        let records = WalkAhead::new(Arc::clone(&file), positions)?;
        let (run, group) = (Run::default(), Run::default());
        Ok(Side { file, records, run, at: 0, ended: false, read: 0, group, taken: 0, long: Vec::new() })
    }

    /// Loads the next record if none is loaded; `false` at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.at == self.run.len() && !self.ended {
            self.ended = !self.records.next(&mut self.run)?;
            self.at = 0;
            self.read += self.run.len() as u64;
        }
        Ok(self.at < self.run.len())
    }

    /// The position of the next record, if the run has one.
    fn position(&self) -> Option<u64> {
        self.run.positions.get(self.at).copied()
    }

    /// The position of the next record, if the record after it is in the run too and has a different position.
    fn single(&self) -> Option<u64> {
        let position = self.position()?;
        self.run.positions.get(self.at + 1).is_some_and(|next| *next != position).then_some(position)
    }

    /// Replaces the group with all following records of `position`, if any.
    fn gather(&mut self, position: u64) -> Result<()> {
        self.group.clear();
        self.taken = 0;
        while self.fill()? && self.run.positions[self.at] == position {
            self.group.push_record(position, self.run.record(self.at));
            self.at += 1;
        }
        self.group.sort();
        Ok(())
    }

    fn group_left(&self) -> usize {
        self.group.len() - self.taken
    }

    fn last_key(&self) -> &[u8] {
        self.group.key(self.taken - 1)
    }

    /// The value of the next record of the group to be taken.
    fn next_value(&self) -> ValueAt<'_> {
        ValueAt::of(&self.file, &self.group, self.taken)
    }

    /// Reads the value of the record taken last, if it is long and `wanted`; drops the previous one.
    fn read_last(&mut self, wanted: bool) -> Result<()> {
        self.long = Vec::new();
        if wanted && let ValueAt::Long(value) = ValueAt::of(&self.file, &self.group, self.taken - 1) {
            value.read_into(&mut self.long)?;
        }
        Ok(())
    }

    fn last_value(&self) -> &[u8] {
        match ValueAt::of(&self.file, &self.group, self.taken - 1) {
            ValueAt::Here(value) => value,
            ValueAt::Long(_) => &self.long,
        }
    }
}
