//! The locations of the map frames: the frames with the used bits of all others.
//!
//! A zone of [`ZONE_FRAMES`] frames has a map frame. Zone 0's is frame 0; those of zones 2^k to 2^(k+1) - 1 are next to
//! each other from group k's first frame on, which the header has. Group k is allocated when the file first reaches
//! zone 2^k.
//!
//! Not here: what is in them (`allocate/`).

use crate::pager::pool::FrameNo;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The number of frames that a map frame describes.
pub(crate) const ZONE_FRAMES: u32 = 512;
/// Frames before the first that is allocated: the map frame of zone 0.
pub(crate) const FIRST_FRAMES: u32 = 1;
/// The maximum number of map groups: 2^32 frames are 2^23 zones.
pub(crate) const MAP_GROUP_COUNT: usize = 24;

/// The first frame of each group of map frames, 0 if it is not allocated.
#[derive(Default)]
pub(in crate::pager) struct MapFrames([AtomicU32; MAP_GROUP_COUNT]);

impl MapFrames {
    pub(in crate::pager) fn new(groups: [FrameNo; MAP_GROUP_COUNT]) -> MapFrames {
        MapFrames(groups.map(AtomicU32::new))
    }

    /// The groups for the header. The caller keeps writers out.
    pub(in crate::pager) fn groups(&self) -> [FrameNo; MAP_GROUP_COUNT] {
        std::array::from_fn(|i| self.0[i].load(Relaxed))
    }

    /// The first frame of a group, 0 if it is not allocated.
    pub(in crate::pager) fn group(&self, group: usize) -> FrameNo {
        self.0[group].load(Acquire)
    }

    pub(in crate::pager) fn set_group(&self, group: usize, first: FrameNo) {
        self.0[group].store(first, Release);
    }

    /// The first frames of the groups that are allocated, in order.
    pub(in crate::pager) fn allocated(&self) -> impl Iterator<Item = FrameNo> {
        self.0.iter().map(|group| group.load(Acquire)).take_while(|&first| first != 0)
    }

    /// The frame with the bits of `zone`.
    pub(in crate::pager) fn of_zone(&self, zone: u32) -> FrameNo {
        if zone == 0 {
            return 0;
        }
        let group = zone.ilog2();
        self.group(group as usize) + (zone - (1 << group))
    }

    /// The number of zones that have map frames: 1, then doubling.
    pub(in crate::pager) fn zones(&self) -> u32 {
        1 << self.allocated().count()
    }

    /// The map frames: (first, count).
    pub(in crate::pager) fn fixed(&self) -> impl Iterator<Item = (FrameNo, u32)> {
        let groups = self.0.iter().enumerate().map(|(k, group)| (group.load(Acquire), 1 << k));
        std::iter::once((0, FIRST_FRAMES)).chain(groups.filter(|&(first, _)| first != 0))
    }
}
