//! Properties of all formats: what is written is read again, and any bytes are rows or bad rows.

use super::options::Reading;
use super::*;
use crate::input::Input;
use std::path::Path;

type OwnedRow = std::result::Result<(Vec<u8>, Vec<u8>), String>;

/// Formats that keep any bytes and are read from a stream.
const ALL_BYTES: [Format; 10] = [
    Format::Tsv,
    Format::Csv,
    Format::Jsonl,
    Format::Raw,
    Format::Gdbm,
    Format::GdbmFlat,
    Format::Db,
    Format::DbHex,
    Format::Cdbmake,
    Format::Rdb,
];

fn read(format: Format, bytes: &[u8]) -> Vec<OwnedRow> {
    read_within(crate::input::ROW_BYTES_MAX, format, bytes)
}

fn read_within(row_bytes_max: u64, format: Format, bytes: &[u8]) -> Vec<OwnedRow> {
    let mut input = Input::new(Box::new(bytes), "in".into());
    input.limit_rows(row_bytes_max);
    rows_of(reader(format, input, &Reading::default()).unwrap())
}

fn rows_of(mut reader: Box<dyn Source + '_>) -> Vec<OwnedRow> {
    let mut rows = Vec::new();
    loop {
        let row = match reader.next_row() {
            Ok(row) => row,
            // Columns that the first row lacks.
            Err(failure) => {
                rows.push(Err(format!("{failure:?}")));
                return rows;
            }
        };
        match row {
            Row::Pair(pair, _) => rows.push(Ok((pair.key.to_vec(), pair.value.to_vec()))),
            Row::Entry(entry, _) => rows.push(Err(format!("{entry:?}"))),
            Row::Bad(bad) => {
                rows.push(Err(bad.to_string()));
                if !bad.goes_on {
                    return rows;
                }
            }
            Row::Interrupted | Row::End => return rows,
        }
    }
}

fn write<'p>(format: Format, pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) -> Vec<u8> {
    let about = About { file: Path::new("t.spt"), file_bytes: 0, text: (false, false), has_field_lifetimes: false };
    let mut bytes = Vec::new();
    let mut writer = Writer::begin(format, &about, &mut bytes).unwrap();
    for (key, value) in pairs {
        writer.pair(Pair { key, value }, &mut bytes).unwrap();
    }
    writer.end(&mut bytes).unwrap();
    bytes
}

/// Every byte, in runs that are UTF-8 and that are not, and the awkward cases.
fn awkward() -> Vec<Vec<u8>> {
    let all: Vec<u8> = (0..=255).collect();
    let mut awkward: Vec<Vec<u8>> = all.iter().map(|byte| vec![*byte]).collect();
    awkward.extend([
        all,
        vec![],
        b"\\".to_vec(),
        b"\\\\n\t\r\n".to_vec(),
        b"a\r".to_vec(),
        "naïve \u{1F600} \u{7f}".into(),
    ]);
    awkward
}

#[test]
fn every_format_gives_back_any_bytes() {
    let pairs: Vec<_> = awkward().into_iter().rev().zip(awkward()).collect();
    for format in ALL_BYTES {
        let bytes = write(format, pairs.iter().map(|(key, value)| (&key[..], &value[..])));
        let rows: Vec<_> = read(format, &bytes).into_iter().map(|row| row.unwrap()).collect();
        assert_eq!(rows, pairs, "{format:?}");
    }
}

#[test]
fn any_bytes_are_rows_or_bad_rows() {
    // Seeded mutations of good input: reading always ends and never panics.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let pairs = [("k\\", "v\n"), ("", "x\ty"), ("\u{e9}", "")];
    for format in ALL_BYTES.into_iter().chain([Format::Lines]) {
        let good = write(format, pairs.map(|(key, value)| (key.as_bytes(), value.as_bytes())));
        for _ in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            bytes.truncate(bytes.len() - (state >> 60) as usize % bytes.len());
            read(format, &bytes);
        }
    }
}

#[test]
fn bad_rows_are_named_by_line_and_the_next_is_read() {
    let rows = read(Format::Tsv, b"a\t1\nno tab\n\nb\t\\q\nc\t3");
    let bad: Vec<_> = rows.iter().filter_map(|row| row.as_ref().err()).collect();
    assert!(bad[0].starts_with("in:2: no tab"), "{bad:?}");
    assert!(bad[1].starts_with("in:4: "), "{bad:?}");
    assert_eq!(rows.len(), 4);
}

/// A tar archive, uncompressed, of entries of this kind with these contents.
fn tar_of(entries: &[(::tar::EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = ::tar::Builder::new(Vec::new());
    for (kind, path, contents) in entries {
        let mut header = ::tar::Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_size(contents.len() as u64);
        builder.append_data(&mut header, path, *contents).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn the_limit_for_rows_does_not_apply_to_headers() {
    let pair = (&b"k"[..], &b"v"[..]);
    let expected = [Ok((b"k".to_vec(), b"v".to_vec()))];
    let archive = tar_of(&[(::tar::EntryType::Regular, "k", b"v")]);
    for limit in [2, u64::MAX] {
        for format in [Format::Raw, Format::GdbmFlat] {
            assert_eq!(read_within(limit, format, &write(format, [pair])), expected, "{format:?}, {limit}");
        }
        assert_eq!(read_within(limit, Format::Tar, &archive), expected, "{limit}");
    }
    for format in ALL_BYTES {
        assert_eq!(read_within(u64::MAX, format, &write(format, [pair])), expected, "{format:?}");
    }
}

#[test]
fn an_attribute_of_a_file_in_an_archive_may_contain_newlines() {
    use ::tar::EntryType::{Regular, XHeader};
    let attributes = b"29 SCHILY.xattr.user.a=b\n\nc\n\n12 path=new\n";
    let archive = tar_of(&[(XHeader, "x", attributes), (Regular, "old", b"1"), (Regular, "next", b"2")]);
    let pair = |key: &str, value: &str| -> OwnedRow { Ok((key.into(), value.into())) };
    assert_eq!(read(Format::Tar, &archive), [pair("new", "1"), pair("next", "2")]);
    for attributes in [
        &b"11 size=1x\n"[..],
        b"99 path=new\n",
        b"0 path=new\n",
        b"2 path=new\n",
        b"12 path=newx",
        b"11 pathnew\n",
        b"x path=new\n",
        b"path",
    ] {
        let rows = read(Format::Tar, &tar_of(&[(XHeader, "x", attributes), (Regular, "old", b"1")]));
        assert_eq!(rows.len(), 1, "{}: {rows:?}", attributes.escape_ascii());
        assert!(rows[0].as_ref().unwrap_err().contains("LENGTH NAME=VALUE"), "{rows:?}");
    }
}

#[test]
fn a_header_of_columns_that_is_too_long_ends_the_input() {
    // Longer than what is read at once, where a limit is not looked at.
    let header = format!("k\t{}\nk\tv\n1\t2\n", "x".repeat(1 << 20));
    for format in [Format::Tsv, Format::Csv] {
        let mut input = Input::new(Box::new(header.as_bytes()), "in".into());
        input.limit_rows(8);
        let key = vec![options::parse_column("k").unwrap()];
        let rows = rows_of(reader(format, input, &Reading { key, ..Reading::default() }).unwrap());
        assert_eq!(rows.len(), 1, "{format:?}: {rows:?}");
        assert!(rows[0].as_ref().unwrap_err().contains("longer than 8 bytes"), "{rows:?}");
    }
}

#[test]
fn raw_input_that_promises_too_much_is_refused() {
    let rows = read(Format::Raw, b"\xff\xff\xff\xff\xff\xff\xff\xffabc");
    assert_eq!(rows.len(), 1);
    let what = rows[0].as_ref().unwrap_err();
    assert!(what.contains("pair 1") && what.contains("3 bytes are left"), "{what}");
}

/// Returns its bytes, then a signal instead of more.
struct ThenSignal<'b>(&'b [u8]);

impl std::io::Read for ThenSignal<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer) {
            Ok(0) => Err(std::io::ErrorKind::TimedOut.into()),
            read => read,
        }
    }
}

#[test]
fn a_row_that_a_signal_cuts_short_is_the_next_one() {
    for (format, bytes) in [
        (Format::Tsv, &b"a\t1\nb\t"[..]),
        (Format::Raw, &[0; 12]),
        (Format::Csv, b"k,v\na,\"b"),
        (Format::Cdbmake, b"+1,1:a->b\n+1,5:a->"),
    ] {
        let input = Input::new(Box::new(ThenSignal(bytes)), "in".into());
        let mut reader = reader(format, input, &Reading { no_header: true, ..Reading::default() }).unwrap();
        assert!(matches!(reader.next_row().unwrap(), Row::Pair(..)), "{format:?}");
        assert!(matches!(reader.next_row().unwrap(), Row::Interrupted), "{format:?}");
        assert_eq!(reader.next_number(), 2, "{format:?}");
    }
}

#[test]
fn a_dump_that_was_cut_is_not_taken_for_whole() {
    let pairs = [(&b"alice"[..], &b"1"[..]), (b"bob", b"2")];
    for format in [Format::Gdbm, Format::Db, Format::DbHex, Format::Cdbmake] {
        let whole = write(format, pairs);
        assert!(read(format, &whole).iter().all(|row| row.is_ok()), "{format:?}");
        for length in 1..whole.len() - 1 {
            let rows = read(format, &whole[..length]);
            assert!(rows.last().is_some_and(|row| row.is_err()), "{format:?} cut to {length}: {rows:?}");
        }
    }
}

/// Returns its bytes, then an error, like compressed data with a wrong checksum.
struct ThenError<'b>(&'b [u8]);

impl std::io::Read for ThenError<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer) {
            Ok(0) => Err(std::io::ErrorKind::InvalidData.into()),
            read => read,
        }
    }
}

#[test]
fn every_format_is_read_to_the_end_of_the_input() {
    let pairs = [(&b"alice"[..], &b"1"[..]), (b"bob", b"2")];
    for format in ALL_BYTES {
        let bytes = write(format, pairs);
        let input = Input::new(Box::new(ThenError(&bytes[..])), "in".into());
        let rows = rows_of(reader(format, input, &Reading::default()).unwrap());
        assert!(rows.last().is_some_and(|row| row.is_err()), "{format:?}: {rows:?}");
    }
}

#[test]
fn blank_lines_may_follow_the_end_of_a_dump() {
    for format in [Format::Gdbm, Format::Db] {
        let bytes = [&write(format, [(&b"k"[..], &b"v"[..])])[..], b"\n \r\n\n"].concat();
        assert_eq!(read(format, &bytes), [Ok((b"k".to_vec(), b"v".to_vec()))], "{format:?}");
    }
}

#[test]
fn a_bad_dump_is_named_by_line_with_what_was_expected() {
    for (format, text, what) in [
        (Format::Gdbm, "hello\n", "in:1: `# GDBM dump file` was expected, but this is \"hello\""),
        (Format::Gdbm, "# GDBM dump file\n#:len=1\n", "in:2: `# End of header` was expected before"),
        (
            Format::Gdbm,
            "# GDBM dump file\n# End of header\n#:len=x\n",
            "in:3: the length of a key, as in `#:len=5`, was",
        ),
        (
            Format::Gdbm,
            "# GDBM dump file\n# End of header\n#:len=1\nYWI=\n",
            "in:4: a key of 1 bytes was expected, but",
        ),
        (
            Format::Gdbm,
            "# GDBM dump file\n# End of header\n#:len=9\n!!!!!!!!!!!!\n",
            "in:4: base64 of a key was expected",
        ),
        (
            Format::Gdbm,
            "# GDBM dump file\n# End of header\n#:count=3\n# End of data\n",
            "in:3: the dump says \"#:count=3\"",
        ),
        (
            Format::Gdbm,
            "# GDBM dump file\n# End of header\n#:count=0\n# End of data\n\n# GDBM dump file\n",
            "in:6: nothing was expected after `# End of data`, but this is \"# GDBM dump file\"",
        ),
        (Format::Db, "VERSION=4\n", "in:1: VERSION=1, 2 or 3 was expected, but this is \"VERSION=4\""),
        (Format::Db, "VERSION=3\nHEADER=END\n", "in:2: format=print or format=bytevalue was expected"),
        (Format::Db, "VERSION=3\nformat=print\ntype=recno\nHEADER=END\n", "in:4: values without keys follow"),
        (
            Format::Db,
            "VERSION=3\nformat=print\nHEADER=END\nkey\n",
            "in:4: a key, which begins with a space, or DATA=END",
        ),
        (
            Format::Db,
            "VERSION=3\nformat=print\nHEADER=END\n a\\q\n b\n",
            "in:4: a backslash and two hexadecimal digits",
        ),
        (
            Format::Db,
            "VERSION=3\nformat=bytevalue\nHEADER=END\n 61\n 6\n",
            "in:5: an even number of hexadecimal digits",
        ),
        (Format::Db, "VERSION=3\nformat=print\nHEADER=END\nDATA=END\nVERSION=3\n", "in:5: a second database begins"),
        (Format::Cdbmake, "+1,1:a->b\nc\n\n", "in:2: `+KEYLENGTH,VALUELENGTH:` or an empty line was expected"),
        (Format::Cdbmake, "+1,1:a=>b\n\n", "in:1: `+1,1:` promises a key of 1 bytes, \"->\""),
        (Format::Cdbmake, "+3,1:a\nb->c\n+x\n", "in:3: `+KEYLENGTH"),
    ] {
        let rows = read(format, text.as_bytes());
        let error = rows.iter().find_map(|row| row.as_ref().err()).unwrap_or_else(|| panic!("{text:?} was taken"));
        assert!(error.starts_with(what), "{error}");
    }
}

#[test]
fn a_flat_dump_of_gdbm_may_come_from_a_machine_of_32_bits() {
    let rows = read(Format::GdbmFlat, b"!\r\n! GDBM FLAT FILE DUMP\r\n!\r\n\0\0\0\x01a\0\0\0\x02bc\0\0\0\x01d\0\0\0\0");
    assert_eq!(rows, [Ok((b"a".to_vec(), b"bc".to_vec())), Ok((b"d".to_vec(), vec![]))]);
}

#[test]
fn an_absurd_length_takes_no_memory() {
    for (format, text) in [
        (Format::Gdbm, &b"# GDBM dump file\n# End of header\n#:len=18446744073709551615\nYWI=\n"[..]),
        (Format::Gdbm, b"# GDBM dump file\n# End of header\n#:len=1000000000\nYWI=\n"),
        (Format::GdbmFlat, b"!\r\n! GDBM FLAT FILE DUMP\r\n!\r\n\xff\xff\xff\xffab"),
        (Format::Cdbmake, b"+4294967295,4294967295:a->b\n\n"),
        (Format::Raw, b"\xff\xff\xff\xff\xff\xff\xff\xffabc"),
    ] {
        let rows = read(format, text);
        assert!(rows.len() == 1 && rows[0].is_err(), "{rows:?}");
    }
}

#[test]
fn a_backslash_of_tsv_is_itself_without_escapes_and_a_byte_order_mark_is_no_part_of_a_key() {
    let text = &b"\xef\xbb\xbfa\\n\tC:\\x\n"[..];
    let input = Input::new(Box::new(text), "in".into());
    let mut reader = reader(Format::Tsv, input, &Reading { no_escapes: true, ..Reading::default() }).unwrap();
    let Row::Pair(pair, 1) = reader.next_row().unwrap() else { panic!("no pair") };
    assert_eq!(pair, Pair { key: b"a\\n", value: b"C:\\x" });
}
