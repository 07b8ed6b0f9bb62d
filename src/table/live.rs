//! Counters of a table in use: what it does, told at any moment without a walk and without waiting for anybody.
//!
//! ```text
//! writes      counted each, in the writer's own slot (`gate.rs`)
//! lookups     one in 512 takes the latch, and its pages and keys are counted, in a slot of the thread's own
//! the rest    counted where it happens, which is seldom: splits, frames read and written, waits for a latch
//! ```
//!
//! A lookup counts down one number of its thread and writes nothing else; what threads share is written for samples alone, each
//! thread in cache lines of its own. Which lookup is next is drawn, evenly from 1 to 1023 lookups on, as every 512th would
//! show a program that asks for two keys in turn only one of them. So the lookups' numbers are estimates: of n lookups they
//! are off by about 13 / sqrt(n), 1.3 % at a million.
//!
//! Cost: docs/architecture.md, "Live counters". Not here: the walk over all buckets (`stats.rs`), other processes (`publish.rs`).

use super::chain::Key;
use super::gate::{Counted, SLOT_COUNT, slot_of_thread};
use super::page::{self, PAIR_IN_EXTENT};
use super::{Table, linear};
use crate::error::Result;
use crate::pager::Pager;
use crate::pager::interleave;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// How much a table has done since it was opened, and how large it is now; made by [`Table::stats`].
///
/// Lookups, hits, misses and what they touched are estimates from samples, multiples of 512; all else is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
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
    pub contractions: u64,
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

/// Numbers in a [`TableStats`].
pub(super) const COUNT: usize = 21;

impl TableStats {
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
    pub fn since(&self, earlier: &TableStats) -> TableStats {
        // The first five are no counters.
        const SIZES: usize = 5;
        let (mut words, earlier) = (self.to_words(), earlier.to_words());
        for (word, earlier) in words.iter_mut().zip(earlier).skip(SIZES) {
            *word = word.saturating_sub(earlier);
        }
        TableStats::from_words(words)
    }
}

/// Makes words of the numbers, and numbers of the words, in the order in which they are named.
macro_rules! words_of {
    ($($number:ident),*) => {
        impl TableStats {
            /// All numbers, in their order. On disk (`publish.rs`).
            pub(super) fn to_words(self) -> [u64; COUNT] {
                [$(self.$number),*]
            }

            pub(super) fn from_words(words: [u64; COUNT]) -> TableStats {
                let [$($number),*] = words;
                TableStats { $($number),* }
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
    contractions,
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
    /// What the table has done since it was opened, and how large it is. Walks nothing, waits for nobody: for a figure each
    /// second beside full load. [`stat`](Self::stat) walks the whole table instead and tells exactly what it is made of.
    ///
    /// O(1). What other threads do meanwhile may be in one number and not yet in the next. An open that replays a log counts
    /// what it replays as puts and removals.
    ///
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// table.put(b"alice", b"1")?;
    /// table.put(b"alice", b"2")?;
    /// let stats = table.stats();
    /// assert_eq!((stats.pairs, stats.puts), (1, 2));
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    pub fn stats(&self) -> TableStats {
        self.live.stats(self.gate.counted(), &self.pager)
    }

    /// Counts a lookup of `key`, by looking again at what it looked at. Its errors were for the lookup itself to tell.
    #[cold]
    pub(super) fn sample(&self, primary: &[u8], key: Key<'_>) {
        if let Ok((found, touched)) = self.touched(primary, key) {
            self.live.count(found, touched);
        }
    }

    fn touched(&self, primary: &[u8], key: Key<'_>) -> Result<(bool, Touched)> {
        let mut touched = Touched::default();
        if self.touch(primary, key, &mut touched)? {
            return Ok((true, touched));
        }
        let bits = page::filter_bits(key.tag);
        if page::next(primary) == 0 || page::filter(primary) & bits != bits {
            return Ok((false, touched));
        }
        let visit = |_, bytes: &[u8]| Ok(self.touch(bytes, key, &mut touched)?.then_some(()));
        let found = self.walk_chain(page::next(primary), visit)?.is_some();
        Ok((found, touched))
    }

    /// One page. Of a key in an extent the hash stands for the whole: nothing is read for a sample but pages.
    fn touch(&self, bytes: &[u8], key: Key<'_>, touched: &mut Touched) -> Result<bool> {
        touched.pages += 1;
        let hash = key.hash.to_le_bytes();
        let (form_is_extent, wanted) =
            if key.bytes.len() <= self.key_bytes_inline_max() { (false, key.bytes) } else { (true, &hash[..]) };
        let found = page::find_by(bytes, key.tag, |record| {
            touched.keys += 1;
            (record.form == PAIR_IN_EXTENT) == form_is_extent && record.key == wanted
        });
        Ok(found.map_err(|d| self.damaged(d))?.is_some())
    }
}

/// What a lookup looked at.
#[derive(Clone, Copy, Default)]
struct Touched {
    pages: u64,
    keys: u64,
}

/// What one thread's samples have come to. Two lines apart, as processors fetch lines in pairs.
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

/// The counters that are neither the gate's nor the pager's.
pub(super) struct Counters {
    samples: Box<[Samples; SLOT_COUNT]>,
    pub splits: AtomicU64,
    pub contractions: AtomicU64,
    /// Buckets before the first split.
    buckets_at_first: u64,
}

impl Counters {
    pub(super) fn new(max_bucket: linear::Bucket) -> Counters {
        Counters {
            samples: Box::new(std::array::from_fn(|_| Samples::default())),
            splits: AtomicU64::new(0),
            contractions: AtomicU64::new(0),
            buckets_at_first: u64::from(max_bucket) + 1,
        }
    }

    fn count(&self, found: bool, touched: Touched) {
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

    pub(super) fn stats(&self, counted: &Counted, pager: &Pager) -> TableStats {
        let estimate = |part: fn(&Samples) -> &AtomicU64| {
            u64::from(INTERVAL) * self.samples.iter().map(|s| part(s).load(Relaxed)).sum::<u64>()
        };
        let (totals, (puts, removals)) = (counted.totals(), counted.puts_and_removals());
        let (splits, contractions) = (self.splits.load(Relaxed), self.contractions.load(Relaxed));
        let (counts, pool) = (&pager.counts, pager.pool());
        TableStats {
            pairs: totals.pairs,
            payload_bytes: totals.payload_bytes,
            buckets: (self.buckets_at_first + splits).saturating_sub(contractions),
            file_bytes: u64::from(pager.frame_count()) * pager.frame_bytes() as u64,
            memory_bytes: pager.memory_bytes(),
            hits: estimate(|s| &s.hits),
            hit_pages: estimate(|s| &s.hit_pages),
            hit_keys: estimate(|s| &s.hit_keys),
            misses: estimate(|s| &s.misses),
            miss_pages: estimate(|s| &s.miss_pages),
            miss_keys: estimate(|s| &s.miss_keys),
            overflow_lookups: estimate(|s| &s.overflow),
            puts,
            removals,
            splits,
            contractions,
            checkpoints: counts.checkpoints.load(Relaxed),
            frames_read: counts.frames_read.load(Relaxed),
            frames_written: counts.frames_written.load(Relaxed),
            evictions: pool.evictions.load(Relaxed),
            latch_waits: pool.latch_waits.load(Relaxed),
        }
    }
}

// -----------------------------------------------------------------------------------------
// Which lookups are sampled.

/// Lookups a sample stands for.
const INTERVAL: u32 = 512;

thread_local! {
    /// The next sample is the lookup so many on; 0 before the thread's first.
    static LEFT: Cell<u32> = const { Cell::new(0) };
    /// Of the generator that draws it.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Counts a lookup down. `true`: it may be one to sample, so it is to take the latch and ask [`was_due`].
#[inline]
pub(super) fn is_due() -> bool {
    let left = LEFT.get();
    // In a model of threads nothing may depend on what its thread did before.
    if left > 1 || interleave::task().is_some() {
        LEFT.set(left.saturating_sub(1));
        return false;
    }
    LEFT.set(0);
    true
}

/// Is the lookup that is about to end, under the latch, to be sampled?
#[inline]
pub(super) fn was_due() -> bool {
    LEFT.get() == 0 && interleave::task().is_none() && begin_interval()
}

#[cold]
fn begin_interval() -> bool {
    if DRAWN.get() == 0 {
        // In the midst of an interval: a thread of few lookups counts on average for no more and no less.
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
    if tests::ALL.get() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableOptions;

    thread_local! {
        /// Is every lookup of this thread sampled?
        pub(super) static ALL: Cell<bool> = const { Cell::new(false) };
    }

    fn sample_all() {
        ALL.set(true);
        LEFT.set(0);
    }

    const EACH: u64 = INTERVAL as u64;

    #[test]
    fn every_lookup_is_counted_with_what_it_touched() {
        sample_all();
        let table = TableOptions::new().page_bytes(512).seed(1).in_memory().unwrap();
        table.put(b"here", b"1").unwrap();
        for _ in 0..3 {
            table.get(b"here").unwrap();
        }
        assert!(table.contains(b"here").unwrap());
        drop(table.get_ref(b"here").unwrap());
        table.get_many(&["here", "absent", "here"]).unwrap();
        assert!(!table.contains(b"not here").unwrap());
        assert!(table.get_ref(b"not there").unwrap().is_none());
        let stats = table.stats();
        assert_eq!((stats.hits, stats.hit_pages, stats.hit_keys), (7 * EACH, 7 * EACH, 7 * EACH));
        assert_eq!((stats.misses, stats.miss_pages, stats.miss_keys), (3 * EACH, 3 * EACH, 0));
        assert_eq!((stats.lookups(), stats.hit_share(), stats.pages_per_hit()), (10 * EACH, 0.7, 1.0));
        assert_eq!((stats.keys_per_miss(), stats.overflow_share()), (0.0, 0.0));
    }

    #[test]
    fn lookups_in_overflow_pages_touch_two_pages_and_keys_of_the_same_tag_are_compared() {
        sample_all();
        // One bucket for all, as nothing tells its keys apart.
        let table = TableOptions::new().page_bytes(512).user_hash("one", |_| 7).in_memory().unwrap();
        for i in 0..60u8 {
            table.put(&[i; 8], &[i; 8]).unwrap();
        }
        let stat = table.stat().unwrap();
        assert!(stat.overflow_pages == 1 && stat.overflow_pairs > 10, "{stat:?}");
        for i in 0..60u8 {
            assert!(table.contains(&[i; 8]).unwrap());
        }
        let stats = table.stats();
        assert_eq!(stats.hits, 60 * EACH);
        assert_eq!(stats.hit_pages, (60 + stat.overflow_pairs) * EACH);
        assert_eq!(stats.overflow_lookups, stat.overflow_pairs * EACH);
        // Whatever their order in a page, the first is compared with one key, the last with all before it.
        let pairs_here = 60 - stat.overflow_pairs;
        let compared = pairs_here * (pairs_here + 1) / 2
            + stat.overflow_pairs * pairs_here
            + stat.overflow_pairs * (stat.overflow_pairs + 1) / 2;
        assert_eq!(stats.hit_keys, compared * EACH);
        assert!(!table.contains(b"absent").unwrap());
        assert_eq!(table.stats().miss_keys, 60 * EACH);
    }

    #[test]
    fn changes_are_counted_one_by_one() {
        let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
        for i in 0..2000u32 {
            table.put(&i.to_le_bytes(), b"1").unwrap();
        }
        table.append(&0u32.to_le_bytes(), b"2").unwrap();
        assert!(!table.insert(&0u32.to_le_bytes(), b"3").unwrap());
        assert!(!table.remove(b"absent").unwrap());
        let mut batch = table.batch();
        batch.put(b"batch", b"1").unwrap();
        batch.remove(&1u32.to_le_bytes()).unwrap();
        batch.commit().unwrap();
        let stats = table.stats();
        assert_eq!((stats.puts, stats.removals, stats.pairs), (2002, 1, 2000));
        let stat = table.stat().unwrap();
        assert_eq!((stats.buckets, stats.splits), (stat.buckets, stat.splits));
        assert!(stats.splits > 10, "{stats:?}");
        for i in 1..2000u32 {
            table.remove(&i.to_le_bytes()).unwrap();
        }
        let later = table.stats();
        assert_eq!((later.removals, later.buckets), (1999, table.stat().unwrap().buckets));
        assert!(later.contractions > 10, "{later:?}");
        let since = later.since(&stats);
        assert_eq!((since.puts, since.removals, since.pairs), (0, 1998, 2));
    }

    #[test]
    fn samples_of_many_threads_add_up_to_about_all_lookups() {
        // Threads of few lookups and of many; hits and misses in turn, which an even interval would not tell apart.
        let table = TableOptions::new().in_memory().unwrap();
        table.put(b"here", b"1").unwrap();
        const THREADS: u64 = 200;
        const LOOKUPS: u64 = 2 * (THREADS / 2 * 10 + THREADS / 2 * 4000);
        for thread in 0..THREADS {
            let lookups = if thread % 2 == 0 { 10 } else { 4000 };
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..lookups {
                        table.get(b"here").unwrap();
                        table.contains(b"absent").unwrap();
                    }
                });
            });
        }
        let stats = table.stats();
        // Five times what chance alone makes of it; the draws are the same ones each run, but for which thread has which.
        let error = 5.0 * (f64::from(INTERVAL) * LOOKUPS as f64).sqrt();
        assert!((stats.lookups() as f64 - LOOKUPS as f64).abs() < error, "{stats:?}, of {LOOKUPS}");
        assert!((stats.hits as f64 - stats.misses as f64).abs() < error, "{stats:?}");
    }

    #[test]
    fn many_at_a_time_are_sampled_as_often_as_one_by_one() {
        let table = TableOptions::new().in_memory().unwrap();
        table.put(b"here", b"1").unwrap();
        const WINDOWS: u64 = 4000;
        for _ in 0..WINDOWS {
            table.get_many_with(&[b"here"; 32], |_, _| {}).unwrap();
        }
        let (hits, error) = (table.stats().hits as f64, 5.0 * (f64::from(INTERVAL) * 32.0 * WINDOWS as f64).sqrt());
        assert!((hits - 32.0 * WINDOWS as f64).abs() < error, "{hits}");
    }

    #[test]
    fn frames_and_checkpoints_of_a_file_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.spt");
        let options = || TableOptions::new().cache_bytes(1 << 20);
        let table = options().open(&path).unwrap();
        for i in 0..100_000u32 {
            table.put(&i.to_le_bytes(), &[0; 40]).unwrap();
        }
        let stats = table.stats();
        assert!(stats.checkpoints > 1 && stats.frames_written > 256 && stats.evictions > 0, "{stats:?}");
        assert_eq!(stats.pairs, 100_000);
        assert_eq!(stats.payload_bytes, 44 * 100_000);
        table.close().unwrap();
        let table = options().open(&path).unwrap();
        for i in 0..100_000u32 {
            table.get(&i.to_le_bytes()).unwrap();
        }
        let stats = table.stats();
        let frames = stats.file_bytes / 4096;
        assert!(stats.frames_read > frames / 2 && stats.puts == 0, "{stats:?}");
        assert!(stats.memory_bytes < 2 << 20, "{stats:?}");
    }

    #[test]
    fn numbers_keep_their_places() {
        let words = std::array::from_fn(|i| i as u64 + 1);
        assert_eq!(TableStats::from_words(words).to_words(), words);
        assert_eq!(TableStats::from_words([u64::MAX; COUNT]).lookups(), u64::MAX);
    }
}
