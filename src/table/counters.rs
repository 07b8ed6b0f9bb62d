//! Counters of a table in use, which can be read at any time without a walk and without waiting.
//!
//! ```text
//! writes      each is counted, in the writer's own slot (`gate.rs`)
//! lookups     one in 512 is sampled (`buckets/activity.rs`)
//! the rest    counted where it happens, since it is rare: splits, frames read and written, waits for a latch
//! ```
//!
//! Not here: the walk over all buckets (`buckets/survey.rs`), other processes (`publish.rs`).

use super::gate::Counted;
use crate::buckets::Activity;
use crate::pager::Pager;
use std::sync::atomic::Ordering::*;

/// Activity of a table since it was opened, and its current size; made by [`Table::counters`](crate::Table::counters).
///
/// Lookups, hits, misses, and their pages and keys are estimates from samples, multiples of 512; the rest is counted
/// exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCounters {
    /// Pairs currently stored.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
    /// The current number of buckets.
    pub buckets: u64,
    /// Bytes of all frames, in memory or in the file. Not the length of the file.
    pub file_bytes: u64,
    /// Bytes of memory that pages currently take.
    pub memory_bytes: u64,
    /// Lookups that found their key. Estimated.
    pub hits: u64,
    /// Pages that these lookups read. Estimated.
    pub hit_pages: u64,
    /// Keys that these lookups compared. Estimated.
    pub hit_keys: u64,
    /// Lookups that did not find their key. Estimated.
    pub misses: u64,
    /// Pages that these lookups read. Estimated.
    pub miss_pages: u64,
    /// Keys that these lookups compared. Estimated.
    pub miss_keys: u64,
    /// Lookups that read overflow pages. Estimated.
    pub overflow_lookups: u64,
    /// Changes that stored something: put, insert, append, update.
    pub puts: u64,
    /// Changes that removed a pair.
    pub removals: u64,
    /// Buckets split.
    pub splits: u64,
    /// Buckets merged.
    pub merges: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Frames read from the file.
    pub frames_read: u64,
    /// Frames written to the file by checkpoints.
    pub frames_written: u64,
    /// Frames evicted from memory.
    pub evictions: u64,
    /// Times that a thread had to wait for a latch.
    pub latch_waits: u64,
}

/// Number of figures in a [`TableCounters`].
pub(super) const COUNT: usize = 21;

impl TableCounters {
    /// Lookups of all kinds. Estimated.
    pub fn lookups(&self) -> u64 {
        self.hits.saturating_add(self.misses)
    }

    /// The share of lookups that found their key, 0 to 1; 0 without lookups.
    pub fn hit_share(&self) -> f64 {
        ratio(self.hits, self.lookups())
    }

    /// Mean pages read by a successful lookup.
    #[doc(hidden)] // the program's and the server's
    pub fn pages_per_hit(&self) -> f64 {
        ratio(self.hit_pages, self.hits)
    }

    /// Mean pages read by an unsuccessful lookup.
    #[doc(hidden)] // the program's and the server's
    pub fn pages_per_miss(&self) -> f64 {
        ratio(self.miss_pages, self.misses)
    }

    /// Mean keys compared by a successful lookup: 1 if no tags match by chance.
    #[doc(hidden)] // the program's and the server's
    pub fn keys_per_hit(&self) -> f64 {
        ratio(self.hit_keys, self.hits)
    }

    /// Mean keys compared by an unsuccessful lookup: 0 if no tags match by chance.
    #[doc(hidden)] // the program's and the server's
    pub fn keys_per_miss(&self) -> f64 {
        ratio(self.miss_keys, self.misses)
    }

    /// The share of lookups that read overflow pages, 0 to 1.
    #[doc(hidden)] // the program's and the server's
    pub fn overflow_share(&self) -> f64 {
        ratio(self.overflow_lookups, self.lookups())
    }

    /// The activity since `earlier`, with the current sizes.
    #[must_use]
    pub fn since(&self, earlier: &TableCounters) -> TableCounters {
        // The first five are sizes, not counters.
        const SIZES: usize = 5;
        let (mut words, earlier) = (self.to_words(), earlier.to_words());
        for (word, earlier) in words.iter_mut().zip(earlier).skip(SIZES) {
            *word = word.saturating_sub(earlier);
        }
        TableCounters::from_words(words)
    }
}

/// Converts between the fields, in order, and words.
macro_rules! words_of {
    ($($number:ident),*) => {
        impl TableCounters {
            /// All fields, in order. On disk (`publish.rs`).
            pub(super) fn to_words(self) -> [u64; COUNT] {
                [$(self.$number),*]
            }

            pub(super) fn from_words(words: [u64; COUNT]) -> TableCounters {
                let [$($number),*] = words;
                TableCounters { $($number),* }
            }
        }
    };
}

words_of!(
    pairs,
    payload_bytes,
    buckets,
    file_bytes,
    memory_bytes,
    hits,
    hit_pages,
    hit_keys,
    misses,
    miss_pages,
    miss_keys,
    overflow_lookups,
    puts,
    removals,
    splits,
    merges,
    checkpoints,
    frames_read,
    frames_written,
    evictions,
    latch_waits
);

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl TableCounters {
    /// The current counters.
    pub(super) fn now(activity: &Activity, counted: &Counted, pager: &Pager) -> TableCounters {
        let lookups = activity.lookups();
        let (totals, (puts, removals)) = (counted.totals(), counted.puts_and_removals());
        let (counts, pool) = (&pager.frames().counts, pager.pool());
        TableCounters {
            pairs: totals.pairs,
            payload_bytes: totals.payload_bytes,
            buckets: activity.bucket_count(),
            file_bytes: u64::from(pager.frame_count()) * pager.frame_bytes() as u64,
            memory_bytes: pager.frames().memory_bytes(),
            hits: lookups.hits,
            hit_pages: lookups.hit_pages,
            hit_keys: lookups.hit_keys,
            misses: lookups.misses,
            miss_pages: lookups.miss_pages,
            miss_keys: lookups.miss_keys,
            overflow_lookups: lookups.overflow,
            puts,
            removals,
            splits: activity.splits(),
            merges: activity.merges(),
            checkpoints: counts.checkpoints.load(Relaxed),
            frames_read: counts.frames_read.load(Relaxed),
            frames_written: counts.frames_written.load(Relaxed),
            evictions: pool.evictions.load(Relaxed),
            latch_waits: pool.latch_waits.load(Relaxed),
        }
    }
}
