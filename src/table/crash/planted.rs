//! The test of the tests: a bug is planted (`src/planted.rs`), and the suite has to find it within so many seeds.

use super::{Depth, Done, crash_everywhere, damage, fail_everywhere};
use crate::planted::{Bug, tests::with};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds within which each bug has to be found.
const SEEDS: u64 = 2;

/// Every bug.
const BUGS: &[Bug] = &[
    Bug::JournalUnsynced,
    Bug::NamesUnsynced,
    Bug::NewFramesUnsynced,
    Bug::NewFramesOverOld,
    Bug::InPlaceUnsynced,
    Bug::FoundJournalUnsynced,
    Bug::FailedJournalKept,
    Bug::JournalUnchecked,
    Bug::AnyJournalInstalled,
    Bug::FrameUnchecked,
    Bug::FailedSyncIgnored,
    Bug::ShortWriteIgnored,
    Bug::NotPoisoned,
    Bug::WrongMaxBucket,
    Bug::SplitDropsRecord,
    Bug::FreedTooEarly,
    Bug::LogUnsynced,
    Bug::LogNameUnsynced,
    Bug::DoneBeforeSynced,
    Bug::RemovalUnlogged,
    Bug::RecordUnchecked,
    Bug::SameSalt,
    Bug::SegmentOutOfOrder,
    Bug::SegmentFreedEarly,
    Bug::ReplayedUnsynced,
    Bug::AppendedTwice,
    Bug::BatchInPart,
    Bug::BatchNotUndone,
];

const DEPTH: Depth = Depth { ops: 40, again_every: 61, further_every: 1000, fault_every: 5 };

/// Everything there is, for one seed, the quickest first.
fn suite(seed: u64, done: &mut Done) -> Result<(), String> {
    damage::old_journals(seed, DEPTH.ops)?;
    damage::writes_go_wrong(seed, DEPTH.ops, 60)?;
    fail_everywhere(seed, DEPTH, done)?;
    crash_everywhere(seed, DEPTH, done)
}

/// A panic of the library, at one of its own assertions, finds a bug too.
fn finds(bug: Bug, seed: u64, done: &mut Done) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| with(bug, || suite(seed, done)))) {
        Ok(found) => found.err(),
        Err(_) => Some(format!("seed {seed}: a panic")),
    }
}

#[test]
fn planted_bugs_are_found_and_without_one_nothing_is() {
    for seed in 0..SEEDS {
        suite(seed, &mut Done::default()).unwrap_or_else(|e| panic!("no bug planted: {e}"));
    }
    let mut missed = Vec::new();
    for &bug in BUGS {
        let mut done = Done::default();
        let found = (0..SEEDS).find_map(|seed| finds(bug, seed, &mut done).map(|how| (seed + 1, how)));
        match found {
            Some((seeds, how)) => println!("| `{bug:?}` | {seeds} | {} | {how} |", done.faults + done.opens),
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
