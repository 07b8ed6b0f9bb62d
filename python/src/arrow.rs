//! Import and export of Arrow columns through the C data interface and its capsules.
//!
//! pandas, Polars, pyarrow, DuckDB and others export tables by `__arrow_c_stream__` and arrays by `__arrow_c_array__`.
//! Both are C structures with a release function; a capsule with the right name owns one. As for every user of the
//! interface, the producer guarantees that the pointers are valid.
//!
//! Source: the Arrow PyCapsule interface.
#![expect(unsafe_code, reason = "the structures of the C data interface come as pointers")]

use crate::bytes::Bytes;
use crate::error::{invalid, wrong_type};
use crate::handle::Handle;
use crate::scan::Pairs;
use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray, LargeStringArray,
    RecordBatch, RecordBatchReader, StringArray, StringViewArray, make_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use splitpoint::{Dictionary, Table};
use std::ffi::{CStr, c_void};
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The name of a capsule, and the words before the release function of the structure in it.
type Kind = (&'static CStr, usize);

const STREAM: Kind = (c"arrow_array_stream", 3);
const ARRAY: Kind = (c"arrow_array", 8);
const SCHEMA: Kind = (c"arrow_schema", 7);

/// Whether `object` exports a table, a batch or a stream of record batches.
pub fn has_tables(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.hasattr("__arrow_c_stream__")? || object.hasattr("__arrow_c_array__")?)
}

/// One array, or the arrays of a stream: of a column, or of a table, whose rows are structs.
pub struct Arrays {
    schema: FFI_ArrowSchema,
    source: Source,
}

enum Source {
    Stream(FFI_ArrowArrayStream),
    /// `None` after it was returned.
    One(Option<FFI_ArrowArray>),
}

/// Why a stream ended early: the producer's number and message.
struct Failed {
    code: i32,
    message: String,
}

impl Failed {
    /// `KeyboardInterrupt`, `SystemExit` or `MemoryError` where the producer's message names one, else a `ValueError`.
    fn exception(self, py: Python<'_>) -> PyErr {
        let make = || py.import("splitpoint.errors")?.getattr("of_stream")?.call1((self.code, self.message));
        py.check_signals().err().unwrap_or_else(|| make().map_or_else(|failed| failed, PyErr::from_value))
    }
}

impl Arrays {
    /// # Errors
    /// The errors of `object`'s `__arrow_c_array__` or `__arrow_c_stream__`.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !object.hasattr("__arrow_c_array__")? {
            return Self::of_stream(object);
        }
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            object.call_method0("__arrow_c_array__")?.extract()?;
        let schema: *mut FFI_ArrowSchema = pointer(&schema, SCHEMA)?;
        let array: *mut FFI_ArrowArray = pointer(&array, ARRAY)?;
        // SAFETY: the capsule has the interface's name for a schema, and owns one; it is moved out, so that the
        // capsule's destructor finds a released one.
        let schema = unsafe { FFI_ArrowSchema::from_raw(schema) };
        // SAFETY: as above, for an array.
        let array = unsafe { FFI_ArrowArray::from_raw(array) };
        Ok(Arrays { schema, source: Source::One(Some(array)) })
    }

    /// No arrays, with a schema of pyarrow: to check its columns before anything is read.
    pub fn none_of(schema: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = schema.call_method0("__arrow_c_schema__")?;
        let schema: *mut FFI_ArrowSchema = pointer(&capsule, SCHEMA)?;
        // SAFETY: the capsule has the interface's name for a schema, and owns one; it is moved out, so that the
        // capsule's destructor finds a released one.
        let schema = unsafe { FFI_ArrowSchema::from_raw(schema) };
        Ok(Arrays { schema, source: Source::One(None) })
    }

    fn of_stream(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let capsule = object.call_method0("__arrow_c_stream__")?;
        let stream: *mut FFI_ArrowArrayStream = pointer(&capsule, STREAM)?;
        // SAFETY: the capsule has the interface's name for a stream, and owns one; it is moved out, so that the
        // capsule's destructor finds a released one.
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        let get_schema = stream.get_schema().ok_or_else(|| invalid("the Arrow stream was released"))?;
        let (schema, failed) = py.detach(|| {
            let mut schema = FFI_ArrowSchema::empty();
            // SAFETY: the function is the stream's own, and both pointers are valid for the call.
            let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
            (schema, (code != 0).then(|| failure(&mut stream, code)))
        });
        match failed {
            Some(failed) => Err(failed.exception(py)),
            None => Ok(Arrays { schema, source: Source::Stream(stream) }),
        }
    }

    /// The next array; `None` at the end. The producer acquires the interpreter lock if it needs it.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<ArrayRef>> {
        let array = match &mut self.source {
            Source::One(array) => Ok(array.take()),
            Source::Stream(stream) => py.detach(|| next_array(stream)),
        };
        let Some(mut array) = array.map_err(|failed| failed.exception(py))? else { return Ok(None) };
        drop_null_buffers(&mut array, &self.schema);
        // SAFETY: the producer promises that the array has the layout of the schema.
        let data = unsafe { from_ffi(array, &self.schema) };
        let data = data.map_err(|error| wrong_type(format!("the Arrow array: {error}")))?;
        Ok(Some(make_array(data)))
    }

    /// The schemas of the columns of a table.
    ///
    /// # Errors
    /// `TypeError` for arrays that are not tables.
    fn columns(&self) -> PyResult<Vec<&FFI_ArrowSchema>> {
        if self.schema.format() != "+s" {
            let format = self.schema.format();
            return Err(wrong_type(format!(
                "an Arrow array of the format {format:?} is not a table: expected two columns"
            )));
        }
        Ok(self.schema.children().collect())
    }

    /// The indexes of the columns with the keys and the values. A column that is not named is the first, the second, or
    /// the remaining one of two; with more columns both must be named, so that none is silently ignored.
    ///
    /// # Errors
    /// `ValueError` for a name that no column or several columns have, and for columns that are not named; `TypeError`
    /// for an unknown extension type.
    pub fn pair_numbers(&self, key: Option<&str>, value: Option<&str>) -> PyResult<(usize, usize)> {
        let columns = self.columns()?;
        let names: Vec<&str> = columns.iter().map(|column| column.name().unwrap_or_default()).collect();
        let listed = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let named = |name: &str| match names.iter().filter(|other| **other == name).count() {
            1 => Ok(names.iter().position(|other| *other == name).unwrap_or_default()),
            0 => Err(invalid(format!("no column {name:?}, there are {listed}"))),
            _ => Err(invalid(format!("several columns {name:?}, there are {listed}"))),
        };
        let (key, value) = (key.map(named).transpose()?, value.map(named).transpose()?);
        let numbers = match (key, value, names.len()) {
            (Some(key), Some(value), _) => (key, value),
            (None, None, 2) => (0, 1),
            (Some(key), None, 2) => (key, 1 - key),
            (None, Some(value), 2) => (1 - value, value),
            (_, _, 0 | 1) => {
                return Err(invalid(format!("a column of keys and one of values are needed, there are {listed}")));
            }
            (_, _, count) => {
                return Err(invalid(format!("{count} columns, {listed}: name the two to take by key= and value=")));
            }
        };
        for number in [numbers.0, numbers.1] {
            check_extension(columns[number], &format!("the {:?}", names[number]))?;
        }
        Ok(numbers)
    }

    /// The names of the columns of a table.
    pub fn column_names(&self) -> PyResult<Vec<String>> {
        Ok(self.columns()?.iter().map(|column| column.name().unwrap_or_default().to_owned()).collect())
    }
}

/// Extension types whose bytes are the value.
const KNOWN_EXTENSIONS: [&str; 2] = ["arrow.uuid", "arrow.json"];

/// Refuses other extension types, whose storage may be anything, such as the memory addresses of a Polars `Object`.
fn check_extension(schema: &FFI_ArrowSchema, name: &str) -> PyResult<()> {
    let metadata = schema.metadata().map_err(|error| wrong_type(format!("the Arrow schema: {error}")))?;
    if let Some(extension) = metadata.get("ARROW:extension:name")
        && !KNOWN_EXTENSIONS.contains(&extension.as_str())
    {
        return Err(wrong_type(format!(
            "{name} are of the extension type {extension:?}, whose bytes are not known to be the values: cast the \
             column to binary or string"
        )));
    }
    schema.dictionary().map_or(Ok(()), |values| check_extension(values, name))
}

fn failure(stream: &mut FFI_ArrowArrayStream, code: i32) -> Failed {
    let message = stream.get_last_error().and_then(|get_last_error| {
        // SAFETY: the function is the stream's own.
        let message = unsafe { get_last_error(stream) };
        // SAFETY: the producer promises NULL or a string that lives until the next call on the stream.
        (!message.is_null()).then(|| unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
    });
    Failed { code, message: message.unwrap_or_else(|| std::io::Error::from_raw_os_error(code).to_string()) }
}

fn next_array(stream: &mut FFI_ArrowArrayStream) -> Result<Option<FFI_ArrowArray>, Failed> {
    let Some(get_next) = stream.get_next() else { return Ok(None) };
    let mut array = FFI_ArrowArray::empty();
    // SAFETY: the function is the stream's own, and both pointers are valid for the call.
    match unsafe { get_next(stream, &raw mut array) } {
        0 => Ok((!array.is_released()).then_some(array)),
        code => Err(failure(stream, code)),
    }
}

/// The fields of the C data interface that are private in Arrow's type.
#[repr(C)]
struct RawArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut RawArray,
    dictionary: *mut RawArray,
    release: *mut c_void,
    private_data: *mut c_void,
}

const _: () = assert!(size_of::<RawArray>() == size_of::<FFI_ArrowArray>(), "both are the struct of the C interface");

/// Sets the number of buffers of null columns to 0, as the interface requires. Polars reports one.
fn drop_null_buffers(array: &mut FFI_ArrowArray, schema: &FFI_ArrowSchema) {
    let count = array.num_children();
    let raw: *mut RawArray = std::ptr::from_mut(array).cast();
    if schema.format() == "n" {
        // SAFETY: the struct has the layout of the C interface, see the assertion above.
        unsafe { (*raw).n_buffers = 0 };
    }
    for (index, _) in schema.children().take(count).enumerate().filter(|(_, child)| child.format() == "n") {
        // SAFETY: the producer promises that the array has `count` children, and `index` is smaller.
        let child = unsafe { *(*raw).children.add(index) };
        // SAFETY: as above; a child is an array.
        unsafe { (*child).n_buffers = 0 };
    }
}

/// Imports `object`, a column, as one array or several.
///
/// # Errors
/// The errors of its `__arrow_c_array__` or `__arrow_c_stream__`; `TypeError` for a type without bytes.
pub fn import_columns(object: &Bound<'_, PyAny>) -> PyResult<Vec<Column>> {
    let py = object.py();
    let mut arrays = Arrays::of(object)?;
    check_extension(&arrays.schema, "keys")?;
    let mut columns = Vec::new();
    while let Some(array) = arrays.next(py)? {
        columns.push(Column::of(array, "keys")?);
        py.check_signals()?;
    }
    Ok(columns)
}

/// A column with the keys that `keys` iterates over; `None` becomes null.
pub fn column_of_items(keys: &Bound<'_, PyAny>) -> PyResult<Column> {
    let mut column = LargeBinaryBuilder::new();
    for key in keys.try_iter()? {
        let key = key?;
        match key.is_none() {
            true => column.append_null(),
            false => column.append_value(&*key.extract::<Bytes<'_>>()?),
        }
    }
    Ok(Column::LargeBinary(column.finish()))
}

/// The columns with the keys and the values of a batch of a table.
///
/// # Errors
/// `TypeError` for columns whose types have no bytes, with their names from `names`.
pub fn pair_columns(batch: &ArrayRef, numbers: (usize, usize), names: &[String]) -> PyResult<(Column, Column)> {
    let rows = batch.as_struct();
    let column = |number: usize| {
        let column = Column::of(Arc::clone(rows.column(number)), &format!("the {:?}", names[number]))?;
        PyResult::Ok(match rows.nulls() {
            Some(nulls) => Column::Masked { nulls: nulls.clone(), column: Box::new(column) },
            None => column,
        })
    };
    Ok((column(numbers.0)?, column(numbers.1)?))
}

/// The structure in a capsule.
///
/// # Errors
/// `ValueError` if another reader has moved it out.
fn pointer<T>(capsule: &Bound<'_, PyAny>, (name, words): Kind) -> PyResult<*mut T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| wrong_type("the Arrow interface gave no capsule"))?;
    let structure = capsule.pointer_checked(Some(name))?.as_ptr();
    // SAFETY: a capsule of this name has such a structure, whose release function is this word: null once it has been
    // moved out. Words before it are then not valid.
    if unsafe { *structure.cast::<usize>().add(words) } == 0 {
        return Err(invalid("the Arrow object has been read and has no rows left; export it again"));
    }
    Ok(structure.cast())
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
    /// Row numbers of another column; `None` for null.
    Dictionary {
        rows: Vec<Option<usize>>,
        values: Box<Column>,
    },
    /// A column of a table of which some rows are null.
    Masked {
        nulls: NullBuffer,
        column: Box<Column>,
    },
    /// This many nulls.
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
                if dictionary.values().is_empty() {
                    return Ok(Column::Null(array.len())); // without values, all rows are null
                }
                let rows = dictionary.normalized_keys();
                let valid = |(index, row): (usize, usize)| dictionary.keys().is_valid(index).then_some(row);
                let rows = rows.into_iter().enumerate().map(valid).collect();
                Column::Dictionary { rows, values: Box::new(Column::of(dictionary.values().clone(), name)?) }
            }
            DataType::Null => Column::Null(array.len()),
            DataType::Int8 => decimal::<Int8Type>(&array),
            DataType::Int16 => decimal::<Int16Type>(&array),
            DataType::Int32 => decimal::<Int32Type>(&array),
            DataType::Int64 => decimal::<Int64Type>(&array),
            DataType::UInt8 => decimal::<UInt8Type>(&array),
            DataType::UInt16 => decimal::<UInt16Type>(&array),
            DataType::UInt32 => decimal::<UInt32Type>(&array),
            DataType::UInt64 => decimal::<UInt64Type>(&array),
            other => {
                return Err(wrong_type(format!(
                    "{name} are of type {other}: keys and values are bytes, texts or integers; make texts of the \
                     column first"
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
            Column::Masked { column, .. } => column.len(),
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
            Column::Masked { nulls, column } => nulls.is_valid(index).then(|| column.value(index)).flatten(),
            Column::Null(_) => None,
        }
    }
}

/// Integers as decimal text, as `splitpoint load` and `splitpoint dict build` store those of Parquet.
fn decimal<T: ArrowPrimitiveType<Native: std::fmt::Display>>(array: &ArrayRef) -> Column {
    let mut texts = LargeStringBuilder::with_capacity(array.len(), 0);
    for number in array.as_primitive::<T>() {
        match number {
            None => texts.append_null(),
            Some(number) => {
                write!(texts, "{number}").expect("a builder takes every write");
                texts.append_value("");
            }
        }
    }
    Column::LargeText(texts.finish())
}

/// An array as the two capsules of the interface.
pub fn export_array<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(invalid)?;
    // Both structures release their contents when dropped, unless a consumer has moved them out.
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA.0)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY.0)?;
    PyTuple::new(py, [schema, array])
}

/// Record batches as the capsule of the interface.
fn export_stream(py: Python<'_>, batches: impl RecordBatchReader + Send + 'static) -> PyResult<Bound<'_, PyAny>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    Ok(PyCapsule::new_with_value(py, stream, STREAM.0)?.into_any())
}

/// The most pairs of an exported batch, and its most bytes, unless a single pair has more.
const BATCH_PAIRS: usize = 1 << 16;
const BATCH_BYTES: usize = 8 << 20;

/// Reads the next pairs; `false` at the end.
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

/// The pairs of a table in hash order, as a stream that reads them on demand.
pub fn export_table(py: Python<'_>, handle: Arc<Handle<Table>>) -> PyResult<Bound<'_, PyAny>> {
    let (mut pairs, mut cursor) = (Pairs::default(), Some(0));
    export_stream(
        py,
        Batches::new(Box::new(move |columns| {
            let Some(from) = cursor else { return Ok(false) };
            let closed = || ArrowError::IpcError(format!("{} is closed", handle.name()));
            pairs.read(&*handle.wait().ok_or_else(closed)?, from, crate::scan::PAIRS).map_err(arrow_error)?;
            (0..pairs.len()).for_each(|index| columns.push(pairs.pair(index)));
            cursor = pairs.len().checked_sub(1).and_then(|last| pairs.cursor_after(last));
            Ok(cursor.is_some())
        })),
    )
}

/// The pairs of a dictionary in hash order, as a stream that reads them on demand.
pub fn export_dictionary(py: Python<'_>, dictionary: Arc<Dictionary>) -> PyResult<Bound<'_, PyAny>> {
    export_positions(py, dictionary, 0..=u64::MAX)
}

/// The pairs of one of `parts` equal parts of hash order, `part` < `parts`, as a stream that reads them on demand.
pub fn export_part(py: Python<'_>, dictionary: Arc<Dictionary>, part: u64, parts: u64) -> PyResult<Bound<'_, PyAny>> {
    let start = |part: u64| (u128::from(part) << u64::BITS) / u128::from(parts); // at most 2^64
    export_positions(py, dictionary, start(part) as u64..=(start(part + 1) - 1) as u64)
}

fn export_positions(
    py: Python<'_>,
    dictionary: Arc<Dictionary>,
    positions: RangeInclusive<u64>,
) -> PyResult<Bound<'_, PyAny>> {
    let mut walk = crate::walk::Walk::within(dictionary, positions);
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
