//! The length that a table's file must have. If it is shorter, another program has cut it.
//!
//! A checkpoint writes only frames that changed. If the file had been cut, the checkpoint would extend it again, leave
//! zeros in place of blocks that it does not write, and report success. So it compares the length first, and again when
//! its blocks are written. `sync` and `close` also compare it, and so does everything that makes the file longer in
//! between.
//!
//! If a program cuts the file in between, this is noticed only when a frame is read: its checksum does not match.

use super::TableFile;
use crate::error::{Error, Result};
use crate::io::File;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The end of the bytes that were written beyond the last checkpoint since that checkpoint began.
#[derive(Default)]
pub(in crate::pager) struct WrittenEnd(AtomicU64);

impl TableFile {
    /// Notes that the file has the bytes before `end`, beyond the last checkpoint.
    pub(in crate::pager) fn note_written_end(&self, end: u64) {
        self.written_end.0.fetch_max(end, Relaxed);
    }

    /// Bytes that the file must have.
    fn bytes_needed(&self) -> u64 {
        self.checkpoint_bytes.load(Acquire).max(self.written_end.0.load(Relaxed))
    }

    /// Called when a checkpoint begins: returns the bytes that the file must have until it is complete. Later writes
    /// count towards the next checkpoint. The caller keeps writers out.
    pub(in crate::pager) fn take_bytes_needed(&self) -> u64 {
        let bytes = self.bytes_needed();
        self.written_end.0.store(0, Relaxed);
        bytes
    }

    /// Called when the file is cut to `bytes`, since the table no longer needs the rest.
    pub(in crate::pager) fn forget_written_beyond(&self, bytes: u64) {
        self.written_end.0.fetch_min(bytes, Relaxed);
    }

    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::ErrorKind) if another program has cut the file. The handle then takes no more
    /// writes.
    pub(crate) fn refuse_if_cut(&self) -> Result<()> {
        match &self.handle {
            Some(file) => self.refuse_shorter(file.as_ref(), self.bytes_needed()),
            None => Ok(()),
        }
    }

    /// [`refuse_if_cut`](Self::refuse_if_cut), called before the bytes up to `end` are written. Checks only if they
    /// make the file longer, which would leave a hole in a cut file.
    pub(in crate::pager) fn refuse_hole_before(&self, end: u64) -> Result<()> {
        if end > self.bytes_needed() { self.refuse_if_cut() } else { Ok(()) }
    }

    /// [`refuse_if_cut`](Self::refuse_if_cut), for a file that must have `needed` bytes.
    pub(in crate::pager) fn refuse_shorter(&self, file: &dyn File, needed: u64) -> Result<()> {
        let bytes = file.len().map_err(|e| Error::io(&self.path, "ask the length of", e))?;
        if bytes >= needed {
            return Ok(());
        }
        let error = self.corrupt(format!("it has {bytes} bytes and had {needed}: another program cut the file"));
        self.poison(error.message());
        Err(error)
    }
}
