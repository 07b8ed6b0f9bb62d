//! `Dictionary`: the operations on an open dictionary.
//!
//! A lookup may wait for the disk, so it releases the interpreter lock.

use crate::arrow::{column_of_items, export_dictionary, export_part, import_columns};
use crate::build::update_dictionary;
use crate::bytes::Bytes;
use crate::diff::DictionaryDiff;
use crate::error::{OrRaise, absent, invalid};
use crate::handle::{Handle, InUse, Turns};
use crate::long::{Watch, run_long};
use crate::many::{Fixed, Found, get_columns, get_fixed, get_list};
use crate::options::BuildOptions;
use crate::report::{fault_list, stat_dict};
use crate::scan::{Give, Pairs};
use crate::walk::Walk;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use splitpoint::{Dictionary, DictionaryOptions, Table};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A shard: number, path, first and last slot, pairs.
type ShardRow = (usize, PathBuf, u16, u16, u64);

/// The part of `splitpoint.Dictionary` that is written in Rust.
#[pyclass(subclass, frozen, module = "splitpoint._splitpoint", weakref)]
pub struct DictionaryCore {
    handle: Handle<Arc<Dictionary>>,
    opened: OnceLock<Opened>,
    /// Held while the version is replaced by a newer one. Only locked without the interpreter lock.
    reloading: Mutex<()>,
}

/// The arguments of opening a dictionary: path, `map_data`, `map_index`.
type Opened = (PathBuf, Option<bool>, bool);

impl DictionaryCore {
    fn dictionary(&self, py: Python<'_>) -> PyResult<InUse<'_, Arc<Dictionary>>> {
        self.handle.get(py)
    }

    fn find<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.handle.detached(py, |dictionary| dictionary.get(key))?.or_raise(py)?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// The open dictionary; it stays open while the caller has it.
    pub fn shared(&self, py: Python<'_>) -> PyResult<Arc<Dictionary>> {
        Ok(Arc::clone(&*self.dictionary(py)?))
    }

    fn walk(&self, py: Python<'_>, give: Give) -> PyResult<DictionaryWalk> {
        self.walk_within(py, give, 0..=u64::MAX)
    }

    fn walk_within(&self, py: Python<'_>, give: Give, positions: RangeInclusive<u64>) -> PyResult<DictionaryWalk> {
        let dictionary = Arc::clone(&*self.dictionary(py)?);
        let state = WalkState { walk: Walk::within(dictionary, positions), pairs: Pairs::default(), given: 0 };
        Ok(DictionaryWalk { state: Turns::new(state), give })
    }
}

/// Stores the pairs of `dictionary` in `table` until the watch says stop; returns their number.
pub fn thaw(dictionary: &Arc<Dictionary>, table: &Table, watch: &Watch) -> splitpoint::Result<u64> {
    table.adopt_types(dictionary.types())?;
    let (mut walk, mut pairs, mut count) = (Walk::within(Arc::clone(dictionary), 0..=u64::MAX), Pairs::default(), 0);
    loop {
        pairs.read_walk(&mut walk)?;
        if pairs.len() == 0 {
            return Ok(count);
        }
        let part: Vec<_> = (0..pairs.len()).map(|index| pairs.pair(index)).collect();
        table.put_many(&part)?;
        count += part.len() as u64;
        if watch.report(count, dictionary.len()).is_break() {
            return Ok(count);
        }
    }
}

fn lookup(dictionary: &Arc<Dictionary>, keys: &[&[u8]], found: &mut Found) -> splitpoint::Result<()> {
    dictionary.get_many_with(keys, |_, value| found.push(value))
}

#[pymethods]
impl DictionaryCore {
    /// Not open yet: `_open` opens it, so that a subclass chooses the arguments of its `__init__`.
    #[new]
    fn new() -> Self {
        DictionaryCore { handle: Handle::default(), opened: OnceLock::new(), reloading: Mutex::default() }
    }

    #[pyo3(signature = (path, map_data, map_index, /))]
    fn _open(&self, py: Python<'_>, path: PathBuf, map_data: Option<bool>, map_index: bool) -> PyResult<()> {
        let options = DictionaryOptions::new().map_index(map_index);
        let options = map_data.map_or(options.clone(), |map| options.map_data(map));
        self.handle.open(path.display().to_string(), || {
            let dictionary = py.detach(|| options.open(&path)).or_raise(py)?;
            let _ = self.opened.set((path, map_data, map_index));
            Ok(Arc::new(dictionary))
        })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes: Bytes<'_> = key.extract()?;
        self.find(py, &bytes)?.ok_or_else(|| absent(key))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        self.handle.detached(py, |dictionary| dictionary.contains(&key))?.or_raise(py)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.dictionary(py)?.len() as usize)
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<DictionaryWalk> {
        self.walk(py, Give::Keys)
    }

    /// The value of `key`, or `default` if it is absent.
    ///
    /// >>> import splitpoint, tempfile, os
    /// >>> directory = tempfile.TemporaryDirectory()
    /// >>> users = splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory.name, "users.spd"))
    /// >>> users.get(b"alice"), users.get(b"bob", b"-")
    /// (b'1', b'-')
    /// >>> directory.cleanup()
    #[pyo3(signature = (key, /, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, &key)?.map(Bound::into_any).or(default))
    }

    #[pyo3(signature = (keys, default, /))]
    fn _get_list<'py>(&self, keys: &Bound<'py, PyAny>, default: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        drop(self.dictionary(keys.py())?);
        get_list(&self.handle, keys, default, lookup)
    }

    /// `get_many` for an Arrow array or chunked array.
    #[pyo3(signature = (keys, /))]
    fn _get_column<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let keys = import_columns(keys)?;
        drop(self.dictionary(py)?);
        get_columns(py, &self.handle, &keys, lookup)?.into_python(py)
    }

    /// `get_many` for concatenated keys of `width` bytes each; a non-zero byte in `nulls` marks a null key.
    #[pyo3(signature = (keys, width, padded, nulls, /))]
    fn _get_fixed<'py>(
        &self,
        py: Python<'py>,
        keys: &[u8],
        width: usize,
        padded: bool,
        nulls: Option<&[u8]>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(self.dictionary(py)?);
        let keys = Fixed { bytes: keys, width, is_padded: padded, nulls };
        get_fixed(py, &self.handle, &keys, lookup)?.into_python(py)
    }

    /// `get_many` for an iterable of keys and `None`, with the result for an Arrow array.
    #[pyo3(signature = (keys, /))]
    fn _get_items<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        drop(self.dictionary(py)?);
        get_columns(py, &self.handle, &[column_of_items(keys)?], lookup)?.into_python(py)
    }

    fn _values(&self, py: Python<'_>) -> PyResult<DictionaryWalk> {
        self.walk(py, Give::Values)
    }

    fn _pairs(&self, py: Python<'_>) -> PyResult<DictionaryWalk> {
        self.walk(py, Give::Pairs)
    }

    /// Merges changes into a dictionary at `path`; returns the number of its pairs.
    #[pyo3(signature = (changes, path, key_column, value_column, options, progress, /))]
    fn _update(
        &self,
        changes: &Bound<'_, PyAny>,
        path: PathBuf,
        key_column: Option<&str>,
        value_column: Option<&str>,
        options: BuildOptions,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let mut builder = options.builder()?;
        let (own, ..) = self.opened.get().ok_or_else(|| self.handle.closed(changes.py()))?;
        if *own == path {
            self.handle.refuse_within("update")?; // which reloads it
        }
        if !options.has_index() {
            builder = builder.index(self.dictionary(changes.py())?.index());
        }
        if !options.has_filter() {
            builder = builder.filter(self.dictionary(changes.py())?.filter());
        }
        update_dictionary(changes, (own, &path), (key_column, value_column), &builder, progress)
    }

    /// Closes the dictionary; its files are closed once all iterators over it are done. A second call does nothing.
    ///
    /// >>> import splitpoint, tempfile, os
    /// >>> directory = tempfile.TemporaryDirectory()
    /// >>> users = splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory.name, "users.spd"))
    /// >>> users.close()
    /// >>> users.closed
    /// True
    /// >>> directory.cleanup()
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle
            .close(py, |dictionary| {
                drop(dictionary);
                Ok::<(), splitpoint::Error>(())
            })?
            .or_raise(py)
    }

    /// Switches to the version that is at its path now; returns whether that is new. Iterators keep their old version.
    ///
    /// >>> import splitpoint, tempfile, os
    /// >>> directory = tempfile.TemporaryDirectory()
    /// >>> users = splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory.name, "users.spd"))
    /// >>> users.reload()
    /// False
    /// >>> directory.cleanup()
    fn reload(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.refuse_within("reload")?;
        drop(self.dictionary(py)?);
        py.detach(|| {
            // Otherwise a concurrent call could put back an older version that it has just opened.
            let _reloading = self.reloading.lock();
            let Some(mut new) = self.handle.wait().map(|old| Dictionary::clone(&old)) else { return Ok(false) };
            let changed = new.reload()?;
            if changed {
                self.handle.replace(Arc::new(new));
            }
            Ok(changed)
        })
        .or_raise(py)
    }

    #[pyo3(signature = (threads, progress, /))]
    fn _verify(&self, py: Python<'_>, threads: usize, progress: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        let _busy = self.handle.busy();
        let (dictionary, watch) = (self.dictionary(py)?, &Watch::default());
        let report =
            |progress: splitpoint::dictionary::VerifyProgress| watch.report(progress.bytes, progress.bytes_total);
        run_long(py, "verify", progress, watch, move || dictionary.verify_with(threads, report)).map(fault_list)
    }

    /// The position of `key` in hash order, present or not: a number below 2**64.
    ///
    /// >>> import splitpoint, tempfile, os
    /// >>> directory = tempfile.TemporaryDirectory()
    /// >>> users = splitpoint.Dictionary.build({"alice": "1"}, os.path.join(directory.name, "users.spd"))
    /// >>> at = users.position("alice")
    /// >>> list(users.range(at, at + 1))
    /// [(b'alice', b'1')]
    /// >>> directory.cleanup()
    #[pyo3(signature = (key, /))]
    fn position(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<u64> {
        Ok(self.dictionary(py)?.position(&key))
    }

    /// The pairs whose positions are from `first` to `last`, both included.
    #[pyo3(signature = (first, last, /))]
    fn _range(&self, py: Python<'_>, first: u64, last: u64) -> PyResult<DictionaryWalk> {
        self.walk_within(py, Give::Pairs, first..=last)
    }

    /// The differences to `newer` at positions from `first` to `last`, both included.
    #[pyo3(signature = (newer, first, last, progress, /))]
    fn _diff(
        &self,
        py: Python<'_>,
        newer: &Bound<'_, DictionaryCore>,
        first: u64,
        last: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<DictionaryDiff> {
        let old = Arc::clone(&*self.dictionary(py)?);
        let newer = Arc::clone(&*newer.get().dictionary(py)?);
        DictionaryDiff::new(py, (&old, &newer), first..=last, progress)
    }

    /// The pairs of one of `parts` equal parts of hash order; for a dictionary in one file.
    #[pyo3(signature = (part, parts, /))]
    fn _part<'py>(&self, py: Python<'py>, part: u64, parts: u64) -> PyResult<Bound<'py, PyAny>> {
        let dictionary = Arc::clone(&*self.dictionary(py)?);
        if part >= parts || dictionary.shard_count() != 1 {
            return Err(invalid(format!("part {part} of {parts}, of {} files", dictionary.shard_count())));
        }
        export_part(py, dictionary, part, parts)
    }

    fn _shards(&self, py: Python<'_>) -> PyResult<Vec<ShardRow>> {
        let shards = self.dictionary(py)?.shards().into_iter();
        Ok(shards.map(|shard| (shard.number, shard.path, shard.first_slot, shard.last_slot, shard.pairs)).collect())
    }

    /// A number for each of its files, in their order. Files with other pairs have other numbers, in all likelihood.
    fn _marks(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        Ok(self.dictionary(py)?.marks())
    }

    fn _stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stat = self.dictionary(py)?.stat();
        stat_dict(py, &stat.or_raise(py)?)
    }

    /// The path at which it was opened.
    #[getter]
    fn path(&self) -> Option<&PathBuf> {
        self.opened.get().map(|(path, ..)| path)
    }

    /// The arguments that open it again, for pickle.
    fn _arguments(&self, py: Python<'_>) -> PyResult<Opened> {
        drop(self.dictionary(py)?);
        self.opened.get().cloned().ok_or_else(|| self.handle.closed(py))
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// The number of reads of its files by lookups and scans.
    #[getter]
    fn reads(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.dictionary(py)?.reads())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema; // a wish, which the interface allows to ignore
        export_dictionary(py, Arc::clone(&*self.dictionary(py)?))
    }
}

/// An iterator over a dictionary's keys, values or pairs in hash order, in the version that was open when it began.
#[pyclass(frozen, module = "splitpoint._splitpoint")]
pub struct DictionaryWalk {
    state: Turns<WalkState>,
    give: Give,
}

struct WalkState {
    walk: Walk,
    pairs: Pairs,
    given: usize,
}

#[pymethods]
impl DictionaryWalk {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut state = self.state.take(py)?;
        let WalkState { walk, pairs, given } = &mut *state;
        if *given == pairs.len() {
            *given = 0;
            if let Err(error) = py.detach(|| pairs.read_walk(walk)) {
                *pairs = Pairs::default();
                return Err(error).or_raise(py);
            }
            if pairs.len() == 0 {
                return Ok(None);
            }
        }
        *given += 1;
        self.give.item(py, pairs.pair(*given - 1)).map(Some)
    }
}
