//! A reader keeps its checkpoint at every moment of later ones.
//!
//! The writer's disk runs a test's reads before each call that changes a file or a lock. So the test sees every state
//! that a reader in another process can meet, in order, whatever the speed of the disk.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use crate::error::ErrorKind;
use crate::io::simulated::{Simulated, State};
use crate::io::{Access, Disk, File, Mapped, Mode, Storage};
use crate::table::{Backup, Durability, Table, TableOptions};
use std::cell::Cell;
use std::io::Result;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A hook before each change, which fails with the hook's error. It gets the file and the call.
type Before = Box<dyn FnMut(&Path, &str) -> Result<()> + Send>;

/// The disk of a writer.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Option<Before>>>);

impl Watched {
    /// Calls `before` before each later change.
    fn watch(&self, before: impl FnMut(&Path, &str) -> Result<()> + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(before));
    }

    fn changes(&self, path: &Path, call: &str) -> Result<()> {
        self.0.lock().unwrap().as_mut().map_or(Ok(()), |before| before(path, call))
    }

    fn file(&self, path: &Path, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(WatchedFile { file, path: path.to_owned(), disk: self.clone() })
    }

    fn options(&self) -> TableOptions {
        let mut options = TableOptions::new().durability(Durability::None);
        options.storage = Arc::new(self.clone());
        options.inline_checkpoints = true;
        options
    }
}

struct WatchedFile {
    file: Box<dyn File>,
    path: PathBuf,
    disk: Watched,
}

impl Storage for Watched {
    fn open(&self, path: &Path, mode: Mode) -> Result<Box<dyn File>> {
        self.changes(path, "open")?;
        Ok(self.file(path, Disk.open(path, mode)?))
    }

    fn create(&self, path: &Path, permissions: u32) -> Result<Box<dyn File>> {
        self.changes(path, "create")?;
        Ok(self.file(path, Disk.create(path, permissions)?))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.changes(path, "remove")?;
        Disk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.changes(from, "rename")?;
        Disk.rename(from, to)
    }

    fn make_directory(&self, path: &Path, like: Option<&Path>) -> Result<bool> {
        self.changes(path, "make_directory")?;
        Disk.make_directory(path, like)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.changes(path, "remove_directory")?;
        Disk.remove_directory(path)
    }

    fn names_in(&self, directory: &Path) -> Result<Vec<String>> {
        Disk.names_in(directory)
    }

    fn sync_names(&self, path: &Path) -> Result<()> {
        self.changes(path, "sync_names")?;
        Disk.sync_names(path)
    }
}

impl File for WatchedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.changes(&self.path, "write_at")?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.disk.changes(&self.path, "set_len")?;
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.file.reserve(bytes)
    }

    fn access(&self) -> Result<Option<Access>> {
        self.file.access()
    }

    fn sync(&self) -> Result<()> {
        self.disk.changes(&self.path, "sync")?;
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

    fn lock_byte(&self, offset: u64, alone: bool) -> Result<Option<bool>> {
        self.disk.changes(&self.path, "lock_byte")?;
        self.file.lock_byte(offset, alone)
    }

    fn unlock_byte(&self, offset: u64) -> Result<()> {
        self.disk.changes(&self.path, "unlock_byte")?;
        self.file.unlock_byte(offset)
    }

    fn first_locked_byte(&self, range: Range<u64>) -> Result<Option<u64>> {
        self.file.first_locked_byte(range)
    }

    fn map(&self, _bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        Ok(None)
    }
}

fn journal_path(path: &Path) -> PathBuf {
    path.with_file_name("t.spt-ckpt")
}

/// Their frames are several times as many as a reader's cache has.
const PAIRS: u32 = 600;

/// More pairs.
const KEPT: u32 = 20;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Some values in pages, some in extents.
fn value(round: u8, n: u32) -> Vec<u8> {
    vec![round; if n.is_multiple_of(12) { 9_000 } else { 200 }]
}

fn put_all(table: &Table, round: u8) {
    (0..PAIRS).for_each(|n| table.put(&key(n), &value(round, n)).unwrap());
}

/// Opens the table for reading with a cache of a few frames, so that nearly every lookup reads the file.
fn open_to_read(path: &Path) -> Table {
    let mut options = TableOptions::new().read_only(true).cache_bytes(1);
    options.cache_frames_min = 16;
    options.open(path).unwrap()
}

fn assert_has_round(reader: &Table, round: u8) {
    for n in 0..PAIRS {
        assert_eq!(reader.get(&key(n)).unwrap(), Some(value(round, n)), "pair {n} of round {round}");
    }
}

/// Calls `look` with a reader of each round before each change of files and locks that the writer makes during later
/// checkpoints, the last of which truncates the file. Returns the number of frames that the readers' lookups read each
/// time.
fn look_beside_checkpoints(look: impl Fn(&Table, u8) + Clone + Send + 'static) -> u64 {
    const ROUNDS: u8 = 3;
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("t.spt");
    let disk = Watched::default();
    let writer = disk.options().open(&path).unwrap();
    let readers: Arc<Mutex<Vec<Table>>> = Arc::default();
    let (kept, looking) = (readers.clone(), look.clone());
    let looks = Arc::new(Mutex::new(0u64));
    let counted = looks.clone();
    disk.watch(move |_, _| {
        for (round, reader) in (0..).zip(&*kept.lock().unwrap()) {
            looking(reader, round);
            *counted.lock().unwrap() += 1;
        }
        Ok(())
    });
    // At the start of the file, and never changed.
    (PAIRS..PAIRS + KEPT).for_each(|n| writer.put(&key(n), &[7; 9_000]).unwrap());
    for round in 0..ROUNDS {
        put_all(&writer, round);
        writer.checkpoint().unwrap();
        let reader = open_to_read(&path);
        readers.lock().unwrap().push(reader);
    }
    (0..PAIRS).for_each(|n| assert!(writer.remove(&key(n)).unwrap()));
    writer.compact().unwrap();
    for (round, reader) in (0..).zip(&*readers.lock().unwrap()) {
        look(reader, round);
    }
    let looks = *looks.lock().unwrap();
    assert!(looks > 100, "{looks}");
    let read: u64 = readers.lock().unwrap().drain(..).map(|reader| reader.counters().frames_read).sum();
    writer.close().unwrap();
    read / looks
}

#[test]
fn a_reader_keeps_its_checkpoint_before_and_after_every_step_of_later_ones() {
    let read = look_beside_checkpoints(assert_has_round);
    assert!(read > 100, "{read} frames read each time");
}

#[test]
fn a_copy_of_a_held_checkpoint_and_a_check_of_it_are_right_before_and_after_every_step_of_later_ones() {
    look_beside_checkpoints(|reader, round| {
        assert_eq!(reader.verify().unwrap(), []);
        let disk: Arc<dyn Storage> = Arc::new(Simulated::new(State::default()));
        let options = || TableOptions { storage: disk.clone(), ..TableOptions::new() };
        Backup::new().options(options()).save(reader, "/copy.spt").unwrap();
        let copy = options().read_only(true).open("/copy.spt").unwrap();
        assert_has_round(&copy, round);
        assert_eq!((copy.len(), copy.verify().unwrap()), (u64::from(PAIRS + KEPT), vec![]));
    });
}

#[test]
fn a_check_that_cannot_read_says_so_and_calls_nothing_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let writer = Watched::default().options().open(&path).unwrap();
    put_all(&writer, 1);
    writer.checkpoint().unwrap();
    // Without undo files, nothing keeps a reader's checkpoint.
    std::fs::write(directory.path().join("t.spt-undo"), "in the way of a directory").unwrap();
    // The next checkpoint is written over the file while the check reads frames, then while it walks the buckets.
    for part in 0..2 {
        let reader = open_to_read(&path);
        assert_eq!(reader.verify().unwrap(), []);
        put_all(&writer, 2 + part);
        let (calls, frames) = (Cell::new(0), u32::from(part) * reader.pager.frame_count());
        let proceed = || {
            if calls.replace(calls.get() + 1) == frames {
                writer.checkpoint().unwrap();
            }
            ControlFlow::Continue(())
        };
        assert_eq!(reader.verify_while(proceed).unwrap_err().kind(), ErrorKind::Stale);
        assert_eq!(reader.verify().unwrap_err().kind(), ErrorKind::Stale);
    }
}

/// A table with round 1 in its file and round 2 in a complete journal: the first checkpoint's file, the second one's
/// journal and file, as a killed process leaves them.
struct Interrupted {
    directory: tempfile::TempDir,
    journal: Vec<u8>,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Interrupted {
    fn make() -> Interrupted {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let disk = Watched::default();
        let writer = disk.options().open(&path).unwrap();
        put_all(&writer, 1);
        writer.checkpoint().unwrap();
        let old = std::fs::read(&path).unwrap();
        put_all(&writer, 2);
        let journal = Arc::new(Mutex::new(Vec::new()));
        let (kept, beside) = (journal.clone(), journal_path(&path));
        disk.watch(move |_, _| {
            let bytes = std::fs::read(&beside).unwrap_or_default();
            if bytes.starts_with(b"SPLITJRN") {
                *kept.lock().unwrap() = bytes;
            }
            Ok(())
        });
        writer.close().unwrap();
        let (new, journal) = (std::fs::read(&path).unwrap(), std::mem::take(&mut *journal.lock().unwrap()));
        assert!(journal.len() > 10 * 4096);
        Interrupted { directory, journal, old, new }
    }

    /// The path of a table with these bytes and this journal.
    fn put(&self, table: &[u8], journal: &[u8]) -> PathBuf {
        let path = self.directory.path().join("t.spt");
        std::fs::write(&path, table).unwrap();
        std::fs::write(journal_path(&path), journal).unwrap();
        path
    }
}

#[test]
fn a_reader_ignores_a_journal_that_is_damaged_and_one_that_is_incomplete() {
    let left = Interrupted::make();
    let changed = |at: usize| {
        let mut bytes = left.journal.clone();
        bytes[at] ^= 1;
        bytes
    };
    let length = left.journal.len();
    let journals = [
        changed(10),
        changed(30),
        changed(62),
        changed(64 + 5000),
        changed(length - 3),
        left.journal[..length - 1].to_vec(),
    ];
    for journal in journals {
        let path = left.put(&left.old, &journal);
        let reader = open_to_read(&path);
        assert_has_round(&reader, 1);
        assert_eq!(reader.verify().unwrap(), []);
        assert!(journal_path(&path).exists(), "a reader changes nothing");
        // The reader keeps its checkpoint while a writer removes that journal and writes others.
        let writer = Table::open(&path).unwrap();
        assert!(!journal_path(&path).exists());
        for round in 3..5 {
            put_all(&writer, round);
            writer.checkpoint().unwrap();
            assert_has_round(&reader, 1);
        }
        assert_has_round(&open_to_read(&path), 4);
        writer.close().unwrap();
        assert_has_round(&reader, 1);
    }
}

#[test]
fn a_damaged_journal_of_an_interrupted_checkpoint_is_named_where_the_table_is_damaged_without_it() {
    let left = Interrupted::make();
    let mut journal = left.journal.clone();
    journal[64 + 5000] ^= 1;
    let (mut told, mut whole) = (0, 0);
    // The checkpoint was interrupted after each number of frames.
    let common = left.old.len().min(left.new.len());
    for frames in 0..common / 4096 {
        let mixed = [&left.new[..frames * 4096], &left.old[frames * 4096..]].concat();
        let path = left.put(&mixed, &journal);
        let opened = TableOptions::new().read_only(true).open(&path);
        let read = opened.and_then(|table| (0..PAIRS).try_for_each(|n| table.get(&key(n)).map(drop)));
        match read {
            Ok(()) => whole += 1,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
                assert!(e.to_string().contains("t.spt-ckpt is damaged or incomplete"), "{e}");
                told += 1;
            }
        }
        std::fs::remove_file(journal_path(&path)).unwrap();
        // Without it, the error does not mention a journal.
        let opened = TableOptions::new().read_only(true).open(&path);
        let read = opened.and_then(|table| (0..PAIRS).try_for_each(|n| table.get(&key(n)).map(drop)));
        assert!(read.err().is_none_or(|e| !e.to_string().contains("journal")));
    }
    assert!(told > 3 && whole > 0, "{told} {whole}");
}

#[test]
fn a_reader_is_refused_immediately_if_a_checkpoint_was_interrupted() {
    let left = Interrupted::make();
    let path = left.put(&left.old, &left.journal);
    let disk = Watched::default();
    let opens = || {
        let opens = Arc::new(Mutex::new(0));
        let count = opens.clone();
        disk.watch(move |_, call| {
            *count.lock().unwrap() += u32::from(call == "open");
            Ok(())
        });
        let e = disk.options().read_only(true).open(&path).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Locked, "{e}");
        assert!(e.to_string().contains("was interrupted") && e.to_string().contains("for writing"), "{e}");
        *opens.lock().unwrap()
    };
    assert!(opens() < 10, "nobody has the table open");
    // A handle that accepts no more writes keeps the lock of the table and not that of the journal. A process that
    // opens the table holds both only for a moment.
    let poisoned = Disk.open(&path, Mode::Write).unwrap();
    assert!(poisoned.lock().unwrap());
    assert!((100..1000).contains(&opens()), "{}", opens());
    drop(poisoned);
    Table::open(&path).unwrap();
    assert_has_round(&open_to_read(&path), 2);
}

#[test]
fn a_reader_notices_that_the_undo_file_of_a_failed_checkpoint_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let disk = Watched::default();
    let writer = disk.options().open(&path).unwrap();
    put_all(&writer, 1);
    writer.checkpoint().unwrap();
    let reader = Arc::new(open_to_read(&path));
    // The reader finds this checkpoint's journal and undo file; then the checkpoint fails, before it changes the file.
    (0..PAIRS / 2).for_each(|n| writer.put(&key(n), &value(2, n)).unwrap());
    let beside = reader.clone();
    disk.watch(move |path, call| {
        assert_has_round(&beside, 1);
        let is_journal = call == "sync_names" && path.ends_with("t.spt-ckpt");
        if is_journal { Err(std::io::Error::other("the directory cannot be synced")) } else { Ok(()) }
    });
    writer.checkpoint().unwrap_err();
    drop(writer);
    // The next checkpoint changes other frames, which the first undo file lacks.
    let writer = Table::open(&path).unwrap();
    (PAIRS / 2..PAIRS).for_each(|n| writer.put(&key(n), &value(3, n)).unwrap());
    writer.checkpoint().unwrap();
    assert_has_round(&reader, 1);
    put_all(&writer, 4);
    writer.checkpoint().unwrap();
    assert_has_round(&reader, 1);
}

fn undo_files(path: &Path) -> usize {
    std::fs::read_dir(path.with_file_name("t.spt-undo")).map_or(0, |entries| entries.count())
}

#[test]
fn a_reader_that_is_stopped_while_it_chooses_costs_one_undo_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let writer = Table::open(&path).unwrap();
    let chooser = Disk.open(&path, Mode::Read).unwrap();
    assert_eq!(chooser.lock_byte(0, false).unwrap(), Some(true));
    for round in 0..5 {
        put_all(&writer, round);
        writer.checkpoint().unwrap();
        assert_eq!(undo_files(&path), 1);
    }
    // It may have taken the last checkpoint, and then needs what later ones change.
    let reader = open_to_read(&path);
    for round in 5..8 {
        put_all(&writer, round);
        writer.checkpoint().unwrap();
        assert_has_round(&reader, 4);
    }
    drop((chooser, reader));
    put_all(&writer, 9);
    writer.checkpoint().unwrap();
    assert!(!directory.path().join("t.spt-undo").exists());
}

#[test]
fn an_empty_undo_directory_that_a_power_loss_left_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy, undo) =
        (directory.path().join("t.spt"), directory.path().join("c.spt"), directory.path().join("t.spt-undo"));
    let writer = Table::open(&path).unwrap();
    put_all(&writer, 1);
    writer.backup(&copy).unwrap();
    writer.close().unwrap();
    std::fs::create_dir(&undo).unwrap();
    let writer = Table::open(&path).unwrap();
    writer.put(b"k", b"v").unwrap();
    writer.close().unwrap();
    assert!(!undo.exists(), "by a checkpoint");
    std::fs::create_dir(&undo).unwrap();
    Table::open(&path).unwrap().close().unwrap();
    assert!(!undo.exists(), "by a close");
    std::fs::create_dir(&undo).unwrap();
    Backup::new().overwrite(true).restore(&copy, &path).unwrap();
    assert!(!undo.exists(), "by a restore");
}
