//! Concurrent writers: `splitpoint-bench writers [FILE]`. One thread does all operations, then several threads share
//! them, in alternating rounds.
//!
//! Keys of 8 bytes and values of 32, for each durability available in memory or in FILE. The keys of the overwrites are
//! uniform, so that threads rarely meet, or by Zipf's law (exponent 0.99), so that they meet all the time.

use crate::durability::remove;
use crate::engine::Outcome;
use crate::random::{Order, mix};
use crate::stream::Zipf;
use splitpoint::{Durability, Table, TableOptions};
use std::io::Write;
use std::time::Instant;

const ROUNDS: usize = 3;
const PARTS: [&str; 4] = ["insert", "overwrite", "overwrite, Zipf", "get"];

type Key = [u8; 8];
/// One thread's share of a part.
type Work = fn(&Table, &[Key]) -> splitpoint::Result<()>;

fn put(table: &Table, keys: &[Key]) -> splitpoint::Result<()> {
    keys.iter().try_for_each(|key| table.put(key, &value(key)))
}

fn get(table: &Table, keys: &[Key]) -> splitpoint::Result<()> {
    let mut found = Vec::new();
    for key in keys {
        assert!(table.get_into(key, &mut found)? && found == value(key), "the value that was put");
    }
    Ok(())
}

fn value(key: &Key) -> [u8; 32] {
    std::array::from_fn(|i| key[i % 8])
}

pub(super) fn run(file: Option<String>, count: usize, threads: usize) -> Outcome {
    let keys: Vec<Key> = (0..count as u64).map(|i| mix(i).to_le_bytes()).collect();
    let order = Order::new(count as u64, 5);
    let uniform: Vec<Key> = (0..count as u64).map(|i| keys[order.at(i) as usize]).collect();
    let draw = Zipf::new(count as u64, 0.99);
    let zipf: Vec<Key> = (0..count as u64).map(|i| keys[draw.rank(i) as usize]).collect();
    let works: [(Work, &[Key]); 4] = [(put, &keys), (put, &uniform), (put, &zipf), (get, &uniform)];

    let durabilities: &[_] = if file.is_some() { &[Durability::Os, Durability::None] } else { &[Durability::None] };
    writeln!(
        std::io::stdout(),
        "{:<6} {:<16} {:>9} {:>11} {:>6}",
        "",
        "",
        "1, M/s",
        format!("{threads}, M/s"),
        "ratio"
    )?;
    for &durability in durabilities {
        let mut rates = vec![[Vec::new(), Vec::new()]; PARTS.len()];
        for _ in 0..ROUNDS {
            for (crew, threads) in [1, threads].into_iter().enumerate() {
                let table = open(file.as_deref(), durability)?;
                for ((work, keys), rates) in works.iter().zip(&mut rates) {
                    rates[crew].push(count as f64 / together(&table, *work, keys, threads)? / 1e6);
                }
                assert!(table.len() == count as u64, "every key once");
                table.close()?;
            }
        }
        let name = if file.is_some() { format!("{durability:?}") } else { "memory".into() };
        for (part, rates) in PARTS.iter().zip(&mut rates) {
            let [one, several] = rates.each_mut().map(|rates| {
                rates.sort_unstable_by(f64::total_cmp);
                rates[ROUNDS / 2]
            });
            writeln!(std::io::stdout(), "{name:<6} {part:<16} {one:>9.2} {several:>11.2} {:>6.2}", several / one)?;
        }
    }
    file.as_deref().map(remove);
    Ok(())
}

fn open(file: Option<&str>, durability: Durability) -> splitpoint::Result<Table> {
    let options = TableOptions::new().durability(durability);
    match file {
        Some(path) => {
            remove(path);
            options.open(path)
        }
        None => options.in_memory(),
    }
}

/// Returns the seconds that all threads take together.
fn together(table: &Table, work: Work, keys: &[Key], threads: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let shares = keys.chunks(keys.len().div_ceil(threads).max(1));
        let workers: Vec<_> = shares.map(|share| scope.spawn(move || work(table, share))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(start.elapsed().as_secs_f64())
}
