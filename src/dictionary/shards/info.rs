//! What users see of a shard.

use std::path::PathBuf;

/// A file of a dictionary, and the slots whose keys it has. [`Dictionary::shards`](crate::Dictionary::shards) lists
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardInfo {
    /// Its place in the order of slots, from 0.
    pub number: usize,
    /// Its file.
    pub path: PathBuf,
    /// The first of its slots, which lie one behind another.
    pub first_slot: u16,
    /// The last of its slots.
    pub last_slot: u16,
    /// Its pairs.
    pub pairs: u64,
}
