//! Rewriting a bucket: gathers its records from all its pages, and writes them to as few pages as they need.
//!
//! Used by splits, merges and compaction. The new overflow pages are written before the primary page refers to them,
//! and the old ones freed afterwards, so an error in between changes nothing.
//!
//! Not here: which records stay in a bucket (`split.rs`), bytes in a page (`page.rs`).

use super::builder::{Builder, same_bytes};
use super::gathered::{Gathered, Layout, Place};
use super::linear_hash::Buckets;
use super::overflow::OverflowPage;
use super::page::{self, Damage, PAIR_IN_EXTENT, Record, Slot};
use crate::error::Result;
use crate::linear;
use crate::pager::words::Bytes;

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
    #[inline]
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

    /// Calls `visit` with each gathered record, its bytes and its location.
    #[inline]
    pub(super) fn each_record(
        &self,
        gathered: &Gathered,
        mut visit: impl FnMut(Record<'_>, &[u8], Place) -> Result<()>,
    ) -> Result<()> {
        for (start, page) in gathered.pages() {
            let slots = page::slots(page).map_err(|d| self.damaged(d))?;
            self.each_of(page, slots, page.len(), |record, raw, tag, offset| {
                // A page has at most 65536 bytes, and all pages together less than 2^32.
                visit(record, raw, Place { start: (start + offset) as u32, bytes: raw.len() as u16, tag })
            })?;
        }
        Ok(())
    }

    /// Calls `visit` with the records of some slots of a page, their bytes, tags and offsets. The first record ends at
    /// `end`. Returns the offset of the last one.
    #[inline]
    fn each_of(
        &self,
        page: &[u8],
        slots: &[Slot],
        mut end: usize,
        mut visit: impl FnMut(Record<'_>, &[u8], u16, usize) -> Result<()>,
    ) -> Result<usize> {
        for &slot in slots {
            let (tag, offset) = page::tag_and_offset(slot);
            // Each record must end where the one before begins. If slots could share a record, a damaged page could
            // expand to a thousand pages.
            let raw = page.get(offset..end).ok_or_else(|| self.damaged(page::RECORDS_OVERLAP))?;
            let record = page::record_of(raw).map_err(|d| self.damaged(d))?;
            end = offset;
            visit(record, raw, tag, offset)?;
        }
        Ok(end)
    }

    /// Lays all records out in a primary page, which replaces the content of `primary`, and in as many overflow pages
    /// as they need. Writes the overflow pages.
    pub(super) fn lay_out(
        &self,
        gathered: &Gathered,
        level: u32,
        layout: &mut Layout,
        primary: &mut Vec<u8>,
    ) -> Result<()> {
        layout.clear();
        let mut page = Builder::new(self.empty_pages(primary, 1));
        self.each_record(gathered, |_, raw, place| {
            if !page.add(place.tag, raw) {
                layout.add_over(place);
            }
            Ok(())
        })?;
        let next = self.lay_out_overflow(gathered, layout)?;
        page.finish(page::KIND_BUCKET, level, next, layout.filter);
        Ok(())
    }

    /// Lays the records out in two buckets: those that stay in the source of `split` and those that move to its new
    /// bucket. The two primary pages replace the content of `primaries`. Calls the hash function for every record
    /// before it allocates anything.
    pub(super) fn divide(
        &self,
        gathered: &Gathered,
        split: linear::Split,
        [old, added]: &mut [Layout; 2],
        primaries: &mut Vec<u8>,
    ) -> Result<()> {
        old.clear();
        added.clear();
        let (first, second) = self.empty_pages(primaries, 2).split_at_mut(self.page_bytes);
        let (mut stay, mut go) = (Builder::new(first), Builder::new(second));
        for (start, page) in gathered.pages() {
            let mut end = page.len();
            for slots in page::slots(page).map_err(|d| self.damaged(d))?.chunks(u64::BITS as usize) {
                // Three loops instead of one keep what each needs in registers. A branch per record would be
                // mispredicted for half of them, since half of the records move.
                let batch = Batch { page, start, slots, end, same_bytes: same_bytes(page, slots, end) };
                let moves;
                (moves, end) = self.moving(&batch, split)?;
                stay = batch.add_to(stay, !moves & u64::MAX >> (u64::BITS as usize - slots.len()), old);
                go = batch.add_to(go, moves, added);
            }
        }
        let old_next = self.lay_out_overflow(gathered, old)?;
        let added_next =
            self.lay_out_overflow(gathered, added).inspect_err(|_| self.free_overflow(&old.overflow_pages))?;
        stay.finish(page::KIND_BUCKET, split.level(), old_next, old.filter);
        go.finish(page::KIND_BUCKET, split.level(), added_next, added.filter);
        Ok(())
    }

    /// The records that move, one bit for each. Also returns the offset of the last one.
    fn moving(&self, batch: &Batch<'_>, split: linear::Split) -> Result<(u64, usize)> {
        let note = |moves: u64, hash: u64| moves >> 1 | split.moved(hash) << (u64::BITS - 1);
        let mut moves = 0;
        let end = match batch.same_records() {
            Some((key_bytes, records)) => {
                let keys = records.rchunks_exact(batch.same_bytes).map(|raw| &raw[2..2 + key_bytes]);
                moves = self.hash.fold_hashes(keys, key_bytes, moves, note);
                batch.end - records.len()
            }
            None => self.each_of(batch.page, batch.slots, batch.end, |record, _, _, _| {
                moves = note(moves, self.record_hash(record)?);
                Ok(())
            })?,
        };
        Ok((moves >> (u64::BITS as usize - batch.slots.len()), end))
    }

    /// Writes empty primary pages over all of `bytes`.
    fn empty_pages<'p>(&self, bytes: &'p mut Vec<u8>, count: usize) -> &'p mut [u8] {
        bytes.clear();
        bytes.resize(count * self.page_bytes, 0);
        bytes
    }

    /// Writes the records that do not fit in a primary page to overflow pages. Returns the reference to the first.
    /// After an error it frees these pages.
    fn lay_out_overflow(&self, gathered: &Gathered, layout: &mut Layout) -> Result<u64> {
        if layout.over.is_empty() {
            return Ok(0);
        }
        let Layout { over, overflow_pages, bytes, .. } = layout;
        self.write_over(gathered, over, bytes, overflow_pages).inspect_err(|_| self.free_overflow(overflow_pages))
    }

    /// Writes records to as many overflow pages as they need; returns the reference to the first. `bytes` is a buffer.
    fn write_over(
        &self,
        gathered: &Gathered,
        mut over: &[Place],
        bytes: &mut Vec<u8>,
        overflow_pages: &mut Vec<OverflowPage>,
    ) -> Result<u64> {
        let frame_capacity = page::capacity(self.pager.frame_bytes());
        let mut next = 0;
        while !over.is_empty() {
            let mut used = 0;
            let mut count = 0;
            while let Some(&place) = over.get(count) {
                let record_bytes = usize::from(place.bytes) + page::SLOT_BYTES;
                if used + record_bytes > frame_capacity {
                    break;
                }
                used += record_bytes;
                count += 1;
            }
            if count == 0 {
                return Err(self.damaged(Damage("a record is larger than a page has room")));
            }
            let overflow = self.allocate_overflow(used)?;
            overflow_pages.push(overflow);
            let mut latched = self.write_overflow(overflow)?;
            bytes.clear();
            bytes.resize(latched.len(), 0);
            let mut page = Builder::new(bytes);
            for &place in &over[..count] {
                assert!(page.add(place.tag, gathered.raw(place)), "the page was made large enough");
            }
            page.finish(page::KIND_OVERFLOW, 0, next, 0);
            latched.bytes_mut().store(0, bytes);
            next = overflow.to_bits();
            over = &over[count..];
        }
        Ok(next)
    }
}

/// At most 64 records of a page, divided together.
struct Batch<'p> {
    page: &'p [u8],
    /// The start of the page in the gathered bytes.
    start: usize,
    slots: &'p [Slot],
    /// The end of the first record.
    end: usize,
    /// The length of each record, if all have the same lengths of key and value; else 0.
    same_bytes: usize,
}

impl Batch<'_> {
    /// All records, if they have the same lengths and hold their keys: the key length, and the records' bytes, with the
    /// record of the first slot last.
    #[inline]
    fn same_records(&self) -> Option<(usize, &[u8])> {
        let records = &self.page[self.end - self.same_bytes * self.slots.len()..self.end];
        let head = page::head_at(records, 0).ok()?;
        (head.form != PAIR_IN_EXTENT).then_some((head.key_bytes, records))
    }

    /// Adds the records whose bits are set in `which` to a page, and those that do not fit to the layout's overflow
    /// records.
    fn add_to<'b>(&self, mut page: Builder<'b>, mut which: u64, layout: &mut Layout) -> Builder<'b> {
        if self.same_bytes > 0 {
            which = page.add_same(self.page, self.slots, self.same_bytes, which);
        }
        while which != 0 {
            let index = which.trailing_zeros() as usize;
            which &= which - 1;
            let (tag, offset) = page::tag_and_offset(self.slots[index]);
            let end = if index == 0 { self.end } else { page::tag_and_offset(self.slots[index - 1]).1 };
            let raw = &self.page[offset..end];
            if !page.add(tag, raw) {
                // A page has at most 65536 bytes, and all pages together less than 2^32.
                layout.add_over(Place { start: (self.start + offset) as u32, bytes: raw.len() as u16, tag });
            }
        }
        page
    }
}
