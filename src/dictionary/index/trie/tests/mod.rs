//! The tries compared with a plain reading of the paper, with hostile words, and with the paper's figures.
//!
//! [`Reference`] decodes bit by bit and recursively, following the format in the heads of `mod.rs`, `code.rs` and
//! `skip.rs`. It shares only the code lengths with the code under test. Every position must give the same ranks, and
//! present keys the right ones.
//!
//! `cargo test --release trie_measured -- --ignored --nocapture` prints bits per key and time for the options.

use std::collections::HashMap;
use std::ops::Range;

use super::code::Codes;
use super::section::HEADER_WORDS;
use super::{PageShape, Trie, TrieOptions, build};
use crate::random::Random;

fn sorted(random: &mut Random, count: usize) -> Vec<u64> {
    let mut positions: Vec<u64> = (0..count).map(|_| random.next()).collect();
    positions.sort_unstable();
    positions
}

fn built(options: &TrieOptions, positions: &[u64]) -> Vec<u64> {
    build(options, positions.len() as u64, positions.iter().map(|&p| Ok(p))).expect("sound options and positions")
}

fn opened(words: &[u64]) -> Trie {
    Trie::open(words).expect("what was built")
}

/// Reads an index as slowly as possible.
struct Reference<'a> {
    words: &'a [u64],
    /// By size and code, as characters.
    symbols: HashMap<(u64, String), u64>,
    at: u64,
}

impl<'a> Reference<'a> {
    fn new(words: &'a [u64]) -> Self {
        let mut symbols = HashMap::new();
        let huffman_max = words[2] >> 32;
        let codes = Codes::new(huffman_max as u32);
        for size in 2..=huffman_max {
            // Canonical codes computed again from the lengths alone.
            let mut ordered: Vec<(u32, u64)> = (0..).zip(codes.of(size)).map(|(s, (_, length))| (length, s)).collect();
            ordered.sort_unstable();
            let (mut code, mut before) = (0u64, 0);
            for (length, symbol) in ordered {
                code <<= length - before;
                before = length;
                symbols.insert((size, format!("{code:0width$b}", width = length as usize)), symbol);
                code += 1;
            }
        }
        Reference { words, symbols, at: 0 }
    }

    fn bit(&mut self) -> u64 {
        let at = self.tries_at() * 64 + self.at;
        self.at += 1;
        self.words[at as usize / 64] >> (at % 64) & 1
    }

    fn number(&mut self, bits: u32) -> u64 {
        (0..bits).map(|bit| self.bit() << bit).sum()
    }

    fn gamma(&mut self) -> u64 {
        let mut below = 0;
        while self.bit() == 0 {
            below += 1;
        }
        self.number(below) + (1 << below)
    }

    fn superblock_bits(&self) -> u64 {
        self.words[4] >> 32
    }

    fn tries_at(&self) -> u64 {
        let superblocks = (1u64 << (self.words[4] as u32)).div_ceil(1 << self.superblock_bits());
        HEADER_WORDS as u64 + superblocks * (2 + (1 << self.superblock_bits()) / 2)
    }

    /// Returns the bits and ranks at the end of a bucket, or at the start of bucket 0.
    fn end_of(&self, bucket: Option<u64>) -> (u64, u64) {
        let Some(bucket) = bucket else { return (0, 0) };
        let (superblock, i) = (bucket >> self.superblock_bits(), bucket & ((1 << self.superblock_bits()) - 1));
        let place =
            &self.words[(HEADER_WORDS as u64 + superblock * (2 + (1 << self.superblock_bits()) / 2)) as usize..];
        if place[0] >> 63 == 1 {
            let wide = self.tries_at() + self.words[5].div_ceil(64) + place[1] * (2 + (2 << self.superblock_bits()));
            let ends = &self.words[(wide + 2 + 2 * i) as usize..];
            return (ends[0], ends[1]);
        }
        let entry = place[2 + i as usize / 2] >> (32 * (i % 2));
        (place[0] + (entry >> 16 & 0xffff), place[1] + (entry & 0xffff))
    }

    fn locate(&mut self, position: u64) -> Range<u64> {
        let bucket_bits = self.words[4] as u32;
        let bucket = (u128::from(position) << bucket_bits >> 64) as u64;
        let ((at, rank), (end, behind)) = (self.end_of(bucket.checked_sub(1)), self.end_of(Some(bucket)));
        self.at = at;
        let ranks = self.find(behind - rank, rank, position, bucket_bits);
        assert!(self.at <= end);
        // Also, the whole trie must end at the recorded end.
        self.at = at;
        self.pass(behind - rank, rank);
        assert_eq!(self.at, end);
        ranks
    }

    /// Returns the sizes of a record and of a block in bytes; in ranks if blocks are not in bytes.
    fn block(&self) -> (u64, u64) {
        match self.words[3] >> 32 {
            0 if self.words[7] == 0 => (1, 1),
            0 => (self.words[7] & 0xffff_ffff, self.words[7] >> 32),
            items => (1, items),
        }
    }

    fn stored(&self, size: u64, rank: u64) -> bool {
        let (record, block) = self.block();
        size >= 2 && rank * record / block != ((rank + size) * record - 1) / block
    }

    fn find(&mut self, size: u64, rank: u64, position: u64, depth: u32) -> Range<u64> {
        if !self.stored(size, rank) || depth == 64 {
            return rank..rank + size;
        }
        let right = position >> (63 - depth) & 1 == 1;
        match self.left(size) {
            0 => self.find(size, rank, position, depth + 1),
            left if right => {
                self.pass(left, rank);
                self.find(size - left, rank + left, position, depth + 1)
            }
            left => self.find(left, rank, position, depth + 1),
        }
    }

    fn pass(&mut self, size: u64, rank: u64) {
        if !self.stored(size, rank) {
            return;
        }
        match self.left(size) {
            0 => self.pass(size, rank),
            left => {
                self.pass(left, rank);
                self.pass(size - left, rank + left);
            }
        }
    }

    /// Reads the code at the root, and skips the pointer after it.
    fn left(&mut self, size: u64) -> u64 {
        let left = self.symbol(size);
        let (skip_min, (record, block)) = (self.words[3] & 0xffff_ffff, self.block());
        if skip_min != 0 && size >= skip_min && left * record > block {
            let width = self.words[8 + left.ilog2().min(15) as usize] >> 48;
            if self.number(width as u32) == (1 << width) - 1 {
                self.gamma();
            }
        }
        left
    }

    fn symbol(&mut self, size: u64) -> u64 {
        if size > self.words[2] >> 32 {
            let v = self.gamma() as i64 - 1;
            let d = if v % 2 == 0 { v / 2 } else { -(v + 1) / 2 };
            return (size as i64 / 2 + d) as u64;
        }
        let mut code = String::new();
        loop {
            code.push(if self.bit() == 1 { '1' } else { '0' });
            if let Some(&symbol) = self.symbols.get(&(size, code.clone())) {
                return symbol;
            }
        }
    }
}

/// Checks that every key is found at its rank, and compares a sample of keys and all of `absent` with the reference.
fn check(options: &TrieOptions, positions: &[u64], absent: &[u64]) {
    let words = built(options, positions);
    let trie = opened(&words);
    let mut reference = Reference::new(&words);
    let in_one_block = |ranks: &Range<u64>| match (u64::from(options.block_items), options.page) {
        (0, PageShape { record_bytes, body_bytes }) => {
            let (record, body) = (u64::from(record_bytes), u64::from(body_bytes));
            ranks.end - ranks.start == 1 || ranks.start * record / body == (ranks.end * record - 1) / body
        }
        (items, _) => ranks.start / items == (ranks.end - 1) / items,
    };
    // The reference is slow.
    let stride = 1 + positions.len() as u64 / 100;
    for (rank, position) in (0..).zip(positions) {
        let ranks = trie.locate(&words, *position);
        if rank % stride == 0 {
            assert_eq!(ranks, reference.locate(*position), "{options:?}, rank {rank} of {}", positions.len());
        }
        assert!(ranks.contains(&rank), "{ranks:?} is not rank {rank}, {options:?}");
        let equal =
            positions.partition_point(|p| p < position) as u64..positions.partition_point(|p| p <= position) as u64;
        if options.is_dense() {
            assert_eq!(ranks, equal);
        } else {
            assert!(in_one_block(&ranks) || ranks == equal, "{ranks:?}, {options:?}");
        }
    }
    for &position in absent {
        let ranks = trie.locate(&words, position);
        assert_eq!(ranks, reference.locate(position), "{options:?}, absent");
        assert!(ranks.start <= ranks.end && ranks.end <= positions.len() as u64);
    }
    let mut many = Vec::new();
    trie.locate_many(&words, positions, &mut many);
    assert!(
        positions.iter().zip(&many).all(|(&p, ranks)| trie.locate(&words, p) == *ranks)
            && many.len() == positions.len()
    );
}

/// Returns options that together use every feature of the format.
fn many_options() -> Vec<TrieOptions> {
    let mut all = Vec::new();
    for (bucket_keys, huffman_max) in [(16, 2), (32, 3), (64, 16), (128, 8), (256, 64), (512, 256), (4096, 100)] {
        for skip_min in [0, 32, 64] {
            for block_items in [1, 2, 7, 64] {
                all.push(TrieOptions { bucket_keys, huffman_max, skip_min, block_items, page: PageShape::default() });
            }
            for (record_bytes, body_bytes) in [(0, 0), (16, 508), (7, 64), (100, 4092), (1, 10)] {
                let page = PageShape { record_bytes, body_bytes };
                all.push(TrieOptions { bucket_keys, huffman_max, skip_min, block_items: 0, page });
            }
        }
    }
    all
}

#[test]
fn tries_of_up_to_8_of_32_prefixes_are_found() {
    let options = TrieOptions::default();
    let all: Vec<u64> = (0..32).map(|prefix| prefix << 59).collect();
    let words_of = |set: u32| (0..32).filter(|i| set >> i & 1 == 1).map(|i| all[i]).collect::<Vec<u64>>();
    // All sets of up to 4 of the first 24, and some of up to 8 of all.
    let mut checked = 0;
    for set in (0..1u32 << 24).filter(|s| s.count_ones() <= 4).chain((0..u32::MAX).step_by(97 * 211)) {
        if set.count_ones() > 8 {
            continue;
        }
        let positions = words_of(set);
        let words = built(&options, &positions);
        let trie = opened(&words);
        for (rank, &position) in (0..).zip(&positions) {
            assert_eq!(trie.locate(&words, position), rank..rank + 1, "set {set:x}");
        }
        checked += 1;
    }
    assert!(checked > 10_000, "{checked} sets");
}

#[test]
fn every_set_of_16_prefixes_agrees_with_the_reference() {
    let all: Vec<u64> = (0..16).map(|prefix| prefix << 60 | 0x5555).collect();
    let absent: Vec<u64> = (0..16).map(|prefix| prefix << 60).collect();
    for set in (0..1u32 << 16).step_by(13) {
        let positions: Vec<u64> = (0..16).filter(|i| set >> i & 1 == 1).map(|i| all[i]).collect();
        check(&TrieOptions { huffman_max: 9, ..TrieOptions::default() }, &positions, &absent);
    }
}

#[test]
fn counts_around_powers_of_two_are_found() {
    let mut random = Random::from_seed(1);
    for count in [0, 1, 2, 3, 7, 31, 255, 256, 257, 509, 1021, 4099, 16_411] {
        let positions = sorted(&mut random, count);
        let absent = sorted(&mut random, 50);
        check(&TrieOptions::default(), &positions, &absent);
        check(&TrieOptions { skip_min: 64, ..TrieOptions::default() }, &positions, &absent);
        check(&TrieOptions { block_items: 16, ..TrieOptions::default() }, &positions, &absent);
    }
}

#[test]
fn all_options_find_all_keys() {
    let mut random = Random::from_seed(2);
    let positions = sorted(&mut random, 5000);
    let absent = sorted(&mut random, 50);
    for options in many_options() {
        check(&options, &positions, &absent);
    }
}

/// Returns positions as a poor hash function produces them.
fn skewed() -> Vec<Vec<u64>> {
    let mut random = Random::from_seed(3);
    let mut sets = vec![
        vec![0; 1000],
        vec![u64::MAX; 1000],
        (0..3000).collect(),
        (0..3000).map(|i| i << 20).collect(),
        (0..3000).map(|i| u64::MAX - i).collect(),
        (0..64).map(|i| 1 << i).collect(),
        (0..64).map(|i| !(u64::MAX >> i)).collect(),
        (0..3000).map(|_| random.next() & 0xffff_ffff_0000_0000 | 7).collect(),
        (0..3000).map(|_| random.next() & 0xff00_0000_0000_0000).collect(),
        (0..3000).map(|_| random.next() & random.next() & random.next()).collect(),
        (0..3000).map(|_| (random.next() >> 32) * 3 % 1000).collect(),
        (0..3000).map(|i| if i % 3 == 0 { random.next() } else { 1 << 63 }).collect(),
    ];
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets
}

#[test]
fn skewed_and_equal_positions_are_found() {
    for positions in skewed() {
        let absent: Vec<u64> = positions.iter().take(50).map(|p| p.wrapping_add(1) ^ 1 << 40).collect();
        for options in many_options().into_iter().step_by(5) {
            check(&options, &positions[..positions.len().min(800)], &absent);
        }
        check(&TrieOptions::default(), &positions, &absent);
    }
}

#[test]
fn superblocks_that_overflow_are_wide() {
    // A first superblock of 70 000 keys, then as many at random.
    let mut random = Random::from_seed(4);
    let mut positions: Vec<u64> = (0..140_000).map(|i| random.next() >> (i % 2 * 20)).collect();
    positions.sort_unstable();
    for skip_min in [0, 64] {
        let words = built(&TrieOptions { skip_min, ..TrieOptions::default() }, &positions);
        let trie = opened(&words);
        assert_eq!(trie.wide_superblock_count(), 1);
        let mut reference = Reference::new(&words);
        let step = if skip_min == 0 { 997 } else { 37 };
        for (rank, &position) in (0..).zip(&positions).step_by(step) {
            assert_eq!(trie.locate(&words, position), rank..rank + 1);
        }
        for &position in positions.iter().step_by(9973) {
            assert_eq!(trie.locate(&words, position), reference.locate(position));
        }
    }
}

#[test]
fn nine_million_equal_positions_are_one_range() {
    let count = 9_000_000;
    let words = build(&TrieOptions::default(), count, (0..count).map(|_| Ok(77))).expect("sound");
    let trie = opened(&words);
    assert_eq!(trie.locate(&words, 77), 0..count);
    assert!(trie.locate(&words, 78).end <= count);
}

#[test]
fn changed_words_give_an_error_or_ranges_in_bounds() {
    let mut random = Random::from_seed(5);
    let positions = sorted(&mut random, 3000);
    let skewed = skewed();
    for round in 0..6000 {
        let options = random.pick(&many_options());
        let sample = if round % 4 == 0 { &skewed[random.up_to(12 - 1) as usize] } else { &positions };
        let count = 1 + random.up_to(sample.len() as u64 - 1) as usize;
        let mut words = built(&options, &sample[..count]);
        damage(&mut words, &mut random);
        let Ok(trie) = Trie::open(&words) else { continue };
        for i in 0..40 {
            let position =
                if i % 2 == 0 { random.next() } else { sample[random.up_to(sample.len() as u64 - 1) as usize] };
            let ranks = trie.locate(&words, position);
            assert!(ranks.start <= ranks.end && ranks.end <= trie.pairs(), "{ranks:?} of {}", trie.pairs());
        }
    }
}

fn damage(words: &mut Vec<u64>, random: &mut Random) {
    let (count, kind) = (words.len() as u64, random.up_to(5 - 1));
    match kind {
        0 => words.truncate(random.up_to(count - 1) as usize),
        1 => words.extend([random.next(), 0].into_iter().take(1 + random.up_to(2 - 1) as usize)),
        2 => {
            let at = random.up_to(count.min(HEADER_WORDS as u64 + 6) - 1) as usize;
            words[at] ^= random.next() >> random.up_to(64 - 1);
        }
        3 => {
            let from = HEADER_WORDS + random.up_to(count - HEADER_WORDS as u64 - 1) as usize;
            let value = if random.up_to(2 - 1) == 0 { 0 } else { u64::MAX };
            words[from..].iter_mut().take(1 + random.up_to(20 - 1) as usize).for_each(|word| *word = value);
        }
        _ => {
            for _ in 0..=random.up_to(8 - 1) {
                let at = HEADER_WORDS + random.up_to(count - HEADER_WORDS as u64 - 1) as usize;
                words[at] ^= 1 << random.up_to(64 - 1);
            }
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    let words = built(&TrieOptions::default(), &sorted(&mut Random::from_seed(6), 2000));
    assert!((0..words.len()).all(|count| Trie::open(&words[..count]).is_err()));
}

#[test]
fn options_and_positions_that_are_wrong_are_refused() {
    let wrong = [
        TrieOptions { bucket_keys: 8, ..TrieOptions::default() },
        TrieOptions { bucket_keys: 100, ..TrieOptions::default() },
        TrieOptions { huffman_max: 1, ..TrieOptions::default() },
        TrieOptions { huffman_max: 257, ..TrieOptions::default() },
        TrieOptions { skip_min: 31, ..TrieOptions::default() },
        TrieOptions { page: PageShape { record_bytes: 8, body_bytes: 64 }, ..TrieOptions::default() },
        TrieOptions { block_items: 0, page: PageShape { record_bytes: 65, body_bytes: 64 }, ..TrieOptions::default() },
    ];
    assert!(wrong.iter().all(|options| build(options, 0, std::iter::empty()).is_err()));
    for skip_min in [0, 64] {
        let options = TrieOptions { skip_min, ..TrieOptions::default() };
        assert!(build(&options, 3, [1, 3, 2].into_iter().map(Ok)).is_err());
        assert!(build(&options, 3, [1, 2].into_iter().map(Ok)).is_err());
        assert!(build(&options, 1, [1, 2].into_iter().map(Ok)).is_err());
        assert!(build(&options, 2_000_000, [1 << 63, 1].into_iter().map(Ok)).is_err());
    }
}

#[test]
fn buckets_have_as_many_keys_as_asked_for() {
    let layout = |pairs| super::section::TrieLayout::planned(&TrieOptions::default(), pairs);
    assert_eq!(layout(1 << 24).bucket_bits, 16);
    assert_eq!(layout(1 << 24).superblock_bits, 6);
    assert_eq!(layout((1 << 24) * 14 / 10).bucket_bits, 16);
    assert_eq!(layout((1 << 24) * 15 / 10).bucket_bits, 17);
    assert_eq!(layout(362).bucket_bits, 0);
    assert_eq!(layout(363).bucket_bits, 1);
    assert_eq!(layout(0).bucket_bits, 0);
}

fn bits_per_key(options: &TrieOptions, positions: &[u64]) -> f64 {
    opened(&built(options, positions)).bits() as f64 / positions.len() as f64
}

#[test]
fn a_key_costs_the_bits_that_the_paper_says() {
    let positions = sorted(&mut Random::from_seed(7), 1 << 20);
    let dense = bits_per_key(&TrieOptions::default(), &positions);
    assert!((dense - 2.512).abs() < 0.01, "{dense}, the paper has 2.51");
    // Figure 11: Huffman codes above 16 keys save little.
    let huffman_16 = bits_per_key(&TrieOptions { huffman_max: 16, ..TrieOptions::default() }, &positions);
    assert!((0.02..0.15).contains(&(huffman_16 - dense)), "{huffman_16} at hmax = 16");
    let skips = bits_per_key(&TrieOptions { skip_min: 64, ..TrieOptions::default() }, &positions);
    assert!((2.58..2.65).contains(&skips), "{skips} with skip pointers");
    // Figure 6 and the two-level table.
    for (block_items, bits) in [(8, 1.15), (16, 0.79), (64, 0.33)] {
        let sparse = bits_per_key(&TrieOptions { block_items, ..TrieOptions::default() }, &positions) - 0.133;
        assert!((sparse - bits).abs() < 0.02, "{sparse} for {block_items} a block");
    }
}

#[test]
fn a_trie_of_pages_takes_the_bits_of_blocks_that_are_as_long_and_names_one_page() {
    let positions = sorted(&mut Random::from_seed(8), 1 << 20);
    let (record, body) = (16, 4092);
    let page = PageShape { record_bytes: record, body_bytes: body };
    let pages = TrieOptions { block_items: 0, page, ..TrieOptions::default() };
    let blocks = TrieOptions { block_items: body / record, ..TrieOptions::default() };
    let [of_pages, of_blocks] = [&pages, &blocks].map(|options| bits_per_key(options, &positions));
    assert!(of_pages < of_blocks + 0.01 && of_pages < 0.27, "{of_pages}, in blocks {of_blocks}");
    let read = |options: &TrieOptions| {
        let words = built(options, &positions);
        let trie = opened(&words);
        let pages_of = |ranks: Range<u64>| {
            (ranks.end * u64::from(record) - 1) / u64::from(body) - ranks.start * u64::from(record) / u64::from(body)
                + 1
        };
        let read: u64 = positions.iter().map(|position| pages_of(trie.locate(&words, *position))).sum();
        read as f64 / positions.len() as f64
    };
    assert!(read(&pages) < 1.004 && read(&blocks) > 1.3, "{} and {} pages", read(&pages), read(&blocks));
}

#[test]
fn a_trie_has_the_expected_size_of_figure_3() {
    // Expected bits of Rep(T): those of its root and of both sides, averaged over the binomial distribution of |Left|.
    let codes = Codes::new(64);
    let mut expected = vec![0.0, 0.0];
    for size in 2..=512usize {
        let probability = binomial_row(size);
        let length = |left: usize| match size {
            ..=64 => f64::from(codes.code(size as u64, (left % size) as u64).1),
            _ => f64::from(2 * super::code::gamma_number(size as u64, (left % size) as u64).ilog2() + 1),
        };
        let root: f64 = (0..=size).map(|left| probability[left] * length(left)).sum();
        let sides: f64 = (1..size).map(|left| probability[left] * (expected[left] + expected[size - left])).sum();
        // If all keys are on one side, the same trie follows again.
        expected.push((root + sides) / (1.0 - 2.0 * probability[0]));
    }
    let per_key = |size: usize| expected[size] / size as f64;
    assert!((per_key(256) - 2.379).abs() < 0.001, "{}", per_key(256));
    assert!((64..=512).all(|size| (2.25..2.45).contains(&per_key(size))));
}

/// Returns the probability of each number of keys on the left, out of `size`.
fn binomial_row(size: usize) -> Vec<f64> {
    let mut row = vec![1.0];
    for _ in 0..size {
        row = (0..=row.len())
            .map(|l| (row.get(l).unwrap_or(&0.0) + l.checked_sub(1).map_or(0.0, |l| row[l])) / 2.0)
            .collect();
    }
    row
}
