//! One file of the write-ahead log: its header, and how its bytes reach it.
//!
//! ```text
//! header | header again | zeros | record | record | ... | zeros, or what an earlier use of the file left
//! ```
//!
//! The header stands in each of the first two sectors, written one after the other before any record, the second first
//! where that is spoilt already. So one that is spoilt while it is written leaves the other, which is that of the file's
//! earlier use, or zeros; and where records stand that somebody relies on, there are two.
//!
//! A segment continues the one before it: its header says where that one ended, so a replay that did not come so far
//! stops there. Files are used again for later segments; what is left in them is told apart by the chain of checksums,
//! which starts with the header's, and that has a random number in it.
//!
//! Format: docs/format.md, "Write-ahead log".

use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mapped, Mode, Storage, open_locked};
use crate::pager::{NUMBER_MAX, u32_at, u64_at};
use crate::planted::{Bug, planted};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// First bytes of a segment. On disk.
const MAGIC: [u8; 8] = *b"SPLITLOG";
/// Version of the log's format that this library writes and reads. On disk.
const VERSION: u32 = 1;
/// Bytes of the header that mean something.
const HEADER_BYTES: usize = 64;
/// Where the second copy of the header stands. On disk.
const SECOND_HEADER: u64 = 512;
/// Where the first record stands. On disk.
pub(super) const RECORDS_START: u64 = 4096;
/// Files a log can have: two in turn, more after crashes and while a backup is made.
pub(super) const SLOT_COUNT: u8 = 8;

/// Where a segment ends: which it is, the byte behind its last record, the checksum of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    pub number: u64,
    pub offset: u64,
    pub chain: u32,
}

/// What a segment's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub table_id: u64,
    /// A checkpoint of this number is the state before the segment's first record.
    pub number: u64,
    /// Where the segment before ends; all zero if there is none.
    pub before: End,
    pub salt: u64,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.before.chain.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.table_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.before.number.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.before.offset.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.salt.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What a segment's checksums start from.
    pub(super) fn chain(&self) -> u32 {
        if planted(Bug::SameSalt) { 0 } else { u32_at(&self.to_bytes(), 60) }
    }

    /// `None` where there is no header: its writer did not get as far. Where both are damaged that is an error, as records
    /// that somebody relies on may stand behind them.
    pub(super) fn read(path: &Path, file: &dyn File) -> Result<Option<Header>> {
        let len = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
        if len < RECORDS_START {
            return Ok(None);
        }
        let first = Self::read_copy(path, file, 0);
        match &first {
            Ok(Some(_)) => return first,
            Err(e) if e.kind() == ErrorKind::Version => return first,
            _ => {}
        }
        // What is wrong with the first is told if there is no second. Where the first never reached the disk nobody relies
        // on records, though the second may have been written in part.
        match Self::read_copy(path, file, SECOND_HEADER) {
            Err(e) if e.kind() != ErrorKind::Io => first,
            second => second,
        }
    }

    fn read_copy(path: &Path, file: &dyn File, at: u64) -> Result<Option<Header>> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(&mut bytes, at).map_err(|e| Error::io(path, "read the header of", e))?;
        if bytes == [0; HEADER_BYTES] {
            return Ok(None);
        }
        let shown = path.display();
        let damaged = |what: String| {
            Err(Error::corrupt(format!(
                "{shown}: the header of this part of the log is damaged: {what}. Move the file away to go on without the writes in it."
            )))
        };
        if bytes[..8] != MAGIC {
            return damaged(format!("it starts with {}", crate::error::quote(&bytes[..8])));
        }
        let (stored, computed) = (u32_at(&bytes, 60), crc32c::crc32c(&bytes[..60]));
        if stored != computed {
            return damaged(format!("checksum mismatch, stored {stored:08x}, computed {computed:08x}"));
        }
        let number = u64_at(&bytes, 24);
        let version = u32_at(&bytes, 8);
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::Version,
                format!(
                    "{shown}: log version {version}, this library reads {VERSION}. Open the table once with the version that wrote it."
                ),
            ));
        }
        let before = End { number: u64_at(&bytes, 32), offset: u64_at(&bytes, 40), chain: u32_at(&bytes, 12) };
        // New numbers are above all that are there, so a segment that fits nothing now never will.
        if number > NUMBER_MAX || number <= before.number {
            return damaged(format!("it has number {number} and comes after {}", before.number));
        }
        Ok(Some(Header { table_id: u64_at(&bytes, 16), number, before, salt: u64_at(&bytes, 48) }))
    }
}

/// A segment open for writing.
pub(super) struct Segment {
    pub header: Header,
    file: Box<dyn File>,
    map: Option<Box<dyn Mapped>>,
    path: PathBuf,
    /// Bytes it may have.
    pub capacity: u64,
    /// The position of its first byte in the log as a whole, as long as the table is open.
    pub start: u64,
    /// Bytes that were written once, so that writing them again needs no room and no change of the file's shape.
    written: AtomicU64,
    /// Its name is durable.
    named: AtomicBool,
}

/// The file of slot `slot` beside the table at `path`.
pub(super) fn slot_path(path: &Path, slot: u8) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("-log{slot}"));
    PathBuf::from(name)
}

/// Is what is at `path` of no use to table `table_id`, but perhaps to another: has another handle it open, or has it another
/// table's header?
pub(super) fn is_others(storage: &dyn Storage, path: &Path, table_id: u64) -> Result<bool> {
    let fail = |e| Error::io(path, "look at a part of the log in", e);
    let file = match storage.open(path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(fail)?,
    };
    Ok(file.is_locked().map_err(fail)? || names_another(path, file.as_ref(), table_id)?)
}

/// Has it a header of another table? Damage and later versions were told of when the table was opened, or are of no table.
fn names_another(path: &Path, file: &dyn File, table_id: u64) -> Result<bool> {
    match Header::read(path, file) {
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        found => Ok(found.is_ok_and(|found| found.is_some_and(|header| header.table_id != table_id))),
    }
}

/// How the bytes of a segment are to be kept.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub slot: u8,
    pub capacity: u64,
    pub start: u64,
    /// Stores are to be seen by the kernel at once.
    pub mapped: bool,
}

impl Segment {
    /// Begins a segment in the file of a slot, which holds nothing that this table needs. `None` where another table has it
    /// open or has something in it: one that had this name before, and was renamed.
    pub(super) fn begin(storage: &dyn Storage, table: &Path, header: Header, shape: Shape) -> Result<Option<Segment>> {
        let path = slot_path(table, shape.slot);
        let opened = open_locked(storage, &path).map_err(|e| Error::io(&path, "make a part of the log in", e))?;
        let Some(file) = opened else { return Ok(None) };
        if names_another(&path, file.as_ref(), header.table_id)? {
            return Ok(None);
        }
        let segment = Self::new(file, path, header, shape)?;
        // A copy that is spoilt already comes first: so however often this is tried in vain, one is whole or zeros.
        let spoilt = match Header::read_copy(&segment.path, segment.file.as_ref(), SECOND_HEADER) {
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            second => second.is_err(),
        };
        for at in if spoilt { [SECOND_HEADER, 0] } else { [0, SECOND_HEADER] } {
            segment.write(&header.to_bytes(), at)?;
        }
        Ok(Some(segment))
    }

    /// Goes on with a segment that was replayed.
    pub(super) fn resume(storage: &dyn Storage, table: &Path, header: Header, shape: Shape) -> Result<Segment> {
        let path = slot_path(table, shape.slot);
        let fail = |e| Error::io(&path, "open a part of the log in", e);
        let file = storage.open(&path, Mode::Write).map_err(fail)?;
        if !file.lock().map_err(fail)? {
            let shown = path.display();
            let what = "another process or handle writes this part of the log: the table that was at this name is open by another one, and this is a copy of it. Close that one, or use the copy in another directory";
            return Err(Error::new(ErrorKind::Locked, format!("{shown}: {what}")));
        }
        Self::new(file, path, header, shape)
    }

    fn new(file: Box<dyn File>, path: PathBuf, header: Header, shape: Shape) -> Result<Segment> {
        let written = file.len().map_err(|e| Error::io(&path, "ask the length of", e))?;
        let mut segment = Segment {
            header,
            file,
            map: None,
            path,
            capacity: shape.capacity,
            start: shape.start,
            written: AtomicU64::new(written),
            named: AtomicBool::new(false),
        };
        segment.write_zeros(RECORDS_START)?;
        if shape.mapped {
            segment.map = segment.file.map(shape.capacity).map_err(|e| Error::io(&segment.path, "map", e))?;
        }
        Ok(segment)
    }

    /// Sees to it that bytes `from..to` can be written without an error but one of the device.
    pub(super) fn prepare(&self, from: u64, to: u64) -> Result<()> {
        if to > self.written.load(Relaxed) {
            // Else the zeros would make it longer again, over a hole that ends every replay.
            self.check_length()?;
            self.write_zeros(to)?;
        }
        match &self.map {
            Some(map) => map.prepare(from, to).map_err(|e| Error::io(&self.path, "get room for", e)),
            None => Ok(()),
        }
    }

    /// Zeros to the file as far as `to`. Blocks that were written once are overwritten later without the file system
    /// having to note anything, which makes a sync half as dear (docs/benchmarks.md).
    fn write_zeros(&self, to: u64) -> Result<()> {
        const ZEROS: &[u8] = &[0; 1 << 16];
        let mut at = self.written.load(Relaxed);
        while at < to {
            let len = (to - at).min(ZEROS.len() as u64);
            self.file
                .write_at(&ZEROS[..len as usize], at)
                .map_err(|e| Error::io(&self.path, "get room on the disk for", e))?;
            at += len;
            self.written.store(at, Relaxed);
        }
        Ok(())
    }

    /// Gives bytes to the kernel.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_at(bytes, at).map_err(|e| Error::io(&self.path, "write to", e))
    }

    /// Stores the parts, one after the other, where the kernel has them at once.
    pub(super) fn store(&self, parts: &[&[u8]], at: u64) -> Result<()> {
        let Some(map) = &self.map else { return self.write(&parts.concat(), at) };
        let mut to = at;
        for part in parts {
            if map.store(to, part).is_err() {
                return Err(self.why_not_stored(parts, at));
            }
            to += part.len() as u64;
        }
        Ok(())
    }

    /// What is wrong with a file that could not be stored to: a call that writes the same is told more than a store.
    #[cold]
    fn why_not_stored(&self, parts: &[&[u8]], at: u64) -> Error {
        match self.check_length().and_then(|()| self.write(&parts.concat(), at)) {
            Err(e) => e,
            // Not taken for success: where a page of memory failed, the records before this one may be gone with it.
            Ok(()) => Error::new(
                ErrorKind::Io,
                format!(
                    "{}: a page of this part of the log could not be stored to, as the disk was full or \
                     failed. Open the table again.",
                    self.path.display()
                ),
            ),
        }
    }

    /// An error where another program has cut the file.
    fn check_length(&self) -> Result<()> {
        let written = self.written.load(Relaxed);
        let len = self.file.len().map_err(|e| Error::io(&self.path, "ask the length of", e))?;
        if len >= written {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            format!(
                "{}: this part of the log has {len} bytes and had {written}: another program cut it. The writes \
                 in the rest are lost; open the table again to go on with those before.",
                self.path.display()
            ),
        ))
    }

    /// Makes all that was written durable, and the file's name.
    pub(super) fn sync(&self, storage: &dyn Storage) -> Result<()> {
        self.check_length()?;
        self.file.sync().map_err(|e| Error::io(&self.path, "sync", e))?;
        if !self.named.load(Acquire) {
            storage.sync_names(&self.path).map_err(|e| Error::io(&self.path, "sync the directory of", e))?;
            self.named.store(true, Release);
        }
        Ok(())
    }
}
