//! Several processes on one table: a second writer, readers during writes, and directories that are read-only.

use super::{Running, process};
use splitpoint::{ErrorKind, Table, TableOptions};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Keeps the table open for writing, with changes since its last checkpoint, until it is killed.
pub fn hold(place: &Path, _: &[u64]) {
    let table = Table::open(place.join("t.spt")).unwrap();
    table.put(b"checkpointed", b"1").unwrap();
    table.checkpoint().unwrap();
    table.put(b"later", b"2").unwrap();
    fs::write(place.join("held"), "").unwrap();
    while !place.join("go on").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    table.checkpoint().unwrap();
    fs::write(place.join("went on"), "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

fn refused_at_once(path: &Path) {
    let start = Instant::now();
    let error = Table::open(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
    assert!(error.to_string().contains("Close that one, or open read-only"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

fn reads(path: &Path, later: Option<&[u8]>) {
    let table = TableOptions::new().read_only(true).open(path).unwrap();
    assert_eq!(table.get(b"checkpointed").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(table.get(b"later").unwrap().as_deref(), later);
    assert_eq!(table.verify().unwrap(), []);
    assert_eq!(table.put(b"later", b"3").unwrap_err().kind(), ErrorKind::ReadOnly);
    // Inserting a key that exists would change nothing, but is refused, too.
    let mut batch = table.batch();
    batch.insert_new(b"checkpointed", b"2").unwrap();
    assert_eq!(batch.commit().unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_second_writer_is_refused_and_readers_see_each_write() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    let mut holder = Running::start(&mut process("hold", place.path(), &[]));
    holder.wait_for(&place.path().join("held"));
    refused_at_once(&path);
    reads(&path, Some(b"2"));
    reads(&path, Some(b"2"));
    refused_at_once(&path);
    fs::write(place.path().join("go on"), "").unwrap();
    holder.wait_for(&place.path().join("went on"));
    reads(&path, Some(b"2"));
    refused_at_once(&path);

    // A lock ends with its process.
    assert_eq!(holder.kill(), None);
    let table = Table::open(&path).unwrap();
    assert_eq!(table.get(b"later").unwrap().unwrap(), b"2");
    refused_at_once(&path);
    reads(&path, Some(b"2"));
    table.close().unwrap();
    Table::open(&path).unwrap().close().unwrap();
}

#[test]
fn readers_and_the_next_writer_find_the_writes_of_a_killed_writer() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    let mut holder = Running::start(&mut process("hold", place.path(), &[]));
    holder.wait_for(&place.path().join("held"));
    assert_eq!(holder.kill(), None);
    reads(&path, Some(b"2"));
    let table = Table::open(&path).unwrap();
    assert_eq!((table.replayed(), table.get(b"later").unwrap().unwrap()), (1, b"2".into()));
    table.close().unwrap();
    reads(&path, Some(b"2"));
}

#[test]
fn a_program_that_is_being_started_keeps_no_lock() {
    // Until exec, the child has a copy of each open file of its parent.
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                Command::new("true").status().unwrap();
            }
            done.store(true, Relaxed);
        });
        while !done.load(Relaxed) {
            Table::open(&path).unwrap().close().unwrap();
        }
    });
}

/// Reads tables in `closed`, which is not writable: one that was closed, a crashed one and a writable one.
pub fn read(place: &Path, _: &[u64]) {
    let closed = place.join("closed");
    assert!(fs::write(closed.join("x"), "").is_err(), "the directory can be written to");
    let denied = |result: splitpoint::Result<()>, words: &[&str]| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        for word in words.iter().chain(&["ermission denied"]) {
            assert!(error.to_string().contains(word), "\"{error}\" does not say {word:?}");
        }
    };
    for name in ["closed.spt", "killed.spt", "writable.spt"] {
        reads(&closed.join(name), Some(b"2"));
    }
    denied(Table::open(closed.join("closed.spt")).map(drop), &["cannot open ", "closed.spt"]);
    denied(Table::open(closed.join("new.spt")).map(drop), &["cannot create ", "new.spt"]);
    // The file is writable, but its log would be a new file.
    let table = Table::open(closed.join("writable.spt")).unwrap();
    assert_eq!(table.get(b"later").unwrap().unwrap(), b"2");
    denied(table.put(b"later", b"3"), &["cannot create the log segment ", "writable.spt-log0"]);
    assert_eq!(table.get(b"later").unwrap().unwrap(), b"2", "a refused put changed something");
    assert!(table.remove(b"later").is_err());
    table.close().unwrap();
    reads(&closed.join("writable.spt"), Some(b"2"));
}

#[test]
fn a_directory_that_may_not_be_written_can_be_read() {
    let place = tempfile::tempdir().unwrap();
    let closed = place.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let mut holder = Running::start(&mut process("hold", place.path(), &[]));
    holder.wait_for(&place.path().join("held"));
    assert_eq!(holder.kill(), None);
    for entry in fs::read_dir(place.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(rest) = name.strip_prefix("t.spt") {
            fs::copy(place.path().join(&name), closed.join(format!("killed.spt{rest}"))).unwrap();
        }
    }
    Table::open(place.path().join("t.spt")).unwrap().close().unwrap();
    for name in ["closed.spt", "writable.spt"] {
        fs::copy(place.path().join("t.spt"), closed.join(name)).unwrap();
    }
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for entry in fs::read_dir(&closed).unwrap() {
        mode(&entry.unwrap().path(), 0o444);
    }
    mode(&closed.join("writable.spt"), 0o666);
    mode(&closed, 0o555);
    mode(place.path(), 0o755);
    let mut reader = process("read", place.path(), &[]);
    if fs::metadata(place.path()).unwrap().uid() == 0 {
        // Root may write everywhere; the user nobody may not.
        reader.uid(65534).gid(65534).current_dir("/");
    }
    match reader.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(e) => eprintln!("SKIPPED: a directory that may not be written, as root cannot run this as another: {e}"),
    }
    mode(&closed, 0o755);
}
