//! Loads and stores of memory that other threads, or the operating system, may access at the same time.
//!
//! A frame is changed by the holder of its exclusive latch while optimistic readers load from it; they discard what
//! they loaded if the frame's version changed (`pager/pool/`). Pages of a mapped file can become zeros
//! (`io/window.rs`). In Rust, ordinary accesses that race are undefined behaviour, and atomics access only whole
//! aligned words: a record of 26 bytes at an odd offset then takes a dozen shifts and merges. The processor has no such
//! limit. So on x86-64 each access is one instruction of inline assembly, which the compiler neither splits nor
//! repeats, and about which it assumes nothing.
//!
//! Such a load returns what relaxed atomic loads of its individual bytes could return, and a store does what relaxed
//! atomic stores of its bytes could do. Callers rely on nothing more. Other processors use the **portable twin**:
//! relaxed atomic accesses to the aligned words that contain the bytes. Tests compare the two, and sanitizers run the
//! twin (`--cfg splitpoint_portable`), since they cannot see accesses in assembly.
//!
//! Measured: a lookup of a pair of 24 bytes takes a quarter fewer instructions (docs/benchmarks.md, "What was tried").
//! Not here: which bytes may be accessed when (`pager/pool/`, `pager/pool/words.rs`, `io/window.rs`).
#![expect(unsafe_code, reason = "accesses that race, by instruction or as atomic words")]

#[cfg(not(all(target_arch = "x86_64", not(splitpoint_portable))))]
pub(crate) use portable::*;
#[cfg(all(target_arch = "x86_64", not(splitpoint_portable)))]
pub(crate) use x86_64::*;

/// Copies `len` bytes out of shared memory.
///
/// # Safety
/// `from` is the start of `len` bytes of a frame, or of a mapping that starts at a multiple of 8. `to` is the start of
/// `len` bytes that only this thread accesses.
#[inline]
pub(crate) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    if (16..=32).contains(&len) {
        // SAFETY: `len >= 16`; the first and the last 16 bytes may overlap.
        unsafe { to.cast::<u128>().write_unaligned(load16(from)) };
        // SAFETY: as above.
        unsafe { to.add(len - 16).cast::<u128>().write_unaligned(load16(from.add(len - 16))) };
    } else if len >= 16 {
        let mut at = 0;
        while at + 64 <= len {
            for part in 0..4 {
                // SAFETY: `at + 64 <= len`, and both are `len` bytes long, as the caller promises.
                unsafe { to.add(at + 16 * part).cast::<u128>().write_unaligned(load16(from.add(at + 16 * part))) };
            }
            at += 64;
        }
        while at + 16 < len {
            // SAFETY: `at + 16 < len`, as above.
            unsafe { to.add(at).cast::<u128>().write_unaligned(load16(from.add(at))) };
            at += 16;
        }
        // The last 16 bytes; some of them may be copied twice.
        // SAFETY: `len >= 16`.
        unsafe { to.add(len - 16).cast::<u128>().write_unaligned(load16(from.add(len - 16))) };
    } else if len >= 8 {
        // SAFETY: `len >= 8`.
        unsafe { to.cast::<u64>().write_unaligned(load8(from)) };
        // SAFETY: `len >= 8`.
        unsafe { to.add(len - 8).cast::<u64>().write_unaligned(load8(from.add(len - 8))) };
    } else {
        for at in 0..len {
            // SAFETY: `at < len`.
            unsafe { to.add(at).write(load1(from.add(at))) };
        }
    }
}

/// Bytes of a cache line, which is what a prefetch loads.
pub(crate) const LINE_BYTES: usize = 64;

/// Starts loading the cache line of `address` into the processor's cache. Any address is allowed.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    // SAFETY: a prefetch is a hint, and any address is allowed.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast()) };
}

/// Other processors prefetch by themselves or not at all.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn prefetch(_address: *const u8) {}

/// Starts loading the cache line of `address` into the processor's cache for a store, which takes it from other
/// processors' caches. Any address is allowed.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux maps the log"))]
#[inline]
pub(crate) fn prefetch_to_store(address: *const u8) {
    // SAFETY: a prefetch is a hint, and any address is allowed; processors without this instruction ignore it.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
}

/// Other processors prefetch by themselves or not at all.
#[cfg(not(target_arch = "x86_64"))]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux maps the log"))]
#[inline]
pub(crate) fn prefetch_to_store(_address: *const u8) {}

/// Copies `bytes` into shared memory.
///
/// # Safety
/// `to` is the start of `bytes.len()` bytes of a frame, whose exclusive latch this thread holds.
#[inline(always)]
pub(crate) unsafe fn copy_in(bytes: &[u8], to: *mut u8) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    if (8..=16).contains(&len) {
        // Covers most keys, and the branch below most values, without a function call.
        // SAFETY: `len >= 8`; the first and the last 8 bytes may overlap.
        unsafe { store8(to, from.cast::<u64>().read_unaligned()) };
        // SAFETY: as above.
        unsafe { store8(to.add(len - 8), from.add(len - 8).cast::<u64>().read_unaligned()) };
    } else if (16..=32).contains(&len) {
        // SAFETY: `len >= 16`.
        unsafe { store16(to, from.cast::<u128>().read_unaligned()) };
        // SAFETY: as above.
        unsafe { store16(to.add(len - 16), from.add(len - 16).cast::<u128>().read_unaligned()) };
    } else {
        // SAFETY: as the caller promises.
        unsafe { copy_in_any(bytes, to) };
    }
}

/// [`copy_in`] for any length.
///
/// # Safety
/// As for [`copy_in`].
#[inline(never)]
unsafe fn copy_in_any(bytes: &[u8], to: *mut u8) {
    let (from, len) = (bytes.as_ptr(), bytes.len());
    if len >= 16 {
        let mut at = 0;
        while at + 64 < len {
            // SAFETY: `at + 64 < len`, and both are `len` bytes long.
            let some = [0, 16, 32, 48].map(|part| unsafe { from.add(at + part).cast::<u128>().read_unaligned() });
            // SAFETY: as above.
            unsafe { store64(to.add(at), some) };
            at += 64;
        }
        while at + 16 < len {
            // SAFETY: `at + 16 < len`, and both are `len` bytes long.
            unsafe { store16(to.add(at), from.add(at).cast::<u128>().read_unaligned()) };
            at += 16;
        }
        // SAFETY: `len >= 16`.
        unsafe { store16(to.add(len - 16), from.add(len - 16).cast::<u128>().read_unaligned()) };
    } else if len >= 8 {
        if len > 8 {
            // SAFETY: `len > 8`.
            unsafe { store8(to, from.cast::<u64>().read_unaligned()) };
        }
        // SAFETY: `len >= 8`.
        unsafe { store8(to.add(len - 8), from.add(len - 8).cast::<u64>().read_unaligned()) };
    } else if len >= 4 {
        // SAFETY: `len >= 4`.
        unsafe { store4(to, from.cast::<u32>().read_unaligned()) };
        // SAFETY: `len >= 4`.
        unsafe { store4(to.add(len - 4), from.add(len - 4).cast::<u32>().read_unaligned()) };
    } else if len >= 2 {
        // SAFETY: `len >= 2`.
        unsafe { store2(to, from.cast::<u16>().read_unaligned()) };
        // SAFETY: `len >= 2`.
        unsafe { store2(to.add(len - 2), from.add(len - 2).cast::<u16>().read_unaligned()) };
    } else if let [byte] = *bytes {
        // SAFETY: `len` is 1.
        unsafe { store1(to, byte) };
    }
}

/// Moves `len` bytes within shared memory; the two ranges may overlap.
///
/// # Safety
/// Both ranges are in a frame whose exclusive latch this thread holds.
#[inline(always)]
pub(crate) unsafe fn move_within(from: *const u8, to: *mut u8, len: usize) {
    if (16..=32).contains(&len) {
        // Covers most records. Both halves are loaded before either is stored.
        // SAFETY: `len >= 16`; only this thread changes the frame.
        let first = unsafe { from.cast::<u128>().read_unaligned() };
        // SAFETY: as above.
        let last = unsafe { from.add(len - 16).cast::<u128>().read_unaligned() };
        // SAFETY: as the caller promises; `len >= 16`.
        unsafe { store16(to, first) };
        // SAFETY: as above.
        unsafe { store16(to.add(len - 16), last) };
        return;
    }
    // SAFETY: as the caller promises.
    unsafe { if len > 32 { move_many(from, to, len) } else { move_few(from, to, len) } };
}

/// [`move_within`] for fewer than 16 bytes.
///
/// # Safety
/// As for [`move_within`].
#[inline(never)]
unsafe fn move_few(from: *const u8, to: *mut u8, len: usize) {
    let mut bytes = [0u8; 16];
    // SAFETY: fewer than sixteen bytes of a frame that only this thread changes.
    unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
    // SAFETY: as the caller promises.
    unsafe { copy_in(&bytes[..len], to) };
}

/// [`move_within`] for more than 32 bytes.
///
/// # Safety
/// As for [`move_within`].
#[inline(never)]
unsafe fn move_many(mut from: *const u8, mut to: *mut u8, len: usize) {
    /// Moves 64 bytes: loads all of them before it stores the first.
    ///
    /// # Safety
    /// As for `move_within`, with 64 bytes.
    #[inline(always)]
    unsafe fn move64(from: *const u8, to: *mut u8) {
        // SAFETY: within the range, whose latch this thread holds.
        unsafe { store64(to, load_own(from)) };
    }
    /// The 64 bytes at `from`.
    ///
    /// # Safety
    /// As for `move_within`, with 64 bytes.
    #[inline(always)]
    unsafe fn load_own(from: *const u8) -> [u128; 4] {
        // SAFETY: within the range, which only this thread changes: plain loads suffice.
        [0, 16, 32, 48].map(|part| unsafe { from.add(part).cast::<u128>().read_unaligned() })
    }
    if len < 64 {
        let parts = [0, 16, len - 32, len - 16];
        // SAFETY: `len > 32`, so each part begins sixteen bytes of the range; all are loaded before any is stored.
        let loaded = parts.map(|at| unsafe { from.add(at).cast::<u128>().read_unaligned() });
        for (at, part) in parts.into_iter().zip(loaded) {
            // SAFETY: as above.
            unsafe { store16(to.add(at), part) };
        }
        return;
    }
    // The loops start at one end. They may overwrite the 64 bytes at the other end before they reach them, so these are
    // loaded first and stored last; some of them may be stored twice. No step stores where a later step loads.
    let mut left = len as isize - 64;
    if to.cast_const() <= from {
        // SAFETY: `len >= 64`, here and below.
        let (last, end) = unsafe { (load_own(from.add(len - 64)), to.add(len - 64)) };
        while left > 64 {
            // SAFETY: more than 128 bytes are to be moved from here on.
            unsafe {
                move64(from, to);
                move64(from.add(64), to.add(64));
                (from, to) = (from.add(128), to.add(128));
            }
            left -= 128;
        }
        if left > 0 {
            // SAFETY: more than 64 bytes are to be moved from here on.
            unsafe { move64(from, to) };
        }
        // SAFETY: the last 64 bytes of the destination.
        unsafe { store64(end, last) };
    } else {
        // SAFETY: `len >= 64`.
        let first = unsafe { load_own(from) };
        while left > 0 {
            // SAFETY: the 64 bytes from `left` on end at the end of the range, or where the bytes moved last begin.
            unsafe { move64(from.offset(left), to.offset(left)) };
            left -= 64;
        }
        // SAFETY: `len >= 64`.
        unsafe { store64(to, first) };
    }
}

#[cfg(all(target_arch = "x86_64", not(splitpoint_portable)))]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    macro_rules! load {
        ($name:ident, $type:ty, $instruction:literal, $class:ident) => {
            #[doc = concat!("The ", stringify!($type), " at `from`, little-endian, at any alignment.")]
            ///
            /// # Safety
            /// `from` is the start of that many bytes of live memory, which other threads access only as this file
            /// does.
            #[inline(always)]
            pub(crate) unsafe fn $name(from: *const u8) -> $type {
                let loaded: $type;
                // SAFETY: one load of memory that is live, as the caller promises; it changes nothing else.
                unsafe {
                    asm!($instruction, out($class) loaded, in(reg) from,
                         options(nostack, preserves_flags, readonly));
                }
                loaded
            }
        };
    }
    load!(load1, u8, "mov {0}, byte ptr [{1}]", reg_byte);
    load!(load8, u64, "mov {0}, qword ptr [{1}]", reg);
    load!(load_vector, __m128i, "movdqu {0}, xmmword ptr [{1}]", xmm_reg);

    macro_rules! store {
        ($name:ident, $type:ty, $instruction:literal, $class:ident) => {
            #[doc = concat!("Stores a ", stringify!($type), ", little-endian, at any alignment.")]
            ///
            /// # Safety
            /// `to` is the start of that many bytes of live memory, to which no other thread stores.
            #[inline(always)]
            pub(crate) unsafe fn $name(to: *mut u8, value: $type) {
                // SAFETY: one store to memory that is live and that only this thread changes, as the caller promises.
                unsafe { asm!($instruction, in(reg) to, in($class) value, options(nostack, preserves_flags)) }
            }
        };
    }
    store!(store1, u8, "mov byte ptr [{0}], {1}", reg_byte);
    store!(store2, u16, "mov word ptr [{0}], {1:x}", reg);
    store!(store4, u32, "mov dword ptr [{0}], {1:e}", reg);
    store!(store8, u64, "mov qword ptr [{0}], {1}", reg);
    store!(store_vector, __m128i, "movdqu xmmword ptr [{0}], {1}", xmm_reg);

    /// The sixteen bytes at `from`, little-endian, at any alignment.
    ///
    /// # Safety
    /// `from` is the start of that many bytes of live memory, which other threads access only as this file does.
    #[inline(always)]
    pub(crate) unsafe fn load16(from: *const u8) -> u128 {
        // SAFETY: the caller's promise; both types are sixteen plain bytes.
        unsafe { std::mem::transmute::<__m128i, u128>(load_vector(from)) }
    }

    /// Two adjacent sixteen-byte values, little-endian, at any alignment: number `PAIR` of those that begin at `from`.
    /// A number that is known in advance takes no register for the address.
    ///
    /// # Safety
    /// `from` is the start of that many bytes of live memory, which other threads access only as this file does.
    #[inline(always)]
    pub(crate) unsafe fn load32<const PAIR: usize>(from: *const u8) -> [u128; 2] {
        let (a, b): (__m128i, __m128i);
        // SAFETY: two loads of memory that is live, as the caller promises; they change nothing else.
        unsafe {
            asm!("movdqu {1}, xmmword ptr [{0} + {3}]", "movdqu {2}, xmmword ptr [{0} + {3} + 16]",
                 in(reg) from, out(xmm_reg) a, out(xmm_reg) b, const 32 * PAIR,
                 options(nostack, preserves_flags, readonly));
        }
        // SAFETY: both types are sixteen plain bytes.
        [a, b].map(|loaded| unsafe { std::mem::transmute::<__m128i, u128>(loaded) })
    }

    /// The three words of eight bytes at `from`, little-endian, at any alignment.
    ///
    /// # Safety
    /// `from` is the start of that many bytes of live memory, which other threads access only as this file does.
    #[inline(always)]
    pub(crate) unsafe fn load24(from: *const u8) -> [u64; 3] {
        let (a, b, c): (u64, u64, u64);
        // SAFETY: three loads of memory that is live, as the caller promises; they change nothing else. The outputs are
        // written before the last use of the input, so they are assigned other registers.
        unsafe {
            asm!("mov {1}, qword ptr [{0}]", "mov {2}, qword ptr [{0} + 8]", "mov {3}, qword ptr [{0} + 16]",
                 in(reg) from, out(reg) a, out(reg) b, lateout(reg) c,
                 options(nostack, preserves_flags, readonly));
        }
        [a, b, c]
    }

    /// Compares eight words with `wanted`, in the bits that are set in `mask`. The first word is at `first`, each other
    /// one `stride` bytes after the one before. Returns bit `2 * i` set if word `i` is equal. Takes no branches.
    ///
    /// # Safety
    /// Each word is in live memory, which other threads access only as this file does.
    #[cfg_attr(
        not(any(test, target_os = "linux")),
        expect(dead_code, reason = "only mapped files of Linux are searched")
    )]
    #[inline(always)]
    pub(crate) unsafe fn equal_of_8(first: *const u8, stride: usize, wanted: u64, mask: u64) -> u32 {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set1_epi64x,
        };
        // SAFETY: the caller's promise: words 2i and 2i + 1.
        let [a, b, c, d] = [0, 2, 4, 6].map(|i| unsafe { load_two(first.wrapping_add(i * stride), stride) });
        // SAFETY: SSE2 is part of x86-64.
        let equal_halves = unsafe {
            let (wanted, mask) = (_mm_set1_epi64x((wanted & mask) as i64), _mm_set1_epi64x(mask as i64));
            let equal = |two| _mm_cmpeq_epi32(_mm_and_si128(two, mask), wanted);
            let (first, last) = (_mm_packs_epi32(equal(a), equal(b)), _mm_packs_epi32(equal(c), equal(d)));
            _mm_movemask_epi8(_mm_packs_epi16(first, last)) as u32
        };
        equal_halves & equal_halves >> 1 & 0x5555
    }

    /// The words at `from` and at `stride` bytes after it.
    ///
    /// # Safety
    /// As for [`equal_of_8`].
    #[inline(always)]
    unsafe fn load_two(from: *const u8, stride: usize) -> __m128i {
        let loaded: __m128i;
        // SAFETY: two loads of memory that is live, as the caller promises; they change nothing else.
        unsafe {
            asm!("movq {0}, qword ptr [{1}]", "movhps {0}, qword ptr [{1} + {2}]",
                 out(xmm_reg) loaded, in(reg) from, in(reg) stride,
                 options(nostack, preserves_flags, readonly));
        }
        loaded
    }

    /// Adds `n` to each of the four numbers of 32 bits in `four`, wrapping.
    #[inline(always)]
    pub(crate) fn add_to_each(four: u128, n: u32) -> u128 {
        use std::arch::x86_64::{_mm_add_epi32, _mm_set1_epi32};
        // SAFETY: SSE2 is part of x86-64; both types are sixteen plain bytes.
        unsafe {
            let sums = _mm_add_epi32(std::mem::transmute::<u128, __m128i>(four), _mm_set1_epi32(n as i32));
            std::mem::transmute::<__m128i, u128>(sums)
        }
    }

    /// Adds `n` to the last `count` of the four numbers of 32 bits in `four`, wrapping; `count` is below 4.
    #[inline(always)]
    pub(crate) fn add_to_last(four: u128, n: u32, count: usize) -> u128 {
        use std::arch::x86_64::{_mm_add_epi32, _mm_and_si128, _mm_set1_epi32};
        const LAST: [u128; 4] = [0, u128::MAX << 96, u128::MAX << 64, u128::MAX << 32];
        // SAFETY: SSE2 is part of x86-64; both types are sixteen plain bytes.
        unsafe {
            let added = _mm_and_si128(_mm_set1_epi32(n as i32), std::mem::transmute::<u128, __m128i>(LAST[count % 4]));
            let sums = _mm_add_epi32(std::mem::transmute::<u128, __m128i>(four), added);
            std::mem::transmute::<__m128i, u128>(sums)
        }
    }

    /// Stores sixteen bytes, little-endian, at any alignment.
    ///
    /// # Safety
    /// `to` is the start of that many bytes of live memory, to which no other thread stores.
    #[inline(always)]
    pub(crate) unsafe fn store16(to: *mut u8, value: u128) {
        // SAFETY: the caller's promise; both types are sixteen plain bytes.
        unsafe { store_vector(to, std::mem::transmute::<u128, __m128i>(value)) }
    }

    /// Stores four adjacent sixteen-byte values, at any alignment.
    ///
    /// # Safety
    /// `to` is the start of that many bytes of live memory, to which no other thread stores.
    #[inline(always)]
    pub(crate) unsafe fn store64(to: *mut u8, values: [u128; 4]) {
        // SAFETY: both types are sixteen plain bytes.
        let [a, b, c, d] = values.map(|value| unsafe { std::mem::transmute::<u128, __m128i>(value) });
        // SAFETY: four stores to memory that is live and that only this thread changes, as the caller promises.
        unsafe {
            asm!("movdqu xmmword ptr [{0}], {1}", "movdqu xmmword ptr [{0} + 16], {2}",
                 "movdqu xmmword ptr [{0} + 32], {3}", "movdqu xmmword ptr [{0} + 48], {4}",
                 in(reg) to, in(xmm_reg) a, in(xmm_reg) b, in(xmm_reg) c, in(xmm_reg) d,
                 options(nostack, preserves_flags));
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64"), splitpoint_portable))]
mod portable {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// The aligned word that contains the byte at `at`, and the number of its bits before that byte.
    #[inline]
    unsafe fn word<'a>(at: *const u8) -> (&'a AtomicU64, u32) {
        let skip = at.addr() % 8;
        // SAFETY: frames and mappings start at multiples of 8 and consist of whole words, so the word is in the frame
        // of the byte; it is aligned, and all accesses that race with it are atomic.
        (unsafe { AtomicU64::from_ptr(at.sub(skip).cast_mut().cast()) }, 8 * skip as u32)
    }

    #[inline]
    pub(crate) fn add_to_each(four: u128, n: u32) -> u128 {
        (0..4).fold(0, |sums, i| sums | u128::from(((four >> (32 * i)) as u32).wrapping_add(n)) << (32 * i))
    }

    #[inline]
    pub(crate) fn add_to_last(four: u128, n: u32, count: usize) -> u128 {
        let last = u128::MAX.checked_shl(128 - 32 * (count as u32 % 4)).unwrap_or(0);
        four & !last | add_to_each(four, n) & last
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[cfg_attr(
        not(any(test, target_os = "linux")),
        expect(dead_code, reason = "only mapped files of Linux are searched")
    )]
    #[inline]
    pub(crate) unsafe fn equal_of_8(first: *const u8, stride: usize, wanted: u64, mask: u64) -> u32 {
        (0..8).fold(0, |equal, i| {
            // SAFETY: the caller's promise.
            let word = unsafe { load8(first.wrapping_add(i * stride)) };
            equal | u32::from((word ^ wanted) & mask == 0) << (2 * i)
        })
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn load1(from: *const u8) -> u8 {
        // SAFETY: the caller's promise.
        let (word, shift) = unsafe { word(from) };
        (u64::from_le(word.load(Relaxed)) >> shift) as u8
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn load8(from: *const u8) -> u64 {
        // SAFETY: the caller's promise.
        let (first, shift) = unsafe { word(from) };
        let low = u64::from_le(first.load(Relaxed)) >> shift;
        if shift == 0 {
            return low;
        }
        // SAFETY: the last of the eight bytes is in the next word.
        let (second, _) = unsafe { word(from.add(7)) };
        low | u64::from_le(second.load(Relaxed)) << (64 - shift)
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn load16(from: *const u8) -> u128 {
        // SAFETY: the caller promises 16 bytes.
        let (low, high) = unsafe { (load8(from), load8(from.add(8))) };
        u128::from(low) | u128::from(high) << 64
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn load24(from: *const u8) -> [u64; 3] {
        // SAFETY: the caller promises 24 bytes.
        [0, 8, 16].map(|at| unsafe { load8(from.add(at)) })
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn load32<const PAIR: usize>(from: *const u8) -> [u128; 2] {
        // SAFETY: the caller promises those 32 bytes.
        [0, 16].map(|at| unsafe { load16(from.add(32 * PAIR + at)) })
    }

    /// Replaces the low `count` bytes, at most 8.
    #[inline]
    unsafe fn store(to: *mut u8, value: u64, count: u32) {
        let mask = u64::MAX >> (64 - 8 * count);
        // SAFETY: the caller's promise.
        let (first, shift) = unsafe { word(to) };
        let merge = |word: &AtomicU64, value: u64, mask: u64| {
            word.store((u64::from_le(word.load(Relaxed)) & !mask | value & mask).to_le(), Relaxed);
        };
        merge(first, value << shift, mask << shift);
        if shift + 8 * count > 64 {
            // SAFETY: the last byte is in the next word.
            let (second, _) = unsafe { word(to.add(count as usize - 1)) };
            merge(second, value >> (64 - shift), mask >> (64 - shift));
        }
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn store1(to: *mut u8, value: u8) {
        // SAFETY: the caller's promise.
        unsafe { store(to, value.into(), 1) }
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn store2(to: *mut u8, value: u16) {
        // SAFETY: the caller's promise.
        unsafe { store(to, value.into(), 2) }
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn store64(to: *mut u8, values: [u128; 4]) {
        for (i, value) in values.into_iter().enumerate() {
            // SAFETY: the caller promises 64 bytes.
            unsafe { store16(to.add(16 * i), value) };
        }
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn store4(to: *mut u8, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { store(to, value.into(), 4) }
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn store8(to: *mut u8, value: u64) {
        // SAFETY: the caller's promise.
        unsafe { store(to, value, 8) }
    }

    /// # Safety
    /// As for the x86-64 twin.
    #[inline]
    pub(crate) unsafe fn store16(to: *mut u8, value: u128) {
        // SAFETY: the caller promises 16 bytes.
        unsafe { (store8(to, value as u64), store8(to.add(8), (value >> 64) as u64)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 192;

    type Store = unsafe fn(*mut u8, u128);

    proptest! {
        #[test]
        fn both_twins_find_the_same_words_among_eight(
            // Only two byte values, so that words are often equal, or differ in one byte.
            bytes in proptest::collection::vec(0..2_u8, LEN),
            stride in 1..20_usize, at in 0..40_usize, like in 0..8_usize, short in 0..=8_u32,
        ) {
            let words: Vec<u64> = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
            let first = words.as_ptr().cast::<u8>().wrapping_add(at);
            let mask = u64::MAX.checked_shr(64 - 8 * short).unwrap_or(0);
            let word = |i: usize| u64::from_le_bytes(*bytes[at + i * stride..].first_chunk().unwrap());
            let wanted = word(like) & mask;
            let expected = (0..8).fold(0, |all, i| all | u32::from(word(i) & mask == wanted) << (2 * i));
            // SAFETY: the last word ends at byte 40 + 7 * 19 + 8 of the words, at most.
            let found = [equal_of_8, portable::equal_of_8].map(|of_8| unsafe { of_8(first, stride, wanted, mask) });
            prop_assert_eq!(found, [expected; 2]);
        }
    }

    fn runs_of(value: u128) -> [u128; 4] {
        [value, !value, value.rotate_left(9), value ^ 7]
    }

    fn bytes_of(words: &mut [u64; LEN / 8]) -> *mut u8 {
        words.as_mut_ptr().cast()
    }

    proptest! {
        #[test]
        fn both_twins_load_and_store_the_same_bytes(start in any::<[u8; LEN]>(), at in 0..LEN - 64, value: u128) {
            let (mut here, mut there) = ([0u64; LEN / 8], [0u64; LEN / 8]);
            let (here, there) = (bytes_of(&mut here), bytes_of(&mut there));
            for (i, &byte) in start.iter().enumerate() {
                // SAFETY: `i` is below the length of both arrays.
                unsafe { (store1(here.add(i), byte), portable::store1(there.add(i), byte)) };
            }
            let all = |from: *mut u8| -> Vec<u8> {
                // SAFETY: each byte is in the array.
                (0..LEN).map(|i| unsafe { load1(from.add(i)) }).collect()
            };
            prop_assert_eq!(all(here), start);
            let (h, t) = (here.wrapping_add(at), there.wrapping_add(at));
            // SAFETY: `at + 64` is at most the length of both arrays, here and below.
            prop_assert_eq!(unsafe { load8(h) }, u64::from_le_bytes(*start[at..].first_chunk().unwrap()));
            // SAFETY: as above.
            let loaded = unsafe { (load1(h), load8(h), load16(h)) };
            // SAFETY: as above.
            let expected = unsafe { (portable::load1(t), portable::load8(t), portable::load16(t)) };
            prop_assert_eq!(loaded, expected);
            prop_assert_eq!(add_to_each(loaded.2, value as u32), portable::add_to_each(loaded.2, value as u32));
            for count in 0..4 {
                let sums = add_to_last(loaded.2, value as u32, count);
                prop_assert_eq!(sums, portable::add_to_last(loaded.2, value as u32, count));
                let number = |four: u128, i: usize| (four >> (32 * i)) as u32;
                for i in 0..4 {
                    let added = if i + count > 3 { value as u32 } else { 0 };
                    prop_assert_eq!(number(sums, i), number(loaded.2, i).wrapping_add(added));
                }
            }
            // SAFETY: as above.
            prop_assert_eq!(unsafe { load24(h) }, unsafe { portable::load24(t) });
            // SAFETY: as above.
            prop_assert_eq!(unsafe { load32::<0>(h) }, unsafe { portable::load32::<0>(t) });
            // SAFETY: as above.
            prop_assert_eq!(unsafe { load32::<1>(h) }, unsafe { portable::load32::<1>(t) });
            let stores: [(Store, Store); 6] = [
                // SAFETY: as above.
                (|p, v| unsafe { store2(p, v as u16) }, |p, v| unsafe { portable::store2(p, v as u16) }),
                // SAFETY: as above; four different runs.
                (|p, v| unsafe { store64(p, runs_of(v)) }, |p, v| unsafe { portable::store64(p, runs_of(v)) }),
                // SAFETY: as above.
                (|p, v| unsafe { store1(p, v as u8) }, |p, v| unsafe { portable::store1(p, v as u8) }),
                // SAFETY: as above.
                (|p, v| unsafe { store4(p, v as u32) }, |p, v| unsafe { portable::store4(p, v as u32) }),
                // SAFETY: as above.
                (|p, v| unsafe { store8(p, v as u64) }, |p, v| unsafe { portable::store8(p, v as u64) }),
                // SAFETY: as above.
                (|p, v| unsafe { store16(p, v) }, |p, v| unsafe { portable::store16(p, v) }),
            ];
            for (ours, twin) in stores {
                // SAFETY: as above.
                unsafe { (ours(h, value), twin(t, value)) };
                prop_assert_eq!(all(here), all(there));
            }
        }

        #[test]
        fn copies_and_moves_are_those_of_slices(
            start in any::<[u8; LEN]>(), a in 0..=LEN, b in 0..=LEN, to in 0..=LEN,
        ) {
            let range = a.min(b)..a.max(b);
            let to = to.min(LEN - range.len());
            let mut words = [0u64; LEN / 8];
            let memory = bytes_of(&mut words);
            // SAFETY: the array has LEN bytes.
            unsafe { copy_in(&start, memory) };
            let mut plain = start;
            plain.copy_within(range.clone(), to);
            // SAFETY: both ranges are within the array.
            unsafe { move_within(memory.add(range.start), memory.add(to), range.len()) };
            let mut moved = [0; LEN];
            // SAFETY: the array has LEN bytes.
            unsafe { copy_out(memory, moved.as_mut_ptr(), LEN) };
            prop_assert_eq!(moved, plain);
            let mut part = vec![0; range.len()];
            // SAFETY: the range is within the array, and `part` has its length.
            unsafe { copy_out(memory.add(range.start), part.as_mut_ptr(), part.len()) };
            prop_assert_eq!(&part[..], &plain[range.clone()]);
            // SAFETY: `to` and the length are within the array.
            unsafe { copy_in(&start[range.clone()], memory.add(to)) };
            // SAFETY: as above.
            unsafe { copy_out(memory, moved.as_mut_ptr(), LEN) };
            plain[to..to + range.len()].copy_from_slice(&start[range]);
            prop_assert_eq!(moved, plain);
        }
    }
}
