//! The plan of a build: everything about a dictionary except its records, and the limits of its build.

use super::duplicates::Duplicates;
use super::progress::ProgressCounter;
use crate::dictionary::format::ends::TYPES_BYTES;
use crate::dictionary::format::layout::{BLOCK_BYTES_MAX, Compression, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::dictionary::index::Index;
use crate::dictionary::index::filter::{FilterBits, SEGMENT_BUILD_BYTES};
use crate::dictionary::read::file::DictionaryFile;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{HashFunction, HashKind, USER_MISSING, USER_MISSING_HINT};
use crate::io::atomic::make_unnamed;
use crate::io::{Access, Disk, File, Granted, PERMISSIONS, Storage, memory_share_bytes};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The minimum memory per file.
pub(crate) const MEMORY_BYTES_MIN: u64 = 64 << 10;

/// Files that all sorts of a build may have open together; processes are often limited to 1024.
const OPEN_FILES_MAX: usize = 512;

/// Names a place in the source for error messages.
pub(crate) type PlaceNames = Arc<dyn Fn(u64) -> String + Send + Sync>;

/// The options and limits that all steps of a build are given.
#[derive(Clone)]
pub(crate) struct Plan {
    pub storage: Arc<dyn Storage>,
    pub page_bytes: u32,
    pub compression: Compression,
    /// Raw bytes of a compressed block.
    pub block_bytes: u32,
    pub hash: HashFunction,
    /// The names of the types of keys and values; empty for bytes.
    pub types: String,
    pub index: Index,
    /// Bits of the filter's fingerprints; 0 for no filter.
    pub filter_bits: u32,
    /// The limit for all buffers and the new index together; one record may be larger.
    pub memory_bytes: u64,
    /// 0: one per processor.
    pub threads: usize,
    /// The maximum number of temporary files that a sort has open.
    pub open_files: usize,
    pub duplicates: Duplicates,
    /// The directory of temporary files; that of the dictionary if `None`.
    pub temporary_directory: Option<PathBuf>,
    /// The start of the names of temporary files; set by [`for_sort`](Self::for_sort) and
    /// [`for_writing`](Self::for_writing).
    pub temporary: PathBuf,
    /// If set, temporary files have names and are kept, so that a later build with the same number continues from them.
    pub resume: Option<u64>,
    pub place_names: Option<PlaceNames>,
    /// Access to a dictionary that replaces none. `None`: that of the file it is made from.
    pub granted: Option<Granted>,
    /// The callback that every long loop reports to.
    pub progress: Arc<ProgressCounter>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            storage: Arc::new(Disk),
            page_bytes: 4096,
            compression: Compression::None,
            block_bytes: 16 << 10,
            hash: HashFunction::new(HashKind::DEFAULT, 0),
            types: String::new(),
            index: Index::default(),
            filter_bits: 0,
            memory_bytes: memory_share_bytes().min(1 << 30),
            threads: 0,
            open_files: OPEN_FILES_MAX,
            duplicates: Duplicates::Error,
            temporary_directory: None,
            temporary: PathBuf::new(),
            resume: None,
            place_names: None,
            granted: None,
            progress: Arc::default(),
        }
    }
}

impl Plan {
    /// Checks the options for a dictionary of `parts` files.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`].
    pub fn check(&self, parts: usize) -> Result<()> {
        let invalid = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if !self.page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes) {
            let expected = format!("expected a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}");
            return invalid(format!("page_bytes is {}, {expected}", self.page_bytes));
        }
        if self.block_bytes == 0 || self.block_bytes > BLOCK_BYTES_MAX {
            return invalid(format!("block_bytes is {}, expected 1 to {BLOCK_BYTES_MAX}", self.block_bytes));
        }
        if self.hash.is_missing() {
            return Err(Error::new(ErrorKind::InvalidArgument, USER_MISSING).with_hint(USER_MISSING_HINT));
        }
        if self.types.len() > TYPES_BYTES || self.types.contains('\0') {
            return invalid(format!("types is {:?}, expected names of at most {TYPES_BYTES} bytes", self.types));
        }
        let least = MEMORY_BYTES_MIN * parts.max(1) as u64;
        if self.memory_bytes < least {
            let files = if parts > 1 { format!("{parts} shards need") } else { "a build needs".to_owned() };
            return invalid(format!("memory_bytes is {}, {files} at least {least}", self.memory_bytes));
        }
        if self.filter_bits != 0 && self.filter().is_none() {
            return invalid(format!("filter is {} bits, expected 8 or 16, or 0 for none", self.filter_bits));
        }
        // The other half is for everything else.
        let least = 2 * SEGMENT_BUILD_BYTES * self.files_at_once(parts.max(1)) as u64;
        if self.filter().is_some() && self.memory_bytes < least {
            return invalid(format!("memory_bytes is {}, a filter needs at least {least}", self.memory_bytes));
        }
        self.index.check().or_else(invalid)
    }

    /// Resolves `path` to the file or directory that it leads to, which is the one to replace.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if links lead nowhere.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf> {
        self.storage.resolve(path).map_err(|e| Error::io(path, "follow the links of", e))
    }

    /// For a dictionary that gets `access`, the access of what it is made from, unless the plan says otherwise.
    pub fn made_from(mut self, access: Option<Access>) -> Self {
        self.granted = self.granted.or(access.map(Granted::Like));
        self
    }

    /// The access of the new file at `path`: that of the old one, if there is one.
    pub fn granted_at(&self, path: &Path) -> Result<Granted> {
        let new = self.granted.unwrap_or(Granted::Permissions(PERMISSIONS));
        Ok(access_at(self.storage.as_ref(), path)?.map_or(new, Granted::Like))
    }

    /// Sets the access of `file`, a new temporary file at `path` that may be kept, to that of the dictionary.
    pub fn share(&self, file: &dyn File, path: &Path) -> Result<()> {
        let Some(granted) = self.granted else { return Ok(()) };
        granted.complete(file).map_err(|e| Error::io(path, "set the owner and permissions of", e))
    }

    /// Checks that files can be created in the directory for temporary files, before anything else is done.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn check_temporary_directory(&self) -> Result<()> {
        let Some(directory) = &self.temporary_directory else { return Ok(()) };
        let Err(failed) = make_unnamed(self.storage.as_ref(), &directory.join("splitpoint")) else { return Ok(()) };
        let missing = failed.error.kind() == std::io::ErrorKind::NotFound;
        let why = if missing { "The directory does not exist: create it" } else { "Make it writable" };
        let error = Error::io(directory, "create temporary files in", failed.error);
        Err(error.with_hint(format!("{why}, or choose another directory for temporary files.")))
    }

    /// The size of the filter, if one is built.
    pub fn filter(&self) -> Option<FilterBits> {
        FilterBits::new(self.filter_bits)
    }

    /// Refuses to resume work that has no source to continue from.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`].
    pub fn check_not_resuming(&self) -> Result<()> {
        if self.resume.is_none() {
            return Ok(());
        }
        let message = "an update or reindexing cannot be resumed";
        Err(Error::new(ErrorKind::InvalidArgument, message).with_hint("Begin it again, without resume."))
    }

    /// The same plan for one more build, of which nothing is done yet.
    pub fn started(&self) -> Plan {
        Plan { progress: self.progress.restarted(), ..self.clone() }
    }

    /// The share of the sort for the file at `path`, one of `parts` files whose records are taken at the same time.
    pub fn for_sort(&self, path: &Path, parts: usize) -> Plan {
        Plan {
            memory_bytes: self.memory_bytes / parts as u64,
            threads: self.thread_count() / self.files_at_once(parts),
            open_files: self.open_files / parts,
            temporary: self.temporary_for(path),
            ..self.clone()
        }
    }

    /// The share for writing the file at `path`, one of `parts` files; each thread writes one at a time.
    pub fn for_writing(&self, path: &Path, parts: usize) -> Plan {
        let at_once = self.files_at_once(parts);
        // The sorts of the other shards wait while this one is written. Each may hold seven eighths of its share:
        // sealed blocks 4, blocks being filled 2, spare buffers 1.
        let eighth = self.memory_bytes / parts as u64 / 8 * (parts - at_once) as u64;
        let share = |held: u64| (self.memory_bytes - held) / at_once as u64;
        // With little memory a filter gets room for its segments, and the sorts are counted as if they held half.
        let least = if self.filter().is_some() { share(4 * eighth).min(2 * SEGMENT_BUILD_BYTES) } else { 0 };
        Plan {
            memory_bytes: share(7 * eighth).max(least),
            threads: self.thread_count() / at_once,
            temporary: self.temporary_for(path),
            ..self.clone()
        }
    }

    pub fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            count => count,
        }
    }

    fn files_at_once(&self, parts: usize) -> usize {
        self.thread_count().min(parts)
    }

    /// The start of the names of temporary files for the file at `path`.
    fn temporary_for(&self, path: &Path) -> PathBuf {
        let (Some(directory), Some(name)) = (&self.temporary_directory, path.file_name()) else {
            return path.to_owned();
        };
        // Files with the same name in two directories may share a directory for temporary files.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let number = HashKind::DEFAULT.hash(absolute.as_os_str().as_encoded_bytes(), 0);
        let mut name = name.to_owned();
        name.push(format!("-{number:016x}"));
        directory.join(name)
    }

    /// For a new file made from `old`: pages, compression and hash function are the old file's.
    pub fn shaped_as(mut self, old: &DictionaryFile) -> Self {
        self.page_bytes = old.header.page_bytes;
        self.compression = old.header.compression;
        if self.compression != Compression::None {
            self.block_bytes = old.header.block_bytes;
        }
        self.hash = old.hash.clone();
        self.types.clone_from(&old.header.types);
        self
    }
}

/// The access of the file or directory at `path`, if it exists.
///
/// # Errors
/// [`ErrorKind::Io`].
pub(crate) fn access_at(storage: &dyn Storage, path: &Path) -> Result<Option<Access>> {
    storage.access_at(path).map_err(|e| Error::io(path, "ask for the permissions of", e))
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
