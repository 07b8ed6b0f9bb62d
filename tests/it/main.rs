//! The integration tests in one binary: one link, one run. One module per subject.
//!
//! | module | what is there |
//! |---|---|
//! | `spt` | a second reader of the file format, written from docs/format.md |
//! | `golden` | how each file of `fixtures/v1` was made, and its content |
//! | `format` | golden files and docs/format.md against the library and the second reader |
//! | `fields` | where the fields of a file are, for tests that damage them |
//! | `log_format` | the write-ahead log in docs/format.md and in the crashed golden table, against both readers |
//! | `corruption` | damaged files: a value or an error, never a panic, a hang or excessive memory |
//! | `seeds` | inputs of the fuzz targets, and `targets`, which run them (fuzz/src/targets) |
//! | `foreign` | files that are not tables: the error messages |
//! | `recovery` | opening a table after a crash of the process |
//! | `positions` | positions in hash order and slots of keys, which other languages must compute the same way |
//! | `processes` | processes killed at work, full disks, several processes on one table |
//! | `backup` | backups of tables in use, and restoring them |
//! | `contents` | contents of checkpoints, backups and readers while threads write |
//! | `salvage` | pairs salvaged from damaged files, and that they are right |
//! | `history` | searches for an order of calls that explains the threads' results |
//! | `threads` | threads using one table: histories, scans |
//! | `spd` | a second reader of dictionaries, written from docs/dictionary-format.md |
//! | `dictionaries` | golden dictionaries, damaged ones, absent keys |
//! | `make` | scripts of the Makefile: where cargo builds, stages of `make test` |
//! | `tidy` | the repository itself |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at files from outside the library's seam"
)]

mod backup;
mod contents;
mod corruption;
mod dictionaries;
mod fields;
mod foreign;
mod format;
mod golden;
mod history;
mod log_format;
mod make;
mod positions;
mod processes;
mod recovery;
mod salvage;
mod seeds;
mod spd;
mod spt;
#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;
mod threads;
mod tidy;
