//! Windows: frames in which values alone are allocated, which are written through (`through.rs`).
//!
//! They are beyond the end of the last checkpoint, and buckets have nothing there until the next one begins: then a
//! window's frames may be the file's own pages (`pool/mapped.rs`). Each has holes and free frames of its own, which
//! serve any purpose once it is closed.

use super::{FRAME_UNITS, Link, Lists, Space, ZONE_FRAMES};
use crate::error::Result;
use crate::pager::Pager;
use crate::pager::pool::FrameNo;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::*;

/// Large pages of memory; smaller in tests, so that their tables have windows.
const LARGE_PAGE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 2 << 20 };

/// The open windows.
#[derive(Default)]
pub(super) struct Windows {
    /// By their first frame.
    open: BTreeMap<FrameNo, Window>,
    /// Free frames in them: first -> count.
    free: BTreeMap<FrameNo, u32>,
    /// The one to be used next: its first frame and its length.
    next: Option<(FrameNo, u32)>,
}

/// Units in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The first.
    pub unit: u64,
    /// Their frames are the file's own pages.
    pub mapped: bool,
}

struct Window {
    count: u32,
    /// Its frames are the file's own pages.
    mapped: bool,
}

impl Windows {
    fn around(&self, frame: FrameNo) -> Option<&Window> {
        if self.open.is_empty() {
            return None;
        }
        let (first, window) = self.open.range(..=frame).next_back()?;
        (frame - first < window.count).then_some(window)
    }

    pub(super) fn has(&self, frame: FrameNo) -> bool {
        self.around(frame).is_some()
    }

    fn room(&self, unit: u64) -> Room {
        let frame = (unit / u64::from(FRAME_UNITS)) as FrameNo; // of a table
        Room { unit, mapped: self.around(frame).is_some_and(|window| window.mapped) }
    }

    /// Takes the first `count` adjacent free frames.
    fn take(&mut self, count: u32) -> Option<FrameNo> {
        let (&first, &len) = self.free.iter().find(|&(_, &len)| len >= count)?;
        self.free.remove(&first);
        if len > count {
            self.free.insert(first + count, len - count);
        }
        Some(first)
    }

    pub(super) fn add_free(&mut self, first: FrameNo, count: u32) {
        self.free.insert(first, count);
    }
}

impl Space {
    /// What is free in the windows serves any purpose from here on.
    fn close_windows(&mut self) {
        let frames = std::mem::take(&mut self.windows.open);
        let mut with_hole = Vec::new();
        for (first, window) in frames {
            for frame in first..first + window.count {
                // A zone without links has no frame with a hole.
                let links = self.links.get((frame / ZONE_FRAMES) as usize).and_then(Option::as_ref);
                let link = links.map(|links| links[(frame % ZONE_FRAMES) as usize]).unwrap_or_default();
                if link.list != 0 {
                    with_hole.push((frame, link.used));
                    *self.link(frame) = Link::default();
                }
            }
        }
        self.lists[1] = Lists::EMPTY;
        for (frame, used) in with_hole {
            self.note_used(frame, used);
        }
        let next = self.windows.next.take();
        for (first, count) in std::mem::take(&mut self.windows.free).into_iter().chain(next) {
            self.add_run(first, count);
        }
    }
}

impl Pager {
    /// Allocates `len` units in a window, for a value that is written through. `None` where free room elsewhere should
    /// be used, or too much waits for the next checkpoint, or, if it `must` be mapped, where that cannot be done.
    /// `ahead`: windows may be longer than needed now.
    pub(in crate::pager) fn allocate_in_window(&self, len: u32, ahead: bool, must: bool) -> Result<Option<Room>> {
        let mut space = self.space();
        if space.prefer_low || self.has_full_quarantine(&space) {
            return Ok(None);
        }
        if len < FRAME_UNITS
            && let Some(frame) = space.lists[1].find(len)
        {
            let unit = self.take_hole(&mut space, frame, len)?;
            return Ok(Some(space.windows.room(unit)));
        }
        let frames = len.div_ceil(FRAME_UNITS);
        let mut found = space.windows.take(frames);
        if found.is_none() {
            let step = if ahead { self.window_frames() } else { 0 };
            if self.has_free_room(&mut space)? || !self.begin_window(&mut space, frames, step)? && must {
                return Ok(None);
            }
            found = space.windows.take(frames);
        }
        // The next window may be too short.
        let Some(first) = found else { return Ok(None) };
        self.set_run_used(&mut space, first, frames, len - (frames - 1) * FRAME_UNITS)?;
        Ok(Some(space.windows.room(u64::from(first) * u64::from(FRAME_UNITS))))
    }

    /// Frames of the next window: a 32nd of the table, in large pages.
    fn window_frames(&self) -> u32 {
        const LARGE_PAGES_MAX: u64 = 8;
        let bytes = u64::from(self.frame_count()) * self.frame_bytes() as u64;
        self.large_page_frames() * (bytes / 32 / LARGE_PAGE_BYTES).clamp(1, LARGE_PAGES_MAX) as u32
    }

    fn large_page_frames(&self) -> u32 {
        (LARGE_PAGE_BYTES / self.frame_bytes() as u64) as u32
    }

    /// Whether more than a 16th of the table is free, or may be: after an open the free room of each zone is learned
    /// before there are windows, or the file would grow each time.
    fn has_free_room(&self, space: &mut Space) -> Result<bool> {
        const ZONES_AT_ONCE: usize = 2;
        const BYTES_MIN: u64 = if cfg!(test) { 64 << 10 } else { 1 << 20 };
        for _ in 0..ZONES_AT_ONCE {
            if !self.learn_zone(space)? {
                let bytes = u64::from(self.frame_count()) * self.frame_bytes() as u64;
                return Ok(space.free_units > (bytes / 16).max(BYTES_MIN) / self.unit_bytes() as u64);
            }
        }
        Ok(true)
    }

    /// Begins to use the next window, and opens one after it if there is a `step`. Returns whether its frames are the
    /// file's own pages.
    fn begin_window(&self, space: &mut Space, count: u32, step: u32) -> Result<bool> {
        let (first, count) = match space.windows.next.take() {
            Some(next) => next,
            None => self.open_window(space, count, step)?,
        };
        let mapped = space.windows.around(first).is_some_and(|window| window.mapped);
        // By now they have been populated by the thread that does so ahead, or most of them. A store to one that could
        // not be, as the disk is full, would be an error too late.
        if mapped && !self.pool().populate(first..first + count) {
            self.through.give_up_windows();
            space.windows.open.remove(&first);
            self.unmap_windows(first..first + count)?;
            space.add_run(first, count);
            return Ok(false);
        }
        space.windows.add_free(first, count);
        if mapped && step > 0 {
            space.windows.next = Some(self.open_window(space, step, step)?);
        }
        Ok(mapped)
    }

    /// Adds a window of at least `count` frames at the end of the file, and maps it if possible. With a `step` it has
    /// so many frames, or a multiple, and lies in whole large pages. Returns its first frame and its length.
    fn open_window(&self, space: &mut Space, count: u32, step: u32) -> Result<(FrameNo, u32)> {
        let before = match step {
            0 => 0,
            _ => self.frame_count().wrapping_neg() % self.large_page_frames(),
        };
        let count = if step == 0 { count } else { count.next_multiple_of(step) };
        let mut first = self.extend(space, before + count)?;
        if before > 0 {
            // Map frames may have come first: then they lie elsewhere in their pages, which does no harm.
            space.add_run(first, before);
            first += before;
        }
        let end = first + count;
        let mapped = self.map_window(first..end)?;
        if mapped {
            // Where its queue is full, a writer will do it.
            let _ = self.pool().make_ready(first..end);
            space.ready_frames = space.ready_frames.max(end);
        }
        space.windows.open.insert(first, Window { count, mapped });
        Ok((first, count))
    }

    /// Ends all windows: what is free in them serves any purpose. The caller keeps writers out.
    pub(in crate::pager) fn close_windows(&self) -> Result<()> {
        let mut space = self.space();
        space.close_windows();
        // No checkpoint has these frames.
        let new = self.checkpoint_frames.load(Acquire);
        let last = space.runs.last_key_value().map(|(&first, &len)| (first, len));
        match last.filter(|&(first, len)| first >= new && first + len == self.frame_count() && self.is_closing()) {
            Some((first, len)) => {
                space.remove_run(first, len);
                space.free_units -= u64::from(len) * u64::from(FRAME_UNITS);
                self.cut(&mut space, first)
            }
            None => Ok(()),
        }
    }
}
