//! Sequences compared with a plain list, with hostile words, and their statistics.

use super::*;
use crate::dictionary::index::popcnt;
use crate::random::Random;

fn built(values: &[u64], greatest: u64) -> Vec<u64> {
    EliasFano::build(values.iter().map(|&v| Ok(v)), values.len() as u64, greatest).expect("ascending values")
}

/// Compares every value, and the counts and neighbours of each of `asked`, with the plain sequence.
fn agrees(values: &[u64], greatest: u64, asked: &[u64]) {
    let words = built(values, greatest);
    let sequence = EliasFano::open(&words).expect("just built");
    assert_eq!(sequence.len(), values.len() as u64);
    sequence.check(&words).expect("just built");
    for (i, &value) in values.iter().enumerate() {
        assert_eq!(sequence.get(&words, i as u64), value, "value {i} of {}", values.len());
    }
    let expected = |x: u64| {
        let less = values.partition_point(|&v| v < x);
        let before = less.checked_sub(1).map_or(0, |last| values[last]);
        let behind = values.get(less).map_or(greatest.saturating_add(1), |&next| next);
        let below = Below { less: less as u64, less_or_equal: values.partition_point(|&v| v <= x) as u64 };
        Around { below, before, behind }
    };
    for &x in asked {
        let expected = expected(x);
        assert_eq!(sequence.below(&words, x), expected.below, "{x} among {} up to {greatest}", values.len());
        assert_eq!(popcnt::around(&sequence, &words, &[x]), [expected], "{x} among {} up to {greatest}", values.len());
        assert_eq!(popcnt::around_portable(&sequence, &words, &[x]), [expected], "portable: {x}");
    }
    for four in asked.as_chunks::<4>().0 {
        assert_eq!(popcnt::around(&sequence, &words, four), four.map(expected));
        assert_eq!(popcnt::around_portable(&sequence, &words, four), four.map(expected));
    }
}

fn around(values: &[u64], greatest: u64, random: &mut Random) -> Vec<u64> {
    let mut asked = vec![0, 1, greatest, greatest.saturating_add(1), u64::MAX];
    for &v in values.iter().step_by(values.len() / 500 + 1) {
        asked.extend([v.saturating_sub(1), v, v.saturating_add(1)]);
    }
    asked.extend((0..500).map(|_| random.up_to(greatest)));
    asked
}

#[test]
fn a_sequence_answers_as_a_plain_one() {
    let mut random = Random::from_seed(1);
    for len in [0, 1, 2, 3, 63, 64, 65, 1000, 1023, 1024, 1025, 2049, 5000, 40_000] {
        for greatest in [0, 1, 2, 100, 1023, 1024, 65_535, 1 << 20, 1 << 40, u64::MAX - 1, u64::MAX] {
            let mut values: Vec<u64> = (0..len).map(|_| random.up_to(greatest)).collect();
            values.sort_unstable();
            agrees(&values, greatest, &around(&values, greatest, &mut random));
        }
    }
}

#[test]
fn a_skewed_sequence_answers_as_a_plain_one() {
    let mut random = Random::from_seed(2);
    let n = 30_000_u64;
    let mut heaps = |heaps: u64, width: u64| {
        let mut values: Vec<u64> = (0..n)
            .map(|_| (random.up_to(heaps - 1) * (u64::MAX / heaps)).saturating_add(random.up_to(width)))
            .collect();
        values.sort_unstable();
        values
    };
    let shapes = [heaps(1, 1), heaps(3, 0), heaps(7, 1 << 20), heaps(50, 1 << 60), heaps(1 << 60, 0)];
    let ends = [vec![0; n as usize], vec![u64::MAX; n as usize], (0..n).map(|i| u64::MAX - n + i).collect()];
    for values in shapes.into_iter().chain(ends) {
        agrees(&values, u64::MAX, &around(&values, u64::MAX, &mut random));
    }
    let halves: Vec<u64> = (0..n).map(|i| if i < n / 2 { i } else { u64::MAX - n + i }).collect();
    agrees(&halves, u64::MAX, &around(&halves, u64::MAX, &mut random));
}

#[test]
fn values_that_descend_or_are_too_great_or_too_many_are_refused() {
    let build = |values: &[u64], len| EliasFano::build(values.iter().map(|&v| Ok(v)), len, 10).map(drop);
    assert!(build(&[1, 10], 2).is_ok());
    for (values, len) in [(&[2, 1][..], 2), (&[1, 11], 2), (&[1, 2, 3], 2), (&[1], 2), (&[], LEN_MAX + 1)] {
        assert!(build(values, len).is_err(), "{values:?} as {len}");
    }
    let broken = [Ok(1), Err(Error::corrupt("unreadable"))];
    assert!(EliasFano::build(broken.into_iter(), 2, 10).is_err());
}

#[test]
fn any_words_are_refused_or_answered_within_bounds() {
    let mut random = Random::from_seed(4);
    let (mut opened, mut unsound) = (0, 0);
    for round in 0..20_000 {
        let greatest = random.next() >> (random.next() % 64);
        let mut values: Vec<u64> = (0..random.up_to(3000) >> (round % 12)).map(|_| random.up_to(greatest)).collect();
        values.sort_unstable();
        let mut words = built(&values, greatest);
        random.damage(&mut words);
        let Ok(sequence) = EliasFano::open(&words) else { continue };
        opened += 1;
        unsound += usize::from(sequence.check(&words).is_err());
        for _ in 0..20 {
            let asked = random.next() >> (random.next() % 64);
            assert!(sequence.get(&words, asked) <= sequence.greatest);
            let below = sequence.below(&words, asked);
            let [around] = popcnt::around(&sequence, &words, &[asked]);
            for below in [below, around.below] {
                assert!(below.less <= below.less_or_equal && below.less_or_equal <= sequence.len());
            }
            assert!(around.before <= sequence.greatest && around.behind <= sequence.end());
            assert_eq!(popcnt::around_portable(&sequence, &words, &[asked]), [around]);
        }
    }
    assert!(opened > 1000 && unsound > 500, "{opened} opened, {unsound} found unsound");
}

#[test]
fn four_packed_numbers_are_compared_as_each_of_them() {
    let mut random = Random::from_seed(7);
    for round in 0..50_000 {
        let bits = round % (NEAR_LOW_BITS_MAX + 1);
        let (count, wanted) = (random.up_to(4), random.up_to((1 << bits) - 1));
        let near = |random: &mut Random| (wanted + random.up_to(2)).saturating_sub(1).min((1 << bits) - 1);
        let numbers =
            [0; 4].map(|_| if random.up_to(1) == 0 { near(&mut random) } else { random.up_to((1 << bits) - 1) });
        // The bits after the four numbers are ignored.
        let packed = (0..4).fold(random.next() << (4 * bits), |packed, i| packed | numbers[i as usize] << (i * bits));
        let matching =
            |counts: &dyn Fn(u64) -> bool| numbers[..count as usize].iter().filter(|n| counts(**n)).count() as u64;
        let expected = (matching(&|n| n < wanted), matching(&|n| n <= wanted));
        assert_eq!(compare_four(packed, bits, count, wanted), expected, "{numbers:?}, {count}, {wanted}");
    }
}

#[test]
fn every_one_of_a_word_is_found() {
    let mut random = Random::from_seed(5);
    for _ in 0..2000 {
        let word = random.next() & (random.next() | random.next() >> (random.next() % 64));
        let ones = (0..64).filter(|i| word >> i & 1 == 1);
        for (rank, at) in ones.enumerate() {
            assert_eq!(select_in_word(word, rank as u32), at, "one {rank} of {word:#x}");
        }
    }
}

#[test]
fn a_header_that_promises_more_than_there_is_allocates_nothing() {
    for words in [vec![], vec![5], vec![LEN_MAX, u64::MAX], vec![u64::MAX, u64::MAX], vec![1, u64::MAX, 0]] {
        assert!(EliasFano::open(&words).is_err(), "{words:?}");
    }
    // No values at all, whatever the universe.
    let empty = EliasFano::open(&[0, u64::MAX]).expect("an empty sequence");
    assert_eq!(empty.below(&[0, u64::MAX], 7), Below { less: 0, less_or_equal: 0 });
    let around = Around { below: Below { less: 0, less_or_equal: 0 }, before: 0, behind: u64::MAX };
    assert_eq!(popcnt::around(&empty, &[0, u64::MAX], &[7]), [around]);
}
