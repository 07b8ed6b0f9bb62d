//! Opens the keys on a thread of its own, a table or a dictionary, and closes them.

use super::signals::Signals;
use crate::dictionary::slots::text_of;
use crate::dictionary::topology::Address;
use crate::dictionary::{OpenError, Served, Source};
use crate::keyspace::{KeySpace, SpaceError, SpaceOptions};
use crate::options::{DurabilityOption, Options, RESP_DEFAULT, ServeError, size};
use crate::recovery::Recovery;
use crate::systemd;
use splitpoint::{Dictionary, ErrorKind, TableOptions};
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot::{self, error::RecvError};

/// Opens the keys on a thread of its own. Returns `None` if a signal ended the server: a replay that it interrupts is
/// made by the next start.
pub(super) async fn open(
    options: &Options,
    recovery: Arc<Recovery>,
    mut signals: Signals,
) -> Result<Option<(KeySpace, Signals)>, ServeError> {
    let (options, reported) = (options.clone(), recovery.clone());
    let (opened, mut opening) = oneshot::channel();
    let open = move || match &options.dict {
        Some(path) => open_dictionary(path, &options),
        None => open_space(&options, reported),
    };
    // Tokio's own threads panic where the system refuses one.
    let thread = std::thread::Builder::new().name("opening".into()).spawn(move || drop(opened.send(open())));
    let thread = thread.map_err(|error| ServeError::io("a thread that opens the keys", &error))?;
    let joined = |opened: Result<_, RecvError>| match (opened, thread) {
        (Ok(opened), _) => opened,
        (Err(_), thread) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => Err(ServeError::io("opening the keys", &std::io::ErrorKind::UnexpectedEof.into())),
        },
    };
    let signal = tokio::select! {
        opened = &mut opening => return joined(opened).map(|space| Some((space, signals))),
        signal = signals.end.received() => signal,
    };
    recovery.stop();
    systemd::notify("STOPPING=1");
    tracing::info!("ending: {signal}");
    match joined(opening.await) {
        Ok(space) => close(&space)?,
        Err(ServeError { kind: Some(ErrorKind::Stopped), .. }) => {
            tracing::info!("ended; the next start replays the log")
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

fn open_dictionary(path: &Path, options: &Options) -> Result<KeySpace, ServeError> {
    let since = Instant::now();
    let given = |address: &Option<String>| address.clone().filter(|address| address != "none");
    let mut listening: Vec<String> = match given(&options.announce) {
        Some(announced) => vec![announced],
        None => [given(&options.resp), given(&options.resp_tls)].into_iter().flatten().collect(),
    };
    if listening.is_empty() {
        listening.push(RESP_DEFAULT.to_owned());
    }
    let announced = options.announce.as_deref().map(Address::parse).transpose();
    let source = Source {
        path: path.to_owned(),
        topology: options.cluster_topology.clone(),
        listening,
        announced: announced.map_err(|what| ServeError::usage(format!("--announce: {what}")))?,
    };
    let served = Served::open(source).map_err(|error| match error {
        OpenError::Topology(what) => ServeError::usage(what),
        OpenError::Dictionary(error) => match is_table(path) {
            true => ServeError::usage(format!("{0}: is a table; `--file {0}` serves it", path.display())),
            false => of_library(error),
        },
    })?;
    let now = served.now();
    let topology = now.slots.topology();
    let (node, slots) = (&topology.nodes[topology.own].name, now.slots.ranges(topology.served()));
    tracing::info!(
        dictionary = %path.display(),
        generation = now.number(),
        keys = now.slots.keys(),
        shards = now.dictionary.shard_count(),
        %node,
        slots = text_of(slots),
        elapsed_ms = since.elapsed().as_millis() as u64,
        "opened"
    );
    drop(now);
    KeySpace::over(Arc::new(served)).map_err(of_space)
}

fn is_table(path: &Path) -> bool {
    TableOptions::new().create(false).read_only(true).open(path).is_ok()
}

fn open_space(options: &Options, recovery: Arc<Recovery>) -> Result<KeySpace, ServeError> {
    let sized = |text: &Option<String>| text.as_deref().map(size).transpose();
    let since = Instant::now();
    let opening = SpaceOptions {
        file: options.file.clone(),
        logged: options.durability.unwrap_or_default() != DurabilityOption::None,
        cache_bytes: sized(&options.cache)?,
        log_bytes: options.log_bytes.as_deref().map(log_size).transpose()?,
        recovery: Some(recovery),
        expected_len: options.expected_keys.unwrap_or(0),
        max_memory_bytes: sized(&options.max_memory)?.unwrap_or(0),
        eviction: options.eviction.unwrap_or_default().into(),
    };
    let space = KeySpace::open(opening).map_err(|error| match &options.file {
        Some(file) if Dictionary::open(file).is_ok() => ServeError::usage(format!(
            "{0}: is a dictionary; `--dict {0}` serves it, read-only, and `splitpoint thaw` turns it into a table",
            file.display()
        )),
        _ => of_space(error),
    })?;
    match space.path() {
        Some(path) => tracing::info!(
            file = %path.display(), keys = space.len(0), elapsed_ms = since.elapsed().as_millis() as u64, "opened"
        ),
        None => tracing::info!("keys are in memory only; --file keeps them"),
    }
    Ok(space)
}

/// Parses `--log-bytes`.
fn log_size(text: &str) -> Result<u64, ServeError> {
    // A shorter log means a checkpoint every few writes; address space is reserved for the whole of a longer one.
    const BYTES: RangeInclusive<u64> = 1 << 20..=1 << 40;
    let bytes = size(text)?;
    let refused = || ServeError::usage(format!("--log-bytes {text}: expected 1M to 1T"));
    BYTES.contains(&bytes).then_some(bytes).ok_or_else(refused)
}

fn of_space(error: SpaceError) -> ServeError {
    match error {
        SpaceError::Table(error) => of_library(error),
        error => ServeError::usage(error.to_string()),
    }
}

fn of_library(error: splitpoint::Error) -> ServeError {
    ServeError { kind: Some(error.kind()), message: error.to_string(), usage: false }
}

/// Writes all changes to the file.
pub(super) fn close(space: &KeySpace) -> Result<(), ServeError> {
    space.sync().map_err(of_library)?;
    if space.in_file() {
        space.checkpoint().map_err(of_library)?;
    }
    tracing::info!("ended");
    Ok(())
}
