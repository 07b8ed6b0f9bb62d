//! Replays the log, many records at a time, with several threads: at an open, or as another process adds to it.
//!
//! ```text
//! prepare   read a block of records -> decode each, hash its key, add the change to the part of its hash
//!           -> announce the frames that are not in memory
//! apply     each part by one thread, change after change, as `put_many` does; meanwhile prepare the next block
//! ```
//!
//! A key belongs to one part, so each key's changes keep their order. Changes of different keys do not depend on each
//! other. The changes of a batch may be made one by one, as no thread sees the table before the replay is done. A
//! record that removes all pairs ends a block. If several changes fail, the error of the first record is returned, as
//! if they had been made one after another.
//!
//! Not here: reading the log (`pager/wal/replay.rs`), the steps of an open before and after a replay (`open.rs`).

use super::handle::Table;
use super::options::{Durability, OnReplay, ReplayPlan};
use super::wal_record::{BATCH, WalRecord, decode_batch, decode_reference};
use crate::buckets::KEY_LEN_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::fault::stopped;
use crate::pager::interleave;
use crate::pager::pool::FrameNo;
use crate::pager::wal::{Block, BlockLimits, Reader, RecordBody};
use std::panic::resume_unwind;
use std::thread::{Builder, available_parallelism, scope};

impl ReplayPlan {
    fn parts(self) -> usize {
        // More parts were not measured.
        const PARTS_MAX: usize = 4;
        let of_machine = || available_parallelism().map_or(1, |threads| threads.get().min(PARTS_MAX));
        let parts = self.parts.unwrap_or_else(|| if interleave::task().is_some() { 1 } else { of_machine() });
        1 << parts.max(1).ilog2()
    }
}

/// A change of one pair.
#[derive(Clone, Copy)]
struct Change {
    /// The number of its record in the block.
    record: u32,
    kind: Kind,
    key: RecordBody,
    value: RecordBody,
}

#[derive(Clone, Copy)]
enum Kind {
    Put,
    Append,
    Remove,
}

/// Records that were decoded, and whose changes can be made.
#[derive(Default)]
struct Prepared {
    block: Block,
    parts: Vec<Vec<Change>>,
    changes: usize,
    /// Whether all pairs are removed after these changes.
    clears: bool,
    /// The error of the record after these changes.
    failed: Option<Error>,
    /// Whether the log has ended: there are no records here, and none follow.
    at_end: bool,
    /// Frames to be read; empty between two blocks.
    frames: Vec<FrameNo>,
}

impl Table {
    /// Makes the changes that `reader` has not read yet, up to the end of the log.
    /// Reports to `progress` before the changes of each block.
    pub(super) fn replay_log(&self, reader: &mut Reader, plan: ReplayPlan, progress: Option<&OnReplay>) -> Result<()> {
        let (mut now, mut next) = (Prepared::default(), Prepared::default());
        let parts = plan.parts();
        self.prepare(reader, &mut now, plan.block, parts);
        while !now.at_end {
            if progress.is_some_and(|progress| reader.progress(progress.as_ref()).is_break()) {
                return Err(stopped());
            }
            let mut prepare_next = || self.prepare(reader, &mut next, plan.block, parts);
            if parts > 1 && now.changes >= plan.threads_from {
                self.apply_in_threads(&now, prepare_next)?;
            } else {
                self.apply_in_turn(&now)?;
                prepare_next();
            }
            if let Some(e) = now.failed.take() {
                return Err(e);
            }
            // A handle that writes makes room by a checkpoint later.
            if self.pager.is_read_only() && self.pager.frames().cannot_spill() {
                return Err(self.too_many_changes());
            }
            std::mem::swap(&mut now, &mut next);
        }
        Ok(())
    }

    /// Reads the next block and decodes its records.
    fn prepare(&self, reader: &mut Reader, prepared: &mut Prepared, limits: BlockLimits, parts: usize) {
        let Prepared { block, parts: changes, .. } = prepared;
        changes.resize_with(parts, Vec::new);
        changes.iter_mut().for_each(Vec::clear);
        let read = reader.read(block, limits, WalRecord::replay_room);
        (prepared.changes, prepared.clears, prepared.failed, prepared.at_end) = (0, false, None, false);
        let of_hash = PartOfHash::new(self, parts);
        for index in 0..prepared.block.len() {
            match self.prepare_record(prepared, index, of_hash) {
                Ok(true) => {}
                Ok(false) => {
                    reader.end_before(&prepared.block, index);
                    return self.announce(prepared);
                }
                Err(e) => {
                    prepared.failed = Some(e);
                    break;
                }
            }
        }
        match read {
            Ok(true) => {}
            Ok(false) => prepared.at_end = true,
            Err(e) => prepared.failed = prepared.failed.take().or(Some(e)),
        }
        self.announce(prepared);
    }

    fn announce(&self, prepared: &mut Prepared) {
        self.pager.frames().announce(&mut prepared.frames);
        prepared.frames.clear();
    }

    /// Adds the changes of a record. Returns false, with nothing added, if its value is missing from the file.
    fn prepare_record(&self, prepared: &mut Prepared, index: usize, of_hash: PartOfHash) -> Result<bool> {
        let Prepared { block, parts, changes, clears, frames, .. } = prepared;
        let only = self.options_to_read.as_ref().and_then(|options| options.only_keys.as_deref());
        let is_wanted = |key: &[u8]| only.is_none_or(|keys| keys.contains(key));
        let (kind, body) = block.record(index);
        let bytes = block.bytes(body);
        let mut add = |block: &Block, kind: Kind, key: RecordBody, value: RecordBody| {
            if !is_wanted(block.bytes(key)) {
                return;
            }
            let hash = self.buckets.key(block.bytes(key)).hash;
            let frame = self.buckets.address(hash).number;
            if self.pager.frames().is_to_be_read(frame) {
                frames.push(frame);
            }
            parts[of_hash.part(hash)].push(Change { record: index as u32, kind, key, value });
            *changes += 1;
        };
        let add_plain = |change: WalRecord<'_>| {
            let place = |part: &[u8]| body.of_part(bytes, part);
            match change {
                WalRecord::Put { key, value } => add(&*block, Kind::Put, place(key), place(value)),
                WalRecord::Append { key, tail } => add(&*block, Kind::Append, place(key), place(tail)),
                // No table has a longer key, so such a removal changes nothing.
                WalRecord::Remove { key } if key.len() <= KEY_LEN_MAX => {
                    add(&*block, Kind::Remove, place(key), RecordBody::default());
                }
                _ => {}
            }
        };
        match WalRecord::parse(kind, bytes).ok_or_else(|| self.bad_record(kind))? {
            WalRecord::Clear => *clears = true,
            WalRecord::Batch(bytes) => {
                decode_batch(bytes).ok_or_else(|| self.bad_record(BATCH))?.for_each(add_plain);
            }
            WalRecord::PutStored { key, .. } if !is_wanted(key) => {}
            WalRecord::PutStored { key, reference } => {
                let Some(value) =
                    self.pager.values().read(decode_reference(reference), self.durability == Durability::Sync)?
                else {
                    return Ok(false);
                };
                let key = body.of_part(bytes, key);
                let value = block.keep(value);
                add(block, Kind::Put, key, value);
            }
            plain => [plain].into_iter().for_each(add_plain),
        }
        Ok(true)
    }

    /// Makes the changes of each part in its own thread, and meanwhile calls `beside` in this one.
    fn apply_in_threads(&self, now: &Prepared, beside: impl FnOnce()) -> Result<()> {
        let mut results = Vec::with_capacity(now.parts.len());
        scope(|scope| {
            let mut threads = Vec::with_capacity(now.parts.len());
            for part in &now.parts {
                let work = move || self.apply_part(&now.block, part);
                match Builder::new().name("splitpoint-replay".into()).spawn_scoped(scope, work) {
                    Ok(thread) => threads.push(thread),
                    Err(_) => results.push(work()),
                }
            }
            beside();
            results
                .extend(threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))));
        });
        self.finish_block(now, results)
    }

    fn apply_in_turn(&self, now: &Prepared) -> Result<()> {
        let results = now.parts.iter().map(|part| self.apply_part(&now.block, part)).collect();
        self.finish_block(now, results)
    }

    /// Returns the error of the first record that failed. Without one, removes all pairs if that comes next.
    fn finish_block(&self, now: &Prepared, results: Vec<std::result::Result<(), Failed>>) -> Result<()> {
        let failed = results.into_iter().filter_map(std::result::Result::err);
        if let Some(Failed { error, .. }) = failed.min_by_key(|failed| failed.record) {
            return Err(error);
        }
        if now.clears { self.clear() } else { Ok(()) }
    }

    /// Makes the changes in order, up to the first error.
    fn apply_part(&self, block: &Block, part: &[Change]) -> std::result::Result<(), Failed> {
        let mut done = 0;
        let changes: Vec<WalRecord<'_>> = part.iter().map(|change| change.of(block)).collect();
        self.write_many_unsynced(part.len(), |index| changes[index], |_| usize::MAX, |_, _| done += 1, &mut 0)
            .map_err(|error| Failed { record: part[done].record, error })
    }

    #[cold]
    fn too_many_changes(&self) -> Error {
        let path = self.pager.path().display();
        let what = "the changes in the log need more memory than the cache has, and no temporary file could be written";
        Error::new(ErrorKind::OutOfMemory, format!("{path}: {what}"))
            .with_hint("Make room where temporary files go, allow a larger cache, or read the last checkpoint alone.")
    }

    fn bad_record(&self, kind: u8) -> Error {
        let path = self.pager.path().display();
        Error::corrupt(format!("{path}: the log has a malformed record of kind {kind}, though its checksum matches"))
            .with_hint("Open the table with the version that wrote it.")
    }
}

/// A change that could not be made.
struct Failed {
    record: u32,
    error: Error,
}

/// Assigns hashes to the parts of a block.
#[derive(Clone, Copy)]
struct PartOfHash {
    shift: u32,
    mask: usize,
}

impl PartOfHash {
    fn new(table: &Table, parts: usize) -> PartOfHash {
        // The low bits of a hash name its bucket. Buckets in one frame differ in the lowest bits, so these are skipped:
        // then two parts seldom change the same frame. The highest bits are not used by every bucket yet.
        const SHIFT_MAX: u32 = 12;
        let generation = table.buckets.view().linear().generation();
        PartOfHash { shift: generation.saturating_sub(3).min(SHIFT_MAX), mask: parts - 1 }
    }

    #[inline]
    fn part(self, hash: u64) -> usize {
        (hash >> self.shift) as usize & self.mask
    }
}

impl Change {
    #[inline]
    fn of<'b>(&self, block: &'b Block) -> WalRecord<'b> {
        let (key, value) = (block.bytes(self.key), block.bytes(self.value));
        match self.kind {
            Kind::Put => WalRecord::Put { key, value },
            Kind::Append => WalRecord::Append { key, tail: value },
            Kind::Remove => WalRecord::Remove { key },
        }
    }
}
