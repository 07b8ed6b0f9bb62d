//! Threads on one table, as the system schedules them: some order must explain every answer (`history.rs`).
//!
//! Keys are few, so that threads meet. Pages are tiny and buckets have one pair, so that they meet at splits and
//! merges. One thread makes the table grow, shrink and move all the time. `src/table/tests/interleavings.rs` forces
//! orders that are unlikely to occur by chance.

use crate::history::{Call, Op, Value, check};
use splitpoint::{Table, TableOptions};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const KEYS: usize = 5;
const WORKERS: usize = 4;

fn key(n: usize) -> Vec<u8> {
    // One is too long for a page.
    if n == 0 { vec![b'k'; 300] } else { format!("key {n}").into_bytes() }
}

/// Returns the bytes written for a number: the number, and bytes derived from it. Some are too long for a page.
fn bytes_of(n: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(13) { 700 } else { n.wrapping_mul(7919) % 60 };
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.resize(4 + len as usize, n as u8);
    bytes
}

/// Returns the numbers in a value. Every byte must belong to one of them.
fn numbers_of(mut bytes: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Some((n, _)) = bytes.split_first_chunk() {
        let n = u32::from_le_bytes(*n);
        bytes = bytes.strip_prefix(&bytes_of(n)[..]).unwrap_or_else(|| panic!("mixed bytes after {numbers:?}"));
        numbers.push(n);
    }
    assert!(bytes.is_empty());
    numbers
}

/// Returns the next random number of a repeatable stream.
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *random >> 33
}

/// Makes a random operation on `key`.
fn operate(table: &Table, key: &[u8], random: &mut u64, numbers: &AtomicU32) -> Op {
    let fresh = || numbers.fetch_add(1, Relaxed);
    let found = |bytes: Option<&[u8]>| -> Value { bytes.map(numbers_of) };
    match next(random) % 16 {
        0..3 => Op::Get(found(table.get(key).unwrap().as_deref())),
        3 => Op::Get(found(table.get_ref(key).unwrap().as_deref())),
        4 => Op::Get(found(table.get_many(&[key, b"absent"]).unwrap()[0].as_deref())),
        5 => Op::Contains(table.contains(key).unwrap()),
        6..9 => {
            let n = fresh();
            table.put(key, &bytes_of(n)).unwrap();
            Op::Put(n)
        }
        9..12 => {
            let n = fresh();
            table.append(key, &bytes_of(n)).unwrap();
            Op::Append(n)
        }
        12 => {
            let n = fresh();
            Op::Insert(n, table.insert_new(key, &bytes_of(n)).unwrap())
        }
        13..15 => Op::Remove(table.remove(key).unwrap()),
        _ => {
            let n = fresh();
            let mut old = None;
            let update = |bytes: Option<&[u8]>| {
                old = found(bytes);
                Some(bytes_of(n))
            };
            assert!(table.update(key, update).unwrap());
            Op::Update(old, n)
        }
    }
}

/// Stops the churn when the other threads have ended, even by a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Makes the table grow, shrink and move until `done`.
fn churn(table: &Table, done: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while !done.load(Relaxed) {
        for i in 0..60u32 {
            table.put(&i.to_le_bytes(), &[1; 50]).unwrap();
        }
        // Frees space for what moves closer to the start.
        for i in 0..60u32 {
            assert!(table.remove(&i.to_le_bytes()).unwrap());
        }
        if rounds % 4 == 3 {
            table.compact().unwrap();
        }
        rounds += 1;
    }
    rounds
}

/// Runs workers on `table` for a while and checks each key's history.
fn histories_are_linearizable(table: &Table, seed: u64, batches: usize) {
    println!("seed {seed}");
    // Short histories: each is searched for an order by itself.
    const CALLS: usize = 400;
    let numbers = AtomicU32::new(1);
    let done = AtomicBool::new(false);
    let clock = Instant::now();
    let now = || clock.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        let churner = scope.spawn(|| churn(table, &done));
        let stop = Stop(&done);
        let work = |worker: usize| {
            let mut random = seed ^ worker as u64;
            let mut calls = vec![Vec::new(); KEYS];
            for _ in 0..CALLS {
                let k = next(&mut random) as usize % KEYS;
                let called = now();
                let op = operate(table, &key(k), &mut random, &numbers);
                calls[k].push(Call { called, returned: now(), op });
            }
            calls
        };
        let work = &work;
        for batch in 0..batches {
            (0..KEYS).for_each(|k| _ = table.remove(&key(k)).unwrap());
            let calls: Vec<_> = std::thread::scope(|inner| {
                let workers: Vec<_> = (0..WORKERS).map(|w| inner.spawn(move || work(batch * WORKERS + w))).collect();
                workers.into_iter().map(|w| w.join().unwrap()).collect()
            });
            for k in 0..KEYS {
                let of_key: Vec<Vec<Call>> = calls.iter().map(|c| c[k].clone()).collect();
                check(&of_key).unwrap_or_else(|e| panic!("key {k}: {e}"));
            }
        }
        drop(stop);
        assert!(churner.join().unwrap() > 1, "the table did not grow and shrink in the meantime");
    });
    let stat = table.survey().unwrap();
    assert!(stat.splits > 20 && stat.merges > 20, "{} splits, {} merges", stat.splits, stat.merges);
    assert_eq!(table.verify().unwrap(), []);
}

fn options() -> TableOptions {
    TableOptions::new().page_bytes(512).fill_factor(1)
}

#[test]
fn every_answer_in_memory_is_explained_by_some_order() {
    histories_are_linearizable(&options().in_memory().unwrap(), 1, 12);
}

#[test]
fn every_answer_of_a_file_is_explained_by_some_order() {
    let directory = tempfile::tempdir().unwrap();
    // The smallest cache: frames are read and evicted, and a checkpoint starts when half of it is dirty.
    let table = options().cache_bytes(1).open(directory.path().join("t.spt")).unwrap();
    histories_are_linearizable(&table, 2, 6);
}

#[test]
#[ignore = "slow: minutes; a new seed each time"]
fn every_answer_is_explained_by_some_order_for_long() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    histories_are_linearizable(&options().in_memory().unwrap(), seed, 1000);
    let directory = tempfile::tempdir().unwrap();
    let table = options().cache_bytes(1).open(directory.path().join("t.spt")).unwrap();
    histories_are_linearizable(&table, seed, 300);
}

/// Scans during churn for a while: every pair present throughout is returned exactly once, complete.
fn scans_give_what_stays_once(table: &Table, time: Duration) {
    const STAY: u32 = 300;
    let stays = |i: u32| format!("stays {i}").into_bytes();
    (0..STAY).for_each(|i| table.put(&stays(i), &bytes_of(i)).unwrap());
    let done = AtomicBool::new(false);
    let scans = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| churn(table, &done));
        scope.spawn(|| {
            // The same keys with other values, so that their records move.
            for round in 1.. {
                for i in 0..STAY {
                    table.put(&stays(i), &bytes_of(i + STAY * (round % 50))).unwrap();
                    if done.load(Relaxed) {
                        return;
                    }
                }
            }
        });
        let scan = || {
            let start = Instant::now();
            while start.elapsed() < time {
                let mut seen = BTreeSet::new();
                for pair in table.scan() {
                    let (key, value) = pair.unwrap();
                    if key.starts_with(b"stays") {
                        assert_eq!(numbers_of(&value).len(), 1);
                        assert!(seen.insert(key.clone()), "{} twice", key.escape_ascii());
                    }
                }
                assert_eq!(seen.len(), STAY as usize);
                scans.fetch_add(1, Relaxed);
            }
        };
        let _stop = Stop(&done);
        let scanners = [scope.spawn(scan), scope.spawn(scan)];
        scanners.into_iter().for_each(|scanner| scanner.join().unwrap());
    });
    assert!(scans.load(Relaxed) > 3, "{scans:?} scans, too few to mean anything");
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_scan_during_writes_returns_each_lasting_pair_exactly_once() {
    scans_give_what_stays_once(&options().in_memory().unwrap(), Duration::from_secs(2));
}

#[test]
#[ignore = "slow: a minute"]
fn a_long_scan_during_writes_returns_each_lasting_pair_exactly_once() {
    scans_give_what_stays_once(&options().in_memory().unwrap(), Duration::from_secs(60));
}

/// Writes that change nothing reserve log space too, and have to release it before the next segment begins.
#[test]
fn unused_room_is_released_before_the_log_continues() {
    let directory = tempfile::tempdir().unwrap();
    let table = TableOptions::new().log_bytes(1 << 13).open(directory.path().join("t.spt")).unwrap();
    table.put(b"there", b"1").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    assert!(!table.remove(b"absent").unwrap());
                    assert!(!table.insert_new(b"there", b"2").unwrap());
                }
            });
        }
        for i in 0..20_000u32 {
            table.put(&(i % 100).to_le_bytes(), &[3; 60]).unwrap();
        }
    });
    assert_eq!(table.get(b"there").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(table.verify().unwrap(), []);
}
