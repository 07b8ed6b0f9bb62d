//! What the heads of pages say of where cells begin, compared with where they do.

use super::pages::READ_BYTES;
use crate::dictionary::format::page::{CHECKSUM_BYTES, START_COUNT, StartsWriter};
use crate::dictionary::read::file::DictionaryFile;
use crate::error::Result;

/// What the heads of pages say of where cells begin, computed again from the cells and compared some pages at a time.
pub(super) struct Heads<'d> {
    file: &'d DictionaryFile,
    /// Of pages that were not compared yet, the first of which is `first`.
    computed: Vec<[u8; 2 * START_COUNT]>,
    first: u64,
    /// Of the last of these pages.
    starts: StartsWriter,
    /// The page in which the last cell begins.
    cell_page: u64,
    bytes: Vec<u8>,
}

impl<'d> Heads<'d> {
    /// For cells from the one that begins at `start` in the stream on, the first in its page.
    pub fn new(file: &'d DictionaryFile, start: u64) -> Self {
        let first = start / file.pages.body_bytes();
        Heads { file, computed: Vec::new(), first, starts: StartsWriter::done(), cell_page: first, bytes: Vec::new() }
    }

    /// The next cell begins at `at` in the stream, or it is the one before once more.
    pub fn cell(&mut self, at: u64, fault: &mut impl FnMut(u64)) -> Result<()> {
        let body = self.file.pages.body_bytes();
        self.pages_to(at / body + 1, fault)?;
        self.cell_page = at / body;
        let head = self.computed.last_mut().expect("the page of the cell");
        self.starts.note(head, (at % body) as usize, body as usize);
        Ok(())
    }

    /// There are no more cells before `end` of the stream, where another begins or which is the stream's.
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
