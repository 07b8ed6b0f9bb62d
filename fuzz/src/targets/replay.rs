//! Any bytes as a write-ahead log beside a good table: a table that opens is whole, and stays what it is.
//!
//! ```text
//! n, flags, u16 length, first log, second log      beside the n-th good table (no journal)
//! ```
//!
//! Replay is operations on top of a good checkpoint. So there is more to ask than of `open`: whatever a log says, the
//! table behind it has no fault, and opened once more it has the same pairs. Flags: the constants below.

use super::base::BASES;
use super::input::Input;
use super::{beside, directory};
use splitpoint::{Table, TableOptions};
use std::collections::BTreeMap;
use std::path::Path;

/// One of the two files is not there.
const NO_FIRST: u8 = 1;
const NO_SECOND: u8 = 2;
/// The table is changed before it is closed.
const CHANGE: u8 = 4;
/// The smallest cache there is.
const SMALL_CACHE: u8 = 8;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let base = &BASES[input.byte() as usize % BASES.len()];
    let flags = input.byte();
    let len = input.number(2) as usize; // two bytes
    let first = input.take(len);
    let second = input.rest();
    let directory = directory();
    let path = directory.path().join("t.spt");
    std::fs::write(&path, base.file).expect("room for a file");
    for (log, ending, without) in [(first, "-log0", NO_FIRST), (second, "-log1", NO_SECOND)] {
        if flags & without == 0 {
            std::fs::write(beside(&path, ending), log).expect("room for a log");
        }
    }
    // Reading only may refuse, but touches nothing.
    drop(TableOptions::new().read_only(true).open(&path).map(|table| table.verify()));
    let Some(pairs) = replayed(&path, flags) else { return };
    let table = TableOptions::new().read_only(true).open(&path).expect("a table that was closed opens to be read");
    assert!(scanned(&table) == pairs, "other pairs after a second open");
    assert_eq!(table.verify().expect("verify reads a good file"), []);
}

/// The pairs at the end of a session that begins with the replay; `None` where the open is refused.
fn replayed(path: &Path, flags: u8) -> Option<Pairs> {
    let mut options = TableOptions::new().create(false);
    if flags & SMALL_CACHE != 0 {
        options = options.cache_bytes(1);
    }
    let table = options.open(path).inspect_err(|e| assert!(!e.to_string().is_empty())).ok()?;
    assert_eq!(table.verify().expect("verify reads a good file"), []);
    if flags & CHANGE != 0 {
        table.put(b"after the replay", &[1; 2000]).expect("a put after a replay");
        table.remove(b"key 1").expect("a removal after a replay");
    }
    let pairs = scanned(&table);
    table.close().expect("a close after a replay");
    Some(pairs)
}

fn scanned(table: &Table) -> Pairs {
    let pairs: Vec<_> = table.scan().map(|pair| pair.expect("a scan of a good table")).collect();
    let count = pairs.len();
    let pairs = Pairs::from_iter(pairs);
    assert_eq!((pairs.len(), table.len()), (count, count as u64), "a key was given twice, or the count is off");
    pairs
}
