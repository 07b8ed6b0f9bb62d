//! Compares where cells begin according to the heads of pages with where they actually begin.

use super::page_faults::READ_BYTES;
use crate::dictionary::format::page::{CHECKSUM_BYTES, START_COUNT, StartsWriter};
use crate::dictionary::read::file::DictionaryFile;
use crate::error::Result;

/// The heads' records of where cells begin, recomputed from the cells and compared several pages at a time.
pub(super) struct Heads<'d> {
    file: &'d DictionaryFile,
    /// For pages not compared yet; the first is `first`.
    computed: Vec<[u8; 2 * START_COUNT]>,
    first: u64,
    /// The writer for the last of these pages.
    starts: StartsWriter,
    /// The page in which the last cell begins.
    cell_page: u64,
    bytes: Vec<u8>,
}

impl<'d> Heads<'d> {
    /// Starts with the cell that begins at `start` in the stream, the first in its page.
    pub fn new(file: &'d DictionaryFile, start: u64) -> Self {
        let first = start / file.pages.body_bytes();
        Heads { file, computed: Vec::new(), first, starts: StartsWriter::done(), cell_page: first, bytes: Vec::new() }
    }

    /// Takes the next cell, which begins at `at` in the stream. The previous cell may be passed again.
    pub fn cell(&mut self, at: u64, fault: &mut impl FnMut(u64)) -> Result<()> {
        let body = self.file.pages.body_bytes();
        self.pages_to(at / body + 1, fault)?;
        self.cell_page = at / body;
        let head = self.computed.last_mut().expect("the page of the cell");
        self.starts.note(head, (at % body) as usize, body as usize);
        Ok(())
    }

    /// Ends the comparison at `end` in the stream, where another cell begins or the stream ends.
    pub fn finish(&mut self, end: u64, fault: &mut impl FnMut(u64)) -> Result<()> {
        let pages = &self.file.pages;
        let end = if end == pages.stream_bytes() { pages.count() } else { end / pages.body_bytes() };
        self.pages_to(end, fault)?;
        self.compare(fault)
    }

    /// Adds pages up to `end`.
    fn pages_to(&mut self, end: u64, fault: &mut impl FnMut(u64)) -> Result<()> {
        let at_once = READ_BYTES / u64::from(self.file.header.page_bytes);
        while self.first + (self.computed.len() as u64) < end {
            if self.computed.len() as u64 >= at_once {
                self.compare(fault)?;
            }
            let page = self.first + self.computed.len() as u64;
            let mut head = [0; 2 * START_COUNT];
            self.starts = StartsWriter::open(&mut head, page - self.cell_page);
            self.computed.push(head);
        }
        Ok(())
    }

    fn compare(&mut self, fault: &mut impl FnMut(u64)) -> Result<()> {
        let end = self.first + self.computed.len() as u64;
        self.file.pages.raw(self.first..end, &mut self.bytes)?;
        let stored = self.bytes.chunks_exact(self.file.header.page_bytes as usize);
        let pages = (self.first..end).zip(stored).zip(&self.computed);
        let differs = |bytes: &[u8], computed: &[u8]| bytes[CHECKSUM_BYTES..][..computed.len()] != *computed;
        pages.filter(|((_, bytes), computed)| differs(bytes, &computed[..])).for_each(|((page, _), _)| fault(page));
        self.computed.clear();
        self.first = end;
        Ok(())
    }
}
