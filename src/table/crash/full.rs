//! A full disk: it refuses writes and changes nothing, and once it has room the same handle goes on.
//!
//! The disk has room for some bytes (`io/simulated/room.rs`). Which call finds none depends on their number, so each
//! check tries many.

use super::content_of;
use super::workload::{Content, PATH};
use crate::error::{Error, ErrorKind};
use crate::io::simulated::{Crash, Simulated, State, Tally};
use crate::planted::{Bug, tests::with};
use crate::random::Random;
use crate::table::{Durability, TableOptions};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Arc;

const DURABILITIES: [Durability; 3] = [Durability::None, Durability::Os, Durability::Sync];

fn options(disk: &Simulated, durability: Durability) -> TableOptions {
    let mut options = TableOptions::new().page_bytes(512).seed(1).durability(durability).log_bytes(1);
    options.storage = Arc::new(disk.clone());
    options
}

/// Some in pages, some in extents.
fn pair(n: u32) -> (Vec<u8>, Vec<u8>) {
    let bytes = if n % 10 == 9 { 3000 } else { 20 * (n as usize % 10) };
    (n.to_be_bytes().into(), vec![n as u8; bytes])
}

fn assert_full(e: &Error, when: &str) {
    assert_eq!(e.kind(), ErrorKind::DiskFull, "{when}: {e}");
    assert!(e.hint().unwrap().ends_with("make room on the disk and try again."), "{when}: {e}");
}

/// What a table on a disk with `room` bytes of room refused.
#[derive(Default)]
struct Refused {
    puts: u32,
    syncs: u32,
    checkpoints: u32,
}

/// Puts pairs on a disk with room for `room` bytes, until it has refused some, then makes room.
fn fill(options: &TableOptions, disk: &Simulated, room: u64, refused: &mut Refused) {
    let when = format!("{:?}, cache {:?}, {room} bytes", options.durability, options.cache_bytes);
    let mut content = Content::new();
    let mut synced = Content::new();
    disk.limit_room(None);
    let table = options.clone().open(PATH).unwrap();
    table.checkpoint().unwrap();
    disk.limit_room(Some(room));
    let mut refused_here = 0;
    for n in 0.. {
        assert!(n < 20_000, "{when}: the disk takes all");
        let (key, value) = pair(n);
        match table.put(&key, &value) {
            Ok(()) => drop(content.insert(key, value.into())),
            Err(e) => {
                assert_full(&e, &when);
                refused.puts += 1;
                refused_here += 1;
            }
        }
        if n % 40 == 39 {
            match table.sync() {
                Ok(()) => synced = content.clone(),
                Err(e) => {
                    assert_full(&e, &when);
                    refused.syncs += 1;
                    refused_here += 1;
                }
            }
        }
        if refused_here > 30 {
            break;
        }
    }
    if let Err(e) = table.checkpoint() {
        assert_full(&e, &when);
        refused.checkpoints += 1;
        assert!(disk.state().content(Path::new("/disk/t.spt-ckpt")).is_none(), "{when}: a journal is left");
    } else {
        synced = content.clone();
    }
    assert_eq!(table.len(), content.len() as u64, "{when}");
    for (key, value) in &content {
        assert!(table.get(key).unwrap().as_deref() == Some(&value[..]), "{when}: {key:?}");
    }
    for crash in [Crash::Kill, Crash::LoseUnsynced] {
        let kept = match (options.durability, crash) {
            (Durability::Sync, _) | (Durability::Os, Crash::Kill) => &content,
            _ => &synced,
        };
        let left = disk.state().survivors(crash, &mut Random::new(&[room]), &mut Tally::default());
        let opened = super::full::options(&Simulated::new(left), options.durability).open(PATH).unwrap();
        let found = content_of(&opened, true).unwrap();
        assert!(kept.iter().all(|(key, value)| found.get(key) == Some(value)), "{when}: {crash:?} loses a pair");
    }

    disk.limit_room(None);
    table.put(b"room", b"again").unwrap_or_else(|e| panic!("{when}: with room again: {e}"));
    content.insert(b"room".into(), (*b"again").into());
    table.sync().unwrap_or_else(|e| panic!("{when}: a sync with room again: {e}"));
    for n in 30_000..30_100 {
        let (key, value) = pair(n);
        table.put(&key, &value).unwrap();
        content.insert(key, value.into());
    }
    table.checkpoint().unwrap();
    assert!(content_of(&table, true).unwrap() == content, "{when}");
    table.close().unwrap();
    assert!(content_of(&options.clone().open(PATH).unwrap(), true).unwrap() == content, "{when}: opened again");
}

fn fill_disks(durability: Durability, inline: bool) -> Refused {
    let mut refused = Refused::default();
    for cache_bytes in [1, 64 << 20] {
        for room in (300..1500).step_by(if inline { 36 } else { 148 }) {
            let disk = Simulated::new(State::default());
            let mut options = options(&disk, durability).cache_bytes(cache_bytes);
            options.inline_checkpoints = inline;
            fill(&options, &disk, room << 10, &mut refused);
        }
    }
    refused
}

#[test]
fn a_full_disk_changes_nothing_and_the_handle_goes_on_once_there_is_room() {
    for durability in DURABILITIES {
        let refused = fill_disks(durability, true);
        assert!(refused.puts > 100 && refused.checkpoints > 10, "{durability:?}: too few refusals to mean anything");
        assert!(refused.syncs > 100 || durability != Durability::None);
    }
    assert!(catch_unwind(|| with(Bug::JournalUnreserved, || fill_disks(Durability::Os, true))).is_err());
}

#[test]
fn a_full_disk_and_checkpoints_of_other_threads() {
    DURABILITIES.iter().for_each(|&durability| drop(fill_disks(durability, false)));
}
