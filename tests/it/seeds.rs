//! Inputs of the fuzz targets, as plain tests: any Rust runs them, no fuzzer is needed.
//!
//! `fuzz/seeds/<target>/` has inputs that fuzzing found and that together reach all the code that it reached. An input
//! that once failed is named after the cause. To run one: `make fuzz TARGET=open INPUT=fuzz/seeds/open/...`.
//!
//! What targets do, and what their bytes mean: `fuzz/src/targets/`. How seeds are made: docs/testing.md, "Fuzzing".

use crate::targets::TARGETS;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A longer input counts as hanging. Most take milliseconds.
const LIMIT: Duration = Duration::from_secs(20);
/// Longer seeds were not minimized.
const BYTES_MAX: usize = 4096;

fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(seeds.len() > 10, "{}: {} inputs, too few to mean anything", folder.display(), seeds.len());
    seeds
}

/// Runs all seeds of a target, and names the failing ones.
fn replay(name: &str) {
    let run = TARGETS.iter().find(|(target, _)| *target == name).unwrap().1;
    let seeds = seeds(name);
    let (send, receive) = mpsc::channel();
    let inputs: Vec<Vec<u8>> = seeds.iter().map(|path| fs::read(path).unwrap()).collect();
    std::thread::spawn(move || {
        for input in inputs {
            let result = catch_unwind(AssertUnwindSafe(|| run(&input)));
            let _ = send.send(result.is_ok());
        }
    });
    let mut failed = Vec::new();
    for seed in &seeds {
        match receive.recv_timeout(LIMIT) {
            Ok(true) => {}
            Ok(false) => failed.push(format!("{} panics, as printed above", seed.display())),
            Err(_) => {
                failed.push(format!("{} hangs; those behind it were not tried", seed.display()));
                break;
            }
        }
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
}

#[test]
fn seeds_of_dictionary_give_values_or_errors() {
    replay("dictionary");
}

#[test]
fn seeds_of_open_give_values_or_errors() {
    replay("open");
}

#[test]
fn seeds_of_replay_leave_the_table_whole() {
    replay("replay");
}

#[test]
fn seeds_of_ops_behave_like_a_btreemap() {
    replay("ops");
}

#[test]
fn every_target_has_seeds_and_every_folder_of_seeds_a_target() {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds")).unwrap();
    let mut folders: Vec<_> = folders.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    folders.sort();
    let mut targets: Vec<_> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    // Targets of the server, which this package does not build; only the fuzzer runs their inputs.
    targets.extend(["memcached", "rdb", "resp", "scripts"].map(str::to_owned));
    targets.sort();
    assert_eq!(folders, targets);
}

#[test]
fn seeds_are_small() {
    let sizes = TARGETS.iter().flat_map(|(name, _)| seeds(name)).map(|path| (fs::metadata(&path).unwrap().len(), path));
    let large: Vec<_> = sizes.filter(|(bytes, _)| *bytes > BYTES_MAX as u64).collect();
    assert!(large.is_empty(), "over {BYTES_MAX} bytes; docs/testing.md says how to minimize: {large:?}");
}
