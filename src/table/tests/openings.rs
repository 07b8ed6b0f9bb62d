//! Tests of tables that are opened while another process creates them, or after one died while creating them, and of
//! one that is replaced while a reader opens it.
//!
//! They use real files, with a hook between the calls. Every crash at every call, on a simulated disk: `crash/`.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use crate::error::ErrorKind;
use crate::io::simulated::{Fault, Plan, Simulated, State};
use crate::io::{Disk, File, Mode, Storage};
use crate::table::tests::watched::Watched;
use crate::table::{Backup, Table, TableOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The disk with a hook, which is called after a file is created, before one is removed, and after a directory is
/// synced.
struct HookedDisk(Box<Hook>);

type Hook = dyn Fn(Call, &Path) + Send + Sync;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Created,
    Removing,
    Synced,
}

impl Storage for HookedDisk {
    fn open(&self, path: &Path, mode: Mode) -> std::io::Result<Box<dyn File>> {
        let file = Disk.open(path, mode)?;
        if mode == Mode::New {
            self.0(Call::Created, path);
        }
        Ok(file)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        self.0(Call::Removing, path);
        Disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        Disk.rename(from, to)
    }

    fn sync_names(&self, path: &Path) -> std::io::Result<()> {
        Disk.sync_names(path)?;
        self.0(Call::Synced, path);
        Ok(())
    }
}

fn hooked(hook: impl Fn(Call, &Path) + Send + Sync + 'static) -> TableOptions {
    let mut options = TableOptions::new();
    options.storage = Arc::new(HookedDisk(Box::new(hook)));
    options
}

#[test]
fn a_table_that_another_made_first_is_not_made_anew() {
    for create_new in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let theirs = path.clone();
        // This process has created the file but not locked it yet: another process creates the table and closes it.
        let options = hooked(move |call, path| {
            if (call, path) == (Call::Created, &*theirs) {
                let table = Table::open(path).unwrap();
                table.put(b"theirs", b"1").unwrap();
                table.close().unwrap();
            }
        });
        match options.create_new(create_new).open(&path) {
            Ok(table) => {
                assert!(!create_new);
                table.put(b"ours", b"2").unwrap();
            }
            Err(e) => assert!(create_new && e.kind() == ErrorKind::Io, "{e}"),
        }
        let table = Table::open(&path).unwrap();
        assert_eq!(table.get(b"theirs").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(table.len(), if create_new { 1 } else { 2 });
        assert_eq!(table.verify().unwrap(), []);
    }
}

#[test]
fn a_table_that_is_replaced_before_it_is_locked_is_not_written_without_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let (theirs, replaced) = (path.clone(), AtomicBool::new(false));
    // The file is created but not locked yet: another process replaces it with its own table.
    let options = hooked(move |call, path| {
        if (call, path) == (Call::Created, &*theirs) && !replaced.swap(true, Relaxed) {
            std::fs::remove_file(path).unwrap();
            let table = Table::open(path).unwrap();
            table.put(b"theirs", b"1").unwrap();
            table.close().unwrap();
        }
    });
    let table = options.open(&path).unwrap();
    table.put(b"ours", b"2").unwrap();
    table.close().unwrap();
    assert_eq!(Table::open(&path).unwrap().len(), 2);
}

#[test]
fn an_empty_file_is_a_table_not_yet_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let new = TableOptions::new;
    for make in [new(), new().create_new(true)] {
        std::fs::write(&path, "").unwrap();
        for refusing in [new().read_only(true), new().create(false)] {
            let e = refusing.open(&path).err().unwrap();
            let source = std::error::Error::source(&e).and_then(|e| e.downcast_ref::<std::io::Error>()).unwrap();
            assert_eq!((e.kind(), source.kind()), (ErrorKind::Io, std::io::ErrorKind::NotFound), "{e}");
            assert!(e.to_string().contains("no table has been made in it yet"), "{e}");
        }
        make.open(&path).unwrap().put(b"k", b"v").unwrap();
        assert_eq!(new().create_new(true).open(&path).err().unwrap().kind(), ErrorKind::Io);
        assert_eq!(Table::open(&path).unwrap().len(), 1);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_table_that_cannot_be_made_leaves_no_file() {
    let path = Path::new("/t.spt");
    let open = |disk: &Simulated| {
        let mut options = TableOptions::new();
        options.storage = Arc::new(disk.clone());
        options.open(path)
    };
    let mut failed = 0;
    let mut empty = State::default();
    empty.add_file(path, b"");
    let faults = [(Fault::Io, false), (Fault::Short, false), (Fault::NoSpace, false), (Fault::NoSpace, true)];
    let starts = [State::default(), empty];
    for ((fault, lasting), start) in faults.iter().flat_map(|&fault| starts.iter().map(move |start| (fault, start))) {
        for at in 0.. {
            let disk = Simulated::new(start.clone());
            disk.plan(Some(Plan { fault, at, lasting }));
            let opened = open(&disk);
            if disk.calls() < at {
                break; // every call has failed once
            }
            disk.plan(None);
            match opened {
                Ok(table) => drop(table),
                Err(e) => {
                    failed += 1;
                    assert_eq!(disk.state().content(path), start.content(path), "{fault:?} at call {at}: {e}");
                }
            }
            assert_eq!(open(&disk).unwrap().verify().unwrap(), [], "{fault:?} at call {at}");
        }
    }
    assert!(failed > 20, "{failed} creations failed");
}

#[test]
fn an_empty_file_of_another_stays_where_no_table_can_be_made() {
    let path = Path::new("/t.spt");
    let mut state = State::default();
    state.add_file(path, b"");
    let disk = Simulated::new(state);
    disk.plan(Some(Plan { fault: Fault::NoSpace, at: 0, lasting: true }));
    let mut options = TableOptions::new();
    options.storage = Arc::new(disk.clone());
    assert!(options.open(path).is_err());
    assert_eq!(disk.state().content(path), Some(&[][..]));
}

#[test]
fn a_reader_that_looks_at_the_lock_does_not_keep_a_table_from_being_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let [path, copy] = ["t.spt", "t.bak"].map(|name| directory.path().join(name));
    let table = Table::open(&path).unwrap();
    table.put(b"key", b"value").unwrap();
    table.backup(&copy).unwrap();
    table.close().unwrap();
    let (disk, replaced) = (Watched::default(), path.clone());
    // Before the first try a reader takes the lock to look at it. Before the second one it releases it.
    let looking = Mutex::new((0, None));
    disk.watch(move |path, call| {
        if path == replaced && call == "lock" {
            let mut looking = looking.lock().unwrap();
            looking.0 += 1;
            looking.1 = (looking.0 == 1).then(|| Disk.open(path, Mode::Read)).transpose()?;
            assert!(looking.1.as_ref().is_none_or(|file| file.lock().unwrap()));
        }
        Ok(())
    });
    Backup::new().options(disk.options()).overwrite(true).restore(&copy, &path).unwrap();
    assert_eq!(Table::open(&path).unwrap().len(), 1);
}
