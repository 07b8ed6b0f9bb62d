//! The second reader of the write-ahead log, written from docs/format.md, "Write-ahead log", alone.
//!
//! ```text
//! Segment::parse   one file: header, records, where they end
//! changes          what the records of a segment ask for, pieces put together
//! follow           which segments count, in which order, and where the last one ends
//! Builder          a segment made of any records, its checksums right: for damage that only the meaning shows
//! ```
//!
//! It reads whole files into memory, and shares no line with the library. Not here: damage (`corruption/log.rs`).

use super::{Result, TABLE_ID_AT, crc32c, u32_at, u64_at};
use std::collections::{BTreeMap, HashMap};

pub const MAGIC: &[u8; 8] = b"SPLITLOG";
pub const SEGMENTS_MAX: usize = 8;
pub const HEADER_BYTES: usize = 64;
/// Offset of the second copy of the header.
pub const SECOND_AT: usize = 512;
pub const RECORDS_AT: usize = 4096;
pub const RECORD_HEAD_BYTES: usize = 8;
pub const BODY_BYTES_MAX: usize = 65536;

pub const PUT: u8 = 1;
pub const APPEND: u8 = 2;
pub const REMOVE: u8 = 3;
pub const CLEAR: u8 = 4;
pub const BATCH: u8 = 5;
pub const PUT_STORED: u8 = 6;
pub const RESUMED: u8 = 0x7E;
pub const PIECE: u8 = 0x7F;
pub const IN_PIECES: u8 = 0x80;

/// The end of a segment, or of the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub number: u64,
    pub offset: u64,
    pub checksum: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub table_id: u64,
    pub number: u64,
    pub before: End,
    pub salt: u64,
}

const OTHER_VERSION: &str = "no segment of version 1";

/// Computes the checksum of a record whose bytes from byte 4 on are `bytes`, after a record with the checksum `before`.
fn chained(before: u32, bytes: &[u8]) -> u32 {
    crc32c(before, &crc32c(0, bytes).to_le_bytes())
}

impl Header {
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = 1;
        bytes[12..16].copy_from_slice(&self.before.checksum.to_le_bytes());
        let words = [self.table_id, self.number, self.before.number, self.before.offset, self.salt];
        for (i, word) in words.into_iter().enumerate() {
            bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32c(0, &bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses the first of the two headers that is not empty; `None` if both are.
    pub fn parse(file: &[u8]) -> Result<Option<Header>> {
        if file.len() < RECORDS_AT {
            return Ok(None);
        }
        match Header::parse_one(&file[..HEADER_BYTES]) {
            // If the first header is empty, a damaged second one does not count.
            Ok(None) => Ok(Header::parse_one(&file[SECOND_AT..SECOND_AT + HEADER_BYTES]).unwrap_or(None)),
            Err(e) if e != OTHER_VERSION => {
                Header::parse_one(&file[SECOND_AT..SECOND_AT + HEADER_BYTES]).map_err(|_| e)
            }
            first => first,
        }
    }

    fn parse_one(file: &[u8]) -> Result<Option<Header>> {
        if file.iter().all(|&b| b == 0) {
            return Ok(None);
        }
        if &file[..8] != MAGIC {
            return Err("no segment".into());
        }
        if u32_at(file, 60) != crc32c(0, &file[..60]) {
            return Err("wrong checksum of a segment's header".into());
        }
        if u32_at(file, 8) != 1 {
            return Err(OTHER_VERSION.into());
        }
        let before = End { number: u64_at(file, 32), offset: u64_at(file, 40), checksum: u32_at(file, 12) };
        let (table_id, number, salt) = (u64_at(file, 16), u64_at(file, 24), u64_at(file, 48));
        if number > 1 << 63 || number <= before.number {
            return Err(format!("a segment of number {number} after {}", before.number));
        }
        Ok(Some(Header { table_id, number, before, salt }))
    }
}

/// The bytes of a record in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: u8,
    pub body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Segment {
    pub header: Header,
    pub records: Vec<Record>,
    pub end: End,
}

impl Segment {
    /// Parses a segment; `None` if the file is not one yet.
    pub fn parse(file: &[u8]) -> Result<Option<Segment>> {
        let Some(header) = Header::parse(file)? else { return Ok(None) };
        let (mut at, mut checksum, mut records) = (RECORDS_AT, u32_at(&header.to_bytes(), 60), Vec::new());
        while let Some(head) = file.get(at..at + RECORD_HEAD_BYTES) {
            let (kind, len) = (head[7], (u32_at(head, 4) & 0xFF_FFFF) as usize);
            let body_at = at + RECORD_HEAD_BYTES;
            if kind == 0 || len > BODY_BYTES_MAX || body_at + len > file.len() {
                break;
            }
            let sum = chained(checksum, &file[at + 4..body_at + len]);
            if sum != u32_at(head, 0) {
                break;
            }
            records.push(Record { kind, body: file[body_at..body_at + len].to_vec() });
            (at, checksum) = (body_at + len, sum);
        }
        let end = End { number: header.number, offset: at as u64, checksum };
        Ok(Some(Segment { header, records, end }))
    }
}

// --------------------------------------------------------------------------------------------- Changes of records

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Clear,
}

impl Change {
    pub fn apply(&self, pairs: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        match self {
            Change::Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
            Change::Append(key, tail) => pairs.entry(key.clone()).or_default().extend(tail),
            Change::Remove(key) => drop(pairs.remove(key)),
            Change::Clear => pairs.clear(),
        }
    }
}

/// Reads a length, which may take more bytes than it needs.
fn length(bytes: &mut &[u8]) -> Result<usize> {
    let mut n = 0;
    for i in 0..5 {
        let (&byte, rest) = bytes.split_first().ok_or("a length runs over its record")?;
        *bytes = rest;
        n |= usize::from(byte & 0x7F) << (7 * i);
        if byte < 0x80 {
            return Ok(n);
        }
    }
    Err("a length of more than five bytes".into())
}

fn part(bytes: &mut &[u8]) -> Result<Vec<u8>> {
    let len = length(bytes)?;
    let (part, rest) = bytes.split_at_checked(len).ok_or("a key or value runs over its record")?;
    *bytes = rest;
    Ok(part.to_vec())
}

/// Returns the value that a *put, stored* refers to. `None` if `table`, the table's file, does not have it.
fn stored(reference: &[u8], table: &[u8]) -> Result<Option<Vec<u8>>> {
    if reference.len() != 16 {
        return Err(format!("a reference of {} bytes", reference.len()));
    }
    let (at, len) = (u64_at(reference, 0), u64::from(u32_at(reference, 8)));
    let value = at.checked_add(len).and_then(|end| table.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?));
    Ok(value.filter(|value| crc32c(0, value) == u32_at(reference, 12)).map(<[u8]>::to_vec))
}

/// Returns the changes of a record; `None` if the value it refers to was lost.
fn changes_of(kind: u8, mut body: &[u8], table: &[u8]) -> Result<Option<Vec<Change>>> {
    let body = &mut body;
    Ok(Some(match kind {
        PUT_STORED => {
            let key = part(body)?;
            match stored(body, table)? {
                Some(value) => vec![Change::Put(key, value)],
                None => return Ok(None),
            }
        }
        PUT => vec![Change::Put(part(body)?, body.to_vec())],
        APPEND => vec![Change::Append(part(body)?, body.to_vec())],
        REMOVE => vec![Change::Remove(body.to_vec())],
        CLEAR => vec![Change::Clear],
        BATCH => {
            let mut changes = Vec::new();
            while let Some((&kind, rest)) = body.split_first() {
                *body = rest;
                changes.push(match kind {
                    PUT => Change::Put(part(body)?, part(body)?),
                    APPEND => Change::Append(part(body)?, part(body)?),
                    REMOVE => Change::Remove(part(body)?),
                    other => return Err(format!("kind {other} in a batch")),
                });
            }
            changes
        }
        other => return Err(format!("a record of kind {other}")),
    }))
}

/// The changes of each valid record of a segment; the changes of one record are made together. `table` is the table's
/// file.
pub fn changes(records: &[Record], table: &[u8]) -> Result<Vec<Vec<Change>>> {
    Ok(changes_to(records, table)?.0)
}

/// Returns [`changes`], and the number of the first record that refers to a lost value, where the log ends.
fn changes_to(records: &[Record], table: &[u8]) -> Result<(Vec<Vec<Change>>, Option<usize>)> {
    let mut changes = Vec::new();
    let mut pieces: HashMap<[u8; 4], Vec<u8>> = HashMap::new();
    for (number, Record { kind, body }) in records.iter().enumerate() {
        let made = match *kind {
            RESUMED => {
                pieces.clear();
                continue;
            }
            PIECE => {
                let (number, content) = body.split_first_chunk().ok_or("a piece without a number")?;
                pieces.entry(*number).or_default().extend(content);
                continue;
            }
            kind if kind & IN_PIECES != 0 => {
                let number: [u8; 4] = body[..].try_into().map_err(|_| "not the number of a record in pieces")?;
                let whole = pieces.remove(&number).ok_or("a record without its pieces")?;
                changes_of(kind & !IN_PIECES, &whole, table)?
            }
            kind => changes_of(kind, body, table)?,
        };
        let Some(made) = made else { return Ok((changes, Some(number))) };
        changes.push(made);
    }
    Ok((changes, None))
}

/// Returns the segments that are valid for the table file `table`, in order; `files` are in the order of their names.
pub fn follow(files: &[Vec<u8>], table: &[u8]) -> Result<Vec<Segment>> {
    let (table_id, sequence) = (u64_at(table, TABLE_ID_AT), u64_at(table, 16));
    let mut segments = Vec::new();
    for file in files {
        segments.extend(Segment::parse(file)?.filter(|segment| segment.header.table_id == table_id));
    }
    let mut order: Vec<Segment> = Vec::new();
    let none_before = End { number: sequence, ..End::default() };
    while let Some(next) = segments.iter().position(|s| match order.last() {
        None => s.header.number == sequence || s.header.before == none_before,
        Some(last) => s.header.before == last.end,
    }) {
        let mut segment = segments.remove(next);
        // A record that cannot be read is an error for the caller that decodes it.
        if let Ok((_, Some(lost))) = changes_to(&segment.records, table) {
            segment.records.truncate(lost);
            let Builder { bytes, checksum } = Builder::behind(&segment);
            segment.end = End { offset: bytes.len() as u64, checksum, ..segment.end };
        }
        order.push(segment);
    }
    Ok(order)
}

// ---------------------------------------------------------------------------------------------
// Writing

/// Builds a segment with correct checksums, whatever its content.
#[derive(Clone)]
pub struct Builder {
    pub bytes: Vec<u8>,
    checksum: u32,
}

impl Builder {
    pub fn new(header: Header) -> Builder {
        let mut bytes = header.to_bytes().to_vec();
        let checksum = u32_at(&bytes, 60);
        bytes.resize(RECORDS_AT, 0);
        bytes[SECOND_AT..SECOND_AT + HEADER_BYTES].copy_from_slice(&header.to_bytes());
        Builder { bytes, checksum }
    }

    /// Appends to the records of `segment`.
    pub fn behind(segment: &Segment) -> Builder {
        segment.records.iter().fold(Builder::new(segment.header), |builder, r| builder.record(r.kind, &[&r.body]))
    }

    /// Appends a record with these parts as its body.
    pub fn record(self, kind: u8, parts: &[&[u8]]) -> Builder {
        let body = parts.concat();
        let len = body.len() as u32;
        self.record_of(kind, len, &body)
    }

    /// Appends a record whose length field may be wrong. The checksum covers the actual bytes.
    pub fn record_of(mut self, kind: u8, len: u32, body: &[u8]) -> Builder {
        let word = (u32::from(kind) << 24 | len & 0xFF_FFFF).to_le_bytes();
        self.checksum = chained(self.checksum, &[&word, body].concat());
        self.bytes.extend_from_slice(&self.checksum.to_le_bytes());
        self.bytes.extend_from_slice(&word);
        self.bytes.extend_from_slice(body);
        self
    }

    pub fn put(self, key: &[u8], value: &[u8]) -> Builder {
        assert!(key.len() < 0x80, "a length of one byte");
        self.record(PUT, &[&[key.len() as u8], key, value])
    }

    /// Returns the segment, padded with zeros to the next whole page.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.resize((self.bytes.len() + 8).next_multiple_of(4096), 0);
        self.bytes
    }
}
