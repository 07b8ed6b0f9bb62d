//! Buckets as they were before a batch: what undoing the batch needs, in memory.
//!
//! ```text
//! first change of a bucket   copy its pages
//! every change               new units are noted; older ones that are replaced stay allocated, with their content
//! commit                     free the replaced units
//! put back                   copy the pages back, then free the new units
//! ```
//!
//! So undoing allocates nothing on the disk. Values in extents are not copied: a batch overwrites none of them in
//! place, and what it appends is behind their ends.
//!
//! Not here: the units (`batch_units.rs`), which buckets, and their latches (`table/batch.rs`).

use super::batch_units::BatchUnits;
use super::bucket::Bucket;
use super::page::{self, HEADER_BYTES, OverflowPage, SLOT_BYTES};
use crate::error::Result;
use crate::linear;
use crate::pager::words::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// The buckets that a batch has changed so far, as they were before it.
#[derive(Default)]
pub(crate) struct Before {
    /// The pages of each bucket.
    buckets: BTreeMap<linear::Bucket, Range<usize>>,
    pages: Vec<PageCopy>,
    /// Their headers, slots and records.
    bytes: Vec<u8>,
    pub units: BatchUnits,
}

/// The copy of a page without its gap.
struct PageCopy {
    /// The primary page if `None`.
    overflow: Option<OverflowPage>,
    bytes: Range<usize>,
}

impl Before {
    /// Copies the bucket, unless it was copied before.
    ///
    /// # Errors
    /// A failure to read its overflow pages; nothing has changed then.
    pub(crate) fn keep(&mut self, bucket: &Bucket<'_>) -> Result<()> {
        let Before { buckets, pages, bytes, .. } = self;
        let Entry::Vacant(place) = buckets.entry(bucket.number()) else { return Ok(()) };
        let first = pages.len();
        let mut copy = |overflow, page: &[u8]| {
            page::gap_bytes(page).map_err(|d| bucket.buckets.damaged(d))?;
            let start = bytes.len();
            bytes.extend_from_slice(&page[..slots_end(page)]);
            bytes.extend_from_slice(&page[page.len() - page::heap_bytes(page)..]);
            pages.push(PageCopy { overflow, bytes: start..bytes.len() });
            Ok(None::<()>)
        };
        copy(None, bucket.page())?;
        bucket.buckets.walk_chain(page::next(bucket.page()), |overflow, page| copy(Some(overflow), page))?;
        place.insert(first..pages.len());
        Ok(())
    }

    /// The buckets that were copied.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = linear::Bucket> {
        self.buckets.keys().copied()
    }

    /// Makes the bucket what it was.
    ///
    /// # Errors
    /// A failure to read a frame that was evicted.
    pub(crate) fn put_back(&self, bucket: &mut Bucket<'_>) -> Result<()> {
        let pages = self.buckets.get(&bucket.number()).cloned().unwrap_or_default();
        for PageCopy { overflow, bytes } in &self.pages[pages] {
            let copy = &self.bytes[bytes.clone()];
            match overflow {
                None => store(&mut bucket.page_mut(), copy),
                Some(overflow) => store(&mut bucket.buckets.write_overflow(*overflow)?.bytes_mut(), copy),
            }
        }
        bucket.buckets.note_expected(bucket.number(), bucket.page());
        Ok(())
    }
}

/// The end of a page's slots.
fn slots_end(page: &[u8]) -> usize {
    HEADER_BYTES + page::slot_count(page) * SLOT_BYTES
}

/// Writes a copy of a page over what the page is now.
fn store(page: &mut impl Bytes, copy: &[u8]) {
    let (slots, records) = copy.split_at(slots_end(copy));
    let records_start = page.len() - records.len();
    page.store(records_start, records);
    page.store(0, slots);
}
