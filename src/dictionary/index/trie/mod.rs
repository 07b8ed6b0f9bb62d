//! Entropy-coded tries: the rank of a key among sorted hashes, in 2.5 bits a key.
//!
//! The hashes that share their first `bucket_bits` bits are a virtual bucket, and a binary trie separates those of a
//! bucket. It is stored as the number of keys in each left subtrie, from the root down, left before right:
//! Rep(T) = EC(|Left|, |T|) Rep(Left) Rep(Right), nothing for tries of one key. Random hashes halve at every bit, so
//! the numbers are binomial and cost little. Where tries begin, in bits and in ranks, is in a two-level table.
//!
//! ```text
//! words:  header | skip classes | superblocks: where each bucket's trie and ranks end | tries | wide superblocks
//! locate: position -> bucket -> superblock -> (first rank, keys, bits) -> down the trie, passing left subtries
//! ```
//!
//! * **Any positions.** Equal ones cannot be separated: below the last bit they are split evenly, so that a trie's
//!   representation ends by itself, and a lookup that comes there answers with all of them. A superblock whose offsets
//!   pass 16 bits is wide: its buckets' ends are 64-bit words in a table of their own.
//! * **Skip pointers**, if asked for: the bits of Rep(Left) between EC and Rep(Left), where the trie has `skip_min`
//!   keys or more. Stored as the difference from a line fitted to tries of that size, in as many bits as pay
//!   ([`skip`]); so a lookup passes large subtries at once, in a bucket of any size.
//! * **Sparse**: a subtrie whose ranks are all in one block of `block_items` is not stored. Or, where records have one
//!   size, one whose records all lie in one page: then a lookup names the page, or the two that its record is cut by.
//!
//! Cost: see the table that `tests.rs` prints: 2.51 bits a key and 0.6 us a lookup, or 2.63 bits and 0.2 to 0.3. A
//! lookup reads three or four places of the index. Hashes that share long prefixes make large buckets, whose lookups
//! take time linear in the bucket without skip pointers.
//! Source: Lim, Andersen & Kaminsky 2013, sections 2.3 to 2.6. Added: skip pointers, wide superblocks, equal positions.
//! Not here: reading and checksumming the words, comparing keys.

mod bits;
mod code;
mod decode;
mod encode;
mod layout;
mod skip;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use decode::Trie;
pub(crate) use encode::build;
pub(crate) use layout::{PageShape, TrieOptions};
