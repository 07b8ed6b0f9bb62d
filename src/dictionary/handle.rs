//! An open dictionary: one file, or a directory of shards.
//!
//! Not here: a lookup in a file (`read/lookup.rs`), sizes (`stat.rs`), the full check (`verify/`).

use super::format::ends::damaged;
use super::index::Index;
use super::read::file::{Access, DictionaryFile};
use super::read::long::ValueAt;
use super::read::many::{self, Ordered, Owned, Passed};
use super::read::wanted::Wanted;
use super::read::within::{ALL, Within, inclusive};
use super::run::Run;
use super::shards::info::ShardInfo;
use super::shards::manifest::{Manifest, Shard};
use super::shards::slots::SLOT_COUNT;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::{Disk, Storage};
use std::iter::FusedIterator;
use std::ops::{RangeBounds, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options for opening a dictionary.
///
/// # Examples
/// ```no_run
/// use splitpoint::DictionaryOptions;
/// let words = DictionaryOptions::new().map_data(false).open("words.spd")?;
/// # Ok::<(), splitpoint::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct DictionaryOptions {
    access: Access,
    only: Option<ShardChoice>,
}

/// Whether to open a shard.
type ShardChoice = Arc<dyn Fn(&ShardInfo) -> bool + Send + Sync>;

impl DictionaryOptions {
    /// The defaults: the index is loaded into memory; data is mapped if that is faster ([`map_data`](Self::map_data)).
    pub fn new() -> Self {
        Self::default()
    }

    /// `true`: reads data from a mapping of the file, on Linux. `false`: reads data with `pread`. By default it is
    /// mapped if it is on a disk of this machine (no network file system, no FUSE) and no larger than half of the
    /// machine's memory. Such a file is read ahead, once and in order, after lookups have waited for one page in 32.
    ///
    /// Lookups of data in the system's cache are several times as fast from a mapping. The checksum of a page is
    /// compared when the page is first read; with `pread`, each time. In both cases a failing disk, or another program
    /// that truncates the file, causes an error: a handler for SIGBUS, installed with the first mapping, contains the
    /// fault, and the file is read with `pread` from then on. (The handler cannot help if the program replaces it
    /// later, or in a thread that blocks SIGBUS.)
    pub fn map_data(mut self, map: bool) -> Self {
        self.access.map_data = Some(map);
        self
    }

    /// Uses the index from a mapping of the file instead of loading it. Opening still reads it once; several processes
    /// share its memory.
    ///
    /// If the disk fails, or another program truncates the file, the process is then ended by a signal (SIGBUS) instead
    /// of getting an error. The checksum of the index is compared only when it is opened.
    pub fn map_index(mut self, map: bool) -> Self {
        self.access.map_index = map;
        self
    }

    /// The user's own hash function with which the dictionary was built ([`DictionaryBuilder::user_hash`]).
    ///
    /// [`DictionaryBuilder::user_hash`]: crate::DictionaryBuilder::user_hash
    pub fn user_hash(mut self, name: &str, function: impl Fn(&[u8]) -> u64 + Send + Sync + 'static) -> Self {
        self.access.hash = Some(HashFunction::user(name, function));
        self
    }

    /// Hashes with a function that exists already.
    pub(super) fn hashed_by(mut self, hash: &HashFunction) -> Self {
        self.access.hash = Some(hash.clone());
        self
    }

    /// Opens only those shards of a directory for which `choose` returns true, for example those of one server in a
    /// cluster. The files of the others need not exist. A lookup of a key that belongs to one of the others is an
    /// error; `len`, `iter`, `scan`, `stat` and `verify` cover the open files. A reload calls `choose` again.
    ///
    /// A dictionary of one file is always opened.
    pub fn only_shards(mut self, choose: impl Fn(&ShardInfo) -> bool + Send + Sync + 'static) -> Self {
        self.only = Some(Arc::new(choose));
        self
    }

    /// Opens the dictionary at `path`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if [`only_shards`](Self::only_shards) chooses none;
    /// [`ErrorKind::NotADictionary`], [`ErrorKind::Version`], [`ErrorKind::Corrupt`], [`ErrorKind::WrongHash`],
    /// [`ErrorKind::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Dictionary> {
        let path = path.as_ref();
        // Absolute, as the process may change its directory before it reloads or asks for the files of the shards.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut dictionary = self.open_on(Arc::new(Disk), path)?;
        dictionary.path = absolute;
        Ok(dictionary)
    }

    pub(super) fn open_on(&self, storage: Arc<dyn Storage>, path: &Path) -> Result<Dictionary> {
        let mut dictionary = Dictionary {
            storage,
            path: path.to_owned(),
            access: self.access.clone(),
            only: self.only.clone(),
            files: Vec::new(),
            numbers: Vec::new(),
            manifest: None,
        };
        dictionary.reload()?;
        Ok(dictionary)
    }
}

/// A dictionary, open for reading: a file, or a directory of shards. It is `Sync`: share it by reference. Lookups never
/// wait for each other.
///
/// It keeps the state at the time of opening: a build or an update that replaces it writes new files.
/// [`reload`](Self::reload) opens the new ones. A clone shares the open files.
#[derive(Clone)]
pub struct Dictionary {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    access: Access,
    only: Option<ShardChoice>,
    /// One file, or one per open shard.
    pub(super) files: Vec<Arc<DictionaryFile>>,
    /// The shard numbers of the files, ascending.
    pub(super) numbers: Vec<usize>,
    /// The manifest, for a directory.
    pub(super) manifest: Option<Manifest>,
}

/// An update may remove the files named in a manifest before they are opened; then there is a new manifest.
const OPEN_TRIES: usize = 10;

impl Dictionary {
    /// Opens the dictionary at `path` with the default options.
    ///
    /// # Errors
    /// The errors of [`DictionaryOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Dictionary> {
        DictionaryOptions::new().open(path)
    }

    /// Opens what is now at the dictionary's path. Returns true if it changed. Costs a check of the names, and an open
    /// of each file that changed.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin"), ("carol", "guest")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// let mut users = users;
    /// let builder = splitpoint::DictionaryBuilder::new();
    /// let mut update = splitpoint::Dictionary::update(&path, &path, &builder)?;
    /// update.put(b"bob", b"guest")?;
    /// update.remove(b"carol")?;
    /// update.finish()?;
    /// assert!(!users.contains(b"bob")?); // still the old version
    /// assert!(users.reload()? && users.contains(b"bob")? && !users.contains(b"carol")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`DictionaryOptions::open`]; the dictionary is then unchanged.
    pub fn reload(&mut self) -> Result<bool> {
        if self.manifest.is_none()
            && let [file] = &self.files[..]
            && file.is_at(&self.path)?
        {
            return Ok(false);
        }
        match DictionaryFile::open(self.storage.as_ref(), &self.path, &self.access) {
            Ok(file) => {
                let old = self.files.first().filter(|_| self.manifest.is_none());
                let same = old.map_or(Ok(false), |old| old.is_same(&file))?;
                if !same {
                    (self.files, self.numbers, self.manifest) = (vec![Arc::new(file)], vec![0], None);
                }
                Ok(!same)
            }
            Err(error) if is_directory(&error) => self.reload_shards(),
            Err(error) => Err(error),
        }
    }

    fn reload_shards(&mut self) -> Result<bool> {
        for tries_left in (0..OPEN_TRIES).rev() {
            let manifest = Manifest::read(self.storage.as_ref(), &self.path)?.ok_or_else(|| no_manifest(&self.path))?;
            let numbers = self.chosen(&manifest)?;
            let files: Result<Vec<_>> =
                numbers.iter().map(|number| self.open_shard(&manifest.shards[*number])).collect();
            match files {
                Ok(files) => {
                    check_alike(&files)?;
                    let unchanged = self.manifest.as_ref() == Some(&manifest)
                        && self.numbers == numbers
                        && files.iter().zip(&self.files).all(|(file, old)| Arc::ptr_eq(file, old));
                    (self.files, self.numbers, self.manifest) = (files, numbers, Some(manifest));
                    return Ok(!unchanged);
                }
                Err(error) if tries_left > 0 && is_missing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }

    /// The numbers of the shards to open.
    fn chosen(&self, manifest: &Manifest) -> Result<Vec<usize>> {
        let Some(only) = &self.only else { return Ok((0..manifest.shards.len()).collect()) };
        let infos = manifest.infos(&self.path);
        let chosen: Vec<usize> = infos.iter().filter(|info| only(info)).map(|info| info.number).collect();
        if chosen.is_empty() {
            let message = format!("{}: none of its {} shards is to be opened", self.path.display(), infos.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(chosen)
    }

    /// Opens a shard's file, or reuses it if it is already open. An equal name is not enough: there may be another
    /// directory now.
    fn open_shard(&self, shard: &Shard) -> Result<Arc<DictionaryFile>> {
        let path = self.path.join(&shard.name);
        let is_named = |number: usize| self.manifest.as_ref().is_some_and(|old| old.shards[number].name == shard.name);
        let old = self.numbers.iter().position(|number| is_named(*number)).map(|index| &self.files[index]);
        let file = match old {
            Some(old) if old.is_at(&path)? => Arc::clone(old),
            _ => Arc::new(DictionaryFile::open(self.storage.as_ref(), &path, &self.access)?),
        };
        if file.footer.pairs == shard.pairs {
            return match old {
                // Only here is a symbolic link to the open file recognised.
                Some(old) if old.is_same(&file)? => Ok(Arc::clone(old)),
                _ => Ok(file),
            };
        }
        let name = path.display();
        Err(Error::corrupt(format!("{name}: {} pairs, its manifest says {}", file.footer.pairs, shard.pairs)))
    }

    /// The file that `key` belongs to.
    #[inline]
    fn file_of(&self, key: &[u8]) -> Result<&DictionaryFile> {
        Ok(&self.files[self.file_index(key)?])
    }

    #[inline]
    fn file_index(&self, key: &[u8]) -> Result<usize> {
        let Some(manifest) = &self.manifest else { return Ok(0) };
        let number = manifest.shard_of(key);
        if self.files.len() == manifest.shards.len() {
            return Ok(number);
        }
        self.numbers.binary_search(&number).map_err(|_| self.not_open(&manifest.shards[number]))
    }

    #[cold]
    fn not_open(&self, shard: &Shard) -> Error {
        let path = self.path.join(&shard.name);
        Error::new(ErrorKind::InvalidArgument, format!("{}: a key of this shard, which is not open", path.display()))
    }

    /// The file that has `slot`, or otherwise the first file of later slots; and whether it has the slot.
    pub(super) fn file_from(&self, slot: u16) -> (usize, bool) {
        let Some(manifest) = &self.manifest else { return (0, true) };
        let number = manifest.shard_of_slot(slot);
        match self.numbers.binary_search(&number) {
            Ok(index) => (index, true),
            Err(index) => (index, false),
        }
    }

    /// The first slot of an open file.
    pub(super) fn first_slot(&self, index: usize) -> u16 {
        let before = self.numbers[index].checked_sub(1);
        let before = before.and_then(|number| self.manifest.as_ref()?.shards.get(number));
        before.map_or(0, |shard| shard.last_slot + 1)
    }

    /// The value of `key`. Costs one read of the file, or none if its page is mapped and has been read before. Values
    /// of several MiB are read piece by piece, and are in memory only once.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin"), ("carol", "guest")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
    /// assert!(users.get(b"bob")?.is_none() && users.contains(b"carol")? && users.len() == 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Corrupt`]; [`ErrorKind::InvalidArgument`] if the key's shard is not open
    /// ([`DictionaryOptions::only_shards`]).
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Copies the value of `key` to `value`, replacing its content. Returns `false`, with an empty `value`, if the key
    /// is absent.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin"), ("carol", "guest")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// let mut value = Vec::new(); // used again for each lookup
    /// assert!(users.get_into(b"alice", &mut value)? && value == b"admin");
    /// assert!(!users.get_into(b"bob", &mut value)? && value.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        self.file_of(key)?.find(key, &mut Wanted::Value(value))
    }

    /// Copies the value of `key` to the start of `buffer` and returns its length; `None` if the key is absent. If the
    /// value is longer than the buffer, the content of the buffer is unspecified. A long value is read into the buffer
    /// piece by piece, without another copy in memory.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// let mut buffer = [0; 8];
    /// assert_eq!(users.get_to(b"alice", &mut buffer)?, Some(5));
    /// assert_eq!(&buffer[..5], b"admin");
    /// assert_eq!(users.get_to(b"alice", &mut [])?, Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_to(&self, key: &[u8], buffer: &mut [u8]) -> Result<Option<usize>> {
        let mut len = 0;
        Ok(self.file_of(key)?.find(key, &mut Wanted::Copy(buffer, &mut len))?.then_some(len))
    }

    /// Whether the key is present. Costs what [`get`](Self::get) costs.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        self.file_of(key)?.find(key, &mut Wanted::Presence)
    }

    /// The number of pairs. Takes no reads.
    pub fn len(&self) -> u64 {
        self.files.iter().map(|file| file.footer.pairs).sum()
    }

    /// Whether the dictionary has no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The absolute path at which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of open files: 1, or one per open shard.
    #[doc(hidden)] // the server's
    pub fn shard_count(&self) -> usize {
        self.files.len()
    }

    /// The files in the order of their slots, open or not: one with all slots, or those of a directory. Reads nothing.
    ///
    /// # Examples
    /// ```
    /// use splitpoint::shards::slot;
    /// use splitpoint::{Dictionary, DictionaryBuilder};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let path = directory.path().join("users.spd");
    /// DictionaryBuilder::new().shards(2).build(&path, [(b"alice", b"admin"), (b"carol", b"guest")])?;
    /// let shards = Dictionary::open(&path)?.shards();
    /// assert_eq!((shards[0].first_slot, shards[0].last_slot), (0, 8191));
    /// assert_eq!(shards.iter().map(|shard| shard.pairs).sum::<u64>(), 2);
    /// let alice = shards.iter().find(|shard| shard.last_slot >= slot(b"alice")).expect("all slots are there");
    /// assert_eq!(Dictionary::open(&alice.path)?.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shards(&self) -> Vec<ShardInfo> {
        let Some(manifest) = &self.manifest else {
            let (path, pairs) = (self.path.clone(), self.files[0].footer.pairs);
            return vec![ShardInfo { number: 0, path, first_slot: 0, last_slot: SLOT_COUNT - 1, pairs }];
        };
        manifest.infos(&self.path)
    }

    /// The number of times a directory of shards was built or updated; `None` for a single file, which does not record
    /// it.
    pub fn generation(&self) -> Option<u64> {
        self.manifest.as_ref().map(|manifest| manifest.generation)
    }

    /// The function that the keys were hashed with.
    pub fn hash_function(&self) -> &HashFunction {
        &self.files[0].hash
    }

    /// The names of the types of keys and values, if it was made of a typed table ([`Table::types`]); empty for bytes.
    ///
    /// [`Table::types`]: crate::Table::types
    pub fn types(&self) -> &str {
        &self.files[0].header.types
    }

    /// The index, as far as the file records it. A build with this value makes an index like this one.
    pub fn index(&self) -> Index {
        self.files[0].index.kind()
    }

    /// The size of the filter's fingerprints in bits, 0 if there is no filter. A build with this value
    /// ([`DictionaryBuilder::filter`]) makes a filter like this one.
    ///
    /// [`DictionaryBuilder::filter`]: crate::DictionaryBuilder::filter
    #[doc(hidden)] // the program's and the Python package's
    pub fn filter(&self) -> u32 {
        self.files[0].filter().map_or(0, |(bits, ..)| bits.count())
    }

    /// A number for each open file, in their order. Files with other pairs have other numbers, in all likelihood.
    #[doc(hidden)] // the Python package's
    pub fn marks(&self) -> Vec<u64> {
        self.files.iter().map(|file| file.footer.mark()).collect()
    }

    /// The number of reads of the files by lookups and scans; reads when opening are not counted.
    #[doc(hidden)] // the measurements'
    pub fn reads(&self) -> u64 {
        self.files.iter().map(|file| file.pages.reads()).sum()
    }

    /// All pairs, in hash order; in a directory, shard by shard.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin"), ("carol", "guest")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// for pair in &users {
    ///     let (key, value) = pair?;
    ///     println!("{key:?} {value:?}");
    /// }
    /// assert_eq!(users.iter().count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Pairs<'_> {
        self.range(ALL)
    }

    /// The pairs whose [`position`](Self::position) is in a range, in hash order; in a directory, shard by shard. Costs
    /// a few page reads per file to find the start, then a read of the pairs returned.
    ///
    /// Positions are uniform, so a range of one sixteenth of them has about one sixteenth of the pairs. Use it to
    /// divide work, or to compare and copy a dictionary part by part ([`diff_range`](Self::diff_range)).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("squares.spd");
    /// # let squares: Vec<(String, String)> = (0..100).map(|n| (n.to_string(), (n * n).to_string())).collect();
    /// # splitpoint::DictionaryBuilder::new().build(&path, squares)?;
    /// let dictionary = splitpoint::Dictionary::open(&path)?;
    /// let middle = 1 << 63;
    /// assert_eq!(dictionary.range(..middle).count() + dictionary.range(middle..).count(), 100);
    /// let seven = dictionary.position(b"7");
    /// assert!(dictionary.range(seven..=seven).any(|pair| pair.is_ok_and(|(key, _)| key == b"7")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(&self, positions: impl RangeBounds<u64>) -> Pairs<'_> {
        let positions = inclusive(&positions);
        Pairs {
            positions,
            current: None,
            rest: &self.files,
            left: self.len(),
            run: Run::default(),
            given: 0,
            long: Vec::new(),
            failed: false,
        }
    }

    /// The place of `key` in hash order, whether present or not: its hash with the bits reversed.
    pub fn position(&self, key: &[u8]) -> u64 {
        self.files[0].position(key)
    }
}

impl Dictionary {
    /// The value of each of `keys`, in their order. Faster than [`get`](Self::get) if lookups wait for memory or the
    /// disk.
    ///
    /// For data in memory, the cache misses of 32 keys overlap, across files too. If lookups wait for the disk, up to
    /// 64 reads are in flight at once, without further threads (Linux; elsewhere one at a time).
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin"), ("carol", "guest")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// let roles = users.get_many(&["carol", "bob"])?;
    /// assert_eq!(roles, [Some(b"guest".to_vec()), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of [`get`](Self::get) for one of the keys.
    pub fn get_many<K: AsRef<[u8]> + Sync>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        many::get_many(&self.files, |key| self.file_index(key), keys, Owned(&mut values))?;
        Ok(values)
    }

    /// [`get_many`](Self::get_many) without an allocation for each value: calls `take` with the index of each key, in
    /// order, and its value.
    ///
    /// # Errors
    /// The error of [`get`](Self::get) for one of the keys; `take` has then been called for some of the keys, in order
    /// from the first.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("users.spd");
    /// # splitpoint::DictionaryBuilder::new().build(&path, [("alice", "admin"), ("carol", "guest")])?;
    /// let users = splitpoint::Dictionary::open(&path)?;
    /// let mut lengths = Vec::new();
    /// users.get_many_with(&["carol", "bob", "alice"], |_, value| lengths.push(value.map(<[u8]>::len)))?;
    /// assert_eq!(lengths, [Some(5), None, Some(5)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many_with<K: AsRef<[u8]> + Sync>(
        &self,
        keys: &[K],
        take: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let file_of = |key: &[u8]| self.file_index(key);
        if self.files.len() == 1 {
            many::get_many(&self.files, file_of, keys, Passed::new(take))
        } else {
            many::get_many(&self.files, file_of, keys, Ordered::new(take))
        }
    }
}

/// Checks that all shards are of one dictionary: how they are read depends on the first.
pub(super) fn check_alike(files: &[Arc<DictionaryFile>]) -> Result<()> {
    let first = &files[0];
    match files.iter().find(|file| !file.header.is_like(&first.header)) {
        None => Ok(()),
        Some(other) => {
            let first = first.path.display();
            let what = "differs in hash function, page size, compression or types";
            Err(damaged(&other.path, format_args!("{what} from {first}, so they are not of one dictionary")))
        }
    }
}

fn is_directory(error: &Error) -> bool {
    io_kind(error) == Some(std::io::ErrorKind::IsADirectory)
}

pub(super) fn is_missing(error: &Error) -> bool {
    io_kind(error) == Some(std::io::ErrorKind::NotFound)
}

fn io_kind(error: &Error) -> Option<std::io::ErrorKind> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
}

fn no_manifest(path: &Path) -> Error {
    let name = path.display();
    Error::new(ErrorKind::NotADictionary, format!("{name}: a directory without a manifest, so it is not a dictionary"))
}

impl<'d> IntoIterator for &'d Dictionary {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Pairs<'d>;

    fn into_iter(self) -> Pairs<'d> {
        self.iter()
    }
}

/// The pairs of a dictionary, from [`Dictionary::iter`]. Ends after an error.
pub struct Pairs<'d> {
    positions: RangeInclusive<u64>,
    /// The file that is being read, and its records.
    current: Option<(&'d DictionaryFile, Within<'d>)>,
    /// The files after the current one.
    rest: &'d [Arc<DictionaryFile>],
    /// The most pairs that there can still be.
    left: u64,
    run: Run,
    given: usize,
    /// The value returned last, if it is long.
    long: Vec<u8>,
    failed: bool,
}

impl Pairs<'_> {
    /// The next pair, borrowed until the next call. A few MiB of pairs are held in memory, but of values of 1 MiB or
    /// more only the current one.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], [`ErrorKind::Corrupt`].
    pub fn next_ref(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.given == self.run.len() {
            self.given = 0;
            let more = if self.failed { Ok(false) } else { self.next_run() };
            // An error may come in the middle of a run.
            if !matches!(more, Ok(true)) {
                self.run.clear();
            }
            self.failed |= more.is_err();
            if !more? {
                return Ok(None);
            }
        }
        let index = self.given;
        self.given += 1;
        self.left = self.left.saturating_sub(1);
        let (file, _) = self.current.as_ref().expect("its run was read");
        let value = ValueAt::of(file, &self.run, index).get(&mut self.long);
        if value.is_err() {
            self.failed = true;
            self.given = self.run.len();
        }
        Ok(Some((self.run.key(index), value?)))
    }

    fn next_run(&mut self) -> Result<bool> {
        loop {
            if let Some((_, records)) = &mut self.current
                && records.next(&mut self.run)?
            {
                return Ok(true);
            }
            let Some((next, rest)) = self.rest.split_first() else { return Ok(false) };
            self.current = Some((next, Within::new(next, self.positions.clone())?));
            self.rest = rest;
        }
    }
}

/// After the last pair, or an error, it stays at its end.
impl FusedIterator for Pairs<'_> {}

impl Iterator for Pairs<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.next_ref().transpose()?;
        Some(pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    /// At most the pairs that are left in the files, and one error, which may come before any of them.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok().and_then(|left| left.checked_add(1)))
    }
}
