//! The checkpoint journal: the frames of a checkpoint, before they are written over those of the last one.
//!
//! ```text
//! write      frames, new ones straight to the table's file; then their index, then the header; sync
//! install    copy the frames to their locations in the table's file; sync; remove the journal
//! ```
//!
//! A journal is complete if the checksums of its header, its index and every frame match. Format: docs/format.md,
//! "Checkpoint journal". Not here: which frames (`mod.rs`), room for it (`reserve.rs`).

use super::pace::Pace;
use crate::checksum::crc32c;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{File, Mode, Storage};
use crate::little_endian::{u32_at, u64_at};
use crate::pager::file::create::take_lock;
use crate::pager::file::header::{FORMAT_VERSION, HEADER_BYTES, Header, MAGIC, TABLE_ID, header_sum, version_error};
use crate::pager::file::length::set_frame_count;
use crate::pager::file::names::journal_path;
use crate::pager::file::stale::{JOURNAL_MAGIC, has_magic, is_void};
use crate::pager::file::sums::frame_sum;
use crate::pager::pool::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, FrameNo};
use std::path::Path;

/// Bytes of a journal before its first frame.
pub(crate) const JOURNAL_HEADER_BYTES: u64 = 64;
/// Bytes of a frame in the index of a journal.
pub(super) const INDEX_ENTRY_BYTES: u64 = 8;

/// Frames and their checksums.
pub(super) type FrameSums = Vec<(FrameNo, u32)>;

pub(super) enum JournalError {
    Io(std::io::Error),
    Frame(Error),
}

impl From<std::io::Error> for JournalError {
    fn from(e: std::io::Error) -> Self {
        JournalError::Io(e)
    }
}

/// Writes frames to the journal, many with one call.
pub(super) struct JournalWriter<'a> {
    journal: &'a dyn File,
    pace: Pace<'a>,
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
    pub(super) fn new(journal: &'a dyn File, direct: DirectWriter<'a>, frame_bytes: usize) -> Self {
        const BUFFER_BYTES: usize = 1 << 20;
        JournalWriter {
            journal,
            pace: Pace::new(journal),
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
        self.pace.follow(self.written, self.filled as u64)?;
        self.written += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes the index and the header and syncs. Returns all frames, and those in the journal.
    pub(super) fn finish(mut self, id: CheckpointId, size: FileSize) -> std::io::Result<(FrameSums, FrameSums)> {
        // First, since a complete journal implies that these frames are written.
        self.direct.finish()?;
        self.flush()?;
        let index: Vec<u8> =
            self.index.iter().flat_map(|(frame, sum)| [frame.to_le_bytes(), sum.to_le_bytes()]).flatten().collect();
        self.journal.write_at(&index, self.written)?;
        let mut header = [0; JOURNAL_HEADER_BYTES as usize];
        header[..8].copy_from_slice(&JOURNAL_MAGIC);
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
    pub(super) fn place(&mut self, frame: FrameNo) -> std::io::Result<&mut [u8]> {
        if frame >= self.direct.from {
            return self.direct.place(frame);
        }
        if self.filled == self.buffer.len() {
            self.flush()?;
        }
        Ok(&mut self.buffer[self.filled..self.filled + self.frame_bytes])
    }

    /// Adds the frame whose bytes are in the buffer.
    pub(super) fn push(&mut self, frame: FrameNo) -> std::io::Result<()> {
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
    pub(super) fn note(&mut self, frame: FrameNo) {
        self.all.push((frame, self.direct.note(frame)));
    }

    /// Notes a frame with this checksum, which the file already has.
    pub(super) fn note_spilled(&mut self, frame: FrameNo, sum: u32) {
        self.all.push((frame, sum));
        self.direct.wrote = true;
    }

    /// The frames that are in the journal so far.
    pub(super) fn journalled(&self) -> impl Iterator<Item = FrameNo> {
        self.index.iter().map(|&(frame, _)| frame)
    }

    /// The frames so far, with their checksums.
    pub(super) fn frames(&self) -> &[(FrameNo, u32)] {
        &self.all
    }
}

/// Writes new frames to their locations in the file, adjacent ones with one call.
pub(super) struct DirectWriter<'a> {
    file: &'a dyn File,
    pace: Pace<'a>,
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
    pub(super) fn new(file: &'a dyn File, frame_bytes: usize, from: FrameNo) -> Self {
        let pace = Pace::new(file);
        DirectWriter { file, pace, frame_bytes, from, run: Vec::new(), filled: 0, next: 0, wrote: false }
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
            self.pace.follow(start, run.len() as u64)?;
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
pub(super) struct CheckpointId {
    pub(super) table_id: u64,
    pub(super) sequence: u64,
    pub(super) base: u64,
}

/// The file's length as a checkpoint sets it.
#[derive(Clone, Copy)]
pub(crate) struct FileSize {
    pub(crate) frame_bytes: usize,
    pub(crate) cut: u32,
    pub(crate) frame_count: u32,
}

/// The `cut` of a checkpoint that cuts nothing off.
pub(super) const CUT_NOTHING: u32 = u32::MAX;

/// Copies the frames of a complete journal to their locations, sets the file's length, and syncs. Returns whether it
/// cut the file.
pub(super) fn install_frames(
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
    let mut pace = Pace::new(file);
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
        let frames = || chunk.iter().map(|&(frame, _)| u64::from(frame));
        let (first, last) = (frames().min().unwrap_or(0), frames().max().unwrap_or(0));
        pace.follow(first * frame_bytes as u64, (last + 1 - first) * frame_bytes as u64)?;
    }
    file.sync().map(|()| cuts)
}

/// Installs the journal of the table at `path` if it is complete, then removes it.
pub(crate) fn install(storage: &dyn Storage, path: &Path, file: &dyn File) -> Result<()> {
    if !may_have_journal(path, file)? {
        return Ok(());
    }
    let journal_path = journal_path(path);
    // For writing, since NFS locks no other files.
    let journal = match storage.open(&journal_path, Mode::Write) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    // Kept until it is removed: so a reader knows that the checkpoint will be complete.
    if let Err(e) = take_lock(journal.as_ref(), &journal_path) {
        if e.kind() != ErrorKind::Locked {
            return Err(e);
        }
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
    storage.remove(&journal_path).map_err(|e| Error::io(&journal_path, "remove", e))
}

/// The journal of a table, as a reader finds it.
pub(super) enum Found {
    /// None whose header is written, so the file has a whole checkpoint.
    Nothing,
    /// A process is writing this journal, or its frames to the file.
    InUse,
    /// A complete one that no process uses: its checkpoint was interrupted, and the file may have a part of it.
    Interrupted,
    /// An incomplete or damaged one that no process uses: the next open for writing removes it.
    Void(Box<dyn File>),
}

/// Looks for the journal of the table at `path`; one that is `void` does not count.
pub(super) fn find(storage: &dyn Storage, path: &Path, file: &dyn File, void: Option<&dyn File>) -> Result<Found> {
    let journal_path = journal_path(path);
    let journal = match storage.open(&journal_path, Mode::Read) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        other => other.map_err(|e| Error::io(&journal_path, "open", e))?,
    };
    if is_void(void, &journal_path)? {
        return Ok(Found::Nothing);
    }
    // In this order: its writer locks a journal before it writes the header, so one with a header and without a lock
    // does not change any more.
    if !has_magic(journal.as_ref()) {
        return Ok(Found::Nothing);
    }
    if journal.is_locked().map_err(|e| Error::io(&journal_path, "ask for the lock of", e))? {
        return Ok(Found::InUse);
    }
    let complete = read_complete(journal.as_ref()).map_err(|e| Error::io(&journal_path, "read", e))?;
    match complete {
        None => Ok(Found::Void(journal)),
        Some(_) if may_have_journal(path, file)? => Ok(Found::Interrupted),
        Some(_) => Ok(Found::Nothing),
    }
}

/// Whether this is a table, or a file that is becoming one, so that a journal next to it belongs to it. Any other file
/// is left untouched; the open reads the header next and reports the error.
pub(crate) fn may_have_journal(path: &Path, file: &dyn File) -> Result<bool> {
    let mut start = [0; 12];
    let bytes = file.len().map_err(|e| Error::io(path, "ask the length of", e))?;
    if bytes >= start.len() as u64 {
        file.read_at(&mut start, 0).map_err(|e| Error::io(path, "read the header of", e))?;
    }
    // All zeros: the first checkpoint had set the file's length but had not reached frame 0.
    let zeros = start == [0; 12] && (bytes == 0 || bytes >= start.len() as u64);
    Ok(zeros || start[..8] == MAGIC && u32_at(&start, 8) == FORMAT_VERSION)
}

/// Checks that a complete journal makes a table of version 1, and that `file` is its table: one with the previous
/// checkpoint, with this one, or torn.
pub(crate) fn check_belongs(path: &Path, file: &dyn File, size: FileSize, header: &JournalHeader) -> Result<()> {
    let shown = path.display();
    let new = header.table.as_deref().filter(|bytes| bytes[..8] == MAGIC);
    if let Some(version) = new.map(|bytes| u32_at(bytes, 8)).filter(|&version| version != FORMAT_VERSION) {
        return Err(version_error(&shown, version));
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
    let mut old = vec![0; HEADER_BYTES];
    let intact = file.read_at(&mut old, 0).is_ok() && old[..8] == MAGIC && header_is_intact(&old);
    let (id, at) = (u64_at(&old, TABLE_ID), u64_at(&old, 16));
    let CheckpointId { table_id, sequence, base } = header.id;
    if base > 0 && file.len().map_err(|e| Error::io(path, "get the length of the table of", e))? == 0 {
        return Err(Error::corrupt(format!(
            "{shown}: belongs to checkpoint {base} of table {table_id:016x}, but the table with its name is empty"
        ))
        .with_hint("Put that table back, or move the journal away to begin a new one."));
    }
    let fits = id == table_id && (at == sequence || at == base);
    if intact && !fits {
        return Err(Error::corrupt(format!(
            "{shown}: leads from checkpoint {base} to {sequence} of table {table_id:016x}, \
             but the table with its name is {id:016x} at checkpoint {at}"
        ))
        .with_hint("To keep the table, move the journal away."));
    }
    Ok(())
}

fn header_is_intact(bytes: &[u8]) -> bool {
    header_sum(bytes) == u32_at(bytes, HEADER_BYTES - 4)
}

/// A journal without its frames: the number of the checkpoint, and the content of its last frame if that is frame 0.
pub(crate) struct JournalHeader {
    id: CheckpointId,
    table: Option<Vec<u8>>,
}

pub(crate) type Journal = (FileSize, FrameSums, JournalHeader);

/// Reads a journal; `None` unless every checksum in it matches. An incomplete one is normal after a crash, not an
/// error.
pub(crate) fn read_complete(journal: &dyn File) -> std::io::Result<Option<Journal>> {
    let journal_bytes = journal.len()?;
    if journal_bytes < JOURNAL_HEADER_BYTES {
        return Ok(None);
    }
    let mut header = [0; JOURNAL_HEADER_BYTES as usize];
    journal.read_at(&mut header, 0)?;
    if header[..8] != JOURNAL_MAGIC || u32_at(&header, 60) != crc32c(&header[..60]) {
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
        if frame >= frame_count || frame_sum(frame, &bytes) != sum {
            return Ok(None);
        }
    }
    let table = index.last().is_some_and(|&(frame, _)| frame == 0).then_some(bytes);
    let size = FileSize { frame_bytes, cut: u32_at(&header, 32), frame_count };
    Ok(Some((size, index, JournalHeader { id, table })))
}
