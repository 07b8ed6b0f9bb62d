//! Writes runs in hash order to a file: data pages, index, footer; then renames it to its path.
//!
//! ```text
//! runs -> (reorder, for chunks) -> data pages -> index sections, filter -> footer -> sync -> header -> sync -> rename
//! ```
//!
//! Whether all records have one size is known only at the end: duplicates are dropped, deletions are applied. The file
//! is begun in the layout that the caller expects. If that proves wrong, it is read back and written to a second file
//! in the right layout, so that the same pairs give the same bytes however they were pushed.
//!
//! Not here: where runs come from (`merge.rs`), locks and the rename (`io/atomic.rs`).

use super::data::{DataWriter, IndexNumbers};
use super::far::FarSources;
use super::filter_writer::FilterWriter;
use super::memory::Shares;
use super::numbers::NumberList;
use super::plan::Plan;
use super::reorder::Reorderer;
use crate::checksum::crc32c;
use crate::dictionary::format::ends::{FileHeader, Footer, MAGIC, SECTION_ALIGN, Section, SectionKind, first_bytes};
use crate::dictionary::format::layout::{Compression, Layout};
use crate::dictionary::format::page;
use crate::dictionary::index::Index;
use crate::dictionary::index::page_index::{PageIndex, PageIndexOptions};
use crate::dictionary::index::trie::{self, PageShape};
use crate::dictionary::read::file::{Access, DictionaryFile};
use crate::dictionary::read::walk::Walk;
use crate::dictionary::run::{FarSource, Run, Spans};
use crate::error::{Error, ErrorKind, Result};
use crate::io::atomic::AtomicFile;
use crate::io::{Granted, Mode, Storage};
use std::path::Path;
use std::sync::Arc;

/// Suffixes of a file's name until it is complete: for the first file written, and for the second.
const UNFINISHED: &str = "-unfinished";
const UNFINISHED_AGAIN: &str = "-unfinished2";

/// A finer index could save at most part of one read.
const RANK_BINS_PER_PAGE: u32 = 16;

/// Begins the file of a dictionary at `path`.
///
/// # Errors
/// [`ErrorKind::Locked`] if another process builds the same file; [`ErrorKind::NotADictionary`] if `path`, or a name
/// that the build needs, belongs to something other than a dictionary.
pub(crate) fn begin_file(storage: &Arc<dyn Storage>, path: &Path, granted: Granted) -> Result<AtomicFile> {
    refuse_to_replace_others(storage.as_ref(), path)?;
    let mut output = open_unfinished(storage, path, UNFINISHED, granted)?;
    refuse_to_overwrite_others(&output)?;
    output.begin()?;
    // A build that was killed while it wrote a second file left this one. Beginning and dropping it removes it.
    let mut second = open_unfinished(storage, path, UNFINISHED_AGAIN, granted)?;
    refuse_to_overwrite_others(&second)?;
    second.begin()?;
    Ok(output)
}

/// Begins the file at `path` in a directory of shards.
///
/// # Errors
/// The errors of [`begin_file`].
pub(crate) fn begin_shard(storage: &Arc<dyn Storage>, path: &Path, granted: Granted) -> Result<AtomicFile> {
    refuse_to_replace_others(storage.as_ref(), path)?;
    let mut output = open_unfinished(storage, path, UNFINISHED, granted)?;
    output.begin()?;
    Ok(output)
}

/// Opens and locks the unfinished file of `path`, for the access in `granted`.
///
/// # Errors
/// [`ErrorKind::Locked`] if another process has it.
pub(crate) fn open_unfinished(
    storage: &Arc<dyn Storage>,
    path: &Path,
    suffix: &str,
    granted: Granted,
) -> Result<AtomicFile> {
    match AtomicFile::open(storage, path, suffix, granted) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => {
            let name = crate::io::atomic::with_suffix(path, suffix);
            Err(Error::new(ErrorKind::Locked, format!("{}: another process is building it", name.display()))
                .with_hint("Wait until it is done, or choose another name."))
        }
        Err(failed) if failed.error.kind() == std::io::ErrorKind::NotFound => {
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let hint = format!("The directory {} does not exist: create it first.", directory.display());
            Err(Error::io(path, "create", failed.error).with_hint(hint))
        }
        Err(failed) => Err(failed.into()),
    }
}

fn refuse_to_replace_others(storage: &dyn Storage, path: &Path) -> Result<()> {
    let file = match storage.open(path, Mode::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(path, "look at", e)),
    };
    let bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
    match FileHeader::read(path, file.as_ref(), bytes) {
        Err(error) if error.kind() == ErrorKind::NotADictionary && bytes > 0 => {
            let name = path.display();
            let message = format!("{name}: exists and is not a dictionary, so it is not replaced");
            Err(Error::new(ErrorKind::NotADictionary, message).with_hint("Remove it, or choose another name."))
        }
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        // A damaged dictionary may be replaced: this is how it is repaired.
        _ => Ok(()),
    }
}

/// A killed build leaves a file with an empty header, or a dictionary that is complete but not yet renamed. Anything
/// else is not ours.
fn refuse_to_overwrite_others(unfinished: &AtomicFile) -> Result<()> {
    let (path, file) = (unfinished.unfinished_path(), unfinished.file());
    let bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
    let head = first_bytes(file.as_ref(), bytes).map_err(|e| Error::io(path, "read", e))?;
    if head.iter().all(|byte| *byte == 0) || head.starts_with(MAGIC) {
        return Ok(());
    }
    let name = path.display();
    let message = format!("{name}: exists and is not an unfinished dictionary, so it is not replaced");
    Err(Error::new(ErrorKind::NotADictionary, message).with_hint("Move or remove it."))
}

/// Writes one dictionary file from runs in hash order.
pub(crate) struct FileWriter {
    plan: Plan,
    shares: Shares,
    /// `None` only during method calls.
    attempt: Option<Attempt>,
    /// The first file if a second one is being written. It holds the lock of the name.
    first: Option<AtomicFile>,
    far: FarSources,
}

impl FileWriter {
    /// Writes to `output`, at first in `layout`. `far` holds the values that are not in the runs.
    pub fn new(plan: Plan, shares: Shares, output: AtomicFile, layout: Layout, far: FarSources) -> Result<Self> {
        let attempt = Attempt::new(&plan, &shares, output, layout, far.clone())?;
        Ok(FileWriter { plan, shares, attempt: Some(attempt), first: None, far })
    }

    /// Takes the next records; none may be a deletion.
    pub fn push(&mut self, run: &Run) -> Result<()> {
        if self.attempt().header.layout != Layout::Varied
            && !run.is_empty()
            && run.layout() != self.attempt().header.layout
        {
            let written = self.attempt.take().expect("between calls there is one").finish(&self.plan)?;
            self.write_again(written, Layout::Varied)?;
        }
        self.attempt().push(run)
    }

    /// Writes index and footer, and renames the file to its path.
    pub fn finish(mut self) -> Result<Footer> {
        let mut written = self.attempt.take().expect("between calls there is one").finish(&self.plan)?;
        let proper = written.footer.uniform_layout();
        if proper != written.header.layout {
            self.write_again(written, proper)?;
            written = self.attempt.take().expect("just made").finish(&self.plan)?;
        }
        written.output.publish(&written.header.bytes())?;
        Ok(written.footer)
    }

    fn attempt(&mut self) -> &mut Attempt {
        self.attempt.as_mut().expect("between calls there is one")
    }

    /// Begins a second file in `layout`, with the records of the first.
    fn write_again(&mut self, written: Written, layout: Layout) -> Result<()> {
        let Written { output, header, .. } = written;
        let access = Access { hash: Some(self.plan.hash.clone()), ..Access::default() };
        let old = DictionaryFile::with_header(output.unfinished_path(), Arc::clone(output.file()), header, &access)?;
        // `begin_file` has checked that a file of this name is ours.
        let mut again = open_unfinished(&self.plan.storage, output.path(), UNFINISHED_AGAIN, output.granted())?;
        again.begin()?;
        let old = Arc::new(old);
        let far = FarSources { rewritten: Some(Arc::clone(&old)), ..self.far.clone() };
        let mut attempt = Attempt::new(&self.plan, &self.shares, again, layout, far)?;
        let (mut walk, mut run) = (Walk::with_far_values(&old, FarSource::Rewritten), Run::default());
        while walk.next(&mut run)? {
            self.plan.progress.report()?;
            attempt.push(&run)?;
        }
        (self.attempt, self.first) = (Some(attempt), Some(output));
        Ok(())
    }
}

/// A file being written in one layout.
struct Attempt {
    output: AtomicFile,
    header: FileHeader,
    data: DataWriter,
    reorderer: Option<Reorderer>,
    filter: Option<FilterWriter>,
}

/// A file that is complete except for its header.
struct Written {
    output: AtomicFile,
    header: FileHeader,
    footer: Footer,
}

impl Attempt {
    fn new(plan: &Plan, shares: &Shares, output: AtomicFile, layout: Layout, far: FarSources) -> Result<Self> {
        let header = header_of(plan, layout);
        let numbers = numbers_of(plan, shares, layout);
        let data = DataWriter::new(Arc::clone(output.file()), output.unfinished_path(), &header, numbers, far)?;
        let reorderer = matches!(plan.index, Index::Chunk { .. }).then(|| Reorderer::new(plan, shares));
        let filter = plan.filter().map(|bits| FilterWriter::new(plan, shares, bits));
        Ok(Attempt { output, header, data, reorderer, filter })
    }

    fn push(&mut self, run: &Run) -> Result<()> {
        if let Some(filter) = &mut self.filter {
            filter.push(&run.positions)?;
        }
        if let Some(reorderer) = &mut self.reorderer {
            return reorderer.push(run, &mut self.data);
        }
        if let Spans::Fixed { .. } = run.spans
            && run.layout() == self.header.layout
        {
            return self.data.push_fixed(run);
        }
        for (index, position) in run.positions.iter().enumerate() {
            self.data.push_record(*position, run.record(index))?;
        }
        Ok(())
    }

    fn finish(mut self, plan: &Plan) -> Result<Written> {
        let mut sections = Vec::new();
        if let Some(reorderer) = self.reorderer.take() {
            sections.push((SectionKind::Chunk, reorderer.finish(&mut self.data)?));
        }
        let (mut footer, numbers) = self.data.finish()?;
        plan.check_index(footer.pairs, footer.stream_bytes)?;
        sections.extend(sections_of(plan, &self.header, &footer, &numbers)?);
        let path = self.output.unfinished_path();
        let mut at = (footer.pages + 1) * u64::from(self.header.page_bytes);
        for (kind, mut words) in sections {
            words.iter_mut().for_each(|word| *word = word.to_le());
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            let offset = at.next_multiple_of(SECTION_ALIGN);
            self.output.file().write_at(bytes, offset).map_err(|e| Error::io(path, "write the index of", e))?;
            at = offset + bytes.len() as u64;
            let checksum = crc32c(bytes);
            footer.sections.push(Section { kind, checksum, offset, bytes: bytes.len() as u64 });
        }
        if let Some(filter) = self.filter.take() {
            let offset = at.next_multiple_of(SECTION_ALIGN);
            let section = filter.finish(self.output.file().as_ref(), path, offset, &plan.progress)?;
            at = section.offset + section.bytes;
            footer.sections.push(section);
        }
        self.output.file().write_at(&footer.bytes(), at).map_err(|e| Error::io(path, "write", e))?;
        Ok(Written { output: self.output, header: self.header, footer })
    }
}

fn header_of(plan: &Plan, layout: Layout) -> FileHeader {
    FileHeader {
        page_bytes: plan.page_bytes,
        layout,
        compression: plan.compression,
        block_bytes: if plan.compression == Compression::None { 0 } else { plan.block_bytes },
        order: plan.index.order(),
        hash_id: plan.hash.kind().id(),
        hash_seed: plan.hash.seed(),
        hash_check: plan.hash.check_value(),
        types: plan.types.clone(),
    }
}

fn numbers_of(plan: &Plan, shares: &Shares, layout: Layout) -> IndexNumbers {
    let list = || NumberList::new(&plan.storage, &plan.temporary, shares.list);
    let one_size = plan.compression == Compression::None && layout != Layout::Varied;
    IndexNumbers {
        page_positions: matches!(plan.index, Index::Page { .. }).then(list),
        page_ranks: (plan.index.gives_ranks() && !one_size).then(list),
        positions: matches!(plan.index, Index::Trie { .. }).then(list),
    }
}

/// The layout of records in pages, if all have one size.
fn page_shape(header: &FileHeader) -> Option<PageShape> {
    let record_bytes = header.layout.record_bytes().filter(|_| header.compression == Compression::None)?;
    let body_bytes = header.page_bytes - page::head_bytes(header.layout, header.compression) as u32;
    Some(PageShape { record_bytes: u32::try_from(record_bytes).ok()?, body_bytes })
}

/// The index made of `numbers`, and the map from ranks to pages if records have several sizes.
fn sections_of(
    plan: &Plan,
    header: &FileHeader,
    footer: &Footer,
    numbers: &IndexNumbers,
) -> Result<Vec<(SectionKind, Vec<u64>)>> {
    let mut sections = Vec::new();
    let progress = &plan.progress;
    let blocks = plan.compression != Compression::None;
    if let (Index::Page { bins_per_page }, Some(firsts)) = (plan.index, &numbers.page_positions) {
        let options = PageIndexOptions { bins_per_page, blocks, greatest: u64::MAX };
        sections.push((SectionKind::Pages, PageIndex::build(options, footer.pages, progress.watch(firsts.numbers()))?));
    }
    if let (Some(options), Some(positions)) = (plan.index.trie_options(page_shape(header)), &numbers.positions) {
        sections.push((SectionKind::Trie, trie::build(&options, footer.pairs, progress.watch(positions.numbers()))?));
    }
    if let Some(firsts) = &numbers.page_ranks {
        let greatest = footer.pairs.saturating_sub(1);
        let options = PageIndexOptions { bins_per_page: RANK_BINS_PER_PAGE, blocks, greatest };
        sections.push((SectionKind::Ranks, PageIndex::build(options, footer.pages, progress.watch(firsts.numbers()))?));
    }
    Ok(sections)
}
