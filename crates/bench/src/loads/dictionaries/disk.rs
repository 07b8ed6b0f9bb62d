//! Disk use of a dictionary: during the build, and with none of it in the page cache.

use crate::engine::Outcome;
use crate::measure::FileSize;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statvfs::statvfs;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples the process's bytes on the disk every few milliseconds: the files of a directory, and unlinked files that it
/// has open.
pub struct Watch {
    done: Arc<AtomicBool>,
    most: JoinHandle<u64>,
}

/// Sampling interval. A shorter peak is not seen.
const EVERY: Duration = Duration::from_millis(20);

impl Watch {
    /// Starts sampling.
    pub fn start(directory: &Path) -> Watch {
        let (directory, done) = (directory.to_owned(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&done);
        let most = std::thread::spawn(move || {
            let mut most = 0;
            while !ends.load(Ordering::Relaxed) {
                most = most.max(bytes_now(&directory));
                std::thread::park_timeout(EVERY);
            }
            most
        });
        Watch { done, most }
    }

    /// Stops and returns the largest sample.
    pub fn most(self) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.most.thread().unpark();
        self.most.join().unwrap_or(0)
    }
}

fn bytes_now(directory: &Path) -> u64 {
    let mut files = BTreeMap::new();
    let mut folders = vec![directory.to_owned(), PathBuf::from("/proc/self/fd")];
    while let Some(folder) = folders.pop() {
        // Files appear and disappear during the walk.
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(data) = std::fs::metadata(entry.path()) else { continue };
            if data.is_dir() && folder.starts_with(directory) {
                folders.push(entry.path());
            } else if data.is_file() && (data.nlink() == 0 || folder.starts_with(directory)) {
                files.insert((data.dev(), data.ino()), data.blocks() * 512);
            }
        }
    }
    files.values().sum()
}

/// Refuses a run in `directory` if its file system has less than this free for us.
pub fn require_free(directory: &Path, needed: u64) -> Outcome {
    if needed == 0 {
        return Ok(());
    }
    let system = statvfs(directory)?;
    let free = system.blocks_available() * system.fragment_size();
    if free >= needed {
        return Ok(());
    }
    let (needed, free) = (needed.div_ceil(1 << 30), free >> 30);
    let directory = directory.display();
    Err(format!("{directory}: {free} GiB free, this form needs {needed}; choose another directory with --dir").into())
}

/// Evicts all files below `path` from the page cache. Pages that a process has mapped stay.
pub fn drop_cache(path: &Path) -> Outcome {
    if path.is_dir() {
        return std::fs::read_dir(path)?.try_for_each(|entry| drop_cache(&entry?.path()));
    }
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

/// Returns the number of bytes that the disk has delivered to this process so far.
pub fn disk_reads() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Copies all files below `from` to `to` and syncs the copies.
pub fn copy(from: &Path, to: &Path) -> Outcome {
    if from.is_dir() {
        std::fs::create_dir_all(to)?;
        return std::fs::read_dir(from)?.try_for_each(|entry| {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))
        });
    }
    let (mut from, mut to, mut bytes) = (File::open(from)?, File::create(to)?, vec![0; 1 << 20]);
    loop {
        let len = from.read(&mut bytes)?;
        if len == 0 {
            return Ok(to.sync_all()?);
        }
        to.write_all(&bytes[..len])?;
    }
}

/// Removes the file or directory at `path`, if it exists.
pub fn remove(path: &Path) -> Outcome {
    match std::fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => Ok(std::fs::remove_dir_all(path)?),
        Ok(_) => Ok(std::fs::remove_file(path)?),
        Err(_) => Ok(()),
    }
}

/// Blocks of the file or directory at `path`; 0 if it does not exist.
pub fn bytes_at(path: &Path) -> u64 {
    FileSize::of(path).map_or(0, |size| size.blocks)
}

/// Appends a pair to a file, for builds that read from the disk: both lengths in 4 bytes, then both strings.
pub fn write_pair(file: &mut impl Write, (key, value): (&[u8], &[u8])) -> Outcome {
    for len in [key.len(), value.len()] {
        file.write_all(&u32::try_from(len)?.to_le_bytes())?;
    }
    file.write_all(key)?;
    Ok(file.write_all(value)?)
}

/// Reads the pairs of such a file.
pub struct PairsFile {
    file: BufReader<File>,
    left: u64,
    pair: Vec<u8>,
}

impl PairsFile {
    /// Starts at the beginning; there are `count` pairs.
    pub fn open(path: &Path, count: u64) -> Outcome<PairsFile> {
        Ok(PairsFile { file: BufReader::with_capacity(1 << 20, File::open(path)?), left: count, pair: Vec::new() })
    }

    /// Returns the next pair.
    pub fn next(&mut self) -> Outcome<Option<(&[u8], &[u8])>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut lens = [0; 8];
        self.file.read_exact(&mut lens)?;
        let len = |at: usize| u32::from_le_bytes([lens[at], lens[at + 1], lens[at + 2], lens[at + 3]]) as usize;
        self.pair.resize(len(0) + len(4), 0);
        self.file.read_exact(&mut self.pair)?;
        Ok(Some(self.pair.split_at(len(0))))
    }
}
