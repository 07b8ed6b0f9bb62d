//! A GDBM file itself, read in place, bucket by bucket; `gdbm.rs` reads the dumps of its tools.
//!
//! ```text
//! header      magic, block size, offset and bytes of the directory, its bits, bytes of a bucket, slots of a bucket
//! directory   2^bits offsets of buckets; a bucket of b bits has 2^(bits - b) neighbouring entries
//! bucket      6 free areas, b, used slots, slots: hash (-1: empty), 4 bytes of the key, offset, key and value length
//! record      key, value
//! ```
//!
//! The magic number shows the byte order, the bytes of an offset, and whether the extended header (`numsync`) follows
//! the header; only the list of free areas moves because of that, and it is not read. Offsets of 8 bytes are aligned to
//! 4 on 32-bit x86: the number of slots in a bucket shows it.
//!
//! The file has no checksums. A record must have the hash of its key, be in the bucket of that hash, and fit in the
//! file; all records and buckets together are no longer than the file, since none overlap. So a damaged file ends in an
//! error after at most as many bytes as it has. Source: gdbm 1.23, `gdbmdefs.h` and `hash.c`.

use super::{BadRow, Pair, Row, Source};
use crate::failure::{Failure, Result};
use crate::number::count_of;
use splitpoint::ErrorKind;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a header with offsets of 8 bytes.
const HEADER_BYTES: usize = 40;
const HASH_BITS: u32 = 31;
/// Bytes of the beginning of a key, which its slot repeats.
const KEY_START_BYTES: usize = 4;
/// Largest bucket; gdbm makes it as large as a block, which is 512 bytes to some MiB.
const BUCKET_BYTES_MAX: u64 = 1 << 28;

/// The magic numbers, and the bytes of an offset that each implies; 0: unknown.
const MAGICS: [(u32, usize); 5] =
    [(0x1357_9ace, 0), (0x1357_9acd, 4), (0x1357_9acf, 8), (0x1357_9ad0, 4), (0x1357_9ad1, 8)];

/// The start of a bucket's slots, and the bytes of one; they depend on the bytes of an offset and its alignment.
const LAYOUTS: [Layout; 3] = [
    Layout { offset_bytes: 8, slots_at: 112, slot_bytes: 24 },
    Layout { offset_bytes: 8, slots_at: 84, slot_bytes: 24 },
    Layout { offset_bytes: 4, slots_at: 60, slot_bytes: 20 },
];

#[derive(Clone, Copy, Debug)]
struct Layout {
    offset_bytes: usize,
    slots_at: usize,
    slot_bytes: usize,
}

impl Layout {
    /// Returns the number of slots in a bucket of `bytes`.
    fn slots(&self, bytes: u64) -> Option<u64> {
        Some((bytes.checked_sub(self.slots_at as u64)?) / self.slot_bytes as u64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Header {
    big_endian: bool,
    layout: Layout,
    directory: u64,
    directory_bits: u32,
    bucket_bytes: u64,
    slots: u64,
}

/// Whether a file that begins with `head` is a GDBM file.
pub fn is_gdbm(head: &[u8]) -> bool {
    magic(head).is_some()
}

/// Whether the numbers are big-endian, and the bytes of an offset, 0 if unknown.
fn magic(head: &[u8]) -> Option<(bool, usize)> {
    let magic: [u8; 4] = head.get(..4)?.try_into().ok()?;
    let found = |number: u32| MAGICS.iter().find(|(magic, _)| *magic == number).map(|(_, bytes)| *bytes);
    let little = found(u32::from_le_bytes(magic)).map(|bytes| (false, bytes));
    little.or_else(|| found(u32::from_be_bytes(magic)).map(|bytes| (true, bytes)))
}

fn number(bytes: &[u8], big_endian: bool) -> u64 {
    let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}

impl Header {
    fn parse(head: &[u8], file_bytes: u64) -> std::result::Result<Self, String> {
        let damaged = |what: &str| Err(format!("its header is damaged: {what}"));
        let Some((big_endian, says)) = magic(head) else { return damaged("it does not begin like a GDBM file") };
        if head.len() < HEADER_BYTES {
            return damaged("it is too short");
        }
        let at = |start: usize, bytes: usize| number(&head[start..start + bytes], big_endian);
        for layout in LAYOUTS.into_iter().filter(|layout| says == 0 || says == layout.offset_bytes) {
            let offset = layout.offset_bytes;
            let [bytes, bits, bucket_bytes, slots] = [0, 4, 8, 12].map(|more| at(8 + offset + more, 4));
            let directory = at(8, offset);
            if slots == 0 || layout.slots(bucket_bytes) != Some(slots) {
                continue;
            }
            let bits = u32::try_from(bits).unwrap_or(u32::MAX);
            if bits >= HASH_BITS || bytes != (offset as u64) << bits {
                return damaged("the length of its directory is not a power of two, or does not match its bits");
            }
            if directory.checked_add(bytes).is_none_or(|end| end > file_bytes) {
                return damaged("its directory ends outside the file");
            }
            if bucket_bytes > file_bytes.min(BUCKET_BYTES_MAX) {
                return damaged("a bucket would be longer than the file");
            }
            return Ok(Self { big_endian, layout, directory, directory_bits: bits, bucket_bytes, slots });
        }
        damaged("the number of pairs in a bucket is not that of its length")
    }
}

pub struct GdbmFile {
    file: File,
    name: String,
    file_bytes: u64,
    header: Header,
    row_bytes_max: u64,
    /// The next entry of the directory.
    entry: u64,
    bucket: Vec<u8>,
    /// The first and the last entry of the current bucket.
    entries: (u64, u64),
    /// The next slot of the bucket.
    slot: u64,
    /// Used slots that were seen.
    used: u64,
    record: Vec<u8>,
    number: u64,
    /// Bytes of the buckets and records that were read.
    taken: u64,
    /// Whether `taken` exceeds the length of the file.
    lost: bool,
}

/// A row that cannot be read, or an error of the system.
enum Stop {
    Bad(String),
    Failed(Failure),
}

impl GdbmFile {
    /// # Errors
    /// A file that cannot be read, is damaged in its header, or is open in a program that writes it.
    pub fn open(path: &Path, row_bytes_max: u64) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |error: &io::Error| Failure::io(&name, error);
        let file = File::open(path).map_err(|error| failed(&error))?;
        // GDBM locks the file in this way. If the file system has no locks, GDBM uses none either.
        if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
            return Err(Failure::of_kind(
                ErrorKind::Locked,
                format_args!(
                    "{name}: another process has this GDBM file open for writing; try again when it is closed"
                ),
            ));
        }
        let file_bytes = file.metadata().map_err(|error| failed(&error))?.len();
        let mut head = vec![0; HEADER_BYTES.min(usize::try_from(file_bytes).unwrap_or(HEADER_BYTES))];
        file.read_exact_at(&mut head, 0).map_err(|error| failed(&error))?;
        let header = Header::parse(&head, file_bytes)
            .map_err(|what| Failure::of_kind(ErrorKind::Corrupt, format_args!("{name}: is a GDBM file, but {what}")))?;
        Ok(Self {
            file,
            name,
            file_bytes,
            header,
            row_bytes_max,
            entry: 0,
            bucket: Vec::new(),
            entries: (0, 0),
            slot: header.slots,
            used: 0,
            record: Vec::new(),
            number: 0,
            taken: 0,
            lost: false,
        })
    }

    /// Counts the bytes of a record or bucket; fails if all together exceed the file.
    fn take(&mut self, bytes: u64) -> std::result::Result<(), Stop> {
        self.taken = self.taken.saturating_add(bytes);
        self.lost |= self.taken > self.file_bytes;
        if self.lost {
            return Err(Stop::Bad("buckets or records overlap: together they are longer than the file".into()));
        }
        Ok(())
    }

    /// Fills `bytes` from offset `at`, which must be in the file.
    fn read(&self, bytes: &mut [u8], at: u64) -> std::result::Result<(), Stop> {
        let read = self.file.read_exact_at(bytes, at);
        read.map_err(|error| Stop::Failed(Failure::io(&self.name, &error)))
    }

    /// Returns the offset of the bucket of a directory entry.
    fn offset_of(&self, entry: u64) -> std::result::Result<u64, Stop> {
        let bytes = self.header.layout.offset_bytes;
        let mut offset = [0; 8];
        self.read(&mut offset[..bytes], self.header.directory + entry * bytes as u64)?;
        Ok(number(&offset[..bytes], self.header.big_endian))
    }

    /// Reads the bucket of the next directory entry.
    fn next_bucket(&mut self) -> std::result::Result<(), Stop> {
        let first = self.entry;
        self.entry += 1;
        let at = self.offset_of(first)?;
        let Header { bucket_bytes, directory_bits, slots, layout, big_endian, .. } = self.header;
        if at == 0 || at.checked_add(bucket_bytes).is_none_or(|end| end > self.file_bytes) {
            return Err(Stop::Bad(format!("entry {first} of the directory says byte {at}, where no bucket can be")));
        }
        self.take(bucket_bytes)?;
        let mut bucket = std::mem::take(&mut self.bucket);
        bucket.resize(usize::try_from(bucket_bytes).unwrap_or(0), 0);
        let read = self.read(&mut bucket, at);
        self.bucket = bucket;
        read?;
        let [bits, used] = [8, 4].map(|before| {
            let start = layout.slots_at - before;
            number(&self.bucket[start..start + 4], big_endian)
        });
        let bits = u32::try_from(bits).unwrap_or(u32::MAX);
        let entries = directory_bits.checked_sub(bits).map_or(0, |more| 1 << more);
        if entries == 0 || !first.is_multiple_of(entries) || used > slots {
            return Err(Stop::Bad(format!("the bucket at byte {at} is damaged, or not that of entry {first}")));
        }
        let last = first + entries - 1;
        if entries > 1 && self.offset_of(last)? != at {
            return Err(Stop::Bad(format!("entries {first} and {last} of the directory should be one bucket's")));
        }
        self.entry = last + 1;
        self.entries = (first, last);
        (self.slot, self.used) = (0, 0);
        Ok(())
    }

    /// Reads the next record of the bucket, and returns the length of its key; `None` after the last one.
    fn next_record(&mut self) -> std::result::Result<Option<usize>, Stop> {
        let Header { layout, big_endian, slots, directory_bits, .. } = self.header;
        let (offset_bytes, slot_bytes) = (layout.offset_bytes, layout.slot_bytes);
        loop {
            if self.bucket.is_empty() {
                return Ok(None);
            }
            if self.slot == slots {
                let said = number(&self.bucket[layout.slots_at - 4..layout.slots_at], big_endian);
                if said != std::mem::replace(&mut self.used, said) {
                    return Err(Stop::Bad(format!("the bucket should have {}", count_of(said, "pair"))));
                }
                return Ok(None);
            }
            let start = layout.slots_at + usize::try_from(self.slot).unwrap_or(0) * slot_bytes;
            let slot: Vec<u8> = self.bucket[start..start + slot_bytes].to_vec();
            self.slot += 1;
            let field = |at: usize, bytes: usize| number(&slot[at..at + bytes], big_endian);
            let hash = field(0, 4);
            if hash == u64::from(u32::MAX) {
                continue;
            }
            self.used += 1;
            let (at, key, value) = (field(8, offset_bytes), field(8 + offset_bytes, 4), field(12 + offset_bytes, 4));
            let bytes = key + value;
            let fits = at.checked_add(bytes).is_some_and(|end| end <= self.file_bytes);
            if !fits || key > i32::MAX as u64 || value > i32::MAX as u64 {
                return Err(Stop::Bad(format!("a record of {bytes} bytes at byte {at} ends outside the file")));
            }
            let place = hash >> (HASH_BITS - directory_bits);
            if hash >> HASH_BITS != 0 || !(self.entries.0..=self.entries.1).contains(&place) {
                return Err(Stop::Bad(format!("the record at byte {at} is in the bucket of another hash")));
            }
            self.take(bytes)?;
            if bytes > self.row_bytes_max {
                let most = self.row_bytes_max;
                return Err(Stop::Bad(format!(
                    "a record of {bytes} bytes at byte {at} is longer than {most} bytes; --max-row raises the limit"
                )));
            }
            let mut record = std::mem::take(&mut self.record);
            record.clear();
            let (bytes, key) = (usize::try_from(bytes).unwrap_or(0), usize::try_from(key).unwrap_or(0));
            if record.try_reserve_exact(bytes).is_err() {
                return Err(Stop::Bad(format!("no memory for a record of {bytes} bytes at byte {at}")));
            }
            record.resize(bytes, 0);
            let read = self.read(&mut record, at);
            self.record = record;
            read?;
            let whole = &self.record[..key];
            let start = &slot[4..4 + key.min(KEY_START_BYTES)];
            if !whole.starts_with(start) || !hashes(whole).map(u64::from).contains(&hash) {
                return Err(Stop::Bad(format!("the key at byte {at} is damaged: its hash is another")));
            }
            return Ok(Some(key));
        }
    }
}

/// GDBM's hash of a key, with characters signed as on x86, and unsigned as on Arm.
fn hashes(key: &[u8]) -> [u32; 2] {
    let hash = |extend: fn(u8) -> u32| {
        let length = u32::try_from(key.len()).unwrap_or(0);
        let sum = key.iter().enumerate().fold(0x238f_13af_u32.wrapping_mul(length), |sum, (index, byte)| {
            sum.wrapping_add(extend(*byte) << (index * 5 % 24)) & 0x7fff_ffff
        });
        sum.wrapping_mul(1_103_515_243).wrapping_add(12345) & 0x7fff_ffff
    };
    [hash(|byte| i32::from(byte.cast_signed()).cast_unsigned()), hash(u32::from)]
}

impl Source for GdbmFile {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let read = match self.next_record() {
            Ok(None) if self.entry >> self.header.directory_bits != 0 => return Ok(Row::End),
            // Buckets may be empty, and the caller looks for signals between two rows.
            Ok(None) => match self.next_bucket() {
                Ok(()) => return Ok(Row::Interrupted),
                Err(stop) => {
                    self.bucket.clear();
                    Err(stop)
                }
            },
            read => read,
        };
        self.number += 1;
        match read {
            Ok(key) => {
                let (key, value) = self.record.split_at(key.unwrap_or(0));
                Ok(Row::Pair(Pair { key, value }, self.number))
            }
            Err(Stop::Failed(failure)) => Err(failure),
            Err(Stop::Bad(what)) => {
                let place = format!("{}: pair {}", self.name, self.number);
                Ok(Row::Bad(BadRow { place, what, goes_on: !self.lost }))
            }
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.taken.min(self.file_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    type OwnedPair = (Vec<u8>, Vec<u8>);

    const STANDARD: &[u8] = include_bytes!("../../tests/cli/gdbm/standard.gdbm");

    /// Returns the pairs of a file, and how many of its rows are bad; `None` if it cannot be opened.
    fn rows(bytes: &[u8]) -> Option<(BTreeSet<OwnedPair>, u64)> {
        let mut written = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut written, bytes).unwrap();
        let mut file = GdbmFile::open(written.path(), 1 << 20).ok()?;
        let (mut pairs, mut bad) = (BTreeSet::new(), 0);
        // Each call takes a slot, a bucket or an entry of the directory.
        for _ in 0..100 + 2 * bytes.len() {
            match file.next_row().unwrap() {
                Row::Pair(pair, _) => _ = pairs.insert((pair.key.to_vec(), pair.value.to_vec())),
                Row::Bad(row) if row.goes_on => bad += 1,
                Row::Bad(_) => return Some((pairs, bad + 1)),
                Row::Entry(entry, _) => panic!("{entry:?}"),
                Row::Interrupted => {}
                Row::End => return Some((pairs, bad)),
            }
        }
        panic!("the file does not end");
    }

    /// Returns a file of `pairs` as gdbm lays it out, with 8 buckets of 40 slots.
    fn written(magic: u32, layout: Layout, big_endian: bool, signed: bool, pairs: &BTreeSet<OwnedPair>) -> Vec<u8> {
        let put = |file: &mut Vec<u8>, at: usize, number: u64, bytes: usize| {
            let mut field = number.to_le_bytes()[..bytes].to_vec();
            if big_endian {
                field.reverse();
            }
            file[at..at + bytes].copy_from_slice(&field);
        };
        let (bits, slots, directory) = (3, 40, 64);
        let bucket_bytes = layout.slots_at + slots * layout.slot_bytes;
        let first = directory + (layout.offset_bytes << bits);
        let mut file = vec![0; first + (bucket_bytes << bits)];
        put(&mut file, 0, magic.into(), 4);
        put(&mut file, 4, 512, 4);
        put(&mut file, 8, directory as u64, layout.offset_bytes);
        for (index, number) in [layout.offset_bytes << bits, bits, bucket_bytes, slots].into_iter().enumerate() {
            put(&mut file, 8 + layout.offset_bytes + 4 * index, number as u64, 4);
        }
        for entry in 0..1 << bits {
            let bucket = first + entry * bucket_bytes;
            put(&mut file, directory + entry * layout.offset_bytes, bucket as u64, layout.offset_bytes);
            put(&mut file, bucket + layout.slots_at - 8, bits as u64, 4);
            let here = |(key, _): &&OwnedPair| hashes(key)[usize::from(!signed)] >> 28 == entry as u32;
            let here: Vec<_> = pairs.iter().filter(here).collect();
            put(&mut file, bucket + layout.slots_at - 4, here.len() as u64, 4);
            for slot in 0..slots {
                let at = bucket + layout.slots_at + slot * layout.slot_bytes;
                let Some((key, value)) = here.get(slot) else {
                    put(&mut file, at, u32::MAX.into(), 4);
                    continue;
                };
                let record = file.len() as u64;
                put(&mut file, at, hashes(key)[usize::from(!signed)].into(), 4);
                let start = &key[..key.len().min(KEY_START_BYTES)];
                file[at + 4..at + 4 + start.len()].copy_from_slice(start);
                put(&mut file, at + 8, record, layout.offset_bytes);
                put(&mut file, at + 8 + layout.offset_bytes, key.len() as u64, 4);
                put(&mut file, at + 12 + layout.offset_bytes, value.len() as u64, 4);
                file.extend_from_slice(key);
                file.extend_from_slice(value);
            }
        }
        file
    }

    fn pairs() -> BTreeSet<OwnedPair> {
        let numbered = (0..100u32).map(|number| (format!("key {number}").into_bytes(), number.to_le_bytes().to_vec()));
        numbered.chain([(b"\xff\x80".to_vec(), vec![7; 5000]), (Vec::new(), Vec::new())]).collect()
    }

    #[test]
    fn every_magic_byte_order_and_offset_is_read() {
        for (magic, offset_bytes) in MAGICS {
            for layout in LAYOUTS.into_iter().filter(|layout| [0, layout.offset_bytes].contains(&offset_bytes)) {
                for (big_endian, signed) in [(false, true), (false, false), (true, true), (true, false)] {
                    let file = written(magic, layout, big_endian, signed, &pairs());
                    assert_eq!(rows(&file), Some((pairs(), 0)), "{magic:x} {layout:?} {big_endian} {signed}");
                }
            }
        }
    }

    #[test]
    fn every_damaged_byte_is_an_error_a_bad_row_or_another_value() {
        let (whole, _) = rows(STANDARD).unwrap();
        let known: BTreeSet<_> = whole.iter().map(|(key, _)| key.clone()).collect();
        for at in 0..STANDARD.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = STANDARD.to_vec();
                damaged[at] ^= flip;
                let Some((pairs, bad)) = rows(&damaged) else { continue };
                assert!(pairs.iter().all(|(key, _)| known.contains(key)), "byte {at}: a key that was never there");
                assert!(pairs.len() == whole.len() || bad > 0, "byte {at}: a pair is missing without a word");
            }
        }
    }

    #[test]
    fn every_truncation_is_an_error_or_a_bad_row() {
        for bytes in 0..STANDARD.len() {
            let read = rows(&STANDARD[..bytes]);
            // The space after the last record is free.
            let (whole, _) = rows(STANDARD).unwrap();
            assert!(read.is_none_or(|(pairs, bad)| bad > 0 || pairs == whole), "{bytes}");
        }
    }

    #[test]
    fn buckets_and_records_that_overlap_end_the_file() {
        let layout = LAYOUTS[0];
        let value = vec![7; 10_000];
        let pairs = (0..50u32).map(|number| (number.to_le_bytes().to_vec(), value.clone())).collect();
        let mut file = written(0x1357_9acf, layout, false, true, &pairs);
        // As if one value were everywhere: the file is short, and what it claims is long.
        file.truncate(file.len() / 4);
        let (first, bucket_bytes) = (128, layout.slots_at + 40 * layout.slot_bytes);
        let at = (file.len() - 10_004) as u64;
        for slot in 0..8 * 40 {
            let start = first + slot / 40 * bucket_bytes + layout.slots_at + slot % 40 * layout.slot_bytes;
            file[start + 8..start + 16].copy_from_slice(&at.to_le_bytes());
        }
        let mut written = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut written, &file).unwrap();
        let mut open = GdbmFile::open(written.path(), 1 << 20).unwrap();
        let last = loop {
            match open.next_row().unwrap() {
                Row::Bad(bad) if !bad.goes_on => break bad.what,
                Row::End => panic!("it ended"),
                _ => {}
            }
        };
        assert!(last.contains("overlap") && open.taken < 2 * open.file_bytes, "{last}");
    }
}
