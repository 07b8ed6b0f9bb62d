//! Extents, which may begin in one frame and end in another.
//!
//! Not here: where there is room for them (`space/spans.rs`).

use super::Allocator;
use crate::error::Result;
use crate::pager::pool::FrameNo;
use crate::pager::space::{ANY_USE, FRAME_UNITS, PASSED, Space, bits};

impl Allocator<'_> {
    /// Allocates `len` units for an extent. Returns the first unit's number.
    pub(crate) fn allocate_extent(self, len: u32) -> Result<u64> {
        self.allocate_anywhere(len, self.packs_extents())
    }

    /// Whether an extent may cross the ends of frames more often than it must. In a table that is larger than its cache
    /// each frame is one more read from the disk.
    pub(crate) fn packs_extents(self) -> bool {
        self.frames.has_cache_for(self.frames.frame_count())
    }

    /// Allocates `len` units in a span of `lists` that ends before frame `end`.
    pub(in crate::pager) fn allocate_in_span(
        self,
        space: &mut Space,
        len: u32,
        lists: usize,
        end: FrameNo,
    ) -> Result<Option<u64>> {
        let found = space.find_span(len, lists, end);
        found.map(|frame| self.use_span(space, frame, len, lists)).transpose()
    }

    /// [`allocate_in_span`](Self::allocate_in_span) for any use, and during a compaction in what it has passed.
    pub(super) fn allocate_in_any_span(self, space: &mut Space, len: u32) -> Result<Option<u64>> {
        let (lists, end) = if space.compacting { (PASSED, space.passed) } else { (ANY_USE, FrameNo::MAX) };
        self.allocate_in_span(space, len, lists, end)
    }

    /// Allocates `len` units behind the last extent, if that is the last thing in the file, which grows for it.
    pub(super) fn allocate_at_end(self, space: &mut Space, len: u32) -> Result<Option<u64>> {
        let last = space.spans.ends[ANY_USE];
        let tail = space.tail(last, ANY_USE);
        if tail == 0 || last + 1 != self.frames.frame_count() || space.compacting {
            return Ok(None);
        }
        let left = len - tail; // otherwise it would have fitted in the tail
        let count = left.div_ceil(FRAME_UNITS);
        let first = self.extend(space, count)?;
        if first != last + 1 {
            space.add_run(first, count); // behind map frames
            return Ok(None);
        }
        let start = FRAME_UNITS - tail;
        self.use_part(space, last, bits(start, tail), ANY_USE)?;
        self.set_run_used(space, first, count, left - (count - 1) * FRAME_UNITS)?;
        space.spans.ends[ANY_USE] = first + count - 1;
        Ok(Some(u64::from(last) * u64::from(FRAME_UNITS) + u64::from(start)))
    }

    /// Marks the first `len` units of the span that begins in `frame` as used.
    fn use_span(self, space: &mut Space, frame: FrameNo, len: u32, lists: usize) -> Result<u64> {
        let tail = space.tail(frame, lists);
        let (start, here) = (FRAME_UNITS - tail, len.min(tail));
        self.use_part(space, frame, bits(start, here), lists)?;
        let (mut left, mut at) = (len - here, frame + 1);
        while left > 0 {
            let Some(end) = space.free_end(at) else {
                self.use_part(space, at, bits(0, left), lists)?;
                at += 1;
                break;
            };
            let count = left.div_ceil(FRAME_UNITS).min(end - at);
            let units = left.min(count * FRAME_UNITS);
            space.remove_free(&(at..at + count));
            self.set_run_used(space, at, count, units - (count - 1) * FRAME_UNITS)?;
            (left, at) = (left - units, at + count);
        }
        space.spans.ends[lists] = at - 1;
        Ok(u64::from(frame) * u64::from(FRAME_UNITS) + u64::from(start))
    }

    /// Marks free units of a frame in `lists` as used.
    fn use_part(self, space: &mut Space, frame: FrameNo, units: u64, lists: usize) -> Result<()> {
        let used = space.used_in(frame, lists).expect("a span begins and ends in frames with a hole") | units;
        self.set_used_bits(frame, used)?;
        space.note_used(frame, used);
        Ok(())
    }
}
