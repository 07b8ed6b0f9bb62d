//! Windows: frames in which only values are allocated, which are written through (`values/`).
//!
//! They are beyond the end of the last checkpoint, and buckets have nothing there until the next one begins. Until then
//! a window's frames may be the file's own pages (`pool/window_pages.rs`). Open windows have separate lists of holes
//! and free frames. Sealed windows do, too, because changing a frame there costs a copy of a large page: other uses get
//! their room only if much of the table is free, one large page after another.

use super::runs::Runs;
use super::{ANY_USE, FRAME_UNITS, OPEN, SEALED, Space};
use crate::error::Result;
use crate::pager::Pager;
use crate::pager::pool::ranges::Ranges;
use crate::pager::pool::{FrameNo, LARGE_PAGE_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// The windows of a table.
#[derive(Default)]
pub(super) struct ValueWindows {
    /// The open windows, by first frame.
    open: BTreeMap<FrameNo, ValueWindow>,
    /// Free frames in the open windows: first -> count.
    free: BTreeMap<FrameNo, u32>,
    /// The window to be used next: its first frame and its length.
    next: Option<(FrameNo, u32)>,
    /// Frames of sealed windows whose room other uses may not have yet.
    sealed: Ranges,
    /// Free frames among them.
    sealed_runs: Runs,
}

/// Units allocated in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRoom {
    /// The first unit.
    pub unit: u64,
    /// Whether their frames are the file's own pages.
    pub mapped: bool,
}

struct ValueWindow {
    count: u32,
    /// Whether its frames are the file's own pages.
    mapped: bool,
    /// Bytes of the window that were populated in advance.
    populated: Arc<AtomicUsize>,
}

impl ValueWindows {
    fn around(&self, frame: FrameNo) -> Option<&ValueWindow> {
        if self.open.is_empty() {
            return None;
        }
        let (first, window) = self.open.range(..=frame).next_back()?;
        (frame - first < window.count).then_some(window)
    }

    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether no window is open or sealed.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }

    pub(super) fn has(&self, frame: FrameNo) -> bool {
        self.around(frame).is_some()
    }

    /// The lists that `frame` belongs to.
    #[inline]
    pub(super) fn lists_of(&self, frame: FrameNo) -> usize {
        if self.is_empty() { ANY_USE } else { self.lists_by_windows(frame) }
    }

    #[inline(never)]
    fn lists_by_windows(&self, frame: FrameNo) -> usize {
        if self.has(frame) {
            OPEN
        } else if self.sealed.around(frame).is_some() {
            SEALED
        } else {
            ANY_USE
        }
    }

    fn room(&self, unit: u64) -> ValueRoom {
        let frame = (unit / u64::from(FRAME_UNITS)) as FrameNo; // of a table
        ValueRoom { unit, mapped: self.around(frame).is_some_and(|window| window.mapped) }
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

    /// Adds free frames, to `others` those that are not sealed.
    pub(super) fn add_sealed_free(&mut self, mut frames: Range<FrameNo>, others: &mut Runs) {
        while !frames.is_empty() {
            let (part, is_sealed) = self.sealed.first_part(frames.clone());
            frames.start = part.end;
            if is_sealed { self.sealed_runs.add(part) } else { others.add(part) }
        }
    }

    pub(super) fn has_sealed_free(&self, frame: FrameNo) -> bool {
        self.sealed_runs.around(frame).is_some()
    }

    /// Forgets the frames from `end` on, which are cut off.
    pub(super) fn cut(&mut self, end: FrameNo) {
        self.sealed.remove(&(end..FrameNo::MAX));
    }
}

impl Space {
    /// Closes all windows. With `keep_sealed`, the room of those that are the file's own pages stays reserved for
    /// values.
    fn close_windows(&mut self, keep_sealed: bool) {
        for (first, window) in std::mem::take(&mut self.windows.open) {
            let frames = first..first + window.count;
            let is_sealed = window.mapped && keep_sealed;
            if is_sealed {
                self.windows.sealed.add(frames.clone());
            }
            self.free_units += self.move_from_lists(frames, OPEN);
        }
        for (first, count) in std::mem::take(&mut self.windows.free) {
            self.add_run(first, count);
        }
    }

    /// Makes the free units and frames among `frames` available for any use.
    fn unseal(&mut self, frames: &Range<FrameNo>) {
        for part in self.windows.sealed.remove(frames) {
            self.move_from_lists(part.clone(), SEALED);
            for free in self.windows.sealed_runs.remove(&part) {
                self.runs.add(free);
            }
        }
    }

    /// Makes everything that is free in sealed windows available for any use.
    pub(super) fn unseal_all(&mut self) {
        self.unseal(&(0..FrameNo::MAX));
    }
}

impl Pager {
    /// Allocates `len` units in a window, for a value that is written through. Returns `None` if free room elsewhere
    /// should be used, if too much waits for the next checkpoint, or if the window `must` be mapped and cannot be. With
    /// `ahead`, windows may be longer than needed now.
    pub(in crate::pager) fn allocate_in_window(&self, len: u32, ahead: bool, must: bool) -> Result<Option<ValueRoom>> {
        let mut space = self.space();
        if space.compacting || self.has_full_quarantine(&space) {
            return Ok(None);
        }
        self.keep_end();
        if len < FRAME_UNITS
            && let Some(frame) = space.lists[OPEN].find(len)
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

    /// The length of the next window in frames: a 32nd of the table, in large pages.
    fn window_frames(&self) -> u32 {
        const LARGE_PAGES_MAX: u64 = 8;
        let bytes = u64::from(self.frame_count()) * self.frame_bytes() as u64;
        self.large_page_frames() * (bytes / 32 / LARGE_PAGE_BYTES as u64).clamp(1, LARGE_PAGES_MAX) as u32
    }

    fn large_page_frames(&self) -> u32 {
        (LARGE_PAGE_BYTES / self.frame_bytes()) as u32
    }

    /// Whether more than a 16th of the table is free, or may be. After an open, all zones are scanned for free room
    /// before there are windows; otherwise the file would grow after each open.
    fn has_free_room(&self, space: &mut Space) -> Result<bool> {
        const ZONES_AT_ONCE: usize = 2;
        for _ in 0..ZONES_AT_ONCE {
            if !self.learn_zone(space)? {
                return Ok(self.much_is_free(space));
            }
        }
        Ok(true)
    }

    fn much_is_free(&self, space: &Space) -> bool {
        const BYTES_MIN: u64 = if cfg!(test) { 64 << 10 } else { 1 << 20 };
        let bytes = u64::from(self.frame_count()) * self.frame_bytes() as u64;
        space.free_units > (bytes / 16).max(BYTES_MIN) / self.unit_bytes() as u64
    }

    /// Makes the room of one or more large pages of sealed windows available for any use, if `len` units fit there and
    /// much of the table is free. Returns whether it did.
    pub(super) fn unseal_for(&self, space: &mut Space, len: u32) -> bool {
        if space.windows.sealed.is_empty() || !self.much_is_free(space) {
            return false;
        }
        let frames = len.div_ceil(FRAME_UNITS);
        let hole = if len < FRAME_UNITS { space.lists[SEALED].find(len) } else { None };
        let Some(first) = hole.or_else(|| space.windows.sealed_runs.shortest(frames)) else { return false };
        let large = self.large_page_frames();
        space
            .unseal(&(first - first % large..(first + frames).checked_next_multiple_of(large).unwrap_or(FrameNo::MAX)));
        true
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
        let is_ready = populated >= count as usize * self.frame_bytes();
        if mapped && !is_ready && !self.pool().populate(first..first + count) {
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

    /// Adds a window of at least `count` frames at the end of the file, and maps it if possible. With a `step` its
    /// length is a multiple of `step`, and it consists of whole large pages. Returns its first frame and its length.
    fn open_window(&self, space: &mut Space, count: u32, step: u32) -> Result<(FrameNo, u32)> {
        let before = match step {
            0 => 0,
            _ => self.frame_count().wrapping_neg() % self.large_page_frames(),
        };
        let count = if step == 0 { count } else { count.next_multiple_of(step) };
        let mut first = self.extend(space, before + count)?;
        if before > 0 {
            // If map frames came first, the window is not aligned to large pages, which does no harm.
            space.add_run(first, before);
            first += before;
        }
        let end = first + count;
        let mapped = self.map_window(first..end)?;
        let populated = Arc::default();
        if mapped {
            self.pool().make_window_ready(first..end, &populated);
            space.ready_frames = space.ready_frames.max(end);
        }
        space.windows.open.insert(first, ValueWindow { count, mapped, populated });
        self.kept.note_window();
        Ok((first, count))
    }

    /// Gives up the window that is not in use yet, so that its frames need not be the file's pages. The caller keeps
    /// writers out.
    pub(in crate::pager) fn give_up_next_window(&self) -> Result<()> {
        let mut space = self.space();
        let Some((first, count)) = space.windows.next.take() else { return Ok(()) };
        space.windows.open.remove(&first);
        space.add_run(first, count);
        self.unmap_windows(first..first + count)
    }

    /// Closes and seals all windows. The caller keeps writers out.
    pub(in crate::pager) fn close_windows(&self) -> Result<()> {
        let mut space = self.space();
        space.close_windows(!self.is_closing());
        // Frames from here on are in no checkpoint.
        let new = self.checkpoint_frames.load(Acquire);
        let end = self.frame_count();
        match space.runs.last().filter(|last| last.start >= new && last.end == end && self.is_closing()) {
            Some(last) => {
                space.remove_free(&last);
                self.cut(&mut space, last.start)
            }
            None => Ok(()),
        }
    }
}
