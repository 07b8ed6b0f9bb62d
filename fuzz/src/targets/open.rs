//! Any bytes as a table file: whatever they are, every call returns a value or an error.
//!
//! ```text
//! "SPLITPNT"...                     the whole input is the file, as it is: any .spt file is an input
//! 0, flags, rest                    the rest is the file, its checksums repaired if the flags say so
//! n, flags, edits, calls            the n-th good table with these edits; then these calls
//! ```
//!
//! The file is opened to be read, then to be written and changed, then to be read again. Flags: the constants below.

use super::base::BASES;
use super::damage::damage_file;
use super::directory;
use super::input::Input;
use crate::spt;
use splitpoint::{Result, Table, TableOptions};
use std::path::Path;

const REPAIR: u8 = 1;
/// The smallest cache there is.
const SMALL_CACHE: u8 = 8;
const COMPACT: u8 = 16;
/// Enough is put that buckets split.
const FILL: u8 = 32;
/// Pairs are removed that buckets merge.
const EMPTY: u8 = 64;

/// Calls that an input may ask for.
const CALLS_MAX: usize = 64;
/// The maximum growth of a file in a run: for the pairs put there, and for doubling the buckets.
const FILE_BYTES: u64 = 16 << 20;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut flags = 0;
    let base;
    let file = if bytes.starts_with(spt::MAGIC) {
        base = &BASES[0];
        input.rest().to_vec()
    } else {
        let n = input.byte() as usize % (BASES.len() + 1);
        flags = input.byte();
        base = &BASES[n.saturating_sub(1)];
        let mut file = if n == 0 { input.rest().to_vec() } else { base.file.to_vec() };
        damage_file(&mut input, base, &mut file);
        if flags & REPAIR != 0 {
            spt::repair(&mut file, &base.reader);
        }
        file
    };
    let directory = directory();
    let path = directory.path().join("t.spt");
    std::fs::write(&path, &file).expect("room for a file");
    use_all(&mut input, flags, &base.keys, &path);
    let file_bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
    assert!(file_bytes <= file.len() as u64 + FILE_BYTES, "{file_bytes} bytes, before {}", file.len());
}

/// Reads, changes, reads.
fn use_all(input: &mut Input<'_>, flags: u8, keys: &[Vec<u8>], path: &Path) {
    let reading = || TableOptions::new().read_only(true).open(path);
    if let Some(table) = value_of(reading()) {
        read_all(&table, keys);
        assert!(table.put(b"a", b"b").is_err(), "a table opened to be read was written");
    }
    let mut options = TableOptions::new().create(false);
    if flags & SMALL_CACHE != 0 {
        options = options.cache_bytes(1);
    }
    if let Some(table) = value_of(options.open(path)) {
        change(input, flags, &table, keys);
        either(table.close());
    }
    if let Some(table) = value_of(reading()) {
        read_all(&table, keys);
    }
}

/// The value; of an error, that it has a sentence.
fn value_of<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|e| assert!(!e.to_string().is_empty(), "an error that says nothing")).ok()
}

/// Either will do.
fn either<T>(result: Result<T>) {
    let _ = value_of(result);
}

/// Everything that only reads.
fn read_all(table: &Table, keys: &[Vec<u8>]) {
    let some = keys.iter().step_by(keys.len().div_ceil(8));
    for key in some {
        let value = value_of(table.get(key));
        let borrowed = value_of(table.get_ref(key));
        assert_eq!(borrowed.map(|v| v.map(|v| v.to_vec())), value, "two ways to look a key up");
        either(table.contains(key));
    }
    let mut scan = table.scan();
    for _ in 0..20 {
        either(scan.next_ref());
    }
    table.scan_from(scan.cursor().unwrap_or(1 << 63)).for_each(either);
    either(table.survey());
    for fault in value_of(table.verify()).unwrap_or_default() {
        assert!(!fault.to_string().is_empty());
    }
}

/// The calls that the input asks for, then what the flags do.
fn change(input: &mut Input<'_>, flags: u8, table: &Table, keys: &[Vec<u8>]) {
    for n in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        call(input, n, table, keys);
    }
    if flags & FILL != 0 {
        for n in 0..60u32 {
            either(table.put(&n.to_le_bytes(), &[1; 90]));
        }
    }
    if flags & EMPTY != 0 {
        keys.iter().take(200).for_each(|key| either(table.remove(key)));
    }
    if flags & COMPACT != 0 {
        either(table.compact());
    }
    for key in keys.iter().step_by(keys.len().div_ceil(3)) {
        either(table.append(key, b"more"));
        either(table.put(key, &[2; 300]));
        either(table.remove(key));
    }
    either(table.put(b"after", &[3; 3000]));
    either(table.verify());
}

fn call(input: &mut Input<'_>, n: usize, table: &Table, keys: &[Vec<u8>]) {
    let call = input.byte();
    let key = match call >> 4 {
        0 => vec![n as u8; 100 * (n % 10)], // n is below CALLS_MAX
        1..4 => format!("new {n}").into_bytes(),
        _ => keys[input.below(keys.len())].clone(),
    };
    let len = usize::from(input.byte());
    let value = vec![n as u8; if len < 160 { len } else { (len - 159) * (len - 159) * 2 }];
    match call & 15 {
        0..4 => either(table.put(&key, &value)),
        4..7 => either(table.append(&key, &value)),
        7..10 => either(table.remove(&key)),
        10 => either(table.update(&key, |old| old.map(|old| [old, b"+"].concat()))),
        11 => either(table.insert_new(&key, &value)),
        12 => either(table.get(&key)),
        13 => either(table.sync()),
        14 => either(table.clear()),
        _ => table.scan().for_each(either),
    }
}
