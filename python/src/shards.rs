//! Support for `splitpoint.spark`: shards written by the tasks of a job, and positions or slots of a column of keys.

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
use splitpoint::shards::{ShardBase, ShardFile, ShardJob};
use std::path::PathBuf;
use std::sync::Arc;

/// A file of a shard: the shard's number, the path, and the number of pairs.
type File = (u32, PathBuf, u64);

/// A build or an update of a dictionary of shards by several processes, see `splitpoint::shards::ShardJob`.
#[pyclass(frozen, module = "splitpoint._splitpoint")]
pub struct ShardJobCore {
    job: ShardJob,
    watch: Arc<Watch>,
}

#[pymethods]
impl ShardJobCore {
    /// `generation` is that of the dictionary to update, or `None` for a new one; with `replace` an existing dictionary
    /// is replaced. Errors name pairs as `place, row 1` and so on.
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

    /// A number by which another dictionary of the same generation is recognised; 0 unless the job is an update.
    #[getter]
    fn base_mark(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.job.base_mark()).or_raise(py)
    }

    /// The last slot of each shard.
    #[getter]
    fn last_slots(&self) -> Vec<u16> {
        self.job.last_slots()
    }

    /// Raises the exception that `publish` would raise now because of the directory's contents.
    fn check_directory(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.job.check_directory()).or_raise(py)
    }

    /// Writes the shards of the half-open range `shards` from the pairs of an Arrow stream; returns their files. With
    /// `removals`, a null value removes its key.
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

    /// Publishes the files as the dictionary; returns the number of its pairs.
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

/// The Redis Cluster slot of a key, from 0 to 16383. It decides which shard of a dictionary and which node of a
/// cluster has the key.
///
/// >>> import splitpoint
/// >>> splitpoint.slot("foo"), splitpoint.slot("{user1}.name") == splitpoint.slot("{user1}.mail")
/// (12182, True)
#[pyfunction]
#[pyo3(signature = (key, /))]
pub fn slot(key: Bytes<'_>) -> u16 {
    splitpoint::shards::slot(&key)
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

/// The position of each key in hash order, mapped to signed numbers of the same order.
#[pyfunction]
#[pyo3(signature = (keys, hash, seed, /))]
pub fn position_column(keys: &Bound<'_, PyAny>, hash: &str, seed: u64) -> PyResult<NumbersCore> {
    let kind = hash_kind(hash)?;
    let signed = |key: &[u8]| (Position::of(kind.hash(key, seed)).0 ^ 1 << 63).cast_signed();
    Ok(NumbersCore(Arc::new(numbers::<Int64Array, _>(keys, signed)?)))
}

/// The slot of each key; with `last_slots`, the shard of each key among the shards that end at these slots.
#[pyfunction]
#[pyo3(signature = (keys, last_slots, /))]
pub fn slot_column(keys: &Bound<'_, PyAny>, last_slots: Option<Vec<u16>>) -> PyResult<NumbersCore> {
    let number = |key: &[u8]| {
        let slot = splitpoint::shards::slot(key);
        last_slots.as_ref().map_or(slot.into(), |lasts| lasts.partition_point(|last| *last < slot) as i32)
    };
    Ok(NumbersCore(Arc::new(numbers::<Int32Array, _>(keys, number)?)))
}

/// Computes a number for each key, without the interpreter lock; null for null.
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
