//! The allocator of the file: it allocates units, and records the allocated ones in the map frames.
//!
//! The bits are in **map frames**: a zone of [`ZONE_FRAMES`] frames has one (`file/map_frames.rs`). The bits of a frame
//! are one `u64`. A map frame changes like any other frame.
//!
//! Not here: the lists of what is free (`space/`), the blocks of the file (`blocks/`).

pub(crate) mod compaction;
mod extents;
mod kept;
mod window;

use crate::error::{Error, ErrorKind, Result};
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::load::Frames;
use crate::pager::pool::words::Bytes;
use crate::pager::pool::{FrameNo, SMALL_BYTES};
use crate::pager::space::{ANY_USE, FRAME_UNITS, PASSED, Space, best_fit, bits, new_links};
pub(in crate::pager) use kept::Kept;
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// The shortest run of free frames whose memory is returned to the kernel.
const RETURNED_BYTES_MIN: u64 = 256 << 10;

/// The allocator of the file of these frames.
#[derive(Clone, Copy)]
pub(crate) struct Allocator<'p> {
    pub(in crate::pager) frames: &'p Frames,
    pub(in crate::pager) kept: &'p Kept,
}

impl Allocator<'_> {
    /// Allocates `len` units: within one frame if fewer than [`FRAME_UNITS`], else from the start of a frame on.
    /// Returns the first unit's number.
    pub(crate) fn allocate(self, len: u32) -> Result<u64> {
        self.allocate_anywhere(len, false)
    }

    /// [`allocate`](Self::allocate); if it `packs`, at any unit.
    fn allocate_anywhere(self, len: u32, packs: bool) -> Result<u64> {
        assert!(len > 0);
        if len < FRAME_UNITS
            && let Some(unit) = self.take_kept(len)
        {
            return Ok(unit);
        }
        let mut space = self.frames.space();
        let frames = len.div_ceil(FRAME_UNITS);
        if len < FRAME_UNITS
            && let Some(unit) = self.allocate_in_hole(&mut space, len)?
        {
            return Ok(unit);
        }
        if packs && let Some(unit) = self.allocate_in_any_span(&mut space, len)? {
            return Ok(unit);
        }
        if let Some(first) = space.take_run(frames) {
            return self.use_run(&mut space, first, len);
        }
        if packs && let Some(unit) = self.allocate_at_end(&mut space, len)? {
            return Ok(unit);
        }
        let first = self.extend(&mut space, frames)?;
        self.use_run(&mut space, first, len)
    }

    /// Marks `len` units from frame `first` on as used; returns the number of the first one.
    pub(in crate::pager) fn use_run(self, space: &mut Space, first: FrameNo, len: u32) -> Result<u64> {
        let frames = len.div_ceil(FRAME_UNITS);
        self.set_run_used(space, first, frames, len - (frames - 1) * FRAME_UNITS)?;
        space.note_end(first + frames - 1);
        Ok(u64::from(first) * u64::from(FRAME_UNITS))
    }

    fn allocate_in_hole(self, space: &mut Space, len: u32) -> Result<Option<u64>> {
        // These lists are empty except during a compaction.
        if let Some(frame) = space.lists[PASSED].find(len) {
            return self.take_hole(space, frame, len).map(Some);
        }
        let mut found = space.lists[ANY_USE].find(len);
        if found.is_none() && self.learn_zone(space)? {
            // No known hole fits: scan one more zone, at most one per call.
            found = space.lists[ANY_USE].find(len);
        }
        let Some(frame) = found else { return Ok(None) };
        if space.compacting && space.runs.first().is_some_and(|first| first < frame) {
            return Ok(None); // a free frame is nearer the start
        }
        self.take_hole(space, frame, len).map(Some)
    }

    /// Allocates `len` units in the smallest hole of `frame` that is large enough.
    pub(super) fn take_hole(self, space: &mut Space, frame: FrameNo, len: u32) -> Result<u64> {
        let used = space.link(frame).used;
        let start = best_fit(!used, len);
        let used = used | bits(start, len);
        self.set_used_bits(frame, used)?;
        space.note_used(frame, used);
        Ok(u64::from(frame) * u64::from(FRAME_UNITS) + u64::from(start))
    }

    /// Adds `count` adjacent frames at the end of the file. They are not yet marked as used.
    pub(in crate::pager) fn extend(self, space: &mut Space, count: u32) -> Result<FrameNo> {
        loop {
            let first = self.frames.frame_count();
            let end = u64::from(first) + u64::from(count);
            if end > u64::from(FrameNo::MAX) {
                return Err(Error::new(
                    ErrorKind::DiskFull,
                    format!("{}: a file holds at most 2^32 frames", self.frames.file.path.display()),
                )
                .with_hint("Rebuild the table with larger pages."));
            }
            let zones_mapped = self.frames.file.maps.zones();
            let missing = end.div_ceil(u64::from(ZONE_FRAMES)) > u64::from(zones_mapped);
            // Map frames first: zones from 2^k on need group k, which starts where the file ended at that moment.
            let wanted = if missing { zones_mapped } else { count };
            let end = first + wanted;
            self.make_room(space, end)?;
            if !missing {
                self.frames.file.set_frame_count(end);
                return Ok(first);
            }
            let group = zones_mapped.trailing_zeros() as usize;
            for frame in first..end {
                self.frames.write_fresh(frame)?.whole().fill(0..self.frames.frame_bytes(), 0);
            }
            self.frames.file.maps.set_group(group, first);
            space.fixed.insert(first, wanted);
            self.frames.file.set_frame_count(end);
            self.set_run_used(space, first, wanted, FRAME_UNITS)?;
        }
    }

    /// Reserves addresses and disk space up to frame `end`.
    fn make_room(self, space: &mut Space, end: FrameNo) -> Result<()> {
        self.frames.pool.reserve(u64::from(end) + 1)?;
        if end > space.reserved_frames && self.frames.reserves_growth.load(Relaxed) {
            // Reserves a step ahead, so that reservations are rare, but only a sixteenth, so that little stays unused.
            const STEP_BYTES: (u64, u64) = (1 << 20, 64 << 20);
            let frame_bytes = self.frames.frame_bytes() as u64;
            let step = (u64::from(end) * frame_bytes / 16).clamp(STEP_BYTES.0, STEP_BYTES.1) / frame_bytes;
            let target = (u64::from(end) + step).min(u64::from(FrameNo::MAX)) as FrameNo;
            let (dirty, before) = (self.frames.unwritten_count(), self.frames.frame_count());
            let reserve = |frames: FrameNo| match self.frames.blocks.as_ref().filter(|_| !self.frames.file.read_only) {
                Some(blocks) => {
                    let dirty = dirty + u64::from(frames - before);
                    blocks.make_ready(&self.frames.file, dirty).map(|()| frames)
                }
                None => Ok(target),
            };
            space.reserved_frames = reserve(target).or_else(|_| reserve(end))?;
        }
        if !self.frames.has_cache_for(end) {
            self.frames.pool.outgrow_cache(self.frames.cache_frames);
        }
        self.make_ready_ahead(space, end);
        Ok(())
    }

    /// Populates memory beyond `end`, and the new frames before it, if the table is large enough for large pages.
    fn make_ready_ahead(self, space: &mut Space, end: FrameNo) {
        const AHEAD_BYTES: (u64, u64) = (4 << 20, 64 << 20);
        let frame_bytes = self.frames.frame_bytes() as u64;
        let bytes = u64::from(end) * frame_bytes;
        let ahead =
            ((bytes / 256).clamp(AHEAD_BYTES.0, AHEAD_BYTES.1) / frame_bytes) as FrameNo + space.expected_frames;
        if space.has_windows
            || bytes < SMALL_BYTES as u64
            || u64::from(space.ready_frames) > u64::from(end) + u64::from(ahead - ahead / 4)
        {
            return;
        }
        let new = space.ready_frames.max(self.frames.frame_count()).min(end)..end;
        let to = end.saturating_add(ahead);
        // Frames beyond the cache's limit would be evicted again.
        if !self.frames.has_cache_for(to) || self.frames.pool.reserve(u64::from(to) + 1).is_err() {
            return;
        }
        // Frames beyond the end first: the next overflow page is there, while the pages of a group of buckets are used
        // one by one.
        let behind = space.ready_frames.max(end)..to;
        if self.frames.pool.make_ready(behind) && (new.is_empty() || self.frames.pool.make_ready(new)) {
            space.ready_frames = to;
            self.make_links_ahead(space, to / ZONE_FRAMES + 1);
        }
    }

    /// Has links made in advance for the zones below `zones` that have none.
    fn make_links_ahead(self, space: &Space, zones: u32) {
        let spare = space.spare_links.clone();
        let there = space.links.len() + spare.lock().expect("no panic while held").len();
        let missing = (zones as usize).saturating_sub(there);
        if missing > 0 {
            self.frames.pool.run_ahead(move || {
                for _ in 0..missing {
                    // Made before the lock is taken: its memory may take milliseconds.
                    let links = new_links();
                    spare.lock().expect("no panic while held").push(links);
                }
            });
        }
    }

    /// Marks the units of `count` frames from `first` on as used; of the last frame only the first `last_units`.
    fn set_run_used(self, space: &mut Space, first: FrameNo, count: u32, last_units: u32) -> Result<()> {
        self.fill_used_bits(first, count - 1, 0xFF)?;
        let last = first + count - 1;
        self.set_used_bits(last, bits(0, last_units))?;
        space.note_used(last, bits(0, last_units));
        Ok(())
    }

    /// Frees `len` units from `unit` on.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they are not in use: some page refers to space that it does not own. If the hole is
    /// kept for this thread, this is detected only when it is freed for other threads, and then loses its space
    /// (`kept.rs`).
    pub(crate) fn free(self, unit: u64, len: u32) -> Result<()> {
        if self.keep(unit, len) {
            return Ok(());
        }
        self.free_in(&mut self.frames.space(), unit, len)
    }

    fn free_in(self, space: &mut Space, unit: u64, len: u32) -> Result<()> {
        let first = unit / u64::from(FRAME_UNITS);
        let end = unit + u64::from(len);
        if end > u64::from(self.frames.frame_count()) * u64::from(FRAME_UNITS) {
            return Err(self.frames.file.corrupt(format!("units {unit} to {end} are freed but are beyond the end")));
        }
        let first = first as FrameNo; // below frame_count, checked above
        if space.has_fixed(first, (end.div_ceil(u64::from(FRAME_UNITS)) - u64::from(first)) as u32) {
            return Err(self
                .frames
                .file
                .corrupt(format!("units {unit} to {end} are freed but are primary pages or a map")));
        }

        let units = u64::from(FRAME_UNITS);
        let whole = unit.div_ceil(units)..end / units;
        // The parts before and after the whole frames, or the only one.
        let edges = if whole.start > whole.end {
            [unit..end, end..end]
        } else {
            [unit..whole.start * units, whole.end * units..end]
        };
        let whole = whole.start as FrameNo..whole.end as FrameNo; // of the file
        for frame in whole.clone() {
            if self.used_bits(frame)? != u64::MAX {
                return Err(self.frames.file.corrupt(format!("frame {frame} is freed but not all of it is in use")));
            }
        }
        if !whole.is_empty() {
            self.fill_used_bits(whole.start, whole.len() as u32, 0)?;
            space.add_run(whole.start, whole.len() as u32);
            self.return_memory(space, whole);
        }
        for edge in edges.iter().filter(|edge| !edge.is_empty()) {
            let (frame, start) = ((edge.start / units) as FrameNo, (edge.start % units) as u32);
            self.free_within(space, frame, start, (edge.end - edge.start) as u32)?;
        }
        if unit / units != (end - 1) / units {
            space.note_freed_span(first);
        }
        Ok(())
    }

    /// Returns the memory of frames that were just freed to the kernel, if they are many and much memory is free: a
    /// value that grows leaves ever longer holes, into none of which it fits again.
    fn return_memory(self, space: &Space, freed: Range<FrameNo>) {
        let bytes = freed.len() as u64 * self.frames.frame_bytes() as u64;
        if bytes >= RETURNED_BYTES_MIN && self.has_much_free_memory(space) {
            self.frames.pool.return_free(freed);
        }
    }

    /// Returns the memory of free frames to the kernel if much memory is free. Called after a checkpoint: frames that
    /// were freed before it may lose their memory only now, since the file has them.
    pub(crate) fn return_free_memory(self) {
        let runs: Vec<Range<FrameNo>> = {
            let space = self.frames.space();
            if !self.has_much_free_memory(&space) {
                return;
            }
            let frames_min = RETURNED_BYTES_MIN / self.frames.frame_bytes() as u64;
            space.runs.longer(u32::try_from(frames_min).unwrap_or(u32::MAX)).collect()
        };
        runs.into_iter().for_each(|run| self.frames.pool.return_free(run));
    }

    fn has_much_free_memory(self, space: &Space) -> bool {
        const SPARE_BYTES: u64 = 16 << 20;
        let free_bytes = space.free_units * self.unit_bytes() as u64;
        let frames_bytes = u64::from(self.frames.frame_count()) * self.frames.frame_bytes() as u64;
        let in_use = frames_bytes.saturating_sub(free_bytes);
        self.frames.memory_bytes() > in_use + in_use / 8 + SPARE_BYTES
    }

    fn free_within(self, space: &mut Space, frame: FrameNo, start: u32, len: u32) -> Result<()> {
        let mask = bits(start, len);
        let used = self.used_bits(frame)?;
        if used & mask != mask {
            return Err(self
                .frames
                .file
                .corrupt(format!("frame {frame}: units {start} to {} are freed but not in use", start + len)));
        }
        let used = used & !mask;
        self.set_used_bits(frame, used)?;
        space.note_used(frame, used);
        if used == 0 {
            space.add_run(frame, 1);
        }
        Ok(())
    }

    /// Sets the bits of `count` frames to all used (0xFF) or all free (0), a zone at a time.
    fn fill_used_bits(self, first: FrameNo, count: u32, byte: u8) -> Result<()> {
        let (mut at, end) = (first, first + count);
        while at < end {
            let zone = at / ZONE_FRAMES;
            let stop = end.min((zone + 1) * ZONE_FRAMES);
            let mut map = self.frames.write(self.frames.file.maps.of_zone(zone))?;
            let start = (at % ZONE_FRAMES) as usize * 8;
            map.whole().fill(start..start + (stop - at) as usize * 8, byte);
            at = stop;
        }
        Ok(())
    }

    /// Adds the next unknown zone to the lists. Returns false if all are known.
    pub(super) fn learn_zone(self, space: &mut Space) -> Result<bool> {
        let zone = space.zones_known;
        let first = zone.saturating_mul(ZONE_FRAMES);
        if first >= self.frames.frame_count() {
            return Ok(false);
        }
        space.zones_known += 1;
        let end = self.frames.frame_count().min(first.saturating_add(ZONE_FRAMES));
        for frame in (first..end).filter(|frame| !space.window.contains(frame)).collect::<Vec<_>>() {
            let used = self.used_bits(frame)?;
            if used != u64::MAX && space.has_fixed(frame, 1) {
                return Err(self.frames.file.corrupt(format!("frame {frame}: primary pages or a map, marked free")));
            }
            self.learn_frame(space, frame)?;
        }
        Ok(true)
    }

    /// Puts the free units of `frame` into the lists.
    fn learn_frame(self, space: &mut Space, frame: FrameNo) -> Result<()> {
        let used = self.used_bits(frame)?;
        if used != 0 {
            space.note_used(frame, used);
        } else if space.runs.around(frame).is_none() {
            space.add_run(frame, 1); // it was not freed since the open
        }
        Ok(())
    }

    /// Adds all free space to the lists.
    fn learn_all(self, space: &mut Space) -> Result<()> {
        self.free_kept_in(space)?;
        self.learn_set_aside(space, usize::MAX);
        while self.learn_zone(space)? {}
        Ok(())
    }

    /// Announces an allocation of `frames` frames, so that their memory is populated in advance.
    pub(crate) fn expect_frames(self, frames: FrameNo) {
        let mut space = self.frames.space();
        space.expected_frames = frames;
        self.make_ready_ahead(&mut space, self.frames.frame_count());
    }

    /// Declares frames fixed. [`unfix`](Self::unfix) reverts it.
    pub(crate) fn fix(self, first: FrameNo, count: u32) {
        self.frames.space().fixed.insert(first, count);
    }

    pub(crate) fn unfix(self, first: FrameNo) {
        self.frames.space().fixed.remove(&first);
    }

    /// Whether this frame is a map frame or part of a group of buckets.
    #[cold]
    pub(crate) fn is_fixed(self, frame: FrameNo) -> bool {
        self.frames.space().has_fixed(frame, 1)
    }

    /// Cuts the file to end at frame `end`.
    pub(in crate::pager) fn cut(self, space: &mut Space, end: FrameNo) {
        let old = self.frames.frame_count();
        // In this order: an eviction that began before is waited for, and none begins after that.
        self.frames.file.set_frame_count(end);
        for frame in end..old {
            self.frames.pool.forget(frame);
        }
        self.frames.cut(end, old);
        space.reserved_frames = space.reserved_frames.min(end);
        space.zones_known = space.zones_known.min(end.div_ceil(ZONE_FRAMES));
    }

    /// Free units in the whole file. Reads every map frame.
    pub(crate) fn free_units(self) -> Result<u64> {
        let _space = self.frames.space();
        let mut free = self.kept.units();
        for frame in 0..self.frames.frame_count() {
            free += u64::from(self.used_bits(frame)?.count_zeros());
        }
        Ok(free)
    }

    /// Free bytes, as far as known without reading map frames. Exact in memory; for a file it includes only zones that
    /// allocations have already scanned.
    pub(crate) fn free_bytes_known(self) -> u64 {
        let space = self.frames.space();
        (space.free_units + self.kept.units()) * self.unit_bytes() as u64
    }

    /// The bits of `frame`; a set bit is a used unit.
    pub(crate) fn used_bits(self, frame: FrameNo) -> Result<u64> {
        let map = self.frames.read(self.frames.file.maps.of_zone(frame / ZONE_FRAMES))?;
        let at = (frame % ZONE_FRAMES) as usize * 8;
        Ok(u64::from_le_bytes(map[at..at + 8].try_into().expect("8 bytes")))
    }

    fn set_used_bits(self, frame: FrameNo, used: u64) -> Result<()> {
        let mut map = self.frames.write(self.frames.file.maps.of_zone(frame / ZONE_FRAMES))?;
        let at = (frame % ZONE_FRAMES) as usize * 8;
        map.whole().store(at, &used.to_le_bytes());
        Ok(())
    }

    /// Bytes in a unit of allocation.
    pub(in crate::pager) fn unit_bytes(self) -> usize {
        self.frames.frame_bytes() / FRAME_UNITS as usize
    }
}
