//! Tests what is evicted when memory is full.

use super::*;
use crate::keyspace::collections::fields::{Fields, FieldsMut};

#[test]
fn full_memory_evicts_collections_whole() {
    let options = SpaceOptions { max_memory_bytes: 8 << 20, eviction: Eviction::AllKeysLru, ..SpaceOptions::default() };
    let space = KeySpace::open(options).unwrap();
    for number in 0..200u32 {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.make_room(100_000).unwrap();
        let key = number.to_le_bytes();
        let mut hash = FieldsMut::open(&mut alone, 0, &key, Kind::Hash).unwrap();
        (0..1000u32).for_each(|field| assert!(hash.put(&field.to_le_bytes(), &[7; 100]).unwrap()));
        hash.finish().unwrap();
    }
    assert!(space.used_bytes() < 10 << 20, "{}", space.used_bytes());
    let mut alone = space.close(Patience::MayWait).unwrap();
    let mut left = 0;
    for number in 0..200u32 {
        if let Some(hash) = Fields::open(&mut alone, 0, &number.to_le_bytes(), Kind::Hash).unwrap() {
            let mut fields = 0;
            hash.for_each(&mut alone, |_, value| {
                fields += u32::from(value == [7; 100]);
                true
            })
            .unwrap();
            assert_eq!(fields, 1000);
            left += 1;
        }
    }
    assert!((20..100).contains(&left), "{left}");
}

#[test]
fn a_limit_below_what_is_in_use_evicts_a_bounded_number_of_keys_for_a_write_and_the_rest_without_one() {
    let options =
        SpaceOptions { max_memory_bytes: 64 << 20, eviction: Eviction::AllKeysLru, ..SpaceOptions::default() };
    let space = KeySpace::open(options).unwrap();
    (0..20_000u32).for_each(|number| put(&space, &number.to_le_bytes(), &[7; 200], Attributes::NONE));
    let evicted = || space.events.evicted.load(Relaxed);
    assert_eq!(evicted(), 0);
    const LIMIT: u64 = 2 << 20;
    space.limit_memory(LIMIT, Eviction::AllKeysLru);
    space.close(Patience::MayWait).unwrap().make_room(100).unwrap();
    assert!((1..=200).contains(&evicted()), "{}", evicted());
    let mut steps = 0;
    space
        .evict_excess(|| {
            steps += 1;
            true
        })
        .unwrap();
    assert!(steps > 10 && space.used_bytes() <= LIMIT + LIMIT / 8, "{} after {steps} steps", space.used_bytes());
    // If no key may be evicted, the call ends.
    space.limit_memory(1 << 10, Eviction::VolatileTtl);
    space.evict_excess(|| true).unwrap();
    assert!(space.is_pressed());
}

#[test]
fn without_a_limit_no_key_is_evicted() {
    let space = in_memory();
    put(&space, b"key", b"value", Attributes::NONE);
    space.limit_memory(0, Eviction::AllKeysLru);
    let mut alone = space.close(Patience::MayWait).unwrap();
    assert!(!alone.evict(0).unwrap() && !alone.evict(100).unwrap());
    assert_eq!((space.len(0), space.events.evicted.load(Relaxed)), (1, 0));
}

#[test]
fn a_transaction_evicts_nothing_and_is_not_stored_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let space = in_file(&folder.path().join("t")).unwrap();
    (0..2000u32).for_each(|number| put(&space, &number.to_le_bytes(), &[7; 1000], Attributes::NONE));
    let mut alone = space.close(Patience::MayWait).unwrap();
    let mut set = FieldsMut::open(&mut alone, 0, b"set", Kind::Set).unwrap();
    (0..5000u32).for_each(|member| assert!(set.put(&member.to_le_bytes(), b"").unwrap()));
    set.finish().unwrap();
    assert!(alone.remove(0, b"set").unwrap() && space.has_removals(0));
    let needed = space.needed_bytes();
    let fits = |alone: &mut Exclusive<'_>, bytes| match alone.make_room(bytes) {
        Ok(()) => true,
        Err(SpaceError::MemoryLimit) => false,
        Err(error) => panic!("{error}"),
    };
    space.limit_memory(needed / 2, Eviction::AllKeysLru);
    alone.begin_many();
    alone.put(0, b"staged", b"v", Lifetime::Clear).unwrap();
    assert!(fits(&mut alone, 100), "keys can be evicted after the transaction");
    alone.roll_back();
    assert!(!alone.contains(0, b"staged").unwrap() && space.has_removals(0));
    assert_eq!((space.len(0), space.events.evicted.load(Relaxed)), (2000, 0));
    // Where no key can be evicted, the transaction must fit.
    space.limit_memory(needed + 1_000_000, Eviction::None);
    alone.begin_many();
    alone.put(0, b"staged", &[7; 500_000], Lifetime::Clear).unwrap();
    assert!(fits(&mut alone, 400_000) && !fits(&mut alone, 600_000));
    alone.roll_back();
    space.limit_memory(needed / 2, Eviction::VolatileLru);
    assert!(!fits(&mut alone, 100), "no key has a lifetime");
    alone.begin_many();
    assert!(!fits(&mut alone, 100));
}

/// What is left of 2,000 keys, of which the even ones have lifetimes and the first 200 are used, at a limit for about
/// half of them: `(used, expiring, others)`, each out of its number.
fn left_after(policy: Eviction) -> (usize, usize, usize) {
    let space = in_memory();
    space.limit_memory(64 << 20, policy);
    let now = super::now_ms();
    for number in 0..2000u64 {
        let lifetime = if number % 2 == 0 { Attributes::expiring(now + 1_000_000 + number) } else { Attributes::NONE };
        put(&space, &number.to_be_bytes(), &[7; 2000], lifetime);
    }
    STOPPED_CLOCK.set(Some(now + 60_000));
    let mut value = Vec::new();
    for number in (0..200u64).cycle().take(200 * 100) {
        assert!(space.close(Patience::MayWait).unwrap().get(0, &number.to_be_bytes(), &mut value).unwrap());
    }
    space.limit_memory(space.needed_bytes() * 3 / 4, policy);
    space.evict_excess(|| true).unwrap();
    STOPPED_CLOCK.set(None);
    let mut alone = space.close(Patience::MayWait).unwrap();
    let mut left = |wanted: fn(u64) -> bool| {
        (0..2000u64).filter(|number| wanted(*number) && alone.contains(0, &number.to_be_bytes()).unwrap()).count()
    };
    let left = (left(|number| number < 200), left(|number| number % 2 == 0), left(|number| number % 2 == 1));
    assert!(left.1 + left.2 < 1700, "{policy:?} {left:?}");
    left
}

#[test]
fn each_policy_evicts_the_keys_that_it_names() {
    for policy in Eviction::ALL.into_iter().filter(|policy| *policy != Eviction::None) {
        let (used, expiring, others) = left_after(policy);
        let is_volatile = policy.name().starts_with("volatile");
        assert_eq!(others == 1000, is_volatile, "{policy:?}: {others} of those that never expire");
        match policy {
            // With sixteen candidates a used key is almost never the best.
            Eviction::AllKeysLru | Eviction::AllKeysLfu | Eviction::VolatileLru | Eviction::VolatileLfu => {
                assert!(used >= 198, "{policy:?}: {used} of those that are used");
            }
            // The used keys expire first.
            Eviction::VolatileTtl => assert!(used < 110 && expiring < 700, "{used} used, {expiring} expiring"),
            _ => assert!(used < 198, "{policy:?}: {used} of those that are used"),
        }
    }
}
