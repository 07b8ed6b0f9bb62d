//! Pages of data in: by `pread` or through a window, checked, and joined into a piece of the stream.
//!
//! By `pread` each page is compared with its checksum whenever it is read. With a window (`io/window.rs`) it is
//! compared the first time, copied from there or by `pread`, and a bit remembers it (one bit a page of memory). From
//! then on lookups access the page where it lies. Where the window fails, pages are read by `pread` again. After many
//! first times a thread compares the others (`rest.rs`).
//!
//! [`Pages::piece`] gives some pages at once, for a lookup; [`Stream`] any part of the stream in order, for walks over
//! all of it.

use super::checked::Checked;
use super::mapped::Mapped;
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

/// A walk that reads as many bytes at a time announces the next ones.
const ANNOUNCE_MIN: u64 = 16 << 10;
/// More are not announced at once.
const ANNOUNCED_MAX: u64 = 2 << 20;

/// The copy of a page that waits and takes longer waited for the disk.
const DISK_WAIT_MIN: Duration = Duration::from_micros(30);
/// First reads by calls after one that waited.
const CALLS_AFTER_WAIT: u32 = 64;
/// A call that did not wait counts as several: what took long may have been no disk.
const CALLS_FOR_QUICK: u32 = 4;

/// Bytes that are brought into the processor's cache at once.
const TOUCHED_BYTES_MAX: u64 = 1024;
/// Pages whose heads are brought into the processor's cache at once.
const TOUCHED_PAGES_MAX: usize = 2;

/// Pages that are copied out of a window at once; more are read by one call.
const WINDOW_PAGES_MAX: u64 = 8;

/// The data pages of one file.
pub(crate) struct Pages {
    path: PathBuf,
    file: Arc<dyn File>,
    window: Option<Box<dyn Window>>,
    /// With a window: which pages have been read and compared with their checksums. Others are not read through it.
    checked: Checked,
    page_bytes: usize,
    head: usize,
    has_starts: bool,
    count: u64,
    stream_bytes: u64,
    reads: Counter,
    /// What counts the waits and first uses of lookups, where the file may be read and checked ahead.
    rest: Option<Rest>,
    /// First reads that are calls before the mapping is tried again.
    pub calls_left: AtomicU32,
    /// Of lookups in batches: how many probes in a row have not waited for the disk.
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

/// Memory that lookups use again.
#[derive(Default)]
pub(crate) struct Scratch {
    pages: Vec<u8>,
    starts: Vec<usize>,
    pub raw: Vec<u8>,
}

/// Scratch memory above this is given back after a lookup.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

impl Scratch {
    /// Makes room for as many bytes of pages. There may be more, from another lookup: no byte is set to zero twice.
    fn at_least(&mut self, bytes: usize) {
        if self.pages.len() < bytes {
            self.pages.resize(bytes, 0);
        }
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

/// Some pages' part of the stream.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'p> {
    /// Where in the stream it begins.
    pub offset: u64,
    pub bytes: &'p [u8],
    /// Where in `bytes` some of the cells begin, within it and ascending, the first that does among them; empty in a
    /// layout without starts.
    pub starts: &'p [usize],
    /// Of records of one size: which bytes are those looked for, if an index said so.
    pub records: Option<(usize, usize)>,
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

    /// Lets the file be read ahead once many pages were waited for, and checked once many were compared.
    pub fn read_rest(&mut self) {
        self.rest = Some(Rest::new(Arc::clone(&self.file), self.page_bytes, self.count, self.checked.clone()));
    }

    /// Whether pages say where cells begin.
    pub fn has_starts(&self) -> bool {
        self.has_starts
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of the stream in a page.
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

    /// Whether `pages` may be [ready](Self::are_ready) once they have been read.
    #[inline]
    pub fn can_be_ready(&self, pages: &Range<u64>) -> bool {
        self.is_mapped() && pages.end - pages.start <= WINDOW_PAGES_MAX
    }

    /// Whether `pages` can be read through the window: they are few, and their checksums have been compared.
    #[inline]
    pub fn are_ready(&self, pages: &Range<u64>) -> bool {
        self.can_be_ready(pages) && pages.clone().all(|page| self.checked.has(page))
    }

    /// The window over `pages`, for accesses to those that are ready.
    #[inline]
    pub fn mapped(&self, pages: &Range<u64>) -> Option<Mapped<'_>> {
        let end = (pages.end * self.body_bytes()).min(self.stream_bytes);
        let window = self.window.as_deref()?;
        Some(Mapped { window, page_bytes: self.page_bytes as u64, head: self.head as u64, end })
    }

    /// Makes `pages` ready for accesses through the window, where they are mapped and few, and gives whether they are.
    /// Not where they are on the disk: then they are read anyway.
    #[inline]
    pub fn get_ready(&self, pages: &Range<u64>, scratch: &mut Scratch) -> Result<bool> {
        if !self.can_be_ready(pages) {
            return Ok(false);
        }
        if self.are_ready(pages) { Ok(true) } else { self.read_ready(pages, scratch) }
    }

    /// A page in the system's cache is copied out of the mapping. One that is not is faster to read by a call, which
    /// asks the disk for neighbours at once. Nothing says which it is, so a copy that took long makes the next ones
    /// calls.
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

    /// Counts pages that a lookup compared with their checksums, without a wait.
    fn note_compared(&self, pages: u64) {
        if let Some(rest) = &self.rest {
            rest.note_compared(pages);
        }
    }

    /// Begins to bring bytes `range` of the body of page `page`, and of what follows in the file, into the processor's
    /// cache. Does nothing where pages are not mapped.
    #[inline]
    pub fn touch(&self, page: u64, range: Range<u64>) {
        let Some(window) = self.window.as_deref().filter(|_| page < self.count) else { return };
        let at = (page as usize + 1) * self.page_bytes + self.head;
        let end = range.end.min(range.start + TOUCHED_BYTES_MAX);
        window.prefetch(at + range.start as usize..at + end as usize);
    }

    /// Begins to bring the heads of `pages`, where they have starts, into the processor's cache. Does nothing where
    /// pages are not mapped.
    #[inline]
    pub fn touch_heads(&self, pages: &Range<u64>) {
        let Some(window) = self.window.as_deref().filter(|_| self.has_starts) else { return };
        for page in pages.clone().take(TOUCHED_PAGES_MAX) {
            let at = (page as usize + 1) * self.page_bytes;
            window.prefetch(at..at + self.head);
        }
    }

    /// Where in the body of page `page` cells begin, through the window; `None` where the page has to be read.
    #[inline]
    pub fn starts(&self, page: u64) -> Option<Starts> {
        let window = self.window.as_ref().filter(|_| self.has_starts && self.checked.has(page))?;
        let mut head = [0; page::CHECKSUM_BYTES + 2 * page::START_COUNT];
        let copied = window.copy((page as usize + 1) * self.page_bytes, &mut head);
        copied.then(|| Starts::of(&head, self.page_bytes - self.head))
    }

    /// How many pages have been compared with their checksums, of a mapped file.
    #[cfg(test)]
    pub fn checked_count(&self) -> u64 {
        self.checked.count()
    }

    /// How often the file was read by a call so far.
    pub fn reads(&self) -> u64 {
        self.reads.sum()
    }

    /// Which pages have bytes `range` of the stream.
    pub fn of_stream(&self, range: Range<u64>) -> Range<u64> {
        let body = self.body_bytes();
        // In a damaged file a range may end before it begins: then it has no pages.
        let end = range.end.div_ceil(body).min(self.count);
        (range.start / body).min(end)..end
    }

    /// The stream's part in pages `range`, counted from 0, in one read. Takes as much memory as they have bytes.
    pub fn piece<'s>(&'s self, range: Range<u64>, scratch: &'s mut Scratch) -> Result<Piece<'s>> {
        self.join(&range, scratch)?;
        let bytes = scratch.pages.get(self.head..).unwrap_or_default();
        let offset = range.start * self.body_bytes();
        // The last page has zeros behind the stream.
        let end = (range.end * self.body_bytes()).min(self.stream_bytes).max(offset);
        let bytes = &bytes[..(end - offset) as usize];
        // What a page says may lie behind the stream's end.
        let within = match scratch.starts.last() {
            Some(last) if *last >= bytes.len() => scratch.starts.partition_point(|start| *start < bytes.len()),
            _ => scratch.starts.len(),
        };
        Ok(Piece { offset, bytes, starts: &scratch.starts[..within], records: None })
    }

    /// The bodies of pages `range` one behind another in `scratch.pages`, after as many bytes as a page's head has.
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
        // Walks, which read more at once, announce it themselves.
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

    /// Copies bytes `range` of the stream through the window to behind as many bytes of `scratch.pages` as a page's
    /// head has; `false` where pages have to be read.
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

    /// Begins to read pages `range`, if they are not too many, so that a later read waits less.
    pub fn announce(&self, range: &Range<u64>) {
        let page_bytes = self.page_bytes as u64;
        let bytes = (range.end - range.start) * page_bytes;
        if (1..=ANNOUNCED_MAX).contains(&bytes) {
            // They are read once, so that a mapping of them would not pay.
            self.calls_left.store(CALLS_AFTER_WAIT, Relaxed);
            self.file.read_ahead((range.start + 1) * page_bytes, bytes);
        }
    }

    /// Whether page `page` is in the system's cache; `false` where the system does not say.
    pub fn is_cached(&self, page: u64) -> bool {
        self.file.is_cached((page + 1) * self.page_bytes as u64).unwrap_or(false)
    }

    /// Pages `range` as they are, unchecked, in place of what is in `bytes`.
    pub fn raw(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize((range.end - range.start) as usize * self.page_bytes, 0);
        let offset = (range.start + 1) * self.page_bytes as u64;
        let read = self.file.read_at(bytes, offset);
        read.map_err(|e| Error::io(&self.path, &format!("read page {} of", range.start + 1), e))
    }

    /// Adds where cells begin in the page that is number `index` of a piece.
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

    /// Where in the stream a cell begins near the start of page `page`: the first that begins in it, or, where none
    /// does, the first that begins in the page from which one reaches over all of it.
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

    /// Checksum and starts of page `page`.
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

/// Where in a page's body cells begin.
pub(crate) struct Starts {
    starts: [u16; page::START_COUNT],
    count: usize,
}

impl Starts {
    fn of(head: &[u8], body: usize) -> Starts {
        let mut starts = Starts { starts: [0; page::START_COUNT], count: 0 };
        let mut least = 0;
        for number in 0..page::START_COUNT {
            let Some(start) = page::start(head, number).filter(|start| *start < body) else { break };
            // Below the bytes of a page, which are 65,536 at most. One that does not ascend is overwritten by the next.
            starts.starts[starts.count] = start as u16;
            starts.count += usize::from(start >= least);
            least = least.max(start + 1);
        }
        starts
    }

    #[inline]
    pub fn list(&self) -> &[u16] {
        &self.starts[..self.count]
    }
}

/// The stream from any place on, read ahead.
pub(crate) struct Stream<'p> {
    pages: &'p Pages,
    scratch: Scratch,
    ahead_bytes: u64,
    /// What of the stream is in memory.
    window: Range<u64>,
    /// The page up to which pages have been announced.
    announced: u64,
}

impl<'p> Stream<'p> {
    /// Reads `ahead_bytes` more than it is asked for.
    pub fn new(pages: &'p Pages, ahead_bytes: u64) -> Self {
        Stream { pages, scratch: Scratch::default(), ahead_bytes, window: 0..0, announced: 0 }
    }

    /// For a walk over all of it.
    pub fn walk(pages: &'p Pages) -> Self {
        Self::new(pages, WALK_BYTES)
    }

    /// Bytes `range` of the stream; an error where it ends before.
    pub fn bytes(&mut self, range: Range<u64>) -> Result<&[u8]> {
        if range.is_empty() {
            // Before anything was read, there is no byte to point to.
            return Ok(&[]);
        }
        if range.start < self.window.start || range.end > self.window.end {
            self.load(&range)?;
        }
        let from = self.pages.head + (range.start - self.window.start) as usize;
        Ok(&self.scratch.pages[from..from + (range.end - range.start) as usize])
    }

    /// The bytes from `from` on that are in memory: at least `least` of them, or all that the stream has.
    pub fn some(&mut self, from: u64, least: u64) -> Result<&[u8]> {
        let end = from.saturating_add(least).min(self.pages.stream_bytes);
        if from < self.window.start || end > self.window.end {
            self.load(&(from..end))?;
        }
        let at = self.pages.head + (from - self.window.start) as usize;
        Ok(&self.scratch.pages[at..at + (self.window.end - from) as usize])
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

    /// Announces what comes behind pages `read`: some times as much, so that it is done once for several reads.
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
