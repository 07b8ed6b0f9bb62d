//! All records of a dictionary, in hash order, piece by piece.
//!
//! If records are in hash order this is one pass over the stream. If the index uses another order inside its chunks,
//! each chunk is read whole and sorted, so memory is bounded by the largest chunk.

use super::cells::CellKind;
use super::file::DictionaryFile;
use super::pages::Stream;
use crate::dictionary::format::layout::{Compression, Layout, Order};
use crate::dictionary::format::{block, record};
use crate::dictionary::run::{FAR_LEN_MIN, Far, FarSource, RUN_BYTES, Record, Run, Span, SpanKind, Spans};
use crate::error::{Error, Result};
use std::ops::Range;

pub(crate) struct Walk<'d> {
    file: &'d DictionaryFile,
    stream: Stream<'d>,
    /// The offset in the stream at which the next cell begins.
    at: u64,
    /// The end of the walk: the stream's end, or the start of a cell.
    end: u64,
    /// Number of records returned so far.
    rank: u64,
    /// Position of the last record returned.
    last: u64,
    /// The records of the current block; those from `given` on have not been returned yet. Blocks and groups may end at
    /// different records.
    block: Run,
    block_at: Range<u64>,
    given: usize,
    raw: Vec<u8>,
    /// Only for checks: records are returned in stored order, and this has the location of each record's cell in the
    /// stream.
    cells: Option<Vec<Range<u64>>>,
    /// Bytes returned at a time.
    run_bytes: u64,
    /// If set, long values are not read, and are references into this source.
    far: Option<FarSource>,
    /// Whether it began at the first record, so that the number of records can be checked at the end.
    is_whole: bool,
}

impl<'d> Walk<'d> {
    pub fn new(file: &'d DictionaryFile) -> Self {
        Walk {
            file,
            stream: Stream::walk(&file.pages),
            at: 0,
            end: file.pages.stream_bytes(),
            rank: 0,
            last: 0,
            block: Run::default(),
            block_at: 0..0,
            given: 0,
            raw: Vec::new(),
            cells: None,
            run_bytes: RUN_BYTES as u64,
            far: None,
            is_whole: true,
        }
    }

    /// All records. Long values are not read: they are references into `source`.
    pub fn with_far_values(file: &'d DictionaryFile, source: FarSource) -> Self {
        Self::new(file).leaving_far_values(source)
    }

    /// The same records. Long values are not read: they are references into `source`.
    pub fn leaving_far_values(self, source: FarSource) -> Self {
        Walk { far: Some(source), ..self }
    }

    /// Records from the cell at `at` in the stream on, about `run_bytes` at a time. `rank` is that of the first record,
    /// if records are in chunks.
    pub fn part(file: &'d DictionaryFile, at: u64, rank: u64, run_bytes: u64) -> Self {
        let stream = Stream::new(&file.pages, run_bytes);
        Walk { stream, at, rank, run_bytes, is_whole: false, ..Self::new(file) }
    }

    /// Records in stored order, with their [`cells`](Self::cells).
    pub fn as_they_lie(file: &'d DictionaryFile) -> Self {
        Walk { cells: Some(Vec::new()), ..Self::new(file) }
    }

    /// Records in stored order, with their [`cells`](Self::cells), from the cells in `part` of the stream. `rank` is
    /// that of the first record, if records are in chunks.
    pub fn part_as_they_lie(file: &'d DictionaryFile, part: Range<u64>, rank: u64) -> Self {
        Walk { at: part.start, end: part.end, rank, is_whole: false, ..Self::as_they_lie(file) }
    }

    /// The location in the stream of the cell of each record in the last run.
    pub fn cells(&self) -> &[Range<u64>] {
        self.cells.as_deref().unwrap_or_default()
    }

    /// The rank of the next record.
    pub fn rank(&self) -> u64 {
        self.rank
    }

    /// Replaces the content of `run` with the next records; `false` at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io), and [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if bytes are not
    /// valid records, or records are not in order.
    pub fn next(&mut self, run: &mut Run) -> Result<bool> {
        run.clear();
        if let Some(cells) = &mut self.cells {
            cells.clear();
        }
        let group = self.group()?;
        match group {
            None => self.fill(run, self.run_bytes, u64::MAX)?,
            Some(ranks) => {
                self.fill(run, u64::MAX, ranks.end - ranks.start)?;
                if self.cells.is_none() {
                    run.sort();
                }
            }
        }
        self.rank += run.len() as u64;
        if run.is_empty() {
            return self.check_end().map(|()| false);
        }
        let sorted = self.cells.is_none() || self.file.header.order == Order::Hash;
        if sorted && (run.positions[0] < self.last || !run.positions.is_sorted()) {
            return Err(self.wrong("records are not in hash order"));
        }
        self.last = run.positions[run.len() - 1];
        Ok(true)
    }

    /// Replaces the content of `run` with the next records in stored order; `false` at the end.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next), except that any order is accepted.
    pub fn next_as_they_lie(&mut self, run: &mut Run) -> Result<bool> {
        run.clear();
        self.fill(run, self.run_bytes, u64::MAX)?;
        Ok(!run.is_empty())
    }

    /// The ranks that must be read and sorted together; `None` if there is no such restriction.
    fn group(&self) -> Result<Option<Range<u64>>> {
        if self.file.header.order == Order::Hash || self.rank >= self.file.footer.pairs {
            return Ok(None);
        }
        match self.file.index.group(self.rank) {
            Some(ranks) if ranks.start == self.rank && ranks.end > self.rank => Ok(Some(ranks)),
            _ => Err(self.wrong("the index that its records are ordered by is missing, or not its own")),
        }
    }

    fn check_end(&self) -> Result<()> {
        let is_all = self.rank == self.file.footer.pairs || !self.is_whole;
        if is_all && self.at == self.end {
            return Ok(());
        }
        Err(self.wrong(&format!("{} records, where the footer says {}", self.rank, self.file.footer.pairs)))
    }

    #[cold]
    fn wrong(&self, what: &str) -> Error {
        self.file.damaged_at(self.at.saturating_sub(1), what)
    }

    /// Adds records until `bytes_max` bytes or `records_max` records have been added.
    fn fill(&mut self, run: &mut Run, bytes_max: u64, records_max: u64) -> Result<()> {
        let header = &self.file.header;
        if let (Some(source), Compression::None, Layout::Fixed { key_len, value_len }) =
            (self.far, header.compression, header.layout)
            && value_len as usize >= FAR_LEN_MIN
        {
            return self.fill_far(run, (key_len, value_len), source, bytes_max, records_max);
        }
        match (header.compression, header.layout) {
            (Compression::None, Layout::Fixed { key_len, value_len }) => {
                self.fill_fixed(run, (key_len, value_len), bytes_max, records_max)
            }
            (Compression::None, Layout::Varied) => self.fill_varied(run, bytes_max, records_max),
            (Compression::Lz4, _) => self.fill_from_blocks(run, bytes_max, records_max),
        }
    }

    fn fill_fixed(
        &mut self,
        run: &mut Run,
        (key_len, value_len): (u32, u32),
        bytes_max: u64,
        records_max: u64,
    ) -> Result<()> {
        let record_bytes = u64::from(key_len) + u64::from(value_len);
        let left = self.end.saturating_sub(self.at) / record_bytes;
        let count = left.min((bytes_max / record_bytes).max(1)).min(records_max);
        let range = self.at..self.at + count * record_bytes;
        if let Some(cells) = &mut self.cells {
            cells.extend((0..count).map(|index| {
                let start = range.start + index * record_bytes;
                start..start + record_bytes
            }));
        }
        self.at = range.end;
        run.bytes.extend_from_slice(self.stream.bytes(range)?);
        run.spans = Spans::Fixed { key_len, value_len };
        let file = self.file;
        if key_len == 8 {
            // The key length is a constant for the hash function, which is then inlined without a branch on the length.
            let keys = run.bytes.chunks_exact(record_bytes as usize).map(|record| record.first_chunk::<8>());
            run.positions.extend(keys.flatten().map(|key| file.position(key)));
        } else {
            let records = run.bytes.chunks_exact(record_bytes as usize);
            run.positions.extend(records.map(|record| file.position(&record[..key_len as usize])));
        }
        Ok(())
    }

    /// Adds records of one size, without their values.
    fn fill_far(
        &mut self,
        run: &mut Run,
        (key_len, value_len): (u32, u32),
        source: FarSource,
        bytes_max: u64,
        records_max: u64,
    ) -> Result<()> {
        while (run.bytes.len() as u64) < bytes_max && (run.len() as u64) < records_max && self.at < self.end {
            let value_at = self.at + u64::from(key_len);
            let end = value_at + u64::from(value_len);
            self.push_far(run, self.at..value_at, value_len, source)?;
            self.note_cell(self.at..end);
            self.at = end;
        }
        Ok(())
    }

    /// Adds the record whose key is at `key` in the stream, directly followed by its value.
    fn push_far(&mut self, run: &mut Run, key: Range<u64>, value_len: u32, source: FarSource) -> Result<()> {
        let far = Far { source, offset: key.end, checksum: 0 };
        let key = self.stream.bytes(key)?;
        let position = self.file.position(key);
        run.push_record(position, Record { key, value: Some(&far.bytes()), far_len: Some(value_len) });
        Ok(())
    }

    /// Notes the cell of the record added last.
    fn note_cell(&mut self, cell: Range<u64>) {
        if let Some(cells) = &mut self.cells {
            cells.push(cell);
        }
    }

    /// Adds the record at `at` in the stream, if it is `bytes` long and its value should not be read.
    fn take_far(&mut self, run: &mut Run, at: u64, bytes: u64) -> Result<bool> {
        let Some(source) = self.far.filter(|_| bytes >= FAR_LEN_MIN as u64) else { return Ok(false) };
        let head = self.stream.some(at, record::HEAD_BYTES_MAX as u64)?;
        let Some((head, key_len, value_len)) = record::lengths(self.file.header.layout, head) else { return Ok(false) };
        if value_len < FAR_LEN_MIN || bytes != (head + key_len + value_len) as u64 {
            return Ok(false);
        }
        let key_at = at + head as u64;
        self.push_far(run, key_at..key_at + key_len as u64, value_len as u32, source)?;
        Ok(true)
    }

    fn fill_varied(&mut self, run: &mut Run, bytes_max: u64, records_max: u64) -> Result<()> {
        let file = self.file;
        let end = self.end;
        while (run.bytes.len() as u64) < bytes_max && (run.positions.len() as u64) < records_max && self.at < end {
            // Takes many records at a time that are entirely in memory, or a long one alone.
            let cell = file.cell(&mut self.stream, self.at)?;
            if self.take_far(run, self.at, cell.bytes)? {
                self.note_cell(self.at..self.at + cell.bytes);
                self.at += cell.bytes;
                continue;
            }
            let far = self.far.is_some();
            let some = self.stream.some(self.at, cell.bytes)?;
            let Spans::Varied(spans) = &mut run.spans else { unreachable!("a run that was cleared") };
            let (mut taken, base) = (0, run.bytes.len());
            while let Some(record) = record::parse(Layout::Varied, &some[taken..]) {
                if far && record.value.len() >= FAR_LEN_MIN {
                    // The next iteration takes it.
                    break;
                }
                let head = record.bytes - record.key.len() - record.value.len();
                let (key_len, value_len) = (record.key.len() as u32, record.value.len() as u32);
                spans.push(Span { start: base + taken + head, key_len, value_len, kind: SpanKind::Near });
                run.positions.push(file.position(record.key));
                if let Some(cells) = &mut self.cells {
                    cells.push(self.at + taken as u64..self.at + (taken + record.bytes) as u64);
                }
                taken += record.bytes;
                let full = taken as u64 >= bytes_max || run.positions.len() as u64 >= records_max;
                if full || self.at + taken as u64 >= end {
                    break;
                }
            }
            if taken == 0 {
                return Err(file.damaged_at(self.at, "a record's lengths cannot be"));
            }
            run.bytes.extend_from_slice(&some[..taken]);
            self.at += taken as u64;
        }
        Ok(())
    }

    fn fill_from_blocks(&mut self, run: &mut Run, bytes_max: u64, records_max: u64) -> Result<()> {
        while (run.bytes.len() as u64) < bytes_max && (run.positions.len() as u64) < records_max {
            if self.given == self.block.len() {
                if self.take_far_block(run)? {
                    continue;
                }
                if !self.next_block()? {
                    return Ok(());
                }
            }
            let Spans::Varied(spans) = &mut run.spans else { unreachable!("a run that was cleared") };
            let more = (records_max - run.positions.len() as u64).min((self.block.len() - self.given) as u64) as usize;
            let base = run.bytes.len();
            let first = self.block.span(self.given).start;
            let end = self.block.span(self.given + more - 1).end();
            run.bytes.extend_from_slice(&self.block.bytes[first..end]);
            for index in self.given..self.given + more {
                let span = self.block.span(index);
                spans.push(Span { start: base + span.start - first, ..span });
            }
            run.positions.extend_from_slice(&self.block.positions[self.given..self.given + more]);
            if let Some(cells) = &mut self.cells {
                cells.extend(std::iter::repeat_n(self.block_at.clone(), more));
            }
            self.given += more;
        }
        Ok(())
    }

    /// Takes the next block if it is a single uncompressed record whose value should not be read.
    fn take_far_block(&mut self, run: &mut Run) -> Result<bool> {
        if self.far.is_none() || self.at >= self.end {
            return Ok(false);
        }
        let cell = self.file.cell(&mut self.stream, self.at)?;
        let CellKind::Block(head) = cell.kind else { unreachable!("compressed cells are blocks") };
        if head.records != 1 || head.stored_bytes != head.raw_bytes {
            return Ok(false);
        }
        let taken = self.take_far(run, self.at + block::HEAD_BYTES as u64, head.raw_bytes)?;
        if taken {
            self.note_cell(self.at..self.at + cell.bytes);
            self.at += cell.bytes;
        }
        Ok(taken)
    }

    /// Unpacks the next block; `false` at the end.
    fn next_block(&mut self) -> Result<bool> {
        let file = self.file;
        if self.at >= self.end {
            return Ok(false);
        }
        let cell = file.cell(&mut self.stream, self.at)?;
        let CellKind::Block(head) = cell.kind else { unreachable!("compressed cells are blocks") };
        let bytes = self.stream.bytes(self.at..self.at + cell.bytes)?;
        let wrong = |what| file.damaged_at(self.at, what);
        let stored = &bytes[block::HEAD_BYTES..];
        let raw = block::unpack(&head, stored, file.format.block_bytes_max, &mut self.raw).map_err(wrong)?;
        self.block.clear();
        self.given = 0;
        let Spans::Varied(spans) = &mut self.block.spans else { unreachable!("a run that was cleared") };
        let mut taken = 0;
        while let Some(record) = record::parse(file.header.layout, &raw[taken..]) {
            taken += record.bytes;
            let (key_len, value_len) = (record.key.len(), record.value.len());
            let start = taken - key_len - value_len;
            spans.push(Span { start, key_len: key_len as u32, value_len: value_len as u32, kind: SpanKind::Near });
            self.block.positions.push(file.position(record.key));
            if taken == raw.len() {
                break;
            }
        }
        let whole = taken == raw.len() && self.block.positions.len() == head.records as usize;
        if !whole || self.block.positions[0] != head.position {
            return Err(wrong("a block does not hold the records that its head says"));
        }
        self.block.bytes.extend_from_slice(raw);
        self.block_at = self.at..self.at + cell.bytes;
        self.at += cell.bytes;
        Ok(true)
    }
}
