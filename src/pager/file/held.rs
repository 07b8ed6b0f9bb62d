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
use super::create::not_yet_made;
use super::header::Header;
use super::stale::file_state;
use super::undo::UndoFile;
use crate::error::{Error, Result};
use crate::io::{File, Storage};
use crate::pager::file::block_header::{BlockHeader, Headers};
use crate::pager::pool::FrameNo;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// The byte that represents all checkpoints: see the head of this file.
pub(in crate::pager) const CHOOSING: u64 = 0;

/// A checkpoint that was chosen, and what was found of those after it.
pub(in crate::pager) struct Held {
    /// `None` if the system has no locks of bytes: then the checkpoint is not kept for this handle.
    undo: Option<Mutex<Undo>>,
    void: VoidJournal,
}

/// A journal that was found damaged or incomplete, and that no process will complete or install: it is as if there were
/// none. It is kept open, so that no other journal is taken for it.
pub(in crate::pager) type VoidJournal = Option<Arc<dyn File>>;

struct Undo {
    /// The last checkpoint that was complete when this handle looked.
    last: u64,
    files: Vec<Arc<UndoFile>>,
    /// Whether the last of `files` is that of `last`, over which the next checkpoint is being written.
    ahead: bool,
    /// The location of a frame: number of the file, offset in it.
    places: HashMap<FrameNo, (usize, u32)>,
}

/// Frames that are in undo files.
struct Saved {
    frames: Vec<(FrameNo, Arc<UndoFile>, u32)>,
    /// The number of undo files that were known.
    files: usize,
}

/// A checkpoint that was chosen, its header and its root.
pub(in crate::pager) type Begun = (Option<Held>, Header, Vec<u8>);

impl Held {
    /// Whether writers keep the checkpoint for this handle.
    pub(in crate::pager) fn is_kept(&self) -> bool {
        self.undo.is_some()
    }

    /// Locks the checkpoint that `file` has, and reads its header and root. `None` if a checkpoint is being written
    /// over the file, or one was interrupted; a journal that is `void` does not count. Never waits.
    ///
    /// # Errors
    /// A failure to read the header, also if a checkpoint overwrites it at this moment.
    pub(in crate::pager) fn begin(
        storage: &dyn Storage,
        path: &Path,
        file: &dyn File,
        void: &VoidJournal,
    ) -> Result<Option<Begun>> {
        let fail = |e| Error::io(path, "lock a checkpoint of", e);
        if file.lock_byte(CHOOSING, false).map_err(fail)? == Some(false) {
            return Ok(None);
        }
        let begun = Self::choose(storage, path, file, void);
        file.unlock_byte(CHOOSING).map_err(fail)?;
        begun
    }

    fn choose(storage: &dyn Storage, path: &Path, file: &dyn File, void: &VoidJournal) -> Result<Option<Begun>> {
        let fail = |e| Error::io(path, "lock a checkpoint of", e);
        let (header, root) = Header::read(path, file)?;
        let last = header.sequence;
        let locked = file.lock_byte(last, false).map_err(fail)?.is_some();
        // After a power loss the file may have the header of a checkpoint whose journal exists, and not its frames.
        let state = file_state(storage, path, file, void.as_deref())?;
        if state.last != last || state.journal.is_some() {
            return file.unlock_byte(last).map_err(fail).map(|()| None);
        }
        Ok(Some((Some(Held::of(last, locked, void)), header, root)))
    }

    fn of(last: u64, locked: bool, void: &VoidJournal) -> Held {
        let undo = Undo { last, files: Vec::new(), ahead: false, places: HashMap::new() };
        Held { undo: locked.then(|| Mutex::new(undo)), void: void.clone() }
    }

    /// Locks the last checkpoint of a file of blocks. Only a writer that completes checkpoints ever faster makes it
    /// try again.
    pub(in crate::pager) fn begin_with_blocks(path: &Path, file: &dyn File) -> Result<(Held, BlockHeader)> {
        let fail = |e| Error::io(path, "lock a checkpoint of", e);
        loop {
            let Headers::Last(header, _) = Headers::read(path, file)? else { return Err(not_yet_made(path)) };
            let last = header.table.sequence;
            let locked = file.lock_byte(last, false).map_err(fail)?.is_some();
            // After the lock: a writer that does not see it has written a later header before.
            match Headers::read(path, file)? {
                Headers::Last(again, _) if again.table.sequence == last => {
                    return Ok((Held::of(last, locked, &None), *again));
                }
                _ => file.unlock_byte(last).map_err(fail)?,
            }
        }
    }
}

impl Undo {
    fn saved(&self, frames: Range<FrameNo>) -> Saved {
        let place = |frame| {
            let &(number, place) = self.places.get(&frame)?;
            Some((frame, self.files[number].clone(), place))
        };
        Saved { frames: frames.filter_map(place).collect(), files: self.files.len() }
    }

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
    fn undo(&self) -> Option<&Mutex<Undo>> {
        self.held.as_ref()?.undo.as_ref()
    }

    /// Whether this handle reads a checkpoint that writers keep for it.
    pub(in crate::pager) fn holds_checkpoint(&self) -> bool {
        self.undo().is_some()
    }

    /// The journal that this reader ignores.
    pub(super) fn void_journal(&self) -> Option<&dyn File> {
        self.held.as_ref()?.void.as_deref()
    }

    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind) if writers do not keep this handle's checkpoint, and wrote a later one.
    pub(in crate::pager) fn refuse_if_not_kept(&self) -> Result<()> {
        if self.holds_checkpoint() { Ok(()) } else { self.refuse_if_stale() }
    }

    /// Fills `bytes` with adjacent frames from `first` on, as of the checkpoint that was opened for reading.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`](crate::ErrorKind) if they were written over, and no undo file has them.
    pub(in crate::pager) fn read_as_opened(&self, file: &dyn File, first: FrameNo, bytes: &mut [u8]) -> Result<()> {
        let fail = |e| self.unread(first, e);
        let Some(undo) = self.undo() else {
            file.read_at(bytes, u64::from(first) * self.frame_bytes as u64).map_err(fail)?;
            return self.refuse_if_stale();
        };
        let end = first + (bytes.len() / self.frame_bytes) as FrameNo;
        let part = |frames: Range<FrameNo>| {
            let [start, end] = [frames.start, frames.end].map(|frame| (frame - first) as usize * self.frame_bytes);
            start..end
        };
        loop {
            let saved = undo.lock().expect("no panic while held").saved(first..end);
            let mut read = Ok(());
            // Frames that were saved may be gone from the file, which was cut.
            let unsaved = gaps(first..end, saved.frames.iter().map(|&(frame, ..)| frame));
            let is_read = !unsaved.is_empty();
            for frames in unsaved {
                let at = u64::from(frames.start) * self.frame_bytes as u64;
                read = read.and_then(|()| file.read_at(&mut bytes[part(frames)], at));
            }
            if is_read {
                // Must follow the reads.
                if self.look_for_undo(undo, file)? > saved.files {
                    continue;
                }
                read.map_err(fail)?;
            }
            for (frame, undo, place) in saved.frames {
                undo.read(place, &mut bytes[part(frame..frame + 1)])
                    .map_err(|e| Error::io(&self.path, &format!("read frame {frame} from an undo file of"), e))?;
            }
            return Ok(());
        }
    }

    /// Opens the undo files of the checkpoints that were written, or begun to be written, since the last call. Returns
    /// the number of all that are open.
    fn look_for_undo(&self, undo: &Mutex<Undo>, file: &dyn File) -> Result<usize> {
        let state = self.state(file)?;
        let mut undo = undo.lock().expect("no panic while held");
        if state.is_unchanged_since(undo.last) {
            return Ok(undo.files.len());
        }
        let fail = |e| Error::io(&self.path, "open an undo file of", e);
        loop {
            let state = self.state(file)?;
            let last = state.last;
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
            if state.is_unchanged_since(undo.last) {
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

/// The runs of `frames` between `saved`, which are in order.
fn gaps(frames: Range<FrameNo>, saved: impl Iterator<Item = FrameNo>) -> Vec<Range<FrameNo>> {
    let mut start = frames.start;
    let ends = saved.chain([frames.end]);
    let runs = ends.map(|end| std::mem::replace(&mut start, end + 1)..end);
    runs.filter(|run| !run.is_empty()).collect()
}
