//! Tests of the harness: workload files are right, correct stores pass, and every wrong store is found.

use super::{Job, answers};
use crate::engine::{Each, Engine, Opening, Outcome, Place, Store};
use crate::row::Line;
use crate::workload::{Case, Part, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The fault of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    PutIsLost,
    PutIsDoubled,
    ValueIsChanged,
    AbsentIsFound,
    ScanLeavesOut,
    ScanSwapsValues,
    RemoveKeeps,
    AppendGoesBefore,
    AppendIsLost,
    ManyAreGivenTwice,
}

/// A map that errs at its pair number 100 and is right otherwise.
struct FaultyStore {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    calls: u64,
    fault: Fault,
}

impl FaultyStore {
    /// Whether to make an error now.
    fn errs(&mut self, fault: Fault) -> bool {
        self.calls += u64::from(self.fault == fault);
        self.fault == fault && self.calls == 100
    }
}

impl Store for FaultyStore {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        if self.errs(Fault::PutIsDoubled) {
            self.pairs.insert([key, b"?"].concat(), value.to_vec());
        }
        if !self.errs(Fault::PutIsLost) {
            self.pairs.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        if self.errs(Fault::AppendIsLost) {
            return Ok(());
        }
        let before = self.fault == Fault::AppendGoesBefore;
        let value = self.pairs.entry(key.to_vec()).or_default();
        if before {
            value.splice(0..0, tail.iter().copied());
        } else {
            value.extend_from_slice(tail);
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        if self.errs(Fault::ValueIsChanged) {
            self.pairs.entry(key.to_vec()).and_modify(|value| value[0] ^= 1);
        }
        let found_anyway = !self.pairs.contains_key(key) && self.errs(Fault::AbsentIsFound);
        Ok(if found_anyway { Some(b"") } else { self.pairs.get(key).map(Vec::as_slice) })
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.errs(Fault::RemoveKeeps) || self.pairs.remove(key).is_some())
    }

    fn scan(&mut self, _: bool, each: Each<'_>) -> Outcome {
        let skip = usize::from(self.fault == Fault::ScanLeavesOut);
        let shift = usize::from(self.fault == Fault::ScanSwapsValues);
        let values = self.pairs.values().cycle().skip(shift);
        self.pairs.keys().zip(values).skip(skip).for_each(|(key, value)| each(key, value));
        Ok(())
    }

    fn sync(&mut self) -> Outcome {
        Ok(())
    }

    fn has_batches(&self) -> bool {
        true
    }

    fn get_many(&mut self, keys: &[&[u8]], take: &mut dyn FnMut(usize, Option<&[u8]>)) -> Outcome {
        let first = if self.fault == Fault::ManyAreGivenTwice { keys[0] } else { b"" };
        for (i, key) in keys.iter().enumerate() {
            let key = if first.is_empty() { key } else { first };
            take(i, self.pairs.get(key).map(Vec::as_slice));
        }
        Ok(())
    }
}

impl Engine for Fault {
    fn name(&self) -> &str {
        "faulty"
    }

    fn version(&self) -> String {
        String::new()
    }

    fn settings(&self, _: Place) -> Vec<String> {
        vec!["default".into()]
    }

    fn open(&self, _: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(FaultyStore { pairs: BTreeMap::new(), calls: 0, fault: *self }))
    }
}

/// Runs the tiny form of the first variant of a workload, with a store that has this fault.
fn tiny(workload: &str, parts: &[Part], fault: &'static Fault) -> Result<usize, String> {
    let workload = Workload::named(workload).expect("a workload file");
    let variant = &workload.variant[0];
    let form = variant.form("tiny", workload.form("tiny").expect("every workload has one")).expect("and the variant");
    let case = Case { workload: &workload, variant, engine: fault, setting: "default".into(), form };
    let directory = tempfile::tempdir().expect("a directory for files");
    let job = Job { case, directory: directory.path(), parts, batch: 256 };
    job.run().map(|lines| lines.0.len()).map_err(|e| e.to_string())
}

const PAIRS: [Part; 8] =
    [Part::Put, Part::Get, Part::GetMany, Part::Miss, Part::MissMany, Part::Scan, Part::Sync, Part::RemoveTenth];

#[test]
fn a_correct_store_passes() {
    assert!(tiny("pairs", &PAIRS, &Fault::None).expect("no fault") > 20);
    for part in [Part::Append, Part::AppendMany, Part::AppendTimed] {
        assert!(tiny("append-uniform", &[part], &Fault::None).expect("no fault") > 5);
    }
}

/// From the second repeat on, the last part in the list is not the one that was just timed.
#[test]
fn put_and_sync_is_measured_from_the_put_and_the_sync_of_one_repeat() {
    let workload = Workload::named("words").expect("a workload file");
    let cases = workload.cases("tiny", &["splitpoint".into()]).expect("a form of that name");
    let case = cases.iter().find(|case| case.variant.name == "file").expect("a variant of that name");
    let mut case = case.clone();
    case.form.repeats = 5;
    let directory = tempfile::tempdir().expect("a directory for files");
    let parts = [Part::Put, Part::Sync, Part::Scan];
    let lines = Job { case, directory: directory.path(), parts: &parts, batch: 256 }.run();
    let wall_s = |part: &str| {
        let rows = lines.as_ref().expect("our table is correct").0.iter();
        let mut found = rows.filter_map(|line| match line {
            Line::Row(row) if row.part == part && row.metric == "wall_s" => Some(row.value),
            _ => None,
        });
        found.next().expect("the part was timed")
    };
    // A median of sums is no less than the median of either summand.
    assert!(wall_s("put-and-sync") >= wall_s("put").max(wall_s("sync")));
}

#[test]
fn a_store_that_is_wrong_about_pairs_is_found() {
    for fault in [
        &Fault::PutIsLost,
        &Fault::PutIsDoubled,
        &Fault::ValueIsChanged,
        &Fault::AbsentIsFound,
        &Fault::ScanLeavesOut,
        &Fault::ScanSwapsValues,
        &Fault::RemoveKeeps,
        &Fault::ManyAreGivenTwice,
    ] {
        let outcome = tiny("pairs", &PAIRS, fault);
        assert!(outcome.is_err(), "{fault:?} went unnoticed");
    }
}

#[test]
fn a_store_that_is_wrong_about_appends_is_found() {
    for fault in [&Fault::AppendGoesBefore, &Fault::AppendIsLost, &Fault::ScanLeavesOut, &Fault::ScanSwapsValues] {
        let outcome = tiny("append-uniform", &[Part::Append], fault);
        assert!(outcome.is_err(), "{fault:?} went unnoticed");
    }
}

#[test]
fn a_fault_that_no_get_meets_is_found_at_the_end() {
    let outcome = tiny("pairs", &[Part::Put], &Fault::PutIsDoubled).expect_err("one pair too many");
    assert!(outcome.starts_with("the store holds Contents { pairs: 5001,"), "{outcome}");
}

#[test]
fn answers_in_workload_files_are_right() {
    for workload in Workload::all().expect("workload files") {
        let tiny = workload.form("tiny").expect("every workload has one");
        assert_eq!(&answers(&workload.input, tiny).expect("sizes in order"), &tiny.expected, "{}", workload.name);
        assert!(workload.form.contains_key("short") && workload.form.contains_key("full"), "{}", workload.name);
        for variant in workload.variant.iter().filter(|variant| variant.count.is_some_and(|count| count <= 8192)) {
            let form = variant.form("full", &workload.form["full"]).expect("all are in the full form");
            assert_eq!(answers(&workload.input, &form).expect("sizes in order"), form.expected, "{}", variant.name);
        }
    }
}

#[test]
fn every_workload_comes_out_right_with_our_table() {
    for workload in Workload::all().expect("workload files") {
        let cases = workload.cases("tiny", &["splitpoint".into()]).expect("a form of that name");
        assert!(!cases.is_empty(), "{} has no case for us", workload.name);
        // Runs only a few of each, because grids have many.
        for case in cases.iter().step_by(1 + cases.len() / 6) {
            let (directory, parts) = (tempfile::tempdir().expect("a directory for files"), &case.variant.parts);
            let job = Job { case: case.clone(), directory: directory.path(), parts, batch: 256 };
            let lines = job.run().unwrap_or_else(|e| panic!("{} {}: {e}", workload.name, case.setting));
            assert!(lines.0.iter().all(|line| matches!(line, Line::Window(_) | Line::Row(_))));
        }
    }
}

/// Parts that our store does not support.
const PEERS_ALONE: &[&str] = &["ranks"];

#[test]
fn tables_ask_for_figures_that_parts_have() {
    let mut names = BTreeSet::new();
    for workload in Workload::all().expect("workload files") {
        let cases = workload.cases("tiny", &["splitpoint".into(), "xfer".into()]).expect("a form of that name");
        let mut outcome = BTreeSet::new();
        for variant in &workload.variant {
            let Some(case) = cases.iter().find(|case| case.variant.name == variant.name) else { continue };
            let directory = tempfile::tempdir().expect("a directory for files");
            let job = Job { case: case.clone(), directory: directory.path(), parts: &variant.parts, batch: 256 };
            for line in job.run().expect("our table is correct").0 {
                let Line::Row(row) = line else { continue };
                outcome.insert((row.part, row.metric));
            }
        }
        for table in &workload.table {
            assert!(names.insert(table.name.clone()), "two tables are called {}", table.name);
            for column in &table.columns {
                for part in column.part.split('+') {
                    let figure = (part.to_owned(), column.metric.clone());
                    assert!(
                        outcome.contains(&figure) || PEERS_ALONE.contains(&part),
                        "table {}: no part has the figure {figure:?}",
                        table.name
                    );
                }
            }
        }
    }
    assert!(names.len() > 10);
}
