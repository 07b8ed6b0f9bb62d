//! Cuts the stream of cells into pages with checksums, and writes them in a separate thread.
//!
//! One buffer is filled while the previous one is written. The disk is asked to sync at intervals, so that it does not
//! start only when gigabytes have been written. Not here: what precedes the body of a page (`format/page.rs`), what a
//! cell consists of (`data.rs`).

use super::numbers::NumberList;
use crate::checksum::crc32c_append;
use crate::dictionary::format::page::{self, CHECKSUM_BYTES, StartsWriter};
use crate::error::{Error, Result};
use crate::io::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes per buffer of pages. Each is written at a multiple of its length, so that the system caches the file in large
/// pages: one page fault of a mapping then covers 2 MiB.
const WRITE_BYTES: usize = 2 << 20;
/// Bytes written between two requests to sync.
const FLUSH_BYTES: usize = 64 << 20;
/// Buffers being filled, being written, or waiting for either.
const WRITE_BUFFERS: usize = 3;

/// For each page, the first record of the cell that covers the first byte of its body. Indexes are made of this.
#[derive(Default)]
pub(crate) struct PageFirsts {
    pub positions: Option<NumberList>,
    pub ranks: Option<NumberList>,
}

impl PageFirsts {
    fn push(&mut self, position: u64, rank: u64) -> Result<()> {
        if let Some(positions) = &mut self.positions {
            positions.push(position)?;
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.push(rank)?;
        }
        Ok(())
    }
}

/// Fills pages and writes them.
pub(crate) struct PageWriter {
    firsts: PageFirsts,
    page_bytes: usize,
    head: usize,
    buffer: Vec<u8>,
    /// The offset in `buffer` of the stream's next byte. Stays at a page's end until there is a byte for the next page.
    fill: usize,
    /// Page number of the first page in `buffer`.
    page: u64,
    stream_bytes: u64,
    data_checksum: u32,
    /// The cell that the next byte belongs to.
    cell: CellStart,
    /// The starts of the current page.
    starts: StartsWriter,
    output: Output,
}

#[derive(Clone, Copy, Default)]
struct CellStart {
    position: u64,
    rank: u64,
    page: u64,
}

/// The totals when all pages are written.
pub(crate) struct WrittenPages {
    pub firsts: PageFirsts,
    pub pages: u64,
    pub stream_bytes: u64,
    pub data_checksum: u32,
}

impl PageWriter {
    /// Writes pages of `page_bytes` after the header's page of `file`, which errors call `path`.
    pub fn new(file: Arc<dyn File>, path: &Path, page_bytes: u32, head: usize, firsts: PageFirsts) -> Result<Self> {
        let page_bytes = page_bytes as usize;
        let pages = (WRITE_BYTES / page_bytes).max(2);
        Ok(PageWriter {
            firsts,
            page_bytes,
            head,
            // The header's page is the first.
            buffer: vec![0; (pages - 1) * page_bytes],
            fill: 0,
            page: 1,
            stream_bytes: 0,
            data_checksum: 0,
            cell: CellStart::default(),
            starts: StartsWriter::done(),
            output: Output::start(file, path, pages * page_bytes)?,
        })
    }

    /// Begins a cell, whose first record has this position and rank.
    #[inline]
    pub fn begin_cell(&mut self, position: u64, rank: u64) -> Result<()> {
        if self.at_page_end() {
            self.turn_page()?;
        }
        let in_page = self.fill % self.page_bytes;
        let page = self.page + (self.fill / self.page_bytes) as u64;
        self.cell = CellStart { position, rank, page };
        if in_page == 0 {
            self.open_page()?;
        }
        if !self.starts.is_done() {
            self.note_start();
        }
        Ok(())
    }

    /// Appends bytes to the current cell.
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

    /// Writes the records in `bytes`, which follow each other in a layout without starts. `positions` are their
    /// positions; the first has rank `rank`.
    pub fn write_fixed(&mut self, bytes: &[u8], positions: &[u64], rank: u64) -> Result<()> {
        let record_bytes = bytes.len() / positions.len().max(1);
        let mut done = 0;
        self.stream_bytes += bytes.len() as u64;
        while done < bytes.len() {
            if self.at_page_end() {
                self.turn_page()?;
            }
            if self.fill.is_multiple_of(self.page_bytes) {
                let index = done / record_bytes;
                self.cell = CellStart { position: positions[index], rank: rank + index as u64, page: 0 };
                self.open_page()?;
            }
            let now = self.room().min(bytes.len() - done);
            self.buffer[self.fill..self.fill + now].copy_from_slice(&bytes[done..done + now]);
            self.fill += now;
            done += now;
        }
        Ok(())
    }

    /// Bytes until the current page is full; 0 if none is open.
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
        self.firsts.push(self.cell.position, self.cell.rank)?;
        if self.head > CHECKSUM_BYTES {
            let number = self.page + (self.fill / self.page_bytes) as u64;
            let head = &mut self.buffer[self.fill + CHECKSUM_BYTES..self.fill + self.head];
            self.starts = StartsWriter::open(head, number - self.cell.page);
        }
        self.fill += self.head;
        Ok(())
    }

    fn note_start(&mut self) {
        let page_start = self.fill / self.page_bytes * self.page_bytes;
        let body = self.page_bytes - self.head;
        let offset = self.fill - page_start - self.head;
        let head = &mut self.buffer[page_start + CHECKSUM_BYTES..page_start + self.head];
        self.starts.note(head, offset, body);
    }

    /// Writes the full buffer and continues with the next.
    fn turn_page(&mut self) -> Result<()> {
        let pages = self.seal_pages();
        let mut next = self.output.next_buffer()?;
        next.resize(self.output.buffer_bytes, 0);
        let full = std::mem::replace(&mut self.buffer, next);
        let offset = self.page * self.page_bytes as u64;
        self.output.write(full, offset, pages * self.page_bytes)?;
        self.page += pages as u64;
        self.fill = 0;
        Ok(())
    }

    /// Fills the last page with zeros and computes the checksums of all pages. Returns their number.
    fn seal_pages(&mut self) -> usize {
        let pages = self.fill.div_ceil(self.page_bytes);
        self.buffer[self.fill..pages * self.page_bytes].fill(0);
        for (index, page) in self.buffer[..pages * self.page_bytes].chunks_exact_mut(self.page_bytes).enumerate() {
            let sum = page::checksum(self.page + index as u64, page).to_le_bytes();
            page[..CHECKSUM_BYTES].copy_from_slice(&sum);
            self.data_checksum = crc32c_append(self.data_checksum, &sum);
        }
        pages
    }

    /// Writes what is left and waits until everything is written (not synced).
    pub fn finish(mut self) -> Result<WrittenPages> {
        let pages = self.seal_pages();
        let offset = self.page * self.page_bytes as u64;
        let last = std::mem::take(&mut self.buffer);
        self.output.write(last, offset, pages * self.page_bytes)?;
        self.output.finish()?;
        let pages = self.page - 1 + pages as u64;
        let (stream_bytes, data_checksum) = (self.stream_bytes, self.data_checksum);
        Ok(WrittenPages { firsts: self.firsts, pages, stream_bytes, data_checksum })
    }
}

/// A thread that writes buffers to a file in order, and returns them.
struct Output {
    path: PathBuf,
    buffer_bytes: usize,
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
            // The disk writes while pages are being filled, instead of starting when gigabytes are waiting.
            std::thread::scope(|scope| {
                let (flush, to_flush) = sync_channel::<()>(1);
                let sync_all = || to_flush.into_iter().try_for_each(|()| file.sync());
                // Without this thread everything is synced at the end.
                let syncing = std::thread::Builder::new().spawn_scoped(scope, sync_all).ok();
                let mut unflushed = 0;
                for (buffer, offset, bytes) in to_write {
                    file.write_at(&buffer[..bytes], offset)?;
                    // The writer may have been dropped, and then takes no more buffers.
                    let _ = written.send(buffer);
                    unflushed += bytes;
                    if unflushed >= FLUSH_BYTES && flush.try_send(()).is_ok() {
                        unflushed = 0;
                    }
                }
                drop(flush);
                let join = |syncing: std::thread::ScopedJoinHandle<'_, std::io::Result<()>>| {
                    syncing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                };
                syncing.map_or(Ok(()), join)
            })
        };
        let thread = std::thread::Builder::new().name("dictionary writer".into()).spawn(write_all);
        let thread = thread.map_err(|e| Error::io(path, "start a thread to write", e))?;
        Ok(Output { path: path.to_owned(), buffer_bytes, full: Some(full), empty, thread: Some(thread) })
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

    /// Why the thread ended early.
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
        // Must happen before the file is removed.
        self.full = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
#[path = "tests/page_writer.rs"]
mod tests;
