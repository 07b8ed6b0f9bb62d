//! Changes bytes that other threads may be reading: word by word, atomically.
//!
//! An optimistic read takes no latch and checks afterwards that the page is unchanged (`pool.rs`). It discards what it
//! read beside a write, but it did read: in Rust's memory model that is only sound if both sides use atomic accesses.
//! So the words of a frame are changed by relaxed atomic stores, which cost what plain ones do but are not vectorized,
//! and read optimistically by relaxed atomic loads.
//!
//! Code that changes pages uses [`Bytes`]. It has two implementations: memory of a frame ([`FrameBytes`]), and a plain
//! vector, the safe twin that tests compare it with.
#![expect(unsafe_code, reason = "frames are changed through atomic views of their words")]

use super::interleave::step;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes to read as a slice and to change as a whole or in part.
pub(crate) trait Bytes: Deref<Target = [u8]> {
    /// Replaces the bytes from `at` on.
    fn store(&mut self, at: usize, bytes: &[u8]);
    /// Copies `from` to `to`; the two may overlap.
    fn copy_within(&mut self, from: Range<usize>, to: usize);
    /// Sets all bytes of `range` to `byte`.
    fn fill(&mut self, range: Range<usize>, byte: u8);
    /// Replaces the eight bytes from `at` on, a multiple of 8: the fast case of [`store`](Self::store).
    fn store_word(&mut self, at: usize, bytes: [u8; WORD]);
    /// Replaces each word of `range`, whose ends are multiples of 8, by `map` of it; little-endian.
    fn map_words(&mut self, range: Range<usize>, map: impl Fn(u64) -> u64);
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

    fn map_words(&mut self, range: Range<usize>, map: impl Fn(u64) -> u64) {
        for word in self[range].as_chunks_mut::<WORD>().0 {
            *word = map(u64::from_le_bytes(*word)).to_le_bytes();
        }
    }
}

/// A part of a frame whose exclusive latch is held.
pub(crate) struct FrameBytes<'a> {
    start: *mut u8,
    len: usize,
    latch: PhantomData<&'a mut ()>,
}

const WORD: usize = size_of::<u64>();

impl FrameBytes<'_> {
    /// # Safety
    /// `start` is aligned to 8 and the start of `len` bytes of memory, `len` a multiple of 8, that live for `'a`, that
    /// no other code writes during `'a`, and that other code reads only by atomic loads.
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        debug_assert!(start.addr().is_multiple_of(WORD) && len.is_multiple_of(WORD));
        FrameBytes { start, len, latch: PhantomData }
    }

    #[inline]
    fn words(&self, range: Range<usize>) -> &[AtomicU64] {
        assert!(range.start <= range.end && range.end <= self.len / WORD);
        // SAFETY: by the contract of `new`, the words are within live, aligned memory; all concurrent accesses to them
        // are atomic.
        unsafe { std::slice::from_raw_parts(self.start.cast::<AtomicU64>().add(range.start), range.end - range.start) }
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words(index..index + 1)[0]
    }

    /// Replaces the bytes of a word for which `mask` is set.
    #[inline]
    fn merge(&mut self, index: usize, value: u64, mask: u64) {
        let word = self.word(index);
        word.store((u64::from_le(word.load(Relaxed)) & !mask | value & mask).to_le(), Relaxed);
    }

    /// Replaces up to 7 bytes within one word.
    #[inline]
    fn store_in_word(&mut self, at: usize, bytes: &[u8]) {
        let (mut value, mut mask) = (0, 0);
        for &byte in bytes.iter().rev() {
            value = value << 8 | u64::from(byte);
            mask = mask << 8 | 0xFF;
        }
        let shift = 8 * (at % WORD) as u32;
        self.merge(at / WORD, value << shift, mask << shift);
    }

    #[inline]
    fn bytes_at(&self, at: usize, len: usize) -> ([u8; WORD], usize) {
        let mut bytes = [0; WORD];
        bytes[..len].copy_from_slice(&self[at..at + len]);
        (bytes, len)
    }
}

#[expect(clippy::host_endian_bytes, reason = "a word in memory is the machine's, whatever the file's byte order")]
#[inline]
pub(super) fn word_bytes(word: u64) -> [u8; WORD] {
    word.to_ne_bytes()
}

#[expect(clippy::host_endian_bytes, reason = "as word_bytes")]
#[inline]
fn word_of(bytes: [u8; WORD]) -> u64 {
    u64::from_ne_bytes(bytes)
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
    #[inline]
    fn store(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len);
        step();
        let Some(first) = bytes.first_chunk::<WORD>() else {
            // Less than a word: within one word, or across two.
            let (head, tail) = bytes.split_at(bytes.len().min(at.wrapping_neg() % WORD));
            for (at, part) in [(at, head), (at + head.len(), tail)] {
                if !part.is_empty() {
                    self.store_in_word(at, part);
                }
            }
            return;
        };
        // A word or more: the ends are written as the first and the last eight bytes, shifted.
        let head = at.wrapping_neg() % WORD;
        if head > 0 {
            let shift = 8 * (WORD - head) as u32;
            self.merge(at / WORD, u64::from_le_bytes(*first) << shift, u64::MAX << shift);
        }
        let (words, tail) = bytes[head..].as_chunks::<WORD>();
        let index = (at + head) / WORD;
        step(); // between the first word and the last
        for (shared, word) in self.words(index..index + words.len()).iter().zip(words) {
            shared.store(word_of(*word), Relaxed);
        }
        if let (1.., Some(last)) = (tail.len(), bytes.last_chunk::<WORD>()) {
            let shift = 8 * (WORD - tail.len()) as u32;
            self.merge(index + words.len(), u64::from_le_bytes(*last) >> shift, u64::MAX >> shift);
        }
    }

    #[inline]
    fn copy_within(&mut self, from: Range<usize>, to: usize) {
        let len = from.end - from.start;
        assert!(from.end <= self.len && to + len <= self.len);
        let head = len.min(to.wrapping_neg() % WORD);
        let middle = (len - head) / WORD;
        let tail = len - head - middle * WORD;
        let tail_at = head + middle * WORD;
        step();
        // Each step reads before it writes, and the order overwrites no byte that is still to be read.
        if to < from.start {
            self.copy_part(from.start, to, head);
            step();
            // SAFETY: words 0 to `middle` of both lie in the part (asserted), and `to + head` is a multiple of 8.
            (0..middle).for_each(|i| unsafe { self.copy_word(from.start + head + i * WORD, to + head + i * WORD) });
            self.copy_part(from.start + tail_at, to + tail_at, tail);
        } else {
            self.copy_part(from.start + tail_at, to + tail_at, tail);
            step();
            // SAFETY: as in the other direction.
            (0..middle)
                .rev()
                .for_each(|i| unsafe { self.copy_word(from.start + head + i * WORD, to + head + i * WORD) });
            self.copy_part(from.start, to, head);
        }
    }

    #[inline]
    fn store_word(&mut self, at: usize, bytes: [u8; WORD]) {
        assert!(at.is_multiple_of(WORD));
        step();
        self.word(at / WORD).store(word_of(bytes), Relaxed);
    }

    #[inline]
    fn map_words(&mut self, range: Range<usize>, map: impl Fn(u64) -> u64) {
        assert!(range.start.is_multiple_of(WORD) && range.end.is_multiple_of(WORD));
        step();
        for word in self.words(range.start / WORD..range.end / WORD) {
            word.store(map(u64::from_le(word.load(Relaxed))).to_le(), Relaxed);
        }
    }

    fn fill(&mut self, range: Range<usize>, byte: u8) {
        const CHUNK: usize = 64;
        let chunk = [byte; CHUNK];
        let mut at = range.start;
        while at < range.end {
            let len = CHUNK.min(range.end - at);
            self.store(at, &chunk[..len]);
            at += len;
        }
    }
}

impl FrameBytes<'_> {
    #[inline]
    fn copy_part(&mut self, from: usize, to: usize, len: usize) {
        if len > 0 {
            let (bytes, len) = self.bytes_at(from, len);
            self.store_in_word(to, &bytes[..len]);
        }
    }

    /// # Safety
    /// `from..from + 8` and `to..to + 8` are within the part, and `to` is a multiple of 8.
    #[inline]
    unsafe fn copy_word(&mut self, from: usize, to: usize) {
        // SAFETY: within the part, by the caller's promise, and no other code writes it: a plain load suffices.
        let word = unsafe { self.start.add(from).cast::<u64>().read_unaligned() };
        // SAFETY: within the part, and aligned, as its start is; all concurrent accesses are atomic loads.
        unsafe { AtomicU64::from_ptr(self.start.add(to).cast()) }.store(word, Relaxed);
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
                        let range = range.start / 8 * 8..range.end / 8 * 8;
                        plain.map_words(range.clone(), |word| word.rotate_left(byte.into()));
                        frame.map_words(range, |word| word.rotate_left(byte.into()));
                    }
                    2 => {
                        let at = a / 8 * 8;
                        plain.store_word(at, [byte; 8]);
                        frame.store_word(at, [byte; 8]);
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
