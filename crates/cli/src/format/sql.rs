//! SQL for SQLite: a table `pairs` with columns `key` and `value`, filled in one transaction.
//!
//! `sqlite3 users.db < pairs.sql` makes the database. Bytes that are UTF-8 without a zero byte are text, others a blob;
//! the columns have no type, so both stay what they are. Text with a carriage return is written as hexadecimal digits,
//! because sqlite3 drops one before a line end even within quotes.

use super::Pair;
use crate::escapes;

pub const HEADER: &[u8] = b"BEGIN;\nCREATE TABLE pairs(key PRIMARY KEY, value) WITHOUT ROWID;\n";
pub const END: &[u8] = b"COMMIT;\n";
/// SQLite's limit for a value, SQLITE_MAX_LENGTH; a statement has the same.
const VALUE_BYTES_MAX: usize = 1_000_000_000 / 4;

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) -> Result<(), String> {
    if pair.key.len().max(pair.value.len()) > VALUE_BYTES_MAX {
        let key = escapes::quoted(pair.key);
        return Err(format!("the pair of {key} is too long for a statement of SQLite; use --format tsv"));
    }
    row.extend_from_slice(b"INSERT INTO pairs VALUES(");
    literal(pair.key, row);
    row.push(b',');
    literal(pair.value, row);
    row.extend_from_slice(b");\n");
    Ok(())
}

fn literal(bytes: &[u8], row: &mut Vec<u8>) {
    let is_text = memchr::memchr(0, bytes).is_none() && std::str::from_utf8(bytes).is_ok();
    match is_text {
        true if memchr::memchr(b'\r', bytes).is_none() => quoted(bytes, row),
        true => {
            row.extend_from_slice(b"CAST(");
            hexadecimal(bytes, row);
            row.extend_from_slice(b" AS TEXT)");
        }
        false => hexadecimal(bytes, row),
    }
}

fn quoted(text: &[u8], row: &mut Vec<u8>) {
    row.push(b'\'');
    for part in text.split_inclusive(|byte| *byte == b'\'') {
        row.extend_from_slice(part);
        if part.ends_with(b"'") {
            row.push(b'\'');
        }
    }
    row.push(b'\'');
}

fn hexadecimal(bytes: &[u8], row: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    row.extend_from_slice(b"X'");
    row.extend(bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]));
    row.push(b'\'');
}
