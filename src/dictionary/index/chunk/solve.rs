//! Finds the seeds of one chunk, or makes it an escape.

use super::options::{ChunkOptions, cut};
use super::shape::TreeShape;
use super::wide;

/// After this many keys tested, per key of a chunk, it becomes an escape: a hundred times the usual number.
const TESTED_PER_KEY_MAX: u64 = 1 << 15;

/// The seeds of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Solved {
    /// Number of records in the chunk.
    pub(super) size: u32,
    /// Number of bits of its seeds.
    pub(super) seed_bits: u32,
    /// The string of bits, from its low end; `None` for an escape.
    pub(super) seeds: Option<Vec<u64>>,
}

/// Finds the seeds of a chunk of records with `positions`, ascending; their number is [`ChunkOptions::chunk_keys`], or
/// a size from [`cut`]. `order[i]` becomes the number of the record at place `i` of the chunk.
pub(crate) fn solve(options: &ChunkOptions, positions: &[u64], order: &mut Vec<u32>) -> Solved {
    solve_within(options, positions, order, TESTED_PER_KEY_MAX, wide::search)
}

/// A search for seeds: [`wide::search`] or its portable counterpart.
pub(super) type Search = fn(&TreeShape, &[u64], &mut Vec<u32>, u64) -> Option<Vec<u64>>;

pub(super) fn solve_within(
    options: &ChunkOptions,
    positions: &[u64],
    order: &mut Vec<u32>,
    tested_per_key_max: u64,
    search: Search,
) -> Solved {
    let size = positions.len() as u32;
    let whole = size == 1 << options.chunk_log2();
    assert!(whole || cut(size.into()).eq([size]), "a chunk of {size} records: it is cut otherwise");
    let is_alike = |pair: &[u64]| pair[0] == pair[1];
    let shape = (size >= 4).then(|| TreeShape::new(&options.budgets(), size.ilog2()));
    let seeds = shape
        .filter(|_| !positions.windows(2).any(is_alike))
        .and_then(|shape| search(&shape, positions, order, tested_per_key_max * u64::from(size)));
    if seeds.is_none() {
        order.clear();
        order.extend(0..size);
    }
    Solved { size, seed_bits: shape.map_or(0, |shape| shape.seed_bits()), seeds }
}
