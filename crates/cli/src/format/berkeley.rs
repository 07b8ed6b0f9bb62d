//! The dumps of Berkeley DB and LMDB: `db_dump` and `mdb_dump` write them, `db_load` and `mdb_load` read them.
//!
//! ```text
//! VERSION=3
//! format=print            or bytevalue
//! type=btree
//! HEADER=END
//!  alice                  a key, after one space
//!  admin\0a               its value: \HH and \\ are escapes; with bytevalue, hex digits
//! DATA=END
//! ```
//!
//! `DATA=END` marks the end, so a dump that was cut is recognized. Both programs take `type=btree`. `mdb_load` also
//! needs `mapsize`, which `db_load` does not know.
//!
//! `mdb_dump -p` of LMDB before 0.9.25 writes backslashes unescaped, so that `\0a` may be a newline or three
//! characters. Its hexadecimal form is exact. An escape that only old versions can have written is a bad row. The
//! others are read, with a warning. Only LMDB writes `mapsize`.
//!
//! A database with `duplicates=1` may have several values of a key, one after another.

use super::stop::{self, Stop};
use super::{Pair, Row, Scratch, Source, bad_line, lost_at_line};
use crate::escapes;
use crate::failure::Result;
use crate::input::{Input, Taken};
use std::ops::Range;

pub const SIGNATURE: &[u8] = b"VERSION=";
/// LMDB's limit, unless compiled otherwise.
const LMDB_KEY_BYTES_MAX: usize = 511;
/// Lines of a header; real ones have a few.
const HEADER_LINES_MAX: u64 = 1000;

pub struct Dump<'i> {
    input: Input<'i>,
    /// Number of the last line, from 1.
    line: u64,
    state: State,
    hex: bool,
    /// The database may have several values of a key.
    duplicates: bool,
    /// A second value of a key is a bad row.
    one_value: bool,
    key_before: Option<Vec<u8>>,
    of_lmdb: bool,
    /// The first line with an escape whose meaning depends on the version of LMDB.
    doubtful_line: Option<u64>,
    scratch: Scratch,
}

#[derive(PartialEq)]
enum State {
    Header,
    Pairs,
    /// After `DATA=END`.
    End,
}

type Step<T> = std::result::Result<T, Stop>;

/// The two lines of a pair.
enum Lines {
    Pair,
    /// The number of the bad line, and what is wrong with it. The next pair can be found.
    Bad(u64, String),
    End,
}

impl<'i> Dump<'i> {
    pub fn new(input: Input<'i>, one_value: bool) -> Self {
        Self {
            input,
            line: 0,
            state: State::Header,
            hex: true,
            duplicates: false,
            one_value,
            key_before: None,
            of_lmdb: false,
            doubtful_line: None,
            scratch: Scratch::default(),
        }
    }

    fn line(&mut self) -> Step<Range<usize>> {
        stop::line(&mut self.input, &mut self.line, "DATA=END")
    }

    fn header(&mut self) -> Step<()> {
        let mut format = false;
        let mut keys = None;
        while self.line < HEADER_LINES_MAX {
            let range = self.line()?;
            let line = self.input.bytes(range);
            let lost = |what: &str| Stop::lost(format!("{what}, but this is {}", escapes::quoted(line)));
            match line {
                _ if self.line == 1 && !line.starts_with(SIGNATURE) => return lost("`VERSION=3` was expected"),
                b"VERSION=1" | b"VERSION=2" | b"VERSION=3" => {}
                _ if line.starts_with(SIGNATURE) => return lost("VERSION=1, 2 or 3 was expected"),
                b"format=print" => (format, self.hex) = (true, false),
                b"format=bytevalue" => (format, self.hex) = (true, true),
                _ if line.starts_with(b"format=") => return lost("format=print or format=bytevalue was expected"),
                b"type=recno" | b"type=queue" => keys = keys.or(Some(false)),
                b"type=heap" => return lost("a heap has values without keys, so it has no pairs"),
                b"duplicates=1" => self.duplicates = true,
                _ if line.starts_with(b"mapsize=") => self.of_lmdb = true,
                b"keys=1" => keys = Some(true),
                b"keys=0" => keys = Some(false),
                b"HEADER=END" if !format => return lost("format=print or format=bytevalue was expected before"),
                b"HEADER=END" if keys == Some(false) => {
                    return lost("values without keys follow; `db_dump -k` writes the record numbers as keys");
                }
                b"HEADER=END" => {
                    self.state = State::Pairs;
                    return Ok(());
                }
                _ if line.contains(&b'=') && !line.starts_with(b" ") => {}
                _ => return lost("NAME=VALUE or HEADER=END was expected"),
            }
        }
        Stop::lost("HEADER=END was expected long before")
    }

    /// Only one database: the pairs of a second would overwrite those of the first.
    fn end(&mut self) -> Result<Row<'static>> {
        loop {
            let taken = self.input.line()?;
            self.line += u64::from(!matches!(taken, Taken::Interrupted));
            let line = match taken {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Ok(Row::Interrupted),
                Taken::TooLong => b"a long line",
                Taken::Short(_) | Taken::End => return Ok(Row::End),
            };
            if line.starts_with(SIGNATURE) {
                let what = "a second database begins here; dump one at a time (`db_dump -s NAME`, `mdb_dump -s NAME`)";
                return Ok(lost_at_line(&self.input, self.line, what.into()));
            }
            if !line.trim_ascii().is_empty() {
                let what = format!("nothing was expected after DATA=END, but this is {}", escapes::quoted(line));
                return Ok(lost_at_line(&self.input, self.line, what));
            }
        }
    }

    fn pair(&mut self) -> Step<Lines> {
        if self.state == State::Header {
            self.header()?;
        }
        let mut wrong = None;
        for what in ["key", "value"] {
            let range = self.line()?;
            let line = self.input.bytes(range);
            if what == "key" && line == b"DATA=END" {
                self.state = State::End;
                return Ok(Lines::End);
            }
            let Some(text) = line.strip_prefix(b" ") else {
                let end = if what == "key" { " or DATA=END" } else { "" };
                let line = escapes::quoted(line);
                return Stop::lost(format!(
                    "a {what}, which begins with a space,{end} was expected, but this is {line}"
                ));
            };
            let bytes = if what == "key" { &mut self.scratch.key } else { &mut self.scratch.value };
            let decoded = if self.hex { from_hex(text, bytes) } else { unescape(text, self.of_lmdb, bytes) };
            if self.of_lmdb && !self.hex && text.contains(&b'\\') {
                self.doubtful_line = self.doubtful_line.or(Some(self.line));
            }
            if let (Err(what), None) = (decoded, &wrong) {
                wrong = Some((self.line, what));
            }
        }
        let second = wrong.is_none().then(|| self.second_value()).flatten().map(|what| (self.line, what));
        Ok(wrong.or(second).map_or(Lines::Pair, |(line, what)| Lines::Bad(line, what)))
    }

    /// The error for a second value of a key.
    fn second_value(&mut self) -> Option<String> {
        if !self.duplicates || !self.one_value {
            return None;
        }
        if self.key_before.as_ref() == Some(&self.scratch.key) {
            let key = escapes::quoted(&self.scratch.key);
            return Some(format!(
                "a second value of the key {key}, in a database with duplicates; `load` with --duplicates last, first \
                 or append takes it"
            ));
        }
        self.key_before.get_or_insert_default().clone_from(&self.scratch.key);
        None
    }
}

impl Source for Dump<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if self.state == State::End {
            return self.end();
        }
        match self.pair() {
            Ok(Lines::Pair) => Ok(Row::Pair(self.scratch.pair(), self.line)),
            Ok(Lines::Bad(line, what)) => Ok(bad_line(&self.input, line, what)),
            Ok(Lines::End) => self.end(),
            Err(stop) => stop.row(|what| lost_at_line(&self.input, self.line, what)),
        }
    }

    fn number(&self) -> u64 {
        self.line
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }

    fn note(&self) -> Option<String> {
        let line = self.doubtful_line?;
        Some(format!(
            "line {line} and perhaps others have backslashes, which `mdb_dump -p` of LMDB before 0.9.25 does not \
             escape; they were read as escapes; a dump without -p is exact"
        ))
    }
}

fn reserve(text: &[u8], bytes: &mut Vec<u8>) -> std::result::Result<(), String> {
    bytes.clear();
    bytes.try_reserve(text.len()).map_err(|_| format!("no memory for a row of {} bytes", text.len()))
}

fn from_hex(text: &[u8], bytes: &mut Vec<u8>) -> std::result::Result<(), String> {
    reserve(text, bytes)?;
    let (pairs, rest) = text.as_chunks::<2>();
    for pair in pairs {
        let byte = byte_of(*pair)
            .ok_or_else(|| format!("two hexadecimal digits were expected, but this is {}", escapes::quoted(pair)))?;
        bytes.push(byte);
    }
    if rest.is_empty() {
        return Ok(());
    }
    Err(format!("an even number of hexadecimal digits was expected, but there are {}", text.len()))
}

/// `of_lmdb`: only bytes that are not printable are escaped as digits.
fn unescape(text: &[u8], of_lmdb: bool, bytes: &mut Vec<u8>) -> std::result::Result<(), String> {
    reserve(text, bytes)?;
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let escape = &rest[at + 1..];
        let (byte, length) = match escape {
            [b'\\', ..] => (Some(b'\\'), 1),
            [high, low, ..] => (byte_of([*high, *low]), 2),
            _ => (None, 0),
        };
        let byte = byte.filter(|byte| !of_lmdb || length == 1 || !matches!(byte, b' '..=b'~'));
        let Some(byte) = byte else {
            let shown = escapes::quoted(&rest[at..(at + 3).min(rest.len())]);
            return Err(format!(
                "a backslash and two hexadecimal digits, or two backslashes, were expected, but this is {shown}; \
                 old versions of `mdb_dump -p` write backslashes like this: dump without -p"
            ));
        };
        bytes.push(byte);
        rest = &escape[length..];
    }
    bytes.extend_from_slice(rest);
    Ok(())
}

fn byte_of(digits: [u8; 2]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(digits[0])? << 4 | digit(digits[1])?)
}

/// `map_bytes` is the size of the new database, for LMDB.
pub fn write_header(hex: bool, map_bytes: Option<u64>, row: &mut Vec<u8>) {
    let format = if hex { "bytevalue" } else { "print" };
    row.extend_from_slice(format!("VERSION=3\nformat={format}\ntype=btree\n").as_bytes());
    if let Some(bytes) = map_bytes {
        row.extend_from_slice(format!("mapsize={bytes}\n").as_bytes());
    }
    row.extend_from_slice(b"HEADER=END\n");
}

pub fn write(hex: bool, pair: Pair<'_>, row: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for bytes in [pair.key, pair.value] {
        row.push(b' ');
        for byte in bytes {
            let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            match byte {
                _ if hex => row.extend_from_slice(&digits),
                b'\\' => row.extend_from_slice(b"\\\\"),
                b' '..=b'~' => row.push(*byte),
                _ => row.extend_from_slice(&[b'\\', digits[0], digits[1]]),
            }
        }
        row.push(b'\n');
    }
}

/// Whether LMDB accepts the key.
pub fn check_for_lmdb(pair: Pair<'_>) -> std::result::Result<(), String> {
    if (1..=LMDB_KEY_BYTES_MAX).contains(&pair.key.len()) {
        return Ok(());
    }
    let (key, bytes) = (escapes::quoted(pair.key), pair.key.len());
    Err(format!("the key {key} has {bytes} bytes; keys of LMDB have 1 to {LMDB_KEY_BYTES_MAX}"))
}

pub fn write_end(row: &mut Vec<u8>) {
    row.extend_from_slice(b"DATA=END\n");
}
