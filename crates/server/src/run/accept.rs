//! Accepts connections and distributes them over the threads of the event loop.

use super::listen::{Protocol, TcpListeners};
use super::runtime;
use crate::clients::Client;
use crate::connection::serve;
use crate::figures::Figures;
use crate::memcached::session::MemcachedSession;
use crate::options::ServeError;
use crate::resp::session::RespSession;
use crate::server::Server;
use crate::session::Session;
use crate::tls::Security;
use socket2::{SockRef, TcpKeepalive};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// Redis's default of `tcp-keepalive`: after these seconds of silence the system probes whether the client's machine
/// still answers.
const TCP_KEEPALIVE_S: u64 = 300;

/// An accepted connection, sent to a thread of the event loop.
enum Accepted {
    Tcp(std::net::TcpStream, Arc<Client>, Protocol),
    Unix(std::os::unix::net::UnixStream, Arc<Client>),
}

/// The threads of the event loop; each serves the connections sent to it. They end when all clones are dropped.
#[derive(Clone)]
pub(super) struct Workers {
    senders: Vec<UnboundedSender<Accepted>>,
    next: usize,
}

impl Workers {
    /// Starts them. With `count` 1 no thread is started: the acceptor's own thread serves.
    pub(super) fn start(server: &Arc<Server>, count: usize) -> Result<Workers, ServeError> {
        let mut senders = Vec::new();
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
            senders.push(sender);
        }
        Ok(Workers { senders, next: 0 })
    }

    /// Accepts connections, in a task for each listener.
    pub(super) fn accept(
        &self,
        server: &Arc<Server>,
        tcp: TcpListeners,
        unix: Vec<UnixListener>,
    ) -> Vec<JoinHandle<()>> {
        let tcp = tcp
            .into_iter()
            .map(|(listener, protocol)| tokio::spawn(accept_tcp(listener, protocol, server.clone(), self.clone())));
        let unix = unix.into_iter().map(|listener| tokio::spawn(accept_unix(listener, server.clone(), self.clone())));
        tcp.chain(unix).collect()
    }

    /// Sends a connection to the next one.
    fn send(&mut self, accepted: Accepted) {
        self.next = (self.next + 1) % self.senders.len();
        // The thread ends with the server.
        let _ = self.senders[self.next].send(accepted);
    }
}

async fn accept_tcp(listener: TcpListener, protocol: Protocol, server: Arc<Server>, mut workers: Workers) {
    let own = listener.local_addr().ok();
    let local = own.map_or(String::new(), |address| address.to_string());
    let takes_any = own.is_some_and(|address| address.ip().is_unspecified());
    // As in Redis: three probes, the interval is a third of the time before the first.
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(TCP_KEEPALIVE_S));
    let alive = alive.with_interval(Duration::from_secs(TCP_KEEPALIVE_S / 3)).with_retries(3);
    loop {
        let Some((stream, address)) = accepted(listener.accept().await).await else { continue };
        let _ = stream.set_nodelay(true); // slower, no worse
        let _ = SockRef::from(&stream).set_tcp_keepalive(&alive); // without it, `timeout` can end the connection
        // The address of this machine that the client connected to.
        let reached = if takes_any { stream.local_addr().ok().map(|address| address.to_string()) } else { None };
        let Some(client) = register(&server, address.to_string(), reached.unwrap_or_else(|| local.clone())) else {
            let _ = stream.try_write(protocol.full()); // if it does not take that, it is closed anyway
            continue;
        };
        match stream.into_std() {
            Ok(stream) => workers.send(Accepted::Tcp(stream, client, protocol.clone())),
            Err(_) => server.clients.remove(client.id),
        }
    }
}

/// [`accept_tcp`] for a Unix socket, whose clients speak RESP.
async fn accept_unix(listener: UnixListener, server: Arc<Server>, mut workers: Workers) {
    loop {
        let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
        let Some(client) = register(&server, "unix:0".into(), "unix:0".into()) else {
            let _ = stream.try_write(Protocol::Resp(None).full());
            continue;
        };
        match stream.into_std() {
            Ok(stream) => workers.send(Accepted::Unix(stream, client)),
            Err(_) => server.clients.remove(client.id),
        }
    }
}

/// Returns the accepted connection. Logs an error, pauses, and returns `None`.
async fn accepted<T>(result: std::io::Result<T>) -> Option<T> {
    if let Err(error) = &result {
        tracing::warn!(%error, "accept");
        // Usually there are no descriptors left; wait until some are free.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    result.ok()
}

/// Adds a client; `None` if there are too many.
fn register(server: &Server, address: String, local_address: String) -> Option<Arc<Client>> {
    server.clients.add(address, local_address, server.clock_s.load(Relaxed), server.clients_max())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{KeySpace, SpaceOptions};
    use crate::settings::Settings;

    #[test]
    fn the_system_probes_clients_that_are_silent() {
        let space = Arc::new(KeySpace::open(SpaceOptions::default()).unwrap());
        let server = Arc::new(Server::new(space, Settings::default(), false));
        runtime().unwrap().block_on(async {
            for protocol in [Protocol::Resp(None), Protocol::Memcached(None)] {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let (sender, mut receiver) = unbounded_channel();
                let workers = Workers { senders: vec![sender], next: 0 };
                let accepting = tokio::spawn(accept_tcp(listener, protocol, server.clone(), workers));
                let _client = TcpStream::connect(address).await.unwrap();
                let Some(Accepted::Tcp(stream, ..)) = receiver.recv().await else { panic!("a TCP connection") };
                let socket = SockRef::from(&stream);
                assert!(socket.keepalive().unwrap());
                assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(TCP_KEEPALIVE_S));
                accepting.abort();
            }
        });
    }
}
