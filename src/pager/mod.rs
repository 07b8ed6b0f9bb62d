//! The pager: frames of one file, or of memory only. It latches, changes, evicts and writes them.
//!
//! It knows nothing of pages and keys. In the header it stores the **root**, some bytes that its user chooses. This
//! file is its face; its parts are in rooms, of which none knows it (docs/architecture.md, "The pager's rooms").
//!
//! ```text
//! frame 0: used units of zone 0 | 1 ...: whatever is allocated
//! ```
//!
//! Every change of a frame goes through [`Pager::write`], which marks it dirty. Dirty frames reach the file only in a
//! checkpoint (`checkpoint/`), all together. A frame read from the file is compared with its checksum. The checksum
//! is stored in another frame, so a lost or misdirected write is detected as well as a flipped bit.
//!
//! Source: the buffer manager of Seltzer & Yigit 1991, "Buffer Management"; the file layout is ours (docs/format.md).

mod allocate;
pub(crate) mod blocks;
pub(crate) mod checkpoint;
pub(crate) mod file;
pub(crate) mod interleave;
mod load;
mod open;
pub(crate) mod pool;
mod space;
mod values;
pub(crate) mod wal;

use crate::error::{Error, ErrorKind, Result};
use crate::io::forked_since;
pub(crate) use allocate::compaction::Destination;
use allocate::{Allocator, Kept};
use checkpoint::Checkpointer;
use checkpoint::lock::CheckpointLock;
pub(crate) use checkpoint::lock::{CheckpointGuard, HolderGuard, HolderLock};
pub(crate) use checkpoint::{Frozen, copy};
use file::TableFile;
pub(crate) use file::create::{Create, lock_unless_kept};
pub(crate) use file::header::{HEADER_BYTES, ROOT_BYTES, ROOT_START};
pub(crate) use file::map_frames::{FIRST_FRAMES, ZONE_FRAMES};
pub(crate) use file::names::resolve;
pub(crate) use file::random::random_u64;
#[cfg(test)]
pub(crate) use file::random::seed_random;
use load::Frames;
pub(crate) use open::{CacheLimit, OpenOptions};
pub(crate) use pool::{FRAME_BYTES_MIN, sink, thread_slot, words};
use pool::{FrameNo, FrameRef, Pool, ReadGuard, WriteGuard};
pub(crate) use space::FRAME_UNITS;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use values::Stored;
pub(crate) use values::{StoredValue, Values};
use wal::Log;

/// The frames of one table.
pub(crate) struct Pager {
    frames: Frames,
    kept: Kept,
    stored: Stored,
    /// `Some` for a file that is open for writing.
    log: Option<Log>,
    checkpoint_lock: Arc<CheckpointLock>,
    /// Whether the table is being closed: the next checkpoint is then its last one.
    closing: AtomicBool,
    /// Whether this handle made the file.
    made: bool,
    /// Identifies this process, see `io::forks`.
    forks: u32,
}

impl Pager {
    #[inline]
    pub(crate) fn pool(&self) -> &Pool {
        &self.frames.pool
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.frames.file
    }

    pub(crate) fn frames(&self) -> &Frames {
        &self.frames
    }

    #[inline]
    pub(crate) fn allocator(&self) -> Allocator<'_> {
        Allocator { frames: &self.frames, kept: &self.kept }
    }

    /// Large values in the file.
    pub(crate) fn values(&self) -> Values<'_> {
        Values { frames: &self.frames, allocator: self.allocator(), stored: &self.stored }
    }

    /// Counts a value of `bytes` that was written at once. As many bytes as a segment of the log has make a checkpoint
    /// due.
    pub(crate) fn count_value(&self, bytes: u64) {
        let sum = self.stored.count(bytes);
        if self.log.as_ref().is_some_and(|log| sum > log.segment_bytes()) {
            self.frames.checkpoint_due.store(true, Relaxed);
        }
    }

    /// Whether a read may have to read the file.
    pub(crate) fn may_read(&self) -> bool {
        self.frames.may_read(self.stored.has_written())
    }

    /// The write-ahead log of a file that is open for writing.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// The lock held by the thread that writes a checkpoint.
    pub(crate) fn checkpoint_lock(&self) -> &Arc<CheckpointLock> {
        &self.checkpoint_lock
    }

    /// Latches a frame for reading.
    #[inline]
    pub(crate) fn read(&self, frame: FrameNo) -> Result<ReadGuard<'_>> {
        self.frames.read(frame)
    }

    /// [`read`](Self::read) of a frame whose place is known.
    #[inline]
    pub(crate) fn read_at<'a>(&'a self, frame: FrameNo, place: FrameRef<'a>) -> Result<ReadGuard<'a>> {
        self.frames.pool.read(frame, place, &self.frames)
    }

    /// Latches a frame for changing.
    #[inline]
    pub(crate) fn write(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        self.frames.write(frame)
    }

    /// Latches a frame whose old content is not needed: its bytes are unspecified.
    pub(crate) fn write_fresh(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        self.frames.write_fresh(frame)
    }

    /// [`write`](Self::write) of a frame whose place is known.
    #[inline(always)]
    pub(crate) fn write_at<'a>(&'a self, frame: FrameNo, place: FrameRef<'a>) -> Result<WriteGuard<'a>> {
        self.frames.pool.write(frame, place, &self.frames)
    }

    /// Whether any thread holds a latch of the frame.
    pub(crate) fn is_latched(&self, frame: FrameNo) -> bool {
        self.frames.is_latched(frame)
    }

    /// Waits until each thread that holds a latch of the frame now has released it.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`](crate::ErrorKind) if this thread holds a value and would have to wait.
    pub(crate) fn wait_for_readers(&self, frame: FrameNo) -> Result<()> {
        self.frames.wait_for_readers(frame)
    }

    /// Latches a frame for changing; `None` if another thread holds a latch.
    pub(crate) fn try_write(&self, frame: FrameNo) -> Result<Option<WriteGuard<'_>>> {
        self.frames.try_write(frame)
    }

    #[inline]
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frames.frame_bytes()
    }

    /// Bytes in a unit of allocation.
    #[inline]
    pub(crate) fn unit_bytes(&self) -> usize {
        self.frames.frame_bytes() / FRAME_UNITS as usize
    }

    /// The number of frames of the table, including free ones.
    #[inline]
    pub(crate) fn frame_count(&self) -> u32 {
        self.frames.frame_count()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.frames.file.path
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.frames.file.read_only
    }

    pub(crate) fn has_file(&self) -> bool {
        self.frames.file.handle.is_some()
    }

    /// An error about this file's content.
    pub(crate) fn corrupt(&self, what: impl std::fmt::Display) -> Error {
        self.frames.file.corrupt(what)
    }

    /// Makes the handle refuse all further writes. Called if the state of the disk is unknown, or memory holds changes
    /// that the log does not.
    pub(crate) fn poison(&self, reason: &str) {
        self.frames.file.poison(reason);
    }

    /// # Errors
    /// [`ErrorKind::Poisoned`] after a failed write or sync.
    pub(crate) fn refuse_if_poisoned(&self) -> Result<()> {
        self.frames.file.refuse_if_poisoned()
    }

    /// Whether this is a child of the process that opened the file. False for a table in memory, which each process has
    /// its own copy of.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        forked_since(self.forks) && (self.has_file() || self.frames.spill.is_some())
    }

    /// # Errors
    /// [`ErrorKind::Forked`] in a child of the process that opened the file.
    #[inline]
    pub(crate) fn refuse_if_forked(&self) -> Result<()> {
        if self.is_forked() { Err(self.forked_error()) } else { Ok(()) }
    }

    #[cold]
    fn forked_error(&self) -> Error {
        let path = self.path().display();
        Error::new(ErrorKind::Forked, format!("{path}: opened before this process was forked from its parent"))
            .with_hint("Open the table in the child, after the fork.")
    }

    /// Whether any frame has changed since the last checkpoint; never in a table in memory.
    #[inline]
    pub(crate) fn has_dirty_frames(&self) -> bool {
        self.frames.pool.dirty_count() > 0
    }

    /// Lets the current segment of the log grow with the table.
    pub(crate) fn grow_log(&self) {
        if let Some(log) = &self.log {
            log.grow(self.frames.file.table_bytes());
        }
    }

    /// Whether a write may begin. If not, the handle only reads, or is poisoned, or the cache needs a checkpoint for
    /// which the disk has no room.
    #[inline]
    pub(crate) fn takes_writes(&self) -> bool {
        self.frames.file.health.is_sound()
    }

    /// Whether growth reserves disk space. A replay does not, as the log has its changes: the next growth or checkpoint
    /// reserves that space.
    pub(crate) fn reserve_growth(&self, yes: bool) {
        self.frames.reserves_growth.store(yes, Relaxed);
    }

    /// Called before a handle that only reads replays what was added to the log.
    pub(crate) fn begin_replay(&self) {
        self.frames.file.health.begin_writes();
    }

    /// Called when the log is replayed: a handle that only reads takes no writes from here on.
    pub(crate) fn end_replay(&self) {
        if self.is_read_only() {
            self.frames.file.health.end_writes();
        }
    }

    pub(crate) fn checkpointer(&self) -> Checkpointer<'_> {
        Checkpointer {
            frames: &self.frames,
            allocator: self.allocator(),
            values: self.values(),
            log: self.log.as_ref(),
            closing: &self.closing,
        }
    }

    /// Allocates `len` units: within one frame if fewer than [`FRAME_UNITS`], else from the start of a frame on.
    /// Returns the first unit's number.
    pub(crate) fn allocate(&self, len: u32) -> Result<u64> {
        self.allocator().allocate(len)
    }

    /// Allocates `len` units for an extent, see [`Allocator::allocate_extent`].
    pub(crate) fn allocate_extent(&self, len: u32) -> Result<u64> {
        self.allocator().allocate_extent(len)
    }

    /// Frees `len` units from `unit` on, see [`Allocator::free`].
    pub(crate) fn free(&self, unit: u64, len: u32) -> Result<()> {
        self.allocator().free(unit, len)
    }

    /// The map frames: (first, count).
    pub(crate) fn fixed_frames(&self) -> impl Iterator<Item = (FrameNo, u32)> {
        self.frames.file.maps.fixed()
    }

    /// Frames whose blocks keep the file longer than it needs to be. The caller keeps checkpoints out.
    pub(crate) fn frames_at_end(&self) -> Result<Vec<FrameNo>> {
        self.frames.blocks.as_ref().map_or(Ok(Vec::new()), |blocks| blocks.frames_at_end(&self.frames.file))
    }

    /// Whether moving the frames of [`frames_at_end`](Self::frames_at_end), at most `most`, shortens the file by much.
    pub(crate) fn is_soon_shorter(&self, most: u64) -> bool {
        self.frames.blocks.as_ref().is_some_and(|blocks| blocks.is_soon_shorter(most))
    }

    /// Called when the log is replayed: blocks that neither the last checkpoint nor the log has may be written.
    pub(crate) fn begin_reuse(&self) -> Result<()> {
        let has_values = self.values().has_replayed();
        self.frames.blocks.as_ref().map_or(Ok(()), |blocks| blocks.begin_reuse(&self.frames.file, has_values))
    }

    /// Cuts free blocks off the end of the file. The caller keeps checkpoints out.
    pub(crate) fn shorten_file(&self) -> Result<()> {
        self.frames.blocks.as_ref().map_or(Ok(()), |blocks| blocks.shorten(&self.frames.file, true))
    }

    /// Called before the last checkpoint of a table that is being closed: the file is then cut to what it needs.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Relaxed);
    }
}
