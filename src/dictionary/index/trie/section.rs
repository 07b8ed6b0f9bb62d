//! Options of a trie index, and the layout of its section.

use super::skip;

/// "ectrie", 0, version 1.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"ectrie\0\x01");
/// Words before the superblocks: eight of the header, one per class of skip pointers.
pub(super) const HEADER_WORDS: usize = 8 + skip::CLASSES;
/// Words of a superblock before its buckets: the bits and the ranks before it.
pub(super) const SUPERBLOCK_HEAD: usize = 2;
/// Flag in the first word of a superblock: its buckets' ends are in the wide table.
pub(super) const WIDE: u64 = 1 << 63;
/// The most pairs, so that sums of ranks and of bits stay far below 2^64.
pub(super) const PAIRS_MAX: u64 = 1 << 48;
/// The most keys that a superblock is expected to have: their bits, even at 4 per key, can be counted in 16 bits.
pub(super) const SUPERBLOCK_KEYS: u64 = 1 << 14;
pub(super) const SUPERBLOCK_BITS_MAX: u32 = 10;
/// The most stream bytes in a page: pages have at most 2^16, and the checksum takes some.
const BODY_BYTES_MAX: u32 = u16::MAX as u32;
/// Smaller tries have no skip pointers: the tables that decode them do not handle any.
pub(super) const SKIP_MIN_LEAST: u32 = 32;

/// The options an index is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrieOptions {
    /// Average number of keys per virtual bucket, the paper's g: a power of two from 16 to 4096. The actual average is
    /// within a factor of sqrt(2) of it.
    pub bucket_keys: u32,
    /// The size up to which tries use Huffman codes, the paper's hmax: 2 to 256.
    pub huffman_max: u32,
    /// The number of keys from which a trie has a pointer past its left subtrie, if that has more than `block_items`
    /// keys: at least 32; 0 for never, as in the paper.
    pub skip_min: u32,
    /// Ranks per block: a lookup returns ranks of one block. 1: one rank. 0: as many as are in a page.
    pub block_items: u32,
    /// Set if `block_items` is 0 and records have one size; otherwise all zeros.
    pub page: PageShape,
}

/// The layout of records of one size in pages, which determines the records of each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageShape {
    pub record_bytes: u32,
    /// Bytes of the stream in a page.
    pub body_bytes: u32,
}

impl Default for TrieOptions {
    fn default() -> Self {
        TrieOptions { bucket_keys: 256, huffman_max: 64, skip_min: 0, block_items: 1, page: PageShape::default() }
    }
}

impl TrieOptions {
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.bucket_keys.is_power_of_two() || !(16..=4096).contains(&self.bucket_keys) {
            return Err(format!("bucket_keys is {}, must be a power of two from 16 to 4096", self.bucket_keys));
        }
        if !(2..=256).contains(&self.huffman_max) {
            return Err(format!("huffman_max is {}, must be 2 to 256", self.huffman_max));
        }
        if self.skip_min != 0 && self.skip_min < SKIP_MIN_LEAST {
            return Err(format!("skip_min is {}, must be 0 or {SKIP_MIN_LEAST} or more", self.skip_min));
        }
        let PageShape { record_bytes, body_bytes } = self.page;
        let is_page = record_bytes > 0 && record_bytes <= body_bytes && body_bytes <= BODY_BYTES_MAX;
        if self.page != PageShape::default() && (self.block_items != 0 || !is_page) {
            return Err(format!(
                "block_items is {}, with records of {record_bytes} bytes in {body_bytes}",
                self.block_items
            ));
        }
        Ok(())
    }

    /// These options for records in pages of shape `page`; `None` if records have several sizes. Ranks determine where
    /// pages begin only if records have one size and are no longer than a page; otherwise a lookup returns one rank.
    pub(crate) fn in_pages(self, page: Option<PageShape>) -> TrieOptions {
        let page = page.filter(|page| page.record_bytes > 0 && page.record_bytes <= page.body_bytes);
        TrieOptions { page: page.filter(|_| self.block_items == 0).unwrap_or_default(), ..self }
    }

    /// Whether a lookup returns one rank.
    pub(super) fn is_dense(&self) -> bool {
        self.block_items <= 1 && self.page == PageShape::default()
    }

    /// The blocks within which a lookup does not distinguish records.
    pub(super) fn blocks(&self) -> Blocks {
        match self.page {
            PageShape { body_bytes: 0, .. } => Blocks::of(1, self.block_items.max(1)),
            PageShape { record_bytes, body_bytes } => Blocks::of(record_bytes, body_bytes),
        }
    }

    /// The size from which tries have a skip pointer.
    pub(super) fn skip_from(&self) -> u64 {
        if self.skip_min == 0 { u64::MAX } else { self.skip_min.into() }
    }
}

/// Blocks of equal length that contain records of one length: measured in ranks, or in bytes.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// Length of a record.
    step: u64,
    /// Length of a block.
    length: u64,
    /// 2^64 / length, rounded up.
    reciprocal: u64,
}

impl Blocks {
    fn of(step: u32, length: u32) -> Blocks {
        let reciprocal = (u64::MAX / u64::from(length)).wrapping_add(1);
        Blocks { step: step.into(), length: length.into(), reciprocal }
    }

    /// The offset in its block at which the record of `rank` begins.
    #[inline(always)]
    pub(super) fn within(self, rank: u64) -> u64 {
        self.advance(0, rank)
    }

    /// The offset in its block of the record that is `count` after the one at offset `within`.
    #[inline(always)]
    pub(super) fn advance(self, within: u64, count: u64) -> u64 {
        // No overflow: ranks are at most 2^48, and a record has length 1 or fewer than 2^16 bytes.
        self.remainder(within + count * self.step)
    }

    /// Whether `count` records, the first of which begins at `within`, end in the same block.
    #[inline(always)]
    pub(super) fn hold(self, within: u64, count: u64) -> bool {
        within + count * self.step <= self.length
    }

    /// Whether a trie of `count` keys, whose first record begins at `within`, is not divided further. A single record
    /// may cross the end of a page.
    #[inline(always)]
    pub(super) fn end_at(self, within: u64, count: u64) -> bool {
        count < 2 || self.hold(within, count)
    }

    /// `at % length` without a division: Lemire, Kaser & Kurz 2019, Faster Remainder by Direct Computation.
    #[inline(always)]
    fn remainder(self, at: u64) -> u64 {
        if self.length.is_power_of_two() {
            return at & (self.length - 1);
        }
        if at > u32::MAX.into() {
            return at % self.length;
        }
        ((u128::from(self.reciprocal.wrapping_mul(at)) * u128::from(self.length)) >> 64) as u64
    }
}

/// The locations of the parts of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrieLayout {
    pub pairs: u64,
    /// The number of bits of a position that number its bucket.
    pub bucket_bits: u32,
    /// log2 of the number of buckets per superblock.
    pub superblock_bits: u32,
    /// Number of bits in all tries.
    pub trie_bits: u64,
    pub wide_count: u64,
}

impl TrieLayout {
    /// The layout for `pairs` pairs, before the tries are known.
    pub(super) fn planned(options: &TrieOptions, pairs: u64) -> TrieLayout {
        let average_max = |bits: u32| 2 * (u128::from(options.bucket_keys) << bits).pow(2);
        let bucket_bits = (0..).find(|&bits| u128::from(pairs).pow(2) <= average_max(bits)).expect("pairs are bounded");
        let fits = |bits: u32| u128::from(pairs) << bits <= u128::from(SUPERBLOCK_KEYS) << bucket_bits;
        let most = bucket_bits.clamp(1, SUPERBLOCK_BITS_MAX);
        let superblock_bits = (1..=most).rev().find(|&bits| fits(bits)).unwrap_or(1);
        TrieLayout { pairs, bucket_bits, superblock_bits, trie_bits: 0, wide_count: 0 }
    }

    pub(super) fn superblock_count(&self) -> u64 {
        (1u64 << self.bucket_bits).div_ceil(1 << self.superblock_bits)
    }

    pub(super) fn superblock_words(&self) -> usize {
        SUPERBLOCK_HEAD + (1 << self.superblock_bits) / 2
    }

    pub(super) fn wide_words(&self) -> usize {
        SUPERBLOCK_HEAD + (2 << self.superblock_bits)
    }

    /// The index of the first word of the tries.
    pub(super) fn tries_at(&self) -> u64 {
        HEADER_WORDS as u64 + self.superblock_count() * self.superblock_words() as u64
    }

    /// The index of the first word of the wide superblocks.
    pub(super) fn wide_at(&self) -> u64 {
        self.tries_at() + self.trie_bits.div_ceil(64)
    }

    /// The number of all words.
    pub(super) fn words(&self) -> Option<u64> {
        self.wide_count.checked_mul(self.wide_words() as u64)?.checked_add(self.wide_at())
    }
}

/// Refuses a layout that does not fit in the words, before anything is computed from it.
pub(super) fn check_layout(layout: &TrieLayout, words: u64) -> Result<(), String> {
    if layout.pairs > PAIRS_MAX || layout.bucket_bits > 48 || layout.trie_bits > words.saturating_mul(64) {
        return Err(format!("trie index: {layout:?}, more than an index can have"));
    }
    if !(1..=SUPERBLOCK_BITS_MAX).contains(&layout.superblock_bits) {
        return Err(format!("trie index: {layout:?}: not of this version"));
    }
    if layout.words() != Some(words) {
        return Err(format!("trie index: {words} words, its header says {:?}", layout.words()));
    }
    Ok(())
}
