//! A disk that calls a test before each change.
#![allow(clippy::disallowed_methods, reason = "tests look at the files from outside")]

use crate::io::{Access, Disk, File, Mapped, Mode, Storage};
use crate::table::{Durability, TableOptions};
use std::io::Result;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A hook that runs before each change, which fails with the hook's error, and before each lock and each read of a
/// header or a length. It gets the file and the call, which for a header of the table is `write_header` or
/// `read_header`.
type Before = Arc<dyn Fn(&Path, &str) -> Result<()> + Send + Sync>;

/// The disk of a writer.
#[derive(Clone, Default)]
pub(super) struct Watched {
    before: Arc<Mutex<Option<Before>>>,
    /// Whether the file system has no locks of bytes.
    lacks_locks: bool,
}

impl Watched {
    pub(super) fn without_locks() -> Watched {
        Watched { lacks_locks: true, ..Watched::default() }
    }

    /// Calls `before` before each later change.
    pub(super) fn watch(&self, before: impl Fn(&Path, &str) -> Result<()> + Send + Sync + 'static) {
        *self.before.lock().unwrap() = Some(Arc::new(before));
    }

    fn changes(&self, path: &Path, call: &str) -> Result<()> {
        let before = self.before.lock().unwrap().clone();
        before.map_or(Ok(()), |before| before(path, call))
    }

    fn file(&self, path: &Path, file: Box<dyn File>) -> Box<dyn File> {
        Box::new(WatchedFile { file, path: path.to_owned(), disk: self.clone() })
    }

    pub(super) fn options(&self) -> TableOptions {
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

impl WatchedFile {
    fn is_header(&self, bytes: &[u8], offset: u64) -> bool {
        const HEADER_BYTES: usize = 4096;
        self.path.extension().is_some_and(|extension| extension == "spt")
            && bytes.len() == HEADER_BYTES
            && offset <= HEADER_BYTES as u64
    }
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
        if self.is_header(bytes, offset) {
            self.disk.changes(&self.path, "read_header")?;
        }
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.disk.changes(&self.path, if self.is_header(bytes, offset) { "write_header" } else { "write_at" })?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.disk.changes(&self.path, "len")?;
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

    fn begin_sync(&self, offset: u64, bytes: u64) {
        self.disk.changes(&self.path, "begin_sync").expect("no test makes it fail");
        self.file.begin_sync(offset, bytes);
    }

    fn await_sync(&self, offset: u64, bytes: u64) -> Result<()> {
        self.file.await_sync(offset, bytes)
    }

    fn lock(&self) -> Result<bool> {
        self.disk.changes(&self.path, "lock")?;
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
        if self.disk.lacks_locks { Ok(None) } else { self.file.lock_byte(offset, alone) }
    }

    fn unlock_byte(&self, offset: u64) -> Result<()> {
        self.disk.changes(&self.path, "unlock_byte")?;
        self.file.unlock_byte(offset)
    }

    fn first_locked_bytes(&self, range: Range<u64>) -> Result<Option<Range<u64>>> {
        self.file.first_locked_bytes(range)
    }

    fn map(&self, _bytes: u64) -> Result<Option<Box<dyn Mapped>>> {
        Ok(None)
    }
}
