//! Sorted sets against maps of what they should have, and damaged ones.

use super::*;
use crate::keyspace::pairs::PairsMut;
use crate::keyspace::tests::{Random, collection_spaces};
use crate::keyspace::{Exclusive, Lifetime, Patience};
use std::collections::HashMap;

/// Returns the elements of the tree, and checks that scores and ranks agree with it.
fn checked(alone: &mut Exclusive<'_>, key: &[u8]) -> Vec<Element> {
    let Some(set) = SortedSet::open(alone, 0, key).unwrap() else { return Vec::new() };
    let mut found = Vec::new();
    set.for_range(alone, 0..u64::MAX, false, |member, score| {
        found.push((member.to_vec(), score));
        true
    })
    .unwrap();
    assert_eq!(found.len() as u64, set.len());
    assert!(found.windows(2).all(|pair| compare(&pair[0], &pair[1]) == Ordering::Less));
    let mut reverse = Vec::new();
    set.for_range(alone, 0..u64::MAX, true, |member, score| {
        reverse.push((member.to_vec(), score));
        true
    })
    .unwrap();
    reverse.reverse();
    assert_eq!(reverse, found);
    for (rank, (member, score)) in (0..).zip(&found) {
        assert_eq!(set.score(alone, member).unwrap(), Some(*score));
        assert_eq!(set.rank(alone, member, *score).unwrap(), rank);
    }
    let mut scanned = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(alone, cursor, 10, |member, score| scanned.push((member.to_vec(), score))).unwrap();
        if cursor == 0 {
            break;
        }
    }
    scanned.sort_by(compare);
    assert_eq!(scanned, found);
    found
}

fn add(set: &mut SortedSetMut<'_, '_>, member: &[u8], score: f64) {
    let before = set.score(member).unwrap();
    set.put(member, before, score).unwrap();
}

#[test]
fn a_range_that_is_removed_changes_each_segment_once() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        let model: Vec<Element> =
            (0..20_000).map(|number| (format!("member {number}").into_bytes(), f64::from(number))).collect();
        alone.begin();
        let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
        set.fill(&model).unwrap();
        set.finish().unwrap();
        alone.commit().unwrap();
        let changes = || -> u64 {
            space.tables().map(|table| table.counters()).map(|counters| counters.puts + counters.removals).sum()
        };
        let before = changes();
        alone.begin();
        let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
        assert_eq!(set.remove_range(300..19_700).unwrap(), 19_400);
        set.finish().unwrap();
        alone.commit().unwrap();
        assert!(changes() - before < 19_400 / 4, "{} changes", changes() - before);
        assert!(checked(&mut alone, b"set") == [&model[..300], &model[19_700..]].concat());
    }
}

#[test]
fn a_sorted_set_is_a_sorted_map_whatever_is_done_to_it() {
    for seed in 1..=6 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 >> seed);
        let (space, _folder) = collection_spaces().swap_remove((seed % 2) as usize);
        let mut alone = space.close(Patience::MayWait).unwrap();
        let mut model: HashMap<Vec<u8>, f64> = HashMap::new();
        // Some members are long, and some share a long prefix.
        let member = |random: &mut Random| match random.below(30) {
            0 if seed > 2 => vec![b'x'; random.below(3000) as usize],
            1 if seed > 4 => [vec![b'y'; 1500], random.below(50).to_be_bytes().to_vec()].concat(),
            _ => format!("{}", random.below(1500)).into_bytes(),
        };
        for step in 0..120 {
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            for _ in 0..random.below(1 + 60 * (step % 7)) {
                match random.below(10 + step % 20) {
                    0..7 => {
                        let (member, score) = (member(&mut random), random.below(20) as f64 - 10.0);
                        add(&mut set, &member, score);
                        model.insert(member, score);
                    }
                    7 if !model.is_empty() => {
                        let start = random.below(model.len() as u64);
                        let end = (start + 1 + random.below(50)).min(model.len() as u64);
                        let mut all: Vec<Element> = model.drain().collect();
                        all.sort_by(compare);
                        all.drain(start as usize..end as usize);
                        model.extend(all);
                        assert_eq!(set.remove_range(start..end).unwrap(), end - start);
                    }
                    8 if random.below(30) == 0 => {
                        set.clear().unwrap();
                        model.clear();
                    }
                    _ => {
                        let member = member(&mut random);
                        assert_eq!(set.remove(&member).unwrap(), model.remove(&member).is_some());
                    }
                }
                assert_eq!(set.len(), model.len() as u64);
            }
            set.finish().unwrap();
            alone.commit().unwrap();
            let mut expected: Vec<Element> = model.clone().into_iter().collect();
            expected.sort_by(compare);
            assert!(checked(&mut alone, b"set") == expected, "seed {seed}, step {step}");
        }
        alone.begin();
        let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
        for member in model.keys() {
            assert!(set.remove(member).unwrap());
        }
        assert_eq!(set.finish().unwrap(), 0);
        alone.commit().unwrap();
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        let alone = space.close(Patience::MayWait).unwrap();
        assert_eq!(alone.counts(0).segments, 0, "nothing is left");
    }
}

#[test]
fn a_sorted_set_that_is_filled_is_a_sorted_map_and_writes_each_segment_once() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..40u64 {
        let (space, _folder) = collection_spaces().swap_remove((round % 2) as usize);
        let mut alone = space.close(Patience::MayWait).unwrap();
        let long = [0, 0, 400, 3000][(round / 2 % 4) as usize];
        let mut model: Vec<Element> = (0..[0, 1, 20, 130, 700, 9000][random.below(6) as usize])
            .map(|number| {
                let member = [vec![b'x'; random.below(1 + long) as usize], format!("{number}").into_bytes()].concat();
                (member, random.below([1, 20, 1 << 30][(round % 3) as usize]) as f64)
            })
            .collect();
        alone.begin();
        let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
        set.fill(&model).unwrap();
        assert_eq!(set.finish().unwrap(), model.len() as u64);
        alone.commit().unwrap();
        let puts: u64 = space.tables().map(|table| table.counters().puts).sum();
        assert!(puts <= alone.counts(0).segments + 10, "{puts} puts for {} members", model.len());
        model.sort_by(compare);
        assert!(checked(&mut alone, b"set") == model, "round {round}");
        // It can then be changed like any other.
        alone.begin();
        let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
        for number in 0..500 {
            let member = format!("new {number}").into_bytes();
            let score = random.below(1000) as f64;
            add(&mut set, &member, score);
            model.push((member, score));
            let at = random.below(model.len() as u64) as usize;
            assert!(set.remove(&model.swap_remove(at).0).unwrap());
        }
        set.finish().unwrap();
        alone.commit().unwrap();
        model.sort_by(compare);
        assert!(checked(&mut alone, b"set") == model, "round {round}");
        alone.remove(0, b"set").unwrap();
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!(space.close(Patience::MayWait).unwrap().counts(0).segments, 0, "nothing is left");
    }
}

#[test]
fn a_sorted_set_of_a_million_members_is_one_key_and_its_removal_leaves_nothing() {
    for ((space, _folder), members) in collection_spaces().into_iter().zip([1_000_000_u64, 100_000]) {
        let mut alone = space.close(Patience::MayWait).unwrap();
        // In an order that is neither that of the scores nor its reverse.
        for first in (0..members).step_by(10_000) {
            alone.begin();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            for number in first..first + 10_000 {
                let score = number * 7919 % members;
                set.put(format!("member {number}").as_bytes(), None, score as f64).unwrap();
            }
            set.finish().unwrap();
            alone.commit().unwrap();
        }
        assert_eq!(space.len(0), 1);
        let set = SortedSet::open(&mut alone, 0, b"set").unwrap().unwrap();
        let Form::Large(large) = &set.form else { panic!("a large set has segments") };
        assert!(large.tree.height <= 5, "{:?}", large.tree);
        for number in (0..members).step_by(9973) {
            let (member, score) = (format!("member {number}"), (number * 7919 % members) as f64);
            assert_eq!(set.score(&mut alone, member.as_bytes()).unwrap(), Some(score));
            assert_eq!(set.rank(&mut alone, member.as_bytes(), score).unwrap() as f64, score);
        }
        let mut next = 50_000;
        set.for_range(&mut alone, 50_000..50_100, false, |_, score| {
            assert_eq!(score, f64::from(next));
            next += 1;
            true
        })
        .unwrap();
        assert_eq!(next, 50_100);
        assert!(alone.remove(0, b"set").unwrap());
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!(space.close(Patience::MayWait).unwrap().counts(0).segments, 0);
    }
}

#[test]
fn a_sorted_set_goes_with_its_key_and_is_copied_with_it() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.begin();
        let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
        (0..3000u32).for_each(|number| add(&mut set, &number.to_be_bytes(), f64::from(number % 100)));
        set.finish().unwrap();
        alone.commit().unwrap();
        let all = checked(&mut alone, b"set");
        alone.begin();
        alone.copy((0, b"set"), (0, b"copy")).unwrap();
        alone.commit().unwrap();
        alone.rename(0, b"set", b"renamed").unwrap();
        alone.put(0, b"renamed", b"string", Lifetime::Clear).unwrap();
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        assert!(checked(&mut alone, b"copy") == all);
        assert!(alone.remove(0, b"copy").unwrap());
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!(space.close(Patience::MayWait).unwrap().counts(0).segments, 0);
    }
}

#[test]
fn a_damaged_sorted_set_gives_values_or_errors() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (space, _folder) = collection_spaces().swap_remove(0);
    let mut errors = 0;
    for round in 0..3000u64 {
        let mut alone = space.close(Patience::MayWait).unwrap();
        if round % 50 == 0 {
            alone.remove(0, b"set").unwrap();
            let mut set = SortedSetMut::open(&mut alone, 0, b"set").unwrap();
            (0..1500u32).for_each(|number| add(&mut set, &number.to_be_bytes(), f64::from(number % 100)));
            // Free nodes, too.
            set.remove_range(100..700).unwrap();
            set.finish().unwrap();
        }
        let mut value = Vec::new();
        let attributes = alone.get_any(0, b"set", &mut value).unwrap();
        let numbers = LargeSorted::decode(&value).ok().flatten();
        if let (Some(attributes), true) = (attributes, round % 5 == 0) {
            let at = random.below(value.len() as u64) as usize;
            value[at] = random.below(256) as u8;
            alone.put_collection(0, b"set", Some((attributes, &value))).unwrap();
        } else if let Some(LargeSorted { scores, tree }) = numbers {
            let base = if random.below(4) == 0 { 0 } else { crate::keyspace::collections::shape::NODES };
            let nodes = if base == 0 { scores.segments } else { tree.nodes }.clamp(1, 200);
            let (number, mut node) = (base + random.below(nodes), Vec::new());
            let was_there = alone.read_segment(0, scores.id, number, &mut node).unwrap();
            match random.below(6) {
                0 => node.truncate(random.below(node.len() as u64 + 1) as usize),
                // Another node of the tree: a cycle, or a child of two parents.
                1 => drop(alone.read_segment(0, scores.id, base + random.below(nodes), &mut node).unwrap()),
                2 if node.len() > 1 => node[0] = [0, 1, 2, 255][random.below(4) as usize],
                _ if !node.is_empty() => {
                    let at = random.below(node.len() as u64) as usize;
                    node[at] = random.below(256) as u8;
                }
                _ => {}
            }
            alone.put_segment(0, (scores.id, number), was_there, Some(&node)).unwrap();
        }
        // Every operation ends, and none panics.
        let mut try_all = || -> Result<()> {
            if let Some(set) = SortedSet::open(&mut alone, 0, b"set")? {
                let mut seen = 0u64;
                set.for_range(&mut alone, 0..u64::MAX, round % 2 == 0, |_, _| {
                    seen += 1;
                    true
                })?;
                assert!(seen < 1_000_000);
                set.count_before(&mut alone, |score, _| score < 50.0)?;
                set.random(&mut alone)?;
                set.scan(&mut alone, 0, 100, |_, _| {})?;
            }
            let mut set = SortedSetMut::open(&mut alone, 0, b"set")?;
            for number in 0..20 {
                let member = (random.below(1500) as u32).to_be_bytes();
                let before = set.score(&member)?;
                set.put(&member, before, f64::from(number))?;
                set.remove(&(random.below(1500) as u32).to_be_bytes())?;
                let rank = random.below(1000);
                set.remove_range(rank..rank + random.below(40))?;
            }
            set.finish().map(drop)
        };
        errors += u32::from(try_all().is_err());
    }
    assert!(errors > 500, "{errors}");
}
