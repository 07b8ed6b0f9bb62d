//! The Python package's native module, `splitpoint._splitpoint`.
//!
//! ```text
//! table.rs  batch.rs  scan.rs  first.rs   a table      dictionary.rs  build.rs  walk.rs  diff.rs   a dictionary
//! damaged.rs                         damaged tables
//! many.rs  values.rs                 many keys         sources.rs  arrow.rs               where pairs come from
//! shards.rs                          dictionaries written by several processes
//! handle.rs  long.rs  error.rs  bytes.rs  options.rs  report.rs                           shared by all of them
//! ```
//!
//! Users import the pure-Python package `splitpoint/`, which adds the methods of mappings, documents every function,
//! and defines the exceptions. The stub of this module is `splitpoint/_splitpoint.pyi`.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic where a write fails

mod arrow;
mod batch;
mod build;
mod bytes;
mod damaged;
mod dictionary;
mod diff;
mod error;
mod first;
mod handle;
mod lab;
mod long;
mod many;
mod merged;
mod options;
mod report;
mod scan;
mod shards;
mod sources;
mod table;
mod values;
mod walk;

/// The native part of the package splitpoint.
#[pyo3::pymodule]
mod _splitpoint {
    #[pymodule_export]
    use crate::batch::BatchCore;
    #[pymodule_export]
    use crate::build::build_dictionary;
    #[pymodule_export]
    use crate::damaged::restore_table;
    #[pymodule_export]
    use crate::dictionary::{DictionaryCore, DictionaryWalk};
    #[pymodule_export]
    use crate::diff::DictionaryDiff;
    #[pymodule_export]
    use crate::lab::{lab_hash, lab_schemes, lab_tune};
    #[pymodule_export]
    use crate::scan::TableScan;
    #[pymodule_export]
    use crate::shards::{NumbersCore, ShardJobCore, position_column, shard_generation, slot, slot_column};
    #[pymodule_export]
    use crate::table::TableCore;
    #[pymodule_export]
    use crate::values::ValuesCore;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::handle::remember_is_finalizing(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
