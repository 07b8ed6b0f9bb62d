//! The filter compared with the set of its positions, and with hostile words.

use super::*;
use crate::random::Random;

/// Returns the words of a filter over `positions`, which ascend.
fn built(bits: FilterBits, positions: &[u64]) -> Vec<u64> {
    let (mut directory, mut slots) = (Directory::default(), Vec::new());
    for positions in positions.chunks(SEGMENT_KEYS) {
        let segment = solve(bits, positions);
        directory.add(&segment);
        slots.extend(segment.words);
    }
    let mut words = directory.words(bits, positions.len() as u64);
    words.extend(slots);
    words
}

fn some_positions(count: usize, seed: u64) -> Vec<u64> {
    let mut random = Random::from_seed(seed);
    let mut positions: Vec<u64> = (0..count).map(|_| random.next()).collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

fn may_have(filter: &Filter, words: &[u64], position: u64) -> bool {
    filter.answer(words, filter.probe(position))
}

#[test]
fn every_position_passes_and_few_others_do() {
    for (count, bits, passing_max) in [
        (0, FilterBits::Eight, 0),
        (1, FilterBits::Eight, 700),
        (2, FilterBits::Sixteen, 20),
        (3, FilterBits::Eight, 700),
        (1000, FilterBits::Eight, 500),
        (SEGMENT_KEYS - 1, FilterBits::Eight, 470),
        (SEGMENT_KEYS, FilterBits::Sixteen, 10),
        (SEGMENT_KEYS + 1, FilterBits::Eight, 470),
        (200_000, FilterBits::Eight, 470),
    ] {
        let positions = some_positions(count, count as u64);
        let words = built(bits, &positions);
        let filter = Filter::open(&words).unwrap();
        assert_eq!((filter.bits(), filter.keys()), (bits, positions.len() as u64));
        let missing = positions.iter().filter(|position| !may_have(&filter, &words, **position)).count();
        assert_eq!(missing, 0, "{count} positions");
        let mut random = Random::from_seed(77);
        let passing = (0..100_000).filter(|_| may_have(&filter, &words, random.next())).count();
        assert!(passing <= passing_max, "{count} positions, {bits:?}: {passing} of 100,000 others pass");
    }
}

#[test]
fn a_filter_takes_nine_and_a_half_bits_a_key() {
    let positions = some_positions(4 * SEGMENT_KEYS, 5);
    let bits_of = |bits| built(bits, &positions).len() as f64 * 64.0 / positions.len() as f64;
    assert!(bits_of(FilterBits::Eight) < 9.52, "{}", bits_of(FilterBits::Eight));
    assert!(bits_of(FilterBits::Sixteen) < 19.04, "{}", bits_of(FilterBits::Sixteen));
}

#[test]
fn positions_close_together_are_no_harder() {
    for stride in [1, 2, 1 << 20, 1 << 40] {
        let positions: Vec<u64> = (0..150_000).map(|number| number * stride).collect();
        let words = built(FilterBits::Eight, &positions);
        let filter = Filter::open(&words).unwrap();
        assert!(positions.iter().all(|position| may_have(&filter, &words, *position)));
        let behind = (0..100_000).filter(|number| may_have(&filter, &words, (150_000 + number) * stride)).count();
        assert!(behind < 600, "stride {stride}: {behind} of 100,000 others pass");
    }
}

#[test]
fn a_segment_that_no_seed_serves_lets_all_pass() {
    // Equal positions, which callers never pass, are not alone in any slot.
    let segment = solve(FilterBits::Eight, &[7, 7]);
    assert_eq!((segment.shape, segment.words.len()), (Shape::default(), 0));
    let mut directory = Directory::default();
    directory.add(&segment);
    let words = directory.words(FilterBits::Eight, 2);
    let filter = Filter::open(&words).unwrap();
    assert!([0, 7, u64::MAX].into_iter().all(|position| may_have(&filter, &words, position)));
}

#[test]
fn the_touched_places_are_those_that_are_read() {
    let positions = some_positions(70_000, 3);
    for bits in [FilterBits::Eight, FilterBits::Sixteen] {
        let words = built(bits, &positions);
        let filter = Filter::open(&words).unwrap();
        for position in positions.iter().step_by(1000) {
            // A copy that has only these words returns the same answer.
            let mut sparse = vec![0; words.len()];
            filter.places(filter.probe(*position), |place| sparse[place] = words[place]);
            assert!(may_have(&filter, &sparse, *position));
        }
    }
}

#[test]
fn words_that_contradict_themselves_are_refused_or_read_without_a_panic() {
    let good = built(FilterBits::Eight, &some_positions(70_000, 9));
    let head = HEADER_WORDS + 2 * DIRECTORY_WORDS;
    let mut random = Random::from_seed(1);
    for round in 0..3000 {
        let mut words = good.clone();
        let at = random.below(head);
        words[at] = match round % 3 {
            0 => random.next(),
            1 => words[at] ^ 1 << random.below(64),
            _ => random.below(1 << 20) as u64,
        };
        if round % 5 == 0 {
            words.truncate(random.below(good.len() + 1));
        }
        if let Ok(filter) = Filter::open(&words) {
            for _ in 0..20 {
                let position = random.next();
                may_have(&filter, &words, position);
                filter.places(filter.probe(position), |place| assert!(place < words.len()));
            }
        }
    }
    for words in [&good[..3], &good[..head], &good[..good.len() - 1], &[8, 0, 0, 0, 0], &[9, 0, 0, 0]] {
        assert!(Filter::open(words).is_err(), "{} words", words.len());
    }
    assert!(Filter::open(&[8, 0, 0, 0]).is_ok());
}
