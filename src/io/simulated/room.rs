//! The room on the simulated disk, in pages. A write or a reservation that exceeds it returns `ENOSPC` and has no
//! effect.
//!
//! A file occupies the pages that were written or reserved. Making it longer occupies none; setting its length to the
//! current one or less frees the pages beyond it. A removed file occupies none, even if it is open.

use super::{Event, InodeNo, PAGE_BYTES, Simulated, State};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) struct DiskRoom {
    pages_max: u64,
    /// If `false`, a reservation occupies nothing and never fails.
    reserves: bool,
    pages: BTreeMap<InodeNo, BTreeSet<u64>>,
}

fn pages(from: u64, to: u64) -> Range<u64> {
    from / PAGE_BYTES..to.div_ceil(PAGE_BYTES)
}

impl DiskRoom {
    fn of(state: &State) -> DiskRoom {
        let file = |&inode: &InodeNo| {
            let found = &state.inodes[inode];
            (inode, pages(0, found.reserved.max(found.now.len() as u64)).collect())
        };
        DiskRoom { pages_max: u64::MAX, reserves: true, pages: state.names.values().map(file).collect() }
    }

    fn used(&self) -> u64 {
        self.pages.values().map(|pages| pages.len() as u64).sum()
    }

    /// Occupies or frees the pages of `event`. Returns `false`, with nothing changed, if there are too few.
    pub(super) fn take(&mut self, event: &Event, state: &State) -> bool {
        let (inode, range) = match *event {
            Event::Write { inode, offset, ref bytes } => (inode, pages(offset, offset + bytes.len() as u64)),
            Event::Reserve { inode, bytes } if self.reserves => (inode, pages(0, bytes)),
            Event::SetLen(inode, bytes) if bytes <= state.inodes[inode].now.len() as u64 => {
                let kept = pages(0, bytes);
                self.pages.entry(inode).or_default().retain(|page| kept.contains(page));
                return true;
            }
            Event::Remove(ref path) | Event::Rename(_, ref path) => {
                state.names.get(path).map(|inode| self.pages.remove(inode));
                return true;
            }
            _ => return true,
        };
        let left = self.pages_max.saturating_sub(self.used());
        let has = self.pages.entry(inode).or_default();
        let more: Vec<u64> = range.filter(|page| !has.contains(page)).collect();
        let fits = more.len() as u64 <= left;
        if fits {
            has.extend(more);
        }
        fits
    }
}

impl Simulated {
    /// Limits the disk to `bytes` bytes, or lifts the limit.
    pub(crate) fn limit_room(&self, bytes: Option<u64>) {
        let inner = &mut *self.inner();
        let room = inner.room.get_or_insert_with(|| DiskRoom::of(&inner.state));
        room.pages_max = bytes.map_or(u64::MAX, |bytes| bytes / PAGE_BYTES);
    }

    /// Returns the bytes that its files occupy, counted once the room is limited.
    pub(crate) fn used_room(&self) -> u64 {
        self.inner().room.as_ref().map_or(0, |room| room.used() * PAGE_BYTES)
    }

    /// Makes reservations do nothing, as on a file system without them.
    pub(crate) fn reserve_nothing(&self) {
        let inner = &mut *self.inner();
        inner.room.get_or_insert_with(|| DiskRoom::of(&inner.state)).reserves = false;
    }
}
