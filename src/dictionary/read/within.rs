//! Records of a file whose positions are in a range, in hash order; and the same on a thread of its own.
//!
//! All of them are one walk from the first; a part begins where `resume.rs` finds its first position.

use super::file::DictionaryFile;
use super::resume::Resumed;
use super::walk::Walk;
use crate::dictionary::run::{FarSource, Run};
use crate::error::{Error, Result};
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

/// Every position.
pub(crate) const ALL: RangeInclusive<u64> = 0..=u64::MAX;

/// The positions of a range, both ends included.
pub(crate) fn inclusive(positions: &impl RangeBounds<u64>) -> RangeInclusive<u64> {
    let first = match positions.start_bound() {
        Bound::Included(first) => Some(*first),
        Bound::Excluded(before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let last = match positions.end_bound() {
        Bound::Included(last) => Some(*last),
        Bound::Excluded(end) => end.checked_sub(1),
        Bound::Unbounded => Some(u64::MAX),
    };
    match (first, last) {
        (Some(first), Some(last)) => first..=last,
        #[expect(clippy::reversed_empty_ranges, reason = "no position")]
        _ => 1..=0,
    }
}

/// Runs that are read and hashed before they are asked for.
const RUNS_AHEAD: usize = 3;

pub(crate) struct Within<'d> {
    records: Records<'d>,
    last: u64,
    ended: bool,
}

enum Records<'d> {
    All(Box<Walk<'d>>),
    Part(Resumed<'d>),
}

impl<'d> Within<'d> {
    /// All records, of which long values are not read: the file's stream is their source.
    fn with_far_values(file: &'d DictionaryFile) -> Self {
        let records = Records::All(Box::new(Walk::with_far_values(file, FarSource::Old)));
        Within { records, last: u64::MAX, ended: false }
    }

    pub fn new(file: &'d DictionaryFile, positions: RangeInclusive<u64>) -> Result<Self> {
        let records = match positions.start() {
            from if *from > 0 && !positions.is_empty() => Records::Part(Resumed::new(file, *from)?),
            _ => Records::All(Box::new(Walk::new(file))),
        };
        Ok(Within { records, last: *positions.end(), ended: positions.is_empty() })
    }

    /// Replaces what is in `run` by the next records; `false` at the end.
    ///
    /// # Errors
    /// Those of [`Walk::next`].
    pub fn next(&mut self, run: &mut Run) -> Result<bool> {
        run.clear();
        let more = !self.ended
            && match &mut self.records {
                Records::All(walk) => walk.next(run)?,
                Records::Part(resumed) => resumed.next(run)?,
            };
        if !more {
            run.clear();
            return Ok(false);
        }
        let inside = run.positions.partition_point(|position| *position <= self.last);
        if inside < run.len() {
            self.ended = true;
            let mut rest = Run::default();
            rest.append(run, 0..inside);
            *run = rest;
        }
        Ok(!run.is_empty())
    }
}

/// Records that a thread reads and hashes some runs ahead.
pub(crate) struct WalkAhead {
    runs: Option<Receiver<Result<Run>>>,
    /// Runs whose memory is used again.
    spent: Sender<Run>,
    thread: Option<JoinHandle<()>>,
}

impl WalkAhead {
    pub fn new(file: Arc<DictionaryFile>, positions: RangeInclusive<u64>) -> Result<Self> {
        Self::start(file, move |file| Within::new(file, positions))
    }

    /// All records, of which long values are not read: the file's stream is their source.
    pub fn with_far_values(file: Arc<DictionaryFile>) -> Result<Self> {
        Self::start(file, |file| Ok(Within::with_far_values(file)))
    }

    fn start(
        file: Arc<DictionaryFile>,
        begin: impl for<'d> FnOnce(&'d DictionaryFile) -> Result<Within<'d>> + Send + 'static,
    ) -> Result<Self> {
        let path = file.path.clone();
        let (give, runs) = sync_channel(RUNS_AHEAD);
        let (spent, again) = channel::<Run>();
        let walk = move || {
            let mut records = match begin(&file) {
                Ok(records) => records,
                Err(error) => return drop(give.send(Err(error))),
            };
            loop {
                let mut run = again.try_recv().unwrap_or_default();
                let next = match records.next(&mut run) {
                    Ok(true) => Ok(run),
                    Ok(false) => break,
                    Err(error) => Err(error),
                };
                let failed = next.is_err();
                // The receiver is gone if it has failed.
                if give.send(next).is_err() || failed {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("dictionary walk".into()).spawn(walk);
        let thread = thread.map_err(|e| Error::io(&path, "start a thread to read", e))?;
        Ok(WalkAhead { runs: Some(runs), spent, thread: Some(thread) })
    }

    /// Replaces what is in `run` by the next records; `false` at the end. [`Walk::next`] lists the errors.
    pub fn next(&mut self, run: &mut Run) -> Result<bool> {
        if let Some(Ok(next)) = self.runs.as_ref().map(Receiver::recv) {
            let spent = std::mem::replace(run, next?);
            let _ = self.spent.send(spent);
            return Ok(true);
        }
        run.clear();
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Ok(false),
        }
    }
}

impl Drop for WalkAhead {
    fn drop(&mut self) {
        self.runs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
