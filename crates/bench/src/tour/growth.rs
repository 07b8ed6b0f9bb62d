//! Grows a table from empty, one put at a time: how fast, and how long is the slowest put?
//!
//! Linear hashing splits at most one bucket per put, so no put waits for the table to be copied; in a map that
//! doubles, one put in a million waits for all others. Two passes: one for the speed, and one with a clock around each
//! put, which has a cost of its own. The slowest put includes whatever else the machine did at that moment.

use super::{SEED, wrong_answer};
use crate::engine::Outcome;
use crate::input::Source;
use crate::measure::Latencies;
use crate::workload::Input;
use splitpoint::{Durability, Table, TableOptions};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 32;

/// Times are in seconds.
pub struct Growth {
    pub pairs: u64,
    pub payload_bytes: u64,
    pub file_bytes: u64,
    pub table: Pace,
    pub std_map: Pace,
}

/// The figures of a table or a map.
pub struct Pace {
    /// All puts, from empty.
    pub put: f64,
    /// All gets.
    pub get: f64,
    /// Latency of the median put, of the 999th of 1000, and of the slowest.
    pub put_median: f64,
    pub put_999: f64,
    pub put_slowest: f64,
}

impl Pace {
    fn new(put: f64, get: f64, puts: &Latencies) -> Self {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        Self {
            put,
            get,
            put_median: seconds(puts.quantile_ns(0.5)),
            put_999: seconds(puts.quantile_ns(0.999)),
            put_slowest: seconds(puts.longest().0),
        }
    }
}

/// Keys and values, one after the other in one allocation: a million pairs should not be two million allocations.
struct Pairs(Vec<u8>);

impl Pairs {
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.chunks_exact(KEY_BYTES + VALUE_BYTES).map(|pair| pair.split_at(KEY_BYTES))
    }
}

pub fn grow(place: &Path, count: u64) -> Outcome<Growth> {
    let input = Input::Mixed { key_bytes: KEY_BYTES, value_bytes: VALUE_BYTES, seed: SEED };
    let source = Source::new(&input, count)?;
    let mut pairs = Pairs(Vec::new());
    for i in 0..count {
        source.write(i, &mut pairs.0);
    }
    let path = place.join("growing.spt");
    let (table, file_bytes) = grow_table(&pairs, &path)?;
    let std_map = grow_std_map(&pairs)?;
    Ok(Growth { pairs: count, payload_bytes: pairs.0.len() as u64, file_bytes, table, std_map })
}

/// Also returns the file's size at the end.
fn grow_table(pairs: &Pairs, path: &Path) -> Outcome<(Pace, u64)> {
    let table = empty_table(path)?;
    let put = seconds_of(pairs, |key, value| Ok(table.put(key, value)?))?;
    let mut found = Vec::new();
    let get = seconds_of(pairs, |key, value| {
        let right = table.get_into(key, &mut found)? && found == value;
        if right { Ok(()) } else { Err(wrong_answer("not the value that was put", key)) }
    })?;
    table.close()?;
    let file_bytes = path.metadata()?.len();
    std::fs::remove_file(path)?;

    let table = empty_table(path)?;
    let puts = latencies_of(pairs, |key, value| Ok(table.put(key, value)?))?;
    table.close()?;
    std::fs::remove_file(path)?;
    Ok((Pace::new(put, get, &puts), file_bytes))
}

fn grow_std_map(pairs: &Pairs) -> Outcome<Pace> {
    let mut map = HashMap::new();
    let put = seconds_of(pairs, |key, value| {
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    })?;
    let mut found = Vec::new();
    let get = seconds_of(pairs, |key, value| {
        found.clear();
        found.extend_from_slice(map.get(key).map_or(&[], |value| &value[..]));
        if found == value { Ok(()) } else { Err(wrong_answer("not the value that was put into the map", key)) }
    })?;
    drop(map);

    let mut map = HashMap::new();
    let puts = latencies_of(pairs, |key, value| {
        map.insert(key.to_vec(), value.to_vec());
        Ok(())
    })?;
    Ok(Pace::new(put, get, &puts))
}

fn empty_table(path: &Path) -> Outcome<Table> {
    Ok(TableOptions::new().create_new(true).durability(Durability::None).open(path)?)
}

fn seconds_of(pairs: &Pairs, mut work: impl FnMut(&[u8], &[u8]) -> Outcome) -> Outcome<f64> {
    let start = Instant::now();
    for (key, value) in pairs.iter() {
        work(key, value)?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn latencies_of(pairs: &Pairs, mut work: impl FnMut(&[u8], &[u8]) -> Outcome) -> Outcome<Latencies> {
    let mut latencies = Latencies::default();
    for ((key, value), at) in pairs.iter().zip(0..) {
        let start = Instant::now();
        work(key, value)?;
        latencies.add(at, start.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}
