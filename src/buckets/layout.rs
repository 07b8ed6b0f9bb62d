//! Rewriting a bucket: gathers its records from all its pages, and writes them to as few pages as they need.
//!
//! Used by splits, merges and compaction. The new overflow pages are written before the primary page refers to them,
//! and the old ones freed afterwards, so an error in between changes nothing.
//!
//! Not here: which records stay in a bucket (`split.rs`), bytes in a page (`page.rs`).

use super::gathered::{Gathered, Layout};
use super::linear_hash::Buckets;
use super::overflow::OverflowPage;
use super::page::{self, Damage, PAIR_IN_EXTENT, Record};
use crate::error::Result;
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
            return Ok(self.hash.hash(record.key));
        }
        let hash = record.key.try_into().map_err(|_| self.pager.corrupt("a key's hash is not 8 bytes long"))?;
        Ok(u64::from_le_bytes(hash))
    }

    /// Lays the chosen records out in a primary page and as many overflow pages as they need, and writes the latter.
    pub(super) fn lay_out(
        &self,
        gathered: &Gathered,
        chosen: &[usize],
        level: u32,
        Layout { primary, overflow_pages, over }: &mut Layout,
    ) -> Result<()> {
        primary.clear();
        primary.resize(self.page_bytes, 0);
        overflow_pages.clear();
        over.clear();
        let mut filter = 0;
        let mut page = page::Builder::new(primary);
        for &index in chosen {
            let (tag, raw) = gathered.raw(index);
            if !page.add(tag, raw) {
                filter |= page::filter_bits(tag);
                over.push(index);
            }
        }
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
        mut over: &[usize],
        overflow_pages: &mut Vec<OverflowPage>,
    ) -> Result<u64> {
        let frame_capacity = page::capacity(self.pager.frame_bytes());
        let mut next = 0;
        while !over.is_empty() {
            let mut used = 0;
            let mut count = 0;
            while let Some(&index) = over.get(count) {
                let bytes = gathered.raw(index).1.len() + page::SLOT_BYTES;
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
            for &index in &over[..count] {
                let (tag, raw) = gathered.raw(index);
                assert!(page.add(tag, raw), "the page was made large enough");
            }
            page.finish(page::KIND_OVERFLOW, 0, next, 0);
            frame.part(range).store(0, &bytes);
            next = overflow.to_bits();
            over = &over[count..];
        }
        Ok(next)
    }
}
