//! Where the kernel's objects would lie: addresses that repeat, with the sizes and the alignment that 2.2.5 gave them.
//!
//! Hash functions mix addresses, so addresses must look like a kernel's. Objects of one kind share pages, as many a page as fit.
//! Pages come in runs of eight, and the runs of the kinds lie scattered over 512 MiB, the paper's larger machine. An object that
//! goes leaves its place to the next one, the last first, as free lists do.
//!
//! The sizes are our reckoning for i386: inodes of 332 bytes, 12 a page taken whole (fs/inode.c, `grow_inodes`); dentries of 112
//! bytes in a slab aligned to cache lines of 32, so 128; superblocks from `kmalloc`, which has 512. Only the lowest bit set in an
//! inode's size enters a hash function, the page cache's, so any multiple of 4 but not of 8 hashes alike.

/// `sizeof(struct inode)`.
pub const INODE_BYTES: u32 = 332;
/// `sizeof(struct dentry)`, aligned.
pub const DENTRY_BYTES: u32 = 128;
/// What a `struct super_block` takes.
pub const SUPERBLOCK_BYTES: u32 = 512;

const PAGE_BYTES: u32 = 4096;
const RUN_PAGES: u32 = 8;
const RUNS: u32 = (512 << 20) / PAGE_BYTES / RUN_PAGES;
/// Odd, so that it permutes the runs; near the golden ratio, so that it scatters them.
const RUN_STRIDE: u32 = 10_125;
/// Where the kernel sees the memory, on a machine of 32 bits and on one of 64.
const NARROW: u32 = 0xC000_0000;
const WIDE: u64 = 0xFFFF_8880_0000_0000;

/// Kinds of objects that have addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `struct inode`
    Inode,
    /// `struct dentry`
    Dentry,
    /// `struct super_block`
    Superblock,
}

/// Where object number `slot` of its kind lies. Beyond the 512 MiB, which are half a million inodes, addresses come again.
pub fn address(kind: Kind, slot: u32) -> u32 {
    let (bytes, turn) = match kind {
        Kind::Inode => (INODE_BYTES, 0),
        Kind::Dentry => (DENTRY_BYTES, 1),
        Kind::Superblock => (SUPERBLOCK_BYTES, 2),
    };
    let per_page = PAGE_BYTES / bytes;
    let page = slot / per_page;
    let run = (page / RUN_PAGES * 3 + turn).wrapping_mul(RUN_STRIDE) % RUNS;
    NARROW + (run * RUN_PAGES + page % RUN_PAGES) * PAGE_BYTES + slot % per_page * bytes
}

/// The same place as a kernel of 64 bits sees it.
#[inline]
pub fn wide(address: u32) -> u64 {
    WIDE + u64::from(address.wrapping_sub(NARROW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_objects_lie_in_one_place() {
        let mut seen = HashSet::new();
        for (kind, bytes) in
            [(Kind::Inode, INODE_BYTES), (Kind::Dentry, DENTRY_BYTES), (Kind::Superblock, SUPERBLOCK_BYTES)]
        {
            for slot in 0..20_000 {
                let start = address(kind, slot);
                assert_eq!(start / PAGE_BYTES, (start + bytes - 1) / PAGE_BYTES, "across pages");
                assert!(seen.insert(start / 4), "{kind:?} {slot}");
                assert!(seen.insert((start + bytes - 4) / 4), "{kind:?} {slot}");
            }
        }
    }

    #[test]
    fn the_same_place_has_an_address_in_64_bits() {
        assert_eq!(wide(0xC000_1234), 0xFFFF_8880_0000_1234);
    }
}
