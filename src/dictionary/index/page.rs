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
//! Elias-Fano. A lookup asks how many of them are below the bin of its position, and how many are not above it.
//!
//! Cost: two counts from one place of the sequence (three places for blocks). Pages read for 16-byte records in pages
//! of 4096 bytes: 1.06; half as many bins cost a bit less a page and read 1.12 (see `measure`, below).
//! Source: Kurpicz, Lehmann & Sanders 2023, PaCHash: the paper. Differs: any number of bins, not a power of two, so
//! that the bits a page do not depend on how many there are; whole records, not where they start, are inside the range.
//! Not here: what is in a page; searching it; `elias_fano.rs`.

use std::ops::Range;

use super::elias_fano::{Below, EliasFano};
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
    /// More bins: fewer pages read in vain, `log2` of it in bits a page.
    pub(crate) bins_per_page: u32,
    /// Are cells blocks that cover a range of positions each, or single records?
    pub(crate) blocks: bool,
    /// No position is above it: `u64::MAX` for hashes, how many records there are less one for ranks.
    pub(crate) greatest: u64,
}

/// Which pages can hold a position. Keeps no words: those given to each call are those given to [`PageIndex::open`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageIndex {
    bins: EliasFano,
    scale: Scale,
    blocks: bool,
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

    /// About which position the first cell of `page` begins at: right to a bin.
    pub(crate) fn position_near(&self, words: &[u64], page: u64) -> u64 {
        let bin = self.bins.get(&words[HEADER_WORDS..], page);
        // The middle of the bin.
        match self.scale {
            Scale(0) => bin,
            Scale(scale) => (((2 * u128::from(bin) + 1) << 63) / u128::from(scale)).try_into().unwrap_or(u64::MAX),
        }
    }

    /// [`PageIndex::pages_of`] for many positions, in their order, appended to `found`: faster than one by one.
    pub(crate) fn locate_many(&self, words: &[u64], positions: &[u64], found: &mut Vec<Range<u64>>) {
        let bins = &words[HEADER_WORDS..];
        let (batches, rest) = positions.as_chunks::<BATCH>();
        for batch in batches {
            let below = self.bins.below_many(bins, &batch.map(|position| self.scale.bin(position)));
            found.extend(below.map(|below| self.pages_between(words, below)));
        }
        found.extend(rest.iter().map(|&position| self.pages_of(words, position)));
    }

    /// Are these the words that [`PageIndex::build`] makes? Reads everything once, and takes as much memory again.
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
    fn pages_between(&self, words: &[u64], below: Below) -> Range<u64> {
        let mut start = below.less.saturating_sub(1);
        if self.blocks && start > 0 {
            start = start.min(self.first_of_bin(words, start)).saturating_sub(1);
        }
        // Empty if no page has a bin that small: what there is begins behind the position.
        start..below.less_or_equal
    }

    /// The first page with the bin of `page`.
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
        if self.0 == 0 { position } else { ((u128::from(position) * u128::from(self.0)) >> 64) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dictionary::tests::random::{Random, ns_each};

    const PAGE_BYTES: u64 = 100;

    /// A block, or a record if `first == last`: its positions and its bytes in the stream.
    #[derive(Clone, Copy, Debug)]
    struct Cell {
        first: u64,
        last: u64,
        from: u64,
        to: u64,
    }

    /// Cells one behind another, the lengths and positions as the closures say.
    fn stream(count: u64, mut len: impl FnMut() -> u64, mut positions: Vec<u64>, per_unit: usize) -> Vec<Cell> {
        positions.sort_unstable();
        let (mut cells, mut at) = (Vec::new(), 0);
        for (_, held) in (0..count).zip(positions.chunks(per_unit)) {
            let to = at + len().max(1);
            cells.push(Cell { first: held[0], last: held[held.len() - 1], from: at, to });
            at = to;
        }
        cells
    }

    /// `f` of every page.
    fn firsts(cells: &[Cell]) -> Vec<u64> {
        let pages = cells.last().map_or(0, |u| u.to.div_ceil(PAGE_BYTES));
        (0..pages).map(|page| cells[cells.partition_point(|u| u.to <= page * PAGE_BYTES)].first).collect()
    }

    fn built(options: PageIndexOptions, firsts: &[u64]) -> Vec<u64> {
        PageIndex::build(options, firsts.len() as u64, firsts.iter().map(|&f| Ok(f))).expect("ascending firsts")
    }

    /// The range that the comment of `pages_between` promises, found by looking at every page.
    fn by_reading_it_all(options: PageIndexOptions, firsts: &[u64], position: u64) -> Range<u64> {
        let pages = firsts.len() as u64;
        let scale = Scale::new(pages * u64::from(options.bins_per_page), options.greatest);
        let bins: Vec<u64> = firsts.iter().map(|&f| scale.bin(f)).collect();
        let bin = scale.bin(position);
        let Some(last) = bins.iter().rposition(|&b| b <= bin) else { return 0..0 };
        let mut start = bins.iter().rposition(|&b| b < bin).unwrap_or(0);
        if options.blocks && start > 0 {
            start = bins.iter().position(|&b| b == bins[start]).expect("it is there").saturating_sub(1);
        }
        start as u64..last as u64 + 1
    }

    fn every_unit_is_inside(options: PageIndexOptions, cells: &[Cell], asked: &[u64]) {
        let firsts = firsts(cells);
        let words = built(options, &firsts);
        let index = PageIndex::open(&words).expect("just built");
        index.check(&words).expect("just built");
        let mut many = Vec::new();
        index.locate_many(&words, asked, &mut many);
        assert_eq!(many.len(), asked.len());
        for (&position, found) in asked.iter().zip(&many) {
            assert_eq!(index.pages_of(&words, position), *found);
            assert_eq!(*found, by_reading_it_all(options, &firsts, position), "{position:#x}, {options:?}");
            for cell in cells.iter().filter(|u| u.first <= position && position <= u.last) {
                let needed = cell.from / PAGE_BYTES..(cell.to - 1) / PAGE_BYTES + 1;
                let inside = found.start <= needed.start && needed.end <= found.end;
                assert!(inside, "{position:#x} of {cell:x?} is in {needed:?}, not {found:?}; {options:?}");
            }
        }
    }

    /// Positions of each shape: even, in heaps, few different ones, one only.
    fn positions(shape: u64, count: u64, greatest: u64, random: &mut Random) -> Vec<u64> {
        let heap = greatest / 5;
        let one = |random: &mut Random| match shape {
            0 => random.up_to(greatest),
            1 => (random.up_to(4) * heap + random.up_to(heap / 1000)).min(greatest),
            2 => random.up_to(7) * (greatest / 8),
            _ => greatest / 3,
        };
        (0..count).map(|_| one(random)).collect()
    }

    fn random_streams_are_found(blocks: bool) {
        let mut random = Random::new(11);
        for round in 0..600 {
            let cells = 1 + random.up_to(120);
            let per_unit = if blocks { 1 + random.up_to(6) as usize } else { 1 };
            let greatest = [u64::MAX, cells * per_unit as u64, 1 << 40][round % 3];
            let positions = positions(round as u64 / 3 % 4, cells * per_unit as u64, greatest, &mut random);
            let mut asked: Vec<u64> =
                positions.iter().flat_map(|&p| [p.saturating_sub(1), p, p.saturating_add(1).min(greatest)]).collect();
            asked.extend((0..50).map(|_| random.up_to(greatest)).chain([0, greatest]));
            let longest = [3, 40, 150, 1500][round % 4];
            let length = || 1 + random.up_to(longest) * random.up_to(1);
            let cells = stream(cells, length, positions, per_unit);
            for bins_per_page in [1, 4, 16, 1 << 20] {
                every_unit_is_inside(PageIndexOptions { bins_per_page, blocks, greatest }, &cells, &asked);
            }
        }
    }

    #[test]
    fn a_record_is_wholly_in_its_pages() {
        random_streams_are_found(false);
    }

    #[test]
    fn a_block_is_wholly_in_its_pages() {
        random_streams_are_found(true);
    }

    #[test]
    fn a_block_longer_than_a_page_before_a_tie_is_found_from_its_start() {
        // The block covers pages 0 to 4; the one behind it, on page 5, has a first position in the bin of its last.
        let cell = |first, last, from, to| Cell { first, last, from, to };
        let cells = [cell(0, 10, 0, 50), cell(100, 1 << 60, 50, 500), cell((1 << 60) + 1, 1 << 61, 500, 600)];
        let options = PageIndexOptions { bins_per_page: 1, blocks: true, greatest: u64::MAX };
        every_unit_is_inside(options, &cells, &[0, 10, 100, 1 << 59, 1 << 60, (1 << 60) + 1, u64::MAX]);
    }

    #[test]
    fn ranks_fewer_than_bins_are_kept_exactly() {
        let cells = stream(50, || 400, (0..50).collect(), 1);
        let options = PageIndexOptions { bins_per_page: BINS_PER_PAGE, blocks: false, greatest: 49 };
        let words = built(options, &firsts(&cells));
        let index = PageIndex::open(&words).expect("just built");
        for rank in 1..50 {
            // Straddling nothing: four pages each, and the page before, on which it might have begun.
            assert_eq!(index.pages_of(&words, rank), rank * 4 - 1..rank * 4 + 4);
        }
    }

    #[test]
    fn a_page_of_the_last_bin_there_can_be_is_near_a_position() {
        let bins = EliasFano::build([u64::MAX - 1, u64::MAX].into_iter().map(Ok), 2, u64::MAX).expect("ascending");
        let words = [&[u64::MAX, 0][..], &bins].concat();
        let index = PageIndex::open(&words).expect("words of its form");
        assert!(index.position_near(&words, 0) > u64::MAX - 4);
        assert_eq!(index.position_near(&words, 1), u64::MAX);
    }

    #[test]
    fn no_pages_hold_nothing() {
        let options = PageIndexOptions { bins_per_page: BINS_PER_PAGE, blocks: true, greatest: u64::MAX };
        let words = built(options, &[]);
        let index = PageIndex::open(&words).expect("just built");
        assert_eq!((index.pages(), index.pages_of(&words, 0), index.pages_of(&words, u64::MAX)), (0, 0..0, 0..0));
    }

    #[test]
    fn firsts_that_descend_or_pass_the_universe_are_refused() {
        let options = PageIndexOptions { bins_per_page: 2, blocks: false, greatest: 1000 };
        let build = |firsts: &[u64], pages| PageIndex::build(options, pages, firsts.iter().map(|&f| Ok(f))).map(drop);
        assert!(build(&[0, 1000], 2).is_ok());
        for (firsts, pages) in [(&[900, 1][..], 2), (&[1, 1001], 2), (&[1], 2), (&[1, 2, 3], 2)] {
            assert!(build(firsts, pages).is_err(), "{firsts:?}");
        }
    }

    #[test]
    fn any_words_are_refused_or_answered_within_the_pages() {
        let mut random = Random::new(12);
        let mut opened = 0;
        for round in 0..10_000 {
            let mut firsts: Vec<u64> = (0..random.up_to(2000) >> (round % 11)).map(|_| random.next()).collect();
            firsts.sort_unstable();
            let options = PageIndexOptions { bins_per_page: 16, blocks: round % 2 == 0, greatest: u64::MAX };
            let mut words = built(options, &firsts);
            random.damage(&mut words);
            let Ok(index) = PageIndex::open(&words) else { continue };
            opened += 1;
            let asked: Vec<u64> = (0..40).map(|_| random.next()).collect();
            let mut found = Vec::new();
            index.locate_many(&words, &asked, &mut found);
            for pages in found {
                assert!(pages.start <= pages.end && pages.end <= index.pages(), "{pages:?} of {}", index.pages());
            }
        }
        assert!(opened > 5000, "only {opened} opened");
    }

    #[test]
    fn a_page_costs_six_bits_and_a_half_at_most() {
        let mut random = Random::new(13);
        for pages in [100_000_u64, 131_072, 150_001] {
            let mut firsts: Vec<u64> = (0..pages).map(|_| random.next()).collect();
            firsts.sort_unstable();
            let options = PageIndexOptions { bins_per_page: BINS_PER_PAGE, blocks: false, greatest: u64::MAX };
            let bits = built(options, &firsts).len() as f64 * 64.0 / pages as f64;
            assert!(bits < 6.5, "{bits} bits a page at {pages}");
        }
    }

    #[test]
    #[ignore = "slow: 10^8 pages, measured"]
    fn measure() {
        for (pages, bins_per_page, blocks) in [
            (781_250, 16, false),
            (781_250, 8, false),
            (781_250, 16, true),
            (10_000_000, 16, false),
            (100_000_000, 16, false),
        ] {
            measure_one(pages, PageIndexOptions { bins_per_page, blocks, greatest: u64::MAX });
        }
    }

    /// Records of 16 bytes in pages of 4096: 256 a page, none straddling. Each is drawn from its own part of the
    /// universe, so that record `i` can be had without making and sorting those before it.
    fn measure_one(pages: u64, options: PageIndexOptions) {
        let records = pages * 256;
        let record = |i: u64| {
            let jitter = Random::new(i).next();
            (((u128::from(i) << 64) + u128::from(jitter)) / u128::from(records)) as u64
        };
        let firsts: Vec<u64> = (0..pages).map(|page| record(page * 256)).collect();
        let start = std::time::Instant::now();
        let words = built(options, &firsts);
        let build = start.elapsed();
        let index = PageIndex::open(&words).expect("just built");
        let mut random = Random::new(14);
        let asked: Vec<u64> = (0..1_000_000).map(|_| record(random.up_to(records - 1))).collect();
        let one_by_one = ns_each(asked.len(), || {
            asked.iter().fold(0, |sum: u64, &p| sum.wrapping_add(index.pages_of(&words, p).start))
        });
        let one_after_another =
            ns_each(asked.len(), || asked.iter().fold(0, |after, &p| index.pages_of(&words, p ^ (after >> 63)).start));
        let mut found = Vec::with_capacity(asked.len());
        let batched = ns_each(asked.len(), || {
            found.clear();
            index.locate_many(&words, &asked, &mut found);
        });
        let read: u64 = found.iter().map(|pages| pages.end - pages.start).sum();
        println!(
            "{pages} pages, {options:?}: {:.3} bits/page, {:.3} pages/lookup, build {:.1} ns/page; \
             {one_by_one} ns a lookup, {one_after_another} if each awaits the last, {batched} batched",
            words.len() as f64 * 64.0 / pages as f64,
            read as f64 / asked.len() as f64,
            build.as_nanos() as f64 / pages as f64,
        );
    }
}
