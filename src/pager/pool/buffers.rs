//! Buffers: memory that is reused for one frame after another, in a table that is larger than its cache.
//!
//! At its own address a frame costs a page fault when it is loaded, and a share of a system call when its memory is
//! returned to the kernel. Together these cost as much as the read itself (docs/architecture.md, "Frames and pages").
//! So once the table has outgrown the cache, frames are loaded into buffers, which keep their memory. A bit of the
//! frame's state says that its bytes are in a buffer, and an array next to the states says in which. There are as many
//! buffers as the cache has frames. If none is free, a frame is loaded to its own address.
//!
//! A frame in a buffer is accessed only under a latch, never optimistically: by the time a version is compared, the
//! buffer may have another frame's bytes. A frame enters and leaves its buffer under its exclusive latch.
#![expect(unsafe_code, reason = "buffers are memory reserved with mmap")]

use super::{FrameNo, FrameSource, FrameState, Mapping, Pool, SMALL_BYTES, Word, WriteGuard};
use crate::error::Result;
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The buffers of a pool.
pub(super) struct Buffers {
    memory: Mapping,
    count: u32,
    unused: Mutex<FreeBuffers>,
}

struct FreeBuffers {
    /// Buffers that frames have left. The last one is likely still in the processor's cache.
    left: Vec<u32>,
    /// No frame has used this buffer or any after it.
    next: u32,
}

impl Buffers {
    fn take(&self) -> Option<u32> {
        let mut unused = self.unused.lock().expect("no panic while held");
        unused.left.pop().or_else(|| {
            let next = unused.next;
            unused.next = (next + 1).min(self.count);
            (next < self.count).then_some(next)
        })
    }

    fn give(&self, buffer: u32) {
        self.unused.lock().expect("no panic while held").left.push(buffer);
    }
}

impl Pool {
    /// Makes all later loads use buffers, since a cache of `frames` frames has no room for the table. If no memory for
    /// the buffers can be reserved, frames stay at their addresses.
    pub(super) fn use_buffers(&self, frames: u64) {
        // While some frames are being evicted, more frames are resident than the cache allows.
        const BEYOND: u64 = 64;
        let count = frames.saturating_add(BEYOND).min(u32::MAX.into());
        let Ok(memory) = Mapping::new((count as usize) << self.frame_bits) else { return };
        memory.advise_huge_pages(SMALL_BYTES);
        let unused = Mutex::new(FreeBuffers { left: Vec::new(), next: 0 });
        let _ = self.buffers.set(Buffers { memory, count: count as u32, unused });
    }

    /// The number of the buffer of `frame`, meaningful if it is in one.
    fn buffer_of(&self, frame: FrameNo) -> &AtomicU32 {
        let buffers = self.slot(u64::from(frame) << self.frame_bits).buffers.load(Relaxed);
        // SAFETY: the slot of a reserved address has the address that the number of frame 0 would have, so this is the
        // number of `frame`, in a mapping that lives as long as the pool. Zero bytes are a valid AtomicU32.
        unsafe { &*buffers.wrapping_add(frame as usize) }
    }

    /// Whether the table is, or ever was, larger than its cache.
    pub(crate) fn has_buffers(&self) -> bool {
        self.buffers.get().is_some()
    }

    /// The address of the bytes of a latched frame whose state is `now`.
    #[inline]
    pub(super) fn bytes_of(&self, frame: FrameNo, now: Word) -> *mut u8 {
        if now.is_buffered() { self.buffer_address(frame) } else { self.frame(frame).address }
    }

    fn buffer_address(&self, frame: FrameNo) -> *mut u8 {
        let buffers = self.buffers.get().expect("a frame is in a buffer");
        let buffer = self.buffer_of(frame).load(Relaxed);
        assert!(buffer < buffers.count);
        // SAFETY: the mapping has `count` buffers of one frame each, and lives as long as the pool.
        unsafe { buffers.memory.start.add((buffer as usize) << self.frame_bits) }
    }

    /// Puts a frame that is not resident into a buffer, if one is free; its bytes are then unspecified. `latch` is its
    /// exclusive latch. A frame that still has its own memory keeps using that.
    #[inline]
    pub(super) fn move_to_buffer(&self, frame: FrameNo, latch: &mut WriteGuard<'_>) -> bool {
        self.buffers.get().is_some_and(|buffers| self.move_to_one_of(buffers, frame, latch))
    }

    #[cold]
    fn move_to_one_of(&self, buffers: &Buffers, frame: FrameNo, latch: &mut WriteGuard<'_>) -> bool {
        let Some(next) = latch.state.load(Relaxed).to_buffer() else { return false };
        let Some(buffer) = buffers.take() else { return false };
        self.buffer_of(frame).store(buffer, Relaxed);
        latch.state.set_latched(next);
        latch.address = self.buffer_address(frame);
        true
    }

    /// Loads a frame that has just been put into a buffer. After an error it is in no buffer.
    #[cold]
    pub(super) fn load_to_buffer(
        &self,
        frame: FrameNo,
        latch: &mut WriteGuard<'_>,
        source: &impl FrameSource,
    ) -> Result<()> {
        // SAFETY: the buffer has `frame_bytes` bytes and belongs to this frame alone, whose exclusive latch is held; no
        // thread reads a buffer without the latch.
        let bytes = unsafe { slice::from_raw_parts_mut(latch.address, self.frame_bytes) };
        match source.load(frame, bytes) {
            Ok(true) => return Ok(()),
            Ok(false) => bytes.fill(0),
            Err(e) => {
                latch.address = self.frame(frame).address;
                latch.state.set_latched(latch.state.load(Relaxed).not_buffered());
                let buffers = self.buffers.get().expect("a frame was in a buffer");
                buffers.give(self.buffer_of(frame).load(Relaxed));
                return Err(e);
            }
        }
        Ok(())
    }

    /// Frees the memory of a frame whose exclusive latch is held, and releases the latch by setting `absent`.
    pub(super) fn release_absent(&self, frame: FrameNo, state: &FrameState, absent: Word) {
        self.evictions.fetch_add(1, Relaxed);
        if state.load(Relaxed).is_buffered() {
            self.release_buffer(frame, state, absent);
            return;
        }
        state.set_and_release(absent);
        self.return_later(frame);
    }

    /// Frees the buffer of a frame whose exclusive latch is held, and releases the latch by setting `absent`.
    pub(super) fn release_buffer(&self, frame: FrameNo, state: &FrameState, absent: Word) {
        let buffers = self.buffers.get().expect("a frame is in a buffer");
        // Read while the latch is held: afterwards the frame may be in another buffer.
        let buffer = self.buffer_of(frame).load(Relaxed);
        state.set_and_release(absent);
        self.resident.fetch_sub(1, Relaxed);
        buffers.give(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::pager::pool::words::Bytes;
    use std::collections::HashMap;

    const FRAMES: u32 = 300; // more than a segment has in tests

    /// Frames have what was written last, or initially their number in each byte.
    struct Written(HashMap<FrameNo, u8>);

    impl FrameSource for Written {
        fn load(&self, frame: FrameNo, bytes: &mut [u8]) -> Result<bool> {
            bytes.fill(self.0.get(&frame).copied().unwrap_or(frame as u8));
            Ok(self.0.get(&frame) != Some(&0))
        }

        fn made_resident(&self) {}
    }

    fn pool() -> Pool {
        let pool = Pool::new(4096, false).unwrap();
        pool.reserve(FRAMES.into()).unwrap();
        pool
    }

    fn evict(pool: &Pool, frame: FrameNo) -> bool {
        pool.evict(frame) || pool.evict(frame)
    }

    fn is_buffered(pool: &Pool, frame: FrameNo) -> bool {
        pool.state(frame).load(Relaxed).is_buffered()
    }

    #[test]
    fn frames_in_buffers_and_at_their_addresses_have_their_bytes() {
        let (pool, mut source) = (pool(), Written(HashMap::new()));
        let mut state = 3u64;
        let mut up_to = |greatest: u32| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as u32 % (greatest + 1)
        };
        let (mut in_buffers, mut at_addresses) = (0, 0);
        for step in 0..20_000 {
            if step == 1000 {
                pool.use_buffers(36); // so there are 100
            }
            let frame = up_to(FRAMES - 1);
            let resident = pool.is_resident(frame);
            match up_to(9) {
                0 => pool.write_fresh(frame, &source).unwrap().whole().fill(0..4096, 7),
                1..4 => pool.write(frame, pool.frame(frame), &source).unwrap().whole().fill(0..4096, step as u8),
                4 => drop(pool.try_write(frame, &source).unwrap().unwrap()),
                _ => {
                    let expected = source.0.get(&frame).copied().unwrap_or(frame as u8);
                    let found = pool.read(frame, pool.frame(frame), &source).unwrap();
                    assert!(found.iter().all(|&byte| byte == expected), "step {step}, frame {frame}: {}", found[0]);
                }
            }
            // The content from here on, whether it was written or not.
            let now = pool.read(frame, pool.frame(frame), &source).unwrap()[0];
            source.0.insert(frame, now);
            if !resident && step >= 1000 {
                *if is_buffered(&pool, frame) { &mut in_buffers } else { &mut at_addresses } += 1;
            }
            let limit = if step < 10_000 { 90 } else { 150 };
            while pool.resident.load(Relaxed) > limit {
                let old = up_to(FRAMES - 1);
                if up_to(20) == 0 && pool.is_resident(old) {
                    pool.forget(old);
                } else {
                    evict(&pool, old);
                }
            }
        }
        assert!(in_buffers > 5000 && at_addresses > 1000, "{in_buffers}, {at_addresses}");
        let buffered = (0..FRAMES).filter(|&frame| is_buffered(&pool, frame)).count();
        assert!(buffered > 90, "{buffered}");
        (0..FRAMES).for_each(|frame| {
            evict(&pool, frame);
        });
        let unused = pool.buffers.get().unwrap().unused.lock().unwrap();
        let mut left = unused.left.clone();
        left.sort_unstable();
        assert_eq!(left, (0..100).collect::<Vec<_>>(), "each buffer is free, once");
    }

    #[test]
    fn a_frame_in_a_buffer_is_read_under_its_latch_alone() {
        let (pool, source) = (pool(), Written(HashMap::new()));
        let peek = |frame| pool.frame(frame).read_optimistically().is_some();
        drop(pool.read(5, pool.frame(5), &source).unwrap());
        assert!(peek(5));
        pool.use_buffers(36);
        drop(pool.read(6, pool.frame(6), &source).unwrap());
        assert!(peek(5) && !peek(6) && is_buffered(&pool, 6));
        // A read that began at the frame's address is discarded once the frame has been in a buffer.
        let begun = pool.frame(5).read_optimistically().unwrap();
        assert!(evict(&pool, 5));
        (0..FRAMES).filter(|&frame| frame != 5).for_each(|frame| {
            drop(pool.read(frame, pool.frame(frame), &source).unwrap());
            evict(&pool, frame);
        });
        drop(pool.read(5, pool.frame(5), &source).unwrap());
        assert!(!begun.unchanged());
    }

    #[test]
    fn a_frame_that_cannot_be_read_is_in_no_buffer() {
        struct Failing;
        impl FrameSource for Failing {
            fn load(&self, _: FrameNo, bytes: &mut [u8]) -> Result<bool> {
                bytes.fill(0xEE);
                Err(Error::corrupt_table("a frame of a test"))
            }

            fn made_resident(&self) {}
        }
        let (pool, source) = (pool(), Written(HashMap::new()));
        pool.use_buffers(36);
        for round in 0..300 {
            let frame = round % 7;
            assert!(pool.read(frame, pool.frame(frame), &Failing).is_err());
            assert!(pool.write(frame, pool.frame(frame), &Failing).is_err());
            assert!(!is_buffered(&pool, frame) && !pool.is_resident(frame) && !pool.is_latched(frame));
        }
        let found = pool.read(5, pool.frame(5), &source).unwrap();
        assert!(found.iter().all(|&byte| byte == 5) && is_buffered(&pool, 5));
        let unused = pool.buffers.get().unwrap().unused.lock().unwrap();
        assert_eq!(u32::try_from(unused.left.len()).unwrap() + 1, unused.next, "all others are free");
    }
}
