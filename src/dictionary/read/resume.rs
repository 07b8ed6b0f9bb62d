//! Records of a file from a position on, in hash order, for a scan that continues where an earlier one ended.
//!
//! ```text
//! records in hash order        interpolation to a cell before the position, then a walk
//! records of one size, chunks  the chunk that contains the position, then a walk, chunk by chunk
//! other records, chunks        the page on which that chunk begins, then a walk; the index has the end of each chunk
//! ```
//!
//! Cost: a few page reads to find the start, then a read of what is returned, some kilobytes at a time. Not here:
//! cursors (`scan.rs`).

use super::file::DictionaryFile;
use super::pages::Scratch;
use super::search::Query;
use super::walk::Walk;
use crate::dictionary::format::layout::Order;
use crate::dictionary::index::Candidates;
use crate::dictionary::run::{FarSource, Run};
use crate::error::Result;
use std::ops::Range;

/// Bytes of records returned at a time if they are in hash order.
const RUN_BYTES: u64 = 16 << 10;
/// The most records of chunks joined because of equal positions. More are returned in stored order, since they all have
/// equal positions.
const JOINED_MAX: usize = 1 << 16;

pub(crate) struct Resumed<'d> {
    from: u64,
    way: Way<'d>,
}

enum Way<'d> {
    Walk(Box<Walk<'d>>),
    Chunks(Box<ChunkWalk<'d>>),
}

/// Walks chunk by chunk, if the locations of records do not follow from their ranks.
struct ChunkWalk<'d> {
    file: &'d DictionaryFile,
    walk: Walk<'d>,
    /// Records in stored order, and how many of them have been taken.
    some: Run,
    taken: usize,
}

impl<'d> Resumed<'d> {
    /// Records whose positions are not below `from`. Long values are not read: they are references into the stream, as
    /// [`FarSource::Old`].
    pub fn new(file: &'d DictionaryFile, from: u64) -> Result<Self> {
        let part = |at, rank| Walk::part(file, at, rank, RUN_BYTES).leaving_far_values(FarSource::Old);
        let way = match (file.header.order, file.index.candidates(from), file.record_bytes()) {
            (Order::Chunks, Candidates::Ranks(ranks), record_bytes) if file.footer.pairs > 0 => {
                let first = group(file, &ranks).start;
                match record_bytes {
                    Some(bytes) => Way::Walk(Box::new(part(first * bytes, first))),
                    None => {
                        let page = file.pages_of_ranks(first..first + 1).start.min(file.pages.count() - 1);
                        let walk = part(file.pages.cell_near(page, &mut Scratch::default())?, 0);
                        Way::Chunks(Box::new(ChunkWalk { file, walk, some: Run::default(), taken: 0 }))
                    }
                }
            }
            _ => {
                let query = Query { key: &[], position: from, hash: &file.hash, expected: None };
                Way::Walk(Box::new(part(file.narrow(&query)?.start, 0)))
            }
        };
        Ok(Resumed { from, way })
    }

    /// Replaces the content of `run` with the next records; `false` at the end.
    ///
    /// # Errors
    /// The errors of [`Walk::next`].
    pub fn next(&mut self, run: &mut Run) -> Result<bool> {
        loop {
            let more = match &mut self.way {
                Way::Walk(walk) => walk.next(run)?,
                Way::Chunks(walk) => walk.next(run)?,
            };
            if !more {
                return Ok(false);
            }
            let before = run.positions.partition_point(|position| *position < self.from);
            if before > 0 {
                let mut rest = Run::default();
                rest.append(run, before..run.len());
                *run = rest;
            }
            if !run.is_empty() {
                return Ok(true);
            }
        }
    }
}

impl ChunkWalk<'_> {
    /// Replaces the content of `run` with the records of the next chunk, sorted, together with those of the chunks that
    /// share some of its positions.
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        run.clear();
        let mut ranks: Option<Range<u64>> = None;
        loop {
            if self.taken == self.some.len() {
                self.taken = 0;
                if !self.walk.next_as_they_lie(&mut self.some)? {
                    break;
                }
            }
            let position = self.some.positions[self.taken];
            let Candidates::Ranks(found) = self.file.index.candidates(position) else { break };
            let found = group(self.file, &found);
            match &mut ranks {
                Some(ranks) if found.start >= ranks.end || run.len() >= JOINED_MAX => break,
                Some(ranks) => ranks.end = ranks.end.max(found.end),
                None => ranks = Some(found),
            }
            run.push_record(position, self.some.record(self.taken));
            self.taken += 1;
        }
        run.sort();
        Ok(!run.is_empty())
    }
}

/// The ranks of all chunks that contain some of these ranks.
fn group(file: &DictionaryFile, ranks: &Range<u64>) -> Range<u64> {
    let last = file.footer.pairs.saturating_sub(1);
    let group_of = |rank: u64| file.index.group(rank.min(last)).unwrap_or(0..file.footer.pairs);
    group_of(ranks.start).start..group_of(ranks.end.saturating_sub(1).max(ranks.start)).end
}
