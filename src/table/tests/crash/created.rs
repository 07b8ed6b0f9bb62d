//! A crash while a table is made, and before its first checkpoint.

use super::workload::PATH;
use super::{Crash, Simulated, State, Tally, content_of, each_crash};
use crate::error::ErrorKind;
use crate::random::Random;
use crate::table::{Durability, Table, TableOptions};
use std::path::Path;
use std::sync::Arc;

fn options(disk: &Simulated, durability: Durability) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1).durability(durability);
    options.storage = Arc::new(disk.clone());
    options.inline_checkpoints = true;
    options
}

/// Checks what a crash left: a table with at least `puts` pairs. Without a number it may not be made yet, so a reader
/// may find none.
fn check(left: State, durability: Durability, puts: Option<u64>) -> Result<(), String> {
    let disk = Simulated::new(left);
    match (options(&disk, durability).read_only(true).open(PATH), puts) {
        (Ok(table), _) if table.len() >= puts.unwrap_or(0) && table.verify().unwrap().is_empty() => {}
        (Err(e), None) if e.kind() == ErrorKind::Io => {}
        (Ok(table), _) => return Err(format!("read: {} pairs, {:?}", table.len(), table.verify())),
        (Err(e), _) => return Err(format!("read: {e}")),
    }
    let open = || options(&disk, durability).open(PATH).map_err(|e| e.to_string());
    let table: Table = open()?;
    if table.len() < puts.unwrap_or(0) || !table.verify().unwrap().is_empty() {
        return Err(format!("{} pairs", table.len()));
    }
    table.put(b"later", b"value").unwrap();
    let content = content_of(&table, false)?;
    table.close().unwrap();
    if content_of(&open()?, false)? == content { Ok(()) } else { Err("other pairs after a close".into()) }
}

/// No file, and a file with a part of the header of a table that was not made.
fn starts() -> [State; 2] {
    let disk = Simulated::new(State::default());
    let _open = options(&disk, Durability::None).open(PATH).unwrap();
    let mut part = disk.state().content(Path::new(PATH)).unwrap()[..4096].to_vec();
    part[512..].fill(0);
    let mut state = State::default();
    state.add_file(Path::new(PATH), &part);
    [State::default(), state]
}

#[test]
fn a_crash_while_a_table_is_made_leaves_none_or_all_that_was_acknowledged() {
    const PUTS: u64 = 5;
    let mut random = Random::new(&[3]);
    let durabilities = [Durability::None, Durability::Os, Durability::Sync];
    let cases = durabilities.into_iter().flat_map(|durability| [0, 1000].map(|expected| (durability, expected)));
    for ((durability, expected), start) in cases.flat_map(|case| starts().map(|start| (case, start))) {
        let disk = Simulated::new(start.clone());
        let table = options(&disk, durability).expected_len(expected).open(PATH).unwrap();
        let made = disk.calls();
        let mut acknowledged = Vec::new();
        for n in 0..PUTS {
            table.put(&[n as u8], b"value").unwrap();
            acknowledged.push(disk.calls());
        }
        each_crash(&start, &disk.trace(), &mut Random::new(&[1]), |call, state| {
            // A header has few sectors, of which each may be lost.
            let mixes = std::iter::repeat_n(Crash::Mix, if call < made { 40 } else { 4 });
            for crash in [Crash::Kill, Crash::LoseUnsynced].into_iter().chain(mixes) {
                let left = state.survivors(crash, &mut random, &mut Tally::default());
                let done = acknowledged.iter().filter(|&&by| by <= call).count() as u64;
                let kept = match (crash, durability) {
                    (_, Durability::None) => 0,
                    (Crash::Kill, _) | (_, Durability::Sync) => done,
                    _ => 0,
                };
                let puts = (call >= made).then_some(kept);
                check(left, durability, puts).map_err(|e| format!("{durability:?}, call {call}, {crash:?}: {e}"))?;
            }
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_small_file_that_is_no_part_of_a_first_header_is_refused() {
    let disk = Simulated::new(State::default());
    let _open = options(&disk, Durability::Os).open(PATH).unwrap();
    let made = disk.state().content(Path::new(PATH)).unwrap().to_vec();
    let with = |at: usize, byte: u8| {
        let mut bytes = made[..4096].to_vec();
        bytes[at] ^= byte;
        bytes
    };
    let zeros = |sectors: std::ops::Range<usize>| {
        let mut bytes = made[..4096].to_vec();
        bytes[sectors.start * 512..sectors.end * 512].fill(0);
        bytes
    };
    let open = |bytes: &[u8]| {
        let mut state = State::default();
        state.add_file(Path::new(PATH), bytes);
        options(&Simulated::new(state), Durability::Os).open(PATH).map(|table| table.len())
    };
    for (part, bytes) in [
        ("all", made[..4096].to_vec()),
        ("no sector", zeros(0..8)),
        ("the last", zeros(0..7)),
        ("all but the last", zeros(7..8)),
    ] {
        assert_eq!(open(&bytes).unwrap(), 0, "{part}");
    }
    let kind = |bytes: &[u8]| open(bytes).unwrap_err().kind();
    assert_eq!(kind(&with(0, 1)), ErrorKind::NotATable);
    assert_eq!(kind(&with(16, 1)), ErrorKind::Corrupt, "of another checkpoint");
    assert_eq!(kind(&with(28, 1)), ErrorKind::Corrupt, "of a table with blocks");
    for at in [16, 28] {
        let mut first_sector = zeros(1..8);
        first_sector[at] ^= 1;
        assert_eq!(kind(&first_sector), ErrorKind::Corrupt, "a part of another header, by byte {at}");
    }
    assert_eq!(kind(&with(600, 1)), ErrorKind::Corrupt, "with a second sector that no new table has");
    for at in [130, 300, 4093] {
        assert_eq!(kind(&with(at, 1)), ErrorKind::Corrupt, "a whole one that is damaged at {at}");
    }
    assert_eq!(kind(&[&zeros(7..8)[..], &[0; 4096]].concat()), ErrorKind::Corrupt, "in a longer file");
    let user = [&[0; 512][..], b"of a user", &[0; 100]].concat();
    assert_eq!(kind(&user), ErrorKind::NotATable);
}
