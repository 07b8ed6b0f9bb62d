//! Tests the table against a model: a BTreeMap and its last durable copy.
#![allow(clippy::disallowed_methods, reason = "tests look at the file from outside")]

mod answers;
mod checkpoints;
mod compaction;
mod counters;
mod crash;
mod cut;
mod followers;
mod held;
mod interleavings;
mod openings;
mod replay;
mod small;
mod watched;

use super::*;
use crate::error::ErrorKind;
use crate::hash::HashKind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::*;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, Value),
    Insert(u8, Value),
    Append(u8, Value),
    Remove(u8),
    Update(u8),
    Get(u8),
    Scan,
    Clear,
    Compact,
    Sync,
    Reopen,
    Fill(u16),
    Empty(u16),
}

/// The length of a value: mostly small, some near a page's limit, some in extents.
type Value = usize;

fn value_len() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0..40usize, 3 => 40..200usize, 2 => 200..5000usize, 1 => 5000..70_000usize]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (any::<u8>(), value_len()).prop_map(|(k, v)| Op::Put(k, v)),
        3 => (any::<u8>(), value_len()).prop_map(|(k, v)| Op::Insert(k, v)),
        8 => (any::<u8>(), value_len()).prop_map(|(k, v)| Op::Append(k, v)),
        5 => any::<u8>().prop_map(Op::Remove),
        3 => any::<u8>().prop_map(Op::Update),
        3 => any::<u8>().prop_map(Op::Get),
        1 => Just(Op::Scan),
        1 => Just(Op::Clear),
        1 => Just(Op::Compact),
        1 => Just(Op::Sync),
        2 => Just(Op::Reopen),
        2 => any::<u16>().prop_map(Op::Fill),
        1 => any::<u16>().prop_map(Op::Empty),
    ]
}

/// Fifty keys, so that operations meet; some too long for a record, one empty.
fn key(n: u8) -> Vec<u8> {
    match n % 50 {
        0 => Vec::new(),
        n @ 1..40 => format!("key-{n}").into_bytes(),
        n => vec![n; 100 * usize::from(n)],
    }
}

fn value(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed) as u8).collect()
}

enum Place {
    Memory,
    Spilling,
    File(tempfile::TempDir),
}

fn open(options: &TableOptions, place: &Place) -> Table {
    match place {
        Place::Memory => options.clone().in_memory().unwrap(),
        Place::Spilling => options.clone().cache_bytes(1).in_memory().unwrap(),
        Place::File(directory) => options.clone().open(directory.path().join("t.spt")).unwrap(),
    }
}

fn same(table: &Table, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    assert_eq!(table.len(), model.len() as u64);
    // Every key, and as many absent ones, in one call.
    let asked: Vec<Vec<u8>> = model.keys().flat_map(|key| [key.clone(), [key, &b"?"[..]].concat()]).collect();
    let values = table.get_many(&asked).unwrap();
    assert_eq!(values.len(), asked.len());
    for (key, value) in asked.iter().zip(values) {
        assert_eq!(value.as_ref(), model.get(key), "key {}", key.escape_ascii());
    }
    let mut found = BTreeMap::new();
    for pair in table.scan() {
        let (key, value) = pair.unwrap();
        assert!(found.insert(key, value).is_none(), "a key was given twice");
    }
    assert!(&found == model, "scan differs: {} pairs, expected {}", found.len(), model.len());
    assert_eq!(table.verify().unwrap(), []);
}

fn run(options: TableOptions, place: Place, ops: Vec<Op>) {
    let mut table = open(&options, &place);
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let fill_key = |i: u16| format!("fill {i}").into_bytes();
    for (step, op) in ops.into_iter().enumerate() {
        match op {
            Op::Put(k, len) => {
                table.put(&key(k), &value(step, len)).unwrap();
                model.insert(key(k), value(step, len));
            }
            Op::Insert(k, len) => {
                let absent = !model.contains_key(&key(k));
                assert_eq!(table.insert_new(&key(k), &value(step, len)).unwrap(), absent);
                model.entry(key(k)).or_insert_with(|| value(step, len));
            }
            Op::Append(k, len) => {
                table.append(&key(k), &value(step, len)).unwrap();
                model.entry(key(k)).or_default().extend(value(step, len));
            }
            Op::Remove(k) => assert_eq!(table.remove(&key(k)).unwrap(), model.remove(&key(k)).is_some()),
            Op::Update(k) => {
                // Reverses a value; removes the key if it is absent or its value is empty.
                let reversed = |old: Option<&[u8]>| {
                    old.filter(|v| !v.is_empty()).map(|v| v.iter().rev().copied().collect::<Vec<u8>>())
                };
                let expected = reversed(model.get(&key(k)).map(|v| &v[..]));
                assert_eq!(table.update(&key(k), reversed).unwrap(), expected.is_some());
                match expected {
                    Some(v) => model.insert(key(k), v),
                    None => model.remove(&key(k)),
                };
            }
            Op::Get(k) => {
                let expected = model.get(&key(k));
                assert_eq!(table.get(&key(k)).unwrap().as_ref(), expected);
                assert_eq!(table.get_ref(&key(k)).unwrap().as_deref(), expected.map(|v| &v[..]));
                assert_eq!(table.contains(&key(k)).unwrap(), expected.is_some());
                let mut buffer = vec![1, 2, 3];
                assert_eq!(table.get_into(&key(k), &mut buffer).unwrap(), expected.is_some());
                assert_eq!(&buffer, expected.unwrap_or(&Vec::new()));
            }
            Op::Scan => same(&table, &model),
            Op::Clear => {
                table.clear().unwrap();
                model.clear();
            }
            Op::Compact => {
                table.compact().unwrap();
                same(&table, &model);
            }
            Op::Sync => table.sync().unwrap(),
            Op::Reopen => {
                if matches!(place, Place::File(_)) {
                    table.close().unwrap();
                    table = open(&options, &place);
                    same(&table, &model);
                }
            }
            Op::Fill(n) => {
                for i in 0..n % 600 {
                    table.put(&fill_key(i), &value(step, 20)).unwrap();
                    model.insert(fill_key(i), value(step, 20));
                }
            }
            Op::Empty(n) => {
                for i in n % 600..600 {
                    assert_eq!(table.remove(&fill_key(i)).unwrap(), model.remove(&fill_key(i)).is_some());
                }
            }
        }
    }
    same(&table, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn table_behaves_like_a_btreemap(
        ops in proptest::collection::vec(op(), 1..120),
        page_bytes in prop::sample::select(vec![512u32, 1024, 8192, 65536]),
        fill_factor in prop::sample::select(vec![None, Some(1), Some(2), Some(60)]),
        bad_hash in any::<bool>(),
        place in 0..3,
    ) {
        let mut options = TableOptions::new().page_bytes(page_bytes).seed(1);
        if let Some(pairs) = fill_factor {
            options = options.fill_factor(pairs);
        }
        if bad_hash {
            // Only four hash values, some of which differ in the highest bits.
            options = options.user_hash("bad", |key| (key.len() as u64 % 2) << 63 | (key.len() as u64 / 2 % 2) << 1);
        }
        let place = match place {
            0 => Place::Memory,
            1 => Place::Spilling,
            _ => Place::File(tempfile::tempdir().unwrap()),
        };
        run(options, place, ops);
    }
}

#[test]
fn walks_end_where_their_caller_says() {
    let directory = tempfile::tempdir().unwrap();
    let table = Table::open(directory.path().join("a.spt")).unwrap();
    (0..5000u32).for_each(|key| table.put(&key.to_le_bytes(), b"value").unwrap());
    table.checkpoint().unwrap();
    let count = AtomicUsize::new(0);
    let within = |limit: usize| {
        count.store(0, Relaxed);
        let count = &count;
        move || if count.fetch_add(1, Relaxed) < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    assert!(table.verify_while(within(usize::MAX)).unwrap().is_empty());
    let asked = count.load(Relaxed);
    for limit in [0, asked / 2, asked - 1] {
        assert_eq!(table.verify_while(within(limit)).unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(count.load(Relaxed), limit + 1);
    }
    assert_eq!(table.survey_while(within(usize::MAX)).unwrap().pairs, 5000);
    assert_eq!(table.survey_while(within(3)).unwrap_err().kind(), ErrorKind::Stopped);
    table.put(b"and on", b"it goes").unwrap();
}

#[test]
fn a_hundred_thousand_keys_of_one_hash_are_kept() {
    let table = TableOptions::new().user_hash("constant", |_| 42).in_memory().unwrap();
    const COUNT: u32 = 100_000;
    for i in 0..COUNT {
        table.put(&i.to_le_bytes(), b"").unwrap();
    }
    assert_eq!(table.len(), u64::from(COUNT));
    for i in (0..COUNT).step_by(997) {
        assert!(table.contains(&i.to_le_bytes()).unwrap());
    }
    assert!(!table.contains(&COUNT.to_le_bytes()).unwrap());
    assert_eq!(table.scan().count(), COUNT as usize);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn the_last_hash_function_that_is_chosen_counts() {
    let directory = tempfile::tempdir().unwrap();
    let own = || TableOptions::new().user_hash("constant", |_| 42);
    let choices = [
        (own().hash(HashKind::Xxh3), HashKind::Xxh3),
        (own().hash(HashKind::User), HashKind::User),
        (TableOptions::new().hash(HashKind::Xxh3).user_hash("constant", |_| 42), HashKind::User),
    ];
    for (number, (options, kind)) in choices.into_iter().enumerate() {
        let path = directory.path().join(format!("{number}.spt"));
        options.clone().open(&path).unwrap().put(b"key", b"value").unwrap();
        let table = options.open(&path).unwrap();
        assert_eq!((table.hash_function().kind(), table.len()), (kind, 1));
    }
}

#[test]
pub(super) fn a_hash_function_that_panics_in_a_split_leaves_the_table_whole() {
    let countdown = Arc::new(AtomicUsize::new(usize::MAX));
    let watched = countdown.clone();
    let table = TableOptions::new()
        .page_bytes(512)
        .user_hash("panics", move |key| {
            if watched.fetch_sub(1, Relaxed) == 0 {
                panic!("the user's hash function");
            }
            crate::HashKind::Xxh3.hash(key, 1)
        })
        .in_memory()
        .unwrap();
    let mut expected = BTreeMap::new();
    let mut panics = 0;
    for i in 0..3000u32 {
        let key = i.to_le_bytes();
        // If this put splits, a split is in progress at the third call of the function.
        countdown.store(1 + i as usize % 7, Relaxed);
        let put = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.put(&key, b"a value of some length")));
        countdown.store(usize::MAX, Relaxed);
        panics += usize::from(put.is_err());
        // The put was complete before the split began.
        expected.insert(key.to_vec(), b"a value of some length".to_vec());
    }
    assert!(panics > 20, "{panics} panics, too few to mean anything");
    same(&table, &expected);
}

#[test]
fn buckets_prepared_for_a_split_that_never_happened_are_no_fault() {
    let panics = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let watched = panics.clone();
    let hash = move |key: &[u8]| {
        assert!(!watched.load(Relaxed) || key.len() != 4, "the user's hash function");
        crate::HashKind::Xxh3.hash(key, 1)
    };
    let table = TableOptions::new().page_bytes(512).user_hash("panics", hash).in_memory().unwrap();
    // Until the next bucket is the first of a group.
    (0u32..)
        .take_while(|_| table.buckets.view().max_bucket() != 31)
        .for_each(|i| table.put(&i.to_le_bytes(), &[7; 30]).unwrap());
    // From here on only these keys panic, so only splits panic, and no split completes.
    panics.store(true, Relaxed);
    for i in 0..2000u64 {
        let put = || table.put(&i.to_le_bytes(), &[7; 30]);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(put));
    }
    panics.store(false, Relaxed);
    assert_eq!(table.buckets.view().max_bucket(), 31);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn an_update_that_panics_changes_nothing() {
    let table = Table::in_memory().unwrap();
    table.put(b"k", b"v").unwrap();
    let update =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| table.update(b"k", |_| panic!("the closure"))));
    assert!(update.is_err());
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(table.update(b"k", |_| Some(b"w".to_vec())).unwrap());
}

#[test]
fn a_write_that_waits_for_its_own_value_is_an_error() {
    let table = Table::in_memory().unwrap();
    table.put(b"k", b"v").unwrap();
    let value = table.get_ref(b"k").unwrap().unwrap();
    assert_eq!(table.put(b"k", b"w").unwrap_err().kind(), ErrorKind::WouldDeadlock);
    assert_eq!(&*value, b"v");
    drop(value);
    table.put(b"k", b"w").unwrap();
}

#[test]
fn a_clear_by_a_thread_that_holds_a_value_changes_nothing() {
    let table = Table::in_memory().unwrap();
    (0..2000u32).for_each(|n| table.put(&n.to_le_bytes(), &[7; 40]).unwrap());
    let is_held = || refuse_to_wait_with_values().is_err();
    // A value in an overflow page is copied, not held.
    let held = (0..2000u32).map(|n| table.get_ref(&n.to_le_bytes()).unwrap().unwrap()).find(|_| is_held());
    assert_eq!(table.clear().unwrap_err().kind(), ErrorKind::WouldDeadlock);
    drop(held.expect("most values lie in the page of their bucket"));
    assert!((0..2000u32).all(|n| table.contains(&n.to_le_bytes()).unwrap()));
    table.clear().unwrap();
    assert!(table.is_empty() && table.verify().unwrap().is_empty());
}

#[test]
fn a_write_by_the_function_that_chooses_a_part_is_refused() {
    let table = Table::in_memory().unwrap();
    for value in [vec![1; 10], vec![1; 30_000]] {
        table.put(b"k", &value).unwrap();
        let (mut refused, mut part) = (None, Vec::new());
        let choose = |len| {
            refused = table.put(b"k", b"w").err();
            0..len
        };
        assert_eq!(table.get_part(b"k", choose, &mut part).unwrap(), Some(value.len()));
        assert_eq!((refused.unwrap().kind(), part == value), (ErrorKind::WouldDeadlock, true));
    }
}

#[test]
fn a_part_that_would_wait_with_a_value_held_is_written_whole_or_not_at_all() {
    let table = Table::in_memory().unwrap();
    (0..100u8).for_each(|n| table.put(&[n], &[3; 30]).unwrap());
    let mut tried = 0;
    for n in 0..40u8 {
        let old = vec![100 + n; 30_000];
        table.put(b"large", &old).unwrap();
        let is_of_large = |frame: &u32| table.pager.read(*frame).unwrap().iter().all(|&byte| byte == old[0]);
        let frames: Vec<u32> = (0..table.pager.frame_count()).filter(is_of_large).collect();
        let held = table.get_ref(&[n]).unwrap();
        if refuse_to_wait_with_values().is_ok() {
            continue; // it was copied
        }
        // As an eviction does while it copies a frame.
        let latch = table.pager.read(frames[3]).unwrap();
        let written = table.write_part(b"large", 0, &[2; 30_000]);
        drop((latch, held));
        tried += 1;
        let expected = if written.is_ok() { vec![2; 30_000] } else { old };
        assert!(table.get(b"large").unwrap().as_ref() == Some(&expected), "beside {n}: {written:?}");
    }
    assert!(tried > 0, "no value was held");
}

#[test]
fn a_table_that_loses_its_pairs_shrinks_and_its_file_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..100_000u32 {
        table.put(&i.to_le_bytes(), &[7; 40]).unwrap();
    }
    table.checkpoint().unwrap();
    let full = std::fs::metadata(&path).unwrap().len();
    for i in 0..99_000u32 {
        assert!(table.remove(&i.to_le_bytes()).unwrap());
    }
    assert!(table.survey().unwrap().buckets < 200, "{} buckets for 1000 pairs", table.survey().unwrap().buckets);
    table.compact().unwrap();
    let shrunk = std::fs::metadata(&path).unwrap().len();
    assert!(shrunk < full / 25, "{shrunk} bytes of {full}");
    assert_eq!(table.verify().unwrap(), []);
    for i in 99_000..100_000u32 {
        assert_eq!(table.get(&i.to_le_bytes()).unwrap().as_deref(), Some(&[7; 40][..]));
    }
}

#[test]
fn a_value_is_copied_to_a_buffer_that_it_fits_in() {
    let table = TableOptions::new().page_bytes(512).fill_factor(2).in_memory().unwrap();
    let value: Vec<u8> = (0..3000u32).map(|i| (i * 7 + i / 256) as u8).collect();
    for len in 0..3000usize {
        table.put(&(len as u32).to_le_bytes(), &value[len / 2..][..len / 2]).unwrap();
    }
    for round in 0..3 {
        for len in 0..3000usize {
            let (key, expected) = ((len as u32).to_le_bytes(), &value[len / 2..][..len / 2]);
            let capacity = (expected.len() + round).saturating_sub(1);
            let mut buffer = vec![0xEE; capacity + 9];
            assert_eq!(table.get_to(&key, &mut buffer[..capacity]).unwrap(), Some(expected.len()));
            if expected.len() <= capacity {
                assert_eq!(&buffer[..expected.len()], expected);
            }
            assert_eq!(buffer[capacity..], [0xEE; 9]);
        }
    }
    assert_eq!(table.get_to(b"absent", &mut [0; 8]).unwrap(), None);
}

#[test]
fn a_cancelled_compaction_leaves_the_table_whole_and_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    for i in 0..50_000u32 {
        table.put(&i.to_le_bytes(), &[7; 40]).unwrap();
    }
    for i in (0..50_000u32).filter(|i| i % 3 != 0) {
        assert!(table.remove(&i.to_le_bytes()).unwrap());
    }
    let mut calls = 0;
    let completed = table.compact_with(|done, all| {
        calls += 1;
        assert!(done < all);
        if calls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!(completed.unwrap_err().kind(), ErrorKind::Stopped);
    assert_eq!(calls, 3);
    assert_eq!(table.verify().unwrap(), []);
    table.compact_with(|_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(table.verify().unwrap(), []);
    assert_eq!(table.len(), 50_000 / 3 + 1);
}

#[test]
fn a_scan_resumed_by_its_cursor_gives_each_pair_once_while_the_table_grows_and_shrinks() {
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    for i in 0..2000u32 {
        table.put(format!("stays {i}").as_bytes(), b"v").unwrap();
    }
    let mut seen = BTreeMap::new();
    let mut cursor = Some(0);
    let mut round = 0u32;
    while let Some(at) = cursor {
        let mut scan = table.scan_from(at);
        let mut given = 0;
        while given < 50 || !scan.at_boundary() {
            let Some((key, _)) = scan.next_ref().unwrap() else { break };
            given += 1;
            if key.starts_with(b"stays") {
                assert!(seen.insert(key.to_vec(), ()).is_none(), "{} twice", key.escape_ascii());
            }
        }
        cursor = scan.cursor();
        round += 1;
        for i in 0..1000u32 {
            let key = format!("comes and goes {i}");
            if round % 4 < 2 {
                table.put(key.as_bytes(), &[0; 50]).unwrap()
            } else {
                table.remove(key.as_bytes()).map(|_| ()).unwrap()
            }
        }
    }
    assert_eq!(seen.len(), 2000);
    assert!(round > 10);
}

#[test]
fn a_scan_of_the_whole_table_resumes_between_two_buckets() {
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    const PAIRS: usize = 3000;
    for i in 0..PAIRS as u32 {
        // Some values in extents.
        table.put(format!("key {i}").as_bytes(), &vec![i as u8; if i % 100 == 0 { 500 } else { 20 }]).unwrap();
    }
    for taken in [1, 10, 50] {
        let mut scan = table.scan();
        let mut keys = BTreeMap::new();
        let mut count = 0;
        while count < taken || !scan.at_boundary() {
            let (key, value) = scan.next_ref().unwrap().unwrap();
            keys.insert(key.to_vec(), value.to_vec());
            count += 1;
            let rest: BTreeMap<_, _> = table.scan_from(scan.cursor().unwrap()).map(|pair| pair.unwrap()).collect();
            let again = keys.keys().filter(|key| rest.contains_key(*key)).count();
            assert_eq!(again == 0, scan.at_boundary(), "{count} taken");
            assert_eq!(keys.len() + rest.len() - again, PAIRS, "{count} taken");
        }
        let rest = table.scan_from(scan.cursor().unwrap());
        keys.extend(rest.map(|pair| pair.unwrap()));
        assert!(keys.iter().all(|(key, value)| table.get(key).unwrap().as_ref() == Some(value)));
        assert_eq!(keys.len(), PAIRS);
    }
}

#[test]
fn a_table_with_a_small_cache_keeps_to_it() {
    let directory = tempfile::tempdir().unwrap();
    const CACHE_BYTES: u64 = 1 << 20;
    let table = TableOptions::new().cache_bytes(CACHE_BYTES).open(directory.path().join("t.spt")).unwrap();
    for i in 0..400_000u32 {
        table.put(&i.to_le_bytes(), &i.to_be_bytes()).unwrap();
    }
    for i in 0..400_000u32 {
        assert_eq!(table.get(&i.to_le_bytes()).unwrap().as_deref(), Some(&i.to_be_bytes()[..]));
    }
    let stat = table.survey().unwrap();
    assert!(stat.file_bytes > 4 * CACHE_BYTES);
    assert!(stat.memory_bytes < 2 * CACHE_BYTES, "{} bytes resident", stat.memory_bytes);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn keys_and_values_of_any_length_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let table = Table::open(&path).unwrap();
    let long_key = value(1, 1 << 20);
    let long_value = value(2, 10 << 20);
    table.put(b"", b"").unwrap();
    table.put(b"only a key", b"").unwrap();
    table.put(&long_key, b"").unwrap();
    table.append(&long_key, &long_value).unwrap();
    let mut nearly = long_key.clone();
    *nearly.last_mut().unwrap() ^= 1;
    table.put(&nearly, b"another").unwrap();
    table.close().unwrap();
    let table = Table::open(&path).unwrap();
    assert_eq!(table.get(b"").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(table.get(b"only a key").unwrap().as_deref(), Some(&b""[..]));
    assert!(table.get(&long_key).unwrap().unwrap() == long_value);
    assert_eq!(table.get(&nearly).unwrap().as_deref(), Some(&b"another"[..]));
    assert_eq!(table.verify().unwrap(), []);
    assert!(table.remove(&long_key).unwrap());
    assert!(table.remove(b"").unwrap());
    assert_eq!(table.len(), 2);
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
#[ignore = "slow: a value of 1 GiB, 3 GiB of memory; `make slow` runs it"]
fn a_value_of_a_gibibyte_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let large = value(3, 1 << 30);
    let table = Table::open(&path).unwrap();
    table.put(b"large", &large).unwrap();
    table.append(b"large", b" and a little more").unwrap();
    table.close().unwrap();
    let table = Table::open(&path).unwrap();
    let found = table.get(b"large").unwrap().unwrap();
    assert!(found[..large.len()] == large[..]);
    assert_eq!(&found[large.len()..], b" and a little more");
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn lookups_during_writes_return_only_values_that_were_stored() {
    const KEYS: u32 = 40;
    const ROUNDS: u32 = 20_000;
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    // Each value repeats one byte, so a mix of two values would be noticed, and so would a missing key.
    let write = |round: u32| {
        for i in 0..KEYS {
            table.put(&i.to_le_bytes(), &vec![round as u8; 1 + (i + 7 * round) as usize % 60]).unwrap();
        }
    };
    write(0);
    let done = AtomicBool::new(false);
    let (table, done) = (&table, &done);
    std::thread::scope(|threads| {
        threads.spawn(move || {
            for round in 1..ROUNDS {
                write(round);
                // Grow and shrink, so that buckets split and merge while they are read.
                for i in KEYS..2 * KEYS {
                    if round % 2 == 1 {
                        table.put(&i.to_le_bytes(), &[1; 40]).unwrap()
                    } else {
                        drop(table.remove(&i.to_le_bytes()))
                    }
                }
            }
            done.store(true, Relaxed);
        });
        let check = |i: u32, value: Option<&[u8]>| {
            let value = value.unwrap_or_else(|| panic!("key {i} was there throughout"));
            assert!(value.iter().all(|&b| b == value[0]), "a mix of two values: {value:?}");
        };
        threads.spawn(move || {
            let mut value = Vec::new();
            while !done.load(Relaxed) {
                for i in 0..KEYS {
                    let found = table.get_into(&i.to_le_bytes(), &mut value).unwrap();
                    check(i, found.then_some(&value));
                }
            }
        });
        threads.spawn(move || {
            let keys: Vec<[u8; 4]> = (0..KEYS).map(u32::to_le_bytes).collect();
            while !done.load(Relaxed) {
                table.get_many_with(&keys, |i, value| check(i as u32, value)).unwrap();
            }
        });
    });
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn writes_of_many_are_the_writes_one_by_one() {
    let (one, many) = (TableOptions::new().page_bytes(512), TableOptions::new().page_bytes(512));
    let (one, many) = (one.in_memory().unwrap(), many.in_memory().unwrap());
    // Keys repeat within a call, and values are stored in every way.
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..3000u32)
        .map(|i| (format!("key {}", i * i % 700).into_bytes(), vec![i as u8; (i as usize * 37) % 900]))
        .collect();
    for (n, pairs) in pairs.chunks(97).enumerate() {
        if n % 2 == 0 {
            pairs.iter().for_each(|(k, v)| one.put(k, v).unwrap());
            many.put_many(pairs).unwrap();
        } else {
            let lens: Vec<usize> = pairs.iter().map(|(k, v)| one.append(k, v).unwrap()).collect();
            assert_eq!(many.append_many(pairs).unwrap(), lens);
            let (key, _) = pairs.last().unwrap();
            assert_eq!(one.get(key).unwrap().unwrap().len(), lens[lens.len() - 1]);
        }
    }
    let content = |table: &Table| table.scan().map(|p| p.unwrap()).collect::<BTreeMap<_, _>>();
    assert!(content(&one) == content(&many));
    assert_eq!((one.len(), many.verify().unwrap()), (many.len(), vec![]));
    many.put_many(&[] as &[(&str, &str)]).unwrap();
}

#[test]
fn limited_appends_and_removals_of_many_are_those_one_by_one() {
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    let mut model: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let key = |i: u32| format!("key {}", i * i % 300).into_bytes();
    let limit = |i: usize| if i.is_multiple_of(7) { 100 } else { 2000 };
    for round in 0..20u32 {
        // Keys repeat within a call; a value that is exactly as long as its limit is allowed.
        let pairs: Vec<_> = (0..97).map(|i| (key(round * 97 + i), vec![b'x'; (i * 37 % 500) as usize])).collect();
        let expected: Vec<Option<usize>> = (0..97)
            .map(|i| {
                let (before, (key, tail)) = (model.get(&pairs[i].0).copied(), &pairs[i]);
                let len = before.unwrap_or(0) + tail.len();
                (len <= limit(i)).then(|| {
                    model.insert(key.clone(), len);
                    len
                })
            })
            .collect();
        let mut got = Vec::new();
        table
            .append_many_within(&pairs, limit, |index, len| {
                assert_eq!(index, got.len());
                got.push(len);
            })
            .unwrap();
        assert_eq!(got, expected, "round {round}");
        let keys: Vec<_> = (0..31).map(|i| key(round * 31 + 7 * i)).collect();
        let removed: Vec<bool> = keys.iter().map(|key| model.remove(key).is_some()).collect();
        let mut got = Vec::new();
        table.remove_many_with(&keys, |_, was_present| got.push(was_present)).unwrap();
        assert_eq!(got, removed);
    }
    let content: BTreeMap<Vec<u8>, usize> = table.scan().map(|p| p.unwrap()).map(|(k, v)| (k, v.len())).collect();
    assert_eq!((content, table.verify().unwrap()), (model, vec![]));
}

#[test]
fn an_empty_value_whose_key_fills_its_extent_is_put_again() {
    // A key of three units, too long for its bucket's page. In some tables one ends before the page of its own bucket.
    let key = |number: u32| [&number.to_le_bytes()[..], &[7; 188]].concat();
    for seed in 0..300 {
        let table = TableOptions::new().page_bytes(1024).seed(seed).in_memory().unwrap();
        (0..200).for_each(|number| table.put(&key(number), b"").unwrap());
        (0..200).for_each(|number| table.put(&key(number), b"").unwrap());
        assert_eq!(table.len(), 200);
    }
}

#[test]
fn a_bucket_that_was_always_empty_has_its_level_once_it_is_cleared() {
    let table = TableOptions::new().expected_len(10_000).in_memory().unwrap();
    let last = table.buckets.view().max_bucket();
    assert!(last > 100);
    for bucket in 0..=last {
        table.buckets.clear_bucket(bucket).unwrap();
    }
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn a_table_and_its_errors_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Table>();
    shared::<crate::Error>();
}

#[test]
fn replace_gives_the_earlier_value_and_compare_and_set_changes_only_the_expected_one() {
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    for old in [&b"small"[..], &[7; 5000]] {
        assert_eq!(table.replace(b"k", old).unwrap(), None);
        assert_eq!(table.replace(b"k", b"new").unwrap().as_deref(), Some(old));
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"new"[..]));
        assert!(!table.compare_and_set(b"k", Some(old), Some(b"other")).unwrap());
        assert!(!table.compare_and_set(b"k", None, Some(b"other")).unwrap());
        assert!(!table.compare_and_set(b"k", None, None).unwrap());
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"new"[..]));
        assert!(table.compare_and_set(b"k", Some(b"new"), Some(old)).unwrap());
        assert!(table.compare_and_set(b"k", Some(old), None).unwrap());
        assert!(table.compare_and_set(b"k", None, None).unwrap());
        assert!(table.is_empty());
    }
    assert!(table.compare_and_set(b"k", None, Some(b"1")).unwrap());
    assert_eq!(table.verify().unwrap(), []);
}

#[test]
fn parts_of_hash_order_are_apart_and_together_the_whole_table() {
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    for i in 0..3000u32 {
        table.put(&i.to_le_bytes(), &[i as u8; 20]).unwrap();
    }
    for bits in [0, 1, 3, 12] {
        let mut keys = Vec::new();
        for part in 0..1u64 << bits {
            let prefix = part.checked_shl(64 - bits).unwrap_or(0);
            for pair in table.scan_prefix(prefix, bits) {
                let (key, _) = pair.unwrap();
                let position = linear::Position::of(table.hash_function().hash(&key)).0;
                assert_eq!(position.checked_shr(64 - bits).unwrap_or(0), part);
                keys.push(key);
            }
        }
        assert_eq!(keys, table.scan_from(0).map(|pair| pair.unwrap().0).collect::<Vec<_>>(), "{bits} bits");
    }
}

#[test]
fn a_lookup_that_is_ready_has_the_answer_of_one_that_waits() {
    let table = TableOptions::new().page_bytes(512).fill_factor(40).in_memory().unwrap();
    for i in 0..5000u32 {
        // Overflow pages, and an extent for every 50th key.
        table.put(&i.to_le_bytes(), &vec![i as u8; if i % 50 == 0 { 3000 } else { 20 }]).unwrap();
    }
    let (mut ready, mut waited) = (b"old".to_vec(), Vec::new());
    let mut answers = 0;
    for i in 0..10_000u32 {
        let found = table.get_ready(&i.to_le_bytes(), &mut ready);
        assert_eq!(table.get_into(&i.to_le_bytes(), &mut waited).unwrap(), i < 5000);
        if let Some(found) = found {
            assert_eq!((found, &ready), (i < 5000, &waited));
            answers += 1;
        } else {
            assert!(ready.is_empty());
        }
    }
    // Extents and samples need the latch.
    assert!((5000..10_000).contains(&answers), "{answers} answers");
}

#[test]
fn puts_and_splits_note_where_overflow_pages_are() {
    let table = Table::in_memory().unwrap();
    for i in 0..6_000u32 {
        table.put(&i.to_le_bytes(), &[7; 32]).unwrap();
    }
    let (buckets, with_overflow) = table.buckets.check_expected();
    assert!(buckets > 200 && with_overflow > buckets / 10, "{with_overflow} of {buckets} have an overflow page");
}

#[test]
fn wrong_numbers_of_overflow_pages_change_nothing() {
    let table = Table::in_memory().unwrap();
    for i in 0..6_000u32 {
        table.put(&i.to_le_bytes(), &[7; 32]).unwrap();
        if i % 500 == 0 {
            table.buckets.note_nonsense();
        }
    }
    table.buckets.note_nonsense();
    for i in 0..6_000u32 {
        assert!(table.remove(&i.to_le_bytes()).unwrap());
        table.put(&(i + 10_000).to_le_bytes(), &[8; 40]).unwrap();
    }
    assert_eq!((table.len(), table.verify().unwrap()), (6_000, vec![]));
}
