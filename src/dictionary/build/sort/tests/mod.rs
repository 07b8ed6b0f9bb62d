//! Compares the sort with a simple one, with so little memory that everything spills; checks what it leaves on disk.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use super::lengths::PutLengths;
use super::*;
use crate::dictionary::build::duplicates::{DuplicateKey, SortError};
use crate::dictionary::build::far::FarSources;
use crate::dictionary::build::merge::SortedBatch;
use crate::dictionary::build::plan::MEMORY_BYTES_MIN;
use crate::dictionary::build::sorters::Sorters;
use crate::dictionary::run::{Run, Spans};
use crate::hash::{HashFunction, HashKind};
use crate::io::simulated::{Crash, Fault, Plan as FaultPlan, Simulated, State, Tally};
use crate::io::{Disk, Storage};
use crate::random::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

type Given = Vec<(Vec<u8>, Option<Vec<u8>>)>;
type Out = Vec<(u64, Vec<u8>, Option<Vec<u8>>)>;

fn options(prefix: &Path, duplicates: Duplicates) -> Plan {
    Plan {
        hash: HashFunction::new(HashKind::DEFAULT, 1),
        memory_bytes: MEMORY_BYTES_MIN,
        threads: 1,
        open_files: 256,
        duplicates,
        temporary: prefix.to_owned(),
        ..Plan::default()
    }
}

/// Returns the expected result: sorted by position and key, one record per key.
fn plain(given: &Given, hash: &HashFunction, duplicates: Duplicates) -> Out {
    let mut all: Vec<_> =
        given.iter().map(|(key, value)| (linear::Position::of(hash.hash(key)).0, key.clone(), value.clone())).collect();
    all.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut kept: Out = Vec::new();
    for record in all {
        match kept.last_mut() {
            Some(last) if last.1 == record.1 && duplicates == Duplicates::Last => *last = record,
            Some(last) if last.1 == record.1 => {}
            _ => kept.push(record),
        }
    }
    kept
}

fn push_all(sorter: &mut Sorter, given: &Given) {
    for (i, (key, value)) in given.iter().enumerate() {
        sorter.push(key, value.as_deref(), i as u64 + 1).unwrap();
    }
}

/// Collects all output. No two runs share a key, nor a position unless `divided`.
fn drain(sorted: &mut Sorted, divided: bool) -> Result<Out, SortError> {
    let mut all: Out = Vec::new();
    while let Some(run) = sorted.next_run()? {
        assert!(!run.is_empty());
        if let Some(last) = all.last() {
            assert!(last.0 < run.positions[0] || divided && (last.0, &last.1[..]) < (run.positions[0], run.key(0)));
        }
        let far = FarSources { batch: sorted.far(), ..FarSources::default() };
        let value = |i| match (run.value(i), run.record(i).far_len) {
            (Some(place), Some(len)) => {
                let mut value = Vec::new();
                let mut take = |bytes: &[u8]| {
                    value.extend_from_slice(bytes);
                    Ok(())
                };
                far.copy(Far::parse(place), len, &mut take).unwrap();
                Some(value)
            }
            (value, _) => value.map(<[u8]>::to_vec),
        };
        let record = |i| (run.positions[i], run.key(i).to_vec(), value(i));
        all.extend((0..run.len()).map(record));
        sorted.recycle(run);
    }
    Ok(all)
}

/// Sorts in every configuration and compares the results.
fn sorts(given: &Given, hash: HashFunction, duplicates: Duplicates, divided: bool) {
    let expected = plain(given, &hash, duplicates);
    for (memory_bytes, threads) in
        [(MEMORY_BYTES_MIN, 1), (MEMORY_BYTES_MIN, 2), (1 << 20, 1), (1 << 20, 3), (1 << 30, 2)]
    {
        let directory = tempfile::tempdir().unwrap();
        let options = options(&directory.path().join("o.spd"), duplicates);
        let options = Plan { hash: hash.clone(), memory_bytes, threads, ..options };
        let mut sorter = Sorter::new(options).unwrap();
        push_all(&mut sorter, given);
        let mut sorted = sorter.finish().unwrap();
        assert_eq!(sorted.records(), given.len() as u64);
        let bytes: usize = given.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum();
        if memory_bytes == 1 << 30 {
            assert_eq!(sorted.temporary_bytes(), 0);
        } else if memory_bytes == MEMORY_BYTES_MIN && bytes > 200_000 {
            assert!(sorted.temporary_bytes() > 100_000, "{}", sorted.temporary_bytes());
        }
        let all = drain(&mut sorted, divided).unwrap();
        assert_eq!(all.len(), expected.len(), "memory {memory_bytes}, threads {threads}");
        assert!(all == expected, "memory {memory_bytes}, threads {threads}");
        sorted.done().unwrap();
        assert_eq!(names(directory.path()), [""; 0]);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn xxh3() -> HashFunction {
    HashFunction::new(HashKind::DEFAULT, 1)
}

fn fixed(count: u64) -> Given {
    let key = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().to_vec();
    (0..count).map(|i| (key(i), Some(i.to_le_bytes().to_vec()))).collect()
}

/// Returns records of any length, some long; one key in four is repeated; one record in eight is a deletion.
fn varied(seed: u64, count: usize) -> Given {
    let mut random = Random::new(&[seed]);
    let mut record = || {
        let longest = random.pick(&[0, 3, 20, 20, 200]);
        let mut key = random.below(count * 2).to_string().into_bytes();
        key.truncate(random.pick(&[1, 5, 20, 20]));
        key.resize(key.len() + random.below(longest + 1) / 4, b'k');
        let value = vec![random.next() as u8; random.below(longest + 1)];
        (key, (!random.percent(12)).then_some(value))
    };
    (0..count).map(|_| record()).collect()
}

#[test]
fn fixed_records_come_out_in_hash_order() {
    for count in [0, 1, 2, 1000, 60_000] {
        sorts(&fixed(count), xxh3(), Duplicates::Error, false);
    }
}

#[test]
fn records_of_any_lengths_come_out_in_hash_order() {
    for seed in 0..4 {
        for duplicates in [Duplicates::First, Duplicates::Last] {
            sorts(&varied(seed, 20_000), xxh3(), duplicates, false);
        }
    }
}

/// Returns records that stay in their blocks; one key in four is repeated.
fn long(count: usize) -> Given {
    let mut random = Random::new(&[9]);
    let mut record = || {
        let value = vec![random.next() as u8; 300 + random.below(900)];
        (random.below(count * 2).to_string().into_bytes(), (!random.percent(12)).then_some(value))
    };
    (0..count).map(|_| record()).collect()
}

#[test]
fn long_records_come_out_in_hash_order_and_stay_where_they_were() {
    for duplicates in [Duplicates::First, Duplicates::Last] {
        sorts(&long(6000), xxh3(), duplicates, false);
    }
    let one_size: Given = fixed(3000).into_iter().map(|(key, value)| (key, value.map(|v| v.repeat(50)))).collect();
    sorts(&one_size, xxh3(), Duplicates::Error, false);
    let mut sorter = Sorter::new(options(Path::new("/nowhere/o"), Duplicates::Last)).unwrap();
    push_all(&mut sorter, &one_size[..70].to_vec());
    let mut sorted = sorter.finish().unwrap();
    let run = sorted.next_run().unwrap().unwrap();
    let Spans::Varied(spans) = &run.spans else { panic!("{:?}", run.spans) };
    assert!(spans.len() > 5 && !spans.is_sorted_by_key(|span| span.start), "{spans:?}");
    assert!(run.layout() == crate::dictionary::format::layout::Layout::fixed(8, 400));
}

#[test]
fn what_was_taken_first_is_first_in_memory_and_in_files() {
    // Each key three times, so that it occurs before and after memory is full.
    let values = |n: u8| fixed(20_000).into_iter().map(move |(key, _)| (key, Some(vec![n; 20])));
    let given: Given = values(1).chain(values(2)).chain(values(3)).collect();
    for duplicates in [Duplicates::First, Duplicates::Last] {
        let expected = plain(&given, &xxh3(), duplicates);
        for (threads, within) in [(1, 1 << 20), (2, 1 << 20), (1, 500 << 10), (2, 200 << 10), (2, 1 << 15)] {
            let directory = tempfile::tempdir().unwrap();
            let options = options(&directory.path().join("o.spd"), duplicates);
            let mut sorter = Sorter::new(Plan { memory_bytes: 1 << 20, threads, ..options }).unwrap();
            push_all(&mut sorter, &given);
            assert!(sorter.is_spilled() && sorter.held > 500 << 10, "{} bytes", sorter.held);
            let mut sorted = sorter.finish_within(within).unwrap();
            let spilled = sorted.temporary_bytes();
            assert_eq!(spilled < 1_300_000, within >= 1 << 20, "{spilled} bytes of 1.7 MB");
            assert!(drain(&mut sorted, false).unwrap() == expected, "{duplicates:?}, within {within}");
        }
    }
}

#[test]
fn lengths_may_change_late() {
    let mut given = fixed(30_000);
    given.extend(varied(7, 10_000));
    sorts(&given, xxh3(), Duplicates::Last, false);
}

#[test]
fn empty_keys_and_values_are_records() {
    let given: Given = vec![(vec![], Some(vec![])), (vec![1], Some(vec![])), (vec![2], None), (vec![3], Some(vec![1]))];
    sorts(&given, xxh3(), Duplicates::Error, false);
    sorts(&vec![(vec![], Some(vec![])); 50_000], xxh3(), Duplicates::First, false);
}

#[test]
fn keys_of_one_hash_are_sorted_by_key() {
    let one = HashFunction::user("one", |_| 77);
    let two = HashFunction::user("two", |key| u64::from(key.len() % 2 == 0) << 40);
    for hash in [one, two] {
        sorts(&varied(3, 20_000), hash.clone(), Duplicates::Last, true);
        sorts(&varied(3, 20_000), hash.clone(), Duplicates::First, true);
        sorts(&fixed(20_000), hash, Duplicates::Error, true);
    }
}

#[test]
fn hashes_of_few_bits_are_sorted() {
    let hash = HashFunction::user("few", |key| u64::from(key[0] & 15) << 30 | u64::from(key[1] & 3));
    sorts(&fixed(60_000), hash, Duplicates::Error, true);
    sorts(&fixed(60_000), HashFunction::new(HashKind::Crc32c, 0), Duplicates::Error, false);
}

#[test]
fn a_record_may_be_larger_than_memory() {
    let mut given = fixed(5000);
    given.push((vec![7; 300_000], Some(vec![8; 3_000_000])));
    given.extend((0..9).map(|i| (vec![i; 100_000], Some(vec![i; 200_000]))));
    sorts(&given, xxh3(), Duplicates::Error, false);
}

#[test]
fn a_duplicate_is_named_with_both_places() {
    let directory = tempfile::tempdir().unwrap();
    for hash in [xxh3(), HashFunction::user("one", |_| 0)] {
        for (first, again, threads, memory_bytes) in
            [(0, 1, 1, 1 << 30), (17, 29_000, 1, 0), (17, 29_000, 2, 0), (29_998, 29_999, 2, 1 << 20)]
        {
            let mut given = fixed(30_000);
            given[again].0 = given[first].0.clone();
            let options = options(&directory.path().join("o"), Duplicates::Error);
            let options = Plan { hash: hash.clone(), threads, memory_bytes, ..options };
            let mut sorter = Sorter::new(options).unwrap();
            for (i, (key, value)) in given.iter().enumerate() {
                sorter.push(key, value.as_deref(), 1000 + 300 * i as u64).unwrap();
            }
            let mut sorted = sorter.finish().unwrap();
            let Err(SortError::Duplicate(found)) = drain(&mut sorted, true) else { panic!("it was let through") };
            let place = |i: usize| 1000 + 300 * i as u64;
            let expected = DuplicateKey { key: given[first].0.clone(), first_place: place(first), place: place(again) };
            assert_eq!(found, expected);
            assert_eq!(Error::from(sorted.next_run().unwrap_err()).kind(), ErrorKind::BuildFailed);
            let error = Error::from(SortError::Duplicate(found));
            assert_eq!(error.kind(), ErrorKind::Duplicate);
        }
    }
}

#[test]
fn lengths_are_fixed_only_if_all_are_the_same() {
    let lengths = |given: &Given| {
        let mut sorter = Sorter::new(options(Path::new("/nowhere/o"), Duplicates::Last)).unwrap();
        push_all(&mut sorter, given);
        sorter.finish().unwrap().put_lengths()
    };
    let record = |k: usize, v: usize| (vec![1; k], Some(vec![2; v]));
    assert_eq!(lengths(&vec![]), PutLengths::None);
    assert_eq!(lengths(&vec![record(3, 4), record(3, 4)]), PutLengths::One(3, 4));
    assert_eq!(lengths(&vec![record(0, 0)]), PutLengths::One(0, 0));
    assert_eq!(lengths(&vec![record(3, 4), record(4, 3)]), PutLengths::Several);
    // Deletions are not stored.
    assert_eq!(lengths(&vec![record(3, 0), (vec![1; 3], None)]), PutLengths::One(3, 0));
    assert_eq!(lengths(&vec![(vec![1; 5], None), record(3, 0)]), PutLengths::One(3, 0));
    assert_eq!(lengths(&vec![(vec![1; 5], None)]), PutLengths::None);
}

#[test]
fn a_run_of_fixed_lengths_says_so() {
    let mut sorter = Sorter::new(options(Path::new("/nowhere/o"), Duplicates::Last)).unwrap();
    push_all(&mut sorter, &fixed(100));
    let mut sorted = sorter.finish().unwrap();
    let run = sorted.next_run().unwrap().unwrap();
    assert!(matches!(run.spans, Spans::Fixed { key_len: 8, value_len: 8 }));
    assert_eq!(run.bytes.len(), 16 * run.len());
}

#[test]
fn a_hash_function_that_panics_ends_in_that_panic() {
    for threads in [1, 2] {
        for memory_bytes in [MEMORY_BYTES_MIN, 1 << 20] {
            let directory = tempfile::tempdir().unwrap();
            let prefix = directory.path().join("o");
            let calls = std::sync::atomic::AtomicU64::new(0);
            let inner = xxh3();
            let hash = HashFunction::user("panics", move |key| {
                let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                assert!(call != 45_000, "on purpose");
                inner.hash(key)
            });
            let options = Plan { hash, threads, memory_bytes, ..options(&prefix, Duplicates::Last) };
            let mut sorter = Sorter::new(options).unwrap();
            push_all(&mut sorter, &fixed(40_000));
            let mut sorted = sorter.finish().unwrap();
            let panic = catch_unwind(AssertUnwindSafe(|| drain(&mut sorted, false))).unwrap_err();
            assert!(panic.downcast_ref::<&str>().is_some_and(|text| text.contains("on purpose")));
            assert_eq!(Error::from(sorted.next_run().unwrap_err()).kind(), ErrorKind::BuildFailed);
            drop(sorted);
            assert_eq!(names(directory.path()), [""; 0]);
        }
    }
}

#[test]
fn a_hash_function_that_changes_its_mind_is_an_error() {
    let calls = std::sync::atomic::AtomicU64::new(0);
    let hash = HashFunction::user("unsteady", move |_| {
        calls.fetch_add(0x9E37_79B9_7F4A_7C15, std::sync::atomic::Ordering::Relaxed)
    });
    let options = Plan { hash, ..options(Path::new("/nowhere/o"), Duplicates::Last) };
    let mut sorter = Sorter::new(options).unwrap();
    push_all(&mut sorter, &fixed(1000));
    let mut sorted = sorter.finish().unwrap();
    let error = Error::from(drain(&mut sorted, false).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::WrongHash);
}

/// Starts a sort on `storage` that can be resumed, with a checkpoint every 50 kB.
fn resumable(storage: Arc<dyn Storage>, prefix: &Path, id: u64) -> Result<Sorters> {
    let options = Plan { storage, resume: Some(id), ..options(prefix, Duplicates::Error) };
    let mut sorters = Sorters::new(vec![options])?;
    sorters.checkpoint_bytes = 50_000;
    Ok(sorters)
}

/// Finishes the only sort.
fn finish(sorters: Sorters) -> Result<Sorted> {
    sorters.finish()?.pop().unwrap().finish()
}

/// Pushes the records that are not saved yet, up to `end`.
fn push_rest(sorters: &mut Sorters, given: &Given, end: usize) -> Result<()> {
    let from = sorters.resumed_records() as usize;
    for (i, (key, value)) in given.iter().enumerate().take(end).skip(from) {
        sorters.push(0, key, value.as_deref(), i as u64)?;
    }
    Ok(())
}

#[test]
fn a_dropped_sort_resumes_at_its_last_checkpoint() {
    let given = fixed(30_000);
    let expected = plain(&given, &xxh3(), Duplicates::Error);
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("o");
    let mut resumed = Vec::new();
    for end in [0, 1000, 8000, 8001, 20_000, 30_000] {
        let mut sorter = resumable(Arc::new(Disk), &prefix, 5).unwrap();
        resumed.push(sorter.resumed_records());
        push_rest(&mut sorter, &given, end).unwrap();
    }
    assert_eq!(resumed[..3], [0, 0, 0]);
    assert!(resumed[3] > 2000 && resumed[5] > 10_000 && resumed.is_sorted(), "{resumed:?}");
    let mut sorter = resumable(Arc::new(Disk), &prefix, 5).unwrap();
    assert!(!sorter.resumed_all());
    push_rest(&mut sorter, &given, given.len()).unwrap();
    let mut sorted = finish(sorter).unwrap();
    assert!(drain(&mut sorted, false).unwrap() == expected);
    drop(sorted);
    let sorter = resumable(Arc::new(Disk), &prefix, 5).unwrap();
    assert!(sorter.resumed_all() && sorter.resumed_records() == 30_000);
    let mut sorted = finish(sorter).unwrap();
    assert!(drain(&mut sorted, false).unwrap() == expected && sorted.put_lengths() == PutLengths::One(8, 8));
    sorted.done().unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
}

/// Leaves a half-done sort behind.
fn leave_half(prefix: &Path) {
    push_rest(&mut resumable(Arc::new(Disk), prefix, 5).unwrap(), &fixed(30_000), 20_000).unwrap();
}

#[test]
fn a_saved_sort_resumes_at_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("a.spd");
    let options = || Plan { resume: Some(5), memory_bytes: 1 << 20, ..options(&prefix, Duplicates::Error) };
    // So few records that normally nothing would go to disk.
    let mut sorter = Sorters::new(vec![options()]).unwrap();
    (0..100u64).for_each(|n| sorter.push(0, &n.to_le_bytes(), Some(b"value"), n).unwrap());
    // A value that goes to the separate file.
    sorter.push(0, b"long", Some(&vec![7; FAR_LEN_MIN]), 100).unwrap();
    sorter.save().unwrap();
    drop(sorter);
    let mut sorter = Sorters::new(vec![options()]).unwrap();
    assert_eq!(sorter.resumed_records(), 101);
    assert!(!sorter.resumed_all());
    (100..200u64).for_each(|n| sorter.push(0, &n.to_le_bytes(), Some(b"value"), n).unwrap());
    let mut sorted = finish(sorter).unwrap();
    let all = drain(&mut sorted, false).unwrap();
    assert_eq!(all.len(), 201);
    assert!(all.iter().any(|(_, key, value)| key == b"long" && *value == Some(vec![7; FAR_LEN_MIN])));
    sorted.done().unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn values_that_are_not_held_in_memory_are_saved_when_a_checkpoint_is_due() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("a.spd");
    // So much memory that no block goes to disk by itself.
    let start = || {
        let options = options(&prefix, Duplicates::Error);
        let mut sorters = Sorters::new(vec![Plan { resume: Some(5), memory_bytes: 1 << 24, ..options }]).unwrap();
        sorters.checkpoint_bytes = 4 * FAR_LEN_MIN as u64;
        sorters
    };
    let value = |n: u64| vec![n as u8; FAR_LEN_MIN];
    let push = |sorters: &mut Sorters| {
        (sorters.resumed_records()..10).for_each(|n| sorters.push(0, &n.to_le_bytes(), Some(&value(n)), n).unwrap());
    };
    push(&mut start());
    let mut sorters = start();
    assert_eq!(sorters.resumed_records(), 8);
    push(&mut sorters);
    // The end is saved, too.
    drop(sorters.finish().unwrap());
    let sorters = start();
    assert!(sorters.resumed_all());
    let mut sorted = finish(sorters).unwrap();
    let all = drain(&mut sorted, false).unwrap();
    assert_eq!(all.len(), 10);
    for (_, key, found) in all {
        assert_eq!(found, Some(value(u64::from_le_bytes(key.try_into().unwrap()))));
    }
    sorted.done().unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_resume_that_fails_keeps_its_checkpoints() {
    let (given, prefix) = (fixed(20_000), Path::new("/d/o"));
    let disk = Arc::new(Simulated::new(State::default()));
    push_rest(&mut resumable(disk.clone(), prefix, 5).unwrap(), &given, given.len()).unwrap();
    let before = disk.calls();
    let resumed = resumable(disk.clone(), prefix, 5).unwrap().resumed_records();
    let calls = disk.calls() - before;
    assert!(resumed > 10_000 && calls > 10, "{resumed} records, {calls} calls");
    let mut failed = 0;
    for at in 0..calls {
        disk.plan(Some(FaultPlan { fault: Fault::Io, at: disk.calls() + at, lasting: false }));
        failed += u32::from(resumable(disk.clone(), prefix, 5).is_err());
        disk.plan(None);
        let again = resumable(disk.clone(), prefix, 5).unwrap();
        assert_eq!(again.resumed_records(), resumed, "call {at}");
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_sort_of_another_identity_starts_anew() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("o");
    leave_half(&prefix);
    assert!(names(directory.path()).len() > 5);
    let sorter = resumable(Arc::new(Disk), &prefix, 6).unwrap();
    assert_eq!((sorter.resumed_records(), names(directory.path())), (0, vec!["o-sort".to_owned()]));
    assert!(sorter.discarded_records() > 10_000, "{}", sorter.discarded_records());
    drop(sorter);
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_damaged_manifest_or_a_short_file_starts_anew() {
    let damage: [fn(&Path); 3] = [
        |directory| {
            let mut bytes = std::fs::read(directory.join("o-sort")).unwrap();
            bytes.chunks_mut(saved::SLOT_BYTES).for_each(|slot| slot[20] ^= 1);
            std::fs::write(directory.join("o-sort"), bytes).unwrap();
        },
        |directory| std::fs::write(directory.join("o-sort-003"), [1]).unwrap(),
        |directory| std::fs::remove_file(directory.join("o-sort-003")).unwrap(),
    ];
    for damage in damage {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("o");
        leave_half(&prefix);
        damage(directory.path());
        let mut sorter = resumable(Arc::new(Disk), &prefix, 5).unwrap();
        assert_eq!(sorter.resumed_records(), 0);
        push_rest(&mut sorter, &fixed(30_000), 30_000).unwrap();
        let mut sorted = finish(sorter).unwrap();
        assert_eq!(drain(&mut sorted, false).unwrap().len(), 30_000);
    }
}

#[test]
fn a_damaged_block_is_an_error_that_names_the_file() {
    for (at, cut) in [(60, false), (20, false), (0, false), (5000, false), (60, true)] {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("o");
        let mut sorter = resumable(Arc::new(Disk), &prefix, 5).unwrap();
        push_rest(&mut sorter, &fixed(30_000), 30_000).unwrap();
        let mut sorted = finish(sorter).unwrap();
        let file = directory.path().join("o-sort-003");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[at] ^= 4;
        if cut {
            bytes.truncate(at);
        }
        std::fs::write(&file, bytes).unwrap();
        let error = Error::from(drain(&mut sorted, false).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("o-sort-003"), "{error}");
    }
}

#[test]
fn a_running_sort_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("o");
    let mut sorter = resumable(Arc::new(Disk), &prefix, 5).unwrap();
    push_rest(&mut sorter, &fixed(30_000), 20_000).unwrap();
    let before = names(directory.path());
    assert_eq!(resumable(Arc::new(Disk), &prefix, 5).err().unwrap().kind(), ErrorKind::Locked);
    drop(Sorter::new(options(&prefix, Duplicates::Last)).unwrap());
    assert_eq!(names(directory.path()), before);
    drop(sorter);
    drop(Sorter::new(options(&prefix, Duplicates::Last)).unwrap());
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn a_file_that_is_not_a_manifest_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let prefix = directory.path().join("o");
    std::fs::write(directory.path().join("o-sort"), "a diary").unwrap();
    assert_eq!(resumable(Arc::new(Disk), &prefix, 5).err().unwrap().kind(), ErrorKind::InvalidArgument);
    drop(Sorter::new(options(&prefix, Duplicates::Last)).unwrap());
    assert_eq!(std::fs::read(directory.path().join("o-sort")).unwrap(), b"a diary");
}

#[test]
fn with_one_thread_one_run_is_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory.path().join("o"), Duplicates::Last);
    let mut sorter = Sorter::new(Plan { memory_bytes: 1 << 20, ..options }).unwrap();
    push_all(&mut sorter, &fixed(60_000));
    let mut sorted = sorter.finish().unwrap();
    let (mut run, mut runs) = (Run::default(), 0);
    let mut batch = SortedBatch::new(&mut sorted, None);
    while batch.next(&mut run).unwrap() {
        assert_eq!(batch.sorted.kept_runs(), 0, "one is kept while another is given out");
        runs += 1;
    }
    assert!(runs > 4, "{runs}");
}

#[test]
fn a_merge_begins_when_no_buffer_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    // Half of the keys at one position, after the first partitions.
    let inner = xxh3();
    let hash = HashFunction::user("half", move |key| if key[0] & 1 == 0 { inner.hash(key) } else { u64::MAX });
    let options = options(&directory.path().join("o"), Duplicates::Last);
    let mut sorter = Sorter::new(Plan { hash, memory_bytes: 1 << 20, ..options }).unwrap();
    push_all(&mut sorter, &fixed(60_000));
    let mut sorted = sorter.finish().unwrap();
    let (mut merged, mut kept) = (0, 0);
    while let Some(run) = sorted.next_run().unwrap() {
        // The output of a merge is not counted, as it has all the memory.
        if run.cost == 0 {
            assert_eq!(sorted.kept_bytes(), 0);
            merged += 1;
        } else {
            kept += sorted.kept_bytes();
        }
        sorted.recycle(run);
    }
    assert!(merged > 0 && kept > 0, "{merged} merged runs, {kept} bytes kept");
}

#[test]
fn a_sort_that_saved_nothing_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let hash = HashFunction::user("one", |_| 0);
    let options = options(&directory.path().join("o"), Duplicates::Last);
    let mut sorter = Sorter::new(Plan { hash, resume: Some(0), ..options }).unwrap();
    // Few enough to stay in memory, but too many at one position to be sorted there.
    push_all(&mut sorter, &fixed(2000));
    let mut sorted = sorter.finish().unwrap();
    sorted.next_run().unwrap();
    assert!(sorted.temporary_bytes() > 0);
    drop(sorted);
    assert_eq!(names(directory.path()), [""; 0]);
}

#[test]
fn nothing_has_a_name_without_resume() {
    let directory = tempfile::tempdir().unwrap();
    let mut sorter = Sorter::new(options(&directory.path().join("o"), Duplicates::Last)).unwrap();
    push_all(&mut sorter, &fixed(30_000));
    assert!(sorter.writer.is_some());
    assert_eq!(names(directory.path()), [""; 0]);
}

/// Runs a whole sort on a simulated disk.
fn sort_on(disk: &Arc<Simulated>, given: &Given, resume: bool, keys: fn(u64) -> HashFunction) -> Result<usize, Error> {
    let options = options(Path::new("/d/o"), Duplicates::Error);
    let plan = Plan { storage: disk.clone(), resume: resume.then_some(0), hash: keys(0), ..options };
    let mut sorter = Sorters::new(vec![plan])?;
    sorter.checkpoint_bytes = 50_000;
    push_rest(&mut sorter, given, given.len())?;
    let mut sorted = finish(sorter)?;
    let all = drain(&mut sorted, true)?;
    assert!(all == plain(given, &keys(0), Duplicates::Error));
    sorted.done()?;
    Ok(all.len())
}

#[test]
fn a_failing_call_is_an_error_and_the_next_sort_is_right() {
    let given = fixed(9000);
    let hashes: [fn(u64) -> HashFunction; 2] = [|_| xxh3(), |_| HashFunction::user("one", |_| 0)];
    for resume in [false, true] {
        for keys in hashes {
            let whole = Arc::new(Simulated::new(State::default()));
            sort_on(&whole, &given, resume, keys).unwrap();
            let calls = whole.calls();
            let mut failed = 0;
            for at in (0..calls).step_by(calls as usize / 25) {
                for fault in [Fault::Io, Fault::NoSpace, Fault::Short] {
                    let disk = Arc::new(Simulated::new(State::default()));
                    disk.plan(Some(FaultPlan { fault, at, lasting: false }));
                    if let Err(e) = sort_on(&disk, &given, resume, keys) {
                        let expected = if fault == Fault::NoSpace { ErrorKind::DiskFull } else { ErrorKind::Io };
                        assert_eq!(e.kind(), expected, "call {at}: {e}");
                        failed += 1;
                    }
                    disk.plan(None);
                    sort_on(&disk, &given, resume, keys).unwrap();
                }
            }
            assert!(failed > 20, "{failed}");
        }
    }
}

#[test]
fn after_any_crash_a_resumed_sort_is_right() {
    let given = fixed(9000);
    let whole = Arc::new(Simulated::new(State::default()));
    sort_on(&whole, &given, true, |_| xxh3()).unwrap();
    let calls = whole.calls();
    let mut resumed = 0;
    for at in (0..calls).step_by(calls as usize / 25) {
        let disk = Arc::new(Simulated::new(State::default()));
        disk.plan(Some(FaultPlan { fault: Fault::Dead, at, lasting: true }));
        let _ = sort_on(&disk, &given, true, |_| xxh3());
        for crash in Crash::ALL {
            let state = disk.state().survivors(crash, &mut Random::new(&[at]), &mut Tally::default());
            let disk = Arc::new(Simulated::new(state));
            let options = options(Path::new("/d/o"), Duplicates::Error);
            let sorter = Sorters::new(vec![Plan { storage: disk.clone(), resume: Some(0), ..options }]).unwrap();
            resumed += u64::from(sorter.resumed_records() > 0);
            drop(sorter);
            sort_on(&disk, &given, true, |_| xxh3()).unwrap_or_else(|e| panic!("call {at}, {crash:?}: {e}"));
        }
    }
    assert!(resumed > 20, "{resumed}");
}

/// Sorts records in a separate process and compares its peak memory with the limit.
#[test]
#[ignore = "started by memory_stays_bounded, with the number of records and the bytes of a value"]
fn sort_in_a_process_of_its_own() {
    let Ok(case) = std::env::var("SORT_CASE") else { return };
    let (count, value_bytes) = case.split_once(' ').unwrap();
    let (count, value) = (count.parse().unwrap(), vec![1; value_bytes.parse().unwrap()]);
    let directory = tempfile::tempdir().unwrap();
    let memory_bytes = 256 << 20;
    let options = Plan { memory_bytes, threads: 2, ..options(&directory.path().join("o"), Duplicates::Error) };
    let mut sorter = Sorter::new(options).unwrap();
    for i in 0..count {
        sorter.push(&(i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes(), Some(&value), i as u64).unwrap();
    }
    let mut sorted = sorter.finish().unwrap();
    let (mut seen, mut last) = (0, 0);
    let (mut runs, mut run) = (SortedBatch::new(&mut sorted, None), Run::default());
    while runs.next(&mut run).unwrap() {
        assert!(run.positions[0] > last && run.positions.is_sorted());
        (seen, last) = (seen + run.len(), run.positions[run.len() - 1]);
    }
    assert_eq!(seen, count);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let peak_bytes = peak.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10;
    assert!(peak_bytes < memory_bytes + (24 << 20), "{peak_bytes} bytes of memory");
}

#[test]
#[ignore = "slow: 50 million small records, 2 GB of large ones"]
fn memory_stays_bounded() {
    for case in ["50000000 8", "2000000 1092"] {
        let mut sort = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "dictionary::build::sort::tests::sort_in_a_process_of_its_own";
        let done = sort.args(["--exact", "--ignored", name]).env("SORT_CASE", case).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{case}: {said}");
    }
}

/// Creates the sorts of a build of three files on `storage`, with a checkpoint every 60 kB.
fn three(storage: Arc<dyn Storage>) -> Result<Sorters> {
    let plan = |name: &str| {
        let options = options(&Path::new("/d").join(name), Duplicates::Last);
        Plan { storage: Arc::clone(&storage), resume: Some(0), ..options }
    };
    let mut sorters = Sorters::new(["a", "b", "c"].map(plan).into())?;
    sorters.checkpoint_bytes = 60_000;
    Ok(sorters)
}

#[test]
fn sorts_whose_checkpoints_differ_continue_from_one_that_all_have() {
    let given = fixed(20_000);
    // Two of the sorts have many records, the third has none.
    let push = |sorters: &mut Sorters| -> Result<()> {
        let from = sorters.resumed_records() as usize;
        let push = |(i, (key, value)): (usize, &(Vec<u8>, Option<Vec<u8>>))| {
            sorters.push(i % 2, key, value.as_deref(), i as u64)
        };
        given.iter().enumerate().skip(from).try_for_each(push)
    };
    let whole = Arc::new(Simulated::new(State::default()));
    let mut sorters = three(whole.clone()).unwrap();
    push(&mut sorters).unwrap();
    drop(sorters.finish().unwrap());
    let calls = whole.calls();
    let mut resumed = std::collections::BTreeSet::new();
    for at in (0..calls).step_by(calls as usize / 60) {
        let disk = Arc::new(Simulated::new(State::default()));
        disk.plan(Some(FaultPlan { fault: Fault::Dead, at, lasting: true }));
        let died = three(disk.clone()).and_then(|mut sorters| push(&mut sorters).and_then(|()| sorters.finish()));
        drop(died);
        let state = disk.state().survivors(Crash::LoseUnsynced, &mut Random::new(&[at]), &mut Tally::default());
        let disk = Arc::new(Simulated::new(state));
        // Twice, as the first run may return to an earlier checkpoint and end before its next one.
        let first = three(disk.clone()).unwrap().resumed_records();
        let mut sorters = three(disk.clone()).unwrap();
        assert_eq!(sorters.resumed_records(), first, "call {at}");
        resumed.insert(first);
        push(&mut sorters).unwrap();
        let mut all: Vec<Out> = Vec::new();
        for sorter in sorters.finish().unwrap() {
            let mut sorted = sorter.finish().unwrap();
            all.push(drain(&mut sorted, false).unwrap());
            sorted.done().unwrap();
        }
        for (part, out) in all.iter().enumerate() {
            let of_part = given.iter().enumerate().filter(|(i, _)| i % 2 == part);
            let of_part: Given = of_part.map(|(_, record)| record.clone()).collect();
            assert!(*out == plain(&of_part, &xxh3(), Duplicates::Last), "call {at}, part {part}");
        }
        assert_eq!(disk.state().names().count(), 0, "call {at}");
    }
    assert!(resumed.len() >= 3, "{resumed:?}");
}
