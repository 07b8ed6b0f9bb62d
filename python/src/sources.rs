//! Sources of pairs: a Python iterable, or a stream of Arrow record batches.
//!
//! In both cases a sink gets the pairs in parts, without the interpreter lock, with a check for Ctrl-C between parts.

use crate::arrow::{Arrays, has_tables, pair_columns};
use crate::bytes::Bytes;
use crate::error::{OrRaise, invalid, wrong_type};
use arrow_array::Array;
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::time::{Duration, Instant};

/// A key, and its value; `None` for a key to remove.
pub type Pair<'p> = (&'p [u8], Option<&'p [u8]>);

/// The meaning of a value that is `None` or null.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// An error.
    Refused,
    /// The key is removed.
    Remove,
}

/// The most pairs of a part: few enough that a part, with its references, stays in the cache.
const PAIRS: usize = 4096;
/// The most bytes of a part, unless a single pair has more.
const BYTES: usize = 1 << 20;
/// The interval of progress reports.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// Passes all pairs of `source` to `sink`; returns their number, or `None` if the sink stopped by returning `false`.
///
/// # Errors
/// Errors of the source and the sink; `TypeError` or `ValueError` for an item that is not a pair of bytes;
/// `KeyboardInterrupt`.
pub fn feed(
    source: &Bound<'_, PyAny>,
    columns: (Option<&str>, Option<&str>),
    nulls: Nulls,
    progress: Option<&Bound<'_, PyAny>>,
    sink: impl FnMut(&[Pair<'_>]) -> splitpoint::Result<bool> + Send,
) -> PyResult<Option<u64>> {
    let mut feed = Feed { py: source.py(), nulls, progress, sink, count: 0, reported: Instant::now() };
    let all = if has_tables(source)? { feed.tables(source, columns)? } else { feed.iterable(source)? };
    if let (true, Some(progress)) = (all, progress) {
        progress.call1(("read", feed.count, source.py().None()))?;
    }
    Ok(all.then_some(feed.count))
}

struct Feed<'f, 'py, S> {
    py: Python<'py>,
    nulls: Nulls,
    progress: Option<&'f Bound<'py, PyAny>>,
    sink: S,
    count: u64,
    reported: Instant,
}

impl<S: FnMut(&[Pair<'_>]) -> splitpoint::Result<bool> + Send> Feed<'_, '_, S> {
    fn tables(&mut self, source: &Bound<'_, PyAny>, columns: (Option<&str>, Option<&str>)) -> PyResult<bool> {
        // Read the batches of a pyarrow reader directly, since its stream would turn an exception into a message.
        let read_next = match source.hasattr("read_next_batch")? {
            true => {
                Arrays::none_of(&source.getattr("schema")?)?.pair_numbers(columns.0, columns.1)?;
                source.getattr("read_next_batch")?
            }
            false => return self.table(Arrays::of(source)?, columns),
        };
        loop {
            let batch = match read_next.call0() {
                Err(end) if end.is_instance_of::<PyStopIteration>(self.py) => return Ok(true),
                batch => batch?,
            };
            if !self.table(Arrays::of(&batch)?, columns)? {
                return Ok(false);
            }
        }
    }

    fn table(&mut self, mut arrays: Arrays, (key, value): (Option<&str>, Option<&str>)) -> PyResult<bool> {
        let py = self.py;
        let numbers = arrays.pair_numbers(key, value)?;
        let names = arrays.column_names()?;
        loop {
            let Some(batch) = arrays.next(py)? else { return Ok(true) };
            let (keys, values) = pair_columns(&batch, numbers, &names)?;
            for start in (0..batch.len()).step_by(PAIRS) {
                let rows = start..batch.len().min(start + PAIRS);
                let (sink, nulls, before) = (&mut self.sink, self.nulls, self.count);
                let count = rows.len() as u64;
                let more = py.detach(|| -> Result<bool, Refused> {
                    let mut pairs = Vec::with_capacity(rows.len());
                    for (row, number) in rows.zip(before..) {
                        let key = keys.value(row).ok_or(Refused::Null("key", number))?;
                        let value = values.value(row);
                        if value.is_none() && nulls == Nulls::Refused {
                            return Err(Refused::Null("value", number));
                        }
                        pairs.push((key, value));
                    }
                    sink(&pairs).map_err(Refused::Sink)
                });
                if !more.map_err(|refused| refused.exception(py))? {
                    return Ok(false);
                }
                self.look(count)?;
            }
        }
    }

    fn iterable(&mut self, source: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = self.py;
        let mut items = source.try_iter()?;
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        loop {
            bytes.clear();
            ends.clear();
            while ends.len() < PAIRS && bytes.len() < BYTES {
                let Some(item) = items.next().transpose()? else { break };
                let number = self.count + ends.len() as u64;
                let (key, value) = pair_of(&item, number)?;
                bytes.extend_from_slice(&key.extract::<Bytes<'_>>()?);
                let key_end = bytes.len();
                let is_pair = !value.is_none();
                if is_pair {
                    bytes.extend_from_slice(&value.extract::<Bytes<'_>>()?);
                } else if self.nulls == Nulls::Refused {
                    return Err(Refused::Null("value", number).exception(py));
                }
                ends.push((key_end, bytes.len(), is_pair));
            }
            if ends.is_empty() {
                return Ok(true);
            }
            let sink = &mut self.sink;
            let more = py.detach(|| {
                let mut start = 0;
                let pair = |&(key_end, end, is_pair): &(usize, usize, bool)| {
                    let key = &bytes[std::mem::replace(&mut start, end)..key_end];
                    (key, is_pair.then(|| &bytes[key_end..end]))
                };
                let pairs: Vec<Pair<'_>> = ends.iter().map(pair).collect();
                sink(&pairs)
            });
            if !more.or_raise(py)? {
                return Ok(false);
            }
            self.look(ends.len() as u64)?;
        }
    }

    /// Counts pairs, checks for Ctrl-C, and reports progress.
    fn look(&mut self, pairs: u64) -> PyResult<()> {
        self.count += pairs;
        self.py.check_signals()?;
        if let Some(progress) = self.progress
            && self.reported.elapsed() >= REPORT_EVERY
        {
            self.reported = Instant::now();
            progress.call1(("read", self.count, self.py.None()))?;
        }
        Ok(())
    }
}

fn pair_of<'py>(item: &Bound<'py, PyAny>, number: u64) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if !item.is_instance_of::<PyTuple>() && !item.is_instance_of::<PyList>() {
        let class = item.get_type().name()?;
        return Err(wrong_type(format!(
            "pair {}: expected a tuple of a key and a value, not {class}; pass an iterable of tuples, a mapping, or an \
             Arrow table",
            number + 1
        )));
    }
    match item.len()? {
        2 => Ok((item.get_item(0)?, item.get_item(1)?)),
        len => Err(invalid(format!("pair {}: has {len} items; 2 are required, a key and a value", number + 1))),
    }
}

/// Why a part was refused.
enum Refused {
    /// The key or the value of a row.
    Null(&'static str, u64),
    Sink(splitpoint::Error),
}

impl Refused {
    fn exception(self, py: Python<'_>) -> PyErr {
        match self {
            Refused::Null(what, number) => invalid(format!("pair {}: the {what} is null", number + 1)),
            Refused::Sink(error) => crate::error::exception(py, &error),
        }
    }
}
