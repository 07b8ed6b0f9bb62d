//! The page index: which pages can hold the record of a hash, or of a rank, for about 6.2 bits a page.
//!
//! *Cells* (records, or blocks of them) lie one behind another, in order of their positions, over pages that they may
//! straddle. The first body byte of page `i` belongs to one cell; `f_i` is the position of that cell's first record:
//!
//! ```text
//! page    0              1              2              3
//!         |-u0-|--u1--|---u2-|-u3-|-------u4-----------|-u5-|--
//! f       u0             u2             u4             u5 (starts there)      u4 straddles into page 2
//! bin     3              9              9              14                     bin(f), 16 bins a page
//! ```
//!
//! A position in `0..universe` is scaled down to its *bin*; the bins of the `f_i` never descend and are kept by
//! Elias-Fano. A lookup asks how many of them are below the bin of its position, and how many are not above it; and
//! for the bins on both sides, which say how far into the page its record is expected.
//!
//! Cost: all that from one place of the sequence (three places for blocks). Pages read for 16-byte records in pages
//! of 4096 bytes: 1.06; half as many bins cost a bit less a page and read 1.12 (see `measure`, below).
//! Source: Kurpicz, Lehmann & Sanders 2023, PaCHash: the paper. Differs: any number of bins, not a power of two, so
//! that the bits a page do not depend on how many there are; whole records, not where they start, are inside the range.
//! Not here: what is in a page; searching it; `elias_fano.rs`.

use std::ops::Range;

use super::elias_fano::{Around, Below, EliasFano};
use super::popcnt;
use crate::error::{Error, Result};

/// Bins a page where the caller does not say.
pub(crate) const BINS_PER_PAGE: u32 = 16;

/// Bit of word 1: cells cover ranges of positions.
const BLOCKS: u64 = 1; // on disk

/// Words before the sequence of bins: the scale and the flags.
const HEADER_WORDS: usize = 2;

/// Lookups that are taken together, so that they wait for memory together.
const BATCH: usize = 16;

/// How a page index is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageIndexOptions {
    /// More bins: fewer pages read without the key; each doubling costs one bit a page.
    pub(crate) bins_per_page: u32,
    /// Whether cells are blocks that each cover a range of positions, not single records.
    pub(crate) blocks: bool,
    /// No position is above it: `u64::MAX` for hashes, how many records there are less one for ranks.
    pub(crate) greatest: u64,
}

/// Which pages can hold a position. Keeps no words: pass to each call those that were passed to [`PageIndex::open`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageIndex {
    bins: EliasFano,
    scale: Scale,
    blocks: bool,
}

/// What the index says of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) pages: Range<u64>,
    /// How far from the beginning of the first of these pages the record is expected, in 2^-32 of a page.
    pub(crate) expected: u64,
}

/// From a position to its bin: the high half of their product. 0 means no change, where positions are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale(u64);

impl PageIndex {
    /// The words of the index over `pages` pages, of which `firsts` gives each one's `f`, in order.
    ///
    /// # Errors
    /// If `firsts` descends, passes `greatest`, has not `pages` items, or has an error in it.
    pub(crate) fn build(
        options: PageIndexOptions,
        pages: u64,
        firsts: impl Iterator<Item = Result<u64>>,
    ) -> Result<Vec<u64>> {
        let PageIndexOptions { bins_per_page, blocks, greatest } = options;
        let scale = Scale::new(pages.saturating_mul(bins_per_page.max(1).into()), greatest);
        let within = |first: Result<u64>| match first? {
            first if first > greatest => Err(Error::corrupt(format!("position {first} among those up to {greatest}"))),
            first => Ok(scale.bin(first)),
        };
        let bins = EliasFano::build(firsts.map(within), pages, scale.bin(greatest))?;
        let mut words = Vec::with_capacity(HEADER_WORDS + bins.len());
        words.extend([scale.0, if blocks { BLOCKS } else { 0 }]);
        words.extend(bins);
        Ok(words)
    }

    /// Reads the header and checks that there are as many words as it asks for.
    pub(crate) fn open(words: &[u64]) -> Result<PageIndex, String> {
        let Some((&[scale, flags], bins)) = words.split_first_chunk() else {
            return Err(format!("a page index of {} words, without its header", words.len()));
        };
        if flags & !BLOCKS != 0 {
            return Err(format!("a page index with flags {flags:#x}, of which {BLOCKS:#x} are known"));
        }
        Ok(PageIndex { bins: EliasFano::open(bins)?, scale: Scale(scale), blocks: flags & BLOCKS != 0 })
    }

    /// How many pages the index is over.
    pub(crate) fn pages(&self) -> u64 {
        self.bins.len()
    }

    /// The pages of which each cell that can hold `position` is wholly inside; empty if no cell can.
    pub(crate) fn pages_of(&self, words: &[u64], position: u64) -> Range<u64> {
        let below = self.bins.below(&words[HEADER_WORDS..], self.scale.bin(position));
        self.pages_between(words, below)
    }

    /// Bins a page, as it was made for positions of 64 bits.
    pub(crate) fn bins_per_page(&self) -> u32 {
        let bins = self.scale.0.checked_div(self.pages()).unwrap_or(0);
        u32::try_from(bins).ok().filter(|bins| *bins > 0).unwrap_or(BINS_PER_PAGE)
    }

    /// [`PageIndex::pages_of`], and where in them the record is expected.
    #[inline]
    pub(crate) fn locate(&self, words: &[u64], position: u64) -> Located {
        let [around] = popcnt::around(&self.bins, &words[HEADER_WORDS..], &[self.scale.bin(position)]);
        self.located(words, position, around)
    }

    /// Positions are spread evenly, so the record is expected between the beginnings of the first page and of the next
    /// as its position lies between their `f`, each of which is taken to be in the middle of its bin.
    #[inline]
    fn located(&self, words: &[u64], position: u64, around: Around) -> Located {
        let Around { below, before, behind } = around;
        let (bin, fraction) = self.scale.bin_and_fraction(position);
        let from_before = (bin.saturating_sub(before).min(u32::MAX.into()) << 32 | fraction).saturating_sub(1 << 31);
        let expected = from_before / behind.saturating_sub(before).max(1);
        Located { pages: self.pages_between(words, below), expected }
    }

    /// [`PageIndex::locate`] for many positions: passes what it finds to `each`, in order, until that gives an error.
    /// Faster than one by one.
    #[inline]
    pub(crate) fn locate_many<E>(
        &self,
        words: &[u64],
        positions: &[u64],
        mut each: impl FnMut(Located) -> Result<(), E>,
    ) -> Result<(), E> {
        let bins = &words[HEADER_WORDS..];
        let (batches, rest) = positions.as_chunks::<BATCH>();
        for batch in batches {
            let around = popcnt::around(&self.bins, bins, &batch.map(|position| self.scale.bin(position)));
            for (&position, around) in batch.iter().zip(around) {
                each(self.located(words, position, around))?;
            }
        }
        rest.iter().try_for_each(|&position| each(self.locate(words, position)))
    }

    /// Whether these are the words that [`PageIndex::build`] makes. Reads everything once, and needs as much memory
    /// again.
    pub(crate) fn check(&self, words: &[u64]) -> Result<(), String> {
        self.bins.check(&words[HEADER_WORDS..])
    }

    /// The pages for a position with `below.less` pages of a bin below its own, `below.less_or_equal` not above it.
    ///
    /// Let `r` be the position, `U` a cell that holds it, in pages `p` to `q`. What is known: if `p < i <= q`, `U`
    /// covers the first byte of page `i` and `f_i` is its first position, at most `r`. If `i > q`, another cell behind
    /// `U` does, and `f_i >= r`. If `i = p`, `U` or one before it does, and `f_i <= r`. `bin` never descends, so all
    /// this holds for bins, with `<=`; and a smaller bin means a smaller position.
    ///
    /// *End.* `f_q <= r` in either case, so page `q` is among those of a bin not above `r`'s: `q < less_or_equal`.
    ///
    /// *Start.* Let `d` be the last page of a smaller bin than `r`'s; if there is none, 0 will do. Then `f_d < r`, so
    /// not `d > q`. If `d <= p`, starting at `d` will do. Else `p < d <= q`: `U` covers the first byte of `d`, and of
    /// all pages from `p + 1` to `d`. If cells are single records, that means `f_d = r`, and cannot be: start at `d`.
    /// If they are blocks, all pages from `p + 1` to `d` have the bin of `d`, so the first page of that bin is `p + 1`
    /// or before it, and the one before that is `p` or before.
    #[inline]
    fn pages_between(&self, words: &[u64], below: Below) -> Range<u64> {
        let mut start = below.less.saturating_sub(1);
        if self.blocks && start > 0 {
            start = start.min(self.first_of_bin(words, start)).saturating_sub(1);
        }
        // Empty if no page has a bin that small: what there is begins behind the position.
        start..below.less_or_equal
    }

    /// The first page with the bin of `page`.
    #[cold]
    fn first_of_bin(&self, words: &[u64], page: u64) -> u64 {
        let bins = &words[HEADER_WORDS..];
        self.bins.below(bins, self.bins.get(bins, page)).less
    }
}

impl Scale {
    /// To at most `bins` bins, from positions up to `greatest`.
    fn new(bins: u64, greatest: u64) -> Scale {
        match u128::from(greatest) + 1 {
            universe if universe <= bins.into() => Scale(0),
            // Below 2^64, as there are fewer bins than positions.
            universe => Scale(((u128::from(bins) << 64) / universe) as u64),
        }
    }

    #[inline]
    fn bin(self, position: u64) -> u64 {
        self.bin_and_fraction(position).0
    }

    /// The bin, and how far into it the position is, in 2^-32 of a bin.
    #[inline]
    fn bin_and_fraction(self, position: u64) -> (u64, u64) {
        if self.0 == 0 {
            return (position, 1 << 31);
        }
        let product = u128::from(position) * u128::from(self.0);
        ((product >> 64) as u64, product as u64 >> 32)
    }
}

#[cfg(test)]
#[path = "tests/page.rs"]
mod tests;
