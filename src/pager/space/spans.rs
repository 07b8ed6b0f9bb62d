//! Room for extents that begin in one frame and end in another, so that extents leave no gaps between them.
//!
//! ```text
//! ... used | tail || free frames || head | used ...
//!          <----------- a span ---------->
//! ```
//!
//! Extents are read and written frame by frame, so they may cross the end of a frame. Overflow pages lie within one:
//! its latch guards them. (In a table larger than its cache extents do not cross more often than they must:
//! `allocate/extents.rs`.) The next extent is tried where the last one ended, so a load packs its values. The spans of
//! freed extents are remembered by length, as hints: each is compared with the lists before it is used.
//!
//! Not here: marking the units as used (`allocate/extents.rs`).

use super::{ANY_USE, FRAME_UNITS, Space};
use crate::pager::pool::FrameNo;
use std::collections::BTreeSet;

/// The hints that are kept at most.
const FREED_MAX: usize = 4096;

/// The units at which spans may begin.
#[derive(Default)]
pub(in crate::pager) struct Spans {
    /// For each kind of lists the last frame of the extent that was allocated last.
    pub(in crate::pager) ends: [FrameNo; 2],
    /// Spans that were freed: units, the frame in which they begin.
    freed: BTreeSet<(u32, FrameNo)>,
}

impl Space {
    /// Free units at the end of `frame`; 0 if all of it is free or it is in other lists.
    pub(in crate::pager) fn tail(&self, frame: FrameNo, lists: usize) -> u32 {
        self.used_in(frame, lists).map_or(0, u64::leading_zeros)
    }

    /// Free units at the start of `frame`; 0 if all of it is free or it is in other lists.
    fn head(&self, frame: FrameNo, lists: usize) -> u32 {
        self.used_in(frame, lists).map_or(0, u64::trailing_zeros)
    }

    /// The used units of `frame`, if it is in `lists`.
    pub(in crate::pager) fn used_in(&self, frame: FrameNo, lists: usize) -> Option<u64> {
        let link = self.link_of(frame);
        (link.list != 0 && self.lists_of(frame) == lists).then_some(link.used)
    }

    /// The end of the free frames from `frame` on, if it is free.
    pub(in crate::pager) fn free_end(&self, frame: FrameNo) -> Option<FrameNo> {
        self.runs.around(frame).map(|run| run.end)
    }

    /// The units of the span that begins in `frame` and ends before frame `end`, counted until there are `len`.
    fn span(&self, frame: FrameNo, len: u32, lists: usize, end: FrameNo) -> u32 {
        let (mut units, mut at) = (self.tail(frame, lists), frame.saturating_add(1));
        if units == 0 {
            return 0;
        }
        while units < len && at < end {
            let Some(free_end) = self.free_end(at) else {
                return units + self.head(at, lists);
            };
            let free = free_end.min(end) - at;
            (units, at) = (units.saturating_add(free.saturating_mul(FRAME_UNITS)), at + free);
        }
        units
    }

    /// A frame in which a span of `len` units begins that ends before frame `end`.
    pub(in crate::pager) fn find_span(&mut self, len: u32, lists: usize, end: FrameNo) -> Option<FrameNo> {
        const HINTS_TRIED: usize = 4;
        for _ in 0..HINTS_TRIED {
            let Some(&hint) = self.spans.freed.range((len, 0)..).next().filter(|_| lists == ANY_USE) else { break };
            self.spans.freed.remove(&hint);
            if self.span(hint.1, len, lists, end) >= len {
                return Some(hint.1);
            }
        }
        let last = self.spans.ends[lists];
        (self.span(last, len, lists, end) >= len).then_some(last)
    }

    /// Notes that an extent may end in `frame`: the next one is tried behind it.
    pub(in crate::pager) fn note_end(&mut self, frame: FrameNo) {
        let lists = self.lists_of(frame);
        self.spans.ends[lists] = frame;
    }

    /// Remembers the span that begins in `frame`, where an extent that crossed its end was freed.
    pub(in crate::pager) fn note_freed_span(&mut self, frame: FrameNo) {
        const LEN_MAX: u32 = 4 * FRAME_UNITS;
        if self.tail(frame, ANY_USE) == 0 {
            return;
        }
        let units = self.span(frame, LEN_MAX, ANY_USE, FrameNo::MAX);
        self.spans.freed.insert((units, frame));
        if self.spans.freed.len() > FREED_MAX {
            self.spans.freed.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::io::Disk;
    use crate::pager::Pager;
    use crate::pager::space::FRAME_UNITS;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn pager() -> Pager {
        Pager::in_memory(4096, Arc::new(Disk)).unwrap()
    }

    #[test]
    fn extents_of_any_length_leave_no_gap_in_a_load() {
        let pager = pager();
        let frames = pager.frame_count();
        let lens = [40, 40, 63, 64, 65, 1, 200, 40, 130];
        for n in 0..900 {
            pager.allocate_extent(lens[n % lens.len()]).unwrap();
        }
        let units = 100 * lens.iter().sum::<u32>();
        // Plus the map frames of a second zone.
        assert!(pager.frame_count() - frames <= units.div_ceil(FRAME_UNITS) + 4);
    }

    #[test]
    fn the_span_of_a_freed_extent_serves_the_next_one_of_its_length() {
        let pager = pager();
        let units: Vec<u64> = (0..400).map(|_| pager.allocate_extent(40).unwrap()).collect();
        let frames = pager.frame_count();
        let crosses = |unit: &u64| unit % u64::from(FRAME_UNITS) > u64::from(FRAME_UNITS) - 40;
        let mut freed: Vec<u64> = units.into_iter().filter(crosses).step_by(2).collect();
        assert!(freed.len() >= 90);
        freed.iter().for_each(|&unit| pager.free(unit, 40).unwrap());
        let mut again: Vec<u64> = freed.iter().map(|_| pager.allocate_extent(40).unwrap()).collect();
        freed.sort_unstable();
        again.sort_unstable();
        assert_eq!((again, pager.frame_count()), (freed, frames));
    }

    /// Allocates and frees overflow pages and extents: no unit has two owners, and none is lost.
    #[test]
    fn no_unit_is_given_out_twice_and_all_come_back() {
        for seed in 0..20u64 {
            let (pager, mut state) = (pager(), seed);
            let mut below = |limit: usize| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as usize % limit
            };
            let mut owned: BTreeMap<u64, u32> = BTreeMap::new();
            for _ in 0..4000 {
                if owned.len() > 10 && below(100) < 48 {
                    let index = below(owned.len());
                    let (&unit, &len) = owned.iter().nth(index).unwrap();
                    owned.remove(&unit);
                    pager.free(unit, len).unwrap();
                    continue;
                }
                let len = [1 + below(16), 1 + below(100), 64, 1 + below(400)][below(4)] as u32;
                let is_extent = below(100) < 60;
                let len = if is_extent { len } else { len.min(FRAME_UNITS) };
                let unit = if is_extent { pager.allocate_extent(len) } else { pager.allocate(len) }.unwrap();
                let end = unit + u64::from(len);
                assert!(is_extent || unit / u64::from(FRAME_UNITS) == (end - 1) / u64::from(FRAME_UNITS));
                let before = owned.range(..end).next_back();
                assert!(before.is_none_or(|(unit_before, len)| unit_before + u64::from(*len) <= unit), "seed {seed}");
                owned.insert(unit, len);
            }
            let (all, used) = (u64::from(pager.frame_count()) * u64::from(FRAME_UNITS), owned.values().sum::<u32>());
            let fixed: u32 = pager.fixed_frames().map(|(_, count)| count).sum();
            let free = pager.allocator().free_units().unwrap();
            assert_eq!(all - free, u64::from(used + fixed * FRAME_UNITS), "seed {seed}");
            pager.allocator().free_kept().unwrap();
            assert_eq!(pager.allocator().free_bytes_known(), free * 64, "seed {seed}");
        }
    }
}
