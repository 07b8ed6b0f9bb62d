//! Elias-Fano: a non-decreasing sequence of numbers, 2 + log2(universe / len) bits each, searched without decoding.
//!
//! A value is split in two. Its low bits are in an array; its high part `h` is a one at bit `h + i` of a bit vector,
//! where `i` is the value's index: ones are values, zeros step from one high part to the next.
//!
//! ```text
//! values  1  4  5  5  9  30      2 low bits      high parts  0  1  1  1  2  7
//! high    1 0 1 1 1 0 1 0 0 0 0 0 1 0            h=0: 1, end; h=1: three, end; h=2: one, end; ... h=7: one, end
//! section [len][greatest][directory][zero hints][one hints][high][low]
//! ```
//!
//! Reading value i requires finding the i-th one; counting the values below a number requires finding the h-th zero.
//! Both are found with a hint (the block of every 1024th), the directory (ones before each block and before its
//! quarters), and four words of the block.
//!
//! Cost: 0.19 bits per value for hints and directory if the universe is a power of two times `len`, 0.28 at worst. A
//! query reads a hint, a directory word, a line of high bits and one of low bits; only the last two outgrow a cache at
//! 10^8 values. For a deliberately skewed sequence it uses binary search, never a linear scan. Any words that
//! [`EliasFano::open`] accepts are searched within bounds; if they are nonsense, so is the answer.
//! Source: Elias 1974; Fano 1971; Vigna 2013, "Quasi-succinct indices"; the directory: Vigna 2008, "Broadword".
//! Not here: what the numbers mean (`page_index.rs`); instructions that only some processors have (`popcnt.rs`).

use crate::error::{Error, Result};
use std::hint::select_unpredictable;

/// The size in bits of a block of high bits. Each block has one directory word.
const BLOCK_BITS: u64 = 1024;
const BLOCK_WORDS: usize = BLOCK_BITS as usize / 64;
const QUARTER_WORDS: usize = BLOCK_WORDS / 4;

/// There is one hint per this many ones, and one per this many zeros.
const HINT_EVERY: u64 = 1024;

/// The most values: the directory counts them in 35 bits.
const LEN_MAX: u64 = (1 << 35) - 1;

/// Up to this many blocks are scanned one by one; hints nearly always leave two.
const NEAR_BLOCKS_MAX: usize = 4;

/// In sequences of hashes, a high part nearly always has at most this many values.
const NEAR_VALUES_MAX: u32 = 4;
/// With at most this many low bits per value, 64 bits hold those of the values, of the one before and of the one after.
const NEAR_LOW_BITS_MAX: u64 = 64 / (NEAR_VALUES_MAX as u64 + 2);

/// Words before the directory: `len` and `greatest`.
const HEADER_WORDS: u64 = 2;

/// The locations of a sequence's parts in its words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EliasFano {
    len: u64,
    /// No value is above it: the universe less one, so that it can express a universe of 2^64.
    greatest: u64,
    low_bits: u32,
    blocks: usize,
    zero_hints: Hints,
    one_hints: Hints,
    high: usize,
    low: usize,
    words: usize,
}

/// Block numbers of 32 bits, two per word.
#[derive(Clone, Copy, Debug)]
struct Hints {
    at: usize,
    len: u64,
}

/// The number of values of a sequence below a number, and the number of values up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) less: u64,
    pub(crate) less_or_equal: u64,
}

/// [`Below`] for a number, and the values on both sides of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) below: Below,
    /// The last value below the number; 0 if there is none.
    pub(crate) before: u64,
    /// The first value not below it. If there is none, `greatest` + 1, or `u64::MAX` if that would overflow.
    pub(crate) behind: u64,
}

/// The kind of bit to find in the high bits.
#[derive(Clone, Copy, PartialEq)]
enum Bit {
    Zero,
    One,
}

impl EliasFano {
    /// The words of a sequence of exactly `len` values, which must not decrease or exceed `greatest`.
    ///
    /// # Errors
    /// If the values violate this, or one of them is an error; if `len` is above 2^35 - 1.
    pub(crate) fn build(values: impl Iterator<Item = Result<u64>>, len: u64, greatest: u64) -> Result<Vec<u64>> {
        let parts = EliasFano::layout(len, greatest).map_err(Error::corrupt)?;
        let mut words = vec![0; parts.words];
        (words[0], words[1]) = (len, greatest);
        let (mut count, mut last) = (0, 0);
        for value in values {
            let value = value?;
            if count == len || value < last || value > greatest {
                return Err(Error::corrupt(format!(
                    "an index of {len} numbers up to {greatest}: number {count} is {value}, after {last}"
                )));
            }
            parts.put(&mut words, count, value);
            (count, last) = (count + 1, value);
        }
        if count != len {
            return Err(Error::corrupt(format!("an index of {len} numbers got {count}")));
        }
        parts.put_directory(&mut words);
        Ok(words)
    }

    /// Reads the header of the sequence and checks that the number of words is right.
    pub(crate) fn open(words: &[u64]) -> Result<EliasFano, String> {
        let &[len, greatest, ..] = words else {
            return Err(format!("a sequence of {} words, without its header", words.len()));
        };
        let parts = EliasFano::layout(len, greatest)?;
        if parts.words == words.len() { Ok(parts) } else { Err(parts.wrong_length(words)) }
    }

    fn wrong_length(&self, words: &[u64]) -> String {
        let EliasFano { len, greatest, words: want, .. } = self;
        format!("a sequence of {len} numbers up to {greatest} takes {want} words, found {}", words.len())
    }

    /// The number of values.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Value number `index`; the last value if there are fewer, 0 if there are none.
    pub(crate) fn get(&self, words: &[u64], index: u64) -> u64 {
        let Some(last) = self.len.checked_sub(1) else { return 0 };
        let index = index.min(last);
        let high = self.select(words, Bit::One, index).saturating_sub(index);
        ((high << self.low_bits) | self.low(words, index)).min(self.greatest)
    }

    /// The number of values below `value`, and the number up to it; those between are equal to it.
    pub(crate) fn below(&self, words: &[u64], value: u64) -> Below {
        match self.end_before(value) {
            Some(Some(zero)) => self.below_from(words, value, self.select(words, Bit::Zero, zero) + 1),
            Some(None) => self.below_from(words, value, 0),
            None => Below { less: self.len, less_or_equal: self.len },
        }
    }

    /// [`EliasFano::below`] for each of `values`, and the values on both sides. The memory accesses of all of them
    /// overlap.
    ///
    /// `popcnt.rs` compiles this for different kinds of processors, so all of it is inlined. It uses no closures, which
    /// would not be inlined.
    #[inline(always)]
    pub(super) fn around<const N: usize>(&self, words: &[u64], values: &[u64; N]) -> [Around; N] {
        let mut found = [Around { below: Below { less: 0, less_or_equal: 0 }, before: 0, behind: 0 }; N];
        let mut blocks = [0; N];
        // Each step for all values before the next step for any: the loads of a step do not depend on one another.
        for (value, block) in values.iter().zip(&mut blocks) {
            if let Some(Some(zero)) = self.end_before(*value) {
                *block = self.block_of(words, Bit::Zero, zero);
            }
        }
        for ((value, block), found) in values.iter().zip(blocks).zip(&mut found) {
            let start = match self.end_before(*value) {
                Some(Some(zero)) => self.select_in_block(words, Bit::Zero, zero, block) + 1,
                Some(None) => 0,
                None => {
                    *found = self.above_all(words);
                    continue;
                }
            };
            *found = match self.around_near(words, *value, start) {
                Some(found) => found,
                None => self.around_far(words, *value, start),
            };
        }
        found
    }

    /// The values around `value`; `start` is where the values of its high part begin. Works without branches on them if
    /// they are few and their neighbours are close, as in sequences of hashes. Otherwise `None`.
    #[inline(always)]
    fn around_near(&self, words: &[u64], value: u64, start: u64) -> Option<Around> {
        let (high, low_bits) = (value >> self.low_bits, u64::from(self.low_bits));
        let first = start.checked_sub(high)?;
        if first > self.len || low_bits > NEAR_LOW_BITS_MAX {
            return None;
        }
        // The 64 bits from `start` on, and the 64 before it. The word after the high bits has low bits; in a valid
        // sequence they are not used.
        let (at, shift) = (self.high + (start / 64) as usize, (start % 64) as u32);
        let &[before, here, behind] = words.get(at - 1..)?.first_chunk()?;
        let before = if start < 64 { 0 } else { before };
        let ones = here >> shift | (behind << 1) << (63 - shift);
        let ones_before = before >> shift | (here << 1) << (63 - shift);
        let run = ones.trailing_ones();
        let to_next = (ones & ones.wrapping_add(1)).trailing_zeros();
        let to_last = ones_before.leading_zeros();
        if run > NEAR_VALUES_MAX || (first > 0 && to_last == 64) || (to_next == 64 && first + u64::from(run) < self.len)
        {
            return None;
        }
        // The low bits of the value before the first, and of those after it.
        let skipped = u64::from(first > 0);
        let lows = self.lows(words, first - skipped)?;
        let mask = (1_u64 << low_bits) - 1;
        let wanted = value & mask;
        let run = u64::from(run).min(self.len - first);
        let (less, less_or_equal) = compare_four(lows >> (skipped * low_bits), low_bits, run, wanted);
        let low_before = lows >> ((less + skipped).saturating_sub(1) * low_bits) & mask;
        let low_behind = lows >> ((less + skipped) * low_bits) & mask;
        let high_before = select_unpredictable(less > 0, high, high.saturating_sub(to_last.into()));
        let before = if first + less == 0 { 0 } else { high_before << low_bits | low_before };
        let high_behind = if less < run { high } else { high + u64::from(to_next) - run };
        let is_last = first + less == self.len;
        let behind = if is_last { u64::MAX } else { high_behind << low_bits | low_behind };
        let below = Below { less: first + less, less_or_equal: first + less_or_equal };
        Some(Around { below, before: before.min(self.greatest), behind: behind.min(self.end()) })
    }

    /// The result of [`EliasFano::around_near`], for any values.
    #[cold]
    #[inline(never)]
    fn around_far(&self, words: &[u64], value: u64, start: u64) -> Around {
        let below = self.below_from(words, value, start);
        let before = below.less.checked_sub(1).map_or(0, |index| self.get(words, index));
        let behind = if below.less < self.len { self.get(words, below.less) } else { self.end() };
        Around { below, before, behind }
    }

    /// The result for a number above all values.
    #[cold]
    fn above_all(&self, words: &[u64]) -> Around {
        let below = Below { less: self.len, less_or_equal: self.len };
        Around { below, before: self.get(words, self.len), behind: self.end() }
    }

    /// The smallest number that is above every possible value.
    fn end(&self) -> u64 {
        self.greatest.saturating_add(1)
    }

    /// Whether these are the words that [`EliasFano::build`] makes. Reads everything once, and needs as much memory
    /// again.
    pub(crate) fn check(&self, words: &[u64]) -> Result<(), String> {
        let values = (0..self.len).map(|index| Ok(self.get(words, index)));
        let again = EliasFano::build(values, self.len, self.greatest).map_err(|e| e.to_string())?;
        if again == words { Ok(()) } else { Err(format!("a sequence of {} numbers is not made of them", self.len)) }
    }

    /// The parts of a sequence, computed from the number of values and the greatest.
    fn layout(len: u64, greatest: u64) -> Result<EliasFano, String> {
        if len > LEN_MAX {
            return Err(format!("a sequence of {len} numbers; at most {LEN_MAX} are possible"));
        }
        let universe = u128::from(greatest) + 1;
        // At most 63, so that shifts are defined; it would be 64 only for one value in a universe of 2^64.
        let low_bits = universe.checked_div(len.into()).and_then(u128::checked_ilog2).unwrap_or(0).min(63);
        let (ones, zeros) = if len == 0 { (0, 0) } else { (len, (greatest >> low_bits) + 1) };
        let blocks = (ones + zeros).div_ceil(BLOCK_BITS);
        let hint_words = |bits: u64| bits.div_ceil(HINT_EVERY).div_ceil(2);
        let zero_hints = HEADER_WORDS + blocks;
        let one_hints = zero_hints + hint_words(zeros);
        let high = one_hints + hint_words(ones);
        let low = high + blocks * BLOCK_WORDS as u64;
        let words = low + (len * u64::from(low_bits)).div_ceil(64);
        let place = |at: u64| usize::try_from(at).map_err(|_| format!("a sequence of {len} numbers is too long here"));
        Ok(EliasFano {
            len,
            greatest,
            low_bits,
            blocks: place(blocks)?,
            zero_hints: Hints { at: place(zero_hints)?, len: zeros.div_ceil(HINT_EVERY) },
            one_hints: Hints { at: place(one_hints)?, len: ones.div_ceil(HINT_EVERY) },
            high: place(high)?,
            low: place(low)?,
            words: place(words)?,
        })
    }

    fn put(&self, words: &mut [u64], index: u64, value: u64) {
        let one = (value >> self.low_bits) + index;
        words[self.high + (one / 64) as usize] |= 1 << (one % 64);
        if self.low_bits == 0 {
            return;
        }
        let low = value & ((1 << self.low_bits) - 1);
        let at = index * u64::from(self.low_bits);
        let (word, shift) = (self.low + (at / 64) as usize, (at % 64) as u32);
        words[word] |= low << shift;
        if shift + self.low_bits > 64 {
            words[word + 1] |= low >> (64 - shift);
        }
    }

    /// Writes the directory and the hints for the high bits.
    fn put_directory(&self, words: &mut [u64]) {
        let mut ones = 0;
        for block in 0..self.blocks {
            let first = self.high + block * BLOCK_WORDS;
            let quarter = |q: usize| {
                let first = first + q * QUARTER_WORDS;
                words[first..first + QUARTER_WORDS].iter().map(|w| u64::from(w.count_ones())).sum::<u64>()
            };
            let quarters: [u64; 4] = std::array::from_fn(quarter);
            words[HEADER_WORDS as usize + block] = Entry::new(ones, quarters).0;
            let after = ones + quarters.iter().sum::<u64>();
            self.zero_hints.put(
                words,
                block,
                block as u64 * BLOCK_BITS - ones,
                (block as u64 + 1) * BLOCK_BITS - after,
            );
            self.one_hints.put(words, block, ones, after);
            ones = after;
        }
    }

    /// The rank of the zero that ends the values with a smaller high part than `value`; `Some(None)` if `value` has the
    /// smallest high part; `None` if `value` is above all values, or there are none.
    #[inline(always)]
    fn end_before(&self, value: u64) -> Option<Option<u64>> {
        if value <= self.greatest && self.len > 0 { Some((value >> self.low_bits).checked_sub(1)) } else { None }
    }

    /// Computes [`EliasFano::below`]; `start` is where the values of its high part begin.
    fn below_from(&self, words: &[u64], value: u64, start: u64) -> Below {
        let high = value >> self.low_bits;
        let first = start.saturating_sub(high).min(self.len);
        let end = (first + self.run(words, start, high)).min(self.len);
        let wanted = value & ((1 << self.low_bits) - 1);
        let less = self.first_low(words, first, end, |low| low >= wanted);
        let less_or_equal = self.first_low(words, less, end, |low| low > wanted);
        Below { less, less_or_equal }
    }

    /// The number of consecutive ones from bit `start`, where the values of high part `high` begin.
    fn run(&self, words: &[u64], start: u64, high: u64) -> u64 {
        let ones = self.bits_from(words, start).trailing_ones();
        if ones < 64 {
            return ones.into();
        }
        // Longer than any run among hashes: find its end instead of scanning.
        self.select(words, Bit::Zero, high).saturating_sub(start)
    }

    /// 64 high bits from bit `start` on; zeros after the last.
    fn bits_from(&self, words: &[u64], start: u64) -> u64 {
        let high = &words[self.high..self.low];
        let (word, shift) = ((start / 64) as usize, (start % 64) as u32);
        let at = |word: usize| high.get(word).copied().unwrap_or(0);
        if shift == 0 { at(word) } else { at(word) >> shift | at(word + 1) << (64 - shift) }
    }

    /// The first of the values `first` to `end`, all of one high part, whose low bits satisfy `wanted`; `end` if there
    /// is none.
    #[inline]
    fn first_low(&self, words: &[u64], first: u64, end: u64, wanted: impl Fn(u64) -> bool) -> u64 {
        let (mut first, mut end) = (first, end);
        while first < end {
            let middle = first + (end - first) / 2;
            if wanted(self.low(words, middle)) { end = middle } else { first = middle + 1 }
        }
        first
    }

    /// The low bits of value `index`, which is below `len`.
    #[inline]
    fn low(&self, words: &[u64], index: u64) -> u64 {
        if self.low_bits == 0 {
            return 0;
        }
        let at = index * u64::from(self.low_bits);
        let (word, shift) = (self.low + (at / 64) as usize, (at % 64) as u32);
        let mut low = words[word] >> shift;
        if shift + self.low_bits > 64 {
            low |= words[word + 1] << (64 - shift);
        }
        low & ((1 << self.low_bits) - 1)
    }

    /// 64 low bits starting with those of value `index`, zeros after the last; `None` if `index` is beyond them.
    #[inline(always)]
    fn lows(&self, words: &[u64], index: u64) -> Option<u64> {
        let at = index * u64::from(self.low_bits);
        let (word, shift) = (self.low + (at / 64) as usize, (at % 64) as u32);
        let next = words.get(word + 1).copied().unwrap_or(0);
        Some(words.get(word)? >> shift | (next << 1) << (63 - shift))
    }

    /// The position among the high bits of the `rank`-th (from 0) one or zero.
    fn select(&self, words: &[u64], bit: Bit, rank: u64) -> u64 {
        self.select_in_block(words, bit, rank, self.block_of(words, bit, rank))
    }

    /// The block with the `rank`-th one or zero: the last block with at most `rank` of them before it.
    #[inline(always)]
    fn block_of(&self, words: &[u64], bit: Bit, rank: u64) -> usize {
        let hints = if bit == Bit::One { self.one_hints } else { self.zero_hints };
        let last = self.blocks - 1;
        let mut first = hints.get(words, rank / HINT_EVERY).unwrap_or(last).min(last);
        let mut end = hints.get(words, rank / HINT_EVERY + 1).unwrap_or(last).clamp(first, last);
        if end - first <= NEAR_BLOCKS_MAX {
            let mut before = 0;
            for block in first + 1..=end {
                before += usize::from(self.entry(words, block).before(bit, block) <= rank);
            }
            return first + before;
        }
        while first < end {
            let middle = end - (end - first) / 2;
            if self.entry(words, middle).before(bit, middle) <= rank { first = middle } else { end = middle - 1 }
        }
        first
    }

    #[inline(always)]
    fn select_in_block(&self, words: &[u64], bit: Bit, rank: u64, block: usize) -> u64 {
        let entry = self.entry(words, block);
        let in_block = rank.saturating_sub(entry.before(bit, block));
        let (quarter, rest) = entry.quarter(bit, in_block);
        let first = block * BLOCK_WORDS + quarter * QUARTER_WORDS;
        let flip = if bit == Bit::One { 0 } else { u64::MAX };
        // Without branches, as they could not be predicted: the words that end before it, and the ones or zeros in
        // them.
        let (mut ended, mut counted, mut through) = (0, 0, 0);
        for &word in &words[self.high + first..][..QUARTER_WORDS] {
            through += u64::from((word ^ flip).count_ones());
            ended += usize::from(through <= rest);
            counted = if through <= rest { through } else { counted };
        }
        if ended == QUARTER_WORDS {
            // Only if the directory is wrong: then any bit in the block will do.
            return first as u64 * 64;
        }
        let word = words[self.high + first + ended] ^ flip;
        (first + ended) as u64 * 64 + u64::from(select_in_word(word, (rest - counted) as u32))
    }

    #[inline(always)]
    fn entry(&self, words: &[u64], block: usize) -> Entry {
        Entry(words[HEADER_WORDS as usize + block])
    }
}

impl Hints {
    /// Sets the hints for a block that holds ones (or zeros) `before` to `after`.
    fn put(self, words: &mut [u64], block: usize, before: u64, after: u64) {
        for hint in before.div_ceil(HINT_EVERY)..after.div_ceil(HINT_EVERY).min(self.len) {
            words[self.at + (hint / 2) as usize] |= (block as u64) << (hint % 2 * 32);
        }
    }

    #[inline(always)]
    fn get(self, words: &[u64], hint: u64) -> Option<usize> {
        if hint >= self.len {
            return None;
        }
        Some((words[self.at + (hint / 2) as usize] >> (hint % 2 * 32)) as u32 as usize)
    }
}

/// A word of the directory: 35 bits for the ones before the block; 9, 10 and 10 bits for the ones in its first quarter,
/// first half and first three quarters.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    fn new(before: u64, quarters: [u64; 4]) -> Entry {
        let [one, two, three, _] = quarters;
        Entry(before | one << 35 | (one + two) << 44 | (one + two + three) << 54)
    }

    /// Ones, or zeros, before the block.
    #[inline(always)]
    fn before(self, bit: Bit, block: usize) -> u64 {
        let ones = self.0 & LEN_MAX;
        if bit == Bit::One { ones } else { (block as u64 * BLOCK_BITS).saturating_sub(ones) }
    }

    /// The quarter with the `rank`-th one or zero of the block, and the rank within that quarter.
    #[inline(always)]
    fn quarter(self, bit: Bit, rank: u64) -> (usize, u64) {
        let ones = [self.0 >> 35 & 0x1ff, self.0 >> 44 & 0x3ff, self.0 >> 54];
        let (mut quarter, mut before) = (0, 0);
        for (i, ones) in (1..).zip(ones) {
            let here = if bit == Bit::One { ones } else { (i * BLOCK_BITS / 4).saturating_sub(ones) };
            quarter += usize::from(here <= rank);
            before = if here <= rank { here } else { before };
        }
        (quarter, rank - before)
    }
}

/// The number of the first `count` numbers (at most four) below `wanted`, and the number up to it. Each number has
/// `bits` bits (at most 15), one after another in `packed`.
#[inline(always)]
fn compare_four(packed: u64, bits: u64, count: u64, wanted: u64) -> (u64, u64) {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const TOPS: u64 = ONES << 15;
    // Each in 16 bits of its own, so that a comparison does not borrow from the next.
    let mask = (1 << bits) - 1;
    let one = |i: u64| (packed >> (i * bits) & mask) << (16 * i);
    let numbers = one(0) | one(1) | one(2) | one(3);
    let all = wanted * ONES;
    let counted = TOPS & !(u64::MAX.checked_shl(16 * count as u32).unwrap_or(0));
    let less = !((numbers | TOPS) - all) & counted;
    let less_or_equal = ((all | TOPS) - numbers) & counted;
    (less.count_ones().into(), less_or_equal.count_ones().into())
}

/// The position of the `rank`-th (from 0) one in `word`, which has more than `rank` ones.
#[inline(always)]
fn select_in_word(word: u64, rank: u32) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    /// The number of the first byte that is above `rank`, times 8; the bytes are at most 64.
    #[inline(always)]
    fn first_above(bytes: u64, rank: u32) -> u32 {
        // The comparison does not borrow from the next byte.
        (((bytes | TOPS) - ONES * (u64::from(rank) + 1)) & TOPS).trailing_zeros() & !7 & 63
    }
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    // Byte i: the number of ones in bytes 0 to i.
    let through = ((nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    let byte_at = first_above(through, rank);
    let rank = rank - u32::from((through << 8 >> byte_at) as u8);
    // The same for the bits of that byte: bit i alone in byte i, as 0 or 1.
    let bits = (word >> byte_at & 0xff).wrapping_mul(ONES) & 0x8040_2010_0804_0201;
    let bits = (bits + (TOPS - ONES)) >> 7 & ONES;
    byte_at + first_above(bits.wrapping_mul(ONES), rank) / 8
}

#[cfg(test)]
#[path = "tests/elias_fano.rs"]
mod tests;
