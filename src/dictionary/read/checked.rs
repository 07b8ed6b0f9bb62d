//! Which pages of a mapped file have been compared with their checksums: one bit per page, shared by threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The pages that have been compared and were correct. A clone shares the set.
#[derive(Clone, Default)]
pub(crate) struct Checked(Arc<[AtomicU64]>);

impl Checked {
    /// An empty set for `count` pages. The default has no bits, for pages that are compared each time they are read.
    pub fn none_of(count: u64) -> Self {
        let words = usize::try_from(count.div_ceil(64)).expect("a window has all pages");
        Checked((0..words).map(|_| AtomicU64::default()).collect())
    }

    #[inline]
    pub fn has(&self, page: u64) -> bool {
        self.0.get((page / 64) as usize).is_some_and(|word| word.load(Relaxed) & 1 << (page % 64) != 0)
    }

    pub fn add(&self, page: u64) {
        if let Some(word) = self.0.get((page / 64) as usize) {
            word.fetch_or(1 << (page % 64), Relaxed);
        }
    }

    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.load(Relaxed).count_ones())).sum()
    }
}
