//! Costs of a table that `make budget` counts: instructions and cache lines of `budget OPERATION`, and bytes of `budget
//! bytes LOAD` (`bytes.rs`).
//!
//! Fixed inputs, so that the counts are the same on every machine: 200,000 pairs of 8 + 16 bytes, keys in a fixed
//! scrambled order, the table growing from empty; in memory, except `logged`, which uses a file with a log. Each
//! operation has its own function, which callgrind finds by name (`count_put`, `count_hit`, ...); code that runs before
//! it is not counted. The program checks every answer.
//!
//! Not here: callgrind, and the budgets (`crates/bench/budget`).

#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic where a write fails

mod bytes;

use splitpoint::{Durability, Result, Table, TableOptions};
use std::hint::black_box;
use std::io::Write;

const PAIRS: u64 = 200_000;

fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (i << 7)).to_le_bytes()
}

#[inline(never)]
fn count_put(table: &Table) -> Result<()> {
    (0..PAIRS).try_for_each(|i| table.put(&key(i), &[1; 16]))
}

#[inline(never)]
fn count_logged(table: &Table) -> Result<()> {
    count_put(table)
}

/// Puts into a file with a log: the cost of a put in addition to its work in memory.
fn logged() -> std::result::Result<u64, Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("splitpoint-budget-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let table = TableOptions::new().durability(Durability::Os).open(dir.join("table"))?;
    count_logged(&table)?;
    let len = table.len();
    table.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(len)
}

#[inline(never)]
fn count_overwrite(table: &Table) -> Result<()> {
    (0..PAIRS).try_for_each(|i| table.put(&key(i), &[2; 16]))
}

#[inline(never)]
fn count_hit(table: &Table) -> Result<u64> {
    let mut value = Vec::new();
    let mut found = 0;
    for i in 0..PAIRS {
        found += u64::from(table.get_into(&key(i), black_box(&mut value))?);
    }
    Ok(found)
}

#[inline(never)]
fn count_typed(table: &Table) -> Result<u64> {
    let typed = table.typed::<u64, u128>()?;
    let mut found = 0;
    for i in 0..PAIRS {
        found += u64::from(black_box(typed.get(&u64::from_le_bytes(key(i)))?).is_some());
    }
    Ok(found)
}

#[inline(never)]
fn count_miss(table: &Table) -> Result<u64> {
    let mut value = Vec::new();
    let mut found = 0;
    for i in PAIRS..2 * PAIRS {
        found += u64::from(table.get_into(&key(i), black_box(&mut value))?);
    }
    Ok(found)
}

#[inline(never)]
fn count_append(table: &Table) -> Result<()> {
    (0..PAIRS).try_for_each(|i| table.append(&key(i), &[3; 8]).map(drop))
}

#[inline(never)]
fn count_remove(table: &Table) -> Result<u64> {
    let mut removed = 0;
    for i in 0..PAIRS {
        removed += u64::from(table.remove(&key(i))?);
    }
    Ok(removed)
}

#[inline(never)]
fn count_scan(table: &Table) -> Result<u64> {
    let mut scan = table.scan();
    let mut pairs = 0;
    while let Some(pair) = scan.next_ref()? {
        black_box(pair);
        pairs += 1;
    }
    Ok(pairs)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let operation = std::env::args().nth(1).unwrap_or_default();
    if operation == "bytes" {
        let [written, fresh, log] = bytes::count(&std::env::args().nth(2).unwrap_or_default())?;
        writeln!(std::io::stdout(), "{written} {fresh} {log}")?;
        return Ok(());
    }
    if operation == "logged" {
        assert_eq!(logged()?, PAIRS, "{operation}: not every pair was there");
        writeln!(std::io::stdout(), "{PAIRS}")?;
        return Ok(());
    }
    let table = Table::in_memory()?;
    count_put(&table)?;
    let answers = match &*operation {
        "put" => table.len(),
        "overwrite" => count_overwrite(&table).map(|()| table.len())?,
        "hit" => count_hit(&table)?,
        "typed" => count_typed(&table)?,
        "miss" => PAIRS - count_miss(&table)?,
        "append" => count_append(&table).map(|()| table.len())?,
        "remove" => count_remove(&table)?,
        "scan" => count_scan(&table)?,
        other => {
            let _ = writeln!(
                std::io::stderr(),
                "budget: no operation '{other}'; there are put, logged, overwrite, hit, typed, miss, append, remove, \
                 scan, and bytes LOAD"
            );
            std::process::exit(2);
        }
    };
    assert_eq!(answers, PAIRS, "{operation}: not every pair was there");
    writeln!(std::io::stdout(), "{PAIRS}")?;
    Ok(())
}
