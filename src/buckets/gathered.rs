//! In-memory copies of a bucket's pages, and the buffers of a thread that rewrites buckets.
//!
//! One thread at a time changes the structure (`split.rs`), so it keeps its buffers from one change to the next.
//!
//! Not here: which pages they come from and go to (`layout.rs`).

use super::page::{Damage, OverflowPage, filter_bits};

/// The pages of a bucket, copied.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    /// The end of each page.
    ends: Vec<usize>,
    pub(super) overflow_pages: Vec<OverflowPage>,
}

/// The location of a record in the copied pages, and its tag. Pages have at most 65536 bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    pub start: u32,
    pub bytes: u16,
    pub tag: u16,
}

impl Gathered {
    /// Removes all pages. Keeps the buffer for the next bucket unless it is unusually large.
    pub(super) fn clear(&mut self) {
        const KEPT_BYTES_MAX: usize = 1 << 20;
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            *self = Gathered::default();
        }
        self.bytes.clear();
        self.ends.clear();
        self.overflow_pages.clear();
    }

    /// Adds a page.
    pub(super) fn add_page(&mut self, page: &[u8]) -> std::result::Result<(), Damage> {
        self.bytes.extend_from_slice(page);
        if u32::try_from(self.bytes.len()).is_err() {
            return Err(Damage("a bucket of 4 GiB"));
        }
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// The pages, and where each begins.
    pub(super) fn pages(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let page = (start, &self.bytes[start..end]);
            start = end;
            page
        })
    }

    /// The overflow pages they came from.
    pub(super) fn overflow_pages(&self) -> &[OverflowPage] {
        &self.overflow_pages
    }

    /// The bytes of a record.
    pub(super) fn raw(&self, place: Place) -> &[u8] {
        &self.bytes[place.start as usize..][..place.bytes.into()]
    }
}

/// A rewritten bucket: its overflow pages, and the records in them.
#[derive(Default)]
pub(super) struct Layout {
    pub overflow_pages: Vec<OverflowPage>,
    /// Records that do not fit the primary page.
    pub over: Vec<Place>,
    /// The bits of their tags.
    pub filter: u64,
    /// The content of the overflow page that is being written.
    pub bytes: Vec<u8>,
}

impl Layout {
    pub(super) fn clear(&mut self) {
        self.overflow_pages.clear();
        self.over.clear();
        self.filter = 0;
    }

    /// Adds a record that does not fit the primary page.
    pub(super) fn add_over(&mut self, place: Place) {
        self.filter |= filter_bits(place.tag);
        self.over.push(place);
    }
}

/// The buffers of a thread that changes the structure, kept for the next change.
#[derive(Default)]
pub(super) struct Workspace {
    pub gathered: Gathered,
    pub layouts: [Layout; 2],
    /// The primary pages of the layouts, one after another.
    pub primaries: Vec<u8>,
}
