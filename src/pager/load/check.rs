//! Comparing frames with their checksums.
//!
//! Not here: the checksums themselves (`file/sums.rs`), writing them (`checkpoint/`).

use super::Frames;
use crate::error::{ErrorKind, Result};
use crate::fault::{Proceed, go_on};
use crate::little_endian::u32_at;
use crate::pager::file::header::{HEADER_BYTES, header_sum};
use crate::pager::file::map_frames::ZONE_FRAMES;
use crate::pager::file::sums::{SUM_OF_SUMS, frame_sum, sum_of_sums};
use crate::pager::interleave::step;
use crate::pager::pool::FrameNo;
use crate::pager::pool::words::Bytes;
use std::sync::atomic::Ordering::*;

impl Frames {
    /// Compares a frame read from the file with its checksum.
    pub(super) fn check_sum(&self, frame: FrameNo, bytes: &[u8]) -> Result<()> {
        let (stored, computed) = if frame == 0 {
            (u32_at(bytes, HEADER_BYTES - 4), header_sum(&bytes[..HEADER_BYTES]))
        } else if self.file.maps.has_sums(frame) {
            (u32_at(bytes, SUM_OF_SUMS), sum_of_sums(frame, bytes))
        } else {
            (self.stored_sum(frame)?, frame_sum(frame, bytes))
        };
        // A frame that was allocated but never written has no checksum yet and is a hole in the file.
        let unwritten = stored == 0 && bytes.iter().all(|&b| b == 0);
        if stored == computed || unwritten {
            return Ok(());
        }
        Err(self
            .file
            .corrupt(format!("frame {frame}: checksum mismatch, stored {stored:08x}, computed {computed:08x}")))
    }

    /// Clears the checksums of frames `first..end` before the file is cut: frames allocated there later count as never
    /// written.
    pub(in crate::pager) fn forget_sums(&self, first: FrameNo, end: FrameNo) -> Result<()> {
        self.file.file_frames.fetch_min(first, AcqRel);
        if let Some(blocks) = &self.blocks {
            return blocks.cut(&self.file, first, end);
        }
        let mut frame = first;
        while frame < end {
            let zone = frame / ZONE_FRAMES;
            let stop = end.min((zone + 1) * ZONE_FRAMES);
            let sum_frame = self.file.maps.of_zone(zone) + 1;
            let mut sums = self.write(sum_frame)?;
            let start = 4 * (frame % ZONE_FRAMES) as usize;
            sums.whole().fill(start..start + 4 * (stop - frame) as usize, 0);
            let sum = sum_of_sums(sum_frame, &sums);
            sums.whole().store(SUM_OF_SUMS, &sum.to_le_bytes());
            frame = stop;
        }
        Ok(())
    }

    pub(in crate::pager) fn stored_sum(&self, frame: FrameNo) -> Result<u32> {
        loop {
            let map = self.file.maps.of_zone(frame / ZONE_FRAMES);
            let sums = self.read(map + 1);
            step();
            // A compaction may have moved the map frames, and their old location may already have been reused.
            if self.file.maps.of_zone(frame / ZONE_FRAMES) == map {
                return Ok(u32_at(&sums?, 4 * (frame % ZONE_FRAMES) as usize));
            }
        }
    }

    /// Reads every frame of the file and reports those whose checksum does not match.
    pub(crate) fn verify_sums(&self, proceed: Proceed<'_>, mut fault: impl FnMut(FrameNo, String)) -> Result<()> {
        if let Some(blocks) = &self.blocks {
            return blocks.verify(&self.file, proceed, fault);
        }
        let Some(file) = &self.file.handle else { return Ok(()) };
        let mut bytes = vec![0; self.frame_bytes()];
        for frame in 0..self.file.file_frames.load(Acquire) {
            go_on(proceed)?;
            if self.spilling.on && self.pool.is_dirty(frame) {
                // The checksum in memory may be that of a spilled copy of the frame.
                continue;
            }
            let read = if self.file.read_only {
                self.file.read_as_opened(file.as_ref(), frame, &mut bytes)
            } else {
                let read = file.read_at(&mut bytes, u64::from(frame) * self.frame_bytes() as u64);
                read.map_err(|e| self.file.unread(frame, e))
            };
            match read.and_then(|()| self.check_sum(frame, &bytes)) {
                Err(e) if e.kind() == ErrorKind::Corrupt => fault(frame, e.message().to_owned()),
                checked => checked?,
            }
        }
        Ok(())
    }
}
