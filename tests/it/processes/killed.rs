//! `kill -9` of a working process, again and again on one file.
//!
//! Two threads make commits, each on its own keys and on one key that both append to. After each commit a byte goes to
//! a file: the commit is acknowledged. A commit is determined by the seed, its thread and its number, so the numbers
//! determine the expected content. The process is killed at a random moment, sometimes while it recovers from the
//! previous kill. Then the table must have all acknowledged commits of each thread, all or nothing of the unfinished
//! one (of `put_many` the first pairs), and nothing else.
//!
//! The check reads a copy of the files; the next process continues with what the kill left.

use super::{Running, process};
use crate::corruption::Random;
use splitpoint::{Durability, ErrorKind, Table, TableOptions};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

const THREADS: u64 = 2;
/// Keys of a thread.
const KEYS: usize = 700;
/// Commits of a thread between an open and a close.
const SESSION: usize = 400;
/// The key that both append to.
const SHARED: &[u8] = b"shared";
/// The content of an append to it: the thread, and the number of the commit.
const SHARED_BYTES: usize = 9;

// ---------------------------------------------------------------------------------------------
// Commits

#[derive(Clone)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

enum Commit {
    One(Change),
    Update(Vec<u8>, Vec<u8>),
    Batch(Vec<Change>),
    /// In order, not atomically.
    PutMany(Vec<(Vec<u8>, Vec<u8>)>),
    AppendMany(Vec<(Vec<u8>, Vec<u8>)>),
    Sync,
    Checkpoint,
    Compact,
}

fn key(thread: u64, n: usize) -> Vec<u8> {
    // One is too long for a page.
    if n == 0 { vec![b'0' + thread as u8; 400] } else { format!("{thread} {n}").into_bytes() }
}

/// Returns commit `n` of a thread.
fn commit(seed: u64, thread: u64, n: u64) -> Commit {
    let mut random = Random(seed ^ thread << 60 ^ n << 16);
    let random = &mut random;
    // Grows and shrinks the table.
    let removals = if n % 2000 < 1200 { 1 } else { 12 };
    let any_key = |random: &mut Random| key(thread, random.below(KEYS));
    let value = |random: &mut Random| {
        let len = match random.below(600) {
            0 => 66_000 + random.below(100_000),
            1..30 => 150 + random.below(3000),
            _ => random.below(70),
        };
        let tag = random.next();
        (0..len).map(|i| (tag >> (i % 8 * 8)) as u8 ^ i as u8).collect::<Vec<u8>>()
    };
    let change = |random: &mut Random| match random.below(12 + removals) {
        0..8 => Change::Put(any_key(random), value(random)),
        8..11 => Change::Append(any_key(random), value(random)),
        11 => Change::Append(SHARED.into(), [&[thread as u8][..], &n.to_le_bytes()].concat()),
        _ => Change::Remove(any_key(random)),
    };
    match random.below(1000) {
        0..2 => Commit::Checkpoint,
        2 => Commit::Sync,
        3 => Commit::Compact,
        4..20 => Commit::Update(any_key(random), value(random)),
        20..140 => Commit::Batch((0..2 + random.below(12)).map(|_| change(random)).collect()),
        140..155 => Commit::PutMany((0..2 + random.below(60)).map(|_| (any_key(random), value(random))).collect()),
        155..160 => Commit::AppendMany((0..2 + random.below(20)).map(|_| (any_key(random), value(random))).collect()),
        _ => Commit::One(change(random)),
    }
}

impl Commit {
    fn make(&self, table: &Table) -> splitpoint::Result<()> {
        match self {
            Commit::One(Change::Put(key, value)) => table.put(key, value),
            Commit::One(Change::Append(key, tail)) => table.append(key, tail).map(drop),
            Commit::One(Change::Remove(key)) => table.remove(key).map(drop),
            Commit::Update(key, value) => table.update(key, |_| Some(value.clone())).map(drop),
            Commit::Batch(changes) => {
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
            Commit::PutMany(pairs) => table.put_many(pairs),
            Commit::AppendMany(pairs) => table.append_many(pairs).map(drop),
            Commit::Sync => table.sync(),
            Commit::Checkpoint => table.checkpoint(),
            Commit::Compact => table.compact(),
        }
    }

    /// Returns its effects in steps: a crash falls before or after each.
    fn steps(self) -> Vec<Vec<Change>> {
        match self {
            Commit::One(change) => vec![vec![change]],
            Commit::Update(key, value) => vec![vec![Change::Put(key, value)]],
            Commit::Batch(changes) => vec![changes],
            Commit::PutMany(pairs) => pairs.into_iter().map(|(key, value)| vec![Change::Put(key, value)]).collect(),
            Commit::AppendMany(pairs) => pairs.into_iter().map(|(key, tail)| vec![Change::Append(key, tail)]).collect(),
            Commit::Sync | Commit::Checkpoint | Commit::Compact => Vec::new(),
        }
    }
}

// --------------------------------------------------------------------------------------------- The victim

/// Paths of the table, of the commits that each thread acknowledged, and of the process's progress.
fn table_in(place: &Path) -> PathBuf {
    place.join("table/t.spt")
}

fn acknowledged_in(place: &Path, thread: u64) -> PathBuf {
    place.join(format!("acknowledged-{thread}"))
}

fn stages_in(place: &Path) -> PathBuf {
    place.join("stages")
}

/// Arguments: seed, durability, whether the cache is small, and the number of the next commit for each thread.
pub fn load(place: &Path, arguments: &[u64]) {
    let &[seed, durability, small_cache, ref next @ ..] = arguments else { panic!("arguments") };
    let append = |path: PathBuf| fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    let mut stages = append(stages_in(place));
    let mut next: Vec<u64> = next.to_vec();
    // The loop ends, so that an orphaned process exits.
    for _ in 0..1000 {
        stages.write_all(b"o").unwrap();
        let mut options = TableOptions::new().page_bytes(512).log_bytes(1 << 18);
        options = options.durability(if durability == 0 { Durability::Os } else { Durability::Sync });
        if small_cache == 1 {
            options = options.cache_bytes(1);
        }
        let table = options.open(table_in(place)).unwrap();
        stages.write_all(b"w").unwrap();
        std::thread::scope(|scope| {
            for (thread, next) in (0..).zip(&mut next) {
                let (table, mut acknowledged) = (&table, append(acknowledged_in(place, thread)));
                scope.spawn(move || {
                    for _ in 0..SESSION {
                        commit(seed, thread, *next).make(table).unwrap();
                        acknowledged.write_all(b"+").unwrap();
                        *next += 1;
                    }
                });
            }
        });
        stages.write_all(b"c").unwrap();
        table.close().unwrap();
    }
}

// --------------------------------------------------------------------------------------------- The killer

/// The result of a thread's commits up to some number.
#[derive(Clone, Default, PartialEq, Eq)]
struct State {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Numbers of its appends to the shared key.
    shared: Vec<u8>,
}

impl State {
    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(key, value) => drop(self.pairs.insert(key.clone(), value.clone())),
                Change::Append(key, tail) if key == SHARED => self.shared.extend_from_slice(&tail[1..]),
                Change::Append(key, tail) => self.pairs.entry(key.clone()).or_default().extend_from_slice(tail),
                Change::Remove(key) => drop(self.pairs.remove(key)),
            }
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    /// Kills while the table was being opened or closed.
    in_open: usize,
    in_close: usize,
    commits: u64,
    /// Commits that were made but not acknowledged; commits made in part, where that is allowed.
    unacknowledged: u64,
    in_part: u64,
    replayed: u64,
}

struct Killer {
    seed: u64,
    random: Random,
    place: tempfile::TempDir,
    next: Vec<u64>,
    states: Vec<State>,
    seen: Seen,
}

impl Killer {
    fn new(seed: u64, place: tempfile::TempDir) -> Killer {
        fs::create_dir(place.path().join("table")).unwrap();
        let threads = THREADS as usize;
        Killer {
            seed,
            random: Random(seed),
            place,
            next: vec![0; threads],
            states: vec![State::default(); threads],
            seen: Seen::default(),
        }
    }

    /// Runs a process and kills it.
    fn kill_one(&mut self) {
        for thread in 0..THREADS {
            let _ = fs::remove_file(acknowledged_in(self.place.path(), thread));
        }
        let _ = fs::remove_file(stages_in(self.place.path()));
        let (sync, small_cache) = (self.random.one_in(3), self.random.one_in(3));
        let mut arguments = vec![self.seed, u64::from(sync), u64::from(small_cache)];
        arguments.extend(&self.next);
        let process = Running::start(&mut process("load", self.place.path(), &arguments));
        // Some are killed early, during their recovery.
        if self.random.one_in(3) {
            while fs::metadata(stages_in(self.place.path())).map_or(0, |m| m.len()) == 0 {
                std::thread::yield_now();
            }
            let most = if self.random.one_in(2) { 300 } else { 2500 };
            std::thread::sleep(Duration::from_micros(self.random.below(most) as u64));
        } else {
            std::thread::sleep(Duration::from_millis(10 + self.random.below(110) as u64));
        }
        assert_eq!(process.kill(), None, "the process ended before it was killed");
        self.seen.kills += 1;
        match fs::read(stages_in(self.place.path())).unwrap_or_default().last() {
            Some(b'o') => self.seen.in_open += 1,
            Some(b'c') => self.seen.in_close += 1,
            _ => {}
        }
    }

    /// Examines a copy of the files that a kill left.
    fn check(&mut self) {
        let copies = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(table_in(self.place.path()).parent().unwrap()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            fs::copy(entry.path(), copies.path().join(name)).unwrap();
        }
        let path = copies.path().join("t.spt");
        if !path.exists() {
            // Killed before it created the table.
            assert!(self.next.iter().all(|&next| next == 0));
            return;
        }
        // Readers may fail if no checkpoint was complete yet, or one is partly installed.
        let read = match TableOptions::new().read_only(true).open(&path) {
            Ok(table) => {
                assert_eq!(table.verify().unwrap(), []);
                Some(self::found(&table))
            }
            Err(e) => {
                let is_unmade = fs::metadata(&path).unwrap().len() == 0;
                let expected = if is_unmade { [ErrorKind::Locked, ErrorKind::Io] } else { [ErrorKind::Locked; 2] };
                assert!(expected.contains(&e.kind()), "{e}");
                None
            }
        };
        let table = Table::open(&path).unwrap();
        assert_eq!(table.verify().unwrap(), []);
        self.seen.replayed += table.replayed();
        let found = found(&table);
        assert!(read.is_none_or(|read| read == found), "a reader finds other pairs");
        for (thread, found) in (0..).zip(&found) {
            self.check_thread(thread, found);
        }
        table.close().unwrap();
        if self.random.one_in(8) {
            // A second recovery finds the same as the first.
            let table = Table::open(&path).unwrap();
            assert!(self::found(&table) == found, "other pairs after a second open");
        }
    }

    /// Checks that the table has all that was acknowledged, and at most the first steps of the unfinished commit.
    fn check_thread(&mut self, thread: u64, found: &State) {
        let acknowledged = fs::metadata(acknowledged_in(self.place.path(), thread)).map_or(0, |m| m.len());
        let (state, next) = (&mut self.states[thread as usize], &mut self.next[thread as usize]);
        for _ in 0..acknowledged {
            commit(self.seed, thread, *next).steps().iter().for_each(|step| state.apply(step));
            *next += 1;
        }
        self.seen.commits += acknowledged;
        if state == found {
            return;
        }
        let steps = commit(self.seed, thread, *next).steps();
        for (n, step) in steps.iter().enumerate() {
            state.apply(step);
            if state == found {
                self.seen.unacknowledged += 1;
                self.seen.in_part += u64::from(n + 1 < steps.len());
                *next += 1;
                return;
            }
        }
        panic!(
            "thread {thread}: not what its first {next} commits made, nor with the next: {}",
            difference(state, found)
        );
    }

    /// Opens the table in this process, and removes the shared key, which would grow forever.
    fn tidy(&mut self) {
        let path = table_in(self.place.path());
        if !path.exists() {
            return;
        }
        let table = Table::open(path).unwrap();
        assert!(found(&table) == self.states);
        table.remove(SHARED).unwrap();
        table.close().unwrap();
        self.states.iter_mut().for_each(|state| state.shared.clear());
    }
}

/// Checks that the table has exactly these commits of each thread.
fn found(table: &Table) -> Vec<State> {
    let mut found = vec![State::default(); THREADS as usize];
    for pair in table.scan() {
        let (key, value) = pair.unwrap();
        if key == SHARED {
            let (appends, rest) = value.as_chunks::<SHARED_BYTES>();
            assert!(rest.is_empty(), "an append in part");
            appends.iter().for_each(|append| found[usize::from(append[0])].shared.extend_from_slice(&append[1..]));
            continue;
        }
        let thread = usize::from(key[0] - b'0');
        assert!(found[thread].pairs.insert(key, value).is_none(), "a key was given twice");
    }
    found
}

fn difference(expected: &State, found: &State) -> String {
    let other = |key: &&Vec<u8>| expected.pairs.get(*key) != found.pairs.get(*key);
    let mut keys: Vec<_> = expected.pairs.keys().chain(found.pairs.keys()).filter(other).collect();
    keys.dedup();
    let shown: Vec<String> = keys
        .iter()
        .take(5)
        .map(|key| {
            let len = |state: &State| state.pairs.get(*key).map(Vec::len);
            format!("\"{}\" expected {:?} bytes, found {:?}", key.escape_ascii(), len(expected), len(found))
        })
        .collect();
    format!(
        "{} keys differ, as {}; shared {} and {}",
        keys.len(),
        shown.join(", "),
        expected.shared.len(),
        found.shared.len()
    )
}

/// Kills `kills` processes, with the seed `SPLITPOINT_SEED` or a new one each time.
fn kill(kills: usize, place: tempfile::TempDir) -> Seen {
    // One run at a time, because the clock determines when processes are killed.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let any = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 >> 10;
    let seed = std::env::var("SPLITPOINT_SEED").map_or_else(|_| any(), |seed| seed.parse().unwrap());
    println!("SPLITPOINT_SEED={seed}");
    let mut killer = Killer::new(seed, place);
    for n in 0..kills {
        killer.kill_one();
        killer.check();
        if n % 10 == 9 {
            killer.tidy();
        }
    }
    println!("{:?}", killer.seen);
    killer.seen
}

#[test]
fn a_killed_process_leaves_all_that_it_acknowledged() {
    let seen = kill(15, tempfile::tempdir().unwrap());
    assert!(seen.commits > 100, "{seen:?}");
}

#[test]
#[ignore = "slow: hundreds of processes"]
fn hundreds_of_killed_processes_leave_all_that_they_acknowledged() {
    // On a file system where syncing is free, if there is one: more happens between two kills.
    let places = [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")];
    let seen: Vec<Seen> = places.into_iter().flatten().map(|place| kill(400, place)).collect();
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let opens_and_closes = sum(|seen| (seen.in_open + seen.in_close) as u64);
    let much = opens_and_closes > 10 && sum(|seen| seen.commits) > 10_000;
    assert!(much, "too little took place: {seen:?}");
}
