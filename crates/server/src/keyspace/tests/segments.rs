//! Tests lists and sets, and that segments are removed with their keys.

use super::*;
use crate::keyspace::SweepCursor;
use crate::keyspace::collections::fields::{Fields, FieldsMut};
use crate::keyspace::collections::list::{End, List, ListMut};
use crate::keyspace::collections::sorted::SortedSet;

#[test]
fn a_set_that_is_filled_writes_each_segment_once() {
    for (count, long) in [(0u64, 0), (1, 0), (100, 0), (400, 0), (20_000, 0), (3, 2000), (100, 2000)] {
        for (space, _folder) in collection_spaces() {
            let mut alone = space.close(Patience::MayWait).unwrap();
            let mut members: Vec<Vec<u8>> =
                (0..count).map(|number| [vec![b'x'; long], number.to_string().into_bytes()].concat()).collect();
            alone.begin();
            let mut set = FieldsMut::open(&mut alone, 0, b"set", Kind::Set).unwrap();
            set.fill(&members).unwrap();
            assert_eq!(set.finish().unwrap(), count > 0);
            alone.commit().unwrap();
            let puts: u64 = space.tables().map(|table| table.counters().puts).sum();
            assert!(puts <= alone.counts(0).segments + 10, "{puts} puts for {count} members");
            let encoding = Fields::open(&mut alone, 0, b"set", Kind::Set).unwrap().map(|set| set.encoding());
            let expected = if long > 0 || count > 512 { "hashtable" } else { "intset" };
            assert_eq!(encoding, (count > 0).then_some(expected));
            // It can then be changed like any other.
            alone.begin();
            let mut set = FieldsMut::open(&mut alone, 0, b"set", Kind::Set).unwrap();
            for number in 0..600u64 {
                let member = format!("new {number}").into_bytes();
                assert!(set.put(&member, b"").unwrap());
                members.push(member);
                if number % 3 == 0 {
                    assert!(set.remove(&members.swap_remove((number * 7919) as usize % members.len())).unwrap());
                }
            }
            set.finish().unwrap();
            alone.commit().unwrap();
            let (mut found, set) = (Vec::new(), Fields::open(&mut alone, 0, b"set", Kind::Set).unwrap().unwrap());
            set.for_each(&mut alone, |member, _| {
                found.push(member.to_vec());
                true
            })
            .unwrap();
            found.sort();
            members.sort();
            assert!(found == members);
        }
    }
}

#[test]
fn a_collection_goes_with_its_key_however_the_key_goes() {
    let fill = |alone: &mut Exclusive<'_>, key: &[u8]| {
        let mut list = ListMut::open(alone, 0, key).unwrap();
        (0..2000).for_each(|number| list.push(End::Right, format!("element {number}").as_bytes()).unwrap());
        assert_eq!(list.finish().unwrap(), 2000);
    };
    for (space, _folder) in collection_spaces() {
        for way in 0..8 {
            let mut alone = space.close(Patience::MayWait).unwrap();
            alone.remove(0, b"list").unwrap();
            fill(&mut alone, b"list");
            assert!(hidden_pairs(&space) > 20);
            let mut shared = None;
            match way {
                0 => assert!(alone.remove(0, b"list").unwrap()),
                1 => alone.put(0, b"list", b"1", Lifetime::Clear).unwrap(),
                2 => assert_eq!(alone.put_many(0, &[(b"list", b"1")], |_| Attributes::NONE).0, 1),
                3 => {
                    alone.put(0, b"string", b"1", Lifetime::Clear).unwrap();
                    alone.rename(0, b"string", b"list").unwrap();
                }
                4 | 7 => {
                    let over = Attributes { kind: Kind::List, ..Attributes::expiring(1) };
                    assert!(alone.set_attributes(0, b"list", over).unwrap());
                    // Otherwise the sweep finds it.
                    assert!(way == 7 || !alone.contains(0, b"list").unwrap());
                }
                5 => {
                    // A run of SETs or DELs leaves it to exclusive entry.
                    drop(alone);
                    shared = space.share(Patience::MayWait);
                    let entry = shared.as_ref().unwrap();
                    let pairs: [(&[u8], &[u8]); 3] = [(b"before", b"1"), (b"list", b"1"), (b"after", b"1")];
                    assert_eq!(entry.put_many(0, &pairs, |_| Attributes::NONE).0, 1);
                    assert_eq!(entry.put_many(0, &pairs[1..], |_| Attributes::NONE).0, 0);
                    let mut removed = 0;
                    entry.remove_many(0, &[b"list"], |_, _| removed += 1).unwrap();
                    assert_eq!(removed, 0);
                    shared = None;
                    alone = space.close(Patience::MayWait).unwrap();
                    alone.copy((0, b"list"), (1, b"copy")).unwrap();
                    alone.flush(0).unwrap();
                    let copy = List::open(&mut alone, 1, b"copy").unwrap().unwrap();
                    let mut count = 0;
                    copy.for_range(&mut alone, 0..u64::MAX, |index, element| {
                        count += u64::from(element == format!("element {index}").as_bytes());
                        true
                    })
                    .unwrap();
                    assert_eq!(count, 2000);
                }
                _ => {
                    let mut list = ListMut::open(&mut alone, 0, b"list").unwrap();
                    for number in 0..1000 {
                        assert_eq!(list.pop(End::Left).unwrap().unwrap(), format!("element {number}").as_bytes());
                        assert!(list.pop(End::Right).unwrap().is_some());
                    }
                    assert_eq!(list.finish().unwrap(), 0);
                }
            }
            drop((alone, shared));
            space.sweep(&mut SweepCursor::default(), 10_000, || true).unwrap();
            space.sweep_segments(|| true).unwrap();
            assert_eq!(hidden_pairs(&space), 0, "way {way}");
        }
    }
}

/// Stores a list of these elements, and sets some to others, in one change.
fn store_list(alone: &mut Exclusive<'_>, elements: &[Vec<u8>], set: &[(u64, Vec<u8>)]) {
    alone.begin();
    let mut list = ListMut::open(alone, 0, b"list").unwrap();
    elements.iter().for_each(|element| list.push(End::Right, element).unwrap());
    set.iter().for_each(|(index, element)| list.set(*index, element).unwrap());
    list.finish().unwrap();
    alone.commit().unwrap();
}

fn stored_list(alone: &mut Exclusive<'_>) -> Vec<Vec<u8>> {
    let list = List::open(alone, 0, b"list").unwrap().unwrap();
    let mut found = Vec::new();
    list.for_range(alone, 0..u64::MAX, |_, element| {
        found.push(element.to_vec());
        true
    })
    .unwrap();
    found
}

#[test]
fn a_list_whose_elements_become_long_is_divided_again() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        let elements: Vec<Vec<u8>> = (0..300).map(|number| vec![7; if number < 200 { 10 } else { 20_000 }]).collect();
        store_list(&mut alone, &elements, &[]);
        assert!(hidden_pairs(&space) >= 100, "long elements share no segment");
        assert_eq!(stored_list(&mut alone), elements);
    }
}

#[test]
fn a_list_whose_elements_are_set_to_long_ones_is_divided_again() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        let mut elements = vec![vec![7_u8; 10]; 200];
        let set: Vec<(u64, Vec<u8>)> = (50..150).map(|index| (index, vec![8; 20_000])).collect();
        store_list(&mut alone, &elements, &set);
        assert!(hidden_pairs(&space) >= 100, "long elements share no segment");
        elements[50..150].fill(vec![8; 20_000]);
        assert_eq!(stored_list(&mut alone), elements);
    }
}

#[test]
fn a_list_whose_elements_become_short_is_divided_again() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        let elements: Vec<Vec<u8>> = (0..10_000).map(|number| vec![7; if number == 0 { 600 } else { 1 }]).collect();
        store_list(&mut alone, &elements, &[]);
        assert!(hidden_pairs(&space) < 200, "short elements share segments");
        assert_eq!(stored_list(&mut alone), elements);
    }
}

#[test]
fn elements_inserted_and_removed_anywhere_in_a_list_leave_the_others_in_order() {
    for (space, _folder) in collection_spaces() {
        // Element lengths for which a segment has many, three and one.
        for len in [8, 300, 2000] {
            let mut alone = space.close(Patience::MayWait).unwrap();
            alone.begin();
            let (mut expected, mut state) = (Vec::<Vec<u8>>::new(), 7u64);
            let mut random = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % below
            };
            for step in 0..900usize {
                let mut list = ListMut::open(&mut alone, 0, b"list").unwrap();
                // The list grows, then shrinks to nothing.
                if step < 500 && random(10) > 1 || expected.is_empty() {
                    let element = [step.to_le_bytes().as_slice(), &vec![step as u8; len + random(3)]].concat();
                    let index = random(expected.len() + 1);
                    list.insert(index as u64, &element).unwrap();
                    expected.insert(index, element);
                } else {
                    let index = random(expected.len());
                    list.remove(index as u64).unwrap();
                    expected.remove(index);
                }
                assert_eq!(list.finish().unwrap(), expected.len() as u64);
                let Some(list) = List::open(&mut alone, 0, b"list").unwrap() else {
                    assert!(expected.is_empty(), "step {step}");
                    continue;
                };
                let (mut found, mut run) = (Vec::new(), Vec::new());
                list.for_range(&mut alone, 0..u64::MAX, |_, element| {
                    super::collections::elements::push(&mut run, element);
                    found.push(element.to_vec());
                    true
                })
                .unwrap();
                assert!(found == expected, "step {step}, {len} bytes");
                assert_eq!(list.bytes(), run.len() as u64, "step {step}, {len} bytes");
            }
            alone.remove(0, b"list").unwrap();
            alone.commit().unwrap();
        }
        space.sweep_segments(|| true).unwrap();
        assert_eq!(hidden_pairs(&space), 0);
    }
}

#[test]
fn a_collection_that_says_it_has_more_segments_than_there_are_is_an_error() {
    let is_damaged =
        |error: SpaceError| matches!(error, SpaceError::Table(error) if error.kind() == splitpoint::ErrorKind::Corrupt);
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        // Flags, then the numbers of shape.rs.
        let value = |numbers: &[u64]| {
            let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
            std::iter::once(1).chain(bytes).collect::<Vec<u8>>()
        };
        let attributes = |kind| Attributes { kind, ..Attributes::NONE };
        for (key, kind, numbers) in [
            (b"hash".as_slice(), Kind::Hash, &[1, 2, 1 << 50, 1 << 50, 1 << 51][..]),
            (b"list", Kind::List, &[1, 1 << 62, 1 << 50, 1, 1 << 50]),
            (b"zset", Kind::SortedSet, &[1, 2, 1 << 50, 1 << 50, 1 << 51, 0, 3, 1 << 40, 0]),
            (b"zset2", Kind::SortedSet, &[1, 2, 3, 4, 5]),
        ] {
            alone.put_collection(0, key, Some((attributes(kind), &value(numbers)))).unwrap();
        }
        let hash = Fields::open(&mut alone, 0, b"hash", Kind::Hash).unwrap().unwrap();
        assert!(is_damaged(hash.for_each(&mut alone, |_, _| true).unwrap_err()));
        let list = List::open(&mut alone, 0, b"list").unwrap().unwrap();
        assert!(is_damaged(list.for_range(&mut alone, 0..1 << 50, |_, _| true).unwrap_err()));
        assert!(is_damaged(ListMut::open(&mut alone, 0, b"list").unwrap().pop(End::Left).unwrap_err()));
        let set = SortedSet::open(&mut alone, 0, b"zset").unwrap().unwrap();
        assert!(is_damaged(set.for_range(&mut alone, 0..u64::MAX, false, |_, _| true).unwrap_err()));
        assert!(SortedSet::open(&mut alone, 0, b"zset2").is_err_and(is_damaged));
        // They can be removed, and the removal ends.
        for key in [b"hash".as_slice(), b"list", b"zset", b"zset2"] {
            assert!(alone.remove(0, key).unwrap());
        }
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!(space.len(0), 0);
    }
}

#[test]
fn a_removal_of_segments_that_are_not_there_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let table = splitpoint::Table::open(&path).unwrap();
    const END: u64 = 1 << 63;
    let words = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    // The last two segments exist, then none, then a hundred.
    for number in (0..100).chain(END - 2..END) {
        table.put(&marks::segment(7, number), b"\x01a").unwrap();
    }
    table.put(&marks::removal(3), &words(&[7, 0, END])).unwrap();
    table.put(&marks::removal(4), &words(&[7, 0, 100])).unwrap();
    table.put(&marks::removal(5), &words(&[7, END, 0])).unwrap();
    table.put(&marks::removal(6), b"short").unwrap();
    // The removals after the sixth do not exist.
    table.put(&marks::counts(), &words(&[7, 102, 3, END / 4])).unwrap();
    table.close().unwrap();
    let space = KeySpace::open(SpaceOptions { file: Some(path), ..SpaceOptions::default() }).unwrap();
    space.sweep_segments(|| true).unwrap();
    assert!(!space.has_removals(0));
    let table = space.databases[0].table.load_full().unwrap();
    assert_eq!(table.len(), 1, "the counts");
    let mut alone = space.close(Patience::MayWait).unwrap();
    let mut set = FieldsMut::open(&mut alone, 0, b"set", Kind::Set).unwrap();
    (0..1000u32).for_each(|number| assert!(set.put(&number.to_le_bytes(), b"").unwrap()));
    assert!(set.finish().unwrap());
}

#[test]
fn segments_count_among_the_bytes_of_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let space = in_file(&folder.path().join("t")).unwrap();
    let mut alone = space.close(Patience::MayWait).unwrap();
    alone.begin_run();
    let push = |alone: &mut Exclusive<'_>| {
        alone.set_savepoint();
        let mut list = ListMut::open(alone, 0, b"list").unwrap();
        (0..500).for_each(|_| list.push(End::Right, &[7; 1000]).unwrap());
        list.finish().unwrap();
    };
    push(&mut alone);
    let bytes = alone.staged_bytes();
    assert!(bytes > 500_000, "{bytes}");
    push(&mut alone);
    assert!(alone.staged_bytes() > bytes + 400_000, "{}", alone.staged_bytes());
    alone.undo();
    assert_eq!(alone.staged_bytes(), bytes);
    // A segment that is staged again counts once.
    let key = marks::segment(9, 0);
    for value in [Some(&[7; 1000][..]), Some(&[7; 300][..]), None, Some(&[7; 2000][..])] {
        alone.stage_pair(0, &key, value).unwrap();
        assert_eq!(alone.staged_bytes(), bytes + key.len() + value.map_or(0, <[u8]>::len));
    }
}
