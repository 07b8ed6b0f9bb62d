//! Parquet: two columns of a file, one batch of rows at a time.
//!
//! One page per column is in memory, so memory is bounded by the page size that the file's writer chose (mostly 1 MiB).
//! Bytes and strings are taken verbatim, integers as decimal text, as in every other format; a null is a bad row. Other
//! types and lists are refused by the column's name.

use super::Source;
use super::columns::Columns;
use crate::failure::{Failure, Result};
use crate::format::{BadRow, Pair, Row};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use splitpoint::ErrorKind;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Rows decoded together.
const BATCH_ROWS: usize = 1024;

pub struct Parquet {
    name: String,
    file: SerializedFileReader<File>,
    file_bytes: u64,
    rows_total: u64,
    next_group: usize,
    /// Rows of the current group that are not decoded yet.
    group_rows: u64,
    key: Column,
    value: Column,
    /// Rows of the current batch, and how many of them were returned.
    batch: usize,
    given: usize,
    number: u64,
}

impl Parquet {
    /// # Errors
    /// A file that is not Parquet; a column that is missing or has a type that neither keys nor values have.
    pub fn open(path: &Path, columns: &Columns) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::io(&name, &error))?;
        let file_bytes = file.metadata().map_err(|error| Failure::io(&name, &error))?.len();
        let file = guarded(&name, || SerializedFileReader::new(file))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<_> = schema.columns().iter().map(|column| column.path().string()).collect();
        let (key, value) = columns.look_up(&name, &names)?;
        let rows_total = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok(Self {
            key: Column::new(&name, key, &schema.column(key))?,
            value: Column::new(&name, value, &schema.column(value))?,
            name,
            file,
            file_bytes,
            rows_total,
            next_group: 0,
            group_rows: 0,
            batch: 0,
            given: 0,
            number: 0,
        })
    }

    /// Decodes the next rows; `false` at the end.
    fn next_batch(&mut self) -> Result<bool> {
        while self.group_rows == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            let Self { name, file, next_group, key, value, .. } = self;
            let rows = guarded(name, || {
                let group = file.get_row_group(*next_group)?;
                key.reader = Some(group.get_column_reader(key.index)?);
                value.reader = Some(group.get_column_reader(value.index)?);
                Ok(group.metadata().num_rows())
            })?;
            self.group_rows = u64::try_from(rows).unwrap_or(0);
            self.next_group += 1;
        }
        let wanted = BATCH_ROWS.min(usize::try_from(self.group_rows).unwrap_or(BATCH_ROWS));
        let Self { name, key, value, .. } = self;
        let (keys, values) = guarded(name, || Ok((key.read(wanted)?, value.read(wanted)?)))?;
        if (keys, values) != (wanted, wanted) {
            let what = format!("row group {} ends before its {} last rows", self.next_group, self.group_rows);
            return Err(damaged(&self.name, &what));
        }
        self.group_rows -= wanted as u64;
        (self.batch, self.given) = (wanted, 0);
        Ok(true)
    }
}

impl Source for Parquet {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if self.given == self.batch && !self.next_batch()? {
            return Ok(Row::End);
        }
        let row = self.given;
        self.given += 1;
        self.number += 1;
        match (self.key.cell(row), self.value.cell(row)) {
            (Some(key), Some(value)) => Ok(Row::Pair(Pair { key, value }, self.number)),
            (key, _) => {
                let column = if key.is_none() { &self.key } else { &self.value };
                let what = format!("column {} is null", column.name);
                Ok(Row::Bad(BadRow { place: format!("{}: row {}", self.name, self.number), what, goes_on: true }))
            }
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    /// Estimated from the share of rows: the bytes of a column lie between those of others.
    fn taken_bytes(&self) -> u64 {
        let share = self.number as f64 / self.rows_total.max(1) as f64;
        ((self.file_bytes as f64 * share) as u64).min(self.file_bytes)
    }
}

/// One column, and a batch of its cells.
struct Column {
    name: String,
    index: usize,
    unsigned: bool,
    /// The definition level of a non-null cell.
    defined: i16,
    reader: Option<ColumnReader>,
    levels: Vec<i16>,
    bytes: Vec<u8>,
    cells: Vec<Option<Range<usize>>>,
}

impl Column {
    fn new(file: &str, index: usize, column: &ColumnDescriptor) -> Result<Self> {
        let name = column.path().string();
        let type_name = type_of(column);
        if column.max_rep_level() > 0 || type_name.is_some() {
            let is = type_name.unwrap_or_else(|| "a list".into());
            return Err(Failure::usage(format_args!(
                "{file}: column {name} is {is}; keys and values are bytes, strings or integers"
            )));
        }
        Ok(Self {
            name,
            index,
            unsigned: is_unsigned(column),
            defined: column.max_def_level(),
            reader: None,
            levels: Vec::new(),
            bytes: Vec::new(),
            cells: Vec::new(),
        })
    }

    fn cell(&self, row: usize) -> Option<&[u8]> {
        self.cells[row].clone().map(|range| &self.bytes[range])
    }

    /// Replaces the cells by up to `count` next ones; returns how many there were.
    fn read(&mut self, count: usize) -> std::result::Result<usize, ParquetError> {
        self.bytes.clear();
        self.cells.clear();
        let Self { reader, levels, bytes, cells, defined, unsigned, .. } = self;
        let mut batch = Batch { levels, bytes, cells, defined: *defined, count };
        match reader {
            Some(ColumnReader::ByteArrayColumnReader(reader)) => {
                batch.read(reader, |value, bytes| bytes.extend_from_slice(value.data()))
            }
            Some(ColumnReader::FixedLenByteArrayColumnReader(reader)) => {
                batch.read(reader, |value, bytes| bytes.extend_from_slice(value.data()))
            }
            Some(ColumnReader::Int32ColumnReader(reader)) if *unsigned => {
                batch.read(reader, |value, bytes| decimal(u64::from(value.cast_unsigned()), bytes))
            }
            Some(ColumnReader::Int64ColumnReader(reader)) if *unsigned => {
                batch.read(reader, |value, bytes| decimal(value.cast_unsigned(), bytes))
            }
            Some(ColumnReader::Int32ColumnReader(reader)) => batch.read(reader, |value, bytes| decimal(*value, bytes)),
            Some(ColumnReader::Int64ColumnReader(reader)) => batch.read(reader, |value, bytes| decimal(*value, bytes)),
            // `new` admits no others.
            _ => Ok(0),
        }
    }
}

/// Destination of the cells of one read.
struct Batch<'c> {
    levels: &'c mut Vec<i16>,
    bytes: &'c mut Vec<u8>,
    cells: &'c mut Vec<Option<Range<usize>>>,
    defined: i16,
    count: usize,
}

impl Batch<'_> {
    /// Reads until the batch is full or the row group ends; `put` appends a value's bytes.
    fn read<T: DataType>(
        &mut self,
        reader: &mut ColumnReaderImpl<T>,
        put: impl Fn(&T::T, &mut Vec<u8>),
    ) -> std::result::Result<usize, ParquetError> {
        let mut values = Vec::new();
        while self.cells.len() < self.count {
            self.levels.clear();
            values.clear();
            let rows = self.count - self.cells.len();
            let (rows, _, _) = reader.read_records(rows, Some(&mut *self.levels), None, &mut values)?;
            if rows == 0 {
                break;
            }
            let mut values = values.iter();
            for row in 0..rows {
                let there = self.defined == 0 || self.levels.get(row) == Some(&self.defined);
                let cell = there.then(|| values.next()).flatten().map(|value| {
                    let start = self.bytes.len();
                    put(value, self.bytes);
                    start..self.bytes.len()
                });
                self.cells.push(cell);
            }
        }
        Ok(self.cells.len())
    }
}

fn decimal(number: impl std::fmt::Display, bytes: &mut Vec<u8>) {
    write!(bytes, "{number}").expect("a Vec takes every write");
}

/// `None` for a supported type; else its name.
fn type_of(column: &ColumnDescriptor) -> Option<String> {
    use parquet::basic::Type;
    let taken = match column.physical_type() {
        Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => !matches!(
            (column.logical_type_ref(), column.converted_type()),
            (Some(LogicalType::Decimal(_) | LogicalType::Float16), _)
                | (_, ConvertedType::DECIMAL | ConvertedType::INTERVAL)
        ),
        Type::INT32 | Type::INT64 => {
            matches!(column.logical_type_ref(), None | Some(LogicalType::Integer(_)))
                && (column.converted_type() == ConvertedType::NONE || is_integer(column.converted_type()))
        }
        _ => false,
    };
    (!taken).then(|| match (column.logical_type_ref(), column.converted_type()) {
        (Some(logical), _) => format!("{logical:?}").split([' ', '{', '(']).next().unwrap_or_default().to_owned(),
        (None, ConvertedType::NONE) => column.physical_type().to_string(),
        (None, converted) => converted.to_string(),
    })
}

fn is_integer(converted: ConvertedType) -> bool {
    use ConvertedType as C;
    matches!(converted, C::INT_8 | C::INT_16 | C::INT_32 | C::INT_64 | C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64)
}

fn is_unsigned(column: &ColumnDescriptor) -> bool {
    use ConvertedType as C;
    matches!(column.logical_type_ref(), Some(LogicalType::Integer(integer)) if !integer.is_signed)
        || matches!(column.converted_type(), C::UINT_8 | C::UINT_16 | C::UINT_32 | C::UINT_64)
}

/// Runs the crate's code: its errors, and a panic caused by malformed bytes, become failures.
fn guarded<T>(name: &str, read: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| damaged(name, &error.to_string())),
        Err(_) => Err(damaged(name, "its contents make the reader fail")),
    }
}

fn damaged(name: &str, what: &str) -> Failure {
    Failure::of_kind(ErrorKind::Corrupt, format_args!("{name}: cannot be read as Parquet: {what}"))
}
