//! A ZIP archive: each file is a pair of its path and its contents, both unchanged.
//!
//! It is read from its end, by the `zip` crate, so it must be a file. An entry that is encrypted, damaged, or
//! compressed by another method than deflate is a bad row, after which the next file is read.

use super::tar::LeftOut;
use super::{BadRow, Row, Scratch, Source, tsv};
use crate::failure::{Failure, Result};
use crate::number::count_of;
use splitpoint::ErrorKind;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use zip::ZipArchive;
use zip::result::ZipError;

pub struct Zip {
    archive: ZipArchive<BufReader<File>>,
    name: String,
    file_bytes: u64,
    /// The next entry.
    next: usize,
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
        let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| {
            Failure::of_kind(ErrorKind::Corrupt, format_args!("{name}: cannot be read as a ZIP archive: {error}"))
        })?;
        let (scratch, left_out) = (Scratch::default(), LeftOut::default());
        Ok(Self { archive, name, file_bytes, next: 0, number: 0, row_bytes_max, scratch, left_out })
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
        if file.is_dir() || file.is_symlink() {
            let counted = if file.is_dir() { &mut left_out.directories } else { &mut left_out.others };
            *counted += 1;
            return Ok(None);
        }
        // Whatever the header says of its length.
        let read = Read::by_ref(&mut file).take(row_bytes_max.saturating_add(1)).read_to_end(value);
        match read {
            Ok(bytes) if bytes as u64 > *row_bytes_max => {
                Err(format!("has more than {}; --max-row raises the limit", count_of(*row_bytes_max, "byte")))
            }
            Ok(_) => Ok(Some(())),
            Err(error) => Err(format!("is damaged: {error}")),
        }
    }
}

fn what(error: &ZipError) -> String {
    match error {
        ZipError::UnsupportedArchive(what) => format!("cannot be read: {what}"),
        error => format!("is damaged: {error}"),
    }
}

impl Source for Zip {
    fn next_row(&mut self) -> Result<Row<'_>> {
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
                    let what = format!("{} {what}", tsv::quoted(&self.scratch.key));
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
