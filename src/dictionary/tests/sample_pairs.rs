//! Pairs for the tests of dictionaries, with sizes at which a file's layout changes.
//!
//! Uses nothing of the library: the integration tests include this file too.

use std::collections::BTreeMap;

pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

pub const KINDS: [&str; 5] = ["fixed", "fixed, long", "keys alone", "words", "sizes"];

/// Returns up to `count` pairs with sizes chosen by `kind`, made from the numbers that `random` returns.
pub fn pairs(kind: &str, count: u64, mut random: impl FnMut() -> u64) -> Pairs {
    let mut below = |end: u64| random() % end;
    let mut pair = |n: u64| {
        let (key_len, value_len) = match kind {
            "fixed" => (0, 8),
            "fixed, long" => (30, 1500),
            "sizes" => {
                let value_len = match below(50) {
                    0 => below(20_000),
                    1..10 => below(2000),
                    _ => below(40),
                };
                (below(12), value_len)
            }
            _ => (0, 0),
        };
        let mut bytes = |len| (0..len).map(|_| below(256) as u8).collect::<Vec<u8>>();
        match kind {
            "fixed" | "keys alone" => (n.to_le_bytes().to_vec(), bytes(value_len)),
            "fixed, long" | "sizes" => (bytes(key_len), bytes(value_len)),
            "words" => (format!("word{n}").into_bytes(), format!("{}", n * n).into_bytes()),
            other => panic!("no pairs called {other}"),
        }
    };
    (0..count).map(&mut pair).collect()
}
