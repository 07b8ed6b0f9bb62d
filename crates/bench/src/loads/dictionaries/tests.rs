//! Tests of the harness: every wrong dictionary is found, and a correct one passes.

use super::{Job, Lookups};
use crate::engine::{Engine, Made, Maker, Making, Outcome, Pairs, Place, Reader};
use crate::row::Line;
use crate::workload::{Case, Part, Workload};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The fault of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    PairIsLost,
    ValueIsChanged,
    ValueIsCut,
    AbsentIsFound,
    ManyAreGivenTwice,
    ManyAreLeftOut,
    UpdateIsLost,
    UpdateForgetsTheOld,
    LenIsWrong,
    RanksMeet,
    RankIsTooLarge,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Dictionaries by the path they were made at.
static MADE: Mutex<BTreeMap<PathBuf, Map>> = Mutex::new(BTreeMap::new());

impl Fault {
    fn taken(self, pairs: &mut dyn Pairs, mut map: Map) -> Outcome<Map> {
        pairs.each(&mut |key, value| {
            let mut value = value.to_vec();
            match self {
                Fault::PairIsLost if map.len() == 99 => value = b"lost".to_vec(),
                Fault::ValueIsChanged if map.len() == 99 => value[0] ^= 1,
                Fault::ValueIsCut if map.len() == 99 => value.truncate(1),
                _ => {}
            }
            map.insert(key.to_vec(), value);
            Ok(())
        })?;
        if self == Fault::PairIsLost {
            map.retain(|_, value| value != b"lost");
        }
        Ok(map)
    }
}

impl Maker for Fault {
    fn is_function(&self, _: &str) -> bool {
        matches!(self, Fault::RanksMeet | Fault::RankIsTooLarge)
    }

    fn updates(&self) -> bool {
        true
    }

    fn maps(&self) -> bool {
        true
    }

    fn build(&self, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        std::fs::write(making.path, "")?;
        let map = self.taken(pairs, BTreeMap::new())?;
        MADE.lock().expect("no panic").insert(making.path.into(), map);
        Ok(())
    }

    fn update(&self, old: &Path, making: &Making<'_>, pairs: &mut dyn Pairs) -> Outcome {
        std::fs::write(making.path, "")?;
        let old = MADE.lock().expect("no panic").get(old).cloned().unwrap_or_default();
        let map = match self {
            Fault::UpdateIsLost => old,
            Fault::UpdateForgetsTheOld => self.taken(pairs, BTreeMap::new())?,
            _ => self.taken(pairs, old)?,
        };
        MADE.lock().expect("no panic").insert(making.path.into(), map);
        Ok(())
    }

    fn open(&self, path: &Path, _: &str, _: bool) -> Outcome<Box<dyn Made>> {
        let map = MADE.lock().expect("no panic").get(path).cloned().ok_or("nothing was made there")?;
        Ok(Box::new(Open { fault: *self, map }))
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

    fn maker(&self) -> Option<&dyn Maker> {
        Some(self)
    }
}

struct Open {
    fault: Fault,
    map: Map,
}

impl Made for Open {
    fn reader(&self) -> Outcome<Box<dyn Reader + '_>> {
        Ok(Box::new(Looking { open: self, calls: 0, rank: [0; 8] }))
    }

    fn figures(&self) -> Outcome<Vec<(String, f64)>> {
        let more = f64::from(u8::from(self.fault == Fault::LenIsWrong));
        Ok(vec![("pairs".into(), self.map.len() as f64 + more)])
    }
}

struct Looking<'o> {
    open: &'o Open,
    calls: u64,
    rank: [u8; 8],
}

impl Reader for Looking<'_> {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<&[u8]>> {
        self.calls += 1;
        let Open { fault, map } = self.open;
        if fault.is_function("") {
            let rank = map.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(key))).count() as u64;
            let wrong = if *fault == Fault::RanksMeet { 3 } else { map.len() as u64 };
            self.rank = if rank == 7 { wrong } else { rank }.to_le_bytes();
            return Ok(Some(&self.rank));
        }
        let found = map.get(key).map(Vec::as_slice);
        Ok(if found.is_none() && *fault == Fault::AbsentIsFound && self.calls == 100 { Some(b"") } else { found })
    }

    fn has_batches(&self) -> bool {
        true
    }

    fn get_many(&mut self, keys: &[&[u8]], take: &mut dyn FnMut(usize, Option<&[u8]>)) -> Outcome {
        let left_out = usize::from(self.open.fault == Fault::ManyAreLeftOut);
        for i in 0..keys.len() - left_out {
            let index = if self.open.fault == Fault::ManyAreGivenTwice { 0 } else { i };
            take(i, self.open.map.get(keys[index]).map(Vec::as_slice));
        }
        Ok(())
    }
}

const PARTS: [Part; 14] = [
    Part::Build,
    Part::Figures,
    Part::Get,
    Part::GetByTwo,
    Part::GetAgain,
    Part::GetManyAgain,
    Part::GetMany,
    Part::Miss,
    Part::MissPread,
    Part::GetCold,
    Part::GetManyCold,
    Part::Ranks,
    Part::UpdateTenth,
    Part::Copy,
];

/// Runs the tiny form of small items, with a maker that has this fault.
fn tiny(parts: &[Part], fault: &'static Fault) -> Result<Vec<Line>, String> {
    let workload = Workload::named("dictionary-small").expect("a workload file");
    let variant = &workload.variant[0];
    let form = variant.form("tiny", workload.form("tiny").expect("every workload has one")).expect("and the variant");
    let case = Case { workload: &workload, variant, engine: fault, setting: "default".into(), form };
    let directory = tempfile::tempdir().expect("a directory for files");
    let job = Job { case, directory: directory.path(), parts, batch: 256 };
    job.run().map(|lines| lines.0).map_err(|e| e.to_string())
}

#[test]
fn a_correct_dictionary_passes() {
    let lines = tiny(&PARTS, &Fault::None).expect("no fault");
    let has = |part: &str| lines.iter().any(|line| matches!(line, Line::Row(row) if row.part == part));
    for part in [
        "build",
        "get",
        "get-by-two",
        "get-many",
        "get-again",
        "get-many-again",
        "miss",
        "miss-pread",
        "get-cold",
        "get-many-cold",
        "update-tenth",
        "copy",
    ] {
        assert!(has(part), "no figure of {part}");
    }
    let lines = tiny(&[Part::UpdateBatches, Part::RebuildBatches], &Fault::None).expect("no fault");
    assert!(lines.iter().any(|line| matches!(line, Line::Row(row) if row.part == "step-6")));
}

#[test]
fn a_wrong_dictionary_is_found() {
    for fault in [
        &Fault::PairIsLost,
        &Fault::ValueIsChanged,
        &Fault::ValueIsCut,
        &Fault::AbsentIsFound,
        &Fault::ManyAreGivenTwice,
        &Fault::ManyAreLeftOut,
        &Fault::UpdateIsLost,
        &Fault::UpdateForgetsTheOld,
        &Fault::LenIsWrong,
        &Fault::RanksMeet,
        &Fault::RankIsTooLarge,
    ] {
        assert!(tiny(&PARTS, fault).is_err(), "{fault:?} went unnoticed");
    }
}

#[test]
fn a_fault_after_batches_is_found() {
    for fault in [&Fault::PairIsLost, &Fault::ValueIsChanged, &Fault::LenIsWrong] {
        for part in [Part::UpdateBatches, Part::RebuildBatches] {
            assert!(tiny(&[part], fault).is_err(), "{fault:?} went unnoticed by {part:?}");
        }
    }
}

#[test]
fn a_value_that_is_cut_is_found_by_one_of_many_threads() {
    let outcome = tiny(&[Part::Build, Part::GetCold], &Fault::None);
    assert!(outcome.is_ok(), "{outcome:?}");
    let all = Lookups { threads: 16, count: 6_000, ..Lookups::default() };
    let input = Workload::named("dictionary-small").expect("a workload file").input;
    let source = crate::input::Source::new(&input, 6_000).expect("no file is read");
    let mut pairs = super::pairs::Made { source: &source, numbers: 0..6_000 };
    let map = Fault::ValueIsCut.taken(&mut pairs, BTreeMap::new()).expect("pairs in memory");
    let outcome = all.run("get", &source, &Open { fault: Fault::ValueIsCut, map }).expect_err("a value of one byte");
    assert_eq!(outcome.to_string(), "get: 1 wrong answers among 6000, of pair 99 first");
}
