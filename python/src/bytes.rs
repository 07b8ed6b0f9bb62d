//! Keys and values as Python passes them: bytes, str, bytearray or memoryview.
//!
//! `str` is encoded as UTF-8, as in `dbm`. Other buffers would need an interface that CPython 3.9's stable ABI lacks.

use crate::error::{not_encodable, wrong_type};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use std::borrow::Cow;
use std::ops::Deref;

/// The bytes of a key or value, borrowed if the object is `bytes`.
pub struct Bytes<'a>(Cow<'a, [u8]>);

impl Deref for Bytes<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyBytes>() {
            return Ok(Bytes(Cow::Borrowed(object.extract()?)));
        }
        other(object)
    }
}

fn other<'a>(object: Borrowed<'a, '_, PyAny>) -> PyResult<Bytes<'a>> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Bytes(Cow::Owned(
            text.to_cow().map_err(|error| not_encodable(object.py(), error))?.into_owned().into_bytes(),
        )));
    }
    if let Ok(array) = object.cast::<PyByteArray>() {
        return Ok(Bytes(Cow::Owned(array.to_vec())));
    }
    if object.cast::<PyMemoryView>().is_ok() {
        let bytes = object.call_method0("tobytes")?;
        return Ok(Bytes(Cow::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec())));
    }
    let class = object.get_type().name().map_or_else(|_| "this".into(), |name| name.to_string());
    Err(wrong_type(format!("keys and values are bytes or str, not {class}")))
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Bytes(Cow::Borrowed(bytes))
    }
}
