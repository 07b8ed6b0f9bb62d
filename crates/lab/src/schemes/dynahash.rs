//! dynahash: linear hashing in memory. Buckets are linked lists. The next bucket in order splits when the average load
//! is above the fill factor.
//!
//! The bucket that splits is rarely the longest one. The average load stays at the fill factor.
//!
//! Source: Seltzer & Yigit 1991, "dynahash", after Larson 1988. Differs: starts at one bucket; no size is declared.
//! Not here: the arithmetic (`splitpoint::linear`).

use super::{ENTRY_BYTES, Figures, Found, Function, POINTER_BYTES, Pair, Refused, Scheme};
use splitpoint::linear;

/// The default fill factor in entries.
pub(super) const FILL_FACTOR: u64 = 1;
/// The number of list heads per allocation.
const SEGMENT: usize = 256;

pub(super) struct Dynahash<'k> {
    function: Function,
    fill_factor: u64,
    buckets: Vec<Vec<Pair<'k>>>,
    pub(super) state: linear::State,
    figures: Figures,
}

impl<'k> Dynahash<'k> {
    pub fn new(function: Function, fill_factor: u64) -> Self {
        let (buckets, state) = (vec![Vec::new()], linear::State::default());
        Dynahash { function, fill_factor, buckets, state, figures: Figures::default() }
    }

    /// Splits the next bucket in order. Returns how many entries moved.
    fn split(&mut self) -> u64 {
        let Some(split) = self.state.split() else { return 0 };
        let source = &mut self.buckets[split.source as usize];
        self.figures.work += source.len() as u64;
        let (moved, kept): (Vec<_>, Vec<_>) = source.drain(..).partition(|pair| split.moves(pair.hash.into()));
        let moved_count = moved.len() as u64;
        *source = kept;
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
        let bucket = self.state.bucket_of(pair.hash.into()) as usize;
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
        let pairs = &self.buckets[self.state.bucket_of(hash.into()) as usize];
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
