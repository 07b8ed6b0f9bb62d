//! How records are cut into chunks, and the keys that the search works on.

use super::shape::{Budgets, Effort};

/// The size of chunks, and how long the builder searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkOptions {
    /// Records per chunk: 512 or 1024.
    pub chunk_keys: u32,
    pub effort: Effort,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        ChunkOptions { chunk_keys: 512, effort: Effort::Balanced }
    }
}

impl ChunkOptions {
    pub(super) fn chunk_log2(&self) -> u32 {
        assert!(matches!(self.chunk_keys, 512 | 1024), "chunks of 512 or 1024 keys, not {}", self.chunk_keys);
        self.chunk_keys.ilog2()
    }

    /// The options with which a section with these budgets was made; the defaults if none match.
    pub(super) fn of(chunk_keys: u32, budgets: &Budgets) -> ChunkOptions {
        let effort =
            Effort::ALL.into_iter().find(|effort| Budgets::of(*effort) == *budgets).unwrap_or(Effort::Balanced);
        ChunkOptions { chunk_keys, effort }
    }

    pub(super) fn budgets(&self) -> Budgets {
        Budgets::of(self.effort)
    }
}

/// The sizes of the chunks for the last `rest` records, which are fewer than a whole chunk: descending powers of two
/// down to 4, then what remains.
pub(crate) fn cut(rest: u64) -> impl Iterator<Item = u32> {
    let mut left = rest;
    std::iter::from_fn(move || {
        let size = if left < 4 { left } else { 1 << left.ilog2() };
        left -= size;
        (size > 0).then_some(size as u32)
    })
}

/// 32 bits to split by. They depend on the whole position, even if the user's hash function leaves many positions
/// alike.
#[inline(always)]
pub(super) fn key_of(position: u64) -> u32 {
    let mut key = (position ^ position >> 32).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    key = (key ^ key >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    (key >> 32) as u32
}
