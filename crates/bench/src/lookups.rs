//! Lookups of ten million pairs of 16 and 32 bytes: one by one and many at a time, by one thread and several.
//!
//! Keys stand in the order in which they are looked up, so that what is timed is the table's memory and not that of the
//! list. One thread does each part first and then all together; every part is done in alternation, and the best and
//! the median of the rounds are told, as other work on the machine only ever takes away.

use super::{Outcome, Random, open};
use splitpoint::{Table, TableOptions};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
/// Keys of one call of `get_many_with`.
const BATCH: usize = 256;

type PairKey = [u8; 16];

/// What one thread does with its share of the keys. Checks every answer.
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
    let table = open(&file, TableOptions::new())?;
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
    println!("{:<24} {:>8} {:>12} {:>12}", "", "threads", "best, M/s", "median, M/s");
    for (p, (name, ..)) in parts.iter().enumerate() {
        for (c, crew) in crews.iter().enumerate() {
            let times = &mut times[p * crews.len() + c];
            times.sort_unstable();
            let rate = |took: Duration| count as f64 / took.as_secs_f64() / 1e6;
            println!("{name:<24} {crew:>8} {:>12.2} {:>12.2}", rate(times[0]), rate(times[ROUNDS / 2]));
        }
    }
    Ok(())
}

/// How long `crew` threads take for `keys` together.
fn timed(table: &Table, part: Part, keys: &[PairKey], crew: usize) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for share in keys.chunks(keys.len().div_ceil(crew)) {
            scope.spawn(move || part(table, share));
        }
    });
    start.elapsed()
}
