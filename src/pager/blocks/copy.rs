//! Copies of one checkpoint: a new file whose blocks are in the order of the frames.
//!
//! ```text
//! headers, homes of bitmaps | frames in order | leaves, nodes | bitmaps and their nodes
//! ```
//!
//! Each frame is compared with its checksum on the way. The copy has the number of its checkpoint and a new id.

use super::Blocks;
use super::commit::bitmap_sum;
use super::map::{check, read_block};
use super::room::{BlockSet, homes, region_blocks};
use super::tree::{Kind, NodeId, encode_node, fanout, level_sizes};
use crate::error::{Error, Result};
use crate::io::File;
use crate::pager::file::TableFile;
use crate::pager::file::headers::Entry;
use crate::pager::file::headers::{CheckpointHeader, HEADER_BLOCKS};
use crate::pager::file::random::random_u64;
use std::path::Path;

/// A file that is written from its start to its end.
struct Writer<'t> {
    target: (&'t dyn File, &'t Path),
    table: &'t TableFile,
    checkpoint: u64,
    next: u32,
    used: BlockSet,
}

impl Writer<'_> {
    fn take(&mut self) -> u32 {
        let (block_bytes, at) = (self.table.frame_bytes, self.next / region_blocks(self.table.frame_bytes));
        for home in homes(at, block_bytes) {
            self.used.insert(home);
            self.next = self.next.max(home + 1);
        }
        let block = self.next;
        self.used.insert(block);
        self.next += 1;
        block
    }

    fn write(&self, block: u32, bytes: &[u8]) -> Result<()> {
        let at = u64::from(block) * self.table.frame_bytes as u64;
        let (file, path) = self.target;
        file.write_at(bytes, at).map_err(|e| Error::io(path, "write", e))
    }

    fn write_node(&mut self, kind: Kind, level: u32, number: u32, entries: &[Entry], block: u32) -> Result<Entry> {
        let id = NodeId { kind, level, number };
        let (bytes, sum) = encode_node(self.table.frame_bytes, self.table.table_id, self.checkpoint, id, entries);
        self.write(block, &bytes)?;
        Ok(Entry { block, sum })
    }

    /// Writes the nodes from `level` on; returns the top one.
    fn write_tree(&mut self, kind: Kind, mut level: u32, mut nodes: Vec<Entry>, blocks: &[u32]) -> Result<Entry> {
        let mut blocks = blocks.iter().copied();
        while level == 0 || nodes.len() > 1 {
            let mut above = Vec::new();
            for (number, children) in (0..).zip(nodes.chunks(fanout(self.table.frame_bytes))) {
                let block = blocks.next().unwrap_or_else(|| self.take());
                above.push(self.write_node(kind, level, number, children, block)?);
            }
            (nodes, level) = (above, level + 1);
        }
        Ok(nodes[0])
    }
}

impl Blocks {
    /// Copies the last checkpoint of `table`, or the one that it reads, to `target`, a file and its path. `step` is
    /// called with bytes copied and bytes in all; it returns false to cancel, and then so does this. The caller keeps
    /// other checkpoints out.
    pub(in crate::pager) fn copy(
        &self,
        table: &TableFile,
        target: (&dyn File, &Path),
        step: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<bool> {
        const STEP_BYTES: u64 = 1 << 20;
        let (Some(handle), Some(header)) = (&table.handle, self.last().header.clone()) else { return Ok(true) };
        let block_bytes = table.frame_bytes;
        target.0.set_len(0).map_err(|e| Error::io(target.1, "set the length of", e))?;
        let all = u64::from(header.length) * block_bytes as u64;
        let mut done = 0;
        let leaf_count = self.map.lock().leaves.len() as u32;
        let fanout = fanout(block_bytes) as u32;
        let (mut used, mut next) = (BlockSet::default(), HEADER_BLOCKS);
        let mut leaves = Vec::new();
        let mut bytes = vec![0; block_bytes];
        let checkpoint = header.table.sequence;
        for number in 0..leaf_count {
            let Some(leaf) = self.map.leaf(table, number)? else {
                leaves.push(Entry::NONE);
                continue;
            };
            let mut entries = leaf.to_vec();
            for (frame, entry) in (number * fanout..).zip(entries.iter_mut()).filter(|(_, entry)| !entry.is_none()) {
                if done % STEP_BYTES < block_bytes as u64 && !step(done, all) {
                    return Ok(false);
                }
                read_block(table, handle.as_ref(), entry.block, &mut bytes)?;
                check(table, frame, *entry, &bytes)?;
                let mut writer = Writer { target, table, checkpoint, next, used };
                let block = writer.take();
                writer.write(block, &bytes)?;
                (used, next) = (writer.used, writer.next);
                *entry = Entry { block, ..*entry };
                done += block_bytes as u64;
            }
            let mut writer = Writer { target, table, checkpoint, next, used };
            let block = writer.take();
            leaves.push(writer.write_node(Kind::Map, 0, number, &entries, block)?);
            (used, next) = (writer.used, writer.next);
        }
        let mut writer = Writer { target, table, checkpoint, next, used };
        let map = writer.write_tree(Kind::Map, 1, leaves, &[])?;
        for block in 0..HEADER_BLOCKS {
            writer.used.insert(block);
        }
        let mut blocks = Vec::new();
        let regions = loop {
            let regions = writer.next.div_ceil(region_blocks(block_bytes));
            if blocks.len() >= level_sizes(regions as usize, fanout as usize).iter().sum() {
                break regions;
            }
            blocks.push(writer.take());
        };
        let mut bitmaps = Vec::new();
        for number in 0..regions {
            let bytes = writer.used.bitmap(number * region_blocks(block_bytes), block_bytes);
            let [home, _] = homes(number, block_bytes);
            writer.write(home, &bytes)?;
            bitmaps.push(Entry { block: home, sum: bitmap_sum(number, &bytes) });
        }
        let room = writer.write_tree(Kind::Room, 0, bitmaps, &blocks)?;
        let (length, id) = (writer.used.end(), random_u64());
        let copy = CheckpointHeader { length, id, parent: header.id, map, room, ..header };
        let fail = |e| Error::io(target.1, "write", e);
        copy.write(target.0, false).and_then(|()| copy.write(target.0, true)).map_err(fail)?;
        Ok(step(all, all))
    }
}
