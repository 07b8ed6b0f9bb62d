//! Values that are written to the file immediately: cases that the random workloads rarely reach.
//!
//! The crashes and faults of `mod.rs` include such values, as half of its workloads write every value of a few hundred
//! bytes this way.

use super::workload::{Content, PATH, Workload};
use super::{Crash, Fault, Plan, Simulated, State, Tally, content_of, each_crash};
use crate::error::ErrorKind;
use crate::io::Storage;
use crate::io::simulated::Event;
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

/// A table whose writes survive the process, with a cache that calls for no checkpoint.
fn open(disk: &Simulated, durability: Durability) -> Table {
    options(disk).durability(durability).open(PATH).unwrap()
}

fn options(disk: &Simulated) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options
}

/// The disk after a crash of this kind.
fn after(disk: &Simulated, crash: Crash) -> Simulated {
    Simulated::new(disk.state().survivors(crash, &mut Random::new(&[1]), &mut Tally::default()))
}

/// Bytes that occur nowhere else.
fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(&[seed]);
    std::iter::repeat_with(|| random.next() as u8).take(len).collect()
}

/// Whether `table` has `value` and no fault.
fn has(table: &Table, key: &[u8], value: &[u8]) -> bool {
    content_of(table, false).unwrap().get(key).is_some_and(|found| **found == *value)
}

#[test]
fn a_large_value_is_written_to_the_disk_once() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let value = value(0, 20_000);
    table.put(b"large", &value).unwrap();
    assert!(table.may_read_file()); // memory has no copy
    table.sync().unwrap();
    table.close().unwrap();
    let written = |event: &&Event| match event {
        Event::Write { bytes, .. } | Event::Store { bytes, .. } => bytes.windows(64).any(|b| *b == value[5000..5064]),
        _ => false,
    };
    assert_eq!(disk.trace().iter().filter(written).count(), 1);
    assert!(has(&open(&after(&disk, Crash::LoseUnsynced), Durability::Os), b"large", &value));
}

#[test]
fn a_replayed_value_is_durable_after_a_sync_and_after_an_open_that_waits_for_the_disk() {
    for durability in [Durability::Os, Durability::Sync, Durability::None] {
        let disk = Simulated::new(State::default());
        let table = open(&disk, Durability::Os);
        let (first, second) = (value(0, 9000), value(1, 5000));
        table.put(b"first", &first).unwrap();
        table.put(b"second", &second).unwrap();
        let killed = after(&disk, Crash::Kill);
        let table = open(&killed, durability);
        assert_eq!(table.replayed(), 2);
        if durability != Durability::Sync {
            table.sync().unwrap();
        }
        let left = open(&after(&killed, Crash::LoseUnsynced), Durability::Os);
        assert!(has(&left, b"first", &first) && has(&left, b"second", &second), "{durability:?}");
    }
}

#[test]
fn an_open_after_a_crash_writes_over_no_value_that_the_log_has() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let pairs: Vec<_> = (0..20).map(|n: u8| ([n], value(n.into(), 3000 + 500 * usize::from(n)))).collect();
    pairs.iter().for_each(|(key, value)| table.put(key, value).unwrap());
    let killed = after(&disk, Crash::Kill);
    let base = killed.state();
    // Replays, and makes a checkpoint.
    let table = open(&killed, Durability::Os);
    assert_eq!((table.replayed(), table.counters().checkpoints), (20, 1));
    let mut random = Random::new(&[1]);
    let mut crashes = 0;
    each_crash(&base, &killed.trace(), &mut Random::new(&[2]), |call, state| {
        let left = Simulated::new(state.survivors(Crash::Kill, &mut random, &mut Tally::default()));
        let table = open(&left, Durability::Os);
        let missing = pairs.iter().filter(|(key, value)| !has(&table, key, value)).count();
        crashes += 1;
        if missing == 0 { Ok(()) } else { Err(format!("a crash at call {call} leaves {missing} values damaged")) }
    })
    .unwrap();
    assert!(crashes > 20, "{crashes}");
}

#[test]
fn a_file_does_not_grow_with_each_crash() {
    for len in [100, 5000] {
        let mut disk = Simulated::new(State::default());
        let mut lengths = Vec::new();
        for round in 0..12 {
            let table = open(&disk, Durability::Os);
            let put_all = || (0..600u32).for_each(|n| table.put(&n.to_le_bytes(), &value(round, len)).unwrap());
            put_all();
            table.checkpoint().unwrap();
            put_all();
            disk = after(&disk, Crash::Kill);
            lengths.push(disk.state().content(Path::new(PATH)).unwrap().len());
        }
        let (early, last) = (lengths[3], lengths[11]);
        assert!(last <= early + early / 4, "{len}: {lengths:?}");
    }
}

#[test]
fn a_replayed_value_is_durable_after_a_sync_if_the_open_had_no_room_for_a_checkpoint() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let values: Vec<_> = (0..40).map(|n| (vec![n as u8], value(n, 9000))).collect();
    values.iter().for_each(|(key, value)| table.put(key, value).unwrap());
    let killed = after(&disk, Crash::Kill);
    killed.limit_room(Some(killed.used_room()));
    let table = open(&killed, Durability::Os);
    assert!(table.pager.values().has_replayed(), "there was room");
    killed.limit_room(None);
    table.sync().unwrap();
    let left = open(&after(&killed, Crash::LoseUnsynced), Durability::Os);
    assert!(values.iter().all(|(key, value)| left.get(key).unwrap().as_ref() == Some(value)));
}

#[test]
fn a_log_ends_before_a_value_that_a_power_loss_took() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let (kept, lost) = (value(0, 9000), value(1, 5000));
    table.put(b"kept", &kept).unwrap();
    table.sync().unwrap();
    table.put(b"lost", &lost).unwrap();
    table.put(b"small", b"after").unwrap();
    // The log is on the disk, the file is not: as after a sync of the log alone.
    let trace = disk.trace();
    let last = trace.iter().rposition(|event| matches!(event, Event::Write { bytes, .. } if bytes.starts_with(&lost)));
    let mut state = State::default();
    trace.iter().enumerate().filter(|&(call, _)| Some(call) != last).for_each(|(n, e)| state.apply(n as u64, e));
    let left = Simulated::new(state);
    for _ in 0..2 {
        // The second open finds the state that the first one found and left unchanged.
        let table = options(&left).read_only(true).open(PATH).unwrap();
        assert_eq!((table.replayed(), table.len()), (1, 1));
        let table = open(&after(&left, Crash::Kill), Durability::Os);
        assert!(has(&table, b"kept", &kept) && table.len() == 1);
        // The next write goes after the end.
        table.put(b"next", &lost).unwrap();
    }
}

#[test]
fn a_value_that_cannot_be_written_changes_nothing() {
    let (before, new) = (value(0, 3000), value(1, 9000));
    for fault in [Fault::Io, Fault::NoSpace, Fault::Short] {
        let mut failed = 0;
        // The result of a call that fails in part depends on its number.
        for (later, others) in (0..6).flat_map(|later| (0..4).map(move |others| (later, others))) {
            let disk = Simulated::new(State::default());
            let table = open(&disk, Durability::Os);
            (0..others).for_each(|_| drop(disk.names_in(Path::new("/disk")).unwrap()));
            table.put(b"before", &before).unwrap();
            disk.plan(Some(Plan { fault, at: disk.calls() + later, lasting: false }));
            let put = table.put(b"new", &new);
            disk.plan(None);
            failed += u32::from(put.is_err());
            if let Err(e) = &put {
                assert!(matches!(e.kind(), ErrorKind::Io | ErrorKind::DiskFull), "{e}");
            }
            assert_eq!(has(&table, b"new", &new), put.is_ok(), "{fault:?} {later}");
            // Frames in which the file may have a part of the value are correct after a checkpoint, too.
            table.put(b"more", &before).unwrap();
            table.checkpoint().unwrap();
            drop(table);
            let table = open(&after(&disk, Crash::LoseUnsynced), Durability::Os);
            assert!(has(&table, b"before", &before) && has(&table, b"more", &before));
        }
        assert!(failed > 0, "{fault:?}");
    }
}

#[test]
fn a_window_whose_map_frame_cannot_be_read_has_no_value_twice() {
    const VALUES: u8 = 60;
    let mut failed = 0;
    for later in 0..30 {
        let disk = Simulated::new(State::default());
        let table = open(&disk, Durability::Os);
        table.put(b"first", &value(0, 3000)).unwrap();
        table.checkpoint().unwrap();
        let mut expected = Content::from([(b"first".as_slice().into(), value(0, 3000).into())]);
        for n in 0..VALUES {
            let value = value(n.into(), 3000 + 61 * usize::from(n));
            if n % 3 == 0 {
                evict_all(&table);
                disk.plan(Some(Plan { fault: Fault::Io, at: disk.calls() + later, lasting: false }));
            }
            match table.put(&[n], &value) {
                Ok(()) => drop(expected.insert([n].as_slice().into(), value.into())),
                Err(_) => failed += 1,
            }
        }
        disk.plan(None);
        if table.checkpoint().is_err() {
            continue; // a fault that poisons
        }
        assert_eq!(table.verify().unwrap(), [], "{later}");
        assert!(content_of(&table, false).unwrap() == expected, "{later}");
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn overwriting_and_removing_large_values_leaves_no_space_in_use() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    for n in 0..2000u32 {
        table.put(b"same", &value(n.into(), 5000)).unwrap();
        table.put(b"other", &value(n.into(), 4000)).unwrap();
        table.remove(b"other").unwrap();
    }
    let frames = table.pager.frame_count();
    assert!(frames < 600, "{frames} frames for two values");
    assert!(has(&table, b"same", &value(1999, 5000)));
    let killed = after(&disk, Crash::Kill);
    table.close().unwrap();
    for disk in [disk, killed] {
        let table = open(&disk, Durability::Os);
        assert!(has(&table, b"same", &value(1999, 5000)));
        table.compact().unwrap();
        assert!(table.pager.frame_count() < 20, "{} frames", table.pager.frame_count());
    }
}

/// Writes every dirty frame to a block, and frees its memory.
fn evict_all(table: &Table) {
    for _ in 0..2 {
        // A frame that was used gets a second chance.
        for frame in 0..table.pager.frame_count() {
            table.pager.frames().write_and_evict(frame);
        }
    }
}

#[test]
fn a_changed_frame_of_a_value_that_the_log_has_goes_to_another_block() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let values = |seed: u64| (0..8).map(move |n| (vec![n as u8], value(seed + n, 3000)));
    values(0).for_each(|(key, value)| table.put(&key, &value).unwrap());
    for (key, new) in values(10) {
        assert!(table.replace(&key, &new).unwrap().is_some()); // in place, and the log has it
        evict_all(&table);
    }
    // A replay needs the first values, although later ones replace them.
    let left = open(&after(&disk, Crash::Kill), Durability::Os);
    assert_eq!(left.replayed(), 16);
    assert!(values(10).all(|(key, value)| has(&left, &key, &value)));
}

#[test]
fn a_value_of_the_next_period_keeps_its_block_while_a_checkpoint_completes() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let values = |seed: u64| (0..8).map(move |n| (vec![n as u8], value(seed + n, 3000)));
    table.put(b"before", &value(100, 9000)).unwrap();
    let guard = table.pager.checkpoint_lock().acquire().unwrap();
    let frozen = table.freeze_frames(0).unwrap();
    values(0).for_each(|(key, value)| table.put(&key, &value).unwrap());
    values(10).for_each(|(key, new)| drop(table.replace(&key, &new).unwrap()));
    evict_all(&table);
    table.pager.checkpointer().write_frozen(frozen).unwrap();
    drop(guard);
    // These take any block that is free now.
    values(20).for_each(|(key, new)| table.replace(&key, &new).map(drop).unwrap());
    evict_all(&table);
    let mut batch = table.batch();
    (0..40).for_each(|n| batch.put(&[n, 1], &value(n.into(), 3000)).unwrap());
    batch.commit().unwrap();
    evict_all(&table);
    let left = open(&after(&disk, Crash::Kill), Durability::Os);
    assert_eq!(left.replayed(), 25);
    assert!(values(20).all(|(key, value)| has(&left, &key, &value)));
}

#[test]
fn values_written_while_a_checkpoint_is_held_and_copied_survive() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let values: Vec<_> = (0..6).map(|n| value(n, 7000)).collect();
    table.put(&[0], &values[0]).unwrap();
    let copy = Path::new("/disk/copy.spt");
    Backup::new().options(options(&disk)).save(&table, copy).unwrap();
    table.put(&[1], &values[1]).unwrap();
    // A value written during a checkpoint is not part of it.
    let guard = table.pager.checkpoint_lock().acquire().unwrap();
    let frozen = table.freeze_frames(0).unwrap();
    table.put(&[2], &values[2]).unwrap();
    let between = after(&disk, Crash::Kill);
    table.pager.checkpointer().write_frozen(frozen).unwrap();
    drop(guard);
    table.put(&[3], &values[3]).unwrap();
    assert!(table.pager.values().has_written());
    for (disk, count) in [(between, 3), (after(&disk, Crash::Kill), 4)] {
        let reader = options(&disk).read_only(true).open(PATH).unwrap();
        let table = open(&disk, Durability::Os);
        for (n, value) in values.iter().enumerate().take(count) {
            assert!(has(&table, &[n as u8], value) && has(&reader, &[n as u8], value), "{n} of {count}");
        }
        assert_eq!(table.len(), count as u64);
    }
    let copied = options(&disk).open(copy).unwrap();
    assert!(has(&copied, &[0], &values[0]) && copied.len() == 1);
}

#[test]
fn small_pairs_with_values_written_through_survive_a_checkpoint_and_a_crash() {
    const VALUES: u64 = 40;
    let disk = Simulated::new(State::default());
    let table = open(&disk, Durability::Os);
    let mut expected = Content::new();
    for n in 0..VALUES {
        let mut put = |key: &[u8], value: Vec<u8>| {
            table.put(key, &value).unwrap();
            expected.insert(key.into(), value.into());
        };
        put(&[n as u8], value(n, 5000 + 61 * n as usize));
        (0..20).for_each(|small| put(&[n as u8, small], value(1000 * n + u64::from(small), 90)));
    }
    assert!(table.pager.values().has_written());
    table.checkpoint().unwrap();
    drop(table);
    let table = open(&after(&disk, Crash::LoseUnsynced), Durability::Os);
    assert_eq!(table.replayed(), 0);
    assert!(content_of(&table, false).unwrap() == expected);
}

#[test]
fn a_workload_of_this_durability_writes_values_at_once() {
    let workload = Workload::new(1, 0);
    assert_eq!(workload.durability, Durability::Os);
    let disk = Simulated::new(State::default());
    let table = workload.open(&disk).unwrap();
    table.put(b"large", &[1; 5000]).unwrap();
    assert!(table.pager.values().has_written());
}
