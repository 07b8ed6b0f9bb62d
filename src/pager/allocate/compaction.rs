//! The allocator's part of a compaction, which passes over the file from the start and moves what it meets to room
//! behind it.
//!
//! ```text
//! 0 ........ passed ............ end of the file
//! dense      |  still to be moved
//! ```
//!
//! Frames with a hole that were passed are in separate lists, so room behind a compaction is found as fast as any
//! other. Map frames may be in the way of a large extent, so they move too.
//!
//! Not here: what is moved, and in which order (`buckets/compact.rs`).

use super::Allocator;
use crate::error::{ErrorKind, Result};
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::pool::FrameNo;
use crate::pager::pool::words::Bytes;
use crate::pager::space::{FRAME_UNITS, PASSED, Space};

/// The room that a compaction wants to move something to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// In frames that were passed.
    Passed,
    /// At the end of the file, which grows.
    AtEnd,
    /// In this frame.
    In(FrameNo),
}

/// A compaction in progress. Until it is dropped, no holes are kept, and all threads allocate near
/// the start.
pub(crate) struct Compacting<'p>(Allocator<'p>);

impl Drop for Compacting<'_> {
    fn drop(&mut self) {
        let mut space = self.0.frames.space();
        space.pass_none();
        space.compacting = false;
        self.0.kept.refuse(false);
    }
}

impl<'p> Allocator<'p> {
    /// Begins a compaction. At most one runs at a time.
    pub(crate) fn begin_compaction(self) -> Compacting<'p> {
        self.kept.refuse(true);
        self.frames.space().compacting = true;
        Compacting(self)
    }

    /// Whether a compaction is in progress.
    #[cfg(test)]
    pub(crate) fn is_compacting(self) -> bool {
        self.frames.space().compacting
    }

    /// Begins a pass: makes all free space known, and counts no frame as passed.
    pub(crate) fn begin_pass(self) -> Result<()> {
        let mut space = self.frames.space();
        space.pass_none();
        self.learn_all(&mut space)
    }

    /// Passes the frames below `end`. Returns their free units.
    pub(crate) fn pass_to(self, end: FrameNo) -> u64 {
        self.frames.space().pass_to(end)
    }

    /// Allocates `len` units like [`allocate`](Self::allocate), but in `room`. Returns `None` if there is no such room.
    pub(crate) fn allocate_in_room(self, len: u32, room: Destination) -> Result<Option<u64>> {
        self.allocate_in(&mut self.frames.space(), len, room, false)
    }

    /// [`allocate_in_room`](Self::allocate_in_room) for an extent.
    pub(crate) fn allocate_extent_in_room(self, len: u32, room: Destination) -> Result<Option<u64>> {
        self.allocate_in(&mut self.frames.space(), len, room, self.packs_extents())
    }

    fn allocate_in(self, space: &mut Space, len: u32, room: Destination, packs: bool) -> Result<Option<u64>> {
        let frames = len.div_ceil(FRAME_UNITS);
        let first = match room {
            Destination::In(frame) => {
                let has_hole = u32::from(space.link_of(frame).list) >= len;
                return has_hole.then(|| self.take_hole(space, frame, len)).transpose();
            }
            Destination::Passed => {
                if len < FRAME_UNITS
                    && let Some(frame) = space.lists[PASSED].find(len)
                {
                    return self.take_hole(space, frame, len).map(Some);
                }
                let passed = space.passed;
                if packs && let Some(unit) = self.allocate_in_span(space, len, PASSED, passed)? {
                    return Ok(Some(unit));
                }
                let Some(first) = space.runs.first_of(frames).filter(|&first| first + frames <= passed) else {
                    return Ok(None);
                };
                space.remove_free(&(first..first + frames));
                first
            }
            Destination::AtEnd => match self.extend(space, frames) {
                Err(e) if e.kind() == ErrorKind::DiskFull => return Ok(None),
                first => first?,
            },
        };
        self.use_run(space, first, len).map(Some)
    }

    /// The number of free frames directly before `frame`.
    pub(crate) fn free_frames_before(self, frame: FrameNo) -> u32 {
        let run = frame.checked_sub(1).and_then(|before| self.frames.space().runs.around(before));
        run.map_or(0, |run| frame - run.start)
    }

    /// The number of free units directly before `unit`, which is in use.
    pub(crate) fn free_units_before(self, unit: u64) -> u32 {
        let units = u64::from(FRAME_UNITS);
        let (frame, start) = ((unit / units) as FrameNo, (unit % units) as u32); // in the file
        let space = self.frames.space();
        let free_before = |frame: FrameNo, end: u32| {
            // A frame is in no list if all or nothing of it is free.
            let link = space.link_of(frame);
            let free = if link.list == 0 || end == 0 { 0 } else { !link.used << (FRAME_UNITS - end) };
            free.leading_ones()
        };
        let here = free_before(frame, start);
        if here < start {
            return here;
        }
        let run = frame.checked_sub(1).and_then(|before| space.runs.around(before));
        let first = run.map_or(frame, |run| run.start);
        let tail = first.checked_sub(1).map_or(0, |before| free_before(before, FRAME_UNITS));
        (frame - first).saturating_mul(FRAME_UNITS).saturating_add(here + tail)
    }

    /// The number of free units of `frame` outside its longest hole.
    pub(crate) fn scattered_units(self, frame: FrameNo) -> u32 {
        let link = self.frames.space().link_of(frame);
        if link.list == 0 { 0 } else { (!link.used).count_ones() - u32::from(link.list) }
    }

    /// The groups of map frames that can move and are needed in a file of `frames` frames: number, first frame and
    /// count.
    pub(crate) fn movable_maps(self, frames: FrameNo) -> Vec<(usize, FrameNo, u32)> {
        let groups = self.frames.file.maps.allocated();
        groups
            .enumerate()
            .filter(|&(group, _)| described_by(group) < u64::from(frames))
            .map(|(group, first)| (group, first, 1 << group))
            .collect()
    }

    /// Moves the group of map frames that begins at frame `old`. Returns its new first unit; `None` if there is no room
    /// or the group is no longer there. The caller keeps writers and checkpoints out.
    pub(crate) fn move_map_group(self, group: usize, old: FrameNo, room: Destination) -> Result<Option<u64>> {
        let mut space = self.frames.space();
        let count = 1 << group;
        if self.frames.file.maps.group(group) != old {
            return Ok(None);
        }
        let Some(unit) = self.allocate_in(&mut space, count * FRAME_UNITS, room, false)? else { return Ok(None) };
        let new = (unit / u64::from(FRAME_UNITS)) as FrameNo;
        for i in 0..count {
            let bytes = self.frames.read(old + i)?.to_vec();
            self.frames.write_fresh(new + i)?.whole().store(0, &bytes);
        }
        self.frames.file.maps.set_group(group, new);
        space.fixed.insert(new, count);
        space.fixed.remove(&old);
        self.free_in(&mut space, u64::from(old) * u64::from(FRAME_UNITS), count * FRAME_UNITS)?;
        Ok(Some(unit))
    }

    /// Frees map frames that describe nothing, and cuts the free frames at the end off the file. The caller keeps all
    /// other threads out.
    pub(crate) fn trim(self) -> Result<()> {
        let mut space = self.frames.space();
        self.learn_all(&mut space)?;
        loop {
            let end = self.frames.frame_count();
            if let Some(last) = space.runs.last().filter(|last| last.end == end) {
                self.frames.read_entries(last.start, end)?; // what can fail, while nothing has changed
                space.remove_free(&last);
                self.cut(&mut space, last.start);
                continue;
            }
            let Some(group) = self.frames.file.maps.zones().ilog2().checked_sub(1) else { return Ok(()) };
            let first = self.frames.file.maps.group(group as usize);
            let count = 1 << group;
            // Zone 2^23, in a file of maximum length, would start beyond the last frame number.
            let described = described_by(group as usize);
            if u64::from(end) <= described {
                self.frames.file.maps.set_group(group as usize, 0);
                space.fixed.remove(&first);
                self.free_in(&mut space, u64::from(first) * u64::from(FRAME_UNITS), count * FRAME_UNITS)?;
                continue;
            }
            // The group is at the end and describes only itself.
            if first + count != end || u64::from(first) > described {
                return Ok(());
            }
            self.frames.read_entries(first, end)?;
            self.fill_used_bits(first, described as FrameNo - first, 0)?; // less than `end`, as compared
            self.cut(&mut space, first);
            self.frames.file.maps.set_group(group as usize, 0);
            space.fixed.remove(&first);
        }
    }
}

/// The first frame that a group of map frames describes.
fn described_by(group: usize) -> u64 {
    (1 << group) * u64::from(ZONE_FRAMES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Disk;
    use crate::pager::Pager;
    use std::sync::Arc;

    #[test]
    fn a_compaction_moves_data_before_everything_it_has_not_passed() {
        const LEN: u32 = 40;
        let mut placed = 0;
        for border in 40..60 {
            let pager = Pager::in_memory(4096, Arc::new(Disk)).unwrap();
            let units: Vec<u64> = (0..200).map(|_| pager.allocate_extent(LEN).unwrap()).collect();
            // Free frames before and after the border, preceded by one with a free end.
            let hole = u64::from(border - 8) * 64 + 20..u64::from(border + 8) * 64;
            let freed = units.iter().filter(|&&unit| hole.contains(&unit));
            freed.for_each(|&unit| pager.free(unit, LEN).unwrap());
            let allocator = pager.allocator();
            allocator.free_kept().unwrap();
            let _compacting = allocator.begin_compaction();
            allocator.begin_pass().unwrap();
            allocator.pass_to(border);
            // The first one leaves a free end of a frame, in which the next may begin.
            let lens = [FRAME_UNITS + 10].into_iter().chain((10..10 * FRAME_UNITS).rev());
            for len in lens {
                if let Some(unit) = allocator.allocate_extent_in_room(len, Destination::Passed).unwrap() {
                    placed += 1;
                    let end = unit + u64::from(len);
                    assert!(end <= u64::from(border * FRAME_UNITS), "units {unit} to {end}, passed {border} frames");
                }
            }
        }
        assert!(placed > 10, "{placed}");
    }
}
