//! Free space in the file, as lists in memory.
//!
//! The allocator works in **units**, a 64th of a frame. Groups of buckets take whole frames, overflow pages a few units
//! within one frame, extents any units in sequence. One allocator serves them all: a freed hole can be reused for any
//! of them.
//!
//! The lists have frames with a hole, by the length of the longest, and runs of free frames, by length. They are not in
//! the file. After an open, allocations fill them zone by zone, so an open costs the same whatever the file's size.
//!
//! Differs from the paper's buddy-in-waiting: overflow pages are not tied to a split point and may be of any size
//! (docs/architecture.md, "Space"). Not here: which units the file says are used, and allocating them (`allocate/`).

mod passed;
mod runs;
mod spans;

use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::pool::FrameNo;
use runs::Runs;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Units in a frame.
pub(crate) const FRAME_UNITS: u32 = 64;

/// The free space known so far.
pub(crate) struct Space {
    /// Frames with a hole, in two kinds of lists: passed by a compaction, or not.
    pub(super) lists: [Lists; 2],
    /// Each frame's links in its list, by zone.
    pub(super) links: Vec<Option<ZoneLinks>>,
    /// Links for later zones, made by the thread that populates memory.
    pub(super) spare_links: Arc<Mutex<Vec<ZoneLinks>>>,
    /// Runs of free frames.
    pub(super) runs: Runs,
    /// Units in the known holes and runs.
    pub(super) free_units: u64,
    pub(super) spans: spans::Spans,
    /// Zones below this one are in the lists.
    pub(super) zones_known: u32,
    /// Frames for which disk space is reserved.
    pub(super) reserved_frames: u32,
    /// Frames whose memory is populated or being populated.
    pub(super) ready_frames: u32,
    /// Frames of the next large allocation.
    pub(super) expected_frames: u32,
    /// Map frames, groups of buckets: references in the file cannot cause these frames to be allocated or
    /// freed. First -> count.
    pub(super) fixed: BTreeMap<FrameNo, u32>,
    /// Frames for values that are written at once; the first of them may be in use in part.
    pub(super) window: Range<FrameNo>,
    /// Whether such frames were taken since the last checkpoint began.
    pub(super) has_windows: bool,
    /// The last frames of such windows: free in whole or in part, and in no list.
    pub(super) set_aside: Vec<FrameNo>,
    /// Set during a compaction: allocate as near the start as possible.
    pub(super) compacting: bool,
    /// The frames below this one were passed by a compaction.
    pub(super) passed: FrameNo,
}

/// Frames with a hole, by the length of their longest hole.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    /// The first frame of the list of each length; 0 ends a list.
    first: [FrameNo; FRAME_UNITS as usize],
    /// Bit n is set if list n is not empty.
    filled: u64,
}

impl Lists {
    const EMPTY: Lists = Lists { first: [0; FRAME_UNITS as usize], filled: 0 };

    /// A frame whose longest hole is the shortest that has at least `len` units.
    pub(super) fn find(&self, len: u32) -> Option<FrameNo> {
        let lists = self.filled & (u64::MAX << len);
        (lists != 0).then(|| self.first[lists.trailing_zeros() as usize])
    }
}

/// The links of a zone's frames.
pub(super) type ZoneLinks = Box<[Link; ZONE_FRAMES as usize]>;

pub(super) fn new_links() -> ZoneLinks {
    Box::new([Link::default(); ZONE_FRAMES as usize])
}

/// Index of the lists of frames that no compaction has passed.
pub(super) const ANY_USE: usize = 0;
/// Index of the lists of frames that a compaction has passed.
pub(super) const PASSED: usize = 1;

/// A frame's links in the list for its longest hole; list 0 means no list.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    /// Its used units while it is in a list.
    pub(super) used: u64,
    pub(super) list: u8,
    before: FrameNo,
    after: FrameNo,
}

impl Space {
    /// For a file whose first `zones_known` zones have no free units.
    pub(crate) fn new(zones_known: u32) -> Space {
        Space {
            lists: [Lists::EMPTY; 2],
            links: Vec::new(),
            spare_links: Arc::default(),
            runs: Runs::default(),
            free_units: 0,
            spans: spans::Spans::default(),
            zones_known,
            reserved_frames: 0,
            ready_frames: 0,
            expected_frames: 0,
            fixed: BTreeMap::new(),
            window: 0..0,
            has_windows: false,
            set_aside: Vec::new(),
            compacting: false,
            passed: 0,
        }
    }

    /// Whether any of these frames is fixed.
    pub(super) fn has_fixed(&self, first: FrameNo, count: u32) -> bool {
        // Ranges do not overlap, so the last one that starts before the end reaches farthest.
        let before = self.fixed.range(..first.saturating_add(count)).next_back();
        before.is_some_and(|(&start, &len)| start + len > first)
    }

    pub(super) fn link(&mut self, frame: FrameNo) -> &mut Link {
        let zone = (frame / ZONE_FRAMES) as usize;
        if self.links.len() <= zone {
            self.links.resize(zone + 1, None);
        }
        let spare = || self.spare_links.lock().expect("no panic while held").pop();
        let zone = self.links[zone].get_or_insert_with(|| spare().unwrap_or_else(new_links));
        &mut zone[(frame % ZONE_FRAMES) as usize]
    }

    /// The links of `frame`; empty links if its zone has none.
    pub(super) fn link_of(&self, frame: FrameNo) -> Link {
        let zone = self.links.get((frame / ZONE_FRAMES) as usize).and_then(Option::as_ref);
        zone.map_or_else(Link::default, |links| links[(frame % ZONE_FRAMES) as usize])
    }

    /// The lists that `frame` belongs to.
    fn lists_of(&self, frame: FrameNo) -> usize {
        if frame < self.passed { PASSED } else { ANY_USE }
    }

    /// Records the used units of `frame`. A free frame is in `runs` instead of a list.
    pub(super) fn note_used(&mut self, frame: FrameNo, used: u64) {
        let list = if used == 0 { 0 } else { longest(!used) as u8 };
        let link = self.link(frame);
        let old = std::mem::replace(link, Link { used, ..*link });
        let lists = self.lists_of(frame);
        self.free_units = self.free_units + free_units(list, used) - free_units(old.list, old.used);
        if old.list == list {
            return;
        }
        self.take_out(frame, old, lists);
        if list != 0 {
            self.put_in(frame, used, list, lists);
        } else {
            *self.link(frame) = Link::default();
        }
    }

    /// Removes `frame` from its list, one of `lists`.
    fn take_out(&mut self, frame: FrameNo, link: Link, lists: usize) {
        if link.list == 0 {
            return;
        }
        if link.after != 0 {
            self.link(link.after).before = link.before;
        }
        if link.before != 0 {
            self.link(link.before).after = link.after;
            return;
        }
        let lists = &mut self.lists[lists];
        debug_assert_eq!(lists.first[usize::from(link.list)], frame);
        lists.first[usize::from(link.list)] = link.after;
        if link.after == 0 {
            lists.filled &= !(1 << link.list);
        }
    }

    /// Puts `frame`, which is in no list, into `list` of `lists`.
    fn put_in(&mut self, frame: FrameNo, used: u64, list: u8, lists: usize) {
        let first = std::mem::replace(&mut self.lists[lists].first[usize::from(list)], frame);
        if first != 0 {
            self.link(first).before = frame;
        }
        self.lists[lists].filled |= 1 << list;
        *self.link(frame) = Link { used, list, before: 0, after: first };
    }

    pub(super) fn add_run(&mut self, first: FrameNo, len: u32) {
        self.free_units += u64::from(len) * u64::from(FRAME_UNITS);
        self.runs.add(first..first + len);
    }

    /// Removes `frames` from their run.
    pub(super) fn remove_free(&mut self, frames: &Range<FrameNo>) {
        self.free_units -= frames.len() as u64 * u64::from(FRAME_UNITS);
        self.runs.remove(frames);
    }

    /// Takes the first `len` frames of the shortest run with at least `len`.
    pub(super) fn take_run(&mut self, len: u32) -> Option<FrameNo> {
        let first = if self.compacting { self.runs.first_of(len)? } else { self.runs.shortest(len)? };
        self.remove_free(&(first..first + len));
        Some(first)
    }
}

/// Free units of a frame that is in `list`.
fn free_units(list: u8, used: u64) -> u64 {
    if list == 0 { 0 } else { u64::from((!used).count_ones()) }
}

/// The bits of `free` at which `len` (1 to 64) consecutive set bits start.
fn starts_of(free: u64, len: u32) -> u64 {
    let (mut starts, mut have) = (free, 1);
    while have < len {
        let step = have.min(len - have);
        starts &= starts >> step;
        have += step;
    }
    starts
}

/// Length of the longest run of set bits.
pub(crate) fn longest(free: u64) -> u32 {
    if free == 0 {
        return 0;
    }
    // starts[k]: where 2^k consecutive set bits start.
    let mut starts = [free, 0, 0, 0, 0, 0, 0];
    let mut power = 0;
    while power < 6 {
        let next = starts[power] & (starts[power] >> (1 << power));
        if next == 0 {
            break;
        }
        power += 1;
        starts[power] = next;
    }
    // Builds the run's length from the largest power down.
    let (mut here, mut len) = (starts[power], 1 << power);
    for smaller in (0..power).rev() {
        let longer = here & starts[smaller].checked_shr(len).unwrap_or(0);
        if longer != 0 {
            here = longer;
            len += 1 << smaller;
        }
    }
    len
}

/// The bits of `len` units from `start` on.
pub(super) fn bits(start: u32, len: u32) -> u64 {
    (u64::MAX >> (FRAME_UNITS - len)) << start
}

/// Start of the smallest hole of at least `len` units.
pub(super) fn best_fit(free: u64, len: u32) -> u32 {
    let mut starts = starts_of(free, len);
    // Starts of runs: bits whose lower neighbour is not free.
    starts &= !(free << 1);
    let (mut best, mut best_len) = (starts.trailing_zeros(), u32::MAX);
    while starts != 0 {
        let at = starts.trailing_zeros();
        let run = (free >> at).trailing_ones();
        if run < best_len {
            (best, best_len) = (at, run);
        }
        starts &= starts - 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_and_best_fit_find_what_a_loop_finds() {
        let mut x = 1u64;
        for _ in 0..2000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let free = x | x >> 21;
            let mut runs = Vec::new();
            let mut at = 0;
            while at < 64 {
                let len = (free >> at).trailing_ones();
                if len > 0 {
                    runs.push((len, at));
                }
                at += len + 1;
            }
            assert_eq!(longest(free), runs.iter().map(|r| r.0).max().unwrap_or(0));
            for len in 1..=longest(free) {
                let expected = runs.iter().filter(|r| r.0 >= len).min().unwrap();
                assert_eq!(best_fit(free, len), expected.1, "{free:b} {len}");
            }
        }
        assert_eq!((longest(u64::MAX), longest(0)), (64, 0));
        assert_eq!(best_fit(u64::MAX, 64), 0);
    }
}
