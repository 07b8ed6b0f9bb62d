//! Spilled frames: written to a file before a checkpoint, so that their memory can be freed.
//!
//! A spilled frame stays dirty, and in the list for the next checkpoint. One that was only written through is already
//! in the file.
//!
//! Not here: its states (`state.rs`), which frames may be spilled, and where they go (`load/spill.rs`).

use super::{FrameNo, Pool, WriteGuard};
use std::sync::atomic::Ordering::*;

impl Pool {
    /// The number of frames for the next checkpoint, not frozen ones, that cannot be spilled.
    pub(in crate::pager) fn pinned_count(&self) -> u64 {
        if self.is_pinned() { self.dirty_count() } else { self.dirtied.kept_count.load(Relaxed) }
    }

    /// Whether no dirty frame can be spilled at the moment.
    pub(in crate::pager) fn is_pinned(&self) -> bool {
        self.pinned.load(Relaxed)
    }

    /// From here on, no dirty frame can be spilled.
    pub(in crate::pager) fn pin(&self) {
        self.pinned.store(true, Relaxed);
    }

    /// From here on, dirty frames can be spilled.
    pub(in crate::pager) fn unpin(&self) {
        self.pinned.store(false, Relaxed);
    }

    /// Whether a file has the bytes of a frame that has changed since the last checkpoint.
    pub(crate) fn is_spilled(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_spilled()
    }

    /// Whether the shadow file has the bytes of this frame.
    pub(in crate::pager) fn is_shadowed(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_shadowed()
    }

    /// Whether a frame has changed since the last checkpoint.
    pub(in crate::pager) fn is_dirty(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_dirty()
    }

    /// Latches a frame that may be spilled and was not used since the last call. Never waits.
    pub(in crate::pager) fn latch_to_spill(&self, frame: FrameNo) -> Option<WriteGuard<'_>> {
        let (state, parity) = (self.state(frame), self.parity());
        self.latch_unused(state, |now| now.to_spill(parity))?;
        Some(self.write_guard(frame, state))
    }

    /// Latches a resident frame for changing and prevents it from being spilled before the next checkpoint. Never
    /// waits, and loads nothing.
    pub(in crate::pager) fn try_write_pinned(&self, frame: FrameNo) -> Option<WriteGuard<'_>> {
        let state = self.state(frame);
        let now = state.look();
        let next = now.exclusive().filter(|next| next.is_resident())?.used();
        if !state.replace(now, next, Acquire) {
            return None;
        }
        let latch = self.write_guard(frame, state);
        if !now.is_dirty() {
            self.dirtied.kept_count.fetch_add(1, Relaxed);
        }
        self.mark_dirty(frame, state);
        Some(latch)
    }

    /// Frees the memory of a frame whose bytes are at its location in the file or, if `shadowed`, in the shadow file.
    pub(in crate::pager) fn discard_spilled(&self, frame: FrameNo, latch: WriteGuard<'_>, shadowed: bool) {
        let state = latch.state;
        std::mem::forget(latch);
        self.release_absent(frame, state, state.load(Relaxed).spilled(shadowed));
    }
}
