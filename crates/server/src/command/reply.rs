//! Replies of RESP2 and RESP3, appended to a buffer.

use super::double;
use std::io::Write;

/// The protocol version of a client (HELLO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// The default for a client that does not choose.
    #[default]
    Resp2,
    /// With separate types for maps, nulls, booleans and pushes.
    Resp3,
}

/// `+text`
#[inline]
pub(crate) fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `+OK`
#[inline]
pub(crate) fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"+OK\r\n");
}

/// `-text`; its first word is the error code. Line ends become blanks, since one would end the reply. As in Redis, line
/// ends at the end of the text are left out.
pub(crate) fn error(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    let len = text.iter().rposition(|b| !b"\r\n".contains(b)).map_or(0, |last| last + 1);
    out.push(b'-');
    out.extend(text[..len].iter().map(|&b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn number(out: &mut Vec<u8>, kind: u8, number: impl itoa::Integer) {
    let mut digits = itoa::Buffer::new();
    out.push(kind);
    out.extend_from_slice(digits.format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// `:n`
#[inline]
pub(crate) fn integer(out: &mut Vec<u8>, n: i64) {
    match n {
        0 => out.extend_from_slice(b":0\r\n"),
        1 => out.extend_from_slice(b":1\r\n"),
        _ => number(out, b':', n),
    }
}

/// `:n` of a length or count.
#[inline]
pub(crate) fn count(out: &mut Vec<u8>, n: u64) {
    number(out, b':', n);
}

/// Appends a score: in RESP3 a double, in RESP2 its text.
pub(crate) fn score(out: &mut Vec<u8>, score: f64, version: Version) {
    match version {
        Version::Resp2 => {
            let mut text = Vec::with_capacity(24);
            double::write(&mut text, score);
            bulk(out, &text);
        }
        Version::Resp3 => {
            out.push(b',');
            double::write(out, score);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends a number with all its digits, at most 17 of them after the point: in RESP3 a double, in RESP2 its text.
pub(crate) fn decimal(out: &mut Vec<u8>, number: f64, version: Version) {
    let text = format!("{number:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match version {
        Version::Resp2 => bulk(out, text.as_bytes()),
        Version::Resp3 => {
            let _ = write!(out, ",{text}\r\n"); // a vector takes all
        }
    }
}

/// `$len` and the bytes.
#[inline]
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    // Reserve once for all three parts.
    out.reserve(bytes.len() + 16);
    if let 0..10 = bytes.len() {
        out.extend_from_slice(&[b'$', b'0' + bytes.len() as u8, b'\r', b'\n']); // one digit
    } else {
        number(out, b'$', bytes.len());
    }
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends a null.
#[inline]
pub(crate) fn null(out: &mut Vec<u8>, version: Version) {
    match version {
        Version::Resp2 => out.extend_from_slice(b"$-1\r\n"),
        Version::Resp3 => out.extend_from_slice(b"_\r\n"),
    }
}

/// Appends a null where an array was asked for.
pub(crate) fn null_array(out: &mut Vec<u8>, version: Version) {
    match version {
        Version::Resp2 => out.extend_from_slice(b"*-1\r\n"),
        Version::Resp3 => out.extend_from_slice(b"_\r\n"),
    }
}

/// Appends a value, or a null.
#[inline]
pub(crate) fn bulk_or_null(out: &mut Vec<u8>, bytes: Option<&[u8]>, version: Version) {
    match bytes {
        Some(bytes) => bulk(out, bytes),
        None => null(out, version),
    }
}

/// Appends the head of an array of `len` replies.
pub(crate) fn array(out: &mut Vec<u8>, len: usize) {
    number(out, b'*', len);
}

/// The reply of SCAN and its family: the cursor, and `count` replies that are already in `found`.
pub(crate) fn scanned(out: &mut Vec<u8>, cursor: u64, count: usize, found: &[u8]) {
    array(out, 2);
    bulk(out, itoa::Buffer::new().format(cursor).as_bytes());
    array(out, count);
    out.extend_from_slice(found);
}

/// The reply to HELP: lists the subcommands of `command`, each followed by its description.
pub(crate) fn help(out: &mut Vec<u8>, command: &str, subcommands: &[&str]) {
    array(out, subcommands.len() + 3);
    simple(out, &format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    subcommands.iter().chain(&["HELP", "    Prints this help."]).for_each(|line| simple(out, line));
}

/// Appends the head of a map of `len` pairs: in RESP2 an array of twice as many.
pub(crate) fn map(out: &mut Vec<u8>, len: usize, version: Version) {
    match version {
        Version::Resp2 => number(out, b'*', 2 * len),
        Version::Resp3 => number(out, b'%', len),
    }
}

/// Appends the head of a set of `len` replies: in RESP2 an array.
pub(crate) fn set(out: &mut Vec<u8>, len: usize, version: Version) {
    match version {
        Version::Resp2 => number(out, b'*', len),
        Version::Resp3 => number(out, b'~', len),
    }
}

/// Appends the head of a push of `len` replies: in RESP2 an array.
pub(crate) fn push(out: &mut Vec<u8>, len: usize, version: Version) {
    match version {
        Version::Resp2 => number(out, b'*', len),
        Version::Resp3 => number(out, b'>', len),
    }
}

/// Text to be shown unchanged, such as the reply of INFO: in RESP3 a verbatim string, in RESP2 a bulk string.
pub(crate) fn text(out: &mut Vec<u8>, text: &str, version: Version) {
    match version {
        Version::Resp2 => bulk(out, text.as_bytes()),
        Version::Resp3 => {
            let _ = write!(out, "={}\r\ntxt:{text}\r\n", text.len() + 4); // a vector takes all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies_have_the_types_of_their_version() {
        use Version::*;
        assert_eq!(of(|out| bulk(out, b"0123456789")), "$10\r\n0123456789\r\n");
        assert_eq!(of(|out| bulk(out, b"")), "$0\r\n\r\n");
        assert_eq!(of(|out| null(out, Resp2)), "$-1\r\n");
        assert_eq!(of(|out| null(out, Resp3)), "_\r\n");
        assert_eq!(of(|out| map(out, 2, Resp2)), "*4\r\n");
        assert_eq!(of(|out| map(out, 2, Resp3)), "%2\r\n");
        assert_eq!(of(|out| text(out, "a", Resp3)), "=5\r\ntxt:a\r\n");
        assert_eq!(of(|out| error(out, "ERR a\r\nb\n\r")), "-ERR a  b\r\n");
        assert_eq!(of(|out| integer(out, -12)), ":-12\r\n");
    }
}
