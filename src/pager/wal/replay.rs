//! Reads the log block by block: after a crash, or while another process adds to it.
//!
//! ```text
//! read         a part of a segment -> its complete records, in order; one in pieces is assembled first
//! end          at the first incomplete record; then the segment that continues exactly there, if there is one
//! end_before   ends the replay before a record of the last block whose value the disk lost
//! look         whether an end that was read while a writer is at work is the log's end (`follow.rs`)
//! ```
//!
//! A replay starts after the last checkpoint, with the segment that began at it, then those that continue it, record
//! by record, up to the first incomplete one. The bytes after that were never acknowledged. A record whose value is in
//! the table's file, but was not synced before the power was lost, is incomplete as well.
//!
//! Pieces of a long record are read twice: their places are noted, and their bytes are read once its end is there. So a
//! record that never ends takes no memory.
//!
//! Cost: one pass over the log.
//! Not here: the meaning of records (`table/wal_record.rs`), and how their changes are applied (`table/replay.rs`).

use super::segment::{End, RECORDS_START, SLOT_COUNT, SegmentHeader, open_slot, slot_path};
use super::{BODY_BYTES_MAX, IN_PIECES, PIECE, PIECE_HEADER_BYTES, RECORD_HEADER_BYTES, RESUMED};
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::io::{File, Storage};
use crate::little_endian::u32_at;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Consecutive records of one segment, and the bytes that they consist of.
#[derive(Default)]
pub(crate) struct Block {
    /// A part of the segment.
    bytes: Vec<u8>,
    /// Other bytes: bodies assembled from pieces, and what [`keep`](Self::keep) adds.
    kept: Vec<Vec<u8>>,
    records: Vec<Record>,
}

struct Record {
    kind: u8,
    body: RecordBody,
    /// Its offset in the segment, and the checksum of the record before it.
    at: u64,
    chain: u32,
}

/// The location of some bytes in a block.
#[derive(Clone, Copy, Default)]
pub(crate) struct RecordBody {
    /// 0: the part of the segment; n: entry n - 1 of `kept`.
    source: u32,
    start: usize,
    len: usize,
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Kind and body of record `index`.
    #[inline]
    pub(crate) fn record(&self, index: usize) -> (u8, RecordBody) {
        let Record { kind, body, .. } = self.records[index];
        (kind, body)
    }

    #[inline]
    pub(crate) fn bytes(&self, place: RecordBody) -> &[u8] {
        let source = match place.source {
            0 => &self.bytes,
            n => &self.kept[n as usize - 1],
        };
        &source[place.start..][..place.len]
    }

    /// Adds bytes that the block's records refer to.
    pub(crate) fn keep(&mut self, bytes: Vec<u8>) -> RecordBody {
        let len = bytes.len();
        self.kept.push(bytes);
        RecordBody { source: self.kept.len() as u32, start: 0, len }
    }

    fn clear(&mut self) {
        // The bytes are not cleared, since they are overwritten.
        self.kept.clear();
        self.records.clear();
    }
}

impl RecordBody {
    /// The place of `part`, a part of `whole`. This place is that of `whole`.
    #[inline]
    pub(crate) fn of_part(self, whole: &[u8], part: &[u8]) -> RecordBody {
        let before = part.as_ptr().addr() - whole.as_ptr().addr();
        RecordBody { source: self.source, start: self.start + before, len: part.len() }
    }
}

/// The maximum size of a block, which its last record may exceed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockLimits {
    pub bytes: usize,
    pub records: usize,
}

/// The result of a replay.
#[derive(Default)]
pub(super) struct Replayed {
    /// The last segment, its slot, and the end of its records.
    pub last: Option<(SegmentHeader, u8, End)>,
    /// The replayed segments: slot and number.
    pub needed: Vec<(u8, u64)>,
    /// The replayed segments: slot and end of their records.
    pub ends: Vec<(u8, u64)>,
    /// The highest number of any segment of this table.
    pub number: u64,
    pub records: u64,
}

/// A segment found on disk.
pub(super) struct Found {
    pub header: SegmentHeader,
    slot: u8,
    path: PathBuf,
    file: Box<dyn File>,
}

impl Found {
    /// Whether this segment directly follows segment `last`, or checkpoint `sequence` if there is none.
    pub(super) fn continues(&self, sequence: u64, last: Option<&End>) -> bool {
        match last {
            // The segment began at the checkpoint, or later, if nothing was logged in between.
            None => self.header.number == sequence || self.header.before == End { number: sequence, ..End::default() },
            Some(last) => self.header.before == *last,
        }
    }
}

/// Finds the segments of this table. Others are left over from a table of the same name.
pub(super) fn find(storage: &dyn Storage, table: &Path, table_id: u64) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for slot in 0..SLOT_COUNT {
        let path = slot_path(table, slot);
        let Some(file) = open_slot(storage, &path).map_err(|e| Error::io(&path, "open", e))? else { continue };
        if let Some(header) = SegmentHeader::read(&path, file.as_ref())?.filter(|h| h.table_id == table_id) {
            found.push(Found { header, slot, path, file });
        }
    }
    Ok(found)
}

/// Reads the records since a checkpoint.
pub(crate) struct Reader {
    /// Segments not yet read.
    pub(super) found: Vec<Found>,
    /// The number of the checkpoint.
    pub(super) sequence: u64,
    pub(super) current: Option<Current>,
    /// Bytes to read at a time.
    read_bytes: usize,
    /// Whether blocks get records; otherwise only their end is looked for.
    pub(super) fills_blocks: bool,
    /// Records from here on are not read.
    pub(super) until: Option<End>,
    /// The end of the records after the position that do not count, since the disk lost a value: see
    /// [`end_before`](Self::end_before).
    pub(super) lost_until: Option<End>,
    replayed: Replayed,
}

impl Reader {
    /// A reader of the records since checkpoint `sequence`.
    pub(super) fn new(storage: &dyn Storage, table: &Path, table_id: u64, sequence: u64) -> Result<Reader> {
        Ok(Self::of_segments(find(storage, table, table_id)?, sequence))
    }

    pub(super) fn of_segments(found: Vec<Found>, sequence: u64) -> Reader {
        let number = found.iter().map(|s| s.header.number).max().unwrap_or(0);
        let replayed = Replayed { number, ..Replayed::default() };
        let (current, read_bytes, fills_blocks) = (None, READ_BYTES_MIN, true);
        Reader { found, sequence, current, read_bytes, fills_blocks, until: None, lost_until: None, replayed }
    }

    /// Reads the next records into `block`. Returns false, with no records, at the end of the log. `room` returns how
    /// much of a block's bytes a record of a kind and body takes in addition to its own: the block ends with the record
    /// that exceeds its limit.
    ///
    /// After an error the block has the records before it.
    pub(crate) fn read(
        &mut self,
        block: &mut Block,
        limits: BlockLimits,
        room: impl Fn(u8, &[u8]) -> usize,
    ) -> Result<bool> {
        block.clear();
        while block.records.is_empty() {
            if self.is_at_end() {
                return Ok(false);
            }
            if self.current.as_ref().is_none_or(|current| current.ended) {
                let Some(segment) = self.next_segment()? else { return Ok(false) };
                self.end_segment();
                if segment.file_bytes > LONG_BYTES {
                    self.read_bytes = limits.bytes.max(READ_BYTES_MIN);
                }
                self.current = Some(segment);
            }
            let current = self.current.as_mut().expect("a segment that has not ended");
            let from = current.at;
            let end = self.until.filter(|until| until.number == current.segment.header.number);
            let end = end.map_or(current.file_bytes, |until| current.file_bytes.min(until.offset));
            let filled = current.fill(block, end, self.read_bytes, self.fills_blocks, limits, &room);
            self.replayed.records += block.records.len() as u64;
            filled?;
            // If blocks end early, because their records need so much room, the rest is read again with the next block.
            let read_well = current.at - from > self.read_bytes as u64 / 2;
            let bytes = if read_well { 2 * self.read_bytes } else { self.read_bytes / 2 };
            self.read_bytes = bytes.min(limits.bytes).max(READ_BYTES_MIN);
        }
        Ok(true)
    }

    fn next_segment(&mut self) -> Result<Option<Current>> {
        let last = self.current.as_ref().map(Current::end);
        let next = self.found.iter().position(|segment| segment.continues(self.sequence, last.as_ref()));
        next.map(|index| Current::new(self.found.remove(index))).transpose()
    }

    /// Ends the log before record `index` of `block`, which must be the block read last.
    pub(crate) fn end_before(&mut self, block: &Block, index: usize) {
        let current = self.current.as_mut().expect("a block is of the current segment");
        (current.at, current.chain, current.ended) = (block.records[index].at, block.records[index].chain, true);
        self.replayed.records -= (block.len() - index) as u64;
        self.lost_until = self.until;
    }

    fn end_segment(&mut self) {
        let Some(current) = self.current.take() else { return };
        let (segment, end) = (&current.segment, current.end());
        self.replayed.needed.push((segment.slot, segment.header.number));
        self.replayed.ends.push((segment.slot, end.offset));
        self.replayed.last = Some((segment.header, segment.slot, end));
    }

    /// The end of the records read so far.
    pub(super) fn position(&self) -> End {
        self.current.as_ref().map_or(End { number: self.sequence, ..End::default() }, Current::end)
    }

    /// Whether no record up to `end` counts that was not read.
    pub(super) fn has_read_to(&self, end: End) -> bool {
        end == self.position() || self.lost_until == Some(end)
    }

    /// Whether all records were read up to the end that was set.
    pub(crate) fn is_at_end(&self) -> bool {
        self.until == Some(self.position())
    }

    /// Calls `report` with the bytes read, and the most that the log can have: segments are longer than their records.
    pub(crate) fn progress<T>(&self, report: impl Fn(u64, u64) -> T) -> T {
        let ended = self.replayed.ends.iter().map(|&(_, end)| end - RECORDS_START).sum::<u64>();
        let (number, at, current_bytes) = match &self.current {
            Some(current) => (current.segment.header.number, current.at, current.file_bytes),
            None => (self.sequence, RECORDS_START, RECORDS_START),
        };
        let later = self.found.iter().filter(|segment| segment.header.number > number);
        // If the length cannot be read, the replay fails when it gets there.
        let unread = later.map(|segment| segment.file.len().map_or(0, |len| len.saturating_sub(RECORDS_START)));
        report(ended + at - RECORDS_START, ended + current_bytes.max(at) - RECORDS_START + unread.sum::<u64>())
    }

    /// The number of records read so far.
    pub(crate) fn records(&self) -> u64 {
        self.replayed.records
    }

    /// The highest number of any segment that was found.
    pub(crate) fn last_segment(&self) -> u64 {
        let current = self.current.iter().map(|current| current.segment.header.number);
        current.chain(self.found.iter().map(|found| found.header.number)).fold(self.replayed.number, u64::max)
    }

    /// The result, once [`read`](Self::read) has found the end.
    pub(super) fn replayed(mut self) -> Replayed {
        self.end_segment();
        self.replayed
    }
}

/// Segments with more bytes are read in blocks of the maximum size from the start. Blocks of shorter segments grow
/// gradually, since these may have few records.
const LONG_BYTES: u64 = 16 << 20;
/// Bytes that the disk is asked to read ahead of a block.
const AHEAD_BYTES: u64 = 8 << 20;
/// Enough for the longest record.
const READ_BYTES_MIN: usize = RECORD_HEADER_BYTES + BODY_BYTES_MAX;

/// The segment that is being read.
pub(super) struct Current {
    pub segment: Found,
    file_bytes: u64,
    /// Offset of the next record, and the checksum of the one before.
    at: u64,
    chain: u32,
    /// Whether no complete record follows.
    ended: bool,
    /// The pieces passed so far of unfinished records, by record number.
    pieces: HashMap<[u8; PIECE_HEADER_BYTES], Vec<Piece>>,
}

/// A record that holds a piece of a longer one.
#[derive(Clone, Copy)]
struct Piece {
    /// Its offset in the segment.
    at: u64,
    body_bytes: u32,
    /// The checksum of its own bytes.
    own: u32,
}

impl Current {
    pub(super) fn new(segment: Found) -> Result<Current> {
        let chain = segment.header.chain();
        let mut current =
            Current { segment, file_bytes: 0, at: RECORDS_START, chain, ended: false, pieces: HashMap::new() };
        current.look_on()?;
        Ok(current)
    }

    /// Continues in `segment`, which is this one, opened again.
    pub(super) fn again(&self, segment: Found) -> Result<Current> {
        let mut current = Current { segment, pieces: self.pieces.clone(), ..*self };
        current.look_on()?;
        Ok(current)
    }

    /// Looks for records at the end again: the segment may have grown.
    pub(super) fn look_on(&mut self) -> Result<()> {
        self.file_bytes = self.segment.file.len().map_err(|e| Error::io(&self.segment.path, "read", e))?;
        self.ended = false;
        Ok(())
    }

    pub(super) fn end(&self) -> End {
        End { number: self.segment.header.number, offset: self.at, chain: self.chain }
    }

    /// Reads `bytes` bytes, and adds their records to `block`, which must have none. It stays empty if all of them are
    /// pieces. No record is read that ends after `end`.
    fn fill(
        &mut self,
        block: &mut Block,
        end: u64,
        bytes: usize,
        fills_blocks: bool,
        limits: BlockLimits,
        room: impl Fn(u8, &[u8]) -> usize,
    ) -> Result<()> {
        let rest = end.saturating_sub(self.at);
        let bytes = rest.min(bytes as u64) as usize;
        let start = self.at;
        block.bytes.resize(bytes, 0);
        let file = &self.segment.file;
        file.read_at(&mut block.bytes, start).map_err(|e| Error::io(&self.segment.path, "read", e))?;
        if bytes > READ_BYTES_MIN {
            file.read_ahead(start + bytes as u64, AHEAD_BYTES);
        }
        let mut taken = 0usize;
        while taken < limits.bytes && block.records.len() < limits.records {
            let place = (self.at - start) as usize;
            let Some((kind, len, sums)) = next_record(&block.bytes[place..], self.chain) else {
                self.ended = true;
                return Ok(());
            };
            let Some((own, computed)) = sums else {
                // The rest of the record is not in the block, and perhaps not in the file either.
                self.ended = bytes as u64 == rest;
                return Ok(());
            };
            let (at, chain) = (self.at, self.chain);
            self.at += (RECORD_HEADER_BYTES + len) as u64;
            self.chain = computed;
            let mut body = RecordBody { source: 0, start: place + RECORD_HEADER_BYTES, len };
            match kind {
                // What the record says is read by others. They may find that the log ends before it.
                _ if !fills_blocks => {}
                // The process that wrote these pieces is gone, and later records reuse its record numbers.
                RESUMED => self.pieces.clear(),
                PIECE => {
                    let number = block.bytes(body).first_chunk().ok_or_else(|| bad_piece(&self.segment.path))?;
                    self.pieces.entry(*number).or_default().push(Piece { at, body_bytes: len as u32, own });
                }
                _ => {
                    if kind & IN_PIECES != 0 {
                        let number = <[u8; PIECE_HEADER_BYTES]>::try_from(block.bytes(body)).ok();
                        let pieces = number.and_then(|number| self.pieces.remove(&number));
                        let pieces = pieces.ok_or_else(|| bad_piece(&self.segment.path))?;
                        body = block.keep(self.assemble(&pieces)?);
                    }
                    let kind = kind & !IN_PIECES;
                    let long = if body.source == 0 { 0 } else { body.len };
                    taken = taken.saturating_add(room(kind, block.bytes(body))).saturating_add(long);
                    block.records.push(Record { kind, body, at, chain });
                }
            }
        }
        Ok(())
    }

    /// The body of a record in pieces.
    fn assemble(&self, pieces: &[Piece]) -> Result<Vec<u8>> {
        // The bytes before a piece's content: the second half of the record's header, and the number.
        const BEFORE: usize = RECORD_HEADER_BYTES / 2 + PIECE_HEADER_BYTES;
        let all: usize = pieces.iter().map(|piece| piece.body_bytes as usize - PIECE_HEADER_BYTES).sum();
        let mut whole = Vec::with_capacity(all);
        let mut own = Vec::new();
        for piece in pieces {
            own.resize(BEFORE - PIECE_HEADER_BYTES + piece.body_bytes as usize, 0);
            let at = piece.at + (RECORD_HEADER_BYTES / 2) as u64;
            self.segment.file.read_at(&mut own, at).map_err(|e| Error::io(&self.segment.path, "read", e))?;
            if crc32c(&own) != piece.own {
                let shown = self.segment.path.display();
                return Err(Error::corrupt(format!("{shown}: a record changed while it was read"))
                    .with_hint("Open the table again."));
            }
            whole.extend_from_slice(&own[BEFORE..]);
        }
        Ok(whole)
    }
}

/// The checksum of a record's own bytes, and that of the record.
type Sums = (u32, u32);

/// Kind and length of the record at the start of `bytes`, which follows one with the checksum `chain`. Also its
/// checksums, if `bytes` has all of it. `None` if there is no record.
#[inline]
fn next_record(bytes: &[u8], chain: u32) -> Option<(u8, usize, Option<Sums>)> {
    let Some(head) = bytes.get(..RECORD_HEADER_BYTES) else { return Some((0, 0, None)) };
    let (stored, word) = (u32_at(head, 0), u32_at(head, 4));
    let (kind, len) = ((word >> 24) as u8, (word & 0xFF_FFFF) as usize);
    if len > BODY_BYTES_MAX {
        return None;
    }
    let Some(own) = bytes.get(4..RECORD_HEADER_BYTES + len) else { return Some((kind, len, None)) };
    let own = crc32c(own);
    let computed = super::chained(chain, own);
    // Zeros after the last record have a checksum of zero; no record has kind 0.
    (kind != 0 && stored == computed).then_some((kind, len, Some((own, computed))))
}

fn bad_piece(path: &Path) -> Error {
    let shown = path.display();
    Error::corrupt(format!("{shown}: the pieces of a record do not fit together, though their checksums match"))
        .with_hint("Open the table with the version that wrote it.")
}
