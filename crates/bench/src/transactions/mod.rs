//! Stores with transactions side by side: `splitpoint-bench transactions DIRECTORY`.
//!
//! The operations and sizes of the comparison in redb's repository: keys of 24 bytes and values of 150, all of them in
//! one durable transaction, then durable transactions of one pair and of a thousand, unsynced ones of one pair, random
//! reads by 1 to 32 threads, the removal of half in one durable transaction, and compaction. Not here: its ranges, for
//! which a hash table has no order.
//!
//! Every read is checked, and after the removals every pair is looked up. One process measures one store at a time,
//! with an empty directory.

#[cfg(feature = "stores")]
mod fjall;
#[cfg(feature = "stores")]
mod lmdb;
#[cfg(feature = "stores")]
mod redb;
#[cfg(feature = "peers")]
mod rocksdb;
mod splitpoint;

use crate::engine::Outcome;
use crate::measure::{FileSize, Memory};
use crate::random::{Order, below, mix};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

pub(crate) type Key = [u8; 24];
pub(crate) type Value = [u8; 150];

/// Numbers of pairs; their keys and values follow from them.
type Numbers<'n> = &'n mut dyn Iterator<Item = u64>;

const DURABLE: u64 = 1_000;
const BATCHES: u64 = 100;
const BATCH: u64 = 1_000;
const UNSYNCED: u64 = 50_000;
const READS: u64 = 1_000_000;
const READERS: [u64; 5] = [1, 4, 8, 16, 32];

/// A store with transactions, open for one writer and many readers.
pub(crate) trait Transactions: Sync {
    /// Puts pairs in one transaction.
    fn put(&self, numbers: Numbers<'_>, durable: bool) -> Outcome;

    /// Removes pairs in one durable transaction.
    fn remove(&self, numbers: Numbers<'_>) -> Outcome;

    /// Calls `each` with the number of each pair and its value.
    fn get(&self, numbers: Numbers<'_>, each: &mut dyn FnMut(u64, Option<&[u8]>)) -> Outcome;

    /// Makes the files as small as possible.
    fn compact(&mut self) -> Outcome;
}

/// Opens a new store in an empty directory, for this many bytes of keys and values.
type Open = fn(&Path, u64) -> Outcome<Box<dyn Transactions>>;

const STORES: &[(&str, Open)] = &[
    ("splitpoint", splitpoint::open),
    #[cfg(feature = "stores")]
    ("redb", redb::open),
    #[cfg(feature = "stores")]
    ("lmdb", lmdb::open),
    #[cfg(feature = "stores")]
    ("fjall", fjall::open),
    #[cfg(feature = "peers")]
    ("rocksdb", rocksdb::open),
];

/// The names of the stores of this build.
pub(super) fn stores() -> impl Iterator<Item = &'static str> {
    STORES.iter().map(|(name, _)| *name)
}

pub(crate) fn key(number: u64) -> Key {
    let mut key = Key::default();
    for (index, part) in key.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&mix(number.wrapping_mul(3).wrapping_add(index as u64)).to_le_bytes());
    }
    key
}

pub(crate) fn value(number: u64) -> Value {
    let word = mix(!number).to_le_bytes();
    std::array::from_fn(|index| word[index % 8].wrapping_add((index / 8) as u8))
}

pub(super) fn run(directory: &Path, count: u64, engines: &[String]) -> Outcome {
    if let Some(unknown) = engines.iter().find(|name| STORES.iter().all(|(known, _)| known != name)) {
        let known: Vec<&str> = stores().collect();
        return Err(format!("no store {unknown:?} here; there are {}", known.join(", ")).into());
    }
    let mut out = std::io::stdout();
    for (name, open) in STORES.iter().filter(|(name, _)| engines.is_empty() || engines.iter().any(|e| e == name)) {
        let own = directory.join(name);
        std::fs::create_dir_all(&own)?;
        if std::fs::read_dir(&own)?.next().is_some() {
            return Err(format!("{} is not empty", own.display()).into());
        }
        writeln!(out, "{name}")?;
        measure(*open, &own, count)?;
        std::fs::remove_dir_all(&own)?;
    }
    Ok(())
}

fn measure(open: Open, directory: &Path, count: u64) -> Outcome {
    let mut out = std::io::stdout();
    let payload = count * (size_of::<Key>() + size_of::<Value>()) as u64;
    let before = Memory::now()?;
    Memory::forget_peak()?;
    let mut store = open(directory, payload)?;
    let mut row = |what: &str, operations: u64, start: Instant| {
        writeln!(out, "  {what:<24} {:>12.0} /s", operations as f64 / start.elapsed().as_secs_f64())
    };

    let start = Instant::now();
    store.put(&mut (0..count), true)?;
    row("load", count, start)?;
    let peak = Memory::now()?.peak.saturating_sub(before.rss);
    let mut next = count;
    let start = Instant::now();
    for _ in 0..DURABLE {
        store.put(&mut (next..next + 1), true)?;
        next += 1;
    }
    row("durable, 1 pair", DURABLE, start)?;
    let start = Instant::now();
    for _ in 0..BATCHES {
        store.put(&mut (next..next + BATCH), true)?;
        next += BATCH;
    }
    row("durable, 1,000 pairs", BATCHES * BATCH, start)?;
    let start = Instant::now();
    for _ in 0..UNSYNCED {
        store.put(&mut (next..next + 1), false)?;
        next += 1;
    }
    row("unsynced, 1 pair", UNSYNCED, start)?;
    for readers in READERS {
        let start = Instant::now();
        read(store.as_ref(), next, readers)?;
        row(&format!("reads, {readers} threads"), READS, start)?;
    }
    let start = Instant::now();
    store.remove(&mut (0..count / 2))?;
    row("removals", count / 2, start)?;
    check(store.as_ref(), count / 2, next)?;

    let size = || FileSize::of(directory).map(|size| size.blocks >> 20);
    let removed = size()?;
    let start = Instant::now();
    store.compact()?;
    let took = start.elapsed();
    check(store.as_ref(), count / 2, next)?;
    drop(store);
    let mut line = |what: &str, mebibytes: u64| writeln!(out, "  {what:<24} {mebibytes:>12} MiB");
    line("peak memory of the load", peak >> 20)?;
    line("files, half removed", removed)?;
    line("files, compacted", size()?)?;
    writeln!(out, "  {:<24} {:>12.2} s", "compaction", took.as_secs_f64())?;
    Ok(())
}

/// Reads random pairs below `pairs`, all present; the threads share the reads.
fn read(store: &dyn Transactions, pairs: u64, threads: u64) -> Outcome {
    std::thread::scope(|scope| {
        let share = |thread: u64| {
            move || {
                let mut numbers =
                    (thread * READS / threads..(thread + 1) * READS / threads).map(|i| below(mix(i), pairs));
                let mut wrong = 0;
                let mut each = |number, found: Option<&[u8]>| wrong += u64::from(found != Some(&value(number)));
                store.get(&mut numbers, &mut each).map_err(|e| e.to_string())?;
                if wrong == 0 { Ok(()) } else { Err(format!("{wrong} reads returned something else")) }
            }
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(share(thread))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(())
}

/// Checks that the pairs below `removed` are absent, and all others up to `end` present.
fn check(store: &dyn Transactions, removed: u64, end: u64) -> Outcome {
    let wrong = AtomicU64::new(0);
    let order = Order::new(end, 7);
    store.get(&mut (0..end).map(|i| order.at(i)), &mut |number, found| {
        let right = if number < removed { found.is_none() } else { found == Some(&value(number)) };
        wrong.fetch_add(u64::from(!right), Relaxed);
    })?;
    match wrong.into_inner() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} pairs are not as they should be").into()),
    }
}
