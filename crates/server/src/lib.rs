//! The server: a table for Redis and memcached clients, without stalls.
//!
//! ```text
//! run ── options, listeners, threads, signals
//!  └─ connection ── session (a trait: one per protocol)     bytes in, bytes out
//!      └─ resp, memcached ── parse, batches                 requests of one read become batches
//!          └─ command ── dispatch, handlers, state          what requests mean
//!              └─ server ── clients, figures, settings      what all connections share
//!                  └─ keyspace ── splitpoint::Table         values, lifetimes, transactions, eviction
//!                      └─ dictionary                        or read-only, as a node of a cluster
//! ```
//!
//! `command::{call, reply, spec}` are below `server`, which counts and logs commands.
//!
//! docs/architecture.md, "Server", follows one read through all of it. Operating it: docs/server.md.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))] // they panic where a write fails

mod blocked;
mod channels;
mod clients;
mod command;
mod connection;
mod dictionary;
mod figures;
mod foreign;
mod health;
mod housekeeping;
mod http;
pub mod keyspace;
pub mod memcached;
mod monitors;
mod notices;
mod options;
pub mod rdb;
pub mod recovery;
pub mod resp;
mod run;
mod scripts;
pub mod server;
pub mod session;
pub mod settings;
mod size;
mod slow_log;
mod syncer;
mod systemd;
mod threads;
mod tls;
mod tracking;
mod unix_socket;
mod users;
mod watcher;

pub use health::ask as check_health;
pub use options::{Options, ServeError};
pub use run::run;
pub use size::parse_size;
