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
    spans: Vec<Span>,
    pub(super) overflow_pages: Vec<OverflowPage>,
}

/// Where a record is in the copied pages, and its lengths. Pages have at most 65536 bytes.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    bytes: u16,
    tag: u16,
    key_bytes: u16,
    head_bytes: u8,
    form: u8,
}

impl Gathered {
    /// Forgets all records, and keeps the memory unless it is that of an unusually large bucket.
    pub(super) fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 1 << 20;
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            *self = Gathered::default();
        }
        self.bytes.clear();
        self.spans.clear();
        self.overflow_pages.clear();
    }

    /// Adds the records of a page: its bytes, and the span of each record.
    pub(super) fn add_page(&mut self, page: &[u8]) -> std::result::Result<(), Damage> {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(page);
        if u32::try_from(self.bytes.len()).is_err() {
            return Err(Damage("a bucket of 4 GiB"));
        }
        // Records do not overlap. If slots shared one, a damaged page could expand to a thousand.
        let mut left = page.len();
        let slots = page::slots(page)?;
        self.spans.reserve(slots.len());
        for (tag, offset) in slots {
            let head = page::head_at(page, offset)?;
            let bytes = head.head_bytes + head.key_bytes + head.value_bytes;
            left = left.checked_sub(bytes).ok_or(page::RECORDS_OVERLAP)?;
            self.spans.push(Span {
                start: (base + offset) as u32,
                bytes: bytes as u16,
                tag,
                key_bytes: head.key_bytes as u16,
                head_bytes: head.head_bytes as u8,
                form: head.form,
            });
        }
        Ok(())
    }

    /// All records, with their tags and their bytes.
    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = (Record<'_>, u16, &[u8])> {
        self.spans.iter().map(|&span| {
            let raw = &self.bytes[span.start as usize..][..span.bytes.into()];
            let (key, value) = raw[span.head_bytes.into()..].split_at(span.key_bytes.into());
            (Record { form: span.form, key, value }, span.tag, raw)
        })
    }

    /// All records.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.all().map(|(record, _, _)| record)
    }

    /// The overflow pages they came from.
    pub(super) fn overflow_pages(&self) -> &[OverflowPage] {
        &self.overflow_pages
    }

    /// The tag and the bytes of a record.
    pub(super) fn raw(&self, index: usize) -> (u16, &[u8]) {
        let Span { start, bytes, tag, .. } = self.spans[index];
        (tag, &self.bytes[start as usize..][..bytes.into()])
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
    pub layouts: [Layout; 2],
}
