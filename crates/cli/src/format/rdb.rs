//! Dump files of Redis and Valkey, and ours that redis-server loads: keys with values of every type and lifetimes.
//!
//! The format itself: `splitpoint_server::rdb`. A value of a module is a bad row with the module's name. Bytes after
//! the end are an error: an append-only file may begin with a dump, and its commands follow.

use super::options::Ttl;
use super::{BadRow, Pair, Row, Source};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::input::{Input, Taken};
use crate::number::count_of;
use splitpoint_server::keyspace::ServedFile;
use splitpoint_server::rdb::{self, Entry, Limits, Object, RdbError};
use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::rc::Rc;

/// Whether the file begins like a dump. No UTF-8 has the byte after the version.
pub fn is_rdb(head: &[u8]) -> bool {
    const OPCODES: std::ops::RangeInclusive<u8> = 0xf5..=0xff;
    let Some([version @ .., opcode]) = head.strip_prefix(rdb::SIGNATURE).and_then(|rest| rest.get(..5)) else {
        return false;
    };
    version.iter().all(u8::is_ascii_digit) && OPCODES.contains(opcode)
}

/// Returns the maximum size of a decoded value: as for any other row.
pub fn limits(row_bytes_max: u64) -> Limits {
    Limits { string_bytes: row_bytes_max.min(Limits::FILE.string_bytes), value_bytes: row_bytes_max }
}

/// Why an input returned no bytes, which an [`io::Error`] cannot hold.
enum Stop {
    Interrupted,
    Failed(Failure),
}

/// An input as a stream of bytes.
struct Bytes<'i> {
    input: Rc<RefCell<Input<'i>>>,
    taken: Rc<Cell<u64>>,
    stop: Rc<RefCell<Option<Stop>>>,
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut input = self.input.borrow_mut();
        let stop = match input.peek() {
            Ok(Taken::Bytes(range)) => {
                let count = buffer.len().min(range.len());
                let range = range.start..range.start + count;
                buffer[..count].copy_from_slice(input.bytes(range));
                input.consume(count);
                self.taken.set(input.taken_of_file());
                return Ok(count);
            }
            Ok(Taken::Interrupted) => Stop::Interrupted,
            Ok(_) => return Ok(0),
            Err(failure) => Stop::Failed(failure),
        };
        self.stop.replace(Some(stop));
        Err(io::ErrorKind::Other.into())
    }
}

/// The keys of a dump file.
pub struct Rdb<'i> {
    input: Rc<RefCell<Input<'i>>>,
    /// Made with the first row, so that a bad head is a bad row.
    reader: Option<rdb::Reader<Bytes<'i>>>,
    ttl: Option<Ttl>,
    name: String,
    number: u64,
    /// Keys that were left out because of `ttl`.
    with_lifetime: u64,
    taken: Rc<Cell<u64>>,
    stop: Rc<RefCell<Option<Stop>>>,
    entry: Option<Entry>,
}

impl<'i> Rdb<'i> {
    pub fn new(input: Input<'i>, ttl: Option<Ttl>) -> Self {
        let name = input.name.clone();
        let (input, taken, stop) = (Rc::new(RefCell::new(input)), Rc::default(), Rc::default());
        Self { input, reader: None, ttl, name, number: 0, with_lifetime: 0, taken, stop, entry: None }
    }

    /// Reads the next key that is not left out.
    fn next_wanted(&mut self) -> std::result::Result<Option<Entry>, RdbError> {
        loop {
            let mut next = self.next()?;
            match (&mut next, self.ttl) {
                (Some(entry), Some(Ttl::Skip)) if entry.has_lifetimes() => {
                    self.number += 1;
                    self.with_lifetime += 1;
                    continue;
                }
                (Some(entry), Some(Ttl::Ignore)) => entry.persist(),
                _ => {}
            }
            return Ok(next);
        }
    }

    fn next(&mut self) -> std::result::Result<Option<Entry>, RdbError> {
        if let Some(reader) = &mut self.reader {
            return reader.next_entry();
        }
        let (input, taken, stop) = (Rc::clone(&self.input), Rc::clone(&self.taken), Rc::clone(&self.stop));
        let limits = limits(input.borrow().row_bytes_max());
        self.reader.insert(rdb::Reader::new(Bytes { input, taken, stop }, limits)?).next_entry()
    }

    fn bad(&self, what: String, goes_on: bool) -> Row<'static> {
        Row::Bad(BadRow { place: format!("{}: pair {}", self.name, self.number), what, goes_on })
    }

    /// Returns a bad row after which none can be found.
    fn bad_at_byte(&mut self, what: &str) -> Row<'static> {
        self.number += 1;
        let at = self.reader.as_ref().map_or(0, rdb::Reader::position);
        self.bad(format!("byte {at}: {what}"), false)
    }

    fn after_end(&mut self) -> Result<Row<'_>> {
        match self.input.borrow_mut().peek()? {
            Taken::Bytes(_) => {}
            Taken::Interrupted => return Ok(Row::Interrupted),
            _ => return Ok(Row::End),
        }
        self.number += 1;
        let what = "the dump has ended, and more bytes follow, as in an append-only file of Redis; load the dump that \
                    SAVE writes, or from the running server";
        Ok(self.bad(what.into(), false))
    }
}

impl Source for Rdb<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        // A value that was not read to its end cannot be read again.
        if matches!(*self.stop.borrow(), Some(Stop::Interrupted)) {
            return Ok(Row::Interrupted);
        }
        match self.next_wanted() {
            Ok(None) => self.after_end(),
            Ok(Some(entry)) => {
                self.number += 1;
                if let Object::Module(module) = &entry.object {
                    let key = escapes::quoted(&entry.key);
                    let what = format!("{key} has a value of the module type {module}; --on-error skip leaves it out");
                    return Ok(self.bad(what, true));
                }
                Ok(row_of(self.entry.insert(entry), self.number))
            }
            Err(RdbError::Bad(what)) => Ok(self.bad_at_byte(&what)),
            Err(RdbError::TooLong(what)) => Ok(self.bad_at_byte(&format!("{what}; --max-row raises the limit"))),
            Err(RdbError::Io(error)) => match self.stop.take() {
                Some(Stop::Failed(failure)) => Err(failure),
                Some(Stop::Interrupted) => {
                    self.stop.replace(Some(Stop::Interrupted));
                    Ok(Row::Interrupted)
                }
                None => Err(Failure::io(&self.name, &error)),
            },
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn taken_bytes(&self) -> u64 {
        self.taken.get()
    }

    fn note(&self) -> Option<String> {
        let mut left_out = self.reader.as_ref().map_or(&[][..], rdb::Reader::left_out).to_vec();
        if self.with_lifetime > 0 {
            left_out.push(format!("{} with a lifetime", count_of(self.with_lifetime, "key")));
        }
        (!left_out.is_empty()).then(|| format!("left out: {}", left_out.join("; ")))
    }
}

/// Returns a pair if the key has nothing else, so that every command takes it. A reserved key, which a table may have
/// under another key, is an entry, which is stored as a server would.
pub fn row_of(entry: &Entry, number: u64) -> Row<'_> {
    match entry.as_pair() {
        Some((key, value)) if !ServedFile::is_reserved(key) => Row::Pair(Pair { key, value }, number),
        _ => Row::Entry(entry, number),
    }
}
