//! The test of the tests: a bug is planted (`src/planted.rs`), and the suite must find it within [`SEEDS`] seeds.
//!
//! The fast test runs each bug against the part of the suite most likely to find it; the slow one runs every part, and
//! prints the table of docs/testing.md, "Planted bugs". The suite itself shows that nothing is found without a bug,
//! with the same seeds and depth.

use super::{Done, FAST, beside, crash_everywhere, damage, fail_everywhere};
use crate::pager::interleave::take_turns;
use crate::planted::{Bug, tests::with};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds within which each bug must be found.
const SEEDS: u64 = 6;
/// Seeds within which each bug must be found by faults, of which a seed makes only every seventh.
const SEEDS_FAULTS: u64 = 12;
/// Seeds within which each bug must be found in concurrent runs, where a seed makes only few.
const SEEDS_BESIDE: u64 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Lies,
    Faults,
    Crashes,
    Beside,
}

const PARTS: [Part; 4] = [Part::Lies, Part::Faults, Part::Crashes, Part::Beside];

impl Part {
    fn seeds(self) -> u64 {
        match self {
            Part::Beside => SEEDS_BESIDE,
            Part::Faults => SEEDS_FAULTS,
            Part::Lies | Part::Crashes => SEEDS,
        }
    }
}

/// Every bug, and the part that finds it soonest.
const BUGS: &[(Bug, Part)] = &[
    (Bug::AnyJournalInstalled, Part::Lies),
    (Bug::FrameUnchecked, Part::Lies),
    (Bug::WrongMaxBucket, Part::Lies),
    (Bug::SplitDropsRecord, Part::Lies),
    (Bug::NewFramesUnsynced, Part::Crashes),
    (Bug::NewFramesOverOld, Part::Crashes),
    (Bug::FailedJournalKept, Part::Faults),
    (Bug::FailedSyncIgnored, Part::Faults),
    (Bug::ShortWriteIgnored, Part::Faults),
    (Bug::NotPoisoned, Part::Faults),
    (Bug::FreedTooEarly, Part::Faults),
    (Bug::BatchNotUndone, Part::Faults),
    (Bug::JournalUnsynced, Part::Crashes),
    (Bug::NamesUnsynced, Part::Crashes),
    (Bug::InPlaceUnsynced, Part::Crashes),
    (Bug::FoundJournalUnsynced, Part::Crashes),
    (Bug::JournalUnchecked, Part::Crashes),
    (Bug::LogUnsynced, Part::Crashes),
    (Bug::LogNameUnsynced, Part::Crashes),
    (Bug::DoneBeforeSynced, Part::Crashes),
    (Bug::RemovalUnlogged, Part::Crashes),
    (Bug::RecordUnchecked, Part::Crashes),
    (Bug::SameSalt, Part::Crashes),
    (Bug::SegmentOutOfOrder, Part::Beside),
    (Bug::SegmentFreedEarly, Part::Crashes),
    (Bug::ReplayedUnsynced, Part::Crashes),
    (Bug::AppendedTwice, Part::Crashes),
    (Bug::BatchInPart, Part::Crashes),
    (Bug::EndedUnsynced, Part::Beside),
    (Bug::ReplayedKept, Part::Beside),
    (Bug::FrozenNotPreserved, Part::Crashes),
    (Bug::SpilledKept, Part::Crashes),
    (Bug::ThroughUnsynced, Part::Crashes),
    (Bug::ReferredUnitsReused, Part::Crashes),
    (Bug::ReferredUnitsOverwritten, Part::Crashes),
    (Bug::ThroughAfterReplay, Part::Crashes),
    (Bug::ReferenceUnchecked, Part::Crashes),
    (Bug::ThroughCutOff, Part::Beside),
];

fn run(part: Part, seed: u64, done: &mut Done) -> Result<(), String> {
    match part {
        Part::Lies => {
            damage::old_journals(seed, FAST.ops)?;
            damage::writes_go_wrong(seed, FAST.ops, 60).map(drop)
        }
        Part::Faults => fail_everywhere(seed, FAST, done),
        Part::Crashes => crash_everywhere(seed, FAST, done),
        Part::Beside => beside::crash_beside(seed, beside::FAST, done),
    }
}

/// The number of runs until a part found the bug, and what it found; `None` if nothing. A panic of the library at one
/// of its own assertions also finds a bug.
fn finds(bug: Bug, part: Part) -> Option<(u64, String)> {
    let mut done = Done::default();
    let how = (0..part.seeds()).find_map(|seed| {
        match catch_unwind(AssertUnwindSafe(|| with(bug, || run(part, seed, &mut done)))) {
            Ok(found) => found.err(),
            Err(_) => {
                take_turns(false);
                Some(format!("seed {seed}: a panic"))
            }
        }
    });
    how.map(|how| (done.faults + done.opens, how))
}

fn all_are_found(part: Part) {
    let mut missed = Vec::new();
    for &(bug, _) in BUGS.iter().filter(|(_, of)| *of == part) {
        match finds(bug, part) {
            Some((runs, how)) => println!("{bug:?}: {runs} runs: {how}"),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn planted_bugs_are_found_by_a_disk_that_lies() {
    all_are_found(Part::Lies);
}

#[test]
fn planted_bugs_are_found_by_faults() {
    all_are_found(Part::Faults);
}

#[test]
fn planted_bugs_are_found_by_crashes() {
    all_are_found(Part::Crashes);
}

#[test]
fn a_split_that_frees_first_is_found_by_a_hash_function_that_panics() {
    let test = crate::table::tests::a_hash_function_that_panics_in_a_split_leaves_the_table_whole;
    assert!(catch_unwind(|| with(Bug::SplitFreesFirst, test)).is_err());
}

#[test]
fn planted_bugs_are_found_by_crashes_of_threads() {
    all_are_found(Part::Beside);
}

#[test]
#[ignore = "slow: every bug against every part, most of which find nothing"]
fn what_each_part_finds_of_the_planted_bugs() {
    println!("| bug | a disk that lies | faults | crashes | threads |\n|---|---:|---:|---:|---:|");
    let mut missed = Vec::new();
    for &(bug, part) in BUGS {
        let runs = PARTS.map(|part| finds(bug, part).map(|(runs, _)| runs));
        let shown = |runs: Option<u64>| match runs {
            Some(0) => "at once".into(),
            Some(runs) => runs.to_string(),
            None => "-".to_string(),
        };
        println!("| `{bug:?}` | {} |", runs.map(shown).join(" | "));
        if runs[PARTS.iter().position(|&p| p == part).expect("it is one of them")].is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
