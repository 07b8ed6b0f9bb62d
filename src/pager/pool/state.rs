//! The state of a frame: one word that holds its latch, where its bytes are, and which checkpoint needs them.
//!
//! ```text
//! bit  0..15  readers          16 writer    17 resident    18, 19 dirty in the even, odd epoch
//!     20      written          21 used since the clock hand passed       22 memory kept
//!     23      in a buffer      32..63 version: up with each change
//! ```
//!
//! All transitions are here. [`Word`] has one function for each, without side effects; it returns the next word, or
//! `None` if the transition is not allowed. [`FrameState`] is the word that threads share. No other file knows the
//! bits. docs/architecture.md, "The life of a frame", has the table of states and transitions. `life.rs` explores every
//! state that these functions can reach, in every order, and compares contents.
//!
//! A frame is **frozen** if it was dirty when the running checkpoint began: its bit of the other epoch stays set until
//! the checkpoint has written it. Until then its content must be neither lost nor changed. A dirty frame is **written**
//! once its bytes are in a file, so that they can leave memory before a checkpoint; the next change ends that.
//!
//! Not here: bytes (`mod.rs`), when a transition is wanted (`load/`, `checkpoint/`).

use crate::pager::interleave::step;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::*};

const READERS: u64 = 0xFFFF;
const WRITER: u64 = 1 << 16;
/// The frame's bytes are in memory.
const RESIDENT: u64 = 1 << 17;
const DIRTY: [u64; 2] = [1 << 18, 1 << 19];
/// A file has the bytes of a dirty frame.
const WRITTEN: u64 = 1 << 20;
const USED: u64 = 1 << 21;
/// The frame's own memory may contain old bytes other than zero from before it was resident (`pool/discard.rs`).
const UNRETURNED: u64 = 1 << 22;
/// The frame's bytes are in a buffer, not at its address (`pool/buffers.rs`).
const BUFFERED: u64 = 1 << 23;
const VERSION: u64 = 1 << 32;

/// The parity of an epoch, which selects its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Parity(usize);

impl Parity {
    pub(super) fn of(epoch: u32) -> Parity {
        Parity(epoch as usize & 1)
    }

    /// The index of this parity in an array of two.
    pub(super) fn index(self) -> usize {
        self.0
    }

    fn other(self) -> Parity {
        Parity(1 - self.0)
    }

    fn dirty(self) -> u64 {
        DIRTY[self.0]
    }
}

/// A value of the word. In these functions `now` is the parity of the current epoch; the bits of the other parity are
/// those of frozen frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Word(u64);

/// The step that must precede a change of a frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub next: Word,
    /// The bytes in memory are those of the frozen frame, and must be saved before they change.
    pub preserve: bool,
    /// The frame must be added to the list for the next checkpoint.
    pub list: bool,
}

/// The way in which the running checkpoint gets the content of a frozen frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FrozenFrame {
    /// From memory.
    InMemory,
    /// Not changed since it was written to its block.
    Written,
    /// From the bytes that a writer saved before it changed the frame.
    Preserved,
}

/// A frame that may lose its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// With the latch taken.
    Latched(Word),
    /// It was used since the clock hand passed, and gets a second chance.
    Spared(Word),
}

/// The latch.
impl Word {
    #[inline(always)]
    pub(super) fn is_latched(self) -> bool {
        self.0 & (READERS | WRITER) != 0
    }

    #[inline(always)]
    pub(super) fn is_resident(self) -> bool {
        self.0 & RESIDENT != 0
    }

    #[inline(always)]
    pub(super) fn is_buffered(self) -> bool {
        self.0 & BUFFERED != 0
    }

    /// The word with one more reader; `None` if a writer holds the latch.
    #[inline(always)]
    pub(super) fn shared(self) -> Option<Word> {
        (self.0 & WRITER == 0 && self.0 & READERS != READERS).then_some(Word(self.0 + 1))
    }

    /// [`shared`](Self::shared) of a resident frame, which counts as used.
    #[inline(always)]
    pub(super) fn read(self) -> Option<Word> {
        if self.is_resident() { self.shared().map(Word::used) } else { None }
    }

    /// [`read`](Self::read) of a frame at its address.
    #[inline(always)]
    pub(super) fn read_at_address(self) -> Option<Word> {
        let readable = self.0 & (WRITER | RESIDENT | BUFFERED) == RESIDENT && self.0 & READERS != READERS;
        readable.then_some(Word((self.0 + 1) | USED))
    }

    /// The word with a writer; `None` if the frame is latched.
    #[inline(always)]
    pub(super) fn exclusive(self) -> Option<Word> {
        (self.0 & (READERS | WRITER) == 0).then_some(Word(self.0 | WRITER))
    }

    /// [`exclusive`](Self::exclusive) of a resident frame at its address, which counts as used.
    #[inline(always)]
    pub(super) fn write_at_address(self) -> Option<Word> {
        let free = self.0 & (READERS | WRITER | RESIDENT | BUFFERED) == RESIDENT;
        free.then_some(Word(self.0 | WRITER | USED))
    }

    #[inline(always)]
    pub(super) fn used(self) -> Word {
        Word(self.0 | USED)
    }

    /// The word without the writer, which may have changed the bytes.
    #[inline(always)]
    pub(super) fn released(self) -> Word {
        Word(self.0.wrapping_add(VERSION).wrapping_sub(WRITER))
    }

    /// The word without one of its readers.
    #[cfg(test)]
    pub(super) fn without_reader(self) -> Word {
        Word(self.0 - 1)
    }

    /// The word without its version and without whether it was used.
    #[cfg(test)]
    pub(super) fn without_history(self) -> Word {
        Word(self.0 & (VERSION - 1) & !USED)
    }

    /// Changes each time that a writer releases the latch.
    #[inline(always)]
    pub(super) fn version(self) -> u32 {
        (self.0 / VERSION) as u32
    }

    /// Whether an optimistic read may begin.
    #[inline(always)]
    pub(super) fn is_readable_without_latch(self) -> bool {
        self.0 & (WRITER | RESIDENT | USED | BUFFERED) == RESIDENT | USED
    }

    /// Whether what was read optimistically since the word was `before` is valid.
    #[inline(always)]
    pub(super) fn is_unchanged_since(self, before: Word) -> bool {
        (self.0 ^ before.0) & (!(VERSION - 1) | WRITER | RESIDENT) == 0
    }
}

/// Memory: transitions of a frame whose exclusive latch is held.
impl Word {
    /// The word of a frame whose bytes are now in memory.
    pub(super) fn loaded(self) -> Word {
        Word(self.0 | RESIDENT)
    }

    /// The word of a frame in a buffer; `None` if the frame must use its own memory.
    pub(super) fn to_buffer(self) -> Option<Word> {
        (self.0 & (UNRETURNED | RESIDENT) == 0).then_some(Word(self.0 | BUFFERED))
    }

    /// The word of a frame that could not be loaded to a buffer, and is in none again.
    pub(super) fn not_buffered(self) -> Word {
        Word(self.0 & !BUFFERED)
    }

    /// Whether the frame's own memory may be other than zero before the frame is resident.
    pub(super) fn has_old_memory(self) -> bool {
        self.0 & UNRETURNED != 0
    }

    /// The word of a frame that is not resident, released. Its own memory keeps its bytes for now.
    fn absent(self) -> Word {
        let kept = if self.is_buffered() { 0 } else { UNRETURNED };
        Word(self.0.wrapping_add(VERSION) & !(RESIDENT | WRITER | BUFFERED) | kept)
    }

    /// The word of a frame that is not resident and whose memory was returned and is zero again, released.
    pub(super) fn returned(self) -> Word {
        Word(self.0 & !(WRITER | UNRETURNED))
    }

    /// Whether all bytes of a frame may be replaced before the frame is in memory. Those of a frozen frame must be
    /// preserved.
    pub(super) fn may_be_replaced_unread(self, now: Parity) -> bool {
        self.is_resident() || !self.is_frozen(now)
    }
}

/// Changes, as checkpoints see them.
impl Word {
    /// Whether [`dirtied`](Self::dirtied) changes anything.
    #[inline(always)]
    pub(super) fn is_to_be_dirtied(self, now: Parity) -> bool {
        self.0 & (now.dirty() | WRITTEN) != now.dirty()
    }

    /// The transition before the bytes in memory are changed. The exclusive latch is held.
    pub(super) fn dirtied(self, now: Parity) -> Change {
        let frozen = now.other().dirty();
        let next = Word(self.0 & !(frozen | WRITTEN) | now.dirty());
        Change { next, preserve: self.0 & frozen != 0, list: self.0 & now.dirty() == 0 }
    }

    /// Whether the frame has changed since the last checkpoint.
    pub(super) fn is_dirty(self) -> bool {
        self.0 & (DIRTY[0] | DIRTY[1]) != 0
    }

    pub(super) fn is_written(self) -> bool {
        self.0 & WRITTEN != 0
    }

    /// The way in which the checkpoint gets the content of a frame that it froze. A shared latch is held.
    pub(super) fn frozen_content(self, now: Parity) -> FrozenFrame {
        match (self.is_frozen(now), self.is_written()) {
            (false, _) => FrozenFrame::Preserved,
            (true, true) => FrozenFrame::Written,
            (true, false) => FrozenFrame::InMemory,
        }
    }

    /// Whether the checkpoint in progress still needs the frame's content as it is.
    pub(super) fn is_frozen(self, now: Parity) -> bool {
        self.0 & now.other().dirty() != 0
    }

    /// The word of a frame whose frozen content is in a block of the checkpoint: it may be evicted. Unchanged if a
    /// writer saved the content and changed the frame. `None` if a writer holds the latch.
    pub(super) fn in_block(self, now: Parity) -> Option<Word> {
        if !self.is_frozen(now) {
            return Some(self);
        }
        (self.0 & WRITER == 0).then_some(Word(self.0 & !(now.other().dirty() | WRITTEN)))
    }

    /// The word of a frame that is not part of the checkpoint, as it is beyond the end of the file; `None` if a writer
    /// holds the latch.
    pub(super) fn thawed(self, now: Parity) -> Option<Word> {
        (self.0 & WRITER == 0).then_some(Word(self.0 & !now.other().dirty()))
    }

    /// The word latched for eviction. `None` if the frame's memory must stay: it is latched, or no file has its bytes.
    pub(super) fn to_evict(self) -> Option<Unused> {
        if self.is_resident() && !self.is_dirty() { self.unless_used() } else { None }
    }

    /// The word latched for being written and evicted; `None` unless the frame is dirty and resident, not frozen, and
    /// not latched.
    pub(super) fn to_write(self, now: Parity) -> Option<Unused> {
        let found = self.0 & (RESIDENT | DIRTY[0] | DIRTY[1]);
        if found == RESIDENT | now.dirty() { self.unless_used() } else { None }
    }

    fn unless_used(self) -> Option<Unused> {
        let latched = self.exclusive()?;
        Some(if self.0 & USED != 0 { Unused::Spared(Word(self.0 & !USED)) } else { Unused::Latched(latched) })
    }

    /// The word of an evicted frame, released: the file has its bytes.
    pub(super) fn evicted(self) -> Word {
        self.absent()
    }

    /// The word of a dirty frame that is evicted, released: a file has its bytes until its next change.
    pub(super) fn written(self) -> Word {
        Word(self.0 | WRITTEN).absent()
    }

    /// The word of a dirty frame that is not in memory, released: a file has its bytes until its next change.
    pub(super) fn written_unread(self) -> Word {
        Word((self.0 | WRITTEN).wrapping_add(VERSION) & !WRITER)
    }

    /// The same word; `None` if a writer holds the latch.
    pub(super) fn without_writer(self) -> Option<Word> {
        (self.0 & WRITER == 0).then_some(self)
    }

    /// The word latched for being forgotten, as the frame is no longer part of the table. `None` if that frees no
    /// memory, or if the frame is latched or frozen. Its dirty bit stays, since the frame is in a list of dirty frames;
    /// the checkpoint skips frames beyond the end.
    pub(super) fn to_forget(self, now: Parity) -> Option<Word> {
        let may = self.is_resident() && self.0 & (READERS | WRITER | now.other().dirty()) == 0;
        may.then_some(Word(self.0 | WRITER))
    }

    /// The word of a forgotten frame, released. Its memory has been returned.
    pub(super) fn forgotten(self) -> Word {
        Word(self.0.wrapping_add(VERSION) & !(RESIDENT | WRITER | BUFFERED))
    }

    /// The word with a writer; `None` if the frame is resident or latched.
    pub(super) fn latch_absent(self) -> Option<Word> {
        if self.is_resident() { None } else { self.exclusive() }
    }
}

/// The word that threads share.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct FrameState(AtomicU64);

impl FrameState {
    /// Reads the word, which another thread may change immediately afterwards.
    #[inline(always)]
    pub(super) fn look(&self) -> Word {
        step();
        let now = Word(self.0.load(Relaxed));
        step();
        now
    }

    /// Reads the word, for a caller that holds a latch or needs no exact answer.
    #[inline(always)]
    pub(super) fn load(&self, order: Ordering) -> Word {
        Word(self.0.load(order))
    }

    /// Replaces the word if it still equals `now`. `success` is the memory order of the replacement.
    #[inline(always)]
    pub(super) fn replace(&self, now: Word, next: Word, success: Ordering) -> bool {
        self.0.compare_exchange(now.0, next.0, success, Relaxed).is_ok()
    }

    /// [`replace`](Self::replace) that may fail spuriously.
    #[inline(always)]
    pub(super) fn replace_weak(&self, now: Word, next: Word, success: Ordering) -> bool {
        self.0.compare_exchange_weak(now.0, next.0, success, Relaxed).is_ok()
    }

    /// Sets the word while the caller holds the exclusive latch and keeps it: no other thread changes the word then.
    #[inline(always)]
    pub(super) fn set_latched(&self, next: Word) {
        debug_assert!(next.0 & WRITER != 0);
        self.0.store(next.0, Relaxed);
    }

    /// Sets the word and releases the exclusive latch, which the caller holds.
    #[inline(always)]
    pub(super) fn set_and_release(&self, next: Word) {
        debug_assert!(next.0 & WRITER == 0);
        self.0.store(next.0, Release);
    }

    /// Releases a shared latch.
    #[inline(always)]
    pub(super) fn release_shared(&self) {
        step();
        self.0.fetch_sub(1, Release);
    }

    /// Releases the exclusive latch after a change.
    #[inline(always)]
    pub(super) fn release_exclusive(&self) {
        // A plain store suffices, as only the holder changes the word. Unlike an atomic addition, it does not wait for
        // all earlier stores to reach the cache.
        step();
        self.0.store(Word(self.0.load(Relaxed)).released().0, Release);
    }
}
