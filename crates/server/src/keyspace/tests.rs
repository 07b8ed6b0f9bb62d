//! Lifetimes as the key space keeps them: several threads, files of others, crashes, clocks, the sweep. Collections:
//! many fields, scans during changes, and that segments are removed with their keys.

use super::collections::fields::{Expiry, Fields, FieldsMut};
use super::collections::list::{End, List, ListMut};
use super::collections::sorted::SortedSet;
use super::heads::mark_of;
use super::*;
use crate::keyspace::SweepCursor;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

thread_local! {
    /// The time that a test has set for this thread.
    pub(crate) static STOPPED_CLOCK: Cell<Option<u64>> = const { Cell::new(None) };
}

const START_MS: u64 = 1_800_000_000_000;

fn in_memory() -> KeySpace {
    KeySpace::open(SpaceOptions::default()).unwrap()
}

fn in_file(path: &Path) -> Result<KeySpace> {
    KeySpace::open(SpaceOptions { file: Some(path.to_owned()), logged: true, ..SpaceOptions::default() })
}

fn put(space: &KeySpace, key: &[u8], value: &[u8], attributes: Attributes) {
    let mut alone = space.close(Patience::MayWait).unwrap();
    alone.put(0, key, value, Lifetime::Are(attributes)).unwrap();
}

fn get(space: &KeySpace, key: &[u8]) -> Option<(Vec<u8>, Attributes)> {
    let mut found = None;
    let shared = space.share(Patience::MayWait).unwrap();
    shared
        .get_records(0, &[key], |_, record| found = record.map(|record| (record.value.to_vec(), record.attributes)))
        .unwrap();
    found
}

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
                    assert!(shared.put_many(0, &[(&own, b"v"), (&own, b"w")], |_| attributes).unwrap());
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

/// Copies the files of a table, the log cut to `log_bytes`, as a crash may leave them.
fn crashed(from: &Path, to: &Path, log_bytes: u64) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            let copy = to.join(file.file_name());
            std::fs::copy(file.path(), &copy).unwrap();
            if file.file_name().to_string_lossy().contains("-log") {
                let file = std::fs::OpenOptions::new().write(true).open(&copy).unwrap();
                let len = file.metadata().unwrap().len();
                file.set_len(log_bytes.min(len)).unwrap();
                file.set_len(len).unwrap();
            }
        }
    }
}

#[test]
fn a_crash_at_any_byte_of_the_log_leaves_a_value_with_its_lifetime() {
    STOPPED_CLOCK.set(Some(START_MS));
    let folder = tempfile::tempdir().unwrap();
    let (live, at_ms) = (folder.path().join("live"), |number: u64| START_MS + 1000 + number);
    std::fs::create_dir(&live).unwrap();
    let space = in_file(&live.join("t")).unwrap();
    for number in 0..40u64 {
        put(&space, b"k", number.to_string().as_bytes(), Attributes::expiring(at_ms(number)));
        let shared = space.share(Patience::MayWait).unwrap();
        let edit = |_: usize, old: Option<Old<'_>>, new: &mut New<'_>| {
            let value = [old.unwrap().value, b"+"].concat();
            new.put(Attributes::expiring(at_ms(number + 100)), &value)
        };
        assert_eq!(shared.edit_many(0, &[b"k"], (100, 0), edit).0, 1);
    }
    let mut found = std::collections::BTreeSet::new();
    for cut in (0..6000).step_by(7) {
        let copy = folder.path().join(cut.to_string());
        crashed(&live, &copy, cut);
        let Ok(after) = in_file(&copy.join("t")) else { panic!("cut to {cut}") };
        if let Some((value, attributes)) = get(&after, b"k") {
            let text = String::from_utf8(value).unwrap();
            let number: u64 = text.trim_end_matches('+').parse().unwrap();
            let expected = at_ms(if text.ends_with('+') { number + 100 } else { number });
            assert_eq!(attributes, Attributes::expiring(expected), "cut to {cut}: {text}");
            found.insert(text);
        }
        drop(after);
        std::fs::remove_dir_all(&copy).unwrap();
    }
    assert!(found.len() > 60, "{found:?}");
}

#[test]
fn a_file_of_another_program_keeps_its_values_when_lifetimes_come() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let values: Vec<Vec<u8>> = (0..=255u8).map(|first| vec![first; 30]).collect();
    {
        let table = Table::open(&path).unwrap();
        values.iter().enumerate().for_each(|(n, value)| table.put(&[n as u8], value).unwrap());
        table.close().unwrap();
    }
    let later = Attributes::expiring(now_ms() + 1_000_000);
    let check = |space: &KeySpace| {
        for (n, value) in values.iter().enumerate() {
            assert_eq!(get(space, &[n as u8]).unwrap(), (value.clone(), Attributes::NONE), "{n}");
        }
    };
    {
        let space = in_file(&path).unwrap();
        check(&space);
        assert_eq!(space.len(0), 256);
        put(&space, b"new", &[0xFF; 40], later);
        assert_eq!(space.len(0), 257);
        check(&space);
    }
    let space = in_file(&path).unwrap();
    check(&space);
    assert_eq!(get(&space, b"new").unwrap(), (vec![0xFF; 40], later));
    assert_eq!((space.len(0), space.lifetimes(0).unwrap().0), (257, 1));
    // A value that begins like a head of this file.
    let mark = mark_of(space.databases[0].heads.load(Relaxed));
    put(&space, b"like", &[mark.as_slice(), &[0xF9; 20]].concat(), Attributes::NONE);
    assert_eq!(get(&space, b"like").unwrap().0, [mark.as_slice(), &[0xF9; 20]].concat());
    let mut alone = space.close(Patience::MayWait).unwrap();
    for byte in mark.iter().chain(&[0xF9; 9]) {
        alone.append(0, b"grown", &[*byte]).unwrap();
    }
    drop(alone);
    assert_eq!(get(&space, b"grown").unwrap(), ([mark.as_slice(), &[0xF9; 9]].concat(), Attributes::NONE));
}

#[test]
fn a_flush_among_other_changes_of_a_file_changes_nothing_before_they_are_committed() {
    let folder = tempfile::tempdir().unwrap();
    let space = in_file(&folder.path().join("t")).unwrap();
    put(&space, b"k", b"v", Attributes::NONE);
    put(&space, &[marks::MARK.as_slice(), b"h"].concat(), b"v", Attributes::expiring(START_MS * 2));
    for commits in [false, true] {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.begin_many();
        alone.put(0, b"before", b"v", Lifetime::Clear).unwrap();
        alone.flush(0).unwrap();
        alone.put(0, b"after", b"v", Lifetime::Clear).unwrap();
        if commits {
            alone.commit().unwrap()
        } else {
            alone.roll_back()
        }
        drop(alone);
        assert_eq!(space.len(0), if commits { 1 } else { 2 });
    }
    assert_eq!(get(&space, b"after").unwrap().0, b"v");
}

#[test]
fn a_file_with_lifetimes_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    Table::open(&path).unwrap().put(b"\0sp\xffh", &[1]).unwrap();
    let error = in_file(&path).err().unwrap().to_string();
    assert!(error.contains("t: ") && error.contains("version 1") && error.contains("load the dump"), "{error}");
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
        assert!(shared.put_many(0, &pairs, |_| Attributes::expiring(at_ms)).unwrap());
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
    // One in a hundred, and those of a tick.
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

/// xorshift64, so that a failure can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A key space in memory, and one over a file.
pub(crate) fn collection_spaces() -> Vec<(KeySpace, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { file: Some(folder.path().join("t")), ..SpaceOptions::default() };
    vec![(KeySpace::open(SpaceOptions::default()).unwrap(), None), (KeySpace::open(options).unwrap(), Some(folder))]
}

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

/// Pairs of a database that belong to no key.
pub(crate) fn hidden_pairs(space: &KeySpace) -> u64 {
    let segments = space.databases[0].segments.load_full().map_or(0, |table| table.len());
    segments + space.databases[0].hidden.load(Relaxed).saturating_sub(1)
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
                2 => alone.put_many(0, &[(b"list", b"1")], |_| Attributes::NONE).unwrap(),
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
                    assert!(!entry.put_many(0, &[(b"list", b"1")], |_| Attributes::NONE).unwrap());
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

#[test]
fn a_file_opened_again_has_its_collections_and_removes_what_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let options = SpaceOptions { file: Some(folder.path().join("t")), ..SpaceOptions::default() };
    {
        let space = KeySpace::open(options.clone()).unwrap();
        let mut alone = space.close(Patience::MayWait).unwrap();
        for key in [b"kept".as_slice(), b"gone"] {
            let mut set = FieldsMut::open(&mut alone, 0, key, Kind::Set).unwrap();
            (0..5000u32).for_each(|number| assert!(set.put(&number.to_le_bytes(), b"").unwrap()));
            set.finish().unwrap();
        }
        assert!(alone.remove(0, b"gone").unwrap());
    }
    let space = KeySpace::open(options).unwrap();
    assert_eq!(space.len(0), 1);
    let before = hidden_pairs(&space);
    space.sweep_segments(|| true).unwrap();
    assert!(hidden_pairs(&space) < before / 2 + 10);
    let mut alone = space.close(Patience::MayWait).unwrap();
    let set = Fields::open(&mut alone, 0, b"kept", Kind::Set).unwrap().unwrap();
    for number in 0..5000u32 {
        assert!(set.get(&mut alone, &number.to_le_bytes(), &mut Vec::new()).unwrap());
    }
    // New collections have other segments.
    let mut other = FieldsMut::open(&mut alone, 0, b"other", Kind::Set).unwrap();
    (0..5000u32).for_each(|number| assert!(other.put(&number.to_be_bytes(), b"").unwrap()));
    other.finish().unwrap();
    assert_eq!(Fields::open(&mut alone, 0, b"kept", Kind::Set).unwrap().unwrap().len(), 5000);
    assert_eq!(space.len(0), 2);
}

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
fn a_list_whose_elements_become_long_is_divided_again() {
    for (space, _folder) in collection_spaces() {
        let mut alone = space.close(Patience::MayWait).unwrap();
        alone.begin();
        let mut list = ListMut::open(&mut alone, 0, b"list").unwrap();
        let elements: Vec<Vec<u8>> = (0..300).map(|number| vec![7; if number < 200 { 10 } else { 20_000 }]).collect();
        elements.iter().for_each(|element| list.push(End::Right, element).unwrap());
        list.finish().unwrap();
        alone.commit().unwrap();
        assert!(hidden_pairs(&space) >= 100, "long elements share no segment");
        let list = List::open(&mut alone, 0, b"list").unwrap().unwrap();
        let mut found = Vec::new();
        list.for_range(&mut alone, 0..u64::MAX, |_, element| {
            found.push(element.to_vec());
            true
        })
        .unwrap();
        assert_eq!(found, elements);
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

#[test]
fn a_typed_table_is_served_if_it_holds_strings() {
    let folder = tempfile::tempdir().unwrap();
    for (number, types) in ["str -> bytes", "str -> i64", "u64 -> str", "json -> pickle"].iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let table = splitpoint::Table::open(&path).unwrap();
        table.adopt_types(types).unwrap();
        table.close().unwrap();
        let served = KeySpace::open(SpaceOptions { file: Some(path), ..SpaceOptions::default() });
        assert_eq!(served.is_ok(), number == 0, "{types}");
    }
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
