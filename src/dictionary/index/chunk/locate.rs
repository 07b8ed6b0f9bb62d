//! Maps a position to the rank of its record: finds the chunk, then descends its tree.
//!
//! The chunk is guessed between the starts of the position's bucket and of the next. Its separator and that of the next
//! chunk show whether the guess is right; in about one of 20 cases it is not, and the bucket's chunks are searched. The
//! descent takes one step per level: read 32 bits, multiply, take the top bit. One word holds the bits of the root and
//! the next two levels.
//!
//! Everything in a section is untrusted: its length is checked once, and values read from it are limited to the valid
//! range.
//! Cost: dependent steps of about 20 cycles each; [`Chunks::locate_many`] takes [`LANES`] positions through them
//! together.
//! Not here: absent positions, which get an arbitrary rank.

use super::build::separator;
use super::options::{ChunkOptions, key_of};
use super::section::{ESCAPE, HEADER_WORDS, SEPARATOR_BITS, SectionLayout, window};
use super::shape::{PREAMBLE, TreeShape};
use std::ops::Range;

/// Positions that take each step together.
const LANES: usize = 16;

/// The bits of a head that are compared with a position: bit 0 is the tied flag, then the separator.
const SEPARATOR_AND_TIED: u32 = (1 << (SEPARATOR_BITS + 1)) - 1;

/// A section whose header and length have been checked.
#[derive(Clone, Debug)]
pub(crate) struct Chunks {
    layout: SectionLayout,
}

/// The parts of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub pairs: u64,
    pub chunks: u64,
    /// Chunks that stay in hash order: lookups there return all their ranks.
    pub escapes: u64,
    /// Chunks that are found by their full position.
    pub ties: u64,
    /// Bits used to find a chunk: starts, heads, ties.
    pub threshold_bits: u64,
    pub seed_bits: u64,
    /// Bits of the section, including its header and the padding to whole words.
    pub bits: u64,
}

impl Chunks {
    /// Opens the index in `words`. O(1): only header and length are checked; nothing else can do harm.
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

    /// The ranks of chunk `chunk`, which is below [`Chunks::chunk_count`]. Its records are not sorted by position, but
    /// all of them follow those of the chunks before.
    pub fn ranks(&self, chunk: u64) -> Range<u64> {
        assert!(chunk < self.chunk_count(), "chunk {chunk} of {}", self.chunk_count());
        self.layout.place(chunk).ranks
    }

    /// The chunk that has the record of `rank`, which is below [`Chunks::pairs`].
    pub fn chunk_of_rank(&self, rank: u64) -> u64 {
        assert!(rank < self.pairs(), "rank {rank} of {}", self.pairs());
        self.layout.chunk_of(rank)
    }

    /// The options with which it was made.
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

    /// The ranks that the record of `position` may have: one rank, or all of an escape, or those of all chunks that
    /// equal positions span. `words` are those that were opened.
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

    /// Calls [`Chunks::locate`] for each position; the content of `ranges` is replaced.
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

    /// Locates up to [`LANES`] positions, step by step together.
    fn locate_few(&self, words: &[u64], positions: &[u64], ranges: &mut [Range<u64>]) {
        let mut guesses = [Guess::default(); LANES];
        for (guess, &position) in guesses.iter_mut().zip(positions) {
            *guess = self.guess(words, position);
        }
        // A lane that drops out continues at the first record's end, without effect.
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

    /// The chunks that begin in the position's bucket and the one before them, and which of these is the likely one.
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
        // With an equal separator, the position is in this chunk only if the chunk is not tied. If the next chunk's
        // separator is equal, too, a search decides.
        let from_here = (guess.chunk == guess.low) | (separator >= head(guess.chunk));
        let before_next = (guess.chunk == guess.high) | (separator + 1 < head(guess.chunk + 1));
        if from_here & before_next {
            return ChunksOf::One(guess.chunk);
        }
        self.search(words, position, guess)
    }

    /// The result of [`Chunks::check`] if the guess was wrong or a separator does not decide.
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
        // All chunks after `below` up to `upto` begin with this separator. Only the first of them may be untied.
        let sure = if head(below + 1) & 1 == 0 { below + 1 } else { below };
        let ties = &words[self.layout.ties()];
        let tie = |i: u64| (ties[2 * i as usize] >> 1, ties[2 * i as usize] & 1 == 1, ties[2 * i as usize + 1]);
        let count = self.layout.header.ties;
        let from = partition(0..count, |i| tie(i).0 <= below);
        let to = partition(from..count, |i| tie(i).0 <= upto);
        let begins_before = partition(from..to, |i| tie(i).2 < position || (tie(i).2 == position && !tie(i).1));
        let begins = partition(begins_before..to, |i| tie(i).2 <= position);
        // In a damaged section these may be any numbers.
        let chunk_before = |i: u64, least: u64| if i > from { tie(i - 1).0.clamp(least, upto) } else { least };
        let first = chunk_before(begins_before, sure);
        let last = chunk_before(begins, first);
        if first == last { ChunksOf::One(first) } else { ChunksOf::Spanning(first, last) }
    }
}

/// The chunks in which a position may be.
#[derive(Clone, Copy, Default)]
struct Guess {
    low: u64,
    high: u64,
    chunk: u64,
}

/// The chunk or chunks of a position.
#[derive(Clone, Copy)]
enum ChunksOf {
    One(u64),
    /// The first and the last of several; all between have only this position.
    Spanning(u64, u64),
}

/// The first number in `range` for which `is_before` is false. It must be true for all numbers before that, and no
/// others.
fn partition(range: Range<u64>, is_before: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (range.start, range.end);
    while from < to {
        let middle = from + (to - from) / 2;
        if is_before(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

/// A key during its descent through a chunk.
#[derive(Clone, Copy)]
struct Lane {
    /// The end of the chunk's record.
    end: u64,
    key: u32,
    path: u32,
}

/// Takes keys down their chunks, which all have one shape: one level at a time, so that no key waits for another.
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

/// The window that begins `depth` bits (1 to 63) below the top: `top` is the word below it, the preamble is above it.
#[inline(always)]
fn high_window(top: u64, depth: u32) -> u32 {
    (top >> (64 - depth) | u64::from(PREAMBLE) << depth) as u32
}
