//! The test of the tests: the disk omits a call or hides an error, and the suite must find it within three seeds.
//!
//! The suite itself shows that nothing is found without a bug, with the same seeds and depth. Mistakes in the library's
//! own code are patches: `tests/mutants/`.

use super::{Done, FAST, crash_everywhere, fail_everywhere};
use crate::io::simulated::{Bug, with_bug};
use crate::pager::interleave::take_turns;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Requires that `run` finds each bug. A panic of the library at one of its own assertions also finds a bug.
fn all_are_found(bugs: &[Bug], run: fn(u64, &mut Done) -> Result<(), String>) {
    for &bug in bugs {
        let mut done = Done::default();
        let found = (0..3).find_map(|seed| {
            let found = catch_unwind(AssertUnwindSafe(|| with_bug(bug, || run(seed, &mut done))));
            take_turns(false);
            found.unwrap_or_else(|_| Err(format!("seed {seed}: a panic"))).err()
        });
        println!(
            "{bug:?}: {} runs: {}",
            done.faults + done.opens,
            found.unwrap_or_else(|| panic!("{bug:?} is not found"))
        );
    }
}

#[test]
fn planted_bugs_of_the_disk_are_found_by_faults() {
    const BUGS: &[Bug] = &[Bug::FailedSyncIgnored, Bug::ShortWriteIgnored];
    all_are_found(BUGS, |seed, done| fail_everywhere(seed, FAST, done));
}

#[test]
fn planted_bugs_of_the_disk_are_found_by_crashes() {
    const BUGS: &[Bug] =
        &[Bug::BlocksUnsynced, Bug::HeaderUnsynced, Bug::NameUnsynced, Bug::LogUnsynced, Bug::LogNameUnsynced];
    all_are_found(BUGS, |seed, done| crash_everywhere(seed, FAST, done));
}
