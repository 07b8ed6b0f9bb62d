//! Interpolation search among ascending positions.

use std::ops::Range;

/// Interpolation search: which of many ascending positions, identified by number, to examine next.
///
/// Hashes are uniform, so the distance to the position sought tells how many numbers to skip. After some steps it
/// bisects, so that no hash function makes it slow.
pub(crate) struct Interpolation {
    /// Positions below number `low` are smaller than the one sought, those from `high` on are not.
    low: u64,
    high: u64,
    gap: u64,
    overshoot: u64,
    next: u64,
    looks: u32,
}

impl Interpolation {
    /// Searches the numbers of `within`, starting with `guess`; positions are about `gap` apart.
    ///
    /// Each step goes `overshoot` numbers farther than expected. With 1, two steps soon enclose the position sought,
    /// for a search that ends with a few numbers left. With 0, it is found sooner, for a search that ends with none
    /// left.
    #[inline]
    pub fn new(within: Range<u64>, guess: u64, gap: u64, overshoot: u64) -> Self {
        let Range { start: low, end: high } = within;
        let mut new = Interpolation { low, high, gap: gap.max(1), overshoot, next: guess, looks: 0 };
        new.keep_within();
        new
    }

    /// The numbers that may have the position sought: all before them have smaller positions, all after them larger or
    /// equal ones.
    #[inline]
    pub fn range(&self) -> Range<u64> {
        self.low..self.high
    }

    /// The number to examine next, as long as the range is not empty.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Records that number [`next`](Self::next) has this `position`.
    #[inline]
    pub fn saw(&mut self, position: u64, sought: u64) {
        let steps = position.abs_diff(sought) / self.gap;
        if position < sought {
            self.low = self.next + 1;
            self.next = self.low.saturating_add(steps).saturating_add(self.overshoot);
        } else {
            self.high = self.next;
            self.next = self.high.saturating_sub(steps.saturating_add(1 + self.overshoot));
        }
        self.keep_within();
    }

    /// Records that number [`next`](Self::next) has no position; later numbers have none either.
    #[inline]
    pub fn saw_none(&mut self) {
        self.high = self.next;
        self.keep_within();
    }

    #[inline]
    fn keep_within(&mut self) {
        const LOOKS_MAX: u32 = 6;
        self.looks += 1;
        if self.looks > LOOKS_MAX {
            self.next = self.low + (self.high - self.low) / 2;
        }
        self.next = self.next.min(self.high.saturating_sub(1)).max(self.low);
    }
}
