//! The contents of an archive's files, read a second time for its hard links.
//!
//! ```text
//! a regular file                   read again from it
//! a pipe, or compressed data       kept: the first in memory, more in a temporary file ($TMPDIR), removed at the end
//! ```
//!
//! An archive does not say in advance which files have links, so all are kept. If the temporary file cannot be written,
//! only links are affected.

use crate::input::Input;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use tempfile::SpooledTempFile;

/// Contents that are kept in memory.
const MEMORY_BYTES: usize = 64 << 20;

pub struct Contents {
    from: From,
    /// Where the contents of each file are, by its path.
    places: HashMap<Vec<u8>, Place>,
}

enum From {
    /// The archive, and where in it the input begins.
    Archive(File, u64),
    Kept(SpooledTempFile, u64),
    /// The contents could not be kept.
    Lost(io::Error),
}

#[derive(Clone, Copy)]
struct Place {
    at: u64,
    bytes: u64,
}

impl Contents {
    pub fn of(input: &Input<'_>) -> Self {
        let from = match input.again() {
            Some((file, begin)) => From::Archive(file, begin),
            None => From::Kept(SpooledTempFile::new(MEMORY_BYTES), 0),
        };
        Self { from, places: HashMap::new() }
    }

    /// Adds the file at `path`, whose contents end at byte `end` of the input.
    pub fn add(&mut self, path: &[u8], contents: &[u8], end: u64) {
        let bytes = contents.len() as u64;
        let at = match &mut self.from {
            From::Archive(_, begin) => *begin + end - bytes,
            From::Kept(file, length) => {
                let at = *length;
                if let Err(error) = file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(contents)) {
                    self.from = From::Lost(error);
                    return;
                }
                *length += bytes;
                at
            }
            From::Lost(_) => return,
        };
        self.places.insert(plain(path).to_vec(), Place { at, bytes });
    }

    /// Reads the file at `target` into `contents`, and keeps it under the name `link` too. Returns the reason if it
    /// cannot be read.
    pub fn link(&mut self, link: &[u8], target: &[u8], contents: &mut Vec<u8>) -> Result<(), String> {
        contents.clear();
        if let From::Lost(error) = &self.from {
            return Err(format!(
                "the contents of the archive could not be kept for its hard links ({error}); give it as a file that \
                 is not compressed"
            ));
        }
        let Some(place) = self.places.get(plain(target)).copied() else {
            return Err("its target is not before it in the archive, or was a bad row".into());
        };
        self.places.insert(plain(link).to_vec(), place);
        let length = usize::try_from(place.bytes).map_err(|_| "no memory for its contents".to_owned())?;
        contents.try_reserve_exact(length).map_err(|_| "no memory for its contents".to_owned())?;
        contents.resize(length, 0);
        let read = match &mut self.from {
            From::Archive(file, _) => file.read_exact_at(contents, place.at),
            From::Kept(file, _) => file.seek(SeekFrom::Start(place.at)).and_then(|_| file.read_exact(contents)),
            From::Lost(_) => Ok(()),
        };
        read.map_err(|error| format!("the contents of its target could not be read again: {error}"))
    }
}

/// Returns a path without the `./` that some archives put before it.
fn plain(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"./").unwrap_or(path)
}
