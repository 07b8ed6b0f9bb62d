//! Writes with a durability other than the table's: their promises, at every crash.
//!
//! A crash leaves the state after some operation: not before the last one that promised to survive this kind of crash,
//! and never half of one.

use super::workload::{Content, PATH};
use super::{Crash, Done, Simulated, State, content_of, some_crashes};
use crate::error::Result;
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions, WriteView};
use std::sync::Arc;

/// An operation of the run.
struct Made {
    /// The numbers of the disk's calls before it and after it.
    calls: (u64, u64),
    asked: Durability,
    /// The content after it.
    content: Content,
}

fn options(disk: &Simulated, durability: Durability) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).log_bytes(1 << 17).seed(1).durability(durability);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options
}

/// Makes a random change in the table and in `content`.
fn change(view: WriteView<'_>, content: &mut Content, random: &mut Random) -> Result<()> {
    let keys = [random.below(12) as u8, 12 + random.below(12) as u8].map(|k| vec![k; 3]);
    let len = random.pick(&[1, 20, 200, 900, 5000]);
    let value: Vec<u8> = std::iter::repeat_with(|| random.next() as u8).take(len).collect();
    let [first, second] = keys;
    let old = content.get(&first).map(|old| old.to_vec());
    match random.below(15) {
        0 => {
            view.remove(&first)?;
            content.remove(&first);
        }
        1 => {
            view.append(&first, &value)?;
            content.insert(first, [old.unwrap_or_default(), value].concat().into());
        }
        2 => {
            if view.insert_new(&first, &value)? {
                content.insert(first, value.into());
            }
        }
        3 => {
            let mut batch = view.batch();
            batch.put(&first, &value)?;
            batch.put(&second, &value)?;
            batch.commit()?;
            content.insert(first, value.clone().into());
            content.insert(second, value.into());
        }
        4 => {
            view.update(&first, |_| Some(value.clone()))?;
            content.insert(first, value.into());
        }
        5 => {
            view.put_many(&[(&first, &value)])?;
            content.insert(first, value.into());
        }
        6 => {
            assert_eq!(view.entry(&first).remove()?, old);
            content.remove(&first);
        }
        7 => {
            let stored = view.entry(&first).or_insert(&value)?;
            assert_eq!(stored, old.unwrap_or(value));
            content.insert(first, stored.into());
        }
        8 => {
            let stored = view.entry(&first).and_modify(|old| old.push(1)).or_insert(&value)?;
            content.insert(first, stored.into());
        }
        9 => {
            if let Some(stored) = view.entry(&first).and_modify(|old| old.push(2)).apply()? {
                content.insert(first, stored.into());
            }
        }
        10 => {
            assert_eq!(view.replace(&first, &value)?, old);
            content.insert(first, value.into());
        }
        11 => {
            assert!(view.compare_and_set(&first, old.as_deref(), Some(&value))?);
            content.insert(first, value.into());
        }
        12 => {
            view.append_many(&[(&first, &value)])?;
            content.insert(first, [old.unwrap_or_default(), value].concat().into());
        }
        13 if random.percent(20) => {
            view.clear()?;
            content.clear();
        }
        _ => {
            view.put(&first, &value)?;
            content.insert(first, value.into());
        }
    }
    Ok(())
}

/// Makes operations with every durability in a table opened with `opened`.
fn make(disk: &Simulated, opened: Durability, random: &mut Random) -> Vec<Made> {
    let table = options(disk, opened).open(PATH).unwrap();
    let mut made = vec![Made { calls: (0, 0), asked: Durability::None, content: Content::new() }];
    for _ in 0..70 {
        let before = disk.calls();
        // Rarely `Sync`, so that a crash has something to lose.
        let asked =
            random.pick(&[Durability::None, Durability::None, Durability::Os, Durability::Os, Durability::Sync]);
        let mut content = made.last().expect("the empty table").content.clone();
        change(table.with(asked), &mut content, random).unwrap();
        made.push(Made { calls: (before, disk.calls()), asked, content });
    }
    // The process ends here: a close would write more, which is not part of the promise.
    std::mem::forget(table);
    made
}

fn survives(asked: Durability, crash: Crash) -> bool {
    match asked {
        Durability::None => false,
        Durability::Os => crash == Crash::Kill,
        Durability::Sync => true,
    }
}

fn check(seed: u64, opened: Durability) -> std::result::Result<(), String> {
    let mut random = Random::new(&[seed, 21]);
    let disk = Simulated::new(State::default());
    let made = make(&disk, opened, &mut random);
    let mut done = Done::default();
    let mut torn = Random::new(&[seed, 22]);
    some_crashes(&State::default(), &disk.trace(), 3, &mut torn, |call, state| {
        for crash in [Crash::Kill, Crash::LoseUnsynced, Crash::Mix, Crash::Prefix] {
            let is_kept = |op: &Made| op.calls.1 <= call && survives(op.asked, crash);
            let first = made.iter().rposition(is_kept).unwrap_or(0);
            let last = made.iter().rposition(|op| op.calls.0 < call).unwrap_or(0).max(first);
            let left = Simulated::new(state.survivors(crash, &mut random, &mut done.fired));
            let at = |e: String| format!("seed {seed}, opened {opened:?}, call {call}, {crash:?}: {e}");
            let table: Table = options(&left, opened).open(PATH).map_err(|e| at(e.to_string()))?;
            let found = content_of(&table, false).map_err(at)?;
            if !made[first..=last].iter().any(|op| op.content == found) {
                let elsewhere = made.iter().position(|op| op.content == found);
                return Err(at(format!("found state {elsewhere:?}, expected {first} to {last}")));
            }
        }
        Ok(())
    })
}

#[test]
fn a_crash_keeps_each_write_that_asked_for_more_and_no_half_of_one_that_asked_for_less() {
    for opened in [Durability::Sync, Durability::Os, Durability::None] {
        (0..4).for_each(|seed| check(seed, opened).unwrap());
    }
}

#[test]
fn a_write_that_waits_for_the_disk_makes_the_earlier_ones_durable() {
    for opened in [Durability::Sync, Durability::Os, Durability::None] {
        let disk = Simulated::new(State::default());
        let table = options(&disk, opened).open(PATH).unwrap();
        (0..200u32).for_each(|n| table.with(Durability::None).put(&n.to_le_bytes(), b"quick").unwrap());
        // It changes nothing, but its answer depends on an earlier write.
        assert!(!table.with(Durability::Sync).insert_new(&7u32.to_le_bytes(), b"").unwrap());
        let left = disk.state().survivors(Crash::LoseUnsynced, &mut Random::new(&[1]), &mut Default::default());
        let after = options(&Simulated::new(left), opened).open(PATH).unwrap();
        assert_eq!(after.len(), 200, "{opened:?}");
        std::mem::forget(table);
    }
}
