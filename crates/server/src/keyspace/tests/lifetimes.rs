//! Tests lifetimes of keys: several threads, clocks, the sweep.

use super::*;
use crate::keyspace::SweepCursor;

#[test]
fn threads_that_edit_a_key_with_a_lifetime_lose_no_edit_and_keep_it() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 500;
    let space = in_memory();
    let (at_ms, keys) = (now_ms() + 1_000_000, [b"one".as_slice(), b"two", b"one"]);
    keys.iter().for_each(|key| put(&space, key, &0u64.to_le_bytes(), Attributes::expiring(at_ms)));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let space = &space;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let shared = space.share(Patience::MayWait).unwrap();
                    let (done, outcome) = shared.edit_many(0, &keys, (8, 0), |_, old, new| {
                        let old = old.unwrap();
                        let count = u64::from_le_bytes(old.value.try_into().unwrap());
                        new.put(old.attributes, &(count + 1).to_le_bytes())
                    });
                    outcome.unwrap();
                    assert_eq!(done, 3);
                    // A key of its own, stored with and without a lifetime in turn.
                    let attributes = [Attributes::NONE, Attributes::expiring(at_ms)][round as usize % 2];
                    let own = [thread as u8; 3];
                    assert_eq!(shared.put_many(0, &[(&own, b"v"), (&own, b"w")], |_| attributes).0, 2);
                    drop(shared);
                    assert_eq!(get(space, &own).unwrap(), (b"w".to_vec(), attributes));
                }
            });
        }
    });
    let expected = |count: u64| (count.to_le_bytes().to_vec(), Attributes::expiring(at_ms));
    assert_eq!(get(&space, b"one").unwrap(), expected(2 * THREADS * ROUNDS));
    assert_eq!(get(&space, b"two").unwrap(), expected(THREADS * ROUNDS));
}

#[test]
fn of_several_threads_one_gets_each_key_that_is_absent() {
    const KEYS: u32 = 2000;
    let space = in_memory();
    put(&space, b"first", b"", Attributes::expiring(now_ms() + 1_000_000));
    let won: usize = std::thread::scope(|scope| {
        let take = |_| {
            scope.spawn(|| {
                let at_ms = now_ms() + 1_000_000;
                let mut won = 0;
                for number in 0..KEYS {
                    let shared = space.share(Patience::MayWait).unwrap();
                    let (done, outcome) = shared.edit_many(0, &[&number.to_le_bytes()], (8, 0), |_, old, new| {
                        won += usize::from(old.is_none());
                        if old.is_some() { Edit::Keep } else { new.put(Attributes::expiring(at_ms), b"mine") }
                    });
                    outcome.unwrap();
                    assert_eq!(done, 1);
                }
                won
            })
        };
        let threads: Vec<_> = (0..4).map(take).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(won, KEYS as usize);
}

#[test]
fn a_clock_that_goes_back_loses_no_key_and_revives_none() {
    STOPPED_CLOCK.set(Some(START_MS));
    let space = in_memory();
    put(&space, b"later", b"1", Attributes::expiring(START_MS + 1000));
    put(&space, b"sooner", b"2", Attributes::expiring(START_MS + 10));
    STOPPED_CLOCK.set(Some(START_MS + 500));
    let mut cursor = SweepCursor::default();
    assert_eq!(space.sweep(&mut cursor, 100, || true).unwrap().removed, 1);
    STOPPED_CLOCK.set(Some(START_MS - 5000));
    assert_eq!(get(&space, b"later").unwrap().1, Attributes::expiring(START_MS + 1000));
    assert_eq!((get(&space, b"sooner"), space.len(0)), (None, 1));
    assert_eq!(space.sweep(&mut cursor, 100, || true).unwrap().removed, 0);
    assert_eq!(space.lifetimes(0).unwrap(), (1, 6000));
    let numbers = [(); 3].map(|()| space.close(Patience::MayWait).unwrap().cas_of(0, b"later").unwrap().unwrap());
    assert!(numbers[0] == numbers[1] && numbers[1] == numbers[2] && space.new_cas() > numbers[0]);
}

#[test]
fn expired_keys_beside_many_that_stay_do_not_pile_up() {
    const STAYING: u32 = 50_000;
    const EACH_TICK: u32 = 20;
    STOPPED_CLOCK.set(Some(START_MS));
    let space = in_memory();
    let store = |from: u32, count: u32, at_ms: u64| {
        put(&space, b"begins", b"", Attributes::expiring(at_ms));
        let keys: Vec<[u8; 4]> = (from..from + count).map(u32::to_le_bytes).collect();
        let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_slice(), b"value".as_slice())).collect();
        let shared = space.share(Patience::MayWait).unwrap();
        assert_eq!(shared.put_many(0, &pairs, |_| Attributes::expiring(at_ms)).0, pairs.len());
    };
    store(0, STAYING, START_MS + 86_400_000);
    let mut cursor = SweepCursor::default();
    let mut most = 0;
    for tick in 1..=600u32 {
        let now_ms = START_MS + u64::from(tick) * 100;
        STOPPED_CLOCK.set(Some(now_ms));
        store(STAYING + tick * EACH_TICK, EACH_TICK, now_ms + 1000);
        space.sweep(&mut cursor, 2000, || true).unwrap();
        let expired = space.len(0).saturating_sub(u64::from(STAYING + 10 * EACH_TICK));
        most = most.max(expired);
    }
    // At most a hundredth as many as the keys that stay, and the keys of two ticks.
    assert!(most <= u64::from(STAYING / 100 + 2 * EACH_TICK), "{most} expired keys stayed");
    // Once none is left the sweep has nothing to look at.
    STOPPED_CLOCK.set(Some(START_MS + 2 * 86_400_000));
    while space.len(0) > 0 {
        space.sweep(&mut cursor, 2000, || true).unwrap();
    }
    for _ in 0..3 {
        space.sweep(&mut cursor, 2000, || true).unwrap();
    }
    put(&space, b"stays", b"", Attributes::NONE);
    assert_eq!(space.sweep(&mut cursor, 2000, || true).unwrap().looked_at, 0);
}

#[test]
fn a_key_is_swept_when_its_time_comes_however_many_passes_found_nothing_before() {
    STOPPED_CLOCK.set(Some(START_MS));
    let space = in_memory();
    put(&space, b"later", b"", Attributes::expiring(START_MS + 1000));
    let mut cursor = SweepCursor::default();
    for _ in 0..5 {
        assert_eq!(space.sweep(&mut cursor, 100, || true).unwrap().removed, 0);
    }
    STOPPED_CLOCK.set(Some(START_MS + 1000));
    assert_eq!(space.sweep(&mut cursor, 100, || true).unwrap().removed, 1);
}

#[test]
fn a_sweep_leaves_keys_that_were_renewed_after_it_found_them() {
    STOPPED_CLOCK.set(Some(START_MS));
    // While keys are watched, the sweep removes them with exclusive entry.
    for is_observed in [false, true] {
        let space = in_memory();
        space.observe(is_observed);
        put(&space, b"renewed", b"1", Attributes::expiring(START_MS + 1));
        put(&space, b"kept", b"2", Attributes::NONE);
        put(&space, b"over", b"3", Attributes::expiring(START_MS));
        let found = [b"renewed".to_vec(), b"over".to_vec(), b"kept".to_vec()];
        assert_eq!(space.remove_expired(0, &found).unwrap(), 1);
        assert_eq!(get(&space, b"renewed"), Some((b"1".to_vec(), Attributes::expiring(START_MS + 1))));
        assert_eq!(get(&space, b"kept"), Some((b"2".to_vec(), Attributes::NONE)));
        assert_eq!(space.len(0), 2);
    }
}

#[test]
fn what_a_sweep_cannot_know_is_found_by_the_next() {
    // A lifetime that is set while a pass is under way, behind its cursor.
    STOPPED_CLOCK.set(Some(START_MS));
    let space = in_memory();
    let keys: Vec<[u8; 4]> = (0..5000u32).map(u32::to_le_bytes).collect();
    keys.iter().for_each(|key| put(&space, key, b"", Attributes::NONE));
    put(&space, b"over", b"", Attributes::expiring(START_MS + 1));
    STOPPED_CLOCK.set(Some(START_MS + 1));
    let mut cursor = SweepCursor::default();
    while space.databases[0].may_expire.load(Relaxed) {
        space.sweep(&mut cursor, 1000, || true).unwrap();
    }
    for key in &keys {
        space.databases[0].may_expire.store(true, Relaxed);
        space.sweep(&mut cursor, 1000, || true).unwrap();
        put(&space, key, b"", Attributes::expiring(START_MS + 2));
        if key[0] == 20 {
            break;
        }
    }
    STOPPED_CLOCK.set(Some(START_MS + 2));
    while space.databases[0].may_expire.load(Relaxed) {
        space.sweep(&mut cursor, 1000, || true).unwrap();
    }
    assert_eq!(space.len(0), 5000 - 21);
}

#[test]
fn parts_and_tails_of_any_bytes_leave_the_value_and_its_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let later = now_ms() + 1_000_000;
    for (place, space) in [in_memory(), in_file(&folder.path().join("t")).unwrap()].into_iter().enumerate() {
        let attributes =
            [Attributes::NONE, Attributes::expiring(later), Attributes { flags: 7, cas: 9, ..Attributes::NONE }];
        for (number, attributes) in attributes.into_iter().enumerate() {
            for first in [b'a', 0xF5, 0xF9, 0xFF] {
                let key = [number as u8, first];
                put(&space, &key, b"", attributes);
                let mut alone = space.close(Patience::MayWait).unwrap();
                let (mut model, mut at_start) = (Vec::new(), [first; 12]);
                for len in [1, 12, 3] {
                    alone.append(0, &key, &at_start[..len]).unwrap();
                    model.extend_from_slice(&at_start[..len]);
                    at_start.rotate_left(1);
                }
                for (at, byte) in
                    [(0, 0xF8), (3, first), (0, b'b'), (0, 0xFF), (5000, first), (0, first), (20_000, b'c')]
                {
                    let len = alone.put_part(0, &key, at, &[byte; 2]).unwrap();
                    model.resize(model.len().max(at + 2), 0);
                    model[at..at + 2].fill(byte);
                    assert_eq!(len, model.len());
                    let expected = Attributes { cas: 0, ..attributes };
                    assert_eq!(alone.attributes(0, &key).unwrap(), expected, "{place} {number} {first:x} {at}");
                    let mut value = Vec::new();
                    assert!(alone.get(0, &key, &mut value).unwrap());
                    assert!(value == model, "{place} {number} {first:x} {at}");
                    assert_eq!(alone.get_part(0, &key, |len| len - 3..len, &mut value).unwrap(), Some(model.len()));
                    assert_eq!(value, model[model.len() - 3..]);
                }
            }
        }
    }
}
