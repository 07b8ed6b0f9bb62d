//! Sorts what does not fit in memory: sorted pieces in a temporary file, merged.
//!
//! Hashes are uniform, so a partition is too large for memory only if there is more data than memory times fan-out, or
//! if many records share one position, as with a poor hash function. One thread sorts it, with all the memory.
//!
//! ```text
//! blocks -> pieces of half the memory, sorted -> runs in a file -> (merged until few enough) -> heap -> pieces
//! ```
//! A merge holds one block of each run, and takes as many runs as fit in memory this way.
//!
//! Not here: the sort of a piece (`piece.rs`).

use super::piece::{SortRules, SortScratch, malformed, sort_piece};
use super::temporary::{Extent, Source, make_unnamed, name};
use super::temporary_block::{self, Block, BlockAt, CheckpointHeader};
use crate::dictionary::build::duplicates::{DuplicateKey, Duplicates, SortError};
use crate::dictionary::build::progress::ProgressCounter;
use crate::dictionary::run::{Record, Run, Span};
use crate::error::{Error, Result};
use crate::io::{File, Storage};
use crate::linear;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

/// The file number in checksums: not that of any partition.
const FILE_NUMBER: u32 = u32::MAX;

/// The destination of a merge, and its memory.
#[derive(Clone, Copy)]
pub(super) struct MergeSpace<'a> {
    pub storage: &'a dyn Storage,
    pub prefix: &'a Path,
    /// Each piece, and each block written, is reported here.
    pub progress: &'a ProgressCounter,
    pub budget: u64,
}

/// A merge whose result is taken run by run.
pub(super) struct ExternalMerge {
    heads: BinaryHeap<Head>,
    /// Records of one position, moved here from the end of the previous run.
    carry: Run,
    limit: usize,
    pub temporary_bytes: u64,
}

impl ExternalMerge {
    /// Sorts the records of partition `part` into runs, few enough for one merge.
    pub(super) fn new(
        space: MergeSpace<'_>,
        rules: &SortRules,
        part: usize,
        source: Source,
    ) -> Result<ExternalMerge, SortError> {
        let mut temporary_bytes = 0;
        let mut runs = sort_pieces(space, rules, part, source, &mut temporary_bytes)?;
        while runs.len() > 2 && runs.iter().map(|run| run.cost).sum::<u64>() > space.budget / 2 {
            runs = merge_some(space, rules, runs, &mut temporary_bytes)?;
        }
        let mut carry = Run::default();
        carry.clear_for(rules.lengths_of_runs());
        let limit = (space.budget / 4) as usize;
        Ok(ExternalMerge { heads: open(runs, rules)?, carry, limit, temporary_bytes })
    }

    /// Replaces the content of `run` with the next records, as many as fit in memory. `false` at the end.
    ///
    /// Ends before a new position. It ends within a position only if that alone is too large, and then between two
    /// keys.
    pub(super) fn next_run(&mut self, run: &mut Run, rules: &SortRules) -> Result<bool, SortError> {
        run.clear_for(rules.lengths_of_runs());
        self.carry.move_tail(0, run);
        // The start of the records of the last position.
        let mut group = 0;
        while let Some(head) = next_distinct(&mut self.heads, rules)? {
            let record = head.record(rules);
            let same = run.positions.last() == Some(&head.r);
            if !run.is_empty() && cost(run) + record.key.len() + record.value.map_or(0, <[u8]>::len) > self.limit {
                if same && group > 0 {
                    run.move_tail(group, &mut self.carry);
                }
                self.heads.push(head);
                return Ok(true);
            }
            if !same {
                group = run.len();
            }
            run.push_record(head.r, record);
            give_back(&mut self.heads, head, rules)?;
        }
        Ok(!run.is_empty())
    }
}

fn cost(run: &Run) -> usize {
    run.bytes.len() + run.len() * (8 + size_of::<Span>())
}

/// A sorted run in a file.
struct SortedRun {
    extent: Extent,
    /// The memory that a merge needs to read it.
    cost: u64,
}

fn sort_pieces(
    space: MergeSpace<'_>,
    rules: &SortRules,
    part: usize,
    mut source: Source,
    temporary_bytes: &mut u64,
) -> Result<Vec<SortedRun>, SortError> {
    let mut out = RunWriter::new(space, rules)?;
    let (mut scratch, mut run, mut places) = (SortScratch::default(), Run::default(), Vec::new());
    let mut runs = Vec::new();
    loop {
        space.progress.report()?;
        scratch.take_buffer(&mut run);
        let records = take_piece(&mut source, rules, space.budget / 2, &mut scratch.raw)?;
        if records == 0 {
            break;
        }
        let wanted = (rules.duplicates == Duplicates::Error).then_some(&mut places);
        sort_piece(&mut scratch, (part, records), rules, &source.path, &mut run, wanted)?;
        for i in 0..run.len() {
            out.push(run.record(i), places.get(i).copied().unwrap_or(0))?;
        }
        runs.push(out.end()?);
    }
    *temporary_bytes += out.at;
    Ok(runs)
}

/// Takes blocks into `raw` as long as sorting them needs at most `limit`, but at least one. Returns the number of
/// records.
fn take_piece(source: &mut Source, rules: &SortRules, limit: u64, raw: &mut Vec<u8>) -> Result<u64> {
    // Place and offset of each record, twice.
    let place_bytes = if rules.duplicates == Duplicates::Error { 32 } else { 0 };
    let fits = |bytes: usize, records: u64| {
        let (scratch, run) = rules.need(bytes as u64, records);
        // A sort counts the records of a piece in 32 bits.
        records <= u32::MAX.into() && scratch + run + records * place_bytes <= limit
    };
    let (mut bytes, mut records) = (0, 0);
    // Whether there is room for one more block; if so, counts it.
    let mut takes = |header: &CheckpointHeader| {
        let (more_bytes, more) = (bytes + header.block_bytes, records + header.records);
        let takes = records == 0 || fits(more_bytes, more);
        if takes {
            (bytes, records) = (more_bytes, more);
        }
        takes
    };
    raw.clear();
    while let Some(first) = source.blocks.front() {
        if !takes(&CheckpointHeader::parse(first).expect("sealed here")) {
            return Ok(records);
        }
        raw.extend_from_slice(&source.blocks.pop_front().expect("it is there"));
    }
    while let Some(extent) = source.extents.front_mut() {
        let mut rest = extent.clone();
        while !rest.is_empty() {
            let header = rest.peek()?;
            if !takes(&header) {
                break;
            }
            rest.split(header.block_bytes as u64);
        }
        extent.split(rest.from - extent.from).append_to(raw)?;
        if !extent.is_empty() {
            return Ok(records);
        }
        source.extents.pop_front();
    }
    if let Some(header) = CheckpointHeader::parse(&source.last)
        && takes(&header)
    {
        raw.append(&mut std::mem::take(&mut source.last));
    }
    Ok(records)
}

/// Merges consecutive runs, as many at a time as fit in memory, but at least two.
fn merge_some(
    space: MergeSpace<'_>,
    rules: &SortRules,
    runs: Vec<SortedRun>,
    temporary_bytes: &mut u64,
) -> Result<Vec<SortedRun>, SortError> {
    let mut out = RunWriter::new(space, rules)?;
    let mut merged = Vec::new();
    let mut runs = runs.into_iter().peekable();
    while let Some(first) = runs.next() {
        let mut cost = first.cost;
        let mut group = vec![first];
        while let Some(next) = runs.next_if(|next| group.len() < 2 || cost + next.cost <= space.budget / 2) {
            cost += next.cost;
            group.push(next);
        }
        let mut heads = open(group, rules)?;
        while let Some(head) = next_distinct(&mut heads, rules)? {
            out.push(head.record(rules), head.place())?;
            give_back(&mut heads, head, rules)?;
        }
        merged.push(out.end()?);
    }
    *temporary_bytes += out.at;
    Ok(merged)
}

/// Writes sorted records as blocks, run after run, to one file.
struct RunWriter<'a> {
    rules: &'a SortRules,
    progress: &'a ProgressCounter,
    file: Arc<dyn File>,
    path: Arc<Path>,
    block: Block,
    block_limit: usize,
    from: u64,
    at: u64,
    cost: u64,
}

impl<'a> RunWriter<'a> {
    fn new(space: MergeSpace<'a>, rules: &'a SortRules) -> Result<Self> {
        // Small enough for a merge of dozens of runs.
        let block_limit = (space.budget / 64).clamp(1 << 10, 256 << 10) as usize;
        let file = make_unnamed(space.storage, space.prefix)?;
        let path = name(space.prefix, "-merge").into();
        let (progress, block) = (space.progress, Block::default());
        Ok(RunWriter { rules, progress, file, path, block, block_limit, from: 0, at: 0, cost: 0 })
    }

    fn push(&mut self, record: Record<'_>, place: u64) -> Result<()> {
        let bytes = record.key.len() + record.value.map_or(0, <[u8]>::len);
        if self.block.is_full(bytes, self.block_limit) {
            self.flush()?;
        }
        match record.value {
            Some(value) if self.rules.all_fixed && self.rules.fixed.is_some() => {
                self.block.push_fixed(record.key, value, self.block_limit);
            }
            _ => self.block.push_varied(record, self.block_limit),
        }
        if self.rules.duplicates == Duplicates::Error {
            self.block.push_place(place);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.progress.report()?;
        let mut bytes = self.block.seal(self.rules.run_lengths());
        temporary_block::stamp(&mut bytes, FILE_NUMBER, self.at);
        let what = format!("write at byte {} of the temporary file", self.at);
        self.file.write_at(&bytes, self.at).map_err(|e| Error::io(&self.path, &what, e))?;
        self.at += bytes.len() as u64;
        let records = CheckpointHeader::parse(&bytes).map_or(0, |header| header.records);
        self.cost = self.cost.max(bytes.len() as u64 + records * 2 * size_of::<u64>() as u64);
        bytes.clear();
        self.block.reuse(bytes);
        Ok(())
    }

    fn end(&mut self) -> Result<SortedRun> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        let (file, path) = (self.file.clone(), self.path.clone());
        let extent = Extent { file, number: FILE_NUMBER, path, from: self.from, to: self.at };
        self.from = self.at;
        Ok(SortedRun { extent, cost: std::mem::take(&mut self.cost) })
    }
}

/// The next record of a run, with the block that contains it.
struct Head {
    r: u64,
    /// Runs of earlier records have smaller numbers.
    number: usize,
    /// The range of the key in `raw`.
    key: std::ops::Range<usize>,
    raw: Vec<u8>,
    ats: Vec<BlockAt>,
    places: Vec<u64>,
    next: usize,
    rest: Extent,
}

impl Head {
    fn key(&self) -> &[u8] {
        &self.raw[self.key.clone()]
    }

    fn record(&self, rules: &SortRules) -> Record<'_> {
        temporary_block::record(&self.raw, self.ats[self.next - 1], rules.fixed)
    }

    fn place(&self) -> u64 {
        self.places.get(self.next - 1).copied().unwrap_or(0)
    }

    /// Moves to the next record; `false` at the end.
    fn advance(&mut self, rules: &SortRules) -> Result<bool> {
        if self.next == self.ats.len() {
            if self.rest.is_empty() {
                return Ok(false);
            }
            self.load(rules)?;
        }
        let at = self.ats[self.next];
        self.next += 1;
        let key = temporary_block::record(&self.raw, at, rules.fixed).key;
        self.r = linear::Position::of(rules.hash.hash(key)).0;
        let start = key.as_ptr() as usize - self.raw.as_ptr() as usize;
        self.key = start..start + key.len();
        Ok(true)
    }

    fn load(&mut self, rules: &SortRules) -> Result<()> {
        let header = self.rest.peek()?;
        self.rest.split(header.block_bytes as u64).read_all(&mut self.raw)?;
        (self.ats, self.next) = (Vec::with_capacity(header.records as usize), 0);
        let ats = &mut self.ats;
        let walked = temporary_block::walk(&self.raw, rules.fixed, |at, _| ats.push(at));
        if walked.is_none() || self.ats.is_empty() {
            return Err(malformed(&self.rest.path));
        }
        if rules.duplicates == Duplicates::Error {
            self.places = temporary_block::places(&self.raw).ok_or_else(|| malformed(&self.rest.path))?;
        }
        Ok(())
    }
}

impl Ord for Head {
    /// Reversed, as the heap returns the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mine, others) = ((self.r, self.key(), self.number), (other.r, other.key(), other.number));
        others.cmp(&mine)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Head {}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

fn open(runs: Vec<SortedRun>, rules: &SortRules) -> Result<BinaryHeap<Head>> {
    let mut heads = BinaryHeap::with_capacity(runs.len());
    for (number, run) in runs.into_iter().enumerate() {
        let (raw, ats, places) = (Vec::new(), Vec::new(), Vec::new());
        let head = Head { r: 0, number, key: 0..0, raw, ats, places, next: 0, rest: run.extent };
        give_back(&mut heads, head, rules)?;
    }
    Ok(heads)
}

/// Puts a head back after moving it to its next record.
fn give_back(heads: &mut BinaryHeap<Head>, mut head: Head, rules: &SortRules) -> Result<()> {
    if head.advance(rules)? {
        heads.push(head);
    }
    Ok(())
}

/// Takes the head with the next record. If several have the same key, takes the one whose record is kept.
fn next_distinct(heads: &mut BinaryHeap<Head>, rules: &SortRules) -> Result<Option<Head>, SortError> {
    let Some(mut head) = heads.pop() else { return Ok(None) };
    while heads.peek().is_some_and(|next| next.r == head.r && next.key() == head.key()) {
        let next = heads.pop().expect("it was there");
        let gone = match rules.duplicates {
            Duplicates::Error => {
                let (first_place, place) = (head.place(), next.place());
                return Err(DuplicateKey { key: next.key().to_vec(), first_place, place }.into());
            }
            Duplicates::First => next,
            Duplicates::Last => std::mem::replace(&mut head, next),
        };
        give_back(heads, gone, rules)?;
    }
    Ok(Some(head))
}
