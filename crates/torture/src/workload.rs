//! The workload on a recording disk: threads put, append, remove and commit batches in one table, while another syncs
//! it, writes checkpoints, compacts and backs it up, and one builds and updates dictionaries. It runs in its own
//! process and writes its [`History`] to a file at the end.
//!
//! Pages, cache and log are small, so that checkpoints, evictions and log segment switches are frequent. The table is
//! larger than its cache, so that frames are spilled too. Every backup is read once it is made.

use crate::changes::{Change, Pairs, dictionary_changes, dictionary_pairs, operation};
use crate::disk::read_counter;
use crate::history::{History, Span};
use splitpoint::{Backup, Dictionary, DictionaryBuilder, Durability, Result, Table, TableOptions};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub const TABLE: &str = "t.spt";
pub const BACKUPS: [&str; 2] = ["backup-0.spt", "backup-1.spt"];
/// The second is a directory of shards.
pub const DICTIONARIES: [&str; 2] = ["words.spd", "shards"];
const VERSIONS: usize = 6;
pub const THREADS: usize = 3;

pub fn options(durability: Durability) -> TableOptions {
    TableOptions::new().page_bytes(512).cache_bytes(0).log_bytes(1 << 17).durability(durability)
}

/// Records when calls begin and return.
pub struct Clock {
    start: Instant,
    counter: File,
}

impl Clock {
    pub fn new(counter: &Path) -> std::io::Result<Clock> {
        Ok(Clock { start: Instant::now(), counter: File::open(counter)? })
    }

    fn now(&self) -> (u64, u64) {
        // Nanoseconds are taken inside the call's span, events outside it.
        (read_counter(&self.counter).expect("the disk's counter"), self.start.elapsed().as_nanos() as u64)
    }

    pub fn time<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<Span> {
        let (begun_event, begun_ns) = self.now();
        call()?;
        let done_ns = self.start.elapsed().as_nanos() as u64;
        let (done_event, _) = self.now();
        Ok(Span { begun_event, begun_ns, done_event, done_ns })
    }
}

pub fn apply(table: &Table, changes: &[Change]) -> Result<()> {
    if let [change] = changes {
        return match change {
            Change::Put(key, value) => table.put(key, value),
            Change::Append(key, tail) => table.append(key, tail).map(drop),
            Change::Remove(key) => table.remove(key).map(drop),
        };
    }
    let mut batch = table.batch();
    for change in changes {
        match change {
            Change::Put(key, value) => batch.put(key, value)?,
            Change::Append(key, tail) => batch.append(key, tail)?,
            Change::Remove(key) => batch.remove(key)?,
        }
    }
    batch.commit()
}

pub fn builder(name: usize) -> DictionaryBuilder {
    let builder = DictionaryBuilder::new().page_bytes(512).threads(1);
    if name == 1 { builder.shards(3) } else { builder }
}

/// Publishes a version of a dictionary: the first is built, later ones update the previous one.
pub fn publish(seed: u64, path: &Path, name: usize, version: usize) -> Result<()> {
    if version == 0 {
        return builder(name).build(path, dictionary_pairs(seed, 0)).map(drop);
    }
    let mut update = Dictionary::update(path, path, &builder(name))?;
    for change in dictionary_changes(seed, version) {
        match change {
            Change::Put(key, value) => update.put(&key, &value)?,
            Change::Remove(key) => update.remove(&key)?,
            Change::Append(..) => unreachable!("dictionaries have no appends"),
        }
    }
    update.finish().map(drop)
}

/// The parameters of a workload's process.
pub struct Work {
    pub folder: PathBuf,
    pub counter: PathBuf,
    pub seed: u64,
    pub durability: Durability,
    pub operations: usize,
}

impl Work {
    pub fn run(&self) -> Result<History, Box<dyn std::error::Error>> {
        let mut history = History::new(self.seed, self.durability);
        history.threads = vec![Vec::new(); THREADS];
        let clock = Clock::new(&self.counter)?;
        let half = self.operations / 2;
        let mut copies = Vec::new();
        std::thread::scope(|scope| -> Result<()> {
            let dictionaries = scope.spawn(|| self.make_dictionaries(&clock));
            copies = self.change(0..half, &clock, &mut history)?;
            copies.extend(self.change(half..self.operations, &clock, &mut history)?);
            history.dictionaries = dictionaries.join().expect("the thread of dictionaries ended")?;
            Ok(())
        })?;
        for (span, pairs) in &copies {
            history.find(pairs, &history.bounds_of_copy(span)).map_err(|why| format!("a backup: {why}"))?;
        }
        Ok(history)
    }

    /// Opens the table, runs operations `numbers` in each thread, and closes it. Returns the contents of the backups.
    fn change(&self, numbers: Range<usize>, clock: &Clock, history: &mut History) -> Result<Vec<(Span, Pairs)>> {
        let table = options(self.durability).open(self.folder.join(TABLE))?;
        let at_work = AtomicUsize::new(THREADS);
        let copies = std::thread::scope(|scope| -> Result<_> {
            let (table, at_work) = (&table, &at_work);
            let start = |thread: usize| {
                let numbers = numbers.clone();
                scope.spawn(move || -> Result<Vec<Span>> {
                    let calls = numbers.map(|number| {
                        let changes = operation(self.seed, thread, number);
                        clock.time(|| apply(table, &changes))
                    });
                    let calls = calls.collect();
                    at_work.fetch_sub(1, Relaxed);
                    calls
                })
            };
            let writers: Vec<_> = (0..THREADS).map(start).collect();
            let kept = self.keep_busy(table, at_work, clock, history);
            for (thread, writer) in writers.into_iter().enumerate() {
                history.threads[thread].extend(writer.join().expect("a writer ended")?);
            }
            kept
        })?;
        history.safes.push(clock.time(|| table.close())?);
        Ok(copies)
    }

    /// Syncs, compacts and backs up the table while the writers run. Returns the contents of the backups.
    fn keep_busy(
        &self,
        table: &Table,
        at_work: &AtomicUsize,
        clock: &Clock,
        history: &mut History,
    ) -> Result<Vec<(Span, Pairs)>> {
        let mut copies = Vec::new();
        let mut rng = fastrand::Rng::with_seed(self.seed ^ 0xb0b);
        while at_work.load(Relaxed) > 0 {
            match rng.u32(..10) {
                0..3 => history.safes.push(clock.time(|| table.sync())?),
                3..5 => history.safes.push(clock.time(|| table.checkpoint())?),
                5 => history.safes.push(clock.time(|| table.compact())?),
                6..8 => {
                    let name = rng.usize(..BACKUPS.len());
                    let path = self.folder.join(BACKUPS[name]);
                    let mut backup = Backup::new().overwrite(true);
                    let span = match rng.bool() && path.exists() {
                        true => clock.time(|| backup.update(table, &path))?,
                        false => clock.time(|| backup.save(table, &path))?,
                    };
                    history.backups.push((name, span));
                    let copy = TableOptions::new().read_only(true).open(&path)?;
                    copies.push((span, copy.scan().collect::<Result<_>>()?));
                }
                _ => std::thread::sleep(Duration::from_millis(rng.u64(1..10))),
            }
        }
        Ok(copies)
    }

    fn make_dictionaries(&self, clock: &Clock) -> Result<Vec<(usize, Span)>> {
        let mut published = Vec::new();
        for version in 0..VERSIONS {
            for (name, file) in DICTIONARIES.iter().enumerate() {
                let path = self.folder.join(file);
                published.push((name, clock.time(|| publish(self.seed, &path, name, version))?));
            }
        }
        Ok(published)
    }
}
