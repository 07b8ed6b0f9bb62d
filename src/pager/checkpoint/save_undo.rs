//! Frames that a checkpoint saves for readers of earlier ones, before it overwrites them in the file.
//!
//! ```text
//! no reader       nothing, and the undo files that earlier ones needed are removed
//! some readers    the frames of the last checkpoint that will change, or that were or will be cut off the file,
//!                 except those that were saved since the newest reader came
//! ```
//!
//! So a reader costs the disk at most one copy of the file, however long it stays. Without space for it, the checkpoint
//! continues, and such readers get `Stale`.
//!
//! Not here: the locks of readers and the order of events (`file/held.rs`), the files (`file/undo.rs`).

use super::Frozen;
use crate::io::File;
use crate::io::atomic::UNFINISHED_BYTE;
use crate::pager::file::TableFile;
use crate::pager::file::held::CHOOSING;
use crate::pager::file::undo::{UndoId, remove_undo, undo_bases, write_undo};
use crate::pager::pool::FrameNo;
use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering::*;
use std::sync::{Mutex, MutexGuard};

/// The undo files of a table that is open for writing.
#[derive(Default)]
pub(in crate::pager) struct UndoFiles(Mutex<State>);

#[derive(Default)]
struct State {
    /// The checkpoints that have an undo file; `None` until the directory has been looked through for those that an
    /// earlier process left.
    bases: Option<BTreeSet<u64>>,
    /// The newest checkpoint with a reader, and the frames that were saved since it was the newest.
    newest: u64,
    saved: HashSet<FrameNo>,
}

/// While it lives, no reader begins to read the file.
pub(super) struct NoReaderBegins<'a>(&'a dyn File);

impl Drop for NoReaderBegins<'_> {
    fn drop(&mut self) {
        // Left locked after an error, it would be released with the file.
        let _ = self.0.unlock_byte(CHOOSING);
    }
}

impl UndoFiles {
    /// Saves what readers need of the frames in the file, of which the checkpoint will write `journalled`. Called when
    /// its journal is complete but for the header. Hold the result until the checkpoint is in the file.
    pub(super) fn save<'f>(
        &self,
        table: &TableFile,
        file: &'f dyn File,
        frozen: &Frozen,
        journalled: impl Iterator<Item = FrameNo>,
    ) -> Option<NoReaderBegins<'f>> {
        // An error is like a lack of locks: readers that find the checkpoint are stale.
        let none_begins = match file.lock_byte(CHOOSING, true) {
            Ok(Some(true)) => Some(NoReaderBegins(file)),
            Ok(Some(false)) => None,
            Ok(None) | Err(_) => return None,
        };
        let base = table.sequence.load(Relaxed);
        let held = |from: u64| file.first_locked_byte(from..UNFINISHED_BYTE).ok().flatten();
        let oldest = held(CHOOSING + 1);
        let mut state = self.state();
        // A reader that is choosing can take no checkpoint before this one.
        let needed = if none_begins.is_some() { u64::MAX } else { base };
        state.remove_before(oldest.unwrap_or(needed).min(needed), table);
        let newest = if none_begins.is_some() {
            let Some(mut newest) = oldest else { return none_begins };
            while let Some(later) = held(newest + 1) {
                newest = later;
            }
            newest
        } else {
            base
        };
        if state.newest != newest || none_begins.is_none() {
            (state.newest, state.saved) = (newest, HashSet::new());
        }
        let end = table.checkpoint_frames.load(Acquire);
        // The file may be cut and grow again between two checkpoints: new frames that nobody wrote are zeros then.
        let kept_end = frozen.cut.min(frozen.frame_count).min(end);
        let mut frames: Vec<FrameNo> = journalled.filter(|&frame| frame < kept_end).chain(kept_end..end).collect();
        frames.retain(|frame| !state.saved.contains(frame));
        frames.sort_unstable();
        let id = UndoId { table_id: table.table_id, base, next: frozen.sequence, frame_bytes: table.frame_bytes };
        if write_undo(table.storage.as_ref(), &table.path, file, id, &frames).is_ok() {
            state.bases(table).insert(base);
            state.saved.extend(frames);
        }
        none_begins
    }

    /// Removes the undo files that no reader needs.
    pub(in crate::pager) fn remove_unneeded(&self, table: &TableFile) {
        let Some(file) = table.handle.as_ref().filter(|_| !table.scratch) else { return };
        if self.state().bases(table).is_empty() {
            return;
        }
        if let Ok(Some(true)) = file.lock_byte(CHOOSING, true) {
            let _none_begins = NoReaderBegins(file.as_ref());
            if let Ok(oldest) = file.first_locked_byte(CHOOSING + 1..UNFINISHED_BYTE) {
                self.state().remove_before(oldest.unwrap_or(u64::MAX), table);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic while held")
    }
}

impl State {
    fn bases(&mut self, table: &TableFile) -> &mut BTreeSet<u64> {
        self.bases.get_or_insert_with(|| {
            let bases = undo_bases(table.storage.as_ref(), &table.path);
            if bases.is_empty() {
                // A power loss may have left the directory, empty.
                let _ = remove_undo(table.storage.as_ref(), &table.path, &[]);
            }
            bases.into_iter().collect()
        })
    }

    fn remove_before(&mut self, oldest: u64, table: &TableFile) {
        let bases = self.bases(table);
        let needed = bases.split_off(&oldest);
        let unneeded: Vec<u64> = std::mem::replace(bases, needed).into_iter().collect();
        if !unneeded.is_empty() {
            // Files that cannot be removed are left to the next process.
            let _ = remove_undo(table.storage.as_ref(), &table.path, &unneeded);
        }
    }
}
