//! The spill file: where changed frames of a table without checkpoints go when the cache is full.
//!
//! Two kinds of tables need one: a table in memory with a limit, and a handle that only reads but replays the log. The
//! file has no name and ends with the handle. A frame has the same offset in it as its number times its length; frames
//! that were never spilled are holes. The checksums are in memory.
//!
//! Not here: which frames leave the cache (`evict.rs`), a file that is open for writing (`blocks/`).

use crate::error::{Error, Result};
use crate::io::atomic::make_unnamed;
use crate::io::{File, Storage};
use crate::pager::file::TableFile;
use crate::pager::file::mapped_reads::MappedReads;
use crate::pager::file::sums::frame_sum;
use crate::pager::interleave;
use crate::pager::pool::FrameNo;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

/// Frames that left a full cache.
#[derive(Default)]
pub(in crate::pager) struct Spill {
    /// Made when the first frame is spilled.
    file: OnceLock<Arc<dyn File>>,
    reads: MappedReads,
    /// The checksums of spilled frames; `None` for a frame that was cut off the table, and is zero.
    sums: Mutex<HashMap<FrameNo, Option<u32>>>,
}

/// What the spill file knows of a frame.
pub(in crate::pager) enum Spilled {
    /// Nothing: the table's file may have it.
    No,
    /// The frame was cut off the table.
    Cut,
    /// It has been read.
    Read,
}

impl Spill {
    /// Makes the file now, so that a failure is reported when the table is made.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind) if the directory for temporary files takes no file.
    pub(in crate::pager) fn new(storage: &dyn Storage) -> Result<Spill> {
        let spill = Spill::default();
        spill.file(storage)?;
        Ok(spill)
    }

    fn file(&self, storage: &dyn Storage) -> Result<&dyn File> {
        if self.file.get().is_none() {
            // If another thread is faster, its file is used.
            let _ = self.file.set(make_unnamed(storage, &std::env::temp_dir().join("splitpoint"))?);
        }
        Ok(self.file.get().expect("just set").as_ref())
    }

    /// Writes a frame. The caller holds the frame's exclusive latch.
    pub(super) fn write(&self, file: &TableFile, frame: FrameNo, bytes: &[u8]) -> Result<()> {
        let at = u64::from(frame) * bytes.len() as u64;
        let written = self.file(file.storage.as_ref())?.write_at(bytes, at);
        written.map_err(|e| Error::io(&file.path, "write the temporary file of", e))?;
        interleave::lock(&self.sums).insert(frame, Some(frame_sum(frame, bytes)));
        Ok(())
    }

    /// Fills `bytes` with a frame, if it was spilled, and compares its checksum.
    pub(super) fn read(&self, file: &TableFile, frame: FrameNo, bytes: &mut [u8], maps: bool) -> Result<Spilled> {
        let stored = match interleave::lock(&self.sums).get(&frame) {
            None => return Ok(Spilled::No),
            Some(None) => return Ok(Spilled::Cut),
            Some(&Some(sum)) => sum,
        };
        let spilled = self.file.get().expect("a frame has been written to it");
        let at = u64::from(frame) * bytes.len() as u64;
        if !(maps && self.reads.read(spilled.as_ref(), at, bytes)) {
            let read = spilled.read_at(bytes, at);
            read.map_err(|e| Error::io(&file.path, "read the temporary file of", e))?;
        }
        let computed = frame_sum(frame, bytes);
        if computed != stored {
            return Err(file.corrupt(format!(
                "frame {frame}, in a temporary file: checksum mismatch, stored {stored:08x}, computed {computed:08x}"
            )));
        }
        Ok(Spilled::Read)
    }

    /// Forgets a frame that is cut off the table.
    pub(super) fn cut(&self, frame: FrameNo) {
        interleave::lock(&self.sums).insert(frame, None);
    }
}
