//! Activity of the buckets since the table was opened: splits, merges, and the pages and keys that lookups read.
//!
//! One lookup in 512 is sampled: it takes the latch, and its pages and keys are counted in its thread's slot. All other
//! lookups only decrement a thread-local number. The distance to the next sample is drawn evenly from 1 to 1023: if
//! every 512th lookup were sampled, a program that looks up two keys in turn would only ever have one of them sampled.
//! So the figures for lookups are estimates: for n lookups they are off by about 13 / sqrt(n), 1.3 % at a million.
//!
//! Cost: docs/architecture.md, "Live counters". Not here: the sampled lookup (`sample.rs`), counters of writes
//! (`table/gate.rs`), the walk over all buckets (`survey.rs`).

use crate::linear;
use crate::pager::interleave;
use crate::pager::thread_slot::{SLOT_COUNT, slot_of_thread};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The pages and keys that a lookup read.
#[derive(Clone, Copy, Default)]
pub(super) struct Touched {
    pub pages: u64,
    pub keys: u64,
}

/// The sums of one thread's samples. Two cache lines each, since processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Samples {
    hits: AtomicU64,
    hit_pages: AtomicU64,
    hit_keys: AtomicU64,
    misses: AtomicU64,
    miss_pages: AtomicU64,
    miss_keys: AtomicU64,
    overflow: AtomicU64,
}

/// Counts since the table was opened.
pub(crate) struct Activity {
    samples: Box<[Samples; SLOT_COUNT]>,
    splits: AtomicU64,
    merges: AtomicU64,
    buckets_at_first: u64,
}

/// Results and reads of lookups: estimates, multiples of 512.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookups {
    pub hits: u64,
    pub hit_pages: u64,
    pub hit_keys: u64,
    pub misses: u64,
    pub miss_pages: u64,
    pub miss_keys: u64,
    pub overflow: u64,
}

impl Activity {
    pub(super) fn new(max_bucket: linear::Bucket) -> Activity {
        Activity {
            samples: Box::new(std::array::from_fn(|_| Samples::default())),
            splits: AtomicU64::new(0),
            merges: AtomicU64::new(0),
            buckets_at_first: linear::State::new(max_bucket).bucket_count(),
        }
    }

    pub(super) fn count_split(&self) {
        self.splits.fetch_add(1, Relaxed);
    }

    pub(super) fn count_merge(&self) {
        self.merges.fetch_add(1, Relaxed);
    }

    pub(crate) fn splits(&self) -> u64 {
        self.splits.load(Relaxed)
    }

    pub(crate) fn merges(&self) -> u64 {
        self.merges.load(Relaxed)
    }

    /// The current number of buckets.
    pub(crate) fn bucket_count(&self) -> u64 {
        (self.buckets_at_first + self.splits()).saturating_sub(self.merges())
    }

    pub(crate) fn lookups(&self) -> Lookups {
        let estimate = |part: fn(&Samples) -> &AtomicU64| {
            u64::from(INTERVAL) * self.samples.iter().map(|s| part(s).load(Relaxed)).sum::<u64>()
        };
        Lookups {
            hits: estimate(|s| &s.hits),
            hit_pages: estimate(|s| &s.hit_pages),
            hit_keys: estimate(|s| &s.hit_keys),
            misses: estimate(|s| &s.misses),
            miss_pages: estimate(|s| &s.miss_pages),
            miss_keys: estimate(|s| &s.miss_keys),
            overflow: estimate(|s| &s.overflow),
        }
    }

    pub(super) fn count(&self, found: bool, touched: Touched) {
        let slot = &self.samples[slot_of_thread()];
        let (lookups, pages, keys) = if found {
            (&slot.hits, &slot.hit_pages, &slot.hit_keys)
        } else {
            (&slot.misses, &slot.miss_pages, &slot.miss_keys)
        };
        lookups.fetch_add(1, Relaxed);
        pages.fetch_add(touched.pages, Relaxed);
        keys.fetch_add(touched.keys, Relaxed);
        slot.overflow.fetch_add(u64::from(touched.pages > 1), Relaxed);
    }
}

// -----------------------------------------------------------------------------------------
// Sampling of lookups.

/// Lookups that one sample represents.
pub(crate) const INTERVAL: u32 = 512;

#[cfg(test)]
thread_local! {
    /// Whether every lookup of this thread is sampled.
    static SAMPLE_ALL: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
impl Activity {
    /// Samples every lookup of this thread from now on.
    pub(crate) fn sample_all() {
        SAMPLE_ALL.set(true);
        LEFT.set(0);
    }

    /// Splits since the last call.
    pub(crate) fn take_splits(&self) -> u64 {
        self.splits.swap(0, Relaxed)
    }

    /// Merges since the last call.
    pub(crate) fn take_merges(&self) -> u64 {
        self.merges.swap(0, Relaxed)
    }
}

thread_local! {
    /// Lookups until the next sample; 0 before the thread's first lookup.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// State of the random generator.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Counts a lookup. Returns true if it may be one to sample; it must then take the latch and call [`was_due`].
#[inline]
pub(super) fn is_due() -> bool {
    // Stored before it is compared: the count is far below 2^31, so a value below 0 shows as negative.
    let left = LEFT.get().wrapping_sub(1);
    LEFT.set(left);
    if left as i32 > 0 {
        return false;
    }
    LEFT.set(0);
    // In a test of interleavings, nothing may depend on earlier work of the system thread.
    interleave::task().is_none()
}

/// Whether to sample the lookup that is ending. Called under the latch.
#[inline]
pub(super) fn was_due() -> bool {
    LEFT.get() == 0 && interleave::task().is_none() && begin_interval()
}

#[cold]
fn begin_interval() -> bool {
    if DRAWN.get() == 0 {
        // Starts within an interval, so that threads with few lookups are not counted too often or too rarely on
        // average.
        let left = draw().min(draw());
        if left > 1 {
            LEFT.set(left - 1);
            return false;
        }
    }
    LEFT.set(draw());
    true
}

/// A number from 1 to 2 * [`INTERVAL`] - 1, [`INTERVAL`] on average.
fn draw() -> u32 {
    #[cfg(test)]
    if SAMPLE_ALL.get() {
        return 1;
    }
    static THREADS: AtomicU64 = AtomicU64::new(0);
    let mut state = DRAWN.get();
    if state == 0 {
        state = THREADS.fetch_add(1, Relaxed) << 32 | 1;
    }
    // SplitMix64, Steele, Lea & Flood 2014.
    state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    DRAWN.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((u128::from(mixed) * u128::from(2 * INTERVAL - 1)) >> 64) as u32 + 1
}
