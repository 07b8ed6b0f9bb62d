//! The kinds of index, all over the same pairs.

pub(crate) mod chunk;
pub(crate) mod mphf;
pub(crate) mod trie;
