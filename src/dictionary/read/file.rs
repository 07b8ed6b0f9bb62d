//! One dictionary file, open for reading: header, footer and index are in memory, data is read on demand.
//!
//! ```text
//! get(key)   hash -> position -> index (pages, or ranks and from them pages) -> one read -> search -> value
//! ```
//!
//! Nothing here changes after opening, so threads share a file without waiting for each other.
//! Not here: the search within what was read (`search.rs`), several files as one (`shards/`).

use super::in_place::{self, InPlace};
use super::pages::{Pages, Piece, Scratch, Stream};
use super::search::{self, At, Interpolation, Query, RecordFormat};
use crate::checksum::crc32c;
use crate::dictionary::format::block::{self, BlockHead};
use crate::dictionary::format::ends::{
    FOOTER_BYTES, FileHeader, Footer, HEADER_BYTES, Section, SectionKind, damaged, not_zero,
};
use crate::dictionary::format::layout::{Compression, Layout, Order};
use crate::dictionary::format::record;
use crate::dictionary::index::filter::{Filter, FilterBits};
use crate::dictionary::index::page::PageIndex;
use crate::dictionary::index::{self, Candidates, LoadedIndex, Words};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::{self, File, Mode, Storage, View};
use crate::linear;
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A lookup that would read more pages than this reads them piece by piece instead.
pub(super) const PAGES_AT_ONCE_MAX: u64 = 64;

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

/// What a lookup does with the value it finds.
pub(crate) enum Wanted<'v> {
    /// Nothing: only presence is of interest.
    Presence,
    /// Replaces the content of the vector with the value.
    Value(&'v mut Vec<u8>),
    /// Copies as much of it as fits to the start of the buffer, and sets the number to its length.
    Copy(&'v mut [u8], &'v mut usize),
}

impl Wanted<'_> {
    fn give(&mut self, value: &[u8]) {
        match self {
            Wanted::Presence => {}
            Wanted::Value(to) => {
                to.clear();
                to.extend_from_slice(value);
            }
            Wanted::Copy(to, len) => {
                let copied = value.len().min(to.len());
                to[..copied].copy_from_slice(&value[..copied]);
                **len = value.len();
            }
        }
    }
}

/// Where a key may be according to an index.
pub(crate) struct Sought<'k> {
    pub pages: Range<u64>,
    at: At,
    query: Query<'k>,
}

impl<'k> Sought<'k> {
    pub fn key(&self) -> &'k [u8] {
        self.query.key
    }
}

pub(crate) struct DictionaryFile {
    pub path: PathBuf,
    pub header: FileHeader,
    pub footer: Footer,
    pub hash: HashFunction,
    pub pages: Pages,
    pub index: LoadedIndex,
    /// Maps ranks to pages if records have several sizes.
    ranks: Option<(PageIndex, Words)>,
    filter: Option<(Filter, Words)>,
    file: Arc<dyn File>,
    pub format: RecordFormat,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl DictionaryFile {
    pub fn open(storage: &dyn Storage, path: &Path, access: &Access) -> Result<DictionaryFile> {
        let failed = |what: &'static str| move |e| Error::io(path, what, e);
        let file: Arc<dyn File> = storage.open(path, Mode::Read).map_err(failed("open"))?.into();
        let file_bytes = file.len().map_err(failed("ask the length of"))?;
        let header = FileHeader::read(path, file.as_ref(), file_bytes)?;
        Self::with_header(path, file, header, access)
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
        let mut end = [0; FOOTER_BYTES];
        let footer_at = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64);
        let footer_at = footer_at.ok_or_else(|| cut(path))?;
        file.read_at(&mut end, footer_at).map_err(failed("read the footer of"))?;
        let footer = Footer::parse(path, &end, &header, file_bytes)?;
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
        // The record that completes a block may be the longest.
        let (longest_key, longest_value) = (u64::from(footer.key_len.1), u64::from(footer.value_len.1));
        let format = RecordFormat {
            layout: header.layout,
            compression: header.compression,
            ordered: header.order == Order::Hash,
            block_bytes_max: u64::from(header.block_bytes)
                + longest_key
                + longest_value
                + record::HEAD_BYTES_MAX as u64,
            gap: (u64::MAX / footer.pairs.max(1)).max(1),
            per_page: 0,
            pairs: footer.pairs,
            near: 0,
            wide: 0,
            record_bytes: 0,
            likely_bytes: 0,
        };
        let body_bytes = pages.body_bytes();
        let record_bytes = header.layout.record_bytes().filter(|_| header.compression == Compression::None);
        let format = format.of_pages(record_bytes, body_bytes);
        let format = format.of_stream(footer.stream_bytes, footer.pairs, body_bytes);
        Ok(DictionaryFile { path: path.to_owned(), header, footer, hash, pages, index, ranks, filter, file, format })
    }

    /// Whether `path` still names this file.
    pub fn is_at(&self, path: &Path) -> Result<bool> {
        self.file.is_at(path).map_err(|e| Error::io(path, "ask for the identity of", e))
    }

    /// Whether both were opened from the same file, judged by their contents.
    pub fn is_same(&self, other: &DictionaryFile) -> bool {
        self.footer == other.footer && self.header.hash_check == other.header.hash_check
    }

    /// Looks up `key` and passes its value to `wanted`. Returns whether the key is present.
    pub fn find(&self, key: &[u8], wanted: &mut Wanted<'_>) -> Result<bool> {
        if self.has_no_key_of(key.len()) {
            return Ok(false);
        }
        let position = self.position(key);
        if !self.may_have(position) {
            return Ok(false);
        }
        self.find_at(position, key, wanted)
    }

    /// [`find`](Self::find) after the filter. A separate function, as most absent keys do not get here.
    #[inline(never)]
    fn find_at(&self, position: u64, key: &[u8], wanted: &mut Wanted<'_>) -> Result<bool> {
        let candidates = self.index.candidates(position);
        let sought = self.sought(candidates, Query { key, position, hash: &self.hash, expected: None })?;
        self.give(&sought, self.find_in_place(&sought), wanted)
    }

    /// Whether no key has this length. Then nothing needs to be read.
    #[inline]
    pub fn has_no_key_of(&self, len: usize) -> bool {
        let (shortest, longest) = self.footer.key_len;
        len < shortest as usize || len > longest as usize
    }

    #[inline]
    pub fn position(&self, key: &[u8]) -> u64 {
        linear::Position::of(self.hash.hash_inlined(key)).0
    }

    /// Whether the filter allows that `position` is present; always true without a filter.
    #[inline]
    pub fn may_have(&self, position: u64) -> bool {
        self.filter.as_ref().is_none_or(|(filter, words)| filter.may_have(words.get(), position))
    }

    /// The pages and bytes in which to search, according to the index.
    #[inline]
    pub fn sought<'k>(&self, candidates: Candidates, mut query: Query<'k>) -> Result<Sought<'k>> {
        let bytes = self.format.record_bytes;
        let (pages, at) = match candidates {
            Candidates::Pages(located) => {
                query.expected = Some(located.expected);
                let pages = self.within(located.pages);
                let at = if bytes > 0 && self.pages.can_be_ready(&pages) {
                    At::Spot(self.format.spot(located.expected, self.stream_of(&pages)))
                } else {
                    At::Anywhere
                };
                (pages, at)
            }
            Candidates::Ranks(ranks) if bytes > 0 => {
                let ranks = ranks.start.min(self.footer.pairs)..ranks.end.min(self.footer.pairs);
                let named = ranks.start.min(ranks.end) * bytes..ranks.end * bytes;
                (self.within(self.pages_of_ranks(ranks)), At::Bytes(named))
            }
            candidates => {
                let pages = match self.pages_of(candidates) {
                    Some(pages) => pages,
                    None => self.pages.of_stream(self.narrow(query)?),
                };
                (pages, At::Anywhere)
            }
        };
        Ok(Sought { pages, at, query })
    }

    /// Searches pages that are ready.
    #[inline]
    pub fn find_in_place(&self, sought: &Sought<'_>) -> InPlace {
        if self.format.compression != Compression::None {
            return InPlace::Elsewhere;
        }
        in_place::find(&self.pages, &self.format, &sought.pages, &sought.at, &sought.query)
    }

    /// Improves the expected location of the record with the position of the record found there, and prefetches the
    /// records around the new location into the processor's cache.
    #[inline]
    pub fn approach(&self, sought: &mut Sought<'_>) {
        if let At::Spot(spot) = &mut sought.at {
            in_place::approach(&self.pages, &self.format, &sought.pages, spot, &sought.query);
        }
    }

    /// Prefetches what a lookup accesses first into the processor's cache. Does nothing if pages are not mapped.
    #[inline]
    pub fn touch(&self, sought: &Sought<'_>) {
        let Sought { pages, at, query } = sought;
        let bytes = self.format.record_bytes;
        match at {
            At::Bytes(named) => {
                let within = named.start.saturating_sub(pages.start * self.pages.body_bytes());
                self.pages.touch(pages.start, within..within + bytes);
            }
            At::Spot(spot) => {
                let within = u64::from(spot.first) + u64::from(spot.guess) * bytes;
                self.pages.touch(pages.start, within..within + query.key.len() as u64);
            }
            At::Anywhere => self.pages.touch_heads(pages),
        }
    }

    /// Like [`touch`](Self::touch), for what a lookup accesses next: records of varying size.
    #[inline]
    pub fn touch_records(&self, sought: &Sought<'_>) {
        if self.format.layout == Layout::Varied && self.format.compression == Compression::None {
            in_place::touch(&self.pages, &self.format, &sought.pages, &sought.query);
        }
    }

    /// Passes on what was `found` in place, or searches elsewhere.
    #[inline]
    pub fn give(&self, sought: &Sought<'_>, found: InPlace, wanted: &mut Wanted<'_>) -> Result<bool> {
        match self.give_found(sought, found, wanted) {
            Some(found) => Ok(found),
            None => self.find_elsewhere(sought, wanted),
        }
    }

    #[inline]
    fn give_found(&self, sought: &Sought<'_>, found: InPlace, wanted: &mut Wanted<'_>) -> Option<bool> {
        match (found, wanted) {
            (InPlace::Elsewhere, _) => None,
            (InPlace::Absent, _) => Some(false),
            (InPlace::Value(..), Wanted::Presence) => Some(true),
            (InPlace::Value(place, bytes), Wanted::Value(to)) => {
                to.clear();
                self.pages.mapped(&sought.pages)?.append(place, bytes, to).map(|()| true)
            }
            (InPlace::Value(place, bytes), Wanted::Copy(to, len)) => {
                let copied = to.len().min(bytes as usize); // it is mapped
                **len = bytes as usize;
                self.pages.mapped(&sought.pages)?.copy(place, &mut to[..copied]).map(|()| true)
            }
        }
    }

    /// Searches pages that are not ready, and those that cannot be searched in place.
    fn find_elsewhere(&self, sought: &Sought<'_>, wanted: &mut Wanted<'_>) -> Result<bool> {
        let Sought { pages, at, query } = sought;
        if pages.end - pages.start > PAGES_AT_ONCE_MAX {
            return self.find_in_stream(&self.stream_of(pages), *query, wanted);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            if self.format.compression == Compression::None
                && self.pages.get_ready(pages, scratch)?
                && let Some(found) = self.give_found(sought, self.find_in_place(sought), wanted)
            {
                return Ok(found);
            }
            // Taken out so that the piece can borrow the rest of `scratch`.
            let mut raw = std::mem::take(&mut scratch.raw);
            let mut piece = self.pages.piece(pages.clone(), scratch)?;
            let in_piece = |at: u64| (at - piece.offset) as usize;
            if let At::Bytes(named) = at {
                piece.records = Some((in_piece(named.start), in_piece(named.end)));
            }
            let found = search::find(self.format, piece, *query, &mut raw);
            let found = found.map(|value| value.map(|value| wanted.give(value)).is_some());
            let found = found.map_err(|what| self.pages.damaged(pages.start, what));
            scratch.raw = raw;
            scratch.shrink();
            found
        })
    }

    /// The value of the record that begins at the start of `range` of the stream, if it has `key` and lies entirely
    /// within `range`. The key is read first, as the value may be long.
    fn value_at<'s>(&self, stream: &'s mut Stream<'_>, range: Range<u64>, key: &[u8]) -> Result<Option<&'s [u8]>> {
        let bytes = stream.some(range.start, record::HEAD_BYTES_MAX as u64)?;
        let Some((head, key_len, value_len)) = record::lengths(self.header.layout, bytes) else { return Ok(None) };
        let key_at = range.start + head as u64;
        let value_at = key_at + key_len as u64;
        let end = value_at + value_len as u64;
        if key_len != key.len() || end > range.end || stream.bytes(key_at..value_at)? != key {
            return Ok(None);
        }
        stream.bytes(value_at..end).map(Some)
    }

    /// The pages to read; `None` if there is no index to tell.
    pub(super) fn pages_of(&self, candidates: Candidates) -> Option<Range<u64>> {
        let pages = match candidates {
            Candidates::Pages(located) => located.pages,
            Candidates::Ranks(ranks) => self.pages_of_ranks(ranks),
            Candidates::Anywhere => return None,
        };
        Some(self.within(pages))
    }

    /// The pages of `pages` that exist. The index is not trusted.
    #[inline]
    fn within(&self, pages: Range<u64>) -> Range<u64> {
        let end = pages.end.min(self.pages.count());
        pages.start.min(end)..end
    }

    /// Whether the index leads a lookup of `position` to the record of rank `rank`, whose cell is `cell` in the stream.
    pub fn leads_to(&self, position: u64, rank: u64, cell: &Range<u64>) -> bool {
        self.ranks_led_to(position, cell).contains(&rank)
    }

    /// The ranks for which the index leads a lookup of `position` to the record whose cell is `cell` in the stream.
    pub fn ranks_led_to(&self, position: u64, cell: &Range<u64>) -> Range<u64> {
        let candidates = self.index.candidates(position);
        let ranks = if let Candidates::Ranks(ranks) = &candidates { ranks.clone() } else { 0..u64::MAX };
        let needed = self.pages.of_stream(cell.clone());
        let led = self.pages_of(candidates).is_none_or(|pages| pages.start <= needed.start && needed.end <= pages.end);
        if led { ranks } else { 0..0 }
    }

    /// The size of all records in the stream, if they have the same size.
    pub fn record_bytes(&self) -> Option<u64> {
        if self.format.compression == Compression::None { self.header.layout.record_bytes() } else { None }
    }

    pub fn pages_of_ranks(&self, ranks: Range<u64>) -> Range<u64> {
        let ranks = ranks.start.min(self.footer.pairs)..ranks.end.min(self.footer.pairs);
        if ranks.start >= ranks.end {
            return 0..0;
        }
        if let Some(bytes) = self.record_bytes() {
            // No overflow: all of them are in the file (Footer::check).
            return self.pages.of_stream(ranks.start * bytes..ranks.end * bytes);
        }
        let Some((index, words)) = &self.ranks else { return 0..self.pages.count() };
        let first = index.pages_of(words.get(), ranks.start);
        if ranks.end - ranks.start == 1 {
            return first;
        }
        first.start..index.pages_of(words.get(), ranks.end - 1).end
    }

    pub(super) fn stream_of(&self, pages: &Range<u64>) -> Range<u64> {
        let body = self.pages.body_bytes();
        pages.start * body..(pages.end * body).min(self.pages.stream_bytes())
    }

    /// Examines the cells that begin in `range` of the stream one by one: for cells of many pages.
    fn find_in_stream(&self, range: &Range<u64>, query: Query<'_>, wanted: &mut Wanted<'_>) -> Result<bool> {
        let mut scratch = Scratch::default();
        let Some(mut at) = self.first_cell(range, &mut scratch)? else { return Ok(false) };
        let mut stream = Stream::new(&self.pages, self.pages.body_bytes());
        while at < range.end {
            let cell = self.cell(&mut stream, at)?;
            let found = match cell.kind {
                CellKind::Record { .. } => self.value_at(&mut stream, at..at + cell.bytes, query.key)?,
                CellKind::Block(block) if self.format.ordered && block.position > query.position => return Ok(false),
                // A long record with another position, which is skipped without reading it.
                CellKind::Block(block) if block.records == 1 && block.position != query.position => None,
                CellKind::Block(_) => {
                    let bytes = stream.bytes(at..at + cell.bytes)?;
                    let piece = Piece { offset: at, bytes, starts: &[0], records: None };
                    let found = search::find(self.format, piece, query, &mut scratch.raw);
                    found.map_err(|what| self.damaged_at(at, what))?
                }
            };
            if let Some(value) = found {
                wanted.give(value);
                return Ok(true);
            }
            at += cell.bytes;
        }
        Ok(false)
    }

    /// Where the first cell that begins in `range` of the stream begins.
    pub fn first_cell(&self, range: &Range<u64>, scratch: &mut Scratch) -> Result<Option<u64>> {
        if let Some(bytes) = self.record_bytes() {
            return Ok(Some(range.start.next_multiple_of(bytes)).filter(|at| at + bytes <= range.end));
        }
        for page in self.pages.of_stream(range.clone()) {
            let piece = self.pages.piece(page..page + 1, scratch)?;
            let starts = piece.starts.iter().map(|start| piece.offset + *start as u64);
            if let Some(start) = starts.clone().find(|start| *start >= range.start) {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// The cell that begins at `at` in the stream.
    pub fn cell(&self, stream: &mut Stream<'_>, at: u64) -> Result<Cell> {
        let bytes = stream.some(at, block::HEAD_BYTES.max(record::HEAD_BYTES_MAX) as u64)?;
        let cell = if self.format.compression == Compression::None {
            record::lengths(self.header.layout, bytes).map(|(head, key_len, value_len)| Cell {
                kind: CellKind::Record { head: head as u64, key_len: key_len as u64 },
                bytes: (head + key_len + value_len) as u64,
            })
        } else {
            let head = BlockHead::parse(bytes).transpose().map_err(|what| self.damaged_at(at, what))?;
            head.map(|head| Cell { bytes: head.cell_bytes(), kind: CellKind::Block(head) })
        };
        let cell = cell.ok_or_else(|| self.damaged_at(at, "the lengths of a record cannot be read"))?;
        if cell.bytes > self.pages.stream_bytes() - at {
            return Err(self.damaged_at(at, "a record or block reaches beyond the data"));
        }
        Ok(cell)
    }

    #[cold]
    pub fn damaged_at(&self, at: u64, what: &str) -> Error {
        self.pages.damaged(at / self.pages.body_bytes(), what)
    }

    /// Without an index: the part of the stream that can hold the record, found by interpolation between the first
    /// positions of pages. It starts with a cell.
    pub fn narrow(&self, query: Query<'_>) -> Result<Range<u64>> {
        let mut range = 0..self.pages.stream_bytes();
        let count = self.pages.count();
        if !self.format.ordered || count == 0 {
            return Ok(range);
        }
        let mut stream = Stream::new(&self.pages, 0);
        let mut scratch = Scratch::default();
        // Page 0 is assumed to begin before the record.
        let gap = (u64::MAX / count).max(1);
        let mut search = Interpolation::new(1..count, query.position / gap, gap, 0);
        while !search.range().is_empty() {
            let Some(at) = self.cell_near(search.next(), &mut scratch)? else {
                search.saw_none();
                continue;
            };
            let position = self.cell_position(&mut stream, at)?;
            search.saw(position, query.position);
            // Records of equal position may be before and after it.
            if position < query.position {
                range.start = range.start.max(at);
            } else if position > query.position {
                range.end = range.end.min(at);
            }
        }
        Ok(range)
    }

    /// The start of a cell near the start of page `page`, if one begins there.
    fn cell_near(&self, page: u64, scratch: &mut Scratch) -> Result<Option<u64>> {
        if let Some(bytes) = self.record_bytes() {
            let at = (page * self.pages.body_bytes()).next_multiple_of(bytes);
            return Ok((at < self.pages.stream_bytes()).then_some(at));
        }
        self.pages.cell_near(page, scratch).map(Some)
    }

    fn cell_position(&self, stream: &mut Stream<'_>, at: u64) -> Result<u64> {
        let cell = self.cell(stream, at)?;
        Ok(match cell.kind {
            CellKind::Block(head) => head.position,
            CellKind::Record { head, key_len } => self.position(stream.bytes(at + head..at + head + key_len)?),
        })
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

    /// Prefetches what [`may_have`](Self::may_have) will read into the processor's cache.
    #[inline]
    pub fn touch_filter(&self, position: u64) {
        let Some((filter, words)) = &self.filter else { return };
        let words = words.get();
        let mut sum = 0;
        filter.places(position, |place| sum |= words.get(place).copied().unwrap_or_default());
        std::hint::black_box(sum);
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

/// A cell of the stream.
pub(crate) struct Cell {
    pub kind: CellKind,
    /// The length of the cell, including lengths or head.
    pub bytes: u64,
}

pub(crate) enum CellKind {
    Record { head: u64, key_len: u64 },
    Block(BlockHead),
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
