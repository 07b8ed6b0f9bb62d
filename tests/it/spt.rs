//! A second reader of `.spt` files, written from docs/format.md alone.
//!
//! It shares no line with the library, so that a mistake in one does not hide in the other: `format.rs` compares the
//! results of both, `corruption.rs` uses it to find fields worth damaging and to correct the checksums. It reads whole
//! files into memory, is not optimized, and trusts nothing it reads.
//!
//! Names and numbers are those of docs/format.md. Not here: the log (`spt/log.rs`); writing a table; hash functions.

#[path = "spt/log.rs"] // from this file, also where that is a module of another crate (fuzz/)
pub mod log;

use std::collections::BTreeSet;

pub type Result<T> = std::result::Result<T, String>;
pub type Pair = (Vec<u8>, Vec<u8>);

pub const MAGIC: &[u8; 8] = b"SPLITPNT";
pub const JOURNAL_MAGIC: &[u8; 8] = b"SPLITJRN";
pub const JOURNAL_HEADER_BYTES: usize = 64;
pub const JOURNAL_TABLE_ID_AT: usize = 36;
pub const JOURNAL_BASE_AT: usize = 44;
/// Bytes of the header whatever the frame size; its checksum is the last four.
pub const HEADER_BYTES: usize = 4096;
pub const ZONE_FRAMES: usize = 512;
pub const FRAME_UNITS: usize = 64;
pub const MAP_GROUPS_AT: usize = 32;
pub const MAP_GROUP_COUNT: usize = 24;
pub const TABLE_ID_AT: usize = 128;
pub const ROOT_AT: usize = 256;
pub const GROUPS_AT: usize = ROOT_AT + 128;
pub const GROUP_COUNT: usize = 746;
/// The offset of a checksum frame's own checksum.
pub const OWN_SUM_AT: usize = 4 * ZONE_FRAMES;
pub const PAGE_HEADER_BYTES: usize = 24;
pub const SLOT_BYTES: usize = 4;
pub const EXTENT_BYTES: usize = 20;

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

// ---------------------------------------------------------------------------------------------
// Checksums

/// CRC-32C, reflected, one byte at a time. `sum` is that of the preceding bytes, initially 0.
pub fn crc32c(sum: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let (mut sum, mut bit) = (n as u32, 0);
            while bit < 8 {
                sum = sum >> 1 ^ if sum & 1 == 1 { 0x82F6_3B78 } else { 0 };
                bit += 1;
            }
            table[n] = sum;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(!sum, |sum, &byte| sum >> 8 ^ TABLE[(sum as u8 ^ byte) as usize])
}

fn not_zero(sum: u32) -> u32 {
    if sum == 0 { u32::MAX } else { sum }
}

pub fn frame_sum(frame: usize, bytes: &[u8]) -> u32 {
    not_zero(crc32c(crc32c(0, &(frame as u32).to_le_bytes()), bytes))
}

/// The checksum that a checksum frame has of itself: over all but those four bytes.
pub fn own_sum(frame: usize, bytes: &[u8]) -> u32 {
    let sum = crc32c(crc32c(0, &(frame as u32).to_le_bytes()), &bytes[..OWN_SUM_AT]);
    not_zero(crc32c(sum, &bytes[OWN_SUM_AT + 4..]))
}

pub fn header_sum(bytes: &[u8]) -> u32 {
    not_zero(crc32c(0, &bytes[..HEADER_BYTES - 4]))
}

// --------------------------------------------------------------------------------------------- Locations

/// The locations given by header and root.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub frame_bytes: usize,
    pub frame_count: usize,
    pub page_bytes: usize,
    pub max_bucket: u32,
    map_groups: [usize; MAP_GROUP_COUNT],
    /// First frame of each bucket group.
    groups: Vec<usize>,
}

impl Geometry {
    pub fn parse(file: &[u8]) -> Result<Geometry> {
        if file.len() < HEADER_BYTES || &file[..8] != MAGIC || u32_at(file, 8) != 1 {
            return Err("no header of version 1".into());
        }
        let geometry = Geometry {
            frame_bytes: u32_at(file, 12) as usize,
            frame_count: u32_at(file, 24) as usize,
            page_bytes: u32_at(file, ROOT_AT) as usize,
            max_bucket: u32_at(file, ROOT_AT + 24),
            map_groups: std::array::from_fn(|k| u32_at(file, MAP_GROUPS_AT + 4 * k) as usize),
            groups: (0..GROUP_COUNT).map(|i| u32_at(file, GROUPS_AT + 4 * i) as usize).collect(),
        };
        let Geometry { frame_bytes, frame_count, page_bytes, .. } = geometry;
        if ![4096, 8192, 16384, 32768, 65536].contains(&frame_bytes) || frame_bytes != page_bytes.max(4096) {
            return Err(format!("frames of {frame_bytes} bytes, pages of {page_bytes}"));
        }
        if frame_count < 3 || file.len() < frame_count * frame_bytes {
            return Err(format!("{frame_count} frames in {} bytes", file.len()));
        }
        Ok(geometry)
    }

    pub fn unit_bytes(&self) -> usize {
        self.frame_bytes / FRAME_UNITS
    }

    pub fn frame<'f>(&self, file: &'f [u8], frame: usize) -> &'f [u8] {
        &file[frame * self.frame_bytes..(frame + 1) * self.frame_bytes]
    }

    /// The frame with the used bits of `zone`; the next one has its checksums.
    pub fn map_frame(&self, zone: usize) -> usize {
        if zone == 0 {
            return 1;
        }
        let group = zone.ilog2() as usize;
        self.map_groups.get(group).map_or(0, |first| first + 2 * (zone - (1 << group)))
    }

    fn zone_count(&self) -> usize {
        self.frame_count.div_ceil(ZONE_FRAMES)
    }

    /// All checksum frames, including the frames of zones past the end.
    pub fn sum_frames(&self) -> BTreeSet<usize> {
        let groups = self.map_groups.iter().enumerate();
        let groups = groups.filter(|&(k, &first)| first != 0 && first + (2 << k) <= self.frame_count);
        std::iter::once(2).chain(groups.flat_map(|(k, &first)| (0..1 << k).map(move |i| first + 2 * i + 1))).collect()
    }

    /// Offset of the checksum of `frame` in the file.
    pub fn sum_at(&self, frame: usize) -> usize {
        (self.map_frame(frame / ZONE_FRAMES) + 1) * self.frame_bytes + 4 * (frame % ZONE_FRAMES)
    }

    /// Offset of the used bits of `frame` in the file.
    pub fn bits_at(&self, frame: usize) -> usize {
        self.map_frame(frame / ZONE_FRAMES) * self.frame_bytes + 8 * (frame % ZONE_FRAMES)
    }

    /// The last of the bucket groups that share the first frame.
    fn groups_together(&self) -> usize {
        (self.frame_bytes / self.page_bytes).ilog2() as usize
    }

    /// The offset of the primary page of `bucket` in the file.
    pub fn page_at(&self, bucket: u32) -> Result<usize> {
        let (group, index) = group_of(bucket);
        // The groups of the first frame are adjacent, so there a bucket's number is its index.
        let place = if group <= self.groups_together() { bucket } else { index };
        let at = self.groups[group] * self.frame_bytes + place as usize * self.page_bytes;
        let end = self.frame_count * self.frame_bytes - self.page_bytes;
        if self.groups[group] == 0 || at > end { Err(format!("bucket {bucket} at byte {at}")) } else { Ok(at) }
    }
}

/// The group of a bucket and its index there: one group per generation, 32 from 512 buckets on.
pub fn group_of(bucket: u32) -> (usize, u32) {
    let mut first = 0u64;
    for group in 0..GROUP_COUNT {
        let len = group_len(group);
        if u64::from(bucket) < first + len {
            return (group, (u64::from(bucket) - first) as u32);
        }
        first += len;
    }
    unreachable!("the groups have room for 2^32 buckets")
}

fn group_len(group: usize) -> u64 {
    match group {
        0 | 1 => 1,
        2..10 => 1 << (group - 1),
        _ => 1 << (4 + (group - 10) / 32),
    }
}

// ---------------------------------------------------------------------------------------------
// Pages

/// One record of a page: a pair, or a reference to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub tag: u16,
    /// The offsets of its start, of its value and of its end.
    pub at: usize,
    pub value_at: usize,
    pub end: usize,
    pub form: u8,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// A decoded page.
#[derive(Clone, Debug)]
pub struct Page {
    pub kind: u8,
    pub level: u8,
    pub next: u64,
    pub filter: u64,
    pub records: Vec<Record>,
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<usize> {
    let mut n = 0;
    for i in 0..5 {
        let byte = *bytes.get(*at).ok_or("a length runs over its page")?;
        *at += 1;
        n |= usize::from(byte & 0x7F) << (7 * i);
        if byte < 0x80 {
            if byte == 0 && i > 0 {
                return Err("a length is longer than it need be".into());
            }
            return Ok(n);
        }
    }
    Err("a length of more than five bytes".into())
}

impl Page {
    pub fn parse(page: &[u8]) -> Result<Page> {
        let (slot_count, heap_bytes) = (u16_at(page, 2) as usize, u16_at(page, 4) as usize);
        if u16_at(page, 6) != 0 {
            return Err("bytes 6 and 7 are not zero".into());
        }
        if PAGE_HEADER_BYTES + SLOT_BYTES * slot_count + heap_bytes > page.len() {
            return Err("slots and records overlap".into());
        }
        let mut records = Vec::new();
        for slot in 0..slot_count {
            let slot_at = PAGE_HEADER_BYTES + SLOT_BYTES * slot;
            records.push(Self::record(page, u16_at(page, slot_at), u16_at(page, slot_at + 2).into())?);
        }
        // Adjacent in the order of their slots, from the end of the page to the start of the heap.
        let start = records.iter().try_fold(page.len(), |end, r: &Record| (r.end == end).then_some(r.at));
        if start != Some(page.len() - heap_bytes) {
            return Err("records overlap, leave a hole or are not in the order of their slots".into());
        }
        Ok(Page { kind: page[0], level: page[1], next: u64_at(page, 8), filter: u64_at(page, 16), records })
    }

    fn record(page: &[u8], tag: u16, offset: usize) -> Result<Record> {
        let mut at = offset;
        let head = varint(page, &mut at)?;
        let value_bytes = varint(page, &mut at)?;
        let (form, key_bytes) = ((head & 3) as u8, head >> 2);
        let (value_at, end) = (at + key_bytes, at + key_bytes + value_bytes);
        let key = page.get(at..value_at).ok_or("a key runs over its page")?.to_vec();
        let value = page.get(value_at..end).ok_or("a value runs over its page")?.to_vec();
        Ok(Record { tag, at: offset, value_at, end, form, key, value })
    }
}

/// The tag of a hash.
pub fn tag_of(hash: u64) -> u16 {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// The bits that a tag sets in the filter.
pub fn filter_bits(tag: u16) -> u64 {
    1 << (tag & 63) | 1 << (tag >> 6 & 63)
}

/// Reference to an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub unit: u64,
    pub capacity: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
}

impl Extent {
    pub fn parse(bytes: &[u8]) -> Result<Extent> {
        if bytes.len() != EXTENT_BYTES {
            return Err(format!("a reference of {} bytes to an extent", bytes.len()));
        }
        Ok(Extent {
            unit: u64_at(bytes, 0),
            capacity: u32_at(bytes, 8),
            key_bytes: u32_at(bytes, 12),
            value_bytes: u32_at(bytes, 16),
        })
    }
}

// ---------------------------------------------------------------------------------------------
// A whole file

/// A page of a bucket: its location in the file, and its content.
pub struct Found {
    pub bucket: u32,
    pub at: usize,
    pub bytes: usize,
    pub page: Page,
}

/// A file in which every checksum is right.
pub struct Reader<'f> {
    pub file: &'f [u8],
    pub geometry: Geometry,
}

impl<'f> Reader<'f> {
    pub fn new(file: &'f [u8]) -> Result<Reader<'f>> {
        let geometry = Geometry::parse(file)?;
        let reader = Reader { file, geometry };
        match reader.wrong_sums()[..] {
            [] => Ok(reader),
            ref frames => Err(format!("wrong checksums of frames {frames:?}")),
        }
    }

    /// Frames with wrong checksums.
    fn wrong_sums(&self) -> Vec<usize> {
        let sum_frames = self.geometry.sum_frames();
        let fits = |&frame: &usize| {
            let bytes = self.geometry.frame(self.file, frame);
            let (stored, computed) = match frame {
                0 => (u32_at(bytes, HEADER_BYTES - 4), header_sum(bytes)),
                _ if sum_frames.contains(&frame) => (u32_at(bytes, OWN_SUM_AT), own_sum(frame, bytes)),
                _ => (u32_at(self.file, self.geometry.sum_at(frame)), frame_sum(frame, bytes)),
            };
            stored == computed || stored == 0 && bytes.iter().all(|&b| b == 0)
        };
        (0..self.geometry.frame_count).filter(|frame| !fits(frame)).collect()
    }

    /// Every page of every bucket.
    pub fn pages(&self) -> Result<Vec<Found>> {
        let Geometry { page_bytes, max_bucket, .. } = self.geometry;
        let mut pages = Vec::new();
        for bucket in 0..=max_bucket {
            let (mut at, mut bytes, mut kind) = (self.geometry.page_at(bucket)?, page_bytes, 1);
            if self.file[at..at + bytes].iter().all(|&b| b == 0) {
                continue; // no pair was ever put into it
            }
            loop {
                let page = Page::parse(&self.file[at..at + bytes]).map_err(|e| format!("bucket {bucket}: {e}"))?;
                let next = page.next;
                if page.kind != kind {
                    return Err(format!("bucket {bucket}: a page of kind {}, expected {kind}", page.kind));
                }
                pages.push(Found { bucket, at, bytes, page });
                if next == 0 {
                    break;
                }
                (at, bytes) = self.units(next >> 16, next & 0xFFFF)?;
                kind = 2;
                if pages.len() > self.file.len() / self.geometry.unit_bytes() {
                    return Err(format!("bucket {bucket}: its overflow pages run in a circle"));
                }
            }
        }
        Ok(pages)
    }

    /// The location of `len` units from `unit` on in the file: first byte and number of bytes.
    pub fn units(&self, unit: u64, len: u64) -> Result<(usize, usize)> {
        let unit_bytes = self.geometry.unit_bytes() as u64;
        let end = unit.checked_add(len).and_then(|end| end.checked_mul(unit_bytes));
        if len == 0 || end.is_none_or(|end| end > (self.geometry.frame_count * self.geometry.frame_bytes) as u64) {
            return Err(format!("{len} units at unit {unit}"));
        }
        Ok(((unit * unit_bytes) as usize, (len * unit_bytes) as usize))
    }

    /// The pair of a record.
    pub fn pair(&self, record: &Record) -> Result<Pair> {
        if record.form == 0 {
            return Ok((record.key.clone(), record.value.clone()));
        }
        let extent = Extent::parse(&record.value)?;
        let (at, bytes) = self.units(extent.unit, extent.capacity.into())?;
        let (key_bytes, value_bytes) = (extent.key_bytes as usize, extent.value_bytes as usize);
        if key_bytes + value_bytes > bytes || (record.form == 1) != (key_bytes == 0) || record.form > 2 {
            return Err(format!("form {}: {extent:?}", record.form));
        }
        let content = &self.file[at..at + key_bytes + value_bytes];
        let key = if record.form == 1 { &record.key } else { &content[..key_bytes] };
        Ok((key.to_vec(), content[key_bytes..].to_vec()))
    }

    /// All pairs with their buckets.
    pub fn pairs(&self) -> Result<Vec<(u32, Pair)>> {
        let pages = self.pages()?;
        pages.iter().flat_map(|p| p.page.records.iter().map(|r| Ok((p.bucket, self.pair(r)?)))).collect()
    }

    /// Reachable units, one bit each, one word per frame. An error if two things share one.
    pub fn reached(&self) -> Result<Vec<u64>> {
        let g = &self.geometry;
        let mut used = vec![0u64; g.frame_count];
        let mut take = |unit: usize, len: usize| {
            for at in unit..unit + len {
                let bit = 1 << (at % FRAME_UNITS);
                if used[at / FRAME_UNITS] & bit != 0 {
                    return Err(format!("unit {at} is used twice"));
                }
                used[at / FRAME_UNITS] |= bit;
            }
            Ok(())
        };
        take(0, 3 * FRAME_UNITS)?;
        for (k, &first) in g.map_groups.iter().enumerate().filter(|&(_, &first)| first != 0) {
            take(first * FRAME_UNITS, (2 << k) * FRAME_UNITS)?;
        }
        take(g.groups[0] * FRAME_UNITS, FRAME_UNITS)?;
        for group in g.groups_together() + 1..=group_of(g.max_bucket).0 {
            take(g.groups[group] * FRAME_UNITS, group_len(group) as usize * g.page_bytes / g.unit_bytes())?;
        }
        for found in self.pages()? {
            if found.page.kind == 2 {
                take(found.at / g.unit_bytes(), found.bytes / g.unit_bytes())?;
            }
            for record in found.page.records.iter().filter(|r| r.form != 0) {
                let extent = Extent::parse(&record.value)?;
                take(extent.unit as usize, extent.capacity as usize)?;
            }
        }
        Ok(used)
    }

    /// The used bits in the map frames, one word per frame.
    pub fn marked(&self) -> Vec<u64> {
        (0..self.geometry.frame_count).map(|frame| u64_at(self.file, self.geometry.bits_at(frame))).collect()
    }
}

/// Corrects every checksum of a damaged file, as far as its header still locates them.
///
/// `pristine` locates them where the header does not. Frames that were never written stay unchanged.
pub fn repair(file: &mut [u8], pristine: &Geometry) {
    if file.len() < HEADER_BYTES {
        return;
    }
    let geometry = Geometry::parse(file).unwrap_or_else(|_| pristine.clone());
    let g = if geometry.zone_count() <= 1 || geometry.map_groups[0] != 0 { geometry } else { pristine.clone() };
    let frames = g.frame_count.min(file.len() / g.frame_bytes);
    let sum_frames = g.sum_frames();
    for frame in (1..frames).filter(|frame| !sum_frames.contains(frame)) {
        let bytes = g.frame(file, frame);
        let at = g.sum_at(frame);
        if at + 4 > file.len() || u32_at(file, at) == 0 && bytes.iter().all(|&b| b == 0) {
            continue;
        }
        let sum = frame_sum(frame, bytes);
        file[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
    for frame in sum_frames.into_iter().filter(|&frame| frame < frames) {
        let sum = own_sum(frame, g.frame(file, frame));
        let at = frame * g.frame_bytes + OWN_SUM_AT;
        file[at..at + 4].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = header_sum(file);
    file[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
}

// ---------------------------------------------------------------------------------------------
// Journals

/// A complete journal.
pub struct Journal {
    pub table_id: u64,
    pub sequence: u64,
    /// `sequence` of the previous checkpoint, 0 for the first.
    pub base: u64,
    pub frame_bytes: usize,
    pub frame_count: usize,
    pub cut: usize,
    /// Frame number and content, in the order to write them.
    pub frames: Vec<(usize, Vec<u8>)>,
}

impl Journal {
    /// `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<Journal> {
        let header = bytes.get(..JOURNAL_HEADER_BYTES)?;
        if &header[..8] != JOURNAL_MAGIC || crc32c(0, &header[..60]) != u32_at(header, 60) {
            return None;
        }
        let (frame_bytes, count) = (u32_at(header, 16) as usize, u32_at(header, 20) as usize);
        let index_at = JOURNAL_HEADER_BYTES + count * frame_bytes;
        let index = bytes.get(index_at..index_at + 8 * count)?;
        if crc32c(0, index) != u32_at(header, 28) {
            return None;
        }
        let mut frames = Vec::new();
        for (i, entry) in index.chunks_exact(8).enumerate() {
            let at = JOURNAL_HEADER_BYTES + i * frame_bytes;
            let (frame, content) = (u32_at(entry, 0) as usize, &bytes[at..at + frame_bytes]);
            if frame_sum(frame, content) != u32_at(entry, 4) {
                return None;
            }
            frames.push((frame, content.to_vec()));
        }
        let (frame_count, cut) = (u32_at(header, 24) as usize, u32_at(header, 32) as usize);
        let (table_id, sequence, base) =
            (u64_at(header, JOURNAL_TABLE_ID_AT), u64_at(header, 8), u64_at(header, JOURNAL_BASE_AT));
        Some(Journal { table_id, sequence, base, frame_bytes, frame_count, cut, frames })
    }

    /// Whether an open for writing installs it in this table file, or leaves both unchanged.
    pub fn belongs_to(&self, file: &[u8]) -> bool {
        let start = [&MAGIC[..], &1u32.to_le_bytes()].concat();
        let whole = |bytes: &[u8]| {
            bytes.len() >= HEADER_BYTES
                && bytes.starts_with(&start)
                && u32_at(bytes, HEADER_BYTES - 4) == header_sum(bytes)
        };
        let makes_its_table = self.frames.last().is_some_and(|(frame, new)| {
            let named = (u64_at(new, TABLE_ID_AT), u64_at(new, 16)) == (self.table_id, self.sequence);
            let sizes = (u32_at(new, 12) as usize, u32_at(new, 24) as usize);
            *frame == 0 && whole(new) && named && sizes == (self.frame_bytes, self.frame_count)
        });
        let fits = match file {
            [] => self.base == 0,
            old if whole(old) => {
                u64_at(old, TABLE_ID_AT) == self.table_id && [self.sequence, self.base].contains(&u64_at(old, 16))
            }
            // Torn during its installation, or of another table.
            torn => torn.starts_with(&start) || torn.starts_with(&[0; 12]),
        };
        makes_its_table && fits
    }

    /// Changes the table file as an open for writing would.
    pub fn install(&self, file: &mut Vec<u8>) {
        file.truncate(self.cut * self.frame_bytes);
        file.resize(file.len().max(self.frame_count * self.frame_bytes), 0);
        for (frame, content) in &self.frames {
            file[frame * self.frame_bytes..][..self.frame_bytes].copy_from_slice(content);
        }
    }
}

/// Corrects every checksum of a damaged journal.
pub fn repair_journal(bytes: &mut [u8]) {
    if bytes.len() < JOURNAL_HEADER_BYTES {
        return;
    }
    let (frame_bytes, count) = (u32_at(bytes, 16) as usize, u32_at(bytes, 20) as usize);
    let index_at = JOURNAL_HEADER_BYTES.saturating_add(count.saturating_mul(frame_bytes));
    if index_at.saturating_add(8 * count) <= bytes.len() {
        for i in 0..count {
            let (at, entry) = (JOURNAL_HEADER_BYTES + i * frame_bytes, index_at + 8 * i);
            let sum = frame_sum(u32_at(bytes, entry) as usize, &bytes[at..at + frame_bytes]);
            bytes[entry + 4..entry + 8].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = crc32c(0, &bytes[index_at..index_at + 8 * count]);
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = crc32c(0, &bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
}
