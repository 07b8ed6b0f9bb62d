//! Inputs of pairs: files of rows, columns of CSV or Parquet, tables, dictionaries; several in sequence.
//!
//! ```text
//! Inputs::look(paths)  -> each exists, what it is, how many bytes          before any work
//! Inputs::feed(take)   -> opens one after another, passes each pair and its place to `take`
//! ```
//!
//! Here: one input as a [`Source`] of rows, the formats and the options. `inputs.rs` all inputs of a command;
//! `places.rs` names for places; `columns.rs`, `csv.rs`, `parquet.rs`, `stored.rs` the sources that `format/` lacks.
//! Tables and dictionaries are recognized by content; the format of other files is given by `--format`, else by the
//! name.

pub mod columns;
mod csv;
mod inputs;
#[cfg(feature = "parquet")]
mod parquet;
mod places;
mod stored;

use crate::failure::Result;
use crate::format::{Format, Row, RowReader};
use crate::input::ROW_BYTES_MAX;
use crate::known::Layout;
use crate::number::parse_size;
use columns::{Column, Columns};
pub use inputs::{End, InputFile, Inputs, Kind, Read};
use std::hash::Hash;
use std::path::Path;
pub use stored::PairStream;

/// The rows of one input, one at a time.
pub trait Source {
    fn next_row(&mut self) -> Result<Row<'_>>;
    /// Number of the last row, from 1.
    fn number(&self) -> u64;
    /// Bytes of the input consumed so far, as far as known.
    fn taken_bytes(&self) -> u64;
}

impl Source for RowReader<'_> {
    fn next_row(&mut self) -> Result<Row<'_>> {
        RowReader::next_row(self)
    }

    fn number(&self) -> u64 {
        RowReader::number(self)
    }

    fn taken_bytes(&self) -> u64 {
        self.input().taken_bytes()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum SourceFormat {
    Tsv,
    Csv,
    Jsonl,
    Raw,
    Lines,
    Parquet,
}

impl SourceFormat {
    fn of_path(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Self::Csv,
            Some("parquet" | "pq") => Self::Parquet,
            _ => match Format::of_path(path) {
                Format::Tsv => Self::Tsv,
                Format::Jsonl => Self::Jsonl,
                Format::Raw => Self::Raw,
                Format::Lines => Self::Lines,
            },
        }
    }

    /// `None` for Parquet, which has its own reader.
    fn layout(self) -> Option<Layout> {
        match self {
            Self::Raw => Some(Layout::Raw),
            Self::Parquet => None,
            Self::Csv => Some(Layout::Fields),
            Self::Tsv | Self::Jsonl | Self::Lines => Some(Layout::Text),
        }
    }

    /// The format of rows that have no columns to choose from.
    fn of_rows(self) -> Option<Format> {
        match self {
            Self::Tsv => Some(Format::Tsv),
            Self::Jsonl => Some(Format::Jsonl),
            Self::Raw => Some(Format::Raw),
            Self::Lines => Some(Format::Lines),
            Self::Csv | Self::Parquet => None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnError {
    Stop,
    Skip,
}

/// How inputs are read, for `dict build` and `dict update`.
#[derive(clap::Args)]
pub struct SourceArgs {
    /// The format of the pairs [default: by the name of INPUT, else tsv]
    #[arg(long, short, value_enum, hide_possible_values = true, value_name = "tsv|csv|jsonl|raw|lines|parquet")]
    format: Option<SourceFormat>,
    /// The column of the keys, by name or number from 1 (csv, tsv, parquet) [default: the first]
    #[arg(long, value_name = "COLUMN", value_parser = columns::parse_column)]
    key: Option<Column>,
    /// The column of the values [default: the second]
    #[arg(long, value_name = "COLUMN", value_parser = columns::parse_column)]
    value: Option<Column>,
    /// With csv: the first line is a pair, and columns have only numbers
    #[arg(long)]
    no_header: bool,
    /// With --format lines: store the line's number as the value
    #[arg(long)]
    number: bool,
    /// At a row that is not a pair: stop, or name it, count it and continue
    #[arg(long, value_enum, default_value_t = OnError::Stop, hide_possible_values = true, value_name = "stop|skip")]
    on_error: OnError,
    /// The longest row; a longer one is a bad row [default: 1GiB]
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = parse_size,
        default_value_t = ROW_BYTES_MAX,
        hide_default_value = true
    )]
    max_row: u64,
}

/// The formats and columns, part of the help of every command that reads pairs.
pub const FORMATS_HELP: &str = "\
A table or dictionary as INPUT is recognized by its content. The format of other
files is given by --format or their names (.csv; .jsonl, .ndjson, .json; .raw,
.bin; .parquet, .pq; else tsv):
  tsv      key TAB value, one pair per line. \\t \\n \\r \\\\ \\xHH are escapes. Later
           tabs belong to the value; with --key or --value each tab ends a
           column, and if one is a name, the first line has the names.
  csv      comma-separated, quoted as in RFC 4180; the first line has the names.
  jsonl    {\"key\": \"...\", \"value\": \"...\"}, one pair per line; key_base64 and
           value_base64 for bytes that are not UTF-8.
  raw      u32 key length, u32 value length (little-endian), key, value.
  lines    the line is the key; the value is empty, or with --number the line's
           number.
  parquet  columns of bytes or strings, taken verbatim, or of integers, taken as
           decimal text; a null is a bad row.";

impl SourceArgs {
    /// For keys alone, whose values are not used.
    pub fn of_keys(format: SourceFormat, key: Option<Column>, no_header: bool) -> Self {
        Self {
            format: Some(format),
            value: key.clone(),
            key,
            no_header,
            number: false,
            on_error: OnError::Stop,
            max_row: ROW_BYTES_MAX,
        }
    }

    /// Everything that decides which pairs an input yields. The handling of bad rows is not part of it.
    pub fn identity(&self) -> impl Hash {
        (self.format, &self.key, &self.value, self.no_header, self.number)
    }

    fn columns_chosen(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }

    fn columns(&self, format: SourceFormat) -> Columns {
        let default = |column: &Option<Column>, number| column.clone().unwrap_or(Column::Number(number));
        let (key, value) = (default(&self.key, 1), default(&self.value, 2));
        let named = key.is_name() || value.is_name();
        let header = match format {
            SourceFormat::Csv => !self.no_header,
            _ => named,
        };
        Columns { key, value, header }
    }
}
