//! Clients that speak another protocol: the connection is closed at their first line or byte, and that is logged.
//!
//! A web page can make a browser send HTTP to any port of the machine, with a body that the page chooses. Read line by
//! line, that body could be commands. So the first line of HTTP ends the connection before anything after it is read.
//!
//! Source: the `securityWarningCommand` of Redis, which ends connections at `POST` and `Host:`. Differs: any method,
//! any header.

use crate::clients::Client;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Instant;

/// HTTP methods that are not commands of Redis or memcached.
const METHODS: [&str; 8] = ["post", "put", "head", "options", "connect", "trace", "patch", "pri"];

/// Whether a line is the first of an HTTP request, or one of its headers. GET and DELETE are commands too: they are
/// methods only where a target and a version follow.
pub(crate) fn is_http(line: &[u8]) -> bool {
    let (line, is_blank) = (line.trim_ascii(), u8::is_ascii_whitespace);
    let (first, rest) = line.split_at(line.iter().position(is_blank).unwrap_or(line.len()));
    let last = &rest[rest.iter().rposition(is_blank).map_or(0, |blank| blank + 1)..];
    let is_header = || {
        let name = first.strip_suffix(b":").filter(|name| !name.is_empty());
        name.is_some_and(|name| name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)))
    };
    let is_method = || METHODS.iter().any(|method| first.eq_ignore_ascii_case(method.as_bytes()));
    let has_version = || last.len() > 5 && last[..5].eq_ignore_ascii_case(b"HTTP/");
    // memcached has no commands in capitals, and Redis has no DELETE.
    let has_target = || {
        let rest = rest.trim_ascii_start();
        let target = &rest[..rest.iter().position(is_blank).unwrap_or(rest.len())];
        target.starts_with(b"/") || target.starts_with(b"*") || find(target, b"://") || first == b"DELETE"
    };
    is_header() || is_method() || has_version() && has_target()
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether a connection of a text protocol can begin with this byte: a character, or a blank.
pub(crate) fn can_begin(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

/// When such a client was last logged.
#[derive(Default)]
pub(crate) struct ForeignLog(AtomicU64);

impl ForeignLog {
    /// Logs that a client was disconnected, at most once a minute: a web page can make a browser connect in a loop.
    pub(crate) fn note(&self, server_started: Instant, client: &Client, what: &str) {
        const EVERY_S: u64 = 60;
        let now_s = server_started.elapsed().as_secs() + EVERY_S;
        let last_s = self.0.load(Relaxed);
        if now_s - last_s >= EVERY_S && self.0.compare_exchange(last_s, now_s, Relaxed, Relaxed).is_ok() {
            tracing::warn!(address = %client.address, "closed a connection that sent {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_headers_of_http_are_known() {
        for line in [
            "GET / HTTP/1.1",
            "POST / HTTP/1.1",
            "post /x",
            "OPTIONS * HTTP/1.1",
            "FLUSHALL /a'b HTTP/1.0",
            "DELETE http://h/ HTTP/1.1",
            "DELETE HTTP/1.1",
            "PRI * HTTP/2.0",
            "CONNECT h:6379 HTTP/1.1",
            "Host: localhost:6379",
            "content-length: 3",
            "X_y:",
        ] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
        for line in
            ["", " ", "GET /", "get / b", "delete HTTP/1.1", "delete * noreply", "set k HTTP/1.1", "PUBLISH a: b", ":"]
        {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
