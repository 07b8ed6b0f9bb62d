//! The cost of durability: `splitpoint-bench durable|os|stall FILE`.
//!
//! Each compares within one run, in alternation, because the disk and the neighbours of a virtual machine change by
//! the minute.

use crate::engine::Outcome;
use crate::random::Random;
use splitpoint::{Durability, Table, TableOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Removes a table's files.
pub fn remove(path: &str) {
    for end in ["", "-log0", "-log1", "-log2"] {
        let _ = std::fs::remove_file(format!("{path}{end}"));
    }
}

fn pair(random: &mut Random) -> ([u8; 16], [u8; 32]) {
    let (a, b) = (random.next().to_le_bytes(), random.next().to_le_bytes());
    let key: [u8; 16] = [a, b].concat().try_into().expect("16 bytes");
    (key, [key, key].concat().try_into().expect("32 bytes"))
}

const RAW_BYTES: u64 = 16 << 20;

/// A file beside `path` whose blocks are allocated and written.
fn bare_disk(path: &str) -> Result<(String, std::fs::File), std::io::Error> {
    let raw_path = format!("{path}-raw");
    let raw = std::fs::File::create(&raw_path)?;
    raw.write_all_at(&vec![0; RAW_BYTES as usize], 0)?;
    raw.sync_all()?;
    Ok((raw_path, raw))
}

/// Measures durable puts, by 1 and 8 threads, against the bare disk: a small write to allocated blocks and fdatasync.
pub fn durable(path: &str) -> Outcome {
    let (raw_path, raw) = bare_disk(path)?;
    remove(path);
    let table = TableOptions::new().durability(Durability::Sync).open(path)?;
    // The first pass over the log's file costs more than later ones; both are measured.
    let (mut bare, mut one, mut eight) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        let raw = &raw;
        bare.push(rate(1, move |_, done| {
            let mut count = 0;
            while !done.load(Relaxed) {
                raw.write_all_at(&[7; 57], (57 * count) % (RAW_BYTES - 57))?;
                raw.sync_data()?;
                count += 1;
            }
            Ok(count)
        })?);
        one.push(rate(1, |thread, done| put_until(&table, 1000 * round + thread, done))?);
        eight.push(rate(8, |thread, done| put_until(&table, 1000 * round + 100 + thread, done))?);
        writeln!(
            std::io::stdout(),
            "round {round}: bare {:.2} k/s   1 thread {:.2} k/s = {:.2} x   8 threads {:.2} k/s = {:.2} x",
            bare[round as usize] / 1e3,
            one[round as usize] / 1e3,
            one[round as usize] / bare[round as usize],
            eight[round as usize] / 1e3,
            eight[round as usize] / bare[round as usize],
        )?;
    }
    let (bare, one, eight) = (median(&mut bare), median(&mut one), median(&mut eight));
    writeln!(
        std::io::stdout(),
        "median: bare {:.2} k/s   1 thread {:.2} k/s = {:.2} x   8 threads {:.2} k/s = {:.2} x",
        bare / 1e3,
        one / 1e3,
        one / bare,
        eight / 1e3,
        eight / bare
    )?;
    table.close()?;
    remove(path);
    std::fs::remove_file(raw_path)?;
    Ok(())
}

fn put_until(table: &Table, seed: u64, done: &AtomicBool) -> Result<u64, Box<dyn std::error::Error>> {
    let mut random = Random(seed << 32);
    let mut count = 0;
    while !done.load(Relaxed) {
        let (key, value) = pair(&mut random);
        table.put(&key, &value)?;
        count += 1;
    }
    Ok(count)
}

/// Returns the operations per second of `threads` threads that each run `work` for a while.
fn rate(
    threads: u64,
    work: impl FnMut(u64, &AtomicBool) -> Result<u64, Box<dyn std::error::Error>> + Send + Clone,
) -> Result<f64, Box<dyn std::error::Error>> {
    const SPAN: Duration = Duration::from_secs(2);
    let done = AtomicBool::new(false);
    let count = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (mut work, done, count) = (work.clone(), &done, &count);
                scope.spawn(move || {
                    work(thread, done).map(|n| count.fetch_add(n, Relaxed)).map(drop).map_err(|e| e.to_string())
                })
            })
            .collect();
        std::thread::sleep(SPAN);
        done.store(true, Relaxed);
        workers.into_iter().try_for_each(|w| w.join().expect("no panic"))
    })?;
    Ok(count.load(Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// Measures puts without a log, and with a log in the page cache.
pub fn os(path: &str, count: usize) -> Outcome {
    let (mut none, mut os) = (Vec::new(), Vec::new());
    let mut random = Random(1);
    let pairs: Vec<_> = (0..count).map(|_| pair(&mut random)).collect();
    for round in 0..ROUNDS {
        let mut turns = [(Durability::None, &mut none), (Durability::Os, &mut os)];
        // Writeback of one slows the next, so each goes first in alternation, after a pause.
        turns.rotate_left(round % 2);
        for (durability, rates) in turns {
            remove(path);
            std::thread::sleep(Duration::from_secs(2));
            let table = TableOptions::new().durability(durability).open(path)?;
            let start = Instant::now();
            for (key, value) in &pairs {
                table.put(key, value)?;
            }
            rates.push(count as f64 / start.elapsed().as_secs_f64());
            assert!(table.len() == count as u64);
            table.close()?;
        }
        writeln!(
            std::io::stdout(),
            "round {round}: None {:.3} M/s   Os {:.3} M/s",
            none[round] / 1e6,
            os[round] / 1e6
        )?;
    }
    let (none, os) = (median(&mut none), median(&mut os));
    writeln!(std::io::stdout(), "median: None {:.3} M/s   Os {:.3} M/s = {:.2} x", none / 1e6, os / 1e6, os / none)?;
    remove(path);
    Ok(())
}

/// Measures the longest waits of a writer before and during a checkpoint of 1 GiB.
pub fn stall(path: &str) -> Outcome {
    remove(path);
    // A log that does not fill, so that the only checkpoint is the requested one.
    let table = TableOptions::new().log_bytes(16 << 30).open(path)?;
    let mut random = Random(1);
    let mut waits: [Vec<u32>; 2] = Default::default();
    let put = |waits: &mut Vec<u32>, random: &mut Random| -> Outcome {
        let (key, value) = pair(random);
        let start = Instant::now();
        table.put(&key, &value)?;
        waits.push(start.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
        Ok(())
    };
    const DIRTY_BYTES: u64 = 1 << 30;
    while table.survey()?.file_bytes < DIRTY_BYTES - (40 << 20) {
        for _ in 0..100_000 {
            put(&mut waits[0], &mut random)?;
        }
    }
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| {
            let start = Instant::now();
            let outcome = table.checkpoint();
            running.store(false, Relaxed);
            outcome.map(|()| start.elapsed())
        });
        while running.load(Relaxed) {
            put(&mut waits[1], &mut random)?;
        }
        let took = checkpoint.join().expect("no panic")?;
        writeln!(
            std::io::stdout(),
            "checkpoint of {:.2} GiB took {:.2} s",
            DIRTY_BYTES as f64 / 1073741824.0,
            took.as_secs_f64()
        )?;
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    for (what, waits) in ["before", "during"].into_iter().zip(&mut waits) {
        waits.sort_unstable();
        let at = |share: f64| f64::from(waits[((waits.len() - 1) as f64 * share) as usize]) / 1000.0;
        writeln!(
            std::io::stdout(),
            "{what:<10} {:>9} puts, us: median {:.2}  p99 {:.1}  p99.99 {:.1}  p99.999 {:.1}  longest {:.0}",
            waits.len(),
            at(0.5),
            at(0.99),
            at(0.9999),
            at(0.99999),
            at(1.0)
        )?;
    }
    assert!(Path::new(path).exists());
    drop(table);
    remove(path);
    stall_synced(path)
}

/// Measures the longest synced put beside a checkpoint of 1.5 million pairs, and the longest sync of the bare disk.
fn stall_synced(path: &str) -> Outcome {
    const PAIRS: u64 = 1_500_000;
    const SPAN: Duration = Duration::from_secs(3);
    let longest = |what: &str, work: &mut dyn FnMut() -> Outcome, goes_on: &dyn Fn() -> bool| -> Outcome {
        let (mut count, mut longest) = (0, Duration::ZERO);
        while goes_on() {
            let start = Instant::now();
            work()?;
            longest = longest.max(start.elapsed());
            count += 1;
        }
        writeln!(std::io::stdout(), "{what:<10} {count:>9} syncs, longest {:.1} ms", longest.as_secs_f64() * 1e3)?;
        Ok(())
    };
    let (raw_path, raw) = bare_disk(path)?;
    let table = TableOptions::new().durability(Durability::Sync).log_bytes(16 << 30).open(path)?;
    let mut random = Random(2);
    for _ in 0..PAIRS / 1000 {
        let mut batch = table.with(Durability::Os).batch();
        for _ in 0..1000 {
            let (key, value) = pair(&mut random);
            batch.put(&key, &value)?;
        }
        batch.commit()?;
    }
    table.sync()?; // the log; the checkpoint writes what is in memory
    let start = Instant::now();
    let mut bare = || {
        raw.write_all_at(&[7; 57], 57)?;
        Ok(raw.sync_data()?)
    };
    longest("bare disk", &mut bare, &|| start.elapsed() < SPAN)?;
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| {
            let outcome = table.checkpoint();
            running.store(false, Relaxed);
            outcome
        });
        let mut put = || {
            let (key, value) = pair(&mut random);
            table.put(&key, &value)?;
            Ok(())
        };
        longest("beside", &mut put, &|| running.load(Relaxed))?;
        checkpoint.join().expect("no panic")?;
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    drop(table);
    remove(path);
    std::fs::remove_file(raw_path)?;
    Ok(())
}
