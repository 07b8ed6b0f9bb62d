//! The four caches: the objects in memory at any time, and the operations of each cache on its hash table.
//!
//! A trace is played once against plain maps with least-recently-used lists. The result is one [`Stream`] of finds,
//! insertions and removals for each cache. Which objects are cached does not depend on the hash function, so every
//! table replays the same operations, and the measured time is that of the table alone.
//!
//! As in 2.2.5:
//!
//! * A dentry pins its inode and the dentry of its directory. A dentry without children can be pruned, least recently
//!   used first.
//! * An inode without a dentry can be evicted, together with its pages.
//! * A miss in the dentry cache looks up the block of the directory and the inode; a miss in the inode cache, its block
//!   of the inode table.
//! * A miss in the page cache looks up its blocks but leaves no buffers. A written page leaves buffers but no page.
//! * Creating or removing a file changes two bitmaps and its block of the inode table.
//!
//! Not here: dirty data and write-back, swap, the sizes of free lists. The size of each cache is fixed ([`Limits`]),
//! while the kernel lets the four compete for memory.
//! Source: Lever 2000, section 3; Linux 2.2, fs/dcache.c, fs/inode.c, fs/buffer.c (`brw_page`), mm/filemap.c.

use super::disk::{Disk, PAGE_BYTES};
use super::functions::{BufferKey, DentryKey, InodeKey, PAGE_SHIFT, PageKey, name_hash, salted_name_hash};
use super::memory::{self, Kind};
use super::processes::ProcessStreams;
use super::table::{Action, NONE, Op, Stream};
use super::trace::{Event, Trace};
use super::{Proceed, Stopped};
use std::collections::HashMap;
use std::hash::Hash;

/// Events between two calls of `proceed`.
const PROCEED_EVENTS: usize = 1 << 14;
/// The priority at which 2.2 starts to free pages.
const PRIORITY: usize = 6;
/// The dentries that 2.2.5 prunes at a time.
const STOCK_PRUNE: usize = 32;
/// Bytes of pages and buffers reclaimed between two prunes. 2.2.5 prunes dentries as a last resort, the changed kernel
/// for every cluster of 32 pages. The first number is our choice.
const STOCK_INTERVAL: u64 = 256 * PAGE_BYTES as u64;
const SHRINK_INTERVAL: u64 = 32 * PAGE_BYTES as u64;

/// How the dentry cache shrinks when memory is scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pruning {
    /// 2.2.5's.
    Stock,
    /// Arcangeli's: more often, and `nr_unused / (priority + 1)` at a time.
    Shrink,
}

/// The maximum number of objects in each cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pages of files.
    pub pages: usize,
    /// Buffers.
    pub buffers: usize,
    /// Directory entries.
    pub dentries: usize,
    /// Inodes.
    pub inodes: usize,
}

/// The least memory, in pages.
pub const MEMORY_MIN: usize = 64;
/// The most memory, in pages: above it inodes would share addresses.
pub const MEMORY_MAX: usize = 1 << 20;

impl Limits {
    /// Returns the limits for this much memory. For the 32,768 pages of the paper's smaller machine, the objects of its
    /// histograms fit: 37,256 buffers and 9,785 inodes.
    pub fn of_memory(pages: usize) -> Self {
        Self { pages: pages / 2, buffers: pages * 9 / 8, dentries: pages / 2, inodes: pages * 3 / 10 }
    }
}

/// The operations of the four caches.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// The page cache.
    pub pages: Stream<PageKey>,
    /// The buffer cache.
    pub buffers: Stream<BufferKey>,
    /// The dentry cache.
    pub dentries: Stream<DentryKey>,
    /// The inode cache.
    pub inodes: Stream<InodeKey>,
    /// The tables for which traces have no operations; [`resolve`] leaves them empty.
    pub others: ProcessStreams,
}

/// Plays the trace through the caches.
///
/// # Errors
/// [`Stopped`] if `proceed` returned `Break`.
pub fn resolve(trace: &Trace, limits: Limits, pruning: Pruning, proceed: Proceed<'_>) -> Result<Streams, Stopped> {
    let mut caches = Caches::new(trace, limits, pruning);
    for (index, event) in trace.events.iter().enumerate() {
        if index % PROCEED_EVENTS == 0 && proceed().is_break() {
            return Err(Stopped);
        }
        caches.play(event);
    }
    Ok(caches.finish())
}

/// Objects by key, their slots, and a least-recently-used list.
struct Cache<K> {
    index: HashMap<K, u32>,
    slots: Vec<Slot<K>>,
    free: Vec<u32>,
    /// The ends and length of the list of evictable objects.
    newest: u32,
    oldest: u32,
    listed: usize,
    stream: Stream<K>,
}

struct Slot<K> {
    key: K,
    newer: u32,
    older: u32,
    listed: bool,
    /// Whether it is in the hash table. The root of a file system is not.
    hashed: bool,
}

impl<K: Copy + Eq + Hash> Cache<K> {
    fn new() -> Self {
        Self {
            index: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            listed: 0,
            stream: Stream::default(),
        }
    }

    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn record(&mut self, action: Action, slot: u32, key: K) {
        self.stream.ops.push(Op { action, slot, key });
    }

    /// Looks up a key.
    fn find(&mut self, key: &K) -> Option<u32> {
        let found = self.index.get(key).copied();
        self.record(Action::Find, found.unwrap_or(NONE), *key);
        found
    }

    /// Adds an object in a free slot. It is not evictable yet.
    fn add(&mut self, key: K, hashed: bool) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { key, newer: NONE, older: NONE, listed: false, hashed });
            u32::try_from(self.slots.len() - 1).expect("fewer objects than events")
        });
        self.slots[slot as usize] = Slot { key, newer: NONE, older: NONE, listed: false, hashed };
        if hashed {
            self.index.insert(key, slot);
            self.record(Action::Insert, slot, key);
        }
        slot
    }

    fn remove(&mut self, slot: u32) {
        self.unlist(slot);
        let Slot { key, hashed, .. } = self.slots[slot as usize];
        if hashed {
            self.index.remove(&key);
            self.record(Action::Remove, slot, key);
        }
        self.free.push(slot);
    }

    /// Makes an object evictable, as the most recently used.
    fn list(&mut self, slot: u32) {
        self.unlist(slot);
        let older = std::mem::replace(&mut self.newest, slot);
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
        let entry = &mut self.slots[slot as usize];
        (entry.newer, entry.older, entry.listed) = (NONE, older, true);
        self.listed += 1;
    }

    fn unlist(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        if !std::mem::take(&mut entry.listed) {
            return;
        }
        let (newer, older) = (entry.newer, entry.older);
        match self.slots.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        self.listed -= 1;
    }

    /// Marks an object as the most recently used, if it is evictable.
    fn touch(&mut self, slot: u32) {
        if self.slots[slot as usize].listed {
            self.list(slot);
        }
    }

    fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    fn finish(mut self) -> Stream<K> {
        self.stream.slots = self.slots.len();
        self.stream
    }
}

#[derive(Clone, Default)]
struct Inode {
    /// The number of its dentries.
    pins: u32,
    /// The dentry of a directory.
    dentry: Option<u32>,
    /// The slots of its pages.
    pages: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Dentry {
    parent: Option<u32>,
    children: u32,
    inode: Option<u32>,
}

struct Caches<'t> {
    trace: &'t Trace,
    disk: Disk,
    limits: Limits,
    pruning: Pruning,
    pages: Cache<PageKey>,
    /// By slot of a page: its index in the list of its inode.
    page_indexes: Vec<usize>,
    buffers: Cache<BufferKey>,
    dentries: Cache<DentryKey>,
    dentry: Vec<Dentry>,
    inodes: Cache<InodeKey>,
    inode: Vec<Inode>,
    hashes: Vec<u32>,
    superblocks: HashMap<u32, u32>,
    /// On disk: the inode of each name, 0 if it is known not to exist, and the block of its directory.
    entries: HashMap<(u32, u32, u32), (u32, u32)>,
    /// On disk: the blocks written to each file, perhaps more than once.
    written: HashMap<(u32, u32), Vec<u32>>,
    /// Bytes reclaimed since the last prune.
    reclaimed_bytes: u64,
    mark: Option<[usize; 4]>,
}

impl<'t> Caches<'t> {
    fn new(trace: &'t Trace, limits: Limits, pruning: Pruning) -> Self {
        Self {
            trace,
            disk: Disk::new(trace.block_bytes),
            limits,
            pruning,
            pages: Cache::new(),
            page_indexes: Vec::new(),
            buffers: Cache::new(),
            dentries: Cache::new(),
            dentry: Vec::new(),
            inodes: Cache::new(),
            inode: Vec::new(),
            hashes: trace.names.iter().map(name_hash).collect(),
            superblocks: HashMap::new(),
            entries: HashMap::new(),
            written: HashMap::new(),
            reclaimed_bytes: 0,
            mark: None,
        }
    }

    fn play(&mut self, event: &Event) {
        match *event {
            Event::Name { device, directory, inode, block, name } => self.name(device, directory, inode, block, name),
            Event::Page { device, inode, page, block, write: false } => self.read(device, inode, page, block),
            Event::Page { device, inode, page, block, write: true } => self.write(device, inode, page, block),
            Event::Block { device, block } => self.block(device, block),
            Event::Inode { device, inode } => {
                self.iget(device, inode);
            }
            Event::Remove { device, directory, name } => self.unlink(device, directory, name),
            Event::Mark => self.mark = Some(self.op_counts()),
        }
    }

    fn op_counts(&self) -> [usize; 4] {
        [
            self.pages.stream.ops.len(),
            self.buffers.stream.ops.len(),
            self.dentries.stream.ops.len(),
            self.inodes.stream.ops.len(),
        ]
    }

    fn finish(self) -> Streams {
        let mark = self.mark.unwrap_or_else(|| self.op_counts());
        let mut streams = Streams {
            pages: self.pages.finish(),
            buffers: self.buffers.finish(),
            dentries: self.dentries.finish(),
            inodes: self.inodes.finish(),
            others: ProcessStreams::default(),
        };
        [streams.pages.mark, streams.buffers.mark, streams.dentries.mark, streams.inodes.mark] = mark;
        streams
    }

    /// Looks up a block, and reads it on a miss.
    fn block(&mut self, device: u32, block: u32) {
        let key = BufferKey { device, block };
        if let Some(slot) = self.buffers.find(&key) {
            return self.buffers.touch(slot);
        }
        while self.buffers.len() >= self.limits.buffers {
            let Some(oldest) = self.buffers.oldest() else { break };
            self.buffers.remove(oldest);
            self.reclaim(self.trace.block_bytes);
        }
        let slot = self.buffers.add(key, true);
        self.buffers.list(slot);
    }

    fn inode_key(&mut self, device: u32, inode: u32) -> InodeKey {
        let count = u32::try_from(self.superblocks.len()).expect("fewer devices than events");
        let slot = *self.superblocks.entry(device).or_insert(count);
        InodeKey { superblock: memory::address(Kind::Superblock, slot), inode }
    }

    /// Looks up an inode, and reads it on a miss.
    fn iget(&mut self, device: u32, inode: u32) -> u32 {
        let key = self.inode_key(device, inode);
        if let Some(slot) = self.inodes.find(&key) {
            self.inodes.touch(slot);
            return slot;
        }
        let slot = self.add_inode(key);
        self.block(device, self.disk.inode_block(inode));
        slot
    }

    /// Returns the inode of an open or new file, without a lookup if it is cached.
    fn held(&mut self, device: u32, inode: u32) -> u32 {
        let key = self.inode_key(device, inode);
        let Some(slot) = self.inodes.index.get(&key).copied() else { return self.iget(device, inode) };
        self.inodes.touch(slot);
        slot
    }

    fn add_inode(&mut self, key: InodeKey) -> u32 {
        while self.inodes.len() >= self.limits.inodes {
            if let Some(oldest) = self.inodes.oldest() {
                self.evict_inode(oldest);
            } else if !self.prune() {
                break;
            }
        }
        let slot = self.inodes.add(key, true);
        if self.inode.len() <= slot as usize {
            self.inode.push(Inode::default());
        }
        self.inodes.list(slot);
        slot
    }

    fn evict_inode(&mut self, slot: u32) {
        for page in std::mem::take(&mut self.inode[slot as usize].pages) {
            self.pages.remove(page);
        }
        self.inode[slot as usize] = Inode::default();
        self.inodes.remove(slot);
    }

    fn page_key(&self, owner: u32, page: u32) -> PageKey {
        PageKey { inode: memory::address(Kind::Inode, owner), offset: page << PAGE_SHIFT, owner }
    }

    fn read(&mut self, device: u32, inode: u32, page: u32, block: u32) {
        let owner = self.held(device, inode);
        let key = self.page_key(owner, page);
        if let Some(slot) = self.pages.find(&key) {
            return self.pages.touch(slot);
        }
        while self.pages.len() >= self.limits.pages {
            let Some(oldest) = self.pages.oldest() else { break };
            self.drop_page(oldest);
            self.reclaim(PAGE_BYTES);
        }
        let slot = self.pages.add(key, true);
        self.pages.list(slot);
        if self.page_indexes.len() <= slot as usize {
            self.page_indexes.push(0);
        }
        let pages = &mut self.inode[owner as usize].pages;
        self.page_indexes[slot as usize] = pages.len();
        pages.push(slot);
        for block in self.disk.page_blocks(block) {
            let key = BufferKey { device, block };
            if let Some(slot) = self.buffers.find(&key) {
                self.buffers.touch(slot);
            }
        }
    }

    fn drop_page(&mut self, slot: u32) {
        let owner = self.pages.slots[slot as usize].key.owner;
        let pages = &mut self.inode[owner as usize].pages;
        let index = self.page_indexes[slot as usize];
        pages.swap_remove(index);
        if let Some(moved) = pages.get(index) {
            self.page_indexes[*moved as usize] = index;
        }
        self.pages.remove(slot);
    }

    fn write(&mut self, device: u32, inode: u32, page: u32, block: u32) {
        let owner = self.held(device, inode);
        for block in self.disk.page_blocks(block) {
            self.block(device, block);
            self.written.entry((device, inode)).or_default().push(block);
        }
        let key = self.page_key(owner, page);
        if let Some(slot) = self.pages.find(&key) {
            self.pages.touch(slot);
        }
    }

    fn dentry_key(&self, parent: u32, name: u32) -> DentryKey {
        let parent = memory::address(Kind::Dentry, parent);
        let bytes = self.trace.names.get(name as usize).unwrap_or_default();
        let hash = self.hashes.get(name as usize).copied().unwrap_or_default();
        DentryKey { parent, name, hash, salted: salted_name_hash(memory::wide(parent), bytes) }
    }

    /// Returns the dentry of a directory. A directory that was never looked up becomes a root, without a name.
    fn directory(&mut self, device: u32, directory: u32) -> u32 {
        let owner = self.held(device, directory);
        if let Some(dentry) = self.inode[owner as usize].dentry {
            return dentry;
        }
        self.inodes.unlist(owner);
        self.inode[owner as usize].pins += 1;
        let key = DentryKey { parent: 0, name: NONE, hash: 0, salted: 0 };
        let dentry = self.add_dentry(key, false, None);
        self.inode[owner as usize].pins -= 1;
        self.attach(dentry, owner);
        dentry
    }

    fn add_dentry(&mut self, key: DentryKey, hashed: bool, parent: Option<u32>) -> u32 {
        while self.dentries.len() >= self.limits.dentries {
            if !self.prune() {
                break;
            }
        }
        let slot = self.dentries.add(key, hashed);
        if self.dentry.len() <= slot as usize {
            self.dentry.push(Dentry::default());
        }
        self.dentry[slot as usize] = Dentry { parent, children: 0, inode: None };
        self.dentries.list(slot);
        slot
    }

    fn pin(&mut self, dentry: u32) {
        self.dentry[dentry as usize].children += 1;
        self.dentries.unlist(dentry);
    }

    fn unpin(&mut self, dentry: u32) {
        let entry = &mut self.dentry[dentry as usize];
        entry.children -= 1;
        if entry.children == 0 {
            self.dentries.list(dentry);
        }
    }

    fn attach(&mut self, dentry: u32, inode: u32) {
        self.dentry[dentry as usize].inode = Some(inode);
        let entry = &mut self.inode[inode as usize];
        entry.pins += 1;
        entry.dentry.get_or_insert(dentry);
        self.inodes.unlist(inode);
    }

    fn detach(&mut self, dentry: u32) {
        let Some(inode) = self.dentry[dentry as usize].inode.take() else { return };
        let entry = &mut self.inode[inode as usize];
        entry.pins -= 1;
        if entry.dentry == Some(dentry) {
            entry.dentry = None;
        }
        if entry.pins == 0 {
            self.inodes.list(inode);
        }
    }

    fn name(&mut self, device: u32, directory: u32, inode: u32, block: u32, name: u32) {
        self.entries.insert((device, directory, name), (inode, block));
        let parent = self.directory(device, directory);
        // Pinned during the lookup, because the kernel counts a reference.
        self.pin(parent);
        let key = self.dentry_key(parent, name);
        if let Some(dentry) = self.dentries.find(&key) {
            self.dentries.touch(dentry);
            self.update_inode(dentry, device, inode);
            return self.unpin(parent);
        }
        if block != 0 {
            self.block(device, block);
        }
        let target = (inode != 0).then(|| self.iget(device, inode));
        if let Some(target) = target {
            self.inodes.unlist(target);
            self.inode[target as usize].pins += 1;
        }
        // The parent stays pinned by its new child.
        let dentry = self.add_dentry(key, true, Some(parent));
        if let Some(target) = target {
            self.inode[target as usize].pins -= 1;
            self.attach(dentry, target);
        }
    }

    /// Updates the inode of a cached name. If the inode is not cached, the file is new, and its inode is not looked up.
    fn update_inode(&mut self, dentry: u32, device: u32, inode: u32) {
        let wanted = (inode != 0).then(|| self.inode_key(device, inode));
        let known = self.dentry[dentry as usize].inode;
        if known.map(|slot| self.inodes.slots[slot as usize].key) == wanted {
            return;
        }
        self.detach(dentry);
        let Some(key) = wanted else { return };
        self.pin(dentry);
        let slot = match self.inodes.index.get(&key).copied() {
            Some(slot) => slot,
            None => {
                let slot = self.add_inode(key);
                self.change_metadata(device, inode);
                slot
            }
        };
        self.attach(dentry, slot);
        self.unpin(dentry);
    }

    /// Looks up a name and removes its inode, its pages and the buffers of its blocks. The dentry stays and records
    /// that the name is absent (`d_delete`). Does nothing to a directory with cached children.
    fn unlink(&mut self, device: u32, directory: u32, name: u32) {
        let (inode, block) = self.entries.get(&(device, directory, name)).copied().unwrap_or_default();
        self.name(device, directory, inode, block, name);
        let parent = self.directory(device, directory);
        let dentry = self.dentries.index.get(&self.dentry_key(parent, name)).copied();
        let Some(dentry) = dentry.filter(|dentry| self.dentry[*dentry as usize].children == 0) else { return };
        let Some(target) = self.dentry[dentry as usize].inode else { return };
        self.detach(dentry);
        self.entries.insert((device, directory, name), (0, block));
        if self.inode[target as usize].pins > 0 {
            return;
        }
        self.evict_inode(target);
        for block in self.written.remove(&(device, inode)).unwrap_or_default() {
            if let Some(slot) = self.buffers.index.get(&BufferKey { device, block }).copied() {
                self.buffers.remove(slot);
            }
        }
        self.change_metadata(device, inode);
    }

    /// Looks up the metadata blocks that creating or removing a file changes: two bitmaps and a block of the inode
    /// table.
    fn change_metadata(&mut self, device: u32, inode: u32) {
        for block in self.disk.bitmaps(inode).into_iter().chain([self.disk.inode_block(inode)]) {
            self.block(device, block);
        }
    }

    fn drop_dentry(&mut self, dentry: u32) {
        self.detach(dentry);
        let parent = self.dentry[dentry as usize].parent;
        self.dentries.remove(dentry);
        if let Some(parent) = parent {
            self.unpin(parent);
        }
    }

    /// Prunes the least recently used dentry; false if all are in use.
    fn prune(&mut self) -> bool {
        let Some(oldest) = self.dentries.oldest() else { return false };
        self.drop_dentry(oldest);
        true
    }

    /// Counts reclaimed bytes, and prunes dentries at intervals.
    fn reclaim(&mut self, bytes: u32) {
        self.reclaimed_bytes += u64::from(bytes);
        let (interval, count) = match self.pruning {
            Pruning::Stock => (STOCK_INTERVAL, STOCK_PRUNE),
            Pruning::Shrink => (SHRINK_INTERVAL, self.dentries.listed / (PRIORITY + 1)),
        };
        if self.reclaimed_bytes < interval {
            return;
        }
        self.reclaimed_bytes -= interval;
        for _ in 0..count {
            if !self.prune() {
                break;
            }
        }
    }
}
