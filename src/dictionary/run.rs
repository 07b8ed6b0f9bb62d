//! Several records in hash order, in memory. The sort and a walk over a dictionary produce runs; a merge and a writer
//! consume them.

use super::format::layout::Layout;
use std::ops::Range;

/// Bytes per run: enough that the overhead of a run does not matter, and few enough for the cache.
pub(crate) const RUN_BYTES: usize = 1 << 20;

/// A record; `None` as the value means a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
    /// The length of a value that is stored elsewhere: `value` is then its location, from [`Far::bytes`].
    pub far_len: Option<u32>,
}

/// Values of at least this many bytes are stored elsewhere while a dictionary is written or walked through, so that
/// none is held in memory unless a caller requests it.
pub(crate) const FAR_LEN_MIN: usize = if cfg!(test) { 1 << 14 } else { 1 << 20 };

/// The location of a value that is not in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    pub source: FarSource,
    pub offset: u64,
    /// The checksum of a value in a temporary file.
    pub checksum: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarSource {
    /// A file of values that have been pushed.
    Batch,
    /// The stream of the dictionary being updated.
    Old,
    /// The stream of a file that is being rewritten in another layout.
    Rewritten,
}

pub(crate) const FAR_BYTES: usize = 13;

impl Far {
    pub fn bytes(self) -> [u8; FAR_BYTES] {
        let mut bytes = [0; FAR_BYTES];
        bytes[0] = self.source as u8;
        bytes[1..9].copy_from_slice(&self.offset.to_le_bytes());
        bytes[9..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// Parses the result of [`bytes`](Self::bytes).
    pub fn parse(bytes: &[u8]) -> Far {
        let source = match bytes[0] {
            0 => FarSource::Batch,
            1 => FarSource::Old,
            _ => FarSource::Rewritten,
        };
        let offset = u64::from_le_bytes(bytes[1..9].try_into().expect("8 bytes"));
        let checksum = u32::from_le_bytes(bytes[9..FAR_BYTES].try_into().expect("4 bytes"));
        Far { source, offset, checksum }
    }
}

/// Records in ascending order of position, then key.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub positions: Vec<u64>,
    /// Keys and values, each value directly after its key. Bytes between records, if any, have no meaning.
    pub bytes: Vec<u8>,
    pub spans: Spans,
    /// Its share of the memory of the sort that made it.
    pub cost: u64,
}

/// The locations of a run's records in `bytes`.
#[derive(Clone, Debug)]
pub(crate) enum Spans {
    /// Consecutive, all of these lengths, none a deletion.
    Fixed { key_len: u32, value_len: u32 },
    /// At any locations.
    Varied(Vec<Span>),
}

impl Default for Spans {
    fn default() -> Self {
        Spans::Varied(Vec::new())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub key_len: u32,
    /// Length of the value, wherever it is.
    pub value_len: u32,
    pub kind: SpanKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// The value follows the key.
    Near,
    /// The key is deleted, and no value follows it.
    Deleted,
    /// The location of the value follows the key.
    Far,
}

impl Span {
    /// The span of a record whose key begins at `start`, followed by its value or the value's location.
    #[inline]
    pub fn of(record: Record<'_>, start: usize) -> Span {
        let (kind, value_len) = match (record.value, record.far_len) {
            (None, _) => (SpanKind::Deleted, 0),
            (_, Some(len)) => (SpanKind::Far, len),
            (Some(value), None) => (SpanKind::Near, value.len() as u32),
        };
        Span { start, key_len: record.key.len() as u32, value_len, kind }
    }

    /// The number of bytes after the key.
    #[inline]
    fn behind(&self) -> usize {
        match self.kind {
            SpanKind::Near => self.value_len as usize,
            SpanKind::Deleted => 0,
            SpanKind::Far => FAR_BYTES,
        }
    }

    /// The end of the record's bytes.
    #[inline]
    pub fn end(&self) -> usize {
        self.start + self.key_len as usize + self.behind()
    }
}

impl Run {
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Bytes of memory used by the records.
    pub fn memory_bytes(&self) -> u64 {
        let spans = if let Spans::Varied(spans) = &self.spans { size_of_val(&spans[..]) } else { 0 };
        (self.bytes.len() + size_of_val(&self.positions[..]) + spans) as u64
    }

    /// Removes the records and keeps the memory.
    pub fn clear(&mut self) {
        self.clear_for(None);
    }

    /// Removes the records and keeps the memory, for records of these lengths, or of any.
    pub fn clear_for(&mut self, lengths: Option<(u32, u32)>) {
        self.positions.clear();
        self.bytes.clear();
        match (lengths, &mut self.spans) {
            (Some((key_len, value_len)), spans) => *spans = Spans::Fixed { key_len, value_len },
            (None, Spans::Varied(spans)) => spans.clear(),
            (None, spans) => *spans = Spans::default(),
        }
    }

    /// Adds one record at the end, with the lengths that the run is for.
    pub fn push(&mut self, position: u64, key: &[u8], value: Option<&[u8]>) {
        self.push_record(position, Record { key, value, far_len: None });
    }

    pub fn push_record(&mut self, position: u64, record: Record<'_>) {
        self.positions.push(position);
        self.push_bytes(record);
    }

    /// [`push_record`](Self::push_record) without the position, if the positions have already been added.
    #[inline]
    pub fn push_bytes(&mut self, record: Record<'_>) {
        let value = record.value.unwrap_or_default();
        if let Spans::Varied(spans) = &mut self.spans {
            spans.push(Span::of(record, self.bytes.len()));
        }
        self.bytes.extend_from_slice(record.key);
        self.bytes.extend_from_slice(value);
    }

    /// Removes the last record, which must have been pushed.
    pub fn pop(&mut self) {
        let start = self.span(self.len() - 1).start;
        self.positions.pop();
        self.bytes.truncate(start);
        if let Spans::Varied(spans) = &mut self.spans {
            spans.pop();
        }
    }

    /// Moves the records from `from` on, which must have been pushed, to the end of `other`, which is for the same
    /// lengths.
    pub fn move_tail(&mut self, from: usize, other: &mut Run) {
        (from..self.len()).for_each(|index| other.push_record(self.positions[index], self.record(index)));
        while self.len() > from {
            self.pop();
        }
    }

    /// The layout for just these records; [`Layout::Varied`] if there are none.
    pub fn layout(&self) -> Layout {
        if self.is_empty() {
            return Layout::Varied;
        }
        let first = self.span(0);
        let same = |span: Span| (span.key_len, span.value_len) == (first.key_len, first.value_len);
        if matches!(self.spans, Spans::Fixed { .. }) || (1..self.len()).all(|index| same(self.span(index))) {
            return Layout::fixed(first.key_len, first.value_len);
        }
        Layout::Varied
    }

    #[inline]
    pub fn record(&self, index: usize) -> Record<'_> {
        let span = self.span(index);
        let far_len = (span.kind == SpanKind::Far).then_some(span.value_len);
        Record { key: self.key(index), value: self.value(index), far_len }
    }

    /// Appends records `range` of `other`.
    pub fn append(&mut self, other: &Run, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if self.is_empty()
            && let Spans::Fixed { .. } = other.spans
        {
            self.spans = other.spans.clone();
        }
        let fixed = |spans: &Spans| match spans {
            Spans::Fixed { key_len, value_len } => Some((*key_len, *value_len)),
            Spans::Varied(_) => None,
        };
        match (fixed(&self.spans), fixed(&other.spans)) {
            (Some(own), Some(others)) if own == others => {
                let record_bytes = own.0 as usize + own.1 as usize;
                self.bytes.extend_from_slice(&other.bytes[range.start * record_bytes..range.end * record_bytes]);
            }
            _ => self.append_spans(other, range.clone()),
        }
        self.positions.extend_from_slice(&other.positions[range]);
    }

    fn append_spans(&mut self, other: &Run, range: Range<usize>) {
        if let Spans::Fixed { key_len, value_len } = self.spans {
            let own = (key_len, value_len, SpanKind::Near);
            let spans = range.clone().map(|index| other.span(index));
            if spans.clone().all(|span| (span.key_len, span.value_len, span.kind) == own) {
                spans.for_each(|span| self.bytes.extend_from_slice(&other.bytes[span.start..span.end()]));
                return;
            }
            self.spans = Spans::Varied((0..self.len()).map(|index| self.span(index)).collect());
        }
        let Spans::Varied(spans) = &mut self.spans else { unreachable!("made so above") };
        for index in range {
            let span = other.span(index);
            spans.push(Span { start: self.bytes.len(), ..span });
            self.bytes.extend_from_slice(&other.bytes[span.start..span.end()]);
        }
    }

    #[inline]
    pub fn span(&self, index: usize) -> Span {
        match &self.spans {
            Spans::Fixed { key_len, value_len } => {
                let start = index * (*key_len as usize + *value_len as usize);
                Span { start, key_len: *key_len, value_len: *value_len, kind: SpanKind::Near }
            }
            Spans::Varied(spans) => spans[index],
        }
    }

    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        let span = self.span(index);
        &self.bytes[span.start..span.start + span.key_len as usize]
    }

    /// `None` for a deletion; the location of a value that is stored elsewhere.
    #[inline]
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        let span = self.span(index);
        let from = span.start + span.key_len as usize;
        (span.kind != SpanKind::Deleted).then(|| &self.bytes[from..span.end()])
    }

    /// Sorts the records by position and key, if they are not sorted already.
    pub fn sort(&mut self) {
        if self.positions.is_sorted() && self.positions.windows(2).all(|pair| pair[0] != pair[1]) {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|&a, &b| (self.positions[a], self.key(a)).cmp(&(self.positions[b], self.key(b))));
        let spans: Vec<Span> = order.iter().map(|&index| self.span(index)).collect();
        if matches!(self.spans, Spans::Fixed { .. }) {
            let bytes = spans
                .iter()
                .flat_map(|span| &self.bytes[span.start..span.start + span.key_len as usize + span.value_len as usize]);
            self.bytes = bytes.copied().collect();
        } else {
            self.spans = Spans::Varied(spans);
        }
        self.positions = order.iter().map(|&index| self.positions[index]).collect();
    }
}
