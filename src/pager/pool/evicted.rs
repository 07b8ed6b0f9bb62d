//! Dirty frames that are written to a file before a checkpoint, so that their memory can be freed.
//!
//! Such a frame stays dirty, and in the list for the next checkpoint.
//!
//! Not here: its states (`state.rs`), where it is written to (`load/evict.rs`).

use super::words::Bytes;
use super::{FrameNo, FrameSource, Pool, WriteGuard};
use crate::error::Result;
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
        let now = state.load(Relaxed);
        if now.is_resident() {
            self.release_absent(frame, state, now.written());
        } else {
            state.set_and_release(now.written_unread());
        }
    }

    /// Makes a frame dirty, with the content that `set_content` gives it in the file, and frees its memory. What it has
    /// in memory is not needed.
    pub(in crate::pager) fn replace_in_file(
        &self,
        frame: FrameNo,
        source: &impl FrameSource,
        set_content: impl FnOnce(),
    ) -> Result<()> {
        let mut latch = self.latch_exclusive(frame)?;
        if !latch.state.load(Relaxed).may_be_replaced_unread(self.parity()) {
            self.make_resident(frame, &mut latch, source)?;
        }
        self.mark_dirty(frame, latch.state);
        set_content();
        self.discard_written(frame, latch);
        Ok(())
    }

    /// Latches a frame if it is dirty and its bytes are in a file, and no thread has a latch.
    pub(in crate::pager) fn try_latch_written(&self, frame: FrameNo) -> Option<WriteGuard<'_>> {
        let (state, parity) = (self.state(frame), self.parity());
        let now = state.look();
        let next = now.exclusive().filter(|_| now.is_dirty() && now.is_written() && !now.is_frozen(parity))?;
        state.replace(now, next, Acquire).then(|| self.write_guard(frame, state))
    }

    /// Gives a latched frame, whose bytes in the file are no longer valid, this content in memory.
    pub(in crate::pager) fn keep_in_memory(&self, frame: FrameNo, mut latch: WriteGuard<'_>, content: &[u8]) {
        self.move_to_buffer(frame, &mut latch);
        self.note_resident(latch.state);
        self.mark_dirty(frame, latch.state);
        latch.whole().fill(0..self.frame_bytes(), 0);
        latch.whole().store(0, content);
    }

    /// An upper bound of the number of dirty frames whose bytes are in no block. `written` is how often a dirty frame
    /// was written since the last checkpoint began.
    pub(in crate::pager) fn unwritten_count(&self, written: u64) -> u64 {
        (self.dirty_count() + self.dirtied.again.load(Relaxed)).saturating_sub(written)
    }
}
