//! Real full disks: a small file system in memory if one can be mounted without root, and a limit on file sizes, which
//! works everywhere.
//!
//! A full disk causes an error and no signal, although the log is memory mapped. Acknowledged writes are kept, and once
//! there is space again the handle works. The simulated disk fails each call by itself; these tests check the promises
//! of a real one (`fallocate`, preallocated pages).

use super::{process, task_arguments, this_binary, with_mounts, with_task};
use splitpoint::{Durability, ErrorKind, Table, TableOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(n: u32) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

/// Some values fit pages, some are in extents, and a few are logged in pieces.
fn value(n: u32) -> Vec<u8> {
    let len = match n % 50 {
        49 => 70_000,
        40..49 => 3000,
        n => 10 * n as usize,
    };
    vec![n as u8; len]
}

fn options(durability: Durability, log_bytes: u64) -> TableOptions {
    TableOptions::new().page_bytes(512).log_bytes(log_bytes).durability(durability)
}

fn is_full(e: &splitpoint::Error) {
    assert_eq!(e.kind(), ErrorKind::DiskFull, "{e}");
    assert!(e.hint().is_some_and(|hint| hint.ends_with("and try again.")), "{e}");
}

/// Puts up to `max` pairs, until the disk is full.
fn put_until_full(table: &Table, pairs: &mut Pairs, max: u32) {
    for n in 0..max {
        match table.put(&key(n), &value(n)) {
            Ok(()) => drop(pairs.insert(key(n), value(n))),
            Err(e) => {
                is_full(&e);
                return;
            }
        }
    }
    panic!("{max} pairs, and still room");
}

/// Removes every other pair; pairs whose removal fails stay.
fn remove_half(table: &Table, pairs: &mut Pairs) {
    let keys: Vec<Vec<u8>> = pairs.keys().step_by(2).cloned().collect();
    for key in keys {
        match table.remove(&key) {
            Ok(there) => {
                assert!(there);
                pairs.remove(&key);
            }
            Err(e) => is_full(&e),
        }
    }
}

/// Changes pairs in batches; a batch that fails changes nothing. Returns the number of failed batches.
fn change_in_batches(table: &Table, pairs: &mut Pairs) -> usize {
    let keys: Vec<Vec<u8>> = pairs.keys().cloned().collect();
    let mut refused = 0;
    for (n, keys) in keys.chunks(8).enumerate() {
        let mut changed = pairs.clone();
        let mut batch = table.batch();
        for (m, key) in keys.iter().enumerate() {
            match m % 4 {
                0 => {
                    batch.remove(key).unwrap();
                    changed.remove(key);
                }
                1 => {
                    batch.append(key, &[7; 900]).unwrap();
                    changed.get_mut(key).unwrap().extend([7; 900]);
                }
                _ => {
                    let value = vec![n as u8; 500 * m];
                    batch.put(key, &value).unwrap();
                    changed.insert(key.clone(), value);
                }
            }
        }
        match batch.commit() {
            Ok(()) => *pairs = changed,
            Err(e) => {
                is_full(&e);
                refused += 1;
            }
        }
    }
    refused
}

fn holds(table: &Table, pairs: &Pairs, when: &str) {
    assert_eq!(table.len(), pairs.len() as u64, "{when}");
    for (key, value) in pairs {
        assert!(table.get(key).unwrap().as_ref() == Some(value), "{when}: \"{}\"", key.escape_ascii());
    }
}

// ---------------------------------------------------------------------------------------------
// A file system of a few megabytes

const DISK_BYTES: u64 = 8 << 20;
const DURABILITIES: [Durability; 3] = [Durability::Os, Durability::Sync, Durability::None];

/// Runs on a file system of [`DISK_BYTES`] at `place`.
pub fn fill(place: &Path, _: &[u64]) {
    let mut refused = 0;
    for kib in [0, 4, 8, 12, 16, 24, 32, 64, 100, 140, 200, 280, 400, 560, 800, 1100, 1600] {
        for durability in DURABILITIES {
            for before in [0, 300] {
                refused += fill_one(place, kib << 10, durability, before);
            }
        }
    }
    assert!(refused > 100, "{refused} batches found no room");
    for kib in [100, 400, 1100, 3000] {
        (0..2).for_each(|durability| fill_and_kill(place, kib << 10, durability));
    }
    checkpoints_that_find_no_room(place);
}

/// Fills the disk except for `free` bytes.
fn use_up(place: &Path, free: u64) {
    let _ = fs::remove_file(place.join("ballast"));
    let used: u64 = fs::read_dir(place).unwrap().map(|e| blocks(&e.unwrap().metadata().unwrap())).sum();
    let ballast = vec![1; (DISK_BYTES - used).saturating_sub(free) as usize];
    // The file system's own blocks are not counted, so slightly less may be free.
    let _ = fs::write(place.join("ballast"), ballast);
}

fn blocks(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

fn empty(place: &Path) {
    fs::read_dir(place).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
}

/// Fills a disk with `free` free bytes. The table has `before` pairs already; with none it is created on that disk.
/// Returns the number of failed batches.
fn fill_one(place: &Path, free: u64, durability: Durability, before: u32) -> usize {
    let when = format!("{free} bytes free, {durability:?}, {before} pairs before");
    let path = place.join("t.spt");
    let open = || options(durability, 1 << 20).open(&path);
    let mut pairs = Pairs::new();
    let mut table = None;
    if before > 0 {
        let opened = open().unwrap();
        for n in 0..before {
            let n = n + 1_000_000;
            opened.put(&key(n), b"before").unwrap();
            pairs.insert(key(n), b"before".into());
        }
        table = Some(opened);
    }
    use_up(place, free);
    let table = table.map_or_else(open, Ok).unwrap_or_else(|e| {
        is_full(&e);
        use_up(place, 1 << 20);
        open().expect("a table where there is room again")
    });
    put_until_full(&table, &mut pairs, 10_000);
    holds(&table, &pairs, &when);
    let refused = change_in_batches(&table, &mut pairs);
    holds(&table, &pairs, &when);
    remove_half(&table, &mut pairs);
    holds(&table, &pairs, &when);
    let _ = table.sync().inspect_err(is_full);
    let _ = table.checkpoint().inspect_err(is_full);
    fs::remove_file(place.join("ballast")).unwrap();

    let goes_on = |what: &str, done: splitpoint::Result<()>| done.unwrap_or_else(|e| panic!("{when}: {what}: {e}"));
    goes_on("a put with room again", table.put(b"room", b"again"));
    pairs.insert(b"room".into(), b"again".into());
    goes_on("a sync with room again", table.sync());
    goes_on("a close with room again", table.close());
    for _ in 0..2 {
        let table = open().unwrap();
        assert_eq!(table.verify().unwrap(), [], "{when}");
        holds(&table, &pairs, &when);
        table.put(b"more", b"").unwrap();
        pairs.insert(b"more".into(), Vec::new());
        table.close().unwrap();
    }
    empty(place);
    refused
}

/// Fills the disk, and is killed. Arguments: the index of the durability.
pub fn fill_and_die(place: &Path, arguments: &[u64]) {
    let table = options(DURABILITIES[arguments[0] as usize], 1 << 20).open(place.join("t.spt")).unwrap();
    let mut pairs = Pairs::new();
    put_until_full(&table, &mut pairs, 10_000);
    println!("stored: {}", pairs.len());
    std::process::abort();
}

/// Lets a process fill the disk, and kills it. The table must open without any free space, and have what was stored.
fn fill_and_kill(place: &Path, free: u64, durability: u64) {
    let when = format!("{free} bytes free, {:?}", DURABILITIES[durability as usize]);
    let (path, durable) = (place.join("t.spt"), DURABILITIES[durability as usize]);
    options(durable, 1 << 20).open(&path).unwrap().close().unwrap();
    use_up(place, free);
    let output = process("fill_and_die", place, &[durability]).stdout(Stdio::piped()).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let stored = output.split("stored: ").nth(1).unwrap_or_else(|| panic!("{when}: {output}"));
    let stored: u32 = stored.split_whitespace().next().unwrap().parse().unwrap();
    // With `Sync`, a segment of the log is prepared before its first record.
    let is_too_small = durable == Durability::Sync && free < 2 << 20;
    assert!(stored > 10 || is_too_small, "{when}: {stored} pairs");
    let mut pairs: Pairs = (0..stored).map(|n| (key(n), value(n))).collect();
    use_up(place, 0);
    match TableOptions::new().read_only(true).open(&path) {
        Ok(reader) => holds(&reader, &pairs, &when),
        // The kill interrupted a checkpoint, which a writer has to complete.
        Err(e) => assert_eq!(e.kind(), ErrorKind::Locked, "{when}: to read: {e}"),
    }
    let table = options(durable, 1 << 20).open(&path).unwrap_or_else(|e| panic!("{when}: {e}"));
    holds(&table, &pairs, &when);
    change_in_batches(&table, &mut pairs);
    remove_half(&table, &mut pairs);
    holds(&table, &pairs, &when);
    fs::remove_file(place.join("ballast")).unwrap();
    table.put(b"room", b"again").unwrap_or_else(|e| panic!("{when}: with room again: {e}"));
    pairs.insert(b"room".into(), b"again".into());
    table.close().unwrap();
    let table = Table::open(&path).unwrap();
    assert_eq!(table.verify().unwrap(), [], "{when}");
    holds(&table, &pairs, &when);
    table.close().unwrap();
    empty(place);
}

/// Makes checkpoints, and the syncs and closes that include one, with different amounts of free space.
fn checkpoints_that_find_no_room(place: &Path) {
    let mut refused = 0;
    for kib in (0..160).step_by(8) {
        let when = format!("a checkpoint with {kib} KiB free");
        let path = place.join("t.spt");
        let table = options(Durability::Os, 4 << 20).open(&path).unwrap();
        let mut pairs = Pairs::new();
        for n in 0..90 {
            table.put(&key(n), &value(n)).unwrap();
            pairs.insert(key(n), value(n));
        }
        use_up(place, kib << 10);
        let made = table.checkpoint();
        if let Err(e) = &made {
            assert_eq!(e.kind(), ErrorKind::DiskFull, "{when}: {e}");
            refused += 1;
        }
        holds(&table, &pairs, &when);
        match table.put(b"after", b"1") {
            Ok(()) => drop(pairs.insert(b"after".into(), b"1".into())),
            Err(e) => is_full(&e),
        }
        if kib % 16 == 8 {
            fs::remove_file(place.join("ballast")).unwrap();
            table.checkpoint().unwrap_or_else(|e| panic!("{when}: again, with room: {e}"));
            table.close().unwrap();
            empty(place);
            continue;
        }
        drop(table);
        holds(&Table::open(&path).unwrap(), &pairs, &when);
        fs::remove_file(place.join("ballast")).unwrap();
        let table = Table::open(&path).unwrap();
        assert_eq!(table.verify().unwrap(), [], "{when}");
        holds(&table, &pairs, &when);
        table.close().unwrap();
        empty(place);
    }
    assert!(refused > 0, "{refused} checkpoints found no room");
}

#[test]
fn a_full_disk_is_an_error_and_acknowledged_writes_are_kept() {
    let place = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} tmpfs \"$SPLITPOINT_PLACE\"");
    if let Some(status) = with_mounts(&mount, "fill", place.path(), &[]) {
        assert!(status.success(), "{status}");
    }
}

// --------------------------------------------------------------------------------------------- Limits on file sizes

/// Runs under a limit on file sizes. Arguments: the durability, bytes of the log.
pub fn fill_under_a_limit(place: &Path, arguments: &[u64]) {
    let &[durability, log_bytes] = arguments else { panic!("arguments") };
    let durability = if durability == 0 { Durability::Os } else { Durability::Sync };
    let path = place.join("t.spt");
    let mut pairs = Pairs::new();
    let table = options(durability, log_bytes).open(&path).unwrap();
    put_until_full(&table, &mut pairs, 10_000);
    let puts = pairs.len();
    holds(&table, &pairs, "under a limit");
    remove_half(&table, &mut pairs);
    holds(&table, &pairs, "under a limit, half of it removed");
    let _ = table.close().inspect_err(is_full);
    let table = options(durability, log_bytes).open(&path).unwrap();
    holds(&table, &pairs, "opened again under a limit");
    drop(table);
    // Read by a process without a limit.
    fs::write(place.join("result"), format!("{puts} {}", pairs.len())).unwrap();
}

#[test]
fn a_file_that_may_not_grow_is_a_full_disk() {
    // The limit is below the size of a part of the log, close to it, or above, so that the table reaches it first.
    for (limit_kib, log_bytes) in [(128, 1 << 18), (160, 1 << 18), (300, 1 << 18), (1000, 1 << 20)] {
        for (durability, signal) in [(0, ""), (1, ""), (0, "trap '' XFSZ;"), (1, "trap '' XFSZ;")] {
            let when = format!("{limit_kib} KiB, log of {log_bytes}, durability {durability}, {signal}");
            let place = tempfile::tempdir().unwrap();
            // The limit is in blocks of 512 bytes. The signal at the limit ends a program that does not ignore it.
            let script = format!("{signal} ulimit -f {}; exec \"$0\" \"$@\"", 2 * limit_kib);
            let mut command = Command::new("sh");
            command.args(["-c", &script]).arg(this_binary()).args(task_arguments());
            with_task(&mut command, "fill_under_a_limit", place.path(), &[durability, log_bytes]);
            let status = command.status().unwrap();
            assert!(status.success(), "{when}: {status}");
            let result = fs::read_to_string(place.path().join("result")).unwrap();
            let (puts, left) = result.split_once(' ').unwrap();
            let table = Table::open(place.path().join("t.spt")).unwrap();
            assert_eq!(table.verify().unwrap(), [], "{when}");
            assert_eq!(table.len().to_string(), left, "{when}");
            for pair in table.scan() {
                let (key, found) = pair.unwrap();
                let n: u32 = std::str::from_utf8(&key).unwrap().strip_prefix("key ").unwrap().parse().unwrap();
                assert!(n < puts.parse().unwrap() && found == value(n), "{when}: key {n}");
            }
            table.put(b"room", b"again").unwrap();
            table.close().unwrap();
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Backups

#[test]
fn a_backup_without_disk_space_leaves_nothing_and_the_table_continues() {
    let place = tempfile::tempdir().unwrap();
    // With another seed, the table might grow in one of the later puts.
    let table = TableOptions::new().seed(1).open(place.path().join("t.spt")).unwrap();
    let mut pairs = Pairs::new();
    for n in 0..300 {
        table.put(&key(n), &value(n)).unwrap();
        pairs.insert(key(n), value(n));
    }
    table.close().unwrap();
    let script = "ulimit -f 200; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(this_binary()).args(task_arguments());
    with_task(&mut command, "back_up_under_a_limit", place.path(), &[]);
    assert!(command.status().unwrap().success());
    let table = Table::open(place.path().join("t.spt")).unwrap();
    assert_eq!(table.verify().unwrap(), []);
    holds(&table, &pairs, "after the backup");
}

/// Runs under a limit of 100 KiB on file sizes.
pub fn back_up_under_a_limit(place: &Path, _: &[u64]) {
    let reader = TableOptions::new().read_only(true).open(place.join("t.spt")).unwrap();
    let refused = reader.backup(place.join("t.bak")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    for word in [".splitpoint-backup", "no file longer than 102400 bytes", "raise the limit", "ulimit -f"] {
        assert!(refused.to_string().contains(word), "\"{refused}\" does not say {word:?}");
    }
    let mut left = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(left.all(|name| !name.contains("bak") && !name.contains("backup")), "a part of the backup is left");
    drop(reader);
    // The file is longer than the limit, and a checkpoint needs blocks after its end.
    let table = options(Durability::Os, 1 << 16).create(false).open(place.join("t.spt")).unwrap();
    assert_eq!(table.backup(place.join("t.bak")).unwrap_err().kind(), ErrorKind::DiskFull);
    for n in 0..50_u8 {
        table.put(&[n], b"it goes on").unwrap();
        assert!(table.remove(&[n]).unwrap());
    }
    assert_eq!(table.close().unwrap_err().kind(), ErrorKind::DiskFull);
}
