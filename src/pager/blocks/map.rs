//! The block map: where the last written content of each frame is, and its checksum.
//!
//! ```text
//! live      entries of frames that were evicted since the last freeze: their blocks are in no checkpoint
//! frozen    those that were live at the freeze, and those of the frames that the checkpoint has written
//! leaves    the tree of the last complete checkpoint, read a leaf at a time
//! ```
//!
//! A frame's entry is the first that is found, in this order. The next tree is made of the leaves and `frozen`, never
//! of `live`, which may be ahead: so a checkpoint has what its frames were when it began. Once the checkpoint is
//! complete, `frozen` is empty again.
//!
//! Leaves are immutable and can be read again, so only some are in memory. The other two have an entry for each frame
//! written since a checkpoint, and a checkpoint is due when they grow large.
//!
//! Not here: the tree's nodes (`tree.rs`), the tree of the next checkpoint (`commit.rs`).

use super::room::is_for_content;
use super::tree::{Kind, NodeId, fanout, parse_node};
use crate::error::{Error, Result};
use crate::io::File;
use crate::pager::file::TableFile;
use crate::pager::file::headers::Entry;
use crate::pager::file::random::random_u64;
use crate::pager::file::sums::frame_sum;
use crate::pager::interleave;
use crate::pager::pool::FrameNo;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Entries of the frames of a leaf.
pub(super) type Leaf = Arc<[Entry]>;

/// The map of a table that is open.
pub(super) struct Map(Mutex<Entries>);

pub(super) struct Entries {
    /// Frames of a leaf.
    pub(super) fanout: u32,
    /// Blocks of the last checkpoint.
    length: u32,
    /// The leaves of the last checkpoint.
    pub(super) leaves: Vec<Entry>,
    /// Some of them, by number.
    read: HashMap<u32, Leaf>,
    read_max: usize,
    pub(super) frozen: Overlay,
    pub(super) live: Overlay,
}

/// Where frames were written since a checkpoint.
#[derive(Default)]
pub(super) struct Overlay {
    /// That of the entries.
    pub(super) birth: u32,
    pub(super) written: HashMap<FrameNo, Written>,
    /// Sealed blocks whose frames have others by now. They are free once a checkpoint is complete that makes the log's
    /// records unnecessary: the next one for `live`, the one in progress for `frozen`.
    pub(super) freed: Vec<u32>,
}

/// Where a frame was written.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) entry: Entry,
    /// Whether the log may refer to the block: it is then never written again.
    pub(super) is_sealed: bool,
}

impl Overlay {
    /// Replaces the entry of a frame. Returns its block before, if that is free now.
    pub(super) fn set(&mut self, frame: FrameNo, entry: Entry, is_sealed: bool) -> Option<u32> {
        let birth = if entry.is_none() { 0 } else { self.birth };
        let entry = Entry { birth, ..entry };
        let before =
            self.written.insert(frame, Written { entry, is_sealed }).filter(|before| !before.entry.is_none())?;
        if before.entry.block == entry.block {
            return None;
        }
        if before.is_sealed {
            self.freed.push(before.entry.block);
            return None;
        }
        Some(before.entry.block)
    }

    /// The block that a frame may be written to again.
    pub(super) fn own_block(&self, frame: FrameNo) -> Option<u32> {
        let written = self.written.get(&frame).filter(|written| !written.is_sealed && !written.entry.is_none())?;
        Some(written.entry.block)
    }
}

impl Map {
    /// The map of a checkpoint of `length` blocks with these leaves, of which `read_max` may be in memory.
    pub(super) fn new(block_bytes: usize, length: u32, leaves: Vec<Entry>, read_max: usize) -> Map {
        Map(Mutex::new(Entries {
            fanout: fanout(block_bytes) as u32,
            length,
            leaves,
            read: HashMap::new(),
            read_max,
            frozen: Overlay::default(),
            live: Overlay { birth: random_u64() as u32, ..Overlay::default() },
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Entries> {
        interleave::lock(&self.0)
    }

    /// The entry of a frame, none if it was never written.
    pub(super) fn entry(&self, file: &TableFile, frame: FrameNo) -> Result<Entry> {
        let (leaf, place) = {
            let entries = self.lock();
            let overlays = [&entries.live, &entries.frozen];
            if let Some(written) = overlays.into_iter().find_map(|overlay| overlay.written.get(&frame)) {
                return Ok(written.entry);
            }
            (frame / entries.fanout, (frame % entries.fanout) as usize)
        };
        // No checkpoint changes the entry of a frame that is in neither overlay: it has the same block in the next one.
        Ok(self.leaf(file, leaf)?.map_or(Entry::NONE, |leaf| leaf[place]))
    }

    /// The entries of a leaf of the last checkpoint, if that has the leaf.
    pub(super) fn leaf(&self, file: &TableFile, number: u32) -> Result<Option<Leaf>> {
        loop {
            let (at, length) = {
                let entries = self.lock();
                let Some(&at) = entries.leaves.get(number as usize).filter(|at| !at.is_none()) else { return Ok(None) };
                if let Some(leaf) = entries.read.get(&number) {
                    return Ok(Some(leaf.clone()));
                }
                (at, entries.length)
            };
            let read = read_leaf(file, number, at, length);
            let mut entries = self.lock();
            if entries.leaves.get(number as usize) != Some(&at) {
                continue; // a checkpoint has written another, and this block may be in use again
            }
            let leaf = read?;
            entries.keep(number, leaf.clone());
            return Ok(Some(leaf));
        }
    }
}

impl Entries {
    /// Keeps a leaf of the last checkpoint in memory.
    fn keep(&mut self, number: u32, leaf: Leaf) {
        if self.read.len() >= self.read_max
            && let Some(&other) = self.read.keys().next()
        {
            self.read.remove(&other);
        }
        self.read.insert(number, leaf);
    }

    /// Replaces the tree by that of the checkpoint that is now complete, of which these leaves are new.
    pub(super) fn complete(&mut self, length: u32, leaves: Vec<Entry>, new: Vec<(u32, Leaf)>) {
        self.frozen = Overlay::default();
        self.length = length;
        let before = std::mem::replace(&mut self.leaves, leaves);
        self.read.retain(|&number, _| self.leaves.get(number as usize) == before.get(number as usize));
        let count = self.leaves.len() as u32;
        for (number, leaf) in new {
            self.read.remove(&number);
            if number < count {
                self.keep(number, leaf);
            }
        }
    }
}

fn read_leaf(file: &TableFile, number: u32, at: Entry, length: u32) -> Result<Leaf> {
    let Some(handle) = &file.handle else { return Ok(Arc::default()) };
    let mut bytes = vec![0; file.frame_bytes];
    read_block(file, handle.as_ref(), at.block, &mut bytes)?;
    let id = NodeId { kind: Kind::Map, level: 0, number };
    let entries = parse_node(&bytes, file.table_id, id, at.sum).map_err(|what| file.corrupt(what))?;
    // What the next checkpoint frees is written over: never a header, or what the file does not have.
    let is_wrong = |entry: &&Entry| !entry.is_none() && !is_for_content(entry.block, length, file.frame_bytes);
    if let Some(wrong) = entries.iter().find(is_wrong) {
        return Err(file.corrupt(format!("leaf {number} of the block map: a frame is in block {}", wrong.block)));
    }
    Ok(entries.into())
}

/// Fills `bytes` with a block, or with several adjacent ones.
pub(super) fn read_block(file: &TableFile, handle: &dyn File, block: u32, bytes: &mut [u8]) -> Result<()> {
    handle.read_at(bytes, u64::from(block) * file.frame_bytes as u64).map_err(|e| match e.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            let path = file.path.display();
            Error::corrupt_table(format!("{path}: block {block} is gone: another program cut the file"))
        }
        _ => Error::io(&file.path, &format!("read block {block} of"), e),
    })
}

/// Compares a frame's bytes with its entry.
pub(super) fn check(file: &TableFile, frame: FrameNo, entry: Entry, bytes: &[u8]) -> Result<()> {
    let computed = frame_sum(frame, bytes);
    if computed == entry.sum {
        return Ok(());
    }
    let (block, stored) = (entry.block, entry.sum);
    Err(file.corrupt(format!(
        "frame {frame}: checksum mismatch in block {block}, stored {stored:08x}, computed {computed:08x}"
    )))
}
