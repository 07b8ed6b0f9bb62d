//! Frames that a compaction has passed: those with a hole are in separate lists, so that room behind a compaction is
//! found as fast as any other.
//!
//! Not here: the compaction (`allocate/compaction.rs`).

use super::{ANY_USE, FRAME_UNITS, PASSED, Space, free_units};
use crate::pager::pool::FrameNo;

impl Space {
    /// Passes the frames below `end`. Returns their free units.
    pub(in crate::pager) fn pass_to(&mut self, end: FrameNo) -> u64 {
        let mut free = 0;
        for frame in self.passed..end {
            let link = self.link_of(frame);
            if link.list == 0 {
                free += if self.runs.around(frame).is_some() { u64::from(FRAME_UNITS) } else { 0 };
                continue;
            }
            free += free_units(link.list, link.used);
            self.take_out(frame, link, ANY_USE);
            self.passed = frame + 1;
            self.put_in(frame, link.used, link.list, PASSED);
        }
        self.passed = self.passed.max(end);
        free
    }

    /// Ends the pass: no frame counts as passed any more.
    pub(in crate::pager) fn pass_none(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        for frame in 0..passed {
            let link = self.link_of(frame);
            if link.list != 0 {
                self.take_out(frame, link, PASSED);
                self.put_in(frame, link.used, link.list, ANY_USE);
            }
        }
    }
}
