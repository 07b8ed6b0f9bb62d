//! Building: pairs from any source, sorted in bounded memory, written once.
//!
//! ```text
//! source -> push -> sort (sort/) -> assemble (pages, index, footer, rename)
//! ```
//!
//! Not here: the sort (`sort/`), the file (`assemble.rs`), changing a dictionary (`merge.rs`).

use super::assemble::{self, Plan, Runs, publish};
use super::file::DictionaryFile;
use super::format::{BLOCK_BYTES_MAX, Compression, Layout, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use super::index::Index;
use super::merge::{Unchanged, Update};
use super::run::{RUN_BYTES, Run};
use super::shards::{Manifest, SLOT_COUNT};
use super::sort::{Duplicates, SortError, SortOptions, Sorted, Sorter};
use super::target::Target;
use crate::error::{Error, ErrorKind, Result, quote};
use crate::hash::{HashFunction, HashKind};
use crate::io::{Disk, Storage};
use crate::linear;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far a build, an update or a reindexing has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Pairs written to the new file so far.
    pub pairs: u64,
    /// How many there will be at most.
    pub pairs_total: u64,
}

/// Files that all sorts of a build have open together: a process has often no more than 1024.
const OPEN_FILES_MAX: usize = 512;

type PlaceNames = Arc<dyn Fn(u64) -> String + Send + Sync>;
type OnProgress = Arc<dyn Fn(Progress) -> ControlFlow<()> + Send + Sync>;

/// How a dictionary is built.
///
/// # Examples
/// ```
/// use splitpoint::{Dictionary, DictionaryBuilder, Index};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("users.spd");
/// DictionaryBuilder::new().index(Index::trie()).build(&path, [(b"alice", b"admin"), (b"carol", b"guest")])?;
/// let users = Dictionary::open(&path)?;
/// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"admin"[..]));
/// assert_eq!(users.get(b"bob")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DictionaryBuilder {
    pub(super) index: Index,
    page_bytes: u32,
    compression: Compression,
    block_bytes: u32,
    pub(super) hash: HashFunction,
    memory_bytes: u64,
    threads: usize,
    duplicates: Duplicates,
    temporary: Option<PathBuf>,
    resume: Option<u64>,
    shards: u32,
    place_names: Option<PlaceNames>,
    progress: Option<OnProgress>,
}

impl Default for DictionaryBuilder {
    fn default() -> Self {
        DictionaryBuilder {
            index: Index::default(),
            page_bytes: 4096,
            compression: Compression::None,
            block_bytes: 16 << 10,
            hash: HashFunction::new(HashKind::DEFAULT, 0),
            memory_bytes: 1 << 30,
            threads: 0,
            duplicates: Duplicates::Error,
            temporary: None,
            resume: None,
            shards: 0,
            place_names: None,
            progress: None,
        }
    }
}

impl DictionaryBuilder {
    /// Page index, pages of 4 KiB, no compression, XXH3, 1 GiB of memory, and an error where a key is given twice.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which index; [`Index::page`] if not given.
    pub fn index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// Bytes of a page, a power of two from 512 to 65,536: what a lookup reads, mostly.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Whether records are compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Bytes of records that are compressed together, 16 KiB if not given: more compress better, and are decompressed for each
    /// lookup.
    pub fn block_bytes(mut self, bytes: u32) -> Self {
        self.block_bytes = bytes;
        self
    }

    /// The hash function and its seed; XXH3 and 0 if not given, so that the same pairs give the same file.
    pub fn hash(mut self, kind: HashKind, seed: u64) -> Self {
        self.hash = HashFunction::new(kind, seed);
        self
    }

    /// The user's own hash function, which [`DictionaryOptions::hash`](crate::DictionaryOptions::hash) must be given too.
    pub fn hash_function(mut self, hash: HashFunction) -> Self {
        self.hash = hash;
        self
    }

    /// Memory for sorting, 1 GiB if not given; the index that is made comes on top.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Threads that sort; as many as there are processors if 0 or not given.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// What becomes of a key that is given twice: an error if not given.
    pub fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// Where temporary files go; beside the dictionary if not given. About as many bytes as the pairs have. The dictionary itself is
    /// written beside its name, where alone it can be given it.
    pub fn temporary_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.temporary = Some(directory.into());
        self
    }

    /// Keeps temporary files of a build that does not come to its end, so that a later one with the same `identity` (of the source
    /// and the options: the caller's to choose) goes on where it ended. See [`Build::resumed_pairs`].
    ///
    /// Without it temporary files have no names, and are gone however the build ends.
    pub fn resume(mut self, identity: u64) -> Self {
        self.resume = Some(identity);
        self
    }

    /// Makes a directory of so many files, each with the keys of some slots of Redis Cluster, which are built, changed and checked by
    /// themselves; one file if 0 or not given. An update keeps the form that there is.
    pub fn shards(mut self, count: u32) -> Self {
        self.shards = count;
        self
    }

    /// How an error is to name the `place` that a pair was given with ([`Build::push_at`]): `pairs.tsv:17`, say.
    pub fn place_names(mut self, name: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        self.place_names = Some(Arc::new(name));
        self
    }

    /// Calls `f` now and then while the file is written; [`ControlFlow::Break`] ends it with [`ErrorKind::Stopped`].
    pub fn progress(mut self, f: impl Fn(Progress) -> ControlFlow<()> + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(f));
        self
    }

    /// Builds a dictionary of `pairs` at `path`, replacing one that is there when it is complete.
    ///
    /// # Errors
    /// As [`start`](Self::start), [`Build::push`] and [`Build::finish`].
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
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for options out of range; [`ErrorKind::Locked`] where another process builds the same file;
    /// [`ErrorKind::NotATable`] where `path` is something else than a dictionary, or what is there under the name with `-unfinished` behind it
    /// is not what a build left unfinished; [`ErrorKind::Io`].
    pub fn start(&self, path: impl AsRef<Path>) -> Result<Build> {
        self.start_on(&Disk, path.as_ref())
    }

    /// Builds a dictionary of pairs that come in hash order. They are asked for from the beginning again where the first of them had
    /// one size and a later one has not.
    pub(crate) fn build_ordered<O: HashOrdered>(
        &self,
        path: &Path,
        pairs_total: u64,
        mut pairs: impl FnMut() -> O,
    ) -> Result<u64> {
        self.check()?;
        if self.shards > 0 {
            let message = "a table is frozen to one file: leave out shards, or build them from its pairs";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let mut layout = None;
        loop {
            let output = assemble::output(&Disk, path)?;
            let mut ordered = Ordered::new(pairs(), &self.hash, layout)?;
            let layout_now = ordered.layout;
            let watch = self.watch(pairs_total);
            match publish(&self.plan(path, 1), output, layout_now, &mut watch.runs(&mut ordered)) {
                Err(_) if ordered.deviated => layout = Some(Layout::Varied),
                result => return result.map(|footer| footer.pairs),
            }
        }
    }

    /// Writes the pairs of the dictionary at `old` to `new` with the index that this builder says; pages, compression, hash function and
    /// shards are the old one's. One pass, no sort.
    ///
    /// # Errors
    /// As [`Dictionary::open`](crate::Dictionary::open) and [`Build::finish`]; [`ErrorKind::InvalidArgument`] with
    /// [`resume`](Self::resume).
    pub fn reindex(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) -> Result<u64> {
        Update::start(&Disk, old.as_ref(), new.as_ref(), self, Unchanged::Written)?.finish()
    }

    pub(super) fn start_on(&self, storage: &'static dyn Storage, path: &Path) -> Result<Build> {
        self.check()?;
        let target = if self.shards == 0 {
            Target::file(storage, path)?
        } else {
            Target::directory(storage, path, |generation| Manifest::divided(self.shards, generation))?
        };
        let sorters = target.sorters(self, self.duplicates)?;
        Ok(Build { builder: self.clone(), target, sorters, count: 0 })
    }

    /// For the file at `path`, one of `parts` whose records are taken at the same time.
    pub(super) fn sort_options(&self, path: &Path, duplicates: Duplicates, parts: usize) -> SortOptions {
        SortOptions {
            hash: self.hash.clone(),
            memory_bytes: self.memory_bytes / parts as u64,
            threads: self.thread_count() / self.at_once(parts),
            open_files: OPEN_FILES_MAX / parts,
            duplicates,
            temporary: self.temporary(path),
            resume: self.resume.is_some(),
            resume_id: self.resume.unwrap_or(0),
        }
    }

    /// For the file at `path`, one of `parts`, as many of which are written at the same time as there are threads.
    pub(super) fn plan(&self, path: &Path, parts: usize) -> Plan {
        let at_once = self.at_once(parts);
        Plan {
            temporary: self.temporary(path),
            page_bytes: self.page_bytes,
            compression: self.compression,
            block_bytes: self.block_bytes,
            hash: self.hash.clone(),
            index: self.index,
            memory_bytes: self.memory_bytes / at_once as u64,
            threads: self.thread_count() / at_once,
        }
    }

    fn at_once(&self, parts: usize) -> usize {
        self.thread_count().min(parts)
    }

    /// What the names of temporary files for the file at `path` begin with.
    fn temporary(&self, path: &Path) -> PathBuf {
        let (Some(directory), Some(name)) = (&self.temporary, path.file_name()) else { return path.to_owned() };
        // Files of one name in two directories may have one directory for what is temporary.
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let number = HashKind::DEFAULT.hash(absolute.as_os_str().as_encoded_bytes(), 0);
        let mut name = name.to_owned();
        name.push(format!("-{number:016x}"));
        directory.join(name)
    }

    /// For a new file beside an old one: pages, compression and hash function are the old one's.
    pub(super) fn shaped_as(mut self, old: &DictionaryFile) -> Self {
        self.page_bytes = old.header.page_bytes;
        self.compression = old.header.compression;
        if self.compression != Compression::None {
            self.block_bytes = old.header.block_bytes;
        }
        self.hash = old.hash.clone();
        self
    }

    pub(super) fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get()),
            count => count,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what));
        if !self.page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes) {
            return invalid(format!(
                "page_bytes {}: a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}",
                self.page_bytes
            ));
        }
        if self.block_bytes == 0 || self.block_bytes > BLOCK_BYTES_MAX {
            return invalid(format!("block_bytes {}: from 1 to {BLOCK_BYTES_MAX}", self.block_bytes));
        }
        if self.shards > SLOT_COUNT {
            return invalid(format!("{} shards: at most {SLOT_COUNT}, one a slot", self.shards));
        }
        if self.shards > 0 && self.resume.is_some() {
            return invalid("a build of shards cannot be resumed: build one file, or leave out resume".into());
        }
        self.index.check().or_else(invalid)
    }

    /// For what has no source that it could go on in.
    pub(super) fn check_not_resuming(&self) -> Result<()> {
        if self.resume.is_none() {
            return Ok(());
        }
        let message = "an update or reindexing cannot be resumed: begin it again, without resume";
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    pub(super) fn sorted_runs<'r>(&self, sorted: &'r mut Sorted<'static>) -> SortedRuns<'r> {
        SortedRuns { sorted, names: self.place_names.clone() }
    }

    /// What tells the caller how far it is, with `pairs_total` to come.
    pub(super) fn watch(&self, pairs_total: u64) -> Watch {
        Watch { on: self.progress.clone(), done: AtomicU64::new(0), total: AtomicU64::new(pairs_total) }
    }
}

/// A build that takes pairs.
///
/// Dropped before [`finish`](Self::finish) it leaves nothing (or, with [`DictionaryBuilder::resume`], what the next one goes on from).
pub struct Build {
    builder: DictionaryBuilder,
    target: Target,
    sorters: Vec<Sorter<'static>>,
    count: u64,
}

impl Build {
    /// With [`DictionaryBuilder::resume`]: how many pairs of the source an earlier build has put by; the caller leaves them out.
    pub fn resumed_pairs(&self) -> u64 {
        self.sorters[0].resumed_records()
    }

    /// The same, and did that build get all of the source? Then there is nothing left to push.
    pub fn resumed_all(&self) -> bool {
        self.sorters[0].resumed_all()
    }

    /// How many pairs an earlier build had put by under the same name with another identity, or without all of its files; they are
    /// removed.
    pub fn discarded_pairs(&self) -> u64 {
        self.sorters.iter().map(Sorter::discarded_records).sum()
    }

    /// Takes one more pair, in any order. Errors about it call it by its number, from 1.
    ///
    /// # Errors
    /// [`ErrorKind::TooLong`] for a key or value of 4 GiB and more; [`ErrorKind::DiskFull`], [`ErrorKind::Io`] of temporary files;
    /// [`ErrorKind::Forked`] in a child of the process that started the build.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        self.push_at(key, value, self.resumed_pairs() + self.count)
    }

    /// The same for a pair that stands at `place` in its source: line numbers, say, that do not descend.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_at(&mut self, key: &[u8], value: &[u8], place: u64) -> Result<()> {
        let shard = self.target.shard_of(key);
        self.sorters[shard].push(key, Some(value), place)
    }

    /// With [`DictionaryBuilder::resume`]: makes what was pushed so far durable, so that dropping this build loses nothing of it. It does so
    /// by itself for each GiB; call it before an end that is not the end of the source.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn save(&mut self) -> Result<()> {
        self.sorters.iter_mut().try_for_each(Sorter::save)
    }

    /// Sorts, writes and publishes; gives how many pairs the dictionary has.
    ///
    /// # Errors
    /// [`ErrorKind::Duplicate`] where a key was given twice and may not be; [`ErrorKind::Stopped`];
    /// [`ErrorKind::DiskFull`], [`ErrorKind::Io`]. The name at `path` is then as before, unless all was written and only making the name
    /// durable failed.
    pub fn finish(self) -> Result<u64> {
        let Build { builder, target, sorters, .. } = self;
        let parts = sorters.len();
        target.finish(&builder, sorters, |_, sorted, output, watch| {
            let layout = match sorted.fixed_lengths() {
                Some((key_len, value_len)) => Layout::fixed(key_len, value_len),
                None => Layout::Varied,
            };
            watch.expect(sorted.records());
            let plan = builder.plan(&output.path, parts);
            let footer = publish(&plan, output, layout, &mut watch.runs(builder.sorted_runs(sorted)))?;
            Ok(footer.pairs)
        })
    }
}

/// What a sort gives, with its errors in the words of the source.
pub(super) struct SortedRuns<'r> {
    sorted: &'r mut Sorted<'static>,
    names: Option<PlaceNames>,
}

impl Runs for SortedRuns<'_> {
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        // First: the sort takes the run before for gone, and sorts the next in its memory.
        self.sorted.recycle(std::mem::take(run));
        let next = self.sorted.next_run().map_err(|error| match (error, &self.names) {
            (SortError::Duplicate(twice), Some(name)) => {
                let (key, place, first) = (quote(&twice.key), name(twice.place), name(twice.first_place));
                let message =
                    format!("{place}: duplicate key {key} (first at {first}). Use duplicates last to keep the last.");
                Error::new(ErrorKind::Duplicate, message)
            }
            (error, _) => error.into(),
        })?;
        let more = next.is_some();
        *run = next.unwrap_or_default();
        Ok(more)
    }
}

/// Pairs that come in hash order.
pub(crate) trait HashOrdered {
    /// The next pair, borrowed until the next call.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
    /// Has the next pair another hash than the last one given? Pairs of one hash may come in any order.
    fn at_boundary(&self) -> bool;
}

/// Makes runs of pairs in hash order.
struct Ordered<O> {
    pairs: O,
    hash: HashFunction,
    layout: Layout,
    /// The first run, by which the layout was guessed.
    first: Option<Run>,
    /// A pair had other lengths than the guess.
    deviated: bool,
}

/// A run of ordered pairs ends at so many, if not before by its bytes.
const RUN_PAIRS: usize = 1 << 15;

impl<O: HashOrdered> Ordered<O> {
    fn new(mut pairs: O, hash: &HashFunction, layout: Option<Layout>) -> Result<Self> {
        let mut first = Run::default();
        fill(&mut pairs, hash, &mut first)?;
        let layout = layout.unwrap_or_else(|| uniform(&first).unwrap_or(Layout::Varied));
        Ok(Ordered { pairs, hash: hash.clone(), layout, first: Some(first), deviated: false })
    }
}

impl<O: HashOrdered> Runs for &mut Ordered<O> {
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        match self.first.take() {
            Some(first) => *run = first,
            None => {
                run.clear();
                fill(&mut self.pairs, &self.hash, run)?;
            }
        }
        if self.layout != Layout::Varied && !run.is_empty() && uniform(run) != Some(self.layout) {
            self.deviated = true;
            return Err(Error::new(ErrorKind::InvalidArgument, "pairs of other sizes than the first ones"));
        }
        Ok(!run.is_empty())
    }
}

fn fill(pairs: &mut impl HashOrdered, hash: &HashFunction, run: &mut Run) -> Result<()> {
    while run.bytes.len() < RUN_BYTES && run.len() < RUN_PAIRS || !pairs.at_boundary() {
        let Some((key, value)) = pairs.next()? else { break };
        run.push(linear::Position::of(hash.hash(key)).0, key, Some(value));
    }
    // Of equal hashes a scan gives the pairs in any order.
    run.sort();
    Ok(())
}

/// The layout for just these records.
fn uniform(run: &Run) -> Option<Layout> {
    let first = (!run.is_empty()).then(|| run.span(0))?;
    let alike = (0..run.len()).all(|index| {
        let span = run.span(index);
        (span.key_len, span.value_len) == (first.key_len, first.value_len)
    });
    alike.then(|| Layout::fixed(first.key_len, first.value_len))
}

/// Counts what is written, and tells the caller.
pub(super) struct Watch {
    on: Option<OnProgress>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Watch {
    /// There are so many pairs more to be written.
    pub fn expect(&self, pairs: u64) {
        self.total.fetch_add(pairs, Relaxed);
    }

    /// `runs`, counted on their way.
    pub fn runs<R: Runs>(&self, runs: R) -> Watched<'_, R> {
        Watched { runs, watch: self }
    }
}

pub(super) struct Watched<'w, R> {
    runs: R,
    watch: &'w Watch,
}

impl<R: Runs> Runs for Watched<'_, R> {
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        let watch = self.watch;
        let progress = Progress { pairs: watch.done.load(Relaxed), pairs_total: watch.total.load(Relaxed) };
        if watch.on.as_ref().is_some_and(|on| on(progress).is_break()) {
            return Err(Error::new(
                ErrorKind::Stopped,
                "stopped before the dictionary was complete; nothing was changed",
            ));
        }
        let more = self.runs.next(run)?;
        watch.done.fetch_add(run.len() as u64, Relaxed);
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_written_side_by_side_share_memory_threads_and_open_files() {
        let builder = DictionaryBuilder::new().memory_bytes(64 << 20).threads(4);
        let of = |parts| {
            let (sort, plan) =
                (builder.sort_options(Path::new("a"), Duplicates::Last, parts), builder.plan(Path::new("a"), parts));
            (sort.memory_bytes >> 20, sort.threads, sort.open_files, plan.memory_bytes >> 20, plan.threads)
        };
        assert_eq!(of(1), (64, 4, 512, 64, 4));
        assert_eq!(of(2), (32, 2, 256, 32, 2));
        // All take pairs at the same time, and four of them are written.
        assert_eq!(of(16), (4, 1, 32, 16, 1));
    }
}
