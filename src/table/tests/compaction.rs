//! Compaction: the file's size afterwards, compared with that of a table into which the same pairs are loaded.

use crate::error::ErrorKind;
use crate::io::{Disk, Mode, Storage};
use crate::random::Random;
use crate::table::{Table, TableOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn file_bytes(path: &Path) -> u64 {
    Disk.open(path, Mode::Read).unwrap().len().unwrap()
}

/// Bytes of a new table with the pairs of `table`, put in the order of a dump: singly or in one batch, whichever takes
/// more. Single puts split one bucket each, which leaves a table below its size if a pair fills more than one bucket.
fn fresh_bytes(table: &Table, options: &TableOptions) -> u64 {
    let loaded_bytes = |load: fn(&Table, &Pairs)| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fresh.spt");
        let fresh = options.clone().open(&path).unwrap();
        load(&fresh, &table.scan().map(|pair| pair.unwrap()).collect());
        fresh.close().unwrap();
        file_bytes(&path)
    };
    let singly = loaded_bytes(|fresh, pairs| pairs.iter().for_each(|(key, value)| fresh.put(key, value).unwrap()));
    let in_one_batch = loaded_bytes(|fresh, pairs| {
        let mut batch = fresh.batch();
        pairs.iter().for_each(|(key, value)| batch.put(key, value).unwrap());
        batch.commit().unwrap();
    });
    singly.max(in_one_batch)
}

fn check(table: &Table, model: &Model) {
    assert_eq!(table.len(), model.len() as u64);
    for (key, value) in model {
        assert!(table.get(key).unwrap().as_ref() == Some(value), "key {key:?}");
    }
    assert_eq!(table.verify().unwrap(), []);
}

/// Requires that a compacted file has at most a tenth and a few blocks more than a fresh one: both pack frames by rules
/// that leave some room, and each checkpoint needs some blocks for nodes besides those of the last one.
fn check_bytes(compacted: u64, fresh: u64, frame_bytes: u64, what: &str) {
    let most = fresh + fresh / 10 + 8 * frame_bytes;
    assert!(compacted <= most, "{what}: {compacted} bytes compacted, {fresh} fresh");
}

/// A table of random options, and its path in `directory`.
fn random_options(random: &mut Random) -> TableOptions {
    let mut options = TableOptions::new().seed(1).page_bytes(random.pick(&[512, 1024, 1024, 4096, 8192, 65_536]));
    match random.below(3) {
        0 => options = options.fill_factor(random.pick(&[1, 2, 10, 100])),
        1 => options = options.fill_percent(random.pick(&[30, 60, 92, 150])),
        _ => {}
    }
    // A cache for part of the table, too.
    if random.percent(50) { options.cache_bytes(1) } else { options }
}

/// Puts, appends and removes pairs at random, in turns that mostly add and turns that mostly remove.
fn change_randomly(table: &Table, model: &mut Model, random: &mut Random, sizes: &[usize], keys: usize, steps: usize) {
    for step in 0..steps {
        let key = format!("{:05}", random.below(keys)).into_bytes();
        let key = if key[4] == b'7' { key.repeat(40) } else { key };
        let bytes = random.pick(sizes);
        let bytes = bytes / 2 + random.below(bytes / 2 + 1);
        let value = vec![step as u8; bytes];
        let adds = (step / (steps / 5)).is_multiple_of(2);
        match random.below(10) {
            0..2 => {
                table.append(&key, &value).unwrap();
                model.entry(key).or_default().extend(value);
            }
            2..9 if !adds => assert_eq!(table.remove(&key).unwrap(), model.remove(&key).is_some()),
            _ => {
                table.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
    }
}

fn compacts_any_history(seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let mut random = Random::new(&[seed]);
    let options = random_options(&mut random);
    let frame_bytes = options.page_bytes.max(4096).into();
    let sizes: &[usize] = random.pick(&[
        &[0, 20, 100][..],
        &[20, 300, 700, 2500],
        &[2500, 4096, 5000],
        &[0, 100, 1000, 10_000, 70_000],
        &[30_000, 200_000, 20],
        &[20, 20, 20, 3000],
    ]);
    let keys = random.pick(&[30, 300, 3000]);
    let keys = if sizes.contains(&70_000) || sizes.contains(&200_000) { keys.min(300) } else { keys };
    let what = format!(
        "seed {seed}, pages of {}, {:?} pairs or {} %, sizes {sizes:?}, {keys} keys",
        options.page_bytes, options.fill_factor, options.fill_percent
    );
    let mut table = options.clone().open(&path).unwrap();
    let mut model = Model::new();
    for round in 0..2 {
        change_randomly(&table, &mut model, &mut random, sizes, keys, 4 * keys);
        if random.percent(30) {
            table.close().unwrap();
            table = options.clone().open(&path).unwrap();
        }
        table.compact().unwrap();
        check(&table, &model);
        let (compacted, fresh) = (file_bytes(&path), fresh_bytes(&table, &options));
        check_bytes(compacted, fresh, frame_bytes, &format!("{what}, round {round}"));
    }
    table.close().unwrap();
    check(&options.open(&path).unwrap(), &model);
}

#[test]
fn a_compacted_file_is_about_as_small_as_a_fresh_one_after_any_history() {
    (0..24).for_each(compacts_any_history);
}

#[test]
#[ignore = "slow: 1000 histories"]
fn a_compacted_file_is_about_as_small_as_a_fresh_one_after_many_histories() {
    (1000..2000).for_each(compacts_any_history);
}

/// A table in a file, compacted after `change`, with pages of `page_bytes`. Compares bytes and content.
fn compacts(page_bytes: u32, change: impl Fn(&Table, &mut Model)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options = TableOptions::new().seed(1).page_bytes(page_bytes);
    let table = options.clone().open(&path).unwrap();
    let mut model = Model::new();
    change(&table, &mut model);
    table.compact().unwrap();
    check(&table, &model);
    let (compacted, fresh) = (file_bytes(&path), fresh_bytes(&table, &options));
    check_bytes(compacted, fresh, page_bytes.max(4096).into(), &format!("pages of {page_bytes}"));
    table.close().unwrap();
    check(&options.open(&path).unwrap(), &model);
}

#[test]
fn a_table_that_lost_half_of_its_pairs_is_compacted_to_the_size_of_a_fresh_one() {
    for page_bytes in [512, 1024, 4096, 16_384] {
        compacts(page_bytes, |table, model| {
            for i in 0..20_000u32 {
                table.put(&i.to_le_bytes(), &[7; 100]).unwrap();
                model.insert(i.to_le_bytes().into(), [7; 100].into());
            }
            for i in (0..20_000u32).step_by(2) {
                assert!(table.remove(&i.to_le_bytes()).unwrap());
                model.remove(&i.to_le_bytes()[..]);
            }
        });
    }
}

#[test]
fn a_value_that_grew_by_appends_is_compacted_to_its_length() {
    // Across the map frames of several zones, which then are where the value has to be.
    compacts(1024, |table, model| {
        for _ in 0..6_000 {
            table.append(b"key", &[7; 1000]).unwrap();
        }
        model.insert(b"key".into(), vec![7; 6_000_000]);
    });
}

#[test]
fn values_of_three_quarters_of_a_frame_close_up_after_others_were_removed() {
    compacts(1024, |table, model| {
        for i in 0..3000u32 {
            let value = vec![i as u8; if i % 3 == 0 { 1000 } else { 2900 + i as usize % 200 }];
            table.put(&i.to_le_bytes(), &value).unwrap();
            model.insert(i.to_le_bytes().into(), value);
        }
        for i in (0..3000u32).filter(|i| i % 3 != 0 || i % 2 == 0) {
            if i % 5 != 0 {
                assert!(table.remove(&i.to_le_bytes()).unwrap());
                model.remove(&i.to_le_bytes()[..]);
            }
        }
    });
}

#[test]
fn a_second_compaction_writes_almost_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let table = TableOptions::new().seed(1).open(directory.path().join("t.spt")).unwrap();
    for i in 0..20_000u32 {
        table.put(&i.to_le_bytes(), &vec![7; if i % 100 == 0 { 5000 } else { 100 }]).unwrap();
    }
    (0..20_000u32).step_by(2).for_each(|i| assert!(table.remove(&i.to_le_bytes()).unwrap()));
    table.compact().unwrap();
    let (written, frames) = (table.counters().frames_written, table.usage().used_bytes / 4096);
    table.compact().unwrap();
    let again = table.counters().frames_written - written;
    assert!(again <= frames / 50, "{again} of {frames} frames");
}

#[test]
fn a_compaction_begun_from_the_progress_function_of_another_is_an_error() {
    let table = TableOptions::new().seed(1).in_memory().unwrap();
    table.put(b"key", b"value").unwrap();
    let mut refused = 0;
    let begin_another = |_, _| {
        assert_eq!(table.compact().unwrap_err().kind(), ErrorKind::WouldDeadlock);
        refused += 1;
        ControlFlow::Continue(())
    };
    table.compact_with(begin_another).unwrap();
    assert!(refused > 0);
    // A panic of the function ends the compaction.
    let panics = || table.compact_with(|_, _| panic!("of the function"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    table.compact().unwrap();
}

#[test]
fn units_that_belong_to_nothing_are_a_fault_that_compaction_is_not_said_to_mend() {
    let table = TableOptions::new().seed(1).in_memory().unwrap();
    table.put(b"key", b"value").unwrap();
    table.pager.allocate(1).unwrap();
    let faults = || table.verify().unwrap().into_iter().map(|fault| fault.what).collect::<Vec<_>>();
    assert!(faults()[0].contains("1 units marked used belong to nothing; they only take space"), "{:?}", faults());
    table.compact().unwrap();
    assert_eq!(faults().len(), 1);
}

#[test]
fn a_close_makes_a_file_short_that_checkpoints_have_alternated_in() {
    let directory = tempfile::tempdir().unwrap();
    let options = TableOptions::new().seed(1);
    let mut shortened = 0;
    // With each number of rounds, the last checkpoint before the close is in the other half of the file. The close
    // finds all frames dirty, about half of them, few, or none.
    for (rounds, changed) in (2..6u8).flat_map(|rounds| [20_000, 500, 20, 0].map(|changed| (rounds, changed))) {
        let path = directory.path().join(format!("{rounds} {changed}.spt"));
        let table = options.clone().open(&path).unwrap();
        for round in 0..rounds {
            (0..20_000u32).for_each(|i| table.put(&i.to_le_bytes(), &[round; 100]).unwrap());
            table.checkpoint().unwrap();
        }
        (0..changed).for_each(|i: u32| table.put(&i.to_le_bytes(), &[9; 100]).unwrap());
        let (fresh, before) = (fresh_bytes(&table, &options), file_bytes(&path));
        table.close().unwrap();
        let after = file_bytes(&path);
        // It writes nothing for less than a mebibyte.
        let most = fresh + if changed == 0 { 1 << 20 } else { fresh / 8 };
        assert!(after < most, "{rounds}, {changed}: {fresh} bytes fresh, {before}, closed {after}");
        shortened += u32::from(after + fresh / 2 < before);
        let table = options.clone().open(&path).unwrap();
        assert_eq!(table.verify().unwrap(), []);
        assert_eq!(table.len(), 20_000);
    }
    assert!(shortened > 3, "{shortened}");
}

#[test]
fn a_close_succeeds_if_a_frame_that_it_would_move_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let [path, left] = ["t.spt", "left.spt"].map(|name| directory.path().join(name));
    let options = TableOptions::new().seed(1);
    let table = options.clone().open(&path).unwrap();
    let put_all = |round| (0..20_000u32).for_each(|i| table.put(&i.to_le_bytes(), &[round; 100]).unwrap());
    let needle = *b"a value that is in one place of the second half of the file";
    for round in 0..2 {
        put_all(round);
        table.put(b"needle", &needle).unwrap();
        table.checkpoint().unwrap();
    }
    // As a killed process leaves it: twice as long as it needs to be.
    let mut file = std::fs::read(&path).unwrap();
    let at = file.windows(needle.len()).rposition(|bytes| bytes == needle).unwrap();
    assert!(at > file.len() / 2, "{at} of {}", file.len());
    file[at] ^= 1;
    std::fs::write(&left, file).unwrap();
    let table = options.clone().open(&left).unwrap();
    table.put(b"other", b"value").unwrap();
    table.close().unwrap();
    let table = options.open(&left).unwrap();
    let is_there = table.get(b"other").map_or_else(|e| e.kind() == ErrorKind::Corrupt, |found| found.is_some());
    assert!(is_there && table.get(b"needle").unwrap_err().kind() == ErrorKind::Corrupt);
}
