//! Builds a section: the chunks in order, each with what separates it from the previous one.
//!
//! Prefixes and separators depend on the total number of keys, so heads and starts are written last. Until then the
//! builder keeps each chunk's first position, and how many leading bits that shares with the position before it; this
//! number determines which chunks are tied.
//!
//! Memory: the section itself, and nine bytes per chunk.
//! Not here: the search for seeds (`solve.rs`), the layout of a section (`section.rs`).

use super::options::ChunkOptions;
use super::section::{ESCAPE, HEAD_BITS, HEADER_WORDS, SEPARATOR_BITS, SectionHeader, SectionLayout, put_bits};
use super::solve::Solved;

/// The average number of keys in a bucket is at least this, and less than twice this.
const BUCKET_KEYS_MIN: u64 = 4096;

/// Bits of a start's fraction, unless there are too many chunks for that.
const FRACTION_BITS_MAX: u32 = 8;

/// Collects the chunks of a section.
#[derive(Debug)]
pub(crate) struct Builder {
    options: ChunkOptions,
    pairs: u64,
    escapes: u64,
    /// The size of the chunk added last; at first that of a whole chunk.
    size: u32,
    last: u64,
    /// Bits of the records. Of the heads, only the escape bits are set so far.
    records: Vec<u64>,
    record_bits: u64,
    /// The first position of each chunk.
    firsts: Vec<u64>,
    /// The number of leading bits that it shares with the last position before it: 64 if they are equal.
    common_bits: Vec<u8>,
}

impl Builder {
    pub fn new(options: &ChunkOptions) -> Builder {
        Builder {
            options: *options,
            pairs: 0,
            escapes: 0,
            size: 1 << options.chunk_log2(),
            last: 0,
            records: Vec::new(),
            record_bits: 0,
            firsts: Vec::new(),
            common_bits: Vec::new(),
        }
    }

    /// Adds the next chunk, as returned by [`solve`](super::solve()) for the same options and positions. Whole chunks
    /// come first, then those that [`cut`](super::cut) makes of the rest.
    pub fn add(&mut self, positions: &[u64], solved: &Solved) {
        let (Some(&first), Some(&last)) = (positions.first(), positions.last()) else { return };
        assert_eq!(positions.len(), solved.size as usize, "a chunk is added with its own positions");
        assert!(self.last <= first, "chunks are added in the order of their positions");
        let whole = self.options.chunk_keys;
        let follows = if self.size == whole { solved.size <= whole } else { solved.size < self.size };
        assert!(follows, "a chunk of {} records after one of {}: the rest is cut otherwise", solved.size, self.size);
        self.firsts.push(first);
        self.common_bits.push((self.last ^ first).leading_zeros() as u8);
        self.last = last;
        self.size = solved.size;
        self.pairs += u64::from(solved.size);
        self.put_record(solved);
    }

    fn put_record(&mut self, solved: &Solved) {
        let seeds = solved.seeds.as_deref().unwrap_or_default();
        let bits = HEAD_BITS + solved.seed_bits;
        self.records.resize((self.record_bits + u64::from(bits)).div_ceil(64) as usize, 0);
        if solved.seeds.is_none() {
            self.escapes += 1;
            put_bits(&mut self.records, self.record_bits, ESCAPE.into(), HEAD_BITS);
        }
        let at = self.record_bits + u64::from(HEAD_BITS);
        for (i, &word) in seeds.iter().enumerate() {
            // In halves, as the last bits of a word may fall into the next one.
            for (half, bits) in [word & 0xFFFF_FFFF, word >> 32].into_iter().enumerate().filter(|(_, bits)| *bits != 0)
            {
                put_bits(&mut self.records, at + 64 * i as u64 + 32 * half as u64, bits, 32);
            }
        }
        self.record_bits += u64::from(bits);
    }

    /// Completes the section.
    pub fn finish(self) -> Vec<u64> {
        let bucket_bits = (self.pairs / BUCKET_KEYS_MIN).max(1).ilog2();
        let chunk_bits = (self.firsts.len() as u64 + 1).next_power_of_two().ilog2();
        let is_tied = |chunk: &usize| u32::from(self.common_bits[*chunk]) >= bucket_bits + SEPARATOR_BITS;
        // There is no position before the first chunk.
        let ties: Vec<usize> = (1..self.firsts.len()).filter(is_tied).collect();
        let header = SectionHeader {
            chunk_log2: self.options.chunk_log2(),
            bucket_bits,
            fraction_bits: FRACTION_BITS_MAX.min(32_u32.saturating_sub(chunk_bits)),
            budgets: self.options.budgets(),
            pairs: self.pairs,
            ties: ties.len() as u64,
            escapes: self.escapes,
        };
        let layout =
            SectionLayout::new(header).unwrap_or_else(|why| panic!("a builder makes what a reader takes: {why}"));
        let mut words = Vec::with_capacity(layout.words());
        words.extend(header.to_words());
        self.put_starts(&header, &mut words);
        assert_eq!(words.len(), layout.records_word(), "starts take the room that is due");
        words.extend(&self.records);
        words.resize(layout.words(), 0);
        for (chunk, &first) in self.firsts.iter().enumerate() {
            put_bits(&mut words, layout.record(chunk as u64), u64::from(separator(first, bucket_bits)) << 1, HEAD_BITS);
        }
        for (tie, &chunk) in ties.iter().enumerate() {
            put_bits(&mut words, layout.record(chunk as u64), 1, HEAD_BITS);
            let at = layout.ties().start + 2 * tie;
            words[at] = (chunk as u64) << 1 | u64::from(self.common_bits[chunk] == 64);
            words[at + 1] = self.firsts[chunk];
        }
        words
    }

    /// Writes a start for each bucket's first position, and one for the end: the last chunk that begins before it, and
    /// which fraction of that chunk's positions precede it.
    fn put_starts(&self, header: &SectionHeader, words: &mut Vec<u64>) {
        let firsts = self.firsts.get(1..).unwrap_or_default();
        let mut pair = 0;
        let mut chunk = 0;
        for bucket in 0..=1_u64 << header.bucket_bits {
            let position = u128::from(bucket) << (64 - header.bucket_bits);
            while firsts.get(chunk).is_some_and(|&first| u128::from(first) < position) {
                chunk += 1;
            }
            let from = u128::from(if chunk == 0 { 0 } else { firsts[chunk - 1] });
            let to = firsts.get(chunk).map_or(1 << 64, |&first| u128::from(first));
            // The last position of a chunk belongs to it, even if the bucket ends with the chunk.
            let fraction = ((position - from) << header.fraction_bits) / (to - from).max(1);
            let fraction = (fraction as u64).min((1 << header.fraction_bits) - 1);
            let start = (chunk as u64) << header.fraction_bits | fraction;
            pair |= start << (32 * (bucket & 1));
            if bucket & 1 == 1 || bucket == 1 << header.bucket_bits {
                words.push(pair);
                pair = 0;
            }
        }
        debug_assert!(words.len() > HEADER_WORDS, "there is at least one bucket");
    }
}

/// The bits of a position after its bucket's prefix.
#[inline(always)]
pub(super) fn separator(position: u64, bucket_bits: u32) -> u32 {
    ((position << bucket_bits) >> (64 - SEPARATOR_BITS)) as u32
}
