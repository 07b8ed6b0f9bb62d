//! The file: nothing that is still needed is written over. `model.rs` has it as it was before it was built.
//!
//! A *frame* keeps its address in memory. A *block* is its place in the file. The **block map** has, for each frame,
//! the block with its last written content and the checksum of that content. It is a tree of frame-sized nodes; a
//! node's block and checksum are in its parent, those of the top node in the header. So one checksum proves the whole
//! file.
//!
//! ```text
//! header     two copies in different blocks: number, random id, id of the parent, entry of the top node, length
//! node       per entry {block, checksum, birth: u32}; a leaf has the entries of frames
//! bitmap     one for each 32,768 blocks, in two fixed homes; the tree says which home counts, and its checksum
//!
//! the rule   a block that a checkpoint in use, or a record of the log, refers to is never written
//! in use     the last complete checkpoint, and each that a reader or a backup holds
//! freed      a block waits from the last checkpoint that has it, `death`, on; it is used again once checkpoint
//!            death + 1 is durable and no reader holds a checkpoint that has it. The blocks of each held one are kept
//!            as a set; while one older than this open is held, no block below the length found is used
//! create     a header without blocks: an empty table, of two frames
//! open       write the header again, sync; until the log is replayed, write only beyond the length found, and then not
//!            to what its records refer to; until a checkpoint of this handle is durable, each sync makes one
//! checkpoint freeze, reserve -> frozen frames, nodes, bitmaps -> sync -> header into the other slot -> sync -> free
//!            what waited, release the log -> header into the first slot too, unsynced
//! ```
//!
//! The bytes, little-endian. A block has as many as a frame, `B`; those of a reserved field are zero.
//!
//! ```text
//! 0, 4096      headers: magic, version 1, B u32, checkpoint u64, frames u32, blocks u32, map groups 24 x u32,
//!              table id, id, parent u64, top node of the map, of the bitmaps {entry}; 256: root;
//!              4092: checksum
//! blocks 2, 3  the bitmap's homes of region 0; those of region n are its first two blocks; a region has 8 B blocks
//! node         magic, table id, checkpoint u64, tree, level, number u32; 60: checksum; 64: entries
//! frame        its bytes; the checksum in its entry covers its number, too; without an entry it is all zeros, but the
//!              first one is that of a new table
//! bitmap       a bit is set for each block that the checkpoint uses; its checksum covers the region's number, too
//! ```
//!
//! Differs from the first design in two ways. Leaves are no frames: what changed since the last checkpoint is in two
//! overlays in memory (`map.rs`), and the next tree is made of the old one and the frozen overlay, so it cannot have
//! what came later. And the headers are at fixed bytes, whatever `B`, so that no user's bytes are taken for one.
//!
//! Large values are written to adjacent blocks at once (`pager/values.rs`).
//!
//! What is live for a frame, besides whether it is in memory and frozen:
//!
//! | block | written when | may be written again | freed |
//! |---|---|---|---|
//! | none | never, or it is zero | | |
//! | period | by an eviction or a move since the last freeze | yes, until the next freeze | at once |
//! | sealed | with a value that the log refers to | no | waits, birth 0 |
//! | old | before the last freeze, or by the checkpoint | no | waits |
//!
//! Not here: which frames a checkpoint writes (`pager/checkpoint/`), the life of a frame in memory (`pool/life.rs`).

pub(in crate::pager) mod commit;
pub(in crate::pager) mod copy;
#[cfg(test)]
mod large;
mod map;
#[cfg(test)]
mod model;
pub(in crate::pager) mod pace;
pub(crate) mod room;
pub(crate) mod tree;
mod verify;

use super::file::TableFile;
use super::file::mapped_reads::MappedReads;
use super::pool::FrameNo;
use crate::error::{Error, Result};
use crate::pager::file::headers::{CheckpointHeader, Entry, FIRST_CHECKPOINT, HEADER_BLOCKS, HEADERS_BYTES};
use crate::pager::file::random::random_u64;
use crate::pager::interleave;
use map::{Map, check, read_block};
use room::{BlockSet, Room, homes, is_for_content, region_blocks};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard};
use tree::{Kind, NodeId, parse_node, read_upper};

/// The blocks of a table's file.
pub(in crate::pager) struct Blocks {
    map: Map,
    room: Mutex<Room>,
    last: Mutex<Last>,
    /// Whether the header that the open took is known to be on the disk. Nothing is written before.
    may_write: AtomicBool,
    /// A checkpoint is due when so many frames were evicted since the last one: their entries are in memory.
    live_max: usize,
    /// The disk is known to have room for so many dirty frames.
    ready: AtomicU64,
    /// See [`written_count`](Self::written_count).
    written: AtomicU64,
}

/// The last complete checkpoint, as the next one needs it.
#[derive(Default)]
struct Last {
    header: Option<CheckpointHeader>,
    used: BlockSet,
    bitmaps: Vec<Entry>,
    /// The blocks of all nodes but the leaves of the map.
    nodes: Vec<u32>,
}

/// Room on the disk is asked for in steps of at least this.
const STEP_BYTES: u64 = 1 << 20;

/// The longest run of blocks for values, in bytes. A run is within one region, which has at least 128 MiB.
const RUN_BYTES_MAX: u32 = 64 << 20;

/// How many bytes a leaf of the map in memory may take, as a part of the cache.
const LEAVES_PART: u64 = 16;

impl Blocks {
    /// The blocks of a new table or copy, whose file is empty.
    pub(in crate::pager) fn new(block_bytes: usize, cache_frames: u64) -> Blocks {
        Blocks {
            map: Map::new(block_bytes, 0, Vec::new(), leaves_max(cache_frames)),
            room: Mutex::new(Room::new(block_bytes, BlockSet::default(), 0, 0)),
            last: Mutex::default(),
            may_write: AtomicBool::new(false),
            live_max: live_max(cache_frames),
            ready: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    /// The blocks of the checkpoint with this header.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::ErrorKind) if its tree is damaged.
    pub(in crate::pager) fn open(
        file: &TableFile,
        header: CheckpointHeader,
        is_durable: bool,
        cache_frames: u64,
    ) -> Result<Blocks> {
        let block_bytes = file.frame_bytes;
        let shape = (block_bytes, file.table_id);
        let handle = file.handle.as_ref().expect("it has a header");
        let mut seen = HashSet::new();
        // A node that is read twice would make a small file a large tree.
        let mut read = |block: u32, bytes: &mut [u8]| -> Result<(), Damage> {
            if !is_for_content(block, header.length, block_bytes) || !seen.insert(block) {
                return Err(format!("a node of checkpoint {} is in block {block}", header.table.sequence).into());
            }
            Ok(read_block(file, handle.as_ref(), block, bytes)?)
        };
        let damaged = |damage: Damage| damage.of(file);
        let leaf_count = header.table.frame_count as usize;
        let (leaves, mut nodes) = read_upper(Kind::Map, leaf_count, header.map, shape, &mut read).map_err(damaged)?;
        let mut last = Last { header: Some(header.clone()), ..Last::default() };
        if !file.read_only && !header.room.is_none() {
            let region = region_blocks(block_bytes);
            let regions = header.length.div_ceil(region);
            let (tops, room_nodes) =
                read_upper(Kind::Room, regions as usize, header.room, shape, &mut read).map_err(damaged)?;
            nodes.extend(room_nodes);
            let mut bytes = vec![0; block_bytes];
            for (number, top) in (0..).zip(tops) {
                read(top.block, &mut bytes).map_err(damaged)?;
                let id = NodeId { kind: Kind::Room, level: 0, number };
                let entries = parse_node(&bytes, file.table_id, id, top.sum).map_err(|what| file.corrupt(what))?;
                nodes.push(top.block);
                last.bitmaps.extend(entries);
            }
            last.bitmaps.truncate(regions as usize);
            for (number, bitmap) in (0..regions).zip(&last.bitmaps) {
                if !homes(number, block_bytes).contains(&bitmap.block) {
                    return Err(file.corrupt(format!("the bitmap of region {number} is in block {}", bitmap.block)));
                }
                read_block(file, handle.as_ref(), bitmap.block, &mut bytes)?;
                if commit::bitmap_sum(number, &bytes) != bitmap.sum {
                    return Err(file.corrupt(format!("the bitmap of region {number}: checksum mismatch")));
                }
                last.used.add_bitmap(number * region, &bytes);
            }
            if last.used.end() > header.length {
                let (end, length) = (last.used.end(), header.length);
                return Err(file.corrupt(format!("the bitmaps have {end} blocks, the header {length}")));
            }
            last.nodes = nodes;
        }
        let used = last.used.clone();
        let number = header.table.sequence;
        let blocks = Blocks {
            map: Map::new(block_bytes, header.length, leaves, leaves_max(cache_frames)),
            room: Mutex::new(Room::new(block_bytes, BlockSet::default(), 0, 0)),
            last: Mutex::new(last),
            may_write: AtomicBool::new(is_durable),
            live_max: live_max(cache_frames),
            ready: AtomicU64::new(0),
            written: AtomicU64::new(0),
        };
        // Before the log is cut or written, which continues from this header.
        if !file.read_only {
            blocks.begin_writing(file)?;
            file.checkpoint_bytes.fetch_max(HEADERS_BYTES, Release);
            let bytes = handle.len().map_err(|e| Error::io(&file.path, "ask the length of", e))?;
            let end = u32::try_from(bytes.div_ceil(block_bytes as u64)).unwrap_or(u32::MAX).max(header.length);
            *blocks.room() = Room::new(block_bytes, used, end, number);
        }
        Ok(blocks)
    }

    /// Keeps the blocks of a value that a record of the log refers to. Called while the log is replayed.
    pub(in crate::pager) fn keep_logged(&self, file: &TableFile, bytes: Range<u64>) {
        let block_bytes = file.frame_bytes as u64;
        // They are in the file, which has at most 2^32 blocks.
        self.room().keep_logged((bytes.start / block_bytes) as u32..bytes.end.div_ceil(block_bytes) as u32);
    }

    /// Called when the log is replayed: free blocks may be written from now on. Cuts off what an earlier process wrote
    /// for a checkpoint that it did not complete, unless a record of the log refers to the file (`is_referred_to`), a
    /// reader holds a checkpoint, which may have blocks there, or this handle has written there.
    pub(in crate::pager) fn begin_reuse(&self, file: &TableFile, is_referred_to: bool) -> Result<()> {
        let (last, mut room) = (self.last(), self.room());
        let handle = file.handle.as_ref().filter(|_| !file.read_only);
        let (Some(header), Some(handle)) = (&last.header, handle) else { return Ok(()) };
        let Some(held) = commit::held_checkpoints(handle.as_ref()) else { return Ok(()) };
        if held.is_empty() && !is_referred_to && room.is_as_found(header.length) {
            let bytes = u64::from(header.length.max(HEADER_BLOCKS)) * file.frame_bytes as u64;
            handle.set_len(bytes).map_err(|e| Error::io(&file.path, "set the length of", e))?;
            *room = Room::new(file.frame_bytes, last.used.clone(), header.length, header.table.sequence);
        }
        room.lower_floor(&held);
        self.ready.store(0, Relaxed);
        Ok(())
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        interleave::lock(&self.room)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        interleave::lock(&self.last)
    }

    /// The header of the last complete checkpoint, or of the one that is read.
    pub(in crate::pager) fn last_header(&self) -> Option<CheckpointHeader> {
        self.last().header.clone()
    }

    /// The id of that checkpoint.
    pub(in crate::pager) fn last_id(&self) -> Option<u64> {
        self.last().header.as_ref().map(|header| header.id)
    }

    /// The block of the table's file with the last written content of a frame, if any has it.
    pub(in crate::pager) fn block_of(&self, file: &TableFile, frame: FrameNo) -> Result<Option<u32>> {
        let block = self.map.entry(file, frame)?.block;
        Ok(Some(block).filter(|&block| block != Entry::NONE.block))
    }

    /// Frames of the last checkpoint that keep the file longer than it needs to be: those in blocks beyond its number
    /// of blocks in use, and one of each leaf there; any frame if only other nodes, which each checkpoint writes, are
    /// there. The caller keeps checkpoints out.
    pub(in crate::pager) fn frames_at_end(&self, file: &TableFile) -> Result<Vec<FrameNo>> {
        /// A checkpoint needs free blocks for its nodes.
        const SLACK: u32 = 8;
        let used = self.last().used.len();
        if self.room().end_taken() <= used + SLACK {
            return Ok(Vec::new());
        }
        let (leaves, fanout) = {
            let entries = self.map.lock();
            (entries.leaves.clone(), entries.fanout)
        };
        let (mut frames, mut any) = (Vec::new(), None);
        for (number, at) in (0..).zip(leaves) {
            let Some(leaf) = self.map.leaf(file, number)? else { continue };
            let written = || (number * fanout..).zip(leaf.iter()).filter(|(_, entry)| !entry.is_none());
            let before = frames.len();
            frames.extend(written().filter(|(_, entry)| entry.block >= used).map(|(frame, _)| frame));
            if frames.len() == before && at.block >= used {
                frames.extend(written().next().map(|(frame, _)| frame));
            }
            any = any.or_else(|| written().next().map(|(frame, _)| frame));
        }
        Ok(if frames.is_empty() { any.into_iter().collect() } else { frames })
    }

    /// Whether moving the frames of [`frames_at_end`](Self::frames_at_end), at most `most`, is worthwhile.
    /// O(blocks / 64); reads no part of the map.
    pub(in crate::pager) fn is_soon_shorter(&self, most: u64) -> bool {
        let used = self.last().used.len();
        self.room().is_soon_shorter(used, most)
    }

    /// Fills `bytes` with the last written content of a frame, through `mapped` if that is given and can read it;
    /// returns false if it was never written and is all zeros.
    pub(in crate::pager) fn load(
        &self,
        file: &TableFile,
        frame: FrameNo,
        bytes: &mut [u8],
        mapped: Option<&MappedReads>,
    ) -> Result<bool> {
        let entry = self.map.entry(file, frame)?;
        let Some(handle) = file.handle.as_ref().filter(|_| !entry.is_none()) else {
            if frame == 0 {
                fill_first(bytes);
            }
            return Ok(frame == 0);
        };
        let at = u64::from(entry.block) * file.frame_bytes as u64;
        let is_read = mapped.is_some_and(|mapped| mapped.read(handle.as_ref(), at, bytes));
        if !is_read || check(file, frame, entry, bytes).is_err() {
            // Also after a mismatch: in a mapping, the part of a page that was cut off is zeros, and is no error.
            read_block(file, handle.as_ref(), entry.block, bytes)?;
            check(file, frame, entry, bytes)?;
        }
        Ok(true)
    }

    /// Reads the frames of a range from the file, those in adjacent blocks with one call, and passes those that are
    /// intact to `take`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind), and [`ErrorKind::Corrupt`](crate::ErrorKind) for a damaged map.
    pub(in crate::pager) fn load_range(
        &self,
        file: &TableFile,
        frames: Range<FrameNo>,
        mut take: impl FnMut(FrameNo, &[u8]),
    ) -> Result<()> {
        let Some(handle) = &file.handle else { return Ok(()) };
        let mut entries = Vec::new();
        for frame in frames {
            let entry = self.map.entry(file, frame)?;
            if !entry.is_none() {
                entries.push((entry, frame));
            }
        }
        entries.sort_unstable_by_key(|(entry, _)| entry.block);
        for run in entries.chunk_by(|(one, _), (next, _)| one.block + 1 == next.block) {
            let mut bytes = vec![0; run.len() * file.frame_bytes];
            read_block(file, handle.as_ref(), run[0].0.block, &mut bytes)?;
            for (&(entry, frame), bytes) in run.iter().zip(bytes.chunks_exact(file.frame_bytes)) {
                if check(file, frame, entry, bytes).is_ok() {
                    take(frame, bytes);
                }
            }
        }
        Ok(())
    }

    /// Makes the header that the open took durable: it may exist only in the system's cache, and what it does not use
    /// may be needed by the one before.
    fn begin_writing(&self, file: &TableFile) -> Result<()> {
        if self.may_write.load(Acquire) {
            return Ok(());
        }
        let last = self.last();
        if self.may_write.load(Acquire) {
            return Ok(());
        }
        // A copy has no header before it is complete.
        if let Some(header) = &last.header {
            file.settle("write the header of", |handle| {
                header.write(handle, false)?;
                handle.sync()?;
                // Not before: a power loss may leave a part of each write that is not synced.
                header.write(handle, true)
            })?;
        }
        self.may_write.store(true, Release);
        Ok(())
    }

    /// Makes a new, empty table durable. If its file is not new, it may have a part of an earlier first header, in the
    /// system's cache or on the disk alone.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others.
    pub(in crate::pager) fn begin_table(&self, file: &TableFile, is_new_file: bool, root: &[u8]) -> Result<()> {
        let handle = file.handle.as_ref().expect("it has a file");
        if !is_new_file {
            // None of it may become a part of this one.
            let cleared = handle.set_len(0).and_then(|()| handle.sync());
            cleared.map_err(|e| Error::io(&file.path, "clear", e))?;
        }
        // Before the header: an open that finds it relies on the name.
        file.storage.sync_names(&file.path).map_err(|e| Error::io(&file.path, "sync the directory of", e))?;
        let table = file.header(FIRST_CHECKPOINT);
        self.last().header = Some(CheckpointHeader::first(table, root));
        self.begin_writing(file)?;
        file.checkpoint_bytes.fetch_max(HEADERS_BYTES, Release);
        Ok(())
    }

    fn write(&self, file: &TableFile, block: u32, bytes: &[u8]) -> Result<()> {
        let handle = file.handle.as_ref().expect("a table without a file has no blocks");
        handle
            .write_at(bytes, u64::from(block) * file.frame_bytes as u64)
            .map_err(|e| Error::io(&file.path, "write a block of", e))
    }

    /// Writes to blocks from byte `from` of `block` on, unless that would leave a hole in a file that was cut.
    fn write_at(&self, file: &TableFile, block: u32, from: usize, bytes: &[u8]) -> Result<()> {
        let handle = file.handle.as_ref().expect("a table without a file has no blocks");
        let at = u64::from(block) * file.frame_bytes as u64 + from as u64;
        let end = at + bytes.len() as u64;
        file.refuse_hole_before(end)?;
        handle.write_at(bytes, at).map_err(|e| Error::io(&file.path, "write a block of", e))?;
        file.note_written_end(end);
        Ok(())
    }

    /// Asks the disk for room for so many blocks.
    fn make_room(file: &TableFile) -> impl Fn(u64) -> std::io::Result<()> {
        move |blocks| {
            let handle = file.handle.as_ref().expect("a table without a file has no blocks");
            handle.reserve(blocks * file.frame_bytes as u64)
        }
    }

    fn take_reserved(&self, file: &TableFile) -> Result<u32> {
        self.room()
            .take_reserved(Self::make_room(file))
            .map_err(|e| Error::io(&file.path, "reserve disk space for a checkpoint of", e))
    }

    /// Reserves blocks for a checkpoint of `dirty` frames of `frame_count`.
    pub(in crate::pager) fn reserve(&self, file: &TableFile, dirty: u64, frame_count: FrameNo) -> Result<()> {
        self.begin_writing(file)?;
        let fanout = tree::fanout(file.frame_bytes);
        let (leaves, live) = (frame_count as usize / fanout + 1, self.map.lock().live.written.len());
        let changed = (dirty as usize + live).min(leaves);
        let upper: usize = tree::level_sizes(leaves, fanout).iter().sum();
        let mut room = self.room();
        let regions = (room.end_taken() / region_blocks(file.frame_bytes)) as usize + 2;
        let bitmaps: usize = tree::level_sizes(regions, fanout).iter().sum();
        let count = dirty as usize + changed + upper + bitmaps + 2;
        let too_many = || Error::io(&file.path, "write", std::io::ErrorKind::FileTooLarge.into());
        let fail = |e| Error::io(&file.path, "reserve disk space for a checkpoint of", e);
        // Blocks and bitmaps are written within the file, which may be longer than this process may make it.
        let bytes = u64::from(room.end()) * file.frame_bytes as u64;
        file.handle.as_ref().map_or(Ok(()), |handle| handle.refuse_beyond_limit(bytes)).map_err(fail)?;
        room.reserve(u32::try_from(count).map_err(|_| too_many())?, Self::make_room(file)).map_err(fail)
    }

    /// Makes sure that the disk has room for `frames` frames that are in no block, and besides for a small checkpoint,
    /// so that what fills a disk can be removed. Called when the table grows.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others.
    pub(in crate::pager) fn make_ready(&self, file: &TableFile, frames: u64) -> Result<()> {
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        let mut room = self.room();
        let made = room.make_ready(frames, Self::make_room(file));
        self.ready.store(room.ready(), Relaxed);
        made.map_err(|e| Error::io(&file.path, "reserve disk space for", e))
    }

    /// Whether a checkpoint is due because the disk has no room for one of more than `dirty` frames.
    #[inline]
    pub(in crate::pager) fn lacks_room(&self, file: &TableFile, dirty: u64) -> bool {
        dirty > self.ready.load(Relaxed) && self.find_room(file, dirty)
    }

    #[cold]
    fn find_room(&self, file: &TableFile, dirty: u64) -> bool {
        self.make_ready(file, dirty + dirty / 4 + STEP_BYTES / file.frame_bytes as u64).is_err()
    }

    /// Begins a checkpoint: what was evicted so far is part of it. `freeze` begins a new epoch of the pool.
    pub(in crate::pager) fn freeze<T>(&self, freeze: impl FnOnce() -> T) -> T {
        let mut entries = self.map.lock();
        debug_assert!(entries.frozen.written.is_empty(), "one checkpoint at a time");
        entries.frozen = std::mem::take(&mut entries.live);
        entries.live.birth = random_u64() as u32;
        self.written.store(0, Relaxed);
        freeze()
    }

    /// Writes a frame that is evicted. Returns whether so many were that a checkpoint is due. `is_frozen` says whether
    /// the frame's content is that of the checkpoint in progress. The caller holds the frame's exclusive latch.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](crate::ErrorKind) and others; the frame must stay in memory.
    pub(in crate::pager) fn evict(
        &self,
        file: &TableFile,
        frame: FrameNo,
        bytes: &[u8],
        is_frozen: impl Fn() -> bool,
    ) -> Result<bool> {
        if is_zero(bytes) {
            self.set_entry(frame, Entry::NONE, is_frozen);
            return Ok(false);
        }
        self.begin_writing(file)?;
        let of_this_period = self.map.lock().live.own_block(frame);
        let block = match of_this_period {
            Some(block) => block,
            None => {
                let mut room = self.room();
                let taken = room.take_unreserved(Self::make_room(file));
                self.ready.store(room.ready(), Relaxed);
                taken.map_err(|e| Error::io(&file.path, "reserve disk space for", e))?
            }
        };
        if let Err(e) = self.write_at(file, block, 0, bytes) {
            if of_this_period.is_none() {
                self.room().free(block);
            }
            return Err(e);
        }
        let entry = Entry::at(block, super::file::sums::frame_sum(frame, bytes));
        // A checkpoint may have begun since the block was chosen.
        self.set_entry(frame, entry, is_frozen);
        Ok(self.is_live_large())
    }

    /// Sets where a frame was written, in the overlay that it belongs to.
    fn set_entry(&self, frame: FrameNo, entry: Entry, is_frozen: impl Fn() -> bool) {
        let mut entries = self.map.lock();
        let overlay = if is_frozen() {
            &mut entries.frozen
        } else {
            self.written.fetch_add(1, Relaxed);
            &mut entries.live
        };
        let free = overlay.set(frame, entry, false);
        drop(entries);
        free.into_iter().for_each(|block| self.room().free(block));
    }

    /// Whether a checkpoint is due because of the number of frames written since the last one.
    fn is_live_large(&self) -> bool {
        self.map.lock().live.written.len() > self.live_max
    }

    /// How often a frame has left memory since the last checkpoint began, with its changes.
    #[inline]
    pub(in crate::pager) fn written_count(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Takes adjacent blocks for `count` frames, for values that are written at once. Returns the first, and whether
    /// all are zero; `None` if the disk has no room for them and for `dirty` frames that have no block.
    pub(in crate::pager) fn take_run(&self, file: &TableFile, count: u32, dirty: u64) -> Result<Option<(u32, bool)>> {
        let Some(handle) = &file.handle else { return Ok(None) };
        if count > RUN_BYTES_MAX / file.frame_bytes as u32 {
            return Ok(None);
        }
        self.begin_writing(file)?;
        let mut room = self.room();
        let dirty = u32::try_from(dirty).unwrap_or(u32::MAX);
        let taken = room.take_run(count, dirty, Self::make_room(file));
        self.ready.store(room.ready(), Relaxed);
        drop(room);
        let Ok(first) = taken else { return Ok(None) };
        let (start, end) = (u64::from(first), u64::from(first) + u64::from(count));
        let [start, end] = [start, end].map(|block| block * file.frame_bytes as u64);
        let begun = file.refuse_hole_before(end).and_then(|()| {
            let fail = |e| Error::io(&file.path, "write a block of", e);
            let len = handle.len().map_err(fail)?;
            if len < end {
                // A block is read whole.
                handle.write_at(&[0], end - 1).map_err(fail)?;
                file.note_written_end(end);
            }
            Ok(Some((first, len <= start)))
        });
        begun.inspect_err(|_| self.free_run(first..first + count))
    }

    /// Writes `part` of `bytes`, which begin at `block`.
    pub(in crate::pager) fn write_value(
        &self,
        file: &TableFile,
        block: u32,
        part: Range<usize>,
        bytes: &[u8],
    ) -> Result<()> {
        self.write_at(file, block, part.start, &bytes[part])
    }

    /// Frees blocks that no frame and no record of the log refers to.
    pub(in crate::pager) fn free_run(&self, blocks: Range<u32>) {
        let mut room = self.room();
        blocks.for_each(|block| room.free(block));
    }

    /// Notes that a frame, which is dirty and not frozen, leaves memory and is zero. The caller holds its exclusive
    /// latch.
    pub(in crate::pager) fn set_zero(&self, frame: FrameNo) {
        self.set_entry(frame, Entry::NONE, || false);
    }

    /// Notes that values were written to adjacent blocks, the first of them that of frame `first`, and that these
    /// frames now have these checksums. Returns whether a checkpoint is due because of the number of frames written.
    /// The caller is inside the gate.
    pub(in crate::pager) fn seal(&self, first: FrameNo, block: u32, sums: &[u32]) -> bool {
        let mut entries = self.map.lock();
        for (at, &sum) in (0..).zip(sums) {
            let free = entries.live.set(first + at, Entry::at(block + at, sum), true);
            debug_assert!(free.is_none(), "a frame of a window has no other block");
        }
        entries.live.written.len() > self.live_max
    }

    /// The last block of a frame that was sealed, if nothing else was written there since.
    pub(in crate::pager) fn sealed_block(&self, frame: FrameNo) -> Option<u32> {
        let entries = self.map.lock();
        entries.live.written.get(&frame).filter(|written| written.is_sealed).map(|written| written.entry.block)
    }

    /// The number of frames whose blocks values were written to since the last checkpoint began.
    #[cfg(test)]
    pub(in crate::pager) fn sealed_count(&self) -> usize {
        let entries = self.map.lock();
        entries.live.written.values().filter(|written| written.is_sealed).count() + entries.live.freed.len()
    }

    /// Notes that a frozen frame is zero: it has no block in this checkpoint.
    pub(in crate::pager) fn note_frozen_zero(&self, frame: FrameNo) {
        let free = self.map.lock().frozen.set(frame, Entry::NONE, false);
        free.into_iter().for_each(|block| self.room().free(block));
    }

    /// The block for a frozen frame that the checkpoint writes.
    pub(in crate::pager) fn place_frozen(&self, file: &TableFile, frame: FrameNo) -> Result<u32> {
        let evicted = self.map.lock().frozen.own_block(frame);
        // No checkpoint has that block yet, and this one needs the later content.
        evicted.map_or_else(|| self.take_reserved(file), Ok)
    }

    /// Writes adjacent blocks.
    pub(in crate::pager) fn write_run(&self, file: &TableFile, first: u32, bytes: &[u8]) -> Result<()> {
        self.write(file, first, bytes)
    }

    /// Notes where frozen frames were written: frame, block, checksum.
    pub(in crate::pager) fn note_frozen(&self, written: &[(FrameNo, u32, u32)]) {
        let mut entries = self.map.lock();
        for &(frame, block, sum) in written {
            let free = entries.frozen.set(frame, Entry::at(block, sum), false);
            debug_assert!(free.is_none(), "an own block is written again");
        }
    }

    /// Reads the entries of the frames from `first` to `end`, so that an error comes before a [`cut`](Self::cut).
    pub(in crate::pager) fn read_entries(&self, file: &TableFile, first: FrameNo, end: FrameNo) -> Result<()> {
        (first..end).try_for_each(|frame| self.map.entry(file, frame).map(drop))
    }

    /// Forgets the frames from `first` to `end`, which are cut off the table. The caller keeps writers and checkpoints
    /// out.
    pub(in crate::pager) fn cut(&self, file: &TableFile, first: FrameNo, end: FrameNo) {
        for frame in first..end {
            // What can no longer be read may be an entry.
            if self.map.entry(file, frame).is_ok_and(|entry| entry.is_none()) {
                continue;
            }
            let free = self.map.lock().live.set(frame, Entry::NONE, false);
            free.into_iter().for_each(|block| self.room().free(block));
        }
    }

    /// Cuts free blocks off the end of the file, if there are many or `all` are to go. Nothing that a checkpoint in use
    /// has is there.
    pub(in crate::pager) fn shorten(&self, file: &TableFile, all: bool) -> Result<()> {
        let Some(handle) = file.handle.as_ref().filter(|_| self.may_write.load(Acquire)) else { return Ok(()) };
        let mut room = self.room();
        self.ready.store(room.ready(), Relaxed);
        if let Some(end) = room.end_to_cut_to(all) {
            let bytes = u64::from(end) * file.frame_bytes as u64;
            let is_longer = handle.len().map(|len| len > bytes);
            is_longer
                .and_then(|longer| if longer { handle.set_len(bytes) } else { Ok(()) })
                .map_err(|e| Error::io(&file.path, "set the length of", e))?;
            file.forget_written_beyond(bytes);
            room.cut_to(end);
            self.ready.store(room.ready(), Relaxed);
        }
        Ok(())
    }
}

/// Whether all bytes are zero. Such a frame has no block.
pub(in crate::pager) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(64).all(|line| line.iter().fold(0, |all, byte| all | byte) == 0)
}

fn leaves_max(cache_frames: u64) -> usize {
    usize::try_from(cache_frames / LEAVES_PART).unwrap_or(usize::MAX).max(64)
}

/// Fills `bytes` with the first frame of a new table: the map frame in which it and the one of the first buckets are
/// used. On disk.
fn fill_first(bytes: &mut [u8]) {
    const USED_BYTES: usize = 2 * 8;
    bytes.fill(0);
    bytes[..USED_BYTES].fill(0xFF);
}

/// Entries of the live overlay take a 128th of what their frames would.
fn live_max(cache_frames: u64) -> usize {
    usize::try_from(8 * cache_frames).unwrap_or(usize::MAX).max(1 << 16)
}

/// What is wrong with a tree, or why it could not be read.
enum Damage {
    What(String),
    Unread(Error),
}

impl Damage {
    fn of(self, file: &TableFile) -> Error {
        match self {
            Damage::What(what) => file.corrupt(what),
            Damage::Unread(e) => e,
        }
    }
}

impl From<String> for Damage {
    fn from(what: String) -> Damage {
        Damage::What(what)
    }
}

impl From<Error> for Damage {
    fn from(e: Error) -> Damage {
        Damage::Unread(e)
    }
}
