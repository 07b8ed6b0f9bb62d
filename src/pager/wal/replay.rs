//! Reads the log after a crash, block by block.
//!
//! ```text
//! read         a part of a segment -> its complete records, in order; one in pieces is assembled first
//! end          at the first incomplete record; then the segment that continues exactly there, if there is one
//! end_before   ends the replay before a record of the last block whose value the disk lost
//! ```
//!
//! A replay starts after the last checkpoint, with the segment that began at it, then those that continue it, record
//! by record, up to the first incomplete one. The bytes after that were never acknowledged. A record whose value is in
//! the table's file, but was not synced before the power was lost, is incomplete as well.
//!
//! Cost: one pass over the log.
//! Not here: the meaning of records (`table/wal_record.rs`), and how their changes are applied (`table/replay.rs`).

use super::segment::{End, RECORDS_START, SLOT_COUNT, SegmentHeader, slot_path};
use super::{BODY_BYTES_MAX, IN_PIECES, PIECE, PIECE_HEADER_BYTES, RECORD_HEADER_BYTES, RESUMED};
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::io::{File, Mode, Storage};
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
struct Found {
    header: SegmentHeader,
    slot: u8,
    path: PathBuf,
    file: Box<dyn File>,
}

impl Found {
    /// Whether this segment directly follows segment `last`, or checkpoint `sequence` if there is none.
    fn continues(&self, sequence: u64, last: Option<&End>) -> bool {
        match last {
            // The segment began at the checkpoint, or later, if nothing was logged in between.
            None => self.header.number == sequence || self.header.before == End { number: sequence, ..End::default() },
            Some(last) => self.header.before == *last,
        }
    }
}

/// Finds the segments of this table. Others are left over from a table of the same name.
fn find(storage: &dyn Storage, table: &Path, table_id: u64) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for slot in 0..SLOT_COUNT {
        let path = slot_path(table, slot);
        let file = match storage.open(&path, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(|e| Error::io(&path, "open", e))?,
        };
        if let Some(header) = SegmentHeader::read(&path, file.as_ref())?.filter(|h| h.table_id == table_id) {
            found.push(Found { header, slot, path, file });
        }
    }
    Ok(found)
}

/// Reads the records since a checkpoint.
pub(crate) struct Reader {
    /// Segments not yet read.
    found: Vec<Found>,
    /// The number of the checkpoint.
    sequence: u64,
    current: Option<Current>,
    /// Bytes to read at a time.
    read_bytes: usize,
    replayed: Replayed,
}

impl Reader {
    /// A reader of the records since checkpoint `sequence`.
    pub(super) fn new(storage: &dyn Storage, table: &Path, table_id: u64, sequence: u64) -> Result<Reader> {
        let found = find(storage, table, table_id)?;
        let number = found.iter().map(|s| s.header.number).max().unwrap_or(0);
        let replayed = Replayed { number, ..Replayed::default() };
        Ok(Reader { found, sequence, current: None, read_bytes: READ_BYTES_MIN, replayed })
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
            if self.current.as_ref().is_some_and(|current| current.ended) {
                self.end_segment();
            }
            let current = match &mut self.current {
                Some(current) => current,
                None => {
                    let Some(segment) = self.next_segment()? else { return Ok(false) };
                    if segment.file_bytes > LONG_BYTES {
                        self.read_bytes = limits.bytes.max(READ_BYTES_MIN);
                    }
                    self.current.insert(segment)
                }
            };
            let from = current.at;
            let filled = current.fill(block, self.read_bytes, limits, &room);
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
        let last = self.replayed.last.map(|(.., end)| end);
        let next = self.found.iter().position(|segment| segment.continues(self.sequence, last.as_ref()));
        next.map(|index| Current::new(self.found.remove(index))).transpose()
    }

    /// Ends the log before record `index` of `block`, which must be the block read last.
    pub(crate) fn end_before(&mut self, block: &Block, index: usize) {
        let current = self.current.as_mut().expect("a block is of the current segment");
        (current.at, current.chain, current.ended) = (block.records[index].at, block.records[index].chain, true);
        self.replayed.records -= (block.len() - index) as u64;
    }

    fn end_segment(&mut self) {
        let Some(Current { segment, at, chain, .. }) = self.current.take() else { return };
        let end = End { number: segment.header.number, offset: at, chain };
        self.replayed.needed.push((segment.slot, segment.header.number));
        self.replayed.ends.push((segment.slot, at));
        self.replayed.last = Some((segment.header, segment.slot, end));
    }

    /// The result, once [`read`](Self::read) has found the end.
    pub(super) fn replayed(self) -> Replayed {
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
struct Current {
    segment: Found,
    file_bytes: u64,
    /// Offset of the next record, and the checksum of the one before.
    at: u64,
    chain: u32,
    /// Whether no complete record follows.
    ended: bool,
    /// The pieces read so far of unfinished records, by record number.
    pieces: HashMap<[u8; PIECE_HEADER_BYTES], Vec<u8>>,
}

impl Current {
    fn new(segment: Found) -> Result<Current> {
        let file_bytes = segment.file.len().map_err(|e| Error::io(&segment.path, "read", e))?;
        let chain = segment.header.chain();
        Ok(Current { segment, file_bytes, at: RECORDS_START, chain, ended: false, pieces: HashMap::new() })
    }

    /// Reads `bytes` bytes, and adds their records to `block`, which must have none. It stays empty if all of them are
    /// pieces.
    fn fill(
        &mut self,
        block: &mut Block,
        bytes: usize,
        limits: BlockLimits,
        room: impl Fn(u8, &[u8]) -> usize,
    ) -> Result<()> {
        let rest = self.file_bytes - self.at;
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
            let Some((kind, len, computed)) = next_record(&block.bytes[place..], self.chain) else {
                self.ended = true;
                return Ok(());
            };
            let Some(computed) = computed else {
                // The rest of the record is not in the block, and perhaps not in the file either.
                self.ended = bytes as u64 == rest;
                return Ok(());
            };
            let (at, chain) = (self.at, self.chain);
            self.at += (RECORD_HEADER_BYTES + len) as u64;
            self.chain = computed;
            let mut body = RecordBody { source: 0, start: place + RECORD_HEADER_BYTES, len };
            match kind {
                // The process that wrote these pieces is gone, and later records reuse its record numbers.
                RESUMED => self.pieces.clear(),
                PIECE => {
                    let piece = block.bytes(body).split_first_chunk();
                    let (number, content) = piece.ok_or_else(|| bad_piece(&self.segment.path))?;
                    self.pieces.entry(*number).or_default().extend_from_slice(content);
                }
                _ => {
                    if kind & IN_PIECES != 0 {
                        let number = <[u8; PIECE_HEADER_BYTES]>::try_from(block.bytes(body)).ok();
                        let whole = number.and_then(|number| self.pieces.remove(&number));
                        body = block.keep(whole.ok_or_else(|| bad_piece(&self.segment.path))?);
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
}

/// Kind and length of the record at the start of `bytes`, which follows one with the checksum `chain`. Also its own
/// checksum, if `bytes` has all of it. `None` if there is no record.
#[inline]
fn next_record(bytes: &[u8], chain: u32) -> Option<(u8, usize, Option<u32>)> {
    let Some(head) = bytes.get(..RECORD_HEADER_BYTES) else { return Some((0, 0, None)) };
    let (stored, word) = (u32_at(head, 0), u32_at(head, 4));
    let (kind, len) = ((word >> 24) as u8, (word & 0xFF_FFFF) as usize);
    if len > BODY_BYTES_MAX {
        return None;
    }
    let Some(own) = bytes.get(4..RECORD_HEADER_BYTES + len) else { return Some((kind, len, None)) };
    let computed = super::chained(chain, crc32c(own));
    // Zeros after the last record have a checksum of zero; no record has kind 0.
    (kind != 0 && stored == computed).then_some((kind, len, Some(computed)))
}

fn bad_piece(path: &Path) -> Error {
    let shown = path.display();
    Error::corrupt(format!("{shown}: the pieces of a record do not fit together, though their checksums match"))
        .with_hint("Open the table with the version that wrote it.")
}
