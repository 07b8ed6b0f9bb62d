//! Tests of the promise of an answer with [`Durability::Sync`]: a power loss cannot revoke it.
//!
//! A write that changes nothing also returns an answer: the key was present, or absent. The answer may depend on
//! another thread's write that is still waiting for the disk. In these tests, syncs of the disk block until the test
//! lets them pass.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use crate::error::ErrorKind;
use crate::io::simulated::{Crash, Fault, Plan, Simulated, State, Tally};
use crate::io::{File, Mapped, Mode, Storage};
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use std::io::Result;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const PATH: &str = "/disk/t.spt";

/// Blocks syncs.
#[derive(Default)]
struct Dam {
    closed: Mutex<bool>,
    opened: Condvar,
    /// The number of blocked syncs.
    waiting: AtomicU32,
}

impl Dam {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, SeqCst);
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            closed = self.opened.wait(closed).unwrap();
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// A disk whose syncs a test can block.
struct Dammed {
    disk: Simulated,
    dam: Arc<Dam>,
}

struct DammedFile {
    file: Box<dyn File>,
    dam: Arc<Dam>,
}

impl Storage for Dammed {
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>> {
        Ok(Box::new(DammedFile { file: self.disk.open(path, mode)?, dam: self.dam.clone() }))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        self.disk.sync_names(path)
    }
}

impl File for DammedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.file.reserve(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.dam.pass();
        self.file.sync()
    }

    fn lock(&self) -> Result<bool> {
        self.file.lock()
    }

    fn unlock(&self) -> Result<()> {
        self.file.unlock()
    }

    fn is_at(&self, path: &Path) -> Result<bool> {
        self.file.is_at(path)
    }

    fn is_locked(&self) -> Result<bool> {
        self.file.is_locked()
    }

    fn map(&self, bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        self.file.map(bytes)
    }
}

fn open(storage: Arc<dyn Storage>) -> Table {
    let mut options = TableOptions::new().durability(Durability::Sync);
    options.storage = storage;
    options.inline_checkpoints = true;
    options.open(PATH).unwrap()
}

/// Returns the value of `key` after a power loss at this point.
fn left_of(disk: &Simulated, key: &[u8]) -> Option<Vec<u8>> {
    let left = disk.state().survivors(Crash::LoseUnsynced, &mut Random::new(&[1]), &mut Tally::default());
    open(Arc::new(Simulated::new(left))).get(key).unwrap()
}

#[test]
fn a_synced_put_into_a_file_that_was_copied_and_not_synced_survives_a_power_loss() {
    let disk = Simulated::new(State::default());
    open(Arc::new(disk.clone())).close().unwrap();
    let closed = disk.state().content(Path::new(PATH)).unwrap().to_vec();
    for durability in [Durability::Sync, Durability::Os] {
        let mut copied = State::default();
        copied.add_file(Path::new(PATH), &closed);
        let disk = Simulated::new(copied);
        let mut options = TableOptions::new().durability(durability);
        options.storage = Arc::new(disk.clone());
        options.inline_checkpoints = true;
        let table = options.open(PATH).unwrap();
        table.put(b"key", b"value").unwrap();
        if durability == Durability::Os {
            table.sync().unwrap();
        }
        assert_eq!(left_of(&disk, b"key").as_deref(), Some(&b"value"[..]), "{durability:?}");
    }
}

/// Makes `first` wait for the disk, then calls `second` on another thread. `second` must not return before the write of
/// `first` is durable.
fn second_waits(first: fn(&Table), second: fn(&Table) -> bool) {
    let disk = Simulated::new(State::default());
    let dam = Arc::new(Dam::default());
    let table = open(Arc::new(Dammed { disk: disk.clone(), dam: dam.clone() }));
    table.put(b"there", b"1").unwrap();
    dam.set(true);
    std::thread::scope(|scope| {
        scope.spawn(|| first(&table));
        while dam.waiting.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        let (sender, receiver) = channel();
        let (table, dam) = (&table, &dam);
        scope.spawn(move || sender.send(second(table)).unwrap());
        let early = receiver.recv_timeout(Duration::from_millis(200));
        // Must precede any assertion: after a failed one the threads would wait forever.
        dam.set(false);
        assert!(early.is_err(), "it returned {early:?} before the other write was durable");
        assert!(receiver.recv().unwrap());
    });
}

#[test]
fn an_insert_that_finds_a_key_waits_until_the_key_is_on_the_disk() {
    second_waits(|t| t.put(b"new", b"1").unwrap(), |t| !t.insert_new(b"new", b"2").unwrap());
}

#[test]
fn a_remove_that_finds_nothing_waits_until_the_removal_is_on_the_disk() {
    second_waits(|t| assert!(t.remove(b"there").unwrap()), |t| !t.remove(b"there").unwrap());
}

#[test]
fn an_update_that_leaves_a_key_absent_waits_until_its_removal_is_on_the_disk() {
    second_waits(|t| assert!(t.remove(b"there").unwrap()), |t| !t.update(b"there", |_| None).unwrap());
}

#[test]
fn a_write_that_changes_nothing_syncs_nothing_where_nothing_waits() {
    let disk = Simulated::new(State::default());
    let table = open(Arc::new(disk.clone()));
    table.put(b"there", b"1").unwrap();
    let calls = disk.calls();
    assert!(!table.insert_new(b"there", b"2").unwrap());
    assert!(!table.remove(b"absent").unwrap());
    assert!(!table.update(b"absent", |_| None).unwrap());
    assert_eq!(disk.calls(), calls, "calls to the disk");
}

#[test]
fn a_write_of_many_that_fails_gives_its_error_once_the_pairs_before_are_on_the_disk() {
    for write in 0..4 {
        let disk = Simulated::new(State::default());
        let table = open(Arc::new(disk.clone()));
        table.put(b"there", b"1").unwrap();
        // The second pair needs more room in the log: the first call reads the log's length, the next one extends it.
        disk.plan(Some(Plan { fault: Fault::NoSpace, at: disk.calls() + 1, lasting: false }));
        let pairs = [("a", vec![1]), ("large", vec![7; 3 << 20]), ("b", vec![2])];
        let mut appended = Vec::new();
        let written = match write {
            0 => table.put_many(&pairs),
            1 => table.append_many(&pairs).map(drop),
            2 => {
                let (stored, outcome) = table.put_many_counted(&pairs);
                assert_eq!(stored, 1);
                outcome
            }
            _ => table.append_many_within(&pairs, |_| usize::MAX, |index, len| appended.push((index, len))),
        };
        let error = written.unwrap_err();
        assert!(write < 3 || appended == [(0, Some(1))], "{appended:?}");
        assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
        assert_eq!(left_of(&disk, b"a"), Some(vec![1]));
        assert_eq!((left_of(&disk, b"large"), left_of(&disk, b"b")), (None, None));
        assert_eq!(table.get(b"b").unwrap(), None);
    }
}

#[test]
fn a_write_of_many_whose_pairs_cannot_be_synced_says_that_instead() {
    let disk = Simulated::new(State::default());
    let table = open(Arc::new(disk.clone()));
    table.put(b"there", b"1").unwrap();
    disk.plan(Some(Plan { fault: Fault::NoSpace, at: disk.calls(), lasting: true }));
    let error = table.put_many(&[("a", vec![1]), ("large", vec![7; 3 << 20])]).unwrap_err();
    // Writing the stored pairs also finds no space, so their durability is unknown.
    assert!(error.to_string().contains("t.spt-log"), "{error}");
    assert_eq!(table.put(b"k", b"v").unwrap_err().kind(), ErrorKind::Poisoned);
}
