//! The text that `cdbmake` and `cdb -c` read, and `cdbdump` and `cdb -d` write.
//!
//! `+5,5:alice->admin` and a newline: the lengths of key and value, and their bytes unchanged. An empty line ends the
//! text, so a truncated text is recognized.

use super::{Pair, Row, Source, lost_at_line};
use crate::escapes;
use crate::failure::Result;
use crate::input::{Input, Taken};

/// `+`, a number of 32 bits, `,`, another one, `:`.
const HEADER_BYTES_MAX: usize = 23;

pub struct Text<'i> {
    input: Input<'i>,
    /// The line at which the last record begins, from 1.
    number: u64,
    /// Newlines before the next record.
    newlines: u64,
}

struct Header {
    bytes: usize,
    key_bytes: u32,
    value_bytes: u32,
}

impl Header {
    fn parse(text: &[u8]) -> Option<Self> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        let lengths = std::str::from_utf8(text[..colon].strip_prefix(b"+")?).ok()?;
        let (key, value) = lengths.split_once(',')?;
        // `parse` would accept a sign.
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        Some(Self { bytes: colon + 1, key_bytes: number(key)?, value_bytes: number(value)? })
    }
}

/// Whether a text begins like this format.
pub fn is_cdbmake(head: &[u8]) -> bool {
    let Some(header) = Header::parse(&head[..head.len().min(HEADER_BYTES_MAX)]) else { return false };
    let arrow = header.bytes + header.key_bytes as usize;
    head.get(arrow..arrow + 2).is_none_or(|arrow| arrow == b"->")
}

impl<'i> Text<'i> {
    pub fn new(input: Input<'i>) -> Self {
        Self { input, number: 0, newlines: 0 }
    }

    fn lost(&self, what: String) -> Row<'static> {
        lost_at_line(&self.input, self.number, what)
    }

    /// Peeks enough bytes for a header, and waits for no more, unless the input ends. `None`: a signal came.
    fn head(&mut self) -> Result<Option<std::ops::Range<usize>>> {
        let mut wanted = 1;
        loop {
            let range = match self.input.peek_up_to(wanted)? {
                Taken::Bytes(range) => range,
                Taken::Interrupted => return Ok(None),
                _ => 0..0,
            };
            let head = self.input.bytes(range.clone());
            if range.len() < wanted || range.len() >= HEADER_BYTES_MAX || head[0] == b'\n' || head.contains(&b':') {
                return Ok(Some(range.start..range.end.min(range.start + HEADER_BYTES_MAX)));
            }
            wanted = range.len() + 1;
        }
    }

    /// Only the end may follow the empty line.
    fn end(&mut self) -> Result<Row<'static>> {
        self.input.consume(1);
        Ok(match self.input.peek()? {
            Taken::Interrupted => Row::Interrupted,
            Taken::End => Row::End,
            _ => {
                self.number += 1;
                self.lost("nothing was expected after the empty line, which ends the pairs".into())
            }
        })
    }
}

impl Source for Text<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let Some(head) = self.head()? else { return Ok(Row::Interrupted) };
        let head = self.input.bytes(head);
        self.number = self.newlines + 1;
        if head.starts_with(b"\n") {
            return self.end();
        }
        if head.is_empty() {
            return Ok(self.lost("the pairs end here, without an empty line: the text is not whole".into()));
        }
        let Some(header) = Header::parse(head) else {
            let line = escapes::quoted(head.split(|byte| *byte == b'\n').next().unwrap_or(head));
            return Ok(
                self.lost(format!("`+KEYLENGTH,VALUELENGTH:` or an empty line was expected, but this is {line}"))
            );
        };
        let (key_bytes, value_bytes) = (u64::from(header.key_bytes), u64::from(header.value_bytes));
        self.input.consume(header.bytes);
        let what = format_args!(
            "`+{key_bytes},{value_bytes}:` promises a key of {key_bytes} bytes, \"->\", \
                                 a value of {value_bytes} bytes and a newline"
        );
        // 3: the arrow and the newline.
        let there = match self.input.exactly(key_bytes + value_bytes + 3)? {
            Taken::Bytes(range) => {
                let (key, rest) = self.input.bytes(range).split_at(header.key_bytes as usize);
                let value = rest.strip_prefix(b"->").and_then(|rest| rest.strip_suffix(b"\n"));
                let Some(value) = value else {
                    let (arrow, end) = (escapes::quoted(&rest[..2]), escapes::quoted(&rest[rest.len() - 1..]));
                    return Ok(self.lost(format!("{what}, but there are {arrow} and {end}")));
                };
                self.newlines +=
                    1 + memchr::memchr_iter(b'\n', key).chain(memchr::memchr_iter(b'\n', value)).count() as u64;
                return Ok(Row::Pair(Pair { key, value }, self.number));
            }
            Taken::Interrupted => return Ok(Row::Interrupted),
            Taken::TooLong => return Ok(self.lost(format!("{what}: {}", self.input.limit_met()))),
            Taken::Short(there) => there,
            Taken::End => 0,
        };
        Ok(self.lost(format!("{what}, but only {there} bytes are left")))
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn next_number(&self) -> u64 {
        self.newlines + 1
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }
}

pub fn write(pair: Pair<'_>, row: &mut Vec<u8>) -> std::result::Result<(), String> {
    let length = |bytes: &[u8]| {
        u32::try_from(bytes.len())
            .map_err(|_| "a pair of cdb holds 2^32 - 1 bytes at most; use --format tsv".to_owned())
    };
    row.extend_from_slice(format!("+{},{}:", length(pair.key)?, length(pair.value)?).as_bytes());
    row.extend_from_slice(pair.key);
    row.extend_from_slice(b"->");
    row.extend_from_slice(pair.value);
    row.push(b'\n');
    Ok(())
}
