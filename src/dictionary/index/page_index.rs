//! The page index: which pages can hold the record of a hash, or of a rank, for about 6.2 bits per page.
//!
//! *Cells* (records, or blocks of them) follow one another in order of their positions, over pages whose borders they
//! may cross. The first body byte of page `i` belongs to one cell; `f_i` is the position of that cell's first record:
//!
//! ```text
//! page    0              1              2              3
//!         |-u0-|--u1--|---u2-|-u3-|-------u4-----------|-u5-|--
//! f       u0             u2             u4             u5 (starts there)      u4 straddles into page 2
//! bin     3              9              9              14                     bin(f), 16 bins per page
//! ```
//!
//! A position in `0..universe` is scaled down to its *bin*. The bins of the `f_i` never decrease, and are stored with
//! Elias-Fano. A lookup counts how many of them are below the bin of its position, and how many are at most that bin.
//! It also gets the nearest bins on both sides, which show how far into the page the record is expected.
//!
//! Cost: all of that comes from one location in the sequence (three locations for blocks). Pages read for 16-byte
//! records in pages of 4096 bytes: 1.06. With half as many bins the index takes one bit less per page, and 1.12 pages
//! are read (see `measure`, below).
//! Source: Kurpicz, Lehmann & Sanders 2023, PaCHash: the paper. Differs: any number of bins, not only a power of two,
//! so that the bits per page do not depend on the number of pages; the range covers whole records, not only where they
//! start.
//! Not here: the content of a page, searching it, `elias_fano.rs`.

use std::ops::Range;

use super::elias_fano::{Around, Below, EliasFano};
use super::popcnt;
use crate::error::{Error, Result};

/// The default number of bins per page.
pub(crate) const BINS_PER_PAGE: u32 = 16;

/// Bit of word 1: each cell covers a range of positions.
const BLOCKS: u64 = 1; // on disk

/// Words before the sequence of bins: the scale and the flags.
const HEADER_WORDS: usize = 2;

/// Lookups processed together, so that their memory accesses overlap.
const BATCH: usize = 16;

/// Options for making a page index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageIndexOptions {
    /// More bins mean fewer reads of pages without the key; each doubling costs one bit per page.
    pub(crate) bins_per_page: u32,
    /// Whether cells are blocks that each cover a range of positions, not single records.
    pub(crate) blocks: bool,
    /// No position is above it: `u64::MAX` for hashes, the number of records less one for ranks.
    pub(crate) greatest: u64,
}

/// Which pages can hold a position. It keeps no words: pass each call those that were passed to [`PageIndex::open`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageIndex {
    bins: EliasFano,
    scale: Scale,
    blocks: bool,
}

/// The index's knowledge of a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) pages: Range<u64>,
    /// The expected distance of the record from the beginning of the first of these pages, in 2^-32 of a page.
    pub(crate) expected: u64,
}

/// The factor from a position to its bin, which is the high half of the product. 0 leaves positions unchanged, if there
/// are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scale(u64);

impl PageIndex {
    /// Builds the words of an index over `pages` pages; `firsts` yields the `f` of each, in order.
    ///
    /// # Errors
    /// If `firsts` decreases, exceeds `greatest`, does not have `pages` items, or yields an error.
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

    /// Reads the header and checks that the number of words matches it.
    pub(crate) fn open(words: &[u64]) -> Result<PageIndex, String> {
        let Some((&[scale, flags], bins)) = words.split_first_chunk() else {
            return Err(format!("a page index of {} words, without its header", words.len()));
        };
        if flags & !BLOCKS != 0 {
            return Err(format!("a page index with flags {flags:#x}, of which {BLOCKS:#x} are known"));
        }
        Ok(PageIndex { bins: EliasFano::open(bins)?, scale: Scale(scale), blocks: flags & BLOCKS != 0 })
    }

    /// The number of pages in the index.
    pub(crate) fn pages(&self) -> u64 {
        self.bins.len()
    }

    /// The pages that contain every cell that can hold `position`, in full; empty if there is no such cell.
    pub(crate) fn pages_of(&self, words: &[u64], position: u64) -> Range<u64> {
        let below = self.bins.below(&words[HEADER_WORDS..], self.scale.bin(position));
        self.pages_between(words, below)
    }

    /// The bins per page with which it was made, for 64-bit positions.
    pub(crate) fn bins_per_page(&self) -> u32 {
        let bins = self.scale.0.checked_div(self.pages()).unwrap_or(0);
        u32::try_from(bins).ok().filter(|bins| *bins > 0).unwrap_or(BINS_PER_PAGE)
    }

    /// [`PageIndex::pages_of`], and the expected location of the record in them.
    #[inline]
    pub(crate) fn locate(&self, words: &[u64], position: u64) -> Located {
        let [around] = popcnt::around(&self.bins, &words[HEADER_WORDS..], &[self.scale.bin(position)]);
        self.located(words, position, around)
    }

    /// Positions are uniform, so the record's location is interpolated between the start of the first page and that of
    /// the next, by its position relative to their `f`. Each `f` is assumed to be in the middle of its bin.
    #[inline]
    fn located(&self, words: &[u64], position: u64, around: Around) -> Located {
        let Around { below, before, behind } = around;
        let (bin, fraction) = self.scale.bin_and_fraction(position);
        let from_before = (bin.saturating_sub(before).min(u32::MAX.into()) << 32 | fraction).saturating_sub(1 << 31);
        let expected = from_before / behind.saturating_sub(before).max(1);
        Located { pages: self.pages_between(words, below), expected }
    }

    /// Calls [`PageIndex::locate`] for many positions and passes the results to `each` in order, until that returns an
    /// error. Faster than one by one.
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

    /// The pages for a position, where `below.less` pages have a smaller bin and `below.less_or_equal` a bin at most
    /// equal.
    ///
    /// Let `r` be the position, and `U` a cell that holds it, in pages `p` to `q`. If `p < i <= q`, `U` covers the
    /// first byte of page `i`, and `f_i` is its first position, at most `r`. If `i > q`, a cell after `U` covers that
    /// byte, and `f_i >= r`. If `i = p`, `U` or a cell before it does, and `f_i <= r`. `bin` never decreases, so all of
    /// this holds for bins, with `<=`; and a smaller bin means a smaller position.
    ///
    /// *End.* `f_q <= r` in every case, so page `q` has a bin at most equal to `r`'s: `q < less_or_equal`.
    ///
    /// *Start.* Let `d` be the last page of a smaller bin than `r`'s; if there is none, start at 0. Then `f_d < r`, so
    /// `d <= q`. If `d <= p`, start at `d`. Otherwise `p < d <= q`: `U` covers the first byte of `d`, and of all pages
    /// from `p + 1` to `d`. If cells are single records, that means `f_d = r`, which is impossible: so always start at
    /// `d`. If they are blocks, all pages from `p + 1` to `d` have the bin of `d`, so the first page of that bin is `p
    /// + 1` or earlier, and the page before that is `p` or earlier: start there.
    #[inline]
    fn pages_between(&self, words: &[u64], below: Below) -> Range<u64> {
        let mut start = below.less.saturating_sub(1);
        if self.blocks && start > 0 {
            start = start.min(self.first_of_bin(words, start)).saturating_sub(1);
        }
        // Empty if no page has a bin that small: then all cells begin after the position.
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
    /// Scales positions up to `greatest` to at most `bins` bins.
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

    /// The bin, and how far into it the position is, in units of 2^-32 of a bin.
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
#[path = "tests/page_index.rs"]
mod tests;
