//! A reader keeps the checkpoint that it opened, while another process or handle writes later ones over it.
//!
//! ```text
//! a byte of the file, locked          by                  means
//! 0, shared                           a reader            it is about to choose its checkpoint
//! 0, alone                            the writer          none may choose now: a checkpoint is written over the file
//! N, shared                           a reader            it reads checkpoint N
//!
//! the writer, before its journal is complete      byte 0, alone; is any other byte locked?
//!     no reader      remove all undo files; keep byte 0 until the file has the new checkpoint
//!     some           save the frames that will change to an undo file (`undo.rs`); keep byte 0 as well
//!     byte 0 is not free: the same, with all frames, since a reader may be choosing this checkpoint
//!
//! the reader, for each frame     is it in an undo file? else read it from the file
//!                                -> is the checkpoint still the last one? else look for new undo files, once more
//! ```
//!
//! The system releases the locks of a process that dies, and a stopped one makes nobody wait. A frame is in several
//! undo files if several checkpoints changed it: the oldest has what the reader wants. If an undo file is missing, as
//! the disk was full, the reader gets `Stale`. So does one on a system without such locks.
//!
//! Not here: what the writer saves (`checkpoint/save_undo.rs`).

use super::TableFile;
use super::header::Header;
use super::stale::{FileState, file_state};
use super::undo::UndoFile;
use crate::error::{Error, Result};
use crate::io::{File, Storage};
use crate::pager::pool::FrameNo;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

/// The byte that stands for all checkpoints: see the head of this file.
pub(in crate::pager) const CHOOSING: u64 = 0;

/// A checkpoint that is kept for this handle, and what was found of those after it.
pub(in crate::pager) struct Held {
    undo: Mutex<Undo>,
}

struct Undo {
    /// The last checkpoint that was complete when this handle looked.
    last: u64,
    files: Vec<Arc<UndoFile>>,
    /// Whether the last of `files` is that of `last`, over which the next checkpoint is being written.
    ahead: bool,
    /// Where a frame is: number of the file, place in it.
    places: HashMap<FrameNo, (usize, u32)>,
}

/// Frames that are in undo files.
struct Saved {
    frames: Vec<(FrameNo, Arc<UndoFile>, u32)>,
    /// The number of undo files that were known.
    files: usize,
}

/// A checkpoint that was chosen, its header and its root; it is not held if the system has no locks of bytes.
pub(in crate::pager) type Begun = (Option<Held>, Header, Vec<u8>);

impl Held {
    /// Locks the checkpoint that `file` has, and reads its header and root. `None` if a checkpoint is being written
    /// over the file, or one was interrupted. Never waits.
    ///
    /// # Errors
    /// Those of reading the header, also if a checkpoint is written over it at this moment.
    pub(in crate::pager) fn begin(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<Option<Begun>> {
        let fail = |e| Error::io(path, "lock a checkpoint of", e);
        if file.lock_byte(CHOOSING, false).map_err(fail)? == Some(false) {
            return Ok(None);
        }
        let begun = Self::choose(storage, path, file);
        file.unlock_byte(CHOOSING).map_err(fail)?;
        begun
    }

    fn choose(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<Option<Begun>> {
        let fail = |e| Error::io(path, "lock a checkpoint of", e);
        let (header, root) = Header::read(path, file)?;
        let last = header.sequence;
        let locked = file.lock_byte(last, false).map_err(fail)?.is_some();
        if file_state(storage, path, file)? != (FileState { last, journal: false }) {
            return file.unlock_byte(last).map_err(fail).map(|()| None);
        }
        let undo = Undo { last, files: Vec::new(), ahead: false, places: HashMap::new() };
        Ok(Some((locked.then(|| Held { undo: Mutex::new(undo) }), header, root)))
    }

    fn undo(&self) -> MutexGuard<'_, Undo> {
        self.undo.lock().expect("no panic while held")
    }

    fn saved(&self, frames: Range<FrameNo>) -> Saved {
        let undo = self.undo();
        let place = |frame| {
            let &(number, place) = undo.places.get(&frame)?;
            Some((frame, undo.files[number].clone(), place))
        };
        Saved { frames: frames.filter_map(place).collect(), files: undo.files.len() }
    }
}

impl Undo {
    fn add(&mut self, file: UndoFile, frames_end: FrameNo) {
        let number = self.files.len();
        for (place, &frame) in (0..).zip(&file.frames) {
            if frame < frames_end {
                self.places.entry(frame).or_insert((number, place));
            }
        }
        self.files.push(Arc::new(file));
        self.ahead = true;
    }
}

impl TableFile {
    /// Fills `bytes` with adjacent frames from `first` on, as of the checkpoint that was opened for reading.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind) if they were written over, and no undo file has them.
    pub(in crate::pager) fn read_as_opened(&self, file: &dyn File, first: FrameNo, bytes: &mut [u8]) -> Result<()> {
        let count = bytes.len() / self.frame_bytes;
        let fail = |e| self.unread(first, e);
        let Some(held) = &self.held else {
            file.read_at(bytes, u64::from(first) * self.frame_bytes as u64).map_err(fail)?;
            return self.refuse_if_stale();
        };
        loop {
            let saved = held.saved(first..first + count as FrameNo);
            if saved.frames.len() < count {
                let read = file.read_at(bytes, u64::from(first) * self.frame_bytes as u64);
                // Must follow the read.
                if self.look_for_undo(held, file)? > saved.files {
                    continue;
                }
                read.map_err(fail)?;
            }
            for (frame, undo, place) in saved.frames {
                let at = (frame - first) as usize * self.frame_bytes;
                undo.read(place, &mut bytes[at..at + self.frame_bytes])
                    .map_err(|e| Error::io(&self.path, &format!("read frame {frame} from an undo file of"), e))?;
            }
            return Ok(());
        }
    }

    /// Opens the undo files of the checkpoints that were written, or begun to be written, since the last call. Returns
    /// the number of all that are open.
    fn look_for_undo(&self, held: &Held, file: &dyn File) -> Result<usize> {
        let state = self.state(file)?;
        let mut undo = held.undo();
        if state == (FileState { last: undo.last, journal: false }) {
            return Ok(undo.files.len());
        }
        let fail = |e| Error::io(&self.path, "open an undo file of", e);
        loop {
            let FileState { last, journal } = self.state(file)?;
            if let Some(newest) = undo.files.last().filter(|_| undo.ahead) {
                // Another file of this name: the checkpoint was not completed, and its writer made another one.
                let replaced = !newest.is_at(&self.path, undo.last).map_err(fail)?;
                if !replaced && last == undo.last {
                    break;
                }
                if !replaced {
                    undo.last = newest.next;
                }
                undo.ahead = false;
            }
            if last == undo.last && !journal {
                break;
            }
            let id = (self.table_id, undo.last);
            let opened = UndoFile::open(self.storage.as_ref(), &self.path, id, self.frame_bytes).map_err(fail)?;
            match opened.filter(|_| undo.last <= last) {
                Some(opened) => undo.add(opened, self.checkpoint_frames.load(Relaxed)),
                None => return Err(self.stale()),
            }
        }
        Ok(undo.files.len())
    }
}
