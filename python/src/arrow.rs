//! Arrow columns in and out, by the C data interface and its capsules.
//!
//! pandas, Polars, pyarrow, DuckDB and others hand over tables as `__arrow_c_stream__` and arrays as
//! `__arrow_c_array__`. Both are structures of C with a release function; a capsule of the right name owns one. What is
//! behind the pointers is the producer's promise, as for every user of the interface.
//!
//! Source: the Arrow PyCapsule interface.
#![expect(unsafe_code, reason = "the structures of the C data interface come as pointers")]

use crate::error::{invalid, wrong_type};
use crate::handle::Handle;
use crate::scan::Pairs;
use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray,
    RecordBatch, RecordBatchReader, StringArray, StringViewArray, make_array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use splitpoint::linear::Position;
use splitpoint::{Dictionary, Table};
use std::ffi::CStr;
use std::sync::Arc;

const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// Whether `object` hands over a table or a stream of record batches.
pub fn has_stream(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.hasattr("__arrow_c_stream__")
}

/// The record batches of `object`.
///
/// # Errors
/// Those of its `__arrow_c_stream__`; `TypeError` where that gives no table.
pub fn import_stream(object: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let stream: *mut FFI_ArrowArrayStream = pointer(&capsule, STREAM)?;
    // SAFETY: the capsule has the name that the interface gives to a stream, and owns one; it is moved out, so that
    // the capsule's destructor finds a released one.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream) };
    reader.map_err(|error| wrong_type(format!("the Arrow stream is no table: {error}")))
}

/// The arrays of `object`: of one, or of a stream of arrays.
///
/// # Errors
/// Those of its `__arrow_c_array__` or `__arrow_c_stream__`; `TypeError` for a type without bytes.
pub fn import_columns(object: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
    if !object.hasattr("__arrow_c_array__")? {
        return import_chunks(object);
    }
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = object.call_method0("__arrow_c_array__")?.extract()?;
    let schema: *mut FFI_ArrowSchema = pointer(&schema, SCHEMA)?;
    let array: *mut FFI_ArrowArray = pointer(&array, ARRAY)?;
    // SAFETY: the capsule has the name that the interface gives to an array, and owns one; it is moved out, so that
    // the capsule's destructor finds a released one.
    let array = unsafe { FFI_ArrowArray::from_raw(array) };
    // SAFETY: the capsule has the name that the interface gives to a schema and lives until the end of this function.
    let schema = unsafe { &*schema };
    // SAFETY: the producer promises that the array has the layout of the schema.
    let data = unsafe { from_ffi(array, schema) }.map_err(|error| wrong_type(format!("the Arrow array: {error}")))?;
    Ok(vec![Column::of(make_array(data), "keys")?])
}

/// The arrays of a stream of arrays, which are the chunks of a column.
fn import_chunks(object: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
    let py = object.py();
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let stream: *mut FFI_ArrowArrayStream = pointer(&capsule, STREAM)?;
    // SAFETY: the capsule has the name that the interface gives to a stream, and owns one; it is moved out, so that
    // the capsule's destructor finds a released one.
    let reader = unsafe { ArrayStreamReader::from_raw(stream) };
    let failed = |error| invalid(format!("the Arrow stream: {error}"));
    let mut reader = reader.map_err(failed)?;
    let mut columns = Vec::new();
    while let Some(array) = py.detach(|| reader.next()) {
        columns.push(Column::of(array.map_err(failed)?, "keys")?);
        py.check_signals()?;
    }
    Ok(columns)
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| wrong_type("the Arrow interface gave no capsule"))?;
    Ok(capsule.pointer_checked(Some(name))?.as_ptr().cast())
}

/// A column of byte strings.
pub enum Column {
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    FixedSizeBinary(FixedSizeBinaryArray),
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    /// Numbers of the rows of another column; `None` for null.
    Dictionary {
        rows: Vec<Option<usize>>,
        values: Box<Column>,
    },
    /// As many nulls.
    Null(usize),
}

impl Column {
    /// # Errors
    /// `TypeError` for a column `name` whose type has no bytes.
    pub fn of(array: ArrayRef, name: &str) -> PyResult<Self> {
        Ok(match array.data_type() {
            DataType::Binary => Column::Binary(array.as_binary().clone()),
            DataType::LargeBinary => Column::LargeBinary(array.as_binary().clone()),
            DataType::BinaryView => Column::BinaryView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Column::FixedSizeBinary(array.as_fixed_size_binary().clone()),
            DataType::Utf8 => Column::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Column::LargeText(array.as_string().clone()),
            DataType::Utf8View => Column::TextView(array.as_string_view().clone()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let rows = dictionary.normalized_keys();
                let valid = |(index, row): (usize, usize)| dictionary.keys().is_valid(index).then_some(row);
                let rows = rows.into_iter().enumerate().map(valid).collect();
                Column::Dictionary { rows, values: Box::new(Column::of(dictionary.values().clone(), name)?) }
            }
            DataType::Null => Column::Null(array.len()),
            other => {
                return Err(wrong_type(format!(
                    "{name} are of type {other}: keys and values are bytes; cast the column to binary or string"
                )));
            }
        })
    }

    pub fn len(&self) -> usize {
        match self {
            Column::Binary(array) => array.len(),
            Column::LargeBinary(array) => array.len(),
            Column::BinaryView(array) => array.len(),
            Column::FixedSizeBinary(array) => array.len(),
            Column::Text(array) => array.len(),
            Column::LargeText(array) => array.len(),
            Column::TextView(array) => array.len(),
            Column::Dictionary { rows, .. } => rows.len(),
            Column::Null(len) => *len,
        }
    }

    /// The bytes of row `index`; `None` for null.
    #[inline]
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        match self {
            Column::Binary(array) => array.is_valid(index).then(|| array.value(index)),
            Column::LargeBinary(array) => array.is_valid(index).then(|| array.value(index)),
            Column::BinaryView(array) => array.is_valid(index).then(|| array.value(index)),
            Column::FixedSizeBinary(array) => array.is_valid(index).then(|| array.value(index)),
            Column::Text(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Column::LargeText(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Column::TextView(array) => array.is_valid(index).then(|| array.value(index).as_bytes()),
            Column::Dictionary { rows, values } => rows[index].and_then(|row| values.value(row)),
            Column::Null(_) => None,
        }
    }
}

/// Which column of `schema` has the keys or values: by name, else number `default`.
pub fn column_number(schema: &Schema, name: Option<&str>, default: usize) -> PyResult<usize> {
    let names = || schema.fields().iter().map(|field| format!("{:?}", field.name())).collect::<Vec<_>>().join(", ");
    match name {
        Some(name) => schema.index_of(name).map_err(|_| invalid(format!("no column {name:?}, there are {}", names()))),
        None if default < schema.fields().len() => Ok(default),
        None => Err(invalid(format!("a column of keys and one of values are needed, there are {}", names()))),
    }
}

/// An array as the two capsules of the interface.
pub fn export_array<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(invalid)?;
    // Both structures release what they own when they are dropped, unless a consumer has moved it out.
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    PyTuple::new(py, [schema, array])
}

/// Record batches as the capsule of the interface.
fn export_stream(py: Python<'_>, batches: impl RecordBatchReader + Send + 'static) -> PyResult<Bound<'_, PyAny>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    Ok(PyCapsule::new_with_value(py, stream, STREAM)?.into_any())
}

/// Pairs of a batch that is handed over, and bytes of it, unless one pair has more.
const BATCH_PAIRS: usize = 1 << 16;
const BATCH_BYTES: usize = 8 << 20;

/// Reads the pairs that come next: `false` at the end.
type Fill = Box<dyn FnMut(&mut Columns) -> Result<bool, ArrowError> + Send>;

/// The pairs of a table or a dictionary as record batches.
struct Batches {
    schema: SchemaRef,
    fill: Fill,
    ended: bool,
}

/// The two columns of a batch.
struct Columns {
    keys: LargeBinaryBuilder,
    values: LargeBinaryBuilder,
    bytes: usize,
}

impl Columns {
    fn push(&mut self, (key, value): (&[u8], &[u8])) {
        self.keys.append_value(key);
        self.values.append_value(value);
        self.bytes += key.len() + value.len();
    }

    fn is_full(&self) -> bool {
        use arrow_array::builder::ArrayBuilder;
        self.keys.len() >= BATCH_PAIRS || self.bytes >= BATCH_BYTES
    }
}

impl Batches {
    fn new(fill: Fill) -> Self {
        let field = |name: &str| Field::new(name, DataType::LargeBinary, false);
        Batches { schema: Arc::new(Schema::new(vec![field("key"), field("value")])), fill, ended: false }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut columns = Columns { keys: LargeBinaryBuilder::new(), values: LargeBinaryBuilder::new(), bytes: 0 };
        while !self.ended && !columns.is_full() {
            match (self.fill)(&mut columns) {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        if columns.bytes == 0 && self.ended && arrow_array::builder::ArrayBuilder::is_empty(&columns.keys) {
            return None;
        }
        let arrays: Vec<ArrayRef> = vec![Arc::new(columns.keys.finish()), Arc::new(columns.values.finish())];
        Some(RecordBatch::try_new(self.schema.clone(), arrays))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn arrow_error(error: splitpoint::Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// The pairs of a table in hash order, as a stream that reads them as they are asked for.
pub fn export_table(py: Python<'_>, handle: Arc<Handle<Table>>) -> PyResult<Bound<'_, PyAny>> {
    let (mut pairs, mut cursor) = (Pairs::default(), Some(0));
    export_stream(
        py,
        Batches::new(Box::new(move |columns| {
            let Some(from) = cursor else { return Ok(false) };
            let closed = || ArrowError::IpcError(format!("{} is closed", handle.name()));
            pairs.read(&*handle.wait().ok_or_else(closed)?, from).map_err(arrow_error)?;
            (0..pairs.len()).for_each(|index| columns.push(pairs.pair(index)));
            cursor = pairs.len().checked_sub(1).and_then(|last| pairs.cursor_after(last));
            Ok(cursor.is_some())
        })),
    )
}

/// The pairs of a dictionary in hash order, as a stream that reads them as they are asked for.
pub fn export_dictionary(py: Python<'_>, dictionary: Arc<Dictionary>) -> PyResult<Bound<'_, PyAny>> {
    let mut walk = crate::walk::Walk::within(dictionary, 0..=u64::MAX);
    export_stream(
        py,
        Batches::new(Box::new(move |columns| {
            while !columns.is_full() {
                if !walk.next(|pair| columns.push(pair)).map_err(arrow_error)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })),
    )
}

/// One of `parts` equal parts of hash order, of a dictionary in one file: its pairs as a stream that reads them as they
/// are asked for.
pub fn export_part(py: Python<'_>, dictionary: Arc<Dictionary>, part: u64, parts: u64) -> PyResult<Bound<'_, PyAny>> {
    /// Cursors of a scan of one file are this many first bits of a position.
    const CURSOR_BITS: u32 = 49;
    let bound = |part: u64| ((u128::from(part) << CURSOR_BITS) / u128::from(parts)) as u64; // at most 2^49
    let (end, mut cursor) = (bound(part + 1), bound(part));
    let hash = dictionary.hash().clone();
    let is_mine = move |key: &[u8]| Position::of(hash.hash(key)).0 >> (u64::BITS - CURSOR_BITS) < end;
    export_stream(
        py,
        Batches::new(Box::new(move |columns| {
            let take = |key: &[u8], value: &[u8]| {
                if is_mine(key) {
                    columns.push((key, value));
                }
            };
            // Behind the last pair the cursor is 0 again.
            cursor = dictionary.scan(cursor, BATCH_PAIRS, take).map_err(arrow_error)?;
            Ok(cursor != 0 && cursor < end)
        })),
    )
}
