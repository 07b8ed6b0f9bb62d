//! Dictionaries whose data is mapped: damage and lost pages are errors, however a page is first read.

#![allow(clippy::disallowed_methods, reason = "tests damage files")]
#![cfg(target_os = "linux")]

use super::model::{Model, builder, in_directory, indexes, pairs};
use crate::dictionary::{Compression, Dictionary, DictionaryOptions, Index};
use crate::error::ErrorKind;
use crate::random::Random;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const KINDS: [&str; 3] = ["fixed", "words", "fixed, long"];

fn open(path: &Path, calls_left: u32, quick_probes: u32) -> Dictionary {
    let dictionary = DictionaryOptions::new().map_data(true).open(path).unwrap();
    dictionary.files[0].pages.calls_left.store(calls_left, Relaxed);
    dictionary.files[0].pages.quick_probes.store(quick_probes, Relaxed);
    dictionary
}

#[test]
fn calls_that_do_not_wait_end_the_calls_after_a_wait_early() {
    in_directory(|path| {
        let model = pairs("fixed", 3000, 13);
        builder(Index::page()).build(&path, &model).unwrap();
        let calls = || {
            let dictionary = open(&path, 64, u32::MAX);
            let before = dictionary.reads();
            assert!(model.keys().all(|key| dictionary.get(key).unwrap().is_some()));
            dictionary.reads() - before
        };
        // Several attempts, because a lookup may actually wait.
        assert!((0..5).any(|_| (8..=16).contains(&calls())), "{} calls", calls());
    });
}

#[test]
fn damage_in_a_mapped_page_is_an_error_that_names_it_and_other_pages_are_read() {
    for index in [Index::page(), Index::trie_sparse(8), Index::chunk()] {
        for kind in KINDS {
            let model = pairs(kind, 3000, 13);
            in_directory(|path| {
                builder(index).build(&path, &model).unwrap();
                let page = DictionaryOptions::new().open(&path).unwrap().stat().unwrap().pages / 2;
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[page as usize * 512 + 300] ^= 1;
                std::fs::write(&path, bytes).unwrap();
                // The first read of a page copies it from the mapping, or is a system call.
                for calls_left in [0, u32::MAX] {
                    let dictionary = open(&path, calls_left, u32::MAX);
                    let (mut found, mut failed) = (0, 0);
                    for (key, value) in model.iter().chain(&model) {
                        match dictionary.get(key) {
                            Ok(given) => {
                                assert_eq!(given.as_ref(), Some(value), "{index:?} {kind}");
                                found += 1;
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Corrupt, "{index:?} {kind}");
                                assert!(error.to_string().contains(&format!("page {page}:")), "{error}");
                                failed += 1;
                            }
                        }
                    }
                    assert!(failed >= 2 && found > 40 * failed, "{index:?} {kind}: {found} found, {failed} errors");
                }
                for quick_probes in [0, u32::MAX] {
                    let dictionary = open(&path, 0, quick_probes);
                    let keys: Vec<_> = model.keys().collect();
                    assert_eq!(dictionary.get_many(&keys).unwrap_err().kind(), ErrorKind::Corrupt);
                }
            });
        }
    }
}

#[test]
#[expect(clippy::disallowed_types, reason = "the file is cut behind the dictionary's back")]
fn pages_of_a_cut_file_that_were_never_read_are_errors_and_no_signals() {
    for index in [Index::page(), Index::trie(), Index::chunk()] {
        for kind in KINDS {
            let model = pairs(kind, 3000, 13);
            in_directory(|path| {
                builder(index).build(&path, &model).unwrap();
                let opened = [0, 0, u32::MAX].map(|calls_left| open(&path, calls_left, 0));
                let length = std::fs::metadata(&path).unwrap().len();
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 3).unwrap();
                let [in_turn, many, by_calls] = opened;
                for dictionary in [in_turn, by_calls] {
                    let errors = model.iter().filter(|(key, value)| match dictionary.get(key) {
                        Ok(given) => {
                            assert_eq!(given.as_ref(), Some(*value), "{index:?} {kind}");
                            false
                        }
                        Err(error) => error.kind() == ErrorKind::Io,
                    });
                    let errors = errors.count();
                    assert!((1000..2500).contains(&errors), "{index:?} {kind}: {errors} errors");
                }
                let keys: Vec<_> = model.keys().collect();
                assert_eq!(many.get_many(&keys).unwrap_err().kind(), ErrorKind::Io);
            });
        }
    }
}

#[test]
fn a_key_is_found_by_its_end_or_its_beginning_wherever_its_record_is() {
    // Keys that share their last eight bytes, or all but the last, in records that cross the borders of 512-byte pages.
    let alike = (0..1500u32).flat_map(|n| {
        [format!("{n:08}-the same end"), format!("the same start-{n:06}"), format!("{n:021}")].map(String::into_bytes)
    });
    let keys: Vec<Vec<u8>> = alike.collect();
    for value_len in [0, 3, 70, 700] {
        for index in [Index::page(), Index::trie(), Index::trie_sparse(8), Index::trie_sparse(9), Index::chunk()] {
            let value = |n: usize| vec![n as u8; value_len];
            in_directory(|path| {
                builder(index).build(&path, keys.iter().enumerate().map(|(n, key)| (key, value(n)))).unwrap();
                let dictionary = open(&path, 0, u32::MAX);
                for _ in 0..2 {
                    for (n, key) in keys.iter().enumerate() {
                        let found = dictionary.get(key).unwrap();
                        assert_eq!(found, Some(value(n)), "{index:?} {value_len}: {}", key.escape_ascii());
                        let mut other = key.clone();
                        *other.last_mut().unwrap() ^= 0x40;
                        assert!(!dictionary.contains(&other).unwrap(), "{index:?} {value_len}");
                    }
                }
            });
        }
    }
}

#[test]
fn records_of_any_one_size_are_found_where_they_are_expected_and_no_others() {
    let mut random = Random::from_seed(31);
    for round in 0..60 {
        let (key_len, value_len) = (1 + random.up_to(24), random.up_to(20));
        let page_bytes = [512, 4096][round % 2];
        // Few distinct bytes at the end or at the beginning, so that many keys have the same last or first eight.
        let few = random.up_to(2);
        let key = |random: &mut Random| -> Vec<u8> {
            let byte = |at: u64, random: &mut Random| match few {
                0 if at < 9 => random.up_to(1),
                1 if at + 9 > key_len => random.up_to(1),
                _ => random.up_to(255),
            };
            (0..key_len).map(|at| byte(at, random) as u8).collect()
        };
        let mut model = Model::new();
        for n in 0..random.up_to(4000) {
            model.insert(key(&mut random), vec![n as u8; value_len as usize]);
        }
        // Present keys, and absent ones that only a full comparison distinguishes from them.
        let changed = |key: &Vec<u8>, at: usize| {
            let mut key = key.clone();
            key[at] ^= 1;
            key
        };
        let others = model.keys().flat_map(|key| [0, key.len() - 1].map(|at| changed(key, at)));
        let keys: Vec<Vec<u8>> = model.keys().cloned().chain(others).collect();
        for bins_per_page in [1, 16] {
            in_directory(|path| {
                let context =
                    format!("{key_len} + {value_len} bytes, pages of {page_bytes}, {bins_per_page} bins, {few}");
                builder(Index::Page { bins_per_page }).page_bytes(page_bytes).build(&path, &model).unwrap();
                let dictionary = open(&path, 0, u32::MAX);
                for _ in 0..2 {
                    for key in &keys {
                        assert_eq!(dictionary.get(key).unwrap().as_ref(), model.get(key), "{context}");
                    }
                    let found = dictionary.get_many(&keys).unwrap();
                    assert!(found.iter().map(Option::as_ref).eq(keys.iter().map(|key| model.get(key))), "{context}");
                }
            });
        }
    }
}

#[test]
fn records_of_varying_size_are_found_among_others_that_begin_alike() {
    // Beginnings longer than what is compared first, and lengths around those that need a second byte.
    let lens = [0, 1, 2, 13, 14, 15, 16, 17, 126, 127, 128, 129, 254, 255, 256, 300];
    let key = |len: usize, last: u8| [vec![b'k'; len.saturating_sub(1)], vec![last; len.min(1)]].concat();
    let pairs = (0..800).map(|n| (key(lens[n % 16], (n / 16) as u8), vec![n as u8; lens[n / 3 % 16]]));
    let model: Model = pairs.collect();
    for compression in [Compression::None, Compression::Lz4] {
        in_directory(|path| {
            builder(Index::page()).compression(compression).build(&path, &model).unwrap();
            for map in [true, false] {
                let dictionary = DictionaryOptions::new().map_data(map).open(&path).unwrap();
                for (len, last) in lens.iter().flat_map(|len| (0..=255).map(|last| (*len, last))) {
                    let key = key(len, last);
                    let found = dictionary.get(&key).unwrap();
                    assert_eq!(found.as_ref(), model.get(&key), "{compression:?}, mapped: {map}, {len} bytes, {last}");
                }
            }
        });
    }
}

/// Returns pairs of such lengths that three or four records fit in a page, as with long values in larger pages.
fn few_a_page() -> Model {
    (0..3000u32).map(|n| (format!("{n:020}").into_bytes(), vec![n as u8; 70 + n as usize % 90])).collect()
}

#[test]
fn lookups_in_place_one_by_one_and_of_many_give_what_reads_give() {
    let models = KINDS.map(|kind| pairs(kind, 3000, 14)).into_iter().chain([few_a_page(), pairs("sizes", 1500, 15)]);
    for (model, index) in models.flat_map(|model| indexes().into_iter().map(move |index| (model.clone(), index))) {
        for (shards, filter) in [(1, 0), (3, 8)] {
            in_directory(|path| {
                builder(index).shards(shards).filter(filter).build(&path, &model).unwrap();
                // Absent keys between present ones, and at both ends.
                let absent = |key: &Vec<u8>| key.iter().rev().copied().chain([7]).collect();
                let keys: Vec<Vec<u8>> = model.keys().flat_map(|key| [absent(key), key.clone(), absent(key)]).collect();
                let read = DictionaryOptions::new().map_data(false).open(&path).unwrap();
                let expected: Vec<Option<Vec<u8>>> = keys.iter().map(|key| read.get(key).unwrap()).collect();
                assert!(expected.iter().map(Option::as_ref).eq(keys.iter().map(|key| model.get(key))));
                let mapped = open(&path, 0, u32::MAX);
                for round in 0..2 {
                    let context = format!("{index:?}, {shards} shards, round {round}");
                    let mut given = Vec::new();
                    mapped
                        .get_many_with(&keys, |number, value| {
                            assert_eq!(number, given.len(), "{context}: in order");
                            given.push(value.map(<[u8]>::to_vec));
                        })
                        .unwrap();
                    assert!(given == expected, "{context}: passed on");
                    assert!(mapped.get_many(&keys).unwrap() == expected, "{context}: many");
                    let one_by_one = keys.iter().map(|key| mapped.get(key).unwrap());
                    assert!(one_by_one.eq(expected.iter().cloned()), "{context}: one by one");
                }
            });
        }
    }
}

#[test]
fn lookups_of_some_pages_let_all_others_be_checked_and_damage_stays_an_error_of_its_page() {
    const PAGE_BYTES: usize = 4096;
    let model: Model = (0..8000u32).map(|n| (format!("{n:020}").into_bytes(), vec![n as u8; 1000])).collect();
    in_directory(|path| {
        builder(Index::page()).page_bytes(PAGE_BYTES as u32).build(&path, &model).unwrap();
        let damaged = 1500;
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[damaged * PAGE_BYTES + 300] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let dictionary = DictionaryOptions::new().open(&path).unwrap();
        let pages = &dictionary.files[0].pages;
        if !pages.is_mapped() || !pages.is_cached(0) {
            // The file system is shared, or does not say what is cached.
            return;
        }
        let is_error = |key: &Vec<u8>| match dictionary.get(key) {
            Ok(given) => {
                assert_eq!(given.as_ref(), model.get(key));
                false
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains(&format!("page {damaged}:")), "{error}");
                true
            }
        };
        // Reads one page in 13, which is more than one in 32.
        model.keys().step_by(40).for_each(|key| assert!(is_error(key) || pages.checked_count() > 0));
        let start = Instant::now();
        while pages.checked_count() < pages.count() - 1 {
            assert!(start.elapsed() < Duration::from_secs(60), "{} of {}", pages.checked_count(), pages.count());
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = dictionary.reads();
        for _ in 0..2 {
            assert!((1..=6).contains(&model.keys().filter(|key| is_error(key)).count()));
        }
        assert_eq!(pages.checked_count(), pages.count() - 1);
        // The damaged page is read, and so is each page that the system has dropped from its cache.
        assert!(dictionary.reads() - before <= pages.count() / 10, "{} reads", dictionary.reads() - before);
    });
}
