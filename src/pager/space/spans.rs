//! Room for extents that begin in one frame and end in another, so that extents leave no gaps between them.
//!
//! ```text
//! ... used | tail || free frames || head | used ...
//!          <----------- a span ---------->
//! ```
//!
//! Extents are read and written frame by frame, so they may cross the end of a frame. Overflow pages lie within one:
//! its latch guards them. The next extent is tried where the last one ended, so a load packs its values. The spans of
//! freed extents are remembered by length, as hints: each is compared with the lists before it is used.
//!
//! Not here: marking the units as used (`allocate/extents.rs`).

use super::{ANY_USE, FRAME_UNITS, OPEN, Space};
use crate::pager::pool::FrameNo;
use std::collections::BTreeSet;
use std::ops::Range;

/// The hints that are kept at most.
const FREED_MAX: usize = 4096;

/// Where spans may begin.
#[derive(Default)]
pub(in crate::pager) struct Spans {
    /// For each kind of lists the last frame of the extent that was allocated last.
    pub(in crate::pager) ends: [FrameNo; 4],
    /// Spans that were freed: units, the frame in which they begin.
    freed: BTreeSet<(u32, FrameNo)>,
}

impl Space {
    /// Free units at the end of `frame`, which is in `lists`; 0 if all of it is free.
    pub(in crate::pager) fn tail(&self, frame: FrameNo, lists: usize) -> u32 {
        self.used_in(frame, lists).map_or(0, u64::leading_zeros)
    }

    /// Free units at the start of `frame`, which is in `lists`; 0 if all of it is free.
    fn head(&self, frame: FrameNo, lists: usize) -> u32 {
        self.used_in(frame, lists).map_or(0, u64::trailing_zeros)
    }

    /// The used units of `frame`, if it is in `lists`.
    pub(in crate::pager) fn used_in(&self, frame: FrameNo, lists: usize) -> Option<u64> {
        let link = self.link_of(frame);
        (link.list != 0 && self.lists_of(frame) == lists).then_some(link.used)
    }

    /// The end of the free frames from `frame` on, if it is free.
    pub(in crate::pager) fn free_end(&self, frame: FrameNo, lists: usize) -> Option<FrameNo> {
        match lists {
            OPEN => self.windows.free_around(frame),
            _ => self.runs.around(frame),
        }
        .map(|run| run.end)
    }

    /// Removes free frames from their run.
    pub(in crate::pager) fn take_free(&mut self, frames: &Range<FrameNo>, lists: usize) {
        match lists {
            OPEN => self.windows.remove_free(frames),
            _ => self.remove_free(frames),
        }
    }

    /// The units of the span that begins in `frame`, counted until there are `len`, and the frame in which it ends or
    /// that ends it. It must end before frame `end`.
    pub(in crate::pager) fn span(&self, frame: FrameNo, len: u32, lists: usize, end: FrameNo) -> (u32, FrameNo) {
        let (mut units, mut at) = (self.tail(frame, lists), frame.saturating_add(1));
        if units == 0 {
            return (0, at);
        }
        while units < len && at < end {
            let Some(free_end) = self.free_end(at, lists) else {
                return (units + self.head(at, lists), at);
            };
            let free = free_end.min(end) - at;
            (units, at) = (units.saturating_add(free.saturating_mul(FRAME_UNITS)), at + free);
        }
        (units, at)
    }

    /// A frame in which a span of `len` units begins that ends before frame `end`.
    pub(in crate::pager) fn find_span(&mut self, len: u32, lists: usize, end: FrameNo) -> Option<FrameNo> {
        const HINTS_TRIED: usize = 4;
        for _ in 0..HINTS_TRIED {
            let Some(&hint) = self.spans.freed.range((len, 0)..).next().filter(|_| lists == ANY_USE) else { break };
            self.spans.freed.remove(&hint);
            if self.span(hint.1, len, lists, end).0 >= len {
                return Some(hint.1);
            }
        }
        let last = self.spans.ends[lists];
        (self.span(last, len, lists, end).0 >= len).then_some(last)
    }

    /// Notes that an extent may end in `frame`: the next one is tried behind it.
    pub(in crate::pager) fn note_end(&mut self, frame: FrameNo) {
        let lists = self.lists_of(frame);
        self.spans.ends[lists] = frame;
    }

    /// Remembers the span that begins in `frame`, where an extent that crossed its end was freed.
    pub(in crate::pager) fn note_freed_span(&mut self, frame: FrameNo) {
        const LEN_MAX: u32 = 4 * FRAME_UNITS;
        if self.spans.freed.len() < FREED_MAX && self.tail(frame, ANY_USE) > 0 {
            let (units, _) = self.span(frame, LEN_MAX, ANY_USE, FrameNo::MAX);
            self.spans.freed.insert((units, frame));
        }
    }
}
