//! The hash functions of the four tables: Linux 2.2.5's, those the paper proposes, and today's.
//!
//! The functions of 2.2.5 and of the paper compute in 32 bits and wrap, as `unsigned long` did in 1999. `hash_64` and
//! today's functions compute in 64 bits. Each returns a bucket below `1 << bits`. Addresses come from `memory.rs`.
//!
//! Source: Lever, "Linux Kernel Hash Table Behavior" (CITI 2000), sections 3.1 to 3.4 and 5; Linux,
//! include/linux/hash.h, fs/namei.c (`hash_name`), fs/inode.c (`hash`). The paper does not print the proposed functions
//! of the inode table: see [`InodeFunction`]. Beyond the paper's tables: [`IdFunction`] for processes and users (2.2.5,
//! include/linux/sched.h and kernel/fork.c), and [`WordFunction`], whose constants the user chooses.

use super::memory;
pub use super::words::MULTIPLIER;
use super::words::{WordFunction, mask};

/// The kernel's multiplier for 64 bits since 4.7.
pub const GOLDEN_RATIO_64: u64 = 0x61C8_8646_80B5_83EB;
/// The kernel's multiplier for 64 bits before 4.7. It has few set bits, so compilers could use shifts and additions.
pub const GOLDEN_RATIO_64_SPARSE: u64 = 0x9E37_FFFF_FFFC_0001;

/// The bits of an offset in a page.
pub const PAGE_SHIFT: u32 = 12;
/// The cache line in today's inode hash.
const L1_CACHE_BYTES: u64 = 64;

/// The key of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The address of the inode in memory.
    pub inode: u32,
    /// The offset in its file. For a page of the swap cache, the swap entry, whose low bits differ.
    pub offset: u32,
    /// The slot of the inode in memory, which selects the tree of its pages.
    pub owner: u32,
}

impl PageKey {
    /// Returns the page number: the offset without its low [`PAGE_SHIFT`] bits.
    pub fn page(&self) -> u32 {
        self.offset >> PAGE_SHIFT
    }
}

/// The key of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferKey {
    /// The major and minor number in 16 bits.
    pub device: u32,
    /// The block on the device.
    pub block: u32,
}

/// The key of a dentry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DentryKey {
    /// The address of the directory's dentry.
    pub parent: u32,
    /// The index of the name in the trace.
    pub name: u32,
    /// [`name_hash`] of the name.
    pub hash: u32,
    /// [`salted_name_hash`] of the name with the parent's address.
    pub salted: u32,
}

/// The key of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InodeKey {
    /// The address of the superblock in memory.
    pub superblock: u32,
    /// The inode number.
    pub inode: u32,
}

/// A hash function for keys of type `K`.
pub trait Function<K>: Copy {
    /// Returns the bucket of `key`, below `1 << bits`.
    fn bucket(self, key: &K, bits: u32) -> u32;
}

/// Functions of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFunction {
    /// 2.2.5's: shift and add.
    Stock,
    /// Shift and add, with the offset added unshifted for pages of the swap cache.
    Offset,
    /// Multiplicative, top bits.
    Mult,
    /// `hash_64` of address and offset together.
    Hash64,
    /// `hash_64` with the multiplier before 4.7.
    Hash64Sparse,
    /// Any function of the sum of address and offset.
    Word(WordFunction),
}

impl Function<PageKey> for PageFunction {
    #[inline]
    fn bucket(self, key: &PageKey, bits: u32) -> u32 {
        let i = key.inode / (memory::INODE_BYTES & memory::INODE_BYTES.wrapping_neg());
        let s = |x: u32| x.wrapping_add(x >> bits) & mask(bits);
        match self {
            Self::Stock => s(i.wrapping_add(key.page())),
            Self::Offset => s(i.wrapping_add(key.page()).wrapping_add(key.offset)),
            Self::Mult => key.inode.wrapping_add(key.offset).wrapping_mul(MULTIPLIER) >> (32 - bits),
            Self::Hash64 => hash_64(page_word(key), bits),
            Self::Hash64Sparse => hash_64_sparse(page_word(key), bits),
            Self::Word(function) => function.bucket(key.inode.wrapping_add(key.offset), bits),
        }
    }
}

fn page_word(key: &PageKey) -> u64 {
    memory::wide(key.inode).wrapping_add(u64::from(key.offset))
}

/// Functions of the buffer cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferFunction {
    /// 2.2.5's: exclusive or of device and block.
    Stock,
    /// Multiplicative, shifted right by this many bits.
    Mult(u32),
    /// Steiner's: multiplies by the Mersenne prime 127 with a shift, then adds two shifted copies.
    ShiftAdd,
    /// `hash_64` of device and block together.
    Hash64,
    /// `hash_64` with the multiplier before 4.7.
    Hash64Sparse,
    /// Any function of the block.
    Word(WordFunction),
}

impl Function<BufferKey> for BufferFunction {
    #[inline]
    fn bucket(self, key: &BufferKey, bits: u32) -> u32 {
        let block = key.block;
        match self {
            Self::Stock => (key.device ^ block) & mask(bits),
            Self::Mult(shift) => (block.wrapping_mul(MULTIPLIER) >> shift) & mask(bits),
            Self::ShiftAdd => {
                let times_127 = (block << 7).wrapping_sub(block);
                times_127.wrapping_add(block >> 10).wrapping_add(block >> 18) & mask(bits)
            }
            Self::Hash64 => hash_64(buffer_word(key), bits),
            Self::Hash64Sparse => hash_64_sparse(buffer_word(key), bits),
            Self::Word(function) => function.bucket(block, bits),
        }
    }
}

fn buffer_word(key: &BufferKey) -> u64 {
    u64::from(key.device ^ key.block)
}

/// Functions of the dentry cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DentryFunction {
    /// 2.2.5's: shift and exclusive or.
    Stock,
    /// 2.2.5's with additions instead of exclusive or.
    Plus,
    /// Multiplicative, shifted right by this many bits.
    Mult(u32),
    /// `hash_64` of the parent's address and the name's hash.
    Hash64,
    /// `hash_64` with the multiplier before 4.7.
    Hash64Sparse,
    /// Today's: the name hash includes the address of the parent; top bits.
    Today,
    /// Any function of the sum of the parent's address and the name's hash.
    Word(WordFunction),
}

impl Function<DentryKey> for DentryFunction {
    #[inline]
    fn bucket(self, key: &DentryKey, bits: u32) -> u32 {
        let hash = key.hash.wrapping_add(key.parent);
        let wide = memory::wide(key.parent).wrapping_add(u64::from(key.hash));
        match self {
            Self::Stock => (hash ^ (hash >> bits) ^ shifted_twice(hash, bits)) & mask(bits),
            Self::Plus => hash.wrapping_add(hash >> bits).wrapping_add(shifted_twice(hash, bits)) & mask(bits),
            Self::Mult(shift) => (hash.wrapping_mul(MULTIPLIER) >> shift) & mask(bits),
            Self::Hash64 => hash_64(wide, bits),
            Self::Hash64Sparse => hash_64_sparse(wide, bits),
            Self::Today => key.salted >> (32 - bits),
            Self::Word(function) => function.bucket(hash, bits),
        }
    }
}

/// Functions of the inode cache.
///
/// The paper prints only the first. For its "slightly modified" function we use the sum of number and superblock, as
/// later kernels do; for its multiplicative function the top bits, as for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeFunction {
    /// 2.2.5's: bitwise or of number and address, then shift and add.
    Stock,
    /// Sum of number and address, then shift and add.
    Sum,
    /// Multiplicative, top bits.
    Mult,
    /// `hash_64` of the sum.
    Hash64,
    /// `hash_64` with the multiplier before 4.7.
    Hash64Sparse,
    /// Today's.
    Today,
    /// Any function of the sum of number and superblock address.
    Word(WordFunction),
}

impl Function<InodeKey> for InodeFunction {
    #[inline]
    fn bucket(self, key: &InodeKey, bits: u32) -> u32 {
        let folded = |x: u32| x.wrapping_add(x >> bits).wrapping_add(shifted_twice(x, bits)) & mask(bits);
        let sum = key.inode.wrapping_add(key.superblock);
        let wide = memory::wide(key.superblock).wrapping_add(u64::from(key.inode));
        match self {
            Self::Stock => folded(key.inode | key.superblock),
            Self::Sum => folded(sum),
            Self::Mult => sum.wrapping_mul(MULTIPLIER) >> (32 - bits),
            Self::Hash64 => hash_64(wide, bits),
            Self::Hash64Sparse => hash_64_sparse(wide, bits),
            Self::Today => inode_today(memory::wide(key.superblock), key.inode.into(), bits),
            Self::Word(function) => function.bucket(sum, bits),
        }
    }
}

/// Functions of the tables of processes and users, whose keys are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdFunction {
    /// 2.2.5's: `(x >> 8) ^ x`, then a mask: the size less one. With the paper's 4,000 tasks the sizes are 1,000 and
    /// 250, not powers of two, so the mask has holes and most buckets stay empty.
    Stock(u32),
    /// `(x >> 8) ^ x` with a mask of all bits.
    Fold,
    /// Any function of the number.
    Word(WordFunction),
}

impl Function<u32> for IdFunction {
    #[inline]
    fn bucket(self, key: &u32, bits: u32) -> u32 {
        match self {
            Self::Stock(mask) => ((key >> 8) ^ key) & mask,
            Self::Fold => ((key >> 8) ^ key) & mask(bits),
            Self::Word(function) => function.bucket(*key, bits),
        }
    }
}

fn inode_today(superblock: u64, inode: u64, bits: u32) -> u32 {
    let mixed = inode.wrapping_mul(superblock) ^ (GOLDEN_RATIO_64.wrapping_add(inode) / L1_CACHE_BYTES);
    let mixed = mixed ^ ((mixed ^ GOLDEN_RATIO_64) >> bits);
    low(mixed) & mask(bits)
}

/// `x >> 2 * bits`; 0 if the shift exceeds a word.
#[inline]
fn shifted_twice(x: u32, bits: u32) -> u32 {
    x.checked_shr(bits * 2).unwrap_or(0)
}

#[inline]
fn low(word: u64) -> u32 {
    (word & u64::from(u32::MAX)) as u32
}

/// Returns the top `bits` of the product with [`GOLDEN_RATIO_64`].
#[inline]
pub fn hash_64(word: u64, bits: u32) -> u32 {
    low(word.wrapping_mul(GOLDEN_RATIO_64) >> (64 - bits))
}

/// Returns the top `bits` of the product with [`GOLDEN_RATIO_64_SPARSE`].
#[inline]
pub fn hash_64_sparse(word: u64, bits: u32) -> u32 {
    low(word.wrapping_mul(GOLDEN_RATIO_64_SPARSE) >> (64 - bits))
}

/// 2.2.5's hash of a name: for each byte, rotate by four bits and xor.
pub fn name_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, byte| hash.rotate_left(4) ^ u32::from(*byte))
}

/// Today's hash of a name, eight bytes at a time, starting from the address of the directory's dentry.
pub fn salted_name_hash(parent: u64, name: &[u8]) -> u32 {
    let (mut x, mut y) = (0u64, parent);
    let mut words = name.chunks_exact(8);
    for word in &mut words {
        x ^= u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        y ^= x;
        x = x.rotate_left(12).wrapping_add(y);
        y = y.rotate_left(45).wrapping_mul(9);
    }
    let mut rest = [0; 8];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    x ^= u64::from_le_bytes(rest);
    y ^= x.wrapping_mul(GOLDEN_RATIO_64);
    low(y.wrapping_mul(GOLDEN_RATIO_64) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(function: PageFunction, bits: u32) -> u32 {
        function.bucket(&PageKey { inode: 0xC012_3450, offset: 3 << PAGE_SHIFT, owner: 0 }, bits)
    }

    #[test]
    fn page_functions_match_values_computed_by_hand() {
        // i = C0123450 / 4 = 30048D14, + 3 = 30048D17; >> 11 = 60091; sum = 300A8DA8.
        assert_eq!(page(PageFunction::Stock, 11), 0x300A_8DA8 & 0x7FF);
        // + 3000 = 3004BD17; >> 14 = C012; sum = 30057D29.
        assert_eq!(page(PageFunction::Offset, 14), 0x3005_7D29 & 0x3FFF);
        assert_eq!(page(PageFunction::Mult, 13), (((0xC012_6450_u64 * 2_654_435_761) & 0xFFFF_FFFF) >> 19) as u32);
    }

    #[test]
    fn buffer_functions_match_values_computed_by_hand() {
        let key = BufferKey { device: 0x0801, block: 100_000 };
        assert_eq!(BufferFunction::Stock.bucket(&key, 15), (0x0801 ^ 100_000) & 0x7FFF);
        // 100,000 x 2,654,435,761 = 265,443,576,100,000, of which 32 bits are 1,714,711,712.
        let product = 265_443_576_100_000_u64 % (1 << 32);
        for shift in [11, 16, 17, 18] {
            assert_eq!(u64::from(BufferFunction::Mult(shift).bucket(&key, 13)), (product >> shift) % 8192);
        }
        // 12,700,000 + 97 + 0.
        assert_eq!(BufferFunction::ShiftAdd.bucket(&key, 14), 12_700_097 % 16_384);
    }

    #[test]
    fn dentry_functions_match_values_computed_by_hand() {
        // "ab": 61, rotated 610, xor 62 = 672.
        assert_eq!(name_hash(b"ab"), 0x672);
        let key = DentryKey { parent: 0xC000_1000, name: 0, hash: 0x672, salted: 0xABCD_EF01 };
        // C0001672; >> 10 = 300005; >> 20 = C00.
        assert_eq!(DentryFunction::Stock.bucket(&key, 10), (0x672 ^ 0x005 ^ 0xC00) & 0x3FF);
        assert_eq!(DentryFunction::Plus.bucket(&key, 10), (0x672 + 0x005 + 0xC00) & 0x3FF);
        assert_eq!(DentryFunction::Today.bucket(&key, 12), 0xABC);
        let product = (0xC000_1672_u64 * 2_654_435_761) % (1 << 32);
        assert_eq!(u64::from(DentryFunction::Mult(17).bucket(&key, 14)), (product >> 17) % 16_384);
    }

    #[test]
    fn inode_functions_match_values_computed_by_hand() {
        let key = InodeKey { superblock: 0xC000_0200, inode: 0x1234 };
        // C0001234 (200 is in both); >> 8 = C00012; >> 16 = C000.
        assert_eq!(InodeFunction::Stock.bucket(&key, 8), (0x34 + 0x12) & 0xFF);
        // C0001434; >> 8 = C00014.
        assert_eq!(InodeFunction::Sum.bucket(&key, 8), 0x34 + 0x14);
    }

    #[test]
    fn id_functions_match_values_computed_by_hand() {
        // 1,000 buckets: the mask 999 is 1111100111 in binary, so bits 3 and 4 are lost.
        assert_eq!(IdFunction::Stock(999).bucket(&0x1234, 10), (0x12 ^ 0x234) & 999);
        assert_eq!(IdFunction::Fold.bucket(&0x1234, 8), 0x12 ^ 0x34);
        let used: std::collections::BTreeSet<u32> =
            (0..32_768).map(|pid| IdFunction::Stock(999).bucket(&pid, 10)).collect();
        assert_eq!(used.len(), 256);
    }

    #[test]
    fn todays_functions_match_values_computed_by_hand() {
        assert_eq!(hash_64(1, 8), 0x61);
        assert_eq!(hash_64_sparse(1, 16), 0x9E37);
        // An empty name: y = (salt ^ 0) x ratio; the salt 1 leaves the ratio's upper half.
        assert_eq!(salted_name_hash(1, b""), 0x61C8_8646);
        // "a" and salt 0: the ratio times 61, times the ratio.
        let y = 0x61_u64.wrapping_mul(GOLDEN_RATIO_64).wrapping_mul(GOLDEN_RATIO_64);
        assert_eq!(u64::from(salted_name_hash(0, b"a")), y >> 32);
        // Inode 0: ratio / 64, folded once.
        let mixed = GOLDEN_RATIO_64 / 64;
        assert_eq!(u64::from(inode_today(7, 0, 8)), (mixed ^ ((mixed ^ GOLDEN_RATIO_64) >> 8)) % 256);
    }

    #[test]
    fn every_function_returns_a_bucket_of_the_table() {
        for bits in 8..=16 {
            for n in (0..u32::MAX).step_by(100_003_001) {
                let page = PageKey { inode: n, offset: n, owner: 0 };
                for f in [PageFunction::Stock, PageFunction::Offset, PageFunction::Mult, PageFunction::Hash64] {
                    assert!(f.bucket(&page, bits) < 1 << bits);
                }
                let inode = InodeKey { superblock: n, inode: n };
                for f in [InodeFunction::Stock, InodeFunction::Sum, InodeFunction::Mult, InodeFunction::Today] {
                    assert!(f.bucket(&inode, bits) < 1 << bits);
                }
            }
        }
    }

    /// Returns the size of the largest of 1024 buckets that hold 1024 page-aligned addresses.
    fn largest(function: fn(u64, u32) -> u32) -> usize {
        let mut sizes = vec![0; 1024];
        (0..1024).for_each(|n| sizes[function(memory::wide(0xC000_0000 + (n << PAGE_SHIFT)), 10) as usize] += 1);
        sizes.into_iter().max().expect("not empty")
    }

    #[test]
    fn the_sparse_multiplier_is_worse_on_page_addresses() {
        let (sparse, today) = (largest(hash_64_sparse), largest(hash_64));
        assert!(sparse > 50 * today && today <= 4, "{sparse} and {today}");
    }
}
