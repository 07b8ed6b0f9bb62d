//! A second reader of `.spt` files, written from docs/format.md alone.
//!
//! It shares no line with the library, so that a mistake in one does not hide in the other: `format.rs` compares the
//! results of both, `corruption.rs` uses it to find fields worth damaging and to correct the checksums. It reads whole
//! files into memory, is not optimized, and trusts nothing it reads.
//!
//! Names and numbers are those of docs/format.md. Not here: the log (`spt/log.rs`); writing a table; hash functions.

#[path = "spt/log.rs"] // from this file, also where that is a module of another crate (fuzz/)
pub mod log;

pub type Result<T> = std::result::Result<T, String>;
pub type Pair = (Vec<u8>, Vec<u8>);

pub const MAGIC: &[u8; 8] = b"SPLITPNT";
pub const NODE_MAGIC: &[u8; 8] = b"SPLITNOD";
/// Bytes of a header; its last four are its checksum. The second header follows.
pub const HEADER_BYTES: usize = 4096;
pub const HEADERS: [usize; 2] = [0, HEADER_BYTES];
pub const HEADER_BLOCKS: usize = 2;
pub const NODE_HEADER_BYTES: usize = 64;
pub const NODE_SUM_AT: usize = 60;
pub const ENTRY_BYTES: usize = 12;
pub const ZONE_FRAMES: usize = 512;
pub const FRAME_UNITS: usize = 64;
pub const SEQUENCE_AT: usize = 16;
pub const LENGTH_AT: usize = 28;
pub const MAP_GROUPS_AT: usize = 32;
pub const MAP_GROUP_COUNT: usize = 24;
pub const TABLE_ID_AT: usize = 128;
pub const ID_AT: usize = 136;
pub const MAP_AT: usize = 152;
pub const ROOM_AT: usize = 164;
pub const ROOT_AT: usize = 256;
pub const GROUPS_AT: usize = ROOT_AT + 128;
pub const GROUP_COUNT: usize = 746;
/// Of the table's name and of the next table.
pub const NAME_AT: usize = GROUPS_AT + 4 * GROUP_COUNT;
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

/// Computes CRC-32C, reflected, one byte at a time. `sum` is that of the preceding bytes, initially 0.
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

/// Computes the checksum of a node: over all but its own four bytes.
pub fn node_sum(bytes: &[u8]) -> u32 {
    crc32c(crc32c(0, &bytes[..NODE_SUM_AT]), &bytes[NODE_SUM_AT + 4..])
}

/// Computes the checksum of the bitmap of a region.
pub fn bitmap_sum(region: usize, bytes: &[u8]) -> u32 {
    crc32c(crc32c(0, &(region as u32).to_le_bytes()), bytes)
}

pub fn header_sum(bytes: &[u8]) -> u32 {
    not_zero(crc32c(0, &bytes[..HEADER_BYTES - 4]))
}

// --------------------------------------------------------------------------------------------- Locations

/// The content of a header.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub frame_bytes: usize,
    pub frame_count: usize,
    pub page_bytes: usize,
    pub max_bucket: u32,
    /// The number of the checkpoint, and its blocks.
    pub sequence: u64,
    pub length: usize,
    table_id: u64,
    map_groups: [usize; MAP_GROUP_COUNT],
    /// First frame of each bucket group.
    groups: Vec<usize>,
}

impl Geometry {
    pub fn parse(header: &[u8]) -> Result<Geometry> {
        if header.len() < HEADER_BYTES || &header[..8] != MAGIC || u32_at(header, 8) != 1 {
            return Err("no header of version 1".into());
        }
        let geometry = Geometry {
            frame_bytes: u32_at(header, 12) as usize,
            frame_count: u32_at(header, 24) as usize,
            page_bytes: u32_at(header, ROOT_AT) as usize,
            max_bucket: u32_at(header, ROOT_AT + 24),
            sequence: u64_at(header, SEQUENCE_AT),
            length: u32_at(header, LENGTH_AT) as usize,
            table_id: u64_at(header, TABLE_ID_AT),
            map_groups: std::array::from_fn(|k| u32_at(header, MAP_GROUPS_AT + 4 * k) as usize),
            groups: (0..GROUP_COUNT).map(|i| u32_at(header, GROUPS_AT + 4 * i) as usize).collect(),
        };
        let Geometry { frame_bytes, frame_count, page_bytes, .. } = geometry;
        if ![4096, 8192, 16384, 32768, 65536].contains(&frame_bytes) || frame_bytes != page_bytes.max(4096) {
            return Err(format!("frames of {frame_bytes} bytes, pages of {page_bytes}"));
        }
        if frame_count < 1 {
            return Err(format!("{frame_count} frames"));
        }
        Ok(geometry)
    }

    pub fn unit_bytes(&self) -> usize {
        self.frame_bytes / FRAME_UNITS
    }

    /// Returns the number of entries in a node.
    pub fn fanout(&self) -> usize {
        (self.frame_bytes - NODE_HEADER_BYTES) / ENTRY_BYTES
    }

    /// Returns the number of blocks that a bitmap describes.
    pub fn region_blocks(&self) -> usize {
        8 * self.frame_bytes
    }

    /// Returns the two blocks in which the bitmap of a region may be.
    pub fn homes(&self, region: usize) -> [usize; 2] {
        let first = if region == 0 { HEADER_BLOCKS } else { region * self.region_blocks() };
        [first, first + 1]
    }

    /// Returns the frame with the used bits of `zone`.
    pub fn map_frame(&self, zone: usize) -> usize {
        if zone == 0 {
            return 0;
        }
        let group = zone.ilog2() as usize;
        self.map_groups.get(group).map_or(0, |first| first + zone - (1 << group))
    }

    /// Returns the offset in the frames of the used bits of `frame`.
    pub fn bits_at(&self, frame: usize) -> usize {
        self.map_frame(frame / ZONE_FRAMES) * self.frame_bytes + 8 * (frame % ZONE_FRAMES)
    }

    /// Returns the last of the bucket groups that share the first frame.
    fn groups_together(&self) -> usize {
        (self.frame_bytes / self.page_bytes).ilog2() as usize
    }

    /// Returns the offset in the frames of the primary page of `bucket`.
    pub fn page_at(&self, bucket: u32) -> Result<usize> {
        let (group, index) = group_of(bucket);
        // The groups of the first frame are adjacent, so there a bucket's number is its index.
        let place = if group <= self.groups_together() { bucket } else { index };
        let at = self.groups[group] * self.frame_bytes + place as usize * self.page_bytes;
        let end = self.frame_count * self.frame_bytes - self.page_bytes;
        if self.groups[group] == 0 || at > end { Err(format!("bucket {bucket} at byte {at}")) } else { Ok(at) }
    }
}

/// Returns the group of a bucket and its index there: one group per generation, 32 from 512 buckets on.
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

/// Computes the tag of a hash.
pub fn tag_of(hash: u64) -> u16 {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// Returns the bits that a tag sets in the filter.
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

/// A page of a bucket: its location in the frames, and its content.
pub struct Found {
    pub bucket: u32,
    pub at: usize,
    pub bytes: usize,
    pub page: Page,
}

/// The number and checksum of a block; the number is 0 if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub block: usize,
    pub sum: u32,
}

impl Entry {
    fn parse(bytes: &[u8]) -> Entry {
        Entry { block: u32_at(bytes, 0) as usize, sum: u32_at(bytes, 4) }
    }
}

/// A node of one of the two trees.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// 1: the block map; 2: the bitmaps.
    pub tree: u32,
    pub level: u32,
    pub number: usize,
    pub block: usize,
}

/// A file in which every checksum is right.
pub struct Reader<'f> {
    pub file: &'f [u8],
    pub geometry: Geometry,
    /// The frames, in order; those without a block are zeros, the first one that of an empty table.
    pub frames: Vec<u8>,
    /// The entry of each frame.
    pub entries: Vec<Entry>,
    /// All nodes: those of each tree from the top down.
    pub nodes: Vec<Node>,
    /// The entry of each region's bitmap.
    pub bitmaps: Vec<Entry>,
}

impl<'f> Reader<'f> {
    /// Reads the last checkpoint.
    pub fn new(file: &'f [u8]) -> Result<Reader<'f>> {
        let is_whole = |header: &&[u8]| {
            header.len() == HEADER_BYTES
                && u32_at(header, HEADER_BYTES - 4) == header_sum(header)
                && u64_at(header, SEQUENCE_AT) > 0
        };
        let headers = HEADERS.iter().filter_map(|&at| file.get(at..at + HEADER_BYTES)).filter(is_whole);
        let header = headers.max_by_key(|header| u64_at(header, SEQUENCE_AT)).ok_or("no whole header")?;
        let geometry = Geometry::parse(header)?;
        if file.len() < geometry.length * geometry.frame_bytes {
            return Err(format!("{} blocks in {} bytes", geometry.length, file.len()));
        }
        let mut frames = vec![0; geometry.frame_count * geometry.frame_bytes];
        frames[..2 * FRAME_UNITS / 8].fill(0xff);
        let mut reader = Reader { file, geometry, frames, entries: Vec::new(), nodes: Vec::new(), bitmaps: Vec::new() };
        let count = reader.geometry.frame_count;
        reader.entries = reader.tree(1, count, Entry::parse(&header[MAP_AT..]))?;
        if reader.geometry.length == 0 {
            return Ok(reader);
        }
        let regions = reader.geometry.length.div_ceil(reader.geometry.region_blocks());
        reader.bitmaps = reader.tree(2, regions, Entry::parse(&header[ROOM_AT..]))?;
        for (frame, entry) in reader.entries.clone().into_iter().enumerate().filter(|(_, entry)| entry.block != 0) {
            let bytes = reader.block(entry.block)?;
            if frame_sum(frame, bytes) != entry.sum {
                return Err(format!("wrong checksum of frame {frame}"));
            }
            let (at, frame_bytes) = (frame * reader.geometry.frame_bytes, reader.geometry.frame_bytes);
            reader.frames[at..at + frame_bytes].copy_from_slice(bytes);
        }
        let (used, marked) = (reader.used_blocks()?, reader.marked_blocks()?);
        if used != marked { Err(format!("used blocks {used:?}, marked {marked:?}")) } else { Ok(reader) }
    }

    fn block(&self, block: usize) -> Result<&'f [u8]> {
        let bytes = self.geometry.frame_bytes;
        let is_for_content = block >= HEADER_BLOCKS && block < self.geometry.length;
        let found = self.file.get(block * bytes..(block + 1) * bytes).filter(|_| is_for_content);
        found.ok_or(format!("block {block} of {}", self.geometry.length))
    }

    /// Reads the `count` entries of a tree.
    fn tree(&mut self, tree: u32, count: usize, top: Entry) -> Result<Vec<Entry>> {
        let fanout = self.geometry.fanout();
        let mut sizes = vec![count.div_ceil(fanout).max(1)];
        while *sizes.last().unwrap() > 1 {
            sizes.push(sizes.last().unwrap().div_ceil(fanout));
        }
        let mut entries = vec![top];
        for level in (0..sizes.len()).rev() {
            let below = if level == 0 { count } else { sizes[level - 1] };
            let mut children = Vec::new();
            for (number, entry) in entries.into_iter().enumerate() {
                let count = fanout.min(below - number * fanout);
                // A leaf of the block map without a block: none of its frames has one.
                if tree == 1 && level == 0 && entry.block == 0 {
                    children.resize(children.len() + count, Entry { block: 0, sum: 0 });
                    continue;
                }
                let bytes = self.block(entry.block)?;
                let place = [u32_at(bytes, 24), u32_at(bytes, 28), u32_at(bytes, 32)];
                let is_it = bytes.starts_with(NODE_MAGIC) && u64_at(bytes, 8) == self.geometry.table_id;
                let sum = node_sum(bytes);
                if !is_it || place != [tree, level as u32, number as u32] || u64_at(bytes, 16) > self.geometry.sequence
                {
                    return Err(format!("block {} is no node {number} of level {level}", entry.block));
                }
                if sum != entry.sum || sum != u32_at(bytes, NODE_SUM_AT) {
                    return Err(format!("wrong checksum of node {number} of level {level}"));
                }
                let mut all = bytes[NODE_HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(Entry::parse);
                children.extend(all.by_ref().take(count));
                if all.any(|entry| entry.block != 0 || entry.sum != 0) {
                    return Err(format!("node {number} of level {level} has more entries than it needs"));
                }
                let births = bytes[NODE_HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(|entry| u32_at(entry, 8));
                if (tree, level) != (1, 0) && births.max() > Some(0) {
                    return Err(format!("node {number} of level {level} has births"));
                }
                self.nodes.push(Node { tree, level: level as u32, number, block: entry.block });
            }
            entries = children;
        }
        Ok(entries)
    }

    /// Returns the blocks in use; an error if two things share one.
    fn used_blocks(&self) -> Result<Vec<usize>> {
        let regions = self.bitmaps.len();
        let homes = (0..regions).flat_map(|region| self.geometry.homes(region));
        let frames = self.entries.iter().map(|entry| entry.block).filter(|&block| block != 0);
        let nodes = self.nodes.iter().map(|node| node.block);
        let mut used: Vec<usize> = (0..HEADER_BLOCKS).chain(homes).chain(frames).chain(nodes).collect();
        used.sort_unstable();
        match used.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("block {} is used twice", pair[0])),
            None => Ok(used),
        }
    }

    /// Returns the blocks that the bitmaps mark as used.
    fn marked_blocks(&self) -> Result<Vec<usize>> {
        let mut marked = Vec::new();
        for (region, entry) in self.bitmaps.iter().enumerate() {
            let bytes = self.block(entry.block)?;
            if !self.geometry.homes(region).contains(&entry.block) || bitmap_sum(region, bytes) != entry.sum {
                return Err(format!("the bitmap of region {region}, in block {}", entry.block));
            }
            let first = region * self.geometry.region_blocks();
            let is_set = |&bit: &usize| bytes[bit / 8] >> (bit % 8) & 1 == 1;
            marked.extend((0..self.geometry.region_blocks()).filter(is_set).map(|bit| first + bit));
        }
        Ok(marked)
    }

    /// Returns the offset in the file of a byte of the frames; `None` if its frame has no block.
    pub fn in_file(&self, at: usize) -> Option<usize> {
        let (frame, within) = (at / self.geometry.frame_bytes, at % self.geometry.frame_bytes);
        let block = self.entries.get(frame)?.block;
        (block != 0).then(|| block * self.geometry.frame_bytes + within)
    }

    /// Returns the bytes of a frame.
    pub fn frame(&self, frame: usize) -> &[u8] {
        &self.frames[frame * self.geometry.frame_bytes..(frame + 1) * self.geometry.frame_bytes]
    }

    /// Returns the offset in the file of the entry of a frame.
    pub fn entry_at(&self, frame: usize) -> Option<usize> {
        let (number, place) = (frame / self.geometry.fanout(), frame % self.geometry.fanout());
        let leaf = self.nodes.iter().find(|node| (node.tree, node.level, node.number) == (1, 0, number))?;
        Some(leaf.block * self.geometry.frame_bytes + NODE_HEADER_BYTES + ENTRY_BYTES * place)
    }

    /// Returns every page of every bucket.
    pub fn pages(&self) -> Result<Vec<Found>> {
        let Geometry { page_bytes, max_bucket, .. } = self.geometry;
        let mut pages = Vec::new();
        for bucket in 0..=max_bucket {
            let (mut at, mut bytes, mut kind) = (self.geometry.page_at(bucket)?, page_bytes, 1);
            if self.frames[at..at + bytes].iter().all(|&b| b == 0) {
                continue; // no pair was ever put into it
            }
            loop {
                let page = Page::parse(&self.frames[at..at + bytes]).map_err(|e| format!("bucket {bucket}: {e}"))?;
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
                if pages.len() > self.frames.len() / self.geometry.unit_bytes() {
                    return Err(format!("bucket {bucket}: its overflow pages run in a circle"));
                }
            }
        }
        Ok(pages)
    }

    /// Returns where `len` units from `unit` on are in the frames: first byte and number of bytes.
    pub fn units(&self, unit: u64, len: u64) -> Result<(usize, usize)> {
        let unit_bytes = self.geometry.unit_bytes() as u64;
        let end = unit.checked_add(len).and_then(|end| end.checked_mul(unit_bytes));
        if len == 0 || end.is_none_or(|end| end > (self.geometry.frame_count * self.geometry.frame_bytes) as u64) {
            return Err(format!("{len} units at unit {unit}"));
        }
        Ok(((unit * unit_bytes) as usize, (len * unit_bytes) as usize))
    }

    /// Returns the pair of a record.
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
        let content = &self.frames[at..at + key_bytes + value_bytes];
        let key = if record.form == 1 { &record.key } else { &content[..key_bytes] };
        Ok((key.to_vec(), content[key_bytes..].to_vec()))
    }

    /// Returns all pairs with their buckets.
    pub fn pairs(&self) -> Result<Vec<(u32, Pair)>> {
        let pages = self.pages()?;
        pages.iter().flat_map(|p| p.page.records.iter().map(|r| Ok((p.bucket, self.pair(r)?)))).collect()
    }

    /// Returns the reachable units, one bit each, one word per frame; an error if two things share one.
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
        take(0, FRAME_UNITS)?;
        for (k, &first) in g.map_groups.iter().enumerate().filter(|&(_, &first)| first != 0) {
            take(first * FRAME_UNITS, (1 << k) * FRAME_UNITS)?;
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

    /// Returns the used bits in the map frames, one word per frame.
    pub fn marked(&self) -> Vec<u64> {
        (0..self.geometry.frame_count).map(|frame| u64_at(&self.frames, self.geometry.bits_at(frame))).collect()
    }
}

/// Corrects every checksum of a damaged file, which was `pristine` before.
pub fn repair(file: &mut [u8], pristine: &Reader<'_>) {
    let block_bytes = pristine.geometry.frame_bytes;
    if file.len() < 2 * HEADER_BYTES {
        return;
    }
    let block_count = file.len() / block_bytes;
    let has = |block: usize| block != 0 && block < block_count;
    let mut nodes = pristine.nodes.clone();
    nodes.sort_by_key(|node| node.level);
    for Node { tree, level, number, block } in nodes.iter().copied().filter(|node| has(node.block)) {
        for place in 0..pristine.geometry.fanout() {
            let at = block * block_bytes + NODE_HEADER_BYTES + ENTRY_BYTES * place;
            let child = u32_at(file, at) as usize;
            if !has(child) {
                continue;
            }
            let (index, bytes) = (number * pristine.geometry.fanout() + place, &file[child * block_bytes..]);
            let sum = match (tree, level) {
                (1, 0) => frame_sum(index, &bytes[..block_bytes]),
                (_, 0) => bitmap_sum(index, &bytes[..block_bytes]),
                _ => u32_at(bytes, NODE_SUM_AT),
            };
            file[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        }
        let bytes = &mut file[block * block_bytes..(block + 1) * block_bytes];
        let sum = node_sum(bytes);
        bytes[NODE_SUM_AT..NODE_SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    }
    for header in HEADERS {
        for at in [MAP_AT, ROOM_AT] {
            let top = u32_at(file, header + at) as usize;
            if has(top) {
                let sum = u32_at(file, top * block_bytes + NODE_SUM_AT);
                file[header + at + 4..header + at + 8].copy_from_slice(&sum.to_le_bytes());
            }
        }
    }
    repair_headers(file);
}

/// Corrects the checksums of both headers.
pub fn repair_headers(file: &mut [u8]) {
    for header in HEADERS {
        let bytes = &mut file[header..header + HEADER_BYTES];
        let sum = header_sum(bytes);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Stores bytes in both headers, and corrects their checksums.
pub fn set_in_headers(file: &mut [u8], at: usize, bytes: &[u8]) {
    for header in HEADERS {
        file[header + at..header + at + bytes.len()].copy_from_slice(bytes);
    }
    repair_headers(file);
}

/// Returns the file without the random numbers that differ each time that it is written, the ids of checkpoints and the
/// births of frames, and with zeros in its free blocks.
pub fn without_random(file: &[u8]) -> Vec<u8> {
    let reader = Reader::new(file).unwrap();
    let used = reader.used_blocks().unwrap();
    let mut bytes = file.to_vec();
    for (_, free) in bytes.chunks_mut(reader.geometry.frame_bytes).enumerate().filter(|(n, _)| !used.contains(n)) {
        free.fill(0);
    }
    for leaf in reader.nodes.iter().filter(|node| (node.tree, node.level) == (1, 0)) {
        let node = &mut bytes[leaf.block * reader.geometry.frame_bytes..][..reader.geometry.frame_bytes];
        node[NODE_HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES).for_each(|entry| entry[8..].fill(0));
    }
    repair(&mut bytes, &reader);
    set_in_headers(&mut bytes, ID_AT, &[0; 16]);
    bytes
}
