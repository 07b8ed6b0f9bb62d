//! The buffer pool: frames at fixed addresses in a reserved range, each with a latch.
//!
//! Frame `n` has one computed address for as long as the table is open, resident or not, so no map from frames to
//! memory is needed. Only a table that has outgrown its cache has one (`buffers.rs`). The range is reserved in
//! segments, up to the table's end; an address takes one load and an addition (`addresses.rs`). Each frame has a state
//! word (`state.rs`) with its latch.
//!
//! A frame's bytes are read under a shared latch and changed under the exclusive one. Or they are read
//! **optimistically**, without a latch: note the version, copy the bytes, and discard the copy if the version has
//! changed. Such a lookup writes nothing that other threads read. A single thread gains little, a twelfth for absent
//! keys (docs/benchmarks.md, "What was tried"); many threads gain more. Waiting for a latch spins, then yields: latches
//! are held only while one page is processed, never across a wait for another writer. The exception is a
//! [`ValueRef`](crate::ValueRef) held by the user, see `refuse_to_wait_with_values`.
//!
//! Unsafe: only this file maps memory and makes slices of it; the guards are the safe interface. With the address range
//! a lookup can compute a page's address, and cold frames can be evicted one by one.
//!
//! Not here: what a frame is used for, and when it is written to the file (`load/`, `checkpoint/`).
#![expect(unsafe_code, reason = "frames live in address ranges reserved with mmap")]

use crate::error::{Error, ErrorKind, Result};
use crate::own_line::OwnLine;
use crate::pager::interleave;
use addresses::{segment_around, slot_of};
use mapping::Mapping;
use populate::Populator;
pub(crate) use state::FrozenFrame;
use state::{Change, FrameState, Parity, Unused, Word};
use std::cell::Cell;
use std::ops::{Deref, Range};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, OnceLock};
pub(crate) use values_held::{ValueHeld, lock_without_values, refuse_to_wait_with_values};
use words::{Bytes, FrameBytes};

mod addresses;
mod buffers;
mod discard;
mod evicted;
#[cfg(test)]
mod life;
pub(super) mod mapping;
pub(crate) mod optimistic;
pub(crate) mod part;
mod populate;
mod prefetch;
pub(crate) mod sink;
mod state;
pub(crate) mod thread_slot;
mod values_held;
pub(crate) mod words;

/// The smallest frame. A table with larger pages has frames of the page size.
pub(crate) const FRAME_BYTES_MIN: usize = 4096;
/// Largest frame.
pub(crate) const FRAME_BYTES_MAX: usize = 65536;

/// The number of a frame: the unit of I/O, latch, checksum and eviction.
pub(crate) type FrameNo = u32;

/// Memory beyond this uses large pages; below it, a small table need not take 2 MiB for its first page.
pub(crate) const SMALL_BYTES: usize = 4 << 20;

/// The addresses that frame 0, its state word and the number of its buffer would have, if all frames were where those
/// of this slot are (`addresses.rs`). So the address of frame `n` is `n` frames further on.
struct Slot {
    frames: AtomicPtr<u8>,
    states: AtomicPtr<FrameState>,
    buffers: AtomicPtr<AtomicU32>,
}

/// Reserved memory of adjacent segments.
struct Reserved {
    /// The state words, followed by the numbers of buffers.
    #[expect(dead_code, reason = "kept until the pool is dropped")]
    states: Mapping,
    frames: Mapping,
}

thread_local! {
    /// A buffer for the frame that is being loaded. Kept, since allocating zeroed memory costs as much as the copy.
    static LOADED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The input of `Pool::load` for filling a frame that is not resident.
pub(crate) trait FrameSource {
    /// Sets `bytes` to the frame's checked content in the file. Returns false if the frame is new and therefore zero.
    fn load(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<bool>;
    /// Called when a frame has become resident or dirty; may evict others.
    fn made_resident(&self);
}

/// Frames, their latches and states.
pub(crate) struct Pool {
    /// A frame has 2^`frame_bits` bytes.
    frame_bits: u32,
    frame_bytes: usize,
    /// The frames in this many first bytes of the file have addresses.
    reserved_bytes: AtomicU64,
    /// The [`Slot`]s of the first `reserved_bytes`, and zeros.
    slots: Mapping,
    /// Declared before the segments, so that its thread has ended when they are dropped.
    ahead: Mutex<Option<Populator>>,
    segments: Mutex<Vec<Reserved>>,
    /// Whether the cache has had room for the whole table so far.
    large_pages: AtomicBool,
    /// Set once the table is larger than the cache.
    buffers: OnceLock<buffers::Buffers>,
    /// Frames whose memory is to be given back.
    unreturned: Mutex<Vec<FrameNo>>,
    /// Whether dirty frames must reach a file.
    tracked: bool,
    /// Its parity selects the current dirty bit.
    epoch: AtomicU32,
    dirtied: OwnLine<Dirtied>,
    /// Whether no dirty frame can be written to a file before a checkpoint at the moment.
    pinned: AtomicBool,
    /// Frames of the checkpoint that is being written.
    frozen_count: AtomicU64,
    /// Contents of frozen frames, saved by writers that changed them before the checkpoint copied them.
    preserved: OwnLine<Mutex<Contents>>,
    pub(crate) resident: OwnLine<AtomicU64>,
    pub(crate) latch_waits: OwnLine<AtomicU64>,
    pub(crate) evictions: OwnLine<AtomicU64>,
}

/// Frames and their bytes.
type Contents = Vec<(FrameNo, Box<[u8]>)>;

/// Frames for the next checkpoint.
#[derive(Default)]
struct Dirtied {
    /// Frames dirtied in the even and odd epoch.
    lists: [Mutex<Vec<FrameNo>>; 2],
    /// Length of the current list.
    count: AtomicU64,
    /// How often a frame of the current list was no longer what a file has of it.
    again: AtomicU64,
}

impl Pool {
    /// A pool of frames of `frame_bytes`, a power of two. `tracked` means that there is a file, so dirty frames are
    /// listed.
    pub(crate) fn new(frame_bytes: usize, tracked: bool) -> Result<Pool> {
        assert!(frame_bytes.is_power_of_two() && (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame_bytes));
        Ok(Pool {
            frame_bits: frame_bytes.trailing_zeros(),
            frame_bytes,
            reserved_bytes: AtomicU64::new(0),
            slots: Mapping::new(slot_of(addresses::len_max(frame_bytes)) * size_of::<Slot>())?,
            ahead: Mutex::new(None),
            segments: Mutex::new(Vec::new()),
            large_pages: AtomicBool::new(true),
            buffers: OnceLock::new(),
            unreturned: Mutex::default(),
            tracked,
            epoch: AtomicU32::new(0),
            dirtied: OwnLine::default(),
            pinned: AtomicBool::new(true),
            frozen_count: AtomicU64::new(0),
            preserved: OwnLine::default(),
            resident: OwnLine::default(),
            latch_waits: OwnLine::default(),
            evictions: OwnLine::default(),
        })
    }

    #[inline]
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// The frame with byte `address` of the file, and the offset in that frame.
    #[inline]
    pub(crate) fn split(&self, address: u64) -> (FrameNo, usize) {
        ((address >> self.frame_bits) as FrameNo, address as usize & (self.frame_bytes - 1))
    }

    /// The slot of byte `address` of the file.
    #[inline]
    fn slot(&self, address: u64) -> &Slot {
        assert!(address < self.reserved_bytes.load(Acquire), "a frame beyond the reserved range");
        self.slot_unchecked(address)
    }

    #[inline]
    fn slot_unchecked(&self, address: u64) -> &Slot {
        // SAFETY: the callers compared `address` with the number of reserved bytes, or with the maximum length, below
        // which there are slots (`new`). Zeros from the kernel are a valid Slot, and the mapping lives as long as the
        // pool.
        unsafe { &*self.slots.start.cast::<Slot>().add(slot_of(address)) }
    }

    /// Reserves addresses for all frames below `frame_count`.
    pub(crate) fn reserve(&self, frame_count: u64) -> Result<()> {
        let len_max = addresses::len_max(self.frame_bytes);
        if frame_count > len_max >> self.frame_bits {
            let what = format!("a table with frames of {} bytes cannot be larger than {len_max}", self.frame_bytes);
            return Err(Error::new(ErrorKind::OutOfMemory, what));
        }
        let needed = frame_count << self.frame_bits;
        let mut segments = self.segments.lock().expect("no panic while held");
        let start = self.reserved_bytes.load(Relaxed);
        if needed <= start {
            return Ok(());
        }
        let end = segment_around(needed - 1).end;
        let bytes = usize::try_from(end - start).expect("below the maximum length");
        let frame_count = bytes >> self.frame_bits;
        let frames = Mapping::new(bytes)?;
        let states = Mapping::new(frame_count * (size_of::<FrameState>() + size_of::<AtomicU32>()))?;
        if self.large_pages.load(Relaxed) {
            frames.advise_huge_pages(SMALL_BYTES.saturating_sub(start as usize));
        } else {
            frames.advise_small_pages();
        }
        self.set_slots(start..end, &frames, &states);
        segments.push(Reserved { states, frames });
        // A thread that sees this also sees the slots.
        self.reserved_bytes.store(end, Release);
        Ok(())
    }

    /// Sets the slots of `bytes`, which begin and end with segments.
    fn set_slots(&self, bytes: Range<u64>, frames: &Mapping, states: &Mapping) {
        let first = (bytes.start >> self.frame_bits) as usize;
        let frame_count = (bytes.end - bytes.start) as usize >> self.frame_bits;
        let buffers = states.start.wrapping_add(frame_count * size_of::<FrameState>());
        let mut at = bytes.start;
        while at < bytes.end {
            let slot = self.slot_unchecked(at);
            slot.frames.store(frames.start.wrapping_sub(bytes.start as usize), Relaxed);
            slot.states.store(states.start.cast::<FrameState>().wrapping_sub(first), Relaxed);
            slot.buffers.store(buffers.cast::<AtomicU32>().wrapping_sub(first), Relaxed);
            at += addresses::slot_bytes(at);
        }
    }

    /// Asks the thread that populates memory to run `work`. Returns false if its queue is full.
    pub(super) fn run_ahead(&self, work: impl FnOnce() + Send + 'static) -> bool {
        self.ahead().as_ref().is_some_and(|ahead| ahead.run(Box::new(work)))
    }

    /// The thread that populates memory, started on first use.
    fn ahead(&self) -> MutexGuard<'_, Option<Populator>> {
        let mut ahead = self.ahead.lock().expect("no panic while held");
        if ahead.is_none() {
            *ahead = Populator::start();
        }
        ahead
    }

    /// Asks the thread that populates memory to populate reserved frames. Returns false if its queue is full.
    pub(super) fn make_ready(&self, frames: Range<FrameNo>) -> bool {
        let ahead = self.ahead();
        let Some(ahead) = ahead.as_ref() else { return false };
        self.parts_in_segments(frames).all(|part| {
            let states = ptr::from_ref(self.state(part.start)).cast_mut().cast();
            // SAFETY: the frames are of one segment, and so are their states; both are dropped after `ahead`, which is
            // declared before them.
            unsafe {
                ahead.request(self.frame(part.start).address, part.len() << self.frame_bits)
                    && ahead.request(states, part.len() * size_of::<FrameState>())
            }
        })
    }

    /// `frames`, divided at segment boundaries.
    fn parts_in_segments(&self, frames: Range<FrameNo>) -> impl Iterator<Item = Range<FrameNo>> {
        let mut first = frames.start;
        std::iter::from_fn(move || {
            let part = first..frames.end.min(self.segment_around(first).end);
            first = part.end;
            (!part.is_empty()).then_some(part)
        })
    }

    /// The frames of the segment that has `frame`.
    fn segment_around(&self, frame: FrameNo) -> Range<FrameNo> {
        let bytes = segment_around(u64::from(frame) << self.frame_bits);
        // The last segment ends one frame beyond those that have numbers.
        let number = |byte: u64| FrameNo::try_from(byte >> self.frame_bits).unwrap_or(FrameNo::MAX);
        number(bytes.start)..number(bytes.end)
    }

    #[inline]
    fn state(&self, frame: FrameNo) -> &FrameState {
        self.frame(frame).state
    }

    /// The place of `frame`: the addresses of its bytes and its state.
    #[inline]
    pub(crate) fn frame(&self, frame: FrameNo) -> FrameRef<'_> {
        let address = u64::from(frame) << self.frame_bits;
        self.frame_in(self.slot(address), frame as usize, address as usize)
    }

    /// The frame with byte `address` of the file, the frame's place, and the offset in it.
    #[inline]
    pub(crate) fn place(&self, address: u64) -> (FrameNo, FrameRef<'_>, usize) {
        let (frame, within) = self.split(address);
        let number = (address >> self.frame_bits) as usize; // as `frame`, without a conversion
        (frame, self.frame_in(self.slot(address), number, address as usize - within), within)
    }

    /// The place of frame `number`, whose first byte in the file is `start`, and which has this slot.
    #[inline]
    fn frame_in<'a>(&'a self, slot: &'a Slot, number: usize, start: usize) -> FrameRef<'a> {
        let (frames, states) = (slot.frames.load(Relaxed), slot.states.load(Relaxed));
        // SAFETY: the frame's slot has the address that state 0 would have, so this is the frame's own, in a mapping
        // that lives as long as the pool. Zero bytes are a valid FrameState.
        let state = unsafe { &*states.wrapping_add(number) };
        FrameRef { state, address: frames.wrapping_add(start), bytes: self.frame_bytes() }
    }

    /// Whether any thread currently holds a latch of `frame`.
    #[inline]
    pub(crate) fn is_latched(&self, frame: FrameNo) -> bool {
        self.frame(frame).is_latched()
    }

    /// Latches `frame`, which is at `place`, for reading. Loads it first if it is not resident.
    #[inline]
    pub(crate) fn read<'a>(
        &'a self,
        frame: FrameNo,
        place: FrameRef<'a>,
        source: &impl FrameSource,
    ) -> Result<ReadGuard<'a>> {
        let FrameRef { state, mut address, bytes } = place;
        let now = state.look();
        if !now.read_at_address().is_some_and(|next| state.replace_weak(now, next, Acquire)) {
            address = self.read_slow(frame, state, source)?;
        }
        Ok(ReadGuard { state, address, bytes })
    }

    /// Latches `frame` for reading; loads it first if it is not resident. Returns the address of its bytes.
    #[cold]
    fn read_slow(&self, frame: FrameNo, state: &FrameState, source: &impl FrameSource) -> Result<*mut u8> {
        let mut spins = Spins::new(self);
        loop {
            let now = state.look();
            if now.shared().is_none() {
                spins.wait()?;
            } else if let Some(next) = now.read() {
                if state.replace_weak(now, next, Acquire) {
                    return Ok(self.bytes_of(frame, now));
                }
            } else {
                drop(self.write_latch(frame, source)?); // loads it
            }
        }
    }

    /// Latches `frame`, which is at `place`, for changing. Loads it first if it is not resident. It counts as dirty
    /// from here on.
    #[inline(always)]
    pub(crate) fn write<'a>(
        &'a self,
        frame: FrameNo,
        place: FrameRef<'a>,
        source: &impl FrameSource,
    ) -> Result<WriteGuard<'a>> {
        let FrameRef { state, mut address, bytes } = place;
        let now = state.look();
        if !now.write_at_address().is_some_and(|next| state.replace(now, next, Acquire)) {
            address = self.write_slow(frame, source)?;
        }
        let latch = WriteGuard { state, address, bytes };
        self.mark_dirty(frame, state);
        Ok(latch)
    }

    /// Latches `frame` for changing; loads it first if it is not resident. Returns the address of its bytes. The caller
    /// makes the guard: a result that contains a guard would be passed through memory on the fast path, too.
    #[cold]
    fn write_slow(&self, frame: FrameNo, source: &impl FrameSource) -> Result<*mut u8> {
        let latch = self.write_latch(frame, source)?;
        let address = latch.address;
        std::mem::forget(latch);
        Ok(address)
    }

    /// [`write`](Self::write), but returns `None` if another thread holds the latch.
    pub(crate) fn try_write<'a>(&'a self, frame: FrameNo, source: &impl FrameSource) -> Result<Option<WriteGuard<'a>>> {
        let state = self.state(frame);
        let now = state.look();
        if !now.exclusive().is_some_and(|next| state.replace(now, next.used(), Acquire)) {
            return Ok(None);
        }
        let mut latch = self.write_guard(frame, state);
        self.make_resident(frame, &mut latch, source)?;
        self.mark_dirty(frame, latch.state);
        Ok(Some(latch))
    }

    /// Latches a frame whose old content is not needed: its bytes are unspecified. They are read from a file only if a
    /// checkpoint still needs them.
    pub(crate) fn write_fresh(&self, frame: FrameNo, source: &impl FrameSource) -> Result<WriteGuard<'_>> {
        let mut latch = self.latch_exclusive(frame)?;
        if !latch.state.load(Relaxed).may_be_replaced_unread(self.parity()) {
            self.make_resident(frame, &mut latch, source)?;
        }
        self.move_to_buffer(frame, &mut latch);
        let is_new = self.note_resident(latch.state);
        self.mark_dirty(frame, latch.state);
        if is_new {
            source.made_resident();
        }
        Ok(latch)
    }

    /// Notes that the bytes of a frame are in memory; returns whether they were not. The caller holds the exclusive
    /// latch.
    fn note_resident(&self, state: &FrameState) -> bool {
        let now = state.load(Relaxed);
        if !now.is_resident() {
            state.set_latched(now.loaded());
            self.resident.fetch_add(1, Relaxed);
        }
        !now.is_resident()
    }

    /// The guard of an exclusive latch that the caller has taken.
    fn write_guard<'a>(&self, frame: FrameNo, state: &'a FrameState) -> WriteGuard<'a> {
        WriteGuard { state, address: self.bytes_of(frame, state.load(Relaxed)), bytes: self.frame_bytes() }
    }

    fn latch_exclusive(&self, frame: FrameNo) -> Result<WriteGuard<'_>> {
        let state = self.state(frame);
        let now = state.look();
        if !now.exclusive().is_some_and(|next| state.replace(now, next.used(), Acquire)) {
            self.latch_exclusive_slow(state)?;
        }
        Ok(self.write_guard(frame, state))
    }

    #[cold]
    fn latch_exclusive_slow(&self, state: &FrameState) -> Result<()> {
        let mut spins = Spins::new(self);
        loop {
            let now = state.look();
            match now.exclusive() {
                Some(next) if state.replace_weak(now, next.used(), Acquire) => return Ok(()),
                Some(_) => {}
                None => spins.wait()?,
            }
        }
    }

    /// Waits until each thread that holds a latch of the frame now has released it.
    ///
    /// # Errors
    /// [`ErrorKind::WouldDeadlock`](crate::ErrorKind) if this thread holds a value and would have to wait.
    pub(crate) fn wait_for_readers(&self, frame: FrameNo) -> Result<()> {
        self.latch_exclusive(frame).map(drop)
    }

    fn write_latch<'a>(&'a self, frame: FrameNo, source: &impl FrameSource) -> Result<WriteGuard<'a>> {
        let mut latch = self.latch_exclusive(frame)?;
        self.make_resident(frame, &mut latch, source)?;
        Ok(latch)
    }

    #[inline]
    fn make_resident(&self, frame: FrameNo, latch: &mut WriteGuard<'_>, source: &impl FrameSource) -> Result<()> {
        if latch.state.load(Relaxed).is_resident() {
            return Ok(());
        }
        self.make_resident_slow(frame, latch, source)
    }

    #[cold]
    fn make_resident_slow(&self, frame: FrameNo, latch: &mut WriteGuard<'_>, source: &impl FrameSource) -> Result<()> {
        if self.move_to_buffer(frame, latch) {
            self.load_to_buffer(frame, latch, source)?;
        } else {
            // Loaded into other memory first, then copied in with atomic stores: another thread may be reading the old
            // content optimistically.
            let mut bytes = LOADED.try_with(Cell::take).unwrap_or_default();
            bytes.resize(self.frame_bytes(), 0);
            if source.load(frame, &mut bytes)? {
                latch.whole().store(0, &bytes);
            } else if latch.state.load(Relaxed).has_old_memory() {
                latch.whole().fill(0..self.frame_bytes(), 0);
            }
            let _ = LOADED.try_with(|kept| kept.set(bytes));
        }
        self.note_resident(latch.state);
        source.made_resident();
        Ok(())
    }

    /// The frames of `frames` that are in memory.
    pub(super) fn residents(&self, frames: Range<FrameNo>) -> impl Iterator<Item = FrameNo> {
        frames.filter(|&frame| self.state(frame).load(Relaxed).is_resident())
    }

    /// Whether the frame is in memory.
    #[inline]
    pub(super) fn is_resident(&self, frame: FrameNo) -> bool {
        self.state(frame).look().is_resident()
    }

    /// Makes a frame resident with its content in the file, unless it is resident or latched.
    pub(super) fn offer(&self, frame: FrameNo, bytes: &[u8]) -> bool {
        let state = self.state(frame);
        let now = state.look();
        if !now.latch_absent().is_some_and(|next| state.replace(now, next.used(), Acquire)) {
            return false;
        }
        let mut latch = self.write_guard(frame, state);
        latch.whole().store(0, bytes);
        self.note_resident(state);
        true
    }

    /// The parity of the current epoch. It changes only while no writer is at work.
    #[inline(always)]
    fn parity(&self) -> Parity {
        Parity::of(self.epoch.load(Acquire))
    }

    /// Called before the frame's bytes change: saves the content that a checkpoint froze, and lists the frame for the
    /// next checkpoint. The caller holds the exclusive latch.
    #[inline]
    fn mark_dirty(&self, frame: FrameNo, state: &FrameState) {
        if !self.tracked {
            return;
        }
        let (now, parity) = (state.load(Relaxed), self.parity());
        if now.is_to_be_dirtied(parity) {
            self.mark_dirty_slow(frame, state, parity);
        }
    }

    #[cold]
    fn mark_dirty_slow(&self, frame: FrameNo, state: &FrameState, parity: Parity) {
        self.apply(frame, state, state.load(Relaxed).dirtied(parity), parity);
    }

    /// Makes a transition to a dirty state. The caller holds the exclusive latch.
    fn apply(&self, frame: FrameNo, state: &FrameState, change: Change, parity: Parity) {
        let Change { next, preserve, list } = change;
        if preserve {
            let address = self.bytes_of(frame, state.load(Relaxed));
            // SAFETY: the caller holds the exclusive latch, so the bytes do not change under this view.
            let bytes = unsafe { std::slice::from_raw_parts(address, self.frame_bytes()) };
            self.preserved.lock().expect("no panic while held").push((frame, bytes.into()));
        }
        if state.load(Relaxed).is_written() {
            self.dirtied.again.fetch_add(1, Relaxed);
        }
        state.set_latched(next);
        if list {
            self.list_for_checkpoint(frame, parity);
        }
    }

    fn list_for_checkpoint(&self, frame: FrameNo, parity: Parity) {
        self.dirtied.lists[parity.index()].lock().expect("no panic while held").push(frame);
        self.dirtied.count.fetch_add(1, Relaxed);
    }

    /// Frames dirtied in the current epoch.
    #[inline]
    pub(crate) fn dirty_count(&self) -> u64 {
        self.dirtied.count.load(Acquire)
    }

    /// Starts a new epoch: the frames that are dirty now become frozen, and [`copy_frozen`](Self::copy_frozen) copies
    /// them. The caller keeps writers out.
    pub(crate) fn freeze(&self) -> Vec<FrameNo> {
        let parity = self.parity().index();
        debug_assert!(self.dirtied.lists[1 - parity].lock().expect("no panic while held").is_empty());
        debug_assert!(self.preserved.lock().expect("no panic while held").is_empty());
        let frozen = std::mem::take(&mut *self.dirtied.lists[parity].lock().expect("no panic while held"));
        self.dirtied.count.store(0, Release);
        self.dirtied.again.store(0, Relaxed);
        self.frozen_count.store(frozen.len() as u64, Relaxed);
        self.epoch.fetch_add(1, Release);
        frozen
    }

    fn latch_frozen(&self, frame: FrameNo) -> ReadGuard<'_> {
        let state = self.state(frame);
        loop {
            // Readers' latches are no obstacle: only a holder of the exclusive latch changes the frozen bits.
            let now = state.look();
            if now.shared().is_some_and(|next| state.replace_weak(now, next, Acquire)) {
                return ReadGuard { state, address: self.bytes_of(frame, now), bytes: self.frame_bytes() };
            }
            yield_now();
        }
    }

    /// Copies a frozen frame's content, as it was when frozen, into `bytes` if it is in memory. The frame stays frozen
    /// until [`in_block`](Self::in_block) is called.
    pub(super) fn copy_frozen(&self, frame: FrameNo, bytes: &mut [u8]) -> FrozenFrame {
        let latch = self.latch_frozen(frame);
        let content = latch.state.load(Relaxed).frozen_content(self.parity());
        if content == FrozenFrame::InMemory {
            bytes.copy_from_slice(&latch);
        }
        content
    }

    /// Notes that a block has the frozen content of this frame.
    pub(super) fn in_block(&self, frame: FrameNo) {
        let parity = self.parity();
        self.change_unlatched(frame, |now| now.in_block(parity));
    }

    /// Whether the checkpoint in progress still needs the frame's content as it is.
    pub(super) fn is_frozen(&self, frame: FrameNo) -> bool {
        self.state(frame).load(Relaxed).is_frozen(self.parity())
    }

    /// Unfreezes a frame that the checkpoint does not write, because it is beyond the new end of the file.
    pub(crate) fn thaw(&self, frame: FrameNo) {
        let parity = self.parity();
        self.change_unlatched(frame, |now| now.thawed(parity));
    }

    /// Makes a transition that is blocked only by a writer.
    fn change_unlatched(&self, frame: FrameNo, transition: impl Fn(Word) -> Option<Word>) {
        let state = self.state(frame);
        loop {
            let now = state.look();
            if transition(now).is_some_and(|next| state.replace_weak(now, next, Release)) {
                return;
            }
            yield_now();
        }
    }

    /// Takes the contents that writers saved before they changed a frozen frame.
    pub(super) fn take_preserved(&self) -> Contents {
        std::mem::take(&mut *self.preserved.lock().expect("no panic while held"))
    }

    /// Notes that blocks have all frozen frames.
    pub(super) fn all_in_blocks(&self) {
        self.frozen_count.store(0, Relaxed);
    }

    /// Whether all but a sixteenth of the resident frames are dirty or frozen, so that they cannot be evicted.
    pub(super) fn is_mostly_dirty(&self) -> bool {
        let resident = self.resident.load(Relaxed);
        self.dirtied.count.load(Relaxed) + self.frozen_count.load(Relaxed) > resident - resident / 16
    }

    /// Frees the memory of one clean frame that was not used since the last call. Never waits.
    pub(crate) fn evict(&self, frame: FrameNo) -> bool {
        let state = self.state(frame);
        let Some(latched) = self.latch_unused(state, Word::to_evict) else { return false };
        self.release_absent(frame, state, latched.evicted());
        true
    }

    /// Latches a frame that may lose its memory, unless it was used since the clock hand passed.
    fn latch_unused(&self, state: &FrameState, wanted: impl Fn(Word) -> Option<Unused>) -> Option<Word> {
        let now = state.look();
        match wanted(now)? {
            Unused::Latched(next) => state.replace(now, next, Acquire).then_some(next),
            Unused::Spared(next) => {
                let _ = state.replace(now, next, Relaxed);
                None
            }
        }
    }

    /// Frees the memory of a frame that is no longer in use, once no writer or eviction has it. If a reader has it, the
    /// memory stays, which is harmless: the next user of the frame writes it first.
    pub(crate) fn forget(&self, frame: FrameNo) {
        self.change_unlatched(frame, Word::without_writer);
        let state = self.state(frame);
        let now = state.look();
        let Some(next) = now.to_forget(self.parity()) else { return };
        if !state.replace(now, next, Acquire) {
            return;
        }
        if now.is_buffered() {
            self.release_buffer(frame, state, next.forgotten());
        } else {
            self.return_memory(frame..frame + 1);
            self.resident.fetch_sub(1, Relaxed);
            state.set_and_release(next.forgotten());
        }
    }
}

fn yield_now() {
    if !interleave::wait() {
        std::thread::yield_now();
    }
}

/// Waits for a latch: spins, then yields.
struct Spins<'a> {
    pool: &'a Pool,
    count: u32,
}

impl Spins<'_> {
    fn new(pool: &Pool) -> Spins<'_> {
        Spins { pool, count: 0 }
    }

    fn wait(&mut self) -> Result<()> {
        const SPIN: u32 = 64;
        const YIELD: u32 = 512;
        self.count += 1;
        if self.count == 1 {
            self.pool.latch_waits.fetch_add(1, Relaxed);
        }
        if self.count == SPIN {
            refuse_to_wait_with_values()?;
        }
        if interleave::wait() {
            return Ok(());
        }
        match self.count {
            0..SPIN => std::hint::spin_loop(),
            SPIN..YIELD => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
        Ok(())
    }
}

/// A frame latched for reading.
pub(crate) struct ReadGuard<'a> {
    state: &'a FrameState,
    address: *mut u8,
    bytes: usize,
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `address` is the start of a frame of `bytes` bytes. The frame lives as long as the pool, which the
        // borrowed state word keeps alive; while the shared latch is held no thread writes to it.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.state.release_shared();
    }
}

/// A frame, and its version when it was latched for reading.
#[derive(Clone, Copy)]
pub(crate) struct FrameSeen<'a> {
    state: &'a FrameState,
    version: u32,
}

impl<'a> ReadGuard<'a> {
    /// The frame as it is now, to be compared under a later latch.
    #[inline]
    pub(crate) fn seen(&self) -> FrameSeen<'a> {
        FrameSeen { state: self.state, version: self.state.load(Relaxed).version() }
    }
}

/// A frame latched for changing.
pub(crate) struct WriteGuard<'a> {
    state: &'a FrameState,
    address: *mut u8,
    bytes: usize,
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: as in ReadGuard; the exclusive latch keeps all other threads out.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }
}

impl WriteGuard<'_> {
    /// The bytes of `range`, for changing. Its ends are multiples of 8.
    #[inline]
    pub(crate) fn part(&mut self, range: Range<usize>) -> FrameBytes<'_> {
        assert!(
            range.start <= range.end
                && range.end <= self.bytes
                && range.start.is_multiple_of(8)
                && range.end.is_multiple_of(8)
        );
        // SAFETY: the range is in the frame (asserted), which lives as long as the pool; the exclusive latch keeps all
        // other threads out except optimistic readers, which use atomic loads; `&mut self` makes this the only borrowed
        // part of the frame.
        unsafe { FrameBytes::new(self.address.add(range.start), range.end - range.start) }
    }

    /// The whole frame, for changing.
    #[inline]
    pub(crate) fn whole(&mut self) -> FrameBytes<'_> {
        self.part(0..self.bytes)
    }
}

impl Drop for WriteGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.state.release_exclusive();
    }
}

/// The addresses of a frame and its state, computed once for a prefetch and the read after it.
#[derive(Clone, Copy)]
pub(crate) struct FrameRef<'a> {
    state: &'a FrameState,
    address: *mut u8,
    bytes: usize,
}

impl<'a> FrameRef<'a> {
    /// Whether any thread currently holds a latch of the frame.
    #[inline]
    pub(crate) fn is_latched(self) -> bool {
        self.state.load(Relaxed).is_latched()
    }
}
