//! Times lookups, as examples/lookups.c does through the C library: `lookups KEY_LEN VALUE_LEN LOOKUPS`.
//! tests/cost compares the two.

use splitpoint::{Result, Table, TableOptions};
use std::time::Instant;

const PAIRS: u32 = 20_000;
const LEN_MAX: usize = 256;

fn set_key(key: &mut [u8], number: u32) {
    key.fill(b'k');
    key[..4].copy_from_slice(&number.to_le_bytes());
}

/// A function of its own, as `spt_get` is one, so that callgrind counts the instructions inside of it.
#[inline(never)]
fn get(table: &Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    table.get_into(key, value)
}

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let (key_len, value_len, lookups) = match numbers[..] {
        [key_len @ 4..=LEN_MAX, value_len @ ..=LEN_MAX, lookups] => (key_len, value_len, lookups),
        _ => (8, 16, 100_000),
    };
    let table = TableOptions::new().seed(1).in_memory()?;
    let (mut key, mut value) = (vec![0; key_len], vec![0; value_len]);
    for number in 0..PAIRS {
        set_key(&mut key, number);
        table.put(&key, &value)?;
    }
    let (mut number, mut found) = (1u32, 0);
    let start = Instant::now();
    for _ in 0..lookups {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        set_key(&mut key, (number >> 8) % PAIRS);
        if get(&table, &key, &mut value)? {
            found += value.len();
        }
    }
    let nanoseconds = start.elapsed().as_nanos() as f64 / lookups as f64;
    assert_eq!(found, lookups * value_len);
    println!("{found} bytes found, {nanoseconds:.1} ns a lookup");
    table.close()
}
