//! Builds an index from positions in ascending order: buckets, their tries, the two-level table.
//!
//! One pass, with memory for the index and one bucket. With skip pointers, the first [`SAMPLE`] positions are encoded
//! several more times, to fit the lines that pointers are stored relative to.
//!
//! Cost: 30 to 50 ns per key. Hashes that all share a prefix are one bucket, whose positions are all in memory.
//! Source: Lim, Andersen & Kaminsky 2013, sections 2.3, 2.4, 2.6. Differs: a trie is written from its end (`bits.rs`).

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

use super::bits::{Backward, Forward};
use super::code::gamma_number;
use super::section::{Blocks, HEADER_WORDS, MAGIC, PAIRS_MAX, SUPERBLOCK_HEAD, TrieLayout, TrieOptions, WIDE};
use super::skip::Classes;
use super::tables::Tables;

/// The number of positions that skip pointers are fitted to, and how often: a pointer is part of the lengths that
/// enclosing pointers hold.
const SAMPLE: usize = 1 << 16;
const FITS: usize = 3;

/// The words of an index of `pairs` positions in ascending order.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for options out of range, too many pairs, positions out of order or
/// of another count; any error that `positions` yields.
pub(crate) fn build(
    options: &TrieOptions,
    pairs: u64,
    mut positions: impl Iterator<Item = Result<u64>>,
) -> Result<Vec<u64>> {
    options.check().map_err(|e| Error::new(ErrorKind::InvalidArgument, format!("trie index: {e}")))?;
    if pairs > PAIRS_MAX {
        return Err(refused(format!("{pairs} pairs, the most are {PAIRS_MAX}")));
    }
    let layout = TrieLayout::planned(options, pairs);
    let mut encoder = Encoder::new(options);
    let mut sample = Vec::new();
    if options.skip_min != 0 {
        sample = positions.by_ref().take(SAMPLE).collect::<Result<Vec<u64>>>()?;
        if !sample.is_sorted() {
            return Err(refused("positions out of order".to_owned()));
        }
        encoder.fit(&sample, layout.bucket_bits);
    }
    let mut builder = TrieBuilder::new(layout, encoder);
    for position in sample.into_iter().map(Ok).chain(positions) {
        builder.push(position?)?;
    }
    builder.finish(options)
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("trie index: {why}"))
}

/// Collects buckets and superblocks.
struct TrieBuilder {
    layout: TrieLayout,
    encoder: Encoder,
    /// Header and superblocks, followed by the tries.
    words: Forward,
    wide: Vec<u64>,
    /// The bucket for which positions are collected, and the positions.
    bucket: u64,
    keys: Vec<u64>,
    /// Number of pairs in the previous buckets.
    rank: u64,
    /// Bits and pairs before the superblock, and at the end of each of its buckets so far.
    start: (u64, u64),
    ends: Vec<(u64, u64)>,
}

impl TrieBuilder {
    fn new(layout: TrieLayout, encoder: Encoder) -> TrieBuilder {
        let words = Forward::behind(vec![0; layout.tries_at() as usize]);
        let (wide, keys, ends) = (Vec::new(), Vec::new(), Vec::new());
        TrieBuilder { layout, encoder, words, wide, bucket: 0, keys, rank: 0, start: (0, 0), ends }
    }

    #[inline]
    fn push(&mut self, position: u64) -> Result<()> {
        let bucket = bucket_of(position, self.layout.bucket_bits);
        if bucket != self.bucket {
            if bucket < self.bucket {
                return Err(refused("positions out of order".to_owned()));
            }
            self.end_buckets(bucket);
        }
        if self.keys.last().is_some_and(|&last| last > position) {
            return Err(refused("positions out of order".to_owned()));
        }
        self.keys.push(position);
        Ok(())
    }

    /// Ends the current bucket and the empty ones up to `bucket`.
    fn end_buckets(&mut self, bucket: u64) {
        let row = self.encoder.encode(&self.keys, self.rank, self.layout.bucket_bits);
        self.words.append(row);
        self.rank += self.keys.len() as u64;
        self.keys.clear();
        for ended in self.bucket..bucket {
            self.ends.push((self.words.len(), self.rank));
            if self.ends.len() == 1 << self.layout.superblock_bits {
                self.end_superblock(ended >> self.layout.superblock_bits);
            }
        }
        self.bucket = bucket;
    }

    fn end_superblock(&mut self, number: u64) {
        let end = (self.words.len(), self.rank);
        let (bits, ranks) = (end.0 - self.start.0, end.1 - self.start.1);
        let stride = self.layout.superblock_words();
        let at = HEADER_WORDS + number as usize * stride;
        let place = &mut self.words.front()[at..at + stride];
        if bits.max(ranks) > u16::MAX.into() {
            place[0] = WIDE;
            place[1] = self.layout.wide_count;
            self.layout.wide_count += 1;
            self.wide.extend([self.start.0, self.start.1]);
            // Buckets after the last one end at the same point.
            self.ends.resize(1 << self.layout.superblock_bits, end);
            self.wide.extend(self.ends.iter().flat_map(|&(bits, ranks)| [bits, ranks]));
        } else {
            (place[0], place[1]) = self.start;
            self.ends.resize(1 << self.layout.superblock_bits, end);
            for (i, (bits, ranks)) in self.ends.iter().enumerate() {
                let entry = (ranks - self.start.1) | (bits - self.start.0) << 16;
                place[SUPERBLOCK_HEAD + i / 2] |= entry << (32 * (i % 2));
            }
        }
        self.start = end;
        self.ends.clear();
    }

    fn finish(mut self, options: &TrieOptions) -> Result<Vec<u64>> {
        let bucket_count = 1 << self.layout.bucket_bits;
        self.end_buckets(bucket_count);
        if !self.ends.is_empty() {
            self.end_superblock(bucket_count >> self.layout.superblock_bits);
        }
        if self.rank != self.layout.pairs {
            return Err(refused(format!("{} positions came, {} pairs were said", self.rank, self.layout.pairs)));
        }
        self.layout.trie_bits = self.words.len();
        let header = header(options, &self.layout);
        let front = self.words.front();
        front[..header.len()].copy_from_slice(&header);
        if options.skip_min != 0 {
            front[header.len()..HEADER_WORDS].copy_from_slice(&self.encoder.classes.write());
        }
        let mut words = self.words.into_words();
        words.append(&mut self.wide);
        Ok(words)
    }
}

fn header(options: &TrieOptions, layout: &TrieLayout) -> [u64; 8] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        MAGIC,
        layout.pairs,
        pair(options.bucket_keys, options.huffman_max),
        pair(options.skip_min, options.block_items),
        pair(layout.bucket_bits, layout.superblock_bits),
        layout.trie_bits,
        layout.wide_count,
        pair(options.page.record_bytes, options.page.body_bytes),
    ]
}

fn bucket_of(position: u64, bucket_bits: u32) -> u64 {
    position.checked_shr(64 - bucket_bits).unwrap_or(0)
}

/// Writes one trie at a time.
struct Encoder {
    tables: Arc<Tables>,
    skip_from: u64,
    blocks: Blocks,
    is_dense: bool,
    classes: Classes,
    /// Keys and bits of left subtries with pointers, during measuring.
    measured: Option<Vec<(u64, u64)>>,
    row: Backward,
}

impl Encoder {
    fn new(options: &TrieOptions) -> Encoder {
        Encoder {
            tables: Tables::of(options.huffman_max),
            skip_from: options.skip_from(),
            blocks: options.blocks(),
            is_dense: options.is_dense(),
            classes: Classes::guessed(),
            measured: None,
            row: Backward::default(),
        }
    }

    /// Fits the skip pointers to the first positions.
    fn fit(&mut self, sample: &[u64], bucket_bits: u32) {
        for _ in 0..FITS {
            self.measured = Some(Vec::new());
            let mut rank = 0;
            for keys in sample.chunk_by(|&a, &b| bucket_of(a, bucket_bits) == bucket_of(b, bucket_bits)) {
                self.encode(keys, rank, bucket_bits);
                rank += keys.len() as u64;
            }
            self.classes = Classes::fitted(&self.measured.take().unwrap_or_default());
        }
    }

    /// The representation of the trie of these keys; the first key has rank `rank`.
    fn encode(&mut self, keys: &[u64], rank: u64, depth: u32) -> &Backward {
        self.row.clear();
        self.put_trie(keys, rank, depth);
        &self.row
    }

    /// Recursion is limited by the number of bits in a position, and then by halvings of equal positions.
    fn put_trie(&mut self, keys: &[u64], rank: u64, depth: u32) {
        let size = keys.len() as u64;
        if size < 2 || self.in_one_block(rank, size) {
            return;
        }
        // All keys are on one side until the first and the last differ; 64 if they never do.
        let common = (keys[0] ^ keys[keys.len() - 1]).leading_zeros();
        let left = if common == 64 { keys.len() / 2 } else { left_count(keys, common) };
        self.put_trie(&keys[left..], rank + left as u64, common + 1);
        let behind = self.row.len();
        self.put_trie(&keys[..left], rank, common + 1);
        if size >= self.skip_from && !self.blocks.hold(0, left as u64) {
            self.put_skip(left as u64, self.row.len() - behind);
        }
        self.put_code(size, left as u64);
        for _ in depth..common {
            self.put_code(size, 0);
        }
    }

    fn in_one_block(&self, rank: u64, size: u64) -> bool {
        !self.is_dense && self.blocks.hold(self.blocks.within(rank), size)
    }

    fn put_skip(&mut self, left: u64, bits: u64) {
        if let Some(measured) = &mut self.measured {
            measured.push((left, bits));
        }
        self.classes.put(&mut self.row, left, bits);
    }

    fn put_code(&mut self, size: u64, left: u64) {
        let codes = self.tables.codes();
        if size <= codes.huffman_max() {
            let (code, length) = codes.code(size, left);
            self.row.put(code, length);
        } else {
            self.row.put_gamma(gamma_number(size, left));
        }
    }
}

/// The number of the sorted keys, which agree before `bit`, that have that bit clear.
fn left_count(keys: &[u64], bit: u32) -> usize {
    // Counting has no branches to mispredict, but reads all keys.
    const COUNTED_MAX: usize = 32;
    let is_left = |key: &u64| key << bit >> 63 == 0;
    if keys.len() <= COUNTED_MAX {
        keys.iter().filter(|key| is_left(key)).count()
    } else {
        keys.partition_point(is_left)
    }
}
