//! Undo files: frames as they were before a checkpoint was written over them.
//!
//! `<path>-undo/<N>` has frames of checkpoint N that the next one changed. The writer makes it only while a handle in
//! some process reads N or an older checkpoint, and such a handle takes these frames from there (`held.rs`). It is
//! never synced: after a power loss there are no readers. Format: docs/format.md, "Undo files".
//!
//! Not here: which frames are saved, and when the files are removed (`checkpoint/save_undo.rs`).

use crate::checksum::crc32c;
use crate::io::atomic::with_suffix;
use crate::io::{File, Mode, Storage, create_beside};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::pool::FrameNo;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// First bytes of an undo file. On disk.
const MAGIC: [u8; 8] = *b"SPLITUND";
/// Bytes before the list of frames. On disk.
const HEADER_BYTES: usize = 64;

/// The frames of an undo file.
#[derive(Clone, Copy)]
pub(in crate::pager) struct UndoId {
    pub table_id: u64,
    /// The checkpoint whose frames these are.
    pub base: u64,
    /// The checkpoint that was written over them.
    pub next: u64,
    pub frame_bytes: usize,
}

/// The directory of a table's undo files.
fn directory_of(path: &Path) -> PathBuf {
    with_suffix(path, "-undo")
}

fn undo_path(path: &Path, base: u64) -> PathBuf {
    directory_of(path).join(base.to_string())
}

/// The checkpoints for which the table at `path` has undo files, in any order; none if the directory cannot be listed.
pub(in crate::pager) fn undo_bases(storage: &dyn Storage, path: &Path) -> Vec<u64> {
    let names = storage.names_in(&directory_of(path)).unwrap_or_default();
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Removes these undo files, and their directory if it is then empty.
pub(in crate::pager) fn remove_undo(storage: &dyn Storage, path: &Path, bases: &[u64]) -> Result<()> {
    bases.iter().try_for_each(|&base| storage.remove(&undo_path(path, base)))?;
    // An empty one does no harm.
    let _ = storage.remove_directory(&directory_of(path));
    Ok(())
}

/// Removes all undo files of the table at `path`, which is about to be replaced by another.
pub(crate) fn remove_all_undo(storage: &dyn Storage, path: &Path) -> crate::Result<()> {
    let bases = undo_bases(storage, path);
    let fail = |e| crate::Error::io(&directory_of(path), "remove undo files from", e);
    remove_undo(storage, path, &bases).map_err(fail)
}

/// Makes an undo file for the table at `path` with `frames` of `file`, which are in order.
pub(in crate::pager) fn write_undo(
    storage: &dyn Storage,
    path: &Path,
    file: &dyn File,
    id: UndoId,
    frames: &[FrameNo],
) -> Result<()> {
    const BYTES_AT_ONCE: usize = 1 << 20;
    // Not with the access of the directory of the table, which more people may use than the table.
    storage.make_directory(&directory_of(path), Some(path))?;
    let path = undo_path(path, id.base);
    storage.remove(&path)?;
    let undo = create_beside(storage, &path, file)?;
    let written = || {
        let list: Vec<u8> = frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
        let mut at = frames_start(frames.len());
        undo.reserve(at + (frames.len() * id.frame_bytes) as u64)?;
        undo.write_at(&list, HEADER_BYTES as u64)?;
        let mut bytes = Vec::new();
        for chunk in frames.chunks(BYTES_AT_ONCE / id.frame_bytes) {
            // Adjacent frames are read with one call.
            for run in chunk.chunk_by(|a, b| a + 1 == *b) {
                let filled = bytes.len();
                bytes.resize(filled + run.len() * id.frame_bytes, 0);
                file.read_at(&mut bytes[filled..], u64::from(run[0]) * id.frame_bytes as u64)?;
            }
            undo.write_at(&bytes, at)?;
            at += bytes.len() as u64;
            bytes.clear();
        }
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&id.base.to_le_bytes());
        header[16..24].copy_from_slice(&id.next.to_le_bytes());
        header[24..32].copy_from_slice(&id.table_id.to_le_bytes());
        header[32..36].copy_from_slice(&(id.frame_bytes as u32).to_le_bytes());
        header[36..40].copy_from_slice(&(frames.len() as u32).to_le_bytes());
        header[40..44].copy_from_slice(&crc32c(&list).to_le_bytes());
        let sum = crc32c(&header[..60]);
        header[60..].copy_from_slice(&sum.to_le_bytes());
        undo.write_at(&header, 0)
    };
    written().inspect_err(|_| drop(storage.remove(&path)))
}

fn frames_start(count: usize) -> u64 {
    (HEADER_BYTES + 4 * count) as u64
}

/// An undo file, open for reading.
pub(in crate::pager) struct UndoFile {
    file: Box<dyn File>,
    /// The frames in it, in the order of their bytes.
    pub frames: Vec<FrameNo>,
    pub next: u64,
}

impl UndoFile {
    /// The undo file of checkpoint `base` of the table at `path`; `None` if there is none, or none that is complete.
    pub(in crate::pager) fn open(
        storage: &dyn Storage,
        path: &Path,
        (table_id, base): (u64, u64),
        frame_bytes: usize,
    ) -> Result<Option<UndoFile>> {
        let file = match storage.open(&undo_path(path, base), Mode::Read) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory) => {
                return Ok(None);
            }
            opened => opened?,
        };
        let file_bytes = file.len()?;
        let mut header = [0; HEADER_BYTES];
        if file_bytes < HEADER_BYTES as u64 {
            return Ok(None);
        }
        file.read_at(&mut header, 0)?;
        let (next, count) = (u64_at(&header, 16), u32_at(&header, 36) as usize);
        let is_meant = header[..8] == MAGIC
            && u32_at(&header, 60) == crc32c(&header[..60])
            && (u64_at(&header, 8), u64_at(&header, 24), u32_at(&header, 32)) == (base, table_id, frame_bytes as u32)
            && next > base
            // Checked before anything of that size is allocated.
            && file_bytes >= frames_start(count) + count as u64 * frame_bytes as u64;
        if !is_meant {
            return Ok(None);
        }
        let mut list = vec![0; 4 * count];
        file.read_at(&mut list, HEADER_BYTES as u64)?;
        if crc32c(&list) != u32_at(&header, 40) {
            return Ok(None);
        }
        let frames = list.chunks_exact(4).map(|number| u32_at(number, 0)).collect();
        Ok(Some(UndoFile { file, frames, next }))
    }

    /// Whether it still has its name: a writer that died before its checkpoint was complete is followed by one that
    /// makes another undo file.
    pub(in crate::pager) fn is_at(&self, path: &Path, base: u64) -> Result<bool> {
        self.file.is_at(&undo_path(path, base))
    }

    /// Reads the frame that is `place` in [`frames`](Self::frames).
    pub(in crate::pager) fn read(&self, place: u32, bytes: &mut [u8]) -> Result<()> {
        self.file.read_at(bytes, frames_start(self.frames.len()) + u64::from(place) * bytes.len() as u64)
    }
}
