//! Starts the server, accepts connections, and shuts down.
//!
//! ```text
//! options -> HTTP -> key space: tables or a dictionary -> other listeners -> threads of the event loop, each with some
//! connections
//! SIGHUP -> read limits, password, certificate and topology from their files again
//! SIGTERM, SIGINT, SHUTDOWN -> accept no new connections -> end the existing ones -> close the file
//! ```
//!
//! ```text
//! setup.rs    the log; the options as settings, users, password and certificates; SIGHUP
//! keys.rs     opens and closes the table or dictionary
//! listen.rs   opens the listeners
//! accept.rs   accepts connections, and distributes them over the threads
//! signals.rs  waits for the end, then for the connections to end
//! ```

mod accept;
mod keys;
mod listen;
mod setup;
mod signals;

use crate::command::info::resident_bytes;
use crate::housekeeping;
use crate::http::{self, Stage};
use crate::keyspace::KeySpace;
use crate::options::{DurabilityOption, Options, ServeError};
use crate::recovery::Recovery;
use crate::server::Server;
use crate::settings::Settings;
use crate::systemd;
use crate::watcher;
use accept::Workers;
use listen::Listening;
use setup::{apply, raise_descriptor_limit, reload, security, start_log};
use signals::{Signals, drain};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Serves until a signal or SHUTDOWN ends it.
///
/// # Errors
/// Wrong options, files and addresses that cannot be opened, a file that cannot be closed.
pub fn run(options: Options) -> Result<(), ServeError> {
    let flags = options.clone();
    let options = options.with_file()?;
    options.check()?;
    start_log(&options)?;
    let clients_max = raise_descriptor_limit();
    let settings = Settings::default();
    apply(&options, &settings)?;
    let security = security(&options)?;
    let listening = Listening { options: &options, needs_password: settings.needs_password(), security: &security };
    let recovery = Arc::<Recovery>::default();
    let stage = Arc::new(Stage::new(recovery.clone()));
    let runtime = runtime()?;
    let opened = runtime.block_on(async {
        let signals = Signals::watch()?;
        // First, so that it can report the opening's progress.
        let pages = listening.for_pages()?;
        if !pages.is_empty() {
            http::start(pages, &stage).map_err(|error| ServeError::io("the status page", &error))?;
        }
        keys::open(&options, recovery, signals).await
    })?;
    let Some((space, signals)) = opened else { return Ok(()) };
    let server = start_server(space, settings, &options, clients_max)?;
    let served = runtime.block_on(async {
        let (tcp, unix, _socket_file) = listening.for_clients(&server)?;
        let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let workers = Workers::start(&server, threads.max(1))?;
        let acceptors = workers.accept(&server, tcp, unix);
        stage.serve(&server);
        systemd::notify("READY=1\nSTATUS=Serving");
        signals.until_end(&server, || reload(&flags, &server, &security)).await;
        systemd::notify("STOPPING=1");
        server.scripts.running.stop();
        acceptors.iter().for_each(|task| task.abort());
        drain(&server).await;
        Ok(())
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    keys::close(&server.space)
}

/// Creates the state that connections share, and starts the threads that look after it.
fn start_server(
    space: KeySpace,
    settings: Settings,
    options: &Options,
    clients_max: usize,
) -> Result<Arc<Server>, ServeError> {
    let durability = options.durability.unwrap_or_default();
    let server = Arc::new(Server::new(Arc::new(space), settings, durability == DurabilityOption::Sync));
    let space = &server.space;
    housekeeping::start(Arc::downgrade(&server)).map_err(|error| ServeError::io("housekeeping", &error))?;
    if space.dictionary().is_some() {
        watcher::start(Arc::downgrade(&server)).map_err(|error| ServeError::io("a thread", &error))?;
    }
    server.clients.descriptors_max.store(clients_max, Relaxed);
    server.startup_bytes.store(resident_bytes().saturating_sub(space.used_bytes()), Relaxed);
    let wanted = server.settings.clients.load(Relaxed);
    if wanted > clients_max {
        tracing::warn!(
            "only {clients_max} clients at a time, not {wanted}: the limit of descriptors is low (ulimit -Hn)"
        );
    }
    Ok(server)
}

fn runtime() -> Result<Runtime, ServeError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ServeError::io("the event loop", &error))
}
