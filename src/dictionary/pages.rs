//! Pages of data: a stream of *units*, one behind another, cut into pages that each carry a checksum.
//!
//! A unit is a record, or a compressed block of records (`block.rs`). Units lie across the borders of pages, so pages are full
//! whatever the records' sizes, and a unit of many pages is read in one piece.
//!
//! ```text
//! byte 0   4                                head                          page_bytes
//! | CRC-32C | starts, but for fixed records | ... body: a piece of the stream ... |
//! ```
//!
//! `starts` are [`START_COUNT`] numbers of 16 bits: where in the body the first unit begins at or behind each eighth of it, so that
//! a search can enter a page in the middle; [`NO_START`] where none does. A page in which none begins at all says in the last
//! four of those bytes how many pages back its unit began.
//!
//! Source: units across pages are PaCHash's (Kurpicz, Lehmann & Sanders 2023), the starts and the checksum are ours.
//! Not here: which page to read (`index/page.rs`).

use super::format::{Compression, Layout};
use crate::error::{Error, Result};
use crate::io::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

pub(super) const CHECKSUM_BYTES: usize = 4;
pub(super) const START_COUNT: usize = 8;
pub(super) const NO_START: u16 = u16::MAX;
const BACK_AT: usize = CHECKSUM_BYTES + 2 * START_COUNT - 4;
/// Pages are written so many bytes at a time.
const WRITE_BYTES: usize = 1 << 20;
/// So much is written before the disk is asked to take it.
const FLUSH_BYTES: usize = 64 << 20;
/// Buffers between who fills pages and who writes them.
const WRITE_BUFFERS: usize = 3;

/// Bytes of a page before its body.
pub(super) const fn head_bytes(layout: Layout, compression: Compression) -> usize {
    match (layout, compression) {
        // Where records begin is arithmetic.
        (Layout::Fixed { .. }, Compression::None) => CHECKSUM_BYTES,
        _ => CHECKSUM_BYTES + 2 * START_COUNT,
    }
}

/// What page `page` must have for a checksum.
pub(super) fn checksum(page: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page.to_le_bytes()), &bytes[CHECKSUM_BYTES..])
}

/// Compares the checksum of page `page`, whose bytes are `bytes`.
pub(super) fn check(path: &Path, page: u64, bytes: &[u8]) -> Result<()> {
    let stored = stored_checksum(bytes);
    let computed = checksum(page, bytes);
    if stored == computed {
        return Ok(());
    }
    Err(damaged(path, page, &format!("checksum {stored:08x} is stored, {computed:08x} computed")))
}

pub(super) fn stored_checksum(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..CHECKSUM_BYTES].try_into().expect("4 bytes"))
}

#[cold]
pub(super) fn damaged(path: &Path, page: u64, what: &str) -> Error {
    let name = path.display();
    Error::corrupt(format!(
        "{name}: page {page}: {what}. Run `splitpoint dict check {name}`, then restore or build it again."
    ))
}

/// Start number `index` of a page that has starts.
pub(super) fn start(page: &[u8], index: usize) -> Option<usize> {
    let at = CHECKSUM_BYTES + 2 * index;
    let start = u16::from_le_bytes([page[at], page[at + 1]]);
    (start != NO_START).then_some(usize::from(start))
}

/// For a page in which no unit begins: how many pages before it its unit did.
pub(super) fn pages_back(page: &[u8]) -> u64 {
    u32::from_le_bytes(page[BACK_AT..BACK_AT + 4].try_into().expect("4 bytes")).into()
}

/// What a page says of where units begin, made from the units.
pub(super) struct Starts {
    bytes: [u8; 2 * START_COUNT],
    known: usize,
}

impl Starts {
    /// Of a page in which no unit begins, so many pages behind the one in which its unit did.
    pub fn none(pages_back: u64) -> Self {
        let mut bytes = [0xFF; 2 * START_COUNT];
        // No unit is so long.
        let back = u32::try_from(pages_back).unwrap_or(u32::MAX);
        bytes[BACK_AT - CHECKSUM_BYTES..].copy_from_slice(&back.to_le_bytes());
        Starts { bytes, known: 0 }
    }

    /// A unit begins at `offset` of the page's `body` bytes, behind those noted before.
    pub fn note(&mut self, offset: usize, body: usize) {
        if self.known == 0 {
            self.bytes.fill(0xFF);
        }
        let start = u16::try_from(offset).expect("a page is at most 64 KiB").to_le_bytes();
        while self.known < START_COUNT && self.known * body / START_COUNT <= offset {
            self.bytes[2 * self.known..][..2].copy_from_slice(&start);
            self.known += 1;
        }
    }

    pub fn are_those_of(&self, page: &[u8]) -> bool {
        page[CHECKSUM_BYTES..][..self.bytes.len()] == self.bytes
    }
}

/// What is to be remembered of the unit that covers the first byte of each page.
pub(super) trait Firsts {
    fn page(&mut self, position: u64, rank: u64) -> Result<()>;
}

/// Fills pages and writes them, on a thread of its own so that one is filled while the last is written.
pub(super) struct PageWriter<F> {
    firsts: F,
    page_bytes: usize,
    head: usize,
    buffer: Vec<u8>,
    /// Where in `buffer` the next byte of the stream goes; a page's end until there is a byte for the next.
    fill: usize,
    /// Page number of the first in `buffer`.
    page: u64,
    stream_bytes: u64,
    data_checksum: u32,
    /// The unit that the next byte belongs to.
    unit: Unit,
    /// How many of the starts of the current page are known.
    starts: usize,
    output: Output,
}

#[derive(Clone, Copy, Default)]
struct Unit {
    position: u64,
    rank: u64,
    page: u64,
}

/// What all pages came to.
pub(super) struct Written<F> {
    pub firsts: F,
    pub pages: u64,
    pub stream_bytes: u64,
    pub data_checksum: u32,
}

impl<F: Firsts> PageWriter<F> {
    /// Writes pages of `page_bytes` behind the header's page of `file`, which errors call `path`.
    pub fn new(file: Arc<dyn File>, path: &Path, page_bytes: u32, head: usize, firsts: F) -> Result<Self> {
        let page_bytes = page_bytes as usize;
        let pages = (WRITE_BYTES / page_bytes).max(1);
        Ok(PageWriter {
            firsts,
            page_bytes,
            head,
            buffer: vec![0; pages * page_bytes],
            fill: 0,
            page: 1,
            stream_bytes: 0,
            data_checksum: 0,
            unit: Unit::default(),
            starts: START_COUNT,
            output: Output::start(file, path, pages * page_bytes)?,
        })
    }

    /// The next byte begins a unit, whose first record has this position and rank.
    #[inline]
    pub fn begin_unit(&mut self, position: u64, rank: u64) -> Result<()> {
        if self.at_page_end() {
            self.turn_page()?;
        }
        let in_page = self.fill % self.page_bytes;
        let page = self.page + (self.fill / self.page_bytes) as u64;
        self.unit = Unit { position, rank, page };
        if in_page == 0 {
            self.open_page()?;
        }
        if self.starts < START_COUNT {
            self.note_start();
        }
        Ok(())
    }

    /// More bytes of the current unit.
    #[inline]
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.stream_bytes += bytes.len() as u64;
        loop {
            let room = self.room();
            if bytes.len() <= room {
                self.buffer[self.fill..self.fill + bytes.len()].copy_from_slice(bytes);
                self.fill += bytes.len();
                return Ok(());
            }
            let (now, rest) = bytes.split_at(room);
            self.buffer[self.fill..self.fill + room].copy_from_slice(now);
            self.fill += room;
            bytes = rest;
            if self.fill == self.buffer.len() {
                self.turn_page()?;
            }
            self.open_page()?;
        }
    }

    /// `bytes` are records of `record_bytes` each, the first of rank `rank`, in a layout without starts; `position` is asked for
    /// that of some of them by number.
    pub fn write_fixed(
        &mut self,
        bytes: &[u8],
        record_bytes: usize,
        rank: u64,
        mut position: impl FnMut(usize) -> u64,
    ) -> Result<()> {
        let mut done = 0;
        self.stream_bytes += bytes.len() as u64;
        while done < bytes.len() {
            if self.at_page_end() {
                self.turn_page()?;
            }
            if self.fill.is_multiple_of(self.page_bytes) {
                let index = done / record_bytes;
                self.unit = Unit { position: position(index), rank: rank + index as u64, page: 0 };
                self.open_page()?;
            }
            let now = self.room().min(bytes.len() - done);
            self.buffer[self.fill..self.fill + now].copy_from_slice(&bytes[done..done + now]);
            self.fill += now;
            done += now;
        }
        Ok(())
    }

    /// Bytes until the current page is full; 0 where none is open.
    fn room(&self) -> usize {
        match self.fill % self.page_bytes {
            0 => 0,
            used => self.page_bytes - used,
        }
    }

    fn at_page_end(&self) -> bool {
        self.fill == self.buffer.len()
    }

    fn open_page(&mut self) -> Result<()> {
        self.firsts.page(self.unit.position, self.unit.rank)?;
        let page = &mut self.buffer[self.fill..self.fill + self.head];
        page[CHECKSUM_BYTES..].fill(0xFF);
        if self.head > CHECKSUM_BYTES {
            self.starts = 0;
            let number = self.page + (self.fill / self.page_bytes) as u64;
            // A unit has at most 2^33 bytes, and a page 512 or more.
            let back = u32::try_from(number - self.unit.page).expect("a unit of less than 2^32 pages");
            self.buffer[self.fill + BACK_AT..self.fill + BACK_AT + 4].copy_from_slice(&back.to_le_bytes());
        }
        self.fill += self.head;
        Ok(())
    }

    fn note_start(&mut self) {
        let page_start = self.fill / self.page_bytes * self.page_bytes;
        let body = self.page_bytes - self.head;
        let offset = self.fill - page_start - self.head;
        let start = u16::try_from(offset).expect("a page is at most 64 KiB").to_le_bytes();
        if self.starts == 0 {
            // No longer a page without a start.
            self.buffer[page_start + BACK_AT..page_start + BACK_AT + 4].fill(0xFF);
        }
        while self.starts < START_COUNT && self.starts * body / START_COUNT <= offset {
            let at = page_start + CHECKSUM_BYTES + 2 * self.starts;
            self.buffer[at..at + 2].copy_from_slice(&start);
            self.starts += 1;
        }
    }

    /// The buffer is full: writes it, and goes on with the next.
    fn turn_page(&mut self) -> Result<()> {
        let pages = self.seal_pages();
        let next = self.output.next_buffer()?;
        let full = std::mem::replace(&mut self.buffer, next);
        let offset = self.page * self.page_bytes as u64;
        self.output.write(full, offset, pages * self.page_bytes)?;
        self.page += pages as u64;
        self.fill = 0;
        Ok(())
    }

    /// Zeros to the end of the last page, and checksums of all; gives how many there are.
    fn seal_pages(&mut self) -> usize {
        let pages = self.fill.div_ceil(self.page_bytes);
        self.buffer[self.fill..pages * self.page_bytes].fill(0);
        for (index, page) in self.buffer[..pages * self.page_bytes].chunks_exact_mut(self.page_bytes).enumerate() {
            let sum = checksum(self.page + index as u64, page).to_le_bytes();
            page[..CHECKSUM_BYTES].copy_from_slice(&sum);
            self.data_checksum = crc32c::crc32c_append(self.data_checksum, &sum);
        }
        pages
    }

    /// Writes what is left, and waits for all of it to be written (not synced).
    pub fn finish(mut self) -> Result<Written<F>> {
        let pages = self.seal_pages();
        let offset = self.page * self.page_bytes as u64;
        let last = std::mem::take(&mut self.buffer);
        self.output.write(last, offset, pages * self.page_bytes)?;
        self.output.finish()?;
        let pages = self.page - 1 + pages as u64;
        let (stream_bytes, data_checksum) = (self.stream_bytes, self.data_checksum);
        Ok(Written { firsts: self.firsts, pages, stream_bytes, data_checksum })
    }
}

/// A thread that writes buffers to a file in order, and gives them back.
struct Output {
    path: PathBuf,
    full: Option<SyncSender<(Vec<u8>, u64, usize)>>,
    empty: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Output {
    fn start(file: Arc<dyn File>, path: &Path, buffer_bytes: usize) -> Result<Self> {
        let (full, to_write) = sync_channel::<(Vec<u8>, u64, usize)>(WRITE_BUFFERS);
        let (written, empty) = sync_channel(WRITE_BUFFERS);
        for _ in 1..WRITE_BUFFERS {
            written.send(vec![0; buffer_bytes]).expect("the channel has room");
        }
        let write_all = move || {
            // The disk writes while pages are filled, and does not begin when the last of gigabytes is there.
            std::thread::scope(|scope| {
                let (flush, to_flush) = sync_channel::<()>(1);
                let syncing = scope.spawn(|| to_flush.into_iter().try_for_each(|()| file.sync()));
                let mut unflushed = 0;
                for (buffer, offset, bytes) in to_write {
                    file.write_at(&buffer[..bytes], offset)?;
                    // Nobody takes it: the writer was dropped.
                    let _ = written.send(buffer);
                    unflushed += bytes;
                    if unflushed >= FLUSH_BYTES && flush.try_send(()).is_ok() {
                        unflushed = 0;
                    }
                }
                drop(flush);
                syncing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        };
        let thread = std::thread::Builder::new().name("dictionary writer".into()).spawn(write_all);
        let thread = thread.map_err(|e| Error::io(path, "start a thread to write", e))?;
        Ok(Output { path: path.to_owned(), full: Some(full), empty, thread: Some(thread) })
    }

    fn next_buffer(&mut self) -> Result<Vec<u8>> {
        match self.empty.recv() {
            Ok(buffer) => Ok(buffer),
            Err(_) => Err(self.failure()),
        }
    }

    fn write(&mut self, buffer: Vec<u8>, offset: u64, bytes: usize) -> Result<()> {
        let sent = self.full.as_ref().is_some_and(|full| full.send((buffer, offset, bytes)).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Why the thread ended before its time.
    fn failure(&mut self) -> Error {
        match self.finish() {
            Err(error) => error,
            Ok(()) => Error::io(&self.path, "write", std::io::Error::other("an earlier write failed")),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.full = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        match thread.join() {
            Ok(result) => result.map_err(|e| Error::io(&self.path, "write", e)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Before whoever drops it removes the file.
        self.full = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
