//! Completing a checkpoint: from written frames to a header that is durable.
//!
//! ```text
//! leaves      those of the last checkpoint with the frozen entries -> new blocks
//! nodes       above them -> new blocks
//! bitmaps     of regions that changed -> the other home; the nodes above them -> new blocks
//! sync        -> header into the place of its number -> sync                          -- the commit point
//! free        what no checkpoint in use has; the same header into the other place, unsynced
//! ```
//!
//! Until the commit point nothing that the last checkpoint uses was written over. An error before it leaves that one.
//!
//! Not here: the frames (`checkpoint/`), which blocks are taken (`room.rs`).

use super::map::{Leaf, Written};
use super::room::{BlockSet, homes, region_blocks};
use super::tree::{Kind, NodeId, encode_node, fanout, level_sizes};
use super::{Blocks, Last};
use crate::checksum::{crc32c, crc32c_append};
use crate::error::{Error, Result};
use crate::io::File;
use crate::io::atomic::UNFINISHED_BYTE;
use crate::pager::file::TableFile;
use crate::pager::file::header::Header;
use crate::pager::file::headers::Entry;
use crate::pager::file::headers::{CheckpointHeader, HEADER_BLOCKS};
use crate::pager::file::random::random_u64;
use crate::pager::pool::FrameNo;
use std::collections::BTreeMap;
use std::ops::Range;

/// The leaves that a checkpoint has written, by number.
type NewLeaves = Vec<(u32, Leaf)>;

/// What a checkpoint in the making has written.
pub(super) struct Commit<'b> {
    blocks: &'b Blocks,
    file: &'b TableFile,
    checkpoint: u64,
    used: BlockSet,
    /// Blocks of the last checkpoint that this one does not use.
    dead: Vec<u32>,
}

impl Blocks {
    /// Completes a checkpoint whose frozen frames are written. Other threads may evict frames at the same time.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind); the state of the disk is then unknown.
    pub(in crate::pager) fn commit(&self, file: &TableFile, header: Header, root: &[u8]) -> Result<()> {
        let mut last = self.last();
        let mut commit = Commit::begin(self, file, header.sequence, &last);
        let (leaves, new_leaves) = commit.write_leaves(header.frame_count)?;
        commit.complete(&mut last, header, root, leaves, new_leaves)
    }
}

/// The checkpoints that readers hold, in order; `None` if that cannot be known. A program that locks a part of the
/// file, as users of ndbm do, holds all numbers in it.
pub(super) fn held_checkpoints(file: &dyn File) -> Option<Vec<Range<u64>>> {
    let (mut held, mut from) = (Vec::new(), 1);
    while let Some(numbers) = file.first_locked_bytes(from..UNFINISHED_BYTE).ok()? {
        from = numbers.end;
        held.push(numbers);
    }
    Some(held)
}

impl<'b> Commit<'b> {
    pub(super) fn begin(blocks: &'b Blocks, file: &'b TableFile, checkpoint: u64, last: &Last) -> Commit<'b> {
        Commit { blocks, file, checkpoint, used: last.used.clone(), dead: last.nodes.clone() }
    }

    /// Completes the checkpoint, whose leaves are written. Keeps the `new` ones in memory.
    pub(super) fn complete(
        mut self,
        last: &mut Last,
        header: Header,
        root: &[u8],
        leaves: Vec<Entry>,
        new: NewLeaves,
    ) -> Result<()> {
        let Some(handle) = &self.file.handle else { return Ok(()) };
        let (map, mut nodes) = self.write_upper(Kind::Map, &leaves)?;
        let (bitmaps, room, room_nodes) = self.write_bitmaps(last)?;
        nodes.extend(room_nodes);
        let Commit { blocks, file, used, mut dead, .. } = self;
        // The log's records up to this checkpoint are not needed once it is durable.
        dead.append(&mut blocks.map.lock().frozen.freed);
        let before = last.header.as_ref().map_or((0, 0), |header| (header.table.sequence, header.id));
        let header = CheckpointHeader {
            length: used.end(),
            id: random_u64(),
            parent: before.1,
            map,
            room,
            root: root.to_vec(),
            table: header,
        };
        let fail = |what: &'static str| move |e| Error::io(&file.path, what, e);
        let bytes = u64::from(header.length) * file.frame_bytes as u64;
        file.refuse_shorter(handle.as_ref(), bytes)?;
        // If a checkpoint between them failed, this one has the place of the last one. A failed sync may have lost the
        // copy in the other place, though the system's cache still shows it.
        let last_header = last.header.as_ref().filter(|last| last.table.sequence % 2 == header.table.sequence % 2);
        last_header.map_or(Ok(()), |last| last.write(handle.as_ref(), true)).map_err(fail("write the header of"))?;
        file.settle("sync", |file| file.sync())?;
        file.refuse_if_moved()?;
        header.write(handle.as_ref(), false).map_err(fail("write the header of"))?;
        file.settle("sync", |file| file.sync())?;
        // Unsynced: until the next checkpoint, the one in its own place counts.
        header.write(handle.as_ref(), true).map_err(fail("write the header of"))?;
        file.checkpoint_bytes.store(bytes, std::sync::atomic::Ordering::Release);
        blocks.map.lock().complete(header.length, leaves, new);
        let before_used = std::mem::take(&mut last.used);
        *last = Last { header: Some(header), used, bitmaps, nodes };
        // After the header was written: a reader that takes the checkpoint before has its lock by now.
        let held = held_checkpoints(handle.as_ref());
        blocks.room().release(before.0, before_used, dead, held.as_deref());
        Ok(())
    }

    /// Notes that this checkpoint does not use the block of an entry of the last one.
    pub(super) fn free(&mut self, old: Entry) {
        if !old.is_none() {
            self.dead.push(old.block);
        }
    }

    /// Writes a frame to a block, which it returns.
    pub(super) fn write_frame(&mut self, bytes: &[u8]) -> Result<u32> {
        let block = self.take()?;
        self.write(block, bytes)?;
        Ok(block)
    }

    /// Writes a leaf of the block map, which is at `old` in the last checkpoint. Returns where it is now: nowhere if no
    /// frame has a block, or a leaf of free frames at the end of the table could keep the file long.
    pub(super) fn replace_leaf(&mut self, number: u32, old: Entry, leaf: &[Entry]) -> Result<Entry> {
        self.free(old);
        if leaf.iter().all(|entry| entry.is_none()) {
            return Ok(Entry::NONE);
        }
        let block = self.take()?;
        self.write_node(NodeId { kind: Kind::Map, level: 0, number }, leaf, block)
    }

    fn take(&mut self) -> Result<u32> {
        let block = self.blocks.take_reserved(self.file)?;
        self.used.insert(block);
        Ok(block)
    }

    fn write(&self, block: u32, bytes: &[u8]) -> Result<()> {
        self.blocks.write(self.file, block, bytes)
    }

    fn write_node(&mut self, id: NodeId, entries: &[Entry], block: u32) -> Result<Entry> {
        let (bytes, sum) = encode_node(self.file.frame_bytes, self.file.table_id, self.checkpoint, id, entries);
        self.write(block, &bytes)?;
        Ok(Entry::at(block, sum))
    }

    /// Writes the leaves that have frozen entries; returns all leaves, and the entries of the new ones.
    fn write_leaves(&mut self, frame_count: FrameNo) -> Result<(Vec<Entry>, NewLeaves)> {
        let (mut leaves, changes, fanout) = {
            let entries = self.blocks.map.lock();
            let mut changes: BTreeMap<u32, Vec<(usize, Entry)>> = BTreeMap::new();
            for (&frame, &Written { entry, .. }) in &entries.frozen.written {
                let place = (frame % entries.fanout) as usize;
                let entry = if frame < frame_count { entry } else { Entry::NONE };
                changes.entry(frame / entries.fanout).or_default().push((place, entry));
            }
            (entries.leaves.clone(), changes, entries.fanout)
        };
        let count = frame_count.div_ceil(fanout);
        leaves.resize(leaves.len().max(count as usize), Entry::NONE);
        let mut new = Vec::new();
        for (number, changes) in changes {
            let mut leaf = match self.blocks.map.leaf(self.file, number)? {
                Some(leaf) => leaf.to_vec(),
                None => vec![Entry::NONE; fanout as usize],
            };
            for (place, entry) in changes {
                self.free(std::mem::replace(&mut leaf[place], entry));
                if !entry.is_none() {
                    self.used.insert(entry.block);
                }
            }
            let Some(at) = leaves.get_mut(number as usize) else { continue };
            *at = self.replace_leaf(number, *at, &leaf)?;
            new.push((number, leaf.into()));
        }
        debug_assert!(leaves[count as usize..].iter().all(|leaf| leaf.is_none()), "what is cut off has no blocks");
        leaves.truncate(count as usize);
        Ok((leaves, new))
    }

    /// Writes the nodes above those of level 0; returns the top one, and the blocks of all.
    fn write_upper(&mut self, kind: Kind, bottom: &[Entry]) -> Result<(Entry, Vec<u32>)> {
        let fanout = fanout(self.file.frame_bytes);
        let (mut nodes, mut blocks) = (bottom.to_vec(), Vec::new());
        let mut level = 1;
        while nodes.len() > 1 {
            let mut above = Vec::new();
            for (number, children) in (0..).zip(nodes.chunks(fanout)) {
                let block = self.take()?;
                blocks.push(block);
                above.push(self.write_node(NodeId { kind, level, number }, children, block)?);
            }
            nodes = above;
            level += 1;
        }
        Ok((nodes[0], blocks))
    }

    /// Writes the bitmaps that changed and the tree above them; returns the bitmaps' entries, the top node and the
    /// blocks of all nodes.
    fn write_bitmaps(&mut self, last: &Last) -> Result<(Vec<Entry>, Entry, Vec<u32>)> {
        let block_bytes = self.file.frame_bytes;
        let (region, fanout) = (region_blocks(block_bytes), fanout(block_bytes));
        for &block in &self.dead {
            self.used.remove(block);
        }
        // Only regions that have something else have bitmaps.
        let end = self.used.end_of_content(block_bytes);
        while self.used.end() > end {
            self.used.remove(self.used.end() - 1);
        }
        // The tree has as many nodes as the regions need that its nodes are in.
        let mut blocks = Vec::new();
        let regions = loop {
            let regions = self.used.end().div_ceil(region);
            for block in 0..HEADER_BLOCKS {
                self.used.insert(block);
            }
            for home in (0..regions).flat_map(|region| homes(region, block_bytes)) {
                self.used.insert(home);
            }
            let nodes: usize = level_sizes(regions as usize, fanout).iter().sum();
            if blocks.len() >= nodes && self.used.end().div_ceil(region) == regions {
                break regions;
            }
            if blocks.len() < nodes {
                blocks.push(self.take()?);
            }
        };
        let mut bitmaps = Vec::new();
        for number in 0..regions {
            let bytes = self.used.bitmap(number * region, block_bytes);
            let old = last.bitmaps.get(number as usize).copied().unwrap_or(Entry::NONE);
            if !old.is_none() && bytes == last.used.bitmap(number * region, block_bytes) {
                bitmaps.push(old);
                continue;
            }
            let [one, other] = homes(number, block_bytes);
            let home = if old.block == one { other } else { one };
            self.write(home, &bytes)?;
            bitmaps.push(Entry::at(home, bitmap_sum(number, &bytes)));
        }
        let mut free = blocks.iter().copied();
        let mut nodes = Vec::new();
        for (number, children) in (0..).zip(bitmaps.chunks(fanout)) {
            let block = free.next().expect("as many as there are nodes");
            nodes.push(self.write_node(NodeId { kind: Kind::Room, level: 0, number }, children, block)?);
        }
        let mut level = 1;
        while nodes.len() > 1 {
            let mut above = Vec::new();
            for (number, children) in (0..).zip(nodes.chunks(fanout)) {
                let block = free.next().expect("as many as there are nodes");
                above.push(self.write_node(NodeId { kind: Kind::Room, level, number }, children, block)?);
            }
            nodes = above;
            level += 1;
        }
        Ok((bitmaps, nodes[0], blocks))
    }
}

/// The checksum of a region's bitmap.
pub(super) fn bitmap_sum(region: u32, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&region.to_le_bytes()), bytes)
}
