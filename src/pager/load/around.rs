//! Reads a frame and its neighbours together, for scans of a file that is open for reading.
//!
//! After each read from such a file the pager checks whether a writer has begun a checkpoint. That takes four system
//! calls, which cost more than the read. A scan needs every frame once, in hash order, which jumps through the file. If
//! the cache holds the whole file, the scan reads the aligned run of frames around the next one, with one read and one
//! check. With a smaller cache, frames might be evicted before the scan reaches them. In a file of blocks nothing needs
//! to be checked, and the frames of a run are mostly in adjacent blocks.
//!
//! Errors are ignored here: frames that cannot be read, or whose checksums do not match, do not become resident, and
//! the read that needs one reports the error. Not here: the check for a checkpoint (`file/held.rs`).

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
        let Some(file) = &self.file.handle else { return };
        let bytes_of = |frames: FrameNo| frames as usize * self.frame_bytes();
        let run = (RUN_BYTES / self.frame_bytes()) as FrameNo; // 1 to 16, as a frame has 4 to 64 KiB
        let first = frame - frame % run;
        let end = file_frames.min(first + run);
        let offer = |frame: FrameNo, content: &[u8]| {
            // The shadow file has the bytes of a changed frame that is not resident.
            if !self.pool.is_resident(frame) && !self.pool.is_dirty(frame) && self.pool.offer(frame, content) {
                self.counts.frames_read.fetch_add(1, Relaxed);
            }
        };
        if let Some(blocks) = &self.blocks {
            let _ = blocks.load_range(&self.file, first..end, offer);
            return;
        }
        let mut bytes = vec![0; bytes_of(end - first)];
        if self.file.read_as_opened(file.as_ref(), first, &mut bytes).is_err() {
            return;
        }
        for (frame, content) in (first..end).zip(bytes.chunks_exact(self.frame_bytes())) {
            if self.check_sum(frame, content).is_ok() {
                offer(frame, content);
            }
        }
    }
}
