//! Opening a table after a crash: a copy of its files, made while it is open, is what `kill -9` leaves.
//!
//! `src/table/tests/crash/mod.rs` tests power loss, torn writes and disk errors with a simulated disk.

use splitpoint::{Backup, Durability, ErrorKind, PublishedCounters, Table, TableOptions};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Copies the table and its other files, as a crash at this moment would leave them.
fn crashed(path: &Path, to: &Path) -> PathBuf {
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    to.join(path.file_name().unwrap())
}

fn key(i: u32) -> [u8; 4] {
    i.to_le_bytes()
}

#[test]
fn writes_survive_a_crash_without_any_sync() {
    for durability in [Durability::Os, Durability::Sync] {
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = before.path().join("t.spt");
        let table = TableOptions::new().durability(durability).open(&path).unwrap();
        for i in 0..1000u32 {
            table.put(&key(i), format!("value {i}").as_bytes()).unwrap();
        }
        for i in 0..100 {
            assert!(table.remove(&key(i)).unwrap());
            table.append(&key(i + 100), b"!").unwrap();
        }
        table.put(b"large", &vec![7; 300_000]).unwrap();
        table.append(b"large", &vec![8; 200_000]).unwrap();
        assert!(!table.insert_new(&key(500), b"no").unwrap());
        table.update(&key(501), |old| Some([old.unwrap(), b"?"].concat())).unwrap();

        let table = Table::open(crashed(&path, after.path())).unwrap();
        assert_eq!(table.replayed(), 1000 + 200 + 2 + 1);
        assert_eq!(table.len(), 901);
        assert_eq!(table.verify().unwrap(), []);
        for i in 0..1000 {
            let value = format!(
                "value {i}{}",
                if i == 501 {
                    "?"
                } else if i < 200 {
                    "!"
                } else {
                    ""
                }
            );
            let expected = (i >= 100).then(|| value.into_bytes());
            assert_eq!(table.get(&key(i)).unwrap(), expected, "{durability:?} {i}");
        }
        assert_eq!(table.get(b"large").unwrap().unwrap(), [vec![7; 300_000], vec![8; 200_000]].concat());
    }
}

#[test]
fn a_log_that_a_thread_makes_ready_ahead_of_the_writers_has_every_record() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = TableOptions::new().log_bytes(24 << 20).open(&path).unwrap();
    let value = |i: u32| vec![i as u8; 500 + i as usize % 1500]; // longer ones would not be in the log
    let put = |i: u32| table.put(&key(i % 5000), &value(i)).unwrap();
    // Segments end while the thread works.
    (0..80_000).for_each(put);
    let checkpoints = table.counters().checkpoints;
    assert!(checkpoints >= 3, "{checkpoints}");
    // The process dies with several mebibytes in its segment; the thread begins at four.
    table.checkpoint().unwrap();
    (80_000..85_000).for_each(put);
    let table = Table::open(crashed(&path, after.path())).unwrap();
    assert_eq!(table.replayed(), 5000);
    (80_000..85_000).for_each(|i| assert_eq!(table.get(&key(i % 5000)).unwrap(), Some(value(i)), "{i}"));
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_log_continues_where_it_was_cut_crash_after_crash() {
    let directories: Vec<_> = (0..6).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut path = directories[0].path().join("t.spt");
    for round in 0..5u32 {
        let table = Table::open(&path).unwrap();
        assert_eq!(table.replayed(), u64::from(round) * 100);
        assert_eq!(table.len(), u64::from(round) * 100);
        for i in 0..100 {
            table.put(&key(round * 100 + i), &key(i)).unwrap();
        }
        path = crashed(&path, directories[round as usize + 1].path());
    }
    let table = Table::open(&path).unwrap();
    assert_eq!((table.len(), table.replayed()), (500, 500));
    table.close().unwrap();
    assert_eq!(Table::open(&path).unwrap().replayed(), 0);
}

#[test]
fn a_small_log_is_emptied_by_checkpoints_and_loses_nothing() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = TableOptions::new().log_bytes(1 << 17).open(&path).unwrap();
    let value = [9; 100];
    for i in 0..50_000u32 {
        table.put(&key(i), &value).unwrap();
    }
    let logs: u64 = std::fs::read_dir(before.path())
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.file_name().to_string_lossy().contains("-log"))
        .map(|e| e.metadata().unwrap().len())
        .sum();
    assert!(logs < 1 << 19, "{logs} bytes of log");
    drop(table);
    assert_eq!(std::fs::read_dir(before.path()).unwrap().count(), 1, "only the table is left after a close");
    let table = Table::open(crashed(&path, after.path())).unwrap();
    assert_eq!((table.len(), table.replayed()), (50_000, 0));
}

#[test]
fn a_write_larger_than_the_log_makes_it_larger() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = TableOptions::new().log_bytes(1 << 17).open(&path).unwrap();
    table.put(b"small", b"1").unwrap();
    table.put(b"large", &vec![5; 3 << 20]).unwrap();
    table.put(b"after", b"2").unwrap();
    let table = Table::open(crashed(&path, after.path())).unwrap();
    assert_eq!(table.get(b"large").unwrap().unwrap().len(), 3 << 20);
    assert_eq!(
        (table.get(b"small").unwrap().unwrap(), table.get(b"after").unwrap().unwrap()),
        (b"1".into(), b"2".into())
    );
}

#[test]
fn clear_is_made_again_whole() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..5000u32 {
        table.put(&key(i), b"v").unwrap();
    }
    table.checkpoint().unwrap();
    table.clear().unwrap();
    table.put(b"last", b"1").unwrap();
    let table = Table::open(crashed(&path, after.path())).unwrap();
    assert_eq!((table.len(), table.replayed()), (1, 2));
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_log_of_another_table_is_left_out() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let table = Table::open(one.path().join("t.spt")).unwrap();
    table.put(b"k", b"of the table that went").unwrap();
    std::fs::copy(one.path().join("t.spt-log0"), two.path().join("t.spt-log0")).unwrap();
    let table = Table::open(two.path().join("t.spt")).unwrap();
    assert_eq!((table.len(), table.replayed()), (0, 0));
    table.put(b"k", b"new").unwrap();
    table.close().unwrap();
}

#[test]
fn a_damaged_log_header_is_an_error_that_says_what_to_do() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    table.put(b"k", b"v").unwrap();
    let copy = crashed(&path, after.path());
    let log = after.path().join("t.spt-log0");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    drop(TableOptions::new().read_only(true).open(&copy).unwrap());
    let one = tempfile::tempdir().unwrap();
    assert_eq!(Table::open(crashed(&copy, one.path())).unwrap().replayed(), 1, "there is a second header");
    bytes[542] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let error = Table::open(&copy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("Move the file away"), "{error}");
    std::fs::remove_file(&log).unwrap();
    assert!(Table::open(&copy).unwrap().is_empty());
}

#[test]
fn a_reader_of_a_crashed_table_sees_what_was_in_the_log_and_touches_nothing() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..5000u32 {
        table.put(&key(i), b"v").unwrap();
    }
    let copy = crashed(&path, after.path());
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    let (file, log) = (bytes(&copy), bytes(&after.path().join("t.spt-log0")));
    let reader = TableOptions::new().read_only(true).open(&copy).unwrap();
    assert_eq!((reader.len(), reader.replayed()), (5000, 5000));
    assert_eq!(reader.get(&key(4999)).unwrap().unwrap(), b"v");
    assert_eq!(reader.verify().unwrap(), []);
    assert_eq!(reader.put(b"k", b"v").unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(reader);
    assert!(bytes(&copy) == file && bytes(&after.path().join("t.spt-log0")) == log);
    assert_eq!(std::fs::read_dir(after.path()).unwrap().count(), 2);
}

#[test]
fn a_backup_of_a_crashed_table_has_what_was_in_the_log() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = before.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    table.put(b"k", b"v").unwrap();
    let copy = crashed(&path, after.path());
    let backup = before.path().join("backup.spt");
    splitpoint::Backup::new().save_file(&copy, &backup).unwrap();
    let backup = Table::open(&backup).unwrap();
    assert_eq!((backup.get(b"k").unwrap().unwrap(), backup.replayed()), (b"v".into(), 0));
}

#[test]
fn a_scan_during_writes_reads_nothing_from_the_next_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..20_000u32 {
        table.put(&key(i), b"old").unwrap();
    }
    table.checkpoint().unwrap();
    let reader = TableOptions::new().read_only(true).open(&path).unwrap();
    let before = reader.counters().memory_bytes;
    let mut scan = reader.scan();
    assert_eq!(scan.next_ref().unwrap().unwrap().1, b"old");
    assert!(reader.counters().memory_bytes >= before + 8 * 4096, "nothing came with the first frame");
    (0..20_000).for_each(|i| table.put(&key(i), b"new").unwrap());
    table.checkpoint().unwrap();
    let mut count = 1;
    while let Some((_, value)) = scan.next_ref().unwrap() {
        assert_eq!(value, b"old");
        count += 1;
    }
    assert_eq!(count, 20_000);
}

/// Returns the pairs that a scan of a read-only handle finds, and its error messages.
fn scanned(path: &Path, cache_bytes: u64) -> (Vec<Vec<u8>>, Vec<String>) {
    let reader = TableOptions::new().read_only(true).cache_bytes(cache_bytes).open(path).unwrap();
    let (mut pairs, mut errors) = (Vec::new(), Vec::new());
    let mut scan = reader.scan();
    loop {
        match scan.next_ref() {
            Ok(Some((key, value))) => pairs.push([key, value].concat()),
            Ok(None) => return (pairs, errors),
            Err(e) => errors.push(e.to_string()),
        }
    }
}

#[test]
fn a_scan_finds_damage_where_it_is_whatever_frames_it_brings_around() {
    const FRAME: usize = 4096;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..40_000u32 {
        table.put(&key(i), b"value").unwrap();
    }
    table.close().unwrap();
    let whole = std::fs::read(&path).unwrap();
    let frames = whole.len() / FRAME;
    assert!(frames > 128, "the small cache below holds {frames} frames");
    for name in ["none", "a bit", "torn", "misdirected"] {
        let mut bytes = whole.clone();
        // Some frames are read first, some are read with others; none is the pager's own.
        for frame in [15, 16, 31, 32, 33, frames / 2, frames - 1] {
            let other = &whole[(frame - 4) * FRAME..][..FRAME];
            let frame = &mut bytes[frame * FRAME..][..FRAME];
            match name {
                "a bit" => frame[100] ^= 4,
                "torn" => frame[FRAME / 2..].copy_from_slice(&other[FRAME / 2..]),
                "misdirected" => frame.copy_from_slice(other),
                _ => {}
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let (pairs, errors) = scanned(&path, 1 << 30);
        let (expected, expected_errors) = scanned(&path, 1);
        assert!(pairs == expected, "{name}: {} pairs, {} expected", pairs.len(), expected.len());
        assert_eq!(errors, expected_errors, "{name}");
        assert_eq!(errors.is_empty(), name == "none", "{name}: {errors:?}");
        assert_eq!(pairs.len() == 40_000, name == "none", "{name}: {}", pairs.len());
    }
}

#[test]
fn a_reader_during_writes_reads_one_checkpoint_to_the_end_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    let put_all = |value: &[u8]| (0..20_000u32).for_each(|i| table.put(&key(i), value).unwrap());
    put_all(b"old");
    table.checkpoint().unwrap();
    let open = || TableOptions::new().read_only(true).cache_bytes(1).open(&path).unwrap();
    let readers = [open(), open()];
    let holds = |reader: &Table, value: &[u8], len| {
        assert_eq!(reader.len(), len);
        for i in 0..20_000 {
            assert_eq!(reader.get(&key(i)).unwrap().as_deref(), Some(value), "{i}");
        }
        assert_eq!(reader.verify().unwrap(), []);
    };
    put_all(b"new");
    table.put(b"more", b"1").unwrap();
    holds(&readers[0], b"old", 20_000);
    table.checkpoint().unwrap();
    let later = open();
    put_all(b"newer");
    table.checkpoint().unwrap();
    put_all(&[b'x'; 500]);
    table.checkpoint().unwrap();
    (10..20_000).for_each(|i| assert!(table.remove(&key(i)).unwrap()));
    table.compact().unwrap();
    readers.iter().for_each(|reader| holds(reader, b"old", 20_000));
    holds(&later, b"new", 20_001);
    // A reader's copy has the state of its checkpoint.
    let copy = directory.path().join("copy.spt");
    readers[0].backup(&copy).unwrap();
    holds(&Table::open(&copy).unwrap(), b"old", 20_000);
    drop(readers);
    table.put(b"more", b"2").unwrap();
    table.checkpoint().unwrap();
    holds(&later, b"new", 20_001);
    let newest = open();
    assert_eq!((newest.get(b"more").unwrap().unwrap(), newest.len()), (b"2".to_vec(), 11));
    table.close().unwrap();
    holds(&later, b"new", 20_001);
    drop((later, newest));
    Table::open(&path).unwrap().close().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "a file is left");
}

#[test]
fn a_reader_that_stays_costs_one_copy_of_the_file_however_many_checkpoints_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    let put_all = |value: &[u8]| (0..20_000u32).for_each(|i| table.put(&key(i), value).unwrap());
    put_all(b"old");
    table.checkpoint().unwrap();
    let bytes = std::fs::metadata(&path).unwrap().len();
    let reader = TableOptions::new().read_only(true).open(&path).unwrap();
    for n in 0..10u8 {
        put_all(&[n; 3]);
        table.checkpoint().unwrap();
    }
    let most = std::fs::metadata(&path).unwrap().len();
    assert!(most < bytes * 7 / 2, "{most} of {bytes}");
    assert_eq!(reader.get(&key(1)).unwrap().unwrap(), b"old");
}

/// Runs `work` in a child made by `fork`; returns its exit status.
#[expect(unsafe_code, reason = "fork is what is tested")]
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child has a copy of everything except the other threads, touches nothing they may have locked (only a
    // table of its own test), and exits without running anything else.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
            // SAFETY: ends this process immediately.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: waits for our own child; `status` is ours.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status), "the child ended by a signal: {status}");
            libc::WEXITSTATUS(status)
        }
    }
}

/// What a public method does in a forked child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InChild {
    /// Returns `Forked`: it would use the parent's file, log or latches.
    Refuses,
    /// Answers from the child's own memory, or through files that the child opens itself.
    Answers,
}
use InChild::{Answers, Refuses};

/// Returns the outcome of a call, as the table below lists it.
fn outcome<T>(result: splitpoint::Result<T>) -> Option<InChild> {
    match result {
        Ok(_) => Some(Answers),
        Err(e) if e.kind() == ErrorKind::Forked => Some(Refuses),
        Err(_) => None,
    }
}

/// Calls a method of the parent's table; the path is that of its directory.
type Call = fn(&Table, &Path) -> Option<InChild>;

/// Every public method that takes a table or borrows one, with what it does in a forked child.
const METHODS: &[(&str, InChild, Call)] = &[
    ("Table::get", Refuses, |t, _| outcome(t.get(b"k"))),
    ("Table::get_into", Refuses, |t, _| outcome(t.get_into(b"k", &mut Vec::new()))),
    // Returns that it does not know, and `get_into` fails.
    ("Table::get_to", Refuses, |t, _| outcome(t.get_to(b"k", &mut [0; 8]))),
    ("Table::get_ready", Refuses, |t, _| t.get_ready(b"k", &mut Vec::new()).is_none().then_some(Refuses)),
    ("Table::get_ref", Refuses, |t, _| outcome(t.get_ref(b"k").map(drop))),
    ("Table::value_len", Refuses, |t, _| outcome(t.value_len(b"k"))),
    ("Table::get_part", Refuses, |t, _| outcome(t.get_part(b"k", |len| 0..len, &mut Vec::new()))),
    ("Table::write_part", Refuses, |t, _| outcome(t.write_part(b"k", 0, b"c"))),
    ("Table::return_free_memory", Answers, |t, _| {
        t.return_free_memory();
        Some(Answers)
    }),
    ("Table::move_value", Refuses, |t, _| outcome(t.move_value(b"a", b"b"))),
    ("Table::put_parts", Refuses, |t, _| outcome(t.put_parts(b"a", 100_000, |_, _| Ok(())))),
    ("Table::merge_slack", Refuses, |t, _| outcome(t.merge_slack(1))),
    ("Table::usage", Answers, |t, _| (t.usage().used_bytes > 0).then_some(Answers)),
    ("Table::contains", Refuses, |t, _| outcome(t.contains(b"k"))),
    ("Table::put", Refuses, |t, _| outcome(t.put(b"k", b"child"))),
    ("Table::insert_new", Refuses, |t, _| outcome(t.insert_new(b"new", b"child"))),
    ("Table::append", Refuses, |t, _| outcome(t.append(b"k", b"child"))),
    ("Table::remove", Refuses, |t, _| outcome(t.remove(b"k"))),
    ("Table::update", Refuses, |t, _| outcome(t.update(b"k", |_| None))),
    ("Table::clear", Refuses, |t, _| outcome(t.clear())),
    ("Table::get_many", Refuses, |t, _| outcome(t.get_many(&["k"]))),
    ("Table::get_many_with", Refuses, |t, _| outcome(t.get_many_with(&["k"], |_, _| ()))),
    ("Table::put_many", Refuses, |t, _| outcome(t.put_many(&[("k", "child")]))),
    ("Table::put_many_counted", Refuses, |t, _| outcome(t.put_many_counted(&[("k", "child")]).1)),
    ("Table::append_many", Refuses, |t, _| outcome(t.append_many(&[("k", "child")]))),
    ("Table::append_many_within", Refuses, |t, _| {
        outcome(t.append_many_within(&[("k", "child")], |_| usize::MAX, |_, _| ()))
    }),
    ("Table::remove_many_with", Refuses, |t, _| outcome(t.remove_many_with(&["k"], |_, _| ()))),
    ("Table::sync", Refuses, |t, _| outcome(t.sync())),
    ("Table::checkpoint", Refuses, |t, _| outcome(t.checkpoint())),
    ("Table::compact", Refuses, |t, _| outcome(t.compact())),
    ("Table::compact_with", Refuses, |t, _| outcome(t.compact_with(|_, _| ControlFlow::Continue(())))),
    ("Table::verify", Refuses, |t, _| outcome(t.verify())),
    ("Table::verify_while", Refuses, |t, _| outcome(t.verify_while(|| ControlFlow::Continue(())))),
    ("Table::survey", Refuses, |t, _| outcome(t.survey())),
    ("Table::survey_while", Refuses, |t, _| outcome(t.survey_while(|| ControlFlow::Continue(())))),
    ("Table::replace", Refuses, |t, _| outcome(t.replace(b"k", b"child"))),
    ("Table::compare_and_set", Refuses, |t, _| outcome(t.compare_and_set(b"k", None, Some(b"child")))),
    ("Table::edit_many", Refuses, |t, _| outcome(t.edit_many(&[b"k"], 8, |_, _, _| splitpoint::KeyEdit::Remove).1)),
    ("Table::newer", Answers, |t, _| outcome(t.newer())),
    // Takes the handle, so the child opens its own.
    ("Table::catch_up", Answers, |_, place| {
        outcome(TableOptions::new().read_only(true).open(place.join("t.spt")).and_then(Table::catch_up))
    }),
    ("Table::scan_prefix", Answers, |t, _| Some(t.scan_prefix(0, 1)).map(|_| Answers)),
    ("Table::backup", Refuses, |t, place| outcome(t.backup(place.join("backup.spt")))),
    ("Table::freeze", Refuses, |t, place| {
        outcome(t.freeze(place.join("frozen.spd"), &splitpoint::DictionaryBuilder::new()))
    }),
    // Takes the table, so it comes last: see below.
    ("Table::close", Refuses, |_, _| Some(Refuses)),
    ("Table::batch", Answers, |t, _| Some(t.batch()).map(|_| Answers)),
    ("Table::scan", Answers, |t, _| Some(t.scan()).map(|_| Answers)),
    ("Table::scan_from", Answers, |t, _| Some(t.scan_from(7)).map(|_| Answers)),
    ("Table::len", Answers, |t, _| (t.len() == 1001).then_some(Answers)),
    ("Table::is_empty", Answers, |t, _| (!t.is_empty()).then_some(Answers)),
    ("Table::hash_function", Answers, |t, _| (!t.hash_function().name().is_empty()).then_some(Answers)),
    ("Table::replayed", Answers, |t, _| (t.replayed() == 0).then_some(Answers)),
    ("Table::checkpoint_number", Answers, |t, _| (t.checkpoint_number() > 0).then_some(Answers)),
    ("Table::frames_read", Answers, |t, _| Some(t.frames_read()).map(|_| Answers)),
    ("Table::may_read_file", Answers, |t, _| Some(t.may_read_file()).map(|_| Answers)),
    ("Table::counters", Answers, |t, _| (t.counters().pairs == 1001).then_some(Answers)),
    ("Table::iter", Answers, |t, _| Some(t.iter()).map(|_| Answers)),
    ("Table::keys", Refuses, |t, _| outcome(t.keys().next()?)),
    ("Table::values", Refuses, |t, _| outcome(t.values().next()?)),
    ("Table::retain", Refuses, |t, _| outcome(t.retain(|_, _| false))),
    ("Table::extend", Refuses, |t, _| outcome(t.extend([("k", "child")]))),
    ("Table::entry", Answers, |t, _| Some(t.entry(b"k")).map(|_| Answers)),
    ("Entry::key", Answers, |t, _| (t.entry(b"k").key() == b"k").then_some(Answers)),
    ("Entry::and_modify", Answers, |t, _| Some(t.entry(b"k").and_modify(Vec::clear)).map(|_| Answers)),
    ("Entry::or_insert", Refuses, |t, _| outcome(t.entry(b"k").or_insert(b"child"))),
    ("Entry::or_insert_with", Refuses, |t, _| outcome(t.entry(b"k").or_insert_with(|| b"child".to_vec()))),
    ("Entry::apply", Refuses, |t, _| outcome(t.entry(b"k").and_modify(Vec::clear).apply())),
    ("Entry::remove", Refuses, |t, _| outcome(t.entry(b"k").remove())),
    ("Table::typed", Refuses, |t, _| outcome(t.typed::<u8, u8>())),
    ("Table::record_types", Refuses, |t, _| outcome(t.record_types("u8 -> u8"))),
    ("Table::adopt_types", Answers, |t, _| t.adopt_types("u8 -> u8").is_ok().then_some(Answers)),
    ("Table::types", Answers, |t, _| t.types().is_empty().then_some(Answers)),
    ("Table::with", Answers, |t, _| Some(t.with(Durability::Sync)).map(|_| Answers)),
    ("WriteView::table", Answers, |t, _| (t.with(Durability::Sync).table().len() == 1001).then_some(Answers)),
    ("WriteView::entry", Answers, |t, _| Some(t.with(Durability::Sync).entry(b"k")).map(|_| Answers)),
    ("WriteView::batch", Answers, |t, _| t.with(Durability::Sync).batch().is_empty().then_some(Answers)),
    ("WriteView::put", Refuses, |t, _| outcome(t.with(Durability::Sync).put(b"k", b"child"))),
    ("WriteView::replace", Refuses, |t, _| outcome(t.with(Durability::Sync).replace(b"k", b"child"))),
    ("WriteView::insert_new", Refuses, |t, _| outcome(t.with(Durability::Sync).insert_new(b"new", b"child"))),
    ("WriteView::append", Refuses, |t, _| outcome(t.with(Durability::Sync).append(b"k", b"child"))),
    ("WriteView::remove", Refuses, |t, _| outcome(t.with(Durability::Sync).remove(b"k"))),
    ("WriteView::compare_and_set", Refuses, |t, _| {
        outcome(t.with(Durability::Sync).compare_and_set(b"k", None, Some(b"child")))
    }),
    ("WriteView::update", Refuses, |t, _| outcome(t.with(Durability::Sync).update(b"k", |_| None))),
    ("WriteView::put_many", Refuses, |t, _| outcome(t.with(Durability::Sync).put_many(&[("k", "child")]))),
    ("WriteView::append_many", Refuses, |t, _| outcome(t.with(Durability::Sync).append_many(&[("k", "child")]))),
    ("WriteView::clear", Refuses, |t, _| outcome(t.with(Durability::Sync).clear())),
    ("Scan::next_ref", Refuses, |t, _| outcome(t.scan().next_ref().map(drop))),
    ("Scan::next", Refuses, |t, _| outcome(t.scan().next()?)),
    ("Scan::cursor", Answers, |t, _| (t.scan().cursor() == Some(0)).then_some(Answers)),
    ("Scan::only_keys", Answers, |t, _| (t.scan().only_keys().cursor() == Some(0)).then_some(Answers)),
    ("Scan::only_heads", Answers, |t, _| (t.scan().only_heads(8).cursor() == Some(0)).then_some(Answers)),
    ("Scan::at_boundary", Answers, |t, _| t.scan().at_boundary().then_some(Answers)),
    ("Batch::put", Answers, |t, _| outcome(t.batch().put(b"k", b"child"))),
    ("Batch::append", Answers, |t, _| outcome(t.batch().append(b"k", b"child"))),
    ("Batch::remove", Answers, |t, _| outcome(t.batch().remove(b"k"))),
    ("Batch::insert_new", Answers, |t, _| outcome(t.batch().insert_new(b"k", b"child"))),
    ("Batch::update", Answers, |t, _| outcome(t.batch().update(b"k", |_| None))),
    ("Batch::len", Answers, |t, _| {
        let mut batch = t.batch();
        batch.put(b"k", b"child").unwrap();
        (batch.len() == 1).then_some(Answers)
    }),
    ("Batch::is_empty", Answers, |t, _| t.batch().is_empty().then_some(Answers)),
    ("Batch::commit", Refuses, |t, _| {
        let mut batch = t.batch();
        batch.put(b"k", b"child").unwrap();
        outcome(batch.commit())
    }),
    ("Backup::save", Refuses, |t, place| outcome(Backup::new().overwrite(true).save(t, place.join("backup.spt")))),
    ("Backup::update", Refuses, |t, place| outcome(Backup::new().update(t, place.join("backup.spt")))),
    // These take paths, so the child opens its own descriptors.
    ("Backup::save_file", Answers, |_, place| {
        outcome(Backup::new().save_file(place.join("t.spt"), place.join("file.bak")))
    }),
    ("Backup::update_file", Answers, |_, place| {
        outcome(Backup::new().update_file(place.join("t.spt"), place.join("file.bak")))
    }),
    ("Backup::restore", Answers, |_, place| {
        let restored = Backup::new().overwrite(true).restore(place.join("file.bak"), place.join("t.spt"));
        (restored.unwrap_err().kind() == ErrorKind::Locked).then_some(Answers)
    }),
    ("Backup::overwrite", Answers, |_, _| Some(Backup::new().overwrite(true)).map(|_| Answers)),
    ("Backup::options", Answers, |_, _| Some(Backup::new().options(TableOptions::new())).map(|_| Answers)),
    ("Backup::progress", Answers, |_, _| {
        Some(Backup::new().progress(|_, _| std::ops::ControlFlow::Continue(()))).map(|_| Answers)
    }),
];

#[test]
fn the_fork_test_knows_every_public_method() {
    let mut there = std::collections::BTreeSet::from(["Scan::next".to_owned()]); // of a trait
    let folder = |name| std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let files = folder("src/table").chain(folder("src/buckets")).map(|entry| entry.unwrap().path());
    let freeze = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/freeze.rs");
    for file in files.chain([freeze]).filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut of = "";
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if line.starts_with("impl") {
                let head = line.split(" for ").last().unwrap();
                let head = head.strip_prefix("impl ").or(head.split_once("> ").map(|(_, of)| of)).unwrap_or(head);
                of = head.split(['<', ' ']).next().unwrap();
            }
            let Some(rest) = line.strip_prefix("    pub fn ") else { continue };
            // Arguments may be on the next line.
            let arguments = format!("{rest}{}", lines.peek().unwrap_or(&"").trim());
            let takes_self =
                ["(self", "(mut self", "(&self", "(&mut self", "(&'t self"].iter().any(|s| arguments.contains(s));
            if takes_self && ["Table", "WriteView", "Entry", "Scan", "Batch", "Backup"].contains(&of) {
                let name = rest.split(['(', '<']).next().unwrap();
                there.insert(format!("{of}::{name}"));
            }
        }
    }
    assert!(there.len() > 40, "{there:?}");
    assert_eq!(METHODS.iter().map(|(name, ..)| (*name).to_owned()).collect::<std::collections::BTreeSet<_>>(), there);
}

#[test]
fn a_handle_refuses_in_a_forked_child_and_works_in_the_parent() {
    let (directory, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = directory.path().join("t.spt");
    let mut table = Some(Table::open(&path).unwrap());
    let parents = table.as_ref().unwrap();
    parents.put(b"k", b"v").unwrap();
    (0..1000).for_each(|i| parents.put(&key(i), b"acknowledged").unwrap());
    parents.sync().unwrap();
    let status = in_child(|| {
        let mut wrong = 0;
        for &(name, expected, call) in METHODS {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                call(table.as_ref().unwrap(), directory.path())
            }));
            if !matches!(done, Ok(Some(done)) if done == expected) {
                eprintln!("{name} in a forked child: {done:?}, expected {expected:?}");
                wrong += 1;
            }
        }
        let closed = outcome(table.take().unwrap().close());
        if closed != Some(Refuses) {
            eprintln!("Table::close in a forked child: {closed:?}");
            wrong += 1;
        }
        wrong
    });
    assert_eq!(status, 0, "methods that do something else");
    let table = table.unwrap();
    assert!(!directory.path().join("backup.spt").exists());
    assert!(directory.path().join("t.spt-log0").exists(), "the child took the log away");
    assert_eq!(Table::open(&path).unwrap_err().kind(), ErrorKind::Locked, "the child let the lock go");
    table.put(b"k", b"parent").unwrap();
    // Opens what a kill of the parent leaves.
    let copy = Table::open(crashed(&path, after.path())).unwrap();
    assert_eq!((copy.len(), copy.get(b"k").unwrap().unwrap()), (1001, b"parent".into()));
    assert_eq!(copy.verify().unwrap(), []);
    table.close().unwrap();
}

#[test]
fn a_forked_child_that_drops_a_table_leaves_all_to_its_parent() {
    for durability in [Durability::None, Durability::Os, Durability::Sync] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let mut table = Some(TableOptions::new().durability(durability).open(&path).unwrap());
        table.as_ref().unwrap().put(b"k", b"v").unwrap();
        let files = || {
            let bytes = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.unwrap().path()).unwrap();
            let mut files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(bytes).collect();
            files.sort();
            files
        };
        let before = files();
        let status = in_child(|| {
            drop(table.take());
            // The parent still holds the lock.
            i32::from(Table::open(&path).err().map(|e| e.kind()) != Some(ErrorKind::Locked))
        });
        assert_eq!(status, 0, "{durability:?}");
        assert!(files() == before, "{durability:?}");
        assert_eq!(Table::open(&path).unwrap_err().kind(), ErrorKind::Locked);
        table.unwrap().close().unwrap();
        assert_eq!(Table::open(&path).unwrap().get(b"k").unwrap().unwrap(), b"v");
    }
}

#[test]
fn a_follower_answers_in_a_forked_child_while_a_thread_of_the_parent_updates_it() {
    use std::sync::{Mutex, mpsc::channel};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let writer = Table::open(&path).unwrap();
    let ((reached, reach), (resume, resumed)) = (channel(), channel::<()>());
    let (reached, resumed, parent) = (Mutex::new(reached), Mutex::new(resumed), std::process::id());
    // The thread that replays the log has the follower's lock.
    let replaying = TableOptions::new().replay_progress(move |_, _| {
        if std::process::id() == parent {
            let _ = reached.lock().unwrap().send(());
            let _ = resumed.lock().unwrap().recv();
        }
        ControlFlow::Continue(())
    });
    let follower = replaying.follow(&path).unwrap();
    writer.put(b"k", b"v").unwrap();
    std::thread::scope(|scope| {
        let resume = resume;
        let following = scope.spawn(|| follower.get(b"k").unwrap());
        reach.recv().unwrap();
        let status = in_child(|| i32::from(follower.get(b"k").unwrap().as_deref() != Some(b"v")));
        drop(resume);
        assert_eq!(following.join().unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(status, 0);
    });
}

#[test]
fn a_dictionary_answers_in_a_forked_child_and_a_build_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let builder = splitpoint::DictionaryBuilder::new();
    builder.build(path("there.spd"), [("k", "v")]).unwrap();
    let there = splitpoint::Dictionary::open(path("there.spd")).unwrap();
    let mut build = Some(builder.start(path("new.spd")).unwrap());
    build.as_mut().unwrap().push(b"a", b"1").unwrap();
    let status = in_child(|| {
        // The child only reads the file, at offsets that each call passes.
        let answered = there.get(b"k").unwrap().as_deref() == Some(b"v");
        let pushed = outcome(build.as_mut().unwrap().push(b"b", b"child"));
        let finished = outcome(build.take().unwrap().finish());
        i32::from(!answered) + 2 * i32::from(pushed != Some(Refuses)) + 4 * i32::from(finished != Some(Refuses))
    });
    assert_eq!(status, 0);
    let mut build = build.unwrap();
    build.push(b"c", b"2").unwrap();
    assert_eq!(build.finish().unwrap(), 2);
    let built = splitpoint::Dictionary::open(path("new.spd")).unwrap();
    assert_eq!((built.get(b"a").unwrap(), built.get(b"b").unwrap()), (Some(b"1".into()), None));
}

#[test]
fn a_forked_child_leaves_the_published_counters_to_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let mut table = Some(TableOptions::new().publish_counters(true).open(&path).unwrap());
    let status = in_child(|| {
        let counted = table.as_ref().map(|t| t.counters().pairs);
        drop(table.take());
        let published = PublishedCounters::read(&path).unwrap();
        i32::from(counted != Some(0) || !published.is_some_and(|p| p.is_open))
    });
    assert_eq!(status, 0);
    let table = table.unwrap();
    table.put(b"k", b"v").unwrap();
    let published = || PublishedCounters::read(&path).unwrap().filter(|p| p.is_open).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while published().counters.puts == 0 {
        assert!(std::time::Instant::now() < deadline, "{:?}", published());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(published().process, std::process::id());
    table.close().unwrap();
    assert_eq!(PublishedCounters::read(&path).unwrap(), None);
}

#[test]
fn a_table_in_memory_is_the_childs_own() {
    let table = Table::in_memory().unwrap();
    table.put(b"k", b"v").unwrap();
    let status = in_child(|| {
        table.put(b"k", b"child").unwrap();
        i32::from(table.get(b"k").unwrap().unwrap() != b"child")
    });
    assert_eq!(status, 0);
    assert_eq!(table.get(b"k").unwrap().unwrap(), b"v");
}
