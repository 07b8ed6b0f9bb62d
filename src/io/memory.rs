//! Memory of the caller over which parts of a file are mapped: frames of a pool that are the file's own pages.
//!
//! Not here: the system calls (`mapped.rs`), the handler of faults (`guard.rs`).
#![expect(unsafe_code, reason = "only the maker of a range of memory knows what uses it")]

use std::marker::PhantomData;

/// How a file is mapped over memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// What is stored there is in the file, as if written.
    Shared,
    /// A page is the file's until it is stored to, and then memory of its own.
    Private,
}

/// A range of memory over which a file may be mapped.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux maps files over memory"))]
pub(crate) struct Memory<'a> {
    pub(super) start: *mut u8,
    pub(super) bytes: usize,
    mapping: PhantomData<&'a ()>,
}

impl Memory<'_> {
    /// # Safety
    /// The caller has mapped the `bytes` bytes from `start` on for reading and writing, and keeps them mapped for as
    /// long as `'a` and every [`MemoryGuard`] made of them lives. Each page has the bytes of the part of the file that
    /// comes to lie there, or bytes that nothing reads before they are written again. Where a guard says that it
    /// failed, nothing that was read there is used.
    pub(crate) unsafe fn new(start: *mut u8, bytes: usize) -> Self {
        Memory { start, bytes, mapping: PhantomData }
    }

    /// Guards it against faults. `None` where that cannot be done.
    pub(crate) fn guard(self) -> Option<Box<dyn MemoryGuard>> {
        #[cfg(target_os = "linux")]
        return super::guard::GuardedMemory::new(self).map(|guard| Box::new(guard) as Box<dyn MemoryGuard>);
        #[cfg(not(target_os = "linux"))]
        None
    }
}

/// While it lives, a page in guarded memory that the system cannot provide is zero from then on, and no signal.
pub(crate) trait MemoryGuard: Send + Sync {
    /// Was there such a page, ever? Asked after an access by the thread that made it, `false` says that the access
    /// found what was mapped there.
    fn failed(&self) -> bool;
}

/// Whether any mapping of this process that is guarded has met a page that the system could not provide.
#[inline]
pub(crate) fn had_faults() -> bool {
    #[cfg(target_os = "linux")]
    return super::guard::had_faults();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Bytes of a page of memory, the least that is mapped.
pub(crate) fn page_bytes() -> usize {
    #[cfg(target_os = "linux")]
    return super::guard::page_bytes();
    #[cfg(not(target_os = "linux"))]
    4096
}
