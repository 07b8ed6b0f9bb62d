//! The `chunk` index: chunks of K keys in hash order, each split into exact halves by seeds of fixed bit budgets.
//!
//! Records come sorted by position (the hash, its bits reversed). Every K of them are a *chunk*, found by the position of
//! its first record. Inside a chunk their order is given up, which saves 0.87 bits a key: a seed sends exactly half of the
//! keys to either side, a seed for each half does so again, and four keys are sent to four places by one seed. The way down
//! is the rank, so records of one size need no table of where they are.
//!
//! ```text
//!            512             a chunk: chunk * K + path = rank
//!        256     256         each node's seed: the 32 bits that end with the node's own,
//!      128 128 128 128       of which it has log2(1/p) + a little, always at the same place
//!      ...          4-way
//! ```
//!
//! A seed's own bits are too few for it to always find one that splits; as the 32 bits overlap, changing an earlier node's
//! gives a later one other candidates. So the search goes forward and back over one string of bits (`solve.rs`) until all
//! nodes fit, and no offsets need be stored. A chunk that has equal positions in it, or takes too long, is an *escape*: it
//! stays in hash order and a lookup is answered with all its ranks.
//!
//! Cost: [`Effort`]; a lookup reads two places, a table of n / 4096 entries and the chunk's 100 to 220 bytes.
//! Source: Lehmann, Sanders, Walzer & Ziegler 2025, "Combined Search and Encoding for Seeds" (consensus).
//! Differs: chunks of hash-consecutive keys, level order, budgets by the 1/16 of a bit.
//! Not here: files, keys, records; a position that is not in the dictionary gets some range within it.

mod build;
mod layout;
mod locate;
mod shape;
mod solve;
mod wide;

#[cfg(test)]
mod tests;

pub(crate) use build::Builder;
pub(crate) use locate::Chunks;
pub(crate) use solve::{Solved, solve};

use shape::Budgets;

/// How a dictionary is cut and how long its builder searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkOptions {
    /// Records of a chunk: 512 or 1024.
    pub chunk_keys: u32,
    pub effort: Effort,
}

/// How much time a build of [`Index::Chunk`](crate::Index::Chunk) takes for how few bits.
// A file says which budgets it was made with, so these may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// 1.79 bits a key with chunks of 512, 1.77 with 1024.
    Fast,
    /// 1.68 and 1.66 bits, in a little more time.
    Balanced,
    /// 1.54 and 1.52 bits, in three times the time.
    Small,
}

impl Effort {
    /// All of them.
    pub const ALL: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Small];
}

impl Default for ChunkOptions {
    fn default() -> Self {
        ChunkOptions { chunk_keys: 512, effort: Effort::Balanced }
    }
}

impl ChunkOptions {
    fn chunk_log2(&self) -> u32 {
        assert!(matches!(self.chunk_keys, 512 | 1024), "chunks of 512 or 1024 keys, not {}", self.chunk_keys);
        self.chunk_keys.ilog2()
    }

    /// The options that a section with these budgets was made with; those by default where none fits.
    fn of(chunk_keys: u32, budgets: &Budgets) -> ChunkOptions {
        let effort =
            Effort::ALL.into_iter().find(|effort| Budgets::of(*effort) == *budgets).unwrap_or(Effort::Balanced);
        ChunkOptions { chunk_keys, effort }
    }

    fn budgets(&self) -> Budgets {
        Budgets::of(self.effort)
    }
}

/// The sizes of the chunks that the last `rest` records are cut into, where fewer than a whole chunk are left: powers of two,
/// descending, down to 4, then what remains.
pub(crate) fn cut(rest: u64) -> impl Iterator<Item = u32> {
    let mut left = rest;
    std::iter::from_fn(move || {
        let size = if left < 4 { left } else { 1 << left.ilog2() };
        left -= size;
        (size > 0).then_some(size as u32)
    })
}

/// 32 bits to split by: all of the position count, also where the user's hash function left many of them alike.
#[inline(always)]
fn key_of(position: u64) -> u32 {
    let mut key = (position ^ position >> 32).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    key = (key ^ key >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (key >> 32) as u32
}
