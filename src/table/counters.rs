//! Counters of a table in use, at any moment, without a walk and without waiting.
//!
//! ```text
//! writes      each is counted, in the writer's own slot (`gate.rs`)
//! lookups     one in 512 is sampled (`buckets/activity.rs`)
//! the rest    counted where it happens, which is seldom: splits, frames read and written, waits for a latch
//! ```
//!
//! Not here: the walk over all buckets (`buckets/survey.rs`), other processes (`publish.rs`).

use super::Table;
use super::gate::Counted;
use crate::buckets::Activity;
use crate::pager::Pager;
use std::sync::atomic::Ordering::*;

/// How much a table has done since it was opened, and how large it is now; made by [`Table::counters`].
///
/// Lookups, hits, misses and what they touched are estimates from samples, multiples of 512; all else is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCounters {
    /// Pairs stored now.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
    /// Buckets now.
    pub buckets: u64,
    /// Bytes of the file, or what it would have.
    pub file_bytes: u64,
    /// Bytes of memory that pages take now.
    pub memory_bytes: u64,
    /// Lookups that found their key. Estimated.
    pub hits: u64,
    /// Pages that they looked at. Estimated.
    pub hit_pages: u64,
    /// Keys that they compared with theirs. Estimated.
    pub hit_keys: u64,
    /// Lookups that found no such key. Estimated.
    pub misses: u64,
    /// Pages that they looked at. Estimated.
    pub miss_pages: u64,
    /// Keys that they compared with theirs. Estimated.
    pub miss_keys: u64,
    /// Lookups that went on to overflow pages. Estimated.
    pub overflow_lookups: u64,
    /// Changes that stored something: put, insert, append, update.
    pub puts: u64,
    /// Changes that took a pair out.
    pub removals: u64,
    /// Buckets split.
    pub splits: u64,
    /// Buckets put back into the one they came of.
    pub merges: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Frames read from the file.
    pub frames_read: u64,
    /// Frames written to it, by checkpoints.
    pub frames_written: u64,
    /// Frames whose memory was given to others.
    pub evictions: u64,
    /// Times that a thread had to wait for a latch.
    pub latch_waits: u64,
}

/// Numbers in a [`TableCounters`].
pub(super) const COUNT: usize = 21;

impl TableCounters {
    /// Lookups of all kinds. Estimated.
    pub fn lookups(&self) -> u64 {
        self.hits.saturating_add(self.misses)
    }

    /// The share of lookups that found their key, 0 to 1; 0 where there were none.
    pub fn hit_share(&self) -> f64 {
        ratio(self.hits, self.lookups())
    }

    /// Pages a lookup looks at to find its key.
    pub fn pages_per_hit(&self) -> f64 {
        ratio(self.hit_pages, self.hits)
    }

    /// Pages a lookup looks at to find out that its key is absent.
    pub fn pages_per_miss(&self) -> f64 {
        ratio(self.miss_pages, self.misses)
    }

    /// Keys that a lookup compares its own with until it has found it: 1 where no tag was alike by chance.
    pub fn keys_per_hit(&self) -> f64 {
        ratio(self.hit_keys, self.hits)
    }

    /// The same for a key that is absent: 0 where no tag was alike by chance.
    pub fn keys_per_miss(&self) -> f64 {
        ratio(self.miss_keys, self.misses)
    }

    /// The share of lookups that went on to overflow pages, 0 to 1.
    pub fn overflow_share(&self) -> f64 {
        ratio(self.overflow_lookups, self.lookups())
    }

    /// What was done since `earlier`; sizes are those of now.
    #[must_use]
    pub fn since(&self, earlier: &TableCounters) -> TableCounters {
        // The first five are no counters.
        const SIZES: usize = 5;
        let (mut words, earlier) = (self.to_words(), earlier.to_words());
        for (word, earlier) in words.iter_mut().zip(earlier).skip(SIZES) {
            *word = word.saturating_sub(earlier);
        }
        TableCounters::from_words(words)
    }
}

/// Makes words of the numbers, and numbers of the words, in the order in which they are named.
macro_rules! words_of {
    ($($number:ident),*) => {
        impl TableCounters {
            /// All numbers, in their order. On disk (`publish.rs`).
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

impl Table {
    /// What the table has done since it was opened, and its size now.
    ///
    /// O(1): walks nothing and waits for nothing, so it suits a figure each second under full load.
    /// [`survey`](Self::survey) walks the whole table instead. Numbers are read one after another while other threads go on.
    /// An open that replays a log counts what it replays as puts and removals.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// table.put(b"alice", b"2")?;
    /// let counters = table.counters();
    /// assert_eq!((counters.pairs, counters.puts), (1, 2));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn counters(&self) -> TableCounters {
        TableCounters::now(self.buckets.activity(), self.gate.counted(), &self.pager)
    }
}

impl TableCounters {
    /// The counters of this moment.
    pub(super) fn now(activity: &Activity, counted: &Counted, pager: &Pager) -> TableCounters {
        let lookups = activity.lookups();
        let (totals, (puts, removals)) = (counted.totals(), counted.puts_and_removals());
        let (counts, pool) = (&pager.counts, pager.pool());
        TableCounters {
            pairs: totals.pairs,
            payload_bytes: totals.payload_bytes,
            buckets: activity.bucket_count(),
            file_bytes: u64::from(pager.frame_count()) * pager.frame_bytes() as u64,
            memory_bytes: pager.memory_bytes(),
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
