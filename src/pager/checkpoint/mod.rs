//! Checkpoint: dirty frames reach the file together or not at all.
//!
//! ```text
//! reserve     disk space for all that follows (`reserve.rs`); an error here leaves everything unchanged
//! freeze      between two writes: list the dirty frames, encode the header
//! new frames  write those beyond the end of the last checkpoint to their locations; sync
//! journal     copy the others, with their checksums, to `<path>-ckpt`; sync       -- the commit point
//! in place    write the journalled frames to their locations in the file; sync
//! remove      the journal
//! ```
//!
//! A crash before the journal is complete leaves the file unchanged. After a later crash, the next open finds a
//! complete journal and installs it; installing it repeatedly does no harm. A journal is complete if the checksums of
//! its header, its index and every frame match.
//!
//! Writers continue while the frames are written. A writer that changes a frozen frame that is not yet copied first
//! saves the frame's content (`pool/`, `mark_dirty`).
//!
//! Source: docs/architecture.md, "Checkpoint"; the double write is InnoDB's. Format: docs/format.md, "Checkpoint
//! journal".

pub(super) mod lock;
pub(super) mod reserve;

use crate::checksum::{crc32c, crc32c_append};
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::file::names::journal_path;
use crate::pager::pool::words::Bytes;
use crate::pager::pool::{FrameNo, FrozenFrame};
use crate::pager::{FORMAT_VERSION, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Header, Pager, SUM_OF_SUMS, ZONE_FRAMES};
use crate::pager::{header_sum, nonzero, sum_of_sums};
use crate::planted::{Bug, planted};
use reserve::{CheckpointRoom, JOURNAL_HEADER_BYTES, set_frame_count};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::Ordering::*;

/// First bytes of a journal. On disk.
const MAGIC: [u8; 8] = *b"SPLITJRN";

/// The checksum of a frame covers its number, so a frame in the wrong place does not match.
pub(in crate::pager) fn frame_sum(frame: FrameNo, bytes: &[u8]) -> u32 {
    nonzero(crc32c_append(crc32c(&frame.to_le_bytes()), bytes))
}

/// The state of the table at one moment between writes, to be written while writers continue.
pub(crate) struct Frozen {
    frames: Vec<FrameNo>,
    frame_count: u32,
    /// Frames of the file from here on are new since the last checkpoint, whatever the file contains there.
    cut: u32,
    /// Frames from here on are not part of the last checkpoint: they need no journal.
    direct_from: FrameNo,
    /// Records of the log refer to bytes of the file beyond the last checkpoint: these bytes must stay until this
    /// checkpoint is complete.
    keep_end: bool,
    /// Bytes that the file must have before this checkpoint is complete.
    bytes_needed: u64,
    header: Vec<u8>,
    sequence: u64,
    /// The journal, still empty.
    journal: Box<dyn File>,
}

impl Pager {
    /// Records the current state, with `root` for the header, and begins a new segment of the log with room for a
    /// record of `log_bytes`. `room` comes from [`reserve_checkpoint`](Self::reserve_checkpoint), under the same
    /// checkpoint lock. The caller keeps writers out.
    ///
    /// # Errors
    /// Those of beginning a segment and of reserving more room, and [`ErrorKind::Io`] if a map frame must be read.
    /// Nothing has changed then.
    pub(crate) fn freeze(&self, root: &[u8], log_bytes: u64, mut room: CheckpointRoom) -> Result<Frozen> {
        self.refuse_if_moved().inspect_err(|e| self.poison(e.message()))?;
        self.free_kept()?;
        self.seal_windows().inspect_err(|e| self.poison(e.message()))?;
        self.extend_file_for_checkpoint()?;
        let keep_end = self.keeps_end();
        self.complete_room(&mut room)?;
        let sequence = match &self.log {
            Some(log) => {
                log.follow(u64::from(self.frame_count()) * self.frame_bytes() as u64);
                log.switch(log_bytes)?
            }
            None => self.sequence.load(Relaxed) + 1,
        };
        // From here on this checkpoint must be written as of this moment, before any later content of these units:
        // until it is, records of the log still refer to them.
        self.free_quarantined().inspect_err(|e| self.poison(e.message()))?;
        if let Some(log) = self.log.as_ref().filter(|_| planted(Bug::SegmentFreedEarly)) {
            log.release(sequence)?;
        }
        self.frozen_sequence.store(sequence, Release);
        self.stop_spilling();
        let frames = self.pool.freeze();
        let (frame_count, cut) = (self.frame_count(), self.file_frames.load(Acquire));
        let (direct_from, bytes_needed) = (self.direct_from(), self.take_bytes_needed());
        self.begin_through_period(frame_count);
        let header = self.header_bytes(root, sequence);
        self.health.let_writes_begin();
        let journal = room.into_journal();
        Ok(Frozen { frames, frame_count, cut, direct_from, keep_end, bytes_needed, header, sequence, journal })
    }

    /// Writes the frozen state. After an error the handle is poisoned, and the file has the last checkpoint, or this
    /// one once the journal is installed.
    pub(crate) fn write_frozen(&self, frozen: Frozen) -> Result<()> {
        self.write_checkpoint(frozen).map_err(Error::ending_writes).inspect_err(|e| self.poison(e.message()))
    }

    fn write_checkpoint(&self, mut frozen: Frozen) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        frozen.frames.sort_unstable();
        frozen.frames.dedup();
        debug_assert!(!self.scratch, "a temporary file has no checkpoints");
        let index = self.write_journalled(&frozen, file.as_ref())?;
        // Before any frame may be evicted: a frame beyond the file's end would be read back as zeros.
        self.file_frames.store(frozen.frame_count, Release);
        self.checkpoint_frames.store(frozen.frame_count, Release);
        for &(frame, _) in &index {
            self.pool.in_file(frame);
        }
        self.pool.all_in_file();
        self.counts.frames_written.fetch_add(index.len() as u64, Relaxed);
        self.counts.checkpoints.fetch_add(1, Relaxed);
        self.complete_through_period(frozen.frame_count);
        // In this order: no frame is spilled until the checkpoint has its number, and by then the shadow file is empty.
        self.resume_spilling();
        self.sequence.store(frozen.sequence, Release);
        self.log.as_ref().map_or(Ok(()), |log| log.release(frozen.sequence))
    }

    fn write_journalled(&self, frozen: &Frozen, file: &dyn File) -> Result<FrameSums> {
        let path = journal_path(&self.path);
        let fail = |what: &'static str| move |e| Error::io(&self.path, what, e);
        let journal = frozen.journal.as_ref();
        // By now the name may belong to another table's journal.
        let remove_named = || if journal.is_at(&path)? { self.storage.remove(&path) } else { Ok(()) };
        // The cache may show a complete journal that the disk does not have. No open may find such a journal, now or
        // after a power loss.
        let forget = |_: &Error| drop(remove_named().and_then(|()| self.storage.sync_names(&path)));
        self.refuse_if_moved().inspect_err(forget)?;
        let mut size = FileSize { frame_bytes: self.frame_bytes(), cut: frozen.cut, frame_count: frozen.frame_count };
        if frozen.direct_from != FrameNo::MAX {
            if !frozen.keep_end {
                // Remove what an interrupted checkpoint left beyond the end, before new frames are written there.
                set_frame_count(file, size.frame_bytes, size.cut, size.frame_count)
                    .map_err(fail("set the length of"))
                    .inspect_err(forget)?;
            }
            // Writers may be writing through beyond the end of this checkpoint, now and while it is installed.
            size.cut =
                if self.writes_through() && !planted(Bug::ThroughCutOff) { CUT_NOTHING } else { size.frame_count };
        }
        let (all, index) = self.write_journal(frozen, size, journal, file).inspect_err(forget)?;
        self.storage.sync_names(&path).map_err(fail("sync the directory of")).inspect_err(forget)?;
        // A crash from here on leaves a file that is of no use without the journal.
        self.refuse_if_moved().inspect_err(forget)?;
        let cut = install_frames(journal, file, size, &index).map_err(fail("write a checkpoint to"))?;
        self.space().forget_reserved(cut);
        // While the journal still exists: the next open would install it in what is left.
        self.refuse_shorter(file, u64::from(frozen.frame_count) * self.frame_bytes() as u64)?;
        // Unsynced on purpose. Until the next journal replaces this one, installing it again changes nothing, except
        // that it may cut off values that are written beyond the end from now on. The sync of such values makes the
        // removal durable.
        remove_named().map_err(fail("remove the journal of"))?;
        if size.cut != CUT_NOTHING {
            self.note_removed_journal();
        }
        Ok(all)
    }

    /// Writes the frozen frames to the journal, or, if they are new, to their locations in the file. Returns all
    /// frames, and those in the journal.
    fn write_journal(
        &self,
        frozen: &Frozen,
        size: FileSize,
        journal: &dyn File,
        file: &dyn File,
    ) -> Result<(FrameSums, FrameSums)> {
        let direct = DirectWriter::new(file, self.frame_bytes(), frozen.direct_from);
        let mut writer = JournalWriter::new(journal, direct, self.frame_bytes());
        self.copy_frames(frozen, &mut writer).map_err(|e| self.journal_error(e))?;
        // Must precede the commit point: frames that were cut off and that this checkpoint does not write would be
        // lost.
        self.refuse_shorter(file, frozen.bytes_needed)?;
        let id = CheckpointId { table_id: self.table_id, sequence: frozen.sequence, base: self.sequence.load(Relaxed) };
        writer.finish(id, size).map_err(|e| self.journal_error(e.into()))
    }

    fn journal_error(&self, e: JournalError) -> Error {
        match e {
            JournalError::Io(e) => Error::io(&self.path, "write a checkpoint journal for", e),
            JournalError::Frame(e) => e,
        }
    }

    /// Copies the frozen frames to `sink`, with the content they had when frozen, then their checksum frames and the
    /// header.
    fn copy_frames(&self, frozen: &Frozen, sink: &mut JournalWriter<'_>) -> std::result::Result<(), JournalError> {
        let mut late = Vec::new();
        for &frame in &frozen.frames {
            if frame >= frozen.frame_count {
                self.pool.thaw(frame);
                continue;
            }
            match self.pool.copy_frozen(frame, sink.place(frame)?) {
                FrozenFrame::InFile if frame >= frozen.direct_from => sink.note(frame),
                FrozenFrame::InFile | FrozenFrame::InMemory => sink.push(frame)?,
                FrozenFrame::Spilled => {
                    sink.note_spilled(frame, self.stored_sum(frame).map_err(JournalError::Frame)?);
                }
                FrozenFrame::Shadowed if planted(Bug::ShadowForgotten) => {
                    sink.note_spilled(frame, self.stored_sum(frame).map_err(JournalError::Frame)?);
                }
                FrozenFrame::Shadowed => {
                    self.read_shadowed(frame, sink.place(frame)?).map_err(JournalError::Frame)?;
                    sink.push(frame)?;
                }
                FrozenFrame::Preserved => late.push(frame),
            }
        }
        // Contents that writers saved. The list is complete by now: every frozen frame has been visited.
        let mut preserved: HashMap<FrameNo, Box<[u8]>> = self.pool.take_preserved().into_iter().collect();
        for frame in late {
            let bytes =
                preserved.remove(&frame).expect("a frozen frame is copied here or saved by the writer that changed it");
            sink.place(frame)?.copy_from_slice(&bytes);
            sink.push(frame)?;
        }
        self.refuse_lost_pages().map_err(JournalError::Frame)?;
        self.copy_sums(sink)?;
        sink.place(0)?.copy_from_slice(&frozen.header);
        Ok(sink.push(0)?)
    }

    /// Updates the checksums of all frames in `sink` and adds the checksum frames to it.
    fn copy_sums(&self, sink: &mut JournalWriter<'_>) -> std::result::Result<(), JournalError> {
        let mut zones: BTreeMap<u32, FrameSums> = BTreeMap::new();
        for &(frame, sum) in sink.frames() {
            zones.entry(frame / ZONE_FRAMES).or_default().push((frame, sum));
        }
        for (zone, sums) in zones {
            let sum_frame = self.map_frame(zone) + 1;
            let mut bytes = self.pool.write_in_checkpoint(sum_frame, self).map_err(JournalError::Frame)?;
            for (frame, sum) in sums {
                let at = 4 * (frame % ZONE_FRAMES) as usize;
                bytes.whole().store(at, &sum.to_le_bytes());
            }
            let sum = sum_of_sums(sum_frame, &bytes);
            bytes.whole().store(SUM_OF_SUMS, &sum.to_le_bytes());
            sink.place(sum_frame)?.copy_from_slice(&bytes);
            drop(bytes);
            sink.push(sum_frame)?;
        }
        Ok(())
    }
}

/// Frames and their checksums.
type FrameSums = Vec<(FrameNo, u32)>;

enum JournalError {
    Io(std::io::Error),
    Frame(Error),
}

impl From<std::io::Error> for JournalError {
    fn from(e: std::io::Error) -> Self {
        JournalError::Io(e)
    }
}

/// Writes frames to the journal, many with one call.
struct JournalWriter<'a> {
    journal: &'a dyn File,
    frame_bytes: usize,
    buffer: Vec<u8>,
    filled: usize,
    written: u64,
    /// Frames in the journal.
    index: FrameSums,
    /// All frames, including those written directly to the file.
    all: FrameSums,
    direct: DirectWriter<'a>,
}

impl<'a> JournalWriter<'a> {
    fn new(journal: &'a dyn File, direct: DirectWriter<'a>, frame_bytes: usize) -> Self {
        const BUFFER_BYTES: usize = 1 << 20;
        JournalWriter {
            journal,
            frame_bytes,
            buffer: vec![0; BUFFER_BYTES.max(frame_bytes)],
            filled: 0,
            written: JOURNAL_HEADER_BYTES,
            index: Vec::new(),
            all: Vec::new(),
            direct,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.journal.write_at(&self.buffer[..self.filled], self.written)?;
        self.journal.begin_sync(self.written, self.filled as u64);
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes the index and the header and syncs. Returns all frames, and those in the journal.
    fn finish(mut self, id: CheckpointId, size: FileSize) -> std::io::Result<(FrameSums, FrameSums)> {
        // First, since a complete journal implies that these frames are written.
        self.direct.finish()?;
        self.flush()?;
        let index: Vec<u8> =
            self.index.iter().flat_map(|(frame, sum)| [frame.to_le_bytes(), sum.to_le_bytes()]).flatten().collect();
        self.journal.write_at(&index, self.written)?;
        let mut header = [0; JOURNAL_HEADER_BYTES as usize];
        header[..8].copy_from_slice(&MAGIC);
        header[8..16].copy_from_slice(&id.sequence.to_le_bytes());
        header[16..20].copy_from_slice(&(self.frame_bytes as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(self.index.len() as u32).to_le_bytes());
        header[24..28].copy_from_slice(&size.frame_count.to_le_bytes());
        header[28..32].copy_from_slice(&crc32c(&index).to_le_bytes());
        header[32..36].copy_from_slice(&size.cut.to_le_bytes());
        header[36..44].copy_from_slice(&id.table_id.to_le_bytes());
        header[44..52].copy_from_slice(&id.base.to_le_bytes());
        let sum = crc32c(&header[..60]);
        header[60..].copy_from_slice(&sum.to_le_bytes());
        self.journal.write_at(&header, 0)?;
        self.journal.sync()?;
        Ok((self.all, self.index))
    }
}

impl JournalWriter<'_> {
    /// The buffer for the bytes of `frame`, the next one. Call `push` or `note` with that frame next, or neither.
    fn place(&mut self, frame: FrameNo) -> std::io::Result<&mut [u8]> {
        if frame >= self.direct.from {
            return self.direct.place(frame);
        }
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        Ok(&mut self.buffer[self.filled..self.filled + self.frame_bytes])
    }

    /// Adds the frame whose bytes are in the buffer.
    fn push(&mut self, frame: FrameNo) -> std::io::Result<()> {
        if frame >= self.direct.from {
            self.all.push((frame, self.direct.push(frame)));
            return Ok(());
        }
        let sum = frame_sum(frame, &self.buffer[self.filled..self.filled + self.frame_bytes]);
        self.all.push((frame, sum));
        self.index.push((frame, sum));
        self.filled += self.frame_bytes;
        Ok(())
    }

    /// Notes the frame whose bytes are in the buffer, and which the file already has.
    fn note(&mut self, frame: FrameNo) {
        self.all.push((frame, self.direct.note(frame)));
    }

    /// Notes a frame with this checksum, which the file already has.
    fn note_spilled(&mut self, frame: FrameNo, sum: u32) {
        self.all.push((frame, sum));
        self.direct.wrote = true;
    }

    /// The frames so far, with their checksums.
    fn frames(&self) -> &[(FrameNo, u32)] {
        &self.all
    }
}

/// Writes new frames to their locations in the file, adjacent ones with one call.
struct DirectWriter<'a> {
    file: &'a dyn File,
    frame_bytes: usize,
    /// Frames from here on are new.
    from: FrameNo,
    /// Adjacent frames not yet written, the first `filled` bytes; `next` is the frame after them.
    run: Vec<u8>,
    filled: usize,
    next: FrameNo,
    /// The file has bytes of new frames that are not yet synced.
    wrote: bool,
}

/// Shorter runs are left to the sync at the end: the kernel may join them with their neighbours.
const BEGIN_SYNC_BYTES: usize = 256 << 10;

impl<'a> DirectWriter<'a> {
    fn new(file: &'a dyn File, frame_bytes: usize, from: FrameNo) -> Self {
        DirectWriter { file, frame_bytes, from, run: Vec::new(), filled: 0, next: 0, wrote: false }
    }

    /// The part of the buffer for the bytes of `frame`.
    fn place(&mut self, frame: FrameNo) -> std::io::Result<&mut [u8]> {
        const RUN_BYTES: usize = 1 << 20;
        if frame != self.next || self.filled == self.run.len() {
            self.flush()?;
            self.next = frame;
        }
        if self.run.is_empty() {
            self.run = vec![0; RUN_BYTES.max(self.frame_bytes)];
        }
        Ok(&mut self.run[self.filled..self.filled + self.frame_bytes])
    }

    fn sum(&self, frame: FrameNo) -> u32 {
        frame_sum(frame, &self.run[self.filled..self.filled + self.frame_bytes])
    }

    /// Adds the frame in the buffer; returns its checksum.
    fn push(&mut self, frame: FrameNo) -> u32 {
        let sum = self.sum(frame);
        self.filled += self.frame_bytes;
        self.next = frame + 1;
        sum
    }

    /// The checksum of the frame in the buffer, which the file already has.
    fn note(&mut self, frame: FrameNo) -> u32 {
        self.wrote = true;
        self.sum(frame)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let start = u64::from(self.next) * self.frame_bytes as u64 - self.filled as u64;
        let run = &self.run[..std::mem::take(&mut self.filled)];
        self.file.write_at(run, start)?;
        if run.len() >= BEGIN_SYNC_BYTES {
            self.file.begin_sync(start, run.len() as u64);
        }
        self.wrote = true;
        Ok(())
    }

    /// Writes the rest and syncs.
    fn finish(&mut self) -> std::io::Result<()> {
        self.flush()?;
        if self.wrote { self.file.sync() } else { Ok(()) }
    }
}

/// Identifies the table, the checkpoint, and the checkpoint before it.
#[derive(Clone, Copy)]
struct CheckpointId {
    table_id: u64,
    sequence: u64,
    base: u64,
}

/// The file's length as a checkpoint sets it.
#[derive(Clone, Copy)]
pub(in crate::pager) struct FileSize {
    pub(in crate::pager) frame_bytes: usize,
    pub(in crate::pager) cut: u32,
    pub(in crate::pager) frame_count: u32,
}

/// The `cut` of a checkpoint that cuts nothing off.
const CUT_NOTHING: u32 = u32::MAX;

/// Copies the frames of a complete journal to their locations, sets the file's length, and syncs. Returns whether it
/// cut the file.
fn install_frames(
    journal: &dyn File,
    file: &dyn File,
    size: FileSize,
    index: &[(FrameNo, u32)],
) -> std::io::Result<bool> {
    let FileSize { frame_bytes, cut, frame_count } = size;
    let cuts = set_frame_count(file, frame_bytes, cut, frame_count)?;
    const FRAMES_AT_ONCE: usize = 256;
    let mut buffer = vec![0; FRAMES_AT_ONCE * frame_bytes];
    let mut at = JOURNAL_HEADER_BYTES;
    for chunk in index.chunks(FRAMES_AT_ONCE) {
        let bytes = &mut buffer[..chunk.len() * frame_bytes];
        journal.read_at(bytes, at)?;
        at += bytes.len() as u64;
        // Adjacent frames are written with one call.
        let mut start = 0;
        while start < chunk.len() {
            let mut end = start + 1;
            while end < chunk.len() && chunk[end].0 == chunk[end - 1].0 + 1 {
                end += 1;
            }
            let run = &bytes[start * frame_bytes..end * frame_bytes];
            file.write_at(run, u64::from(chunk[start].0) * frame_bytes as u64)?;
            start = end;
        }
    }
    file.sync().map(|()| cuts)
}

/// Installs the journal of the table at `path` if it is complete, then removes it.
pub(in crate::pager) fn install(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<()> {
    if !may_have_journal(path, file)? {
        return Ok(());
    }
    let journal_path = journal_path(path);
    let journal = match storage.open(&journal_path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    if journal.is_locked().map_err(|e| Error::io(&journal_path, "ask for the lock of", e))? {
        let shown = journal_path.display();
        let what = "another process or handle is writing this journal, for a table that was renamed while it was open";
        return Err(Error::new(ErrorKind::Locked, format!("{shown}: {what}"))
            .with_hint("Close that table, or wait until its checkpoint is complete."));
    }
    if let Some((size, index, header)) =
        read_complete(journal.as_ref()).map_err(|e| Error::io(&journal_path, "read", e))?
    {
        check_belongs(&journal_path, file, size, &header)?;
        // Its writer may have been killed before it synced the journal: the bytes may be in the cache only.
        journal.sync().map_err(|e| Error::io(&journal_path, "sync", e))?;
        storage.sync_names(&journal_path).map_err(|e| Error::io(&journal_path, "sync the directory of", e))?;
        install_frames(journal.as_ref(), file, size, &index)
            .map_err(|e| Error::io(path, "install a checkpoint in", e))?;
    }
    drop(journal);
    storage.remove(&journal_path).map_err(|e| Error::io(&journal_path, "remove", e))
}

/// Waits up to 3 seconds for another process to finish writing a checkpoint in place.
pub(in crate::pager) fn wait_installed(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<()> {
    const WAIT: std::time::Duration = std::time::Duration::from_millis(20);
    const WAITS_MAX: usize = 150;
    for _ in 0..WAITS_MAX {
        match refuse_half_installed(storage, path, file) {
            Err(e) if e.kind() == ErrorKind::Locked && file.is_locked().unwrap_or(false) => std::thread::sleep(WAIT),
            other => return other,
        }
    }
    refuse_half_installed(storage, path, file)
}

/// Whether there may be a complete journal for the table at `path`. Its magic is written last.
pub(in crate::pager) fn has_journal(storage: &dyn Storage, path: &Path) -> Result<bool> {
    let journal_path = journal_path(path);
    let journal = match storage.open(&journal_path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    let mut magic = [0; MAGIC.len()];
    Ok(journal.read_at(&mut magic, 0).is_ok() && magic == MAGIC)
}

/// Returns an error if a complete journal exists: the table's frames may then be from two checkpoints.
pub(in crate::pager) fn refuse_half_installed(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<()> {
    let journal_path = journal_path(path);
    let journal = match storage.open(&journal_path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    let complete = read_complete(journal.as_ref()).map_err(|e| Error::io(&journal_path, "read", e))?;
    if complete.is_none() || !may_have_journal(path, file)? {
        return Ok(());
    }
    let shown = path.display();
    Err(Error::new(ErrorKind::Locked, format!("{shown}: a checkpoint is being written or was interrupted")).with_hint(
        "Try again when the writer is done, or open the table for writing once, which completes the checkpoint.",
    ))
}

/// Whether this is a table, or a file that is becoming one, so that a journal next to it belongs to it. Any other file
/// is left untouched; the open reads the header next and reports the error.
pub(in crate::pager) fn may_have_journal(path: &Path, file: &dyn File) -> Result<bool> {
    let mut start = [0; 12];
    let bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
    if bytes >= start.len() as u64 {
        file.read_at(&mut start, 0).map_err(|e| Error::io(path, "read the header of", e))?;
    }
    // All zeros: the first checkpoint had set the file's length but had not reached frame 0.
    let zeros = start == [0; 12] && (bytes == 0 || bytes >= start.len() as u64);
    Ok(zeros || start[..8] == super::MAGIC && u32_at(&start, 8) == FORMAT_VERSION)
}

/// Checks that a complete journal makes a table of version 1, and that `file` is its table: one with the previous
/// checkpoint, with this one, or torn.
pub(in crate::pager) fn check_belongs(
    path: &Path,
    file: &dyn File,
    size: FileSize,
    header: &JournalHeader,
) -> Result<()> {
    let shown = path.display();
    let new = header.table.as_deref().filter(|bytes| bytes[..8] == super::MAGIC);
    if let Some(version) = new.map(|bytes| u32_at(bytes, 8)).filter(|&version| version != FORMAT_VERSION) {
        return Err(super::version_error(&shown, version));
    }
    let new = new.filter(|bytes| header_is_intact(bytes)).and_then(|bytes| Header::parse(bytes).ok());
    let matches = new.is_some_and(|new| {
        let CheckpointId { table_id, sequence, .. } = header.id;
        (new.frame_bytes, new.frame_count) == (size.frame_bytes, size.frame_count)
            && (new.table_id, new.sequence) == (table_id, sequence)
    });
    if !matches {
        return Err(Error::corrupt(format!("{shown}: its last frame does not match the journal's header"))
            .with_hint("Move the journal away to continue from the checkpoint before."));
    }
    let mut old = vec![0; super::HEADER_BYTES];
    let intact = file.read_at(&mut old, 0).is_ok() && old[..8] == super::MAGIC && header_is_intact(&old);
    let (id, at) = (u64_at(&old, super::TABLE_ID), u64_at(&old, 16));
    let CheckpointId { table_id, sequence, base } = header.id;
    if base > 0 && file.len().map_err(|e| Error::io(path, "get the length of the table of", e))? == 0 {
        return Err(Error::corrupt(format!(
            "{shown}: belongs to checkpoint {base} of table {table_id:016x}, but the table beside it is empty"
        ))
        .with_hint("Put that table back, or move the journal away to begin a new one."));
    }
    let fits = id == table_id && (at == sequence || at == base) || planted(Bug::AnyJournalInstalled);
    if intact && !fits {
        return Err(Error::corrupt(format!(
            "{shown}: leads from checkpoint {base} to {sequence} of table {table_id:016x}, \
             but the table beside it is {id:016x} at checkpoint {at}"
        ))
        .with_hint("To keep the table, move the journal away."));
    }
    Ok(())
}

fn header_is_intact(bytes: &[u8]) -> bool {
    header_sum(bytes) == u32_at(bytes, super::HEADER_BYTES - 4)
}

/// A journal without its frames: the number of the checkpoint, and the content of its last frame if that is frame 0.
pub(in crate::pager) struct JournalHeader {
    id: CheckpointId,
    table: Option<Vec<u8>>,
}

pub(in crate::pager) type Journal = (FileSize, FrameSums, JournalHeader);

/// Reads a journal; `None` unless every checksum in it matches. An incomplete one is normal after a crash, not an
/// error.
pub(in crate::pager) fn read_complete(journal: &dyn File) -> std::io::Result<Option<Journal>> {
    let journal_bytes = journal.len()?;
    if journal_bytes < JOURNAL_HEADER_BYTES {
        return Ok(None);
    }
    let mut header = [0; JOURNAL_HEADER_BYTES as usize];
    journal.read_at(&mut header, 0)?;
    if header[..8] != MAGIC || u32_at(&header, 60) != crc32c(&header[..60]) {
        return Ok(None);
    }
    let id = CheckpointId { table_id: u64_at(&header, 36), sequence: u64_at(&header, 8), base: u64_at(&header, 44) };
    let (frame_bytes, count, frame_count) = (u32_at(&header, 16) as usize, u32_at(&header, 20), u32_at(&header, 24));
    let frames_end = JOURNAL_HEADER_BYTES + u64::from(count) * frame_bytes as u64;
    let legal = (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame_bytes) && frame_bytes.is_power_of_two();
    // Checked against the file's length before anything of that size is allocated.
    if !legal || journal_bytes < frames_end + u64::from(count) * 8 {
        return Ok(None);
    }
    let mut index = vec![0; count as usize * 8];
    journal.read_at(&mut index, frames_end)?;
    if crc32c(&index) != u32_at(&header, 28) {
        return Ok(None);
    }
    let index: Vec<_> = index.chunks_exact(8).map(|e| (u32_at(e, 0), u32_at(e, 4))).collect();
    let mut bytes = vec![0; frame_bytes];
    for (i, &(frame, sum)) in index.iter().enumerate() {
        journal.read_at(&mut bytes, JOURNAL_HEADER_BYTES + (i * frame_bytes) as u64)?;
        let intact = frame_sum(frame, &bytes) == sum || planted(Bug::JournalUnchecked);
        if frame >= frame_count || !intact {
            return Ok(None);
        }
    }
    let table = index.last().is_some_and(|&(frame, _)| frame == 0).then_some(bytes);
    let size = FileSize { frame_bytes, cut: u32_at(&header, 32), frame_count };
    Ok(Some((size, index, JournalHeader { id, table })))
}
