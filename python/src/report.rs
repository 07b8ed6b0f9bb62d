//! Figures of a table and a dictionary as dictionaries of Python, which `splitpoint/figures.py` makes dataclasses of.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use splitpoint::dictionary::{Compression, DictionaryStat};
use splitpoint::{Fault, SalvageReport, TableCounters, TableSurvey};

/// Sets each field under its name.
macro_rules! set_fields {
    ($dict:ident, $from:expr; $($field:ident),* $(,)?) => {
        $($dict.set_item(stringify!($field), &$from.$field)?;)*
    };
}

pub fn fault_list(faults: Vec<Fault>) -> Vec<String> {
    faults.iter().map(Fault::to_string).collect()
}

pub fn survey_dict<'py>(py: Python<'py>, survey: &TableSurvey) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_fields!(dict, survey; pairs, buckets, page_bytes, frame_bytes, file_bytes, payload_bytes, bucket_bytes,
        overflow_pages, overflow_bytes, overflow_pairs, extents, extent_bytes, free_bytes, fill_percent,
        fill_target_percent, fill_factor, hash, seed, histogram, largest_bucket, empty_buckets, memory_bytes, splits,
        merges);
    Ok(dict)
}

pub fn counters_dict<'py>(py: Python<'py>, counters: &TableCounters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_fields!(dict, counters; pairs, payload_bytes, buckets, file_bytes, memory_bytes, hits, hit_pages, hit_keys,
        misses, miss_pages, miss_keys, overflow_lookups, puts, removals, splits, merges, checkpoints, frames_read,
        frames_written, evictions, latch_waits);
    Ok(dict)
}

pub fn salvage_dict<'py>(py: Python<'py>, report: &SalvageReport, faults: Vec<String>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_fields!(dict, report; verified, unverified, counted, lost_buckets, losses, conflicts, log_unread);
    dict.set_item("faults", faults)?;
    Ok(dict)
}

pub fn stat_dict<'py>(py: Python<'py>, stat: &DictionaryStat) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_fields!(dict, stat; shards, pairs, file_bytes, data_bytes, key_bytes, value_bytes, pages, page_bytes, index,
        index_bytes, ranks_bytes, index_bits_per_key, filter_bits, filter_bytes, fixed_lengths, key_len, value_len,
        order, hash, hash_seed);
    let details = PyDict::new(py);
    for (name, value) in &stat.index_details {
        details.set_item(name, value)?;
    }
    dict.set_item("index_details", details)?;
    let compression = match stat.compression {
        Compression::None => "none",
        Compression::Lz4 => "lz4",
        _ => "other",
    };
    dict.set_item("compression", compression)?;
    Ok(dict)
}
