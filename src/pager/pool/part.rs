//! A part of a frame, latched: its place is computed and checked once.
#![expect(unsafe_code, reason = "a part of a frame is a slice of its memory")]

use super::{FrameBytes, WriteGuard};
use std::ops::{Deref, Range};

/// A part of a frame that is latched for changing, such as a page.
pub(crate) struct PartGuard<'a> {
    frame: WriteGuard<'a>,
    start: *mut u8,
    len: usize,
}

impl<'a> PartGuard<'a> {
    /// The ends of `range` are multiples of 8, and it lies in the frame.
    #[inline]
    pub(crate) fn new(mut frame: WriteGuard<'a>, range: Range<usize>) -> PartGuard<'a> {
        let len = range.len();
        let start = frame.part(range).start();
        PartGuard { frame, start, len }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> FrameBytes<'_> {
        // SAFETY: as in `WriteGuard::part`, which `new` called for this range.
        unsafe { FrameBytes::new(self.start, self.len) }
    }

    /// The whole frame.
    pub(crate) fn frame_mut(&mut self) -> &mut WriteGuard<'a> {
        &mut self.frame
    }

    pub(crate) fn into_frame(self) -> WriteGuard<'a> {
        self.frame
    }
}

impl Deref for PartGuard<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new` checked that the range is in the frame, which lives as long as the guard; the exclusive latch
        // keeps all other threads out.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
