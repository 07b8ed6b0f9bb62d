//! Batches: changes collected in Python and made atomically.

use crate::bytes::Bytes;
use crate::error::{OrRaise, invalid, refuse_pickle};
use crate::table::TableCore;
use parking_lot::Mutex;
use pyo3::prelude::*;
use splitpoint::{Durability, Table};

enum Change {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Insert(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

/// Changes of a table that are made atomically; created by `Table.batch`.
#[pyclass(name = "Batch", frozen, module = "splitpoint._splitpoint")]
pub struct BatchCore {
    table: Py<TableCore>,
    /// `None`: that of the table.
    durability: Option<Durability>,
    /// `None` after it was committed or discarded.
    changes: Mutex<Option<Vec<Change>>>,
}

impl BatchCore {
    pub fn new(table: Py<TableCore>, durability: Option<Durability>) -> Self {
        BatchCore { table, durability, changes: Mutex::new(Some(Vec::new())) }
    }

    fn add(&self, change: Change) -> PyResult<()> {
        self.changes.lock().as_mut().ok_or_else(ended)?.push(change);
        Ok(())
    }
}

fn ended() -> PyErr {
    invalid("this batch was committed or discarded: begin another one")
}

#[pymethods]
impl BatchCore {
    /// Stores `value` under `key` when the batch is committed; so does `batch[key] = value`.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> batch = table.batch()
    /// >>> batch.put(b"alice", b"90")
    /// >>> batch.commit()
    /// >>> table[b"alice"]
    /// b'90'
    #[pyo3(signature = (key, value, /))]
    fn put(&self, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.add(Change::Put(key.to_vec(), value.to_vec()))
    }

    fn __setitem__(&self, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(key, value)
    }

    /// Appends `tail` to the value of `key` when the batch is committed.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> batch = table.batch()
    /// >>> batch.append(b"log", b"alice came")
    /// >>> batch.commit()
    /// >>> table[b"log"]
    /// b'alice came'
    #[pyo3(signature = (key, tail, /))]
    fn append(&self, key: Bytes<'_>, tail: Bytes<'_>) -> PyResult<()> {
        self.add(Change::Append(key.to_vec(), tail.to_vec()))
    }

    /// Stores `value` if `key` is absent when the batch is committed.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> batch = table.batch()
    /// >>> batch.insert_new(b"alice", b"90")
    /// >>> batch.commit()
    /// >>> table[b"alice"]
    /// b'90'
    #[pyo3(signature = (key, value, /))]
    fn insert_new(&self, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.add(Change::Insert(key.to_vec(), value.to_vec()))
    }

    /// Removes `key`, if it is present, when the batch is committed; so does `del batch[key]`.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> batch = table.batch()
    /// >>> batch.remove(b"alice")
    /// >>> len(batch)
    /// 1
    #[pyo3(signature = (key, /))]
    fn remove(&self, key: Bytes<'_>) -> PyResult<()> {
        self.add(Change::Remove(key.to_vec()))
    }

    fn __delitem__(&self, key: Bytes<'_>) -> PyResult<()> {
        self.remove(key)
    }

    fn __len__(&self) -> usize {
        self.changes.lock().as_ref().map_or(0, Vec::len)
    }

    /// Makes the changes in order and atomically: all or none, also for other threads and after an error or a crash.
    ///
    /// The end of a `with` block does the same.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> batch = table.batch()
    /// >>> batch.commit()
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let changes = self.changes.lock().take().ok_or_else(ended)?;
        let table = self.table.get();
        let committed = table.handle().detached(py, |table: &Table| {
            let mut batch = match self.durability {
                None => table.batch(),
                Some(durability) => table.with(durability).batch(),
            };
            for change in &changes {
                match change {
                    Change::Put(key, value) => batch.put(key, value)?,
                    Change::Append(key, tail) => batch.append(key, tail)?,
                    Change::Insert(key, value) => batch.insert_new(key, value)?,
                    Change::Remove(key) => batch.remove(key)?,
                }
            }
            batch.commit()
        });
        table.changed();
        committed?.or_raise(py)
    }

    /// Discards the changes. A `with` block that ends with an exception does the same.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> batch = table.batch()
    /// >>> batch.put(b"alice", b"90")
    /// >>> batch.discard()
    /// >>> len(table)
    /// 0
    fn discard(&self) {
        *self.changes.lock() = None;
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (error, traceback);
        let is_open = self.changes.lock().is_some();
        if !kind.is_none() {
            self.discard();
        } else if is_open {
            self.commit(py)?;
        }
        Ok(false)
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Err(refuse_pickle("Batch"))
    }
}
