//! Checks that each block of a file has one use, and that the bitmaps say so.
//!
//! ```text
//! used + free = length     used: the headers, the homes of bitmaps, nodes, frames; none of them twice
//! ```

use super::Blocks;
use super::map::{check, read_block};
use super::room::{BlockSet, homes, region_blocks};
use crate::error::{ErrorKind, Result};
use crate::fault::{Proceed, go_on};
use crate::pager::file::TableFile;
use crate::pager::file::headers::Entry;
use crate::pager::pool::FrameNo;

impl Blocks {
    /// Reads all frames of the last checkpoint and reports what is wrong: `fault` gets the number of the frame, or 0
    /// for a block. The caller keeps checkpoints out.
    pub(in crate::pager) fn verify(
        &self,
        file: &TableFile,
        proceed: Proceed<'_>,
        mut fault: impl FnMut(FrameNo, String),
    ) -> Result<()> {
        let Some(handle) = &file.handle else { return Ok(()) };
        let (leaf_count, fanout) = {
            let entries = self.map.lock();
            (entries.leaves.len() as u32, entries.fanout)
        };
        let mut seen = BlockSet::default();
        let mut twice = Vec::new();
        let mut see = |block: u32| {
            if !seen.insert(block) {
                twice.push(block);
            }
        };
        // Frames are read in the order of the file, in portions: the list of them takes memory.
        const PORTION_FRAMES: usize = if cfg!(test) { 100 } else { 1 << 18 };
        let mut bytes = vec![0; file.frame_bytes];
        let mut portion = Vec::new();
        let mut check_portion =
            |portion: &mut Vec<(u32, FrameNo, Entry)>, fault: &mut dyn FnMut(FrameNo, String)| -> Result<()> {
                portion.sort_unstable_by_key(|&(block, ..)| block);
                for (block, frame, entry) in portion.drain(..) {
                    go_on(proceed)?;
                    let read = read_block(file, handle.as_ref(), block, &mut bytes);
                    match read.and_then(|()| check(file, frame, entry, &bytes)) {
                        Err(e) if e.kind() == ErrorKind::Corrupt => fault(frame, e.message().to_owned()),
                        checked => checked?,
                    }
                }
                Ok(())
            };
        for number in 0..leaf_count {
            let leaf = match self.map.leaf(file, number) {
                Err(e) if e.kind() == ErrorKind::Corrupt => {
                    fault(number * fanout, e.message().to_owned());
                    continue;
                }
                leaf => leaf?,
            };
            let Some(leaf) = leaf else { continue };
            see(self.map.lock().leaves[number as usize].block);
            for (frame, entry) in (number * fanout..).zip(leaf.iter()).filter(|(_, entry)| !entry.is_none()) {
                see(entry.block);
                portion.push((entry.block, frame, *entry));
            }
            if portion.len() >= PORTION_FRAMES {
                check_portion(&mut portion, &mut fault)?;
            }
        }
        check_portion(&mut portion, &mut fault)?;
        if file.read_only {
            return Ok(());
        }
        let last = self.last();
        let Some(header) = &last.header else { return Ok(()) };
        last.nodes.iter().for_each(|&block| see(block));
        let regions = header.length.div_ceil(region_blocks(file.frame_bytes));
        (0..super::HEADER_BLOCKS)
            .chain((0..regions).flat_map(|region| homes(region, file.frame_bytes)))
            .for_each(&mut see);
        for block in twice {
            fault(0, format!("{}: block {block} has two uses", file.path.display()));
        }
        for block in 0..header.length {
            if seen.contains(block) != last.used.contains(block) {
                let (is, says) = if seen.contains(block) { ("used", "free") } else { ("not used", "used") };
                fault(0, format!("{}: block {block} is {is}, and its bitmap says it is {says}", file.path.display()));
            }
        }
        Ok(())
    }
}
