//! Formats of pairs, one file each, which reads and writes it.
//!
//! | format | a pair is | bytes kept | dir |
//! |---|---|---|---|
//! | `tsv` | key TAB value, one per line; escapes `\t \n \r \\ \xHH` | any | in, out |
//! | `csv` | two columns, or one and the others as JSON; quoted as in RFC 4180 | any | in, out |
//! | `jsonl` | an object per line; `key_base64`, `value_base64` for non-UTF-8 | any | in, out |
//! | `raw` | u32 key length, u32 value length (both little-endian), key, value | any | in, out |
//! | `lines` | a key per line; the value is empty, or the line's number | no newline or zero byte | in, out |
//! | `parquet` | two columns, or one and the others as JSON | any | in, out |
//! | `gdbm`, `gdbm-flat` | the dumps of `gdbm_dump`, as base64 and binary | any | in, out |
//! | `db`, `db-hex`, `mdb` | the dumps of `db_dump` and `mdb_dump` | any | in, out |
//! | `cdbmake` | the text that `cdbmake` reads | any | in, out |
//! | `cdb` | a cdb file itself | any | in |
//! | `gdbm-file` | a GDBM file itself | any | in |
//! | `tar`, `zip` | a file of an archive: its path and its contents | any | in |
//! | `sql` | INSERT statements for SQLite | any | out |
//!
//! Reading ([`Source`]) borrows from the input's buffer if the pair needs no decoding, and decodes into two reused
//! buffers otherwise: no allocation per row. Writing ([`Writer`]) appends to a buffer that the caller empties.

pub mod berkeley;
pub mod cdb;
pub mod cdbmake;
pub mod columns;
mod contents;
pub mod csv;
pub mod gdbm;
pub mod gdbm_file;
pub mod jsonl;
mod name;
pub mod options;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(feature = "parquet")]
mod parquet_text;
pub mod raw;
pub mod rdb;
mod read;
mod sql;
mod stop;
pub mod tar;
pub mod text;
pub mod tsv;
pub mod typed;
mod write;
pub mod zip;

use crate::failure::Result;
use crate::input::Input;
pub use name::{Format, Layout, ReadFormat, WriteFormat};
pub use read::reader;
use splitpoint_server::rdb::Entry;
pub use write::{About, Writer};

/// The rows of one input, one at a time.
pub trait Source {
    fn next_row(&mut self) -> Result<Row<'_>>;
    /// Number of the last row, from 1: a line, or which pair it is.
    fn number(&self) -> u64;
    /// Number of the row that comes next.
    fn next_number(&self) -> u64 {
        self.number() + 1
    }
    /// Bytes of the file consumed so far, as far as known.
    fn taken_bytes(&self) -> u64;
    /// Returns the number of its items read, and of all items, if it counts items instead of bytes.
    fn done(&self) -> Option<(u64, u64)> {
        None
    }
    /// Returns a note on the input for the user, after its last row.
    fn note(&self) -> Option<String> {
        None
    }
    /// Returns the columns taken, if the format has columns: `key id, value name`. Known after the first row.
    fn columns(&self) -> Option<String> {
        None
    }
}

/// The buffer for a row whose bytes are not in the input verbatim.
#[derive(Default)]
pub struct Scratch {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Scratch {
    pub fn pair(&self) -> Pair<'_> {
        Pair { key: &self.key, value: &self.value }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'r> {
    pub key: &'r [u8],
    pub value: &'r [u8],
}

pub enum Row<'r> {
    /// A pair with its number, because the reader is borrowed.
    Pair(Pair<'r>, u64),
    /// A key with a type, a lifetime or a database, which only `load` stores as it is.
    Entry(&'r Entry, u64),
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

/// Returns a bad row at a line, after which the next line can be read.
pub fn bad_line(input: &Input<'_>, number: u64, what: String) -> Row<'static> {
    Row::Bad(BadRow { place: format!("{}:{number}", input.name), what, goes_on: true })
}

/// Returns a bad row at a line, after which no row can be found.
pub fn lost_at_line(input: &Input<'_>, number: u64, what: String) -> Row<'static> {
    Row::Bad(BadRow { place: format!("{}:{number}", input.name), what, goes_on: false })
}

/// Returns a bad row at a pair of a binary format, after which no row can be found.
pub fn lost_at_pair(input: &Input<'_>, number: u64, what: String) -> Row<'static> {
    Row::Bad(BadRow { place: format!("{}: pair {number}", input.name), what, goes_on: false })
}

#[cfg(test)]
mod tests;
