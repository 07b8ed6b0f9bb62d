//! The harness itself: workload files are right, honest stores pass, and a store that lies is found, whatever its lie.

use super::{Job, answers};
use crate::engine::{Each, Engine, Opening, Outcome, Place, Store};
use crate::row::Line;
use crate::workload::{Case, Part, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// What a store does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
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

/// A map that lies about its pair number 100 and is right in all else.
struct Liar {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    calls: u64,
    lie: Lie,
}

impl Liar {
    /// Whether to lie now.
    fn lies(&mut self, lie: Lie) -> bool {
        self.calls += u64::from(self.lie == lie);
        self.lie == lie && self.calls == 100
    }
}

impl Store for Liar {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        if self.lies(Lie::PutIsDoubled) {
            self.pairs.insert([key, b"?"].concat(), value.to_vec());
        }
        if !self.lies(Lie::PutIsLost) {
            self.pairs.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Outcome {
        if self.lies(Lie::AppendIsLost) {
            return Ok(());
        }
        let before = self.lie == Lie::AppendGoesBefore;
        let value = self.pairs.entry(key.to_vec()).or_default();
        if before {
            value.splice(0..0, tail.iter().copied());
        } else {
            value.extend_from_slice(tail);
        }
        Ok(())
    }

    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        if self.lies(Lie::ValueIsChanged) {
            self.pairs.entry(key.to_vec()).and_modify(|value| value[0] ^= 1);
        }
        let lies = !self.pairs.contains_key(key) && self.lies(Lie::AbsentIsFound);
        Ok(if lies { Some(b"") } else { self.pairs.get(key).map(Vec::as_slice) })
    }

    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.lies(Lie::RemoveKeeps) || self.pairs.remove(key).is_some())
    }

    fn scan(&mut self, _: bool, each: Each<'_>) -> Outcome {
        let skip = usize::from(self.lie == Lie::ScanLeavesOut);
        let shift = usize::from(self.lie == Lie::ScanSwapsValues);
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
        let first = if self.lie == Lie::ManyAreGivenTwice { keys[0] } else { b"" };
        for (i, key) in keys.iter().enumerate() {
            let key = if first.is_empty() { key } else { first };
            take(i, self.pairs.get(key).map(Vec::as_slice));
        }
        Ok(())
    }
}

impl Engine for Lie {
    fn name(&self) -> &str {
        "liar"
    }

    fn version(&self) -> String {
        String::new()
    }

    fn settings(&self, _: Place) -> Vec<String> {
        vec!["default".into()]
    }

    fn open(&self, _: &Opening<'_>) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(Liar { pairs: BTreeMap::new(), calls: 0, lie: *self }))
    }
}

/// The tiny form of the first variant of a workload, by a store that tells this lie.
fn tiny(workload: &str, parts: &[Part], lie: &'static Lie) -> Result<usize, String> {
    let workload = Workload::named(workload).expect("a workload of ours");
    let variant = &workload.variant[0];
    let form = variant.form("tiny", workload.form("tiny").expect("every workload has one")).expect("and the variant");
    let case = Case { workload: &workload, variant, engine: lie, setting: "default".into(), form };
    let directory = tempfile::tempdir().expect("a directory for files");
    let job = Job { case, directory: directory.path(), parts, batch: 256 };
    job.run().map(|lines| lines.0.len()).map_err(|e| e.to_string())
}

const PAIRS: [Part; 8] =
    [Part::Put, Part::Get, Part::GetMany, Part::Miss, Part::MissMany, Part::Scan, Part::Sync, Part::RemoveTenth];

#[test]
fn an_honest_store_passes() {
    assert!(tiny("pairs", &PAIRS, &Lie::None).expect("no lie") > 20);
    for part in [Part::Append, Part::AppendMany, Part::AppendTimed] {
        assert!(tiny("append-uniform", &[part], &Lie::None).expect("no lie") > 5);
    }
}

/// From the second repeat on the part noted last is not the one that was just timed.
#[test]
fn put_and_sync_is_measured_from_the_put_and_the_sync_of_one_repeat() {
    let workload = Workload::named("words").expect("a workload of ours");
    let cases = workload.cases("tiny", &["splitpoint".into()]).expect("a form of that name");
    let case = cases.iter().find(|case| case.variant.name == "file").expect("a variant of that name");
    let mut case = case.clone();
    case.form.repeats = 5;
    let directory = tempfile::tempdir().expect("a directory for files");
    let parts = [Part::Put, Part::Sync, Part::Scan];
    let lines = Job { case, directory: directory.path(), parts: &parts, batch: 256 }.run();
    let wall_s = |part: &str| {
        let rows = lines.as_ref().expect("our table passes").0.iter();
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
fn a_store_that_lies_about_pairs_is_found() {
    for lie in [
        &Lie::PutIsLost,
        &Lie::PutIsDoubled,
        &Lie::ValueIsChanged,
        &Lie::AbsentIsFound,
        &Lie::ScanLeavesOut,
        &Lie::ScanSwapsValues,
        &Lie::RemoveKeeps,
        &Lie::ManyAreGivenTwice,
    ] {
        let outcome = tiny("pairs", &PAIRS, lie);
        assert!(outcome.is_err(), "{lie:?} went unnoticed");
    }
}

#[test]
fn a_store_that_lies_about_appends_is_found() {
    for lie in [&Lie::AppendGoesBefore, &Lie::AppendIsLost, &Lie::ScanLeavesOut, &Lie::ScanSwapsValues] {
        let outcome = tiny("append-uniform", &[Part::Append], lie);
        assert!(outcome.is_err(), "{lie:?} went unnoticed");
    }
}

#[test]
fn a_lie_that_no_get_meets_is_found_at_the_end() {
    let told = tiny("pairs", &[Part::Put], &Lie::PutIsDoubled).expect_err("one pair too many");
    assert!(told.starts_with("the store holds Contents { pairs: 5001,"), "{told}");
}

#[test]
fn answers_in_workload_files_are_right() {
    for workload in Workload::all().expect("they can be read") {
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
    for workload in Workload::all().expect("they can be read") {
        let cases = workload.cases("tiny", &["splitpoint".into()]).expect("a form of that name");
        assert!(!cases.is_empty(), "{} has no case for us", workload.name);
        // A few of each, as grids have many.
        for case in cases.iter().step_by(1 + cases.len() / 6) {
            let (directory, parts) = (tempfile::tempdir().expect("a directory for files"), &case.variant.parts);
            let job = Job { case: case.clone(), directory: directory.path(), parts, batch: 256 };
            let lines = job.run().unwrap_or_else(|e| panic!("{} {}: {e}", workload.name, case.setting));
            assert!(lines.0.iter().all(|line| matches!(line, Line::Window(_) | Line::Row(_))));
        }
    }
}

/// Parts that our store has no use for.
const PEERS_ALONE: &[&str] = &["ranks"];

#[test]
fn tables_ask_for_what_parts_tell() {
    let mut names = BTreeSet::new();
    for workload in Workload::all().expect("they can be read") {
        let cases = workload.cases("tiny", &["splitpoint".into(), "xfer".into()]).expect("a form of that name");
        let mut told = BTreeSet::new();
        for variant in &workload.variant {
            let Some(case) = cases.iter().find(|case| case.variant.name == variant.name) else { continue };
            let directory = tempfile::tempdir().expect("a directory for files");
            let job = Job { case: case.clone(), directory: directory.path(), parts: &variant.parts, batch: 256 };
            for line in job.run().expect("our table passes").0 {
                let Line::Row(row) = line else { continue };
                told.insert((row.part, row.metric));
            }
        }
        for table in &workload.table {
            assert!(names.insert(table.name.clone()), "two tables are called {}", table.name);
            for column in &table.columns {
                for part in column.part.split('+') {
                    let figure = (part.to_owned(), column.metric.clone());
                    assert!(
                        told.contains(&figure) || PEERS_ALONE.contains(&part),
                        "table {}: nobody tells {figure:?}",
                        table.name
                    );
                }
            }
        }
    }
    assert!(names.len() > 10);
}
