//! Digests: which input was used, and whether a store holds what it should.
//!
//! That of an input depends on the order, that of a store's pairs does not, as every store has its own: it is the sum of
//! the digests of all pairs. So a store's can be known from the input alone.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Of one pair.
pub fn of_pair(key: &[u8], value: &[u8]) -> u64 {
    xxh3_64_with_seed(value, xxh3_64(key))
}

/// Of a sequence of pairs, in order.
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

/// Of a set of pairs, in whatever order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// How many.
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

    /// Adds to a pair that was added before.
    pub fn extend(&mut self, digest: u64, bytes: usize) {
        self.payload_bytes += bytes as u64;
        self.sum = self.sum.wrapping_add(digest);
    }

    /// Takes a pair out that was added.
    pub fn take_out(&mut self, pair: u64, bytes: usize) {
        self.pairs -= 1;
        self.payload_bytes -= bytes as u64;
        self.sum = self.sum.wrapping_sub(pair);
    }

    /// The sum, as results and workload files have it.
    pub fn digest(&self) -> String {
        format!("{:016x}", self.sum)
    }
}
