//! Contents of checkpoints, backups and restored tables taken while threads write.
//!
//! Every value contains its key and a check of its own completeness. Each worker owns some keys and records a history
//! of its changes, with the moments when each began and ended. While the workers run, checkpoints are taken and
//! examined: saved as a backup, restored, opened read-only. Each must hold the state of each worker after some number
//! of its changes: at least those that had ended when the checkpoint began, at most those that had begun when it was
//! complete.
//!
//! Not here: power losses (`crates/torture`, `src/table/tests/crash`), orders of steps
//! (`src/table/tests/interleavings.rs`).

use splitpoint::{Backup, Durability, Table, TableOptions};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};

/// The parameters of a run: table, workers and number of changes.
#[derive(Clone, Debug)]
struct Run {
    seed: u64,
    durability: Durability,
    /// If false: a table in memory, or one in a temporary file if it exceeds its cache.
    in_file: bool,
    cache_bytes: u64,
    log_bytes: u64,
    workers: u64,
    keys_per_worker: u64,
    /// Length of the longest value.
    longest: u64,
    /// Changes per worker.
    changes: u64,
}

/// A repeatable stream of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a length up to `longest`, usually close to a limit of the layout.
    fn length(&mut self, longest: u64) -> u64 {
        const LIMITS: [u64; 9] = [0, 60, 128, 512, 4096, 8192, 16 << 10, 20 << 10, 64 << 10];
        let length = match self.below(4) {
            0 => self.below(200),
            1 => LIMITS[self.below(LIMITS.len() as u64) as usize].saturating_add(self.below(40)).saturating_sub(20),
            2 => self.below(longest.min(40_000) + 1),
            _ => 1u64 << self.below(u64::from(64 - longest.leading_zeros())),
        };
        length.min(longest)
    }
}

/// A value consists of parts. The head of a part: its key, its number, its length. Bytes derived from these follow.
const HEAD_BYTES: usize = 24;

fn part(key: u64, number: u64, length: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + length as usize);
    for field in [key, number, length] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    let mut random = Random(key.wrapping_mul(31) ^ number);
    while bytes.len() < HEAD_BYTES + length as usize {
        let word = random.next().to_le_bytes();
        let left = HEAD_BYTES + length as usize - bytes.len();
        bytes.extend_from_slice(&word[..left.min(8)]);
    }
    bytes
}

/// Returns the numbers of the parts in a value of `key`; an error if any byte belongs to no part.
fn parts_of(key: u64, mut value: &[u8]) -> Result<Vec<u64>, String> {
    let mut numbers = Vec::new();
    while !value.is_empty() {
        let field = |at: usize| value.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        let (Some(of), Some(number), Some(length)) = (field(0), field(8), field(16)) else {
            return Err(format!("key {key}: {} bytes after parts {numbers:?}", value.len()));
        };
        if of != key {
            return Err(format!("key {key}: after parts {numbers:?} a part of key {of:#x}, number {number:#x}"));
        }
        if length > value.len() as u64 || !value.starts_with(&part(key, number, length)) {
            return Err(format!("key {key}: part {number} of {length} bytes is damaged, after {numbers:?}"));
        }
        numbers.push(number);
        value = &value[HEAD_BYTES + length as usize..];
    }
    Ok(numbers)
}

fn key_bytes(key: u64) -> Vec<u8> {
    let mut bytes = format!("key {key} ").into_bytes();
    if key.is_multiple_of(29) {
        bytes.resize(600, b'k'); // in the extent of its pair
    }
    bytes
}

/// The content of a key: the numbers of its value's parts.
type Value = Option<Vec<u64>>;

/// The changes made by one call: each key with its new value.
struct Change {
    began: u64,
    /// `u64::MAX` until the call has ended.
    ended: u64,
    values: Vec<(u64, Value)>,
}

struct Workload<'t> {
    run: &'t Run,
    table: &'t Table,
    clock: AtomicU64,
    /// One history per worker.
    histories: Vec<Mutex<Vec<Change>>>,
    /// Held exclusively by a clear, which changes the keys of all workers.
    clearing: RwLock<()>,
    clears: AtomicU64,
    done: AtomicBool,
}

impl Workload<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn begin(&self, worker: u64, values: Vec<(u64, Value)>) {
        let change = Change { began: self.tick(), ended: u64::MAX, values };
        self.histories[worker as usize].lock().unwrap().push(change);
    }

    fn end(&self, worker: u64) {
        self.histories[worker as usize].lock().unwrap().last_mut().unwrap().ended = self.tick();
    }

    fn work(&self, worker: u64) {
        let run = self.run;
        let mut random = Random(run.seed ^ worker << 32);
        let mut now: HashMap<u64, Value> = HashMap::new();
        let (mut number, mut clears) = (0, 0);
        for _ in 0..run.changes {
            let key = worker * run.keys_per_worker + random.below(run.keys_per_worker);
            let bytes = key_bytes(key);
            let length = random.length(run.longest);
            number += 1;
            let _shared = self.clearing.read().unwrap();
            if self.clears.load(SeqCst) > clears {
                clears = self.clears.load(SeqCst);
                now.clear();
            }
            let old = now.get(&key).cloned().flatten();
            match random.below(100) {
                0..50 => {
                    let value = part(key, number, length);
                    now.insert(key, Some(vec![number]));
                    self.begin(worker, vec![(key, now[&key].clone())]);
                    self.table.put(&bytes, &value).unwrap();
                    self.end(worker);
                }
                50..70 => {
                    now.insert(key, None);
                    self.begin(worker, vec![(key, None)]);
                    self.table.remove(&bytes).unwrap();
                    self.end(worker);
                }
                70..88 => {
                    let mut value = old.unwrap_or_default();
                    value.push(number);
                    if value.len() > 20 {
                        continue;
                    }
                    now.insert(key, Some(value));
                    self.begin(worker, vec![(key, now[&key].clone())]);
                    self.table.append(&bytes, &part(key, number, length)).unwrap();
                    self.end(worker);
                }
                88..97 => {
                    let mut batch = self.table.batch();
                    let mut values = Vec::new();
                    for other in 0..4 {
                        let key = worker * run.keys_per_worker + (key + 7 * other) % run.keys_per_worker;
                        let value = (other != 2).then(|| vec![number]);
                        match value {
                            Some(_) => batch.put(&key_bytes(key), &part(key, number, length / 4)).unwrap(),
                            None => batch.remove(&key_bytes(key)).unwrap(),
                        }
                        values.retain(|(earlier, _)| *earlier != key);
                        values.push((key, value.clone()));
                        now.insert(key, value);
                    }
                    self.begin(worker, values);
                    batch.commit().unwrap();
                    self.end(worker);
                }
                _ => {
                    let found = self.table.get(&bytes).unwrap();
                    let found = found.map(|value| parts_of(key, &value).unwrap());
                    assert_eq!(found, old, "key {key}, as its only writer reads it");
                }
            }
        }
    }

    /// Compacts the table after some changes, and sometimes empties it.
    fn maintain(&self) {
        let mut random = Random(self.run.seed ^ 0xC1EA);
        let mut next = 0;
        while !self.done.load(SeqCst) {
            if self.clock.load(SeqCst) < next {
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
            next = self.clock.load(SeqCst) + 500 + random.below(2000);
            if random.below(8) > 0 {
                self.table.compact().unwrap();
                continue;
            }
            let _alone = self.clearing.write().unwrap();
            self.clears.fetch_add(1, SeqCst);
            for worker in 0..self.run.workers {
                let keys = worker * self.run.keys_per_worker..(worker + 1) * self.run.keys_per_worker;
                self.begin(worker, keys.map(|key| (key, None)).collect());
            }
            self.table.clear().unwrap();
            (0..self.run.workers).for_each(|worker| self.end(worker));
        }
    }

    /// Compares `found`, the content of a complete checkpoint that began no earlier than `since`, with the histories.
    fn compare(&self, found: &HashMap<u64, Vec<u64>>, since: u64, what: &str) {
        let until = self.tick();
        for (worker, history) in self.histories.iter().enumerate() {
            let history = history.lock().unwrap();
            let (mut at_least, mut at_most) = (0, 0);
            for (index, change) in history.iter().enumerate() {
                if change.ended < since {
                    at_least = index + 1;
                }
                if change.began < until {
                    at_most = index + 1;
                }
            }
            let first = worker as u64 * self.run.keys_per_worker;
            let mut state: HashMap<u64, Vec<u64>> = HashMap::new();
            let apply = |state: &mut HashMap<u64, Vec<u64>>, change: &Change| {
                for (key, value) in &change.values {
                    match value {
                        Some(value) => drop(state.insert(*key, value.clone())),
                        None => drop(state.remove(key)),
                    }
                }
            };
            history[..at_least].iter().for_each(|change| apply(&mut state, change));
            let keys = first..first + self.run.keys_per_worker;
            let differing = |state: &HashMap<u64, Vec<u64>>| -> Vec<u64> {
                keys.clone().filter(|key| state.get(key) != found.get(key)).collect()
            };
            let mut fewest = differing(&state);
            for change in &history[at_least..at_most] {
                if fewest.is_empty() {
                    break;
                }
                apply(&mut state, change);
                let differ = differing(&state);
                if differ.len() < fewest.len() {
                    fewest = differ;
                }
            }
            assert!(
                fewest.is_empty(),
                "{what}, worker {worker}: no state after {at_least} to {at_most} changes fits; {fewest:?} differ. {:?}",
                self.run
            );
        }
    }

    /// Reads the whole table and checks each value.
    fn read(&self, table: &Table, what: &str) -> Result<HashMap<u64, Vec<u64>>, splitpoint::Error> {
        let mut found = HashMap::new();
        for pair in table.scan() {
            let (key, value) = pair?;
            let text = String::from_utf8_lossy(&key).into_owned();
            let number = text.split(' ').nth(1).and_then(|number| number.parse().ok());
            let number = number.unwrap_or_else(|| panic!("{what}: a key that nobody wrote: {text}"));
            assert_eq!(key, key_bytes(number), "{what}");
            let parts = parts_of(number, &value).unwrap_or_else(|e| panic!("{what}: {e}. {:?}", self.run));
            assert!(found.insert(number, parts).is_none(), "{what}: key {number} twice");
        }
        Ok(found)
    }

    /// Takes checkpoints and examines them until the workers are done, and once more afterwards.
    fn look(&self, directory: &Path) {
        let (backup, restored) = (directory.join("backup.spt"), directory.join("restored.spt"));
        let options = || TableOptions::new().read_only(true);
        let mut rounds = 0;
        loop {
            let is_last = self.done.load(SeqCst);
            let since = self.tick();
            if rounds % 3 == 2 && self.run.in_file {
                self.table.checkpoint().unwrap();
            } else {
                Backup::new().overwrite(true).save(self.table, &backup).unwrap();
                let table = options().open(&backup).unwrap();
                self.compare(&self.read(&table, "a backup").unwrap(), since, "a backup");
                assert_eq!(table.verify().unwrap(), []);
            }
            if rounds % 5 == 4 {
                Backup::new().overwrite(true).restore(&backup, &restored).unwrap();
                // The state is that of an earlier round's backup.
                let table = options().open(&restored).unwrap();
                self.read(&table, "a restored table").unwrap();
            }
            if self.run.in_file {
                self.look_beside(&directory.join("table.spt"), since);
            }
            if is_last {
                return;
            }
            rounds += 1;
        }
    }

    /// Opens the table for reading while it is being written. The handle has every write logged before it was opened,
    /// or a checkpoint no older than `since`.
    fn look_beside(&self, path: &Path, since: u64) {
        let since = if self.run.durability == Durability::None { since } else { self.tick() };
        let table = TableOptions::new().read_only(true).open(path).unwrap_or_else(|e| panic!("{e}. {:?}", self.run));
        let found = self.read(&table, "a reader").unwrap_or_else(|e| panic!("{e}. {:?}", self.run));
        self.compare(&found, since, "a reader");
    }
}

fn run(run: &Run) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table.spt");
    let options = TableOptions::new()
        .page_bytes(if run.seed.is_multiple_of(3) { 4096 } else { 512 })
        .cache_bytes(run.cache_bytes)
        .log_bytes(run.log_bytes)
        .durability(run.durability);
    let table = if run.in_file { options.open(&path) } else { options.in_memory() }.unwrap();
    let workload = Workload {
        run,
        table: &table,
        clock: AtomicU64::new(1),
        histories: (0..run.workers).map(|_| Mutex::default()).collect(),
        clearing: RwLock::new(()),
        clears: AtomicU64::new(0),
        done: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        // `done` is set even when a worker panics, so that the others end and the panic is reported.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let workload = &workload;
        let done = Done(&workload.done);
        let workers: Vec<_> = (0..run.workers).map(|worker| scope.spawn(move || workload.work(worker))).collect();
        scope.spawn(|| workload.maintain());
        let looker = scope.spawn(|| workload.look(directory.path()));
        let failed = workers.into_iter().map(|worker| worker.join().is_err()).fold(false, |a, b| a | b);
        drop(done);
        let failed = looker.join().is_err() | failed;
        assert!(!failed, "see above: {run:?}");
    });
    assert_eq!(table.verify().unwrap(), []);
    table.close().unwrap();
}

/// Derives a run from a seed: small to large caches, each durability, one to eight workers, values up to 1 MB.
fn of_kind(seed: u64) -> Run {
    let mut random = Random(seed);
    let workers = [1, 2, 4, 8][random.below(4) as usize];
    Run {
        seed,
        durability: [Durability::Os, Durability::None, Durability::Os, Durability::Sync][(seed % 4) as usize],
        in_file: seed % 8 != 7,
        cache_bytes: [256 << 10, 512 << 10, 1 << 20, 4 << 20, 64 << 20][random.below(5) as usize],
        log_bytes: [1 << 20, 4 << 20, 64 << 20][random.below(3) as usize],
        workers,
        keys_per_worker: [20, 100, 400][random.below(3) as usize] / workers + 8,
        longest: [2_000, 40_000, 40_000, 300_000, 1 << 20][random.below(5) as usize],
        changes: 0,
    }
}

#[test]
fn checkpoints_have_what_was_written_and_nothing_else() {
    for seed in 0..8 {
        // Values longer than a page and a cache smaller than the table, so that frames spill during checkpoints.
        let small =
            Run { cache_bytes: 512 << 10, log_bytes: 1 << 20, longest: 40_000, keys_per_worker: 200, ..of_kind(seed) };
        run(&Run { workers: 2, changes: 1500, ..small });
    }
    // Long logs, so that windows are sealed, evicted, changed and truncated before the next checkpoint.
    for seed in [1002, 1006] {
        run(&Run { changes: 8000, ..of_kind(seed) });
    }
}

#[test]
#[ignore = "slow: an hour, or SPLITPOINT_SECONDS"]
fn checkpoints_have_what_was_written_for_an_hour() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect(name));
    let seconds = number("SPLITPOINT_SECONDS").unwrap_or(3600);
    let begun = std::time::Instant::now();
    let first = number("SPLITPOINT_SEED").unwrap_or(1000);
    for seed in first.. {
        let kind = of_kind(seed);
        let changes = (200 << 20) / (kind.longest / 4 + 2000) / kind.workers;
        println!("seed {seed}");
        run(&Run { changes, ..kind });
        if begun.elapsed().as_secs() > seconds {
            return;
        }
    }
}
