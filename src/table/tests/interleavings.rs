//! Tests the orders in which threads can meet in a table, one order after another.
//!
//! Each scenario is a few operations of two to four threads on a small table. `shuttle` runs them as tasks that switch
//! at every atomic step of the protocol of latches, views and the gate (`pager/interleave.rs`). It uses random orders,
//! and those of PCT, where one task runs as long as it can: these find errors that need one thread to pause while
//! another does a lot. Each scenario asserts what must hold in every order, and `verify` checks the table at the end.
//!
//! `SPLITPOINT_SCENARIO=two_compactions cargo test interleavings` tries one scenario alone. `tests/mutants/` shows that
//! the scenarios detect errors.
//!
//! Keys are hashed to their first byte, so that a scenario knows which bucket each is in.

use crate::error::ErrorKind;
use crate::io::simulated::{Crash, Simulated, State, Tally};
use crate::pager::interleave::{crowd, step, take_turns};
use crate::pager::wal::Short;
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};

/// Runs `scenario` in `orders` orders of each kind. `scenario` returns whether the situation that it tests occurred.
fn try_orders(seed: u64, orders: usize, scenario: fn() -> bool) {
    HAPPENED.set(0);
    // The number of times that PCT preempts the running task.
    const DEPTH: usize = 3;
    run(RandomScheduler::new_from_seed(seed, orders), scenario);
    run(PctScheduler::new_from_seed(seed, DEPTH, orders), scenario);
    let happened = HAPPENED.get();
    assert!(happened > orders, "the situation of the scenario occurred in only {happened} of {} orders", 2 * orders);
}

thread_local! {
    /// The number of orders in which the tested situation occurred. It does not occur in all of them: for
    /// example, a split gives up if another thread holds the latch.
    static HAPPENED: Cell<usize> = const { Cell::new(0) };
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn() -> bool) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    // A scenario takes a few thousand steps; one that waits forever reaches this limit.
    config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
    shuttle::Runner::new(scheduler, config).run(move || {
        take_turns(false);
        crowd(false);
        HAPPENED.set(HAPPENED.get() + usize::from(scenario()));
    });
}

/// Runs the tasks concurrently.
fn together(tasks: &[&(dyn Fn() + Sync)]) {
    take_turns(true);
    shuttle::thread::scope(|scope| {
        for task in tasks {
            scope.spawn(task);
        }
    });
    take_turns(false);
}

fn options(page_bytes: u32, fill_factor: u32) -> TableOptions {
    let options = TableOptions::new().page_bytes(page_bytes).fill_factor(fill_factor);
    options.user_hash("first byte", |key| key.first().copied().unwrap_or(0).into())
}

/// Pages so small that eight share a frame and a latch.
const SHARED: u32 = 512;
/// Pages that each have their own frame.
const APART: u32 = 4096;

fn table(page_bytes: u32, fill_factor: u32, keys: impl IntoIterator<Item = u8>) -> Table {
    let table = options(page_bytes, fill_factor).in_memory().unwrap();
    put(&table, keys);
    table
}

fn put(table: &Table, keys: impl IntoIterator<Item = u8>) {
    keys.into_iter().for_each(|key| table.put(&[key], &[key; 20]).unwrap());
}

fn remove(table: &Table, keys: impl IntoIterator<Item = u8>) {
    keys.into_iter().for_each(|key| assert!(table.remove(&[key]).unwrap()));
}

/// Looks up keys that are present throughout, and some that never are, in every available way.
fn check_present(table: &Table, keys: &[u8]) {
    const NEVER: u8 = 128;
    for &key in keys {
        assert_eq!(table.get(&[key]).unwrap().as_deref(), Some(&[key; 20][..]), "key {key}");
        assert!(!table.contains(&[key + NEVER]).unwrap());
    }
}

fn check_present_latched(table: &Table, keys: &[u8]) {
    for &key in keys {
        assert_eq!(table.get_ref(&[key]).unwrap().as_deref(), Some(&[key; 20][..]), "key {key}");
    }
}

fn there_together(table: &Table, keys: &[u8]) {
    let keys: Vec<[u8; 1]> = keys.iter().map(|&key| [key]).collect();
    let check = |i: usize, value: Option<&[u8]>| assert_eq!(value, Some(&[keys[i][0]; 20][..]), "key {:?}", keys[i]);
    table.get_many_with(&keys, check).unwrap();
}

fn whole(table: &Table) {
    assert_eq!(table.verify().unwrap(), []);
}

/// Keys 4 to 7 move to new buckets while they are looked up.
fn lookups_beside_splits(page_bytes: u32) -> bool {
    let table = table(page_bytes, 2, 0..8);
    let splits = table.survey().unwrap().splits;
    together(&[
        &|| put(&table, 16..22),
        &|| check_present(&table, &[4, 0, 5]),
        &|| check_present_latched(&table, &[4, 6]),
        &|| there_together(&table, &[4, 5, 6]),
    ]);
    whole(&table);
    table.survey().unwrap().splits > splits
}

/// Bucket 1 is merged away, its space is reused, and it comes back elsewhere.
fn lookups_beside_a_bucket_that_goes_and_comes() -> bool {
    let table = table(APART, 4, [1, 0, 2, 3, 4]);
    assert_eq!(table.buckets.view().max_bucket(), 1);
    let place = table.buckets.location(1);
    together(&[
        &|| {
            remove(&table, [0, 2, 3, 4]);
            table.put(&[20], &[9; 4096]).unwrap(); // an extent, which takes the frame
            put(&table, [0, 2, 3]);
        },
        &|| check_present(&table, &[1, 1]),
        &|| check_present_latched(&table, &[1, 1]),
        &|| there_together(&table, &[1, 1]),
    ]);
    whole(&table);
    table.buckets.location(1) != place && table.buckets.view().max_bucket() == 1
}

/// Writers write to one bucket, to one key, and to buckets that split.
fn writers_beside_writers(page_bytes: u32) -> bool {
    let table = table(page_bytes, 2, 0..4);
    let write = |keys: [u8; 3], letter: u8| {
        for key in keys {
            table.put(&[key], &[key; 20]).unwrap();
            table.append(b"log", &[letter; 2]).unwrap();
            table.put(b"last", &[letter; 30]).unwrap();
        }
    };
    together(&[&|| write([8, 5, 6], b'a'), &|| write([16, 7, 4], b'b'), &|| remove(&table, 0..3)]);
    check_present(&table, &[3, 8, 5, 6, 16, 7, 4]);
    let log = table.get(b"log").unwrap().unwrap();
    assert!(log.chunks(2).all(|pair| pair[0] == pair[1]), "{log:?}");
    assert_eq!(log.iter().filter(|&&letter| letter == b'a').count(), 6, "{log:?}");
    assert_eq!(log.len(), 12);
    let last = table.get(b"last").unwrap().unwrap();
    assert!(last == [b'a'; 30] || last == [b'b'; 30]);
    assert_eq!(table.len(), 9);
    whole(&table);
    true
}

/// Records of one page change, grow, shrink, move and are removed while others are read; some are in its overflow page.
fn lookups_beside_changes_of_their_page() -> bool {
    let table = options(SHARED, 60).in_memory().unwrap();
    // Values long enough that some are in an overflow page. The first byte gives the length.
    let value = |n: u8| vec![n; 20 + usize::from(n)];
    (0..12).for_each(|key| table.put(&[key], &value(key + 30)).unwrap());
    assert!(table.survey().unwrap().overflow_pairs > 0, "the scenario is about overflow pages too");
    let check = |key: u8| {
        let found = table.get(&[key]).unwrap().expect("a key that is there throughout");
        assert_eq!(found, value(found[0]), "a mix of two values");
    };
    together(&[
        &|| {
            for (key, n) in [(1, 50), (6, 10), (1, 12), (7, 40), (1, 40)] {
                table.put(&[key], &value(n)).unwrap();
            }
            table.remove(&[2]).unwrap();
            table.append(&[3], &[33; 3]).unwrap();
        },
        &|| [1, 6, 0, 7].into_iter().for_each(check),
        &|| {
            let keys = [[1], [7], [5]];
            let same = |_, found: Option<&[u8]>| assert_eq!(found.map(|v| v == value(v[0])), Some(true));
            table.get_many_with(&keys, same).unwrap();
        },
        &|| [7, 1].into_iter().for_each(check),
    ]);
    whole(&table);
    true
}

/// A scan returns each pair that is present throughout exactly once.
fn a_scan_beside_splits_and_merges(page_bytes: u32) -> bool {
    let table = table(page_bytes, 2, 0..8);
    let scan = || {
        let mut stays: Vec<u8> = table.scan().map(|pair| pair.unwrap().0[0]).filter(|&key| key < 8).collect();
        stays.sort_unstable();
        assert_eq!(stays, [0, 1, 2, 3, 4, 5, 6, 7]);
    };
    together(&[&|| put(&table, 16..24), &scan, &|| remove(&table, []), &scan]);
    // Remove more than half, so that buckets merge.
    together(&[&|| remove(&table, 16..24), &scan, &|| put(&table, 32..35)]);
    whole(&table);
    true
}

/// Makes a table whose last group of buckets has free space before it.
fn with_a_hole() -> Table {
    let table = options(APART, 2).in_memory().unwrap();
    table.put(&[100], &[1; 5 * 4096]).unwrap();
    put(&table, 0..8);
    remove(&table, [100]);
    table
}

/// Groups of buckets move towards the start, and the file is truncated, while they are read.
fn lookups_beside_compaction() -> bool {
    let table = with_a_hole();
    let place = table.buckets.location(3);
    together(&[&|| table.compact().unwrap(), &|| check_present(&table, &[3, 2, 3, 2]), &|| {
        there_together(&table, &[2, 3]);
        check_present_latched(&table, &[3, 2]);
    }]);
    check_present(&table, &[0, 1, 2, 3, 4, 5, 6, 7]);
    whole(&table);
    table.buckets.location(3) != place
}

/// A reader that has latched a page does not notice a move, and writers latch the new page.
#[test]
fn a_group_of_buckets_that_is_being_read_does_not_move() {
    let table = with_a_hole();
    table.put(&[3], &[3; 9000]).unwrap();
    let (place, mut value) = (table.buckets.location(3), Vec::new());
    // The page is latched between the length and the value.
    let all = |len| {
        std::thread::scope(|scope| scope.spawn(|| table.compact().unwrap()).join().unwrap());
        assert_eq!(table.buckets.location(3), place);
        0..len
    };
    table.get_part(&[3], all, &mut value).unwrap();
    assert_eq!(value, [3; 9000]);
    table.compact().unwrap();
    assert_ne!(table.buckets.location(3), place);
    whole(&table);
}

/// A value stays unchanged while its bucket moves and its frame is truncated from the file.
fn a_value_held_beside_compaction() -> bool {
    let table = with_a_hole();
    together(&[&|| table.compact().unwrap(), &|| {
        for _ in 0..8 {
            let value = table.get_ref(&[3]).unwrap().unwrap();
            for _ in 0..20 {
                step();
                assert_eq!(&*value, [3; 20]);
            }
        }
    }]);
    whole(&table);
    true
}

/// Map frames move while checksums are read from them.
fn lookups_beside_map_frames_that_move() -> bool {
    let table = options(APART, 2).cache_bytes(1).in_memory().unwrap();
    table.put(&[100], &[1; 20 * 4096]).unwrap();
    // So large that there is a second zone, with map frames after the value that is removed.
    table.put(&[101], &vec![2; 520 * 4096]).unwrap();
    let value = |key: u8| [key; 3000];
    (0..8).for_each(|key| table.put(&[key], &value(key)).unwrap());
    remove(&table, [100]);
    // Fills the cache.
    table.get(&[101]).unwrap();
    let maps = table.pager.allocator().movable_maps(u32::MAX);
    let look = |keys: std::ops::Range<u8>| {
        keys.for_each(|key| assert_eq!(table.get(&[key]).unwrap().unwrap(), value(key), "key {key}"));
    };
    together(&[&|| table.compact().unwrap(), &|| look(0..4), &|| look(4..8)]);
    look(0..8);
    whole(&table);
    table.pager.allocator().movable_maps(u32::MAX) != maps
}

/// Two compactions exclude each other: until both have ended, no holes are kept, and all threads allocate near the
/// start.
fn two_compactions() -> bool {
    let table = with_a_hole();
    let compact = || {
        let go_on = |_, _| {
            step();
            assert!(table.pager.allocator().is_compacting());
            ControlFlow::Continue(())
        };
        table.compact_with(go_on).unwrap();
        step();
    };
    together(&[&compact, &compact]);
    assert!(!table.pager.allocator().is_compacting());
    whole(&table);
    true
}

/// A compaction cuts frames off only while no checkpoint is written.
fn a_compaction_beside_a_checkpoint() -> bool {
    let table = with_a_hole();
    let frames = || table.pager.frame_count();
    let before = frames();
    together(&[&|| table.compact().unwrap(), &|| {
        let _checkpoint = table.pager.checkpoint_lock().acquire().unwrap();
        let begun = frames();
        for _ in 0..2000 {
            step();
            assert!(frames() >= begun, "{} frames, {begun} when the checkpoint began", frames());
        }
    }]);
    whole(&table);
    frames() < before
}

/// Nothing changes while the gate is closed.
fn a_closed_gate_beside_writers() -> bool {
    let table = table(SHARED, 2, 0..4);
    together(&[
        &|| put(&table, 16..20),
        &|| remove(&table, 0..3),
        &|| {
            for _ in 0..2 {
                let closed = table.gate.close().unwrap();
                let before = (table.len(), table.gate.totals(), table.buckets.view().max_bucket());
                (0..4).for_each(|_| step());
                assert!(before == (table.len(), table.gate.totals(), table.buckets.view().max_bucket()));
                drop(closed);
            }
        },
        &|| assert_eq!(table.verify().unwrap(), []),
    ]);
    assert_eq!(table.len(), 5);
    whole(&table);
    true
}

/// Closes the gate with more threads than it has slots.
fn a_closed_gate_beside_writers_that_share_a_slot() -> bool {
    crowd(true);
    let happened = a_closed_gate_beside_writers();
    crowd(false);
    happened
}

/// Commits batches to buckets that split one after another while they are latched.
fn batches_beside_splits(page_bytes: u32) -> bool {
    let table = table(page_bytes, 2, 0..8);
    let splits = table.survey().unwrap().splits;
    let put_together = |keys: [u8; 3]| {
        let mut batch = table.batch();
        keys.iter().for_each(|&key| batch.put(&[key], &[key; 20]).unwrap());
        batch.commit().unwrap();
    };
    together(&[&|| put(&table, 16..22), &|| put_together([4, 13, 6]), &|| put_together([5, 7, 12])]);
    check_present(&table, &[0, 1, 2, 3, 4, 5, 6, 7, 12, 13]);
    whole(&table);
    table.survey().unwrap().splits > splits
}

/// Threads that hold a value write where another thread holds one: one of them gets an error, and there is no deadlock.
fn writers_that_hold_values() -> bool {
    let table = table(APART, 2, 0..4);
    let hold_and_put = |held: u8, written: u8| {
        let value = table.get_ref(&[held]).unwrap();
        if let Err(e) = table.put(&[written], &[written; 20]) {
            assert_eq!(e.kind(), ErrorKind::WouldDeadlock);
        }
        drop(value);
    };
    together(&[&|| hold_and_put(0, 1), &|| hold_and_put(1, 0), &|| drop(table.gate.close().unwrap())]);
    check_present(&table, &[0, 1, 2, 3]);
    whole(&table);
    true
}

/// A large value is refused, since its thread holds one in the same page: its extent is free before the gate closes.
fn a_refused_large_value_beside_a_closed_gate() -> bool {
    let table = logged(&Simulated::new(State::default()), 4 << 20);
    put(&table, 0..4);
    let refused = || {
        let value = table.get_ref(&[1]).unwrap().unwrap();
        assert_eq!(table.put(&[1], &[1; 9000]).unwrap_err().kind(), ErrorKind::WouldDeadlock);
        drop(value);
    };
    together(&[&refused, &|| stays_as_it_is(&table)]);
    check_present(&table, &[0, 1, 2, 3]);
    whole(&table);
    true
}

/// A compaction frees the holes that were kept: not while the gate is closed.
fn a_compaction_beside_a_closed_gate() -> bool {
    let table = logged(&Simulated::new(State::default()), 4 << 20);
    (0..24).for_each(|key| table.put(&[key], &[key; 1500]).unwrap());
    table.checkpoint().unwrap();
    put(&table, [3]); // its extent becomes a hole
    let has_kept = table.pager.allocator().maps_of_kept() > 0;
    together(&[&|| table.compact().unwrap(), &|| (0..8).for_each(|_| stays_as_it_is(&table))]);
    whole(&table);
    has_kept
}

/// Closes the gate for a while, in which no frame becomes dirty, and no unit free.
fn stays_as_it_is(table: &Table) {
    let _alone = table.gate.close().unwrap();
    let state = || (table.pager.pool().dirty_count(), table.pager.allocator().free_units().unwrap());
    let before = state();
    for _ in 0..20 {
        step();
        assert_eq!(state(), before, "a frame changes outside the gate");
    }
}

/// A part is written to a value that another thread takes: either the part is in what was taken, or there was no value.
fn a_part_beside_a_removal() -> bool {
    let table = logged(&Simulated::new(State::default()), 4 << 20);
    put(&table, 0..4);
    let (written, taken) = (Mutex::new(false), Mutex::new(None));
    together(&[&|| *written.lock().unwrap() = table.write_part(&[1], 0, b"X").unwrap(), &|| {
        *taken.lock().unwrap() = table.entry(&[1]).remove().unwrap()
    }]);
    let taken = taken.into_inner().unwrap().expect("nothing else removes it");
    assert_eq!(written.into_inner().unwrap(), taken[0] == b'X');
    check_present(&table, &[0, 2, 3]);
    whole(&table);
    true
}

/// Frames are evicted and read again while they are read and written.
fn lookups_beside_eviction() -> bool {
    let table = options(APART, 2).cache_bytes(1).in_memory().unwrap();
    put(&table, 0..4);
    table.checkpoint().unwrap();
    let (frame, _) = table.buckets.location(1);
    together(&[
        &|| (0..4).for_each(|_| _ = table.pager.pool().evict(frame)),
        &|| check_present(&table, &[1, 1, 3]),
        &|| there_together(&table, &[1, 0]),
        &|| put(&table, [1, 5]),
    ]);
    check_present(&table, &[0, 1, 2, 3, 5]);
    whole(&table);
    true
}

/// Writers continue while a checkpoint copies what they change.
fn a_checkpoint_beside_writers() -> bool {
    let table = options(APART, 2).cache_bytes(1).in_memory().unwrap();
    put(&table, 0..4);
    together(&[
        &|| (0..2).for_each(|_| table.checkpoint().unwrap()),
        &|| put(&table, [1, 8, 9, 10]),
        &|| remove(&table, [0]),
        &|| check_present(&table, &[2, 3]),
    ]);
    table.checkpoint().unwrap();
    // Evicts all frames, so that the next reads come from the file.
    (0..2 * table.pager.frame_count()).for_each(|turn| _ = table.pager.pool().evict(turn / 2));
    check_present(&table, &[1, 2, 3, 8, 9, 10]);
    whole(&table);
    true
}

/// Frames are written by a checkpoint, changed, evicted and read, all at once.
fn evictions_beside_a_checkpoint_of_blocks() -> bool {
    let disk = Simulated::new(State::default());
    let mut options = options(APART, 2).durability(Durability::Os).cache_bytes(4 << 20);
    options.storage = Arc::new(disk.clone());
    let table = options.clone().open("/disk/t.spt").unwrap();
    put(&table, 0..4);
    table.checkpoint().unwrap();
    put(&table, [1, 3]);
    let frames = [1, 3].map(|key| table.buckets.location(key).0);
    let evicted = AtomicUsize::new(0);
    let evict = || {
        for frame in frames.into_iter().cycle().take(6) {
            let gone = table.pager.frames().write_and_evict(frame) || table.pager.pool().evict(frame);
            evicted.fetch_add(usize::from(gone), Relaxed);
        }
    };
    together(&[&|| (0..2).for_each(|_| table.checkpoint().unwrap()), &evict, &|| put(&table, [1, 9, 11]), &|| {
        check_present(&table, &[3, 1, 3])
    }]);
    check_present(&table, &[0, 1, 2, 3, 9, 11]);
    whole(&table);
    table.checkpoint().unwrap();
    options.storage = Arc::new(survivors(&disk, Crash::LoseUnsynced));
    let after = options.open("/disk/t.spt").unwrap();
    check_present(&after, &[0, 1, 2, 3, 9, 11]);
    whole(&after);
    evicted.load(Relaxed) > 0
}

/// Opens a table with a log on a simulated disk.
fn logged(disk: &Simulated, log_bytes: u64) -> Table {
    let mut options = options(APART, 2).durability(Durability::Os).cache_bytes(4 << 20).log_bytes(log_bytes);
    options.storage = Arc::new(disk.clone());
    options.open("/disk/t.spt").unwrap()
}

fn survivors(disk: &Simulated, crash: Crash) -> Simulated {
    Simulated::new(disk.state().survivors(crash, &mut Random::new(&[1]), &mut Tally::default()))
}

/// Two records are so long that the log has them in pieces, which are interleaved.
fn long_records_beside_each_other() -> bool {
    let disk = Simulated::new(State::default());
    let table = logged(&disk, 4 << 20);
    // In two buckets, since a bucket's latch is held while a record is logged.
    put(&table, 0..4);
    let value = |key: u8| vec![key; 140_000];
    let put_long = |key: u8| table.put(&[key], &value(key)).unwrap();
    together(&[&|| put_long(1), &|| put_long(2)]);
    let after = logged(&survivors(&disk, Crash::Kill), 1);
    assert_eq!(after.get(&[1]).unwrap().unwrap(), value(1));
    assert_eq!(after.get(&[2]).unwrap().unwrap(), value(2));
    after.replayed() == 6
}

/// Writers leave short records for each other to place: each is in the log once.
fn writers_place_records_of_each_other() -> bool {
    let disk = Simulated::new(State::default());
    let table = logged(&disk, 4 << 20);
    put(&table, 0..4);
    let put_again = |key: u8| put(&table, [key; 4]);
    together(&[&|| put_again(0), &|| put_again(1), &|| put_again(2), &|| put_again(3)]);
    let after = logged(&survivors(&disk, Crash::Kill), 1);
    check_present(&after, &[0, 1, 2, 3]);
    assert_eq!(after.replayed(), 4 + 4 * 4);
    table.pager.log().is_some_and(|log| log.has_combined())
}

/// Threads that share a slot of the log learn where their own records end, not where the next record in it does.
fn writers_share_a_slot_of_the_log() -> bool {
    let table = logged(&Simulated::new(State::default()), 4 << 20);
    // So that the table's end makes none: these records are no changes.
    table.checkpoint().unwrap();
    let log = table.pager.log().unwrap();
    let room = log.reserve(4096).unwrap().unwrap();
    let ends = Mutex::new(BTreeSet::new());
    let leave = || {
        for _ in 0..3 {
            let mut short = Short::new();
            let end = log.place_by_slot(room.put_together(1, &[b"record"], &mut short).unwrap()).unwrap();
            assert!(ends.lock().unwrap().insert(end), "two records end at {end}");
        }
    };
    crowd(true);
    together(&[&leave, &leave, &leave]);
    crowd(false);
    log.has_combined()
}

/// A sync of several replayed segments runs while a checkpoint frees their files.
fn a_sync_of_what_was_replayed_beside_a_checkpoint() -> bool {
    static KILLED: LazyLock<State> = LazyLock::new(|| {
        let disk = Simulated::new(State::default());
        let table = logged(&disk, 1);
        // Without checkpoints the log grows segment after segment.
        let guard = table.pager.checkpoint_lock().acquire().unwrap().hold_long();
        (0..5).for_each(|key| drop(table.replace(&[key], &[key; 44_000]).unwrap()));
        let killed = disk.state();
        drop((guard, table));
        killed
    });
    let disk = Simulated::new(KILLED.clone());
    let table = logged(&disk, 1);
    together(&[&|| table.sync().unwrap(), &|| table.checkpoint().unwrap(), &|| put(&table, [20, 21])]);
    let after = logged(&survivors(&disk, Crash::LoseUnsynced), 1);
    (0..5).for_each(|key| assert_eq!(after.get(&[key]).unwrap().unwrap(), [key; 44_000]));
    whole(&after);
    table.replayed() == 5
}

/// The log grows segment after segment while a backup is held; then checkpoints continue.
fn writers_extend_the_log_beside_a_backup() -> bool {
    let table = logged(&Simulated::new(State::default()), 1);
    let guard = Mutex::new(Some(table.pager.checkpoint_lock().acquire().unwrap().hold_long()));
    let put_large = |keys: std::ops::Range<u8>| {
        keys.for_each(|key| table.put(&[key], &[key; 44_000]).unwrap());
        drop(table.pager.checkpoint_lock().acquire().unwrap()); // the last checkpoint is written
    };
    together(&[&|| put_large(0..7), &|| put_large(7..14), &|| {
        (0..400).for_each(|_| step());
        drop(guard.lock().unwrap().take());
    }]);
    table.checkpoint().unwrap();
    (0..14).for_each(|key| assert_eq!(table.get(&[key]).unwrap().unwrap(), [key; 44_000]));
    whole(&table);
    true
}

/// A thread makes bytes of the log ready while writers use them and checkpoints begin segments.
fn bytes_made_ready_beside_writers_and_checkpoints() -> bool {
    let disk = Simulated::new(State::default());
    let table = logged(&disk, 1);
    let replace_all = |keys: std::ops::Range<u8>| {
        keys.for_each(|key| drop(table.replace(&[key], &[key; 5_000]).unwrap()));
    };
    together(&[&|| replace_all(0..6), &|| replace_all(6..12), &|| table.checkpoint().unwrap()]);
    let segments = table.counters().checkpoints;
    let after = logged(&survivors(&disk, Crash::Kill), 1);
    (0..12).for_each(|key| assert_eq!(after.get(&[key]).unwrap().unwrap(), [key; 5_000]));
    whole(&after);
    segments >= 1
}

/// A scenario: its name, and how many orders of each kind, random and PCT, it is tried in.
type Scenario = (&'static str, usize, fn() -> bool);

const SCENARIOS: &[Scenario] = &[
    ("lookups_beside_splits, pages in one frame", 300, || lookups_beside_splits(SHARED)),
    ("lookups_beside_splits, pages apart", 300, || lookups_beside_splits(APART)),
    ("lookups_beside_a_bucket_that_goes_and_comes", 300, lookups_beside_a_bucket_that_goes_and_comes),
    ("writers_beside_writers, pages in one frame", 200, || writers_beside_writers(SHARED)),
    ("writers_beside_writers, pages apart", 200, || writers_beside_writers(APART)),
    ("lookups_beside_changes_of_their_page", 400, lookups_beside_changes_of_their_page),
    ("a_scan_beside_splits_and_merges, pages in one frame", 200, || a_scan_beside_splits_and_merges(SHARED)),
    ("a_scan_beside_splits_and_merges, pages apart", 200, || a_scan_beside_splits_and_merges(APART)),
    ("lookups_beside_compaction", 200, lookups_beside_compaction),
    ("a_value_held_beside_compaction", 100, a_value_held_beside_compaction),
    ("lookups_beside_map_frames_that_move", 20, lookups_beside_map_frames_that_move),
    ("two_compactions", 100, two_compactions),
    ("a_compaction_beside_a_checkpoint", 50, a_compaction_beside_a_checkpoint),
    ("a_closed_gate_beside_writers", 200, a_closed_gate_beside_writers),
    ("a_closed_gate_beside_writers_that_share_a_slot", 50, a_closed_gate_beside_writers_that_share_a_slot),
    ("batches_beside_splits, pages in one frame", 100, || batches_beside_splits(SHARED)),
    ("batches_beside_splits, pages apart", 100, || batches_beside_splits(APART)),
    ("writers_that_hold_values", 200, writers_that_hold_values),
    ("a_refused_large_value_beside_a_closed_gate", 100, a_refused_large_value_beside_a_closed_gate),
    ("a_compaction_beside_a_closed_gate", 300, a_compaction_beside_a_closed_gate),
    ("a_part_beside_a_removal", 100, a_part_beside_a_removal),
    ("lookups_beside_eviction", 50, lookups_beside_eviction),
    ("a_checkpoint_beside_writers", 50, a_checkpoint_beside_writers),
    ("evictions_beside_a_checkpoint_of_blocks", 100, evictions_beside_a_checkpoint_of_blocks),
    ("writers_extend_the_log_beside_a_backup", 20, writers_extend_the_log_beside_a_backup),
    ("long_records_beside_each_other", 20, long_records_beside_each_other),
    ("writers_place_records_of_each_other", 200, writers_place_records_of_each_other),
    ("writers_share_a_slot_of_the_log", 200, writers_share_a_slot_of_the_log),
    ("a_sync_of_what_was_replayed_beside_a_checkpoint", 20, a_sync_of_what_was_replayed_beside_a_checkpoint),
    ("bytes_made_ready_beside_writers_and_checkpoints", 100, bytes_made_ready_beside_writers_and_checkpoints),
];

fn try_all(seed: u64, times: usize) {
    let wanted = std::env::var("SPLITPOINT_SCENARIO").unwrap_or_default();
    for &(name, orders, scenario) in SCENARIOS.iter().filter(|(name, ..)| name.starts_with(&wanted)) {
        let start = std::time::Instant::now();
        println!("{name}: {} orders from seed {seed}", 2 * orders * times);
        try_orders(seed, orders * times, scenario);
        println!("    {:.2} s", start.elapsed().as_secs_f64());
    }
}

#[test]
fn what_must_be_true_is_true_in_every_order_tried() {
    try_all(1, 1);
}

#[test]
#[ignore = "slow: a hundred times as many orders, minutes; a new seed each time"]
fn what_must_be_true_is_true_in_very_many_orders() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    try_all(seed, 100);
}
