//! The input of one file: a sorted batch, merged with the records of an older file if there is one.
//!
//! ```text
//! old file -> read/walk.rs -> runs --\
//!                                     merge by (position, key) -> writer.rs
//! batch -> sort/ -----------> runs --/
//! ```
//!
//! Cost: one read of the old data, whatever the size of the batch. If all records have one size, the old records
//! between two of the batch are copied in one piece. Source: Lim et al. 2013, section 2.5.

use super::duplicates::{CHOOSE, SortError};
use super::far::FarSources;
use super::memory::Shares;
use super::plan::{PlaceNames, Plan};
use super::sort::Sorted;
use super::sort::lengths::PutLengths;
use super::writer::FileWriter;
use crate::dictionary::format::ends::Footer;
use crate::dictionary::format::layout::Layout;
use crate::dictionary::read::file::DictionaryFile;
use crate::dictionary::read::within::{ALL, WalkAhead};
use crate::dictionary::run::{RUN_BYTES, Run};
use crate::error::{Error, ErrorKind, Result, quote};
use crate::io::atomic::AtomicFile;
use std::cmp::Ordering;
use std::sync::Arc;

/// Writes `sorted`, merged with the records of `old`, to `output`.
pub(crate) fn write_merged(
    plan: Plan,
    shares: Shares,
    output: AtomicFile,
    old: Option<&Arc<DictionaryFile>>,
    sorted: &mut Sorted,
) -> Result<Footer> {
    let layout = expected_layout(old, sorted);
    let progress = Arc::clone(&plan.progress);
    progress.expect(sorted.records() + old.map_or(0, |old| old.footer.pairs));
    let far = FarSources { batch: sorted.far(), old: old.cloned(), rewritten: None };
    let mut merge = Merge {
        as_is: old.is_none() && !sorted.removals(),
        old: old.map(|old| WalkAhead::new(Arc::clone(old), ALL)).transpose()?,
        old_run: Cursor::default(),
        batch: SortedBatch::new(sorted, plan.place_names.clone()),
        batch_run: Cursor::default(),
    };
    let mut writer = FileWriter::new(plan, shares, output, layout, far)?;
    let mut run = Run::default();
    loop {
        progress.report()?;
        if !merge.next(&mut run)? {
            drop(std::mem::take(&mut run));
            merge.release();
            return writer.finish();
        }
        progress.add(run.len());
        writer.push(&run)?;
    }
}

/// The expected layout of the merged records; the writer corrects a wrong guess.
fn expected_layout(old: Option<&Arc<DictionaryFile>>, sorted: &Sorted) -> Layout {
    match (old.map(|old| (old.header.layout, old.footer.pairs)), sorted.put_lengths()) {
        (None | Some((_, 0)), PutLengths::One(key_len, value_len)) => Layout::fixed(key_len, value_len),
        (Some((layout, _)), PutLengths::None) => layout,
        (Some((layout, _)), PutLengths::One(key_len, value_len)) if layout == Layout::fixed(key_len, value_len) => {
            layout
        }
        _ => Layout::Varied,
    }
}

/// The sorted batch, whose errors name places as the source does.
pub(crate) struct SortedBatch<'s> {
    pub sorted: &'s mut Sorted,
    place_names: Option<PlaceNames>,
}

impl<'s> SortedBatch<'s> {
    pub fn new(sorted: &'s mut Sorted, place_names: Option<PlaceNames>) -> Self {
        SortedBatch { sorted, place_names }
    }

    /// Replaces the content of `run` with the next records; `false` at the end.
    pub fn next(&mut self, run: &mut Run) -> Result<bool> {
        // First, because the sort then counts the previous run as freed, and sorts the next one in its memory.
        self.sorted.recycle(std::mem::take(run));
        let next = self.sorted.next_run().map_err(|error| match (error, &self.place_names) {
            (SortError::Duplicate(twice), Some(name)) => {
                let (key, place, first) = (quote(&twice.key), name(twice.place), name(twice.first_place));
                let message = format!("{place}: duplicate key {key} (first at {first})");
                Error::new(ErrorKind::Duplicate, message).with_hint(CHOOSE)
            }
            (error, _) => error.into(),
        })?;
        let more = next.is_some();
        *run = next.unwrap_or_default();
        Ok(more)
    }
}

/// A run, and how far it has been consumed.
#[derive(Default)]
struct Cursor {
    run: Run,
    at: usize,
    ended: bool,
}

impl Cursor {
    #[inline]
    fn is_used_up(&self) -> bool {
        self.at == self.run.len()
    }

    fn position(&self) -> u64 {
        self.run.positions[self.at]
    }

    fn key(&self) -> &[u8] {
        self.run.key(self.at)
    }

    /// Called after the next run was requested; `more` says whether there was one.
    fn refilled(&mut self, more: bool) {
        (self.at, self.ended) = (0, !more);
        if !more {
            self.run.clear();
        }
    }

    /// Moves up to `count` records to `to`.
    fn take(&mut self, count: usize, to: &mut Run) {
        let range = self.at..self.run.len().min(self.at + count);
        self.at = range.end;
        to.append(&self.run, range);
    }
}

/// Merges old records with those of a batch. Of two records with the same key the batch's is kept; keys that the batch
/// deletes are left out.
struct Merge<'s> {
    /// There are no old records and no deletions, so the batch is written unchanged.
    as_is: bool,
    old: Option<WalkAhead>,
    old_run: Cursor,
    batch: SortedBatch<'s>,
    batch_run: Cursor,
}

/// The most records in a merged run; a run may end earlier because of its bytes.
const RUN_RECORDS: usize = 1 << 16;

impl Merge<'_> {
    /// Replaces the content of `run` with the next records; `false` at the end.
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        if self.as_is {
            return self.batch.next(run);
        }
        run.clear();
        while run.bytes.len() < RUN_BYTES && run.len() < RUN_RECORDS {
            match (self.has_old()?, self.has_change()?) {
                (false, false) => break,
                (true, false) => self.old_run.take(RUN_RECORDS, run),
                (false, true) => self.take_change(run),
                (true, true) => self.take_smaller(run),
            }
        }
        Ok(!run.is_empty())
    }

    /// Frees the memory of the merged runs.
    fn release(mut self) {
        (self.old, self.old_run, self.batch_run) = (None, Cursor::default(), Cursor::default());
        self.batch.sorted.release();
    }

    /// Loads the next old record if none is loaded; `false` at the end.
    #[inline]
    fn has_old(&mut self) -> Result<bool> {
        while self.old_run.is_used_up() && !self.old_run.ended {
            let more = match &mut self.old {
                Some(old) => old.next(&mut self.old_run.run)?,
                None => false,
            };
            self.old_run.refilled(more);
        }
        Ok(!self.old_run.is_used_up())
    }

    #[inline]
    fn has_change(&mut self) -> Result<bool> {
        while self.batch_run.is_used_up() && !self.batch_run.ended {
            let more = self.batch.next(&mut self.batch_run.run)?;
            self.batch_run.refilled(more);
        }
        Ok(!self.batch_run.is_used_up())
    }

    fn take_smaller(&mut self, run: &mut Run) {
        let position = self.batch_run.position();
        let before = count_below(&self.old_run.run.positions[self.old_run.at..], position);
        if before > 0 {
            return self.old_run.take(before, run);
        }
        match (self.old_run.position(), self.old_run.key()).cmp(&(position, self.batch_run.key())) {
            Ordering::Less => self.old_run.take(1, run),
            Ordering::Equal => {
                self.old_run.at += 1;
                self.take_change(run);
            }
            Ordering::Greater => self.take_change(run),
        }
    }

    fn take_change(&mut self, run: &mut Run) {
        if self.batch_run.run.value(self.batch_run.at).is_some() {
            self.batch_run.take(1, run);
        } else {
            self.batch_run.at += 1;
        }
    }
}

/// The number of the ascending `positions` below `position`. The step doubles, as a batch is spread evenly among the
/// old records.
fn count_below(positions: &[u64], position: u64) -> usize {
    let mut step = 1;
    while step < positions.len() && positions[step] < position {
        step *= 2;
    }
    let from = step / 2;
    let to = positions.len().min(step + 1);
    from + positions[from..to].partition_point(|at| *at < position)
}
