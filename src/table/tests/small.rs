//! Disk costs of a table of a few hundred kilobytes from its first open to its close: files created and removed, syncs
//! and bytes, counted on a simulated disk, so that they are the same on every machine.

use crate::io::simulated::{Event, Simulated, State};
use crate::table::options::Durability;
use crate::table::{Table, TableOptions};
use std::sync::Arc;

const PATH: &str = "/disk/t.spt";

/// Changes of the disk.
#[derive(Default)]
struct Counts {
    files_made: usize,
    files_removed: usize,
    syncs: usize,
    bytes: usize,
}

fn counts(disk: &Simulated) -> Counts {
    let mut counts = Counts::default();
    for event in &disk.trace() {
        match event {
            Event::Create(..) | Event::MakeDirectory(..) => counts.files_made += 1,
            Event::Remove(_) => counts.files_removed += 1,
            Event::Sync(_) | Event::SyncNames(_) => counts.syncs += 1,
            Event::Write { bytes, .. } | Event::Store { bytes, .. } => counts.bytes += bytes.len(),
            _ => {}
        }
    }
    counts
}

#[test]
fn a_small_table_makes_few_files_and_syncs() {
    for durability in [Durability::None, Durability::Os] {
        let disk = Simulated::new(State::default());
        disk.let_map(true);
        let mut options = TableOptions::new().seed(1).durability(durability);
        options.storage = Arc::new(disk.clone());
        options.inline_checkpoints = true;
        let table: Table = options.open(PATH).unwrap();
        let mut payload = 0;
        for i in 0..5_000u32 {
            let (key, value) = (format!("word {i}"), i.to_string());
            payload += key.len() + value.len();
            table.put(key.as_bytes(), value.as_bytes()).unwrap();
        }
        table.close().unwrap();
        let counts = counts(&disk);
        // The table's file; one segment of the log. Two syncs for the name of the file and its first header, two for
        // the checkpoint.
        let files = if durability == Durability::Os { 2 } else { 1 };
        assert_eq!((counts.files_made, counts.syncs), (files, 4), "{durability:?}");
        assert_eq!(counts.files_removed, files - 1, "{durability:?}: the segment of the log");
        // A pair has 12 bytes here. In the file: the pair, a slot, room to grow. In the log: zeros, which reserve the
        // space on the disk; then a head of 12 bytes, a length and the pair.
        let bytes_max = if durability == Durability::Os { 7 } else { 4 };
        assert!(counts.bytes < bytes_max * payload, "{durability:?}: {} bytes for {payload}", counts.bytes);
    }
}
