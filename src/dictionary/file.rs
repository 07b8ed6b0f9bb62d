//! One dictionary file, open for reading: header, footer and index in memory, data read as it is asked for.
//!
//! ```text
//! get(key)   hash -> position -> index (pages, or ranks and from them pages) -> one read -> search -> value
//! ```
//!
//! Nothing here changes after the open, so any number of threads use one without waiting for each other.
//! Not here: the search within what was read (`search.rs`), many files as one (`shards.rs`).

use super::format::{
    BUILD_AGAIN, Compression, FOOTER_BYTES, Footer, HEADER_BYTES, Header, Layout, Order, Section, SectionKind,
};
use super::index::page::PageIndex;
use super::index::{self, Loaded, Place, Words};
use super::read::{Pages, Scratch, Stream};
use super::search::{self, Found, Near, Shape, Sought};
use super::{block, record};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::HashFunction;
use crate::io::{File, Mode, Storage, View};
use crate::linear;
use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A lookup that would read more pages than this goes through them piece by piece instead.
const PAGES_AT_ONCE_MAX: u64 = 64;

/// How a dictionary is read.
#[derive(Clone, Default)]
pub(super) struct Access {
    /// Data from a mapping instead of by `pread`.
    pub map_data: bool,
    /// The index from a mapping instead of loaded.
    pub map_index: bool,
    /// The function of a dictionary that was built with the user's own.
    pub hash: Option<HashFunction>,
}

pub(super) struct DictionaryFile {
    pub path: PathBuf,
    pub header: Header,
    pub footer: Footer,
    pub hash: HashFunction,
    pub pages: Pages,
    pub index: Loaded,
    /// From ranks to pages, where records have no one size.
    ranks: Option<(PageIndex, Words)>,
    file: Arc<dyn File>,
    pub shape: Shape,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl DictionaryFile {
    pub fn open(storage: &dyn Storage, path: &Path, access: &Access) -> Result<DictionaryFile> {
        let failed = |what: &'static str| move |e| Error::io(path, what, e);
        let file: Arc<dyn File> = storage.open(path, Mode::Read).map_err(failed("open"))?.into();
        let file_bytes = file.len().map_err(failed("read the length"))?;
        let header = Header::read(path, file.as_ref(), file_bytes)?;
        Self::with_header(path, file, header, access)
    }

    /// The file at `path` as one with this header, which may not be written yet.
    pub fn with_header(path: &Path, file: Arc<dyn File>, header: Header, access: &Access) -> Result<DictionaryFile> {
        let failed = |what: &'static str| move |e| Error::io(path, what, e);
        let file_bytes = file.len().map_err(failed("read the length"))?;
        let hash = header.hash(path, access.hash.as_ref())?;
        let mut end = [0; FOOTER_BYTES];
        let footer_at = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|at| *at >= HEADER_BYTES as u64);
        let footer_at = footer_at.ok_or_else(|| cut(path))?;
        file.read_at(&mut end, footer_at).map_err(failed("read the footer"))?;
        let footer = Footer::parse(path, &end, &header, file_bytes)?;
        let view = if access.map_data || access.map_index { map(path, file.as_ref(), file_bytes)? } else { None };
        let sections = Sections { path, file: file.as_ref(), view: view.clone().filter(|_| access.map_index) };
        let (index, ranks) = sections.indexes(&header, &footer)?;
        let view = view.filter(|_| access.map_data);
        let pages = Pages::new(path, Arc::clone(&file), view, &header, &footer)?;
        // The record that brings a block to its bytes may be the longest.
        let (longest_key, longest_value) = (u64::from(footer.key_len.1), u64::from(footer.value_len.1));
        let shape = Shape {
            layout: header.layout,
            compression: header.compression,
            ordered: header.order == Order::Hash,
            block_bytes_max: u64::from(header.block_bytes)
                + longest_key
                + longest_value
                + record::HEAD_BYTES_MAX as u64,
        };
        Ok(DictionaryFile { path: path.to_owned(), header, footer, hash, pages, index, ranks, file, shape })
    }

    /// Is it what `path` names now?
    pub fn is_at(&self, path: &Path) -> Result<bool> {
        self.file.is_at(path).map_err(|e| Error::io(path, "look whether it is the same file", e))
    }

    /// Was it opened from the same file, as far as its content tells?
    pub fn is_same(&self, other: &DictionaryFile) -> bool {
        self.footer == other.footer && self.header.hash_check == other.header.hash_check
    }

    /// Calls `give` with the value of `key`, if there is one.
    pub fn find<T>(&self, key: &[u8], give: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        if self.has_no_key_of(key.len()) {
            return Ok(None);
        }
        let position = self.position(key);
        let place = self.index.place(position);
        let near = self.near_of(&place);
        self.find_at(key, position, place, near, give)
    }

    /// Are all keys of another length? Then nothing needs to be read.
    pub fn has_no_key_of(&self, len: usize) -> bool {
        let (shortest, longest) = self.footer.key_len;
        len < shortest as usize || len > longest as usize
    }

    pub fn position(&self, key: &[u8]) -> u64 {
        linear::Position::of(self.hash.hash(key)).0
    }

    /// The same when the place is known.
    pub fn find_at<T>(
        &self,
        key: &[u8],
        position: u64,
        place: Place,
        near: Option<Near>,
        give: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let sought = Sought { key, position, hash: &self.hash, near };
        let records = match (&place, self.record_bytes()) {
            (Place::Ranks(ranks), Some(bytes)) => {
                let end = ranks.end.min(self.footer.pairs);
                Some(ranks.start.min(end) * bytes..end * bytes)
            }
            _ => None,
        };
        let pages = match self.pages_of(place) {
            Some(pages) if pages.end - pages.start <= PAGES_AT_ONCE_MAX => pages,
            Some(pages) => return Ok(self.find_piecemeal(&self.stream_of(&pages), sought)?.map(|value| give(&value))),
            None => {
                let range = self.narrow(sought)?;
                return Ok(self.find_piecemeal(&range, sought)?.map(|value| give(&value)));
            }
        };
        if self.pages.is_viewed() && self.shape.layout == Layout::Varied && self.shape.compression == Compression::None
        {
            return self.find_viewed(pages, sought, give);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            // Taken out, so that the piece can borrow the rest.
            let mut raw = std::mem::take(&mut scratch.raw);
            let mut piece = self.pages.piece(pages.clone(), scratch)?;
            piece.records =
                records.map(|records| ((records.start - piece.offset) as usize, (records.end - piece.offset) as usize));
            let found = search::find(self.shape, piece, sought, &mut raw);
            let found = found.map(|value| value.map(give)).map_err(|what| self.pages.wrong(pages.start, what));
            scratch.raw = raw;
            scratch.shrink();
            found
        })
    }

    /// The value of what is sought among varied records in a mapping: page by page, so that nothing is copied but a record that lies
    /// across pages.
    fn find_viewed<T>(
        &self,
        pages: Range<u64>,
        sought: Sought<'_>,
        give: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let end = self.stream_of(&pages).end;
        SCRATCH.with_borrow_mut(|scratch| {
            for page in pages {
                let piece = self.pages.piece(page..page + 1, scratch)?;
                let at = match search::find_varied(self.shape, piece, sought) {
                    Found::Value(value) => return Ok(Some(give(value))),
                    Found::Cut(at) => piece.offset + at as u64,
                    Found::NotYet => continue,
                    Found::Nowhere => return Ok(None),
                };
                let copied = self.copy_cut(at..end, sought.key, &mut scratch.raw);
                if !matches!(copied, Ok(false)) {
                    let record = copied.map(|_| record::parse(Layout::Varied, &scratch.raw));
                    let given = record.map(|record| record.map(|record| give(record.value)));
                    scratch.shrink();
                    return given;
                }
                scratch.shrink();
            }
            Ok(None)
        })
    }

    /// Copies the record that begins at the start of `range` of the stream, if it has `key` and lies wholly within: only then can it
    /// be what the index led to. Its key first, as its value may be long.
    fn copy_cut(&self, range: Range<u64>, key: &[u8], copy: &mut Vec<u8>) -> Result<bool> {
        let at = range.start;
        self.pages.copy(at..range.end.min(at + record::HEAD_BYTES_MAX as u64), copy)?;
        let Some((head, key_len, value_len)) = record::lengths(Layout::Varied, copy) else { return Ok(false) };
        let bytes = (head + key_len + value_len) as u64;
        if key_len != key.len() || bytes > range.end - at {
            return Ok(false);
        }
        self.pages.copy(at..at + (head + key_len) as u64, copy)?;
        if copy[head..] != *key {
            return Ok(false);
        }
        self.pages.copy(at..at + bytes, copy)?;
        Ok(true)
    }

    /// How positions ascend in the one page of `place`, if it pays to know: what was read by `pread` is in the processor's cache, but
    /// from a mapping each look may be a wait, and a good guess saves some.
    pub fn near_of(&self, place: &Place) -> Option<Near> {
        let Place::Pages(pages) = place else { return None };
        if !self.pages.is_viewed() || self.record_bytes().is_none() || pages.start + 1 != pages.end {
            return None;
        }
        let first = self.index.position_near(pages.start)?;
        Some(Near { first, gap: u64::MAX / self.footer.pairs.max(1) })
    }

    /// Which pages to read; `None` if the index does not know.
    fn pages_of(&self, place: Place) -> Option<Range<u64>> {
        let pages = match place {
            Place::Pages(pages) => pages,
            Place::Ranks(ranks) => self.pages_of_ranks(ranks),
            Place::Unknown => return None,
        };
        // What an index says is not trusted.
        let end = pages.end.min(self.pages.count());
        Some(pages.start.min(end)..end)
    }

    /// Does the index lead a lookup of `position` to the record of rank `rank`, whose unit is `unit` of the stream?
    pub fn leads_to(&self, position: u64, rank: u64, unit: &Range<u64>) -> bool {
        let place = self.index.place(position);
        if let Place::Ranks(ranks) = &place
            && !ranks.contains(&rank)
        {
            return false;
        }
        let needed = self.pages.of_stream(unit.clone());
        self.pages_of(place).is_none_or(|pages| pages.start <= needed.start && needed.end <= pages.end)
    }

    /// The size of all records in the stream, if they have one.
    pub fn record_bytes(&self) -> Option<u64> {
        if self.shape.compression == Compression::None { self.header.layout.record_bytes() } else { None }
    }

    fn pages_of_ranks(&self, ranks: Range<u64>) -> Range<u64> {
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

    fn stream_of(&self, pages: &Range<u64>) -> Range<u64> {
        let body = self.pages.body_bytes();
        pages.start * body..(pages.end * body).min(self.pages.stream_bytes())
    }

    /// Looks at the units that begin in `range` of the stream one by one: for units of many pages, and without an index.
    fn find_piecemeal(&self, range: &Range<u64>, sought: Sought<'_>) -> Result<Option<Vec<u8>>> {
        let mut scratch = Scratch::default();
        let Some(mut at) = self.first_unit(range, &mut scratch)? else { return Ok(None) };
        let mut stream = Stream::new(&self.pages, self.pages.body_bytes());
        while at < range.end {
            let unit = self.unit(&mut stream, at)?;
            let ordered = self.shape.ordered;
            match unit.kind {
                UnitKind::Record { head, key_len, value_len } => {
                    let key_end = at + head + key_len;
                    if key_len == sought.key.len() as u64 && stream.bytes(at + head..key_end)? == sought.key {
                        return Ok(Some(stream.bytes(key_end..key_end + value_len)?.to_vec()));
                    }
                }
                UnitKind::Block(block) if ordered && block.position > sought.position => return Ok(None),
                UnitKind::Block(_) => {
                    let bytes = stream.bytes(at..at + unit.bytes)?;
                    let piece = super::read::Piece { offset: at, bytes, starts: &[0], records: None };
                    let found = search::find(self.shape, piece, sought, &mut scratch.raw);
                    let found = found.map_err(|what| self.pages.wrong(at / self.pages.body_bytes(), what))?;
                    if let Some(value) = found {
                        return Ok(Some(value.to_vec()));
                    }
                }
            }
            at += unit.bytes;
        }
        Ok(None)
    }

    /// Where the first unit begins that does so in `range` of the stream.
    fn first_unit(&self, range: &Range<u64>, scratch: &mut Scratch) -> Result<Option<u64>> {
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

    /// The unit that begins at `at` in the stream.
    pub fn unit(&self, stream: &mut Stream<'_>, at: u64) -> Result<Unit> {
        let bytes = stream.some(at, block::HEAD_BYTES.max(record::HEAD_BYTES_MAX) as u64)?;
        let kind = if self.shape.compression == Compression::None {
            record::lengths(self.header.layout, bytes).map(|(head, key_len, value_len)| UnitKind::Record {
                head: head as u64,
                key_len: key_len as u64,
                value_len: value_len as u64,
            })
        } else {
            let head = block::Head::parse(bytes).transpose().map_err(|what| self.wrong_at(at, what))?;
            head.map(UnitKind::Block)
        };
        let kind = kind.ok_or_else(|| self.wrong_at(at, "a record's lengths cannot be read"))?;
        let bytes = match &kind {
            UnitKind::Record { head, key_len, value_len } => head + key_len + value_len,
            UnitKind::Block(head) => head.unit_bytes(),
        };
        if bytes > self.pages.stream_bytes() - at {
            return Err(self.wrong_at(at, "a record or block reaches beyond the data"));
        }
        Ok(Unit { kind, bytes })
    }

    #[cold]
    pub fn wrong_at(&self, at: u64, what: &str) -> Error {
        self.pages.wrong(at / self.pages.body_bytes(), what)
    }

    /// Without an index: the part of the stream that can hold what is sought, by interpolation between the pages' first hashes.
    fn narrow(&self, sought: Sought<'_>) -> Result<Range<u64>> {
        let whole = 0..self.pages.stream_bytes();
        if !self.shape.ordered || self.pages.count() == 0 {
            return Ok(whole);
        }
        let mut stream = Stream::new(&self.pages, 0);
        let mut scratch = Scratch::default();
        // The unit near page `low` is before what is sought, the one near page `high` is not; pages 0 and `count` are taken to be so.
        let (mut low, mut high) = (0, self.pages.count());
        let (mut low_position, mut high_position) = (0, u64::MAX);
        let mut from = whole.start;
        let mut to = whole.end;
        let mut guesses = 0;
        while high - low > 1 {
            let middle = if guesses < INTERPOLATIONS_MAX {
                let share = u128::from(sought.position.saturating_sub(low_position)) * u128::from(high - low);
                low + (share / u128::from((high_position - low_position).max(1))) as u64
            } else {
                low + (high - low) / 2
            };
            let middle = middle.clamp(low + 1, high - 1);
            guesses += 1;
            let Some(at) = self.near(middle, &mut scratch)? else {
                high = middle;
                continue;
            };
            let position = self.unit_position(&mut stream, at)?;
            if position < sought.position {
                (low, low_position) = (middle, position);
                from = from.max(at);
            } else {
                // What is equal may have begun before, and may go on.
                (high, high_position) = (middle, position);
                if position > sought.position {
                    to = to.min(at);
                }
            }
        }
        Ok(from..to)
    }

    /// Where a unit begins near the start of page `page`, if one does.
    fn near(&self, page: u64, scratch: &mut Scratch) -> Result<Option<u64>> {
        if let Some(bytes) = self.record_bytes() {
            let body = self.pages.body_bytes();
            let at = (page * body).next_multiple_of(bytes);
            return Ok((at < self.pages.stream_bytes()).then_some(at));
        }
        self.pages.unit_near(page, scratch).map(Some)
    }

    fn unit_position(&self, stream: &mut Stream<'_>, at: u64) -> Result<u64> {
        let unit = self.unit(stream, at)?;
        Ok(match unit.kind {
            UnitKind::Block(head) => head.position,
            UnitKind::Record { head, key_len, .. } => self.position(stream.bytes(at + head..at + head + key_len)?),
        })
    }

    /// What is wrong with the indexes by themselves.
    pub fn check_indexes(&self) -> std::result::Result<(), String> {
        self.index.check()?;
        self.ranks.as_ref().map_or(Ok(()), |(index, words)| index.check(words.get()))
    }

    pub fn ranks_bytes(&self) -> u64 {
        self.ranks.as_ref().map_or(0, |(_, words)| words.bytes())
    }

    pub fn file_bytes(&self) -> Result<u64> {
        self.file.len().map_err(|e| Error::io(&self.path, "read the length", e))
    }
}

/// Guesses by proportion before halves are taken, so that no hash function makes it slow.
const INTERPOLATIONS_MAX: u32 = 8;

/// A unit of the stream.
pub(super) struct Unit {
    pub kind: UnitKind,
    /// All of it, lengths or head included.
    pub bytes: u64,
}

pub(super) enum UnitKind {
    Record { head: u64, key_len: u64, value_len: u64 },
    Block(block::Head),
}

fn cut(path: &Path) -> Error {
    Error::corrupt(format!(
        "{}: too short to be a dictionary: it was cut, or never finished. {BUILD_AGAIN}.",
        path.display()
    ))
}

fn map(path: &Path, file: &dyn File, file_bytes: u64) -> Result<Option<Arc<dyn View>>> {
    let view = file.view().map_err(|e| Error::io(path, "map", e))?;
    match view {
        Some(view) if view.bytes().len() as u64 == file_bytes => Ok(Some(view.into())),
        Some(_) => Err(Error::corrupt(format!("{}: the file changed while it was opened", path.display()))),
        None => Ok(None),
    }
}

/// The sections of a file, to be opened.
struct Sections<'s> {
    path: &'s Path,
    file: &'s dyn File,
    view: Option<Arc<dyn View>>,
}

type Ranks = Option<(PageIndex, Words)>;

impl Sections<'_> {
    fn indexes(&self, header: &Header, footer: &Footer) -> Result<(Loaded, Ranks)> {
        let mut index = Loaded::None;
        let mut ranks = None;
        for section in &footer.sections {
            let words = self.words(section)?;
            let opened = if section.kind == SectionKind::Ranks {
                index::open_pages(&words, footer.pages).map(|opened| ranks = Some((opened, words)))
            } else {
                Loaded::open(section.kind, words, header.order, footer.pairs, footer.pages).map(|opened| index = opened)
            };
            opened.map_err(|what| {
                Error::corrupt(format!(
                    "{}: {what}. Run `splitpoint dict reindex`, or restore it.",
                    self.path.display()
                ))
            })?;
        }
        Ok((index, ranks))
    }

    fn words(&self, section: &Section) -> Result<Words> {
        if let Some(view) = &self.view
            && cfg!(target_endian = "little")
        {
            let from = usize::try_from(section.offset).expect("a view has all bytes");
            let bytes = from..from + usize::try_from(section.bytes).expect("a view has all bytes");
            self.compare(section, crc32c::crc32c(&view.bytes()[bytes.clone()]))?;
            return Ok(Words::Viewed { view: Arc::clone(view), bytes });
        }
        self.load(section).map(Words::Loaded)
    }

    fn load(&self, section: &Section) -> Result<Vec<u64>> {
        let len = usize::try_from(section.bytes / 8).map_err(|_| self.too_large())?;
        let mut words = Vec::new();
        // The file has these bytes (Footer::check), so it is no larger than that.
        words.try_reserve_exact(len).map_err(|_| self.too_large())?;
        words.resize(len, 0u64);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        self.file.read_at(bytes, section.offset).map_err(|e| Error::io(self.path, "read the index", e))?;
        self.compare(section, crc32c::crc32c(bytes))?;
        for word in &mut words {
            *word = u64::from_le(*word);
        }
        Ok(words)
    }

    fn compare(&self, section: &Section, computed: u32) -> Result<()> {
        if section.checksum == computed {
            return Ok(());
        }
        let (name, stored) = (self.path.display(), section.checksum);
        Err(Error::corrupt(format!(
            "{name}: index at byte {}: checksum {stored:08x} is stored, {computed:08x} computed. Run `splitpoint dict reindex`, or restore it.",
            section.offset
        )))
    }

    fn too_large(&self) -> Error {
        let name = self.path.display();
        Error::new(ErrorKind::OutOfMemory, format!("{name}: no memory for the index; map it instead of loading it"))
    }
}
