//! Rewriting a bucket: gathers its records from all its pages, and writes them to as few pages as they need.
//!
//! Used by splits, merges and compaction. The new overflow pages are written before the primary page refers to them,
//! and the old ones freed afterwards, so an error in between changes nothing.
//!
//! Not here: which records stay in a bucket (`split.rs`), bytes in a page (`page.rs`).

use super::gathered::{Gathered, Layout, Place};
use super::linear_hash::Buckets;
use super::overflow::OverflowPage;
use super::page::{self, Damage, PAIR_IN_EXTENT, Record};
use crate::error::Result;
use crate::linear;
use crate::pager::words::Bytes;
use crate::planted::{Bug, planted};

impl Buckets {
    /// Copies all records of the bucket with this primary page.
    pub(super) fn gather(&self, primary: &[u8], gathered: &mut Gathered) -> Result<()> {
        gathered.clear();
        self.gather_more(primary, gathered)
    }

    pub(super) fn gather_more(&self, primary: &[u8], gathered: &mut Gathered) -> Result<()> {
        gathered.add_page(primary).map_err(|d| self.damaged(d))?;
        if page::next(primary) == 0 {
            return Ok(());
        }
        self.walk_chain(page::next(primary), |overflow, bytes| {
            gathered.overflow_pages.push(overflow);
            gathered.add_page(bytes).map(|()| None::<()>).map_err(|d| self.damaged(d))
        })?;
        Ok(())
    }

    /// The hash of a record's key.
    #[inline(always)]
    pub(super) fn record_hash(&self, record: Record<'_>) -> Result<u64> {
        if record.form != PAIR_IN_EXTENT {
            return Ok(self.hash.hash_inlined(record.key));
        }
        self.stored_hash(record)
    }

    #[cold]
    fn stored_hash(&self, record: Record<'_>) -> Result<u64> {
        let hash = record.key.try_into().map_err(|_| self.pager.corrupt("a key's hash is not 8 bytes long"))?;
        Ok(u64::from_le_bytes(hash))
    }

    /// Calls `visit` with each gathered record, its bytes and its place.
    #[inline(always)]
    pub(super) fn each_record(
        &self,
        gathered: &Gathered,
        mut visit: impl FnMut(Record<'_>, &[u8], Place) -> Result<()>,
    ) -> Result<()> {
        for (start, page) in gathered.pages() {
            // Each record ends where the one before begins. If slots shared a record, a damaged page could expand to a
            // thousand.
            let mut end = page.len();
            for (tag, offset) in page::slots(page).map_err(|d| self.damaged(d))? {
                let (record, bytes) = page::record_and_bytes(page, offset).map_err(|d| self.damaged(d))?;
                if offset + bytes != end {
                    return Err(self.damaged(page::RECORDS_OVERLAP));
                }
                end = offset;
                // A page has at most 65536 bytes, and all pages together less than 2^32.
                let place = Place { start: (start + offset) as u32, bytes: bytes as u16, tag };
                visit(record, &page[offset..offset + bytes], place)?;
            }
        }
        Ok(())
    }

    /// Lays all records out in a primary page and as many overflow pages as they need, and writes the latter.
    pub(super) fn lay_out(&self, gathered: &Gathered, level: u32, layout: &mut Layout) -> Result<()> {
        let mut filling = Filling::new(layout, self.page_bytes);
        self.each_record(gathered, |_, raw, place| {
            filling.add(raw, place);
            Ok(())
        })?;
        self.finish(gathered, level, filling)
    }

    /// Lays the records out in two buckets, those that stay in the source of `split` and those that go to its new
    /// bucket. Calls the hash function; nothing is allocated before it has returned for all.
    pub(super) fn divide(
        &self,
        gathered: &Gathered,
        split: linear::Split,
        [old, added]: &mut [Layout; 2],
    ) -> Result<()> {
        let mut fillings = [Filling::new(old, self.page_bytes), Filling::new(added, self.page_bytes)];
        let mut drops = planted(Bug::SplitDropsRecord);
        self.each_record(gathered, |record, raw, place| {
            let moves = split.moves(self.record_hash(record)?);
            if moves && std::mem::take(&mut drops) {
                return Ok(());
            }
            // By index: half of the records move, and a branch would be mispredicted as often.
            fillings[usize::from(moves)].add(raw, place);
            Ok(())
        })?;
        let [stay, go] = fillings;
        self.finish(gathered, split.level(), stay)?;
        self.finish(gathered, split.level(), go).inspect_err(|_| self.free_overflow(&old.overflow_pages))
    }

    /// Writes the overflow pages, and completes the primary page.
    fn finish(&self, gathered: &Gathered, level: u32, filling: Filling<'_>) -> Result<()> {
        let Filling { page, filter, over, overflow_pages } = filling;
        let next = match self.lay_out_overflow(gathered, over, overflow_pages) {
            Ok(next) => next,
            Err(e) => {
                self.free_overflow(overflow_pages);
                return Err(e);
            }
        };
        page.finish(page::KIND_BUCKET, level, next, filter);
        Ok(())
    }

    /// Writes records to as many overflow pages as they need; returns the reference to the first.
    fn lay_out_overflow(
        &self,
        gathered: &Gathered,
        mut over: &[Place],
        overflow_pages: &mut Vec<OverflowPage>,
    ) -> Result<u64> {
        let frame_capacity = page::capacity(self.pager.frame_bytes());
        let mut next = 0;
        while !over.is_empty() {
            let mut used = 0;
            let mut count = 0;
            while let Some(&place) = over.get(count) {
                let bytes = usize::from(place.bytes) + page::SLOT_BYTES;
                if used + bytes > frame_capacity {
                    break;
                }
                used += bytes;
                count += 1;
            }
            if count == 0 {
                return Err(self.damaged(Damage("a record is larger than a page has room")));
            }
            let overflow = self.allocate_overflow(used)?;
            overflow_pages.push(overflow);
            let (mut frame, range) = self.write_overflow(overflow)?;
            let mut bytes = vec![0; range.len()];
            let mut page = page::Builder::new(&mut bytes);
            for &place in &over[..count] {
                assert!(page.add(place.tag, gathered.raw(place)), "the page was made large enough");
            }
            page.finish(page::KIND_OVERFLOW, 0, next, 0);
            frame.part(range).store(0, &bytes);
            next = overflow.to_bits();
            over = &over[count..];
        }
        Ok(next)
    }
}

/// A primary page that records are added to, and those that it has no room for.
struct Filling<'l> {
    page: page::Builder<'l>,
    filter: u64,
    over: &'l mut Vec<Place>,
    overflow_pages: &'l mut Vec<OverflowPage>,
}

impl<'l> Filling<'l> {
    fn new(Layout { primary, overflow_pages, over }: &'l mut Layout, page_bytes: usize) -> Self {
        primary.clear();
        primary.resize(page_bytes, 0);
        overflow_pages.clear();
        over.clear();
        Filling { page: page::Builder::new(primary), filter: 0, over, overflow_pages }
    }

    #[inline]
    fn add(&mut self, raw: &[u8], place: Place) {
        if !self.page.add(place.tag, raw) {
            self.filter |= page::filter_bits(place.tag);
            self.over.push(place);
        }
    }
}
