//! Reads the input of the text protocol: lines, the data behind them, and the password that a client may have to give
//! first.

use super::MemcachedSession;
use crate::memcached::request::{self, Mode, Request, Store};
use crate::session::Flow;
use memchr::memchr;
use std::sync::atomic::Ordering::*;

/// The longest line, and the longest line of a get of many keys, in bytes.
const LINE_BYTES_MAX: usize = 2048;
const GET_LINE_BYTES_MAX: usize = 1 << 20;

/// The beginning of the input.
pub(super) enum Line<'a> {
    /// A line without its end, and its length including the end.
    Is(&'a [u8], usize),
    /// No line end yet: the least number of bytes that may contain one.
    Incomplete(usize),
    TooLong,
}

/// A value that a line announces.
pub(super) struct Announced<'a> {
    pub(super) len: usize,
    pub(super) quiet: bool,
    /// The key that is removed if the value is too large.
    pub(super) removes: Option<&'a [u8]>,
}

/// The block after a line that announces a value.
pub(super) enum Data<'a> {
    Is(&'a [u8]),
    /// A block that does not end with a line break, and its number of bytes.
    Bad(usize),
    TooLarge,
}

/// How the walk through the input continues after a request.
pub(super) enum Step {
    /// After this many bytes of data behind its line.
    Done(usize),
    /// Its data is not there yet: this many bytes behind its line are needed.
    More(usize),
    /// No further request is executed now.
    End(Flow),
}

impl MemcachedSession {
    /// Skips the part of a refused value at the beginning of the input. Returns its length.
    #[inline]
    pub(super) fn skip_refused(&mut self, input: &[u8]) -> usize {
        let count = self.swallow.min(input.len());
        self.swallow -= count;
        count
    }

    #[inline]
    pub(super) fn line<'a>(&mut self, input: &'a [u8]) -> Line<'a> {
        // Bytes already searched are not searched again, however small the pieces.
        let from = std::mem::take(&mut self.scanned).min(input.len());
        if let Some(end) = memchr(b'\n', &input[from..]).map(|end| from + end) {
            let line = &input[..end];
            // As in memcached, a lone CR is a line by itself.
            let line = if end > 1 { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
            return if end > GET_LINE_BYTES_MAX { Line::TooLong } else { Line::Is(line, end + 1) };
        }
        let words = input.trim_ascii_start();
        let many_keys = [b"get ".as_slice(), b"gets ", b"gat ", b"gats "].iter().any(|name| words.starts_with(name));
        if input.len() > if many_keys { GET_LINE_BYTES_MAX } else { LINE_BYTES_MAX } {
            return Line::TooLong;
        }
        self.scanned = input.len();
        Line::Incomplete(input.len() + 1)
    }

    /// The value after a line; `None` if it is incomplete.
    #[inline]
    pub(super) fn data<'a>(&self, rest: &'a [u8], len: usize) -> Option<Data<'a>> {
        if len > self.server.settings.bulk_bytes.load(Relaxed) {
            return Some(Data::TooLarge);
        }
        let whole = rest.get(..len + 2)?;
        Some(whole.strip_suffix(b"\r\n").map_or(Data::Bad(len + 2), Data::Is))
    }

    /// Before a client has given the password, it may only send the password: `set KEY 0 0 LENGTH` with the
    /// value `USER PASSWORD`.
    pub(super) fn authenticate(&mut self, line: &[u8], rest: &[u8], out: &mut Vec<u8>) -> Step {
        const TOKEN_BYTES_MAX: usize = 2048;
        let Ok(Request::Store(Store { mode: Mode::Set, data_len: len @ ..=TOKEN_BYTES_MAX, .. })) =
            request::parse(line)
        else {
            out.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n");
            return Step::Done(0);
        };
        let Some(whole) = rest.get(..len + 2) else { return Step::More(len + 2) };
        let answer: &[u8] = match whole.strip_suffix(b"\r\n").map(|token| token.splitn(2, |&b| b == b' ')) {
            None => b"CLIENT_ERROR bad command line termination\r\n",
            Some(mut token) => match (token.next(), token.next()) {
                (Some(_), Some(password)) => {
                    self.authenticated = self.server.settings.is_password(password);
                    self.is_guest = false;
                    self.outcomes().auth.count(self.authenticated);
                    if self.authenticated { b"STORED\r\n" } else { b"CLIENT_ERROR authentication failure\r\n" }
                }
                _ => b"CLIENT_ERROR bad authentication token format\r\n",
            },
        };
        out.extend_from_slice(answer);
        Step::Done(len + 2)
    }
}
