//! Parquet: two columns of a file, or one column and all others as JSON.
//!
//! Two columns are read in batches, and one page per column is in memory, so memory is bounded by the page size that
//! the file's writer chose (mostly 1 MiB). Bytes and strings are taken verbatim, integers as decimal text, as in every
//! other format; a null is a bad row. Other types and lists are refused by the column's name, but as one of several
//! columns that become JSON they may have any type.
//!
//! Writing collects row groups of [`GROUP_BYTES`].

use super::columns::{Columns, Picked, PickedValue};
use super::{BadRow, Pair, Row, Source, jsonl};
use crate::failure::{Failure, Result};
use parquet::basic::{Compression, ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescriptor;
use splitpoint::ErrorKind;
use std::fs::File;
use std::io::Write;
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Keys and values collected before they are written as a row group.
const GROUP_BYTES: usize = 32 << 20;
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
    value: Value,
    picked: Picked,
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
        let picked = columns.pick(&name, &names)?;
        let key = Column::new(&name, picked.key, &schema.column(picked.key))?;
        let value = match picked.value {
            PickedValue::Column(index) => Value::Column(Box::new(Column::new(&name, index, &schema.column(index))?)),
            PickedValue::Others => {
                let file = File::open(path).map_err(|error| Failure::io(&name, &error))?;
                let rows = guarded(&name, || Ok(SerializedFileReader::new(file)?.into_iter()))?;
                Value::Others { rows, key: Vec::new(), object: Vec::new() }
            }
        };
        let rows_total = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok(Self {
            key,
            value,
            picked,
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
            let Self { name, file, next_group, key, value: Value::Column(value), .. } = self else { return Ok(false) };
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
        let Self { name, key, value: Value::Column(value), .. } = self else { return Ok(false) };
        let (keys, values) = guarded(name, || Ok((key.read(wanted)?, value.read(wanted)?)))?;
        if (keys, values) != (wanted, wanted) {
            let what = format!("row group {} ends before its {} last rows", self.next_group, self.group_rows);
            return Err(damaged(&self.name, &what));
        }
        self.group_rows -= wanted as u64;
        (self.batch, self.given) = (wanted, 0);
        Ok(true)
    }

    /// The next row of all columns.
    fn next_whole(&mut self) -> Result<Row<'_>> {
        let Self { name, key: column, value: Value::Others { rows, key, object }, number, .. } = self else {
            return Ok(Row::End);
        };
        let Some(row) = guarded(name, || rows.next().transpose())? else { return Ok(Row::End) };
        *number += 1;
        key.clear();
        object.clear();
        object.push(b'{');
        let mut has_key = false;
        for (name, field) in row.get_column_iter() {
            if *name == column.name {
                has_key = key_bytes(field, key);
                continue;
            }
            if object.len() > 1 {
                object.push(b',');
            }
            write_json(name, field, object);
        }
        object.push(b'}');
        if !has_key {
            let what = format!("column {} is null", column.name);
            return Ok(Row::Bad(BadRow { place: format!("{name}: row {number}"), what, goes_on: true }));
        }
        Ok(Row::Pair(Pair { key, value: object }, *number))
    }
}

/// Where values come from.
enum Value {
    Column(Box<Column>),
    /// All columns but the key's, as a JSON object, with its own reader of whole rows.
    Others {
        rows: RowIter<'static>,
        key: Vec<u8>,
        object: Vec<u8>,
    },
}

/// Appends the bytes of a key; `false` for a null. [`Column::new`] admits no other kinds.
fn key_bytes(field: &Field, key: &mut Vec<u8>) -> bool {
    match field {
        Field::Str(text) => key.extend_from_slice(text.as_bytes()),
        Field::Bytes(bytes) => key.extend_from_slice(bytes.data()),
        Field::Null => return false,
        other => decimal(other, key),
    }
    true
}

/// Appends `"name":value`.
fn write_json(name: &str, field: &Field, object: &mut Vec<u8>) {
    match field {
        Field::Str(text) => jsonl::write_field(name, text.as_bytes(), object),
        Field::Bytes(bytes) => jsonl::write_field(name, bytes.data(), object),
        other => {
            serde_json::to_writer(&mut *object, name).expect("a string is JSON and a Vec takes every write");
            object.push(b':');
            serde_json::to_writer(object, &other.to_json_value()).expect("a value is JSON and a Vec takes every write");
        }
    }
}

impl Source for Parquet {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if matches!(self.value, Value::Others { .. }) {
            return self.next_whole();
        }
        if self.given == self.batch && !self.next_batch()? {
            return Ok(Row::End);
        }
        let row = self.given;
        self.given += 1;
        self.number += 1;
        let Value::Column(value) = &self.value else { return Ok(Row::End) };
        match (self.key.cell(row), value.cell(row)) {
            (Some(key), Some(value)) => Ok(Row::Pair(Pair { key, value }, self.number)),
            (key, _) => {
                let column = if key.is_none() { &self.key } else { value };
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

    fn columns(&self) -> Option<String> {
        Some(self.picked.describe())
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

/// Writes a file with the columns `key` and `value`, a row group at a time.
pub struct Writer {
    file: SerializedFileWriter<Vec<u8>>,
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    bytes: usize,
}

impl Writer {
    /// A column that is text is marked as such, so that others show it as text.
    pub fn new(key_is_text: bool, value_is_text: bool) -> std::result::Result<Self, String> {
        let mark = |text| if text { " (STRING)" } else { "" };
        let schema = format!(
            "message pairs {{ REQUIRED BYTE_ARRAY key{}; REQUIRED BYTE_ARRAY value{}; }}",
            mark(key_is_text),
            mark(value_is_text)
        );
        let schema = parse_message_type(&schema).map_err(|error| error.to_string())?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        Ok(Self { file: file.map_err(|error| error.to_string())?, keys: Vec::new(), values: Vec::new(), bytes: 0 })
    }

    pub fn pair(&mut self, pair: Pair<'_>, row: &mut Vec<u8>) -> std::result::Result<(), String> {
        self.keys.push(pair.key.to_vec().into());
        self.values.push(pair.value.to_vec().into());
        // 48: what a cell takes besides its bytes.
        self.bytes += pair.key.len() + pair.value.len() + 2 * 48;
        if self.bytes >= GROUP_BYTES { self.write_group(row) } else { Ok(()) }
    }

    pub fn end(mut self, row: &mut Vec<u8>) -> std::result::Result<(), String> {
        if !self.keys.is_empty() {
            self.write_group(row)?;
        }
        row.extend_from_slice(&self.file.into_inner().map_err(|error| error.to_string())?);
        Ok(())
    }

    fn write_group(&mut self, row: &mut Vec<u8>) -> std::result::Result<(), String> {
        let columns = [mem::take(&mut self.keys), mem::take(&mut self.values)];
        self.bytes = 0;
        self.encode_group(&columns).map_err(|error| error.to_string())?;
        // The writer counts positions by itself, so its buffer can be emptied.
        row.append(self.file.inner_mut());
        Ok(())
    }

    fn encode_group(&mut self, columns: &[Vec<ByteArray>]) -> std::result::Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for cells in columns {
            let mut column = group.next_column()?.expect("the schema has two columns");
            column.typed::<ByteArrayType>().write_batch(cells, None, None)?;
            column.close()?;
        }
        group.close()?;
        self.file.flush().map_err(|error| ParquetError::External(Box::new(error)))
    }
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
