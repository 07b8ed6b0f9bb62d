//! The records that a table passes to the `log` crate: `cargo test --features log --test events`.

#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use log::{Level, LevelFilter, Log, Metadata, Record};
use splitpoint::{Table, TableOptions};
use std::fs;
use std::sync::Mutex;

struct Kept(Mutex<Vec<(Level, String)>>);

static KEPT: Kept = Kept(Mutex::new(Vec::new()));

impl Log for Kept {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        assert_eq!(record.target(), "splitpoint");
        self.0.lock().unwrap().push((record.level(), record.args().to_string()));
    }

    fn flush(&self) {}
}

/// Returns the events since the last call.
fn events() -> Vec<(Level, String)> {
    std::mem::take(&mut *KEPT.0.lock().unwrap())
}

#[test]
fn a_table_reports_opens_recoveries_checkpoints_and_why_it_refuses_writes() {
    log::set_logger(&KEPT).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    let has = |events: &[(Level, String)], level: Level, what: &str| {
        events.iter().any(|(of, text)| *of == level && text.contains("t.spt: ") && text.contains(what))
    };
    let opened = events();
    assert!(has(&opened, Level::Info, "opened, 0 pairs, 0 changes replayed"), "{opened:?}");

    table.put(b"alice", b"1").unwrap();
    table.put(b"bob", b"2").unwrap();
    assert_eq!(events(), [], "a write is no event");

    // Copies the files as a killed process would leave them.
    let killed = tempfile::tempdir().unwrap();
    for file in fs::read_dir(place.path()).unwrap().map(|file| file.unwrap()) {
        fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
    }
    let recovered = TableOptions::new().open(killed.path().join("t.spt")).unwrap();
    let replayed = events();
    assert!(has(&replayed, Level::Info, "opened, 2 pairs, 2 changes replayed"), "{replayed:?}");
    recovered.close().unwrap();
    let closed = events();
    assert!(has(&closed, Level::Debug, "checkpoint") && has(&closed, Level::Debug, "closed"), "{closed:?}");

    // A table whose file has lost its name cannot be checkpointed and refuses further writes.
    fs::rename(&path, place.path().join("other.spt")).unwrap();
    assert!(table.checkpoint().is_err());
    let poisoned = events();
    assert!(has(&poisoned, Level::Error, "refuses writes"), "{poisoned:?}");
    assert_eq!(table.put(b"k", b"v").unwrap_err().kind(), splitpoint::ErrorKind::Poisoned);
}
