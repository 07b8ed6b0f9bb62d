//! Keeps the disk free for others while a checkpoint or a copy is written: at most two parts of it are on their way to
//! the disk.
//!
//! A sync of the log waits for every write that the disk got before it. Without a bound that is most of the checkpoint:
//! a synced put takes up to 0.2 s, beside the copy of a large table up to 1.2 s (docs/notes/2026-11-27-checkpoints.md,
//! docs/notes/2026-11-29-syncs.md). So parts are small while the log is synced by small records:
//!
//! ```text
//! a sync is running, or one ended during the last part    16 times the bytes that it made durable, 128 KiB at least
//! else                                                    twice the bytes of the last part
//! in both cases                                           1 MiB at most
//! ```
//!
//! Not here: the sync at the end, which makes the bytes durable.

use crate::error::Result;
use crate::pager::file::TableFile;
use crate::pager::wal::{Log, Lsn};
use std::ops::Range;

const PART_BYTES_MIN: u64 = 128 << 10;
const PART_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the next part for each byte of the log that a sync made durable.
const BYTES_PER_LOGGED: u64 = 16;

/// The parts of a checkpoint that may still be on their way to the disk.
pub(in crate::pager) struct Pace<'a> {
    file: &'a TableFile,
    log: Option<&'a Log>,
    step: Step,
    /// The bytes of the current part.
    bytes: u64,
    /// The range of the file that the current part lies in, with gaps.
    part: Option<Range<u64>>,
    /// The range of the last part, until the disk is known to have it.
    before: Option<Range<u64>>,
}

impl<'a> Pace<'a> {
    pub(in crate::pager) fn new(file: &'a TableFile, log: Option<&'a Log>) -> Self {
        let durable = log.map_or(0, |log| log.sync_progress().0);
        Self::with(file, log, Step { part_bytes: PART_BYTES_MAX, durable })
    }

    /// For a copy, which is not urgent: parts are always small, since other processes may sync, too.
    pub(super) fn of_copy(file: &'a TableFile) -> Self {
        Self::with(file, None, Step { part_bytes: PART_BYTES_MIN, durable: 0 })
    }

    fn with(file: &'a TableFile, log: Option<&'a Log>, step: Step) -> Self {
        Pace { file, log, step, bytes: 0, part: None, before: None }
    }

    /// Bytes of a part.
    pub(in crate::pager) fn part_bytes(&self) -> u64 {
        self.step.part_bytes
    }

    /// Called after `bytes` bytes were written from `offset` on. At the end of a part, waits until the disk has the one
    /// before; beside syncs of the log, until it has this one.
    pub(in crate::pager) fn follow(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let (start, end) = self.part.take().map_or((offset, 0), |part| (part.start, part.end));
        let part = start.min(offset)..end.max(offset + bytes);
        self.bytes += bytes;
        if self.bytes < self.step.part_bytes {
            self.part = Some(part);
            return Ok(());
        }
        self.bytes = 0;
        if let Some(file) = &self.file.handle {
            file.begin_sync(part.start, part.end - part.start);
        }
        if let Some(before) = self.before.replace(part) {
            self.await_part(before)?;
        }
        if let Some(log) = self.log {
            self.step.follow(log.sync_progress());
        }
        if self.step.part_bytes < PART_BYTES_MAX {
            self.before.take().map_or(Ok(()), |part| self.await_part(part))?;
        }
        Ok(())
    }

    fn await_part(&self, part: Range<u64>) -> Result<()> {
        self.file.settle("write a block of", |file| file.await_sync(part.start, part.end - part.start))
    }
}

/// The length of parts.
struct Step {
    part_bytes: u64,
    /// The log's durable position at the end of the last part.
    durable: Lsn,
}

impl Step {
    fn follow(&mut self, (durable, is_syncing): (Lsn, bool)) {
        let gained = durable - self.durable;
        self.durable = durable;
        let wanted = if gained > 0 || is_syncing { gained * BYTES_PER_LOGGED } else { self.part_bytes * 2 };
        self.part_bytes = wanted.clamp(PART_BYTES_MIN, PART_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Storage;
    use crate::io::simulated::{Simulated, State};
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn parts_are_small_while_small_records_are_synced_and_grow_when_nothing_is() {
        let mut step = Step { part_bytes: PART_BYTES_MAX, durable: 1000 };
        let mut next = |durable, is_syncing| {
            step.follow((durable, is_syncing));
            step.part_bytes >> 10
        };
        assert_eq!(next(1000, false), 1024);
        assert_eq!(next(1200, false), 128);
        assert_eq!([next(1200, true), next(1200, true)], [128, 128]);
        assert_eq!([(); 5].map(|()| next(1200, false)), [256, 512, 1024, 1024, 1024]);
        assert_eq!(next(1200, true), 128);
        assert_eq!(next(1200 + (20 << 10), true), 320);
        assert_eq!(next(1 << 30, true), 1024);
    }

    #[test]
    fn blocks_that_are_not_adjacent_are_waited_for_together() {
        let disk = Simulated::new(State::default());
        let path = Path::new("t.spt");
        let handle = disk.create(path, 0o600).unwrap();
        let file = TableFile::new(Arc::new(disk.clone()), path.to_owned(), Some(handle.into()), 4096);
        let mut pace = Pace::new(&file, None);
        let before = disk.calls();
        // Four parts of 1 MiB; each but the last is waited for.
        (0..1024).for_each(|block| pace.follow(block * 3 * 4096, 4096).unwrap());
        assert_eq!(disk.calls() - before, 3);
        assert_eq!(disk.begun_max(), 2);
    }
}
