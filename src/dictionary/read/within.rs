//! Records of a file whose positions are in a range, in hash order; also with a thread that reads ahead.
//!
//! All records are one walk from the first; a part begins where `resume.rs` finds its first position.

use super::file::DictionaryFile;
use super::resume::Resumed;
use super::walk::Walk;
use crate::dictionary::run::{FarSource, RUN_BYTES, Run};
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The range of all positions.
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

/// Bytes of runs that are read and hashed before they are requested; a larger run is read alone.
const AHEAD_BYTES: u64 = 4 << 20;

/// Records of a range. Long values are not read: they are references into the file's stream, as [`FarSource::Old`].
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
    pub fn new(file: &'d DictionaryFile, positions: RangeInclusive<u64>) -> Result<Self> {
        let records = match positions.start() {
            from if *from > 0 && !positions.is_empty() => Records::Part(Resumed::new(file, *from)?),
            _ => Records::All(Box::new(Walk::with_far_values(file, FarSource::Old))),
        };
        Ok(Within { records, last: *positions.end(), ended: positions.is_empty() })
    }

    /// Replaces the content of `run` with the next records; `false` at the end.
    ///
    /// # Errors
    /// The errors of [`Walk::next`].
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

/// [`Within`] with a thread that reads and hashes runs ahead.
pub(crate) struct WalkAhead {
    ahead: Arc<RunQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Runs that the thread has read and that have not been requested yet.
#[derive(Default)]
struct RunQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    runs: VecDeque<Result<Run>>,
    bytes: u64,
    /// A run whose memory is reused.
    spent: Option<Run>,
    /// There are no more runs.
    ended: bool,
    /// No more runs will be requested.
    closed: bool,
}

impl RunQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a run when there is room for it, or when the queue is empty. Returns whether more are wanted.
    fn push(&self, run: Result<Run>) -> bool {
        let bytes = run.as_ref().map_or(0, Run::memory_bytes);
        let mut queue = self.lock();
        while queue.bytes > 0 && queue.bytes + bytes > AHEAD_BYTES && !queue.closed {
            queue = self.wait(queue);
        }
        let wanted = !queue.closed && run.is_ok();
        queue.bytes += bytes;
        queue.runs.push_back(run);
        self.changed.notify_all();
        wanted
    }

    fn read_all(&self, file: &DictionaryFile, positions: RangeInclusive<u64>) {
        // Runs however the thread ends: the user's hash function may panic.
        struct AtEnd<'a>(&'a RunQueue);
        impl Drop for AtEnd<'_> {
            fn drop(&mut self) {
                self.0.lock().ended = true;
                self.0.changed.notify_all();
            }
        }
        let _at_end = AtEnd(self);
        let mut records = match Within::new(file, positions) {
            Ok(records) => records,
            Err(error) => {
                self.push(Err(error));
                return;
            }
        };
        loop {
            let mut run = self.lock().spent.take().unwrap_or_default();
            let next = match records.next(&mut run) {
                Ok(true) => Ok(run),
                Ok(false) => return,
                Err(error) => Err(error),
            };
            if !self.push(next) {
                return;
            }
        }
    }
}

impl WalkAhead {
    pub fn new(file: Arc<DictionaryFile>, positions: RangeInclusive<u64>) -> Result<Self> {
        let path = file.path.clone();
        let ahead = Arc::new(RunQueue::default());
        let of_thread = Arc::clone(&ahead);
        let thread = std::thread::Builder::new().name("dictionary walk".into());
        let thread = thread.spawn(move || of_thread.read_all(&file, positions));
        let thread = thread.map_err(|e| Error::io(&path, "start a thread to read", e))?;
        Ok(WalkAhead { ahead, thread: Some(thread) })
    }

    /// Replaces the content of `run` with the next records; `false` at the end. [`Within::next`] lists the errors.
    pub fn next(&mut self, run: &mut Run) -> Result<bool> {
        let mut queue = self.ahead.lock();
        loop {
            if let Some(next) = queue.runs.pop_front() {
                let next = next?;
                queue.bytes -= next.memory_bytes();
                let spent = std::mem::replace(run, next);
                // The memory of an unusually large run is freed.
                queue.spent = Some(spent).filter(|spent| spent.bytes.capacity() <= 2 * RUN_BYTES);
                self.ahead.changed.notify_all();
                return Ok(true);
            }
            if queue.ended {
                break;
            }
            queue = self.ahead.wait(queue);
        }
        drop(queue);
        run.clear();
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            _ => Ok(false),
        }
    }
}

impl Drop for WalkAhead {
    fn drop(&mut self) {
        self.ahead.lock().closed = true;
        self.ahead.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
