//! Temporary files: their names, a thread that writes them, and reading their blocks back.
//!
//! A file has no name, so it disappears when it is closed, however the process ends. With resume the files of
//! partitions have names, and `saved.rs` removes them.
//!
//! Not here: what a block is (`temporary_block.rs`).

use super::temporary_block::{self, CheckpointHeader, HEADER_BYTES};
use crate::dictionary::build::plan::Plan;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, PRIVATE, Storage, atomic};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The name of temporary file `what`: `prefix`, `-sort` and `what`.
pub(super) fn name(prefix: &Path, what: &str) -> PathBuf {
    atomic::with_suffix(prefix, &format!("-sort{what}"))
}

/// Whether the temporary file of this name is the manifest of a sort.
pub(in crate::dictionary) fn is_manifest(name: &str) -> bool {
    name.ends_with("-sort")
}

/// The name of a partition's file.
pub(super) fn part_name(prefix: &Path, part: usize) -> PathBuf {
    name(prefix, &format!("-{part:03}"))
}

/// The name of the file of values that are not held in memory.
pub(super) fn far_name(prefix: &Path) -> PathBuf {
    name(prefix, "-values")
}

/// Creates a file without a name in the directory of `prefix`.
pub(super) fn make_unnamed(storage: &dyn Storage, prefix: &Path) -> Result<Arc<dyn File>> {
    atomic::make_unnamed(storage, prefix).map_err(|failed| cannot_make(&failed.path, failed.error))
}

/// Creates a file under its name, with the access of the dictionary.
pub(super) fn make_named(plan: &Plan, path: &Path) -> Result<Arc<dyn File>> {
    let file = plan.storage.create(path, PRIVATE).map_err(|e| cannot_make(path, e))?;
    plan.share(file.as_ref(), path)?;
    Ok(file.into())
}

fn cannot_make(path: &Path, e: std::io::Error) -> Error {
    let too_many = matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    let error = Error::io(path, "make the temporary file", e);
    if too_many {
        return error.with_hint("Raise the limit of open files, allow less memory, or build fewer shards.");
    }
    error
}

/// One block to be written.
pub(super) struct Job {
    pub file: Arc<dyn File>,
    /// For the checksum and for error messages.
    pub part: usize,
    pub offset: u64,
    pub block: Vec<u8>,
}

#[derive(Default)]
struct WriteQueue {
    jobs: VecDeque<Job>,
    /// Bytes of the queued jobs and of the one being written.
    bytes: u64,
    spare: Vec<Vec<u8>>,
    spare_bytes: u64,
    error: Option<Error>,
    failed: bool,
    ended: bool,
    written: u64,
}

#[derive(Default)]
struct SharedWrites {
    queue: Mutex<WriteQueue>,
    changed: Condvar,
}

impl SharedWrites {
    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, WriteQueue>) -> MutexGuard<'a, WriteQueue> {
        self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that computes checksums and writes.
pub(super) struct Writer {
    shared: Arc<SharedWrites>,
    thread: Option<JoinHandle<()>>,
    /// The most bytes that may be queued.
    limit: u64,
}

impl Writer {
    pub(super) fn start(prefix: &Path, limit: u64) -> Result<Writer> {
        let shared = Arc::new(SharedWrites::default());
        let (of_thread, prefix_of_thread) = (shared.clone(), prefix.to_owned());
        let thread = std::thread::Builder::new()
            .name("sort-write".to_owned())
            .spawn(move || write_all(&of_thread, &prefix_of_thread, limit))
            .map_err(|e| Error::io(prefix, "start a thread for the temporary files of", e))?;
        Ok(Writer { shared, thread: Some(thread), limit })
    }

    /// Queues a block, and returns a buffer that has been written, if there is one. Waits while the queue is full.
    pub(super) fn submit(&self, job: Job) -> Result<Vec<u8>> {
        let mut queue = self.shared.lock();
        let bytes = job.block.len() as u64;
        while queue.bytes > 0 && queue.bytes + bytes > self.limit && !queue.failed {
            queue = self.shared.wait(queue);
        }
        Self::check(&mut queue)?;
        queue.bytes += bytes;
        queue.jobs.push_back(job);
        self.shared.changed.notify_all();
        let spare = queue.spare.pop();
        queue.spare_bytes -= spare.as_ref().map_or(0, Vec::capacity) as u64;
        drop(queue);
        Ok(spare.unwrap_or_default())
    }

    /// Waits until everything queued is written.
    pub(super) fn drain(&self) -> Result<()> {
        let mut queue = self.shared.lock();
        while queue.bytes > 0 && !queue.failed {
            queue = self.shared.wait(queue);
        }
        Self::check(&mut queue)
    }

    fn check(queue: &mut WriteQueue) -> Result<()> {
        if !queue.failed {
            return Ok(());
        }
        Err(queue.error.take().unwrap_or_else(|| {
            let message = "an earlier write of this sort to its temporary files failed";
            Error::new(ErrorKind::BuildFailed, message).with_hint("Start the build again.")
        }))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps buffers that have been written, up to `limit` bytes together with queued ones: touching new memory takes time.
fn write_all(shared: &SharedWrites, prefix: &Path, limit: u64) {
    let mut queue = shared.lock();
    loop {
        if queue.ended || queue.failed {
            return;
        }
        let Some(mut job) = queue.jobs.pop_front() else {
            queue = shared.wait(queue);
            continue;
        };
        let written = queue.written;
        drop(queue);
        temporary_block::stamp(&mut job.block, job.part as u32, job.offset);
        let result = job.file.write_at(&job.block, job.offset);
        queue = shared.lock();
        queue.bytes -= job.block.len() as u64;
        queue.written += job.block.len() as u64;
        if let Err(e) = result {
            queue.failed = true;
            let what = format!("write, after {written} bytes of temporary files, to");
            queue.error = Some(Error::io(&part_name(prefix, job.part), &what, e));
        } else if queue.bytes + queue.spare_bytes + job.block.capacity() as u64 <= limit {
            job.block.clear();
            queue.spare_bytes += job.block.capacity() as u64;
            queue.spare.push(job.block);
        }
        shared.changed.notify_all();
    }
}

/// A file of blocks to be read, or a part of one.
#[derive(Clone)]
pub(super) struct Extent {
    pub file: Arc<dyn File>,
    /// For the checksum.
    pub number: u32,
    pub path: Arc<Path>,
    pub from: u64,
    pub to: u64,
}

impl Extent {
    /// Replaces the content of `raw` with the whole extent.
    pub(super) fn read_all(&self, raw: &mut Vec<u8>) -> Result<()> {
        resize(raw, self.len()?);
        self.read_to(raw)
    }

    /// Appends the whole extent to `raw`.
    pub(super) fn append_to(&self, raw: &mut Vec<u8>) -> Result<()> {
        let (start, bytes) = (raw.len(), self.len()?);
        raw.reserve_exact(bytes);
        raw.resize(start + bytes, 0);
        self.read_to(&mut raw[start..])
    }

    fn len(&self) -> Result<usize> {
        usize::try_from(self.to - self.from).map_err(|_| self.damaged(self.from, "too long"))
    }

    /// Reads the whole extent into `raw`, which has its length, and checks the checksums.
    fn read_to(&self, raw: &mut [u8]) -> Result<()> {
        self.read(raw, self.from)?;
        let mut start = 0;
        while start < raw.len() {
            let header = self.header(&raw[start..], self.from + start as u64)?;
            self.verify(&raw[start..start + header.block_bytes], self.from + start as u64)?;
            start += header.block_bytes;
        }
        Ok(())
    }

    /// The header of the next block.
    pub(super) fn peek(&self) -> Result<CheckpointHeader> {
        let mut bytes = [0; HEADER_BYTES];
        let there = (self.to - self.from).min(HEADER_BYTES as u64) as usize;
        self.read(&mut bytes[..there], self.from)?;
        self.header(&bytes[..there], self.from)
    }

    /// Splits off the first `bytes` bytes.
    pub(super) fn split(&mut self, bytes: u64) -> Extent {
        let first = Extent { to: self.from + bytes, ..self.clone() };
        self.from = first.to;
        first
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(bytes, offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(offset, "the file was cut off"),
            _ => Error::io(&self.path, "read the temporary file", e),
        })
    }

    /// The header of the block at `offset`, whose first bytes are `bytes`. An error unless the block ends within the
    /// extent.
    fn header(&self, bytes: &[u8], offset: u64) -> Result<CheckpointHeader> {
        let header = CheckpointHeader::parse(bytes).ok_or_else(|| self.damaged(offset, "its lengths make no sense"))?;
        if header.block_bytes as u64 > self.to - offset {
            return Err(self.damaged(offset, "it is longer than what was written"));
        }
        Ok(header)
    }

    fn verify(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let computed = temporary_block::checksum(bytes, self.number, offset);
        let stored = CheckpointHeader::parse(bytes).map_or(0, |header| header.checksum);
        if stored != computed {
            let what = format!("checksum mismatch, stored {stored:08x}, computed {computed:08x}");
            return Err(self.damaged(offset, &what));
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, offset: u64, what: &str) -> Error {
        let path = self.path.display();
        let why = "another program wrote there, or disk or memory fail";
        Error::corrupt(format!("{path}: temporary block at byte {offset}: {what}: {why}"))
            .with_hint("Remove the temporary files, if they have names, and build again.")
    }
}

/// Sets the length of `raw` to `bytes`; the content will be overwritten.
fn resize(raw: &mut Vec<u8>, bytes: usize) {
    // Bytes that will be overwritten need not be cleared first.
    raw.reserve_exact(bytes.saturating_sub(raw.len()));
    raw.resize(bytes, 0);
}

/// The blocks of a partition in the order in which they were taken.
pub(super) struct Source {
    pub blocks: VecDeque<Vec<u8>>,
    pub extents: VecDeque<Extent>,
    /// One more block; empty if there is none.
    pub last: Vec<u8>,
    pub path: Arc<Path>,
}

impl Source {
    /// Bytes in files.
    pub(super) fn file_bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.to - extent.from).sum()
    }

    /// Replaces the content of `raw` with all blocks. Frees their memory and files.
    pub(super) fn read_all(mut self, raw: &mut Vec<u8>) -> Result<()> {
        if self.extents.is_empty() && self.blocks.len() == 1 {
            *raw = self.blocks.pop_front().expect("one");
            return Ok(());
        }
        let in_memory: usize = self.blocks.iter().map(Vec::len).sum::<usize>() + self.last.len();
        let lens: Vec<usize> = self.extents.iter().map(Extent::len).collect::<Result<_>>()?;
        resize(raw, in_memory + lens.iter().sum::<usize>());
        let mut rest = &mut raw[..];
        for block in self.blocks {
            rest.split_off_mut(..block.len()).expect("room for all").copy_from_slice(&block);
        }
        for (extent, len) in self.extents.iter().zip(lens) {
            extent.read_to(rest.split_off_mut(..len).expect("room for all"))?;
        }
        rest.copy_from_slice(&self.last);
        Ok(())
    }
}
