//! The locations of the map frames: the frames with the used bits and the checksums of all others.
//!
//! A zone of [`ZONE_FRAMES`] frames has two map frames, the first with its used bits, the second with its checksums.
//! Zone 0's are frames 1 and 2; those of zones 2^k to 2^(k+1) - 1 are adjacent from group k's first frame on, which the
//! header has. Group k is allocated when the file first reaches zone 2^k.
//!
//! Not here: what is in them (`sums.rs`, `allocate/`).

use crate::pager::pool::FrameNo;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The number of frames that a pair of map frames describes.
pub(crate) const ZONE_FRAMES: u32 = 512;
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

    /// The frame with the bits of `zone`; its checksums are in the next frame.
    pub(in crate::pager) fn of_zone(&self, zone: u32) -> FrameNo {
        if zone == 0 {
            return 1;
        }
        let group = zone.ilog2();
        self.group(group as usize) + 2 * (zone - (1 << group))
    }

    /// The number of zones that have map frames: 1, then doubling.
    pub(in crate::pager) fn zones(&self) -> u32 {
        1 << self.allocated().count()
    }

    /// The header and the map frames: (first, count).
    pub(in crate::pager) fn fixed(&self) -> impl Iterator<Item = (FrameNo, u32)> {
        let groups = self.0.iter().enumerate().map(|(k, group)| (group.load(Acquire), 2 << k));
        std::iter::once((0, 3)).chain(groups.filter(|&(first, _)| first != 0))
    }

    /// Whether this frame has checksums.
    pub(in crate::pager) fn has_sums(&self, frame: FrameNo) -> bool {
        frame == 2
            || self
                .allocated()
                .enumerate()
                .any(|(k, group)| frame > group && frame - group < 2 << k && (frame - group) % 2 == 1)
    }
}
