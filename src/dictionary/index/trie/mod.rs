//! Entropy-coded tries: the rank of a key among sorted hashes, in 2.5 bits a key.
//!
//! The hashes that share their first `bucket_bits` bits are a virtual bucket, and a binary trie tells those of a bucket
//! apart. It is stored as the number of keys in each left subtrie, from the root down, left before right:
//! Rep(T) = EC(|Left|, |T|) Rep(Left) Rep(Right), nothing for tries of one key. Random hashes halve at every bit, so
//! the numbers are binomial and cost little. Where tries begin, in bits and in ranks, is in a two-level table.
//!
//! ```text
//! words:  header | skip classes | superblocks: where each bucket's trie and ranks end | tries | wide superblocks
//! locate: position -> bucket -> superblock -> (first rank, keys, bits) -> down the trie, passing left subtries
//! ```
//!
//! * **Any positions.** Equal ones cannot be told apart: below the last bit they are split evenly, so that a trie's
//!   representation ends by itself, and a lookup that comes there answers with all of them. A superblock whose offsets
//!   pass 16 bits is wide: its buckets' ends are 64-bit words in a table of their own.
//! * **Skip pointers**, if asked for: the bits of Rep(Left) between EC and Rep(Left), where the trie has `skip_min` keys
//!   or more. Stored as the difference from a line fitted to tries of that size, in as many bits as pay
//!   ([`skip`]); so a lookup passes large subtries at once, in a bucket of any size.
//! * **Sparse**: a subtrie whose ranks are all in one block of `block_items` is not stored.
//!
//! Cost: see the table that `tests.rs` prints: 2.51 bits a key and 0.6 us a lookup, or 2.63 bits and 0.2 to 0.3. A
//! lookup reads three or four places of the index. Hashes that share long prefixes make large buckets, whose lookups
//! take time linear in the bucket without skip pointers.
//! Source: Lim, Andersen & Kaminsky 2013, sections 2.3 to 2.6. Added: skip pointers, wide superblocks, equal positions.
//! Not here: reading and checksumming the words, comparing keys.

use std::ops::Range;
use std::sync::Arc;

use crate::error;

mod bits;
mod code;
mod decode;
mod encode;
mod skip;
mod tables;
#[cfg(test)]
mod tests;

use skip::Classes;
use tables::Tables;

/// "ectrie", 0, version 1.
const MAGIC: u64 = u64::from_le_bytes(*b"ectrie\0\x01");
/// Words before the superblocks: eight of the header, one a class of skip pointers.
const HEADER_WORDS: usize = 8 + skip::CLASSES;
/// Words of a superblock before its buckets: bits and ranks before it.
const SUPERBLOCK_HEAD: usize = 2;
/// In the first word of a superblock: its buckets' ends are in the wide table.
const WIDE: u64 = 1 << 63;
/// Most pairs, so that sums of ranks and of bits stay far from 64 bits.
const PAIRS_MAX: u64 = 1 << 48;
/// A superblock has so many buckets that its keys are expected to be no more: their bits, even at 4 a key, fit in 16.
const SUPERBLOCK_KEYS: u64 = 1 << 14;
const SUPERBLOCK_BITS_MAX: u32 = 10;
/// Smaller tries have no skip pointers: they are decoded by tables that know none.
const SKIP_MIN_LEAST: u32 = 32;

/// What an index is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrieOptions {
    /// Keys a virtual bucket on average, the paper's g: a power of two from 16 to 4096. The average is within a factor
    /// of sqrt(2) of it.
    pub bucket_keys: u32,
    /// The largest trie whose codes are Huffman's, the paper's hmax: 2 to 256.
    pub huffman_max: u32,
    /// Tries of so many keys carry a pointer past their left subtrie, if that has more than `block_items`: 32 or more;
    /// 0 for none, as in the paper.
    pub skip_min: u32,
    /// Ranks a block: a lookup gives ranks of one block. 1: one rank.
    pub block_items: u32,
}

impl Default for TrieOptions {
    fn default() -> Self {
        TrieOptions { bucket_keys: 256, huffman_max: 64, skip_min: 0, block_items: 1 }
    }
}

impl TrieOptions {
    pub(in crate::dictionary::index) fn check(&self) -> Result<(), String> {
        if !self.bucket_keys.is_power_of_two() || !(16..=4096).contains(&self.bucket_keys) {
            return Err(format!("bucket_keys is {}, must be a power of two from 16 to 4096", self.bucket_keys));
        }
        if !(2..=256).contains(&self.huffman_max) {
            return Err(format!("huffman_max is {}, must be 2 to 256", self.huffman_max));
        }
        if self.skip_min != 0 && self.skip_min < SKIP_MIN_LEAST {
            return Err(format!("skip_min is {}, must be 0 or {SKIP_MIN_LEAST} or more", self.skip_min));
        }
        if self.block_items == 0 {
            return Err("block_items is 0, must be 1 or more".to_owned());
        }
        Ok(())
    }

    /// The size from which tries have a pointer.
    fn skip_from(&self) -> u64 {
        if self.skip_min == 0 { u64::MAX } else { self.skip_min.into() }
    }
}

/// Where things lie among the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    pairs: u64,
    /// Bits of a position that are the number of its bucket.
    bucket_bits: u32,
    /// Buckets a superblock, as a power of two.
    superblock_bits: u32,
    /// Bits of all tries.
    trie_bits: u64,
    wide_count: u64,
}

impl Layout {
    /// Of an index of `pairs`, before its tries are known.
    fn planned(options: &TrieOptions, pairs: u64) -> Layout {
        let average_max = |bits: u32| 2 * (u128::from(options.bucket_keys) << bits).pow(2);
        let bucket_bits = (0..).find(|&bits| u128::from(pairs).pow(2) <= average_max(bits)).expect("pairs are bounded");
        let fits = |bits: u32| u128::from(pairs) << bits <= u128::from(SUPERBLOCK_KEYS) << bucket_bits;
        let most = bucket_bits.clamp(1, SUPERBLOCK_BITS_MAX);
        let superblock_bits = (1..=most).rev().find(|&bits| fits(bits)).unwrap_or(1);
        Layout { pairs, bucket_bits, superblock_bits, trie_bits: 0, wide_count: 0 }
    }

    fn superblock_count(&self) -> u64 {
        (1u64 << self.bucket_bits).div_ceil(1 << self.superblock_bits)
    }

    fn superblock_words(&self) -> usize {
        SUPERBLOCK_HEAD + (1 << self.superblock_bits) / 2
    }

    fn wide_words(&self) -> usize {
        SUPERBLOCK_HEAD + (2 << self.superblock_bits)
    }

    /// The first word of the tries.
    fn tries_at(&self) -> u64 {
        HEADER_WORDS as u64 + self.superblock_count() * self.superblock_words() as u64
    }

    /// The first word of the wide superblocks.
    fn wide_at(&self) -> u64 {
        self.tries_at() + self.trie_bits.div_ceil(64)
    }

    /// All words.
    fn words(&self) -> Option<u64> {
        self.wide_count.checked_mul(self.wide_words() as u64)?.checked_add(self.wide_at())
    }
}

/// The words of an index of `pairs` positions in ascending order.
///
/// # Errors
/// [`InvalidArgument`](error::ErrorKind::InvalidArgument) for options outside their range, too many pairs, positions out of order or of
/// another count; any error that `positions` gives.
pub(crate) fn build(
    options: &TrieOptions,
    pairs: u64,
    positions: impl Iterator<Item = error::Result<u64>>,
) -> error::Result<Vec<u64>> {
    encode::build(options, pairs, positions)
}

/// An index that was found sound enough to be asked: what its header says, and tables to decode it with.
///
/// The words stay with the caller, who passes the same ones to each call.
pub(crate) struct Trie {
    options: TrieOptions,
    layout: Layout,
    classes: Classes,
    tables: Arc<Tables>,
}

impl Trie {
    /// Reads the header; O(1).
    ///
    /// # Errors
    /// A sentence that says what of the header is wrong, to be put behind the name of the file.
    pub fn open(words: &[u64]) -> Result<Trie, String> {
        let Some((header, _)) = words.split_first_chunk::<HEADER_WORDS>() else {
            return Err(format!("trie index of {} words, its header alone has {HEADER_WORDS}", words.len()));
        };
        if header[0] != MAGIC {
            return Err(format!("trie index begins with {:016x}, not with {MAGIC:016x}", header[0]));
        }
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let (bucket_keys, huffman_max) = halves(header[2]);
        let (skip_min, block_items) = halves(header[3]);
        let options = TrieOptions { bucket_keys, huffman_max, skip_min, block_items };
        options.check().map_err(|e| format!("trie index: {e}"))?;
        let (bucket_bits, superblock_bits) = halves(header[4]);
        let layout =
            Layout { pairs: header[1], bucket_bits, superblock_bits, trie_bits: header[5], wide_count: header[6] };
        check_layout(&layout, words.len() as u64, header[7])?;
        let classes = Classes::read(&header[8..], skip_min != 0)?;
        let trie = Trie { options, layout, classes, tables: Tables::of(huffman_max) };
        let last = trie.bucket(words, (1 << bucket_bits) - 1);
        if last.is_none_or(|b| b.rank + b.count != layout.pairs || b.end != layout.trie_bits) {
            return Err("trie index: the last bucket does not end with the pairs and the tries".to_owned());
        }
        Ok(trie)
    }

    /// The ranks that a pair at `position` may have: exactly one, or those of all pairs with this position, or, in a
    /// sparse index, of some pairs of one block. Any or none where there is no such pair.
    pub fn locate(&self, words: &[u64], position: u64) -> Range<u64> {
        let Some((mut reader, mut place)) = self.start(words, position) else { return 0..0 };
        if self.descend(&mut reader, &mut place).is_none() {
            // Contradictory words answer with nothing.
            place.give_up();
        }
        place.ranks()
    }

    /// [`Trie::locate`] of many, pushed in their order.
    pub fn locate_many(&self, words: &[u64], positions: &[u64], ranges: &mut Vec<Range<u64>>) {
        ranges.extend(positions.iter().map(|&position| self.locate(words, position)));
    }

    /// What the index was built with.
    pub fn options(&self) -> TrieOptions {
        self.options
    }

    /// Pairs in the index.
    pub fn pairs(&self) -> u64 {
        self.layout.pairs
    }

    /// Virtual buckets.
    pub fn bucket_count(&self) -> u64 {
        1 << self.layout.bucket_bits
    }

    /// Buckets a superblock.
    pub fn superblock_buckets(&self) -> u64 {
        1 << self.layout.superblock_bits
    }

    /// Superblocks whose offsets are wide: many of them tell of a poor hash function.
    pub fn wide_superblock_count(&self) -> u64 {
        self.layout.wide_count
    }

    /// Bits of all tries, skip pointers included.
    pub fn bits_of_tries(&self) -> u64 {
        self.layout.trie_bits
    }

    /// Bits of the two-level table, wide superblocks included.
    pub fn bits_of_buckets(&self) -> u64 {
        let wide = self.layout.wide_count * self.layout.wide_words() as u64;
        64 * (self.layout.superblock_count() * self.layout.superblock_words() as u64 + wide)
    }

    /// Bits of all words.
    #[cfg(test)]
    pub fn bits(&self) -> u64 {
        64 * (self.layout.words().expect("checked by open"))
    }
}

/// Refuses what the words have no room for, before anything is computed from it.
fn check_layout(layout: &Layout, words: u64, reserved: u64) -> Result<(), String> {
    if layout.pairs > PAIRS_MAX || layout.bucket_bits > 48 || layout.trie_bits > words.saturating_mul(64) {
        return Err(format!("trie index: {layout:?}, more than an index can have"));
    }
    if !(1..=SUPERBLOCK_BITS_MAX).contains(&layout.superblock_bits) || reserved != 0 {
        return Err(format!("trie index: {layout:?}, reserved {reserved}: not of this version"));
    }
    if layout.words() != Some(words) {
        return Err(format!("trie index: {words} words, its header says {:?}", layout.words()));
    }
    Ok(())
}
