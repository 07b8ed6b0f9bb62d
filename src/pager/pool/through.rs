//! Frames that are written through: their bytes are in the file before a checkpoint.
//!
//! Not here: which frames may be (`pager/through.rs`).

use super::{DIRTY, FrameNo, Pool, RESIDENT, THROUGH, UNRETURNED, WRITER, WriteGuard, look, yield_now};
use crate::error::Result;
use std::sync::atomic::Ordering::*;

impl Pool {
    /// Latches a frame for bytes that the file has already; all bytes of the frame if `whole`. The frame is new since
    /// the last checkpoint, and where nothing was written through the file has zeros.
    pub(crate) fn write_through(&self, frame: FrameNo, whole: bool) -> Result<WriteGuard<'_>> {
        let latch = self.latch_exclusive(frame)?;
        let parity = self.epoch.load(Acquire) as usize & 1;
        let now = latch.state.fetch_or(RESIDENT | THROUGH[parity], Relaxed);
        if now & RESIDENT == 0 {
            self.resident.fetch_add(1, Relaxed);
        }
        let frozen = DIRTY[1 - parity] | THROUGH[1 - parity];
        // Memory that was never resident is zero, as is the file.
        let equals_file = whole || now & (RESIDENT | UNRETURNED) == 0 || now & THROUGH[parity] != 0;
        if !equals_file || now & frozen != 0 {
            self.mark_dirty(frame, latch.state);
        }
        if now & (DIRTY[parity] | THROUGH[parity]) == 0 {
            self.list_for_checkpoint(frame, parity);
        }
        Ok(latch)
    }

    /// Whether the log may refer to bytes of this frame in the file, since the last checkpoint began.
    pub(crate) fn is_written_through(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed) & THROUGH[self.epoch.load(Relaxed) as usize & 1] != 0
    }

    /// Notes that the file may differ from this frame, which is new since the last checkpoint. Waits for no reader, so
    /// it cannot fail.
    pub(crate) fn differs_from_file(&self, frame: FrameNo) {
        let (state, parity) = (self.state(frame), self.epoch.load(Acquire) as usize & 1);
        loop {
            let now = look(state);
            if now & WRITER != 0 {
                yield_now();
            } else if state.compare_exchange_weak(now, now | DIRTY[parity], Release, Relaxed).is_ok() {
                if now & (DIRTY[parity] | THROUGH[parity]) == 0 {
                    self.list_for_checkpoint(frame, parity);
                }
                return;
            }
        }
    }
}
