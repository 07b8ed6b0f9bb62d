//! A scan that several processes continue: each run reads some pairs, saves the cursor, and exits. Between the runs the
//! table changes; a pair that is present throughout is still seen exactly once.

#![allow(clippy::disallowed_methods, reason = "the rule is for the library: a program uses the file system")]

use splitpoint::Table;
use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

const PAIRS: usize = 10_000;
const PAIRS_PER_RUN: usize = 3000;

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(directory) = std::env::args_os().nth(1) {
        return run(Path::new(&directory));
    }
    let directory = tempfile::tempdir()?; // removed at the end
    let table = Table::open(directory.path().join("pairs.spt"))?;
    (0..PAIRS).try_for_each(|n| table.put(format!("key {n}").as_bytes(), b"a value"))?;
    table.close()?;
    fs::write(directory.path().join("cursor"), "0")?;
    while directory.path().join("cursor").exists() {
        let status = Command::new(std::env::current_exe()?).arg(directory.path()).status()?;
        assert!(status.success(), "a run failed");
        // The table grows between the runs.
        let table = Table::open(directory.path().join("pairs.spt"))?;
        (0..PAIRS).try_for_each(|n| table.put(format!("new key {n}").as_bytes(), b"a value"))?;
    }
    let keys = fs::read_to_string(directory.path().join("seen"))?;
    let old: Vec<_> = keys.lines().filter(|key| key.starts_with("key ")).collect();
    let distinct: HashSet<_> = old.iter().collect();
    println!("the scan saw {} pairs of {PAIRS} that were present throughout, {} distinct", old.len(), distinct.len());
    assert_eq!((old.len(), distinct.len()), (PAIRS, PAIRS));
    Ok(())
}

/// One process: continues the scan at the saved cursor.
fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let cursor: u64 = fs::read_to_string(directory.join("cursor"))?.parse()?;
    let table = Table::open(directory.join("pairs.spt"))?;
    let mut scan = table.scan_from(cursor);
    let mut seen = fs::read_to_string(directory.join("seen")).unwrap_or_default();
    let mut count = 0;
    // Pairs with equal hashes have one cursor, so stop only between different hashes.
    while (count < PAIRS_PER_RUN || !scan.at_boundary())
        && let Some((key, _)) = scan.next_ref()?
    {
        seen += &format!("{}\n", key.escape_ascii());
        count += 1;
    }
    println!("process {} saw {count} pairs from cursor {cursor}", std::process::id());
    fs::write(directory.join("seen"), seen)?;
    match scan.cursor() {
        Some(cursor) => Ok(fs::write(directory.join("cursor"), cursor.to_string())?),
        None => Ok(fs::remove_file(directory.join("cursor"))?),
    }
}
