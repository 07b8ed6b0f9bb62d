//! Reads data pages with `pread` or through a window, checks them, and joins them into a piece of the stream.
//!
//! With `pread` each page is compared with its checksum whenever it is read. With a window (`io/window.rs`) it is
//! compared the first time, when it is copied from the window or read with `pread`, and one bit per page in memory
//! records that. From then on lookups access the page in place. If the window fails, pages are read with `pread` again.
//! After many first reads a thread compares the remaining pages (`rest.rs`).
//!
//! [`Pages::piece`] returns several pages at once, for a lookup. [`Stream`] returns any part of the stream in order,
//! for walks over all of it.

use super::checked::Checked;
use super::page_source::{Copied, PageSource};
use super::rest::Rest;
use crate::dictionary::format::ends::{FileHeader, Footer};
use crate::dictionary::format::page;
use crate::error::{Error, Result};
use crate::io::{File, Window, has_waited};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes that a walk reads at a time.
const WALK_BYTES: u64 = 1 << 20;

/// Bytes of a value that are read at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// A walk that reads at least this many bytes at a time announces the next ones.
const ANNOUNCE_MIN: u64 = 16 << 10;
/// The most bytes announced at a time.
const ANNOUNCED_MAX: u64 = 2 << 20;

/// If copying a page waited and took longer than this, it waited for the disk.
const DISK_WAIT_MIN: Duration = Duration::from_micros(30);
/// After a first read that waited, this many first reads use calls.
const CALLS_AFTER_WAIT: u32 = 64;
/// A call that did not wait counts as several: the earlier delay may not have been the disk.
const CALLS_FOR_QUICK: u32 = 4;

/// The most pages copied out of a window at a time; more are read with one call.
const WINDOW_PAGES_MAX: u64 = 8;

/// The data pages of one file.
pub(crate) struct Pages {
    path: PathBuf,
    file: Arc<dyn File>,
    window: Option<Box<dyn Window>>,
    /// With a window: which pages have been read and compared with their checksums. Other pages are not read through
    /// it.
    checked: Checked,
    page_bytes: usize,
    head: usize,
    has_starts: bool,
    count: u64,
    stream_bytes: u64,
    reads: Counter,
    /// Counts the waits and first uses of lookups, if the file may be read and checked ahead.
    rest: Option<Rest>,
    /// The number of first reads to make with calls before the mapping is tried again.
    pub calls_left: AtomicU32,
    /// For batches of lookups: how many consecutive probes have not waited for the disk.
    pub quick_probes: AtomicU32,
}

/// A counter that threads share without sharing a cache line.
#[derive(Default)]
struct Counter {
    stripes: [Stripe; 16],
}

#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

impl Counter {
    #[inline]
    fn add_one(&self) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: usize = NEXT.fetch_add(1, Relaxed);
        }
        let stripe = STRIPE.with(|stripe| *stripe) % self.stripes.len();
        self.stripes[stripe].0.fetch_add(1, Relaxed);
    }

    fn sum(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.0.load(Relaxed)).sum()
    }
}

/// Memory that lookups reuse.
#[derive(Default)]
pub(crate) struct Scratch {
    pages: Vec<u8>,
    starts: Vec<usize>,
    pub raw: Vec<u8>,
}

/// More scratch memory than this is freed after a lookup.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Scratch {
    /// Room for this many bytes of pages. Memory from an earlier lookup is kept, so no byte is zeroed twice.
    fn at_least(&mut self, bytes: usize) -> &mut [u8] {
        if self.pages.len() < bytes {
            self.pages.resize(bytes, 0);
        }
        &mut self.pages[..bytes]
    }

    /// Frees the memory that one large record needed.
    pub fn shrink(&mut self) {
        for buffer in [&mut self.pages, &mut self.raw] {
            if buffer.capacity() > SCRATCH_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }
}

/// The stream's part in several pages.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'p> {
    /// The offset in the stream at which it begins.
    pub offset: u64,
    pub bytes: &'p [u8],
    /// The starts of some of the cells in `bytes`, ascending, including the first cell that begins there. Empty in a
    /// layout without starts.
    pub starts: &'p [usize],
}

impl Pages {
    pub fn new(
        path: &Path,
        file: Arc<dyn File>,
        window: Option<Box<dyn Window>>,
        header: &FileHeader,
        footer: &Footer,
    ) -> Self {
        let checked = if window.is_some() { Checked::none_of(footer.pages) } else { Checked::default() };
        let head = page::head_bytes(header.layout, header.compression);
        Pages {
            path: path.to_owned(),
            file,
            window,
            checked,
            page_bytes: header.page_bytes as usize,
            head,
            has_starts: head > page::CHECKSUM_BYTES,
            count: footer.pages,
            stream_bytes: footer.stream_bytes,
            reads: Counter::default(),
            rest: None,
            calls_left: AtomicU32::new(0),
            quick_probes: AtomicU32::new(u32::MAX),
        }
    }

    /// Allows the file to be read ahead once lookups have waited for many pages, and checked once many pages were
    /// compared.
    pub fn read_rest(&mut self) {
        self.rest = Some(Rest::new(Arc::clone(&self.file), self.page_bytes, self.count, self.checked.clone()));
    }

    /// Whether pages record where cells begin.
    pub fn has_starts(&self) -> bool {
        self.has_starts
    }

    /// The number of pages.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Stream bytes per page.
    pub fn body_bytes(&self) -> u64 {
        (self.page_bytes - self.head) as u64
    }

    pub fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }

    /// Whether pages are mapped.
    pub fn is_mapped(&self) -> bool {
        self.window.is_some()
    }

    /// Whether `pages` may become [ready](Self::are_ready) when they are read.
    #[inline]
    fn can_be_ready(&self, pages: &Range<u64>) -> bool {
        self.is_mapped() && pages.end - pages.start <= WINDOW_PAGES_MAX
    }

    /// Whether `pages` can be accessed through the window: they are few, and their checksums have been compared.
    #[inline]
    pub fn are_ready(&self, pages: &Range<u64>) -> bool {
        self.can_be_ready(pages) && pages.clone().all(|page| self.checked.has(page))
    }

    /// `pages` in the window, for accesses to those that are ready.
    #[inline]
    pub fn mapped(&self, pages: &Range<u64>) -> Option<PageSource<'_, dyn Window>> {
        Some(self.source(self.window.as_deref()?, pages))
    }

    /// `pages` in `window`, which has at least these.
    #[inline]
    pub fn source<'s, W: Window + ?Sized>(&self, window: &'s W, pages: &Range<u64>) -> PageSource<'s, W> {
        let end = (pages.end * self.body_bytes()).min(self.stream_bytes);
        PageSource { window, page_bytes: self.page_bytes as u64, head: self.head as u64, end }
    }

    /// Reads `pages` with one call and checks them.
    pub fn read<'s>(&self, pages: &Range<u64>, scratch: &'s mut Scratch) -> Result<Copied<'s>> {
        let bytes = scratch.at_least((pages.end - pages.start) as usize * self.page_bytes);
        self.read_pages(pages, bytes)?;
        Ok(Copied::pages(bytes, (pages.start as usize + 1) * self.page_bytes))
    }

    /// Makes `pages` ready for access through the window, if they are mapped and few. Returns whether they are ready.
    /// Pages that are on disk are not made ready: they are read anyway.
    #[inline]
    pub fn get_ready(&self, pages: &Range<u64>, scratch: &mut Scratch) -> Result<bool> {
        if !self.can_be_ready(pages) {
            return Ok(false);
        }
        if self.are_ready(pages) { Ok(true) } else { self.read_ready(pages, scratch) }
    }

    /// A page in the system's cache is copied out of the mapping. A page that is not is faster to read with a call,
    /// which requests neighbouring pages from the disk at the same time. It cannot be known which it is, so after a
    /// copy that took long, the next first reads use calls.
    #[cold]
    fn read_ready(&self, pages: &Range<u64>, scratch: &mut Scratch) -> Result<bool> {
        if self.calls_left.load(Relaxed) > 0 {
            self.count_calls(1);
            return Ok(false);
        }
        scratch.at_least(self.page_bytes);
        let start = Instant::now();
        let mut compared = 0;
        for page in pages.clone().filter(|page| !self.checked.has(*page)) {
            let bytes = &mut scratch.pages[..self.page_bytes];
            if !self.copy_pages(&(page..page + 1), bytes) {
                return Ok(false);
            }
            page::check(&self.path, page + 1, bytes)?;
            self.checked.add(page);
            compared += 1;
        }
        if has_waited(start, DISK_WAIT_MIN) {
            self.calls_left.store(CALLS_AFTER_WAIT, Relaxed);
            self.note_waits(pages.end - pages.start);
        } else {
            self.note_compared(compared);
        }
        Ok(true)
    }

    fn count_calls(&self, calls: u32) {
        self.calls_left.store(self.calls_left.load(Relaxed).saturating_sub(calls), Relaxed);
    }

    /// Counts pages that a lookup waited for.
    pub fn note_waits(&self, pages: u64) {
        if let Some(rest) = &self.rest {
            rest.note_waits(pages);
        }
    }

    /// Counts pages that a lookup compared with their checksums without waiting.
    fn note_compared(&self, pages: u64) {
        if let Some(rest) = &self.rest {
            rest.note_compared(pages);
        }
    }

    /// The number of pages of a mapped file that have been compared with their checksums.
    #[cfg(test)]
    pub fn checked_count(&self) -> u64 {
        self.checked.count()
    }

    /// The number of calls that have read the file.
    pub fn reads(&self) -> u64 {
        self.reads.sum()
    }

    /// The pages that contain bytes `range` of the stream.
    pub fn of_stream(&self, range: Range<u64>) -> Range<u64> {
        let body = self.body_bytes();
        // In a damaged file a range may end before it begins: then it covers no pages.
        let end = range.end.div_ceil(body).min(self.count);
        (range.start / body).min(end)..end
    }

    /// The stream's part in pages `range`, counted from 0, in one read. Takes as much memory as the pages have bytes.
    pub fn piece<'s>(&'s self, range: Range<u64>, scratch: &'s mut Scratch) -> Result<Piece<'s>> {
        self.join(&range, scratch)?;
        let bytes = scratch.pages.get(self.head..).unwrap_or_default();
        let offset = range.start * self.body_bytes();
        // The last page has zeros after the stream.
        let end = (range.end * self.body_bytes()).min(self.stream_bytes).max(offset);
        let bytes = &bytes[..(end - offset) as usize];
        // A page may claim starts beyond the stream's end.
        let within = match scratch.starts.last() {
            Some(last) if *last >= bytes.len() => scratch.starts.partition_point(|start| *start < bytes.len()),
            _ => scratch.starts.len(),
        };
        Ok(Piece { offset, bytes, starts: &scratch.starts[..within] })
    }

    /// Joins the bodies of pages `range` in `scratch.pages`, after as many bytes as a page's head has.
    fn join(&self, range: &Range<u64>, scratch: &mut Scratch) -> Result<()> {
        debug_assert!(range.start <= range.end && range.end <= self.count);
        scratch.starts.clear();
        let count = (range.end - range.start) as usize;
        scratch.at_least(count * self.page_bytes);
        let pages = &mut scratch.pages[..count * self.page_bytes];
        let ready = self.are_ready(range) && self.copy_pages(range, pages);
        if !ready {
            self.read_pages(range, pages)?;
        }
        for (index, bytes) in pages.chunks_exact(self.page_bytes).enumerate() {
            self.gather_starts(bytes, index, &mut scratch.starts);
        }
        let body = self.page_bytes - self.head;
        for index in 1..count {
            let from = index * self.page_bytes + self.head;
            pages.copy_within(from..from + body, self.head + index * body);
        }
        Ok(())
    }

    fn copy_pages(&self, range: &Range<u64>, bytes: &mut [u8]) -> bool {
        let at = (range.start as usize + 1) * self.page_bytes;
        self.window.as_ref().is_some_and(|window| window.copy(at, bytes))
    }

    fn read_pages(&self, range: &Range<u64>, bytes: &mut [u8]) -> Result<()> {
        self.reads.add_one();
        let offset = (range.start + 1) * self.page_bytes as u64;
        // Walks, which read more at a time, announce pages themselves.
        let start = self.can_be_ready(range).then(Instant::now);
        let read = self.file.read_at(bytes, offset);
        read.map_err(|e| Error::io(&self.path, &format!("read page {} of", range.start + 1), e))?;
        match start.map(|start| has_waited(start, DISK_WAIT_MIN)) {
            Some(true) => self.note_waits(range.end - range.start),
            Some(false) => {
                self.count_calls(CALLS_FOR_QUICK - 1);
                self.note_compared(range.end - range.start);
            }
            None => {}
        }
        for (page, bytes) in range.clone().zip(bytes.chunks_exact(self.page_bytes)) {
            page::check(&self.path, page + 1, bytes)?;
            self.checked.add(page);
        }
        Ok(())
    }

    /// Copies bytes `range` of the stream through the window to `scratch.pages`, after as many bytes as a page's head
    /// has. `false` if pages must be read.
    #[inline]
    fn copy_stream(&self, range: &Range<u64>, scratch: &mut Scratch) -> bool {
        let Some(window) = self.window.as_ref().filter(|_| self.are_ready(&self.of_stream(range.clone()))) else {
            return false;
        };
        let body = self.body_bytes();
        let end = self.head + (range.end - range.start) as usize;
        scratch.at_least(end);
        let (mut page, mut within) = (range.start / body, (range.start % body) as usize);
        let mut rest = &mut scratch.pages[self.head..end];
        loop {
            let here = rest.len().min(body as usize - within);
            let (now, later) = rest.split_at_mut(here);
            if !window.copy((page as usize + 1) * self.page_bytes + self.head + within, now) {
                return false;
            }
            if later.is_empty() {
                return true;
            }
            (page, within, rest) = (page + 1, 0, later);
        }
    }

    /// Starts reading pages `range`, if they are not too many, so that a later read waits less.
    pub fn announce(&self, range: &Range<u64>) {
        let page_bytes = self.page_bytes as u64;
        let bytes = (range.end - range.start) * page_bytes;
        if (1..=ANNOUNCED_MAX).contains(&bytes) {
            // They are read only once, so mapping them would not pay.
            self.calls_left.store(CALLS_AFTER_WAIT, Relaxed);
            self.file.read_ahead((range.start + 1) * page_bytes, bytes);
        }
    }

    /// Whether page `page` is in the system's cache; `false` if the system does not say.
    pub fn is_cached(&self, page: u64) -> bool {
        self.file.is_cached((page + 1) * self.page_bytes as u64).unwrap_or(false)
    }

    /// Replaces the content of `bytes` with pages `range`, unchecked.
    pub fn raw(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize((range.end - range.start) as usize * self.page_bytes, 0);
        let offset = (range.start + 1) * self.page_bytes as u64;
        let read = self.file.read_at(bytes, offset);
        read.map_err(|e| Error::io(&self.path, &format!("read page {} of", range.start + 1), e))
    }

    /// Appends the starts of cells in the page with number `index` in a piece.
    fn gather_starts(&self, page: &[u8], index: usize, starts: &mut Vec<usize>) {
        if !self.has_starts {
            return;
        }
        let body = self.page_bytes - self.head;
        let base = index * body;
        for number in 0..page::START_COUNT {
            let Some(start) = page::start(page, number).filter(|start| *start < body) else { break };
            let start = base + start;
            if starts.last().is_none_or(|last| *last < start) {
                starts.push(start);
            }
        }
    }

    /// The start of a cell near the start of page `page`: the first that begins in it. If none does, the first that
    /// begins in the page where the cell that covers all of it begins.
    pub fn cell_near(&self, page: u64, scratch: &mut Scratch) -> Result<u64> {
        let mut page = page;
        for _ in 0..2 {
            let piece = self.piece(page..page + 1, scratch)?;
            if let Some(start) = piece.starts.first() {
                return Ok(piece.offset + *start as u64);
            }
            let back = self.pages_back(page)?;
            page = page.checked_sub(back).ok_or_else(|| self.damaged(page, "its cell began before the first page"))?;
        }
        Err(self.damaged(page, "a cell of a later page began in it, and none begins in it"))
    }

    fn pages_back(&self, page: u64) -> Result<u64> {
        self.read_head(page).map(|head| page::pages_back(&head))
    }

    /// Reads the checksum and the starts of page `page`.
    fn read_head(&self, page: u64) -> Result<[u8; page::CHECKSUM_BYTES + 2 * page::START_COUNT]> {
        let mut head = [0; page::CHECKSUM_BYTES + 2 * page::START_COUNT];
        self.reads.add_one();
        let offset = (page + 1) * self.page_bytes as u64;
        let read = self.file.read_at(&mut head, offset);
        read.map_err(|e| Error::io(&self.path, &format!("read page {} of", page + 1), e)).map(|()| head)
    }

    pub fn damaged(&self, page: u64, what: &str) -> Error {
        page::damaged(&self.path, page + 1, what)
    }
}

/// Reads the stream from any location on, with read-ahead.
pub(crate) struct Stream<'p> {
    pages: &'p Pages,
    scratch: Scratch,
    ahead_bytes: u64,
    /// The part of the stream that is in memory.
    window: Range<u64>,
    /// Pages before this one have been announced.
    announced: u64,
}

impl<'p> Stream<'p> {
    /// A stream that reads `ahead_bytes` more than requested.
    pub fn new(pages: &'p Pages, ahead_bytes: u64) -> Self {
        Stream { pages, scratch: Scratch::default(), ahead_bytes, window: 0..0, announced: 0 }
    }

    /// A stream for a walk over the whole file.
    pub fn walk(pages: &'p Pages) -> Self {
        Self::new(pages, WALK_BYTES)
    }

    /// Bytes `range` of the stream; an error if it ends before.
    pub fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        if range.is_empty() {
            // Before the first read, there is no memory to point to.
            return Ok(&[]);
        }
        if range.start < self.window.start || range.end > self.window.end {
            self.load(&range)?;
        }
        let from = self.pages.head + (range.start - self.window.start) as usize;
        Ok(&self.scratch.pages[from..from + (range.end - range.start) as usize])
    }

    /// The bytes in memory from `from` on: at least `least` of them, or all that the stream has.
    pub fn some(&mut self, from: u64, least: u64) -> Result<&[u8]> {
        let end = from.saturating_add(least).min(self.pages.stream_bytes);
        if from < self.window.start || end > self.window.end {
            self.load(&(from..end))?;
        }
        let at = self.pages.head + (from - self.window.start) as usize;
        Ok(&self.scratch.pages[at..at + (self.window.end - from) as usize])
    }

    /// Calls `take` with bytes `range` of the stream, piece by piece, until it returns `false`.
    pub fn pieces(&mut self, range: Range<u64>, mut take: impl FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let to = range.end.min(at + PIECE_BYTES);
            if !take(self.bytes(at..to)?)? {
                return Ok(());
            }
            at = to;
        }
        Ok(())
    }

    fn load(&mut self, range: &Range<u64>) -> Result<()> {
        let pages = self.pages;
        if range.start > range.end || range.end > pages.stream_bytes {
            return Err(pages.damaged(range.start / pages.body_bytes(), "a record that is longer than the data"));
        }
        let ahead = range.end.saturating_add(self.ahead_bytes).min(pages.stream_bytes);
        let needed = pages.of_stream(range.start..ahead);
        let goes_on = !self.window.is_empty() && self.window.contains(&range.start.saturating_sub(1));
        self.window = 0..0;
        if pages.copy_stream(&(range.start..ahead), &mut self.scratch) {
            self.window = range.start..ahead;
            return Ok(());
        }
        pages.join(&needed, &mut self.scratch)?;
        if goes_on && self.ahead_bytes >= ANNOUNCE_MIN {
            self.announce_behind(&needed);
        }
        self.window = needed.start * pages.body_bytes()..(needed.end * pages.body_bytes()).min(pages.stream_bytes);
        Ok(())
    }

    /// Announces the pages after `read`: several times as many, so that this is done once for several reads.
    fn announce_behind(&mut self, read: &Range<u64>) {
        const READS_AHEAD: u64 = 4;
        let count = read.end - read.start;
        if read.end + count > self.announced {
            let most = ANNOUNCED_MAX / self.pages.page_bytes as u64;
            let from = self.announced.max(read.end);
            let to = (from + (READS_AHEAD * count).min(most)).min(self.pages.count);
            self.pages.announce(&(from..to.max(from)));
            self.announced = to;
        }
    }
}
