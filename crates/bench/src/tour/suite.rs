//! The paper's two suites: five tests on a file; create and read in memory, compared with the standard library's map.
//!
//! From the paper: *create* enters the pairs and flushes the file to disk; *read* looks up every key; *verify* also
//! compares the data; *sequential* walks the table, without and with the data. The file is closed and opened again
//! between create and read; it is still in the page cache.

use super::{PairList, expect_total, total_bytes, wrong_answer};
use crate::engine::Outcome;
use crate::measure::Stopwatch;
use splitpoint::{Durability, Table, TableOptions, TableSurvey};
use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// The directory of the tests, and the number of runs.
pub struct Bench<'b> {
    pub place: &'b Path,
    pub runs: u32,
}

/// The times of a test over all runs.
#[derive(Default)]
pub struct Samples(Vec<Stopwatch>);

impl Samples {
    /// Runs `work` and records its time.
    fn time<T>(&mut self, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let mut watch = Stopwatch::default();
        let running = Stopwatch::start()?;
        let done = work()?;
        watch.stop(&running)?;
        self.0.push(watch);
        Ok(done)
    }

    /// Returns the median of each kind of time by itself.
    pub fn median(&self) -> Times {
        let of = |time: fn(&Stopwatch) -> Duration| median(self.0.iter().map(|w| time(w).as_secs_f64()).collect());
        Times { user: of(|w| w.user), system: of(|w| w.system), elapsed: of(|w| w.wall) }
    }

    /// Returns the elapsed time of the fastest run and of the slowest.
    pub fn spread(&self) -> (f64, f64) {
        let elapsed = self.0.iter().map(|watch| watch.wall.as_secs_f64());
        (elapsed.clone().fold(f64::INFINITY, f64::min), elapsed.fold(0.0, f64::max))
    }
}

/// Seconds.
pub struct Times {
    pub user: f64,
    pub system: f64,
    pub elapsed: f64,
}

/// Returns the middle value; of an even number, the lower one of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

#[derive(Default)]
pub struct OnDisk {
    create: Samples,
    read: Samples,
    verify: Samples,
    keys: Samples,
    data: Samples,
    /// The table as the last run left it.
    pub survey: TableSurvey,
}

impl OnDisk {
    pub fn tests(&self) -> [(&'static str, &Samples); 5] {
        [
            ("create", &self.create),
            ("read", &self.read),
            ("verify", &self.verify),
            ("sequential", &self.keys),
            ("sequential, data", &self.data),
        ]
    }
}

#[derive(Default)]
pub struct InMemory {
    pub table: Samples,
    pub std_map: Samples,
}

impl Bench<'_> {
    pub fn on_disk(&self, pairs: &PairList, options: fn() -> TableOptions) -> Outcome<OnDisk> {
        let path = self.place.join("tour.spt");
        let mut tests = OnDisk::default();
        for run in 0..self.runs {
            tests.create.time(|| create(pairs, options().create_new(true), &path))?;
            let table = options().create(false).open(&path)?;
            tests.read.time(|| read(&table, pairs))?;
            tests.verify.time(|| verify(&table, pairs))?;
            let count = tests.keys.time(|| sequential_keys(&table))?;
            expect_total("a scan of the keys", count, pairs.len() as u64)?;
            let bytes = tests.data.time(|| sequential_data(&table))?;
            expect_total("a scan with data", bytes, total_bytes(pairs))?;
            if run == 0 {
                scan_is_exact(&table, pairs)?;
            }
            tests.survey = table.survey()?;
            table.close()?;
            std::fs::remove_file(&path)?;
        }
        Ok(tests)
    }

    /// Runs the paper's create/read test: enter all, look up all, destroy.
    pub fn in_memory(&self, pairs: &PairList) -> Outcome<InMemory> {
        let mut tests = InMemory::default();
        for _ in 0..self.runs {
            tests.table.time(|| table_in_memory(pairs))?;
            tests.std_map.time(|| std_map(pairs))?;
        }
        Ok(tests)
    }
}

/// No durability until the end, then everything at once, like the paper's package.
fn create(pairs: &PairList, options: TableOptions, path: &Path) -> Outcome {
    let table = options.durability(Durability::None).open(path)?;
    for (key, value) in pairs {
        table.put(key, value)?;
    }
    table.sync()?;
    Ok(table.close()?)
}

fn read(table: &Table, pairs: &PairList) -> Outcome {
    let mut value = Vec::new();
    for (key, _) in pairs {
        if !table.get_into(key, &mut value)? {
            return Err(wrong_answer("no value", key));
        }
    }
    Ok(())
}

fn verify(table: &Table, pairs: &PairList) -> Outcome {
    let mut found = Vec::new();
    for (key, value) in pairs {
        if !table.get_into(key, &mut found)? || found != *value {
            return Err(wrong_answer("not the value that was put", key));
        }
    }
    Ok(())
}

/// Returns the number of keys.
fn sequential_keys(table: &Table) -> Outcome<u64> {
    let (mut scan, mut count) = (table.scan(), 0);
    while let Some((key, _)) = scan.next_ref()? {
        black_box(key);
        count += 1;
    }
    Ok(count)
}

/// Returns the bytes of keys and values.
fn sequential_data(table: &Table) -> Outcome<u64> {
    let (mut scan, mut bytes, mut data) = (table.scan(), 0, Vec::new());
    while let Some((key, value)) = scan.next_ref()? {
        data.clear();
        data.extend_from_slice(black_box(value));
        bytes += (key.len() + data.len()) as u64;
    }
    Ok(bytes)
}

/// Checks, untimed, that a scan returns every pair once, as it was put.
fn scan_is_exact(table: &Table, pairs: &PairList) -> Outcome {
    let mut expected: HashMap<&[u8], &[u8]> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let mut scan = table.scan();
    while let Some((key, value)) = scan.next_ref()? {
        if expected.remove(key) != Some(value) {
            return Err(wrong_answer("a scan gave a pair twice, or not as it was put,", key));
        }
    }
    expect_total("pairs that a scan left out", expected.len() as u64, 0)
}

fn table_in_memory(pairs: &PairList) -> Outcome {
    let table = Table::in_memory()?;
    for (key, value) in pairs {
        table.put(key, value)?;
    }
    verify(&table, pairs)
}

/// Does the same work with the map: keys and values are copied in, values are copied out.
fn std_map(pairs: &PairList) -> Outcome {
    let mut map = HashMap::new();
    for (key, value) in pairs {
        map.insert(key.clone(), value.clone());
    }
    let mut found = Vec::new();
    for (key, value) in pairs {
        found.clear();
        found.extend_from_slice(map.get(key).map_or(&[], |value| &value[..]));
        if found != *value {
            return Err(wrong_answer("not the value that was put into the map", key));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!([vec![3.0, 1.0, 2.0], vec![4.0, 1.0, 2.0, 3.0]].map(median), [2.0, 2.0]);
    }
}
