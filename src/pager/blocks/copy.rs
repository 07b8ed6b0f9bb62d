//! A copy of one checkpoint: a checkpoint of another file, of which this is the first or a later one.
//!
//! ```text
//! for each leaf of the two block maps
//!   an entry has the same birth and checksum in both    the copy keeps its block
//!   all others                                          read, compared with the checksum, written to a free block
//! then the leaf, if it has changed; at the end nodes, bitmaps and the header, as of any checkpoint (`commit.rs`)
//! ```
//!
//! So a new copy has its blocks in the order of the frames, and one that is brought up to date has its former content
//! until the commit point. Cost: both block maps, a 340th of the files, and the frames that differ. One that differs is
//! taken for the same with a probability of 2^-64: births are random.
//!
//! Not here: which checkpoint is copied, and how the two files are opened (`checkpoint/copy.rs`).

use super::commit::Commit;
use super::map::{Leaf, check, read_block};
use super::pace::Pace;
use super::tree::fanout;
use super::{Blocks, is_zero};
use crate::error::Result;
use crate::pager::file::TableFile;
use crate::pager::file::header::Header;
use crate::pager::file::headers::Entry;
use crate::pager::file::random::random_u64;
use crate::pager::file::sums::frame_sum;
use crate::pager::pool::FrameNo;

/// What a copy is to have.
pub(in crate::pager) struct Content<'c> {
    pub file: &'c TableFile,
    pub blocks: &'c Blocks,
    pub header: Header,
    pub root: Vec<u8>,
    /// Whether the handle, which only reads, has changed a frame since its checkpoint.
    pub is_changed: &'c dyn Fn(FrameNo) -> bool,
    /// Fills a buffer with such a frame.
    pub read: &'c dyn Fn(FrameNo, &mut [u8]) -> Result<()>,
}

impl Content<'_> {
    fn leaf(&self, number: u32) -> Result<Option<Leaf>> {
        self.blocks.map.leaf(self.file, number)
    }

    fn is_changed(&self, frame: FrameNo) -> bool {
        frame < self.header.frame_count && (self.is_changed)(frame)
    }

    /// Whether a copy in which a frame has the entry `copied` has its content.
    fn is_copied(&self, frame: FrameNo, entry: Entry, copied: Entry) -> bool {
        let is_same = (entry.is_none(), entry.sum, entry.birth) == (copied.is_none(), copied.sum, copied.birth);
        is_same && !self.is_changed(frame)
    }

    /// Fills `bytes` with the content of a frame. Returns what its entry becomes, but for the block; a frame that the
    /// handle has changed gets the `birth`.
    fn load(&self, frame: FrameNo, entry: Entry, birth: u32, bytes: &mut [u8]) -> Result<Entry> {
        if self.is_changed(frame) {
            (self.read)(frame, bytes)?;
            let changed = Entry { birth, ..Entry::at(u32::MAX, frame_sum(frame, bytes)) };
            return Ok(if is_zero(bytes) { Entry::NONE } else { changed });
        }
        if let Some(handle) = self.file.handle.as_ref().filter(|_| !entry.is_none()) {
            read_block(self.file, handle.as_ref(), entry.block, bytes)?;
            check(self.file, frame, entry, bytes)?;
        }
        Ok(entry)
    }
}

fn entry_of(leaf: &Option<Leaf>, place: usize) -> Entry {
    leaf.as_ref().map_or(Entry::NONE, |leaf| leaf[place])
}

impl Blocks {
    /// Makes `content` the next checkpoint of `file`, which has these blocks. Calls `step` with the bytes copied and
    /// the bytes to copy; if `step` returns false, the copy is cancelled and false is returned. The caller keeps other
    /// checkpoints out, of both files.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others; the file has its former checkpoint.
    pub(in crate::pager) fn take_copy(
        &self,
        file: &TableFile,
        content: Content<'_>,
        step: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<bool> {
        const STEP_BYTES: u64 = 1 << 20;
        let (block_bytes, fanout) = (file.frame_bytes, fanout(file.frame_bytes) as u32);
        let frame_count = content.header.frame_count.max(self.last_frame_count());
        let numbers = 0..frame_count.div_ceil(fanout);
        let places = |number: u32| (number * fanout..frame_count).zip(0..fanout as usize);
        let mut changed = 0;
        for number in numbers.clone() {
            let (new, old) = (content.leaf(number)?, self.map.leaf(file, number)?);
            let differs = |&(frame, place): &(u32, usize)| {
                !content.is_copied(frame, entry_of(&new, place), entry_of(&old, place))
            };
            changed += places(number).filter(differs).count() as u64;
        }
        self.reserve(file, changed, frame_count)?;
        let (mut done, all) = (0, changed * block_bytes as u64);
        let birth = random_u64() as u32;
        let mut last = self.last();
        let before = last.header.as_ref().map_or(0, |header| header.table.sequence);
        let header = Header { sequence: content.header.sequence.max(before + 1), ..content.header.clone() };
        let mut commit = Commit::begin(self, file, header.sequence, &last);
        let mut leaves = Vec::new();
        let mut bytes = vec![0; block_bytes];
        let mut pace = Pace::of_copy(file);
        for number in numbers {
            let (new, old) = (content.leaf(number)?, self.map.leaf(file, number)?);
            let mut leaf = vec![Entry::NONE; fanout as usize];
            let mut is_same = true;
            for (frame, place) in places(number) {
                let (new, old) = (entry_of(&new, place), entry_of(&old, place));
                if content.is_copied(frame, new, old) {
                    leaf[place] = old;
                    continue;
                }
                if done % STEP_BYTES < block_bytes as u64 && !step(done, all) {
                    return Ok(false);
                }
                done += block_bytes as u64;
                is_same = false;
                commit.free(old);
                let new = content.load(frame, new, birth, &mut bytes)?;
                if !new.is_none() {
                    let block = commit.write_frame(&bytes)?;
                    leaf[place] = Entry { block, ..new };
                    let at = u64::from(block) * block_bytes as u64;
                    pace.follow(at, block_bytes as u64)?;
                }
            }
            let at = self.map.lock().leaves.get(number as usize).copied().unwrap_or(Entry::NONE);
            leaves.push(if is_same { at } else { commit.replace_leaf(number, at, &leaf)? });
        }
        if !step(all, all) {
            return Ok(false);
        }
        leaves.truncate(content.header.frame_count.div_ceil(fanout) as usize);
        commit.complete(&mut last, header, &content.root, leaves, Vec::new())?;
        drop(last);
        self.shorten(file, true).map(|()| true)
    }

    /// The number of frames of the last complete checkpoint.
    fn last_frame_count(&self) -> FrameNo {
        self.last().header.as_ref().map_or(0, |header| header.table.frame_count)
    }
}
