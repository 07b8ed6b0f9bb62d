//! Studies of small sets of keys, against plain counts.

use super::*;
use std::convert::Infallible;

fn study(functions: &[HashKind]) -> Study {
    let functions = functions.iter().map(|kind| HashFunction::new(*kind, 0)).collect();
    Study { functions, speed: false, threads: 2, ..Study::default() }
}

fn run(study: &Study, keys: &Keys) -> Report {
    study
        .run(&mut |take| {
            keys.iter().for_each(take);
            Ok::<(), Infallible>(())
        })
        .expect("keys in memory can be read")
}

fn numbers(count: u64) -> Keys {
    (0..count).map(u64::to_le_bytes).collect()
}

/// Bucket sizes by a plain count.
fn sizes(function: &HashFunction, buckets: u64, keys: &Keys) -> Vec<u64> {
    let mut sizes = vec![0; buckets as usize];
    keys.iter().for_each(|key| sizes[(function.hash(key) % buckets) as usize] += 1);
    sizes
}

#[test]
fn every_functions_figures_match_a_plain_count() {
    let keys = numbers(50_000);
    let all = Study { speed: false, ..Study::default() };
    for (buckets, count) in [(Buckets::Auto, 65_536), (Buckets::Bits(10), 1024), (Buckets::Count(1000), 1000)] {
        let report = run(&Study { buckets, ..all.clone() }, &keys);
        assert_eq!(report.functions.len(), HashKind::ALL.len());
        for found in &report.functions {
            let sizes = sizes(&found.function, count, &keys);
            let level = found.level();
            assert_eq!((level.buckets, level.objects), (count, 50_000));
            assert_eq!(level.largest, *sizes.iter().max().unwrap(), "{}", found.function.name());
            assert_eq!(level.empty, sizes.iter().filter(|size| **size == 0).count() as u64);
            let probes: u64 = sizes.iter().map(|size| size * (size + 1) / 2).sum();
            assert!((level.compared_successful - probes as f64 / 50_000.0).abs() < 1e-9);
            for row in &level.histogram {
                assert_eq!(row.buckets, sizes.iter().filter(|size| **size == row.size).count() as u64);
            }
        }
    }
}

#[test]
fn a_smaller_level_equals_a_study_of_that_size() {
    let keys = numbers(20_000);
    let large = run(&study(&[HashKind::Djb2]), &keys);
    assert_eq!(large.functions[0].levels.len(), 6);
    for level in &large.functions[0].levels {
        let asked = Study { buckets: Buckets::Bits(level.buckets.ilog2()), ..study(&[HashKind::Djb2]) };
        assert_eq!(run(&asked, &keys).functions[0].level(), level);
    }
}

#[test]
fn a_study_does_not_depend_on_threads_or_memory() {
    let keys = numbers(30_000);
    let all = Study { speed: false, ..Study::default() };
    let wide = format!("{:?}", run(&all, &keys));
    // Memory for one function at a time.
    let narrow = Study { threads: 1, memory_bytes: 50_000, ..all };
    assert_eq!(format!("{:?}", run(&narrow, &keys)), wide);
}

#[test]
fn good_functions_are_as_random_and_the_length_of_a_key_is_bad() {
    let keys = numbers(100_000);
    let mut study = study(&[HashKind::Sip13, HashKind::Xxh3, HashKind::Murmur3]);
    study.functions.push(HashFunction::user("first byte", |key| key[0].into()));
    study.functions.push(HashFunction::user("length", |key| key.len() as u64));
    let report = run(&study, &keys);
    for good in &report.functions[..3] {
        assert_eq!(good.class, Class::AsRandom, "{}", good.function.name());
        assert!(good.level().p_value > 1e-4 && good.level().p_value < 1.0 - 1e-4, "{}", good.level().p_value);
    }
    let (byte, length) = (&report.functions[3], &report.functions[4]);
    assert_eq!((byte.function.name(), byte.class), ("first byte", Class::Bad));
    assert_eq!(length.level().largest, 100_000);
    assert_eq!(length.level().p_value, 0.0);
    assert_eq!(length.largest_keys.len(), study.keys_shown);
    assert_eq!(length.largest_keys[3], 3u64.to_le_bytes());
    assert!(report.advice.text.contains("Avoid first byte"), "{}", report.advice.text);
}

#[test]
fn consecutive_numbers_are_even_by_their_low_bits_and_bad_by_their_high_bits() {
    let mut study = study(&[HashKind::Xxh3]);
    let number = |key: &[u8]| u64::from_le_bytes(key.try_into().expect("8 bytes"));
    study.functions.push(HashFunction::user("low bits", number));
    study.functions.push(HashFunction::user("without low bits", move |key| number(key) >> 8));
    let report = run(&study, &numbers(100_000));
    let classes: Vec<_> = report.functions.iter().map(|found| (found.function.name(), found.class)).collect();
    assert_eq!(classes, [("xxh3", Class::AsRandom), ("low bits", Class::Even), ("without low bits", Class::Bad)]);
}

#[test]
fn largest_keys_are_those_of_the_largest_bucket() {
    let keys: Keys = ["a", "b", "c", "cc", "dd", "eee"].into_iter().collect();
    let mut study = study(&[]);
    study.functions.push(HashFunction::user("length", |key| key.len() as u64));
    let report = run(&study, &keys);
    assert_eq!(report.functions[0].largest_keys, [b"a", b"b", b"c"]);
}

#[test]
fn duplicates_count_once() {
    let keys: Keys = (0..10_000u64).map(|key| (key % 1000).to_le_bytes()).collect();
    let report = run(&study(&[HashKind::Xxh3]), &keys);
    assert_eq!(report.survey.duplicates, Duplicates::LeftOut(9000));
    assert_eq!(report.functions[0].level(), run(&study(&[HashKind::Xxh3]), &numbers(1000)).functions[0].level());
}

#[test]
fn no_keys_unreadable_keys_and_too_many_buckets_are_errors() {
    let study = study(&[HashKind::Xxh3]);
    let none = study.run(&mut |_| Ok::<(), Infallible>(()));
    assert!(matches!(none, Err(StudyError::NoKeys)));
    let unread = study.run(&mut |_| Err("no such file"));
    assert!(matches!(unread, Err(StudyError::Keys("no such file"))));
    let large = Study { buckets: Buckets::Bits(40), ..study };
    let large = large.run(&mut |take| {
        take(b"key");
        Ok::<(), Infallible>(())
    });
    assert!(matches!(large, Err(StudyError::TooManyBuckets { buckets: 0x100_0000_0000, .. })));
}

#[test]
fn an_error_on_a_later_pass_ends_the_study() {
    let mut passes = 0;
    let result = study(&[HashKind::Xxh3]).run(&mut |take| {
        passes += 1;
        take(b"key");
        if passes == 2 { Err("gone") } else { Ok(()) }
    });
    assert!(matches!(result, Err(StudyError::Keys("gone"))));
}

#[test]
fn of_two_equally_even_functions_the_faster_ranks_first() {
    let mut study = study(&[HashKind::Xxh3]);
    study
        .functions
        .insert(0, HashFunction::user("slow", |key| (0..200).fold(0, |seed, _| HashKind::Xxh3.hash(key, seed))));
    study.speed = true;
    let report = run(&study, &numbers(5000));
    assert_eq!(report.advice.function, "xxh3");
}
