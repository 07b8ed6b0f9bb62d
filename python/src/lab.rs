//! The lab's studies for Python. They return dictionaries of figures, which `splitpoint/lab.py` makes dataclasses of.

use crate::arrow::import_columns;
use crate::bytes::Bytes;
use crate::error::invalid;
use crate::long::{Watch, run_long, run_watched};
use crate::options::hash_kind;
use crate::sources::{Nulls, Pair, feed};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use splitpoint::hash::{HashFunction, HashKind};
use splitpoint_lab::keys::Keys;
use splitpoint_lab::schemes::{self, Distinct, Options, SchemeKind};
use splitpoint_lab::study::{Buckets, Cost, Duplicates, FunctionReport, Level, Report, Study, StudyError};
use splitpoint_lab::tune::{self, Sample, Settings};
use std::time::Duration;

/// The number of keys between two checks for Ctrl-C.
const KEYS_BETWEEN_LOOKS: usize = 1 << 14;

/// Makes a Python dictionary with these items.
macro_rules! dict {
    ($py:expr; $($name:ident: $value:expr),* $(,)?) => {{
        let dict = PyDict::new($py);
        $(dict.set_item(stringify!($name), $value)?;)*
        dict
    }};
}

/// The keys of an iterable, an Arrow array or a stream of arrays, copied.
fn keys_of(keys: &Bound<'_, PyAny>) -> PyResult<Keys> {
    let mut all = Keys::new();
    if keys.hasattr("__arrow_c_array__")? || keys.hasattr("__arrow_c_stream__")? {
        for column in import_columns(keys)? {
            (0..column.len()).filter_map(|row| column.value(row)).for_each(|key| all.push(key));
        }
        return Ok(all);
    }
    for key in keys.try_iter()? {
        all.push(&key?.extract::<Bytes<'_>>()?);
        if all.len().is_multiple_of(KEYS_BETWEEN_LOOKS) {
            keys.py().check_signals()?;
        }
    }
    Ok(all)
}

/// Compares hash functions on keys.
#[pyfunction]
#[pyo3(signature = (keys, functions, bits, buckets, seed, memory_bytes, threads, keys_shown, speed, /))]
#[expect(clippy::too_many_arguments, reason = "the fields of Study; the Python function has names for them")]
pub fn lab_hash<'py>(
    keys: &Bound<'py, PyAny>,
    functions: Option<Vec<String>>,
    bits: Option<u32>,
    buckets: Option<u64>,
    seed: u64,
    memory_bytes: u64,
    threads: Option<usize>,
    keys_shown: usize,
    speed: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let py = keys.py();
    let kinds = match functions {
        None => HashKind::ALL.to_vec(),
        Some(names) => names.iter().map(|name| hash_kind(name)).collect::<PyResult<_>>()?,
    };
    let buckets = match (bits, buckets) {
        (Some(_), Some(_)) => return Err(invalid("bits and buckets exclude each other")),
        (Some(bits), None) => Buckets::Bits(bits),
        (None, Some(buckets)) => Buckets::Count(buckets),
        (None, None) => Buckets::Auto,
    };
    let functions = kinds.into_iter().map(|kind| HashFunction::new(kind, seed)).collect();
    let study = Study { functions, buckets, seed, memory_bytes, keys_shown, speed, ..Study::default() };
    let study = Study { threads: threads.unwrap_or(study.threads), ..study };
    let keys = keys_of(keys)?;
    let watch = Watch::default();
    let report = run_watched(py, "study", None, &watch, || {
        study.run(&mut |take| {
            for (index, key) in keys.iter().enumerate() {
                if index.is_multiple_of(KEYS_BETWEEN_LOOKS) && watch.proceed().is_break() {
                    return Err("stopped");
                }
                take(key);
            }
            Ok(())
        })
    })?;
    let report = report.map_err(|error: StudyError<&str>| invalid(error))?;
    hash_report(py, &report)
}

fn hash_report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let survey = &report.survey;
    let (duplicates, estimated) = match survey.duplicates {
        Duplicates::LeftOut(count) => (count, false),
        Duplicates::Estimated(count) => (count, true),
    };
    let functions = PyList::empty(py);
    for function in &report.functions {
        functions.append(function_report(py, function)?)?;
    }
    let advice = dict!(py;
        function: &report.advice.function, buckets: report.advice.buckets, text: &report.advice.text);
    Ok(dict!(py;
        keys: survey.rows, key_bytes: survey.bytes, shortest: survey.shortest, longest: survey.longest,
        duplicates: duplicates, duplicates_estimated: estimated, functions: functions, advice: advice))
}

fn function_report<'py>(py: Python<'py>, report: &FunctionReport) -> PyResult<Bound<'py, PyDict>> {
    let levels = PyList::empty(py);
    for level in &report.levels {
        levels.append(level_dict(py, level)?)?;
    }
    let largest_keys = PyList::new(py, report.largest_keys.iter().map(|key| PyBytes::new(py, key)))?;
    let avalanche = report.avalanche.as_ref().map(|avalanche| -> PyResult<_> {
        Ok(dict!(py;
            output_bits: avalanche.output_bits, mean_bias: avalanche.mean_bias(), worst_bias: avalanche.worst_bias(),
            expected_mean_bias: avalanche.expected_mean_bias(), flips: &avalanche.flips))
    });
    Ok(dict!(py;
        name: report.function.name(), seed: report.function.seed(), bits: report.bits, spread: report.class.name(),
        levels: levels, largest_keys: largest_keys, avalanche: avalanche.transpose()?,
        ns_per_hash: report.speed.as_ref().map(|speed| speed.own_ns),
        ns_by_length: report.speed.as_ref().map(|speed| speed.by_length.clone())))
}

fn level_dict<'py>(py: Python<'py>, level: &Level) -> PyResult<Bound<'py, PyDict>> {
    let histogram: Vec<_> = level
        .histogram
        .iter()
        .map(|row| (row.size, row.buckets, row.objects, row.cumulative_percent, row.expected_buckets))
        .collect();
    let layouts = PyDict::new(py);
    let cost = |cost: Cost| (cost.successful, cost.unsuccessful, cost.cache_lines_successful);
    layouts.set_item("chains", cost(level.layouts.chains))?;
    layouts.set_item("linear", level.layouts.linear.map(cost))?;
    layouts.set_item("pages", level.layouts.pages.map(cost))?;
    let expected = level.expected;
    Ok(dict!(py;
        buckets: level.buckets, objects: level.objects, empty: level.empty, largest: level.largest,
        histogram: histogram, compared_successful: level.compared_successful,
        compared_unsuccessful: level.compared_unsuccessful,
        compared_unsuccessful_uniform: level.compared_unsuccessful_uniform, expected_empty: expected.empty,
        expected_largest: expected.largest, expected_compared_successful: expected.compared_successful,
        expected_compared_unsuccessful: expected.compared_unsuccessful, chi_square: level.chi_square,
        degrees: level.degrees, p_value: level.p_value, layouts: layouts))
}

/// Inserts keys into models of access methods and measures the models as they grow.
#[pyfunction]
#[pyo3(signature = (keys, names, value_bytes, page_bytes, nelem, fill_factor, function, points, /))]
#[expect(clippy::too_many_arguments, reason = "the options of the models; the Python function has names for them")]
pub fn lab_schemes<'py>(
    keys: &Bound<'py, PyAny>,
    names: Option<Vec<String>>,
    value_bytes: usize,
    page_bytes: usize,
    nelem: Option<usize>,
    fill_factor: Option<u64>,
    function: Option<&str>,
    points: usize,
) -> PyResult<Bound<'py, PyList>> {
    let py = keys.py();
    let kind_of = |name: &String| {
        let known: Vec<_> = SchemeKind::ALL.iter().map(|kind| kind.name()).collect();
        SchemeKind::from_name(name)
            .ok_or_else(|| invalid(format!("scheme is {name:?}, expected one of {}", known.join(", "))))
    };
    let kinds = names.map_or_else(|| Ok(SchemeKind::ALL.to_vec()), |names| names.iter().map(kind_of).collect())?;
    let keys = keys_of(keys)?;
    let distinct = Distinct::of(&keys);
    if distinct.is_empty() {
        return Err(invalid("no keys"));
    }
    let options = Options {
        page_bytes,
        nelem: nelem.unwrap_or(distinct.len()),
        fill_factor,
        average_pair_bytes: distinct.average_bytes() + value_bytes,
        function: function.map(hash_kind).transpose()?,
    };
    if let Some(what) = options.invalid() {
        return Err(invalid(what));
    }
    let absent = schemes::absent_keys(&distinct);
    let studies = PyList::empty(py);
    for kind in kinds {
        let watch = Watch::default();
        let study = run_watched(py, "scheme", None, &watch, || {
            let lengths = value_bytes..=value_bytes;
            schemes::Study::run(kind, &distinct, &absent, &lengths, points.max(1), &options, &|| watch.proceed())
        })?;
        if let Some(study) = study {
            studies.append(scheme_study(py, &study)?)?;
        }
    }
    Ok(studies)
}

fn scheme_study<'py>(py: Python<'py>, study: &schemes::Study) -> PyResult<Bound<'py, PyDict>> {
    let points = PyList::empty(py);
    for point in &study.points {
        let figures = &point.figures;
        points.append(dict!(py;
            keys: point.keys, refused: point.refused, touched_per_successful: point.touched_per_successful,
            touched_per_unsuccessful: point.touched_per_unsuccessful,
            touched_per_successful_most: point.touched_per_successful_most,
            pairs: figures.pairs, pair_bytes: figures.pair_bytes, store_bytes: figures.store_bytes,
            file_bytes: figures.file_bytes, addressing_bytes: figures.addressing_bytes, splits: figures.splits,
            longest_pause: figures.longest_pause, utilisation_percent: figures.utilisation_percent()))?;
    }
    let refusals: Vec<_> = study.refusals.iter().map(|refusal| (refusal.reason.to_string(), refusal.count)).collect();
    Ok(dict!(py;
        name: study.kind.name(), on_disk: study.kind.on_disk(), function: study.function, points: points,
        refusals: refusals, given_up_at: study.given_up.map(|given_up| given_up.keys)))
}

/// Measures which settings suit the given pairs.
#[pyfunction]
#[pyo3(signature = (pairs, key_column, value_column, seconds, sample_bytes, directory, /))]
pub fn lab_tune<'py>(
    pairs: &Bound<'py, PyAny>,
    key_column: Option<&str>,
    value_column: Option<&str>,
    seconds: f64,
    sample_bytes: usize,
    directory: std::path::PathBuf,
) -> PyResult<Bound<'py, PyDict>> {
    let py = pairs.py();
    let mut sample = Sample::new(sample_bytes);
    feed(pairs, (key_column, value_column), Nulls::Refused, None, |pairs: &[Pair<'_>]| {
        pairs.iter().for_each(|(key, value)| sample.push(key, value.unwrap_or_default()));
        Ok(true)
    })?;
    if sample.is_empty() {
        return Err(invalid("no pairs"));
    }
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| invalid(format!("{seconds} seconds")))?;
    let watch = Watch::default();
    let report = run_long(py, "tune", None, &watch, || {
        tune::tune(&sample, time, &directory, &mut |_| watch.proceed().is_continue())
    })?;
    let report = report.ok_or_else(|| invalid("stopped"))?;
    let settings =
        |settings: &Settings| (settings.page_bytes, settings.fill_factor, settings.hash.name(), settings.presized);
    let sweep: Vec<_> = report
        .sweep
        .iter()
        .map(|tried| {
            let figures = (
                tried.median(|m| m.load_ns),
                tried.median(|m| m.get_ns),
                tried.median(|m| m.file_bytes),
                tried.score(),
            );
            (settings(&tried.settings), figures)
        })
        .collect();
    let functions: Vec<_> = report
        .functions
        .iter()
        .map(|f| (f.kind.name(), f.hash_ns, f.dispersion, f.uneven, f.largest_bucket, f.table.score()))
        .collect();
    let caches: Vec<_> = report.caches.iter().map(|c| (c.share, c.cache_bytes, c.get_ns, c.reads_per_get)).collect();
    Ok(dict!(py;
        pairs: report.pairs, rounds: report.rounds, sweep: sweep, functions: functions, caches: caches,
        noise: report.noise, advice: settings(&report.advice)))
}
