//! Iterators over the differences between two dictionaries.

use crate::error::OrRaise;
use crate::handle::Turns;
use crate::long::{Watch, run_long};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use splitpoint::Dictionary;
use splitpoint::dictionary::{Change, Diff};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The most changes read together, and their most bytes, unless a single one has more.
const CHANGES: usize = 256;
const BYTES: usize = 1 << 20;

/// A change to be returned to Python: the key, the old value and the new one.
type Taken = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

struct State {
    diff: Diff,
    taken: VecDeque<Taken>,
}

/// An iterator over the differences of two dictionaries as `(key, old_value, value)`, where `None` is absent. It keeps
/// the files that it compares open.
#[pyclass(frozen, module = "splitpoint._splitpoint")]
pub struct DictionaryDiff {
    state: Turns<State>,
    watch: Arc<Watch>,
    progress: Option<Py<PyAny>>,
}

impl DictionaryDiff {
    pub fn new(
        py: Python<'_>,
        (old, newer): (&Dictionary, &Dictionary),
        positions: RangeInclusive<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (watch, total) = (Arc::new(Watch::default()), old.len() + newer.len());
        let watched = Arc::clone(&watch);
        let diff = py.detach(|| old.diff_range(newer, positions)).or_raise(py)?;
        let diff = diff.progress(move |pairs| watched.report(pairs, total));
        Ok(DictionaryDiff { state: Turns::new(State { diff, taken: VecDeque::new() }), watch, progress })
    }
}

impl State {
    /// Reads the next changes; none at the end.
    fn read(&mut self) -> splitpoint::Result<()> {
        let mut bytes = 0;
        while self.taken.len() < CHANGES && bytes < BYTES {
            let Some(change) = self.diff.next_ref()? else { break };
            let old_value = match change {
                Change::Added { .. } => None,
                Change::Removed { old_value, .. } | Change::Replaced { old_value, .. } => Some(old_value.to_vec()),
            };
            let taken = (change.key().to_vec(), old_value, change.value().map(<[u8]>::to_vec));
            bytes += taken.0.len() + taken.1.as_ref().map_or(0, Vec::len) + taken.2.as_ref().map_or(0, Vec::len);
            self.taken.push_back(taken);
        }
        Ok(())
    }
}

#[pymethods]
impl DictionaryDiff {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut state = self.state.take(py)?;
        let state = &mut *state;
        if state.taken.is_empty() {
            let progress = self.progress.as_ref().map(|progress| progress.bind(py));
            run_long(py, "compare", progress, &self.watch, || state.read())?;
        }
        let Some((key, old_value, value)) = state.taken.pop_front() else { return Ok(None) };
        let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes);
        (bytes(key), old_value.map(bytes), value.map(bytes)).into_pyobject(py).map(Some)
    }
}
