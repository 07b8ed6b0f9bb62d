//! Long values, read piece by piece directly to their destination, so that none is in memory twice.
//!
//! ```text
//! get     key -> pages of its record; if many -> cells there, values skipped -> LongValue
//! walk    a run has the location of a long value (run.rs, `Far`) -> ValueAt
//! ```
//!
//! Not here: records in a few pages (`search.rs`), long values of a batch (`build/far.rs`).

use super::file::{CellKind, DictionaryFile, PAGES_AT_ONCE_MAX};
use super::pages::{Scratch, Stream};
use super::search::Query;
use crate::dictionary::format::{block, record};
use crate::dictionary::run::{FAR_LEN_MIN, Far, Run};
use crate::error::Result;
use std::ops::Range;

/// Bytes read at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A value in the stream of a file. It may be far larger than memory.
pub(crate) struct LongValue<'d> {
    file: &'d DictionaryFile,
    at: Range<u64>,
}

impl LongValue<'_> {
    pub fn len(&self) -> usize {
        (self.at.end - self.at.start) as usize
    }

    /// Calls `take` with the value's bytes, piece by piece, until it returns `false`.
    fn pieces(&self, mut take: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let mut stream = Stream::new(&self.file.pages, 0);
        let mut at = self.at.start;
        while at < self.at.end {
            let to = self.at.end.min(at + PIECE_BYTES);
            if !take(stream.bytes(at..to)?) {
                return Ok(());
            }
            at = to;
        }
        Ok(())
    }

    /// Replaces the content of `value` with this value.
    pub fn read_into(&self, value: &mut Vec<u8>) -> Result<()> {
        value.clear();
        value.reserve_exact(self.len());
        self.pieces(|piece| {
            value.extend_from_slice(piece);
            true
        })
    }

    /// Copies as much of the value as fits to the start of `buffer`.
    pub fn read_to(&self, buffer: &mut [u8]) -> Result<()> {
        let mut rest = buffer;
        self.pieces(|piece| {
            let len = piece.len().min(rest.len());
            let (now, later) = std::mem::take(&mut rest).split_at_mut(len);
            now.copy_from_slice(&piece[..len]);
            rest = later;
            !rest.is_empty()
        })
    }
}

/// A value of a run.
pub(crate) enum ValueAt<'v> {
    Here(&'v [u8]),
    Long(LongValue<'v>),
}

impl<'v> ValueAt<'v> {
    /// The value of record `index` of `run`, which a walk over `file` returned.
    pub fn of(file: &'v DictionaryFile, run: &'v Run, index: usize) -> Self {
        let record = run.record(index);
        let value = record.value.unwrap_or_default();
        match record.far_len {
            None => ValueAt::Here(value),
            Some(len) => {
                let start = Far::parse(value).offset;
                ValueAt::Long(LongValue { file, at: start..start + u64::from(len) })
            }
        }
    }

    /// The bytes of the value. A long value is read into `long`, whose old memory is freed first.
    pub fn get(self, long: &'v mut Vec<u8>) -> Result<&'v [u8]> {
        if long.capacity() > 0 {
            *long = Vec::new();
        }
        match self {
            ValueAt::Here(value) => Ok(value),
            ValueAt::Long(value) => value.read_into(long).map(|()| &long[..]),
        }
    }

    /// Whether both have the same bytes. Reads long values in parallel, piece by piece.
    pub fn equals(&self, other: &ValueAt<'_>) -> Result<bool> {
        let (one, other) = match (self, other) {
            (ValueAt::Here(one), ValueAt::Here(other)) => return Ok(one == other),
            (ValueAt::Long(one), ValueAt::Here(here)) | (ValueAt::Here(here), ValueAt::Long(one)) => {
                return one.is(here);
            }
            (ValueAt::Long(one), ValueAt::Long(other)) => (one, other),
        };
        if one.len() != other.len() {
            return Ok(false);
        }
        let mut stream = Stream::new(&other.file.pages, 0);
        let (mut at, mut outcome) = (other.at.start, Ok(true));
        one.pieces(|piece| {
            let to = at + piece.len() as u64;
            outcome = stream.bytes(at..to).map(|bytes| bytes == piece);
            at = to;
            matches!(outcome, Ok(true))
        })?;
        outcome
    }
}

impl LongValue<'_> {
    fn is(&self, bytes: &[u8]) -> Result<bool> {
        let mut rest = bytes;
        if self.len() != bytes.len() {
            return Ok(false);
        }
        self.pieces(|piece| match rest.split_at_checked(piece.len()) {
            Some((now, later)) if now == piece => {
                rest = later;
                true
            }
            _ => false,
        })?;
        Ok(rest.is_empty())
    }
}

impl DictionaryFile {
    /// Whether some values may be long. If not, [`long_value`](Self::long_value) finds none.
    #[inline]
    pub fn has_long_values(&self) -> bool {
        self.footer.value_len.1 as usize >= FAR_LEN_MIN
    }

    /// The value of `key` if it must be read piece by piece. `None` does not mean that the key is absent.
    pub fn long_value(&self, key: &[u8]) -> Result<Option<LongValue<'_>>> {
        if !self.has_long_values() || self.has_no_key_of(key.len()) {
            return Ok(None);
        }
        let position = self.position(key);
        if !self.may_have(position) {
            return Ok(None);
        }
        let query = Query { key, position, hash: &self.hash, expected: None };
        let pages = match self.pages_of(self.index.candidates(position)) {
            Some(pages) => pages,
            None => self.pages.of_stream(self.narrow(query)?),
        };
        if pages.end - pages.start <= PAGES_AT_ONCE_MAX {
            return Ok(None);
        }
        let at = self.long_in_stream(&self.stream_of(&pages), query)?;
        Ok(at.map(|at| LongValue { file: self, at }))
    }

    /// The location of the value of the record in `range` of the stream, if it is long and not compressed.
    fn long_in_stream(&self, range: &Range<u64>, query: Query<'_>) -> Result<Option<Range<u64>>> {
        let Some(mut at) = self.first_cell(range, &mut Scratch::default())? else { return Ok(None) };
        let mut stream = Stream::new(&self.pages, 0);
        while at < range.end {
            let cell = self.cell(&mut stream, at)?;
            let end = at + cell.bytes;
            let record = match cell.kind {
                CellKind::Record { .. } => Some(at),
                CellKind::Block(block) if self.format.ordered && block.position > query.position => return Ok(None),
                CellKind::Block(block) => {
                    let alone = block.records == 1 && block.stored_bytes == block.raw_bytes;
                    (alone && block.position == query.position).then_some(at + block::HEAD_BYTES as u64)
                }
            };
            if let Some(record) = record
                && let Some(value) = self.value_place(&mut stream, record..end.min(range.end), query.key)?
            {
                return Ok(Some(value).filter(|value| value.end - value.start >= FAR_LEN_MIN as u64));
            }
            at = end;
        }
        Ok(None)
    }

    /// The location of the value of the record that begins at the start of `range`, if it has `key` and lies within
    /// `range`.
    fn value_place(&self, stream: &mut Stream<'_>, range: Range<u64>, key: &[u8]) -> Result<Option<Range<u64>>> {
        let bytes = stream.some(range.start, record::HEAD_BYTES_MAX as u64)?;
        let Some((head, key_len, value_len)) = record::lengths(self.header.layout, bytes) else { return Ok(None) };
        let key_at = range.start + head as u64;
        let value_at = key_at + key_len as u64;
        let end = value_at + value_len as u64;
        let found = key_len == key.len() && end <= range.end && stream.bytes(key_at..value_at)? == key;
        Ok(found.then_some(value_at..end))
    }
}
