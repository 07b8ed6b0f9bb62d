//! The stored keys of a table file: client keys, and marked keys for their attributes.
//!
//! ```text
//! stored key        value                    for
//! key               the client's value       a key that does not begin with the mark
//! MARK 'k' key      the client's value       a key that does
//! MARK 'm' key      attributes, 21 bytes     a key that expires or has flags
//! MARK 'h'          one byte, the version    the file has, or had, pairs of 'm': an open must look for them
//! ```
//!
//! So a table that another program wrote can be served unchanged, and the commands of `splitpoint` see the clients'
//! keys and values unchanged. Tables in memory have no marked pairs. All bytes here are on disk.

use std::borrow::Cow;

pub(super) const MARK: &[u8; 4] = b"\0sp\xff";
const KEY: u8 = b'k';
const ATTRIBUTES: u8 = b'm';
const HEADER: u8 = b'h';
/// The value of the header pair.
pub(super) const VERSION: &[u8] = &[1];

/// The meaning of a stored key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stored<'a> {
    /// The client's key.
    Key(&'a [u8]),
    Attributes(&'a [u8]),
    Other,
}

#[inline]
pub(super) fn is_marked(key: &[u8]) -> bool {
    key.starts_with(MARK)
}

fn with_kind(kind: u8, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(MARK.len() + 1 + key.len());
    stored.extend_from_slice(MARK);
    stored.push(kind);
    stored.extend_from_slice(key);
    stored
}

/// The stored key of the value of `key`.
pub(super) fn of_value(key: &[u8]) -> Cow<'_, [u8]> {
    if is_marked(key) { Cow::Owned(with_kind(KEY, key)) } else { Cow::Borrowed(key) }
}

/// The stored key of the attributes of `key`.
pub(super) fn of_attributes(key: &[u8]) -> Vec<u8> {
    with_kind(ATTRIBUTES, key)
}

pub(super) fn header() -> Vec<u8> {
    with_kind(HEADER, b"")
}

pub(super) fn parse(stored: &[u8]) -> Stored<'_> {
    match stored.strip_prefix(MARK) {
        None => Stored::Key(stored),
        Some([KEY, key @ ..]) => Stored::Key(key),
        Some([ATTRIBUTES, key @ ..]) => Stored::Attributes(key),
        Some(_) => Stored::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_place_and_comes_back_from_it() {
        let marked = [MARK, b"m".as_slice(), b"x"].concat();
        for key in [b"plain".as_slice(), b"", &MARK[..], &marked, b"\0sp"] {
            assert_eq!(parse(&of_value(key)), Stored::Key(key));
            assert_eq!(parse(&of_attributes(key)), Stored::Attributes(key));
            assert_ne!(of_value(key), of_attributes(key));
        }
        assert_eq!(parse(&header()), Stored::Other);
    }
}
