//! Dirty frames that are written to a file before a checkpoint, so that their memory can be freed.
//!
//! Such a frame stays dirty, and in the list for the next checkpoint.
//!
//! Not here: its states (`state.rs`), where it is written to (`load/evict.rs`).

use super::state::Word;
use super::{FrameNo, Pool, WriteGuard};
use std::sync::atomic::Ordering::*;

impl Pool {
    /// The number of frames for the next checkpoint, not frozen ones, that must stay in memory.
    pub(in crate::pager) fn pinned_count(&self) -> u64 {
        if self.is_pinned() { self.dirty_count() } else { 0 }
    }

    /// Whether no dirty frame can be written before a checkpoint at the moment.
    pub(in crate::pager) fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    /// From here on, no dirty frame can be written before a checkpoint.
    pub(in crate::pager) fn pin(&self) {
        self.pinned.store(true, Relaxed);
    }

    /// From here on, dirty frames can be written before a checkpoint.
    pub(in crate::pager) fn unpin(&self) {
        self.pinned.store(false, Relaxed);
    }

    /// Whether a file has the bytes of a frame that has changed since the last checkpoint.
    pub(crate) fn is_written(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_written()
    }

    /// Whether a frame has changed since the last checkpoint.
    pub(crate) fn is_dirty(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_dirty()
    }

    /// Latches a dirty frame that may be written and evicted, and was not used since the last call. Never waits.
    pub(in crate::pager) fn latch_to_write(&self, frame: FrameNo) -> Option<WriteGuard<'_>> {
        let (state, parity) = (self.state(frame), self.parity());
        self.latch_unused(state, |now| now.to_write(parity))?;
        Some(self.write_guard(frame, state))
    }

    /// Frees the memory of a dirty frame whose bytes are in a file.
    pub(in crate::pager) fn discard_written(&self, frame: FrameNo, latch: WriteGuard<'_>) {
        let state = latch.state;
        std::mem::forget(latch);
        self.release_absent(frame, state, Word::written(state.load(Relaxed)));
    }
}
