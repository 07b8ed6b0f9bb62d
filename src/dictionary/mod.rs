//! Dictionaries: far more pairs than memory, found with one read each, changed in batches.
//!
//! ```text
//! build(pairs)   source -> hash -> sort (sort/) -> pages (write.rs) -> index (index/) -> footer (assemble.rs) -> rename (publish.rs)
//! get(key)       hash -> index (pages or rank) -> one read (file.rs, read.rs) -> compare key (search.rs) -> value
//! update         old records (walk.rs) + sorted batch -> merge in hash order (merge.rs) -> as a build
//! ```
//!
//! A dictionary is one file (`.spd`), written once, or a directory of such files with a manifest (`shards.rs`). Pairs lie in hash
//! order, the order of the reversed hashes, in which a [`Table`](crate::Table) is scanned too. Full keys are stored and compared,
//! so a key that is not there is never found.
//!
//! Source: Lim, Andersen & Kaminsky 2013, Practical Batch-Updatable External Hashing with Sorting. What differs and why:
//! docs/architecture.md, "Dictionaries". The bytes: docs/dictionary-format.md.

mod arrange;
mod assemble;
mod block;
mod build;
#[cfg(test)]
mod crash;
mod file;
#[cfg(test)]
mod foreign;
mod format;
pub(crate) mod index;
mod many;
mod merge;
mod pages;
mod publish;
mod read;
mod record;
mod run;
mod search;
mod shards;
pub(crate) mod sort;
mod spool;
mod stat;
mod target;
#[cfg(test)]
mod test_random;
#[cfg(test)]
mod tests;
mod verify;
mod walk;
mod write;

use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::{Disk, Storage};
pub(crate) use build::HashOrdered;
pub use build::{Build, DictionaryBuilder, Progress};
use file::{Access, DictionaryFile};
pub use format::Compression;
pub use index::{Effort, Index};
pub use merge::Update;
use run::Run;
use shards::{Manifest, Shard};
pub use sort::Duplicates;
pub use stat::DictionaryStat;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use walk::Walk;

/// How a dictionary is opened.
///
/// # Examples
/// ```no_run
/// use splitpoint::DictionaryOptions;
/// let words = DictionaryOptions::new().map_data(true).open("words.spd")?;
/// # Ok::<(), splitpoint::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct DictionaryOptions {
    access: Access,
}

impl DictionaryOptions {
    /// The index in memory, data by `pread`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads data from a mapping of the file instead of by `pread`: several times as fast for what is in the system's cache.
    ///
    /// Then a disk that fails, or another program that cuts the file, is a signal (SIGBUS) and no error, and a page's checksum is
    /// compared only the first time.
    pub fn map_data(mut self, map: bool) -> Self {
        self.access.map_data = map;
        self
    }

    /// Uses the index from a mapping of the file instead of loading it: an open costs reading it once, and several processes share
    /// its memory.
    ///
    /// Then a disk that fails, or another program that cuts the file, is a signal (SIGBUS) and no error, as with
    /// [`map_data`](Self::map_data); an index that changes after the open is not compared with its checksum again.
    pub fn map_index(mut self, map: bool) -> Self {
        self.access.map_index = map;
        self
    }

    /// The function of a dictionary that was built with the user's own ([`HashFunction::user`]).
    pub fn hash(mut self, hash: HashFunction) -> Self {
        self.access.hash = Some(hash);
        self
    }

    /// Opens the dictionary at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::NotATable`], [`ErrorKind::Version`],
    /// [`ErrorKind::Corrupt`], [`ErrorKind::WrongHash`],
    /// [`ErrorKind::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Dictionary> {
        self.open_on(&Disk, path.as_ref())
    }

    fn open_on(&self, storage: &'static dyn Storage, path: &Path) -> Result<Dictionary> {
        let mut dictionary = Dictionary {
            storage,
            path: path.to_owned(),
            access: self.access.clone(),
            files: Vec::new(),
            manifest: None,
        };
        dictionary.reload()?;
        Ok(dictionary)
    }
}

/// A dictionary, open for reading: a file, or a directory of shards. Any number of threads use it at once, and none waits for another.
///
/// It is the state that was there when it was opened: a build or an update that replaces it makes new files beside those that it
/// has. [`reload`](Self::reload) takes the new ones.
pub struct Dictionary {
    storage: &'static dyn Storage,
    path: PathBuf,
    access: Access,
    /// One, or one a shard.
    files: Vec<Arc<DictionaryFile>>,
    /// Of a directory.
    manifest: Option<Manifest>,
}

/// An update may take away the files that a manifest names while they are opened; then there is another manifest.
const OPEN_TRIES: usize = 10;

impl Dictionary {
    /// Opens the dictionary at `path` with the default options.
    ///
    /// # Errors
    /// As [`DictionaryOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Dictionary> {
        DictionaryOptions::new().open(path)
    }

    /// Takes what is at the dictionary's path now, if that is not what was opened; tells whether it took something new. Costs a look at
    /// the names, and an open of what changed: of a directory only the shards that did.
    ///
    /// # Errors
    /// As [`DictionaryOptions::open`]; then it stays as it was.
    pub fn reload(&mut self) -> Result<bool> {
        if self.manifest.is_none()
            && let [file] = &self.files[..]
            && file.is_at(&self.path)?
        {
            return Ok(false);
        }
        match DictionaryFile::open(self.storage, &self.path, &self.access) {
            Ok(file) => {
                let same = self.manifest.is_none() && self.files.first().is_some_and(|old| old.is_same(&file));
                if !same {
                    (self.files, self.manifest) = (vec![Arc::new(file)], None);
                }
                Ok(!same)
            }
            Err(error) if is_directory(&error) => self.reload_shards(),
            Err(error) => Err(error),
        }
    }

    fn reload_shards(&mut self) -> Result<bool> {
        for tries_left in (0..OPEN_TRIES).rev() {
            let manifest = Manifest::read(self.storage, &self.path)?.ok_or_else(|| no_manifest(&self.path))?;
            let files: Result<Vec<_>> = manifest.shards.iter().map(|shard| self.open_shard(shard)).collect();
            match files {
                Ok(files) => {
                    check_alike(&files)?;
                    let unchanged = self.manifest.as_ref() == Some(&manifest)
                        && files.iter().zip(&self.files).all(|(file, old)| Arc::ptr_eq(file, old));
                    (self.files, self.manifest) = (files, Some(manifest));
                    return Ok(!unchanged);
                }
                Err(error) if tries_left > 0 && is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }

    /// Opens a shard's file, or takes it from those that are open. By its name alone none is: another directory may be there now.
    fn open_shard(&self, shard: &Shard) -> Result<Arc<DictionaryFile>> {
        let path = self.path.join(&shard.name);
        let mut old = self.manifest.iter().flat_map(|old| old.shards.iter().zip(&self.files));
        let old = old.find(|(old, _)| old.name == shard.name).map(|(_, file)| file);
        let file = match old {
            Some(old) if old.is_at(&path)? => Arc::clone(old),
            _ => Arc::new(DictionaryFile::open(self.storage, &path, &self.access)?),
        };
        if file.footer.pairs == shard.pairs {
            // Where a name leads to the file and is not its own, that is seen only now.
            return Ok(old.filter(|old| old.is_same(&file)).map_or(file, Arc::clone));
        }
        let name = path.display();
        Err(Error::corrupt(format!("{name}: {} pairs, its manifest says {}", file.footer.pairs, shard.pairs)))
    }

    /// The file that has `key`, if one does.
    fn file_of(&self, key: &[u8]) -> &DictionaryFile {
        match &self.manifest {
            None => &self.files[0],
            Some(manifest) => &self.files[manifest.shard_of(key)],
        }
    }

    fn files(&self) -> &[Arc<DictionaryFile>] {
        &self.files
    }

    /// The value of `key`. One read of the file, none if it is mapped.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Corrupt`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.file_of(key).find(key, <[u8]>::to_vec)
    }

    /// Puts the value of `key` into `value`, replacing what is there; `false`, and nothing put, where there is none.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.file_of(key).find(key, |found| {
            value.clear();
            value.extend_from_slice(found);
        });
        Ok(found?.is_some())
    }

    /// Is there a pair of this key? Costs what [`get`](Self::get) costs.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.file_of(key).find(key, |_| ())?.is_some())
    }

    /// How many pairs it has.
    pub fn len(&self) -> u64 {
        self.files.iter().map(|file| file.footer.pairs).sum()
    }

    /// Has it no pairs?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many files it has: 1, or as many as shards.
    pub fn shard_count(&self) -> usize {
        self.files.len()
    }

    /// The function that its keys were hashed with.
    pub fn hash(&self) -> &HashFunction {
        &self.files[0].hash
    }

    /// Its index, as far as can be told: a build with it makes one like it.
    pub fn index(&self) -> Index {
        self.files[0].index.kind()
    }

    /// How often files have been read so far, by lookups and by walks, not counting what an open reads.
    pub fn reads(&self) -> u64 {
        self.files.iter().map(|file| file.pages.reads()).sum()
    }

    /// All pairs, in hash order; of a directory shard by shard.
    pub fn iter(&self) -> Pairs<'_> {
        Pairs { walk: Walk::new(&self.files[0]), rest: &self.files[1..], run: Run::default(), given: 0, failed: false }
    }
}

/// Fails where shards are not of one dictionary: where the first says how all are read.
fn check_alike(files: &[Arc<DictionaryFile>]) -> Result<()> {
    let first = &files[0];
    match files.iter().find(|file| !file.header.is_like(&first.header)) {
        None => Ok(()),
        Some(other) => {
            let (other, first) = (other.path.display(), first.path.display());
            let what = "have another hash function, page size or compression, so they are not of one dictionary";
            Err(Error::corrupt(format!("{other}, {first}: {what}. {}.", format::BUILD_AGAIN)))
        }
    }
}

fn is_directory(error: &Error) -> bool {
    io_kind(error) == Some(std::io::ErrorKind::IsADirectory)
}

fn is_missing(error: &Error) -> bool {
    io_kind(error) == Some(std::io::ErrorKind::NotFound)
}

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
}

fn no_manifest(path: &Path) -> Error {
    let name = path.display();
    Error::new(ErrorKind::NotATable, format!("{name}: a directory without a manifest, so no dictionary of Splitpoint"))
}

impl<'d> IntoIterator for &'d Dictionary {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Pairs<'d>;

    fn into_iter(self) -> Pairs<'d> {
        self.iter()
    }
}

/// The pairs of a dictionary, made by [`Dictionary::iter`]. After an error it ends.
pub struct Pairs<'d> {
    walk: Walk<'d>,
    /// Files that come after.
    rest: &'d [Arc<DictionaryFile>],
    run: Run,
    given: usize,
    failed: bool,
}

impl Pairs<'_> {
    /// The next pair, borrowed until the next call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Corrupt`].
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.given == self.run.len() {
            self.given = 0;
            let next = if self.failed { Ok(false) } else { self.walk.next(&mut self.run) };
            if matches!(next, Ok(true)) {
                continue;
            }
            // Before an error there may be some of a run.
            self.run.clear();
            self.failed |= next.is_err();
            next?;
            let Some((next, rest)) = self.rest.split_first().filter(|_| !self.failed) else { return Ok(None) };
            (self.walk, self.rest) = (Walk::new(next), rest);
        }
        let index = self.given;
        self.given += 1;
        Ok(Some((self.run.key(index), self.run.value(index).unwrap_or_default())))
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.next_ref().transpose()?;
        Some(pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}
