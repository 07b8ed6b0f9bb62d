//! The sorts of a build, one per file, whose checkpoints all refer to the same place in the source.
//!
//! A resumed build skips the pairs of its source that an earlier one saved, so all its sorts must continue from the
//! same place. A checkpoint makes one sort after another durable, so a crash in between leaves some of them one
//! checkpoint ahead. Each manifest keeps two checkpoints, so all of them have the previous one, and continue from that.
//!
//! Not here: one sort (`sort/`).

use super::plan::Plan;
use super::sort::alike::Alike;
use super::sort::{Saved, Sorter};
use crate::error::Result;

/// Bytes distributed between two checkpoints.
const CHECKPOINT_BYTES: u64 = 1 << 30;

pub(crate) struct Sorters {
    sorters: Vec<Sorter>,
    resumes: bool,
    /// Records of the source that an earlier build had saved.
    resumed: u64,
    /// These are all the records of the source.
    complete: bool,
    /// Records taken, including those that were saved.
    taken: u64,
    saved: u64,
    unsaved_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
}

impl Sorters {
    /// Starts a sort for each plan. If [`Plan::resume`] is set, continues from what an earlier build of the same
    /// identity has saved. Removes what a build of another identity has left, unless it is running.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`](crate::ErrorKind::Locked) if another run is using the same files.
    pub(crate) fn new(plans: Vec<Plan>) -> Result<Sorters> {
        let resumes = plans.iter().any(|plan| plan.resume.is_some());
        let opened: Vec<(Sorter, Vec<Saved>)> = plans.into_iter().map(Sorter::open).collect::<Result<_>>()?;
        let resumed = latest_common(opened.iter().map(|(_, saved)| &saved[..]));
        let (mut sorters, mut chosen) = (Vec::new(), Vec::new());
        for (sorter, saved) in opened {
            chosen.extend(saved.iter().find(|saved| Some(saved.source()) == resumed).cloned());
            sorters.push((sorter, saved));
        }
        let parts = sorters.iter().zip(&chosen).map(|((sorter, _), saved)| sorter.open_parts(saved));
        let parts: Option<Vec<_>> = parts.collect::<Result<_>>()?;
        let complete = resumed.is_some() && chosen.iter().all(Saved::is_complete);
        match parts.filter(|_| resumed.is_some()) {
            Some(parts) => {
                for (((sorter, _), saved), parts) in sorters.iter_mut().zip(chosen).zip(parts) {
                    sorter.continue_from(saved, parts)?;
                }
            }
            None => sorters.iter_mut().try_for_each(|(sorter, saved)| sorter.start_anew(saved))?,
        }
        let mut sorters: Vec<Sorter> = sorters.into_iter().map(|(sorter, _)| sorter).collect();
        sorters.iter_mut().for_each(Sorter::make_blocks);
        let continued = sorters.iter().any(Sorter::has_saved);
        let resumed = resumed.filter(|_| continued).unwrap_or(0);
        Ok(Sorters {
            sorters,
            resumes,
            resumed,
            complete: complete && continued,
            taken: resumed,
            saved: resumed,
            unsaved_bytes: 0,
            checkpoint_bytes: CHECKPOINT_BYTES,
        })
    }

    /// The number of records at the start of the source that are saved already: the caller skips them.
    pub(crate) fn resumed_records(&self) -> u64 {
        self.resumed
    }

    /// Whether the earlier build had consumed its whole source. Then there is nothing to push.
    pub(crate) fn resumed_all(&self) -> bool {
        self.complete
    }

    /// The number of records of an earlier build that this one could not use and has removed.
    pub(crate) fn discarded_records(&self) -> u64 {
        self.sorters.iter().map(Sorter::discarded_records).sum()
    }

    /// Takes a record for sort number `part`. [`Sorter::push`] defines `place` and lists the errors.
    #[inline]
    pub(crate) fn push(&mut self, part: usize, key: &[u8], value: Option<&[u8]>, place: u64) -> Result<()> {
        self.sorters[part].push(key, value, place)?;
        self.count(1, key.len() + value.map_or(0, <[u8]>::len))
    }

    /// Calls [`push`](Self::push) for each of `records`, and makes a checkpoint whenever one is due.
    pub(crate) fn push_alike(&mut self, part: usize, mut records: Alike<'_>) -> Result<()> {
        while records.count > 0 {
            let unsaved_max = self.checkpoint_bytes - self.unsaved_bytes;
            let until_due = unsaved_max.div_ceil(records.stride().max(1) as u64) as usize;
            let (now, later) = records.split(if self.resumes { records.count.min(until_due) } else { records.count });
            self.sorters[part].push_alike(now)?;
            self.count(now.count, now.bytes.len())?;
            records = later;
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, records: usize, bytes: usize) -> Result<()> {
        self.taken += records as u64;
        if self.resumes {
            self.unsaved_bytes += bytes as u64;
            if self.unsaved_bytes >= self.checkpoint_bytes {
                self.unsaved_bytes = 0;
                if self.is_spilled() {
                    self.checkpoint(false)?;
                }
            }
        }
        Ok(())
    }

    /// Makes everything taken so far durable, so that a later build of the same identity continues from here. Does
    /// nothing without [`Plan::resume`].
    ///
    /// # Errors
    /// Errors of temporary files, after which the build must be restarted from the beginning.
    pub(crate) fn save(&mut self) -> Result<()> {
        self.refuse_if_forked()?;
        if self.resumes && self.taken > self.saved { self.checkpoint(false) } else { Ok(()) }
    }

    /// Ends the input and returns the sorts, each to be finished.
    ///
    /// # Errors
    /// The errors of [`save`](Self::save), since data that has gone to disk is saved.
    pub(crate) fn finish(mut self) -> Result<Vec<Sorter>> {
        self.refuse_if_forked()?;
        if self.resumes && self.is_spilled() {
            self.checkpoint(true)?;
        }
        Ok(self.sorters)
    }

    /// A child of the sorting process does not have its threads and must not touch its files.
    fn refuse_if_forked(&self) -> Result<()> {
        self.sorters.iter().try_for_each(Sorter::refuse_if_forked)
    }

    /// Whether anything has gone to disk.
    fn is_spilled(&self) -> bool {
        self.sorters.iter().any(Sorter::is_spilled)
    }

    fn checkpoint(&mut self, complete: bool) -> Result<()> {
        let taken = self.taken;
        self.sorters.iter_mut().try_for_each(|sorter| sorter.checkpoint(taken, complete))?;
        (self.saved, self.unsaved_bytes) = (taken, 0);
        Ok(())
    }
}

/// The last place of the source that all sorts have saved.
fn latest_common<'s>(mut all: impl Iterator<Item = &'s [Saved]>) -> Option<u64> {
    let first = all.next()?.iter().map(Saved::source).collect::<Vec<u64>>();
    let common = all.fold(first, |mut common, saved| {
        common.retain(|source| saved.iter().any(|saved| saved.source() == *source));
        common
    });
    common.into_iter().max()
}
