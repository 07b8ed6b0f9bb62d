//! A simulated ext2 disk: the location of inodes, and the blocks of new files.
//!
//! A block group has as many blocks as one block has bits. Each group has its inode table at the same offset near its
//! start; the buffer cache's hash function suffers from this regularity. The blocks of a new file are contiguous and in
//! the group of its inode. Numbers wrap at 32 bits, which disks of 1999 did not reach.
//!
//! Source: ext2's layout (Card, Ts'o, Tweedie 1994), with the defaults of mke2fs: one inode for every 4 KiB, 128 bytes
//! each.

use std::collections::HashMap;

/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;
const INODE_ON_DISK_BYTES: u32 = 128;
const BYTES_PER_INODE: u32 = 4096;
/// The first inode of a file; lower ones are reserved for the file system.
const FIRST_INODE: u32 = 11;

/// The layout of all devices, and the allocations on each.
#[derive(Clone, Debug)]
pub struct Disk {
    block_bytes: u32,
    /// Allocated blocks and inodes, by device and group.
    allocated: HashMap<(u32, u32), Allocated>,
}

#[derive(Clone, Copy, Debug)]
struct Allocated {
    blocks: u32,
    inodes: u32,
}

impl Disk {
    /// Creates a disk with nothing allocated. `block_bytes` is 1024, 2048 or 4096.
    pub fn new(block_bytes: u32) -> Self {
        Self { block_bytes, allocated: HashMap::new() }
    }

    /// Returns the number of blocks per group: as many as a bitmap block has bits.
    pub fn blocks_per_group(&self) -> u32 {
        self.block_bytes * 8
    }

    /// Returns the number of inodes per group.
    pub fn inodes_per_group(&self) -> u32 {
        self.blocks_per_group() / (BYTES_PER_INODE / self.block_bytes)
    }

    fn inodes_per_block(&self) -> u32 {
        self.block_bytes / INODE_ON_DISK_BYTES
    }

    /// Returns the offset of the inode table in its group: after superblock, descriptors and two bitmaps.
    fn table_start(&self) -> u32 {
        8
    }

    /// Returns the offset of the data blocks in their group.
    fn data_start(&self) -> u32 {
        self.table_start() + self.inodes_per_group() / self.inodes_per_block()
    }

    /// Returns the group of an inode.
    pub fn group(&self, inode: u32) -> u32 {
        inode.saturating_sub(1) / self.inodes_per_group()
    }

    fn block(&self, group: u32, offset: u32) -> u32 {
        group.wrapping_mul(self.blocks_per_group()).wrapping_add(offset)
    }

    /// Returns the block of the inode table that contains `inode`.
    pub fn inode_block(&self, inode: u32) -> u32 {
        let within = inode.saturating_sub(1) % self.inodes_per_group();
        self.block(self.group(inode), self.table_start() + within / self.inodes_per_block())
    }

    /// Returns the block bitmap and the inode bitmap of the group of `inode`.
    pub fn bitmaps(&self, inode: u32) -> [u32; 2] {
        [2, 1].map(|before| self.block(self.group(inode), self.table_start() - before))
    }

    /// Returns the blocks of a page whose first block is `block`; none for 0, a hole.
    pub fn page_blocks(&self, block: u32) -> impl Iterator<Item = u32> + use<> {
        let count = if block == 0 { 0 } else { PAGE_BYTES / self.block_bytes };
        (0..count).map(move |n| block.wrapping_add(n))
    }

    fn allocated(&mut self, device: u32, group: u32) -> &mut Allocated {
        let blocks = self.data_start();
        self.allocated.entry((device, group)).or_insert(Allocated { blocks, inodes: 0 })
    }

    /// Allocates `count` contiguous blocks, at most a whole group, in `group` or the next one with room. Returns the
    /// first.
    pub fn allocate_blocks(&mut self, device: u32, group: u32, count: u32) -> u32 {
        let (size, most) = (self.blocks_per_group(), self.blocks_per_group() - self.data_start());
        let count = count.min(most);
        let mut group = group;
        loop {
            let allocated = self.allocated(device, group);
            if allocated.blocks + count <= size {
                let offset = allocated.blocks;
                allocated.blocks += count;
                return self.block(group, offset);
            }
            group = group.wrapping_add(1);
        }
    }

    /// Allocates an inode in `group` or the next one with room.
    pub fn allocate_inode(&mut self, device: u32, group: u32) -> u32 {
        let size = self.inodes_per_group();
        let mut group = group;
        loop {
            let allocated = self.allocated(device, group);
            if allocated.inodes < size - FIRST_INODE {
                allocated.inodes += 1;
                let within = allocated.inodes + FIRST_INODE;
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
    fn inode_tables_have_the_same_offset_in_every_group() {
        let disk = Disk::new(1024);
        assert_eq!((disk.blocks_per_group(), disk.inodes_per_group(), disk.data_start()), (8192, 2048, 264));
        assert_eq!(disk.inode_block(1), 8);
        assert_eq!(disk.inode_block(9), 9);
        assert_eq!(disk.inode_block(2048 * 5 + 9), 5 * 8192 + 9);
        assert_eq!(Disk::new(4096).inode_block(32_768 + 33), 32_768 + 9);
    }

    #[test]
    fn blocks_are_contiguous_and_a_full_group_overflows_into_the_next() {
        let mut disk = Disk::new(1024);
        assert_eq!(
            [disk.allocate_blocks(1, 0, 4), disk.allocate_blocks(1, 0, 7900), disk.allocate_blocks(1, 0, 100)],
            [264, 268, 8456]
        );
        assert_eq!(disk.allocate_blocks(2, 0, 1), 264);
        assert_eq!((0..2038).map(|_| disk.allocate_inode(1, 0)).last(), Some(2048 + 12));
        assert_eq!(disk.allocate_blocks(1, 9, u32::MAX), 9 * 8192 + 264);
    }
}
