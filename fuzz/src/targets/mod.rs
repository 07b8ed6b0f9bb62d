//! The fuzz targets: each takes any bytes, and panics if the library does something wrong.
//!
//! * `dictionary`: a dictionary file, or damage to a good one, with checksums that fit if the input says so. Every call
//!   returns a value or an error; the ways to look up agree.
//! * `open`: a table file, or damage to a good one, and operations on it. Every call returns a value or an error; the
//!   file stays in proportion.
//! * `replay`: a log with a good table: edits of a good one with right checksums, or any bytes. A table that opens is
//!   whole, has what a second reader finds, and the same when it is opened again.
//! * `ops`: operations on a new table. The answers are those of a `BTreeMap`; the table is whole.
//!
//! A target does not notice a hang. Its runner does: the fuzzer by `-timeout`, `tests/it/seeds.rs` by its own clock.
//! The fuzzer also bounds memory (`fuzz/src/lib.rs`).
//!
//! Bytes are decoded by hand (`input.rs`): few lines, and what a seed means does not change with a dependency.

mod base;
mod damage;
pub mod dictionary;
mod input;
pub mod open;
pub mod ops;
pub mod replay;

use std::path::{Path, PathBuf};

/// Runs an input; panics if something is wrong.
pub type Target = fn(&[u8]);

/// All of them by name: the name of a program, and of a folder in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] =
    &[("dictionary", dictionary::run), ("open", open::run), ("ops", ops::run), ("replay", replay::run)];

/// An empty directory, where syncing costs nothing if there is such a place.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory for a table")
}

/// The sidecar file of the table `path` with this suffix.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
