//! Building and updating dictionaries from Python data.

use crate::error::OrRaise;
use crate::long::{Watch, run_long};
use crate::merged::Merged;
use crate::options::BuildOptions;
use crate::sources::{Nulls, Pair, feed};
use pyo3::prelude::*;
use splitpoint::{Dictionary, DictionaryBuilder};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes `builder` stop early when the watch says so.
///
/// The builder keeps its callback for its own lifetime, so the watch is reference-counted.
pub fn watched(builder: &DictionaryBuilder, watch: &Arc<Watch>) -> DictionaryBuilder {
    let watch = Arc::clone(watch);
    builder.clone().progress(move |progress| watch.report(progress.pairs, progress.pairs_total))
}

/// Builds a dictionary at `path`; returns the number of its pairs. `merge` makes one value of those of a repeated key.
#[pyfunction]
#[pyo3(signature = (source, path, columns, options, merge, progress, /))]
pub fn build_dictionary(
    source: &Bound<'_, PyAny>,
    path: PathBuf,
    columns: (Option<String>, Option<String>),
    options: BuildOptions,
    merge: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    let py = source.py();
    let watch = Arc::new(Watch::default());
    let builder = watched(&options.builder()?, &watch);
    let mut build = py.detach(|| builder.start(path)).or_raise(py)?;
    let columns = (columns.0.as_deref(), columns.1.as_deref());
    match merge {
        None => {
            feed(source, columns, Nulls::Refused, progress, |pairs: &[Pair<'_>]| {
                pairs.iter().try_for_each(|(key, value)| build.push(key, value.unwrap_or_default())).map(|()| true)
            })?;
        }
        Some(merge) => {
            let mut merged = Merged::new(merge, options.memory_bytes())?;
            feed(source, columns, Nulls::Refused, progress, |pairs: &[Pair<'_>]| merged.add(pairs))?;
            merged.raised()?;
            py.detach(|| merged.push_to(&mut build)).or_raise(py)?;
        }
    }
    run_long(py, "write", progress, &watch, || build.finish())
}

/// Merges changes with the dictionary at `old` into `new`; returns the number of its pairs. A value of `None` removes
/// the key.
pub fn update_dictionary(
    changes: &Bound<'_, PyAny>,
    (old, new): (&Path, &Path),
    columns: (Option<&str>, Option<&str>),
    builder: &DictionaryBuilder,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    let py = changes.py();
    let watch = Arc::new(Watch::default());
    let builder = watched(builder, &watch);
    let mut update = py.detach(|| Dictionary::update(old, new, &builder)).or_raise(py)?;
    feed(changes, columns, Nulls::Remove, progress, |pairs: &[Pair<'_>]| {
        let change = |(key, value): &Pair<'_>| match value {
            Some(value) => update.put(key, value),
            None => update.remove(key),
        };
        pairs.iter().try_for_each(change).map(|()| true)
    })?;
    run_long(py, "write", progress, &watch, || update.finish())
}
