//! The state of a frame: one word that holds its latch, where its bytes are, and which checkpoint needs them.
//!
//! ```text
//! bit  0..15  readers          16 writer    17 resident    18, 19 dirty in the even, odd epoch
//!     20      in the journal   21 used since the clock hand passed       22, 23 written through in the even, odd epoch
//!     24      spilled          25 in the shadow file               26 memory kept
//!     27      in a buffer      28 partly written through            32..63 version: up with each change
//! ```
//!
//! All transitions are here. [`Word`] has one function for each, without side effects; it returns the next word, or
//! `None` if the transition is not allowed. [`FrameState`] is the word that threads share. No other file knows the
//! bits. docs/architecture.md, "The life of a frame", has the table of states and transitions. `life.rs` explores every
//! state that these functions can reach, in every order, and compares contents.
//!
//! A frame is **frozen** if it was dirty or written through when the running checkpoint began: its bit of the other
//! epoch stays set until the checkpoint has copied it. Until then its content must be neither lost nor changed.
//!
//! Not here: bytes (`mod.rs`), when a transition is wanted (`load/`, `checkpoint/`).

use crate::pager::interleave::step;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::*};

const READERS: u64 = 0xFFFF;
const WRITER: u64 = 1 << 16;
/// The frame's bytes are in memory.
const RESIDENT: u64 = 1 << 17;
const DIRTY: [u64; 2] = [1 << 18, 1 << 19];
/// The running checkpoint has copied the frame, but has not yet written it to its location in the file.
const JOURNALLED: u64 = 1 << 20;
const USED: u64 = 1 << 21;
/// The log may refer to bytes of this frame in the file. Without a dirty bit of the same epoch, the file has all of
/// the frame.
const THROUGH: [u64; 2] = [1 << 22, 1 << 23];
/// A file has the frame's bytes, although no checkpoint has them.
const SPILLED: u64 = 1 << 24;
/// That file is the shadow file (`load/spill.rs`).
const SHADOWED: u64 = 1 << 25;
/// The frame's own memory may contain old bytes other than zero from before it was resident (`pool/discard.rs`).
const UNRETURNED: u64 = 1 << 26;
/// The frame's bytes are in a buffer, not at its address (`pool/buffers.rs`).
const BUFFERED: u64 = 1 << 27;
/// Not all bytes of a frame that is written through are: its other bytes may follow, in the file before in memory.
const PARTLY: u64 = 1 << 28;
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

    fn through(self) -> u64 {
        THROUGH[self.0]
    }

    fn any(self) -> u64 {
        self.dirty() | self.through()
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
    /// From memory; the file has the same bytes at the frame's location.
    InFile,
    /// Not in memory: the file has the bytes at the frame's location, and a checksum frame in memory has their
    /// checksum.
    Spilled,
    /// Not in memory: the shadow file has the bytes, and a checksum frame in memory has their checksum.
    Shadowed,
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

    /// The word of a frame that is not resident and whose memory was returned, released. `zero`: the memory is zero
    /// again, which that of a window is not: it is the file's.
    pub(super) fn returned(self, zero: bool) -> Word {
        let old = if zero { UNRETURNED } else { 0 };
        Word(self.0 & !(WRITER | old))
    }

    /// Whether bytes of a frame may be replaced before the frame is in memory: all of them if `whole`, else a part of a
    /// new frame. If not, a file has bytes that are still needed: those of a frozen frame must be preserved, and those
    /// of a spilled frame are kept in part.
    pub(super) fn may_be_replaced_unread(self, now: Parity, whole: bool) -> bool {
        let needed = now.other().any() | if whole { 0 } else { SPILLED };
        self.is_resident() || self.0 & needed == 0
    }
}

/// Changes, as checkpoints see them.
impl Word {
    /// Whether [`dirtied`](Self::dirtied) changes anything.
    #[inline(always)]
    pub(super) fn is_to_be_dirtied(self, now: Parity) -> bool {
        self.0 & (now.dirty() | SPILLED) != now.dirty()
    }

    /// The transition before the bytes in memory are changed. The exclusive latch is held.
    pub(super) fn dirtied(self, now: Parity) -> Change {
        let frozen = now.other().any();
        let next = Word(self.0 & !(frozen | SPILLED | SHADOWED) | now.dirty());
        Change { next, preserve: self.0 & frozen != 0, list: self.is_to_be_listed(now) }
    }

    /// The transition before bytes that the file already has are stored in memory. The frame is new since the last
    /// checkpoint; where nothing was written through, the file has zeros. `whole`: all bytes of the frame. The
    /// exclusive latch is held.
    pub(super) fn written_through(self, now: Parity, whole: bool) -> Change {
        // Memory that was never resident is zero, like the file.
        let equals_file = whole || self.0 & (RESIDENT | UNRETURNED) == 0 || self.0 & now.through() != 0;
        let frozen = self.0 & now.other().any() != 0;
        let differs = !equals_file || frozen || self.0 & SPILLED != 0;
        let partly = if whole { 0 } else { PARTLY };
        let (with, list) = (Word(self.0 & !PARTLY | RESIDENT | now.through() | partly), self.is_to_be_listed(now));
        if differs { Change { list, ..with.dirtied(now) } } else { Change { next: with, preserve: false, list } }
    }

    /// The transition of a frame that is new since the last checkpoint and may now differ from the file; `None` if a
    /// writer holds the latch.
    pub(super) fn differing_from_file(self, now: Parity) -> Option<Change> {
        (self.0 & WRITER == 0).then(|| Change {
            next: Word(self.0 | now.dirty()),
            preserve: false,
            list: self.is_to_be_listed(now),
        })
    }

    /// Whether the frame stays in memory until the next checkpoint, since a spilled copy could be wrong.
    pub(super) fn is_kept(self, now: Parity) -> bool {
        self.is_written_through(now) && self.0 & (now.dirty() | PARTLY) != 0
    }

    fn is_to_be_listed(self, now: Parity) -> bool {
        self.0 & now.any() == 0
    }

    /// Whether the log may refer to bytes of this frame in the file, since the last checkpoint began.
    pub(super) fn is_written_through(self, now: Parity) -> bool {
        self.0 & now.through() != 0
    }

    /// Whether the frame has changed since the last checkpoint.
    pub(super) fn is_dirty(self) -> bool {
        self.0 & (DIRTY[0] | DIRTY[1]) != 0
    }

    pub(super) fn is_spilled(self) -> bool {
        self.0 & SPILLED != 0
    }

    pub(super) fn is_shadowed(self) -> bool {
        self.0 & SHADOWED != 0
    }

    /// The way in which the checkpoint gets the content of a frame that it froze. A shared latch is held.
    pub(super) fn frozen_content(self, now: Parity) -> FrozenFrame {
        let frozen = self.0 & now.other().any();
        if frozen == 0 {
            FrozenFrame::Preserved
        } else if self.is_spilled() && !(self.is_shadowed() && self.is_resident()) {
            if self.is_shadowed() { FrozenFrame::Shadowed } else { FrozenFrame::Spilled }
        } else if frozen == now.other().through() {
            FrozenFrame::InFile
        } else {
            FrozenFrame::InMemory
        }
    }

    /// The word of a frame that the checkpoint has copied: no longer frozen. Its bytes stay where they are until
    /// [`in_file`](Self::in_file).
    pub(super) fn copied(self, now: Parity) -> Word {
        Word(self.0 & !(now.other().any() | PARTLY) | JOURNALLED)
    }

    /// Whether the checkpoint in progress still needs the frame's content as it is.
    pub(super) fn is_frozen(self, now: Parity) -> bool {
        self.0 & now.other().any() != 0
    }

    /// The word of a frame whose frozen content is in a block: it may be evicted. Unchanged if a writer saved the
    /// content and changed the frame. `None` if a writer holds the latch.
    pub(super) fn in_block(self, now: Parity) -> Option<Word> {
        if !self.is_frozen(now) {
            return Some(self);
        }
        (self.0 & WRITER == 0).then_some(Word(self.0 & !(now.other().any() | SPILLED | SHADOWED)))
    }

    /// The word of a frame that the checkpoint itself changes: not evicted until [`in_file`](Self::in_file). The
    /// exclusive latch is held.
    pub(super) fn changed_by_checkpoint(self) -> Word {
        Word(self.0 | JOURNALLED)
    }

    /// The word of a frame that is not part of the checkpoint, as it is beyond the end of the file; `None` if a writer
    /// holds the latch.
    pub(super) fn thawed(self, now: Parity) -> Option<Word> {
        (self.0 & WRITER == 0).then_some(Word(self.0 & !now.other().any()))
    }

    /// The word of a frame that the checkpoint has written to its location; `None` if a writer holds the latch.
    pub(super) fn in_file(self) -> Option<Word> {
        (self.0 & WRITER == 0).then_some(Word(self.0 & !(JOURNALLED | SPILLED | SHADOWED)))
    }

    /// The word latched for eviction. `None` if the frame's memory must stay: it is latched, or no file has its bytes.
    pub(super) fn to_evict(self) -> Option<Unused> {
        const KEPT: u64 = DIRTY[0] | DIRTY[1] | THROUGH[0] | THROUGH[1] | JOURNALLED;
        if self.is_resident() && self.0 & KEPT == 0 { self.unless_used() } else { None }
    }

    /// The word latched for spilling; `None` unless the frame is dirty or, all of it, written through, not frozen, and
    /// not latched.
    pub(super) fn to_spill(self, now: Parity) -> Option<Unused> {
        const ASKED: u64 = RESIDENT | JOURNALLED | DIRTY[0] | DIRTY[1] | THROUGH[0] | THROUGH[1];
        let found = self.0 & ASKED;
        let through = found == RESIDENT | now.through() && !self.is_kept(now);
        if found == RESIDENT | now.dirty() || through { self.unless_used() } else { None }
    }

    fn unless_used(self) -> Option<Unused> {
        let latched = self.exclusive()?;
        Some(if self.0 & USED != 0 { Unused::Spared(Word(self.0 & !USED)) } else { Unused::Latched(latched) })
    }

    /// The word of an evicted frame, released: the file has its bytes.
    pub(super) fn evicted(self) -> Word {
        self.absent()
    }

    /// The word of a spilled frame, released. Its bytes are in the shadow file, or at its location in the file. The
    /// next change clears both bits.
    pub(super) fn spilled(self, shadowed: bool) -> Word {
        let spilled = if shadowed { SPILLED | SHADOWED } else { SPILLED };
        Word(self.0 & !SHADOWED | spilled).absent()
    }

    /// The word of a frame that is no longer part of the table: no file has its bytes. `None` if a writer holds the
    /// latch.
    pub(super) fn unspilled(self) -> Option<Word> {
        (self.0 & WRITER == 0).then_some(Word(self.0 & !(SPILLED | SHADOWED)))
    }

    /// The word latched for being forgotten, as the frame is no longer part of the table. `None` if that frees no
    /// memory, or if the frame is latched or frozen. Its dirty bit stays, since the frame is in a list of dirty frames;
    /// the checkpoint skips frames beyond the end.
    pub(super) fn to_forget(self, now: Parity) -> Option<Word> {
        let may = self.is_resident() && self.0 & (READERS | WRITER | now.other().any()) == 0;
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

    /// Makes the transition to [`Word::copied`]. The caller holds a shared latch, which keeps writers out; other
    /// readers may come and go.
    #[allow(deprecated, reason = "the new name, `try_update`, is newer than the oldest Rust that is supported")]
    pub(super) fn set_copied(&self, now: Parity) {
        let _ = self.0.fetch_update(Relaxed, Relaxed, |word| Some(Word(word).copied(now).0));
    }
}
