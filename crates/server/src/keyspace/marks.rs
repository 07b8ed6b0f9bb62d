//! The stored keys of a table file: client keys, and the header pair.
//!
//! ```text
//! stored key        value                     for
//! key               as in record.rs           a key that does not begin with the mark
//! MARK 'k' key      as in record.rs           a key that does
//! MARK 'h'          version, 6 random bytes   the file has, or had, values with heads: these bytes mark them
//! MARK 's' id n     elements                  a segment of a collection (collections/segments.rs)
//! MARK 'd' n        id, numbers               segments that no key has any more, in the order of their removal
//! MARK 'm'          counts                    of the two
//! ```
//!
//! So a table that another program wrote can be served unchanged, and the commands of `splitpoint` see the clients'
//! keys and values. In memory segments are in a table of their own, and no key is marked. All bytes here are on disk.

use super::record::{Coding, MARK_BYTES};
use splitpoint::{Error, ErrorKind, Result, Table};
use std::borrow::Cow;

pub(super) const MARK: &[u8; 4] = b"\0sp\xff";
const KEY: u8 = b'k';
const HEADER: u8 = b'h';
/// Version 1 had lifetimes in pairs of their own.
const VERSION: u8 = 2;

#[inline]
pub(super) fn is_marked(key: &[u8]) -> bool {
    key.starts_with(MARK)
}

/// The key of a segment: the collection's number, and the segment's within it.
pub(super) fn segment(id: u64, number: u64) -> [u8; SEGMENT_BYTES] {
    let mut key = [0; SEGMENT_BYTES];
    key[..MARK.len()].copy_from_slice(MARK);
    key[MARK.len()] = b's';
    key[MARK.len() + 1..][..8].copy_from_slice(&id.to_be_bytes());
    key[MARK.len() + 9..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The length of a segment's key.
const SEGMENT_BYTES: usize = MARK.len() + 1 + 2 * 8;

/// The key of a removal whose segments are not removed yet.
pub(super) fn removal(number: u64) -> Vec<u8> {
    with_kind(b'd', &number.to_be_bytes())
}

/// The key of the counts of segments and removals.
pub(super) fn counts() -> Vec<u8> {
    with_kind(b'm', b"")
}

fn with_kind(kind: u8, key: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(MARK.len() + 1 + key.len());
    stored.extend_from_slice(MARK);
    stored.push(kind);
    stored.extend_from_slice(key);
    stored
}

/// The stored key of `key`.
pub(super) fn of_key(key: &[u8]) -> Cow<'_, [u8]> {
    if is_marked(key) { Cow::Owned(with_kind(KEY, key)) } else { Cow::Borrowed(key) }
}

/// Converts a stored key to the client's key; `None` for the header pair.
pub(super) fn parse(stored: &[u8]) -> Option<&[u8]> {
    match stored.strip_prefix(MARK) {
        None => Some(stored),
        Some([KEY, key @ ..]) => Some(key),
        Some(_) => None,
    }
}

/// The key of the header pair.
pub(super) fn header() -> Vec<u8> {
    with_kind(HEADER, b"")
}

/// The mark of the values of a file; `None` if it has no header pair.
///
/// # Errors
/// Returns [`ErrorKind::Version`] for a header pair of another version, or the errors of [`Table::get`].
pub(super) fn of_values(table: &Table) -> Result<Option<[u8; MARK_BYTES]>> {
    let Some(value) = table.get(&header())? else { return Ok(None) };
    match value.split_first() {
        Some((&VERSION, mark)) if mark.len() == MARK_BYTES => Ok(mark.first_chunk().copied()),
        first => {
            let version = first.map_or(0, |(version, _)| *version);
            let what =
                format!("lifetimes of keys are stored in version {version}, this program reads version {VERSION}");
            Err(Error::new(ErrorKind::Version, what)
                .with_hint("Dump the file with the version that wrote it, and load the dump."))
        }
    }
}

/// Stores a header pair with this mark.
///
/// # Errors
/// Returns the errors of [`Table::put`].
pub(super) fn put_header(table: &Table, mark: [u8; MARK_BYTES]) -> Result<()> {
    let mut value = vec![VERSION];
    value.extend_from_slice(&mark);
    table.put(&header(), &value)
}

/// How the values of a file are coded.
///
/// # Errors
/// Returns the errors of [`of_values`].
pub(super) fn coding(table: &Table) -> Result<Coding> {
    Ok(of_values(table)?.map_or(Coding::Plain, Coding::Marked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_place_and_comes_back_from_it() {
        let marked = [MARK, b"h".as_slice()].concat();
        for key in [b"plain".as_slice(), b"", &MARK[..], &marked, b"\0sp"] {
            assert_eq!(parse(&of_key(key)), Some(key));
        }
        assert_eq!(parse(&header()), None);
    }
}
