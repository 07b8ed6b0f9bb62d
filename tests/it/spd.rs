//! A second reader of `.spd` files, written from docs/dictionary-format.md alone.
//!
//! It shares no line with the library, so that a mistake in one does not hide in the other. It reads whole files into
//! memory, is not optimized, and trusts nothing it reads. [`Reader::new`] reads all records by walking the stream;
//! [`Reader::find`] looks one up as the page says for the file's index; [`Reader::check`] makes all the checks that the
//! page lists under *verify*.
//!
//! Names and numbers are those of docs/dictionary-format.md. In `spd/`: sequences, the indexes, the manifest, and the
//! locations of the fields for tests that damage them. Not here: hash functions (the library's), writing a file, except
//! for checksums.

#[path = "spd/chunk.rs"] // from this file, also where that is a module of another crate (fuzz/)
pub mod chunk;
#[path = "spd/fields.rs"]
pub mod fields;
#[path = "spd/filter.rs"]
mod filter;
#[path = "spd/indexes.rs"]
pub mod indexes;
#[path = "spd/lz4.rs"]
mod lz4;
#[path = "spd/manifest.rs"]
pub mod manifest;
#[path = "spd/sequence.rs"]
pub mod sequence;
#[path = "spd/trie.rs"]
pub mod trie;

use crate::spt::{crc32c, u16_at, u32_at, u64_at};
use filter::Filter;
use indexes::Index;
use splitpoint::HashKind;
use std::ops::Range;

pub type Result<T> = std::result::Result<T, String>;

pub const MAGIC: &[u8; 8] = b"SPLITDCT";
const END_MAGIC: &[u8; 8] = b"SPLITEND";
pub const HEADER_BYTES: usize = 512;
pub const FOOTER_BYTES: usize = 512;
pub const SECTIONS_AT: usize = 72;
pub const SECTION_BYTES: usize = 24;
const SECTIONS_MAX: usize = 12;
const SECTION_ALIGN: usize = 4096;
const START_COUNT: usize = 8;
const NO_START: u16 = u16::MAX;
const BLOCK_HEAD_BYTES: usize = 28;

/// Returns an error unless the condition holds.
fn must(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(what()) }
}

pub struct Header {
    pub page_bytes: usize,
    /// The length of every key and value, if fixed.
    pub fixed: Option<(usize, usize)>,
    pub compressed: bool,
    pub block_bytes: u64,
    pub order: u32,
    pub hash: HashKind,
    pub hash_seed: u64,
}

impl Header {
    fn parse(file: &[u8]) -> Result<Header> {
        let bytes = file.get(..HEADER_BYTES).ok_or("no room for a header")?;
        must(bytes.starts_with(MAGIC), || "not a dictionary".into())?;
        must(u32_at(bytes, 8) == 1, || format!("version {}", u32_at(bytes, 8)))?;
        must(u32_at(bytes, 508) == crc32c(0, &bytes[..508]), || "header: checksum".into())?;
        let page_bytes = u32_at(bytes, 12) as usize;
        must(page_bytes.is_power_of_two() && (512..=65536).contains(&page_bytes), || {
            format!("page_bytes {page_bytes}")
        })?;
        let lengths = (u32_at(bytes, 20) as usize, u32_at(bytes, 24) as usize);
        let fixed = match (u32_at(bytes, 16), lengths == (0, 0)) {
            (0, true) => None,
            (1, false) => Some(lengths),
            (layout, _) => return Err(format!("layout {layout} with lengths {lengths:?}")),
        };
        let (compression, block_bytes) = (u32_at(bytes, 28), u32_at(bytes, 32));
        let legal = match compression {
            0 => block_bytes == 0,
            1 => (1..=1 << 24).contains(&block_bytes),
            _ => false,
        };
        must(legal, || format!("compression {compression}, blocks of {block_bytes}"))?;
        let order = u32_at(bytes, 36);
        must(order <= 1, || format!("order {order}"))?;
        let hash =
            u16::try_from(u32_at(bytes, 40)).ok().and_then(HashKind::from_id).ok_or("an unknown hash function")?;
        must(u32_at(bytes, 44) == 0 && bytes[128..508].iter().all(|&b| b == 0), || "header: reserved bytes".into())?;
        let block_bytes = block_bytes.into();
        Ok(Header {
            page_bytes,
            fixed,
            compressed: compression == 1,
            block_bytes,
            order,
            hash,
            hash_seed: u64_at(bytes, 48),
        })
    }

    /// Returns the bytes of a page before its body.
    pub fn head_bytes(&self) -> usize {
        if self.fixed.is_some() && !self.compressed { 4 } else { 4 + 2 * START_COUNT }
    }

    pub fn body_bytes(&self) -> usize {
        self.page_bytes - self.head_bytes()
    }

    /// Returns the position of a key: its hash, with the 64 bits reversed.
    pub fn position(&self, key: &[u8]) -> u64 {
        self.hash.hash(key, self.hash_seed).reverse_bits()
    }
}

pub struct Section {
    pub kind: u32,
    pub offset: usize,
    pub bytes: usize,
}

pub struct Footer {
    pub pairs: u64,
    pub pages: usize,
    pub stream_bytes: usize,
    pub sections: Vec<Section>,
}

impl Footer {
    fn parse(file: &[u8], header: &Header) -> Result<Footer> {
        let at = file.len().checked_sub(FOOTER_BYTES).filter(|at| *at >= HEADER_BYTES).ok_or("no room for a footer")?;
        let bytes = &file[at..];
        must(bytes.starts_with(END_MAGIC), || "no footer".into())?;
        must(u32_at(bytes, 508) == crc32c(0, &bytes[..508]), || "footer: checksum".into())?;
        let (pairs, pages, stream_bytes) = (u64_at(bytes, 8), u64_at(bytes, 16), u64_at(bytes, 24));
        let count = u32_at(bytes, 68) as usize;
        must(count <= SECTIONS_MAX, || format!("{count} sections"))?;
        let used = SECTIONS_AT + count * SECTION_BYTES;
        must(bytes[used..508].iter().all(|&b| b == 0), || "footer: reserved bytes".into())?;
        must(pages == stream_bytes.div_ceil(header.body_bytes() as u64), || format!("{pages} pages"))?;
        let fits = |end: u128| end <= at as u128;
        must(fits((u128::from(pages) + 1) * header.page_bytes as u128), || format!("{pages} pages in the file"))?;
        if !header.compressed {
            must(pairs <= stream_bytes, || format!("{pairs} pairs"))?;
            if let Some((key_len, value_len)) = header.fixed {
                let bytes = u128::from(pairs) * (key_len + value_len) as u128;
                must(bytes == u128::from(stream_bytes), || format!("{pairs} fixed pairs"))?;
            }
        }
        let mut end = (pages as usize + 1) * header.page_bytes;
        let mut sections = Vec::new();
        for n in 0..count {
            let at = SECTIONS_AT + n * SECTION_BYTES;
            let (kind, checksum) = (u32_at(bytes, at), u32_at(bytes, at + 4));
            let (offset, length) = (u64_at(bytes, at + 8), u64_at(bytes, at + 16));
            must(fits(u128::from(offset) + u128::from(length)), || format!("section {n} is not in the file"))?;
            let (offset, length) = (offset as usize, length as usize);
            let legal =
                offset >= end && offset % SECTION_ALIGN == 0 && length % 8 == 0 && matches!(kind, 1..=3 | 5 | 6);
            must(legal, || format!("section {n}: kind {kind}, at {offset}, {length} bytes"))?;
            must(crc32c(0, &file[offset..offset + length]) == checksum, || format!("section {n}: checksum"))?;
            must(file[end..offset].iter().all(|&b| b == 0), || format!("section {n}: no zeros before it"))?;
            end = offset + length;
            sections.push(Section { kind, offset, bytes: length });
        }
        must(file[end..at].iter().all(|&b| b == 0), || "no zeros before the footer".into())?;
        let (pages, stream_bytes) = (pages as usize, stream_bytes as usize);
        Ok(Footer { pairs, pages, stream_bytes, sections })
    }
}

/// A cell of the stream: a record or a block.
pub struct Cell {
    pub stream: Range<usize>,
    /// Ranks of its records.
    pub ranks: Range<u64>,
    pub position: u64,
}

pub struct Record {
    pub position: u64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

pub struct Reader {
    pub header: Header,
    pub footer: Footer,
    pub cells: Vec<Cell>,
    /// In the order of their ranks.
    pub records: Vec<Record>,
    pub index: Index,
    pub filter: Option<Filter>,
}

impl Reader {
    pub fn new(file: &[u8]) -> Result<Reader> {
        let header = Header::parse(file)?;
        let footer = Footer::parse(file, &header)?;
        must(file[HEADER_BYTES..header.page_bytes].iter().all(|&b| b == 0), || "no zeros behind the header".into())?;
        let stream = stream(file, &header, &footer)?;
        let (cells, records) = (Vec::new(), Vec::new());
        let mut reader = Reader { header, footer, cells, records, index: Index::None, filter: None };
        reader.walk(&stream)?;
        reader.starts(file)?;
        reader.lengths(&file[file.len() - FOOTER_BYTES..])?;
        reader.index = Index::parse(file, &reader)?;
        reader.filter = reader.parse_filter(file)?;
        Ok(reader)
    }

    fn walk(&mut self, stream: &[u8]) -> Result<()> {
        let mut at = 0;
        let mut ended_early = false;
        while at < stream.len() {
            let first_rank = self.records.len() as u64;
            let end = if self.header.compressed {
                let head = stream.get(at..at + BLOCK_HEAD_BYTES).ok_or("the head of a block is cut")?;
                let (raw_bytes, stored_bytes, count) = (u64_at(head, 0), u64_at(head, 8), u32_at(head, 16));
                let legal = stored_bytes <= raw_bytes
                    && stored_bytes >= raw_bytes / 255
                    && (1..=raw_bytes).contains(&u64::from(count));
                must(legal, || format!("a block of {raw_bytes} bytes in {stored_bytes}, {count} records"))?;
                let from = at + BLOCK_HEAD_BYTES;
                let end = usize::try_from(stored_bytes).ok().and_then(|bytes| from.checked_add(bytes));
                let stored = end.and_then(|end| stream.get(from..end)).ok_or("a block is cut")?;
                let unpacked =
                    (stored_bytes != raw_bytes).then(|| lz4::unpack(stored, raw_bytes as usize)).transpose()?;
                let raw = unpacked.as_deref().unwrap_or(stored);
                let mut at_raw = 0;
                let mut before_last = 0;
                for _ in 0..count {
                    before_last = at_raw;
                    at_raw = self.record(raw, at_raw)?;
                }
                must(at_raw == raw.len(), || "bytes behind a block's records".into())?;
                let position = self.records[first_rank as usize].position;
                must(u64_at(head, 20) == position, || "the position of a block".into())?;
                let end = end.expect("looked at above");
                let block_bytes = self.header.block_bytes;
                let last = (raw.len() - before_last) as u64;
                must(count == 1 || last < block_bytes, || "a long record in a block with others".into())?;
                must(last <= block_bytes.max(1 << 20) || stored_bytes == raw_bytes, || "a long record, packed".into())?;
                must(!ended_early || last >= block_bytes, || "a block ends before a short record".into())?;
                ended_early = (raw.len() as u64) < block_bytes;
                must((before_last as u64) < block_bytes, || "a block ends too late".into())?;
                end
            } else {
                self.record(stream, at)?
            };
            let position = self.records[first_rank as usize].position;
            self.cells.push(Cell { stream: at..end, ranks: first_rank..self.records.len() as u64, position });
            at = end;
        }
        let count = self.records.len() as u64;
        must(count == self.footer.pairs, || format!("{count} records, the footer says {}", self.footer.pairs))
    }

    /// Reads the record at `at`; returns where it ends.
    fn record(&mut self, bytes: &[u8], mut at: usize) -> Result<usize> {
        let (key_len, value_len) = match self.header.fixed {
            Some(lengths) => lengths,
            None => (varint(bytes, &mut at)?, varint(bytes, &mut at)?),
        };
        let (key_end, end) = (at + key_len, at + key_len + value_len);
        let key = bytes.get(at..key_end).ok_or("a key is cut")?.to_vec();
        let value = bytes.get(key_end..end).ok_or("a value is cut")?.to_vec();
        self.records.push(Record { position: self.header.position(&key), key, value });
        Ok(end)
    }

    /// Checks that the starts in each page are those of its cells.
    fn starts(&self, file: &[u8]) -> Result<()> {
        if self.header.head_bytes() == 4 {
            return Ok(());
        }
        let body = self.header.body_bytes();
        for page in 0..self.footer.pages {
            let at = (page + 1) * self.header.page_bytes + 4;
            let stored: Vec<u16> = (0..START_COUNT).map(|k| u16_at(file, at + 2 * k)).collect();
            let stream = page * body..(page + 1) * body;
            let first = self.cells.partition_point(|cell| cell.stream.start < stream.start);
            let begun: Vec<usize> =
                self.cells[first..].iter().map(|u| u.stream.start).take_while(|start| *start < stream.end).collect();
            if begun.is_empty() {
                let back = page - self.cells[first - 1].stream.start / body;
                let found = u32_at(file, at + 2 * START_COUNT - 4) as usize;
                let alone = stored[..START_COUNT - 2].iter().all(|&start| start == NO_START);
                must(alone && found == back, || format!("page {}: {found} pages back, not {back}", page + 1))?;
                continue;
            }
            for (k, &start) in stored.iter().enumerate() {
                let from = stream.start + k * body / START_COUNT;
                let wanted = begun.iter().find(|at| **at >= from).map_or(NO_START, |at| (at - stream.start) as u16);
                must(start == wanted, || format!("page {}: start {k} is {start}, not {wanted}", page + 1))?;
            }
        }
        Ok(())
    }

    /// Checks the lengths of records that the footer has.
    fn lengths(&self, footer: &[u8]) -> Result<()> {
        let keys: Vec<usize> = self.records.iter().map(|record| record.key.len()).collect();
        let values: Vec<usize> = self.records.iter().map(|record| record.value.len()).collect();
        for (lengths, sum_at, ends_at) in [(&keys, 32, 48), (&values, 40, 56)] {
            let sum = lengths.iter().sum::<usize>() as u64;
            must(u64_at(footer, sum_at) == sum, || "the sum of lengths".into())?;
            let ends = (lengths.iter().min().copied().unwrap_or(0), lengths.iter().max().copied().unwrap_or(0));
            let stored = (u32_at(footer, ends_at) as usize, u32_at(footer, ends_at + 4) as usize);
            must(stored == ends, || format!("shortest and longest {stored:?}, not {ends:?}"))?;
        }
        let alike = |lengths: &[usize]| lengths.iter().all(|length| *length == lengths[0]);
        let fixed = !keys.is_empty() && alike(&keys) && alike(&values) && (keys[0], values[0]) != (0, 0);
        must(fixed == self.header.fixed.is_some(), || "fixed or varied".into())
    }

    fn parse_filter(&self, file: &[u8]) -> Result<Option<Filter>> {
        let mut filters = self.footer.sections.iter().filter(|section| section.kind == 6);
        let Some(section) = filters.next() else { return Ok(None) };
        must(filters.next().is_none(), || "two filters".into())?;
        let words: Vec<u64> = (0..section.bytes / 8).map(|n| u64_at(file, section.offset + 8 * n)).collect();
        let mut positions: Vec<u64> = self.records.iter().map(|record| record.position).collect();
        positions.sort_unstable();
        positions.dedup();
        Filter::parse(&words, &positions).map(Some)
    }

    /// Looks up the value of a key with filter and index.
    pub fn find(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        let position = self.header.position(key);
        if self.filter.as_ref().is_some_and(|filter| !filter.passes(position)) {
            return Ok(None);
        }
        let pages = match self.index.place(position)? {
            indexes::Place::Pages(pages) => pages,
            indexes::Place::Ranks(ranks) => {
                if self.records_of_one_size() {
                    let mut among = self.records[ranks.start as usize..ranks.end as usize].iter();
                    return Ok(among.find(|record| record.key == key).map(|record| &record.value[..]));
                }
                if ranks.is_empty() {
                    return Ok(None);
                }
                let pages = self.index.pages_of_rank(ranks.start);
                pages.start..self.index.pages_of_rank(ranks.end - 1).end
            }
        };
        let body = self.header.body_bytes();
        let stream = pages.start * body..pages.end * body;
        let first = self.cells.partition_point(|cell| cell.stream.start < stream.start);
        let end = self.cells.partition_point(|cell| cell.stream.end <= stream.end).max(first);
        let ranks = self.cells[first..end].iter().flat_map(|cell| cell.ranks.clone());
        let mut records = ranks.map(|rank| &self.records[rank as usize]);
        Ok(records.find(|record| record.key == key).map(|record| &record.value[..]))
    }

    pub fn records_of_one_size(&self) -> bool {
        self.header.fixed.is_some() && !self.header.compressed
    }

    /// Makes the remaining checks of *verify*: order, no duplicate keys, every record found by the index.
    pub fn check(&self) -> Result<()> {
        self.index.check_order(self)?;
        for (rank, record) in self.records.iter().enumerate() {
            let found = self.find(&record.key).map_err(|e| format!("record {rank}: {e}"))?;
            must(found == Some(&record.value), || format!("record {rank}: the index does not lead to it"))?;
        }
        Ok(())
    }
}

/// Checks all pages; returns their concatenated bodies.
fn stream(file: &[u8], header: &Header, footer: &Footer) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    let mut sums = Vec::new();
    for page in 1..=footer.pages {
        let bytes = &file[page * header.page_bytes..(page + 1) * header.page_bytes];
        let sum = page_sum(page, bytes);
        must(u32_at(bytes, 0) == sum, || format!("page {page}: checksum"))?;
        sums.extend(sum.to_le_bytes());
        stream.extend_from_slice(&bytes[header.head_bytes()..]);
    }
    let stored = u32_at(file, file.len() - FOOTER_BYTES + 64);
    must(stored == crc32c(0, &sums), || "the checksum of all pages".into())?;
    let zeros = stream.split_off(footer.stream_bytes);
    must(zeros.iter().all(|&b| b == 0), || "no zeros behind the stream".into())?;
    Ok(stream)
}

fn page_sum(page: usize, bytes: &[u8]) -> u32 {
    crc32c(crc32c(0, &(page as u64).to_le_bytes()), &bytes[4..])
}

/// Reads a number of 7 bits per byte, low ones first, up to 2^32 - 1, no longer than needed.
fn varint(bytes: &[u8], at: &mut usize) -> Result<usize> {
    let mut value = 0u64;
    for n in 0..5 {
        let byte = *bytes.get(*at).ok_or("a length is cut")?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << (7 * n);
        if byte & 0x80 == 0 {
            must(value <= u64::from(u32::MAX) && (byte != 0 || n == 0), || {
                "a length that is written otherwise".into()
            })?;
            return Ok(value as usize);
        }
    }
    Err("a length of more than 5 bytes".into())
}

/// Corrects the checksums whose extent is known: pages, sections, header, footer.
pub fn repair(file: &mut [u8]) {
    if file.len() < HEADER_BYTES + FOOTER_BYTES {
        return;
    }
    let sum = crc32c(0, &file[..508]);
    file[508..512].copy_from_slice(&sum.to_le_bytes());
    let at = file.len() - FOOTER_BYTES;
    let page_bytes = u32_at(file, 12) as usize;
    let pages = u64_at(file, at + 16) as usize;
    if (512..=65536).contains(&page_bytes) {
        let mut sums = Vec::new();
        for page in 1..=pages.min(at / page_bytes) {
            let bytes = page * page_bytes..(page + 1) * page_bytes;
            if bytes.end > at {
                break;
            }
            let sum = page_sum(page, &file[bytes.clone()]).to_le_bytes();
            file[bytes][..4].copy_from_slice(&sum);
            sums.extend(sum);
        }
        let sum = crc32c(0, &sums);
        file[at + 64..at + 68].copy_from_slice(&sum.to_le_bytes());
    }
    for n in 0..(u32_at(file, at + 68) as usize).min(SECTIONS_MAX) {
        let entry = at + SECTIONS_AT + n * SECTION_BYTES;
        let (offset, bytes) = (u64_at(file, entry + 8), u64_at(file, entry + 16));
        if offset.checked_add(bytes).is_some_and(|end| end <= at as u64) {
            let sum = crc32c(0, &file[offset as usize..(offset + bytes) as usize]);
            file[entry + 4..entry + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc32c(0, &file[at..at + 508]);
    file[at + 508..].copy_from_slice(&sum.to_le_bytes());
}
