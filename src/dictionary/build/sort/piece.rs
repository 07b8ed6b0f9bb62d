//! Runs, the sorted records that the sort returns, and the sort of what fits in memory.
//!
//! ```text
//! raw blocks -> hash each key, count by the bits below the prefix -> scatter {r, at} -> insertion sort
//!            -> resolve equal keys -> gather the records in order, or record their locations if they are long
//! ```
//! The counting pass leaves a few records per bucket, as hashes are uniform. A bucket with many records is sorted with
//! a comparison sort. The insertion sort runs over all buckets at once: no record moves farther than its bucket.
//!
//! Not here: where the blocks come from (`workers.rs`, `external_merge.rs`).

use super::lengths::Fixed;
use super::temporary_block::{self, BlockAt};
use crate::dictionary::build::duplicates::{DuplicateKey, Duplicates, SortError};
use crate::dictionary::run::{Run, Span, Spans};
use crate::error::Error;
use crate::error::ErrorKind;
use crate::hash::HashFunction;
use crate::linear;
use std::path::Path;

/// Records of at least this many bytes on average stay in the blocks that were read, and the run has the location of
/// each: reading them out of order costs less than copying them.
const STAYING_BYTES_MIN: u64 = 256;

/// The rules shared by all pieces of a sort.
pub(super) struct SortRules {
    pub hash: HashFunction,
    pub duplicates: Duplicates,
    /// The number of leading bits of a position that select its partition.
    pub prefix_bits: u32,
    /// The shared lengths of records in blocks without lengths.
    pub fixed: Option<Fixed>,
    /// All blocks are without lengths.
    pub all_fixed: bool,
}

impl SortRules {
    pub(super) fn run_lengths(&self) -> Option<Fixed> {
        self.fixed.filter(|_| self.all_fixed)
    }

    pub(super) fn lengths_of_runs(&self) -> Option<(u32, u32)> {
        self.run_lengths().map(|fixed| (fixed.key_len, fixed.value_len))
    }

    /// The memory that a sort of this size takes: what is freed after it, and what the run keeps.
    pub(super) fn need(&self, raw_bytes: u64, records: u64) -> (u64, u64) {
        let entries = records * size_of::<SortEntry>() as u64 + (4 << bucket_bits(records));
        let stay = records_stay(raw_bytes, records);
        let gathered = if stay { 0 } else { raw_bytes };
        let span = if self.run_lengths().is_some() && !stay { 0 } else { size_of::<Span>() as u64 };
        (gathered + entries, raw_bytes + records * (8 + span))
    }
}

/// Whether the records of a run stay in the blocks that were read.
fn records_stay(raw_bytes: u64, records: u64) -> bool {
    raw_bytes / records.max(1) >= STAYING_BYTES_MIN
}

#[derive(Clone, Copy, Default)]
struct SortEntry {
    r: u64,
    at: BlockAt,
}

/// Reusable buffers of a sort.
#[derive(Default)]
pub(super) struct SortScratch {
    /// The blocks to sort.
    pub raw: Vec<u8>,
    entries: Vec<SortEntry>,
    starts: Vec<u32>,
}

impl SortScratch {
    /// Called before blocks are read: takes the buffer of a run no longer needed, if it is the larger one.
    pub(super) fn take_buffer(&mut self, run: &mut Run) {
        if self.raw.capacity() < run.bytes.capacity() {
            std::mem::swap(&mut self.raw, &mut run.bytes);
        }
    }
}

/// Bits below the prefix by which `records` records are scattered.
fn bucket_bits(records: u64) -> u32 {
    // At most this many records per bucket on average, and at least half as many. Fewer would mean fewer moves in the
    // insertion sort, more would mean counters that fit a cache.
    const RECORDS_A_BUCKET: u64 = 4;
    // The positions of 32-bit functions have no more bits.
    const BITS_MAX: u32 = 24;
    (records / RECORDS_A_BUCKET).max(1).next_power_of_two().trailing_zeros().min(BITS_MAX)
}

/// Sorts the blocks in `scratch.raw`, of partition `part`, into `run`. The places of its records go to `places` if they
/// are wanted.
pub(super) fn sort_piece(
    scratch: &mut SortScratch,
    (part, records): (usize, u64),
    rules: &SortRules,
    path: &Path,
    run: &mut Run,
    places: Option<&mut Vec<u64>>,
) -> Result<(), SortError> {
    let stay = records_stay(scratch.raw.len() as u64, records);
    run.clear_for(if stay { None } else { rules.lengths_of_runs() });
    scatter(scratch, part, records, rules, path, run)?;
    let SortScratch { raw, entries, .. } = scratch;
    if entries.windows(2).any(|pair| pair[0].r == pair[1].r) {
        resolve_ties(entries, raw, rules)?;
    }
    if let Some(places) = places {
        *places = places_of(entries, raw, rules);
    }
    run.positions.clear();
    run.positions.extend(entries.iter().map(|e| e.r));
    if stay {
        point(entries, raw, rules, run)
    } else {
        gather(entries, raw, rules, run)
    }
    Ok(())
}

/// Fills `entries`, sorted by position and then by the order of push.
fn scatter(
    scratch: &mut SortScratch,
    part: usize,
    records: u64,
    rules: &SortRules,
    path: &Path,
    run: &mut Run,
) -> Result<(), SortError> {
    let SortScratch { raw, entries, starts } = scratch;
    let bits = bucket_bits(records);
    let bucket = |r: u64| ((r << rules.prefix_bits) >> 1 >> (63 - bits)) as usize;
    starts.clear();
    starts.resize(1 << bits, 0);
    let positions = &mut run.positions;
    positions.reserve_exact(records as usize);
    let mut stray = 0;
    let walked = temporary_block::walk(raw, rules.fixed, |_, key| {
        let r = linear::Position::of(rules.hash.hash(key)).0;
        stray |= prefix(r, rules.prefix_bits) ^ part;
        starts[bucket(r)] += 1;
        positions.push(r);
    });
    if walked.is_none() || positions.len() as u64 != records {
        return Err(malformed(path).into());
    }
    if stray != 0 {
        return Err(unsteady_hash(rules).into());
    }
    let (mut sum, mut largest) = (0, 0);
    for start in &mut *starts {
        largest = largest.max(*start);
        sum += std::mem::replace(start, sum);
    }
    entries.clear();
    entries.resize(positions.len(), SortEntry::default());
    let mut i = 0;
    temporary_block::walk(raw, rules.fixed, |at, _| {
        let r = positions[i];
        let start = &mut starts[bucket(r)];
        entries[*start as usize] = SortEntry { r, at };
        *start += 1;
        i += 1;
    });
    // More records in a bucket mean that hashes are not uniform; an insertion sort would take time quadratic in their
    // number.
    const INSERTION_MAX: u32 = 48;
    if largest <= INSERTION_MAX {
        insertion_sort(entries);
    } else {
        sort_buckets(entries, starts);
    }
    Ok(())
}

/// The partition of a position.
#[inline]
pub(super) fn prefix(r: u64, bits: u32) -> usize {
    (r >> (64 - bits)) as usize
}

fn insertion_sort(entries: &mut [SortEntry]) {
    for i in 1..entries.len() {
        let entry = entries[i];
        let mut j = i;
        while j > 0 && entries[j - 1].r > entry.r {
            entries[j] = entries[j - 1];
            j -= 1;
        }
        entries[j] = entry;
    }
}

/// Sorts each bucket; `ends` are the ends of the buckets.
fn sort_buckets(entries: &mut [SortEntry], ends: &[u32]) {
    let mut start = 0;
    for &end in ends {
        entries[start..end as usize].sort_unstable_by_key(|e| (e.r, temporary_block::offset(e.at)));
        start = end as usize;
    }
}

/// Sorts records of one position by key, and keeps one record per key.
fn resolve_ties(entries: &mut Vec<SortEntry>, raw: &[u8], rules: &SortRules) -> Result<(), SortError> {
    let key = |e: &SortEntry| temporary_block::record(raw, e.at, rules.fixed).key;
    let (mut kept, mut start) = (0, 0);
    while start < entries.len() {
        let same = entries[start..].iter().take_while(|e| e.r == entries[start].r).count();
        let group = &mut entries[start..start + same];
        if same > 1 {
            group.sort_unstable_by(|a, b| {
                key(a).cmp(key(b)).then_with(|| temporary_block::offset(a.at).cmp(&temporary_block::offset(b.at)))
            });
        }
        let first = kept;
        for i in start..start + same {
            let entry = entries[i];
            let again = kept > first && key(&entries[kept - 1]) == key(&entry);
            match rules.duplicates {
                Duplicates::Error if again => return Err(duplicate(entries[kept - 1], entry, raw, rules)),
                Duplicates::First if again => {}
                Duplicates::Last if again => entries[kept - 1] = entry,
                _ => {
                    entries[kept] = entry;
                    kept += 1;
                }
            }
        }
        start += same;
    }
    entries.truncate(kept);
    Ok(())
}

#[cold]
fn duplicate(first: SortEntry, again: SortEntry, raw: &[u8], rules: &SortRules) -> SortError {
    let key = temporary_block::record(raw, again.at, rules.fixed).key.to_vec();
    let places = places_of(&[first, again], raw, rules);
    SortError::Duplicate(DuplicateKey { key, first_place: places[0], place: places[1] })
}

/// The places of the records of `entries`; 0 if places are not kept.
fn places_of(entries: &[SortEntry], raw: &[u8], rules: &SortRules) -> Vec<u64> {
    let all = temporary_block::places(raw).unwrap_or_default();
    let mut offsets = Vec::with_capacity(all.len());
    temporary_block::walk(raw, rules.fixed, |at, _| offsets.push(temporary_block::offset(at)));
    let place =
        |e: &SortEntry| offsets.binary_search(&temporary_block::offset(e.at)).ok().and_then(|i| all.get(i)).copied();
    entries.iter().map(|e| place(e).unwrap_or(0)).collect()
}

/// Moves the blocks to the run, with the location of each record in them.
fn point(entries: &[SortEntry], raw: &mut Vec<u8>, rules: &SortRules, run: &mut Run) {
    if let Spans::Varied(spans) = &mut run.spans {
        spans.reserve_exact(entries.len());
        spans.extend(entries.iter().map(|e| temporary_block::span(raw, e.at, rules.fixed)));
    }
    run.bytes = std::mem::take(raw);
}

fn gather(entries: &[SortEntry], raw: &[u8], rules: &SortRules, run: &mut Run) {
    match rules.run_lengths() {
        Some(fixed) => match fixed.stride() {
            // A copy of a length known at compile time is a move, not a call.
            8 => gather_fixed::<8>(entries, raw, &mut run.bytes),
            12 => gather_fixed::<12>(entries, raw, &mut run.bytes),
            16 => gather_fixed::<16>(entries, raw, &mut run.bytes),
            24 => gather_fixed::<24>(entries, raw, &mut run.bytes),
            32 => gather_fixed::<32>(entries, raw, &mut run.bytes),
            stride => {
                run.bytes.reserve_exact(entries.len() * stride);
                for e in entries {
                    let start = temporary_block::offset(e.at);
                    run.bytes.extend_from_slice(&raw[start..start + stride]);
                }
            }
        },
        None => {
            run.bytes.reserve_exact(raw.len());
            if let Spans::Varied(spans) = &mut run.spans {
                spans.reserve_exact(entries.len());
            }
            entries.iter().for_each(|e| run.push_bytes(temporary_block::record(raw, e.at, rules.fixed)));
        }
    }
}

fn gather_fixed<const N: usize>(entries: &[SortEntry], raw: &[u8], out: &mut Vec<u8>) {
    out.reserve_exact(entries.len() * N);
    for e in entries {
        let start = temporary_block::offset(e.at);
        let record: &[u8; N] = raw[start..start + N].try_into().expect("N bytes");
        out.extend_from_slice(record);
    }
}

/// The error for blocks with correct checksums that do not contain valid records.
#[cold]
pub(super) fn malformed(path: &Path) -> Error {
    let what = "the temporary blocks have good checksums but do not hold the records that were written";
    Error::corrupt(format!("{}: {what}", path.display())).with_hint("Remove the temporary files and build again.")
}

#[cold]
fn unsteady_hash(rules: &SortRules) -> Error {
    let message = format!("hash function \"{}\" gave a key two different hashes", rules.hash.name());
    Error::new(ErrorKind::WrongHash, message)
        .with_hint("It must depend on the key alone. If it was changed, remove the temporary files and build again.")
}
