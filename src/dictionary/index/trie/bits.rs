//! Rows of bits in 64-bit words: written from the last bit to the first, appended, read.
//!
//! Bit p of a row is bit p % 64 of word p / 64. A trie is written backwards: right subtrie, left subtrie, code. So the
//! length of the left subtrie is known when the skip pointer before it is written. Each trie is then appended to the
//! file's row, which grows forwards.
//!
//! Cost: a few shifts each; a read of up to 64 bits touches two words.
//! Not here: what the bits mean.

/// A row of bits that grows at its start.
#[derive(Default)]
pub(super) struct Backward {
    /// The first `head_len` bits of the row, up to 64.
    head: u64,
    head_len: u32,
    /// The words after the head, the last of the row first.
    tail: Vec<u64>,
}

impl Backward {
    pub(super) fn clear(&mut self) {
        (self.head, self.head_len) = (0, 0);
        self.tail.clear();
    }

    pub(super) fn len(&self) -> u64 {
        self.tail.len() as u64 * 64 + u64::from(self.head_len)
    }

    /// Puts the low `count` bits (at most 63) of `bits` before the row. The other bits of `bits` must be 0.
    #[inline]
    pub(super) fn put(&mut self, bits: u64, count: u32) {
        debug_assert!(count < 64 && bits >> count == 0);
        let length = self.head_len + count;
        if length <= 64 {
            self.head = self.head << count | bits;
            self.head_len = length;
        } else {
            let both = u128::from(self.head) << count | u128::from(bits);
            self.head_len = length - 64;
            self.tail.push((both >> self.head_len) as u64);
            self.head = both as u64 & ((1 << self.head_len) - 1);
        }
    }

    /// Puts the gamma code of `number` >= 1 before the row.
    pub(super) fn put_gamma(&mut self, number: u64) {
        let below = number.ilog2();
        self.put(number & !(1 << below), below);
        // 63 zeros and a one are more than `put` takes at a time.
        self.put(1, 1);
        self.put(0, below);
    }
}

/// A row of bits that grows at its end, after words of another kind.
pub(super) struct Forward {
    words: Vec<u64>,
    len: u64,
}

impl Forward {
    pub(super) fn behind(words: Vec<u64>) -> Forward {
        Forward { words, len: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The words before the row, and the row.
    pub(super) fn front(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// All words, including those before the row.
    pub(super) fn into_words(self) -> Vec<u64> {
        self.words
    }

    pub(super) fn append(&mut self, row: &Backward) {
        self.put(row.head, row.head_len);
        for &word in row.tail.iter().rev() {
            self.put(word, 64);
        }
    }

    fn put(&mut self, bits: u64, count: u32) {
        if count == 0 {
            return;
        }
        let used = (self.len % 64) as u32;
        if used == 0 {
            self.words.push(bits);
        } else {
            let last = self.words.len() - 1;
            self.words[last] |= bits << used;
            if used + count > 64 {
                self.words.push(bits >> (64 - used));
            }
        }
        self.len += u64::from(count);
    }
}

/// Reads a row from some bit on, up to an end. Reading past the end is an error, detected at most one word late.
#[derive(Default)]
pub(super) struct Reader<'a> {
    words: &'a [u64],
    /// The bit number in the row of the lowest bit of `window`.
    at: u64,
    end: u64,
    window: u64,
    /// The number of valid bits of `window`.
    have: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(words: &'a [u64], at: u64, end: u64) -> Reader<'a> {
        Reader { words, at, end, window: 0, have: 0 }
    }

    /// The number of the next bit.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Ensures that `count` bits (at most 64) are in the window; bits past the row are 0.
    #[inline(always)]
    pub(super) fn need(&mut self, count: u32) -> Option<()> {
        if self.have < count { self.refill() } else { Some(()) }
    }

    /// Fills the window with the next 64 bits.
    #[inline(always)]
    pub(super) fn refill(&mut self) -> Option<()> {
        if self.at >= self.end {
            return None;
        }
        let (word, shift) = ((self.at / 64) as usize, self.at % 64);
        let low = *self.words.get(word)?;
        let high = self.words.get(word + 1).copied().unwrap_or(0);
        self.window = low >> shift | (high << 1) << (63 - shift);
        self.have = 64;
        Some(())
    }

    /// The bits loaded by [`need`](Reader::need), from the lowest.
    #[inline(always)]
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Skips `count` bits of the window, fewer than 64.
    #[inline(always)]
    pub(super) fn pass(&mut self, count: u32) {
        self.window >>= count;
        self.have = self.have.wrapping_sub(count);
        self.at += u64::from(count);
    }

    /// Reads the next `count` bits, fewer than 64, as a number.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> Option<u64> {
        self.need(count)?;
        let bits = self.window & ((1 << count) - 1);
        self.pass(count);
        Some(bits)
    }

    /// Reads a gamma code; `None` if it is not that of a number below 2^63.
    #[inline]
    pub(super) fn take_gamma(&mut self) -> Option<u64> {
        const SHORT: u32 = 15;
        self.need(2 * SHORT + 1)?;
        let below = self.window.trailing_zeros();
        if below <= SHORT {
            let number = (self.window >> (below + 1)) & ((1 << below) - 1) | 1 << below;
            self.pass(2 * below + 1);
            return Some(number);
        }
        self.need(64)?;
        let below = self.window.trailing_zeros();
        if below > 62 {
            return None;
        }
        self.pass(below + 1);
        Some(self.take(below)? | 1 << below)
    }

    /// Skips any number of bits.
    #[inline]
    pub(super) fn jump(&mut self, count: u64) -> Option<()> {
        if count < u64::from(self.have) {
            self.pass(count as u32);
            return Some(());
        }
        self.at = self.at.checked_add(count).filter(|&at| at <= self.end)?;
        self.have = 0;
        Some(())
    }
}

#[cfg(test)]
#[path = "tests/bits.rs"]
mod tests;
