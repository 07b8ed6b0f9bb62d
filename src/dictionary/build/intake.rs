//! Passes pairs to the sorts. With several threads, the caller's thread only copies pairs to a buffer, and another
//! thread hashes and distributes whole buffers.
//!
//! ```text
//! push -> buffer being filled -- full --> thread: Sorters::push_alike, buffer by buffer in the order of push
//!              ^---------- distributed buffers ---------/
//! ```
//! The thread owns the sorts while it runs. Some operations need them back first: a checkpoint that the caller
//! requests, the end, a pair longer than a buffer. These wait until the thread has distributed all buffers, and take
//! the sorts back. So the sorts see the same calls in the same order as with one thread; only errors are reported
//! later. The thread starts with the first full buffer, so a small build has none.
//!
//! Not here: what the sorts do with a pair (`sorters.rs`, `sort/`).

use super::plan::Plan;
use super::sort::alike::Alike;
use super::sort::{Sorter, forked_error};
use super::sorters::Sorters;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{forked_since, forks};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

/// Buffers being filled, being distributed, or waiting for either.
const BUFFERS: usize = 4;
/// All buffers together take at most a sixteenth of the memory, out of the eighth that sorts leave (`sort/mod.rs`).
const MEMORY_PER_BUFFER: u64 = 16 * BUFFERS as u64;
/// Larger buffers would be evicted from the processor's cache before they are distributed.
const BUFFER_BYTES_MAX: u64 = 256 << 10;

/// Takes the pairs of a build.
pub(crate) struct Intake {
    /// `None` while the thread owns them, and after a failure.
    sorters: Option<Sorters>,
    thread: Option<Distributor>,
    filling: PairBuffer,
    /// Bytes per buffer; 0 if the caller's thread distributes each pair.
    buffer_bytes: usize,
    /// [`Sorters::resumed_records`], [`Sorters::resumed_all`] and [`Sorters::discarded_records`].
    pub resumed_records: u64,
    pub resumed_all: bool,
    pub discarded_records: u64,
    /// The process that runs the build; see `io/forks.rs`.
    forks: u32,
    /// The name of the build in errors.
    path: PathBuf,
}

impl Intake {
    /// Starts the sorts for the files at `paths`, all of one build. [`Sorters::new`] says what happens to an earlier
    /// build.
    ///
    /// # Errors
    /// The errors of [`Sorters::new`].
    pub fn new(plan: &Plan, paths: &[PathBuf]) -> Result<Intake> {
        let sorters = Sorters::new(paths.iter().map(|path| plan.for_sort(path, paths.len())).collect())?;
        let buffer_bytes = (plan.memory_bytes / MEMORY_PER_BUFFER).min(BUFFER_BYTES_MAX) as usize;
        Ok(Intake {
            thread: None,
            filling: PairBuffer::default(),
            buffer_bytes: if plan.thread_count() > 1 { buffer_bytes } else { 0 },
            resumed_records: sorters.resumed_records(),
            resumed_all: sorters.resumed_all(),
            discarded_records: sorters.discarded_records(),
            forks: forks(),
            path: paths.first().cloned().unwrap_or_default(),
            sorters: Some(sorters),
        })
    }

    /// Takes a record for sort number `sort`. [`Sorter::push`] defines `place` and lists the errors; an error may come
    /// from an earlier push.
    #[inline]
    pub fn push(&mut self, sort: usize, key: &[u8], value: Option<&[u8]>, place: u64) -> Result<()> {
        let bytes = key.len() + value.map_or(0, <[u8]>::len) + size_of::<Group>();
        if bytes > self.buffer_bytes {
            return self.push_directly(sort, key, value, place);
        }
        self.refuse_if_forked()?;
        if self.filling.len() + bytes > self.buffer_bytes {
            self.hand_over()?;
        }
        self.filling.push(sort as u32, key, value, place, self.buffer_bytes);
        Ok(())
    }

    #[inline(never)]
    fn push_directly(&mut self, sort: usize, key: &[u8], value: Option<&[u8]>, place: u64) -> Result<()> {
        if self.buffer_bytes > 0 {
            self.refuse_if_forked()?;
        }
        let pushed = self.recall()?.push(sort, key, value, place);
        pushed.map_err(|error| self.fail(error))
    }

    /// Drops the sorts after an error that may have lost pairs they had taken, so that every later call fails.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        // Returned before anything is taken.
        if !matches!(error.kind(), ErrorKind::TooLong | ErrorKind::Forked) {
            (self.sorters, self.buffer_bytes) = (None, 0);
        }
        error
    }

    /// Makes everything taken so far durable; does nothing without [`Plan::resume`].
    ///
    /// # Errors
    /// The errors of [`Sorters::save`] and [`push`](Self::push).
    pub fn save(&mut self) -> Result<()> {
        self.refuse_if_forked()?;
        let saved = self.recall()?.save();
        saved.map_err(|error| self.fail(error))
    }

    /// Ends the intake and returns the sorts, each to be finished.
    ///
    /// # Errors
    /// The errors of [`Sorters::finish`] and [`push`](Self::push).
    pub fn finish(mut self) -> Result<Vec<Sorter>> {
        self.refuse_if_forked()?;
        self.recall()?;
        self.sorters.take().expect("recalled").finish()
    }

    /// The sorts, after everything pushed so far has reached them.
    #[inline]
    fn recall(&mut self) -> Result<&mut Sorters> {
        if self.thread.is_some() || !self.filling.is_empty() {
            self.take_back()?;
        }
        self.sorters.as_mut().ok_or_else(failed_before)
    }

    #[cold]
    fn take_back(&mut self) -> Result<()> {
        // After an error, or a panic of the user's hash function, the sorts are gone, and every push fails.
        let buffer_bytes = std::mem::take(&mut self.buffer_bytes);
        let mut sorters = match self.thread.take() {
            Some(thread) => thread.join()?,
            None => self.sorters.take().ok_or_else(failed_before)?,
        };
        self.filling.distribute(&mut sorters)?;
        (self.sorters, self.buffer_bytes) = (Some(sorters), buffer_bytes);
        Ok(())
    }

    /// Hands the full buffer to the thread and takes an empty one.
    fn hand_over(&mut self) -> Result<()> {
        if let Some(sorters) = self.sorters.take() {
            match Distributor::start(sorters) {
                Ok(thread) => self.thread = Some(thread),
                // The system cannot create a thread: this thread does the work.
                Err(sorters) => {
                    self.sorters = Some(sorters);
                    return self.take_back();
                }
            }
        }
        let thread = self.thread.as_mut().ok_or_else(failed_before)?;
        match thread.exchange(std::mem::take(&mut self.filling)) {
            Some(empty) => self.filling = empty,
            // The thread has failed.
            None => self.take_back()?,
        }
        Ok(())
    }

    /// A child of the building process does not have the thread and must not touch the files.
    #[inline]
    fn refuse_if_forked(&self) -> Result<()> {
        if forked_since(self.forks) { Err(forked_error(&self.path)) } else { Ok(()) }
    }
}

#[cold]
fn failed_before() -> Error {
    Error::new(ErrorKind::BuildFailed, "an earlier step of this build failed").with_hint("Start the build again.")
}

impl Drop for Intake {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if forked_since(self.forks) {
            // The thread does not exist here, and what it owns belongs to the parent.
            std::mem::forget(thread);
            return;
        }
        // The thread ends after the buffers that it was given.
        drop(thread.full);
        let _ = thread.thread.join();
    }
}

/// The thread that distributes pairs to the sorts.
struct Distributor {
    full: Sender<PairBuffer>,
    /// In a mutex so that a build is `Sync`.
    empty: Mutex<Receiver<PairBuffer>>,
    thread: JoinHandle<Result<Sorters>>,
}

impl Distributor {
    /// Returns the sorts if no thread can be created.
    fn start(sorters: Sorters) -> Result<Distributor, Sorters> {
        let (full, to_distribute) = channel::<PairBuffer>();
        let (distributed, empty) = channel();
        for _ in 1..BUFFERS {
            distributed.send(PairBuffer::default()).expect("the receiver is here");
        }
        // If a thread cannot be created, its closure and what it owns are dropped.
        let (give, take) = channel();
        let distribute = move || {
            let mut sorters: Sorters = take.recv().expect("sent when the thread is made");
            for mut buffer in to_distribute {
                buffer.distribute(&mut sorters)?;
                // At the end there is no receiver.
                let _ = distributed.send(buffer);
            }
            Ok(sorters)
        };
        match std::thread::Builder::new().name("distribute".to_owned()).spawn(distribute) {
            Ok(thread) => {
                give.send(sorters).unwrap_or_else(|_| unreachable!("the thread waits for it"));
                Ok(Distributor { full, empty: Mutex::new(empty), thread })
            }
            Err(_) => Err(sorters),
        }
    }

    /// Hands over a full buffer and waits for an empty one. `None` if the thread has failed.
    fn exchange(&mut self, full: PairBuffer) -> Option<PairBuffer> {
        self.full.send(full).ok()?;
        self.empty.get_mut().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }

    /// Waits until all buffers are distributed.
    fn join(self) -> Result<Sorters> {
        drop(self.full);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Pairs in the order in which they were pushed.
#[derive(Default)]
struct PairBuffer {
    /// Keys and values, each value directly after its key.
    bytes: Vec<u8>,
    groups: Vec<Group>,
}

/// Consecutive pairs for one sort, as in [`Alike`].
#[derive(Clone, Copy)]
struct Group {
    sort: u32,
    key_len: u32,
    value_len: Option<u32>,
    first_place: u64,
    count: usize,
}

impl PairBuffer {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Bytes in the buffer.
    #[inline]
    fn len(&self) -> usize {
        self.bytes.len() + self.groups.len() * size_of::<Group>()
    }

    /// Adds a pair, whose lengths together are at most `buffer_bytes`.
    #[inline]
    fn push(&mut self, sort: u32, key: &[u8], value: Option<&[u8]>, place: u64, buffer_bytes: usize) {
        let (key_len, value_len) = (key.len() as u32, value.map(|value| value.len() as u32));
        match self.groups.last_mut() {
            Some(last)
                if (last.sort, last.key_len, last.value_len) == (sort, key_len, value_len)
                    && last.first_place.wrapping_add(last.count as u64) == place =>
            {
                last.count += 1;
            }
            _ => self.begin_group(Group { sort, key_len, value_len, first_place: place, count: 1 }, buffer_bytes),
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    #[inline(never)]
    fn begin_group(&mut self, group: Group, buffer_bytes: usize) {
        if self.groups.is_empty() {
            self.bytes.reserve_exact(buffer_bytes);
        }
        self.groups.push(group);
    }

    /// Passes all pairs to the sorts and empties the buffer.
    fn distribute(&mut self, sorters: &mut Sorters) -> Result<()> {
        let mut rest = &self.bytes[..];
        for &Group { sort, key_len, value_len, first_place, count } in &self.groups {
            let (key_len, value_len) = (key_len as usize, value_len.map(|len| len as usize));
            let bytes = rest.split_off(..count * (key_len + value_len.unwrap_or(0))).expect("those of the group");
            sorters.push_alike(sort as usize, Alike { bytes, key_len, value_len, first_place, count })?;
        }
        self.bytes.clear();
        self.groups.clear();
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests/intake.rs"]
mod tests;
