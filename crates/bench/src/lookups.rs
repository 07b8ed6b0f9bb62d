//! Lookups of ten million pairs of 16 and 32 bytes: one by one and many per call, by one thread and several; and
//! writes.
//!
//! Keys are laid out in the order of the lookups, so that the table's memory is timed and not the list's. First one
//! thread runs each part, then all together. The parts alternate, and the best and the median round are reported,
//! because other load on the machine only slows a round.

use crate::engine::Outcome;
use crate::random::Random;
use splitpoint::{Durability, Table, TableOptions};
use std::io::Write;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// Keys per call of `get_many_with`.
const BATCH: usize = 256;

type PairKey = [u8; 16];

/// One thread's work on its share of the keys. Checks every answer.
type Part = fn(&Table, &[PairKey]);

fn one_by_one(table: &Table, keys: &[PairKey]) {
    let mut found = Vec::new();
    for key in keys {
        assert!(table.get_into(key, &mut found).expect("a table in order") && found[16..] == key[..]);
    }
}

fn one_by_one_absent(table: &Table, keys: &[PairKey]) {
    let mut found = Vec::new();
    keys.iter().for_each(|key| assert!(!table.get_into(key, &mut found).expect("a table in order")));
}

fn many(table: &Table, keys: &[PairKey]) {
    for keys in keys.chunks(BATCH) {
        let check = |i: usize, value: Option<&[u8]>| assert!(value.is_some_and(|v| v[16..] == keys[i][..]));
        table.get_many_with(keys, check).expect("a table in order");
    }
}

fn many_absent(table: &Table, keys: &[PairKey]) {
    for keys in keys.chunks(BATCH) {
        table.get_many_with(keys, |_, value| assert!(value.is_none())).expect("a table in order");
    }
}

fn one_key(table: &Table, keys: &[PairKey]) {
    let mut found = Vec::new();
    for _ in keys {
        assert!(table.get_into(&keys[0], &mut found).expect("a table in order") && found[16..] == keys[0][..]);
    }
}

pub(super) fn run(file: Option<String>, count: usize, threads: usize) -> Outcome {
    let mut random = Random(1);
    let mut keys: Vec<PairKey> = (0..count).map(|_| random.pair_key()).collect();
    let table = open(&file)?;
    for key in &keys {
        table.put(key, &[*key, *key].concat())?;
    }
    for i in (1..count).rev() {
        keys.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let mut absent = keys.clone();
    absent.iter_mut().for_each(|k| k[0] ^= 0x55);
    let hot = vec![keys[0]; count];
    let parts: [(&str, Part, &[PairKey]); 5] = [
        ("get", one_by_one, &keys),
        ("get-many", many, &keys),
        ("get, absent", one_by_one_absent, &absent),
        ("get-many, absent", many_absent, &absent),
        ("get, one key", one_key, &hot),
    ];
    let mut crews = vec![1];
    crews.extend((threads > 1).then_some(threads));
    let mut times = vec![Vec::new(); parts.len() * crews.len()];
    for _ in 0..ROUNDS {
        for (p, (_, part, keys)) in parts.iter().enumerate() {
            for (c, &crew) in crews.iter().enumerate() {
                times[p * crews.len() + c].push(timed(&table, *part, keys, crew));
            }
        }
    }
    writeln!(std::io::stdout(), "{:<24} {:>8} {:>12} {:>12}", "", "threads", "best, M/s", "median, M/s")?;
    for (p, (name, ..)) in parts.iter().enumerate() {
        for (c, crew) in crews.iter().enumerate() {
            let times = &mut times[p * crews.len() + c];
            times.sort_unstable();
            let rate = |took: Duration| count as f64 / took.as_secs_f64() / 1e6;
            writeln!(
                std::io::stdout(),
                "{name:<24} {crew:>8} {:>12.2} {:>12.2}",
                rate(times[0]),
                rate(times[ROUNDS / 2])
            )?;
        }
    }
    Ok(())
}

fn open(file: &Option<String>) -> Outcome<Table> {
    let options = TableOptions::new().durability(Durability::None);
    Ok(match file {
        Some(path) => {
            let _ = std::fs::remove_file(path);
            options.open(path)?
        }
        None => options.in_memory()?,
    })
}

/// Returns the time that `crew` threads take for all `keys` together.
fn timed(table: &Table, part: Part, keys: &[PairKey], crew: usize) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for share in keys.chunks(keys.len().div_ceil(crew)) {
            scope.spawn(move || part(table, share));
        }
    });
    start.elapsed()
}

/// Puts of `count` pairs into an empty table, and appends to all their values, one by one and many per call.
pub(super) fn writes(file: Option<String>, count: usize) -> Outcome {
    let mut random = Random(1);
    let keys: Vec<PairKey> = (0..count).map(|_| random.pair_key()).collect();
    let mut order = keys.clone();
    for i in (1..count).rev() {
        order.swap(i, (random.next() % (i as u64 + 1)) as usize);
    }
    let puts: Vec<(&PairKey, [u8; 32])> = keys.iter().map(|k| (k, std::array::from_fn(|i| k[i % 16]))).collect();
    let appends: Vec<(&PairKey, &[u8])> = order.iter().map(|k| (k, &k[..8])).collect();
    for round in 0..ROUNDS {
        for many in [false, true] {
            let table = open(&file)?;
            let mut rates = Vec::new();
            let start = Instant::now();
            match many {
                true => puts.chunks(BATCH).try_for_each(|puts| table.put_many(puts))?,
                false => puts.iter().try_for_each(|(key, value)| table.put(*key, value))?,
            }
            rates.push(count as f64 / start.elapsed().as_secs_f64() / 1e6);
            let start = Instant::now();
            match many {
                true => appends.chunks(BATCH).try_for_each(|appends| table.append_many(appends).map(drop))?,
                false => appends.iter().try_for_each(|(key, value)| table.append(*key, value).map(drop))?,
            }
            rates.push(count as f64 / start.elapsed().as_secs_f64() / 1e6);
            assert!(table.len() == count as u64 && table.get(&keys[0])?.is_some_and(|v| v.len() == 40));
            let how = if many { "many at a time" } else { "one by one" };
            writeln!(
                std::io::stdout(),
                "round {round}: {how:<16} put {:.3} M/s   append {:.3} M/s",
                rates[0],
                rates[1]
            )?;
        }
    }
    Ok(())
}
