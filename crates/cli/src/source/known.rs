//! Binary files that hold no rows, by their first bytes: what each is, and how to get its pairs out.
//!
//! Every input is inspected before anything is written (`recognize.rs`). A tab, a newline or a plausible length turns
//! up in any binary file sooner or later, so without this check a database loads as garbage.

/// Bytes before and after a signature that are searched for a control character.
const CONTROL_BYTES: usize = 32;

const EXPORT: &str = "export its pairs as tsv, csv, jsonl or raw with its own tools, and load those";
const GDBM: &str = "give it as a file, neither compressed nor through a pipe";
const BERKELEY: &str = "`db_dump -p FILE | splitpoint load TABLE -` copies its pairs";
const LMDB: &str =
    "`mdb_dump DIRECTORY | splitpoint load TABLE -` copies its pairs (`mdb_dump -n FILE` if it is not a directory)";
const RESUME: &str = "`splitpoint dict build --resume` with the same arguments continues it";
const PARQUET: &str = "give it as a file, not through a pipe: Parquet is read from its end; and as --format parquet \
                       or auto";
const TWICE: &str = "decompress it first, as in `zcat FILE` or `zstdcat FILE`";
const UTF16: &str = "convert it first, as in `iconv -f UTF-16 -t UTF-8 FILE | splitpoint load TABLE -`";
const UTF32: &str = "convert it first, as in `iconv -f UTF-32 -t UTF-8 FILE | splitpoint load TABLE -`";
const SQLITE: &str = "`sqlite3 -csv -header FILE 'SELECT key, value FROM ...' | splitpoint load TABLE - --format csv` \
                      copies a query's rows";

/// A kind of binary file.
struct Kind {
    what: &'static str,
    /// The offset of the signature.
    at: usize,
    signature: &'static [u8],
    advice: &'static str,
}

const fn kind(what: &'static str, at: usize, signature: &'static [u8], advice: &'static str) -> Kind {
    Kind { what, at, signature, advice }
}

/// A signature without a control character counts only if there is one near it: few rows have one, and none of our
/// dumps do.
#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("a Splitpoint table", 0, b"SPLITPNT", "give it as a file, not through a pipe"),
    kind("a Splitpoint dictionary", 0, b"SPLITDCT", "give it as a file, not through a pipe"),
    kind("the write-ahead log of a Splitpoint table", 0, b"SPLITLOG", "dump the table that it belongs to"),
    kind("the published counters of a Splitpoint table", 0, b"SPLITSTA", "`splitpoint stat TABLE --watch` shows them"),
    kind("a temporary file of a dictionary build", 0, b"SPTsort1", RESUME),
    kind("Parquet", 0, b"PAR1", PARQUET),
    kind("an encrypted Parquet file", 0, b"PARE", EXPORT),
    kind("an Arrow file", 0, b"ARROW1", "write it as Parquet, and load that"),
    kind("an Avro file", 0, b"Obj\x01", EXPORT),
    kind("an SQLite database", 0, b"SQLite format 3\0", SQLITE),
    kind("xz data", 0, b"\xfd7zXZ\0", "decompress it first, as in `xzcat FILE | splitpoint load TABLE -`"),
    kind("bzip2 data", 0, b"BZh", "decompress it first, as in `bzcat FILE | splitpoint load TABLE -`"),
    kind("LZ4 data", 0, b"\x04\x22\x4d\x18", "decompress it first, as in `lz4cat FILE | splitpoint load TABLE -`"),
    kind("gzip data, damaged or compressed twice", 0, b"\x1f\x8b\x08", TWICE),
    kind("Zstandard data, damaged or compressed twice", 0, b"\x28\xb5\x2f\xfd", TWICE),
    kind("compress data", 0, b"\x1f\x9d", "decompress it first, as in `zcat FILE | splitpoint load TABLE -`"),
    kind("a GDBM database", 0, b"\xce\x9a\x57\x13", GDBM),
    kind("a GDBM database", 0, b"\xcd\x9a\x57\x13", GDBM),
    kind("a GDBM database", 0, b"\xcf\x9a\x57\x13", GDBM),
    kind("a GDBM database", 0, b"\xd0\x9a\x57\x13", GDBM),
    kind("a GDBM database", 0, b"\xd1\x9a\x57\x13", GDBM),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xce", GDBM),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xcd", GDBM),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xcf", GDBM),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xd0", GDBM),
    kind("a GDBM database", 0, b"\x13\x57\x9a\xd1", GDBM),
    kind("an LMDB database", 16, b"\xde\xc0\xef\xbe", LMDB),
    kind("a Berkeley DB hash database", 12, b"\x61\x15\x06\x00", BERKELEY),
    kind("a Berkeley DB hash database", 12, b"\x00\x06\x15\x61", BERKELEY),
    kind("a Berkeley DB hash database", 0, b"\x61\x15\x06\x00", BERKELEY),
    kind("a Berkeley DB hash database", 0, b"\x00\x06\x15\x61", BERKELEY),
    kind("a Berkeley DB B-tree database", 12, b"\x62\x31\x05\x00", BERKELEY),
    kind("a Berkeley DB B-tree database", 12, b"\x00\x05\x31\x62", BERKELEY),
    kind("a Berkeley DB B-tree database", 0, b"\x62\x31\x05\x00", BERKELEY),
    kind("a Berkeley DB B-tree database", 0, b"\x00\x05\x31\x62", BERKELEY),
    kind("a Sparkey index", 0, b"\x8f\x31\x11\x9a", EXPORT),
    kind("a Sparkey log", 0, b"\x95\x9c\xb3\x49", EXPORT),
    kind("a Kyoto Cabinet database", 0, b"KC\n\0", EXPORT),
    kind("a Tokyo Cabinet database", 0, b"ToKyO CaBiNeT\n", EXPORT),
    kind("a redb database", 0, b"redb\x1a\x0a\xa9\x0d\x0a", EXPORT),
    kind("a Tkrzw hash database", 0, b"TkrzwHDB\n", EXPORT),
    kind("a program or shared object", 0, b"\x7fELF", "give a file of pairs"),
    kind("UTF-32 text", 0, b"\xff\xfe\0\0", UTF32),
    kind("UTF-32 text", 0, b"\0\0\xfe\xff", UTF32),
    kind("UTF-16 text", 0, b"\xff\xfe", UTF16),
    kind("UTF-16 text", 0, b"\xfe\xff", UTF16),
];

/// Returns the kind of a known file, and what to do with it.
pub fn kind_of(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    let has_signature = |kind: &&Kind| {
        let near = &head[..head.len().min(kind.at + kind.signature.len() + CONTROL_BYTES)];
        near.get(kind.at..).is_some_and(|head| head.starts_with(kind.signature)) && near.iter().any(is_control)
    };
    KINDS.iter().find(has_signature).map(|kind| (kind.what, kind.advice))
}

/// Whether the file begins like Parquet.
pub fn is_parquet(head: &[u8]) -> bool {
    kind_of(head).is_some_and(|(what, _)| what == "Parquet")
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
            let (what, advice) = kind_of(&head).unwrap_or_else(|| panic!("{}", expected.what));
            assert_eq!(what, expected.what);
            assert!(!advice.is_empty());
        }
    }

    #[test]
    fn rows_that_begin_like_a_signature_are_rows() {
        for text in ["PAR1\tvalue\n", "REDIS0011\tvalue\n", "BZh\tvalue\n", "SPLITPNT\tmagic\nkey\tvalue\n"] {
            assert!(kind_of(text.as_bytes()).is_none(), "{text}");
        }
    }
}
