//! Reads pairs in any format that comes as a stream. Parquet, ZIP and GDBM files are not read from beginning to end,
//! and are opened by their own functions.

use super::columns::Columns;
use super::options::Reading;
use super::text::{LineReader, Lines};
use super::tsv::TsvColumns;
use super::{Format, Source, berkeley, cdb, cdbmake, csv, gdbm, jsonl, raw, rdb, tar};
use crate::input::{Input, Taken};

/// Returns the rows of `input`. The first byte of a GDBM dump says which of its two formats it has.
pub fn reader<'i>(
    format: Format,
    mut input: Input<'i>,
    reading: &Reading,
) -> crate::failure::Result<Box<dyn Source + 'i>> {
    if format.is_text() {
        input.skip_byte_order_mark()?;
    }
    Ok(match format {
        Format::Tsv | Format::Parquet | Format::Zip | Format::GdbmFile | Format::Sql if reading.columns_chosen() => {
            Box::new(TsvColumns::new(input, Columns::chosen(reading, format), !reading.no_escapes))
        }
        Format::Tsv | Format::Parquet | Format::Zip | Format::GdbmFile | Format::Sql => {
            Box::new(LineReader::new(input, Lines::Tsv { escapes: !reading.no_escapes }))
        }
        Format::Csv => Box::new(csv::Csv::new(input, Columns::chosen(reading, format))),
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
        Format::Db | Format::DbHex | Format::Mdb => Box::new(berkeley::Dump::new(input, reading.own_rule)),
        Format::Cdbmake => Box::new(cdbmake::Text::new(input)),
        Format::Cdb => Box::new(cdb::File::new(input)),
        Format::Tar => Box::new(tar::Tar::new(input)),
        Format::Rdb => Box::new(rdb::Rdb::new(input, reading.ttl)),
    })
}
