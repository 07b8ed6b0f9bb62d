//! An ext2 disk: where inodes are in their tables, and which blocks a new file gets.
//!
//! Block groups of as many blocks as one block has bits, each with its table of inodes at the same place near its start: this
//! regularity is what the buffer cache's hash function meets. A new file's blocks lie one behind another in its inode's group.
//! Numbers wrap at 32 bits, which 1999's disks did not reach.
//!
//! Source: ext2's layout (Card, Ts'o, Tweedie 1994), with the defaults of its mke2fs: an inode for 4 KiB, 128 bytes each.

use std::collections::HashMap;

/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;
const INODE_ON_DISK_BYTES: u32 = 128;
const BYTES_PER_INODE: u32 = 4096;
/// The first inode that a file gets; those before are the file system's own.
const FIRST_INODE: u32 = 11;

/// One layout for all devices, and what is taken on each.
#[derive(Clone, Debug)]
pub struct Disk {
    block_bytes: u32,
    /// By device and group: blocks and inodes that are taken.
    taken: HashMap<(u32, u32), Taken>,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    blocks: u32,
    inodes: u32,
}

impl Disk {
    /// `block_bytes` is 1024, 2048 or 4096.
    pub fn new(block_bytes: u32) -> Self {
        Self { block_bytes, taken: HashMap::new() }
    }

    /// Blocks of a group: as many as a block of the bitmap has bits.
    pub fn blocks_per_group(&self) -> u32 {
        self.block_bytes * 8
    }

    /// Inodes of a group.
    pub fn inodes_per_group(&self) -> u32 {
        self.blocks_per_group() / (BYTES_PER_INODE / self.block_bytes)
    }

    fn inodes_per_block(&self) -> u32 {
        self.block_bytes / INODE_ON_DISK_BYTES
    }

    /// Where a group's table of inodes begins: behind superblock, descriptors and two bitmaps.
    fn table_start(&self) -> u32 {
        8
    }

    /// Where its data begin.
    fn data_start(&self) -> u32 {
        self.table_start() + self.inodes_per_group() / self.inodes_per_block()
    }

    /// The group of an inode.
    pub fn group(&self, inode: u32) -> u32 {
        inode.saturating_sub(1) / self.inodes_per_group()
    }

    fn block(&self, group: u32, offset: u32) -> u32 {
        group.wrapping_mul(self.blocks_per_group()).wrapping_add(offset)
    }

    /// The block of the inode table that has an inode.
    pub fn inode_block(&self, inode: u32) -> u32 {
        let within = inode.saturating_sub(1) % self.inodes_per_group();
        self.block(self.group(inode), self.table_start() + within / self.inodes_per_block())
    }

    /// The two bitmaps of an inode's group, of its blocks and of its inodes.
    pub fn bitmaps(&self, inode: u32) -> [u32; 2] {
        [2, 1].map(|before| self.block(self.group(inode), self.table_start() - before))
    }

    /// The blocks of a page whose first is `block`; none for 0, a hole.
    pub fn page_blocks(&self, block: u32) -> impl Iterator<Item = u32> + use<> {
        let count = if block == 0 { 0 } else { PAGE_BYTES / self.block_bytes };
        (0..count).map(move |n| block.wrapping_add(n))
    }

    fn taken(&mut self, device: u32, group: u32) -> &mut Taken {
        let blocks = self.data_start();
        self.taken.entry((device, group)).or_insert(Taken { blocks, inodes: 0 })
    }

    /// The first of so many blocks in a row, in `group` or the next one with room. More than a group has are cut to that.
    pub fn take_blocks(&mut self, device: u32, group: u32, count: u32) -> u32 {
        let (size, most) = (self.blocks_per_group(), self.blocks_per_group() - self.data_start());
        let count = count.min(most);
        let mut group = group;
        loop {
            let taken = self.taken(device, group);
            if taken.blocks + count <= size {
                let offset = taken.blocks;
                taken.blocks += count;
                return self.block(group, offset);
            }
            group = group.wrapping_add(1);
        }
    }

    /// A new inode in `group` or the next one with room.
    pub fn take_inode(&mut self, device: u32, group: u32) -> u32 {
        let size = self.inodes_per_group();
        let mut group = group;
        loop {
            let taken = self.taken(device, group);
            if taken.inodes < size - FIRST_INODE {
                taken.inodes += 1;
                let within = taken.inodes + FIRST_INODE;
                return group.wrapping_mul(size).wrapping_add(within);
            }
            group = group.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inode_tables_lie_at_the_same_place_of_every_group() {
        let disk = Disk::new(1024);
        assert_eq!((disk.blocks_per_group(), disk.inodes_per_group(), disk.data_start()), (8192, 2048, 264));
        assert_eq!(disk.inode_block(1), 8);
        assert_eq!(disk.inode_block(9), 9);
        assert_eq!(disk.inode_block(2048 * 5 + 9), 5 * 8192 + 9);
        assert_eq!(Disk::new(4096).inode_block(32_768 + 33), 32_768 + 9);
    }

    #[test]
    fn files_lie_one_behind_another_and_a_full_group_overflows_into_the_next() {
        let mut disk = Disk::new(1024);
        assert_eq!(
            [disk.take_blocks(1, 0, 4), disk.take_blocks(1, 0, 7900), disk.take_blocks(1, 0, 100)],
            [264, 268, 8456]
        );
        assert_eq!(disk.take_blocks(2, 0, 1), 264);
        assert_eq!((0..2038).map(|_| disk.take_inode(1, 0)).last(), Some(2048 + 12));
        assert_eq!(disk.take_blocks(1, 9, u32::MAX), 9 * 8192 + 264);
    }
}
