//! A ZIP archive: each file is a pair of its path and its contents, both unchanged.
//!
//! It is read from its end, by the `zip` crate, so it must be a file. An entry that is encrypted, damaged, or
//! compressed by another method than deflate is a bad row, after which the next file is read. Of several entries with
//! one name the crate returns the last; each of the others is a bad row.

use super::tar::{LeftOut, is_unfinished};
use super::{BadRow, Row, Scratch, Source};
use crate::escapes;
use crate::failure::{Failure, Result};
use crate::number::{count_of, grouped};
use splitpoint::ErrorKind;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

pub struct Zip {
    archive: ZipArchive<BufReader<File>>,
    name: String,
    file_bytes: u64,
    /// The next entry.
    next: usize,
    /// The names of entries that a later one replaces.
    replaced: Vec<Vec<u8>>,
    number: u64,
    row_bytes_max: u64,
    scratch: Scratch,
    left_out: LeftOut,
}

/// Whether bytes begin like an archive, an empty one included.
pub fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

/// Whether an archive is a document of an office program, whose rows are within its parts.
pub fn is_office(head: &[u8]) -> bool {
    [&b"[Content_Types].xml"[..], b"mimetypeapplication/vnd.oasis"]
        .iter()
        .any(|name| memchr::memmem::find(head, name).is_some())
}

impl Zip {
    /// # Errors
    /// A file that is not an archive.
    pub fn open(path: &Path, row_bytes_max: u64) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Failure::io(&name, &error))?;
        let file_bytes = file.metadata().map_err(|error| Failure::io(&name, &error))?.len();
        let directory = file.try_clone().map_err(|error| Failure::io(&name, &error))?;
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| {
            Failure::of_kind(ErrorKind::Corrupt, format_args!("{name}: cannot be read as a ZIP archive: {error}"))
        })?;
        let replaced = replaced(&name, directory, &archive)?;
        let (scratch, left_out) = (Scratch::default(), LeftOut::default());
        Ok(Self { archive, name, file_bytes, replaced, next: 0, number: 0, row_bytes_max, scratch, left_out })
    }

    /// Reads the entry `index`; `None` if it has no contents.
    fn read(&mut self, index: usize) -> std::result::Result<Option<()>, String> {
        let Self { archive, scratch: Scratch { key, value }, left_out, row_bytes_max, .. } = self;
        key.clear();
        value.clear();
        if let Some(Ok(name)) = archive.name_for_index(index) {
            key.extend_from_slice(name.as_bytes());
        }
        let mut file = archive.by_index(index).map_err(|error| what(&error))?;
        key.clear();
        key.extend_from_slice(file.name_raw());
        let counted = match () {
            () if file.is_dir() => Some(&mut left_out.directories),
            () if file.is_symlink() => Some(&mut left_out.others),
            () if is_unfinished(key) => Some(&mut left_out.unfinished),
            () => None,
        };
        if let Some(counted) = counted {
            *counted += 1;
            return Ok(None);
        }
        // The limit holds whatever length the header claims.
        let read = Read::by_ref(&mut file).take(row_bytes_max.saturating_add(1)).read_to_end(value);
        match read {
            Ok(bytes) if bytes as u64 > *row_bytes_max => {
                Err(format!("has more than {}; --max-row raises the limit", count_of(*row_bytes_max, "byte")))
            }
            Ok(_) => Ok(Some(())),
            // The method is checked when the contents are read.
            Err(error) => Err(match error.get_ref().and_then(|error| error.downcast_ref()) {
                Some(error) => what(error),
                None => format!("is damaged: {error}"),
            }),
        }
    }
}

/// Returns the names of entries that a later one replaces.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the directory has entries that the crate did not read: it reads as many as the archive's
/// end record says, in 16 bits unless the archive is ZIP64.
fn replaced(archive_name: &str, file: File, archive: &ZipArchive<BufReader<File>>) -> Result<Vec<Vec<u8>>> {
    let mut file = BufReader::new(file);
    let failed = |error| Failure::io(archive_name, &error);
    let start = directory_start(&mut file, archive).map_err(failed)?;
    let (mut entries, mut replaced) = (0, Vec::new());
    each_name(&mut file, start, |_| entries += 1).map_err(failed)?;
    if entries <= archive.len() {
        return Ok(replaced);
    }
    let mut names = HashSet::new();
    each_name(&mut file, start, |name| replaced.extend(names.replace(name))).map_err(failed)?;
    if names.len() > archive.len() || !archive.has_duplicate_names() {
        let entries = grouped(entries as u64);
        return Err(Failure::of_kind(
            ErrorKind::Corrupt,
            format_args!(
                "{archive_name}: the end of the ZIP archive says fewer entries than its directory has ({entries}); \
                 `unzip` or `7z` unpacks it for `load --tree`"
            ),
        ));
    }
    replaced.retain(|name| !name.ends_with(b"/"));
    Ok(replaced)
}

/// Returns the position of the directory. If the archive's end record says 0 entries, the crate returns the position of
/// that record; the directory, if the record says it has bytes, comes before it.
fn directory_start(file: &mut (impl Read + Seek), archive: &ZipArchive<BufReader<File>>) -> io::Result<u64> {
    let start = archive.central_directory_start();
    if !archive.is_empty() {
        return Ok(start);
    }
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(16).read_to_end(&mut end)?;
    Ok(match end[..] {
        [b'P', b'K', 5, 6, .., a, b, c, d] => start.saturating_sub(u32::from_le_bytes([a, b, c, d]).into()),
        _ => start,
    })
}

/// Visits the names in the directory at `start`, as far as it is intact.
fn each_name(file: &mut (impl Read + Seek), start: u64, mut visit: impl FnMut(Vec<u8>)) -> io::Result<()> {
    file.seek(SeekFrom::Start(start))?;
    let mut entry = [0; 46];
    loop {
        match file.read_exact(&mut entry) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        if !entry.starts_with(b"PK\x01\x02") {
            return Ok(());
        }
        let bytes_at = |at: usize| u64::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
        let mut name = Vec::new();
        file.take(bytes_at(28)).read_to_end(&mut name)?;
        io::copy(&mut file.take(bytes_at(30) + bytes_at(32)), &mut io::sink())?;
        visit(name);
    }
}

fn what(error: &ZipError) -> String {
    match error {
        ZipError::UnsupportedArchive(what) => format!("cannot be read: {what}"),
        ZipError::CompressionMethodNotSupported(method) => {
            let name = match method {
                1..=6 => "by a method of PKZIP before 2.0",
                9 => "by Deflate64",
                12 => "by bzip2",
                14 => "by LZMA",
                93 => "by Zstandard",
                95 => "by xz",
                98 => "by PPMd",
                99 => "with AES encryption",
                _ => "by another method",
            };
            format!("is compressed {name}, and only deflate is read; `unzip` or `7z` unpacks it for `load --tree`")
        }
        error => format!("is damaged: {error}"),
    }
}

impl Source for Zip {
    fn next_row(&mut self) -> Result<Row<'_>> {
        if let Some(name) = self.replaced.pop() {
            self.number += 1;
            let place = format!("{}: pair {}", self.name, self.number);
            let what = format!("{} is there again later in the archive; only the last is read", escapes::quoted(&name));
            return Ok(Row::Bad(BadRow { place, what, goes_on: true }));
        }
        loop {
            if self.next == self.archive.len() {
                return Ok(Row::End);
            }
            let index = self.next;
            self.next += 1;
            match self.read(index) {
                Ok(None) => {}
                Ok(Some(())) => {
                    self.number += 1;
                    return Ok(Row::Pair(self.scratch.pair(), self.number));
                }
                Err(what) => {
                    self.number += 1;
                    let place = format!("{}: pair {}", self.name, self.number);
                    let what = format!("{} {what}", escapes::quoted(&self.scratch.key));
                    return Ok(Row::Bad(BadRow { place, what, goes_on: true }));
                }
            }
        }
    }

    fn number(&self) -> u64 {
        self.number
    }

    /// Estimated from the share of files.
    fn taken_bytes(&self) -> u64 {
        let share = self.next as f64 / self.archive.len().max(1) as f64;
        ((self.file_bytes as f64 * share) as u64).min(self.file_bytes)
    }

    fn note(&self) -> Option<String> {
        self.left_out.note()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    /// Opens an archive of these files, after `change` to its bytes.
    fn open(files: &[(&str, &str)], change: impl Fn(Vec<u8>) -> Vec<u8>) -> Result<Zip> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, contents) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(contents.as_bytes()).unwrap();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), change(writer.finish().unwrap().into_inner())).unwrap();
        Zip::open(file.path(), 1 << 20)
    }

    /// Returns the rows of an archive of these files, whose names have the same length and no contents contain.
    fn rows(files: &[(&str, &str)], names: impl Fn(Vec<u8>) -> Vec<u8>) -> Vec<String> {
        let mut zip = open(files, names).unwrap_or_else(|failure| panic!("{failure:?}"));
        let mut rows = Vec::new();
        loop {
            match zip.next_row().unwrap_or_else(|failure| panic!("{failure:?}")) {
                Row::Pair(pair, _) => {
                    rows.push(format!("\"{} {}\"", pair.key.escape_ascii(), pair.value.escape_ascii()))
                }
                Row::Bad(bad) => rows.push(bad.what),
                Row::Entry(entry, _) => panic!("{entry:?}"),
                Row::Interrupted | Row::End => return rows,
            }
        }
    }

    /// The writer refuses equal names, so they are made equal afterwards.
    fn renamed(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
        let at: Vec<_> = memchr::memmem::find_iter(&bytes, from).collect();
        at.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
        bytes
    }

    #[test]
    fn an_entry_that_a_later_one_replaces_is_a_bad_row() {
        let files = [("one", "1"), ("two", "2"), ("six", "6")];
        assert_eq!(rows(&files, |bytes| bytes), ["\"one 1\"", "\"two 2\"", "\"six 6\""]);
        let replaced = "\"one\" is there again later in the archive; only the last is read";
        let mut found = rows(&files, |bytes| renamed(bytes, b"six", b"one"));
        found.sort();
        assert_eq!(found, ["\"one 6\"", replaced, "\"two 2\""]);
        // Bytes before an archive, as in one that extracts itself, shift its directory.
        let mut found = rows(&files, |bytes| [b"#!".to_vec(), renamed(bytes, b"six", b"one")].concat());
        found.sort();
        assert_eq!(found, ["\"one 6\"", replaced, "\"two 2\""]);
    }

    #[test]
    fn an_empty_archive_has_no_rows() {
        assert!(rows(&[], |bytes| bytes).is_empty());
        assert!(rows(&[], |bytes| [b"#!".to_vec(), bytes].concat()).is_empty());
    }

    #[test]
    fn an_archive_whose_end_counts_too_few_entries_is_refused() {
        let files = [("one", "1"), ("two", "2"), ("six", "6")];
        for (count, last) in [(0, "six"), (1, "six"), (2, "six"), (2, "one")] {
            let opened = open(&files, |bytes| {
                let mut bytes = renamed(bytes, b"six", last.as_bytes());
                let end = memchr::memmem::rfind(&bytes, b"PK\x05\x06").unwrap();
                (bytes[end + 8], bytes[end + 10]) = (count, count);
                bytes
            });
            let Err(failure) = opened else { panic!("{count} entries were taken") };
            let failure = format!("{failure:?}");
            assert!(failure.contains("fewer entries than its directory has (3)"), "{failure}");
        }
    }

    #[test]
    fn an_entry_of_another_method_is_not_called_damaged() {
        for (method, what) in [(12, "by bzip2"), (14, "by LZMA"), (93, "by Zstandard"), (77, "by another method")] {
            let found = rows(&[("one", "1")], |mut bytes| {
                for (header, at) in [(&b"PK\x03\x04"[..], 8), (b"PK\x01\x02", 10)] {
                    let header = memchr::memmem::find(&bytes, header).unwrap();
                    bytes[header + at] = method;
                }
                bytes
            });
            assert!(found[0].contains(&format!("is compressed {what}, and only deflate")), "{found:?}");
        }
    }
}
