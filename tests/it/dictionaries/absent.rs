//! Absent keys are never found, because full keys are compared.
//!
//! Present and absent keys are numbers of the same form, so they meet in buckets, pages, tries and chunks; an index
//! alone would return a rank for millions of them.

use super::indexes;
use crate::corruption::Random;
use splitpoint::dictionary::Index;
use splitpoint::{DictionaryBuilder, DictionaryOptions};

/// Even numbers are keys, odd ones are not; both are scrambled, so that successive lookups are unrelated.
fn key(number: u64) -> [u8; 8] {
    Random(number).next().to_le_bytes()
}

/// Looks up `lookups` absent keys in a dictionary of `pairs` small records, with two threads.
fn none_is_found(index: Index, pairs: u64, lookups: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.spd");
    let keys = (0..pairs).map(|n| (key(2 * n), (n as u32).to_le_bytes()));
    assert_eq!(DictionaryBuilder::new().index(index).build(&path, keys).unwrap(), pairs);
    let dictionary = DictionaryOptions::new().map_data(true).map_index(true).open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let dictionary = &dictionary;
            scope.spawn(move || {
                let mut value = Vec::new();
                for n in (thread..lookups).step_by(2) {
                    let absent = key(2 * n + 1);
                    assert!(!dictionary.get_into(&absent, &mut value).unwrap(), "{index:?}: {absent:02x?} is found");
                }
            });
        }
    });
    // Present keys are found: each has its own number.
    for n in (0..pairs).step_by(1 + (pairs / 100_000) as usize) {
        assert_eq!(dictionary.get(&key(2 * n)).unwrap(), Some((n as u32).to_le_bytes().to_vec()), "{index:?}");
    }
}

#[test]
fn no_absent_key_is_found_by_any_index() {
    for index in indexes() {
        // Without an index a lookup goes through several pages.
        let lookups = if index == Index::None { 5_000 } else { 60_000 };
        none_is_found(index, 20_000, lookups);
    }
}

#[test]
#[ignore = "slow: 10^8 lookups among 10^7 pairs"]
fn no_absent_key_of_a_hundred_million_is_found() {
    let indexes = [Index::page(), Index::trie(), Index::trie_sparse(16), Index::chunk()];
    for index in indexes {
        none_is_found(index, 10_000_000, 100_000_000 / indexes.len() as u64);
    }
}
