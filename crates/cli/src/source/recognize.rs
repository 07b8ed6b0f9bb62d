//! Recognizes an input, and the format of its rows, by its first bytes and its name, before anything is written.
//!
//! ```text
//! signature      Parquet, cdb, GDBM, RDB, tar, ZIP, the dumps of GDBM, Berkeley DB, LMDB, cdb, our CSV    decides
//! known binary   tables, databases, archives                                refused, with the command to use
//! zero bytes     raw if the name says so and the first lengths fit           else refused
//! text           { ... }: jsonl.  The name: tsv, csv, jsonl.  Else each line has a tab: tsv; records of one width: csv
//! ```
//!
//! `--format` overrides this; only text whose first line has a zero byte is refused, if it is a known binary file.
//! Without any evidence the format is TSV, whose first bad line says what was expected. None of our dumps is taken for
//! another format: a TSV dump escapes the first byte of a key that would be (`tsv::write_first`).

use super::known;
use crate::failure::{Failure, Result};
use crate::format::{Format, Layout, berkeley, cdb, cdbmake, csv, gdbm, gdbm_file, raw, rdb, tar, zip};
use crate::input::{Input, Taken};
use splitpoint::ErrorKind;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file that are inspected. Of a pipe, the first read and at most the rest of its first line are inspected:
/// waiting for more would hold back rows that have arrived.
const HEAD_BYTES: usize = 64 << 10;
/// Lines or records that decide between TSV and CSV.
const ROWS_INSPECTED: usize = 100;

/// The kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Dictionary,
    /// The address of a server.
    Redis,
    /// `sqlite:FILE#TABLE`.
    Sqlite,
    /// A directory whose files are pairs.
    Tree,
    Rows(Format),
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Dictionary => "dictionary",
            Self::Redis => "redis",
            Self::Sqlite => "sqlite",
            Self::Tree => "tree",
            Self::Rows(format) => format.name(),
        }
    }
}

/// Returns the format of a database of another program that is read in place, if the file at `path` is one.
///
/// # Errors
/// A failure to read it.
pub fn foreign(path: &Path) -> std::io::Result<Option<Format>> {
    let metadata = path.metadata()?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(match () {
        () if gdbm_file::is_gdbm(&head) => Some(Format::GdbmFile),
        () if cdb::is_cdb(&head, metadata.len()) => Some(Format::Cdb),
        () => None,
    })
}

/// Returns the format of `input`, named `path`, if the user has chosen none.
///
/// # Errors
/// [`ErrorKind::NotATable`], with what the file is and what to do; a failure to read it.
pub fn recognize(input: &mut Input<'_>, path: &Path, chosen: Option<Format>) -> Result<Format> {
    let file_bytes = input.file_bytes;
    let Some((range, whole)) = head(input, chosen)? else {
        return Ok(chosen.or_else(|| Format::of_path(path)).unwrap_or(Format::Tsv));
    };
    let head = Head { bytes: input.bytes(range), whole, file_bytes };
    let format = match chosen {
        Some(format) => head.check(format).map(|()| format),
        None => head.format(Format::of_path(path)),
    };
    format.map_err(|what| Failure::of_kind(ErrorKind::NotATable, format_args!("{}: {what}", input.name)))
}

/// Returns the first bytes, and whether there are no more; `None` if the input is empty, or a signal came.
fn head(input: &mut Input<'_>, chosen: Option<Format>) -> Result<Option<(std::ops::Range<usize>, bool)>> {
    let mut wanted = if input.file_bytes.is_some() || input.compression().is_some() { HEAD_BYTES } else { 1 };
    loop {
        let Taken::Bytes(range) = input.peek_up_to(wanted)? else { return Ok(None) };
        let whole = range.len() < wanted;
        let bytes = input.bytes(range.clone());
        let decides = bytes.contains(&b'\n') && !(bytes.contains(&0) && range.len() < tar::HEADER_BYTES);
        if whole || chosen.is_some() || range.len() >= HEAD_BYTES || decides {
            return Ok(Some((range, whole)));
        }
        wanted = range.len() + 1;
    }
}

struct Head<'h> {
    bytes: &'h [u8],
    /// Whether nothing follows `bytes`.
    whole: bool,
    file_bytes: Option<u64>,
}

impl Head<'_> {
    /// Refuses text whose first row cannot be one, if it is clear what it is. The reader checks everything else.
    fn check(&self, format: Format) -> std::result::Result<(), String> {
        let line = self.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if format.layout() == Layout::Text && line.contains(&0) { self.refuse_known() } else { Ok(()) }
    }

    fn format(&self, named: Option<Format>) -> std::result::Result<Format, String> {
        if named == Some(Format::Raw) && self.raw_header_fits() {
            return Ok(Format::Raw);
        }
        if self.file_bytes.is_some() && known::is_parquet(self.bytes) {
            return Ok(Format::Parquet);
        }
        if self.file_bytes.is_some() && gdbm_file::is_gdbm(self.bytes) {
            return Ok(Format::GdbmFile);
        }
        // A comment of an ordinary text may begin like a signature; a record of a dump cannot be one.
        let text = self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.bytes);
        let is_binary = memchr::memchr(0, self.bytes).is_some();
        match () {
            () if text.starts_with(gdbm::TEXT_SIGNATURE) => return Ok(Format::Gdbm),
            () if text.starts_with(gdbm::FLAT_SIGNATURE) => return Ok(Format::GdbmFlat),
            () if is_berkeley(text) => return Ok(Format::Db),
            () if cdbmake::is_cdbmake(text) => return Ok(Format::Cdbmake),
            () if text.starts_with(csv::HEADER) => return Ok(Format::Csv),
            () if rdb::is_rdb(self.bytes) => return Ok(Format::Rdb),
            () if tar::is_tar(self.bytes) => return Ok(Format::Tar),
            () if zip::is_zip(self.bytes) => return self.zip(),
            () => {}
        }
        self.refuse_known()?;
        match () {
            () if is_binary && self.file_bytes.is_some_and(|bytes| cdb::is_cdb(self.bytes, bytes)) => {
                return Ok(Format::Cdb);
            }
            () if is_binary && self.file_bytes.is_none() && cdb::begins_like_cdb(self.bytes) => {
                return Err("is a cdb file; give it as a file, not through a pipe: it is read from its end".into());
            }
            () => {}
        }
        // Damaged: the format's own reader says where.
        if let Some(
            named @ (Format::Cdb | Format::GdbmFile | Format::Parquet | Format::Rdb | Format::Tar | Format::Zip),
        ) = named
            && (self.refuse_zero_byte().is_err() || text.len() < 4)
        {
            return Ok(named);
        }
        if named == Some(Format::Csv) && csv::is_csv(&text[..complete(text, self.whole)], self.whole).is_some() {
            // Its quoted fields may hold any byte.
            return Ok(Format::Csv);
        }
        self.refuse_zero_byte()?;
        self.format_of_text(text, named)
    }

    fn format_of_text(&self, text: &[u8], named: Option<Format>) -> std::result::Result<Format, String> {
        // Not tabs: an empty key may have a JSON value.
        let first = &text[text.iter().take_while(|byte| b" \r\n".contains(byte)).count()..];
        if first.starts_with(b"{") {
            return Ok(Format::Jsonl);
        }
        if first.starts_with(b"[") && (named == Some(Format::Jsonl) || is_array_of_objects(first)) {
            return Err(
                "is one JSON array; `jq -c '.[]' FILE | splitpoint load TABLE -` writes a line for each row".into()
            );
        }
        if is_sql(first) {
            return Err(
                "is SQL; `sqlite3 NEW.db < FILE` runs it, and `sqlite3 -csv -header NEW.db 'SELECT key, value FROM \
                        ...' | splitpoint load TABLE - --format csv` copies a query's rows"
                    .into(),
            );
        }
        let sample = &text[..complete(text, self.whole)];
        let mut lines = sample.split(|byte| *byte == b'\n').filter(|line| !matches!(*line, b"" | b"\r")).peekable();
        let tabs = lines.peek().is_some() && lines.take(ROWS_INSPECTED).all(|line| line.contains(&b'\t'));
        let records = csv::is_csv(sample, self.whole);
        Ok(match named {
            Some(Format::Csv) if records.is_none() && tabs => Format::Tsv,
            Some(named @ (Format::Csv | Format::Tsv | Format::Jsonl)) => named,
            _ if tabs => Format::Tsv,
            _ if records >= Some(2) => Format::Csv,
            _ => Format::Tsv,
        })
    }

    fn zip(&self) -> std::result::Result<Format, String> {
        match self.file_bytes {
            None => Err("is a ZIP archive; give it as a file, not through a pipe: it is read from its end".into()),
            Some(_) if zip::is_office(self.bytes) => {
                Err("is an office document; save its sheet as CSV, and load that; \
                                                          --format zip loads the parts of the file"
                    .into())
            }
            Some(_) => Ok(Format::Zip),
        }
    }

    /// Whether the first pair of raw input ends within the file; assumed for a pipe.
    fn raw_header_fits(&self) -> bool {
        let (Some(header), Some(file_bytes)) = (self.bytes.get(..8), self.file_bytes) else { return true };
        8 + raw::Header::parse(header).pair_bytes() <= file_bytes
    }

    fn refuse_known(&self) -> std::result::Result<(), String> {
        match known::kind_of(self.bytes) {
            Some((what, advice)) => Err(format!("is {what} and has no rows to load; {advice}")),
            None => Ok(()),
        }
    }

    fn refuse_zero_byte(&self) -> std::result::Result<(), String> {
        let Some(at) = memchr::memchr(0, self.bytes) else { return Ok(()) };
        Err(format!(
            "has a zero byte at offset {at}, so it is no text; give --format raw if it has length-prefixed pairs; in \
             tsv a zero byte is written \\x00"
        ))
    }
}

/// Whether the text is a JSON array of objects. A row of TSV would have a tab in its first line.
fn is_array_of_objects(text: &[u8]) -> bool {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !line.contains(&b'\t') && text[1..].trim_ascii_start().starts_with(b"{")
}

/// Whether the text is the dump of a database, which begins with one of a few statements.
fn is_sql(text: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 6] = [
        b"PRAGMA foreign_keys=",
        b"BEGIN TRANSACTION;",
        b"BEGIN;\nCREATE TABLE ",
        b"CREATE TABLE ",
        b"-- MySQL dump ",
        b"--\n-- PostgreSQL database dump",
    ];
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    !line.contains(&b'\t') && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// A dump's first line is followed by its format: a key of TSV may be `VERSION=`.
fn is_berkeley(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.next().is_some_and(|line| line.starts_with(berkeley::SIGNATURE) && !line.contains(&b'\t'))
        && lines.next().is_none_or(|line| line.is_empty() || line.contains(&b'=') && !line.contains(&b'\t'))
}

/// Returns the length of the complete lines.
fn complete(text: &[u8], whole: bool) -> usize {
    if whole { text.len() } else { memchr::memrchr(b'\n', text).map_or(0, |at| at + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_of(name: &str, text: &[u8]) -> std::result::Result<Format, String> {
        let mut input = Input::new(Box::new(text), "in".into());
        input.file_bytes = Some(text.len() as u64);
        recognize(&mut input, Path::new(name), None).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_dump_with_a_header_of_tar_in_its_text_is_no_archive() {
        for (begin, middle, end, format) in [
            (&b"k"[..], &b"\t"[..], &b"\n"[..], Format::Tsv),
            (b"{\"key\":\"k", b"\",\"value\":\"", b"\"}\n", Format::Jsonl),
        ] {
            let mut row = vec![b'a'; 600];
            row[..begin.len()].copy_from_slice(begin);
            row[300..300 + middle.len()].copy_from_slice(middle);
            row[257..265].copy_from_slice(b"ustar  a");
            row.extend_from_slice(end);
            row[148..156].fill(b' ');
            let sum: u32 = row[..tar::HEADER_BYTES].iter().map(|byte| u32::from(*byte)).sum();
            row[148..156].copy_from_slice(format!("{sum:07o} ").as_bytes());
            assert_eq!(format_of("-", &row), Ok(format));
        }
    }

    #[test]
    fn content_decides_before_the_name() {
        for (name, text, format) in [
            ("-", &b"a\t1\nb\t2,3\n"[..], Format::Tsv),
            ("-", b"key,value\na,1\n", Format::Csv),
            ("-", b"key,value\na,\"1\n2\"", Format::Csv),
            ("a.csv", b"id,name\n", Format::Csv),
            ("a.csv", b"id\tname\n1\tAda\n", Format::Tsv),
            ("a.csv", b"id,name\tx\n1,Ada\ty\n", Format::Csv),
            ("a.tsv", b"id,name\n1,Ada\n", Format::Tsv),
            ("-", b"one\ntwo, three\n", Format::Tsv),
            ("-", b" {\"key\":\"a\",\"value\":\"1\"}\n", Format::Jsonl),
            ("a.tsv", b"{\"key\":\"a\",\"value\":\"1\"}\n", Format::Jsonl),
            ("a.jsonl.gz", b"\n", Format::Jsonl),
            ("-", b"\xef\xbb\xbf# GDBM dump file created by\n", Format::Gdbm),
            ("-", b"!\r\n! GDBM FLAT FILE DUMP -- THIS\r\n", Format::GdbmFlat),
            ("a.txt", b"VERSION=3\nformat=print\n", Format::Db),
            ("-", b"VERSION=3\t1\nformat=print\t2\n", Format::Tsv),
            ("-", b"+1,1:a->b\n\n", Format::Cdbmake),
            ("-", b"+1,1:a\tb\n", Format::Tsv),
            ("a.raw", b"\x01\0\0\0\x01\0\0\0ab", Format::Raw),
            ("a.raw", b"key\tvalue\n", Format::Tsv),
            ("a.csv", b"key,value\na,\0\n", Format::Csv),
            ("-", b"REDIS0011\xfa\x09redis-ver\x057.2.4", Format::Rdb),
            ("-", b"REDIS0011\t1\n", Format::Tsv),
            ("-", b"[{\t1\n", Format::Tsv),
            ("-", b"CREATE TABLE \t1\n", Format::Tsv),
            ("-", b"", Format::Tsv),
        ] {
            assert_eq!(format_of(name, text), Ok(format), "{name}: {}", text.escape_ascii());
        }
        assert!(format_of("a.json", b"[{\"key\":1}]").unwrap_err().contains("jq -c"));
        assert!(format_of("-", b"[\n  {\"key\":1}]").unwrap_err().contains("jq -c"));
        assert!(format_of("a.sql", b"BEGIN;\nCREATE TABLE pairs(key)").unwrap_err().contains("is SQL"));
        assert!(format_of("a.tsv", b"a\t\0\n").unwrap_err().contains("zero byte at offset 2"));
        assert!(format_of("a.sqlite", b"SQLite format 3\0").unwrap_err().contains("sqlite3 -csv"));
    }
}
