//! Pairs as text or bytes: one reader and one writer for the four formats.
//!
//! | format | a pair is | bytes kept |
//! |---|---|---|
//! | `tsv` | key TAB value, one per line; escapes `\t \n \r \\ \xHH` | any |
//! | `jsonl` | `{"key": "...", "value": "..."}`, one per line; `key_base64`, `value_base64` for non-UTF-8 | any |
//! | `raw` | u32 key length, u32 value length (both little-endian), key, value | any |
//! | `lines` | a key per line, unescaped; the value is empty, or the line's number | keys without newline, zero byte |
//!
//! Reading borrows from the input's buffer if the pair needs no unescaping, and unescapes into two reused buffers
//! otherwise: no allocation per row.

pub mod jsonl;
pub mod raw;
pub mod tsv;

use crate::failure::Result;
use crate::input::{Input, Taken};
use crate::known::{self, Layout};
use std::io::Write;
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// key TAB value; \t \n \r \\ \xHH for bytes
    Tsv,
    /// {"key": "...", "value": "..."}; key_base64, value_base64 for bytes that are not UTF-8
    Jsonl,
    /// u32 key length, u32 value length (little-endian), key, value
    Raw,
    /// One key per line, unescaped
    Lines,
}

impl Format {
    pub fn layout(self) -> Layout {
        match self {
            Self::Raw => Layout::Raw,
            Self::Tsv | Self::Jsonl | Self::Lines => Layout::Text,
        }
    }

    pub fn of_path(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl" | "ndjson" | "json") => Self::Jsonl,
            Some("raw" | "bin") => Self::Raw,
            _ => Self::Tsv,
        }
    }
}

/// Where a row is decoded if its bytes are not in the input verbatim.
#[derive(Default)]
pub struct Scratch {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'r> {
    pub key: &'r [u8],
    pub value: &'r [u8],
}

pub enum Row<'r> {
    /// With its number, because the reader is borrowed.
    Pair(Pair<'r>, u64),
    Bad(BadRow),
    /// A signal came while we waited for input.
    Interrupted,
    End,
}

/// A row that is not a pair; its `Display` is `file:line: what`.
pub struct BadRow {
    pub place: String,
    pub what: String,
    /// Whether the next row can be found.
    pub goes_on: bool,
}

impl std::fmt::Display for BadRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

pub struct RowReader<'i> {
    input: Input<'i>,
    format: Format,
    number_lines: bool,
    /// Number of the last row, from 1: lines, or pairs of raw input.
    number: u64,
    scratch: Scratch,
}

impl<'i> RowReader<'i> {
    pub fn new(input: Input<'i>, format: Format, number_lines: bool) -> Self {
        Self { input, format, number_lines, number: 0, scratch: Scratch::default() }
    }

    pub fn input(&self) -> &Input<'i> {
        &self.input
    }

    /// Refuses a binary file, before the first row.
    pub fn refuse_binary(&mut self) -> Result<()> {
        known::refuse_binary(&mut self.input, self.format.layout())
    }

    /// Number of the last row, from 1: its line, or which pair of raw input it is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// `pairs.tsv:17`, or `pairs.raw: pair 17`: the place of the last row.
    pub fn place(&self) -> String {
        self.place_of(self.number)
    }

    /// The place of the next row.
    pub fn next_place(&self) -> String {
        self.place_of(self.number + 1)
    }

    fn place_of(&self, number: u64) -> String {
        match self.format {
            Format::Raw => format!("{}: pair {number}", self.input.name),
            _ => format!("{}:{number}", self.input.name),
        }
    }

    pub fn next_row(&mut self) -> Result<Row<'_>> {
        match self.format {
            Format::Raw => self.next_raw(),
            _ => self.next_line(),
        }
    }

    fn next_line(&mut self) -> Result<Row<'_>> {
        let range = loop {
            match self.input.line()? {
                Taken::Bytes(range) => {
                    self.number += 1;
                    // A blank line in a hand-made file holds no pair; in plain lines it is the empty key.
                    if self.format == Format::Lines || !matches!(self.input.bytes(range.clone()), b"" | b"\r") {
                        break range;
                    }
                }
                Taken::TooLong => {
                    self.number += 1;
                    return Ok(self.bad(self.input.limit_met(), true));
                }
                Taken::Interrupted => return Ok(Row::Interrupted),
                Taken::Short(_) | Taken::End => return Ok(Row::End),
            }
        };
        let line = self.input.bytes(range);
        let parsed = match self.format {
            Format::Tsv | Format::Lines if memchr::memchr(0, line).is_some() => Err(has_zero_byte(line)),
            Format::Tsv => tsv::parse(line, &mut self.scratch),
            Format::Jsonl => jsonl::parse(line, &mut self.scratch),
            Format::Lines | Format::Raw => {
                Ok(plain_line(line, self.number_lines.then_some(self.number), &mut self.scratch))
            }
        };
        // Not `self.place()`: the pair still borrows from the scratch buffers.
        Ok(match parsed {
            Ok(pair) => Row::Pair(pair, self.number),
            Err(what) => {
                Row::Bad(BadRow { place: format!("{}:{}", self.input.name, self.number), what, goes_on: true })
            }
        })
    }

    fn next_raw(&mut self) -> Result<Row<'_>> {
        self.number += 1;
        let at = self.input.taken_bytes();
        let header = match self.input.exactly(raw::HEADER_BYTES)? {
            Taken::Bytes(range) => raw::Header::parse(self.input.bytes(range)),
            Taken::Short(there) => {
                return Ok(self.bad(
                    format!("input ends {there} bytes into a header of {}, at byte {at}", raw::HEADER_BYTES),
                    false,
                ));
            }
            Taken::Interrupted => return Ok(self.interrupted()),
            Taken::End | Taken::TooLong => return Ok(Row::End),
        };
        let what = format!(
            "the header at byte {at} promises a key of {} and a value of {} bytes",
            header.key_bytes, header.value_bytes
        );
        let there = match self.input.exactly(header.pair_bytes())? {
            Taken::Bytes(range) => {
                let (key, value) = self.input.bytes(range).split_at(header.key_bytes as usize);
                return Ok(Row::Pair(Pair { key, value }, self.number));
            }
            Taken::Interrupted => return Ok(self.interrupted()),
            Taken::TooLong => return Ok(self.bad(format!("{what}: {}", self.input.limit_met()), false)),
            Taken::Short(there) => there,
            Taken::End => 0,
        };
        Ok(self.bad(format!("{what}, {there} bytes are left"), false))
    }

    /// The interrupted pair is still the next one.
    fn interrupted(&mut self) -> Row<'static> {
        self.number -= 1;
        Row::Interrupted
    }

    fn bad(&self, what: String, goes_on: bool) -> Row<'static> {
        Row::Bad(BadRow { place: self.place(), what, goes_on })
    }
}

/// Reports a zero byte in a line of text, which only binary data has.
pub fn has_zero_byte(line: &[u8]) -> String {
    format!("zero byte in {}; tsv writes it \\x00", tsv::quoted(line))
}

fn plain_line<'r>(line: &'r [u8], number: Option<u64>, scratch: &'r mut Scratch) -> Pair<'r> {
    scratch.value.clear();
    if let Some(number) = number {
        write!(scratch.value, "{number}").expect("a Vec takes every write");
    }
    Pair { key: line.strip_suffix(b"\r").unwrap_or(line), value: &scratch.value }
}

/// Appends `pair` as one row of `format` to `row`.
///
/// # Errors
/// Why the format cannot hold the pair: [`Format::Lines`] and a key with a line end or a zero byte.
pub fn write_row(format: Format, pair: Pair<'_>, row: &mut Vec<u8>) -> std::result::Result<(), String> {
    match format {
        Format::Tsv => tsv::write(pair, row),
        Format::Jsonl => jsonl::write(pair, row),
        Format::Raw => return raw::write(pair, row),
        Format::Lines => {
            if pair.key.contains(&b'\n') || pair.key.contains(&0) || pair.key.ends_with(b"\r") {
                return Err(format!(
                    "the key {} does not fit in a plain line; use --format tsv",
                    tsv::quoted(pair.key)
                ));
            }
            row.extend_from_slice(pair.key);
            row.push(b'\n');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type OwnedRow = std::result::Result<(Vec<u8>, Vec<u8>), String>;

    fn read(format: Format, bytes: &[u8]) -> Vec<OwnedRow> {
        let mut reader = RowReader::new(Input::new(Box::new(bytes), "in".into()), format, false);
        let mut rows = Vec::new();
        loop {
            match reader.next_row().unwrap() {
                Row::Pair(pair, _) => rows.push(Ok((pair.key.to_vec(), pair.value.to_vec()))),
                Row::Bad(bad) => {
                    rows.push(Err(bad.to_string()));
                    if !bad.goes_on {
                        return rows;
                    }
                }
                Row::Interrupted | Row::End => return rows,
            }
        }
    }

    /// Every byte, in runs that are UTF-8 and that are not, and the awkward cases.
    fn awkward() -> Vec<Vec<u8>> {
        let all: Vec<u8> = (0..=255).collect();
        let mut awkward: Vec<Vec<u8>> = all.iter().map(|byte| vec![*byte]).collect();
        awkward.extend([
            all,
            vec![],
            b"\\".to_vec(),
            b"\\\\n\t\r\n".to_vec(),
            b"a\r".to_vec(),
            "naïve \u{1F600} \u{7f}".into(),
        ]);
        awkward
    }

    #[test]
    fn every_format_gives_back_any_bytes() {
        for format in [Format::Tsv, Format::Jsonl, Format::Raw] {
            let mut bytes = Vec::new();
            let pairs: Vec<_> = awkward().into_iter().rev().zip(awkward()).collect();
            for (key, value) in &pairs {
                write_row(format, Pair { key, value }, &mut bytes).unwrap();
            }
            let rows: Vec<_> = read(format, &bytes).into_iter().map(|row| row.unwrap()).collect();
            assert_eq!(rows, pairs, "{format:?}");
        }
    }

    #[test]
    fn any_bytes_are_rows_or_bad_rows() {
        // Seeded mutations of good input: reading always ends and never panics.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for format in [Format::Tsv, Format::Jsonl, Format::Raw, Format::Lines] {
            let mut good = Vec::new();
            for (key, value) in [("k\\", "v\n"), ("", "x\ty"), ("\u{e9}", "")] {
                write_row(format, Pair { key: key.as_bytes(), value: value.as_bytes() }, &mut good).unwrap();
            }
            for _ in 0..2000 {
                let mut bytes = good.clone();
                for _ in 0..3 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 33) as usize % bytes.len();
                    bytes[at] = (state >> 24) as u8;
                }
                bytes.truncate(bytes.len() - (state >> 60) as usize % bytes.len());
                read(format, &bytes);
            }
        }
    }

    #[test]
    fn bad_rows_are_named_by_line_and_the_next_is_read() {
        let rows = read(Format::Tsv, b"a\t1\nno tab\n\nb\t\\q\nc\t3");
        let bad: Vec<_> = rows.iter().filter_map(|row| row.as_ref().err()).collect();
        assert!(bad[0].starts_with("in:2: no tab"), "{bad:?}");
        assert!(bad[1].starts_with("in:4: "), "{bad:?}");
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn raw_input_that_promises_too_much_is_refused() {
        let rows = read(Format::Raw, b"\xff\xff\xff\xff\xff\xff\xff\xffabc");
        assert_eq!(rows.len(), 1);
        let what = rows[0].as_ref().unwrap_err();
        assert!(what.contains("pair 1") && what.contains("3 bytes are left"), "{what}");
    }

    /// Returns its bytes, then a signal instead of more.
    struct ThenSignal<'b>(&'b [u8]);

    impl std::io::Read for ThenSignal<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer) {
                Ok(0) => Err(std::io::ErrorKind::TimedOut.into()),
                read => read,
            }
        }
    }

    #[test]
    fn a_row_that_a_signal_cuts_short_is_the_next_one() {
        for (format, bytes, next) in [(Format::Tsv, &b"a\t1\nb\t"[..], "in:2"), (Format::Raw, &[0; 12], "in: pair 2")] {
            let mut reader = RowReader::new(Input::new(Box::new(ThenSignal(bytes)), "in".into()), format, false);
            assert!(matches!(reader.next_row().unwrap(), Row::Pair(..)));
            assert!(matches!(reader.next_row().unwrap(), Row::Interrupted));
            assert_eq!(reader.next_place(), next);
        }
    }
}
