//! A fuzzer's bytes as decisions: each call takes a few from the front, and zeros when none are left.
//!
//! Numbers have fixed lengths, so that a byte changed is one decision changed, and what follows stays what it was.

/// The bytes not taken yet.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Input(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.number(1) as u8 // one byte
    }

    /// The next `bytes` bytes as a number; at most 8.
    pub fn number(&mut self, bytes: usize) -> u64 {
        let taken = self.take(bytes);
        let mut number = [0; 8];
        number[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(number)
    }

    /// A number in place of `old`, by one of five ways: a little more or less, a small one, the largest.
    pub fn near(&mut self, old: u64, how: u8) -> u64 {
        match how {
            0 => old.wrapping_add(1 + u64::from(self.byte())),
            1 => old.wrapping_sub(1 + u64::from(self.byte())),
            2 => self.number(1),
            3 => self.number(2),
            _ => u64::MAX,
        }
    }

    /// A place below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        let bytes = if end > 1 << 16 {
            3
        } else if end > 1 << 8 {
            2
        } else {
            1
        };
        (self.number(bytes) % end.max(1) as u64) as usize // below `end`
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The next `len` bytes, or those that are left.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }
}
