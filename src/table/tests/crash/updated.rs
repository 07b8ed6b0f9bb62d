//! Backups that are brought up to date: after any crash, a backup has its former content or that of the table.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at the disk from outside")]

use super::workload::Content;
use super::{content_of, each_crash};
use crate::checksum::crc32c;
use crate::io::simulated::{Crash, Event, Fault, Plan, Simulated, State, Tally};
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/disk/table.spt";
const COPY: &str = "/disk/copy.spt";

fn options(disk: &Simulated) -> TableOptions {
    let storage = Arc::new(disk.clone());
    TableOptions { storage, ..TableOptions::new().page_bytes(512).durability(Durability::Os).cache_bytes(1) }
}

fn open(disk: &Simulated, path: &str) -> Table {
    options(disk).open(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn backup(disk: &Simulated) -> Backup<'static> {
    Backup::new().options(options(disk))
}

/// Makes a few hundred changes: values of all lengths come, change and go.
fn change(table: &Table, random: &mut Random) {
    for _ in 0..100 + random.below(300) {
        let key = [random.below(256) as u8, random.below(2) as u8];
        match random.below(4) {
            0 => _ = table.remove(&key).unwrap(),
            1 => table.put(&key, &vec![random.next() as u8; random.below(20_000)]).unwrap(),
            _ => table.put(&key, &vec![random.next() as u8; random.below(300)]).unwrap(),
        }
    }
}

/// The content of a backup, in which nothing is wrong.
fn content(disk: &Simulated, path: &str) -> Result<Content, String> {
    let options = options(disk).create(false);
    content_of(&options.open(path).map_err(|e| e.to_string())?, false)
}

#[test]
fn a_backup_that_is_brought_up_to_date_has_what_the_table_has() {
    for seed in 0..6 {
        let random = &mut Random::new(&[seed]);
        let mut disk = Simulated::new(State::default());
        let mut table = open(&disk, PATH);
        change(&table, random);
        backup(&disk).save(&table, COPY).unwrap();
        for round in 0..12 {
            change(&table, random);
            if round % 5 == 4 {
                let keys: Vec<_> = content_of(&table, false).unwrap().into_keys().collect();
                keys.iter().skip(2).for_each(|key| assert!(table.remove(key).unwrap()));
                table.compact().unwrap();
            }
            match random.below(4) {
                // Its log is replayed by the reader.
                0 => backup(&disk).update_file(PATH, COPY).unwrap(),
                1 => {
                    drop(table);
                    backup(&disk).update_file(PATH, COPY).unwrap();
                    table = open(&disk, PATH);
                }
                // Somebody writes to the backup, and leaves a log.
                2 => {
                    let written = open(&disk, COPY);
                    change(&written, random);
                    let killed = Simulated::new(disk.state());
                    drop((written, table));
                    disk = killed;
                    backup(&disk).update_file(PATH, COPY).unwrap();
                    table = open(&disk, PATH);
                }
                _ => backup(&disk).update(&table, COPY).unwrap(),
            }
            let expected = content_of(&table, false).unwrap();
            let copied = Simulated::new(disk.state());
            assert!(content(&copied, COPY).as_ref() == Ok(&expected), "{seed}, {round}");
        }
    }
}

#[test]
fn an_update_that_crashes_or_fails_leaves_the_former_backup() {
    for seed in 0..2 {
        let random = &mut Random::new(&[seed, 1]);
        let disk = Simulated::new(State::default());
        let table = open(&disk, PATH);
        change(&table, random);
        backup(&disk).save(&table, COPY).unwrap();
        let before = content_of(&table, false).unwrap();
        change(&table, random);
        table.close().unwrap();
        let start = disk.state();
        let calls = disk.trace().len();
        backup(&disk).update_file(PATH, COPY).unwrap();
        let after = content(&Simulated::new(disk.state()), PATH).unwrap();
        assert!(before != after);
        let is_one_of = |disk: &Simulated| match content(disk, COPY) {
            Ok(found) if found == before || found == after => Ok(found == after),
            found => Err(format!("{:?}", found.map(|pairs| pairs.len()))),
        };
        let trace: Vec<Event> = disk.trace()[calls..].to_vec();
        let (mut olds, mut news) = (0, 0);
        each_crash(&start, &trace, random, |call, state| {
            for crash in [Crash::Kill, Crash::Mix] {
                let left = state.survivors(crash, &mut Random::new(&[seed, call]), &mut Tally::default());
                let disk = Simulated::new(left);
                let is_new = is_one_of(&disk).map_err(|e| format!("{seed}, call {call}, {crash:?}: {e}"))?;
                *(if is_new { &mut news } else { &mut olds }) += 1;
                // The next one completes it.
                backup(&disk).update_file(PATH, COPY).map_err(|e| e.to_string())?;
                assert!(content(&disk, COPY).as_ref() == Ok(&after), "{seed}, call {call}: updated again");
            }
            Ok(())
        })
        .unwrap();
        assert!(olds > 50 && news > 0, "{olds} old, {news} new");
        for fault in [Fault::Io, Fault::NoSpace, Fault::Short] {
            for at in 0..trace.len() as u64 {
                let disk = Simulated::new(start.clone());
                disk.plan(Some(Plan { fault, at, lasting: at % 2 == 1 }));
                let _ = backup(&disk).update_file(PATH, COPY);
                disk.plan(None);
                is_one_of(&disk).unwrap_or_else(|e| panic!("{seed}, {fault:?} at {at}: {e}"));
            }
        }
    }
}

#[test]
fn a_change_that_no_checksum_shows_is_copied() {
    // The polynomial of CRC-32C: added to any bytes, it leaves their checksum.
    let unseen = ((0x82f6_3b78_u64 << 1) | 1).to_le_bytes();
    let value: Vec<u8> = (0..200).collect();
    let mut other = value.clone();
    other[100..108].iter_mut().zip(unseen).for_each(|(byte, unseen)| *byte ^= unseen);
    assert_eq!(crc32c(&value), crc32c(&other));
    let disk = Simulated::new(State::default());
    let table = open(&disk, PATH);
    table.put(b"key", &value).unwrap();
    backup(&disk).save(&table, COPY).unwrap();
    for value in [&other, &value, &other] {
        table.put(b"key", value).unwrap();
        backup(&disk).update(&table, COPY).unwrap();
        assert!(open(&Simulated::new(disk.state()), COPY).get(b"key").unwrap().as_ref() == Some(value));
    }
}

#[test]
fn a_copy_of_replayed_changes_ignores_a_log_that_is_left_beside_it() {
    for checkpoints in 0..3 {
        let disk = Simulated::new(State::default());
        let table = open(&disk, PATH);
        table.append(b"key", b"a").unwrap();
        (0..checkpoints).for_each(|_| table.checkpoint().unwrap());
        table.append(b"key", b"b").unwrap();
        backup(&disk).save_file(PATH, COPY).unwrap();
        // Also the segments that its writer begins later.
        for later in 0..3 {
            let mut state = disk.state();
            let copied = state.content(Path::new(COPY)).unwrap().to_vec();
            state.add_file(Path::new(PATH), &copied);
            let found = open(&Simulated::new(state), PATH);
            let value = found.get(b"key").unwrap().unwrap();
            assert_eq!((value, found.replayed()), (b"ab".to_vec(), 0), "{checkpoints} checkpoints, {later} later");
            drop(found);
            table.append(b"key", b"c").unwrap();
            table.freeze_frames(0).map(|frozen| table.pager.checkpointer().write_frozen(frozen)).unwrap().unwrap();
            table.append(b"key", b"d").unwrap();
        }
    }
}

/// Bytes of all writes after the first `calls` calls.
fn written(disk: &Simulated, calls: usize) -> usize {
    let bytes = |event: &Event| match event {
        Event::Write { bytes, .. } => bytes.len(),
        _ => 0,
    };
    disk.trace()[calls..].iter().map(bytes).sum()
}

#[test]
fn an_update_writes_in_proportion_to_what_changed() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, PATH);
    (0..4000_u32).for_each(|n| table.put(&n.to_be_bytes(), &[7; 400]).unwrap());
    table.checkpoint().unwrap();
    backup(&disk).save(&table, COPY).unwrap();
    table.put(b"a new one", b"value").unwrap();
    table.put(&5_u32.to_be_bytes(), &[8; 400]).unwrap();
    table.close().unwrap();
    let calls = disk.trace().len();
    backup(&disk).update_file(PATH, COPY).unwrap();
    let bytes = written(&disk, calls);
    // A few frames, the leaves that they are in, nodes, a bitmap and headers, of a table of 1.6 MB.
    assert!(bytes < 30 * 4096, "{bytes} bytes");
    // A copy of the whole file is an earlier backup, too, and so is the backup of an update.
    let calls = disk.trace().len();
    backup(&disk).update_file(PATH, COPY).unwrap();
    assert!(written(&disk, calls) < 10 * 4096, "nothing changed");
}

#[test]
fn an_update_refuses_what_is_no_backup_of_the_table() {
    let disk = Simulated::new(State::default());
    let table = open(&disk, PATH);
    let other = open(&disk, COPY);
    let refusal = |disk: &Simulated| backup(disk).update(&table, COPY).unwrap_err().to_string();
    assert!(refusal(&disk).contains("open for writing"), "{}", refusal(&disk));
    // Their logs have writes that no file has.
    table.put(b"key", b"of the table").unwrap();
    other.put(b"key", b"of the other").unwrap();
    let killed = Simulated::new(disk.state());
    for (path, what) in [(COPY, "another table"), (PATH, "the table itself")] {
        let refused = backup(&killed).update_file(PATH, path).unwrap_err().to_string();
        assert!(refused.contains(&format!("not a backup of /disk/table.spt, but {what}")), "{refused}");
    }
    assert!(killed.state().same_files(&disk.state()), "refused after something was changed");
    other.close().unwrap();
    let memory = TableOptions::new().in_memory().unwrap();
    assert!(backup(&disk).update(&memory, COPY).unwrap_err().to_string().contains("in memory"));
    assert!(backup(&disk).update(&table, PATH).unwrap_err().to_string().contains("open for writing"));
    assert!(backup(&disk).update(&table, "/disk/absent").is_err());
}
