//! The block map of a damaged file, as far as it can be read or found.
//!
//! ```text
//! leaf     proved   the header leads to it
//!          found    a scan of the file found it by itself: the newest with its number that fits its frames
//!          lost     neither
//! frame    proved   its checksum is that in a proved leaf, and there is no trace of a newer header
//!          unproved its checksum is that in another leaf: it was once this frame, and may be old
//!          damaged  anything else
//! ```
//!
//! If a leaf is lost, or one was found that may not be the last one or lacks frames, the blocks that no leaf names are
//! frames too, *loose* ones, numbered from the table's last frame on: they can be searched for pages, and nothing can
//! refer to them.
//!
//! The file's length bounds the number of leaves, and those bound the number of frames.
//!
//! Not here: nodes and headers (`pager/blocks/`), the scan (`scattered.rs`).

use super::State;
use crate::io::File;
use crate::pager::blocks::room::BlockSet;
use crate::pager::blocks::tree::{Kind, LoneNode, NodeId, descend, fanout, parse_node, parse_upper};
use crate::pager::file::headers::{CheckpointHeader, Entry, HEADER_BLOCKS};
use crate::pager::file::sums::frame_sum;
use crate::pager::pool::FrameNo;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

/// A node that a scan found.
#[derive(Clone, Copy)]
pub(super) struct FoundNode {
    pub node: LoneNode,
    pub block: u32,
    pub block_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Lost,
    /// None of its frames was ever written.
    Absent,
    Proved(Entry),
    Found(Entry),
}

/// The file that a map is of.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'f> {
    pub file: &'f dyn File,
    pub block_bytes: usize,
    pub block_count: u32,
}

pub(super) struct BlockMap {
    table_id: u64,
    /// Later leaves belong to a checkpoint that is not complete.
    checkpoint: u64,
    /// Whether the header is known to be that of the last checkpoint.
    is_current: bool,
    fanout: u32,
    /// Frames of the table, without those at its end that the file has no room for.
    frame_count: u32,
    leaves: Vec<Leaf>,
    /// Whether a leaf that was found is older than the header or another node, or does not fit all its frames.
    is_partial: bool,
    /// The leaves read most recently.
    read: HashMap<u32, Arc<[Entry]>>,
    /// Blocks that leaves name, if the others are searched.
    named: Option<BlockSet>,
}

/// An entry of a node that is damaged.
const LOST: Entry = Entry { block: u32::MAX, sum: 0, birth: 0 };

/// What was noticed: place and description.
type Notes = Vec<(String, String)>;

impl Blocks<'_> {
    fn read(self, block: u32, bytes: &mut Vec<u8>) -> Result<(), String> {
        bytes.resize(self.block_bytes, 0);
        if !(HEADER_BLOCKS..self.block_count).contains(&block) {
            return Err(format!("it is in block {block}, which the file does not have"));
        }
        let at = u64::from(block) * self.block_bytes as u64;
        self.file.read_at(bytes, at).map_err(|e| format!("block {block} cannot be read: {e}"))
    }

    /// The entries of a leaf.
    fn leaf(self, table_id: u64, number: u32, at: Entry) -> Result<Arc<[Entry]>, String> {
        let mut bytes = Vec::new();
        self.read(at.block, &mut bytes)?;
        Ok(parse_node(&bytes, table_id, NodeId { kind: Kind::Map, level: 0, number }, at.sum)?.into())
    }

    /// Whether a leaf names blocks that have its frames: one of the first, and all.
    fn fit(self, leaf: &FoundNode) -> (bool, bool) {
        // A few frames may be damaged, or written over if the leaf is old.
        const LOOKED_AT: usize = 8;
        let first = leaf.node.id.number * fanout(self.block_bytes) as u32;
        let at = Entry::at(leaf.block, leaf.node.sum);
        let Ok(entries) = self.leaf(leaf.node.table_id, leaf.node.id.number, at) else { return (false, false) };
        let mut bytes = Vec::new();
        let mut fits = (first..)
            .zip(entries.iter())
            .filter(|(_, entry)| !entry.is_none())
            .map(|(frame, entry)| self.read(entry.block, &mut bytes).is_ok() && frame_sum(frame, &bytes) == entry.sum);
        let looked_at: Vec<bool> = fits.by_ref().take(LOOKED_AT).collect();
        (looked_at.contains(&true), !looked_at.contains(&false) && fits.all(|fits| fits))
    }

    /// The nodes that can be leaves of a block map in this file.
    fn leaves_of(self, found: &[FoundNode]) -> Vec<FoundNode> {
        let numbers = self.block_count.min(u32::MAX / fanout(self.block_bytes) as u32);
        let is_leaf = |found: &&FoundNode| {
            let NodeId { kind, level, number } = found.node.id;
            found.block_bytes == self.block_bytes && (kind, level) == (Kind::Map, 0) && number < numbers
        };
        found.iter().filter(is_leaf).copied().collect()
    }
}

impl BlockMap {
    /// A map without leaves.
    pub(super) fn empty(blocks: Blocks<'_>, table_id: u64) -> BlockMap {
        BlockMap {
            table_id,
            checkpoint: u64::MAX,
            is_current: false,
            fanout: fanout(blocks.block_bytes) as u32,
            frame_count: 0,
            leaves: Vec::new(),
            is_partial: false,
            read: HashMap::new(),
            named: None,
        }
    }

    /// The map that a header leads to.
    pub(super) fn of_header(
        blocks: Blocks<'_>,
        header: &CheckpointHeader,
        is_current: bool,
        notes: &mut Notes,
    ) -> BlockMap {
        let mut map = Self::empty(blocks, header.table.table_id);
        (map.checkpoint, map.is_current) = (header.table.sequence, is_current);
        map.frame_count = header.table.frame_count;
        let count = map.frame_count.div_ceil(map.fanout);
        // A new table has a leaf, which is absent, and may be shorter than a block.
        if count > blocks.block_count.max(1) {
            // Even without frames, the leaves do not fit into the file.
            map.leaves = vec![Leaf::Lost; blocks.block_count as usize];
            map.frame_count = blocks.block_count * map.fanout;
            return map;
        }
        let mut note = |what: String| notes.push(("block map".into(), what));
        let mut bytes = Vec::new();
        let frames = map.frame_count as usize;
        let leaves = descend(Kind::Map, frames, header.map, blocks.block_bytes, |id, at, child_count| {
            let read = blocks.read(at.block, &mut bytes);
            let children = read.and_then(|()| parse_upper(&bytes, map.table_id, id, at.sum, child_count));
            Ok::<_, Infallible>(children.unwrap_or_else(|what| {
                if at != LOST {
                    note(format!("node {} of level {} is damaged: {what}", id.number, id.level));
                }
                vec![LOST; child_count]
            }))
        });
        let Ok(leaves) = leaves;
        let mut leaf = |(number, at): (u32, Entry)| match at {
            LOST => Leaf::Lost,
            at if at.is_none() => Leaf::Absent,
            at => match blocks.leaf(map.table_id, number, at) {
                Ok(_) => Leaf::Proved(at),
                Err(what) => {
                    note(format!("leaf {number} is damaged: {what}"));
                    Leaf::Lost
                }
            },
        };
        map.leaves = (0..).zip(leaves).map(&mut leaf).collect();
        map
    }

    /// The map of leaves that name the same table, the one with the most; `None` if none has a frame in this file.
    pub(super) fn of_found(blocks: Blocks<'_>, found: &[FoundNode]) -> Option<BlockMap> {
        let mut leaves = blocks.leaves_of(found);
        leaves.retain(|leaf| blocks.fit(leaf).0);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        leaves.iter().for_each(|leaf| *counts.entry(leaf.node.table_id).or_default() += 1);
        let (&table_id, _) = counts.iter().max_by_key(|&(&id, &count)| (count, id))?;
        leaves.retain(|leaf| leaf.node.table_id == table_id);
        let last = leaves.iter().map(|leaf| leaf.node.id.number).max()?;
        let mut map = Self::empty(blocks, table_id);
        map.leaves = vec![Leaf::Lost; last as usize + 1];
        map.frame_count = (last + 1) * map.fanout;
        map.find(blocks, found, &mut Vec::new());
        Some(map)
    }

    /// Compares the header with all nodes that were found: a newer checkpoint has some.
    pub(super) fn compare(&mut self, found: &[FoundNode], notes: &mut Notes) {
        let is_newer =
            |found: &FoundNode| (found.node.table_id, found.node.checkpoint > self.checkpoint) == (self.table_id, true);
        if !self.is_current && found.iter().any(is_newer) {
            let what =
                format!("one is damaged, which may be newer than the other one, of checkpoint {}", self.checkpoint);
            notes.push(("header".into(), what));
        } else {
            self.is_current = true;
        }
    }

    pub(super) fn is_current(&self) -> bool {
        self.is_current
    }

    /// Replaces lost leaves by those that were found.
    pub(super) fn find(&mut self, blocks: Blocks<'_>, found: &[FoundNode], notes: &mut Notes) {
        let own = found.iter().filter(|found| found.node.table_id == self.table_id);
        let newest = own.map(|found| found.node.checkpoint).max().unwrap_or(0);
        // The header's, if there is one.
        let newest = if self.checkpoint < u64::MAX { self.checkpoint } else { newest };
        let mut found = blocks.leaves_of(found);
        found.retain(|leaf| leaf.node.table_id == self.table_id && leaf.node.checkpoint <= self.checkpoint);
        found.sort_by_key(|leaf| (leaf.node.id.number, Reverse(leaf.node.checkpoint)));
        for leaf in found {
            let number = leaf.node.id.number;
            let Some(place) = self.leaves.get_mut(number as usize).filter(|place| **place == Leaf::Lost) else {
                continue;
            };
            let (fits, fits_all) = blocks.fit(&leaf);
            if fits {
                self.is_partial |= !fits_all || leaf.node.checkpoint < newest;
                *place = Leaf::Found(Entry::at(leaf.block, leaf.node.sum));
                let (first, last) = (number * self.fanout, number * self.fanout + (self.fanout - 1));
                let checkpoint = leaf.node.checkpoint;
                let what = format!("leaf {number} was found in block {}", leaf.block);
                let what = format!("{what}, of checkpoint {checkpoint}: frames {first} to {last} may be old");
                notes.push(("block map".into(), what));
            }
        }
    }

    /// Whether a leaf is lost, or one was found that may lack frames.
    pub(super) fn lacks_leaves(&self) -> bool {
        self.leaves.contains(&Leaf::Lost) || self.leaves.is_empty() || self.is_partial
    }

    /// Makes frames of the blocks that no leaf names.
    pub(super) fn search_loose(&mut self, blocks: Blocks<'_>) {
        let mut named = BlockSet::default();
        for number in 0..self.leaves.len() as u32 {
            let Some(Ok(entries)) = self.entries(blocks, number) else { continue };
            for entry in entries.iter().filter(|entry| entry.block < blocks.block_count) {
                named.insert(entry.block);
            }
        }
        self.named = Some(named);
    }

    pub(super) fn frame_count(&self) -> u32 {
        self.frame_count
    }

    /// Frames of the table, and loose ones if they are searched.
    pub(super) fn searched_count(&self, blocks: Blocks<'_>) -> u32 {
        let loose = if self.named.is_some() { blocks.block_count } else { 0 };
        self.frame_count.saturating_add(loose)
    }

    /// Whether no leaf is known for this frame.
    pub(super) fn is_lost(&self, frame: FrameNo) -> bool {
        let leaf = self.leaves.get((frame / self.fanout) as usize);
        !self.is_loose(frame) && leaf.is_none_or(|&leaf| leaf == Leaf::Lost)
    }

    pub(super) fn is_loose(&self, frame: FrameNo) -> bool {
        self.named.is_some() && frame >= self.frame_count
    }

    /// Names a frame.
    pub(super) fn place(&self, frame: FrameNo) -> String {
        let block = frame.checked_sub(self.frame_count);
        block.map_or_else(|| format!("frame {frame}"), |block| format!("block {block}"))
    }

    /// The entries of a leaf; `None` if it is absent or lost.
    fn entries(&mut self, blocks: Blocks<'_>, number: u32) -> Option<Result<Arc<[Entry]>, String>> {
        const READ_BYTES: usize = 4 << 20;
        let at = match self.leaves.get(number as usize)? {
            Leaf::Lost | Leaf::Absent => return None,
            Leaf::Proved(at) | Leaf::Found(at) => *at,
        };
        if let Some(entries) = self.read.get(&number) {
            return Some(Ok(entries.clone()));
        }
        if self.read.len() >= READ_BYTES / blocks.block_bytes {
            self.read.clear();
        }
        let read = blocks.leaf(self.table_id, number, at);
        Some(read.inspect(|entries| drop(self.read.insert(number, entries.clone()))))
    }

    /// Reads a frame into `bytes` and checks it.
    pub(super) fn read(&mut self, blocks: Blocks<'_>, frame: FrameNo, bytes: &mut Vec<u8>) -> State {
        bytes.clear();
        bytes.resize(blocks.block_bytes, 0);
        if self.is_loose(frame) {
            let block = frame - self.frame_count;
            let is_loose = block >= HEADER_BLOCKS && self.named.as_ref().is_some_and(|named| !named.contains(block));
            let read = if is_loose { blocks.read(block, bytes) } else { Ok(()) };
            return read.map_or_else(State::Damaged, |()| State::Unproved);
        }
        if self.is_lost(frame) {
            return State::Damaged("the block map has no entry for it".into());
        }
        let number = frame / self.fanout;
        let is_proved = self.is_current && !matches!(self.leaves[number as usize], Leaf::Found(_));
        let entry = match self.entries(blocks, number) {
            None => Entry::NONE,
            Some(Ok(entries)) => entries[(frame % self.fanout) as usize],
            Some(Err(what)) => return State::Damaged(what),
        };
        if !entry.is_none() {
            if let Err(what) = blocks.read(entry.block, bytes) {
                return State::Damaged(what);
            }
            let computed = frame_sum(frame, bytes);
            if computed != entry.sum {
                let (block, stored) = (entry.block, entry.sum);
                let what = format!("checksum mismatch in block {block}, stored {stored:08x}, computed {computed:08x}");
                return State::Damaged(what);
            }
        }
        if is_proved { State::Proved } else { State::Unproved }
    }
}
