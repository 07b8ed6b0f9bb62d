//! Splits and their reverse: how the table grows and shrinks by one bucket at a time.
//!
//! Hybrid, as in the paper: a table grows when its load passes the fill factor (controlled) or when a bucket needs a
//! second overflow page (uncontrolled), always by the bucket whose turn it is, at most once a write. It shrinks when
//! the load falls below half of that, which the paper's could not.
//!
//! ```text
//! split  source -> gather its records -> hash each key -> stay or move -> lay out both -> write overflow pages
//!        -> both primary pages -> max_bucket + 1 -> free the old overflow pages
//! ```
//!
//! Nothing of the table changes until all that can fail, the user's hash function among it, is over.
//!
//! Source: Seltzer & Yigit 1991, "The New Implementation". Not here: the arithmetic (`linear.rs`).

use super::chain::{Block, Bucket};
use super::gate::Delta;
use super::page::{self, Damage, PAIR_IN_EXTENT, Record};
use super::{Table, View};
use crate::error::Result;
use crate::linear;
use crate::pager::interleave::step;
use crate::pager::words::Bytes;
use crate::planted::{Bug, planted};
use std::ops::Range;
use std::sync::atomic::Ordering::*;
use std::sync::{MutexGuard, TryLockError};

/// The records of a bucket, copied out of their pages as they lie there.
#[derive(Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    records: Vec<(u16, Range<usize>)>,
    blocks: Vec<Block>,
}

impl Gathered {
    /// Adds the records of a page: its bytes as they are, and where in them each record is.
    fn add_page(&mut self, page: &[u8]) -> std::result::Result<(), Damage> {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(page);
        page::check_slots(page)?;
        // Records lie apart. Where slots share one, this page could become a thousand.
        let mut left = page.len();
        for slot in 0..page::slot_count(page) {
            let range = page::record_range(page, slot)?;
            left = left.checked_sub(range.len()).ok_or(page::RECORDS_OVERLAP)?;
            self.records.push((page::slot_tag(page, slot), base + range.start..base + range.end));
        }
        Ok(())
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// All records.
    pub(super) fn records(&self) -> impl Iterator<Item = std::result::Result<Record<'_>, Damage>> {
        (0..self.records.len()).map(|index| page::parse_raw(self.raw(index).1))
    }

    /// The overflow pages they came from.
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn raw(&self, index: usize) -> (u16, &[u8]) {
        let (tag, range) = &self.records[index];
        (*tag, &self.bytes[range.clone()])
    }
}

/// A bucket laid out anew: its primary page, and where its overflow pages were written.
pub(super) struct Layout {
    pub primary: Vec<u8>,
    pub blocks: Vec<Block>,
}

impl Table {
    /// Grows or shrinks by one bucket if the load asks for it. Gives up when others are at it.
    pub(super) fn adjust(&self, delta: Delta) -> Result<()> {
        if delta.pairs < 0 {
            if self.wants_merge() {
                self.merge()?;
            }
        } else if self.wants_split(delta.long_chain) {
            self.split()?;
        }
        Ok(())
    }

    #[inline]
    fn wants_split(&self, long_chain: bool) -> bool {
        let view = self.view();
        let buckets = u64::from(view.max_bucket) + 1;
        let (load, limit) = self.load(buckets);
        // A chain of equal hashes cannot be split away: the table grows for it to twice the size, no more.
        load > limit || long_chain && load > limit / 2
    }

    /// The load and the load at which a table of so many buckets grows, in the unit in use: pairs or bytes.
    #[inline]
    fn load(&self, buckets: u64) -> (u64, u64) {
        let (pairs, bytes) = self.gate.load();
        match self.fill_factor {
            Some(limit) => (pairs, buckets.saturating_mul(u64::from(limit))),
            None => {
                let capacity = page::capacity(self.page_bytes) as u64;
                (bytes, buckets.saturating_mul(capacity) * u64::from(self.fill_percent) / 100)
            }
        }
    }

    /// Does the load call for a bucket less?
    #[inline]
    pub(super) fn wants_merge(&self) -> bool {
        let view = self.view();
        if view.max_bucket <= self.min_max_bucket.load(Relaxed) {
            return false;
        }
        let (load, limit) = self.load(u64::from(view.max_bucket));
        load < limit / 2
    }

    /// Grows the table, as far as that can be had without waiting, for pairs that are about to come.
    pub(super) fn grow_for(&self, bytes: u64, pairs: u64) {
        let wants_more = || {
            let (load, limit) = self.load(u64::from(self.view().max_bucket) + 1);
            let more = if self.fill_factor.is_some() { pairs } else { bytes };
            load + more > limit
        };
        while wants_more() && self.split().unwrap_or(false) {}
    }

    fn try_structure(&self) -> Option<MutexGuard<'_, ()>> {
        step();
        match self.structure.try_lock() {
            Ok(guard) => Some(guard),
            // The user's hash function panicked in an earlier split, which changed nothing.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Splits the bucket whose turn it is. `false` where another is at it.
    fn split(&self) -> Result<bool> {
        let Some(_structure) = self.try_structure() else { return Ok(false) };
        let view = self.view();
        if view.max_bucket == u32::MAX {
            return Ok(false);
        }
        let new = view.max_bucket + 1;
        self.allocate_group(new)?;
        let number = linear::split_source(new);
        let (source_frame, source_start) = self.location(number);
        let (target_frame, target_start) = self.location(new);
        let Some(frame) = self.pager.try_write(source_frame)? else { return Ok(false) };
        let mut target = if target_frame == source_frame {
            None
        } else {
            let Some(target) = self.pager.try_write(target_frame)? else { return Ok(false) };
            Some(target)
        };
        let mut source = Bucket { table: self, frame, start: source_start };
        let level = linear::level(number, new);
        let gathered = self.gather(source.page())?;
        if planted(Bug::SplitFreesFirst) {
            self.free_blocks(&gathered.blocks);
        }
        let (stay, go) = self.divide(&gathered, number, level)?;
        let stay = self.lay_out(&gathered, &stay, level)?;
        let go = self.lay_out(&gathered, &go, level).inspect_err(|_| self.free_blocks(&stay.blocks))?;

        // Nothing fails from here on, and under the latches nobody follows the old pages: the order of the steps is free.
        source.page_mut().store(0, &stay.primary);
        let frame = target.as_mut().unwrap_or(&mut source.frame);
        frame.part(target_start..target_start + self.page_bytes).store(0, &go.primary);
        self.set_view(View { max_bucket: new, ..view });
        drop(target);
        if !planted(Bug::SplitFreesFirst) {
            self.free_blocks(&gathered.blocks);
        }
        drop(source);
        self.live.splits.fetch_add(1, Relaxed);
        self.prefetch_split(new);
        Ok(true)
    }

    /// Asks for the pages of the split after that of `new`: splits go in order, so they are known.
    fn prefetch_split(&self, new: linear::Bucket) {
        // A larger page is fetched faster than it is split, and would push others out.
        const PAGE_BYTES_MAX: usize = 4096;
        let next = new.saturating_add(1);
        if self.page_bytes > PAGE_BYTES_MAX || linear::group(next).1 == 0 {
            return; // or its group is not there yet
        }
        for bucket in [linear::split_source(next), next] {
            let (frame, start) = self.location(bucket);
            self.pager.pool().prefetch(frame, start, self.page_bytes);
        }
    }

    /// Puts the last bucket back into the one it came of. `false` where another is at it.
    pub(super) fn merge(&self) -> Result<bool> {
        let Some(_structure) = self.try_structure() else { return Ok(false) };
        let view = self.view();
        if view.max_bucket == 0 {
            return Ok(false);
        }
        let last = view.max_bucket;
        let number = linear::split_source(last);
        let (target_frame, target_start) = self.location(number);
        let (last_frame, last_start) = self.location(last);
        let Some(mut target) = self.pager.try_write(target_frame)? else { return Ok(false) };
        let mut source = if last_frame == target_frame {
            None
        } else {
            let Some(source) = self.pager.try_write(last_frame)? else { return Ok(false) };
            Some(source)
        };
        let range = last_start..last_start + self.page_bytes;
        let mut gathered = self.gather(&target[target_start..target_start + self.page_bytes])?;
        self.gather_more(&source.as_ref().unwrap_or(&target)[range.clone()], &mut gathered)?;
        let level = linear::level(number, last - 1);
        let all: Vec<usize> = (0..gathered.len()).collect();
        let laid_out = self.lay_out(&gathered, &all, level)?;

        target.part(target_start..target_start + self.page_bytes).store(0, &laid_out.primary);
        source.as_mut().unwrap_or(&mut target).part(range).fill(0..self.page_bytes, 0);
        // A new version: a reader that still looks at the bucket that is no more notices, even if it comes back.
        let next = u32::from(!planted(Bug::MergeKeepsVersion));
        self.set_view(View { max_bucket: last - 1, version: view.version.wrapping_add(next) });
        drop((source, target));
        self.free_blocks(&gathered.blocks);
        self.free_group(last)?;
        self.live.contractions.fetch_add(1, Relaxed);
        Ok(true)
    }

    /// Copies all records of the bucket with this primary page.
    pub(super) fn gather(&self, primary: &[u8]) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        gathered.bytes.reserve(2 * self.page_bytes);
        gathered.records.reserve(64);
        self.gather_more(primary, &mut gathered)?;
        Ok(gathered)
    }

    fn gather_more(&self, primary: &[u8], gathered: &mut Gathered) -> Result<()> {
        gathered.add_page(primary).map_err(|d| self.damaged(d))?;
        self.walk_chain(page::next(primary), |block, bytes| {
            gathered.blocks.push(block);
            gathered.add_page(bytes).map(|()| None::<()>).map_err(|d| self.damaged(d))
        })?;
        Ok(())
    }

    /// Which records stay in `bucket` when `level` bits count, and which go. Calls the hash function.
    fn divide(&self, gathered: &Gathered, bucket: linear::Bucket, level: u32) -> Result<(Vec<usize>, Vec<usize>)> {
        let mut stay = Vec::with_capacity(gathered.records.len());
        let mut go = Vec::with_capacity(gathered.records.len());
        for (index, record) in gathered.records().enumerate() {
            let h = self.record_hash(record.map_err(|d| self.damaged(d))?)?;
            if linear::belongs(h, bucket, level) { stay.push(index) } else { go.push(index) }
        }
        if planted(Bug::SplitDropsRecord) {
            go.pop();
        }
        Ok((stay, go))
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

    /// Lays the chosen records out in a primary page and as many overflow pages as they need, the latter written.
    pub(super) fn lay_out(&self, gathered: &Gathered, chosen: &[usize], level: u32) -> Result<Layout> {
        let mut layout = Layout { primary: vec![0; self.page_bytes], blocks: Vec::new() };
        let mut filter = 0;
        let mut over = Vec::new();
        let mut page = page::Builder::new(&mut layout.primary);
        for &index in chosen {
            let (tag, raw) = gathered.raw(index);
            if !page.add(tag, raw) {
                filter |= page::filter_bits(tag);
                over.push(index);
            }
        }
        let next = match self.lay_out_overflow(gathered, &over, &mut layout.blocks) {
            Ok(next) => next,
            Err(e) => {
                self.free_blocks(&layout.blocks);
                return Err(e);
            }
        };
        page.finish(page::KIND_BUCKET, level, next, filter);
        Ok(layout)
    }

    /// Writes records to as many overflow pages as they need; gives the reference to the first.
    fn lay_out_overflow(&self, gathered: &Gathered, mut over: &[usize], blocks: &mut Vec<Block>) -> Result<u64> {
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
            let block = self.allocate_block(used)?;
            blocks.push(block);
            let (mut frame, range) = self.write_block(block)?;
            let mut bytes = vec![0; range.len()];
            let mut page = page::Builder::new(&mut bytes);
            for &index in &over[..count] {
                let (tag, raw) = gathered.raw(index);
                assert!(page.add(tag, raw), "the page was made large enough");
            }
            page.finish(page::KIND_OVERFLOW, 0, next, 0);
            frame.part(range).store(0, &bytes);
            next = block.to_bits();
            over = &over[count..];
        }
        Ok(next)
    }

    /// Frees overflow pages that nothing refers to any more. An error loses their room until the next compaction, no
    /// pair, so it does not undo what is done.
    pub(super) fn free_blocks(&self, blocks: &[Block]) {
        for block in blocks {
            let _ = self.pager.free(block.unit, block.len);
        }
    }
}
