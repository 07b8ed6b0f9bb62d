//! Frames that are written through: their bytes are in the file before a checkpoint.
//!
//! Not here: which frames may be written through (`values/through.rs`).

use super::{FrameNo, FrameSource, Pool, WriteGuard, yield_now};
use crate::error::Result;
use std::sync::atomic::Ordering::*;

impl Pool {
    /// Latches a frame to store bytes that the file already has; all bytes of the frame if `whole`. The frame is new
    /// since the last checkpoint; where nothing was written through, the file has zeros.
    pub(crate) fn write_through(
        &self,
        frame: FrameNo,
        whole: bool,
        source: &impl FrameSource,
    ) -> Result<WriteGuard<'_>> {
        let latch = self.latch_to_replace(frame, whole, source)?;
        let (now, parity) = (latch.state.load(Relaxed), self.parity());
        let through = now.written_through(parity, whole);
        if through.next.is_dirty() {
            self.own(frame);
        }
        self.apply(frame, latch.state, through, parity);
        if !now.is_resident() {
            self.resident.fetch_add(1, Relaxed);
        }
        Ok(latch)
    }

    /// Whether the log may refer to bytes of this frame in the file, since the last checkpoint began.
    pub(in crate::pager) fn is_written_through(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_written_through(self.parity())
    }

    /// Notes that the file may differ from this frame, which is new since the last checkpoint. Does not wait for
    /// readers, so it cannot fail.
    pub(in crate::pager) fn differs_from_file(&self, frame: FrameNo) {
        let (state, parity) = (self.state(frame), self.parity());
        loop {
            let now = state.look();
            match now.differing_from_file(parity) {
                None => yield_now(),
                Some(differs) if state.replace_weak(now, differs.next, Release) => {
                    self.note_kept(now, differs.next, parity);
                    if differs.list {
                        self.list_for_checkpoint(frame, parity);
                    }
                    return;
                }
                Some(_) => {}
            }
        }
    }
}
