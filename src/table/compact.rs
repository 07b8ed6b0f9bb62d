//! Compaction: makes the file as small as its content allows, while other threads read and write.
//!
//! ```text
//! merge the buckets that the load does not need
//! each pass:   trim every bucket  ->  from the start of the file to its end, move everything into room that was passed
//!              ->  cut the free frames at the end off the file
//! ```
//!
//! A pass packs frames: overflow pages and extents move to the smallest hole before them that is large enough. One that
//! is larger than all holes, but has some free room directly before it, first moves aside to the end of the file, and
//! moves back once the rest has been packed. The table is consistent after every step, and a crash leaves the last
//! checkpoint and the log, so an interrupted compaction can be repeated.
//!
//! Source: the *service* of the uDatabase library; sliding compaction as in mark-compact collectors (Saunders 1974).
//! Not here: the steps themselves (`buckets/compact.rs`), room (`pager/allocate/compaction.rs`).

use super::handle::Table;
use crate::buckets::compact::{Movable, What};
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::fault::stopped;
use crate::pager::pool::FrameNo;
use crate::pager::{Destination, FRAME_UNITS, ZONE_FRAMES};
use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};

/// Whether to continue: the caller's function can stop a compaction.
type Flow = ControlFlow<()>;

/// One pass over the file.
struct Pass {
    /// Free units in the part that was passed.
    free_units: u64,
    /// Nothing is moved until more units than this are free: one free frame at the start is no reason to move all
    /// others.
    slack_units: u64,
    /// Whether more were free.
    moves: bool,
    /// Whatever begins before this frame may be moved aside.
    aside_before: u32,
}

impl Table {
    /// Shrinks the table to the size that its pairs need, and the file to the size of the table.
    ///
    /// O(file): reads all pages, and rewrites the pages of buckets and everything behind free space, up to the whole
    /// file. The file can temporarily grow by the largest value. Other threads continue; each waits for at most one
    /// bucket, or for one group of buckets, a 32nd of the table, to be moved. A second compaction waits for the first.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// (0..1000u32).try_for_each(|n| table.put(&n.to_le_bytes(), b"value"))?;
    /// (1..1000u32).try_for_each(|n| table.remove(&n.to_le_bytes()).map(drop))?;
    /// table.compact()?;
    /// assert_eq!(table.len(), 1);
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`remove`](Self::remove) and [`sync`](Self::sync).
    pub fn compact(&self) -> Result<()> {
        self.compact_with(|_, _| ControlFlow::Continue(()))
    }

    /// [`compact`](Self::compact) that calls `progress` from time to time with the work done in the current step and
    /// its total. If `progress` returns a break, the compaction ends, and the table keeps the size that it has reached.
    ///
    /// # Examples
    /// ```
    /// let table = splitpoint::Table::in_memory()?;
    /// use std::ops::ControlFlow;
    /// table.put(b"alice", b"admin")?;
    /// table.compact_with(|done, all| {
    ///     eprintln!("{done} of {all}");
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), splitpoint::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`compact`](Self::compact); [`ErrorKind::Stopped`]. A compaction that `progress` begins fails with
    /// [`ErrorKind::WouldDeadlock`].
    pub fn compact_with(&self, mut progress: impl FnMut(u64, u64) -> ControlFlow<()>) -> Result<()> {
        drop(self.enter()?);
        let _only = self.compaction.acquire()?;
        let _compacting = self.pager.values().begin_compaction()?;
        {
            // From here on no hole is kept, so that a pass, which is outside the gate, frees none.
            let _inside = self.enter()?;
            self.pager.allocator().free_kept()?;
        }
        let completed = self.merge_buckets(&mut progress)?.is_continue() && self.passes(&mut progress)?.is_continue();
        self.clear_unused_pages()?;
        self.checkpoint()?;
        self.move_blocks()?;
        if completed { Ok(()) } else { Err(stopped()) }
    }

    fn clear_unused_pages(&self) -> Result<()> {
        let mut next = Some(0).filter(|_| self.pager.has_file());
        while let Some(from) = next {
            let inside = self.enter()?;
            next = self.buckets.clear_unused_pages(from)?;
            drop(inside);
            self.checkpoint_if_due();
        }
        Ok(())
    }

    /// Moves frames that are in blocks at the end of the file to free blocks nearer the start: as if they had changed.
    fn move_blocks(&self) -> Result<()> {
        const ROUNDS_MAX: u32 = 4;
        for _ in 0..ROUNDS_MAX {
            let frames = self.frames_at_end()?;
            if frames.is_empty() {
                break;
            }
            self.change_frames(&frames)?;
            self.checkpoint()?;
        }
        let _no_checkpoint = self.acquire_checkpoint()?;
        self.pager.shorten_file()
    }

    /// The frames in blocks at the end of the file that keep it longer than it needs to be.
    pub(super) fn frames_at_end(&self) -> Result<Vec<FrameNo>> {
        let _no_checkpoint = self.acquire_checkpoint()?;
        self.pager.frames_at_end()
    }

    /// Makes the next checkpoint write these frames.
    pub(super) fn change_frames(&self, frames: &[FrameNo]) -> Result<()> {
        for &frame in frames {
            let inside = self.enter()?;
            drop(self.pager.write(frame)?);
            drop(inside);
            self.checkpoint_if_due();
        }
        Ok(())
    }

    /// Merges buckets until the load is that of a full table.
    fn merge_buckets(&self, progress: &mut impl FnMut(u64, u64) -> Flow) -> Result<Flow> {
        let all = u64::from(self.buckets.view().max_bucket()) + 1;
        for done in 0..all {
            if is_reported(done) && progress(done, all).is_break() {
                return Ok(Flow::Break(()));
            }
            let inside = self.enter()?;
            if !self.buckets.merge_within_fill(self.gate.totals())? {
                self.buckets.free_unused_groups()?;
                break;
            }
            drop(inside);
            self.checkpoint_if_due();
        }
        Ok(Flow::Continue(()))
    }

    /// Moves what can be moved towards the start, in passes as long as they help, and cuts the file.
    fn passes(&self, progress: &mut impl FnMut(u64, u64) -> Flow) -> Result<Flow> {
        const PASSES_MAX: u32 = 8;
        for number in 0..PASSES_MAX {
            let before = self.pager.frame_count();
            if self.pass(number, progress)?.is_break() {
                return Ok(Flow::Break(()));
            }
            {
                // The end of the file must not move while a checkpoint is in flight.
                let _no_checkpoint = self.acquire_checkpoint()?;
                let _alone = self.gate.close()?;
                self.pager.allocator().trim()?;
            }
            // The first pass does not move map frames that a smaller file does not need.
            if number > 0 && self.pager.frame_count() >= before
                || self.pager.allocator().free_units()? <= self.slack_units()?
            {
                break;
            }
        }
        Ok(Flow::Continue(()))
    }

    fn used_units(&self) -> Result<u64> {
        let all = u64::from(self.pager.frame_count()) * u64::from(FRAME_UNITS);
        Ok(all.saturating_sub(self.pager.allocator().free_units()?))
    }

    fn slack_units(&self) -> Result<u64> {
        self.used_units().map(|used| used / 32)
    }

    fn pass(&self, number: u32, progress: &mut impl FnMut(u64, u64) -> Flow) -> Result<Flow> {
        self.pager.allocator().begin_pass()?;
        let ControlFlow::Continue(counts) = self.trim_buckets(progress)? else { return Ok(Flow::Break(())) };
        let end = self.pager.frame_count();
        let mut pass = Pass { free_units: 0, slack_units: self.slack_units()?, moves: false, aside_before: end };
        let map_end = match number {
            0 => (self.used_units()? * 9 / 8 / u64::from(FRAME_UNITS)) as u32, // fewer than the file has
            _ => end,
        };
        let mut from = 0;
        while from < end {
            let window = window(&counts, from, end);
            from = window.end;
            if self.sweep(window, map_end, &mut pass, progress)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        // Then sweep what was moved aside.
        self.sweep(end..self.pager.frame_count().max(end), map_end, &mut pass, progress)
    }

    /// Trims every bucket. Returns the number of overflow pages and extents in each zone.
    fn trim_buckets(&self, progress: &mut impl FnMut(u64, u64) -> Flow) -> Result<ControlFlow<(), Vec<u32>>> {
        let mut counts = Vec::new();
        self.each_bucket(progress, |number| {
            let inside = self.enter()?;
            self.buckets.trim_bucket(number)?;
            drop(inside);
            self.checkpoint_if_due();
            self.buckets.each_movable(number, |movable| {
                let zone = (movable.frame() / ZONE_FRAMES) as usize;
                if counts.len() <= zone {
                    counts.resize(zone + 1, 0);
                }
                counts[zone] += 1;
            })
        })
        .map(|flow| flow.map_continue(|()| counts))
    }

    fn each_bucket(
        &self,
        progress: &mut impl FnMut(u64, u64) -> Flow,
        mut visit: impl FnMut(u32) -> Result<()>,
    ) -> Result<Flow> {
        let mut number = 0;
        loop {
            let last = self.buckets.view().max_bucket();
            if number > last {
                return Ok(Flow::Continue(()));
            }
            if is_reported(number.into()) && progress(number.into(), u64::from(last) + 1).is_break() {
                return Ok(Flow::Break(()));
            }
            visit(number)?;
            let Some(next) = number.checked_add(1) else { return Ok(Flow::Continue(())) };
            number = next;
        }
    }

    /// Moves everything that begins in these frames into room that was passed.
    fn sweep(
        &self,
        frames: Range<u32>,
        map_end: u32,
        pass: &mut Pass,
        progress: &mut impl FnMut(u64, u64) -> Flow,
    ) -> Result<Flow> {
        if frames.is_empty() {
            return Ok(Flow::Continue(()));
        }
        let mut movables = self.buckets.movable_groups(&frames);
        movables.extend(self.movable_maps(&frames, map_end));
        let listed = self.each_bucket(progress, |number| {
            self.buckets.each_movable(number, |movable| {
                if frames.contains(&movable.frame()) {
                    movables.push(movable);
                }
            })
        })?;
        if listed.is_break() {
            return Ok(listed);
        }
        movables.sort_unstable_by_key(|movable| movable.first);
        for (done, in_frame) in (0..).zip(movables.chunk_by_mut(|a, b| a.frame() == b.frame())) {
            let frame = in_frame[0].frame();
            if is_reported(done)
                && progress(frame.into(), u64::from(frame.max(self.pager.frame_count())) + 1).is_break()
            {
                return Ok(Flow::Break(()));
            }
            pass.free_units += self.pager.allocator().pass_to(frame);
            pass.moves |= pass.free_units > pass.slack_units;
            if pass.moves {
                in_frame.sort_by_key(|movable| Reverse(movable.units));
                self.move_frame(frame, in_frame, pass)?;
            }
        }
        pass.free_units += self.pager.allocator().pass_to(frames.end);
        Ok(Flow::Continue(()))
    }

    fn movable_maps(&self, frames: &Range<u32>, map_end: u32) -> impl Iterator<Item = Movable> {
        let maps =
            self.pager.allocator().movable_maps(map_end).into_iter().filter(|(_, first, _)| frames.contains(first));
        maps.map(|(group, first, count)| Movable {
            first: u64::from(first) * u64::from(FRAME_UNITS),
            units: count * FRAME_UNITS,
            what: What::Maps(group),
        })
    }

    /// Moves everything that begins in a frame, the longest first, into room that was passed; or aside, if that makes
    /// room.
    fn move_frame(&self, frame: u32, in_frame: &[Movable], pass: &mut Pass) -> Result<()> {
        // A frame with at most this many units outside its longest hole is left as it is.
        const SCATTERED_MAX: u32 = 2;
        let mut stay = Vec::new();
        for &movable in in_frame {
            if self.move_to(movable, Destination::Passed)?.is_none() {
                stay.push(movable);
            }
        }
        let Some(longest) = stay.first().filter(|_| frame < pass.aside_before) else { return Ok(()) };
        let allocator = self.pager.allocator();
        let is_worth = match longest.what {
            // It fits anywhere, but is not moved twice for a gap of less than a 32nd of its length.
            What::Extent(_) if allocator.packs_extents() => {
                allocator.free_units_before(longest.first) > SCATTERED_MAX.max(longest.units / 32)
            }
            _ if longest.units < FRAME_UNITS => allocator.scattered_units(frame) > SCATTERED_MAX,
            _ => allocator.free_frames_before(frame) > longest.units / FRAME_UNITS / 32,
        };
        let mut room = Destination::AtEnd;
        for movable in stay.into_iter().filter(|_| is_worth) {
            if let Some(moved) = self.move_to(movable, room)? {
                room = Destination::In(moved.frame());
            }
        }
        Ok(())
    }

    /// Moves something to `room`. Returns its new location, or `None` if there is no room or it no longer exists.
    fn move_to(&self, movable: Movable, room: Destination) -> Result<Option<Movable>> {
        let moved = match movable.what {
            What::Page(number) | What::Extent(number) => {
                let _inside = self.enter()?;
                self.buckets.move_of_bucket(number, movable.first, room)?
            }
            What::Group(group) => {
                let _alone = self.gate.close()?;
                self.buckets.move_group(group, movable, room)?
            }
            What::Maps(group) => {
                // A checkpoint in flight writes checksums to map frames.
                let _no_checkpoint = self.acquire_checkpoint()?;
                let _alone = self.gate.close()?;
                let first = self.pager.allocator().move_map_group(group, movable.frame(), room)?;
                first.map(|first| Movable { first, ..movable })
            }
        };
        self.checkpoint_if_due();
        Ok(moved)
    }
}

/// Whether `progress` is called for this number.
fn is_reported(number: u64) -> bool {
    number.is_multiple_of(256)
}

/// The next frames to be swept together: whole zones, with a bounded number of overflow pages and extents.
fn window(counts: &[u32], from: u32, end: u32) -> Range<u32> {
    // Each takes 24 bytes.
    const MOVABLES_MAX: u64 = if cfg!(test) { 64 } else { 1 << 21 };
    let first = from / ZONE_FRAMES;
    let mut count = 0;
    let last = (first..end.div_ceil(ZONE_FRAMES)).find(|&zone| {
        count += u64::from(counts.get(zone as usize).copied().unwrap_or(0));
        count > MOVABLES_MAX && zone > first
    });
    from..last.map_or(end, |zone| zone * ZONE_FRAMES)
}
