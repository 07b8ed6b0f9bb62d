//! The kinds of index, all over the same pairs.

pub(crate) mod chunk;
pub(crate) mod elias_fano;
pub(crate) mod mphf;
pub(crate) mod page;
mod phast;
#[cfg(test)]
mod test_random;
pub(crate) mod trie;
