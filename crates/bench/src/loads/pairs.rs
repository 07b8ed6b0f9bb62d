//! Pairs into a store and out of it again, part by part.
//!
//! Each part takes the input piece by piece: generated first, then used under the clock. Digests track what the store
//! must hold, so that a scan is checked as a whole: number of pairs, number of bytes, sum of digests.

use super::{Job, compare};
use crate::digest::{Contents, InputDigest, of_pair};
use crate::engine::{Outcome, Store};
use crate::input::{Piece, Source};
use crate::measure::{FileSize, Memory, Stopwatch};
use crate::random::Order;
use crate::row::Lines;
use crate::workload::{Expected, Form, Input, Part};

/// Seeds of the orders of gets and of removals.
const GET_SEED: u64 = 11;
const REMOVE_SEED: u64 = 12;

/// A running job and its measurements.
struct Load<'a> {
    job: &'a Job<'a>,
    source: &'a Source,
    piece: Piece,
    /// The expected content of the store.
    held: Contents,
    input: InputDigest,
    /// Name and operations of each part, and the stopwatches of all repeats.
    took: Vec<(String, u64, Vec<Stopwatch>)>,
    lines: Lines,
}

/// Runs the parts of the job, as often as the form says.
pub(super) fn run(job: &Job<'_>) -> Outcome<Lines> {
    let source = Source::new(&job.case.workload.input, job.case.form.count)?;
    let mut load = Load {
        job,
        source: &source,
        piece: Piece::new(),
        held: Contents::default(),
        input: InputDigest::default(),
        took: Vec::new(),
        lines: Lines::default(),
    };
    for repeat in 0..job.case.form.repeats.max(1) {
        load.once(repeat == 0)?;
    }
    for (name, ops, watches) in &mut load.took {
        load.lines.took(name, *ops, &typical(watches));
    }
    Ok(load.lines)
}

/// Returns the median wall time, and the means of what the system measures in coarse steps.
pub(super) fn typical(watches: &mut [Stopwatch]) -> Stopwatch {
    watches.sort_unstable_by_key(|watch| watch.wall);
    let count = watches.len() as u32; // repeats are a u32
    let mut typical = watches[watches.len() / 2].clone();
    typical.user = watches.iter().map(|w| w.user).sum::<std::time::Duration>() / count;
    typical.system = watches.iter().map(|w| w.system).sum::<std::time::Duration>() / count;
    typical
}

/// Returns the digests of the input, and of a store that took all of it.
pub(super) fn answers(input: &Input, form: &Form) -> Outcome<Expected> {
    let source = Source::new(input, form.count)?;
    let (mut piece, mut numbers) = (Piece::new(), 0..source.count());
    let (mut held, mut digest) = (Contents::default(), InputDigest::default());
    while piece.fill(&source, &mut numbers) {
        follow(&piece, &mut held, &mut digest);
    }
    Ok(expected(&held, &digest))
}

fn follow(piece: &Piece, held: &mut Contents, input: &mut InputDigest) {
    for (key, value) in piece.pairs() {
        let pair = of_pair(key, value);
        held.add(pair, key.len() + value.len());
        input.add(pair);
    }
}

fn expected(held: &Contents, input: &InputDigest) -> Expected {
    Expected {
        pairs: held.pairs,
        payload_bytes: held.payload_bytes,
        input_digest: input.to_string(),
        final_digest: held.digest(),
    }
}

impl Load<'_> {
    /// Runs all parts once, from an empty store.
    fn once(&mut self, first: bool) -> Outcome {
        for entry in std::fs::read_dir(self.job.directory)? {
            let path = entry?.path();
            if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
        }
        (self.held, self.input) = (Contents::default(), InputDigest::default());
        let before = Memory::now()?;
        Memory::forget_peak()?;
        let mut store = Some(self.opened(true)?);
        let mut put = None;
        for &part in self.job.parts {
            let open = match store.take() {
                Some(open) => open,
                None => self.opened(false)?,
            };
            store = self.part(part, open)?;
            match part {
                Part::Put => {
                    compare("put", &expected(&self.held, &self.input), &self.job.case.form)?;
                    put = self.last_of("put");
                    if first {
                        self.note_memory(&before)?;
                        self.note_file("after_put")?;
                    }
                }
                Part::Sync => {
                    if let (Some(put), Some(sync)) = (put.take(), self.last_of("sync")) {
                        self.note("put-and-sync", self.source.count(), put.and(&sync));
                    }
                    if first {
                        self.note_file("after_sync")?;
                    }
                }
                Part::Remove | Part::RemoveTenth if first => self.note_file("after_remove")?,
                _ => {}
            }
        }
        if let Some(mut store) = store {
            self.check(&mut *store)?;
            store.close()?;
        }
        if first {
            let after = Memory::now()?;
            self.lines.row("memory", "peak_bytes", after.peak.saturating_sub(before.rss) as f64);
            self.note_file("after_close")?;
        }
        Ok(())
    }

    /// Opens the store, which is timed as a part.
    fn opened(&mut self, create: bool) -> Outcome<Box<dyn Store>> {
        let mut watch = Stopwatch::default();
        let running = Stopwatch::start()?;
        let store = self.job.open(create)?;
        watch.stop(&running)?;
        self.note(if create { "create" } else { "open" }, 0, watch);
        Ok(store)
    }

    /// Runs one part; returns the store unless the part closed it.
    fn part(&mut self, part: Part, mut store: Box<dyn Store>) -> Outcome<Option<Box<dyn Store>>> {
        let count = self.source.count();
        let gets = Order::new(count, GET_SEED);
        let removals = Order::new(count, REMOVE_SEED);
        let open = &mut *store;
        match part {
            Part::Put => self.timed("put", open, 0..count, put)?,
            Part::Sync => self.whole("sync", 0, || open.sync())?,
            Part::Read => self.timed("read", open, (0..count).map(|i| gets.at(i)), read)?,
            Part::Get => self.timed("get", open, (0..count).map(|i| gets.at(i)), get)?,
            Part::GetInOrder => self.timed("get-in-order", open, 0..count, get)?,
            Part::Miss => self.timed("miss", open, count..2 * count, miss)?,
            Part::GetMany if open.has_batches() => {
                let batch = self.job.batch;
                self.timed("get-many", open, (0..count).map(|i| gets.at(i)), |s, p, t| get_many(s, p, t, batch))?;
            }
            Part::MissMany if open.has_batches() => {
                let batch = self.job.batch;
                self.timed("miss-many", open, count..2 * count, |s, p, t| miss_many(s, p, t, batch))?;
            }
            Part::GetMany | Part::MissMany => {}
            Part::Keys | Part::Scan if !self.job.case.engine.scans() => {}
            Part::Keys => self.scan("keys", open, false)?,
            Part::Scan => self.scan("scan", open, true)?,
            Part::RemoveTenth => self.timed("remove", open, (0..count / 10).map(|i| removals.at(i)), remove)?,
            Part::Remove => self.timed("remove", open, (0..count).map(|i| removals.at(i)), remove)?,
            Part::Reopen | Part::Close => {
                self.check(open)?;
                self.whole("close", 0, || store.close())?;
                return Ok(None);
            }
            Part::Append | Part::AppendMany | Part::AppendTimed => return Err("appends need a stream".into()),
            _ => return Err("a part of dictionaries, not of stores".into()),
        }
        Ok(Some(store))
    }

    /// Runs `work` on each piece of the pairs of these numbers, under the clock, and tracks its effect on the store.
    fn timed(
        &mut self,
        name: &str,
        store: &mut dyn Store,
        mut numbers: impl Iterator<Item = u64>,
        mut work: impl FnMut(&mut dyn Store, &Piece, &mut Tally) -> Outcome<()>,
    ) -> Outcome {
        let (mut watch, mut ops) = (Stopwatch::default(), 0);
        while self.piece.fill(self.source, &mut numbers) {
            let mut tally = Tally::default();
            let running = Stopwatch::start()?;
            work(store, &self.piece, &mut tally)?;
            watch.stop(&running)?;
            ops += self.piece.len() as u64;
            match tally {
                Tally { put: true, .. } => follow(&self.piece, &mut self.held, &mut self.input),
                Tally { removed: true, .. } => {
                    for (key, value) in self.piece.pairs() {
                        self.held.take_out(of_pair(key, value), key.len() + value.len());
                    }
                }
                _ => {}
            }
            if let Some(wrong) = tally.wrong {
                let key = self.piece.pair(wrong).0.escape_ascii().to_string();
                return Err(format!("{name}: {} wrong answers among {ops}, of key {key} first", tally.wrongs).into());
            }
        }
        // Flushing buffered operations counts as part of it.
        let running = Stopwatch::start()?;
        store.end_of_puts()?;
        watch.stop(&running)?;
        self.note(name, ops, watch);
        Ok(())
    }

    /// Times one call.
    fn whole(&mut self, name: &str, ops: u64, work: impl FnOnce() -> Outcome) -> Outcome {
        let mut watch = Stopwatch::default();
        let running = Stopwatch::start()?;
        work()?;
        watch.stop(&running)?;
        self.note(name, ops, watch);
        Ok(())
    }

    /// Scans under the clock, counting pairs and bytes. Their content is checked at the end.
    fn scan(&mut self, name: &str, store: &mut dyn Store, with_values: bool) -> Outcome {
        let (mut pairs, mut bytes) = (0, 0);
        self.whole(name, self.held.pairs, || {
            store.scan(with_values, &mut |key, value| {
                pairs += 1;
                bytes += key.len() + value.len();
            })
        })?;
        if pairs != self.held.pairs || with_values && bytes as u64 != self.held.payload_bytes {
            return Err(format!("{name}: {pairs} pairs, {bytes} bytes, expected {:?}", self.held).into());
        }
        Ok(())
    }

    /// Checks by a scan with digests that the store holds exactly what it must.
    fn check(&self, store: &mut dyn Store) -> Outcome {
        if !self.job.case.engine.scans() {
            return Ok(());
        }
        let mut found = Contents::default();
        store.scan(true, &mut |key, value| found.add(of_pair(key, value), key.len() + value.len()))?;
        if found == self.held || self.job.case.engine.is_baseline() {
            return Ok(());
        }
        Err(format!("the store holds {found:?}, expected {:?}", self.held).into())
    }

    fn note(&mut self, name: &str, ops: u64, watch: Stopwatch) {
        match self.took.iter_mut().find(|(n, ..)| n == name) {
            Some((_, _, watches)) => watches.push(watch),
            None => self.took.push((name.to_owned(), ops, vec![watch])),
        }
    }

    /// Returns the duration of this part in the current repeat.
    fn last_of(&self, part: &str) -> Option<Stopwatch> {
        self.took.iter().find(|(name, ..)| name == part).and_then(|(.., watches)| watches.last().cloned())
    }

    fn note_memory(&mut self, before: &Memory) -> Outcome {
        let now = Memory::now()?;
        let rss = now.rss.saturating_sub(before.rss) as f64;
        self.lines.row("memory", "rss_bytes", rss);
        self.lines.row("memory", "anonymous_bytes", now.anonymous.saturating_sub(before.anonymous) as f64);
        let over = rss - self.held.payload_bytes as f64;
        self.lines.row("memory", "over_payload_bytes_per_pair", over / self.held.pairs.max(1) as f64);
        Ok(())
    }

    fn note_file(&mut self, when: &str) -> Outcome {
        if self.job.path().is_some() {
            let size = FileSize::of(self.job.directory)?;
            self.lines.row("file", &format!("{when}_bytes"), size.blocks as f64);
            self.lines.row("file", &format!("{when}_apparent_bytes"), size.apparent as f64);
        }
        Ok(())
    }
}

/// The effect of a piece of work.
#[derive(Default)]
struct Tally {
    put: bool,
    removed: bool,
    wrong: Option<usize>,
    wrongs: u64,
}

impl Tally {
    fn check(&mut self, i: usize, right: bool) {
        if !right {
            self.wrong.get_or_insert(i);
            self.wrongs += 1;
        }
    }
}

fn put(store: &mut dyn Store, piece: &Piece, tally: &mut Tally) -> Outcome {
    tally.put = true;
    piece.pairs().try_for_each(|(key, value)| store.put(key, value))
}

fn read(store: &mut dyn Store, piece: &Piece, tally: &mut Tally) -> Outcome {
    for (i, (key, value)) in piece.pairs().enumerate() {
        let right = store.get(key)?.is_some_and(|found| found.len() == value.len());
        tally.check(i, right);
    }
    Ok(())
}

fn get(store: &mut dyn Store, piece: &Piece, tally: &mut Tally) -> Outcome {
    for (i, (key, value)) in piece.pairs().enumerate() {
        let right = store.get(key)? == Some(value);
        tally.check(i, right);
    }
    Ok(())
}

fn miss(store: &mut dyn Store, piece: &Piece, tally: &mut Tally) -> Outcome {
    for (i, (key, _)) in piece.pairs().enumerate() {
        let right = store.get(key)?.is_none();
        tally.check(i, right);
    }
    Ok(())
}

fn remove(store: &mut dyn Store, piece: &Piece, tally: &mut Tally) -> Outcome {
    tally.removed = true;
    for (i, (key, _)) in piece.pairs().enumerate() {
        let right = store.remove(key)?;
        tally.check(i, right);
    }
    Ok(())
}

fn get_many(store: &mut dyn Store, piece: &Piece, tally: &mut Tally, batch: usize) -> Outcome {
    each_batch(piece, batch, |first, keys| {
        store.get_many(keys, &mut |i, found| tally.check(first + i, found == Some(piece.pair(first + i).1)))
    })
}

fn miss_many(store: &mut dyn Store, piece: &Piece, tally: &mut Tally, batch: usize) -> Outcome {
    each_batch(piece, batch, |first, keys| {
        store.get_many(keys, &mut |i, found| tally.check(first + i, found.is_none()))
    })
}

/// Passes the keys of a piece to `work` in batches, with the index of the first.
fn each_batch(piece: &Piece, batch: usize, mut work: impl FnMut(usize, &[&[u8]]) -> Outcome) -> Outcome {
    let mut keys = Vec::with_capacity(batch);
    for first in (0..piece.len()).step_by(batch) {
        keys.clear();
        keys.extend((first..piece.len().min(first + batch)).map(|i| piece.pair(i).0));
        work(first, &keys)?;
    }
    Ok(())
}
