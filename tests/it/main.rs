//! The integration tests, one binary: one link, one run. A module a subject.
//!
//! | module | what is there |
//! |---|---|
//! | `spt` | a second reader of the file format, written from docs/format.md |
//! | `golden` | how each file of `fixtures/v1` came about, and what is in it |
//! | `format` | golden files and docs/format.md against the library and the second reader |
//! | `corruption` | damaged files: a value or an error, never a panic, a hang or a flood |
//! | `foreign` | files that are no table: what the error says |
//! | `history` | is there an order that explains what threads saw? |
//! | `threads` | threads at work on one table: histories, scans |
//! | `tidy` | the repository itself |
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests look at files from outside the library's seam"
)]

mod corruption;
mod foreign;
mod format;
mod golden;
mod history;
mod spt;
mod threads;
mod tidy;
