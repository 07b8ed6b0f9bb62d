//! Checkpoints that are blocked or fail: the log continues, and `sync` must not return before they are done.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use super::watched::Watched;
use crate::error::ErrorKind;
use crate::io::simulated::{Simulated, State};
use crate::pager::FRAME_UNITS;
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::io::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Control over a checkpoint that has written its blocks and is about to write its header.
struct Gate {
    state: AtomicU8,
    /// A checkpoint has written its blocks.
    reached: AtomicBool,
    disk: Watched,
}

const PASS: u8 = 0;
const FAIL: u8 = 1;
const HOLD: u8 = 2;

impl Gate {
    fn new() -> Arc<Gate> {
        let (state, reached, disk) = (AtomicU8::new(PASS), AtomicBool::new(false), Watched::default());
        let gate = Arc::new(Gate { state, reached, disk });
        let weak = Arc::downgrade(&gate);
        gate.disk.watch(move |_, call| {
            let Some(gate) = weak.upgrade().filter(|_| call == "write_header") else { return Ok(()) };
            gate.reached.store(true, SeqCst);
            while gate.state.load(SeqCst) == HOLD {
                std::thread::sleep(Duration::from_millis(1));
            }
            if gate.state.load(SeqCst) == FAIL { Err(Error::other("the header cannot be written")) } else { Ok(()) }
        });
        gate
    }

    fn options(&self) -> TableOptions {
        let mut options = TableOptions::new();
        options.storage = Arc::new(self.disk.clone());
        options
    }
}

/// The minimum: two segments of 68 KiB.
const SMALL_LOG: u64 = 1 << 16;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Checks that the table has pairs `0..count`, each with a value of 1,000 bytes.
fn assert_holds(table: &Table, count: u32) {
    assert_eq!(table.len(), u64::from(count));
    for n in 0..count {
        assert_eq!(table.get(&key(n)).unwrap(), Some(vec![n as u8; 1000]), "pair {n} of {count}");
    }
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_table_whose_checkpoints_were_all_interrupted_opens_and_makes_one() {
    for durability in [Durability::Os, Durability::Sync] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let gate = Gate::new();
        // The log has the values.
        let open = || {
            let options = gate.options().durability(durability).log_bytes(SMALL_LOG);
            TableOptions { stored_bytes_min: usize::MAX, ..options }.open(&path).unwrap()
        };
        drop(open());
        let mut stored = 0;
        // More segments than there are slots.
        for _ in 0..12 {
            let table = open();
            gate.state.store(FAIL, SeqCst);
            // Once the log's segment is full, a checkpoint begins and fails.
            while table.put(&key(stored), &[stored as u8; 1000]).is_ok() {
                stored += 1;
                assert!(stored < 10_000, "no checkpoint was begun");
            }
            drop(table);
            gate.state.store(PASS, SeqCst);
        }
        let table = open();
        // The failed put was not acknowledged; it may be stored or not.
        table.remove(&key(stored)).unwrap();
        assert_holds(&table, stored);
        let first = stored;
        while stored < first + 200 {
            table.put(&key(stored), &[stored as u8; 1000]).unwrap();
            stored += 1;
        }
        table.checkpoint().unwrap();
        table.compact().unwrap();
        table.close().unwrap();
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 1, "only the table is left after a close");
        assert_holds(&open(), stored);
    }
}

/// Returns options for a table on a file system without locks of bytes: a backup keeps other checkpoints out.
fn without_locks() -> TableOptions {
    let mut options = TableOptions::new().log_bytes(SMALL_LOG);
    options.storage = Arc::new(Watched::without_locks());
    options
}

#[test]
fn writers_during_a_long_backup_get_a_temporary_error_and_continue_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("t.spt"), directory.path().join("copy.spt"));
    let table = Arc::new(without_locks().open(&path).unwrap());
    let mut stored = 0u32;
    table.put(&key(stored), &[0; 1000]).unwrap();
    stored += 1;
    let (begun, has_begun) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    let backed_up = table.clone();
    let backup = std::thread::spawn(move || {
        let mut first = true;
        let outcome = Backup::new()
            .progress(|_, _| {
                if std::mem::take(&mut first) {
                    begun.send(()).unwrap();
                    may_end.recv().unwrap();
                }
                ControlFlow::Continue(())
            })
            .save(&backed_up, &copy);
        outcome.unwrap();
        copy
    });
    has_begun.recv().unwrap();
    let refused = loop {
        match table.put(&key(stored), &[stored as u8; 1000]) {
            Ok(()) => stored += 1,
            Err(e) => break e,
        }
        assert!(stored < 1_000_000, "the log has no bound beside a backup");
    };
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(refused.to_string().contains("backup"), "{refused}");
    // Fifty times the configured size of the log, because a backup may take long.
    assert!(u64::from(stored) * 1000 > 50 * SMALL_LOG, "refused after {stored} puts");
    assert_eq!(table.get(&key(stored)).unwrap(), None, "refused and stored all the same");
    end.send(()).unwrap();
    let copy = backup.join().unwrap();
    for _ in 0..200 {
        table.put(&key(stored), &[stored as u8; 1000]).unwrap();
        stored += 1;
    }
    assert_holds(&table, stored);
    Arc::into_inner(table).unwrap().close().unwrap();
    assert_holds(&Table::open(&path).unwrap(), stored);
    assert_holds(&Table::open(&copy).unwrap(), 1);
}

#[test]
fn a_write_by_the_progress_function_of_a_backup_is_refused_and_not_a_deadlock() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("t.spt"), directory.path().join("copy.spt"));
    let table = without_locks().open(&path).unwrap();
    table.put(b"a", b"b").unwrap();
    let mut refused = None;
    let mut n = 0u32;
    let done = Backup::new()
        .progress(|_, _| {
            while refused.is_none() && n < 1_000_000 {
                refused = table.put(&key(n), &[7; 1000]).err();
                n += 1;
            }
            assert!(table.checkpoint().is_err() && table.compact().is_err());
            ControlFlow::Continue(())
        })
        .save(&table, &copy);
    done.unwrap();
    assert_eq!(refused.unwrap().kind(), ErrorKind::Busy);
    table.put(b"a", b"c").unwrap();
    table.close().unwrap();
}

/// The system returns the error of a failed write once. If another thread has got it, the checkpoint's own sync
/// succeeds.
#[test]
fn a_checkpoint_does_not_complete_if_a_sync_of_another_thread_failed_meanwhile() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Watched::default();
    let table = disk.options().durability(Durability::Os).open(directory.path().join("t.spt")).unwrap();
    table.put(b"key", &[1; 5000]).unwrap();
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
    let (ended, has_begun, has_failed) = (Mutex::new(ended), AtomicBool::new(false), AtomicBool::new(false));
    disk.watch(move |path, call| {
        let is_table = path.extension().is_some_and(|extension| extension == "spt");
        match call {
            "write_at" if is_table && !has_begun.swap(true, AcqRel) => {
                begin.send(()).unwrap();
                ended.lock().unwrap().recv().unwrap();
            }
            "sync" if is_table && has_begun.load(Acquire) && !has_failed.swap(true, AcqRel) => {
                return Err(Error::from_raw_os_error(libc::EIO));
            }
            _ => {}
        }
        Ok(())
    });
    std::thread::scope(|scope| {
        let table = &table;
        scope.spawn(move || {
            begun.recv().unwrap();
            assert_eq!(table.sync().unwrap_err().kind(), ErrorKind::Io);
            end.send(()).unwrap();
        });
        assert_eq!(table.checkpoint().unwrap_err().kind(), ErrorKind::Poisoned);
    });
    assert_eq!(table.counters().checkpoints, 0);
}

#[test]
fn kept_holes_are_freed_before_a_checkpoint_keeps_writers_out() {
    let directory = tempfile::tempdir().unwrap();
    let table = Table::open(directory.path().join("t.spt")).unwrap();
    (0..2000).for_each(|n| table.put(&key(n), &[1; 1000]).unwrap());
    (0..2000).step_by(2).for_each(|n| assert!(table.remove(&key(n)).unwrap()));
    let kept = || table.pager.allocator().maps_of_kept();
    assert!(kept() > 0);
    table.pager.checkpointer().reserve_checkpoint().unwrap();
    assert_eq!(kept(), 0);
}

#[test]
fn sync_waits_for_the_checkpoint_that_is_being_written_and_reports_its_error() {
    for outcome in [PASS, FAIL] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let gate = Gate::new();
        let options = gate.options().durability(Durability::None);
        let table = Arc::new(options.open(&path).unwrap());
        for n in 0..100 {
            table.put(&key(n), &[n as u8; 1000]).unwrap();
        }
        gate.reached.store(false, SeqCst);
        gate.state.store(HOLD, SeqCst);
        let checkpointed = table.clone();
        let checkpoint = std::thread::spawn(move || checkpointed.checkpoint());
        while !gate.reached.load(SeqCst) {
            std::thread::yield_now();
        }
        let synced = table.clone();
        let sync = std::thread::spawn(move || synced.sync());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!sync.is_finished(), "sync() returned while nothing of the table was in its file");
        gate.state.store(outcome, SeqCst);
        let (checkpointed, synced) = (checkpoint.join().unwrap(), sync.join().unwrap());
        assert_eq!((checkpointed.is_ok(), synced.is_ok()), (outcome == PASS, outcome == PASS));
        if outcome == PASS {
            // The file as a killed process would leave it.
            let copy = directory.path().join("copy.spt");
            std::fs::copy(&path, &copy).unwrap();
            assert_holds(&Table::open(&copy).unwrap(), 100);
        }
    }
}

#[test]
fn a_cache_full_of_dirty_frames_is_not_searched_for_each_frame_that_is_loaded() {
    const PAIRS: u32 = 100_000;
    const CACHE_BYTES: u64 = 1 << 20;
    const LOADED: u64 = 40;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let gate = Gate::new();
    let options = || gate.options().durability(Durability::Os).seed(3).cache_bytes(CACHE_BYTES);
    let open = || options().open(&path).unwrap();
    let table = open();
    (0..PAIRS).for_each(|n| table.put(&key(n), &[1; 40]).unwrap());
    table.close().unwrap();
    let table = open();
    gate.state.store(HOLD, SeqCst);
    gate.reached.store(false, SeqCst);
    // An unfinished checkpoint fills half of the cache, changes after it the other half.
    let mut changes = (0..PAIRS).map(|n| table.put(&key(n), &[2; 40]).unwrap());
    let dirty = || table.pager.pool().dirty_count();
    let half = CACHE_BYTES / 4096 / 2;
    while dirty() < half {
        changes.next().unwrap();
    }
    let looked_at = std::thread::scope(|scope| {
        scope.spawn(|| table.checkpoint().unwrap());
        while !gate.reached.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        while dirty() < half - 1 {
            changes.next().unwrap();
        }
        // Reads more than the cache has room for.
        let (loaded, looked_at) = (table.counters().frames_read, table.pager.frames().looked_at());
        let mut absent = (PAIRS..).map(|n| table.get(&key(n)).unwrap());
        while table.counters().frames_read < loaded + LOADED {
            assert_eq!(absent.next().unwrap(), None);
        }
        gate.state.store(PASS, SeqCst);
        u64::from(table.pager.frames().looked_at() - looked_at)
    });
    assert!((1..=100 * LOADED).contains(&looked_at), "looked at {looked_at} frames to load {LOADED}");
}

#[test]
fn a_reader_has_what_was_cut_off_even_if_the_file_grew_again_before_the_next_checkpoint() {
    const VALUES: u32 = 40;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    // Without a log, removed extents are free immediately.
    let writer = TableOptions::new().durability(Durability::None).open(&path).unwrap();
    (0..VALUES).for_each(|n| writer.put(&key(n), &[n as u8; 10_000]).unwrap());
    writer.checkpoint().unwrap();
    let (pager, frames) = (&writer.pager, writer.pager.frame_count());
    let reader = TableOptions::new().read_only(true).open(&path).unwrap();
    (0..VALUES).for_each(|n| assert!(writer.remove(&key(n)).unwrap()));
    {
        let _no_window = pager.values().begin_compaction().unwrap();
        let _no_checkpoint = pager.checkpoint_lock().acquire().unwrap();
        let _alone = writer.gate.close().unwrap();
        pager.allocator().trim().unwrap();
        assert!(pager.frame_count() < frames);
        pager.allocator().allocate(frames * FRAME_UNITS).unwrap();
    }
    writer.checkpoint().unwrap();
    for n in 0..VALUES {
        assert_eq!(reader.get(&key(n)).unwrap(), Some(vec![n as u8; 10_000]), "pair {n}");
    }
    assert_eq!(reader.verify().unwrap(), []);
}

#[test]
fn a_checkpoint_gives_the_disk_two_parts_at_a_time_so_that_concurrent_syncs_are_short() {
    const VALUES: u32 = 6000;
    let disk = Arc::new(Simulated::new(State::default()));
    let mut options = TableOptions::new().durability(Durability::None);
    options.storage = disk.clone();
    options.stored_bytes_min = usize::MAX; // or the puts would write them
    let table = options.open("t.spt").unwrap();
    for _ in 0..2 {
        (0..VALUES).for_each(|n| table.put(&key(n), &[n as u8; 1000]).unwrap());
        table.checkpoint().unwrap();
        assert_eq!(disk.begun_max(), 2);
    }
}

/// Calls `hook` with the path whenever a part of a file is given to the disk.
fn watch_parts(disk: &Watched, hook: impl Fn(&Path) + Send + Sync + 'static) {
    disk.watch(move |path, call| {
        if call == "begin_sync" {
            hook(path);
        }
        Ok(())
    });
}

#[test]
fn a_checkpoint_is_written_by_smaller_parts_beside_synced_puts() {
    const VALUES: u32 = 6000;
    let directory = tempfile::tempdir().unwrap();
    let disk = Watched::default();
    let mut options = disk.options().durability(Durability::Os);
    options.stored_bytes_min = usize::MAX; // or the puts would write them
    let table = Arc::new(options.open(directory.path().join("t.spt")).unwrap());
    let parts = |syncs: bool| {
        (0..VALUES).for_each(|n| table.put(&key(n), &[n as u8; 1000]).unwrap());
        let (weak, count) = (Arc::downgrade(&table), Arc::new(AtomicU32::new(0)));
        let counted = count.clone();
        watch_parts(&disk, move |_| {
            counted.fetch_add(1, Relaxed);
            if let Some(table) = weak.upgrade().filter(|_| syncs) {
                table.with(Durability::Sync).put(b"beside", b"value").unwrap();
            }
        });
        table.checkpoint().unwrap();
        count.load(Relaxed)
    };
    let (alone, beside) = (parts(false), parts(true));
    assert!((4..12).contains(&alone), "{alone} parts of 1 MiB");
    assert!(beside > 4 * alone, "{beside} parts beside synced puts, {alone} alone");
}

#[test]
fn a_backup_is_written_by_small_parts() {
    const BYTES: usize = 600_000; // less than a part of a checkpoint
    let directory = tempfile::tempdir().unwrap();
    let disk = Watched::default();
    let path = directory.path().join("t.spt");
    let table = disk.options().open(&path).unwrap();
    (0..BYTES as u32 / 1000).for_each(|n| table.put(&key(n), &[n as u8; 1000]).unwrap());
    table.checkpoint().unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    watch_parts(&disk, move |part| assert!(part != path && counted.fetch_add(1, Relaxed) < 100));
    table.backup(directory.path().join("copy.spt")).unwrap();
    let count = count.load(Relaxed) as usize;
    assert!((BYTES >> 18..BYTES >> 15).contains(&count), "{count} parts");
}

/// Copies the table's files, as a kill of the process would leave them.
fn killed(path: &Path) -> PathBuf {
    let directory = path.with_file_name("copy");
    std::fs::create_dir(&directory).unwrap();
    for entry in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
        }
    }
    directory.join(path.file_name().unwrap())
}

/// Returns a value that repeats its key and version throughout.
fn told(key: u32, version: u32) -> Vec<u8> {
    let len = 300 + (key as usize * 37 + version as usize * 501) % 4000;
    let word = key.to_le_bytes().into_iter().chain(version.to_le_bytes());
    word.cycle().take(len / 8 * 8).collect()
}

#[test]
fn threads_that_overwrite_and_read_values_during_checkpoints_find_complete_values() {
    const KEYS: u32 = 600;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let open = |path: &Path| TableOptions::new().page_bytes(512).durability(Durability::Os).open(path).unwrap();
    let table = open(&path);
    let done = AtomicBool::new(false);
    let (table_ref, done_ref) = (&table, &done);
    let versions: Vec<Vec<u32>> = std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut random = Random::new(&[7]);
            let mut found = 0;
            while !done_ref.load(Relaxed) {
                let key = random.below(KEYS as usize) as u32;
                let Some(value) = table_ref.get(&key.to_le_bytes()).unwrap() else { continue };
                let version = u32::from_le_bytes(value[4..8].try_into().unwrap());
                assert!(value == told(key, version), "key {key}, version {version}");
                found += 1;
            }
            found
        });
        let checkpoints = scope.spawn(move || {
            while !done_ref.load(Relaxed) {
                table_ref.checkpoint().unwrap();
            }
        });
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                scope.spawn(move || {
                    let mut random = Random::new(&[writer.into()]);
                    let mut versions = vec![0; KEYS as usize];
                    for version in 1..4000 {
                        let key = random.below(KEYS as usize / 2) as u32 * 2 + writer;
                        table_ref.put(&key.to_le_bytes(), &told(key, version)).unwrap();
                        versions[key as usize] = version;
                    }
                    versions
                })
            })
            .collect();
        let versions = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Relaxed);
        assert!(reader.join().unwrap() > 0);
        checkpoints.join().unwrap();
        versions
    });
    let copy = killed(&path);
    for table in [table, open(&copy)] {
        for key in 0..KEYS {
            let version = versions.iter().map(|versions| versions[key as usize]).max().unwrap();
            let found = table.get(&key.to_le_bytes()).unwrap();
            assert!(found == (version > 0).then(|| told(key, version)), "key {key}, version {version}");
        }
        assert!(table.verify().unwrap().is_empty());
    }
}

#[test]
fn small_values_beside_large_ones_are_in_few_large_pages_and_later_fill_what_was_set_aside() {
    const LARGE: u32 = 8000;
    const SMALL_BYTES: u64 = 1500;
    let directory = tempfile::tempdir().unwrap();
    let table = TableOptions::new().open(directory.path().join("t.spt")).unwrap();
    let allocator = table.pager.allocator();
    allocator.allocate((64 << 20) / table.pager.unit_bytes() as u32).unwrap();
    let before = table.pager.frames().large_pages();
    for n in 0..LARGE {
        table.put(&key(n), &[1; 2500]).unwrap();
        if n % 8 == 0 {
            table.put(&key(LARGE + n), &[2; SMALL_BYTES as usize]).unwrap();
        }
    }
    let small_pages = u64::from(LARGE / 8) * SMALL_BYTES / (2 << 20) + 1;
    let pages = table.pager.frames().large_pages() - before;
    // The table's own pages, and the frame of the last large value at each of a few checkpoints.
    assert!(pages <= small_pages as usize + 4, "{pages} large pages");

    let set_aside = allocator.set_aside();
    assert!(set_aside > 0);
    table.checkpoint().unwrap();
    assert_eq!(allocator.set_aside(), set_aside, "there were windows before this checkpoint");
    table.checkpoint().unwrap();
    table.put(b"small", b"value").unwrap();
    table.checkpoint().unwrap();
    assert_eq!(allocator.set_aside(), 0);
}
