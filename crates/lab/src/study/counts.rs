//! The number of keys in each bucket, one byte per bucket: a hundred million buckets take 100 MB for each function.
//!
//! Counts above 255 continue in a map. A good function never fills a bucket that far; for a bad one the map has at most
//! one entry for every 255 keys.

use std::collections::{BTreeMap, HashMap};

/// The number of keys in each bucket.
pub(super) struct Counts {
    small: Vec<u8>,
    /// For each full bucket, its keys beyond [`u8::MAX`].
    more: HashMap<usize, u64>,
}

impl Counts {
    /// Creates counts for `buckets` empty buckets.
    pub fn new(buckets: usize) -> Self {
        Counts { small: vec![0; buckets], more: HashMap::new() }
    }

    /// Counts one key in `bucket`.
    #[inline]
    pub fn add(&mut self, bucket: usize) {
        match self.small[bucket].checked_add(1) {
            Some(count) => self.small[bucket] = count,
            None => *self.more.entry(bucket).or_default() += 1,
        }
    }

    /// Returns the number of buckets.
    pub fn len(&self) -> usize {
        self.small.len()
    }

    /// Returns the number of keys in `bucket`.
    #[inline]
    pub fn get(&self, bucket: usize) -> u64 {
        let small = self.small[bucket];
        match small {
            u8::MAX => u64::from(small) + self.more.get(&bucket).copied().unwrap_or(0),
            _ => small.into(),
        }
    }

    /// Iterates over the number of keys in each bucket, in bucket order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        let each = self.small.iter().enumerate();
        each.map(|(bucket, &small)| if small == u8::MAX { self.get(bucket) } else { small.into() })
    }

    /// Returns the number of buckets of each size, by size.
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        let mut small = [0; u8::MAX as usize];
        let mut sizes = BTreeMap::new();
        for (bucket, &size) in self.small.iter().enumerate() {
            match small.get_mut(usize::from(size)) {
                Some(buckets) => *buckets += 1,
                None => *sizes.entry(self.get(bucket)).or_default() += 1,
            }
        }
        sizes.extend((0..).zip(small).filter(|(_, buckets)| *buckets > 0));
        sizes
    }

    /// Halves the number of buckets in place, as if one hash bit fewer selected the bucket.
    pub fn fold(&mut self) {
        let half = self.len() / 2;
        for bucket in 0..half {
            let sum = self.get(bucket) + self.get(bucket + half);
            self.set(bucket, sum);
        }
        self.small.truncate(half);
        self.small.shrink_to_fit();
        self.more.retain(|bucket, _| *bucket < half);
    }

    fn set(&mut self, bucket: usize, count: u64) {
        match u8::try_from(count) {
            Ok(small) => {
                if self.small[bucket] == u8::MAX {
                    self.more.remove(&bucket);
                }
                self.small[bucket] = small;
            }
            Err(_) => {
                self.small[bucket] = u8::MAX;
                self.more.insert(bucket, count - u64::from(u8::MAX));
            }
        }
    }

    /// Returns the bucket with the most keys; of several, the first.
    pub fn largest(&self) -> usize {
        let most = self.iter().max().unwrap_or(0);
        self.iter().position(|count| count == most).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_continue_above_a_byte_and_fold_into_sums() {
        let mut counts = Counts::new(4);
        for (bucket, keys) in [(0, 254), (1, 255), (2, 1), (3, 700)] {
            (0..keys).for_each(|_| counts.add(bucket));
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [254, 255, 1, 700]);
        assert_eq!(counts.largest(), 3);
        assert_eq!(counts.sizes().into_iter().collect::<Vec<_>>(), [(1, 1), (254, 1), (255, 1), (700, 1)]);
        counts.fold();
        assert_eq!(counts.iter().collect::<Vec<_>>(), [255, 955]);
        counts.fold();
        assert_eq!(counts.iter().collect::<Vec<_>>(), [1210]);
    }
}
