//! `Values`: the result of looking up an array of keys. One buffer holds all values; Arrow can use it without a copy.

use crate::arrow::export_array;
use crate::error::{invalid, out_of_range};
use crate::many::Found;
use arrow_array::{Array, LargeBinaryArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// The part of `splitpoint.Values` that is written in Rust.
#[pyclass(subclass, frozen, module = "splitpoint._splitpoint", sequence)]
pub struct ValuesCore(LargeBinaryArray);

/// The values that were found.
pub struct Values(LargeBinaryArray);

impl Values {
    pub fn new(found: Found) -> Self {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(found.offsets));
        let nulls = (!found.present.iter().all(|present| *present)).then(|| NullBuffer::from(found.present));
        Values(LargeBinaryArray::new(offsets, Buffer::from_vec(found.bytes), nulls))
    }

    pub fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let core = Bound::new(py, ValuesCore(self.0))?;
        py.import("splitpoint.values")?.getattr("Values")?.call1((core,))
    }
}

impl ValuesCore {
    fn value(&self, index: usize) -> Option<&[u8]> {
        self.0.is_valid(index).then(|| self.0.value(index))
    }
}

#[pymethods]
impl ValuesCore {
    #[new]
    fn new(values: &Bound<'_, ValuesCore>) -> Self {
        ValuesCore(values.get().0.clone()) // shares the buffers
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let len = self.0.len();
        let from_start = if index < 0 { index.checked_add_unsigned(len) } else { Some(index) };
        let found = from_start.and_then(|index| usize::try_from(index).ok()).filter(|&index| index < len);
        let index = found.ok_or_else(|| out_of_range(format!("index {index} of {len} values")))?;
        Ok(self.value(index).map(|value| PyBytes::new(py, value)))
    }

    /// For each key one byte: 1 if it was present.
    fn _present<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let present: Vec<u8> = (0..self.0.len()).map(|index| u8::from(self.0.is_valid(index))).collect();
        PyBytes::new(py, &present)
    }

    /// All values of `width` bytes, concatenated, with `missing` instead of absent ones.
    #[pyo3(signature = (width, missing, /))]
    fn _fixed<'py>(&self, py: Python<'py>, width: usize, missing: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let all_present = self.0.null_count() == 0;
        let other = (0..self.0.len()).find(|&index| self.value(index).is_some_and(|value| value.len() != width));
        if let Some(index) = other {
            let len = self.0.value(index).len();
            return Err(invalid(format!(
                "value {index} has {len} bytes, the dtype {width}: values of several lengths fit an Arrow array or a \
                 list, not a NumPy array"
            )));
        }
        let offsets = self.0.value_offsets();
        let used = offsets[0] as usize..offsets[self.0.len()] as usize;
        if all_present {
            return Ok(PyBytes::new(py, &self.0.value_data()[used]));
        }
        let mut fixed = Vec::with_capacity(self.0.len() * width);
        (0..self.0.len()).for_each(|index| fixed.extend_from_slice(self.value(index).unwrap_or(missing)));
        Ok(PyBytes::new(py, &fixed))
    }

    /// The length of the longest value.
    fn _longest(&self) -> usize {
        self.0.value_offsets().windows(2).map(|ends| (ends[1] - ends[0]) as usize).max().unwrap_or(0)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // a wish, which the interface allows to ignore
        export_array(py, &self.0)
    }
}
