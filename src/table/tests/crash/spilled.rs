//! Dirty frames that leave the cache: a crash finds the last checkpoint, whatever was written to the file since.

use super::workload::{Content, PATH};
use super::{Crash, Fault, Plan, Simulated, State, Tally, content_of, each_crash};
use crate::error::ErrorKind;
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use std::sync::Arc;

/// Opens a table whose cache has 64 frames; a new one has buckets for `expected` pairs.
fn open_for(disk: &Simulated, expected: u64) -> Table {
    open_with(disk, expected, Durability::None)
}

fn open_with(disk: &Simulated, expected: u64, durability: Durability) -> Table {
    let mut options = TableOptions::new().page_bytes(512).seed(1).durability(durability).cache_bytes(0);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options.expected_len(expected).open(PATH).unwrap()
}

fn open(disk: &Simulated) -> Table {
    open_for(disk, 0)
}

/// Returns a disk with a closed table of the first `changes` changes.
fn disk_with(changes: u32) -> State {
    let disk = Simulated::new(State::default());
    let table = open(&disk);
    change_to(&table, 0..changes);
    table.close().unwrap();
    disk.state().survivors(Crash::Kill, &mut Random::new(&[6]), &mut Tally::default())
}

/// Returns the n-th change: a new pair, or a new value for an earlier key. No two have the same value.
fn change(n: u32) -> ([u8; 4], Vec<u8>) {
    let key = if n % 4 == 3 { n / 2 } else { n };
    (key.to_be_bytes(), [n.to_be_bytes(); 25].concat())
}

fn change_to(table: &Table, changes: std::ops::Range<u32>) {
    for n in changes {
        let (key, value) = change(n);
        table.put(&key, &value).unwrap();
    }
}

/// Returns the number of changes that lead to this content; `None` if no number does.
fn changes_of(content: &Content) -> Option<u32> {
    let last = content.values().map(|value| u32::from_be_bytes(*value.first_chunk().unwrap())).max();
    let count = last.map_or(0, |last| last + 1);
    let mut expected = Content::new();
    for (key, value) in (0..count).map(change) {
        expected.insert(key.into(), value.into());
    }
    (*content == expected).then_some(count)
}

/// Changes after which a table is closed and reopened; later changes affect most of its frames.
const REOPENED: u32 = 2000;

/// Fills a table, syncs it, changes it further, and closes it; crashes at one call in `every`. The table is new, with
/// buckets for `expected` pairs, or has `REOPENED` changes.
fn crash(every: u64, start: &State, expected: u64) -> Result<(), String> {
    const SYNCED: u32 = 3000;
    const CLOSED: u32 = 4000;
    let disk = Simulated::new(start.clone());
    let table = open_for(&disk, expected);
    let opened = disk.calls();
    let before = changes_of(&content_of(&table, false)?).unwrap();
    assert!([0, REOPENED].contains(&before));
    change_to(&table, before..SYNCED);
    let filled = (disk.calls(), table.counters());
    assert_eq!(filled.1.checkpoints, u64::from(expected > 0), "a table spills, without a checkpoint");
    assert!(filled.1.memory_bytes < 75 * 4096 && filled.1.frames_written > 100, "{:?}", filled.1);
    table.sync().unwrap();
    let synced = disk.calls();
    change_to(&table, SYNCED..CLOSED);
    assert_eq!(changes_of(&content_of(&table, false)?), Some(CLOSED));
    table.close().unwrap();
    let closed = disk.calls();
    let mut random = Random::new(&[7]);
    let mut checked = 0u64;
    each_crash(start, &disk.trace(), &mut Random::new(&[8]), |call, state| {
        checked += 1;
        let in_checkpoint = (filled.0..synced).contains(&call) || call + 40 > closed;
        if call < opened || !checked.is_multiple_of(if in_checkpoint { 7 } else { every }) {
            return Ok(());
        }
        for crash in [Crash::Kill, Crash::LoseUnsynced, Crash::Mix] {
            let left = state.survivors(crash, &mut random, &mut Tally::default());
            let at = |e: String| format!("call {call}, {crash:?}: {e}");
            let content = content_of(&open(&Simulated::new(left)), false).map_err(at)?;
            let count = changes_of(&content).ok_or_else(|| at(format!("{} pairs of no moment", content.len())))?;
            let expected = match call {
                n if n < filled.0 => before..=before,
                n if n < synced => before..=SYNCED,
                n if n < closed => SYNCED..=CLOSED,
                _ => CLOSED..=CLOSED,
            };
            if !expected.contains(&count) || call < synced && ![before, SYNCED].contains(&count) {
                return Err(at(format!("{count} changes, expected {expected:?}")));
            }
        }
        Ok(())
    })
}

/// Changes and reads a table while a checkpoint of it is held, so that its cache is full of frames of later changes.
fn crash_beside_checkpoint() -> Result<(), String> {
    let disk = Simulated::new(State::default());
    let table = open(&disk);
    change_to(&table, 0..3000);
    let guard = table.pager.checkpoint_lock().acquire().unwrap().hold_long();
    let frozen = table.freeze_frames(0).unwrap();
    // Few enough that no further checkpoint is due, for which this thread would wait.
    const CHANGED: u32 = 3010;
    change_to(&table, 3000..CHANGED);
    for n in 0..3000 {
        table.get(&change(n * 7 % 3000).0).unwrap();
    }
    table.pager.checkpointer().write_frozen(frozen).unwrap();
    drop(guard);
    for crash in [Crash::Kill, Crash::LoseUnsynced] {
        let left = disk.state().survivors(crash, &mut Random::new(&[1]), &mut Tally::default());
        let content = content_of(&open(&Simulated::new(left)), false)?;
        if changes_of(&content) != Some(3000) {
            return Err(format!("{crash:?}: {} pairs, not those of the checkpoint", content.len()));
        }
    }
    if changes_of(&content_of(&table, false)?) != Some(CHANGED) {
        return Err("later changes are lost".into());
    }
    Ok(())
}

#[test]
fn a_crash_of_a_table_that_spills_leaves_a_checkpoint() {
    crash(200, &State::default(), 0).unwrap();
    crash_beside_checkpoint().unwrap();
}

#[test]
fn a_crash_of_a_sized_table_before_its_first_sync_leaves_it_empty() {
    crash(200, &State::default(), 4000).unwrap();
}

#[test]
fn a_crash_of_a_table_that_was_opened_again_leaves_a_checkpoint() {
    crash(200, &disk_with(REOPENED), 0).unwrap();
}

#[test]
fn a_crash_of_a_table_that_spills_loses_nothing_acknowledged() {
    const SYNCED: u32 = 2500;
    for durability in [Durability::Os, Durability::Sync] {
        for start in [State::default(), disk_with(REOPENED)] {
            let disk = Simulated::new(start.clone());
            let table = open_with(&disk, 0, durability);
            let before = table.counters().checkpoints;
            let mut acknowledged = Vec::new();
            for n in changes_of(&content_of(&table, false).unwrap()).unwrap()..SYNCED + 500 {
                change_to(&table, n..n + 1);
                if n + 1 == SYNCED {
                    table.sync().unwrap();
                }
                acknowledged.push((disk.calls(), n + 1));
            }
            let counters = table.counters();
            assert!(counters.checkpoints <= before + 1 && counters.memory_bytes < 75 * 4096, "{counters:?}");
            assert!(counters.frames_written > 100, "{counters:?}");
            let mut checked = 0u64;
            each_crash(&start, &disk.trace(), &mut Random::new(&[8]), |call, state| {
                checked += 1;
                let (first, last) = (acknowledged[0].0, acknowledged[acknowledged.len() - 1].0);
                if call < first || !checked.is_multiple_of((last - first) / 30) {
                    return Ok(());
                }
                for crash in [Crash::Kill, Crash::LoseUnsynced, Crash::Mix] {
                    let left = state.survivors(crash, &mut Random::new(&[call]), &mut Tally::default());
                    let content = content_of(&open_with(&Simulated::new(left), 0, durability), false)?;
                    let found = changes_of(&content).ok_or_else(|| format!("call {call}, {crash:?}: no moment"))?;
                    let done = acknowledged.iter().take_while(|(by, _)| *by <= call).last().map_or(0, |(_, n)| *n);
                    let kept = match (crash, durability) {
                        (Crash::Kill, _) | (_, Durability::Sync) => done,
                        _ if done >= SYNCED => SYNCED,
                        _ => 0,
                    };
                    if found < kept || found > done + 1 {
                        return Err(format!("call {call}, {crash:?}: {found} changes of {done}"));
                    }
                }
                Ok(())
            })
            .unwrap_or_else(|e| panic!("{durability:?}: {e}"));
            table.close().unwrap();
            assert_eq!(changes_of(&content_of(&open(&disk), false).unwrap()), Some(SYNCED + 500));
        }
    }
}

#[test]
fn a_frame_that_cannot_be_spilled_ends_the_writes_and_loses_no_pair() {
    const PAIRS: u32 = 3000;
    let disk = Simulated::new(State::default());
    let table = open(&disk);
    change_to(&table, 0..PAIRS);
    let before = content_of(&table, false).unwrap();
    // Writes fail and reads do not. Values of the same length need no further space.
    disk.plan(Some(Plan { fault: Fault::Short, at: disk.calls(), lasting: true }));
    let mut changes = before.keys().map(|key| table.put(key, &[7; 100]));
    let error = changes.find_map(Result::err).expect("memory is limited, so a write needs the disk");
    assert_eq!(error.kind(), ErrorKind::Poisoned);
    assert!(error.message().contains("write a block of"), "{error}");
    drop(changes);
    assert!(table.counters().memory_bytes < 75 * 4096, "{:?}", table.counters());
    let after: Content = table.scan().map(|pair| pair.map(|(key, value)| (key, value.into())).unwrap()).collect();
    assert!(after.keys().eq(before.keys()));
    assert!(after.iter().all(|(key, value)| *value == before[key] || value[..] == [7; 100]));
}

#[test]
fn a_table_in_memory_spills_to_its_temporary_file() {
    let table = TableOptions::new().page_bytes(512).cache_bytes(0).in_memory().unwrap();
    let mut expected = Content::new();
    let mut change_and_compare = |changes: std::ops::Range<u32>| {
        change_to(&table, changes.clone());
        expected.extend(changes.clone().map(|n| (change(n).0.into(), change(n).1.into())));
        for key in changes.filter(|n| n % 3 == 0).map(u32::to_be_bytes) {
            assert_eq!(table.remove(&key).unwrap(), expected.remove(&key[..]).is_some());
        }
        assert!(table.counters().memory_bytes < 75 * 4096, "{:?}", table.counters());
        assert!(content_of(&table, false).unwrap() == expected);
    };
    change_and_compare(0..6000);
    table.compact().unwrap();
    change_and_compare(6000..9000);
    assert_eq!(table.counters().checkpoints, 0);
    for key in (0..9000).map(u32::to_be_bytes) {
        table.remove(&key).unwrap();
    }
    table.compact().unwrap();
    let mut again = Content::new();
    change_to(&table, 0..5000);
    again.extend((0..5000).map(|n| (change(n).0.into(), change(n).1.into())));
    assert!(content_of(&table, false).unwrap() == again);
}

#[test]
fn threads_spill_during_checkpoints() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let open = || TableOptions::new().page_bytes(512).durability(Durability::None).cache_bytes(0).open(&path).unwrap();
    let table = open();
    // A thread's keys end with its number.
    const THREADS: u8 = 3;
    let key = |n: u32, thread: u8| [&n.to_be_bytes()[..], &[thread]].concat();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let table = &table;
            scope.spawn(move || {
                for n in 0..4000u32 {
                    table.put(&key(n, thread), &[n.to_be_bytes(); 20].concat()).unwrap();
                    let earlier = n.wrapping_mul(2_654_435_761) % (n + 1);
                    let found = table.get(&key(earlier, thread)).unwrap();
                    assert_eq!(found, Some([earlier.to_be_bytes(); 20].concat()), "{earlier} of thread {thread}");
                    if thread == 0 && n % 500 == 499 {
                        table.checkpoint().unwrap();
                    }
                }
            });
        }
    });
    let holds = |table: &Table| {
        assert_eq!((table.len(), table.verify().unwrap()), (u64::from(THREADS) * 4000, vec![]));
        for (n, thread) in (0..4000).flat_map(|n| (0..THREADS).map(move |thread| (n, thread))) {
            assert_eq!(table.get(&key(n, thread)).unwrap(), Some([n.to_be_bytes(); 20].concat()));
        }
    };
    holds(&table);
    table.close().unwrap();
    holds(&open());
}
