//! One file of the write-ahead log: its header, and how its bytes reach it.
//!
//! ```text
//! header | copy of the header | zeros | record | record | ... | zeros, or the content of an earlier use of the file
//! ```
//!
//! The header is in each of the first two sectors. Both are written before any record, one after the other; the second
//! one first if that copy is already damaged. So a write that damages one copy leaves the other intact: it is that of
//! the file's earlier use, or zeros. If there are acknowledged records, both copies exist.
//!
//! A segment continues the one before it: its header has the end of that one, so a replay that did not reach this end
//! stops there. Files are reused for later segments. Old content does not match the chain of checksums, which starts
//! with that of the header, since each header has a random number in it.
//!
//! Format: docs/format.md, "Write-ahead log".

use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::io::atomic::with_suffix;
use crate::io::{File, Mapped, Mode, PRIVATE, Storage, open_locked, take_access_of};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::file::header::NUMBER_MAX;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};

/// First bytes of a segment. On disk.
const MAGIC: [u8; 8] = *b"SPLITLOG";
/// Version of the log's format. On disk.
const VERSION: u32 = 1;
/// Bytes of the header in use.
const HEADER_BYTES: usize = 64;
/// Offset of the second copy of the header. On disk.
const SECOND_HEADER: u64 = 512;
/// Offset of the first record. On disk.
pub(super) const RECORDS_START: u64 = 4096;
/// Maximum number of files of a log: two in turn, more after crashes and during a backup.
pub(super) const SLOT_COUNT: u8 = 8;

/// The end of a segment: its number, the offset after its last record, the checksum of that record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    pub number: u64,
    pub offset: u64,
    pub chain: u32,
}

/// The fields of a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub table_id: u64,
    /// The state before the segment's first record is the checkpoint of this number.
    pub number: u64,
    /// The end of the segment before; all zero if there is none.
    pub before: End,
    pub salt: u64,
}

impl SegmentHeader {
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
        let sum = crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Start value of the segment's chain of checksums.
    pub(super) fn chain(&self) -> u32 {
        u32_at(&self.to_bytes(), 60)
    }

    /// Reads the header. Returns `None` if there is none: its writer did not complete it. If both copies are damaged
    /// that is an error, as acknowledged records may follow them.
    pub(super) fn read(path: &Path, file: &dyn File) -> Result<Option<SegmentHeader>> {
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
        // If there is no second copy, report what is wrong with the first. If the first never reached the disk, no
        // record was acknowledged, although the second may have been written in part.
        match Self::read_copy(path, file, SECOND_HEADER) {
            Err(e) if e.kind() != ErrorKind::Io => first,
            second => second,
        }
    }

    fn read_copy(path: &Path, file: &dyn File, at: u64) -> Result<Option<SegmentHeader>> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(&mut bytes, at).map_err(|e| Error::io(path, "read the header of", e))?;
        if bytes == [0; HEADER_BYTES] {
            return Ok(None);
        }
        let shown = path.display();
        let damaged = |what: String| {
            Err(Error::corrupt(format!("{shown}: the header of this segment of the log is damaged: {what}"))
                .with_hint("Move the file away to continue without the writes in it."))
        };
        if bytes[..8] != MAGIC {
            return damaged(format!("it starts with {}", crate::error::quote(&bytes[..8])));
        }
        let (stored, computed) = (u32_at(&bytes, 60), crc32c(&bytes[..60]));
        if stored != computed {
            return damaged(format!("checksum mismatch, stored {stored:08x}, computed {computed:08x}"));
        }
        let number = u64_at(&bytes, 24);
        let version = u32_at(&bytes, 8);
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::Version,
                format!("{shown}: log version {version}, this library reads {VERSION}"),
            )
            .with_hint("Open the table once with the version that wrote it."));
        }
        let before = End { number: u64_at(&bytes, 32), offset: u64_at(&bytes, 40), chain: u32_at(&bytes, 12) };
        // New numbers are above all existing ones, so a segment cannot continue one with a higher number.
        if number > NUMBER_MAX || number <= before.number {
            return damaged(format!("it has number {number} and comes after {}", before.number));
        }
        Ok(Some(SegmentHeader { table_id: u64_at(&bytes, 16), number, before, salt: u64_at(&bytes, 48) }))
    }
}

/// A segment open for writing.
pub(super) struct Segment {
    pub header: SegmentHeader,
    file: Box<dyn File>,
    map: Option<Box<dyn Mapped>>,
    path: PathBuf,
    /// Maximum length in bytes. It may grow up to `capacity_max`.
    capacity: AtomicU64,
    capacity_max: u64,
    /// The position of its first byte in the log, counted from when the table was opened.
    pub start: u64,
    /// Bytes that were written once: rewriting them needs no space and no change of the file's metadata.
    written: AtomicU64,
    /// Whether its name is durable.
    named: AtomicBool,
}

/// The path of the file of slot `slot` of the table at `path`.
pub(super) fn slot_path(path: &Path, slot: u8) -> PathBuf {
    with_suffix(path, &format!("-log{slot}"))
}

/// Opens the file of a slot for reading, if there is one.
pub(super) fn open_slot(storage: &dyn Storage, path: &Path) -> std::io::Result<Option<Box<dyn File>>> {
    // Most slots have none, and to ask for the name is cheaper than to open it.
    if !storage.exists(path)? {
        return Ok(None);
    }
    match storage.open(path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether there is a file at `path` that cannot belong to a table other than `table_id`: no other handle has it open,
/// and it has no other table's header.
pub(super) fn is_own(storage: &dyn Storage, path: &Path, table_id: u64) -> Result<bool> {
    let fail = |e| Error::io(path, "read the log segment", e);
    let Some(file) = open_slot(storage, path).map_err(fail)? else { return Ok(false) };
    Ok(!file.is_locked().map_err(fail)? && !names_another(path, file.as_ref(), &[table_id])?)
}

/// Whether the file has the header of a table with none of these numbers. Damage and later versions either were errors
/// at the open, or are in files that belong to no table.
pub(super) fn names_another(path: &Path, file: &dyn File, table_ids: &[u64]) -> Result<bool> {
    match SegmentHeader::read(path, file) {
        Err(e) if e.kind() == ErrorKind::Io => Err(e),
        found => Ok(found.is_ok_and(|found| found.is_some_and(|header| !table_ids.contains(&header.table_id)))),
    }
}

/// How to store the bytes of a segment.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub slot: u8,
    pub capacity: u64,
    /// The length that it may grow to.
    pub capacity_max: u64,
    pub start: u64,
    /// Whether stores go to a mapping, and so reach the kernel at once.
    pub mapped: bool,
}

impl Segment {
    /// Begins a segment in the file of a slot that this table does not need. Returns `None` if another table has it
    /// open or has records in it: one that had this name before, and was renamed. The file gets the owner and
    /// permissions of `like`, the table's file, since it will contain the same pairs.
    pub(super) fn begin(
        storage: &dyn Storage,
        table: &Path,
        like: &dyn File,
        header: SegmentHeader,
        shape: Shape,
    ) -> Result<Option<Segment>> {
        let path = slot_path(table, shape.slot);
        let opened = open_locked(storage, &path, PRIVATE).map_err(|e| Error::io(&path, "create the log segment", e))?;
        let Some(file) = opened else { return Ok(None) };
        if names_another(&path, file.as_ref(), &[header.table_id])? {
            return Ok(None);
        }
        take_access_of(file.as_ref(), like).map_err(|e| Error::io(&path, "set the owner and permissions of", e))?;
        let segment = Self::new(file, path, header, shape)?;
        // A damaged copy is written first, so that one copy is always valid or zeros, however often this is
        // interrupted.
        let spoilt = match SegmentHeader::read_copy(&segment.path, segment.file.as_ref(), SECOND_HEADER) {
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            second => second.is_err(),
        };
        for at in if spoilt { [SECOND_HEADER, 0] } else { [0, SECOND_HEADER] } {
            segment.write(&header.to_bytes(), at)?;
        }
        Ok(Some(segment))
    }

    /// Continues a replayed segment.
    pub(super) fn resume(storage: &dyn Storage, table: &Path, header: SegmentHeader, shape: Shape) -> Result<Segment> {
        let path = slot_path(table, shape.slot);
        let fail = |e| Error::io(&path, "open the log segment", e);
        let file = storage.open(&path, Mode::Write).map_err(fail)?;
        if !file.lock().map_err(fail)? {
            let shown = path.display();
            let what = "another process or handle writes this segment of the log, for a table that was renamed while \
                        it was open; the table here is a copy of it";
            return Err(Error::new(ErrorKind::Locked, format!("{shown}: {what}"))
                .with_hint("Close that table, or use the copy in another directory."));
        }
        Self::new(file, path, header, shape)
    }

    fn new(file: Box<dyn File>, path: PathBuf, header: SegmentHeader, shape: Shape) -> Result<Segment> {
        let written = file.len().map_err(|e| Error::io(&path, "ask the length of", e))?;
        let mut segment = Segment {
            header,
            file,
            map: None,
            path,
            capacity: AtomicU64::new(shape.capacity),
            capacity_max: shape.capacity_max.max(shape.capacity),
            start: shape.start,
            written: AtomicU64::new(written),
            named: AtomicBool::new(false),
        };
        segment.write_zeros(RECORDS_START)?;
        if shape.mapped {
            // Only reserves addresses: pages are made ready as they are needed.
            segment.map = segment.file.map(segment.capacity_max).map_err(|e| Error::io(&segment.path, "map", e))?;
        }
        Ok(segment)
    }

    /// Maximum length in bytes.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Relaxed)
    }

    /// Raises the maximum length to `bytes`, or as far as possible. Returns the new maximum.
    pub(super) fn grow(&self, bytes: u64) -> u64 {
        self.capacity.fetch_max(bytes.min(self.capacity_max), Relaxed);
        self.capacity()
    }

    /// Makes bytes `from..to` writable: afterwards only the device can cause an error.
    pub(super) fn prepare(&self, from: u64, to: u64) -> Result<()> {
        self.write_zeros_to(to)?;
        match &self.map {
            Some(map) => map.prepare(from, to).map_err(|e| Error::io(&self.path, "prepare the pages of", e)),
            None => Ok(()),
        }
    }

    /// Makes bytes `from..to` writable, most of them by calls: only a store to one of their pages puts it in memory.
    pub(super) fn prepare_for_calls(&self, from: u64, to: u64) -> Result<()> {
        self.write_zeros_to(to)?;
        if let Some(map) = &self.map {
            map.leave_to_stores(from, to);
        }
        Ok(())
    }

    fn write_zeros_to(&self, to: u64) -> Result<()> {
        if to > self.written.load(Relaxed) {
            // If the file was cut, the zeros would make it longer again, over a hole that ends every replay.
            self.check_length()?;
            self.write_zeros(to)?;
        }
        Ok(())
    }

    /// Fills the file with zeros up to `to`. Overwriting blocks that were written once changes no metadata of the file
    /// system, which halves the cost of a sync (docs/benchmarks.md).
    fn write_zeros(&self, to: u64) -> Result<()> {
        let from = self.written.load(Relaxed);
        if from < to {
            self.file.write_zeros(from, to).map_err(|e| Error::io(&self.path, "reserve disk space for", e))?;
            self.written.store(to, Relaxed);
        }
        Ok(())
    }

    /// Writes bytes that end at `end`.
    pub(super) fn write_pending(&self, bytes: &[u8], end: u64) -> Result<()> {
        // If the file was cut, the bytes could make it as long as before.
        self.check_length()?;
        self.write(bytes, end - bytes.len() as u64)
    }

    /// Writes bytes with a system call.
    pub(super) fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_at(bytes, at).map_err(|e| Error::io(&self.path, "write to", e))
    }

    /// Reads bytes that were written or stored.
    pub(super) fn read(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file.read_at(bytes, at).map_err(|e| Error::io(&self.path, "read", e))
    }

    /// Stores the parts, one after the other, in the mapping.
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

    /// [`store`](Self::store) of one part.
    #[inline]
    pub(super) fn store_one(&self, bytes: &[u8], at: u64) -> Result<()> {
        match &self.map {
            Some(map) if map.store(at, bytes).is_ok() => Ok(()),
            _ => self.store_otherwise(bytes, at),
        }
    }

    #[cold]
    fn store_otherwise(&self, bytes: &[u8], at: u64) -> Result<()> {
        if self.map.is_some() { Err(self.why_not_stored(&[bytes], at)) } else { self.write(bytes, at) }
    }

    /// The error of a failed store. A system call that writes the same bytes may return a more precise one.
    #[cold]
    fn why_not_stored(&self, parts: &[&[u8]], at: u64) -> Error {
        match self.check_length().and_then(|()| self.write(&parts.concat(), at)) {
            Err(e) => e,
            // Still an error: if a page of memory failed, the records before this one may be lost with it.
            Ok(()) => Error::new(
                ErrorKind::Io,
                format!(
                    "{}: a page of this segment of the log could not be stored to, as the disk was full or failed",
                    self.path.display()
                ),
            )
            .with_hint("Open the table again."),
        }
    }

    /// Fails if another program has cut the file.
    ///
    /// Not called after each store into the mapping, since a system call takes as long as the rest of a put. The bytes
    /// that were cut off are lost whether they were stored before or after the cut, so checking each put could promise
    /// no more. A cut stays unnoticed only while stores go to the rest of the page in which the file now ends. A store
    /// to the next page is a fault, and a growth or a sync calls this function. A checkpoint contains the writes
    /// without the log.
    fn check_length(&self) -> Result<()> {
        let written = self.written.load(Relaxed);
        let len = self.file.len().map_err(|e| Error::io(&self.path, "ask the length of", e))?;
        if len >= written {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            format!(
                "{}: this segment of the log has {len} bytes and had {written}: another program cut it, and the \
                 writes in the rest are lost",
                self.path.display()
            ),
        )
        .with_hint("Open the table again to continue with the writes before."))
    }

    /// Writes bytes that end at `end`, and makes all written bytes durable, and the file's name.
    pub(super) fn write_and_sync(&self, storage: &dyn Storage, bytes: &[u8], end: u64) -> Result<()> {
        // Before the write, after which a file that was cut could be as long as before.
        self.check_length()?;
        if !bytes.is_empty() {
            self.write(bytes, end - bytes.len() as u64)?;
        }
        self.file.sync().map_err(|e| Error::io(&self.path, "sync", e))?;
        if !self.named.load(Acquire) {
            storage.sync_names(&self.path).map_err(|e| Error::io(&self.path, "sync the directory of", e))?;
            self.named.store(true, Release);
        }
        Ok(())
    }
}
