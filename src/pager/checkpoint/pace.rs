//! Keeps the disk free for others while a checkpoint is written: at most two runs of bytes are on their way to it.
//!
//! A thread that syncs the log during a checkpoint waits for all earlier writes of the disk. Without a bound that is
//! most of the checkpoint, and such a put takes up to 0.2 s (docs/notes/2026-11-27-checkpoints.md).
//!
//! Not here: the sync at the end, which makes the bytes durable.

use crate::io::File;
use std::io::Result;

/// The runs that were last written to a file.
pub(super) struct Pace<'a> {
    file: &'a dyn File,
    /// The offset and the bytes of a run that may still be on its way.
    last: Option<(u64, u64)>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(file: &'a dyn File) -> Self {
        Pace { file, last: None }
    }

    /// Called after `bytes` bytes were written from `offset` on: waits until the disk has the run before.
    pub(super) fn follow(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.file.begin_sync(offset, bytes);
        match self.last.replace((offset, bytes)) {
            Some((offset, bytes)) => self.file.await_sync(offset, bytes),
            None => Ok(()),
        }
    }
}
