//! One dictionary file, open for reading: header, footer and index are in memory, data is read on demand.
//!
//! Nothing here changes after opening, so threads share a file without waiting for each other.
//! Not here: lookups (`lookup.rs`), cells of the stream (`cells.rs`), several files as one (`shards/`).

use super::pages::Pages;
use super::record_format::RecordFormat;
use crate::checksum::crc32c;
use crate::dictionary::format::ends::{
    FOOTER_BYTES, FileHeader, Footer, HEADER_BYTES, Section, SectionKind, damaged, not_zero,
};
use crate::dictionary::format::layout::Compression;
use crate::dictionary::index::filter::{Filter, FilterBits};
use crate::dictionary::index::page_index::PageIndex;
use crate::dictionary::index::{self, LoadedIndex, Words};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::{self, File, Mode, Storage, View};
use crate::linear;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options for reading a dictionary.
#[derive(Clone, Default)]
pub(crate) struct Access {
    /// Reads data through a window instead of with `pread`. `None`: if that is faster.
    pub map_data: Option<bool>,
    /// Uses the index from a mapping instead of loading it.
    pub map_index: bool,
    /// The hash function, for a dictionary that was built with the user's own.
    pub hash: Option<HashFunction>,
}

pub(crate) struct DictionaryFile {
    pub path: PathBuf,
    pub header: FileHeader,
    pub footer: Footer,
    pub hash: HashFunction,
    pub pages: Pages,
    pub index: LoadedIndex,
    /// Maps ranks to pages if records have several sizes.
    pub ranks: Option<(PageIndex, Words)>,
    pub filter: Option<(Filter, Words)>,
    file: Arc<dyn File>,
    pub format: RecordFormat,
}

impl DictionaryFile {
    pub fn open(storage: &dyn Storage, path: &Path, access: &Access) -> Result<DictionaryFile> {
        let (file, header, _) = open_header(storage, path)?;
        Self::with_header(path, file, header, access)
    }

    /// Reads the footer of the file at `path`, without loading its indexes.
    pub fn footer_at(storage: &dyn Storage, path: &Path) -> Result<Footer> {
        let (file, header, file_bytes) = open_header(storage, path)?;
        read_footer(path, file.as_ref(), &header, file_bytes)
    }

    /// Opens the file at `path` with this header, which may not have been written yet.
    pub fn with_header(
        path: &Path,
        file: Arc<dyn File>,
        header: FileHeader,
        access: &Access,
    ) -> Result<DictionaryFile> {
        let failed = |what: &'static str| move |e| Error::io(path, what, e);
        let file_bytes = file.len().map_err(failed("ask the length of"))?;
        let hash = header.hash(path, access.hash.as_ref())?;
        let footer = read_footer(path, file.as_ref(), &header, file_bytes)?;
        let view = if access.map_index { map(path, file.as_ref(), file_bytes)? } else { None };
        let sections = Sections { path, file: file.as_ref(), view };
        let Indexes { index, ranks, filter } = sections.indexes(&header, &footer)?;
        let pays = file.window_pays().map_err(failed("ask for the file system of"))?;
        let mapped = access.map_data.unwrap_or(pays);
        let window = if mapped { file.window().map_err(failed("map"))? } else { None };
        file.expect_random_reads();
        let mut pages = Pages::new(path, Arc::clone(&file), window, &header, &footer);
        if mapped && pays {
            pages.read_rest();
        }
        let format = RecordFormat::of(&header, &footer, pages.body_bytes());
        Ok(DictionaryFile { path: path.to_owned(), header, footer, hash, pages, index, ranks, filter, file, format })
    }

    #[inline]
    pub fn position(&self, key: &[u8]) -> u64 {
        linear::Position::of(self.hash.hash_inlined(key)).0
    }

    /// Whether `path` still names this file.
    pub fn is_at(&self, path: &Path) -> Result<bool> {
        self.file.is_at(path).map_err(|e| Error::io(path, "ask for the identity of", e))
    }

    /// Whether both were opened from the same file, and it has not been overwritten in between.
    pub fn is_same(&self, other: &DictionaryFile) -> Result<bool> {
        if self.footer != other.footer || self.header.hash_check != other.header.hash_check {
            return Ok(false);
        }
        // Other contents may have the same checksums.
        let identity =
            |one: &DictionaryFile| one.file.identity().map_err(|e| Error::io(&one.path, "ask for the identity of", e));
        let own = identity(self)?;
        Ok(own.is_some() && own == identity(other)?)
    }

    /// The size of all records in the stream, if they have the same size.
    pub fn record_bytes(&self) -> Option<u64> {
        if self.format.compression == Compression::None { self.header.layout.record_bytes() } else { None }
    }

    /// Describes faults of the indexes that can be found without the records.
    pub fn check_indexes(&self) -> std::result::Result<(), String> {
        self.index.check()?;
        self.ranks.as_ref().map_or(Ok(()), |(index, words)| index.check(words.get()))
    }

    /// Describes each piece of padding that is not all zeros: after the header, the stream, the data and each section.
    pub fn padding_faults(&self) -> Result<Vec<String>> {
        let page_bytes = self.header.page_bytes;
        let file_bytes = self.file_bytes()?;
        let unused = self.pages.count() * self.pages.body_bytes() - self.pages.stream_bytes();
        let data_end = (self.pages.count() + 1) * u64::from(page_bytes);
        let mut padding = vec![HEADER_BYTES as u64..u64::from(page_bytes), data_end - unused..data_end];
        padding.extend(self.footer.gaps(page_bytes, file_bytes));
        let failed = |e| Error::io(&self.path, "read the padding of", e);
        let checked = padding.into_iter().map(|range| not_zero(self.file.as_ref(), range).map_err(failed));
        checked.filter_map(Result::transpose).collect()
    }

    /// The filter's fingerprint size, its bytes and its number of keys, if there is a filter.
    pub fn filter(&self) -> Option<(FilterBits, u64, u64)> {
        self.filter.as_ref().map(|(filter, words)| (filter.bits(), words.bytes(), filter.keys()))
    }

    pub fn ranks_bytes(&self) -> u64 {
        self.ranks.as_ref().map_or(0, |(_, words)| words.bytes())
    }

    pub fn file_bytes(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io(&self.path, "ask the length of", e))
    }
}

/// Opens the file at `path`; returns it with its header and its length.
fn open_header(storage: &dyn Storage, path: &Path) -> Result<(Arc<dyn File>, FileHeader, u64)> {
    let failed = |what: &'static str| move |e| Error::io(path, what, e);
    let file: Arc<dyn File> = storage.open(path, Mode::Read).map_err(failed("open"))?.into();
    let file_bytes = file.len().map_err(failed("ask the length of"))?;
    let header = FileHeader::read(path, file.as_ref(), file_bytes)?;
    Ok((file, header, file_bytes))
}

fn read_footer(path: &Path, file: &dyn File, header: &FileHeader, file_bytes: u64) -> Result<Footer> {
    let mut end = [0; FOOTER_BYTES];
    let footer_at = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64);
    let footer_at = footer_at.ok_or_else(|| cut(path))?;
    file.read_at(&mut end, footer_at).map_err(|e| Error::io(path, "read the footer of", e))?;
    Footer::parse(path, &end, header, file_bytes)
}

fn cut(path: &Path) -> Error {
    damaged(path, "too short to be a dictionary: it was cut, or never finished")
}

fn map(path: &Path, file: &dyn File, file_bytes: u64) -> Result<Option<Arc<dyn View>>> {
    let view = file.view().map_err(|e| Error::io(path, "map", e))?;
    match view {
        Some(view) if view.bytes().len() as u64 == file_bytes => Ok(Some(view.into())),
        Some(_) => Err(Error::corrupt(format!("{}: the file changed while it was opened", path.display()))),
        None => Ok(None),
    }
}

/// The sections of a file that is being opened.
struct Sections<'s> {
    path: &'s Path,
    file: &'s dyn File,
    view: Option<Arc<dyn View>>,
}

/// The content of the sections.
struct Indexes {
    index: LoadedIndex,
    ranks: Option<(PageIndex, Words)>,
    filter: Option<(Filter, Words)>,
}

impl Sections<'_> {
    fn indexes(&self, header: &FileHeader, footer: &Footer) -> Result<Indexes> {
        let mut indexes = Indexes { index: LoadedIndex::None, ranks: None, filter: None };
        for section in &footer.sections {
            let words = self.words(section)?;
            let opened = match section.kind {
                SectionKind::Ranks => {
                    index::open_pages(&words, footer.pages).map(|opened| indexes.ranks = Some((opened, words)))
                }
                SectionKind::Filter => {
                    index::open_filter(&words, footer.pairs).map(|opened| indexes.filter = Some((opened, words)))
                }
                kind => LoadedIndex::open(kind, words, header.order, footer.pairs, footer.pages)
                    .map(|opened| indexes.index = opened),
            };
            opened.map_err(|what| self.damaged(what))?;
        }
        Ok(indexes)
    }

    fn words(&self, section: &Section) -> Result<Words> {
        if let Some(view) = &self.view
            && cfg!(target_endian = "little")
        {
            let from = usize::try_from(section.offset).expect("a view has all bytes");
            let bytes = from..from + usize::try_from(section.bytes).expect("a view has all bytes");
            self.compare(section, crc32c(&view.bytes()[bytes.clone()]))?;
            return Ok(Words::Viewed { view: Arc::clone(view), bytes });
        }
        self.load(section).map(Words::Loaded)
    }

    fn load(&self, section: &Section) -> Result<Vec<u64>> {
        let len = usize::try_from(section.bytes / 8).map_err(|_| self.too_large())?;
        let mut words = Vec::new();
        // The file has these bytes (Footer::check), so it is no larger than that.
        words.try_reserve_exact(len).map_err(|_| self.too_large())?;
        io::advise_huge_pages(words.spare_capacity_mut());
        words.resize(len, 0u64);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        self.file.read_at(bytes, section.offset).map_err(|e| Error::io(self.path, "read the index of", e))?;
        self.compare(section, crc32c(bytes))?;
        for word in &mut words {
            *word = u64::from_le(*word);
        }
        Ok(words)
    }

    fn compare(&self, section: &Section, computed: u32) -> Result<()> {
        if section.checksum == computed {
            return Ok(());
        }
        let (at, stored) = (section.offset, section.checksum);
        let what = format!("index at byte {at}: checksum {stored:08x} is stored, {computed:08x} computed");
        Err(self.damaged(what))
    }

    fn damaged(&self, what: String) -> Error {
        Error::corrupt(format!("{}: {what}", self.path.display()))
            .with_hint("Make the index again by a reindex, or restore the file.")
    }

    fn too_large(&self) -> Error {
        Error::new(ErrorKind::OutOfMemory, format!("{}: no memory for the index", self.path.display()))
            .with_hint("Map the index instead of loading it.")
    }
}
