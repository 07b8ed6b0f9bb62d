//! Windows: ranges of frames whose memory is the file's own pages in the system's cache.
//!
//! ```text
//! open      shared with the file: a store to a frame is a store to the file; for values that are written through
//! sealed    private: still the file's pages, but not stored to; a window is sealed by the next checkpoint, which has
//!           its frames
//! owned     plain memory with the same bytes, in ranges of 2 MiB: made before the first change of any frame in one
//! ```
//!
//! So a value that is written through is copied once, and takes no memory except in the system's cache of the file,
//! where it would be anyway. The system may be unable to provide a page: a disk fails or is full, or another program
//! cut the file. Such a page reads as zeros from then on, and [`Pool::has_lost_pages`] returns true. Its callers check
//! that after each access to a value, and discard what they read. Frames of buckets are never in an open or sealed
//! window.
//!
//! The kernel would itself copy a sealed page at its first change, one page at a time. Copying a range at once takes a
//! sixth of that time per page if many pages change, and keeps large pages.
//!
//! Not here: which frames (`pager/space/`), and what is stored there (`pager/values/`).
#![expect(unsafe_code, reason = "files are mapped over memory of the pool")]

use super::ranges::Ranges;
use super::{FrameNo, LARGE_PAGE_BYTES, Mapping, Pool};
use crate::io::{File, Memory, MemoryGuard, Over, had_faults, page_bytes};
use std::ops::Range;
use std::sync::atomic::Ordering::*;

/// The maximum number of owned ranges: each is a separate mapping for the kernel, and a process may have 65,530.
const OWNED_MAX: usize = if cfg!(test) { 4 } else { 8192 };

/// The windows of a pool, and guards of the segments they are in.
#[derive(Default)]
pub(super) struct MappedWindows {
    open: Vec<Range<FrameNo>>,
    sealed: Ranges,
    /// The number of ranges that were replaced.
    owned: usize,
    /// Frames that were sealed and could not be replaced: the kernel copies each page at its first change.
    private: Ranges,
    /// By the first frame of the segment.
    guards: Vec<(FrameNo, Box<dyn MemoryGuard>)>,
}

impl MappedWindows {
    /// Whether the memory of a frame is the file's: returned to the kernel, it is not zero.
    pub(super) fn is_file_memory(&self, frame: FrameNo) -> bool {
        self.open.iter().any(|open| open.contains(&frame))
            || self.sealed.around(frame).is_some()
            || self.private.around(frame).is_some()
    }
}

impl Pool {
    /// Maps frames that were never used over the file, which has zeros there. Returns false if that is not possible;
    /// the frames are then plain memory.
    pub(in crate::pager) fn open_window(&self, frames: Range<FrameNo>, file: &dyn File) -> bool {
        if !self.frame_bytes.is_multiple_of(page_bytes()) {
            return false;
        }
        let mut windows = self.windows.lock().expect("no panic while held");
        for part in self.parts_in_segments(frames.clone()) {
            let segment = self.segment_around(part.start);
            if !windows.guards.iter().any(|&(guarded, _)| guarded == segment.start) {
                let first = segment.start;
                let Some(guard) = self.memory_of(&segment).guard() else { return false };
                windows.guards.push((first, guard));
            }
        }
        if !self.map_over(&frames, file, Over::Shared) {
            self.unmap(&frames);
            return false;
        }
        match windows.open.last_mut() {
            Some(last) if last.end == frames.start => last.end = frames.end,
            _ => windows.open.push(frames),
        }
        true
    }

    /// Makes memory of an open window ready for stores. Returns false if that is not possible: the disk is full or
    /// failing.
    pub(crate) fn populate(&self, frames: Range<FrameNo>) -> bool {
        self.parts_in_segments(frames).all(|part| {
            let (start, bytes) = (self.frame(part.start).address, part.len() << self.frame_bits);
            // SAFETY: memory of a segment; the advice changes no content.
            #[cfg(target_os = "linux")]
            return unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0;
            #[cfg(not(target_os = "linux"))]
            {
                let _ = (start, bytes);
                false
            }
        })
    }

    /// Seals all open windows. Returns false if the system refuses; some may then still be open. The caller keeps
    /// writers out.
    pub(in crate::pager) fn seal_windows(&self, file: &dyn File) -> bool {
        let mut windows = self.windows.lock().expect("no panic while held");
        while let Some(frames) = windows.open.pop() {
            if !self.map_over(&frames, file, Over::Private) {
                windows.open.push(frames);
                return false;
            }
            self.make_readable(frames.clone());
            windows.sealed.add(frames);
            self.has_sealed.store(true, Release);
        }
        true
    }

    /// Makes `frames` plain memory, whatever they contain. The caller keeps all other threads away from them. Returns
    /// false if the system refuses.
    pub(in crate::pager) fn unmap_windows(&self, frames: Range<FrameNo>) -> bool {
        let mut windows = self.windows.lock().expect("no panic while held");
        let in_window = windows.open.iter().any(|open| open.start < frames.end && frames.start < open.end)
            || windows.sealed.overlap(&frames)
            || windows.private.overlap(&frames);
        if !in_window {
            return true;
        }
        for open in &mut windows.open {
            // `frames` are at the end of the file.
            open.end = open.end.min(frames.start.max(open.start));
        }
        windows.open.retain(|open| !open.is_empty());
        windows.sealed.remove(&frames);
        windows.private.remove(&frames);
        self.unmap(&frames)
    }

    /// Makes the range around `frame` plain memory, if it is in a sealed window. Called before `frame` is changed. The
    /// caller holds its exclusive latch.
    #[inline]
    pub(super) fn own(&self, frame: FrameNo) {
        if self.has_sealed.load(Acquire) {
            self.own_in_window(frame);
        }
    }

    #[cold]
    fn own_in_window(&self, frame: FrameNo) {
        let mut windows = self.windows.lock().expect("no panic while held");
        let Some(sealed) = windows.sealed.around(frame) else { return };
        let count = (LARGE_PAGE_BYTES >> self.frame_bits) as FrameNo;
        let first = frame - frame % count;
        let range = first.max(sealed.start)..(first + count).min(sealed.end);
        let mut is_replaced = false;
        if windows.owned < OWNED_MAX {
            let (start, bytes) = (self.frame(range.start).address, range.len() << self.frame_bits);
            // SAFETY: memory of one segment, whose length is a multiple of such a range. Other threads may read it, and
            // see the same bytes; none stores there, since each would have to own it first, under this lock.
            is_replaced = unsafe { Mapping::replace_by_copy(start, bytes) };
        }
        windows.sealed.remove(&range);
        windows.owned += usize::from(is_replaced);
        if !is_replaced {
            windows.private.add(range);
        }
        self.has_sealed.store(!windows.sealed.is_empty(), Release);
    }

    /// Whether a page of a window could not be provided, so that data read from it or stored there is lost.
    #[inline]
    pub(in crate::pager) fn has_lost_pages(&self) -> bool {
        had_faults() && self.has_lost_pages_of_windows()
    }

    #[cold]
    fn has_lost_pages_of_windows(&self) -> bool {
        let windows = self.windows.lock().expect("no panic while held");
        windows.guards.iter().any(|(_, guard)| guard.failed())
    }

    /// The number of frames in open and in sealed windows.
    #[cfg(test)]
    pub(crate) fn frames_in_windows(&self) -> [usize; 2] {
        let windows = self.windows.lock().unwrap();
        [windows.open.iter().map(Range::len).sum(), windows.sealed.frame_count()]
    }

    fn map_over(&self, frames: &Range<FrameNo>, file: &dyn File, over: Over) -> bool {
        self.parts_in_segments(frames.clone()).all(|part| {
            let offset = u64::from(part.start) << self.frame_bits;
            file.map_over(self.memory_of(&part), offset, over)
        })
    }

    /// The memory of frames of one segment.
    fn memory_of(&self, frames: &Range<FrameNo>) -> Memory<'_> {
        let bytes = frames.len() << self.frame_bits;
        // SAFETY: it is memory of a segment, which lives as long as the pool and longer than its guards, which are
        // declared before the segments. Only new frames are mapped over as shared, and only frames whose memory is the
        // file's as private. Users of values check for lost pages.
        unsafe { Memory::new(self.frame(frames.start).address, bytes) }
    }

    /// Makes frames plain memory, filled with zeros.
    fn unmap(&self, frames: &Range<FrameNo>) -> bool {
        self.parts_in_segments(frames.clone()).all(|part| {
            let (start, bytes) = (self.frame(part.start).address, part.len() << self.frame_bits);
            // SAFETY: memory of a segment, whose content is no longer needed, by the callers' contracts.
            unsafe { Mapping::renew(start, bytes) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::io::{Disk, Mode, Storage};
    use crate::pager::pool::FrameSource;
    use crate::pager::pool::words::Bytes;

    /// All frames are zero until they are written.
    struct Zeros;

    impl FrameSource for Zeros {
        fn load(&self, _: FrameNo, _: &mut [u8]) -> Result<bool> {
            Ok(false)
        }

        fn made_resident(&self) {}
    }

    /// Once a window is sealed, a change of one frame copies the others, too: their memory is then not zero.
    #[test]
    fn frames_that_left_memory_in_an_open_window_never_count_as_zero() {
        const FRAMES: FrameNo = 256;
        let directory = tempfile::tempdir().unwrap();
        let file = Disk.open(&directory.path().join("file"), Mode::New).unwrap();
        file.set_len(u64::from(FRAMES) * 4096).unwrap();
        let pool = Pool::new(4096, false).unwrap();
        pool.reserve(u64::from(FRAMES)).unwrap();
        if !pool.open_window(0..FRAMES, file.as_ref()) {
            return println!("SKIPPED: no windows here");
        }
        for frame in 0..FRAMES {
            pool.write_through(frame, true, &Zeros).unwrap().whole().fill(0..4096, 0xEE);
            pool.latch_to_spill(frame); // used until now
            pool.discard_spilled(frame, pool.latch_to_spill(frame).unwrap(), false);
        }
        assert_eq!(pool.resident.load(Relaxed), 0);
        assert!((0..FRAMES).all(|frame| pool.state(frame).load(Relaxed).has_old_memory()));
        // Bytes of the memory itself: a frame that is not resident.
        let memory = |frame| pool.frame(frame).address;
        assert!(pool.seal_windows(file.as_ref()));
        pool.own(0);
        // SAFETY: memory of a frame, which nothing else uses in this test.
        assert_eq!(unsafe { memory(FRAMES - 1).read() }, 0xEE);
    }
}
