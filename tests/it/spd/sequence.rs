//! Rows of bits, and non-descending sequences of numbers (docs/dictionary-format.md, "Sequence").

use super::{Result, must};

/// Returns bit `p` of a row of bits: bit p mod 64 of its word p / 64.
pub fn bit(words: &[u64], p: u64) -> bool {
    words[(p / 64) as usize] >> (p % 64) & 1 == 1
}

/// Returns `count` bits from `p` on, with the first as the lowest.
pub fn bits(words: &[u64], p: u64, count: u64) -> u64 {
    (0..count).fold(0, |value, n| value | u64::from(bit(words, p + n)) << n)
}

/// Parses the sequence of `greatest` at the start of `words`; returns its numbers and its number of words. Checks
/// everything that readers rely on.
pub fn parse(words: &[u64], greatest: u64) -> Result<(Vec<u64>, usize)> {
    let &[m, stored_greatest, ..] = words else { return Err("a sequence without a header".into()) };
    must(stored_greatest == greatest, || format!("a sequence up to {stored_greatest}, not {greatest}"))?;
    must(m < 1 << 35, || format!("a sequence of {m}"))?;
    if m == 0 {
        return Ok((Vec::new(), 2));
    }
    let all = u128::from(greatest) + 1;
    let l = if all < u128::from(m) { 0 } else { u64::from((all / u128::from(m)).ilog2()).min(63) };
    let z = (greatest >> l) + 1;
    let blocks = (m + z).div_ceil(1024);
    let (zero_hints, one_hints) = (z.div_ceil(1024).div_ceil(2), m.div_ceil(1024).div_ceil(2));
    let low_words = (m * l).div_ceil(64);
    let ends = [blocks, zero_hints, one_hints, 16 * blocks, low_words].into_iter().scan(2, |at, words| {
        *at += words;
        Some(*at as usize)
    });
    let ends: Vec<usize> = ends.collect();
    must(words.len() >= ends[4], || format!("a sequence of {m} up to {greatest} in {} words", words.len()))?;
    let directory = &words[2..ends[0]];
    let (zeros, ones) = (&words[ends[0]..ends[1]], &words[ends[1]..ends[2]]);
    let (high, low) = (&words[ends[2]..ends[3]], &words[ends[3]..ends[4]]);

    let hint = |hints: &[u64], k: u64| hints[(k / 2) as usize] >> (32 * (k % 2)) & 0xFFFF_FFFF;
    let (mut ones_before, mut zeros_before) = (0u64, 0u64);
    let mut numbers = Vec::new();
    for block in 0..blocks {
        let quarter = |n: u64| (0..256 * n).filter(|at| bit(high, 1024 * block + at)).count() as u64;
        let wanted = ones_before | quarter(1) << 35 | quarter(2) << 44 | quarter(3) << 54;
        must(directory[block as usize] == wanted, || format!("directory word {block} of a sequence"))?;
        for at in 1024 * block..1024 * (block + 1) {
            let (number, of, hints) = if bit(high, at) {
                numbers.push(zeros_before << l | bits(low, ones_before * l, l));
                (&mut ones_before, m, ones)
            } else {
                (&mut zeros_before, z, zeros)
            };
            if *number % 1024 == 0 && *number < of {
                must(hint(hints, *number / 1024) == block, || format!("hint {} of a sequence", *number / 1024))?;
            }
            *number += 1;
        }
    }
    must(ones_before == m, || format!("{ones_before} ones in a sequence of {m}"))?;
    must(numbers.is_sorted() && numbers.last().is_none_or(|last| *last <= greatest), || "no sequence".into())?;
    Ok((numbers, ends[4]))
}
