//! Compares the codes with the paper.

use super::*;

#[test]
fn codes_of_small_tries_are_those_written_in_the_format() {
    let codes = Codes::new(5);
    let shown = |size| {
        codes.of(size).map(|(code, length)| {
            (0..length).map(|bit| if code >> bit & 1 == 1 { '1' } else { '0' }).collect::<String>()
        })
    };
    assert_eq!(shown(2).collect::<Vec<_>>(), ["0", "1"]);
    assert_eq!(shown(3).collect::<Vec<_>>(), ["10", "11", "0"]);
    assert_eq!(shown(4).collect::<Vec<_>>(), ["00", "01", "10", "11"]);
    assert_eq!(shown(5).collect::<Vec<_>>(), ["110", "111", "00", "01", "10"]);
}

#[test]
fn every_code_is_complete_and_free_of_prefixes() {
    let codes = Codes::new(256);
    for size in 2..=256 {
        // Kraft's sum is exactly one; canonical codes of such lengths are prefix-free.
        let sum: u64 = codes.of(size).map(|(_, length)| 1 << (LENGTH_MAX - length)).sum();
        assert_eq!(sum, 1 << LENGTH_MAX, "size {size}");
    }
}

#[test]
fn weights_are_the_binomials() {
    let row = binomials(6).last().expect("seven rows");
    let binomials: Vec<u64> = weights(&row).iter().map(|w| w >> (32 - 6)).collect();
    assert_eq!(binomials, [2, 6, 15, 20, 15, 6]);
}

#[test]
fn gamma_numbers_come_back() {
    for size in 2..70 {
        let mut numbers: Vec<u64> = (0..size).map(|left| gamma_number(size, left)).collect();
        for (left, &number) in (0..).zip(&numbers) {
            assert_eq!(gamma_left(size, number), Some(left));
        }
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|w| w[0] < w[1]));
    }
    assert_eq!(gamma_left(70, 0x7fff_ffff_ffff_ffff), None);
    assert_eq!(gamma_left(70, u64::MAX - 1), None);
}
