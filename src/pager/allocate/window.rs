//! Room for values that are written to their blocks at once: adjacent free frames, which one value after another fills.
//!
//! The units of a window count as used only once a value has them, so at any moment the map frames have what is in use.
//! The rest of a window is in no list: other allocations do not find it. The end of a large one stays out of the lists
//! for longer: it is *set aside*.
//!
//! Not here: the blocks of these frames, and writing them (`pager/values.rs`).

use super::Allocator;
use crate::error::{ErrorKind, Result};
use crate::pager::pool::FrameNo;
use crate::pager::space::{FRAME_UNITS, Space, bits};
use std::ops::Range;

/// The length of a window: a 32nd of the table, within these limits.
const WINDOW_BYTES: (u64, u64) = (64 << 10, 2 << 20);

/// How many frames that were set aside are put into the lists at once. Their map frames may have to be read while
/// writers wait.
const FRAMES_AT_ONCE: usize = 256;

impl Allocator<'_> {
    /// Takes adjacent frames, for `units` at least. Returns `None` if free room elsewhere should be used.
    pub(in crate::pager) fn open_window(self, units: u32) -> Result<Option<Range<FrameNo>>> {
        let mut space = self.frames.space();
        if space.compacting {
            return Ok(None);
        }
        if space.window.len() as u64 * u64::from(FRAME_UNITS) >= u64::from(units) {
            space.has_windows = true;
            return Ok(Some(space.window.clone())); // what the last one left
        }
        // First this, which may put frames of other zones into the lists.
        let is_much_free = self.has_much_free_room(&mut space)?;
        self.leave_window_in(&mut space, FrameNo::MAX)?;
        if is_much_free {
            self.learn_set_aside(&mut space, FRAMES_AT_ONCE);
            return Ok(None);
        }
        // From here on most new frames are a window's, which need no memory.
        space.has_windows = true;
        let frame_bytes = self.frames.frame_bytes() as u64;
        let bytes = self.window_bytes();
        let least = (bytes / frame_bytes) as u32;
        let count = units.div_ceil(FRAME_UNITS).max(least);
        let first = match space.take_run(count) {
            Some(first) => first,
            // Other frames, which need memory, are in other large pages.
            None => match self.extend_aligned(&mut space, count, if bytes == WINDOW_BYTES.1 { least } else { 1 }) {
                Err(e) if e.kind() == ErrorKind::DiskFull => return Ok(None),
                extended => extended?,
            },
        };
        space.window = first..first + count;
        Ok(Some(first..first + count))
    }

    /// The length of a new window.
    fn window_bytes(self) -> u64 {
        (self.frames.file.table_bytes() / 32).clamp(WINDOW_BYTES.0, WINDOW_BYTES.1).next_power_of_two()
    }

    /// Adds `count` adjacent frames at the end of the file, the first a multiple of `align`.
    fn extend_aligned(self, space: &mut Space, count: u32, align: u32) -> Result<FrameNo> {
        let before = self.frames.frame_count().wrapping_neg() % align;
        let first = self.extend(space, before + count)?;
        if before > 0 {
            // If map frames came first, the window is not aligned, which does no harm.
            space.add_run(first, before);
        }
        Ok(first + before)
    }

    /// Whether more than an eighth of the table is free, or may be. After an open, all zones are scanned for free room
    /// before there are windows; otherwise the file would grow after each open.
    fn has_much_free_room(self, space: &mut Space) -> Result<bool> {
        const ZONES_AT_ONCE: usize = 2;
        const BYTES_MIN: u64 = 1 << 20;
        for _ in 0..ZONES_AT_ONCE {
            if !self.learn_zone(space)? {
                let much = (self.frames.file.table_bytes() / 8).max(BYTES_MIN) / self.unit_bytes() as u64;
                return Ok(space.free_units > much);
            }
        }
        Ok(true)
    }

    /// Marks `units` of the window as used, from unit `start` of its first frame on. Returns false if that frame's rest
    /// is in use elsewhere.
    pub(in crate::pager) fn take_in_window(self, start: u32, units: u32) -> Result<bool> {
        let mut space = self.frames.space();
        let first = space.window.start;
        let here = if start == 0 { 0 } else { units.min(FRAME_UNITS - start) };
        if here > 0 {
            let (used, wanted) = (self.used_bits(first)?, bits(start, here));
            // Its earlier values may have been freed, and then others had the frame.
            if space.runs.around(first).is_some() || used & wanted != 0 {
                return Ok(false);
            }
            self.set_used_bits(first, used | wanted)?;
            if space.link_of(first).list != 0 {
                space.note_used(first, used | wanted);
            }
        }
        let (next, left) = (first + u32::from(start > 0), units - here);
        if left > 0 {
            let whole = (left - 1) / FRAME_UNITS;
            self.fill_used_bits(next, whole, 0xFF)?;
            self.set_used_bits(next + whole, bits(0, left - whole * FRAME_UNITS))?;
        }
        space.window.start = first + (start + units) / FRAME_UNITS;
        Ok(true)
    }

    /// Puts the free units of the first `count` frames of what is left of the window into the lists. The last frames of
    /// a large one are set aside: a small value in them would need a large page of memory.
    pub(in crate::pager) fn leave_window(self, count: u32) -> Result<()> {
        self.leave_window_in(&mut self.frames.space(), count)
    }

    fn leave_window_in(self, space: &mut Space, count: u32) -> Result<()> {
        let left = space.window.len() as u64 * self.frames.frame_bytes() as u64;
        let is_set_aside = left <= WINDOW_BYTES.0 && self.window_bytes() == WINDOW_BYTES.1;
        let end = space.window.start.saturating_add(count).min(space.window.end);
        while space.window.start < end {
            let frame = space.window.start;
            // Also if its map frame cannot be read: then only the next open finds its room.
            space.window.start += 1;
            if is_set_aside {
                space.set_aside.push(frame);
            } else {
                self.learn_frame(space, frame)?;
            }
        }
        Ok(())
    }

    /// Called when a checkpoint begins. If there was no window since the last one, other values may have what is set
    /// aside.
    pub(in crate::pager) fn end_windows(self) {
        let mut space = self.frames.space();
        if !std::mem::take(&mut space.has_windows) {
            self.learn_set_aside(&mut space, FRAMES_AT_ONCE);
        }
    }

    /// Puts the free units of up to `count` frames that are set aside into the lists. If the map frame of one cannot be
    /// read, only the next open finds its room.
    pub(super) fn learn_set_aside(self, space: &mut Space, count: usize) {
        for _ in 0..count {
            let Some(frame) = space.set_aside.pop() else { break };
            // The file may have been cut, or all of the frame freed, and then a window may have it again.
            if frame < self.frames.frame_count() && !space.window.contains(&frame) {
                let _ = self.learn_frame(space, frame);
            }
        }
    }

    /// The number of frames that are set aside.
    #[cfg(test)]
    pub(crate) fn set_aside(self) -> usize {
        self.frames.space().set_aside.len()
    }
}
