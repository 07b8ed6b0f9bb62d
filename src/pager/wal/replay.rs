//! Reads the log after a crash.
//!
//! A replay starts after the last checkpoint, with the segment that began at it, then those that continue it, record
//! by record, up to the first incomplete one. The bytes after that were never acknowledged. A record whose value is in
//! the table's file, but was not synced before the power was lost, is incomplete as well.
//!
//! Cost: one pass over the log, and the pages that its records change.
//! Not here: the meaning of records (`table/wal_record.rs`).

use super::segment::{End, Header, RECORDS_START, SLOT_COUNT, slot_path};
use super::{BODY_BYTES_MAX, IN_PIECES, PIECE, PIECE_HEADER_BYTES, RECORD_HEADER_BYTES, RESUMED};
use crate::error::{Error, Result};
use crate::io::{File, Mode, Storage};
use crate::little_endian::u32_at;
use crate::planted::{Bug, planted};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Receives the records of a replay.
pub(crate) trait Replay {
    /// A record comes soon: its bucket may be prefetched.
    fn announce(&mut self, kind: u8, body: &[u8]);
    /// Makes the change that the record describes. `false`, with nothing changed, where it refers to bytes that were
    /// lost with the power: then the log ends before it.
    fn apply(&mut self, kind: u8, body: &[u8]) -> Result<bool>;
}

/// The result of a replay.
#[derive(Default)]
pub(super) struct Replayed {
    /// The last segment, its slot, and where its records end.
    pub last: Option<(Header, u8, End)>,
    /// The replayed segments: slot and number.
    pub needed: Vec<(u8, u64)>,
    /// The replayed segments: slot and end of their records.
    pub ends: Vec<(u8, u64)>,
    /// The highest number of any segment of this table.
    pub number: u64,
    pub records: u64,
}

/// A segment that was found.
struct Found {
    header: Header,
    slot: u8,
    path: PathBuf,
    file: Box<dyn File>,
}

impl Found {
    /// Whether this segment directly follows that checkpoint or segment.
    fn continues(&self, sequence: u64, last: Option<&End>) -> bool {
        match last {
            // The segment began at the checkpoint, or later, if nothing was logged in between.
            None => self.header.number == sequence || self.header.before == End { number: sequence, ..End::default() },
            Some(last) => {
                self.header.before == *last
                    || planted(Bug::SegmentOutOfOrder) && self.header.before.number == last.number
            }
        }
    }
}

/// Passes the records since checkpoint `sequence` to `target`.
pub(super) fn replay(
    storage: &dyn Storage,
    table: &Path,
    table_id: u64,
    sequence: u64,
    target: &mut dyn Replay,
) -> Result<Replayed> {
    let mut segments = find(storage, table, table_id)?;
    let number = segments.iter().map(|s| s.header.number).max().unwrap_or(0);
    let mut replayed = Replayed { number, ..Replayed::default() };
    let mut last: Option<End> = None;
    while let Some(index) = segments.iter().position(|s| s.continues(sequence, last.as_ref())) {
        let segment = segments.remove(index);
        let (end, records) = replay_segment(&segment, target)?;
        replayed.records += records;
        replayed.needed.push((segment.slot, segment.header.number));
        replayed.ends.push((segment.slot, end.offset));
        replayed.last = Some((segment.header, segment.slot, end));
        last = Some(end);
    }
    Ok(replayed)
}

/// The segments of this table beside it. Others are left over from a table of the same name.
fn find(storage: &dyn Storage, table: &Path, table_id: u64) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for slot in 0..SLOT_COUNT {
        let path = slot_path(table, slot);
        let file = match storage.open(&path, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(|e| Error::io(&path, "open", e))?,
        };
        if let Some(header) = Header::read(&path, file.as_ref())?.filter(|h| h.table_id == table_id) {
            found.push(Found { header, slot, path, file });
        }
    }
    Ok(found)
}

/// Records announced before the first of them is applied.
const AHEAD: usize = 32;

fn replay_segment(segment: &Found, target: &mut dyn Replay) -> Result<(End, u64)> {
    let fail = |e| Error::io(&segment.path, "read", e);
    let mut reader = Reader::new(segment.file.as_ref(), segment.header.chain()).map_err(fail)?;
    let mut pieces: HashMap<[u8; PIECE_HEADER_BYTES], Vec<u8>> = HashMap::new();
    let mut records = 0;
    loop {
        let window = reader.window(AHEAD).map_err(fail)?;
        if window.is_empty() {
            return Ok((End { number: segment.header.number, offset: reader.at, chain: reader.chain }, records));
        }
        for (kind, body) in window.iter() {
            if kind & IN_PIECES == 0 && ![PIECE, RESUMED].contains(&kind) {
                target.announce(kind, body);
            }
        }
        for (record, (kind, body)) in window.iter().enumerate() {
            let applied = match kind {
                RESUMED => {
                    // The process that wrote them is gone, and its record numbers are used again.
                    pieces.clear();
                    continue;
                }
                PIECE => {
                    let (number, content) = body.split_first_chunk().ok_or_else(|| bad_piece(&segment.path))?;
                    pieces.entry(*number).or_default().extend_from_slice(content);
                    continue;
                }
                _ if kind & IN_PIECES != 0 => {
                    let whole =
                        <[u8; PIECE_HEADER_BYTES]>::try_from(body).ok().and_then(|number| pieces.remove(&number));
                    target.apply(kind & !IN_PIECES, &whole.ok_or_else(|| bad_piece(&segment.path))?)?
                }
                _ => target.apply(kind, body)?,
            };
            if !applied {
                let (offset, chain) = window.starts[record];
                return Ok((End { number: segment.header.number, offset, chain }, records));
            }
            records += 1;
        }
    }
}

fn bad_piece(path: &Path) -> Error {
    let shown = path.display();
    Error::corrupt(format!("{shown}: the pieces of a record do not fit together, though their checksums match"))
        .with_hint("Open the table with the version that wrote it.")
}

/// Consecutive records and their bytes.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    records: Vec<(u8, std::ops::Range<usize>)>,
    /// Offset of each in the segment, and the checksum of the record before it.
    starts: Vec<(u64, u32)>,
}

impl Window {
    fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.records.iter().map(|(kind, range)| (*kind, &self.bytes[range.clone()]))
    }
}

/// Reads complete records from a segment.
struct Reader<'a> {
    file: &'a dyn File,
    file_bytes: u64,
    /// Offset of the next record, and the checksum of the one before.
    at: u64,
    chain: u32,
    buffer: Vec<u8>,
    buffer_start: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a dyn File, chain: u32) -> std::io::Result<Self> {
        let file_bytes = file.len()?;
        Ok(Reader { file, file_bytes, at: RECORDS_START, chain, buffer: Vec::new(), buffer_start: 0 })
    }

    /// Up to `count` records; empty at the end.
    fn window(&mut self, count: usize) -> std::io::Result<Window> {
        let mut window = Window::default();
        while window.records.len() < count
            && let Some((kind, body, chain)) = self.record()?
        {
            let start = window.bytes.len();
            window.bytes.extend_from_slice(body);
            let len = body.len();
            window.records.push((kind, start..start + len));
            window.starts.push((self.at, self.chain));
            self.at += (RECORD_HEADER_BYTES + len) as u64;
            self.chain = chain;
        }
        Ok(window)
    }

    /// The record at `at`, if it is complete, and its checksum.
    fn record(&mut self) -> std::io::Result<Option<(u8, &[u8], u32)>> {
        let Some(head) = self.bytes(RECORD_HEADER_BYTES)? else { return Ok(None) };
        let (stored, word) = (u32_at(head, 0), u32_at(head, 4));
        let (kind, len) = ((word >> 24) as u8, (word & 0xFF_FFFF) as usize);
        if len > BODY_BYTES_MAX {
            return Ok(None);
        }
        let chain = self.chain;
        let Some(bytes) = self.bytes(RECORD_HEADER_BYTES + len)? else { return Ok(None) };
        let computed = super::chained(chain, crc32c::crc32c(&bytes[4..]));
        // Zeros after the last record have a checksum of zero; no record has kind 0.
        Ok((kind != 0 && (stored == computed || planted(Bug::RecordUnchecked)))
            .then(|| (kind, &bytes[RECORD_HEADER_BYTES..], computed)))
    }

    /// The next `len` bytes, if the file has them.
    fn bytes(&mut self, len: usize) -> std::io::Result<Option<&[u8]>> {
        const BUFFER_BYTES: u64 = 1 << 20;
        let end = self.at + len as u64;
        if end > self.file_bytes {
            return Ok(None);
        }
        if self.at < self.buffer_start || end > self.buffer_start + self.buffer.len() as u64 {
            let bytes = BUFFER_BYTES.max(len as u64).min(self.file_bytes - self.at);
            self.buffer.resize(bytes as usize, 0);
            self.file.read_at(&mut self.buffer, self.at)?;
            self.buffer_start = self.at;
        }
        let start = (self.at - self.buffer_start) as usize;
        Ok(Some(&self.buffer[start..start + len]))
    }
}
