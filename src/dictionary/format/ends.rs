//! The two ends of a dictionary file: the header, which is written last, and the footer, whose presence shows that the
//! file was not truncated.
//!
//! ```text
//! page 0          header, HEADER_BYTES of it
//! pages 1 .. P    data: consecutive cells (page.rs)
//! sections        indexes and a filter, each starting at a multiple of SECTION_ALIGN
//! footer          the last FOOTER_BYTES of the file
//! ```
//!
//! The norm is docs/dictionary-format.md. Everything read here is untrusted: [`FileHeader::parse`] and
//! [`Footer::parse`] return values that are within the file and within limits, or an error that names the field that is
//! not. Not here: the content of pages (`page.rs`) and of sections (`index/`).

use super::block::EXPANSION_MAX;
use super::layout::{BLOCK_BYTES_MAX, Compression, Layout, Order, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use super::page::head_bytes;
use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{HashFunction, HashKind};
use crate::io::File;
use crate::little_endian::padded_text;
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;

pub(crate) const HEADER_BYTES: usize = 512;
pub(crate) const FOOTER_BYTES: usize = 512;
pub(crate) const SECTION_ALIGN: u64 = 4096;
pub(crate) const SECTIONS_MAX: usize = 12;
/// The most pairs in a file, so that the sum over all shards fits a number.
const PAIRS_MAX: u64 = 1 << 48;
pub(crate) const MAGIC: &[u8; 8] = b"SPLITDCT";
const END_MAGIC: &[u8; 8] = b"SPLITEND";
const VERSION: u32 = 1;
/// Bytes for the names of types, as many as a table has.
pub(crate) const TYPES_BYTES: usize = 64;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// The header: what is known before the first record.
#[derive(Clone, Debug)]
pub(crate) struct FileHeader {
    pub page_bytes: u32,
    pub layout: Layout,
    pub compression: Compression,
    /// Raw bytes of a compressed block; 0 without compression.
    pub block_bytes: u32,
    pub order: Order,
    pub hash_id: u16,
    pub hash_seed: u64,
    pub hash_check: u64,
    /// The names of the types of keys and values, as in the root of a table; empty for bytes.
    pub types: String,
}

impl FileHeader {
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let (key_len, value_len) = match self.layout {
            Layout::Varied => (0, 0),
            Layout::Fixed { key_len, value_len } => (key_len, value_len),
        };
        let mut put = Put { out: &mut out, at: 0 };
        put.bytes(MAGIC);
        put.u32(VERSION);
        put.u32(self.page_bytes);
        put.u32(u32::from(self.layout != Layout::Varied));
        put.u32(key_len);
        put.u32(value_len);
        put.u32(self.compression as u32);
        put.u32(self.block_bytes);
        put.u32(self.order as u32);
        put.u32(u32::from(self.hash_id));
        put.u32(0);
        put.u64(self.hash_seed);
        put.u64(self.hash_check);
        put.bytes(self.types.as_bytes());
        seal(&mut out);
        out
    }

    /// Reads the header of a file of `file_bytes` bytes. The rest of its page must be zeros.
    pub fn read(path: &Path, file: &dyn File, file_bytes: u64) -> Result<FileHeader> {
        let failed = |e| Error::io(path, "read the header of", e);
        let bytes = first_bytes(file, file_bytes).map_err(failed)?;
        let header = Self::parse(path, &bytes)?;
        // The footer refuses a file that is shorter than a page.
        let rest = HEADER_BYTES as u64..u64::from(header.page_bytes).min(file_bytes);
        if let Some(what) = not_zero(file, rest).map_err(failed)? {
            return Err(damaged(path, format_args!("header page: {what}")));
        }
        Ok(header)
    }

    /// Parses the header at the start of a file. `bytes` may be shorter than a header if the file is.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<FileHeader> {
        let name = path.display();
        if bytes.is_empty() {
            let what = format!("{name}: the file is empty, so no dictionary has been built in it yet");
            return Err(Error::new(ErrorKind::NotADictionary, what));
        }
        if !bytes.starts_with(MAGIC) {
            let what = if bytes.starts_with(b"SPLITPNT") { "a table, not a dictionary" } else { "not a dictionary" };
            return Err(Error::new(ErrorKind::NotADictionary, format!("{name}: {what} of Splitpoint")));
        }
        let bytes: &[u8; HEADER_BYTES] =
            bytes.try_into().map_err(|_| damaged(path, "the file ends within its header"))?;
        let mut get = Get { bytes, at: MAGIC.len() };
        let version = get.u32();
        if version != VERSION {
            let message = format!("{name}: dictionary format version {version}, this library reads {VERSION}");
            return Err(Error::new(ErrorKind::Version, message)
                .with_hint("Upgrade the library, or build the dictionary again."));
        }
        let wrong = |what: String| damaged(path, format_args!("header: {what}"));
        check_seal(bytes).map_err(wrong)?;
        Self::fields(&mut get).map_err(wrong)
    }

    fn fields(get: &mut Get<'_>) -> std::result::Result<FileHeader, String> {
        let page_bytes = get.u32();
        if !page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
            return Err(format!("pages of {page_bytes} bytes"));
        }
        let layout = match (get.u32(), get.u32(), get.u32()) {
            (0, 0, 0) => Layout::Varied,
            (1, key_len, value_len) if key_len > 0 || value_len > 0 => Layout::Fixed { key_len, value_len },
            (kind, ..) => return Err(format!("layout {kind} of records, or lengths that do not belong to it")),
        };
        let (compression, block_bytes) = match (get.u32(), get.u32()) {
            (0, 0) => (Compression::None, 0),
            (1, bytes @ 1..=BLOCK_BYTES_MAX) => (Compression::Lz4, bytes),
            (kind, bytes) => return Err(format!("compression {kind} in blocks of {bytes} bytes")),
        };
        let order = match get.u32() {
            0 => Order::Hash,
            1 => Order::Chunks,
            other => return Err(format!("order {other} of records")),
        };
        let hash_id = get.u32();
        let reserved = get.u32();
        let (hash_seed, hash_check) = (get.u64(), get.u64());
        let types = padded_text(&get.take::<TYPES_BYTES>()).map_err(|what| format!("the names of its types {what}"))?;
        let hash_id = u16::try_from(hash_id).ok().filter(|id| HashKind::from_id(*id).is_some());
        let hash_id = hash_id.ok_or("a hash function that this library does not know")?;
        if reserved != 0 || !get.rest_is_zero() {
            return Err("reserved bytes that are not zero".into());
        }
        Ok(FileHeader { page_bytes, layout, compression, block_bytes, order, hash_id, hash_seed, hash_check, types })
    }

    /// Whether the two can be headers of shards of one dictionary. Layout and order may differ from shard to shard.
    pub fn is_like(&self, other: &FileHeader) -> bool {
        let hash = |header: &FileHeader| (header.hash_id, header.hash_seed, header.hash_check);
        let shape = |header: &FileHeader| (header.page_bytes, header.compression);
        hash(self) == hash(other) && shape(self) == shape(other) && self.types == other.types
    }

    /// The function that the pairs were hashed with: one of the package, or `user` if the file was built with a user's
    /// own.
    pub fn hash(&self, path: &Path, user: Option<&HashFunction>) -> Result<HashFunction> {
        let kind = HashKind::from_id(self.hash_id).unwrap_or(HashKind::User);
        let own = HashFunction::new(kind, self.hash_seed);
        let hash = match (kind, user) {
            (HashKind::User, Some(user)) => user.clone(),
            _ => own,
        };
        if hash.check_value() == self.hash_check {
            return Ok(hash);
        }
        let (function, hint) = if kind == HashKind::User {
            ("a user's own hash function", "Open it with the same function.")
        } else {
            ("a hash function whose results differ here", "Open it with the version that built it.")
        };
        let message = format!("{}: was built with {function}", path.display());
        Err(Error::new(ErrorKind::WrongHash, message).with_hint(hint))
    }
}

/// The error of a damaged dictionary, or a damaged part of one, at `path`.
pub(crate) fn damaged(path: &Path, what: impl Display) -> Error {
    Error::corrupt(format!("{}: {what}", path.display()))
        .with_hint("Restore the file, or build it again from its source.")
}

/// The kind of a section. The numbers are on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SectionKind {
    /// The pages that can hold a position.
    Pages = 1, // on disk
    /// Entropy-coded tries.
    Trie = 2, // on disk
    /// Chunks.
    Chunk = 3, // on disk
    /// The pages that can hold a rank.
    Ranks = 5, // on disk
    /// The positions that exist.
    Filter = 6, // on disk
}

impl SectionKind {
    fn from_id(id: u32) -> Option<Self> {
        use SectionKind::{Chunk, Filter, Pages, Ranks, Trie};
        [Pages, Trie, Chunk, Ranks, Filter].into_iter().find(|kind| *kind as u32 == id)
    }
}

/// A part of the file after the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub kind: SectionKind,
    pub checksum: u32,
    pub offset: u64,
    pub bytes: u64,
}

/// The footer: what is known after the last record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footer {
    pub pairs: u64,
    /// Number of data pages, the first of which is page 1.
    pub pages: u64,
    /// Bytes of the stream of cells in those pages.
    pub stream_bytes: u64,
    /// Keys and values, without lengths, uncompressed.
    pub key_bytes: u64,
    pub value_bytes: u64,
    /// Shortest and longest key; all zero without pairs.
    pub key_len: (u32, u32),
    pub value_len: (u32, u32),
    /// CRC-32C of all data pages' checksums in order.
    pub data_checksum: u32,
    pub sections: Vec<Section>,
}

impl Footer {
    pub fn bytes(&self) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        let mut put = Put { out: &mut out, at: 0 };
        put.bytes(END_MAGIC);
        put.u64(self.pairs);
        put.u64(self.pages);
        put.u64(self.stream_bytes);
        put.u64(self.key_bytes);
        put.u64(self.value_bytes);
        for length in [self.key_len.0, self.key_len.1, self.value_len.0, self.value_len.1] {
            put.u32(length);
        }
        put.u32(self.data_checksum);
        put.u32(u32::try_from(self.sections.len()).expect("few sections"));
        for section in &self.sections {
            put.u32(section.kind as u32);
            put.u32(section.checksum);
            put.u64(section.offset);
            put.u64(section.bytes);
        }
        seal(&mut out);
        out
    }

    /// A number that differs, in all likelihood, from that of a file with other pairs: a hash of all fields, which
    /// include checksums.
    pub fn mark(&self) -> u64 {
        HashKind::Xxh3.hash(&self.bytes(), 0)
    }

    /// Parses the footer of a file of `file_bytes` bytes with header `header`.
    pub fn parse(path: &Path, bytes: &[u8; FOOTER_BYTES], header: &FileHeader, file_bytes: u64) -> Result<Footer> {
        let wrong = |what: String| damaged(path, format_args!("footer: {what}"));
        if !bytes.starts_with(END_MAGIC) {
            return Err(wrong("missing: the file was cut, or never finished".into()));
        }
        check_seal(bytes).map_err(wrong)?;
        let footer = Self::fields(bytes).map_err(wrong)?;
        footer.check(header, file_bytes).map_err(wrong)?;
        Ok(footer)
    }

    fn fields(bytes: &[u8; FOOTER_BYTES]) -> std::result::Result<Footer, String> {
        let mut get = Get { bytes, at: END_MAGIC.len() };
        let mut footer = Footer {
            pairs: get.u64(),
            pages: get.u64(),
            stream_bytes: get.u64(),
            key_bytes: get.u64(),
            value_bytes: get.u64(),
            key_len: (get.u32(), get.u32()),
            value_len: (get.u32(), get.u32()),
            data_checksum: get.u32(),
            sections: Vec::new(),
        };
        let count = get.u32() as usize;
        if count > SECTIONS_MAX {
            return Err(format!("{count} sections, at most {SECTIONS_MAX} can be"));
        }
        for _ in 0..count {
            let id = get.u32();
            let kind = SectionKind::from_id(id)
                .ok_or_else(|| format!("section of kind {id}, which this version does not know"))?;
            footer.sections.push(Section { kind, checksum: get.u32(), offset: get.u64(), bytes: get.u64() });
        }
        if !get.rest_is_zero() {
            return Err("reserved bytes that are not zero".into());
        }
        Ok(footer)
    }

    fn check(&self, header: &FileHeader, file_bytes: u64) -> std::result::Result<(), String> {
        let page_bytes = u64::from(header.page_bytes);
        let body = page_bytes - head_bytes(header.layout, header.compression) as u64;
        if self.pages != self.stream_bytes.div_ceil(body) {
            return Err(format!("{} pages of data for {} bytes", self.pages, self.stream_bytes));
        }
        let data_end = self.pages.checked_add(1).and_then(|pages| pages.checked_mul(page_bytes));
        let sections_end = file_bytes - FOOTER_BYTES as u64;
        let mut end = data_end.filter(|end| *end <= sections_end).ok_or("more data than the file has")?;
        for section in &self.sections {
            let section_end = section.offset.checked_add(section.bytes).filter(|end| *end <= sections_end);
            let aligned = section.offset.is_multiple_of(SECTION_ALIGN) && section.bytes.is_multiple_of(8);
            if section.offset < end || !aligned {
                return Err(format!("section of kind {} overlaps another or is not aligned", section.kind as u32));
            }
            end = section_end.ok_or("a section longer than the file")?;
        }
        if let (Compression::None, Some(bytes)) = (header.compression, header.layout.record_bytes())
            && self.pairs.checked_mul(bytes) != Some(self.stream_bytes)
        {
            return Err(format!("{} pairs of {bytes} bytes in {} bytes of data", self.pairs, self.stream_bytes));
        }
        // Every record has at least one raw byte.
        let raw_bytes_max = match header.compression {
            Compression::None => self.stream_bytes,
            Compression::Lz4 => self.stream_bytes.saturating_mul(EXPANSION_MAX),
        };
        if self.pairs > raw_bytes_max.min(PAIRS_MAX) {
            return Err(format!("{} pairs in {} bytes of data", self.pairs, self.stream_bytes));
        }
        if self.key_bytes.checked_add(self.value_bytes).is_none_or(|bytes| bytes > raw_bytes_max) {
            let (keys, values) = (self.key_bytes, self.value_bytes);
            return Err(format!("{keys} bytes of keys and {values} of values in {} bytes of data", self.stream_bytes));
        }
        self.check_indexes()
    }

    fn check_indexes(&self) -> std::result::Result<(), String> {
        let count = |kind| self.sections.iter().filter(|section| section.kind == kind).count();
        let (ranks, filters) = (count(SectionKind::Ranks), count(SectionKind::Filter));
        let indexes = self.sections.len() - ranks - filters;
        if ranks.max(filters).max(indexes) > 1 {
            return Err(format!("{indexes} indexes, {ranks} of ranks, {filters} filters: one of each at most"));
        }
        Ok(())
    }

    /// The bytes between data, sections and footer in a file of `file_bytes` bytes, which must be zeros.
    pub fn gaps(&self, page_bytes: u32, file_bytes: u64) -> Vec<Range<u64>> {
        let mut end = (self.pages + 1) * u64::from(page_bytes);
        let mut gaps = Vec::new();
        for section in &self.sections {
            gaps.push(end..section.offset);
            end = section.offset + section.bytes;
        }
        gaps.push(end..file_bytes.saturating_sub(FOOTER_BYTES as u64));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// The layout that these records get when they are built from scratch, according to their lengths.
    pub fn uniform_layout(&self) -> Layout {
        if self.pairs > 0 && self.key_len.0 == self.key_len.1 && self.value_len.0 == self.value_len.1 {
            Layout::fixed(self.key_len.0, self.value_len.0)
        } else {
            Layout::Varied
        }
    }
}

/// The bytes of the header of a file of `file_bytes` bytes; fewer if the file is shorter.
pub(crate) fn first_bytes(file: &dyn File, file_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file_bytes).unwrap_or(usize::MAX).min(HEADER_BYTES)];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Bytes compared with zero at a time.
const ZEROS_AT_ONCE: usize = 1 << 16;

/// Describes the nonzero bytes in `range` of the file: the first, and how many.
pub(crate) fn not_zero(file: &dyn File, range: Range<u64>) -> std::io::Result<Option<String>> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).map_or(ZEROS_AT_ONCE, |n| n.min(ZEROS_AT_ONCE))];
    let (mut first, mut count) = (None, 0u64);
    for from in range.clone().step_by(ZEROS_AT_ONCE) {
        let piece = &mut bytes[..(range.end - from).min(ZEROS_AT_ONCE as u64) as usize];
        file.read_at(piece, from)?;
        for (at, byte) in (from..).zip(piece.iter()).filter(|(_, byte)| **byte != 0) {
            first.get_or_insert((at, *byte));
            count += 1;
        }
    }
    Ok(first.map(|(at, byte)| {
        let Range { start, end } = range;
        format!("byte {at} is {byte:02x}, must be zero like all bytes from {start} to {end}; {count} of them are not")
    }))
}

fn seal(bytes: &mut [u8; HEADER_BYTES]) {
    let checksum = crc32c(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

fn check_seal(bytes: &[u8; HEADER_BYTES]) -> std::result::Result<(), String> {
    let mut get = Get { bytes, at: CHECKSUM_AT };
    let (stored, computed) = (get.u32(), crc32c(&bytes[..CHECKSUM_AT]));
    if stored == computed { Ok(()) } else { Err(format!("checksum {stored:08x} is stored, {computed:08x} computed")) }
}

const _: () = assert!(HEADER_BYTES == FOOTER_BYTES, "one way to seal both");

struct Put<'o> {
    out: &'o mut [u8; HEADER_BYTES],
    at: usize,
}

impl Put<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }
}

struct Get<'b> {
    bytes: &'b [u8; HEADER_BYTES],
    at: usize,
}

impl Get<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.bytes[self.at..self.at + N].try_into().expect("N bytes");
        self.at += N;
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn rest_is_zero(&self) -> bool {
        self.bytes[self.at..CHECKSUM_AT].iter().all(|byte| *byte == 0)
    }
}

#[cfg(test)]
#[path = "tests/ends.rs"]
mod tests;
