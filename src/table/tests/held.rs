//! A reader keeps its checkpoint at every moment of later ones.
//!
//! The writer's disk runs a test's reads before each call that changes a file or a lock. So the test sees every state
//! that a reader in another process can meet, in order, whatever the speed of the disk.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use super::watched::Watched;
use crate::error::ErrorKind;
use crate::io::simulated::{Simulated, State};
use crate::io::{Disk, Mode, Storage};
use crate::table::{Backup, Table, TableOptions};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Pairs with several times as many frames as a reader's cache has.
const PAIRS: u32 = 600;

/// Further pairs, which never change.
const KEPT: u32 = 20;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Returns a value; some are in pages, some in extents.
fn value(round: u8, n: u32) -> Vec<u8> {
    vec![round; if n.is_multiple_of(12) { 9_000 } else { 200 }]
}

fn put_all(table: &Table, round: u8) {
    (0..PAIRS).for_each(|n| table.put(&key(n), &value(round, n)).unwrap());
}

/// Opens the table for reading with a cache of a few frames, so that nearly every lookup reads the file.
fn open_to_read(path: &Path) -> Table {
    let mut options = TableOptions::new().read_only(true).cache_bytes(1);
    options.cache_frames_min = 16;
    options.open(path).unwrap()
}

fn assert_has_round(reader: &Table, round: u8) {
    for n in 0..PAIRS {
        assert_eq!(reader.get(&key(n)).unwrap(), Some(value(round, n)), "pair {n} of round {round}");
    }
}

/// Opens a reader after the checkpoint of each round. During later checkpoints, the last of which truncates the file,
/// calls `look` with each reader before each change of files and locks that the writer makes. Returns the average
/// number of frames that a call reads.
fn look_beside_checkpoints(look: impl Fn(&Table, u8) + Clone + Send + Sync + 'static) -> u64 {
    const ROUNDS: u8 = 3;
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("t.spt");
    let disk = Watched::default();
    let writer = disk.options().open(&path).unwrap();
    let readers: Arc<Mutex<Vec<Table>>> = Arc::default();
    let (kept, looking) = (readers.clone(), look.clone());
    let looks = Arc::new(Mutex::new(0u64));
    let counted = looks.clone();
    disk.watch(move |_, _| {
        for (round, reader) in (0..).zip(&*kept.lock().unwrap()) {
            looking(reader, round);
            *counted.lock().unwrap() += 1;
        }
        Ok(())
    });
    // These pairs are at the start of the file, and never change.
    (PAIRS..PAIRS + KEPT).for_each(|n| writer.put(&key(n), &[7; 9_000]).unwrap());
    for round in 0..ROUNDS {
        put_all(&writer, round);
        writer.checkpoint().unwrap();
        let reader = open_to_read(&path);
        readers.lock().unwrap().push(reader);
    }
    (0..PAIRS).for_each(|n| assert!(writer.remove(&key(n)).unwrap()));
    writer.compact().unwrap();
    for (round, reader) in (0..).zip(&*readers.lock().unwrap()) {
        look(reader, round);
    }
    let looks = *looks.lock().unwrap();
    assert!(looks > 100, "{looks}");
    let read: u64 = readers.lock().unwrap().drain(..).map(|reader| reader.counters().frames_read).sum();
    writer.close().unwrap();
    read / looks
}

#[test]
fn a_reader_keeps_its_checkpoint_before_and_after_every_step_of_later_ones() {
    let read = look_beside_checkpoints(assert_has_round);
    assert!(read > 100, "{read} frames read each time");
}

#[test]
fn a_copy_of_a_held_checkpoint_and_a_check_of_it_are_right_before_and_after_every_step_of_later_ones() {
    look_beside_checkpoints(|reader, round| {
        assert_eq!(reader.verify().unwrap(), []);
        let disk: Arc<dyn Storage> = Arc::new(Simulated::new(State::default()));
        let options = || TableOptions { storage: disk.clone(), ..TableOptions::new() };
        Backup::new().options(options()).save(reader, "/copy.spt").unwrap();
        let copy = options().read_only(true).open("/copy.spt").unwrap();
        assert_has_round(&copy, round);
        assert_eq!((copy.len(), copy.verify().unwrap()), (u64::from(PAIRS + KEPT), vec![]));
    });
}

/// Without locks of bytes, nothing protects a reader's checkpoint: later ones overwrite its blocks.
#[test]
fn a_reader_whose_checkpoint_is_not_kept_says_so_and_calls_nothing_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let without_locks = Watched::without_locks();
    let writer = Watched::default().options().open(&path).unwrap();
    put_all(&writer, 1);
    writer.checkpoint().unwrap();
    // Completes later checkpoints while the check reads frames, then while it walks the buckets.
    for part in 0..2u32 {
        let mut options = without_locks.options().read_only(true).checkpoint_only(true).cache_bytes(1);
        options.cache_frames_min = 16;
        let reader = options.open(&path).unwrap();
        assert_eq!(reader.verify().unwrap(), []);
        let (calls, frames) = (Cell::new(0), part * reader.pager.frame_count());
        let proceed = || {
            if calls.replace(calls.get() + 1) == frames {
                for round in 0..3 {
                    put_all(&writer, 2 + round);
                    writer.checkpoint().unwrap();
                }
            }
            ControlFlow::Continue(())
        };
        assert_eq!(reader.verify_while(proceed).unwrap_err().kind(), ErrorKind::Stale);
        assert_eq!(reader.verify().unwrap_err().kind(), ErrorKind::Stale);
    }
}

/// The writer's next checkpoint makes the file longer or shorter, before one of the calls of an open for reading.
#[test]
fn a_reader_opens_a_file_that_grows_or_is_cut_meanwhile() {
    let mut lengths = [0; 2];
    for (grows, at) in [true, false].into_iter().flat_map(|grows| (0..10).map(move |at| (grows, at))) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let writer = Watched::default().options().open(&path).unwrap();
        if !grows {
            put_all(&writer, 1);
            (1..PAIRS).for_each(|n| assert!(writer.remove(&key(n)).unwrap()));
        }
        writer.checkpoint().unwrap();
        let before = std::fs::metadata(&path).unwrap().len();
        let change = move || {
            if grows {
                put_all(&writer, 1)
            } else {
                writer.compact().unwrap()
            }
            writer.checkpoint().unwrap();
        };
        let reading = Watched::default();
        let next = Mutex::new((0, Some(change)));
        reading.watch(move |_, call| {
            if ["len", "read_header"].contains(&call) {
                let mut next = next.lock().unwrap();
                next.0 += 1;
                if next.0 > at {
                    let change = next.1.take();
                    drop(next);
                    change.into_iter().for_each(|change| change());
                }
            }
            Ok(())
        });
        let reader = reading.options().read_only(true).checkpoint_only(true).open(&path).unwrap();
        let after = std::fs::metadata(&path).unwrap().len();
        lengths[usize::from(grows)] += u32::from(if grows { after > before } else { after < before });
        assert_eq!(reader.verify().unwrap(), [], "grows: {grows}, before call {at}");
    }
    assert!(lengths[0] > 3 && lengths[1] > 3, "{lengths:?}");
}

#[test]
fn a_reader_has_its_checkpoint_whatever_the_writer_does() {
    const PAIRS: u32 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options = TableOptions::new().page_bytes(512).cache_bytes(0).log_bytes(100_000);
    let table = options.clone().open(&path).unwrap();
    let put_all = |byte: u8| {
        (0..PAIRS).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        table.checkpoint().unwrap();
    };
    put_all(0);
    for round in 1..5 {
        let reader = TableOptions { read_only: true, checkpoint_only: true, ..options.clone() }.open(&path).unwrap();
        (0..3).for_each(|_| put_all(round));
        for key in (0..PAIRS).map(u32::to_be_bytes) {
            assert_eq!(reader.get(&key).unwrap().unwrap()[..], [round - 1; 100]);
        }
        assert_eq!(reader.verify().unwrap(), []);
    }
    // Blocks that were kept for readers are reused once the readers are gone.
    put_all(5);
    let length = || Disk.open(&path, Mode::Read).unwrap().len().unwrap();
    let most = length();
    (6..16).for_each(put_all);
    assert!(length() < most + most / 16, "{} bytes, {most} before", length());
}

/// A reader of an old checkpoint keeps only the blocks of that checkpoint, not all that were freed since.
#[test]
fn a_reader_that_stays_costs_one_copy_of_the_table() {
    const PAIRS: u32 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    // A value that is written at once needs adjacent blocks, of which so small a file has few.
    let options = TableOptions {
        stored_bytes_min: usize::MAX,
        ..TableOptions::new().page_bytes(512).cache_bytes(0).log_bytes(100_000)
    };
    let open_reader =
        || TableOptions { read_only: true, checkpoint_only: true, ..options.clone() }.open(&path).unwrap();
    let put_all = |table: &Table, byte: u8| {
        (0..PAIRS).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        if byte.is_multiple_of(4) {
            table.put(b"large", &[byte; 200_000]).unwrap(); // several checkpoints have its blocks
        }
        table.checkpoint().unwrap();
    };
    let length = || Disk.open(&path, Mode::Read).unwrap().len().unwrap();
    let is_whole = |reader: &Table, byte: u8| {
        let values = (0..PAIRS).map(|n| reader.get(&n.to_be_bytes()).unwrap().unwrap());
        assert!(values.into_iter().all(|value| value[..] == [byte; 100]), "{byte}");
        assert!(reader.get(b"large").unwrap().unwrap()[..] == [byte / 4 * 4; 200_000], "{byte}");
        assert_eq!(reader.verify().unwrap(), []);
    };
    let mut table = options.clone().open(&path).unwrap();
    put_all(&table, 0);
    let of_this_open = open_reader();
    (1..4).for_each(|byte| put_all(&table, byte));
    let most = length();
    (4..20).for_each(|byte| put_all(&table, byte));
    assert!(length() < most + most / 4, "{} bytes, {most} before", length());
    is_whole(&of_this_open, 0);
    drop(of_this_open);
    for start in [20, 45] {
        (start - 4..=start).for_each(|byte| put_all(&table, byte));
        let of_an_earlier_open = open_reader();
        put_all(&table, start + 1);
        table.close().unwrap();
        table = options.clone().open(&path).unwrap();
        (start + 2..start + 5).for_each(|byte| put_all(&table, byte));
        let most = length();
        (start + 5..start + 12).for_each(|byte| put_all(&table, byte));
        assert!(length() < most + most / 4, "{} bytes, {most} before", length());
        is_whole(&of_an_earlier_open, start);
        drop(of_an_earlier_open);
        assert_eq!(table.verify().unwrap(), []);
    }
}

#[test]
fn an_open_does_not_cut_off_what_a_reader_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options = TableOptions::new().page_bytes(512).cache_bytes(0);
    let put_all = |table: &Table, byte: u8| {
        (0..1000u32).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        table.checkpoint().unwrap();
    };
    let table = options.clone().open(&path).unwrap();
    put_all(&table, 1);
    put_all(&table, 2); // behind the first ones
    let reader = TableOptions { read_only: true, checkpoint_only: true, ..options.clone() }.open(&path).unwrap();
    put_all(&table, 3); // where the first ones were
    table.close().unwrap();
    let table = options.open(&path).unwrap();
    put_all(&table, 4);
    assert_eq!(reader.verify().unwrap(), []);
    assert!(reader.scan().all(|pair| pair.unwrap().1[..] == [2; 100]));
}

/// Checkpoints continue during a backup: the log does not grow, and writers do not wait.
#[test]
fn a_backup_keeps_no_checkpoint_from_being_made() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = TableOptions::new().page_bytes(512).cache_bytes(0);
    let table = options.clone().open(at("t.spt")).unwrap();
    let put_all = |byte: u8| {
        (0..3000u32).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        table.checkpoint().unwrap();
    };
    put_all(0);
    let mut steps = 0;
    let mut backup = Backup::new().options(options.clone()).progress(|_, _| {
        steps += 1;
        (1..4).for_each(put_all);
        ControlFlow::Continue(())
    });
    backup.save(&table, at("copy.spt")).unwrap();
    drop(backup);
    assert!(steps > 0);
    let copy = options.open(at("copy.spt")).unwrap();
    assert_eq!(copy.verify().unwrap(), []);
    assert!(copy.scan().all(|pair| pair.unwrap().1[..] == [0; 100]) && copy.len() == 3000);
}
