//! Starts reading frames that an open will need, so that the disk works on many at a time.
//!
//! A replay knows the keys of many records before it applies their changes. One frame at a time, each change would wait
//! for the disk. Announced together, sorted by file offset and with nearby ones joined, the frames are read as fast as
//! the disk can. A replay that needs most frames reads the file once, from beginning to end.
//!
//! Errors are ignored here: the change that needs an unreadable frame reports it.

use super::Frames;
use crate::pager::pool::FrameNo;
use std::sync::atomic::Ordering::*;

/// Gaps between needed frames are read with them if they are no longer than this: that costs less than another request.
const GAP_BYTES: usize = 64 << 10;
/// Bytes asked for at once.
const RUN_BYTES: usize = 2 << 20;

impl Frames {
    /// Whether using `frame` would read it from the file.
    #[inline]
    pub(crate) fn is_to_be_read(&self, frame: FrameNo) -> bool {
        frame < self.file.file_frames.load(Relaxed) && !self.pool.is_resident(frame)
    }

    /// Starts reading these frames of the file into the system's cache, unless it seems to have them.
    pub(crate) fn announce(&self, frames: &mut Vec<FrameNo>) {
        let Some(file) = self.file.handle.as_ref().filter(|_| !frames.is_empty()) else { return };
        if let Some(blocks) = &self.blocks {
            // From here on they are numbers of blocks.
            frames.retain_mut(|frame| match blocks.block_of(&self.file, *frame) {
                Ok(Some(block)) => {
                    *frame = block;
                    true
                }
                _ => false,
            });
        }
        frames.sort_unstable();
        frames.dedup();
        let frame_bytes = self.frame_bytes();
        if frames.is_empty() {
            return;
        }
        const SAMPLES: usize = 8;
        let mut samples = frames.iter().step_by(frames.len().div_ceil(SAMPLES));
        if samples.all(|&frame| file.is_cached(u64::from(frame) * frame_bytes as u64) == Some(true)) {
            return;
        }
        let frames_in = |bytes: usize| (bytes / frame_bytes) as FrameNo;
        for (first, count) in runs(frames, frames_in(GAP_BYTES), frames_in(RUN_BYTES)) {
            file.read_ahead(u64::from(first) * frame_bytes as u64, u64::from(count) * frame_bytes as u64);
        }
    }
}

/// Splits sorted frames into runs: the first frame and the number of frames, at most `count_max`. Frames at most `gap`
/// apart are in one run.
fn runs(frames: &[FrameNo], gap: FrameNo, count_max: FrameNo) -> impl Iterator<Item = (FrameNo, FrameNo)> {
    frames.chunk_by(move |&before, &next| next - before <= gap).flat_map(move |run| {
        let end = run[run.len() - 1] + 1;
        (run[0]..end).step_by(count_max as usize).map(move |first| (first, count_max.min(end - first)))
    })
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn near_frames_are_asked_for_together() {
        let runs_of = |frames: &[u32]| runs(frames, 3, 10).collect::<Vec<_>>();
        assert_eq!(runs_of(&[]), []);
        assert_eq!(runs_of(&[7]), [(7, 1)]);
        assert_eq!(runs_of(&[7, 10, 14, 15]), [(7, 4), (14, 2)]);
        assert_eq!(runs_of(&(5..28).collect::<Vec<_>>()), [(5, 10), (15, 10), (25, 3)]);
    }
}
