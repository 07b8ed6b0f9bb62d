//! sdbm: addresses buckets like dbm, with a radix trie stored as an array of bits.
//!
//! ```text
//! the children of node i are 2i + 1 (hash bit 0) and 2i + 2 (hash bit 1); a set bit: the node has split
//!             0
//!         1       2            hash 01, from the low bit: node 0, then 2, then 5;
//!       3   4   5   6          the hash bits used are the bucket number
//! ```
//!
//! Equal hashes would split without end, so an insert fails after [`SPLITS_MAX`] splits.
//!
//! Source: Seltzer & Yigit 1991, "sdbm", after Larson 1978; the limit is the program's.

use super::pages::Pages;
use super::{Figures, Found, Function, HASH_BITS, Pair, Refused, Scheme};
use std::collections::HashSet;

/// The maximum number of splits for one insert.
pub(super) const SPLITS_MAX: u32 = 10;

pub(super) struct Sdbm<'k> {
    function: Function,
    /// The nodes that have split. A set, because the trie can have 2^33 nodes.
    trie: HashSet<u64>,
    /// The levels of the trie below the root.
    depth: u32,
    pages: Pages<'k>,
    figures: Figures,
}

/// The end of a walk down the trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub node: u64,
    pub bucket: u32,
    pub mask: u64,
}

impl Sdbm<'_> {
    pub fn new(function: Function, page_bytes: usize) -> Self {
        let pages = Pages::new(page_bytes);
        Sdbm { function, trie: HashSet::new(), depth: 0, pages, figures: Figures::default() }
    }

    pub(super) fn access(&self, hash: u32) -> Leaf {
        let (mut node, mut mask) = (0, 0_u64);
        while self.trie.contains(&node) {
            let hash_bit = mask.count_ones();
            let goes_right = hash >> hash_bit & 1 == 1;
            node = 2 * node + if goes_right { 2 } else { 1 };
            mask = (mask << 1) + 1;
        }
        Leaf { node, bucket: (u64::from(hash) & mask) as u32, mask }
    }

    /// Records that a leaf has split.
    pub(super) fn set_split(&mut self, leaf: Leaf) {
        self.trie.insert(leaf.node);
        self.depth = self.depth.max(leaf.mask.count_ones() + 1);
    }
}

impl<'k> Scheme<'k> for Sdbm<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let mut leaf = self.access(pair.hash);
        self.figures.work += self.pages.pair_count(leaf.bucket);
        if self.pages.find(leaf.bucket, pair.hash, key).found {
            return Ok(());
        }
        self.pages.check_size(&pair)?;
        let (mut splits, mut written) = (0, 1);
        while !self.pages.store(leaf.bucket, pair) {
            if leaf.mask.count_ones() == HASH_BITS {
                return Err(Refused::Collisions { bits: HASH_BITS });
            }
            if splits == SPLITS_MAX {
                return Err(Refused::SplitLimit { splits });
            }
            self.set_split(leaf);
            self.figures.work += self.pages.split(leaf.bucket, (leaf.mask + 1) as u32);
            self.figures.splits += 1;
            splits += 1;
            written += 3; // both pages, and the block of the trie
            self.figures.paused(written);
            leaf = self.access(pair.hash);
        }
        self.figures.paused(written);
        self.figures.stored(&pair);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let hash = self.function.hash(key);
        self.pages.find(self.access(hash).bucket, hash, key)
    }

    fn figures(&self) -> Figures {
        let nodes = (2_u64 << self.depth) - 1;
        Figures {
            store_bytes: self.pages.written_bytes(),
            file_bytes: self.pages.file_bytes(),
            addressing_bytes: nodes.div_ceil(8),
            ..self.figures
        }
    }
}
