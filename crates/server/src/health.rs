//! Asks a running server whether it serves: the health check of a container that has no other program.
//!
//! It sends PING to the address for Redis clients in the same options. Any reply of the protocol will do: a
//! server that asks for a password answers with an error, and serves.

use crate::options::{Options, RESP_DEFAULT, ServeError};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long the server may take to accept, and to reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns if a server that runs with these options answers.
///
/// # Errors
/// No server answers at the address within a few seconds, or the options say that there is no such address.
pub fn ask(options: Options) -> Result<(), ServeError> {
    let options = options.with_file()?;
    let address = options.resp.as_deref().unwrap_or(RESP_DEFAULT);
    if address == "none" {
        return Err(ServeError::usage("a health check connects as a Redis client, and --resp none allows none"));
    }
    let failed = |error: &std::io::Error| ServeError::io(format_args!("no healthy server at {address}"), error);
    let found = address.to_socket_addrs().map_err(|error| failed(&error))?.next();
    let address = found.ok_or_else(|| failed(&ErrorKind::AddrNotAvailable.into()))?;
    answered(reachable(address)).map_err(|error| failed(&error))
}

/// The address at which to reach a server of this machine that listens on all of them.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

fn answered(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 1];
    stream.read_exact(&mut reply)?;
    if matches!(reply, [b'+' | b'-']) { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The result of a check of a server that replies to everything with `reply`.
    fn checked(reply: &'static [u8]) -> Result<(), ServeError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut client, _) = listener.accept().expect("a client");
                let mut request = [0; 6];
                client.read_exact(&mut request).expect("PING");
                client.write_all(reply).expect("it reads");
            });
            ask(Options { resp: Some(format!("0.0.0.0:{}", address.port())), ..Options::default() })
        })
    }

    #[test]
    fn a_server_that_answers_is_healthy_even_if_it_wants_a_password() {
        assert!(checked(b"+PONG\r\n").is_ok());
        assert!(checked(b"-NOAUTH Authentication required.\r\n").is_ok());
    }

    #[test]
    fn what_does_not_answer_in_the_protocol_is_not_healthy() {
        let error = checked(b"HTTP/1.1 400\r\n").expect_err("not a server of ours");
        assert!(error.message.starts_with("no healthy server at 0.0.0.0:"), "{error}");
        assert!(checked(b"").is_err(), "it hung up");
    }

    #[test]
    fn a_port_that_nothing_listens_on_and_one_turned_off_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        drop(listener);
        assert!(!ask(Options { resp: Some(address), ..Options::default() }).expect_err("closed").usage);
        assert!(ask(Options { resp: Some("none".into()), ..Options::default() }).expect_err("off").usage);
    }
}
