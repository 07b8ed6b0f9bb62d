//! Freed holes that are kept for the next allocation of their length by the same thread.
//!
//! A hole that was just freed is likely still in the processor's cache. A thread that reallocates a hole that it freed
//! waits for no lock and writes no cache line that other threads write: the map frames still show kept holes as used.
//! Each thread has a slot; from the 17th thread on they share slots.
//!
//! A checkpoint, a verification and a compaction free the holes of all slots. A slot is locked while the lock of
//! [`Space`] is held, never the other way round.

use super::Allocator;
use crate::error::{ErrorKind, Result};
use crate::own_line::OwnLine;
use crate::pager::interleave;
use crate::pager::pool::thread_slot::slot_of_thread;
use crate::pager::space::{FRAME_UNITS, Space};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};
use std::sync::{Mutex, MutexGuard};

/// Each slot takes a pair of cache lines, in a table of any size.
const SLOT_COUNT: usize = 16;
/// The maximum number of holes of one length in a slot.
const HOLES_MAX: usize = 32;
/// All slots together keep up to a 16th of the file. A slot that was used before others may temporarily exceed its
/// share.
const FILE_PART: u64 = 16;

/// The kept holes of all threads.
#[derive(Default)]
pub(in crate::pager) struct Kept {
    slots: [OwnLine<Mutex<Slot>>; SLOT_COUNT],
    /// The number of slots that have ever had a hole.
    used_slots: AtomicU32,
    /// Set during a compaction: nothing is kept.
    refuses: AtomicBool,
}

/// `None` before the slot's first hole.
type Slot = Option<Box<Holes>>;

struct Holes {
    /// The first units of the holes, by length.
    by_length: [Vec<u64>; FRAME_UNITS as usize],
    /// The total of their units.
    units: u64,
}

impl Holes {
    fn new() -> Holes {
        Holes { by_length: std::array::from_fn(|_| Vec::new()), units: 0 }
    }

    fn take(&mut self, len: u32) -> Option<u64> {
        let unit = self.by_length[len as usize].pop()?;
        self.units -= u64::from(len);
        Some(unit)
    }

    fn put(&mut self, unit: u64, len: u32) {
        self.by_length[len as usize].push(unit);
        self.units += u64::from(len);
    }
}

impl Kept {
    fn slot(&self, thread: usize) -> MutexGuard<'_, Slot> {
        interleave::lock(&self.slots[thread % SLOT_COUNT])
    }

    /// A hole of `len` units that `thread` freed.
    #[inline]
    fn take(&self, thread: usize, len: u32) -> Option<u64> {
        self.slot(thread).as_mut()?.take(len)
    }

    /// Keeps a hole in a file of `frames` frames. Returns false if the slot is full or already has the hole.
    fn put(&self, thread: usize, unit: u64, len: u32, frames: u32) -> bool {
        let mut slot = self.slot(thread);
        // Under the lock, so that a slot stays empty once a compaction has emptied it.
        if self.refuses.load(Relaxed) {
            return false;
        }
        let holes = slot.get_or_insert_with(|| {
            self.used_slots.fetch_add(1, Relaxed);
            Box::new(Holes::new())
        });
        let file_units = u64::from(frames) * u64::from(FRAME_UNITS);
        let slots = u64::from(self.used_slots.load(Relaxed));
        let is_full = (holes.units + u64::from(len)) * slots > file_units / FILE_PART;
        let kept = &holes.by_length[len as usize];
        if is_full || kept.len() == HOLES_MAX || kept.contains(&unit) {
            return false;
        }
        holes.put(unit, len);
        true
    }

    /// Whether to refuse holes from now on.
    pub(super) fn refuse(&self, yes: bool) {
        self.refuses.store(yes, Relaxed);
    }

    fn sum(&self, of_holes: impl Fn(&Holes) -> u64) -> u64 {
        self.slots.iter().map(|slot| interleave::lock(slot).as_deref().map_or(0, &of_holes)).sum()
    }

    /// Units in kept holes.
    pub(super) fn units(&self) -> u64 {
        self.sum(|holes| holes.units)
    }
}

impl Allocator<'_> {
    /// Returns a kept hole of `len` units, fewer than a frame has.
    #[inline]
    pub(super) fn take_kept(self, len: u32) -> Option<u64> {
        self.kept.take(slot_of_thread(), len)
    }

    /// Keeps a freed hole for this thread's next allocation of its length. Returns false if it does not qualify.
    ///
    /// Whether the hole is marked as used is checked only when it is freed for other threads. In a damaged file, a page
    /// may refer to a hole that is marked as free. The allocator may have given such a hole to another page before this
    /// one is freed, so a check here could not prevent two pages from having it.
    pub(super) fn keep(self, unit: u64, len: u32) -> bool {
        let (units, frames) = (u64::from(FRAME_UNITS), self.frames.frame_count());
        // In a small file space matters more than time, and the whole file is in the cache anyway.
        const SMALL_FRAMES: u32 = if cfg!(test) { 8 } else { 256 };
        let (frame, start) = (unit / units, (unit % units) as u32);
        if frames < SMALL_FRAMES || frame >= u64::from(frames) || len >= FRAME_UNITS || start + len > FRAME_UNITS {
            return false;
        }
        self.kept.put(slot_of_thread(), unit, len, frames)
    }

    /// Marks the kept holes as free in the map frames: all of them if the caller keeps writers out.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; the remaining holes are still kept.
    pub(crate) fn free_kept(self) -> Result<()> {
        self.free_kept_in(&mut self.frames.space())
    }

    pub(super) fn free_kept_in(self, space: &mut Space) -> Result<()> {
        for slot in &self.kept.slots {
            let mut slot = interleave::lock(slot);
            let Some(holes) = slot.as_mut() else { continue };
            for len in 1..FRAME_UNITS {
                while let Some(unit) = holes.take(len) {
                    match self.free_in(space, unit, len) {
                        Ok(()) => {}
                        // The file is damaged; the space is lost.
                        Err(e) if e.kind() == ErrorKind::Corrupt => {}
                        Err(e) => {
                            holes.put(unit, len);
                            return Err(e);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// An upper bound of the map frames that change when kept holes are freed.
    pub(crate) fn maps_of_kept(self) -> u64 {
        self.kept.sum(|holes| holes.by_length.iter().map(|kept| kept.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Disk;
    use crate::pager::Pager;
    use crate::pager::pool::FrameNo;
    use std::sync::Arc;

    const FRAMES: u32 = 1000;

    /// Returns a file with all its frames in use, and the first unit of `frames` frames that are not map frames.
    fn full(frames: u32) -> (Pager, u64) {
        let pager = Pager::in_memory(4096, Arc::new(Disk)).unwrap();
        let unit = pager.allocate(frames * FRAME_UNITS).unwrap();
        (pager, unit)
    }

    #[test]
    fn a_hole_is_kept_for_the_thread_that_freed_it_and_given_out_once() {
        let kept = Kept::default();
        for (thread, unit) in [(0, 100), (1, 200), (1, 300)] {
            assert!(kept.put(thread, unit, 4, FRAMES));
            assert!(!kept.put(thread, unit, 4, FRAMES), "kept twice");
        }
        assert_eq!(kept.units(), 12);
        assert_eq!((kept.take(0, 5), kept.take(2, 4)), (None, None));
        assert_eq!((kept.take(0, 4), kept.take(0, 4)), (Some(100), None));
        // The last one first: it is the most likely to be in the cache.
        assert_eq!((kept.take(1, 4), kept.take(1, 4), kept.take(1, 4)), (Some(300), Some(200), None));
        assert_eq!(kept.units(), 0);
    }

    #[test]
    fn a_freed_hole_is_allocated_again_by_its_thread() {
        let (pager, unit) = full(100);
        pager.free(unit + 7, 5).unwrap();
        pager.free(unit + 90, 5).unwrap();
        let frame = (unit / u64::from(FRAME_UNITS)) as FrameNo;
        assert_eq!(
            (pager.allocator().used_bits(frame).unwrap(), pager.allocator().free_units().unwrap()),
            (u64::MAX, 10)
        );
        assert_eq!((pager.allocate(5).unwrap(), pager.allocate(5).unwrap()), (unit + 90, unit + 7));
    }

    #[test]
    fn the_holes_of_all_slots_are_freed() {
        let (pager, unit) = full(200);
        for thread in 0..SLOT_COUNT as u64 {
            assert!(pager.kept.put(thread as usize, unit + 3 * thread, 2, 200));
        }
        assert_eq!((pager.allocator().maps_of_kept(), pager.kept.units()), (SLOT_COUNT as u64, 2 * SLOT_COUNT as u64));
        pager.allocator().free_kept().unwrap();
        assert_eq!((pager.allocator().maps_of_kept(), pager.kept.units()), (0, 0));
        let frame = (unit / u64::from(FRAME_UNITS)) as FrameNo;
        assert_eq!(pager.allocator().used_bits(frame).unwrap().count_zeros(), 2 * SLOT_COUNT as u32);
    }

    #[test]
    fn slots_divide_what_may_be_kept() {
        let kept = Kept::default();
        let file_units = u64::from(FRAMES * FRAME_UNITS);
        let fill = |thread| {
            let before = kept.units();
            for len in 1..FRAME_UNITS {
                for number in 0..2 * HOLES_MAX as u64 {
                    kept.put(thread, number * u64::from(FRAME_UNITS), len, FRAMES);
                }
            }
            kept.units() - before
        };
        let parts: Vec<_> = (0..SLOT_COUNT).map(fill).collect();
        for (slots, part) in (1..).zip(parts) {
            let share = file_units / 16 / slots;
            assert!(part <= share && part > share * 9 / 10, "{part} units of {share}");
        }
    }

    #[test]
    fn nothing_is_kept_during_a_compaction() {
        let (pager, unit) = full(100);
        pager.free(unit + 7, 5).unwrap();
        let compacting = pager.allocator().begin_compaction();
        pager.allocator().begin_pass().unwrap();
        assert_eq!(pager.kept.units(), 0);
        pager.free(unit + 90, 5).unwrap();
        assert_eq!(pager.kept.units(), 0);
        drop(compacting);
        pager.free(unit + 7, 5).unwrap();
        assert_eq!(pager.kept.units(), 5);
    }

    #[test]
    fn a_hole_that_a_damaged_file_frees_twice_is_lost() {
        let (pager, unit) = full(100);
        pager.free(unit, FRAME_UNITS).unwrap();
        let free = pager.allocator().free_units().unwrap();
        pager.free(unit + 7, 5).unwrap();
        // Beyond the end of the file, and across the end of a frame.
        assert_eq!(pager.free(1 << 40, 5).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(pager.free(unit + 62, 5).unwrap_err().kind(), ErrorKind::Corrupt);
        pager.allocator().free_kept().unwrap();
        assert_eq!((pager.kept.units(), pager.allocator().free_units().unwrap()), (0, free));
    }

    #[test]
    fn threads_that_allocate_and_free_have_no_unit_in_common() {
        const THREADS: u64 = 4;
        let (pager, first) = full(100);
        let end = u64::from(pager.frame_count()) * u64::from(FRAME_UNITS);
        pager.free(first, 50 * FRAME_UNITS).unwrap();
        let free = pager.allocator().free_units().unwrap();
        let owned: Vec<_> = (0..2 * end).map(|_| AtomicBool::new(false)).collect();
        let mark = |unit: u64, len: u32, yes: bool| {
            for owned in &owned[unit as usize..][..len as usize] {
                assert_eq!(owned.swap(yes, Relaxed), !yes);
            }
        };
        let work = |mut state: u64| {
            let mut mine = Vec::new();
            for _ in 0..20_000 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if mine.len() < 20 {
                    let len = 1 + (state >> 33) as u32 % 20;
                    let unit = pager.allocate(len).unwrap();
                    mark(unit, len, true);
                    mine.push((unit, len));
                } else {
                    let (unit, len) = mine.swap_remove((state >> 33) as usize % mine.len());
                    mark(unit, len, false);
                    pager.free(unit, len).unwrap();
                }
            }
            for (unit, len) in mine {
                mark(unit, len, false);
                pager.free(unit, len).unwrap();
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS).map(|seed| scope.spawn(move || work(seed))).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                pager.allocator().free_kept().unwrap();
                std::thread::yield_now();
            }
        });
        let grown = u64::from(pager.frame_count()) * u64::from(FRAME_UNITS) - end;
        assert_eq!(pager.allocator().free_units().unwrap(), free + grown);
        pager.allocator().free_kept().unwrap();
        assert_eq!((pager.kept.units(), pager.allocator().free_units().unwrap()), (0, free + grown));
    }
}
