//! Waits for the signal or command that ends the server, then for the connections to end.

use crate::options::ServeError;
use crate::server::Server;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long a shutdown waits for connections to end.
const DRAIN: Duration = Duration::from_secs(5);

/// The signals that a server knows. Watched from the start, so that one during a long replay ends the server cleanly.
pub(super) struct Signals {
    pub(super) end: EndSignals,
    hangup: Signal,
}

/// The signals that end the server.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    /// Waits for one of them; returns its name.
    pub(super) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl Signals {
    /// Starts to watch them.
    pub(super) fn watch() -> Result<Signals, ServeError> {
        let watch = |kind| signal(kind).map_err(|error| ServeError::io("signals", &error));
        let end = EndSignals { terminate: watch(SignalKind::terminate())?, interrupt: watch(SignalKind::interrupt())? };
        Ok(Signals { end, hangup: watch(SignalKind::hangup())? })
    }

    /// Waits for a signal or SHUTDOWN that ends the server, and calls `reload` at each SIGHUP before.
    pub(super) async fn until_end(mut self, server: &Server, reload: impl Fn()) {
        let end = loop {
            tokio::select! {
                signal = self.end.received() => break signal,
                () = server.shutdown.notified() => break "SHUTDOWN",
                _ = self.hangup.recv() => reload(),
            }
        };
        tracing::info!("ending: {end}");
    }
}

/// Ends the connections: each finishes its current requests, and their replies are sent.
pub(super) async fn drain(server: &Server) {
    let since = Instant::now();
    server.clients.all().iter().for_each(|client| client.kill());
    while !server.clients.is_empty() && since.elapsed() < DRAIN {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if !server.clients.is_empty() {
        tracing::warn!(connections = server.clients.len(), "ended while connections were busy");
    }
}
