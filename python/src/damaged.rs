//! Damaged tables: salvages pairs from a damaged file, and restores a file from a backup.

use crate::handle::InUse;
use crate::long::{Watch, run_long};
use crate::report::salvage_dict;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use splitpoint::{Backup, Salvaged, Table};
use std::path::PathBuf;

/// The most pairs stored together.
const PAIRS: usize = 256;
/// The most bytes stored together, unless a single pair has more.
const BYTES: usize = 1 << 20;

/// Pairs that were read and are not stored yet.
#[derive(Default)]
struct Batch {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, key: &[u8], value: &[u8], table: &Table) -> splitpoint::Result<()> {
        self.pairs.push((key.to_vec(), value.to_vec()));
        self.bytes += key.len() + value.len();
        if self.pairs.len() < PAIRS && self.bytes < BYTES { Ok(()) } else { self.store(table) }
    }

    fn store(&mut self, table: &Table) -> splitpoint::Result<()> {
        self.bytes = 0;
        table.put_many(&std::mem::take(&mut self.pairs))
    }
}

/// Stores the pairs that can be read from the file at `path` in `table`; returns the figures and the faults.
pub fn salvage_into<'py>(
    py: Python<'py>,
    path: PathBuf,
    table: InUse<'_, Table>,
    only_verified: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let watch = &Watch::default();
    let (report, faults) = run_long(py, "salvage", progress, watch, move || {
        let (mut batch, mut faults, mut failed) = (Batch::default(), Vec::new(), None);
        let report = splitpoint::salvage(path, |found| {
            let stored = match found {
                Salvaged::Pair { key, value, verified, .. } if verified || !only_verified => {
                    batch.push(key, value, &table)
                }
                Salvaged::Types(types) => table.adopt_types(types),
                Salvaged::Fault(fault) => {
                    faults.push(fault.to_string());
                    Ok(())
                }
                Salvaged::Progress { done, all, .. } => return watch.report(done, all),
                _ => Ok(()),
            };
            match stored {
                Ok(()) => watch.proceed(),
                Err(error) => {
                    failed = Some(error);
                    std::ops::ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        batch.store(&table)?;
        Ok((report, faults))
    })?;
    salvage_dict(py, &report, faults)
}

/// Replaces the table at `path` with a backup, which is checked first.
#[pyfunction]
#[pyo3(signature = (backup, path, overwrite, progress, /))]
pub fn restore_table(
    py: Python<'_>,
    backup: PathBuf,
    path: PathBuf,
    overwrite: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let watch = &Watch::default();
    run_long(py, "restore", progress, watch, move || {
        let mut new = Backup::new().overwrite(overwrite).progress(|done, all| watch.report(done, all));
        new.restore(&backup, &path)
    })
}
