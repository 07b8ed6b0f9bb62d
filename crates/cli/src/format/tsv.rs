//! TSV: `key TAB value`, one pair per line.
//!
//! Keys and values are escaped (`escapes.rs`). Everything after the first tab is the value, so tables of several
//! columns load with all of them. A carriage return before the newline is a Windows line end; one that belongs to a
//! value is written `\r`.

use super::columns::{Columns, Picked, PickedValue};
use super::{BadRow, Pair, Row, Scratch, Source, bad_line, cdbmake, gdbm, rdb};
use crate::compressed::Compression;
use crate::escapes::{escape, quoted, unescape};
use crate::failure::Result as Outcome;
use crate::input::{BYTE_ORDER_MARK, Input, Taken};
use std::ops::Range;

/// Returns the pair in `line`, borrowed if nothing is escaped, or what is wrong.
pub fn parse<'r>(line: &'r [u8], scratch: &'r mut Scratch) -> Result<Pair<'r>, String> {
    let pair = parse_plain(line)?;
    if memchr::memchr(b'\\', line).is_none() {
        return Ok(pair);
    }
    unescape(pair.key, &mut scratch.key)?;
    unescape(pair.value, &mut scratch.value)?;
    Ok(scratch.pair())
}

/// Returns the pair in `line`, in which a backslash is an ordinary byte.
pub fn parse_plain(line: &[u8]) -> Result<Pair<'_>, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let tab = memchr::memchr(b'\t', line).ok_or_else(|| no_tab(line))?;
    Ok(Pair { key: &line[..tab], value: &line[tab + 1..] })
}

/// TSV in which each tab ends a column.
pub struct TsvColumns<'i> {
    input: Input<'i>,
    columns: Columns,
    picked: Option<Picked>,
    escapes: bool,
    /// Number of the last line, from 1.
    number: u64,
    /// The fields of the last line, as ranges of the input.
    fields: Vec<Range<usize>>,
    scratch: Scratch,
}

impl<'i> TsvColumns<'i> {
    pub fn new(input: Input<'i>, columns: Columns, escapes: bool) -> Self {
        Self { input, columns, picked: None, escapes, number: 0, fields: Vec::new(), scratch: Scratch::default() }
    }

    /// Reads the next line that is not blank, or returns the reason why no line follows.
    fn line(&mut self) -> Outcome<Result<Range<usize>, Row<'static>>> {
        loop {
            let taken = self.input.line()?;
            if matches!(taken, Taken::Bytes(_) | Taken::TooLong) {
                self.number += 1;
            }
            return Ok(Err(match taken {
                Taken::Bytes(range) if matches!(self.input.bytes(range.clone()), b"" | b"\r") => continue,
                Taken::Bytes(range) => return Ok(Ok(range)),
                Taken::TooLong => bad_line(&self.input, self.number, self.input.limit_met()),
                Taken::Interrupted => Row::Interrupted,
                Taken::Short(_) | Taken::End => Row::End,
            }));
        }
    }

    /// Picks the columns by their names in the first line. Returns the reason if it cannot.
    fn header(&mut self) -> Outcome<Option<Row<'static>>> {
        let range = match self.line()? {
            Ok(range) => range,
            // Without a header, no row has names.
            Err(Row::Bad(bad)) => return Ok(Some(Row::Bad(BadRow { goes_on: false, ..bad }))),
            Err(row) => return Ok(Some(row)),
        };
        let line = self.input.bytes(range);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let names: Vec<_> = line.split(|byte| *byte == b'\t').collect();
        self.picked = Some(self.columns.pick(&format!("{}:{}", self.input.name, self.number), &names)?);
        Ok(None)
    }
}

impl Source for TsvColumns<'_> {
    fn next_row(&mut self) -> Outcome<Row<'_>> {
        if self.picked.is_none()
            && self.columns.header
            && let Some(row) = self.header()?
        {
            return Ok(row);
        }
        let range = match self.line()? {
            Ok(range) => range,
            Err(row) => return Ok(row),
        };
        let Self { input, columns, picked, escapes, number, fields, scratch } = self;
        let line = input.bytes(range.clone());
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if memchr::memchr(0, line).is_some() {
            return Ok(bad_line(input, *number, has_zero_byte(line)));
        }
        split(line, range.start, fields);
        let bytes = |field: &Range<usize>| input.bytes(field.clone());
        let picked = match picked {
            Some(picked) => picked,
            None => {
                let first: Vec<_> = fields.iter().map(bytes).collect();
                picked.insert(columns.pick(&format!("{}:{number}", input.name), &first)?)
            }
        };
        let spare = fields.iter().skip(picked.width()).map(bytes);
        let parsed = picked.check(fields.len(), spare).and_then(|()| {
            let text = |index: usize, to: &mut Vec<u8>| match escapes {
                true => unescape(bytes(&fields[index]), to),
                false => {
                    copy(bytes(&fields[index]), to);
                    Ok(())
                }
            };
            match (&picked.key[..], picked.value) {
                ([key], PickedValue::Column(value)) => {
                    text(*key, &mut scratch.key)?;
                    text(value, &mut scratch.value)
                }
                (_, value) => {
                    let mut texts = vec![Vec::new(); fields.len()];
                    texts.iter_mut().enumerate().try_for_each(|(index, to)| text(index, to))?;
                    picked.join(|index| &texts[index], &mut scratch.key)?;
                    match value {
                        PickedValue::Column(value) => copy(&texts[value], &mut scratch.value),
                        PickedValue::Others => picked.others(texts.iter(), &mut scratch.value)?,
                    }
                    Ok(())
                }
            }
        });
        match parsed {
            Ok(()) => Ok(Row::Pair(scratch.pair(), *number)),
            Err(what) => Ok(bad_line(input, *number, what)),
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }

    fn columns(&self) -> Option<String> {
        self.picked.as_ref().map(Picked::describe)
    }
}

/// Replaces `fields` by the ranges of the fields of `line`, which begins at `start`.
fn split(line: &[u8], start: usize, fields: &mut Vec<Range<usize>>) {
    fields.clear();
    let mut begin = 0;
    for tab in memchr::memchr_iter(b'\t', line) {
        fields.push(start + begin..start + tab);
        begin = tab + 1;
    }
    fields.push(start + begin..start + line.len());
}

fn copy(from: &[u8], to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(from);
}

fn no_tab(line: &[u8]) -> String {
    format!("no tab between key and value in {}", quoted(line))
}

/// Reports a zero byte in a line of text, which only binary data has.
pub fn has_zero_byte(line: &[u8]) -> String {
    format!("zero byte in {}; tsv writes it \\x00", quoted(line))
}

/// Appends the first row of a file: the first byte of a key that begins like another format is escaped.
pub fn write_first(pair: Pair<'_>, row: &mut Vec<u8>) {
    let begin = row.len();
    write(pair, row);
    if begins_like_another_format(&row[begin..])
        && let Some(first) = pair.key.first()
    {
        row.splice(begin..=begin, format!("\\x{first:02x}").into_bytes());
    }
}

/// Whether a file that begins with `row` could be taken for another format. Its control characters are escaped.
fn begins_like_another_format(row: &[u8]) -> bool {
    row.trim_ascii_start().starts_with(b"{")
        || row.starts_with(gdbm::TEXT_SIGNATURE)
        || cdbmake::is_cdbmake(row)
        || rdb::is_rdb(row)
        || Compression::of(row).is_some()
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) {
    let begin = row.len();
    escape(pair.key, row);
    // Sorted, any row may come first, where a reader skips a byte-order mark.
    if pair.key.starts_with(BYTE_ORDER_MARK) {
        row.splice(begin..=begin, format!("\\x{:02x}", BYTE_ORDER_MARK[0]).into_bytes());
    }
    row.push(b'\t');
    escape(pair.value, row);
    row.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_all_after_the_first_tab_less_a_windows_line_end() {
        let mut scratch = Scratch::default();
        let pair = parse(b"k\tv1\tv2\r", &mut scratch).unwrap();
        assert_eq!(pair, Pair { key: b"k", value: b"v1\tv2" });
    }
}
