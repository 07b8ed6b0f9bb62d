//! The trie index (docs/dictionary-format.md, "Trie"), read one bit at a time.

use super::sequence::{bit, bits};
use super::{Result, must};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};

const HEADER_WORDS: usize = 8;
const SKIP_CLASSES: usize = 16;

pub struct Trie {
    pairs: u64,
    huffman_max: u64,
    skip_min: u64,
    /// For a record and for a block: 1 and ranks, or bytes and the bytes of a page.
    record: u64,
    block: u64,
    /// The highest bits of a position, which number its bucket.
    bucket_bits: u64,
    skips: Vec<Skip>,
    /// The end of each bucket's trie in `tries`, and the number of pairs before it.
    ends: Vec<(u64, u64)>,
    tries: Vec<u64>,
}

struct Skip {
    base: i64,
    slope: i64,
    width: u64,
}

/// Codes of a size: (length, code) to the symbol, most significant bits first.
type Codes = Arc<BTreeMap<(u32, u64), u64>>;

impl Trie {
    pub fn parse(words: &[u64], pairs: u64) -> Result<Trie> {
        must(words.len() >= HEADER_WORDS + SKIP_CLASSES, || "a trie without a header".into())?;
        must(words[0].to_le_bytes() == *b"ectrie\x00\x01", || "the magic of a trie".into())?;
        must(words[1] == pairs && pairs <= 1 << 48, || format!("a trie of {} pairs", words[1]))?;
        let half = |word: usize, high: bool| if high { words[word] >> 32 } else { words[word] & 0xFFFF_FFFF };
        let (bucket_keys, huffman_max) = (half(2, false), half(2, true));
        let (skip_min, block_items) = (half(3, false), half(3, true));
        let (bucket_bits, superblock_bits) = (half(4, false), half(4, true));
        let (trie_bits, wide_count) = (words[5], words[6]);
        let legal = bucket_keys.is_power_of_two()
            && (16..=4096).contains(&bucket_keys)
            && (2..=256).contains(&huffman_max)
            && (skip_min == 0 || skip_min >= 32)
            && bucket_bits <= 48
            && (1..=10).contains(&superblock_bits);
        must(legal, || "a field of the trie's header".into())?;
        let (record, block) = match words[7] {
            0 => (1, block_items.max(1)),
            _ => (half(7, false), half(7, true)),
        };
        let legal = words[7] == 0 || block_items == 0 && 0 < record && record <= block && block < 1 << 16;
        must(legal, || "the page of the trie's header".into())?;
        let class = |word: &u64| Skip {
            base: (word & 0xFFFF_FFFF) as i64,
            slope: (word >> 32 & 0xFFFF) as i64,
            width: word >> 48,
        };
        let classes = &words[HEADER_WORDS..HEADER_WORDS + SKIP_CLASSES];
        let skips: Vec<Skip> = classes.iter().map(class).collect();
        let legal = |skip: &Skip| (2..=24).contains(&skip.width);
        let none = skip_min == 0 && classes.iter().all(|word| *word == 0);
        must(none || skip_min != 0 && skips.iter().all(legal), || "a skip class".into())?;

        let per_superblock = 1u64 << superblock_bits;
        let superblocks = (1u64 << bucket_bits).div_ceil(per_superblock);
        let record_words = (2 + per_superblock / 2) as usize;
        let tries_at = HEADER_WORDS + SKIP_CLASSES + superblocks as usize * record_words;
        let wide_at = tries_at + trie_bits.div_ceil(64) as usize;
        let wide_words = (2 + 2 * per_superblock) as usize;
        must(words.len() == wide_at + wide_count as usize * wide_words, || "words of the trie".into())?;
        let mut ends = Vec::new();
        let mut wide_seen = 0;
        for superblock in 0..superblocks as usize {
            let at = HEADER_WORDS + SKIP_CLASSES + superblock * record_words;
            let record = &words[at..at + record_words];
            let here = match record[0] == 1 << 63 {
                true => {
                    must(record[1] == wide_seen && record[2..].iter().all(|word| *word == 0), || {
                        "a wide superblock".into()
                    })?;
                    let at = wide_at + wide_seen as usize * wide_words;
                    wide_seen += 1;
                    let wide = &words[at..at + wide_words];
                    must((wide[0], wide[1]) == *ends.last().unwrap_or(&(0, 0)), || "before a wide superblock".into())?;
                    wide[2..].chunks(2).map(|end| (end[0], end[1])).collect::<Vec<_>>()
                }
                false => {
                    must((record[0], record[1]) == *ends.last().unwrap_or(&(0, 0)), || "before a superblock".into())?;
                    let entry = |n: u64| record[2 + n as usize / 2] >> (32 * (n % 2)) & 0xFFFF_FFFF;
                    let end = |n| (record[0] + (entry(n) >> 16), record[1] + (entry(n) & 0xFFFF));
                    (0..per_superblock).map(end).collect()
                }
            };
            ends.extend(here);
        }
        must(wide_seen == wide_count, || "wide superblocks that none refers to".into())?;
        must(ends.is_sorted() && ends.last() == Some(&(trie_bits, pairs)), || "the ends of buckets".into())?;
        must(ends[(1 << bucket_bits) - 1..].iter().all(|end| *end == (trie_bits, pairs)), || "past the last".into())?;
        let tries = words[tries_at..wide_at].to_vec();
        Ok(Trie { pairs, huffman_max, skip_min, record, block, bucket_bits, skips, ends, tries })
    }

    /// Returns the ranks that the position may have.
    pub fn place(&self, position: u64) -> Result<Range<u64>> {
        let bucket = if self.bucket_bits == 0 { 0 } else { (position >> (64 - self.bucket_bits)) as usize };
        let (mut at, mut first) = if bucket == 0 { (0, 0) } else { self.ends[bucket - 1] };
        let (bits_end, end) = self.ends[bucket];
        let mut count = end - first;
        must(end <= self.pairs, || "ranks of a bucket".into())?;
        let mut depth = self.bucket_bits;
        while depth < 64 && self.splits(first, count) {
            let symbol = self.code(count, &mut at)?;
            if symbol != 0 {
                let left_bits = self.skip(count, symbol, &mut at)?;
                let left_at = at;
                // A skip pointer must agree with full decoding.
                let mut left_end = left_at;
                self.pass(first, symbol, &mut left_end)?;
                must(left_bits.is_none_or(|bits| bits == left_end - left_at), || "a skip pointer".into())?;
                if position >> (63 - depth) & 1 == 0 {
                    count = symbol;
                } else {
                    (first, count, at) = (first + symbol, count - symbol, left_end);
                }
            }
            depth += 1;
        }
        must(at <= bits_end, || "a trie beyond its bucket".into())?;
        Ok(first..first + count)
    }

    fn splits(&self, first: u64, count: u64) -> bool {
        count >= 2 && first * self.record / self.block != ((first + count) * self.record - 1) / self.block
    }

    /// Skips the representation of `count` keys, the first of rank `first`.
    fn pass(&self, first: u64, count: u64, at: &mut u64) -> Result<()> {
        // One-sided splits are no deeper than the bits of a position, or the halving of equal positions.
        let (mut first, mut count) = (first, count);
        while self.splits(first, count) {
            let symbol = self.code(count, at)?;
            if symbol == 0 {
                continue;
            }
            self.skip(count, symbol, at)?;
            self.pass(first, symbol, at)?;
            (first, count) = (first + symbol, count - symbol);
        }
        Ok(())
    }

    fn next(&self, at: &mut u64) -> Result<bool> {
        must(*at < 64 * self.tries.len() as u64, || "a trie beyond its words".into())?;
        *at += 1;
        Ok(bit(&self.tries, *at - 1))
    }

    fn gamma(&self, at: &mut u64) -> Result<u64> {
        let mut low_bits = 0;
        while !self.next(at)? {
            low_bits += 1;
        }
        must(low_bits < 64, || "a gamma code".into())?;
        let mut value = 1 << low_bits;
        for n in 0..low_bits {
            value |= u64::from(self.next(at)?) << n;
        }
        Ok(value)
    }

    /// Reads how many of `count` keys go to the left; 0 also if all do.
    fn code(&self, count: u64, at: &mut u64) -> Result<u64> {
        if count > self.huffman_max {
            let v = self.gamma(at)? - 1;
            let e = if v % 2 == 0 { v as i64 / 2 } else { -(v as i64 + 1) / 2 };
            let left = (count / 2) as i64 + e;
            must((0..count as i64).contains(&left), || format!("{left} of {count} on the left"))?;
            return Ok(left as u64);
        }
        let codes = codes(count);
        let mut code = 0;
        for length in 1..=48 {
            code = code << 1 | u64::from(self.next(at)?);
            if let Some(symbol) = codes.get(&(length, code)) {
                return Ok(*symbol);
            }
        }
        Err("no code".into())
    }

    /// Reads the number of bits of the left side from a skip pointer, if there is one.
    fn skip(&self, count: u64, left: u64, at: &mut u64) -> Result<Option<u64>> {
        if self.skip_min == 0 || count < self.skip_min || left * self.record <= self.block {
            return Ok(None);
        }
        let c = left.ilog2().min(15);
        let class = &self.skips[c as usize];
        let expected = class.base + (left as i64 - (1 << c)) * class.slope / 256;
        must(*at + class.width <= 64 * self.tries.len() as u64, || "a skip pointer beyond its words".into())?;
        let x = bits(&self.tries, *at, class.width);
        *at += class.width;
        if x == (1 << class.width) - 1 {
            return Ok(Some(self.gamma(at)? - 1));
        }
        let bits = x as i64 + expected - (1 << (class.width - 1)) + 1;
        must(bits >= 0, || "a skip pointer".into())?;
        Ok(Some(bits as u64))
    }
}

/// Returns the Huffman codes for `count` keys.
pub fn codes(count: u64) -> Codes {
    static CODES: LazyLock<Mutex<BTreeMap<u64, Codes>>> = LazyLock::new(Mutex::default);
    Arc::clone(CODES.lock().unwrap().entry(count).or_insert_with(|| Arc::new(canonical(count))))
}

fn canonical(count: u64) -> BTreeMap<(u32, u64), u64> {
    // P(C, 0..=C).
    let mut row = vec![1u128 << 120];
    for _ in 0..count {
        let at = |l: usize| row.get(l).copied().unwrap_or(0);
        row = (0..=row.len()).map(|l| (if l == 0 { 0 } else { at(l - 1) } + at(l)) / 2).collect();
    }
    let weight = |p: u128| (p >> 88).max(1);
    let mut weights = vec![weight(row[0] + row[count as usize])];
    weights.extend((1..count as usize).map(|l| weight(row[l])));

    // A node is its weight, whether it was joined, its symbol or age, and the symbols below it.
    type Node = (u128, bool, usize, Vec<usize>);
    let mut nodes: Vec<Node> = weights.into_iter().enumerate().map(|(n, w)| (w, false, n, vec![n])).collect();
    let mut lengths = vec![0u32; nodes.len()];
    let mut age = 0;
    while nodes.len() > 1 {
        nodes.sort_by_key(|node| std::cmp::Reverse((node.0, node.1, node.2)));
        let (first, second) = (nodes.pop().unwrap(), nodes.pop().unwrap());
        let symbols = [first.3, second.3].concat();
        symbols.iter().for_each(|symbol| lengths[*symbol] += 1);
        nodes.push((first.0 + second.0, true, age, symbols));
        age += 1;
    }
    let mut order: Vec<(u32, u64)> =
        lengths.iter().enumerate().map(|(symbol, length)| (*length, symbol as u64)).collect();
    order.sort_unstable();
    let mut codes = BTreeMap::new();
    let (mut code, mut last) = (0u64, order[0].0);
    for (n, &(length, symbol)) in order.iter().enumerate() {
        if n > 0 {
            code = (code + 1) << (length - last);
        }
        last = length;
        codes.insert((length, code), symbol);
    }
    codes
}
