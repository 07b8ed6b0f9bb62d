//! Runs of free frames, searchable by frame and by length.

use crate::pager::pool::FrameNo;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Disjoint runs, no two adjacent.
#[derive(Default)]
pub(in crate::pager) struct Runs {
    /// First frame -> length.
    by_first: BTreeMap<FrameNo, u32>,
    by_len: BTreeSet<(u32, FrameNo)>,
}

impl Runs {
    pub(in crate::pager) fn first(&self) -> Option<FrameNo> {
        self.by_first.first_key_value().map(|(&first, _)| first)
    }

    pub(in crate::pager) fn last(&self) -> Option<Range<FrameNo>> {
        self.by_first.last_key_value().map(|(&first, &len)| first..first + len)
    }

    /// The run that contains `frame`.
    pub(in crate::pager) fn around(&self, frame: FrameNo) -> Option<Range<FrameNo>> {
        let (&first, &len) = self.by_first.range(..=frame).next_back()?;
        (frame - first < len).then_some(first..first + len)
    }

    /// Adds free frames.
    pub(in crate::pager) fn add(&mut self, frames: Range<FrameNo>) {
        let (mut start, mut end) = (frames.start, frames.end);
        if let Some(before) = start.checked_sub(1).and_then(|before| self.around(before)) {
            self.remove_whole(&before);
            start = before.start;
        }
        if let Some(after) = self.around(end) {
            self.remove_whole(&after);
            end = after.end;
        }
        self.insert(start..end);
    }

    /// Removes the free frames among `frames` from the runs. Returns them, the last run first.
    pub(in crate::pager) fn remove(&mut self, frames: &Range<FrameNo>) -> Vec<Range<FrameNo>> {
        let mut removed = Vec::new();
        while let Some((&first, &len)) = self.by_first.range(..frames.end).next_back()
            && first + len > frames.start
        {
            let (run, part) = (first..first + len, first.max(frames.start)..frames.end.min(first + len));
            self.remove_whole(&run);
            self.insert(run.start..part.start);
            self.insert(part.end..run.end);
            removed.push(part);
        }
        removed
    }

    /// The runs of at least `len` frames.
    pub(in crate::pager) fn longer(&self, len: u32) -> impl Iterator<Item = Range<FrameNo>> {
        self.by_len.range((len, 0)..).map(|&(len, first)| first..first + len)
    }

    /// The shortest run of at least `len` frames.
    pub(in crate::pager) fn shortest(&self, len: u32) -> Option<FrameNo> {
        self.by_len.range((len, 0)..).next().map(|&(_, first)| first)
    }

    /// The first run of at least `len` frames.
    pub(in crate::pager) fn first_of(&self, len: u32) -> Option<FrameNo> {
        self.by_first.iter().find(|&(_, &run_len)| run_len >= len).map(|(&first, _)| first)
    }

    fn insert(&mut self, run: Range<FrameNo>) {
        if !run.is_empty() {
            self.by_first.insert(run.start, run.len() as u32);
            self.by_len.insert((run.len() as u32, run.start));
        }
    }

    fn remove_whole(&mut self, run: &Range<FrameNo>) {
        self.by_first.remove(&run.start);
        self.by_len.remove(&(run.len() as u32, run.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_a_list_of_free_frames_has() {
        const FRAMES: FrameNo = 60;
        let mut state = 1u64;
        let mut below = |limit: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % limit
        };
        let (mut runs, mut free) = (Runs::default(), [false; FRAMES as usize]);
        for _ in 0..3000 {
            let first = below(FRAMES);
            let frames = first..(first + 1 + below(8)).min(FRAMES);
            let all = |is_free: bool, free: &[bool]| frames.clone().all(|frame| free[frame as usize] == is_free);
            if all(false, &free) {
                runs.add(frames.clone());
                free[frames.start as usize..frames.end as usize].fill(true);
            } else if below(2) == 0 {
                let removed: Vec<_> = runs.remove(&frames).into_iter().rev().flatten().collect();
                let expected: Vec<_> = frames.clone().filter(|&frame| free[frame as usize]).collect();
                assert_eq!(removed, expected);
                free[frames.start as usize..frames.end as usize].fill(false);
            }
            let mut expected = Vec::new();
            let mut at = 0;
            while at < FRAMES {
                let end = (at..FRAMES).find(|&frame| !free[frame as usize]).unwrap_or(FRAMES);
                if end > at {
                    expected.push(at..end);
                }
                at = end + 1;
            }
            assert_eq!(runs.first(), expected.first().map(|run| run.start));
            assert_eq!(runs.last(), expected.last().cloned());
            for frame in 0..FRAMES {
                assert_eq!(runs.around(frame), expected.iter().find(|run| run.contains(&frame)).cloned());
            }
            for len in 1..10 {
                let fits = || expected.iter().filter(|run| run.len() >= len as usize);
                assert_eq!(runs.first_of(len), fits().next().map(|run| run.start));
                assert_eq!(runs.shortest(len), fits().min_by_key(|run| run.len()).map(|run| run.start));
            }
        }
    }
}
