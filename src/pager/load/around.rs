//! Reads a frame and its neighbours together, for scans of a file that is open for reading.
//!
//! A scan needs every frame once, in hash order, which jumps through the file. If the cache holds the whole file, the
//! scan reads the aligned run of frames around the next one; most of their blocks are adjacent, and read with one call.
//! With a smaller cache, frames might be evicted before the scan reaches them.
//!
//! Errors are ignored here: frames that cannot be read, or whose checksums do not match, do not become resident, and
//! the read that needs one reports the error.

use super::Frames;
use crate::pager::pool::FrameNo;
use std::sync::atomic::Ordering::*;

/// Bytes of a run.
const RUN_BYTES: usize = 64 << 10;

impl Frames {
    /// Whether [`bring_around`](Self::bring_around) is worth calling.
    pub(crate) fn brings_around(&self) -> bool {
        self.file.read_only && self.file.handle.is_some() && self.has_cache_for(self.file.file_frames.load(Acquire))
    }

    /// Makes the frames around `frame` resident, if `frame` is not.
    pub(crate) fn bring_around(&self, frame: FrameNo) {
        let file_frames = self.file.file_frames.load(Acquire);
        if frame < file_frames && !self.pool.is_resident(frame) {
            self.bring_run(frame, file_frames);
        }
    }

    #[cold]
    fn bring_run(&self, frame: FrameNo, file_frames: FrameNo) {
        let Some(blocks) = &self.blocks else { return };
        let run = (RUN_BYTES / self.frame_bytes()) as FrameNo; // 1 to 16, as a frame has 4 to 64 KiB
        let first = frame - frame % run;
        let end = file_frames.min(first + run);
        let offer = |frame: FrameNo, content: &[u8]| {
            // The spill file has the bytes of a changed frame that is not resident.
            if !self.pool.is_resident(frame) && !self.pool.is_dirty(frame) && self.pool.offer(frame, content) {
                self.counts.frames_read.fetch_add(1, Relaxed);
            }
        };
        let _ = blocks.load_range(&self.file, first..end, offer);
    }
}
