//! Compaction of buckets: what each step merges, trims or moves.
//!
//! ```text
//! merge      the last bucket into another, as long as the load stays within the fill
//! trim       a bucket's overflow pages and extents, in place, to the units they need
//! move       an overflow page, an extent or a group of buckets, to room that the pass has already freed
//! ```
//!
//! Each step leaves the table consistent and is made under the latch of one bucket. New pages are written before
//! anything refers to them, and old ones freed afterwards.
//!
//! Not here: the order of the steps, and what each excludes (`table/compact.rs`), room (`pager/space`).

use super::address::View;
use super::bucket::LatchedBucket;
use super::extent::Extent;
use super::gathered::Workspace;
use super::linear_hash::Buckets;
use super::overflow::OverflowPage;
use super::page::{self, Found, INLINE, Record};
use super::sizes::Totals;
use crate::error::Result;
use crate::linear;
use crate::pager::interleave::{self, step};
use crate::pager::pool::{FrameNo, lock_without_values, refuse_to_wait_with_values};
use crate::pager::words::Bytes;
use crate::pager::{Destination, FRAME_UNITS};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// Units of the file that a compaction can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Movable {
    pub first: u64,
    pub units: u32,
    pub what: What,
}

/// The content of these units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An overflow page of this bucket.
    Page(linear::Bucket),
    /// An extent of this bucket.
    Extent(linear::Bucket),
    /// A group of buckets.
    Group(usize),
    /// A group of map frames.
    Maps(usize),
}

/// The page that refers to an overflow page or an extent: an overflow page, or the primary page if `None`.
enum Reference {
    ToPage { from: Option<OverflowPage>, page: OverflowPage },
    ToExtent { from: Option<OverflowPage>, found: Found, form: u8, extent: Extent },
}

impl Buckets {
    /// Merges the last bucket into another. Returns false if the load by `totals` would then exceed the fill.
    pub(crate) fn merge_within_fill(&self, totals: Totals) -> Result<bool> {
        let mut workspace = lock_without_values(&self.structure)?;
        self.min_max_bucket.store(0, Relaxed);
        let load = if self.fill.pairs.is_some() { totals.pairs } else { totals.bucket_bytes };
        let fits = || {
            let last = self.view().max_bucket();
            // A growing table may exceed its fill by one step, since its threads count in steps.
            last > 0 && load <= self.load_and_limit(last.into()).1 + self.load_step_bytes() as u64
        };
        while fits() {
            if self.merge_with(&mut workspace)? {
                return Ok(true);
            }
            // Another thread holds a latch, and may be waiting for the structure lock.
            drop(workspace);
            refuse_to_wait_with_values()?;
            if !interleave::wait() {
                std::thread::yield_now();
            }
            workspace = lock_without_values(&self.structure)?;
        }
        Ok(false)
    }

    /// Frees groups that were allocated for buckets beyond the last.
    pub(crate) fn free_unused_groups(&self) -> Result<()> {
        let _structure = lock_without_values(&self.structure)?;
        let last = linear::group(self.view().max_bucket()).0.max(self.groups_in_first_frame());
        (last + 1..linear::GROUP_COUNT).try_for_each(|group| self.free_group_number(group))
    }

    /// Clears up to some hundred frames from `from` on that have only pages beyond the last bucket: zeros take no room
    /// in the file. Returns where to continue.
    pub(crate) fn clear_unused_pages(&self, from: FrameNo) -> Result<Option<FrameNo>> {
        const AT_ONCE: u64 = 256;
        let _structure = lock_without_values(&self.structure)?;
        let (group, index) = linear::group(self.view().max_bucket());
        if group <= self.groups_in_first_frame() {
            return Ok(None);
        }
        let (start, page_bytes) = (self.groups[group].load(Relaxed), self.page_bytes as u64);
        let frame_bytes = self.pager.frame_bytes();
        let used_end = (start + (u64::from(index) + 1) * page_bytes).div_ceil(frame_bytes as u64);
        let end = (start + u64::from(linear::group_len(group)) * page_bytes) / frame_bytes as u64;
        let first = used_end.max(from.into());
        for frame in first..end.min(first + AT_ONCE) {
            let frame = frame as FrameNo; // of the table
            if self.pager.frames().has_content(frame)? {
                self.pager.write_fresh(frame)?.whole().fill(0..frame_bytes, 0);
            }
        }
        Ok((first + AT_ONCE < end).then_some((first + AT_ONCE) as FrameNo))
    }

    /// Trims the overflow pages and extents of a bucket to the units they need.
    pub(crate) fn trim_bucket(&self, number: linear::Bucket) -> Result<()> {
        let mut workspace = lock_without_values(&self.structure)?;
        if !self.has_to_trim(number)? {
            return Ok(());
        }
        let Workspace { gathered, layouts: [layout, _], primaries } = &mut *workspace;
        let Some(mut bucket) = self.latch_numbered(number)? else { return Ok(()) };
        self.trim_extents(&mut bucket)?;
        if self.is_tight(bucket.page())? {
            return Ok(());
        }
        self.gather(bucket.page(), gathered)?;
        self.lay_out(gathered, page::level(bucket.page()), layout, primaries)?;
        bucket.primary.bytes_mut().store(0, primaries);
        self.note_expected(number, primaries);
        self.free_overflow(gathered.overflow_pages());
        Ok(())
    }

    /// Whether a bucket takes more units than it needs. Only reads, because a latch for writing makes the page dirty.
    /// The caller holds the structure lock.
    fn has_to_trim(&self, number: linear::Bucket) -> Result<bool> {
        if number > self.view().max_bucket() {
            return Ok(false);
        }
        let (frame, start) = self.location(number);
        let frame = self.pager.read(frame)?;
        let primary = &frame[start..start + self.page_bytes];
        if page::kind(primary) == page::KIND_EMPTY {
            return Ok(false);
        }
        let is_loose = |reference: &Reference| match reference {
            Reference::ToExtent { extent, .. } => self.units_for(extent.content_bytes()) < extent.capacity,
            Reference::ToPage { .. } => false,
        };
        Ok(!self.is_tight(primary)? || self.references(primary)?.iter().any(is_loose))
    }

    /// Latches a bucket that has a page. The caller holds the structure lock.
    fn latch_numbered(&self, number: linear::Bucket) -> Result<Option<LatchedBucket<'_>>> {
        if number > self.view().max_bucket() {
            return Ok(None);
        }
        let (frame, start) = self.location(number);
        let bucket = LatchedBucket::new(self, number, self.pager.write(frame)?, start);
        Ok((page::kind(bucket.page()) != page::KIND_EMPTY).then_some(bucket))
    }

    /// Whether the overflow pages of a bucket would take no fewer units if it were laid out again.
    fn is_tight(&self, primary: &[u8]) -> Result<bool> {
        let gap = page::gap_bytes(primary).map_err(|d| self.damaged(d))?;
        let (mut pages, mut bytes, mut is_tight) = (0, 0, true);
        self.walk_chain(page::next(primary), |overflow, page| {
            let used = page::used_bytes(page);
            (pages, bytes) = (pages + 1, bytes + used);
            is_tight &= overflow.len == self.overflow_units(used);
            for record in page::records(page) {
                let (_, record) = record.map_err(|d| self.damaged(d))?;
                is_tight &= record.bytes() + page::SLOT_BYTES > gap;
            }
            Ok((!is_tight).then_some(()))
        })?;
        Ok(is_tight && pages <= bytes.div_ceil(page::capacity(self.pager.frame_bytes())))
    }

    /// Frees the units that the bucket's extents have but do not need.
    fn trim_extents(&self, bucket: &mut LatchedBucket<'_>) -> Result<()> {
        for reference in self.references(bucket.page())? {
            let Reference::ToExtent { from, found, form, extent } = reference else { continue };
            let capacity = self.units_for(extent.content_bytes());
            if capacity >= extent.capacity {
                continue;
            }
            self.replace_reference(bucket, from, found, form, Extent { capacity, ..extent })?;
            // An error loses their space until the next compaction, but no pair.
            let _ = self.pager.free(extent.unit + u64::from(capacity), extent.capacity - capacity);
        }
        Ok(())
    }

    /// Makes a record refer to `extent`.
    fn replace_reference(
        &self,
        bucket: &mut LatchedBucket<'_>,
        from: Option<OverflowPage>,
        found: Found,
        form: u8,
        extent: Extent,
    ) -> Result<()> {
        // The reference keeps its length, so the record is changed in place.
        let replaced = match from {
            None => page::replace_found(&mut bucket.primary.bytes_mut(), found, form, &extent.to_bytes()),
            Some(from) => {
                let mut page = self.write_overflow(from)?;
                page::replace_found(&mut page.bytes_mut(), found, form, &extent.to_bytes())
            }
        };
        // A value of the same length always fits, unless the page changed after it was read: in a damaged file it may
        // be marked free as well, and have just been overwritten.
        if replaced == Ok(true) {
            return Ok(());
        }
        Err(self.pager.corrupt(format!("extent at unit {}: its record is gone", extent.unit)))
    }

    /// All references to overflow pages and extents of a bucket.
    fn references(&self, primary: &[u8]) -> Result<Vec<Reference>> {
        let mut references = Vec::new();
        let mut add = |from: Option<OverflowPage>, bytes: &[u8]| {
            for (slot, record) in page::records(bytes).enumerate() {
                let (_, record): (u16, Record<'_>) = record.map_err(|d| self.damaged(d))?;
                if record.form != INLINE {
                    let found = Found::at(bytes, slot).map_err(|d| self.damaged(d))?;
                    let (form, extent) = (record.form, self.parse_extent(record)?);
                    references.push(Reference::ToExtent { from, found, form, extent });
                }
            }
            if let Some(page) = self.parse_overflow(page::next(bytes))? {
                references.push(Reference::ToPage { from, page });
            }
            Ok::<(), crate::Error>(())
        };
        add(None, primary)?;
        self.walk_chain(page::next(primary), |overflow, bytes| add(Some(overflow), bytes).map(|()| None::<()>))?;
        Ok(references)
    }

    /// Calls `visit` with the first unit and the length of each overflow page and extent of a bucket.
    pub(crate) fn each_movable(&self, number: linear::Bucket, mut visit: impl FnMut(Movable)) -> Result<()> {
        // A hash of which all bits but the bucket's number are zero.
        let (frame, range) = self.read_bucket(number.into())?;
        if page::kind(&frame[range.clone()]) == page::KIND_EMPTY {
            return Ok(());
        }
        for reference in self.references(&frame[range])? {
            let (first, units) = reference.place();
            let what = match reference {
                Reference::ToPage { .. } => What::Page(number),
                Reference::ToExtent { .. } => What::Extent(number),
            };
            visit(Movable { first, units, what });
        }
        Ok(())
    }

    /// The groups of buckets in these frames that can move: those in frames of their own.
    pub(crate) fn movable_groups(&self, frames: &Range<u32>) -> Vec<Movable> {
        let unit_bytes = self.pager.unit_bytes() as u64;
        let units = u64::from(frames.start) * u64::from(FRAME_UNITS)..u64::from(frames.end) * u64::from(FRAME_UNITS);
        let last = linear::group(self.view().max_bucket()).0;
        (self.groups_in_first_frame() + 1..=last)
            .map(|group| Movable {
                first: self.groups[group].load(Relaxed) / unit_bytes,
                units: (u64::from(linear::group_len(group)) * self.page_bytes as u64 / unit_bytes) as u32,
                what: What::Group(group),
            })
            .filter(|group| units.contains(&group.first))
            .collect()
    }

    /// Moves the overflow page or extent of a bucket that begins at unit `first` to `room`. Returns its new location;
    /// `None` if there is no room or it no longer exists.
    pub(crate) fn move_of_bucket(
        &self,
        number: linear::Bucket,
        first: u64,
        room: Destination,
    ) -> Result<Option<Movable>> {
        let _structure = lock_without_values(&self.structure)?;
        let Some(mut bucket) = self.latch_numbered(number)? else { return Ok(None) };
        let references = self.references(bucket.page())?;
        match references.into_iter().find(|reference| reference.place().0 == first) {
            None => Ok(None),
            Some(Reference::ToPage { from, page }) => {
                let moved = self.move_overflow(&mut bucket, from, page, room)?;
                self.note_expected(number, bucket.page());
                Ok(moved.map(|page| Movable { first: page.unit, units: page.len, what: What::Page(number) }))
            }
            Some(Reference::ToExtent { from, found, form, extent }) => {
                let capacity = self.units_for(extent.content_bytes());
                let Some(unit) = self.pager.allocator().allocate_extent_in_room(capacity, room)? else {
                    return Ok(None);
                };
                let new = Extent { unit, capacity, ..extent };
                let moved = self
                    .copy_extent(&extent, &new)
                    .and_then(|()| self.replace_reference(&mut bucket, from, found, form, new));
                self.free_extent(if moved.is_ok() { &extent } else { &new });
                moved.map(|()| Some(Movable { first: unit, units: capacity, what: What::Extent(number) }))
            }
        }
    }

    fn move_overflow(
        &self,
        bucket: &mut LatchedBucket<'_>,
        from: Option<OverflowPage>,
        old: OverflowPage,
        room: Destination,
    ) -> Result<Option<OverflowPage>> {
        let Some(unit) = self.pager.allocator().allocate_in_room(old.len, room)? else { return Ok(None) };
        let new = OverflowPage { unit, len: old.len };
        let copied = self.read_overflow(old).map(|(frame, range)| frame[range].to_vec()).and_then(|bytes| {
            self.write_overflow(new)?.bytes_mut().store(0, &bytes);
            match from {
                None => page::set_next(&mut bucket.primary.bytes_mut(), new.to_bits()),
                Some(from) => page::set_next(&mut self.write_overflow(from)?.bytes_mut(), new.to_bits()),
            }
            Ok(())
        });
        self.free_overflow(&[if copied.is_ok() { old } else { new }]);
        copied.map(|()| Some(new))
    }

    /// Moves a group of buckets to `room`. Returns `None` if there is no room, the group is no longer there, or one of
    /// its pages is being read. The caller keeps writers out: the pages of a group are found by arithmetic, so none may
    /// be in use while it moves.
    ///
    /// # Errors
    /// A failure to read the group; it has not moved.
    pub(crate) fn move_group(&self, group: usize, from: Movable, room: Destination) -> Result<Option<Movable>> {
        let unit_bytes = self.pager.unit_bytes() as u64;
        let old = self.groups[group].load(Relaxed);
        if old != from.first * unit_bytes || group > linear::group(self.view().max_bucket()).0 {
            return Ok(None);
        }
        let bytes = u64::from(linear::group_len(group)) * self.page_bytes as u64;
        let frame_bytes = self.pager.frame_bytes() as u64;
        let frames = (bytes / frame_bytes) as u32;
        let first_old = (old / frame_bytes) as u32;
        // A value may be held for long. Waiting for it below would keep all writers out.
        let is_read = |frame| self.pager.is_latched(first_old + frame);
        if refuse_to_wait_with_values().is_err() || (0..frames).any(is_read) {
            return Ok(None);
        }
        let Some(unit) = self.pager.allocator().allocate_in_room(frames * FRAME_UNITS, room)? else { return Ok(None) };
        let new = unit * unit_bytes;
        let first_new = (new / frame_bytes) as u32;
        let copied = (0..frames).try_for_each(|frame| {
            let source = self.pager.read(first_old + frame)?.to_vec();
            self.pager.write_fresh(first_new + frame)?.whole().store(0, &source);
            Ok(())
        });
        if let Err(e) = copied {
            let _ = self.pager.free(unit, frames * FRAME_UNITS);
            return Err(e);
        }
        self.pager.allocator().fix(first_new, frames);
        self.pager.allocator().unfix(first_old);
        // Readers do not pass the gate: one that reads the old pages sees a new version and starts over.
        step();
        self.groups[group].store(new, Release);
        let view = self.view();
        self.set_view(View::new(view.max_bucket(), view.version().wrapping_add(1)));
        // One that latched an old page before that does not look at the version again. It still reads overflow pages
        // and extents, and writers, which latch the new pages, may change these once the gate opens.
        (0..frames).try_for_each(|frame| self.pager.wait_for_readers(first_old + frame))?;
        self.pager.free(from.first, from.units)?;
        Ok(Some(Movable { first: unit, ..from }))
    }
}

impl Movable {
    /// The frame in which the units begin.
    pub(crate) fn frame(&self) -> u32 {
        (self.first / u64::from(FRAME_UNITS)) as u32 // in the file, as its reference was checked
    }
}

impl Reference {
    /// The first unit and the length of what it refers to.
    fn place(&self) -> (u64, u32) {
        match self {
            Reference::ToPage { page, .. } => (page.unit, page.len),
            Reference::ToExtent { extent, .. } => (extent.unit, extent.capacity),
        }
    }
}
