//! The Unix socket of `--unix`: made, given its mode, and removed at the end.
//!
//! A killed server leaves its socket behind. Only such a socket is replaced: one that refuses connections. Anything
//! else that has the name stays, and is an error: a file of the user, a link, the socket of a running server.

use crate::options::ServeError;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// A socket in the file system, which is removed when this is dropped.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and inode: another server may have replaced it.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket was not removed");
        }
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    path.symlink_metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Parses the value of `--unix-mode`.
///
/// # Errors
/// It is not an octal number of at most 777.
pub(crate) fn parse_mode(text: &str) -> Result<u32, ServeError> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777 && !text.starts_with('+'));
    mode.ok_or_else(|| ServeError::usage(format!("--unix-mode {text}: expected an octal mode, such as 770")))
}

/// Listens at `path`, with `mode` as the permissions of the socket.
///
/// # Errors
/// Something other than a socket without a server has this name; the system refuses.
pub(crate) fn listen_at(
    path: &Path,
    mode: Option<u32>,
    backlog: u16,
) -> Result<(UnixListener, SocketFile), ServeError> {
    let failed = |error: Error| ServeError::io(format!("--unix {}", path.display()), &error);
    remove_dead(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.bind(&SockAddr::unix(path).map_err(failed)?).map_err(failed)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path).map_err(failed)? };
    // Before the socket accepts connections, so that no unauthorized client connects.
    if let Some(mode) = mode {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    }
    socket.listen(backlog.into()).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok((socket.into(), file))
}

/// Removes a socket that no process listens at.
///
/// # Errors
/// Something else has this name.
fn remove_dead(path: &Path) -> Result<(), ServeError> {
    let failed = |error: Error| ServeError::io(format!("--unix {}", path.display()), &error);
    let kind = match path.symlink_metadata() {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let refuse = |what: &str| {
        let path = path.display();
        Err(ServeError::usage(format!("--unix {path}: {what} has this name. Choose another, or remove it")))
    };
    match kind {
        kind if kind.is_socket() => {}
        kind if kind.is_symlink() => return refuse("a link"),
        kind if kind.is_dir() => return refuse("a directory"),
        kind if kind.is_file() => return refuse("a file"),
        _ => return refuse("a device or pipe"),
    }
    // Without waiting: a server whose queue of connections is full is there too.
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    match socket.connect(&SockAddr::unix(path).map_err(failed)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(failed),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(failed(error)),
        _ => refuse("the socket of a running program"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn refusal(path: &Path) -> String {
        listen_at(path, None, 1).map(drop).unwrap_err().message
    }

    #[test]
    fn only_a_socket_without_a_server_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("users.spt"), "keys").unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(at("dead")).unwrap());
        for (target, link) in [("users.spt", "to-file"), ("dead", "to-dead"), ("absent", "to-nothing")] {
            std::os::unix::fs::symlink(at(target), at(link)).unwrap();
        }
        let _running = std::os::unix::net::UnixListener::bind(at("running")).unwrap();
        let _datagrams = UnixDatagram::bind(at("datagrams")).unwrap();
        for (name, what) in [
            ("users.spt", "a file"),
            ("folder", "a directory"),
            ("to-file", "a link"),
            ("to-dead", "a link"),
            ("to-nothing", "a link"),
            ("running", "the socket of a running program"),
            ("datagrams", "the socket of a running program"),
        ] {
            let expected = format!("{}: {what} has this name", at(name).display());
            assert!(refusal(&at(name)).contains(&expected), "{name}: {}", refusal(&at(name)));
            assert!(at(name).symlink_metadata().is_ok(), "{name}");
        }
        assert_eq!(std::fs::read(at("users.spt")).unwrap(), b"keys");
        assert!(refusal(&at("users.spt/socket")).contains("users.spt/socket: "));
        let (_listener, _file) = listen_at(&at("dead"), None, 1).unwrap();
        UnixStream::connect(at("dead")).unwrap();
    }

    #[test]
    fn a_server_whose_queue_is_full_is_a_running_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (_listener, _file) = listen_at(&path, None, 0).unwrap();
        let _queued = UnixStream::connect(&path).unwrap();
        assert!(refusal(&path).contains("a running program"));
    }

    #[test]
    fn modes_are_octal() {
        let modes = ["700", "0770", "0", "777", "778", "1777", "rwx", "-1", "+7", "", "0x7"];
        let expected = [Some(0o700), Some(0o770), Some(0), Some(0o777), None, None, None, None, None, None, None];
        assert_eq!(modes.map(|mode| parse_mode(mode).ok()), expected);
    }

    #[test]
    fn our_socket_has_the_mode_asked_for_and_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        for mode in [0o700, 0o770, 0o777, 0o600] {
            let (_listener, _file) = listen_at(&path, Some(mode), 1).unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, mode);
        }
        assert!(path.symlink_metadata().is_err());
        // A file that replaced the socket stays.
        let (_listener, file) = listen_at(&path, None, 1).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "of another").unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"of another");
    }
}
