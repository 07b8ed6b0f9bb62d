//! The manifest of a sort that can be resumed: which content of its named files is durable.
//!
//! ```text
//! two slots of SLOT_BYTES, written in turn; the valid one with the higher sequence number is current
//! slot: magic 8 | checksum 4 | prefix_bits 4 | id 8 | sequence 8 | records 8 | key_len 4 | value_len 4 | state 4 | 0 4
//!       source 8 | far_bytes 8
//!       then for each partition: length 8 | records 8
//! ```
//! The file is also the lock of the run: created first, removed last. The holder of the lock may remove what a dead run
//! left. If the manifest is of another identity or has no valid slot, the sort starts from the beginning. A file with
//! the name of a temporary file is ours only if the manifest is there, even after a power loss; without it, the sort is
//! refused.
//!
//! Not here: when a checkpoint is due, and which of the two a run continues from (`build/sorters.rs`).

use super::lengths::{Fixed, Lengths};
use super::temporary::{far_name, name, part_name};
use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, PRIVATE, Storage, open_locked};
use std::path::{Path, PathBuf};

/// The most bits of a position that select a partition. Each partition is an open file, and processes are often limited
/// to 1024.
pub(super) const FAN_OUT_BITS_MAX: u32 = 8;
const MAGIC: &[u8; 8] = b"SPTsort1";
const HEAD_BYTES: usize = 72;
pub(super) const SLOT_BYTES: usize = 16 << 10;
const _: () = assert!(HEAD_BYTES + (16 << FAN_OUT_BITS_MAX) <= SLOT_BYTES);

/// The content of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub prefix_bits: u32,
    /// Records taken by all sorts of the build: how much of the source is saved.
    pub source: u64,
    pub records: u64,
    pub lengths: Lengths,
    /// The shared lengths of records in blocks without lengths.
    pub fixed: Option<Fixed>,
    /// Length of the file of values that are not held in memory.
    pub far_bytes: u64,
    /// No more records follow.
    pub complete: bool,
    /// File length and number of records of each partition.
    pub parts: Vec<(u64, u64)>,
}

/// A checkpoint that was found.
#[derive(Clone)]
pub(crate) struct Saved {
    pub sequence: u64,
    pub snapshot: Snapshot,
}

impl Saved {
    /// Records of the source taken by all sorts of the build.
    pub fn source(&self) -> u64 {
        self.snapshot.source
    }

    /// Whether the source had no more records.
    pub fn is_complete(&self) -> bool {
        self.snapshot.complete
    }
}

/// The locked manifest.
pub(super) struct SavedFile {
    file: Box<dyn File>,
    path: PathBuf,
    prefix: PathBuf,
    id: u64,
    sequence: u64,
    /// Records that were saved under another identity.
    pub of_another: u64,
    /// This run has created it.
    is_new: bool,
}

impl SavedFile {
    /// Opens or creates the manifest and takes its lock. Also returns what was saved under the same identity, the last
    /// checkpoint first.
    pub(super) fn open(storage: &dyn Storage, prefix: &Path, id: u64) -> Result<(SavedFile, Vec<Saved>)> {
        let path = name(prefix, "");
        let is_new = !storage.exists(&path).map_err(|e| Error::io(&path, "look for", e))?;
        let file = open_locked(storage, &path, PRIVATE).map_err(|e| Error::io(&path, "open", e))?.ok_or_else(|| {
            let name = path.display();
            Error::new(ErrorKind::Locked, format!("{name}: another build of the same file is running"))
                .with_hint("Wait until it is done.")
        })?;
        let prefix = prefix.to_owned();
        let mut manifest = SavedFile { file, path, prefix, id, sequence: 0, of_another: 0, is_new };
        if is_new {
            manifest.refuse_others(storage).inspect_err(|_| drop(storage.remove(&manifest.path)))?;
        }
        let mut slots: Vec<(u64, Saved)> = manifest.read()?.iter().filter_map(|slot| parse(slot)).collect();
        slots.sort_by_key(|(_, saved)| std::cmp::Reverse(saved.sequence));
        let newest = slots.first().map(|(found, saved)| (*found, saved.sequence, saved.snapshot.records));
        match newest {
            Some((found, sequence, _)) if found == id => manifest.sequence = sequence,
            Some((.., records)) => {
                manifest.of_another = records;
                slots.clear();
            }
            None => {}
        }
        let saved = slots.into_iter().filter(|(found, _)| *found == id).map(|(_, saved)| saved).collect();
        Ok((manifest, saved))
    }

    pub(super) fn file(&self) -> &dyn File {
        self.file.as_ref()
    }

    /// An error if a file has the name of a temporary file. Nothing has been made yet, so it is not ours.
    fn refuse_others(&self, storage: &dyn Storage) -> Result<()> {
        for path in names_of_parts(&self.prefix) {
            if storage.exists(&path).map_err(|e| Error::io(&path, "look for", e))? {
                return Err(not_ours(&path));
            }
        }
        Ok(())
    }

    /// Prepares a sort from the beginning: removes what an earlier one left, and makes the manifest's name durable
    /// before any part has a name.
    pub(super) fn start_anew(&mut self, storage: &dyn Storage) -> Result<()> {
        if !self.is_new {
            self.clear(storage)?;
        }
        self.sync_names(storage)
    }

    fn sync_names(&self, storage: &dyn Storage) -> Result<()> {
        storage.sync_names(&self.path).map_err(|e| Error::io(&self.path, "sync the directory of", e))
    }

    /// Deletes a checkpoint later than `saved`, from which the run continues.
    pub(super) fn go_back_to(&mut self, saved: &Saved) -> Result<()> {
        if self.sequence == saved.sequence {
            return Ok(());
        }
        let fail = |e| Error::io(&self.path, "clear the checkpoint of the sort", e);
        let offset = (self.sequence % 2) * SLOT_BYTES as u64;
        self.file.write_at(&vec![0; SLOT_BYTES], offset).map_err(fail)?;
        self.file.sync().map_err(fail)?;
        self.sequence = saved.sequence;
        Ok(())
    }

    /// The bytes of both slots, as far as they exist. An error if the file is not ours.
    fn read(&self) -> Result<[Vec<u8>; 2]> {
        let fail = |e| Error::io(&self.path, "read", e);
        let bytes = self.file.len().map_err(fail)?.min(2 * SLOT_BYTES as u64) as usize;
        let mut all = vec![0; bytes];
        self.file.read_at(&mut all, 0).map_err(fail)?;
        all.resize(2 * SLOT_BYTES, 0);
        let second = all.split_off(SLOT_BYTES);
        let blank = |slot: &[u8]| slot.iter().all(|&b| b == 0);
        let ours = |slot: &[u8]| slot.starts_with(MAGIC);
        if ours(&all) || ours(&second) || (blank(&all) && blank(&second)) {
            return Ok([all, second]);
        }
        Err(not_ours(&self.path))
    }

    /// Writes a checkpoint. The files it describes must have been synced.
    pub(super) fn write(&mut self, storage: &dyn Storage, snapshot: &Snapshot) -> Result<()> {
        self.sequence += 1;
        let slot = encode(snapshot, self.id, self.sequence);
        let offset = (self.sequence % 2) * SLOT_BYTES as u64;
        let fail = |e| Error::io(&self.path, "write the checkpoint of the sort", e);
        storage.sync_names(&self.path).map_err(fail)?;
        self.file.write_at(&slot, offset).map_err(fail)?;
        self.file.sync().map_err(fail)
    }

    /// Removes the files of partitions and the checkpoints.
    fn clear(&mut self, storage: &dyn Storage) -> Result<()> {
        // The slots go first: a manifest must not describe files that are gone.
        let fail = |e| Error::io(&self.path, "clear", e);
        self.file.set_len(0).map_err(fail)?;
        self.file.sync().map_err(fail)?;
        remove_parts(storage, &self.prefix)
    }

    /// Removes everything, the manifest last.
    pub(super) fn remove(mut self, storage: &dyn Storage) -> Result<()> {
        self.clear(storage)?;
        // After a power loss no part may have a name while the manifest has none.
        self.sync_names(storage)?;
        storage.remove(&self.path).map_err(|e| Error::io(&self.path, "remove", e))
    }
}

/// Removes what a resumable run left, unless it is running or not ours. Returns how many records it had saved.
pub(super) fn remove_leftovers(storage: &dyn Storage, prefix: &Path) -> Result<u64> {
    let path = name(prefix, "");
    match storage.open(&path, Mode::Write) {
        // There is no file, or it is not ours.
        Err(_) => return Ok(0),
        Ok(file) => drop(file),
    }
    match SavedFile::open(storage, prefix, 0) {
        Ok((manifest, saved)) => {
            let records = manifest.of_another + saved.first().map_or(0, |saved| saved.snapshot.records);
            manifest.remove(storage).map(|()| records)
        }
        Err(e) if matches!(e.kind(), ErrorKind::Locked | ErrorKind::InvalidArgument) => Ok(0),
        Err(e) => Err(e),
    }
}

#[cold]
fn not_ours(path: &Path) -> Error {
    let message = format!("{}: has the name of a temporary file and was not made by a build", path.display());
    Error::new(ErrorKind::InvalidArgument, message).with_hint("Move it, or build in another directory.")
}

/// Every name that a file of a partition or of values can have.
fn names_of_parts(prefix: &Path) -> impl Iterator<Item = PathBuf> {
    (0..1 << FAN_OUT_BITS_MAX).map(move |part| part_name(prefix, part)).chain([far_name(prefix)])
}

fn remove_parts(storage: &dyn Storage, prefix: &Path) -> Result<()> {
    for path in names_of_parts(prefix) {
        storage.remove(&path).map_err(|e| Error::io(&path, "remove the temporary file", e))?;
    }
    Ok(())
}

const VARIED: u32 = 1;
const FIXED_BLOCKS: u32 = 2;
const COMPLETE: u32 = 4;
const ALL_FIXED: u32 = 8;

fn encode(snapshot: &Snapshot, id: u64, sequence: u64) -> Vec<u8> {
    let mut slot = vec![0; SLOT_BYTES];
    let mut state = if snapshot.complete { COMPLETE } else { 0 };
    let mut lengths = snapshot.fixed.unwrap_or(Fixed { key_len: 0, value_len: 0 });
    state |= if snapshot.fixed.is_some() { FIXED_BLOCKS } else { 0 };
    match snapshot.lengths {
        Lengths::None => {}
        Lengths::Fixed(fixed) => {
            lengths = fixed;
            state |= ALL_FIXED;
        }
        Lengths::Varied => state |= VARIED,
    }
    slot[..8].copy_from_slice(MAGIC);
    slot[12..16].copy_from_slice(&snapshot.prefix_bits.to_le_bytes());
    slot[16..24].copy_from_slice(&id.to_le_bytes());
    slot[24..32].copy_from_slice(&sequence.to_le_bytes());
    slot[32..40].copy_from_slice(&snapshot.records.to_le_bytes());
    slot[40..44].copy_from_slice(&lengths.key_len.to_le_bytes());
    slot[44..48].copy_from_slice(&lengths.value_len.to_le_bytes());
    slot[48..52].copy_from_slice(&state.to_le_bytes());
    slot[56..64].copy_from_slice(&snapshot.source.to_le_bytes());
    slot[64..72].copy_from_slice(&snapshot.far_bytes.to_le_bytes());
    for (at, (bytes, records)) in slot[HEAD_BYTES..].chunks_exact_mut(16).zip(&snapshot.parts) {
        at[..8].copy_from_slice(&bytes.to_le_bytes());
        at[8..].copy_from_slice(&records.to_le_bytes());
    }
    let sum = crc32c(&slot[12..]);
    slot[8..12].copy_from_slice(&sum.to_le_bytes());
    slot
}

/// Identity and content of a slot, if it is valid.
fn parse(slot: &[u8]) -> Option<(u64, Saved)> {
    let word = |at: usize| u32::from_le_bytes(slot[at..at + 4].try_into().expect("4 bytes"));
    let long = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("8 bytes"));
    let (prefix_bits, state) = (word(12), word(48));
    let good = slot.starts_with(MAGIC) && word(8) == crc32c(&slot[12..]);
    if !good || !(1..=FAN_OUT_BITS_MAX).contains(&prefix_bits) {
        return None;
    }
    let fixed = Fixed { key_len: word(40), value_len: word(44) };
    let lengths = match (state & VARIED != 0, state & ALL_FIXED != 0) {
        (true, _) => Lengths::Varied,
        (_, true) => Lengths::Fixed(fixed),
        _ => Lengths::None,
    };
    let part = |i: usize| (long(HEAD_BYTES + 16 * i), long(HEAD_BYTES + 16 * i + 8));
    let snapshot = Snapshot {
        prefix_bits,
        source: long(56),
        records: long(32),
        lengths,
        far_bytes: long(64),
        fixed: (state & FIXED_BLOCKS != 0).then_some(fixed),
        complete: state & COMPLETE != 0,
        parts: (0..1 << prefix_bits).map(part).collect(),
    };
    // Every record takes at least one byte in its file.
    let sum = snapshot.parts.iter().try_fold(
        0u64,
        |sum, &(bytes, records)| {
            if records > bytes { None } else { sum.checked_add(records) }
        },
    );
    let is_whole = sum == Some(snapshot.records) && snapshot.records <= snapshot.source;
    is_whole.then_some((long(16), Saved { sequence: long(24), snapshot }))
}
