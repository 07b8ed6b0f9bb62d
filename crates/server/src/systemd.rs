//! Integration with systemd: tells it when the server is ready, and uses the sockets that it passes.
//!
//! Source: sd_notify(3), sd_listen_fds(3).

use std::os::unix::net::UnixDatagram;

/// Reports a state, such as `READY=1`, to systemd; does nothing under another supervisor.
pub(crate) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&path, state) {
        tracing::warn!(%error, state, "systemd was not notified");
    }
}

/// Names of the sockets that systemd passes (`FileDescriptorName=`), in their order.
pub(crate) fn socket_names() -> Vec<String> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    names.split(':').map(str::to_owned).collect()
}

fn send(path: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // A name without a file, which only Linux has.
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::ffi::OsStrExt;
        if let [b'@', name @ ..] = path.as_bytes() {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            return socket.send_to_addr(state.as_bytes(), &address).map(drop);
        }
    }
    socket.send_to(state.as_bytes(), path).map(drop)
}
