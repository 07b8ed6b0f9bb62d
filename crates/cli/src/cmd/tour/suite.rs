//! The paper's two suites: five tests on a file; create and read in memory, compared with the standard library's map.
//!
//! From the paper: *create* enters the pairs and flushes the file to disk; *read* looks up every key; *verify* also
//! compares the data; *sequential* walks the table, without and with the data. The file is closed and opened again
//! between create and read; it is still in the page cache.

use super::data::PairList;
use super::measure::{Samples, Times, timed};
use super::{total_bytes, wrong_answer, wrong_total};
use crate::failure::Result;
use crate::interrupt::Interrupt;
use splitpoint::{Durability, Table, TableOptions, TableSurvey};
use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;

/// Message of an interrupted tour.
const STOPPED: &str = "the tour ends here, its files are removed";

/// The directory of the tests, and the number of runs.
#[derive(Clone, Copy)]
pub struct Bench<'b> {
    pub place: &'b Path,
    pub runs: u32,
    pub interrupt: &'b Interrupt,
}

#[derive(Default)]
pub struct DiskSamples {
    create: Samples,
    read: Samples,
    verify: Samples,
    keys: Samples,
    data: Samples,
}

pub struct OnDisk {
    samples: DiskSamples,
    /// The table as the last run left it.
    pub stat: TableSurvey,
}

impl OnDisk {
    pub fn tests(&self) -> [(&'static str, &Samples); 5] {
        let samples = &self.samples;
        [
            ("create", &samples.create),
            ("read", &samples.read),
            ("verify", &samples.verify),
            ("sequential", &samples.keys),
            ("sequential, data", &samples.data),
        ]
    }
}

pub struct InMemory {
    pub table: Samples,
    pub std_map: Samples,
}

impl Bench<'_> {
    pub fn stop_if_caught(&self) -> Result<()> {
        self.interrupt.stop_if_caught(STOPPED)
    }

    pub fn on_disk(&self, pairs: &PairList, options: fn() -> TableOptions) -> Result<OnDisk> {
        let path = self.place.join("tour.spt");
        let mut samples = DiskSamples::default();
        let mut stat = None;
        for run in 0..self.runs {
            samples.create.push(timed(|| self.create(pairs, options().create_new(true), &path))?.1);
            let table = options().create(false).open(&path)?;
            samples.read.push(self.read(&table, pairs)?);
            samples.verify.push(self.verify(&table, pairs)?);
            samples.keys.push(self.sequential_keys(&table, pairs)?);
            samples.data.push(self.sequential_data(&table, pairs)?);
            if run == 0 {
                self.scan_is_exact(&table, pairs)?;
            }
            stat = Some(table.survey()?);
            table.close()?;
            std::fs::remove_file(&path).map_err(|error| crate::failure::Failure::io(path.display(), &error))?;
        }
        Ok(OnDisk { samples, stat: stat.expect("clap sees to one run at least") })
    }

    /// No durability until the end, then everything at once, like the paper's package.
    fn create(&self, pairs: &PairList, options: TableOptions, path: &Path) -> Result<()> {
        let table = options.durability(Durability::None).open(path)?;
        for (key, value) in pairs {
            table.put(key, value)?;
            self.stop_if_caught()?;
        }
        table.sync()?;
        Ok(table.close()?)
    }

    fn read(&self, table: &Table, pairs: &PairList) -> Result<Times> {
        let mut value = Vec::new();
        let read = timed(|| {
            for (key, _) in pairs {
                if !table.get_into(key, &mut value)? {
                    return Err(wrong_answer("no value", key));
                }
                self.stop_if_caught()?;
            }
            Ok(())
        });
        Ok(read?.1)
    }

    fn verify(&self, table: &Table, pairs: &PairList) -> Result<Times> {
        let mut found = Vec::new();
        let verified = timed(|| {
            for (key, value) in pairs {
                if !table.get_into(key, &mut found)? || found != *value {
                    return Err(wrong_answer("not the value that was put", key));
                }
                self.stop_if_caught()?;
            }
            Ok(())
        });
        Ok(verified?.1)
    }

    fn sequential_keys(&self, table: &Table, pairs: &PairList) -> Result<Times> {
        let (count, times) = timed(|| {
            let (mut scan, mut count) = (table.scan(), 0);
            while let Some((key, _)) = scan.next_ref()? {
                black_box(key);
                count += 1;
            }
            Ok(count)
        })?;
        self.stop_if_caught()?;
        expect_total("a scan of the keys", count, pairs.len() as u64)?;
        Ok(times)
    }

    fn sequential_data(&self, table: &Table, pairs: &PairList) -> Result<Times> {
        let mut data = Vec::new();
        let (bytes, times) = timed(|| {
            let (mut scan, mut bytes) = (table.scan(), 0);
            while let Some((key, value)) = scan.next_ref()? {
                data.clear();
                data.extend_from_slice(black_box(value));
                bytes += (key.len() + data.len()) as u64;
            }
            Ok(bytes)
        })?;
        self.stop_if_caught()?;
        expect_total("a scan with data", bytes, total_bytes(pairs))?;
        Ok(times)
    }

    /// Checks, untimed, that a scan returns every pair once, as it was put.
    fn scan_is_exact(&self, table: &Table, pairs: &PairList) -> Result<()> {
        let mut expected: HashMap<&[u8], &[u8]> = pairs.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let mut scan = table.scan();
        while let Some((key, value)) = scan.next_ref()? {
            if expected.remove(key) != Some(value) {
                return Err(wrong_answer("a scan gave a pair twice, or not as it was put,", key));
            }
        }
        self.stop_if_caught()?;
        expect_total("pairs that a scan left out", expected.len() as u64, 0)
    }

    /// Runs the paper's create/read test: enter all, look up all, destroy.
    pub fn in_memory(&self, pairs: &PairList, options: fn() -> TableOptions) -> Result<InMemory> {
        let mut both = InMemory { table: Samples::default(), std_map: Samples::default() };
        for _ in 0..self.runs {
            both.table.push(timed(|| self.table_in_memory(pairs, options()))?.1);
            both.std_map.push(timed(|| self.std_map(pairs))?.1);
        }
        Ok(both)
    }

    fn table_in_memory(&self, pairs: &PairList, options: TableOptions) -> Result<()> {
        let table = options.in_memory()?;
        for (key, value) in pairs {
            table.put(key, value)?;
            self.stop_if_caught()?;
        }
        let mut found = Vec::new();
        for (key, value) in pairs {
            if !table.get_into(key, &mut found)? || found != *value {
                return Err(wrong_answer("not the value that was put", key));
            }
            self.stop_if_caught()?;
        }
        Ok(())
    }

    /// Does the same work with the map: keys and values are copied in, values are copied out.
    fn std_map(&self, pairs: &PairList) -> Result<()> {
        let mut map = HashMap::new();
        for (key, value) in pairs {
            map.insert(key.clone(), value.clone());
            self.stop_if_caught()?;
        }
        let mut found = Vec::new();
        for (key, value) in pairs {
            found.clear();
            found.extend_from_slice(map.get(key).map_or(&[], |value| &value[..]));
            if found != *value {
                return Err(wrong_answer("not the value that was put into the map", key));
            }
            self.stop_if_caught()?;
        }
        Ok(())
    }
}

fn expect_total(what: &str, found: u64, expected: u64) -> Result<()> {
    if found == expected { Ok(()) } else { Err(wrong_total(what, found, expected)) }
}
