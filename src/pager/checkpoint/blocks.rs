//! Writes the frozen frames of a file of blocks, each to a block that no checkpoint has.
//!
//! ```text
//! copy a frozen frame from memory -> take a block -> write -> enter it in the map of this checkpoint -> thaw the frame
//! ```
//!
//! A frame stays frozen until its write has returned, so it is neither evicted nor, unsaved, changed. One that was
//! evicted before the freeze is in its block already. Frames that changed since the freeze may be evicted
//! at the same time.
//!
//! Not here: the tree and the header (`pager/blocks/commit.rs`).

use super::pace::Pace;
use super::{Checkpointer, Frozen};
use crate::error::{Error, Result};
use crate::pager::blocks::Blocks;
use crate::pager::file::sums::frame_sum;
use crate::pager::pool::{FrameNo, FrozenFrame};
use std::collections::HashMap;

/// Frames written with one call, if their blocks are adjacent.
const RUN_BYTES: usize = 1 << 20;

/// Adjacent blocks that are not yet written.
struct Run<'c> {
    blocks: &'c Blocks,
    checkpointer: &'c Checkpointer<'c>,
    pace: Pace<'c>,
    first: u32,
    bytes: Vec<u8>,
    /// Frame, block and checksum.
    frames: Vec<(FrameNo, u32, u32)>,
    written: u64,
}

impl Run<'_> {
    fn push(&mut self, frame: FrameNo, bytes: &[u8]) -> Result<()> {
        let block = self.blocks.place_frozen(&self.checkpointer.frames.file, frame)?;
        let next = self.first + self.frames.len() as u32;
        if block != next || self.bytes.len() >= RUN_BYTES {
            self.flush()?;
            self.first = block;
        }
        self.bytes.extend_from_slice(bytes);
        self.frames.push((frame, block, frame_sum(frame, bytes)));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let file = &self.checkpointer.frames.file;
        self.blocks.write_run(file, self.first, &self.bytes)?;
        let at = u64::from(self.first) * file.frame_bytes as u64;
        self.pace.follow(at, self.bytes.len() as u64).map_err(|e| Error::io(&file.path, "write a block of", e))?;
        self.blocks.note_frozen(&self.frames);
        self.frames.iter().for_each(|&(frame, ..)| self.checkpointer.frames.pool.in_block(frame));
        self.written += self.frames.len() as u64;
        self.bytes.clear();
        self.frames.clear();
        Ok(())
    }
}

impl Checkpointer<'_> {
    /// Writes the frozen frames and completes the checkpoint; returns the number of frames written.
    pub(super) fn write_to_blocks(&self, blocks: &Blocks, frozen: &Frozen) -> Result<u64> {
        let file = self.frames.file.handle.as_deref().expect("a table in memory has no checkpoints");
        let mut run = Run {
            blocks,
            checkpointer: self,
            pace: Pace::new(file),
            first: 0,
            bytes: Vec::new(),
            frames: Vec::new(),
            written: 0,
        };
        let mut bytes = vec![0; self.frames.frame_bytes()];
        let mut late = Vec::new();
        for &frame in &frozen.frames {
            if frame >= frozen.frame_count {
                self.frames.pool.thaw(frame);
                continue;
            }
            match self.frames.pool.peek_frozen(frame, &mut bytes) {
                FrozenFrame::InMemory | FrozenFrame::InFile => run.push(frame, &bytes)?,
                // In the block that it was evicted to.
                FrozenFrame::Spilled | FrozenFrame::Shadowed => self.frames.pool.in_block(frame),
                FrozenFrame::Preserved => late.push(frame),
            }
        }
        // Contents that writers saved. The list is complete by now: every frozen frame has been visited.
        let mut preserved: HashMap<FrameNo, Box<[u8]>> = self.frames.pool.take_preserved().into_iter().collect();
        for frame in late {
            let bytes = preserved.remove(&frame).expect("a frozen frame is in memory, in a block or saved");
            run.push(frame, &bytes)?;
        }
        run.flush()?;
        // What writers saved of frames that were about to be written.
        drop(self.frames.pool.take_preserved());
        let written = run.written;
        // What was cut off would be zeros.
        self.frames.file.refuse_shorter(file, frozen.bytes_needed)?;
        blocks.commit(&self.frames.file, frozen.table.clone(), &frozen.root)?;
        self.frames.file.file_frames.store(frozen.frame_count, std::sync::atomic::Ordering::Release);
        self.frames.file.checkpoint_frames.store(frozen.frame_count, std::sync::atomic::Ordering::Release);
        blocks.shorten(&self.frames.file, self.values.is_closing())?;
        Ok(written)
    }
}
