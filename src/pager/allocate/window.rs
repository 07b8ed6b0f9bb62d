//! Room for values that are written to their blocks at once: adjacent free frames, which one value after another fills.
//!
//! The units of a window count as used only once a value has them, so at any moment the map frames have what is in use.
//! The rest of a window is in no list: other allocations do not find it.
//!
//! Not here: the blocks of these frames, and writing them (`pager/values.rs`).

use super::Allocator;
use crate::error::{ErrorKind, Result};
use crate::pager::pool::FrameNo;
use crate::pager::space::{FRAME_UNITS, Space, bits};
use std::ops::Range;

/// The length of a window: a 32nd of the table, within these limits.
const WINDOW_BYTES: (u64, u64) = (64 << 10, 2 << 20);

impl Allocator<'_> {
    /// Takes adjacent frames, for `units` at least. Returns `None` if free room elsewhere should be used.
    pub(in crate::pager) fn open_window(self, units: u32) -> Result<Option<Range<FrameNo>>> {
        let mut space = self.frames.space();
        if space.compacting {
            return Ok(None);
        }
        // From here on most new frames are a window's, which need no memory.
        space.has_windows = true;
        if space.window.len() as u64 * u64::from(FRAME_UNITS) >= u64::from(units) {
            return Ok(Some(space.window.clone())); // what the last one left
        }
        self.leave_window_in(&mut space, FrameNo::MAX)?;
        if self.has_much_free_room(&mut space)? {
            return Ok(None);
        }
        let frame_bytes = self.frames.frame_bytes() as u64;
        let bytes = (self.frames.file.table_bytes() / 32).clamp(WINDOW_BYTES.0, WINDOW_BYTES.1).next_power_of_two();
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

    /// Makes the first `count` frames of what is left of the window frames like any other.
    pub(in crate::pager) fn leave_window(self, count: u32) -> Result<()> {
        self.leave_window_in(&mut self.frames.space(), count)
    }

    fn leave_window_in(self, space: &mut Space, count: u32) -> Result<()> {
        let frames = space.window.start..space.window.start.saturating_add(count).min(space.window.end);
        for frame in frames.clone() {
            let used = self.used_bits(frame)?;
            if used != 0 {
                space.note_used(frame, used);
            } else if space.runs.around(frame).is_none() {
                space.add_run(frame, 1);
            }
        }
        space.window.start = frames.end;
        Ok(())
    }
}
