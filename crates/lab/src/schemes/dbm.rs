//! dbm and ndbm: a bitmap of split buckets determines how many bits of a hash select its bucket.
//!
//! ```text
//! bitmap   0 | 1 2 | 3 4 5 6 | ...        bit (hash & mask) + mask is set if that bucket
//! mask     0 |  1  |    3    |            has split at that mask
//! ```
//!
//! A full page splits immediately. Pairs with the next hash bit set move to the page with that bit set, often far away
//! in the file, which therefore has holes. A pair larger than a page cannot be stored; neither can more equal hashes
//! than fit in a page.
//!
//! Source: Seltzer & Yigit 1991, "dbm and ndbm", after Thompson.

use super::pages::Pages;
use super::{Figures, Found, Function, HASH_BITS, Pair, Refused, Scheme};
use std::collections::HashSet;

pub(super) struct Dbm<'k> {
    function: Function,
    /// The bits that are set. A set, because the bitmap can have 2^33 bits.
    bitmap: HashSet<u64>,
    /// The maximum number of hash bits of any bucket; it determines the length of the bitmap.
    depth: u32,
    pages: Pages<'k>,
    figures: Figures,
}

impl Dbm<'_> {
    pub fn new(function: Function, page_bytes: usize) -> Self {
        let pages = Pages::new(page_bytes);
        Dbm { function, bitmap: HashSet::new(), depth: 0, pages, figures: Figures::default() }
    }

    /// Returns the bucket of a hash, and the mask of the hash bits that select it.
    pub(super) fn access(&self, hash: u32) -> (u32, u64) {
        let hash = u64::from(hash);
        let mut mask = 0;
        while self.bitmap.contains(&((hash & mask) + mask)) {
            mask = (mask << 1) + 1;
        }
        ((hash & mask) as u32, mask)
    }

    /// Records that `bucket` has split at `mask`.
    pub(super) fn set_split(&mut self, bucket: u32, mask: u64) {
        self.bitmap.insert(u64::from(bucket) + mask);
        self.depth = self.depth.max(mask.count_ones() + 1);
    }
}

impl<'k> Scheme<'k> for Dbm<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let (mut bucket, mut mask) = self.access(pair.hash);
        self.figures.work += self.pages.pair_count(bucket);
        if self.pages.find(bucket, pair.hash, key).found {
            return Ok(());
        }
        self.pages.check_size(&pair)?;
        let mut written = 1;
        while !self.pages.store(bucket, pair) {
            if mask.count_ones() == HASH_BITS {
                return Err(Refused::Collisions { bits: HASH_BITS });
            }
            self.set_split(bucket, mask);
            self.figures.work += self.pages.split(bucket, (mask + 1) as u32);
            self.figures.splits += 1;
            written += 3; // both pages, and the block of the bitmap
            self.figures.paused(written);
            (bucket, mask) = self.access(pair.hash);
        }
        self.figures.paused(written);
        self.figures.stored(&pair);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let hash = self.function.hash(key);
        self.pages.find(self.access(hash).0, hash, key)
    }

    fn figures(&self) -> Figures {
        let bits = (2_u64 << self.depth) - 1;
        Figures {
            store_bytes: self.pages.written_bytes(),
            file_bytes: self.pages.file_bytes(),
            addressing_bytes: bits.div_ceil(8),
            ..self.figures
        }
    }
}
