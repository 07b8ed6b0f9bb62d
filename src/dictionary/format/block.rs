//! Compressed blocks: several consecutive records, compressed as one cell of the stream.
//!
//! ```text
//! 0            8               16             20          28
//! | raw bytes  | stored bytes  | record count | position  | stored bytes |
//! ```
//!
//! The stored bytes are LZ4, or the raw bytes if LZ4 does not make them shorter.
//! `position` is that of the first record. A block ends with the record that brings it to the size in the header; a
//! record of at least that size is a block by itself. A record of more than [`COMPRESSED_MAX`] is not compressed, so
//! that it can be written and read in small parts. Decompression allocates the size in the head only after two checks:
//! [`BlockHead::parse`] compares it with what LZ4 can expand to, and [`unpack`] with the largest block that these
//! records can make and a writer compresses.

use crate::little_endian::u64_at;

pub(crate) const HEAD_BYTES: usize = 28;
/// The most bytes that LZ4 can expand one byte to.
pub(crate) const EXPANSION_MAX: u64 = 255;
/// The most raw bytes that are compressed, unless the header asks for more.
pub(crate) const COMPRESSED_MAX: usize = if cfg!(test) { 1 << 14 } else { 1 << 20 };

/// The most raw bytes of a compressed block. Either it has one record, or its last record and all the others together
/// have fewer than `block_bytes` each.
pub(crate) fn compressed_bytes_max(block_bytes: u32) -> u64 {
    (2 * u64::from(block_bytes)).max(COMPRESSED_MAX as u64)
}

/// The head of a block with one uncompressed record.
pub(crate) fn head_of_one(position: u64, raw_bytes: u64) -> [u8; HEAD_BYTES] {
    BlockHead { raw_bytes, stored_bytes: raw_bytes, records: 1, position }.bytes()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHead {
    pub raw_bytes: u64,
    pub stored_bytes: u64,
    pub records: u32,
    pub position: u64,
}

impl BlockHead {
    fn bytes(&self) -> [u8; HEAD_BYTES] {
        let mut out = [0; HEAD_BYTES];
        out[..8].copy_from_slice(&self.raw_bytes.to_le_bytes());
        out[8..16].copy_from_slice(&self.stored_bytes.to_le_bytes());
        out[16..20].copy_from_slice(&self.records.to_le_bytes());
        out[20..].copy_from_slice(&self.position.to_le_bytes());
        out
    }

    /// The head at the start of `bytes`, checked for consistency; `None` if there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<std::result::Result<BlockHead, &'static str>> {
        let bytes = bytes.get(..HEAD_BYTES)?;
        let records = u32::from_le_bytes(bytes[16..20].try_into().expect("4 bytes"));
        let head = BlockHead {
            raw_bytes: u64_at(bytes, 0),
            stored_bytes: u64_at(bytes, 8),
            records,
            position: u64_at(bytes, 20),
        };
        Some(head.check())
    }

    fn check(self) -> std::result::Result<BlockHead, &'static str> {
        let possible = self.stored_bytes <= self.raw_bytes
            && self.raw_bytes / EXPANSION_MAX <= self.stored_bytes
            && self.records > 0
            && u64::from(self.records) <= self.raw_bytes;
        if possible { Ok(self) } else { Err("the head of a block says what cannot be") }
    }

    /// Bytes of the whole cell; more than any file has if the head is impossible.
    pub fn cell_bytes(&self) -> u64 {
        self.stored_bytes.saturating_add(HEAD_BYTES as u64)
    }
}

/// The records of the block whose stored bytes are `stored`. Decompresses into `raw`, unless they would exceed
/// `raw_bytes_max`.
pub(crate) fn unpack<'r>(
    head: &BlockHead,
    stored: &'r [u8],
    raw_bytes_max: u64,
    raw: &'r mut Vec<u8>,
) -> std::result::Result<&'r [u8], &'static str> {
    if head.stored_bytes == head.raw_bytes {
        return Ok(stored);
    }
    if head.raw_bytes > raw_bytes_max {
        return Err("a block says that it has more bytes than its records can have");
    }
    let raw_bytes = usize::try_from(head.raw_bytes).map_err(|_| "a block larger than memory can be")?;
    raw.try_reserve_exact(raw_bytes.saturating_sub(raw.len()))
        .map_err(|_| "a block larger than memory has room for")?;
    raw.resize(raw_bytes, 0);
    match lz4_flex::block::decompress_into(stored, raw) {
        Ok(bytes) if bytes == raw_bytes => Ok(raw),
        _ => Err("a block does not decompress to what its head says"),
    }
}

/// Collects records until they form a block.
pub(crate) struct BlockWriter {
    block_bytes: usize,
    raw: Vec<u8>,
    stored: Vec<u8>,
    records: u32,
    position: u64,
    rank: u64,
}

/// A finished block: the head, then the stored bytes.
pub(crate) struct Packed<'b> {
    pub position: u64,
    pub rank: u64,
    pub head: [u8; HEAD_BYTES],
    pub stored: &'b [u8],
}

impl BlockWriter {
    pub fn new(block_bytes: u32) -> Self {
        let block_bytes = block_bytes as usize;
        BlockWriter { block_bytes, raw: Vec::new(), stored: Vec::new(), records: 0, position: 0, rank: 0 }
    }

    /// The size at which a block ends.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Longer records are not compressed.
    pub fn compressed_max(&self) -> usize {
        COMPRESSED_MAX.max(self.block_bytes)
    }

    /// Adds the next record, in parts. Returns true if the block is now full.
    pub fn add(&mut self, position: u64, rank: u64, parts: [&[u8]; 3]) -> bool {
        if self.records == 0 {
            (self.position, self.rank) = (position, rank);
        }
        for part in parts {
            self.raw.extend_from_slice(part);
        }
        self.records += 1;
        self.raw.len() >= self.block_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The block so far; call [`clear`](Self::clear) when it is written.
    pub fn pack(&mut self) -> Packed<'_> {
        self.stored.resize(lz4_flex::block::get_maximum_output_size(self.raw.len()), 0);
        let compressed = lz4_flex::block::compress_into(&self.raw, &mut self.stored).ok();
        let stored = match compressed {
            Some(bytes) if bytes < self.raw.len() => &self.stored[..bytes],
            _ => &self.raw[..],
        };
        let head = BlockHead {
            raw_bytes: self.raw.len() as u64,
            stored_bytes: stored.len() as u64,
            records: self.records,
            position: self.position,
        };
        Packed { position: self.position, rank: self.rank, head: head.bytes(), stored }
    }

    pub fn clear(&mut self) {
        self.raw.clear();
        self.records = 0;
    }
}

#[cfg(test)]
#[path = "tests/block.rs"]
mod tests;
