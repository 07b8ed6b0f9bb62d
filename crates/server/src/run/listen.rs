//! Opens the listeners: at the addresses of the options, and on the sockets that systemd passed. Refuses an address
//! that other machines could reach without a password.

use crate::options::{Options, RESP_DEFAULT, ServeError};
use crate::server::Server;
use crate::systemd;
use crate::tls::Security;
use crate::unix_socket::{self, SocketFile};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::Ordering::*;
use tokio::net::{TcpListener, UnixListener};

/// Connections that the system queues until they are accepted.
const BACKLOG: u16 = 511;

/// The protocol of a listener.
#[derive(Clone)]
pub(super) enum Protocol {
    Resp(Security),
    Memcached(Security),
}

impl Protocol {
    /// The reply to a connection beyond the limit.
    pub(super) fn full(&self) -> &'static [u8] {
        match self {
            // A client that expects TLS could not read a reply.
            Protocol::Resp(Some(_)) | Protocol::Memcached(Some(_)) => b"",
            Protocol::Resp(None) => b"-ERR max number of clients reached\r\n",
            Protocol::Memcached(None) => b"ERROR Too many open connections\r\n",
        }
    }
}

pub(super) type TcpListeners = Vec<(TcpListener, Protocol)>;

/// Opens listeners by the options.
pub(super) struct Listening<'a> {
    pub(super) options: &'a Options,
    pub(super) needs_password: bool,
    pub(super) security: &'a Security,
}

impl Listening<'_> {
    /// Opens the listeners of the status page.
    pub(super) fn for_pages(&self) -> Result<Vec<(TcpListener, Security)>, ServeError> {
        let plain = (self.options.http.as_deref(), "--http");
        let secure = (self.options.http_tls.as_deref(), "--http-tls");
        let pages = self.with_and_without_tls(plain, secure, "status page and metrics")?;
        Ok(pages.into_iter().map(|(listener, _, security)| (listener, security)).collect())
    }

    /// Opens the listeners for clients. The socket of --unix exists until the [`SocketFile`] is dropped.
    pub(super) fn for_clients(
        &self,
        server: &Server,
    ) -> Result<(TcpListeners, Vec<UnixListener>, Option<SocketFile>), ServeError> {
        let options = self.options;
        let (mut tcp, mut unix) = self.inherited(server)?;
        let default = if tcp.is_empty() && unix.is_empty() { RESP_DEFAULT } else { "none" };
        let plain = (Some(options.resp.as_deref().unwrap_or(default)), "--resp");
        let secure = (options.resp_tls.as_deref(), "--resp-tls");
        for (listener, port, security) in self.with_and_without_tls(plain, secure, "listening for Redis clients")? {
            if security.is_none() {
                server.port.store(port.into(), Relaxed);
            }
            tcp.push((listener, Protocol::Resp(security)));
        }
        let plain = (options.memcached.as_deref(), "--memcached");
        let secure = (options.memcached_tls.as_deref(), "--memcached-tls");
        for (listener, port, security) in self.with_and_without_tls(plain, secure, "listening for memcached clients")? {
            server.memcached.port.store(port.into(), Relaxed);
            tcp.push((listener, Protocol::Memcached(security)));
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

    /// Listens at the addresses of two options, with TLS at the second. Logs `what` with each address; returns each
    /// listener with its port.
    fn with_and_without_tls(
        &self,
        plain: (Option<&str>, &str),
        secure: (Option<&str>, &str),
        what: &str,
    ) -> Result<Vec<(TcpListener, u16, Security)>, ServeError> {
        let mut listeners = Vec::new();
        for ((address, option), security) in [(plain, None), (secure, self.security.clone())] {
            for listener in self.at(address, option)? {
                let local = listener.local_addr().map_err(|error| ServeError::io(option, &error))?;
                tracing::info!(address = %local, tls = security.is_some(), "{what}");
                listeners.push((listener, local.port(), security.clone()));
            }
        }
        Ok(listeners)
    }

    /// The sockets that systemd passed: for memcached clients if named `memcached`, else for Redis clients.
    fn inherited(&self, server: &Server) -> Result<(TcpListeners, Vec<UnixListener>), ServeError> {
        let failed = |error: std::io::Error| ServeError::io("an inherited socket", &error);
        let (mut tcp, mut unix) = (Vec::new(), Vec::new());
        let names = systemd::socket_names();
        let mut inherited = listenfd::ListenFd::from_env();
        for index in 0..inherited.len() {
            if let Ok(Some(listener)) = inherited.take_tcp_listener(index) {
                listener.set_nonblocking(true).map_err(failed)?;
                let local = listener.local_addr().map_err(failed)?;
                self.refuse_strangers(local, "inherited socket")?;
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
    fn at(&self, address: Option<&str>, option: &str) -> Result<Vec<TcpListener>, ServeError> {
        let Some(address) = address.filter(|&address| address != "none") else { return Ok(Vec::new()) };
        let failed = |error: std::io::Error| ServeError::io(format!("{option} {address}"), &error);
        let mut listeners = Vec::new();
        for address in address.to_socket_addrs().map_err(failed)? {
            self.refuse_strangers(address, option)?;
            listeners.push(listen_tcp(address).map_err(failed)?);
        }
        Ok(listeners)
    }

    /// Fails if other machines can reach an address without a password, unless the options allow it.
    fn refuse_strangers(&self, address: SocketAddr, option: &str) -> Result<(), ServeError> {
        if address.ip().is_loopback() || self.needs_password || self.options.unprotected {
            return Ok(());
        }
        Err(ServeError::usage(format!(
            "{option} {address} can be reached from other machines, and no password is set. Give --password-file, or \
            --unprotected if the network keeps strangers out"
        )))
    }
}

fn listen_tcp(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG.into())
}
