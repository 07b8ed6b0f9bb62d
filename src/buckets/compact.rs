//! Compaction of buckets: trims overflow pages and extents and moves them toward the start of the file.
//!
//! Not here: the order of the steps, and what is kept out during each (`table/compact.rs`).

use super::address::View;
use super::bucket::LatchedBucket;
use super::extent::Extent;
use super::gathered::Workspace;
use super::linear_hash::Buckets;
use super::overflow::OverflowPage;
use super::page::{self, Found, INLINE, Record};
use crate::error::Result;
use crate::linear;
use crate::pager::FRAME_UNITS;
use crate::pager::interleave::step;
use crate::pager::pool::lock_without_values;
use crate::pager::words::Bytes;
use crate::planted::{Bug, planted};
use std::sync::atomic::Ordering::*;

impl Buckets {
    /// Rewrites one bucket: its overflow pages and extents take only the room they need, as near the start as
    /// possible.
    pub(crate) fn compact_bucket(&self, number: linear::Bucket) -> Result<()> {
        let mut workspace = lock_without_values(&self.structure)?;
        let Workspace { gathered, layouts: [layout, _], primaries } = &mut *workspace;
        if number > self.view().max_bucket() {
            return Ok(());
        }
        let (frame, start) = self.location(number);
        let mut bucket = LatchedBucket::new(self, self.pager.write(frame)?, start);
        if page::kind(bucket.page()) == page::KIND_EMPTY {
            return Ok(());
        }
        self.move_extents(&mut bucket)?;
        self.gather(bucket.page(), gathered)?;
        if gathered.overflow_pages().is_empty() {
            return Ok(());
        }
        self.lay_out(gathered, page::level(bucket.page()), layout, primaries)?;
        bucket.primary.bytes_mut().store(0, primaries);
        self.free_overflow(gathered.overflow_pages());
        Ok(())
    }

    /// Moves the bucket's extents where that saves space or brings them nearer the start.
    fn move_extents(&self, bucket: &mut LatchedBucket<'_>) -> Result<()> {
        let mut places: Vec<(Option<OverflowPage>, Found, u8, Extent)> = Vec::new();
        let mut note = |overflow: Option<OverflowPage>, bytes: &[u8]| {
            for (slot, record) in page::records(bytes).enumerate() {
                let (_, record): (u16, Record<'_>) = record.map_err(|d| self.damaged(d))?;
                if record.form != INLINE {
                    let found = Found::at(bytes, slot).map_err(|d| self.damaged(d))?;
                    places.push((overflow, found, record.form, self.parse_extent(record)?));
                }
            }
            Ok::<(), crate::Error>(())
        };
        note(None, bucket.page())?;
        self.walk_chain(page::next(bucket.page()), |overflow, bytes| note(Some(overflow), bytes).map(|()| None::<()>))?;
        for (overflow, found, form, extent) in places {
            let Some(moved) = self.moved_extent(&extent)? else { continue };
            // The reference keeps its length, so the record is changed in place.
            let replaced = match overflow {
                None => page::replace_found(&mut bucket.primary.bytes_mut(), found, form, &moved.to_bytes()),
                Some(overflow) => {
                    let mut page = self.write_overflow(overflow)?;
                    page::replace_found(&mut page.bytes_mut(), found, form, &moved.to_bytes())
                }
            };
            // A value of the same length always fits, unless the page changed after it was read: marked free in a
            // damaged file and overwritten just now.
            if replaced != Ok(true) {
                return Err(self.pager.corrupt(format!("extent at unit {}: its record is gone", extent.unit)));
            }
            self.free_extent(&extent);
        }
        Ok(())
    }

    /// A copy of the extent that is smaller or nearer the start, if there is room for one.
    fn moved_extent(&self, extent: &Extent) -> Result<Option<Extent>> {
        let capacity = (extent.content_bytes().div_ceil(self.pager.unit_bytes() as u64) as u32).max(1);
        let new = Extent { unit: self.pager.allocate(capacity)?, capacity, ..*extent };
        if capacity == extent.capacity && new.unit > extent.unit {
            self.free_extent(&new);
            return Ok(None);
        }
        if let Err(e) = self.copy_extent(extent, &new) {
            self.free_extent(&new);
            return Err(e);
        }
        Ok(Some(new))
    }

    /// The groups in frames of their own, which can move.
    pub(crate) fn movable_groups(&self) -> std::ops::Range<usize> {
        self.groups_in_first_frame() + 1..linear::GROUP_COUNT
    }

    /// Moves a group of buckets to free space nearer the start, if there is any. The caller keeps writers out: the
    /// pages of a group are found by arithmetic, so none may be in use while it moves.
    pub(crate) fn move_group(&self, group: usize) -> Result<()> {
        let old = self.groups[group].load(Relaxed);
        if old == 0 || group > linear::group(self.view().max_bucket()).0 {
            return Ok(());
        }
        let unit_bytes = self.pager.unit_bytes() as u64;
        let bytes = u64::from(linear::group_len(group)) * self.page_bytes as u64;
        let frame_bytes = self.pager.frame_bytes() as u64;
        let frames = (bytes / frame_bytes) as u32;
        let Some(unit) = self.pager.allocate_before(frames, (old / frame_bytes) as u32)? else { return Ok(()) };
        let new = unit * unit_bytes;
        self.pager.fix((new / frame_bytes) as u32, frames);
        self.pager.unfix((old / frame_bytes) as u32);
        for frame in 0..frames {
            let source = self.pager.read((old / frame_bytes) as u32 + frame)?.to_vec();
            self.pager.write_fresh((new / frame_bytes) as u32 + frame)?.whole().store(0, &source);
        }
        // Readers do not pass the gate: one that reads the old pages sees a new version and starts over.
        step();
        self.groups[group].store(new, Release);
        let view = self.view();
        let next = u32::from(!planted(Bug::MoveKeepsVersion));
        self.set_view(View::new(view.max_bucket(), view.version().wrapping_add(next)));
        self.pager.free(old / unit_bytes, frames * FRAME_UNITS)
    }
}
