//! Returns the memory of evicted frames to the kernel, many frames with one call.
//!
//! An evicted frame keeps its memory, with bytes that are no longer valid, until 256 KiB of frames have been evicted;
//! then the older half is returned. A frame that is loaded before then still has its memory. Returning it, faulting it
//! in again and zeroing it would cost more than reading the frame from the kernel's cache. So the cache exceeds its
//! limit by up to 256 KiB.
#![expect(unsafe_code, reason = "frames live in address ranges reserved with mmap")]

use super::state::Word;
use super::{FrameNo, Pool};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// Bytes of evicted frames that keep their memory.
const UNRETURNED_BYTES: usize = 256 << 10;

impl Pool {
    /// Queues the memory of an evicted frame to be returned.
    pub(super) fn return_later(&self, frame: FrameNo) {
        self.resident.fetch_sub(1, Relaxed);
        let most = UNRETURNED_BYTES / self.frame_bytes;
        let mut frames = {
            let mut frames = self.unreturned.lock().expect("no panic while held");
            frames.push(frame);
            if frames.len() < most {
                return;
            }
            std::mem::replace(&mut *frames, Vec::with_capacity(most))
        };
        frames.retain(|&frame| !self.is_resident(frame));
        let mut older: Vec<_> = frames.drain(..frames.len().saturating_sub(most / 2)).collect();
        self.unreturned.lock().expect("no panic while held").splice(..0, frames);
        older.sort_unstable();
        let mut run = 0..0;
        for frame in older {
            run = self.join(run, frame);
        }
        self.return_run(run);
    }

    /// Returns the memory of free frames to the kernel, except of frames that are latched or that no file has yet. They
    /// do not count as evicted. Never waits for a latch.
    pub(in crate::pager) fn return_free(&self, frames: Range<FrameNo>) {
        let mut run = 0..0;
        for frame in frames {
            let state = self.state(frame);
            // The second attempt, since the first one spares a frame that was used.
            let latched = || self.latch_unused(state, Word::to_evict);
            let Some(latched) = latched().or_else(latched) else { continue };
            if latched.is_buffered() {
                self.release_buffer(frame, state, latched.evicted());
                continue;
            }
            state.set_and_release(latched.evicted());
            self.resident.fetch_sub(1, Relaxed);
            run = self.join(run, frame);
        }
        self.return_run(run);
    }

    /// Called when the table is larger than a cache of `frames` frames: from here on uses buffers, and no large pages
    /// elsewhere. With large pages the first change of any frame would take 2 MiB, which are freed only once all frames
    /// in them have been evicted.
    pub(in crate::pager) fn outgrow_cache(&self, frames: u64) {
        if !self.large_pages.load(Relaxed) {
            return;
        }
        // Under the lock, so that no segment is added in between.
        let segments = self.segments.lock().expect("no panic while held");
        self.large_pages.store(false, Relaxed);
        segments.iter().for_each(|segment| segment.frames.advise_small_pages());
        self.use_buffers(frames);
    }

    /// Adds `frame` to `run`, whose frames are latched: latches it and the frames between. If that fails, returns the
    /// memory of `run` to the kernel and starts a new run.
    fn join(&self, run: Range<FrameNo>, frame: FrameNo) -> Range<FrameNo> {
        // Frames in between that are not resident are included: latching one costs a hundredth of a call.
        const GAP_MAX: u32 = 16;
        let mut run = run;
        if run.end <= frame && frame - run.end <= GAP_MAX && !run.is_empty() {
            while run.end <= frame && self.latch_absent(run.end) {
                run.end += 1;
            }
        }
        if run.contains(&frame) {
            return run;
        }
        self.return_run(run);
        if self.latch_absent(frame) { frame..frame + 1 } else { 0..0 }
    }

    /// Latches a frame that is not resident. Never waits.
    fn latch_absent(&self, frame: FrameNo) -> bool {
        let state = self.state(frame);
        let now = state.look();
        now.latch_absent().is_some_and(|next| state.replace(now, next, Acquire))
    }

    /// Returns the memory of latched frames to the kernel, and releases their latches.
    fn return_run(&self, run: Range<FrameNo>) {
        self.return_memory(run.clone());
        for frame in run {
            let state = self.state(frame);
            state.set_and_release(state.load(Relaxed).returned());
        }
    }

    /// Returns the memory of latched frames to the kernel.
    pub(super) fn return_memory(&self, run: Range<FrameNo>) {
        for part in self.parts_in_segments(run) {
            let bytes = part.len() << self.frame_bits;
            // SAFETY: the range is memory of frames of one segment, a private mapping; their contents are no longer
            // needed, and the caller keeps all other threads away from them by exclusive latches.
            unsafe { libc::madvise(self.frame(part.start).address.cast(), bytes, libc::MADV_DONTNEED) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::pager::pool::FrameSource;
    use crate::pager::pool::words::Bytes;

    /// Each byte of a frame below this one is the frame's number; all other frames are new.
    struct Numbers(FrameNo);

    impl FrameSource for Numbers {
        fn load(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<bool> {
            bytes.fill(frame as u8);
            Ok(frame < self.0)
        }

        fn made_resident(&self) {}
    }

    #[test]
    fn evicted_frames_are_loaded_again_or_are_zero_whether_or_not_they_keep_their_memory() {
        const FRAMES: u32 = 300; // more than a segment has in tests
        let (pool, source) = (Pool::new(4096, false).unwrap(), Numbers(200));
        pool.reserve(u64::from(FRAMES)).unwrap();
        let evict = |frame| pool.evict(frame) || pool.evict(frame);
        for step in [1, 7, 3, 150, 1] {
            for frame in (0..FRAMES).step_by(step) {
                let expected = if frame < source.0 { frame as u8 } else { 0 };
                let found = pool.read(frame, pool.frame(frame), &source).unwrap();
                assert!(found.iter().all(|&byte| byte == expected), "frame {frame}: {}", found[0]);
                drop(found);
                pool.write(frame, pool.frame(frame), &source).unwrap().whole().fill(0..4096, 0xEE);
            }
            assert!((0..FRAMES).step_by(step).filter(|frame| frame % 5 > 0).all(evict));
            assert!((0..FRAMES).step_by(step).filter(|frame| frame % 5 == 0).all(evict));
            assert_eq!(pool.resident.load(Relaxed), 0);
            let kept = (0..FRAMES).filter(|&frame| pool.state(frame).load(Relaxed).has_old_memory()).count();
            assert!(kept < UNRETURNED_BYTES / 4096, "{kept}");
        }
    }
}
