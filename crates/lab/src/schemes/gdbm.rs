//! gdbm: extendible hashing. A directory has one entry for each value of the first `depth` hash bits; entries may share
//! a bucket.
//!
//! ```text
//! directory   00 -> A   01 -> C   10 -> B   11 -> C        depth 2
//! bucket      A, B: depth 2, one entry each;               C: depth 1, two entries
//! ```
//!
//! A bucket of depth d splits by hash bit d. If d equals the depth of the directory, the directory doubles first, so a
//! few keys that agree in many bits make it large. A bucket holds references to pairs. The pairs are elsewhere in the
//! file and may have any length; a hit reads a second page for its pair.
//!
//! Source: Seltzer & Yigit 1991, "gdbm", after Fagin and others 1979; the contents of a bucket follow the program.
//! Differs: the allocation of pairs in the file is not modelled; a pair costs only its bytes.

use super::{Figures, Found, Function, Pair, Refused, Scheme};

/// An entry of a bucket: hash, first bytes of the key, offset of the pair, two lengths.
const ELEMENT_BYTES: usize = 24;
/// An entry of the directory.
const ADDRESS_BYTES: u64 = 8;
/// The maximum depth of the directory, which limits it to 64 MiB in the model. A good function stays far below.
pub(super) const DEPTH_MAX: u32 = 24;

#[derive(Debug, Default)]
pub(super) struct Bucket<'k> {
    pub depth: u32,
    pairs: Vec<Pair<'k>>,
}

pub(super) struct Gdbm<'k> {
    function: Function,
    page_bytes: usize,
    pub(super) depth: u32,
    /// 2^depth bucket numbers.
    pub(super) directory: Vec<u32>,
    pub(super) buckets: Vec<Bucket<'k>>,
    figures: Figures,
}

impl<'k> Gdbm<'k> {
    pub fn new(function: Function, page_bytes: usize) -> Self {
        let (directory, buckets) = (vec![0], vec![Bucket::default()]);
        Gdbm { function, page_bytes, depth: 0, directory, buckets, figures: Figures::default() }
    }

    /// Returns the number of the bucket that holds `hash`.
    fn bucket(&self, hash: u32) -> usize {
        let mask = (1 << self.depth) - 1;
        self.directory[(hash & mask) as usize] as usize
    }

    fn store(&mut self, bucket: usize, pair: Pair<'k>) -> bool {
        let pairs = &mut self.buckets[bucket].pairs;
        let has_room = pairs.len() < self.page_bytes / ELEMENT_BYTES;
        if has_room {
            pairs.push(pair);
        }
        has_room
    }

    /// Splits a bucket, and doubles the directory if needed. Returns the pages written; `None` if the directory is at
    /// its limit.
    fn split(&mut self, bucket: usize, hash: u32) -> Option<u64> {
        let mut written = 2;
        let bit = self.buckets[bucket].depth;
        if bit == self.depth {
            if self.depth == DEPTH_MAX {
                return None;
            }
            self.directory.extend_from_within(..);
            self.depth += 1;
            self.figures.work += self.directory.len() as u64;
            written += self.directory_bytes().div_ceil(self.page_bytes as u64);
        }
        let new = self.buckets.len();
        let pairs = std::mem::take(&mut self.buckets[bucket].pairs);
        self.figures.work += pairs.len() as u64;
        let (moved, kept) = pairs.into_iter().partition(|pair| pair.hash >> bit & 1 == 1);
        self.buckets[bucket] = Bucket { depth: bit + 1, pairs: kept };
        self.buckets.push(Bucket { depth: bit + 1, pairs: moved });
        // The entries of the bucket share its low bits. Those with `bit` set now refer to the new bucket.
        let low_bits = hash & ((1 << bit) - 1);
        let first = (low_bits | 1 << bit) as usize;
        for entry in self.directory[first..].iter_mut().step_by(2 << bit) {
            *entry = new as u32;
        }
        self.figures.splits += 1;
        Some(written)
    }

    fn directory_bytes(&self) -> u64 {
        self.directory.len() as u64 * ADDRESS_BYTES
    }
}

impl<'k> Scheme<'k> for Gdbm<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let mut bucket = self.bucket(pair.hash);
        self.figures.work += self.buckets[bucket].pairs.len() as u64;
        if self.find(key).found {
            return Ok(());
        }
        let mut written = 2; // the bucket and the pair
        while !self.store(bucket, pair) {
            let refused = Refused::DirectoryTooLarge { entries: self.directory.len() };
            written += self.split(bucket, pair.hash).ok_or(refused)?;
            self.figures.paused(written);
            bucket = self.bucket(pair.hash);
        }
        self.figures.paused(written);
        self.figures.stored(&pair);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let hash = self.function.hash(key);
        let pairs = &self.buckets[self.bucket(hash)].pairs;
        let found = pairs.iter().any(|pair| pair.is(hash, key));
        Found { found, touched: if found { 2 } else { 1 } }
    }

    fn figures(&self) -> Figures {
        let store_bytes = (self.buckets.len() * self.page_bytes) as u64 + self.figures.pair_bytes;
        let addressing_bytes = self.directory_bytes();
        Figures { store_bytes, file_bytes: store_bytes + addressing_bytes, addressing_bytes, ..self.figures }
    }
}
