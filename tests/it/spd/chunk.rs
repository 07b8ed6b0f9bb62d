//! The chunk index (docs/dictionary-format.md, "Chunk"), read one bit at a time.

use super::sequence::{bit, bits};
use super::{Result, must};
use std::ops::Range;

const HEADER_WORDS: u64 = 6;
const SEED_AT: u64 = 22;
const ABOVE: u64 = 0x9E37_79B9;

pub struct Chunks {
    bucket_bits: u64,
    fraction_bits: u32,
    root_extra: u64,
    budgets: Vec<u64>,
    starts: Vec<u32>,
    chunks: Vec<Chunk>,
    ties: Vec<Tie>,
    words: Vec<u64>,
}

struct Chunk {
    ranks: Range<u64>,
    /// The start of its record, in bits of the section.
    record: u64,
}

struct Tie {
    chunk: usize,
    spans: bool,
    first: u64,
}

impl Chunks {
    pub fn parse(words: &[u64], pairs: u64) -> Result<Chunks> {
        must(words.len() >= HEADER_WORDS as usize, || "chunks without a header".into())?;
        let header: Vec<u8> = words[..HEADER_WORDS as usize].iter().flat_map(|word| word.to_le_bytes()).collect();
        let (chunk_log2, bucket_bits, fraction_bits) = (header[0], u64::from(header[1]), u32::from(header[2]));
        let (ties, escapes) = (words[2], words[3]);
        let keys = 1u64 << (chunk_log2 & 63);
        let legal = (9..=10).contains(&chunk_log2)
            && bucket_bits <= 40
            && fraction_bits <= 31
            && header[4..8] == [0; 4]
            && words[1] == pairs
            && pairs / keys < 1 << 32
            && ties <= pairs / keys + 9
            && escapes <= pairs / keys + 9
            && header[41..48] == [0; 7];
        must(legal, || "a field of the chunks' header".into())?;
        let budgets: Vec<u64> = header[32..41].iter().map(|&b| b.into()).collect();
        let mut index = Chunks {
            bucket_bits,
            fraction_bits,
            root_extra: header[3].into(),
            budgets,
            starts: Vec::new(),
            chunks: Vec::new(),
            ties: Vec::new(),
            words: words.to_vec(),
        };
        let records_at = HEADER_WORDS + ((1u64 << bucket_bits) + 1).div_ceil(2);
        must(words.len() as u64 >= records_at, || "the starts of buckets".into())?;
        let half = |n: u64| (words[(HEADER_WORDS + n / 2) as usize] >> (32 * (n % 2))) as u32;
        index.starts = (0..=1 << bucket_bits).map(half).collect();
        must(index.starts.len().is_multiple_of(2) || half(index.starts.len() as u64) == 0, || {
            "zeros behind the starts".into()
        })?;

        let mut record = 64 * records_at;
        let mut rank = 0;
        while rank < pairs {
            let left = pairs - rank;
            let size = if left < 4 { left } else { keys.min(1 << left.ilog2()) };
            if size >= 4 {
                index.sound(size)?;
            }
            index.chunks.push(Chunk { ranks: rank..rank + size, record });
            record += SEED_AT + index.seed_bits(size);
            rank += size;
        }
        let record_bits = record - 64 * records_at;
        let ties_at = records_at + record_bits / 64 + 2;
        must(words.len() as u64 == ties_at + 2 * ties, || "words of the chunks".into())?;
        must((record..64 * ties_at).all(|p| !bit(words, p)), || "zeros behind the records".into())?;
        for tie in words[ties_at as usize..].chunks(2) {
            index.ties.push(Tie { chunk: (tie[0] / 2) as usize, spans: tie[0] % 2 == 1, first: tie[1] });
        }
        must(index.ties.is_sorted_by(|a, b| a.chunk < b.chunk), || "the order of ties".into())?;
        let tied: Vec<usize> = (0..index.chunks.len()).filter(|n| bit(words, index.chunks[*n].record)).collect();
        must(index.ties.iter().map(|tie| tie.chunk).eq(tied.iter().copied()), || "ties of other chunks".into())?;
        must(!tied.contains(&0), || "chunk 0 is tied".into())?;
        let escaped = index.chunks.iter().filter(|chunk| bit(words, chunk.record + 21));
        must(escaped.count() as u64 == escapes, || "escapes".into())?;
        Ok(index)
    }

    fn step(&self, size: u64, level: u32) -> u64 {
        self.budgets[(size >> level).ilog2() as usize - 2] + if level == 0 { self.root_extra } else { 0 }
    }

    fn start(&self, size: u64, level: u32) -> u64 {
        (0..level).map(|l| self.step(size, l) << l).sum()
    }

    fn seed_bits(&self, size: u64) -> u64 {
        if size < 4 { 0 } else { self.start(size, size.ilog2() - 1) / 16 }
    }

    fn depth(&self, size: u64, level: u32, node: u64) -> u64 {
        (self.start(size, level) + (node + 1) * self.step(size, level)) / 16
    }

    fn sound(&self, size: u64) -> Result<()> {
        let levels = size.ilog2() - 1;
        let high = |level: u32| self.start(size, level + 1) / 16 < 64;
        let first_low = (0..levels).find(|level| !high(*level));
        let holds =
            high(0) && self.depth(size, 0, 0) >= 1 && first_low.is_none_or(|level| self.depth(size, level, 0) >= 32);
        must(holds, || format!("budgets of {size} keys"))
    }

    /// Returns the 32 bits from `depth` below the top of the record's seeds upwards.
    fn window(&self, chunk: &Chunk, size: u64, depth: u64) -> u64 {
        let seed_bits = self.seed_bits(size);
        let seeds = chunk.record + SEED_AT;
        (0..32).fold(0, |window, n| {
            // The distance of the window's bit n from the top, which is 0.
            let below = depth as i64 - n;
            let set =
                if below > 0 { bit(&self.words, seeds + seed_bits - below as u64) } else { ABOVE >> -below & 1 == 1 };
            window | u64::from(set) << n
        })
    }

    /// Returns the ranks that the position may have.
    pub fn place(&self, position: u64) -> Result<Range<u64>> {
        if self.chunks.is_empty() {
            return Ok(0..0);
        }
        let bucket = if self.bucket_bits == 0 { 0 } else { (position >> (64 - self.bucket_bits)) as usize };
        let last = self.chunks.len() - 1;
        let chunk_of = |bucket: usize| ((self.starts[bucket] >> self.fraction_bits) as usize).min(last);
        let (low, high) = (chunk_of(bucket), chunk_of(bucket + 1));
        let sought = position << self.bucket_bits >> 44;
        let (mut first, mut last) = (low, low);
        for chunk in low + 1..=high {
            let record = self.chunks[chunk].record;
            let separator = bits(&self.words, record + 1, 20);
            if separator > sought {
                break;
            }
            if separator == sought && bit(&self.words, record) {
                let tie = self.ties.iter().find(|tie| tie.chunk == chunk).ok_or("a tie that is not in the list")?;
                if tie.first > position {
                    break;
                }
                last = chunk;
                if tie.first < position || !tie.spans {
                    first = chunk;
                }
            } else {
                (first, last) = (chunk, chunk);
            }
        }
        if first != last {
            return Ok(self.chunks[first].ranks.start..self.chunks[last].ranks.end);
        }
        let chunk = &self.chunks[last];
        if bit(&self.words, chunk.record + 21) {
            return Ok(chunk.ranks.clone());
        }
        let size = chunk.ranks.end - chunk.ranks.start;
        must(size >= 4, || "a small chunk that is no escape".into())?;
        let mixed = (position ^ position >> 32).wrapping_mul(0x9FB2_1C65_1E98_DF25);
        let key = (mixed ^ mixed >> 29).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
        let leaves = size.ilog2() - 2;
        let mut node = 0;
        for level in 0..=leaves {
            let window = self.window(chunk, size, self.depth(size, level, node));
            let product = (key * window) & 0xFFFF_FFFF;
            node = if level < leaves { 2 * node + (product >> 31) } else { 4 * node + (product >> 30) };
        }
        Ok(chunk.ranks.start + node..chunk.ranks.start + node + 1)
    }

    pub fn ties(&self) -> usize {
        self.ties.len()
    }

    /// Returns the ranks of each chunk, for the order of records.
    pub fn groups(&self) -> Vec<Range<u64>> {
        self.chunks.iter().map(|chunk| chunk.ranks.clone()).collect()
    }

    /// Checks separators, ties and starts against `ends`, the positions of each chunk's first and last record.
    pub fn check(&self, ends: &[(u64, u64)]) -> Result<()> {
        for bucket in 0..=1u64 << self.bucket_bits {
            let before = |chunk: &(u64, u64)| u128::from(chunk.0) < u128::from(bucket) << (64 - self.bucket_bits);
            let wanted = ends.iter().skip(1).filter(|chunk| before(chunk)).count();
            let found = (self.starts[bucket as usize] >> self.fraction_bits) as usize;
            must(found == wanted, || format!("the start of bucket {bucket} is chunk {found}, not {wanted}"))?;
        }
        for (n, chunk) in self.chunks.iter().enumerate() {
            let separator = bits(&self.words, chunk.record + 1, 20);
            must(n == 0 || separator == ends[n].0 << self.bucket_bits >> 44, || format!("separator of chunk {n}"))?;
            let shared = |other: u64| u64::from((ends[n].0 ^ other).leading_zeros());
            let tied = n > 0 && shared(ends[n - 1].1) >= self.bucket_bits + 20;
            must(bit(&self.words, chunk.record) == tied, || format!("chunk {n}, tied: {tied}"))?;
            if let Some(tie) = self.ties.iter().find(|tie| tie.chunk == n) {
                let spans = ends[n - 1].1 == ends[n].0;
                must(tie.spans == spans && tie.first == ends[n].0, || format!("the tie of chunk {n}"))?;
            }
        }
        Ok(())
    }
}
