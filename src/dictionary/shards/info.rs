//! The public description of a shard.

use std::path::PathBuf;

/// A file of a dictionary, and the slots whose keys it has. Returned by
/// [`Dictionary::shards`](crate::Dictionary::shards).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardInfo {
    /// Its number in the order of slots, from 0.
    pub number: usize,
    /// The path of its file.
    pub path: PathBuf,
    /// The first of its slots, which are consecutive.
    pub first_slot: u16,
    /// The last of its slots.
    pub last_slot: u16,
    /// The number of its pairs.
    pub pairs: u64,
}
