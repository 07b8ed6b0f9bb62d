//! The layout of a section: its header, checked, and what follows from it.
//!
//! ```text
//!   header, 6 words | starts: u32 of each bucket, and one more | records: a string of bits | ties: 2 words each
//! ```
//!
//! A *bucket* is a prefix of the position, with as many bits as make about 4096 to 8192 keys per bucket. Its start is
//! the chunk in which it begins, with a fraction, so that a position's chunk is guessed by interpolation. A record is a
//! *head* and the seeds. The head holds the *separator*, the 20 bits that follow the prefix in the chunk's first
//! position. If these do not distinguish it from the last position before it, the chunk is *tied*: it is listed among
//! the ties with its full first position.
//!
//! Strings of bits start at the low end of a word and continue in the next word.
//! Not here: how a bucket's start is computed (`build.rs`), how it is used to find a chunk (`locate.rs`).

use super::options::cut;
use super::shape::{Budgets, TreeShape};
use std::ops::Range;

pub(super) const HEADER_WORDS: usize = 6; // on disk

/// Bits of a separator.
pub(super) const SEPARATOR_BITS: u32 = 20; // on disk
/// Bits of a record before its seeds: tied, separator, escape.
pub(super) const HEAD_BITS: u32 = SEPARATOR_BITS + 2; // on disk
/// The bit of a head that marks the chunk as an escape.
pub(super) const ESCAPE: u32 = 1 << (SEPARATOR_BITS + 1); // on disk

/// A prefix and the separator after it must fit in a position.
pub(super) const BUCKET_BITS_MAX: u32 = 40;

/// The header of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectionHeader {
    pub chunk_log2: u32,
    pub bucket_bits: u32,
    /// The number of bits of a start that are the fraction of a chunk.
    pub fraction_bits: u32,
    pub budgets: Budgets,
    pub pairs: u64,
    pub ties: u64,
    pub escapes: u64,
}

impl SectionHeader {
    pub fn to_words(self) -> [u64; HEADER_WORDS] {
        let [sizes @ .., largest] = self.budgets.of_size;
        let first = [self.chunk_log2 as u8, self.bucket_bits as u8, self.fraction_bits as u8, self.budgets.root_extra];
        let first = u64::from(u32::from_le_bytes(first));
        [first, self.pairs, self.ties, self.escapes, u64::from_le_bytes(sizes), largest.into()]
    }

    fn from_words(words: &[u64; HEADER_WORDS]) -> Result<SectionHeader, String> {
        let [chunk_log2, bucket_bits, fraction_bits, root_extra, reserved @ ..] = words[0].to_le_bytes();
        let [largest, reserved_too @ ..] = words[5].to_le_bytes();
        if reserved != [0; 4] || reserved_too != [0; 7] {
            return Err("reserved bytes of the chunk index are not 0".into());
        }
        let mut of_size = [largest; 9];
        of_size[..8].copy_from_slice(&words[4].to_le_bytes());
        let header = SectionHeader {
            chunk_log2: chunk_log2.into(),
            bucket_bits: bucket_bits.into(),
            fraction_bits: fraction_bits.into(),
            budgets: Budgets { of_size, root_extra },
            pairs: words[1],
            ties: words[2],
            escapes: words[3],
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), String> {
        let wrong = |what: &str, is: u64| Err(format!("chunk index: {what} is {is}"));
        if !matches!(self.chunk_log2, 9 | 10) {
            return wrong("log2 of the keys of a chunk, 9 or 10,", self.chunk_log2.into());
        }
        if self.bucket_bits > BUCKET_BITS_MAX {
            return wrong("the length of a bucket's prefix, 40 bits at most,", self.bucket_bits.into());
        }
        if self.fraction_bits > 31 {
            return wrong("the length of a start's fraction, 31 bits at most,", self.fraction_bits.into());
        }
        if self.pairs >> self.chunk_log2 >= 1 << 32 {
            return wrong("the number of pairs, more than fit 2^32 chunks,", self.pairs);
        }
        let largest = self.ties.max(self.escapes);
        if largest > (self.pairs >> self.chunk_log2) + PARTS_MAX as u64 {
            return wrong("the number of ties or escapes, more than there are chunks,", largest);
        }
        Ok(())
    }
}

/// The most chunks that are not whole: one each of 512 to 4 keys, and one of fewer than 4.
const PARTS_MAX: usize = 9;

/// A chunk at the end, with fewer keys.
#[derive(Clone, Copy, Debug)]
struct Part {
    rank: u64,
    record: u64,
    size: u32,
    /// `None` for fewer than 4 keys, which are always an escape.
    shape: Option<TreeShape>,
}

/// The locations of all parts of a section.
#[derive(Clone, Debug)]
pub(super) struct SectionLayout {
    pub header: SectionHeader,
    pub shape: TreeShape,
    record_bits: u64,
    whole: u64,
    parts: Vec<Part>,
    /// The first bit of the records.
    records: u64,
    ties: usize,
    words: usize,
}

/// A chunk: its ranks, where its record begins and ends, and its tree.
#[derive(Clone, Debug)]
pub(super) struct ChunkPlace<'a> {
    pub ranks: Range<u64>,
    pub record: Range<u64>,
    pub shape: Option<&'a TreeShape>,
}

impl SectionLayout {
    /// The layout that follows from a header, or what is wrong with the header.
    pub fn new(header: SectionHeader) -> Result<SectionLayout, String> {
        header.check()?;
        let shape = TreeShape::new(&header.budgets, header.chunk_log2);
        let record_bits = u64::from(HEAD_BITS + shape.seed_bits());
        let whole = header.pairs >> header.chunk_log2;
        let mut parts = Vec::with_capacity(PARTS_MAX);
        let (mut rank, mut record) = (whole << header.chunk_log2, whole * record_bits);
        for size in cut(header.pairs - rank) {
            let shape = (size >= 4).then(|| TreeShape::new(&header.budgets, size.ilog2()));
            parts.push(Part { rank, record, size, shape });
            rank += u64::from(size);
            record += u64::from(HEAD_BITS + shape.map_or(0, |shape| shape.seed_bits()));
        }
        if !parts.iter().filter_map(|part| part.shape.as_ref()).chain([&shape]).all(TreeShape::is_sound) {
            return Err(format!("chunk index: {:?} are no bits for seeds", header.budgets));
        }
        let starts = ((1_u64 << header.bucket_bits) + 1).div_ceil(2);
        let records = HEADER_WORDS as u64 + starts;
        // A window is read from two words, even if it begins right after the last bit.
        let ties = records + record / 64 + 2;
        let words = usize::try_from(ties + 2 * header.ties).map_err(|_| "chunk index: larger than memory can be")?;
        let (ties, records) = (ties as usize, 64 * records);
        Ok(SectionLayout { header, shape, record_bits, whole, parts, records, ties, words })
    }

    /// The layout of a section.
    pub fn of(words: &[u64]) -> Result<SectionLayout, String> {
        let Some(header) = words.first_chunk() else {
            return Err(format!("chunk index: {} words, fewer than a header has", words.len()));
        };
        let layout = SectionLayout::new(SectionHeader::from_words(header)?)?;
        if words.len() != layout.words {
            return Err(format!("chunk index: {} words, {} are due by its header", words.len(), layout.words));
        }
        Ok(layout)
    }

    /// The number of words in the whole section.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The words of the ties.
    pub fn ties(&self) -> Range<usize> {
        self.ties..self.words
    }

    /// The first word of the records.
    pub fn records_word(&self) -> usize {
        (self.records / 64) as usize
    }

    pub fn chunk_count(&self) -> u64 {
        self.whole + self.parts.len() as u64
    }

    /// The number of bits in all records' heads, and in all seeds.
    pub fn head_and_seed_bits(&self) -> (u64, u64) {
        let heads = self.chunk_count() * u64::from(HEAD_BITS);
        let of_parts: u32 = self.parts.iter().filter_map(|part| part.shape).map(|shape| shape.seed_bits()).sum();
        (heads, self.whole * u64::from(self.shape.seed_bits()) + u64::from(of_parts))
    }

    /// The first bit of the record of `chunk`, which may be the number of chunks: then the end of the records.
    #[inline(always)]
    pub fn record(&self, chunk: u64) -> u64 {
        if chunk <= self.whole {
            return self.records + chunk * self.record_bits;
        }
        let part = (chunk - self.whole) as usize;
        self.parts.get(part).map_or(self.records, |part| self.records + part.record)
    }

    /// Whether a chunk has the full number of keys.
    #[inline(always)]
    pub fn is_whole(&self, chunk: u64) -> bool {
        chunk < self.whole
    }

    /// The location of `chunk`, which must exist.
    #[inline(always)]
    pub fn place(&self, chunk: u64) -> ChunkPlace<'_> {
        if chunk < self.whole {
            let (rank, record) = (chunk << self.header.chunk_log2, self.records + chunk * self.record_bits);
            let ranks = rank..rank + self.shape.size() as u64;
            return ChunkPlace { ranks, record: record..record + self.record_bits, shape: Some(&self.shape) };
        }
        let part = &self.parts[(chunk - self.whole) as usize];
        let (record, shape) = (self.records + part.record, part.shape.as_ref());
        let bits = HEAD_BITS + shape.map_or(0, TreeShape::seed_bits);
        ChunkPlace {
            ranks: part.rank..part.rank + u64::from(part.size),
            record: record..record + u64::from(bits),
            shape,
        }
    }

    /// The chunk of a rank, which is below the number of pairs.
    pub fn chunk_of(&self, rank: u64) -> u64 {
        let chunk = rank >> self.header.chunk_log2;
        if chunk < self.whole {
            chunk
        } else {
            self.whole + self.parts.partition_point(|part| part.rank <= rank) as u64 - 1
        }
    }
}

/// The 64 bits from `at` on.
#[inline(always)]
pub(super) fn window(words: &[u64], at: u64) -> u64 {
    let (word, bit) = ((at >> 6) as usize, at & 63);
    // In two steps: a shift by 64 would not shift.
    words[word] >> bit | words[word + 1] << 1 << (63 - bit)
}

/// Writes the low `count` bits of `bits` at `at`, where there are zeros.
pub(super) fn put_bits(words: &mut [u64], at: u64, bits: u64, count: u32) {
    debug_assert!(count < 64 && bits >> count == 0);
    let (word, bit) = ((at >> 6) as usize, at & 63);
    words[word] |= bits << bit;
    let over = bits >> 1 >> (63 - bit);
    if over != 0 {
        words[word + 1] |= over;
    }
}
