//! Values whose frames are the file's own pages, on a real disk: the simulated one has no mappings.

use crate::error::ErrorKind;
use crate::io::{Disk, Mode, Storage};
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::*};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(path: &Path) -> Table {
    TableOptions::new().page_bytes(512).durability(Durability::Os).open(path).unwrap()
}

fn value(random: &mut Random, len: usize) -> Vec<u8> {
    std::iter::repeat_with(|| random.next() as u8).take(len).collect()
}

fn frames_in_windows(table: &Table) -> [usize; 2] {
    table.pager.pool().frames_in_windows()
}

/// Whether this system maps files into memory; prints a message if not.
fn has_windows(table: &Table) -> bool {
    let has = frames_in_windows(table).iter().sum::<usize>() > 0;
    if !has {
        println!("SKIPPED: no windows here");
    }
    has
}

/// A copy of the table's files, as a kill of the process would leave them.
fn killed(path: &Path, number: usize) -> PathBuf {
    let directory = path.with_file_name(format!("copy{number}"));
    std::fs::create_dir(&directory).unwrap();
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
        }
    }
    directory.join(path.file_name().unwrap())
}

fn check(table: &Table, model: &Model) {
    assert_eq!(table.len(), model.len() as u64);
    for (key, value) in model {
        assert!(table.get(key).unwrap().as_ref() == Some(value), "key {key:?}");
    }
    let report = table.verify().unwrap();
    assert!(report.is_empty(), "{report:?}");
}

#[test]
fn whatever_is_done_with_values_in_windows_they_survive_a_kill_and_a_close() {
    // Over all seeds: when a window is sealed depends on the checkpoints of another thread.
    let mut most = [0; 2];
    for seed in 0..4 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let (mut random, mut model) = (Random::new(&[seed]), Model::new());
        let mut table = open(&path);
        let mut copies = 0;
        for step in 0..3000 {
            let key = vec![b'k', random.below(40) as u8, random.below(1 + step / 100) as u8];
            let len = [0, 100, 700, 2500, 5000, 30_000][random.below(6)];
            match random.below(200) {
                0..3 => table.checkpoint().unwrap(),
                3 => {
                    table.close().unwrap();
                    table = open(&path);
                }
                4 if step % 3 == 0 => table.compact().unwrap(),
                5 => table.sync().unwrap(),
                6..9 if copies < 8 => {
                    let copy = killed(&path, copies);
                    check(&open(&copy), &model);
                    copies += 1;
                }
                9..50 => assert_eq!(table.remove(&key).unwrap(), model.remove(&key).is_some()),
                50..70 => {
                    let tail = value(&mut random, len);
                    table.append(&key, &tail).unwrap();
                    model.entry(key).or_default().extend(tail);
                }
                _ => {
                    let value = value(&mut random, len);
                    table.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            let now = frames_in_windows(&table);
            most = [most[0].max(now[0]), most[1].max(now[1])];
        }
        check(&table, &model);
        table.close().unwrap();
        check(&open(&path), &model);
    }
    if most == [0; 2] {
        println!("SKIPPED: no windows here");
        return;
    }
    assert!(most.iter().all(|&frames| frames > 8), "{most:?}");
}

#[test]
fn values_in_windows_are_in_the_file_before_any_checkpoint_and_are_no_frames_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = open(&path);
    let mut random = Random::new(&[1]);
    let values: Vec<_> = (0..400).map(|_| value(&mut random, 2500)).collect();
    for (n, value) in (0u32..).zip(&values) {
        table.put(&n.to_le_bytes(), value).unwrap();
    }
    if !has_windows(&table) {
        return;
    }
    let written = table.counters().frames_written;
    let bytes = std::fs::read(&path).unwrap();
    let found = values.iter().filter(|value| bytes.windows(64).any(|part| *part == value[..64])).count();
    assert!(found > 350, "{found} of 400 values are in the file");
    table.checkpoint().unwrap();
    assert_eq!(frames_in_windows(&table)[0], 0);
    // Frames that the checkpoint wrote or recorded are counted; it wrote little more than the buckets.
    assert!(table.counters().frames_written > written);
    for (n, value) in (0u32..).zip(&values) {
        assert_eq!(table.get(&n.to_le_bytes()).unwrap().as_ref(), Some(value));
    }
}

#[test]
fn holes_too_short_for_a_value_do_not_keep_it_from_a_window() {
    let directory = tempfile::tempdir().unwrap();
    let put = |table: &Table, keys: std::ops::Range<u32>| {
        keys.for_each(|key| table.put(&key.to_le_bytes(), &[key as u8; 2500]).unwrap());
    };
    let fresh = open(&directory.path().join("fresh.spt"));
    put(&fresh, 0..100);
    if !has_windows(&fresh) {
        return;
    }
    // Without a log there are no windows. Shorter values leave parts of the holes that they fill.
    let path = directory.path().join("t.spt");
    let table = TableOptions::new().page_bytes(512).durability(Durability::None).open(&path).unwrap();
    put(&table, 0..400);
    (0..400u32).step_by(2).for_each(|key| assert!(table.remove(&key.to_le_bytes()).unwrap()));
    (0..400u32).step_by(2).for_each(|key| table.put(&key.to_le_bytes(), &[1; 1500]).unwrap());
    table.close().unwrap();
    let table = open(&path);
    put(&table, 400..600);
    let frames: usize = frames_in_windows(&table).iter().sum();
    assert!(frames >= 90, "{frames} frames in windows for 200 values of 40 units");
}

#[test]
fn pages_of_buckets_stay_out_of_sealed_windows_whose_room_serves_once_much_is_free() {
    let directory = tempfile::tempdir().unwrap();
    let table = open(&directory.path().join("t.spt"));
    let mut model = Model::new();
    let mut put = |table: &Table, key: u32, value: &[u8]| {
        table.put(&key.to_le_bytes(), value).unwrap();
        model.insert(key.to_le_bytes().to_vec(), value.to_vec());
    };
    for key in 0..400 {
        put(&table, key, &[key as u8; 2500]);
    }
    if !has_windows(&table) {
        return;
    }
    table.checkpoint().unwrap();
    let [_, sealed] = frames_in_windows(&table);
    for key in 1000..1500 {
        put(&table, key, &[key as u8; 20]);
    }
    assert_eq!(frames_in_windows(&table)[1], sealed, "a page changed a sealed window");
    for key in (0..400).step_by(2) {
        put(&table, key, b"short");
    }
    table.checkpoint().unwrap();
    let [_, sealed] = frames_in_windows(&table);
    let frames = table.pager.frame_count();
    for key in 2000..2150 {
        put(&table, key, &[key as u8; 2500]);
    }
    assert!(frames_in_windows(&table)[1] < sealed);
    assert_eq!(table.pager.frame_count(), frames);
    check(&table, &model);
    table.compact().unwrap();
    check(&table, &model);
}

#[test]
fn frames_of_windows_that_were_cut_off_and_used_again_are_plain_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = open(&path);
    let put = |table: &Table, key: u32, bytes: usize| table.put(&key.to_le_bytes(), &vec![key as u8; bytes]).unwrap();
    (0..800).for_each(|key| put(&table, key, 2500));
    if !has_windows(&table) {
        return;
    }
    table.checkpoint().unwrap();
    let [_, sealed] = frames_in_windows(&table);
    (0..800).for_each(|key| assert!(table.remove(&u32::to_le_bytes(key)).unwrap()));
    table.checkpoint().unwrap();
    // Much space is free: these go there, through the log, and more ranges are changed than are replaced in tests.
    let mut key = 1000;
    while frames_in_windows(&table)[0] == 0 && key < 2000 {
        put(&table, key, 2500);
        key += 1;
    }
    let [_, left] = frames_in_windows(&table);
    assert!(left < sealed / 8, "{left} of {sealed} frames");
    (0..2000u32).for_each(|key| assert!(table.remove(&key.to_le_bytes()).is_ok()));
    let frames = table.pager.frame_count();
    table.compact().unwrap();
    assert!(table.pager.frame_count() < frames / 4);
    (0..60_000).for_each(|key| put(&table, key, 20));
    assert!(table.pager.frame_count() > frames / 2);
    (0..60_000u32).for_each(|key| assert_eq!(table.get(&key.to_le_bytes()).unwrap(), Some(vec![key as u8; 20])));
    assert!(table.verify().unwrap().is_empty());
    table.close().unwrap();
    assert!(open(&path).verify().unwrap().is_empty());
}

#[test]
fn a_value_whose_pages_are_gone_is_an_error_and_the_last_one_for_writes() {
    for sealed in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let table = open(&path);
        for n in 0..400u32 {
            table.put(&n.to_le_bytes(), &[n as u8; 2500]).unwrap();
        }
        if !has_windows(&table) {
            return;
        }
        if sealed {
            table.checkpoint().unwrap();
        }
        // As a failing disk would: another program truncates the file.
        Disk.open(&path, Mode::Write).unwrap().set_len(8192).unwrap();
        let failed = (0..400u32).filter(|n| match table.get(&n.to_le_bytes()) {
            Ok(found) => {
                assert_eq!(found, Some(vec![*n as u8; 2500]));
                false
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Io, "{e}");
                true
            }
        });
        assert!(failed.count() > 300);
        assert_eq!(table.put(b"next", &[1; 2500]).unwrap_err().kind(), ErrorKind::Poisoned);
    }
}

/// A value whose every byte shows its key.
fn told(key: u32, version: u32) -> Vec<u8> {
    let len = 300 + (key as usize * 37 + version as usize * 501) % 4000;
    let word = key.to_le_bytes().into_iter().chain(version.to_le_bytes());
    word.cycle().take(len / 8 * 8).collect()
}

#[test]
fn threads_that_overwrite_and_read_values_during_checkpoints_find_complete_values() {
    const KEYS: u32 = 600;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = open(&path);
    let done = AtomicBool::new(false);
    let (table_ref, done_ref) = (&table, &done);
    let versions: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut random = Random::new(&[7]);
            let mut found = 0;
            while !done_ref.load(Relaxed) {
                let key = random.below(KEYS as usize) as u32;
                let Some(value) = table_ref.get(&key.to_le_bytes()).unwrap() else { continue };
                let version = u32::from_le_bytes(value[4..8].try_into().unwrap());
                assert!(value == told(key, version), "key {key}, version {version}");
                found += 1;
            }
            found
        });
        let checkpoints = scope.spawn(move || {
            let mut most = [0; 2];
            while !done_ref.load(Relaxed) {
                let mut before = frames_in_windows(table_ref);
                // On a busy machine the writers may not have run since the last checkpoint.
                for _ in 0..1000 {
                    if before[0] > 0 || done_ref.load(Relaxed) {
                        break;
                    }
                    std::thread::yield_now();
                    before = frames_in_windows(table_ref);
                }
                table_ref.checkpoint().unwrap();
                let after = frames_in_windows(table_ref);
                most = [most[0].max(before[0]), most[1].max(after[1])];
            }
            most
        });
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                scope.spawn(move || {
                    let mut random = Random::new(&[writer.into()]);
                    let mut versions = vec![0; KEYS as usize];
                    for version in 1..4000 {
                        let key = random.below(KEYS as usize / 2) as u32 * 2 + writer;
                        table_ref.put(&key.to_le_bytes(), &told(key, version)).unwrap();
                        versions[key as usize] = version;
                    }
                    versions
                })
            })
            .collect();
        let versions = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Relaxed);
        assert!(reader.join().unwrap() > 0);
        let most = checkpoints.join().unwrap();
        if most == [0; 2] {
            println!("SKIPPED: no windows here");
        } else {
            assert!(most[0] > 0, "{most:?}");
        }
        versions
    });
    let copy = killed(&path, 0);
    for table in [table, open(&copy)] {
        for key in 0..KEYS {
            let version = versions.iter().map(|versions| versions[key as usize]).max().unwrap();
            let found = table.get(&key.to_le_bytes()).unwrap();
            assert!(found == (version > 0).then(|| told(key, version)), "key {key}, version {version}");
        }
        assert!(table.verify().unwrap().is_empty());
    }
}
