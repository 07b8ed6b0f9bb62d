//! Damage to a good file, as an input says: fields get other values, bytes are set, copied, cut off.
//!
//! A fuzzer that had whole files to change would spend itself on gaps and on checksums. Here an input of a dozen bytes
//! names a good table, a few edits and whether checksums are to fit again, and so is behind them at once.
//!
//! Source: the hand-made cases of `tests/it/corruption.rs`, which chooses by chance where this chooses by coverage.

use super::base::Base;
use super::input::Input;
use crate::fields::{What, number_at};

/// Edits of one file at most.
const EDITS_MAX: usize = 15;
/// The maximum by which a file is made longer.
const LONGER_BYTES: usize = 1 << 16;

/// Edits a table file.
pub fn damage_file(input: &mut Input<'_>, base: &Base, file: &mut Vec<u8>) {
    for _ in 0..input.byte() as usize % (EDITS_MAX + 1) {
        match input.byte() % 8 {
            0..5 => change_field(input, base, file),
            _ => change_bytes(input, file),
        }
    }
}

fn change_field(input: &mut Input<'_>, base: &Base, file: &mut [u8]) {
    let field = base.fields[input.below(base.fields.len())];
    if field.at + field.bytes > file.len() {
        return;
    }
    let old = number_at(file, field.at, field.bytes);
    let new = match input.byte() % 8 {
        how @ 0..=4 => input.near(old, how),
        // The value of another field of its kind: makes shared pages, cycles, overlapping groups.
        5 => {
            let alike: Vec<_> = base.fields.iter().filter(|other| other.what == field.what).collect();
            let other = alike[input.below(alike.len())];
            number_at(base.file, other.at, other.bytes)
        }
        // A reference to an overflow page that is somewhere, and as long as is said.
        6 if field.what == What::Next => input.number(2) << 16 | input.number(1),
        _ => input.number(field.bytes),
    };
    file[field.at..field.at + field.bytes].copy_from_slice(&new.to_le_bytes()[..field.bytes]);
}

/// Sets, fills, copies, adds or cuts off some of the bytes.
pub fn change_bytes(input: &mut Input<'_>, bytes: &mut Vec<u8>) {
    let kind = input.byte() % 4;
    let at = input.below(bytes.len());
    let left = bytes.len() - at;
    match kind {
        0 => {
            let len = input.byte() as usize;
            let new = input.take(len.min(left));
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        1 => {
            let len = input.below(left + 1);
            let fill = input.pick(&[0, 0xFF, 1, 0x80]);
            bytes[at..at + len].fill(fill);
        }
        2 => {
            let len = input.below(left.min(8192) + 1);
            let to = input.below(bytes.len() - len + 1);
            bytes.copy_within(at..at + len, to);
        }
        _ if input.pick(&[true, false, false, false]) => bytes.resize(bytes.len() + input.below(LONGER_BYTES), 0),
        _ => bytes.truncate(at),
    }
}
