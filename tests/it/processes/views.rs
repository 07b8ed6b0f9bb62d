//! Readers in other processes while writers are killed, stopped and restarted: each view is of one moment.
//!
//! ```text
//! writer    several threads; each counts its changes and notes in a file those that have returned
//! readers   open, follow, catch up, back up, keep a view: each must be what some number of changes of each thread
//!           makes, at least those noted before, and stay so
//! the test  kills and stops them, at random moments
//! ```
//!
//! Change `n` of a thread is the same in every run, so a view itself shows how many changes it has.
//!
//! Not here: single writes (`readers.rs`), power losses (`crates/torture`).

use super::readers::send;
use super::{Running, process};
use splitpoint::{Backup, Durability, ErrorKind, Follower, Table, TableOptions};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const THREADS: u64 = 3;
const KEYS: u64 = 64;
/// Of every `ROUND` changes, the first [`BATCH`] are one batch.
const ROUND: u64 = 50;
const BATCH: u64 = 10;
const READERS: u64 = 3;

fn table_in(place: &Path) -> PathBuf {
    place.join("t.spt")
}

fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

fn key(thread: u64, n: u64) -> [u8; 2] {
    [thread as u8, (n % KEYS) as u8]
}

enum Change {
    Put(Vec<u8>),
    Append(Vec<u8>),
    Remove,
}

fn change(thread: u64, n: u64) -> Change {
    let random = mix(thread << 48 | n);
    let len = match random / 10 % 40 {
        0 => random / 400 % 60_000,
        1 | 2 => random / 400 % 9000,
        _ => random / 400 % 300,
    };
    let mut part = n.to_le_bytes().to_vec();
    part.extend_from_slice(&len.to_le_bytes());
    part.resize(16 + len as usize, n as u8);
    match random % 10 {
        0 => Change::Remove,
        1 | 2 => Change::Append(part),
        _ => Change::Put(part),
    }
}

/// Returns the value that the first `count` changes of a thread leave for the key of change `n`.
fn expected(thread: u64, n: u64, count: u64) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    let mut last = (count % KEYS + KEYS - n % KEYS) % KEYS;
    while last < count {
        match change(thread, count - last) {
            Change::Remove => break,
            Change::Append(part) => parts.push(part),
            Change::Put(part) => {
                parts.push(part);
                break;
            }
        }
        last += KEYS;
    }
    parts.reverse();
    if parts.is_empty() { None } else { Some(parts.concat()) }
}

/// Returns the last change contained in a value.
fn last_change(mut value: &[u8]) -> u64 {
    let mut last = 0;
    while let Some((head, rest)) = value.split_at_checked(16) {
        last = u64::from_le_bytes(head[..8].try_into().unwrap());
        let len = u64::from_le_bytes(head[8..].try_into().unwrap());
        value = &rest[len as usize..];
    }
    last
}

/// Returns the number of changes of each thread in `table`. Fails unless it has exactly these.
fn counts(table: &Table) -> [u64; THREADS as usize] {
    let pairs: BTreeMap<Vec<u8>, Vec<u8>> = table
        .scan()
        .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap_or_else(|e| panic!("scan: {e}")))
        .collect();
    assert_eq!(pairs.len() as u64, table.len());
    std::array::from_fn(|thread| {
        let thread = thread as u64;
        let of_thread = pairs.range(vec![thread as u8]..vec![thread as u8 + 1]);
        let last = of_thread.map(|(_, value)| last_change(value)).max().unwrap_or(0);
        let is = |count: u64| {
            (0..KEYS).all(|n| pairs.get(&key(thread, n)[..]) == expected(thread, n, count).as_ref())
                && (count < ROUND || count % ROUND >= BATCH - 1)
        };
        // After the last visible change there may be removals, some of absent keys.
        let removals = (last + 1..).take_while(|&n| matches!(change(thread, n), Change::Remove));
        let candidates = std::iter::once(last).chain(removals).filter(|&count| is(count));
        candidates.max().unwrap_or_else(|| panic!("thread {thread}: no state after change {last}"))
    })
}

fn returned_in(place: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(place.join("returned")).unwrap()
}

/// Returns the number of changes of each thread that had returned.
fn returned(file: &File) -> [u64; THREADS as usize] {
    std::array::from_fn(|thread| {
        let mut number = [0; 8];
        file.read_exact_at(&mut number, 8 * thread as u64).unwrap();
        u64::from_le_bytes(number)
    })
}

fn has_all(found: &[u64], returned: &[u64], what: &str) {
    assert!(found.iter().zip(returned).all(|(found, returned)| found >= returned), "{what}: {found:?}, {returned:?}");
}

/// Writes until it is killed. Arguments: the seed, and the number of this start.
pub fn write(place: &Path, arguments: &[u64]) {
    let random = mix(arguments[0]);
    let durability = if random.is_multiple_of(2) { Durability::Os } else { Durability::Sync };
    let (log_bytes, cache_bytes) = (1 << (17 + random / 2 % 6), 1 << (19 + random / 16 % 4));
    let options = TableOptions::new().durability(durability).log_bytes(log_bytes).cache_bytes(cache_bytes);
    // A reader that looks for a writer locks writers out, and may be stopped at that moment.
    let table = loop {
        match options.clone().open(table_in(place)) {
            Err(e) if e.kind() == ErrorKind::Locked => sleep(Duration::from_millis(1)),
            opened => break opened.unwrap(),
        }
    };
    let file = returned_in(place);
    let counts = counts(&table);
    has_all(&counts, &returned(&file), "after a kill");
    let between = Duration::from_millis(10 << (mix(arguments[0] + arguments[1]) % 7));
    fs::write(place.join(format!("writes{}", arguments[1])), "").unwrap();
    scope(|scope| {
        for (thread, &count) in (0u64..).zip(&counts) {
            let (table, file) = (&table, &file);
            scope.spawn(move || {
                let mut n = count + 1;
                loop {
                    if n % ROUND == 0 {
                        let mut batch = table.batch();
                        for n in n..n + BATCH {
                            match change(thread, n) {
                                Change::Put(value) => batch.put(&key(thread, n), &value),
                                Change::Append(tail) => batch.append(&key(thread, n), &tail),
                                Change::Remove => batch.remove(&key(thread, n)),
                            }
                            .unwrap();
                        }
                        batch.commit().unwrap();
                        n += BATCH - 1;
                    } else {
                        match change(thread, n) {
                            Change::Put(value) => table.put(&key(thread, n), &value).unwrap(),
                            Change::Append(tail) => drop(table.append(&key(thread, n), &tail).unwrap()),
                            Change::Remove => drop(table.remove(&key(thread, n)).unwrap()),
                        }
                    }
                    file.write_all_at(&n.to_le_bytes(), 8 * thread).unwrap();
                    n += 1;
                }
            });
        }
        loop {
            sleep(between);
            table.checkpoint().unwrap();
            if mix(returned(&file)[0]).is_multiple_of(8) {
                table.compact().unwrap();
            }
        }
    });
}

/// Reads until told to stop, or killed. Arguments: the seed, and the reader's number.
pub fn look(place: &Path, arguments: &[u64]) {
    let file = returned_in(place);
    let path = table_in(place);
    let copy = place.join(format!("copy{}.spt", arguments[1]));
    let options = || TableOptions::new().read_only(true).cache_bytes(1);
    // A checkpoint interrupted by a kill waits for the next writer.
    let unless_cut = |opened: splitpoint::Result<Table>| match opened {
        Ok(table) => Some(table),
        Err(e) if e.kind() == ErrorKind::Locked => None,
        Err(e) => panic!("{e} ({:?})", e.kind()),
    };
    let mut follower = None;
    let mut kept: Vec<(Table, [u64; THREADS as usize])> = Vec::new();
    let mut views = 0u64;
    for n in 0u64.. {
        if place.join("end").exists() {
            break;
        }
        let random = mix(arguments[0] ^ n << 8);
        let before = returned(&file);
        let opened = match random % 8 {
            0 => {
                let checkpoint = unless_cut(options().checkpoint_only(true).open(&path));
                checkpoint.iter().for_each(|table| assert!(counts(table)[0] < u64::MAX));
                continue;
            }
            1 => match Backup::new().overwrite(true).save_file(&path, &copy) {
                Ok(_) => {
                    has_all(&counts(&options().open(&copy).unwrap()), &before, "a backup");
                    views += 1;
                    None
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
                    None
                }
            },
            2 | 3 if kept.len() > 1 => {
                let (table, _) = kept.swap_remove(random as usize / 8 % kept.len());
                unless_cut(table.catch_up())
            }
            4 => {
                follower = follower.or_else(|| Follower::open(&path).ok());
                match follower.as_ref().map(Follower::newest) {
                    Some(Ok(newest)) => {
                        has_all(&counts(&newest), &before, "a follower");
                        views += 1;
                    }
                    Some(Err(e)) => assert_eq!(e.kind(), ErrorKind::Locked, "{e}"),
                    None => {}
                }
                None
            }
            _ => unless_cut(options().open(&path)),
        };
        let Some(table) = opened else { continue };
        let found = counts(&table);
        has_all(&found, &before, "a reader");
        if (random / 64).is_multiple_of(4) {
            assert_eq!(table.verify().unwrap(), []);
        }
        views += 1;
        kept.push((table, found));
        if kept.len() > 4 {
            let (table, found) = kept.swap_remove(random as usize / 8 % kept.len());
            assert_eq!(counts(&table), found, "a view that was kept");
        }
    }
    fs::write(place.join(format!("views{}", arguments[1])), views.to_string()).unwrap();
}

/// Kills and stops writer and readers until `is_done`, given the number of killed writers, returns true. Returns the
/// number of views.
fn run(seed: u64, mut is_done: impl FnMut(u64) -> bool) -> u64 {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let file = returned_in(place);
    file.set_len(8 * THREADS).unwrap();
    let mut started = 0;
    let mut start_writer = || {
        let mut writer = Running::start(&mut process("write", place, &[seed, started]));
        writer.wait_for(&place.join(format!("writes{started}")));
        started += 1;
        writer
    };
    let mut writer = start_writer();
    let start_reader = |number: u64, n: u64| Running::start(&mut process("look", place, &[seed + n, number]));
    let mut readers: Vec<Running> = (0..READERS).map(|number| start_reader(number, number)).collect();
    let mut killed = 0;
    for n in 0u64.. {
        if is_done(killed) {
            break;
        }
        let random = mix(seed << 32 | n);
        sleep(Duration::from_millis(random / 64 % 300));
        let number = (random / 8 % READERS) as usize;
        let stop = |process: &Child| {
            send(process, libc::SIGSTOP);
            sleep(Duration::from_millis(random / 64 % 100));
            send(process, libc::SIGCONT);
        };
        match random % 8 {
            0 | 1 => {
                assert_eq!(writer.kill(), None, "the writer ended by itself");
                killed += 1;
                writer = start_writer();
            }
            2 | 3 => stop(&writer.0),
            4 => {
                let reader = std::mem::replace(&mut readers[number], start_reader(number as u64, n + READERS));
                assert_eq!(reader.kill(), None, "a reader ended by itself");
            }
            _ => stop(&readers[number].0),
        }
        for process in readers.iter_mut().chain([&mut writer]) {
            assert_eq!(process.0.try_wait().unwrap(), None, "a process ended by itself");
        }
    }
    fs::write(place.join("end"), "").unwrap();
    readers.into_iter().for_each(|reader| assert!(reader.end().success()));
    let views = (0..READERS).map(|number| fs::read_to_string(place.join(format!("views{number}"))).unwrap());
    let views = views.map(|views| views.parse::<u64>().unwrap()).sum();
    assert_eq!(writer.kill(), None);
    let table = Table::open(table_in(place)).unwrap();
    has_all(&counts(&table), &returned(&file), "at the end");
    assert_eq!(table.verify().unwrap(), []);
    table.checkpoint().unwrap();
    table.close().unwrap();
    views
}

#[test]
fn views_of_readers_are_moments_of_writers_that_are_killed() {
    for seed in 0..2 {
        let views = run(seed, |killed| killed == 4);
        assert!(views > 0, "no view");
    }
}

#[test]
#[ignore = "slow: an hour, or SPLITPOINT_SECONDS"]
fn views_of_readers_are_moments_of_writers_that_are_killed_for_an_hour() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seconds = Duration::from_secs(number("SPLITPOINT_SECONDS").unwrap_or(3600));
    let begun = Instant::now();
    for seed in number("SPLITPOINT_SEED").unwrap_or(1000).. {
        let mut kills = 0;
        let views = run(seed, |killed| {
            kills = killed;
            killed == 20 || begun.elapsed() > seconds
        });
        println!("seed {seed}: {kills} kills, {views} views");
        if begun.elapsed() > seconds {
            return;
        }
    }
}
