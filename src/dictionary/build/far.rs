//! Values that a build never holds in memory: they stay in a file and are copied to the dictionary piece by piece.
//!
//! ```text
//! batch  push -> file without a name, values in sequence, each with a checksum -> Far { Batch, offset, checksum }
//! old    the old dictionary's stream -----------------------------------------> Far { Old, offset }
//! ```
//!
//! In a run such a value is a reference (`run.rs`). With resume the file has a name, and checkpoints record how much of
//! it is valid. Not here: which values are far (`sort/mod.rs`, `read/walk.rs`), how they are written (`data.rs`).

use crate::checksum::{crc32c, crc32c_append};
use crate::dictionary::read::file::DictionaryFile;
use crate::dictionary::read::pages::Stream;
use crate::dictionary::run::{Far, FarSource};
use crate::error::{Error, Result};
use crate::io::File;
use std::path::Path;
use std::sync::Arc;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// A file with values of a batch.
#[derive(Clone)]
pub(crate) struct FarFile {
    pub file: Arc<dyn File>,
    pub path: Arc<Path>,
    /// Bytes of values written so far.
    pub bytes: u64,
}

impl FarFile {
    /// Appends a value.
    pub fn push(&mut self, value: &[u8]) -> Result<Far> {
        let far = Far { source: FarSource::Batch, offset: self.bytes, checksum: crc32c(value) };
        let what = format!("write at byte {} of the temporary file", self.bytes);
        self.file.write_at(value, self.bytes).map_err(|e| Error::io(&self.path, &what, e))?;
        self.bytes += value.len() as u64;
        Ok(far)
    }

    fn copy(&self, far: Far, len: u32, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = vec![0; COPY_BYTES.min(len as usize)];
        let (mut at, end, mut checksum) = (far.offset, far.offset + u64::from(len), 0);
        while at < end {
            let now = (end - at).min(COPY_BYTES as u64) as usize;
            self.file
                .read_at(&mut bytes[..now], at)
                .map_err(|e| Error::io(&self.path, "read the temporary file", e))?;
            checksum = crc32c_append(checksum, &bytes[..now]);
            take(&bytes[..now])?;
            at += now as u64;
        }
        if checksum == far.checksum {
            return Ok(());
        }
        let (path, stored) = (self.path.display(), far.checksum);
        let message = format!(
            "{path}: value at byte {}: checksum mismatch, stored {stored:08x}, computed {checksum:08x}",
            far.offset
        );
        Err(Error::corrupt(message).with_hint("Remove the temporary files, if they have names, and build again."))
    }
}

/// The sources of far values in a build.
#[derive(Clone, Default)]
pub(crate) struct FarSources {
    pub batch: Option<FarFile>,
    pub old: Option<Arc<DictionaryFile>>,
    pub rewritten: Option<Arc<DictionaryFile>>,
}

impl FarSources {
    /// Calls `take` with the bytes of a value of `len` bytes, piece by piece.
    pub fn copy(&self, far: Far, len: u32, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let file = match far.source {
            FarSource::Batch => {
                return self.batch.as_ref().expect("a reference comes with its source").copy(far, len, take);
            }
            FarSource::Old => &self.old,
            FarSource::Rewritten => &self.rewritten,
        };
        let file = file.as_ref().expect("a reference comes with its source");
        let range = far.offset..far.offset + u64::from(len);
        Stream::new(&file.pages, 0).pieces(range, |piece| take(piece).map(|()| true))
    }
}
