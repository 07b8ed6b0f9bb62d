//! Builds a dictionary: options, and pairs pushed in any order or in hash order.
//!
//! ```text
//! DictionaryBuilder -> Build: push -> one file (build/new_file.rs), or several shards (shards/new_shards.rs)
//!                   -> OrderedBuild: push -> one file (build/writer.rs)
//! ```
//!
//! Not here: changing a dictionary (`update.rs`).

use super::build::duplicates::Duplicates;
use super::build::far::FarSources;
use super::build::intake::Intake;
use super::build::memory::{Forecast, Shares};
use super::build::new_file::NewFile;
use super::build::plan::Plan;
use super::build::progress::{Progress, ProgressCounter};
use super::build::writer::{FileWriter, begin_file};
use super::format::layout::Compression;
use super::index::Index;
use super::run::{RUN_BYTES, Run};
use super::shards::manifest::Manifest;
use super::shards::new_shards::NewShards;
use super::shards::slots::SLOT_COUNT;
use super::target::Target;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{HashFunction, HashKind};
use crate::io::atomic::AtomicFile;
use crate::io::{Access, Granted};
use crate::linear;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options for building a dictionary.
///
/// # Examples
/// ```
/// use splitpoint::dictionary::Index;
/// use splitpoint::{Dictionary, DictionaryBuilder};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("users.spd");
/// DictionaryBuilder::new().index(Index::trie()).build(&path, [(b"alice", b"admin"), (b"carol", b"guest")])?;
/// let users = Dictionary::open(&path)?;
/// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
/// assert_eq!(users.get(b"bob")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct DictionaryBuilder {
    pub(crate) plan: Plan,
    shards: u32,
    seed: u64,
}

impl DictionaryBuilder {
    /// The defaults: page index, pages of 4 KiB, no compression, XXH3, up to 1 GiB of memory, duplicates are an error.
    pub fn new() -> Self {
        Self::default()
    }

    /// The index; by default [`Index::page`].
    pub fn index(mut self, index: Index) -> Self {
        self.plan.index = index;
        self
    }

    /// The size of the filter's fingerprints in bits, 8 or 16; by default, and for 0, there is no filter. The filter is
    /// checked before the index. With it a lookup of an absent key reads no page, except for one key in 256 (8 bits) or
    /// in 65,536 (16 bits).
    ///
    /// It takes 9.5 or 19 bits per key in the file, the same in memory while the dictionary is open, and 3.3 MiB per
    /// thread while it is built.
    pub fn filter(mut self, bits: u32) -> Self {
        self.plan.filter_bits = bits;
        self
    }

    /// Bytes per page, the unit that most lookups read: a power of two from 512 to 65,536, by default 4096.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        self.plan.page_bytes = bytes;
        self
    }

    /// The compression of records; by default none.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.plan.compression = compression;
        self
    }

    /// Bytes of records that are compressed together, by default 16 KiB. Larger blocks compress better, and a lookup
    /// decompresses a whole block.
    pub fn block_bytes(mut self, bytes: u32) -> Self {
        self.plan.block_bytes = bytes;
        self
    }

    /// The hash function, by name; XXH3-64 by default.
    pub fn hash(mut self, kind: HashKind) -> Self {
        self.plan.hash = HashFunction::new(kind, self.seed);
        self
    }

    /// The user's own hash function. Pass the same one to [`DictionaryOptions::user_hash`] to open the file.
    ///
    /// [`DictionaryOptions::user_hash`]: crate::DictionaryOptions::user_hash
    pub fn user_hash(mut self, name: &str, function: impl Fn(&[u8]) -> u64 + Send + Sync + 'static) -> Self {
        self.plan.hash = HashFunction::user(name, function);
        self
    }

    /// The seed of the hash function; by default 0, so that the same pairs give the same file.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        if self.plan.hash.kind() != HashKind::User {
            self.plan.hash = HashFunction::new(self.plan.hash.kind(), seed);
        }
        self
    }

    /// The memory limit of the build, at least 64 KiB per file; by default 1 GiB, or less in a small machine or
    /// container. It covers the sort, the new index, and records held back for the index. An index that would not fit
    /// is an error: in an update before the old pairs are read, in a build when all pairs have been taken. About 16 MiB
    /// per file being written come on top, and one pair if it is longer.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.plan.memory_bytes = bytes;
        self
    }

    /// The number of threads that sort; by default, and for 0, one per processor. With 2 or more, a thread distributes
    /// pairs to the sort while the caller pushes the next. In addition, whatever the number, up to three threads write
    /// and sync pages and temporary files.
    pub fn threads(mut self, threads: usize) -> Self {
        self.plan.threads = threads;
        self
    }

    /// Sets the treatment of a key that occurs twice; by default it is an error.
    pub fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.plan.duplicates = duplicates;
        self
    }

    /// The directory for temporary files, by default that of the dictionary. They take about as many bytes as the
    /// pairs. The dictionary itself is always written in its own directory, as a rename cannot move it between file
    /// systems.
    pub fn temporary_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.plan.temporary_directory = Some(directory.into());
        self
    }

    /// Keeps the temporary files of a build that fails or is killed, so that a later build with the same `identity`
    /// continues from them. The caller chooses a number that identifies the source and the options. See
    /// [`Build::resumed_pairs`].
    ///
    /// By default temporary files have no names, and disappear however the build ends.
    pub fn resume(mut self, identity: u64) -> Self {
        self.plan.resume = Some(identity);
        self
    }

    /// Builds a directory of `count` files, each with the keys of some slots of Redis Cluster; by default, and for 0,
    /// one file. Shards are built, changed and checked one by one. An update keeps the shards of the old dictionary.
    pub fn shards(mut self, count: u32) -> Self {
        self.shards = count;
        self
    }

    /// Permissions of the files of a new dictionary, before the umask. By default those of the table or dictionary that
    /// it is made from, otherwise 0o666. A dictionary that replaces another keeps the old owner and permissions.
    pub fn permissions(mut self, permissions: u32) -> Self {
        self.plan.granted = Some(Granted::Permissions(permissions & 0o777));
        self
    }

    /// Formats the `place` of a pair ([`Build::push_at`]) for error messages, for example as `pairs.tsv:17`.
    pub fn place_names(mut self, name: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        self.plan.place_names = Some(Arc::new(name));
        self
    }

    /// Calls `f` from time to time while pairs are sorted and written, and while the index is made;
    /// [`ControlFlow::Break`] stops the build with [`ErrorKind::Stopped`], and nothing is changed.
    pub fn progress(mut self, f: impl Fn(Progress) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.plan.progress = Arc::new(ProgressCounter::new(Some(Arc::new(f))));
        self
    }

    /// Builds a dictionary of `pairs` at `path`, and returns the number of its pairs. An earlier dictionary is replaced
    /// when the new one is complete.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start), [`Build::push`] and [`Build::finish`].
    pub fn build<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        path: impl AsRef<Path>,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let mut build = self.start(path)?;
        for (key, value) in pairs {
            build.push(key.as_ref(), value.as_ref())?;
        }
        build.finish()
    }

    /// Begins a build whose pairs are pushed one by one.
    ///
    /// # Examples
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("numbers.spd");
    /// let mut build = splitpoint::DictionaryBuilder::new().start(&path)?;
    /// for n in 0..1000u32 {
    ///     build.push(&n.to_le_bytes(), b"value")?; // in any order
    /// }
    /// assert_eq!(build.finish()?, 1000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for options out of range, and with [`resume`](Self::resume) for a file that has
    /// the name of a temporary file and that no build made; [`ErrorKind::Locked`] if another process builds the same
    /// file; [`ErrorKind::NotADictionary`] if `path`, or `path` with `-unfinished` appended, is a file that no build
    /// made; [`ErrorKind::Io`].
    pub fn start(&self, path: impl AsRef<Path>) -> Result<Build> {
        let path = path.as_ref();
        self.shard_count()?;
        self.plan.check(self.shards as usize)?;
        self.plan.check_temporary_directory()?;
        let target = match self.shards {
            0 => Target::File(NewFile::begin(&self.plan, path)?),
            shards => {
                let divided = Manifest::divided(shards, 0);
                Target::Shards(Box::new(NewShards::begin(&self.plan, path, &divided, None)?))
            }
        };
        let mut plan = Plan { granted: Some(target.granted()), ..self.plan.started() };
        // A different number of shards distributes the pairs to different sorts.
        plan.resume = plan.resume.map(|identity| identity ^ u64::from(self.shards).rotate_right(8));
        let intake = target.intake(&plan)?;
        Ok(Build { plan, target, intake, count: 0 })
    }

    /// The number of shards to build, 0 for one file.
    pub(super) fn shard_count(&self) -> Result<u32> {
        if self.shards <= SLOT_COUNT.into() {
            return Ok(self.shards);
        }
        let message = format!("{} shards: a dictionary has at most {SLOT_COUNT}, one a slot", self.shards);
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    /// The storage to build on, for tests.
    #[cfg(test)]
    pub(crate) fn storage(mut self, storage: Arc<dyn crate::io::Storage>) -> Self {
        self.plan.storage = storage;
        self
    }

    /// Hashes with a function that exists already.
    pub(crate) fn hashed_by(mut self, hash: &HashFunction) -> Self {
        self.plan.hash = hash.clone();
        self
    }

    /// The names of the types of keys and values, those of tables or dictionaries ([`Table::types`]); at most 64 bytes.
    ///
    /// [`Table::types`]: crate::Table::types
    #[doc(hidden)] // the program's
    pub fn types(mut self, names: &str) -> Self {
        names.clone_into(&mut self.plan.types);
        self
    }

    /// For a dictionary made from a file whose access is `access`.
    pub(crate) fn made_from(mut self, access: Option<Access>) -> Self {
        self.plan = self.plan.made_from(access);
        self
    }

    /// Begins a dictionary of about `pairs_total` pairs that are pushed in hash order.
    pub(crate) fn start_ordered(&self, path: &Path, pairs_total: u64) -> Result<OrderedBuild> {
        self.plan.check(1)?;
        self.plan.check_temporary_directory()?;
        if self.shards > 0 {
            let error = Error::new(ErrorKind::InvalidArgument, "a table is frozen to one file");
            return Err(error.with_hint("Leave out shards, or build them from its pairs."));
        }
        let path = self.plan.resolve(path)?;
        let output = Some(begin_file(&self.plan.storage, &path, self.plan.granted_at(&path)?)?);
        let plan = self.plan.started().for_writing(&path, 1);
        // An approximate number: the table may change during the build. The length of its pairs is not known.
        let forecast = Forecast { records_min: 0, records_max: pairs_total, record_bytes: 0 };
        let shares = plan.shares(&forecast)?;
        plan.progress.expect(pairs_total);
        Ok(OrderedBuild { plan, shares, output, writer: None, run: Run::default() })
    }
}

/// A build that takes pairs.
///
/// Dropped before [`finish`](Self::finish) it leaves nothing; with [`DictionaryBuilder::resume`] it leaves the files
/// that a later build continues from.
pub struct Build {
    plan: Plan,
    target: Target,
    intake: Intake,
    count: u64,
}

impl Build {
    /// With [`DictionaryBuilder::resume`]: how many pairs of the source an earlier build has saved. The caller skips
    /// them.
    pub fn resumed_pairs(&self) -> u64 {
        self.intake.resumed_records
    }

    /// With [`DictionaryBuilder::resume`]: whether the earlier build had saved its whole source. Then there is nothing
    /// left to push.
    #[doc(hidden)] // the program's and the C library's
    pub fn resumed_all(&self) -> bool {
        self.intake.resumed_all
    }

    /// The number of pairs saved by an earlier build that this build cannot use: it had another identity, or some of
    /// its files are gone. They are removed.
    #[doc(hidden)] // the program's and the C library's
    pub fn discarded_pairs(&self) -> u64 {
        self.intake.discarded_records
    }

    /// Takes a pair; pairs may come in any order. Errors name it by its number, from 1.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] for a key or value of 4 GiB or more; [`ErrorKind::DiskFull`] and [`ErrorKind::Io`] for
    /// temporary files. With several threads the errors of temporary files may be reported by a later push, by
    /// [`save`](Self::save) or by [`finish`](Self::finish).
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        self.push_at(key, value, self.resumed_pairs() + self.count)
    }

    /// Takes a pair; pairs may come in any order. Errors name it by its `place` in the source, for example its line
    /// number. Places must never descend.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn push_at(&mut self, key: &[u8], value: &[u8], place: u64) -> Result<()> {
        let shard = self.target.shard_of(key);
        self.intake.push(shard, key, Some(value), place)
    }

    /// With [`DictionaryBuilder::resume`]: makes everything pushed so far durable, so that a later build can continue
    /// from it. A build does this by itself after each GiB. Call it before dropping a build that has not consumed its
    /// whole source.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn save(&mut self) -> Result<()> {
        self.intake.save()
    }

    /// Sorts the pairs, writes the dictionary and publishes it. Returns the number of pairs in the dictionary.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] if a key occurs twice and [`Duplicates::Error`] is set; [`ErrorKind::OutOfMemory`] if
    /// the index or a chunk does not fit in memory; [`ErrorKind::Stopped`]; [`ErrorKind::DiskFull`]; [`ErrorKind::Io`].
    /// The file at `path` is then unchanged, unless the only step that failed was making the new name durable.
    pub fn finish(self) -> Result<u64> {
        self.target.finish(&self.plan, self.intake, &[])
    }
}

/// A build whose pairs come in hash order, so that nothing is sorted.
pub(crate) struct OrderedBuild {
    plan: Plan,
    shares: Shares,
    /// Present until the first run determines the layout.
    output: Option<AtomicFile>,
    writer: Option<FileWriter>,
    run: Run,
}

/// The most pairs in a run of ordered pairs, exceeded only by pairs of one position. A run may end earlier because of
/// its bytes.
const RUN_PAIRS: usize = 1 << 15;

impl OrderedBuild {
    /// Takes the next pair. Its position is not below the previous one; pairs of one position come in any order.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let position = linear::Position::of(self.plan.hash.hash(key)).0;
        let full = self.run.bytes.len() >= RUN_BYTES || self.run.len() >= RUN_PAIRS;
        if full && self.run.positions.last() != Some(&position) {
            self.write_run()?;
        }
        self.run.push(position, key, Some(value));
        Ok(())
    }

    fn write_run(&mut self) -> Result<()> {
        self.run.sort();
        let writer = match (&mut self.writer, self.output.take()) {
            (Some(writer), _) => writer,
            (none, Some(output)) => {
                let (plan, layout) = (self.plan.clone(), self.run.layout());
                none.insert(FileWriter::new(plan, self.shares, output, layout, FarSources::default())?)
            }
            (None, None) => unreachable!("an output is taken for a writer only"),
        };
        self.plan.progress.report()?;
        writer.push(&self.run)?;
        self.plan.progress.add(self.run.len());
        self.run.clear();
        Ok(())
    }

    /// Publishes the file. Returns its number of pairs.
    pub fn finish(mut self) -> Result<u64> {
        self.write_run()?;
        self.plan.progress.report()?;
        let writer = self.writer.expect("made for the last run at the latest");
        Ok(writer.finish()?.pairs)
    }
}
