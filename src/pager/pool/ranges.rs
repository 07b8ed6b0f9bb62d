//! Disjoint ranges of frames.

use super::FrameNo;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maps the first frame of each range to its end.
#[derive(Default)]
pub(in crate::pager) struct Ranges(BTreeMap<FrameNo, FrameNo>);

impl Ranges {
    pub(in crate::pager) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a range that overlaps no other.
    pub(in crate::pager) fn add(&mut self, frames: Range<FrameNo>) {
        self.0.insert(frames.start, frames.end);
    }

    /// The range with `frame`.
    pub(in crate::pager) fn around(&self, frame: FrameNo) -> Option<Range<FrameNo>> {
        let (&start, &end) = self.0.range(..=frame).next_back()?;
        (frame < end).then_some(start..end)
    }

    pub(in crate::pager) fn overlap(&self, frames: &Range<FrameNo>) -> bool {
        self.0.range(..frames.end).next_back().is_some_and(|(_, &end)| end > frames.start)
    }

    /// Removes `frames` from the ranges. Returns the parts that were removed, the last first.
    pub(in crate::pager) fn remove(&mut self, frames: &Range<FrameNo>) -> Vec<Range<FrameNo>> {
        let mut removed = Vec::new();
        while let Some((&start, &end)) = self.0.range(..frames.end).next_back()
            && end > frames.start
        {
            self.0.remove(&start);
            if start < frames.start {
                self.0.insert(start, frames.start);
            }
            if frames.end < end {
                self.0.insert(frames.end, end);
            }
            removed.push(start.max(frames.start)..end.min(frames.end));
        }
        removed
    }

    /// The longest prefix of `frames` that is entirely in one range or entirely in none, and whether it is in one.
    pub(in crate::pager) fn first_part(&self, frames: Range<FrameNo>) -> (Range<FrameNo>, bool) {
        if let Some(around) = self.around(frames.start) {
            return (frames.start..frames.end.min(around.end), true);
        }
        let next = self.0.range(frames.start..).next().map_or(frames.end, |(&start, _)| start);
        (frames.start..frames.end.min(next), false)
    }

    #[cfg(test)]
    pub(in crate::pager) fn frame_count(&self) -> usize {
        self.0.iter().map(|(start, end)| (end - start) as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_a_set_of_frames_is() {
        let mut ranges = Ranges::default();
        [2..5, 5..6, 9..20].into_iter().for_each(|range| ranges.add(range));
        assert_eq!(ranges.remove(&(4..11)), [9..11, 5..6, 4..5]);
        assert_eq!(ranges.remove(&(13..15)), vec![13..15; 1]);
        let frames = [2, 3, 11, 12, 15, 16, 17, 18, 19];
        for frame in 0..25 {
            let inside = frames.contains(&frame);
            assert_eq!(ranges.around(frame).is_some(), inside, "{frame}");
            assert_eq!(ranges.overlap(&(frame..frame + 1)), inside, "{frame}");
            let (part, is_in) = ranges.first_part(frame..25);
            let len = (frame..25).take_while(|next| frames.contains(next) == inside).count();
            assert!(part.start == frame && part.len() <= len && is_in == inside, "{frame}: {part:?}");
            assert!(inside || part.len() == len, "{frame}: {part:?}");
        }
        assert_eq!(ranges.frame_count(), frames.len());
    }
}
