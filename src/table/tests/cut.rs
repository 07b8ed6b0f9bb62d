//! A table's file that another program truncates while it is open: every call that promises the file's content reports
//! an error.

use crate::error::ErrorKind;
use crate::io::simulated::{Crash, Simulated, State, Tally};
use crate::io::{Mode, Storage};
use crate::random::Random;
use crate::table::{Backup, Durability, Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/disk/t.spt";

fn options(disk: &Simulated, durability: Durability) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1).cache_bytes(1).durability(durability);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options
}

/// Puts more pairs than a cache of 16 frames holds, some with values that are written through.
fn fill(table: &Table, keys: std::ops::Range<u32>) {
    for n in keys {
        let bytes = if n % 8 == 0 { 5000 } else { 200 };
        table.put(&n.to_be_bytes(), &vec![n as u8; bytes]).unwrap();
    }
}

/// Cuts `bytes` bytes off the end of the file.
fn cut(disk: &Simulated, bytes: u64) {
    let file = disk.open(Path::new(PATH), Mode::Write).unwrap();
    file.set_len(file.len().unwrap() - bytes).unwrap();
}

/// Makes a table in one of the states in which its file can be cut.
fn table(state: &str, disk: &Simulated, durability: Durability) -> Table {
    let table = options(disk, durability).open(PATH).unwrap();
    fill(&table, 0..400);
    if state == "changed since it was opened" {
        return table;
    }
    table.checkpoint().unwrap();
    match state {
        "unchanged" => {}
        "a few pairs changed" => fill(&table, 0..3),
        "grown" => fill(&table, 400..600),
        _ => unreachable!("{state}"),
    }
    table
}

#[test]
fn a_truncated_file_is_an_error_of_every_call_that_promises_its_content() {
    type Call = fn(&Table, &Simulated) -> crate::Result<()>;
    let calls: [(&str, Call); 5] = [
        ("checkpoint", |table, _| table.checkpoint()),
        ("close", |table, _| table.finish()),
        ("sync", |table, _| table.sync()),
        ("compact", |table, _| table.compact()),
        ("backup", |table, disk| {
            let options = options(disk, Durability::None);
            Backup::new().options(options).save(table, "/disk/copy.spt")
        }),
    ];
    let mut refused = 0;
    for durability in [Durability::None, Durability::Os, Durability::Sync] {
        for state in ["unchanged", "a few pairs changed", "grown", "changed since it was opened"] {
            for ((name, call), bytes) in calls.into_iter().flat_map(|call| [1, 20_000].map(|bytes| (call, bytes))) {
                let at = format!("{durability:?}, {state}, {name}, {bytes} bytes");
                let disk = Simulated::new(State::default());
                let table = table(state, &disk, durability);
                let len = table.len();
                if disk.state().content(Path::new(PATH)).unwrap().len() < 2 * bytes {
                    continue; // all of it is in the log
                }
                cut(&disk, bytes as u64);
                match call(&table, &disk) {
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Poisoned), "{at}: {error}");
                        assert!(error.message().contains("another program cut the file"), "{at}: {error}");
                        refused += 1;
                    }
                    // The bytes cut off were not in use, or are in the log.
                    Ok(()) => {
                        drop(table);
                        let table = options(&disk, durability).open(PATH).unwrap_or_else(|e| panic!("{at}: {e}"));
                        assert_eq!((table.len(), table.verify().unwrap()), (len, vec![]), "{at}");
                    }
                }
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_truncation_before_the_first_checkpoint_is_an_error_of_a_sync() {
    for (durability, opened_again) in [(Durability::Os, false), (Durability::Sync, false), (Durability::Os, true)] {
        let mut disk = Simulated::new(State::default());
        let mut table = options(&disk, durability).open(PATH).unwrap();
        if opened_again {
            table.put(b"first", b"1").unwrap();
            disk = Simulated::new(disk.state().survivors(Crash::Kill, &mut Random::new(&[1]), &mut Tally::default()));
            table = options(&disk, durability).open(PATH).unwrap();
        }
        table.put(b"key", b"value").unwrap();
        table.sync().unwrap();
        cut(&disk, 1);
        assert_eq!(table.sync().unwrap_err().kind(), ErrorKind::Corrupt, "{durability:?} {opened_again}");
    }
}

#[test]
fn after_a_truncation_is_found_the_handle_refuses_writes() {
    let disk = Simulated::new(State::default());
    let table = table("grown", &disk, Durability::Os);
    cut(&disk, 1);
    assert_eq!(table.sync().unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(table.put(b"k", b"v").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(table.close().unwrap_err().kind(), ErrorKind::Poisoned);
}
