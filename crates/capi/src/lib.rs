//! The C library: `include/splitpoint.h` on top of the public Rust API, and nothing more.
//!
//! ```text
//! spt_put(table, key, ...)      table.rs, views.rs, many.rs, batch.rs, scan.rs, upkeep.rs, dictionary.rs, building.rs,
//!                               diff.rs
//!   border(...)                 border.rs: stops panics, turns errors into codes, keeps their messages
//!   table.shared()?             handles.rs: from a handle to the object, or SPT_INVALID_HANDLE
//!   key.bytes(key_len)?         arguments.rs: from C's pointers to slices, or SPT_INVALID_ARGUMENT
//!   Table::put                  the library
//! ```
//!
//! The parameters of the exported functions have types that only a C caller can create (`Handle`, `In`, `Out`). Passing
//! one is the caller's promise to follow the header's rules, so their methods are safe to call, and the unsafe code is
//! in `arguments.rs`, `handles.rs` and `callbacks.rs`.
//!
//! The header documents the functions; this crate implements them.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic where a write fails
#![expect(unsafe_code, reason = "a C border")]

mod arguments;
mod batch;
mod border;
mod building;
mod callbacks;
mod dictionary;
mod diff;
mod handles;
mod hashes;
#[cfg(test)]
mod layout;
mod many;
mod memory;
mod options;
mod scan;
mod status;
mod table;
mod upkeep;
mod version;
mod views;
