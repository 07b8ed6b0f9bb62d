//! Streams against sets and maps of what they should have, and how large their trees are.

use super::*;
use crate::keyspace::tests::{Random, collection_spaces, hidden_pairs};
use crate::keyspace::{KeySpace, Patience};
use std::collections::{BTreeMap, BTreeSet};

fn value_of(id: EntryId) -> Vec<u8> {
    vec![id.seq as u8; (id.ms % 7 * id.ms % 90) as usize + if id.ms.is_multiple_of(50) { 3000 } else { 0 }]
}

fn append(stream: &mut StreamMut<'_, '_>, id: EntryId) {
    stream.append(id, [b"field".as_slice(), &value_of(id)].into_iter()).unwrap();
}

fn entries(
    stream: &Stream,
    pairs: &mut (impl Pairs + ?Sized),
    range: (EntryId, EntryId),
    is_reverse: bool,
    most: usize,
) -> Vec<EntryId> {
    let mut found = Vec::new();
    stream
        .for_entries(pairs, range, is_reverse, &mut |id, fields| {
            let fields: Vec<&[u8]> = elements::iter(fields).collect();
            assert_eq!(fields, [b"field".as_slice(), &value_of(id)]);
            found.push(id);
            found.len() < most
        })
        .unwrap();
    found
}

/// Makes a change in one transaction, as a command does.
fn change(space: &KeySpace, mut make: impl FnMut(&mut StreamMut<'_, '_>)) {
    let mut alone = space.close(Patience::MayWait).unwrap();
    alone.begin();
    let mut stream = StreamMut::open(&mut alone, 0, b"stream").unwrap();
    make(&mut stream);
    stream.finish(true, &[]).unwrap();
    alone.commit().unwrap();
}

#[test]
fn a_stream_has_the_entries_that_a_set_of_ids_has() {
    for (space, _folder) in collection_spaces() {
        let (mut random, mut model, mut next) = (Random(42), BTreeSet::new(), 1);
        for step in 0..3000 {
            let what = random.below(20);
            change(&space, |stream| match what {
                0..12 => {
                    for _ in 0..=random.below(4) {
                        next += random.below(3);
                        let id = EntryId { ms: next, seq: stream.stream.last.seq + 1 };
                        append(stream, id);
                        model.insert(id);
                    }
                }
                12..17 => {
                    let id = model.range(EntryId { ms: random.below(next), seq: 0 }..).next().copied();
                    let id = id.unwrap_or(EntryId { ms: 0, seq: 5 });
                    assert_eq!(stream.remove_entry(id).unwrap(), model.remove(&id), "{id}");
                    assert!(!stream.remove_entry(id).unwrap());
                }
                17 => {
                    let count = random.below(if step % 500 == 0 { 10_000 } else { 40 });
                    stream.trim(count).unwrap();
                    (0..count).for_each(|_| _ = model.pop_first());
                }
                _ => {
                    let id = EntryId { ms: random.below(next), seq: random.below(50) };
                    let (now, alone) = stream.read().unwrap();
                    assert_eq!(now.count_before(alone, id).unwrap(), model.range(..id).count() as u64);
                    assert_eq!(now.contains(alone, id).unwrap(), model.contains(&id));
                }
            });
            let shared = space.share(Patience::MayWait).unwrap();
            let mut pairs = &shared;
            let stream = Stream::open(&mut pairs, 0, b"stream").unwrap().unwrap();
            assert_eq!(stream.len(), model.len() as u64);
            assert_eq!(stream.edge(&mut pairs, false).unwrap(), model.first().copied());
            assert_eq!(stream.edge(&mut pairs, true).unwrap(), model.last().copied());
            let from = EntryId { ms: random.below(next + 5), seq: random.below(3) };
            let to = EntryId { ms: from.ms + random.below(200), seq: random.below(3) };
            let range = if step % 50 == 0 { (EntryId::MIN, EntryId::MAX) } else { (from, to) };
            let expected: Vec<EntryId> = model.iter().filter(|id| (range.0..=range.1).contains(id)).copied().collect();
            assert_eq!(entries(&stream, &mut pairs, range, false, usize::MAX), expected);
            let backwards: Vec<EntryId> = expected.into_iter().rev().collect();
            assert_eq!(entries(&stream, &mut pairs, range, true, usize::MAX), backwards);
            assert_eq!(entries(&stream, &mut pairs, range, true, 3), backwards[..backwards.len().min(3)]);
        }
        // Once the tree is empty, all that remains is in the key's value.
        change(&space, |stream| stream.trim(u64::MAX).unwrap());
        space.sweep_segments(|| true).unwrap();
        assert_eq!(hidden_pairs(&space), 0);
        let last = EntryId { ms: next + 1, seq: 0 };
        change(&space, |stream| append(stream, last));
        let mut alone = space.close(Patience::MayWait).unwrap();
        let stream = Stream::open(&mut alone, 0, b"stream").unwrap().unwrap();
        assert_eq!(entries(&stream, &mut alone, (EntryId::MIN, EntryId::MAX), false, usize::MAX), [last]);
    }
}

#[test]
fn pending_entries_are_found_by_group_and_by_consumer() {
    const NAMES: [&[u8]; 5] = [b"", b"a", b"a\0", b"a\0\0b", b"b"];
    for (space, _folder) in collection_spaces() {
        let mut random = Random(7);
        // By group and ID: the consumer, and how often it was delivered.
        let mut model: BTreeMap<(usize, EntryId), (usize, u64)> = BTreeMap::new();
        let mut is_there = [[false; NAMES.len()]; NAMES.len()];
        for _ in 0..2000 {
            let (group, consumer, what) = (random.below(5) as usize, random.below(5) as usize, random.below(100));
            change(&space, |stream| {
                let (now, alone) = stream.read().unwrap();
                let number = match now.group(alone, NAMES[group]).unwrap() {
                    Some(group) => group.number,
                    None => {
                        stream.add_group(NAMES[group], EntryId::MIN, Some(0)).unwrap();
                        let (now, alone) = stream.read().unwrap();
                        now.group(alone, NAMES[group]).unwrap().unwrap().number
                    }
                };
                let (now, alone) = stream.read().unwrap();
                let found = now.consumer(alone, number, NAMES[consumer]).unwrap();
                assert_eq!(found.is_some(), is_there[group][consumer]);
                match (what, found) {
                    (0, _) => {
                        stream.remove_group(NAMES[group], number).unwrap();
                        model.retain(|(of, _), _| *of != group);
                        is_there[group] = [false; NAMES.len()];
                    }
                    (1..5, Some(found)) => {
                        stream.remove_consumer(number, NAMES[consumer], found.number).unwrap();
                        model.retain(|(of, _), (owner, _)| (*of, *owner) != (group, consumer));
                        is_there[group][consumer] = false;
                    }
                    (5.., None) => {
                        stream.add_consumer(number, NAMES[consumer], 1).unwrap();
                        is_there[group][consumer] = true;
                    }
                    (5.., Some(found)) => {
                        for _ in 0..5 {
                            let id = EntryId { ms: random.below(40), seq: random.below(3) };
                            if random.below(3) == 0 {
                                let removed = model.remove(&(group, id)).is_some();
                                assert_eq!(stream.remove_pending(number, id).unwrap(), removed);
                                continue;
                            }
                            let (now, alone) = stream.read().unwrap();
                            let before = now.pending(alone, number, id).unwrap();
                            let count = before.map_or(0, |before| before.count) + 1;
                            let after = Pending { consumer: found.number, delivered_ms: 5, count };
                            stream.set_pending(number, id, before, after).unwrap();
                            model.insert((group, id), (consumer, count));
                        }
                    }
                    _ => {}
                }
            });
            let shared = space.share(Patience::MayWait).unwrap();
            let mut pairs = &shared;
            let stream = Stream::open(&mut pairs, 0, b"stream").unwrap().unwrap();
            let groups = stream.groups(&mut pairs).unwrap();
            assert!(groups.is_sorted_by_key(|(name, _)| name.clone()));
            assert_eq!(stream.group_count(&mut pairs).unwrap(), groups.len() as u64);
            let Some((_, of_group)) = groups.iter().find(|(name, _)| name == NAMES[group]) else { continue };
            let all: Vec<_> = model.range((group, EntryId::MIN)..=(group, EntryId::MAX)).collect();
            let number = of_group.number;
            assert_eq!(stream.pending_count(&mut pairs, number).unwrap(), all.len() as u64);
            assert_eq!(stream.pending_last(&mut pairs, number).unwrap(), all.last().map(|((_, id), _)| *id));
            let consumers = stream.consumers(&mut pairs, number).unwrap();
            assert_eq!(stream.consumer_count(&mut pairs, number).unwrap(), consumers.len() as u64);
            let name_of = |number| &consumers.iter().find(|(_, other)| other.number == number).unwrap().0;
            let from = EntryId { ms: random.below(40), seq: 1 };
            let found = stream.pending_from(&mut pairs, number, from, 10).unwrap();
            let expected = all.iter().filter(|((_, id), _)| *id >= from).take(10);
            let expected: Vec<_> = expected.map(|((_, id), (owner, count))| (*id, NAMES[*owner], *count)).collect();
            let found: Vec<_> =
                found.iter().map(|(id, found)| (*id, name_of(found.consumer).as_slice(), found.count)).collect();
            assert_eq!(found, expected);
            for (name, consumer) in &consumers {
                let owned = all.iter().filter(|(_, (owner, _))| NAMES[*owner] == name);
                let owned: Vec<EntryId> = owned.map(|((_, id), _)| *id).collect();
                let of_consumer = (number, consumer.number);
                assert_eq!(stream.owned_count(&mut pairs, number, consumer.number).unwrap(), owned.len() as u64);
                let found = stream.owned_from(&mut pairs, of_consumer, EntryId::MIN, usize::MAX).unwrap();
                assert_eq!(found, owned);
            }
        }
        let mut alone = space.close(Patience::MayWait).unwrap();
        assert!(hidden_pairs(&space) > 5);
        alone.remove(0, b"stream").unwrap();
        drop(alone);
        space.sweep_segments(|| true).unwrap();
        assert_eq!(hidden_pairs(&space), 0);
    }
}

#[test]
fn a_stream_that_only_grows_has_full_segments_and_a_value_of_a_kilobyte() {
    const ENTRIES: u64 = 30_000;
    let (space, _folder) = collection_spaces().remove(0);
    for first in (1..ENTRIES).step_by(1000) {
        change(&space, |stream| {
            (first..first + 1000).for_each(|ms| {
                stream.append(EntryId { ms, seq: 0 }, [b"a".as_slice(), &[7; 60]].into_iter()).unwrap();
            });
            assert!(stream.stream.encode().len() <= 1 + 8 * NUMBERS + TAIL_BYTES);
        });
    }
    // An entry has 89 bytes in a leaf.
    assert!(hidden_pairs(&space) < ENTRIES * 89 * 6 / 5 / 1024, "{}", hidden_pairs(&space));
}
