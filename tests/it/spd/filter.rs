//! The filter (docs/dictionary-format.md).

use super::{Result, must};

pub struct Filter {
    bits: usize,
    segments: Vec<Segment>,
}

struct Segment {
    first: u64,
    seed: u64,
    /// Slots of a block.
    block: u64,
    /// Number of blocks; if 0, every position passes.
    blocks: u64,
    slots: Vec<u64>,
}

impl Filter {
    /// Parses a filter; `positions` are those of the records, ascending and distinct.
    pub fn parse(words: &[u64], positions: &[u64]) -> Result<Filter> {
        must(words.len() >= 4, || "a filter without a header".into())?;
        let &[bits, keys, count, slot_words] = &words[..4] else { unreachable!("four words") };
        must(bits == 8 || bits == 16, || format!("a filter of {bits} bits"))?;
        must(keys == positions.len() as u64, || format!("a filter of {keys} keys, not {}", positions.len()))?;
        must(count == keys.div_ceil(65536), || format!("{count} segments"))?;
        let (bits, count) = (bits as usize, count as usize);
        let mut rest = words.get(4 + 2 * count..).ok_or("the directory of a filter is cut")?;
        must(rest.len() as u64 == slot_words, || format!("{slot_words} words of slots"))?;
        let mut segments = Vec::new();
        for n in 0..count {
            let (first, shape) = (words[4 + 2 * n], words[5 + 2 * n]);
            must(first == positions[65536 * n], || format!("segment {n} begins at {first}"))?;
            let (seed, log2, blocks) = (shape & 0xFFFF, shape >> 16 & 0xFF, shape >> 32);
            let legal = log2 <= 18 && blocks <= 1 << 24 && shape >> 24 & 0xFF == 0 && (blocks > 0 || shape == 0);
            must(legal, || format!("segment {n} of shape {shape:x}"))?;
            let count = if blocks == 0 { 0 } else { (blocks + 2) << log2 };
            let used = (count as usize).div_ceil(64 / bits);
            let slots = rest.get(..used).ok_or("the slots of a filter are cut")?.to_vec();
            rest = &rest[used..];
            segments.push(Segment { first, seed, block: 1 << log2, blocks, slots });
        }
        must(rest.is_empty(), || "words behind a filter".into())?;
        let filter = Filter { bits, segments };
        must(positions.iter().all(|p| filter.passes(*p)), || "the filter excludes a record".into())?;
        Ok(filter)
    }

    pub fn passes(&self, position: u64) -> bool {
        let Some(first) = self.segments.first() else { return false };
        let segment = self.segments.iter().rev().find(|segment| segment.first <= position).unwrap_or(first);
        if segment.blocks == 0 {
            return true;
        }
        let mut x = position.wrapping_add(segment.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        x = (x ^ x >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        x = (x ^ x >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        let hash = x ^ x >> 33;
        let block = segment.block;
        let first = ((u128::from(hash) * u128::from(segment.blocks * block)) >> 64) as u64;
        let second = (first + block) ^ ((hash >> 18) % block);
        let third = (first + 2 * block) ^ (hash % block);
        let mask = (1 << self.bits) - 1;
        let slot = |n: u64| {
            let bit = n as usize * self.bits;
            segment.slots[bit / 64] >> (bit % 64) & mask
        };
        slot(first) ^ slot(second) ^ slot(third) == (hash ^ hash >> 32) & mask
    }
}
