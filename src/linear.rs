//! Linear hashing: which bucket holds a hash, which bucket splits next, where a bucket lies.
//!
//! A table starts with one bucket and grows by one bucket at a time. Buckets split in order
//! 0, 1, 2, ... whatever bucket is full; when all buckets of a generation have split, the table
//! has doubled and the order starts again at 0. `max_bucket`, the highest bucket there is, is
//! the only state:
//!
//! ```text
//! max_bucket = 5:   high_mask = 7, low_mask = 3
//!   bucket   0   1   2   3 | 4   5  (6) (7)      0 and 1 have split into 0,4 and 1,5;
//!                                                2 splits next, into 2 and 6
//! ```
//!
//! Read backwards (`reverse_bits`), the bits that name a bucket are a *prefix* of the hash. That
//! is **hash order**: the order of all pairs by reversed hash, in which every bucket is one
//! interval. A scan walks it and needs to remember one number.
//!
//! Source: Seltzer & Yigit 1991, "dynahash" and "The New Implementation"; Litwin 1980; Larson 1988.
//! Not here: pages, files, keys. Integers only.

/// The number of a bucket, from 0.
pub type Bucket = u32;

/// The bucket that holds hash `h` while `max_bucket` is the highest bucket.
#[inline]
pub fn bucket(h: u64, max_bucket: Bucket) -> Bucket {
    let high_mask = high_mask(max_bucket);
    let bucket = h & high_mask;
    // A bucket that does not exist yet: its pairs still wait in the one it will split from.
    if bucket > u64::from(max_bucket) { (bucket & (high_mask >> 1)) as Bucket } else { bucket as Bucket }
}

/// All ones, wide enough to name every bucket of the generation that `max_bucket` belongs to.
#[inline]
fn high_mask(max_bucket: Bucket) -> u64 {
    // max_bucket = 0 has width 0; 1 -> 1; 2, 3 -> 3; 4..=7 -> 7.
    u64::MAX.checked_shr(u64::from(max_bucket).leading_zeros()).unwrap_or(0)
}

/// How many low bits of a hash decide that it lies in `bucket` while `max_bucket` is the highest.
#[inline]
pub fn level(bucket: Bucket, max_bucket: Bucket) -> u32 {
    let high_bits = 64 - u64::from(max_bucket).leading_zeros();
    if high_bits == 0 {
        return 0;
    }
    let buddy = u64::from(bucket) | 1 << (high_bits - 1);
    // It has already split in this generation, or came of such a split, if its buddy exists.
    if buddy <= u64::from(max_bucket) { high_bits } else { high_bits - 1 }
}

/// Does `h` lie in `bucket`, if `level` of its bits count?
#[inline]
pub fn belongs(h: u64, bucket: Bucket, level: u32) -> bool {
    (h ^ u64::from(bucket)) & low_bits(level) == 0
}

/// The bucket that gives pairs to `new_bucket` when the table grows by it, and takes them back when it shrinks.
#[inline]
pub fn split_source(new_bucket: Bucket) -> Bucket {
    debug_assert!(new_bucket > 0, "bucket 0 is there from the start");
    // `new_bucket` without its highest bit.
    new_bucket & !(1 << (31 - new_bucket.leading_zeros()))
}

/// The first bucket count, at least `bucket_count`, at which a presized table may start: a power of two.
pub fn presize(bucket_count: u64) -> Bucket {
    let count = bucket_count.clamp(1, 1 << 31).next_power_of_two();
    (count - 1) as Bucket
}

/// `level` ones.
#[inline]
pub fn low_bits(level: u32) -> u64 {
    if level >= 64 { u64::MAX } else { (1 << level) - 1 }
}

/// Where a hash stands in hash order.
#[inline]
pub fn position(h: u64) -> u64 {
    h.reverse_bits()
}

/// The position after the last one that belongs to the bucket of `level` bits around `position`;
/// `None` at the end of hash order.
pub fn next_bucket_position(position: u64, level: u32) -> Option<u64> {
    let inside = if level == 0 { u64::MAX } else { u64::MAX.checked_shr(level).unwrap_or(0) };
    (position | inside).checked_add(1)
}

// ---------------------------------------------------------------------------------------------
// Groups: buckets that are made one after another lie side by side.
//
// A generation doubles the table, so a generation's buckets are one group, allocated at once. From
// generation FIRST_PHASED on that would be much at a time, and a group is a part of a generation.

/// Generations below this one are a single group each.
const FIRST_PHASED: u32 = 10;
/// Groups a generation has from `FIRST_PHASED` on. A power of two.
const PHASES: u32 = 32;
/// More groups than 2^32 buckets can have.
pub const GROUP_COUNT: usize = (FIRST_PHASED + (33 - FIRST_PHASED) * PHASES) as usize;

/// The group a bucket lies in, and which bucket of the group it is.
#[inline]
pub fn group(bucket: Bucket) -> (usize, u32) {
    // Generation 0 is bucket 0; generation g > 0 is buckets 2^(g-1) to 2^g - 1.
    let generation = 32 - bucket.leading_zeros();
    if generation < FIRST_PHASED {
        let first = if generation == 0 { 0 } else { 1 << (generation - 1) };
        return (generation as usize, bucket - first);
    }
    let phase_bits = generation - 1 - PHASES.trailing_zeros();
    let phase = (bucket >> phase_bits) & (PHASES - 1);
    let index = FIRST_PHASED + (generation - FIRST_PHASED) * PHASES + phase;
    (index as usize, bucket & low_bits(phase_bits) as u32)
}

/// How many buckets group `index` has.
pub fn group_len(index: usize) -> u32 {
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

    /// The paper's text, word for word, with its two masks kept by hand.
    struct Paper {
        max_bucket: u32,
        low_mask: u64,
        high_mask: u64,
    }

    impl Paper {
        fn address(&self, h: u64) -> u32 {
            let bucket = h & self.high_mask;
            if bucket > u64::from(self.max_bucket) { (h & self.low_mask) as u32 } else { bucket as u32 }
        }
        fn grow(&mut self) {
            self.max_bucket += 1;
            if u64::from(self.max_bucket) > self.high_mask {
                self.low_mask = self.high_mask;
                self.high_mask = self.low_mask << 1 | 1;
            }
        }
    }

    fn hashes() -> impl Iterator<Item = u64> {
        (0..500u64).map(|i| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).chain([0, u64::MAX])
    }

    #[test]
    fn bucket_is_the_papers_address() {
        let mut paper = Paper { max_bucket: 0, low_mask: 0, high_mask: 0 };
        for _ in 0..1100 {
            for h in hashes() {
                assert_eq!(bucket(h, paper.max_bucket), paper.address(h));
            }
            paper.grow();
        }
    }

    #[test]
    fn after_one_split_every_hash_stays_or_moves_from_the_split_bucket_to_the_new_one() {
        for max_bucket in (0..1100).chain([u32::MAX - 2]) {
            let new = max_bucket + 1;
            let mut moved = 0;
            for h in hashes() {
                let (before, after) = (bucket(h, max_bucket), bucket(h, new));
                if before != after {
                    assert_eq!((before, after), (split_source(new), new), "hash {h:x}");
                    moved += 1;
                }
            }
            assert!(moved > 0 || max_bucket > 100, "a split of a small table moves something");
        }
    }

    #[test]
    fn level_is_the_number_of_bits_that_name_a_bucket() {
        for max_bucket in 0..600 {
            for h in hashes() {
                let b = bucket(h, max_bucket);
                assert!(belongs(h, b, level(b, max_bucket)));
            }
            for b in 0..=max_bucket {
                let bits = level(b, max_bucket);
                assert!(u64::from(b) <= low_bits(bits));
                // Any hash with these low bits lies there; flipping the top one leads elsewhere.
                assert_eq!(bucket(u64::from(b) | !low_bits(bits), max_bucket), b);
                if bits > 0 {
                    assert_ne!(bucket(u64::from(b) ^ 1 << (bits - 1), max_bucket), b);
                }
            }
        }
    }

    #[test]
    fn walking_positions_meets_every_bucket_once_in_hash_order() {
        for max_bucket in 0..600 {
            let mut seen = vec![false; max_bucket as usize + 1];
            let mut position = Some(0u64);
            while let Some(p) = position {
                let b = bucket(p.reverse_bits(), max_bucket);
                assert!(!std::mem::replace(&mut seen[b as usize], true), "bucket {b} twice");
                position = next_bucket_position(p, level(b, max_bucket));
            }
            assert!(seen.iter().all(|&s| s));
        }
    }

    #[test]
    fn groups_cover_all_buckets_side_by_side() {
        let mut expected = (0, 0);
        for b in 0..100_000 {
            assert_eq!(group(b), expected, "bucket {b}");
            expected.1 += 1;
            if expected.1 == group_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        let (last, offset) = group(u32::MAX);
        assert!(last < GROUP_COUNT);
        assert_eq!(offset + 1, group_len(last));
    }
}
