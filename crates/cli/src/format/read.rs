//! Reading pairs in any format that comes as a stream; Parquet, which is read from its end, has its own open.

use super::columns::{Column, Columns};
use super::text::{LineReader, Lines};
use super::tsv::TsvColumns;
use super::{Format, Source, berkeley, cdb, cdbmake, csv, gdbm, jsonl, raw};
use crate::input::{Input, Taken};

/// What the user says of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reading {
    pub key: Option<Column>,
    pub value: Option<Column>,
    /// The first row is a pair.
    pub no_header: bool,
    /// In TSV, a backslash is a backslash.
    pub no_escapes: bool,
    /// The value of a plain line is its number.
    pub number: bool,
}

impl Reading {
    pub fn columns_chosen(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }

    pub fn columns(&self, format: Format) -> Columns {
        let is_name = |column: &Option<Column>| column.as_ref().is_some_and(Column::is_name);
        Columns {
            key: self.key.clone().unwrap_or(Column::Number(1)),
            value: self.value.clone(),
            header: match format {
                Format::Tsv => is_name(&self.key) || is_name(&self.value),
                _ => !self.no_header,
            },
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
        Format::Tsv | Format::Parquet | Format::Sql if reading.columns_chosen() => {
            Box::new(TsvColumns::new(input, reading.columns(format), !reading.no_escapes))
        }
        Format::Tsv | Format::Parquet | Format::Sql => {
            Box::new(LineReader::new(input, Lines::Tsv { escapes: !reading.no_escapes }))
        }
        Format::Csv => Box::new(csv::Csv::new(input, reading.columns(format))),
        Format::Jsonl => {
            let fields = jsonl::Fields::chosen(reading.key.as_ref(), reading.value.as_ref());
            Box::new(LineReader::new(input, Lines::Jsonl(fields)))
        }
        Format::Lines => Box::new(LineReader::new(input, Lines::Plain { numbered: reading.number })),
        Format::Raw => Box::new(raw::RawReader::new(input)),
        Format::Gdbm | Format::GdbmFlat => {
            let flat = match input.peek()? {
                Taken::Bytes(range) => input.bytes(range).starts_with(b"!"),
                _ => format == Format::GdbmFlat,
            };
            if flat { Box::new(gdbm::Flat::new(input)) } else { Box::new(gdbm::Text::new(input)) }
        }
        Format::Db | Format::DbHex | Format::Mdb => Box::new(berkeley::Dump::new(input)),
        Format::Cdbmake => Box::new(cdbmake::Text::new(input)),
        Format::Cdb => Box::new(cdb::File::new(input)),
    })
}
