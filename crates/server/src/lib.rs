//! The server: a table for Redis and memcached clients, without stalls.
//!
//! ```text
//! run ── options, listeners, threads, signals
//!  └─ connection ── session (a trait: one per protocol)     bytes in, bytes out
//!      └─ resp::session ── resp::parse, command::*          requests of one read become batches
//!          └─ keyspace ── splitpoint::Table                 values, lifetimes, transactions, eviction
//!              └─ dictionary ── splitpoint::Dictionary      or read-only, as a node of a cluster
//! ```
//!
//! docs/architecture.md, "Server", follows one read through all of it. Operating it: docs/server.md.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic where a write fails

pub mod channels;
pub mod clients;
pub mod command;
pub mod connection;
pub mod dictionary;
pub mod figures;
mod foreign;
pub mod housekeeping;
pub mod http;
pub mod keyspace;
pub mod memcached;
pub mod options;
mod planted;
pub mod resp;
pub mod run;
pub mod server;
pub mod session;
pub mod settings;
mod size;
pub mod slow_log;
pub mod syncer;
mod systemd;
mod threads;
pub mod tls;
pub mod watcher;

pub use options::{Options, ServeError};
pub use run::run;
pub use size::parse_size;
