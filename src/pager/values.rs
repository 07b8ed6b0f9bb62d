//! Large values, which are written to their blocks at once: memory gets no copy, and a log of the operating system's
//! promise none either.
//!
//! ```text
//! window   adjacent frames (`allocate/window.rs`) and as many adjacent blocks; one value after another fills them
//! write    take units -> write the value to the blocks -> their checksums into the block map, as sealed
//!          -> {byte in the file, length, checksum} for the record of the log
//! freeze   the window is closed, since the checkpoint has its blocks from then on
//! due      a checkpoint, after as many bytes as the log may have: a replay reads them, and the blocks of overwritten
//!          ones wait for it
//! sync     the file, then the log
//! replay   read the file, compare the checksum, put the pair again
//! ```
//!
//! A **sealed** block may have bytes that the log refers to. It is never written again: if one of its frames changes,
//! the frame gets another block, and the sealed one is free once a checkpoint has made the log's record unnecessary.
//! In the last frame that values fill, the next value continues, as long as nothing else has changed it.
//!
//! Without a log, values are stored as others are: nothing promises them before the next checkpoint, and a copy to
//! memory takes a fifth of the time of a call.
//!
//! An open after a crash replays such records; their values may be only in the system's cache, and nothing else refers
//! to them. So the open makes a checkpoint. If the disk has no room for it, a sync is a checkpoint until one is
//! complete.
//!
//! Source: docs/architecture.md, "Values that go to the file at once". Not here: the record (`table/wal_record.rs`),
//! which values (`table/stored.rs`).

use super::allocate::Allocator;
use super::allocate::compaction::Compacting;
use super::interleave::{self, until_free};
use super::load::Frames;
use super::pool::{FrameNo, FrameSource, WriteGuard};
use super::space::FRAME_UNITS;
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::pager::file::sums::frame_sum;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// A value is written in parts of this length.
const PART_BYTES: usize = 64 << 10;

/// Where values are written, and what is not yet safe.
#[derive(Default)]
pub(super) struct Stored {
    window: Mutex<Window>,
    /// Whether any value was written since the open.
    has_written: AtomicBool,
    /// Bytes of values that were written since the last checkpoint began.
    bytes: AtomicU64,
    /// Whether bytes were written since the file was last synced, perhaps by another program.
    unsynced: AtomicBool,
    /// Held during the sync of these bytes.
    syncing: Mutex<()>,
    /// Whether the replay at the open put values again that records refer to. No checkpoint has them yet.
    replayed: AtomicBool,
}

/// Frames and blocks that values fill.
#[derive(Default)]
struct Window {
    /// Frames from the one that the next value begins in.
    frames: Range<FrameNo>,
    /// The block of the first of them.
    block: u32,
    /// The content of the first of them so far, in whole units.
    head: Vec<u8>,
    /// Whether what no value has filled is zero in the file.
    is_zero: bool,
    /// Bytes on their way to the file.
    buffer: Vec<u8>,
}

/// A value in the file, as a record of the log refers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredValue {
    /// Its first byte in the file.
    pub address: u64,
    pub bytes: u32,
    /// CRC-32C.
    pub sum: u32,
}

impl Stored {
    /// Counts a value of `bytes`; returns the bytes of all since the last checkpoint began.
    pub(super) fn count(&self, bytes: u64) -> u64 {
        self.bytes.fetch_add(bytes, Relaxed) + bytes
    }

    /// Whether any value was written since the open: its frames are read from the file.
    pub(super) fn has_written(&self) -> bool {
        self.has_written.load(Relaxed)
    }
}

impl StoredValue {
    /// The value at `address`.
    pub(crate) fn new(address: u64, value: &[u8]) -> StoredValue {
        // No value is longer than VALUE_LEN_MAX.
        StoredValue { address, bytes: value.len() as u32, sum: crc32c(value) }
    }
}

/// Where an extent was written.
pub(crate) struct Place {
    /// Its first unit.
    pub unit: u64,
    /// Its first byte in the file.
    pub address: u64,
}

/// Values in the file of these frames.
pub(crate) struct Values<'p> {
    pub(super) frames: &'p Frames,
    pub(super) allocator: Allocator<'p>,
    pub(super) stored: &'p Stored,
}

impl<'p> Values<'p> {
    fn window(&self) -> MutexGuard<'_, Window> {
        interleave::lock(&self.stored.window)
    }

    /// Writes `parts`, one after the other, to new units of the file. Returns `None`, with nothing changed, if they
    /// should be stored as others are. The caller is inside the gate.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind) and others; nothing was allocated.
    pub(crate) fn write(&self, parts: [&[u8]; 2]) -> Result<Option<Place>> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let units = bytes.div_ceil(self.allocator.unit_bytes()) as u32; // a value has less than 2^32 bytes
        if units == 0 {
            return Ok(None);
        }
        let mut window = self.window();
        let latch = loop {
            let latch = self.latch_head(&mut window)?;
            if self.units_left(&window) < units {
                drop(latch);
                self.close_window(&mut window)?;
                if !self.open_window(&mut window, units)? {
                    return Ok(None);
                }
            } else if self.allocator.take_in_window(self.head_units(&window), units)? {
                break latch;
            } else {
                drop(latch);
                self.leave_head(&mut window)?;
            }
        };
        let unit = u64::from(window.frames.start) * u64::from(FRAME_UNITS) + u64::from(self.head_units(&window));
        let address = u64::from(window.block) * self.frames.frame_bytes() as u64 + window.head.len() as u64;
        match self.fill(&mut window, parts) {
            Ok(sums) => self.seal(&mut window, &sums, latch),
            Err(e) => {
                // The file may have a part of the value.
                if let Some(latch) = latch {
                    self.frames.pool.keep_in_memory(window.frames.start, latch, &window.head);
                    self.frames.made_resident();
                }
                let _ = self.allocator.free(unit, units);
                self.empty_window(&mut window);
                // Its first frame may be a free one by now. What cannot be left is found by the next open.
                let _ = self.allocator.leave_window(FrameNo::MAX);
                return Err(e);
            }
        }
        self.stored.has_written.store(true, Relaxed);
        // Set after the write, so that the sync that resets it includes the bytes.
        self.stored.unsynced.store(true, Release);
        Ok(Some(Place { unit, address }))
    }

    /// Units of the first frame that values fill.
    fn head_units(&self, window: &Window) -> u32 {
        (window.head.len() / self.allocator.unit_bytes()) as u32
    }

    fn units_left(&self, window: &Window) -> u32 {
        (window.frames.len() as u32).saturating_mul(FRAME_UNITS) - self.head_units(window)
    }

    /// Latches the first frame if it has values, unless something else has changed it.
    fn latch_head(&self, window: &mut Window) -> Result<Option<WriteGuard<'p>>> {
        if window.head.is_empty() {
            return Ok(None);
        }
        let (frame, blocks) = (window.frames.start, self.frames.blocks.as_ref());
        let latch = self.frames.pool.try_latch_written(frame);
        let latch = latch.filter(|_| blocks.is_some_and(|blocks| blocks.sealed_block(frame) == Some(window.block)));
        if latch.is_none() {
            self.leave_head(window)?;
        }
        Ok(latch)
    }

    /// Lets the next value begin in the next frame.
    fn leave_head(&self, window: &mut Window) -> Result<()> {
        window.frames.start += 1;
        window.block += 1;
        window.head.clear();
        self.allocator.leave_window(1)
    }

    /// Frees the blocks of the window that no value is in. The next window has its frames, or some of them.
    fn close_window(&self, window: &mut Window) -> Result<()> {
        if !window.head.is_empty() {
            self.leave_head(window)?;
        }
        self.empty_window(window);
        Ok(())
    }

    /// Frees the blocks of the window that no value is in. Its frames stay the allocator's window.
    fn empty_window(&self, window: &mut Window) {
        let unfilled = window.block + u32::from(!window.head.is_empty());
        let end = window.block + std::mem::take(&mut window.frames).len() as u32;
        window.head.clear();
        if let Some(blocks) = &self.frames.blocks {
            blocks.free_run(unfilled..end);
        }
    }

    /// Opens a window of at least `units`. Returns false if values should be stored as others are.
    fn open_window(&self, window: &mut Window, units: u32) -> Result<bool> {
        let Some(blocks) = &self.frames.blocks else { return Ok(false) };
        let Some(frames) = self.allocator.open_window(units)? else { return Ok(false) };
        let count = frames.len() as u32;
        let taken = blocks.take_run(&self.frames.file, count, self.frames.unwritten_count());
        let opened = taken.and_then(|taken| {
            let Some((block, is_zero)) = taken else { return Ok(None) };
            // They are zero until a value fills them.
            let clear = |frame| self.frames.pool.replace_in_file(frame, self.frames, || blocks.set_zero(frame));
            frames.clone().try_for_each(clear).inspect_err(|_| blocks.free_run(block..block + count))?;
            Ok(Some((block, is_zero)))
        });
        if !matches!(opened, Ok(Some(_))) {
            self.allocator.leave_window(FrameNo::MAX)?;
        }
        let Some((block, is_zero)) = opened? else { return Ok(false) };
        (window.frames, window.block, window.is_zero) = (frames, block, is_zero);
        Ok(true)
    }

    /// Writes `parts` behind the head. Returns the checksums of the frames from the first on. The head stays as it is.
    fn fill(&self, window: &mut Window, parts: [&[u8]; 2]) -> Result<Vec<u32>> {
        let (frame_bytes, unit_bytes) = (self.frames.frame_bytes(), self.allocator.unit_bytes());
        let mut buffer = std::mem::take(&mut window.buffer);
        buffer.clear();
        buffer.extend_from_slice(&window.head);
        let mut from = buffer.len(); // where the bytes begin that the file does not have
        let mut sums = Vec::new();
        let mut filled = Ok(());
        for part in parts.iter().flat_map(|part| part.chunks(PART_BYTES)) {
            buffer.extend_from_slice(part);
            let whole = buffer.len() - buffer.len() % frame_bytes;
            if whole >= PART_BYTES {
                filled = self.write_frames(window, &mut sums, &buffer[..whole], from..whole);
                if filled.is_err() {
                    break;
                }
                buffer.drain(..whole);
                from = 0;
            }
        }
        let filled = filled.and_then(|()| {
            let end = buffer.len();
            if end == 0 {
                return Ok(()); // the last part has filled a frame
            }
            buffer.resize(end.next_multiple_of(frame_bytes), 0);
            // A block is compared whole. What is new to a value is written by it.
            let begins_in_last = from / frame_bytes == (end - 1) / frame_bytes && !from.is_multiple_of(frame_bytes);
            let to = if window.is_zero || begins_in_last { end } else { buffer.len() };
            self.write_frames(window, &mut sums, &buffer, from..to)?;
            buffer.truncate(end.next_multiple_of(unit_bytes));
            Ok(())
        });
        window.buffer = buffer;
        filled.map(|()| sums)
    }

    /// Writes a part of `frames`, whole frames that follow those with `sums`, and adds their checksums.
    fn write_frames(&self, window: &Window, sums: &mut Vec<u32>, frames: &[u8], part: Range<usize>) -> Result<()> {
        let frame_bytes = self.frames.frame_bytes();
        let blocks = self.frames.blocks.as_ref().expect("a table without a file has no window");
        let block = window.block + sums.len() as u32;
        blocks.write_value(&self.frames.file, block, part, frames)?;
        let first = window.frames.start + sums.len() as FrameNo;
        sums.extend((first..).zip(frames.chunks_exact(frame_bytes)).map(|(frame, bytes)| frame_sum(frame, bytes)));
        Ok(())
    }

    /// Notes that the frames from the first on, which `latch` is of, were written. The last one is the next head.
    fn seal(&self, window: &mut Window, sums: &[u32], latch: Option<WriteGuard<'_>>) {
        let (first, frame_bytes) = (window.frames.start, self.frames.frame_bytes());
        let blocks = self.frames.blocks.as_ref().expect("a table without a file has no window");
        if blocks.seal(first, window.block, sums) {
            self.frames.checkpoint_due.store(true, Relaxed);
        }
        if let Some(latch) = latch {
            self.frames.pool.discard_written(first, latch);
        }
        let last = window.buffer.len() % frame_bytes;
        let full = sums.len() as u32 - u32::from(last > 0);
        window.frames.start += full;
        window.block += full;
        window.head.clear();
        let from = window.buffer.len() - last;
        window.head.extend_from_slice(&window.buffer[from..]);
    }

    /// Called when a checkpoint begins, and when room is no longer to be held. The caller keeps writers out.
    pub(super) fn close(&self) -> Result<()> {
        self.close_window(&mut self.window())?;
        self.stored.bytes.store(0, Relaxed);
        self.allocator.end_windows();
        Ok(())
    }

    /// Begins a compaction, during which there is no window. At most one runs at a time.
    pub(crate) fn begin_compaction(&self) -> Result<Compacting<'p>> {
        let mut window = self.window();
        self.close_window(&mut window)?;
        self.allocator.leave_window(FrameNo::MAX)?;
        Ok(self.allocator.begin_compaction())
    }

    /// Makes the values in the file durable, and the file as it was found. Must be called before the log is synced.
    pub(crate) fn sync(&self) -> Result<()> {
        let stored = self.stored;
        until_free(&stored.syncing);
        let _syncing = stored.syncing.lock().expect("no panic while held");
        // Another thread's sync may have failed after it reset the flag.
        self.frames.file.refuse_if_poisoned()?;
        if !stored.unsynced.swap(false, AcqRel) {
            return Ok(()); // without waiting for a checkpoint's sync
        }
        self.frames.file.settle("sync", |file| file.sync())
    }

    /// Reads the bytes of a value that a record of the log refers to. Returns `None` if the file does not have them:
    /// the value was not synced before a power loss. With `again` they are also written again: after a failed sync the
    /// kernel may take for written what the disk does not have.
    pub(crate) fn read(&self, stored: StoredValue, again: bool) -> Result<Option<Vec<u8>>> {
        let Some(file) = &self.frames.file.handle else { return Ok(None) };
        let fail = |what: &'static str| move |e| Error::io(&self.frames.file.path, what, e);
        let end = stored.address.saturating_add(u64::from(stored.bytes));
        if end > file.len().map_err(fail("ask the length of"))? {
            return Ok(None);
        }
        let mut value = vec![0; stored.bytes as usize];
        file.read_at(&mut value, stored.address).map_err(fail("read a value from"))?;
        if crc32c(&value) != stored.sum {
            return Ok(None);
        }
        self.stored.replayed.store(true, Relaxed);
        if self.frames.file.read_only {
            return Ok(Some(value));
        }
        if let Some(blocks) = &self.frames.blocks {
            blocks.keep_logged(&self.frames.file, stored.address..end);
        }
        if again {
            file.write_at(&value, stored.address).map_err(fail("write a value again to"))?;
        }
        Ok(Some(value))
    }

    /// Whether records refer to bytes that may be only in the operating system's cache, and whose pairs are now
    /// elsewhere in memory.
    pub(crate) fn has_replayed(&self) -> bool {
        self.stored.replayed.load(Relaxed)
    }

    /// Called when a file was opened for writing: the program that made it may not have synced it.
    pub(crate) fn note_found(&self) {
        self.stored.unsynced.store(true, Release);
    }

    /// Makes the values durable that replayed records refer to.
    pub(crate) fn sync_replayed(&self) -> Result<()> {
        self.stored.unsynced.store(true, Release);
        self.sync()
    }

    /// Called when a checkpoint is complete.
    pub(super) fn note_checkpoint(&self) {
        self.stored.replayed.store(false, Relaxed);
    }

    /// Whether any value was written at once and is in no checkpoint yet.
    #[cfg(test)]
    pub(crate) fn has_written(&self) -> bool {
        self.frames.blocks.as_ref().is_some_and(|blocks| blocks.sealed_count() > 0)
    }
}
