//! The records of a bucket in memory, and what a thread that rewrites buckets works with.
//!
//! One thread at a time changes the structure (`split.rs`), so it keeps its buffers from one change to the next.
//!
//! Not here: which pages they come from and go to (`layout.rs`).

use super::page::{self, Damage, OverflowPage, Record};

/// The records of a bucket, copied from its pages.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    records: Vec<RecordSpan>,
    pub(super) overflow_pages: Vec<OverflowPage>,
}

/// Where a record, its key and its value begin in a copy of its page, and where it ends.
struct RecordSpan {
    tag: u16,
    form: u8,
    start: usize,
    key: usize,
    value: usize,
    end: usize,
}

impl Gathered {
    /// Forgets all records, and keeps the memory unless it is that of an unusually large bucket.
    pub(super) fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 1 << 20;
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            *self = Gathered::default();
        }
        self.bytes.clear();
        self.records.clear();
        self.overflow_pages.clear();
    }

    /// Adds the records of a page: its bytes, and the range of each record.
    pub(super) fn add_page(&mut self, page: &[u8]) -> std::result::Result<(), Damage> {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(page);
        // Records do not overlap. If slots shared one, a damaged page could expand to a thousand.
        let mut left = page.len();
        for (tag, offset) in page::slots(page)? {
            let head = page::head_at(page, offset)?;
            let start = base + offset;
            let key = start + head.head_bytes;
            let value = key + head.key_bytes;
            let end = value + head.value_bytes;
            left = left.checked_sub(end - start).ok_or(page::RECORDS_OVERLAP)?;
            self.records.push(RecordSpan { tag, form: head.form, start, key, value, end });
        }
        Ok(())
    }

    /// The number of records.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// All records.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.records.iter().map(|&RecordSpan { form, key, value, end, .. }| Record {
            form,
            key: &self.bytes[key..value],
            value: &self.bytes[value..end],
        })
    }

    /// The overflow pages they came from.
    pub(super) fn overflow_pages(&self) -> &[OverflowPage] {
        &self.overflow_pages
    }

    pub(super) fn raw(&self, index: usize) -> (u16, &[u8]) {
        let RecordSpan { tag, start, end, .. } = self.records[index];
        (tag, &self.bytes[start..end])
    }
}

/// A rewritten bucket: its primary page, and the place of its overflow pages.
#[derive(Default)]
pub(super) struct Layout {
    pub primary: Vec<u8>,
    pub overflow_pages: Vec<OverflowPage>,
    /// Records that do not fit the primary page.
    pub over: Vec<usize>,
}

/// What a thread that changes the structure works with, kept for the next change.
#[derive(Default)]
pub(super) struct Workspace {
    pub gathered: Gathered,
    /// The records that stay in the source of a split, and those that go to the new bucket.
    pub stay: Vec<usize>,
    pub go: Vec<usize>,
    pub layouts: [Layout; 2],
}
