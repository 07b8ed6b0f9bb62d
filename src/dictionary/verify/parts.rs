//! The check with several threads, which process parts of files in parallel.
//!
//! ```text
//! pages     parts of some MiB: checksums compared, and the checksum of the part's checksums -> combined in order
//! records   parts from one cell to another: everything that a check of one file in order compares, except the ranks
//! ```
//!
//! The number of records before a part is not known while the part is checked. For each record the index returns the
//! ranks it leads to, which limits how many records may precede the part. A part keeps the numbers for which all of its
//! records are right; the sum of the previous parts must be among them.
//!
//! The result is only whether anything is wrong. If so, the records are checked again in order, which names each fault.

use super::counted::Counted;
use super::heads::Heads;
use super::page_faults::{PageSums, sum_pages};
use crate::dictionary::build::parallel::in_parallel;
use crate::dictionary::format::layout::Order;
use crate::dictionary::read::file::DictionaryFile;
use crate::dictionary::read::pages::Scratch;
use crate::dictionary::read::walk::Walk;
use crate::dictionary::run::{FarSource, Run};
use crate::dictionary::shards::manifest::Manifest;
use crate::error::{ErrorKind, Result};
use crate::fault::stopped;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Parts per thread, so that threads end at about the same time.
const PARTS_PER_THREAD: u64 = 8;
/// The minimum and maximum number of page bytes in a part. Files in tests are small, but should have many parts.
const PART_BYTES_MIN: u64 = if cfg!(test) { 4 << 10 } else { 4 << 20 };
const PART_BYTES_MAX: u64 = 64 << 20;

/// Reports to the waiting thread what the others have read, and tells them whether to continue.
pub(super) struct Ticker<'t> {
    ticks: Sender<u64>,
    stopped: &'t AtomicBool,
}

impl Ticker<'_> {
    pub fn read(&self, bytes: u64) -> Result<()> {
        // The receiver outlives all threads.
        let _ = self.ticks.send(bytes);
        if self.stopped.load(Relaxed) { Err(stopped()) } else { Ok(()) }
    }
}

/// Runs `work` on each of `items`, with `threads` threads, while this thread calls `read` with the number of bytes they
/// read. If the system cannot start a thread, this one does all of the work.
pub(super) fn watched<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    read: &mut dyn FnMut(u64) -> Result<()>,
    work: impl Fn(T, &Ticker<'_>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let stopped = AtomicBool::new(false);
    let (ticks, ticked) = channel();
    // If a thread is not started, its closure and what it owns are dropped.
    let items = Mutex::new(items);
    let take = || std::mem::take(&mut *items.lock().unwrap_or_else(PoisonError::into_inner));
    let (stopped, work, take, of_thread) = (&stopped, &work, &take, ticks.clone());
    let all = move || in_parallel(threads, take(), |_, item| work(item, &Ticker { ticks: of_thread.clone(), stopped }));
    std::thread::scope(|scope| {
        let working = std::thread::Builder::new().name("dictionary check".into()).spawn_scoped(scope, all);
        let Ok(working) = working else {
            let ticker = Ticker { ticks, stopped };
            let one = |item| {
                let done = work(item, &ticker);
                ticked.try_iter().try_for_each(&mut *read)?;
                done
            };
            return take().into_iter().map(one).collect();
        };
        drop(ticks);
        let mut heard = Ok(());
        for bytes in ticked {
            if heard.is_ok() {
                heard = read(bytes);
                stopped.store(heard.is_err(), Relaxed);
            }
        }
        let done = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        heard.and(done)
    })
}

/// The number of pages in a part, which depends on the total length of the files.
fn part_pages(file: &DictionaryFile, bytes: u64, threads: usize) -> u64 {
    let part = (bytes / (threads as u64 * PARTS_PER_THREAD)).clamp(PART_BYTES_MIN, PART_BYTES_MAX);
    (part / u64::from(file.header.page_bytes)).max(1)
}

/// The pages of each part of a file.
pub(super) fn page_parts(file: &DictionaryFile, bytes: u64, threads: usize) -> Vec<Range<u64>> {
    let (count, part) = (file.pages.count(), part_pages(file, bytes, threads));
    (0..count).step_by(part as usize).map(|from| from..count.min(from + part)).collect()
}

/// Compares the pages of a part with their checksums.
pub(super) fn check_pages(file: &DictionaryFile, pages: Range<u64>, ticker: &Ticker<'_>) -> Result<PageSums> {
    sum_pages(file, pages, |bytes| ticker.read(bytes))
}

/// Records to be checked by one thread.
pub(super) struct RecordPart {
    /// The range in the stream. A cell begins at its start, and at its end unless that is the stream's end.
    cells: Range<u64>,
    /// The rank of the first record, if records are in chunks; otherwise only the rest of the check knows it.
    rank: u64,
}

/// Divides the records of a file into parts; `None` if that is impossible.
pub(super) fn record_parts(file: &DictionaryFile, bytes: u64, threads: usize) -> Result<Option<Vec<RecordPart>>> {
    let stream = file.pages.stream_bytes();
    let in_chunks = file.header.order == Order::Chunks;
    if in_chunks && file.record_bytes().is_none() {
        // Only a walk finds where a chunk begins.
        return Ok(None);
    }
    let (body, step) = (file.pages.body_bytes(), part_pages(file, bytes, threads));
    let mut starts = vec![(0, 0)];
    let mut scratch = Scratch::default();
    for page in (step..file.pages.count()).step_by(step as usize) {
        let start = match (in_chunks, file.record_bytes()) {
            (true, Some(record)) => {
                let rank = (page * body / record).min(file.footer.pairs.saturating_sub(1));
                let first = file.index.group(rank).map_or(rank, |ranks| ranks.start);
                (first * record, first)
            }
            _ => match file.first_cell(&(page * body..stream), &mut scratch)? {
                Some(start) => (start, 0),
                None => break,
            },
        };
        if starts.last().is_some_and(|(last, _)| *last < start.0) {
            starts.push(start);
        }
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([stream]);
    let parts = starts.iter().zip(ends).map(|(&(start, rank), end)| RecordPart { cells: start..end, rank });
    Ok(Some(parts.collect()))
}

/// The result for a part that is right in itself.
pub(super) struct RecordSums {
    counted: Counted,
    /// The maximum number of records before the part.
    before: Range<i128>,
    first: Option<(u64, Vec<u8>)>,
    last: Option<(u64, Vec<u8>)>,
}

/// Checks the records of a part; `None` if something is wrong.
pub(super) fn check_records(
    file: &DictionaryFile,
    shard: Option<(&Manifest, usize)>,
    part: RecordPart,
    ticker: &Ticker<'_>,
) -> Result<Option<RecordSums>> {
    let mut sums = RecordSums { counted: Counted::default(), before: 0..i128::MAX, first: None, last: None };
    let (mut run, mut is_well) = (Run::default(), true);
    let walk = Walk::part_as_they_lie(file, part.cells.clone(), part.rank);
    let mut walk = walk.leaving_far_values(FarSource::Old);
    let mut heads = file.pages.has_starts().then(|| Heads::new(file, part.cells.start));
    let mut at = part.cells.start;
    loop {
        match walk.next(&mut run) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(None),
            Err(error) => return Err(error),
        }
        let end = walk.cells().last().map_or(at, |cell| cell.end);
        ticker.read(end - at)?;
        at = end;
        for (index, cell) in walk.cells().iter().enumerate() {
            if let Some(heads) = &mut heads {
                heads.cell(cell.start, &mut |_| is_well = false)?;
            }
            let position = run.positions[index];
            is_well &= shard.is_none_or(|(manifest, shard)| manifest.shard_of(run.key(index)) == shard);
            is_well &= file.may_have(file.ask_filter(position));
            let rank = i128::from(sums.counted.records() + index as u64);
            let ranks = file.ranks_led_to(position, cell);
            let before = i128::from(ranks.start) - rank..i128::from(ranks.end) - rank;
            sums.before = sums.before.start.max(before.start)..sums.before.end.min(before.end);
        }
        sums.counted.lengths(&run);
        if file.header.order != Order::Hash {
            run.sort();
        }
        is_well &= ascends(&run, &sums.last);
        sums.counted.positions(&run.positions);
        let record = |index: usize| Some((run.positions[index], run.key(index).to_vec()));
        if sums.first.is_none() {
            sums.first = record(0);
        }
        sums.last = record(run.len() - 1);
        if !is_well || sums.before.is_empty() {
            return Ok(None);
        }
    }
    if let Some(heads) = &mut heads {
        heads.finish(part.cells.end, &mut |_| is_well = false)?;
    }
    Ok(is_well.then_some(sums))
}

/// Whether the records of `run` ascend from `last` on, without duplicates.
fn ascends(run: &Run, last: &Option<(u64, Vec<u8>)>) -> bool {
    let mut before = last.as_ref().map(|(position, key)| (*position, &key[..]));
    (0..run.len()).all(|index| {
        let this = (run.positions[index], run.key(index));
        before.replace(this).is_none_or(|before| before < this)
    })
}

/// Whether the parts of a file, in order, make a file without faults.
pub(super) fn fit_together(file: &DictionaryFile, parts: Vec<Option<RecordSums>>) -> bool {
    let mut all = Counted::default();
    let mut last: Option<(u64, Vec<u8>)> = None;
    for part in parts {
        let Some(part) = part else { return false };
        if part.first.is_none() {
            continue;
        }
        if !part.before.contains(&i128::from(all.records())) || last.is_some() && last >= part.first {
            return false;
        }
        all.join(&part.counted);
        last = part.last;
    }
    let filter_fits = file.filter().is_none_or(|(_, _, keys)| keys == all.positions);
    all.records() == file.footer.pairs && all.agrees_with(&file.footer) && filter_fits
}
