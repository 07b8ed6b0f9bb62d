//! The two kinds of files under the same histories: a file of blocks has what a file of frames in place has.

use crate::io::{Disk, Mode, Storage};
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::ops::ControlFlow;
use std::path::Path;

/// A table in each kind of file.
struct Pair {
    tables: [Table; 2],
    options: [TableOptions; 2],
}

impl Pair {
    fn open(options: [TableOptions; 2], directory: &Path) -> Pair {
        let tables = [0, 1].map(|i| options[i].clone().open(directory.join(format!("{i}.spt"))).unwrap());
        Pair { tables, options }
    }

    fn each(&self, call: impl Fn(&Table)) {
        self.tables.iter().for_each(call);
    }

    fn compare(&self, what: &str) {
        let [old, new] = &self.tables;
        assert_eq!(old.len(), new.len(), "{what}");
        for pair in old.scan() {
            let (key, value) = pair.unwrap();
            assert!(new.get(&key).unwrap().as_deref() == Some(&value[..]), "{what}: key {key:?}");
        }
        for table in &self.tables {
            assert_eq!(table.verify().unwrap(), [], "{what}");
        }
    }
}

fn histories_agree(seed: u64, steps: usize) {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new(&[seed, 90]);
    let durability = random.pick(&[Durability::None, Durability::Os, Durability::Sync]);
    let mut base = TableOptions::new().seed(1).page_bytes(random.pick(&[512, 1024, 4096, 16_384]));
    base = base.durability(durability).log_bytes(random.pick(&[1, 100_000, 4 << 20]));
    base = base.cache_bytes(random.pick(&[0, 0, 4 << 20]));
    let with = |blocks| TableOptions { blocks, ..base.clone() };
    let mut pair = Pair::open([with(false), with(true)], directory.path());
    let keys = random.pick(&[30, 1000, 5000]);
    let sizes: &[usize] = random.pick(&[&[0, 20, 100][..], &[20, 700, 2500], &[100, 5000, 70_000]]);
    for step in 0..steps {
        let what = format!("seed {seed}, step {step}");
        let key = (random.below(keys) as u32).to_be_bytes();
        let value = vec![step as u8; random.pick(sizes)];
        match random.below(1000) {
            0..600 => pair.each(|table| table.put(&key, &value).unwrap()),
            600..850 => pair.each(|table| {
                table.remove(&key).unwrap();
            }),
            850..950 => pair.each(|table| assert!(table.append(&key, &value).unwrap() >= value.len())),
            950..980 => pair.each(|table| {
                let mut batch = table.batch();
                (0..20u32).for_each(|n| batch.put(&n.to_be_bytes(), &value).unwrap());
                batch.remove(&key).unwrap();
                batch.commit().unwrap();
            }),
            980..988 => pair.each(|table| table.checkpoint().unwrap()),
            988..992 => pair.each(|table| table.sync().unwrap()),
            992..994 => pair.each(|table| table.compact().unwrap()),
            994..996 => pair.compare(&what),
            996..998 => {
                for (table, options) in pair.tables.iter().zip(&pair.options) {
                    let copy = directory.path().join("copy.spt");
                    Backup::new().overwrite(true).save(table, &copy).unwrap();
                    let copy = options.clone().open(&copy).unwrap();
                    assert_eq!((copy.len(), copy.verify().unwrap()), (table.len(), vec![]), "{what}");
                }
            }
            _ => {
                let Pair { tables, options } = pair;
                tables.into_iter().for_each(|table| table.close().unwrap());
                pair = Pair::open(options, directory.path());
            }
        }
    }
    pair.compare(&format!("seed {seed}, end"));
}

#[test]
fn both_kinds_of_files_have_the_same_after_the_same_history() {
    (0..12).for_each(|seed| histories_agree(seed, 1500));
}

#[test]
fn a_reader_has_its_checkpoint_whatever_the_writer_does() {
    const PAIRS: u32 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options =
        TableOptions { blocks: true, ..TableOptions::new().page_bytes(512).cache_bytes(0).log_bytes(100_000) };
    let table = options.clone().open(&path).unwrap();
    let put_all = |byte: u8| {
        (0..PAIRS).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        table.checkpoint().unwrap();
    };
    put_all(0);
    for round in 1..5 {
        let reader = TableOptions { read_only: true, checkpoint_only: true, ..options.clone() }.open(&path).unwrap();
        (0..3).for_each(|_| put_all(round));
        for key in (0..PAIRS).map(u32::to_be_bytes) {
            assert_eq!(reader.get(&key).unwrap().unwrap()[..], [round - 1; 100]);
        }
        assert_eq!(reader.verify().unwrap(), []);
    }
    // What waited for readers is used again once they are gone.
    put_all(5);
    let length = || Disk.open(&path, Mode::Read).unwrap().len().unwrap();
    let most = length();
    (6..16).for_each(put_all);
    assert!(length() < most + most / 16, "{} bytes, {most} before", length());
}

/// A reader of an old checkpoint needs the blocks of that one only, not all that were freed since.
#[test]
fn a_reader_that_stays_costs_one_copy_of_the_table() {
    const PAIRS: u32 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options =
        TableOptions { blocks: true, ..TableOptions::new().page_bytes(512).cache_bytes(0).log_bytes(100_000) };
    let open_reader =
        || TableOptions { read_only: true, checkpoint_only: true, ..options.clone() }.open(&path).unwrap();
    let put_all = |table: &Table, byte: u8| {
        (0..PAIRS).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        if byte.is_multiple_of(4) {
            table.put(b"large", &[byte; 200_000]).unwrap(); // several checkpoints have its blocks
        }
        table.checkpoint().unwrap();
    };
    let length = || Disk.open(&path, Mode::Read).unwrap().len().unwrap();
    let is_whole = |reader: &Table, byte: u8| {
        let values = (0..PAIRS).map(|n| reader.get(&n.to_be_bytes()).unwrap().unwrap());
        assert!(values.into_iter().all(|value| value[..] == [byte; 100]), "{byte}");
        assert!(reader.get(b"large").unwrap().unwrap()[..] == [byte / 4 * 4; 200_000], "{byte}");
        assert_eq!(reader.verify().unwrap(), []);
    };
    let mut table = options.clone().open(&path).unwrap();
    put_all(&table, 0);
    let of_this_open = open_reader();
    (1..4).for_each(|byte| put_all(&table, byte));
    let most = length();
    (4..20).for_each(|byte| put_all(&table, byte));
    assert!(length() < most + most / 4, "{} bytes, {most} before", length());
    is_whole(&of_this_open, 0);
    drop(of_this_open);
    for start in [20, 45] {
        (start - 4..=start).for_each(|byte| put_all(&table, byte));
        let of_an_earlier_open = open_reader();
        put_all(&table, start + 1);
        table.close().unwrap();
        table = options.clone().open(&path).unwrap();
        (start + 2..start + 5).for_each(|byte| put_all(&table, byte));
        let most = length();
        (start + 5..start + 12).for_each(|byte| put_all(&table, byte));
        assert!(length() < most + most / 4, "{} bytes, {most} before", length());
        is_whole(&of_an_earlier_open, start);
        drop(of_an_earlier_open);
        assert_eq!(table.verify().unwrap(), []);
    }
}

#[test]
fn an_open_does_not_cut_off_what_a_reader_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.spt");
    let options = TableOptions { blocks: true, ..TableOptions::new().page_bytes(512).cache_bytes(0) };
    let put_all = |table: &Table, byte: u8| {
        (0..1000u32).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        table.checkpoint().unwrap();
    };
    let table = options.clone().open(&path).unwrap();
    put_all(&table, 1);
    put_all(&table, 2); // behind the first ones
    let reader = TableOptions { read_only: true, checkpoint_only: true, ..options.clone() }.open(&path).unwrap();
    put_all(&table, 3); // where the first ones were
    table.close().unwrap();
    let table = options.open(&path).unwrap();
    put_all(&table, 4);
    assert_eq!(reader.verify().unwrap(), []);
    assert!(reader.scan().all(|pair| pair.unwrap().1[..] == [2; 100]));
}

/// Checkpoints go on during a backup: the log does not grow, and writers do not wait.
#[test]
fn a_backup_keeps_no_checkpoint_from_being_made() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let options = TableOptions { blocks: true, ..TableOptions::new().page_bytes(512).cache_bytes(0) };
    let table = options.clone().open(at("t.spt")).unwrap();
    let put_all = |byte: u8| {
        (0..3000u32).for_each(|n| table.put(&n.to_be_bytes(), &[byte; 100]).unwrap());
        table.checkpoint().unwrap();
    };
    put_all(0);
    let mut steps = 0;
    let mut backup = Backup::new().options(options.clone()).progress(|_, _| {
        steps += 1;
        (1..4).for_each(put_all);
        ControlFlow::Continue(())
    });
    backup.save(&table, at("copy.spt")).unwrap();
    drop(backup);
    assert!(steps > 0);
    let copy = options.open(at("copy.spt")).unwrap();
    assert_eq!(copy.verify().unwrap(), []);
    assert!(copy.scan().all(|pair| pair.unwrap().1[..] == [0; 100]) && copy.len() == 3000);
}

#[test]
#[ignore = "slow: as many histories as fit in SECONDS"]
fn both_kinds_of_files_have_the_same_after_any_history() {
    let seconds = std::env::var("SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let start = std::time::Instant::now();
    let mut seed = std::env::var("SPLITPOINT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1000);
    while start.elapsed().as_secs() < seconds {
        histories_agree(seed, 4000);
        seed += 1;
    }
    println!("seeds up to {seed}");
}
