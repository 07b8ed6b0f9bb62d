//! `Table`: the operations that access a table's pages. The other methods of mappings are written in Python, in
//! `splitpoint/table.py`.
//!
//! A single lookup that does not wait for the disk or another thread keeps the interpreter lock, since releasing it
//! costs as much as the lookup. All other operations release it.

use crate::arrow::{column_of_items, export_table, import_columns};
use crate::batch::BatchCore;
use crate::build::watched;
use crate::bytes::Bytes;
use crate::damaged::salvage_into;
use crate::dictionary::{DictionaryCore, thaw};
use crate::error::{OrRaise, absent, invalid, refuse_pickle};
use crate::first::First;
use crate::handle::{Handle, InUse, detach};
use crate::long::{Watch, run_long};
use crate::many::{Fixed, Found, get_columns, get_fixed, get_list};
use crate::options::{BuildOptions, Options, durability_named};
use crate::report::{counters_dict, fault_list, survey_dict};
use crate::scan::{Give, PAIRS, Pairs, TableScan};
use crate::sources::{self, Pair};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use splitpoint::linear::Position;
use splitpoint::{Backup, ErrorKind, HashKind, Table, TableOptions};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The part of `splitpoint.Table` that is written in Rust.
#[pyclass(subclass, frozen, module = "splitpoint._splitpoint", weakref)]
pub struct TableCore {
    handle: Arc<Handle<Table>>,
    opened: OnceLock<Opened>,
    first: First,
    /// Held while the state is replaced by a newer one. Only locked without the interpreter lock.
    reloading: Mutex<()>,
}

/// Properties of an opened table.
struct Opened {
    path: Option<PathBuf>,
    is_readonly: bool,
    hash: (HashKind, u64),
}

thread_local! {
    /// A buffer for the value of a lookup, which saves an allocation per lookup.
    static VALUE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger buffers are not kept.
const KEPT_BYTES: usize = 1 << 16;

impl TableCore {
    pub fn table(&self, py: Python<'_>) -> PyResult<InUse<'_, Table>> {
        self.handle.get(py)
    }

    pub fn handle(&self) -> &Arc<Handle<Table>> {
        &self.handle
    }

    /// Calls `work` with the table, without the interpreter lock.
    fn detached<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Table) -> splitpoint::Result<T> + Send,
    ) -> PyResult<T> {
        self.handle.detached(py, work)?.or_raise(py)
    }

    /// Calls `work`, for operations that a program may do at its exit.
    fn ending(&self, py: Python<'_>, work: impl FnOnce(&Table) -> splitpoint::Result<()> + Send) -> PyResult<()> {
        let done = {
            let table = self.table(py)?;
            let table: &Table = &table;
            detach(py, || work(table))
        };
        done.or_raise(py)
    }

    /// Makes a change of `key`.
    fn change<T: Send>(
        &self,
        py: Python<'_>,
        key: &[u8],
        work: impl FnOnce(&Table) -> splitpoint::Result<T> + Send,
    ) -> PyResult<T> {
        let changed = self.handle.detached(py, work)?;
        self.first.written(|| self.position(key));
        changed.or_raise(py)
    }

    /// Records changes of many keys.
    pub fn changed(&self) {
        self.first.written(|| 0);
    }

    fn position(&self, key: &[u8]) -> u64 {
        self.opened.get().map_or(0, |Opened { hash: (kind, seed), .. }| Position::of(kind.hash(key, *seed)).0)
    }

    /// Reads the next pairs from `cursor` on.
    pub fn read_from(&self, py: Python<'_>, pairs: &mut Pairs, cursor: u64) -> PyResult<()> {
        self.detached(py, |table| pairs.read(table, cursor, PAIRS))
    }

    /// Reads the first pair of hash order and others with the same hash. Many iterators are created for one pair only,
    /// and the next pair may be many empty buckets away.
    pub fn read_first(&self, py: Python<'_>, pairs: &mut Pairs) -> PyResult<()> {
        let begun = self.first.begin();
        self.detached(py, |table| pairs.read(table, begun.position, 1))?;
        let first = if pairs.len() == 0 { u64::MAX } else { self.position(pairs.pair(0).0) };
        self.first.found(begun, first);
        Ok(())
    }

    /// The value of `key`; `None` if it is absent.
    #[inline]
    fn find<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        // Take the buffer out: creating an exception may run Python code that does another lookup.
        let mut value = VALUE.take();
        let found = {
            let table = self.table(py)?;
            let table: &Table = &table;
            match table.get_ready(key, &mut value) {
                Some(found) => Ok(found),
                None => py.detach(|| table.get_into(key, &mut value)),
            }
        };
        let found = found.or_raise(py)?;
        let found = found.then(|| PyBytes::new(py, &value));
        if value.capacity() <= KEPT_BYTES {
            VALUE.set(value);
        }
        Ok(found)
    }

    /// The first pair of hash order from `from` on that `wanted` accepts.
    fn first_from(
        &self,
        py: Python<'_>,
        from: u64,
        mut wanted: impl FnMut(&[u8]) -> bool + Send,
    ) -> PyResult<Option<Py<PyBytes>>> {
        let found = self.detached(py, |table| {
            let mut scan = table.scan_from(from);
            while let Some((key, _)) = scan.next_ref()? {
                if wanted(key) {
                    return Ok(Some(key.to_vec()));
                }
            }
            Ok(None)
        })?;
        Ok(found.map(|key| PyBytes::new(py, &key).unbind()))
    }
}

fn lookup(table: &Table, keys: &[&[u8]], found: &mut Found) -> splitpoint::Result<()> {
    table.get_many_with(keys, |_, value| found.push(value))
}

/// Opens the table as `flag` says, like `dbm.open`.
fn open(path: &Path, flag: &str, mode: u32, options: Options) -> PyResult<splitpoint::Result<Table>> {
    let table = options.table_options()?.permissions(mode & 0o777);
    Ok(match flag {
        "r" => table.read_only(true).open(path),
        "w" => table.create(false).open(path),
        "c" => table.open(path),
        "n" => empty(path, &table).and_then(|()| table.open(path)),
        _ => {
            let hint = "'r' to read, 'w' to write, 'c' to create if absent, 'n' for an empty table";
            return Err(invalid(format!("flag is {flag:?}, expected {hint}")));
        }
    })
}

/// Replaces the table at `path` with an empty one; every process sees either the old or the new one.
fn empty(path: &Path, options: &TableOptions) -> splitpoint::Result<()> {
    if !path.metadata().is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    // Anything else at the path is not a table, and is refused.
    if let Err(error) = TableOptions::new().read_only(true).open(path)
        && error.kind() == ErrorKind::NotATable
    {
        return Err(error);
    }
    // Counters are of the file, which is opened next.
    let nothing = options.clone().publish_counters(false).in_memory()?;
    Backup::new().overwrite(true).options(options.clone()).save(&nothing, path)
}

#[pymethods]
impl TableCore {
    /// Not open yet: `_open` opens it, so that a subclass chooses the arguments of its `__init__`.
    #[new]
    fn new() -> Self {
        TableCore {
            handle: Arc::default(),
            opened: OnceLock::new(),
            first: First::default(),
            reloading: Mutex::default(),
        }
    }

    #[pyo3(signature = (path, flag, mode, options, /))]
    fn _open(&self, py: Python<'_>, path: Option<PathBuf>, flag: &str, mode: u32, options: Options) -> PyResult<()> {
        let name = path.as_ref().map_or_else(|| "(memory)".into(), |path| path.display().to_string());
        self.handle.open(name, || {
            let table = match &path {
                Some(path) => py.detach(|| open(path, flag, mode, options))?,
                None => options.table_options()?.in_memory(),
            }
            .or_raise(py)?;
            let hash = (table.hash_function().kind(), table.hash_function().seed());
            let is_readonly = path.is_some() && flag == "r";
            let _ = self.opened.set(Opened { path, is_readonly, hash });
            Ok(table)
        })
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes: Bytes<'_> = key.extract()?;
        self.find(py, &bytes)?.ok_or_else(|| absent(key))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.change(py, &key, |table| table.put(&key, &value))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes: Bytes<'_> = key.extract()?;
        match self.detached(py, |table| table.remove(&bytes))? {
            true => Ok(()),
            false => Err(absent(key)),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        Ok(self.find(py, &key)?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.table(py)?.len() as usize)
    }

    fn __iter__(slf: &Bound<'_, Self>) -> TableScan {
        TableScan::new(slf.clone().unbind(), 0, Give::Keys)
    }

    /// The value of `key`, or `default` if it is absent.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.get(b"alice"), table.get(b"alice", b"-")
    /// (None, b'-')
    #[pyo3(signature = (key, /, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, &key)?.map(Bound::into_any).or(default))
    }

    /// Stores `value` if `key` is absent. Returns whether it stored it. Atomic.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.insert_new(b"alice", b"1"), table.insert_new(b"alice", b"2"), table[b"alice"]
    /// (True, False, b'1')
    #[pyo3(signature = (key, value, /))]
    fn insert_new(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<bool> {
        self.change(py, &key, |table| table.insert_new(&key, &value))
    }

    /// Stores `value` and returns the earlier one, or `None`. Atomic.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.replace(b"alice", b"1"), table.replace(b"alice", b"2")
    /// (None, b'1')
    #[pyo3(signature = (key, value, /))]
    fn replace<'py>(&self, py: Python<'py>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let old = self.change(py, &key, |table| table.replace(&key, &value))?;
        Ok(old.map(|old| PyBytes::new(py, &old)))
    }

    /// Appends `tail` to the value of `key`, which is empty if the key is absent. Returns the new length.
    ///
    /// Costs the length of `tail`, however long the value is. Atomic.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.append(b"log", b"first "), table.append(b"log", b"second"), table[b"log"]
    /// (6, 12, b'first second')
    #[pyo3(signature = (key, tail, /))]
    fn append(&self, py: Python<'_>, key: Bytes<'_>, tail: Bytes<'_>) -> PyResult<usize> {
        self.change(py, &key, |table| table.append(&key, &tail))
    }

    /// Removes `key`. Returns whether it was present; `del table[key]` raises `KeyError` instead.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.remove(b"alice")
    /// False
    #[pyo3(signature = (key, /))]
    fn remove(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        self.detached(py, |table| table.remove(&key))
    }

    #[pyo3(signature = (types, /))]
    fn _record_types(&self, py: Python<'_>, types: &str) -> PyResult<()> {
        self.ending(py, |table| table.record_types(types))
    }

    #[pyo3(signature = (key, /))]
    fn _take<'py>(&self, py: Python<'py>, key: Bytes<'_>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let taken = self.detached(py, |table| {
            loop {
                let Some(value) = table.get(&key)? else { return Ok(None) };
                if table.compare_and_set(&key, Some(&value), None)? {
                    return Ok(Some(value));
                }
            }
        })?;
        Ok(taken.map(|value| PyBytes::new(py, &value)))
    }

    /// Stores `new` if the value is `expected`; `None` stands for an absent key. Returns whether the value matched.
    /// Atomic.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.compare_and_set(b"alice", None, b"1"), table.compare_and_set(b"alice", b"0", b"2")
    /// (True, False)
    /// >>> table.compare_and_set(b"alice", b"1", None), b"alice" in table
    /// (True, False)
    #[pyo3(signature = (key, expected, new, /))]
    fn compare_and_set(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        expected: Option<Bytes<'_>>,
        new: Option<Bytes<'_>>,
    ) -> PyResult<bool> {
        self.change(py, &key, |table| table.compare_and_set(&key, expected.as_deref(), new.as_deref()))
    }

    /// Removes all pairs.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table[b"alice"] = b"1"
    /// >>> table.clear()
    /// >>> len(table)
    /// 0
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.detached(py, Table::clear)
    }

    #[pyo3(signature = (keys, default, /))]
    fn _get_list<'py>(&self, keys: &Bound<'py, PyAny>, default: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        drop(self.table(keys.py())?);
        get_list(&self.handle, keys, default, lookup)
    }

    /// `get_many` for an Arrow array or chunked array.
    #[pyo3(signature = (keys, /))]
    fn _get_column<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        let keys = import_columns(keys)?;
        drop(self.table(py)?);
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
        drop(self.table(py)?);
        let keys = Fixed { bytes: keys, width, is_padded: padded, nulls };
        get_fixed(py, &self.handle, &keys, lookup)?.into_python(py)
    }

    /// `get_many` for an iterable of keys and `None`, with the result for an Arrow array.
    #[pyo3(signature = (keys, /))]
    fn _get_items<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        drop(self.table(py)?);
        get_columns(py, &self.handle, &[column_of_items(keys)?], lookup)?.into_python(py)
    }

    /// Stores the pairs of an iterable, or of an object that exports an Arrow stream.
    #[pyo3(signature = (pairs, key_column, value_column, progress, /))]
    fn _put_pairs(
        &self,
        pairs: &Bound<'_, PyAny>,
        key_column: Option<&str>,
        value_column: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let py = pairs.py();
        let columns = (key_column, value_column);
        sources::feed(pairs, columns, sources::Nulls::Refused, progress, |pairs: &[Pair<'_>]| {
            // Get the table anew for each part, so that an iterable that closes the table causes an error, not a
            // deadlock.
            let Some(table) = self.handle.wait() else { return Ok(false) };
            let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|pair| (pair.0, pair.1.unwrap_or_default())).collect();
            let put = table.put_many(&pairs);
            self.changed();
            put.map(|()| true)
        })?
        .ok_or_else(|| self.handle.closed(py))
    }

    /// Appends the tail of each pair of an iterable or of an Arrow source to its key's value. Returns the new lengths.
    #[pyo3(signature = (pairs, /))]
    fn _append_pairs(&self, pairs: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let py = pairs.py();
        let mut lengths = Vec::new();
        sources::feed(pairs, (None, None), sources::Nulls::Refused, None, |pairs: &[Pair<'_>]| {
            let Some(table) = self.handle.wait() else { return Ok(false) };
            let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|pair| (pair.0, pair.1.unwrap_or_default())).collect();
            let appended = table.append_many(&pairs);
            self.changed();
            lengths.extend(appended?);
            Ok(true)
        })?
        .ok_or_else(|| self.handle.closed(py))?;
        Ok(lengths)
    }

    /// Begins a batch: changes that are made atomically when its `with` block ends, or not at all if the block raises.
    ///
    /// `durability` ("none", "os", "sync") is that of the batch, whatever the table was opened with. One that asks for
    /// more than earlier writes makes them as durable as itself; one that asks for less may be lost in a crash, but
    /// never in part.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> with table.batch() as batch:
    /// ...     batch[b"alice"] = b"90"
    /// ...     batch.append(b"log", b"alice came")
    /// ...     b"alice" in table
    /// False
    /// >>> table[b"alice"]
    /// b'90'
    /// >>> try:
    /// ...     with table.batch() as batch:
    /// ...         del batch[b"alice"]
    /// ...         raise OSError("the other side hung up")
    /// ... except OSError:
    /// ...     b"alice" in table
    /// True
    #[pyo3(signature = (*, durability = None))]
    fn batch(slf: &Bound<'_, Self>, durability: Option<&str>) -> PyResult<BatchCore> {
        drop(slf.get().table(slf.py())?);
        Ok(BatchCore::new(slf.clone().unbind(), durability.map(durability_named).transpose()?))
    }

    /// Iterates over the pairs in hash order, from the `cursor` of an earlier scan on; 0 is the beginning.
    ///
    /// A key that stays in the table is returned exactly once, however the table changes; a cursor stays valid, even
    /// after the table was closed and opened again.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.update((str(i), b"") for i in range(5))
    /// >>> scan = table.scan()
    /// >>> first = [next(scan)[0] for _ in range(2)]
    /// >>> rest = [key for key, value in table.scan(scan.cursor)]
    /// >>> sorted(first + rest)
    /// [b'0', b'1', b'2', b'3', b'4']
    #[pyo3(signature = (cursor = 0, /))]
    fn scan(slf: &Bound<'_, Self>, cursor: u64) -> TableScan {
        TableScan::new(slf.clone().unbind(), cursor, Give::Pairs)
    }

    fn _values(slf: &Bound<'_, Self>) -> TableScan {
        TableScan::new(slf.clone().unbind(), 0, Give::Values)
    }

    /// The first key of hash order; `None` if the table is empty.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.firstkey()
    fn firstkey(&self, py: Python<'_>) -> PyResult<Option<Py<PyBytes>>> {
        let mut pairs = Pairs::default();
        self.read_first(py, &mut pairs)?;
        Ok((pairs.len() > 0).then(|| PyBytes::new(py, pairs.pair(0).0).unbind()))
    }

    /// The key after `key` in hash order; `None` at the end. `key` may have been removed in the meantime.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.update({b"alice": b"1", b"bob": b"2"})
    /// >>> keys, key = [], table.firstkey()
    /// >>> while key is not None:
    /// ...     keys.append(key)
    /// ...     key = table.nextkey(key)
    /// >>> sorted(keys)
    /// [b'alice', b'bob']
    #[pyo3(signature = (key, /))]
    fn nextkey(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<Option<Py<PyBytes>>> {
        let position = self.position(&key);
        let key: &[u8] = &key;
        let hash = self.opened.get().map(|opened| opened.hash);
        let place = |found: &[u8]| hash.map_or(0, |(kind, seed)| Position::of(kind.hash(found, seed)).0);
        let mut passed = !self.__contains__(py, Bytes::from(key))?;
        self.first_from(py, position, |found| {
            // Another thread may remove the key.
            let wanted = passed || place(found) > position;
            passed |= found == key;
            wanted
        })
    }

    /// Makes all earlier writes durable: they survive a power loss once it returns.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.sync()
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.ending(py, Table::sync)
    }

    /// Writes all changes to the file, and frees the log.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.checkpoint()
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.ending(py, Table::checkpoint)
    }

    /// Brings a table that was opened with "r" to the last write of any process; returns whether there was a new one.
    /// Iterators continue in the new state.
    ///
    /// >>> import splitpoint
    /// >>> splitpoint.memory().reload()
    /// False
    fn reload(&self, py: Python<'_>) -> PyResult<bool> {
        self.handle.refuse_within("reload")?;
        let reloaded = py.detach(|| -> splitpoint::Result<Option<bool>> {
            // Otherwise a concurrent call could put back an older state that it has just opened.
            let _reloading = self.reloading.lock();
            let Some(table) = self.handle.wait() else { return Ok(None) };
            let newer = table.newer();
            drop(table); // `replace` waits for it
            let Some(newer) = newer? else { return Ok(Some(false)) };
            self.handle.replace(newer);
            self.changed();
            Ok(Some(true))
        });
        reloaded.or_raise(py)?.ok_or_else(|| self.handle.closed(py))
    }

    /// Makes all writes durable and closes the table; raises an exception if that fails. A second call does nothing.
    ///
    /// Waits for calls of other threads to end. Leaving a `with` block also closes the table.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.close()
    /// >>> table.closed
    /// True
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py, Table::close)?.or_raise(py)
    }

    #[pyo3(signature = (progress, /))]
    fn _compact(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _busy = self.handle.busy();
        let (table, watch) = (self.table(py)?, &Watch::default());
        let compact = move || table.compact_with(|done, all| watch.report(done, all));
        run_long(py, "compact", progress, watch, compact)
    }

    #[pyo3(signature = (path, overwrite, progress, /))]
    fn _backup(
        &self,
        py: Python<'_>,
        path: PathBuf,
        overwrite: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _busy = self.handle.busy();
        let (table, watch) = (self.table(py)?, &Watch::default());
        run_long(py, "backup", progress, watch, move || {
            let mut backup = Backup::new().overwrite(overwrite).progress(|done, all| watch.report(done, all));
            backup.save(&table, &path)
        })
    }

    /// Reads everything and returns a description of every fault; an intact table has none. Writers wait.
    ///
    /// >>> import splitpoint
    /// >>> table = splitpoint.memory()
    /// >>> table.verify()
    /// []
    fn verify(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let _busy = self.handle.busy();
        let (table, watch) = (self.table(py)?, &Watch::default());
        run_long(py, "verify", None, watch, move || table.verify_while(|| watch.proceed())).map(fault_list)
    }

    fn _survey<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let _busy = self.handle.busy();
        let (table, watch) = (self.table(py)?, &Watch::default());
        let survey = run_long(py, "stats", None, watch, move || table.survey_while(|| watch.proceed()))?;
        survey_dict(py, &survey)
    }

    fn _counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.table(py)?.counters();
        counters_dict(py, &counters)
    }

    /// Writes the pairs to a dictionary at `path`; returns their number.
    #[pyo3(signature = (path, options, progress, /))]
    fn _freeze(
        &self,
        py: Python<'_>,
        path: PathBuf,
        options: BuildOptions,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let watch = Arc::new(Watch::default());
        let builder = watched(&options.builder()?, &watch);
        let _busy = self.handle.busy();
        let table = self.table(py)?;
        run_long(py, "write", progress, &watch, move || table.freeze(path, &builder))
    }

    /// Stores the pairs that can be read from the damaged file at `path`.
    #[pyo3(signature = (path, only_verified, progress, /))]
    fn _salvage<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        only_verified: bool,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let _busy = self.handle.busy();
        let report = salvage_into(py, path, self.table(py)?, only_verified, progress);
        self.changed();
        report
    }

    /// Stores the pairs of a dictionary.
    #[pyo3(signature = (dictionary, progress, /))]
    fn _thaw(
        &self,
        py: Python<'_>,
        dictionary: &Bound<'_, DictionaryCore>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let _busy = self.handle.busy();
        let dictionary = dictionary.get().shared(py)?;
        let (table, watch) = (self.table(py)?, &Watch::default());
        let stored = run_long(py, "thaw", progress, watch, move || thaw(&dictionary, &table, watch));
        self.changed();
        stored
    }

    /// The path at which it was opened; `None` for a table in memory.
    #[getter]
    fn path(&self) -> Option<&PathBuf> {
        self.opened.get()?.path.as_ref()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Whether it was opened with the flag `r`.
    #[getter]
    fn readonly(&self) -> bool {
        self.opened.get().is_some_and(|opened| opened.is_readonly)
    }

    /// The name and the seed of its hash function.
    #[getter]
    fn hash_function(&self, py: Python<'_>) -> PyResult<(&'static str, u64)> {
        let opened = self.opened.get().ok_or_else(|| self.handle.closed(py))?;
        Ok((opened.hash.0.name(), opened.hash.1))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema; // a wish, which the interface allows to ignore
        drop(self.table(py)?);
        export_table(py, Arc::clone(&self.handle))
    }

    fn __reduce_ex__(&self, _protocol: &Bound<'_, PyAny>) -> PyResult<Py<PyTuple>> {
        Err(refuse_pickle("Table"))
    }
}

impl Drop for TableCore {
    fn drop(&mut self) {
        // Closing may write; if others still use the table (a batch, an Arrow stream), the last of them closes it.
        if self.handle.is_closed() {
            return;
        }
        let handle = std::mem::take(&mut self.handle);
        let close = |py: Python<'_>| {
            // Of `open(path)[key]` the table goes while the exception is on its way; calls of Python would replace it.
            let raised = PyErr::take(py);
            detach(py, || drop(handle));
            raised.into_iter().for_each(|error| error.restore(py));
        };
        if Python::try_attach(close).is_none() {
            // The interpreter is ending; the closure was dropped, and the table with it.
        }
    }
}
