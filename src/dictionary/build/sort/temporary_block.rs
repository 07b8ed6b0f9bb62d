//! Blocks: the form of records in temporary files.
//!
//! ```text
//! checksum 4 | key_len 4 | value_len 4 | flags 4 | record_bytes 8 | records 8 | first_place 8 | places_bytes 8
//! records: key value                              all have the lengths of the header
//!       or key_len value_len+1 key value          varints; value_len+1 is 0 for a deletion; FAR is added to it
//!                                                 if the value is elsewhere, with its location here
//! places: one varint per record, the difference to the previous place; only if duplicates are errors
//! ```
//!
//! The checksum covers the rest of the block, the file number and the offset, so a misplaced block is detected. No hash
//! is stored: computing it again costs less than writing and reading it.
//!
//! Temporary files are read only by the version that wrote them, so nothing here is a permanent format.
//! Not here: which records go where (`mod.rs`), files (`temporary.rs`).

use super::lengths::Fixed;
use crate::checksum::crc32c_append;
use crate::dictionary::run::{FAR_BYTES, Record, Span, SpanKind};
use crate::varint::{get_varint, get_varint_within, push_varint};

/// Bytes before a block's records.
pub(super) const HEADER_BYTES: usize = 48;
/// The most bytes of a varint of a length, which is at most 2^32, or of a place.
const LENGTH_BYTES_MAX: usize = 5;
const PLACE_BYTES_MAX: usize = 10;
/// Added to the length of a value that is stored elsewhere. A length plus 1 is at most 2^32.
const FAR: u64 = 1 << 33;
const VARIED: u32 = 1;
const PLACES: u32 = 2;
/// Set in an [`BlockAt`] if no lengths precede the record.
const FIXED: u64 = 1 << 63;

/// The location of a record in a buffer of blocks. Ascends in the order in which records were pushed.
pub(super) type BlockAt = u64;

/// A block being filled.
#[derive(Default)]
pub(super) struct Block {
    bytes: Vec<u8>,
    places: Vec<u8>,
    records: u64,
    first_place: u64,
    last_place: u64,
    /// The capacity that the previous block used; the next one will probably need it, too.
    wanted: usize,
}

impl Block {
    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bytes in the block.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.places.len()
    }

    /// Whether the block is not empty, and either `more` bytes would exceed `limit` or it has too many records.
    #[inline]
    pub(super) fn is_full(&self, more: usize, limit: usize) -> bool {
        // Records of no bytes take memory, too, when they are sorted.
        const RECORD_BYTES_MIN: usize = 8;
        let bytes = self.bytes.len() + self.places.len();
        self.records > 0 && (bytes + more > limit || self.records as usize >= limit / RECORD_BYTES_MIN)
    }

    /// Takes an empty buffer to fill.
    pub(super) fn reuse(&mut self, mut buffer: Vec<u8>) {
        if self.bytes.capacity() < buffer.capacity() && self.is_empty() {
            buffer.clear();
            self.bytes = buffer;
        }
    }

    #[inline]
    fn make_room(&mut self, more: usize, limit: usize) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER_BYTES, 0);
        }
        let need = self.bytes.len() + more;
        if need > self.bytes.capacity() {
            self.grow(need, limit);
        }
    }

    #[cold]
    fn grow(&mut self, need: usize, limit: usize) {
        const FIRST_BYTES: usize = 1024;
        let wanted = (4 * self.bytes.capacity()).max(FIRST_BYTES).max(self.wanted).min(limit).max(need);
        self.bytes.reserve_exact(wanted - self.bytes.len());
    }

    /// Adds a record of the shared lengths, without storing them.
    #[inline]
    pub(super) fn push_fixed(&mut self, key: &[u8], value: &[u8], limit: usize) {
        self.make_room(key.len() + value.len(), limit);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.records += 1;
    }

    /// Adds a record, storing its lengths.
    #[inline]
    pub(super) fn push_varied(&mut self, record: Record<'_>, limit: usize) {
        let Record { key, value, far_len } = record;
        let bytes = key.len() + value.map_or(0, <[u8]>::len);
        self.make_room(bytes + 2 * LENGTH_BYTES_MAX, limit);
        push_varint(&mut self.bytes, key.len() as u64);
        let near = value.map_or(0, |v| v.len() as u64 + 1);
        push_varint(&mut self.bytes, far_len.map_or(near, |len| FAR + u64::from(len) + 1));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.records += 1;
    }

    /// Stores the place of the record added last.
    pub(super) fn push_place(&mut self, place: u64) {
        if self.records == 1 {
            (self.first_place, self.last_place) = (place, place);
        }
        // Wrapping: a place smaller than the previous one is allowed and only costs bytes.
        push_varint(&mut self.places, place.wrapping_sub(self.last_place));
        self.last_place = place;
    }

    /// Takes the finished block, without its checksum, and leaves an empty one.
    pub(super) fn seal(&mut self, fixed: Option<Fixed>) -> Vec<u8> {
        let record_bytes = (self.bytes.len() - HEADER_BYTES) as u64;
        let flags = if fixed.is_none() { VARIED } else { 0 } | if self.places.is_empty() { 0 } else { PLACES };
        let lengths = fixed.unwrap_or(Fixed { key_len: 0, value_len: 0 });
        self.bytes[4..8].copy_from_slice(&lengths.key_len.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&lengths.value_len.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        let words = [record_bytes, self.records, self.first_place, self.places.len() as u64];
        for (i, word) in words.into_iter().enumerate() {
            self.bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(&self.places);
        self.places.clear();
        self.records = 0;
        self.wanted = self.bytes.len();
        std::mem::take(&mut self.bytes)
    }
}

/// The checksum of a block, which is stored in its first bytes.
pub(super) fn checksum(block: &[u8], file: u32, offset: u64) -> u32 {
    let seed = crc32c_append(file, &offset.to_le_bytes());
    crc32c_append(seed, &block[4..])
}

/// Completes a sealed block for writing at `offset` of a file.
pub(super) fn stamp(block: &mut [u8], file: u32, offset: u64) {
    let sum = checksum(block, file, offset);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The header of a block. Nothing is checked except that its lengths can be added.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointHeader {
    pub checksum: u32,
    pub fixed: Option<Fixed>,
    pub record_bytes: usize,
    pub records: u64,
    first_place: u64,
    has_places: bool,
    pub block_bytes: usize,
}

impl CheckpointHeader {
    pub(super) fn parse(bytes: &[u8]) -> Option<CheckpointHeader> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let flags = word(12)?;
        let fixed = Fixed { key_len: word(4)?, value_len: word(8)? };
        let (record_bytes, places_bytes) = (usize::try_from(long(16)?).ok()?, usize::try_from(long(40)?).ok()?);
        let header = CheckpointHeader {
            checksum: word(0)?,
            fixed: (flags & VARIED == 0).then_some(fixed),
            record_bytes,
            records: long(24)?,
            first_place: long(32)?,
            has_places: flags & PLACES != 0,
            block_bytes: HEADER_BYTES.checked_add(record_bytes)?.checked_add(places_bytes)?,
        };
        // Every record has at least one byte: its lengths, or without lengths its content.
        (header.records <= record_bytes as u64 && flags <= (VARIED | PLACES)).then_some(header)
    }
}

/// Calls `f` for each block of `raw`, with its header and where it begins. `None` if the bytes are not whole blocks.
pub(super) fn walk_blocks(raw: &[u8], mut f: impl FnMut(&CheckpointHeader, usize) -> Option<()>) -> Option<()> {
    let mut start = 0;
    while start < raw.len() {
        let header = CheckpointHeader::parse(&raw[start..])?;
        if header.block_bytes > raw.len() - start {
            return None;
        }
        f(&header, start)?;
        start += header.block_bytes;
    }
    Some(())
}

/// Calls `f` for each record of `raw`, in the order in which they were pushed. `None` if the bytes are not records.
#[inline]
pub(super) fn walk(raw: &[u8], fixed: Option<Fixed>, mut f: impl FnMut(BlockAt, &[u8])) -> Option<()> {
    walk_blocks(raw, |header, start| {
        let from = start + HEADER_BYTES;
        let records = &raw[from..from + header.record_bytes];
        match header.fixed {
            Some(lengths) => {
                let stride = lengths.stride();
                if stride == 0
                    || Some(lengths) != fixed
                    || header.records.checked_mul(stride as u64) != Some(records.len() as u64)
                {
                    return None;
                }
                for (i, record) in records.chunks_exact(stride).enumerate() {
                    f((from + i * stride) as u64 | FIXED, &record[..lengths.key_len as usize]);
                }
            }
            None => {
                let (mut at, mut left) = (0, header.records);
                while at < records.len() {
                    let (record, bytes) = varied(&records[at..])?;
                    f((from + at) as u64, record.key);
                    at += bytes;
                    left = left.checked_sub(1)?;
                }
                if left > 0 {
                    return None;
                }
            }
        }
        Some(())
    })
}

/// The record with lengths at the start of `bytes`, and the number of bytes it takes.
#[inline]
fn varied(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let (key_len, key_at) = get_varint(bytes)?;
    let (code, value_at) = get_varint(&bytes[key_at..])?;
    let far_len = (code as u64).checked_sub(FAR + 1).and_then(|len| u32::try_from(len).ok());
    let behind = if far_len.is_some() { FAR_BYTES } else { code.saturating_sub(1) };
    let start = key_at + value_at;
    // No overflow: varints here are below 2^35.
    let end = start + key_len + behind;
    let body = bytes.get(start..end)?;
    let (key, value) = body.split_at(key_len);
    Some((Record { key, value: (code > 0).then_some(value), far_len }, end))
}

/// The record at a location that [`walk`] passed to its callback.
#[inline]
pub(super) fn record(raw: &[u8], at: BlockAt, fixed: Option<Fixed>) -> Record<'_> {
    let start = offset(at);
    if at & FIXED != 0 {
        let lengths = fixed.expect("walk compared the lengths");
        let (key, value) = raw[start..start + lengths.stride()].split_at(lengths.key_len as usize);
        return Record { key, value: Some(value), far_len: None };
    }
    varied(&raw[start..]).expect("walk has read it before").0
}

/// The span in `raw` of a record that [`walk`] passed to its callback.
#[inline]
pub(super) fn span(raw: &[u8], at: BlockAt, fixed: Option<Fixed>) -> Span {
    let start = offset(at);
    if at & FIXED != 0 {
        let Fixed { key_len, value_len } = fixed.expect("walk compared the lengths");
        return Span { start, key_len, value_len, kind: SpanKind::Near };
    }
    let (record, bytes) = varied(&raw[start..]).expect("walk has read it before");
    Span::of(record, start + bytes - record.key.len() - record.value.map_or(0, <[u8]>::len))
}

/// The offset at which the bytes of a record start.
#[inline]
pub(super) fn offset(at: BlockAt) -> usize {
    (at & !FIXED) as usize
}

/// The place of each record, in the order of [`walk`]; zeros for blocks without places.
pub(super) fn places(raw: &[u8]) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    walk_blocks(raw, |header, start| {
        let places = &raw[start + HEADER_BYTES + header.record_bytes..start + header.block_bytes];
        let (mut place, mut at) = (header.first_place, 0);
        for _ in 0..header.records {
            if header.has_places {
                let (more, bytes) = get_varint_within::<PLACE_BYTES_MAX>(places.get(at..)?)?;
                place = place.wrapping_add(more);
                at += bytes;
            }
            all.push(place);
        }
        Some(())
    })?;
    Some(all)
}
