//! Room for values that go to the file at once: in windows, which are opened, mapped, sealed and closed here.
//!
//! Not here: the lists of windows (`space/windows.rs`), their pages (`pool/window_pages.rs`).

use super::Values;
use crate::error::{Error, Result};
use crate::pager::file::length::set_frame_count;
use crate::pager::pool::{FrameNo, LARGE_PAGE_BYTES};
use crate::pager::space::windows::{ValueRoom, ValueWindow};
use crate::pager::space::{FRAME_UNITS, OPEN, Space};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// In a smaller table, windows would take too large a part.
const WINDOWS_FROM_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 32 << 20 };

impl Values<'_> {
    /// Allocates `len` units in a window, for a value that is written through. Returns `None` if free room elsewhere
    /// should be used, if too much waits for the next checkpoint, or if the window `must` be mapped and cannot be. With
    /// `ahead`, windows may be longer than needed now.
    pub(in crate::pager) fn allocate_in_window(&self, len: u32, ahead: bool, must: bool) -> Result<Option<ValueRoom>> {
        let mut space = self.frames.space();
        if space.compacting || self.allocator.has_full_quarantine(&space) {
            return Ok(None);
        }
        self.keep_end();
        if len < FRAME_UNITS
            && let Some(frame) = space.lists[OPEN].find(len)
        {
            let unit = self.allocator.take_hole(&mut space, frame, len)?;
            return Ok(Some(space.windows.room(unit)));
        }
        // A window ends where its neighbour, which may not be the file's own pages, begins.
        let end = space.windows.end_of_open(space.spans.ends[OPEN]);
        if self.allocator.packs_extents()
            && let Some(unit) = self.allocator.allocate_in_span(&mut space, len, OPEN, end)?
        {
            return Ok(Some(space.windows.room(unit)));
        }
        let frames = len.div_ceil(FRAME_UNITS);
        let mut found = space.windows.take(frames);
        if found.is_none() {
            let step = if ahead { self.window_frames() } else { 0 };
            if self.has_free_room(&mut space, len)? || !self.begin_window(&mut space, frames, step)? && must {
                return Ok(None);
            }
            found = space.windows.take(frames);
        }
        // The next window may be too short.
        let Some(first) = found else { return Ok(None) };
        let unit = self.allocator.use_run(&mut space, first, len)?;
        Ok(Some(space.windows.room(unit)))
    }

    /// The length of the next window in frames: a 32nd of the table, in large pages.
    fn window_frames(&self) -> u32 {
        const LARGE_PAGES_MAX: u64 = 8;
        let bytes = self.frames.file.table_bytes();
        self.allocator.large_page_frames() * (bytes / 32 / LARGE_PAGE_BYTES as u64).clamp(1, LARGE_PAGES_MAX) as u32
    }

    /// Whether `len` units are free, and more than a 16th of the table, or may be. After an open, all zones are scanned
    /// for free room before there are windows; otherwise the file would grow after each open.
    fn has_free_room(&self, space: &mut Space, len: u32) -> Result<bool> {
        const ZONES_AT_ONCE: usize = 2;
        for _ in 0..ZONES_AT_ONCE {
            if !self.allocator.learn_zone(space)? {
                return Ok(self.allocator.much_is_free(space) && space.has_room(len));
            }
        }
        Ok(true)
    }

    /// Begins to use the next window, and with a `step` opens another one after it. Returns whether the window's frames
    /// are the file's own pages.
    fn begin_window(&self, space: &mut Space, count: u32, step: u32) -> Result<bool> {
        let (first, count) = match space.windows.next.take() {
            Some(next) => next,
            None => self.open_window(space, count, step)?,
        };
        let window = space.windows.around(first);
        let mapped = window.is_some_and(|window| window.mapped);
        let populated = window.map_or(0, |window| window.populated.load(Acquire));
        // By now the thread that populates memory has populated most or all of the window. The rest must be populated
        // here: if the disk is full, a store to an unpopulated page would report that too late.
        let is_ready = populated >= count as usize * self.frames.frame_bytes();
        if mapped && !is_ready && !self.frames.pool.populate(first..first + count) {
            self.through.unmapped.store(true, Relaxed);
            space.windows.open.remove(&first);
            self.frames.unmap_windows(first..first + count)?;
            space.add_run(first, count);
            return Ok(false);
        }
        space.windows.add_free(first, count);
        if mapped && step > 0 {
            space.windows.next = Some(self.open_window(space, step, step)?);
        }
        Ok(mapped)
    }

    /// Adds a window of at least `count` frames at the end of the file, and maps it if possible. With a `step` its
    /// length is a multiple of `step`, and it consists of whole large pages. Returns its first frame and its length.
    fn open_window(&self, space: &mut Space, count: u32, step: u32) -> Result<(FrameNo, u32)> {
        let before = match step {
            0 => 0,
            _ => self.frames.frame_count().wrapping_neg() % self.allocator.large_page_frames(),
        };
        let count = if step == 0 { count } else { count.next_multiple_of(step) };
        let mut first = self.allocator.extend(space, before + count)?;
        if before > 0 {
            // If map frames came first, the window is not aligned to large pages, which does no harm.
            space.add_run(first, before);
            first += before;
        }
        let end = first + count;
        let mapped = self.map_window(first..end)?;
        let populated = Arc::default();
        if mapped {
            self.frames.pool.make_window_ready(first..end, &populated);
            space.ready_frames = space.ready_frames.max(end);
        }
        space.windows.open.insert(first, ValueWindow { count, mapped, populated });
        self.allocator.kept.note_window();
        Ok((first, count))
    }

    /// Gives up the window that is not in use yet, so that its frames need not be the file's pages. The caller keeps
    /// writers out.
    fn give_up_next_window(&self) -> Result<()> {
        let mut space = self.frames.space();
        let Some((first, count)) = space.windows.next.take() else { return Ok(()) };
        space.windows.open.remove(&first);
        space.add_run(first, count);
        self.frames.unmap_windows(first..first + count)
    }

    /// Closes and seals all windows. The caller keeps writers out.
    pub(in crate::pager) fn close_windows(&self) -> Result<()> {
        let mut space = self.frames.space();
        space.close_windows(!self.is_closing());
        // Frames from here on are in no checkpoint.
        let new = self.frames.file.checkpoint_frames.load(Acquire);
        let end = self.frames.frame_count();
        match space.runs.last().filter(|last| last.start >= new && last.end == end && self.is_closing()) {
            Some(last) => {
                space.remove_free(&last);
                self.allocator.cut(&mut space, last.start)
            }
            None => Ok(()),
        }
    }

    pub(super) fn may_map_windows(&self) -> bool {
        let bytes = self.frames.file.table_bytes();
        bytes >= WINDOWS_FROM_BYTES && !self.through.unmapped.load(Relaxed)
    }

    /// Maps frames that are new and at the end of the file. Returns false if that is not possible or not useful; it is
    /// then not tried again.
    fn map_window(&self, frames: Range<FrameNo>) -> Result<bool> {
        if self.through.unmapped.load(Relaxed) {
            return Ok(false);
        }
        let mapped = self.try_map_window(frames)?;
        self.through.unmapped.store(!mapped, Relaxed);
        Ok(mapped)
    }

    fn try_map_window(&self, frames: Range<FrameNo>) -> Result<bool> {
        let Some(file) = self.frames.file.handle.as_ref().filter(|_| self.frames.has_cache_for(frames.end)) else {
            return Ok(false);
        };
        self.frames.file.refuse_if_cut()?;
        // Stores to pages beyond the end of a file fail.
        set_frame_count(file.as_ref(), self.frames.frame_bytes(), FrameNo::MAX, frames.end)
            .map_err(|e| Error::io(&self.frames.file.path, "set the length of", e))?;
        Ok(self.frames.pool.open_window(frames, file.as_ref()))
    }

    /// Called when a checkpoint begins that includes the frames of all windows: from here on their content in memory
    /// may differ from the file. The caller keeps writers out.
    pub(in crate::pager) fn seal_windows(&self) -> Result<()> {
        let Some(file) = self.frames.file.handle.as_ref() else { return Ok(()) };
        self.give_up_next_window()?;
        if !self.frames.pool.seal_windows(file.as_ref()) {
            let cause = std::io::Error::last_os_error();
            return Err(Error::io(&self.frames.file.path, "map for a checkpoint parts of", cause));
        }
        self.close_windows()
    }
}
