//! Which blocks of the file are free, which wait, and which have room on the disk.
//!
//! ```text
//! taken    a checkpoint in use, or one that is being written, or an eviction has it; or it waits
//! waits    checkpoint `death` has it and the next one does not: it is free once the next one is durable and no reader
//!          holds a checkpoint that has it
//! floor    until the log is replayed, and no reader holds a checkpoint that is older than the open, only blocks from
//!          here on are given out: what the log's records refer to below, and what these readers have, is not known
//! ```
//!
//! A full disk must not keep a table from being emptied, for which checkpoints need blocks. So growth and evictions
//! leave a 64th of the file, and 1 MiB at least or the whole of a smaller one, to checkpoints: room on the disk that
//! only these may use. And before more frames are dirty than there is room for, half of that included, a checkpoint is
//! due.
//!
//! The file has a bitmap for each region of blocks, in one of the region's first two blocks; those of region 0 follow
//! the headers. Bitmaps say what their checkpoint uses, so a crash frees what waits.
//!
//! Not here: writing the bitmaps (`commit.rs`).

use super::STEP_BYTES;
use crate::pager::file::headers::HEADER_BLOCKS;
use std::ops::Range;

/// Blocks of a region: those that one bitmap describes.
pub(super) fn region_blocks(block_bytes: usize) -> u32 {
    8 * block_bytes as u32
}

/// The two homes of a region's bitmap.
pub(super) fn homes(region: u32, block_bytes: usize) -> [u32; 2] {
    let first = if region == 0 { HEADER_BLOCKS } else { region * region_blocks(block_bytes) };
    [first, first + 1]
}

/// Whether a node or a frame may be in this block of a file of `length` blocks.
pub(super) fn is_for_content(block: u32, length: u32, block_bytes: usize) -> bool {
    let homes = homes(block / region_blocks(block_bytes), block_bytes);
    (HEADER_BLOCKS..length).contains(&block) && !homes.contains(&block)
}

/// The first bit from `from` on that is not set.
fn first_clear(words: &[u64], from: usize) -> usize {
    let mut word = from / 64;
    let mut bits = words.get(word).map_or(u64::MAX, |bits| !bits) & (u64::MAX << (from % 64));
    while bits == 0 {
        word += 1;
        bits = words.get(word).map_or(u64::MAX, |bits| !bits);
    }
    64 * word + bits.trailing_zeros() as usize
}

/// A set of blocks.
#[derive(Clone, Default)]
pub(crate) struct BlockSet {
    words: Vec<u64>,
    /// A bit for each word that has all of its blocks: a search passes 4096 blocks at a time.
    full: Vec<u64>,
}

impl BlockSet {
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.words.get(block as usize / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Adds a block; returns false if it is in the set.
    pub(crate) fn insert(&mut self, block: u32) -> bool {
        let is_new = !self.contains(block);
        self.add(block as usize / 64, 1 << (block % 64));
        is_new
    }

    /// Adds blocks of a word.
    fn add(&mut self, word: usize, bits: u64) {
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
            self.full.resize(self.words.len().div_ceil(64), 0);
        }
        self.words[word] |= bits;
        if self.words[word] == u64::MAX {
            self.full[word / 64] |= 1 << (word % 64);
        }
    }

    /// Removes a block; returns false if it is not in the set.
    pub(super) fn remove(&mut self, block: u32) -> bool {
        let was = self.contains(block);
        if was {
            let word = block as usize / 64;
            self.words[word] &= !(1 << (block % 64));
            self.full[word / 64] &= !(1 << (word % 64));
        }
        was
    }

    /// One more than the highest block; 0 if there is none.
    pub(super) fn end(&self) -> u32 {
        self.end_below(u32::MAX) // no block has this number
    }

    /// One more than the highest block below `limit`; 0 if there is none.
    fn end_below(&self, limit: u32) -> u32 {
        let (word, bit) = (limit as usize / 64, limit % 64);
        let partly = self.words.get(word).map_or(0, |bits| bits & !(u64::MAX << bit));
        if partly != 0 {
            return 64 * word as u32 + (64 - partly.leading_zeros());
        }
        let last = self.words[..word.min(self.words.len())].iter().rposition(|&word| word != 0);
        last.map_or(0, |word| 64 * word as u32 + (64 - self.words[word].leading_zeros()))
    }

    /// [`end`](Self::end) without the homes of regions that have nothing else.
    pub(super) fn end_of_content(&self, block_bytes: usize) -> u32 {
        let mut end = self.end();
        while let Some(last) = end.checked_sub(1) {
            let [first, second] = homes(last / region_blocks(block_bytes), block_bytes);
            // Region 0 has the headers, too.
            if ![first, second].contains(&last) || first == HEADER_BLOCKS {
                break;
            }
            end = self.end_below(first);
        }
        end
    }

    /// The first block from `from` on that is not in the set.
    fn first_absent(&self, from: u32) -> u32 {
        let word = from as usize / 64;
        let here = self.words.get(word).map_or(u64::MAX, |bits| !bits) & (u64::MAX << (from % 64));
        if here != 0 {
            return 64 * word as u32 + here.trailing_zeros();
        }
        let word = first_clear(&self.full, word + 1).min(self.words.len().max(word + 1));
        64 * word as u32 + self.words.get(word).map_or(0, |bits| bits.trailing_ones())
    }

    /// The first of `count` adjacent blocks from `from` on, and below `end`, that are not in the set.
    fn first_absent_run(&self, from: u32, count: u32, end: u32) -> Option<u32> {
        let mut first = self.first_absent(from);
        while first.checked_add(count)? <= end {
            let Some(taken) = (first..first + count).find(|&block| self.contains(block)) else { return Some(first) };
            first = self.first_absent(taken);
        }
        None
    }

    pub(super) fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The number of blocks from `first` on.
    fn len_from(&self, first: u32) -> u32 {
        let mut words = self.words.iter().skip(first as usize / 64);
        let partly = words.next().map_or(0, |word| (word >> (first % 64)).count_ones());
        partly + words.map(|word| word.count_ones()).sum::<u32>()
    }

    /// The bytes of a bitmap of the blocks from `first` on.
    pub(super) fn bitmap(&self, first: u32, block_bytes: usize) -> Vec<u8> {
        let words = self.words.iter().skip(first as usize / 64).take(block_bytes / 8);
        let mut bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(block_bytes, 0);
        bytes
    }

    /// Adds the blocks of a bitmap.
    pub(super) fn add_bitmap(&mut self, first: u32, bitmap: &[u8]) {
        let words = bitmap.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
        let at = first as usize / 64;
        for (place, word) in (at..).zip(words) {
            if word != 0 {
                self.add(place, word);
            }
        }
    }
}

/// Blocks that checkpoint `death` has, and later ones do not.
struct Waiting {
    death: u64,
    blocks: Vec<u32>,
}

/// A checkpoint that is not the last one, and that a reader holds.
struct Held {
    number: u64,
    used: BlockSet,
}

/// The blocks of a file that is open for writing.
pub(super) struct Room {
    block_bytes: usize,
    taken: BlockSet,
    /// One more than the highest block that was ever taken, and is in the file or will be.
    end: u32,
    floor: u32,
    /// The last checkpoint before this handle's first one.
    opened: u64,
    /// No block from `floor` up to here is free.
    next: u32,
    /// No long run of free blocks was found up to here since blocks were last freed by a checkpoint.
    next_run: u32,
    /// Free blocks from `floor` to `end`.
    free: u32,
    /// The disk has room for the blocks below this one.
    on_disk: u32,
    /// Blocks that only a checkpoint may take.
    reserved: u32,
    waiting: Vec<Waiting>,
    /// Those from `opened` on. Older ones have blocks below `floor`.
    held: Vec<Held>,
}

impl Room {
    /// The room in a file of `end` blocks, of which checkpoint `opened` uses `taken`.
    pub(super) fn new(block_bytes: usize, taken: BlockSet, end: u32, opened: u64) -> Room {
        let floor = if opened == 0 { 0 } else { end };
        let mut room = Room {
            block_bytes,
            taken,
            end,
            floor,
            opened,
            next: floor,
            next_run: floor,
            free: 0,
            on_disk: end,
            reserved: 0,
            waiting: Vec::new(),
            held: Vec::new(),
        };
        for block in 0..HEADER_BLOCKS {
            room.taken.insert(block);
        }
        (0..=end / region_blocks(block_bytes)).for_each(|region| room.take_homes(region));
        room
    }

    /// Takes the homes of the bitmap of a region.
    fn take_homes(&mut self, region: u32) {
        for home in homes(region, self.block_bytes) {
            self.taken.insert(home);
            self.end = self.end.max(home + 1);
        }
    }

    /// The end after `more` more blocks were taken there, at most.
    fn end_after(&self, more: u32) -> u64 {
        let more = u64::from(more);
        let homes = 2 * (more / u64::from(region_blocks(self.block_bytes)) + 1);
        u64::from(self.end) + more + homes
    }

    /// Whether `count` blocks can be taken, besides those that are reserved; if not, the number of blocks that the disk
    /// must have room for.
    fn lacks(&self, count: u32) -> Option<u64> {
        let more = count.saturating_sub(self.free);
        let needed = self.end_after(more);
        (more > 0 && needed > u64::from(self.on_disk)).then_some(needed)
    }

    /// Blocks that are left to checkpoints, if `more` are about to be taken. A checkpoint of a small table needs no
    /// more than the table and its nodes.
    fn margin(&self, more: u32) -> u32 {
        const PART: u32 = 64;
        const BYTES_MIN: usize = 1 << 20;
        const NODES: u32 = 16;
        let all = self.end.saturating_add(more).saturating_add(NODES);
        (self.end / PART).max(((BYTES_MIN / self.block_bytes) as u32).min(all))
    }

    /// The number of dirty frames for which a checkpoint has room on the disk. Half of what is left to checkpoints is
    /// for its nodes.
    pub(super) fn ready(&self) -> u64 {
        let most = u64::from(self.free) + u64::from(self.on_disk.saturating_sub(self.end));
        most.saturating_sub(u64::from(self.reserved) + u64::from(self.margin(self.free) / 2))
    }

    /// Makes room on the disk for `count` more blocks, besides what is left to checkpoints, if there is none.
    ///
    /// # Errors
    /// Returns the errors of `reserve`: the disk is full.
    pub(super) fn make_ready(
        &mut self,
        count: u32,
        reserve: impl Fn(u64) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let count = count.saturating_add(self.reserved);
        let count = count.saturating_add(self.margin(count));
        self.lacks(count).map_or(Ok(()), |needed| self.make_room(needed, reserve))
    }

    /// Reserves `count` blocks for a checkpoint, which may use what growth leaves. `reserve` makes room on the disk for
    /// that number of blocks.
    ///
    /// # Errors
    /// Returns the errors of `reserve`: nothing is reserved then.
    pub(super) fn reserve(&mut self, count: u32, reserve: impl Fn(u64) -> std::io::Result<()>) -> std::io::Result<()> {
        self.reserved = 0;
        if let Some(needed) = self.lacks(count) {
            self.make_room(needed, reserve)?;
        }
        self.reserved = count;
        Ok(())
    }

    fn make_room(&mut self, blocks: u64, reserve: impl Fn(u64) -> std::io::Result<()>) -> std::io::Result<()> {
        let too_large = || std::io::Error::new(std::io::ErrorKind::FileTooLarge, "a file has at most 2^32 blocks");
        let end = u32::try_from(blocks).map_err(|_| too_large())?;
        reserve(blocks)?;
        self.on_disk = self.on_disk.max(end);
        Ok(())
    }

    /// Takes a block that was reserved.
    pub(super) fn take_reserved(&mut self, reserve: impl Fn(u64) -> std::io::Result<()>) -> std::io::Result<u32> {
        if self.reserved == 0 {
            self.reserve(1, reserve)?;
        }
        self.reserved -= 1;
        Ok(self.take())
    }

    /// Takes a block for an eviction.
    ///
    /// # Errors
    /// Returns the errors of `reserve`: the disk has no room beyond what is reserved.
    pub(super) fn take_unreserved(&mut self, reserve: impl Fn(u64) -> std::io::Result<()>) -> std::io::Result<u32> {
        if let Some(needed) = self.lacks(self.reserved.saturating_add(self.margin(self.reserved) + 1)) {
            let step = STEP_BYTES / self.block_bytes as u64;
            self.make_room(needed + step, &reserve).or_else(|_| self.make_room(needed, &reserve))?;
        }
        Ok(self.take())
    }

    fn take(&mut self) -> u32 {
        let found = self.taken.first_absent(self.next.max(self.floor));
        let block = if found < self.end {
            self.free -= 1;
            found
        } else {
            self.take_homes(self.end / region_blocks(self.block_bytes));
            self.end
        };
        self.taken.insert(block);
        self.end = self.end.max(block + 1);
        self.next = block + 1;
        block
    }

    /// Takes `count` adjacent blocks of one region, for values. Returns the first. `dirty` frames need blocks besides.
    ///
    /// # Errors
    /// Returns the errors of `reserve`: the disk has no room beyond what is left to checkpoints.
    pub(super) fn take_run(
        &mut self,
        count: u32,
        dirty: u32,
        reserve: impl Fn(u64) -> std::io::Result<()>,
    ) -> std::io::Result<u32> {
        let region = region_blocks(self.block_bytes);
        let from = self.next_run.max(self.floor);
        let found = self.taken.first_absent_run(from, count, self.end);
        let first = found.unwrap_or_else(|| {
            let at_end = homes(self.end / region, self.block_bytes)[1].saturating_add(1).max(self.end);
            let fits = at_end / region == (at_end + count - 1) / region;
            if fits { at_end } else { (at_end / region + 1) * region + 2 }
        });
        // What must be left, and what is free besides.
        let left = self.reserved.max(dirty);
        let left = left.saturating_add(self.margin(left));
        let free = if found.is_some() { self.free - count } else { self.free };
        let end = u64::from(self.end.max(first + count)) + u64::from(left.saturating_sub(free));
        if end > u64::from(self.on_disk) {
            let step = STEP_BYTES / self.block_bytes as u64;
            self.make_room(end + step, &reserve).or_else(|_| self.make_room(end, &reserve))?;
        }
        if found.is_some() {
            self.free -= count;
        } else {
            let before = self.end;
            self.take_homes(before / region);
            self.take_homes(first / region);
            self.free += (before..first).filter(|&block| !self.taken.contains(block)).count() as u32;
            self.end = first + count;
        }
        self.next_run = first + count;
        for block in first..first + count {
            self.taken.insert(block);
        }
        Ok(first)
    }

    /// Frees a block that no checkpoint has.
    pub(super) fn free(&mut self, block: u32) {
        // In a damaged file two frames may have it.
        let was = self.taken.remove(block);
        if was && block >= self.floor {
            self.free += 1;
            self.next = self.next.min(block);
        }
    }

    /// Called when a checkpoint is durable: frees what waited and no reader needs. The checkpoint before it, `before`,
    /// used the blocks `used`, of which it does not use `dead`. `held` are the checkpoints that readers hold; `None` if
    /// that is not known.
    pub(super) fn release(&mut self, before: u64, used: BlockSet, dead: Vec<u32>, held: Option<&[Range<u64>]>) {
        let is_held = |held: &[Range<u64>], number| held.iter().any(|numbers| numbers.contains(&number));
        self.reserved = 0;
        self.waiting.push(Waiting { death: before, blocks: dead });
        // A reader locks a checkpoint while it is the last one. Any other lock will be given up at once.
        if held.is_none_or(|held| is_held(held, before)) {
            self.held.push(Held { number: before, used });
        }
        let Some(held) = held else { return };
        self.held.retain(|checkpoint| is_held(held, checkpoint.number));
        for Waiting { death, blocks } in std::mem::take(&mut self.waiting) {
            let (needed, free): (Vec<u32>, Vec<u32>) = blocks.into_iter().partition(|&block| {
                let has = |checkpoint: &Held| checkpoint.number <= death && checkpoint.used.contains(block);
                self.held.iter().any(has)
            });
            free.into_iter().for_each(|block| self.free(block));
            if !needed.is_empty() {
                self.waiting.push(Waiting { death, blocks: needed });
            }
        }
        self.next_run = 0;
        self.lower_floor(held);
    }

    /// Called for the blocks of a value that a record of the log refers to, while the log is replayed: they wait for
    /// the next checkpoint. A block of the checkpoint that was opened is in a record only if the file is damaged.
    pub(super) fn keep_logged(&mut self, blocks: Range<u32>) {
        let blocks = blocks.filter(|&block| self.taken.insert(block)).collect();
        self.waiting.push(Waiting { death: self.opened, blocks });
    }

    /// Lets all free blocks be given out, unless one of the `held` checkpoints is older than the open. Called once the
    /// log is replayed.
    pub(super) fn lower_floor(&mut self, held: &[Range<u64>]) {
        if self.floor > 0 && held.iter().all(|numbers| numbers.start >= self.opened) {
            self.floor = 0;
            self.next = 0;
            self.next_run = 0;
            self.free = self.end - self.taken.len();
        }
    }

    /// Whether nothing was taken since the open, which found more than `length` blocks.
    pub(super) fn is_as_found(&self, length: u32) -> bool {
        self.floor > length && self.end == self.floor && self.reserved == 0
    }

    /// The blocks of the file, taken or free.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// The blocks that the file must keep.
    pub(super) fn end_taken(&self) -> u32 {
        self.taken.end_of_content(self.block_bytes)
    }

    /// Whether moving at most `most` blocks makes the file shorter by more than a sixteenth of its `used` blocks, and
    /// by [`STEP_BYTES`] at least. Not while blocks wait for readers: what moved would wait, too.
    pub(super) fn is_soon_shorter(&self, used: u32, most: u64) -> bool {
        let min = (used / 16).max((STEP_BYTES / self.block_bytes as u64) as u32);
        self.waiting.is_empty()
            && self.floor == 0
            && self.end_taken() > used.saturating_add(min)
            && u64::from(self.taken.len_from(used)) <= most
    }

    /// The number of blocks to cut the file to: `all` free ones at its end, or, if these are more than a sixteenth of
    /// it, those that are not left to checkpoints. `None` if that is not worthwhile.
    pub(super) fn end_to_cut_to(&self, all: bool) -> Option<u32> {
        let (kept, min) = if all { (0, 0) } else { (self.margin(0), self.end / 16) };
        let end = self.end_taken().saturating_add(kept).min(self.end);
        let [first, second] = homes(end / region_blocks(self.block_bytes), self.block_bytes);
        // Not between the homes of a bitmap: both go, or both stay.
        let end = if end == second && first != HEADER_BLOCKS { first } else { end };
        (self.floor == 0 && self.end - end > min).then_some(end)
    }

    /// Called when the file was cut to `end` blocks.
    pub(super) fn cut_to(&mut self, end: u32) {
        for region in end.div_ceil(region_blocks(self.block_bytes))..=self.end / region_blocks(self.block_bytes) {
            for home in homes(region, self.block_bytes) {
                self.taken.remove(home);
            }
        }
        self.end = end;
        self.on_disk = end;
        self.next = self.next.min(end);
        self.next_run = self.next_run.min(end);
        self.free = self.end - self.taken.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_of_blocks_has_what_an_ordered_set_has() {
        let mut state = 1u64;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % end
        };
        for most in [70, 5000, 40_000] {
            let (mut set, mut model) = (BlockSet::default(), BTreeSet::new());
            for round in 0..20_000 {
                let block = below(most) as u32;
                // Mostly full, then mostly empty.
                if below(100) < if round < 15_000 { 90 } else { 10 } {
                    let first = if below(2) == 0 { set.first_absent(block) } else { block };
                    assert_eq!(set.insert(first), model.insert(first));
                } else {
                    assert_eq!(set.remove(block), model.remove(&block));
                }
                let from = below(most + 200) as u32;
                let expected = (from..).find(|block| !model.contains(block));
                assert_eq!(Some(set.first_absent(from)), expected, "round {round}, from {from}");
                assert_eq!(set.contains(from), model.contains(&from));
                assert_eq!(set.end(), model.last().map_or(0, |last| last + 1));
                if round % 100 == 0 {
                    assert_eq!(set.len_from(from), model.range(from..).count() as u32);
                    assert_eq!(set.end_below(from), model.range(..from).next_back().map_or(0, |last| last + 1));
                }
            }
            assert_eq!(set.len(), model.len() as u32);
            let mut read = BlockSet::default();
            (0..3).for_each(|region| read.add_bitmap(region * 32_768, &set.bitmap(region * 32_768, 4096)));
            assert!((0..most as u32).all(|block| read.contains(block) == model.contains(&block)));
            assert_eq!(read.first_absent(0), set.first_absent(0));
        }
    }

    #[test]
    fn a_run_is_in_one_region_and_has_no_block_that_is_taken() {
        const BLOCK_BYTES: usize = 64; // regions of 512 blocks
        let mut state = 1u64;
        let mut below = |end: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % end
        };
        let mut room = Room::new(BLOCK_BYTES, BlockSet::default(), 0, 0);
        let (mut taken, mut far) = (BTreeSet::new(), 0);
        for _ in 0..5000 {
            let count = 1 + below(100);
            match below(4) {
                0 => {
                    let first = room.take_run(count, 0, |_| Ok(())).unwrap();
                    assert_eq!(first / 512, (first + count - 1) / 512);
                    let homes = homes(first / 512, BLOCK_BYTES);
                    let all = (first..first + count).all(|block| !homes.contains(&block) && taken.insert(block));
                    assert!(all, "{first} {count}");
                    far = far.max(first + count);
                }
                1 => assert!(taken.insert(room.take())),
                _ => {
                    let some: Vec<u32> = taken.iter().copied().filter(|_| below(10) == 0).collect();
                    for block in some {
                        taken.remove(&block);
                        room.free(block);
                    }
                    room.release(0, BlockSet::default(), Vec::new(), Some(&[]));
                }
            }
            assert_eq!(room.free, room.end - room.taken.len());
        }
        assert!(far > 3 * 512, "{far}");
    }

    #[test]
    fn a_file_does_not_end_between_the_homes_of_a_bitmap() {
        const BLOCK_BYTES: usize = 4096;
        let region = region_blocks(BLOCK_BYTES);
        let mut room = Room::new(BLOCK_BYTES, BlockSet::default(), 0, 0);
        let mut taken: Vec<u32> = (0..2 * region).map(|_| room.take()).collect();
        taken.sort_unstable();
        // Freed from the end on, until the file may end before the homes of the second region.
        let end = loop {
            room.free(taken.pop().unwrap());
            match room.end_to_cut_to(false) {
                Some(end) if end <= region => break end,
                end => assert_ne!(end, Some(region + 1)),
            }
        };
        room.cut_to(end);
        assert_eq!((room.end, room.free), (region, region - room.taken.len()));
    }
}
