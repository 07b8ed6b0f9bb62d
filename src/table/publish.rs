//! Counters for other processes: a small file next to the table, written a few times a second if the options ask for
//! it.
//!
//! ```text
//! the table's process  <path>-stats: created and locked at open, 512 bytes rewritten repeatedly, removed at close
//! a watcher            reads it; if it is not locked, its process ended without closing the table
//! ```
//!
//! Opt-in, by [`TableOptions::publish_counters`](super::TableOptions::publish_counters): without it there is no file
//! and no thread. The table does not depend on the file: write errors are ignored, and only watchers read it, as
//! untrusted bytes.
//!
//! Format: docs/format.md, "Published counters". Not here: the counters (`counters.rs`).

use super::counters::{COUNT, TableCounters};
use super::gate::Counted;
use crate::buckets::Activity;
use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::io::atomic::with_suffix;
use crate::io::{Disk, Storage};
use crate::io::{File, Mode, PRIVATE, forked_since, forks, open_locked};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::{Pager, resolve};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// First bytes of the file. On disk.
const MAGIC: [u8; 8] = *b"SPLITSTA";
/// Format version. On disk.
const FORMAT_VERSION: u32 = 1;
/// Bytes of the file. On disk.
const BYTES: usize = 512;
/// Offset of the counters. On disk.
const WORDS: usize = 32;
/// End of the counters; the bytes after it are zero.
const WORDS_END: usize = WORDS + 8 * COUNT;
/// Offset of the checksum of all bytes before it. On disk.
const SUM: usize = BYTES - 4;
const _: () = assert!(WORDS_END <= SUM);
/// Time between two writes.
const EVERY: Duration = Duration::from_millis(250);

fn path_of(table: &Path) -> PathBuf {
    with_suffix(table, "-stats")
}

/// Counters published by the process that has a table open; see
/// [`TableOptions::publish_counters`](crate::TableOptions::publish_counters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedCounters {
    /// The table's counters, as returned by [`Table::counters`](crate::Table::counters).
    pub counters: TableCounters,
    /// The ID of that process.
    pub process: u32,
    /// The number of times that it has written them.
    pub tick: u64,
    /// Milliseconds from the open of the table to the last write.
    pub open_ms: u64,
    /// Whether the process still has the table open. If not, it ended without closing the table.
    pub is_open: bool,
}

impl PublishedCounters {
    /// Returns the counters published for the table at `path`; `None` if there are none. Does not open the table.
    ///
    /// O(1). Does not delay other processes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] and [`ErrorKind::Version`] for a file `<path>-stats` that cannot be read as counters;
    /// [`ErrorKind::Io`].
    pub fn read(path: impl AsRef<Path>) -> Result<Option<PublishedCounters>> {
        // A read may overlap a write, which takes microseconds.
        const TRIES: usize = 20;
        let path = path_of(&resolve(&Disk, path.as_ref())?);
        let mut tries = 0;
        loop {
            tries += 1;
            match Self::read_once(&path) {
                Err(e) if e.kind() == ErrorKind::Corrupt && tries < TRIES => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    fn read_once(path: &Path) -> Result<Option<PublishedCounters>> {
        let failed = |e| Error::io(path, "read", e);
        let file = match Disk.open(path, Mode::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::IsADirectory | std::io::ErrorKind::InvalidData) => {
                return Err(not_counters(path, "not a regular file"));
            }
            other => other.map_err(failed)?,
        };
        let len = file.len().map_err(failed)?;
        if len != BYTES as u64 {
            return Err(not_counters(path, format!("{len} bytes, expected {BYTES}")));
        }
        let mut bytes = [0; BYTES];
        file.read_at(&mut bytes, 0).map_err(failed)?;
        let published = Self::parse(&bytes, path)?;
        let is_open = file.is_locked().map_err(failed)?;
        Ok(Some(PublishedCounters { is_open, ..published }))
    }

    /// Parses all fields but `is_open`, which is not in the file.
    fn parse(bytes: &[u8; BYTES], path: &Path) -> Result<PublishedCounters> {
        if bytes[..8] != MAGIC {
            return Err(not_counters(path, "it does not start with SPLITSTA"));
        }
        if u32_at(bytes, 8) != FORMAT_VERSION {
            let (path, version) = (path.display(), u32_at(bytes, 8));
            let what = format!("{path}: format version {version}, this library reads {FORMAT_VERSION}");
            return Err(Error::new(ErrorKind::Version, what).with_hint("Upgrade splitpoint."));
        }
        let (stored, computed) = (u32_at(bytes, SUM), crc32c(&bytes[..SUM]));
        if stored != computed {
            let what = format!("checksum mismatch, stored {stored:08x}, computed {computed:08x}");
            return Err(not_counters(path, what));
        }
        if bytes[WORDS_END..SUM].iter().any(|&b| b != 0) {
            return Err(not_counters(path, "reserved bytes are not zero"));
        }
        let counters = TableCounters::from_words(std::array::from_fn(|i| u64_at(bytes, WORDS + 8 * i)));
        Ok(PublishedCounters {
            counters,
            process: u32_at(bytes, 12),
            tick: u64_at(bytes, 16),
            open_ms: u64_at(bytes, 24),
            is_open: false,
        })
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.process.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.tick.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.open_ms.to_le_bytes());
        for (i, word) in self.counters.to_words().iter().enumerate() {
            bytes[WORDS + 8 * i..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32c(&bytes[..SUM]);
        bytes[SUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

fn not_counters(path: &Path, what: impl std::fmt::Display) -> Error {
    let path = path.display();
    Error::corrupt(format!("{path}: not a file of published counters: {what}"))
        .with_hint("It is not part of the table: remove it if nothing else uses it.")
}

/// The thread that publishes, and its file.
pub(super) struct Publisher {
    job: Option<(Arc<Job>, JoinHandle<()>)>,
    forks: u32,
}

struct Job {
    activity: Arc<Activity>,
    counted: Counted,
    pager: Arc<Pager>,
    file: Box<dyn File>,
    path: PathBuf,
    start: Instant,
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Publisher {
    /// Publishes the counters of a table until it is dropped.
    ///
    /// # Errors
    /// Fails if the file cannot be created, or exists and is not a file of counters.
    pub(super) fn start(activity: Arc<Activity>, counted: Counted, pager: Arc<Pager>) -> Result<Publisher> {
        let path = path_of(pager.path());
        let file = take_file(pager.file().storage().as_ref(), &path)?;
        pager.file().share_access(file.as_ref(), &path)?;
        let job = Arc::new(Job {
            activity,
            counted,
            pager,
            file,
            path,
            start: Instant::now(),
            stop: Mutex::new(false),
            changed: Condvar::new(),
        });
        job.write(1);
        let theirs = job.clone();
        let thread = std::thread::Builder::new().name("splitpoint-stats".into()).spawn(move || theirs.run());
        match thread {
            Ok(thread) => Ok(Publisher { job: Some((job, thread)), forks: forks() }),
            Err(e) => {
                job.remove();
                Err(Error::io(&job.path, "start a thread to write", e))
            }
        }
    }
}

/// Creates and locks the file, or takes over one that a dead process left.
fn take_file(storage: &dyn Storage, path: &Path) -> Result<Box<dyn File>> {
    // A watcher tests the lock by taking it briefly.
    const TRIES: usize = 20;
    for _ in 0..TRIES {
        let opened = open_locked(storage, path, PRIVATE).map_err(|e| Error::io(path, "make", e))?;
        let Some(file) = opened else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let len = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
        let mut magic = [0; MAGIC.len()];
        if len == 0 || len == BYTES as u64 && file.read_at(&mut magic, 0).is_ok() && magic == MAGIC {
            return Ok(file);
        }
        break;
    }
    let what = "exists and is not a file of counters, or another process writes it";
    Err(Error::new(ErrorKind::InvalidArgument, format!("{}: {what}", path.display()))
        .with_hint("Move it, or open the table without publish_counters."))
}

impl Job {
    fn run(&self) {
        let mut tick = 1;
        let mut stop = self.stop.lock().expect("no panic while held");
        while !*stop {
            stop = self.changed.wait_timeout(stop, EVERY).expect("no panic while held").0;
            tick += 1;
            self.write(tick);
        }
    }

    /// Writes the counters. After an error the next write tries again.
    fn write(&self, tick: u64) {
        let counters = TableCounters::now(&self.activity, &self.counted, &self.pager);
        let open_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let published = PublishedCounters { counters, process: std::process::id(), tick, open_ms, is_open: true };
        let _ = self.file.write_at(&published.to_bytes(), 0);
    }

    fn remove(&self) {
        // If the file was removed, its name may belong to another table by now.
        if self.file.is_at(&self.path).unwrap_or(false) {
            let _ = self.pager.file().storage().remove(&self.path);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let Some((job, thread)) = self.job.take() else { return };
        if forked_since(self.forks) {
            // The thread does not exist in a child, and may have held its lock at the fork; the file is the parent's.
            std::mem::forget((job, thread));
            return;
        }
        *job.stop.lock().expect("no panic while held") = true;
        job.changed.notify_all();
        let _ = thread.join();
        job.remove();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests look at the file from outside")]

    use super::*;
    use crate::table::{Table, TableOptions};

    fn table_with_stats(directory: &tempfile::TempDir) -> (PathBuf, Table) {
        let path = directory.path().join("t.spt");
        let table = TableOptions::new().publish_counters(true).open(&path).unwrap();
        (path, table)
    }

    #[test]
    fn what_is_published_is_what_the_table_says_and_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let (path, table) = table_with_stats(&directory);
        let first = PublishedCounters::read(&path).unwrap().unwrap();
        assert!(first.tick >= 1, "{first:?}");
        assert_eq!((first.process, first.is_open), (std::process::id(), true));
        for i in 0..1000u32 {
            table.put(&i.to_le_bytes(), b"value").unwrap();
        }
        let wanted = table.counters();
        let start = Instant::now();
        let later = loop {
            let now = PublishedCounters::read(&path).unwrap().unwrap();
            if now.counters == wanted {
                break now;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{now:?}, expected {wanted:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(later.tick > first.tick && later.open_ms >= first.open_ms, "{later:?}");
        table.close().unwrap();
        assert_eq!(PublishedCounters::read(&path).unwrap(), None);
        assert!(!path_of(&path).exists());
    }

    #[test]
    fn a_table_that_does_not_publish_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let _table = Table::open(&path).unwrap();
        assert_eq!(PublishedCounters::read(&path).unwrap(), None);
        let refused = |error: Error| assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        refused(TableOptions::new().read_only(true).publish_counters(true).open(&path).unwrap_err());
        refused(TableOptions::new().publish_counters(true).in_memory().unwrap_err());
    }

    #[test]
    fn a_file_of_a_process_that_died_is_detected_and_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let left = PublishedCounters { tick: 7, process: 1, ..PublishedCounters::default() };
        std::fs::write(path_of(&path), left.to_bytes()).unwrap();
        assert_eq!(PublishedCounters::read(&path).unwrap(), Some(left));
        let (_, table) = table_with_stats(&directory);
        assert!(PublishedCounters::read(&path).unwrap().unwrap().is_open);
        drop(table);
        assert_eq!(PublishedCounters::read(&path).unwrap(), None);
    }

    #[test]
    fn a_file_of_another_purpose_is_not_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        std::fs::write(path_of(&path), b"my notes about the stats").unwrap();
        let error = TableOptions::new().publish_counters(true).open(&path).unwrap_err();
        assert!(error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("t.spt-stats"), "{error}");
        assert_eq!(std::fs::read(path_of(&path)).unwrap(), b"my notes about the stats");
        drop(Table::open(&path).unwrap());
    }

    #[test]
    fn any_bytes_are_counters_or_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let good = PublishedCounters {
            counters: TableCounters::from_words([u64::MAX; COUNT]),
            ..PublishedCounters::default()
        };
        let bytes = good.to_bytes();
        let read = |bytes: &[u8]| {
            std::fs::write(path_of(&path), bytes).unwrap();
            PublishedCounters::read_once(&path_of(&path)).map(|read| read.expect("there is a file"))
        };
        assert_eq!(read(&bytes).unwrap(), good);
        for len in [0, 1, 7, 511, 513, 4096] {
            let mut cut = bytes.to_vec();
            cut.resize(len, 0);
            assert_eq!(read(&cut).unwrap_err().kind(), ErrorKind::Corrupt, "{len} bytes");
        }
        for at in 0..BYTES {
            let mut flipped = bytes;
            flipped[at] ^= 1;
            let kind = read(&flipped).unwrap_err().kind();
            assert_eq!(kind, if (8..12).contains(&at) { ErrorKind::Version } else { ErrorKind::Corrupt }, "byte {at}");
        }
        // A correct checksum does not make reserved bytes valid.
        let mut reserved = bytes;
        reserved[WORDS_END] = 1;
        let sum = crc32c(&reserved[..SUM]);
        reserved[SUM..].copy_from_slice(&sum.to_le_bytes());
        assert!(read(&reserved).unwrap_err().to_string().contains("reserved"));
        std::fs::remove_file(path_of(&path)).unwrap();
        std::fs::create_dir(path_of(&path)).unwrap();
        assert_eq!(PublishedCounters::read_once(&path_of(&path)).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
