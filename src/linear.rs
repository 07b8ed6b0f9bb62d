//! Linear hashing: which bucket holds a hash, which bucket splits next, which buckets are allocated together.
//!
//! A table starts with one bucket and grows by one bucket at a time. Buckets split in the order 0, 1, 2, ...,
//! regardless of which bucket is full. When every bucket of a generation has split, the table has doubled, and the
//! order starts again at 0. The highest bucket number is the only state: [`State`] holds it and does the arithmetic.
//!
//! ```text
//! max_bucket = 5:   high_mask = 7, low_mask = 3
//!   bucket   0   1   2   3 | 4   5  (6) (7)      0 and 1 have split into 0,4 and 1,5;
//!                                                2 splits next, into 2 and 6
//! ```
//!
//! The low bits of a hash name its bucket. With the bits reversed they are a *prefix*, so each bucket is one interval
//! of **hash order**, the order by reversed hash. A scan in hash order stores one number to resume, a [`Position`], and
//! that number stays valid while buckets split and merge.
//!
//! Units: buckets are numbered from 0, levels and generations count bits, positions are 64-bit integers.
//! Cost: every function is a few instructions on integers, without I/O, allocation or loops.
//!
//! Source: Litwin 1980, "Linear Hashing"; Larson 1988, "Dynamic Hash Tables"; Seltzer & Yigit 1991, "dynahash" and "The
//! New Implementation". Differs: tables also shrink, by reverse splits; large generations are allocated in phases.
//! Not here: pages, keys, and when to split (`buckets/split.rs`).
//!
//! # Examples
//!
//! A hash set that grows by one bucket for every insert:
//!
//! ```
//! use splitpoint::linear::{Split, State};
//!
//! let mut state = State::default();
//! let mut buckets = vec![Vec::new()];
//! for hash in [10, 11, 12, 13, 14_u64] {
//!     buckets[state.bucket_of(hash) as usize].push(hash);
//!     let Some(split) = state.split() else { break };
//!     let Split { source, .. } = split;
//!     let (moved, kept) = buckets[source as usize].drain(..).partition(|&hash| split.moves(hash));
//!     buckets[source as usize] = kept;
//!     buckets.push(moved);
//! }
//! assert_eq!(state.max_bucket, 5);
//! assert_eq!(buckets, [vec![], vec![], vec![10, 14], vec![11], vec![12], vec![13]]);
//! ```

/// The number of a bucket, from 0.
pub type Bucket = u32;

/// The existing buckets: 0 to `max_bucket`. Every value of the field is a legal state.
///
/// The default is a table of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The highest bucket number (the paper's *hashm_maxbucket*).
    pub max_bucket: Bucket,
}

impl State {
    /// The state whose highest bucket is `max_bucket`.
    #[inline]
    pub const fn new(max_bucket: Bucket) -> State {
        State { max_bucket }
    }

    /// A state in which to start a table of `bucket_count` expected buckets: rounded up to a power of two, at most
    /// 2^31.
    ///
    /// At a power of two every bucket has the same level, so all are expected to be equally full.
    pub fn presized(bucket_count: u64) -> State {
        State::new((bucket_count.clamp(1, 1 << 31).next_power_of_two() - 1) as Bucket)
    }

    /// The number of buckets, 1 to 2^32.
    #[inline]
    pub const fn bucket_count(self) -> u64 {
        self.max_bucket as u64 + 1
    }

    /// The bucket that holds `hash`.
    #[inline]
    pub fn bucket_of(self, hash: u64) -> Bucket {
        // `high_mask()`, but one bit for a single bucket, which the comparison clears: no case apart for it.
        let high_mask = u64::MAX >> (u64::from(self.max_bucket) | 1).leading_zeros();
        let bucket = hash & high_mask;
        // A bucket that does not exist yet: its pairs are still in the bucket that it will split from.
        if bucket > u64::from(self.max_bucket) { (bucket & (high_mask >> 1)) as Bucket } else { bucket as Bucket }
    }

    /// The low bits of a hash that name a bucket once the current generation is complete.
    #[inline]
    #[doc(hidden)] // the laboratory's
    pub fn high_mask(self) -> u64 {
        // max_bucket = 0 has width 0; 1 -> 1; 2, 3 -> 3; 4..=7 -> 7.
        u64::MAX.checked_shr(u64::from(self.max_bucket).leading_zeros()).unwrap_or(0)
    }

    /// The low bits of a hash that named a bucket when the current generation began.
    #[inline]
    #[doc(hidden)] // the laboratory's
    pub fn low_mask(self) -> u64 {
        self.high_mask() >> 1
    }

    /// The number of times the table has begun to double: 0 for one bucket, then the bits of `max_bucket`, up to 32.
    #[inline]
    pub fn generation(self) -> u32 {
        generation(self.max_bucket)
    }

    /// The number of low bits of a hash that name `bucket`: the generation, or one less if `bucket` has yet to split.
    ///
    /// Meaningless for a bucket that does not exist.
    #[inline]
    pub fn level(self, bucket: Bucket) -> u32 {
        let high_bits = 64 - u64::from(self.max_bucket).leading_zeros();
        if high_bits == 0 {
            return 0;
        }
        let buddy = u64::from(bucket) | 1 << (high_bits - 1);
        // If its buddy exists, the bucket has split in this generation, or is the new bucket of such a split.
        if buddy <= u64::from(self.max_bucket) { high_bits } else { high_bits - 1 }
    }

    /// Adds a bucket, and says which bucket splits. `None` if all 2^32 buckets exist; the state is then unchanged.
    #[inline]
    pub fn split(&mut self) -> Option<Split> {
        let new = self.max_bucket.checked_add(1)?;
        self.max_bucket = new;
        Some(Split::into(new))
    }

    /// Removes the last bucket, and says which split that reverses. `None` at one bucket; the state is then unchanged.
    #[inline]
    pub fn merge(&mut self) -> Option<Split> {
        let last = self.max_bucket;
        self.max_bucket = last.checked_sub(1)?;
        Some(Split::into(last))
    }

    /// The first position after the bucket that contains `position`: where the next bucket in hash order starts.
    /// `None` after the last bucket.
    #[inline]
    pub fn next_bucket(self, position: Position) -> Option<Position> {
        position.after_bucket(self.level(self.bucket_of(position.hash())))
    }
}

/// One split: some pairs of `source` move to `new`. A merge is the reverse: all pairs of `new` move back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Split {
    /// The bucket that splits.
    pub source: Bucket,
    /// The bucket that is added.
    pub new: Bucket,
}

impl Split {
    /// The split that adds `new`, which is not 0. Its source is `new` without its highest bit.
    #[inline]
    fn into(new: Bucket) -> Split {
        Split { source: new & !(1 << (31 - new.leading_zeros())), new }
    }

    /// The level of both buckets after the split. Before it, the source has one less.
    #[inline]
    pub fn level(self) -> u32 {
        generation(self.new)
    }

    /// [`moves`](Self::moves) as a number, 1 if it does: for loops without a branch that is taken every other time.
    #[inline]
    pub(crate) fn moved(self, hash: u64) -> u64 {
        hash >> (self.level() - 1) & 1 // `new` is not 0, and its highest bit is the one in which the two differ
    }

    /// Whether a pair of `source` whose key has `hash` moves to `new`.
    #[inline]
    pub fn moves(self, hash: u64) -> bool {
        hash & u64::from(self.source ^ self.new) != 0
    }
}

/// A place in hash order: a hash with its 64 bits reversed.
///
/// A scan that stops at a position can resume there in a later run, whatever splits and merges happened in between.
///
/// ```
/// use splitpoint::linear::{Position, State};
///
/// // Six buckets in hash order, as a scan visits them.
/// let state = State::new(5);
/// let starts = std::iter::successors(Some(Position(0)), |&position| state.next_bucket(position));
/// let order: Vec<u32> = starts.map(|position| state.bucket_of(position.hash())).collect();
/// assert_eq!(order, [0, 4, 2, 1, 5, 3]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The position of `hash`.
    #[inline]
    pub fn of(hash: u64) -> Position {
        Position(hash.reverse_bits())
    }

    /// The first position after the bucket of `level` bits that contains this one; `None` after the last bucket.
    #[inline]
    pub(crate) fn after_bucket(self, level: u32) -> Option<Position> {
        let last = self.0 | u64::MAX.checked_shr(level).unwrap_or(0);
        last.checked_add(1).map(Position)
    }

    /// The hash at this position.
    #[inline]
    pub fn hash(self) -> u64 {
        self.0.reverse_bits()
    }
}

/// The lowest `level` bits set.
#[inline]
pub(crate) fn low_bits(level: u32) -> u64 {
    if level >= 64 { u64::MAX } else { (1 << level) - 1 }
}

/// The generation that adds `bucket`: 0 adds bucket 0, generation g > 0 adds buckets 2^(g-1) to 2^g - 1.
#[inline]
fn generation(bucket: Bucket) -> u32 {
    32 - bucket.leading_zeros()
}

// ---------------------------------------------------------------------------------------------
// Groups: runs of consecutive buckets whose primary pages are allocated together.
//
// A small generation is one group. Allocating a large generation at once would double the file in one step, so from
// FIRST_PHASED on a generation is allocated in phases, one group each.

/// Generations below this one are a single group each.
const FIRST_PHASED: u32 = 10;
/// Groups in a generation from `FIRST_PHASED` on. A power of two.
const PHASES: u32 = 32;
/// The number of groups of 2^32 buckets.
#[doc(hidden)] // the tests of the format
pub const GROUP_COUNT: usize = (FIRST_PHASED + (33 - FIRST_PHASED) * PHASES) as usize;

/// The group that contains `bucket`, and the index of `bucket` in that group.
///
/// ```
/// use splitpoint::linear::{group, group_len};
///
/// assert_eq!([0, 1, 2, 3, 4].map(group), [(0, 0), (1, 0), (2, 0), (2, 1), (3, 0)]);
/// assert_eq!([0, 1, 2, 3, 4].map(group_len), [1, 1, 2, 4, 8]);
/// ```
#[inline]
#[doc(hidden)] // the laboratory's
pub fn group(bucket: Bucket) -> (usize, u32) {
    const PHASE_BITS: u32 = PHASES.trailing_zeros();
    if bucket < 1 << (FIRST_PHASED - 1) {
        let generation = generation(bucket);
        let first = if generation == 0 { 0 } else { 1 << (generation - 1) };
        return (generation as usize, bucket - first);
    }
    // The highest bit of the bucket is the generation, the next five are the phase, the rest is the index.
    // Not `ilog2`: the compiler would keep the leading zeros, which take two instructions more.
    let highest = bucket.leading_zeros() ^ (u32::BITS - 1);
    let rest = highest - PHASE_BITS;
    let index = FIRST_PHASED + (highest + 1 - FIRST_PHASED) * PHASES + (bucket >> rest) - PHASES;
    (index as usize, bucket & ((1 << rest) - 1))
}

/// The number of buckets in group `index`: 0 from [`GROUP_COUNT`] on.
#[doc(hidden)] // the laboratory's
pub fn group_len(index: usize) -> u32 {
    if index >= GROUP_COUNT {
        return 0;
    }
    let index = index as u32;
    if index < FIRST_PHASED {
        return if index == 0 { 1 } else { 1 << (index - 1) };
    }
    let generation = FIRST_PHASED + (index - FIRST_PHASED) / PHASES;
    1 << (generation - 1 - PHASES.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's text, with its two masks updated step by step.
    struct Paper {
        max_bucket: u32,
        low_mask: u64,
        high_mask: u64,
    }

    impl Paper {
        fn address(&self, hash: u64) -> u32 {
            let bucket = hash & self.high_mask;
            if bucket > u64::from(self.max_bucket) { (hash & self.low_mask) as u32 } else { bucket as u32 }
        }
        fn expand(&mut self) -> Split {
            self.max_bucket += 1;
            if u64::from(self.max_bucket) > self.high_mask {
                self.low_mask = self.high_mask;
                self.high_mask = u64::from(self.max_bucket) | self.low_mask;
            }
            Split { source: (u64::from(self.max_bucket) & self.low_mask) as u32, new: self.max_bucket }
        }
    }

    fn hashes() -> impl Iterator<Item = u64> {
        (0..500u64).map(|i| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).chain([0, u64::MAX])
    }

    #[test]
    fn masks_buckets_and_splits_are_the_papers() {
        let mut paper = Paper { max_bucket: 0, low_mask: 0, high_mask: 0 };
        let mut state = State::default();
        for _ in 0..1100 {
            assert_eq!((state.low_mask(), state.high_mask()), (paper.low_mask, paper.high_mask), "{state:?}");
            assert_eq!(state.high_mask(), low_bits(state.generation()), "{state:?}");
            for hash in hashes() {
                assert_eq!(state.bucket_of(hash), paper.address(hash), "{state:?}, hash {hash:x}");
            }
            assert_eq!(state.split(), Some(paper.expand()));
        }
    }

    #[test]
    fn a_split_moves_pairs_only_from_its_source_to_the_new_bucket() {
        for max_bucket in (0..1100).chain([u32::MAX - 2, u32::MAX - 1]) {
            let before = State::new(max_bucket);
            let mut after = before;
            let split = after.split().unwrap();
            let Split { source, new } = split;
            assert_eq!((new, after.max_bucket), (max_bucket + 1, max_bucket + 1));
            assert_eq!([before.level(source) + 1, after.level(source), after.level(new)], [split.level(); 3]);
            let mut moved = 0;
            for hash in hashes() {
                let (old, now) = (before.bucket_of(hash), after.bucket_of(hash));
                assert!(old == now || (old, now) == (source, new), "{split:?}: hash {hash:x} went from {old} to {now}");
                assert!(old != source || split.moves(hash) == (now == new), "{split:?}, hash {hash:x}");
                assert_eq!(split.moved(hash), u64::from(split.moves(hash)), "{split:?}, hash {hash:x}");
                moved += u32::from(old != now);
            }
            assert!(moved > 0 || max_bucket > 100, "a split of a small table moves something");
        }
    }

    #[test]
    fn buckets_split_in_order_and_each_generation_starts_again_at_0() {
        let mut state = State::default();
        let order: Vec<_> = (0..8).filter_map(|_| state.split()).map(|split| (split.source, split.new)).collect();
        assert_eq!(order, [(0, 1), (0, 2), (1, 3), (0, 4), (1, 5), (2, 6), (3, 7), (0, 8)]);
        assert_eq!([0b1000, 0b1001, 0b0111].map(|hash| state.bucket_of(hash)), [8, 1, 7]);
    }

    #[test]
    fn a_merge_reverses_the_last_split() {
        for max_bucket in (0..1100).chain([u32::MAX - 1]) {
            let mut state = State::new(max_bucket);
            let split = state.split();
            assert_eq!((state.merge(), state), (split, State::new(max_bucket)));
        }
    }

    #[test]
    fn the_smallest_and_the_largest_table_stay_as_they_are() {
        let (mut one, mut all) = (State::default(), State::new(u32::MAX));
        assert_eq!((one.merge(), one.bucket_count(), one.generation()), (None, 1, 0));
        assert_eq!((all.split(), all.bucket_count(), all.generation()), (None, 1 << 32, 32));
        assert_eq!(all.bucket_of(u64::MAX), u32::MAX);
    }

    #[test]
    fn presized_rounds_up_to_a_power_of_two() {
        let counts = [0, 1, 2, 3, 1000, 1 << 31, u64::MAX].map(|count| State::presized(count).bucket_count());
        assert_eq!(counts, [1, 1, 2, 4, 1024, 1 << 31, 1 << 31]);
    }

    #[test]
    fn level_is_the_number_of_bits_that_name_a_bucket() {
        for state in (0..600).map(State::new) {
            for bucket in 0..=state.max_bucket {
                let level = state.level(bucket);
                assert!(u64::from(bucket) <= low_bits(level));
                // Any hash with these low bits is in the bucket; with the highest of them flipped it is in another.
                assert_eq!(state.bucket_of(u64::from(bucket) | !low_bits(level)), bucket);
                if level > 0 {
                    assert_ne!(state.bucket_of(u64::from(bucket) ^ 1 << (level - 1)), bucket);
                }
            }
        }
    }

    #[test]
    fn hash_order_visits_every_bucket_once_as_one_interval() {
        for state in (0..600).map(State::new) {
            let mut seen = vec![false; state.max_bucket as usize + 1];
            let mut next = Some(Position(0));
            while let Some(start) = next {
                let bucket = state.bucket_of(start.hash());
                assert!(!std::mem::replace(&mut seen[bucket as usize], true), "bucket {bucket} twice");
                next = state.next_bucket(start);
                let last = Position(next.map_or(u64::MAX, |next| next.0 - 1));
                assert_eq!(state.bucket_of(last.hash()), bucket, "{state:?}, {last:?}");
            }
            assert!(seen.iter().all(|&seen| seen));
        }
    }

    #[test]
    fn groups_cover_all_buckets_in_order() {
        let mut expected = (0, 0);
        for bucket in 0..100_000 {
            assert_eq!(group(bucket), expected, "bucket {bucket}");
            expected.1 += 1;
            if expected.1 == group_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (last, index) = group(u32::MAX);
        assert_eq!((last + 1, index + 1), (GROUP_COUNT, group_len(last)));
        assert_eq!([GROUP_COUNT, usize::MAX].map(group_len), [0, 0]);
    }
}
