//! A build whose repeated keys get one value, made of all of theirs by `"sum"` or a function.
//!
//! The pairs are first collected in a table in memory, which moves pages beyond `memory_bytes` to a temporary file, and
//! then given to the build.

use crate::bytes::Bytes;
use crate::error::invalid;
use crate::sources::Pair;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use splitpoint::dictionary::Build;
use splitpoint::{Table, TableOptions};

pub struct Merged {
    table: Table,
    merge: Merge,
    /// Why [`add`](Self::add) stopped.
    raised: Option<PyErr>,
}

enum Merge {
    /// Of integers as decimal text.
    Sum,
    /// `merge(earlier value, value)`.
    Call(Py<PyAny>),
}

impl Merged {
    pub fn new(merge: &Bound<'_, PyAny>, memory_bytes: u64) -> PyResult<Self> {
        let table = TableOptions::new().cache_bytes(memory_bytes).in_memory();
        let table = table.map_err(|error| crate::error::exception(merge.py(), &error))?;
        let merge = if merge.is_callable() { Merge::Call(merge.clone().unbind()) } else { Merge::Sum };
        Ok(Self { table, merge, raised: None })
    }

    /// Adds pairs; `false` if the values of a key cannot be merged.
    pub fn add(&mut self, pairs: &[Pair<'_>]) -> splitpoint::Result<bool> {
        for (key, value) in pairs {
            let value = value.unwrap_or_default();
            let Some(earlier) = self.table.get(key)? else {
                self.table.put(key, value)?;
                continue;
            };
            match self.merge.value(key, &earlier, value) {
                Ok(merged) => self.table.put(key, &merged)?,
                Err(error) => {
                    self.raised = Some(error);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Why [`add`](Self::add) returned `false`.
    pub fn raised(&mut self) -> PyResult<()> {
        self.raised.take().map_or(Ok(()), Err)
    }

    /// Passes all pairs to the build.
    pub fn push_to(&self, build: &mut Build) -> splitpoint::Result<()> {
        let mut pairs = self.table.scan();
        while let Some((key, value)) = pairs.next_ref()? {
            build.push(key, value)?;
        }
        Ok(())
    }
}

impl Merge {
    fn value(&self, key: &[u8], earlier: &[u8], value: &[u8]) -> PyResult<Vec<u8>> {
        match self {
            Merge::Sum => {
                let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse::<i128>().ok();
                let sum = number(earlier).zip(number(value)).and_then(|(a, b)| a.checked_add(b));
                sum.map(|sum| sum.to_string().into_bytes()).ok_or_else(|| {
                    let [key, earlier, value] = [key, earlier, value].map(|bytes| bytes.escape_ascii().to_string());
                    invalid(format!(
                        "duplicates is \"sum\", and the values of {key} have none: {earlier:.64} and {value:.64} are \
                         not both integers of at most 128 bits"
                    ))
                })
            }
            Merge::Call(merge) => Python::attach(|py| {
                let merged = merge.bind(py).call1((PyBytes::new(py, earlier), PyBytes::new(py, value)))?;
                let merged: Bytes<'_> = merged.extract()?;
                Ok(merged.to_vec())
            }),
        }
    }
}
