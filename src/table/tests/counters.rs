//! Counters compared with the operations made.

use crate::buckets::{Activity, INTERVAL};
use crate::table::TableOptions;
use crate::table::counters::{COUNT, TableCounters};

const EACH: u64 = INTERVAL as u64;

#[test]
fn every_lookup_is_counted_with_what_it_touched() {
    Activity::sample_all();
    let table = TableOptions::new().page_bytes(512).seed(1).in_memory().unwrap();
    table.put(b"here", b"1").unwrap();
    for _ in 0..3 {
        table.get(b"here").unwrap();
    }
    assert!(table.contains(b"here").unwrap());
    drop(table.get_ref(b"here").unwrap());
    table.get_many(&["here", "absent", "here"]).unwrap();
    assert!(!table.contains(b"not here").unwrap());
    assert!(table.get_ref(b"not there").unwrap().is_none());
    let stats = table.counters();
    assert_eq!((stats.hits, stats.hit_pages, stats.hit_keys), (7 * EACH, 7 * EACH, 7 * EACH));
    assert_eq!((stats.misses, stats.miss_pages, stats.miss_keys), (3 * EACH, 3 * EACH, 0));
    assert_eq!((stats.lookups(), stats.hit_share(), stats.pages_per_hit()), (10 * EACH, 0.7, 1.0));
    assert_eq!((stats.keys_per_miss(), stats.overflow_share()), (0.0, 0.0));
}

#[test]
fn lookups_in_overflow_pages_touch_two_pages_and_keys_of_the_same_tag_are_compared() {
    Activity::sample_all();
    // One bucket for all keys, since their hashes are equal.
    let table = TableOptions::new().page_bytes(512).user_hash("one", |_| 7).in_memory().unwrap();
    for i in 0..60u8 {
        table.put(&[i; 8], &[i; 8]).unwrap();
    }
    let stat = table.survey().unwrap();
    assert!(stat.overflow_pages == 1 && stat.overflow_pairs > 10, "{stat:?}");
    for i in 0..60u8 {
        assert!(table.contains(&[i; 8]).unwrap());
    }
    let stats = table.counters();
    assert_eq!(stats.hits, 60 * EACH);
    assert_eq!(stats.hit_pages, (60 + stat.overflow_pairs) * EACH);
    assert_eq!(stats.overflow_lookups, stat.overflow_pairs * EACH);
    // In any order, the first record is compared with one key, the last with all before it.
    let pairs_here = 60 - stat.overflow_pairs;
    let compared = pairs_here * (pairs_here + 1) / 2
        + stat.overflow_pairs * pairs_here
        + stat.overflow_pairs * (stat.overflow_pairs + 1) / 2;
    assert_eq!(stats.hit_keys, compared * EACH);
    assert!(!table.contains(b"absent").unwrap());
    assert_eq!(table.counters().miss_keys, 60 * EACH);
}

#[test]
fn changes_are_counted_one_by_one() {
    let table = TableOptions::new().page_bytes(512).in_memory().unwrap();
    for i in 0..2000u32 {
        table.put(&i.to_le_bytes(), b"1").unwrap();
    }
    table.append(&0u32.to_le_bytes(), b"2").unwrap();
    assert!(!table.insert_new(&0u32.to_le_bytes(), b"3").unwrap());
    assert!(!table.remove(b"absent").unwrap());
    let mut batch = table.batch();
    batch.put(b"batch", b"1").unwrap();
    batch.remove(&1u32.to_le_bytes()).unwrap();
    batch.remove(b"absent").unwrap();
    batch.commit().unwrap();
    let stats = table.counters();
    assert_eq!((stats.puts, stats.removals, stats.pairs), (2002, 1, 2000));
    let stat = table.survey().unwrap();
    assert_eq!((stats.buckets, stats.splits), (stat.buckets, stat.splits));
    assert!(stats.splits > 10, "{stats:?}");
    for i in 1..2000u32 {
        table.remove(&i.to_le_bytes()).unwrap();
    }
    let later = table.counters();
    assert_eq!((later.removals, later.buckets), (1999, table.survey().unwrap().buckets));
    assert!(later.merges > 10, "{later:?}");
    let since = later.since(&stats);
    assert_eq!((since.puts, since.removals, since.pairs), (0, 1998, 2));
}

#[test]
fn samples_of_many_threads_add_up_to_about_all_lookups() {
    // Threads with few lookups and with many; hits and misses alternate, so an even sampling interval would miss one
    // kind.
    let table = TableOptions::new().in_memory().unwrap();
    table.put(b"here", b"1").unwrap();
    const THREADS: u64 = 200;
    const LOOKUPS: u64 = 2 * (THREADS / 2 * 10 + THREADS / 2 * 4000);
    for thread in 0..THREADS {
        let lookups = if thread % 2 == 0 { 10 } else { 4000 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..lookups {
                    table.get(b"here").unwrap();
                    table.contains(b"absent").unwrap();
                }
            });
        });
    }
    let stats = table.counters();
    // Five standard deviations; the draws are the same in each run, apart from their distribution over threads.
    let error = 5.0 * (f64::from(INTERVAL) * LOOKUPS as f64).sqrt();
    assert!((stats.lookups() as f64 - LOOKUPS as f64).abs() < error, "{stats:?}, of {LOOKUPS}");
    assert!((stats.hits as f64 - stats.misses as f64).abs() < error, "{stats:?}");
}

#[test]
fn many_at_a_time_are_sampled_as_often_as_one_by_one() {
    let table = TableOptions::new().in_memory().unwrap();
    table.put(b"here", b"1").unwrap();
    const WINDOWS: u64 = 4000;
    for _ in 0..WINDOWS {
        table.get_many_with(&[b"here"; 32], |_, _| {}).unwrap();
    }
    let (hits, error) = (table.counters().hits as f64, 5.0 * (f64::from(INTERVAL) * 32.0 * WINDOWS as f64).sqrt());
    assert!((hits - 32.0 * WINDOWS as f64).abs() < error, "{hits}");
}

#[test]
fn frames_and_checkpoints_of_a_file_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options = || TableOptions::new().cache_bytes(1 << 20);
    let table = options().open(&path).unwrap();
    for i in 0..100_000u32 {
        table.put(&i.to_le_bytes(), &[0; 40]).unwrap();
    }
    table.checkpoint().unwrap();
    let stats = table.counters();
    assert!(stats.checkpoints > 0 && stats.frames_written > 256 && stats.evictions > 0, "{stats:?}");
    assert_eq!(stats.pairs, 100_000);
    assert_eq!(stats.payload_bytes, 44 * 100_000);
    table.close().unwrap();
    let table = options().open(&path).unwrap();
    for i in 0..100_000u32 {
        table.get(&i.to_le_bytes()).unwrap();
    }
    let stats = table.counters();
    let frames = stats.file_bytes / 4096;
    assert!(stats.frames_read > frames / 2 && stats.puts == 0, "{stats:?}");
    assert!(stats.memory_bytes < 2 << 20, "{stats:?}");
}

#[test]
fn numbers_keep_their_places() {
    let words = std::array::from_fn(|i| i as u64 + 1);
    assert_eq!(TableCounters::from_words(words).to_words(), words);
    assert_eq!(TableCounters::from_words([u64::MAX; COUNT]).lookups(), u64::MAX);
}
