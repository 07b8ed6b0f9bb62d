//! The write-ahead log: the changes since the last checkpoint, in the order of recovery.
//!
//! ```text
//! reserve     takes room for a record before anything changes: a full disk or log is reported here
//! append      under the latch of the page that the record changes: places the record in the log
//! sync_to     makes the log durable up to a position: one thread syncs for all that wait
//! switch      begins a segment when a checkpoint begins: later records go there
//! release     frees the earlier segments when that checkpoint is complete
//! ```
//!
//! A record is a kind and some bytes; the log interprets neither. Each checksum covers the one before, so a replay
//! takes records in order, without a gap, and stops at the first incomplete one. Long records are cut into pieces; such
//! a record counts once its last piece is written.
//!
//! There are two ways to write. For [`Safety::Process`] each record is stored in a mapping of the file, which the
//! kernel keeps when the process dies. For [`Safety::Disk`] records collect in memory until a thread syncs, which
//! writes them with one call.
//!
//! Cost per record: two atomic additions, a lock, a checksum and a copy; docs/benchmarks.md, "Durability".
//! Source: Mohan et al. 1992 for the write-ahead log, without its page-wise redo; group commit after DeWitt et al.
//! 1984.
//! Not here: the meaning of records (`table/wal_record.rs`), checkpoints (`checkpoint/`), a segment's file
//! (`segment.rs`), how one thread places the records of many (`combine.rs`), how other processes read it (`follow.rs`).

mod combine;
mod follow;
mod preallocate;
mod replay;
mod segment;
mod short;

use crate::checksum::{crc32c, crc32c_append, crc32c_of_word};
use crate::error::{Error, ErrorKind, Result};
use crate::events::warn_if_slow;
use crate::io::{File, Mode, Storage, spare_mapping_bytes};
use crate::own_line::OwnLine;
use crate::pager::file::names::refuse_if_moved;
use crate::pager::file::random::random_u64;
use crate::pager::interleave::{step, task, until_free, wait_on};
use combine::Combiner;
pub(crate) use follow::Ahead;
use preallocate::Preallocator;
use replay::Replayed;
pub(crate) use replay::{Block, BlockLimits, Reader, RecordBody};
use segment::{End, RECORDS_START, SLOT_COUNT, Segment, SegmentHeader, Shape, names_another, open_slot, slot_path};
use short::SHORT_BODY_BYTES;
pub(crate) use short::Short;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of a record before its body: checksum, length and kind.
const RECORD_HEADER_BYTES: usize = 8;
/// Longest body of one record; a longer one is cut into pieces. On disk: a replay refuses a longer body.
const BODY_BYTES_MAX: usize = 1 << 16;
/// Kind of a record that holds a piece of a longer one. On disk.
const PIECE: u8 = 0x7F;
/// Kind of the record before the first one that a later process adds to a segment. On disk.
const RESUMED: u8 = 0x7E;
/// Set in the kind of a record whose body is in the preceding pieces. On disk.
const IN_PIECES: u8 = 0x80;
/// Bytes of a piece before its content: the number of the record it belongs to.
const PIECE_HEADER_BYTES: usize = 4;

/// The failures that a write survives once it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// The end of the process.
    Process,
    /// A power loss.
    Disk,
}

/// A position in the log: bytes since the table was opened.
pub(crate) type Lsn = u64;

/// The log of one table that is open for writing.
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    table: PathBuf,
    /// The table's file. It must still have its name whenever a file of the log is created, found or removed by that
    /// name.
    file: Arc<dyn File>,
    table_id: u64,
    /// `None`: nothing is logged, but the records of an earlier process still count.
    safety: Option<Safety>,
    /// Bytes of a segment, or `None` if they follow the size of the table.
    fixed_segment_bytes: Option<u64>,
    /// Bytes of the next segment.
    segment_bytes: AtomicU64,
    /// Bytes of the current segment that are written or reserved.
    reserved: OwnLine<AtomicU64>,
    /// Bytes of the current segment that can be written without checking `ahead`.
    ready: AtomicU64,
    tail: OwnLine<Mutex<Tail>>,
    combiner: Combiner,
    /// The thread that makes bytes ready. Its lock is taken before `tail`.
    ahead: Preallocator,
    durable: Mutex<Durable>,
    synced: Condvar,
}

/// Where the next record goes. The fields are in this order so that those a record needs share one cache line with the
/// lock: a line that another processor has changed takes as long to load as one from memory.
#[repr(C)]
struct Tail {
    /// `None` until the first record after an open or a checkpoint without a log.
    segment: Option<Arc<Segment>>,
    offset: u64,
    chain: u32,
    /// Bytes not yet written; they end at `offset`.
    pending: Vec<u8>,
    /// Earlier segments that are not yet synced, each with its pending bytes and its end.
    unsynced: Vec<(Arc<Segment>, Vec<u8>, u64)>,
    /// Segments that recovery would need, including the current one.
    needed: Vec<NeededSegment>,
    /// The last replayed segment, until it is continued.
    resume: Option<(SegmentHeader, u8)>,
    /// Replayed segments that may never have been synced: slot and end.
    replayed: Vec<(u8, u64)>,
    /// The last complete checkpoint.
    base: u64,
    /// The highest number of any checkpoint or segment.
    number: u64,
    /// The number of a checkpoint that began while there was no segment. The next segment gets this number.
    next: Option<u64>,
    /// Position of the end of the last segment.
    end: Lsn,
    pieces: u32,
    /// No record follows the next checkpoint.
    closing: bool,
}

/// A segment with records that no complete checkpoint contains.
#[derive(Clone, Copy)]
struct NeededSegment {
    slot: u8,
    number: u64,
    /// Maximum length of its file in bytes.
    capacity: u64,
}

/// The number of segments used in turn. More exist only after crashes and during a backup.
const KEPT_SLOTS: u8 = 2;

/// The length of a segment of the log of a table of `table_bytes`: half of that.
///
/// A checkpoint writes every frame that has changed, which is nearly all of them if random keys are written to a table
/// larger than the log. So the log grows with the table: a byte of log costs a bounded number of bytes of checkpoint.
fn segment_bytes_for(table_bytes: u64) -> u64 {
    const SEGMENT_BYTES_MIN: u64 = 128 << 20;
    (table_bytes / 2).max(SEGMENT_BYTES_MIN).min(mapped_bytes_max())
}

/// A longer segment could not be mapped, where address space is scarce.
fn mapped_bytes_max() -> u64 {
    const WORTHWHILE_BYTES: u64 = 4 << 20;
    spare_mapping_bytes().max(WORTHWHILE_BYTES)
}

/// A segment does not grow beyond this: its addresses are reserved when it begins.
const GROWN_BYTES_MAX: u64 = 16 << 30;

impl Tail {
    /// Places a short record at the end. Returns the position of its end.
    #[inline]
    fn place(&mut self, Short { record, len, own }: &mut Short) -> Result<Lsn> {
        let segment = self.segment.as_ref().expect("there is a segment before there is room in it");
        let chain = chained(self.chain, *own);
        record[..4].copy_from_slice(&chain.to_le_bytes());
        segment.store_one(&record[..*len], self.offset)?;
        self.chain = chain;
        self.offset += *len as u64;
        Ok(segment.start + self.offset)
    }

    fn free_slots(&self) -> impl Iterator<Item = u8> + use<> {
        let needed: Vec<u8> = self.needed.iter().map(|segment| segment.slot).collect();
        (0..SLOT_COUNT).filter(move |slot| !needed.contains(slot))
    }

    /// Whether the next record must wait for a checkpoint to free slots. That is so if interrupted checkpoints left
    /// more replayed segments than are used in turn, or if the last segment has ended and no other could begin. So the
    /// log stays short however often a process is killed.
    fn is_crowded(&self) -> bool {
        let ended = self.resume.is_none() && !self.needed.is_empty();
        self.segment.is_none() && (ended || self.needed.len() > usize::from(KEPT_SLOTS))
    }
}

struct Durable {
    lsn: Lsn,
    /// Whether a thread is currently syncing.
    leading: bool,
    /// Threads that wait for a sync or are making one.
    waiting: u32,
    /// Threads that the last sync served.
    group: u32,
    /// Duration of the last sync.
    took: Duration,
    failed: Option<String>,
}

/// A reservation of `bytes` bytes in the current segment.
pub(crate) struct Room<'a> {
    log: &'a Log,
    bytes: u64,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.log.reserved.fetch_sub(self.bytes, Relaxed);
        }
    }
}

impl Room<'_> {
    /// Places a record in the log. Its body is the parts of `body`, concatenated. Returns the position of its end.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the change that the record describes must not stay, and the log takes no more records.
    #[inline]
    pub(crate) fn append(&mut self, kind: u8, body: &[&[u8]]) -> Result<Lsn> {
        let bytes: usize = body.iter().map(|part| part.len()).sum();
        if bytes > BODY_BYTES_MAX {
            return self.append_pieces(kind, body);
        }
        if let Some(short) = self.put_together(kind, body, &mut Short::new()) {
            return self.append_short(short);
        }
        self.take(RECORD_HEADER_BYTES + bytes);
        self.log.append_one(kind, body, bytes)
    }

    /// Assembles a record to be placed later: this part of the work makes no other writer wait. Returns `None` for a
    /// long record, or if records collect in memory.
    #[inline(always)]
    pub(crate) fn put_together<'s>(&self, kind: u8, body: &[&[u8]], short: &'s mut Short) -> Option<&'s mut Short> {
        let bytes: usize = body.iter().map(|part| part.len()).sum();
        if bytes > SHORT_BODY_BYTES || self.log.waits() {
            return None;
        }
        short.assemble(Head::word(kind, bytes), body);
        Some(short)
    }

    /// [`append`](Self::append) for an assembled record: one store.
    #[inline]
    pub(crate) fn append_short(&mut self, short: &mut Short) -> Result<Lsn> {
        self.take(short.len);
        if self.log.combiner.is_idle()
            && let Ok(mut tail) = self.log.tail.try_lock()
        {
            step(); // others find the end in use
            return tail.place(short);
        }
        self.log.place_beside_others(short)
    }

    /// Appends a long record: other records may come between its pieces, and no thread waits for more than one piece.
    fn append_pieces(&mut self, kind: u8, body: &[&[u8]]) -> Result<Lsn> {
        let number = self.begin_pieces();
        self.append_part(number, body)?;
        self.end_pieces(kind, number)
    }

    /// Begins a long record, whose parts may be appended while changes are being made. Without
    /// [`end_pieces`](Self::end_pieces) they do not count.
    pub(crate) fn begin_pieces(&self) -> PiecesNumber {
        let mut tail = self.log.tail();
        tail.pieces = tail.pieces.wrapping_add(1);
        PiecesNumber(tail.pieces.to_le_bytes())
    }

    /// Appends a part of a long record in pieces.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(crate) fn append_part(&mut self, PiecesNumber(number): PiecesNumber, part: &[&[u8]]) -> Result<LoggedPart> {
        let mut rest = part.to_vec();
        let mut logged = LoggedPart { pieces: Vec::new() };
        loop {
            // The next piece: bytes of the body up to the length of a piece.
            let mut piece: Vec<&[u8]> = vec![&number];
            let mut left = PIECE_BYTES;
            while left > 0
                && let Some(first) = rest.first_mut()
            {
                let (now, later) = first.split_at(left.min(first.len()));
                piece.push(now);
                left -= now.len();
                if later.is_empty() {
                    rest.remove(0);
                } else {
                    *first = later;
                }
            }
            if piece.len() == 1 {
                return Ok(logged);
            }
            let bytes = BODY_BYTES_MAX - left;
            self.take(RECORD_HEADER_BYTES + bytes);
            let (segment, end) = self.log.append_piece(&piece, bytes)?;
            let content = PIECE_BYTES - left;
            logged.pieces.push((segment, end - content as u64, content));
        }
    }

    /// Ends a long record: from here on it counts.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(crate) fn end_pieces(&mut self, kind: u8, PiecesNumber(number): PiecesNumber) -> Result<Lsn> {
        self.take(RECORD_HEADER_BYTES + PIECE_HEADER_BYTES);
        self.log.append_one(kind | IN_PIECES, &[&number], PIECE_HEADER_BYTES)
    }

    fn take(&mut self, bytes: usize) {
        self.bytes = self.bytes.checked_sub(bytes as u64).expect("no record is longer than the room reserved for it");
    }
}

/// The number that the pieces of a long record share.
#[derive(Clone, Copy)]
pub(crate) struct PiecesNumber([u8; PIECE_HEADER_BYTES]);

/// The location of a part of a long record in the log.
pub(crate) struct LoggedPart {
    /// For each piece the segment, where its content begins, and the length of that.
    pieces: Vec<(Arc<Segment>, u64, usize)>,
}

impl LoggedPart {
    /// Reads the part. The segments must still be needed.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.pieces.iter().map(|piece| piece.2).sum()];
        let mut rest = &mut bytes[..];
        for (segment, at, len) in &self.pieces {
            segment.read(rest.split_off_mut(..*len).expect("room for all"), *at)?;
        }
        Ok(bytes)
    }
}

/// Bytes that a record with a body of `body` bytes takes, with all pieces.
pub(crate) fn record_bytes(body: usize) -> u64 {
    if body <= BODY_BYTES_MAX {
        return (RECORD_HEADER_BYTES + body) as u64;
    }
    pieces_bytes([body])
}

/// Bytes that a long record takes whose parts have these lengths.
pub(crate) fn pieces_bytes(parts: impl IntoIterator<Item = usize>) -> u64 {
    const PIECE_EXTRA: usize = RECORD_HEADER_BYTES + PIECE_HEADER_BYTES;
    let parts = parts.into_iter().map(|part| part.div_ceil(PIECE_BYTES) * PIECE_EXTRA + part);
    (parts.sum::<usize>() + PIECE_EXTRA) as u64
}

/// Bytes of the record with which a process continues a segment.
const RESUMED_BYTES: u64 = (RECORD_HEADER_BYTES + size_of::<u64>()) as u64;
/// Pending bytes beyond this are written without waiting for the next sync.
const PENDING_BYTES_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// Room for a longer record is made ready without the pages of the mapping, since pieces are not stored there.
const MAPPED_BYTES_MAX: u64 = if cfg!(test) { 1 << 16 } else { 1 << 20 };
/// Zeros end at a multiple of this, so that the next ones do not change the same page of the system's cache.
const PAGE_BYTES: u64 = 4096;
/// Bytes of content in a piece.
const PIECE_BYTES: usize = BODY_BYTES_MAX - PIECE_HEADER_BYTES;

impl Log {
    /// The log of the table at `path`, whose last checkpoint has the number `sequence`. Nothing is written before the
    /// first record.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        path: &Path,
        file: Arc<dyn File>,
        table_id: u64,
        sequence: u64,
        safety: Option<Safety>,
        log_bytes: Option<u64>,
    ) -> Log {
        // A smaller segment would hold hardly any record.
        const SEGMENT_BYTES_MIN: u64 = RECORDS_START + (1 << 16);
        let fixed_segment_bytes = log_bytes.map(|bytes| (bytes / u64::from(KEPT_SLOTS)).max(SEGMENT_BYTES_MIN));
        Log {
            storage,
            table: path.to_path_buf(),
            file,
            table_id,
            safety,
            fixed_segment_bytes,
            segment_bytes: AtomicU64::new(fixed_segment_bytes.unwrap_or(segment_bytes_for(0))),
            reserved: OwnLine(AtomicU64::new(RECORDS_START)),
            ready: AtomicU64::new(0),
            tail: OwnLine(Mutex::new(Tail {
                segment: None,
                offset: RECORDS_START,
                chain: 0,
                pending: Vec::new(),
                unsynced: Vec::new(),
                needed: Vec::new(),
                resume: None,
                replayed: Vec::new(),
                base: sequence,
                number: sequence,
                next: None,
                end: 0,
                pieces: 0,
                closing: false,
            })),
            combiner: Combiner::default(),
            ahead: Preallocator::new(),
            durable: Mutex::new(Durable {
                waiting: 0,
                group: 1,
                took: Duration::ZERO,
                lsn: 0,
                leading: false,
                failed: None,
            }),
            synced: Condvar::new(),
        }
    }

    /// Bytes of the next segment.
    #[inline]
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Relaxed)
    }

    /// Sets the length of later segments for a table of `table_bytes`, unless the user has set it.
    pub(super) fn follow(&self, table_bytes: u64) {
        if self.fixed_segment_bytes.is_none() {
            self.segment_bytes.store(segment_bytes_for(table_bytes), Relaxed);
        }
    }

    /// Lets the current segment grow with the table, which now has `table_bytes`, unless the user has set its length.
    /// If a table doubles while one segment fills, this halves the number of checkpoints.
    pub(super) fn grow(&self, table_bytes: u64) {
        self.follow(table_bytes);
        let mut tail = self.tail();
        let Some(segment) = tail.segment.clone() else { return };
        // Only by a large step, so that this is rare.
        let capacity = segment.capacity();
        if self.fixed_segment_bytes.is_none() && self.segment_bytes() >= capacity + capacity / 8 {
            let grown = segment.grow(self.segment_bytes());
            tail.needed.last_mut().expect("the current segment is needed").capacity = grown;
        }
    }

    /// A reader of the records since the checkpoint.
    pub(crate) fn reader(&self) -> Result<Reader> {
        Reader::new(self.storage.as_ref(), &self.table, self.table_id, self.tail().base)
    }

    /// Continues the log after the last record. `reader` must have read to the end. Returns the number of records that
    /// it read.
    pub(crate) fn continue_after(&self, reader: Reader) -> Result<u64> {
        let mut tail = self.tail();
        let Replayed { last, needed, ends, number, records } = reader.replayed();
        tail.number = number.max(tail.base);
        tail.replayed = ends;
        tail.needed = needed
            .into_iter()
            .zip(&tail.replayed)
            .map(|((slot, number), &(_, end))| NeededSegment { slot, number, capacity: end })
            .collect();
        if let Some((header, slot, end)) = last {
            // The next record goes here, although nothing is written yet.
            tail.resume = Some((header, slot));
            tail.offset = end.offset;
            tail.chain = end.chain;
            tail.end = 1; // beyond the durable position
            self.reserved.store(end.offset, Relaxed);
        }
        drop(tail);
        // Callers that rely on the disk must not see records that may not be on it.
        if self.waits() {
            self.sync()?;
        }
        Ok(records)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // Nothing panics under this lock except on a broken invariant of ours.
        step();
        until_free(&self.tail);
        self.tail.lock().expect("no panic while held")
    }

    /// Whether anything is logged.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.safety.is_some()
    }

    /// Whether a write must wait for the disk.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.safety == Some(Safety::Disk)
    }

    /// Reserves room for a record of `bytes`, see [`record_bytes`]. Returns `None` if the segment is full: a checkpoint
    /// is due.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`] and [`ErrorKind::Io`]; nothing has changed.
    #[inline]
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Option<Room<'_>>> {
        let sum = self.reserved.fetch_add(bytes, Relaxed) + bytes;
        let room = Room { log: self, bytes };
        if sum <= self.ready.load(Acquire) { Ok(Some(room)) } else { self.reserve_slow(sum, room) }
    }

    #[cold]
    fn reserve_slow<'a>(&'a self, sum: u64, room: Room<'a>) -> Result<Option<Room<'a>>> {
        // The bytes that writers may use before they check `ahead`, which moves on, again.
        const READY_BYTES: u64 = 1 << 20;
        let prepared = self.ahead.prepared();
        if sum <= prepared {
            self.ready.fetch_max(prepared.min(sum + READY_BYTES), AcqRel);
            self.ahead.follow(sum);
            return Ok(Some(room));
        }
        let mut current = self.ahead.segment();
        let prepared = self.ahead.prepared();
        if sum <= prepared {
            self.ready.fetch_max(prepared, AcqRel);
            return Ok(Some(room));
        }
        let (segment, offset) = {
            let mut tail = self.tail();
            let segment = match tail.segment.clone() {
                Some(segment) => Some(segment),
                None => self.first_segment(&mut tail, sum - RECORDS_START)?,
            };
            let Some(segment) = segment else { return Ok(None) };
            (segment, tail.offset)
        };
        let sum = self.reserved.load(Relaxed);
        if sum > segment.capacity() {
            return Ok(None);
        }
        if room.bytes > MAPPED_BYTES_MAX {
            segment.prepare_for_calls(prepared.max(offset), sum)?;
            *current = Some(segment);
            self.ahead.set_prepared(&mut current, sum);
            self.ready.store(sum, Release);
            return Ok(Some(room));
        }
        // Large enough that this is rare; small enough that a thread does not wait long, and that a short log stays
        // short.
        let more: u64 = match task() {
            // A new segment begins with little: the first put in it waits for the zeros, and for the disk to have them.
            _ if self.waits() => sum.clamp(1 << 16, 1 << 20),
            None => (sum / 16).clamp(1 << 16, 1 << 18),
            Some(_) => 1 << 12, // in a model of threads the segments are as short
        };
        let to = ((sum + more) / PAGE_BYTES * PAGE_BYTES).min(segment.capacity());
        segment.prepare(prepared.max(offset), to)?;
        *current = Some(segment);
        self.ahead.set_prepared(&mut current, to);
        self.ready.store(to, Release);
        drop(current);
        if !self.waits() {
            self.ahead.follow(sum);
        }
        Ok(Some(room))
    }

    /// The segment for the first record since an open or a checkpoint: the last replayed one, or a new one. `None` if
    /// the replayed one has no room for `bytes`, or if a checkpoint must free a slot first.
    fn first_segment(&self, tail: &mut Tail, bytes: u64) -> Result<Option<Arc<Segment>>> {
        if tail.is_crowded() {
            return Ok(None);
        }
        let Some((header, slot)) = tail.resume else {
            let number = tail.next.unwrap_or(tail.number + 1);
            let before = End { number: tail.base, ..End::default() };
            let segment = self.begin(tail, number, before, bytes)?.ok_or_else(|| self.slots_of_others())?;
            tail.next = None;
            return Ok(Some(segment));
        };
        let capacity = self.segment_bytes().max(tail.offset);
        if RECORDS_START + bytes + RESUMED_BYTES > capacity {
            return Ok(None);
        }
        let shape = self.shape(slot, capacity, tail.end);
        self.refuse_if_moved()?;
        let segment = Arc::new(Segment::resume(self.storage.as_ref(), &self.table, header, shape)?);
        // Bytes after the end may be complete records from before the crash. They would become valid again if the
        // record before them were written a second time with the same bytes. So the first new record is one that was
        // never written before.
        self.resumed(tail, segment.as_ref())?;
        tail.segment = Some(segment.clone());
        tail.resume = None;
        Ok(Some(segment))
    }

    fn resumed(&self, tail: &mut Tail, segment: &Segment) -> Result<()> {
        let body = random_u64().to_le_bytes();
        segment.prepare(tail.offset, tail.offset + RESUMED_BYTES)?;
        let (head, chain) = Head::new(RESUMED, &[&body]).after(tail.chain);
        // If a crash cuts this record, it is incomplete, and nothing after it counts.
        segment.store(&[&head, &body], tail.offset)?;
        tail.chain = chain;
        tail.offset += RESUMED_BYTES;
        self.reserved.fetch_add(RESUMED_BYTES, Relaxed);
        Ok(())
    }

    fn shape(&self, slot: u8, capacity: u64, start: Lsn) -> Shape {
        let grown = if self.fixed_segment_bytes.is_some() {
            0
        } else {
            capacity.saturating_mul(2).min(GROWN_BYTES_MAX).min(mapped_bytes_max())
        };
        Shape { slot, capacity, capacity_max: grown.max(capacity), start, mapped: !self.waits() }
    }

    /// Begins a segment with room for `bytes` in a free slot; `None` if this or another table needs every slot.
    fn begin(&self, tail: &mut Tail, number: u64, before: End, bytes: u64) -> Result<Option<Arc<Segment>>> {
        self.refuse_if_moved()?;
        let header = SegmentHeader { table_id: self.table_id, number, before, salt: random_u64() };
        let capacity = self.segment_bytes().max(RECORDS_START + bytes);
        for slot in tail.free_slots() {
            let shape = self.shape(slot, capacity, tail.end);
            let begun = Segment::begin(self.storage.as_ref(), &self.table, self.file.as_ref(), header, shape)?;
            let Some(segment) = begun.map(Arc::new) else { continue };
            tail.needed.push(NeededSegment { slot, number, capacity });
            tail.number = number;
            tail.segment = Some(segment.clone());
            tail.offset = RECORDS_START;
            tail.chain = header.chain();
            return Ok(Some(segment));
        }
        Ok(None)
    }

    /// Fails if the name of the table is so long that its segments can have none.
    pub(super) fn refuse_long_name(&self) -> Result<()> {
        let path = slot_path(&self.table, 0);
        match self.storage.open(&path, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::InvalidFilename => {
                Err(Error::io(&path, "create the log segment", e))
            }
            _ => Ok(()),
        }
    }

    /// The error for a table that has no segment and can begin none.
    fn slots_of_others(&self) -> Error {
        let table = self.table.display();
        let what = format!("{table}: another table that was open by this name still uses {table}-log0 to -log7");
        Error::new(ErrorKind::Locked, what).with_hint("Close that table, or remove the log's files if it is gone.")
    }

    /// Begins another segment while a backup prevents checkpoints. Returns false if the log has reached its limit. Each
    /// such segment is twice as long as the one before, so that the few slots last long. The caller keeps writers out.
    ///
    /// # Errors
    /// The errors of [`switch`](Self::switch).
    pub(crate) fn extend(&self, bytes: u64) -> Result<bool> {
        // The checkpoint after the backup also needs a slot.
        const SPARE_SLOTS: usize = 1;
        let (used, capacity) = {
            let tail = self.tail();
            (tail.needed.len(), tail.segment.as_ref().map_or(self.segment_bytes(), |s| s.capacity()))
        };
        if used + SPARE_SLOTS >= usize::from(SLOT_COUNT) {
            return Ok(false);
        }
        self.switch(bytes.max(2 * capacity))?;
        Ok(!self.tail().is_crowded())
    }

    /// Whether the current segment has room for a record of `bytes`.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let tail = self.tail();
        let capacity = tail.segment.as_ref().map_or(self.segment_bytes(), |s| s.capacity());
        !tail.is_crowded() && self.reserved.load(Relaxed) + bytes + RESUMED_BYTES <= capacity
    }

    /// Ends the current segment: later records go to the next one, which has room for a record of `bytes`. The caller
    /// keeps writers out. Returns the number for a checkpoint of the current state.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`] and [`ErrorKind::Io`]; nothing has changed.
    pub(crate) fn switch(&self, bytes: u64) -> Result<u64> {
        let mut current = self.ahead.segment();
        let mut tail = self.tail();
        // Every reservation was used or returned, since a writer leaves the gate only after that.
        let reserved_beyond = || self.reserved.load(Relaxed) - tail.offset;
        debug_assert!(
            tail.segment.is_none() || reserved_beyond() == 0,
            "{} bytes of the log are reserved",
            reserved_beyond()
        );
        let number = tail.number + 1;
        let old = tail.segment.clone();
        let header = old.as_ref().map(|s| s.header).or(tail.resume.map(|(header, _)| header));
        let Some(header) = header.filter(|_| self.is_on()) else {
            // There is no segment to continue.
            tail.number = number;
            tail.next = Some(number);
            tail.resume = None;
            self.reserved.store(RECORDS_START, Relaxed);
            return Ok(number);
        };
        let (offset, chain, end) = (tail.offset, tail.chain, tail.end);
        tail.end += offset;
        let before = End { number: header.number, offset, chain };
        let begun = if tail.closing { Ok(None) } else { self.begin(&mut tail, number, before, bytes) };
        match begun {
            Ok(Some(_)) => {}
            // This checkpoint begins no segment. If interrupted checkpoints or another table's log have taken every
            // slot, writers wait until it has freed one.
            Ok(None) => {
                tail.number = number;
                tail.segment = None;
            }
            Err(e) => {
                tail.end = end;
                return Err(e);
            }
        }
        tail.resume = None;
        if let Some(old) = old {
            let pending = std::mem::take(&mut tail.pending);
            tail.unsynced.push((old, pending, offset));
        }
        self.reserved.store(RECORDS_START, Relaxed);
        self.ready.store(0, Release);
        *current = None;
        self.ahead.set_prepared(&mut current, 0);
        Ok(number)
    }

    /// Frees the segments before checkpoint `number`, which is complete. Called by one thread at a time.
    pub(super) fn release(&self, number: u64) -> Result<()> {
        let free = self.forget_before(number);
        // Without the lock, since removing a long file takes as long as thousands of writes. And before the slots are
        // free: a free slot may be written to at once.
        for segment in free {
            if segment.slot >= KEPT_SLOTS || segment.capacity > self.segment_bytes() {
                self.remove(segment.slot)?;
            }
        }
        self.tail().needed.retain(|segment| segment.number >= number);
        Ok(())
    }

    /// Notes that checkpoint `number` contains the records of the segments before it. Returns these segments, whose
    /// slots are not free yet.
    fn forget_before(&self, number: u64) -> Vec<NeededSegment> {
        // A thread that is syncing may be about to write to one of them.
        let mut durable = self.durable();
        while durable.leading {
            durable = wait_on(&self.synced, &self.durable, durable);
        }
        let mut tail = self.tail();
        tail.base = number;
        tail.next = tail.next.filter(|&next| next > number);
        tail.unsynced.retain(|(segment, ..)| segment.header.number >= number);
        let (free, needed): (Vec<NeededSegment>, Vec<_>) = tail.needed.iter().partition(|s| s.number < number);
        tail.replayed.retain(|(slot, _)| needed.iter().any(|s| s.slot == *slot));
        free
    }

    fn refuse_if_moved(&self) -> Result<()> {
        refuse_if_moved(self.file.as_ref(), &self.table)
    }

    fn remove(&self, slot: u8) -> Result<()> {
        self.refuse_if_moved()?;
        let path = slot_path(&self.table, slot);
        self.storage.remove(&path).map_err(|e| Error::io(&path, "remove the log segment", e))
    }

    /// The next checkpoint is the last: no record follows it.
    pub(crate) fn begin_closing(&self) {
        self.tail().closing = true;
    }

    /// Removes the log's files: a checkpoint contains all their records. The files of other tables stay.
    pub(crate) fn close(&self) -> Result<()> {
        *self.ahead.segment() = None;
        let mut tail = self.tail();
        tail.segment = None;
        tail.unsynced.clear();
        tail.needed.clear();
        self.refuse_if_moved()?;
        (0..SLOT_COUNT).try_for_each(|slot| {
            let own = segment::is_own(self.storage.as_ref(), &slot_path(&self.table, slot), self.table_id)?;
            if own { self.remove(slot) } else { Ok(()) }
        })
    }

    #[inline(never)]
    fn append_one(&self, kind: u8, body: &[&[u8]], bytes: usize) -> Result<Lsn> {
        let head = Head::new(kind, body);
        let mut tail = self.tail();
        let tail = &mut *tail;
        let segment = tail.segment.as_ref().expect("there is a segment before there is room in it");
        let (head, chain) = head.after(tail.chain);
        if self.waits() {
            // Before the record is added: after an error the pending bytes must still end at `offset`, for the thread
            // that syncs them.
            if tail.pending.len() > PENDING_BYTES_MAX {
                segment.write_pending(&tail.pending, tail.offset)?;
                tail.pending.clear();
            }
            tail.pending.extend_from_slice(&head);
            body.iter().for_each(|part| tail.pending.extend_from_slice(part));
        } else {
            let mut at = tail.offset;
            match body {
                [one] => segment.store(&[&head, one], at)?,
                [one, two] => segment.store(&[&head, one, two], at)?,
                [one, two, three] => segment.store(&[&head, one, two, three], at)?,
                more => {
                    segment.store(&[&head], at)?;
                    at += RECORD_HEADER_BYTES as u64;
                    segment.store(more, at)?;
                }
            }
        }
        tail.chain = chain;
        tail.offset += (RECORD_HEADER_BYTES + bytes) as u64;
        Ok(segment.start + tail.offset)
    }

    /// Appends a piece by a system call: long records would fill the mapping's pages, which count as the process's
    /// memory. Returns the segment and the end of the piece in it.
    fn append_piece(&self, body: &[&[u8]], bytes: usize) -> Result<(Arc<Segment>, u64)> {
        let mut record = Vec::with_capacity(RECORD_HEADER_BYTES + bytes);
        let head = Head::new(PIECE, body);
        record.resize(RECORD_HEADER_BYTES, 0);
        body.iter().for_each(|part| record.extend_from_slice(part));
        let mut tail = self.tail();
        let tail = &mut *tail;
        let segment = tail.segment.as_ref().expect("there is a segment before there is room in it");
        let (head, chain) = head.after(tail.chain);
        record[..RECORD_HEADER_BYTES].copy_from_slice(&head);
        if !tail.pending.is_empty() {
            segment.write_pending(&tail.pending, tail.offset)?;
            tail.pending.clear();
        }
        let end = tail.offset + record.len() as u64;
        segment.write_pending(&record, end)?;
        (tail.chain, tail.offset) = (chain, end);
        Ok((segment.clone(), end))
    }

    /// Makes everything up to `lsn` durable, or waits for another thread that does.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the state of the disk is unknown, and the log takes no more records.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<()> {
        let mut durable = self.durable();
        durable.waiting += 1;
        let outcome = loop {
            if durable.lsn >= lsn {
                break Ok(());
            }
            if let Some(what) = &durable.failed {
                break Err(failed_before(what));
            }
            if durable.leading {
                durable = wait_on(&self.synced, &self.durable, durable);
                continue;
            }
            durable.leading = true;
            let start = Instant::now();
            durable = self.gather(durable);
            let group = durable.waiting;
            drop(durable);
            let synced = self.sync_all();
            durable = self.durable();
            durable.leading = false;
            (durable.group, durable.took) = (group, start.elapsed());
            warn_if_slow(start, || format!("{}: synced the log for {group} threads", self.table.display()));
            match synced {
                Ok(synced) => durable.lsn = durable.lsn.max(synced),
                Err(e) => durable.failed = Some(e.message().to_owned()),
            }
            self.synced.notify_all();
        };
        durable.waiting -= 1;
        outcome
    }

    /// Writes everything up to `lsn` to the files, where it survives the end of the process. Waits for a thread that is
    /// syncing, which may have taken the pending bytes.
    ///
    /// # Errors
    /// The errors of [`sync_to`](Self::sync_to).
    pub(crate) fn write_to(&self, lsn: Lsn) -> Result<()> {
        let mut durable = self.durable();
        while durable.leading && durable.lsn < lsn {
            durable = wait_on(&self.synced, &self.durable, durable);
        }
        if durable.lsn >= lsn {
            return Ok(());
        }
        if let Some(what) = &durable.failed {
            return Err(failed_before(what));
        }
        // No thread begins to sync while `durable` is locked.
        let mut tail = self.tail();
        let tail = &mut *tail;
        let current = tail.segment.as_ref().map(|segment| (segment, &mut tail.pending, tail.offset));
        let unsynced = tail.unsynced.iter_mut().map(|(segment, pending, offset)| (&*segment, pending, *offset));
        for (segment, pending, offset) in unsynced.chain(current) {
            if !pending.is_empty() {
                segment.write_pending(pending, offset)?;
                pending.clear();
            }
        }
        Ok(())
    }

    /// The position up to which syncs have made the log durable, and whether a sync is running.
    pub(super) fn sync_progress(&self) -> (Lsn, bool) {
        let durable = self.durable();
        (durable.lsn, durable.leading)
    }

    fn durable(&self) -> MutexGuard<'_, Durable> {
        until_free(&self.durable);
        self.durable.lock().expect("no panic while held")
    }

    /// Waits briefly for the threads that the last sync served: it has just woken them, and they are likely to come
    /// soon. A single thread does not wait.
    fn gather<'a>(&'a self, mut durable: MutexGuard<'a, Durable>) -> MutexGuard<'a, Durable> {
        if task().is_some() {
            return durable; // in a model of threads nothing may depend on time
        }
        // A fraction of the duration of a sync, so that little is lost if they do not come.
        let until = Instant::now() + durable.took / 4;
        while durable.waiting < durable.group && Instant::now() < until {
            drop(durable);
            std::thread::yield_now();
            durable = self.durable();
        }
        durable
    }

    /// Makes all records so far durable.
    ///
    /// # Errors
    /// The errors of [`sync_to`](Self::sync_to).
    pub(crate) fn sync(&self) -> Result<()> {
        self.sync_to(self.position())
    }

    /// The position of the end of the last record.
    pub(crate) fn position(&self) -> Lsn {
        let tail = self.tail();
        tail.segment.as_ref().map_or(tail.end, |s| s.start + tail.offset)
    }

    fn sync_all(&self) -> Result<Lsn> {
        let mut tail = self.tail();
        let unsynced = std::mem::take(&mut tail.unsynced);
        let pending = std::mem::take(&mut tail.pending);
        let replayed = std::mem::take(&mut tail.replayed);
        let (segment, offset, end) = (tail.segment.clone(), tail.offset, tail.end);
        drop(tail);
        for (slot, end) in replayed {
            self.sync_replayed(slot, end)?;
        }
        for (segment, pending, offset) in unsynced {
            segment.write_and_sync(self.storage.as_ref(), &pending, offset)?;
        }
        let Some(segment) = segment else { return Ok(end) };
        segment.write_and_sync(self.storage.as_ref(), &pending, offset)?;
        Ok(segment.start + offset)
    }

    /// Makes durable a segment that an earlier process wrote up to `end`. If that process ended because a sync failed,
    /// the kernel may count pages as written that the disk does not have, so the whole segment is written again.
    fn sync_replayed(&self, slot: u8, end: u64) -> Result<()> {
        self.refuse_if_moved()?;
        let path = slot_path(&self.table, slot);
        self.write_again(&path, end).map_err(|e| Error::io(&path, "sync", e))
    }

    fn write_again(&self, path: &Path, end: u64) -> std::io::Result<()> {
        const PART_BYTES: u64 = 1 << 20;
        let file = self.storage.open(path, Mode::Write)?;
        let mut part = Vec::new();
        let mut at = 0;
        while at < end {
            part.resize(PART_BYTES.min(end - at) as usize, 0);
            file.read_at(&mut part, at)?;
            file.write_at(&part, at)?;
            at += part.len() as u64;
        }
        file.sync()?;
        self.storage.sync_names(path)
    }
}

/// The error of a log whose sync failed.
fn failed_before(what: &str) -> Error {
    Error::new(ErrorKind::Poisoned, what).with_hint("Open the table again to continue from its last durable state.")
}

/// Whether files of a log exist for the table at `path`, whatever their content.
///
/// # Errors
/// [`ErrorKind::Io`] if it cannot be told.
pub(crate) fn has_segments(storage: &dyn Storage, path: &Path) -> Result<bool> {
    for slot in (0..SLOT_COUNT).map(|slot| slot_path(path, slot)) {
        match storage.exists(&slot) {
            Ok(false) => {}
            // No file has a name that is too long.
            Err(e) if e.kind() == std::io::ErrorKind::InvalidFilename => {}
            found => return found.map_err(|e| Error::io(&slot, "look for the log segment", e)),
        }
    }
    Ok(false)
}

/// The files of the logs of tables with these numbers next to the table at `path`, in the order in which to remove
/// them. Files without a valid header are among them; the logs of other tables are not.
///
/// # Errors
/// [`ErrorKind::Locked`] if a table that was renamed while it was open writes a log under these names.
pub(crate) fn segments_of(storage: &dyn Storage, path: &Path, table_ids: &[u64]) -> Result<Vec<PathBuf>> {
    let mut own = Vec::new();
    for slot in (0..SLOT_COUNT).map(|slot| slot_path(path, slot)) {
        let Some(file) = open_slot(storage, &slot).map_err(|e| Error::io(&slot, "open", e))? else { continue };
        if file.is_locked().map_err(|e| Error::io(&slot, "ask for the lock of", e))? {
            let shown = slot.display();
            let what = format!("{shown}: in use by a table that was renamed while it was open");
            return Err(
                Error::new(ErrorKind::Locked, what).with_hint("Close that table. To keep it, give it this name again.")
            );
        }
        if !names_another(&slot, file.as_ref(), table_ids)? {
            own.push(slot);
        }
    }
    Ok(own)
}

/// The number of records since checkpoint `sequence` in the log of a table.
///
/// # Errors
/// The errors of a replay: records may follow the damage.
pub(crate) fn count_records(storage: &dyn Storage, path: &Path, table_id: u64, sequence: u64) -> Result<u64> {
    const LIMITS: BlockLimits = BlockLimits { bytes: 16 << 20, records: 1 << 16 };
    let mut reader = Reader::new(storage, path, table_id, sequence)?;
    let (mut block, mut records) = (Block::default(), 0);
    while reader.read(&mut block, LIMITS, |_, _| 0)? {
        records += block.len() as u64;
    }
    Ok(records)
}

/// The parts of a record that do not depend on the record before it.
struct Head {
    /// Kind and length.
    word: [u8; 4],
    /// Checksum of `word` and body.
    own: u32,
}

impl Head {
    /// Kind and length of a record.
    #[inline]
    fn word(kind: u8, body_bytes: usize) -> [u8; 4] {
        (u32::from(kind) << 24 | body_bytes as u32).to_le_bytes()
    }

    #[inline]
    fn new(kind: u8, body: &[&[u8]]) -> Head {
        let len: usize = body.iter().map(|part| part.len()).sum();
        let word = Head::word(kind, len);
        let own = body.iter().fold(crc32c(&word), |sum, part| crc32c_append(sum, part));
        Head { word, own }
    }

    /// The header and the checksum of the record when it follows one with the checksum `chain`.
    #[inline]
    fn after(&self, chain: u32) -> ([u8; RECORD_HEADER_BYTES], u32) {
        let sum = chained(chain, self.own);
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes[4..].copy_from_slice(&self.word);
        (bytes, sum)
    }
}

/// The checksum of a record that follows one with the checksum `chain`; `own` is the checksum of the record's own
/// bytes.
///
/// Threads compute `own` in parallel, however long the record; only this step is done one record at a time.
#[inline]
fn chained(chain: u32, own: u32) -> u32 {
    crc32c_of_word(chain, own)
}

#[cfg(test)]
mod tests;
