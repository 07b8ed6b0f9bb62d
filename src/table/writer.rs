//! Writers: how a write is admitted, what it puts in the log, and how it leaves.
//!
//! ```text
//! enter   forked? -> the gate (gate.rs) -> read-only? poisoned? room in the cache? -> room in the log for the record
//! log     the record, under the latch of the changed bucket
//! leave   count the change -> split or merge if due -> leave the gate -> begin a checkpoint if due
//! wait    until the record is as durable as the options ask
//! ```
//!
//! Whatever can refuse a write does so in `enter`, before anything changes. A record is logged after its change, under
//! the latch of its bucket, so the order of the log is the order of each key's changes, and a failed change leaves no
//! record.
//!
//! Not here: the change itself (`buckets`), the bytes of records (`wal_record.rs`), checkpoints (`checkpoint.rs`).

use super::changes::Changes;
use super::gate::{ClosedGate, WriterGuard};
use super::handle::Table;
use super::options::Durability;
use super::wal_record::{BATCH, WalRecord, body};
use crate::buckets::Delta;
use crate::error::{Error, ErrorKind, Result};
use crate::pager::wal::{Log, Lsn, PiecesNumber, Room, Short};
use std::borrow::BorrowMut;

/// The outcome of a write.
pub(super) struct Written {
    /// Whether it changed anything.
    pub changed: bool,
    /// What its edit returned; 0 if it changed nothing. An option would take a comparison.
    pub answer: usize,
    /// The log position to wait for.
    pub lsn: Lsn,
}

/// A writer inside the gate, with room in the log for its record if changes are logged.
pub(super) struct Writer<'t> {
    /// First, so that it is dropped first: unused room must be returned before the writer leaves the gate. The next
    /// segment begins once all writers have left, and relies on that.
    room: Option<Room<'t>>,
    pub inside: WriterGuard<'t>,
    table: &'t Table,
}

/// Enter.
impl Table {
    /// Lets in a writer that logs `log_bytes` bytes; this is not called if changes are not logged.
    #[inline(always)]
    pub(super) fn enter_to_log(&self, log_bytes: impl FnOnce() -> u64) -> Result<Writer<'_>> {
        let inside = self.enter()?;
        let Some(log) = self.log_in_use() else { return Ok(Writer { room: None, inside, table: self }) };
        let bytes = log_bytes();
        // Taken apart: a writer that the cold call returned would be in memory whenever a writer enters.
        let (room, inside) = match log.reserve(bytes)? {
            Some(room) => (room, inside),
            None => self.enter_once_log_has_room(inside, log, bytes)?,
        };
        Ok(Writer { room: Some(room), inside, table: self })
    }

    /// Lets in a writer for whose record the log had no room.
    #[cold]
    #[inline(never)]
    fn enter_once_log_has_room<'t>(
        &'t self,
        inside: WriterGuard<'t>,
        log: &'t Log,
        bytes: u64,
    ) -> Result<(Room<'t>, WriterGuard<'t>)> {
        drop(inside);
        self.make_log_room(bytes)?;
        self.with_log_room(log, bytes, || self.enter())
    }

    /// Lets in a writer of `record` and keeps all other writers out. The caller drops the closed gate last.
    pub(super) fn enter_alone_to_log(&self, record: WalRecord<'_>) -> Result<(ClosedGate<'_>, Writer<'_>)> {
        let enter = || {
            drop(self.enter()?);
            self.gate.close()
        };
        let (room, alone) = match self.log_in_use() {
            None => (None, enter()?),
            Some(log) => self.with_log_room(log, record.log_bytes(), enter).map(|(room, alone)| (Some(room), alone))?,
        };
        let inside = alone.enter();
        Ok((alone, Writer { room, inside, table: self }))
    }

    /// Lets in a writer that logs nothing.
    #[inline(always)]
    pub(super) fn enter(&self) -> Result<WriterGuard<'_>> {
        self.pager.refuse_if_forked()?;
        let inside = self.gate.enter()?;
        if self.pager.takes_writes() { Ok(inside) } else { self.enter_with_cache_room(inside) }
    }

    /// Makes the checkpoint that the cache needs, for which the disk had no room when the last writer tried. An error
    /// if that is not what keeps writers out.
    #[cold]
    fn enter_with_cache_room<'t>(&'t self, inside: WriterGuard<'t>) -> Result<WriterGuard<'t>> {
        drop(inside);
        if self.pager.is_read_only() && !self.replaying {
            return Err(Error::new(ErrorKind::ReadOnly, format!("{}: opened read-only", self.pager.path().display()))
                .with_hint("Open it for writing to change it."));
        }
        self.pager.refuse_if_poisoned()?;
        self.make_cache_room()?;
        self.enter_anyway()
    }

    /// Lets in a writer to continue a change that has begun, even if the cache has no room for more.
    pub(super) fn enter_anyway(&self) -> Result<WriterGuard<'_>> {
        let inside = self.gate.enter()?;
        self.pager.refuse_if_poisoned()?;
        Ok(inside)
    }

    /// Calls `enter` until there is also room in the log for `bytes`.
    fn with_log_room<'t, W>(
        &'t self,
        log: &'t Log,
        bytes: u64,
        enter: impl Fn() -> Result<W>,
    ) -> Result<(Room<'t>, W)> {
        loop {
            let entered = enter()?;
            if let Some(room) = log.reserve(bytes)? {
                return Ok((room, entered));
            }
            drop(entered);
            self.make_log_room(bytes)?;
        }
    }

    /// The log, if changes are currently logged.
    #[inline]
    pub(super) fn log_in_use(&self) -> Option<&Log> {
        self.pager.log().filter(|log| log.is_on() && !self.replaying)
    }
}

impl<'t> Writer<'t> {
    /// Assembles a short record before the bucket is latched: the processor does it while the bucket is fetched from
    /// memory. `None` for a long record, and if nothing is logged.
    #[inline(always)]
    pub(super) fn put_together<'s>(&self, record: WalRecord<'_>, place: &'s mut Short) -> Option<&'s mut Short> {
        let room = self.room.as_ref()?;
        let (kind, key, rest) = record.parts();
        room.put_together(kind, &body(key, rest, &mut Default::default()), place)
    }

    /// Whether its change is logged.
    #[inline]
    pub(super) fn logs(&self) -> bool {
        self.room.is_some()
    }

    /// Logs a change that was made. The caller still holds the latch of its bucket. An error poisons the handle: the
    /// change cannot be undone, but would be lost in a crash.
    #[inline]
    pub(super) fn log(&mut self, record: WalRecord<'_>) -> Result<Lsn> {
        self.room.as_mut().map_or(Ok(0), |room| self.table.append_record(room, record.parts()))
    }

    /// Logs the changes of a long batch before they are made, chunk by chunk, and frees each chunk. They do not count
    /// before [`log_end`](Self::log_end). Does nothing for other batches, and if nothing is logged.
    pub(super) fn log_chunks(&mut self, changes: &mut Changes) -> Result<Option<PiecesNumber>> {
        let Some(room) = self.room.as_mut().filter(|_| changes.only_chunk().is_none()) else { return Ok(None) };
        let number = room.begin_pieces();
        let logged = (0..changes.chunk_count()).try_for_each(|index| {
            let part = room.append_part(number, &[&changes.chunk(index)?])?;
            changes.set_logged(index, part);
            Ok(())
        });
        logged.inspect_err(|e: &Error| self.table.pager.poison(e.message()))?;
        Ok(Some(number))
    }

    /// Logs the end of a batch whose changes [`log_chunks`](Self::log_chunks) has logged.
    pub(super) fn log_end(&mut self, of: Option<PiecesNumber>) -> Result<Lsn> {
        let (Some(room), Some(number)) = (&mut self.room, of) else { return Ok(0) };
        room.end_pieces(BATCH, number).inspect_err(|e| self.table.pager.poison(e.message()))
    }

    /// [`log`](Self::log) for the last change of this writer, with what [`put_together`](Self::put_together) returned.
    /// Takes the room out of the writer, which need not be kept in memory then: 15 instructions.
    #[inline(always)]
    pub(super) fn log_last(&mut self, record: WalRecord<'_>, short: Option<&mut Short>) -> Result<Lsn> {
        let Some(mut room) = self.room.take() else { return Ok(0) };
        let Some(short) = short else { return self.table.append_record(room, record.parts()) };
        room.append_short(short).inspect_err(|e| self.table.poison_unlogged(e))
    }

    /// Counts `changes` changes, `removals` of which removed a pair, splits or merges buckets if the load calls for it,
    /// and leaves the gate.
    #[inline(always)]
    pub(super) fn leave(self, delta: Delta, changes: usize, removals: usize) {
        let table = self.table;
        let load_changed = self.inside.count(delta, (changes, removals), table.buckets.load());
        // The pairs are stored. If the table cannot grow or shrink now, the next write tries again.
        if load_changed || delta.long_chains > 0 {
            let _ = table.buckets.adjust(delta.pairs < 0, delta.long_chains > 0, changes);
        }
        drop(self);
        table.checkpoint_if_due();
    }
}

/// Log and wait.
impl Table {
    #[inline(never)]
    fn append_record<'t>(
        &self,
        mut room: impl BorrowMut<Room<'t>>,
        (kind, key, rest): (u8, Option<&[u8]>, &[u8]),
    ) -> Result<Lsn> {
        let logged = room.borrow_mut().append(kind, &body(key, rest, &mut Default::default()));
        logged.inspect_err(|e| self.poison_unlogged(e))
    }

    /// Poisons the handle after a change that the log does not have.
    #[cold]
    #[inline(never)]
    fn poison_unlogged(&self, error: &Error) {
        self.pager.poison(error.message());
    }

    /// Waits until the log up to `lsn` is as durable as the options ask.
    #[inline]
    pub(super) fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        if lsn == 0 { Ok(()) } else { self.sync_to(lsn) }
    }

    /// Makes the log up to `lsn` as durable as `asked`, whatever the options ask.
    pub(super) fn wait_as(&self, lsn: Lsn, asked: Durability) -> Result<()> {
        match (self.durability, asked) {
            (Durability::Sync, Durability::Sync) => self.wait_durable(lsn),
            (Durability::Sync, Durability::Os) => match self.log_in_use() {
                Some(log) => log.write_to(lsn).inspect_err(|e| self.pager.poison(e.message())),
                None => Ok(()),
            },
            (Durability::Os, Durability::Sync) | (Durability::None, Durability::Sync | Durability::Os) => self.sync(),
            (Durability::Os, Durability::Os) | (_, Durability::None) => Ok(()),
        }
    }

    fn sync_to(&self, lsn: Lsn) -> Result<()> {
        match self.pager.log().filter(|log| log.waits()) {
            Some(log) => log.sync_to(lsn).inspect_err(|e| self.pager.poison(e.message())),
            None => Ok(()),
        }
    }

    /// The log position that an answer without a change must wait for: it depends on other threads' writes in the
    /// bucket whose latch the caller holds. Their records were appended under that latch, so they end before this
    /// position.
    #[inline]
    pub(super) fn position_seen(&self) -> Lsn {
        self.log_in_use().filter(|log| log.waits()).map_or(0, Log::position)
    }
}
