//! Compares the models with the paper's pseudocode, textbook figures, a plain set of keys, and Splitpoint's table.

use super::chained::{Chained, Order};
use super::dbm::Dbm;
use super::dynahash::Dynahash;
use super::gdbm::{DEPTH_MAX, Gdbm};
use super::hsearch::{Hsearch, Probing, next_prime};
use super::hybrid::groups;
use super::sdbm::{Leaf, SPLITS_MAX, Sdbm};
use super::*;
use crate::keys::Keys;
use splitpoint::linear::State;
use splitpoint::{HashKind, TableOptions};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

const RANDOM: Function = Function::Package(HashKind::Xxh3);

fn options(page_bytes: usize, nelem: usize, function: Option<HashKind>) -> Options {
    Options { page_bytes, nelem, fill_factor: None, average_pair_bytes: 24, function }
}

/// Keys that differ in a few digits.
fn numbered(count: usize) -> Keys {
    (0..count).map(|number| format!("key {number}")).collect()
}

/// Returns the mean number of pages or entries that `find` touches.
fn mean_touched<'a>(scheme: &dyn Scheme, keys: impl Iterator<Item = &'a [u8]>) -> f64 {
    let touched: Vec<u64> = keys.map(|key| scheme.find(key).touched).collect();
    touched.iter().sum::<u64>() as f64 / touched.len() as f64
}

fn fill<'k>(scheme: &mut dyn Scheme<'k>, keys: &'k Keys) {
    keys.iter().for_each(|key| scheme.insert(key, 8).unwrap());
}

fn close(actual: f64, expected: f64, percent: f64) {
    assert!((actual / expected - 1.0).abs() * 100.0 < percent, "{actual}, expected {expected}");
}

#[test]
fn every_scheme_finds_what_it_accepted_and_nothing_else() {
    let keys = numbered(3000);
    let others: Keys = (0..3000).map(|number| format!("other {number}")).collect();
    let functions = [None, Some(HashKind::Xxh3), Some(HashKind::Djb2), Some(HashKind::Knuth)];
    for (&kind, function) in SchemeKind::ALL.iter().flat_map(|kind| functions.map(|function| (kind, function))) {
        // Pages too small for some values; a declared size too small for all keys.
        let mut scheme = kind.empty(&options(128, 1200, function));
        let (mut accepted, mut bytes) = (HashSet::new(), 0);
        for (index, key) in keys.iter().enumerate() {
            let value_bytes = index % 150;
            if scheme.insert(key, value_bytes).is_ok() {
                assert!(scheme.find(key).found, "{kind:?}");
                accepted.insert(key);
                bytes += key.len() + value_bytes;
            }
            // Inserting it again changes nothing and is no error.
            assert_eq!(
                scheme.insert(key, 1).is_ok(),
                accepted.contains(key) || value_bytes > 1 && scheme.find(key).found
            );
            if scheme.find(key).found && accepted.insert(key) {
                bytes += key.len() + 1;
            }
        }
        assert!(accepted.len() > 1000, "{kind:?} {function:?}: {}", accepted.len());
        for key in &keys.iter().collect::<Vec<_>>() {
            assert_eq!(scheme.find(key).found, accepted.contains(key), "{kind:?} {function:?}");
        }
        assert!(others.iter().all(|key| !scheme.find(key).found), "{kind:?}");
        let figures = scheme.figures();
        assert_eq!((figures.pairs, figures.pair_bytes), (accepted.len() as u64, bytes as u64), "{kind:?}");
        assert!(figures.utilisation_percent() <= 100.0 && figures.store_bytes > 0, "{kind:?} {figures:?}");
    }
}

/// The table that the paper's text steps through: bucket 0 splits, then bucket 1.
#[test]
fn dbm_addresses_as_the_paper_does() {
    let mut dbm = Dbm::new(RANDOM, 128);
    assert_eq!(dbm.access(0b111), (0, 0));
    dbm.set_split(0, 0); // bit 0
    assert_eq!([0b110, 0b101].map(|hash| dbm.access(hash)), [(0, 1), (1, 1)]);
    dbm.set_split(1, 1); // bit 2
    assert_eq!([0b110, 0b101, 0b111].map(|hash| dbm.access(hash)), [(0, 1), (0b01, 3), (0b11, 3)]);
    dbm.set_split(0b11, 3); // bit 6
    assert_eq!([0b0011, 0b0111, 0b0101].map(|hash| dbm.access(hash)), [(0b011, 7), (0b111, 7), (0b01, 3)]);
    assert_eq!(dbm.figures().addressing_bytes, 2); // 15 bits
}

/// The paper's Figure 1: nodes A and B have split, C, D and E have not.
#[test]
fn sdbm_addresses_as_the_paper_does() {
    let mut sdbm = Sdbm::new(RANDOM, 128);
    let leaf = |node, bucket, mask| Leaf { node, bucket, mask };
    assert_eq!(sdbm.access(0b111), leaf(0, 0, 0));
    sdbm.set_split(leaf(0, 0, 0));
    assert_eq!([0b110, 0b101].map(|hash| sdbm.access(hash)), [leaf(1, 0, 1), leaf(2, 1, 1)]);
    sdbm.set_split(leaf(2, 1, 1));
    assert_eq!([0b110, 0b101, 0b111].map(|hash| sdbm.access(hash)), [leaf(1, 0, 1), leaf(5, 1, 3), leaf(6, 3, 3)]);
}

#[test]
fn dbm_and_sdbm_put_every_key_on_the_same_page() {
    let keys = numbered(3000);
    let (mut dbm, mut sdbm) = (Dbm::new(RANDOM, 256), Sdbm::new(RANDOM, 256));
    fill(&mut dbm, &keys);
    fill(&mut sdbm, &keys);
    for key in keys.iter() {
        let (hash, leaf) = (RANDOM.hash(key), sdbm.access(RANDOM.hash(key)));
        assert_eq!(dbm.access(hash), (leaf.bucket, leaf.mask));
    }
    assert_eq!(dbm.figures().splits, sdbm.figures().splits);
    assert!(dbm.figures().file_bytes > dbm.figures().store_bytes, "a file without holes");
}

#[test]
fn a_bucket_of_depth_d_has_2_to_the_depth_difference_directory_entries() {
    let keys = numbered(3000);
    for function in [RANDOM, Function::Gdbm, Function::Package(HashKind::Djb2)] {
        let mut gdbm = Gdbm::new(function, 128);
        for (index, key) in keys.iter().enumerate() {
            gdbm.insert(key, 8).unwrap();
            if index % 500 != 499 {
                continue;
            }
            assert_eq!(gdbm.directory.len(), 1 << gdbm.depth);
            let mut times = vec![0; gdbm.buckets.len()];
            gdbm.directory.iter().for_each(|&bucket| times[bucket as usize] += 1);
            for (bucket, times) in gdbm.buckets.iter().zip(times) {
                assert_eq!(times, 1 << (gdbm.depth - bucket.depth));
            }
        }
        assert!(gdbm.buckets.iter().any(|bucket| bucket.depth < gdbm.depth), "{function:?}: all of one depth");
    }
}

#[test]
fn linear_hashing_addresses_as_splitpoints_table_does() {
    let keys = numbered(2000);
    let table = TableOptions::new().hash(HashKind::Crc32c).fill_factor(2).in_memory().unwrap();
    let mut sizes_seen = HashSet::new();
    for (index, key) in keys.iter().enumerate() {
        table.put(key, b"").unwrap();
        if index % 37 != 0 {
            continue;
        }
        let stat = table.survey().unwrap();
        let state = State::new(stat.buckets as u32 - 1);
        let mut bucket_pairs = vec![0_u64; stat.buckets as usize];
        for key in keys.iter().take(index + 1) {
            bucket_pairs[state.bucket_of(HashKind::Crc32c.hash(key, 0)) as usize] += 1;
        }
        let mut expected: HashMap<u64, u64> = HashMap::new();
        bucket_pairs.into_iter().for_each(|pairs| *expected.entry(pairs).or_default() += 1);
        let actual: HashMap<u64, u64> = stat.histogram.iter().copied().collect();
        assert_eq!(actual.iter().filter(|(_, n)| **n > 0).collect::<HashMap<_, _>>(), expected.iter().collect());
        sizes_seen.insert(stat.buckets);
    }
    assert!(sizes_seen.len() > 20, "the table must grow many times");
}

#[test]
fn dynahash_keeps_its_fill_factor() {
    let keys = numbered(5000);
    for fill_factor in [1, 5] {
        let mut dynahash = Dynahash::new(Function::Package(HashKind::Dynahash), fill_factor);
        fill(&mut dynahash, &keys);
        assert_eq!(dynahash.state.bucket_count(), 5000 / fill_factor);
    }
}

#[test]
fn groups_are_those_of_splitpoints_table() {
    let expected =
        [(0, (1, 1)), (1, (2, 2)), (2, (4, 3)), (3, (4, 3)), (511, (512, 10)), (512, (528, 11)), (528, (544, 12))];
    for (max_bucket, allocated) in expected {
        assert_eq!(groups(max_bucket), allocated, "{max_bucket}");
    }
    assert_eq!(groups(1023), (1024, 42));
}

/// Knuth, volume 3, section 6.4: 1/a ln 1/(1-a) for a hit, 1/(1-a) for a miss.
#[test]
fn double_hashing_needs_the_textbook_number_of_probes() {
    for load in [0.5_f64, 0.8, 0.9] {
        let keys = numbered((65_536.0 * load) as usize);
        let mut table = Hsearch::new(RANDOM, 65_536, Probing::Double);
        fill(&mut table, &keys);
        close(mean_touched(&table, keys.iter()), -(1.0 - load).ln() / load, 3.0);
        let misses: Keys = (0..20_000).map(|number| format!("none {number}")).collect();
        close(mean_touched(&table, misses.iter()), 1.0 / (1.0 - load), 4.0);
    }
}

/// Knuth, volume 3, section 6.4: (1 + 1/(1-a)) / 2 for a hit, (1 + 1/(1-a)^2) / 2 for a miss.
#[test]
fn linear_probing_needs_the_textbook_number_of_probes() {
    for load in [0.5_f64, 0.8] {
        let slots = next_prime(65_536);
        let keys = numbered((slots as f64 * load) as usize);
        let mut table = Hsearch::new(RANDOM, slots, Probing::Linear);
        fill(&mut table, &keys);
        close(mean_touched(&table, keys.iter()), (1.0 + 1.0 / (1.0 - load)) / 2.0, 4.0);
        let misses: Keys = (0..20_000).map(|number| format!("none {number}")).collect();
        close(mean_touched(&table, misses.iter()), (1.0 + (1.0 - load).powi(-2)) / 2.0, 6.0);
    }
}

/// Knuth, volume 3, section 6.4: 1 + a/2 for a hit, a for a miss; a miss in a sorted list ends halfway.
#[test]
fn chains_cost_the_textbook_number_of_comparisons() {
    for load in [1.0_f64, 4.0] {
        let keys = numbered((16_384.0 * load) as usize);
        // Each sorts right after a key, so every rank in a list is equally likely.
        let misses: Keys = keys.iter().map(|key| [key, &b".5"[..]].concat()).collect();
        let [front, up, down] = [Order::Front, Order::Up, Order::Down].map(|order| {
            let mut table = Chained::new(RANDOM, 16_384, order);
            fill(&mut table, &keys);
            close(mean_touched(&table, keys.iter()), 1.0 + load / 2.0, 3.0);
            mean_touched(&table, misses.iter())
        });
        close(front, load, 3.0);
        // In a list of n entries a miss compares k = 1..=n, or n at the end, equally likely: n/2 + n/(n+1).
        let sorted: f64 =
            (0..60).map(|n| poisson(load, n) * (f64::from(n) / 2.0 + f64::from(n) / f64::from(n + 1))).sum();
        close(up, sorted, 5.0);
        close(down, sorted, 5.0);
    }
}

fn poisson(mean: f64, n: u32) -> f64 {
    (1..=n).fold((-mean).exp(), |p, k| p * mean / f64::from(k))
}

#[test]
fn brent_shortens_hits_in_a_full_table() {
    let keys = numbered(62_000); // 95 % of the slots
    let [double, brent] = [Probing::Double, Probing::Brent].map(|probing| {
        let mut table = Hsearch::new(RANDOM, 65_536, probing);
        fill(&mut table, &keys);
        assert!(keys.iter().all(|key| table.find(key).found));
        mean_touched(&table, keys.iter())
    });
    assert!(double > 3.0 && brent < 2.3, "{double} and {brent}");
}

#[test]
fn only_dbm_and_sdbm_cannot_store_a_pair_larger_than_a_page() {
    for &kind in SchemeKind::ALL {
        let outcome = kind.empty(&options(1024, 100, None)).insert(b"key", 1024);
        let is_refused = matches!(kind, SchemeKind::Dbm | SchemeKind::Sdbm);
        let refused = Refused::PairTooLarge { pair_bytes: 1031, page_bytes: 1022 };
        assert_eq!(outcome, if is_refused { Err(refused) } else { Ok(()) }, "{kind:?}");
    }
}

/// Knuth's function folds the words of a key by exclusive or; these keys all fold to one value.
fn with_equal_hashes(count: u32) -> Keys {
    (0..count).map(|n| [n.to_le_bytes(), (n ^ 0x5eed).to_le_bytes()].concat()).collect()
}

#[test]
fn keys_with_equal_hashes_that_exceed_a_page_stop_the_dbm_family_but_not_linear_hashing() {
    let keys = with_equal_hashes(200);
    let hashes: HashSet<u64> = keys.iter().map(|key| HashKind::Knuth.hash(key, 0)).collect();
    assert_eq!(hashes.len(), 1);
    for &kind in SchemeKind::ALL {
        let mut scheme = kind.empty(&options(1024, 256, Some(HashKind::Knuth)));
        let outcomes: Vec<_> = keys.iter().map(|key| scheme.insert(key, 8)).collect();
        let refused = outcomes.iter().find_map(|outcome| outcome.err());
        let stored = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        let figures = scheme.figures();
        match kind {
            // A page has 1022 bytes, a pair takes 20.
            SchemeKind::Dbm => {
                assert_eq!((refused, stored), (Some(Refused::Collisions { bits: 32 }), 51));
                assert_eq!((figures.splits, figures.addressing_bytes), (32, 1 << 30));
                assert!(figures.file_bytes > 1 << 30 && figures.store_bytes < 1 << 20, "{figures:?}");
            }
            SchemeKind::Sdbm => {
                assert_eq!((refused, stored), (Some(Refused::SplitLimit { splits: SPLITS_MAX }), 51));
            }
            SchemeKind::Gdbm => {
                let entries = 1 << DEPTH_MAX;
                assert_eq!((refused, stored), (Some(Refused::DirectoryTooLarge { entries }), 42));
                assert_eq!(figures.addressing_bytes, 8 << DEPTH_MAX);
            }
            _ => assert_eq!((refused, stored), (None, 200), "{kind:?}"),
        }
        for (key, outcome) in keys.iter().zip(outcomes) {
            assert_eq!(scheme.find(key).found, outcome.is_ok(), "{kind:?}");
        }
    }
}

#[test]
fn a_full_hsearch_table_refuses_keys_and_a_chained_one_does_not() {
    let keys = numbered(200);
    for &kind in SchemeKind::ALL {
        let mut scheme = kind.empty(&options(1024, 100, None));
        let stored = keys.iter().filter(|key| scheme.insert(key, 8).is_ok()).count();
        let (expected, slots) = match kind {
            SchemeKind::Hsearch | SchemeKind::HsearchBrent => (128, 128),
            SchemeKind::HsearchDiv => (101, 101), // the next prime
            _ => (200, 0),
        };
        assert_eq!(stored, expected, "{kind:?}");
        if stored < 200 {
            assert_eq!(scheme.insert(b"one more", 8), Err(Refused::TableFull { slots }));
            assert_eq!(scheme.find(b"one more"), Found { found: false, touched: slots as u64 });
        }
    }
}

#[test]
fn a_few_keys_that_agree_in_many_bits_make_the_directory_of_gdbm_large() {
    // One key more than a bucket holds.
    let wanted = |key: &[u8]| HashKind::Crc32c.hash(key, 0) & 0xFFFF == 0;
    let keys: Keys = (0_u32..).map(u32::to_le_bytes).filter(|key| wanted(key)).take(43).collect();
    let mut gdbm = Gdbm::new(Function::Package(HashKind::Crc32c), 1024);
    fill(&mut gdbm, &keys);
    let figures = gdbm.figures();
    assert!(gdbm.depth > 16 && figures.addressing_bytes > 40_000 * 8, "{figures:?}");
    // The last insert wrote the directory at every doubling; the sum is near the size of the last one.
    assert!(figures.longest_pause > figures.addressing_bytes / 1024, "{figures:?}");
}

#[test]
fn linear_hashing_on_pages_writes_at_most_8_pages_an_insert() {
    let keys = numbered(20_000);
    for kind in [SchemeKind::Hash1991, SchemeKind::Splitpoint] {
        let mut scheme = kind.empty(&options(1024, 0, Some(HashKind::Xxh3)));
        fill(&mut *scheme, &keys);
        let figures = scheme.figures();
        assert!(figures.longest_pause <= 8, "{kind:?} {figures:?}");
        assert!(figures.utilisation_percent() > 50.0, "{kind:?} {figures:?}");
        let misses: Keys = (0..5000).map(|number| format!("none {number}")).collect();
        assert!(mean_touched(&*scheme, misses.iter()) < 1.8, "{kind:?}");
    }
}

#[test]
fn the_1991_file_is_limited_to_16_bit_overflow_addresses() {
    let mut scheme = SchemeKind::Hash1991.empty(&options(64, 0, None));
    let pages = hybrid::OVERFLOW_PAGES_MAX;
    assert_eq!(scheme.insert(b"key", 58 * pages as usize), Err(Refused::OverflowAddresses { pages }));
    assert_eq!(scheme.insert(b"key", 57 * pages as usize), Ok(()));
    assert_eq!(scheme.insert(b"other", 58 * 2000), Err(Refused::OverflowAddresses { pages }));
    assert_eq!(scheme.insert(b"short", 8), Ok(()));
}

fn study(kind: SchemeKind, keys: &Keys, options: &Options) -> Study {
    let distinct = Distinct::of(keys);
    let absent = absent_keys(&distinct);
    let proceed = || ControlFlow::Continue(());
    Study::run(kind, &distinct, &absent, &(8..=8), 20, options, &proceed).unwrap()
}

#[test]
fn a_study_is_reproducible() {
    let keys = numbered(5000);
    for &kind in SchemeKind::ALL {
        let options = options(512, 5000, Some(HashKind::Xxh3));
        let first = study(kind, &keys, &options);
        assert_eq!(study(kind, &keys, &options), first);
        let numbers: Vec<usize> = first.points.iter().map(|point| point.keys).collect();
        assert!(numbers.is_sorted() && (15..=21).contains(&numbers.len()), "{numbers:?}");
        assert_eq!((numbers[0], numbers[numbers.len() - 1]), (16, 5000));
    }
}

#[test]
fn a_study_counts_refused_keys_and_keeps_the_first() {
    let keys = numbered(300);
    let study = study(SchemeKind::HsearchDiv, &keys, &options(512, 100, Some(HashKind::Xxh3)));
    let [refusals] = &study.refusals[..] else { panic!("{:?}", study.refusals) };
    assert_eq!((refusals.reason, refusals.count), (Refused::TableFull { slots: 101 }, 199));
    assert_eq!(refusals.example, b"key 101");
    assert_eq!(study.last().unwrap().refused, 199);
}

#[test]
fn the_study_of_a_quadratic_scheme_ends_early() {
    let keys = with_equal_hashes(40_000);
    let study = study(SchemeKind::HsearchDiv, &keys, &options(512, 40_000, Some(HashKind::Knuth)));
    let given_up = study.given_up.expect("n^2 / 2 exceeds the limit");
    assert!((15_000..25_000).contains(&given_up.keys), "{given_up:?}");
    assert_eq!(study.last().unwrap().keys, given_up.keys);
}

#[test]
fn a_study_stops_when_cancelled() {
    let keys = numbered(5000);
    let distinct = Distinct::of(&keys);
    let (absent, options) = (absent_keys(&distinct), options(512, 5000, None));
    let stop = || ControlFlow::Break(());
    assert_eq!(Study::run(SchemeKind::Dbm, &distinct, &absent, &(8..=8), 20, &options, &stop), None);
}

#[test]
fn absent_keys_are_absent_and_similar() {
    // Every key of one byte and the empty key are present.
    let keys: Keys = (0..=255_u8).map(|byte| vec![byte]).chain([vec![]]).collect();
    let distinct = Distinct::of(&keys);
    let absent = absent_keys(&distinct);
    assert_eq!(absent.len(), 257);
    assert!(absent.iter().all(|key| !distinct.keys().contains(&key) && key.len() <= 3));
    let words: Keys = ["alice", "bob", "alice"].into_iter().collect();
    let distinct = Distinct::of(&words);
    assert_eq!((distinct.len(), distinct.duplicates), (2, 1));
    assert_eq!(absent_keys(&distinct).iter().collect::<Vec<_>>(), [&b"alicd"[..], b"boc"]);
}

#[test]
fn historical_functions_give_known_hashes() {
    assert_eq!(Function::ByteSum.hash(b"abc"), 3 + 97 + 98 + 99);
    // (0x238F13AF + 97) * 1103515243 + 12345 in 31 bits, reversed.
    let value = ((0x238F_13AF_u64 + 97) * 1_103_515_243 + 12_345) % (1 << 31);
    assert_eq!(Function::Gdbm.hash(b"a"), (value as u32).reverse_bits() >> 1);
    let product = (4 + 4 * 97_u32).wrapping_mul(2_654_435_761);
    assert_eq!(Function::Multiplied.hash(b"aaaa"), product.reverse_bits());
}

#[test]
fn options_out_of_range_are_invalid() {
    let good = options(1024, 100, None);
    assert_eq!(good.invalid(), None);
    for bad in [
        Options { page_bytes: 63, ..good },
        Options { page_bytes: (32 << 10) + 1, ..good },
        Options { fill_factor: Some(0), ..good },
        Options { nelem: usize::MAX, ..good },
    ] {
        assert!(bad.invalid().is_some(), "{bad:?}");
    }
}
