//! The location of seeds in a chunk: the same for all chunks of one size.
//!
//! Nodes are numbered level by level: the root 0, its children 1 and 2, ... Their bits are stored in that order from
//! the record's top downwards. So the 32 bits that begin with a node's own, counted upwards, end with bits of the nodes
//! before it:
//!
//! ```text
//!   low                                                   top
//!   | head | ... leaves 0 | ... 8-nodes | ... | 2 | 1 | root |  PREAMBLE
//!                                   [ window of 2     ]
//! ```
//!
//! Budgets count 1/16 bits: node j of a level ends `(start + (j + 1) * step) / 16` bits below the top, rounded down.
//! Not here: the search for seeds (`seeds.rs`), the descent with them (`locate.rs`).

use std::ops::Range;

/// The bits above the top of every chunk: the windows of the first nodes extend into it.
pub(super) const PREAMBLE: u32 = 0x9E37_79B9; // on disk

/// 1/16 bits.
pub(super) const FRACTION_BITS: u32 = 4; // on disk

/// log2 of the sizes of nodes, from the leaves' 4 to the largest root's.
pub(super) const SIZE_LOG2_MIN: u32 = 2;
pub(super) const SIZE_LOG2_MAX: u32 = 10;
const SIZES: usize = (SIZE_LOG2_MAX - SIZE_LOG2_MIN + 1) as usize;

/// The trade-off between build time and size of an [`Index::Chunk`](crate::dictionary::Index::Chunk).
// A file records the budgets that it was made with, so these may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// 1.79 bits per key with chunks of 512, 1.77 with 1024.
    Fast,
    /// 1.68 and 1.66 bits, with slightly more time.
    Balanced,
    /// 1.54 and 1.52 bits, with three times the time.
    Small,
}

impl Effort {
    /// All efforts.
    pub const ALL: [Effort; 3] = [Effort::Fast, Effort::Balanced, Effort::Small];
}

/// Bits of each node's seed, in 1/16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budgets {
    /// Indexed by log2 of the node's size, from 4 keys on.
    pub of_size: [u8; SIZES],
    /// Additional bits for the root: there is no earlier node to change when it has no candidates left.
    pub root_extra: u8,
}

impl Budgets {
    pub fn of(effort: Effort) -> Budgets {
        // log2(1/p) is 54.6, 29.9, 37.6, 45.4, 53.3, 61.3, 69.2, 77.2 and 85.2 sixteenths.
        let (of_size, root_extra) = match effort {
            Effort::Fast => ([64, 37, 48, 57, 70, 79, 92, 99, 117], 42),
            Effort::Balanced => ([60, 35, 43, 53, 64, 81, 95, 103, 116], 47),
            Effort::Small => ([56, 31, 39, 48, 57, 71, 82, 92, 102], 56),
        };
        Budgets { of_size, root_extra }
    }
}

/// A level of a chunk's tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// Bits above those of its first node, in 1/16.
    start: u32,
    /// Bits per node, in 1/16.
    step: u32,
}

impl Level {
    /// The number of bits below the top at which node `node` of the level ends.
    #[inline(always)]
    pub fn depth(&self, node: u32) -> u32 {
        (self.start + (node + 1) * self.step) >> FRACTION_BITS
    }
}

/// The tree of a chunk of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeShape {
    size_log2: u32,
    levels: [Level; SIZES],
    level_count: usize,
    high_levels: usize,
    seed_bits: u32,
}

impl TreeShape {
    /// The tree for chunks of 2^`size_log2` keys, from 4 to 1024.
    pub fn new(budgets: &Budgets, size_log2: u32) -> TreeShape {
        let level_count = (size_log2 - SIZE_LOG2_MIN + 1) as usize;
        let mut levels = [Level::default(); SIZES];
        let mut start = 0;
        let mut high_levels = 0;
        for (i, level) in levels[..level_count].iter_mut().enumerate() {
            let extra = if i == 0 { budgets.root_extra } else { 0 };
            *level = Level { start, step: u32::from(budgets.of_size[level_count - 1 - i]) + u32::from(extra) };
            start += level.step << i;
            if start >> FRACTION_BITS < 64 {
                high_levels = i + 1;
            }
        }
        TreeShape { size_log2, levels, level_count, high_levels, seed_bits: start >> FRACTION_BITS }
    }

    pub fn size(&self) -> usize {
        1 << self.size_log2
    }

    /// The number of nodes: one leaf for every four keys, and one fewer inner nodes.
    pub fn node_count(&self) -> usize {
        (1 << self.level_count) - 1
    }

    /// The range of a node's keys among those of the chunk.
    #[inline(always)]
    pub fn keys_of(&self, node: usize) -> Range<usize> {
        let level = (node + 1).ilog2();
        let size = self.size() >> level;
        let from = (node + 1 - (1 << level)) * size;
        from..from + size
    }

    pub fn seed_bits(&self) -> u32 {
        self.seed_bits
    }

    /// The levels from the root down.
    #[inline(always)]
    pub fn levels(&self) -> &[Level] {
        &self.levels[..self.level_count]
    }

    /// The number of levels, from the root on, that are entirely within the top 63 bits.
    #[inline(always)]
    pub fn high_levels(&self) -> usize {
        self.high_levels
    }

    /// Whether the root has a bit, and the windows below the high levels do not extend above the top. `locate.rs`
    /// relies on this, and every sensible budget satisfies it.
    pub fn is_sound(&self) -> bool {
        let below = self.levels().get(self.high_levels);
        self.high_levels > 0 && self.levels[0].depth(0) >= 1 && below.is_none_or(|level| level.depth(0) >= 32)
    }
}
