//! The operations of the crash tests, made from a seed, and their model: a history of commits.
//!
//! The history is kept outside the library: state `k` is a `BTreeMap` after the first `k` commits. For each commit it
//! records, as a number of calls to the disk, when it began, when the library returned, and when the library guaranteed
//! its durability. So the permitted states after a crash at any call are known: those with every commit that was
//! durable before that call, and none that began after it.

use crate::error::Error;
use crate::hash::HashKind;
use crate::io::simulated::{Crash, Simulated};
use crate::io::{Mode, Storage};
use crate::pager::{CheckpointGuard, Frozen, seed_random};
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The file, on the simulated disk.
pub(super) const PATH: &str = "/disk/t.spt";
/// The path of backups.
pub(super) const COPY: &str = "/disk/copy.spt";

pub(super) type Content = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// The promise of the library for a commit that returned, in addition to the promises of `sync` and `close`.
#[derive(Clone, Copy)]
pub(super) struct Promise {
    /// It survives the end of the process.
    pub kill: bool,
    /// It survives a power loss.
    pub power: bool,
}

impl Promise {
    pub(super) fn of(durability: Durability) -> Promise {
        Promise { kill: durability != Durability::None, power: durability == Durability::Sync }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(u8, usize),
    Append(u8, usize),
    Remove(u8),
    /// Puts, appends and removals in turn, of keys from this one on, with values up to a length.
    Batch(u8, usize),
    Sync,
    Compact,
    Clear,
    Reopen,
    /// A checkpoint, and no more from here on, as while a backup copies the file: the log continues in segment after
    /// segment.
    BackupBegins,
    BackupEnds,
    /// A checkpoint is frozen here, and written only at its end: everything between happens during the checkpoint.
    CheckpointBegins,
    CheckpointEnds,
    /// A complete backup.
    Backup,
}

/// A table's options and operations.
#[derive(Clone)]
pub(super) struct Workload {
    seed: u64,
    options: TableOptions,
    pub durability: Durability,
    /// Whether files can be mapped.
    maps: bool,
    /// Whether operations may come while a backup prevents checkpoints.
    backups: bool,
    /// Whether puts of large values write them to the file at once.
    stores: bool,
    pub ops: Vec<Op>,
}

/// A cache large enough for everything that waits for a checkpoint.
const CACHE_BYTES: u64 = 4 << 20;
/// Keys of each of the concurrent writers.
pub(super) const KEYS_OF_WRITER: u8 = 64;

impl Workload {
    /// Makes operations that let buckets split, then merge, repeatedly, mixed with the other operations.
    pub(super) fn new(seed: u64, len: usize) -> Workload {
        let mut random = Random::new(&[seed, 1]);
        let durability = [Durability::Sync, Durability::Os, Durability::None][(seed % 3) as usize];
        // Small pages and caches, so that everything overflows, splits and is read again.
        let mut options = TableOptions::new().page_bytes(512).seed(1).cache_bytes(1).durability(durability);
        options.cache_frames_min = 16;
        // A short log causes checkpoints; otherwise the table spills.
        if let Some(bytes) = Random::new(&[seed, 11]).pick(&[None, Some(1), Some(100_000)]) {
            options = options.log_bytes(bytes);
        }
        match random.below(4) {
            0 => {}
            n => options = options.fill_factor(n as u32 + 1),
        }
        if random.percent(20) {
            // Only few hash values, so that chains grow long.
            options = options.user_hash("bad", |key| HashKind::Xxh3.hash(key, 1) & 0xF00F);
        }
        let large = random.pick(&[2, 5, 25]);
        let keys = random.pick(&[12, 30]);
        let turn = 20 + random.below(15);
        let grows = |step: usize| (step / turn).is_multiple_of(2);
        let mut ops: Vec<Op> = (0..len).map(|step| Op::random(&mut random, step, keys, large, grows(step))).collect();
        // Situations that are rare by chance: a large value replaced by a larger one, the file cut and grown again by a
        // batch, segments of the log that depend on each other.
        let large =
            [Op::Put(0, 20_000), Op::Put(1, 20_000), Op::Reopen, Op::Put(1, 50_000), Op::Put(2, 9000), Op::Sync];
        let cut = [Op::Remove(0), Op::Remove(1), Op::Compact, Op::Batch(0, 20_000), Op::Put(3, 6000), Op::Sync];
        // A value is overwritten, and the next checkpoint writes its frames.
        let over = [Op::Put(4, 9000), Op::Batch(4, 42_000), Op::Reopen];
        // Two such records fill a segment. They replace the earlier value in place, so few frames are dirty: none may
        // be written.
        let segments = (0..4).flat_map(|i| [Op::Put(10, 44_000), Op::Put(11 + i, 30)]);
        let backup = [Op::BackupBegins].into_iter().chain(segments).chain([Op::Sync, Op::BackupEnds, Op::Reopen]);
        // More than the cache holds is frozen, some of it already in blocks; its extents are changed, freed
        // and reused before the checkpoint copies them.
        let largest = if seed % 7 == 6 { 1 << 20 } else { 120_000 };
        let filled = (0..5).map(|key| Op::Put(key, across_a_limit(&mut random)));
        let filled: Vec<Op> = filled.chain([Op::Put(5, largest), Op::Put(6, 30_000), Op::CheckpointBegins]).collect();
        let changed = (0..8).map(|_| Op::random(&mut random, 0, 7, 60, true)).filter(|op| !op.makes_checkpoint());
        let changed: Vec<Op> = [Op::Remove(5)].into_iter().chain(changed).collect();
        let beside = filled.into_iter().chain(changed).chain([Op::CheckpointEnds, Op::Backup]);
        let start = random.below(len + 1);
        ops.splice(start..start, large.into_iter().chain(cut).chain(over).chain(backup).chain(beside));
        let stores = (seed / 3).is_multiple_of(2);
        Workload { seed, options, durability, maps: seed % 2 == 1, backups: true, stores, ops }
    }

    /// Makes the operations of one of several concurrent writers, on keys of its own. `seed` chooses the page and
    /// segment sizes of the table.
    pub(super) fn of_writer(seed: u64, writer: u8, len: usize) -> Workload {
        let mut workload = Workload::new(seed, 0);
        let mut random = Random::new(&[seed, 8]);
        workload.durability =
            random.pick(&[Durability::Sync, Durability::Os, Durability::Sync, Durability::Os, Durability::None]);
        workload.maps = random.percent(75);
        workload.stores = seed.is_multiple_of(2);
        // The table spills, or makes checkpoints when the log is full. A segment has room for one value, or for a long
        // record and others.
        let (cache_bytes, log_bytes) = random.pick(&[(1, 800_000), (1, 1), (CACHE_BYTES, 1), (CACHE_BYTES, 800_000)]);
        workload.options =
            workload.options.durability(workload.durability).cache_bytes(cache_bytes).log_bytes(log_bytes);
        workload.seed = Random::new(&[seed, 9, writer.into()]).next();
        let mut random = Random::new(&[workload.seed]);
        let key = |random: &mut Random| KEYS_OF_WRITER * writer + random.below(6) as u8;
        let op = |_| {
            let key = key(&mut random);
            let bytes = random.pick(&[30, 30, 1000, 20_000, 44_000, 70_000]);
            let bytes = bytes + random.below(bytes);
            match random.below(24) {
                0 => Op::Compact,
                1..3 => Op::Sync,
                3..6 => Op::Remove(key),
                6..9 => Op::Append(key, bytes),
                9..13 => Op::Batch(key, bytes),
                _ => Op::Put(key, bytes),
            }
        };
        // The first two have a size that takes segment after segment of the log.
        let first = [20_000, 44_000].map(|bytes| Op::Put(KEYS_OF_WRITER * writer, bytes));
        // The third is logged in pieces, at the same time as the others'.
        let third = Op::Put(KEYS_OF_WRITER * writer + 1, 70_000);
        workload.ops = first.into_iter().chain([third]).chain((0..len).map(op)).collect();
        workload
    }

    /// Returns other operations on the same table.
    pub(super) fn continued(&self, seed: u64, len: usize) -> Workload {
        let other = Workload { ops: Workload::new(seed, len).ops, seed, ..self.clone() };
        if self.backups { other } else { other.without_backups() }
    }

    /// Removes the operations for which the log needs slots for more than one segment.
    pub(super) fn without_backups(mut self) -> Workload {
        self.backups = false;
        let needs_more = |op: &Op| {
            matches!(op, Op::BackupBegins | Op::BackupEnds | Op::CheckpointBegins | Op::CheckpointEnds | Op::Backup)
        };
        self.ops.retain(|op| !needs_more(op));
        self
    }

    pub(super) fn open(&self, disk: &Simulated) -> Result<Table, Error> {
        // The minimum, so that segments are switched.
        self.open_as(disk, |options| (options.inline_checkpoints, options.log_bytes) = (true, Some(1)))
    }

    /// Opens the table so that only a full log causes a checkpoint.
    pub(super) fn open_large(&self, disk: &Simulated) -> Result<Table, Error> {
        self.open_as(disk, |options| (options.cache_bytes, options.log_bytes) = (Some(CACHE_BYTES), Some(1)))
    }

    /// Opens the table with checkpoints written by threads of their own.
    pub(super) fn open_beside(&self, disk: &Simulated) -> Result<Table, Error> {
        self.open_as(disk, |_| {})
    }

    /// Returns the content of a table's last checkpoint, opened for reading during writes, on a copy of the disk where
    /// nothing fails.
    pub(super) fn read(&self, disk: &Simulated, path: &str) -> Result<Content, Error> {
        let copy = Simulated::new(disk.state());
        let writer = copy.open(Path::new(path), Mode::Write).expect("a simulated disk opens what it has");
        assert!(writer.lock().expect("a lock never fails"));
        let checkpoint = |options: &mut TableOptions| (options.read_only, options.checkpoint_only) = (true, true);
        let table = self.options_as(&copy, checkpoint).open(path)?;
        table.scan().map(|pair| pair.map(|(key, value)| (key, value.into()))).collect()
    }

    /// Opens the table for reading while another handle writes it.
    pub(super) fn open_to_read(&self, disk: &Simulated) -> Result<Table, Error> {
        self.open_as(disk, |options| options.read_only = true)
    }

    /// Opens the table for reading with a cache that holds every change in the log.
    pub(super) fn open_to_read_large(&self, disk: &Simulated) -> Result<Table, Error> {
        self.open_as(disk, |options| (options.read_only, options.cache_bytes) = (true, Some(64 << 20)))
    }

    /// Returns a backup to the same disk.
    pub(super) fn backup(&self, disk: &Simulated) -> Backup<'static> {
        Backup::new().overwrite(true).options(self.options_as(disk, |_| {}))
    }

    fn open_as(&self, disk: &Simulated, change: impl FnOnce(&mut TableOptions)) -> Result<Table, Error> {
        self.options_as(disk, change).open(PATH)
    }

    fn options_as(&self, disk: &Simulated, change: impl FnOnce(&mut TableOptions)) -> TableOptions {
        disk.let_map(self.maps);
        let mut options = self.options.clone();
        options.storage = Arc::new(disk.clone());
        if !self.stores {
            options.stored_bytes_min = usize::MAX;
        }
        change(&mut options);
        options
    }

    /// Returns bytes that no other step writes.
    fn value(&self, step: usize, len: usize) -> Vec<u8> {
        let mut random = Random::new(&[self.seed, 2, step as u64]);
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(random.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

impl Workload {
    /// Returns the changes of a batch: number, key, value.
    fn batch(&self, number: usize, first: u8, len: usize) -> impl Iterator<Item = (u8, Vec<u8>, Vec<u8>)> {
        let (of_writer, first) = (first / KEYS_OF_WRITER * KEYS_OF_WRITER, first % KEYS_OF_WRITER);
        (0..5).map(move |i| {
            let value = self.value(1000 * (number + 1) + usize::from(i), len * usize::from(i + 1) / 5);
            (i, key(of_writer + (first + i / 2) % 24), value)
        })
    }

    /// Applies `op` to the model. Returns whether it changes anything.
    pub(super) fn apply_to_model(&self, number: usize, op: &Op, content: &mut Content) -> bool {
        match *op {
            Op::Put(k, len) => {
                content.insert(key(k), self.value(number, len).into());
                true
            }
            Op::Append(k, len) => {
                let mut value = content.get(&key(k)).map_or(Vec::new(), |old| old.to_vec());
                value.extend(self.value(number, len));
                content.insert(key(k), value.into());
                true
            }
            Op::Remove(k) => content.remove(&key(k)).is_some(),
            Op::Batch(first, len) => {
                for (i, k, value) in self.batch(number, first, len) {
                    match i % 3 {
                        0 => drop(content.insert(k, value.into())),
                        1 => {
                            let old = content.get(&k).map_or(Vec::new(), |old| old.to_vec());
                            content.insert(k, [old, value].concat().into());
                        }
                        _ => drop(content.remove(&k)),
                    }
                }
                true
            }
            Op::Clear => {
                let changes = !content.is_empty();
                content.clear();
                changes
            }
            Op::Sync | Op::Compact | Op::Reopen | Op::Backup => false,
            Op::BackupBegins | Op::BackupEnds | Op::CheckpointBegins | Op::CheckpointEnds => false,
        }
    }

    /// Makes an operation that needs only a handle.
    pub(super) fn apply_to_table(&self, number: usize, op: &Op, table: &Table) -> Result<(), Error> {
        match *op {
            Op::Put(k, len) => table.put(&key(k), &self.value(number, len)),
            Op::Append(k, len) => table.append(&key(k), &self.value(number, len)).map(drop),
            Op::Remove(k) => table.remove(&key(k)).map(|_| ()),
            Op::Batch(first, len) => {
                let mut batch = table.batch();
                for (i, k, value) in self.batch(number, first, len) {
                    match i % 3 {
                        0 => batch.put(&k, &value)?,
                        1 => batch.append(&k, &value)?,
                        _ => batch.remove(&k)?,
                    }
                }
                batch.commit()
            }
            Op::Sync => table.sync(),
            Op::Compact => table.compact(),
            Op::Clear => table.clear(),
            _ => unreachable!("a run does these"),
        }
    }
}

/// Few keys, so that operations meet; some too long for a record.
fn key(n: u8) -> Vec<u8> {
    if n % 8 == 7 { vec![n; 70 + usize::from(n)] } else { format!("key-{n}").into_bytes() }
}

/// Returns a length close to one at which the layout of a value changes: a page, the size that a call writes through, a
/// frame, a piece of the log, a large page.
fn across_a_limit(random: &mut Random) -> usize {
    let limit = random.pick(&[256, 512, 600, 4096, 8192, 16 << 10, 32 << 10, 64 << 10, 128 << 10]);
    limit - 60 + random.below(120)
}

impl Op {
    /// Whether the operation waits for a checkpoint.
    fn makes_checkpoint(&self) -> bool {
        matches!(self, Op::Sync | Op::Compact | Op::Reopen | Op::Backup)
    }

    fn random(random: &mut Random, step: usize, keys: usize, large: usize, grow: bool) -> Op {
        // Mostly in sequence: chance alone would rarely add or remove all of them.
        let key = if random.percent(25) { random.below(keys) } else { step % keys } as u8;
        let len = if random.percent(large / 2) {
            across_a_limit(random)
        } else if random.percent(large) {
            5000 + random.below(20_000)
        } else if random.percent(15) {
            100 + random.below(1500)
        } else {
            random.below(60)
        };
        match random.below(100) {
            0..5 => Op::Sync,
            5..9 => Op::Reopen,
            9..11 => Op::Compact,
            11 if grow => Op::Backup,
            11..14 if !grow => Op::Compact,
            14 if !grow => Op::Clear,
            11..18 => Op::Append(key, len),
            18..22 => Op::Batch(key, len),
            22..26 => Op::Remove(key),
            _ if grow => Op::Put(key, len),
            26..40 => Op::Put(key, len),
            _ => Op::Remove(key),
        }
    }
}

/// Returns the writer that owns the key.
pub(super) fn writer_of(bytes: &[u8]) -> usize {
    let number = bytes.strip_prefix(b"key-").map(|n| n.iter().fold(0, |sum, digit| 10 * sum + (digit - b'0')));
    usize::from(number.unwrap_or(bytes[0]) / KEYS_OF_WRITER)
}

/// One requested change: the state after it, and the numbers of the disk's calls at which it was promised.
#[derive(Clone)]
struct Commit {
    after: Arc<Content>,
    begun: u64,
    acknowledged: Option<u64>,
    /// The call at which an open found it, which proves nothing about a power loss.
    found: Option<u64>,
    /// The call at which that open returned: with `Sync`, it must not show writes that are not on the disk.
    shown: Option<u64>,
    durable: Option<u64>,
}

/// All states of a table, and which of them a crash may leave.
#[derive(Clone, Default)]
pub(super) struct History {
    /// Errors may have left allocated units that belong to nothing.
    pub may_lose_units: bool,
    start: Arc<Content>,
    commits: Vec<Commit>,
}

impl History {
    /// Returns the state after `k` commits.
    pub(super) fn state(&self, k: usize) -> &Arc<Content> {
        k.checked_sub(1).map_or(&self.start, |i| &self.commits[i].after)
    }

    /// Returns the state after all commits.
    pub(super) fn now(&self) -> &Arc<Content> {
        self.state(self.len())
    }

    pub(super) fn len(&self) -> usize {
        self.commits.len()
    }

    pub(super) fn begin(&mut self, after: Content, call: u64) {
        self.commits.push(Commit {
            after: Arc::new(after),
            begun: call,
            acknowledged: None,
            found: None,
            shown: None,
            durable: None,
        });
    }

    /// Undoes the last commit, which failed without a crash.
    pub(super) fn undo(&mut self) {
        self.commits.pop();
    }

    /// Records that a failed operation removed some pairs; the rest must have existed before.
    pub(super) fn shrink(&mut self, left: Content, call: u64) -> Result<(), String> {
        let before = self.now();
        if left.iter().any(|(key, value)| before.get(key) != Some(value)) {
            return Err("a pair that was not there before".into());
        }
        self.begin(left, call);
        Ok(())
    }

    pub(super) fn acknowledge(&mut self, call: u64) {
        self.commits.last_mut().expect("one was begun").acknowledged = Some(call);
    }

    /// Marks the current state as durable from `call` on.
    fn all_durable(&mut self, call: u64) {
        self.durable_to(self.len(), call);
    }

    /// Marks the first `k` commits as durable from `call` on.
    pub(super) fn durable_to(&mut self, k: usize, call: u64) {
        self.commits[..k].iter_mut().for_each(|commit| {
            commit.durable.get_or_insert(call);
        });
    }

    /// Returns how many commits were acknowledged before `call`, or found by an open.
    pub(super) fn done_before(&self, call: u64) -> usize {
        let done = |c: &Commit| c.found.is_some() || c.acknowledged.is_some_and(|at| at < call);
        self.commits.iter().rposition(done).map_or(0, |i| i + 1)
    }

    /// Returns the call at which the last of the first `k` commits began.
    pub(super) fn begun(&self, k: usize) -> Option<u64> {
        k.checked_sub(1).map(|i| self.commits[i].begun)
    }

    /// Returns the states permitted after a crash in which call number `call` did not take place: first and last.
    pub(super) fn bounds(&self, call: u64, crash: Crash, promise: Promise) -> (usize, usize) {
        let said = |at: Option<u64>| at.is_some_and(|at| at <= call);
        let kill = crash == Crash::Kill && promise.kill;
        let safe = |c: &Commit| {
            said(c.durable)
                || kill && (said(c.acknowledged) || said(c.found))
                || promise.power && (said(c.acknowledged) || said(c.shown))
        };
        let first = self.commits.iter().rposition(safe).map_or(0, |i| i + 1);
        let last = self.commits.iter().take_while(|c| c.begun <= call).count();
        (first, last)
    }

    /// Returns the states that may have existed between two calls: first and last.
    pub(super) fn bounds_between(&self, begun: u64, ended: u64) -> (usize, usize) {
        (self.done_before(begun), self.commits.iter().take_while(|c| c.begun <= ended).count())
    }

    /// Returns the index of this state, the last if there are several.
    pub(super) fn find(&self, content: &Content, (first, last): (usize, usize)) -> Option<usize> {
        (first..=last).rev().find(|&k| **self.state(k) == *content)
    }

    /// Returns the index of this state, the first if there are several.
    pub(super) fn find_first(&self, content: &Content, (first, last): (usize, usize)) -> Option<usize> {
        (first..=last).find(|&k| **self.state(k) == *content)
    }

    /// Returns the history of the disk that a crash left: up to state `k`, of which `first` is durable, at call 0; the
    /// open that found it finished at call `shown`.
    pub(super) fn after_crash(&self, k: usize, first: usize, shown: u64) -> History {
        let commit = |(i, commit): (usize, &Commit)| Commit {
            after: commit.after.clone(),
            begun: 0,
            acknowledged: None,
            found: Some(0),
            shown: Some(shown),
            durable: (i < first).then_some(0),
        };
        let commits = self.commits[..k].iter().enumerate().map(commit).collect();
        History { commits, start: self.start.clone(), may_lose_units: self.may_lose_units }
    }

    /// Records that the process gave up and opened the table again at `call`, without a crash of the machine: commits
    /// from `k` on are gone.
    pub(super) fn cut(&mut self, k: usize, call: u64) {
        self.commits.truncate(k);
        self.commits.iter_mut().for_each(|commit| {
            commit.found.get_or_insert(call);
            commit.shown.get_or_insert(call);
        });
    }
}

/// The checkpoint lock, held.
struct Held {
    guard: CheckpointGuard,
    /// A checkpoint that is not yet written.
    frozen: Option<Frozen>,
    /// The number of its state.
    state: usize,
}

/// A running workload.
pub(super) struct Run<'w> {
    pub workload: &'w Workload,
    pub disk: Simulated,
    /// Prevents checkpoints; dropped before the table.
    held: Option<Held>,
    /// `None` after a failed open.
    pub table: Option<Table>,
    pub history: History,
    pub splits: u64,
    pub merges: u64,
}

impl<'w> Run<'w> {
    pub(super) fn new(workload: &'w Workload, disk: Simulated, table: Option<Table>, history: History) -> Run<'w> {
        // Equal salts in each run of a seed; different ones after a crash.
        seed_random(Random::new(&[workload.seed, 7, u64::from(table.is_some())]).next());
        Run { workload, disk, held: None, table, history, splits: 0, merges: 0 }
    }

    /// Opens the table if it is closed.
    pub(super) fn open(&mut self) -> Result<&Table, Error> {
        if self.table.is_none() {
            self.table = Some(self.workload.open(&self.disk)?);
        }
        Ok(self.table.as_ref().expect("just opened"))
    }

    /// Writes the checkpoint that was begun, if any, and permits other checkpoints and `verify` again.
    pub(super) fn end_held(&mut self) -> Result<(), Error> {
        let Some(Held { guard, frozen, state }) = self.held.take() else { return Ok(()) };
        let Some(table) = &self.table else { return Ok(()) };
        if let Some(frozen) = frozen {
            table.pager.checkpointer().write_frozen(frozen)?;
            self.history.durable_to(state, self.disk.calls());
        }
        let found = self.workload.read(&self.disk, PATH)?;
        assert!(found == **self.history.state(state), "seed {}: another checkpoint", self.workload.seed);
        drop(guard);
        Ok(())
    }

    /// Drops the handle without closing it.
    pub(super) fn give_up(&mut self) {
        self.count_splits();
        self.held = None;
        self.table = None;
    }

    fn count_splits(&mut self) {
        if let Some(table) = &self.table {
            self.splits += table.buckets.activity().take_splits();
            self.merges += table.buckets.activity().take_merges();
        }
    }

    /// Makes operation `number`. After an error its commit, if any, counts as begun.
    pub(super) fn step(&mut self, number: usize) -> Result<(), Error> {
        let op = self.workload.ops[number].clone();
        self.open()?;
        let syncs_log = self.workload.durability != Durability::None
            && self.table.as_ref().is_some_and(|table| !table.pager.values().has_replayed());
        // The operation would wait for the checkpoint that this thread holds back.
        if self.held.is_some() && op.makes_checkpoint() && !(matches!(op, Op::Sync) && syncs_log) {
            return Ok(());
        }
        let mut after = Content::clone(self.history.now());
        let changes = self.workload.apply_to_model(number, &op, &mut after);
        let calls = self.disk.calls();
        if changes {
            self.history.begin(after, calls);
        }
        self.apply_to_table(number, &op)?;
        let calls = self.disk.calls();
        if changes {
            self.history.acknowledge(calls);
        }
        if matches!(op, Op::Sync | Op::Compact | Op::Reopen | Op::BackupBegins | Op::Backup) {
            self.history.all_durable(calls);
        }
        if let Op::Reopen = op {
            self.open()?;
        }
        Ok(())
    }

    fn apply_to_table(&mut self, number: usize, op: &Op) -> Result<(), Error> {
        if let Op::Reopen = op {
            self.count_splits();
            return self.table.take().expect("it is open").close();
        }
        let table = self.table.as_ref().expect("it is open");
        match *op {
            Op::BackupBegins => {
                let guard = table.pager.checkpoint_lock().acquire()?.hold_long();
                table.checkpoint_with(&guard)?;
                self.held = Some(Held { guard, frozen: None, state: self.history.len() });
                Ok(())
            }
            Op::CheckpointBegins => {
                let guard = table.pager.checkpoint_lock().acquire()?.hold_long();
                let frozen = Some(table.freeze_frames(0)?);
                self.held = Some(Held { guard, frozen, state: self.history.len() });
                Ok(())
            }
            Op::BackupEnds | Op::CheckpointEnds => self.end_held(),
            Op::Backup => {
                self.workload.backup(&self.disk).save(table, COPY)?;
                let found = self.workload.read(&self.disk, COPY)?;
                assert!(found == **self.history.now(), "seed {}, op {number}: another backup", self.workload.seed);
                Ok(())
            }
            _ => self.workload.apply_to_table(number, op, table),
        }
    }

    /// Makes all operations; none may fail.
    pub(super) fn finish(mut self) -> Result<Run<'w>, String> {
        for number in 0..self.workload.ops.len() {
            self.step(number).map_err(|e| format!("op {number}, {:?}: {e}", self.workload.ops[number]))?;
        }
        self.give_up();
        Ok(self)
    }
}
