//! What a crash leaves, opened again: the copy of a table's files, made while it is open, is what `kill -9` leaves.
//!
//! Power loss, torn writes and errors of the disk are tested with a simulated disk, `src/table/crash.rs`.

use splitpoint::{Durability, ErrorKind, PublishedCounters, Table, TableOptions};
use std::path::{Path, PathBuf};

/// A copy of the table and all beside it, as a crash at this moment would leave them.
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
fn what_was_written_is_there_after_a_crash_without_any_sync() {
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
        assert!(!table.insert(&key(500), b"no").unwrap());
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
fn a_log_goes_on_where_it_was_cut_crash_after_crash() {
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
    assert!(splitpoint::Backup::new().save_file(&copy, &backup).unwrap());
    let backup = Table::open(&backup).unwrap();
    assert_eq!((backup.get(b"k").unwrap().unwrap(), backup.replayed()), (b"v".into(), 0));
}

#[test]
fn a_reader_beside_a_writer_sees_the_last_checkpoint_until_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..20_000u32 {
        table.put(&key(i), b"old").unwrap();
    }
    table.checkpoint().unwrap();
    let open = || TableOptions::new().read_only(true).cache_bytes(1).open(&path).unwrap();
    let reader = open();
    for i in 0..20_000 {
        table.put(&key(i), b"new").unwrap();
    }
    table.put(b"more", b"1").unwrap();
    for i in 0..20_000 {
        assert_eq!(reader.get(&key(i)).unwrap().unwrap(), b"old");
    }
    assert_eq!((reader.get(b"more").unwrap(), reader.len()), (None, 20_000));
    table.checkpoint().unwrap();
    // What is in the reader's memory is of the old state, and anything else is refused.
    let kinds: Vec<_> = (0..20_000u32)
        .map(|i| match reader.get(&key(i)) {
            Ok(value) => {
                assert_eq!(value.unwrap(), b"old");
                None
            }
            Err(e) => Some(e.kind()),
        })
        .collect();
    assert!(kinds.contains(&Some(ErrorKind::Stale)));
    assert!(kinds.iter().flatten().all(|&kind| kind == ErrorKind::Stale));
    let reader = open();
    assert_eq!(reader.get(&key(7)).unwrap().unwrap(), b"new");
    assert_eq!(reader.len(), 20_001);
}

/// Runs `work` in a child made by `fork`; gives its exit status.
#[expect(unsafe_code, reason = "fork is what is tested")]
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child has a copy of everything but the other threads, touches nothing they may hold a lock of - a
    // table of its own test - and leaves without running anything else.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(99);
            // SAFETY: ends this process at once.
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

#[test]
fn a_handle_refuses_in_a_forked_child_and_the_parent_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let table = Table::open(directory.path().join("t.spt")).unwrap();
    table.put(b"k", b"v").unwrap();
    let status = in_child(|| {
        let refused = |kind: Option<ErrorKind>| kind == Some(ErrorKind::Forked);
        let all = refused(table.put(b"k", b"child").err().map(|e| e.kind()))
            && refused(table.get(b"k").err().map(|e| e.kind()))
            && refused(table.contains(b"k").err().map(|e| e.kind()))
            && refused(table.scan().next().and_then(|p| p.err()).map(|e| e.kind()))
            && refused(table.sync().err().map(|e| e.kind()))
            && refused(table.checkpoint().err().map(|e| e.kind()))
            && refused(table.compact().err().map(|e| e.kind()))
            && refused(table.verify().err().map(|e| e.kind()))
            && refused(table.survey().err().map(|e| e.kind()));
        i32::from(!all)
    });
    assert_eq!(status, 0);
    assert_eq!(table.get(b"k").unwrap().unwrap(), b"v");
    table.put(b"k", b"parent").unwrap();
    table.close().unwrap();
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
