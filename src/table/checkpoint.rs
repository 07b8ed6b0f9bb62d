//! When a checkpoint is made, by whom, and who waits for it.
//!
//! ```text
//! a writer finds the log's segment full, or too much dirty
//!   takes the turn -> closes the gate -> freeze, next segment -> opens the gate -> a thread writes what is frozen
//! others go on at once; who needs room in the next segment, too, before that is written, waits for it
//! ```
//!
//! Source: docs/architecture.md, "Checkpoint". Not here: how it is written (`pager/checkpoint.rs`), the log (`pager/log`).

use super::{Durability, Table};
use crate::error::{Error, ErrorKind, Result};
use crate::pager::interleave::spawn;
use crate::pager::{Frozen, Pager, Turn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};

impl Table {
    /// Makes all that was written durable.
    ///
    /// With [`Durability::Os`] and [`Durability::Sync`] it syncs the log, for [`Durability::None`] it makes a checkpoint.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::DiskFull`], after which the handle takes no more writes.
    pub fn sync(&self) -> Result<()> {
        if self.pager.is_read_only() || !self.pager.has_file() {
            return Ok(());
        }
        self.refuse_if_forked()?;
        self.refuse_if_poisoned()?;
        match self.pager.log().filter(|log| log.is_on()) {
            Some(log) => log.sync().inspect_err(|e| self.pager.turns().poison(&e.to_string())),
            None if self.pager.is_clean() => Ok(()),
            None => self.checkpoint(),
        }
    }

    /// Makes all durable and closes the table.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    pub(super) fn finish(&self) -> Result<()> {
        if self.closed.swap(true, Relaxed) {
            return Ok(());
        }
        // While the table's lock is still ours: its next owner may publish at once.
        drop(self.publisher.lock().unwrap_or_else(|e| e.into_inner()).take());
        if self.pager.is_read_only() || !self.pager.has_file() || self.pager.is_forked() {
            return Ok(());
        }
        let closed = self.write_last_checkpoint();
        self.pager.release_reserved();
        closed
    }

    fn write_last_checkpoint(&self) -> Result<()> {
        // The thread of the last one may still be at it.
        drop(self.pager.turns().take()?);
        self.refuse_if_poisoned()?;
        if !self.pager.is_clean() {
            self.checkpoint()?;
        }
        self.pager.log().map_or(Ok(()), |log| log.close())
    }

    /// A child of the process that opened the file leaves it to its parent.
    #[inline]
    pub(super) fn refuse_if_forked(&self) -> Result<()> {
        if self.pager.is_forked() { Err(self.forked_error()) } else { Ok(()) }
    }

    #[cold]
    fn forked_error(&self) -> Error {
        let path = self.pager.path().display();
        Error::new(
            ErrorKind::Forked,
            format!(
                "{path}: opened before this process was forked from its parent; open the table in the child, after the fork"
            ),
        )
    }

    pub(super) fn refuse_if_poisoned(&self) -> Result<()> {
        let turns = self.pager.turns();
        if !turns.is_poisoned() {
            return Ok(());
        }
        let (path, why) = (self.pager.path().display(), turns.reason());
        Err(Error::new(
            ErrorKind::Poisoned,
            format!(
                "{path}: an earlier write to the disk failed, so this handle takes no more; open the table again to go on from what is safe. It was: {why}"
            ),
        ))
    }

    /// Writes all changes to the file itself, as a whole, so that the next open has no log to replay, and other processes
    /// that open the file for reading see them.
    ///
    /// O(what changed since the last one). Other threads go on meanwhile. Made by itself as the log fills.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn checkpoint(&self) -> Result<()> {
        if self.pager.is_read_only() || !self.pager.has_file() {
            return Ok(());
        }
        self.refuse_if_forked()?;
        self.checkpoint_in_turn(&self.pager.turns().take()?)
    }

    /// The same, by who has the turn and keeps it.
    pub(super) fn checkpoint_in_turn(&self, turn: &Turn) -> Result<()> {
        let frozen = self.freeze_frames(0)?;
        turn.tell();
        self.pager.write_frozen(frozen)
    }

    fn freeze_frames(&self, log_bytes: u64) -> Result<Frozen> {
        let _alone = self.gate.close()?;
        self.refuse_if_poisoned()?;
        self.pager.freeze(&self.root(), log_bytes)
    }

    /// After a write: a checkpoint if one is due.
    #[inline]
    pub(super) fn checkpoint_if_due(&self) {
        // A checkpoint costs its journal's time again if it has to be installed at an open; a bulk load is made anew.
        const DIRTY_BYTES_MAX: u64 = 1 << 30;
        let dirty_bytes_max = if self.durability == Durability::None { u64::MAX } else { DIRTY_BYTES_MAX };
        if self.pager.wants_checkpoint(dirty_bytes_max) && !self.replaying {
            // The write is made and logged. One that failed is tried again by the next writer, or has poisoned the handle,
            // which tells the next writer.
            let _ = self.begin_due_checkpoint();
        }
    }

    #[cold]
    fn begin_due_checkpoint(&self) -> Result<()> {
        match self.pager.turns().try_take() {
            Some(turn) => self.checkpoint_beside(turn, 0),
            None if self.pager.must_checkpoint() => self.pager.turns().wait_until(|| false),
            None => Ok(()),
        }
    }

    /// Sees to it that the log has room for a record of `bytes`, or that it is worth to try again.
    #[cold]
    pub(super) fn make_log_room(&self, bytes: u64) -> Result<()> {
        let Some(log) = self.pager.log() else { return Ok(()) };
        match self.pager.turns().try_take() {
            // Another thread may have been here first.
            Some(_) if log.has_room(bytes) => Ok(()),
            Some(turn) => self.checkpoint_beside(turn, bytes),
            // A backup may take hours: meanwhile the log is longer than it should be.
            None if self.pager.turns().is_for_long() && log.can_switch() => {
                let _alone = self.gate.close()?;
                // Another may have been here first, and begun the last segment there is.
                if log.has_room(bytes) || !log.can_switch() { Ok(()) } else { log.switch(bytes).map(drop) }
            }
            None => self.pager.turns().wait_until(|| log.has_room(bytes)),
        }
    }

    /// Freezes the table and lets a thread of its own write it.
    fn checkpoint_beside(&self, turn: Turn, log_bytes: u64) -> Result<()> {
        let frozen = self.freeze_frames(log_bytes)?;
        turn.tell();
        if self.inline_checkpoints {
            return self.pager.write_frozen(frozen);
        }
        // A thread that cannot be made drops what it was given, so it is given a share.
        let job = Arc::new(Mutex::new(Some((self.pager.clone(), frozen, turn))));
        let theirs = job.clone();
        let run = move |job: &Mutex<Option<(Arc<Pager>, Frozen, Turn)>>| {
            let Some((pager, frozen, turn)) = job.lock().unwrap_or_else(|e| e.into_inner()).take() else { return };
            // Errors poison the handle; whoever writes next is told.
            if catch_unwind(AssertUnwindSafe(|| pager.write_frozen(frozen))).is_err() {
                pager.turns().poison("the thread that wrote a checkpoint panicked");
            }
            // The file first: who waits for the turn may be about to open it again.
            drop(pager);
            drop(turn);
        };
        if spawn("checkpoint", move || run(&theirs)).is_err() {
            run(&job);
        }
        Ok(())
    }
}
