//! Traces: the requests of processes to the file system, in memory and as text.
//!
//! The text has one event per line (docs/kernel-traces.md). It is untrusted: the reader checks every number, and
//! [`EVENTS_MAX`], [`NAMES_MAX`] and [`NAME_LEN_MAX`] bound its memory.

use super::{Proceed, Stopped};
use crate::keys::Keys;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// The maximum number of events in a trace; each takes 24 bytes of memory.
pub const EVENTS_MAX: usize = 8 << 20;
/// The maximum number of distinct names in a trace.
pub const NAMES_MAX: usize = 1 << 20;
/// The longest name, as in the kernel.
pub const NAME_LEN_MAX: usize = 255;
/// Escapes make a name up to four times longer; at most five numbers precede it.
const LINE_MAX: u64 = 4 * NAME_LEN_MAX as u64 + 100;
const MAGIC: &str = "splitpoint-kernel-trace 1 ";
/// Pages of a file of 4 GiB: offsets have 32 bits.
pub const PAGES_MAX: u32 = 1 << 20;
/// Lines between two calls of `proceed`.
const PROCEED_LINES: usize = 1 << 12;

/// A request. Device, inode and block numbers are those of the disk; a name is an index into [`Trace::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A name is looked up in a directory.
    Name {
        /// The device.
        device: u32,
        /// The inode of the directory.
        directory: u32,
        /// The inode of the name; 0 if the name does not exist.
        inode: u32,
        /// The block of the directory to read if the name is not cached; 0 if unknown.
        block: u32,
        /// The name.
        name: u32,
    },
    /// A page of a file is read or written.
    Page {
        /// The device.
        device: u32,
        /// The inode of the file.
        inode: u32,
        /// The page number in the file, from 0.
        page: u32,
        /// The first block of the page; 0 for a hole.
        block: u32,
        /// Whether the page is written.
        write: bool,
    },
    /// A metadata block is read.
    Block {
        /// The device.
        device: u32,
        /// The block.
        block: u32,
    },
    /// An inode is looked up by its number.
    Inode {
        /// The device.
        device: u32,
        /// The inode number.
        inode: u32,
    },
    /// A file or an empty directory is removed.
    Remove {
        /// The device.
        device: u32,
        /// The inode of the directory.
        directory: u32,
        /// The name.
        name: u32,
    },
    /// The end of the load; later events clean up.
    Mark,
}

/// Events in order, and their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Bytes of a block: 1024, 2048 or 4096.
    pub block_bytes: u32,
    /// The events in order.
    pub events: Vec<Event>,
    /// The distinct names.
    pub names: Keys,
    numbers: HashMap<Box<[u8]>, u32>,
}

/// Why a trace cannot be read.
#[derive(Debug)]
pub enum Error {
    /// The text cannot be read.
    Io(io::Error),
    /// A line is malformed.
    Line {
        /// The line number, from 1.
        line: usize,
        /// The error and the expected input.
        what: String,
    },
    /// Cancelled by the caller.
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Line { line, what } => write!(f, "line {line}: {what}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Line { .. } | Self::Stopped => None,
        }
    }
}

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Returns whether a file starts like a trace.
pub fn is_trace(start: &[u8]) -> bool {
    start.starts_with(MAGIC.as_bytes())
}

impl Trace {
    /// Creates an empty trace for disks with blocks of `block_bytes`.
    pub fn new(block_bytes: u32) -> Self {
        Self { block_bytes, events: Vec::new(), names: Keys::new(), numbers: HashMap::new() }
    }

    /// Returns the index of a name; adds the name if it is new.
    pub fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).expect("readers and loads add at most NAMES_MAX names");
        self.names.push(name);
        self.numbers.insert(name.into(), number);
        number
    }

    /// Reads the text of a trace.
    ///
    /// # Errors
    /// [`Error::Line`] for the first line that is malformed or exceeds a limit; [`Error::Io`]; [`Error::Stopped`].
    pub fn read(reader: impl BufRead, proceed: Proceed<'_>) -> Result<Self, Error> {
        let mut lines = Lines::new(reader, LINE_MAX, proceed);
        let first = lines.next()?.ok_or_else(|| at(1, "empty; a trace starts with its format line".to_owned()))?;
        let mut trace = Self::new(block_bytes(first).map_err(|what| at(1, what))?);
        while let Some(line) = lines.next()? {
            let added = trace.line(line);
            added.map_err(|what| at(lines.number, what))?;
        }
        Ok(trace)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(());
        }
        let mut fields = Fields(line);
        let event = match fields.word() {
            b"name" => Event::Name {
                device: fields.number("device", u32::MAX)?,
                directory: fields.inode("directory")?,
                inode: fields.number("inode", u32::MAX)?,
                block: fields.number("block", u32::MAX)?,
                name: fields.name(self)?,
            },
            kind @ (b"page" | b"write") => Event::Page {
                device: fields.number("device", u32::MAX)?,
                inode: fields.inode("inode")?,
                page: fields.number("page", PAGES_MAX - 1)?,
                block: fields.number("block", u32::MAX)?,
                write: kind == b"write",
            },
            b"block" => {
                Event::Block { device: fields.number("device", u32::MAX)?, block: fields.number("block", u32::MAX)? }
            }
            b"inode" => Event::Inode { device: fields.number("device", u32::MAX)?, inode: fields.inode("inode")? },
            b"remove" => Event::Remove {
                device: fields.number("device", u32::MAX)?,
                directory: fields.inode("directory")?,
                name: fields.name(self)?,
            },
            b"mark" => Event::Mark,
            word => {
                return Err(format!(
                    "{} is not an event; expected name, page, write, block, inode, remove or mark",
                    quoted(word)
                ));
            }
        };
        if !fields.0.is_empty() {
            return Err(format!("{} after the end of the event", quoted(fields.0)));
        }
        self.push(event)
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The trace has [`EVENTS_MAX`] events; the error is a sentence for the user.
    pub fn push(&mut self, event: Event) -> Result<(), String> {
        if self.events.len() >= EVENTS_MAX {
            return Err(format!("more than {EVENTS_MAX} events; shorten the trace"));
        }
        self.events.push(event);
        Ok(())
    }

    /// Writes the text of the trace.
    ///
    /// # Errors
    /// Returns the errors of `writer`.
    pub fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        writeln!(writer, "{MAGIC}{}", self.block_bytes)?;
        let name = |name: u32| escaped(self.names.get(name as usize).unwrap_or_default());
        for event in &self.events {
            match *event {
                Event::Name { device, directory, inode, block, name: number } => {
                    writeln!(writer, "name {device} {directory} {inode} {block} {}", name(number))?;
                }
                Event::Page { device, inode, page, block, write } => {
                    let kind = if write { "write" } else { "page" };
                    writeln!(writer, "{kind} {device} {inode} {page} {block}")?;
                }
                Event::Block { device, block } => writeln!(writer, "block {device} {block}")?,
                Event::Inode { device, inode } => writeln!(writer, "inode {device} {inode}")?,
                Event::Remove { device, directory, name: number } => {
                    writeln!(writer, "remove {device} {directory} {}", name(number))?;
                }
                Event::Mark => writeln!(writer, "mark")?,
            }
        }
        Ok(())
    }
}

fn at(line: usize, what: String) -> Error {
    Error::Line { line, what }
}

fn block_bytes(first: &[u8]) -> Result<u32, String> {
    let size = first.strip_prefix(MAGIC.as_bytes()).and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
    match size {
        Some(size @ (1024 | 2048 | 4096)) => Ok(size),
        Some(size) => Err(format!("blocks of {size} bytes; expected 1024, 2048 or 4096")),
        None => Err(format!("{} is not a trace; expected \"{MAGIC}1024\" in the first line", quoted(first))),
    }
}

/// Reads lines of bounded length and counts them.
pub(super) struct Lines<'p, R> {
    reader: R,
    line: Vec<u8>,
    /// The number of the last line read, from 1.
    pub number: usize,
    bytes_max: u64,
    proceed: Proceed<'p>,
}

impl<'p, R: BufRead> Lines<'p, R> {
    pub fn new(reader: R, bytes_max: u64, proceed: Proceed<'p>) -> Self {
        Self { reader, line: Vec::new(), number: 0, bytes_max, proceed }
    }

    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.number.is_multiple_of(PROCEED_LINES) && (self.proceed)().is_break() {
            return Err(Error::Stopped);
        }
        self.line.clear();
        let read =
            self.reader.by_ref().take(self.bytes_max + 1).read_until(b'\n', &mut self.line).map_err(Error::Io)?;
        self.number += 1;
        if read == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() as u64 > self.bytes_max {
            return Err(at(self.number, format!("longer than {} bytes", self.bytes_max)));
        }
        Ok(Some(&self.line))
    }
}

/// The rest of a line.
struct Fields<'l>(&'l [u8]);

impl<'l> Fields<'l> {
    fn word(&mut self) -> &'l [u8] {
        let end = self.0.iter().position(|byte| *byte == b' ').unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        word
    }

    fn number(&mut self, what: &str, most: u32) -> Result<u32, String> {
        let word = self.word();
        let number = std::str::from_utf8(word).ok().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
        let number = number.and_then(|word| word.parse().ok()).filter(|number| *number <= most);
        number.ok_or_else(|| format!("{what} {} is not a number up to {most}", quoted(word)))
    }

    fn inode(&mut self, what: &str) -> Result<u32, String> {
        match self.number(what, u32::MAX)? {
            0 => Err(format!("{what} 0 is not an inode")),
            inode => Ok(inode),
        }
    }

    /// Reads the rest of the line as a name.
    fn name(&mut self, trace: &mut Trace) -> Result<u32, String> {
        let name = unescaped(std::mem::take(&mut self.0))?;
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Err(format!("a name of {} bytes; expected 1 to {NAME_LEN_MAX}", name.len()));
        }
        if trace.names.len() >= NAMES_MAX && !trace.numbers.contains_key(&name[..]) {
            return Err(format!("more than {NAMES_MAX} distinct names; shorten the trace"));
        }
        Ok(trace.name(&name))
    }
}

/// Returns the name as text: a newline is `\n`, a backslash `\\`.
fn escaped(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

fn unescaped(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut name = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            name.push(byte);
            continue;
        }
        name.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(byte @ (b'\\' | b'\'' | b'"')) => byte,
            Some(b'x') => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let byte = digit().and_then(|high| u8::try_from(high * 16 + digit()?).ok());
                byte.ok_or_else(|| "\\x must be followed by two hexadecimal digits".to_owned())?
            }
            _ => return Err("a backslash must be followed by n, t, r, x, ', \" or a backslash".to_owned()),
        });
    }
    Ok(name)
}

/// Returns the bytes in quotes, cut to 64.
fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes[..bytes.len().min(64)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn read(text: &[u8]) -> Result<Trace, Error> {
        Trace::read(text, &|| ControlFlow::Continue(()))
    }

    #[test]
    fn a_written_trace_reads_back_equal() {
        let mut trace = Trace::new(1024);
        for name in [&b"stdio.h"[..], b"a b\n\\\xff'", b"stdio.h"] {
            let name = trace.name(name);
            trace.push(Event::Name { device: 2049, directory: 2, inode: 0, block: 7, name }).unwrap();
            trace.push(Event::Remove { device: 2049, directory: 2, name }).unwrap();
        }
        for write in [false, true] {
            trace.push(Event::Page { device: 1, inode: 12, page: PAGES_MAX - 1, block: u32::MAX, write }).unwrap();
        }
        trace.events.extend([Event::Block { device: 1, block: 3 }, Event::Inode { device: 1, inode: 4 }, Event::Mark]);
        let mut text = Vec::new();
        trace.write(&mut text).unwrap();
        assert_eq!(read(&text).unwrap(), trace);
        assert_eq!(trace.names.len(), 2);
    }

    #[test]
    fn a_malformed_line_is_an_error_with_its_number() {
        for (line, said) in [
            ("nane 1 2 3 4 x", "\"nane\" is not an event"),
            ("name 1 2 3 4", "a name of 0 bytes"),
            ("name 1 0 3 4 x", "directory 0 is not an inode"),
            ("name 1 2 3 4 a\\q", "a backslash must be followed by"),
            ("name 1 2 3 4 \\x0g", "two hexadecimal digits"),
            ("page 1 2 1048576 0", "page \"1048576\" is not a number up to 1048575"),
            ("page 1 2 +3 0", "page \"+3\" is not a number"),
            ("page 1 2", "page \"\" is not a number"),
            ("block 1 4294967296", "block \"4294967296\" is not a number up to 4294967295"),
            ("inode 1 2 3", "\"3\" after the end"),
            ("mark  ", "after the end"),
            ("\u{fffd}", "\"\\xef\\xbf\\xbd\" is not an event"),
        ] {
            let text = format!("splitpoint-kernel-trace 1 1024\n# a comment\n\n{line}\nmark\n");
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("line 4: ") && error.contains(said), "{line}: {error}");
        }
    }

    #[test]
    fn another_format_is_an_error_in_the_first_line() {
        for text in ["", "\n", "mark\n", "splitpoint-kernel-trace 1 512\n", "splitpoint-kernel-trace 2 1024\n"] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("line 1: "), "{text}: {error}");
        }
        let endless = vec![b'x'; 1 << 20];
        assert!(read(&endless).unwrap_err().to_string().contains("longer than"));
    }

    #[test]
    fn reading_stops_when_cancelled() {
        let error = Trace::read(&b"splitpoint-kernel-trace 1 1024\n"[..], &|| ControlFlow::Break(())).unwrap_err();
        assert!(matches!(error, Error::Stopped));
    }
}
