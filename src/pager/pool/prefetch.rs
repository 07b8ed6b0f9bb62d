//! Prefetches parts of a frame.
//!
//! Not here: what is worth prefetching (`buckets/address.rs`, `buckets/optimistic.rs`).

use super::FrameRef;
use crate::racing::{self, LINE_BYTES};
use std::ptr;

impl FrameRef<'_> {
    /// Prefetches `bytes` bytes at `offset`, at least one line and in steps of four, and the frame's state.
    #[inline]
    pub(crate) fn prefetch(self, offset: usize, bytes: usize) {
        const STEP_BYTES: usize = 4 * LINE_BYTES;
        const USUAL_BYTES: usize = 1024;
        racing::prefetch(ptr::from_ref(self.state).cast());
        let mut address = self.address.cast_const().wrapping_add(offset);
        if bytes == USUAL_BYTES {
            // Without a loop: one instruction per line.
            for line in 0..USUAL_BYTES / LINE_BYTES {
                racing::prefetch(address.wrapping_add(line * LINE_BYTES));
            }
            return;
        }
        let mut left = bytes;
        loop {
            for line in 0..STEP_BYTES / LINE_BYTES {
                racing::prefetch(address.wrapping_add(line * LINE_BYTES));
            }
            if left <= STEP_BYTES {
                return;
            }
            left -= STEP_BYTES;
            address = address.wrapping_add(STEP_BYTES);
        }
    }

    /// Prefetches only the lines of `bytes` bytes from `offset` on, which begins a line, and the frame's state: for
    /// batches of keys.
    #[inline]
    pub(crate) fn prefetch_exactly(self, offset: usize, bytes: usize) {
        racing::prefetch(ptr::from_ref(self.state).cast());
        let address = self.address.cast_const().wrapping_add(offset);
        for line in 0..bytes.div_ceil(LINE_BYTES) {
            racing::prefetch(address.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Prefetches the first and the last line of `bytes` bytes at `offset`.
    #[inline]
    pub(crate) fn prefetch_ends(self, offset: usize, bytes: usize) {
        let address = self.address.cast_const().wrapping_add(offset);
        racing::prefetch(address);
        racing::prefetch(address.wrapping_add(bytes.saturating_sub(1)));
    }
}
