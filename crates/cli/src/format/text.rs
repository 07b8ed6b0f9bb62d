//! Rows that are lines: TSV of two columns, JSON lines, plain lines.

use super::{Format, Pair, Row, Scratch, Source, bad_line, jsonl, rdb, tsv, typed};
use crate::compressed::Compression;
use crate::escapes;
use crate::failure::Result;
use crate::input::{BYTE_ORDER_MARK, Input, Taken};
use splitpoint_server::rdb::Entry;
use std::io::Write;

/// The conversion of a line to a pair.
pub enum Lines {
    Tsv {
        escapes: bool,
    },
    Jsonl(jsonl::Fields),
    Plain {
        /// The value is the line's number.
        numbered: bool,
    },
}

pub struct LineReader<'i> {
    input: Input<'i>,
    lines: Lines,
    /// Number of the last line, from 1.
    number: u64,
    scratch: Scratch,
    /// The last key with a type or a lifetime.
    entry: Option<Entry>,
}

impl<'i> LineReader<'i> {
    pub fn new(input: Input<'i>, lines: Lines) -> Self {
        Self { input, lines, number: 0, scratch: Scratch::default(), entry: None }
    }
}

impl Source for LineReader<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let Self { input, lines, number, scratch, entry } = self;
        let range = loop {
            match input.line()? {
                Taken::Bytes(range) => {
                    *number += 1;
                    // A blank line in a hand-made file holds no pair; in plain lines it is the empty key.
                    if matches!(lines, Lines::Plain { .. }) || !matches!(input.bytes(range.clone()), b"" | b"\r") {
                        break range;
                    }
                }
                Taken::TooLong => {
                    *number += 1;
                    return Ok(bad_line(input, *number, input.limit_met()));
                }
                Taken::Interrupted => return Ok(Row::Interrupted),
                Taken::Short(_) | Taken::End => return Ok(Row::End),
            }
        };
        let line = input.bytes(range);
        if matches!(lines, Lines::Jsonl(jsonl::Fields::Ours)) && typed::may_be(line) {
            match typed::parse(line) {
                Ok(Some(found)) => return Ok(rdb::row_of(entry.insert(found), *number)),
                Ok(None) => {}
                Err(what) => return Ok(bad_line(input, *number, what)),
            }
        }
        let parsed = match lines {
            Lines::Tsv { .. } | Lines::Plain { .. } if memchr::memchr(0, line).is_some() => {
                Err(tsv::has_zero_byte(line))
            }
            Lines::Tsv { escapes: true } => tsv::parse(line, scratch),
            Lines::Tsv { escapes: false } => tsv::parse_plain(line),
            Lines::Jsonl(fields) => jsonl::parse(line, fields, scratch),
            Lines::Plain { numbered } => Ok(plain_line(line, numbered.then_some(*number), scratch)),
        };
        Ok(match parsed {
            Ok(pair) => Row::Pair(pair, *number),
            Err(what) => bad_line(input, *number, what),
        })
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }

    fn columns(&self) -> Option<String> {
        match &self.lines {
            Lines::Jsonl(fields) => fields.describe(),
            _ => None,
        }
    }
}

fn plain_line<'r>(line: &'r [u8], number: Option<u64>, scratch: &'r mut Scratch) -> Pair<'r> {
    scratch.value.clear();
    if let Some(number) = number {
        write!(scratch.value, "{number}").expect("a Vec takes every write");
    }
    Pair { key: line.strip_suffix(b"\r").unwrap_or(line), value: &scratch.value }
}

/// Writes a key as a plain line.
pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) -> std::result::Result<(), String> {
    let is_other_text = pair.key.starts_with(BYTE_ORDER_MARK) || Compression::of(pair.key).is_some();
    if pair.key.contains(&b'\n') || pair.key.contains(&0) || pair.key.ends_with(b"\r") || is_other_text {
        return Err(format!(
            "the key {} does not fit in a plain line; use --format {}",
            escapes::quoted(pair.key),
            Format::Tsv.name()
        ));
    }
    row.extend_from_slice(pair.key);
    row.push(b'\n');
    Ok(())
}
