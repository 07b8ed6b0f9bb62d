//! From a position to the rank of its record: find the chunk, go down its tree.
//!
//! The chunk is guessed between the starts of the position's bucket and the next, and its separator and the next
//! chunk's say whether that was right; in one of some 20 cases it is searched for among the bucket's chunks. The way
//! down is a step a level: read 32 bits, multiply, take the top bit. The root's and the next two levels' are in one
//! word.
//!
//! Everything in a section may be wrong: its length is checked once, what is read from it is limited to what there is.
//! Cost: dependent steps, some 20 cycles each; [`Chunks::locate_many`] takes [`LANES`] positions through them together.
//! Not here: positions that no record has; they get some rank.

use super::build::separator;
use super::layout::{ESCAPE, HEADER_WORDS, SEPARATOR_BITS, SectionLayout, window};
use super::options::{ChunkOptions, key_of};
use super::shape::{PREAMBLE, TreeShape};
use std::ops::Range;

/// Positions that go through each step together.
const LANES: usize = 16;

/// The part of a head that says where a chunk begins: bit 0 tied, then the separator.
const SEPARATOR_AND_TIED: u32 = (1 << (SEPARATOR_BITS + 1)) - 1;

/// A section, checked.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    layout: SectionLayout,
}

/// What a section consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub pairs: u64,
    pub chunks: u64,
    /// Chunks that stayed in hash order: lookups there give all their ranks.
    pub escapes: u64,
    /// Chunks that are found by a position in full.
    pub ties: u64,
    /// Bits that find a chunk: starts, heads, ties.
    pub threshold_bits: u64,
    pub seed_bits: u64,
    /// Bits of the section, with its header and what rounds it up to words.
    pub bits: u64,
}

impl Chunks {
    /// The index in `words`. O(1): header and length are checked, nothing else can do harm.
    ///
    /// # Errors
    /// What is wrong with the header, or with the length.
    pub fn open(words: &[u64]) -> Result<Chunks, String> {
        Ok(Chunks { layout: SectionLayout::of(words)? })
    }

    pub fn pairs(&self) -> u64 {
        self.layout.header.pairs
    }

    pub fn chunk_count(&self) -> u64 {
        self.layout.chunk_count()
    }

    /// The ranks of chunk `chunk`, below [`Chunks::chunk_count`]: its records, in no order of their positions but all
    /// above those of the chunks before.
    pub fn ranks(&self, chunk: u64) -> Range<u64> {
        assert!(chunk < self.chunk_count(), "chunk {chunk} of {}", self.chunk_count());
        self.layout.place(chunk).ranks
    }

    /// The chunk that has the record of `rank`, below [`Chunks::pairs`].
    pub fn chunk_of_rank(&self, rank: u64) -> u64 {
        assert!(rank < self.pairs(), "rank {rank} of {}", self.pairs());
        self.layout.chunk_of(rank)
    }

    /// How it was made.
    pub fn options(&self) -> ChunkOptions {
        let header = &self.layout.header;
        ChunkOptions::of(1 << header.chunk_log2, &header.budgets)
    }

    pub fn facts(&self) -> Facts {
        let SectionLayout { header, .. } = &self.layout;
        let (heads, seed_bits) = self.layout.head_and_seed_bits();
        let starts = 32 * ((1_u64 << header.bucket_bits) + 1);
        Facts {
            pairs: header.pairs,
            chunks: self.chunk_count(),
            escapes: header.escapes,
            ties: header.ties,
            threshold_bits: starts + heads + 128 * header.ties,
            seed_bits,
            bits: 64 * self.layout.words() as u64,
        }
    }

    /// The ranks that the record of `position` may have: one, or all of an escape, or of the chunks that equal
    /// positions span. `words` are those that were opened.
    #[inline]
    pub fn locate(&self, words: &[u64], position: u64) -> Range<u64> {
        let words = self.own(words);
        if self.pairs() == 0 {
            return 0..0;
        }
        match self.check(words, position, self.guess(words, position)) {
            ChunksOf::One(chunk) => self.locate_in(words, chunk, position),
            spanning @ ChunksOf::Spanning(..) => self.ranks_of(spanning),
        }
    }

    /// [`Chunks::locate`] for each position; `ranges` are replaced.
    pub fn locate_many(&self, words: &[u64], positions: &[u64], ranges: &mut Vec<Range<u64>>) {
        let words = self.own(words);
        ranges.clear();
        ranges.resize(positions.len(), 0..0);
        if self.pairs() == 0 {
            return;
        }
        for (positions, ranges) in positions.chunks(LANES).zip(ranges.chunks_mut(LANES)) {
            self.locate_few(words, positions, ranges);
        }
    }

    /// Up to [`LANES`] of them, step by step together.
    fn locate_few(&self, words: &[u64], positions: &[u64], ranges: &mut [Range<u64>]) {
        let mut guesses = [Guess::default(); LANES];
        for (guess, &position) in guesses.iter_mut().zip(positions) {
            *guess = self.guess(words, position);
        }
        // A lane that drops out goes on at the first record's end, to no effect.
        let mut lanes = [Lane { end: self.layout.place(0).record.end, key: 0, path: 0 }; LANES];
        let mut starts = [None; LANES];
        for (i, &position) in positions.iter().enumerate() {
            let found = self.check(words, position, guesses[i]);
            ranges[i] = self.ranks_of(found);
            if let ChunksOf::One(chunk) = found
                && self.layout.is_whole(chunk)
            {
                let record = self.layout.place(chunk).record;
                if window(words, record.start) as u32 & ESCAPE == 0 {
                    lanes[i] = Lane { end: record.end, key: key_of(position), path: 0 };
                    starts[i] = Some(ranges[i].start);
                }
            } else if let ChunksOf::One(chunk) = found {
                ranges[i] = self.locate_in(words, chunk, position);
            }
        }
        if starts.iter().any(Option::is_some) {
            descend(words, &self.layout.shape, &mut lanes);
        }
        for ((range, lane), start) in ranges.iter_mut().zip(lanes).zip(starts) {
            if let Some(start) = start {
                *range = start + u64::from(lane.path)..start + u64::from(lane.path) + 1;
            }
        }
    }

    fn own<'a>(&self, words: &'a [u64]) -> &'a [u64] {
        assert_eq!(words.len(), self.layout.words(), "the section that was opened");
        words
    }

    fn ranks_of(&self, found: ChunksOf) -> Range<u64> {
        match found {
            ChunksOf::One(chunk) => self.layout.place(chunk).ranks,
            ChunksOf::Spanning(first, last) => self.layout.place(first).ranks.start..self.layout.place(last).ranks.end,
        }
    }

    #[inline(always)]
    fn locate_in(&self, words: &[u64], chunk: u64, position: u64) -> Range<u64> {
        let place = self.layout.place(chunk);
        match place.shape {
            Some(shape) if window(words, place.record.start) as u32 & ESCAPE == 0 => {
                let mut lane = [Lane { end: place.record.end, key: key_of(position), path: 0 }];
                descend(words, shape, &mut lane);
                let rank = place.ranks.start + u64::from(lane[0].path);
                rank..rank + 1
            }
            _ => place.ranks,
        }
    }

    /// The chunks that begin in the position's bucket, and the one before them; which of these it is likely in.
    #[inline(always)]
    fn guess(&self, words: &[u64], position: u64) -> Guess {
        let header = &self.layout.header;
        let bucket = (position >> 1) >> (63 - header.bucket_bits);
        let starts = window(words, 64 * HEADER_WORDS as u64 + 32 * bucket);
        let (start, end) = (starts & 0xFFFF_FFFF, starts >> 32);
        let within = (position << header.bucket_bits) >> 32;
        let last = self.layout.chunk_count() - 1;
        let low = (start >> header.fraction_bits).min(last);
        let high = (end >> header.fraction_bits).clamp(low, last);
        let chunk = (start + ((end.saturating_sub(start) * within) >> 32)) >> header.fraction_bits;
        Guess { low, high, chunk: chunk.clamp(low, high) }
    }

    /// The chunk of a position, given the guess.
    #[inline(always)]
    fn check(&self, words: &[u64], position: u64, guess: Guess) -> ChunksOf {
        let head = |chunk| window(words, self.layout.record(chunk)) as u32 & SEPARATOR_AND_TIED;
        let separator = separator(position, self.layout.header.bucket_bits) << 1;
        // Equal is right where the chunk is not tied; and where it is the next that is equal, it is not this one.
        let from_here = (guess.chunk == guess.low) | (separator >= head(guess.chunk));
        let before_next = (guess.chunk == guess.high) | (separator + 1 < head(guess.chunk + 1));
        if from_here & before_next {
            return ChunksOf::One(guess.chunk);
        }
        self.search(words, position, guess)
    }

    /// The result of [`Chunks::check`] where the guess was wrong or a separator does not decide.
    #[cold]
    #[inline(never)]
    fn search(&self, words: &[u64], position: u64, guess: Guess) -> ChunksOf {
        let Guess { low, high, .. } = guess;
        let head = |chunk| window(words, self.layout.record(chunk)) as u32 & SEPARATOR_AND_TIED;
        let separator = separator(position, self.layout.header.bucket_bits);
        let below = partition(low + 1..high + 1, |chunk| head(chunk) >> 1 < separator) - 1;
        let upto = partition(below + 1..high + 1, |chunk| head(chunk) >> 1 <= separator) - 1;
        if below == upto {
            return ChunksOf::One(below);
        }
        // All chunks behind `below` up to `upto` begin with this separator. Just the first may be one that is not tied.
        let sure = if head(below + 1) & 1 == 0 { below + 1 } else { below };
        let ties = &words[self.layout.ties()];
        let tie = |i: u64| (ties[2 * i as usize] >> 1, ties[2 * i as usize] & 1 == 1, ties[2 * i as usize + 1]);
        let count = self.layout.header.ties;
        let from = partition(0..count, |i| tie(i).0 <= below);
        let to = partition(from..count, |i| tie(i).0 <= upto);
        let begins_before = partition(from..to, |i| tie(i).2 < position || (tie(i).2 == position && !tie(i).1));
        let begins = partition(begins_before..to, |i| tie(i).2 <= position);
        // Of a damaged section anything may have been read.
        let chunk_before = |i: u64, least: u64| if i > from { tie(i - 1).0.clamp(least, upto) } else { least };
        let first = chunk_before(begins_before, sure);
        let last = chunk_before(begins, first);
        if first == last { ChunksOf::One(first) } else { ChunksOf::Spanning(first, last) }
    }
}

/// Where a position may be.
#[derive(Clone, Copy, Default)]
struct Guess {
    low: u64,
    high: u64,
    chunk: u64,
}

/// Where it is.
#[derive(Clone, Copy)]
enum ChunksOf {
    One(u64),
    /// The first and the last of several: all between have that position alone.
    Spanning(u64, u64),
}

/// The first of `range` for which `is_before` does not hold, if it holds for all before that.
fn partition(range: Range<u64>, is_before: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (range.start, range.end);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_before(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

/// A key on its way down a chunk.
#[derive(Clone, Copy)]
struct Lane {
    /// Where the chunk's record ends.
    end: u64,
    key: u32,
    path: u32,
}

/// Takes keys down their chunks, all of one shape: a level at a time, so that no key waits for another.
#[inline(always)]
fn descend<const N: usize>(words: &[u64], shape: &TreeShape, lanes: &mut [Lane; N]) {
    let tops = lanes.map(|lane| window(words, lane.end - 64));
    let levels = shape.levels();
    let (leaves, inner) = levels.split_last().expect("a tree has leaves");
    let (high, low) = inner.split_at(shape.high_levels().min(inner.len()));
    for level in high {
        for (lane, top) in lanes.iter_mut().zip(tops) {
            let up = lane.key.wrapping_mul(high_window(top, level.depth(lane.path))) >> 31;
            lane.path = 2 * lane.path + up;
        }
    }
    for level in low {
        for lane in lanes.iter_mut() {
            let seed = window(words, lane.end - u64::from(level.depth(lane.path))) as u32;
            lane.path = 2 * lane.path + (lane.key.wrapping_mul(seed) >> 31);
        }
    }
    let are_high = shape.high_levels() == levels.len();
    for (lane, top) in lanes.iter_mut().zip(tops) {
        let depth = leaves.depth(lane.path);
        let seed = if are_high { high_window(top, depth) } else { window(words, lane.end - u64::from(depth)) as u32 };
        lane.path = 4 * lane.path + (lane.key.wrapping_mul(seed) >> 30);
    }
}

/// The window that begins `depth` bits, 1 to 63, below the top: `top` is what lies there, the preamble above.
#[inline(always)]
fn high_window(top: u64, depth: u32) -> u32 {
    (top >> (64 - depth) | u64::from(PREAMBLE) << depth) as u32
}
