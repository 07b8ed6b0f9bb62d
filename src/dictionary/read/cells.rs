//! The cells of a file's stream: where they begin, how long they are, and a search from one to the next.
//!
//! For lookups without an index, and for records of many pages, whose values are not read to find the next cell.
//! Not here: records in a few pages (`search.rs`), walks (`walk.rs`).

use super::blocks;
use super::file::DictionaryFile;
use super::interpolation::Interpolation;
use super::pages::{Piece, Scratch, Stream};
use super::search::Query;
use super::wanted::Wanted;
use crate::dictionary::format::block::{self, BlockHead};
use crate::dictionary::format::layout::Compression;
use crate::dictionary::format::record;
use crate::error::{Error, Result};
use std::ops::Range;

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

impl DictionaryFile {
    /// The start of the first cell that begins in `range` of the stream.
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
    pub fn narrow(&self, query: &Query<'_>) -> Result<Range<u64>> {
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

    /// Examines the cells that begin in `range` of the stream one by one. Passes the value of the key to `wanted`, and
    /// returns whether it was found.
    pub fn find_in_stream(&self, range: &Range<u64>, query: &Query<'_>, wanted: &mut Wanted<'_>) -> Result<bool> {
        let mut scratch = Scratch::default();
        let Some(mut at) = self.first_cell(range, &mut scratch)? else { return Ok(false) };
        let mut stream = Stream::new(&self.pages, self.pages.body_bytes());
        while at < range.end {
            let cell = self.cell(&mut stream, at)?;
            let end = at + cell.bytes;
            let record = match cell.kind {
                CellKind::Record { .. } => Some(at),
                CellKind::Block(head) if self.format.ordered && head.position > query.position => return Ok(false),
                // A long record with another position, which is skipped without reading it.
                CellKind::Block(head) if head.records == 1 && head.position != query.position => None,
                CellKind::Block(head) if head.records == 1 && head.stored_bytes == head.raw_bytes => {
                    Some(at + block::HEAD_BYTES as u64)
                }
                CellKind::Block(_) => {
                    let piece = Piece { offset: at, bytes: stream.bytes(at..end)?, starts: &[0] };
                    let found = blocks::find(&self.format, piece, query, &mut scratch.raw);
                    if let Some(value) = found.map_err(|what| self.damaged_at(at, what))? {
                        wanted.give(value);
                        return Ok(true);
                    }
                    None
                }
            };
            if let Some(record) = record
                && let Some(value) = self.value_in_stream(&mut stream, record..end, query.key)?
            {
                return wanted.give_from(&mut stream, value).map(|()| true);
            }
            at = end;
        }
        Ok(false)
    }

    /// The location of the value of the record that begins at the start of `range`, if it has `key` and lies within
    /// `range`. The value is not read, as it may be long.
    fn value_in_stream(&self, stream: &mut Stream<'_>, range: Range<u64>, key: &[u8]) -> Result<Option<Range<u64>>> {
        let bytes = stream.some(range.start, record::HEAD_BYTES_MAX as u64)?;
        let Some((head, key_len, value_len)) = record::lengths(self.header.layout, bytes) else { return Ok(None) };
        let key_at = range.start + head as u64;
        let value_at = key_at + key_len as u64;
        let end = value_at + value_len as u64;
        let found = key_len == key.len() && end <= range.end && stream.bytes(key_at..value_at)? == key;
        Ok(found.then_some(value_at..end))
    }
}
