//! Write-through: a large value goes to its location in the file at once, and the log only refers to it.
//!
//! ```text
//! write       allocate units beyond the end of the last checkpoint -> write the file -> write the frames in memory
//!             -> append {key, place, length, checksum} to the log
//! sync        the file, then the log
//! freed       units that the log refers to are not reused before the next checkpoint begins
//! checkpoint  freeze: the end moves, so later values go beyond this checkpoint; frames that the file already has are
//!             not written again
//! replay      read the file, compare the checksum, put the pair again
//! ```
//!
//! Frames beyond the end of the last checkpoint are not part of it, so writing them cannot damage the state that a
//! crash leaves. Until the next checkpoint is complete, the log may refer to them: nothing cuts them off, and the
//! checkpoint writes only the content they had when it began. That content has the same bytes wherever the log refers
//! to.
//!
//! Off after an open that replayed records, until a checkpoint is complete: pairs that were put again may be elsewhere
//! in memory than their values are in the file, and a second replay would need the file's copy. Also off after the file
//! was cut.
//!
//! Source: docs/architecture.md, "Log". Not here: the record (`table/wal_record.rs`), which values (`table/stored.rs`).

use super::Values;
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::pager::file::length::set_frame_count;
use crate::pager::interleave::until_free;
use crate::pager::pool::words::Bytes;
use crate::pager::pool::{FrameNo, FrameSource};
use crate::pager::space::FRAME_UNITS;
use crate::pager::space::windows::ValueRoom;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Shorter values are written through only if a window is mapped: writing them to the log costs less than a system call
/// (docs/architecture.md, "Values that go to the file at once").
const CALL_BYTES_MIN: u64 = if cfg!(test) { 600 } else { 16 << 10 };

/// Whether values are written through, and what is not yet safe.
#[derive(Default)]
pub(in crate::pager) struct Through {
    /// Whether this table's values may be written to the file at once.
    allowed: bool,
    /// Whether the log refers, or may soon refer, to bytes beyond the last checkpoint. Set under the allocator's lock,
    /// which is also held when such bytes are cut off.
    used: AtomicBool,
    /// Whether bytes were written since the file was last synced.
    unsynced: AtomicBool,
    /// Whether the last window could not be mapped.
    pub(super) unmapped: AtomicBool,
    /// Whether the table is being closed: the next checkpoint is then its last one.
    closing: AtomicBool,
    /// Whether a journal was removed, now or by an earlier process, that would cut these bytes off if it reappeared and
    /// were installed again.
    journal_may_return: AtomicBool,
    /// Held during the sync of these bytes.
    syncing: Mutex<()>,
    /// Whether the replay at the open put values again that records refer to. No checkpoint has them yet.
    replayed: AtomicBool,
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

impl StoredValue {
    /// The value at `address`.
    pub(crate) fn new(address: u64, value: &[u8]) -> StoredValue {
        // No value is longer than VALUE_LEN_MAX.
        StoredValue { address, bytes: value.len() as u32, sum: crc32c(value) }
    }
}

impl Through {
    /// For a table whose values may be written to the file at once, if `allowed`.
    pub(in crate::pager) fn new(allowed: bool) -> Through {
        Through { allowed, journal_may_return: AtomicBool::new(true), ..Through::default() }
    }
}

impl Values<'_> {
    /// Whether values of `bytes` bytes may currently be written through.
    #[inline]
    pub(crate) fn writes_this_through(&self, bytes: usize) -> bool {
        self.frames.file.takes_values() && (bytes as u64 >= CALL_BYTES_MIN || self.may_map_windows())
    }

    /// Turns write-through on after an open that replayed nothing, if the file ends with its checkpoint.
    pub(crate) fn begin_writing_through(&self) -> Result<()> {
        let Some(file) = self.frames.file.handle.as_ref().filter(|_| self.through.allowed) else { return Ok(()) };
        let end = self.frames.file.checkpoint_frames.load(Acquire);
        let bytes = file.len().map_err(|e| Error::io(&self.frames.file.path, "ask the length of", e))?;
        if end > 0 && bytes == u64::from(end) * self.frames.frame_bytes() as u64 {
            self.frames.file.values_from.store(end, Release);
        }
        Ok(())
    }

    /// Allocates `len` units that may be written through, for `bytes` bytes. Returns `None` if other room should be
    /// used, if too much room waits for the next checkpoint, or if the bytes are too few for a system call. The caller
    /// is inside the gate.
    pub(crate) fn allocate_through(&self, len: u32, bytes: u64) -> Result<Option<ValueRoom>> {
        if !self.writes_this_through(bytes as usize) {
            return Ok(None);
        }
        self.allocate_in_window(len, self.may_map_windows(), bytes < CALL_BYTES_MIN)
    }

    /// Writes `parts`, one after the other, to the file and to the frames in memory. `room` is what
    /// [`allocate_through`](Self::allocate_through) returned.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others; the units may be freed.
    pub(crate) fn write_through(&self, room: ValueRoom, parts: [&[u8]; 2]) -> Result<()> {
        let address = room.unit * self.allocator.unit_bytes() as u64;
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if !room.mapped {
            self.frames.file.refuse_hole_before(address + bytes)?;
        }
        self.write_to_both(address, parts, room.mapped).and_then(|()| self.frames.refuse_lost_pages()).inspect_err(
            |_| {
                // The file may have some of the bytes, while memory has none or others.
                let (first, _) = self.frames.pool.split(address);
                let (last, _) = self.frames.pool.split(address + bytes.max(1) - 1);
                (first..=last).for_each(|frame| self.frames.pool.differs_from_file(frame));
            },
        )?;
        self.frames.file.note_written_end(address + bytes);
        // Set after the write, so that the sync that resets it includes the bytes.
        self.through.unsynced.store(true, Release);
        Ok(())
    }

    fn write_to_both(&self, address: u64, parts: [&[u8]; 2], mapped: bool) -> Result<()> {
        let file = self.frames.file.handle.as_ref().expect("a table without a file writes nothing through");
        let mut at = address;
        for part in parts.into_iter().filter(|part| !part.is_empty() && !mapped) {
            file.write_at(part, at).map_err(|e| Error::io(&self.frames.file.path, "write a value to", e))?;
            at += part.len() as u64;
        }
        let mut at = address;
        for mut part in parts {
            while !part.is_empty() {
                let (frame, start) = self.frames.pool.split(at);
                let here = part.len().min(self.frames.frame_bytes() - start);
                let mut latched =
                    self.frames.pool.write_through(frame, here == self.frames.frame_bytes(), self.frames)?;
                latched.whole().store(start, &part[..here]);
                drop(latched);
                self.frames.made_resident();
                part = &part[here..];
                at += here as u64;
            }
        }
        Ok(())
    }

    /// Makes the next checkpoint release the room at the end of the file that values did not need.
    pub(crate) fn begin_closing(&self) {
        self.through.closing.store(true, Relaxed);
    }

    pub(in crate::pager) fn is_closing(&self) -> bool {
        self.through.closing.load(Relaxed)
    }

    /// Whether the log may refer to these units in the file.
    pub(crate) fn is_referred_to(&self, unit: u64) -> bool {
        self.through.used.load(Relaxed)
            && self.frames.pool.is_written_through((unit / u64::from(FRAME_UNITS)) as FrameNo)
    }

    /// Makes the bytes that were written through durable. Must be called before the log is synced.
    pub(crate) fn sync(&self) -> Result<()> {
        until_free(&self.through.syncing);
        let _syncing = self.through.syncing.lock().expect("no panic while held");
        // Another thread's sync may have failed after it reset the flag.
        self.frames.file.refuse_if_poisoned()?;
        let Some(file) = self.frames.file.handle.as_ref().filter(|_| self.through.unsynced.swap(false, AcqRel)) else {
            return Ok(());
        };
        file.sync()
            .map_err(|e| Error::io(&self.frames.file.path, "sync", e))
            .and_then(|()| self.sync_removal_of_journal())
            .inspect_err(|e| self.frames.file.poison(e.message()))
    }

    /// Makes the removal of the last journal durable. If a power loss undid it, the next open would install the journal
    /// again, which would cut the file where that checkpoint ended.
    fn sync_removal_of_journal(&self) -> Result<()> {
        if self.through.journal_may_return.swap(false, AcqRel) {
            self.frames.file.refuse_if_moved()?;
            self.frames
                .file
                .storage
                .sync_names(&self.frames.file.path)
                .map_err(|e| Error::io(&self.frames.file.path, "sync the directory of", e))?;
        }
        Ok(())
    }

    /// Called after a journal was removed that sets the file's length, before values may be written beyond that length.
    pub(in crate::pager) fn note_removed_journal(&self) {
        self.through.journal_may_return.store(true, Release);
    }

    /// Reads the bytes of a value that a record of the log refers to. Returns `None` if the file does not have them:
    /// the value was not synced before a power loss.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::ErrorKind) if no writer would have put the value there; errors of reading.
    pub(crate) fn read_stored(&self, stored: StoredValue) -> Result<Option<Vec<u8>>> {
        let Some(file) = &self.frames.file.handle else { return Ok(None) };
        let end = u64::from(self.frames.file.checkpoint_frames.load(Acquire)) * self.frames.frame_bytes() as u64;
        // A reader may be in the log of a later checkpoint, whose end is elsewhere.
        let table = &self.frames.file;
        let is_last = !table.read_only || table.checkpoint_in_file()? == table.last_checkpoint();
        if stored.address < end && is_last {
            return Err(self.frames.file.corrupt(format!(
                "the log has a value at byte {} of this file, within the {end} bytes of its last checkpoint",
                stored.address
            )));
        }
        let fail = |e| Error::io(&self.frames.file.path, "read a value from", e);
        let value_end = stored.address.saturating_add(u64::from(stored.bytes));
        let mut value = Vec::new();
        if value_end <= file.len().map_err(fail)? {
            value.resize(stored.bytes as usize, 0);
            file.read_at(&mut value, stored.address).map_err(fail)?;
        }
        if value.len() == stored.bytes as usize && crc32c(&value) == stored.sum {
            self.through.replayed.store(true, Relaxed);
            if !self.through.allowed && !self.frames.file.read_only {
                // For `sync_replayed`. After a failed sync the kernel may take for written what the disk does not have.
                file.write_at(&value, stored.address)
                    .map_err(|e| Error::io(&self.frames.file.path, "write a value again to", e))?;
            }
            return Ok(Some(value));
        }
        Ok(None)
    }

    /// Whether records refer to bytes that may be only in the operating system's cache, and whose pairs are now
    /// elsewhere in memory.
    pub(crate) fn has_replayed_references(&self) -> bool {
        self.through.replayed.load(Relaxed)
    }

    /// Makes the values durable that replayed records refer to.
    pub(crate) fn sync_replayed(&self) -> Result<()> {
        let Some(file) = &self.frames.file.handle else { return Ok(()) };
        file.sync().map_err(|e| Error::io(&self.frames.file.path, "sync", e))
    }

    /// Called before a checkpoint begins: makes the file as long as the table if a record refers, or may soon refer, to
    /// bytes beyond its end. From then on nothing may cut the file. Setting its length could cut bytes that a writer
    /// has just added, so the caller keeps writers out.
    pub(in crate::pager) fn extend_file_for_checkpoint(&self) -> Result<()> {
        if let Some(file) = self.frames.file.handle.as_ref().filter(|_| self.may_be_referred_to()) {
            self.frames.file.refuse_if_cut()?;
            set_frame_count(file.as_ref(), self.frames.frame_bytes(), FrameNo::MAX, self.frames.frame_count())
                .map_err(|e| Error::io(&self.frames.file.path, "set the length of", e))?;
        }
        Ok(())
    }

    fn may_be_referred_to(&self) -> bool {
        self.frames.file.takes_values() || self.through.used.load(Relaxed)
    }

    /// Whether bytes of the file beyond the last checkpoint must stay, since records of the log refer to them or frames
    /// were spilled there.
    pub(in crate::pager) fn keeps_end(&self) -> bool {
        self.may_be_referred_to() || self.frames.spills_in_place()
    }

    /// Called before room beyond the last checkpoint is mapped or allocated, under the allocator's lock.
    pub(in crate::pager) fn keep_end(&self) {
        self.through.used.store(true, Relaxed);
    }

    /// Called when a checkpoint of `frame_count` frames begins: from here on values go beyond its end.
    pub(in crate::pager) fn begin_period(&self, frame_count: u32) {
        self.through.used.store(false, Relaxed);
        if self.frames.file.takes_values() {
            self.frames.file.values_from.store(frame_count, Release);
        }
    }

    /// Called when that checkpoint is complete: the file ends with it, except for values written through.
    pub(in crate::pager) fn complete_period(&self, frame_count: u32) {
        if self.through.allowed {
            self.frames.file.values_from.store(frame_count, Release);
        }
        self.through.replayed.store(false, Relaxed);
    }

    /// Whether the log may refer to bytes beyond the last checkpoint.
    pub(crate) fn has_written_through(&self) -> bool {
        self.through.used.load(Relaxed)
    }
}
