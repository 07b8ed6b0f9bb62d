//! Simulated addresses of kernel objects: reproducible, with the sizes and alignment of 2.2.5.
//!
//! Hash functions mix addresses, so these must resemble a kernel's. A page holds as many objects of one kind as fit.
//! Pages are allocated in runs of eight, and the runs are scattered over 512 MiB, the memory of the paper's larger
//! machine. A freed slot is reused by the next object, most recently freed first, as in a free list.
//!
//! The sizes are our estimate for i386: inodes of 332 bytes, 12 in a page (fs/inode.c, `grow_inodes`); dentries of 112
//! bytes, aligned to cache lines of 32, so 128; superblocks from `kmalloc`, which rounds up to 512. Only the lowest set
//! bit of the inode size enters a hash function (the page cache's), so all multiples of 4 that are not multiples of 8
//! hash equally.

/// `sizeof(struct inode)`.
pub const INODE_BYTES: u32 = 332;
/// `sizeof(struct dentry)`, aligned to a cache line.
pub const DENTRY_BYTES: u32 = 128;
/// The allocation of a `struct super_block`.
pub const SUPERBLOCK_BYTES: u32 = 512;

/// The inode of the swap cache, a variable of the kernel itself, above its code at 1 MiB.
pub const SWAPPER_INODE: u32 = 0xC020_9A40;

const PAGE_BYTES: u32 = 4096;
const RUN_PAGES: u32 = 8;
const RUNS: u32 = (512 << 20) / PAGE_BYTES / RUN_PAGES;
/// Odd, so it permutes the runs; near the golden ratio, so it scatters them.
const RUN_STRIDE: u32 = 10_125;
/// The virtual address of physical memory, on a 32-bit and on a 64-bit kernel.
const NARROW: u32 = 0xC000_0000;
const WIDE: u64 = 0xFFFF_8880_0000_0000;

/// The kinds of objects with addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `struct inode`
    Inode,
    /// `struct dentry`
    Dentry,
    /// `struct super_block`
    Superblock,
}

/// Returns the address of object `slot` of its kind. Addresses repeat beyond 512 MiB, which is half a million inodes.
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

/// Returns the address of the object in a 64-bit kernel.
#[inline]
pub fn wide(address: u32) -> u64 {
    WIDE + u64::from(address.wrapping_sub(NARROW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn objects_do_not_overlap_or_cross_pages() {
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
    fn wide_moves_an_address_to_64_bits() {
        assert_eq!(wide(0xC000_1234), 0xFFFF_8880_0000_1234);
    }
}
