//! The sparse file of dbm and sdbm: page n is bucket n, and exists once it has been written.
//!
//! A page holds a count, two offsets for each pair, and the pairs.
//! Source: the page layout of both programs.

use super::{Found, Pair, Refused};
use std::collections::HashMap;

/// The count at the start of a page.
const COUNT_BYTES: usize = 2;
/// The offsets of a pair's key and value.
const OFFSETS_BYTES: usize = 4;

/// A bucket's page.
#[derive(Debug, Default)]
pub(super) struct Page<'k> {
    pairs: Vec<Pair<'k>>,
    used_bytes: usize,
}

/// The file.
#[derive(Debug)]
pub(super) struct Pages<'k> {
    page_bytes: usize,
    written: HashMap<u32, Page<'k>>,
    highest: u32,
}

impl<'k> Pages<'k> {
    pub fn new(page_bytes: usize) -> Self {
        Pages { page_bytes, written: HashMap::from([(0, Page::default())]), highest: 0 }
    }

    /// Returns an error if an empty page cannot hold `pair`.
    pub fn check_size(&self, pair: &Pair) -> Result<(), Refused> {
        let (pair_bytes, page_bytes) = (pair.bytes() + OFFSETS_BYTES, self.page_bytes - COUNT_BYTES);
        if pair_bytes > page_bytes { Err(Refused::PairTooLarge { pair_bytes, page_bytes }) } else { Ok(()) }
    }

    /// Adds `pair`, which must not be in the bucket yet, if its page has room. Returns whether it had.
    pub fn store(&mut self, bucket: u32, pair: Pair<'k>) -> bool {
        self.highest = self.highest.max(bucket);
        let page = self.written.entry(bucket).or_default();
        let used_bytes = page.used_bytes + pair.bytes() + OFFSETS_BYTES;
        let fits = used_bytes + COUNT_BYTES <= self.page_bytes;
        if fits {
            page.pairs.push(pair);
            page.used_bytes = used_bytes;
        }
        fits
    }

    /// Moves the pairs of `bucket` whose hash has `bit` set to the bucket with that bit. Writes both pages, even if one
    /// is empty. Returns the number of pairs examined.
    pub fn split(&mut self, bucket: u32, bit: u32) -> u64 {
        let page = self.written.remove(&bucket).unwrap_or_default();
        let examined = page.pairs.len() as u64;
        for half in [bucket, bucket | bit] {
            self.highest = self.highest.max(half);
            self.written.insert(half, Page::default());
        }
        for pair in page.pairs {
            let fits = self.store(if pair.hash & bit == 0 { bucket } else { bucket | bit }, pair);
            assert!(fits, "some pairs of a page fit in a page");
        }
        examined
    }

    /// Searches a bucket. This reads one page even if it is a hole.
    pub fn find(&self, bucket: u32, hash: u32, key: &[u8]) -> Found {
        let page = self.written.get(&bucket);
        Found { found: page.is_some_and(|page| page.pairs.iter().any(|pair| pair.is(hash, key))), touched: 1 }
    }

    /// Returns the number of pairs in a bucket.
    pub fn pair_count(&self, bucket: u32) -> u64 {
        self.written.get(&bucket).map_or(0, |page| page.pairs.len() as u64)
    }

    pub fn written_bytes(&self) -> u64 {
        (self.written.len() * self.page_bytes) as u64
    }

    pub fn file_bytes(&self) -> u64 {
        (u64::from(self.highest) + 1) * self.page_bytes as u64
    }
}
