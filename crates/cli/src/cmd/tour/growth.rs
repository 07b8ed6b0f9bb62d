//! Grows a table from empty, one put at a time: how fast, and how long is the slowest put?
//!
//! Linear hashing splits at most one bucket per put, so no put waits for the table to be copied; in a map that
//! doubles, one put in a million waits for all others. Two passes per run: one for the speed, and one with a clock
//! around each put, which has a cost of its own. The slowest put includes whatever else the machine did at that
//! moment.

use super::data::{RANDOM_KEY_BYTES, RANDOM_VALUE_BYTES, RandomPair};
use super::measure::median;
use super::suite::Bench;
use super::wrong_answer;
use crate::failure::{Failure, Result};
use splitpoint::{Durability, Table, TableOptions};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

/// Medians over the runs, in seconds.
pub struct Growth {
    pub pairs: u64,
    pub runs: u32,
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

/// The figures of each run, one column each; the medians are taken at the end.
#[derive(Default)]
struct Column {
    put: Vec<f64>,
    get: Vec<f64>,
    put_median: Vec<f64>,
    put_999: Vec<f64>,
    put_slowest: Vec<f64>,
}

impl Column {
    fn push_puts(&mut self, mut nanos: Vec<u32>) {
        nanos.sort_unstable();
        let at = |thousandths: usize| f64::from(nanos[(nanos.len() - 1) * thousandths / 1000]) * 1e-9;
        self.put_median.push(at(500));
        self.put_999.push(at(999));
        self.put_slowest.push(at(1000));
    }

    fn pace(self) -> Pace {
        Pace {
            put: median(self.put),
            get: median(self.get),
            put_median: median(self.put_median),
            put_999: median(self.put_999),
            put_slowest: median(self.put_slowest),
        }
    }
}

pub fn grow(bench: &Bench<'_>, pairs: &[RandomPair]) -> Result<Growth> {
    let path = bench.place.join("growing.spt");
    let (mut table, mut std_map) = (Column::default(), Column::default());
    let mut file_bytes = 0;
    for _ in 0..bench.runs {
        file_bytes = grow_table(bench, pairs, &path, &mut table)?;
        grow_std_map(bench, pairs, &mut std_map)?;
    }
    Ok(Growth {
        pairs: pairs.len() as u64,
        runs: bench.runs,
        payload_bytes: (pairs.len() * (RANDOM_KEY_BYTES + RANDOM_VALUE_BYTES)) as u64,
        file_bytes,
        table: table.pace(),
        std_map: std_map.pace(),
    })
}

/// Returns the file's size at the end.
fn grow_table(bench: &Bench<'_>, pairs: &[RandomPair], path: &Path, column: &mut Column) -> Result<u64> {
    let table = empty_table(path)?;
    column.put.push(seconds_of(bench, pairs, |pair| Ok(table.put(pair.key(), pair.value())?))?);
    let mut found = Vec::new();
    column.get.push(seconds_of(bench, pairs, |pair| {
        let right = table.get_into(pair.key(), &mut found)? && found == pair.value();
        if right { Ok(()) } else { Err(wrong_answer("not the value that was put", pair.key())) }
    })?);
    table.close()?;
    let file_bytes = path.metadata().map_err(|error| Failure::io(path.display(), &error))?.len();
    remove(path)?;

    let table = empty_table(path)?;
    column.push_puts(nanos_of_each(bench, pairs, |pair| Ok(table.put(pair.key(), pair.value())?))?);
    table.close()?;
    remove(path)?;
    Ok(file_bytes)
}

fn grow_std_map(bench: &Bench<'_>, pairs: &[RandomPair], column: &mut Column) -> Result<()> {
    let mut map = HashMap::new();
    column.put.push(seconds_of(bench, pairs, |pair| {
        map.insert(pair.key().to_vec(), pair.value().to_vec());
        Ok(())
    })?);
    let mut found = Vec::new();
    column.get.push(seconds_of(bench, pairs, |pair| {
        found.clear();
        found.extend_from_slice(map.get(pair.key()).map_or(&[], |value| &value[..]));
        if found == pair.value() {
            Ok(())
        } else {
            Err(wrong_answer("not the value that was put into the map", pair.key()))
        }
    })?);
    drop(map);

    let mut map = HashMap::new();
    column.push_puts(nanos_of_each(bench, pairs, |pair| {
        map.insert(pair.key().to_vec(), pair.value().to_vec());
        Ok(())
    })?);
    Ok(())
}

fn empty_table(path: &Path) -> Result<Table> {
    Ok(TableOptions::new().create_new(true).durability(Durability::None).open(path)?)
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|error| Failure::io(path.display(), &error))
}

fn seconds_of(bench: &Bench<'_>, pairs: &[RandomPair], mut work: impl FnMut(&RandomPair) -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for pair in pairs {
        work(pair)?;
        bench.stop_if_caught()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn nanos_of_each(
    bench: &Bench<'_>,
    pairs: &[RandomPair],
    mut work: impl FnMut(&RandomPair) -> Result<()>,
) -> Result<Vec<u32>> {
    // Filled in advance: growing it would be one of the pauses.
    let mut nanos = vec![0; pairs.len()];
    for (pair, nanos) in pairs.iter().zip(&mut nanos) {
        let start = Instant::now();
        work(pair)?;
        *nanos = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        bench.stop_if_caught()?;
    }
    Ok(nanos)
}
