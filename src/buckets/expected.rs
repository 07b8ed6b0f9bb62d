//! Records where each bucket's overflow page probably is, so that a write that adds a pair can prefetch it.
//!
//! A new pair of a full bucket goes to its overflow page. Only the primary page holds that page's location, so half of
//! the puts of a growing table take two cache misses, one after the other. With a copy of the location outside the
//! pages the two misses overlap. It takes four bytes per bucket, and stays in the cache when the table does not.
//!
//! ```text
//! bucket   ... 16384 ......... 32768 .................. 65536 ...
//! numbers      | 16384 numbers | 32768 numbers          |          one allocation for each doubling
//! ```
//!
//! A number is the page's unit, or 0. It may be out of date: it is noted when a pair is added and when a bucket splits,
//! and only prefetches use it. A small table has no numbers, since the table itself is in the cache. A table that is
//! over its memory limit gets no new ones.
//!
//! Source: docs/architecture.md, "Cache misses". Not here: when a number is noted or used (`overflow.rs`).

use crate::linear;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Buckets below 2^`FIRST_BITS` have no number. Fewer in tests, so that their tables have numbers.
const FIRST_BITS: u32 = if cfg!(test) { 4 } else { 14 };

/// The numbers of the buckets from 2^n up to 2^(n+1).
type Doubling = OnceLock<Box<[AtomicU32]>>;

/// A doubling for each n from `FIRST_BITS` on.
#[derive(Default)]
pub(super) struct ExpectedPages([Doubling; (u32::BITS - FIRST_BITS) as usize]);

impl ExpectedPages {
    /// Whether `bucket` may have a number.
    #[inline]
    pub(super) fn has(bucket: linear::Bucket) -> bool {
        bucket >> FIRST_BITS != 0
    }

    /// The doubling to which `bucket` belongs, and the number of its first bucket, which is also the length of the
    /// doubling.
    #[inline]
    fn doubling(&self, bucket: linear::Bucket) -> Option<(&Doubling, usize)> {
        let bits = bucket.checked_ilog2()?;
        Some((self.0.get(bits.checked_sub(FIRST_BITS)? as usize)?, 1 << bits))
    }

    /// The unit at which the overflow page of `bucket` is expected.
    #[inline]
    pub(super) fn unit(&self, bucket: linear::Bucket) -> Option<u64> {
        let (doubling, first) = self.doubling(bucket)?;
        let unit = doubling.get()?.get(bucket as usize - first)?.load(Relaxed);
        (unit != 0).then_some(unit.into())
    }

    /// Notes the first unit of the overflow page of `bucket`, 0 for none. `may_grow` returns whether there is memory
    /// for more numbers.
    #[inline]
    pub(super) fn note(&self, bucket: linear::Bucket, unit: u64, may_grow: impl FnOnce() -> bool) {
        let Some((doubling, first)) = self.doubling(bucket) else { return };
        let numbers = match doubling.get() {
            Some(numbers) => numbers,
            None if unit != 0 && may_grow() => new_numbers(doubling, first),
            None => return,
        };
        let unit = u32::try_from(unit).unwrap_or(0);
        // Only a change is stored: other threads may read numbers in the same cache line.
        if let Some(number) = numbers.get(bucket as usize - first)
            && number.load(Relaxed) != unit
        {
            number.store(unit, Relaxed);
        }
    }
}

/// Allocates `count` numbers, or none if memory runs out. Their memory becomes resident as they are noted.
#[cold]
fn new_numbers(doubling: &Doubling, count: usize) -> &[AtomicU32] {
    doubling.get_or_init(|| bytemuck::allocation::try_zeroed_slice_box(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: linear::Bucket = 1 << FIRST_BITS;

    #[test]
    fn a_number_is_what_was_noted_last() {
        let pages = ExpectedPages::default();
        for (bucket, unit) in
            [(FIRST, 7), (FIRST + 1, 8), (2 * FIRST - 1, 9), (2 * FIRST, 10), (1 << 20, u64::from(u32::MAX))]
        {
            assert_eq!(pages.unit(bucket), None);
            pages.note(bucket, unit, || true);
            assert_eq!(pages.unit(bucket), Some(unit));
        }
        assert_eq!(pages.unit(FIRST), Some(7), "not changed by its neighbours");
        pages.note(FIRST, 0, || true);
        assert_eq!(pages.unit(FIRST), None);
        pages.note(FIRST + 1, 1 << 32, || true);
        assert_eq!(pages.unit(FIRST + 1), None, "a place that does not fit a number is not expected elsewhere");
    }

    #[test]
    fn small_tables_and_those_larger_than_their_memory_have_no_numbers() {
        let pages = ExpectedPages::default();
        for bucket in [0, 1, FIRST - 1] {
            pages.note(bucket, 7, || true);
            assert_eq!(pages.unit(bucket), None);
        }
        pages.note(FIRST, 7, || false);
        assert_eq!(pages.unit(FIRST), None);
        assert!(pages.0.iter().all(|doubling| doubling.get().is_none()));
    }
}
