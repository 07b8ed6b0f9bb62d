//! Starts the server, accepts connections, and shuts down.
//!
//! ```text
//! options -> HTTP -> key space: tables or a dictionary -> other listeners -> threads of the event loop, each with some
//! connections
//! SIGHUP -> read limits, password, certificate and topology from their files again
//! SIGTERM, SIGINT, SHUTDOWN -> accept no new connections -> end the existing ones -> close the file
//! ```

use crate::clients::Client;
use crate::command::acl::denied_clients;
use crate::command::info::resident_bytes;
use crate::connection::serve;
use crate::dictionary::slots::text_of;
use crate::dictionary::topology::Address;
use crate::dictionary::{OpenError, Served, Source};
use crate::figures::Figures;
use crate::housekeeping;
use crate::http::{self, Stage};
use crate::keyspace::{KeySpace, SpaceError, SpaceOptions};
use crate::memcached::session::MemcachedSession;
use crate::options::{DurabilityOption, Options, ServeError, size};
use crate::recovery::Recovery;
use crate::resp::session::RespSession;
use crate::server::Server;
use crate::session::Session;
use crate::settings::Settings;
use crate::systemd;
use crate::tls::{Security, Tls};
use crate::unix_socket::{self, SocketFile};
use crate::users::PASSWORD_BYTES_MAX;
use crate::watcher;
use splitpoint::{Dictionary, ErrorKind, TableOptions};
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot::{self, error::RecvError};

/// Connections that the system queues until they are accepted.
const BACKLOG: u16 = 511;
/// How long a shutdown waits for connections to end.
const DRAIN: Duration = Duration::from_secs(5);
/// The default address for Redis clients.
pub(crate) const RESP_DEFAULT: &str = "127.0.0.1:6379";

/// The protocol of a listener.
#[derive(Clone)]
enum Protocol {
    Resp(Security),
    Memcached(Security),
}

impl Protocol {
    /// The reply to a connection beyond the limit.
    fn full(&self) -> &'static [u8] {
        match self {
            // A client that expects TLS could not read a reply.
            Protocol::Resp(Some(_)) | Protocol::Memcached(Some(_)) => b"",
            Protocol::Resp(None) => b"-ERR max number of clients reached\r\n",
            Protocol::Memcached(None) => b"ERROR Too many open connections\r\n",
        }
    }
}

/// An accepted connection, sent to a thread of the event loop.
enum Accepted {
    Tcp(std::net::TcpStream, Arc<Client>, Protocol),
    Unix(std::os::unix::net::UnixStream, Arc<Client>),
}

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
    let needs_password = settings.needs_password();
    let recovery = Arc::<Recovery>::default();
    let stage = Arc::new(Stage::new(recovery.clone()));
    let runtime = runtime()?;
    let opened = runtime.block_on(async {
        let signals = Signals::watch()?;
        // First, so that it can report the opening's progress.
        let pages = listen_for_pages(&options, needs_password, &security)?;
        if !pages.is_empty() {
            http::start(pages, &stage).map_err(|error| ServeError::io("the status page", &error))?;
        }
        open(&options, recovery, signals).await
    })?;
    let Some((space, signals)) = opened else { return Ok(()) };
    let space = Arc::new(space);
    let durability = options.durability.unwrap_or_default();
    let server = Arc::new(Server::new(space.clone(), settings, durability == DurabilityOption::Sync));
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
    let served = runtime.block_on(async {
        // The socket of --unix exists until its listener is closed.
        let (tcp, unix, _socket_file) = listen(&options, needs_password, &server, &security)?;
        let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let workers = start_workers(&server, threads.max(1))?;
        let reload = || reload(&flags, &server, &security);
        accept(&server, tcp, unix, &workers, signals, || stage.serve(&server), reload).await
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    close(&space)
}

fn close(space: &KeySpace) -> Result<(), ServeError> {
    space.sync().map_err(of_library)?;
    if space.in_file() {
        space.checkpoint().map_err(of_library)?;
    }
    tracing::info!("ended");
    Ok(())
}

/// The signals that a server knows. Watched from the start, so that one during a long replay ends the server cleanly.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn watch() -> Result<Signals, ServeError> {
        let watch = |kind| signal(kind).map_err(|error| ServeError::io("signals", &error));
        Ok(Signals {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
            hangup: watch(SignalKind::hangup())?,
        })
    }
}

/// Opens the keys on a thread of its own. Returns `None` if a signal ended the server: a replay that it interrupts is
/// made by the next start.
async fn open(
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
        _ = signals.terminate.recv() => "SIGTERM",
        _ = signals.interrupt.recv() => "SIGINT",
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

fn of_library(error: splitpoint::Error) -> ServeError {
    ServeError { kind: Some(error.kind()), message: error.to_string(), usage: false }
}

fn start_log(options: &Options) -> Result<(), ServeError> {
    use crate::options::LogFormat;
    let level = options.log_level.as_deref().unwrap_or("info");
    let level: tracing::level_filters::LevelFilter = level.parse().map_err(|_| {
        ServeError::usage(format!("log level {level:?}: expected error, warn, info, debug, trace or off"))
    })?;
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // A log line that cannot be written is dropped; reporting that would go to the same output, and panic.
    let builder = builder.log_internal_errors(false);
    // A program that embeds the server may have set up its own log.
    let _ = match options.log_format.unwrap_or_default() {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
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

fn of_space(error: SpaceError) -> ServeError {
    match error {
        SpaceError::Table(error) => of_library(error),
        error => ServeError::usage(error.to_string()),
    }
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

/// Sets the limits and the password that the options specify; the others stay unchanged.
fn apply(options: &Options, settings: &Settings) -> Result<(), ServeError> {
    /// The longest request: spans have 32 bits.
    const REQUEST_BYTES_MAX: u64 = u32::MAX as u64 - (1 << 20);
    let bytes = |text: &Option<String>, place: &AtomicUsize, most: u64| -> Result<(), ServeError> {
        if let Some(text) = text {
            place.store(size(text)?.clamp(1 << 20, most) as usize, Relaxed); // below 2^32
        }
        Ok(())
    };
    bytes(&options.max_value, &settings.bulk_bytes, REQUEST_BYTES_MAX / 2)?;
    bytes(&options.max_request, &settings.request_bytes, REQUEST_BYTES_MAX)?;
    bytes(&options.max_unread, &settings.output_bytes, REQUEST_BYTES_MAX)?;
    if let Some(clients) = options.max_clients {
        settings.clients.store(clients, Relaxed);
    }
    if let Some(seconds) = options.idle_timeout {
        settings.idle_s.store(seconds, Relaxed);
    }
    if let Some(seconds) = options.stall_timeout {
        settings.stalled_s.store(seconds.max(1), Relaxed);
    }
    if let Some(path) = &options.acl_file {
        settings.users.open(path).map_err(ServeError::usage)?;
    }
    if let Some(path) = &options.password_file {
        let text = std::fs::read(path).map_err(|error| ServeError::io(path.display(), &error))?;
        let password = text.trim_ascii_end();
        if password.is_empty() {
            return Err(ServeError::usage(format!("{}: no password in it", path.display())));
        }
        if password.len() > PASSWORD_BYTES_MAX {
            let what = format!("{}: a password longer than {} KiB", path.display(), PASSWORD_BYTES_MAX >> 10);
            return Err(ServeError::usage(what));
        }
        settings.set_password(password);
    }
    Ok(())
}

fn security(options: &Options) -> Result<Security, ServeError> {
    let listeners = [&options.resp_tls, &options.memcached_tls, &options.http_tls];
    let wanted = listeners.iter().any(|address| address.is_some());
    match (&options.tls_cert, &options.tls_key, wanted) {
        (Some(certificate), Some(key), _) => Ok(Some(Arc::new(Tls::load(certificate, key)?))),
        (None, None, false) => Ok(None),
        _ => Err(ServeError::usage(
            "TLS needs --tls-cert, --tls-key, and at least one of --resp-tls, --memcached-tls and --http-tls",
        )),
    }
}

/// SIGHUP: reads limits, password, certificate and topology from their files again. Errors are logged, and the values
/// they concern stay unchanged.
fn reload(flags: &Options, server: &Server, security: &Security) {
    systemd::notify("RELOADING=1");
    if let Some(dictionary) = server.space.dictionary() {
        // The watcher's thread does this, and logs the result.
        dictionary.reload_soon();
    }
    let reloaded = flags.clone().with_file().and_then(|options| apply(&options, &server.settings));
    denied_clients(server).iter().for_each(|client| client.kill());
    let reloaded = reloaded.and_then(|()| security.as_ref().map_or(Ok(()), |tls| tls.reload()));
    match reloaded {
        Ok(()) => tracing::info!("read limits and certificates again"),
        Err(error) => tracing::error!(%error, "limits and certificates are as they were"),
    }
    systemd::notify("READY=1");
}

/// Raises the limit of file descriptors to what the system allows. Returns the number of clients that may connect: some
/// descriptors are reserved for the databases, their logs, checkpoints, listeners and the status page.
fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const RESERVED: u64 = 192;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Some systems have a lower limit than they report.
    let is_raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    let Some(limit) = (if is_raised { maximum } else { current }) else { return usize::MAX };
    usize::try_from(limit - RESERVED.min(limit / 2)).unwrap_or(usize::MAX)
}

fn runtime() -> Result<Runtime, ServeError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| ServeError::io("the event loop", &error))
}

type TcpListeners = Vec<(TcpListener, Protocol)>;

fn listen(
    options: &Options,
    needs_password: bool,
    server: &Server,
    security: &Security,
) -> Result<(TcpListeners, Vec<UnixListener>, Option<SocketFile>), ServeError> {
    let (mut tcp, mut unix) = inherited(options, needs_password, server)?;
    let default = if tcp.is_empty() && unix.is_empty() { RESP_DEFAULT } else { "none" };
    let plain = (Some(options.resp.as_deref().unwrap_or(default)), "--resp", None);
    let secure = (options.resp_tls.as_deref(), "--resp-tls", security.clone());
    for (address, option, security) in [plain, secure] {
        for listener in listen_at(address, option, options, needs_password)? {
            let local = listener.local_addr().map_err(|error| ServeError::io(option, &error))?;
            if security.is_none() {
                server.port.store(local.port().into(), Relaxed);
            }
            tracing::info!(address = %local, tls = security.is_some(), "listening for Redis clients");
            tcp.push((listener, Protocol::Resp(security.clone())));
        }
    }
    let plain = (options.memcached.as_deref(), "--memcached", None);
    let secure = (options.memcached_tls.as_deref(), "--memcached-tls", security.clone());
    for (address, option, security) in [plain, secure] {
        for listener in listen_at(address, option, options, needs_password)? {
            let local = listener.local_addr().map_err(|error| ServeError::io(option, &error))?;
            server.memcached.port.store(local.port().into(), Relaxed);
            tracing::info!(address = %local, tls = security.is_some(), "listening for memcached clients");
            tcp.push((listener, Protocol::Memcached(security.clone())));
        }
    }
    let mut socket_file = None;
    if let Some(path) = &options.unix {
        let mode = options.unix_mode.as_deref().map(unix_socket::parse_mode).transpose()?;
        let (listener, file) = unix_socket::listen_at(path, mode, BACKLOG)?;
        let listener = UnixListener::from_std(listener);
        unix.push(listener.map_err(|error| ServeError::io(path.display(), &error))?);
        socket_file = Some(file);
        tracing::info!(path = %path.display(), "listening for Redis clients");
    }
    if tcp.is_empty() && unix.is_empty() {
        return Err(ServeError::usage(
            "nothing to listen on: --resp none, and none of --resp-tls, --unix, --memcached and --memcached-tls",
        ));
    }
    Ok((tcp, unix, socket_file))
}

/// Opens the listeners of the status page.
fn listen_for_pages(
    options: &Options,
    needs_password: bool,
    security: &Security,
) -> Result<Vec<(TcpListener, Security)>, ServeError> {
    let mut pages = Vec::new();
    let plain = (options.http.as_deref(), "--http", None);
    let secure = (options.http_tls.as_deref(), "--http-tls", security.clone());
    for (address, option, security) in [plain, secure] {
        for listener in listen_at(address, option, options, needs_password)? {
            let local = listener.local_addr().map_err(|error| ServeError::io(option, &error))?;
            tracing::info!(address = %local, tls = security.is_some(), "status page and metrics");
            pages.push((listener, security.clone()));
        }
    }
    Ok(pages)
}

/// The sockets that systemd passed: for memcached clients if named `memcached`, else for Redis clients.
fn inherited(
    options: &Options,
    needs_password: bool,
    server: &Server,
) -> Result<(TcpListeners, Vec<UnixListener>), ServeError> {
    let failed = |error: std::io::Error| ServeError::io("an inherited socket", &error);
    let (mut tcp, mut unix) = (Vec::new(), Vec::new());
    let names = systemd::socket_names();
    let mut inherited = listenfd::ListenFd::from_env();
    for index in 0..inherited.len() {
        if let Ok(Some(listener)) = inherited.take_tcp_listener(index) {
            listener.set_nonblocking(true).map_err(failed)?;
            let local = listener.local_addr().map_err(failed)?;
            refuse_strangers(local, "inherited socket", options, needs_password)?;
            let is_memcached = names.get(index).is_some_and(|name| name == "memcached");
            let protocol = if is_memcached { Protocol::Memcached(None) } else { Protocol::Resp(None) };
            if !is_memcached {
                server.port.store(local.port().into(), Relaxed);
            }
            tcp.push((TcpListener::from_std(listener).map_err(failed)?, protocol));
        } else if let Some(listener) = inherited.take_unix_listener(index).map_err(failed)? {
            listener.set_nonblocking(true).map_err(failed)?;
            unix.push(UnixListener::from_std(listener).map_err(failed)?);
        }
    }
    if inherited.len() > 0 {
        tracing::info!(sockets = inherited.len(), "listening on inherited sockets");
    }
    Ok((tcp, unix))
}

/// Listens at every address that `address` resolves to; at none if it is absent or `none`. Fails if other machines
/// could reach one of them without a password.
fn listen_at(
    address: Option<&str>,
    option: &str,
    options: &Options,
    needs_password: bool,
) -> Result<Vec<TcpListener>, ServeError> {
    let Some(address) = address.filter(|&address| address != "none") else { return Ok(Vec::new()) };
    let failed = |error: std::io::Error| ServeError::io(format!("{option} {address}"), &error);
    let mut listeners = Vec::new();
    for address in address.to_socket_addrs().map_err(failed)? {
        refuse_strangers(address, option, options, needs_password)?;
        listeners.push(listen_tcp(address).map_err(failed)?);
    }
    Ok(listeners)
}

/// Fails if other machines can reach an address without a password, unless the options allow it.
fn refuse_strangers(
    address: SocketAddr,
    option: &str,
    options: &Options,
    needs_password: bool,
) -> Result<(), ServeError> {
    if address.ip().is_loopback() || needs_password || options.unprotected {
        return Ok(());
    }
    Err(ServeError::usage(format!(
        "{option} {address} can be reached from other machines, and no password is set. Give --password-file, or \
        --unprotected if the network keeps strangers out"
    )))
}

fn listen_tcp(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG.into())
}

/// Starts the threads of the event loop; each serves the connections sent to it. With `count` 1 no thread is started:
/// the acceptor's own thread serves.
fn start_workers(server: &Arc<Server>, count: usize) -> Result<Vec<UnboundedSender<Accepted>>, ServeError> {
    let mut workers = Vec::new();
    for number in 0..count {
        let (sender, mut receiver) = unbounded_channel::<Accepted>();
        let (server, figures) = (server.clone(), server.add_figures());
        let work = async move {
            while let Some(accepted) = receiver.recv().await {
                start_connection(accepted, &server, &figures);
            }
        };
        if number == 0 {
            tokio::spawn(work);
        } else {
            let runtime = runtime()?;
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            thread.spawn(move || runtime.block_on(work)).map_err(|error| ServeError::io("a thread", &error))?;
        }
        workers.push(sender);
    }
    Ok(workers)
}

fn start_connection(accepted: Accepted, server: &Arc<Server>, figures: &Arc<Figures>) {
    let (server, figures) = (server.clone(), figures.clone());
    let session = |client: &Arc<Client>| RespSession::new(server.clone(), client.clone(), figures.clone());
    match accepted {
        Accepted::Tcp(stream, client, protocol) => {
            let Ok(stream) = TcpStream::from_std(stream) else { return server.clients.remove(client.id) };
            match protocol {
                Protocol::Memcached(security) => {
                    let session = MemcachedSession::new(server.clone(), client.clone(), figures.clone());
                    start_session(stream, security, session, server, client, figures);
                }
                Protocol::Resp(security) => {
                    let session = session(&client);
                    let session = if security.is_some() { session.over_tls() } else { session };
                    start_session(stream, security, session, server, client, figures);
                }
            }
        }
        Accepted::Unix(stream, client) => {
            if let Ok(stream) = UnixStream::from_std(stream) {
                let session = session(&client);
                tokio::spawn(serve(stream, session, server, client, figures));
            } else {
                server.clients.remove(client.id);
            }
        }
    }
}

/// Starts a connection's task. There are two kinds, so that a plain connection has no memory for the state of TLS.
fn start_session(
    stream: TcpStream,
    security: Security,
    session: impl Session,
    server: Arc<Server>,
    client: Arc<Client>,
    figures: Arc<Figures>,
) {
    let Some(tls) = security else {
        tokio::spawn(serve(stream, session, server, client, figures));
        return;
    };
    tokio::spawn(async move {
        match tls.handshake(stream).await {
            Some(stream) => serve(stream, session, server, client, figures).await,
            None => server.clients.remove(client.id),
        }
    });
}

/// Accepts connections until shutdown, then waits for the existing ones to end.
async fn accept(
    server: &Arc<Server>,
    tcp: Vec<(TcpListener, Protocol)>,
    unix: Vec<UnixListener>,
    workers: &[UnboundedSender<Accepted>],
    mut signals: Signals,
    is_ready: impl FnOnce(),
    reload: impl Fn(),
) -> Result<(), ServeError> {
    let mut tasks = Vec::new();
    for (listener, protocol) in tcp {
        tasks.push(tokio::spawn(accept_tcp(listener, protocol, server.clone(), workers.to_vec())));
    }
    for listener in unix {
        tasks.push(tokio::spawn(accept_unix(listener, server.clone(), workers.to_vec())));
    }
    is_ready();
    systemd::notify("READY=1\nSTATUS=Serving");
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => break tracing::info!("ending: SIGTERM"),
            _ = signals.interrupt.recv() => break tracing::info!("ending: SIGINT"),
            () = server.shutdown.notified() => break tracing::info!("ending: SHUTDOWN"),
            _ = signals.hangup.recv() => reload(),
        }
    }
    systemd::notify("STOPPING=1");
    server.scripts.running.stop();
    tasks.iter().for_each(|task| task.abort());
    drain(server).await;
    Ok(())
}

/// Ends the connections: each finishes its current requests, and their replies are sent.
async fn drain(server: &Server) {
    let since = Instant::now();
    server.clients.all().iter().for_each(|client| client.kill());
    while !server.clients.is_empty() && since.elapsed() < DRAIN {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if !server.clients.is_empty() {
        tracing::warn!(connections = server.clients.len(), "ended while connections were busy");
    }
}

async fn accept_tcp(
    listener: TcpListener,
    protocol: Protocol,
    server: Arc<Server>,
    workers: Vec<UnboundedSender<Accepted>>,
) {
    let own = listener.local_addr().ok();
    let local = own.map_or(String::new(), |address| address.to_string());
    let takes_any = own.is_some_and(|address| address.ip().is_unspecified());
    let mut next = 0;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true); // slower, no worse
                // The address of this machine that the client connected to.
                let reached =
                    if takes_any { stream.local_addr().ok().map(|address| address.to_string()) } else { None };
                match server.clients.add(
                    address.to_string(),
                    reached.unwrap_or_else(|| local.clone()),
                    server.clock_s.load(Relaxed),
                    server.clients_max(),
                ) {
                    Some(client) => {
                        let Ok(stream) = stream.into_std() else {
                            server.clients.remove(client.id);
                            continue;
                        };
                        next = (next + 1) % workers.len();
                        // The thread ends with the server.
                        let _ = workers[next].send(Accepted::Tcp(stream, client, protocol.clone()));
                    }
                    None => {
                        let _ = stream.try_write(protocol.full()); // if it does not take that, it is closed anyway
                    }
                }
            }
            // Usually there are no descriptors left; wait until some are free.
            Err(error) => {
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn accept_unix(listener: UnixListener, server: Arc<Server>, workers: Vec<UnboundedSender<Accepted>>) {
    let mut next = 0;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let most = server.clients_max();
                let client = server.clients.add("unix:0".into(), "unix:0".into(), server.clock_s.load(Relaxed), most);
                match client {
                    Some(client) => {
                        let Ok(stream) = stream.into_std() else {
                            server.clients.remove(client.id);
                            continue;
                        };
                        next = (next + 1) % workers.len();
                        let _ = workers[next].send(Accepted::Unix(stream, client));
                    }
                    None => {
                        let _ = stream.try_write(Protocol::Resp(None).full());
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
