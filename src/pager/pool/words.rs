//! Changes bytes that other threads may be reading.
//!
//! An optimistic read takes no latch and checks afterwards that the page is unchanged (`mod.rs`). It discards what it
//! read during a write, but it did read it, so the stores here must be those of `racing.rs`.
//!
//! Code that changes pages uses [`Bytes`]. It has two implementations: memory of a frame ([`FrameBytes`]), and a plain
//! vector, the safe twin that tests compare it with.
#![expect(unsafe_code, reason = "frames are changed while others read them")]

use crate::pager::interleave::{self, step};
use crate::racing;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// Bytes that can be read as a slice and changed as a whole or in part.
pub(crate) trait Bytes: Deref<Target = [u8]> {
    /// Replaces the bytes from `at` on.
    fn store(&mut self, at: usize, bytes: &[u8]);
    /// Copies `from` to `to`; the two may overlap.
    fn copy_within(&mut self, from: Range<usize>, to: usize);
    /// Sets all bytes of `range` to `byte`.
    fn fill(&mut self, range: Range<usize>, byte: u8);
    /// Replaces the eight bytes from `at` on, a multiple of 8: the fast case of [`store`](Self::store).
    fn store_word(&mut self, at: usize, bytes: [u8; WORD]);
    /// Replaces the four bytes from `at` on.
    fn store_half_word(&mut self, at: usize, bytes: [u8; WORD / 2]);
    /// Replaces the byte at `at`.
    fn store_byte(&mut self, at: usize, byte: u8);
    /// Replaces the bytes from `at` on with `head`, little-endian, `key` and `value`.
    fn store_record(&mut self, at: usize, head: u16, key: &[u8], value: &[u8]) {
        self.store(at, &head.to_le_bytes());
        self.store(at + 2, key);
        self.store(at + 2 + key.len(), value);
    }
    /// Adds `n` to each four-byte number in `range`, whose length is a multiple of 4; little-endian, wrapping.
    fn add_to_half_words(&mut self, range: Range<usize>, n: u32);
    /// Replaces each four-byte number in `range` with the next one plus `n`; the last one's value is unspecified.
    fn shift_half_words(&mut self, range: Range<usize>, n: u32);
}

impl Bytes for Vec<u8> {
    #[inline]
    fn store(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    fn copy_within(&mut self, from: Range<usize>, to: usize) {
        self[..].copy_within(from, to);
    }

    fn fill(&mut self, range: Range<usize>, byte: u8) {
        self[range].fill(byte);
    }

    fn store_word(&mut self, at: usize, bytes: [u8; WORD]) {
        self.store(at, &bytes);
    }

    fn store_half_word(&mut self, at: usize, bytes: [u8; WORD / 2]) {
        self.store(at, &bytes);
    }

    fn store_byte(&mut self, at: usize, byte: u8) {
        self[at] = byte;
    }

    fn add_to_half_words(&mut self, range: Range<usize>, n: u32) {
        for half in self[range].as_chunks_mut::<{ WORD / 2 }>().0 {
            *half = u32::from_le_bytes(*half).wrapping_add(n).to_le_bytes();
        }
    }

    fn shift_half_words(&mut self, range: Range<usize>, n: u32) {
        if range.is_empty() {
            return;
        }
        self[..].copy_within(range.start + WORD / 2..range.end, range.start);
        self.add_to_half_words(range.start..range.end - WORD / 2, n);
    }
}

/// A part of a frame whose exclusive latch is held.
pub(crate) struct FrameBytes<'a> {
    start: *mut u8,
    len: usize,
    latch: PhantomData<&'a mut ()>,
}

const WORD: usize = size_of::<u64>();
/// Bytes of a slot, taken as one number.
const HALF: usize = WORD / 2;

impl FrameBytes<'_> {
    /// The sixteen bytes from `at` on, as a number.
    ///
    /// # Safety
    /// The sixteen bytes are within the part.
    #[inline(always)]
    unsafe fn four_at(&self, at: usize) -> u128 {
        // SAFETY: within the part, as the caller promises; no other thread changes it.
        u128::from_le(unsafe { self.start.add(at).cast::<u128>().read_unaligned() })
    }

    /// Replaces each four-byte number from `at` up to `end` with the one that begins `FROM` bytes after it, plus `n`.
    /// Each step loads before it stores, and stores below where later steps load. Returns where the remaining numbers,
    /// fewer than four, begin.
    ///
    /// # Safety
    /// `at..end + FROM` is within the part.
    #[inline(always)]
    unsafe fn add_to_fours<const FROM: usize>(&mut self, mut at: usize, end: usize, n: u32) -> usize {
        step();
        while at + 64 <= end {
            // SAFETY: within the part, as the caller promises.
            let sums = [0, 16, 32, 48].map(|part| racing::add_to_each(unsafe { self.four_at(at + FROM + part) }, n));
            // SAFETY: as above; its exclusive latch is held, by the contract of `new`.
            unsafe { racing::store64(self.start.add(at), sums) };
            at += 64;
        }
        while at + 16 <= end {
            // SAFETY: as above.
            unsafe { racing::store16(self.start.add(at), racing::add_to_each(self.four_at(at + FROM), n)) };
            at += 16;
        }
        at
    }

    /// Replaces each four-byte number from `at` up to `end` with the one that begins `from` bytes after it, plus `n`.
    #[inline(always)]
    fn add_one_by_one(&mut self, at: usize, end: usize, from: usize, n: u32) {
        for at in (at..end).step_by(HALF) {
            let half = u32::from_le_bytes(self[at + from..at + from + HALF].try_into().expect("four bytes"));
            self.store_half_word(at, half.wrapping_add(n).to_le_bytes());
        }
    }

    /// Reborrows the same bytes.
    #[inline(always)]
    pub(crate) fn whole(&mut self) -> FrameBytes<'_> {
        FrameBytes { start: self.start, len: self.len, latch: PhantomData }
    }

    /// # Safety
    /// `start` is aligned to 8 and is the start of `len` bytes of memory, a multiple of 8, that live for `'a`. During
    /// `'a` no other code writes them, and other code reads them only as `racing.rs` does.
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        debug_assert!(start.addr().is_multiple_of(WORD) && len.is_multiple_of(WORD));
        FrameBytes { start, len, latch: PhantomData }
    }
}

impl Deref for FrameBytes<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: by the contract of `new` the memory is live and no other code writes it; this view ends before
        // `self` is used to write again, as that takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Bytes for FrameBytes<'_> {
    #[inline(always)]
    fn store(&mut self, at: usize, bytes: &[u8]) {
        assert!(bytes.len() <= self.len && at <= self.len - bytes.len());
        step();
        if interleave::task().is_some() && bytes.len() > WORD {
            // If the order of steps is explored, readers may see the first part without the second.
            let (first, second) = bytes.split_at(WORD);
            // SAFETY: within the part (asserted), whose exclusive latch is held, by the contract of `new`.
            unsafe { racing::copy_in(first, self.start.add(at)) };
            step();
            // SAFETY: as above.
            unsafe { racing::copy_in(second, self.start.add(at + WORD)) };
            return;
        }
        // SAFETY: as above.
        unsafe { racing::copy_in(bytes, self.start.add(at)) };
    }

    #[inline(always)]
    fn copy_within(&mut self, from: Range<usize>, to: usize) {
        assert!(from.start <= from.end && from.end <= self.len);
        let len = from.end - from.start;
        assert!(to <= self.len - len);
        step();
        // SAFETY: both ranges are within the part (asserted), whose exclusive latch is held, by the contract of `new`.
        unsafe { racing::move_within(self.start.add(from.start), self.start.add(to), len) };
        step();
    }

    #[inline(always)]
    fn store_word(&mut self, at: usize, bytes: [u8; WORD]) {
        assert!(self.len >= WORD && at <= self.len - WORD);
        step();
        // SAFETY: within the part (asserted), whose exclusive latch is held, by the contract of `new`.
        unsafe { racing::store8(self.start.add(at), u64::from_le_bytes(bytes)) };
    }

    #[inline(always)]
    fn store_half_word(&mut self, at: usize, bytes: [u8; WORD / 2]) {
        assert!(self.len >= WORD / 2 && at <= self.len - WORD / 2);
        step();
        // SAFETY: within the part (asserted), whose exclusive latch is held, by the contract of `new`.
        unsafe { racing::store4(self.start.add(at), u32::from_le_bytes(bytes)) };
    }

    #[inline(always)]
    fn store_record(&mut self, at: usize, head: u16, key: &[u8], value: &[u8]) {
        let bytes = size_of::<u16>() + key.len() + value.len();
        assert!(bytes <= self.len && at <= self.len - bytes);
        step();
        // SAFETY: within the part (asserted), whose exclusive latch is held, by the contract of `new`; here and below.
        unsafe { racing::store2(self.start.add(at), head) };
        // SAFETY: as above.
        unsafe { racing::copy_in(key, self.start.add(at + 2)) };
        step();
        // SAFETY: as above.
        unsafe { racing::copy_in(value, self.start.add(at + 2 + key.len())) };
    }

    #[inline(always)]
    fn store_byte(&mut self, at: usize, byte: u8) {
        assert!(at < self.len);
        step();
        // SAFETY: within the part (asserted), whose exclusive latch is held, by the contract of `new`.
        unsafe { racing::store1(self.start.add(at), byte) };
    }

    #[inline(always)]
    fn add_to_half_words(&mut self, range: Range<usize>, n: u32) {
        assert!(range.start <= range.end && range.end <= self.len);
        let len = range.end - range.start;
        assert!(len.is_multiple_of(HALF));
        let odd = len % 16;
        let fours = range.start + odd;
        if odd > 0 {
            step();
            if fours >= 16 {
                // Together with the numbers before them, which keep their values.
                // SAFETY: within the part (asserted and compared), whose exclusive latch is held.
                unsafe {
                    let sums = racing::add_to_last(self.four_at(fours - 16), n, odd / HALF);
                    racing::store16(self.start.add(fours - 16), sums);
                }
            } else {
                self.add_one_by_one(range.start, fours, 0, n);
            }
        }
        // SAFETY: within the part (asserted).
        unsafe { self.add_to_fours::<0>(fours, range.end, n) };
    }

    #[inline]
    fn shift_half_words(&mut self, range: Range<usize>, n: u32) {
        assert!(range.start <= range.end && range.end <= self.len && range.len().is_multiple_of(HALF));
        let end = range.end.saturating_sub(HALF);
        // SAFETY: within the part (asserted).
        let at = unsafe { self.add_to_fours::<HALF>(range.start, end, n) };
        self.add_one_by_one(at, end, HALF, n);
    }

    fn fill(&mut self, range: Range<usize>, byte: u8) {
        const CHUNK: usize = 512;
        let chunk = [byte; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let len = CHUNK.min(range.end - at);
            self.store(at, &chunk[..len]);
            at += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frame_bytes_do_what_a_vector_does(
            ops in proptest::collection::vec((0..4u8, 0..256usize, 0..256usize, 0..256usize, any::<u8>()), 1..50),
        ) {
            let mut plain: Vec<u8> = (0..=255).collect();
            let mut words = [0u64; 32];
            // SAFETY: `words` is aligned, has 256 bytes, and is accessed only through `frame` while that lives.
            let mut frame = unsafe { FrameBytes::new(words.as_mut_ptr().cast(), 256) };
            frame.store(0, &plain.clone());
            for (op, a, b, c, byte) in ops {
                let range = a.min(b)..a.max(b);
                match op {
                    0 => {
                        let bytes: Vec<u8> = range.clone().map(|i| (i as u8) ^ byte).collect();
                        plain.store(range.start, &bytes);
                        frame.store(range.start, &bytes);
                    }
                    1 => {
                        let to = c.min(256 - range.len());
                        Bytes::copy_within(&mut plain, range.clone(), to);
                        frame.copy_within(range, to);
                    }
                    2 if a < 128 => {
                        let range = range.start..range.start + range.len() / 4 * 4;
                        let n = u32::from_le_bytes([byte, a as u8, b as u8, c as u8]);
                        plain.add_to_half_words(range.clone(), n);
                        frame.add_to_half_words(range.clone(), n);
                        plain.shift_half_words(range.clone(), n);
                        frame.shift_half_words(range.clone(), n);
                        if let Some(last) = range.end.checked_sub(4).filter(|_| !range.is_empty()) {
                            plain.store_half_word(last, [byte; 4]);
                            frame.store_half_word(last, [byte; 4]);
                        }
                    }
                    2 => {
                        let at = a / 8 * 8;
                        plain.store_word(at, [byte; 8]);
                        frame.store_word(at, [byte; 8]);
                        plain.store_half_word(b.min(252), [byte; 4]);
                        frame.store_half_word(b.min(252), [byte; 4]);
                        plain.store_byte(c, byte);
                        frame.store_byte(c, byte);
                    }
                    3 if a < 128 => {
                        let (key, value) = (vec![byte; b % 40], vec![!byte; c % 80]);
                        plain.store_record(a, u16::from(byte) << 3, &key, &value);
                        frame.store_record(a, u16::from(byte) << 3, &key, &value);
                    }
                    _ => {
                        Bytes::fill(&mut plain, range.clone(), byte);
                        frame.fill(range, byte);
                    }
                }
                prop_assert_eq!(&frame[..], &plain[..]);
            }
        }
    }
}
