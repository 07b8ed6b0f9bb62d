//! Windows: frames in which only values are allocated, which are written through (`values/`).
//!
//! They are beyond the end of the last checkpoint, and buckets have nothing there until the next one begins. Until then
//! a window's frames may be the file's own pages (`pool/window_pages.rs`). Open windows have separate lists of holes
//! and free frames. Sealed windows do, too, because changing a frame there costs a copy of a large page: other uses get
//! their room only if much of the table is free, one large page after another.

use super::runs::Runs;
use super::{ANY_USE, FRAME_UNITS, OPEN, SEALED, Space};
use crate::pager::pool::FrameNo;
use crate::pager::pool::ranges::Ranges;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The windows of a table.
#[derive(Default)]
pub(in crate::pager) struct ValueWindows {
    /// The open windows, by first frame.
    pub(in crate::pager) open: BTreeMap<FrameNo, ValueWindow>,
    /// Free frames in the open windows: first -> count.
    free: BTreeMap<FrameNo, u32>,
    /// The window to be used next: its first frame and its length.
    pub(in crate::pager) next: Option<(FrameNo, u32)>,
    /// Frames of sealed windows whose room other uses may not have yet.
    pub(in crate::pager) sealed: Ranges,
    /// Free frames among them.
    pub(in crate::pager) sealed_runs: Runs,
}

/// Units allocated in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRoom {
    /// The first unit.
    pub unit: u64,
    /// Whether their frames are the file's own pages.
    pub mapped: bool,
}

/// An open window.
pub(in crate::pager) struct ValueWindow {
    pub(in crate::pager) count: u32,
    /// Whether its frames are the file's own pages.
    pub(in crate::pager) mapped: bool,
    /// Bytes of the window that were populated in advance.
    pub(in crate::pager) populated: Arc<AtomicUsize>,
}

impl ValueWindows {
    pub(in crate::pager) fn around(&self, frame: FrameNo) -> Option<&ValueWindow> {
        self.first_and_window(frame).map(|(_, window)| window)
    }

    /// The first frame after the open window that `frame` is in; 0 if it is in none.
    pub(in crate::pager) fn end_of_open(&self, frame: FrameNo) -> FrameNo {
        self.first_and_window(frame).map_or(0, |(first, window)| first + window.count)
    }

    fn first_and_window(&self, frame: FrameNo) -> Option<(FrameNo, &ValueWindow)> {
        if self.open.is_empty() {
            return None;
        }
        let (&first, window) = self.open.range(..=frame).next_back()?;
        (frame - first < window.count).then_some((first, window))
    }

    pub(in crate::pager) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether no window is open or sealed.
    pub(in crate::pager) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }

    pub(in crate::pager) fn has(&self, frame: FrameNo) -> bool {
        self.around(frame).is_some()
    }

    /// The lists that `frame` belongs to.
    #[inline]
    pub(in crate::pager) fn lists_of(&self, frame: FrameNo) -> usize {
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

    pub(in crate::pager) fn room(&self, unit: u64) -> ValueRoom {
        let frame = (unit / u64::from(FRAME_UNITS)) as FrameNo; // of a table
        ValueRoom { unit, mapped: self.around(frame).is_some_and(|window| window.mapped) }
    }

    /// Takes the first `count` adjacent free frames.
    pub(in crate::pager) fn take(&mut self, count: u32) -> Option<FrameNo> {
        let (&first, &len) = self.free.iter().find(|&(_, &len)| len >= count)?;
        self.free.remove(&first);
        if len > count {
            self.free.insert(first + count, len - count);
        }
        Some(first)
    }

    /// The free frames that were added together with `frame`; `None` if it is not free.
    pub(in crate::pager) fn free_around(&self, frame: FrameNo) -> Option<Range<FrameNo>> {
        let (&first, &len) = self.free.range(..=frame).next_back()?;
        (frame - first < len).then_some(first..first + len)
    }

    /// Takes these free frames, which were added together.
    pub(in crate::pager) fn remove_free(&mut self, frames: &Range<FrameNo>) {
        let Some(free) = self.free_around(frames.start) else { return };
        self.free.remove(&free.start);
        for part in [free.start..frames.start, frames.end..free.end] {
            if !part.is_empty() {
                self.free.insert(part.start, part.len() as u32);
            }
        }
    }

    pub(in crate::pager) fn add_free(&mut self, first: FrameNo, count: u32) {
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

    pub(in crate::pager) fn has_sealed_free(&self, frame: FrameNo) -> bool {
        self.sealed_runs.around(frame).is_some()
    }

    /// Forgets the frames from `end` on, which are cut off.
    pub(in crate::pager) fn cut(&mut self, end: FrameNo) {
        self.sealed.remove(&(end..FrameNo::MAX));
    }
}

impl Space {
    /// Closes all windows. With `keep_sealed`, the room of those that are the file's own pages stays reserved for
    /// values.
    pub(in crate::pager) fn close_windows(&mut self, keep_sealed: bool) {
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
    pub(in crate::pager) fn unseal(&mut self, frames: &Range<FrameNo>) {
        for part in self.windows.sealed.remove(frames) {
            self.move_from_lists(part.clone(), SEALED);
            for free in self.windows.sealed_runs.remove(&part) {
                self.runs.add(free);
            }
        }
    }

    /// Makes everything that is free in sealed windows available for any use.
    pub(in crate::pager) fn unseal_all(&mut self) {
        self.unseal(&(0..FrameNo::MAX));
    }
}
