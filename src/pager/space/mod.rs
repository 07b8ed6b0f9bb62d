//! The allocator of the file: one bit for each **unit**, a 64th of a frame, says whether it is in use.
//!
//! Groups of buckets take whole frames, overflow pages and small extents take a few units within one frame, large
//! extents take frames and share the last one. One allocator serves them all: the bits of a frame are one `u64`, and a
//! freed hole can be reused for any of them.
//!
//! The bits are in **map frames**: a zone of [`ZONE_FRAMES`] frames has two, the first with its bits, the second with
//! its checksums (`file/sums.rs`). Zone 0's are frames 1 and 2; those of zones 2^k to 2^(k+1) - 1 are adjacent from
//! `map_groups[k]`, allocated when the file first reaches zone 2^k.
//!
//! Free space is found in memory: frames with a hole, by the length of the longest, and runs of free frames, by length.
//! Neither list is in the file. After an open, allocations fill them zone by zone, so an open costs the same whatever
//! the file's size.
//!
//! Differs from the paper's buddy-in-waiting: overflow pages are not tied to a split point and may be of any size
//! (docs/architecture.md, "Space").

use crate::error::{Error, ErrorKind, Result};
use crate::pager::Pager;
use crate::pager::pool::words::Bytes;
use crate::pager::pool::{FrameNo, SMALL_BYTES};
use runs::Runs;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};

pub(crate) mod compaction;
pub(super) mod kept;
mod runs;
pub(super) mod windows;

/// The number of frames that a pair of map frames describes.
pub(crate) const ZONE_FRAMES: u32 = 512;
/// Units in a frame.
pub(crate) const FRAME_UNITS: u32 = 64;
/// The maximum number of map groups: 2^32 frames are 2^23 zones.
pub(crate) const MAP_GROUP_COUNT: usize = 24;

/// The free space known so far.
pub(crate) struct Space {
    /// Frames with a hole, in four kinds of lists: for any use, in open windows, in sealed windows, passed by a
    /// compaction.
    lists: [Lists; 4],
    /// Each frame's links in its list, by zone.
    links: Vec<Option<ZoneLinks>>,
    /// Links for later zones, made by the thread that populates memory.
    spare_links: Arc<Mutex<Vec<ZoneLinks>>>,
    /// Runs of free frames for any use.
    runs: Runs,
    /// Units in the known holes and runs, except those of open windows.
    free_units: u64,
    windows: windows::ValueWindows,
    /// Zones below this one are in the lists.
    zones_known: u32,
    /// Frames for which disk space is reserved.
    reserved_frames: u32,
    /// Frames whose memory is populated or being populated.
    ready_frames: u32,
    /// Frames of the next large allocation.
    expected_frames: u32,
    /// Header, map frames, groups of buckets: references in the file cannot cause these frames to be allocated or
    /// freed. First -> count.
    fixed: BTreeMap<FrameNo, u32>,
    /// Set during a compaction: allocate as near the start as possible.
    compacting: bool,
    /// The frames below this one were passed by a compaction.
    passed: FrameNo,
    /// Freed extents that the log refers to: first unit, length. The map frames show them as used.
    quarantined: Vec<(u64, u32)>,
    /// The total of their units.
    quarantined_units: u64,
}

/// Frames with a hole, by the length of their longest hole.
#[derive(Clone, Copy)]
struct Lists {
    /// The first frame of the list of each length; 0 ends a list.
    first: [FrameNo; FRAME_UNITS as usize],
    /// Bit n is set if list n is not empty.
    filled: u64,
}

impl Lists {
    const EMPTY: Lists = Lists { first: [0; FRAME_UNITS as usize], filled: 0 };

    /// A frame whose longest hole is the shortest that has at least `len` units.
    fn find(&self, len: u32) -> Option<FrameNo> {
        let lists = self.filled & (u64::MAX << len);
        (lists != 0).then(|| self.first[lists.trailing_zeros() as usize])
    }
}

/// The links of a zone's frames.
type ZoneLinks = Box<[Link; ZONE_FRAMES as usize]>;

fn new_links() -> ZoneLinks {
    Box::new([Link::default(); ZONE_FRAMES as usize])
}

/// Index of the lists for any use.
const ANY_USE: usize = 0;
/// Index of the lists of open windows.
const OPEN: usize = 1;
/// Index of the lists of sealed windows.
const SEALED: usize = 2;
/// Index of the lists of frames that a compaction has passed.
const PASSED: usize = 3;

/// A frame's links in the list for its longest hole; list 0 means no list.
#[derive(Clone, Copy, Default)]
struct Link {
    /// Its used units while it is in a list.
    used: u64,
    list: u8,
    before: FrameNo,
    after: FrameNo,
}

impl Space {
    /// For a file whose first `zones_known` zones have no free units.
    pub(crate) fn new(zones_known: u32) -> Space {
        Space {
            lists: [Lists::EMPTY; 4],
            links: Vec::new(),
            spare_links: Arc::default(),
            runs: Runs::default(),
            free_units: 0,
            windows: windows::ValueWindows::default(),
            zones_known,
            reserved_frames: 0,
            ready_frames: 0,
            expected_frames: 0,
            fixed: BTreeMap::new(),
            compacting: false,
            passed: 0,
            quarantined: Vec::new(),
            quarantined_units: 0,
        }
    }

    /// Whether any of these frames is fixed.
    fn has_fixed(&self, first: FrameNo, count: u32) -> bool {
        // Ranges do not overlap, so the last one that starts before the end reaches farthest.
        let before = self.fixed.range(..first.saturating_add(count)).next_back();
        before.is_some_and(|(&start, &len)| start + len > first)
    }

    fn link(&mut self, frame: FrameNo) -> &mut Link {
        let zone = (frame / ZONE_FRAMES) as usize;
        if self.links.len() <= zone {
            self.links.resize(zone + 1, None);
        }
        let spare = || self.spare_links.lock().expect("no panic while held").pop();
        let zone = self.links[zone].get_or_insert_with(|| spare().unwrap_or_else(new_links));
        &mut zone[(frame % ZONE_FRAMES) as usize]
    }

    /// Frames for which disk space is reserved.
    pub(super) fn reserved_frames(&self) -> FrameNo {
        self.reserved_frames
    }

    pub(super) fn note_reserved(&mut self, frames: FrameNo) {
        self.reserved_frames = self.reserved_frames.max(frames);
    }

    /// If the file was `cut`, the space reserved beyond its end is free again.
    pub(super) fn forget_reserved(&mut self, cut: bool) {
        if cut {
            self.reserved_frames = 0;
        }
    }

    /// The links of `frame`; empty links if its zone has none.
    fn link_of(&self, frame: FrameNo) -> Link {
        let zone = self.links.get((frame / ZONE_FRAMES) as usize).and_then(Option::as_ref);
        zone.map_or_else(Link::default, |links| links[(frame % ZONE_FRAMES) as usize])
    }

    /// The lists that `frame` belongs to.
    fn lists_of(&self, frame: FrameNo) -> usize {
        match self.windows.lists_of(frame) {
            ANY_USE if frame < self.passed => PASSED,
            lists => lists,
        }
    }

    /// Records the used units of `frame`. A free frame is in `runs` instead of a list.
    fn note_used(&mut self, frame: FrameNo, used: u64) {
        let list = if used == 0 { 0 } else { longest(!used) as u8 };
        let link = self.link(frame);
        let old = std::mem::replace(link, Link { used, ..*link });
        let lists = self.lists_of(frame);
        if lists != OPEN {
            self.free_units = self.free_units + free_units(list, used) - free_units(old.list, old.used);
        }
        if old.list == list {
            return;
        }
        self.take_out(frame, old, lists);
        if list != 0 {
            self.put_in(frame, used, list, lists);
        } else {
            *self.link(frame) = Link::default();
        }
    }

    /// Removes `frame` from its list, one of `lists`.
    fn take_out(&mut self, frame: FrameNo, link: Link, lists: usize) {
        if link.list == 0 {
            return;
        }
        if link.after != 0 {
            self.link(link.after).before = link.before;
        }
        if link.before != 0 {
            self.link(link.before).after = link.after;
            return;
        }
        let lists = &mut self.lists[lists];
        debug_assert_eq!(lists.first[usize::from(link.list)], frame);
        lists.first[usize::from(link.list)] = link.after;
        if link.after == 0 {
            lists.filled &= !(1 << link.list);
        }
    }

    /// Puts `frame`, which is in no list, into `list` of `lists`.
    fn put_in(&mut self, frame: FrameNo, used: u64, list: u8, lists: usize) {
        let first = std::mem::replace(&mut self.lists[lists].first[usize::from(list)], frame);
        if first != 0 {
            self.link(first).before = frame;
        }
        self.lists[lists].filled |= 1 << list;
        *self.link(frame) = Link { used, list, before: 0, after: first };
    }

    /// Moves the frames that are in one of the lists `from` to the lists that they now belong to. Returns their free
    /// units.
    fn move_from_lists(&mut self, frames: Range<FrameNo>, from: usize) -> u64 {
        let mut free = 0;
        for frame in frames {
            let link = self.link_of(frame);
            if link.list != 0 {
                self.take_out(frame, link, from);
                self.put_in(frame, link.used, link.list, self.lists_of(frame));
                free += free_units(link.list, link.used);
            }
        }
        free
    }

    fn add_run(&mut self, first: FrameNo, len: u32) {
        if self.windows.has(first) {
            return self.windows.add_free(first, len);
        }
        self.free_units += u64::from(len) * u64::from(FRAME_UNITS);
        self.windows.add_sealed_free(first..first + len, &mut self.runs);
    }

    /// Removes `frames` from their run.
    fn remove_free(&mut self, frames: &Range<FrameNo>) {
        self.free_units -= frames.len() as u64 * u64::from(FRAME_UNITS);
        self.runs.remove(frames);
    }

    /// Takes the first `len` frames of the shortest run with at least `len`.
    fn take_run(&mut self, len: u32) -> Option<FrameNo> {
        let first = if self.compacting { self.runs.first_of(len)? } else { self.runs.shortest(len)? };
        self.remove_free(&(first..first + len));
        Some(first)
    }
}

/// Free units of a frame that is in `list`.
fn free_units(list: u8, used: u64) -> u64 {
    if list == 0 { 0 } else { u64::from((!used).count_ones()) }
}

/// The bits of `free` at which `len` (1 to 64) consecutive set bits start.
fn starts_of(free: u64, len: u32) -> u64 {
    let (mut starts, mut have) = (free, 1);
    while have < len {
        let step = have.min(len - have);
        starts &= starts >> step;
        have += step;
    }
    starts
}

/// Length of the longest run of set bits.
pub(crate) fn longest(free: u64) -> u32 {
    if free == 0 {
        return 0;
    }
    // starts[k]: where 2^k consecutive set bits start.
    let mut starts = [free, 0, 0, 0, 0, 0, 0];
    let mut power = 0;
    while power < 6 {
        let next = starts[power] & (starts[power] >> (1 << power));
        if next == 0 {
            break;
        }
        power += 1;
        starts[power] = next;
    }
    // Builds the run's length from the largest power down.
    let (mut here, mut len) = (starts[power], 1 << power);
    for smaller in (0..power).rev() {
        let longer = here & starts[smaller].checked_shr(len).unwrap_or(0);
        if longer != 0 {
            here = longer;
            len += 1 << smaller;
        }
    }
    len
}

/// The bits of `len` units from `start` on.
fn bits(start: u32, len: u32) -> u64 {
    (u64::MAX >> (FRAME_UNITS - len)) << start
}

/// Start of the smallest hole of at least `len` units.
fn best_fit(free: u64, len: u32) -> u32 {
    let mut starts = starts_of(free, len);
    // Starts of runs: bits whose lower neighbour is not free.
    starts &= !(free << 1);
    let (mut best, mut best_len) = (starts.trailing_zeros(), u32::MAX);
    while starts != 0 {
        let at = starts.trailing_zeros();
        let run = (free >> at).trailing_ones();
        if run < best_len {
            (best, best_len) = (at, run);
        }
        starts &= starts - 1;
    }
    best
}

impl Pager {
    /// Allocates `len` units: within one frame if fewer than [`FRAME_UNITS`], else from the start of a frame on.
    /// Returns the first unit's number.
    pub(crate) fn allocate(&self, len: u32) -> Result<u64> {
        assert!(len > 0);
        if len < FRAME_UNITS
            && let Some(unit) = self.take_kept(len)
        {
            return Ok(unit);
        }
        let mut space = self.space();
        let frames = len.div_ceil(FRAME_UNITS);
        // Two attempts, the second with the room of sealed windows.
        for _ in 0..2 {
            if len < FRAME_UNITS
                && let Some(unit) = self.allocate_in_hole(&mut space, len)?
            {
                return Ok(unit);
            }
            if let Some(first) = space.take_run(frames) {
                return self.use_run(&mut space, first, len);
            }
            if !self.unseal_for(&mut space, len) {
                break;
            }
        }
        let first = self.extend(&mut space, frames)?;
        self.use_run(&mut space, first, len)
    }

    /// Marks `len` units from frame `first` on as used; returns the number of the first one.
    fn use_run(&self, space: &mut Space, first: FrameNo, len: u32) -> Result<u64> {
        let frames = len.div_ceil(FRAME_UNITS);
        self.set_run_used(space, first, frames, len - (frames - 1) * FRAME_UNITS)?;
        Ok(u64::from(first) * u64::from(FRAME_UNITS))
    }

    fn allocate_in_hole(&self, space: &mut Space, len: u32) -> Result<Option<u64>> {
        // These lists are empty except during a compaction.
        if let Some(frame) = space.lists[PASSED].find(len) {
            return self.take_hole(space, frame, len).map(Some);
        }
        let mut found = space.lists[ANY_USE].find(len);
        if found.is_none() && self.learn_zone(space)? {
            // No known hole fits: scan one more zone, at most one per call.
            found = space.lists[ANY_USE].find(len);
        }
        let Some(frame) = found else { return Ok(None) };
        if space.compacting && space.runs.first().is_some_and(|first| first < frame) {
            return Ok(None); // a free frame is nearer the start
        }
        self.take_hole(space, frame, len).map(Some)
    }

    /// Allocates `len` units in the smallest hole of `frame` that is large enough.
    fn take_hole(&self, space: &mut Space, frame: FrameNo, len: u32) -> Result<u64> {
        let used = space.link(frame).used;
        let start = best_fit(!used, len);
        let used = used | bits(start, len);
        self.set_used_bits(frame, used)?;
        space.note_used(frame, used);
        Ok(u64::from(frame) * u64::from(FRAME_UNITS) + u64::from(start))
    }

    /// Adds `count` adjacent frames at the end of the file. They are not yet marked as used.
    fn extend(&self, space: &mut Space, count: u32) -> Result<FrameNo> {
        loop {
            let first = self.frame_count();
            let end = u64::from(first) + u64::from(count);
            if end > u64::from(FrameNo::MAX) {
                return Err(Error::new(
                    ErrorKind::DiskFull,
                    format!("{}: a file holds at most 2^32 frames", self.path().display()),
                )
                .with_hint("Rebuild the table with larger pages."));
            }
            let zones_mapped = self.zones_mapped();
            let missing = end.div_ceil(u64::from(ZONE_FRAMES)) > u64::from(zones_mapped);
            // Map frames first: zones from 2^k on need group k, which starts where the file ended at that moment.
            let wanted = if missing { 2 * zones_mapped } else { count };
            let end = first + wanted;
            self.make_room(space, end)?;
            if !missing {
                self.set_frame_count(end);
                return Ok(first);
            }
            let group = zones_mapped.trailing_zeros() as usize;
            for frame in first..end {
                self.write_fresh(frame)?.whole().fill(0..self.frame_bytes(), 0);
            }
            self.map_groups()[group].store(first, Release);
            space.fixed.insert(first, wanted);
            self.set_frame_count(end);
            self.set_run_used(space, first, wanted, FRAME_UNITS)?;
        }
    }

    /// Reserves addresses and disk space up to frame `end`.
    fn make_room(&self, space: &mut Space, end: FrameNo) -> Result<()> {
        self.pool().reserve(u64::from(end) + 1)?;
        if end > space.reserved_frames {
            // Reserves a step ahead, so that reservations are rare, but only a sixteenth, so that little stays unused.
            const STEP_BYTES: (u64, u64) = (1 << 20, 64 << 20);
            let frame_bytes = self.frame_bytes() as u64;
            let step = (u64::from(end) * frame_bytes / 16).clamp(STEP_BYTES.0, STEP_BYTES.1) / frame_bytes;
            let target = (u64::from(end) + step).min(u64::from(FrameNo::MAX)) as FrameNo;
            space.reserved_frames = self.reserve_on_disk(end, target)?;
        }
        if !self.has_cache_for(end) {
            self.pool().outgrow_cache(self.cache_frames);
        }
        self.make_ready_ahead(space, end);
        Ok(())
    }

    /// Populates memory beyond `end`, and the new frames before it, if the table is large enough for large pages.
    fn make_ready_ahead(&self, space: &mut Space, end: FrameNo) {
        const AHEAD_BYTES: (u64, u64) = (4 << 20, 64 << 20);
        if space.windows.has_open() {
            return; // the next window would replace that memory
        }
        let frame_bytes = self.frame_bytes() as u64;
        let bytes = u64::from(end) * frame_bytes;
        let ahead =
            ((bytes / 256).clamp(AHEAD_BYTES.0, AHEAD_BYTES.1) / frame_bytes) as FrameNo + space.expected_frames;
        if bytes < SMALL_BYTES as u64 || u64::from(space.ready_frames) > u64::from(end) + u64::from(ahead - ahead / 4) {
            return;
        }
        let new = space.ready_frames.max(self.frame_count()).min(end)..end;
        let to = end.saturating_add(ahead);
        // Frames beyond the cache's limit would be evicted again.
        if !self.has_cache_for(to) || self.pool().reserve(u64::from(to) + 1).is_err() {
            return;
        }
        // Frames beyond the end first: the next overflow page is there, while the pages of a group of buckets are used
        // one by one.
        let behind = space.ready_frames.max(end)..to;
        if self.pool().make_ready(behind) && (new.is_empty() || self.pool().make_ready(new)) {
            space.ready_frames = to;
            self.make_links_ahead(space, to / ZONE_FRAMES + 1);
        }
    }

    /// Has links made in advance for the zones below `zones` that have none.
    fn make_links_ahead(&self, space: &Space, zones: u32) {
        let spare = space.spare_links.clone();
        let there = space.links.len() + spare.lock().expect("no panic while held").len();
        let missing = (zones as usize).saturating_sub(there);
        if missing > 0 {
            self.pool().run_ahead(move || {
                for _ in 0..missing {
                    // Made before the lock is taken: its memory may take milliseconds.
                    let links = new_links();
                    spare.lock().expect("no panic while held").push(links);
                }
            });
        }
    }

    /// Marks the units of `count` frames from `first` on as used; of the last frame only the first `last_units`.
    fn set_run_used(&self, space: &mut Space, first: FrameNo, count: u32, last_units: u32) -> Result<()> {
        self.fill_used_bits(first, count - 1, 0xFF)?;
        let last = first + count - 1;
        self.set_used_bits(last, bits(0, last_units))?;
        space.note_used(last, bits(0, last_units));
        Ok(())
    }

    /// Frees `len` units from `unit` on.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if they are not in use: some page refers to space that it does not own. If the hole is
    /// kept for this thread, this is detected only when it is freed for other threads, and then loses its space
    /// (`kept.rs`).
    pub(crate) fn free(&self, unit: u64, len: u32) -> Result<()> {
        if self.keep(unit, len) {
            return Ok(());
        }
        self.free_in(&mut self.space(), unit, len)
    }

    /// Frees an extent that the log refers to, once the next checkpoint begins.
    pub(crate) fn free_at_checkpoint(&self, unit: u64, len: u32) {
        let mut space = self.space();
        space.quarantined.push((unit, len));
        space.quarantined_units += u64::from(len);
        if space.quarantined_units > self.quarantined_units_max() {
            self.want_checkpoint(true);
        }
    }

    /// The number of units that may wait for a checkpoint before one becomes due.
    fn quarantined_units_max(&self) -> u64 {
        let bytes = u64::from(self.frame_count()) * self.frame_bytes() as u64;
        (bytes / 16).max(1 << 20) / self.unit_bytes() as u64
    }

    /// Whether so much space waits for the next checkpoint that no more should be added.
    fn has_full_quarantine(&self, space: &Space) -> bool {
        space.quarantined_units > 2 * self.quarantined_units_max()
    }

    /// Frees the units that wait for a checkpoint, which begins now. The caller keeps writers out.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; the remaining units wait for the next checkpoint.
    pub(super) fn free_quarantined(&self) -> Result<()> {
        self.want_checkpoint(false);
        let mut space = self.space();
        while let Some((unit, len)) = space.quarantined.pop() {
            space.quarantined_units -= u64::from(len);
            match self.free_in(&mut space, unit, len) {
                // The file is damaged; the space is lost.
                Err(e) if e.kind() == ErrorKind::Corrupt => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// An upper bound of the map frames that change when quarantined units are freed.
    pub(super) fn maps_of_quarantined(&self) -> u64 {
        let zone_units = u64::from(ZONE_FRAMES * FRAME_UNITS);
        self.space().quarantined.iter().map(|&(_, len)| u64::from(len) / zone_units + 2).sum()
    }

    /// The extents that wait for a checkpoint: first unit, length.
    pub(crate) fn quarantined(&self) -> Vec<(u64, u32)> {
        self.space().quarantined.clone()
    }

    fn free_in(&self, space: &mut Space, unit: u64, len: u32) -> Result<()> {
        let frames = len / FRAME_UNITS;
        let first = unit / u64::from(FRAME_UNITS);
        let end = unit + u64::from(len);
        if end > u64::from(self.frame_count()) * u64::from(FRAME_UNITS) {
            return Err(self.corrupt(format!("units {unit} to {end} are freed but are beyond the end")));
        }
        let first = first as FrameNo; // below frame_count, checked above
        if space.has_fixed(first, (end.div_ceil(u64::from(FRAME_UNITS)) - u64::from(first)) as u32) {
            return Err(self.corrupt(format!("units {unit} to {end} are freed but are primary pages or a map")));
        }
        if frames > 0 {
            for frame in first..first + frames {
                if self.used_bits(frame)? != u64::MAX {
                    return Err(self.corrupt(format!("frame {frame} is freed but not all of it is in use")));
                }
            }
            self.fill_used_bits(first, frames, 0)?;
            space.add_run(first, frames);
        }
        let left = len % FRAME_UNITS;
        if left > 0 {
            // A length below FRAME_UNITS is within one frame, at any unit; a longer one starts with a frame.
            let start = if frames > 0 { 0 } else { (unit % u64::from(FRAME_UNITS)) as u32 };
            self.free_within(space, first + frames, start, left)?;
        }
        Ok(())
    }

    fn free_within(&self, space: &mut Space, frame: FrameNo, start: u32, len: u32) -> Result<()> {
        let mask = if start + len <= FRAME_UNITS { bits(start, len) } else { 0 };
        let used = self.used_bits(frame)?;
        if mask == 0 || used & mask != mask {
            return Err(
                self.corrupt(format!("frame {frame}: units {start} to {} are freed but not in use", start + len))
            );
        }
        let used = used & !mask;
        self.set_used_bits(frame, used)?;
        space.note_used(frame, used);
        if used == 0 {
            space.add_run(frame, 1);
        }
        Ok(())
    }

    /// Sets the bits of `count` frames to all used (0xFF) or all free (0), a zone at a time.
    fn fill_used_bits(&self, first: FrameNo, count: u32, byte: u8) -> Result<()> {
        let (mut at, end) = (first, first + count);
        while at < end {
            let zone = at / ZONE_FRAMES;
            let stop = end.min((zone + 1) * ZONE_FRAMES);
            let mut map = self.write(self.map_frame(zone))?;
            let start = (at % ZONE_FRAMES) as usize * 8;
            map.whole().fill(start..start + (stop - at) as usize * 8, byte);
            at = stop;
        }
        Ok(())
    }

    /// Adds the next unknown zone to the lists. Returns false if all are known.
    fn learn_zone(&self, space: &mut Space) -> Result<bool> {
        let zone = space.zones_known;
        let first = zone.saturating_mul(ZONE_FRAMES);
        if first >= self.frame_count() {
            return Ok(false);
        }
        space.zones_known += 1;
        let end = self.frame_count().min(first.saturating_add(ZONE_FRAMES));
        for frame in first..end {
            if space.windows.has(frame) {
                continue; // until it is closed
            }
            let used = self.used_bits(frame)?;
            if used != u64::MAX && space.has_fixed(frame, 1) {
                return Err(self.corrupt(format!("frame {frame}: primary pages or a map, marked free")));
            }
            if used == 0 {
                // A frame may already be in `runs` because it was freed since the open.
                if space.runs.around(frame).is_none() && !space.windows.has_sealed_free(frame) {
                    space.add_run(frame, 1);
                }
            } else {
                space.note_used(frame, used);
            }
        }
        Ok(true)
    }

    /// Adds all free space to the lists for any use.
    fn learn_all(&self, space: &mut Space) -> Result<()> {
        self.free_kept_in(space)?;
        while self.learn_zone(space)? {}
        space.unseal_all();
        Ok(())
    }

    /// Announces an allocation of `frames` frames, so that their memory is populated in advance.
    pub(crate) fn expect_frames(&self, frames: FrameNo) {
        let mut space = self.space();
        space.expected_frames = frames;
        self.make_ready_ahead(&mut space, self.frame_count());
    }

    /// Declares frames fixed. [`unfix`](Self::unfix) reverts it.
    pub(crate) fn fix(&self, first: FrameNo, count: u32) {
        self.space().fixed.insert(first, count);
    }

    pub(crate) fn unfix(&self, first: FrameNo) {
        self.space().fixed.remove(&first);
    }

    /// Whether this frame is the header, a map frame or part of a group of buckets.
    #[cold]
    pub(crate) fn is_fixed(&self, frame: FrameNo) -> bool {
        self.space().has_fixed(frame, 1)
    }

    /// The header and the map frames: (first, count).
    pub(crate) fn fixed_frames(&self) -> impl Iterator<Item = (FrameNo, u32)> {
        let groups = self.map_groups().iter().enumerate().map(|(k, g)| (g.load(Acquire), 2 << k));
        std::iter::once((0, 3)).chain(groups.filter(|&(first, _)| first != 0))
    }

    /// Cuts the file to end at frame `end`.
    fn cut(&self, space: &mut Space, end: FrameNo) -> Result<()> {
        let old = self.frame_count();
        self.stop_writing_through();
        self.cut_spilled(end)?;
        self.forget_sums(end, old)?;
        for frame in end..old {
            self.pool().forget(frame);
        }
        self.unmap_windows(end..old)?;
        space.windows.cut(end);
        self.set_frame_count(end);
        space.reserved_frames = space.reserved_frames.min(end);
        space.zones_known = space.zones_known.min(end.div_ceil(ZONE_FRAMES));
        Ok(())
    }

    /// Free units in the whole file. Reads every map frame.
    pub(crate) fn free_units(&self) -> Result<u64> {
        let space = self.space();
        let mut free = self.kept.units() + space.quarantined_units;
        for frame in 0..self.frame_count() {
            free += u64::from(self.used_bits(frame)?.count_zeros());
        }
        Ok(free)
    }

    /// Free bytes, as far as known without reading map frames. Exact in memory; for a file it includes only zones that
    /// allocations have already scanned.
    pub(crate) fn free_bytes_known(&self) -> u64 {
        let space = self.space();
        (space.free_units + space.quarantined_units + self.kept.units()) * self.unit_bytes() as u64
    }

    /// The bits of `frame`; a set bit is a used unit.
    pub(crate) fn used_bits(&self, frame: FrameNo) -> Result<u64> {
        let map = self.read(self.map_frame(frame / ZONE_FRAMES))?;
        let at = (frame % ZONE_FRAMES) as usize * 8;
        Ok(u64::from_le_bytes(map[at..at + 8].try_into().expect("8 bytes")))
    }

    fn set_used_bits(&self, frame: FrameNo, used: u64) -> Result<()> {
        let mut map = self.write(self.map_frame(frame / ZONE_FRAMES))?;
        let at = (frame % ZONE_FRAMES) as usize * 8;
        map.whole().store(at, &used.to_le_bytes());
        Ok(())
    }

    /// The frame with the bits of `zone`; its checksums are in the next frame.
    pub(crate) fn map_frame(&self, zone: u32) -> FrameNo {
        if zone == 0 {
            return 1;
        }
        let group = zone.ilog2();
        self.map_groups()[group as usize].load(Acquire) + 2 * (zone - (1 << group))
    }

    /// The number of zones that have map frames: 1, then doubling.
    pub(crate) fn zones_mapped(&self) -> u32 {
        1 << self.map_groups().iter().take_while(|g| g.load(Acquire) != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_and_best_fit_find_what_a_loop_finds() {
        let mut x = 1u64;
        for _ in 0..2000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let free = x | x >> 21;
            let mut runs = Vec::new();
            let mut at = 0;
            while at < 64 {
                let len = (free >> at).trailing_ones();
                if len > 0 {
                    runs.push((len, at));
                }
                at += len + 1;
            }
            assert_eq!(longest(free), runs.iter().map(|r| r.0).max().unwrap_or(0));
            for len in 1..=longest(free) {
                let expected = runs.iter().filter(|r| r.0 >= len).min().unwrap();
                assert_eq!(best_fit(free, len), expected.1, "{free:b} {len}");
            }
        }
        assert_eq!((longest(u64::MAX), longest(0)), (64, 0));
        assert_eq!(best_fit(u64::MAX, 64), 0);
    }
}
