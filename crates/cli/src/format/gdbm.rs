//! The dumps of GDBM: `gdbm_dump` writes them, `gdbm_load` reads them.
//!
//! ```text
//! gdbm       # GDBM dump file ...      gdbm-flat  !CR LF! GDBM FLAT FILE DUMP -- THIS IS NOT A TEXT FILE CR LF
//!            #:version=1.1                        ! version CR LF
//!            # End of header                      !CR LF
//!            #:len=5                              length, key, length, value
//!            YWxpY2U=                             ... to the end of the file
//!            #:count=1
//!            # End of data
//! ```
//!
//! In the text form, keys and values alternate, in base64 with lines of 76 characters; its end is marked, so a
//! truncated dump is recognized. The flat form has no end mark. Its lengths are a C `unsigned long` that holds
//! `htonl(length)`: 4 bytes, big-endian, followed on 64-bit machines by 4 zero bytes. The first length shows which;
//! this guess is wrong for a 32-bit dump whose first key begins with 4 zero bytes.
//!
//! `gdbm_load` 1.23 refuses records of length 0 in both forms, also those of its own `gdbm_dump`.

use super::stop::{self, Stop};
use super::{Pair, Row, Scratch, Source, lost_at_line, lost_at_pair};
use crate::escapes;
use crate::failure::Result;
use crate::input::{Input, Taken};
use crate::number::count_of;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::ops::Range;

pub const TEXT_SIGNATURE: &[u8] = b"# GDBM dump file";
pub const FLAT_SIGNATURE: &[u8] = b"!\r\n! GDBM FLAT FILE DUMP";

/// Characters of a line of base64, as gdbm_dump has them.
const LINE_CHARS: usize = 76;
/// Lines of a header; real ones have a few.
const HEADER_LINES_MAX: u64 = 1000;

/// The text form.
pub struct Text<'i> {
    input: Input<'i>,
    /// Number of the last line, from 1.
    line: u64,
    pairs: u64,
    in_header: bool,
    /// The line `# End of data` was read.
    ended: bool,
    scratch: Scratch,
    base64: Vec<u8>,
}

type Step<T> = std::result::Result<T, Stop>;

const END: &str = "# End of data";

impl<'i> Text<'i> {
    pub fn new(input: Input<'i>) -> Self {
        let (scratch, base64) = (Scratch::default(), Vec::new());
        Self { input, line: 0, pairs: 0, in_header: true, ended: false, scratch, base64 }
    }

    fn line(&mut self) -> Step<Range<usize>> {
        stop::line(&mut self.input, &mut self.line, END)
    }

    fn header(&mut self) -> Step<()> {
        loop {
            let range = self.line()?;
            let line = self.input.bytes(range);
            let what = match line {
                b"# End of header" => {
                    self.in_header = false;
                    return Ok(());
                }
                _ if self.line == 1 && !line.starts_with(TEXT_SIGNATURE) => "`# GDBM dump file` was expected",
                _ if !line.starts_with(b"#") => "a line of the header, which begins with #, was expected",
                _ if line.starts_with(b"#:len=") => "`# End of header` was expected before the first record",
                _ if self.line > HEADER_LINES_MAX => "`# End of header` was expected long before",
                _ => continue,
            };
            return Stop::lost(format!("{what}, but this is {}", escapes::quoted(line)));
        }
    }

    /// Reads a key or a value into `bytes`; `false` at the end of the data.
    fn record(&mut self, what: &str, bytes: &mut Vec<u8>) -> Step<bool> {
        let range = self.line()?;
        let line = self.input.bytes(range);
        if what == "key" && line.starts_with(b"#:count=") {
            if number_after(line, b"#:count=") != Some(self.pairs) {
                let (said, pairs) = (escapes::quoted(line), count_of(self.pairs, "pair"));
                return Stop::lost(format!("the dump says {said}, but has {pairs}: it is not whole"));
            }
            return self.end();
        }
        if what == "key" && line == END.as_bytes() {
            return Ok(false);
        }
        let Some(length) = number_after(line, b"#:len=") else {
            let line = escapes::quoted(line);
            return Stop::lost(format!("the length of a {what}, as in `#:len=5`, was expected, but this is {line}"));
        };
        let most = self.input.row_bytes_max();
        if length > most {
            return Stop::lost(format!(
                "a {what} of {length} bytes is longer than {most} bytes; --max-row raises the limit"
            ));
        }
        self.base64(what, length, bytes)
    }

    fn end(&mut self) -> Step<bool> {
        let range = self.line()?;
        match self.input.bytes(range) {
            line if line == END.as_bytes() => Ok(false),
            line => Stop::lost(format!("`{END}` was expected, but this is {}", escapes::quoted(line))),
        }
    }

    /// Reads the lines of base64 of one record of `length` bytes.
    fn base64(&mut self, what: &str, length: u64, bytes: &mut Vec<u8>) -> Step<bool> {
        bytes.clear();
        self.base64.clear();
        // At most a GiB or what --max-row says, and only as much as the input has.
        while (self.base64.len() as u64) < length.div_ceil(3) * 4 {
            let range = self.line()?;
            let line = self.input.bytes(range);
            if line.is_empty() || line.starts_with(b"#") {
                let line = escapes::quoted(line);
                return Stop::lost(format!(
                    "more base64 of a {what} of {length} bytes was expected, but this is {line}"
                ));
            }
            self.base64.extend_from_slice(line);
        }
        match STANDARD.decode_vec(&self.base64, bytes) {
            Ok(()) if bytes.len() as u64 == length => Ok(true),
            Ok(()) => {
                let there = bytes.len();
                Stop::lost(format!("a {what} of {length} bytes was expected, but the base64 has {there}"))
            }
            Err(error) => Stop::lost(format!("base64 of a {what} was expected: {error}")),
        }
    }

    /// Reads a pair into `scratch`; `false` at the end of the data.
    fn pair(&mut self, scratch: &mut Scratch) -> Step<bool> {
        if self.in_header {
            self.header()?;
        }
        Ok(self.record("key", &mut scratch.key)? && self.record("value", &mut scratch.value)?)
    }

    /// Reads to the end of the input, so that a second dump is not ignored and a checksum of compressed data is
    /// verified. Only blank lines may follow the data.
    fn after_end(&mut self) -> Result<Row<'static>> {
        loop {
            let taken = self.input.line()?;
            self.line += u64::from(matches!(taken, Taken::Bytes(_) | Taken::TooLong));
            let line = match taken {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Ok(Row::Interrupted),
                Taken::TooLong => b"a long line",
                Taken::Short(_) | Taken::End => return Ok(Row::End),
            };
            if !line.trim_ascii().is_empty() {
                let line = escapes::quoted(line);
                let what =
                    format!("nothing was expected after `{END}`, but this is {line}; load several dumps one by one");
                return Ok(lost_at_line(&self.input, self.line, what));
            }
        }
    }
}

fn number_after(line: &[u8], name: &[u8]) -> Option<u64> {
    std::str::from_utf8(line.strip_prefix(name)?).ok()?.parse().ok()
}

impl Source for Text<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if self.ended {
            return self.after_end();
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let read = self.pair(&mut scratch);
        self.scratch = scratch;
        match read {
            Ok(true) => {
                self.pairs += 1;
                Ok(Row::Pair(self.scratch.pair(), self.line))
            }
            Ok(false) => {
                self.ended = true;
                self.after_end()
            }
            Err(stop) => stop.row(|what| lost_at_line(&self.input, self.line, what)),
        }
    }

    fn number(&self) -> u64 {
        self.line
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }
}

/// The binary form.
pub struct Flat<'i> {
    input: Input<'i>,
    pairs: u64,
    in_header: bool,
    /// 4 or 8, 0 before the first.
    length_bytes: u64,
    key: Vec<u8>,
}

impl<'i> Flat<'i> {
    pub fn new(input: Input<'i>) -> Self {
        Self { input, pairs: 0, in_header: true, length_bytes: 0, key: Vec::new() }
    }

    /// Skips lines that begin with `!`, up to one that has nothing else.
    fn header(&mut self) -> Step<()> {
        for number in 1..=HEADER_LINES_MAX {
            let line = match self.input.line()? {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Err(Stop::Interrupted),
                _ => break,
            };
            match (number, line) {
                (1, b"!\r") => {}
                (2, _) if line.starts_with(b"! GDBM FLAT FILE DUMP") => {}
                (3.., b"!\r") => {
                    self.in_header = false;
                    return Ok(());
                }
                (3.., _) if line.starts_with(b"!") => {}
                _ => break,
            }
        }
        Stop::lost("the header of a GDBM flat file dump was expected")
    }

    /// Reads the length of a key or a value; `None` at the end of the input, where a key may be missing.
    fn length(&mut self, what: &str) -> Step<Option<u64>> {
        let at = self.input.taken_bytes();
        if self.length_bytes == 0 {
            self.length_bytes = match self.input.peek_up_to(8)? {
                Taken::Bytes(range) if self.input.bytes(range.clone()).get(4..8) == Some(&[0; 4]) => 8,
                Taken::Interrupted => return Err(Stop::Interrupted),
                _ => 4,
            };
        }
        let (length, rest) = match self.input.header(self.length_bytes)? {
            Taken::Bytes(range) => self.input.bytes(range).split_at(4),
            Taken::Interrupted => return Err(Stop::Interrupted),
            Taken::End if what == "key" => return Ok(None),
            _ => return Stop::lost(format!("the length of a {what} was expected at byte {at}, where the dump ends")),
        };
        if rest.iter().any(|byte| *byte != 0) {
            return Stop::lost(format!("the length of a {what} was expected at byte {at}: 4 bytes and 4 zero bytes"));
        }
        Ok(Some(length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))))
    }

    /// Reads the bytes of a key or a value.
    fn bytes(&mut self, what: &str, length: u64) -> Step<Range<usize>> {
        let at = self.input.taken_bytes();
        let there = match self.input.exactly(length)? {
            Taken::Bytes(range) => return Ok(range),
            Taken::Interrupted => return Err(Stop::Interrupted),
            Taken::TooLong => {
                let limit = self.input.limit_met();
                return Stop::lost(format!("a {what} of {length} bytes at byte {at}: {limit}"));
            }
            Taken::Short(there) => there,
            Taken::End => 0,
        };
        Stop::lost(format!("a {what} of {length} bytes was expected at byte {at}, but {there} bytes are left"))
    }

    /// Copies the key, and returns where the value is; `None` at the end of the input.
    fn pair(&mut self) -> Step<Option<Range<usize>>> {
        if self.in_header {
            self.header()?;
        }
        let Some(length) = self.length("key")? else { return Ok(None) };
        let key = self.bytes("key", length)?;
        self.key.clear();
        self.key.extend_from_slice(self.input.bytes(key));
        let length = self.length("value")?.unwrap_or(0);
        self.bytes("value", length).map(Some)
    }
}

impl Source for Flat<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        match self.pair() {
            Ok(Some(value)) => {
                self.pairs += 1;
                Ok(Row::Pair(Pair { key: &self.key, value: self.input.bytes(value) }, self.pairs))
            }
            Ok(None) => Ok(Row::End),
            Err(stop) => stop.row(|what| lost_at_pair(&self.input, self.pairs + 1, what)),
        }
    }

    fn number(&self) -> u64 {
        self.pairs
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }
}

/// `gdbm_load` takes the name of the new database from `#:file`.
pub fn write_text_header(file: &str, row: &mut Vec<u8>) {
    row.extend_from_slice(TEXT_SIGNATURE);
    row.extend_from_slice(b" created by Splitpoint\n#:version=1.1\n");
    row.extend_from_slice(format!("#:file={file}\n#:format=standard\n# End of header\n").as_bytes());
}

pub fn write_text(pair: Pair<'_>, row: &mut Vec<u8>) {
    for bytes in [pair.key, pair.value] {
        row.extend_from_slice(format!("#:len={}\n", bytes.len()).as_bytes());
        for part in bytes.chunks(LINE_CHARS / 4 * 3) {
            row.extend_from_slice(STANDARD.encode(part).as_bytes());
            row.push(b'\n');
        }
    }
}

pub fn write_text_end(pairs: u64, row: &mut Vec<u8>) {
    row.extend_from_slice(format!("#:count={pairs}\n# End of data\n").as_bytes());
}

pub fn write_flat_header(row: &mut Vec<u8>) {
    row.extend_from_slice(FLAT_SIGNATURE);
    row.extend_from_slice(b" -- THIS IS NOT A TEXT FILE\r\n! Splitpoint\r\n!\r\n");
}

pub fn write_flat(pair: Pair<'_>, row: &mut Vec<u8>) -> std::result::Result<(), String> {
    for bytes in [pair.key, pair.value] {
        // gdbm_load reads lengths as signed numbers.
        let length = i32::try_from(bytes.len())
            .map_err(|_| "a record of GDBM holds 2^31 - 1 bytes at most; use --format tsv".to_owned())?;
        row.extend_from_slice(&length.to_be_bytes());
        row.extend_from_slice(&[0; 4]);
        row.extend_from_slice(bytes);
    }
    Ok(())
}
