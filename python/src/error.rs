//! Converts errors of the library to Python exceptions.
//!
//! The classes are written in Python (`splitpoint/errors.py`), because each has two or three bases: `Error`, and the
//! built-in that a caller expects (`OSError`, `KeyError`, `ValueError`).

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use splitpoint::ErrorKind;
use std::error::Error as _;
use std::fmt::Display;

/// A result of the library or of Python.
pub trait OrRaise<T> {
    /// Turns an error into the exception for its kind.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for splitpoint::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}

/// The exception for an error of the library.
pub fn exception(py: Python<'_>, error: &splitpoint::Error) -> PyErr {
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    let errno = source.and_then(std::io::Error::raw_os_error);
    // Only builds have such errors.
    let hint = match error.kind() {
        ErrorKind::Duplicate => Some("Choose by duplicates=\"first\" or \"last\", or merge by \"sum\" or a function."),
        _ => error.hint(),
    };
    of_kind(py, error.kind().code(), error.message(), hint, errno)
}

/// The exception for the use of a closed handle; its kind 0 is the package's own.
pub fn closed(py: Python<'_>, what: &str) -> PyErr {
    of_kind(py, 0, &format!("{what} is closed"), Some("Open it again."), None)
}

fn of_kind(py: Python<'_>, kind: u8, message: &str, hint: Option<&str>, errno: Option<i32>) -> PyErr {
    let make = || py.import("splitpoint.errors")?.getattr("of_kind")?.call1((kind, message, hint, errno));
    make().map_or_else(|failed| failed, PyErr::from_value)
}

/// The exception that the function `maker` of `splitpoint/errors.py` makes of a message.
fn made(maker: &str, message: &str, hint: Option<&str>) -> PyErr {
    Python::attach(|py| {
        let make = || py.import("splitpoint.errors")?.getattr(maker)?.call1((message, hint));
        make().map_or_else(|failed| failed, PyErr::from_value)
    })
}

/// A `ValueError` for an argument that this package checks.
pub fn invalid(message: impl Display) -> PyErr {
    made("invalid", &message.to_string(), None)
}

/// A `TypeError` for an argument of a wrong type.
pub fn wrong_type(message: impl Display) -> PyErr {
    made("wrong_type", &message.to_string(), None)
}

/// An `IndexError`.
pub fn out_of_range(message: impl Display) -> PyErr {
    made("out_of_range", &message.to_string(), None)
}

/// A `ValueError` for a call that would wait for its own caller, the operation `within`.
pub fn in_use(message: &str, within: &str) -> PyErr {
    made("in_use", message, Some(&format!("Call it after that operation, not from {within}.")))
}

/// The `KeyError` of an absent key.
pub fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match CLASS.import(key.py(), "splitpoint.errors", "AbsentKeyError") {
        Ok(class) => PyErr::from_type(class.clone(), (key.clone().unbind(),)),
        Err(failed) => failed,
    }
}

/// Converts the `UnicodeEncodeError` `error` to this package's exception.
pub fn not_encodable(py: Python<'_>, error: PyErr) -> PyErr {
    let make = || py.import("splitpoint.errors")?.getattr("not_encodable")?.call1((error.value(py),));
    make().map_or_else(|failed| failed, PyErr::from_value)
}

/// The exception for pickling or copying a handle.
pub fn refuse_pickle(class: &str) -> PyErr {
    wrong_type(format!(
        "cannot pickle or copy a splitpoint.{class}: it belongs to this process. Pass its path, and open that in the \
         other process"
    ))
}
