//! The location of a bucket's page, and how a thread detects that the bucket was split, merged or moved.
//!
//! Pages of buckets that are created one after another are adjacent, in groups (`linear::group`); the header holds the
//! start of each group. A thread takes an address from the current [`View`], latches the frame, and compares the view
//! again.
//!
//! Source: docs/architecture.md, "Page addressing".

use super::bucket::{HashedKey, LatchedBucket};
use super::linear_hash::Buckets;
use super::{page, root};
use crate::error::{Error, ErrorKind, Result};
use crate::linear;
use crate::pager::FRAME_UNITS;
use crate::pager::interleave::step;
use crate::pager::pool::{FrameNo, FrameRef, ReadGuard};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// The number of buckets, and a version that changes when a bucket is merged away or moved, to distinguish it from a
/// later bucket of the same number. Packed into one integer, so that two views are compared with one instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct View(u64);

impl View {
    pub(super) fn new(max_bucket: linear::Bucket, version: u32) -> View {
        View(u64::from(version) << 32 | u64::from(max_bucket))
    }

    #[inline]
    pub(crate) fn max_bucket(self) -> linear::Bucket {
        self.0 as u32 // the lower half
    }

    #[inline]
    pub(crate) fn version(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(crate) fn linear(self) -> linear::State {
        linear::State::new(self.max_bucket())
    }

    /// Whether the bucket that an earlier view has for `hash` is still the one.
    #[cold]
    fn holds(self, earlier: View, hash: u64) -> bool {
        self.version() == earlier.version() && self.linear().bucket_of(hash) == earlier.linear().bucket_of(hash)
    }
}

/// The first bytes of a page: they hold the header and, in most pages of the usual size, all slots.
const SLOTS_BYTES: usize = 256;

/// Bytes of a page to prefetch for the lookup of one key. A page of usual size is prefetched whole: its lines are
/// adjacent, and the offset of the record need not be known. Of a larger page, only the header and the first slots are.
///
/// Not for batches of keys: a processor has few line buffers (10 to 16 in most), and one page takes them all.
pub(super) fn prefetch_bytes(page_bytes: usize) -> usize {
    const WHOLE_BYTES_MAX: usize = 1024;
    if page_bytes <= WHOLE_BYTES_MAX { page_bytes } else { SLOTS_BYTES }
}

/// The average page of this table. Batched lookups prefetch only this much: a processor has few line buffers, and an
/// unneeded line would displace a needed one.
#[derive(Clone, Copy)]
pub(crate) struct UsualPage {
    /// Bytes of the header and the slots.
    pub head_bytes: usize,
    /// Bytes of a record.
    pub record_bytes: usize,
}

/// A bucket and the address of its page at some moment.
#[derive(Clone, Copy)]
pub(crate) struct BucketAddress<'t> {
    pub view: View,
    pub bucket: linear::Bucket,
    pub number: FrameNo,
    pub frame: FrameRef<'t>,
    /// Offset of the page in the frame.
    pub start: usize,
}

impl Buckets {
    #[inline]
    pub(crate) fn view(&self) -> View {
        step();
        View(self.view.load(Acquire))
    }

    /// The current averages.
    pub(crate) fn usual_page(&self) -> UsualPage {
        let pairs = self.load.pairs().max(1);
        // Counts all pairs of a bucket. Those in overflow pages make up for pages with more than the average.
        let slots = (pairs / (u64::from(self.view().max_bucket()) + 1)).min(SLOTS_BYTES as u64) as usize;
        let head_bytes = page::HEADER_BYTES + (slots + 1) * page::SLOT_BYTES;
        let record_bytes = (self.load.bytes() / pairs) as usize;
        UsualPage { head_bytes: head_bytes.min(SLOTS_BYTES), record_bytes }
    }

    #[inline]
    pub(super) fn set_view(&self, view: View) {
        step();
        self.view.store(view.0, Release);
    }

    /// The frame of a bucket's primary page, and the page's offset in it.
    pub(crate) fn location(&self, bucket: linear::Bucket) -> (FrameNo, usize) {
        let (number, _, start) = self.place(bucket);
        (number, start)
    }

    /// The current address of the bucket of `hash`.
    #[inline]
    pub(crate) fn address(&self, hash: u64) -> BucketAddress<'_> {
        let view = self.view();
        let bucket = view.linear().bucket_of(hash);
        let (number, frame, start) = self.place(bucket);
        BucketAddress { view, bucket, number, frame, start }
    }

    #[inline]
    fn place(&self, bucket: linear::Bucket) -> (FrameNo, FrameRef<'_>, usize) {
        let (group, index) = linear::group(bucket);
        step();
        // A thread that loads a group's new address also sees the earlier stores: the copied pages, or the view without
        // the group.
        let group = self.groups[group % self.groups.len()].load(Acquire);
        self.pager.pool().place(group + u64::from(index) * self.page_bytes as u64)
    }

    /// Whether `view` is still correct for the bucket that it has for `hash`, and `hash` still belongs to it. Called
    /// under the latch of its frame.
    #[inline]
    pub(super) fn still_holds(&self, view: View, hash: u64) -> bool {
        // A thread that splits or merges a bucket holds its latch until the new view is published.
        let now = self.view();
        now == view || now.holds(view, hash)
    }

    /// Latches the bucket of `hash` for reading. The range is its primary page.
    #[inline]
    pub(super) fn read_bucket(&self, hash: u64) -> Result<(ReadGuard<'_>, Range<usize>)> {
        self.pager.refuse_if_forked()?;
        loop {
            let BucketAddress { view, number, frame, start, .. } = self.address(hash);
            let frame = self.pager.read_at(number, frame);
            // If the bucket has moved, not even an error counts: its old frame may have been cut off the file.
            if self.still_holds(view, hash) {
                return Ok((frame?, start..start + self.page_bytes));
            }
        }
    }

    /// Latches the bucket of `key` for a change. The address is what [`prefetch_bucket`](Self::prefetch_bucket)
    /// returned.
    #[inline(always)]
    pub(crate) fn latch<'t>(&'t self, key: HashedKey<'_>, mut address: BucketAddress<'t>) -> Result<LatchedBucket<'t>> {
        let frame = loop {
            let frame = self.pager.write_at(address.number, address.frame)?;
            if self.still_holds(address.view, key.hash) {
                break frame;
            }
            drop(frame);
            address = self.find_bucket_again(key.hash);
        };
        let mut bucket = LatchedBucket::new(self, address.bucket, frame, address.start);
        bucket.bucket().init_if_empty(|| address.view.linear().level(address.bucket));
        Ok(bucket)
    }

    #[cold]
    fn find_bucket_again(&self, hash: u64) -> BucketAddress<'_> {
        self.address(hash)
    }

    /// Prefetches the page of the bucket of `hash`.
    #[inline(always)] // the callers keep the parts in registers: 25 instructions fewer a write
    pub(crate) fn prefetch_bucket(&self, hash: u64) -> BucketAddress<'_> {
        let address = self.address(hash);
        address.frame.prefetch(address.start, self.prefetch_bytes);
        address
    }

    /// Prefetches header and slots of the page of the bucket of `hash`: the first step of batched writes, which may
    /// also add a slot after the last one.
    #[inline]
    pub(crate) fn prefetch_head(&self, hash: u64) -> BucketAddress<'_> {
        let address = self.address(hash);
        address.frame.prefetch_exactly(address.start, SLOTS_BYTES);
        address
    }

    /// Prefetches the usual length of header and slots in the page of the bucket of `hash`: the first step of batched
    /// lookups.
    #[inline]
    pub(crate) fn prefetch_slots(&self, hash: u64, usual: UsualPage) {
        let address = self.address(hash);
        address.frame.prefetch_exactly(address.start, usual.head_bytes);
    }

    /// Prefetches an overflow page.
    #[inline]
    pub(super) fn prefetch_page(&self, frame: FrameRef<'_>, page: Range<usize>) {
        frame.prefetch(page.start, prefetch_bytes(page.end - page.start));
    }

    /// The last of the groups that share the first frame.
    pub(super) fn groups_in_first_frame(&self) -> usize {
        root::groups_in_first_frame(self.pager.frame_bytes(), self.page_bytes)
    }

    /// Allocates the pages of the group of `bucket` if it is the group's first bucket. In the last quarter of a group
    /// it announces the next one, whose memory is then populated in advance.
    pub(super) fn allocate_group(&self, bucket: linear::Bucket) -> Result<()> {
        let (group, index) = linear::group(bucket);
        if index == 0 {
            self.pager.allocator().expect_frames(0);
            return self.allocate_group_number(group);
        }
        if index == linear::group_len(group) / 4 * 3 && group + 1 < linear::GROUP_COUNT {
            let bytes = u64::from(linear::group_len(group + 1)) * self.page_bytes as u64;
            self.pager.allocator().expect_frames(u32::try_from(bytes / self.pager.frame_bytes() as u64).unwrap_or(0));
        }
        Ok(())
    }

    pub(super) fn allocate_group_number(&self, group: usize) -> Result<()> {
        if self.groups[group].load(Relaxed) != 0 {
            return Ok(());
        }
        let units = u64::from(linear::group_len(group)) * self.page_bytes as u64 / self.pager.unit_bytes() as u64;
        let units = u32::try_from(units).map_err(|_| {
            Error::new(ErrorKind::DiskFull, format!("{}: no room for more buckets", self.pager.path().display()))
        })?;
        let unit = self.pager.allocate(units)?;
        step();
        self.groups[group].store(unit * self.pager.unit_bytes() as u64, Release);
        self.pager.allocator().fix((unit / u64::from(FRAME_UNITS)) as FrameNo, units / FRAME_UNITS);
        Ok(())
    }

    /// Frees the pages of the group of `bucket`, the last group, if it was the group's first bucket.
    pub(super) fn free_group(&self, bucket: linear::Bucket) -> Result<()> {
        let (group, index) = linear::group(bucket);
        if index == 0 && group > self.groups_in_first_frame() { self.free_group_number(group) } else { Ok(()) }
    }

    pub(super) fn free_group_number(&self, group: usize) -> Result<()> {
        let unit_bytes = self.pager.unit_bytes() as u64;
        let units = u64::from(linear::group_len(group)) * self.page_bytes as u64 / unit_bytes;
        step();
        let start = self.groups[group].swap(0, Release);
        if start == 0 {
            return Ok(());
        }
        self.pager.allocator().unfix((start / self.pager.frame_bytes() as u64) as FrameNo);
        self.pager.free(start / unit_bytes, units as u32)
    }
}
