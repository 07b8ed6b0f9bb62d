//! Entropy-coded tries: the rank of a key among sorted hashes, in 2.5 bits per key.
//!
//! The hashes that share their first `bucket_bits` bits are a virtual bucket, and a binary trie separates the hashes of
//! a bucket. It is stored as the number of keys in each left subtrie, from the root down, left before right: Rep(T) =
//! EC(|Left|, |T|) Rep(Left) Rep(Right), nothing for tries of one key. Random hashes halve at every bit, so the numbers
//! are binomial and cost little. A two-level table has the start of each trie, in bits and in ranks.
//!
//! ```text
//! words:  header | skip classes | superblocks: where each bucket's trie and ranks end | tries | wide superblocks
//! locate: position -> bucket -> superblock -> (first rank, keys, bits) -> down the trie, skipping left subtries
//! ```
//!
//! * **Any positions.** Equal ones cannot be separated: below the last bit they are split evenly, so that a trie's
//!   representation is finite, and a lookup that gets there returns all of them. A superblock whose offsets exceed 16
//!   bits is wide: its buckets' ends are 64-bit words in a separate table.
//! * **Skip pointers**, optional: the bits of Rep(Left) between EC and Rep(Left), if the trie has at least `skip_min`
//!   keys. Stored as the difference from a line fitted to tries of that size, in the cheapest number of bits
//!   ([`skip`]). With them a lookup skips large subtries in one step, in a bucket of any size.
//! * **Sparse**: a subtrie whose ranks are all in one block of `block_items` is not stored. If records have one size, a
//!   subtrie whose records are all in one page may be left out instead: then a lookup returns the page, or the two
//!   pages whose border its record crosses.
//!
//! Cost: see the table that `tests/mod.rs` prints: 2.51 bits per key and 0.6 us per lookup, or 2.63 bits and 0.2 to
//! 0.3 us.
//! A lookup reads in three or four places of the index. Hashes that share long prefixes make large buckets; without
//! skip pointers, lookups in them take time linear in the bucket's size.
//! Source: Lim, Andersen & Kaminsky 2013, sections 2.3 to 2.6. Added: skip pointers, wide superblocks, equal positions.
//! Not here: reading and checksumming the words, comparing keys.

mod bits;
mod code;
mod decode;
mod encode;
mod section;
mod skip;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use decode::Trie;
pub(crate) use encode::build;
pub(crate) use section::{PageShape, TrieOptions};
