//! The page index compared with a plain search, with hostile words, and its statistics.

use super::*;
use crate::random::Random;

const PAGE_BYTES: u64 = 100;

/// A block, or a record if `first == last`: its positions and its bytes in the stream.
#[derive(Clone, Copy, Debug)]
struct Cell {
    first: u64,
    last: u64,
    from: u64,
    to: u64,
}

/// Returns consecutive cells; the closures choose the lengths and positions.
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

/// Returns the first position of the cell at the start of each page.
fn firsts(cells: &[Cell]) -> Vec<u64> {
    let pages = cells.last().map_or(0, |u| u.to.div_ceil(PAGE_BYTES));
    (0..pages).map(|page| cells[cells.partition_point(|u| u.to <= page * PAGE_BYTES)].first).collect()
}

fn built(options: PageIndexOptions, firsts: &[u64]) -> Vec<u64> {
    PageIndex::build(options, firsts.len() as u64, firsts.iter().map(|&f| Ok(f))).expect("ascending firsts")
}

/// Returns the range that the comment of `pages_between` describes, by looking at every page.
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

fn take_all(index: &PageIndex, words: &[u64], positions: &[u64], all: &mut Vec<Located>) {
    let taken = index.locate_many(words, positions, |located| {
        all.push(located);
        Ok::<(), ()>(())
    });
    taken.expect("no error was given");
}

fn every_unit_is_inside(options: PageIndexOptions, cells: &[Cell], asked: &[u64]) {
    let firsts = firsts(cells);
    let words = built(options, &firsts);
    let index = PageIndex::open(&words).expect("just built");
    index.check(&words).expect("just built");
    let mut many = Vec::new();
    take_all(&index, &words, asked, &mut many);
    assert_eq!(many.len(), asked.len());
    for (&position, found) in asked.iter().zip(&many) {
        assert_eq!(index.locate(&words, position), *found);
        let found = &found.pages;
        assert_eq!(index.pages_of(&words, position), *found);
        assert_eq!(*found, by_reading_it_all(options, &firsts, position), "{position:#x}, {options:?}");
        for cell in cells.iter().filter(|u| u.first <= position && position <= u.last) {
            let needed = cell.from / PAGE_BYTES..(cell.to - 1) / PAGE_BYTES + 1;
            let inside = found.start <= needed.start && needed.end <= found.end;
            assert!(inside, "{position:#x} of {cell:x?} is in {needed:?}, not {found:?}; {options:?}");
        }
    }
}

/// Returns positions of different distributions: uniform, clustered, few distinct ones, only one.
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
    let mut random = Random::from_seed(11);
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
    // The block covers pages 0 to 4. The next one is on page 5; its first position is in the same bin as the last
    // position of the block.
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
        // No record crosses a border: four pages each, and the preceding page, where it might have begun.
        assert_eq!(index.pages_of(&words, rank), rank * 4 - 1..rank * 4 + 4);
    }
}

#[test]
fn a_record_is_expected_between_the_beginnings_of_two_pages() {
    const PAGE: u64 = 1 << 32;
    // A thousand pages, each of which begins in the middle of its first bin of 16.
    let options = PageIndexOptions { bins_per_page: BINS_PER_PAGE, blocks: false, greatest: u64::MAX };
    let bin = u64::MAX / 16_000;
    let firsts: Vec<u64> = (0..1000).map(|page| page * 16 * bin + bin / 2).collect();
    let words = built(options, &firsts);
    let index = PageIndex::open(&words).expect("just built");
    for sixteenths in 1..16 {
        for page in [0, 1, 500, 998] {
            let Located { pages, expected } = index.locate(&words, firsts[page] + sixteenths * bin);
            assert_eq!(pages, page as u64..page as u64 + 1);
            assert!(expected.abs_diff(sixteenths * PAGE / 16) < PAGE / 100, "{sixteenths} sixteenths: {expected:#x}");
        }
    }
}

#[test]
fn a_page_of_the_last_bin_there_can_be_is_near_a_position() {
    let bins = EliasFano::build([u64::MAX - 3, u64::MAX].into_iter().map(Ok), 2, u64::MAX).expect("ascending");
    let words = [&[u64::MAX, 0][..], &bins].concat();
    let index = PageIndex::open(&words).expect("words of its form");
    assert_eq!(index.locate(&words, u64::MAX), Located { pages: 0..1, expected: 1 << 31 });
    assert_eq!(index.locate(&words, 0), Located { pages: 0..0, expected: 0 });
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
    let mut random = Random::from_seed(12);
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
        take_all(&index, &words, &asked, &mut found);
        for Located { pages, .. } in found {
            assert!(pages.start <= pages.end && pages.end <= index.pages(), "{pages:?} of {}", index.pages());
        }
    }
    assert!(opened > 5000, "only {opened} opened");
}

#[test]
fn a_page_costs_six_bits_and_a_half_at_most() {
    let mut random = Random::from_seed(13);
    for pages in [100_000_u64, 131_072, 150_001] {
        let mut firsts: Vec<u64> = (0..pages).map(|_| random.next()).collect();
        firsts.sort_unstable();
        let options = PageIndexOptions { bins_per_page: BINS_PER_PAGE, blocks: false, greatest: u64::MAX };
        let bits = built(options, &firsts).len() as f64 * 64.0 / pages as f64;
        assert!(bits < 6.5, "{bits} bits a page at {pages}");
    }
}
