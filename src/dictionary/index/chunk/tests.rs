//! The index as a whole: every key of every size finds its place, whatever the positions and the words.

use super::*;
use std::ops::Range;
use std::time::Instant;

/// SplitMix64: numbers as good as hashes, the same every time.
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

/// The chunks of sorted positions.
fn chunks_of<'a>(options: &ChunkOptions, positions: &'a [u64]) -> Vec<&'a [u64]> {
    let whole = positions.chunks_exact(options.chunk_keys as usize);
    let mut rest = whole.remainder();
    let parts = cut(rest.len() as u64).map(|size| rest.split_off(..size as usize).expect("as many as it says"));
    let parts: Vec<&[u64]> = parts.collect();
    whole.chain(parts).collect()
}

/// The section of sorted positions, and the position at each rank.
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

/// Bits of an index, and nanoseconds of each position's search, lookup and lookup among many.
#[test]
#[ignore = "slow: 100 million positions; `figures -- --nocapture` shows what they cost"]
fn figures() {
    let count: usize = std::env::var("KEYS").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000_000);
    let positions = positions(count, 0);
    let mut asked: Vec<u64> = (0..4_000_000).map(|i| positions[(mixed(i) % count as u64) as usize]).collect();
    asked.truncate(count);
    println!("{:28} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9} {:>5}", "", "bits/key", "seeds", "build M/s", "ns", "ns many", "escapes", "ties");
    for chunk_keys in [512, 1024] {
        for effort in Effort::ALL {
            let options = ChunkOptions { chunk_keys, effort };
            figures_of(&options, &positions, &asked);
        }
    }
}

fn figures_of(options: &ChunkOptions, positions: &[u64], asked: &[u64]) {
    let (mut builder, mut order, mut placed) = (Builder::new(options), Vec::new(), vec![0; positions.len()]);
    let mut at = 0;
    let cut = chunks_of(options, positions);
    let clock = Instant::now();
    for chunk in cut {
        let solved = solve(options, chunk, &mut order);
        builder.add(chunk, &solved);
        for &record in &order {
            placed[at] = chunk[record as usize];
            at += 1;
        }
    }
    let words = builder.finish();
    let build = clock.elapsed().as_secs_f64();
    let chunks = Chunks::open(&words).expect("as it was built");
    let clock = Instant::now();
    let sum: u64 = asked.iter().map(|&position| chunks.locate(&words, position).start).fold(0, u64::wrapping_add);
    let one = clock.elapsed().as_nanos() as f64 / asked.len() as f64;
    let mut ranges = Vec::new();
    let clock = Instant::now();
    let mut sum_of_many = 0_u64;
    for asked in asked.chunks(4096) {
        chunks.locate_many(&words, asked, &mut ranges);
        sum_of_many = ranges.iter().map(|range| range.start).fold(sum_of_many, u64::wrapping_add);
    }
    let many = clock.elapsed().as_nanos() as f64 / asked.len() as f64;
    assert_eq!(sum, sum_of_many);
    check_all(&chunks, &words, &placed);
    let (facts, count) = (chunks.facts(), positions.len() as f64);
    println!(
        "{:28} {:9.4} {:9.4} {:9.2} {one:7.1} {many:7.1} {:9} {:5}",
        format!("K={} {:?}", options.chunk_keys, options.effort),
        facts.bits as f64 / count,
        facts.seed_bits as f64 / count,
        count / build / 1e6,
        facts.escapes,
        facts.ties,
    );
}

/// Every position is found where it stands, and ranges of one rank are all different.
fn check_all(chunks: &Chunks, words: &[u64], placed: &[u64]) {
    assert_eq!(chunks.pairs(), placed.len() as u64);
    let mut taken = vec![0_u64; placed.len() / 64 + 1];
    for (rank, &position) in placed.iter().enumerate() {
        let range = chunks.locate(words, position);
        assert!(range.contains(&(rank as u64)), "{position:#x} at {rank} is looked for at {range:?}");
        if range.end - range.start == 1 {
            let bit = 1 << (rank % 64);
            assert_eq!(taken[rank / 64] & bit, 0, "two positions at rank {rank}");
            taken[rank / 64] |= bit;
        }
    }
}
