//! A latched part of a frame, whose address is computed and checked once.
#![expect(unsafe_code, reason = "a part of a frame is a slice of its memory")]

use super::{FrameBytes, FrameSeen, WriteGuard};
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

/// A part of a frame that is latched for changing, such as a page.
pub(crate) struct PartGuard<'a> {
    frame: WriteGuard<'a>,
    start: *mut u8,
    len: usize,
}

impl<'a> PartGuard<'a> {
    /// The `len` bytes from `at` on, which must be in the frame; both are multiples of 8.
    #[inline(always)]
    pub(crate) fn new(frame: WriteGuard<'a>, at: usize, len: usize) -> PartGuard<'a> {
        debug_assert!((at | len).is_multiple_of(8));
        let (at, len) = (at & !7, len & !7); // changes nothing, and takes less than a test
        // Two comparisons; a range check would take three.
        assert!(len <= frame.bytes);
        assert!(at <= frame.bytes - len);
        // SAFETY: within the frame, as asserted.
        let start = unsafe { frame.address.add(at) };
        PartGuard { frame, start, len }
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> FrameBytes<'_> {
        // SAFETY: as in `WriteGuard::part`; `new` checked the part.
        unsafe { FrameBytes::new(self.start, self.len) }
    }

    /// Whether this is the frame that was `seen`, and no writer has had its latch in between.
    #[inline]
    pub(crate) fn is_unchanged_since(&self, seen: FrameSeen<'_>) -> bool {
        std::ptr::eq(self.frame.state, seen.state) && self.frame.state.load(Relaxed).version() == seen.version
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
