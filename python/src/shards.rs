//! What `splitpoint.spark` needs: shards that the tasks of a job write, and the numbers of a column of keys.

use crate::arrow::{export_array, import_columns};
use crate::build::watched;
use crate::bytes::Bytes;
use crate::error::OrRaise;
use crate::long::{Watch, run_long};
use crate::options::{BuildOptions, hash_kind};
use crate::sources::{Nulls, Pair, feed};
use arrow_array::{ArrayRef, Int32Array, Int64Array};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use splitpoint::linear::Position;
use splitpoint::{ShardBase, ShardFile, ShardJob};
use std::path::PathBuf;
use std::sync::Arc;

/// A file of a shard: which one, where, and how many pairs it has.
type File = (u32, PathBuf, u64);

/// A build or an update of a dictionary of shards by several processes, see `splitpoint::ShardJob`.
#[pyclass(frozen, module = "splitpoint._splitpoint")]
pub struct ShardJobCore {
    job: ShardJob,
    watch: Arc<Watch>,
}

#[pymethods]
impl ShardJobCore {
    /// `generation` is that of the dictionary to update, `None` for a new one; with `replace` any is replaced. Errors
    /// name the pairs `place, row 1` and so on.
    #[new]
    #[pyo3(signature = (path, options, generation, replace, place, /))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        options: BuildOptions,
        generation: Option<u64>,
        replace: bool,
        place: String,
    ) -> PyResult<Self> {
        let watch = Arc::new(Watch::default());
        let builder = watched(&options.builder()?, &watch);
        let builder = builder.place_names(move |row| format!("{place}, row {}", row + 1));
        let base = match (replace, generation) {
            (true, _) => ShardBase::Any,
            (false, Some(generation)) => ShardBase::Generation(generation),
            (false, None) => ShardBase::Absent,
        };
        let job = py.detach(|| ShardJob::new(path, &builder, base)).or_raise(py)?;
        let job = if options.has_index() { job } else { job.keep_index() };
        let job = if options.has_filter() { job } else { job.keep_filter() };
        Ok(ShardJobCore { job, watch })
    }

    /// The last slot of each shard.
    #[getter]
    fn last_slots(&self) -> Vec<u16> {
        self.job.last_slots()
    }

    /// Raises what `publish` would raise now.
    fn check_directory(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.job.check_directory()).or_raise(py)
    }

    /// Writes the shards from the first to before the second of `shards`, from the pairs of an Arrow stream; returns
    /// their files. A null value removes its key, if `removals` says so.
    #[pyo3(signature = (source, shards, prefix, columns, removals, /))]
    fn write(
        &self,
        source: &Bound<'_, PyAny>,
        shards: (u32, u32),
        prefix: PathBuf,
        columns: (String, String),
        removals: bool,
    ) -> PyResult<Vec<File>> {
        let py = source.py();
        let mut writer = py.detach(|| self.job.start(shards.0..shards.1, prefix)).or_raise(py)?;
        let nulls = if removals { Nulls::Remove } else { Nulls::Refused };
        let mut row = 0..;
        feed(source, (Some(&columns.0), Some(&columns.1)), nulls, None, |pairs: &[Pair<'_>]| {
            let change = |((key, value), row): (&Pair<'_>, u64)| match value {
                Some(value) => writer.put(key, value, row),
                None => writer.remove(key, row),
            };
            pairs.iter().zip(row.by_ref()).try_for_each(change).map(|()| true)
        })?;
        let files = run_long(py, "write", None, &self.watch, || writer.finish())?;
        Ok(files.into_iter().map(|file| (file.shard, file.path, file.pairs)).collect())
    }

    /// Makes the files the dictionary; returns the number of its pairs.
    #[pyo3(signature = (files, /))]
    fn publish(&self, py: Python<'_>, files: Vec<File>) -> PyResult<u64> {
        let files = files.into_iter().map(|(shard, path, pairs)| ShardFile { shard, path, pairs });
        py.detach(|| self.job.publish(files)).or_raise(py)
    }
}

/// The generation of the dictionary of shards at `path`; `None` if there is none.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub fn shard_generation(py: Python<'_>, path: PathBuf) -> PyResult<Option<u64>> {
    let base = py.detach(|| ShardBase::of(path)).or_raise(py)?;
    Ok(match base {
        ShardBase::Generation(generation) => Some(generation),
        ShardBase::Absent | ShardBase::Any => None,
    })
}

/// The slot of a key in Redis Cluster, from 0 to 16383: which shard of a dictionary, and which node of a cluster, has
/// it.
///
/// >>> import splitpoint
/// >>> splitpoint.slot("foo"), splitpoint.slot("{user1}.name") == splitpoint.slot("{user1}.mail")
/// (12182, True)
#[pyfunction]
#[pyo3(signature = (key, /))]
pub fn slot(key: Bytes<'_>) -> u16 {
    splitpoint::slot(&key)
}

/// A column of numbers, for Arrow.
#[pyclass(frozen, module = "splitpoint._splitpoint")]
pub struct NumbersCore(ArrayRef);

#[pymethods]
impl NumbersCore {
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

/// Of each key, its place in hash order, as a signed number: its order is that of the places.
#[pyfunction]
#[pyo3(signature = (keys, hash, seed, /))]
pub fn position_column(keys: &Bound<'_, PyAny>, hash: &str, seed: u64) -> PyResult<NumbersCore> {
    let kind = hash_kind(hash)?;
    let signed = |key: &[u8]| (Position::of(kind.hash(key, seed)).0 ^ 1 << 63).cast_signed();
    Ok(NumbersCore(Arc::new(numbers::<Int64Array, _>(keys, signed)?)))
}

/// Of each key, its slot; or its shard, of those with these last slots.
#[pyfunction]
#[pyo3(signature = (keys, last_slots, /))]
pub fn slot_column(keys: &Bound<'_, PyAny>, last_slots: Option<Vec<u16>>) -> PyResult<NumbersCore> {
    let number = |key: &[u8]| {
        let slot = splitpoint::slot(key);
        last_slots.as_ref().map_or(slot.into(), |lasts| lasts.partition_point(|last| *last < slot) as i32)
    };
    Ok(NumbersCore(Arc::new(numbers::<Int32Array, _>(keys, number)?)))
}

/// The number of each key, without the interpreter lock; null for null.
fn numbers<A: FromIterator<Option<N>> + Send, N>(
    keys: &Bound<'_, PyAny>,
    number: impl Fn(&[u8]) -> N + Send + Sync,
) -> PyResult<A> {
    let columns = import_columns(keys)?;
    Ok(keys.py().detach(|| {
        let rows = columns.iter().flat_map(|column| (0..column.len()).map(move |row| column.value(row)));
        rows.map(|key| key.map(&number)).collect()
    }))
}
