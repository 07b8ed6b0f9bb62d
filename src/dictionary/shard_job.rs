//! A dictionary of shards built or updated by several processes together, as by the tasks of a Spark job.
//!
//! ```text
//! plan      ShardJob::new   the directory's contents, and which shard has which slots
//! write     ShardWriter     pairs -> sort -> merge with the old shard -> PREFIX-SHARD.spd, in any process, any number
//! publish   lock the directory -> rename the files -> manifest -> remove old files
//! ```
//!
//! Nothing is locked until the end: a job may take hours, and other writers continue in the meantime. A job that merges
//! with old pairs therefore remembers the manifest that it read, and publishing fails if the directory has another one
//! by then, or other files. Until then the job's files are outside the directory, on the same file system. Not here:
//! builds by one process (`builder.rs`).

use super::build::intake::Intake;
use super::build::merge::write_merged;
use super::build::parallel::in_parallel;
use super::build::plan::Plan;
use super::build::sort::Sorter;
use super::build::writer::begin_shard;
use super::builder::DictionaryBuilder;
use super::handle::{check_alike, is_missing};
use super::read::file::{Access, DictionaryFile};
use super::shards::directory::{DirectoryWriter, Previous};
use super::shards::manifest::Manifest;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashKind;
use crate::io::Storage;
use crate::io::atomic::with_suffix;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory's expected contents; anything else is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardBase {
    /// No dictionary: the job creates one.
    Absent,
    /// A dictionary or nothing: the job replaces it.
    Any,
    /// The dictionary of this generation: the job updates it.
    Generation(u64),
}

impl ShardBase {
    /// The base for a job that updates the dictionary of shards at `directory`, or creates it if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a dictionary in one file; [`ErrorKind::NotATable`]; [`ErrorKind::Corrupt`];
    /// [`ErrorKind::Io`].
    pub fn of(directory: impl AsRef<Path>) -> Result<ShardBase> {
        Self::of_on(&crate::io::Disk, directory.as_ref())
    }

    fn of_on(storage: &dyn Storage, directory: &Path) -> Result<ShardBase> {
        match Manifest::read(storage, directory) {
            Ok(Some(manifest)) => Ok(ShardBase::Generation(manifest.generation)),
            Ok(None) => Ok(ShardBase::Absent),
            Err(_) if DictionaryFile::open(storage, directory, &Access::default()).is_ok() => {
                let message = format!("{}: is a dictionary in one file, not one of shards", directory.display());
                let error = Error::new(ErrorKind::InvalidArgument, message);
                Err(error.with_hint("Choose another name, or update it with Dictionary::update."))
            }
            Err(error) => Err(error),
        }
    }
}

/// A build or an update of a dictionary of shards by several processes: each writes some shards, one publishes all.
///
/// Every process creates the same job. A job holds no lock and creates nothing in the directory before
/// [`publish`](Self::publish).
///
/// # Examples
/// ```
/// use splitpoint::shards::{ShardBase, ShardJob};
/// use splitpoint::{Dictionary, DictionaryBuilder};
///
/// let place = tempfile::tempdir()?;
/// let (directory, unfinished) = (place.path().join("users.spd"), place.path().join("unfinished"));
/// std::fs::create_dir(&unfinished)?;
/// let job = ShardJob::new(&directory, &DictionaryBuilder::new().shards(4), ShardBase::Absent)?;
///
/// // Each of these could be a process of its own.
/// let mut files = Vec::new();
/// for (number, shards) in [0..2, 2..4].into_iter().enumerate() {
///     let mut writer = job.start(shards.clone(), unfinished.join(number.to_string()))?;
///     for key in ["alice", "bob", "carol"] {
///         if shards.contains(&job.shard_of(key.as_bytes())) {
///             writer.put(key.as_bytes(), b"guest", 0)?;
///         }
///     }
///     files.extend(writer.finish()?);
/// }
/// assert_eq!(job.publish(files)?, 3);
/// assert_eq!(Dictionary::open(&directory)?.get(b"bob")?.as_deref(), Some(&b"guest"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ShardJob {
    directory: PathBuf,
    plan: Plan,
    base: ShardBase,
    /// The slots of each shard; in an update, with the old files.
    manifest: Manifest,
    /// The first old file, whose pages, compression and hash function the new ones keep.
    old: Option<Arc<DictionaryFile>>,
}

/// A file that a [`ShardWriter`] has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardFile {
    /// The number of the shard, from 0.
    pub shard: u32,
    /// The file's path until it is published.
    pub path: PathBuf,
    /// The number of pairs.
    pub pairs: u64,
}

impl ShardJob {
    /// A job for the dictionary at `directory`, which must be as `base` says. An update keeps its shards, hash
    /// function, pages and compression. A new dictionary gets those of `builder`, with one shard if `builder` sets
    /// none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for options out of range, and with [`DictionaryBuilder::resume`];
    /// [`ErrorKind::Stale`] if the directory is not as `base` says; the errors of
    /// [`Dictionary::open`](crate::Dictionary::open).
    pub fn new(directory: impl AsRef<Path>, builder: &DictionaryBuilder, base: ShardBase) -> Result<ShardJob> {
        let directory = builder.plan.resolve(directory.as_ref())?;
        builder.plan.check_not_resuming()?;
        let (manifest, old) = match base {
            ShardBase::Absent | ShardBase::Any => (Manifest::divided(builder.shard_count()?.max(1), 0), None),
            ShardBase::Generation(_) => {
                let manifest = Manifest::read(builder.plan.storage.as_ref(), &directory)?;
                let manifest = manifest.filter(|manifest| base == ShardBase::Generation(manifest.generation));
                let manifest = manifest.ok_or_else(|| changed(&directory))?;
                let first = open_old(&builder.plan, &directory, &manifest, 0)?;
                (manifest, Some(first))
            }
        };
        let plan = builder.plan.clone();
        let plan = old.iter().fold(plan, |plan, old| plan.shaped_as(old));
        plan.check(1)?;
        Ok(ShardJob { directory, plan, base, manifest, old })
    }

    /// Makes indexes like those of the old files, whatever the builder says. No effect for a new dictionary.
    #[doc(hidden)] // the Python package's
    pub fn keep_index(mut self) -> ShardJob {
        if let Some(old) = &self.old {
            self.plan.index = old.index.kind();
        }
        self
    }

    /// Makes filters like those of the old files, whatever the builder says. No effect for a new dictionary.
    #[doc(hidden)] // the Python package's
    pub fn keep_filter(mut self) -> ShardJob {
        if let Some(old) = &self.old {
            self.plan.filter_bits = old.filter().map_or(0, |(bits, ..)| bits.count());
        }
        self
    }

    /// The expected contents of the directory.
    pub fn base(&self) -> ShardBase {
        self.base
    }

    /// A number that differs, with all likelihood, from that of a job for another dictionary that was made here since
    /// with the same generation. 0 unless the job is an update. Reads the footers of the old files.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] if another process has removed one of the old files; [`ErrorKind::Corrupt`],
    /// [`ErrorKind::Io`].
    #[doc(hidden)] // the Python package's
    pub fn base_mark(&self) -> Result<u64> {
        let Some(old) = &self.old else { return Ok(0) };
        let mut mark = HashKind::Xxh3.hash(self.manifest.text().as_bytes(), old.footer.mark());
        for shard in &self.manifest.shards[1..] {
            let footer = DictionaryFile::footer_at(self.plan.storage.as_ref(), &self.directory.join(&shard.name));
            let footer = footer.map_err(|error| if is_missing(&error) { changed(&self.directory) } else { error })?;
            mark = HashKind::Xxh3.hash(&footer.mark().to_le_bytes(), mark);
        }
        Ok(mark)
    }

    /// The last slot of each shard. The first shard begins at slot 0, each other one after the previous shard.
    #[doc(hidden)] // the Python package's
    pub fn last_slots(&self) -> Vec<u16> {
        self.manifest.shards.iter().map(|shard| shard.last_slot).collect()
    }

    /// The shard of a key, from 0.
    #[inline]
    pub fn shard_of(&self, key: &[u8]) -> u32 {
        self.manifest.shard_of(key) as u32
    }

    /// Acquires and releases the lock of the directory, so that a job that could not publish fails early.
    ///
    /// # Errors
    /// The errors of [`publish`](Self::publish).
    #[doc(hidden)] // the Python package's
    pub fn check_directory(&self) -> Result<()> {
        self.lock().map(drop)
    }

    fn lock(&self) -> Result<(DirectoryWriter, Previous)> {
        let writer = DirectoryWriter::new(&self.plan, &self.directory, None)?;
        let previous = writer.previous()?;
        let expected = match (self.base, &previous.manifest) {
            (ShardBase::Any, _) => true,
            (ShardBase::Absent, None) => previous.is_empty(),
            (ShardBase::Generation(_), Some(manifest)) => *manifest == self.manifest && self.has_old_file()?,
            _ => false,
        };
        if expected { Ok((writer, previous)) } else { Err(changed(&self.directory)) }
    }

    /// Whether the directory still has the first old file. A dictionary that was removed and made anew may have an
    /// equal manifest.
    fn has_old_file(&self) -> Result<bool> {
        let Some(old) = &self.old else { return Ok(true) };
        // The file may have been replaced by a symbolic link to it.
        old.is_at(&self.plan.resolve(&self.directory.join(&self.manifest.shards[0].name))?)
    }

    /// Begins to write some shards. The file of shard 3 is `prefix` with `-3.spd` appended; the sort puts its temporary
    /// files in the same directory. If the shard has old pairs, they are merged.
    ///
    /// `prefix` must be in an existing directory on the file system of the dictionary. Processes that write the same
    /// shard at the same time, as Spark's speculative tasks do, must use different prefixes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for shards that do not exist, or too little memory for them.
    pub fn start(&self, shards: Range<u32>, prefix: impl AsRef<Path>) -> Result<ShardWriter<'_>> {
        let count = self.manifest.shards.len();
        if shards.is_empty() || shards.end as usize > count {
            let message = format!("shards {} to {}: there are {count}", shards.start, i64::from(shards.end) - 1);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.plan.check(shards.len())?;
        self.plan.check_temporary_directory()?;
        let path = |shard: u32| with_suffix(prefix.as_ref(), &format!("-{shard}.spd"));
        let paths: Vec<PathBuf> = shards.clone().map(path).collect();
        let intake = Intake::new(&self.plan, &paths)?;
        Ok(ShardWriter { job: self, shards, paths, intake })
    }

    /// Makes `files` the shards of the dictionary. Returns its number of pairs. Shards without a new file keep the old
    /// one; in a new dictionary they are empty. Readers see either all of the change or none.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] if another process is building or updating the directory; [`ErrorKind::Stale`] if one has
    /// done so since the job began; [`ErrorKind::NotATable`] if the directory holds something other than a dictionary;
    /// [`ErrorKind::Corrupt`] for damaged files; [`ErrorKind::InvalidArgument`] for two files of one shard;
    /// [`ErrorKind::DiskFull`], [`ErrorKind::Io`]. The directory is then unchanged, unless the only step that failed
    /// was making new names durable; the files may be gone.
    pub fn publish(&self, files: impl IntoIterator<Item = ShardFile>) -> Result<u64> {
        let mut given: Vec<Option<ShardFile>> = vec![None; self.manifest.shards.len()];
        for file in files {
            let other = given.get_mut(file.shard as usize).map(|slot| slot.replace(file.clone()));
            if !matches!(other, Some(None)) {
                let message = format!("{}: a second file of shard {}, or no shard", file.path.display(), file.shard);
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        let (writer, previous) = self.lock()?;
        let mut manifest = self.manifest.renamed(previous.generation);
        let mut moved = Vec::new();
        let placed = self.place(given, &mut manifest, &mut moved);
        if let Err(error) = placed {
            // No manifest will refer to them.
            moved.iter().for_each(|path| drop(self.plan.storage.remove(path)));
            return Err(error);
        }
        writer.publish(&manifest, &previous, |_| false)?;
        Ok(manifest.shards.iter().map(|shard| shard.pairs).sum())
    }

    /// Renames the files into the directory, and records the renamed ones in `moved`.
    fn place(&self, given: Vec<Option<ShardFile>>, manifest: &mut Manifest, moved: &mut Vec<PathBuf>) -> Result<()> {
        let storage = &self.plan.storage;
        let access = Access { hash: Some(self.plan.hash.clone()), ..Access::default() };
        let mut first = self.old.clone();
        for (index, (shard, file)) in manifest.shards.iter_mut().zip(given).enumerate() {
            let path = self.directory.join(&shard.name);
            match file {
                Some(file) => {
                    let open = Arc::new(DictionaryFile::open(storage.as_ref(), &file.path, &access)?);
                    shard.pairs = open.footer.pairs;
                    let first = first.get_or_insert_with(|| Arc::clone(&open));
                    check_alike(&[Arc::clone(first), open])?;
                    storage.rename(&file.path, &path).map_err(|e| {
                        Error::io(&file.path, "move into the directory of the dictionary the file", e)
                            .with_hint("Write shards next to the dictionary, on the same file system.")
                    })?;
                    moved.push(path);
                }
                None if self.old.is_some() => *shard = self.manifest.shards[index].clone(),
                None => {
                    moved.push(path.clone());
                    let plan = self.plan.started().for_writing(&path, 1);
                    let nothing = Sorter::new(self.plan.for_sort(&path, 1))?;
                    shard.pairs = self.write(index, &path, nothing, plan)?;
                }
            }
        }
        let Some(path) = moved.last() else { return Ok(()) };
        storage.sync_names(path).map_err(|e| Error::io(path, "sync the directory of", e))
    }

    /// Writes the file of a shard from its old pairs and the records taken by `sorter`. Returns the number of pairs.
    fn write(&self, shard: usize, path: &Path, sorter: Sorter, plan: Plan) -> Result<u64> {
        let old = self.old.is_some().then(|| open_old(&plan, &self.directory, &self.manifest, shard));
        let old = old.transpose()?;
        let shares = plan.shares(&sorter.forecast().with_old(old.as_deref(), sorter.removals()))?;
        let output = begin_shard(&plan.storage, path, plan.granted_at(&Manifest::path(&self.directory))?)?;
        let mut sorted = sorter.finish_within(shares.sort)?;
        let footer = write_merged(plan, shares, output, old.as_ref(), &mut sorted)?;
        // Once the dictionary has its name, this is not a failure.
        let _ = sorted.done();
        Ok(footer.pairs)
    }
}

/// Opens the file of a shard, which must have as many pairs as the manifest of an update says.
fn open_old(plan: &Plan, directory: &Path, manifest: &Manifest, number: usize) -> Result<Arc<DictionaryFile>> {
    let access = Access { hash: Some(plan.hash.clone()), ..Access::default() };
    let (shard, storage) = (&manifest.shards[number], plan.storage.as_ref());
    let path = directory.join(&shard.name);
    match DictionaryFile::open(storage, &path, &access) {
        Ok(file) if file.footer.pairs == shard.pairs => Ok(Arc::new(file)),
        Ok(file) if Manifest::read(storage, directory)?.as_ref() == Some(manifest) => {
            let (path, found) = (path.display(), file.footer.pairs);
            Err(Error::corrupt(format!("{path}: {found} pairs, its manifest says {}", shard.pairs)))
        }
        Ok(_) => Err(changed(directory)),
        Err(error) if is_missing(&error) => Err(changed(directory)),
        Err(error) => Err(error),
    }
}

#[cold]
fn changed(directory: &Path) -> Error {
    let what = "another process has made, changed or removed the dictionary since this job began";
    Error::new(ErrorKind::Stale, format!("{}: {what}", directory.display())).with_hint("Run the job again.")
}

/// Writes some shards of a [`ShardJob`] from pairs in any order. If dropped before [`finish`](Self::finish), it leaves
/// nothing.
pub struct ShardWriter<'j> {
    job: &'j ShardJob,
    shards: Range<u32>,
    paths: Vec<PathBuf>,
    intake: Intake,
}

impl ShardWriter<'_> {
    /// Stores `value` under `key`, replacing an old value. Errors name it by its `place` in the source; places must
    /// never descend.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a key of another shard; the errors of [`Build::push`](super::Build::push).
    pub fn put(&mut self, key: &[u8], value: &[u8], place: u64) -> Result<()> {
        self.push(key, Some(value), place)
    }

    /// Removes `key`, if present.
    ///
    /// # Errors
    /// The errors of [`put`](Self::put).
    pub fn remove(&mut self, key: &[u8], place: u64) -> Result<()> {
        self.push(key, None, place)
    }

    fn push(&mut self, key: &[u8], value: Option<&[u8]>, place: u64) -> Result<()> {
        let shard = self.job.shard_of(key);
        match shard.checked_sub(self.shards.start).filter(|_| self.shards.contains(&shard)) {
            Some(index) => self.intake.push(index as usize, key, value, place),
            None => Err(self.other_shard(key, shard, place)),
        }
    }

    #[cold]
    fn other_shard(&self, key: &[u8], shard: u32, place: u64) -> Error {
        let Range { start, end } = &self.shards;
        let place = self.job.plan.place_names.as_ref().map_or_else(|| place.to_string(), |name| name(place));
        let (key, last, count) = (crate::error::quote(key), end - 1, self.job.manifest.shards.len());
        let expected = if *start == last { format!("shard {start}") } else { format!("shards {start} to {last}") };
        let message = format!("{place}: key {key} belongs to shard {shard} of {count}, and {expected} is written here");
        Error::new(ErrorKind::InvalidArgument, message).with_hint("Divide the keys by the shards of the dictionary.")
    }

    /// Sorts and writes the shards. Returns the file of each shard that got a pair or a removal.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] if a key occurs twice, unless [`DictionaryBuilder::duplicates`] chooses one;
    /// [`ErrorKind::Stale`] if another process has updated the dictionary; the errors of
    /// [`Build::finish`](super::Build::finish). After an error no file is left.
    pub fn finish(self) -> Result<Vec<ShardFile>> {
        let ShardWriter { job, shards, paths, intake } = self;
        let sorters = intake.finish()?;
        let plan = job.plan.started();
        let parts: Vec<(u32, &PathBuf, Sorter)> =
            shards.zip(&paths).zip(sorters).map(|((shard, path), sorter)| (shard, path, sorter)).collect();
        let count = parts.len();
        let written = in_parallel(plan.thread_count(), parts, |_, (shard, path, sorter)| {
            if sorter.records() == 0 {
                return Ok(None);
            }
            let pairs = job.write(shard as usize, path, sorter, plan.for_writing(path, count))?;
            Ok(Some(ShardFile { shard, path: path.clone(), pairs }))
        });
        let written = written.inspect_err(|_| {
            // The files that were complete before another one failed.
            paths.iter().for_each(|path| drop(job.plan.storage.remove(path)));
        })?;
        Ok(written.into_iter().flatten().collect())
    }
}
