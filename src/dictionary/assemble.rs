//! Records in hash order become a file: arranged, written, indexed, closed by a footer, and only then given its name.
//!
//! ```text
//! runs -> arrange (chunk) -> data pages -> index sections -> footer -> sync -> rename -> sync the name
//! ```
//!
//! Not here: where runs come from (`build.rs`, `merge.rs`), how a file gets its name (`publish.rs`).

use super::arrange::Arranger;
use super::file::{Access, DictionaryFile};
use super::format::{Compression, Footer, Header, Layout, Order, SECTION_ALIGN, Section, SectionKind};
use super::index::page::{PageIndex, PageIndexOptions};
use super::index::{Index, trie};
use super::publish::{TakeOver, Unpublished};
use super::run::{Run, Spans};
use super::spool::Spool;
use super::walk::{Walk, WalkAhead};
use super::write::{DataWriter, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::{Mode, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything about a dictionary to be, but its records.
#[derive(Clone)]
pub(super) struct Plan {
    /// What the names of temporary files begin with.
    pub temporary: PathBuf,
    pub page_bytes: u32,
    pub compression: Compression,
    pub block_bytes: u32,
    pub hash: HashFunction,
    pub index: Index,
    pub memory_bytes: u64,
    pub threads: usize,
}

/// Where runs come from, some at a time.
pub(super) trait Runs {
    /// Replaces what is in `run` by the next records; `false` at the end. Deletions are not among them.
    fn next(&mut self, run: &mut Run) -> Result<bool>;
}

/// What is behind a name until its file has it: written once, or for the second time.
const ONCE: &str = "-unfinished";
const AGAIN: &str = "-unfinished2";

/// Begins the file of a dictionary at `path`.
///
/// # Errors
/// As [`Unpublished::new`]; [`ErrorKind::NotATable`] where `path` is something else than a dictionary, which it would replace.
pub(super) fn output<'s>(storage: &'s dyn Storage, path: &Path) -> Result<Unpublished<'s>> {
    refuse_to_replace_others(storage, path)?;
    let output = Unpublished::new(storage, path, ONCE, path, TakeOver::Unfinished)?;
    // What a build left that was killed while it wrote again: taken over, and dropped it is gone.
    drop(Unpublished::new(storage, path, AGAIN, path, TakeOver::Unfinished)?);
    Ok(output)
}

/// Begins the file of a shard at `path`, for those who may use the file at `like`.
///
/// # Errors
/// As [`output`].
pub(super) fn shard_output<'s>(storage: &'s dyn Storage, path: &Path, like: &Path) -> Result<Unpublished<'s>> {
    refuse_to_replace_others(storage, path)?;
    Unpublished::new(storage, path, ONCE, like, TakeOver::Any)
}

fn refuse_to_replace_others(storage: &dyn Storage, path: &Path) -> Result<()> {
    let file = match storage.open(path, Mode::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io(path, "open what is there", e)),
    };
    let bytes = file.len().map_err(|e| Error::io(path, "read the length", e))?;
    match Header::read(path, file.as_ref(), bytes) {
        Err(error) if error.kind() == ErrorKind::NotATable && bytes > 0 => {
            let name = path.display();
            let message =
                format!("{name}: is there and no dictionary; it is not replaced. Remove it, or choose another name.");
            Err(Error::new(ErrorKind::NotATable, message))
        }
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        // A damaged dictionary may be replaced: that is how it is mended.
        _ => Ok(()),
    }
}

impl Plan {
    fn header(&self, layout: Layout) -> Header {
        Header {
            page_bytes: self.page_bytes,
            layout,
            compression: self.compression,
            block_bytes: if self.compression == Compression::None { 0 } else { self.block_bytes },
            order: self.index.order(),
            hash_id: self.hash.kind().id(),
            hash_seed: self.hash.seed(),
            hash_check: self.hash.check_value(),
        }
    }

    fn wanted<'s>(&self, output: &Unpublished<'s>, layout: Layout) -> Wanted<'s> {
        let spool = || Spool::new(output.storage, &self.temporary, self.memory_bytes / 8);
        let sized = self.compression == Compression::None && layout != Layout::Varied;
        Wanted {
            page_positions: matches!(self.index, Index::Page { .. }).then(spool),
            page_ranks: (self.index.gives_ranks() && !sized).then(spool),
            positions: matches!(self.index, Index::Trie { .. }).then(spool),
        }
    }

    /// Writes all of `runs` to `output` in `layout`, with index and footer, without header; does not publish.
    pub fn write(&self, output: &Unpublished<'_>, layout: Layout, runs: &mut dyn Runs) -> Result<Footer> {
        let header = self.header(layout);
        let wanted = self.wanted(output, layout);
        let mut writer = DataWriter::new(Arc::clone(&output.file), &output.new_path, &header, wanted)?;
        let mut run = Run::default();
        let built = if header.order == Order::Hash {
            while runs.next(&mut run)? {
                write_run(&mut writer, layout, &run)?;
            }
            None
        } else {
            let mut arranger = Arranger::new(self);
            while runs.next(&mut run)? {
                arranger.push(&run, &mut writer)?;
            }
            Some(arranger.finish(&mut writer)?)
        };
        let (mut footer, wanted) = writer.finish()?;
        let mut end = SectionsWriter::new(output, &header, &footer);
        for (kind, words) in self.sections(&footer, &wanted, built)? {
            end.write(kind, words)?;
        }
        footer.sections = end.sections;
        let failed = |e| Error::io(&output.new_path, "write", e);
        output.file.write_at(&footer.bytes(), end.at).map_err(failed)?;
        Ok(footer)
    }

    /// The index, and how ranks become pages where records have no one size.
    fn sections(
        &self,
        footer: &Footer,
        wanted: &Wanted<'_>,
        built: Option<(SectionKind, Vec<u64>)>,
    ) -> Result<Vec<(SectionKind, Vec<u64>)>> {
        let mut sections: Vec<_> = built.into_iter().collect();
        let blocks = self.compression != Compression::None;
        if let (Index::Page { bins_per_page }, Some(firsts)) = (self.index, &wanted.page_positions) {
            let options = PageIndexOptions { bins_per_page, blocks, greatest: u64::MAX };
            sections.push((SectionKind::Pages, PageIndex::build(options, footer.pages, firsts.numbers())?));
        }
        if let (Some(options), Some(positions)) = (self.index.trie_options(), &wanted.positions) {
            sections.push((SectionKind::Trie, trie::build(&options, footer.pairs, positions.numbers())?));
        }
        if let Some(firsts) = &wanted.page_ranks {
            let greatest = footer.pairs.saturating_sub(1);
            let options = PageIndexOptions { bins_per_page: RANK_BINS_PER_PAGE, blocks, greatest };
            sections.push((SectionKind::Ranks, PageIndex::build(options, footer.pages, firsts.numbers())?));
        }
        Ok(sections)
    }
}

/// As for hashes; what a finer index could save is a part of one read.
const RANK_BINS_PER_PAGE: u32 = 16;

/// Writes `output` by `plan` from `runs` and publishes it. `layout` is what the records are thought to need; if it turns out that all
/// have the same lengths, what was written is written again in the layout that such records have, so that equal pairs are
/// equal bytes however they came.
pub(super) fn publish(plan: &Plan, mut output: Unpublished<'_>, layout: Layout, runs: &mut dyn Runs) -> Result<Footer> {
    let footer = plan.write(&output, layout, runs)?;
    let proper = footer.uniform_layout();
    if proper == layout {
        output.publish(&plan.header(layout).bytes())?;
        return Ok(footer);
    }
    let access = Access { hash: Some(plan.hash.clone()), ..Access::default() };
    let written =
        DictionaryFile::with_header(&output.new_path, Arc::clone(&output.file), plan.header(layout), &access)?;
    // In a directory of shards a leftover is nobody's; elsewhere `output` has looked. Whose it is to be, `output` says already.
    let mut again = Unpublished::new(output.storage, &output.path, AGAIN, &output.new_path, TakeOver::Any)?;
    let footer = plan.write(&again, proper, &mut Walk::new(&written))?;
    again.publish(&plan.header(proper).bytes())?;
    Ok(footer)
}

impl Runs for WalkAhead {
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        WalkAhead::next(self, run)
    }
}

impl Runs for Walk<'_> {
    fn next(&mut self, run: &mut Run) -> Result<bool> {
        Walk::next(self, run)
    }
}

pub(super) fn write_run(writer: &mut DataWriter<'_>, layout: Layout, run: &Run) -> Result<()> {
    if let (Spans::Fixed { key_len, value_len }, Layout::Fixed { .. }) = (&run.spans, layout)
        && layout == Layout::fixed(*key_len, *value_len)
    {
        return writer.push_fixed(&run.bytes, |index| run.positions[index]);
    }
    for (index, position) in run.positions.iter().enumerate() {
        let Some(value) = run.value(index) else { continue };
        writer.push(*position, run.key(index), value)?;
    }
    Ok(())
}

/// Writes sections behind the data.
struct SectionsWriter<'o, 's> {
    output: &'o Unpublished<'s>,
    at: u64,
    sections: Vec<Section>,
}

impl<'o, 's> SectionsWriter<'o, 's> {
    fn new(output: &'o Unpublished<'s>, header: &Header, footer: &Footer) -> Self {
        SectionsWriter { output, at: (footer.pages + 1) * u64::from(header.page_bytes), sections: Vec::new() }
    }

    fn write(&mut self, kind: SectionKind, mut words: Vec<u64>) -> Result<()> {
        for word in &mut words {
            *word = word.to_le();
        }
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let offset = self.at.next_multiple_of(SECTION_ALIGN);
        self.output.file.write_at(bytes, offset).map_err(|e| Error::io(&self.output.new_path, "write the index", e))?;
        self.at = offset + bytes.len() as u64;
        self.sections.push(Section { kind, checksum: crc32c::crc32c(bytes), offset, bytes: bytes.len() as u64 });
        Ok(())
    }
}
