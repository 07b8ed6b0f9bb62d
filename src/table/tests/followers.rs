//! Readers during writes, in one process and on a real disk: each has every write that had returned.
//!
//! Not here: readers at every crash (`crash/readers.rs`), with many threads and checkpoints (`tests/it/contents.rs`),
//! in other processes (`tests/it/processes/readers.rs`).
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests change the log from outside")]

use crate::error::{ErrorKind, Result};
use crate::io::{Disk, File, Mode, Storage};
use crate::random::Random;
use crate::table::{Backup, Durability, Follower, Table, TableOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn content_of(table: &Table) -> Content {
    let content: Content = table.scan().collect::<Result<_>>().unwrap();
    assert_eq!(table.len(), content.len() as u64);
    assert_eq!(table.verify().unwrap(), []);
    content
}

fn reading() -> TableOptions {
    TableOptions::new().read_only(true)
}

/// A table of small pages and segments, in a directory of its own, and what it contains.
struct Written {
    table: Table,
    content: Content,
    random: Random,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Written {
    fn new(durability: Durability, seed: u64) -> Written {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("table.spt");
        let options = TableOptions::new().page_bytes(512).log_bytes(1 << 17).durability(durability);
        let table = options.open(&path).unwrap();
        Written { table, content: Content::new(), random: Random::new(&[seed]), path, _directory: directory }
    }

    /// Makes a random change. Returns the change.
    fn change(&mut self) -> &'static str {
        let random = &mut self.random;
        let key = format!("key {}", random.below(60)).into_bytes();
        let len = random.pick(&[0, 10, 90, 400, 3000, 20_000]);
        let value: Vec<u8> = std::iter::repeat_with(|| random.next() as u8).take(len).collect();
        match random.below(40) {
            0..20 => {
                self.table.put(&key, &value).unwrap();
                self.content.insert(key, value);
                "put"
            }
            20..25 => {
                self.table.remove(&key).unwrap();
                self.content.remove(&key);
                "remove"
            }
            25..31 => {
                self.table.append(&key, &value).unwrap();
                self.content.entry(key).or_default().extend(value);
                "append"
            }
            31..35 => {
                let mut batch = self.table.batch();
                for n in 0..random.below(30) {
                    let key = format!("key {}", 2 * n).into_bytes();
                    batch.put(&key, &value).unwrap();
                    self.content.insert(key, value.clone());
                }
                batch.commit().unwrap();
                "batch"
            }
            35 => {
                // Longer than what a batch logs at its end.
                let mut batch = self.table.batch();
                for n in 0..3u8 {
                    batch.put(&[n; 9], &[n; 600_000]).unwrap();
                    self.content.insert(vec![n; 9], vec![n; 600_000]);
                }
                batch.commit().unwrap();
                "long batch"
            }
            36 => {
                self.table.put(b"long", &[7; 200_000]).unwrap();
                self.content.insert(b"long".to_vec(), vec![7; 200_000]);
                "long value"
            }
            37 => {
                self.table.clear().unwrap();
                self.content.clear();
                "clear"
            }
            38 => {
                self.table.checkpoint().unwrap();
                "checkpoint"
            }
            _ => {
                self.table.compact().unwrap();
                "compaction"
            }
        }
    }
}

#[test]
fn a_reader_has_every_write_that_returned_before_it_opened() {
    for (durability, seed) in [(Durability::Os, 1), (Durability::Os, 2), (Durability::Sync, 3)] {
        let mut written = Written::new(durability, seed);
        for n in 0..150 {
            let what = written.change();
            let reader = reading().open(&written.path).unwrap();
            assert!(content_of(&reader) == written.content, "{durability:?} {seed}, change {n}: {what}");
            assert!(reader.put(b"a", b"b").is_err_and(|e| e.kind() == ErrorKind::ReadOnly));
        }
    }
}

#[test]
fn a_reader_has_the_writes_in_segments_that_were_begun_while_no_checkpoint_may_be_made() {
    let written = Written::new(Durability::Os, 19);
    written.table.put(&[0; 4], &[0; 100]).unwrap();
    let mut follower = Some(reading().open(&written.path).unwrap());
    let mut count = 1u32;
    // Where the system has no locks of bytes, a backup prevents checkpoints: the log continues in further segments.
    let guard = written.table.pager.checkpoint_lock().acquire().unwrap().hold_long();
    for _ in 0..2000 {
        written.table.put(&count.to_le_bytes(), &[0; 100]).unwrap();
        count += 1;
        if count.is_multiple_of(100) {
            assert_eq!(reading().open(&written.path).unwrap().len(), u64::from(count));
            follower = Some(follower.take().unwrap().catch_up().unwrap());
            assert_eq!(follower.as_ref().unwrap().len(), u64::from(count));
        }
    }
    drop(guard);
    assert!(segments(&written.path).len() > 2);
    assert_eq!(count, 2001);
}

#[test]
fn writes_that_are_not_logged_are_seen_with_their_checkpoint() {
    let mut written = Written::new(Durability::None, 4);
    written.table.put(b"a", b"b").unwrap();
    assert_eq!(content_of(&reading().open(&written.path).unwrap()), Content::new());
    written.table.sync().unwrap();
    written.content.insert(b"a".to_vec(), b"b".to_vec());
    assert_eq!(content_of(&reading().open(&written.path).unwrap()), written.content);
}

#[test]
fn a_handle_that_catches_up_has_every_write_and_kept_handles_do_not_change() {
    for seed in 5..9 {
        let mut written = Written::new(Durability::Os, seed);
        let follower = Follower::open(&written.path).unwrap();
        let mut handle = reading().open(&written.path).unwrap();
        let mut kept: Vec<(Arc<Table>, Content)> = Vec::new();
        for n in 0..200 {
            let what = written.change();
            handle = handle.catch_up().unwrap();
            assert!(content_of(&handle) == written.content, "{seed}, change {n}: {what}");
            let newest = follower.newest().unwrap();
            assert!(content_of(&newest) == written.content, "a follower, {seed}, change {n}: {what}");
            if written.random.percent(10) {
                kept.push((newest, written.content.clone()));
            }
            if kept.len() > 3 {
                kept.remove(0);
            }
            for (table, content) in &kept {
                assert!(content_of(table) == *content, "kept, {seed}, change {n}: {what}");
            }
        }
    }
}

#[test]
fn a_follower_that_another_thread_has_just_updated_is_not_opened_again() {
    let written = Written::new(Durability::Os, 32);
    let follower = Follower::open(&written.path).unwrap();
    let before = follower.newest().unwrap();
    written.table.put(b"key", b"value").unwrap();
    // As by two threads that both found the table behind. A caller holds each table, so none can be changed in place.
    let [first, second] = [follower.update().unwrap(), follower.update().unwrap()];
    assert_eq!((before.len(), first.len()), (0, 1));
    assert!(Arc::ptr_eq(&first, &second), "the second one was opened again");
}

#[test]
fn a_handle_that_catches_up_replays_only_what_follows() {
    let written = Written::new(Durability::Os, 10);
    let mut reader = reading().open(&written.path).unwrap();
    for n in 0..20u32 {
        written.table.put(&n.to_le_bytes(), b"value").unwrap();
        reader = reader.catch_up().unwrap();
        assert_eq!(reader.replayed(), u64::from(n) + 1, "the same handle has replayed each change once");
    }
}

#[test]
fn a_reader_of_the_checkpoint_alone_has_nothing_else() {
    let written = Written::new(Durability::Os, 11);
    let checkpoint_only = || reading().checkpoint_only(true).open(&written.path).unwrap();
    written.table.put(b"a", b"1").unwrap();
    written.table.checkpoint().unwrap();
    written.table.put(b"a", b"2").unwrap();
    let mut reader = checkpoint_only();
    assert_eq!(reader.get(b"a").unwrap().unwrap(), b"1");
    assert!(reader.newer().unwrap().is_none());
    written.table.checkpoint().unwrap();
    reader = reader.catch_up().unwrap();
    assert_eq!(reader.get(b"a").unwrap().unwrap(), b"2");
    let refused = TableOptions::new().checkpoint_only(true).open(&written.path).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_reader_of_some_keys_has_the_last_values_of_these() {
    for seed in 20..23 {
        let mut written = Written::new(Durability::Os, seed);
        for n in 0..60 {
            let what = written.change();
            let keys = ["key 4", "key 6", "key 11", "long", "absent"].map(|key| key.as_bytes().to_vec());
            let reader = reading().only_keys(keys.clone()).open(&written.path).unwrap();
            for key in keys {
                assert!(reader.get(&key).unwrap() == written.content.get(&key).cloned(), "{seed}, change {n}: {what}");
            }
        }
    }
}

#[test]
fn what_a_reader_changes_beyond_its_cache_goes_to_a_temporary_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table.spt");
    let table = TableOptions::new().page_bytes(512).open(&path).unwrap();
    let key = |n: u32| n.to_be_bytes();
    (0..20_000).for_each(|n| table.put(&key(n), &[1; 100]).unwrap());
    table.checkpoint().unwrap();
    // Changes every frame, and adds as many.
    (0..40_000).rev().for_each(|n| table.put(&key(n), &n.to_le_bytes()).unwrap());
    let reader = reading().cache_bytes(256 << 10).open(&path).unwrap();
    assert_eq!(reader.len(), 40_000);
    for n in (0..40_000).chain(0..40_000) {
        assert_eq!(reader.get(&key(n)).unwrap().unwrap(), n.to_le_bytes());
    }
    assert_eq!(reader.scan().count(), 40_000);
    let memory = reader.pager.frames().memory_bytes();
    assert!(memory < 2 << 20, "{memory} bytes in memory");
    assert_eq!(reader.verify().unwrap(), []);
}

/// Returns the paths of the log's segments.
fn segments(path: &Path) -> Vec<PathBuf> {
    let slot = |n: u8| path.with_file_name(format!("table.spt-log{n}"));
    (0..8).map(slot).filter(|path| path.exists()).collect()
}

#[test]
fn a_reader_stops_before_a_partly_stored_record_and_continues_once_it_is_complete() {
    use std::os::unix::fs::FileExt;
    let written = Written::new(Durability::Os, 12);
    written.table.put(b"first", &[1; 50]).unwrap();
    let before = reading().open(&written.path).unwrap();
    let segment = segments(&written.path).pop().unwrap();
    let old = std::fs::read(&segment).unwrap();
    written.table.put(b"second", &[2; 50]).unwrap();
    let new = std::fs::read(&segment).unwrap();
    let changed = (0..old.len()).filter(|&at| old[at] != new[at]);
    let (first, last) = (changed.clone().min().unwrap(), changed.max().unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    let mut reader = before;
    for end in [first + 3, first + 8, last] {
        file.write_all_at(&old[end..=last], end as u64).unwrap();
        reader = reader.catch_up().unwrap();
        let fresh = reading().open(&written.path).unwrap();
        assert_eq!([reader.len(), fresh.len()], [1, 1], "cut at byte {} of the record", end - first);
        file.write_all_at(&new[end..=last], end as u64).unwrap();
    }
    reader = reader.catch_up().unwrap();
    assert_eq!(reader.len(), 2);
}

#[test]
fn a_reader_is_up_to_date_before_a_value_that_the_disk_lost() {
    let written = Written::new(Durability::Os, 31);
    written.table.put(b"before", b"value").unwrap();
    written.table.put(b"lost", &[0xA5; 9000]).unwrap();
    written.table.put(b"after", b"value").unwrap();
    // What a power loss leaves if the log's bytes were written and the value was not.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("table.spt");
    for file in segments(&written.path) {
        std::fs::copy(&file, directory.path().join(file.file_name().unwrap())).unwrap();
    }
    let mut bytes = std::fs::read(&written.path).unwrap();
    let at = bytes.windows(9000).position(|part| part == [0xA5; 9000]).expect("the value is in the file");
    bytes[at..at + 9000].fill(0);
    std::fs::write(&path, bytes).unwrap();
    let mut reader = reading().open(&path).unwrap();
    for _ in 0..2 {
        assert_eq!(reader.len(), 1);
        assert!(reader.newer().unwrap().is_none());
        reader = reader.catch_up().unwrap();
    }
    // A writer continues the log there.
    let writer = Table::open(&path).unwrap();
    writer.put(b"later", b"value").unwrap();
    reader = reader.catch_up().unwrap();
    assert_eq!(reader.len(), 2);
    assert!(reader.newer().unwrap().is_none());
}

#[test]
fn a_long_batch_is_seen_whole_once_its_end_is_logged() {
    let written = Written::new(Durability::Os, 13);
    let mut reader = reading().open(&written.path).unwrap();
    let mut batch = written.table.batch();
    for n in 0..40u8 {
        batch.put(&[n; 9], &[n; 100_000]).unwrap();
        reader = reader.catch_up().unwrap();
        assert_eq!(reader.len(), 0);
    }
    batch.commit().unwrap();
    reader = reader.catch_up().unwrap();
    assert_eq!(reader.len(), 40);
    assert_eq!(reader.get(&[7; 9]).unwrap().unwrap(), [7; 100_000]);
}

#[test]
fn a_backup_by_a_reader_has_the_writes_in_the_log() {
    for seed in 14..17 {
        let mut written = Written::new(Durability::Os, seed);
        let copy = written.path.with_file_name("copy.spt");
        for n in 0..40 {
            let what = written.change();
            let mut backup = Backup::new().overwrite(true);
            if n % 2 == 0 {
                backup.save(&reading().open(&written.path).unwrap(), &copy).unwrap();
            } else {
                backup.save_file(&written.path, &copy).unwrap();
            }
            assert!(content_of(&reading().open(&copy).unwrap()) == written.content, "{seed}, change {n}: {what}");
        }
        let only = TableOptions::new().checkpoint_only(true);
        written.table.checkpoint().unwrap();
        let content = written.content.clone();
        written.table.put(b"later", b"").unwrap();
        Backup::new().overwrite(true).options(only.read_only(true)).save_file(&written.path, &copy).unwrap();
        assert!(content_of(&reading().open(&copy).unwrap()) == content, "the checkpoint alone");
    }
}

/// The disk, but files of a log may not be opened.
struct UnreadableLog;

impl Storage for UnreadableLog {
    fn open(&self, path: &Path, mode: Mode) -> std::io::Result<Box<dyn File>> {
        let name = path.file_name().expect("a name").as_encoded_bytes();
        let is_log = name.windows(4).any(|part| part == b"-log");
        if is_log { Err(std::io::ErrorKind::PermissionDenied.into()) } else { Disk.open(path, mode) }
    }

    fn exists(&self, path: &Path) -> std::io::Result<bool> {
        Disk.exists(path)
    }

    fn remove(&self, path: &Path) -> std::io::Result<()> {
        Disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        Disk.rename(from, to)
    }

    fn sync_names(&self, path: &Path) -> std::io::Result<()> {
        Disk.sync_names(path)
    }
}

#[test]
fn a_log_that_may_not_be_read_is_not_taken_for_an_absent_one() {
    let written = Written::new(Durability::Os, 30);
    let [earlier, copy] = ["earlier.spt", "copy.spt"].map(|name| written.path.with_file_name(name));
    written.table.backup(&earlier).unwrap();
    written.table.put(b"alice", b"admin").unwrap();
    let options = || TableOptions { storage: Arc::new(UnreadableLog), ..reading() };
    let mut backup = Backup::new().options(options());
    assert_eq!(backup.save_file(&written.path, &copy).unwrap_err().kind(), ErrorKind::Io);
    assert!(!copy.exists());
    assert_eq!(backup.update_file(&written.path, &earlier).unwrap_err().kind(), ErrorKind::Io);
    // Salvage refuses a file that is open for writing.
    let killed = tempfile::tempdir().unwrap();
    for file in segments(&written.path).iter().chain([&written.path]) {
        std::fs::copy(file, killed.path().join(file.file_name().unwrap())).unwrap();
    }
    let report = options().salvage(killed.path().join("table.spt"), |_| ControlFlow::Continue(())).unwrap();
    assert!(report.log_unread && report.losses == 1, "{report:?}");
    // A copy of the last checkpoint does not need the log.
    Backup::new().options(options().checkpoint_only(true)).save_file(&written.path, &copy).unwrap();
    assert_eq!(reading().open(&copy).unwrap().len(), 0);
}

#[test]
fn readers_during_writes_that_reuse_segments_find_a_state_that_is_new_enough() {
    // The writes are a sequence. A state is right if it is a prefix of it, and new enough if it has every write that
    // had returned before the open.
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    let written = Written::new(Durability::Os, 18);
    let (table, path) = (&written.table, &written.path);
    let (done, returned) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u64.. {
                // Two keys, so that half of a batch would be noticed; sometimes a value in the file.
                let mut batch = table.batch();
                batch.put(b"a", &n.to_le_bytes()).unwrap();
                batch.put(b"b", &n.to_le_bytes()).unwrap();
                batch.commit().unwrap();
                table.put(format!("value {}", n % 7).as_bytes(), &[n as u8; 9000]).unwrap();
                returned.store(n, SeqCst);
                if n % 3 == 0 {
                    table.checkpoint().unwrap();
                }
                if done.load(SeqCst) {
                    return;
                }
            }
        });
        /// Stops the writer, even if an assertion fails.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let _done = Done(&done);
        let number = |value: Option<Vec<u8>>| value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()));
        let mut follower = reading().open(path).unwrap();
        for n in 0..400 {
            let at_least = returned.load(SeqCst);
            let reader = if n % 2 == 0 {
                &reading().open(path).unwrap()
            } else {
                follower = follower.catch_up().unwrap();
                &follower
            };
            let (a, b) = (number(reader.get(b"a").unwrap()), number(reader.get(b"b").unwrap()));
            assert!(a == b && a >= at_least, "{a} {b}, at least {at_least}");
            for key in 0..7 {
                if let Some(value) = reader.get(format!("value {key}").as_bytes()).unwrap() {
                    assert!(value.len() == 9000 && value.iter().all(|&byte| byte == value[0]));
                }
            }
        }
    });
}
