//! Iterators over a table, in hash order.
//!
//! They read a few hundred pairs at a time and hold no lock in between, so the table may be changed and closed while an
//! iterator exists.

use crate::handle::Turns;
use crate::table::TableCore;
use crate::walk::Walk;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use splitpoint::Table;

/// Pairs read together; more only if they have the same hash.
pub const PAIRS: usize = 256;
/// The most bytes of pairs read together, unless a single pair has more.
const BYTES: usize = 1 << 20;

/// The part of each pair that an iterator returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Give {
    Keys,
    Values,
    Pairs,
}

impl Give {
    pub fn item<'py>(self, py: Python<'py>, (key, value): (&[u8], &[u8])) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Give::Keys => PyBytes::new(py, key).into_any(),
            Give::Values => PyBytes::new(py, value).into_any(),
            Give::Pairs => PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])?.into_any(),
        })
    }
}

/// Pairs that were read, concatenated, and the cursor after each.
#[derive(Default)]
pub struct Pairs {
    bytes: Vec<u8>,
    /// The ends of a key and its value in `bytes`, and the cursor after the pair.
    ends: Vec<(usize, usize, Option<u64>)>,
}

impl Pairs {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn pair(&self, index: usize) -> (&[u8], &[u8]) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (key_end, end, _) = self.ends[index];
        (&self.bytes[start..key_end], &self.bytes[key_end..end])
    }

    /// Reads the next pairs from `cursor` on, about `pairs_max` of them.
    pub fn read(&mut self, table: &Table, cursor: u64, pairs_max: usize) -> splitpoint::Result<()> {
        self.bytes.clear();
        self.ends.clear();
        let mut scan = table.scan_from(cursor);
        while (self.len() < pairs_max && !self.is_full()) || !scan.at_boundary() {
            let Some(pair) = scan.next_ref()? else { break };
            self.push(pair);
            let cursor = scan.cursor();
            self.ends.last_mut().expect("just pushed").2 = cursor;
        }
        Ok(())
    }

    /// Reads the next pairs of a walk over a dictionary, which has no cursors.
    pub fn read_walk(&mut self, walk: &mut Walk) -> splitpoint::Result<()> {
        self.bytes.clear();
        self.ends.clear();
        while !self.is_full() && walk.next(|pair| self.push(pair))? {}
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.len() >= PAIRS || self.bytes.len() >= BYTES
    }

    fn push(&mut self, (key, value): (&[u8], &[u8])) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len(), None));
    }

    /// The cursor after pair `index`.
    pub fn cursor_after(&self, index: usize) -> Option<u64> {
        self.ends[index].2
    }
}

struct State {
    pairs: Pairs,
    given: usize,
    /// Whether nothing was read yet and the iterator starts at the beginning of the table.
    begins: bool,
    /// The cursor after the pairs read so far; `None` at the end.
    cursor: Option<u64>,
}

/// An iterator over a table's keys, values or pairs, in hash order.
#[pyclass(frozen, module = "splitpoint._splitpoint")]
pub struct TableScan {
    table: Py<TableCore>,
    give: Give,
    state: Turns<State>,
}

impl TableScan {
    /// An iterator from `cursor` on; 0 is the beginning.
    pub fn new(table: Py<TableCore>, cursor: u64, give: Give) -> Self {
        let state = State { pairs: Pairs::default(), given: 0, begins: cursor == 0, cursor: Some(cursor) };
        TableScan { table, give, state: Turns::new(state) }
    }
}

#[pymethods]
impl TableScan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut state = self.state.take(py)?;
        let State { pairs, given, begins, cursor } = &mut *state;
        if *given == pairs.len() {
            let Some(from) = *cursor else { return Ok(None) };
            *given = 0;
            let table = self.table.get();
            let read = if *begins { table.read_first(py, pairs) } else { table.read_from(py, pairs, from) };
            if let Err(error) = read {
                *pairs = Pairs::default(); // the next call tries again
                return Err(error);
            }
            *begins = false;
            if pairs.len() == 0 {
                *cursor = None;
                return Ok(None);
            }
        }
        let item = self.give.item(py, pairs.pair(*given))?;
        *cursor = pairs.cursor_after(*given);
        *given += 1;
        Ok(Some(item))
    }

    /// The cursor at which a later scan continues; `None` at the end.
    #[getter]
    fn cursor(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.state.take(py)?.cursor)
    }
}
