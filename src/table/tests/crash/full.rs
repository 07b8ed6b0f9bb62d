//! A full disk: writes fail and change nothing, and the same handle works once there is space again.
//!
//! The disk has space for a number of bytes (`io/simulated/room.rs`). Which call finds none depends on that number, so
//! each check tries many.

use super::workload::{Content, History, PATH, Promise, Run, Workload};
use super::{content_of, each_crash};
use crate::error::{Error, ErrorKind};
use crate::io::simulated::{Crash, Event, Simulated, State, Tally};
use crate::random::Random;
use crate::table::{Batch, Durability, Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

const DURABILITIES: [Durability; 3] = [Durability::None, Durability::Os, Durability::Sync];

fn options(disk: &Simulated, durability: Durability) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1).durability(durability).log_bytes(1);
    options.storage = Arc::new(disk.clone());
    options
}

/// Returns a pair; some values are in pages, some in extents.
fn pair(n: u32) -> (Vec<u8>, Vec<u8>) {
    let bytes = if n % 10 == 9 { 3000 } else { 20 * (n as usize % 10) };
    (n.to_be_bytes().into(), vec![n as u8; bytes])
}

fn assert_full(e: &Error, when: &str) {
    assert_eq!(e.kind(), ErrorKind::DiskFull, "{when}: {e}");
    assert!(e.hint().unwrap().ends_with("make room on the disk and try again."), "{when}: {e}");
}

/// Puts pairs on a disk with `room` free bytes until some are rejected, then frees space. Counts them in `refused`.
fn fill(options: &TableOptions, disk: &Simulated, room: u64, refused: &mut u32) {
    let when = format!("{:?}, cache {:?}, {room} bytes", options.durability, options.cache_bytes);
    disk.limit_room(None);
    let table = options.clone().open(PATH).unwrap();
    table.sync().unwrap();
    let mut content = content_of(&table, true).unwrap();
    let mut synced = content.clone();
    disk.limit_room(Some(room));
    let mut refused_here = 0;
    for n in 0.. {
        assert!(n < 20_000, "{when}: the disk takes all");
        let (key, value) = pair(n);
        match table.put(&key, &value) {
            Ok(()) => drop(content.insert(key, value.into())),
            Err(e) => {
                assert_full(&e, &when);
                *refused += 1;
                refused_here += 1;
            }
        }
        if n % 40 == 39 {
            match table.sync() {
                Ok(()) => synced = content.clone(),
                Err(e) => {
                    assert_full(&e, &when);
                    refused_here += 1;
                }
            }
        }
        if refused_here > 30 {
            break;
        }
    }
    if let Err(e) = table.checkpoint() {
        assert_full(&e, &when);
    } else {
        synced = content.clone();
    }
    assert_eq!(table.len(), content.len() as u64, "{when}");
    for (key, value) in &content {
        assert!(table.get(key).unwrap().as_deref() == Some(&value[..]), "{when}: {key:?}");
    }
    for crash in [Crash::Kill, Crash::LoseUnsynced] {
        let kept = match (options.durability, crash) {
            (Durability::Sync, _) | (Durability::Os, Crash::Kill) => &content,
            _ => &synced,
        };
        let left = disk.state().survivors(crash, &mut Random::new(&[room]), &mut Tally::default());
        let opened = super::full::options(&Simulated::new(left), options.durability).open(PATH).unwrap();
        let found = content_of(&opened, true).unwrap();
        assert!(kept.iter().all(|(key, value)| found.get(key) == Some(value)), "{when}: {crash:?} loses a pair");
    }

    disk.limit_room(None);
    table.put(b"room", b"again").unwrap_or_else(|e| panic!("{when}: with room again: {e}"));
    content.insert(b"room".into(), (*b"again").into());
    table.sync().unwrap_or_else(|e| panic!("{when}: a sync with room again: {e}"));
    for n in 30_000..30_100 {
        let (key, value) = pair(n);
        table.put(&key, &value).unwrap();
        content.insert(key, value.into());
    }
    table.checkpoint().unwrap();
    assert!(content_of(&table, true).unwrap() == content, "{when}");
    table.close().unwrap();
    assert!(content_of(&options.clone().open(PATH).unwrap(), true).unwrap() == content, "{when}: opened again");
}

/// Fills disks of several sizes. Returns how many puts were refused.
fn fill_disks(durability: Durability, inline: bool) -> u32 {
    let mut refused = 0;
    for cache_bytes in [1, 64 << 20] {
        for room in (300..1500).step_by(if inline { 36 } else { 148 }) {
            let disk = Simulated::new(State::default());
            let mut options = options(&disk, durability).cache_bytes(cache_bytes);
            options.inline_checkpoints = inline;
            fill(&options, &disk, room << 10, &mut refused);
        }
    }
    refused
}

#[test]
fn a_full_disk_changes_nothing_and_the_handle_works_once_there_is_space() {
    for durability in DURABILITIES {
        assert!(fill_disks(durability, true) > 100, "{durability:?}");
    }
}

#[test]
fn a_full_disk_and_checkpoints_of_other_threads() {
    for durability in DURABILITIES {
        fill_disks(durability, false);
    }
}

#[test]
fn a_full_disk_after_a_checkpoint_that_was_interrupted() {
    for durability in [Durability::None, Durability::Os] {
        let disk = Simulated::new(State::default());
        let table = options(&disk, durability).open(PATH).unwrap();
        let put = |n: u32| table.put(&pair(n).0, &pair(n).1).unwrap();
        (20_000..20_300).for_each(put);
        table.checkpoint().unwrap();
        let base = disk.state();
        let before = disk.calls() as usize;
        (20_300..21_000).for_each(put);
        table.checkpoint().unwrap();
        let trace = &disk.trace()[before..];
        let mut interrupted = 0;
        each_crash(&base, trace, &mut Random::new(&[1]), |call, state| {
            // At a sync, blocks are in the file, but the header is not.
            if !matches!(trace.get(call as usize), Some(Event::Sync(_))) {
                return Ok(());
            }
            interrupted += 1;
            for room in (600..1200).step_by(60) {
                let disk = disk_of(state);
                fill(&options(&disk, durability), &disk, room << 10, &mut 0);
            }
            Ok(())
        })
        .unwrap();
        assert!(interrupted > 1);
    }
}

/// Returns the disk as a killed process leaves it.
fn disk_of(state: &State) -> Simulated {
    Simulated::new(state.survivors(Crash::Kill, &mut Random::new(&[1]), &mut Tally::default()))
}

#[test]
fn a_cache_full_of_dirty_frames_on_a_full_disk_refuses_writes_until_there_is_room() {
    const PAIRS: u32 = 3000;
    for durability in [Durability::None, Durability::Os] {
        let disk = Simulated::new(State::default());
        disk.limit_room(None);
        let open = || options(&disk, durability).log_bytes(4 << 20).cache_bytes(1).open(PATH).unwrap();
        let table = open();
        (0..PAIRS).for_each(|n| table.put(&n.to_be_bytes(), &[1; 100]).unwrap());
        // Leaves no free block in the file.
        table.compact().unwrap();
        table.close().unwrap();
        let table = open();
        let put = |n: u32, byte: u8| table.put(&(n % PAIRS).to_be_bytes(), &[byte; 100]);
        // Space for two segments of the log, but too little for half of the cache.
        disk.limit_room(Some(disk.used_room() + (180 << 10)));
        let made = (0..10_000).map(|n| put(n * 37, 2)).take_while(Result::is_ok).count() as u32;
        assert!((10..600).contains(&made), "{durability:?}: {made} writes");
        for n in made..made + 1000 {
            assert_full(&put(n * 37, 2).unwrap_err(), "a full cache");
        }
        assert!(table.counters().memory_bytes < 80 * 4096, "{:?}", table.counters());
        let value = |n: u32| table.get(&(n * 37 % PAIRS).to_be_bytes()).unwrap().unwrap()[0];
        assert!((0..PAIRS).all(|n| value(n) == 1 + u8::from(n < made)), "{durability:?}");
        disk.limit_room(None);
        (made..PAIRS).for_each(|n| put(n * 37, 2).unwrap());
        table.checkpoint().unwrap();
        assert!((0..PAIRS).all(|n| value(n) == 2));
    }
}

#[test]
fn without_reservations_a_full_disk_poisons_and_loses_nothing() {
    let mut poisoned = 0;
    for room in (100..500).step_by(10) {
        let disk = Simulated::new(State::default());
        disk.reserve_nothing();
        let table = options(&disk, Durability::Os).open(PATH).unwrap();
        (0..300).for_each(|n| table.put(&pair(n).0, &pair(n).1).unwrap());
        let content = content_of(&table, false).unwrap();
        disk.limit_room(Some(room << 10));
        match table.checkpoint() {
            Ok(()) => {}
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::DiskFull, "{room}: {e}");
                poisoned += u32::from(table.put(b"more", b"").is_err_and(|e| e.kind() == ErrorKind::Poisoned));
            }
        }
        drop(table);
        disk.limit_room(None);
        assert!(content_of(&options(&disk, Durability::Os).open(PATH).unwrap(), true).unwrap().len() >= content.len());
    }
    assert!(poisoned > 3, "{poisoned}");
}

#[test]
fn frames_dirtied_while_room_is_reserved_get_theirs_before_anything_changes() {
    const PAIRS: u32 = 12_000;
    let disk = Simulated::new(State::default());
    disk.limit_room(None);
    // Without a log, which needs room, too.
    let open = || options(&disk, Durability::None).open(PATH).unwrap();
    let table = open();
    (0..PAIRS).for_each(|n| table.put(&pair(n).0, &pair(n).1).unwrap());
    // Its only checkpoint is in order from the start of the file, so that no block is free.
    table.close().unwrap();
    let table = open();
    let put = |n: u32| table.put(&pair(n).0, &pair(n).1).unwrap();
    // Enough for ten of its frames, but not for all.
    disk.limit_room(Some(disk.used_room() + (200 << 10)));
    (0..10).for_each(put);
    let guard = table.pager.checkpoint_lock().acquire().unwrap();
    table.pager.checkpointer().reserve_checkpoint().unwrap();
    (10..PAIRS).for_each(put);
    let frozen = {
        let _alone = table.gate.close().unwrap();
        table.pager.checkpointer().freeze(&table.buckets.root(table.gate.totals(), String::new()).encode(), 0)
    };
    assert_full(&frozen.err().expect("more frames are dirty than there is room for"), "dirtied since");
    disk.limit_room(None);
    drop(guard);
    put(PAIRS);
    table.checkpoint().unwrap();
    assert_eq!(content_of(&table, false).unwrap().len(), PAIRS as usize + 1);
}

/// Growth leaves enough space for a checkpoint that gives space back.
#[test]
fn a_table_on_a_full_disk_can_be_emptied_and_filled_again() {
    for durability in DURABILITIES {
        for room in (4000..6000).step_by(235) {
            let when = format!("{durability:?}, {room} KiB");
            let disk = Simulated::new(State::default());
            let mut options = options(&disk, durability).cache_bytes(64 << 20);
            options.inline_checkpoints = true;
            disk.limit_room(Some(room << 10));
            let table = options.clone().open(PATH).unwrap();
            let mut kept = Vec::new();
            let mut refused = 0;
            for n in 0.. {
                let (key, value) = pair(n);
                match table.put(&key, &value) {
                    Ok(()) => kept.push(key),
                    Err(e) => {
                        assert_full(&e, &when);
                        refused += 1;
                    }
                }
                if refused > 30 {
                    break;
                }
            }
            let half = kept.len() / 2;
            let before = table.counters().checkpoints;
            for key in kept.drain(half..) {
                assert!(table.remove(&key).unwrap_or_else(|e| panic!("{when}: {half}: {e}")));
            }
            let checkpoints = table.counters().checkpoints - before;
            assert!(checkpoints < 100, "{when}: {checkpoints} checkpoints for {half} removals");
            table.compact().unwrap_or_else(|e| panic!("{when}: {e}"));
            assert_eq!(table.len(), kept.len() as u64);
            for n in 100_000..100_000 + half as u32 / 4 {
                table.put(&pair(n).0, &pair(n).1).unwrap_or_else(|e| panic!("{when}: again: {e}"));
            }
            table.close().unwrap_or_else(|e| panic!("{when}: close: {e}"));
            assert_eq!(options.open(PATH).unwrap().verify().unwrap(), [], "{when}");
        }
    }
}

/// Less than the step by which a file grows.
const STEP_BYTES: u64 = 900 << 10;

/// The keys that batches change.
const KEYS: usize = 60;

fn key_of(n: usize) -> Vec<u8> {
    format!("{n:0width$}", width = if n % 10 == 7 { 90 } else { 4 }).into_bytes()
}

/// Returns the length of a value in a page, in an overflow page, or in an extent that a put writes through.
fn bytes_of(random: &mut Random) -> usize {
    random.pick(&[0, 20, 100, 300, 700, 3000, 9000])
}

/// Makes a table on a disk that gave it no more than it needs.
fn crowded(seed: u64, durability: Durability) -> (Simulated, Table, Content) {
    let disk = Simulated::new(State::default());
    let mut options = options(&disk, durability).log_bytes(4 << 20);
    options.inline_checkpoints = true;
    disk.let_map(seed.is_multiple_of(2));
    disk.limit_room(Some(STEP_BYTES));
    let table = options.open(PATH).unwrap();
    let mut random = Random::new(&[seed, 20]);
    for n in 0..KEYS {
        let value = vec![n as u8; bytes_of(&mut random)];
        let mut room = disk.used_room();
        disk.limit_room(Some(room));
        while random.percent(80) && table.put(&key_of(n), &value).is_err() {
            room += 16 << 10;
            disk.limit_room(Some(room));
        }
        if seed % 3 == 1 && n == KEYS / 2 {
            disk.limit_room(Some(room + STEP_BYTES));
            table.checkpoint().unwrap();
        }
    }
    // The log preallocates more than it needs, up to a step: enough for a batch.
    disk.limit_room(Some(disk.used_room() + 2 * STEP_BYTES));
    let mut nothing = table.batch();
    (0..1000).for_each(|n| nothing.remove(format!("{n:040}").as_bytes()).unwrap());
    nothing.commit().unwrap();
    let content = content_of(&table, false).unwrap();
    (disk, table, content)
}

/// Makes changes of each kind, several of some keys.
fn change<'t>(table: &'t Table, seed: u64, content: &mut Content) -> Batch<'t> {
    let mut random = Random::new(&[seed, 21]);
    let mut batch = table.batch();
    for step in 0..40 {
        let key = key_of(random.below(KEYS));
        let value = vec![100 + step; bytes_of(&mut random)];
        match random.below(4) {
            0 => {
                batch.remove(&key).unwrap();
                content.remove(&key);
            }
            1 => {
                batch.append(&key, &value).unwrap();
                let old = content.get(&key).map_or(Vec::new(), |old| old.to_vec());
                content.insert(key, [old, value].concat().into());
            }
            _ => {
                batch.put(&key, &value).unwrap();
                content.insert(key, value.into());
            }
        }
    }
    batch
}

#[test]
fn a_batch_on_a_full_disk_changes_nothing_and_the_handle_works_once_there_is_space() {
    let (mut refused, mut halfway, mut made) = (0, 0, 0);
    for seed in 0..18 {
        let durability = DURABILITIES[seed as usize / 2 % 3];
        for room in (0..).step_by(1 + seed as usize % 5) {
            let when = format!("seed {seed}, {durability:?}, {room} pages");
            let (disk, table, before) = crowded(seed, durability);
            let mut after = before.clone();
            let batch = change(&table, seed, &mut after);
            disk.limit_room(Some(disk.used_room() + 4096 * room as u64));
            let done = batch.commit();
            let now = match &done {
                Ok(()) => &after,
                Err(e) => {
                    assert_full(e, &when);
                    halfway += u32::from(!e.message().contains("-log"));
                    &before
                }
            };
            assert!(content_of(&table, false).unwrap() == *now, "{when}: {done:?}");
            if durability != Durability::None {
                let left = disk_of(&disk.state());
                let found = content_of(&super::full::options(&left, durability).open(PATH).unwrap(), true).unwrap();
                assert!(found == *now, "{when}: after a kill");
            }
            disk.limit_room(None);
            let mut last = now.clone();
            change(&table, seed + 100, &mut last).commit().unwrap_or_else(|e| panic!("{when}: with room again: {e}"));
            table.checkpoint().unwrap();
            assert!(content_of(&table, false).unwrap() == last, "{when}: with room again");
            drop(table);
            let opened = super::full::options(&disk, durability).open(PATH).unwrap();
            assert!(content_of(&opened, false).unwrap() == last, "{when}: opened again");
            if done.is_ok() {
                made += 1;
                break;
            }
            refused += 1;
        }
    }
    assert!(refused > 40 && halfway > 20 && made == 18, "{refused} refused, {halfway} halfway, {made} made");
}

/// Opens the files that a crash left on a full disk. Acknowledged writes are present; new writes succeed, or fail
/// without a change; with space all succeed. Returns the number of failed writes.
fn open_without_room(
    workload: &Workload,
    left: &State,
    history: &History,
    bounds: (usize, usize),
) -> Result<u32, String> {
    let disk = || {
        let disk = Simulated::new(left.clone());
        disk.limit_room(None);
        disk.limit_room(Some(disk.used_room()));
        disk
    };
    let has_number = |header: &[u8]| header.get(16..24).is_some_and(|number| number != [0; 8]);
    if left.content(Path::new(PATH)).is_none_or(|file| !file.chunks(4096).take(2).any(has_number)) {
        return Ok(0); // no table was created yet
    }
    // The cache holds the log's changes, because this disk has no space for temporary files.
    let mut content = match workload.open_to_read_large(&disk()) {
        Ok(table) => Some(content_of(&table, true)?),
        Err(e) => return Err(format!("open to read: {e}")),
    };
    let disk = disk();
    let table = workload.open(&disk).map_err(|e| format!("open: {e}"))?;
    let found = content_of(&table, true)?;
    if content.get_or_insert_with(|| found.clone()) != &found || history.find(&found, bounds).is_none() {
        return Err(format!("found {} pairs, the reader {:?}", found.len(), content.map(|content| content.len())));
    }
    let k = found.len();
    let mut content = found;
    let mut refused = 0;
    for n in 0..20u8 {
        let (key, value) = (vec![b'w', n], vec![n; 2000 * usize::from(n % 4)]);
        match table.put(&key, &value) {
            Ok(()) => drop(content.insert(key, value.into())),
            Err(e) if e.kind() == ErrorKind::DiskFull => refused += 1,
            Err(e) => return Err(format!("put: {e}")),
        }
    }
    if content_of(&table, true)? != content {
        return Err(format!("{k} pairs were found; other content after {refused} of 20 puts were refused"));
    }
    disk.limit_room(None);
    for n in 20..40u8 {
        let (key, value) = (vec![b'w', n], vec![n; 2000 * usize::from(n % 4)]);
        table.put(&key, &value).map_err(|e| format!("put with room again: {e}"))?;
        content.insert(key, value.into());
    }
    table.close().map_err(|e| format!("close with room again: {e}"))?;
    let table = workload.open(&disk).map_err(|e| format!("open again: {e}"))?;
    if content_of(&table, true)? != content {
        return Err("opened again with room: other content".into());
    }
    Ok(refused)
}

#[test]
fn an_open_after_a_kill_needs_no_space_and_writes_continue_once_there_is_some() {
    let (mut opens, mut refused) = (0, 0);
    for seed in 0..12 {
        let workload = Workload::new(seed, 25);
        let run = Run::new(&workload, Simulated::new(State::default()), None, History::default()).finish().unwrap();
        let trace = run.disk.trace();
        let mut random = Random::new(&[seed, 22]);
        each_crash(&State::default(), &trace, &mut Random::new(&[seed, 23]), |call, state| {
            if random.below(40) > 0 {
                return Ok(());
            }
            opens += 1;
            let left = state.survivors(Crash::Kill, &mut random, &mut Tally::default());
            let bounds = run.history.bounds(call, Crash::Kill, Promise::of(workload.durability));
            refused += open_without_room(&workload, &left, &run.history, bounds)
                .map_err(|e| format!("seed {seed}, killed at call {call}: {e}"))?;
            Ok(())
        })
        .unwrap();
    }
    assert!(opens > 100 && refused > 500, "{opens} opens, {refused} writes refused");
}
