//! The index as a whole: every key is found, for every size and any positions, and damaged words do no harm.

use super::locate::Facts;
use super::solve::solve_within;
use super::*;
use std::ops::Range;

/// SplitMix64: numbers distributed like hashes, the same in every run.
fn positions(count: usize, seed: u64) -> Vec<u64> {
    let mut positions: Vec<u64> = (1..=count as u64).map(|i| mixed(i.wrapping_add(seed << 32))).collect();
    positions.sort_unstable();
    positions
}

fn mixed(i: u64) -> u64 {
    let mut z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Returns the chunks of sorted positions.
fn chunks_of<'a>(options: &ChunkOptions, positions: &'a [u64]) -> Vec<&'a [u64]> {
    let whole = positions.chunks_exact(options.chunk_keys as usize);
    let mut rest = whole.remainder();
    let parts = cut(rest.len() as u64).map(|size| rest.split_off(..size as usize).expect("as many as it says"));
    let parts: Vec<&[u64]> = parts.collect();
    whole.chain(parts).collect()
}

/// Returns the section of sorted positions, and the position at each rank.
fn built(options: &ChunkOptions, positions: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (mut builder, mut order, mut placed) = (Builder::new(options), Vec::new(), Vec::new());
    for chunk in chunks_of(options, positions) {
        let solved = solve(options, chunk, &mut order);
        assert_eq!(order.len(), chunk.len());
        placed.extend(order.iter().map(|&i| chunk[i as usize]));
        builder.add(chunk, &solved);
    }
    (builder.finish(), placed)
}

/// Checks that every position is found, alone and among many, and that ranges of one rank are all different.
fn check_all(chunks: &Chunks, words: &[u64], placed: &[u64]) {
    assert_eq!(chunks.pairs(), placed.len() as u64);
    let mut taken = vec![0_u64; placed.len() / 64 + 1];
    let mut ranges = Vec::new();
    for (first, positions) in (0..).step_by(1000).zip(placed.chunks(1000)) {
        chunks.locate_many(words, positions, &mut ranges);
        for (i, &position) in positions.iter().enumerate() {
            let (rank, range) = (first + i, chunks.locate(words, position));
            assert_eq!(ranges[i], range, "{position:#x} among many");
            assert!(range.contains(&(rank as u64)), "{position:#x} at {rank} is looked for at {range:?}");
            if range.end - range.start == 1 {
                let bit = 1 << (rank % 64);
                assert_eq!(taken[rank / 64] & bit, 0, "two positions at rank {rank}");
                taken[rank / 64] |= bit;
            }
        }
    }
}

/// Builds an index of sorted positions, checks all of it, and returns its facts.
fn checked(options: &ChunkOptions, positions: &[u64]) -> Facts {
    let (words, placed) = built(options, positions);
    let chunks = Chunks::open(&words).expect("as it was built");
    check_all(&chunks, &words, &placed);
    let ranges: Vec<Range<u64>> = (0..chunks.chunk_count()).map(|chunk| chunks.ranks(chunk)).collect();
    assert_eq!(ranges.len() as u64, chunks.chunk_count());
    let mut sorted: Vec<u64> = Vec::new();
    for (chunk, ranks) in ranges.into_iter().enumerate() {
        assert_eq!(ranks.start, sorted.len() as u64, "chunks follow each other");
        assert!(ranks.clone().all(|rank| chunks.chunk_of_rank(rank) == chunk as u64));
        sorted.extend(&placed[ranks.start as usize..ranks.end as usize]);
        sorted[ranks.start as usize..].sort_unstable();
    }
    assert_eq!(sorted, positions, "sorted chunk by chunk, they are what they were");
    chunks.facts()
}

fn all_options() -> impl Iterator<Item = ChunkOptions> {
    [512, 1024].into_iter().flat_map(|chunk_keys| Effort::ALL.map(|effort| ChunkOptions { chunk_keys, effort }))
}

#[test]
fn every_key_of_every_size_has_a_place_of_its_own() {
    for options in all_options() {
        let keys = options.chunk_keys as usize;
        for count in (0..70).chain([127, 128, 129, 251, 509, 997, 1021, 5003]) {
            checked(&options, &positions(count, 1));
        }
        for count in [keys - 1, keys, keys + 1, 2 * keys + 37, 9 * keys - 1] {
            checked(&options, &positions(count, 2));
        }
    }
}

#[test]
fn bits_and_escapes_are_few() {
    let bits_max = [1.90, 1.75, 1.60];
    for options in all_options() {
        let facts = checked(&options, &positions(100_000, 3));
        let bits = facts.bits as f64 / facts.pairs as f64;
        assert!(bits < bits_max[options.effort as usize], "{options:?}: {bits} bits a key");
        assert!(facts.escapes <= 3, "{options:?}: {} escapes of {} chunks", facts.escapes, facts.chunks);
        assert!(facts.threshold_bits + facts.seed_bits <= facts.bits);
    }
}

/// Returns sorted positions in every pattern that a poor hash function may produce.
fn skewed(count: u64) -> Vec<(&'static str, Vec<u64>)> {
    type Pattern = (&'static str, fn(u64) -> u64);
    let patterns: [Pattern; 8] = [
        ("the low 20 bits", |i| mixed(i) >> 44),
        ("32 bits, the low ones 0", |i| mixed(i) >> 32 << 32),
        ("multiples of 2^40", |i| mixed(i) >> 40 << 40),
        ("counted up", |i| i),
        ("counted up from the top", |i| u64::MAX - i),
        ("bits reversed", |i| i.reverse_bits()),
        ("pairs far apart", |i| (i / 2) << 63 | mixed(i) >> 50),
        ("runs, each alike in the high bits", |i| mixed(i / 700) & !0xFFFF_FFFF | i),
    ];
    let sorted = |pattern: fn(u64) -> u64| {
        let mut positions: Vec<u64> = (0..count).map(pattern).collect();
        positions.sort_unstable();
        positions
    };
    patterns.map(|(name, pattern)| (name, sorted(pattern))).into()
}

#[test]
fn skewed_positions_are_found() {
    for options in [ChunkOptions::default(), ChunkOptions { chunk_keys: 1024, effort: Effort::Fast }] {
        for (name, positions) in skewed(20_000) {
            println!("{name}: {:?}", checked(&options, &positions));
        }
    }
}

#[test]
fn distinct_positions_are_no_escapes_however_skewed() {
    for (name, mut positions) in skewed(20_000) {
        positions.dedup();
        let facts = checked(&ChunkOptions::default(), &positions);
        assert!(facts.escapes <= 3, "{name}: {facts:?}");
    }
}

#[test]
fn equal_positions_are_found_where_chunks_meet() {
    let options = ChunkOptions::default();
    for (from, to) in
        [(0, 2), (510, 512), (511, 513), (512, 514), (0, 512), (300, 900), (511, 2049), (500, 5000), (0, 5000)]
    {
        let mut positions = positions(5000, 4);
        let alike = positions[from];
        positions[from..to].fill(alike);
        checked(&options, &positions);
        // Tied, and listed among other ties: all have the same high 32 bits.
        positions.iter_mut().for_each(|position| *position >>= 40);
        let alike = positions[from];
        positions[from..to].fill(alike);
        checked(&options, &positions);
    }
    for alike in [0, 1, 1 << 63, u64::MAX] {
        checked(&options, &vec![alike; 3000]);
    }
}

#[test]
fn a_search_that_is_cut_off_leaves_the_order_as_it_was() {
    let options = ChunkOptions::default();
    let positions = positions(512, 5);
    let mut order = vec![9; 3];
    let solved = solve_within(&options, &positions, &mut order, 1, wide::search);
    assert!(order.iter().copied().eq(0..512));
    let mut builder = Builder::new(&options);
    builder.add(&positions, &solved);
    let words = builder.finish();
    let chunks = Chunks::open(&words).expect("as it was built");
    assert_eq!(chunks.facts().escapes, 1);
    let mut ranges = Vec::new();
    chunks.locate_many(&words, &positions, &mut ranges);
    assert!(ranges.iter().all(|range| *range == (0..512)));
    assert_eq!(chunks.locate(&words, positions[77]), 0..512);
}

#[test]
fn wide_instructions_change_nothing() {
    for options in all_options() {
        let positions = positions(20_000, 6);
        let all_skewed = skewed(1500).into_iter().map(|(_, positions)| positions);
        for positions in all_skewed.chain([positions]) {
            for chunk in chunks_of(&options, &positions) {
                let (mut order, mut portable_order) = (Vec::new(), Vec::new());
                let solved = solve(&options, chunk, &mut order);
                let cap = 1 << 15;
                let portable = solve_within(&options, chunk, &mut portable_order, cap, wide::search_portable);
                assert_eq!((solved, order), (portable, portable_order));
            }
        }
    }
}

/// Computes a checksum over words, for results that must not change.
fn digest(words: &[u64]) -> u64 {
    words.iter().fold(words.len() as u64, |digest, word| mixed(digest ^ word))
}

#[test]
fn the_same_positions_give_the_same_words_everywhere() {
    let digest_with =
        |chunk_keys, effort| digest(&built(&ChunkOptions { chunk_keys, effort }, &positions(10_000, 7)).0);
    let digests =
        [digest_with(512, Effort::Fast), digest_with(512, Effort::Balanced), digest_with(1024, Effort::Small)];
    let expected = [863_847_783_545_939_218, 11_247_333_198_896_804_028, 17_066_590_134_492_377_919];
    assert_eq!(digests, expected, "bits that other machines found for these keys: budgets and search decide on them");
}

#[test]
fn damaged_words_are_errors_or_give_ranges_within() {
    let options = ChunkOptions::default();
    let mut skewed: Vec<Vec<u64>> = skewed(6000).into_iter().map(|(_, positions)| positions).collect();
    skewed.push(positions(6000, 8));
    skewed.push(positions(9, 8));
    let mut number = 0;
    let mut random = || {
        number += 1;
        mixed(number)
    };
    let mut opened = 0;
    for positions in skewed {
        let (words, _) = built(&options, &positions);
        for _ in 0..600 {
            let mut words = words.clone();
            // The header, the starts and the rest are damaged equally often; by a bit, a whole word, or many.
            for _ in 0..1 + random() % 4 * (random() % 8) {
                let reach = [6, 10, words.len()][random() as usize % 3].min(words.len());
                let at = random() as usize % reach;
                words[at] = match random() % 4 {
                    0 => random(),
                    1 => u64::MAX << (random() % 64),
                    _ => words[at] ^ 1 << (random() % 64),
                };
            }
            if random() % 16 == 0 {
                words.truncate(random() as usize % words.len());
            }
            let Ok(chunks) = Chunks::open(&words) else { continue };
            opened += 1;
            let mut asked: Vec<u64> = (0..100).map(|_| positions[random() as usize % positions.len()]).collect();
            asked.extend([0, 1, u64::MAX, random(), random() >> 50]);
            let mut ranges = Vec::new();
            chunks.locate_many(&words, &asked, &mut ranges);
            for (range, position) in ranges.iter().zip(asked) {
                assert_eq!(*range, chunks.locate(&words, position));
                assert!(range.start <= range.end && range.end <= chunks.pairs(), "{range:?} of {}", chunks.pairs());
            }
            assert_eq!(
                (0..chunks.chunk_count())
                    .map(|chunk| chunks.ranks(chunk))
                    .map(|ranks| ranks.end - ranks.start)
                    .sum::<u64>(),
                chunks.pairs()
            );
        }
    }
    assert!(opened > 1000, "{opened} were opened, too few to show anything");
}

#[test]
fn sections_of_any_length_are_refused_or_read() {
    let (words, _) = built(&ChunkOptions::default(), &positions(2000, 9));
    for count in 0..words.len() {
        assert!(Chunks::open(&words[..count]).is_err(), "{count} of {} words", words.len());
    }
    assert!(Chunks::open(&[words.as_slice(), &[0]].concat()).is_err());
    for (at, word) in
        [(0, u64::MAX), (0, 9 | 41 << 8), (0, 0), (1, u64::MAX), (1, 1 << 41), (2, 1 << 62), (4, 0), (5, 1 << 8)]
    {
        let mut words = words.clone();
        words[at] = word;
        assert!(Chunks::open(&words).is_err(), "word {at} as {word:#x}");
    }
}

#[test]
fn positions_that_no_record_has_get_ranges_within() {
    let (words, _) = built(&ChunkOptions::default(), &positions(6001, 10));
    let chunks = Chunks::open(&words).expect("as it was built");
    for position in (0..20_000).map(|i| mixed(i) ^ 0xFF).chain([0, u64::MAX]) {
        let range = chunks.locate(&words, position);
        assert!(range.start < range.end && range.end <= 6001, "{position:#x}: {range:?}");
    }
}

#[test]
fn the_rest_is_cut_into_powers_of_two() {
    assert_eq!(cut(0).count(), 0);
    assert_eq!(cut(1023).collect::<Vec<_>>(), [512, 256, 128, 64, 32, 16, 8, 4, 3]);
    assert_eq!(cut(517).collect::<Vec<_>>(), [512, 4, 1]);
    assert_eq!(cut(2).collect::<Vec<_>>(), [2]);
}

#[test]
#[ignore = "slow: an index of each kind over 100 million positions, each looked up"]
fn each_of_a_hundred_million_positions_has_its_own_rank() {
    let positions = positions(100_000_000, 0);
    for (chunk_keys, effort) in [(512, Effort::Fast), (512, Effort::Balanced), (1024, Effort::Small)] {
        let (words, placed) = built(&ChunkOptions { chunk_keys, effort }, &positions);
        check_all(&Chunks::open(&words).expect("as it was built"), &words, &placed);
    }
}
