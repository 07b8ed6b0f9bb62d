//! Any bytes as a dictionary: whatever they are, every call returns a value or an error.
//!
//! ```text
//! "SPLITDCT"...            the whole input is the file, as it is: any .spd file is an input
//! 0, flags, rest           the rest is the file, its checksums repaired if the flags say so
//! n, flags, edits          the n-th good dictionary with these edits
//! ```
//!
//! The file is opened, looked up in, scanned, verified. Flags: the constants below.

use super::damage::change_bytes;
use super::directory;
use super::input::Input;
use crate::fields::number_at;
use crate::spd::{self, Reader, fields::fields_of};
use splitpoint::{Dictionary, DictionaryOptions, Result};
use std::sync::LazyLock;

const REPAIR: u8 = 1;
const MAP_DATA: u8 = 2;
const MAP_INDEX: u8 = 4;

/// Edits of a file at most.
const EDITS_MAX: usize = 15;

struct Base {
    file: &'static [u8],
    fields: Vec<(usize, usize)>,
    keys: Vec<Vec<u8>>,
}

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../../fixtures/spd-v1/", $name))
    };
}

/// An input names one by its place in the list, so new ones come last.
const FILES: &[&[u8]] = &[
    golden!("empty.spd"),
    golden!("page-fixed.spd"),
    golden!("page-varied.spd"),
    golden!("page-lz4.spd"),
    golden!("trie.spd"),
    golden!("trie-sparse.spd"),
    golden!("chunk.spd"),
    golden!("chunk-lz4.spd"),
    golden!("none.spd"),
];

static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| FILES.iter().copied().map(Base::read).collect());

impl Base {
    fn read(file: &'static [u8]) -> Base {
        let reader = Reader::new(file).expect("golden files are good");
        let fields = fields_of(file, &reader);
        let mut keys: Vec<Vec<u8>> = reader.records.into_iter().map(|record| record.key).collect();
        keys.extend([b"absent".to_vec(), Vec::new()]);
        Base { file, fields, keys }
    }
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut flags = 0;
    let mut base = &BASES[0];
    let file = if bytes.starts_with(spd::MAGIC) {
        input.rest().to_vec()
    } else {
        let n = input.byte() as usize % (BASES.len() + 1);
        flags = input.byte();
        base = &BASES[n.saturating_sub(1)];
        let mut file = if n == 0 { input.rest().to_vec() } else { base.file.to_vec() };
        for _ in 0..EDITS_MAX {
            if input.is_empty() {
                break;
            }
            match input.byte() % 8 {
                0..6 => change_field(&mut input, base, &mut file),
                _ => change_bytes(&mut input, &mut file),
            }
        }
        if flags & REPAIR != 0 {
            spd::repair(&mut file);
        }
        file
    };
    let directory = directory();
    let path = directory.path().join("d.spd");
    std::fs::write(&path, &file).expect("room for a file");
    let options = DictionaryOptions::new().map_data(flags & MAP_DATA != 0).map_index(flags & MAP_INDEX != 0);
    if let Some(dictionary) = value_of(options.open(&path)) {
        use_all(&dictionary, &base.keys);
    }
}

fn change_field(input: &mut Input<'_>, base: &Base, file: &mut [u8]) {
    let (at, bytes) = base.fields[input.below(base.fields.len())];
    if at + bytes > file.len() {
        return;
    }
    let old = number_at(file, at, bytes);
    let new = match input.byte() % 8 {
        how @ 0..=4 => input.near(old, how),
        5 => old ^ 1 << (input.byte() % 64),
        // The value of another field.
        6 => {
            let (at, bytes) = base.fields[input.below(base.fields.len())];
            number_at(base.file, at, bytes)
        }
        _ => input.number(bytes),
    };
    file[at..at + bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
}

/// The value; of an error, that it has a sentence.
fn value_of<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|e| assert!(!e.to_string().is_empty(), "an error that says nothing")).ok()
}

/// Everything that can be asked of it.
fn use_all(dictionary: &Dictionary, keys: &[Vec<u8>]) {
    let some: Vec<&Vec<u8>> = keys.iter().rev().step_by(keys.len().div_ceil(16)).collect();
    let mut into = Vec::new();
    // Lookups compare different records first in a page that is in memory and in one that is not, so one of them alone
    // may find a record that is out of order. Then `verify` reports the page.
    let faults = || value_of(dictionary.verify()).is_some_and(|faults| !faults.is_empty());
    for key in &some {
        let value = value_of(dictionary.get(key));
        let found = value_of(dictionary.get_into(key, &mut into));
        let there = value_of(dictionary.contains(key));
        let agree = (found, there) == (value.as_ref().map(Option::is_some), found);
        assert!(agree || faults(), "three ways to look a key up: {value:?}, {found:?}, {there:?}");
        assert!(found != Some(true) || value == Some(Some(into.clone())) || faults(), "two values of a key");
    }
    if let (Some(together), Some(single)) = (
        value_of(dictionary.get_many(&some)),
        some.iter().map(|key| value_of(dictionary.get(key))).collect::<Option<Vec<_>>>(),
    ) {
        assert!(together == single || faults(), "keys together and one by one: {together:?}, {single:?}");
    }
    let mut count = 0;
    let whole = dictionary.iter().all(|pair| {
        count += 1;
        value_of(pair).is_some()
    });
    value_of(dictionary.stat());
    let faults = value_of(dictionary.verify());
    assert!(
        faults.is_none_or(|faults| !faults.is_empty() || whole && count == dictionary.len()),
        "no fault, {count} pairs"
    );
}
