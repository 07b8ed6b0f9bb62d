//! The integration tests, one binary: one link, one run. A module a subject.
//!
//! | module | what is there |
//! |---|---|
//! | `spt` | a second reader of the file format, written from docs/format.md |
//! | `golden` | how each file of `fixtures/v1` came about, and what is in it |
//! | `format` | golden files and docs/format.md against the library and the second reader |
//! | `fields` | where the fields of a file are, for tests that damage them |
//! | `log_format` | the write-ahead log in docs/format.md and in the crashed golden table, against both readers |
//! | `corruption` | damaged files: a value or an error, never a panic, a hang or a flood |
//! | `seeds` | inputs of the fuzz targets, and `targets`, what those do with them (fuzz/src/targets) |
//! | `foreign` | files that are no table: what the error says |
//! | `recovery` | what a crash of the process leaves, opened again |
//! | `positions` | places in hash order and slots of keys, which other languages compute alike |
//! | `processes` | processes killed at work, full disks, several processes on one table |
//! | `backup` | backups of tables in use, and restoring them |
//! | `contents` | what checkpoints, backups and readers hold beside threads that write |
//! | `salvage` | what comes out of damaged files, and that it is right |
//! | `history` | is there an order that explains what threads saw? |
//! | `threads` | threads at work on one table: histories, scans |
//! | `spd` | a second reader of dictionaries, written from docs/dictionary-format.md |
//! | `dictionaries` | golden dictionaries, damaged ones, keys that are not there |
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
