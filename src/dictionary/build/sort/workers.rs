//! Sorts partitions before they are requested, in order, in bounded memory.
//!
//! ```text
//! next      the partition that the next free worker takes, once its memory is granted
//! consumed  the partition that is to be returned next
//! used      bytes granted: buffers of workers, waiting runs, the run last returned, runs given back
//! ```
//! Partitions are started in order, and each gets all its memory at the start. So the one to be returned next always
//! gets its memory: those before it are finished and returned. With one thread there are no workers.
//!
//! Not here: the sort itself (`piece.rs`), partitions larger than memory (`external_merge.rs`).

use super::external_merge::{ExternalMerge, MergeSpace};
use super::lengths::{Lengths, PutLengths};
use super::piece::{SortRules, SortScratch, sort_piece};
use super::saved::SavedFile;
use super::temporary::{Source, name};
use crate::dictionary::build::duplicates::SortError;
use crate::dictionary::build::far::FarFile;
use crate::dictionary::build::progress::ProgressCounter;
use crate::dictionary::run::Run;
use crate::error::{Error, ErrorKind, Result};
use crate::heap;
use crate::io::Storage;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A partition to be sorted.
pub(super) struct Partition {
    pub source: Mutex<Option<Source>>,
    pub bytes: u64,
    pub records: u64,
}

type Outcome = std::thread::Result<Result<Run, SortError>>;

#[derive(Default)]
struct State {
    next: usize,
    consumed: usize,
    used: u64,
    done: BTreeMap<usize, Outcome>,
    recycled: Vec<Run>,
    stop: bool,
}

struct SharedSort {
    parts: Vec<Partition>,
    rules: SortRules,
    budget: u64,
    /// The number of partitions that workers may be ahead.
    window: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl SharedSort {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn need(&self, part: usize) -> (u64, u64) {
        self.rules.need(self.parts[part].bytes, self.parts[part].records)
    }

    fn is_oversized(&self, part: usize) -> bool {
        let (scratch, run) = self.need(part);
        // The sort's counters have 32 bits.
        scratch + run > self.budget || self.parts[part].records > u32::MAX.into()
    }

    /// Sorts a partition that fits.
    fn sort(&self, part: usize, scratch: &mut SortScratch, mut run: Run) -> Result<Run, SortError> {
        let source = self.take_source(part);
        scratch.take_buffer(&mut run);
        let path = Arc::clone(&source.path);
        // This closes the partition's file, which frees its disk space if it has no name.
        source.read_all(&mut scratch.raw)?;
        sort_piece(scratch, (part, self.parts[part].records), &self.rules, &path, &mut run, None)?;
        run.cost = self.need(part).1;
        Ok(run)
    }

    fn take_source(&self, part: usize) -> Source {
        let mut source = self.parts[part].source.lock().unwrap_or_else(PoisonError::into_inner);
        source.take().expect("each partition is taken once")
    }

    /// The partition that the worker sorts next, once there is memory for it; `None` at the end.
    fn take_job(&self, scratch: &mut SortScratch, held: &mut u64) -> Option<(usize, Run)> {
        let mut state = self.lock();
        loop {
            while self.parts.get(state.next).is_some_and(|part| part.records == 0) || state.next < state.consumed {
                state.next += 1;
            }
            let part = state.next;
            if state.stop || part >= self.parts.len() {
                state.used -= std::mem::take(held);
                return None;
            }
            if part < state.consumed + self.window && !self.is_oversized(part) {
                let (scratch_need, run_need) = self.need(part);
                let more = scratch_need.saturating_sub(*held) + run_need;
                let again = state.recycled.last().map_or(0, |run| run.cost);
                if state.used - again + more <= self.budget || state.used == 0 {
                    state.used = state.used - again + more;
                    *held = scratch_need.max(*held);
                    state.next += 1;
                    return Some((part, state.recycled.pop().unwrap_or_default()));
                }
            }
            if part >= state.consumed + self.window && !self.is_oversized(part) {
                state = self.wait(state);
                continue;
            }
            // Memory kept for speed is needed now.
            let kept = *held + state.recycled.iter().map(|run| run.cost).sum::<u64>();
            if kept > 0 {
                (*scratch, *held) = (SortScratch::default(), 0);
                state.recycled.clear();
                state.used -= kept;
                self.changed.notify_all();
            } else {
                state = self.wait(state);
            }
        }
    }

    fn work(&self) {
        let (mut scratch, mut held) = (SortScratch::default(), 0);
        while let Some((part, run)) = self.take_job(&mut scratch, &mut held) {
            // The user's hash function may panic; the panic is passed to the thread that requests the run.
            let outcome = catch_unwind(AssertUnwindSafe(|| self.sort(part, &mut scratch, run)));
            let mut state = self.lock();
            state.stop |= !matches!(outcome, Ok(Ok(_)));
            state.done.insert(part, outcome);
            self.changed.notify_all();
        }
    }
}

/// The output of a sort, part by part in hash order.
pub(crate) struct Sorted {
    storage: Arc<dyn Storage>,
    prefix: PathBuf,
    progress: Arc<ProgressCounter>,
    shared: Arc<SharedSort>,
    threads: Vec<JoinHandle<()>>,
    scratch: SortScratch,
    merge: Option<ExternalMerge>,
    /// The bytes counted for the run that was returned last.
    given: u64,
    failed: bool,
    records: u64,
    removals: bool,
    put_lengths: Lengths,
    temporary_bytes: u64,
    manifest: Option<SavedFile>,
    /// Whether the manifest has a checkpoint.
    saved: bool,
    far: Option<FarFile>,
}

/// The facts known when sorting begins.
pub(super) struct Start {
    pub prefix: PathBuf,
    pub progress: Arc<ProgressCounter>,
    pub rules: SortRules,
    pub parts: Vec<Partition>,
    pub budget: u64,
    pub threads: usize,
    pub records: u64,
    pub removals: bool,
    pub put_lengths: Lengths,
    pub temporary_bytes: u64,
    pub manifest: Option<SavedFile>,
    pub saved: bool,
    pub far: Option<FarFile>,
}

impl Sorted {
    pub(super) fn start(storage: Arc<dyn Storage>, start: Start) -> Result<Self> {
        let Start { prefix, rules, parts, budget, threads, records, removals, put_lengths, .. } = start;
        let Start { progress, temporary_bytes, manifest, saved, far, .. } = start;
        let state = Mutex::default();
        let window = 2 * threads + 1;
        let shared = Arc::new(SharedSort { parts, rules, budget, window, state, changed: Condvar::new() });
        let mut sorted = Sorted {
            storage,
            prefix,
            progress,
            shared,
            threads: Vec::new(),
            scratch: SortScratch::default(),
            merge: None,
            given: 0,
            failed: false,
            records,
            removals,
            put_lengths,
            temporary_bytes,
            manifest,
            saved,
            far,
        };
        // With fewer records, starting a thread is not worthwhile.
        const RECORDS_MIN: u64 = 10_000;
        if threads > 1 && (records >= RECORDS_MIN || temporary_bytes > 0) {
            for _ in 0..threads {
                let shared = sorted.shared.clone();
                let thread = std::thread::Builder::new().name("sort".to_owned()).spawn(move || shared.work());
                let thread = thread.map_err(|e| Error::io(&sorted.prefix, "start a thread for the sort of", e))?;
                sorted.threads.push(thread);
            }
        }
        Ok(sorted)
    }

    /// The number of records pushed, before duplicate keys were resolved.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The file with the values that are not in the runs, if there are any.
    pub(crate) fn far(&self) -> Option<FarFile> {
        self.far.clone()
    }

    /// Whether there are deletions among the records.
    pub(crate) fn removals(&self) -> bool {
        self.removals
    }

    /// The key and value length shared by all records that are not deletions.
    pub(crate) fn put_lengths(&self) -> PutLengths {
        match self.put_lengths {
            Lengths::None => PutLengths::None,
            Lengths::Fixed(fixed) => PutLengths::One(fixed.key_len, fixed.value_len),
            Lengths::Varied => PutLengths::Several,
        }
    }

    /// Bytes of temporary files written so far.
    #[cfg(test)]
    pub(crate) fn temporary_bytes(&self) -> u64 {
        self.temporary_bytes
    }

    /// Bytes of buffers kept for the next partition, not counting those of threads.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        let recycled: usize = self.shared.lock().recycled.iter().map(|run| run.bytes.capacity()).sum();
        self.scratch.raw.capacity() + recycled
    }

    /// Runs that were given back and not yet reused.
    #[cfg(test)]
    pub(crate) fn kept_runs(&self) -> usize {
        self.shared.lock().recycled.len()
    }

    /// The next records in hash order; `None` at the end. The previous run counts as freed.
    ///
    /// Records of one position are in one run, unless they alone exceed the memory. Records of one key always are.
    ///
    /// # Errors
    /// [`SortError::Duplicate`] if equal keys are refused; damage; disk errors. Every call after an error returns
    /// [`ErrorKind::BuildFailed`].
    pub(crate) fn next_run(&mut self) -> Result<Option<Run>, SortError> {
        // It stays set if the user's hash function panics.
        if std::mem::replace(&mut self.failed, true) {
            let error = Error::new(ErrorKind::BuildFailed, "an earlier step of this sort failed");
            return Err(error.with_hint("Start the build again.").into());
        }
        let run = self.find_run().inspect_err(|_| self.stop())?;
        self.failed = false;
        Ok(run)
    }

    fn find_run(&mut self) -> Result<Option<Run>, SortError> {
        loop {
            if let Some(run) = self.next_merged()? {
                return Ok(Some(run));
            }
            let Some(part) = self.next_part() else { return Ok(None) };
            if self.shared.is_oversized(part) {
                self.forget_buffers();
                let space = MergeSpace {
                    storage: self.storage.as_ref(),
                    prefix: &self.prefix,
                    progress: &self.progress,
                    budget: self.shared.budget,
                };
                let merge = ExternalMerge::new(space, &self.shared.rules, part, self.shared.take_source(part))?;
                self.temporary_bytes += merge.temporary_bytes;
                self.merge = Some(merge);
                continue;
            }
            let run = if self.threads.is_empty() {
                let run = self.shared.lock().recycled.pop().unwrap_or_default();
                self.shared.sort(part, &mut self.scratch, run)
            } else {
                self.wait_for(part)
            }?;
            self.go_on(part + 1);
            if !self.threads.is_empty() {
                self.given = run.cost;
            }
            return Ok(Some(run));
        }
    }

    /// Frees everything after the last run, so that the index can use the memory.
    pub(crate) fn release(&mut self) {
        self.forget_buffers();
        if self.temporary_bytes > 0 {
            heap::give_back();
        }
    }

    /// A merge uses all the memory: frees what was kept for speed.
    fn forget_buffers(&mut self) {
        self.scratch = SortScratch::default();
        let mut state = self.shared.lock();
        let kept: u64 = state.recycled.drain(..).map(|run| run.cost).sum();
        // Without threads nothing is counted.
        if !self.threads.is_empty() {
            state.used -= kept;
        }
    }

    /// Returns the buffers of the last run; called before the next run is requested.
    pub(crate) fn recycle(&mut self, run: Run) {
        let mut state = self.shared.lock();
        // Only what was counted when the run was returned stays counted.
        let counted = run.cost > 0 && (self.threads.is_empty() || run.cost == self.given);
        if counted && state.recycled.len() <= self.threads.len() {
            self.given = 0;
            state.recycled.push(run);
        }
    }

    /// The output is written: ends the threads and closes files. The files of a sort that can be resumed stay until
    /// [`done`](Self::done).
    pub(crate) fn end(&mut self) {
        self.stop();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        self.far = None;
    }

    /// Whether the file at `path` has the name of one that a later sort continues from.
    pub(crate) fn keeps(&self, path: &Path) -> bool {
        let start = name(&self.prefix, "");
        self.manifest.is_some() && path.as_os_str().as_encoded_bytes().starts_with(start.as_os_str().as_encoded_bytes())
    }

    /// The result is safe: removes what the sort has stored. Without this call, the files of a sort that can be resumed
    /// are kept.
    pub(crate) fn done(mut self) -> Result<()> {
        self.stop();
        match self.manifest.take() {
            Some(manifest) => manifest.remove(self.storage.as_ref()),
            None => Ok(()),
        }
    }

    fn next_merged(&mut self) -> Result<Option<Run>, SortError> {
        let Some(merge) = &mut self.merge else { return Ok(None) };
        let mut run = Run::default();
        if merge.next_run(&mut run, &self.shared.rules)? {
            return Ok(Some(run));
        }
        self.merge = None;
        let part = self.shared.lock().consumed;
        self.go_on(part + 1);
        Ok(None)
    }

    /// Counts the previous run as freed, and finds the partition to be returned next.
    fn next_part(&mut self) -> Option<usize> {
        let mut state = self.shared.lock();
        state.used -= std::mem::take(&mut self.given);
        while self.shared.parts.get(state.consumed).is_some_and(|part| part.records == 0) {
            state.consumed += 1;
        }
        self.shared.changed.notify_all();
        (state.consumed < self.shared.parts.len()).then_some(state.consumed)
    }

    fn go_on(&self, consumed: usize) {
        self.shared.lock().consumed = consumed;
        self.shared.changed.notify_all();
    }

    fn wait_for(&self, part: usize) -> Result<Run, SortError> {
        let mut state = self.shared.lock();
        loop {
            if let Some(outcome) = state.done.remove(&part) {
                drop(state);
                return outcome.unwrap_or_else(|panic| resume_unwind(panic));
            }
            state = self.shared.wait(state);
        }
    }

    /// Ends the output: nothing more is returned.
    fn stop(&mut self) {
        let mut state = self.shared.lock();
        state.stop = true;
        drop(state);
        self.shared.changed.notify_all();
        self.merge = None;
    }
}

impl Drop for Sorted {
    fn drop(&mut self) {
        self.end();
        if let Some(manifest) = self.manifest.take().filter(|_| !self.saved) {
            // The sort cannot continue.
            let _ = manifest.remove(self.storage.as_ref());
        }
    }
}
