//! External sort in hash order, in bounded memory: the heart of building a dictionary.
//!
//! Hashes are uniform, so records are distributed rather than merged: the first bits of a record's position select one
//! of many partitions. Each partition fits in memory, and they are sorted one after another.
//!
//! ```text
//! push -> hash -> block of its partition --- the first ones, and the last ------> Sorted
//!                      \-- full blocks between -> thread -> file of the partition --/
//! Sorted: partition -> read, hash, count, scatter, gather -> Run      by several threads, given out in order
//!         one larger than memory -> sorted pieces -> merge -> Runs
//! ```
//! With resume, checkpoints make what has been distributed durable, and a later sort of the same identity continues
//! from there.
//!
//! Source: distribution sort, Knuth, The Art of Computer Programming 3, 5.2.5; an MSD radix sort whose first digit is
//! on disk. Not here: where records come from, how they are used.

pub(crate) mod alike;
mod external_merge;
pub(crate) mod lengths;
mod piece;
mod saved;
pub(in crate::dictionary) mod temporary;
mod temporary_block;
#[cfg(test)]
mod tests;
mod workers;

use super::duplicates::Duplicates;
use super::far::FarFile;
use super::memory::Forecast;
use super::plan::Plan;
use crate::dictionary::run::{FAR_LEN_MIN, Far, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::heap;
use crate::io::{File, Mode, forked_since, forks};
use crate::linear;
use alike::Alike;

use lengths::{Fixed, Lengths};
use piece::SortRules;
use saved::{FAN_OUT_BITS_MAX, SavedFile, Snapshot};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use temporary::{Extent, Job, Source, Writer};
use temporary_block::Block;
use workers::{Partition, Start};

pub(crate) use saved::Saved;
pub(crate) use workers::Sorted;

const FAN_OUT_BITS_MIN: u32 = 3;
/// Blocks being filled take up to a quarter of the memory. Nothing goes to disk before all blocks take 13 sixteenths.
/// Then sealed ones take half of the memory, and up to an eighth is queued for writing. The places of records, and
/// blocks that have grown, take the rest.
const FILLING: u64 = 4;
/// Larger blocks would only take memory: one system call per block costs little compared with writing its bytes.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Uses fewer partitions rather than smaller blocks than this, but not fewer than [`FAN_OUT_BITS_MIN`] allows.
const BLOCK_BYTES_WANTED: u64 = 64 << 10;
/// Keys that are hashed before their records are copied: the processor hashes several at a time.
const HASHED_AT_ONCE: usize = 32;

/// Takes records in any order.
pub(crate) struct Sorter {
    options: Plan,
    prefix_bits: u32,
    block_bytes: usize,
    /// One per partition.
    blocks: Vec<Block>,
    parts: Vec<Distributed>,
    lengths: Lengths,
    /// Whether any record is a deletion.
    removals: bool,
    /// The lengths shared by all records that are not deletions.
    put_lengths: Lengths,
    /// The shared lengths of records in blocks without lengths.
    fixed: Option<Fixed>,
    /// Values that are not held in memory.
    far: Option<FarFile>,
    records: u64,
    resumed: u64,
    /// Records of an earlier sort that this one could not use and has removed.
    discarded: u64,
    /// Bytes of sealed blocks in memory.
    held: u64,
    /// Created as soon as something goes to disk.
    writer: Option<Writer>,
    manifest: Option<SavedFile>,
    /// The manifest has a checkpoint that a later sort can continue from.
    saved: bool,
    /// The process that sorts; see `io/forks.rs`.
    forks: u32,
}

/// The content of a partition besides the block being filled.
#[derive(Default)]
pub(crate) struct Distributed {
    /// Sealed blocks in memory, which were taken before those in the file.
    blocks: VecDeque<Vec<u8>>,
    file: Option<Arc<dyn File>>,
    /// The last block, if there is a file and the block is not in it.
    last: Vec<u8>,
    /// Bytes of all sealed blocks, in memory and in the file.
    bytes: u64,
    /// Bytes of the blocks in the file.
    file_bytes: u64,
    /// The start in the file of the blocks that were taken before the others, if not at its beginning.
    first_from: Option<u64>,
    records: u64,
    /// The file has data written since the last checkpoint.
    unsynced: bool,
}

impl Sorter {
    /// Starts a sort that does not continue an earlier one.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub(crate) fn new(options: Plan) -> Result<Self> {
        let (mut sorter, saved) = Self::open(options)?;
        sorter.start_anew(&saved)?;
        sorter.make_blocks();
        Ok(sorter)
    }

    /// Creates an empty sort. With [`Plan::resume`] it also returns the checkpoints of an earlier sort of the same
    /// identity, the last first. Without, it removes what an earlier sort left, unless that one is running.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if another run is using the same files.
    pub(crate) fn open(mut options: Plan) -> Result<(Self, Vec<Saved>)> {
        options.threads = options.threads.max(1);
        let fan_out = (options.memory_bytes / FILLING / BLOCK_BYTES_WANTED).max(1);
        let bits_max = options.open_files.max(2).ilog2().min(FAN_OUT_BITS_MAX);
        let prefix_bits = fan_out.ilog2().clamp(FAN_OUT_BITS_MIN.min(bits_max), bits_max);
        let mut sorter = Sorter {
            options,
            prefix_bits,
            block_bytes: 0,
            blocks: Vec::new(),
            parts: Vec::new(),
            lengths: Lengths::None,
            removals: false,
            put_lengths: Lengths::None,
            fixed: None,
            far: None,
            records: 0,
            resumed: 0,
            discarded: 0,
            held: 0,
            writer: None,
            manifest: None,
            saved: false,
            forks: forks(),
        };
        let saved = sorter.find_earlier()?;
        // Kept if this sort fails before it continues from them.
        sorter.saved = !saved.is_empty();
        Ok((sorter, saved))
    }

    /// The number of records of an earlier sort that this one could not use and has removed.
    pub(crate) fn discarded_records(&self) -> u64 {
        self.discarded
    }

    /// Whether anything has gone to disk.
    pub(crate) fn is_spilled(&self) -> bool {
        self.writer.is_some() || self.far.is_some()
    }

    /// Whether a later sort can continue from this one.
    pub(crate) fn has_saved(&self) -> bool {
        self.saved
    }

    /// Creates a block to fill for each partition; must be called before the first record.
    pub(crate) fn make_blocks(&mut self) {
        let parts = 1 << self.prefix_bits;
        self.block_bytes = (self.options.memory_bytes / FILLING / parts as u64).min(BLOCK_BYTES_MAX) as usize;
        self.blocks.resize_with(parts, Block::default);
        self.parts.resize_with(parts, Distributed::default);
    }

    /// Takes a record; `None` as the value deletes the key. `place` is its place in the source, never smaller than the
    /// previous one.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`]; errors of temporary files, after which the sort must be restarted from the beginning.
    pub(crate) fn push(&mut self, key: &[u8], value: Option<&[u8]>, place: u64) -> Result<()> {
        self.refuse_if_forked()?;
        // Before anything changes, as the user's function may panic.
        let part = piece::prefix(linear::Position::of(self.options.hash.hash(key)).0, self.prefix_bits);
        let value_len = value.map(<[u8]>::len);
        let same = |f: Fixed| f.key_len as usize == key.len() && Some(f.value_len as usize) == value_len;
        if !matches!(self.lengths, Lengths::Fixed(fixed) if same(fixed)) {
            self.note_lengths(key, value)?;
        }
        let in_fixed_blocks = self.in_fixed_blocks();
        let far = match value {
            Some(value) if value.len() >= FAR_LEN_MIN && !in_fixed_blocks => Some(self.put_elsewhere(value)?.bytes()),
            _ => None,
        };
        // `note_lengths` has checked its length.
        let far_len = far.and(value_len).map(|len| len as u32);
        let value = far.as_ref().map(|far| &far[..]).or(value);
        let bytes = key.len() + value.map_or(0, <[u8]>::len);
        if self.blocks[part].is_full(bytes, self.block_bytes) {
            self.seal(part)?;
        }
        let block = &mut self.blocks[part];
        match value {
            Some(value) if in_fixed_blocks => block.push_fixed(key, value, self.block_bytes),
            value => block.push_varied(Record { key, value, far_len }, self.block_bytes),
        }
        if self.options.duplicates == Duplicates::Error {
            block.push_place(place);
        }
        self.parts[part].records += 1;
        self.records += 1;
        Ok(())
    }

    /// Calls [`push`](Self::push) for each of `records`.
    pub(crate) fn push_alike(&mut self, mut records: Alike<'_>) -> Result<()> {
        let Alike { key_len, value_len, .. } = records;
        while records.count > 0 && !self.are_fixed(key_len, value_len) {
            let (first, rest) = records.split(1);
            let (key, value, place) = first.records().next().expect("one");
            self.push(key, value, place)?;
            records = rest;
        }
        while records.count > 0 {
            let (now, rest) = records.split(records.count.min(HASHED_AT_ONCE));
            self.push_fixed(now)?;
            records = rest;
        }
        Ok(())
    }

    /// Whether records of these lengths are stored without lengths, and some already have been.
    fn are_fixed(&self, key_len: usize, value_len: Option<usize>) -> bool {
        let same = |f: Fixed| f.key_len as usize == key_len && Some(f.value_len as usize) == value_len;
        self.in_fixed_blocks() && matches!(self.lengths, Lengths::Fixed(fixed) if same(fixed))
    }

    /// Takes [`HASHED_AT_ONCE`] records or fewer, whose lengths [`are_fixed`](Self::are_fixed).
    fn push_fixed(&mut self, records: Alike<'_>) -> Result<()> {
        self.refuse_if_forked()?;
        let stride = records.stride();
        let mut parts = [0; HASHED_AT_ONCE];
        for (part, record) in parts.iter_mut().zip(records.bytes.chunks_exact(stride)) {
            let hash = self.options.hash.hash(&record[..records.key_len]);
            *part = piece::prefix(linear::Position::of(hash).0, self.prefix_bits);
        }
        match stride {
            // A copy of a length known at compile time is a move, not a call.
            8 => self.distribute::<8>(&parts, records),
            12 => self.distribute::<12>(&parts, records),
            16 => self.distribute::<16>(&parts, records),
            24 => self.distribute::<24>(&parts, records),
            32 => self.distribute::<32>(&parts, records),
            _ => self.distribute::<0>(&parts, records),
        }
    }

    /// Copies records to the blocks of their partitions. Each has `N` bytes; with `N` = 0, any number.
    #[inline]
    fn distribute<const N: usize>(&mut self, parts: &[usize; HASHED_AT_ONCE], records: Alike<'_>) -> Result<()> {
        let stride = if N > 0 { N } else { records.stride() };
        let with_places = self.options.duplicates == Duplicates::Error;
        let mut place = records.first_place;
        for (&part, record) in parts.iter().zip(records.bytes.chunks_exact(stride)) {
            if self.blocks[part].is_full(stride, self.block_bytes) {
                self.seal(part)?;
            }
            let block = &mut self.blocks[part];
            block.push_fixed(record, &[], self.block_bytes);
            if with_places {
                block.push_place(place);
            }
            place = place.wrapping_add(1);
            self.parts[part].records += 1;
        }
        self.records += records.count as u64;
        Ok(())
    }

    /// Writes a value that is not held in memory to a file.
    #[cold]
    fn put_elsewhere(&mut self, value: &[u8]) -> Result<Far> {
        let far = match &mut self.far {
            Some(far) => far,
            none => {
                let prefix = &self.options.temporary;
                let storage = self.options.storage.as_ref();
                let file = match self.manifest {
                    Some(_) => temporary::make_named(&self.options, &temporary::far_name(prefix))?,
                    None => temporary::make_unnamed(storage, prefix)?,
                };
                none.insert(FarFile { file, path: temporary::far_name(prefix).into(), bytes: 0 })
            }
        };
        far.push(value)
    }

    /// A child of the sorting process does not have its thread and must not touch its files.
    #[inline]
    pub(crate) fn refuse_if_forked(&self) -> Result<()> {
        if forked_since(self.forks) { Err(forked_error(&self.options.temporary)) } else { Ok(()) }
    }

    /// The forecast for the records taken, once duplicate keys are resolved.
    pub(crate) fn forecast(&self) -> Forecast {
        let sealed: u64 = self.parts.iter().map(|part| part.bytes).sum();
        Forecast {
            // Unless duplicate keys are refused, all records may have the same key.
            records_min: if self.options.duplicates == Duplicates::Error { self.records } else { self.records.min(1) },
            records_max: self.records,
            record_bytes: (sealed + self.filling()) / self.records.max(1),
        }
    }

    /// The number of records taken.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Whether any record is a deletion.
    pub(crate) fn removals(&self) -> bool {
        self.removals
    }

    /// Calls [`finish_within`](Self::finish_within) with the memory of the plan.
    #[cfg(test)]
    pub(crate) fn finish(self) -> Result<Sorted> {
        let memory_bytes = self.options.memory_bytes;
        self.finish_within(memory_bytes)
    }

    /// Ends the input and starts the output, using at most `memory_bytes`.
    pub(crate) fn finish_within(mut self, memory_bytes: u64) -> Result<Sorted> {
        self.refuse_if_forked()?;
        let rules = SortRules {
            hash: self.options.hash.clone(),
            duplicates: self.options.duplicates,
            prefix_bits: self.prefix_bits,
            fixed: self.fixed,
            all_fixed: self.in_fixed_blocks(),
        };
        self.seal_last();
        self.spill_to(self.held_max(memory_bytes, &rules))?;
        if let Some(writer) = &self.writer {
            writer.drain()?;
        }
        let spilled = self.writer.take().is_some();
        self.blocks = Vec::new();
        if spilled {
            heap::give_back();
        }
        let parts = std::mem::take(&mut self.parts);
        let parts: Vec<Partition> = parts.into_iter().enumerate().map(|(i, part)| self.to_sort(i, part)).collect();
        let spilled = self.temporary_bytes(&parts);
        let start = Start {
            prefix: self.options.temporary.clone(),
            progress: Arc::clone(&self.options.progress),
            rules,
            parts,
            budget: memory_bytes - self.held,
            threads: self.options.threads,
            records: self.records,
            // An earlier run has saved only pairs: only builds are resumed, and they delete nothing.
            removals: self.removals,
            put_lengths: if self.resumed > 0 { self.lengths } else { self.put_lengths },
            temporary_bytes: spilled,
            manifest: self.manifest.take(),
            saved: self.saved,
            far: self.far.take(),
        };
        Sorted::start(Arc::clone(&self.options.storage), start)
    }

    fn temporary_bytes(&self, parts: &[Partition]) -> u64 {
        let of_part = |part: &Partition| {
            let source = part.source.lock().expect("no other thread has it yet");
            source.as_ref().map_or(0, Source::file_bytes)
        };
        parts.iter().map(of_part).sum()
    }

    fn to_sort(&self, number: usize, part: Distributed) -> Partition {
        let path: Arc<Path> = temporary::part_name(&self.options.temporary, number).into();
        let mut extents = VecDeque::new();
        if let Some(file) = part.file {
            let first_from = part.first_from.unwrap_or(0);
            for (from, to) in [(first_from, part.file_bytes), (0, first_from)] {
                let (file, path) = (Arc::clone(&file), Arc::clone(&path));
                extents.push_back(Extent { file, number: number as u32, path, from, to });
            }
            extents.retain(|extent| !extent.is_empty());
        }
        let source = Source { blocks: part.blocks, extents, last: part.last, path };
        Partition { source: Mutex::new(Some(source)), bytes: part.bytes, records: part.records }
    }

    /// Whether records are stored in blocks without lengths.
    fn in_fixed_blocks(&self) -> bool {
        matches!(self.lengths, Lengths::Fixed(_)) && self.fixed.is_some()
    }

    /// Called for the first record, for one with other lengths than before, and for a deletion.
    fn note_lengths(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let too_long = |what: &str, bytes: &[u8]| {
            let message = format!("a {what} of {} bytes; a dictionary holds up to {}", bytes.len(), u32::MAX);
            Err(Error::new(ErrorKind::TooLong, message))
        };
        let key_len = u32::try_from(key.len()).or_else(|_| too_long("key", key))?;
        let value_len = value.map_or(Ok(0), |v| u32::try_from(v.len()).or_else(|_| too_long("value", v)))?;
        let fixed = Fixed { key_len, value_len };
        self.removals |= value.is_none();
        if value.is_some() {
            self.put_lengths = match self.put_lengths {
                Lengths::None => Lengths::Fixed(fixed),
                Lengths::Fixed(known) if known == fixed => self.put_lengths,
                _ => Lengths::Varied,
            };
        }
        match self.lengths {
            Lengths::Varied => {}
            Lengths::None if value.is_some() => {
                self.lengths = Lengths::Fixed(fixed);
                // A block without lengths could not hold records of no bytes.
                self.fixed = Some(fixed).filter(|fixed| fixed.stride() > 0 && (value_len as usize) < FAR_LEN_MIN);
            }
            _ => {
                self.seal_all()?;
                self.lengths = Lengths::Varied;
            }
        }
        Ok(())
    }

    fn seal_all(&mut self) -> Result<()> {
        for part in 0..self.blocks.len() {
            if !self.blocks[part].is_empty() {
                self.seal(part)?;
            }
        }
        Ok(())
    }

    /// Moves the block being filled to the sealed ones.
    fn seal(&mut self, part: usize) -> Result<()> {
        let block = self.sealed(part);
        if self.writer.is_some() {
            return self.write(part, block);
        }
        self.held += block.len() as u64;
        self.parts[part].blocks.push_back(block);
        if self.held + self.filling() > self.options.memory_bytes / 16 * 13 {
            self.overflow()?;
        }
        Ok(())
    }

    /// Bytes in blocks that are being filled.
    fn filling(&self) -> u64 {
        self.blocks.iter().map(|block| block.len() as u64).sum()
    }

    fn sealed(&mut self, part: usize) -> Vec<u8> {
        let fixed = self.fixed.filter(|_| self.in_fixed_blocks());
        let block = self.blocks[part].seal(fixed);
        self.parts[part].bytes += block.len() as u64;
        block
    }

    /// Seals the blocks being filled at the end. They stay in memory: it was theirs until now.
    fn seal_last(&mut self) {
        for part in 0..self.blocks.len() {
            if !self.blocks[part].is_empty() {
                let mut block = self.sealed(part);
                block.shrink_to_fit();
                self.held += block.len() as u64;
                let of_part = &mut self.parts[part];
                match of_part.file {
                    Some(_) => of_part.last = block,
                    None => of_part.blocks.push_back(block),
                }
            }
        }
    }

    /// The most bytes of blocks that may stay in memory while partitions are sorted, of `memory_bytes` in all.
    fn held_max(&self, memory_bytes: u64, rules: &SortRules) -> u64 {
        let need = |part: &Distributed| {
            let (scratch, run) = rules.need(part.bytes, part.records);
            scratch + run
        };
        let largest = self.parts.iter().map(need).max().unwrap_or(0);
        // One for each thread, and the one that is being written.
        let at_once = self.options.threads as u64 + 1;
        memory_bytes.saturating_sub(largest.saturating_mul(at_once)).max(memory_bytes / 2)
    }

    /// From here on blocks go to disk. Most of those in memory stay there, unless checkpoints must include them.
    fn overflow(&mut self) -> Result<()> {
        self.start_writer()?;
        self.spill_to(if self.manifest.is_some() { 0 } else { self.options.memory_bytes / 2 })
    }

    /// Writes blocks from memory to disk, starting with the last partition, until at most `limit` bytes are left.
    fn spill_to(&mut self, limit: u64) -> Result<()> {
        if self.held > limit && self.writer.is_none() {
            self.start_writer()?;
        }
        for part in (0..self.parts.len()).rev() {
            if self.held <= limit {
                break;
            }
            let last = std::mem::take(&mut self.parts[part].last);
            if !last.is_empty() {
                self.held -= last.len() as u64;
                self.write(part, last)?;
            }
            let of_part = &mut self.parts[part];
            of_part.first_from = Some(of_part.file_bytes).filter(|_| !of_part.blocks.is_empty());
            while let Some(block) = self.parts[part].blocks.pop_front() {
                self.held -= block.len() as u64;
                self.write(part, block)?;
            }
        }
        Ok(())
    }

    fn start_writer(&mut self) -> Result<()> {
        let limit = self.options.memory_bytes / 8;
        self.writer = Some(Writer::start(&self.options.temporary, limit)?);
        Ok(())
    }

    fn write(&mut self, part: usize, block: Vec<u8>) -> Result<()> {
        let of_part = &mut self.parts[part];
        let file = match &of_part.file {
            Some(file) => file.clone(),
            None => {
                let prefix = &self.options.temporary;
                let file = match self.manifest {
                    Some(_) => temporary::make_named(&self.options, &temporary::part_name(prefix, part))?,
                    None => temporary::make_unnamed(self.options.storage.as_ref(), prefix)?,
                };
                of_part.file.insert(file).clone()
            }
        };
        let bytes = block.len() as u64;
        let job = Job { file, part, offset: of_part.file_bytes, block };
        of_part.file_bytes += bytes;
        of_part.unsynced = true;
        let spare = self.writer.as_ref().expect("started by spill").submit(job)?;
        self.blocks[part].reuse(spare);
        Ok(())
    }

    /// Makes everything taken so far durable and records it in the manifest: all sorts of the build together have saved
    /// `source` records of the source; `complete` means that no more follow.
    ///
    /// # Errors
    /// Errors of temporary files, after which the sort must be restarted from the beginning.
    pub(crate) fn checkpoint(&mut self, source: u64, complete: bool) -> Result<()> {
        self.seal_all()?;
        if self.writer.is_none() {
            self.overflow()?;
        }
        self.writer.as_ref().expect("just started").drain()?;
        for (i, part) in self.parts.iter_mut().enumerate().filter(|(_, part)| part.unsynced) {
            let path = || temporary::part_name(&self.options.temporary, i);
            let file = part.file.as_ref().expect("what was written has a file");
            file.sync().map_err(|e| Error::io(&path(), "sync the temporary file", e))?;
            part.unsynced = false;
        }
        if let Some(far) = &self.far {
            far.file.sync().map_err(|e| Error::io(&far.path, "sync the temporary file", e))?;
        }
        let snapshot = Snapshot {
            prefix_bits: self.prefix_bits,
            source,
            records: self.records,
            lengths: self.lengths,
            fixed: self.fixed,
            far_bytes: self.far.as_ref().map_or(0, |far| far.bytes),
            complete,
            parts: self.parts.iter().map(|part| (part.bytes, part.records)).collect(),
        };
        self.manifest.as_mut().expect("asked before").write(self.options.storage.as_ref(), &snapshot)?;
        self.saved = true;
        Ok(())
    }

    /// The checkpoints of an earlier sort, the last first.
    fn find_earlier(&mut self) -> Result<Vec<Saved>> {
        let prefix = self.options.temporary.clone();
        let Some(resume) = self.options.resume else {
            self.discarded = saved::remove_leftovers(self.options.storage.as_ref(), &prefix)?;
            return Ok(Vec::new());
        };
        // Depending on the option, blocks have places or not.
        let places = u64::from(self.options.duplicates == Duplicates::Error);
        let id = resume.rotate_left(1) ^ places;
        let (manifest, saved) = SavedFile::open(self.options.storage.as_ref(), &prefix, id)?;
        self.options.share(manifest.file(), &prefix)?;
        self.manifest = Some(manifest);
        Ok(saved)
    }

    /// Adopts the records that an earlier sort had saved; `parts` are its files.
    pub(crate) fn continue_from(&mut self, saved: Saved, parts: Vec<Distributed>) -> Result<()> {
        self.manifest.as_mut().expect("what was saved is in it").go_back_to(&saved)?;
        let snapshot = saved.snapshot;
        self.parts = parts;
        (self.prefix_bits, self.lengths, self.fixed) = (snapshot.prefix_bits, snapshot.lengths, snapshot.fixed);
        (self.records, self.resumed) = (snapshot.records, snapshot.records);
        self.cut_to(&snapshot)?;
        if snapshot.far_bytes > 0 {
            let path = temporary::far_name(&self.options.temporary);
            let fail = |e| Error::io(&path, "reopen the temporary file", e);
            let file: Arc<dyn File> = self.options.storage.open(&path, Mode::Write).map_err(fail)?.into();
            file.set_len(snapshot.far_bytes).map_err(fail)?;
            self.far = Some(FarFile { file, path: path.clone().into(), bytes: snapshot.far_bytes });
        }
        self.saved = true;
        self.start_writer()
    }

    /// Removes what an earlier sort left, whose checkpoints were `saved`.
    pub(crate) fn start_anew(&mut self, saved: &[Saved]) -> Result<()> {
        let Some(manifest) = &mut self.manifest else { return Ok(()) };
        self.discarded = saved.first().map_or(manifest.of_another, |saved| saved.snapshot.records);
        self.saved = false;
        manifest.start_anew(self.options.storage.as_ref())
    }

    /// The files of an earlier sort; `None` if one is gone or too short.
    pub(crate) fn open_parts(&self, saved: &Saved) -> Result<Option<Vec<Distributed>>> {
        let mut parts = Vec::new();
        for (i, &(bytes, records)) in saved.snapshot.parts.iter().enumerate() {
            let mut part = Distributed { bytes, file_bytes: bytes, records, ..Distributed::default() };
            if bytes > 0 {
                let path = temporary::part_name(&self.options.temporary, i);
                let fail = |e| Error::io(&path, "reopen the temporary file", e);
                let file: Arc<dyn File> = match self.options.storage.open(&path, Mode::Write) {
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    other => other.map_err(fail)?.into(),
                };
                if file.len().map_err(fail)? < bytes {
                    return Ok(None);
                }
                part.file = Some(file);
            }
            parts.push(part);
        }
        let far = temporary::far_name(&self.options.temporary);
        let far_bytes = match self.options.storage.open(&far, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 0,
            file => file.and_then(|file| file.len()).map_err(|e| Error::io(&far, "reopen the temporary file", e))?,
        };
        Ok((far_bytes >= saved.snapshot.far_bytes).then_some(parts))
    }

    /// Truncates files to the length in the checkpoint, and removes those that it does not have.
    fn cut_to(&self, snapshot: &Snapshot) -> Result<()> {
        for (i, (part, (bytes, _))) in self.parts.iter().zip(&snapshot.parts).enumerate() {
            let path = temporary::part_name(&self.options.temporary, i);
            match &part.file {
                Some(file) => file.set_len(*bytes).map_err(|e| Error::io(&path, "cut the temporary file", e)),
                None => {
                    self.options.storage.remove(&path).map_err(|e| Error::io(&path, "remove the temporary file", e))
                }
            }?;
        }
        if snapshot.far_bytes == 0 {
            let path = temporary::far_name(&self.options.temporary);
            self.options.storage.remove(&path).map_err(|e| Error::io(&path, "remove the temporary file", e))?;
        }
        Ok(())
    }
}

/// The error for a build at `path` that a forked child tries to continue.
#[cold]
pub(crate) fn forked_error(path: &Path) -> Error {
    let message = "the build was started before this process was forked from its parent, which continues it";
    Error::new(ErrorKind::Forked, format!("{}: {message}", path.display())).with_hint("Start another in the child.")
}

impl Drop for Sorter {
    fn drop(&mut self) {
        if forked_since(self.forks) {
            // The thread does not exist here, and the files belong to the parent.
            std::mem::forget((self.writer.take(), self.manifest.take()));
            return;
        }
        self.writer = None;
        if let Some(manifest) = self.manifest.take().filter(|_| !self.saved) {
            // Nothing of it can be resumed.
            let _ = manifest.remove(self.options.storage.as_ref());
        }
    }
}
