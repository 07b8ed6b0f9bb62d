//! The memory of a table in a file: close to `cache_bytes`, however long its values are and however they are stored.
//!
//! A child process stores several times as much as the cache holds and measures its anonymous memory after each step:
//! memory that the system cannot reclaim. Mapped pages of the log and of the file do not count.

use super::process;
use splitpoint::{Durability, Table, TableOptions};
use std::fs;
use std::path::Path;
use std::process::Stdio;

const CACHE_BYTES: u64 = 8 << 20;
const DURABILITIES: [Durability; 3] = [Durability::None, Durability::Os, Durability::Sync];
const HOWS: [&str; 5] = ["put", "append", "write_part", "batch", "replay"];

/// Returns the bytes of this process's memory that belong to no file.
fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn open(place: &Path, durability: Durability) -> Table {
    TableOptions::new().cache_bytes(CACHE_BYTES).durability(durability).open(place.join("t.spt")).unwrap()
}

/// Stores values and prints the peak of memory above the initial amount. Arguments: indexes of the durability and of
/// the method, with the bytes of a value between them; then the number of values.
pub fn store(place: &Path, arguments: &[u64]) {
    let &[durability, bytes, how, count] = arguments else { panic!("arguments") };
    let (durability, how) = (DURABILITIES[durability as usize], HOWS[how as usize]);
    let mut value: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
    let before = anonymous_bytes();
    let mut most = 0;
    let mut measure = || most = most.max(anonymous_bytes().saturating_sub(before));
    let mut table = open(place, durability);
    for n in 0..count {
        let (key, part) = (n.to_be_bytes(), bytes as usize / 4);
        value[0] = n as u8;
        match how {
            "append" => {
                for part in value.chunks(part) {
                    table.append(&key, part).unwrap();
                    measure();
                }
            }
            "write_part" => {
                table.put(&key, &value).unwrap();
                assert!(table.write_part(&key, part, &[9; 100]).unwrap());
            }
            "batch" => {
                let mut batch = table.batch();
                batch.put(&key, &value).unwrap();
                batch.put(b"changing", &value).unwrap();
                batch.commit().unwrap();
            }
            _ => table.put(&key, &value).unwrap(),
        }
        measure();
    }
    if how == "replay" {
        // Copies the files without a checkpoint, as after a kill. Nothing changes them now.
        fs::create_dir(place.join("killed")).unwrap();
        for entry in fs::read_dir(place).unwrap().map(Result::unwrap).filter(|e| e.path().is_file()) {
            fs::copy(entry.path(), place.join("killed").join(entry.file_name())).unwrap();
        }
        drop(table);
        table = open(&place.join("killed"), durability);
        measure();
    }
    for n in 0..count {
        assert_eq!(table.get(&n.to_be_bytes()).unwrap().unwrap().len() as u64, bytes);
        measure();
    }
    println!("most: {most}");
}

#[test]
fn a_table_takes_the_memory_that_it_may_however_long_its_values_are() {
    let all =
        (0..3).flat_map(|durability| [20 << 10, 100 << 10, 1 << 20, 10 << 20].map(|bytes| (durability, bytes, 0)));
    let others = (1..HOWS.len() as u64).flat_map(|how| [(0, 100 << 10, how), (1, 30 << 10, how), (1, 1 << 20, how)]);
    for (durability, bytes, how) in all.chain(others).chain([(2, 300 << 10, 4), (2, 300 << 10, 3)]) {
        if durability == 0 && HOWS[how as usize] == "replay" {
            continue; // nothing is logged
        }
        let place = tempfile::tempdir().unwrap();
        let count = (5 * CACHE_BYTES / bytes).max(8);
        let output = process("store", place.path(), &[durability, bytes, how, count]).stdout(Stdio::piped()).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        let when =
            format!("{:?}, {count} values of {bytes} bytes, {}", DURABILITIES[durability as usize], HOWS[how as usize]);
        let most = output.split("most: ").nth(1).unwrap_or_else(|| panic!("{when}: {output}"));
        let most: u64 = most.split_whitespace().next().unwrap().parse().unwrap();
        println!("{when}: {} KiB", most >> 10);
        // The cache and half as much again during a checkpoint; copies of some values; the process's own memory.
        let limit = CACHE_BYTES * 3 / 2 + 4 * bytes + (8 << 20);
        assert!(most <= limit, "{when}: {} KiB, over {}", most >> 10, limit >> 10);
    }
}
