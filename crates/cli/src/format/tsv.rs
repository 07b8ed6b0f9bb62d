//! TSV: `key TAB value`, one pair per line.
//!
//! `\t \n \r \\` and `\xHH` are escapes. Writing escapes these four and the other control bytes, and leaves the rest
//! unchanged, UTF-8 or not. Everything after the first tab is the value, so tables of several columns load with all of
//! them. A carriage return before the newline is a Windows line end; one that belongs to a value is written `\r`.

use super::columns::{Columns, Picked, PickedValue};
use super::text::{bad_line, has_zero_byte};
use super::{Pair, Row, Scratch, Source, cdbmake, gdbm};
use crate::compressed::Compression;
use crate::failure::Result as Outcome;
use crate::input::{Input, Taken};
use std::ops::Range;

/// The pair in `line`, borrowed if nothing is escaped, or what is wrong.
pub fn parse<'r>(line: &'r [u8], scratch: &'r mut Scratch) -> Result<Pair<'r>, String> {
    let pair = parse_plain(line)?;
    if memchr::memchr(b'\\', line).is_none() {
        return Ok(pair);
    }
    unescape(pair.key, &mut scratch.key)?;
    unescape(pair.value, &mut scratch.value)?;
    Ok(scratch.pair())
}

/// The pair in `line`, in which a backslash is a backslash.
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
    /// Where the fields of the last line are in the input.
    fields: Vec<Range<usize>>,
    scratch: Scratch,
}

impl<'i> TsvColumns<'i> {
    pub fn new(input: Input<'i>, columns: Columns, escapes: bool) -> Self {
        Self { input, columns, picked: None, escapes, number: 0, fields: Vec::new(), scratch: Scratch::default() }
    }

    /// The next line that is not blank, or the reason why no line follows.
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

/// Replaces `bytes` by `text` with its escapes undone.
pub fn unescape(text: &[u8], bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.clear();
    // Reserved at once: a row that does not fit in memory twice is an error, not an abort.
    bytes.try_reserve(text.len()).map_err(|_| format!("no memory for a row of {} bytes", text.len()))?;
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, escape_bytes) = escaped_byte(&rest[at..])?;
        bytes.push(byte);
        rest = &rest[at + escape_bytes..];
    }
    bytes.extend_from_slice(rest);
    Ok(())
}

/// The byte of the escape at the start of `text`, and the escape's length.
fn escaped_byte(text: &[u8]) -> Result<(u8, usize), String> {
    match *text {
        [_, b't', ..] => Ok((b'\t', 2)),
        [_, b'n', ..] => Ok((b'\n', 2)),
        [_, b'r', ..] => Ok((b'\r', 2)),
        [_, b'\\', ..] => Ok((b'\\', 2)),
        [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            Ok((hex_digit(high) << 4 | hex_digit(low), 4))
        }
        _ => {
            let mut shown = vec![b'\\'];
            escape(&text[1..text.len().min(4)], &mut shown);
            let shown = String::from_utf8_lossy(&shown);
            Err(format!("unknown escape at {shown}; the escapes are \\t \\n \\r \\\\ \\xHH"))
        }
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
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
        || row.starts_with(b"\xef\xbb\xbf")
        || row.starts_with(gdbm::TEXT_SIGNATURE)
        || cdbmake::is_cdbmake(row)
        || Compression::of(row).is_some()
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) {
    escape(pair.key, row);
    row.push(b'\t');
    escape(pair.value, row);
    row.push(b'\n');
}

/// Appends `bytes` to `text`, escaped.
#[inline]
pub fn escape(bytes: &[u8], text: &mut Vec<u8>) {
    if any_to_escape(bytes) {
        escape_some(bytes, text);
    } else {
        text.extend_from_slice(bytes);
    }
}

#[cold]
fn escape_some(bytes: &[u8], text: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = first_to_escape(rest) {
        text.extend_from_slice(&rest[..at]);
        push_escaped(rest[at], text);
        rest = &rest[at + 1..];
    }
    text.extend_from_slice(rest);
}

/// Whether a byte needs an escape: most texts have none. Looks at eight bytes together; the last eight overlap others.
#[inline]
fn any_to_escape(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<8>() {
        let (words, _) = bytes.as_chunks::<8>();
        let found = words.iter().fold(0, |found, word| found | to_escape(u64::from_le_bytes(*word)));
        return found | to_escape(u64::from_le_bytes(*last)) != 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return to_escape(u64::from(first) | u64::from(last) << 32) != 0;
    }
    bytes.iter().any(|byte| needs_escape(*byte))
}

/// Not 0 if a byte of the word needs an escape. The lowest bit set is the highest of the first such byte.
#[inline]
fn to_escape(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // The high bit of a byte of `is_zero(x)` is set if that byte is 0; above the lowest such byte it may be wrong.
    let is_zero = |word: u64| word.wrapping_sub(EACH) & !word & HIGH;
    let is_control = word.wrapping_sub(0x20 * EACH) & !word & HIGH;
    is_control | is_zero(word ^ (0x7f * EACH)) | is_zero(word ^ (u64::from(b'\\') * EACH))
}

/// Where the first byte is that needs an escape.
fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    let flagged =
        words.iter().map(|word| to_escape(u64::from_le_bytes(*word))).enumerate().find(|(_, found)| *found != 0);
    if let Some((index, found)) = flagged {
        return Some(index * 8 + found.trailing_zeros() as usize / 8);
    }
    let start = bytes.len() - rest.len();
    rest.iter().position(|byte| needs_escape(*byte)).map(|at| start + at)
}

fn needs_escape(byte: u8) -> bool {
    byte.is_ascii_control() || byte == b'\\'
}

fn push_escaped(byte: u8, text: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'\t' => text.extend_from_slice(b"\\t"),
        b'\n' => text.extend_from_slice(b"\\n"),
        b'\r' => text.extend_from_slice(b"\\r"),
        b'\\' => text.extend_from_slice(b"\\\\"),
        _ => text.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
    }
}

/// A key or a line for messages: in quotes, escaped, cut to 64 bytes.
pub fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    let mut escaped = Vec::new();
    escape(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)], &mut escaped);
    let mut text = String::from("\"");
    for chunk in escaped.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.push_str(if bytes.len() > SHOWN_BYTES_MAX { "...\"" } else { "\"" });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_those_of_the_manual() {
        let mut text = Vec::new();
        escape(b"a\tb\nc\rd\\e\x00\x7f\xff", &mut text);
        assert_eq!(text, b"a\\tb\\nc\\rd\\\\e\\x00\\x7f\xff");
    }

    #[test]
    fn a_byte_to_escape_is_found_wherever_it_is() {
        for byte in 0..=255_u8 {
            for other in [b'a', b' ', b'~', 0x80, 0xff, b'[', b']'] {
                for at in 0..20 {
                    let mut bytes = [other; 20];
                    bytes[at] = byte;
                    assert_eq!(first_to_escape(&bytes), needs_escape(byte).then_some(at), "{byte} at {at}");
                    for len in at + 1..20 {
                        assert_eq!(any_to_escape(&bytes[..len]), needs_escape(byte), "{byte} at {at} of {len}");
                    }
                }
            }
        }
        assert!(!any_to_escape(b""));
        assert_eq!(first_to_escape(b""), None);
    }

    #[test]
    fn the_value_is_all_after_the_first_tab_less_a_windows_line_end() {
        let mut scratch = Scratch::default();
        let pair = parse(b"k\tv1\tv2\r", &mut scratch).unwrap();
        assert_eq!(pair, Pair { key: b"k", value: b"v1\tv2" });
    }

    #[test]
    fn wrong_escapes_are_refused() {
        for text in [&b"\\"[..], b"\\q", b"\\x", b"\\x4", b"\\x4z", b"\\xz4", b"a\\\\\\"] {
            assert!(unescape(text, &mut Vec::new()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn messages_show_keys_short_and_printable() {
        assert_eq!(quoted(b"a\n\xff"), "\"a\\n\\xff\"");
        assert_eq!(quoted(&[b'x'; 65]).len(), 64 + 5);
    }
}
