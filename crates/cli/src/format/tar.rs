//! A tar archive: each regular file is a pair of its path and its contents, both unchanged.
//!
//! ```text
//! header of 512 bytes, contents, zeros up to a multiple of 512        again for each file
//! `L` or `K` header, contents: the path of the next file, or of its link's target (GNU)
//! `x` header, contents: its path, target and size (pax)
//! two blocks of zeros at the end
//! ```
//!
//! A hard link is a pair with the contents of its target (`contents.rs`). Directories, symbolic links and devices are
//! left out, and counted in a note. A file with holes is a bad row. The `tar` crate parses headers; the walk is our
//! own, because the crate's borrows the archive for as long as an entry lives.

use super::contents::Contents;
use super::{BadRow, Pair, Row, Source, lost_at_pair};
use crate::escapes;
use crate::failure::Result;
use crate::input::{Input, Taken};
use crate::number::count_of;
use splitpoint::OutputFile;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tar::{EntryType, Header};

pub const HEADER_BYTES: usize = 512;
/// The longest path, and the longest list of attributes.
const ATTRIBUTES_BYTES_MAX: u64 = 1 << 20;

pub struct Tar<'i> {
    input: Input<'i>,
    /// Pairs and bad rows so far.
    number: u64,
    next: Next,
    attributes: Attributes,
    path: Vec<u8>,
    contents: Contents,
    /// The contents of a hard link.
    linked: Vec<u8>,
    left_out: LeftOut,
}

/// The kind of the next bytes.
enum Next {
    Header,
    File {
        bytes: u64,
    },
    /// A hard link to the target of this path.
    Link(Vec<u8>),
    /// Fields that do not fit a header.
    Extension {
        bytes: u64,
        is: Extension,
    },
    /// Bytes that are not used: contents and padding.
    Skipped {
        bytes: u64,
    },
    /// After the blocks of zeros.
    End,
}

#[derive(Clone, Copy)]
enum Extension {
    /// A path, by GNU's tar.
    Path,
    /// The target of a link, by GNU's tar.
    Target,
    /// The attributes of pax.
    Pax,
}

/// Attributes of the file whose header comes next.
#[derive(Default)]
struct Attributes {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    bytes: Option<u64>,
    sparse: bool,
}

impl Attributes {
    /// Adds attributes of pax; `None` if `text` is malformed.
    fn take(&mut self, mut text: &[u8]) -> Option<()> {
        while !text.is_empty() {
            let (name, value, rest) = pax_attribute(text)?;
            match name {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.target = Some(value.to_vec()),
                b"size" => self.bytes = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
                name if name.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {}
            }
            text = rest;
        }
        Some(())
    }
}

/// Splits the first attribute off `text`: its name, its value, and the rest. The crate's own parser splits at newlines,
/// which a value may contain.
fn pax_attribute(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = memchr::memchr(b' ', text)?;
    // The length of the whole record, from its own digits to the newline.
    let length = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
    let (attribute, rest) = text.split_at_checked(length)?;
    let attribute = attribute.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = memchr::memchr(b'=', attribute)?;
    Some((&attribute[..equals], &attribute[equals + 1..], rest))
}

/// Entries without contents.
#[derive(Default)]
pub struct LeftOut {
    pub directories: u64,
    pub others: u64,
    /// Files that a killed `dump --tree` left.
    pub unfinished: u64,
}

impl LeftOut {
    pub fn note(&self) -> Option<String> {
        let parts = [
            (self.directories, "directory", "directories"),
            (self.others, "link or device", "links and devices"),
            (self.unfinished, "unfinished file of splitpoint", "unfinished files of splitpoint"),
        ];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(
                |(count, one, more)| {
                    if count == 1 { format!("1 {one}") } else { format!("{} {more}", crate::number::grouped(count)) }
                },
            )
            .collect();
        (!parts.is_empty()).then(|| format!("{} left out: only files are pairs", parts.join(" and ")))
    }
}

/// Whether bytes begin with a header whose checksum is right. A header has zero bytes; our text dumps do not.
pub fn is_tar(head: &[u8]) -> bool {
    let Some(block) = head.get(..HEADER_BYTES) else { return false };
    &block[257..262] == b"ustar" && block.contains(&0) && header_of(block).is_some()
}

/// Returns the header, if its checksum is right.
fn header_of(block: &[u8]) -> Option<&Header> {
    let header = Header::from_byte_slice(block);
    // The field itself counts as spaces.
    let sum = |from: usize, to: usize| block[from..to].iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let computed = sum(0, 148) + 8 * u32::from(b' ') + sum(156, HEADER_BYTES);
    header.cksum().is_ok_and(|stored| stored == computed).then_some(header)
}

/// Whether a killed `dump --tree` left the file at this path.
pub fn is_unfinished(path: &[u8]) -> bool {
    OutputFile::is_unfinished(OsStr::from_bytes(path))
}

fn padded(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(HEADER_BYTES as u64).unwrap_or(u64::MAX)
}

impl<'i> Tar<'i> {
    pub fn new(input: Input<'i>) -> Self {
        let contents = Contents::of(&input);
        let (attributes, left_out) = (Attributes::default(), LeftOut::default());
        let (path, linked) = (Vec::new(), Vec::new());
        Self { input, number: 0, next: Next::Header, attributes, path, contents, linked, left_out }
    }

    fn lost(&mut self, what: String) -> Row<'static> {
        self.number += 1;
        lost_at_pair(&self.input, self.number, what)
    }

    fn bad(&mut self, what: &str) -> Row<'static> {
        self.number += 1;
        let place = format!("{}: pair {}", self.input.name, self.number);
        Row::Bad(BadRow { place, what: format!("{}: {what}", escapes::quoted(&self.path)), goes_on: true })
    }

    /// Reads a header and decides what comes next; `Some` if that is a row.
    fn header(&mut self) -> Result<Option<Row<'static>>> {
        let at = self.input.taken_bytes();
        let range = match self.input.header(HEADER_BYTES as u64)? {
            Taken::Bytes(range) => range,
            Taken::Interrupted => return Ok(Some(Row::Interrupted)),
            Taken::TooLong => return Ok(Some(self.lost(self.input.limit_met()))),
            _ => {
                let what = "the archive ends here, without its two blocks of zeros: it is not whole";
                return Ok(Some(self.lost(what.into())));
            }
        };
        let block = self.input.bytes(range);
        if block.iter().all(|byte| *byte == 0) {
            self.next = Next::End;
            return Ok(None);
        }
        let header = header_of(block).and_then(|header| Some((header, header.entry_size().ok()?)));
        let Some((header, bytes)) = header else {
            return Ok(Some(self.lost(format!("a header of tar was expected at byte {at}"))));
        };
        let kind = header.entry_type();
        match kind {
            EntryType::GNULongName => self.next = Next::Extension { bytes, is: Extension::Path },
            EntryType::GNULongLink => self.next = Next::Extension { bytes, is: Extension::Target },
            EntryType::XHeader => self.next = Next::Extension { bytes, is: Extension::Pax },
            EntryType::XGlobalHeader => self.next = Next::Skipped { bytes: padded(bytes) },
            _ => {
                let extended = header.as_gnu().is_some_and(|header| header.is_extended());
                let attributes = std::mem::take(&mut self.attributes);
                self.path = attributes.path.unwrap_or_else(|| header.path_bytes().into_owned());
                if kind == EntryType::Link {
                    let named = header.link_name_bytes().map(std::borrow::Cow::into_owned);
                    // A header may have the length of the target, whose contents do not follow.
                    self.next = Next::Link(attributes.target.or(named).unwrap_or_default());
                    return Ok(None);
                }
                return Ok(self.entry(kind, attributes.bytes.unwrap_or(bytes), attributes.sparse, extended));
            }
        }
        Ok(None)
    }

    fn entry(&mut self, kind: EntryType, bytes: u64, sparse: bool, extended: bool) -> Option<Row<'static>> {
        self.next = Next::Skipped { bytes: padded(bytes) };
        match kind {
            EntryType::GNUSparse if extended => return Some(self.lost("is a file with many holes".into())),
            EntryType::GNUSparse => return Some(self.bad("is a file with holes, which are not filled")),
            EntryType::Regular | EntryType::Continuous if sparse => {
                return Some(self.bad("is a file with holes, which are not filled"));
            }
            EntryType::Regular | EntryType::Continuous if is_unfinished(&self.path) => self.left_out.unfinished += 1,
            // Old archives mark a directory by its name alone.
            EntryType::Regular | EntryType::Continuous if !self.path.ends_with(b"/") => {
                self.next = Next::File { bytes }
            }
            EntryType::Directory | EntryType::Regular | EntryType::Continuous => {
                self.left_out.directories += 1;
                self.next = Next::Header;
            }
            EntryType::Symlink | EntryType::Char | EntryType::Block | EntryType::Fifo => {
                self.left_out.others += 1;
                self.next = Next::Header;
            }
            _ => self.left_out.others += 1,
        }
        None
    }

    /// Reads the path or the attributes of the next file; `Some` if they cannot be read.
    fn attributes(&mut self, bytes: u64, is: Extension) -> Result<Option<Row<'static>>> {
        if bytes > ATTRIBUTES_BYTES_MAX {
            return Ok(Some(self.lost(format!("a path or its attributes have {bytes} bytes"))));
        }
        let range = match self.input.header(padded(bytes))? {
            Taken::Bytes(range) => range,
            Taken::Interrupted => return Ok(Some(Row::Interrupted)),
            Taken::TooLong => return Ok(Some(self.lost(self.input.limit_met()))),
            _ => return Ok(Some(self.lost("the archive ends in the path of a file: it is not whole".into()))),
        };
        self.next = Next::Header;
        let text = &self.input.bytes(range)[..usize::try_from(bytes).unwrap_or(0)];
        let path = || Some(text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
        match is {
            Extension::Path => self.attributes.path = path(),
            Extension::Target => self.attributes.target = path(),
            Extension::Pax if self.attributes.take(text).is_some() => {}
            Extension::Pax => {
                let what = "its attributes are not `LENGTH NAME=VALUE` records, or its size is not a number";
                return Ok(Some(self.lost(what.into())));
            }
        }
        Ok(None)
    }

    /// Skips bytes; `Some` if a signal came, or the input ended.
    fn skip(&mut self, bytes: u64) -> Result<Option<Row<'static>>> {
        let mut left = bytes;
        while left > 0 {
            let there = match self.input.peek()? {
                Taken::Bytes(range) => range.len(),
                Taken::Interrupted => {
                    self.next = Next::Skipped { bytes: left };
                    return Ok(Some(Row::Interrupted));
                }
                _ => return Ok(Some(self.lost("the archive ends in the contents of a file: it is not whole".into()))),
            };
            let skipped = there.min(usize::try_from(left).unwrap_or(there));
            self.input.consume(skipped);
            left -= skipped as u64;
        }
        self.next = Next::Header;
        Ok(None)
    }

    /// Returns the pair of a hard link.
    fn link(&mut self, target: &[u8]) -> Row<'_> {
        self.next = Next::Header;
        if let Err(what) = self.contents.link(&self.path, target, &mut self.linked) {
            return self.bad(&format!("is a hard link to {}: {what}", escapes::quoted(target)));
        }
        self.number += 1;
        Row::Pair(Pair { key: &self.path, value: &self.linked }, self.number)
    }

    /// Only zeros may follow the end.
    fn end(&mut self) -> Result<Row<'static>> {
        loop {
            let bytes = match self.input.peek()? {
                Taken::Bytes(range) => self.input.bytes(range),
                Taken::Interrupted => return Ok(Row::Interrupted),
                _ => return Ok(Row::End),
            };
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let only_zeros = zeros == bytes.len();
            self.input.consume(zeros);
            if !only_zeros {
                return Ok(
                    self.lost("other bytes follow the end of the archive; load several archives one by one".into())
                );
            }
        }
    }
}

impl Source for Tar<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        let bytes = loop {
            let row = match self.next {
                Next::Header => self.header()?,
                Next::Extension { bytes, is } => self.attributes(bytes, is)?,
                Next::Skipped { bytes } => self.skip(bytes)?,
                Next::End => return self.end(),
                Next::Link(ref mut target) => {
                    let target = std::mem::take(target);
                    return Ok(self.link(&target));
                }
                Next::File { bytes } => break bytes,
            };
            if let Some(row) = row {
                return Ok(row);
            }
        };
        if bytes > self.input.row_bytes_max() {
            self.next = Next::Skipped { bytes: padded(bytes) };
            let what = format!("has {}; --max-row raises the limit", count_of(bytes, "byte"));
            return Ok(self.bad(&what));
        }
        // Its padding may exceed the limit.
        let (file, padding) = match self.input.exactly(bytes)? {
            Taken::Bytes(range) => (range, padded(bytes) - bytes),
            // An empty file.
            Taken::End if bytes == 0 => (0..0, 0),
            Taken::Interrupted => return Ok(Row::Interrupted),
            Taken::TooLong => {
                let what = self.input.limit_met();
                return Ok(self.lost(what));
            }
            Taken::Short(_) | Taken::End => {
                return Ok(self.lost("the archive ends in the contents of a file: it is not whole".into()));
            }
        };
        self.next = if padding > 0 { Next::Skipped { bytes: padding } } else { Next::Header };
        self.number += 1;
        let value = self.input.bytes(file);
        self.contents.add(&self.path, value, self.input.taken_bytes());
        Ok(Row::Pair(Pair { key: &self.path, value }, self.number))
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.input.taken_of_file()
    }

    fn note(&self) -> Option<String> {
        self.left_out.note()
    }
}
