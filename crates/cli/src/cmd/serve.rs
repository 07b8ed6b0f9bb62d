//! `serve`: a table for Redis and memcached clients.

use crate::failure::{Failure, Result};
use splitpoint_server::{Options, ServeError};

/// Serve a table to Redis and memcached clients.
///
/// Without options: keys in memory, Redis clients on 127.0.0.1:6379. With --file the keys are in a table, which the
/// other commands can read, and `backup` can copy, while the server runs. All options: docs/server.md.
#[derive(clap::Args)]
pub struct Serve {
    #[command(flatten)]
    options: Options,

    /// Start no server: exit with 0 if a running server with the same options answers
    #[arg(long)]
    health_check: bool,
}

impl Serve {
    pub fn run(self) -> Result<()> {
        let done = if self.health_check {
            splitpoint_server::check_health(self.options)
        } else {
            splitpoint_server::run(self.options)
        };
        done.map_err(|error| match error {
            ServeError { usage: true, message, .. } => Failure::usage(message),
            ServeError { kind, message, .. } => Failure::of_kind(kind.unwrap_or(splitpoint::ErrorKind::Io), message),
        })
    }
}
