//! The entropy codes of the tries: EC(|Left|, |T|), Huffman for small tries and Elias-gamma above.
//!
//! A trie of C keys whose left subtrie holds L of them is coded as the symbol L, but as 0 if L = C. A key in the trie
//! gains nothing from knowing which side is empty, so both cases share a symbol. Random hashes make L binomial with p =
//! 1/2. The code lengths are part of the file format, so they are computed with integers only:
//!
//! * P(0, 0) = 2^120, P(C, L) = floor((P(C-1, L-1) + P(C-1, L)) / 2), 0 outside 0..=C;
//! * the weight of L in 1..C is max(1, floor(P(C, L) / 2^88)), that of 0 is max(1, floor((P(C, 0) + P(C, C)) / 2^88)):
//!   the binomial probability in units of 2^-32;
//! * Huffman's algorithm joins the two least weights until one is left; among equal weights symbols come before joined
//!   ones, lower symbols before higher, older joined ones before newer. The result is the lengths;
//! * the codes are canonical: symbols sorted by (length, symbol) get 0, then each the one before plus 1, shifted left
//!   by the growth in length. The most significant bit of a code comes first in the file;
//! * above `huffman_max` keys: with d = L - floor(C/2), v = 2d where d >= 0 and -2d - 1 below, the gamma code of v + 1:
//!   as many 0 bits as it has bits after its leading 1, that 1, then those bits, least significant first.
//!
//! Source: Lim, Andersen & Kaminsky 2013, section 2.4. Its weights are the exact binomials. Rounding to 2^-32 limits a
//! code to [`LENGTH_MAX`] bits, which skewed hashes need, at no measurable cost.
//! Not here: the format of the tries (`mod.rs`), tables for fast decoding (`tables.rs`).

/// No Huffman code is longer: the sum of the weights is 2^32 and a little more, and depth d requires a sum of at least
/// the d-th Fibonacci number.
pub(super) const LENGTH_MAX: u32 = 48;

/// P(0, 0): large enough that all P(C, L) with C <= 120 are exact.
const ONE: u128 = 1 << 120;
/// The shift from P to weights.
const WEIGHT_SHIFT: u32 = 120 - 32;

/// The Huffman codes of tries of 2 to `huffman_max` keys.
pub(super) struct Codes {
    huffman_max: u64,
    /// By size and symbol: the code, its first bit lowest, above 8 bits with its length.
    words: Vec<u64>,
    /// The start of a size's symbols in `words`.
    rows: Vec<usize>,
}

impl Codes {
    pub(super) fn new(huffman_max: u32) -> Codes {
        let (mut words, mut rows) = (Vec::new(), vec![0, 0]);
        for row in binomials(huffman_max).skip(2) {
            rows.push(words.len());
            words.extend(canonical(&lengths(&weights(&row))));
        }
        Codes { huffman_max: huffman_max.into(), words, rows }
    }

    pub(super) fn huffman_max(&self) -> u64 {
        self.huffman_max
    }

    /// The codes of tries of `size` keys by symbol: (code with its first bit lowest, length).
    pub(super) fn of(&self, size: u64) -> impl ExactSizeIterator<Item = (u64, u32)> {
        let first = self.rows[size as usize];
        self.words[first..first + size as usize].iter().map(|&word| (word >> 8, (word & 0xff) as u32))
    }

    /// The code of symbol `left` in a trie of `size` keys up to `huffman_max`, and its length.
    #[inline]
    pub(super) fn code(&self, size: u64, left: u64) -> (u64, u32) {
        let word = self.words[self.rows[size as usize] + left as usize];
        (word >> 8, (word & 0xff) as u32)
    }
}

/// The number that encodes `left` in a trie of `size` keys above `huffman_max`: 1 for half of the keys, larger with
/// distance.
pub(super) fn gamma_number(size: u64, left: u64) -> u64 {
    let half = size / 2;
    if left >= half { 2 * (left - half) + 1 } else { 2 * (half - left) }
}

/// The inverse of [`gamma_number`]; `None` for invalid numbers.
#[inline]
pub(super) fn gamma_left(size: u64, number: u64) -> Option<u64> {
    let half = size / 2;
    let left = if number & 1 == 1 { half + number / 2 } else { half.checked_sub(number / 2)? };
    (left < size).then_some(left)
}

/// Rows 0 to `last` of P.
fn binomials(last: u32) -> impl Iterator<Item = Vec<u128>> {
    let next = |row: &Vec<u128>| {
        let at = |i: usize| row.get(i).copied().unwrap_or(0);
        Some((0..=row.len()).map(|l| (at(l) + l.checked_sub(1).map_or(0, at)) / 2).collect())
    };
    std::iter::successors(Some(vec![ONE]), next).take(last as usize + 1)
}

/// The weights of the symbols 0..C from row C of P.
fn weights(row: &[u128]) -> Vec<u64> {
    let size = row.len() - 1;
    let weight = |p: u128| (p >> WEIGHT_SHIFT).max(1) as u64;
    (0..size).map(|l| weight(if l == 0 { row[0] + row[size] } else { row[l] })).collect()
}

/// The code lengths that Huffman's algorithm produces.
fn lengths(weights: &[u64]) -> Vec<u32> {
    let count = weights.len();
    let mut symbols: Vec<usize> = (0..count).collect();
    symbols.sort_by_key(|&s| (weights[s], s));
    // Joined nodes are made in order of ascending weight, so two queues replace a heap. Joined node j has number count
    // + j.
    let (mut sums, mut parents) = (Vec::<u64>::new(), vec![0; 2 * count - 1]);
    let (mut next_symbol, mut next_sum) = (0, 0);
    for joined in count..2 * count - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            let symbol = symbols.get(next_symbol).filter(|&&s| sums.get(next_sum).is_none_or(|&w| weights[s] <= w));
            let (least, weight) = match symbol {
                Some(&s) => (s, weights[s]),
                None => (count + next_sum, sums[next_sum]),
            };
            if least < count {
                next_symbol += 1
            } else {
                next_sum += 1
            }
            parents[least] = joined;
            sum += weight;
        }
        sums.push(sum);
    }
    let mut depths = vec![0; 2 * count - 1];
    for node in (0..2 * count - 2).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths.truncate(count);
    depths
}

/// The canonical codes of these lengths, as [`Codes::words`] holds them.
fn canonical(lengths: &[u32]) -> Vec<u64> {
    let mut symbols: Vec<usize> = (0..lengths.len()).collect();
    symbols.sort_by_key(|&s| (lengths[s], s));
    let mut words = vec![0; lengths.len()];
    let (mut code, mut length) = (0u64, lengths[symbols[0]]);
    for symbol in symbols {
        code <<= lengths[symbol] - length;
        length = lengths[symbol];
        assert!(length <= LENGTH_MAX, "weights of 32 bits give no longer code");
        words[symbol] = (code.reverse_bits() >> (64 - length)) << 8 | u64::from(length);
        code += 1;
    }
    words
}

#[cfg(test)]
#[path = "tests/code.rs"]
mod tests;
