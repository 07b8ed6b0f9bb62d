//! Parquet: two columns of a file as key and value, or all columns but the key as JSON.
//!
//! Columns are read in batches, and one page per column is in memory, so memory is bounded by the page size that the
//! file's writer chose (mostly 1 MiB). Bytes and strings are taken verbatim. Values may also be numbers, dates and
//! times, as text that keeps every digit (`parquet_text.rs`); keys are bytes, strings or integers. A null is a bad row.
//!
//! In JSON, lists, maps and structs come from the crate's reader of whole rows. A NaN or an infinity, which JSON lacks,
//! makes a bad row. Refused are values that this reader would truncate, INT96, and equal names.
//!
//! Writing collects row groups of [`GROUP_BYTES`].

use super::columns::{Columns, Picked, PickedValue};
use super::options::Reading;
use super::parquet_text::Kind;
use super::{BadRow, Format, Pair, Row, Scratch, Source, jsonl};
use crate::escapes::quoted;
use crate::failure::{Failure, Result};
use crate::number::count_of;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};
use splitpoint::ErrorKind;
use std::collections::HashSet;
use std::fs::File;
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
    /// The key's columns, then the value's.
    columns: Vec<Column>,
    key_columns: usize,
    value: Value,
    picked: Picked,
    /// Rows of the current batch, and how many of them were returned.
    batch: usize,
    given: usize,
    number: u64,
    scratch: Scratch,
}

/// The source of values.
enum Value {
    /// The last column.
    Column,
    /// All columns but the key's, as a JSON object.
    Others(Vec<Member>),
}

/// A member of the JSON object.
enum Member {
    /// The index among the columns that are read.
    Column(usize),
    /// A list, a map or a struct, by its name in whole rows.
    Group(String, RowIter<'static>),
}

impl Parquet {
    /// # Errors
    /// A file that is not Parquet; a column that is missing, or has a type that neither keys nor values have.
    pub fn open(path: &Path, reading: &Reading) -> Result<Self> {
        let columns = &Columns::chosen(reading, Format::Parquet);
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::io(&name, &error))?;
        let file_bytes = file.metadata().map_err(|error| Failure::io(&name, &error))?.len();
        let file = guarded(&name, || SerializedFileReader::new(file))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<_> = schema.columns().iter().map(|column| column.path().string()).collect();
        refuse_groups(&name, schema.root_schema(), &names, columns)?;
        let picked = columns.pick(&name, &names)?;
        let mut columns = Vec::new();
        for index in &picked.key {
            let column = Column::new(&name, *index, &schema.column(*index))?;
            if !column.kind.is_of_keys() {
                let (path, what) = (&column.name, column.kind.name());
                return Err(refused(&name, path, &format!("{what}; keys are bytes, strings or integers")));
            }
            columns.push(column);
        }
        let key_columns = columns.len();
        let value = match picked.value {
            PickedValue::Column(index) => {
                columns.push(Column::new(&name, index, &schema.column(index))?);
                Value::Column
            }
            PickedValue::Others => Value::Others(members(path, &name, &schema, &picked.key, &mut columns)?),
        };
        let rows_total = row_count(&name, file.metadata().file_metadata().num_rows())?;
        Ok(Self {
            columns,
            key_columns,
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
            scratch: Scratch::default(),
        })
    }

    /// Decodes the next rows; `false` at the end.
    fn next_batch(&mut self) -> Result<bool> {
        while self.group_rows == 0 {
            let Self { name, file, next_group, columns, rows_total, number, .. } = self;
            // Rows beyond the count of their group would be lost silently.
            let ended = guarded(name, || {
                columns.iter_mut().try_fold(true, |ended, column| Ok(ended & (column.read(1)? == 0)))
            })?;
            if !ended {
                return Err(damaged(name, &format!("row group {next_group} has more rows than it says")));
            }
            if *next_group == file.num_row_groups() {
                if number != rows_total {
                    let rows = count_of(*number, "row");
                    return Err(damaged(name, &format!("it says {rows_total} rows, but has {rows}")));
                }
                return Ok(false);
            }
            let rows = guarded(name, || {
                let group = file.get_row_group(*next_group)?;
                for column in columns {
                    column.reader = Some(group.get_column_reader(column.index)?);
                }
                Ok(group.metadata().num_rows())
            })?;
            self.group_rows = row_count(name, rows)?;
            self.next_group += 1;
        }
        let wanted = BATCH_ROWS.min(usize::try_from(self.group_rows).unwrap_or(BATCH_ROWS));
        let Self { name, columns, .. } = self;
        let whole = guarded(name, || {
            columns.iter_mut().try_fold(true, |whole, column| Ok(whole & (column.read(wanted)? == wanted)))
        })?;
        if !whole {
            let what = format!("row group {} ends before its {} last rows", self.next_group, self.group_rows);
            return Err(damaged(&self.name, &what));
        }
        self.group_rows -= wanted as u64;
        (self.batch, self.given) = (wanted, 0);
        Ok(true)
    }

    /// Replaces the key and the value in `scratch` by those of a row; the inner error says what is wrong with it.
    fn pair(&mut self, row: usize) -> Result<std::result::Result<(), String>> {
        let Self { name, columns, key_columns, value, picked, scratch, .. } = self;
        // Read even if the row is bad: row readers and column readers must advance together.
        let groups = match value {
            Value::Column => Vec::new(),
            Value::Others(members) => next_groups(name, members)?,
        };
        let is_null = |column: &Column| format!("column {} is null", column.name);
        if let Some(null) = columns[..*key_columns].iter().find(|column| column.cell(row).is_none()) {
            return Ok(Err(is_null(null)));
        }
        let keys: Vec<_> = columns[..*key_columns].iter().filter_map(|column| column.cell(row)).collect();
        let part = |index: usize| picked.key.iter().position(|key| *key == index).map_or(&b""[..], |part| keys[part]);
        if let Err(what) = picked.join(part, &mut scratch.key) {
            return Ok(Err(what));
        }
        scratch.value.clear();
        Ok(match value {
            Value::Column => match columns.last().and_then(|column| column.cell(row)) {
                Some(cell) => {
                    scratch.value.extend_from_slice(cell);
                    Ok(())
                }
                None => Err(columns.last().map_or_else(String::new, is_null)),
            },
            Value::Others(members) => {
                let keys: Vec<_> = columns[..*key_columns].iter().map(|column| &column.name[..]).collect();
                let mut object = Object::begin(&mut scratch.value);
                let mut groups = groups.iter();
                let all = members.iter().try_for_each(|member| match member {
                    Member::Column(index) => object.cell(&columns[*index], row),
                    Member::Group(name, _) => match groups.next() {
                        Some(Some(field)) => object.field(name, name, field, &keys),
                        _ => Err(format!("column {name} ends before the others")),
                    },
                });
                object.end();
                all
            }
        })
    }
}

fn row_count(file: &str, said: i64) -> Result<u64> {
    u64::try_from(said).map_err(|_| damaged(file, &format!("a row count is {said}")))
}

/// Refuses a list, a map or a struct that the user names as a column, since each consists of several columns.
fn refuse_groups(file: &str, root: &Type, names: &[String], columns: &Columns) -> Result<()> {
    let key = columns.key.iter().map(|column| ("--key", column));
    for (option, column) in key.chain(columns.value.iter().map(|column| ("--value", column))) {
        let Some(name) = column.name() else { continue };
        let Some(group) = group_called(root, name).filter(|_| !names.iter().any(|other| other == name)) else {
            continue;
        };
        let info = group.get_basic_info();
        let what = match info.converted_type() {
            ConvertedType::LIST => "a list",
            ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE => "a map",
            _ if info.has_repetition() && info.repetition() == Repetition::REPEATED => "a list",
            _ => "a struct",
        };
        let help = match what {
            "a struct" => {
                let fields =
                    group.get_fields().iter().map(|field| quoted(format!("{name}.{}", field.name()).as_bytes()));
                format!("its fields are {}", fields.collect::<Vec<_>>().join(", "))
            }
            _ => "only the JSON of all columns but the key, without --value, has it".to_owned(),
        };
        let name = quoted(name.as_bytes());
        return Err(Failure::usage(format_args!("{file}: {option}: {name} is {what} and no single column; {help}")));
    }
    Ok(())
}

/// Returns the list, map or struct with this path.
fn group_called<'t>(group: &'t Type, path: &str) -> Option<&'t Type> {
    group.get_fields().iter().filter(|field| field.is_group()).find_map(|field| {
        let rest = path.strip_prefix(field.name())?;
        if rest.is_empty() { Some(&**field) } else { group_called(field, rest.strip_prefix('.')?) }
    })
}

/// Returns the members of the JSON object, in the order of the file; adds those that are columns to `columns`.
fn members(
    path: &Path,
    file: &str,
    schema: &SchemaDescriptor,
    key: &[usize],
    columns: &mut Vec<Column>,
) -> Result<Vec<Member>> {
    let root = schema.root_schema();
    for (index, column) in schema.columns().iter().enumerate() {
        let is_nested = column.path().parts().len() > 1;
        if is_nested && column.physical_type() == PhysicalType::INT96 && !key.contains(&index) {
            let path = column.path().string();
            let what = "INT96 within a list or struct, whose nanoseconds would be cut; --value chooses another column";
            return Err(refused(file, &path, what));
        }
    }
    refuse_alike(file, root)?;
    let mut members = Vec::new();
    for field in root.get_fields() {
        let leaf = |index: &usize| schema.column(*index).path().parts() == [field.name()];
        let index = (0..schema.num_columns()).find(leaf);
        match index.filter(|_| field.is_primitive()) {
            Some(index) if key.contains(&index) => {}
            Some(index) if schema.column(index).max_rep_level() == 0 => {
                columns.push(Column::new(file, index, &schema.column(index))?);
                members.push(Member::Column(columns.len() - 1));
            }
            _ => {
                let rows = guarded(file, || {
                    let reader = SerializedFileReader::new(File::open(path)?)?;
                    let only = Type::group_type_builder(root.name()).with_fields(vec![Arc::clone(field)]).build()?;
                    RowIter::from_file_into(Box::new(reader)).project(Some(only))
                })?;
                members.push(Member::Group(field.name().to_owned(), rows));
            }
        }
    }
    Ok(members)
}

/// Refuses two fields of one name: JSON would have the name twice.
fn refuse_alike(file: &str, group: &Type) -> Result<()> {
    let mut names = HashSet::new();
    for field in group.get_fields() {
        if !names.insert(field.name()) {
            let name = quoted(field.name().as_bytes());
            return Err(Failure::usage(format_args!(
                "{file}: two columns are called {name}, so their rows are not valid JSON"
            )));
        }
        if field.is_group() {
            refuse_alike(file, field)?;
        }
    }
    Ok(())
}

/// Reads the lists, maps and structs of the next row.
fn next_groups(file: &str, members: &mut [Member]) -> Result<Vec<Option<Field>>> {
    let groups = members.iter_mut().filter_map(|member| match member {
        Member::Column(_) => None,
        Member::Group(_, rows) => Some(rows),
    });
    groups
        .map(|rows| {
            let row = guarded(file, || rows.next().transpose())?;
            Ok(row.and_then(|row| row.into_columns().into_iter().next()).map(|(_, field)| field))
        })
        .collect()
}

/// A JSON object that is being written.
struct Object<'o> {
    json: &'o mut Vec<u8>,
    names: HashSet<String>,
    empty: bool,
}

type Written = std::result::Result<(), String>;

impl<'o> Object<'o> {
    fn begin(json: &'o mut Vec<u8>) -> Self {
        json.push(b'{');
        Self { json, names: HashSet::new(), empty: true }
    }

    fn end(self) {
        self.json.push(b'}');
    }

    /// Writes a name and a colon; `path` is for messages.
    fn name(&mut self, path: &str, name: &str) -> Written {
        if !mem::replace(&mut self.empty, false) {
            self.json.push(b',');
        }
        jsonl::write_string(name, self.json);
        self.json.push(b':');
        if self.names.insert(name.to_owned()) {
            return Ok(());
        }
        Err(format!("column {path}: the name {} would be there twice", quoted(name.as_bytes())))
    }

    /// Writes text, or bytes in base64 under a name that says so.
    fn bytes(&mut self, path: &str, name: &str, bytes: &[u8]) -> Written {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                self.name(path, name)?;
                jsonl::write_string(text, self.json);
            }
            Err(_) => {
                self.name(path, &format!("{name}_base64"))?;
                jsonl::write_base64(bytes, self.json);
            }
        }
        Ok(())
    }

    fn cell(&mut self, column: &Column, row: usize) -> Written {
        let name = &column.name;
        match column.cell(row) {
            None => {
                self.name(name, name)?;
                self.json.extend_from_slice(b"null");
            }
            Some(text) if !column.kind.is_json() => self.bytes(name, name, text)?,
            Some(number) if number.ends_with(b"NaN") || number.ends_with(b"inf") => {
                return Err(not_json(name, &String::from_utf8_lossy(number)));
            }
            Some(number) => {
                self.name(name, name)?;
                self.json.extend_from_slice(number);
            }
        }
        Ok(())
    }

    /// Writes a field of a whole row, without the columns of the key in it.
    fn field(&mut self, path: &str, name: &str, field: &Field, keys: &[&str]) -> Written {
        match field {
            _ if keys.contains(&path) => Ok(()),
            Field::Bytes(bytes) => self.bytes(path, name, bytes.data()),
            field => {
                self.name(path, name)?;
                write_field(path, field, keys, self.json)
            }
        }
    }
}

fn not_json(path: &str, number: &str) -> String {
    format!("column {path} is {number}, which JSON has not; --value chooses one column, as text")
}

fn write_field(path: &str, field: &Field, keys: &[&str], json: &mut Vec<u8>) -> Written {
    match field {
        Field::Group(row) => {
            let mut object = Object::begin(json);
            for (name, field) in row.get_column_iter() {
                object.field(&format!("{path}.{name}"), name, field, keys)?;
            }
            object.end();
        }
        Field::ListInternal(list) => {
            json.push(b'[');
            for (index, element) in list.elements().iter().enumerate() {
                if index > 0 {
                    json.push(b',');
                }
                write_field(path, element, keys, json)?;
            }
            json.push(b']');
        }
        Field::MapInternal(map) => {
            let mut object = Object::begin(json);
            for (key, value) in map.entries() {
                let mut name = Vec::new();
                write_field(path, key, keys, &mut name)?;
                let text: Option<String> = serde_json::from_slice(&name).ok();
                let name = text.unwrap_or_else(|| String::from_utf8_lossy(&name).into_owned());
                object.field(path, &name, value, &[])?;
            }
            object.end();
        }
        Field::Float(number) if !number.is_finite() => return Err(not_json(path, &number.to_string())),
        Field::Double(number) if !number.is_finite() => return Err(not_json(path, &number.to_string())),
        Field::Float16(number) if !number.is_finite() => return Err(not_json(path, &number.to_string())),
        Field::Float(number) => serde_json::to_writer(json, number).expect("a number is JSON, a Vec takes every write"),
        other => {
            serde_json::to_writer(json, &other.to_json_value()).expect("a value is JSON and a Vec takes every write");
        }
    }
    Ok(())
}

impl Source for Parquet {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if self.given == self.batch && !self.next_batch()? {
            return Ok(Row::End);
        }
        let row = self.given;
        self.given += 1;
        self.number += 1;
        // Without a copy, if one column is the key and one the value.
        if matches!(self.value, Value::Column)
            && self.columns.iter().all(|column| column.cells[row].is_some())
            && self.columns.len() == 2
        {
            let cell = |column: usize| self.columns[column].cell(row).unwrap_or_default();
            return Ok(Row::Pair(Pair { key: cell(0), value: cell(1) }, self.number));
        }
        match self.pair(row)? {
            Ok(()) => Ok(Row::Pair(self.scratch.pair(), self.number)),
            Err(what) => {
                Ok(Row::Bad(BadRow { place: format!("{}: row {}", self.name, self.number), what, goes_on: true }))
            }
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    /// Estimated from the share of rows, because the bytes of columns are interleaved.
    fn taken_bytes(&self) -> u64 {
        let share = self.number as f64 / self.rows_total.max(1) as f64;
        ((self.file_bytes as f64 * share) as u64).min(self.file_bytes)
    }

    fn columns(&self) -> Option<String> {
        Some(self.picked.describe())
    }
}

/// One column, and a batch of its cells as text.
struct Column {
    name: String,
    index: usize,
    kind: Kind,
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
        let kind = Kind::of(column).map_err(|what| refused(file, &name, &what))?;
        Ok(Self {
            name,
            index,
            kind,
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
        let Self { reader, levels, bytes, cells, defined, kind, .. } = self;
        let mut batch = Batch { levels, bytes, cells, defined: *defined, count };
        match reader {
            Some(ColumnReader::BoolColumnReader(reader)) => batch.read(reader, |value, text| kind.bool(*value, text)),
            Some(ColumnReader::Int32ColumnReader(reader)) => batch.read(reader, |value, text| kind.int32(*value, text)),
            Some(ColumnReader::Int64ColumnReader(reader)) => batch.read(reader, |value, text| kind.int64(*value, text)),
            Some(ColumnReader::Int96ColumnReader(reader)) => batch.read(reader, |value, text| kind.int96(value, text)),
            Some(ColumnReader::FloatColumnReader(reader)) => batch.read(reader, |value, text| kind.float(*value, text)),
            Some(ColumnReader::DoubleColumnReader(reader)) => {
                batch.read(reader, |value, text| kind.double(*value, text))
            }
            Some(ColumnReader::ByteArrayColumnReader(reader)) => {
                batch.read(reader, |value, text| kind.bytes(value, text))
            }
            Some(ColumnReader::FixedLenByteArrayColumnReader(reader)) => {
                batch.read(reader, |value, text| kind.bytes(value, text))
            }
            None => Ok(0),
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

/// Writes a file with the columns `key` and `value`, a row group at a time.
pub struct Writer {
    file: SerializedFileWriter<Vec<u8>>,
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    bytes: usize,
}

impl Writer {
    /// Marks a column that is text as text, so that other programs show it as such.
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
        // 48: what a cell takes in addition to its bytes.
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
        // LZO, which no crate supports.
        Ok(Err(ParquetError::NYI(what))) => {
            Err(Failure::usage(format_args!("{name}: this Parquet is not read: {what}")))
        }
        Ok(read) => read.map_err(|error| damaged(name, &error.to_string())),
        Err(_) => Err(damaged(name, "its contents make the reader fail")),
    }
}

fn refused(file: &str, column: &str, is: &str) -> Failure {
    Failure::usage(format_args!("{file}: column {column} is {is}"))
}

fn damaged(name: &str, what: &str) -> Failure {
    Failure::of_kind(ErrorKind::Corrupt, format_args!("{name}: cannot be read as Parquet: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{BoolType, DoubleType, FixedLenByteArrayType, Int32Type, Int64Type, Int96, Int96Type};

    /// Writes a column's values, none of them null.
    type WriteColumn<'w> = Box<dyn Fn(&mut parquet::file::writer::SerializedColumnWriter<'_>) + 'w>;

    fn column<'w, T: DataType>(values: &'w [T::T], levels: Option<&'w [i16]>) -> WriteColumn<'w> {
        Box::new(move |column| {
            column.typed::<T>().write_batch(values, levels, None).unwrap();
        })
    }

    fn file(schema: &str, compression: Compression, columns: &[WriteColumn<'_>]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let properties = WriterProperties::builder().set_compression(compression).build();
        let mut writer = SerializedFileWriter::new(file.reopen().unwrap(), schema, Arc::new(properties)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for write in columns {
            let mut column = group.next_column().unwrap().unwrap();
            write(&mut column);
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        file
    }

    fn rows(
        file: &tempfile::NamedTempFile,
        key: &str,
        value: Option<&str>,
    ) -> std::result::Result<Vec<String>, String> {
        let column = |name: &str| crate::format::options::parse_column(name).unwrap();
        let reading = Reading { key: vec![column(key)], value: value.map(column), ..Reading::default() };
        let open = Parquet::open(file.path(), &reading);
        let mut parquet = open.map_err(|failure| format!("{failure:?}"))?;
        let mut rows = Vec::new();
        loop {
            match parquet.next_row().map_err(|failure| format!("{failure:?}"))? {
                Row::Pair(pair, _) => {
                    let text = |bytes| String::from_utf8_lossy(bytes);
                    rows.push(format!("{} {}", text(pair.key), text(pair.value)));
                }
                Row::Bad(bad) => rows.push(bad.what),
                Row::Entry(entry, _) => panic!("{entry:?}"),
                Row::Interrupted | Row::End => return Ok(rows),
            }
        }
    }

    #[test]
    fn numbers_that_json_has_not_are_bad_rows_and_text_as_a_value() {
        let schema = "message m { REQUIRED INT32 id; REQUIRED DOUBLE x; REQUIRED BOOLEAN b; }";
        let numbers = [0.1, f64::NAN, f64::NEG_INFINITY];
        let columns = || {
            [
                column::<Int32Type>(&[1, 2, 3], None),
                column::<DoubleType>(&numbers, None),
                column::<BoolType>(&[true, false, true], None),
            ]
        };
        let file = file(schema, Compression::UNCOMPRESSED, &columns());
        let what = |number| format!("column x is {number}, which JSON has not; --value chooses one column, as text");
        let expected = ["1 {\"x\":0.1,\"b\":true}".to_owned(), what("NaN"), what("-inf")];
        assert_eq!(rows(&file, "id", None).unwrap(), expected);
        assert_eq!(rows(&file, "id", Some("x")).unwrap(), ["1 0.1", "2 NaN", "3 -inf"]);
        assert_eq!(rows(&file, "id", Some("b")).unwrap(), ["1 true", "2 false", "3 true"]);
        assert!(rows(&file, "x", Some("id")).unwrap_err().contains("column x is a floating-point number; keys are"));
    }

    #[test]
    fn int96_keeps_its_nanoseconds_or_is_refused_by_name() {
        let time = [Int96::from(vec![1, 0, 2_440_588])];
        let columns =
            || [column::<Int32Type>(&[1], None), column::<Int32Type>(&[2], None), column::<Int96Type>(&time, None)];
        let flat = "message m { REQUIRED INT32 id; REQUIRED INT32 n; REQUIRED INT96 t; }";
        let file_of = |schema| file(schema, Compression::UNCOMPRESSED, &columns());
        let expected = ["1 {\"n\":2,\"t\":\"1970-01-01 00:00:00.000000001 +00:00\"}"];
        assert_eq!(rows(&file_of(flat), "id", None).unwrap(), expected);
        let nested =
            file_of("message m { REQUIRED INT32 id; REQUIRED INT32 n; REQUIRED group s { REQUIRED INT96 t; } }");
        assert!(rows(&nested, "id", None).unwrap_err().contains("column s.t is INT96 within a list or struct"));
        assert_eq!(rows(&nested, "id", Some("s.t")).unwrap(), ["1 1970-01-01 00:00:00.000000001 +00:00"]);
    }

    #[test]
    fn a_field_of_a_struct_is_a_key_and_leaves_the_json() {
        let schema =
            "message m { REQUIRED INT32 n; OPTIONAL group s { REQUIRED BYTE_ARRAY a (STRING); REQUIRED INT64 b; } }";
        let text = [ByteArray::from("x")];
        let columns = [
            column::<Int32Type>(&[1, 2], None),
            column::<ByteArrayType>(&text, Some(&[1, 0])),
            column::<Int64Type>(&[7], Some(&[1, 0])),
        ];
        let file = file(schema, Compression::UNCOMPRESSED, &columns);
        assert_eq!(rows(&file, "s.a", None).unwrap(), ["x {\"n\":1,\"s\":{\"b\":7}}", "column s.a is null"]);
    }

    #[test]
    fn a_list_a_map_or_a_struct_named_as_a_column_is_refused_as_what_it_is() {
        let schema = "message m { REQUIRED INT32 id; OPTIONAL group tags (LIST) { REPEATED group list { REQUIRED INT32 \
                      element; } } OPTIONAL group s { REQUIRED INT32 a; OPTIONAL group m (MAP) { REPEATED group \
                      key_value { REQUIRED INT32 key; REQUIRED INT32 value; } } } }";
        let column = || column::<Int32Type>(&[], None);
        let file = file(schema, Compression::UNCOMPRESSED, &[column(), column(), column(), column(), column()]);
        for (name, what) in [
            ("tags", "is a list and no single column; only the JSON of all columns"),
            ("tags.list", "is a list and"),
            ("s.m", "is a map and"),
            ("s", "is a struct and no single column; its fields are \\\"s.a\\\", \\\"s.m\\\""),
        ] {
            for (key, value) in [("id", name), (name, "id")] {
                let refused = rows(&file, key, Some(value)).unwrap_err();
                assert!(refused.contains(what), "{name}: {refused}");
            }
        }
        assert!(rows(&file, "id", Some("t")).unwrap_err().contains("no column"));
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let columns =
            || [column::<Int32Type>(&[1], None), column::<Int32Type>(&[2], None), column::<Int32Type>(&[3], None)];
        let alike = file(
            "message m { REQUIRED INT32 id; REQUIRED INT32 x; REQUIRED INT32 x; }",
            Compression::UNCOMPRESSED,
            &columns(),
        );
        assert!(rows(&alike, "id", None).unwrap_err().contains("columns 2 and 3 are both called \\\"x\\\""));
        assert!(rows(&alike, "x", None).unwrap_err().contains("columns 2 and 3 are both called \\\"x\\\""));
        assert_eq!(rows(&alike, "1", Some("3")).unwrap(), ["1 3"]);
        let nested = "message m { REQUIRED INT32 id; REQUIRED group s { REQUIRED INT32 x; REQUIRED INT32 x; } }";
        let nested = file(nested, Compression::UNCOMPRESSED, &columns());
        assert!(rows(&nested, "id", None).unwrap_err().contains("both called \\\"s.x\\\""));
    }

    #[test]
    fn base64_takes_the_name_of_no_other_column() {
        let schema = "message m { REQUIRED INT32 id; REQUIRED BYTE_ARRAY a; REQUIRED INT32 a_base64; }";
        let bytes = [ByteArray::from(vec![0xff]), ByteArray::from("x")];
        let columns = [
            column::<Int32Type>(&[1, 2], None),
            column::<ByteArrayType>(&bytes, None),
            column::<Int32Type>(&[3, 4], None),
        ];
        let rows = rows(&file(schema, Compression::UNCOMPRESSED, &columns), "id", None).unwrap();
        assert!(rows[0].contains("the name \"a_base64\" would be there twice"), "{rows:?}");
        assert_eq!(rows[1], "2 {\"a\":\"x\",\"a_base64\":4}");
    }

    #[test]
    fn a_file_with_more_or_fewer_rows_than_it_says_is_damaged() {
        let ids: Vec<i32> = (0..77).collect();
        let columns = || [column::<Int32Type>(&ids, None), column::<Int32Type>(&ids, None)];
        let schema = "message m { REQUIRED INT32 id; REQUIRED INT32 n; }";
        // Thrift: a field that follows the previous one and has 64 bits; 77 as a zigzag varint; the next field.
        let (of_group, of_file) = (b"\x16\x9a\x01\x26", b"\x16\x9a\x01\x19");
        for (place, rows_said, what) in [
            (of_group, b"\x98\x01", "row group 1 has more rows than it says"),
            (of_group, b"\x80\x00", "row group 1 has more rows than it says"),
            (of_group, b"\x9c\x01", "row group 1 ends before its 78 last rows"),
            (of_group, b"\x81\x00", "cannot be read as Parquet"),
            (of_file, b"\x98\x01", "it says 76 rows, but has 77 rows"),
            (of_file, b"\x9c\x01", "it says 78 rows, but has 77 rows"),
            (of_file, b"\x81\x00", "cannot be read as Parquet"),
        ] {
            let file = file(schema, Compression::UNCOMPRESSED, &columns());
            assert_eq!(rows(&file, "id", Some("n")).unwrap().len(), 77);
            let mut bytes = std::fs::read(file.path()).unwrap();
            let at = memchr::memmem::rfind(&bytes, place).unwrap();
            bytes[at + 1..at + 3].copy_from_slice(rows_said);
            std::fs::write(file.path(), bytes).unwrap();
            for value in [Some("n"), None] {
                let found = rows(&file, "id", value).unwrap_err();
                assert!(found.contains(what), "{rows_said:?}: {found}");
            }
        }
    }

    #[test]
    fn every_codec_is_read() {
        for compression in [
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::BROTLI(Default::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
            Compression::ZSTD(Default::default()),
        ] {
            let schema = "message m { REQUIRED INT32 id; REQUIRED FIXED_LEN_BYTE_ARRAY(2) v; }";
            let value = [ByteArray::from("ab").into()];
            let columns = [column::<Int32Type>(&[1], None), column::<FixedLenByteArrayType>(&value, None)];
            assert_eq!(rows(&file(schema, compression, &columns), "id", None).unwrap(), ["1 ab"], "{compression:?}");
        }
    }
}
