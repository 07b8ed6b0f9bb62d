//! Reads without a latch. They use the loads of `racing.rs`, and are valid only if the frame's version has not changed.
//!
//! Not here: what is read this way, and how often it is tried (`buckets/optimistic.rs`).
#![expect(unsafe_code, reason = "loads from frames that other threads may change")]

use super::FRAME_BYTES_MIN;
use super::sink::Sink;
use super::{FrameRef, Word};
use crate::pager::interleave::step;
use crate::racing;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{Ordering::*, fence};

impl<'a> FrameRef<'a> {
    /// Begins a read without a latch; `None` if the frame is being changed, not resident, or in a buffer.
    #[inline]
    pub(crate) fn read_optimistically(self) -> Option<OptimisticRead<'a>> {
        step();
        let before = self.state.load(Acquire);
        before.is_readable_without_latch().then_some(OptimisticRead { frame: self, before })
    }
}

/// A frame read without a latch: the loaded bytes are valid only if [`unchanged`](Self::unchanged) returns true
/// afterwards.
pub(crate) struct OptimisticRead<'a> {
    pub frame: FrameRef<'a>,
    before: Word,
}

/// `COUNT` runs of 32 bytes of a frame, not yet loaded.
pub(crate) struct RunsRead<'a, const COUNT: usize> {
    /// In the frame, and so are all runs.
    start: *const u8,
    frame: PhantomData<&'a ()>,
}

impl<const COUNT: usize> RunsRead<'_, COUNT> {
    /// Run `RUN`, as two numbers of sixteen bytes.
    #[inline(always)]
    pub(crate) fn fixed<const RUN: usize>(&self) -> [u128; 2] {
        const { assert!(RUN < COUNT) };
        if RUN == 2 {
            step(); // between two loads of one read
        }
        // SAFETY: within the frame (`words_and_runs`), see `OptimisticRead::load8`.
        unsafe { racing::load32::<RUN>(self.start) }
    }

    /// Run `run`, as two numbers of sixteen bytes.
    #[inline(always)]
    pub(crate) fn any(&self, run: usize) -> [u128; 2] {
        assert!(run < COUNT);
        // SAFETY: as above.
        unsafe { racing::load32::<0>(self.start.add(32 * run)) }
    }
}

impl<'a> OptimisticRead<'a> {
    /// Three words of eight bytes, from `at` on, and `COUNT` runs of 32 bytes, which start at `at + OFFSET`. All are
    /// little-endian. `None` if they would exceed the frame.
    #[inline]
    pub(crate) fn words_and_runs<const OFFSET: usize, const COUNT: usize>(
        &self,
        at: usize,
    ) -> Option<([u64; 3], RunsRead<'a, COUNT>)> {
        const { assert!(OFFSET + 32 * COUNT >= 24 && OFFSET + 32 * COUNT <= FRAME_BYTES_MIN) };
        // Frames are at least that long (`Pool::new`).
        if at > self.frame.bytes - (OFFSET + 32 * COUNT) {
            return None;
        }
        step();
        let address = self.frame.address;
        // SAFETY: as in `load8`; here and below within the bytes compared above.
        let words = unsafe { racing::load24(address.add(at)) };
        step();
        Some((words, RunsRead { start: address.wrapping_add(at + OFFSET), frame: PhantomData }))
    }

    /// The eight bytes from `at` on, little-endian.
    #[inline]
    pub(crate) fn load8(&self, at: usize) -> u64 {
        assert!(at <= self.frame.bytes - 8);
        step();
        // SAFETY: within the frame (asserted), whose memory lives as long as the pool, and which is written only by
        // the stores of `racing.rs` while no thread holds its shared latch.
        unsafe { racing::load8(self.frame.address.add(at)) }
    }

    /// The first `count` bytes from `at` on, at most eight, as a little-endian number. `at` may be near the frame's
    /// end.
    #[inline]
    pub(crate) fn load_up_to_8(&self, at: usize, count: usize) -> u64 {
        let word = if at <= self.frame.bytes - 8 { self.load8(at) } else { self.load_at_end(at) };
        word & u64::MAX.checked_shr(64u32.saturating_sub(8 * count as u32)).unwrap_or(0)
    }

    #[inline(always)]
    fn load_at_end(&self, at: usize) -> u64 {
        let from = self.frame.bytes - 8;
        // If `at` is the frame's end, nothing is left of the word.
        self.load8(from).checked_shr(8 * (at - from) as u32).unwrap_or(0)
    }

    /// Whether the bytes from `at` on equal `bytes`; false if they would exceed the frame.
    #[inline]
    pub(crate) fn has_bytes(&self, at: usize, bytes: &[u8]) -> bool {
        let len = bytes.len();
        if at + len > self.frame.bytes {
            return false;
        }
        let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
            let wanted = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            return self.load_up_to_8(at, len) == wanted;
        };
        step();
        // SAFETY: within the frame (compared above), see `load8`; here and below.
        let start = unsafe { self.frame.address.add(at) };
        // SAFETY: as above; `len >= 8`.
        if unsafe { racing::load8(start.add(len - 8)) } != u64::from_le_bytes(*last) {
            return false;
        }
        // SAFETY: as above.
        len == 8
            || unsafe { racing::load8(start) } == u64::from_le_bytes(*first) && (len <= 16 || self.has_long(at, bytes))
    }

    /// [`has_bytes`](Self::has_bytes) for more than sixteen bytes, of which the last eight are known to be equal.
    /// Inlined, like everything that takes `&self`: a call would force the read into memory.
    #[inline(always)]
    fn has_long(&self, at: usize, bytes: &[u8]) -> bool {
        let mut differ = 0;
        // A loop, as `Iterator::fold` may become a call.
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            differ |= self.load8(at + 8 * index) ^ u64::from_le_bytes(*word);
        }
        differ == 0
    }

    /// Appends the bytes of `range` to `out`.
    #[inline]
    pub(crate) fn copy_to(&self, range: Range<usize>, out: &mut impl Sink) {
        assert!(range.start <= range.end && range.end <= self.frame.bytes);
        step();
        let len = range.end - range.start;
        // SAFETY: the range is within the frame (asserted), see `load8`; `place` has `len` bytes, and all of them are
        // written.
        unsafe {
            out.append_with(len, |place| {
                racing::copy_out(self.frame.address.add(range.start), place.as_mut_ptr().cast(), len);
            });
        }
    }

    /// Whether the frame is unchanged since the read began.
    #[inline]
    pub(crate) fn unchanged(&self) -> bool {
        fence(Acquire);
        step();
        self.frame.state.load(Relaxed).is_unchanged_since(self.before)
    }
}
