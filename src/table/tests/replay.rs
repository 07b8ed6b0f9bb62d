//! Compares a replay of many records at a time, in parts, with a replay one by one.

use crate::error::ErrorKind;
use crate::io::simulated::{Simulated, State};
use crate::pager::wal::BlockLimits;
use crate::random::Random;
use crate::table::options::ReplayPlan;
use crate::table::{Table, TableOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const PATH: &str = "/disk/t.spt";
const LOG: &str = "/disk/t.spt-log0";

/// The files of a disk.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What an open finds: the number of records, the pairs and the faults, or the error.
type Found = Result<(u64, BTreeMap<Vec<u8>, Vec<u8>>, Vec<String>), String>;

/// The reference: one record after another.
const ONE_BY_ONE: ReplayPlan =
    ReplayPlan { block: BlockLimits { bytes: 1, records: 1 }, parts: Some(1), threads_from: usize::MAX };

fn in_parts(parts: usize, records: usize, threads: bool) -> ReplayPlan {
    let threads_from = if threads { 0 } else { usize::MAX };
    ReplayPlan { block: BlockLimits { bytes: 1 << 17, records }, parts: Some(parts), threads_from }
}

fn options(disk: &Simulated) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1).log_bytes(8 << 20);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options
}

/// Returns the files that a process leaves if it is killed after `work` with a new table.
fn killed_after(work: impl FnOnce(&Table)) -> Files {
    let disk = Simulated::new(State::default());
    disk.let_map(true);
    let table = options(&disk).open(PATH).unwrap();
    work(&table);
    let state = disk.state();
    let content = |path: &Path| state.content(path).map(|bytes| (path.to_path_buf(), bytes.to_vec()));
    [PATH, LOG, "/disk/t.spt-log1"].into_iter().filter_map(|path| content(Path::new(path))).collect()
}

fn open(files: &Files, plan: ReplayPlan) -> Found {
    let mut state = State::default();
    files.iter().for_each(|(path, bytes)| state.add_file(path, bytes));
    let mut options = options(&Simulated::new(state));
    options.replay = plan;
    let table = options.open(PATH).map_err(|e| format!("{:?}: {e}", e.kind()))?;
    let faults = table.verify().unwrap().into_iter().map(|fault| fault.what).collect();
    let pairs = table.scan().map(|pair| pair.map(|(key, value)| (key, value.to_vec())));
    Ok((table.replayed(), pairs.collect::<Result<_, _>>().map_err(|e| format!("{e}"))?, faults))
}

/// Compares a replay by `plan` with one of record after record; returns what both find.
fn same(files: &Files, plan: ReplayPlan) -> Result<Found, String> {
    let (expected, found) = (open(files, ONE_BY_ONE), open(files, plan));
    let shown = |found: &Found| match found {
        Ok((records, pairs, faults)) => format!("{records} records, {} pairs, {faults:?}", pairs.len()),
        Err(e) => e.clone(),
    };
    match found == expected {
        true => Ok(found),
        false => Err(format!("{plan:?}: {}, one by one: {}", shown(&found), shown(&expected))),
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 => vec![7; 700],
        n => format!("key {n}").into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(20) {
        0 => 60_000 + random.below(30_000),
        1 | 2 => 600 + random.below(3000),
        _ => random.below(40),
    };
    std::iter::repeat_with(|| random.next() as u8).take(len).collect()
}

/// Makes changes of every kind to few keys.
fn history(table: &Table, random: &mut Random, steps: usize) {
    for _ in 0..steps {
        let (key, value) = (key(random), value(random));
        match random.below(100) {
            0 => table.clear().unwrap(),
            1 => table.checkpoint().unwrap(),
            2..20 => _ = table.remove(&key).unwrap(),
            20..45 => _ = table.append(&key, &value).unwrap(),
            45..50 => _ = table.insert_new(&key, &value).unwrap(),
            50..55 => _ = table.compare_and_set(&key, None, Some(&value)).unwrap(),
            55..65 => {
                let mut batch = table.batch();
                batch.put(&key, b"first").unwrap();
                batch.append(&key, &value).unwrap();
                batch.remove(&self::key(random)).unwrap();
                batch.append(&self::key(random), b"last").unwrap();
                batch.commit().unwrap();
            }
            _ => table.put(&key, &value).unwrap(),
        }
    }
}

fn histories() -> Result<(), String> {
    for seed in 0..20 {
        let mut random = Random::new(&[seed, 31]);
        let steps = 50 + random.below(250);
        let mut expected = BTreeMap::new();
        let files = killed_after(|table| {
            history(table, &mut random, steps);
            expected = table.scan().map(|pair| pair.map(|(key, value)| (key, value.to_vec())).unwrap()).collect();
        });
        for (parts, threads) in [(1, false), (2, false), (2, true), (4, true)] {
            let records = random.pick(&[1, 2, 7, 100, usize::MAX]);
            let found = same(&files, in_parts(parts, records, threads)).map_err(|e| format!("seed {seed}: {e}"))?;
            let (_, pairs, faults) = found.map_err(|e| format!("seed {seed}: {e}"))?;
            if pairs != expected || !faults.is_empty() {
                return Err(format!("seed {seed}: other pairs than before the kill, or {faults:?}"));
            }
        }
    }
    Ok(())
}

/// Checks the order of changes to a few keys; each change shows its position.
fn orders() -> Result<(), String> {
    let numbered = |key: u32| (0..1000u32).filter(move |n| n % 3 == key).flat_map(u32::to_le_bytes).collect();
    let files = killed_after(|table| {
        for n in 0..1000u32 {
            table.append(&(n % 3).to_le_bytes(), &n.to_le_bytes()).unwrap();
        }
    });
    let expected: BTreeMap<_, Vec<u8>> = (0..3u32).map(|key| (key.to_le_bytes().to_vec(), numbered(key))).collect();
    for (parts, records) in [(1, 1000), (2, 7), (2, usize::MAX), (4, 3), (4, 100)] {
        let (replayed, found, _) = open(&files, in_parts(parts, records, true))?;
        if found != expected || replayed != 1000 {
            return Err(format!("{parts} parts, {records} records a block: another order"));
        }
    }
    Ok(())
}

/// Truncates a small log at each byte, and damages each byte.
fn damages() -> Result<(), String> {
    let whole = killed_after(|table| {
        (0..20u8).for_each(|n| table.put(&[n], &[n; 5]).unwrap());
        table.checkpoint().unwrap();
        table.put(b"first", &[1; 9]).unwrap();
        table.append(&[3], b"more").unwrap();
        table.put(b"stored", &[9; 900]).unwrap();
        table.remove(&[4]).unwrap();
        let mut batch = table.batch();
        batch.put(&[5], b"in a batch").unwrap();
        batch.remove(&[6]).unwrap();
        batch.commit().unwrap();
        table.clear().unwrap();
        table.put(&[7], b"after").unwrap();
        table.append(&[7], b"wards").unwrap();
    });
    // The segment since the checkpoint.
    let log = if whole.contains_key(Path::new("/disk/t.spt-log1")) { "/disk/t.spt-log1" } else { LOG };
    let bytes = &whole[Path::new(log)];
    let end = bytes.iter().rposition(|&b| b != 0).unwrap() + 1;
    let mut lengths = std::collections::BTreeSet::new();
    for at in 4096..end {
        for (cut, plan) in [(true, in_parts(2, usize::MAX, true)), (false, in_parts(2, 3, false))] {
            let mut files = whole.clone();
            let log = files.get_mut(Path::new(log)).unwrap();
            if cut {
                log.truncate(at)
            } else {
                log[at] ^= 1 << (at % 8)
            }
            let found = same(&files, plan).map_err(|e| format!("byte {at}, cut {cut}: {e}"))?;
            lengths.insert(found.map_err(|e| format!("byte {at}, cut {cut}: {e}"))?.0);
        }
    }
    if lengths.len() < 8 { Err(format!("only {lengths:?} records")) } else { Ok(()) }
}

/// Damages frames of the table: the error must be that of the first record that needs one.
fn failures() -> Result<(), String> {
    let mut failed = 0;
    for seed in 0..20 {
        let mut random = Random::new(&[seed, 32]);
        let mut files = killed_after(|table| {
            (0..600u32).for_each(|n| table.put(&n.to_le_bytes(), &[1; 20]).unwrap());
            table.checkpoint().unwrap();
            (0..200).for_each(|_| table.put(&(random.below(600) as u32).to_le_bytes(), &[2; 20]).unwrap());
        });
        let table = files.get_mut(Path::new(PATH)).unwrap();
        // The header and the maps stay undamaged.
        for frame in 3..table.len() / 4096 {
            if random.percent(30) {
                table[4096 * frame + 100] ^= 1;
            }
        }
        let plan = in_parts(random.pick(&[2, 4]), random.pick(&[5, 50, usize::MAX]), random.percent(50));
        failed += u64::from(same(&files, plan).map_err(|e| format!("seed {seed}: {e}"))?.is_err());
    }
    if failed < 15 { Err(format!("only {failed} opens failed")) } else { Ok(()) }
}

#[test]
fn a_replay_of_many_records_at_a_time_finds_what_one_by_one_finds() {
    histories().unwrap();
}

#[test]
fn a_replay_in_parts_keeps_the_order_of_each_key() {
    orders().unwrap();
}

#[test]
fn a_log_cut_or_damaged_at_any_byte_is_replayed_to_the_same_record() {
    damages().unwrap();
}

#[test]
fn the_error_of_a_replay_in_parts_is_that_of_the_first_record_that_fails() {
    failures().unwrap();
}

#[test]
fn a_replay_reports_its_bytes_and_one_that_is_stopped_is_made_by_the_next_open() {
    let files = killed_after(|table| {
        (0..3000u32).for_each(|n| table.put(&n.to_le_bytes(), &[7; 300]).unwrap());
    });
    let open = |stops_after: usize| {
        let mut state = State::default();
        files.iter().for_each(|(path, bytes)| state.add_file(path, bytes));
        let disk = Simulated::new(state);
        let reports = Arc::new(Mutex::new(Vec::new()));
        let reported = reports.clone();
        let opened = options(&disk).replay_progress(move |done, most| {
            let mut reports = reported.lock().unwrap();
            reports.push((done, most));
            if reports.len() > stops_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let opened = opened.open(PATH).map(|table| table.len());
        let reports = reports.lock().unwrap().clone();
        (opened, reports, disk)
    };
    let (opened, reports, _) = open(usize::MAX);
    assert_eq!(opened.unwrap(), 3000);
    assert!(reports.len() > 1 && reports.is_sorted_by_key(|&(done, _)| done), "{reports:?}");
    let (read, most) = *reports.last().unwrap();
    let log_bytes = files[Path::new(LOG)].len() as u64;
    assert!(3000 * 300 < read && read <= most && most <= log_bytes, "{reports:?}, {log_bytes}");
    for stops_after in [0, 1] {
        let (stopped, reports, disk) = open(stops_after);
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(reports.len(), stops_after + 1);
        assert_eq!(options(&disk).open(PATH).unwrap().len(), 3000);
    }
}

#[test]
fn an_open_with_nothing_to_replay_reports_nothing() {
    let disk = Simulated::new(State::default());
    disk.let_map(true);
    let silent = || options(&disk).replay_progress(|_, _| panic!("nothing is replayed"));
    silent().open(PATH).unwrap().put(b"k", b"v").unwrap();
    assert_eq!(silent().open(PATH).unwrap().len(), 1);
}
