//! Binary files that hold no rows, by their first bytes: what each is, and how to get its pairs out.
//!
//! `load`, `dict build` and `dict update` look at the head of every input before they write anything. A tab, a newline
//! or a plausible length turns up in any binary file sooner or later, so without this check a database loads as
//! garbage.
//!
//! Kinds without a signature are caught by a zero byte in a text format. Raw input may begin with any bytes: its first
//! header is checked against the file's length instead, and the signature is consulted only if that fails.

use crate::failure::{Failure, Result};
use crate::input::{Input, Taken};
use splitpoint::ErrorKind;

/// Bytes of a file that are inspected. Of a pipe it is what the first read returns: waiting for more would hold back
/// rows that have arrived.
const HEAD_BYTES: usize = 64 << 10;
/// Bytes behind a printable signature that are searched for a control character.
const CONTROL_BYTES: usize = 32;

const DECOMPRESS: &str = "decompress it first, as in `zcat FILE | splitpoint load TABLE -`";
const EXPORT: &str = "export its pairs as tsv, jsonl or raw with its own tools, and load those";

/// A kind of binary file.
struct Kind {
    what: &'static str,
    /// Where the signature is.
    at: usize,
    signature: &'static [u8],
    advice: &'static str,
}

const fn kind(what: &'static str, at: usize, signature: &'static [u8], advice: &'static str) -> Kind {
    Kind { what, at, signature, advice }
}

/// A signature of printable characters only counts if a control character follows, which no row has.
#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("a Splitpoint table", 0, b"SPLITPNT", "`splitpoint dump TABLE | splitpoint load OTHER -` copies its pairs"),
    kind("a Splitpoint dictionary", 0, b"SPLITDCT",
        "`splitpoint thaw DICT TABLE` turns it into a table; `splitpoint dict dump` writes its pairs"),
    kind("the write-ahead log of a Splitpoint table", 0, b"SPLITLOG", "dump the table that it belongs to"),
    kind("the checkpoint journal of a Splitpoint table", 0, b"SPLITJRN", "dump the table that it belongs to"),
    kind("the published counters of a Splitpoint table", 0, b"SPLITSTA", "`splitpoint stat TABLE --watch` shows them"),
    kind("a temporary file of a dictionary build", 0, b"SPTsort1",
        "`splitpoint dict build --resume` with the same arguments continues it"),
    kind("Parquet", 0, b"PAR1",
        "`splitpoint dict build FILE.parquet DICT` reads Parquet; `splitpoint thaw DICT TABLE` turns it into a table"),
    kind("an encrypted Parquet file", 0, b"PARE", EXPORT),
    kind("an Arrow file", 0, b"ARROW1", "write it as Parquet, which `splitpoint dict build` reads"),
    kind("an Avro file", 0, b"Obj\x01", EXPORT),
    kind("an SQLite database", 0, b"SQLite format 3\0",
        "`sqlite3 FILE -csv -header 'SELECT ...'` writes rows that `splitpoint dict build --format csv` reads"),
    kind("gzip data", 0, b"\x1f\x8b", DECOMPRESS),
    kind("Zstandard data", 0, b"\x28\xb5\x2f\xfd",
        "decompress it first, as in `zstdcat FILE | splitpoint load TABLE -`"),
    kind("xz data", 0, b"\xfd7zXZ\0", "decompress it first, as in `xzcat FILE | splitpoint load TABLE -`"),
    kind("bzip2 data", 0, b"BZh", "decompress it first, as in `bzcat FILE | splitpoint load TABLE -`"),
    kind("LZ4 data", 0, b"\x04\x22\x4d\x18", "decompress it first, as in `lz4cat FILE | splitpoint load TABLE -`"),
    kind("a ZIP archive", 0, b"PK\x03\x04", "unpack it first, as in `unzip -p FILE | splitpoint load TABLE -`"),
    kind("a GDBM database", 0, b"\xce\x9a\x57\x13", EXPORT),
    kind("a GDBM database", 0, b"\xcd\x9a\x57\x13", EXPORT),
    kind("a GDBM database", 0, b"\xcf\x9a\x57\x13", EXPORT),
    kind("a GDBM database", 0, b"\xd0\x9a\x57\x13", EXPORT),
    kind("a GDBM database", 0, b"\xd1\x9a\x57\x13", EXPORT),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xce", EXPORT),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xcd", EXPORT),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xcf", EXPORT),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xd0", EXPORT),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xd1", EXPORT),
    kind("an LMDB database", 16, b"\xde\xc0\xef\xbe", EXPORT),
    kind("a Berkeley DB hash database", 12, b"\x61\x15\x06\x00", EXPORT),
    kind("a Berkeley DB hash database", 12, b"\x00\x06\x15\x61", EXPORT),
    kind("a Berkeley DB hash database", 0, b"\x61\x15\x06\x00", EXPORT),
    kind("a Berkeley DB hash database", 0, b"\x00\x06\x15\x61", EXPORT),
    kind("a Berkeley DB B-tree database", 12, b"\x62\x31\x05\x00", EXPORT),
    kind("a Berkeley DB B-tree database", 12, b"\x00\x05\x31\x62", EXPORT),
    kind("a Berkeley DB B-tree database", 0, b"\x62\x31\x05\x00", EXPORT),
    kind("a Berkeley DB B-tree database", 0, b"\x00\x05\x31\x62", EXPORT),
    kind("a Redis dump", 0, b"REDIS0", EXPORT),
    kind("a Sparkey index", 0, b"\x8f\x31\x11\x9a", EXPORT),
    kind("a Sparkey log", 0, b"\x95\x9c\xb3\x49", EXPORT),
    kind("a Kyoto Cabinet database", 0, b"KC\n\0", EXPORT),
    kind("a Tokyo Cabinet database", 0, b"ToKyO CaBiNeT\n", EXPORT),
    kind("a redb database", 0, b"redb\x1a\x0a\xa9\x0d\x0a", EXPORT),
    kind("a Tkrzw hash database", 0, b"TkrzwHDB\n", EXPORT),
    kind("a program or shared object", 0, b"\x7fELF", "give a file of pairs"),
    kind("UTF-16 text", 0, b"\xff\xfe",
        "convert it first, as in `iconv -f UTF-16 -t UTF-8 FILE | splitpoint load TABLE -`"),
    kind("UTF-16 text", 0, b"\xfe\xff",
        "convert it first, as in `iconv -f UTF-16 -t UTF-8 FILE | splitpoint load TABLE -`"),
];

/// How an input holds its pairs, for this check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Lines of text, in which a zero byte is a mistake.
    Text,
    /// CSV, whose quoted fields may hold any byte.
    Fields,
    /// Length-prefixed pairs of any bytes.
    Raw,
}

/// Refuses an input that is a binary file of a known kind, or has zero bytes where text is expected.
///
/// # Errors
/// [`ErrorKind::NotATable`], with what the file is and what to do; a failure to read it.
pub fn refuse_binary(input: &mut Input<'_>, layout: Layout) -> Result<()> {
    let wanted = if input.file_bytes.is_some() { HEAD_BYTES } else { 1 };
    let Taken::Bytes(range) = input.peek_up_to(wanted)? else { return Ok(()) };
    let file_bytes = input.file_bytes;
    let head = input.bytes(range);
    if layout == Layout::Raw && raw_header_fits(head, file_bytes) {
        return Ok(());
    }
    let refusal = match (kind_of(head, file_bytes), layout) {
        (Some((what, advice)), _) => format!("is {what} and has no rows to load; {advice}"),
        (None, Layout::Text) => match memchr::memchr(0, head) {
            Some(at) => format!(
                "has a zero byte at offset {at}, so it is no text; give --format raw if it has length-prefixed pairs; \
                 in tsv a zero byte is written \\x00"
            ),
            None => return Ok(()),
        },
        (None, Layout::Fields | Layout::Raw) => return Ok(()),
    };
    Err(Failure::of_kind(ErrorKind::NotATable, format_args!("{}: {refusal}", input.name)))
}

/// Whether the first pair of raw input lies within the file; assumed for a pipe.
fn raw_header_fits(head: &[u8], file_bytes: Option<u64>) -> bool {
    let (Some(header), Some(file_bytes)) = (head.get(..8), file_bytes) else { return true };
    let header = crate::format::raw::Header::parse(header);
    8 + header.pair_bytes() <= file_bytes
}

fn kind_of(head: &[u8], file_bytes: Option<u64>) -> Option<(&'static str, &'static str)> {
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let has_signature = |kind: &&Kind| {
        let Some(rest) = head.get(kind.at..).and_then(|head| head.strip_prefix(kind.signature)) else { return false };
        let printable = kind.signature.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\n'));
        !printable || rest.iter().take(CONTROL_BYTES).any(is_control)
    };
    let known = KINDS.iter().find(has_signature).map(|kind| (kind.what, kind.advice));
    known.or_else(|| {
        is_cdb(head, file_bytes?).then_some(("a cdb database", "`cdb -d FILE` dumps it; convert that to tsv"))
    })
}

/// A cdb has no signature: it begins with 256 hash tables, by position and length, and the last ends where the file
/// does.
fn is_cdb(head: &[u8], file_bytes: u64) -> bool {
    const CONTENTS_BYTES: usize = 2048;
    let Some(contents) = head.get(..CONTENTS_BYTES) else { return false };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let mut last_end = 0;
    for table in contents.chunks_exact(8) {
        let (position, slots) = (number(&table[..4]), number(&table[4..]));
        let end = position + slots * 8;
        if slots > 0 && position < CONTENTS_BYTES as u64 || end > file_bytes {
            return false;
        }
        last_end = last_end.max(end);
    }
    last_end == file_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_known_by_its_signature() {
        for expected in KINDS {
            let mut head = vec![b'x'; expected.at];
            head.extend_from_slice(expected.signature);
            head.extend_from_slice(b"\x01\x02 rest");
            let (what, advice) = kind_of(&head, None).unwrap_or_else(|| panic!("{}", expected.what));
            assert_eq!(what, expected.what);
            assert!(!advice.is_empty());
        }
    }

    #[test]
    fn rows_that_begin_like_a_signature_are_rows() {
        for text in ["PAR1\tvalue\n", "REDIS0011\tvalue\n", "BZh\tvalue\n", "SPLITPNT\tmagic\nkey\tvalue\n"] {
            assert!(kind_of(text.as_bytes(), None).is_none(), "{text}");
        }
    }

    #[test]
    fn a_cdb_is_known_by_its_tables() {
        // One record of 10 bytes, in the hash table 3 of two slots, as cdb makes it.
        let mut cdb = Vec::new();
        for table in 0..256_u32 {
            let slots: u32 = if table == 3 { 2 } else { 0 };
            let position: u32 = if table <= 3 { 2058 } else { 2074 };
            cdb.extend_from_slice(&position.to_le_bytes());
            cdb.extend_from_slice(&slots.to_le_bytes());
        }
        cdb.extend_from_slice(&[7; 26]);
        assert!(is_cdb(&cdb, cdb.len() as u64));
        assert!(!is_cdb(&cdb, cdb.len() as u64 + 1));
        assert!(!is_cdb(&[b'a'; 4096], 4096));
        assert!(!is_cdb(&[0; 4096], 4096));
    }
}
