//! dynahash: linear hashing in memory. Buckets are lists, and split in order when the table is too full on average.
//!
//! ```text
//! max_bucket = split point + generation's last bucket       high_mask, low_mask: next and this generation's bits
//! bucket     = hash & high_mask, or if there is no such bucket yet, hash & low_mask
//! ```
//!
//! The bucket that splits is the next in order, seldom the one that is long; on average it comes to the same.
//!
//! Source: Seltzer & Yigit 1991, "dynahash", after Larson 1988. Differs: starts at one bucket, with nothing declared.

use super::{ENTRY_BYTES, Figures, Found, Function, POINTER_BYTES, Pair, Refused, Scheme};

/// Entries a bucket on average before a split, if not chosen.
pub(super) const FILL_FACTOR: u64 = 1;
/// Heads of lists that are allocated at a time.
const SEGMENT: usize = 256;

pub(super) struct Dynahash<'k> {
    function: Function,
    fill_factor: u64,
    buckets: Vec<Vec<Pair<'k>>>,
    pub(super) masks: Masks,
    figures: Figures,
}

/// Which buckets there are, and so which bits of a hash count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Masks {
    pub max_bucket: u32,
    low_mask: u32,
    high_mask: u32,
}

impl Masks {
    pub fn bucket(self, hash: u32) -> u32 {
        let bucket = hash & self.high_mask;
        if bucket > self.max_bucket { hash & self.low_mask } else { bucket }
    }

    /// One bucket more: which it is, and which one splits.
    pub fn grow(&mut self) -> (u32, u32) {
        self.max_bucket += 1;
        if self.max_bucket > self.high_mask {
            self.low_mask = self.high_mask;
            self.high_mask = self.low_mask << 1 | 1;
        }
        (self.max_bucket, self.max_bucket & self.low_mask)
    }
}

impl<'k> Dynahash<'k> {
    pub fn new(function: Function, fill_factor: u64) -> Self {
        let (buckets, masks) = (vec![Vec::new()], Masks::default());
        Dynahash { function, fill_factor, buckets, masks, figures: Figures::default() }
    }

    /// Divides the entries of the bucket whose turn it is; how many moved.
    fn split(&mut self) -> u64 {
        let (new, source) = self.masks.grow();
        let pairs = std::mem::take(&mut self.buckets[source as usize]);
        self.figures.work += pairs.len() as u64;
        let (kept, moved): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|pair| self.masks.bucket(pair.hash) == source);
        debug_assert!(moved.iter().all(|pair| self.masks.bucket(pair.hash) == new));
        let moved_count = moved.len() as u64;
        self.buckets[source as usize] = kept;
        self.buckets.push(moved);
        self.figures.splits += 1;
        moved_count
    }
}

impl<'k> Scheme<'k> for Dynahash<'k> {
    fn insert(&mut self, key: &'k [u8], value_bytes: usize) -> Result<(), Refused> {
        let pair = Pair::new(self.function, key, value_bytes);
        let Found { found, touched } = self.find(key);
        self.figures.work += touched + 1;
        if found {
            return Ok(());
        }
        let bucket = self.masks.bucket(pair.hash) as usize;
        self.buckets[bucket].push(pair);
        self.figures.stored(&pair);
        let mut moved = 1;
        if self.figures.pairs > self.fill_factor * self.buckets.len() as u64 {
            moved += self.split();
        }
        self.figures.paused(moved);
        Ok(())
    }

    fn find(&self, key: &[u8]) -> Found {
        let hash = self.function.hash(key);
        let pairs = &self.buckets[self.masks.bucket(hash) as usize];
        let at = pairs.iter().position(|pair| pair.is(hash, key));
        Found { found: at.is_some(), touched: at.map_or(pairs.len(), |at| at + 1) as u64 }
    }

    fn figures(&self) -> Figures {
        let segments = self.buckets.len().div_ceil(SEGMENT);
        let addressing_bytes = (segments * SEGMENT + segments) as u64 * POINTER_BYTES;
        let node_bytes = self.figures.pairs * (ENTRY_BYTES + POINTER_BYTES);
        Figures {
            store_bytes: addressing_bytes + node_bytes + self.figures.pair_bytes,
            addressing_bytes,
            ..self.figures
        }
    }
}
