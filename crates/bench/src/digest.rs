//! Digests: which input was used, and whether a store holds the right pairs.
//!
//! The digest of an input depends on the order. The digest of a store's pairs does not, because every store has its
//! own order: it is the sum of the digests of all pairs. A store's digest can therefore be computed from the input
//! alone.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Digest of one pair.
pub fn of_pair(key: &[u8], value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, xxh3_64(key))
}

/// Digest of a sequence of pairs, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputDigest(u64);

impl InputDigest {
    /// Adds the next pair, by its digest.
    pub fn add(&mut self, pair: u64) {
        self.0 = crate::random::mix(self.0 ^ pair);
    }
}

impl std::fmt::Display for InputDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Digest of a set of pairs, independent of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of pairs.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub payload_bytes: u64,
    sum: u64,
}

impl Contents {
    /// Adds a pair, by its digest.
    pub fn add(&mut self, pair: u64, bytes: usize) {
        self.pairs += 1;
        self.payload_bytes += bytes as u64;
        self.sum = self.sum.wrapping_add(pair);
    }

    /// Extends the value of a pair that was added before.
    pub fn extend(&mut self, digest: u64, bytes: usize) {
        self.payload_bytes += bytes as u64;
        self.sum = self.sum.wrapping_add(digest);
    }

    /// Removes a pair that was added.
    pub fn take_out(&mut self, pair: u64, bytes: usize) {
        self.pairs -= 1;
        self.payload_bytes -= bytes as u64;
        self.sum = self.sum.wrapping_sub(pair);
    }

    /// Returns the sum, as written in results and workload files.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.sum)
    }
}
