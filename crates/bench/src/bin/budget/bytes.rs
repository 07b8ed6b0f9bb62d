//! The bytes that a load writes, and the memory that it touches for the first time: `budget bytes LOAD`.
//!
//! ```text
//! written  bytes given to write calls until the table is closed (`wchar` of /proc/self/io): zeros of the log, blocks
//!          of the file
//! fresh    resident memory after the sync, less that before the load (`Rss` of /proc/self/smaps_rollup): frames, and
//!          pages of the log, which are stored through mappings and so are not in `written`
//! log      bytes of the log up to the end of its last record
//! ```
//!
//! Each is printed in percent of the payload. `written` + `fresh` covers the bytes that go to log, frames and file.
//! Bytes that a thread prepares after the log's end do not count: up to 8 MiB, whatever the load. A load is 96 MB: its
//! log is too short to need a checkpoint, and the program fails if one was made. So the counts are the same in each
//! run, to 1 %; without a log a thread populates frames in advance, and `fresh` differs by 3 %.
//!
//! Why `Rss`: one fault maps several pages of a file, so faults would count too few bytes. The kernel's other counters
//! of resident memory are inexact on machines of many processors; this one walks the page tables. Nothing large is
//! unmapped before the sync. Large pages are off in this process, as they would round each range up to 2 MiB.
//!
//! Not here: the budgets (`crates/bench/budget`).

use crate::key;
use splitpoint::{Durability, Table, TableOptions};
use std::path::Path;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The pairs to put, and the table to put them into.
struct Load {
    name: &'static str,
    pairs: u64,
    value_bytes: fn(u64) -> usize,
    durability: Durability,
    /// Counts putting all pairs again after a checkpoint, not the first puts.
    again: bool,
}

const KEY_BYTES: usize = 16;
const RECORD_BYTES: usize = 2500 - KEY_BYTES;

/// 96 MB each.
const LOADS: [Load; 7] = {
    const PAIRS: Load =
        Load { name: "pairs-os", pairs: 2_000_000, value_bytes: |_| 32, durability: Durability::Os, again: false };
    const RECORDS: Load = Load { name: "records-os", pairs: 38_400, value_bytes: |_| RECORD_BYTES, ..PAIRS };
    /// Values of 0 to 5,000 bytes, on average as long as in `RECORDS`.
    const SIZES: Load = Load {
        name: "sizes-os",
        value_bytes: |i| (u64::from_le_bytes(key(i)) >> 32) as usize % (2 * RECORD_BYTES + 1),
        ..RECORDS
    };
    [
        PAIRS,
        Load { name: "pairs-none", durability: Durability::None, ..PAIRS },
        RECORDS,
        Load { name: "records-none", durability: Durability::None, ..RECORDS },
        SIZES,
        Load { name: "sizes-none", durability: Durability::None, ..SIZES },
        Load { name: "again-os", again: true, ..PAIRS },
    ]
};

/// Runs the load of that name in a new directory. Returns the three counts, in hundredths of the payload, rounded up.
pub(crate) fn count(name: &str) -> Outcome<[u64; 3]> {
    let load = LOADS
        .iter()
        .find(|load| load.name == name)
        .ok_or_else(|| format!("no load '{name}'; there are {}", LOADS.each_ref().map(|load| load.name).join(", ")))?;
    nix::sys::prctl::set_thp_disable(true)?;
    let dir = std::env::temp_dir().join(format!("splitpoint-budget-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let counts = count_in(&dir, load);
    std::fs::remove_dir_all(&dir)?;
    let payload: u64 = (0..load.pairs).map(|i| (KEY_BYTES + (load.value_bytes)(i)) as u64).sum();
    Ok(counts?.map(|bytes| (100 * bytes).div_ceil(payload)))
}

fn count_in(dir: &Path, load: &Load) -> Outcome<[u64; 3]> {
    let value = vec![7; (0..load.pairs).map(load.value_bytes).max().unwrap_or(0)];
    let mut before = Bytes::now(dir)?;
    let table = TableOptions::new().durability(load.durability).cache_bytes(1 << 30).open(dir.join("table"))?;
    if load.again {
        put_all(&table, load, &value)?;
        table.checkpoint()?;
        before = Bytes::now(dir)?;
    }
    let checkpoints = table.counters().checkpoints;
    put_all(&table, load, &value)?;
    assert_eq!(table.counters().checkpoints, checkpoints, "a checkpoint was made beside the load");
    assert_eq!(table.len(), load.pairs, "not every pair was there");
    table.sync()?;
    let after = Bytes::now(dir)?;
    table.close()?;
    let ahead = after.ahead - before.ahead;
    let written = number_after(WRITTEN.0, WRITTEN.1)? - before.written - ahead;
    Ok([written, after.resident - before.resident - ahead, after.log - before.log])
}

fn put_all(table: &Table, load: &Load, value: &[u8]) -> splitpoint::Result<()> {
    (0..load.pairs).try_for_each(|i| {
        let mut pair_key = [0; KEY_BYTES];
        pair_key[..8].copy_from_slice(&key(i));
        table.put(&pair_key, &value[..(load.value_bytes)(i)])
    })
}

/// The file that counts bytes given to write calls, and the name of that field.
const WRITTEN: (&str, &str) = ("/proc/self/io", "wchar:");

/// Counts of this process and its table.
struct Bytes {
    written: u64,
    resident: u64,
    /// Bytes of all segments up to their last records.
    log: u64,
    /// Bytes of all segments after their last records: zeros.
    ahead: u64,
}

impl Bytes {
    fn now(dir: &Path) -> Outcome<Bytes> {
        let (mut log, mut ahead) = (0, 0);
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains("-log") {
                let bytes = std::fs::read(entry.path())?;
                let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
                log += used as u64;
                ahead += (bytes.len() - used) as u64;
            }
        }
        let resident = number_after("/proc/self/smaps_rollup", "Rss:")? << 10;
        Ok(Bytes { written: number_after(WRITTEN.0, WRITTEN.1)?, resident, log, ahead })
    }
}

fn number_after(path: &str, name: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string(path)?;
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    Ok(found.ok_or_else(|| format!("{path} has no {name}"))?.parse()?)
}
