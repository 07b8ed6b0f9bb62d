//! The length that a table's file must have: where it is shorter, another program cut it.
//!
//! A checkpoint sets the file's length, and writes only frames that changed. So it would make a file that was cut long
//! enough again, with zeros in place of frames that it does not write, and report success. It therefore compares the
//! length first, and again before its journal and once its frames are in place; so do `sync` and `close`, and whatever
//! makes the file longer in between.
//!
//! A program that cuts the file in between goes unnoticed until a frame is read: its checksum does not match.

use super::Pager;
use crate::error::{Error, Result};
use crate::io::File;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Bytes of the file beyond its last checkpoint that were written since the last one began.
#[derive(Default)]
pub(super) struct WrittenEnd(AtomicU64);

impl Pager {
    /// Notes that the file has the bytes before `end`, which no checkpoint has.
    pub(super) fn note_written_end(&self, end: u64) {
        self.written_end.0.fetch_max(end, Relaxed);
    }

    /// Bytes that the file must have.
    fn bytes_needed(&self) -> u64 {
        let of_checkpoint = u64::from(self.file_frames.load(Acquire)) * self.frame_bytes() as u64;
        of_checkpoint.max(self.written_end.0.load(Relaxed))
    }

    /// When a checkpoint begins: bytes that the file must have until it is complete. What is written from now on is
    /// beyond. The caller keeps writers out.
    pub(super) fn take_bytes_needed(&self) -> u64 {
        let bytes = self.bytes_needed();
        self.written_end.0.store(0, Relaxed);
        bytes
    }

    /// When the file is cut to `bytes`, which the table does not need any more.
    pub(super) fn forget_written_beyond(&self, bytes: u64) {
        self.written_end.0.fetch_min(bytes, Relaxed);
    }

    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::ErrorKind) where another program has cut the file. The handle takes no more
    /// writes then.
    pub(crate) fn refuse_if_cut(&self) -> Result<()> {
        match &self.file {
            Some(file) => self.refuse_shorter(file.as_ref(), self.bytes_needed()),
            None => Ok(()),
        }
    }

    /// [`refuse_if_cut`](Self::refuse_if_cut), before the bytes up to `end` are written if they make the file longer: a
    /// hole would be left.
    pub(super) fn refuse_hole_before(&self, end: u64) -> Result<()> {
        if end > self.bytes_needed() { self.refuse_if_cut() } else { Ok(()) }
    }

    /// [`refuse_if_cut`](Self::refuse_if_cut), for a file that must have `needed` bytes.
    pub(super) fn refuse_shorter(&self, file: &dyn File, needed: u64) -> Result<()> {
        let bytes = file.len().map_err(|e| Error::io(&self.path, "ask the length of", e))?;
        if bytes >= needed {
            return Ok(());
        }
        let error = self.corrupt(format!("it has {bytes} bytes and had {needed}: another program cut the file"));
        self.poison(error.message());
        Err(error)
    }
}
