//! HTTP for operators: a status page, its figures as JSON, metrics for Prometheus, and a health check.
//!
//! ```text
//! /             one page with its styles and script inside, so it works without the internet
//! /status.json  what the page polls: figures now, and a sample for each second of the last ten minutes
//! /metrics      the text format of Prometheus (metrics.rs)
//! /health       200 while the server serves, 503 while writes fail or it is starting
//! /ready        200 once clients are served, 503 before
//! ```
//!
//! While the server opens its files every path returns 503 with the progress.
//!
//! A thread of its own serves all of it, so nothing here delays the clients of the protocols. Only GET and HEAD are
//! answered, no request body is read, connections and headers are bounded. If a password is set, everything except
//! /health and /ready requires it (HTTP Basic, any user). On a loopback address the Host header must name a loopback
//! host, so that a web page whose domain resolves to this address cannot read the figures.

mod metrics;
mod status;

use crate::recovery::Recovery;
use crate::server::Server;
use crate::tls::Security;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use status::Status;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

const PAGE: &str = include_str!("page.html");
/// The most connections at a time; others wait.
const CONNECTIONS_MAX: usize = 64;
/// The longest time for a request to arrive, and for a whole connection.
const REQUEST_TIME: Duration = Duration::from_secs(10);
const CONNECTION_TIME: Duration = Duration::from_secs(300);
/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// The server as it starts: at first only its progress.
pub(crate) struct Stage {
    recovery: Arc<Recovery>,
    server: OnceLock<Weak<Server>>,
}

impl Stage {
    pub(crate) fn new(recovery: Arc<Recovery>) -> Stage {
        Stage { recovery, server: OnceLock::new() }
    }

    /// Called once, when clients are served.
    pub(crate) fn serve(&self, server: &Arc<Server>) {
        let _ = self.server.set(Arc::downgrade(server)); // it is empty until now
    }
}

/// The state that all connections share.
struct Site {
    stage: Weak<Stage>,
    status: Mutex<Status>,
    /// Whether only this machine can connect.
    local: bool,
}

/// Serves at these addresses, on a thread of its own, until `stage` is gone.
///
/// # Errors
/// Returns the errors of starting a thread and its event loop.
pub(crate) fn start(listeners: Vec<(TcpListener, Security)>, stage: &Arc<Stage>) -> io::Result<()> {
    let to_std = |(listener, security): (TcpListener, Security)| Ok((listener.into_std()?, security));
    let listeners = listeners.into_iter().map(to_std).collect::<io::Result<Vec<_>>>()?;
    let is_local = |listener: &std::net::TcpListener| listener.local_addr().is_ok_and(|a| a.ip().is_loopback());
    let local = listeners.iter().all(|(listener, _)| is_local(listener));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let site = Arc::new(Site { stage: Arc::downgrade(stage), status: Mutex::default(), local });
    let run = move || {
        runtime.block_on(async {
            let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            for (listener, security) in listeners {
                match TcpListener::from_std(listener) {
                    Ok(listener) => drop(tokio::spawn(accept(listener, security, site.clone(), places.clone()))),
                    Err(error) => tracing::error!(%error, "HTTP"),
                }
            }
            let mut seconds = tokio::time::interval(SAMPLE_EVERY);
            loop {
                seconds.tick().await;
                let Some(stage) = site.stage.upgrade() else { return };
                if let Some(server) = stage.server.get().and_then(Weak::upgrade) {
                    site.status().sample(&server);
                }
            }
        });
    };
    std::thread::Builder::new().name("http".into()).spawn(run).map(drop)
}

async fn accept(listener: TcpListener, security: Security, site: Arc<Site>, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (site, security) = (site.clone(), security.clone());
                tokio::spawn(async move {
                    match security {
                        None => serve(stream, site).await,
                        Some(tls) => {
                            if let Some(stream) = tls.handshake(stream).await {
                                serve(stream, site).await;
                            }
                        }
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, site: Arc<Site>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = site.answer(&request);
        async { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIME);
    builder.half_close(true); // a client that has closed its side still gets its answer
    builder.max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        _ = connection.as_mut() => {} // how it ended concerns only the client
        () = tokio::time::sleep(CONNECTION_TIME) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(REQUEST_TIME, connection).await;
        }
    }
}

type Answer = Response<Full<Bytes>>;

impl Site {
    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn answer<B>(&self, request: &Request<B>) -> Answer {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            // A request body is not read, so the connection cannot be reused.
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return refused;
        }
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        if self.local && !names_loopback(host) {
            return text(StatusCode::MISDIRECTED_REQUEST, "ask for this page by an address of this machine\n");
        }
        let unavailable = |why: String| text(StatusCode::SERVICE_UNAVAILABLE, why);
        let Some(stage) = self.stage.upgrade() else { return unavailable("the server is ending\n".into()) };
        let Some(server) = stage.server.get() else {
            return unavailable(format!("starting: {}\n", stage.recovery));
        };
        let Some(server) = server.upgrade() else { return unavailable("the server is ending\n".into()) };
        let path = request.uri().path();
        if path == "/ready" {
            return text(StatusCode::OK, "ready\n");
        }
        if path == "/health" {
            return match server.space.write_failure() {
                None => text(StatusCode::OK, "ok\n"),
                // Without the message, which names files: no password is needed here.
                Some(_) => text(StatusCode::SERVICE_UNAVAILABLE, "writes are refused; INFO persistence says why\n"),
            };
        }
        if !is_authorized(&server, request) {
            let mut refused = text(StatusCode::UNAUTHORIZED, "a password is needed\n");
            let scheme = HeaderValue::from_static("Basic realm=\"splitpoint\", charset=\"UTF-8\"");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            return refused;
        }
        match path {
            "/" => of_type("text/html; charset=utf-8", PAGE.into()),
            "/metrics" => of_type("text/plain; version=0.0.4; charset=utf-8", metrics::text(&server)),
            "/status.json" => {
                let since = request.uri().query().and_then(|query| query.strip_prefix("since="));
                let since_ms = since.and_then(|since| since.parse().ok()).unwrap_or(0);
                of_type("application/json", self.status().json(&server, since_ms))
            }
            _ => text(StatusCode::NOT_FOUND, "there are /, /status.json, /metrics, /health and /ready\n"),
        }
    }
}

/// Whether a Host header names this machine by an address or as localhost.
fn names_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Whether the user that a request names, or else `default`, may see the pages.
fn is_authorized<B>(server: &Server, request: &Request<B>) -> bool {
    const SHOWN: [&str; 3] = ["info", "client|list", "slowlog|get"];
    let users = &server.settings.users;
    if !server.settings.needs_password() {
        return users.usual().may_run(&SHOWN);
    }
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let decoded = given.and_then(|given| given.strip_prefix("Basic ")).and_then(|given| STANDARD.decode(given).ok());
    decoded.is_some_and(|decoded| {
        let colon = decoded.iter().position(|&b| b == b':');
        colon.is_some_and(|colon| {
            let user = users.find(&decoded[..colon]).unwrap_or_else(|| users.usual());
            user.admits(&decoded[colon + 1..]) && user.may_run(&SHOWN)
        })
    })
}

fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    let mut answer = of_type("text/plain; charset=utf-8", text.into());
    *answer.status_mut() = status;
    answer
}

fn of_type(kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
        ),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, Patience, SpaceError, SpaceOptions};
    use crate::resp::session::RespSession;
    use crate::session::Session;
    use crate::settings::Settings;
    use splitpoint::ErrorKind;

    fn server(password: &str) -> Arc<Server> {
        let settings = Settings::default();
        settings.set_password(password.as_bytes());
        Arc::new(Server::new(Arc::new(KeySpace::open(SpaceOptions::default()).unwrap()), settings, false))
    }

    fn ask(server: &Arc<Server>, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let stage = Arc::new(Stage::new(Arc::default()));
        stage.serve(server);
        ask_at(&stage, method, path, headers)
    }

    fn ask_at(stage: &Arc<Stage>, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let site = Site { stage: Arc::downgrade(stage), status: Mutex::default(), local: true };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        site.answer(&request.body(()).unwrap())
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:8080");

    #[test]
    fn only_reading_requests_for_this_host_are_answered() {
        let server = server("");
        assert_eq!(ask(&server, "GET", "/metrics", &[HOST]).status(), 200);
        assert_eq!(ask(&server, "HEAD", "/", &[("host", "LOCALHOST")]).status(), 200);
        assert_eq!(ask(&server, "GET", "/", &[("host", "[::1]:8080")]).status(), 200);
        assert_eq!(ask(&server, "POST", "/", &[HOST]).status(), 405);
        assert_eq!(ask(&server, "GET", "/", &[("host", "rebound.example:8080")]).status(), 421);
        assert_eq!(ask(&server, "GET", "/etc/passwd", &[HOST]).status(), 404);
    }

    #[test]
    fn a_password_is_asked_for_except_for_health() {
        let server = server("se:cret");
        let given = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(ask(&server, "GET", "/", &[HOST]).status(), 401);
        assert_eq!(ask(&server, "GET", "/", &[HOST, ("authorization", &given("u:wrong"))]).status(), 401);
        assert_eq!(ask(&server, "GET", "/", &[HOST, ("authorization", &given("u:se:cret"))]).status(), 200);
        assert_eq!(ask(&server, "GET", "/health", &[HOST]).status(), 200);
        assert_eq!(ask(&server, "GET", "/ready", &[HOST]).status(), 200);
    }

    /// Status and body.
    async fn said(answer: Answer) -> (u16, String) {
        use http_body_util::BodyExt;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_server_that_replays_its_log_says_how_far_it_is_and_then_that_it_is_ready() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t");
        let options = || SpaceOptions { file: Some(file.clone()), logged: true, ..SpaceOptions::default() };
        // What a killed server leaves: the files while it runs.
        let live = KeySpace::open(options()).unwrap();
        let table = live.table(0).unwrap();
        (0..20_000u32).for_each(|n| table.put(&n.to_le_bytes(), &[7; 100]).unwrap());
        let crashed = folder.path().join("crashed");
        std::fs::create_dir(&crashed).unwrap();
        for name in ["t", "t-log0"] {
            std::fs::copy(folder.path().join(name), crashed.join(name)).unwrap();
        }
        let recovery = Arc::<Recovery>::default();
        let stage = Arc::new(Stage::new(recovery.clone()));
        for path in ["/health", "/ready", "/metrics"] {
            let answer = said(ask_at(&stage, "GET", path, &[HOST])).await;
            assert_eq!(answer, (503, "starting: opening the file\n".into()), "{path}");
        }
        recovery.stop();
        let recovering = SpaceOptions { file: Some(crashed.join("t")), recovery: Some(recovery), ..options() };
        match KeySpace::open(recovering.clone()).err() {
            Some(SpaceError::Table(error)) => assert_eq!(error.kind(), ErrorKind::Stopped),
            other => panic!("{other:?}"),
        }
        for path in ["/health", "/ready", "/", "/status.json"] {
            let (status, text) = said(ask_at(&stage, "GET", path, &[HOST])).await;
            let text = text.strip_prefix("starting: replaying the log, ").unwrap();
            let (done, most) = text.strip_suffix(" MiB\n").unwrap().split_once(" of at most ").unwrap();
            let (done, most): (f64, f64) = (done.parse().unwrap(), most.parse().unwrap());
            assert!(status == 503 && 0.0 < done && done <= most, "{path}: {text}");
        }
        assert_eq!(ask_at(&stage, "GET", "/ready", &[("host", "rebound.example")]).status(), 421);
        let recovered = SpaceOptions { recovery: Some(Arc::default()), ..recovering };
        let space = Arc::new(KeySpace::open(recovered).unwrap());
        assert_eq!(space.len(0), 20_000);
        let server = Arc::new(Server::new(space, Settings::default(), false));
        stage.serve(&server);
        assert_eq!(said(ask_at(&stage, "GET", "/ready", &[HOST])).await, (200, "ready\n".into()));
        drop(server);
        assert_eq!(said(ask_at(&stage, "GET", "/ready", &[HOST])).await.0, 503);
    }

    #[test]
    fn health_and_info_say_that_writes_fail_until_one_succeeds() {
        let server = server("");
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let mut session = RespSession::new(server.clone(), client, server.add_figures());
        let mut reply = |request: &[u8]| {
            let mut out = Vec::new();
            session.execute(request, &mut out, Patience::MayWait);
            String::from_utf8(out).unwrap()
        };
        let mut says = |expected: (u16, &str, &str)| {
            let info = reply(b"INFO persistence\r\n");
            assert_eq!(ask(&server, "GET", "/health", &[HOST]).status(), expected.0);
            for line in [expected.1, expected.2] {
                assert!(info.contains(&format!("\r\n{line}\r\n")), "{line}: {info}");
            }
            let metrics = super::metrics::text(&server);
            assert!(metrics.contains(&format!("splitpoint_writes_refused {}\n", u8::from(expected.0 != 200))));
        };
        let (fine, failed) = ("aof_last_write_status:ok", "aof_last_write_status:err");
        let error = |kind, text: &str| splitpoint::Error::new(kind, text);
        says((200, fine, "writes_refused:0"));
        server.space.note_failure(&error(ErrorKind::Corrupt, "of a read"));
        says((200, fine, "writes_refused:0"));
        // A checkpoint that succeeds shows that there is room again.
        server.space.note_failure(&error(ErrorKind::DiskFull, "no room\r\nat all"));
        says((503, failed, "write_error:no room  at all"));
        server.space.retry_full_disk();
        says((200, fine, "write_error:"));
        // A poisoned handle stays so.
        server.space.note_failure(&error(ErrorKind::Poisoned, "a sync failed"));
        server.space.retry_full_disk();
        says((503, failed, "writes_refused:1"));
        let mut set = Vec::new();
        let client = server.clients.add("test".into(), "test".into(), 0, 10).unwrap();
        let mut other = RespSession::new(server.clone(), client, server.add_figures());
        other.execute(b"SET k v\r\n", &mut set, Patience::MayWait);
        assert_eq!(set, b"+OK\r\n");
        says((200, fine, "writes_refused:0"));
    }
}
