//! The `chunk` index: chunks of K keys in hash order, each split into exact halves by seeds of fixed bit budgets.
//!
//! Records come sorted by position (the hash with its bits reversed). Every K of them form a *chunk*, found by the
//! position of its first record. Inside a chunk the order is given up, which saves 0.87 bits per key. One seed sends
//! exactly half of the keys to either side, a seed for each half does the same again, and groups of four keys are sent
//! to four places by one seed. The path down the tree is the rank, so records of one size need no table of their
//! locations.
//!
//! ```text
//!            512             a chunk: chunk * K + path = rank
//!        256     256         each node's seed: the 32 bits that end with the node's own,
//!      128 128 128 128       of which it has log2(1/p) + a little, always at the same place
//!      ...          4-way
//! ```
//!
//! A seed has too few bits of its own to always find a value that splits. But the 32 bits overlap, so changing the seed
//! of an earlier node gives a later node other candidates. The search therefore goes forward and back over one string
//! of bits (`seeds.rs`) until all nodes fit, and no offsets are stored. A chunk that contains equal positions, or
//! whose search takes too long, is an *escape*: it stays in hash order, and a lookup gets all its ranks.
//!
//! Cost: [`Effort`]; a lookup reads in two places, a table of n / 4096 entries and the chunk's 100 to 220 bytes.
//! Source: Lehmann, Sanders, Walzer & Ziegler 2025, "Combined Search and Encoding for Seeds" (consensus).
//! Differs: chunks of hash-consecutive keys, level order, budgets in units of 1/16 bit.
//! Not here: files, keys, records; a position that is not in the dictionary gets an arbitrary range within it.

mod build;
mod locate;
mod options;
mod section;
mod seeds;
mod shape;
mod solve;
mod wide;

#[cfg(test)]
mod tests;

pub(crate) use build::Builder;
pub(crate) use locate::Chunks;
pub(crate) use options::{ChunkOptions, cut};
pub use shape::Effort;
pub(crate) use solve::solve;
