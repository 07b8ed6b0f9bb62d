//! Files, errors and checkpoints do not depend on the number of threads.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use super::*;
use crate::dictionary::build::duplicates::Duplicates;
use crate::dictionary::build::plan::MEMORY_BYTES_MIN;
use crate::dictionary::run::FAR_LEN_MIN;
use crate::dictionary::{Build, Dictionary, DictionaryBuilder, Index};
use crate::hash::HashFunction;
use crate::io::simulated::{Fault, Plan as FaultPlan, Simulated, State};
use crate::random::Random;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Many more pairs than fit in all buffers of the minimum memory.
const PAIRS: usize = 20_000;

fn fixed(count: usize) -> Changes {
    let key = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().to_vec();
    (0..count as u64).map(|i| (key(i), Some(i.to_le_bytes()[..4].to_vec()))).collect()
}

/// Pairs of any length, some longer than a buffer, some not held in memory; one key in four is repeated; one in eight
/// is removed.
fn varied(seed: u64, count: usize) -> Changes {
    let mut random = Random::new(&[seed]);
    let mut one = |_| {
        let longest = random.pick(&[0, 3, 20, 20, 200]);
        let odd = random.pick(&[0, 0, 0, 5000, FAR_LEN_MIN]);
        let longest = if random.below(1000) == 0 { odd } else { longest };
        let key = random.below(count * 2).to_string().into_bytes();
        let value = vec![random.next() as u8; random.below(longest + 1).max(odd * usize::from(longest == odd))];
        (key, (!random.percent(12)).then_some(value))
    };
    (0..count).map(&mut one).collect()
}

fn longer((mut key, value): (Vec<u8>, Option<Vec<u8>>)) -> (Vec<u8>, Option<Vec<u8>>) {
    key.extend_from_slice(b"longer");
    (key, value)
}

fn puts(changes: Changes) -> Changes {
    changes.into_iter().map(|(key, value)| (key, Some(value.unwrap_or_default()))).collect()
}

fn builder(threads: usize, memory_bytes: u64) -> DictionaryBuilder {
    DictionaryBuilder::new().threads(threads).memory_bytes(memory_bytes).page_bytes(512)
}

fn push_all(build: &mut Build, pairs: &Changes, from: usize) -> Result<()> {
    let push = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| build.push(key, value.as_deref().expect("a pair"));
    pairs[from..].iter().try_for_each(push)
}

/// Returns the files at `path` and in the directory at `path`, with their contents.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries =
        std::fs::read_dir(path.parent().unwrap()).unwrap().chain(std::fs::read_dir(path).into_iter().flatten());
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files
        .map(|file| (file.strip_prefix(path.parent().unwrap()).unwrap().to_owned(), std::fs::read(&file).unwrap()))
        .collect()
}

/// Returns the files that `work` leaves in a directory of its own.
fn left_by(work: impl Fn(&Path)) -> BTreeMap<PathBuf, Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.spd");
    work(&path);
    files(&path)
}

/// Checks that `work` leaves the same files with one thread and with several.
fn same_with_more_threads(work: impl Fn(usize, &Path)) {
    let one = left_by(|path| work(1, path));
    assert!(!one.is_empty());
    for threads in [2, 4] {
        assert!(left_by(|path| work(threads, path)) == one, "{threads} threads");
    }
}

#[test]
fn any_number_of_threads_builds_the_same_file() {
    for (memory_bytes, index) in [(MEMORY_BYTES_MIN, Index::page()), (4 << 20, Index::chunk())] {
        for seed in 0..3 {
            let pairs = puts(varied(seed, PAIRS));
            for duplicates in [Duplicates::First, Duplicates::Last] {
                same_with_more_threads(|threads, path| {
                    let builder = builder(threads, memory_bytes).index(index).duplicates(duplicates);
                    let mut build = builder.start(path).unwrap();
                    push_all(&mut build, &pairs, 0).unwrap();
                    build.finish().unwrap();
                });
            }
        }
        // Records of one size, then of several.
        for pairs in [fixed(PAIRS), fixed(PAIRS).into_iter().chain(fixed(9).into_iter().map(longer)).collect()] {
            same_with_more_threads(|threads, path| {
                let mut build = builder(threads, memory_bytes).index(index).start(path).unwrap();
                push_all(&mut build, &pairs, 0).unwrap();
                assert_eq!(build.finish().unwrap(), pairs.len() as u64);
            });
        }
    }
}

#[test]
fn any_number_of_threads_makes_the_same_update_and_the_same_shards() {
    let (old, changes) = (puts(varied(1, PAIRS)), varied(2, PAIRS));
    for shards in [0, 3] {
        same_with_more_threads(|threads, path| {
            let builder = builder(threads, 4 * MEMORY_BYTES_MIN).shards(shards).duplicates(Duplicates::Last);
            let mut build = builder.start(path).unwrap();
            push_all(&mut build, &old, 0).unwrap();
            build.finish().unwrap();
            let mut update = Dictionary::update(path, path, &builder).unwrap();
            for (key, value) in &changes {
                match value {
                    Some(value) => update.put(key, value).unwrap(),
                    None => update.remove(key).unwrap(),
                }
            }
            update.finish().unwrap();
        });
    }
}

#[test]
fn a_duplicate_is_named_as_with_one_thread() {
    let mut pairs = fixed(PAIRS);
    pairs[PAIRS - 10].0 = pairs[17].0.clone();
    for memory_bytes in [MEMORY_BYTES_MIN, 1 << 24] {
        // Consecutive numbers, and others.
        let places: [fn(u64) -> u64; 2] = [|i| i + 1, |i| 3 * i + 1000];
        for place in places {
            let message = |threads| {
                let directory = tempfile::tempdir().unwrap();
                let builder = builder(threads, memory_bytes).place_names(|place| format!("pairs.tsv:{place}"));
                let mut build = builder.start(directory.path().join("a.spd")).unwrap();
                for (i, (key, value)) in pairs.iter().enumerate() {
                    build.push_at(key, value.as_ref().unwrap(), place(i as u64)).unwrap();
                }
                build.finish().unwrap_err().to_string()
            };
            let one = message(1);
            assert!(one.starts_with(&format!("pairs.tsv:{}: duplicate", place(PAIRS as u64 - 10))), "{one}");
            assert_eq!([message(2), message(4)], [one.clone(), one]);
        }
    }
}

fn start(plan: Plan, path: &Path) -> Intake {
    Intake::new(&plan, &[path.to_owned()]).unwrap()
}

fn plan(threads: usize) -> Plan {
    Plan { threads, memory_bytes: MEMORY_BYTES_MIN, duplicates: Duplicates::Last, ..Plan::default() }
}

#[test]
fn a_small_build_has_no_thread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.spd");
    for (pairs, has_thread) in [(50, false), (1000, true)] {
        let mut intake = start(plan(4), &path);
        for (i, (key, value)) in fixed(pairs).iter().enumerate() {
            intake.push(0, key, value.as_deref(), i as u64).unwrap();
        }
        assert_eq!(intake.thread.is_some(), has_thread, "{pairs} pairs");
        assert_eq!(intake.finish().unwrap()[0].records(), pairs as u64);
    }
    assert_eq!(start(plan(1), &path).buffer_bytes, 0);
}

#[test]
fn buffers_are_as_large_as_the_memory_allows() {
    let directory = tempfile::tempdir().unwrap();
    for (memory_bytes, expected) in [(MEMORY_BYTES_MIN, 1 << 10), (1 << 20, 16 << 10), (1 << 30, 256 << 10)] {
        let mut intake = start(Plan { memory_bytes, ..plan(2) }, &directory.path().join("a.spd"));
        for (i, (key, value)) in varied(3, PAIRS).iter().enumerate() {
            intake.push(0, key, value.as_deref(), i as u64).unwrap();
            assert!(intake.filling.len() <= expected && intake.filling.bytes.capacity() <= expected);
        }
        assert!(BUFFERS as u64 * expected as u64 <= memory_bytes / 16);
    }
}

#[test]
fn checkpoints_are_those_of_one_thread() {
    let pairs = fixed(PAIRS);
    let resumed = |threads| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.spd");
        let plan = || Plan { resume: Some(5), ..plan(threads) };
        let mut saved = Vec::new();
        for end in [3000, 10_000, PAIRS] {
            let mut intake = start(plan(), &path);
            intake.sorters.as_mut().unwrap().checkpoint_bytes = 50_000;
            let from = intake.resumed_records;
            saved.push(from);
            for (i, (key, value)) in pairs.iter().enumerate().take(end).skip(from as usize) {
                intake.push(0, key, value.as_deref(), i as u64).unwrap();
            }
            // Dropped after some pairs had been handed over.
        }
        saved.push(start(plan(), &path).resumed_records);
        saved
    };
    let one = resumed(1);
    assert!(one[2] > 5000 && one[3] > 15_000, "{one:?}");
    assert_eq!(resumed(2), one);
}

#[test]
fn a_dropped_build_resumes_at_its_last_checkpoint() {
    let pairs = puts(varied(8, PAIRS));
    let whole = |threads| {
        left_by(|path| {
            let builder = builder(threads, 8 * MEMORY_BYTES_MIN).duplicates(Duplicates::Last).resume(3);
            let mut build = builder.start(path).unwrap();
            push_all(&mut build, &pairs[..7000].to_vec(), 0).unwrap();
            build.save().unwrap();
            // These pairs are lost, wherever they are when the build is dropped.
            push_all(&mut build, &pairs[..9000].to_vec(), 7000).unwrap();
            drop(build);
            let mut build = builder.start(path).unwrap();
            assert_eq!(build.resumed_pairs(), 7000);
            push_all(&mut build, &pairs, 7000).unwrap();
            build.finish().unwrap();
        })
    };
    let at_once = left_by(|path| {
        let mut build = builder(1, 8 * MEMORY_BYTES_MIN).duplicates(Duplicates::Last).start(path).unwrap();
        push_all(&mut build, &pairs, 0).unwrap();
        build.finish().unwrap();
    });
    assert!(whole(1) == at_once && whole(2) == at_once);
}

#[test]
fn a_full_disk_is_reported_by_a_later_push_or_the_end() {
    let pairs = fixed(PAIRS);
    for threads in [1, 2] {
        let disk = Arc::new(Simulated::new(State::default()));
        let builder = builder(threads, MEMORY_BYTES_MIN).storage(disk.clone());
        let path = Path::new("/d/a.spd");
        let (mut early, mut late) = (0, 0);
        for at in (0..120).step_by(6) {
            disk.plan(None);
            let mut build = builder.start(path).unwrap();
            disk.plan(Some(FaultPlan { fault: Fault::NoSpace, at: disk.calls() + at, lasting: true }));
            match push_all(&mut build, &pairs, 0) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DiskFull, "{threads} threads: {error}");
                    assert!(error.to_string().contains("a.spd"), "{error}");
                    let again = push_all(&mut build, &pairs, 0).unwrap_err();
                    assert!(matches!(again.kind(), ErrorKind::BuildFailed | ErrorKind::DiskFull), "{again}");
                    build.finish().unwrap_err();
                    early += 1;
                }
                Ok(()) => {
                    assert_eq!(build.finish().unwrap_err().kind(), ErrorKind::DiskFull);
                    late += 1;
                }
            }
            assert_eq!(disk.state().names().count(), 0);
        }
        assert!(early > 5, "{early} by a push, {late} by the end");
        disk.plan(None);
        let mut build = builder.start(path).unwrap();
        push_all(&mut build, &pairs, 0).unwrap();
        assert_eq!(build.finish().unwrap(), PAIRS as u64);
    }
}

#[test]
fn a_push_or_a_save_that_fails_once_ends_the_build() {
    let pairs = fixed(PAIRS);
    for threads in [1, 2] {
        for saves in [false, true] {
            let disk = Arc::new(Simulated::new(State::default()));
            let mut failed = 0;
            for at in 0..60 {
                disk.plan(None);
                let plan = Plan { storage: disk.clone(), resume: saves.then_some(5), ..plan(threads) };
                let mut intake = start(plan, Path::new("/d/a.spd"));
                disk.plan(Some(FaultPlan { fault: Fault::NoSpace, at: disk.calls() + at, lasting: false }));
                let count = if saves { 100 } else { PAIRS };
                let push = |(i, (key, value)): (usize, &(Vec<u8>, Option<Vec<u8>>))| {
                    intake.push(0, key, value.as_deref(), i as u64)
                };
                let pushed = pairs.iter().enumerate().take(count).try_for_each(push);
                if pushed.and_then(|()| intake.save()).is_ok() {
                    continue;
                }
                failed += 1;
                let again = intake.push(0, b"another", Some(b"pair"), PAIRS as u64).unwrap_err();
                assert_eq!(again.kind(), ErrorKind::BuildFailed, "{threads} threads, call {at}: {again}");
                assert_eq!(intake.finish().err().unwrap().kind(), ErrorKind::BuildFailed);
            }
            assert!(failed > 3, "{threads} threads, saves: {saves}: {failed}");
        }
    }
}

#[test]
fn a_pair_that_is_too_long_or_of_another_process_does_not_end_the_build() {
    let directory = tempfile::tempdir().unwrap();
    let mut intake = start(plan(1), &directory.path().join("a.spd"));
    for kind in [ErrorKind::TooLong, ErrorKind::Forked] {
        assert_eq!(intake.fail(Error::new(kind, "no")).kind(), kind);
        intake.push(0, b"key", None, 0).unwrap();
    }
    assert_eq!(intake.fail(Error::new(ErrorKind::Io, "no")).kind(), ErrorKind::Io);
    assert_eq!(intake.push(0, b"key", None, 0).unwrap_err().kind(), ErrorKind::BuildFailed);
}

#[test]
fn a_build_that_its_caller_stops_leaves_nothing() {
    let pairs = fixed(PAIRS);
    for threads in [1, 2] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.spd");
        let builder = builder(threads, MEMORY_BYTES_MIN);
        let mut build = builder.clone().progress(|_| ControlFlow::Break(())).start(&path).unwrap();
        push_all(&mut build, &pairs, 0).unwrap();
        assert_eq!(build.finish().unwrap_err().kind(), ErrorKind::Stopped);
        // A build that is dropped before its end.
        let mut build = builder.start(&path).unwrap();
        push_all(&mut build, &pairs, 0).unwrap();
        drop(build);
        assert_eq!(files(&path).len(), 0);
    }
}

#[test]
fn a_hash_function_that_panics_ends_the_build_with_that_panic() {
    for (call, memory_bytes) in [(5000, MEMORY_BYTES_MIN), (5000, 1 << 30)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.spd");
        let calls = AtomicU64::new(0);
        let hash = HashFunction::user("panics", move |key| {
            assert!(calls.fetch_add(1, Relaxed) != call, "on purpose");
            u64::from_le_bytes(key[..8].try_into().unwrap())
        });
        let mut intake = start(Plan { hash, memory_bytes, ..plan(2) }, &path);
        let push = || {
            let mut all = fixed(PAIRS).into_iter().enumerate();
            all.try_for_each(|(i, (key, value))| intake.push(0, &key, value.as_deref(), i as u64))?;
            intake.save()
        };
        let panic = catch_unwind(AssertUnwindSafe(push)).unwrap_err();
        assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("on purpose")));
        assert_eq!(intake.push(0, b"key", None, 0).unwrap_err().kind(), ErrorKind::BuildFailed);
        assert_eq!(intake.finish().err().unwrap().kind(), ErrorKind::BuildFailed);
        assert_eq!(files(&path).len(), 0);
    }
}

#[test]
fn a_child_of_the_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut intake = start(plan(2), &directory.path().join("a.spd"));
    for (i, (key, value)) in fixed(PAIRS).iter().enumerate() {
        intake.push(0, key, value.as_deref(), i as u64).unwrap();
    }
    assert!(intake.thread.is_some());
    intake.forks = intake.forks.wrapping_add(1);
    assert_eq!(intake.push(0, b"key", None, 0).unwrap_err().kind(), ErrorKind::Forked);
    assert_eq!(intake.save().unwrap_err().kind(), ErrorKind::Forked);
    intake.forks = intake.forks.wrapping_sub(1);
    assert_eq!(intake.finish().unwrap()[0].records(), PAIRS as u64);
}
