//! Reading pairs in any format that comes as a stream; Parquet and ZIP, which are read from their end, have their own
//! opens.

use super::columns::{Column, Columns, KEY_SEPARATOR};
use super::text::{LineReader, Lines};
use super::tsv::TsvColumns;
use super::{Format, Source, berkeley, cdb, cdbmake, csv, gdbm, jsonl, raw, tar};
use crate::input::{Input, Taken};

/// What the user says of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reading {
    /// In the order of the key's parts.
    pub key: Vec<Column>,
    /// Between them.
    pub key_separator: Option<Vec<u8>>,
    pub value: Option<Column>,
    /// The first row is a pair.
    pub no_header: bool,
    /// In TSV, a backslash is a backslash.
    pub no_escapes: bool,
    /// The value of a plain line is its number.
    pub number: bool,
    /// A second value of a key, which a dump of a database with duplicates has, is a bad row.
    pub one_value: bool,
}

impl Reading {
    pub fn columns_chosen(&self) -> bool {
        !self.key.is_empty() || self.value.is_some()
    }

    pub fn key_separator(&self) -> Vec<u8> {
        self.key_separator.clone().unwrap_or_else(|| KEY_SEPARATOR.to_vec())
    }

    pub fn columns(&self, format: Format) -> Columns {
        let first = || vec![Column::Number(1)];
        let is_name = self.key.iter().chain(&self.value).any(Column::is_name);
        Columns {
            key: if self.key.is_empty() { first() } else { self.key.clone() },
            key_separator: self.key_separator(),
            value: self.value.clone(),
            chosen: self.columns_chosen(),
            header: if format == Format::Tsv { is_name } else { !self.no_header },
        }
    }
}

/// The rows of `input`. The first byte of a GDBM dump says which of its two formats it has.
pub fn reader<'i>(
    format: Format,
    mut input: Input<'i>,
    reading: &Reading,
) -> crate::failure::Result<Box<dyn Source + 'i>> {
    if format.is_text() {
        input.skip_byte_order_mark()?;
    }
    Ok(match format {
        Format::Tsv | Format::Parquet | Format::Zip | Format::Sql if reading.columns_chosen() => {
            Box::new(TsvColumns::new(input, reading.columns(format), !reading.no_escapes))
        }
        Format::Tsv | Format::Parquet | Format::Zip | Format::Sql => {
            Box::new(LineReader::new(input, Lines::Tsv { escapes: !reading.no_escapes }))
        }
        Format::Csv => Box::new(csv::Csv::new(input, reading.columns(format))),
        Format::Jsonl => Box::new(LineReader::new(input, Lines::Jsonl(jsonl::Fields::chosen(reading)))),
        Format::Lines => Box::new(LineReader::new(input, Lines::Plain { numbered: reading.number })),
        Format::Raw => Box::new(raw::RawReader::new(input)),
        Format::Gdbm | Format::GdbmFlat => {
            let flat = match input.peek()? {
                Taken::Bytes(range) => input.bytes(range).starts_with(b"!"),
                _ => format == Format::GdbmFlat,
            };
            if flat { Box::new(gdbm::Flat::new(input)) } else { Box::new(gdbm::Text::new(input)) }
        }
        Format::Db | Format::DbHex | Format::Mdb => Box::new(berkeley::Dump::new(input, reading.one_value)),
        Format::Cdbmake => Box::new(cdbmake::Text::new(input)),
        Format::Cdb => Box::new(cdb::File::new(input)),
        Format::Tar => Box::new(tar::Tar::new(input)),
    })
}
