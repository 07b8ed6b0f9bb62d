//! Compares studies of small sets of keys with plain counts.

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

/// Returns the bucket sizes by a plain count.
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

/// Two keys share one of eight buckets in an eighth of all cases.
#[test]
fn of_two_keys_nothing_is_said() {
    for seed in 0..200u64 {
        let keys: Keys = [seed.to_le_bytes(), (seed + 1000).to_le_bytes()].iter().collect();
        let report = run(&Study { speed: false, ..Study::default() }, &keys);
        assert!(report.functions.iter().all(|found| found.class == Class::TooFew), "seed {seed}");
        assert!(report.advice.text.contains("too few to say"), "{}", report.advice.text);
        assert!(!report.advice.text.contains("Avoid"), "{}", report.advice.text);
    }
}

/// Chi-square, which does not apply, gave p < 0.001 in 4.5 % of these.
#[test]
fn few_keys_in_many_buckets_are_rarely_significant() {
    let mut significant = 0;
    for seed in 0..300 {
        let keys: Keys = (0..300u64).map(|key| (seed << 32 | key).to_le_bytes()).collect();
        let level = Study { buckets: Buckets::Bits(14), ..study(&[HashKind::Sip13]) };
        let level = &run(&level, &keys).functions[0].levels[0];
        significant += u32::from(level.p_value < 0.01);
    }
    assert!(significant <= 9, "{significant} of 300 below 0.01");
}

#[test]
fn a_function_is_not_ranked_by_what_noise_covers() {
    let kinds = [HashKind::Xxh3, HashKind::Rapid, HashKind::Sip13, HashKind::Murmur3];
    let mut functions = run(&study(&kinds), &numbers(5000)).functions;
    let times = [(3.0, (2.5, 4.0)), (2.0, (1.9, 2.6)), (9.0, (8.0, 9.5)), (8.5, (8.4, 8.9))];
    for (report, (own_ns, own_spread_ns)) in functions.iter_mut().zip(times) {
        report.speed = Some(Speed { own_ns, own_spread_ns, by_length: Vec::new() });
    }
    let survey = Survey { rows: 5000, ..Survey::default() };
    for _ in 0..2 {
        advice::rank(&mut functions);
        let order: Vec<_> = functions.iter().map(|report| report.function.kind()).collect();
        assert_eq!(order, [HashKind::Xxh3, HashKind::Rapid, HashKind::Sip13, HashKind::Murmur3]);
    }
    let text = advice::advise(&survey, &functions).text;
    assert!(text.contains("The times of xxh3 and rapidhash differ by no more than noise."), "{text}");
    // A function that is slower beyond noise comes later, whatever the previous order.
    functions.swap(0, 3);
    advice::rank(&mut functions);
    assert!(functions[..2].iter().all(|report| report.speed.as_ref().is_some_and(|speed| speed.own_ns < 4.0)));
}

#[test]
fn repeated_keys_do_not_change_the_avalanche() {
    let once: Keys = (0..500u64).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect();
    let often: Keys = (0..10_000).map(|row| once.get(row % 500).unwrap().to_vec()).collect();
    let avalanche = |keys: &Keys| run(&study(&[HashKind::Xxh3]), keys).functions[0].avalanche.clone();
    assert!(avalanche(&once).is_some());
    assert_eq!(avalanche(&often), avalanche(&once));
    // Sixty-three keys are too few to judge, however often they are read.
    let few: Keys = (0..10_000u64).map(|row| (row % 63).to_le_bytes()).collect();
    assert_eq!(avalanche(&few), None);
}
