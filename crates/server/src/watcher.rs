//! A thread that checks for the next generation of a dictionary, once a second and at SIGHUP.
//!
//! ```text
//! open the next generation while the current one is served -> close the gate -> replace -> free the old one
//! ```
//!
//! If the next generation cannot be served, that is logged once, and the current one stays.

use crate::dictionary::Served;
use crate::keyspace::{KeySpace, Patience, now_ms};
use crate::server::Server;
use std::sync::Weak;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Starts the thread. It ends when the server is gone.
///
/// # Errors
/// Returns the errors of starting a thread.
pub(crate) fn start(server: Weak<Server>) -> std::io::Result<()> {
    let run = move || {
        let mut read_topology = false;
        loop {
            let Some(served) = server.upgrade().and_then(|server| server.space.dictionary().cloned()) else { return };
            read_topology |= served.wait(LOOK_EVERY);
            let Some(server) = server.upgrade() else { return };
            let new = look(&served, &server.space, read_topology);
            // A topology that could not be used is read again each time until it can.
            read_topology &= new.is_none();
            if new == Some(true) {
                server.saved_at_s.store(now_ms() / 1000, Relaxed);
                let now = served.now();
                tracing::info!(generation = now.number(), keys = now.slots.keys(), "serving a new generation");
            }
        }
    };
    std::thread::Builder::new().name("dictionary".into()).spawn(run).map(drop)
}

/// Checks once. Returns whether a new generation is served now; `None` after an error.
fn look(served: &Served, space: &KeySpace, read_topology: bool) -> Option<bool> {
    let next = served.next(read_topology);
    let before = served.note_failure(next.as_ref().err().cloned());
    match next {
        Ok(Some(next)) => {
            next.warn();
            // Exclusive, so that a transaction reads all its keys from one generation.
            let alone = space.close(Patience::MayWait);
            let old = served.exchange(next);
            space.touch_watched();
            drop(alone);
            drop(old);
            Some(true)
        }
        Ok(None) => {
            if before.is_some() {
                tracing::info!("what cannot be served is gone; the earlier generation stays");
            }
            Some(false)
        }
        Err(error) => {
            // Log it once, not each second.
            if before.as_ref() != Some(&error) {
                tracing::error!(%error, "what is new cannot be served; the earlier generation stays");
            }
            None
        }
    }
}
