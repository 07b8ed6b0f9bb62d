//! When a checkpoint is made, by which thread, and which threads wait for it.
//!
//! ```text
//! a writer finds the log's segment full, or too many frames dirty
//!   takes the checkpoint lock -> reserves disk space
//!   -> closes the gate -> freezes, begins the next segment -> opens the gate
//!   -> a thread writes the frozen frames
//! other writers continue at once; one that fills the next segment before the checkpoint is complete waits for it
//! ```
//!
//! If the disk has no room, nothing has changed. The writer that needs the checkpoint returns the error, and the next
//! one that needs it tries again. Writers that still have room in the log and the cache continue.
//!
//! Source: docs/architecture.md, "Checkpoint". Not here: writing it (`pager/checkpoint/`), the log (`pager/wal`).

use super::handle::Table;
use super::options::Durability;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{event, warn_if_slow};
use crate::pager::interleave::spawn;
use crate::pager::{CheckpointGuard, Frozen, Pager};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};
use std::time::Instant;

impl Table {
    /// Makes all earlier writes durable.
    ///
    /// With [`Durability::Os`](crate::Durability) and [`Durability::Sync`](crate::Durability) it syncs the log, and
    /// before that the file if the log refers to values there. With [`Durability::None`](crate::Durability) it writes a
    /// checkpoint.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let table = Table::open(&path)?;
    /// table.put(b"alice", b"admin")?;
    /// table.sync()?; // survives a power loss from now on
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`], with nothing changed: make room and call it again. [`ErrorKind::Io`], after which this
    /// handle may refuse writes with [`ErrorKind::Poisoned`]. A full disk may have the same effect if the file system
    /// cannot reserve space or copies on write.
    pub fn sync(&self) -> Result<()> {
        self.pager.refuse_if_forked()?;
        if self.pager.is_read_only() || !self.pager.has_file() {
            return Ok(());
        }
        self.pager.refuse_if_poisoned()?;
        self.pager.file().refuse_if_cut()?;
        match self.pager.log().filter(|log| log.is_on()) {
            // The values that replayed records refer to may be only in the cache: the open's checkpoint had no room.
            Some(_) if self.pager.values().has_replayed() => self.checkpoint(),
            Some(log) => {
                self.pager.values().sync()?;
                log.sync().inspect_err(|e| self.pager.poison(e.message()))
            }
            None if self.pager.frames().is_clean() => Ok(()),
            None => {
                // Another thread's checkpoint may be in flight: waiting for the lock waits for its end.
                let guard = self.acquire_checkpoint()?;
                self.pager.refuse_if_poisoned()?;
                if self.pager.frames().is_clean() { Ok(()) } else { self.checkpoint_with(&guard) }
            }
        }
    }

    /// Makes all writes durable and closes the table.
    ///
    /// The handle is gone even after an error. The next open replays the log; with
    /// [`Durability::None`](crate::Durability) the writes since the last [`sync`](Self::sync) are lost. To be able to
    /// retry after an error, call `sync` first.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let table = Table::open(&path)?;
    /// table.put(b"alice", b"admin")?;
    /// table.close()?; // dropping it would discard an error
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`sync`](Self::sync). In a forked child [`ErrorKind::Forked`]: the table is closed there and stays
    /// open in the parent.
    pub fn close(self) -> Result<()> {
        self.finish()
    }

    pub(super) fn finish(&self) -> Result<()> {
        if self.closed.swap(true, Relaxed) {
            return Ok(());
        }
        // Dropped while this handle holds the table's lock: the lock's next owner may publish at once.
        drop(self.publisher.lock().unwrap_or_else(|e| e.into_inner()).take());
        // A forked child writes, removes and unlocks nothing: the files belong to its parent.
        self.pager.refuse_if_forked()?;
        if self.pager.is_read_only() || !self.pager.has_file() {
            return Ok(());
        }
        let closed = self.write_last_checkpoint();
        event!(debug, "{}: closed", self.pager.path().display());
        closed
    }

    fn write_last_checkpoint(&self) -> Result<()> {
        // The thread of the last checkpoint may still be running.
        drop(self.pager.checkpoint_lock().acquire()?);
        self.pager.refuse_if_poisoned()?;
        self.pager.file().refuse_if_cut()?;
        let (is_clean, most) = (self.pager.frames().is_clean(), self.moved_most());
        if !is_clean || self.pager.is_soon_shorter(most) {
            self.pager.begin_closing();
            if let Some(log) = self.pager.log() {
                log.begin_closing();
            }
            if !is_clean && self.pager.is_soon_shorter(most) {
                // Frames that cannot be read stay where they are.
                let _ = self.move_with_dirty_frames();
            }
            if !is_clean {
                self.checkpoint()?;
            }
            self.move_from_end(most)?;
        }
        self.pager.log().map_or(Ok(()), |log| log.close())
    }

    /// Moves at most `most` frames from the end of the file to free blocks with another checkpoint, if that makes the
    /// file much shorter.
    fn move_from_end(&self, most: u64) -> Result<()> {
        let changes = |frames: Vec<_>| self.change_frames(&frames);
        if self.pager.is_soon_shorter(most) && self.frames_at_end().and_then(changes).is_ok() {
            match self.checkpoint() {
                // Everything is in the checkpoint before.
                Err(e) if e.kind() == ErrorKind::DiskFull => {}
                moved => moved?,
            }
        }
        Ok(())
    }

    /// Called once values were replayed that are in the file: makes a checkpoint. Until then only the log refers to
    /// them, and they may be only in the system's cache.
    pub(super) fn checkpoint_replayed(&self) -> Result<()> {
        match self.checkpoint() {
            // The log still refers to them.
            Err(e) if e.kind() == ErrorKind::DiskFull && self.durability == Durability::Sync => {
                self.pager.values().sync_replayed()
            }
            Err(e) if e.kind() == ErrorKind::DiskFull => Ok(()),
            made => made.and_then(|()| self.move_from_end(self.moved_most())),
        }
    }

    /// How many frames a close moves at most to shorten the file: as many as it has to write anyway, or 256 MiB.
    fn moved_most(&self) -> u64 {
        const MOVED_BYTES: u64 = 256 << 20;
        self.pager.pool().dirty_count().max(MOVED_BYTES / self.pager.frame_bytes() as u64)
    }

    /// Lets the next checkpoint write the frames at the end of the file too, unless the dirty ones elsewhere are too
    /// many for the free blocks that remain: then what it frees is filled by another checkpoint.
    fn move_with_dirty_frames(&self) -> Result<()> {
        const PART: u64 = 16;
        let pool = self.pager.pool();
        let frames = self.frames_at_end()?;
        let dirty_there = frames.iter().filter(|&&frame| pool.is_dirty(frame)).count() as u64;
        if pool.dirty_count() - dirty_there <= u64::from(self.pager.frame_count()) / PART {
            self.change_frames(&frames)?;
        }
        Ok(())
    }

    /// Writes all changes to the file as a checkpoint. Afterwards an open has no log to replay, and other processes
    /// that open the file for reading see the changes.
    ///
    /// O(changes since the last one). Other threads continue. Checkpoints also happen automatically as the log fills.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spt");
    /// use splitpoint::Table;
    /// let table = Table::open(&path)?;
    /// table.put(b"alice", b"admin")?;
    /// table.checkpoint()?;
    /// let reader = splitpoint::TableOptions::new().read_only(true).open(&path)?; // in another process, too
    /// assert!(reader.contains(b"alice")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`sync`](Self::sync).
    pub fn checkpoint(&self) -> Result<()> {
        self.pager.refuse_if_forked()?;
        if self.pager.is_read_only() || !self.pager.has_file() {
            return Ok(());
        }
        self.checkpoint_with(&self.acquire_checkpoint()?)
    }

    /// Waits for the checkpoint lock.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`](crate::ErrorKind) if this thread holds it, or has closed the gate while it does.
    pub(super) fn acquire_checkpoint(&self) -> Result<CheckpointGuard> {
        self.gate.refuse_closer()?;
        self.pager.checkpoint_lock().acquire()
    }

    /// [`checkpoint`](Self::checkpoint) for a thread that holds the checkpoint lock and keeps it.
    pub(super) fn checkpoint_with(&self, guard: &CheckpointGuard) -> Result<()> {
        let frozen = self.freeze_frames(0)?;
        guard.notify();
        self.pager.checkpointer().write_frozen(frozen)
    }

    /// A full disk is reported here, with nothing changed.
    pub(super) fn freeze_frames(&self, log_bytes: u64) -> Result<Frozen> {
        self.pager.checkpointer().reserve_checkpoint()?;
        let _alone = self.gate.close()?;
        self.pager.refuse_if_poisoned()?;
        self.pager.checkpointer().freeze(&self.root(), log_bytes)
    }

    /// The root of the table as it is now. The caller has closed the gate.
    pub(super) fn root(&self) -> Vec<u8> {
        let types = self.types.lock().expect("no panic while held").names.clone();
        self.buckets.root(self.gate.totals(), types).encode()
    }

    /// Called after a write: makes a checkpoint if one is due.
    #[inline(always)]
    pub(super) fn checkpoint_if_due(&self) {
        if self.pager.has_dirty_frames() && self.pager.frames().wants_checkpoint() {
            self.begin_checkpoint_unless_put_off();
        }
    }

    #[cold]
    fn begin_checkpoint_unless_put_off(&self) {
        if !self.replaying && !self.pager.frames().has_put_off_checkpoint() {
            // The write is made and logged. If the checkpoint could not begin, it is tried again, and before the next
            // write if the cache needs it. If it failed, the handle is poisoned, and the next write returns the error.
            if let Err(e) = self.begin_due_checkpoint()
                && e.kind() != ErrorKind::WouldDeadlock
            {
                self.pager.frames().put_off_checkpoint();
            }
        }
    }

    /// Begins a checkpoint if the cache still has no room without one.
    #[cold]
    pub(super) fn make_cache_room(&self) -> Result<()> {
        if self.pager.frames().must_checkpoint() {
            return self.begin_due_checkpoint();
        }
        self.pager.frames().let_writes_begin();
        Ok(())
    }

    #[cold]
    fn begin_due_checkpoint(&self) -> Result<()> {
        match self.pager.checkpoint_lock().try_acquire() {
            Some(guard) => self.checkpoint_beside(guard, 0),
            None if !self.pager.frames().must_checkpoint() => Ok(()),
            // During a backup the cache may exceed its limit, but it must grow slowly.
            None if self.pager.checkpoint_lock().is_held_long() => {
                self.pager.checkpoint_lock().wait_a_moment();
                Ok(())
            }
            None => self.pager.checkpoint_lock().wait_until(|held_long| held_long),
        }
    }

    /// Makes room in the log for a record of `bytes`, or returns so that the caller tries again.
    #[cold]
    pub(super) fn make_log_room(&self, bytes: u64) -> Result<()> {
        let start = Instant::now();
        let made = self.try_to_make_log_room(bytes);
        warn_if_slow(start, || format!("{}: a write waited for room in the log", self.pager.path().display()));
        made
    }

    fn try_to_make_log_room(&self, bytes: u64) -> Result<()> {
        let Some(log) = self.pager.log() else { return Ok(()) };
        self.pager.grow_log();
        match self.pager.checkpoint_lock().try_acquire() {
            // Another thread may have made room already.
            Some(_) if log.has_room(bytes) => Ok(()),
            Some(guard) => self.checkpoint_beside(guard, bytes),
            // A backup may take hours, so the log may grow beyond its limit, up to a higher one.
            None if self.pager.checkpoint_lock().is_held_long() => {
                let extended = {
                    let _alone = self.gate.close()?;
                    log.has_room(bytes) || log.extend(bytes)?
                };
                if extended { Ok(()) } else { self.wait_beside_backup(|| log.has_room(bytes)) }
            }
            None => self.pager.checkpoint_lock().wait_until(|held_long| held_long || log.has_room(bytes)),
        }
    }

    /// Waits briefly for a backup to end. Fails if the log still has no room.
    fn wait_beside_backup(&self, has_room: impl Fn() -> bool) -> Result<()> {
        self.pager.checkpoint_lock().wait_a_moment();
        if !self.pager.checkpoint_lock().is_held_long() || has_room() {
            return Ok(());
        }
        let path = self.pager.path().display();
        Err(Error::new(
            ErrorKind::Busy,
            format!("{path}: the log is full, and no checkpoint can be made before the backup in progress ends"),
        )
        .with_hint("Nothing was changed. Try again when the backup is done."))
    }

    /// Freezes the table and lets another thread write the frozen frames.
    fn checkpoint_beside(&self, guard: CheckpointGuard, log_bytes: u64) -> Result<()> {
        let frozen = self.freeze_frames(log_bytes)?;
        guard.notify();
        if self.inline_checkpoints {
            return self.pager.checkpointer().write_frozen(frozen);
        }
        // If the thread cannot be started, its closure is dropped, so the job is shared.
        let job = Arc::new(Mutex::new(Some((self.pager.clone(), frozen, guard))));
        let theirs = job.clone();
        let run = move |job: &Mutex<Option<(Arc<Pager>, Frozen, CheckpointGuard)>>| {
            let Some((pager, frozen, guard)) = job.lock().unwrap_or_else(|e| e.into_inner()).take() else { return };
            // Errors poison the handle; the next write returns one.
            if catch_unwind(AssertUnwindSafe(|| pager.checkpointer().write_frozen(frozen))).is_err() {
                pager.poison("the thread that wrote a checkpoint panicked");
            }
            // The pager is dropped first: a thread that waits for the lock may be about to open the file again.
            drop(pager);
            drop(guard);
        };
        if spawn("checkpoint", move || run(&theirs)).is_err() {
            run(&job);
        }
        Ok(())
    }
}
