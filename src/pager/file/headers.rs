//! The two headers of a file: which one an open takes.
//!
//! ```text
//! bytes 0, 4096   a header each: the same one, or the last one and the one before
//! checkpoint N    is written to byte 4096 * (N % 2) and synced; afterwards it is written to the other place, unsynced
//!                 if its place is that of the last one, that one is first written to the other place again
//! ```
//!
//! So there is always a whole header, and it is an old one only if the newer one was not acknowledged. The first one
//! describes an empty table, which needs no block, so a file that is being made has nothing else. The places do not
//! depend on the size of a block: the bytes elsewhere may be a user's. Format: `blocks/mod.rs`.

use super::create::not_a_table;
use super::header::{
    DICTIONARY, FORMAT_VERSION, HEADER_BYTES, Header, MAGIC, ROOT_BYTES, ROOT_START, TABLE_ID, header_sum,
    version_error,
};
use super::random::random_u64;
use crate::error::{Error, ErrorKind, Result, quote};
use crate::io::File;
use crate::little_endian::{u32_at, u64_at};
use std::path::Path;

/// The first blocks, which have the headers whatever their size.
pub(crate) const HEADER_BLOCKS: u32 = 2;

/// Bytes of both headers.
pub(in crate::pager) const HEADERS_BYTES: u64 = 2 * HEADER_BYTES as u64;

/// The number of a new table's checkpoint, which has no blocks. Its place is the beginning of the file. On disk.
pub(in crate::pager) const FIRST_CHECKPOINT: u64 = 2;

/// Bytes of an entry. On disk.
pub(in crate::pager) const ENTRY_BYTES: usize = 12;

/// Where something is in the file, and the checksum of its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 0, the block of a header, if it was never written.
    pub block: u32,
    pub sum: u32,
    /// Of a frame: a random number of the period between two checkpoints in which its content was written. A copy has
    /// it too, so equal checksums and births mean equal content, also after the file's history was forked. Else 0.
    pub birth: u32,
}

impl Entry {
    pub(crate) const NONE: Entry = Entry { block: 0, sum: 0, birth: 0 };

    /// Where something without a birth is.
    pub(crate) fn at(block: u32, sum: u32) -> Entry {
        Entry { block, sum, birth: 0 }
    }

    pub(crate) fn is_none(self) -> bool {
        self.block == 0
    }

    pub(crate) fn parse(bytes: &[u8]) -> Entry {
        Entry { block: u32_at(bytes, 0), sum: u32_at(bytes, 4), birth: u32_at(bytes, 8) }
    }

    pub(in crate::pager) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        for (place, field) in bytes.chunks_exact_mut(4).zip([self.block, self.sum, self.birth]) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }
}

const SEQUENCE: usize = 16;
const LENGTH: usize = 28;
const ID: usize = TABLE_ID + 8;
const PARENT: usize = ID + 8;
const MAP: usize = PARENT + 8;
const ROOM: usize = MAP + ENTRY_BYTES;
const RESERVED: usize = ROOM + ENTRY_BYTES;

/// The header of a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointHeader {
    pub table: Header,
    /// A random number that identifies this checkpoint, and that of the one before.
    pub id: u64,
    pub parent: u64,
    /// Blocks of the file; all that the checkpoint uses are below.
    pub length: u32,
    /// The top node of the block map.
    pub map: Entry,
    /// The top node of the tree of bitmaps.
    pub room: Entry,
    pub root: Vec<u8>,
}

/// What the headers of a file say.
pub(in crate::pager) enum Headers {
    /// The file is empty, or has a part of the first header.
    Unmade,
    /// The last checkpoint, and whether both headers are its: then its own one was synced.
    Last(Box<CheckpointHeader>, bool),
}

impl CheckpointHeader {
    fn parse(bytes: &[u8]) -> std::result::Result<CheckpointHeader, String> {
        let table = Header::parse_fields(bytes)?;
        let reserved = [RESERVED..ROOT_START, ROOT_START + ROOT_BYTES..HEADER_BYTES - 4];
        if reserved.into_iter().any(|range| bytes[range].iter().any(|&b| b != 0)) {
            return Err("reserved bytes are not zero".into());
        }
        let header = CheckpointHeader {
            table,
            id: u64_at(bytes, ID),
            parent: u64_at(bytes, PARENT),
            length: u32_at(bytes, LENGTH),
            map: Entry::parse(&bytes[MAP..]),
            room: Entry::parse(&bytes[ROOM..]),
            root: bytes[ROOT_START..ROOT_START + ROOT_BYTES].to_vec(),
        };
        // A table without a block has neither; one of which no frame has a block has no block map.
        for (what, entry, may_lack) in
            [("block map", header.map, true), ("tree of bitmaps", header.room, header.length == 0)]
        {
            let is_absent = may_lack && entry == Entry::NONE;
            if !is_absent && !(HEADER_BLOCKS..header.length).contains(&entry.block) {
                return Err(format!("the {what} is in block {} of {}", entry.block, header.length));
            }
        }
        Ok(header)
    }

    /// The header of a new, empty table.
    pub(in crate::pager) fn first(table: Header, root: &[u8]) -> CheckpointHeader {
        let (id, root) = (random_u64(), root.to_vec());
        CheckpointHeader { table, id, parent: 0, length: 0, map: Entry::NONE, room: Entry::NONE, root }
    }

    /// The newest whole header of a file that may be damaged, and whether it is known to be the last one.
    pub(crate) fn newest_whole(file: &dyn File) -> Option<(CheckpointHeader, bool)> {
        let is_of_blocks = |bytes: &[u8]| bytes[..8] == MAGIC && u32_at(bytes, 8) == FORMAT_VERSION && is_whole(bytes);
        let slots = [0, 1].map(|slot| {
            let mut bytes = vec![0; HEADER_BYTES];
            let read = file.read_at(&mut bytes, slot * HEADER_BYTES as u64);
            (slot, Some(bytes).filter(|bytes| read.is_ok() && is_of_blocks(bytes)))
        });
        let both = slots.iter().all(|(_, bytes)| bytes.is_some());
        let headers = slots.iter().filter_map(|(slot, bytes)| Some((slot, Self::parse(bytes.as_ref()?).ok()?)));
        let (slot, header) = headers.max_by_key(|(_, header)| header.table.sequence)?;
        // The place of the next header has this one, or the one before.
        let next_is_absent = both || *slot != header.table.sequence % 2;
        Some((header, next_is_absent))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.table.encode(&self.root);
        bytes[LENGTH..LENGTH + 4].copy_from_slice(&self.length.to_le_bytes());
        bytes[ID..ID + 8].copy_from_slice(&self.id.to_le_bytes());
        bytes[PARENT..PARENT + 8].copy_from_slice(&self.parent.to_le_bytes());
        bytes[MAP..ROOM].copy_from_slice(&self.map.to_bytes());
        bytes[ROOM..RESERVED].copy_from_slice(&self.room.to_bytes());
        set_sum(&mut bytes);
        bytes
    }

    /// Writes this header to the place of its number, or to the `other` one.
    pub(in crate::pager) fn write(&self, file: &dyn File, other: bool) -> std::io::Result<()> {
        let slot = (self.table.sequence + u64::from(other)) % 2;
        file.write_at(&self.encode(), slot * HEADER_BYTES as u64)
    }
}

/// Whether a power loss may have left these bytes, a whole file, of the first header: nothing else is written before it
/// is synced, and each sector of it may be zeros. Its fields are in the first sector, its checksum in the last; with
/// both it is whole or damaged.
fn is_part_of_first(bytes: &[u8]) -> bool {
    const SECTOR_BYTES: usize = 512;
    let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let (fields, rest) = bytes.split_at(SECTOR_BYTES.min(bytes.len()));
    let (between, sum) = rest.split_at(rest.len().min(HEADER_BYTES - 4 - SECTOR_BYTES));
    let is_first = fields.len() == SECTOR_BYTES
        && fields[..8] == MAGIC
        && u32_at(fields, 8) == FORMAT_VERSION
        && (u64_at(fields, SEQUENCE), u32_at(fields, LENGTH)) == (FIRST_CHECKPOINT, 0);
    bytes.len() <= HEADER_BYTES && is_zero(between) && (is_zero(fields) || is_first && is_zero(sum))
}

fn is_whole(bytes: &[u8]) -> bool {
    header_sum(bytes) == u32_at(bytes, HEADER_BYTES - 4)
}

fn set_sum(bytes: &mut [u8]) {
    let sum = header_sum(bytes);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
}

impl Headers {
    /// Reads the headers of `file`, at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::NotATable`](crate::ErrorKind), [`ErrorKind::Version`](crate::ErrorKind), and
    /// [`ErrorKind::Corrupt`](crate::ErrorKind) if neither header is whole.
    pub(in crate::pager) fn read(path: &Path, file: &dyn File) -> Result<Headers> {
        // A writer may write a header and change the file's length meanwhile. What is wrong for that reason is right
        // the next time, or different.
        let mut before = None;
        loop {
            let seen = Seen::read(file).map_err(|e| Error::io(path, "read the header of", e))?;
            let headers = Self::of(path, &seen);
            if headers.is_ok() || before.as_ref() == Some(&seen) {
                return headers;
            }
            before = Some(seen);
        }
    }

    fn of(path: &Path, seen: &Seen) -> Result<Headers> {
        let (shown, file_bytes) = (path.display(), seen.file_bytes);
        let mut last: Option<CheckpointHeader> = None;
        let (mut damage, mut is_copied) = (None, false);
        let unmade = seen.headers[1].is_empty() && is_part_of_first(&seen.headers[0]);
        for (bytes, is_first) in seen.headers.iter().zip([true, false]) {
            if bytes.len() < 12 || bytes[..8] != MAGIC {
                if is_first {
                    damage = Some(other_file(path, file_bytes, bytes));
                }
                continue;
            }
            match u32_at(bytes, 8) {
                FORMAT_VERSION => {}
                version => {
                    if is_first {
                        damage = Some(version_error(&shown, version));
                    }
                    continue;
                }
            }
            let corrupt = |what: String| Error::corrupt_table(format!("{shown}: header: {what}"));
            if bytes.len() < HEADER_BYTES {
                damage.get_or_insert_with(|| corrupt(format!("cut to {file_bytes} bytes")));
                continue;
            }
            if !is_whole(bytes) {
                damage.get_or_insert_with(|| corrupt("checksum mismatch".into()));
                continue;
            }
            match CheckpointHeader::parse(bytes) {
                Ok(header) => {
                    is_copied = last.as_ref().is_some_and(|last| last.id == header.id);
                    if last.as_ref().is_none_or(|last| last.table.sequence < header.table.sequence) {
                        last = Some(header);
                    }
                }
                Err(what) => damage = Some(corrupt(what)),
            }
        }
        match (last, damage) {
            (Some(last), _) => {
                let needed = u64::from(last.length) * last.table.frame_bytes as u64;
                if file_bytes < needed {
                    return Err(Error::corrupt_table(format!("{shown}: cut to {file_bytes} bytes of {needed}")));
                }
                Ok(Headers::Last(last.into(), is_copied))
            }
            (None, _) if unmade => Ok(Headers::Unmade),
            (None, Some(e)) => Err(e),
            (None, None) => Err(Error::corrupt_table(format!("{shown}: it has no header"))),
        }
    }
}

/// The bytes of the two headers, as far as the file has them, and its length afterwards.
#[derive(PartialEq, Eq)]
struct Seen {
    headers: [Vec<u8>; 2],
    file_bytes: u64,
}

impl Seen {
    fn read(file: &dyn File) -> std::io::Result<Seen> {
        let mut headers = [Vec::new(), Vec::new()];
        for (bytes, start) in headers.iter_mut().zip([0, HEADER_BYTES as u64]) {
            bytes.resize(HEADER_BYTES.min(file.len()?.saturating_sub(start) as usize), 0);
            file.read_at(bytes, start)?;
        }
        Ok(Seen { headers, file_bytes: file.len()? })
    }
}

/// The error for a file that begins with other bytes than a table.
fn other_file(path: &Path, file_bytes: u64, bytes: &[u8]) -> Error {
    if bytes.starts_with(DICTIONARY) {
        let what = format!("{}: a dictionary, not a table, of Splitpoint", path.display());
        return Error::new(ErrorKind::NotATable, what).with_hint("Open it as a dictionary; thawed it becomes a table.");
    }
    if bytes.len() < 12 {
        return not_a_table(path, &format!("it has {file_bytes} bytes"));
    }
    not_a_table(path, &format!("it starts with {}", quote(&bytes[..8])))
}
