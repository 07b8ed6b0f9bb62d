//! Tests hashes: lifetimes of fields, many fields, scans during changes.

use super::*;
use crate::keyspace::SweepCursor;
use crate::keyspace::collections::fields::{Expiry, Fields, FieldsMut};
use std::collections::BTreeMap;

/// Returns the fields of a hash with their values and lifetimes, and checks that all ways to read them agree.
fn fields_of(alone: &mut Exclusive<'_>, key: &[u8]) -> BTreeMap<Vec<u8>, (Vec<u8>, u64)> {
    let mut found = BTreeMap::new();
    let Some(hash) = Fields::open(alone, 0, key, Kind::Hash).unwrap() else { return found };
    hash.for_each_with_expiry(alone, |field, value, at_ms| {
        assert!(found.insert(field.to_vec(), (value.to_vec(), at_ms)).is_none());
        true
    })
    .unwrap();
    assert_eq!(hash.len(), found.len() as u64);
    let (mut cursor, mut scanned) = (0, 0);
    loop {
        cursor = hash
            .scan(alone, cursor, 10, |field, value| {
                assert_eq!(found[field].0, value);
                scanned += 1;
            })
            .unwrap();
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, found.len());
    match hash.random(alone).unwrap() {
        Some((field, value)) => assert_eq!(found[&field].0, value),
        None => assert!(found.is_empty()),
    }
    found
}

#[test]
fn fields_with_lifetimes_behave_like_a_map_and_leave_nothing() {
    for seed in 1..=6 {
        for (space, folder) in collection_spaces() {
            let mut random = Random(seed);
            let mut model: BTreeMap<Vec<u8>, (Vec<u8>, u64)> = BTreeMap::new();
            let (mut now_ms, mut cursor) = (START_MS, SweepCursor::default());
            // Small hashes, and large ones that become small again.
            let names = [5, 30, 400][seed as usize % 3];
            for step in 0..1200 {
                STOPPED_CLOCK.set(Some(now_ms));
                model.retain(|_, (_, at_ms)| *at_ms == 0 || *at_ms > now_ms);
                let mut alone = space.close(Patience::MayWait).unwrap();
                alone.begin();
                let field = format!("field {}", random.below(names)).into_bytes();
                let value = vec![b'v'; random.below(40) as usize];
                let kept = model.get(&field).map_or(0, |(_, at_ms)| *at_ms);
                let mut hash = FieldsMut::open(&mut alone, 0, b"hash", Kind::Hash).unwrap();
                assert_eq!(hash.expiry(&field).unwrap(), model.get(&field).map(|(_, at_ms)| *at_ms));
                match random.below(8) {
                    0 => {
                        let is_new = !model.contains_key(&field);
                        assert_eq!(hash.put_if(&field, &value, false).unwrap(), is_new);
                        model.entry(field).or_insert((value, 0));
                    }
                    1 => {
                        assert_eq!(hash.put(&field, &value).unwrap(), !model.contains_key(&field));
                        model.insert(field, (value, 0));
                    }
                    2 => {
                        hash.put_with_expiry(&field, &value, Expiry::Keep).unwrap();
                        model.insert(field, (value, kept));
                    }
                    3 => assert_eq!(hash.remove(&field).unwrap(), model.remove(&field).is_some()),
                    _ => {
                        let at_ms = now_ms + 1 + random.below(200);
                        let is_new = hash.put_with_expiry(&field, &value, Expiry::At(at_ms)).unwrap();
                        assert_eq!(is_new, !model.contains_key(&field));
                        model.insert(field, (value, at_ms));
                    }
                }
                hash.finish().unwrap();
                alone.commit().unwrap();
                assert_eq!(fields_of(&mut alone, b"hash"), model, "seed {seed}, step {step}");
                if random.below(20) == 0 {
                    alone.begin();
                    alone.copy((0, b"hash"), (0, b"copy")).unwrap();
                    alone.rename(0, b"copy", b"renamed").unwrap();
                    alone.commit().unwrap();
                    if !model.is_empty() {
                        assert_eq!(fields_of(&mut alone, b"renamed"), model);
                    }
                }
                drop(alone);
                now_ms += random.below(4);
                if random.below(300) == 0 {
                    now_ms += 150;
                }
                if random.below(30) == 0 {
                    space.sweep(&mut cursor, 1000, || true).unwrap();
                }
            }
            // All that is left has a lifetime or not; then nothing.
            STOPPED_CLOCK.set(Some(now_ms + 1000));
            model.retain(|_, (_, at_ms)| *at_ms == 0);
            assert_eq!(fields_of(&mut space.close(Patience::MayWait).unwrap(), b"hash"), model);
            space.sweep(&mut cursor, 1000, || true).unwrap();
            space.sweep(&mut cursor, 1000, || true).unwrap();
            assert!(!space.databases[0].fields_may_expire.load(Relaxed), "no lifetime is left");
            let mut alone = space.close(Patience::MayWait).unwrap();
            assert_eq!(fields_of(&mut alone, b"hash"), model);
            assert_eq!(alone.contains(0, b"hash").unwrap(), !model.is_empty());
            alone.remove(0, b"hash").unwrap();
            alone.remove(0, b"renamed").unwrap();
            drop(alone);
            space.sweep_segments(|| true).unwrap();
            assert_eq!((space.len(0), hidden_pairs(&space)), (0, 0), "seed {seed}, file {}", folder.is_some());
        }
    }
}

#[test]
fn a_sweep_removes_expired_fields_in_steps_and_the_key_with_the_last() {
    const FIELDS: u32 = 20_000;
    for (space, _folder) in collection_spaces() {
        STOPPED_CLOCK.set(Some(START_MS));
        let mut alone = space.close(Patience::MayWait).unwrap();
        for key in [b"all".as_slice(), b"most"] {
            alone.begin();
            let mut hash = FieldsMut::open(&mut alone, 0, key, Kind::Hash).unwrap();
            for number in 0..FIELDS {
                let at_ms = START_MS + 1 + u64::from(number % 5);
                hash.put_with_expiry(&number.to_le_bytes(), b"value", Expiry::At(at_ms)).unwrap();
            }
            hash.finish().unwrap();
            alone.commit().unwrap();
        }
        let mut hash = FieldsMut::open(&mut alone, 0, b"most", Kind::Hash).unwrap();
        hash.put(b"left", b"value").unwrap();
        hash.finish().unwrap();
        drop(alone);
        STOPPED_CLOCK.set(Some(START_MS + 3));
        let (mut cursor, mut steps) = (SweepCursor::default(), 0);
        let mut alone = space.close(Patience::MayWait).unwrap();
        let before = Fields::open(&mut alone, 0, b"all", Kind::Hash).unwrap().unwrap();
        assert_eq!(before.len(), u64::from(FIELDS / 5 * 2), "those that have expired are absent before the sweep");
        drop(alone);
        space
            .sweep(&mut cursor, usize::MAX, || {
                steps += 1;
                true
            })
            .unwrap();
        assert!(steps > 50, "{steps}: other clients enter between the steps");
        STOPPED_CLOCK.set(Some(START_MS + 5));
        space.sweep(&mut cursor, usize::MAX, || true).unwrap();
        assert_eq!(space.len(0), 1, "without a reader");
        let mut alone = space.close(Patience::MayWait).unwrap();
        assert_eq!(fields_of(&mut alone, b"most").len(), 1);
        alone.remove(0, b"most").unwrap();
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!((space.len(0), hidden_pairs(&space)), (0, 0));
    }
}

#[test]
fn lifetimes_of_fields_survive_a_restart_and_a_hash_without_any_is_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    STOPPED_CLOCK.set(Some(START_MS));
    let mut plain = Vec::new();
    for (fields, is_second) in [(3u32, false), (300, false), (3, true), (300, true)] {
        let space = in_file(&path).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        let key = fields.to_le_bytes();
        if is_second {
            let mut expected = BTreeMap::new();
            for number in 0..fields {
                let at_ms = if number % 2 == 0 { 0 } else { START_MS + u64::from(number) };
                expected.insert(number.to_le_bytes().to_vec(), (b"value".to_vec(), at_ms));
            }
            assert_eq!(fields_of(&mut alone, &key), expected);
        }
        alone.begin();
        let mut hash = FieldsMut::open(&mut alone, 0, &key, Kind::Hash).unwrap();
        for number in 0..fields {
            hash.put(&number.to_le_bytes(), b"value").unwrap();
        }
        hash.finish().unwrap();
        alone.commit().unwrap();
        let mut value = Vec::new();
        alone.name(0, &key, Kind::Hash, &mut value).unwrap();
        if is_second {
            // Small hashes are as if no field ever had a lifetime; large ones keep an empty tree.
            assert!(fields > 3 || value == plain[0]);
            continue;
        }
        plain.push(value);
        alone.begin();
        let mut hash = FieldsMut::open(&mut alone, 0, &key, Kind::Hash).unwrap();
        for number in (1..fields).step_by(2) {
            hash.put_with_expiry(&number.to_le_bytes(), b"value", Expiry::At(START_MS + u64::from(number))).unwrap();
        }
        hash.finish().unwrap();
        alone.commit().unwrap();
    }
    let mut small = vec![0];
    (0..3u32).for_each(|number| small.extend([&[4][..], &number.to_le_bytes(), &[5], b"value"].concat()));
    assert_eq!(plain[0], small, "a hash without lifetimes has no byte for them");
}

#[test]
fn a_hash_of_a_million_fields_is_one_key_and_its_removal_leaves_nothing() {
    const FIELDS: u64 = 1_000_000;
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        for first in (0..FIELDS).step_by(10_000) {
            alone.begin();
            let mut hash = FieldsMut::open(&mut alone, 0, b"hash", Kind::Hash).unwrap();
            for number in first..first + 10_000 {
                assert!(hash.put(&number.to_le_bytes(), &number.to_be_bytes()).unwrap());
            }
            assert!(hash.finish().unwrap());
            alone.commit().unwrap();
        }
        assert_eq!(space.len(0), 1);
        assert_eq!(space.random_key(0).unwrap().as_deref(), Some(&b"hash"[..]));
        assert!(hidden_pairs(&space) < FIELDS / 8, "a segment has many fields");
        let hash = Fields::open(&mut alone, 0, b"hash", Kind::Hash).unwrap().unwrap();
        assert_eq!(hash.len(), FIELDS);
        let mut value = Vec::new();
        for number in (0..FIELDS + 10).step_by(997) {
            let found = hash.get(&mut alone, &number.to_le_bytes(), &mut value).unwrap();
            assert_eq!(found.then_some(value.as_slice()), (number < FIELDS).then_some(&number.to_be_bytes()[..]));
        }
        let (mut cursor, mut seen) = (0, vec![false; FIELDS as usize]);
        loop {
            cursor = hash
                .scan(&mut alone, cursor, 1000, |field, _| {
                    let number = u64::from_le_bytes(field.try_into().unwrap()) as usize;
                    assert!(!std::mem::replace(&mut seen[number], true));
                })
                .unwrap();
            if cursor == 0 {
                break;
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        assert!(alone.remove(0, b"hash").unwrap());
        assert_eq!(space.len(0), 0);
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!(hidden_pairs(&space), 0);
    }
}

#[test]
fn a_field_that_stays_comes_exactly_once_while_segments_split_and_merge() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        let stays: Vec<_> = (0..500).map(|number| format!("stays {number}").into_bytes()).collect();
        let change = |alone: &mut Exclusive<'_>, numbers: std::ops::Range<u32>, adds: bool| {
            let mut set = FieldsMut::open(alone, 0, b"set", Kind::Set).unwrap();
            for number in numbers {
                let member = number.to_le_bytes();
                let _ = if adds { set.put(&member, b"") } else { set.remove(&member) }.unwrap();
            }
            set.finish().unwrap();
        };
        let mut set = FieldsMut::open(&mut alone, 0, b"set", Kind::Set).unwrap();
        stays.iter().for_each(|member| assert!(set.put(member, b"").unwrap()));
        set.finish().unwrap();
        for adds in [true, false] {
            let (mut cursor, mut seen, mut step) = (0, std::collections::HashMap::new(), 0);
            loop {
                let set = Fields::open(&mut alone, 0, b"set", Kind::Set).unwrap().unwrap();
                cursor = set
                    .scan(&mut alone, cursor, 10, |member, _| *seen.entry(member.to_vec()).or_insert(0) += 1)
                    .unwrap();
                if cursor == 0 {
                    break;
                }
                if step < 40 {
                    change(&mut alone, step * 500..(step + 1) * 500, adds);
                }
                step += 1;
            }
            assert!(step > 20 && stays.iter().all(|member| seen.get(member) == Some(&1)));
        }
    }
}

#[test]
fn a_field_of_a_large_hash_that_gets_a_value_of_the_same_length_is_written_without_the_key() {
    let space = in_memory();
    let mut alone = space.close(Patience::MayWait).unwrap();
    let mut put = |field: u32, value: &[u8]| {
        let mut hash = FieldsMut::open(&mut alone, 0, b"hash", Kind::Hash).unwrap();
        hash.put(&field.to_le_bytes(), value).unwrap();
        assert!(hash.finish().unwrap());
    };
    (0..1000).for_each(|field| put(field, b"1"));
    let keys = space.databases[0].table.load_full().unwrap();
    let writes = || keys.counters().puts;
    let before = writes();
    (0..1000).for_each(|field| put(field, b"2"));
    assert_eq!(writes(), before);
    put(7, b"22");
    assert_eq!(writes(), before + 1);
    let hash = Fields::open(&mut alone, 0, b"hash", Kind::Hash).unwrap().unwrap();
    let mut value = Vec::new();
    for (field, expected) in [(6u32, b"2".as_slice()), (7, b"22")] {
        assert!(hash.get(&mut alone, &field.to_le_bytes(), &mut value).unwrap());
        assert_eq!(value, expected);
    }
}

#[test]
fn a_hash_that_loses_its_fields_keeps_few_segments() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.begin();
        let mut hash = FieldsMut::open(&mut alone, 0, b"hash", Kind::Hash).unwrap();
        for number in 0..4000u32 {
            hash.put(&number.to_le_bytes(), &[7; 1100]).unwrap();
        }
        for number in 10..4000u32 {
            assert!(hash.remove(&number.to_le_bytes()).unwrap());
        }
        hash.finish().unwrap();
        alone.commit().unwrap();
        let mut value = Vec::new();
        alone.get_any(0, b"hash", &mut value).unwrap();
        let (_, segments) = super::collections::shape::segments_of(Kind::Hash, &value).unwrap().unwrap();
        assert!(segments[0].end <= 40, "{segments:?} for 10 fields");
    }
}
